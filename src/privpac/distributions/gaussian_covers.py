"""Covers of normal laws, and their Scheffé sets as nested intervals.

=========================================  ==============================================================================
family                                     members
=========================================  ==============================================================================
``N(mu, s^2 I)``, ``|mu| <= R``            cubic grid of spacing ``2 r s / sqrt(d)``, ``r = 2 Phi^{-1}((1 + c)/2)``, norms up to ``R + r s``
``N(mu, s^2)``, s^2 in ``[1, K]``          ``ln s`` in steps of ``c / 0.48394``, means in steps of ``c sqrt(2 pi) s``
=========================================  ==============================================================================

Radius: ``TV = 2 Phi(distance / (2 s)) - 1`` between means; ``TV <= |dmu| / (s sqrt(2 pi))`` and ``TV <= 2 phi(1) |d ln s|``, half of c
each (the derivative of TV in ``ln s`` is at most ``2 phi(1) = 0.48394``; then the triangle inequality).

With one covariance ``W`` is a half space ``{z : w.z > t}``: members of a grid share few directions ``w``, and along one direction the sets
are nested, so one sweep over the projected records serves all pairs.  In one dimension with two scales ``W`` is an interval or the
outside of one; its ends are moved to 2048 public edges and ``P(W)`` is computed for the moved set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privpac.data import Domain, UserData
from privpac.distributions.base import Sum
from privpac.distributions.cells import LineCells, codes_below, codes_upto, values_of
from privpac.distributions.covers import Cover, grid_points
from privpac.distributions.kernels import group_sizes, interval_sums
from privpac.distributions.results import Distribution, GaussianDistribution
from privpac.errors import TooLargeError

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["GridCover", "LocationCover", "ScaleCover", "SCALE_SLOPE"]

Ints = NDArray[np.int64]
Floats64 = NDArray[np.float64]
SCALE_SLOPE = math.sqrt(2 / (math.pi * math.e))
MAX_GRID, MAX_LINE, MAX_SCALES = 3000, 4096, 5000
EDGES = 2048


def interval_chunk(users: UserData, index: Ints, n_cells: int, sets: Ints, q: Ints, unit: int, top: int) -> Ints:
    """Clipped sums over users for sets of ordered cells (see :func:`privpac.distributions.kernels.interval_sums`)."""
    sizes = users.sizes
    filled = sizes > 0
    if not filled.any():
        return np.zeros(len(sets), np.int64)
    owner = np.repeat((np.cumsum(filled) - 1)[filled], sizes[filled])
    order = np.argsort(index, kind="stable")
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(index, minlength=n_cells))])
    distinct, base, user_base = group_sizes(sizes[filled])
    return interval_sums(owner[order], starts, sizes[filled], distinct, base, user_base, sets, q, unit, top)


def _worst(sums: Ints, first: Ints, size: int) -> Ints:
    """The largest of each member's pair sums; ``first`` names the member of each sum."""
    out = np.full(size, np.iinfo(np.int64).min)
    np.maximum.at(out, first, sums)
    return out


