"""Predictions for trees, medians, selection among distributions and agreement without a curator.

Wherever a generator can be seeded it is, also for the independent runs: such a test says the same every time and raises
no false alarm. Tolerances are six standard errors or wider, so that another seed would pass as well with probability
above 1 - 1e-6.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.bisection import least_about
from privpac.data import Integers, UserData
from privpac.device.randomizers import ChunkedHadamard, ShuffleSelection
from privpac.distributions import family_plan as cover_models
from privpac.distributions.family_plan import family_target
from privpac.distributions.quantiles.median_plan import median_simulations, median_target
from privpac.distributions.selection.selector import HypothesisSelector
from privpac.errors import AccuracyWarning
from privpac.law import BOTTOM
from privpac.mechanisms.interior_point import InteriorPoint
from privpac.methods import TreeLearner
from privpac.methods.agreement.plurality import CLEAR
from privpac.methods.hierarchy.tree_learner import NamedParts
from privpac.methods.hierarchy.tree_plan import TreeSimulation, tree_target
from privpac.papers.few_examples_per_user.covers import CoverLearner
from privpac.protocols import agreement_plan as protocol_models
from privpac.protocols.agreement_plan import agreement_target, local_winner, protocol_simulations, shuffle_winner
from privpac.protocols.analyzer import decode_counts, decode_reports
from privpac.rules import AddressTree, PathTree, PrefixTree, StarTree, Thresholds
from privpac.testing import SeededRng, insecure_randomness

CUTS = Thresholds(Integers(0, 99), "x")
MEDIAN = "median by the exponential mechanism"


def tree_model(tree: Any, delta: Any = 0, alpha: str = "0.1", beta: str = "0.05") -> TreeSimulation:
    asked: dict[str, Any] = {
        "epsilon": 1,
        "delta": delta,
        "alpha": alpha,
        "beta": beta,
        "neighbours": "add-remove",
        "simple": False,
    }
    return TreeSimulation(tree_target(tree, **asked))


# Certified, predicted and shown


PLANS: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "open tree": (PrefixTree(2), {"delta": "1e-6"}, ("tree learner",)),
    "path": (PathTree(1000), {}, ("tree learner", "selection from all rules")),
    "points": (StarTree(Integers(0, 99)), {}, ("tree learner",)),
    "selection": ("selection", {"k": 6}, ("hypothesis selection",)),
    "discrete": (
        "discrete",
        {"k": 3},
        ("selection from a cover", "averaged histogram", "clipped histogram, one stage"),
    ),
    "histograms": ("histogram", {"k": 3, "d": 2}, ("averaged histogram", "clipped histogram, one stage")),
    "gaussian": ("gaussian", {"radius": 4}, ("selection from a cover", "coarse-to-fine mean")),
    "normal of unknown variance": (
        "gaussian",
        {"radius": 1, "variance": 1, "max_variance": 2, "alpha": "0.4"},
        ("selection from a cover",),
    ),
    "median": ("median", {"bits": 40}, (MEDIAN,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PLANS))
def test_predicted_users_are_fewer_than_certified_and_never_called_certified(name: str) -> None:
    what, shape, methods = PLANS[name]
    found = pp.plan(what, **{"epsilon": 1, "alpha": "0.2", "records_per_user": (4, 16), **shape})
    assert found.quick
    assert tuple(row.method for row in found.predicted) == methods
    for row in found.predicted:
        assert row.kind == "predicted"
        assert "simulated model" in row.assumption
        assert row.assumption.startswith("mean ")
        assert row.states.startswith("mean ")
        assert row.states.endswith("at most alpha")
        assert row.standard_error is not None
        assert row.standard_error <= 0.05 or "standard error" in row.note
        for predicted, certified in zip(row.n_users, found.row(row.method).n_users):
            assert predicted is not None
            assert 1 <= predicted <= certified
    assert {row.kind for row in found.rows} <= {"certified", "lower bound"}
    body = json.loads(json.dumps(found.to_dict()))
    assert [(row["method"], row["kind"]) for row in body["predicted"]] == [(method, "predicted") for method in methods]
    assert [tuple(row["n_users"]) for row in body["predicted"]] == [row.n_users for row in found.predicted]
    for row in found.main_rows(predict=True):
        assert f"{'typical, ' * (row.kind == 'predicted')}{row.method}"[:40] in str(found) or row.kind == "lower bound"
    text = str(
        pp.plan(what, **{"epsilon": 1, "alpha": "0.2", "records_per_user": (4, 16), **shape, "every_method": True})
    )
    certified_part, predicted_part = text.split("certified:", 1)[1].split("typical:", 1)
    assert methods[0] in predicted_part
    assert "typical (" in predicted_part
    assert "typical" not in certified_part


@pytest.mark.parametrize("name", ["path", "selection", "median"])
def test_what_so_many_users_get_is_predicted_as_well(name: str) -> None:
    what, shape, _ = PLANS[name]
    few, many = (pp.plan(what, epsilon=1, n_users=n, records_per_user=4, **shape) for n in (30, 300))
    assert few.predicted[0].values[0] > many.predicted[0].values[0]
    assert many.predicted[0].values[0] < many.rows[0].values[0]
    epsilon = pp.plan(what, alpha="0.2", n_users=300, records_per_user=4, **shape)
    assert epsilon.quantity == "epsilon"
    assert 0 < epsilon.predicted[0].values[0] <= epsilon.rows[0].values[0]


def test_a_question_that_takes_long_is_not_simulated_unasked() -> None:
    found = pp.plan("product", k=2, d=2, epsilon=1, records_per_user=1)
    assert not found.quick
    assert "predicted" not in str(found)
    assert pp.plan("product", k=2, d=2, epsilon=1, alpha="0.3", records_per_user=1).quick


@given(st.integers(1, 5000), st.integers(1, 9000), st.integers(1, 6000), st.sampled_from([4, 16, 64]))
@settings(max_examples=300, deadline=None)
def test_the_search_ends_just_above_the_least_number(least: int, start: int, most: int, fine: int) -> None:
    found = least_about(lambda n: n >= least, start=start, most=most, fine=fine)
    if least > most:
        assert found is None
    else:
        assert found is not None
        assert least <= found <= min(most, least + max(1, found // fine))


# Trees


def expected_error(simulation: TreeSimulation, learner: TreeLearner, target: Any, depths: Any) -> float:
    """From the law over nodes that the learner itself writes out, on nodes of the real tree."""
    tree, D, share = simulation.target.tree, simulation.depth, simulation.share
    above = [tree.ancestor(target, d) for d in range(1, D + 1)]
    law = learner.choice(tree).law(NamedParts(tree, [tree.ancestor(target, int(y)) for y in depths]))
    total = 0.0
    for cell, number in law.as_finite().cells:
        for v in cell if isinstance(cell, range) else [cell]:
            node = tree.root if v is BOTTOM else v
            lost = sum(not tree.is_ancestor(a, node) for a in above)
            below = max(0, tree.depth(node) - D) if simulation.path else 0
            error = share * lost / D + (Fraction(below, tree.height) if simulation.path else 0)
            total += float(number.arb()) * float(error)
    return total


@pytest.mark.parametrize("case", ["open", "star", "path", "addresses"])
def test_the_mean_error_is_that_of_the_learners_own_law(case: str) -> None:
    tree, target, delta = {
        "open": (PrefixTree(6), ("a", "b", "c"), Fraction(1, 10**6)),
        "star": (StarTree(Integers(0, 9)), (4,), Fraction(0)),
        "path": (PathTree(40), 20, Fraction(0)),
        "addresses": (
            AddressTree(4, 6),
            AddressTree(4, 6).ancestor(AddressTree(4, 6).node("200.0.0.0"), 3),
            Fraction(0),
        ),
    }[case]
    simulation = tree_model(tree, delta)
    assert tree.depth(target) == simulation.depth
    learner = TreeLearner(tree, 1, delta)
    followed = np.array([1 - learner.accuracy.budget.missed(v) for v in range(200)])
    for n, m in ((3, 1), (25, 2), (70, 3), (160, 6)):
        depths = simulation._depths(n, m, seed=n)
        mine, exact = simulation._one(learner, depths, followed), expected_error(simulation, learner, target, depths)
        if case == "addresses":  # other nodes count as wrong on the whole path, though some share a part of it
            assert exact <= mine <= exact + 0.1
        else:
            assert mine == pytest.approx(exact, rel=1e-9, abs=1e-15)


def test_depths_follow_from_records_of_the_model() -> None:
    rng = np.random.default_rng(5)
    for tree, m in ((PrefixTree(9), 1), (PrefixTree(9), 4), (PathTree(30), 3), (PathTree(1 << 80), 3)):
        simulation = tree_model(tree, "1e-6")
        D, share, n = simulation.depth, float(simulation.share), 20_000
        drawn = simulation._depths(n, m, seed=1).astype(np.float64) / D
        inside = rng.random((n, m)) < share
        seen = (inside * np.ceil(rng.random((n, m)) * min(D, 1 << 40)) / min(D, 1 << 40)).max(axis=1)
        for at in (0.0, 0.3, 0.7, 0.95):
            assert abs(np.mean(drawn <= at + 1e-9) - np.mean(seen <= at + 1e-9)) < 6 * math.sqrt(0.5 / n)


def test_the_predicted_users_of_a_path_bracket_alpha_in_independent_runs() -> None:
    """The learner's exact law on tables of uniform values, other seeds and four times as many data sets."""
    tree, m = PathTree(Integers(0, 63), "x"), 3
    simulation = tree_model(tree, alpha="0.05")
    n = simulation.users(m)
    assert n is not None
    learner = simulation._planned(m)

    def mean(users: int) -> float:
        found = []
        for seed in range(30):
            x = np.random.default_rng([1000, seed]).integers(0, 64, users * m)
            data = UserData.from_arrays(x, x < 32, np.repeat(np.arange(users), m), features={"x": Integers(0, 63)})
            law = learner.law(data).as_finite()
            found.append(sum(float(law.prob(v)) * abs(v - 32) / 64 for v in range(65)))
        return float(np.mean(found))

    assert mean(2 * n) < 0.05 < mean(n // 2)
    assert mean(n) == pytest.approx(0.05, abs=0.02)


def test_more_records_and_more_users_help_and_high_trees_are_simulated() -> None:
    simulation = tree_model(PrefixTree(16), "1e-6")
    excess = [[simulation.at(m, n, Fraction(1)).excess for n in (60, 120, 320)] for m in (1, 8)]  # type: ignore[union-attr]
    assert excess[0][0] > excess[0][1] > excess[0][2]
    assert all(more <= fewer for fewer, more in zip(*excess))
    walk = tree_model(PathTree(1 << 300), "1e-6", beta="1e-8")
    found = walk.at(64, 4000, Fraction(1))
    assert found is not None
    assert found.excess < 0.1  # three runs by hidden walks, each outside its ranks with probability at most 1e-8/3


# Medians


def test_the_share_of_ranks_is_that_of_runs_of_the_mechanism() -> None:
    simulation = median_simulations(median_target(bits=20, epsilon=1, alpha="0.05"))[0]
    n = 25
    predicted = simulation.at(1, n, Fraction(1))
    assert predicted is not None
    rng, found = np.random.default_rng(77), []
    with pytest.warns(AccuracyWarning):
        point = InteriorPoint.median(1, n_users=n, top=(1 << 20) - 1, levels=0)
    with insecure_randomness():
        for seed in range(600):
            numbers = rng.integers(0, 1 << 20, n)
            z: Any = point.sample(numbers, SeededRng(seed))
            found.append(max(0.0, 0.5 - min(np.sum(numbers <= z), np.sum(numbers >= z)) / n))
    assert abs(np.mean(found) - predicted.excess) < 6 * math.hypot(
        np.std(found) / math.sqrt(len(found)), predicted.error
    )


def test_the_predicted_users_of_a_median_bracket_alpha() -> None:
    target = median_target(Integers(0, 1440), epsilon=1, alpha="0.05")
    (simulation,) = median_simulations(target)
    n = simulation.users(1)
    assert n is not None
    for users, below in ((2 * n, True), (n // 2, False)):
        found = simulation.at(1, users, Fraction(1))
        assert found is not None
        assert (found.excess < 0.05) is below


def test_medians_by_hidden_walks_are_run_and_very_long_numbers_are_left_out() -> None:
    target = median_target(bits=300, epsilon=1, delta="1e-6", beta="1e-8")
    both = median_simulations(target)
    assert [made.method for made in both] == [MEDIAN, "median, best number of hidden walks"]
    found = both[1].at(1, 4000, Fraction(1))
    assert found is not None
    assert (
        found.excess <= target.window("auto") / 2 / 4000 + 0.001
    )  # three runs, each outside the window with probability at most 1e-8
    assert median_simulations(median_target(bits=1 << 12, epsilon=1)) == []


# Selection


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_the_mean_over_candidates_is_that_of_the_selectors_law(relation: str) -> None:
    target: Any = family_target("selection", epsilon=1, alpha="0.1", k=6, neighbours=relation)
    (simulation,) = target.simulations()
    ready = simulation.prepare(target, 4, Fraction(1))
    weights, domains = cover_models._walsh(target)
    laws = np.array(weights) / np.sum(weights[0])
    apart = [float(np.abs(p - q).sum() / 2) for i, p in enumerate(laws) for q in laws[:i]]
    assert apart == pytest.approx([0.2] * 15)
    learner = HypothesisSelector(
        weights, 1, candidates_are="public", records_per_user=4, alpha="0.1", beta="0.05", opt=0, neighbours=relation
    )
    values = ready.draw(80, np.random.default_rng(3))
    people = UserData.from_arrays(values, None, np.repeat(np.arange(20), 4), features=dict(domains))
    law = learner.law(people)
    wrong = 1 - float(law.prob(0))
    assert ready.mean(20, 4, np.random.default_rng(3)) == pytest.approx(0.2 * wrong, rel=1e-9)


@pytest.mark.parametrize(
    ("family", "shape"), [("discrete", {"k": 3}), ("product", {"k": 2, "d": 2}), ("gaussian", {"radius": 3})]
)
def test_the_mean_over_a_cover_is_that_of_the_learners_law(family: str, shape: dict[str, Any]) -> None:
    target = family_target(family, epsilon=1, alpha="0.4", **shape)
    (simulation,) = (made for made in target.simulations() if made.method == "selection from a cover")
    ready = simulation.prepare(target, 3, Fraction(1))
    described = target.law if family == "gaussian" else target.described  # type: ignore[union-attr]
    learner = CoverLearner(described, 1, alpha="0.4", beta="0.05", records_per_user=3)
    values = ready.draw(45, np.random.default_rng(8))
    people = UserData.from_arrays(values, None, np.repeat(np.arange(15), 3), features=dict(ready.domains))
    law, cover, mean = learner.law(people), learner.cover(dict(ready.domains)), 0.0
    for i in range(cover.size):
        member: Any = cover.member(i)
        if family == "gaussian":
            away = 2 * math.erf(abs(member.mean[0] - 1.5) / 2 / math.sqrt(2)) / 2
        else:
            parts = [part.probabilities for part in getattr(member, "parts", (member,))]
            right = [np.arange(1, len(p) + 1) / sum(range(1, len(p) + 1)) for p in parts]
            mine, true = parts[0], right[0]
            for p, q in zip(parts[1:], right[1:]):
                mine, true = np.outer(mine, p).ravel(), np.outer(true, q).ravel()
            away = float(np.abs(mine - true).sum() / 2)
        mean += float(law.prob(i)) * away
    assert ready.mean(15, 3, np.random.default_rng(8)) == pytest.approx(mean, rel=1e-8)


def test_the_predicted_users_of_selection_bracket_alpha_in_a_larger_run() -> None:
    for family, k in (("selection", 8), ("discrete", 2)):
        target = family_target(family, epsilon=1, alpha="0.1", k=k)
        simulation = target.simulations()[0]
        n = simulation.users(2)
        assert n is not None
        ready = simulation.prepare(target, 2, Fraction(1))
        many, few = (
            np.mean([ready.mean(users, 2, np.random.default_rng([500, seed])) for seed in range(60)])
            for users in (2 * n, n // 3)
        )
        assert many < 0.1 < few


def test_given_candidates_are_simulated_on_the_first_of_them() -> None:
    given_laws = [[1, 1, 1, 5], [2, 2, 2, 2], [5, 1, 1, 1]]
    target = family_target("selection", candidates=given_laws, domains={"x": Integers(1, 4)}, epsilon=1, alpha="0.2")
    (simulation,) = target.simulations()
    assert "the first of the given candidates" in simulation.model
    predicted, certified = simulation.users(4), target.methods()[0].certify(4).n_users
    assert predicted is not None
    assert certified is not None
    assert predicted <= certified


# Agreement without a curator


def test_local_runs_are_decoded_as_the_analyzer_does() -> None:
    """Shares of right answers among 300 runs each, of drawn arrays and of real reports: within six standard errors."""
    for bits, width, n in ((5, 5, 60), (6, 3, 1000)):
        select = ChunkedHadamard(bits, Fraction(3, 4), width)
        items = np.array([19] * (n * 8 // 10) + [3] * (n // 10) + [-1] * (n - n * 8 // 10 - n // 10))
        mine = np.mean([local_winner(select, items, np.random.default_rng(seed)) == 19 for seed in range(300)])
        with insecure_randomness():
            rng = SeededRng(9)
            real = np.mean(
                [
                    decode_reports(
                        select, [select.report(None if i < 0 else i, rng) for i in items.tolist()], float(CLEAR)
                    )
                    == 19
                    for _ in range(60)
                ]
            )
        assert 0.05 < mine < 0.95
        assert abs(mine - real) < 6 * math.sqrt(0.25 / 300 + 0.25 / 60)


def test_shuffled_runs_are_decoded_as_the_analyzer_does() -> None:
    for size, width, n in ((6, 0, 60), (40, 3, 300)):
        select = ShuffleSelection(size, Fraction(7), Fraction(4, 5), n, 1 << 18, width)
        items = np.array([5] * (n * 7 // 10) + [2] * (n // 10) + [-1] * (n - n * 7 // 10 - n // 10))
        mine = np.mean([shuffle_winner(select, items, np.random.default_rng(seed)) == 5 for seed in range(300)])
        with insecure_randomness():
            rng, right = SeededRng(4), []
            for _ in range(24):
                sent = [bucket for i in items.tolist() for bucket in select.messages(None if i < 0 else i, rng)]
                right.append(decode_counts(select, select.counts(sent, n), n, float(CLEAR)) == 5)
        assert abs(mine - np.mean(right)) < 6 * math.sqrt(0.25 / 300 + 0.25 / 24)
        assert mine > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("model", "delta"), [("local", 0), ("shuffle", "1e-6")])
def test_agreement_without_a_curator_is_predicted(model: str, delta: Any) -> None:
    found = pp.plan(CUTS, model=model, epsilon=1, delta=delta, alpha="0.1", records_per_user=512)
    (row,) = found.predicted
    assert row.method == f"{model} agreement"
    assert row.kind == "predicted"
    assert "public seeds" in row.assumption
    needed = found.row(f"{model} agreement, if 9 in 10 users agree").n_users[0]
    assert row.n_users[0] is not None
    assert row.n_users[0] <= needed  # with so many records nearly all name neighbouring rules
    text = str(found)
    assert f"typical, {model} agreement" in text
    assert json.loads(json.dumps(found.to_dict()))["predicted"][0]["n_users"] == list(row.n_users)
    simulation = protocol_simulations(agreement_target(CUTS, model=model, epsilon=1, delta=delta, alpha="0.1"))[0]
    many, few = (simulation.at(512, n, Fraction(1), 0.1) for n in (2 * row.n_users[0], row.n_users[0] // 2))
    assert many is not None
    assert few is not None
    assert many.excess < 0.1 < few.excess


def test_people_with_too_few_records_have_nothing_to_say() -> None:
    (simulation,) = protocol_simulations(agreement_target(CUTS, model="local", epsilon=1))
    assert simulation.users(4) is None  # the protocol asks for 20 records
    default = simulation.at(4, 4000, Fraction(1))
    assert default is not None
    assert default.excess > 0.2


def test_seeded_predictions_repeat_exactly() -> None:
    target = family_target("selection", epsilon=1, alpha="0.1", k=5)
    first, again = (target.simulations()[0].at(4, 20, Fraction(1)) for _ in range(2))
    assert first is not again
    assert first == again
    seeded: list[Any] = [tree_model(PrefixTree(5), "1e-6"), *median_simulations(median_target(bits=16, epsilon=1))]
    seeded += protocol_simulations(agreement_target(CUTS, model="local", epsilon=1))
    for simulation in seeded:
        found = simulation.at(32, 60, Fraction(1))
        protocol_models._named.cache_clear()
        assert simulation.at(32, 60, Fraction(1)) == found
