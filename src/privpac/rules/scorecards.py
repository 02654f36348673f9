"""A scorecard: whole points for each answer, yes above a threshold.

A scorecard is read as clinicians read one: look up the points of each column, add them, compare with the threshold.
The learner also stores the log odds that the points stand for (:class:`LogOdds`), so every scorecard has chances.  It
may carry a calibration: how often the label was 1 in each of a few calibration bins, released with the scorecard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from attrs import field, frozen
from flint import arb, fmpz_poly
from numpy.typing import NDArray

from privpac.data import Domain
from privpac.errors import ParameterError, TooLargeError, Undecided
from privpac.exact import MAX_PRECISION, Rational, precision
from privpac.parameters import bounds, named, whole
from privpac.rules.base import Frozen, Rule
from privpac.rules.chances import BANDS, DEFAULT_BANDS, Regions
from privpac.rules.enumerated import domains_or_none
from privpac.rules.export.expression import Amount, Cases, CodesIn, Expression, HighestTotal, SumExceeds, runs
from privpac.rules.wide_columns import (
    DEFAULT_CUTS,
    BinnedColumn,
    Cuts,
    WideClass,
    read_classes,
    read_cuts,
    read_missing,
)

if TYPE_CHECKING:
    from privpac.rules.export.points import PointLine

# The public codes of a scorecard's columns: how the bin of a value becomes a few integers.
#
# All units are ``1/U`` with ``U = 4096``.
#
# * A column of numbers with ``B`` bins has at most three smooth waves: bin ``b`` at ``x = (b + 1/2)/B`` has the
#   coordinates ``-U cos(pi k x)/k``, ``k = 1..min(3, B - 1)``, to the nearest integer; two bins have one coordinate,
#   ``-U`` and ``+U``.  Three waves cost the noise of three coordinates however fine the cuts are.  A missing value has
#   0 in these and ``U`` in a last coordinate of its own.
# * A category has ``U`` at its code and 0 elsewhere; missing is one more code.
#
# The norm of a column's code is below ``7 U/6``: the coordinates are at most ``U``, ``U/2`` and ``U/3`` rounded, 4096,
# 2048 and 1365, and ``1 + 1/4 + 1/9 = 49/36``.
#
# *Rounding.*  Values are rounded from balls.  A rational cosine of a rational angle is 0, 1/2 or 1 in size (Niven), and
# none of these leaves a half after the division by ``k``, so more bits always decide.


U = 4096
"""The unit of codes, centres, residuals and gradients."""

LANES = 3
"""Neighbouring coordinates in which one code may differ from 0."""

MAX_COORDINATES = 1 << 18
"""With fewer coordinates every sum of the scorecard stays within 64 bits."""

_SCORES_A_UNIT = 256


class CodeShape(NamedTuple):
    """What a code depends on: whether bins are ordered, how many there are, and whether a value may be missing."""

    ordered: bool
    bins: int
    missing: bool = False

    @property
    def codes(self) -> int:
        """The number of codes; a missing value is the last."""
        return self.bins + self.missing

    @property
    def waves(self) -> int:
        return min(LANES, self.bins - 1) if self.ordered else 0

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return self.waves + self.missing if self.ordered else self.codes


def nearest(compute: Callable[[], arb]) -> int:
    """The integer nearest to a real that is no half, from balls at growing precision."""
    bits = 64
    while bits <= MAX_PRECISION:
        with precision(bits):
            found = (compute() + arb(1) / 2).floor().unique_fmpz()
        if found is not None:
            return int(found)
        bits *= 2
    raise Undecided("a public table could not be rounded")


@lru_cache(maxsize=256)
def code_rows(shape: CodeShape) -> tuple[tuple[int, ...], ...]:
    """The coordinates of every code, a missing value last.

    >>> code_rows(CodeShape(True, 3, True))
    ((-3547, -1024, 0), (0, 2048, 0), (3547, -1024, 0), (0, 0, 4096))
    """
    if shape.bins < 1 or shape.codes < 2:
        raise ParameterError(f"a column of a scorecard needs two codes or more, got {shape.codes}")
    if not shape.ordered:
        return tuple(tuple(U * (i == k) for k in range(shape.codes)) for i in range(shape.codes))
    rows = [[_wave(b, k, shape.bins) for k in range(1, shape.waves + 1)] for b in range(shape.bins)]
    if shape.bins == 2:
        rows = [[-U], [U]]
    if shape.missing:
        rows = [[*row, 0] for row in rows] + [[*([0] * shape.waves), U]]
    return tuple(map(tuple, rows))


def _wave(b: int, k: int, bins: int) -> int:
    return nearest(lambda: -U * (arb.pi() * k * (2 * b + 1) / (2 * bins)).cos() / k)


@lru_cache(maxsize=1)
def sigmoid_table() -> NDArray[np.int64]:
    """``U / (1 + e**(-k/256))`` to the nearest integer, for ``k = -4096..4096``; ``k = 0`` is in the middle."""

    def at(k: int) -> int:
        return nearest(lambda: U / (1 + (arb(-k) / _SCORES_A_UNIT).exp()))

    table = np.array([at(k) for k in range(-U, U + 1)], np.int64)
    table.setflags(write=False)
    return table


class CodeTable(NamedTuple):
    """The codes of all columns, one entry a (column, code) pair, ready for compiled loops.

    Entry ``e = base[j] + code`` differs from 0 in the coordinates ``first[e], first[e] + 1, first[e] + 2`` at most, by
    ``lanes[e]``.  Coordinate 0 is the intercept.
    """

    shapes: tuple[CodeShape, ...]
    base: NDArray[np.int64]
    first: NDArray[np.int64]
    lanes: NDArray[np.int64]
    place: NDArray[np.int64]
    """For each column the first coordinate of all its codes, -1 where codes differ in it."""
    coordinates: int
    """Without the intercept."""

    @property
    def columns(self) -> int:
        return len(self.shapes)

    def scores(self, weights: Sequence[int]) -> list[int]:
        """For every entry the sum of its coordinates times their weights, the intercept's weight being the first."""
        padded = [*weights, *([0] * LANES)]
        return [
            sum(int(z) * padded[at + i] for i, z in enumerate(row))
            for at, row in zip(self.first.tolist(), self.lanes.tolist())
        ]

    def split(self, entries: Sequence[int]) -> list[list[int]]:
        """Values of all entries, column by column."""
        starts = self.base.tolist()
        return [list(entries[at : at + shape.codes]) for at, shape in zip(starts, self.shapes)]


