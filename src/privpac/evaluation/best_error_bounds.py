"""Users for an estimate of the least error of a class, by its least sum or by the search of comparisons.

Both are within ``radius`` of the least error with probability ``1 - beta``, for users who hold ``m`` records each,
all of one law.

*Sum.*  The least of the mean errors is within the uniform deviation of ``n m`` records of the truth; floors cost
``1/L``, and with ``epsilon' = 4 epsilon/5`` (all of it under replace, where the number of users is public) the noise is
at most ``t = ln(2/b)/epsilon'`` people, that of the count at most ``c = 5 ln(2/b)/epsilon``: ``D + 1/L + (t + c)/(n -
c)``.  More records of a user lower ``D`` and nothing else.

*Search.* Comparisons of width ``w`` separate users, not sums: ``m`` records tell two error rates apart with
probability of order ``w sqrt(m)``, so both noise and deviation shrink with ``m``
(:mod:`privpac.evaluation.best_error_bounds`), at the price of ``log2(1/radius)`` comparisons or as many cells. Users
may be asked for fewer records than they hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from privpac.bisection import least
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.parameters import DEFAULT_LEVELS
from privpac.sample_size import LIMIT, SLACK, Certificate, fewest, open_unit, positive, relation
from privpac.special import gammaln, logsumexp, xlog1py, xlogy

__all__ = [
    "ESTIMATORS",
    "Estimate",
    "agnostic_radius",
    "certify_least_error",
    "estimate_plan",
    "log_growth",
    "relative_deviation",
]


# Uniform deviation bounds with explicit constants, shared by the agnostic certificates.
#
# ``lnPi(d, N) = ln sum_{i<=d} C(N, i)`` is Sauer's bound on the number of labellings of ``N`` points by a class of VC
# dimension ``d``.


def log_growth(dimension: int, points: int) -> float:
    """``ln sum_{i <= d} C(N, i)``; ``N ln 2`` when ``N <= d``.

    >>> round(log_growth(1, 99), 12) == round(math.log(100), 12)
    True
    """
    d, n = positive_int(dimension, "dimension", minimum=0, maximum=1 << 20), positive_int(points, "points", minimum=0)
    if n <= d:
        return n * math.log(2)
    if d == 1:
        return math.log(1 + n)
    i = np.arange(1, d + 1, dtype=float)
    return float(logsumexp(np.concatenate([[0.0], np.cumsum(np.log((float(n) - i + 1) / i))])))


def agnostic_radius(
    *, n_users: int, records_per_user: int, dimension: int, thresholds: int, failure: float, log_size: float | None
) -> float:
    """How far any user error of the class is from its mean, with probability ``1 - failure``.

    The smaller of ``sqrt(ln(2 tv |C|/b) / (2n))`` (finite class, Hoeffding) and ``sqrt(2 (ln(2 tv) + lnPi(d, n m))/n) +
    sqrt(ln(1/b)/(2n))`` (symmetrisation, Massart, McDiarmid); ``tv = thresholds`` is the number of thresholds among
    which one is chosen from the data (1 when it is fixed).
    """
    n, tv = n_users, thresholds
    growth = log_growth(dimension, n * records_per_user)
    radius = math.sqrt(2 * (math.log(2 * tv) + growth) / n) + math.sqrt(-math.log(failure) / (2 * n))
    if log_size is not None:
        radius = min(radius, math.sqrt((math.log(2 * tv / failure) + log_size) / (2 * n)))
    return radius


def relative_deviation(share: float, *, n_users: int, dimension: int, log_size: float, failure: float) -> float:
    """``omega(d)``: a set of empirical mass ``d`` has true mass at most ``d + xi**2/2 + xi sqrt(d + xi**2/4)``,
    uniformly.

    ``xi**2 = 4 (ln 4 + lnPi(d, 2n) + ln|H| + ln(1/b)) / n``, from ``Pr[exists: (P - P_n)/sqrt P > xi] <= 4 Pi(2n)
    exp(-xi**2 n/4)``.
    """
    if share < 0:
        raise ParameterError(f"share must be at least 0, got {share}")
    square = 4 * (math.log(4) + log_growth(dimension, 2 * n_users) + log_size - math.log(failure)) / n_users
    return share + square / 2 + math.sqrt(square) * math.sqrt(share + square / 4)


# What a private estimate of the least error of a class costs and brings.
#
# Both estimators compare ``eta`` with grid values through counts of users: a comparison of width ``w`` at ``p``
# separates ``Bin(m, p)`` from ``Bin(m, p + w)``, whose total variation distance ``g`` must exceed noise and deviation.
#
# * *bisect*: ``T`` comparisons, each with ``epsilon/T``; ``w = alpha_e``, ``T = log2(1/alpha_e)``; succeeds when
#   ``n (g/2 - a) >= (T/epsilon) ln(T/(2 b))``.
# * *oneshot*: one selection among ``J = ceil(1/w)`` cells, ``w = 2 alpha_e/3``; succeeds when ``n (g - 2a) >=
#   (2/epsilon)
#   ln(J/b)``.
#
# All users hold the same number of records, so one user moves every comparison by at most 1 under both relations.


ESTIMATORS = ("bisect", "oneshot")

_DROP = 1e-10
"""Gaps from summed probabilities are lowered by this much: above their rounding error and the ties of ``robust_t``."""


@dataclass(frozen=True)
class Estimate:
    """Accuracy ``2**-j``: ``compare_gap`` is the worst comparison, ``robust_gap`` the worst gap of the threshold chosen
    afterwards."""

    estimator: str
    m: int
    j: int
    alpha: Fraction

    @property
    def cells(self) -> int:
        return _cells(self.estimator, self.j).cells

    @property
    def compare_gap(self) -> float:
        return _compare_gap(self.estimator, self.m, self.j)

    @cached_property
    def robust_gap(self) -> float:
        return max(0.0, _worst_robust_gap(self.m, _cells(self.estimator, self.j), self.alpha))

    def succeeds(self, n_users: int, radius: float, epsilon: float, failure: float) -> bool:
        """Whether the estimate is right with probability ``1 - failure``, given uniform deviations of at most
        ``radius``."""
        if self.estimator == "bisect":
            rounds = self.cells.bit_length() - 1
            noise = rounds / epsilon * max(0.0, math.log(rounds / (2 * failure)))
            return noise * (1 + SLACK) <= n_users * (self.compare_gap / 2 - radius)
        return 2 / epsilon * math.log(self.cells / failure) * (1 + SLACK) <= n_users * (self.compare_gap - 2 * radius)


@dataclass(frozen=True)
class _EstimateCells:
    """The cells of an estimate: grid values to compare with, and both ends of what an answer leaves possible."""

    cells: int
    width: float
    grid: list[float]
    below: NDArray[np.float64]
    above: NDArray[np.float64]


@lru_cache(maxsize=64)
def _cells(estimator: str, j: int) -> _EstimateCells:
    accuracy = Fraction(1, 1 << j)
    if estimator == "bisect":
        width, cells = accuracy, 1 << j
        centres = [(i * width + min(Fraction(1), (i + 2) * width)) / 2 for i in range(cells)]
    else:
        width = accuracy * 2 / 3
        cells = math.ceil(1 / width)
        centres = [min(Fraction(1), (i + Fraction(1, 2)) * width) for i in range(cells)]
    below, above = (np.array([float(centre + sign * accuracy) for centre in centres]) for sign in (-1, 1))
    return _EstimateCells(cells, float(width), [float(i * width) for i in range(1, cells)], below, above)


@lru_cache(maxsize=512)
def _compare_gap(estimator: str, m: int, j: int) -> float:
    cells = _cells(estimator, j)
    compare = _distances(m, cells.grid, [min(1.0, p + cells.width) for p in cells.grid])
    return max(0.0, min(compare, default=1.0) - _DROP)


@lru_cache(maxsize=512)
def estimate_plan(estimator: str, m: int, j: int, alpha: Fraction) -> Estimate:
    """The two gaps of an estimate with accuracy ``2**-j`` followed by a choice of threshold at ``alpha``."""
    return Estimate(estimator, m, j, alpha)


def _worst_robust_gap(m: int, cells: _EstimateCells, alpha: Fraction) -> float:
    # Rounding is monotone, so that clipping the rounded ends is rounding the clipped ones.
    high = np.maximum(0.0, np.minimum(float(1 - alpha), cells.above))
    low = np.minimum(np.maximum(0.0, cells.below), high)
    at_low, at_high = (_gaps(m, ends, float(alpha)) for ends in (low, high))
    return float(np.minimum(at_low, at_high).max(axis=1).min()) * (1 - 2e-9) - _DROP


def _gaps(m: int, etas: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """``psi(m, eta + alpha, t) - psi(m, eta, t)`` for each eta and t = 0..m-1."""
    upper, lower = (_masses(m, rates).cumsum(axis=1)[:, :-1] for rates in (np.minimum(1.0, etas + alpha), etas))
    return np.asarray(lower - upper)


def _distances(m: int, low: list[float], high: list[float]) -> list[float]:
    """Total variation distances of ``Bin(m, low[i])`` and ``Bin(m, high[i])``."""
    if not low:
        return []
    return [float(x) for x in np.abs(_masses(m, np.array(low)) - _masses(m, np.array(high))).sum(axis=1) / 2]


def _masses(m: int, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities of ``Bin(m, p)``, one row per rate, scaled to sum to 1."""
    k, p = np.arange(m + 1, dtype=float)[None, :], rates[:, None]
    choose = gammaln(m + 1.0) - gammaln(k + 1) - gammaln(m - k + 1)
    mass = np.exp(choose + xlogy(k, p) + xlog1py(m - k, -p))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


