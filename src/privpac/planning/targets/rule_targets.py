"""Classes of rules as something to plan for: the lines of their plan, their simulations, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

from privpac.bounds.certificate import Certificate
from privpac.concepts.base import ConceptClass
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours
from privpac.planning.choice import Choice
from privpac.planning.comparison.declared_people import read_users
from privpac.planning.comparison.population import Population
from privpac.planning.models.rule_models import quick_rules, rule_simulations
from privpac.planning.models.simulation import Simulation
from privpac.planning.targets.further_rules import further_methods
from privpac.planning.targets.hardness import mistake_depth
from privpac.planning.targets.represented import check_representation, represented_method
from privpac.planning.targets.rule_goal import RuleGoal
from privpac.planning.targets.rule_recommendation import better_certificate, recommend_rules
from privpac.planning.targets.rule_runs import rule_run
from privpac.planning.targets.target import PlannedMethod, Target, read_goal

if TYPE_CHECKING:
    from privpac.planning.plans import Plan

__all__ = ["RuleTarget", "rule_target"]


@dataclass(frozen=True)
class RuleTarget(RuleGoal, Target):
    """Excess error ``alpha`` with probability ``1 - beta`` for a rule of the class, at ``epsilon``."""

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        lines = [] if setting == "agnostic" else [self._line("realizable selection", "realizable", self.realizable)]
        if setting != "realizable":
            lines += self._agnostic_lines()
            lines += [] if self.representation is None else [represented_method(self)]
            lines += further_methods(self) if self.every_method else []
        # Nothing is known of a class whose dimensions are not.
        if mistake_depth(self.concept) > 0:
            kind = "lower bound"
            if setting != "agnostic":
                lines.append(PlannedMethod("any private realizable learner", self.lower_realizable, kind=kind))
            if setting != "realizable":
                often = ", labels wrong as often as they may be"
                lines.append(PlannedMethod("any private agnostic learner", self.lower, often, kind))
        return lines

    def _agnostic_lines(self) -> list[PlannedMethod]:
        bounded = self.noise is not None and self.on_a_line
        less = ", at this epsilon or less (its command says which)"
        lines = [self._line("two voices", "voices", self.voices)]
        if bounded:
            lines.append(self._line("two voices, bounded noise", "voices", self.voices_noise, less, bounded))
        lines.append(self._line("regret selection", "regret", self.regret, self.declared))
        if bounded:
            name = "regret selection, bounded noise"
            lines.append(self._line(name, "regret", self.regret_noise, self.declared, bounded))
        return [
            *lines,
            self._line("per-user mean", "mean", self.mean),
            self._line("user agnostic selection", "agnostic", self.user_agnostic),
            self._line("pairwise selection", "pairwise", self.pairwise),
        ]

    def _line(
        self, name: str, key: str, certify: Callable[[int], Certificate], assumes: str = "", bounded: bool = False
    ) -> PlannedMethod:
        return PlannedMethod(name, certify, assumes, run=partial(rule_run, self, key), key=key, bounded_noise=bounded)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*rule_simulations(self, setting)]

    def exactly(self, n_users: int) -> Self:
        return replace(self, within=n_users)

    def remark(self, plan: Plan) -> str:
        return better_certificate(plan)

    def recommend(self, plan: Plan) -> Choice:
        return recommend_rules(self, plan)

    def quick(self, plan: Plan) -> bool:
        assert plan.asked is not None
        return quick_rules(self.concept, plan.asked.n_users, plan.records_per_user, plan.quantity)


def rule_target(
    concept: ConceptClass,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    noise: Rational | None = None,
    users: str | None = None,
    population: Population | None = None,
    model_noise: Rational | None = None,
    every_method: bool = False,
    representation: str | None = None,
) -> RuleTarget:
    """The numbers, read and checked."""
    if not isinstance(concept, ConceptClass):
        raise TypeError(
            f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got {type(concept).__name__}"
        )
    if concept.own_method is not None:
        raise ParameterError(
            f"no number of people is certified for {type(concept).__name__}: what its method {concept.own_method!r} "
            "learns is measured, not certified; learn it with evaluate='1/5', or plan SmallTrees over the same columns"
        )
    if population is not None and not isinstance(population, Population):
        raise TypeError(
            f"population must come from public_population or sampled_population, got {type(population).__name__}"
        )
    if population is not None and (users is not None or model_noise is not None):
        raise ParameterError("a population is a model of the people: leave out users and model_noise")
    if population is not None and type(population.concept) is not type(concept):
        raise ParameterError(
            f"the population has rules of {type(population.concept).__name__}, asked for are {type(concept).__name__}"
        )
    goal = read_goal(epsilon, alpha, beta, neighbours)
    flips = None if noise is None else rational(noise, "noise", minimum=0, below="1/2")
    concept.size  # noqa: B018  # a class without its domains is refused here, once, and not in every row
    known = None if users is None else read_users(users)
    modelled = None if model_noise is None else rational(model_noise, "model_noise", minimum=0, below="1/2")
    return RuleTarget(
        concept,
        **goal,
        noise=flips,
        users=known,
        population=population,
        model_noise=modelled,
        every_method=bool(every_method),
        representation=None if representation is None else check_representation(representation),
    )
