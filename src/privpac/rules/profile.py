"""A score for every hypothesis, as step functions over hypothesis ids.

Ids are Python ints ``0..size-1``.  A :class:`Step` covers consecutive ids with a step function; a :class:`Profile` is a
sequence of steps that covers the class.  Profiles add up (``a + b`` is the profile of the union of two disjoint sets of
users), so the same fold runs in memory, in chunks or on a cluster.  With several scores the ids of one follow those of
the other, ``size`` later, and one more integer is summed beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import isqrt, sqrt

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Ints
from privpac.data.loops import jit
from privpac.display import Discreet
from privpac.errors import ParameterError
from privpac.exact import Rational, positive_int, rational, root_up
from privpac.law import Law
from privpac.law.weights import Weights
from privpac.parameters import DEFAULT_LEVELS, bounds, fraction, named, whole

# What one user says about one rule: a bounded integer.
#
# All three statistics are one formula of the user's own mistakes ``e``, own least mistakes ``b`` over the class and own
# number of records ``m``:
#
#     g = floor( levels * min( max(e - b*uses_minimum - offset(m), 0), cap(m) ) / cap(m) ),   an integer in 0..levels
#
# and 0 for a user without records.  The bound ``levels`` *is* the privacy proof: a sum over users of values in
# 0..levels has range sensitivity ``levels`` under add-remove and ``2 * levels`` under replace, whatever ``offset`` and
# ``cap`` are, as long as they are public functions of ``m`` (rule R2 of the pure agnostic learner).
#
# A statistic may have several *scores*: one formula each, with caps of their own, folded together in one pass over the
# users (:mod:`privpac.rules.profile`).


_MOST = 1 << 62
"""More mistakes than any user can make: larger entries of a table mean the same."""

_LISTED = 1 << 16

Table = int | Mapping[int, int] | Callable[[int], int]
"""A public function of a user's number of records: a constant, a table or a rule."""


def read_table(table: Table, m: int, *, name: str, minimum: int) -> int:
    """The entry for ``m`` records; in a mapping the largest key at most ``m`` rules."""
    if isinstance(table, Mapping):
        value = table[max(key for key in table if key <= m)]
    else:
        value = table(m) if callable(table) else table
    return min(positive_int(value, name, minimum=minimum), _MOST)


def check_table(table: Table, *, name: str, minimum: int) -> None:
    """Refuse a table with missing or bad entries when it is declared: afterwards an error would depend on the data."""
    if isinstance(table, Mapping):
        if not any(key in (0, 1) for key in table):
            raise ParameterError(f"{name} needs an entry for users with one record; add a key 0 or 1")
        for value in table.values():
            positive_int(value, name, minimum=minimum, maximum=_MOST)
    elif not callable(table):
        positive_int(table, name, minimum=minimum, maximum=_MOST)


