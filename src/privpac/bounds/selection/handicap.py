"""The public constants of two voices, once for the learner and for its certificates: the clip, and what the mean voice
pays (spec 16)."""

from __future__ import annotations

import math
from fractions import Fraction

from privpac.exact import root_up

__all__ = ["handicap", "own_clip"]

_MOST = 1 << 60


def own_clip(m: int) -> int:
    """The clip without a number of users: the least ``k >= 1`` with ``k*k >= m`` and ``16 k >= m``.

    >>> [own_clip(m) for m in (0, 1, 2, 5, 256, 257)]
    [1, 1, 2, 3, 16, 17]
    """
    return max(1, root_up(m), -(-m // 16))


def handicap(theta: Fraction, bits: int, levels: int) -> tuple[int, int]:
    """``K = floor(4 bits levels/theta)``, the most that luck is worth to the mean voice, and ``B = floor(bits
    levels/theta)``, what it pays in any case.

    Scores are 64-bit integers, so both end at 2**60: at an epsilon of about 1e-13, where no rule is told from another.
    Any constants are private; the certificates speak of these.

    >>> handicap(Fraction(1, 4), 1, 840)
    (13440, 3360)
    """
    votes = bits * levels / Fraction(theta)
    return min(math.floor(4 * votes), _MOST), min(math.floor(votes), _MOST)
