"""Scheffé sets of all pairs of candidates: which records are in them, and how likely each candidate finds them.

``W_{PQ} = {z : P(z) > Q(z)}``.  On a public partition the sets of all pairs are given by *ranks*: in every cell the
candidates are ordered by their density, and a record of that cell is in ``W_{PQ}`` iff P ranks above Q.  ``q_{PQ} =
floor(L P(W_{PQ}) + 1/2)`` is an integer at the public resolution ``L``.

All of this is public.  By the range rule privacy needs only that a user's contribution is a function of that user's
records and public numbers in a public interval: wrong probabilities or ranks cost accuracy, never privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Floats64, Ints
from privpac.data import Domain, Floats, UserData
from privpac.data.loops import jit
from privpac.distributions.base import Sum
from privpac.distributions.cells import (
    CodeCells,
    LineCells,
    Partition,
    ProductCells,
    codes_below,
    codes_upto,
    is_numeric,
    read_edges,
    values_of,
)
from privpac.distributions.results import uniforms
from privpac.distributions.selection.candidates import (
    BinnedLaw,
    Candidate,
    IntegerLaw,
    Joint,
    LineLaw,
    Normal,
    Product,
    check_terms,
    read_candidate,
)
from privpac.distributions.selection.kernels import density_sums, linear_sums, rank_sums, single_sums, tally
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Neighbours, positive_int
from privpac.rng import PublicCoins, derive
from privpac.special import ndtr, ndtri

if TYPE_CHECKING:
    from privpac.data import Users

# Where one density overtakes another: the cuts of Scheffé sets on the line.
#
# ``W = {z : P(z) > Q(z)}`` is a union of intervals between cuts.  Two normals: the midpoint, exactly, if ``s1 = s2``,
# else the roots of ``A x^2 + B x + C`` with
#
#     A = 1/(2 s2^2) - 1/(2 s1^2)
#     B = m1/s1^2 - m2/s2^2
#     C = m2^2/(2 s2^2) - m1^2/(2 s1^2) + ln(s2/s1)
#
# Other laws: changes of sign of the difference of log densities over both laws' quantiles, down to 1e-15 in the tails,
# located by bisection.  All of it is public; a missed double root costs accuracy, never privacy.


_LEVELS = 4096
_STEPS = 64
_MAX_PAIRS = 50_000
MAX_INTEGERS = 1 << 20


def normal_cuts(m1: Fraction, s1: Fraction, m2: Fraction, s2: Fraction) -> list[Fraction]:
    """Where two normal densities cross."""
    if s1 == s2:
        return [] if m1 == m2 else [(m1 + m2) / 2]
    a = float(1 / (2 * s2**2) - 1 / (2 * s1**2))
    b = float(m1 / s1**2 - m2 / s2**2)
    c = float(m2**2 / (2 * s2**2) - m1**2 / (2 * s1**2)) + math.log(s2 / s1)
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    far = -(b + math.copysign(root, b)) / 2
    roots = [far / a, c / far] if far != 0 else [0.0]
    return sorted(Fraction(x) for x in roots if math.isfinite(x))


def _grid(candidate: Candidate) -> Floats64:
    """Quantiles in steps of 1/4096 and, in both tails, in quarter powers of ten down to 1e-15; listed breaks
    besides."""
    if isinstance(candidate, Joint):
        support = candidate.density.support
        if support is None or not all(math.isfinite(end) for end in support) or support[0] >= support[1]:
            raise ParameterError(
                f"{candidate.name} needs a finite support=(lo, hi) to be compared without bins; or give bins="
            )
        return np.linspace(support[0], support[1], _LEVELS + 1)
    tails = 10.0 ** -np.arange(4, 15.01, 0.25)
    levels = np.concatenate([tails, np.arange(1, _LEVELS) / _LEVELS])
    points = [candidate.quantiles(levels)]
    if isinstance(candidate, LineLaw):
        points += [
            np.asarray(candidate.law.isf(tails)),
            np.array([*candidate.law.support(), candidate.law.mean()], dtype=np.float64),
        ]
    breaks = getattr(candidate, "edges", ())
    points.append(np.array([float(edge) for edge in breaks]))
    every = np.concatenate(points)
    return np.unique(every[np.isfinite(every)])


def _signs(mine: Floats64, theirs: Floats64) -> NDArray[np.int8]:
    """1 where ``mine`` is larger, -1 where it is smaller, 0 for ties: equal, both -inf, or NaN."""
    return (mine > theirs).astype(np.int8) - (mine < theirs).astype(np.int8)


def line_cuts(candidates: Sequence[Candidate]) -> list[Fraction]:
    """The cuts of all pairs of continuous laws, increasing."""
    size = len(candidates)
    if size * (size - 1) // 2 > _MAX_PAIRS:
        raise TooLargeError(f"{size} candidates have more than {_MAX_PAIRS} pairs to intersect one by one; give bins=")
    found: set[Fraction] = set()
    rest: list[tuple[int, int]] = []
    for i in range(size):
        for j in range(i):
            p, r = candidates[i], candidates[j]
            if isinstance(p, LineLaw) and isinstance(r, LineLaw) and p.normal is not None and r.normal is not None:
                found.update(normal_cuts(*p.normal, *r.normal))
            else:
                rest.append((i, j))
    found.update(Fraction(x) for x in _brackets_to_cuts(candidates, rest))
    return sorted(found)


def _brackets_to_cuts(candidates: Sequence[Candidate], pairs: list[tuple[int, int]]) -> list[float]:
    involved = sorted({i for pair in pairs for i in pair})
    grids = {i: _grid(candidates[i]) for i in involved}
    lows, highs, first, second, kept = [], [], [], [], []
    for i, j in pairs:
        grid = np.union1d(grids[i], grids[j])
        signs = _signs(candidates[i].log_density(grid[:, None]), candidates[j].log_density(grid[:, None]))
        at = np.flatnonzero(signs[1:] != signs[:-1])
        lows.append(grid[at])
        highs.append(grid[at + 1])
        kept.append(signs[at])
        first.append(np.full(len(at), i))
        second.append(np.full(len(at), j))
    if not lows:
        return []
    lo, hi, sign = np.concatenate(lows), np.concatenate(highs), np.concatenate(kept)
    who = np.concatenate(first), np.concatenate(second)
    for _ in range(_STEPS):
        # All brackets of all pairs at once: one evaluation of each candidate per step.
        middle = lo / 2 + hi / 2
        values = []
        for role in who:
            out = np.empty(len(middle))
            for i in involved:
                mine = role == i
                if mine.any():
                    out[mine] = candidates[i].log_density(middle[mine][:, None])
            values.append(out)
        same = _signs(*values) == sign
        lo, hi = np.where(same, middle, lo), np.where(same, hi, middle)
    return [float(x) for x in hi]


def spread(candidates: Sequence[Candidate]) -> float:
    """The smallest distance between a candidate's quartiles: how far outside the last cut the tails are looked at."""
    widths = []
    for candidate in candidates:
        points = _grid(candidate) if isinstance(candidate, Joint) else candidate.quantiles(np.array([0.25, 0.75]))
        widths.append(float(points[-1] - points[0]))
    return max(min(widths), 1e-300)


