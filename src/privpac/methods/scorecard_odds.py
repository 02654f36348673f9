"""The log odds and the answer weights of a scorecard: post-processing of what the descent released.

*Log odds.*  The descent fits a logistic model, so a record's score is a log odds: with ``W`` the sum of the last ``h =
ceil(T/2)`` weights, ``b`` the least score, ``F`` the largest distance of an answer from its column's least, and ``P``
points, ``(b + F P/top) / (2**36 h)``.  Noise of variance ``v`` in it makes the chances too sure; averaged over the
noise they are nearly logistic again, with the factor ``1/sqrt(1 + pi v/8)``.  ``v`` follows from released and public
numbers (:func:`noise_variance`).

*Privacy.*  Everything here is a function of the number of people, centre, clip and weights that were released, and of
public constants: nothing is spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

from privpac.rules.scorecards import CodeTable, LogOdds, U

_LEAST_NUMBER = 204
_LEAST_CODE = 81


def averaging(steps: int) -> Fraction:
    """``A_T``: the squared weights of the steps' noises in the average of the last half, added up.

    The noise of each of the first ``T - h`` steps is in all ``h`` iterates, that of the later ones in fewer of them.

    >>> averaging(41)
    Fraction(1733, 63)
    """
    h = -(-steps // 2)
    return steps - h + Fraction((h + 1) * (2 * h + 1), 6 * h)


def room(table: CodeTable, centre: Sequence[int]) -> Fraction:
    """``Q``: the squared length of a record's centred code, in squared units, averaged over the answers of each
    column; the intercept is the first 1."""
    out, at = Fraction(1), 0
    for shape, base in zip(table.shapes, table.base.tolist()):
        own = centre[at : at + shape.width]
        total = shape.codes * sum(c * c for c in own)
        for e in range(base, base + shape.codes):
            first = int(table.first[e]) - 1
            for lane, z in enumerate(table.lanes[e].tolist()):
                if z:
                    total += z * z - 2 * z * centre[first + lane]
        out += Fraction(total, shape.codes * U * U)
        at += shape.width
    return out


def noise_variance(
    table: CodeTable, centre: Sequence[int], *, users: int, time: int, steps: int, step_variance: Fraction
) -> Fraction:
    """``v``: the variance that the steps' noise gives to the log odds of a record."""
    return Fraction(time, steps * users) ** 2 * step_variance / U**2 * averaging(steps) * room(table, centre)


def shrink(variance: Fraction) -> int:
    """``K``: the factor ``1/sqrt(1 + 11 v/28)`` in steps of ``2**-16``, at least one of them so that the sign stays.

    >>> shrink(Fraction(0)), shrink(Fraction(10**12))
    (65536, 1)
    """
    square = (1 << 32) * 28 / (28 + 11 * variance)
    return max(1, isqrt(square.numerator // square.denominator))


def log_odds(factor: int, *, largest: int, least: int, steps: int, top: int) -> LogOdds:
    """What points stand for; with ``largest = 0`` nobody has any, and all have the log odds of ``least``.

    Points are above the threshold ``floor(-top least/largest)`` iff their log odds are above 0.
    """
    scale = -(-steps // 2) << 52
    return LogOdds(Fraction(factor * largest, scale * top), Fraction(factor * least, scale))


def answer_weights(table: CodeTable, centre: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """How often every answer is to be expected, from the released centre: whole numbers of at least 1.

    The waves of a column of numbers are turned back (the inverse cosine sum), a category's shares are the centre's.
    """
    out, at = [], 0
    for shape, base in zip(table.shapes, table.base.tolist()):
        own = centre[at : at + shape.width]
        if not shape.ordered:
            weights = [max(_LEAST_CODE, c) for c in own]
        else:
            factors = [1] if shape.bins == 2 else [2 * k * k for k in range(1, shape.waves + 1)]
            weights = []
            for row in table.lanes[base : base + shape.bins].tolist():
                wave = sum(factor * c * z for factor, c, z in zip(factors, own, row))
                weights.append(max(_LEAST_NUMBER, U + wave // U))
            if shape.missing:
                weights.append(shape.bins * max(_LEAST_CODE, own[-1]))
        out.append(tuple(weights))
        at += shape.width
    return tuple(out)
