"""What a plan says beyond its certificates: recommendation, cost of a record, predictions on stated and supplied
models."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import privpac as pp
from privpac.bounds import lower_littlestone, plan_realizable, plan_tree
from privpac.data import UserData
from privpac.errors import ParameterError
from privpac.methods.registry import METHODS
from privpac.methods.regret import RegretSelection
from privpac.methods.simulation import predicted_users
from privpac.planning import Plan, choose_method, plan
from privpac.planning.plans import NAMES, meanings
from privpac.planning.rules import CLEARLY
from privpac.rules import PathTree
from privpac.rules.named import RULES, rule_class
from privpac.rules.populations import (
    declared_population,
    generated_population,
    public_population,
    sampled_population,
)

CUTS = pp.Thresholds(pp.Integers(0, 99), "x")


@pytest.fixture(scope="module")
def planned() -> Plan:
    return plan(CUTS, epsilon=1, alpha="0.1", records_per_user=(4, 16))


@pytest.fixture(scope="module")
def whole() -> Plan:
    return plan(CUTS, epsilon=1, alpha="0.1", records_per_user=(4, 16), every_method=True)


# Recommendation


def test_the_recommendation_has_the_fewest_typical_users(planned: Plan) -> None:
    typical: dict[str, Any] = {row.method: row.n_users[1] for row in planned.predicted}
    found = planned.recommendation
    assert found is not None
    assert typical[METHODS[found.method].title] <= CLEARLY * min(
        n for method, n in typical.items() if method != "realizable selection"
    )
    assert f"recommended: {found.method}, because" in str(planned).replace("\n", " ")
    declared = plan(CUTS, epsilon=1, n_users=40, records_per_user=16)
    assert declared.recommendation == choose_method(CUTS, epsilon=1, public_n_users=40, records_per_user=16)
    realizable = plan(CUTS, epsilon=1, records_per_user=4, setting="realizable")
    assert realizable.recommendation is not None
    assert realizable.recommendation.method == "realizable"


def test_the_recommendation_is_judged_where_the_reader_stands() -> None:
    """Regret was recommended at the certified 1,787 users, to people of whom 30 are typically enough by averages and
    123 by regret."""
    found = plan(
        pp.Thresholds(pp.Integers(0, 1440)),
        epsilon=1,
        alpha="0.03",
        records_per_user=16,
        people="differ",
        setting="agnostic",
    )
    typical = {row.method: row.n_users[0] for row in found.predicted}
    assert typical["per-user mean"] < typical["hybrid selection"] < typical["regret selection"]
    assert found.recommendation is not None
    assert found.recommendation.method == "mean"
    assert all(f"{n:,}" in found.recommendation.reason for n in typical.values())


def test_every_kind_of_number_is_explained_in_words_and_json(planned: Plan, whole: Plan) -> None:
    text = " ".join(str(whole).split())
    for kind, said in meanings(planned).items():
        assert f"{NAMES[kind]}: {said}" in text
    assert planned.to_dict(predict=False)["meaning"] == {NAMES[kind]: said for kind, said in meanings(planned).items()}
    inverse = plan(CUTS, epsilon=1, n_users=100, records_per_user=4)
    assert meanings(inverse) != meanings(planned)


def test_plans_hold_the_command_of_every_certified_row(planned: Plan, whole: Plan) -> None:
    runs = planned.to_dict(predict=False)["runs"]
    for m in (4, 16):
        for row in planned.rows:
            if row.kind == "certified":
                assert runs[str(m)][row.method]["command"] == planned.command(row, records_per_user=m)
    assert planned.command("regret selection", records_per_user=16) in " ".join(str(whole).split())
    assert planned.command("hybrid selection", records_per_user=16) in " ".join(str(planned).split())


def test_nothing_is_simulated_before_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("simulated")

    monkeypatch.setattr("privpac.rules.populations.Population.draw", fail)
    found = plan(CUTS, epsilon=1, records_per_user=3)
    assert found.row("regret selection").n_users[0] > 0
    assert set(found.cost_per_record) == {row.method for row in found.rows if row.kind == "certified"}


@pytest.mark.slow
def test_what_is_declared_of_the_people_changes_the_advice_and_no_certificate() -> None:
    alike, differ = (
        plan(CUTS, epsilon=1, n_users=30, records_per_user=16, people=users) for users in ("alike", "differ")
    )
    assert alike.rows == differ.rows
    assert differ.recommendation.method == "mean"
    assert differ.predicted[0].values != alike.predicted[0].values


def test_a_plan_put_together_by_hand_recommends_and_predicts_nothing(planned: Plan) -> None:
    bare = Plan(planned.target, planned.records_per_user, planned.rows)
    assert bare == planned  # the question is no part of the answer
    assert bare.recommendation is None
    assert bare.predicted == ()
    assert "recommended" not in str(bare)


# Costs


def test_cost_per_record_is_users_times_records_against_one_record_each(planned: Plan) -> None:
    alone = plan(CUTS, epsilon=1, alpha="0.1", records_per_user=1)
    for row in planned.rows:
        if row.kind == "certified":
            one = alone.row(row.method).n_users[0]
            assert planned.cost_per_record[row.method] == tuple(n * m / one for m, n in zip((4, 16), row.n_users))
    assert "any private agnostic learner" not in planned.cost_per_record
    assert alone.cost_per_record["per-user mean"] == (1.0,)


# Predictions


def test_predictions_are_those_of_the_stated_model(planned: Plan) -> None:
    people = declared_population("alike", CUTS, records_per_user=16, noise="0.2")
    assert people is not None
    found = predicted_users(
        lambda n: RegretSelection(people.concept, 1, public_n_users=n, max_records=16),
        people,
        alpha="0.1",
        repeats=3,
        most=1 << 12,
    )
    row = next(row for row in planned.predicted if row.method == "regret selection")
    assert row.kind == "predicted"
    assert row.n_users[1] == found
    assert "label noise 1/5" in row.assumption
    assert all(n is not None for n in row.n_users)
    realizable = next(row for row in planned.predicted if row.method == "realizable selection")
    assert "label noise 0" in realizable.assumption


@pytest.mark.slow
def test_model_noise_moves_the_prediction_only() -> None:
    clean, noisy = (
        plan(CUTS, epsilon=1, alpha="0.02", records_per_user=4, setting="agnostic", model_noise=q) for q in (0, "0.3")
    )
    assert clean.rows == noisy.rows
    assert clean.predicted[0].n_users[0] < noisy.predicted[0].n_users[0]
    assert "label noise 3/10" in noisy.predicted[0].assumption


def people_with(cut: int, n: int = 400, m: int = 5) -> UserData:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 100, n * m)
    return UserData.from_arrays(x, x >= cut, np.repeat(np.arange(n), m), features={"x": pp.Integers(0, 99)})


def test_a_population_of_ones_own_is_predicted_on() -> None:
    table = public_population(people_with(30), CUTS, name="clinic, public")
    found = plan(CUTS, epsilon=1, alpha="0.1", records_per_user=(1, 5), population=table, setting="agnostic")
    row = found.predicted[0]
    assert "clinic, public" in row.assumption
    assert row.n_users[1] is not None
    assert row.n_users[0] is not None
    assert row.n_users[1] <= row.n_users[0] <= 400  # reading one of the five records needs more people
    assert found.recommendation is not None
    assert "clinic, public" in found.recommendation.reason
    inverse = plan(CUTS, epsilon=1, n_users=500, records_per_user=5, population=table)
    assert all(row.values == (None,) for row in inverse.predicted)  # the table has 400 people only


def test_generated_and_sampled_people_are_predicted_on() -> None:
    made = plan(
        CUTS,
        epsilon=1,
        alpha="0.1",
        records_per_user=(1, 8),
        population=generated_population("0.1", records_per_user=4),
    )
    assert made.predicted[1].n_users[0] > made.predicted[1].n_users[1]

    def draw(n: int, rng: np.random.Generator) -> UserData:
        x = rng.integers(0, 100, n * 5)
        return UserData.from_arrays(x, x >= 30, np.repeat(np.arange(n), 5), features={"x": pp.Integers(0, 99)})

    own = plan(
        CUTS, epsilon=1, alpha="0.1", records_per_user=5, population=sampled_population(draw, CUTS, truth_users=500)
    )
    assert own.predicted[0].n_users[0] is not None


def test_a_population_of_other_rules_is_refused() -> None:
    other = public_population(people_with(30), pp.Points(pp.Integers(0, 99), "x"))
    with pytest.raises(ParameterError, match="rules of Points"):
        plan(CUTS, epsilon=1, population=other)
    with pytest.raises(ParameterError, match="leave out users"):
        plan(CUTS, epsilon=1, people="alike", population=public_population(people_with(30), CUTS))


def test_large_classes_are_not_simulated_unasked() -> None:
    assert plan(CUTS, epsilon=1, records_per_user=1).quick
    lists = rule_class("decision-list", {f"c{i}": pp.Integers(0, 1) for i in range(9)})
    assert lists.size > 1 << 12
    big = plan(lists, epsilon=1, records_per_user=1, setting="realizable")
    assert not big.quick
    assert "typical, " not in str(big)
    assert "what is typical takes a while to simulate" in str(big)
    # Where only all numbers of records together take long, the middle one is simulated.
    wide = plan(pp.Stumps({f"x{i}": pp.Integers(0, 9) for i in range(8)}), epsilon=1, alpha="0.2")
    assert not wide.quick
    line = next(line for line in str(wide).splitlines() if "typical, hybrid selection" in line)
    assert [bool(cell.strip()) for cell in line.split("│")[2:-1]] == [False, False, True, False, False]


# Shown


def test_kinds_of_numbers_are_told_apart(whole: Plan) -> None:
    text = str(whole)
    certified, rest = text.split("certified:", 1)[1].split("no method can:", 1)
    lower, predicted = rest.split("typical:", 1)
    assert "hybrid selection" in certified
    assert "regret selection" in certified
    assert "any private agnostic learner" in lower
    assert "per-user mean" in predicted
    assert "typical (realizable selection): mean excess error on one simulated model" in text
    without = whole.table(predict=False)
    assert not any("typical" in str(cell) for cell in without.columns[0]._cells)


def test_json_holds_everything_and_survives(planned: Plan) -> None:
    body = json.loads(json.dumps(planned.to_dict()))
    assert planned.recommendation is not None
    assert body["recommendation"] == {"method": planned.recommendation.method, "reason": planned.recommendation.reason}
    assert {row["method"]: tuple(row["n_users"]) for row in body["predicted"]} == {
        row.method: row.n_users for row in planned.predicted
    }
    assert {method: tuple(costs) for method, costs in body["cost_per_record"].items()} == planned.cost_per_record
    assert planned.to_dict(predict=False)["predicted"] == []


# Lower bounds and numbers, every class


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RULES if name not in ("small-tree", "scorecard")])
def test_every_class_has_certified_lower_and_predicted_numbers(name: str) -> None:
    single = name.startswith("threshold") or name in ("point", "interval")
    bits = {f"c{i}": pp.Integers(0, 1) for i in range(3)}
    two = {"a": pp.Integers(0, 9), "b": pp.Integers(0, 9)}
    columns: dict[str, Any] = (
        {"x": pp.Integers(0, 20)} if single else two if name in ("stump", "rectangle", "halfspace") else bits
    )
    concept = rule_class(name, columns)
    found = plan(concept, epsilon=1, alpha="0.1", records_per_user=8)
    assert {row.kind for row in found.rows} == {"certified", "lower bound"}
    assert (
        found.row("realizable selection").n_users[0]
        == plan_realizable(
            log_size=concept.log_size, epsilon=1, alpha="0.1", beta="0.05", records_per_user=8, neighbours="add-remove"
        ).n_users
    )
    least = found.row("any private realizable learner").n_users[0]
    assert 0 <= least <= found.row("realizable selection").n_users[0]
    assert [row.method for row in found.predicted] == [
        "realizable selection",
        "hybrid selection",
        "regret selection",
        "per-user mean",
    ]
    assert all(
        row.n_users[0] is not None and row.n_users[0] <= found.row(row.method).n_users[0] for row in found.predicted
    )


def test_the_realizable_bound_is_at_least_that_of_the_littlestone_dimension() -> None:
    cuts = pp.Thresholds(pp.Integers(0, 1440))
    goal: dict[str, Any] = {"alpha": Fraction(1, 20), "epsilon": 1, "records_per_user": 4, "neighbours": "add-remove"}
    bound = lower_littlestone(cuts.littlestone_dimension, success=Fraction(19, 20), **goal).n_users
    row = plan(cuts, epsilon=1, alpha="0.05", records_per_user=4).row("any private realizable learner")
    assert bound is not None
    assert row.n_users[0] >= bound > 0


# Distributions


def test_distributions_are_predicted_by_running_their_learners() -> None:
    """Standard errors are below a tenth of these gaps: false alarms below 1e-6."""
    counts = plan("histogram", k=10, epsilon=1, alpha="0.2", records_per_user=(1, 4))
    row = counts.predicted[1]
    assert "all 10 values equally likely" in row.assumption
    assert "mean total variation" in row.assumption
    for predicted, certified in zip(row.n_users, counts.row("clipped histogram, one stage").n_users):
        assert predicted is not None
        assert predicted < certified
    few, many = (
        plan("gaussian", radius=10, epsilon=1, n_users=n, records_per_user=4).predicted[0].values[0] for n in (60, 3000)
    )
    assert many < few < 1


def test_families_recommend_the_fewest_certified_users() -> None:
    found = plan("gaussian", radius=10, epsilon=1, records_per_user=(1, 256))
    certified = {row.method: row.n_users[1] for row in found.rows if row.kind == "certified"}
    assert found.recommendation is not None
    assert found.recommendation.method == min(certified, key=lambda method: certified[method])
    assert all(f"{n:,}" in found.recommendation.reason for n in certified.values())
    inverse = plan("gaussian", radius=10, epsilon=1, n_users=500, records_per_user=4)
    assert inverse.recommendation is not None
    assert inverse.recommendation.method == "coarse-to-fine mean"


# Trees


def test_a_tree_is_planned_the_other_way_round() -> None:
    tree = PathTree(16)
    for quantity, given in (("alpha", {"epsilon": 1}), ("epsilon", {"alpha": "0.1"})):
        found = plan(tree, n_users=300, records_per_user=(1, 4), **given)
        assert found.quantity == quantity
        for m, value in zip((1, 4), found.row("tree learner").values):
            assert value is not None
            here, below = (
                plan(tree, records_per_user=m, **(given | {quantity: v})) for v in (value, value * Fraction(97, 100))
            )
            assert here.row("tree learner").n_users[0] <= 300
            assert below.row("tree learner").n_users[0] > 300
    with pytest.raises(ParameterError, match="without noise"):
        plan(tree, n_users=300, epsilon=1, noise="0.1")


def test_within_a_number_of_users_a_tree_is_certified_exactly_where_its_plan_says() -> None:
    asked: dict[str, Any] = {"height": 8, "width": 6, "epsilon": 1, "alpha": "0.2", "beta": "0.05"}
    least = plan_tree(**asked).n_users
    assert least is not None
    assert plan_tree(within=least, **asked).n_users is not None
    assert plan_tree(within=2 * least, **asked).n_users <= 2 * least
    assert plan_tree(within=least * 9 // 10, **asked).n_users is None


# Agreement


@pytest.mark.slow
def test_agreement_with_a_curator_is_predicted_by_its_exact_law() -> None:
    few, many = (plan(CUTS, model="central", epsilon=1, delta="1e-6", n_users=n, records_per_user=32) for n in (4, 60))
    assert few.predicted[0].method == "central agreement"
    assert (
        many.predicted[0].values[0] < Fraction(1, 10) < few.predicted[0].values[0]
    )  # four people cannot be heard through the noise
    assert (
        many.predicted
        == plan(CUTS, model="central", epsilon=1, delta="1e-6", n_users=60, records_per_user=32).predicted
    )
