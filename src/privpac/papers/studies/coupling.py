"""How often two users agree: exact formulas, and the stream of public points as a reference.

Correlated sampling draws from each user's own law with public randomness so that users with close laws get the same
point. The *race* agrees with probability ``sum_i 1 / sum_j max(p_j/p_i, q_j/q_i)``.  The *stream* outputs the first
public point ``(w, h)``, ``w`` uniform and ``h`` uniform in [0, 1), with ``h < P(w)``; it needs as many rounds as there
are points, so it is kept as a reference only.  Both disagree with probability at most ``2 TV / (1 + TV)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from privpac.errors import ParameterError

__all__ = ["race_disagreement", "stream_disagreement", "stream_sample", "total_variation"]


def _laws(p: Sequence[Fraction], q: Sequence[Fraction]) -> None:
    if len(p) != len(q):
        raise ParameterError(f"the two laws must have the same points, got {len(p)} and {len(q)}")
    for law in (p, q):
        if sum(law) != 1 or min(law) < 0:
            raise ParameterError("a law has entries of at least 0 that add up to 1")


def total_variation(p: Sequence[Fraction], q: Sequence[Fraction]) -> Fraction:
    """Half the sum of the absolute differences."""
    _laws(p, q)
    return sum((abs(a - b) for a, b in zip(p, q)), Fraction(0)) / 2


def race_disagreement(p: Sequence[Fraction], q: Sequence[Fraction]) -> Fraction:
    """The exact probability that two users' races have different winners.

    Both get ``i`` iff ``E_j >= E_i max(p_j/p_i, q_j/q_i)`` for all ``j``: ``E_i`` is first among exponentials with
    these rates.
    """
    _laws(p, q)
    agree = Fraction(0)
    for a, b in zip(p, q):
        if a and b:
            agree += 1 / sum((max(c / a, d / b) for c, d in zip(p, q)), Fraction(0))
    return 1 - agree


def stream_disagreement(p: Sequence[Fraction], q: Sequence[Fraction]) -> Fraction:
    """The exact probability that two users accept different points of one stream.

    The first point below ``max(P, Q)`` is accepted by both with probability ``min/sum max``; otherwise one user stops
    at ``w`` and the other goes on alone and still gets ``w`` with its own probability of ``w``.
    """
    _laws(p, q)
    either = sum((max(a, b) for a, b in zip(p, q)), Fraction(0))
    agree = sum((min(a, b) + abs(a - b) * min(a, b) for a, b in zip(p, q)), Fraction(0))
    return 1 - agree / either


def stream_sample(law: Sequence[Fraction], points: Iterable[tuple[int, Fraction]]) -> int:
    """The first point of the public stream that lies below the law."""
    for w, height in points:
        if height < law[w]:
            return w
    raise ParameterError("the stream ended before a point was accepted; give more points")
