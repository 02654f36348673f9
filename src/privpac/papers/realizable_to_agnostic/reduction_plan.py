"""The line of the agnostic reduction in a plan, the learner it speaks of, and the hard laws that attack its
certificate."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from privpac.auditing.refutation import Claim
from privpac.auditing.rule_laws import DrawnTrial
from privpac.guarantee import Neighbours
from privpac.methods.planned import Asked, CertifiedRun, RuleGoal, class_words, learn_words
from privpac.methods.prediction.service_sample_size import certify_reduction, selection_error
from privpac.methods.realizable import RealizableSelection
from privpac.methods.registry import PlannedMethod
from privpac.papers.realizable_to_agnostic.reduction import AgnosticReduction
from privpac.parameters import DEFAULT_LEVELS
from privpac.rules.base import ConceptClass
from privpac.sample_size import Certificate


def reduction_rows(goal: RuleGoal) -> list[PlannedMethod]:
    def certify(m: int) -> Certificate:
        return _reduced(goal.concept, goal.alpha, goal.beta, goal.epsilon, goal.neighbours)

    return [PlannedMethod("agnostic reduction", certify, run=partial(_run_reduction, goal))]


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


@lru_cache(maxsize=64)
def _reduced(
    concept: ConceptClass, alpha: Fraction, beta: Fraction, epsilon: Fraction, neighbours: Neighbours
) -> Certificate:
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


def reduction_claim(target: Any, line: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The reduction with selection inside, at the split of the budget that the certificate names."""
    assert found.n_users is not None
    inner = RealizableSelection(target.concept, found["eps_A"], target.neighbours)

    def learner(n: int) -> AgnosticReduction:
        return AgnosticReduction.for_target(
            inner, epsilon=target.epsilon, public_n_users=n, neighbours=target.neighbours
        )

    # One record each is as hard as any number: every user counts alike.
    return DrawnTrial(target, 1, 0.5, learner, True).claim(line.name, found.n_users)