@dataclass(frozen=True, eq=False)
class LocationCover(Cover):
    """Normal laws of one column with known deviation: means ``start + step * i``, everything exact but ``P(W)``.

    Members ``a < b`` compare on ``{z < middle}``; there are only ``2 G - 3`` middles, and records that equal one are in neither set.
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
            return interval_chunk(part, cells.index(part), cells.size, sets, q, self.unit, top)

        return _worst(users.fold(Sum((len(sets),), compute))[place], first, self.size)


def location_cover(feature: str, domain: Domain, reach: Fraction, variance: Fraction, radius: Fraction, unit: int) -> LocationCover:
    """The cover of means within ``reach``."""
    deviation = Fraction(math.sqrt(variance))
    r = 2 * float(ndtri((1 + float(radius)) / 2)) * float(deviation)
    size = math.ceil(float(reach) / r)
    if size > MAX_LINE:
        raise TooLargeError(f"the cover has {size} means, more than {MAX_LINE}; use CoarseToFineMean, or a larger alpha")
    step = Fraction(2 * r)
    return LocationCover(feature, domain, -step * Fraction(size - 1, 2), step, size, deviation, unit, radius)


@dataclass(frozen=True, eq=False)
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
        ways, which = np.unique(way, axis=0, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        ends = np.searchsorted(which.reshape(-1)[order], np.arange(len(ways) + 1))
        out = []
        for k in range(len(ways)):
            mine = order[ends[k] : ends[k + 1]]
            thresholds, at = np.unique(middle[mine], return_inverse=True)
            above = (leading[mine] > 0).astype(np.int64)  # P lies further along w: W = {w.z > t}
            end = 2 * at.reshape(-1) + 1 + above
            key, place = np.unique((end * 2 + above) * (self.unit + 1) + q[mine], return_inverse=True)
            sets = np.stack([np.zeros(len(key), np.int64), key // (self.unit + 1) // 2, key // (self.unit + 1) % 2], axis=1)
            out.append((ways[k], thresholds, sets, key % (self.unit + 1), first[mine], place.reshape(-1)))
        return out

    def likely(self) -> Ints:
        return np.unique(np.concatenate([q for _, _, _, q, _, _ in self.directions]))

    def scores(self, users: Users, top: int) -> Ints:
        if self.size == 1:
            return np.zeros(1, np.int64)
        sums = users.fold(Sum((sum(len(sets) for _, _, sets, _, _, _ in self.directions),), lambda part: self._chunk(part, top)))
        out = np.full(self.size, np.iinfo(np.int64).min)
        start = 0
        for _, _, sets, _, first, place in self.directions:
            np.maximum.at(out, first, sums[start : start + len(sets)][place])
            start += len(sets)
        return out

    def _chunk(self, users: UserData, top: int) -> Ints:
        columns = [values_of(domain, users.codes[name]) / self.half for name, domain in self.domains.items()]
        out = []
        for way, thresholds, sets, q, _, _ in self.directions:
            # Elementwise sums: a record's projection does not depend on its neighbours in memory.
            along = columns[0] * float(way[0])
            for column, factor in zip(columns[1:], way[1:].tolist()):
                along = along + column * float(factor)
            index = np.searchsorted(thresholds, along, side="left") + np.searchsorted(thresholds, along, side="right")
            out.append(interval_chunk(users, index.astype(np.int64), 2 * len(thresholds) + 1, sets, q, self.unit, top))
        return np.concatenate(out)


def grid_cover(domains: dict[str, Domain], reach: Fraction, variance: Fraction, radius: Fraction, unit: int) -> GridCover:
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
    return TooLargeError(f"the cover has {count} mean vectors, more than {MAX_GRID}; use CoarseToFineMean, or a larger alpha")


@dataclass(frozen=True, eq=False)
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
        return GaussianDistribution((self.feature,), (float(self.means[index]),), ((float(self.deviations[index]) ** 2,),))

    @cached_property
    def edges(self) -> Floats64:
        reach = 4 * float(self.deviations.max())
        return np.linspace(float(self.means.min()) - reach, float(self.means.max()) + reach, EDGES)

    @cached_property
    def _cells(self) -> LineCells:
        return LineCells.at_edges(self.feature, self.domain, [Fraction(x) for x in self.edges.tolist()])

    def intervals(self, p: int) -> tuple[Ints, Ints, Ints, Ints]:
        """``(a, b, complement, q)`` of the sets of member ``p`` against every member: cells ``a..b-1``, or all others."""
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
            return interval_chunk(part, cells.index(part), cells.size, sets, q, self.unit, top)

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
    means = [c * math.sqrt(2 * math.pi) * s * (i - (size - 1) / 2) for s, size in zip(scales, sizes) for i in range(size)]
    return ScaleCover(feature, domain, np.array(means), np.repeat(scales, sizes), unit, radius)


def _too_many_scales(count: int) -> TooLargeError:
    return TooLargeError(f"the cover has {count} members, more than {MAX_SCALES}; use CoarseToFineGaussian, or a larger alpha")
