"""What learning by agreement is predicted to do on the standard model of its class, with a curator: the exact law of the plurality.

The people of the model name rules by one public seed each time; where the plurality is not clear the public default stands in.  The other
trust models count the same votes with more noise and have no exact law: their runs are drawn (:mod:`privpac.planning.protocol_models`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from privpac.concepts.base import ConceptClass
from privpac.concepts.cells import Frozen
from privpac.concepts.named import RULES, rule_class
from privpac.data import Integers
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Model
from privpac.law import BOTTOM
from privpac.learners.agreed_class import kind_of, own_parameters
from privpac.learners.agreed_rule import AgreedRule
from privpac.learners.agreement import AgreementLearner, task_of
from privpac.planning.agreed import AgreementTarget
from privpac.planning.choose import DEFAULT_NOISE
from privpac.planning.models import standard_population
from privpac.planning.own_laws import listed, mean_excess
from privpac.planning.population import Population
from privpac.planning.predict import Prediction
from privpac.planning.simulated import keeps_promise, least_users

__all__ = ["AgreementSimulation", "agreement_simulations", "default_excess", "modelled_concept"]

REPEATS = 2
MOST_USERS, MOST_RECORDS = 1 << 10, 1 << 18
_NAMED = 16


def agreement_simulations(target: AgreementTarget) -> list[Any]:
    """The trust model asked for, of a class that has a standard model and rules that can be listed; else nothing.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.planning.agreed import agreement_target
    >>> cuts = Thresholds(Integers(0, 99))
    >>> [len(agreement_simulations(agreement_target(cuts, model=model, epsilon=1))) for model in ("central", "local")]
    [1, 1]
    """
    if target.model is not Model.CENTRAL:
        from privpac.planning.protocol_models import protocol_simulations

        return [*protocol_simulations(target)]
    concept = modelled_concept(target)
    people = None if concept is None else standard_population(concept, records_per_user=_NAMED, noise=DEFAULT_NOISE)
    if people is None or listed(AgreementLearner(people.concept, target.epsilon, delta=target.delta), people) is None:
        return []
    return [AgreementSimulation(target, people.name.replace(f"{_NAMED} records", "as many records"))]


@dataclass(frozen=True)
class AgreementSimulation:
    """Agreement on the standard model."""

    target: AgreementTarget
    law: str

    @property
    def method(self) -> str:
        return "central agreement"

    @property
    def model(self) -> str:
        return f"{self.law} as the column says; mean of {REPEATS} public seeds and drawn data sets"

    def at(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Prediction | None:
        """Mean excess error over the law of the released rule, drawn people and public seeds."""
        if n_users > MOST_USERS or n_users * records_per_user > MOST_RECORDS:
            return None
        return _mean_of(self, records_per_user, n_users, epsilon)

    def users(self, records_per_user: int) -> int | None:
        """About the least number of users at which the mean is at most alpha: doubling, then bisection up to one part in 8."""
        enough = keeps_promise(self, records_per_user)
        return least_users(enough, start=8, most=MOST_USERS, fine=8)


@lru_cache(maxsize=1024)
def _mean_of(simulation: AgreementSimulation, m: int, n: int, epsilon: Fraction) -> Prediction | None:
    target = simulation.target
    concept = modelled_concept(target)
    assert concept is not None
    people = standard_population(concept, records_per_user=m, noise=DEFAULT_NOISE)
    assert people is not None
    found = []
    for i in range(REPEATS):
        seed = hashlib.sha256(b"privpac plan %d" % i).digest()
        learner = AgreementLearner(people.concept, epsilon, delta=target.delta, neighbours=target.neighbours, seed=seed)
        value, default = listed(learner, people), default_excess(people)
        assert value is not None

        def excess(item: Any, value: Any = value, default: float = default) -> float:
            """Without a clear plurality the public default is released."""
            return default if item is BOTTOM else float(value(item))

        found.append(mean_excess(learner, people, people.draw(n, np.random.default_rng([7, i])), excess))
    spread = float(np.std(found, ddof=1)) / REPEATS**0.5
    return Prediction(float(np.mean(found)), spread, f"{people.name}; {n} users")


def default_excess(people: Population) -> float:
    """Of the public default."""
    columns = {name: domain for name, domain in people.concept.declared().items() if name is not None and domain is not None}
    task = task_of(kind_of(people.concept), columns, own_parameters(people.concept))
    rule = AgreedRule(task.kind, Frozen(tuple(columns.items())), task.default, task.parameters)
    return float(people.error(rule.predict_codes(people.points))) - people.best_error


def modelled_concept(target: AgreementTarget) -> ConceptClass | None:
    """The class of the task, as far as its kind and its columns say all of it."""
    if target.task.kind not in RULES or dict(target.task.parameters):
        return None
    try:
        return rule_class(target.task.kind, {f"x{i}": Integers(0, size - 1) for i, size in enumerate(target.task.sizes)})
    except (ParameterError, TooLargeError):
        return None
