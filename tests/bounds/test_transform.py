"""Calculators of the literal transformation: against exact numbers, published figures and their own inverses."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv

from privpac.bounds import (
    amplify,
    deamplify,
    group_budget,
    group_privacy,
    lddp_approx,
    lddp_pure,
    spg_pure,
    subsample_size,
    triangle,
    user_complexity,
    width_iid,
)
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.guarantee import Guarantee
from privpac.law import Law
from privpac.methods import choose_transform, design_trim, literal_users
from privpac.methods.trimmed import spreads

small = st.floats(min_value=1e-3, max_value=3)
deltas = st.floats(min_value=1e-9, max_value=1e-3)


# Small tools


@given(small, deltas, st.integers(1, 12))
@settings(deadline=None, max_examples=40)
def test_group_privacy_agrees_with_the_exact_guarantee_and_has_an_inverse(eps: float, delta: float, k: int) -> None:
    found = group_privacy(eps, delta, k)
    back = group_budget(k * eps, found[1], k)
    assert back[0] == pytest.approx(eps)
    if found[1] < 1:
        exact = Guarantee(eps, delta, unit="item", neighbours="replace").group(k)
        assert found == pytest.approx((float(exact.epsilon), float(exact.delta)))
        assert back[1] == pytest.approx(delta)


@given(small, deltas, st.integers(1, 50), st.integers(0, 50))
@settings(deadline=None, max_examples=40)
def test_amplification_agrees_with_the_exact_guarantee_and_has_an_inverse(
    eps: float, delta: float, k: int, more: int
) -> None:
    found = amplify(eps, delta, k, k + more)
    exact = Guarantee(eps, delta, unit="user", neighbours="replace").subsample(
        Fraction(k, k + more), "without-replacement"
    )
    assert found == pytest.approx((float(exact.epsilon), float(exact.delta)))
    assert deamplify(*found, k, k + more) == pytest.approx((eps, delta))


def test_amplification_of_a_large_epsilon_does_not_overflow() -> None:
    assert amplify(900, 0, 1, 10)[0] == pytest.approx(900 - math.log(10))
    assert deamplify(900, 0, 1, 10)[0] == pytest.approx(900 + math.log(10))


def test_the_triangle_inequality_holds_on_random_laws() -> None:
    coin = random.Random(2)
    for _ in range(60):
        p, q, r = (Law.from_weights({v: coin.randrange(1, 12) for v in range(4)}) for _ in range(3))
        e1, e2 = Fraction(coin.randrange(8), 10), Fraction(coin.randrange(8), 10)
        d1 = max(p.hockey_stick(q, e1).hi, q.hockey_stick(p, e1).hi)
        d2 = max(q.hockey_stick(r, e2).hi, r.hockey_stick(q, e2).hi)
        eps, delta = triangle(e1, d1, e2, d2)
        far = max(float(p.hockey_stick(r, e1 + e2).hi), float(r.hockey_stick(p, e1 + e2).hi))
        assert eps == pytest.approx(float(e1 + e2))
        assert far <= delta + 1e-12


def test_a_sample_amplifies_to_the_target() -> None:
    n = subsample_size(1, 300, 0.2)
    assert amplify(1, 0, 300, n)[0] <= 0.2 < amplify(1, 0, 300, n - 1)[0]
    assert subsample_size(1, 300, 2) == 300


# Perfect generalisation


def test_generalisation_bound_holds_for_a_logistic_mechanism() -> None:
    """``A(x)`` says 1 with odds e^(eps (ones - zeros)/2); all pairs of samples of N fair coins, exactly weighted."""
    eps, n, delta, beta = 0.3, 12, 0.05, 0.1
    s = spg_pure(eps, n, delta, beta)
    ones = np.arange(n + 1)
    weight = np.array([math.comb(n, k) for k in ones]) / 2**n
    p = 1 / (1 + np.exp(-eps * (2 * ones - n) / 2))
    apart = np.maximum(0, p[:, None] - np.exp(s) * p[None, :]) + np.maximum(
        0, (1 - p)[:, None] - np.exp(s) * (1 - p)[None, :]
    )
    bad = (weight[:, None] * weight[None, :])[(apart > delta) | (delta < apart.T)].sum()
    assert bad <= beta
    assert s <= n * eps


def test_deletions_cost_more_than_one_pair_and_at_most_group_privacy() -> None:
    one, all_pairs = spg_pure(0.001, 20 * 100, 1e-6, 0.05), lddp_pure(0.001, 500, 100, 20, 1e-6, 0.05)
    assert one < all_pairs <= 0.001 * 20 * 100
    assert lddp_approx(0.5, 1e-3, 100, 100, 50, 0.05) == (0.5 * 5000, 1.0)
    assert lddp_approx(1e-5, 1e-14, 500, 1000, 80, 0.05)[0] < 1e-5 * 80_000


# What the literal transformation needs


def records_needed(epsilon: float) -> float:
    """An exponential mechanism over 65 rules for excess error 0.05, 19 times out of 20."""
    return 2 * (math.log(65) + math.log(20)) / (0.05 * epsilon)


@pytest.mark.parametrize(("m", "users"), [(1, 77_528), (1000, 8_274), (100_000, 695)])
def test_the_literal_transformation_is_not_practical_at_ordinary_sizes(m: int, users: int) -> None:
    found = literal_users(records_needed, epsilon=1, delta=1e-6, records_per_user=m, failure=0.05)
    assert found.n_users is not None
    assert abs(found.n_users - users) <= 2
    assert "literal transformation" in str(found)
    assert math.ceil(records_needed(1)) == 287  # what the same mechanism needs when every record counts as a person


def test_user_complexity_respects_its_own_lower_bound_and_falls_with_records() -> None:
    few, many = (
        literal_users(records_needed, epsilon=1, delta=1e-6, records_per_user=m, subsample=True) for m in (10, 1000)
    )
    assert few.n_users is not None
    assert many.n_users is not None
    assert few.n_users > many.n_users > many["deleted"]
    assert few.n_users >= few["lower_bound"]
    assert user_complexity(lambda e: math.inf, epsilon=1, delta=1e-6, records_per_user=1, ladder=2).n_users is None


# Widths and choices


def test_widths_grow_like_the_root_of_the_records() -> None:
    widths = [width_iid(1000, m, 100, 40, 100, 0.01) for m in (100, 400, 1600, 6400)]
    for a, b in pairwise(widths):
        assert 1.7 < b / a < 2.3


def test_users_with_one_rate_stay_within_the_width() -> None:
    """Worst rate on a fine grid; 400 crowds, failure 0.05: more than 45 failures have probability below 1e-6."""
    n, m, t, ladder, failed = 200, 20, 30, 20, 0
    width = width_iid(n, m, t, ladder, 1, 0.05)
    rng = np.random.default_rng(4)
    for p in rng.uniform(0.05, 0.5, 400):
        failed += int(spreads(np.sort(rng.binomial(m, p, n))[:, None], t, ladder)[ladder] > width)
    assert failed <= 45


@pytest.mark.parametrize("m", [1, 2, 5, 10, 20, 30, 50, 64, 100, 200])
@pytest.mark.parametrize(
    ("n", "t", "ladder", "rules"), [(200, 30, 20, 1), (5000, 1116, 116, 1001), (3000, 62, 60, 1 << 20)]
)
def test_the_width_covers_every_rate_and_no_more_than_it_must(m: int, n: int, t: int, ladder: int, rules: int) -> None:
    """Against the definition at rates on both sides of every jump of the upper and of the lower quantile; one record to
    spare."""
    width = width_iid(n, m, t, ladder, rules, "0.001")
    limit = 0.001 / (2 * rules)
    share = betaincinv(t - ladder, n - t + ladder + 1, limit)
    jumps = np.concatenate([c := betaincinv(np.arange(m) + 1, m - np.arange(m), share), 1 - c])
    rates = np.unique(np.clip(np.concatenate([jumps * (1 - 1e-7), jumps * (1 + 1e-7), np.linspace(0, 1, 101)]), 0, 1))
    seen = width_iid(n, m, t, ladder, rules, "0.001", rates.tolist())
    assert seen <= width <= min(m, seen + 1)


def test_five_rates_are_not_safe_where_they_are_multiples_of_a_record() -> None:
    """A width that a rate between the five exceeds makes the release test fail on ideal data."""
    five = [0.1, 0.2, 0.3, 0.4, 0.5]
    for m in (10, 20):
        assert width_iid(5000, m, 1116, 116, 1001, "0.001", five) < width_iid(5000, m, 1116, 116, 1001, "0.001")


def test_wide_cells_for_very_many_records_only_widen() -> None:
    exact = width_iid(1000, 20_000, 100, 40, 100, 0.01, [0.49, 0.5, 0.51])
    assert exact <= width_iid(1000, 20_000, 100, 40, 100, 0.01) <= 1.1 * exact


def test_one_rate_alone_is_not_safe() -> None:
    assert width_iid(3000, 10, 150, 60, 50, 0.01, [0.5]) <= width_iid(3000, 10, 150, 60, 50, 0.01)


def test_trimming_is_chosen_only_on_request_and_only_where_it_wins() -> None:
    """A class of 2^200 rules: too few users for the others, many records each."""
    large: dict[str, Any] = {
        "n": 300,
        "m": 1000,
        "epsilon": 1,
        "delta": "1e-6",
        "log_size": 200 * math.log(2),
        "H_eff": 1000,
    }
    assert choose_transform(**large, allow_bottom=True).choice == "trim"
    assert choose_transform(**(large | {"n": 600, "m": 30})).choice == "clip"
    with pytest.raises(InfeasibleError, match="too few users"):
        choose_transform(**(large | {"n": 280}))
    assert choose_transform(400, 1, 1, "1e-6", 20, 100, allow_bottom=True).choice == "group"
    assert "out of reach" in str(choose_transform(400, 10, 1, 0, 20, 100, allow_bottom=True))


def test_designs_are_feasible_or_say_what_would_be() -> None:
    design = design_trim(500, 100, 1, "1e-6", 1000)
    assert design.ladder < design.trim
    assert 2 * design.trim < 400
    with pytest.raises(InfeasibleError, match="too few users: need n > "):
        design_trim(50, 100, 1, "1e-6", 1000)
    with pytest.raises(InfeasibleError):
        design_trim(500, 100, "1e-5", "1e-9", 1000)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: group_privacy(-1, 0, 2), ParameterError),
        (lambda: group_privacy(1, 2, 2), ParameterError),
        (lambda: group_privacy(1, 0, 0), ParameterError),
        (lambda: amplify(1, 0, 5, 4), ParameterError),
        (lambda: amplify(float("nan"), 0, 1, 4), ParameterError),
        (lambda: subsample_size(0, 3, 1), ParameterError),
        (lambda: spg_pure("x", 10, 0.1, 0.1), ParameterError),
        (lambda: spg_pure(1, 10, 0, 0.1), ParameterError),
        (lambda: lddp_pure(1, 10, 1, 11, 0.1, 0.1), ParameterError),
        (lambda: width_iid(10, 10, 2, 2, 1, 0.1), ParameterError),
        (lambda: width_iid(10, 10, 3, 2, 1, 0.1, []), ParameterError),
        (lambda: width_iid(10, 1 << 30, 3, 2, 1, 0.1), TooLargeError),
        (lambda: choose_transform(10, 10, 1, 0.1, 3, 3, allow_bottom=1), TypeError),  # type: ignore[arg-type]
        (lambda: choose_transform(0, 10, 1, 0.1, 3, 3), ParameterError),
        (lambda: user_complexity(3, epsilon=1, delta=0.1, records_per_user=1, ladder=2), TypeError),  # type: ignore[arg-type]
    ],
    ids=lambda value: "" if callable(value) and not isinstance(value, type) else value.__name__,
)
def test_bad_input_is_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