def code_table(shapes: Sequence[CodeShape]) -> CodeTable:
    """The codes of some columns, in order."""
    shapes = tuple(shapes)
    coordinates = sum(shape.width for shape in shapes)
    if coordinates >= MAX_COORDINATES:
        raise TooLargeError(
            f"a scorecard of {coordinates} coordinates is too wide, fewer than {MAX_COORDINATES} are allowed; "
            "declare fewer "
            "categories or columns"
        )
    base: list[int] = []
    first: list[int] = []
    lanes: list[tuple[int, ...]] = []
    at = 1
    for shape in shapes:
        base.append(len(first))
        for code, row in enumerate(_sparse(shape)):
            place = code if not shape.ordered else shape.waves if code == shape.bins else 0
            first.append(at + place)
            lanes.append(row)
        at += shape.width
    return CodeTable(
        shapes,
        np.array(base, np.int64),
        np.array(first, np.int64),
        np.array(lanes, np.int64).reshape(-1, LANES),
        np.array([first[e] if shape.ordered and not shape.missing else -1 for e, shape in zip(base, shapes)], np.int64),
        coordinates,
    )


def column_codes(columns: Sequence[BinnedColumn]) -> CodeTable:
    """The codes of columns in their bins."""
    return code_table([CodeShape(not column.is_category, column.bins, column.has_missing) for column in columns])


def _sparse(shape: CodeShape) -> list[tuple[int, ...]]:
    """The coordinates of every code from its first that may differ from 0 on, without listing one-hot rows whole."""
    alone = (U, *([0] * (LANES - 1)))
    if not shape.ordered:
        return [alone] * shape.codes
    whole = code_rows(shape)[: shape.bins]
    rows = [(*row[: shape.waves], *([0] * (LANES - shape.waves))) for row in whole]
    return [*rows, alone] if shape.missing else rows


_MAX_TOP = 1000
"""The most points that one answer may have."""
_MOST_LOG_ODDS = 1 << 64


