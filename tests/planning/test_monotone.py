"""More budget, less accuracy, more failures or more records never certify more users, nor does any lower bound rise:
every such row of every plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

import privpac as pp
from privpac.concepts import PathTree, PrefixTree, Stumps, Thresholds
from privpac.data import Integers
from privpac.errors import ParameterError, TooLargeError
from privpac.planning.targets.agreement_targets import agreement_target
from privpac.planning.targets.family_targets import family_target
from privpac.planning.targets.further_rules import further_methods
from privpac.planning.targets.median_targets import median_target
from privpac.planning.targets.rule_targets import RuleTarget, rule_target
from privpac.planning.targets.service_targets import service_target
from privpac.planning.targets.target import PlannedMethod, read_goal
from privpac.planning.targets.tree_targets import tree_target

CUTS = Thresholds(Integers(0, 1440))
GOAL: dict[str, Any] = {"alpha": "0.1", "beta": "0.05", "neighbours": "add-remove", "simple": False}


class FurtherRules(RuleTarget):
    """The less usual ways alone."""

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        return further_methods(self)


TARGETS: dict[str, Callable[[], Any]] = {
    "cuts, add-remove": lambda: rule_target(CUTS, 1, "0.05", "0.05", "add-remove", "0.1"),
    "cuts, replace": lambda: rule_target(CUTS, 1, "0.05", "0.05", "replace", "0.1"),
    "cuts, 2^20": lambda: rule_target(Thresholds(Integers(0, (1 << 20) - 1)), 1, "0.05", "0.05", "add-remove", "0.1"),
    "stumps": lambda: rule_target(
        Stumps({"a": Integers(0, 99), "b": Integers(0, 9)}), 1, "0.05", "0.05", "add-remove", None
    ),
    "other ways to a rule": lambda: FurtherRules(
        Thresholds(Integers(0, 99)), **read_goal(1, "0.2", "0.05", "add-remove")
    ),
    "selection": lambda: family_target("selection", epsilon=1, k=10),
    "discrete": lambda: family_target("discrete", epsilon=1, k=4),
    "histogram": lambda: family_target("histogram", epsilon=1, k=8),
    "histogram, many columns": lambda: family_target("histogram", epsilon=1, k=8, d=16),
    "gaussian": lambda: family_target("gaussian", epsilon=1, radius=10),
    "gaussian, covariance": lambda: family_target("gaussian", epsilon=1, radius=10, d=8, max_variance=20),
    "vocabulary": lambda: family_target("vocabulary", epsilon=1, delta="1e-6"),
    "median": lambda: median_target(bits=20, epsilon=1),
    "median, delta": lambda: median_target(bits=20, epsilon=1, delta="1e-6"),
    "tree": lambda: tree_target(PathTree(1000), epsilon=1, delta="1e-6", **GOAL),
    "agreement": lambda: agreement_target(CUTS, epsilon=1, delta="1e-6"),
    "agreement, local": lambda: agreement_target(CUTS, epsilon=1, model="local"),
}
DEAR: dict[str, Callable[[], Any]] = {
    "agreement, shuffle": lambda: agreement_target(CUTS, epsilon=1, delta="1e-6", model="shuffle"),
    "open tree": lambda: tree_target(PrefixTree(8), epsilon=1, delta="1e-6", **GOAL),
    "service, delta": lambda: service_target(Thresholds(Integers(0, 99)), 50, 1, "0.1", "0.05", "1e-6"),
    "cuts, much noise": lambda: rule_target(CUTS, 1, "0.05", "0.05", "add-remove", "0.3"),
    "product": lambda: family_target("product", epsilon=1, k=2, d=2),
    "service": lambda: service_target(Thresholds(Integers(0, 99)), 10, 1, "0.1", "0.05", neighbours="replace"),
}
FALLING = {
    "epsilon": ("0.1", "0.25", "0.5", "0.75", 1, "1.5", 2, 3, 4, 8),
    "alpha": ("0.02", "0.05", "0.07", "0.1", "0.2", "0.3"),
}
FALLING |= {"beta": ("0.01", "0.02", "0.05", "0.1", "0.3")}
RECORDS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50, 64, 65)

PENDING: dict[tuple[str, str], str] = {}
"""Rows that are known to break the rule, with the reason; a row that no longer does must be taken out."""


def users(target: Any, row: str, m: int) -> float:
    certify = target.method(row).certify
    try:
        number = certify(m).n_users
    except (ParameterError, TooLargeError):
        return float("inf")
    return float("inf") if number is None else float(number)


def rises(numbers: list[float]) -> bool:
    return any(later > earlier for earlier, later in pairwise(numbers))


def broken(target: Any, parts: int = 1) -> set[tuple[str, str]]:
    """The rows and quantities that break the rule; every ``parts``-th number of records only."""
    found = set()
    for row, kind in [(method.name, method.kind) for method in target.methods()]:
        if kind not in ("certified", "lower bound"):
            continue
        for name, values in FALLING.items():
            for m in (4, 16)[::parts]:
                if rises([users(replace(target, **{name: Fraction(value)}), row, m) for value in values[::parts]]):
                    found.add((row, name))
        if rises([users(target, row, m) for m in RECORDS[::parts]]):
            found.add((row, "records"))
    return found


LARGER = ("cuts, 2^20",)
"""More of the same, in the long run only."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LARGER else []) for name in TARGETS]
)
def test_certified_users_never_rise(name: str) -> None:
    target = TARGETS[name]()
    rows = {method.name for method in target.methods()}
    assert broken(target, 4) == {pair for pair in PENDING if pair[0] in rows}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TARGETS, *DEAR])
def test_certified_users_never_rise_on_a_finer_grid(name: str) -> None:
    target = (TARGETS | DEAR)[name]()
    rows = {method.name for method in target.methods()}
    assert broken(target) == {pair for pair in PENDING if pair[0] in rows}


def test_the_rule_can_be_broken() -> None:
    assert rises([5, 3, 4])
    assert not rises([float("inf"), 3, 3])


def test_more_budget_never_certifies_more_users_of_two_voices() -> None:
    """At 1.7 the mean voice takes over before it has enough users; the row then runs with less of epsilon, and its
    learner says so."""
    cuts = Thresholds(Integers(0, 1440))
    plan = pp.plan(cuts, epsilon="1.7", alpha="0.05", noise="0.1", setting="agnostic", records_per_user=16)
    row = "two voices, bounded noise"
    assert plan.row(row).n_users[0] < 90
    assert plan.learner(row, records_per_user=16).epsilon == Fraction(5, 4)
    assert "--epsilon 1.25" in plan.command(row, records_per_user=16)
