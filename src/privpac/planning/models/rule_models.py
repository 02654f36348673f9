"""What a method is predicted to do for a class of rules, on the standard model or on people of one's own.

Data sets are drawn with fixed seeds and the excess error is a mean over the exact law, so the same question has the
same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from privpac.concepts.base import ConceptClass
from privpac.errors import ParameterError, TooLargeError
from privpac.learners.registry import METHODS, build_learner, simulated_methods
from privpac.planning.comparison.declared_people import declared_population
from privpac.planning.comparison.population import Population
from privpac.planning.models.prediction import excess_on
from privpac.planning.models.simulation import Simulation
from privpac.planning.models.standard_models import DEFAULT_NOISE
from privpac.planning.targets.rule_goal import RuleGoal

__all__ = ["EPSILON_STEPS", "MOST_RECORDS", "RuleSimulation", "quick_rules", "rule_simulations", "simulable"]

MOST_RECORDS = 1 << 14
"""Simulated records per data set where a moment is all there is."""

NAMED = 16
_SEED = 0


_SMALL = 1 << 12
"""Classes up to this size are simulated without being asked."""
EPSILON_STEPS = 7
"""Of the search for the epsilon at which a mean is small enough."""


def simulable(n: int, m: int) -> tuple[int, int]:
    """Users and records to simulate for so many: fewer records each where they would be too many."""
    users = min(n, MOST_RECORDS)
    return users, min(m, max(2, MOST_RECORDS // users))


def quick_rules(concept: ConceptClass, n_users: int | None, sizes: Iterable[int], quantity: str) -> bool:
    """Whether predictions for so many users, or for the search for their number, take a moment only."""
    records = 0 if n_users is None else sum(min(n_users * m, 64 * MOST_RECORDS) for m in sizes)
    if quantity == "epsilon":
        records *= EPSILON_STEPS
    return records <= 32 * MOST_RECORDS and (not concept.rule_by_rule or concept.size <= _SMALL)


def rule_simulations(target: RuleGoal, setting: str | None) -> list[RuleSimulation]:
    """The methods of a setting; none where the class has no affordable model."""
    made = [RuleSimulation(method, target) for method in simulated_methods(setting)]
    return [simulation for simulation in made if simulation.people(NAMED) is not None]


@dataclass(frozen=True)
class RuleSimulation(Simulation):
    """One method for rules, on the population that was supplied or else on the standard model."""

    kind: str
    target: RuleGoal
    _held: dict[int, dict[int, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    fine: ClassVar[int] = 32

    @property
    def key(self) -> str:
        return self.kind

    @property
    def method(self) -> str:
        return METHODS[self.kind].title

    @property
    def noise(self) -> Fraction:
        """Label noise of the standard model: none where some rule is right."""
        if self.target.model_noise is not None or self.kind == "realizable":
            return self.target.model_noise or Fraction(0)
        return DEFAULT_NOISE if self.target.noise is None else self.target.noise

    @cached_property
    def model(self) -> str:
        people = self.people(NAMED)
        assert people is not None
        return people.for_any_records

    def people(self, m: int) -> Population | None:
        """People with ``m`` records each; of a table or a function of one's own, its people, of whom ``m`` records are
        read."""
        given = self.target.population
        if given is None:
            try:
                return declared_population(
                    self.target.users or "alike", self.target.concept, records_per_user=m, noise=self.noise
                )
            except (ParameterError, TooLargeError):
                return None
        return given if given.records_per_user is None else replace(given, records_per_user=m)

    def learner(self, concept: ConceptClass, n: int, m: int, epsilon: Fraction) -> Any:
        common = {"concept": concept, "epsilon": epsilon, "neighbours": self.target.neighbours, "max_records": m}
        return build_learner(self.kind, common, {"public_n_users": n})

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """None where the people are more than can be simulated, or than there are."""
        people, m = self.people(records_per_user), records_per_user
        most = None if people is None else people.largest()
        if people is None or (most is not None and n_users > most) or n_users * m > 64 * MOST_RECORDS:
            return None
        twin = self.learner(people.concept, n_users, m, epsilon).with_(concept=people.concept)
        held = self._held.setdefault(m, {})

        def excess(i: int) -> float:
            # Nested data sets, so that more users of a run are its fewer ones and some more.
            if i not in held:
                held[i] = people.growing((_SEED, i))
            return excess_on(twin, held[i](n_users), people)

        return excess

    def between(self, records_per_user: int) -> tuple[int, int]:
        people = self.people(records_per_user)
        return (4, 0) if people is None else (4, people.largest() or max(64, 4 * MOST_RECORDS // records_per_user))

    def limit(self, records_per_user: int, n_users: int) -> int:
        """A public number of records, but eight runs at least."""
        return min(self.most_runs, max(8, 16 * MOST_RECORDS // (n_users * records_per_user)))
