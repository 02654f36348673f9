"""How many values interior points and order statistics need, and what given parameters certify (spec 51).

* Order statistics (:func:`certify_rank`): the rank law over ``0..d`` misses its ranks with probability at most
  ``d r**-(opt + 1)``.
* The choosing step (:func:`choosing_votes`): one candidate with ``hi`` votes is missed with probability
  ``1/(1 + w(hi))``.
* The exponential mechanism (:func:`interior_point_exponential`): ``n = 2 ceil(2 ln(D/beta)/epsilon) - 1`` values in
  ``0..D``.
* Hidden walks: :func:`walk_failure` evaluates the utility theorem for given integers and bases (conditions (a)-(e) of
  :mod:`privpac.mechanisms.interior_point`, which plans them); :func:`interior_point_closed_form` is the closed form

      n = (2k+2) T = O(k**2 log k ln(k/(delta beta))/epsilon)

  with ``k`` = :func:`reductions_to_constant`, at most ``log*`` of the domain.
* Random pairs: :func:`pairs_failure` does the same for that engine.

One law whose scores follow the ranks themselves needs neither a window nor the number of values, and half as many of
them: :func:`privpac.distributions.quantiles.ranks.certify_quantile`.  Everything is a pure function of public numbers;
privacy never rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.guarantee import positive_int
from privpac.sample_size import LIMIT, SLACK, Certificate, open_unit, positive
from privpac.special import log1p_exp, log_expm1, log_of

_ANY = "any values in the domain"


# Sizes of domains


def log_star(bits: int) -> int:
    """``log*`` to base 2 of a domain of ``2**bits`` values: how often the logarithm is taken until at most 1 is left.

    >>> [log_star(b) for b in (0, 1, 2, 4, 16, 65536)]
    [0, 1, 2, 3, 4, 5]
    """
    x, times = positive_int(bits, "bits", minimum=0), 1
    if x == 0:
        return 0
    while x > 1:
        # ceil(log2 x): the next logarithm, rounded up; exact where it matters because the towers are powers of two.
        x, times = (x - 1).bit_length(), times + 1
    return times


def reductions_to_constant(bits: int) -> int:
    """``k(b)``: reductions until the innermost domain of values of ``bits`` bits is ``0..3``; at most
    ``log_star(bits)``."""
    domain, k = positive_int(bits, "bits"), 1
    while domain > 3:
        domain, k = domain.bit_length(), k + 1
    return k


# Rank law and choosing step


def certify_rank(epsilon: Rational, beta: Rational, *, d: int, hi: int = 1) -> Certificate:
    """Values that suffice for the rank law over ``0..d`` to stay between ranks ``hi`` and ``K + 1``, with the least
    such ``K``.

    >>> certify_rank(1, "0.05", d=2**16 - 1)["K"]
    56
    """
    e, b = positive(epsilon, "epsilon"), open_unit(beta, "beta")
    top, first = positive_int(d, "d", minimum=0), positive_int(hi, "hi")
    steps = 1 if top == 0 else max(1, math.ceil((math.log(top) - math.log(b)) * 2 / e * (1 + SLACK)))
    if steps > LIMIT:
        return Certificate.upper(None, "rank law", _ANY)
    opt = steps - 1
    return Certificate.upper(opt + first, "rank law", _ANY, hi=first, K=2 * opt + first - 1, opt=opt)


def choosing_votes(epsilon: Rational, delta: Rational, beta: Rational) -> tuple[int, float]:
    """The least number of votes on a single candidate at which the choosing law (replace) names it but for ``beta``,
    and its failure.

    >>> choosing_votes(0.5, 1e-6, 0.01)[0]
    69
    """
    e, d, b = positive(epsilon, "epsilon"), open_unit(delta, "delta"), open_unit(beta, "beta")
    rate, odds = e / 2, math.log(d) - math.log1p(-d)
    if odds > log_expm1(rate):
        raise ParameterError("delta too large for epsilon: delta/(1 - delta) must be at most e**(epsilon/2) - 1")

    def failure(q: int) -> float:
        return _share(0.0, odds + log_expm1(rate * q) - log_expm1(rate))

    hi = max(1, math.ceil(log1p_exp(log_expm1(rate) + math.log1p(-b) - math.log(b) - odds) / rate - SLACK))
    return hi, failure(hi)


# Interior points


def interior_point_exponential(
    epsilon: Rational, beta: Rational, *, top: int | None = None, bits: int | None = None
) -> Certificate:
    """Values that suffice for the exponential mechanism over ``0..top``, or over values of ``bits`` bits.

    >>> interior_point_exponential(1, "0.05", bits=64).n_users
    189
    """
    e, b = positive(epsilon, "epsilon"), open_unit(beta, "beta")
    if (top is None) == (bits is None):
        raise ParameterError("give exactly one of top and bits")
    size = positive_int(bits, "bits") * math.log(2) if top is None else math.log(positive_int(top, "top"))
    needed = (size - math.log(b)) * 2 / e * (1 + SLACK)
    n = 2 * max(1, math.ceil(needed)) - 1 if needed < LIMIT else None
    return Certificate.upper(n, "exponential mechanism", _ANY)


def interior_point_closed_form(
    epsilon: Rational, delta: Rational, beta: Rational, *, bits: int, reductions: int | None = None
) -> Certificate:
    """The closed form for ``k`` reductions (by default until the domain is constant): ``(2k + 2) T`` values suffice.

    ``J = 2 + ceil(log2(k+1))``, ``T = 4 + ceil(2 (J+1)(3k+1) ln(max(n, 10k/delta, D)(2k+1)/beta)/epsilon)``, ``n`` on
    both sides; the planner of the mechanism needs 6 to 9 times fewer values.
    """
    e, d, b = positive(epsilon, "epsilon"), open_unit(delta, "delta"), open_unit(beta, "beta")
    domain = positive_int(bits, "bits")
    k = (
        reductions_to_constant(domain)
        if reductions is None
        else positive_int(reductions, "reductions", maximum=1 << 20)
    )
    if e > 3 * k + 1:
        raise ParameterError(
            f"epsilon must be at most 3k + 1 = {3 * k + 1} for {k} reductions; use a smaller one, it also holds"
        )
    for _ in range(k - 1):
        domain = domain.bit_length()
    J = 2 + k.bit_length()  # ceil(log2(k+1)) is the number of bits of k
    log_floor = max(math.log(10 * k) - math.log(d), math.log(domain))
    n, T = 0, 0
    while n < LIMIT:
        width = max(log_floor, math.log(n) if n else 0.0) + math.log(2 * k + 1) - math.log(b)
        T = 4 + math.ceil(2 * (J + 1) * (3 * k + 1) * width / e * (1 + SLACK))
        if (2 * k + 2) * T <= n:
            return Certificate.upper(n, "hidden walks, closed form", _ANY, reductions=k, J=J)
        n = (2 * k + 2) * T
    return Certificate.upper(None, "hidden walks, closed form", _ANY, reductions=k)


class ReductionNumbers(Protocol):
    """What the utility theorem reads of one reduction, whichever it is."""

    @property
    def B(self) -> int: ...
    @property
    def rL(self) -> Fraction: ...
    @property
    def delta_L(self) -> Fraction: ...
    @property
    def rc(self) -> Fraction: ...


class WalkNumbers(ReductionNumbers, Protocol):
    """What it reads of a hidden walk."""

    @property
    def kappa(self) -> int: ...
    @property
    def T(self) -> int: ...


def walk_failure(levels: Sequence[WalkNumbers], rz: Fraction, size: int, *, bits: int, top: int | None = None) -> float:
    """The failure probability that the utility theorem certifies for these levels (outermost first); 1 where a
    condition fails."""
    domain, m, total = bits, size, 0.0
    for level in levels:
        c = (level.B + 1) // 2
        if level.kappa > level.T or 2 * c + level.kappa - 2 > level.T:
            return 1.0
        total += 2 * math.exp(-c * log_of(level.rc)) + _missed(m, c, level.T + 1, level)
        m -= level.T + level.B - 1
    for _ in levels[1:]:
        domain = domain.bit_length()
    return min(1.0, (total + _last(levels, rz, m, domain, bits, top)) * (1 + SLACK)) if m >= 1 else 1.0


class PairNumbers(ReductionNumbers, Protocol):
    """What it reads of random pairs."""

    @property
    def A(self) -> int: ...


def pairs_failure(levels: Sequence[PairNumbers], rz: Fraction, size: int, *, bits: int) -> float:
    """The failure probability certified for random pairs, with the best number of votes ``q`` that ``A`` allows at each
    level."""
    domain, m, total = bits, size, 0.0
    for i, level in enumerate(levels):
        c, n = (level.B + 1) // 2, m
        if n < 2:
            return 1.0
        best = 1.0
        for q in range(max(c, 2), n + 1):
            slack = level.A - n * (q - 2) / (2 * (n - 1))
            if slack <= 0:
                break
            best = min(best, math.exp(-slack * slack / n) + _missed(n, c, q, level))
        total += 2 * math.exp(-c * log_of(level.rc)) + best
        m = n // 2 - (level.A - 1) - (level.B - 1)
        m -= m % 2 if i < len(levels) - 1 else 0
    for _ in levels[1:]:
        domain = domain.bit_length()
    return min(1.0, (total + _last(levels, rz, m, domain, bits, None)) * (1 + SLACK)) if m >= 1 else 1.0


def _last(levels: Sequence[object], rz: Fraction, m: int, domain: int, bits: int, top: int | None) -> float:
    """``D rz**-ceil(m/2)`` of the innermost choice."""
    if levels:
        size = math.log(domain)
    else:
        size = bits * math.log(2) if top is None else math.log(top)
    return math.exp(min(0.0, size - (m + 1) // 2 * log_of(rz)))


def _missed(n: int, c: int, q: int, level: WalkNumbers | PairNumbers) -> float:
    """``a/(a + w(q))``: with ``q`` of ``n`` votes on top, a prefix of fewer than ``c`` is chosen."""
    rate = log_of(level.rL)
    odds = math.log(float(level.delta_L)) - math.log1p(-float(level.delta_L)) - log_expm1(rate)
    few = 0.0 if c == 1 else log1p_exp(math.log(n) + odds + log_expm1(rate * (c - 1)) - math.log(c - 1))
    return _share(few, odds + log_expm1(rate * q))


def _share(a: float, w: float) -> float:
    """``e**a/(e**a + e**w)``."""
    return math.exp(-log1p_exp(w - a))
