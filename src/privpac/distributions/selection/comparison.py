"""Scheffé sets of all pairs of candidates: which records are in them, and how likely each candidate finds them.

``W_{PQ} = {z : P(z) > Q(z)}``.  On a public partition the sets of all pairs are given by *ranks*: in every cell the
candidates are ordered by their density, and a record of that cell is in ``W_{PQ}`` iff P ranks above Q.  ``q_{PQ} =
floor(L P(W_{PQ}) + 1/2)`` is an integer at the public resolution ``L``.

All of this is public.  By the range rule privacy needs only that a user's contribution is a function of that user's
records and public numbers in a public interval: wrong probabilities or ranks cost accuracy, never privacy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain, Floats, UserData
from privpac.data.jit import jit
from privpac.distributions.base import Sum
from privpac.distributions.cells import LineCells, Partition, codes_below, codes_upto
from privpac.distributions.selection.candidates import Candidate, Counts
from privpac.distributions.selection.crossings import integer_range, line_cuts, spread
from privpac.distributions.selection.kernels import linear_sums, rank_sums, single_sums, tally
from privpac.distributions.selection.reading import read_candidate
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = [
    "CandidateComparison",
    "RankComparison",
    "Ranked",
    "exact_masses",
    "integer_sets",
    "line_sets",
    "rank",
    "scheffe_probability",
    "scheffe_range",
    "worst_pairs",
]

Ints = NDArray[np.int64]
Floats64 = NDArray[np.float64]
Masses = NDArray[Any]
"""One row for each candidate, one column for each cell: int64 or Python ints over a common total, or floats."""

BIN_BITS = 40


# The comparison of all pairs


@dataclass(frozen=True, eq=False)
class CandidateComparison(ABC):
    """The integers ``q[P, Q]`` at resolution ``unit``; concrete ones know how to count records in sets."""

    q: Ints
    unit: int

    @property
    def size(self) -> int:
        return len(self.q)

    @property
    def known(self) -> bool:
        """Whether ``q / unit`` is ``P(W)`` up to rounding, not an estimate from samples."""
        return True

    @property
    def pairs(self) -> Ints:
        """``q`` of all pairs of different candidates."""
        return np.asarray(self.q[~np.eye(self.size, dtype=bool)])

    @abstractmethod
    def chunk(self, users: UserData, top: int) -> Ints:
        """``sum over users of clip(m q - unit c, -top, top)`` for every pair."""

    def scores(self, users: Users, top: int) -> Ints:
        """The worst pair sum of every candidate."""
        return worst_pairs(users.fold(Sum(self.q.shape, lambda part: self.chunk(part, top))))


def worst_pairs(sums: Ints) -> Ints:
    """``max over Q != P`` of the pair sums; a single candidate scores 0."""
    if len(sums) == 1:
        return np.zeros(1, np.int64)
    least = np.iinfo(np.int64).min
    return np.asarray(np.where(np.eye(len(sums), dtype=bool), least, sums).max(axis=1))


def scheffe_range(q: Any, unit: int, top: int, cap: int | None, neighbours: Neighbours | str) -> int:
    """The range sensitivity of the worst pair sum.

    A user's contribution to a pair lies in ``[lo, hi] = [-min(T, M (L - q)), min(T, M q)]`` (``[-T, T]`` without a cap
    M).  Under replace every pair sum, hence every maximum of them, moves by at most ``max(hi - lo)`` either way, so
    score differences by twice that; under add-remove all scores move within ``[min lo, max hi]``.

    >>> scheffe_range([12, 18, 6], 20, 20, 1, "replace"), scheffe_range([5], 8, 16, None, "add-remove")
    (40, 32)
    """
    values = np.asarray(q, dtype=np.int64).ravel()
    if values.size == 0:
        return 1
    if cap is None:
        hi, lo = np.full(values.size, top), np.full(values.size, -top)
    else:
        # cap * unit may exceed 64 bits; beyond the clip it makes no difference.
        times = min(cap, top)
        hi, lo = np.minimum(top, times * values), -np.minimum(top, times * (unit - values))
    if neighbours == Neighbours.REPLACE:
        return max(1, 2 * int((hi - lo).max()))
    return max(1, int(hi.max()) - int(lo.min()))


# Ranks


@dataclass(frozen=True, eq=False)
class Ranked:
    """Cells with ranks and masses; ``total`` is what integer masses sum to, 1 for floats."""

    cells: Partition
    above: NDArray[Any]
    below: NDArray[Any]
    masses: Masses
    total: int

    @cached_property
    def padded(self) -> NDArray[Any]:
        """``below`` with columns that nothing ranks above, up to a multiple of 32: whole vectors for the kernel."""
        extra = -self.below.shape[1] % 32
        return np.pad(self.below, ((0, 0), (0, extra)), constant_values=np.iinfo(self.below.dtype).max)

    def probabilities(self, unit: int) -> Ints:
        """``q[P, Q] = floor(unit P(W) + 1/2)``, exactly where masses are integers."""
        if self.masses.dtype.kind == "O":
            sums: Any = _object_sums(self.masses, self.above, self.below)
        else:
            sums = _set_masses(self.masses, self.above, self.below)
        if sums.dtype.kind == "f":
            return np.asarray(np.floor(np.clip(sums, 0.0, 1.0) * unit + 0.5).astype(np.int64))
        return np.asarray(((2 * unit * sums.astype(object) + self.total) // (2 * self.total)).astype(np.int64))


def rank(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ranks along the rows, equal for equal values; ``above[P] > below[Q]`` iff value P is larger and neither is
    NaN."""
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
    filled = np.where(missing, -np.inf, values) if missing.any() else values
    order = np.argsort(filled, axis=1, kind="stable")
    ordered = np.take_along_axis(filled, order, axis=1)
    steps = np.concatenate([np.ones((len(values), 1), dtype=bool), ordered[:, 1:] > ordered[:, :-1]], axis=1)
    kind = np.uint8 if values.shape[1] <= 254 else np.uint16
    ranks = np.empty(values.shape, dtype=kind)
    np.put_along_axis(ranks, order, np.cumsum(steps, axis=1).astype(kind), axis=1)
    if not missing.any():
        return ranks, ranks
    # NaN is in no set: it never ranks above, and nothing ranks above it.
    return np.where(missing, 0, ranks).astype(kind), np.where(missing, np.iinfo(kind).max, ranks).astype(kind)


