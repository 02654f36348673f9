"""How well can any rule of this kind do?  A private lower bound on the least error of a class, for new people from the
same population.

``S = min over rules of sum over users of floor(levels * mistakes / m)``, the least entry of one folded profile, is
released with noise, and under add-remove the number of users with records as well.

**Guarantee.**  Pure epsilon.  One user more or less moves every sum, hence the minimum, by an integer in ``0..levels``;
a replaced one by at most ``levels`` either strategy: noise of rate ``epsilon/levels`` under both relations.  Under
add-remove a fifth of epsilon buys the count (sensitivity 1), four fifths S.

**Accuracy.**  Users i.i.d., any law.  Let ``h*`` have the least error of the population; it does not depend on the
data.  The empirical minimum is at most the empirical error of ``h*`` (floors only lower it), which exceeds its mean by
much with little probability: with ``s`` below S, ``n+`` and ``n-`` around the number of users,
``l = inf{p <= s/(n+ levels): kl(s/(n+ levels) || p) <= ln(1/b)/n-}`` is at most ``err(h*)``, hence at most the error of
every rule, except with probability ``b`` and what the noises fail by.  One rule, no union: the size of the class does
not enter.  Under replace users without records count with error 0, which only lowers the bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.bisection import least
from privpac.errors import ParameterError, TooLargeError
from privpac.evaluation.evaluator import MAX_VOTE_LEVELS
from privpac.evaluation.intervals import Range, kl_range, noise_reach
from privpac.evaluation.results import LEAST_NOISE, Evaluation, percent, points, sure
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.mechanisms.laplace import discrete_laplace
from privpac.methods.base import Bound, Learner, count_users
from privpac.methods.small_tree import SmallTreeLaw, most_likely
from privpac.parameters import (
    DEFAULT_BETA,
    DEFAULT_LEVELS,
    bounds,
    named,
    privacy,
    probability,
    protected_unit,
    relation,
    whole,
    whole_or_none,
)
from privpac.result import Released, Saved, register
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.hierarchies.nodes import TreeNodes
from privpac.rules.profile import Statistic
from privpac.sample_size import LIMIT, SLACK, Certificate, fewest, open_unit, positive
from privpac.special import gammaln, logsumexp, xlog1py, xlogy

if TYPE_CHECKING:
    from privpac.data import UserData, Users
    from privpac.rng import Rng

# Users for an estimate of the least error of a class, by its least sum or by the search of comparisons.
#
# Both are within ``radius`` of the least error with probability ``1 - beta``, for users who hold ``m`` records each,
# all of one law.
#
# *Sum.*  The least of the mean errors is within the uniform deviation of ``n m`` records of the truth; floors cost
# ``1/L``, and with ``epsilon' = 4 epsilon/5`` (all of it under replace, where the number of users is public) the noise
# is at most ``t = ln(2/b)/epsilon'`` people, that of the count at most ``c = 5 ln(2/b)/epsilon``: ``D + 1/L + (t +
# c)/(n - c)``.  More records of a user lower ``D`` and nothing else.
#
# *Search.* Comparisons of width ``w`` separate users, not sums: ``m`` records tell two error rates apart with
# probability of order ``w sqrt(m)``, so both noise and deviation shrink with ``m``, at the price of ``log2(1/radius)``
# comparisons or as many cells. Users may be asked for fewer records than they hold.


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
# * *oneshot*: one selection among ``J = ceil(1/w)`` cells, ``w = 2 alpha_e/3``; succeeds when
#   ``n (g - 2a) >= (2/epsilon) ln(J/b)``.
#
# All users hold the same number of records, so one user moves every comparison by at most 1 under both relations.


_ESTIMATORS = ("bisect", "oneshot")

_DROP = 1e-10
"""Gaps from summed probabilities are lowered by this much: above their rounding error and the ties of ``robust_t``."""


@frozen(slots=False)
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


@frozen(slots=False)
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


def certify_best_error(
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
    >>> [certify_best_error(strategy, records_per_user=1, **told).n_users for strategy in ("sum", "oneshot")]
    [18193, 97765]
    """
    m, eps = positive_int(records_per_user, "records_per_user", maximum=1 << 40), positive(epsilon, "epsilon")
    wanted, failure = rational(radius, "radius", above=0, below=1), open_unit(beta, "beta")
    assumption = "users with equally many records, all of one law"
    if method == "sum":
        private_count = relation(neighbours) is Neighbours.ADD_REMOVE
        n = _by_sum(m, eps, float(wanted), failure, dimension, log_size, private_count)
        return Certificate.upper(n, "least sum of errors", assumption, records_per_user=m)
    if method not in _ESTIMATORS:
        raise ParameterError(f"method must be sum, {' or '.join(_ESTIMATORS)}, got {str(method)[:40]!r}")
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
            n_users=n * m, records_per_user=1, dimension=dimension, thresholds=1, failure=beta / 3, log_size=log_size
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


