"""Classes of rules as something to plan for: the lines of every method's record, their simulations, what no method can
beat, and which method to use."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from attrs import evolve, frozen

from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours
from privpac.lower_bounds import lower_agnostic, lower_realizable, mistake_depth
from privpac.methods.planned import RuleGoal, Target, read_goal, rule_run
from privpac.methods.registry import (
    DEFAULT,
    METHODS,
    Choice,
    Method,
    PlannedMethod,
    compared_methods,
    resolve,
    simulated_methods,
)
from privpac.methods.simulation import Simulation, quick_rules, simulable
from privpac.planning.choose import choose_method
from privpac.rules.base import ConceptClass
from privpac.rules.populations import Population, read_users
from privpac.sample_size import Certificate

if TYPE_CHECKING:
    from privpac.planning.plans import Plan


@frozen(slots=False)
class RuleTarget(RuleGoal, Target):
    """Excess error ``alpha`` with probability ``1 - beta`` for a rule of the class, at ``epsilon``."""

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        """Of every record the lines it contributes, those for labels that some rule explains first."""
        planned = [method for method in METHODS.values() if self._plans(method, setting)]
        planned.sort(key=lambda method: method.setting != "realizable")
        lines = [
            evolve(
                line,
                key=line.key or method.key,
                run=line.run or partial(rule_run, self, method.key),
                hard_laws=line.hard_laws or method.hard_laws,
            )
            for method in planned
            for line in resolve(method.rows)(self)
        ]
        # Nothing is known of a class whose dimensions are not.
        if mistake_depth(self.concept) > 0:
            bounds = {"concept": self.concept, **self.wanted}
            if setting != "agnostic":
                certify = partial(_lower, lower_realizable, bounds)
                lines.append(PlannedMethod("any private realizable learner", certify, kind="lower bound"))
            if setting != "realizable":
                often = ", labels wrong as often as they may be"
                certify = partial(_lower, lower_agnostic, bounds)
                lines.append(PlannedMethod("any private agnostic learner", certify, often, "lower bound"))
        return lines

    def _plans(self, method: Method, setting: str | None) -> bool:
        """Whether a method has lines here: recommended ones, and others if all are asked for, or by their own
        parameter."""
        by_name = self.representation is not None and "representation" in method.by_setting.get("agnostic", {})
        shown = method.recommended or self.every_method or by_name
        return bool(method.rows) and shown and method.fits(setting) and method.learns(self.concept)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        """The methods of a setting; none where the class has no affordable model."""
        made = [resolve(METHODS[key].simulation)(key, self) for key in simulated_methods(setting)]
        return [simulation for simulation in made if simulation.possible]

    def exactly(self, n_users: int) -> Self:
        return evolve(self, within=n_users)

    def rivals(self, method: str) -> tuple[str, ...]:
        return tuple(key for key in compared_methods() if key != method and method in compared_methods())

    def certain_if(self, setting: str | None) -> str:
        return "if some rule is always right" if setting == "realizable" else super().certain_if(setting)

    def remark(self, plan: Plan) -> str:  # type: ignore[override]
        return better_certificate(plan)

    def recommend(self, plan: Plan) -> Choice:  # type: ignore[override]
        return recommend_rules(self, plan)

    def quick(self, plan: Plan) -> bool:  # type: ignore[override]
        assert plan.asked is not None
        return quick_rules(self.concept, plan.asked.n_users, plan.records_per_user, plan.quantity)


def _lower(bound: Callable[..., Certificate], numbers: dict[str, Any], m: int) -> Certificate:
    return bound(**numbers, records_per_user=m)


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
    if representation is not None:
        resolve("privpac.papers.pure_agnostic.plan_rows:check_representation")(representation)
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
        representation=representation,
    )


# Which method for a class of rules: by the rules of ``choose_method``, and by what the plan itself predicts.
#
# Everything is a function of public numbers and of a model that is stated or supplied, never of the private table.


_SOME = 100
"""People to compare methods on where nothing is certified for any number of them."""
CLEARLY = 1.25
"""So many times the users of another method are within what a simulation of a few data sets can tell apart."""


def recommend_rules(target: RuleTarget, plan: Plan) -> Choice:
    """The method for the middle one of the numbers of records per user."""
    asked = plan.asked
    assert asked is not None
    m, setting, users = plan.records_per_user[plan.place], asked.setting, asked.n_users
    spent = target.changed(epsilon=plan.epsilon_at(plan.place)) if plan.quantity == "epsilon" else target
    if users is not None or not _by_numbers(spent, setting, m):
        return _choice(spent, setting, users, m)
    typical = _typical(plan, target) if target.population is None and plan.quick_here else None
    if typical is not None:
        return typical
    stands, where = _standing(plan, target)
    choice = _choice(spent, setting, stands, m)
    return choice if stands is None else evolve(choice, reason=f"{choice.reason}; {where}")


def better_certificate(plan: Plan) -> str:
    """Which method to name where its certificate is better than that of hybrid selection, in words; empty where none
    is.

    Hybrid selection is one law, and what is proved of it charges both of them; a method of one score may be certified
    for less.
    """
    better = []
    for place, m in enumerate(plan.records_per_user):
        own = plan.best(DEFAULT, place) or math.inf
        best, method = min((plan.best(key, place) or math.inf, key) for key in compared_methods() if key != DEFAULT)
        if best < own < math.inf:
            compared = f"{plan.written(best)} instead of {plan.written(own)}"
            better.append(f"method='{method}' with {m:,} record{'s' * (m != 1)} per user ({compared})")
    what = "fewer users" if plan.quantity == "users" else f"a smaller {plan.quantity}"
    return f"for a certificate with {what} than the default's, name {', '.join(better)}" if better else ""


def _choice(target: RuleTarget, setting: str | None, users: int | None, m: int) -> Choice:
    """By the rules of ``choose_method``, at no more records than can be simulated in a moment."""
    modelled = target.users is not None or target.population is not None
    within, each = (None, m) if users is None and not modelled else simulable(users or _SOME, m)
    return choose_method(
        target.concept,
        epsilon=target.epsilon,
        neighbours=target.neighbours,
        setting=setting or "agnostic",
        public_n_users=within,
        records_per_user=each,
        noise=target.noise if target.model_noise is None else target.model_noise,
        people=target.users,
        population=target.population,
    )


def _by_numbers(target: RuleTarget, setting: str | None, m: int) -> bool:
    """Whether the choice between methods takes a number of users."""
    return target.population is not None or (setting != "realizable" and (m > 1 or target.users == "heavy"))


def _typical(plan: Plan, target: RuleTarget) -> Choice | None:
    """The method with the fewest typical users, as the plan shows them; the default unless another needs clearly
    fewer."""
    m, known = plan.records_per_user[plan.place], {made.key: made for made in plan.simulations}
    users = {
        key: n for key in compared_methods() if key in known and (n := plan.simulated(known[key], m)[0]) is not None
    }
    if not users:
        return None
    best = min(users, key=lambda key: users[key])
    kept = DEFAULT in users and users[DEFAULT] <= CLEARLY * users[best]
    said = ", ".join(f"{key} {n:,}" for key, n in users.items())
    near = f"; {best} does not need clearly fewer" if kept and best != DEFAULT else ""
    goal = f"{target.measure} {float(target.alpha):g}"
    reason = f"predicted users for {goal}: {said} ({plan.model_of(known[best])}){near}"
    return Choice(DEFAULT if kept else best, reason, "predicted")


def _standing(plan: Plan, target: RuleTarget) -> tuple[int | None, str]:
    """Where somebody stands who did not say how many people there are: where the wanted accuracy is within reach, on
    the stated model.

    The certified number would judge methods on the worst law's terms, where all of them are good enough for the
    reader's.
    """
    assert plan.asked is not None
    m, setting = plan.records_per_user[plan.place], plan.asked.setting
    if plan.quick_here:
        for_labels = [
            made for made in plan.simulations if setting == "realizable" or METHODS[made.key].setting != "realizable"
        ]
    else:
        for_labels = [made for made in plan.simulations if METHODS[made.key].setting != "realizable"][:1]
    rows: list[Any] = [plan.simulated(made, m)[0] for made in for_labels]
    fewest = min((n for n in rows if n is not None), default=None)
    if fewest is not None:
        return fewest, f"judged at the fewest users that typically reach {float(target.alpha):g}"
    certified: Any = plan.best(DEFAULT, plan.place)
    return certified, "judged at the certified number of users, since no simulated one reaches the accuracy"
