"""Prediction services as something to plan for: ``queries`` answers of which at most a stated share is wrong.

``alpha`` is the excess error of an answer over the best rule of the class, in the sense of
:mod:`privpac.bounds.service`: except with probability ``beta`` all answers are right outside a set of probability
``best + alpha`` at most.

*Lower bounds* hold for every service that keeps this promise and whose answers together are ``(epsilon, delta)``-DP.
At a point that the class can label both ways, with labels biased by a hair more than ``alpha``, the answer must be the
likelier label except with probability ``beta``: private testing of one answer, and plain statistics.  Without a delta,
and with as many answers as there are shattered points, the answers there are a rule: what is known of pure private
learners of shattered points holds too.  Nothing follows from mistake trees: a service needs no more people for longer
ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from privpac.bounds.certificate import Certificate
from privpac.bounds.lower.agnostic import lower_statistics, lower_testing
from privpac.bounds.lower.general import lower_agnostic_vc
from privpac.bounds.service import ServiceTask, certify_service, most_wrong_answers
from privpac.bounds.votes import MAX_QUERIES
from privpac.concepts.base import ConceptClass
from privpac.concepts.named import name_of
from privpac.concepts.statistics import DEFAULT_LEVELS
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.learners.prediction.voters import VotePredictor
from privpac.learners.settings import written
from privpac.planning.comparison.declared_people import read_users
from privpac.planning.models.service_models import service_simulations
from privpac.planning.models.simulation import Simulation
from privpac.planning.service import plan_service
from privpac.planning.targets.certified_runs import TABLE, CertifiedRun, feature_words, privacy_words
from privpac.planning.targets.hardness import just_beyond, largest_bound
from privpac.planning.targets.target import Asked, PlannedMethod, Target, read_goal

if TYPE_CHECKING:
    from privpac.planning.plans import Plan

__all__ = ["ServiceTarget", "service_target"]

_MOST_RECORDS = 1 << 12


@dataclass(frozen=True)
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
        lines = [PlannedMethod("prediction service", self.certified, run=self._run, key="service")]
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
        if m <= _MOST_RECORDS:
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
            rest = ["--queries", str(self.queries), "--people", str(n), "--alpha", written(self.alpha)]
            rest += ["--beta", written(self.beta), *(["--delta", written(self.delta)] if self.delta else [])]
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

    def remark(self, plan: Plan) -> str:
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
    others: Mapping[str, Any] | None = None,
) -> ServiceTarget:
    """The numbers, read and checked; ``others`` are declarations that a service has no use for.

    >>> from privpac.concepts import Thresholds
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
