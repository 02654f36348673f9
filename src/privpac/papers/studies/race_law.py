"""The law of the exponential-noise race (permute-and-flip).

With ``q_j = e**(-eta d_j)`` for a candidate whose score is ``d_j`` above the best,

    P(one candidate of level s) = q_s * integral over [0, 1] of  product over all other candidates j of (1 - q_j t)  dt.

It depends on the level only.  Few candidates: the product is expanded and integrated term by term, an exact
exponential sum.  Otherwise the integrals are enclosed.

*Enclosure.*  ``f(t) = product of (1 - q_d t)**N_d`` is log-concave and decreasing.  From ``a`` the next point is the
one where the tangent of ``ln f`` has fallen by ``_DROP``; there ``f`` is expanded in its Taylor polynomial around ``a``
(the logarithm's series is explicit, its exponential a power-series operation), and ``f / (1 - q_s t)`` follows by a
recurrence.  On the circle of radius ``r`` around ``a`` the polynomial ``f / (1 - q_s t)`` is at most its value at ``a -
r`` (every factor is), so Cauchy's estimate bounds the terms left out.  Steps scale with ``1 / sum of N_d q_d``, so a
level of ``2**64`` candidates is enclosed as tightly as one of two.  Beyond the point where ``f < 2**-bits``,
log-concavity bounds the rest by ``f(T) / |(ln f)'(T)|``.
"""

from __future__ import annotations

from fractions import Fraction
from math import e, log, prod

import flint
from flint import arb, arb_series

from privpac.errors import TooLargeError, Undecided
from privpac.exact import ExpSum, precision
from privpac.law.blocks import MAX_VALUES, BlockLaw, FiniteLaw, weight
from privpac.law.numbers import Enclosed, Number, Quotient
from privpac.law.sampling import Levels

__all__ = ["race_law"]

EXACT_CANDIDATES = 64
EXACT_TERMS = 4096
_MAX_BITS = 8192
_DROP = 8


def race_law(blocks: BlockLaw) -> FiniteLaw:
    """The race among the values of ``blocks``, with explicit probabilities."""
    numbers = dict(zip(blocks.levels.gaps.tolist(), level_numbers(blocks.levels)))
    if blocks.lows is not None:
        cells = [(cell, numbers[score - blocks.best]) for cell, score in blocks.blocks if isinstance(cell, range)]
        return FiniteLaw(sorted(cells, key=lambda item: item[0].start), {})
    if sum(blocks.levels.totals) > MAX_VALUES:
        raise TooLargeError("labelled blocks are too large to enumerate; sample them, or use the exponential mechanism")
    listed = list(enumerate(blocks.blocks))
    return FiniteLaw(
        [], {(label, at): numbers[score - blocks.best] for i, (label, score) in listed for at in range(blocks.count(i))}
    )


def level_numbers(levels: Levels) -> list[Number]:
    """The probability of one candidate of each level."""
    gaps, totals = levels.gaps.tolist(), list(levels.totals)
    n = sum(totals)
    if len(totals) == 1 or levels.rate.flat:
        return [Quotient.of(Fraction(1, n)) for _ in totals]
    if (
        n <= EXACT_CANDIDATES
        and min(prod(c + 1 for c in totals), n * sum(c * d for c, d in zip(totals, gaps))) <= EXACT_TERMS
    ):
        return _expanded(levels)
    integrals = _Integrals(levels)
    return [Enclosed(lambda i=i: integrals.all()[i]) for i in range(len(totals))]  # type: ignore[misc]


# Few candidates: exact

Poly = list[dict[int, int]]
"""``poly[k][g]`` is the coefficient of ``t**k * w**g``, where ``w**g`` is the weight at gap ``g``."""


def _expanded(levels: Levels) -> list[Number]:
    gaps, totals, rate = levels.gaps.tolist(), list(levels.totals), levels.rate
    full: Poly = [{0: 1}]
    for gap, total in zip(gaps, totals):
        for _ in range(total):
            full = _times_linear(full, gap)
    out: list[Number] = []
    for gap in gaps:
        # full / (1 - w**gap t): c_k = full_k + w**gap c_(k-1); the integral divides c_k by k + 1.
        terms: dict[int, Fraction] = {}
        row: dict[int, int] = {}
        for k, part in enumerate(full[:-1]):
            shifted = {g + gap: c for g, c in row.items()}
            row = {g: c for g in {*part, *shifted} if (c := part.get(g, 0) + shifted.get(g, 0))}
            for g, c in row.items():
                terms[g] = terms.get(g, Fraction(0)) + Fraction(c, k + 1)
        out.append(Quotient.of(sum((weight(g + gap, rate) * c for g, c in terms.items()), ExpSum())))
    return out


