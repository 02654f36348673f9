"""Two voices in one fold: the clipped regret and the per-user mean of every rule, and the users' own luck.

With ``b`` the user's own least mistakes over the class, ``r`` a rule's mistakes above it, ``R`` the largest of these
and ``t = own_clip(m)``, a user with ``m`` records adds to every rule

    clip voice   floor(levels * min(r, t) / t)            mean voice   floor(levels * r / m)

and to the one integer that the mean voice carries on top of all its scores

    d = min( luck(m, b), levels - floor(levels * R / m) ),
    luck(m, b) = floor( levels (1 - t/m)**2 min(1, sqrt(b m / (t**2 (m - 2b))) / 2) ),   the minimum 1 if 2b >= m.

*Luck* is what a user of ``b`` mistakes would gain by chance in the clip voice at the best shared rule; it says nothing
against the clip, so it is credited.  The second term is the *room* that the user's own worst rule leaves:
``floor(levels r / m) + d <= levels`` for every rule, so that one user moves both voices within ``0..levels`` (see
``learners.voices`` for what that proves).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.statistics import DEFAULT_LEVELS, Graded, own_clip

__all__ = ["Voices", "own_luck"]

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
