"""What the answers of a prediction service are predicted to be: its own split, relabelling and voters on drawn people.

The service is the one that ``privpac serve fit`` would run for so many people (``plan_service``: least *estimated*
error, not the constants of the certificate).  A run draws people with a fixed seed, fits the voters, and takes the mean
excess error over queries and over the coins of the votes exactly, on the points of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from privpac.errors import ParameterError, TooLargeError
from privpac.learners.prediction.voters import VotePredictor
from privpac.planning.comparison.declared_people import declared_population
from privpac.planning.comparison.population import Floats64, Population
from privpac.planning.models.simulation import ModelRng, Simulation
from privpac.planning.models.standard_models import DEFAULT_NOISE
from privpac.planning.service import plan_service

if TYPE_CHECKING:
    from privpac.planning.targets.service_targets import ServiceTarget

__all__ = ["ServiceSimulation", "answers", "service_simulations"]

MOST_RECORDS = 1 << 19
_NAMED = 16


def service_simulations(target: ServiceTarget) -> list[ServiceSimulation]:
    """The service, where its class has an affordable model."""
    made = ServiceSimulation(target)
    return [] if made.people(_NAMED) is None else [made]


@dataclass(frozen=True)
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
        if people is None or n_users * records_per_user > MOST_RECORDS:
            return None
        try:
            service = _service(self.target, n_users, epsilon)
        except ParameterError:  # not even one answer can be paid for
            return None

        def excess(i: int) -> float:
            data = people.draw(n_users, np.random.default_rng([0, n_users, i]))
            voters = service.fit(service.relabelling.bind(data), ModelRng(n_users, i))
            return people.excess_of_answers(answers(people, voters, float(service.gamma)))

        return excess

    def between(self, records_per_user: int) -> tuple[int, int]:
        return (256, MOST_RECORDS // records_per_user) if self.people(records_per_user) else (4, 0)


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
