"""Constants of a prediction service from public numbers: a budget, a number of answers and a declared number of people.

More noise in the votes (small ``gamma``) leaves more of the budget for relabelling; more voters beat that noise but
learn from smaller parts.  For every cost ``eps_A`` of the transcript, every share of T of a fixed grid
(``bounds.reduction_plan``) and every number of voters, the choice is that of the least

    noise of the relabelling  +  1/levels  +  sqrt(dimension / w) / 2  +  env(share of wrong votes),      share ~
    dimension * voters / t,

where the share is the usual size of the error of a rule that fits ``t / voters`` records, the root that of the best
rule on the others, and ``1/levels`` what rounding a user's loss may hide (nothing at item level).  It is an estimate,
not a certificate, and serves the choice only: **the guarantee is recomputed from the constants that were chosen** and
does not depend on any of this.  With ``alpha`` the choice is that of the least certified excess instead
(:mod:`privpac.bounds.service`).  The candidates are the same for every number of people and every budget, and each
one's estimate falls with both: more people, epsilon or delta never raise it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from privpac.bounds.reduction.plan import COSTS, ROUNDED, SHARES, ReductionPlan, ReductionTask, plan_reduction
from privpac.bounds.reduction.privacy import inner_delta
from privpac.bounds.service import ServiceTask, certify_service, most_wrong_answers
from privpac.bounds.votes import MAX_QUERIES, gamma_for_transcript
from privpac.composition import zcdp_budget
from privpac.concepts.base import ConceptClass
from privpac.concepts.statistics import DEFAULT_LEVELS
from privpac.errors import AccuracyWarning, InfeasibleError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit, one_of, positive_int
from privpac.learners.prediction.voters import VotePredictor
from privpac.learners.reduction.relabel import Relabelling
from privpac.parameters import DEFAULT_BETA

__all__ = ["ServicePlan", "plan_service"]

_INNER: tuple[Rational, ...] = ("1/4", "1/2", 1, "3/2", 2, 3, 4, 6)
_MAX_VOTERS = 4096
_EVERY = 6
"""Of the shares of T one in six is tried: a factor of the square root of 2 apart."""

_FAILURE = Fraction(1, 100)

Made = tuple[ReductionPlan, int, Fraction, float, float]
"""Constants of the relabelling, voters, gamma, the estimate and its part from the relabelling."""


@dataclass(frozen=True)
class ServicePlan:
    """A predictor, the error it is expected to add (an estimate), and the excess error that is certified.

    ``promised_excess`` is certified for the declared number of people or more, but for ``beta``
    (:mod:`privpac.bounds.service`); 1 where nothing is.
    """

    predictor: VotePredictor
    expected_error: float
    relabelling_noise: float
    promised_excess: float = 1.0
    beta: Fraction = DEFAULT_BETA

    def most_wrong(self, best_error: Rational, failure: Rational | None = None) -> int:
        """So many of all answers at most are wrong, but for ``beta`` and ``failure`` (as large if left out), where the
        best rule is wrong on a share ``best_error`` and queries are records of new people.

        >>> from privpac.concepts import Thresholds
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
    >>> from privpac.concepts import Thresholds
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


@dataclass(frozen=True)
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
    """``bounds.votes.wrong_answer`` in doubles."""
    j = np.arange(r + 1)
    values = 1 / (1 + np.exp(np.clip(-gamma * (2 * j - r), -700, 700)))
    place = share * r
    below = min(math.floor(place), r - 1)
    best = 0.0
    for i in {0, below}:
        ends = np.arange(max(i + 1, math.ceil(place)), r + 1)
        best = max(best, float((values[i] + (place - i) / (ends - i) * (values[ends] - values[i])).max()))
    return best
