"""Sizes of probabilistic representations: how many rules stand in for a class, whatever the data.

An ``(alpha, beta)`` representation is a random set H such that each concept has, with probability ``1 - beta``, a rule
in H that disagrees with it on mass at most ``alpha``; its log size is what a selection over it costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int

__all__ = ["BoostedSize", "PointsSize", "boosting_size", "points_representation"]


@dataclass(frozen=True)
class PointsSize:
    """``hashes`` hash functions into ``buckets`` buckets each; ``size`` rules in all."""

    hashes: int
    buckets: int

    @property
    def size(self) -> int:
        return self.hashes * self.buckets


def points_representation(alpha: Rational, beta: Rational) -> PointsSize:
    """Hashed points: one copy fails with probability at most ``1/(B alpha)``, so ``k`` copies with at most its k-th
    power.

    The cheapest ``(k, B)`` with ``(1/(B alpha))**k <= beta``, decided exactly; independent of the domain.

    >>> points_representation("0.02", "0.01")
    PointsSize(hashes=5, buckets=126)
    """
    accuracy, failure = rational(alpha, "alpha", above=0, below=1), rational(beta, "beta", above=0, below=1)
    if accuracy < Fraction(1, 10**12) or failure < Fraction(1, 10**100):
        raise ParameterError(
            "alpha must be at least 1e-12 and beta at least 1e-100 for a representation of usable size"
        )
    # k B is smallest near k = ln(1/beta); past that B hardly falls.
    top = 2 + math.ceil(2 * -math.log(failure))
    options = [PointsSize(k, _buckets(accuracy, failure, k)) for k in range(1, top + 1)]
    return min(options, key=lambda option: option.size)


def _buckets(alpha: Fraction, beta: Fraction, k: int) -> int:
    """The least ``B`` with ``(B alpha)**k beta >= 1``."""
    buckets: int = max(1, math.floor(1 / (float(alpha) * float(beta) ** (1 / k))) - 1)
    while (buckets * alpha) ** k * beta < 1:
        buckets += 1
    return buckets


@dataclass(frozen=True)
class BoostedSize:
    """``rounds`` rounds of majority, each over ``copies`` fresh copies of the base representation."""

    rounds: int
    copies: int

    def log_size(self, base_log_size: float) -> float:
        return self.rounds * (base_log_size + math.log(self.copies))


def boosting_size(alpha: Rational, beta: Rational, *, alpha0: Rational = "1/4", beta0: Rational = "1/4") -> BoostedSize:
    """From an ``(alpha0, beta0)`` representation to ``(alpha, beta)`` by unweighted majorities.

    ``T`` is the least with ``(2 sqrt(alpha0 (1 - alpha0)))**T <= alpha`` (1 if ``alpha >= alpha0``) and ``k`` the least
    with ``beta0**k <= beta / T``; both decided exactly.

    >>> boosting_size("0.02", "0.01").rounds
    28
    """
    accuracy, failure = rational(alpha, "alpha", above=0, below=1), rational(beta, "beta", above=0, below=1)
    a0, b0 = rational(alpha0, "alpha0", above=0, below="1/2"), rational(beta0, "beta0", above=0, below=1)
    if (
        min(accuracy, failure) < Fraction(1, 10**100)
        or 4 * a0 * (1 - a0) > Fraction(9999, 10000)
        or b0 > Fraction(999, 1000)
    ):
        raise ParameterError(
            "alpha and beta must be at least 1e-100, alpha0 at most 0.495 and beta0 at most 0.999 to boost in practice"
        )
    shrink = 4 * a0 * (1 - a0)
    rounds = 1 if accuracy >= a0 else _least_power(shrink, accuracy**2)
    return BoostedSize(rounds, max(1, _least_power(b0, failure / rounds)))


def _least_power(base: Fraction, target: Fraction) -> int:
    """The least ``k >= 0`` with ``base**k <= target``."""
    k = max(0, math.floor(math.log(target) / math.log(base)) - 1)
    while base**k > target:
        k += 1
    return positive_int(k, "k", minimum=0)
