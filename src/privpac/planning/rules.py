"""Classes of rules as something to plan for: the lines of their plan, their simulations, and what is asked of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self

from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours
from privpac.methods.prediction.service_sample_size import certify_reduction, selection_error
from privpac.methods.realizable import RealizableSelection
from privpac.papers.pure_agnostic.agnostic_sample_size import (
    plan_item_proper,
    plan_item_surrogate,
    plan_threshold_search,
)
from privpac.papers.pure_agnostic.representations import MAX_RULES
from privpac.papers.pure_agnostic.surrogate_selection import check_named, named_representation, said_of
from privpac.papers.realizable_to_agnostic.reduction import AgnosticReduction
from privpac.planning.choose import choose_method
from privpac.planning.populations import Population, read_users
from privpac.planning.rule_goals import RuleGoal, mistake_depth, quick_rules, rule_simulations, simulable
from privpac.planning.simulation import Simulation
from privpac.planning.target import (
    Asked,
    CertifiedRun,
    Choice,
    PlannedMethod,
    Target,
    class_words,
    learn_words,
    read_goal,
    rule_run,
)
from privpac.rules.base import ConceptClass
from privpac.rules.statistics import DEFAULT_LEVELS
from privpac.sample_size import Certificate, best

if TYPE_CHECKING:
    from privpac.planning.plans import Plan

__all__ = [
    "CLEARLY",
    "RuleTarget",
    "better_certificate",
    "check_representation",
    "further_methods",
    "recommend_rules",
    "represented_method",
    "rule_target",
]


# Selection from a public set that stands in for a class, as a line of a plan: ``representation="hashed"`` and so on.
#
# One record of each person is read.  A set within ``rho`` of every rule, except with probability ``beta/5``, and the
# exponential law over it give an excess error of ``alpha`` (``bounds.plan_item_surrogate``); ``rho`` is the one of a
# fixed grid below ``alpha`` that certifies the fewest people, so that a larger ``alpha`` never needs more of them.


_ACCURACIES = tuple(rational(n) / 10**k for k in (2, 3, 4) for n in (50, 40, 30, 25, 20, 15, 12, 10, 8, 6))
"""Accuracies of a set that are tried."""


def check_representation(name: str) -> str:
    """A representation by name, before anything is planned."""
    if not isinstance(name, str):
        raise TypeError(f"representation must be a name such as 'hashed', got {type(name).__name__}")
    check_named(name)
    return name


def represented_method(goal: RuleGoal) -> PlannedMethod:
    """The line of the method ``surrogate`` with the goal's representation."""
    return PlannedMethod(
        "surrogate selection", lambda m: _certified(goal), run=partial(rule_run, goal, "surrogate"), key="surrogate"
    )


@lru_cache(maxsize=256)
def _certified(goal: RuleGoal) -> Certificate:
    """The same for every number of records."""
    assert goal.representation is not None
    told: dict[str, Any] = {"alpha": goal.alpha, "beta": goal.beta, "epsilon": goal.epsilon}
    told |= {"neighbours": goal.neighbours, "dimension": goal.concept.vc_dimension}
    found = list[Certificate]()
    refused: Exception | None = None
    for rho in (value for value in _ACCURACIES if value < goal.alpha):
        try:
            drawn = named_representation(goal.representation, goal.concept, rho, goal.beta / 5)
        except (ParameterError, TooLargeError) as error:
            refused = refused or error
            continue
        if drawn is None:
            plain = plan_item_proper(log_size=goal.concept.log_size, **told)
            return _with(plain, said_of(None), representation="class")
        if drawn.log_size > math.log(MAX_RULES):
            refused = refused or TooLargeError(f"{said_of(drawn)}: too many to select from; at most {MAX_RULES:,} are")
            continue
        made = plan_item_surrogate(log_size=drawn.log_size, representation_alpha=rho, **told)
        accuracy = {"representation_alpha": rho, "representation_beta": goal.beta / 5}
        found.append(_with(made, said_of(drawn), representation=goal.representation, **accuracy))
    if not found:
        raise refused or ParameterError("alpha is too small for a representation: ask for at least 0.001")
    return best(found)


def _with(made: Certificate, said: str, **parameters: Any) -> Certificate:
    details = (*made.details, ("stands in", said))
    return Certificate(
        made.n_users,
        "surrogate selection",
        f"people from one law, of each of whom one record counts; {said}",
        "upper",
        details,
    ).run_with(max_records=1, **parameters)


# Further ways to a rule, beside those of :mod:`privpac.planning.rule_goals`: the transformation of a realizable
# into an agnostic learner, and the search for a cut by private medians.
#
# Neither has needed fewer users than selection so far.  Not here, because nothing is certified: trimmed and friendly
# means (their accuracy rests on a declared width), and the transformations of item-level algorithms
# (``choose_transform`` predicts).  Answers by votes are planned in :mod:`privpac.planning.services`.


