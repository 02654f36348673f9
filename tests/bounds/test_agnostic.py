"""Planner formulas of the pure agnostic learners: published values, monotonicity, order of upper and lower bounds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest

from privpac.bounds import (
    Certificate,
    agnostic_radius,
    boosting_size,
    gap,
    log_growth,
    lower_representation,
    lower_sparse,
    lower_statistics,
    lower_testing,
    plan_item_proper,
    plan_item_surrogate,
    plan_threshold_search,
    plan_user_agnostic,
    points_representation,
    relative_deviation,
    robust_gap,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.evaluation.best_error import estimate_plan

CUTS = math.log(2**64 + 1)
BASE: dict[str, Any] = {"alpha": 0.1, "beta": 0.05, "epsilon": 1, "neighbours": "replace"}


def user(m: int, **changes: Any) -> Certificate:
    return plan_user_agnostic(**(BASE | {"log_size": CUTS, "dimension": 1, "records_per_user": m} | changes))


def item(**changes: Any) -> Certificate:
    return plan_item_proper(**(BASE | {"log_size": CUTS, "dimension": 1} | changes))


def surrogate(**changes: Any) -> Certificate:
    return plan_item_surrogate(
        **(BASE | {"log_size": math.log(630), "dimension": 1, "representation_alpha": 0.02} | changes)
    )


def search(m: int, **changes: Any) -> Certificate:
    return plan_threshold_search(**(BASE | {"log_domain": 64 * math.log(2), "records_per_user": m} | changes))


def test_published_values() -> None:
    assert item().n_users == 11592
    assert [(user(m).n_users, user(m)["j"]) for m in (4, 16, 64, 256)] == [(8568, 3), (3947, 4), (1871, 4), (1625, 5)]
    assert [user(m, noise=(0, 0)).n_users for m in (4, 16, 64, 256)] == [1325, 343, 254, 254]
    assert search(16).n_users == 91491
    found = [lower_testing(**BASE, records_per_user=m).n_users for m in (1, 16)]
    assert found == [30, 10]
    assert [lower_statistics(alpha=0.1, beta=0.05, records_per_user=m).n_users for m in (1, 16)] == [269, 17]
    assert lower_representation(ldim=64, alpha=0.1, beta=0.05, epsilon=1).n_users == 21
    assert lower_sparse(ldim=64, **BASE, records_per_user=16).n_users == 18


def test_search_is_never_better_than_direct_selection_here() -> None:
    for alpha, m, bits in itertools.product((0.1, 0.02), (16, 64), (64, 10**4)):
        direct = user(m, alpha=alpha, log_size=bits * math.log(2)).n_users
        searched = search(m, alpha=alpha, log_domain=bits * math.log(2)).n_users
        assert direct is not None
        assert searched is not None
        assert searched > 5 * direct


def test_plans_are_monotone() -> None:
    for plan in (item, surrogate, lambda **k: user(16, **k), lambda **k: search(16, **k)):
        for name, values in (
            ("alpha", (0.4, 0.2, 0.1, 0.05)),
            ("beta", (0.5, 0.1, 0.001)),
            ("epsilon", (3, 1, 0.3, 0.1)),
            ("neighbours", ("add-remove", "replace")),
        ):
            counts = [plan(**{name: value}).n_users for value in values]
            assert counts == sorted(counts), name


def test_options_only_help() -> None:
    for m in (4, 64):
        assert user(m, truncate=True).n_users <= user(m).n_users
        assert user(m).n_users <= user(m, estimates=(2, 3)).n_users
    assert surrogate(score="union").n_users <= surrogate(score="sum").n_users
    assert surrogate(log_class_size=10).n_users <= surrogate().n_users
    # One record: no estimate is possible nor needed.
    one = user(1)
    assert one["j"] == 0
    assert one.n_users == item().n_users
    # With a small budget the one-shot estimate is cheaper, with a large one its narrower cells cost more.
    small: dict[str, Any] = {"beta": 0.01, "epsilon": 0.1, "log_size": math.log(2**16 + 1), "neighbours": "add-remove"}
    assert user(4, **small, estimator="oneshot").n_users < user(4, **small).n_users


def test_the_condition_holds_at_the_certified_number_and_not_just_below() -> None:
    n = item().n_users
    assert n is not None

    def value(users: int) -> float:
        a = agnostic_radius(n_users=users, records_per_user=1, dimension=1, thresholds=1, failure=0.025, log_size=CUTS)
        return float(2 * a + (CUTS + math.log(40)) / (0.5 * users))

    assert value(n) <= 0.1 < value(n - 1)


def test_estimate_gaps_agree_with_the_threshold_functions() -> None:
    alpha = Fraction(1, 10)
    for estimator, j, m in itertools.product(("bisect", "oneshot"), (1, 3, 5), (2, 9, 40)):
        plan = estimate_plan(estimator, m, j, alpha)
        accuracy = Fraction(1, 1 << j)
        width = accuracy if estimator == "bisect" else accuracy * 2 / 3
        cells = math.ceil(1 / width)
        assert plan.cells == cells
        compare = min((gap(m, i * width, min(Fraction(1), (i + 1) * width)) for i in range(1, cells)), default=1.0)
        assert math.isclose(plan.compare_gap, compare, abs_tol=1e-9)
        ends = [
            (i * width, min(Fraction(1), (i + 2) * width)) if estimator == "bisect" else (i * width, (i + 1) * width)
            for i in range(cells)
        ]
        robust = min(robust_gap(m, min(Fraction(1), sum(end) / 2), accuracy, alpha) for end in ends)
        assert plan.robust_gap <= robust
        assert math.isclose(plan.robust_gap, robust, abs_tol=1e-8)


def test_growth_and_deviation() -> None:
    for d, n in itertools.product((1, 2, 5), (0, 1, 3, 10, 1000)):
        exact = sum(math.comb(n, i) for i in range(d + 1))
        assert math.isclose(log_growth(d, n), math.log(exact), abs_tol=1e-12)
    shares = [relative_deviation(s, n_users=1000, dimension=1, log_size=1, failure=0.1) for s in (0, 0.01, 0.1)]
    assert shares == sorted(shares)
    assert shares[0] > 0


def test_representation_sizes_are_the_smallest_by_brute_force() -> None:
    for alpha, beta in itertools.product(("0.02", "1/7", "0.3"), ("0.01", "1/3", "1e-6")):
        a, b = Fraction(alpha), Fraction(beta)
        found = points_representation(alpha, beta)
        assert (found.buckets * a) ** found.hashes * b >= 1
        options = []
        for k in range(1, 80):
            buckets = math.ceil(1 / (float(a) * float(b) ** (1 / k)) - 1e-9)
            options.append(k * buckets)
        assert found.size == min(options)
        boosted = boosting_size(alpha, beta)
        if a < Fraction(1, 4):
            assert Fraction(3, 4) ** boosted.rounds <= a**2 < Fraction(3, 4) ** (boosted.rounds - 1)
        assert Fraction(1, 4) ** boosted.copies <= b / boosted.rounds < Fraction(1, 4) ** (boosted.copies - 1)
        assert math.isclose(boosted.log_size(2.0), boosted.rounds * (2 + math.log(boosted.copies)))


def test_lower_bounds_never_exceed_certificates() -> None:
    for m, alpha, beta, epsilon, bits, relation in itertools.product(
        (1, 4, 64), (0.01, 0.05, 0.2), (0.01, 0.2), (0.1, 1, 5), (8, 64), ("replace", "add-remove")
    ):
        common: dict[str, Any] = {"alpha": alpha, "beta": beta, "epsilon": epsilon, "neighbours": relation}
        upper = user(m, **common, log_size=math.log(2**bits + 1)).n_users
        assert upper is not None
        for lower in (
            lower_representation(ldim=bits, alpha=alpha, beta=beta, epsilon=epsilon),
            lower_sparse(ldim=bits, **common, records_per_user=m),
            lower_testing(**common, records_per_user=m),
            lower_statistics(alpha=alpha, beta=beta, records_per_user=m),
        ):
            assert lower.n_users is not None
            assert 0 <= lower.n_users <= upper


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: item(alpha=0), ParameterError),
        (lambda: item(alpha=1), ParameterError),
        (lambda: item(beta=math.nan), ParameterError),
        (lambda: item(epsilon=0), ParameterError),
        (lambda: item(dimension=0), ParameterError),
        (lambda: item(dimension=1.5), TypeError),
        (lambda: item(log_size=math.inf), ParameterError),
        (lambda: item(neighbours="both"), ParameterError),
        (lambda: surrogate(score="max"), ParameterError),
        (lambda: surrogate(representation_alpha=0.1), ParameterError),
        (lambda: surrogate(representation_alpha=-1), ParameterError),
        (lambda: user(0), ParameterError),
        (lambda: user(10**6), TooLargeError),
        (lambda: search(10**6), TooLargeError),
        (lambda: user(16, share=0), ParameterError),
        (lambda: user(16, share=1), ParameterError),
        (lambda: user(16, estimator="guess"), ParameterError),
        (lambda: user(16, estimates=(-1,)), ParameterError),
        (lambda: user(16, estimates=(40,)), ParameterError),
        (lambda: user(16, noise=0.2), TypeError),
        (lambda: user(16, noise=(2, 0)), ParameterError),
        (lambda: search(16, theta="1/2"), ParameterError),
        (lambda: search(16, theta=1), ParameterError),
        (lambda: search(16, log_domain=-1), ParameterError),
        (lambda: points_representation(0, 0.1), ParameterError),
        (lambda: points_representation(1e-20, 0.1), ParameterError),
        (lambda: boosting_size(0.1, 0.1, alpha0=0.5), ParameterError),
        (lambda: boosting_size(0.1, 0.1, beta0=1), ParameterError),
        (lambda: boosting_size("x", 0.1), ParameterError),
        (lambda: relative_deviation(-1, n_users=10, dimension=1, log_size=1, failure=0.1), ParameterError),
    ],
)
def test_bad_parameters(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