"""Steps of an error rate, those of the evaluator."""
_MOST = 1 << 10
"""Records beyond which more are not read by a search: certified numbers only fall slowly from here."""


def certify_least_error(
    method: str,
    *,
    epsilon: Rational,
    radius: Rational,
    beta: Rational,
    records_per_user: int,
    dimension: int,
    log_size: float | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """Users for which the estimate by ``"sum"``, ``"oneshot"`` or ``"bisect"`` is within ``radius``.

    >>> told = dict(epsilon="0.1", radius="1/16", beta="0.05", dimension=1)
    >>> [certify_least_error(way, records_per_user=1, **told).n_users for way in ("sum", "oneshot")]
    [18193, 97765]
    """
    m, eps = positive_int(records_per_user, "records_per_user", maximum=1 << 40), positive(epsilon, "epsilon")
    wanted, failure = rational(radius, "radius", above=0, below=1), open_unit(beta, "beta")
    assumption = "users with equally many records, all of one law"
    if method == "sum":
        private_count = relation(neighbours) is Neighbours.ADD_REMOVE
        n = _by_sum(m, eps, float(wanted), failure, dimension, log_size, private_count)
        return Certificate.upper(n, "least sum of errors", assumption, records_per_user=m)
    if method not in ESTIMATORS:
        raise ParameterError(f"method must be sum, {' or '.join(ESTIMATORS)}, got {str(method)[:40]!r}")
    j = 0
    while wanted * (1 << j) < 1:
        j += 1
    # Under replace a person with other numbers of records moves a comparison by up to 2.
    step = 1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2
    by_search = partial(_by_search, method, j, eps / step, failure, dimension, log_size)

    def certify(records: int) -> Certificate:
        return Certificate.upper(by_search(records), f"least error by search ({method})", assumption)

    return fewest(min(m, _MOST), lambda records, beat: certify(records), lambda records: 0.0)


def _by_sum(
    m: int, epsilon: float, radius: float, beta: float, dimension: int, log_size: float | None, counted: bool
) -> int | None:
    noise = math.log(6 / beta) / (epsilon * (0.8 if counted else 1.0))  # a third of beta each
    count = 5 * math.log(6 / beta) / epsilon + 1 if counted else 0.0

    def enough(n: int) -> bool:
        if n <= count:
            return False
        luck = agnostic_radius(
            n_users=n * m,
            records_per_user=1,
            dimension=dimension,
            thresholds=1,
            failure=beta / 3,
            log_size=log_size,
        )
        return (luck + 1 / DEFAULT_LEVELS + (noise + count) / (n - count)) * (1 + SLACK) <= radius

    return least(enough, start=1, limit=LIMIT)


def _by_search(
    method: str, j: int, epsilon: float, beta: float, dimension: int, log_size: float | None, m: int
) -> int | None:
    plan = estimate_plan(method, m, j, rational(1, "alpha") / (1 << j))
    if plan.compare_gap <= 0:
        return None

    def enough(n: int) -> bool:
        deviation = agnostic_radius(
            n_users=n, records_per_user=m, dimension=dimension, thresholds=m, failure=beta / 2, log_size=log_size
        )
        return plan.succeeds(n, deviation, epsilon, beta / 2)

    return least(enough, start=1, limit=LIMIT)