@jit
def _set_masses(masses: NDArray[Any], above: NDArray[Any], below: NDArray[Any]) -> NDArray[Any]:
    size = masses.shape[0]
    out = np.zeros((size, size), masses.dtype)
    for cell in range(masses.shape[1]):
        for p in range(size):
            for r in range(size):
                if above[cell, p] > below[cell, r]:
                    out[p, r] += masses[p, cell]
    return out


def _object_sums(masses: Masses, above: NDArray[Any], below: NDArray[Any]) -> NDArray[np.object_]:
    size = len(masses)
    out = np.zeros((size, size), dtype=object)
    for p in range(size):
        for r in range(size):
            out[p, r] = sum(masses[p][above[:, p] > below[:, r]].tolist())
    return out


def exact_masses(rows: Sequence[Any]) -> tuple[Masses, int]:
    """Masses over one total: exact for rationals, 2**40 by largest remainders as soon as one candidate has floats."""
    if all(not isinstance(row, np.ndarray) for row in rows):
        total = lcm(*(mass.denominator for row in rows for mass in row))
        whole = np.array([[int(mass * total) for mass in row] for row in rows], dtype=object)
        return (whole.astype(np.int64), total) if total < 1 << 62 else (whole, total)
    return np.array([_rounded(np.array([float(mass) for mass in row])) for row in rows], dtype=np.int64), 1 << BIN_BITS


def _rounded(masses: Floats64) -> Ints:
    """Integers summing to 2**40, proportional to the masses up to one unit each; the largest remainders are rounded
    up."""
    clean = np.maximum(np.nan_to_num(masses, posinf=0.0), 0.0)
    clean = clean / clean.sum() if clean.sum() > 0 else np.full(len(masses), 1 / len(masses))
    scaled = clean * (1 << BIN_BITS)
    whole: Ints = np.floor(scaled).astype(np.int64)
    left = (1 << BIN_BITS) - int(whole.sum())
    order = np.argsort(-(scaled - whole), kind="stable")
    whole[order[: max(left, 0)]] += 1
    return whole


