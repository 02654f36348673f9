"""Finite covers: every distribution of a family is within ``radius`` (in total variation) of a member.

=================================  ===============================================================
========================== family                             members
size =================================  ===============================================================
========================== mass functions on k values         all ``(n_1, ..., n_k) / N``, ``N = ceil(k / (4 c))``
``C(N+k-1, k-1)`` products over d columns            products of covers of radius ``c / d``
product of the sizes =================================  ===============================================================
==========================

Largest-remainder rounding moves ``r`` of the values up and the others down, at a distance of ``r (k - r) / (k N) <= k /
(4 N)``.

*Scores without all pairs.*  At resolution ``L = N`` a set A is ``{P > Q}`` for some Q of the cover iff A is neither
empty nor everything and ``P > 0`` on A (lower each value of A by one unit and give the units to one value outside), so
``s_P = max over such A of tab[A, P(A)]`` with ``tab[A, q] = sum_i clip(m_i q - N c_i(A), -T, T)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain, UserData
from privpac.data.jit import jit
from privpac.distributions.base import Sum
from privpac.distributions.cells import CodeCells, Partition, ProductCells
from privpac.distributions.results import DiscreteDistribution, Distribution, ProductDistribution
from privpac.distributions.selection.comparison import scheffe_range
from privpac.distributions.selection.kernels import clipped_sum, group_sizes, prefix_sums
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational
from privpac.guarantee import Neighbours

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["Cover", "DiscreteCover", "ProductCover", "round_to_cover"]

Ints = NDArray[np.int64]
MAX_WORK = 10**10
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


@dataclass(frozen=True)
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
        if values > 60 or DiscreteCover.count(values, units) << values > MAX_WORK:
            raise TooLargeError(
                f"the cover of all mass functions on {values} values at this radius is too large to search; use "
                "ClippedHistogram, "
                "or a larger alpha"
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


@dataclass(frozen=True)
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
                "ClippedHistogram, which takes "
                "the columns one by one, or a larger alpha"
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
        for part in self.parts:
            listed = np.array([part.composition(i) for i in range(part.size)], dtype=np.int64)
            out = (out[:, None, :, None] * listed[None, :, None, :]).reshape(len(out) * len(listed), -1)
        return out

    def _split(self, index: int) -> tuple[int, ...]:
        places = []
        for part in reversed(self.parts):
            index, place = divmod(index, part.size)
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
