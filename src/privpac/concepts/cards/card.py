"""A points card: whole points for each answer, yes above a threshold.

A card is read as clinicians read one: look up the points of each column, add them, compare with the threshold.  It may
carry a calibration: how often the label was 1 in each of a few bands of points, released with the card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import Rule
from privpac.concepts.cells import Frozen
from privpac.concepts.small_trees.columns import BinnedColumn
from privpac.data import Domain
from privpac.data.missing import values_of
from privpac.errors import ParameterError
from privpac.released import register

__all__ = ["Band", "Card", "CardLine", "band_edges", "bands_of", "bins_of"]

MAX_TOP = 1000
"""The most points that one answer may have."""


class Band(NamedTuple):
    """Points up to ``last``, and how often the label is 1 there: a rate, and the ends of its interval."""

    last: int
    rate: Fraction
    low: Fraction
    high: Fraction


class CardLine(NamedTuple):
    """One answer, or several neighbouring ones, and their points."""

    answer: str
    points: int


def bins_of(column: BinnedColumn, codes: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """The bin of every code of a column."""
    out = np.empty(len(codes), np.uint16)
    column.bin_codes(np.ascontiguousarray(codes), out)
    return out


def band_edges(most: int, bands: int) -> tuple[int, ...]:
    """The last sum of points of each band: ``0..most`` in bands of equal width, fewer where there are fewer sums."""
    count = max(1, min(bands, most + 1))
    return tuple((most + 1) * (g + 1) // count - 1 for g in range(count))


def bands_of(totals: NDArray[np.int64], edges: Sequence[int]) -> NDArray[np.int64]:
    """In which band each sum of points lies."""
    return np.searchsorted(np.array(edges, np.int64), totals, side="left")


@register("points-card")
@dataclass(frozen=True, repr=False)
class Card(Rule):
    """Points of every bin of every column; 1 iff their sum exceeds ``threshold``.

    ``top`` is the most that one answer can have; ``bands`` is the calibration, empty without one.
    """

    columns: tuple[BinnedColumn, ...]
    points: tuple[tuple[int, ...], ...]
    threshold: int
    top: int
    label: str = "1"
    bands: tuple[Band, ...] = ()

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.points) or not self.columns:
            raise ParameterError("a card has points for each of its columns")
        for column, points in zip(self.columns, self.points):
            if len(points) != column.width or not all(0 <= p <= self.top <= MAX_TOP for p in points):
                raise ParameterError(f"column {column.name!r} needs {column.width} points from 0 to {self.top}")
        lasts = [band.last for band in self.bands]
        if lasts and (lasts != sorted(set(lasts)) or lasts[-1] != self.most or lasts[0] < 0):
            raise ParameterError("the bands of a card must increase and end with the most points there are")
        if any(not 0 <= band.low <= band.rate <= band.high <= 1 for band in self.bands):
            raise ParameterError("the rates of a card must lie in their intervals, within 0 and 1")

    @property
    def features(self) -> Mapping[str, Domain]:
        return Frozen(tuple((column.name, column.domain) for column in self.columns))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns whose answers differ in points; the first where none do."""
        return tuple(column.name for column, points in self._varied) or (self.columns[0].name,)

    @property
    def _varied(self) -> list[tuple[BinnedColumn, tuple[int, ...]]]:
        return [(column, points) for column, points in zip(self.columns, self.points) if len(set(points)) > 1]

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards that a page shows."""
        return (self,)

    @property
    def least(self) -> int:
        return sum(min(points) for points in self.points)

    @property
    def most(self) -> int:
        """The most points that anybody can have."""
        return sum(max(points) for points in self.points)

    # Predicting

    def totals(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int64]:
        """The sum of points, row by row."""
        rows = len(next(iter(codes.values())))
        total = np.full(rows, sum(points[0] for points in self.points if len(set(points)) == 1), np.int64)
        for column, points in self._varied:
            total += np.array(points, np.int64)[bins_of(column, codes[column.name])]
        return total

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        return (self.totals(codes) > self.threshold).astype(np.int8)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """For each row the chances of 0 and of 1, from the calibration: the rate of its band of points."""
        if not self.bands:
            raise ParameterError(
                "this card was learned without a calibration, so it has no chances; learn it with calibrate='1/10'"
            )
        ones = self.rates(self.encode(X))
        return np.stack([1 - ones, ones], axis=1)

    def rates(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        """How often the label is 1 in the band of each row, of a card with a calibration."""
        rates = np.array([float(band.rate) for band in self.bands])
        return rates[bands_of(self.totals(codes), [band.last for band in self.bands])]

    # Words

    def lines(self, column: BinnedColumn, points: Sequence[int]) -> list[CardLine]:
        """The answers of a column and their points, neighbouring bins with the same points together."""
        domain = values_of(column.domain)
        if column.is_category:
            return [
                CardLine(domain.text(code) if code < column.bins else "missing", points[code])
                for code in range(column.width)
            ]
        runs = [(value, list(run)) for value, run in groupby(range(column.bins), key=lambda b: points[b])]
        out = []
        for i, (value, run) in enumerate(runs):
            last = run[-1]
            if len(run) == 1 and column.bins == domain.size:
                out.append(CardLine(domain.text(last), value))
            elif last < column.bins - 1:
                out.append(CardLine(f"≤ {domain.text(column.edges[last] - 1)}", value))
            else:
                out.append(CardLine("any" if i == 0 else f"> {domain.text(column.edges[run[0] - 1] - 1)}", value))
        return [*out, CardLine("missing", points[-1])] if column.has_missing else out

    @property
    def table(self) -> list[tuple[str, list[CardLine]]]:
        """Name and lines of every column whose answers differ in points."""
        return [(column.name, self.lines(column, points)) for column, points in self._varied]

    @property
    def idle(self) -> tuple[str, ...]:
        """Columns that give everybody the same points."""
        return tuple(column.name for column, points in zip(self.columns, self.points) if len(set(points)) == 1)

    def condition(self) -> str:
        if self.most <= self.threshold:
            return "never"
        if self.least > self.threshold:
            return "always"
        return f"the points exceed {self.threshold}"

    def __str__(self) -> str:
        """One line a column, read from left to right: the first answer that fits gives the points."""
        said = super().__str__()
        if self.condition() in ("always", "never"):
            return f"{said}, whatever the points"
        return "\n".join([said, *self.rows()])

    def rows(self) -> list[str]:
        """The lines below the first."""
        width = max((len(name) for name, _ in self.table), default=0)
        out = [
            f"  {name:<{width}}  " + " · ".join(f"{line.answer}: {line.points}" for line in lines)
            for name, lines in self.table
        ]
        if self.idle:
            out.append(f"  no points: {', '.join(self.idle)}")
        if self.bands:
            out.append("  points and how often: " + " · ".join(self.band_words()))
        return out

    def band_words(self) -> list[str]:
        """The calibration, band by band."""
        starts = [0, *(band.last + 1 for band in self.bands)]
        return [
            f"{start}–{band.last}: {float(band.rate):.0%} ({float(band.low):.0%} to {float(band.high):.0%})"
            for start, band in zip(starts, self.bands)
        ]

    @property
    def picture(self) -> Literal["domain", "regions", "card", "none"]:
        return "none" if self.condition() in ("always", "never") else "card"

    # Storage

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": [column.to_dict() for column in self.columns],
            "points": [list(points) for points in self.points],
            "threshold": self.threshold,
            "top": self.top,
            "label": self.label,
            "bands": [list(band) for band in self.bands],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            tuple(BinnedColumn.from_dict(column) for column in values["columns"]),
            tuple(tuple(_whole(p) for p in points) for points in values["points"]),
            _whole(values["threshold"]),
            _whole(values["top"]),
            str(values["label"]),
            tuple(
                Band(_whole(last), Fraction(rate), Fraction(low), Fraction(high))
                for last, rate, low, high in values["bands"]
            ),
        )


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterError("points are whole numbers")
    return value
