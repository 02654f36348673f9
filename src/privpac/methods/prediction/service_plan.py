"""Prediction services as something to plan for: ``queries`` answers of which at most a stated share is wrong.

``alpha`` is the excess error of an answer over the best rule of the class, in the sense of
:mod:`privpac.methods.prediction.service_sample_size`: except with probability ``beta`` all answers are right outside a
set of probability ``best + alpha`` at most.

*Lower bounds* hold for every service that keeps this promise and whose answers together are ``(epsilon, delta)``-DP.
At a point that the class can label both ways, with labels biased by a hair more than ``alpha``, the answer must be the
likelier label except with probability ``beta``: private testing of one answer, and plain statistics.  Without a delta,
and with as many answers as there are shattered points, the answers there are a rule: what is known of pure private
learners of shattered points holds too.  Nothing follows from mistake trees: a service needs no more people for longer
ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from attrs import frozen

from privpac.arrays import Floats64
from privpac.composition import zcdp_budget
from privpac.errors import AccuracyWarning, InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit, one_of, positive_int
from privpac.lower_bounds import (
    MOST_TOLD_APART,
    just_beyond,
    largest_bound,
    lower_agnostic_vc,
    lower_statistics,
    lower_testing,
)
from privpac.methods.planned import (
    TABLE,
    Asked,
    CertifiedRun,
    PlanView,
    Target,
    feature_words,
    privacy_words,
    read_goal,
)
from privpac.methods.prediction.reduction_privacy import (
    COSTS,
    ROUNDED,
    SHARES,
    ReductionPlan,
    ReductionTask,
    inner_delta,
    plan_reduction,
)
from privpac.methods.prediction.relabel import Relabelling
from privpac.methods.prediction.service_sample_size import ServiceTask, certify_service, most_wrong_answers
from privpac.methods.prediction.voters import MAX_QUERIES, VotePredictor, gamma_for_transcript
from privpac.methods.registry import PlannedMethod, setting_text
from privpac.methods.simulation import ModelRng, Simulation, fixed_draws
from privpac.parameters import DEFAULT_BETA, DEFAULT_LEVELS
from privpac.rules.base import ConceptClass
from privpac.rules.named import name_of
from privpac.rules.populations import DEFAULT_NOISE, Population, declared_population, read_users
from privpac.sample_size import Certificate

# Constants of a prediction service from public numbers: a budget, a number of answers and a declared number of people.
#
# More noise in the votes (small ``gamma``) leaves more of the budget for relabelling; more voters beat that noise but
# learn from smaller parts.  For every cost ``eps_A`` of the transcript, every share of T of a fixed grid
# (``methods.prediction.reduction_privacy``) and every number of voters, the choice is that of the least
#
#     noise of the relabelling  +  1/levels  +  sqrt(dimension / w) / 2  +  env(share of wrong votes),      share ~
#     dimension * voters / t,
#
# where the share is the usual size of the error of a rule that fits ``t / voters`` records, the root that of the best
# rule on the others, and ``1/levels`` what rounding a user's loss may hide (nothing at item level).  It is an estimate,
# not a certificate, and serves the choice only: **the guarantee is recomputed from the constants that were chosen** and
# does not depend on any of this.  With ``alpha`` the choice is that of the least certified excess instead
# (:mod:`privpac.methods.prediction.service_sample_size`).  The candidates are the same for every number of people and
# every budget, and each one's estimate falls with both: more people, epsilon or delta never raise it.


_INNER: tuple[Rational, ...] = ("1/4", "1/2", 1, "3/2", 2, 3, 4, 6)
_MAX_VOTERS = 4096
_EVERY = 6
"""Of the shares of T one in six is tried: a factor of the square root of 2 apart."""

_FAILURE = Fraction(1, 100)

Made = tuple[ReductionPlan, int, Fraction, float, float]
"""Constants of the relabelling, voters, gamma, the estimate and its part from the relabelling."""


@frozen(slots=False)
class ServicePlan:
    """A predictor, the error it is expected to add (an estimate), and the excess error that is certified.

    ``promised_excess`` is certified for the declared number of people or more, but for ``beta``
    (:mod:`privpac.methods.prediction.service_sample_size`); 1 where nothing is.
    """

    predictor: VotePredictor
    expected_error: float
    relabelling_noise: float
    promised_excess: float = 1.0
    beta: Fraction = DEFAULT_BETA

    def most_wrong(self, best_error: Rational, failure: Rational | None = None) -> int:
        """So many of all answers at most are wrong, but for ``beta`` and ``failure`` (as large if left out), where the
        best rule is wrong on a share ``best_error`` and queries are records of new people.

        >>> from privpac.rules import Thresholds
        >>> from privpac.data import Floats
        >>> cuts = Thresholds(Floats(), "x")
        >>> plan = plan_service(cuts, epsilon=2, queries=20, public_n_users=1_000_000, alpha="0.1")
        >>> plan.promised_excess <= 0.1, plan.most_wrong("0.05")
        (True, 5)
        """
        share = min(
            Fraction(1), rational(best_error, "best_error", minimum=0, maximum=1) + Fraction(self.promised_excess)
        )
        return most_wrong_answers(self.predictor.queries, share, self.beta if failure is None else failure)


def plan_service(
    concept: ConceptClass,
    *,
    epsilon: Rational,
    queries: int,
    public_n_users: int,
    delta: Rational = 0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    unit: Unit | str = Unit.USER,
    max_records: int | None = None,
    levels: int = DEFAULT_LEVELS,
    epochs: int = 1,
    alpha: Rational | None = None,
    beta: Rational = DEFAULT_BETA,
) -> ServicePlan:
    """The predictor of least estimated error that gives ``queries`` answers within ``(epsilon, delta)``; with ``alpha``
    the one of least *certified* excess error.

    Parameters
    ----------
    concept : class of rules
        On named columns with domains.
    epsilon, delta : rational
        Privacy loss of all answers together, and the probability with which the promise may fail.
    queries : int
        How many answers are given in all.
    public_n_users : int
        A declared number of people under add-remove, the number itself under replace.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    unit : {"user", "item"}
        Whose data are protected.
    max_records, levels : int
        Records read per person at most; steps of a person's loss.
    epochs : int
        Independent splits, each for an equal part of the answers.
    alpha, beta : rational, optional
        The excess error that should be certified, and the failure allowed.  An ``AccuracyWarning`` says with how many
        people it would be.

    Raises
    ------
    InfeasibleError
        Says what would suffice.

    Examples
    --------
    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Floats
    >>> plan = plan_service(Thresholds(Floats(), "x"), epsilon=1, delta="1e-6", queries=100, public_n_users=20000)
    >>> plan.predictor.guarantee.epsilon <= 1, plan.expected_error < 0.2
    (True, True)
    """
    asked = _Asked.read(
        concept, epsilon, delta, queries, public_n_users, neighbours, unit, max_records, levels, epochs, beta
    )
    made = asked.estimated() if alpha is None else asked.certified(alpha)
    if made is None:
        shape: dict[str, Any] = {"inner_epsilons": _INNER, "levels": asked.levels, "neighbours": asked.neighbours}
        plan_reduction(n_users=asked.n, epsilon=asked.epsilon, log_growth=asked.log_growth, **shape)  # says what is
        raise InfeasibleError("no split is affordable with these public numbers; ask for a larger epsilon")
    plan, r, gamma, usual, noise = made
    relation = asked.neighbours
    split = (
        {"split_rate": plan.split_rate}
        if relation is Neighbours.ADD_REMOVE
        else {"split_size": plan.split_size, "public_n_users": asked.n}
    )
    relabelling = Relabelling(
        concept,
        plan.A,
        plan.B,
        eta=plan.eta,
        neighbours=relation,
        unit=asked.unit,
        levels=asked.levels,
        max_records=max_records,
        **split,
    )
    times = asked.epochs
    predictor = VotePredictor(
        relabelling, r, gamma, asked.each * times, asked.delta * times, times, asked.epsilon * times
    )
    t, w = plan.split_size, asked.n - plan.split_size
    sure = asked.task.excess(t, w, float(plan.a), float(plan.b), r, float(gamma))
    usual, noise = min(1.0, usual + asked.rounding), noise + asked.rounding
    return ServicePlan(predictor, usual, noise, min(1.0, sure), asked.beta)


@frozen(slots=False)
class _Asked:
    """The question, read and checked; numbers of answers and budgets are those of one epoch."""

    concept: ConceptClass
    epsilon: Fraction
    delta: Fraction
    each: int
    n: int
    neighbours: Neighbours
    unit: Unit
    levels: int
    epochs: int
    beta: Fraction
    rounded: bool

    @classmethod
    def read(
        cls,
        concept: ConceptClass,
        epsilon: Rational,
        delta: Rational,
        queries: int,
        public_n_users: int,
        neighbours: Neighbours | str,
        unit: Unit | str,
        max_records: int | None,
        levels: int,
        epochs: int,
        beta: Rational,
    ) -> _Asked:
        k, times = (
            positive_int(queries, "queries", maximum=MAX_QUERIES),
            positive_int(epochs, "epochs", maximum=1 << 10),
        )
        whose = one_of(Unit, unit, "unit")
        single = whose is Unit.ITEM
        return cls(
            concept,
            rational(epsilon, "epsilon", above=0, maximum=1000) / times,
            rational(delta, "delta", minimum=0, below=1) / times,
            -(-k // times),
            positive_int(public_n_users, "public_n_users", minimum=2, maximum=1 << 36),
            one_of(Neighbours, neighbours, "neighbours"),
            whose,
            1 if single else positive_int(levels, "levels", maximum=1 << 20),
            times,
            rational(beta, "beta", above=0, below=1),
            not single and max_records != 1,
        )

    def log_growth(self, t: int) -> float:
        return math.log(self.concept.growth(t))

    @property
    def rounding(self) -> float:
        return 1 / self.levels if self.rounded else 0.0

    @cached_property
    def task(self) -> ServiceTask:
        """One epoch, with its part of the failure; every epoch has a set of its own, as likely as the theorem says."""
        return ServiceTask(
            self.epsilon,
            self.delta,
            self.each,
            float(self.beta / self.epochs),
            self.log_growth,
            self.levels if self.rounded else None,
            self.neighbours,
            scale=self.levels,
        )

    def certified(self, alpha: Rational) -> Made | None:
        """The constants of least certified excess."""
        made = self.task.best(self.n)
        if made is None:
            return None
        if made.excess > rational(alpha, "alpha", above=0, below=1):
            enough = certify_service(self.task, alpha).n_users
            then = "no number of people certifies it" if enough is None else f"{enough:,} people certify it"
            text = f"an excess error of {alpha} is not certified for {self.n:,} people; {then}. Privacy is not affected"
            warnings.warn(text, AccuracyWarning, stacklevel=4)
        t, noise = made.split.split_size, made.split.noise
        return made.split, made.voters, made.gamma, self._usual(noise, t, made.voters, float(made.gamma)), noise

    def estimated(self) -> Made | None:
        """The constants of least estimated error."""
        n = self.n
        task = ReductionTask.read(self.epsilon, 0, _FAILURE, 0, 2, self.levels, self.neighbours, self.log_growth)
        best: tuple[float, float, Fraction, int, float, float, int] | None = None
        for eps_a in (rational(e) for e in _INNER):
            for noise, t, a, b in _splits(task, n, eps_a, self.delta > 0):
                gamma = _rough_gamma(self.each, float(eps_a), min(self.delta * n / t, Fraction(1, 2)))
                for r in _counts(t):
                    total = self._usual(noise, t, r, gamma)
                    if best is None or total < best[0]:
                        best = total, noise, eps_a, t, a, b, r
        if best is None:
            return None
        total, noise, eps_a, t, a, b, r = best
        plan = task.settle(n, eps_a, t, a, b)
        # What the relabelling leaves of the budget is spent on the votes, rounded down.
        return plan, r, gamma_for_transcript(self.each, plan.eps_A, r, _inner_leak(plan, self.delta)), total, noise

    def _usual(self, noise: float, t: int, r: int, gamma: float) -> float:
        """The estimate."""
        dimension = self.concept.vc_dimension
        return noise + math.sqrt(dimension / (self.n - t)) / 2 + _envelope(min(0.5, dimension * r / t), gamma, r)


def _splits(task: ReductionTask, n: int, eps_a: Fraction, leaks: bool) -> Iterator[tuple[float, int, float, float]]:
    """For every size of T to try the least noise, with its costs."""
    t, b = task.rows(n, eps_a)
    tried = np.isin(t, np.floor(SHARES[::_EVERY] * n)) | (t == 1)
    t, b = t[tried], b[tried] * (1 - ROUNDED)
    if leaks and not task.replace:
        # Within K' the transcript's delta is paid times the share of T and no more, whatever the budget.
        b = np.minimum(b, COSTS + math.log(task.g))
    with np.errstate(divide="ignore"):
        noise = np.where(b > 0, task.noise(t, n - t, COSTS * (1 - ROUNDED), b), math.inf)
    for i in np.flatnonzero(np.isfinite(noise).any(axis=1)):
        j = int(np.argmin(noise[i]))
        yield float(noise[i, j]), int(t[i]), float(COSTS[j]), float(b[i, j]) / (1 - ROUNDED)


def _inner_leak(plan: ReductionPlan, delta: Fraction) -> Fraction:
    if delta == 0:
        return delta
    return min(inner_delta(plan.split_rate, plan.a, plan.b, 0, delta, plan.labellings, plan.neighbours), Fraction(1, 2))


def _counts(t: int) -> list[int]:
    """Numbers of voters to try, about 30 % apart; each learns from two records or more on average."""
    top = max(1, min(_MAX_VOTERS, t // 2))
    return sorted({min(top, round(1.3**i)) for i in range(math.ceil(math.log(top) / math.log(1.3)) + 1)})


def _rough_gamma(queries: int, eps_a: float, leak: Fraction) -> float:
    """``gamma`` by the simple conversions, for comparing plans."""
    pure = eps_a / queries / 2
    if leak == 0:
        return pure
    return max(pure, math.sqrt(2 * float(zcdp_budget(eps_a, leak)) / queries))


def _envelope(share: float, gamma: float, r: int) -> float:
    """``methods.prediction.voters.wrong_answer`` in doubles."""
    j = np.arange(r + 1)
    values = 1 / (1 + np.exp(np.clip(-gamma * (2 * j - r), -700, 700)))
    place = share * r
    below = min(math.floor(place), r - 1)
    best = 0.0
    for i in {0, below}:
        ends = np.arange(max(i + 1, math.ceil(place)), r + 1)
        best = max(best, float((values[i] + (place - i) / (ends - i) * (values[ends] - values[i])).max()))
    return best


# What the answers of a prediction service are predicted to be: its own split, relabelling and voters on drawn people.
#
# The service is the one that ``privpac serve fit`` would run for so many people (``plan_service``: least *estimated*
# error, not the constants of the certificate).  A run draws people with a fixed seed, fits the voters, and takes the
# mean excess error over queries and over the coins of the votes exactly, on the points of the model.


_MOST_RECORDS = 1 << 19
_NAMED = 16


def service_simulations(target: ServiceTarget) -> list[ServiceSimulation]:
    """The service, where its class has an affordable model."""
    made = ServiceSimulation(target)
    return [] if made.people(_NAMED) is None else [made]


@frozen(slots=False)
class ServiceSimulation(Simulation):
    """The service on the population that was supplied, or else on the standard model."""

    target: ServiceTarget
    quick: bool = False

    method: ClassVar[str] = "prediction service"
    first: ClassVar[int] = 4
    most_runs: ClassVar[int] = 32

    @property
    def key(self) -> str:
        return "service"

    @cached_property
    def model(self) -> str:
        people = self.people(_NAMED)
        assert people is not None
        return people.for_any_records

    def people(self, m: int) -> Population | None:
        """People with ``m`` records each."""
        noise = DEFAULT_NOISE if self.target.model_noise is None else self.target.model_noise
        try:
            kind = self.target.users or "alike"
            return declared_population(kind, self.target.concept, records_per_user=m, noise=noise)
        except (ParameterError, TooLargeError):
            return None

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        people = self.people(records_per_user)
        if people is None or n_users * records_per_user > _MOST_RECORDS:
            return None
        try:
            service = _service(self.target, n_users, epsilon)
        except ParameterError:  # not even one answer can be paid for
            return None

        def excess(i: int) -> float:
            data = people.draw(n_users, fixed_draws(0, n_users, i))
            voters = service.fit(service.relabelling.bind(data), ModelRng(n_users, i))
            return people.excess_of_answers(answers(people, voters, float(service.gamma)))

        return excess

    def between(self, records_per_user: int) -> tuple[int, int]:
        return (256, _MOST_RECORDS // records_per_user) if self.people(records_per_user) else (4, 0)


@lru_cache(maxsize=64)
def _service(target: ServiceTarget, n_users: int, epsilon: Fraction) -> VotePredictor:
    told = {"delta": target.delta, "queries": target.queries, "neighbours": target.neighbours}
    return plan_service(target.concept, epsilon=epsilon, public_n_users=n_users, **told).predictor  # type: ignore[arg-type]


def answers(people: Population, voters: tuple[int, ...], gamma: float) -> Floats64:
    """How often a query at each point of the model is answered by 1."""
    rules, counts = np.unique(np.array(voters, dtype=object), return_counts=True)
    ones = np.zeros(len(next(iter(people.points.values()))))
    for rule, count in zip(rules.tolist(), counts.tolist()):
        ones += count * people.concept.predictions(people.points, rule)
    return np.asarray(1 / (1 + np.exp(np.clip(-gamma * (2 * ones - len(voters)), -700, 700))))


@frozen(slots=False)
class ServiceTarget(Target):
    """``queries`` answers, each with an excess error of at most ``alpha``, with probability ``1 - beta``."""

    concept: ConceptClass
    queries: int
    epsilon: Fraction
    delta: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    users: str | None = None
    model_noise: Fraction | None = None
    within: int | None = None
    """Only whether exactly so many people are enough is asked."""

    measure: ClassVar[str] = "excess error of an answer"
    slow: ClassVar[bool] = True
    drawn_records: ClassVar[tuple[int, ...]] = (1,)

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        """Records per person do not matter: one of them is relabelled."""
        laws = "privpac.auditing.rule_laws:service_claim"
        lines = [PlannedMethod("prediction service", self.certified, run=self._run, key="service", hard_laws=laws)]
        if self.concept.shattered_points:
            lines.append(PlannedMethod("any private service", self.lower, kind="lower bound"))
        return lines

    @property
    def task(self) -> ServiceTask:
        return ServiceTask.read(
            epsilon=self.epsilon,
            delta=self.delta,
            queries=self.queries,
            beta=self.beta,
            log_growth=lambda n: math.log(self.concept.growth(n)),
            levels=DEFAULT_LEVELS,
            neighbours=self.neighbours,
        )

    def certified(self, m: int) -> Certificate:
        """The same for every number of records."""
        return _certified(self)

    def lower(self, m: int) -> Certificate:
        points, beyond = min(self.concept.shattered_points, 4096), just_beyond(self.alpha)
        told: dict[str, Any] = {"epsilon": self.epsilon, "neighbours": self.neighbours, "records_per_user": m}
        found = [partial(lower_statistics, alpha=beyond, beta=self.beta, records_per_user=m)]
        if m <= MOST_TOLD_APART:
            found.append(partial(lower_testing, alpha=beyond, beta=self.beta, delta=self.delta, **told))
        if self.delta == 0 and self.queries >= points:
            found.append(partial(lower_agnostic_vc, points, alpha=self.alpha, success=1 - self.beta, **told))
        return largest_bound(*found)

    def _run(self, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
        n: int = asked.n_users or certificate.n_users or 0  # something is certified
        told: dict[str, Any] = {"queries": self.queries, "public_n_users": n, "alpha": self.alpha, "beta": self.beta}
        told |= {"delta": self.delta} if self.delta else {}

        def build() -> VotePredictor:
            return plan_service(self.concept, epsilon=self.epsilon, neighbours=self.neighbours, **told).predictor

        def words() -> list[str]:
            name = name_of(self.concept)
            if name is None:
                raise ParameterError(f"this {type(self.concept).__name__} has no name on the command line")
            rest = ["--queries", str(self.queries), "--people", str(n), "--alpha", setting_text(self.alpha)]
            rest += ["--beta", setting_text(self.beta), *(["--delta", setting_text(self.delta)] if self.delta else [])]
            kept = ["--ledger", "LEDGER.db", "--key-file", "SESSION.key", "--out", "SESSION.ppm"]
            source = ["--rule", name, *feature_words(self.concept.declared())]
            spent = privacy_words(self.epsilon, self.neighbours)
            return ["serve", "fit", *TABLE, "--label", "LABEL", *source, *spent, *rest, *kept]

        return CertifiedRun("service", certificate.n_users, told, build, words)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*service_simulations(self)]

    def exactly(self, n_users: int) -> ServiceTarget:
        return self.changed(within=n_users)

    @property
    def shown(self) -> dict[str, str]:
        return {"service": f"{self.queries:,} answers by rules of {type(self.concept).__name__}"}

    def remark(self, plan: PlanView) -> str:
        """How many answers are wrong at the most."""
        if plan.quantity == "alpha":
            values = [row.values[plan.place] for row in plan.rows if row.kind == "certified"]
            alpha = next((value for value in values if value is not None), None)
        else:
            alpha = self.alpha
        if alpha is None:
            return ""
        best = Fraction(1, 10)
        wrong = most_wrong_answers(min(self.queries, 1 << 30), min(Fraction(1), best + alpha), self.beta)
        return (
            f"if the best rule is wrong on {float(best):.0%} of the records and queries are records of new people, at "
            f"most {wrong:,} of {self.queries:,} answers are wrong, but for {float(2 * self.beta):.3g}; records per "
            "person do not matter"
        )


@lru_cache(maxsize=256)
def _certified(target: ServiceTarget) -> Certificate:
    return certify_service(target.task, target.alpha, n_users=target.within)


def service_target(
    concept: ConceptClass,
    queries: int,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    delta: Rational = 0,
    neighbours: Neighbours | str | None = None,
    users: str | None = None,
    model_noise: Rational | None = None,
    others: Mapping[str, object] | None = None,
) -> ServiceTarget:
    """The numbers, read and checked; ``others`` are declarations that a service has no use for.

    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers
    >>> target = service_target(Thresholds(Integers(0, 99)), 3, epsilon=8, alpha="0.3", beta="0.05")
    >>> [(method.name, method.certify(1).n_users) for method in target.methods()]
    [('prediction service', 6742), ('any private service', 29)]
    """
    if not isinstance(concept, ConceptClass):
        raise TypeError(
            f"a service votes with rules of a class such as Thresholds(Integers(0, 100)), got {type(concept).__name__}"
        )
    strange = [name for name, value in (others or {}).items() if value is not None]
    if strange:
        raise ParameterError(f"a service is planned for any labels, by a curator: leave out {strange[0]}")
    concept.size  # noqa: B018  # a class without its domains is refused here
    goal = read_goal(epsilon, alpha, beta, Neighbours.ADD_REMOVE if neighbours is None else neighbours, delta)
    modelled = None if model_noise is None else rational(model_noise, "model_noise", minimum=0, below="1/2")
    k = positive_int(queries, "queries", maximum=MAX_QUERIES)
    return ServiceTarget(concept, k, **goal, users=None if users is None else read_users(users), model_noise=modelled)
