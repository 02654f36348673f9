"""Plans for medians and for the less usual ways to a rule: certificates decided exactly, lower bounds below them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from attrs import evolve

from privpac.bounds import certify_reduction, plan_threshold_search, selection_error
from privpac.data import Integers
from privpac.distributions.family_plan import family_target
from privpac.distributions.quantiles.median_plan import MedianTarget, median_target
from privpac.errors import ParameterError
from privpac.law import BOTTOM
from privpac.mechanisms.interior_point import InteriorPoint
from privpac.planning.rules import rule_target
from privpac.rules import Intervals, Thresholds
from privpac.rules.profile import DEFAULT_LEVELS


def numbers(target: Any, m: int = 1) -> dict[str, Any]:
    return {method.name: method.certify(m).n_users for method in target.methods()}


# Medians


@pytest.mark.parametrize(("levels", "delta"), [(0, 0), ("auto", "1e-6")], ids=["pure", "walks"])
def test_the_planned_number_of_users_puts_the_window_close_to_the_median_and_one_fewer_does_not(
    levels: Any, delta: Any
) -> None:
    for alpha in ("0.02", "0.1", "0.3"):
        target = median_target(Integers(0, 999), epsilon=1, delta=delta, alpha=alpha)
        n = target.median(levels).n_users
        assert n is not None

        def reached(users: int, share: Fraction = target.alpha) -> bool:
            point = InteriorPoint.median(1, delta, n_users=users, top=999, levels=levels)
            assert point.size is not None
            below, above = point.hi, users - (point.hi + point.size - 1) + 1
            return point.failure <= Fraction(1, 20) and min(below, above) >= (Fraction(1, 2) - share) * users

        assert reached(n)
        assert reached(n + 1)
        assert not reached(n - 1)


def test_medians_of_the_planned_number_of_users_are_right_with_the_promised_probability() -> None:
    """Exact: the law of the mechanism on data that make it hard, counted over every answer."""
    target = median_target(Integers(0, 31), epsilon=2, alpha="0.1", beta="0.1")
    n = target.median(0).n_users
    assert n is not None
    half = n // 2
    tables = [
        [7] * n,
        [0] * half + [31] * (n - half),
        [i % 32 for i in range(n)],
        [10] * (half - 1) + [11, 11] + [30] * (n - half - 1),
    ]
    for values in tables:
        law = InteriorPoint.median(2, n_users=n, top=31, beta="0.1", levels=0).law(values)
        need = (Fraction(1, 2) - target.alpha) * n
        bad = [z for z in range(32) if sum(v <= z for v in values) < need or sum(v >= z for v in values) < need]
        assert sum(float(law.prob(z)) for z in bad) <= 0.1
        assert float(law.prob(BOTTOM)) == 0


def test_lower_bounds_stay_below_medians_and_easier_wishes_need_fewer_users() -> None:
    for bits in (1, 8, 64, 300):
        for delta in (0, "1e-6"):
            for neighbours in ("add-remove", "replace"):
                base = median_target(bits=bits, epsilon=1, delta=delta, alpha="0.1", neighbours=neighbours)
                found = numbers(base)
                low = found.pop("any private median")
                assert low <= min(found.values())
                for easier in (
                    evolve(base, epsilon=Fraction(3)),
                    evolve(base, alpha=Fraction(1, 4)),
                    evolve(base, beta=Fraction(1, 4)),
                ):
                    assert all(numbers(easier)[name] <= n for name, n in found.items())


def test_a_median_is_planned_by_name() -> None:
    assert family_target("median", bits=64, epsilon=1, alpha="0.05") == median_target(bits=64, epsilon=1)
    assert numbers(family_target("median", domain=Integers(0, 9), epsilon=1, alpha="0.6"))["any private median"] == 0
    with pytest.raises(ParameterError, match="not described by k; give domain, bits"):
        family_target("median", k=3, epsilon=1)


def test_one_value_needs_one_user_and_long_numbers_profit_from_delta() -> None:
    one = median_target(Integers(5, 5), epsilon=1)
    assert numbers(one) == {"median by its rank": 1, "median by the exponential mechanism": 1, "any private median": 0}
    long = numbers(median_target(bits=2000, epsilon=1, delta="1e-6"))
    assert long["median, best number of hidden walks"] < long["median by the exponential mechanism"]


# Rules


def test_other_ways_to_a_rule_are_planned_with_their_own_certificates() -> None:
    cuts = Thresholds(Integers(0, 99))
    target = rule_target(cuts, 1, "0.3", "0.05", "add-remove", None, every_method=True)
    found = numbers(target, 8)
    goal: dict[str, Any] = {"epsilon": 1, "alpha": "0.3", "beta": "0.05"}
    assert (
        found["threshold search"]
        == plan_threshold_search(log_domain=4.605170185988092, records_per_user=8, **goal).n_users
    )
    n = found["agnostic reduction"]

    asked: dict[str, Any] = {
        "log_growth": lambda k: math.log(cuts.growth(k)),
        "inner_error": selection_error(cuts.log_size),
    }
    assert certify_reduction(n_users=n, levels=DEFAULT_LEVELS, **goal, **asked).n_users == n
    assert numbers(target, 1)["agnostic reduction"] == n  # whatever the number of records
    ways = {"agnostic reduction", "threshold search"}
    assert not ways & {method.name for method in target.methods("realizable")}
    boxes = rule_target(Intervals(Integers(0, 9)), 1, "0.3", "0.05", "add-remove", None, every_method=True)
    assert ways & {method.name for method in boxes.methods()} == {"agnostic reduction"}


# Bad input


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"domain": Integers(0, 9), "bits": 3},
        {"bits": 0},
        {"bits": 8, "epsilon": 0},
        {"bits": 8, "alpha": 1},
        {"bits": 8, "delta": 1},
        {"bits": 8, "neighbours": "none"},
    ],
    ids=range(7),
)
def test_bad_medians_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        median_target(**({"epsilon": 1} | wrong))


def test_wrong_types_are_refused() -> None:
    other: Any = "thresholds"
    with pytest.raises(TypeError):
        median_target(other, epsilon=1)
    with pytest.raises(TypeError):
        rule_target(other, 1, "0.3", "0.05", "add-remove", None, every_method=True)
    with pytest.raises(ParameterError):
        rule_target(Thresholds(), 1, "0.3", "0.05", "add-remove", None, every_method=True)
    assert isinstance(median_target(bits=3, epsilon=1), MedianTarget)