def integer_range(candidates: Sequence[Candidate]) -> tuple[int, int]:
    """Integers outside which no candidate has more than 1e-12 on either side."""
    laws: list[Any] = []
    for candidate in candidates:
        if isinstance(candidate, IntegerLaw):
            check_terms(candidate.law, candidate.name)
            laws.append(candidate.law)
    lo = min(math.floor(law.ppf(1e-12)) for law in laws)
    hi = max(math.ceil(law.isf(1e-12)) for law in laws)
    if hi - lo > MAX_INTEGERS:
        raise TooLargeError(f"the candidates spread over {hi - lo} integers, more than {MAX_INTEGERS}; give bins=")
    return lo, hi


Masses = Array
"""One row for each candidate, one column for each cell: int64 or Python ints over a common total, or floats."""

BIN_BITS = 40


# The comparison of all pairs


@frozen(slots=False, eq=False)
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


def scheffe_range(q: object, unit: int, top: int, cap: int | None, neighbours: Neighbours | str) -> int:
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


@frozen(slots=False, eq=False)
class Ranked:
    """Cells with ranks and masses; ``total`` is what integer masses sum to, 1 for floats."""

    cells: Partition
    above: Array
    below: Array
    masses: Masses
    total: int

    @cached_property
    def padded(self) -> Array:
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


