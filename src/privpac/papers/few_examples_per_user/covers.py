"""Finite covers: every distribution of a family is within ``radius`` (in total variation) of a member.

==========================  ====================================================  ====================
family                      members                                               size
==========================  ====================================================  ====================
mass functions on k values  all ``(n_1, ..., n_k) / N``, ``N = ceil(k / (4 c))``  ``C(N+k-1, k-1)``
products over d columns     products of covers of radius ``c / d``                product of the sizes
==========================  ====================================================  ====================

Largest-remainder rounding moves ``r`` of the values up and the others down, at a distance of
``r (k - r) / (k N) <= k / (4 N)``.

*Scores without all pairs.*  At resolution ``L = N`` a set A is ``{P > Q}`` for some Q of the cover iff A is neither
empty nor everything and ``P > 0`` on A (lower each value of A by one unit and give the units to one value outside), so
``s_P = max over such A of tab[A, P(A)]`` with ``tab[A, q] = sum_i clip(m_i q - N c_i(A), -T, T)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.arrays import Floats64, Ints
from privpac.data import Domain, UserData
from privpac.data.loops import jit
from privpac.distributions.base import (
    BoundUsers,
    Discrete,
    DistributionLearner,
    Family,
    Gaussian,
    Independent,
    Sum,
    read_family,
    warn_accuracy,
)
from privpac.distributions.cells import (
    CodeCells,
    LineCells,
    Partition,
    ProductCells,
    codes_below,
    codes_upto,
    is_numeric,
    values_of,
)
from privpac.distributions.results import DiscreteDistribution, Distribution, GaussianDistribution, ProductDistribution
from privpac.distributions.selection.accuracy import (
    ClipAim,
    ClipPlan,
    KnownPairs,
    default_resolution,
    read_plan,
    read_top,
)
from privpac.distributions.selection.candidates import Normal
from privpac.distributions.selection.comparison import DensityComparison, monte_carlo, scheffe_range
from privpac.distributions.selection.kernels import Sweep, around, clipped_sum, group_sizes, prefix_sums, worst
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.mechanisms.exponential import ExponentialMechanism
from privpac.parameters import Composed, bounds, fraction, fraction_or_none, named, part, privacy
from privpac.result import Released
from privpac.special import ndtr, ndtri

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.law import Law
    from privpac.rng import Rng
    from privpac.sample_size import Certificate

_MAX_WORK = 10**10
MAX_TABLE = 1 << 26


class Cover(ABC):
    """Members numbered ``0..size-1``; ``unit`` is the resolution of their Scheffé probabilities."""

    size: int
    unit: int
    radius: Fraction

    @abstractmethod
    def scores(self, users: Users, top: int) -> Ints:
        """The worst pair sum of every member."""

    @abstractmethod
    def member(self, index: int) -> Distribution:
        """A member as it is published."""

    def likely(self) -> Ints:
        """Every ``q`` that a pair of different members may have."""
        return np.arange(1, self.unit + 1)

    @property
    def rounding(self) -> Fraction | None:
        """How far ``q / unit`` may be from ``P(W)``; None where that is not known, or listing ``q`` costs too much for
        a plan."""
        return None

    def range(self, top: int, cap: int | None, neighbours: Neighbours | str) -> int:
        """The range sensitivity of the scores."""
        return 1 if self.size == 1 else scheffe_range(self.likely(), self.unit, top, cap, neighbours)


def round_to_cover(masses: Sequence[Any], units: int) -> tuple[int, ...]:
    """The member nearest to a mass function: largest remainders are rounded up, ties by position.

    >>> round_to_cover(["1/3", "1/3", "1/3"], 4)
    (2, 1, 1)
    """
    exact = [rational(mass, "a mass", minimum=0) for mass in masses]
    total = sum(exact)
    if not exact or total == 0:
        raise ParameterError("a mass function needs a positive mass")
    scaled = [mass / total * units for mass in exact]
    counts = [math.floor(x) for x in scaled]
    order = sorted(range(len(exact)), key=lambda j: (counts[j] - scaled[j], j))
    for j in order[: units - sum(counts)]:
        counts[j] += 1
    return tuple(counts)


# Tables of clipped sums


@jit
def _set_table(counts: Ints, sizes: Ints, base: Ints, user_base: Ints, units: int, top: int) -> Ints:
    cells = counts.shape[1]
    out = np.zeros((1 << cells, units + 1), np.int64)
    length = base[-1] + sizes[-1] + 1
    histogram, number, total = np.zeros(length, np.int64), np.zeros(length, np.int64), np.zeros(length, np.int64)
    for chosen in range(1, 1 << cells):
        histogram[:] = 0
        for user in range(counts.shape[0]):
            c = 0
            for j in range(cells):
                if chosen >> j & 1:
                    c += counts[user, j]
            histogram[user_base[user] + c] += 1
        prefix_sums(histogram, sizes, base, number, total)
        for q in range(units + 1):
            out[chosen, q] = clipped_sum(q, units, top, sizes, base, number, total)
    return out


def set_table(users: UserData, cells: Partition, units: int, top: int) -> Ints:
    """``tab[A, q]`` over these users, A as a bit pattern of cells."""
    sizes = users.sizes
    index = np.repeat(np.arange(users.n_users), sizes) * cells.size + cells.index(users)
    counts = np.bincount(index, minlength=users.n_users * cells.size).reshape(users.n_users, cells.size)[sizes > 0]
    if not len(counts):
        return np.zeros((1 << cells.size, units + 1), np.int64)
    return _set_table(counts.astype(np.int64), *group_sizes(sizes[sizes > 0]), units, top)


@jit
def _composition_scores(table: Ints, size: int, cells: int, units: int) -> Ints:
    """Worst table entry of every composition, in lexicographic order."""
    out = np.zeros(size, np.int64)
    counts = np.zeros(cells, np.int64)
    counts[cells - 1] = units
    sums = np.zeros(1 << cells, np.int64)
    everything = (1 << cells) - 1
    for index in range(size):
        support = 0
        for j in range(cells):
            if counts[j] > 0:
                support |= 1 << j
        best = np.int64(np.iinfo(np.int64).min)
        for chosen in range(1, everything):
            low = 0
            while not chosen >> low & 1:
                low += 1
            sums[chosen] = sums[chosen & (chosen - 1)] + counts[low]
            if chosen & ~support == 0 and table[chosen, sums[chosen]] > best:
                best = table[chosen, sums[chosen]]
        out[index] = best
        last = cells - 1
        while last > 0 and counts[last] == 0:
            last -= 1
        if last > 0:
            left = counts[last] - 1
            counts[last] = 0
            counts[last - 1] += 1
            counts[cells - 1] = left
    return out


@jit
def _weight_scores(table: Ints, weights: Ints) -> Ints:
    """Worst table entry over all pairs of different members; members are integer masses of cells."""
    size, cells = weights.shape
    out = np.full(size, np.iinfo(np.int64).min, np.int64)
    for p in range(size):
        for r in range(size):
            if r == p:
                continue
            chosen, mass = 0, 0
            for j in range(cells):
                if weights[p, j] > weights[r, j]:
                    chosen |= 1 << j
                    mass += weights[p, j]
            out[p] = max(out[p], table[chosen, mass])
    return out


# Mass functions


@frozen(slots=False)
class DiscreteCover(Cover):
    """All mass functions on a domain's values in multiples of ``1 / units``, in lexicographic order of their counts."""

    feature: str
    domain: Domain
    units: int

    @staticmethod
    def of(domains: Mapping[str, Domain], radius: Fraction) -> DiscreteCover:
        """The cover of a radius; refused, with the alternative, where it is too large."""
        if len(domains) != 1:
            raise ParameterError(
                f"family 'discrete' describes one column, the data have {len(domains)}; use family='product'"
            )
        ((feature, domain),) = domains.items()
        values = domain.size
        units = max(1, math.ceil(values / (4 * radius)))
        if values > 60 or DiscreteCover.count(values, units) << values > _MAX_WORK:
            raise TooLargeError(
                f"the cover of all mass functions on {values} values at this radius is too large to search; use "
                "ClippedHistogram, or a larger alpha"
            )
        return DiscreteCover(feature, domain, units)

    @staticmethod
    def count(values: int, units: int) -> int:
        return math.comb(units + values - 1, values - 1)

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.count(self.domain.size, self.units)

    @property
    def unit(self) -> int:  # type: ignore[override]
        return self.units

    @property
    def radius(self) -> Fraction:  # type: ignore[override]
        return Fraction(self.domain.size, 4 * self.units)

    @property
    def rounding(self) -> Fraction:
        return Fraction(0)

    def composition(self, index: int) -> tuple[int, ...]:
        """The counts of a member."""
        out, left, cells = [], self.units, self.domain.size
        for j in range(cells - 1):
            first = 0
            while index >= (block := self.count(cells - j - 1, left - first)):
                index -= block
                first += 1
            out.append(first)
            left -= first
        return (*out, left)

    def member(self, index: int) -> Distribution:
        return DiscreteDistribution(self.feature, self.domain, self.composition(index))

    def scores(self, users: Users, top: int) -> Ints:
        values = self.domain.size
        if values == 1:
            return np.zeros(1, np.int64)
        cells = CodeCells(self.feature, values)
        table = users.fold(Sum((1 << values, self.units + 1), lambda part: set_table(part, cells, self.units, top)))
        return _composition_scores(table, self.size, values, self.units)


