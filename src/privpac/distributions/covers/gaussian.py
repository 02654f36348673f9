"""Covers of normal laws with known variance, and their Scheffé sets as nested half spaces.

Means ``|mu| <= R`` lie on a cubic grid of spacing ``2 r s / sqrt(d)``, ``r = 2 Phi^{-1}((1 + c)/2)``, with norms up to
``R + r s``; the radius follows from ``TV = 2 Phi(distance / (2 s)) - 1``.  ``W`` is a half space ``{z : w.z > t}``:
members of a grid share few directions ``w``, and along one direction the sets are nested, so one sweep over the
projected records serves all pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain, UserData
from privpac.distributions.base import Sum
from privpac.distributions.cells import LineCells, codes_below, codes_upto, values_of
from privpac.distributions.covers.base import Cover, grid_points
from privpac.distributions.results import Distribution, GaussianDistribution
from privpac.distributions.selection.sweep import Sweep, around, worst
from privpac.errors import TooLargeError
from privpac.special import ndtr, ndtri

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["GridCover", "LocationCover", "grid_cover", "location_cover"]

Ints = NDArray[np.int64]
MAX_GRID, MAX_LINE = 3000, 4096


@dataclass(frozen=True, eq=False)
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
