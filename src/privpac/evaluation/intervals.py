"""Numbers known up to noise, and means of people: the intervals that need no more than a tail.

*Noise.*  The sum of ``k`` independent discrete Laplaces of rate ``eta`` is the difference of two negative binomials:
with ``x = e**-eta`` and ``z >= 0``

    P(z) = (1-x)**(2k) x**z sum_j C(k-1+j, k-1) C(k-1+j+z, k-1) x**(2j),
    C(k-1+j+z, k-1) = sum_i C(z, i) C(k-1+j, k-1-i)

so a tail is ``x**t`` times a polynomial in ``t`` whose coefficients are rational in ``x``: computed in balls,
compared exactly.  *People.*  For ``n`` independent values in [0, 1] with mean ``p``, ``Pr[kl(mean || p) >
ln(2/beta)/n] <= beta`` whatever their law (Chernoff's bound with Hoeffding's comparison).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from math import comb

from attrs import frozen
from flint import arb

from privpac.bisection import half_way, least_from, narrow
from privpac.exact import as_arb, precision

_BITS = 256


def working_bits(eta: Fraction, k: int) -> int:
    """Bits that leave some 200 good ones: a coefficient loses at most ``(4k-2) log2(1/eta)`` of them."""
    return _BITS + 4 * k * max(0, eta.denominator.bit_length() - eta.numerator.bit_length() + 1)


@frozen(slots=False)
class Range:
    """All numbers from ``lo`` to ``hi``."""

    lo: float
    hi: float

    def __add__(self, other: Range) -> Range:
        return Range(self.lo + other.lo, self.hi + other.hi)

    def scaled(self, factor: float) -> Range:
        return Range(self.lo * factor, self.hi * factor)

    def widened(self, by: float) -> Range:
        return Range(self.lo - by, self.hi + by)

    def clipped(self, lo: float = 0.0, hi: float = 1.0) -> Range:
        """The part within ``[lo, hi]``, never empty: what lies outside is the nearer end."""
        return Range(min(max(self.lo, lo), hi), min(max(self.hi, lo), hi))

    def __contains__(self, x: float) -> bool:
        return self.lo <= x <= self.hi


@lru_cache(maxsize=8)
def _numerators(k: int) -> tuple[tuple[int, ...], ...]:
    """Polynomials ``p_i`` with ``sum_j C(k-1+j, k-1) C(k-1+j, k-1-i) y**j = p_i(y) / (1-y)**(2k-1-i)``."""
    out = []
    for i in range(k):
        order = 2 * k - 1 - i
        series = [comb(k - 1 + j, k - 1) * comb(k - 1 + j, k - 1 - i) for j in range(order)]
        signs = [(-1) ** a * comb(order, a) for a in range(order)]
        out.append(tuple(sum(series[j] * signs[m - j] for j in range(m + 1)) for m in range(order)))
    return tuple(out)


def laplace_tail(eta: Fraction, k: int, t: int) -> arb:
    """``Pr[sum of k noises >= t]`` for ``t >= 1``, as a ball at the working precision."""
    x = (-as_arb(eta)).exp()
    y = x * x
    out = arb(0)
    for i, poly in enumerate(_numerators(k)):
        weight = sum((c * y**m for m, c in enumerate(poly)), arb(0)) / (1 - y) ** (2 * k - 1 - i)
        # sum over z >= t of C(z, i) x**(z-t) = sum over l <= i of C(t, i-l) x**l / (1-x)**(l+1)
        rest = sum((comb(t, i - j) * x**j / (1 - x) ** (j + 1) for j in range(i + 1)), arb(0))
        out += weight * rest
    return (1 - x) ** (2 * k) * (-as_arb(eta * t)).exp() * out


@lru_cache(maxsize=4096)
def noise_reach(eta: Fraction, k: int, beta: Fraction) -> int:
    """The least ``t`` with ``Pr[|sum of k noises| > t] <= beta``, decided in balls (an undecided one counts as no)."""
    if k == 0 or beta >= 1:
        return 0
    with precision(working_bits(eta, k)):

        def enough(t: int) -> bool:
            return bool(2 * laplace_tail(eta, k, t + 1) <= as_arb(beta))

        return least_from(enough, 0)


def kl_divergence(u: float, p: float) -> float:
    if p <= 0 or p >= 1:
        return 0.0 if u == p else math.inf
    left = 0.0 if u <= 0 else u * math.log(u / p)
    right = 0.0 if u >= 1 else (1 - u) * math.log((1 - u) / (1 - p))
    return left + right


_SLACK = 1e-9
"""Ends are moved outward by this much: far above the rounding of the floating point search, far below what is shown."""


def kl_range(mean: Range, n: float, beta: float, *, sides: int = 2) -> Range:
    """Every ``p`` that some mean within ``mean`` of at least ``n`` people does not exclude at level ``beta``.

    >>> [round(end, 4) for end in (kl_range(Range(0.1, 0.1), 1000, 0.05).lo, kl_range(Range(0, 0), 100, 0.05).hi)]
    [0.0762, 0.0362]
    """
    if n < 1 or beta < 1e-300:  # a level that floating point hardly holds excludes nothing
        return Range(0.0, 1.0)
    most = math.log(sides / beta) / n
    u = mean.clipped()

    def end(start: float, wall: float) -> float:
        if kl_divergence(start, wall) <= most:
            return wall
        return narrow(lambda x: kl_divergence(start, x) > most, start, wall, middle=half_way, steps=60)[1]

    return Range(end(u.lo, 0.0) - _SLACK, end(u.hi, 1.0) + _SLACK).clipped()


def ratio(top: Range, rest: Range) -> Range:
    """``a / (a + b)`` for ``a`` in ``top`` and ``b`` in ``rest``, both at least 0; anything where both may be 0."""
    a, b = top.clipped(0.0, math.inf), rest.clipped(0.0, math.inf)
    lo = a.lo / (a.lo + b.hi) if a.lo + b.hi > 0 else 0.0
    hi = a.hi / (a.hi + b.lo) if a.hi + b.lo > 0 else 1.0
    return Range(lo if a.lo > 0 or b.hi > 0 else 0.0, hi)
