"""The ROC curve of an evaluation with its band, and its calibration: pictures for the page of a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from privpac.report.plots import INK, NO, QUIET, YES, figure_of, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privpac.evaluation import Evaluation


def roc_picture(found: Evaluation) -> Markup:
    """The curve as SVG text."""
    return svg(roc_figure(found), f"ROC curve, area {found.auc}")


def roc_figure(found: Evaluation) -> Figure:
    """False against true positive rates, each with its simultaneous interval; what chance would do is grey."""
    figure, axes = figure_of(3.4)
    rows = found.roc()
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8)
    for row in rows[1:-1]:
        fpr, tpr = row.fpr.shown, row.tpr.shown
        axes.fill_between([fpr.lo, fpr.hi], tpr.lo, tpr.hi, color=YES, alpha=0.18, linewidth=0)
    axes.plot([row.fpr.value for row in rows], [row.tpr.value for row in rows], color=YES, linewidth=1.6)
    for row in rows[1:-1]:
        axes.plot([row.fpr.value], [row.tpr.value], marker="o", color="white", markeredgecolor=INK, markersize=5)
    _percent_axes(axes, "false positives: of the labels 0, said 1", "true positives: of the labels 1, said 1")
    return figure


def calibration_picture(found: Evaluation) -> Markup:
    """The chances of the rule against what was measured, as SVG text."""
    rows = found.calibration()
    words = "; ".join(f"{row.region}: said {100 * row.chance:.0f} %, measured {row.measured}" for row in rows)
    return svg(calibration_figure(found), f"calibration: {words}")


def calibration_figure(found: Evaluation) -> Figure:
    """Each region's chance and how often the label is 1 there, with intervals that hold together."""
    figure, axes = figure_of(3.4)
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8)
    for row in found.calibration():
        ends, inner = row.measured.shown, row.measured.sample
        axes.plot([row.chance, row.chance], [ends.lo, ends.hi], color=YES, linewidth=1.6)
        axes.plot([row.chance, row.chance], [inner.lo, inner.hi], color=YES, linewidth=6, solid_capstyle="butt")
        axes.plot([row.chance], [row.measured.value], marker="o", color="white", markeredgecolor=INK, markersize=5)
    _percent_axes(axes, "chance of 1 that the rule gives", "how often the label is 1")
    return figure


def _percent_axes(axes, across: str, up: str) -> None:  # type: ignore[no-untyped-def]
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
    axes.set_axisbelow(True)
    axes.grid(color=NO, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
