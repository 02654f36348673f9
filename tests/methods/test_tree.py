"""The tree learner: what it promises, what it draws, what it certifies, and what it refuses."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from privpac.data import Categories, Integers, UserData
from privpac.errors import AccuracyWarning, IncompatibleGuarantees, InfeasibleError, ParameterError, TooLargeError
from privpac.exact import dyadic_base
from privpac.guarantee import Neighbours
from privpac.law import BOTTOM
from privpac.mechanisms.rank import rank_law
from privpac.methods.hierarchy.tree_learner import NamedParts, NodeChoice, TreeLearner
from privpac.methods.hierarchy.tree_sample_size import plan_tree
from privpac.result import Released
from privpac.rules.hierarchies import (
    AddressTree,
    BranchThresholds,
    PathTree,
    PrefixTree,
    StarTree,
    Taxonomy,
    VC1Tree,
    glue,
    graft,
)
from privpac.testing import SeededRng, insecure_randomness

TREE = VC1Tree.from_matrix([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]], root=0)
SPREAD = [[(0, 1), (1, 1)], [(0, 1), (1, 0)], [(2, 1)], [], [(1, 1), (0, 0)], [(0, 1), (1, 1)]]


def learner(tree: VC1Tree, *numbers: Any, **options: Any) -> TreeLearner:
    return TreeLearner(tree, *numbers, **options)


def people(users: Any = SPREAD, **options: Any) -> UserData:
    return UserData.from_users(users, **options)


def draw(learner: TreeLearner, data: UserData, seed: int) -> Released:
    with insecure_randomness():
        return learner.learn(data, rng=SeededRng(seed))


# What is promised


@pytest.mark.parametrize(
    ("options", "votes"),
    [
        ({}, "0.6"),
        ({"parts": 4}, "0.3"),
        ({"neighbours": "replace"}, "0.3"),
        ({"neighbours": "replace", "users_per_part": 2}, "0.3"),
    ],
    ids=["add-remove", "fixed-parts", "replace", "replace-groups"],
)
def test_bases_follow_the_relation_and_the_promise_is_the_sum(options: dict[str, Any], votes: str) -> None:
    made = learner(TREE, 1, "1e-6", epsilon1="0.4", **options)
    choice = made.choice(TREE)
    assert (choice.r1, choice.r2) == (dyadic_base("0.2"), dyadic_base(votes))
    assert str(made.guarantee).startswith("(1, 1e-06)-DP")
    assert made.guarantee.neighbours == options.get("neighbours", "add-remove")
    assert made.guarantee.rho is None


def test_paths_spend_nothing_on_votes() -> None:
    made = learner(PathTree(100), 1, "1e-6")
    assert (made.epsilon1, made.epsilon2, made.hi) == (Fraction(1), Fraction(0), 1)
    assert str(made.guarantee).startswith("(1, 0)-DP")
    assert made.guarantee.rho == Fraction(1, 8)


def test_finite_levels_without_delta_promise_zcdp() -> None:
    made = learner(TREE, 1, epsilon1="0.5")
    assert (made.guarantee.delta, made.guarantee.rho) == (Fraction(0), Fraction(1, 16))


def test_a_class_of_one_rule_costs_nothing() -> None:
    made = learner(VC1Tree.from_matrix([[0, 1]]), 1)
    assert str(made.guarantee).startswith("(0, 0)-DP")
    data = people([[(0, 1)]])
    assert made.law(data).prob_exact(0) == 1
    assert draw(made, data, 1).predict([[0], [1]]).tolist() == [0, 1]
    assert made.failure(0, "0.1") == 0.0


# Laws and draws


@pytest.mark.parametrize(
    "options",
    [
        {"delta": "0.1"},
        {"delta": 0},
        {"delta": "0.1", "neighbours": "replace", "users_per_part": 2},
        {"delta": "0.1", "parts": 2},
        {"delta": "0.1", "mode": "erm"},
    ],
    ids=["choosing", "levels", "groups", "fixed-parts", "erm"],
)
def test_draws_follow_the_law(options: dict[str, Any]) -> None:
    """False alarm: five outcomes, each below 2 exp(-2 n 0.12**2) for n = 700, in all below 1e-7."""
    made = learner(TREE, 4, **options, hi=1, K=2)
    data, n = people(), 700
    law = made.law(data)
    with warnings.catch_warnings(), insecure_randomness():
        warnings.simplefilter("ignore", AccuracyWarning)
        bound, rng = made.bind(data), SeededRng(3)
        choice = made.choice(bound.tree)
        whole = None if made._partitioned else made._parts(bound, None)
        seen = Counter(choice.sample(whole or made._parts(bound, made._partition(bound, rng)), rng) for _ in range(n))
    outcomes = [0, 1, 2, 3, BOTTOM]
    assert sum(law.prob_exact(v) for v in outcomes) == 1
    for v in outcomes:
        assert abs(seen[v] / n - law.prob_float(v)) < 0.12
    assert sum(seen.values()) == sum(seen[v] for v in outcomes)


def test_no_answer_is_the_public_default_and_stays_apart_from_the_root() -> None:
    made = learner(StarTree(), 1, "1e-9", hi=1, K=0)
    data = people([[("a", 1)]] * 3)
    law = made.law(data)
    assert law.prob_exact(BOTTOM) > law.prob_exact(()) > 0
    results = [draw(made, data, seed) for seed in range(40)]
    assert {result.outcome for result in results} == {"default", "released"}
    for result in results:
        assert result.predict([["a"], ["b"]]).tolist() == [0, 0]


def test_plenty_of_users_find_the_target() -> None:
    tree = PrefixTree(8, feature="path")
    made = learner(tree, 2, "1e-6")
    data = people([[("usr", 1), ("usr/lib", 1), ("usr/bin", 0), ("usr/lib/python3", 0)]] * 400, features=["path"])
    result = draw(made, data, 5)
    assert str(result.value) == "1 when path is usr/lib or contains it"
    assert result.outcome == "released"
    assert Released.from_json(result.to_json()).predict({"path": ["usr", "etc"]}).tolist() == [1, 0]
    assert "400" not in str(dict(result.parameters))


def test_law_of_a_path_is_the_rank_law_on_any_height() -> None:
    for height in (9, 2**64, 2**1000):
        made = learner(PathTree(height), 1)
        data = people([[(3, 1), (7, 0)], [(5, 1)], [(4, 1), (3, 1)]])
        expected = rank_law([3, 5, 4], made.split.hi, made.split.K, height, dyadic_base("0.5"))
        for z in (0, 3, 4, 5, 6, height):
            assert made.law(data).prob_exact(z) == expected.prob_exact(z)


def test_given_partitions_average_to_the_law() -> None:
    made = learner(TREE, 2, "0.1", neighbours="replace", users_per_part=3, hi=1, K=1)
    data = people()
    whole = made.law(data)
    splits = [[1 if i in held else 0 for i in range(6)] for held in _subsets(6, 3)]
    assert len(splits) == 20
    for v in (0, 1, 2, 3, BOTTOM):
        assert whole.prob_exact(v) == sum(made.law(data, given=split).prob_exact(v) for split in splits) / 20
    with pytest.raises(TooLargeError, match="given=partition"):
        made.law(people(SPREAD * 4))
    with pytest.raises(ParameterError, match="no partition"):
        learner(TREE, 2).law(data, given=[0] * 6)


def _subsets(n: int, k: int) -> list[set[int]]:
    return [{i for i in range(n) if mask >> i & 1} for mask in range(1 << n) if mask.bit_count() == k]


@pytest.mark.parametrize(
    "options",
    [{}, {"parts": 3}, {"neighbours": "replace"}, {"delta": 0}],
    ids=["add-remove", "parts", "replace", "levels"],
)
def test_no_users_and_empty_users_are_ordinary(options: dict[str, Any]) -> None:
    made = learner(TREE, 1, **({"delta": "0.01"} | options))
    none = people([], features={"x": Integers(0, 2)})
    if made.neighbours is Neighbours.REPLACE:
        with pytest.warns(AccuracyWarning):
            made.bind(none)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        draw(made, none, 1)
        draw(made, people([[], []], features={"x": Integers(0, 2)}), 1)
    if "parts" not in options:
        depths = {z: made.choice(TREE).depth_law(NamedParts(TREE, ())).prob_exact(z) for z in range(3)}
        assert set(depths.values()) == {Fraction(1, 3)}


def test_unknown_points_are_dropped_one_by_one() -> None:
    tree = Taxonomy({"cat": "mammal", "dog": "mammal", "mammal": "animal", "bird": "animal"})
    made = learner(tree, 1, "0.01", hi=1, K=1)
    law = made.law(people([[("cat", 1), ("griffin", 1)], [("griffin", 0)]]))
    other = made.law(people([[("cat", 1)], []], features={"x": tree.columns["x"]}))
    for v in ("animal", "mammal", "cat", "dog", "bird", BOTTOM):
        assert law.prob_exact(v) == other.prob_exact(v)


# Levels of every tree


@pytest.mark.parametrize(
    ("tree", "z", "width"),
    [
        (TREE, 1, 2),
        (Taxonomy({"b": "a", "c": "a", "d": "c"}), 1, 2),
        (AddressTree(4), 3, 8),
        (StarTree(Integers(5, 9)), 1, 5),
        (BranchThresholds(Integers(1, 2**40), Categories(["u", "v"])), 2**30, 2),
        (PathTree(9), 4, 1),
        (glue(PathTree(3), StarTree(Categories(["a", "b"]))), 1, 3),
        (graft(PathTree(3), 2, StarTree(Categories(["a", "b"]))), 3, 3),
    ],
    ids=["table", "taxonomy", "addresses", "star", "branches", "path", "glued", "grafted"],
)
def test_levels_are_listed_without_repeats(tree: VC1Tree, z: int, width: int) -> None:
    assert tree.lists_levels
    assert tree.level_width(z) == width
    most = tree.widest
    assert most is not None
    assert most >= width
    nodes = [tree.level_node(z, i) for i in range(width)]
    assert len(set(nodes)) == width
    assert all(tree.depth(v) == z for v in nodes)
    assert tree.level_node(0, 0) == tree.root


@pytest.mark.parametrize(
    "tree", [StarTree(), PrefixTree(4), BranchThresholds(Integers(1, 9)), glue(StarTree(), PathTree(3))], ids=repr
)
def test_open_vocabularies_have_no_width_and_need_delta(tree: VC1Tree) -> None:
    assert tree.widest is None
    with pytest.raises(ParameterError, match="open vocabulary needs delta > 0"):
        learner(tree, 1)
    assert learner(tree, 1, "1e-6").guarantee.delta > 0


def test_levels_of_two_to_the_thirty_two_nodes_are_drawn_without_delta() -> None:
    made = learner(AddressTree(4), 3)
    result = draw(made, people([[("10.1.2.3", 1)]] * 400), 3)
    assert str(result.value).startswith("1 when x is 10.")
    empty = draw(made, people([], features=["x"]), 2)
    assert empty.outcome == "released"
    with pytest.raises(TooLargeError, match="too wide"):
        made.law(people([[("10.1.2.3", 1)]] * 3))


def test_rare_unvoted_nodes_are_drawn_uniformly() -> None:
    choice = NodeChoice(StarTree(Integers(0, 9)), 1, 1, Fraction(2), Fraction(1), Fraction(0))
    parts = NamedParts(choice.tree, [(3,), (3,), (4,)])
    with insecure_randomness():
        rng = SeededRng(9)
        seen = Counter(choice._level_sample(parts.votes(1), 1, 10, rng) for _ in range(2500))
    # Ten equal outcomes; 20 exp(-2 * 2500 * 0.065**2) < 1e-7.
    assert len(seen) == 10
    assert max(abs(count / 2500 - 0.1) for count in seen.values()) < 0.065


# Selectors of the depth


def test_the_depth_is_found_by_an_interior_point_only_on_very_long_orders() -> None:
    assert learner(PathTree(2**64), 1, "1e-6").selector == "exponential"
    assert learner(PathTree(2**100), 1, "1e-6").selector == "exponential"
    assert learner(PathTree(2**400), 1).selector == "exponential"
    long = learner(PathTree(2**400), 1, "1e-6")
    assert long.selector == "interior"
    assert long.split.K < learner(PathTree(2**400), 1).split.K
    assert str(long.guarantee).startswith("(1, 1e-06)-DP")


@pytest.mark.parametrize("selector", ["interior", "prefix"])
def test_interior_points_name_a_depth_inside_the_ranks(selector: str) -> None:
    """Values 2**350 + 0..699; the window is inside them, missed with probability at most beta/3 by the certificate."""
    made = learner(PathTree(2**400), 2, "1e-6", selector=selector, beta="1e-9")
    assert made.split.point is not None
    data = people([[(str(2**350 + i), 1)] for i in range(made.split.K + 10)])
    result = draw(made, data, 4)
    assert str(result.value).startswith(f"1 when x <= {str(2**350)[:90]}")


def test_interior_points_share_delta_with_the_votes() -> None:
    tree = BranchThresholds(Integers(0, 2**60))
    made = learner(tree, 2, "1e-6", selector="interior")
    assert made.split.delta1 == made.split.delta2 == Fraction(1, 2 * 10**6)
    assert made.guarantee.delta == Fraction(1, 10**6)
    assert made.failure(10**5, "0.1") < float(made.beta)
    result = draw(made, people([[("b", 2**59, 1)]] * 2000, features=["branch", "position"]), 8)
    assert str(result.value).startswith("1 when branch = b and position <= ")


# Accuracy


def exact_failure(made: TreeLearner, t: int, good: float) -> float:
    """The true failure on a hard law: mass just above alpha on the deepest node, so parts have depth 0 or the
    height."""
    choice, top = made.choice(made.tree), made.tree.height
    total = 0.0
    for G in range(t + 1):
        law = rank_law([top] * G + [0] * (t - G), choice.hi, choice.K, top, choice.r1)
        hit = law.prob_float(top)
        total += binom.pmf(G, t, good) * (1 - hit * (1 - made.accuracy.budget.missed(G)))
    return float(total)


@pytest.mark.parametrize(
    ("tree", "delta", "t", "hi", "K"),
    [
        (PathTree(7), 0, 40, 1, 12),
        (PathTree(7), 0, 25, 1, 20),
        (StarTree(), "1e-3", 60, 12, 20),
        (StarTree(), "1e-3", 30, 20, 20),
        (PrefixTree(4), "1e-2", 60, 8, 24),
        (StarTree(Integers(0, 19)), 0, 50, 10, 20),
    ],
    ids=["path", "short-path", "star", "few", "prefixes", "levels"],
)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_certificates_bound_the_exact_failure_on_a_hard_law(
    tree: VC1Tree, delta: Any, t: int, hi: int, K: int, neighbours: str
) -> None:
    made = learner(
        tree,
        3,
        delta,
        epsilon1=3 if isinstance(tree, PathTree) else "1.5",
        hi=hi,
        K=K,
        neighbours=neighbours,
        records_per_user=3,
    )
    truth = exact_failure(made, t, 1 - 0.8**3)
    assert truth <= made.failure(t, "0.2") <= 1
    assert made.failure(t, "0.2") < 1 or t <= hi + 10


def test_planned_learners_fail_no_more_often_than_certified() -> None:
    """End to end: 300 samples of a hard law.  False alarm: Pr[Bin(300, 0.1) >= 62] < 1e-7."""
    tree, runs, alpha = StarTree(Integers(0, 999)), 300, 0.25
    made = TreeLearner.plan(tree, 2, "1e-4", alpha=alpha, beta="0.1", records_per_user=4)
    n = made.users_needed
    assert n is not None
    generator, failures = np.random.default_rng(11), 0
    with insecure_randomness():
        rng = SeededRng(12)
        for _ in range(runs):
            hit = generator.random((n, 4)) < alpha + 1e-6
            users = [[(7, 1) if h else (8, 0) for h in row] for row in hit.tolist()]
            failures += made.learn(people(users), rng=rng).predict([[7], [8]]).tolist() != [1, 0]
    assert binom.sf(61, runs, 0.1) < 1e-7
    assert failures < 62


def test_plans_reach_the_planner_and_say_how_many_users() -> None:
    made = TreeLearner.plan(PrefixTree(8), 1, "1e-6", alpha="0.1", records_per_user=10)
    plan = plan_tree(height=8, width=None, epsilon=1, delta="1e-6", alpha="0.1", beta="0.05", records_per_user=10)
    assert (made.epsilon1, made.hi, made.K) == (plan["epsilon1"], plan["hi"], plan["K"])
    assert made.users_needed == plan.n_users
    assert made.failure(plan.n_users or 0) <= 0.05 < made.failure((plan.n_users or 0) - 1)
    assert (made.alpha_for(plan.n_users or 0) or 1) <= 0.1 < (made.alpha_for((plan.n_users or 0) - 20) or 1)
    assert (made.with_(records_per_user=1).users_needed or 0) > (made.users_needed or 0)


def test_defaults_follow_the_utility_of_both_draws() -> None:
    made = learner(PrefixTree(8), 1, "1e-6")
    budget = made.accuracy.budget
    assert budget.missed(made.split.hi) <= 0.05 / 3
    assert budget.missed_rank((made.split.K + 1 - made.split.hi) // 2) <= 0.05 / 3
    with pytest.raises(ParameterError, match="declare alpha"):
        made.failure(100)


def test_independent_assignment_is_certified_by_its_own_bound() -> None:
    made = learner(PathTree(9), 2, parts=30, alpha="0.2", records_per_user=2)
    assert made.failure(10) == 1.0
    needed = made.users_needed
    assert needed is not None
    assert made.failure(needed) <= 0.05 < made.failure(needed - 1)
    assert (made.alpha_for(needed) or 1) <= 0.2


# Warnings


def test_replace_warns_about_too_few_users_and_strict_refuses() -> None:
    options: dict[str, Any] = {"neighbours": "replace", "alpha": "0.1", "records_per_user": 10}
    made = TreeLearner.plan(StarTree(), 1, "1e-6", **options)
    data = people([[("a", 1)]] * 30)
    with pytest.warns(
        AccuracyWarning, match=rf"{made.users_needed} users certify the target, and 30 users certify no error below 1"
    ):
        result = draw(made, data, 1)
    assert "30 users" in result.warnings[-1]
    with pytest.raises(InfeasibleError, match="users certify the target"):
        TreeLearner.plan(StarTree(), 1, "1e-6", **options, strict=True).learn(data)
    with pytest.warns(AccuracyWarning, match="fewer than hi"):
        learner(StarTree(), 1, "1e-6", neighbours="replace").bind(data)


def test_add_remove_says_nothing_that_depends_on_the_number_of_users() -> None:
    made = TreeLearner.plan(StarTree(), 1, "1e-6", alpha="0.1", records_per_user=10, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few, many = (draw(made, people([[("a", 1)]] * n), 1) for n in (1, 500))
    assert few.warnings == many.warnings == ()
    assert few.parameters == many.parameters


def test_a_declared_number_of_users_is_judged_before_data_are_seen() -> None:
    options: dict[str, Any] = {"alpha": "0.1", "records_per_user": 10, "public_n_users": 20}
    made = TreeLearner.plan(StarTree(), 1, "1e-6", **options)
    assert "20 users" in made.warnings[0]
    data = people([[("a", 1)]] * 500)
    with pytest.warns(AccuracyWarning):
        assert draw(made, data, 1).warnings == made.warnings
    with pytest.raises(InfeasibleError):
        draw(TreeLearner.plan(StarTree(), 1, "1e-6", **options, strict=True), data, 1)


def test_weak_and_item_level_promises_are_named() -> None:
    made = learner(TREE, 11, unit="item")
    assert any("single records" in line for line in made.warnings)
    assert any("very little" in line for line in made.warnings)


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": "1e-12"}, "epsilon"),
        ({"delta": 1}, "delta"),
        ({"delta": -1}, "delta"),
        ({"epsilon": "0.01", "delta": "0.5"}, "delta"),
        ({"epsilon1": 0}, "epsilon1"),
        ({"epsilon1": 1}, "epsilon1"),
        ({"epsilon1": 2}, "epsilon1"),
        ({"hi": 0}, "hi"),
        ({"hi": 9, "K": 7}, "K"),
        ({"K": -1}, "K"),
        ({"parts": 0}, "parts"),
        ({"parts": 3, "users_per_part": 2, "neighbours": "replace"}, "not both"),
        ({"users_per_part": 2}, "private under add-remove"),
        ({"alpha": 0}, "alpha"),
        ({"beta": 1}, "beta"),
        ({"mode": "guess"}, "mode"),
        ({"selector": "best"}, "selector"),
        ({"neighbours": "both"}, "neighbours"),
        ({"records_per_user": 0}, "records_per_user"),
        ({"public_n_users": 0}, "public_n_users"),
        ({"max_records": 0}, "max_records"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        learner(PrefixTree(8), **({"epsilon": 1, "delta": "1e-6"} | change))


def test_wrong_types_and_units_are_refused() -> None:
    with pytest.raises(TypeError, match="VC1Tree"):
        TreeLearner([[0, 1]], Fraction(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="UserData"):
        learner(TREE, 1).bind([[0, 1]])  # type: ignore[arg-type]
    with pytest.raises(IncompatibleGuarantees, match="per item"):
        learner(TREE, 1, unit="item").bind(people())
    with pytest.raises(InfeasibleError, match="at least as many users"):
        learner(TREE, 1, neighbours="replace", parts=9).bind(people())


def test_more_records_than_the_cap_do_not_count() -> None:
    made = learner(TREE, 2, "0.1", hi=1, K=1, max_records=1)
    capped = made.law(people([[(0, 1), (2, 1)], [(0, 1)]]))
    assert capped.prob_exact(1) == made.law(people([[(0, 1)], [(0, 1)]])).prob_exact(1)
    assert made.accuracy.records == 1


def test_the_certificate_needs_a_sample_of_the_size_planned() -> None:
    made = learner(PathTree(16), 1, neighbours="replace", users_per_part=4, records_per_user=2, alpha="0.1")
    assert made.accuracy.part_count(43) == 10
    assert made.accuracy.part_count(3) == 1
    assert made.accuracy.part_count(0) == 0
    needed = made.users_needed
    assert needed is not None
    assert needed % 4 == 0
    assert math.isclose(made.failure(needed), made.failure(needed + 3))
