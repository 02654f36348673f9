"""Discrete Gaussian noise for integer vectors.

``P(k)`` proportional to ``e**(-k**2 / (2 sigma2))`` for every integer ``k``, independent in every coordinate, with a
rational variance parameter ``sigma2``.

**Guarantee.** ``rho``-zCDP with ``rho = s / (2 sigma2)`` for an integer vector whose squared Euclidean norm changes by
at most ``s`` between neighbours.  *Proof* for one coordinate moved by an integer ``m``: since ``-a (x - m)**2 - (1 - a)
x**2 = -(x - a m)**2 + a (a - 1) m**2``, the Renyi divergence of order ``a`` is ``a m**2 / (2 sigma2)`` plus the
logarithm of ``sum of e**(-(x - a m)**2 / (2 sigma2))`` over the unshifted sum, divided by ``a - 1``; that quotient is
at most 1, because by Poisson summation the shifted sum has the same non-negative Fourier coefficients, times phases.
Coordinates are independent, so their divergences add up to ``a |m|**2 / (2 sigma2)``.

The sampler uses integers only (Canonne, Kamath and Steinke, The discrete Gaussian for differential privacy): a
discrete Laplace proposal is accepted with probability ``e`` to a rational power.  Values are Python ints, so nothing
overflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import ClassVar, Self

import flint
from attrs import field, frozen
from flint import arb

from privpac.bisection import last_between, least_from
from privpac.composition import zcdp_epsilon, zcdp_within
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Ball, Rational, as_arb, ball_of, exp_ball, precision, rational
from privpac.guarantee import Guarantee
from privpac.law.blocks import MAX_VALUES, PROB_BITS, FiniteLaw
from privpac.law.numbers import Enclosed, Number, Quotient
from privpac.mechanisms.exponential import Protected
from privpac.mechanisms.laplace import bernoulli_exp, discrete_laplace, read_bounds, read_value
from privpac.mechanisms.noise import Change, Noise
from privpac.parameters import bounds, fraction, named, probability
from privpac.rng import Rng, secret_rng

_LISTED = 1 << 16
"""The largest ``sigma2`` whose probabilities are listed: their sums have some twenty standard deviations of terms."""


# Sampling with integers only


def discrete_gaussian(sigma2: Fraction, rng: Rng) -> int:
    """One draw; ``sigma2 = a/b`` is positive.

    With ``t = floor(sigma) + 1`` a discrete Laplace ``y`` of rate ``1/t`` is accepted with probability ``e**(-(|y| b t
    - a)**2 / (2 a b t**2))``.  The exponents of proposal and acceptance, ``|y|/t`` and ``y**2/(2 sigma2) - |y|/t +
    sigma2/(2 t**2)``, add up to ``y**2/(2 sigma2)`` and a constant, so accepted draws have exactly this law.
    """
    a, b = sigma2.numerator, sigma2.denominator
    t = isqrt(a // b) + 1
    rate, below = Fraction(1, t), 2 * a * b * t * t
    while True:
        y = discrete_laplace(rate, rng)
        if bernoulli_exp((abs(y) * b * t - a) ** 2, below, rng):
            return y


def gaussian_noise(sigma2: Fraction, size: int, rng: Rng) -> list[int]:
    """Independent draws, one a coordinate, first coordinate first."""
    return [discrete_gaussian(sigma2, rng) for _ in range(size)]


# The exact law


class _Sums:
    """``sum of e**(-k**2 / (2 sigma2))`` over ``k >= t`` as balls; kept for the working precision they were made at."""

    def __init__(self, sigma2: Fraction) -> None:
        self._rate = 1 / (2 * sigma2)
        self._made: dict[int, list[arb]] = {}

    def _from(self) -> list[arb]:
        """At place ``t``, the sum from ``t >= 0`` on; the terms after the last are enclosed by a geometric series."""
        bits = flint.ctx.prec
        if bits not in self._made:
            last = isqrt(int((bits + 16) / self._rate)) + 1  # e**-(bits + 16) is below 2**-(bits + 16)
            # Term k + 1 over term k is e**(-(2 k + 1) rate), at most its value at k = last + 1.
            ratio = exp_ball(-(2 * last + 3) * self._rate)
            rest = exp_ball(-((last + 1) ** 2) * self._rate) / (1 - ratio)
            total, out = arb(0).union(rest), []
            for k in range(last, -1, -1):
                total = total + exp_ball(-k * k * self._rate)
                out.append(total)
            self._made[bits] = out[::-1]
        return self._made[bits]

    def term(self, k: int) -> arb:
        return exp_ball(-k * k * self._rate) / self.whole()

    def whole(self) -> arb:
        return 2 * self._from()[0] - 1

    def upper(self, t: int) -> arb:
        """``Pr[noise >= t]`` for any integer ``t``."""
        if t <= 0:
            return 1 - self.upper(1 - t)  # symmetry: Pr[noise <= t - 1] = Pr[noise >= 1 - t]
        sums = self._from()
        if t < len(sums):
            return sums[t] / self.whole()
        ratio = exp_ball(-(2 * t + 1) * self._rate)
        return exp_ball(-t * t * self._rate) * arb(1).union(1 / (1 - ratio)) / self.whole()


def normal_reach(sigma2: Fraction, beta: Fraction) -> int:
    """The least ``t >= 0`` with ``Pr[|N(0, sigma2)| > t] <= beta``; then ``Pr[|noise| > t] <= beta`` as well.

    *Proof.*  ``Pr[noise >= t + 1]`` is a sum of ``e**(-k**2/(2 sigma2))`` over ``k > t``, at most the integral from
    ``t`` on because the summand falls, over a normaliser that by Poisson summation is at least ``sqrt(2 pi sigma2)``.
    """

    def holds(t: int) -> bool:
        with precision(PROB_BITS):
            return bool((t / as_arb(2 * sigma2).sqrt()).erfc() <= as_arb(beta))

    return least_from(holds, 0)


@frozen(slots=False, field_transformer=named)
class DiscreteGaussian(Noise, Protected):
    """Integer query, a number or a vector, plus discrete Gaussian noise in every coordinate.

    Parameters
    ----------
    rho
        The zCDP parameter of one release.
    sensitivity2
        Largest *squared* Euclidean norm of the change between neighbours.
    delta
        The failure probability at which ``guarantee`` states ``rho`` as an (epsilon, delta) promise.

    >>> noise = DiscreteGaussian("1/8", 1, delta="1e-6", unit="user", neighbours="add-remove")
    >>> noise.sigma2, noise.guarantee.rho
    (Fraction(4, 1), Fraction(1, 8))
    >>> round(float(noise.law(0, bounds=(-20, 20)).prob(0)), 4)
    0.1995
    """

    rho: Fraction = field(converter=fraction, metadata=bounds(above=0))
    sensitivity2: Fraction = field(converter=fraction, metadata=bounds(above=0))
    delta: Fraction = field(kw_only=True, converter=probability)

    title: ClassVar[str] = "discrete Gaussian"
    divides: ClassVar[str] = "rho"

    @classmethod
    def within(cls, budget: Guarantee, change: Change, parts: int) -> Self:
        """Vectors share equally the largest ``rho`` of 16 significant bits whose optimal conversion keeps the
        budget."""
        if not budget.delta:
            raise ParameterError("discrete Gaussian noise needs delta above 0, such as 1e-6")
        rho = zcdp_within(budget.epsilon, budget.delta) / parts
        return cls(rho, change.squares, delta=budget.delta, unit=budget.unit, neighbours=budget.neighbours)

    @property
    def sigma2(self) -> Fraction:
        """``sensitivity2 / (2 rho)``, exactly."""
        return self.sensitivity2 / (2 * self.rho)

    @property
    def guarantee(self) -> Guarantee:
        epsilon = zcdp_epsilon(self.rho, self.delta, "optimal")
        return Guarantee(epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, rho=self.rho)

    # Law and draws

    def law(self, value: int, *, bounds: tuple[int, int]) -> FiniteLaw:
        """The law of one noisy coordinate clamped to the public ``bounds`` (clamping is post-processing).

        Probabilities are quotients of infinite sums, known through balls at every precision.
        """
        lo, hi = read_bounds(bounds)
        if hi - lo >= MAX_VALUES or self.sigma2 > _LISTED:
            raise TooLargeError(
                f"the law is listed value by value: bounds may span at most {MAX_VALUES} values and sigma2 may be at "
                f"most {_LISTED}; sample instead"
            )
        centre, sums = read_value(value), _Sums(self.sigma2)
        if lo == hi:
            return FiniteLaw([(range(lo, hi + 1), Quotient.of(1))], {})
        cells: list[tuple[range, Number]] = [(range(lo, lo + 1), Enclosed(lambda: sums.upper(centre - lo)))]
        cells += [(range(k, k + 1), _term(sums, k - centre)) for k in range(lo + 1, hi)]
        cells.append((range(hi, hi + 1), Enclosed(lambda: sums.upper(hi - centre))))
        return FiniteLaw(cells, {})

    def sample(self, value: int, rng: Rng | None = None, *, bounds: tuple[int, int] | None = None) -> int:
        """One exact draw of the noisy value, clamped if ``bounds`` are given."""
        limits = None if bounds is None else read_bounds(bounds)
        noisy = read_value(value) + discrete_gaussian(self.sigma2, secret_rng(rng))
        return noisy if limits is None else min(max(noisy, limits[0]), limits[1])

    def sample_vector(self, values: Sequence[int], rng: Rng | None = None) -> list[int]:
        """One exact draw of a noisy vector, whose change between neighbours ``sensitivity2`` bounds as a whole."""
        exact = [read_value(value) for value in values]
        noise = gaussian_noise(self.sigma2, len(exact), secret_rng(rng))
        return [value + more for value, more in zip(exact, noise)]

    # Accuracy

    @property
    def variance(self) -> float:
        return float(self.sigma2)

    def tail(self, t: int) -> Ball:
        """An enclosure of ``Pr[|noise| >= t]``, for a ``sigma2`` small enough to be listed."""
        reach = read_value(t)
        if self.sigma2 > _LISTED:
            raise TooLargeError(f"sigma2 above {_LISTED} is not summed term by term; use reach(beta)")
        if reach <= 0:
            return Ball(Fraction(1), Fraction(1))
        with precision(PROB_BITS):
            return ball_of(2 * _Sums(self.sigma2).upper(reach), floor=Fraction(0), ceiling=Fraction(1))

    def reach(self, beta: Rational) -> int:
        """The noise of one coordinate exceeds this in size with probability at most ``beta``; for every ``sigma2``."""
        return normal_reach(self.sigma2, rational(beta, "beta", above=0, maximum=1))


def _term(sums: _Sums, k: int) -> Enclosed:
    return Enclosed(lambda: sums.term(k))


# What discrete Gaussian noise promises, composed: as much as continuous noise of nearly the same variance.
#
# **Theorem.**  Releases ``t = 1, 2, ...`` add to integer vectors discrete Gaussian noise of variance parameter ``sigma2
# = moved2 / (2 rho_t) + 4``, where ``moved2`` bounds the squared distance between neighbours; vectors, ``moved2`` and
# hence ``sigma2`` may depend on earlier releases, the ``rho_t`` not.  With ``rho`` the sum of the ``rho_t`` and ``mu =
# sqrt(2 rho)``, all of at most ``2**40`` coordinates together are ``(epsilon + 2 K, e**K delta)``-DP with ``K =
# 2**-60``, where ``delta = Phi(mu/2 - epsilon/mu) - e**epsilon Phi(-mu/2 - epsilon/mu)`` for any ``epsilon >= 0``.
#
# *Proof.*  (1) *One coordinate.*  Let ``X`` be normal with an integer mean ``m`` and variance ``s2``, and round it at
# random: ``y`` in Z with probability ``e**(-(y - X)**2 / (2 t2)) / D(X)``, ``D(x)`` the sum of these weights, ``t2 =
# 4``. By Poisson summation ``D(x) = sqrt(2 pi t2) (1 + 2 sum over k >= 1 of e**(-2 pi**2 t2 k**2) cos(2 pi k x))``:
# within ``1 -+ eta`` of ``sqrt(2 pi t2)``, ``eta = 2 q / (1 - q)``, ``q = e**(-8 pi**2)``.  Normal densities convolve,
# so the rounded value is ``y`` with probability ``w(y) = e**(-(y - m)**2 / (2 sigma2)) / sqrt(2 pi sigma2)``, ``sigma2
# = s2 + t2``, up to factors ``1/(1 -+ eta)``.  The discrete Gaussian around ``m`` has ``w(y)`` up to its normaliser,
# the same sum for the larger ``sigma2`` at an integer: between 1 and ``1 + eta``.  So the two laws on Z differ by a
# factor of at most ``e**k``, ``k = ln((1 + eta)/(1 - eta)) < 2**-111``, whatever the mean.
#
# (2) *All of them.*  Replace every draw by such a rounding of a normal one: whole transcripts change their probability
# by a factor of at most ``e**K``.  The replaced procedure post-processes normal noise of variance ``moved2 / (2
# rho_t)``, each release ``sqrt(2 rho_t)``-Gaussian private given the earlier ones; these compose adaptively to ``mu``
# (Dong, Roth and Su, Gaussian differential privacy, Corollary 3.3), which is the trade-off of the formula.
#
# (3) ``P(S) <= e**K P'(S) <= e**K (e**epsilon Q'(S) + delta) <= e**(epsilon + 2 K) Q(S) + e**K delta``.
#
# The same noise is ``rho``-zCDP as well (:mod:`privpac.mechanisms.gaussian`); converting that to (epsilon, delta) needs
# 15 % more variance at (1, 1e-6).


SMOOTHING = 4
"""What is added to the variance of continuous noise."""

MOST_COORDINATES = 1 << 40
_SLACK = Fraction(1, 1 << 60)
"""``K``: 2**40 times 2**-111 is far below."""
_BITS = 16
_SMALLEST = 4000
_PRECISION = 256


def gaussian_delta(rho: Fraction, epsilon: Fraction) -> arb:
    """``Phi(mu/2 - epsilon/mu) - e**epsilon Phi(-mu/2 - epsilon/mu)`` with ``mu = sqrt(2 rho)``, at the working
    precision."""
    mu, root = as_arb(2 * rho).sqrt(), arb(2).sqrt()
    at, half = as_arb(epsilon) / mu, mu / 2
    return (((at - half) / root).erfc() - exp_ball(epsilon) * ((at + half) / root).erfc()) / 2


@lru_cache(maxsize=64)
def gaussian_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ``rho`` of 16 significant bits for which the theorem gives ``(epsilon, delta)``.

    >>> gaussian_within(Fraction(1), Fraction(1, 10**6))
    Fraction(29375, 1048576)
    """
    inner, allowed = epsilon - 2 * _SLACK, delta * (1 - _SLACK)  # e**-K is at least 1 - K

    def fits(rho: Fraction) -> bool:
        with precision(_PRECISION):
            return bool(gaussian_delta(rho, inner) <= as_arb(allowed))

    def power(k: int) -> bool:
        return fits(Fraction(2) ** k)

    low = 0
    while inner > 0 and not power(low) and low > -_SMALLEST:
        low = min(2 * low, -1)
    if inner <= 0 or not power(low):
        raise InfeasibleError(f"epsilon = {float(epsilon):g} at this delta leaves no budget; use a larger one")
    high = low + 1
    while power(high):
        high += max(1, high - low)
    unit = Fraction(2) ** (last_between(power, low, high) - _BITS + 1)
    return last_between(lambda k: fits(k * unit), 1 << (_BITS - 1), 1 << _BITS) * unit
