"""The transformation as a learner: what it refuses, what it shows, and that it samples the law it states."""

from __future__ import annotations

import warnings
from collections import Counter
from fractions import Fraction
from inspect import signature
from math import log
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from privpac.bounds import certify_reduction, selection_error
from privpac.data import Floats, Integers, Texts, UserData
from privpac.errors import (
    AccuracyWarning,
    IncompatibleGuarantees,
    InfeasibleError,
    ParameterError,
    SchemaError,
    TooLargeError,
)
from privpac.guarantee import Guarantee, Unit
from privpac.law import Law
from privpac.ledger import BudgetLedger
from privpac.methods.hierarchy.tree_learner import TreeLearner
from privpac.methods.prediction.relabel import Relabelling, below, coins, random_order
from privpac.methods.realizable import RealizableSelection
from privpac.methods.regret import RegretSelection
from privpac.papers.realizable_to_agnostic.reduction import AgnosticReduction, EmpiricalLearner
from privpac.planning import plan_service
from privpac.result import Released
from privpac.rules import Intervals, Points, Thresholds
from privpac.rules.hierarchies import PrefixTree, VC1Tree
from privpac.rules.profile import DEFAULT_LEVELS
from privpac.testing import SeededRng, WordRng, insecure_randomness

TEN = Integers(0, 9)
CUTS = Thresholds(TEN, "x")
INNER = RealizableSelection(CUTS, epsilon="1/2")
SHAPE: dict[str, Any] = {"A": 3, "B": 1, "eta": "1/8", "split_rate": "1/4", "levels": 16}
FIXED: dict[str, Any] = {"A": 3, "B": 1, "eta": "1/8", "split_size": 1, "neighbours": "replace", "levels": 16}


def people(users: list[list[tuple[int, int]]]) -> UserData:
    return UserData.from_users(users, features={"x": TEN})


FEW = people([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1), (5, 0)], []])


class Echo:
    """Publishes T in its order: what no private algorithm does, to look inside."""

    symmetric = False
    concept = CUTS
    guarantee = Guarantee(1, unit="user", neighbours="add-remove")

    def law(self, data: UserData) -> Law:
        return Law.point(str(data.to_lists()))

    def learn(self, data: UserData, *, rng: Any = None) -> Released:
        return Released(str(data.to_lists()), self.guarantee)


# Promises


def test_default_is_add_remove_and_independent_coins() -> None:
    learner = AgnosticReduction(INNER, **SHAPE)
    assert learner.guarantee.neighbours == "add-remove"
    assert learner.guarantee.unit is Unit.USER
    assert learner.levels == 16
    assert learner.relabelling.b == Fraction(16, 8)  # one user's loss is up to 16 levels
    assert "Theorem B" in learner.guarantee.explain()
    fixed = AgnosticReduction(INNER, **FIXED, public_n_users=4)
    assert "Theorem A" in fixed.guarantee.explain()
    assert "(1, 0)-DP per user, replace" in fixed.guarantee.explain()  # the inner promise, doubled for replace


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("users", ["hybrid", "one", "whole"])
def test_targets_are_met(neighbours: str, users: str) -> None:
    cap = {"max_records": 2} if users == "whole" else {}
    learner = AgnosticReduction.for_target(
        INNER, epsilon=1, public_n_users=5000, neighbours=neighbours, users=users, **cap
    )
    assert Fraction(99, 100) < learner.guarantee.epsilon <= 1
    assert learner.guarantee.neighbours == neighbours
    assert learner.relabelling.labellings == (3 if users == "whole" else 2)


def test_targets_out_of_reach_say_what_would_do() -> None:
    with pytest.raises(InfeasibleError, match="users are needed"):
        AgnosticReduction.for_target(INNER, epsilon="1/100", public_n_users=300, least_split=100)