def _distinct(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct sizes in order, and the place of each user's among them; without a sort of those that are small."""
    listed = min(_LISTED, 1024 + 4 * len(sizes))  # a table for few people is short
    small = np.minimum(sizes, listed)
    distinct = np.flatnonzero(np.bincount(small, minlength=1))
    rank = np.zeros(listed + 1 if not len(distinct) else int(distinct[-1]) + 1, dtype=np.int64)
    rank[distinct] = np.arange(len(distinct))
    place = rank[small]
    if not len(distinct) or distinct[-1] < listed:
        return distinct, place
    # The few large ones, by a sort.
    large = np.flatnonzero(sizes >= listed)
    more, inside = np.unique(sizes[large], return_inverse=True)
    place[large] = len(distinct) - 1 + inside
    return np.concatenate([distinct[:-1], more]), place


@frozen(slots=False)
class Statistic:
    """Base of the three statistics; see the module docstring for the formula."""

    @property
    def bound(self) -> int:
        """The largest contribution of one user to one rule."""
        raise NotImplementedError

    @property
    def uses_minimum(self) -> bool:
        """Whether mistakes are counted from the user's own best rule."""
        return False

    def offset_of(self, m: int) -> int:
        """Mistakes that cost nothing."""
        return 0

    def cap_of(self, m: int) -> int:
        """Mistakes from which on nothing more is charged, at least 1."""
        raise NotImplementedError

    def caps_of(self, m: int) -> tuple[int, ...]:
        """The cap of every score."""
        return (self.cap_of(m),)

    @property
    def n_scores(self) -> int:
        """How many scores every rule gets."""
        return 1

    def optimism(self, sizes: NDArray[np.int64], own: NDArray[np.int64], times: NDArray[np.int64] | None = None) -> int:
        """One more integer summed over users, from the own least and most mistakes (rows of ``own``); 0 for one
        score."""
        return 0

    def value(self, mistakes: int, own_minimum: int, m: int) -> int:
        """The contribution of one user, for reference and tests."""
        if m == 0:
            return 0
        base = own_minimum if self.uses_minimum else 0
        cap = self.cap_of(m)
        return self.bound * min(max(mistakes - base - self.offset_of(m), 0), cap) // cap

    def shape(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``offset`` for every user, and ``cap`` in one row for every score, from a table over the distinct sizes."""
        distinct, place = _distinct(sizes)
        offsets = np.array([self.offset_of(int(m)) if m else 0 for m in distinct], dtype=np.int64)
        caps = np.array([self.caps_of(int(m)) if m else (1,) * self.n_scores for m in distinct], dtype=np.int64)
        return offsets[place], np.ascontiguousarray(caps.reshape(-1, self.n_scores).T[:, place])


@frozen(slots=False)
class Exceeds(Statistic):
    """1 if the rule makes more than ``tolerance`` mistakes on the user's records."""

    tolerance: Table = 0

    def __attrs_post_init__(self) -> None:
        check_table(self.tolerance, name="tolerance", minimum=0)

    @property
    def bound(self) -> int:
        return 1

    def offset_of(self, m: int) -> int:
        return read_table(self.tolerance, m, name="tolerance", minimum=0)

    def cap_of(self, m: int) -> int:
        return 1


class Graded(Statistic):
    """A share in steps of ``1/levels``, counted from the user's own best rule."""

    levels: int

    def __attrs_post_init__(self) -> None:
        positive_int(self.levels, "levels", maximum=1 << 31)

    @property
    def bound(self) -> int:
        return self.levels

    @property
    def uses_minimum(self) -> bool:
        return True


@frozen(slots=False)
class Mean(Graded):
    """The user's error rate in steps of ``1/levels``, counted from the user's own best rule (a shift that cancels)."""

    levels: int = DEFAULT_LEVELS

    def cap_of(self, m: int) -> int:
        return m


@frozen(slots=False, field_transformer=named)
class ClipRule:
    """The default clip: the least integer ``k`` in 1..m with

        k*k >= m,   16 k >= m,   64 k*k >= theta**2 N m,   96 bits k >= theta N m.

    sqrt(m) is the size of a user's own optimism; never amplify a user more than 16 times; stop amplifying once the
    privacy noise is below the sampling noise (third) or negligible (fourth), so that many users give the unbiased mean.
    """

    theta: Fraction = field(converter=fraction, metadata=bounds(minimum=0))
    n_users: int = field(converter=whole, metadata=bounds(minimum=0))
    bits: int = field(converter=whole)

    def __call__(self, m: int) -> int:
        p, q, n = self.theta.numerator, self.theta.denominator, self.n_users
        k = max(own_clip(m), root_up(_ratio_up(p * p * n * m, 64 * q * q)), _ratio_up(p * n * m, 96 * self.bits * q))
        return min(k, max(m, 1))

    @staticmethod
    def rate_below(tau: int, m: int, n_users: int, bits: int) -> float:
        """The largest ``theta`` with which ``n_users`` users have a clip below ``tau``, rounded down; 0 if none has."""
        k = tau - 1
        if k * k < m or 16 * k < m:
            return 0.0
        return min(8 * k / sqrt(n_users * m), 96 * bits * k / (n_users * m)) * (1 - 1e-12)


def root_clip(c: Rational) -> Callable[[int], int]:
    """``tau(m)`` = the least ``k >= 1`` with ``k >= c sqrt(m)``, at most ``m``."""
    exact = rational(c, "c", above=0)
    p, q = exact.numerator, exact.denominator
    return lambda m: min(max(1, root_up(_ratio_up(p * p * m, q * q))), max(m, 1))


def _ratio_up(a: int, b: int) -> int:
    return -(-a // b)


@frozen(slots=False)
class Regret(Graded):
    """How much worse than the user's own best rule, cut off at ``tau(m)`` records, in steps of ``1/levels``."""

    tau: Table
    levels: int = DEFAULT_LEVELS

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_table(self.tau, name="tau", minimum=1)

    def cap_of(self, m: int) -> int:
        return read_table(self.tau, m, name="tau", minimum=1)


# Scores


@frozen(slots=False, eq=False, repr=False)
class Step:
    """Ids ``offset + starts[i] .. offset + starts[i+1] - 1`` have score ``scores[i]``; the last block ends at ``offset
    + end``."""

    offset: int
    starts: NDArray[np.uint64]
    end: int
    scores: NDArray[np.int64]

    def score(self, local: int) -> int:
        # Starts fit 64 bits; an id beyond them lies in the last block.
        return int(
            self.scores[int(np.searchsorted(self.starts, np.uint64(min(local, (1 << 64) - 1)), side="right")) - 1]
        )

    def __add__(self, other: Step) -> Step:
        if (self.offset, self.end) != (other.offset, other.end):
            raise ParameterError("profiles of different classes cannot be added")
        if len(self.starts) == len(other.starts) and bool((self.starts == other.starts).all()):
            return Step(self.offset, self.starts, self.end, self.scores + other.scores)
        starts = np.empty(len(self.starts) + len(other.starts), dtype=np.uint64)
        scores = np.empty(len(starts), dtype=np.int64)
        n = _merge(self.starts, self.scores, other.starts, other.scores, starts, scores)
        if n > len(starts) // 2:
            return Step(self.offset, starts[:n], self.end, scores[:n])
        return Step(self.offset, starts[:n].copy(), self.end, scores[:n].copy())


@jit
def _merge(a: Array, x: Array, b: Array, y: Array, starts: Array, scores: Array) -> int:
    """Add two step functions, both from 0 on: one walk along their starts; returns how many there are together."""
    i, j, n = 0, 0, 0
    while i < a.size or j < b.size:
        at = a[i] if j == b.size or (i < a.size and a[i] < b[j]) else b[j]
        i += int(i < a.size and a[i] == at)
        j += int(j < b.size and b[j] == at)
        starts[n], scores[n] = at, x[i - 1] + y[j - 1]
        n += 1
    return n


@frozen(slots=False, eq=False)
class Profile(Discreet):
    """Integer scores (minimised) of every hypothesis of a class."""

    steps: tuple[Step, ...]
    optimism: int = 0

    # Reading

    def score(self, hypothesis: int) -> int:
        """The score of one id."""
        for step in self.steps:
            if step.offset <= hypothesis <= step.offset + step.end:
                return step.score(hypothesis - step.offset)
        raise ParameterError(f"no hypothesis has id {hypothesis}")

    def blocks(self) -> list[tuple[int, int, int]]:
        """``(first id, last id, score)`` with equal neighbours merged."""
        out: list[tuple[int, int, int]] = []
        for step in self.steps:
            firsts = [step.offset + int(s) for s in step.starts.tolist()]
            lasts = [f - 1 for f in firsts[1:]] + [step.offset + step.end]
            for first, last, score in zip(firsts, lasts, step.scores.tolist()):
                if out and out[-1][2] == score and out[-1][1] + 1 == first:
                    out[-1] = (out[-1][0], last, score)
                else:
                    out.append((first, last, score))
        return out

    @property
    def least(self) -> int:
        return min(int(step.scores.min()) for step in self.steps)

    def argmin(self) -> int:
        """The first id of least score."""
        least = self.least
        step = next(step for step in self.steps if int(step.scores.min()) == least)
        return step.offset + int(step.starts[int(np.argmin(step.scores))])

    # Building

    def __add__(self, other: Profile) -> Profile:
        if len(self.steps) != len(other.steps):
            raise ParameterError("profiles of different classes cannot be added")
        return Profile(tuple(a + b for a, b in zip(self.steps, other.steps)), self.optimism + other.optimism)

    def law(self, eta: Rational | None = None, *, base: Rational | None = None, weights: Weights | None = None) -> Law:
        """The exponential law over ids: weight ``e**(-eta * score)``, times the rule's own."""
        steps = [(step.offset, step.starts, step.end, step.scores) for step in self.steps]
        return Law.from_steps(steps, eta, base=base, weights=weights)

    def __repr__(self) -> str:
        return "<Profile>"


def constant_profile(size: int, score: int = 0) -> Profile:
    """The same score for ids ``0..size-1``."""
    return Profile((Step(0, np.zeros(1, dtype=np.uint64), size - 1, np.array([score], dtype=np.int64)),))


def dense_profile(scores: NDArray[np.int64], optimism: int = 0) -> Profile:
    """One score per id; rows are n_scores, one after the other."""
    rows = np.atleast_2d(scores)
    size = rows.shape[1]
    ids = np.arange(size, dtype=np.uint64)
    return Profile(tuple(Step(v * size, ids, size - 1, row.astype(np.int64)) for v, row in enumerate(rows)), optimism)


def step_of(offset: int, end: int, first: int, places: NDArray[np.uint64], scores: NDArray[np.int64]) -> Step:
    """Score ``first`` from id ``offset`` on, ``scores[i]`` from ``offset + places[i]`` on; places increase."""
    if len(places) == 0 or places[0] != 0:
        places = np.concatenate([np.zeros(1, dtype=np.uint64), places])
        scores = np.concatenate([np.array([first], dtype=np.int64), scores])
    return Step(offset, places, end, scores)


def concatenate(parts: Sequence[Profile], sizes: Sequence[int]) -> Profile:
    """Profiles of classes laid one after the other."""
    out: list[Step] = []
    base = 0
    for part, size in zip(parts, sizes):
        out.extend(Step(base + step.offset, step.starts, step.end, step.scores) for step in part.steps)
        base += size
    return Profile(tuple(out))


# Two scores in one fold: the clipped regret and the per-user mean of every rule, and the users' own optimism.
#
# With ``b`` the user's own least mistakes over the class, ``r`` a rule's mistakes above it, ``R`` the largest of these
# and ``t = own_clip(m)``, a user with ``m`` records adds to every rule
#
#     clip score   floor(levels * min(r, t) / t)            mean score   floor(levels * r / m)
#
# and to the one integer that the mean score carries on top of all its scores
#
#     d = min( optimism(m, b), levels - floor(levels * R / m) ),
#     optimism(m, b) = floor( levels (1 - t/m)**2 min(1, sqrt(b m / (t**2 (m - 2b))) / 2) ),   the minimum 1 if 2b >= m.
#
# *Optimism* is what a user of ``b`` mistakes would gain by chance in the clip score at the best shared rule; it says
# nothing against the clip, so it is credited.  The second term is the *room* that the user's own worst rule leaves:
# ``floor(levels r / m) + d <= levels`` for every rule, so that one user moves both scores within ``0..levels`` (see
# ``methods.hybrid`` for what that proves).


def own_clip(m: int) -> int:
    """The clip without a number of users: the least ``k >= 1`` with ``k*k >= m`` and ``16 k >= m``.

    >>> [own_clip(m) for m in (0, 1, 2, 5, 256, 257)]
    [1, 1, 2, 3, 16, 17]
    """
    return max(1, root_up(m), -(-m // 16))


@lru_cache(maxsize=1 << 16)
def own_optimism(m: int, b: int, levels: int = DEFAULT_LEVELS) -> int:
    """``optimism(m, b)`` in integers: ``floor(sqrt(x)) = isqrt(floor(x))``.

    >>> own_optimism(4, 1), own_optimism(16, 5), own_optimism(2, 1)
    (74, 215, 0)
    """
    t = own_clip(m)
    if m <= t:
        return 0
    # The first test covers 2b >= m, where the right side is not positive.
    if b * m >= 4 * t * t * (m - 2 * b):
        return levels * (m - t) ** 2 // m**2
    return isqrt(levels**2 * (m - t) ** 4 * b // (4 * t * t * (m - 2 * b) * m**3))


@frozen(slots=False)
class HybridStatistic(Graded):
    """Clipped regret and per-user mean, folded together; the ids of the mean score follow those of the clip score."""

    levels: int = DEFAULT_LEVELS

    @property
    def n_scores(self) -> int:
        return 2

    def caps_of(self, m: int) -> tuple[int, ...]:
        return own_clip(m), m

    def optimism(self, sizes: Ints, own: Ints, times: Ints | None = None) -> int:
        least, most = own
        # Only users with a mistake of their own, and more records than their clip, have optimism.
        some = np.flatnonzero((least > 0) & (sizes > 2))
        if not len(some):
            return 0
        m, b = sizes[some], least[some]
        place, optimism = self._table(m, b)
        room = self.levels - self.levels * (most[some] - b) // m
        held = np.minimum(optimism[place], room)
        # As for the scores, users times levels fit 63 bits.
        return int(held.sum() if times is None else (held * times[some]).sum())

    def _table(self, m: Ints, b: Ints) -> tuple[NDArray[np.intp], Ints]:
        """The optimism of every distinct pair (records, own least mistakes), and the place of each user's pair."""
        width = int(b.max()) + 1
        keys = m * width + b if int(m.max()) < (1 << 62) // width else None
        if keys is None:
            pairs, place = np.unique(np.stack([m, b], axis=1), axis=0, return_inverse=True)
        else:
            distinct, place = np.unique(keys, return_inverse=True)
            pairs = np.stack([distinct // width, distinct % width], axis=1)
        optimism = np.array(
            [own_optimism(int(records), int(wrong), self.levels) for records, wrong in pairs.tolist()], dtype=np.int64
        )
        return place.reshape(-1), optimism