def rank(values: Array) -> tuple[Array, Array]:
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
def _set_masses(masses: Array, above: Array, below: Array) -> Array:
    size = masses.shape[0]
    out = np.zeros((size, size), masses.dtype)
    for cell in range(masses.shape[1]):
        for p in range(size):
            for r in range(size):
                if above[cell, p] > below[cell, r]:
                    out[p, r] += masses[p, cell]
    return out


def _object_sums(masses: Masses, above: Array, below: Array) -> NDArray[np.object_]:
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
    assert all(isinstance(candidate, IntegerLaw) for candidate in candidates)
    lo, hi = integer_range(candidates)
    edges = [Fraction(i) for i in range(lo, hi + 2)]
    points = np.arange(lo - 1, hi + 2, dtype=np.float64)
    density = np.stack([candidate.log_density(points[:, None]) for candidate in candidates], axis=1)
    masses = np.array([candidate.edge_masses(edges, domain) for candidate in candidates], dtype=np.float64)
    above, below = rank(density)
    return Ranked(LineCells.at_edges(feature, domain, edges), above, below, masses, 1)


@frozen(slots=False, eq=False)
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


def scheffe_probability(P: object, Q: object) -> tuple[float, float]:
    """``P(W)`` and ``Q(W)`` for ``W = {z : P(z) > Q(z)}``, two laws of one column.

    >>> from scipy import stats
    >>> [round(p, 6) for p in scheffe_probability(stats.norm(0, 1), stats.norm(1, 1))]
    [0.691462, 0.308538]
    """
    pair = [read_candidate(P, "P"), read_candidate(Q, "Q")]
    kinds = {candidate.measure for candidate in pair}
    if len(kinds) > 1:
        raise ParameterError("a law on the integers and a density have no common scale; compare them on bins")
    ranked = (integer_sets if isinstance(pair[0], IntegerLaw) else line_sets)(pair, "x", Floats())
    inside = ranked.above[:, 0] > ranked.below[:, 1]
    return float(ranked.masses[0][inside].sum()), float(ranked.masses[1][inside].sum())


# Comparing candidates record by record, for several columns without bins.
#
# Whether a record is in a Scheffé set must be a function of the record *alone*: batched linear algebra may round the
# same row differently in different company.  Normal laws are therefore evaluated by one scalar loop of additions and
# multiplications per record, other densities by one call per distinct record.  ``P(W)`` is ``Phi(distance / 2)`` for
# two normals of one covariance, else a Monte-Carlo mean from public coins: its error, at most ``sqrt(ln(2 K^2 / eta) /
# (2 S))`` except with probability ``eta``, costs accuracy, never privacy.


_BLOCK = 1 << 15


@jit
def _quadratic(points: Floats64, means: Floats64, inverses: Floats64, constants: Floats64) -> Floats64:
    out = np.empty((points.shape[0], means.shape[0]))
    dimension = points.shape[1]
    for i in range(points.shape[0]):
        for k in range(means.shape[0]):
            form = 0.0
            for a in range(dimension):
                for b in range(dimension):
                    form += (points[i, a] - means[k, a]) * inverses[k, a, b] * (points[i, b] - means[k, b])
            out[i, k] = constants[k] - 0.5 * form
    return out


def points_of(users: UserData, domains: Mapping[str, Domain]) -> Floats64:
    """Records as rows of numbers."""
    return np.column_stack([values_of(domain, users.codes[name]) for name, domain in domains.items()])


