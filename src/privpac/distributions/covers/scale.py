"""The cover of normal laws of one column with unknown mean and variance: s^2 in ``[1, K]``, ``|mu| <= R`` (in units of
the least variance).

``ln s`` goes in steps of ``c / 0.48394``, the means of one scale in steps of ``c sqrt(2 pi) s``: ``TV <= |dmu| / (s
sqrt(2 pi))`` and ``TV <= 2 phi(1) |d ln s|``, half of c each (the derivative of TV in ``ln s`` is at most ``2 phi(1) =
0.48394``; then the triangle inequality).

The set of two members is an interval or the outside of one.  Its ends are moved to the nearest of 2048 public edges,
and ``P(W)`` is computed for the moved set: near its ends the two densities almost agree, so little is lost, and privacy
does not depend on it.
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
from privpac.distributions.cells import LineCells
from privpac.distributions.covers.base import Cover
from privpac.distributions.results import Distribution, GaussianDistribution
from privpac.distributions.selection.sweep import Sweep
from privpac.errors import TooLargeError
from privpac.special import ndtr

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["ScaleCover", "scale_cover"]

Ints = NDArray[np.int64]
Floats64 = NDArray[np.float64]
SCALE_SLOPE = math.sqrt(2 / (math.pi * math.e))
MAX_SCALES = 5000
EDGES = 2048


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
