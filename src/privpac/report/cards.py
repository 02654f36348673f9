"""The picture of a points card: a strip for each column, its answers from left to right, darker where they give more
points."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from privpac.concepts.cards.card import Card
from privpac.concepts.small_trees.columns import BinnedColumn
from privpac.data.missing import values_of
from privpac.lazy import need
from privpac.report.plots import INK, NO, QUIET, YES, figure_of, plain_name, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["card_figure", "cards_of"]

_ROW, _BAR = 0.5, 0.42
_MISSING = 0.09
"""The width of the box of missing values, beside a strip of width 1."""
_MOST_ROWS = 60
_FEW = 8
_LETTER = 0.021
"""About the width of a letter below a strip."""


@cache
def _shades() -> Any:
    return need("matplotlib.colors").LinearSegmentedColormap.from_list("points", [NO, YES])


def cards_of(rule: Any) -> list[dict[str, Any]]:
    """What a page shows of a card, or of each of several; nothing of other rules and of constants."""
    if getattr(rule, "picture", "") != "card":
        return []
    return [
        {
            "label": card.label,
            "threshold": card.threshold,
            "most": card.most,
            "picture": svg(card_figure(card), str(card)) if card.table else "",
            "lines": card.table,
            "idle": card.idle,
            "bands": card.band_words() if card.bands else (),
        }
        for card in rule.cards
    ]


def card_figure(card: Card) -> Figure:
    """All columns whose answers differ in points, up to a page of them."""
    shown = [(column, points) for column, points in zip(card.columns, card.points) if column.name in card.reads][
        :_MOST_ROWS
    ]
    figure, axes = figure_of(_ROW * len(shown) + 0.3)
    for row, (column, points) in enumerate(shown):
        y = -float(row)
        axes.text(-0.02, y + _BAR / 2, plain_name(column.name, 18), ha="right", va="center", fontsize=9, color=INK)
        _strip(axes, column, points, y, card.top)
    axes.set_xlim(-0.02, 1.02 + _MISSING)
    axes.set_ylim(-len(shown) + 0.55, 1 - 0.4)
    axes.axis("off")
    return figure


def _strip(axes: Any, column: BinnedColumn, points: tuple[int, ...], y: float, top: int) -> None:
    """One column: neighbouring bins with the same points are one box."""
    whole, named, last = column.width if column.is_category else column.bins, _named(column), -1.0
    key = (lambda b: b) if named else (lambda b: points[b])
    for _, run in groupby(range(whole), key=key):
        bins = list(run)
        left, right = bins[0] / whole, (bins[-1] + 1) / whole
        _box(axes, left, right, y, points[bins[0]], top)
        name = _answer(column, bins[-1])
        wide = len(name) * _LETTER
        at = (left + right) / 2 if named else right
        if name and at - wide / 2 > last:  # names that would run into each other are left out; the table has all
            axes.text(at, y - 0.05, plain_name(name, 12), ha="center", va="top", fontsize=6.5, color=QUIET)
            last = at + wide / 2
    if column.has_missing and not column.is_category:
        _box(axes, 1.02, 1.02 + _MISSING, y, points[-1], top)
        axes.text(1.02 + _MISSING / 2, y - 0.05, "missing", ha="center", va="top", fontsize=6.5, color=QUIET)


def _named(column: BinnedColumn) -> bool:
    """Whether every box is one value: a category, or one of a few numbers."""
    return column.is_category or column.bins == values_of(column.domain).size <= _FEW


def _answer(column: BinnedColumn, last: int) -> str:
    """What stands below a box: its value, or the cut at its end."""
    domain = values_of(column.domain)
    if _named(column):
        return domain.text(last) if last < column.bins else "missing"
    return domain.text(column.edges[last] - 1) if last < column.bins - 1 else ""


def _box(axes: Any, left: float, right: float, y: float, points: int, top: int) -> None:
    shade = points / top
    box = need("matplotlib.patches").Rectangle
    axes.add_patch(box((left, y), right - left, _BAR, facecolor=_shades()(shade), edgecolor="white", linewidth=0.8))
    if right - left > 0.03:
        colour = "white" if shade > 0.45 else INK
        axes.text((left + right) / 2, y + _BAR / 2, str(points), ha="center", va="center", fontsize=7.5, color=colour)
