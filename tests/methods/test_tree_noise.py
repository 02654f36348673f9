"""Noisy labels on hierarchies: more people never hurt, on finite trees and on open vocabularies."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

import privpac as pp
from privpac.api.learn import learner_for
from privpac.errors import AccuracyWarning, ParameterError
from privpac.methods.hierarchy.tree_learner import TreeLearner
from privpac.planning.choose import choose_method
from privpac.rules import TreeNodes

SHOP = pp.Taxonomy(
    {
        "home": None,
        "electronics": None,
        "kitchen": "home",
        "garden": "home",
        "kettles": "kitchen",
        "toasters": "kitchen",
        "steel kettles": "kettles",
        "glass kettles": "kettles",
        "mowers": "garden",
        "hoses": "garden",
        "audio": "electronics",
        "phones": "electronics",
    },
    feature="shelf",
)
SHELVES = [name for name in SHOP.names if name]


def _people(name: str, values: Any, said: Any, m: int) -> pp.UserData:
    table = pl.DataFrame({"who": np.arange(len(said)) // m, name: values, "said": said})
    return pp.UserData.from_frame(table, user="who", features={name: pp.Texts()}, label="said")


def shoppers(n: int, m: int, target: str, noise: float, seed: int = 0) -> pp.UserData:
    rng = np.random.default_rng([seed, n])
    shelf = rng.choice(SHELVES, n * m)
    above = {name: SHOP.is_ancestor(name, target) for name in SHELVES}
    said = np.array([above[name] for name in shelf]) ^ (rng.random(n * m) < noise)
    return _people("shelf", shelf, said, m)


def folders(n: int, m: int, noise: float) -> pp.UserData:
    """Target ``a/b``; half of the records look at or below it."""
    rng = np.random.default_rng([1, n])
    names = np.array(list("cdefgh"))
    paths = []
    for near, depth, parts in zip(rng.random(n * m) < 0.6, rng.integers(1, 5, n * m), rng.choice(names, (n * m, 4))):
        paths.append("/".join(["a", "b", *parts[:2]][:depth] if near else parts[:depth].tolist()))
    said = np.array(["a/b/".startswith(f"{path}/") for path in paths]) ^ (rng.random(n * m) < noise)
    return _people("path", paths, said, m)


@pytest.mark.parametrize("target", ["kitchen", "glass kettles"])
def test_more_people_never_hurt_on_a_taxonomy_with_wrong_answers(target: str) -> None:
    """The law's mass on the right node, exactly; constant ranks had none of it from 1,200 people on for an inner
    target."""
    node = TreeNodes(SHOP).tree.number(target)
    for n in (300, 1200, 5000, 20000):
        data = shoppers(n, 10 if n < 5000 else 4, target, 0.1)
        learner: Any = learner_for(SHOP, epsilon=1)
        assert learner.concept == TreeNodes(SHOP)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert float(learner.rule_law(data).prob(node)) > 0.99


@pytest.mark.slow
def test_more_people_never_hurt_on_an_open_vocabulary_with_wrong_answers() -> None:
    for n in (300, 1000, 5000, 20000):
        data = folders(n, 4, 0.05)
        law = TreeLearner(pp.PrefixTree(8), 1, "1e-6", mode="erm").law(data, given=n)
        assert float(law.prob(("a", "b"))) > 0.95


@pytest.mark.slow
def test_constant_ranks_do_hurt_with_wrong_answers() -> None:
    """What the shares are for: the same learner with its constants, given by hand."""
    follows = TreeLearner(pp.PrefixTree(8), 1, "1e-6", mode="erm", public_n_users=20000)
    constants = TreeLearner(pp.PrefixTree(8), 1, "1e-6", mode="erm", hi=follows.split.hi, K=follows.split.K)
    assert not constants.follows
    assert float(constants.law(folders(20000, 4, 0.05)).prob(("a", "b"))) < 0.05


def test_ranks_follow_what_is_public() -> None:
    counted = TreeLearner(pp.PrefixTree(8), 1, "1e-6", mode="erm")
    assert counted.needs_count
    assert counted.guarantee.epsilon == 1
    declared = TreeLearner(pp.PrefixTree(8), 1, "1e-6", mode="erm", public_n_users=5000)
    assert not declared.needs_count
    assert declared._ranks(5000) == (1000, 2500)
    replaced = TreeLearner(pp.PrefixTree(8), 1, "1e-6", mode="erm", neighbours="replace")
    assert not replaced.needs_count
    realizable = TreeLearner(pp.PrefixTree(8), 1, "1e-6")
    assert not realizable.follows
    assert realizable.hi == realizable.split.hi


def test_nothing_is_certified_for_ranks_that_follow() -> None:
    learner = TreeLearner(pp.PrefixTree(8), 1, "1e-6", mode="erm", alpha="0.1", public_n_users=50)
    assert learner.users_needed is None
    assert learner.failure(10**6) == 1
    assert learner.alpha_for(10**6) is None
    assert learner.with_(public_n_users=60).follows


def test_noisy_trees_are_learned_by_selection_where_nodes_can_be_counted() -> None:
    assert choose_method(SHOP, epsilon=1).method != "tree"
    assert choose_method(SHOP, epsilon=1, setting="realizable").method == "tree"
    assert choose_method(pp.PrefixTree(8), epsilon=1, delta="1e-6").method == "tree"
    assert choose_method(pp.AddressTree(6), epsilon=1).method == "tree"
    data = shoppers(400, 5, "kitchen", 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        found = pp.learn(data, SHOP, epsilon=1, delta="1e-6")  # no delta is needed, and none is spent
    assert found.guarantee is not None
    assert found.guarantee.delta == 0
    assert "selection" in found.parameters["chosen because"]
    with pytest.warns(AccuracyWarning, match="no accuracy is certified"):
        pp.learn(data, SHOP, epsilon=1, method="tree")
    for method in ("mean", "regret", "realizable"):
        assert pp.learn(data, SHOP, epsilon=1, method=method).outcome == "released"
    with pytest.raises(ParameterError, match="use one of the methods auto, tree, reduction"):
        pp.learn(data, pp.PrefixTree(8), epsilon=1, method="mean")


def test_a_saved_rule_of_a_selected_node_predicts_the_same(tmp_path: Any) -> None:
    found = pp.learn(shoppers(300, 5, "kitchen", 0.1), SHOP, epsilon=2)
    found.save(tmp_path / "rule.json")
    again = pp.load(tmp_path / "rule.json")
    table = {"shelf": [*SHELVES, "never seen"]}
    assert again.predict(table).tolist() == found.predict(table).tolist()


def test_plans_of_noisy_trees() -> None:
    plan = pp.plan(SHOP, epsilon=1, alpha="0.1", setting="agnostic", records_per_user=[1, 10])
    assert plan.row("per-user mean").n_users[0] > plan.row("per-user mean").n_users[1]
    with pytest.raises(ParameterError, match="open vocabulary"):
        pp.plan(pp.PrefixTree(8), epsilon=1, delta="1e-6", setting="agnostic")


def test_the_lower_bound_is_printed_only_where_its_assumption_holds() -> None:
    """One point with two rules: six people tell them apart with probability .95, and 30 were said to be needed."""

    def least(tree: pp.VC1Tree) -> int:
        return int(
            pp.plan(tree, epsilon=1, alpha="0.1", neighbours="replace", records_per_user=1)
            .row("any private learner")
            .n_users[0]
        )

    assert least(pp.PathTree(2)) == 30
    assert least(pp.PathTree(1)) <= 6
    assert least(pp.StarTree(pp.Integers(0, 0))) <= 6
    # Six users with the one point labelled 1: selection among the two rules is right with probability .95.
    data = pp.UserData.from_users([[(1, 1)]] * 6, features={"x": pp.Integers(1, 1)})
    law = pp.RealizableSelection(TreeNodes(pp.PathTree(1)), 1, neighbours="replace").law(data)
    assert float(law.prob(1)) > 0.95


def test_declared_people_choose_among_selections_on_a_tree_without_a_model() -> None:
    assert choose_method(SHOP, epsilon=1, public_n_users=100, records_per_user=10, people="differ").method == "mean"
    assert choose_method(SHOP, epsilon=1, public_n_users=100, records_per_user=10).method != "tree"
