"""A small tree as a picture: questions in boxes, answers on the lines, labels in the leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from privpac.report.plots import INK, NO, QUIET, WIDTH, YES, figure_of, plain_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AskingRule", "questions_figure"]

_LONGEST = 34
_SIDES = ("yes", "no")


class AskingRule(Protocol):
    """A rule that asks questions: the first one, and of each side its label, or its question and two labels."""

    @property
    def drawn(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]: ...

    def condition(self) -> str: ...


def questions_figure(rule: AskingRule) -> Figure:
    """The tree from the first question down."""
    root, yes, no = rule.drawn
    deep = max(len(yes), len(no)) > 1
    figure, axes = figure_of(2.3 if deep else 1.5)
    figure.set_size_inches(WIDTH * 1.35, figure.get_size_inches()[1])
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.12 if deep else 0.35, 1.08)
    _box(axes, 0.5, 1.0, root, None)
    for x, side, answer in ((0.25, yes, "yes"), (0.75, no, "no")):
        _line(axes, (0.5, 1.0), (x, 0.5), answer)
        if len(side) == 1:
            _box(axes, x, 0.5, side[0], side[0])
            continue
        _box(axes, x, 0.5, side[0], None)
        for at, label, inner in zip((x - 0.125, x + 0.125), side[1:], _SIDES):
            _line(axes, (x, 0.5), (at, 0.0), inner)
            _box(axes, at, 0.0, label, label)
    return figure


def _box(axes: Any, x: float, y: float, text: str, label: str | None) -> None:
    """A question, or a leaf in the colour of its label."""
    shown = plain_name(text, _LONGEST)
    colour = "white" if label is None else YES if label == "yes" else NO
    axes.text(
        x,
        y,
        shown,
        ha="center",
        va="center",
        fontsize=9,
        color="white" if label == "yes" else INK,
        fontweight="normal" if label is None else "bold",
        zorder=3,
        bbox={
            "boxstyle": "round,pad=0.45" if label is not None else "square,pad=0.45",
            "facecolor": colour,
            "edgecolor": QUIET,
        },
    )


def _line(axes: Any, start: tuple[float, float], end: tuple[float, float], answer: str) -> None:
    axes.plot([start[0], end[0]], [start[1], end[1]], color=QUIET, linewidth=1, zorder=1)
    axes.text(
        (start[0] + end[0]) / 2,
        (start[1] + end[1]) / 2,
        answer,
        fontsize=8,
        color=QUIET,
        ha="center",
        va="center",
        zorder=2,
        bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"},
    )