@frozen(slots=False, eq=False)
class DensityComparison(CandidateComparison):
    """Sets decided at the records themselves."""

    candidates: tuple[Candidate, ...]
    domains: Mapping[str, Domain]

    @property
    def known(self) -> bool:
        return _one_covariance(self.candidates) is not None

    def chunk(self, users: UserData, top: int) -> NDArray[np.int64]:
        out = np.zeros(self.q.shape, np.int64)
        if not users.n_records:
            return out
        points, offsets = points_of(users, self.domains), users.offsets
        # Blocks of whole users, so that the matrix of densities stays small.
        ends = np.searchsorted(offsets, np.arange(0, users.n_records, _BLOCK))
        bounds = np.unique(np.concatenate([[0], ends, [users.n_users]]))
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist()):
            block = offsets[first : last + 1]
            density = self.log_density(points[block[0] : block[-1]])
            out += density_sums(block, density, self.q, self.unit, top)
        return out

    def log_density(self, points: Floats64) -> Floats64:
        """One column for each candidate; every row depends on that row alone."""
        normals = _normals(self.candidates)
        if normals is not None:
            return normals(points)
        distinct, places = np.unique(points, axis=0, return_inverse=True)
        rows = [[float(candidate.log_density(row[None, :])[0]) for candidate in self.candidates] for row in distinct]
        return np.asarray(np.array(rows)[places.reshape(-1)])


def _normals(candidates: Sequence[Candidate]) -> Callable[[Floats64], Floats64] | None:
    """Log densities of all candidates at once if they are normal laws."""
    normals = [candidate for candidate in candidates if isinstance(candidate, Normal)]
    if len(normals) < len(candidates):
        return None
    forms = [candidate.quadratic for candidate in normals]
    means, inverses = np.stack([candidate.mean for candidate in normals]), np.stack([form for form, _ in forms])
    constants = np.array([constant for _, constant in forms])
    return lambda points: np.asarray(_quadratic(points, means, inverses, constants))


# The probabilities of the sets


def monte_carlo(candidates: Sequence[Candidate], dimension: int, samples: int, public_seed: bytes) -> Floats64:
    """``P(W_{PQ})`` for all pairs."""
    exact = _one_covariance(candidates)
    if exact is not None:
        return exact
    coins = PublicCoins(public_seed, "P(W)")
    u = uniforms(samples * dimension, coins).reshape(samples, dimension)
    seed = int.from_bytes(derive(public_seed, "P(W) samples")[:4], "little")
    out, normals = np.zeros((len(candidates), len(candidates))), _normals(candidates)
    for p, candidate in enumerate(candidates):
        drawn = _drawn(candidate, u, seed)
        for start in range(0, samples, _BLOCK):
            rows = np.ascontiguousarray(drawn[start : start + _BLOCK])
            if normals is not None:
                density = normals(rows)
                out[p] += np.count_nonzero(density[:, p : p + 1] > density, axis=0)
                continue
            own = candidate.log_density(rows)
            for r, other in enumerate(candidates):
                if r != p:
                    out[p, r] += np.count_nonzero(own > other.log_density(rows))
    return out / samples


