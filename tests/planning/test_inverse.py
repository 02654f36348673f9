"""Inverse plans agree with plans: what is promised is certified, a little less is not."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest

from privpac.data import Integers
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours
from privpac.planning import plan
from privpac.planning.plans import _COARSE, _FINE, _RANGES, InversePlan, _rounded, invert_plan
from privpac.planning.query import least_alpha, least_epsilon
from privpac.planning.rules import RuleTarget
from privpac.rules import Thresholds

CUTS = Thresholds(Integers(0, 1000))


@pytest.mark.slow
@pytest.mark.parametrize("records", [1, 16])
def test_the_promised_alpha_is_certified_and_a_smaller_one_is_not(records: int) -> None:
    found = least_alpha(CUTS, n_users=800, epsilon=1, records_per_user=records, every_method=True)
    for row in found.rows:
        (value,) = row.values
        if row.key in ("reduction", "search"):
            continue  # they need more users than there are
        if value is None:
            assert row.method == "any private realizable learner"  # it excludes nothing above 1e-4
            continue
        here, below = (
            plan_users_of(row.method, alpha, records, within=800) for alpha in (value, value * Fraction(99, 100))
        )
        if row.kind == "certified":
            assert here is not None
            assert here <= 800
        assert below is None or below > 800  # not certified; or, for a lower bound, excluded


def test_the_search_ends_at_the_first_step_of_the_grid_that_is_enough() -> None:
    found = least_alpha(CUTS, n_users=500, epsilon=1, records_per_user=(1, 16), setting="agnostic", every_method=True)
    first, last = (math.log(end) for end in _RANGES["alpha"])
    grid = [
        _rounded(math.exp(first + (last - first) * step / (_COARSE * _FINE)), up=True)
        for step in range(_COARSE * _FINE + 1)
    ]
    for method in ("per-user mean", "pairwise selection"):
        for m, value in zip((1, 16), found.row(method).values):
            assert value is not None
            near = [a for a in grid if value * Fraction(9, 10) <= a <= value]
            assert len(near) > 10
            assert [(plan_users_of(method, a, m) or 10**9) <= 500 for a in near] == [a == value for a in near]


def plan_users_of(method: str, alpha: Fraction, records: int, within: int | None = None) -> int | None:
    target = RuleTarget(
        CUTS, Fraction(1), alpha, Fraction(1, 20), Neighbours.ADD_REMOVE, None, within=within, every_method=True
    )
    certify = target.method(method).certify
    return certify(records).n_users


def test_the_promised_epsilon_is_certified() -> None:
    found = least_epsilon(CUTS, n_users=3000, alpha="0.1", records_per_user=4, setting="realizable")
    (value,) = found.row("realizable selection").values
    assert value is not None
    assert plan(CUTS, epsilon=value, alpha="0.1", records_per_user=4).row("realizable selection").n_users[0] <= 3000


def test_more_users_promise_more() -> None:
    few, many = (
        least_alpha(CUTS, n_users=n, epsilon=1, records_per_user=4, setting="realizable").rows[0].values[0]
        for n in (200, 2000)
    )
    assert few is not None
    assert many is not None
    assert many < few


def test_one_function_asks_both_ways() -> None:
    assert isinstance(plan(CUTS, n_users=500, epsilon=1, records_per_user=4, setting="realizable"), InversePlan)
    found = plan(CUTS, n_users=500, alpha="0.1", records_per_user=4, setting="realizable")
    assert isinstance(found, InversePlan)
    assert found.quantity == "epsilon"
    assert "least epsilon" in str(found)
    assert found.to_dict()["rows"][0]["values"][0] > 0
    for wrong in ({"n_users": 500}, {"n_users": 500, "epsilon": 1, "alpha": "0.1"}, {"n_users": 0, "epsilon": 1}, {}):
        with pytest.raises(ParameterError):
            plan(CUTS, **wrong)
    with pytest.raises(ParameterError, match="no method"):
        found.row("magic")


def test_nothing_is_promised_to_nobody() -> None:
    found = least_alpha(
        Thresholds(Integers(0, 2**60)), n_users=1, epsilon="0.01", records_per_user=1, setting="realizable"
    )
    assert found.rows[0].values == (None,)


def test_assumptions_costs_and_a_recommendation_come_with_the_answer() -> None:
    found = least_alpha(CUTS, n_users=500, epsilon=1, records_per_user=(1, 16))
    assert "records" in found.row("regret selection").assumption
    alone, many = found.cost_per_record["per-user mean"]
    value = found.row("per-user mean").values[1]
    assert value is not None
    assert alone == 1
    assert many == pytest.approx(
        500 * 16 / plan(CUTS, epsilon=1, alpha=value, records_per_user=1).row("per-user mean").n_users[0]
    )
    assert found.recommendation is not None
    assert found.recommendation.method in ("regret", "mean")
    body = json.loads(json.dumps(found.to_dict()))
    assert body["recommendation"]["method"] == found.recommendation.method
    assert body["cost_per_record"]["per-user mean"] == [alone, many]
    assert {row["kind"] for row in body["predicted"]} == {"predicted"}


def test_a_predicted_epsilon_reaches_alpha_on_the_model() -> None:
    found = least_epsilon(CUTS, n_users=200, alpha="0.05", records_per_user=4, setting="realizable")
    (row,) = found.predicted
    assert row.method == "realizable selection"
    assert row.values[0] is not None
    assert row.values[0] < found.rows[0].values[0]  # type: ignore[operator]
    few, many = (
        least_alpha(CUTS, n_users=n, epsilon=1, records_per_user=4, setting="realizable").predicted[0].values[0]
        for n in (20, 200)
    )
    assert few is not None
    assert many is not None
    assert many < few < 1


@pytest.mark.parametrize("given", [{"quantity": "beta", "n_users": 5}, {"quantity": "alpha", "n_users": 0}])
def test_bad_questions_are_refused(given: dict[str, object]) -> None:
    target = RuleTarget(CUTS, Fraction(1), Fraction(1, 20), Fraction(1, 20), Neighbours.ADD_REMOVE, None)
    with pytest.raises(ParameterError):
        invert_plan(target, sizes=(1,), stated={}, **given)  # type: ignore[arg-type]