def ranked_by_masses(cells: Partition, rows: Sequence[Any]) -> Ranked:
    """Cells whose candidates are ordered by their masses (over a cell all have the same width, so by density too)."""
    masses, total = exact_masses(rows)
    above, below = rank(masses.T)
    return Ranked(cells, above, below, masses, total)


def line_sets(candidates: Sequence[Candidate], feature: str, domain: Domain) -> Ranked:
    """The sets of continuous laws without bins: open intervals between cuts, and the cuts themselves as cells of one
    point.

    Within an interval the order of two candidates is constant; it is read off at the middle.  At a cut, log densities
    are compared after rounding to nine decimals, so that the two candidates that cross there tie.
    """
    cuts = line_cuts(candidates)
    positions = [place for cut in cuts for place in (codes_below(domain, cut), codes_upto(domain, cut))]
    x = np.array([float(cut) for cut in cuts])
    if len(x):
        reach = spread(candidates) / 8
        middles = np.concatenate([x[:1] - reach, x[:-1] / 2 + x[1:] / 2, x[-1:] + reach])
    else:
        middles = np.zeros(1)
    points = np.insert(x, np.arange(len(x) + 1).clip(max=len(x)), middles) if len(x) else middles
    density = np.stack([candidate.log_density(points[:, None]) for candidate in candidates], axis=1)
    density[1::2] = np.round(density[1::2], 9)
    masses = np.zeros((len(candidates), len(points)))
    for i, candidate in enumerate(candidates):
        inner = candidate.edge_masses(cuts, domain) if cuts else [1.0]
        masses[i, ::2] = [float(mass) for mass in inner]
    above, below = rank(density)
    return Ranked(LineCells(feature, domain, tuple(positions)), above, below, masses, 1)


def integer_sets(candidates: Sequence[Candidate], feature: str, domain: Domain) -> Ranked:
    """The sets of laws on the integers: one cell for each integer of a range that holds all but 1e-12, and two
    tails."""
    assert all(isinstance(candidate, Counts) for candidate in candidates)
    lo, hi = integer_range(candidates)
    edges = [Fraction(i) for i in range(lo, hi + 2)]
    points = np.arange(lo - 1, hi + 2, dtype=np.float64)
    density = np.stack([candidate.log_density(points[:, None]) for candidate in candidates], axis=1)
    masses = np.array([candidate.edge_masses(edges, domain) for candidate in candidates], dtype=np.float64)
    above, below = rank(density)
    return Ranked(LineCells.at_edges(feature, domain, edges), above, below, masses, 1)


@dataclass(frozen=True, eq=False)
class RankComparison(CandidateComparison):
    """Sets given by ranks in cells."""

    ranked: Ranked

    @staticmethod
    def of(ranked: Ranked, unit: int) -> RankComparison:
        return RankComparison(ranked.probabilities(unit), unit, ranked)

    def chunk(self, users: UserData, top: int) -> Ints:
        cells, above, below = self.ranked.cells.index(users), self.ranked.above, self.ranked.padded
        one, free = tally(users.offsets, cells, self.ranked.cells.size, self.unit, top)
        out = rank_sums(users.offsets, cells, above, below, self.q, self.unit, top)
        out += single_sums(one, above, below, self.q, self.unit, top)
        return out + linear_sums(free, above, below, self.q, self.unit)


def scheffe_probability(P: Any, Q: Any) -> tuple[float, float]:
    """``P(W)`` and ``Q(W)`` for ``W = {z : P(z) > Q(z)}``, two laws of one column.

    >>> from scipy import stats
    >>> [round(p, 6) for p in scheffe_probability(stats.norm(0, 1), stats.norm(1, 1))]
    [0.691462, 0.308538]
    """
    pair = [read_candidate(P, "P"), read_candidate(Q, "Q")]
    kinds = {candidate.measure for candidate in pair}
    if len(kinds) > 1:
        raise ParameterError("a law on the integers and a density have no common scale; compare them on bins")
    ranked = (integer_sets if isinstance(pair[0], Counts) else line_sets)(pair, "x", Floats())
    inside = ranked.above[:, 0] > ranked.below[:, 1]
    return float(ranked.masses[0][inside].sum()), float(ranked.masses[1][inside].sum())
