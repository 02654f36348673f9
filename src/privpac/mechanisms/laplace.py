"""Discrete Laplace noise for integer queries: law, sampler, privacy and tail, of one noise and of sums of many.

``P(k) = (1 - x)/(1 + x) * x**|k|`` with ``x = e**-eta``, ``eta = epsilon / sensitivity``.

**Guarantee.** ``(epsilon, 0)`` for an integer query that neighbours change by at most ``sensitivity``: shifting by
``j`` changes a probability by a factor of at most ``e**(eta |j|)``.

The sampler uses integers only (Canonne, Kamath and Steinke's construction): ``Bernoulli(e**(-a/b))`` from uniform
integers, a geometric variable from those, a random sign.  Values are Python ints, so nothing overflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
from attrs import field, frozen

from privpac.bisection import least_between
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Ball, ExpSum, Rational, as_arb, rational
from privpac.guarantee import Guarantee, positive_int
from privpac.law.blocks import MAX_VALUES, FiniteLaw
from privpac.law.numbers import Denominator, Number, Quotient
from privpac.mechanisms.exponential import Protected, ceil_log, enclose
from privpac.mechanisms.noise import Change, Noise
from privpac.parameters import named, privacy, whole
from privpac.rng import Rng, secret_rng
from privpac.sample_size import LIMIT
from privpac.special import betaincc, binom

_TAIL_SLACK = 1e-10


# Sampling with integers only


def bernoulli_exp(a: int, b: int, rng: Rng) -> bool:
    """True with probability ``e**(-a/b)``, for integers ``a >= 0`` and ``b >= 1``.

    For ``a <= b``: with independent events of probabilities ``a/b, a/(2b), a/(3b) ...``, the first failure comes at an
    odd place with probability ``1 - a/b + (a/b)**2/2! - ... = e**(-a/b)``.  Larger exponents are products of such
    events.
    """
    while a > b:
        if not bernoulli_exp(1, 1, rng):
            return False
        a -= b
    k = 1
    while rng.below(b * k) < a:
        k += 1
    return k % 2 == 1


def geometric(eta: Fraction, rng: Rng) -> int:
    """``g >= 0`` with probability ``(1 - x) x**g``, ``x = e**-eta``.

    With ``eta = s/t``: ``U + tV`` is geometric with ratio ``e**(-1/t)`` (its remainder and quotient by ``t`` are
    independent), and dividing by ``s``, rounded down, makes the ratio ``e**(-s/t)``.
    """
    s, t = eta.numerator, eta.denominator
    while True:
        u = rng.below(t)
        if bernoulli_exp(u, t, rng):
            break
    v = 0
    while bernoulli_exp(1, 1, rng):
        v += 1
    return (u + t * v) // s


def discrete_laplace(eta: Rational, rng: Rng) -> int:
    """One draw of the noise; ``-0`` is rejected so that zero is not counted twice."""
    eta = rational(eta, "eta", above=0)
    while True:
        size, negative = geometric(eta, rng), rng.bits(1) == 1
        if size or not negative:
            return -size if negative else size


def upper_tail(eta: Fraction, t: int, below: Denominator | None = None) -> Quotient:
    """``Pr[noise >= t]`` for any integer ``t``, exactly: ``x**t / (1 + x)``, or one minus the other side."""
    z = below or Denominator(1 + ExpSum.exp(-eta))
    if t >= 1:
        return Quotient.of(ExpSum.exp(-eta * t), z)
    return Quotient.of(z.sum - ExpSum.exp(-eta * (1 - t)), z)


@lru_cache(maxsize=1024)
def noise_quantile(cells: int, eta: float, failure: float) -> int:
    """The least ``x`` with ``Pr[S > x] <= failure``, ``S`` the sum of ``cells`` absolute values of discrete Laplace
    noise of rate ``eta``.

    Doubtful cases are rounded up.

    >>> noise_quantile(1, 1.0, 0.05)
    3
    """
    r = math.exp(-eta)
    likely = 2 * r / (1 + r)
    low, high = (int(quantile(1e-16, cells, likely)) for quantile in (binom.ppf, binom.isf))
    j = np.arange(max(low - 1, 0), min(cells, high + 1) + 1)
    weights, rest = binom.pmf(j, cells, likely), 0.0 if len(j) > cells else 1e-15  # what is left out counts as failure

    def beyond(x: int) -> float:
        # j values of at least 1: their excess over 1, a negative binomial, must pass x - j.  -expm1(-eta) is 1 - r
        # without cancellation; scipy's own tail of that law is off by up to 5e-8 of itself for tiny eta, this by 2e-11.
        tails = betaincc(np.maximum(j, 1), np.maximum(x - j, 0) + 1, -math.expm1(-eta))
        return float(weights @ np.where(j > 0, np.where(j > x, 1.0, tails), 0.0)) + rest

    limit = failure * (1 - _TAIL_SLACK)
    # Where a normal law of this mean and variance would be; from there in doubling steps.
    spread = math.sqrt(cells * 2 * r) / -math.expm1(-eta)
    guess = cells * likely / -math.expm1(-eta) + math.sqrt(-math.log(failure)) * spread
    last, step = int(min(guess, LIMIT)), int(min(spread / 8, LIMIT)) + 1
    if beyond(last) <= limit:
        first = last - step
        while first >= 0 and beyond(first) <= limit:
            first, last, step = first - 2 * step, first, 2 * step
        return least_between(lambda x: beyond(x) <= limit, max(first, -1), last)
    while True:
        first, last, step = last, last + step, 2 * step
        if last > LIMIT:
            raise TooLargeError("the noise is larger than any number of users; raise epsilon")
        if beyond(last) <= limit:
            return least_between(lambda x: beyond(x) <= limit, first, last)


@frozen(slots=False, field_transformer=named)
class Laplace(Noise, Protected):
    """Integer query plus discrete Laplace noise.

    >>> noise = Laplace("1/2", 1, unit="user", neighbours="add-remove")
    >>> law = noise.law(3, bounds=(0, 6))
    >>> law.satisfies(noise.law(4, bounds=(0, 6)), "1/2")
    True
    >>> noise.reach("0.01")
    10
    """

    epsilon: Fraction = field(converter=privacy)
    sensitivity: int = field(converter=whole)

    title: ClassVar[str] = "discrete Laplace"

    @classmethod
    def within(cls, budget: Guarantee, change: Change, parts: int) -> Self:
        """Vectors share epsilon equally (basic composition); a factor ``e**eta`` for every unit of change."""
        return cls(budget.epsilon / parts, change.total, unit=budget.unit, neighbours=budget.neighbours)

    @property
    def eta(self) -> Fraction:
        return self.epsilon / self.sensitivity

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 2)

    # Law and draws

    def law(self, value: int, *, bounds: tuple[int, int]) -> FiniteLaw:
        """The law of the noisy value clamped to the public ``bounds`` (clamping is post-processing)."""
        lo, hi = read_bounds(bounds)
        if hi - lo >= MAX_VALUES:
            raise TooLargeError(
                f"bounds span more than {MAX_VALUES} values; the law is listed value by value, sample instead"
            )
        center, eta = read_value(value), self.eta
        if lo == hi:
            return FiniteLaw([(range(lo, hi + 1), Quotient.of(1))], {})
        z = Denominator(1 + ExpSum.exp(-eta))
        # Symmetry: Pr[noise <= j] = Pr[noise >= -j].
        cells: list[tuple[range, Number]] = [(range(lo, lo + 1), upper_tail(eta, center - lo, z))]
        for k in range(lo + 1, hi):
            j = abs(k - center)
            cells.append((range(k, k + 1), Quotient.of(ExpSum.exp(-eta * j) - ExpSum.exp(-eta * (j + 1)), z)))
        cells.append((range(hi, hi + 1), upper_tail(eta, hi - center, z)))
        return FiniteLaw(cells, {})

    def sample(self, value: int, rng: Rng | None = None, *, bounds: tuple[int, int] | None = None) -> int:
        """One exact draw of the noisy value, clamped if ``bounds`` are given."""
        limits = None if bounds is None else read_bounds(bounds)
        noisy = read_value(value) + discrete_laplace(self.eta, secret_rng(rng))
        return noisy if limits is None else min(max(noisy, limits[0]), limits[1])

    def sample_vector(self, values: Sequence[int], rng: Rng | None = None) -> list[int]:
        source, eta = secret_rng(rng), self.eta
        return [value + discrete_laplace(eta, source) for value in values]

    # Accuracy

    @property
    def variance(self) -> float:
        """At most: ``2/eta**2``."""
        return 2 * float(1 / self.eta) ** 2

    def tail(self, t: int) -> Ball:
        """``Pr[|noise| >= t] = 2 x**t / (1 + x)`` for ``t >= 1``; 1 below."""
        reach = positive_int(t, "t", minimum=0)
        return enclose(upper_tail(self.eta, reach) * 2 if reach else Quotient.of(1))

    def reach(self, beta: Rational) -> int:
        """``t = ceil(ln(1/beta) / eta)``: the noise exceeds ``t`` in size with probability at most ``beta``."""
        failure = rational(beta, "beta", above=0, maximum=1)
        return ceil_log(1 / failure, lambda: as_arb(self.eta))

    def reach_of_sum(self, cells: int, beta: float) -> int:
        return noise_quantile(cells, float(self.eta), beta)


def read_value(value: object) -> int:
    """The exact query result; it is private, so an error says its type only."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"the value must be an integer, got {type(value).__name__}; scale rational values, and the sensitivity "
            "with them"
        )
    return int(value.__index__())


def read_bounds(bounds: tuple[int, int]) -> tuple[int, int]:
    try:
        lo, hi = bounds
    except (TypeError, ValueError):
        raise TypeError("bounds must be a pair (lo, hi) of integers") from None
    for end in (lo, hi):
        if isinstance(end, bool) or not hasattr(end, "__index__"):
            raise TypeError(f"bounds must be a pair of integers, got {type(end).__name__}")
    if lo > hi:
        raise ParameterError(f"bounds must have lo <= hi, got ({lo}, {hi})")
    return int(lo), int(hi)