class CalibrationBin(NamedTuple):
    """Points up to ``last``, and how often the label is 1 there: a rate, and the ends of its interval."""

    last: int
    rate: Fraction
    low: Fraction
    high: Fraction


class LogOdds(NamedTuple):
    """What points stand for: so many points have the log odds ``unit * points + offset``."""

    unit: Fraction
    offset: Fraction

    def of(self, points: int) -> Fraction:
        """The log odds of so many points."""
        return self.unit * points + self.offset


def chance_of(log_odds: float) -> float:
    """``1 / (1 + e**-x)`` from ``e**-|x|``, so that nothing overflows; above 1/2 iff ``x > 0``, below it iff ``x < 0``.

    >>> chance_of(0.0), chance_of(-1000.0), chance_of(1e-300) > 0.5
    (0.5, 0.0, True)
    """
    small = math.exp(-abs(log_odds))
    chance = (1.0 if log_odds > 0 else small) / (1.0 + small)
    return math.nextafter(0.5, float(log_odds > 0)) if log_odds and chance == 0.5 else chance


# Bands of points that hold people, not points: what a table of chances and a ROC curve are measured on.
#
# ``f(P)`` is how often points ``P`` are to be expected if columns were independent, in integers, from the weights that
# the released centre gives to every answer (:func:`privpac.methods.scorecard_odds.answer_weights`).  Fifteen raw edges
# cut it into sixteen parts: eight on each side of the scorecard's own threshold, or sixteen in all where it is
# constant.  Coarser bands take every second, fourth or eighth of them, so that the threshold is an edge of all.


def points_mass(points: Sequence[Sequence[int]], weights: Sequence[Sequence[int]], most: int) -> list[int]:
    """How often every sum of points from 0 to ``most`` is to be expected, up to a factor.

    One product of polynomials, one for each column, multiplied in pairs of about the same length.
    """
    factors = []
    for column, own in zip(points, weights):
        counted = [0] * (max(column) + 1)
        for p, weight in zip(column, own):
            counted[p] += weight
        factors.append(fmpz_poly(counted))
    while len(factors) > 1:
        pairs = [a * b for a, b in zip(factors[::2], factors[1::2])]
        factors = pairs + factors[len(factors) - len(factors) % 2 :]
    return [int(factors[0][p]) for p in range(most + 1)]


def raw_edges(mass: Sequence[int], threshold: int) -> tuple[int, ...]:
    """The fifteen nested edges of sixteen bands, not yet without duplicates."""
    most = len(mass) - 1

    def cuts(first: int, last: int, parts: int) -> list[int]:
        sums = list(accumulate(mass[first : last + 1]))
        return [
            first + next(x for x, below in enumerate(sums) if parts * below >= i * sums[-1]) for i in range(1, parts)
        ]

    if 0 <= threshold < most:
        return (*cuts(0, threshold, 8), threshold, *cuts(threshold + 1, most, 8))
    return tuple(cuts(0, most, 16))


def band_edges(edges: Sequence[int], most: int, bands: int) -> tuple[int, ...]:
    """The last points of each of at most so many bands."""
    if bands not in BANDS:
        raise ParameterError(f"bands must be 2, 4, 8 or 16, got {bands!r}")
    step = 16 // bands
    return (*sorted({edges[i - 1] for i in range(step, 16, step)} - {most}), most)


class ScorecardLine(NamedTuple):
    """One answer, or several neighbouring ones, and their points."""

    answer: str
    points: int


