"""Runners of the sections of ``vc1_trees.json`` about the tree learner and its certificates."""

from __future__ import annotations

from fractions import Fraction
from math import isclose
from typing import Any

import numpy as np

from privpac.data import Integers, UserData
from privpac.law import BOTTOM, Law
from privpac.methods.hierarchy.tree_learner import NamedParts, NodeChoice
from privpac.methods.hierarchy.tree_sample_size import TreeBudget, tree_failure
from privpac.rules.hierarchies import VC1Tree

__all__ = ["RUNNERS"]


def _choice(case: dict[str, Any]) -> NodeChoice:
    tree = VC1Tree.from_matrix(case["rows"], root=case["f_index"])
    return NodeChoice(tree, case["hi"], case["K"], Fraction(case["r1"]), Fraction(case["r2"]), Fraction(case["delta"]))


def _same(law: Law, case: dict[str, Any], nodes: int) -> None:
    assert {int(node) for node in case["law"]} <= set(range(nodes))
    for node in range(nodes):
        # The vectors add the outcome without an answer to the root.
        ours = law.prob_exact(node) + (law.prob_exact(BOTTOM) if node == 0 else 0)
        printed = str(case["law"].get(str(node), "0"))
        if "." in printed or "e" in printed:
            assert isclose(ours, float(printed), rel_tol=1e-12)
        else:
            assert ours == Fraction(printed)


def run_learner_law(case: dict[str, Any]) -> None:
    choice = _choice(case)
    _same(choice.law(NamedParts(choice.tree, case["part_nodes"])), case, len(choice.tree.parent))  # type: ignore[attr-defined]


def run_learner_from_users(case: dict[str, Any]) -> None:
    choice = _choice(case)
    people = [[(x, y) for x, y in user] for user in case["users"]]
    users = UserData.from_users(people, features={"x": Integers(0, len(case["rows"][0]) - 1)})
    parts = choice.tree.part_nodes(users, case["mode"], np.array(case["part_of_user"], dtype=np.int64), case["parts"])
    assert parts.nodes() == case["part_nodes"]
    _same(choice.law(parts), case, len(choice.tree.parent))  # type: ignore[attr-defined]


def run_certificate(section: dict[str, Any]) -> None:
    for case in section["cases"]:
        budget = TreeBudget(case["height"], 1 if case["path"] else None, case["eps1"], case["eps2"], case["delta"])
        ranks = {"parts": case["t"], "hi": case["hi"], "K": case["K"], "records_per_part": case["records_per_part"]}
        for ours, printed in zip(tree_failure(budget, alpha=case["alpha"], **ranks), (case["simple"], case["tight"])):
            assert isclose(ours, printed, rel_tol=section["rtol"])


RUNNERS = {"learner_law": run_learner_law, "learner_from_users": run_learner_from_users, "certificate": run_certificate}