# The least sum of errors over a class: where rules have scores one by one, and where they share one law.
#
# Either way a person adds to every rule an integer in ``0..levels`` that is at most ``levels`` times that person's
# error rate: floors only lower it.


_SHARP = Fraction(1 << 20)
"""A rate at which one vote outweighs every prior: the most likely tree is one of the fewest votes against it."""


@frozen(slots=False)
class MeanError(Statistic):
    """A user's error rate in steps of ``1/levels``, rounded down; nothing is subtracted."""

    levels: int

    @property
    def bound(self) -> int:
        return self.levels

    def cap_of(self, m: int) -> int:
        return m


def steps_of(concept: ConceptClass, levels: int) -> int:
    """In how many steps a person's error rate is counted: those of the class where it has steps of its own."""
    steps = concept.error_steps(levels)
    if steps is None:
        raise TooLargeError(
            f"the least error of {type(concept).__name__} is not found: its rules are not scored one by one"
        )
    return steps


def least_sum(concept: Any, users: Users, levels: int) -> int:
    """The least sum over all rules of a bound class."""
    if concept.scored:
        return int(users.fold(concept.kernel(MeanError(levels))).least)
    cells = concept.cells(users)
    best = most_likely(concept.shape, cells, _SHARP)
    return int(SmallTreeLaw(concept.shape, cells, _SHARP).score(best))


_COUNT_SHARE = Fraction(1, 5)
"""Of epsilon, for the number of users where that is private."""


class _WithRecords:
    """The number of users who have records."""

    def zero(self) -> int:
        return 0

    def chunk(self, users: UserData) -> int:
        return int(np.count_nonzero(users.sizes))

    def merge(self, a: int, b: int) -> int:
        return a + b


