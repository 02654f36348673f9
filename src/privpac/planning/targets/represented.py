"""Selection from a public set that stands in for a class, as a line of a plan: ``representation="hashed"`` and so on.

One record of each person is read.  A set within ``rho`` of every rule, except with probability ``beta/5``, and the
exponential law over it give an excess error of ``alpha`` (``bounds.plan_item_surrogate``); ``rho`` is the one of a
fixed grid below ``alpha`` that certifies the fewest people, so that a larger ``alpha`` never needs more of them.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from privpac.bounds.certificate import Certificate, best
from privpac.bounds.selection.agnostic import plan_item_proper, plan_item_surrogate
from privpac.concepts.represent.representations import MAX_RULES
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational
from privpac.learners.selection.representations import check_named, named_representation, said_of
from privpac.planning.targets.rule_runs import rule_run
from privpac.planning.targets.target import PlannedMethod

if TYPE_CHECKING:
    from privpac.planning.targets.rule_goal import RuleGoal

__all__ = ["check_representation", "represented_method"]

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
