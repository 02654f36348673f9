"""The lines of this paper's methods in a plan (counting with an estimate, the search for a cut, selection from a public
set), and the hard laws that attack their certificates.

None of them has needed fewer users than selection so far: a plan shows them where all methods are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from attrs import evolve, frozen

from privpac.auditing.refutation import Claim
from privpac.auditing.rule_laws import DrawnTrial, Trial, Votes, rule_claim, selection_votes
from privpac.data import UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational
from privpac.methods.planned import RuleGoal
from privpac.methods.registry import PlannedMethod
from privpac.papers.pure_agnostic.counting import (
    UserAgnosticLearner,
    plan_item_proper,
    plan_item_surrogate,
    plan_threshold_search,
    plan_user_agnostic,
)
from privpac.papers.pure_agnostic.representations import MAX_RULES
from privpac.papers.pure_agnostic.search import ThresholdSearch
from privpac.papers.pure_agnostic.surrogate_selection import (
    SurrogateSelection,
    check_named,
    named_representation,
    said_of,
)
from privpac.rules.profile import Exceeds
from privpac.sample_size import Certificate, best

# Counting


def counting_rows(goal: RuleGoal) -> list[PlannedMethod]:
    def certify(m: int) -> Certificate:
        return plan_user_agnostic(
            log_size=goal.concept.log_size,
            dimension=goal.concept.vc_dimension,
            records_per_user=m,
            truncate=True,
            **goal.wanted,
        )

    return [PlannedMethod("user agnostic selection", certify)]


def counting_votes(learner: UserAgnosticLearner, bits: int, n: int) -> Votes:
    if learner.estimates:
        raise TooLargeError("an estimate depends on all users at once")
    return selection_votes(Exceeds(learner.tolerance_given(None)), float(learner.rate(learner.epsilon, 1)))


def counting_claim(target: Any, line: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """Selection by sums over users; where it estimates the least error, the learner's own law on drawn data sets."""
    assert found.n_users is not None
    if not found.parameters.get("estimator"):
        return rule_claim(target, line, found, records_per_user, counting_votes)
    trial = Trial(evolve(target), line, found.parameters, records_per_user, counting_votes)
    m = min(records_per_user, trial.learner(found.n_users).max_records or records_per_user)
    return DrawnTrial(target, m, trial.noise, trial.learner, False).claim(line.name, found.n_users)


# The search for a cut


def search_rows(goal: RuleGoal) -> list[PlannedMethod]:
    def certify(m: int) -> Certificate:
        # A class of N + 1 cuts is one of N values.
        values = math.log(max(1, goal.concept.size - 1))
        return plan_threshold_search(log_domain=values, records_per_user=m, truncate=True, **goal.wanted)

    return [PlannedMethod("threshold search", certify)]


def search_claim(target: Any, line: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The search for a cut, by runs: its law takes seconds even on few values."""
    assert found.n_users is not None
    given: dict[str, Any] = {
        "concept": target.concept,
        "epsilon": target.epsilon,
        "neighbours": target.neighbours,
        **found.parameters,
    }
    learner = ThresholdSearch(**given)
    m = min(records_per_user, learner.max_records or records_per_user)
    return DrawnTrial(target, m, 0.5, lambda n: learner, True).claim(line.name, found.n_users)


# Selection from a public set that stands in for a class, as a line of a plan: ``representation="hashed"`` and so on.
#
# One record of each person is read.  A set within ``rho`` of every rule, except with probability ``beta/5``, and the
# exponential law over it give an excess error of ``alpha`` (``bounds.plan_item_surrogate``); ``rho`` is the one of a
# fixed grid below ``alpha`` that certifies the fewest people, so that a larger ``alpha`` never needs more of them.


_ACCURACIES = tuple(rational(n) / 10**k for k in (2, 3, 4) for n in (50, 40, 30, 25, 20, 15, 12, 10, 8, 6))
"""Accuracies of a set that are tried."""


def check_representation(name: object) -> None:
    """Refuse what is no representation's name, before anything is planned."""
    if not isinstance(name, str):
        raise TypeError(f"representation must be a name such as 'hashed', got {type(name).__name__}")
    check_named(name)


@lru_cache(maxsize=256)
def _represented(goal: RuleGoal) -> Certificate:
    """The same for every number of records."""
    assert goal.representation is not None
    told = {**goal.wanted, "dimension": goal.concept.vc_dimension}
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


def surrogate_rows(goal: RuleGoal) -> list[PlannedMethod]:
    """Where a representation is named."""
    certify = partial(_any_records, goal)
    return [] if goal.representation is None else [PlannedMethod("surrogate selection", certify)]


def _any_records(goal: RuleGoal, m: int) -> Certificate:
    return _represented(goal)


@frozen(slots=False)
class _Redrawn:
    """A selection from a public set that is drawn anew for every run: it may be a bad one."""

    build: Callable[[bytes], Any]

    def bind(self, data: UserData) -> UserData:
        return data

    def draw(self, data: UserData, rng: Any) -> Any:
        learner = self.build(b"".join(rng.word().to_bytes(8, "big") for _ in range(4)))
        return learner.draw(learner.bind(data), rng)


def surrogate_claim(target: Any, line: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """Selection from a representation."""
    assert found.n_users is not None
    common = {"epsilon": target.epsilon, "neighbours": target.neighbours, **found.parameters}

    def build(seed: bytes) -> SurrogateSelection:
        return SurrogateSelection(target.concept, public_seed=seed, **common)

    return DrawnTrial(target, 1, 0.5, lambda n: _Redrawn(build), True).claim(line.name, found.n_users)