@frozen(slots=False)
class ProductCover(Cover):
    """All products of mass functions in multiples of ``1 / units``; the last column's member changes fastest."""

    parts: tuple[DiscreteCover, ...]

    @staticmethod
    def of(domains: Mapping[str, Domain], radius: Fraction) -> ProductCover:
        """The cover of a radius, with radius / d for each of d columns: total variation adds up over columns."""
        share = radius / len(domains)
        sizes = [domain.size for domain in domains.values()]
        units = max(1, math.ceil(max(sizes) / (4 * share)))
        cells = math.prod(sizes)
        members = math.prod(DiscreteCover.count(size, units) for size in sizes)
        if cells > 16 or members**2 * cells > 4 * 10**9 or (units ** len(sizes) + 1) << cells > MAX_TABLE:
            raise TooLargeError(
                f"the cover of all products over {cells} cells at this radius is too large to search; use "
                "ClippedHistogram, which takes the columns one by one, or a larger alpha"
            )
        return ProductCover(tuple(DiscreteCover(name, domain, units) for name, domain in domains.items()))

    @property
    def size(self) -> int:  # type: ignore[override]
        return math.prod(part.size for part in self.parts)

    @property
    def unit(self) -> int:  # type: ignore[override]
        return math.prod(part.units for part in self.parts)

    @property
    def radius(self) -> Fraction:  # type: ignore[override]
        return sum((part.radius for part in self.parts), Fraction(0))

    @property
    def rounding(self) -> Fraction:
        return Fraction(0)

    @cached_property
    def weights(self) -> Ints:
        """Integer masses of all cells for every member; they sum to ``unit``."""
        out = np.ones((1, 1), np.int64)
        for cover in self.parts:
            listed = np.array([cover.composition(i) for i in range(cover.size)], dtype=np.int64)
            out = (out[:, None, :, None] * listed[None, :, None, :]).reshape(len(out) * len(listed), -1)
        return out

    def _split(self, index: int) -> tuple[int, ...]:
        places = []
        for cover in reversed(self.parts):
            index, place = divmod(index, cover.size)
            places.append(place)
        return tuple(reversed(places))

    def member(self, index: int) -> Distribution:
        return ProductDistribution(tuple(part.member(i) for part, i in zip(self.parts, self._split(index))))

    def scores(self, users: Users, top: int) -> Ints:
        if self.size == 1:
            return np.zeros(1, np.int64)
        cells = ProductCells(tuple(CodeCells(part.feature, part.domain.size) for part in self.parts))
        table = users.fold(Sum((1 << cells.size, self.unit + 1), lambda part: set_table(part, cells, self.unit, top)))
        return _weight_scores(table, self.weights)


