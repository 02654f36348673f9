"""Certificates of hybrid selection: the published table, never worse with more of anything, and true on the laws they
are nearly tight for."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
import privpac.methods.hybrid as hybrid_bounds
from privpac.data import Integers
from privpac.errors import ParameterError, TooLargeError
from privpac.methods.hybrid import certify_hybrid_any, certify_hybrid_noise, hybrid_excess
from privpac.planning.rules import better_certificate
from privpac.rules.populations import users_from_codes
from privpac.rules.profile import own_clip
from privpac.sample_size import Certificate

GIVEN: dict[str, Any] = {"size": 1025, "theta": 1, "beta": "0.1", "levels": 840}
RECORDS = (1, 4, 5, 16, 64, 256)
NOISE_TABLE = {
    ("0", "0.02"): (726, 293, 325, 131, 62, 31),
    ("0", "0.05"): (288, 117, 130, 53, 25, 13),
    ("0.1", "0.02"): (950, 542, 525, 512, 497, 31),
    ("0.1", "0.05"): (377, 217, 140, 145, 26, 13),
    ("0.3", "0.02"): (2340, 4362, 4159, 538, 502, 494),
    ("0.3", "0.05"): (933, 1742, 627, 207, 194, 191),
    ("0.45", "0.02"): (9963, 6895, 6292, 4754, 3752, 3494),
    ("0.45", "0.05"): (3983, 2757, 2516, 1816, 1441, 194),
}


@pytest.mark.parametrize(("noise", "alpha"), NOISE_TABLE)
def test_the_table_for_bounded_noise(noise: str, alpha: str) -> None:
    for m, wanted in zip(RECORDS, NOISE_TABLE[noise, alpha]):
        coarse = certify_hybrid_noise(records_per_user=m, noise=noise, alpha=alpha, rounds=0, **GIVEN).n_users
        fine = certify_hybrid_noise(records_per_user=m, noise=noise, alpha=alpha, **GIVEN).n_users
        assert coarse is not None
        assert fine is not None
        assert abs(coarse - wanted) <= 1
        assert 0.8 * wanted <= fine <= coarse


def test_the_table_for_any_labels_and_any_users() -> None:
    wanted = {"0.02": (16613, 14208, 8048, 4930, 3811, 506, 59717), "0.05": (3719, 3312, 2146, 1562, 325, 192, 9936)}
    for alpha, numbers in wanted.items():
        for m, n in zip((4, 5, 16, 64, 256, 1024, None), numbers):
            found = certify_hybrid_any(records_per_user=m, alpha=alpha, rounds=0, **GIVEN).n_users
            assert found is not None
            assert abs(found - n) <= 1


# More of anything never asks for more users


def certified(noise: str | None, m: int | None, size: int, theta: Fraction, alpha: Fraction, beta: Fraction) -> float:
    common: dict[str, Any] = {
        "records_per_user": m,
        "size": size,
        "theta": theta,
        "alpha": alpha,
        "beta": beta,
        "levels": 840,
    }
    if noise is None:
        found: Certificate = certify_hybrid_any(thresholds=size % 2 == 1, **common)
    else:
        found = certify_hybrid_noise(noise=noise, **common)
    return math.inf if found.n_users is None else found.n_users


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from([None, "0", "0.05", "0.1", "0.3", "0.45"]),
    st.sampled_from([1, 2, 3, 4, 5, 9, 16, 25, 64, 100]),
    st.sampled_from([2, 11, 1025, 1 << 20, (1 << 64) + 1]),
    st.fractions(Fraction(1, 20), 8, max_denominator=40),
    st.fractions(Fraction(1, 100), Fraction(1, 4), max_denominator=400),
    st.fractions(Fraction(1, 100), Fraction(1, 3), max_denominator=200),
    st.sampled_from(["theta", "alpha", "beta"]),
    st.fractions(1, 3, max_denominator=50),
)
def test_more_budget_or_a_weaker_wish_never_needs_more_users(
    noise: str | None, m: int, size: int, theta: Fraction, alpha: Fraction, beta: Fraction, which: str, factor: Fraction
) -> None:
    numbers = {"theta": theta, "alpha": alpha, "beta": beta}
    before = certified(noise, m, size, **numbers)
    after = certified(noise, m, size, **{**numbers, which: numbers[which] * factor})
    # One user, or one in two thousand: grids of theta' and of excess errors.
    assert after <= max(before + 1, before * 1.0005)


@pytest.mark.slow
def test_more_users_are_certified_too_and_the_excess_falls() -> None:
    """An inverse plan at any larger number promises no more than at the certified one."""
    cuts = pp.Thresholds(Integers(0, 1023))
    n = certify_hybrid_noise(records_per_user=16, noise="0.1", alpha="0.05", **GIVEN).n_users
    assert n is not None
    for more in (n, 2 * n):
        found = pp.plan(cuts, epsilon=1, beta="0.1", noise="0.1", n_users=more, records_per_user=16)
        assert found.row("hybrid selection, bounded noise").values[0] <= Fraction(51, 1000)
    excess = [hybrid_excess(n_users=k, size=1025, theta=1, beta="0.1", levels=840) for k in (1, 10, 1000, 10**9)]
    assert excess == sorted(excess, reverse=True)
    assert excess[-1] == pytest.approx(1 / 840, rel=1e-3)


# The laws on which a certificate is nearly tight


def fails(table: Any, mass: list[float], noise: list[float], n: int, m: int, seeds: int) -> float:
    """Mean over data sets of the law's mass on all rules but the first, which labels the atoms right up to noises of
    their own."""
    rules, points = np.array(table), Integers(0, len(mass) - 1)
    rng, total = np.random.default_rng([n, m, seeds]), 0.0
    for _ in range(seeds):
        x = rng.choice(len(mass), n * m, p=mass)
        labels = (rules[0][x] == 1) ^ (rng.random(n * m) < np.array(noise)[x])
        data = users_from_codes(np.full(n, m), {"x": x}, labels, {"x": points})
        learner = pp.HybridSelection(pp.FiniteClass(rules, points), epsilon=1)
        scores = [step.scores for step in learner.scores(learner.bind(data)).steps]
        weight = np.exp(-(np.stack(scores) - np.min(scores)) / learner.levels)
        total += 1 - float(weight[:, 0].sum() / weight.sum())
    return total / seeds


@pytest.mark.parametrize(("m", "noise"), [(4, 0.0), (16, 0.0), (5, 0.1), (16, 0.1)])
def test_the_failure_at_the_certified_number_and_beyond_is_at_most_beta(m: int, noise: float) -> None:
    """Two atoms: one rule is best, 1023 have excess alpha.  Means of exact laws over 24 seeded data sets."""
    alpha = 0.05
    n = certify_hybrid_noise(records_per_user=m, noise=str(noise), alpha=alpha * 0.9999, **GIVEN).n_users
    assert n is not None
    light = alpha / (1 - 2 * noise)
    # The best cut stands alone among 1025 rules: "always" is listed 1023 times.
    table = [[0, 1], *[[1, 1]] * 1023, [0, 0]]
    for more in (n, int(1.3 * n)):
        assert fails(table, [light, 1 - light], [noise, noise], more, m, 24) <= 0.1


def test_more_people_may_hurt_below_the_certified_number_and_not_beyond() -> None:
    """Two light noisy atoms beside the best cut, noise .3, m = 16, alpha .02: the window that the page shows."""
    m, noise, alpha = 16, 0.3, 0.02
    light = 1.001 * alpha / (1 - 2 * noise)
    mass, noises = [0.5 - light, light, light, 0.5 - light], [0.0, noise, noise, 0.0]
    table = [[0, 0, 1, 1], *[[0, 1, 1, 1]] * 512, *[[0, 0, 0, 1]] * 512]
    few, window = (fails(table, mass, noises, n, m, 40) for n in (150, 300))
    assert window > 1.2 * few, "the learner itself is not monotone here"
    enough = certify_hybrid_noise(records_per_user=m, noise=str(noise), alpha=str(alpha), **GIVEN).n_users
    assert enough is not None
    assert fails(table, mass, noises, enough, m, 40) <= 0.1


# Planning


@pytest.mark.slow
def test_plans_show_both_certificates_and_the_method_to_name() -> None:
    cuts = pp.Thresholds(Integers(0, 1023))
    planned = pp.plan(cuts, epsilon=1, alpha="0.05", beta="0.1", records_per_user=(1, 16))
    assert planned.row("hybrid selection").n_users[1] > planned.row("per-user mean").n_users[1]
    note = better_certificate(planned)
    assert note == planned.note
    assert "name method='mean' with 16 records per user" in note
    assert "with 1 record per user" not in note
    assert note in " ".join(planned.words())
    inverse = pp.plan(cuts, epsilon=1, n_users=500, beta="0.1", records_per_user=16)
    assert "method='mean'" in inverse.note


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"theta": 0}, ParameterError),
        ({"theta": 201}, ParameterError),
        ({"alpha": 0}, ParameterError),
        ({"alpha": 1}, ParameterError),
        ({"beta": 1}, ParameterError),
        ({"size": 0}, ParameterError),
        ({"levels": 0}, ParameterError),
        ({"rounds": -1}, ParameterError),
        ({"records_per_user": 0}, ParameterError),
        ({"records_per_user": 5000, "noise": "0.1"}, TooLargeError),
        ({"noise": "0.5"}, ParameterError),
    ],
    ids=str,
)
def test_bad_numbers_are_named(change: dict[str, Any], error: type[Exception]) -> None:
    given = {"records_per_user": 4, "alpha": "0.1", **GIVEN, **change}
    with pytest.raises(error):
        certify_hybrid_noise(**given) if "noise" in change else certify_hybrid_any(**given)


def test_large_users_have_the_own_clip_of_the_learner() -> None:
    assert [hybrid_bounds.own_clip(m) for m in range(1, 3000)] == [own_clip(m) for m in range(1, 3000)]
    found = certify_hybrid_any(records_per_user=10**6, alpha="0.1", **GIVEN)
    assert found["tau"] == own_clip(10**6) == 62500
    assert found.n_users is not None