def _times_linear(poly: Poly, gap: int) -> Poly:
    """``poly * (1 - w**gap t)``."""
    out: Poly = [dict(row) for row in poly] + [{}]
    for k, row in enumerate(poly):
        above = out[k + 1]
        for g, c in row.items():
            above[g + gap] = above.get(g + gap, 0) - c
    return out


# Many candidates: enclosures


class _Integrals:
    """All levels' probabilities at the working precision, kept per precision."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        self._kept: dict[int, list[arb]] = {}

    def all(self) -> list[arb]:
        bits = int(flint.ctx.prec)
        if bits > _MAX_BITS:
            raise Undecided(f"a comparison of integrals was not decided at {_MAX_BITS} bits; widen the margin")
        if bits not in self._kept:
            with precision(bits + 64):
                self._kept[bits] = _integrate(self._levels, bits + 16)
        return self._kept[bits]


def _integrate(levels: Levels, goal: int) -> list[arb]:
    """The probabilities to about ``goal`` bits, relative."""
    totals = list(levels.totals)
    q = levels.rate.balls(levels.gaps.tolist())
    length = _series_length(goal)
    sums = [arb(0) for _ in q]
    a = arb(0)
    while True:
        left = [1 - x * a for x in q]
        slope = [x / y for x, y in zip(q, left)]
        fall = sum((c * s for c, s in zip(totals, slope)), arb(0))
        height = sum((c * (-x * a).log1p() for c, x in zip(totals, q)), arb(0)).exp()
        if height < arb(2) ** -goal:
            rest = [_remainder(height / y, fall - s, 1 - a) for y, s in zip(left, slope)]
            return [x * (total + more) for x, total, more in zip(q, sums, rest)]
        end = (a + _DROP / fall).mid()
        last = not end < 1
        end = arb(1) if last else end
        h = end - a
        for i, part in enumerate(_segment([s * h for s in slope], totals, length)):
            sums[i] += h * height / left[i] * part
        if last:
            return [x * total for x, total in zip(q, sums)]
        a = end


def _remainder(height: arb, fall: arb, width: arb) -> arb:
    """Encloses the integral of a decreasing log-concave function from where it has this height and logarithmic
    slope."""
    bound = height * width
    if fall > 0:
        bound = bound.min(height / fall)
    return bound.union(arb(0))


def _segment(z: list[arb], totals: list[int], length: int) -> list[arb]:
    """``integral over [0, 1] of product of (1 - z_d v)**N_d / (1 - z_s v) dv`` for every ``s``; ``sum of N_d z_d`` is
    at most ``_DROP``."""
    powers, logs = list(z), [arb(0)]
    for k in range(1, length):
        logs.append(-sum((c * p for c, p in zip(totals, powers)), arb(0)) / k)
        powers = [p * x for p, x in zip(powers, z)]
    flint.ctx.cap, before = length, flint.ctx.cap
    try:
        series = arb_series(logs, prec=length).exp()
    finally:
        flint.ctx.cap = before
    terms = [series[k] for k in range(length)]
    # Cauchy on the circle |v| = radius: |coefficient k| <= size / radius**k.
    radius = Fraction(length, _DROP)
    stretch = arb(radius.numerator) / radius.denominator
    size = sum((c * (x * stretch).log1p() for c, x in zip(totals, z)), arb(0)).exp()
    tail = size * stretch**-length / (length + 1) / (1 - 1 / stretch)
    slack = (-tail).union(tail)
    out = []
    for x in z:
        coefficient, total = arb(0), arb(0)
        for k, term in enumerate(terms):
            coefficient = term + x * coefficient
            total += coefficient / (k + 1)
        out.append(total + slack)
    return out


def _series_length(goal: int) -> int:
    """Terms after which Cauchy's bound ``(e * _DROP / n)**n`` is below ``2**-goal``; only sharpness depends on it."""
    n = 4 * _DROP
    while n * log(n / (_DROP * e)) < (goal + 8) * log(2):
        n += 8
    return n
