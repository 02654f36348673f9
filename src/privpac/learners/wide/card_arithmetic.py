"""The public arithmetic of a points card: from noisy sums to a centre, a clip size, weights and points.

Everything here is post-processing: functions of released numbers and public constants, in integers of any size, so that
every machine and engine gets the same card from the same noisy sums.  Units are those of
:mod:`privpac.concepts.cards.codes`; weights are in steps of ``2**-24``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import NamedTuple

from privpac.concepts.cards.codes import CodeTable, U
from privpac.least import last_between

__all__ = [
    "LEAST_CLIP",
    "MAX_USERS",
    "CardPoints",
    "centre_clip",
    "clip_size",
    "norm_cap",
    "points_against",
    "points_of",
    "shrunk_centre",
    "training_time",
    "updated",
]

LEAST_CLIP = U // 10
MAX_USERS = 1 << 40
MAX_WEIGHT = 1 << 30
_RATE = 4096


def near(a: int, b: int) -> int:
    """``a / b`` to the nearest integer, halves upward, for ``b >= 1``.

    >>> near(3, 2), near(-3, 2), near(4, 3)
    (2, -1, 1)
    """
    return (2 * a + b) // (2 * b)


def clamp(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def centre_clip(columns: int) -> int:
    """``R = floor(U sqrt(d))``: the norm to which a user's mean code is shortened."""
    return isqrt(U * U * columns)


def norm_cap(columns: int) -> int:
    """``B0 = floor(U sqrt(1 + d) / 2)``: the largest norm a user may report.

    ``floor(x/2)`` of the real number ``x`` equals the half of ``floor(x)``, rounded down.
    """
    return isqrt(U * U * (1 + columns)) // 2


def shrunk_centre(noisy_sum: Sequence[int], users: int, sigma2: Fraction) -> list[int]:
    """The centre: the mean code, shrunk to 0 as far as it is noise.

    ``c = near(clamp(V/N, -U, U) * S / (S + sigma2))`` with ``S = 0.09 (N U)**2``.
    """
    spread = Fraction(9 * (users * U) ** 2, 100)
    factor = spread / (spread + sigma2) / users
    reach = users * U
    return [near(clamp(v, -reach, reach) * factor.numerator, factor.denominator) for v in noisy_sum]


def clip_size(noisy_norm: int, users: int, rho: Fraction, columns: int) -> int:
    """``C``: the norm to which a user's gradient is shortened.

    ``floor(0.45 max(H/N, U/10) (N sqrt(2 rho)/66)**(1/3))`` between ``U/10`` and ``2 B0``; ``rho`` is what is left
    after the count.  The sixth power of the formula is the rational ``59049 a q**6 / (242 200**6 b N**4)`` with ``q =
    max(10 H, N U)`` and ``rho = a/b``, and for integers ``x <= y**(1/6)`` iff ``x**6 <= floor(y)``: nothing else is
    rounded.
    """
    q = max(10 * noisy_norm, users * U)
    sixth = 59049 * rho.numerator * q**6 // (242 * 200**6 * rho.denominator * users**4)
    return clamp(_cube_root(isqrt(sixth)), LEAST_CLIP, 2 * norm_cap(columns))


def _cube_root(n: int) -> int:
    """The largest ``x`` with ``x**3 <= n``."""
    return last_between(lambda x: x**3 <= n, 0, 1 << (n.bit_length() // 3 + 1))


def training_time(users: int, rho: Fraction) -> int:
    """``0.6 N sqrt(2 rho)``, rounded down, between 6 and 200."""
    return clamp(isqrt(18 * users * users * rho.numerator // (25 * rho.denominator)), 6, 200)


def updated(weights: Sequence[int], noisy_sum: Sequence[int], time: int, steps: int, users: int) -> list[int]:
    """The weights after one step against the noisy sum of clipped gradients."""
    below = steps * users
    return [clamp(w - near(time * _RATE * v, below), -MAX_WEIGHT, MAX_WEIGHT) for w, v in zip(weights, noisy_sum)]


class CardPoints(NamedTuple):
    """What a card says: points of every code of every column; 1 iff their sum exceeds the threshold."""

    points: tuple[tuple[int, ...], ...]
    threshold: int


class Scores(NamedTuple):
    """A card before its points are whole: how far each code's score is above its column's least, and the score of a
    record that has the least everywhere."""

    above: list[list[int]]
    least: int

    @property
    def largest(self) -> int:
        return max((f for column in self.above for f in column), default=0)


def scores_of(table: CodeTable, weights: Sequence[int], centre: Sequence[int]) -> Scores:
    """``f`` and ``b`` of summed weights: a record's score is ``b + sum of f``."""
    scores = table.split(table.scores(weights))
    least = [min(column) for column in scores]
    above = [[f - low for f in column] for column, low in zip(scores, least)]
    return Scores(above, weights[0] * U - sum(w * c for w, c in zip(weights[1:], centre)) + sum(least))


def rounded(scores: Scores, top: int, largest: int) -> CardPoints:
    """Whole points, ``top`` where ``f`` is ``largest``: a score is positive iff ``sum of top f/F > -top b/F``.  Without
    any spread (``F = 0``) the answer is the constant ``b > 0``."""
    if largest == 0:
        return CardPoints(tuple((0,) * len(column) for column in scores.above), -1 if scores.least > 0 else 0)
    points = tuple(tuple(near(top * f, largest) for f in column) for column in scores.above)
    return CardPoints(points, -top * scores.least // largest)


def points_of(table: CodeTable, weights: Sequence[int], centre: Sequence[int], top: int) -> CardPoints:
    """The card of summed weights: whole points from 0 to ``top``, the largest being ``top``."""
    scores = scores_of(table, weights, centre)
    return rounded(scores, top, scores.largest)


def points_against(
    table: CodeTable, weights: Sequence[Sequence[int]], centre: Sequence[int], top: int
) -> list[CardPoints]:
    """One card for each label, all in the same points, so that what is above one threshold can be compared with what
    is above another.

    Without any spread every card is a constant, and the labels whose ``b`` is largest have threshold -1, others 0.
    """
    every = [scores_of(table, one, centre) for one in weights]
    largest = max(scores.largest for scores in every)
    if largest:
        return [rounded(scores, top, largest) for scores in every]
    best = max(scores.least for scores in every)
    return [CardPoints(rounded(scores, top, 0).points, -(scores.least == best)) for scores in every]