def _one_covariance(candidates: Sequence[Candidate]) -> Floats64 | None:
    normals = [candidate for candidate in candidates if isinstance(candidate, Normal)]
    if len(normals) < len(candidates) or any(not np.array_equal(c.covariance, normals[0].covariance) for c in normals):
        return None
    root = np.linalg.cholesky(normals[0].covariance)
    scaled = np.linalg.solve(root, np.stack([c.mean for c in normals]).T).T
    distance = np.sqrt(((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=2))
    return np.where(distance > 0, np.asarray(ndtr(distance / 2)), 0.0)


def _drawn(candidate: Candidate, u: Floats64, seed: int) -> Floats64:
    if isinstance(candidate, Normal):
        return np.asarray(ndtri(u) @ np.linalg.cholesky(candidate.covariance).T + candidate.mean)
    if isinstance(candidate, Product) and all(isinstance(part, LineLaw) for part in candidate.parts):
        return np.column_stack([part.quantiles(u[:, i]) for i, part in enumerate(candidate.parts)])
    if isinstance(candidate, LineLaw):
        return candidate.quantiles(u[:, 0])[:, None]
    if isinstance(candidate, Joint) and candidate.density.sample is not None:
        rows = np.asarray(candidate.density.sample(len(u), seed), dtype=np.float64)
        if rows.size != u.size:
            raise ParameterError(
                f"sample(size, seed) of {candidate.name} must return {len(u)} rows of {u.shape[1]} numbers"
            )
        return rows.reshape(u.shape)
    raise ParameterError(
        f"{candidate.name} can neither be integrated nor sampled: give Density(..., sample=...), or bins="
    )


# From candidates, declared domains and ``bins`` to the comparison of all pairs.
#
# =======================================  =======================================================================
# situation                                how sets and probabilities are found =======================================
# ======================================================================= small domains, masses of values          exact
# masses of values ``bins=`` edges, a number, ``"auto"``    integer masses of bins summing to 2**40 (exact for rational
# candidates) normals; continuous laws (no bins)       crossing points; distribution functions between them laws on the
# integers (no bins)           masses of the integers that hold all but 1e-12 several columns (no bins)
# densities at the records; Monte Carlo from public coins masses against densities (no bins)       refused: they have no
# common scale =======================================
# =======================================================================
#
# Binning never increases a total variation distance; ``"auto"`` places at most 4096 edges at the candidates' own
# quantiles.


SMALL = 1 << 16
AUTO_EDGES = 4096
_Bins = Any


def read_bins(bins: _Bins) -> _Bins:
    """``None``, ``"auto"``, a number of bins, edges, or a mapping of columns to numbers and edges."""
    if bins is None or (isinstance(bins, str) and bins == "auto"):
        return bins
    if isinstance(bins, str):
        raise ParameterError(f"bins must be 'auto', None, a number or edges, got {bins[:40]!r}")
    if isinstance(bins, Mapping):
        return {name: read_bins(given) for name, given in bins.items()}
    if isinstance(bins, int) and not isinstance(bins, bool):
        return positive_int(bins, "bins", minimum=2, maximum=SMALL)
    return read_edges(bins)


def compare(
    candidates: Sequence[Candidate],
    domains: Mapping[str, Domain],
    bins: _Bins,
    unit: int,
    samples: int,
    public_seed: bytes,
) -> CandidateComparison:
    """The comparison of all pairs on these columns."""
    if len(domains) == 1:
        ((feature, domain),) = domains.items()
        ranked = _one_column(
            candidates, feature, domain, bins[feature] if isinstance(bins, Mapping) and feature in bins else bins
        )
    else:
        ranked = _columns(candidates, domains, bins)
    if ranked is not None:
        return RankComparison.of(ranked, unit)
    without = [name for name, domain in domains.items() if not is_numeric(domain)]
    if without or any(candidate.measure != "line" for candidate in candidates):
        raise ParameterError(
            "densities at records need numeric columns and candidates that are densities; give bins= otherwise"
        )
    dimensions = {len(candidate.mean) for candidate in candidates if isinstance(candidate, Normal)} - {len(domains)}
    if dimensions:
        raise ParameterError(
            f"normal candidates of {sorted(dimensions)} columns cannot describe {len(domains)} columns"
        )
    likely = monte_carlo(candidates, len(domains), samples, public_seed)
    q = np.floor(likely * unit + 0.5).astype(np.int64)
    return DensityComparison(q, unit, tuple(candidates), dict(domains))


# One column


def _one_column(candidates: Sequence[Candidate], feature: str, domain: Domain, bins: _Bins) -> Ranked | None:
    kinds = {candidate.measure for candidate in candidates}
    small = domain.size <= SMALL
    if bins is None or bins == "auto":
        if kinds == {"values"} and (small or not all(isinstance(c, IntegerLaw) for c in candidates)):
            return _values(candidates, {feature: domain})
        if small and domain.bounded and all(isinstance(c, Joint) and c.density.cdf is None for c in candidates):
            return _values(candidates, {feature: domain})
    if not is_numeric(domain):
        raise ParameterError(f"column {feature!r} has {domain.describe()}: candidates must be masses of its values")
    if bins is None:
        return _without_bins(candidates, feature, domain, kinds)
    edges = (
        _auto_edges(candidates, AUTO_EDGES if bins == "auto" else bins - 1)
        if bins == "auto" or isinstance(bins, int)
        else bins
    )
    return ranked_by_masses(
        LineCells.at_edges(feature, domain, edges), [c.edge_masses(edges, domain) for c in candidates]
    )


def _without_bins(candidates: Sequence[Candidate], feature: str, domain: Domain, kinds: set[str]) -> Ranked | None:
    if len(kinds) > 1:
        raise ParameterError(
            "masses of values and densities have no common scale (their distance is 1); give bins= to compare them"
        )
    if kinds == {"values"}:
        return integer_sets(candidates, feature, domain)
    if all(isinstance(candidate, BinnedLaw) for candidate in candidates):
        edges = sorted(
            {edge for candidate in candidates if isinstance(candidate, BinnedLaw) for edge in candidate.edges}
        )
        return ranked_by_masses(
            LineCells.at_edges(feature, domain, edges), [c.edge_masses(edges, domain) for c in candidates]
        )
    if any(isinstance(candidate, Joint) and candidate.density.cdf is None for candidate in candidates):
        return None
    return line_sets(candidates, feature, domain)


def _auto_edges(candidates: Sequence[Candidate], most: int) -> tuple[Fraction, ...]:
    """Edges at the candidates' own quantiles: every candidate puts little mass in every bin."""
    each = max(1, most // len(candidates))
    levels = np.arange(1, each + 1) / (each + 1)
    points = np.concatenate([_quantiles(candidate, levels) for candidate in candidates])
    edges = sorted({Fraction(float(x)) for x in points if math.isfinite(x)})
    if not edges:
        raise ParameterError("the candidates have no finite quantiles to place bins by; give the edges as bins=[...]")
    if len(edges) > most:
        edges = [edges[i * len(edges) // most] for i in range(most)]
    return tuple(edges)


def _quantiles(candidate: Candidate, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(candidate, Joint) and candidate.density.support is not None:
        lo, hi = candidate.density.support
        return np.asarray(lo + (hi - lo) * levels)
    return candidate.quantiles(levels)


# Masses of values, and several columns


def _values(candidates: Sequence[Candidate], domains: Mapping[str, Domain]) -> Ranked:
    cells: list[Partition] = [CodeCells(name, domain.size) for name, domain in domains.items()]
    partition = cells[0] if len(cells) == 1 else ProductCells(tuple(cells))
    return ranked_by_masses(partition, [candidate.value_masses(domains) for candidate in candidates])


def _columns(candidates: Sequence[Candidate], domains: Mapping[str, Domain], bins: _Bins) -> Ranked | None:
    if isinstance(bins, Mapping) or not (bins is None or bins == "auto"):
        return _boxes(candidates, domains, bins)
    size = math.prod(domain.size for domain in domains.values())
    kinds = {candidate.measure for candidate in candidates}
    if kinds == {"values"} or (size <= SMALL and kinds == {"line"} and all(isinstance(c, Joint) for c in candidates)):
        return _values(candidates, domains)
    if len(kinds) > 1:
        raise ParameterError(
            "masses of values and densities have no common scale (their distance is 1); give bins= to compare them"
        )
    return None


def _boxes(candidates: Sequence[Candidate], domains: Mapping[str, Domain], bins: _Bins) -> Ranked:
    """Boxes of edges, the outer ones reaching to the domain's ends; masses by density at the middle times volume."""
    if not isinstance(bins, Mapping) or set(bins) != set(domains):
        raise ParameterError(f"several columns need bins={{column: edges}} for each of {list(domains)}")
    cells: list[Partition] = []
    middles, widths = [], []
    for name, domain in domains.items():
        edges = bins[name]
        if not isinstance(edges, tuple) or len(edges) < 2:
            raise ParameterError(
                f"column {name!r} needs at least two edges, from the lowest to the highest value of interest"
            )
        cells.append(LineCells.at_edges(name, domain, edges[1:-1]))
        ends = list(pairwise(float(edge) for edge in edges))
        middles.append(np.array([(a + b) / 2 for a, b in ends]))
        widths.append(np.array([b - a for a, b in ends]))
    points = np.stack([axis.ravel() for axis in np.meshgrid(*middles, indexing="ij")], axis=1)
    volume = np.prod(np.stack([axis.ravel() for axis in np.meshgrid(*widths, indexing="ij")], axis=1), axis=1)
    rows = [np.nan_to_num(np.exp(candidate.log_density(points)), posinf=0.0) * volume for candidate in candidates]
    return ranked_by_masses(ProductCells(tuple(cells)), rows)