def further_methods(goal: RuleGoal) -> list[PlannedMethod]:
    """The lines of the less usual ways.

    >>> from fractions import Fraction
    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers
    >>> goal = RuleGoal(Thresholds(Integers(0, 99)), Fraction(1), Fraction(1, 5), Fraction(1, 20), Neighbours.REPLACE)
    >>> [method.name for method in further_methods(goal)]
    ['agnostic reduction', 'threshold search']
    """
    reduction = PlannedMethod(
        "agnostic reduction",
        lambda m: _reduced(goal.concept, goal.alpha, goal.beta, goal.epsilon, goal.neighbours),
        run=partial(_run_reduction, goal),
        key="reduction",
    )
    if not goal.on_a_line:
        return [reduction]
    return [
        reduction,
        PlannedMethod("threshold search", partial(_search, goal), run=partial(rule_run, goal, "search"), key="search"),
    ]


def _run_reduction(goal: RuleGoal, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
    """The reduction follows the number of users, as it is certified to."""
    n: int = asked.n_users or certificate.n_users or 0  # something is certified
    inner, levels = certificate["eps_A"], certificate["levels"]
    told = {"public_n_users": n, "beta": goal.beta, "levels": levels, "inner_epsilon": inner}

    def build() -> AgnosticReduction:
        chosen = RealizableSelection(goal.concept, inner, neighbours=goal.neighbours)
        given: dict[str, Any] = {"beta": goal.beta, "neighbours": goal.neighbours, "levels": levels}
        return AgnosticReduction.for_target(
            chosen, epsilon=goal.epsilon, public_n_users=n, users=certificate["users"], **given
        )

    def words() -> list[str]:
        # The learner of the method has these levels by itself.
        given = {name: value for name, value in told.items() if name != "levels"}
        source = asked.source or class_words(goal.concept)
        return learn_words(source, goal.epsilon, goal.neighbours, "reduction", given)

    return CertifiedRun("reduction", certificate.n_users, told, build, words)


def _search(goal: RuleGoal, m: int) -> Certificate:
    # A class of N + 1 cuts is one of N values.
    return plan_threshold_search(
        log_domain=math.log(max(1, goal.concept.size - 1)),
        records_per_user=m,
        alpha=goal.alpha,
        beta=goal.beta,
        epsilon=goal.epsilon,
        neighbours=goal.neighbours,
        truncate=True,
    )


@lru_cache(maxsize=64)
def _reduced(concept: ConceptClass, alpha: Any, beta: Any, epsilon: Any, neighbours: Neighbours) -> Certificate:
    """The same for every number of records: the learner's default, which rounds a user's losses to steps."""
    return certify_reduction(
        alpha=alpha,
        beta=beta,
        epsilon=epsilon,
        log_growth=lambda n: math.log(concept.growth(n)),
        inner_error=selection_error(concept.log_size, neighbours),
        levels=DEFAULT_LEVELS,
        neighbours=neighbours,
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
    asked: Any = plan.asked
    m, setting, users = plan.records_per_user[plan.place], asked.setting, asked.n_users
    spent = target.changed(epsilon=plan.epsilon_at(plan.place)) if plan.quantity == "epsilon" else target
    if users is not None or not _by_numbers(spent, setting, m):
        return _choice(spent, setting, users, m)
    typical = _typical(plan, target) if target.population is None and plan.quick else None
    if typical is not None:
        return typical
    stands, where = _standing(plan, target)
    choice = _choice(spent, setting, stands, m)
    return choice if stands is None else replace(choice, reason=f"{choice.reason}; {where}")


def better_certificate(plan: Plan) -> str:
    """Which method to name where its certificate is better than that of two voices, in words; empty where none is.

    Two voices are one law, and what is proved of it charges both of them; a method of one voice may be certified for
    less.
    """
    better = []
    for place, m in enumerate(plan.records_per_user):
        own = plan.best("voices", place) or math.inf
        best, method = min((plan.best(key, place) or math.inf, key) for key in ("mean", "regret"))
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
    predicted = {row.key: row for row in plan.predicted}
    users = {
        key: n
        for key in ("voices", "regret", "mean")
        if key in predicted and (n := predicted[key].values[plan.place]) is not None
    }
    if not users:
        return None
    best = min(users, key=lambda key: users[key])
    kept = "voices" in users and users["voices"] <= CLEARLY * users[best]
    said = ", ".join(f"{key} {n:,}" for key, n in users.items())
    near = f"; {best} does not need clearly fewer" if kept and best != "voices" else ""
    goal = f"{target.measure} {float(target.alpha):g}"
    reason = f"predicted users for {goal}: {said} ({predicted[best].assumption}){near}"
    return Choice("voices" if kept else best, reason, "predicted")


def _standing(plan: Plan, target: RuleTarget) -> tuple[int | None, str]:
    """Where somebody stands who did not say how many people there are: where the wanted accuracy is within reach, on
    the stated model.

    The certified number would judge methods on the worst law's terms, where all of them are good enough for the
    reader's.
    """
    assert plan.asked is not None
    m, setting = plan.records_per_user[plan.place], plan.asked.setting
    if plan.quick:
        rows: list[Any] = [
            row.values[plan.place] for row in plan.predicted if setting == "realizable" or row.key != "realizable"
        ]
    else:
        first = [made for made in target.simulations(setting) if made.key != "realizable"][:1]
        rows = [made.users(m) for made in first]
    fewest = min((n for n in rows if n is not None), default=None)
    if fewest is not None:
        return fewest, f"judged at the fewest users that typically reach {float(target.alpha):g}"
    certified: Any = plan.best("voices", plan.place)
    return certified, "judged at the certified number of users, since no simulated one reaches the accuracy"


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
