"""What learning by agreement is predicted to do on the standard model of its class, with a curator: the exact law of
the plurality.

The people of the model name rules by one public seed each time; where the plurality is not clear the public default
stands in.  The other trust models count the same votes with more noise and have no exact law: their runs are drawn
(:mod:`privpac.planning.models.protocol_models`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privpac.concepts.base import ConceptClass
from privpac.concepts.cells import Frozen
from privpac.concepts.named import RULES, rule_class
from privpac.data import Integers
from privpac.errors import ParameterError, TooLargeError
from privpac.law import BOTTOM
from privpac.learners.agreement.classes import kind_of, own_parameters
from privpac.learners.agreement.learner import AgreementLearner, task_of
from privpac.learners.agreement.rule import AgreedRule
from privpac.planning.comparison.expected_error import error_by_rule
from privpac.planning.comparison.population import Population
from privpac.planning.models.simulation import Simulation
from privpac.planning.models.standard_models import DEFAULT_NOISE, standard_population

if TYPE_CHECKING:
    from privpac.planning.targets.agreement_targets import AgreementTarget

__all__ = ["AgreementSimulation", "agreement_simulations", "default_excess", "modelled_concept", "modelled_law"]

MOST_USERS, MOST_RECORDS = 1 << 10, 1 << 18
_NAMED, SEEDS = 16, 8


def agreement_simulations(target: AgreementTarget) -> list[AgreementSimulation]:
    """With a curator, of a class that has a standard model and rules that can be listed; else nothing.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.planning.targets.agreement_targets import agreement_target
    >>> [made.method for made in agreement_simulations(agreement_target(Thresholds(Integers(0, 99)), epsilon=1))]
    ['central agreement']
    """
    law = modelled_law(target)
    return [] if law is None else [AgreementSimulation(target, law)]


def modelled_law(target: AgreementTarget) -> str | None:
    """The standard model of a class whose rules can be listed, in words; None where there is none."""
    concept = modelled_concept(target)
    people = None if concept is None else standard_population(concept, records_per_user=_NAMED, noise=DEFAULT_NOISE)
    if people is None:
        return None
    learner = AgreementLearner(people.concept, target.epsilon, delta=target.delta)
    return None if error_by_rule(learner, people) is None else people.for_any_records


@dataclass(frozen=True)
class AgreementSimulation(Simulation):
    """Agreement on the standard model."""

    target: AgreementTarget
    law: str

    first: ClassVar[int] = 2 * SEEDS
    most_runs: ClassVar[int] = 16 * SEEDS
    strata: ClassVar[int] = SEEDS
    fine: ClassVar[int] = 8

    @property
    def method(self) -> str:
        return "central agreement"

    @property
    def model(self) -> str:
        return f"{self.law}, under {SEEDS} fixed public seeds"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """The mean excess error over the law of the released rule; every run has drawn people of its own."""
        if n_users > MOST_USERS or n_users * records_per_user > MOST_RECORDS:
            return None
        return lambda i: _excess(self.target, records_per_user, n_users, epsilon, i)

    def between(self, records_per_user: int) -> tuple[int, int]:
        return 8, MOST_USERS


def _excess(target: AgreementTarget, m: int, n: int, epsilon: Fraction, i: int) -> float:
    people, value, default = _modelled(target, m)
    learner = AgreementLearner(people.concept, epsilon, delta=target.delta, neighbours=target.neighbours)
    votes = Counter(number for number in _named(target, m, i, 1 << (n - 1).bit_length())[:n] if number is not None)
    mean = 0.0
    for cell, number in learner.selector(target.task).law(dict(votes)).as_finite().cells:
        each = float(number.arb())
        # Without a clear plurality the public default is released.
        mean += each * (
            default if cell is BOTTOM else sum(map(value, cell)) if isinstance(cell, range) else value(cell)
        )
    return mean


@lru_cache(maxsize=64)
def _modelled(target: AgreementTarget, m: int) -> tuple[Population, Callable[[Any], float], float]:
    concept = modelled_concept(target)
    assert concept is not None
    people = standard_population(concept, records_per_user=m, noise=DEFAULT_NOISE)
    assert people is not None
    value = error_by_rule(AgreementLearner(people.concept, target.epsilon), people)
    assert value is not None
    return people, value, default_excess(people)


@lru_cache(maxsize=1024)
def _named(target: AgreementTarget, m: int, i: int, n: int) -> list[int | None]:
    """The items of the first ``n`` people of run ``i``, under its public seed."""
    people, task = _modelled(target, m)[0], target.task
    seed = hashlib.sha256(b"privpac plan %d" % (i % SEEDS)).digest()
    data: Any = people.growing((7, i))(n)
    x, y = np.stack([data.codes[name] for name in data.codes], axis=1), data.labels.astype(np.int64)
    named = (task.learner.item(x[a:b], y[a:b], seed) for a, b in pairwise(data.offsets.tolist()))
    return [None if item is None else task.learner.universe.number(item) for item in named]


def default_excess(people: Population) -> float:
    """Of the public default."""
    columns = {
        name: domain for name, domain in people.concept.declared().items() if name is not None and domain is not None
    }
    task = task_of(kind_of(people.concept), columns, own_parameters(people.concept))
    rule = AgreedRule(task.kind, Frozen(tuple(columns.items())), task.default, task.parameters)
    return float(people.error(rule.predict_codes(people.points))) - people.best_error


def modelled_concept(target: AgreementTarget) -> ConceptClass | None:
    """The class of the task, as far as its kind and its columns say all of it."""
    if target.task.kind not in RULES or dict(target.task.parameters):
        return None
    try:
        return rule_class(
            target.task.kind, {f"x{i}": Integers(0, size - 1) for i, size in enumerate(target.task.sizes)}
        )
    except (ParameterError, TooLargeError):
        return None