def test_inner_promises_are_converted_or_refused() -> None:
    replaced = RealizableSelection(CUTS, epsilon="1/2", neighbours="replace")
    with pytest.raises(IncompatibleGuarantees, match="replace"):
        AgnosticReduction(replaced, **SHAPE)
    small: dict[str, Any] = FIXED | {"levels": 1, "public_n_users": 4}
    assert AgnosticReduction(replaced, **small).guarantee.epsilon < AgnosticReduction(INNER, **small).guarantee.epsilon
    with pytest.raises(IncompatibleGuarantees, match="replace"):
        AgnosticReduction(EmpiricalLearner(INNER, 3, 1), **SHAPE)
    item = RealizableSelection(CUTS, epsilon="1/2", unit="item")
    assert AgnosticReduction(item, **SHAPE).guarantee == AgnosticReduction(INNER, **SHAPE).guarantee
    with pytest.raises(IncompatibleGuarantees, match="users, not single records"):
        AgnosticReduction(item, **SHAPE, users="whole", max_records=2)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"split_rate": None}, "split_rate"),
        ({"split_rate": 0}, "split_rate"),
        ({"split_rate": 1}, "split_rate"),
        ({"split_size": 5}, "fixed size"),
        ({"split_size": 5, "split_rate": None}, "split_rate"),
        ({"neighbours": "replace"}, "split_size"),
        ({"neighbours": "swap"}, "neighbours"),
        ({"A": 0}, "A must"),
        ({"B": (1 << 26) + 1}, "B must"),
        ({"B": 1 << 26, "levels": 2}, "B must"),
        ({"eta": -1}, "eta"),
        ({"eta": float("nan")}, "eta"),
        ({"eta": None}, "exactly one"),
        ({"base": 2}, "exactly one"),
        ({"eta": None, "base": 1}, "base"),
        ({"users": "all"}, "users must"),
        ({"users": "whole"}, "max_records"),
        ({"levels": 0}, "levels"),
        ({"unit": "people"}, "unit"),
    ],
)
def test_bad_parameters_are_named(change: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        AgnosticReduction(INNER, **(SHAPE | change))


def test_fixed_sizes_must_leave_both_parts() -> None:
    for size in (0, 4, 5):
        with pytest.raises(ParameterError, match="split_size"):
            AgnosticReduction(INNER, **(FIXED | {"split_size": size}), public_n_users=4)
    with pytest.raises(ParameterError, match="public_n_users"):
        AgnosticReduction(INNER, **FIXED)
    with pytest.raises(ParameterError, match="public_n_users = 5"):
        AgnosticReduction(INNER, **FIXED, public_n_users=5).law(FEW)


def test_wrong_types_are_refused() -> None:
    with pytest.raises(TypeError, match="learner"):
        AgnosticReduction(object(), **SHAPE)
    with pytest.raises(TypeError, match="integer"):
        AgnosticReduction(INNER, **(SHAPE | {"A": 1.5}))
    with pytest.raises(TypeError, match="class of rules"):
        Relabelling("thresholds", 1, 1, eta=Fraction(1), split_rate=Fraction(1, 2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="UserData"):
        AgnosticReduction(INNER, **SHAPE).learn([[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="concept"):
        AgnosticReduction(type("Bare", (), {"guarantee": INNER.guarantee, "law": None})(), **SHAPE)


def test_data_are_checked_before_anything_is_spent(tmp_path: Path) -> None:
    budget = Guarantee(10, unit="user", neighbours="add-remove")
    ledger = BudgetLedger.create(tmp_path / "ledger.db", budget, dataset="d")
    learner = AgnosticReduction(INNER, **SHAPE)
    items = UserData.from_arrays(np.array([1, 2]), np.array([0, 1]), features={"x": TEN})
    with pytest.raises(IncompatibleGuarantees, match="per user"):
        learner.learn(items, ledger=ledger)
    with pytest.raises(SchemaError):
        learner.learn(UserData.from_users([[(11, 0)]]), ledger=ledger)
    big = RealizableSelection(Thresholds(Floats(), "x"), epsilon=1)
    wide = UserData.from_users([[(0.5, 1)]], features={"x": Floats()})
    with pytest.raises(TooLargeError, match="several records"):
        AgnosticReduction(big, **SHAPE, users="whole", max_records=3).learn(wide, ledger=ledger)
    assert ledger.history() == () if callable(ledger.history) else ledger.history == ()
    released = learner.learn(FEW, ledger=ledger)
    assert released.guarantee == learner.guarantee


# What leaves


def test_results_show_public_numbers_only() -> None:
    learner = AgnosticReduction(INNER, **SHAPE)
    released = learner.learn(FEW)
    assert released.guarantee == learner.guarantee
    assert set(released.parameters) == {
        *(
            "class",
            "size",
            "tolerance",
            "A",
            "B",
            "levels",
            "users",
            "eta",
            "split_rate",
            "epsilon_inner",
            "delta_inner",
        )
    }
    assert released.predict(np.array([[0], [9]])).shape == (2,)
    assert Released.from_json(released.to_json()).guarantee == learner.guarantee
    assert released.learner == "agnostic reduction of realizable selection"


@pytest.mark.parametrize("users", [[], [[]], [[(1, 1)]], [[], [], [(4, 0)]]])
def test_small_data_are_ordinary_under_add_remove(users: list[Any]) -> None:
    learner = AgnosticReduction(INNER, **SHAPE)
    assert learner.learn(people(users))
    law = learner.law(people(users))
    assert sum(law.prob(cut).lo for cut in range(11)) <= 1 <= sum(law.prob(cut).hi for cut in range(11))


def test_nothing_in_the_part_means_no_data_for_the_inner_learner() -> None:
    law = AgnosticReduction(INNER, **SHAPE).law(FEW, given=())
    assert all(law.prob(cut).lo <= Fraction(1, 11) <= law.prob(cut).hi for cut in range(11))


def test_labels_of_the_part_are_never_read() -> None:
    learner = AgnosticReduction(INNER, **SHAPE)
    flipped = people([[(3, 1), (8, 0)], [(2, 1)], [(9, 1), (5, 1), (5, 0)], []])
    a, b, c = learner.law(FEW, given=(0, 1)), learner.law(flipped, given=(0, 1)), learner.law(flipped, given=(1, 2))
    assert all(a.prob(cut) == b.prob(cut) for cut in range(11))
    assert any(learner.law(FEW, given=(1, 2)).prob(cut) != c.prob(cut) for cut in range(11))


def test_splits_and_orders_are_uniform() -> None:
    """Six ordered pairs out of three units: 480 draws, each pair 80 +- 50 (false alarm below 1e-7)."""
    data = people([[(1, 0)], [(2, 0)], [(3, 0)]])
    learner = AgnosticReduction(Echo(), **(FIXED | {"split_size": 2}), public_n_users=3)
    with insecure_randomness():
        rng = SeededRng(5)
        seen = Counter(tuple(row[0][0] for row in eval(learner.learn(data, rng=rng).value)) for _ in range(480))
    assert set(seen) == {(i, j) for i in (1, 2, 3) for j in (1, 2, 3) if i != j}
    assert all(abs(count - 80) < 50 for count in seen.values())


@pytest.mark.parametrize("shape", [SHAPE, FIXED | {"public_n_users": 4}])
def test_draws_follow_the_exact_law(shape: dict[str, Any]) -> None:
    """Every ordered, relabelled T against its probability: 400 draws, deviations below 6 standard deviations plus 6."""
    learner = AgnosticReduction(Echo(), **shape)
    law = learner.law(FEW)
    with insecure_randomness():
        rng = SeededRng("law")
        seen = Counter(learner.learn(FEW, rng=rng).value for _ in range(400))
    values = list(law.as_finite().values())
    assert set(seen) <= set(values)
    for value in values:
        p = law.prob_float(value)
        assert abs(seen[value] - 400 * p) < 6 * (400 * p * (1 - p)) ** 0.5 + 6


def test_laws_over_too_many_splits_are_refused() -> None:
    data = people([[(i % 10, i % 2)] for i in range(40)])
    learner = AgnosticReduction(INNER, **SHAPE)
    with pytest.raises(TooLargeError, match="given="):
        learner.law(data)
    assert learner.law(data, given=range(5)).mode in range(11)
    for bad in ((0, 0), (40,), (-1,)):
        with pytest.raises(ParameterError, match="given"):
            learner.law(data, given=bad)
    fixed = AgnosticReduction(INNER, **(FIXED | {"split_size": 20}), public_n_users=40)
    with pytest.raises(TooLargeError, match="max_splits"):
        fixed.law(data)
    with pytest.raises(ParameterError, match="20 positions"):
        fixed.law(data, given=(1, 2))


# Inner learners


def noisy(n: int, noise: float, seed: int, m: int = 1) -> UserData:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 10, (n, m))
    y = (x >= 4) ^ (rng.random((n, m)) < noise)
    return people([[(int(a), int(b)) for a, b in zip(*row)] for row in zip(x, y)])


@pytest.mark.parametrize(
    "inner",
    [
        RealizableSelection(CUTS, epsilon="1/2"),
        RegretSelection(CUTS, epsilon="1/2"),
        RealizableSelection(Points(TEN, "x"), epsilon="1/2"),
        RealizableSelection(Intervals(TEN, "x"), epsilon="1/2"),
    ],
    ids=["realizable", "regret", "points", "intervals"],
)
@pytest.mark.parametrize("users", ["hybrid", "one"])
def test_library_learners_run_inside(inner: Any, users: str) -> None:
    learner = AgnosticReduction.for_target(inner, epsilon=2, public_n_users=400, users=users)
    assert learner.learn(noisy(400, 0.2, 1, 3)).guarantee == learner.guarantee


def test_noise_that_defeats_the_inner_learner_is_survived() -> None:
    """Labels wrong one time in four: on T the inner learner sees clean labels of a good cut (false alarm far below
    1e-6)."""
    data = noisy(6000, 0.25, 3)
    learner = AgnosticReduction.for_target(RealizableSelection(CUTS, epsilon=1), epsilon=2, public_n_users=6000)
    with insecure_randomness():
        cuts = [learner.learn(data, rng=SeededRng(i)).value.cut for i in range(5)]
    assert all(3 <= cut <= 5 for cut in cuts)


def test_trees_learn_a_place_from_noisy_labels() -> None:
    """Seven nodes: 0, 1 and 2 below 0, 5 below 1; 3, 4 below 3.  Wrong labels one time in five, and the node is found
    all the same."""
    paths: list[set[int]] = [set(), {0}, {0, 1}, {0, 2}, {3}, {3, 4}, {0, 1, 5}]
    tree = VC1Tree.from_matrix(
        [[int(x in path) for x in range(6)] for path in paths], root=0, domain=Integers(0, 5), feature="x"
    )
    rng = np.random.default_rng(2)
    x = rng.integers(0, 6, 8000)
    y = np.isin(x, [0, 1]) ^ (rng.random(8000) < 0.2)
    data = UserData.from_users([*([(int(a), int(b))] for a, b in zip(x, y)), []], features={"x": Integers(0, 5)})
    inner = TreeLearner(tree, epsilon=2, parts=150)
    learner = AgnosticReduction.for_target(inner, epsilon=3, public_n_users=8000, least_split=1500)
    assert learner.guarantee.epsilon <= 3
    assert learner.concept is tree
    with insecure_randomness():
        found = [learner.learn(data, rng=SeededRng(i)).value for i in range(3)]
    for rule in found:
        assert rule.predict(np.arange(6)[:, None]).tolist() == [1, 1, 0, 0, 0, 0]


def test_open_vocabularies_need_an_inner_learner_for_users() -> None:
    """Users without records stay empty there, which a promise about single records does not cover."""
    tree = PrefixTree(3)
    data = UserData.from_users([[("a/b", 1)], []], features={"x": Texts()})
    shape: dict[str, Any] = SHAPE | {"eta": "1/100"}
    users = AgnosticReduction(TreeLearner(tree, epsilon=1, delta="1e-6"), **shape)
    assert users.relabelling.bind(data).users.n_records == 1
    with pytest.raises(IncompatibleGuarantees, match="open vocabulary"):
        AgnosticReduction(TreeLearner(tree, epsilon=1, delta="1e-6", unit="item"), **shape).learn(data)


def test_empirical_learner_fits_inside_under_replace() -> None:
    base = RealizableSelection(CUTS, epsilon="1/20", neighbours="replace")
    inner = EmpiricalLearner(base, draws=200, size=40)
    learner = AgnosticReduction(inner, 3, 1, eta="1/100", split_size=40, public_n_users=400, neighbours="replace")  # type: ignore[arg-type]
    assert learner.learn(noisy(400, 0.1, 4)).guarantee == learner.guarantee
    with pytest.raises(ParameterError, match="size = 40"):
        AgnosticReduction(inner, 3, 1, eta="1/100", split_size=41, public_n_users=400, neighbours="replace").learn(
            noisy(400, 0.1, 4)
        )  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="size = 40"):
        inner.learn(noisy(39, 0.1, 4))
    with pytest.raises(TooLargeError, match="max_draws"):
        inner.law(noisy(40, 0.1, 4))
    released = inner.learn(noisy(40, 0.1, 4))
    assert released.parameters["draws"] == 200
    assert released.guarantee == inner.guarantee


def test_ordered_bases_are_averaged_over_sequences() -> None:
    class First:
        concept = CUTS
        guarantee = Guarantee(1, unit="user", neighbours="replace")

        def law(self, data: UserData) -> Law:
            return Law.point(int(data.codes["x"][0]))

    law = EmpiricalLearner(First(), 2, 3).law(people([[(1, 0)], [(2, 0)], [(2, 1)]]))
    assert law.prob_exact(1) == Fraction(1, 3)
    assert law.prob_exact(2) == Fraction(2, 3)


# Coins


def test_coins_are_exact_at_the_edge() -> None:
    third = (1 << 64) // 3  # 2**64 / 3 has the fractional part 1/3, so a tie asks again with probability 1/3
    with insecure_randomness():
        got = coins(4, Fraction(1, 3), WordRng([third - 1, third + 1, third, third, third - 1, third + 1]))
        assert got.tolist() == [True, False, True, False]
        assert coins(3, Fraction(1), WordRng([])).tolist() == [True] * 3
        assert not coins(2000, Fraction(0), SeededRng(1)).any()


def test_numbers_below_reject_what_would_bias_them() -> None:
    with insecure_randomness():
        # 2**64 mod 6 = 4: the words 0..3 are drawn again.
        assert below([6, 1, 6], WordRng([3, 10, 4])).tolist() == [4, 0, 4]
        rng = SeededRng(3)
        seen = Counter(below(np.full(6000, 3), rng).tolist())
    assert set(seen) == {0, 1, 2}
    assert all(abs(count - 2000) < 250 for count in seen.values())


def test_orders_are_drawn_again_when_words_tie() -> None:
    with insecure_randomness():
        assert random_order(3, WordRng([5, 5, 1, 9, 2, 4])).tolist() == [1, 2, 0]
    assert random_order(0, WordRng([])).tolist() == []
    assert random_order(1, WordRng([])).tolist() == [0]


def test_an_accuracy_out_of_reach_is_said_before_any_data() -> None:
    inner = RealizableSelection(Thresholds(Integers(0, 99)), epsilon="1/2")
    with pytest.warns(AccuracyWarning, match="users certify it"):
        learner = AgnosticReduction.for_target(inner, epsilon=1, public_n_users=3000, alpha="1/10")
    assert any("not certified for 3000 users" in line for line in learner.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = AgnosticReduction.for_target(inner, epsilon=1, public_n_users=10**6, alpha="1/10")
    assert quiet.note is None
    drawn = EmpiricalLearner(
        RealizableSelection(Thresholds(Integers(0, 99)), epsilon="1/2", neighbours="replace"), draws=10, size=10
    )
    with pytest.raises(ParameterError, match="inner_error"):
        AgnosticReduction.for_target(drawn, epsilon=1, public_n_users=3000, alpha="1/10", neighbours="replace")


# Resolution and excess


def test_losses_have_as_many_steps_as_everywhere_else() -> None:
    assert attrs.fields_dict(Relabelling)["_levels"].default == DEFAULT_LEVELS
    assert signature(plan_service).parameters["levels"].default == DEFAULT_LEVELS


def test_too_few_levels_for_an_error_are_said_before_any_data() -> None:
    inner = RealizableSelection(CUTS, epsilon="1/2")
    shape: dict[str, Any] = {"epsilon": 1, "public_n_users": 42_000, "alpha": ".1", "beta": ".05"}
    with pytest.warns(AccuracyWarning, match=r"losses in 4 steps are rounded by up to 0.25; raise levels"):
        AgnosticReduction.for_target(inner, levels=4, **shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AgnosticReduction.for_target(inner, **shape)
        AgnosticReduction.for_target(inner, users="one", **shape)  # one record: a loss is 0 or 1, nothing is rounded


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_learner_has_the_constants_that_were_certified(neighbours: str) -> None:
    inner = RealizableSelection(CUTS, epsilon="1/2", neighbours=neighbours)  # type: ignore[arg-type]
    learner = AgnosticReduction.for_target(inner, epsilon=1, public_n_users=50_000, neighbours=neighbours)
    sure = certify_reduction(
        alpha="0.9",
        beta="1/20",
        epsilon=1,
        log_growth=lambda t: log(CUTS.growth(t)),
        inner_error=selection_error(CUTS.log_size, neighbours),
        inner_epsilons=(inner.epsilon,),
        levels=learner.levels,
        neighbours=neighbours,
        n_users=50_000,
    )
    law = learner.relabelling
    assert (sure["levels"], sure["users"]) == (DEFAULT_LEVELS, "hybrid")
    assert (law.share * 50_000, float(law.a), float(law.b)) == (sure["split_size"], sure["a"], sure["b"])


def test_more_people_with_many_records_err_less_without_noise() -> None:
    """With 16 steps error rates below 1/16 vanish, and the mean excess stays near 0.02 whatever the number of
    people."""
    domain = Integers(0, 999)
    found = {}
    for n in (1000, 4000):
        learner = AgnosticReduction.for_target(
            RealizableSelection(Thresholds(domain), epsilon="1/2"), epsilon=1, public_n_users=n
        )
        with insecure_randomness():
            runs = []
            for seed in range(6):
                rng = np.random.default_rng((n, seed))
                x = rng.integers(0, 1000, n * 100)
                data = UserData.from_arrays(
                    x, (x >= 400).astype(int), np.repeat(np.arange(n), 100), features={"x": domain}
                )
                runs.append(abs(learner.learn(data, rng=SeededRng(seed)).value.cut - 400) / 1000)
        found[n] = sum(runs) / len(runs)
    assert found[4000] <= 1.15 * found[1000] + 0.002
    assert found[4000] < 0.008