def grid_points(axes: Sequence[Sequence[int]]) -> Ints:
    """All tuples of the axes' values, the last one fastest."""
    return np.array(list(product(*axes)), dtype=np.int64).reshape(-1, len(axes))


# Covers of normal laws with known variance, and their Scheffé sets as nested half spaces.
#
# Means ``|mu| <= R`` lie on a cubic grid of spacing ``2 r s / sqrt(d)``, ``r = 2 Phi^{-1}((1 + c)/2)``, with norms up
# to ``R + r s``; the radius follows from ``TV = 2 Phi(distance / (2 s)) - 1``.  ``W`` is a half space ``{z : w.z >
# t}``: members of a grid share few directions ``w``, and along one direction the sets are nested, so one sweep over the
# projected records serves all pairs.


MAX_GRID, MAX_LINE = 3000, 4096


@frozen(slots=False, eq=False)
class LocationCover(Cover):
    """Normal laws of one column with known deviation: means ``start + step * i``, everything exact but ``P(W)``.

    Members ``a < b`` compare on ``{z < middle}``; there are only ``2 G - 3`` middles, and records that equal one are in
    neither set.
    """

    feature: str
    domain: Domain
    start: Fraction
    step: Fraction
    size: int
    deviation: Fraction
    unit: int
    radius: Fraction = Fraction(0)

    @cached_property
    def q_by_distance(self) -> Ints:
        """``q`` of two members ``k`` steps apart."""
        apart = float(self.step / self.deviation) * np.arange(self.size)
        likely = np.floor(self.unit * np.asarray(ndtr(apart / 2)) + 0.5).astype(np.int64)
        likely[0] = 0
        return np.asarray(likely)

    def likely(self) -> Ints:
        return self.q_by_distance[1:]

    @property
    def rounding(self) -> Fraction:
        return Fraction(1, 2 * self.unit)

    def member(self, index: int) -> Distribution:
        mean = float(self.start + self.step * index)
        return GaussianDistribution((self.feature,), (mean,), ((float(self.deviation**2),),))

    @cached_property
    def _cells(self) -> LineCells:
        middles = [self.start + self.step * Fraction(total, 2) for total in range(1, 2 * self.size - 2)]
        cuts = [place for x in middles for place in (codes_below(self.domain, x), codes_upto(self.domain, x))]
        return LineCells(self.feature, self.domain, tuple(cuts))

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Distinct sets with their q, and for every pair its member and its set."""
        first, second = (axis.ravel() for axis in np.indices((self.size, self.size)))
        off = first != second
        first, second = first[off], second[off]
        q = self.q_by_distance[np.abs(first - second)]
        above = (first > second).astype(np.int64)
        end = 2 * (first + second - 1) + 1 + above
        key, place = np.unique((end * 2 + above) * (self.unit + 1) + q, return_inverse=True)
        sets = np.stack([np.zeros(len(key), np.int64), key // (self.unit + 1) // 2, key // (self.unit + 1) % 2], axis=1)
        return sets, key % (self.unit + 1), first, place

    def scores(self, users: Users, top: int) -> Ints:
        if self.size == 1:
            return np.zeros(1, np.int64)
        sets, q, first, place = self._pairs
        cells = self._cells

        def compute(part: UserData) -> Ints:
            return Sweep(part).sums(cells.index(part), cells.size, sets, q, self.unit, top)

        return worst(users.fold(Sum((len(sets),), compute))[place], first, self.size)


def location_cover(
    feature: str, domain: Domain, reach: Fraction, variance: Fraction, radius: Fraction, unit: int
) -> LocationCover:
    """The cover of means within ``reach``."""
    deviation = Fraction(math.sqrt(variance))
    r = 2 * float(ndtri((1 + float(radius)) / 2)) * float(deviation)
    size = math.ceil(float(reach) / r)
    if size > MAX_LINE:
        raise TooLargeError(
            f"the cover has {size} means, more than {MAX_LINE}; use CoarseToFineMean, or a larger alpha"
        )
    step = Fraction(2 * r)
    return LocationCover(feature, domain, -step * Fraction(size - 1, 2), step, size, deviation, unit, radius)


@frozen(slots=False, eq=False)
class GridCover(Cover):
    """Normal laws of several columns with known variance: means on a cubic grid, compared direction by direction."""

    domains: dict[str, Domain]
    points: Ints
    half: float
    deviation: float
    unit: int
    radius: Fraction

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.points)

    def member(self, index: int) -> Distribution:
        d = len(self.domains)
        covariance = tuple(tuple(self.deviation**2 if i == j else 0.0 for j in range(d)) for i in range(d))
        return GaussianDistribution(tuple(self.domains), tuple(self.points[index] * self.half), covariance)

    @cached_property
    def directions(self) -> list[tuple[Ints, Ints, Ints, Ints, Ints, Ints]]:
        """``(w, thresholds, sets, q, member, set of the pair)`` for every primitive direction of two grid points.

        Coordinates are integers in half steps and equal in parity, so ``w.(P + Q)/2`` is an integer.
        """
        first, second = (axis.ravel() for axis in np.indices((self.size, self.size)))
        off = first != second
        first, second = first[off], second[off]
        away = self.points[first] - self.points[second]
        way = away // np.gcd.reduce(away, axis=1)[:, None]
        leading = way[np.arange(len(way)), np.argmax(way != 0, axis=1)]
        way = way * np.sign(leading)[:, None]
        middle = ((self.points[first] + self.points[second]) // 2 * way).sum(axis=1)
        distance = np.sqrt((away.astype(np.float64) ** 2).sum(axis=1)) * self.half / self.deviation
        q = np.floor(self.unit * np.asarray(ndtr(distance / 2)) + 0.5).astype(np.int64)
        span = 2 * int(np.abs(way).max()) + 1
        code = ((way + span // 2) * span ** np.arange(way.shape[1])).sum(axis=1)
        order = np.argsort(code, kind="stable")
        _, begin = np.unique(code[order], return_index=True)
        ends, ways = np.append(begin, len(order)), way[order[begin]]
        out = []
        for k in range(len(ways)):
            mine = order[ends[k] : ends[k + 1]]
            thresholds, at = np.unique(middle[mine], return_inverse=True)
            above = (leading[mine] > 0).astype(np.int64)  # P lies further along w: W = {w.z > t}
            end = 2 * at.reshape(-1) + 1 + above
            key, place = np.unique((end * 2 + above) * (self.unit + 1) + q[mine], return_inverse=True)
            sets = np.stack(
                [np.zeros(len(key), np.int64), key // (self.unit + 1) // 2, key // (self.unit + 1) % 2], axis=1
            )
            out.append((ways[k], thresholds, sets, key % (self.unit + 1), first[mine], place.reshape(-1)))
        return out

    def likely(self) -> Ints:
        return np.unique(np.concatenate([q for _, _, _, q, _, _ in self.directions]))

    def scores(self, users: Users, top: int) -> Ints:
        if self.size == 1:
            return np.zeros(1, np.int64)
        sums = users.fold(
            Sum((sum(len(sets) for _, _, sets, _, _, _ in self.directions),), lambda part: self._chunk(part, top))
        )
        out = np.full(self.size, np.iinfo(np.int64).min)
        start = 0
        for _, _, sets, _, first, place in self.directions:
            np.maximum.at(out, first, sums[start : start + len(sets)][place])
            start += len(sets)
        return out

    def _chunk(self, users: UserData, top: int) -> Ints:
        columns = [values_of(domain, users.codes[name]) / self.half for name, domain in self.domains.items()]
        sweep, out = Sweep(users), []
        for way, thresholds, sets, q, _, _ in self.directions:
            # Elementwise sums: a record's projection does not depend on its neighbours in memory.
            along = columns[0] * float(way[0])
            for column, factor in zip(columns[1:], way[1:].tolist()):
                along = along + column * float(factor)
            index = around(thresholds, along)
            out.append(sweep.sums(index, 2 * len(thresholds) + 1, sets, q, self.unit, top))
        return np.concatenate(out)


def grid_cover(
    domains: dict[str, Domain], reach: Fraction, variance: Fraction, radius: Fraction, unit: int
) -> GridCover:
    """The cover of mean vectors within ``reach``."""
    d, deviation = len(domains), math.sqrt(variance)
    r = 2 * float(ndtri((1 + float(radius)) / 2)) * deviation
    count = math.ceil(float(reach) * math.sqrt(d) / r)
    half = r / math.sqrt(d)
    if count**d > 100 * MAX_GRID:
        raise _too_many(count**d)
    points = grid_points([range(1 - count, count, 2)] * d)
    points = points[np.sqrt((points.astype(np.float64) ** 2).sum(axis=1)) * half <= float(reach) + r]
    if len(points) > MAX_GRID:
        raise _too_many(len(points))
    return GridCover(dict(domains), points, half, deviation, unit, radius)


def _too_many(count: int) -> TooLargeError:
    return TooLargeError(
        f"the cover has {count} mean vectors, more than {MAX_GRID}; use CoarseToFineMean, or a larger alpha"
    )


# The cover of normal laws of one column with unknown mean and variance: s^2 in ``[1, K]``, ``|mu| <= R`` (in units of
# the least variance).
#
# ``ln s`` goes in steps of ``c / 0.48394``, the means of one scale in steps of ``c sqrt(2 pi) s``: ``TV <= |dmu| / (s
# sqrt(2 pi))`` and ``TV <= 2 phi(1) |d ln s|``, half of c each (the derivative of TV in ``ln s`` is at most ``2 phi(1)
# = 0.48394``; then the triangle inequality).
#
# The set of two members is an interval or the outside of one.  Its ends are moved to the nearest of 2048 public edges,
# and ``P(W)`` is computed for the moved set: near its ends the two densities almost agree, so little is lost, and
# privacy does not depend on it.


SCALE_SLOPE = math.sqrt(2 / (math.pi * math.e))
MAX_SCALES = 5000
EDGES = 2048


@frozen(slots=False, eq=False)
class ScaleCover(Cover):
    """Normal laws of one column with unknown mean and variance."""

    feature: str
    domain: Domain
    means: Floats64
    deviations: Floats64
    unit: int
    radius: Fraction

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.means)

    def member(self, index: int) -> Distribution:
        return GaussianDistribution(
            (self.feature,), (float(self.means[index]),), ((float(self.deviations[index]) ** 2,),)
        )

    @cached_property
    def edges(self) -> Floats64:
        reach = 4 * float(self.deviations.max())
        return np.linspace(float(self.means.min()) - reach, float(self.means.max()) + reach, EDGES)

    @cached_property
    def _cells(self) -> LineCells:
        return LineCells.at_edges(self.feature, self.domain, [Fraction(x) for x in self.edges.tolist()])

    def intervals(self, p: int) -> tuple[Ints, Ints, Ints, Ints]:
        """``(a, b, complement, q)`` of the sets of member ``p`` against every member: cells ``a..b-1``, or all
        others."""
        m1, s1, m2, s2 = self.means[p], self.deviations[p], self.means, self.deviations
        with np.errstate(all="ignore"):
            a = 1 / (2 * s2**2) - 1 / (2 * s1**2)
            b = m1 / s1**2 - m2 / s2**2
            c = m2**2 / (2 * s2**2) - m1**2 / (2 * s1**2) + np.log(s2 / s1)
            root = np.sqrt(np.maximum(0.0, b * b - 4 * a * c))
            far = -(b + np.copysign(root, b)) / 2
            one, two = far / a, c / far
        same = s1 == s2
        low = np.where(same, np.where(m1 > m2, (m1 + m2) / 2, -np.inf), np.fmin(one, two))
        high = np.where(same, np.where(m1 > m2, np.inf, (m1 + m2) / 2), np.fmax(one, two))
        outside = ~same & (a > 0)
        start, end = self._nearest(low), self._nearest(high)
        ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        inside = np.asarray(ndtr((ends[end] - m1) / s1) - ndtr((ends[start] - m1) / s1))
        q = np.floor(self.unit * np.where(outside, 1 - inside, inside) + 0.5).astype(np.int64)
        return start, end, outside.astype(np.int64), q

    def _nearest(self, x: Floats64) -> Ints:
        """The cell boundary nearest to a real number: 0 and EDGES + 1 are the infinite ones."""
        step = self.edges[1] - self.edges[0]
        place = np.floor((np.clip(x, self.edges[0] - step, self.edges[-1] + step) - self.edges[0]) / step + 0.5)
        return np.asarray((np.clip(place, -1, EDGES) + 1).astype(np.int64))

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints, NDArray[np.int32]]:
        rows = []
        for p in range(self.size):
            start, end, outside, q = self.intervals(p)
            rows.append((((start * (EDGES + 2) + end) * 2 + outside) * (self.unit + 1) + q).astype(np.int64))
        key, place = np.unique(np.concatenate(rows), return_inverse=True)
        q, rest = key % (self.unit + 1), key // (self.unit + 1)
        sets = np.stack([rest // 2 // (EDGES + 2), rest // 2 % (EDGES + 2), rest % 2], axis=1)
        return sets, q, place.reshape(self.size, self.size).astype(np.int32)

    def likely(self) -> Ints:
        return np.unique(self._pairs[1])

    def scores(self, users: Users, top: int) -> Ints:
        if self.size == 1:
            return np.zeros(1, np.int64)
        sets, q, place = self._pairs
        cells = self._cells

        def compute(part: UserData) -> Ints:
            return Sweep(part).sums(cells.index(part), cells.size, sets, q, self.unit, top)

        sums = users.fold(Sum((len(sets),), compute))
        out = np.empty(self.size, np.int64)
        for p in range(self.size):
            row = sums[place[p]]
            row[p] = np.iinfo(np.int64).min
            out[p] = row.max()
        return out


def scale_cover(
    feature: str, domain: Domain, reach: Fraction, variance: Fraction, ratio: Fraction, radius: Fraction, unit: int
) -> ScaleCover:
    """The cover of means within ``reach`` and variances between ``variance`` and ``ratio * variance``."""
    c, base = float(radius), math.sqrt(variance)
    step = c / SCALE_SLOPE
    count = max(1, math.ceil(0.5 * math.log(ratio) / step))
    if count > MAX_SCALES:
        raise _too_many_scales(count)
    scales = [base * math.exp((j + 0.5) * step) for j in range(count)]
    sizes = [max(1, math.ceil(2 * float(reach) / (c * math.sqrt(2 * math.pi) * s))) for s in scales]
    if sum(sizes) > MAX_SCALES:
        raise _too_many_scales(sum(sizes))
    means = [
        c * math.sqrt(2 * math.pi) * s * (i - (size - 1) / 2) for s, size in zip(scales, sizes) for i in range(size)
    ]
    return ScaleCover(feature, domain, np.array(means), np.repeat(scales, sizes), unit, radius)


def _too_many_scales(count: int) -> TooLargeError:
    return TooLargeError(
        f"the cover has {count} members, more than {MAX_SCALES}; use CoarseToFineGaussian, or a larger alpha"
    )


# The cover of normal laws of several columns with unknown covariance ``I <= S <= K I`` (in units of the least
# variance).
#
# Entries of S lie on a grid of spacing ``2 c / d``, means on a cubic grid of radius ``c / 2``.  A matrix of the family
# is within ``spacing * d / 2 = c`` (Frobenius) of a grid matrix, and ``TV <= (1/2) |S1^{-1/2} S2 S1^{-1/2} - I|`` while
# eigenvalues stay above 1/2. The size grows like ``(K d / (2 c))^(d (d+1) / 2)`` times the means: only tiny covers can
# be searched, pair by pair, with ``P(W)`` from public coins.


MAX_NORMALS = 256
SAMPLES = 1 << 15


@frozen(slots=False, eq=False)
class CovarianceCover(Cover):
    """Normal laws listed one by one."""

    domains: dict[str, Domain]
    members: tuple[Normal, ...]
    unit: int
    radius: Fraction

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.members)

    @cached_property
    def comparison(self) -> DensityComparison:
        likely = monte_carlo(self.members, len(self.domains), SAMPLES, bytes(32))
        q = np.floor(likely * self.unit + 0.5).astype(np.int64)
        return DensityComparison(q, self.unit, self.members, self.domains)

    def likely(self) -> NDArray[np.int64]:
        return np.unique(self.comparison.q[~np.eye(self.size, dtype=bool)])

    def member(self, index: int) -> Distribution:
        found = self.members[index].publish(self.domains, index)
        assert isinstance(found, GaussianDistribution)
        return found

    def scores(self, users: Users, top: int) -> NDArray[np.int64]:
        return self.comparison.scores(users, top)


def covariance_grid(d: int, ratio: float, radius: float) -> NDArray[np.float64]:
    """Symmetric matrices with entries on the grid and eigenvalues within ``radius`` of ``[1, ratio]``, one of them
    within ``radius`` of every S with ``I <= S <= ratio I`` (off the diagonal ``|S_ij| <= (ratio - 1) / 2``)."""
    spacing = 2 * radius / d
    count = max(1, math.ceil((ratio - 1) / spacing))
    entries = d * (d + 1) // 2
    if count**entries > 1 << 20:
        raise _too_large(count**entries)
    places = grid_points([range(1 - count, count, 2)] * entries).astype(np.float64) * (spacing / 2)
    rows, columns = np.triu_indices(d)
    out = np.zeros((len(places), d, d))
    out[:, rows, columns] = places + np.where(rows == columns, (1 + ratio) / 2, 0.0)
    out[:, columns, rows] = out[:, rows, columns]
    eigenvalues = np.linalg.eigvalsh(out)
    keep = (
        (eigenvalues[:, 0] >= 1 - radius - 1e-12)
        & (eigenvalues[:, -1] <= ratio + radius + 1e-12)
        & (eigenvalues[:, 0] >= 0.5)
    )
    return np.asarray(out[keep])


def covariance_cover(
    domains: dict[str, Domain], reach: Fraction, variance: Fraction, ratio: Fraction, radius: Fraction, unit: int
) -> CovarianceCover:
    """The cover of means within ``reach`` and covariances between ``variance I`` and ``ratio variance I``."""
    matrices = covariance_grid(len(domains), float(ratio), float(radius)) * float(variance)
    means = grid_cover(domains, reach, variance, radius / 2, unit)
    total = len(matrices) * means.size
    if total > MAX_NORMALS:
        raise _too_large(total)
    members = [Normal(point * means.half, matrix, "normal") for matrix in matrices for point in means.points]
    return CovarianceCover(dict(domains), tuple(members), unit, radius)


def _too_large(count: int) -> TooLargeError:
    return TooLargeError(
        f"the cover has about {count} normal laws, more than {MAX_NORMALS}; use CoarseToFineGaussian, or a larger alpha"
    )


# Learning a distribution by selecting from a public cover of its family (Theorems 42-46).
#
# The cover is finite and public and some member is within ``c`` of the population, so hypothesis selection applies: a
# user's contribution to a pair is ``clip(m q - L c_i, -T, T)`` and a member's score is its worst pair sum.
#
# **Guarantee.**  ``(epsilon, 0)`` per user by the range rule (see :mod:`privpac.distributions.selection.selector`); it
# does not depend on the family containing the population.  **Accuracy.**  Total variation ``alpha`` except with
# probability ``beta`` for as many users as :meth:`CoverLearner.certificate_for` says (C2 with ``a0 = c``, ``a1 = alpha
# - 2 c``, width 1).
#
# Covers grow quickly; beyond their limits ``TooLargeError`` names the learner to use instead, before data are touched.


@frozen(slots=False, field_transformer=named)
class CoverAim(ClipAim):
    """What a cover is made for.  All public.

    Parameters
    ----------
    alpha : number
        The distance aimed at.
    cover_radius : number, optional
        How far the nearest member may be; default ``alpha / 10``.
    """

    alpha: Fraction = field(kw_only=True, converter=fraction, metadata=bounds(above=0, maximum=1))
    _cover_radius: Fraction | None = field(
        default=None, kw_only=True, converter=fraction_or_none, metadata=bounds(above=0)
    )

    def __attrs_post_init__(self) -> None:
        if 3 * self.cover_radius >= self.alpha:
            raise ParameterError(
                f"cover_radius must be below alpha / 3, got {float(self.cover_radius):.3g}; the default alpha / 10 is "
                "a good choice"
            )

    @property
    def cover_radius(self) -> Fraction:
        return self.alpha / 10 if self._cover_radius is None else self._cover_radius


@frozen(slots=False, init=False, field_transformer=named)
class CoverLearner(Composed, DistributionLearner):
    """Select a member of a cover.

    Parameters
    ----------
    family : {"discrete", "product"} or Gaussian
        What is learned (public).
    epsilon : number
        The privacy parameter.
    aim : CoverAim
        Given by its own parameters: ``alpha``, ``cover_radius``, ``records_per_user``, ``tau``, ``beta``,
        ``public_n_users``.

    >>> from privpac.data import Categories, UserData
    >>> votes = UserData.from_users([["a", "b"], ["a"], ["a", "a"]], features={"v": Categories(["a", "b"])},
    ...     labelled=False)
    >>> learner = CoverLearner("discrete", epsilon=8, alpha="1/2", records_per_user=2)
    >>> print(learner.cover(votes.features).member(learner.law(votes).mode))
    v: a 0.8, b 0.2
    """

    family: Family = field(converter=read_family)
    epsilon: Fraction = field(converter=privacy)
    aim: CoverAim = part(CoverAim)

    def __attrs_post_init__(self) -> None:
        if self.unit is Unit.USER and self.aim.records_per_user is None and self.aim.tau is None:
            raise ParameterError(
                "declare records_per_user (public) or tau: the clip must not be read off the data; "
                "privpac.private_cap buys a private cap for part of the budget"
            )

    @property
    def cover_radius(self) -> Fraction:
        return self.aim.cover_radius

    @cached_property
    def _made(self) -> dict[Any, Cover]:
        return {}

    # Public numbers

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 8)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        cover = self.cover(domains)
        read_top(cover.unit, self.plan(cover).clip)

    def cover(self, domains: Mapping[str, Any]) -> Cover:
        """The cover on these columns: public, built once."""
        key = tuple(domains.items())
        if key not in self._made:
            self._made[key] = self._build(domains)
        return self._made[key]

    def _build(self, domains: Mapping[str, Domain]) -> Cover:
        family, radius = self.family, self.aim.cover_radius
        if isinstance(family, Discrete):
            return DiscreteCover.of(domains, radius)
        if isinstance(family, Independent):
            return ProductCover.of(domains, radius)
        assert isinstance(family, Gaussian)
        odd = [name for name, domain in domains.items() if not is_numeric(domain)]
        if odd:
            raise ParameterError(f"columns {odd} do not hold numbers; a Gaussian needs Integers, Grid or Floats")
        return _gaussian_cover(family, dict(domains), radius, default_resolution(self.aim.alpha))

    def plan(self, cover: Cover) -> ClipPlan:
        """The numbers of the accuracy certificate for a cover."""
        aim, radius = self.aim, self.aim.cover_radius
        m = 1 if self.unit is Unit.ITEM else aim.records_per_user
        pairs = (
            None
            if cover.rounding is None or cover.size == 1
            else KnownPairs.of(cover.likely(), cover.unit, cover.rounding, self.cap)
        )
        return read_plan(
            log(cover.size),
            self.epsilon,
            radius,
            aim.alpha - 2 * radius,
            aim.beta,
            m,
            aim.tau,
            self.neighbours,
            self.cap,
            pairs,
            cover.unit,
        )

    def certificate_for(self, domains: Mapping[str, Domain]) -> Certificate | None:
        """How many users make the output ``alpha``-close except with probability ``beta``."""
        return self.plan(self.cover(domains)).certificate

    # Law

    def bind(self, data: Users) -> BoundUsers:
        users, domains = self.bind_users(data)
        cover = self.cover(domains)
        n_users = self.public_users(users, self.aim.public_n_users)
        short = None if n_users is None else self.plan(cover).shortfall(n_users)
        return BoundUsers(users, domains, (warn_accuracy(short),) if short else (), cover)

    def law(self, data: Users) -> Law:
        """The law over the cover's members."""
        return self._law(self.bind(data))

    def _law(self, bound: BoundUsers) -> Law:
        cover: Cover = bound.plan
        top = read_top(cover.unit, self.plan(cover).clip)
        reach = cover.range(top, self.cap, self.neighbours)
        return ExponentialMechanism(self.epsilon, reach, unit=self.unit, neighbours=self.neighbours).law(
            cover.scores(bound.users, top)
        )

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        cover: Cover = bound.plan
        chosen = cover.member(int(self._law(bound).sample(rng)))
        shown: dict[str, object] = {
            "family": type(self.family).__name__.lower(),
            "size": cover.size,
            "alpha": self.aim.alpha,
            "cover_radius": self.aim.cover_radius,
            "tau": self.plan(cover).clip,
            "resolution": cover.unit,
        }
        if self.max_records is not None:
            shown["max_records"] = self.max_records
        return Released(chosen, self.guarantee, shown, warnings=bound.warnings, learner="selection from a cover")


def _gaussian_cover(family: Gaussian, domains: dict[str, Domain], radius: Fraction, unit: int) -> Cover:
    from privpac.papers.few_examples_per_user.covers import covariance_cover, grid_cover, location_cover, scale_cover

    reach, variance = rational(family.radius), rational(family.variance)
    if len(domains) == 1:
        ((feature, domain),) = domains.items()
        if family.max_variance is None:
            return location_cover(feature, domain, reach, variance, radius, unit)
        return scale_cover(feature, domain, reach, variance, family.ratio, radius, unit)
    if len(domains) > 4:
        raise TooLargeError(
            f"a cover of normal laws of {len(domains)} columns is too large; use CoarseToFineMean or "
            "CoarseToFineGaussian"
        )
    if family.max_variance is None:
        return grid_cover(domains, reach, variance, radius, unit)
    return covariance_cover(domains, reach, variance, family.ratio, radius, unit)