def bins_of(column: BinnedColumn, codes: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """The bin of every code of a column."""
    out = np.empty(len(codes), np.uint16)
    column.bin_codes(np.ascontiguousarray(codes), out)
    return out


def calibration_edges(most: int, bins: int) -> tuple[int, ...]:
    """The last sum of points of each bin: ``0..most`` in bins of equal width, fewer where there are fewer sums."""
    count = max(1, min(bins, most + 1))
    return tuple((most + 1) * (g + 1) // count - 1 for g in range(count))


def calibration_bins_of(totals: NDArray[np.int64], edges: Sequence[int]) -> NDArray[np.int64]:
    """In which bin each sum of points lies."""
    return np.searchsorted(np.array(edges, np.int64), totals, side="left")


@frozen(slots=False, repr=False)
class Scorecard(Rule):
    """Points of every bin of every column; 1 iff their sum exceeds ``threshold``.

    ``top`` is the most that one answer can have; ``calibration`` has its bins, empty without one.  ``log_odds`` says
    what the points stand for and ``weights`` how often every answer is to be expected, both from released numbers;
    files of earlier scorecards have neither.
    """

    saved_as: ClassVar[str] = "points-scorecard"
    columns: tuple[BinnedColumn, ...]
    points: tuple[tuple[int, ...], ...]
    threshold: int
    top: int
    label: str = "1"
    calibration: tuple[CalibrationBin, ...] = ()
    log_odds: LogOdds | None = None
    weights: tuple[tuple[int, ...], ...] = ()

    def __attrs_post_init__(self) -> None:
        if len(self.columns) != len(self.points) or not self.columns:
            raise ParameterError("a scorecard has points for each of its columns")
        for column, points in zip(self.columns, self.points):
            if len(points) != column.width or not all(0 <= p <= self.top <= _MAX_TOP for p in points):
                raise ParameterError(f"column {column.name!r} needs {column.width} points from 0 to {self.top}")
        lasts = [each_bin.last for each_bin in self.calibration]
        if lasts and (lasts != sorted(set(lasts)) or lasts[-1] != self.most or lasts[0] < 0):
            raise ParameterError("the bins of a scorecard must increase and end with the most points there are")
        if any(not 0 <= each_bin.low <= each_bin.rate <= each_bin.high <= 1 for each_bin in self.calibration):
            raise ParameterError("the rates of a scorecard must lie in their intervals, within 0 and 1")
        self._check_scores()

    def _check_scores(self) -> None:
        """Points above the threshold have log odds above 0; every answer has a weight."""
        if self.log_odds is not None:
            unit, offset = self.log_odds
            if unit < 0 or max(unit, abs(offset)) > _MOST_LOG_ODDS:
                raise ParameterError("the log odds of a scorecard must rise with its points")
            if unit and -offset // unit != self.threshold:
                raise ParameterError("the log odds of a scorecard must be above 0 exactly above its threshold")
        sizes = [len(own) for own in self.weights]
        if self.weights and sizes != [len(points) for points in self.points]:
            raise ParameterError("a scorecard has a weight for each answer, or none")
        if any(weight < 1 for own in self.weights for weight in own):
            raise ParameterError("the weights of a scorecard must be 1 or more")

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
    def scorecards(self) -> tuple[Scorecard, ...]:
        """The scorecards that a page shows."""
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

    @property
    def has_chances(self) -> bool:
        return self.log_odds is not None or bool(self.calibration)

    def chances_of(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        """The chances of 0 and of 1: from the log odds; for scorecards of earlier versions, which have none, from the
        calibration."""
        ones = self._each(lambda p: self.chance(p), codes) if self.log_odds is not None else self.rates(codes)
        return np.stack([1 - ones, ones], axis=1)

    def log_odds_of(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        if self.log_odds is None:
            return super().log_odds_of(codes)
        return self._each(lambda p: float(self._odds.of(p)), codes)

    @property
    def _odds(self) -> LogOdds:
        if self.log_odds is None:
            raise ParameterError(_NO_LOG_ODDS)
        return self.log_odds

    def chance(self, points: int) -> float:
        """The chance of somebody with so many points."""
        return chance_of(float(self._odds.of(points)))

    def _each(self, value: Callable[[int], float], codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        """A number for every sum of points that occurs, row by row."""
        totals, rows = np.unique(self.totals(codes), return_inverse=True)
        return np.array([value(points) for points in totals.tolist()], np.float64)[rows.reshape(-1)]

    # Bands

    @cached_property
    def mass(self) -> list[int]:
        """How often every sum of points is to be expected; without weights all answers of a column count alike."""
        weights = self.weights or tuple((1,) * len(points) for points in self.points)
        return points_mass(self.points, weights, self.most)

    def regions(self, bands: int = DEFAULT_BANDS) -> Regions:
        lasts = self.bands(bands)
        starts = [0, *(last + 1 for last in lasts)]
        names = tuple(f"{start} to {last} points" for start, last in zip(starts, lasts))
        chances = () if self.log_odds is None else tuple(map(self._mean_chance, starts, lasts))
        return Regions(names, tuple(int(last > self.threshold) for last in lasts), tuple(range(len(lasts))), chances)

    def _mean_chance(self, first: int, last: int) -> float:
        """The chance of somebody in a band, weighted by how often points are to be expected; alike where none are."""
        mass = self.mass[first : last + 1]
        total = sum(mass)
        shares = [Fraction(m, total) for m in mass] if total else [Fraction(1, len(mass))] * len(mass)
        return math.fsum(float(share) * self.chance(p) for p, share in enumerate(shares, first) if share)

    def region_codes(self, codes: Mapping[str, NDArray[np.uint64]], bands: int = DEFAULT_BANDS) -> NDArray[np.uint8]:
        return calibration_bins_of(self.totals(codes), self.bands(bands)).astype(np.uint8)

    def bands(self, count: int = DEFAULT_BANDS) -> tuple[int, ...]:
        """The last points of each of at most so many bands; the threshold is one of them unless the answer is
        constant."""
        return band_edges(raw_edges(self.mass, self.threshold), self.most, count)

    def rates(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        """How often the label is 1 in the bin of each row, of a scorecard with a calibration."""
        rates = np.array([float(each_bin.rate) for each_bin in self.calibration])
        return rates[calibration_bins_of(self.totals(codes), [each_bin.last for each_bin in self.calibration])]

    # In other languages

    def _terms(self) -> list[Amount]:
        """The numbers that :meth:`totals` adds up."""
        terms: list[Amount] = [points[0] for points in self.points if len(set(points)) == 1]
        for column, points in self._varied:
            ranges: dict[int, list[tuple[int, int]]] = {}
            for value, first, last in runs(points[: column.bins]):
                ranges.setdefault(value, []).extend(column.expression(first, last).ranges)
            if column.has_missing:
                ranges.setdefault(points[-1], []).extend(column.expression(column.bins, column.bins).ranges)
            usual = max(ranges, key=lambda value: len(ranges[value]))
            parts = [(CodesIn(column.name, tuple(found)), value) for value, found in ranges.items() if value != usual]
            terms.append(Cases(parts, usual))
        return terms

    def expression(self) -> Expression:
        return SumExceeds(self._terms(), self.threshold)

    def _point_lines(self) -> list[PointLine]:
        from privpac.rules.export.points import PointLine  # a scorecard that nobody takes away needs no writer

        found = []
        for column, points in zip(self.columns, self.points):
            constant = len(set(points)) == 1
            lines = [ScorecardLine("any", points[0])] if constant else self.lines(column, points)
            found += [PointLine("points", self.label, column.name, line.answer, str(line.points)) for line in lines]
        found.append(PointLine("threshold", self.label, "", "says 1 above", str(self.threshold)))
        starts = [0, *(each_bin.last + 1 for each_bin in self.calibration)]
        for start, (last, rate, _, _) in zip(starts, self.calibration):
            found.append(PointLine("rate", self.label, "", f"{start} to {last} points", f"{float(rate):.4f}"))
        return found

    # Words

    def lines(self, column: BinnedColumn, points: Sequence[int]) -> list[ScorecardLine]:
        """The answers of a column and their points, neighbouring bins with the same points together."""
        domain = column.domain.present
        if column.is_category:
            return [
                ScorecardLine(domain.text(code) if code < column.bins else "missing", points[code])
                for code in range(column.width)
            ]
        runs = [(value, list(run)) for value, run in groupby(range(column.bins), key=lambda b: points[b])]
        out = []
        for i, (value, run) in enumerate(runs):
            last = run[-1]
            if len(run) == 1 and column.bins == domain.size:
                out.append(ScorecardLine(domain.text(last), value))
            elif last < column.bins - 1:
                out.append(ScorecardLine(f"≤ {domain.text(column.edges[last] - 1)}", value))
            else:
                out.append(ScorecardLine("any" if i == 0 else f"> {domain.text(column.edges[run[0] - 1] - 1)}", value))
        return [*out, ScorecardLine("missing", points[-1])] if column.has_missing else out

    @property
    def table(self) -> list[tuple[str, list[ScorecardLine]]]:
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
        if self.calibration:
            out.append("  points and how often: " + " · ".join(self.calibration_words()))
        return out

    def calibration_words(self) -> list[str]:
        """The calibration, bin by bin."""
        starts = [0, *(each_bin.last + 1 for each_bin in self.calibration)]
        return [
            f"{start}–{last}: {float(rate):.0%} ({float(low):.0%} to {float(high):.0%})"
            for start, (last, rate, low, high) in zip(starts, self.calibration)
        ]

    @property
    def picture(self) -> Literal["domain", "regions", "scorecard", "none"]:
        return "none" if self.condition() in ("always", "never") else "scorecard"

    # Storage

    def to_dict(self) -> dict[str, Any]:
        values = super().to_dict()
        for name, empty in _LATER.items():
            if values[name] == empty:
                del values[name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return super().from_dict({**_LATER, **values})


_LATER: Mapping[str, Any] = {"log_odds": None, "weights": []}
"""Fields that files of earlier scorecards have not."""
_NO_LOG_ODDS = "this scorecard has no log odds: it was learned by an earlier version; learn it again"


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterError("points are whole numbers")
    return value


# Scorecards for more than two labels: one for each label against the rest, all in the same points.
#
# The answer is the label whose points are furthest above its threshold, or least below it; the first of them in the
# declared order where several are.


@frozen(slots=False, repr=False)
class ScorecardPerLabel(Rule):
    """A scorecard for each label, named by the scorecard's own ``label``."""

    saved_as: ClassVar[str] = "scorecards"
    scorecards: tuple[Scorecard, ...]
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        if len(self.scorecards) < 2 or len(set(self.names)) < len(self.scorecards):
            raise ParameterError("scorecards for several labels are two or more, each of a label of its own")
        if any(
            scorecard.columns != self.scorecards[0].columns or scorecard.top != self.scorecards[0].top
            for scorecard in self.scorecards
        ):
            raise ParameterError("scorecards for several labels have the same columns and the same top")
        if len({bool(scorecard.calibration) for scorecard in self.scorecards}) > 1:
            raise ParameterError("either all scorecards for several labels are calibrated, or none")

    @cached_property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]  # each scorecard names its own
        """The labels."""
        return tuple(scorecard.label for scorecard in self.scorecards)

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.scorecards[0].features

    @property
    def reads(self) -> tuple[str, ...]:
        read = {name for scorecard in self.scorecards for name in scorecard.reads}
        return tuple(name for name in self.features if name in read)

    @property
    def calibration(self) -> tuple[Any, ...]:
        """Of all scorecards; empty without a calibration."""
        return tuple(each_bin for scorecard in self.scorecards for each_bin in scorecard.calibration)

    # Predicting

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        """The place of the label."""
        above = np.stack([scorecard.totals(codes) - scorecard.threshold for scorecard in self.scorecards], axis=1)
        said: NDArray[np.int8] = np.argmax(above, axis=1).astype(np.int8)
        return said

    def expression(self) -> Expression:
        return HighestTotal([*scorecard._terms(), -scorecard.threshold] for scorecard in self.scorecards)

    def _point_lines(self) -> list[PointLine]:
        return [line for scorecard in self.scorecards for line in scorecard._point_lines()]

    def predict(self, X: object, threshold: Rational | None = None) -> Any:
        """The names of the labels."""
        return np.array(self.names)[super().predict(X, threshold)]

    @property
    def has_chances(self) -> bool:
        return all(scorecard.has_chances for scorecard in self.scorecards)

    def chances_of(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        """The chances of the labels, in their order: each scorecard's own, and all of them made to add up to 1; alike
        where all are 0.  The largest may be of another label than :meth:`predict` names, which compares whole points
        above whole thresholds."""
        own = np.stack([scorecard.chances_of(codes)[:, 1] for scorecard in self.scorecards], axis=1)
        whole = own.sum(axis=1, keepdims=True)
        return np.where(whole > 0, own / np.where(whole > 0, whole, 1), 1 / len(self.scorecards))

    def log_odds_of(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        """Each scorecard's log odds, label by label."""
        return np.stack([scorecard.log_odds_of(codes) for scorecard in self.scorecards], axis=1)

    # Words

    @property
    def _constant(self) -> str | None:
        """The label that is named whatever the answers are."""
        for scorecard in self.scorecards:
            others = [other.most - other.threshold for other in self.scorecards if other is not scorecard]
            if scorecard.least - scorecard.threshold > max(others):
                return scorecard.label
        return None

    def condition(self) -> str:
        return self._constant or "the label whose points are furthest above its threshold"

    def __str__(self) -> str:
        said = f"{self.label}: {self.condition()}"
        if self._constant:
            return f"{said}, whatever the points"
        return "\n".join(
            [
                said,
                *(
                    line
                    for scorecard in self.scorecards
                    for line in (f" {scorecard.label}, threshold {scorecard.threshold}", *scorecard.rows())
                ),
            ]
        )

    @property
    def picture(self) -> Literal["domain", "regions", "scorecard", "none"]:
        return "none" if self._constant else "scorecard"

    # Storage

    def to_dict(self) -> dict[str, Any]:
        return {"scorecards": [scorecard.to_dict() for scorecard in self.scorecards], "label": self.label}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(tuple(Scorecard.from_dict(scorecard) for scorecard in values["scorecards"]), str(values["label"]))


# The class of scorecards over the columns of a wide table: what is learned, in public numbers only.


_MAX_STEPS = 10_000


def _zoom(zoom: object) -> str | None:
    if zoom not in (None, "private"):
        raise ParameterError(f"zoom must be 'private' or None, got {zoom!r}")
    return None if zoom is None else "private"


@frozen(slots=False, field_transformer=named)
class Scorecards(WideClass):
    """Scorecards: whole points for each public bin of each column, yes above a threshold.

    Parameters
    ----------
    columns : mapping of names to domains, or names; None takes every feature of the data.
    cuts : at most so many cuts of every number, spread evenly over its declared values; or a number or list of values
        for each column.  ``Floats()`` needs a list.
    missing : ``"own"`` (all columns) or a list of columns whose missing values have points of their own; None leaves it
        to the domains.
    steps : steps of the descent.
    top : the most points one answer can have.
    zoom : "private" spends 3/20 of the budget on where the values of each column of numbers lie, and puts the bins
        there, if so many people are declared that it is worth it; None spends nothing.
    classes : the labels, where there are more than two: one scorecard against the rest for each.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.data import Categories, Integers
    >>> scorecard = Scorecards({"age": Integers(0, 120), "ward": Categories(["a", "b", "c"])})
    >>> scorecard.codes.coordinates, scorecard.vc_dimension
    (6, 18)
    """

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {"scorecard": {}}
    own_method: ClassVar[str | None] = "scorecard"

    columns: Frozen[Domain | None] | None = field(default=None, converter=domains_or_none)
    cuts: Cuts = field(default=DEFAULT_CUTS, converter=read_cuts)
    missing: str | tuple[str, ...] | None = field(default=None, converter=read_missing)
    steps: int = field(default=40, converter=whole, metadata=bounds(maximum=_MAX_STEPS))
    top: int = field(default=20, converter=whole, metadata=bounds(maximum=_MAX_TOP))
    zoom: str | None = field(default="private", converter=_zoom, kw_only=True)
    classes: tuple[str, ...] | None = field(default=None, converter=read_classes)

    def __attrs_post_init__(self) -> None:
        if self.columns is not None and all(domain is not None for domain in self.columns.values()):
            _ = self.codes  # what is too wide is refused now

    @cached_property
    def codes(self) -> CodeTable:
        """The public codes of the columns."""
        return column_codes(self.binned)

    # ScorecardPerLabel

    @property
    def size(self) -> int:
        """So many tables of points and thresholds there are; many of them predict alike."""
        answers: int = sum(column.width for column in self.binned)
        scorecards: int = (self.top + 1) ** answers * (self.top * len(self.binned) + 2)
        return scorecards if self.labels == 2 else scorecards**self.labels

    @property
    def vc_dimension(self) -> int:
        """An upper bound: one weight for every answer but the first of a column, and a threshold; with more labels that
        of each scorecard against the rest, together."""
        one: int = 1 + sum(column.width - 1 for column in self.binned)
        return one if self.labels == 2 else one * self.labels

    def decode(self, hypothesis: int, label: str = "1") -> Scorecard:
        self._refuse()

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        self._refuse()

    def dichotomies(self, codes: Mapping[str, NDArray[np.uint64]]) -> Any:
        self._refuse()
