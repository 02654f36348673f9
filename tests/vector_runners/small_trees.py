"""Runners of ``small_trees.json``: classes, cells, laws, draws, divergences and plans of small trees.

Bins are codes ``0..B-1`` in the file, with ``B`` for a missing value; here they are values of declared domains.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpac.data import Categories, Domain, Integers, UserData
from privpac.exact import ball_of, precision
from privpac.guarantee import Neighbours
from privpac.methods.small_tree import SmallTreeLearner, users_of_tree
from privpac.rules.small_trees import SmallTrees
from privpac.testing import WordRng, insecure_randomness

from . import agrees

__all__ = ["RUNNERS", "concept_of", "users_of"]

DIGITS = 25


def domain_of(column: dict[str, Any]) -> Domain:
    bins = column["bins"]
    return Categories([f"c{i}" for i in range(bins)]) if column["kind"] == "category" else Integers(0, bins - 1)


def concept_of(case: dict[str, Any], **more: Any) -> SmallTrees:
    columns = case["columns"]
    named = {f"x{j}": domain_of(column) for j, column in enumerate(columns)}
    missing = [f"x{j}" for j, column in enumerate(columns) if column["missing"]]
    finest = max(2, *(column["bins"] for column in columns)) if columns else 2
    return SmallTrees(named, cuts=finest - 1, missing=missing, **more)


def users_of(case: dict[str, Any], users: list[Any]) -> UserData:
    def value(code: int, column: dict[str, Any]) -> Any:
        if code == column["bins"]:
            return None
        return f"c{code}" if column["kind"] == "category" else code

    columns = case["columns"]
    listed = [[(*(value(c, column) for c, column in zip(codes, columns)), y) for codes, y in user] for user in users]
    return UserData.from_users(listed, features=[f"x{j}" for j in range(len(columns))])


def learner_of(case: dict[str, Any]) -> SmallTreeLearner:
    concept = concept_of(case, depth=case["depth"], levels=case["levels"])
    return SmallTreeLearner(concept, case["epsilon"], neighbours=case["neighbours"])


def run_class(case: dict[str, Any]) -> None:
    deep, flat = concept_of(case), concept_of(case, depth=1)
    assert [[test.column, test.kind, test.value] for test in deep.tests] == case["tests"]
    assert list(deep.shape.prior) == [Fraction(p) for p in case["test_prior"]]
    assert (str(flat.size), str(deep.size)) == (case["size_depth_1"], case["size_depth_2"])
    assert deep.shape.least == Fraction(case["least_prior_depth_2"])


def run_cells(case: dict[str, Any]) -> None:
    concept, users = concept_of(case, levels=case["levels"]).bind(users_of(case, case["users"]))
    cells = concept.cells(users)
    assert [0 if not user else case["levels"] // len(user) for user in case["users"]] == case["weights"]
    assert cells.total.tolist() == [case["total"]]
    assert cells.single[0].tolist() == case["single"]
    assert cells.both[0].tolist() == case["both"]
    assert cells.others == case["positives"]


def run_law(case: dict[str, Any]) -> None:
    learner = learner_of(case)
    law = learner.law(users_of(case, case["users"]))
    assert law.rate == Fraction(case["rate"])
    assert agrees(law.log_normaliser(), case["log_normaliser"], DIGITS)
    assert law.mode == case["mode"]
    assert [law.shape.of_tree(t) for t in case["ids"]] == [Fraction(p) for p in case["prior"]]
    assert [law.score(t) for t in case["ids"]] == case["scores"]
    for tree, printed in zip(case["ids"], case["law"]):
        assert agrees(law.prob(tree), printed, DIGITS)


def run_draw(case: dict[str, Any]) -> None:
    law = learner_of(case).law(users_of(case, case["users"]))
    with insecure_randomness():
        assert law.sample(WordRng(case["words"])) == case["tree"]


def run_divergence(case: dict[str, Any]) -> None:
    learner = learner_of(case)
    less = learner.law(users_of(case, case["users"]))
    more = learner.law(users_of(case, [*case["users"], case["added"]]))
    assert agrees(less.max_divergence(more), case["forward"], DIGITS)
    assert agrees(more.max_divergence(less), case["backward"], DIGITS)


def run_plan(case: dict[str, Any]) -> None:
    shape = concept_of(case, depth=case["depth"]).shape
    epsilon = Fraction(case["epsilon"])
    theta = epsilon if Neighbours(case["neighbours"]) is Neighbours.ADD_REMOVE else epsilon / 2
    target = {"alpha": case["alpha"], "beta": case["beta"], "best_error": case["best_error"]}
    users, power = users_of_tree(shape.power, shape.least, theta=theta, **target)
    assert abs(users - case["users"]) <= 1
    assert power == Fraction(case["power"])
    with precision(192):
        log_power = ball_of(shape.power(power).log())
    if Fraction(case["log_prior_power"]) == 0:
        assert abs(float(log_power)) < 1e-40
    else:
        assert agrees(log_power, case["log_prior_power"], DIGITS)


RUNNERS = {
    "tree_class": run_class,
    "tree_cells": run_cells,
    "tree_law": run_law,
    "tree_draw": run_draw,
    "tree_divergence": run_divergence,
    "tree_plan": run_plan,
}
