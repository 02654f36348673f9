"""A score for every hypothesis, as step functions over hypothesis ids.

Ids are Python ints ``0..size-1``.  A :class:`Step` covers consecutive ids with a step function; a :class:`Profile` is a
sequence of steps that covers the class.  Profiles add up (``a + b`` is the profile of the union of two disjoint sets of
users), so the same fold runs in memory, in chunks or on a cluster.  With several voices the ids of one follow those of
the other, ``size`` later, and one more integer is summed beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.data.jit import jit
from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.law import Law
from privpac.rules.kernels.events import sum_events
from privpac.rules.statistics import DEFAULT_LEVELS, Graded, own_clip

__all__ = [
    "Profile",
    "Step",
    "Voices",
    "concatenate",
    "constant_profile",
    "dense_profile",
    "own_luck",
    "step_from_events",
    "step_of",
]


@dataclass(frozen=True, eq=False, repr=False)
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
def _merge(a: Any, x: Any, b: Any, y: Any, starts: Any, scores: Any) -> int:
    """Add two step functions, both from 0 on: one walk along their starts; returns how many there are together."""
    i, j, n = 0, 0, 0
    while i < a.size or j < b.size:
        at = a[i] if j == b.size or (i < a.size and a[i] < b[j]) else b[j]
        i += int(i < a.size and a[i] == at)
        j += int(j < b.size and b[j] == at)
        starts[n], scores[n] = at, x[i - 1] + y[j - 1]
        n += 1
    return n


@dataclass(frozen=True, eq=False)
class Profile:
    """Integer scores (minimised) of every hypothesis of a class."""

    steps: tuple[Step, ...]
    luck: int = 0

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
        return Profile(tuple(a + b for a, b in zip(self.steps, other.steps)), self.luck + other.luck)

    def law(self, eta: Rational | None = None, *, base: Rational | None = None) -> Law:
        """The exponential law over ids: weight ``e**(-eta * score)``."""
        return Law.from_steps(
            [(step.offset, step.starts, step.end, step.scores) for step in self.steps], eta, base=base
        )

    def __repr__(self) -> str:
        return "<Profile>"


def constant_profile(size: int, score: int = 0) -> Profile:
    """The same score for ids ``0..size-1``."""
    return Profile((Step(0, np.zeros(1, dtype=np.uint64), size - 1, np.array([score], dtype=np.int64)),))


def dense_profile(scores: NDArray[np.int64], luck: int = 0) -> Profile:
    """One score per id; rows are voices, one after the other."""
    rows = np.atleast_2d(scores)
    size = rows.shape[1]
    ids = np.arange(size, dtype=np.uint64)
    return Profile(tuple(Step(v * size, ids, size - 1, row.astype(np.int64)) for v, row in enumerate(rows)), luck)


def step_of(offset: int, end: int, first: int, places: NDArray[np.uint64], scores: NDArray[np.int64]) -> Step:
    """Score ``first`` from id ``offset`` on, ``scores[i]`` from ``offset + places[i]`` on; places increase."""
    if len(places) == 0 or places[0] != 0:
        places = np.concatenate([np.zeros(1, dtype=np.uint64), places])
        scores = np.concatenate([np.array([first], dtype=np.int64), scores])
    return Step(offset, places, end, scores)


def step_from_events(offset: int, end: int, first: int, at: NDArray[np.uint64], change: NDArray[Any]) -> Step:
    """Score ``first`` from id ``offset`` on, changing by ``change[i]`` from ``offset + at[i]`` on (any order, repeats
    allowed)."""
    ((starts, scores),) = sum_events(at, change[:, None], [first], end + 1)
    return Step(offset, starts, end, scores)


def concatenate(parts: Sequence[Profile], sizes: Sequence[int]) -> Profile:
    """Profiles of classes laid one after the other."""
    out: list[Step] = []
    base = 0
    for part, size in zip(parts, sizes):
        out.extend(Step(base + step.offset, step.starts, step.end, step.scores) for step in part.steps)
        base += size
    return Profile(tuple(out))


# Two voices in one fold: the clipped regret and the per-user mean of every rule, and the users' own luck.
#
# With ``b`` the user's own least mistakes over the class, ``r`` a rule's mistakes above it, ``R`` the largest of these
# and ``t = own_clip(m)``, a user with ``m`` records adds to every rule
#
#     clip voice   floor(levels * min(r, t) / t)            mean voice   floor(levels * r / m)
#
# and to the one integer that the mean voice carries on top of all its scores
#
#     d = min( luck(m, b), levels - floor(levels * R / m) ),
#     luck(m, b) = floor( levels (1 - t/m)**2 min(1, sqrt(b m / (t**2 (m - 2b))) / 2) ),   the minimum 1 if 2b >= m.
#
# *Luck* is what a user of ``b`` mistakes would gain by chance in the clip voice at the best shared rule; it says
# nothing
# against the clip, so it is credited.  The second term is the *room* that the user's own worst rule leaves:
# ``floor(levels r / m) + d <= levels`` for every rule, so that one user moves both voices within ``0..levels`` (see
# ``methods.hybrid`` for what that proves).


Ints = NDArray[np.int64]


@lru_cache(maxsize=1 << 16)
def own_luck(m: int, b: int, levels: int = DEFAULT_LEVELS) -> int:
    """``luck(m, b)`` in integers: ``floor(sqrt(x)) = isqrt(floor(x))``.

    >>> own_luck(4, 1), own_luck(16, 5), own_luck(2, 1)
    (74, 215, 0)
    """
    t = own_clip(m)
    if m <= t:
        return 0
    # The first test covers 2b >= m, where the right side is not positive.
    if b * m >= 4 * t * t * (m - 2 * b):
        return levels * (m - t) ** 2 // m**2
    return isqrt(levels**2 * (m - t) ** 4 * b // (4 * t * t * (m - 2 * b) * m**3))


@dataclass(frozen=True)
class Voices(Graded):
    """Clipped regret and per-user mean, folded together; the ids of the mean voice follow those of the clip voice."""

    levels: int = DEFAULT_LEVELS

    @property
    def voices(self) -> int:
        return 2

    def caps_of(self, m: int) -> tuple[int, ...]:
        return own_clip(m), m

    def luck(self, sizes: Ints, own: Ints, times: Ints | None = None) -> int:
        least, most = own
        # Only users with a mistake of their own, and more records than their clip, have luck.
        some = np.flatnonzero((least > 0) & (sizes > 2))
        if not len(some):
            return 0
        m, b = sizes[some], least[some]
        place, luck = self._table(m, b)
        room = self.levels - self.levels * (most[some] - b) // m
        held = np.minimum(luck[place], room)
        # As for the scores, users times levels fit 63 bits.
        return int(held.sum() if times is None else (held * times[some]).sum())

    def _table(self, m: Ints, b: Ints) -> tuple[NDArray[np.intp], Ints]:
        """The luck of every distinct pair (records, own least mistakes), and the place of each user's pair."""
        width = int(b.max()) + 1
        keys = m * width + b if int(m.max()) < (1 << 62) // width else None
        if keys is None:
            pairs, place = np.unique(np.stack([m, b], axis=1), axis=0, return_inverse=True)
        else:
            distinct, place = np.unique(keys, return_inverse=True)
            pairs = np.stack([distinct // width, distinct % width], axis=1)
        luck = np.array(
            [own_luck(int(records), int(wrong), self.levels) for records, wrong in pairs.tolist()], dtype=np.int64
        )
        return place.reshape(-1), luck
