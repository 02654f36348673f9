"""How good a predictor is, as a page: the table as a picture, intervals as bars, the constant beside the rule.

Everything is a function of released sums and public numbers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from privpac.errors import ParameterError
from privpac.evaluation import Evaluation, EvaluationCertificate
from privpac.evaluation.results import MeasuredRate, percent, points, sure
from privpac.guarantee import Neighbours, Unit
from privpac.methods.hybrid import certify_voices_any
from privpac.report.pages import page, promise_lines, write_page
from privpac.report.plots import INK, NO, QUIET, YES, figure_of, svg
from privpac.result import Released

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "bars_figure",
    "bars_picture",
    "evaluated_section",
    "evaluation_html",
    "table_picture",
    "write_evaluation_report",
]


# How good a predictor is: the section that the pages of rules and of evaluations share, and its pictures.


WRONG = "#c2571a"
NAMES = {
    "error": "wrong",
    "constant": "a constant: wrong",
    "lift": "gain over the constant",
    "sensitivity": "finds (sensitivity)",
    "specificity": "leaves alone (specificity)",
    "precision": "right when it says yes",
    "balanced_accuracy": "balanced accuracy",
    "base_rate": "labelled yes",
    "accuracy": "right (accuracy)",
}
"""Rates in the words of the page."""


def evaluated_section(
    found: Evaluation | None, certificate: EvaluationCertificate | None, before: str | None = None
) -> dict[str, Any] | None:
    """What the template shows; None without an evaluation.  ``before``: what was certified before the data."""
    if found is None:
        return None
    rates = {name: rate for name, rate in found.rates.items() if name in NAMES}
    return {
        "sentence": found.sentence(),
        "sure": sure(found.confidence),
        "notes": found.notes(),
        "table": table_picture(found) if found.cells == "table" else "",
        "bars": bars_picture(found),
        "rows": [(NAMES[name], percent(r.value), _words(r.these), _words(r.like)) for name, r in rates.items()],
        "people": _people(found),
        "certificate": None if certificate is None else str(certificate),
        "least": None if certificate is None else str(certificate.least),
        "before": before,
    }


def before_the_data(released: Released) -> str | None:
    """What two voices promised before the data, for independent people of any kind, beside the certificate after them.

    The least number of people for the certificate's own figure, against the number that was released with it.
    """
    certificate, guarantee, size = released.certificate, released.guarantee, released.parameters.get("size")
    if certificate is None or guarantee is None or released.learner != "two voices" or not isinstance(size, int):
        return None
    excess = certificate.excess
    if not 0.0001 <= excess < 0.5:
        return None
    needed = certify_voices_any(
        records_per_user=None,
        size=size,
        theta=guarantee.epsilon / (1 if guarantee.neighbours is Neighbours.ADD_REMOVE else 2),
        alpha=f"{excess:.4f}",
        beta=1 - certificate.evaluation.confidence,
        levels=released.parameters["levels"],
    ).n_users
    here = max(0, certificate.least.people)
    if needed is None:
        return None
    better = "the promise before the data was better" if here >= needed else "this certificate says more"
    return (
        f"Before the data, with all of epsilon and any people, {points(excess)} were promised from {needed:,} people "
        f"on; the rule was learned from about {here:,}: {better}"
    )


def _words(interval: Any) -> str:
    return "–" if interval is None else f"{percent(interval.lo)} to {percent(interval.hi)}"


def _people(found: Evaluation) -> str:
    what = "people" if found.weight == "user" and found.unit is Unit.USER else "records"
    if found.people is not None:
        return f"{found.people:,} {what}, publicly known"
    counted = found.n_people
    return f"about {round(counted.value):,} {what} ({max(0, counted.these.lo):,.0f} to {counted.these.hi:,.0f})"


def table_picture(found: Evaluation) -> Markup:
    """The 2x2 table as areas: a column for each label, as wide as it is frequent, split into right and wrong."""
    cells = dict(zip(found.names, (max(0, value) for value in found.sums)))
    whole = sum(cells.values()) or 1
    figure, axes = figure_of(2.6)
    left, gap = 0.0, 0.012
    for label, (right, wrong) in (("labelled no", ("tn", "fp")), ("labelled yes", ("tp", "fn"))):
        width = (cells[right] + cells[wrong]) / whole
        bottom = 0.0
        for cell, colour in ((right, YES), (wrong, WRONG)):
            height = cells[cell] / whole / width if width else 0.0
            axes.bar(left, height, width=max(width - gap, 0), bottom=bottom, align="edge", color=colour, linewidth=0)
            if width > 0.12 and height > 0.09:
                said = "says no" if cell in ("tn", "fn") else "says yes"
                text = f"{said}\n{percent(cells[cell] / whole)}" if height > 0.2 else percent(cells[cell] / whole)
                middle = left + (width - gap) / 2
                axes.text(middle, bottom + height / 2, text, ha="center", va="center", color="white", fontsize=9)
            bottom += height
        if width > 0.05:
            axes.text(left + (width - gap) / 2, 1.03, f"{label}\n{percent(width)}", ha="center", va="bottom", color=INK)
        left += width
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_axis_off()
    shares = ", ".join(f"{name} {percent(value / whole)}" for name, value in cells.items())
    return svg(figure, f"right (green) and wrong (orange) for each label: {shares}")


def _shown_rates(found: Evaluation) -> list[tuple[str, MeasuredRate]]:
    wanted = ("error", "constant", "lift", "sensitivity", "specificity", "precision", "balanced_accuracy")
    return [(name, found.rates[name]) for name in wanted if name in found.rates]


def bars_picture(found: Evaluation) -> Markup:
    """Every rate with its intervals, as SVG text."""
    return svg(bars_figure(found), "; ".join(f"{NAMES[name]} {rate}" for name, rate in _shown_rates(found)))


def bars_figure(found: Evaluation) -> Figure:
    """Every rate with its intervals: these people thick, people like these thin; the constant beside the rule."""
    rates = _shown_rates(found)
    figure, axes = figure_of(0.5 + 0.34 * len(rates))
    low = 0.0
    for place, (name, rate) in enumerate(reversed(rates)):
        colour = QUIET if name == "constant" else WRONG if name == "error" else YES
        low = min(low, rate.shown.lo)
        if rate.like is not None:
            axes.plot([rate.like.lo, rate.like.hi], [place, place], color=colour, linewidth=1.6)
            for end in (rate.like.lo, rate.like.hi):
                axes.plot([end, end], [place - 0.16, place + 0.16], color=colour, linewidth=1.6)
        axes.plot([rate.these.lo, rate.these.hi], [place, place], color=colour, linewidth=6, solid_capstyle="butt")
        axes.plot([rate.value], [place], marker="o", color="white", markeredgecolor=INK, markersize=5)
    axes.set_yticks(range(len(rates)), [NAMES[name] for name, _ in reversed(rates)])
    axes.set_ylim(-0.6, len(rates) - 0.4)
    axes.set_xlim(max(-1.0, low - 0.02) if low < 0 else 0, 1)
    if low < 0:
        axes.axvline(0, color=QUIET, linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=NO, linewidth=0.8)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return figure


def evaluation_html(released: Released, *, subject: str = "the predictor") -> str:
    """The page of one evaluation as HTML text; ``subject`` says what was evaluated, in words."""
    found = released.hypothesis
    if not isinstance(found, Evaluation):
        raise ParameterError(f"this result is no evaluation but {type(found).__name__}; see pp.evaluate")
    public = [("weight", f"every {'person' if found.weight == 'user' else 'record'} counts the same")]
    public += [("steps of a person's share", str(found.levels))] if found.weight == "user" else []
    public += [("confidence of each interval", f"{100 * float(found.confidence):g} %")]
    public += [(name, str(value)) for name, value in released.parameters.items()]
    return page(
        "evaluation.html",
        released=released,
        subject=subject,
        said=found.sentence(),
        evaluated=evaluated_section(found, None),
        promise=promise_lines(released.guarantee),
        public=public,
    )


def write_evaluation_report(
    released: Released, path: str | os.PathLike[str], *, subject: str = "the predictor"
) -> Path:
    """Write the page to ``path``, whole or not at all."""
    return write_page(evaluation_html(released, subject=subject), path)
