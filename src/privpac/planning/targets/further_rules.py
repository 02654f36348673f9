"""Further ways to a rule, beside those of :mod:`privpac.planning.targets.rule_goal`: the transformation of a realizable
into an agnostic learner, and the search for a cut by private medians.

Neither has needed fewer users than selection so far.  Not here, because nothing is certified: trimmed and friendly
means (their accuracy rests on a declared width), and the transformations of item-level algorithms
(``choose_transform`` predicts).  Answers by votes are planned in :mod:`privpac.planning.targets.service_targets`.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.bounds.reduction.accuracy import certify_reduction, selection_error
from privpac.bounds.selection.agnostic import plan_threshold_search
from privpac.concepts.base import ConceptClass
from privpac.concepts.statistics import DEFAULT_LEVELS
from privpac.guarantee import Neighbours
from privpac.learners.reduction.learner import AgnosticReduction
from privpac.learners.selection.realizable import RealizableSelection
from privpac.planning.targets.certified_runs import CertifiedRun, learn_words
from privpac.planning.targets.rule_goal import RuleGoal
from privpac.planning.targets.rule_runs import class_words, rule_run
from privpac.planning.targets.target import Asked, PlannedMethod

__all__ = ["further_methods"]


def further_methods(goal: RuleGoal) -> list[PlannedMethod]:
    """The lines of the less usual ways.

    >>> from fractions import Fraction
    >>> from privpac.concepts import Thresholds
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