@register("best-error")
@frozen(slots=False)
class BestErrorBound(Saved):
    """A noisy least sum of errors, and what it says of every rule of the class.

    ``sum`` in units of ``1/levels`` of a person, with noise of rate ``noise``; ``people`` with noise of rate
    ``count_noise``, or exact where that is None.
    """

    sum: int
    people: int
    levels: int
    noise: Fraction
    count_noise: Fraction | None
    confidence: Fraction
    of: str = "rule"

    @property
    def value(self) -> float:
        """The least error on these people, as measured."""
        return min(1.0, max(0.0, self.sum / (max(1, self.people) * self.levels)))

    def lower(self, records_per_user: int = 1, *, confidence: Rational | None = None) -> float:
        """No rule of the class is wrong less often than this, for new people from the same population.

        ``records_per_user`` above 1 declares that everybody holds so many records, all of one law: then records count,
        not only people.
        """
        doubt = 1 - (self.confidence if confidence is None else rational(confidence, "confidence", above=0, below=1))
        beta = doubt / (2 if self.count_noise is None else 3)  # people, the noise of the sum, that of the count
        around = 0 if self.count_noise is None else noise_reach(self.count_noise, 1, beta)
        least, most = self.people - around, self.people + around
        low = self.sum - noise_reach(self.noise, 1, 2 * beta)  # one side only: twice the level for both
        if least < 1 or low <= 0:
            return 0.0
        share = min(1.0, low / (most * self.levels))
        return kl_range(Range(share, share), least * records_per_user, float(beta), sides=1).lo

    def __str__(self) -> str:
        return (
            f"no {self.of} of this kind is wrong less often than {percent(self.lower())}, for new people from the "
            "same population "
            f"({sure(self.confidence)})"
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BestErrorBound:
        made = cls(**values)
        if any(isinstance(v, bool) or not isinstance(v, int) for v in (made.sum, made.people)):
            raise ParameterError("sum and people must be integers")
        positive_int(made.levels, "levels")
        noises = [made.noise] if made.count_noise is None else [made.noise, made.count_noise]
        return cls(
            made.sum,
            made.people,
            made.levels,
            rational(noises[0], "noise", minimum=LEAST_NOISE),
            None if made.count_noise is None else rational(noises[1], "count_noise", minimum=LEAST_NOISE),
            rational(made.confidence, "confidence", above=0, below=1),
            str(made.of),
        )


def _as_class(concept: object) -> ConceptClass:
    if isinstance(concept, VC1Tree):
        return TreeNodes(concept)
    if not isinstance(concept, ConceptClass):
        raise TypeError(f"concept must be a class of rules, got {type(concept).__name__}")
    return concept


@frozen(slots=False, field_transformer=named)
class BestErrorLearner(Learner):
    """Estimate the least error of a class from below.

    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0)], [(30, 1)]] * 900, features={"age": pp.Integers(0, 99)})
    >>> found = BestErrorLearner(pp.Thresholds(), 1).learn(people).value
    >>> 0.4 < found.lower() < 0.5
    True
    """

    concept: ConceptClass = field(converter=_as_class)
    epsilon: Fraction = field(converter=privacy)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    max_records: int | None = field(default=None, kw_only=True, converter=whole_or_none)
    levels: int = field(default=DEFAULT_LEVELS, kw_only=True, converter=whole, metadata=bounds(maximum=MAX_VOTE_LEVELS))
    confidence: Fraction = field(default=Fraction(19, 20), kw_only=True, converter=probability)

    def __attrs_post_init__(self) -> None:
        least = 5 * self.steps * LEAST_NOISE
        if self.epsilon < least:
            raise ParameterError(f"epsilon must be at least {float(least):.1g} to say anything")

    @property
    def steps(self) -> int:
        """In how many steps a person's error rate is counted."""
        return steps_of(self.concept, self.levels)

    @property
    def _counts(self) -> bool:
        return self.neighbours is Neighbours.ADD_REMOVE

    @property
    def guarantee(self) -> Guarantee:
        epsilon = self.epsilon
        how = ("the least sum of errors with noise" + (", and the number of users" if self._counts else ""),)
        parts = (_COUNT_SHARE * epsilon, (1 - _COUNT_SHARE) * epsilon) if self._counts else (epsilon,)
        rho = sum((part**2 / 2 for part in parts), Fraction(0))
        return Guarantee(epsilon, unit=self.unit, neighbours=self.neighbours, rho=rho, derivation=how)

    def bind(self, data: Users) -> Bound:
        return Bound.of(self.concept, data, self.unit, self.max_records)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        epsilon, levels = self.epsilon, self.steps
        exact = least_sum(bound.concept, bound.users, levels)
        spent = (1 - _COUNT_SHARE) * epsilon if self._counts else epsilon
        noise, counting = spent / levels, _COUNT_SHARE * epsilon if self._counts else None
        noisy = exact + discrete_laplace(noise, rng)
        if counting is None:
            people = count_users(bound.users)
        else:
            people = bound.users.fold(_WithRecords()) + discrete_laplace(counting, rng)
        found = BestErrorBound(noisy, people, levels, noise, counting, self.confidence)
        return Released(
            found, self.guarantee, parameters={"class": type(bound.concept).__name__}, learner="least error"
        )


# Which way to the least error of a class needs fewer people?  Certified numbers of all three, before any data.


_STRATEGIES = ("sum", "oneshot", "bisect")


@frozen(slots=False)
class BestErrorPlan:
    """Users for an estimate within ``radius`` of the least error, by every method."""

    radius: Fraction
    epsilon: Fraction
    records_per_user: int
    certificates: tuple[tuple[str, Certificate], ...]

    @property
    def best(self) -> str:
        """The method of the fewest certified users; of equals the sum, which has a bound that holds for fewer, too."""
        known = [
            (c.n_users, _STRATEGIES.index(strategy), strategy)
            for strategy, c in self.certificates
            if c.n_users is not None
        ]
        return min(known)[2] if known else "sum"

    def __getitem__(self, method: str) -> Certificate:
        return dict(self.certificates)[method]

    def __str__(self) -> str:
        rows = ", ".join(
            f"{strategy} {'none' if c.n_users is None else f'{c.n_users:,}'}" for strategy, c in self.certificates
        )
        return (
            f"least error within {self.radius}, epsilon {self.epsilon}, {self.records_per_user} records each:\n"
            f"certified people by {rows}; fewest: {self.best}"
        )


def plan_best_error(
    rule: ConceptClass | VC1Tree,
    *,
    epsilon: Rational,
    radius: Rational = "1/8",
    records_per_user: int,
    beta: Rational = DEFAULT_BETA,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> BestErrorPlan:
    """Certified users of ``pp.best_error`` by its three methods.

    Parameters
    ----------
    rule : class of rules
        With declared domains.
    epsilon : rational
        The privacy loss.
    radius : rational
        How close the estimate shall be.
    records_per_user : int
        Records each person holds, all of one law.
    beta : rational
        How often it may be further off.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.

    Returns
    -------
    BestErrorPlan
        ``best`` is the method of the fewest people.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> import privpac as pp
    >>> print(plan_best_error(pp.Thresholds(pp.Integers(0, 1440)), epsilon=1, radius="1/32", records_per_user=256))
    least error within 1/32, epsilon 1, 256 records each:
    certified people by sum 1,229, oneshot 614, bisect 443; fewest: bisect
    """
    concept = TreeNodes(rule) if isinstance(rule, VC1Tree) else rule
    if not isinstance(concept, ConceptClass):
        raise TypeError(f"rule must be a class of rules with declared domains, got {type(rule).__name__}")
    try:
        size: float | None = concept.log_size
    except (TooLargeError, ParameterError):
        size = None
    target: dict[str, Any] = {"epsilon": epsilon, "radius": radius, "beta": beta, "neighbours": neighbours}
    target |= {"records_per_user": records_per_user, "dimension": concept.vc_dimension, "log_size": size}
    certificates = tuple((strategy, certify_best_error(strategy, **target)) for strategy in _STRATEGIES)
    return BestErrorPlan(rational(radius, "radius"), rational(epsilon, "epsilon"), records_per_user, certificates)


# How far from the best rule of its kind?  A certificate after the data.
#
# An upper end ``U`` for the error of the released rule, measured on people it was not learned from
# (:class:`~privpac.evaluation.Evaluation`), and a lower end ``l`` for the error of every rule of its class
# (:class:`~privpac.evaluation.BestErrorBound`): then the rule is wrong at most ``U - l`` more often than the best of
# its kind, for new people from the same population.  The size of the class does not enter, and people may differ in any
# way.
#
# Two assumptions, both shown where the second is declared.  *Any people*: people are drawn independently from one law.
# *Records of one law*: everybody holds the declared number of records, all drawn from one law; then records count, not
# only people, and both ends are nearer.


def excess_bound(evaluation: Evaluation, least: BestErrorBound, *, records_per_user: int = 1) -> float:
    """How much more often than the best rule of the class the evaluated one is wrong, at most, for new people from the
    same population.

    The evaluation's upper end and the class's lower end take half of the doubt each.  The lower end holds for every
    rule at once, so it may come from the people the rule was learned from; the upper end must come from others.
    """
    doubt = (1 - min(evaluation.confidence, least.confidence)) / 2
    upper = evaluation.error_at_most(1 - doubt, records_per_user)
    return max(0.0, upper - least.lower(records_per_user, confidence=1 - doubt))


@register("certificate")
@frozen(slots=False)
class EvaluationCertificate(Saved):
    """Both ends, and what follows; ``records_per_user`` above 1 declares so many records of one law for everybody."""

    evaluation: Evaluation
    least: BestErrorBound
    records_per_user: int = 1

    def __attrs_post_init__(self) -> None:
        positive_int(self.records_per_user, "records_per_user")

    @property
    def excess(self) -> float:
        """At most so much worse than the best, whoever the people are."""
        return excess_bound(self.evaluation, self.least)

    @property
    def excess_one_law(self) -> float | None:
        """The same if records follow one law; None where that was not declared."""
        if self.records_per_user == 1:
            return None
        return excess_bound(self.evaluation, self.least, records_per_user=self.records_per_user)

    def __str__(self) -> str:
        how = sure(min(self.evaluation.confidence, self.least.confidence))
        best, sharper = self.excess, self.excess_one_law
        if best >= 0.5 and (sharper is None or sharper >= 0.5):
            return "how far from the best rule of its kind cannot be said with so few people"
        whom = "for new people from the same population"
        text = f"at most {points(best)} worse than the best rule of its kind, {whom} ({how})"
        return text if sharper is None else f"{text}; {points(sharper)} if everybody's records follow one law"

    @property
    def file_version(self) -> int:
        return self.evaluation.file_version
