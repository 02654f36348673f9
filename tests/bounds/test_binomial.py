"""Binomial tails and thresholds against exact arithmetic and brute force."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc

from privpac import special
from privpac.bounds import cross, gap, psi, psi_exact, robust_gap, robust_t
from privpac.errors import ParameterError, TooLargeError
from privpac.special import crosses

rates = st.fractions(min_value=0, max_value=1, max_denominator=40)


def mass(m: int, p: Fraction, k: int) -> Fraction:
    return math.comb(m, k) * p**k * (1 - p) ** (m - k)


@given(st.integers(0, 30), rates, st.integers(-2, 32))
def test_psi_exact_is_the_sum_of_the_tail(m: int, p: Fraction, t: int) -> None:
    assert psi_exact(m, p, t) == sum((mass(m, p, k) for k in range(max(0, t + 1), m + 1)), Fraction(0))


@given(st.integers(1, 300), rates, st.integers(0, 300))
def test_psi_has_twelve_digits(m: int, p: Fraction, t: int) -> None:
    assert math.isclose(psi(m, p, t), float(psi_exact(m, p, t)), rel_tol=1e-11, abs_tol=1e-300)


@given(st.integers(0, 25), rates, rates)
def test_cross_is_the_largest_k_by_definition_and_its_gap_the_total_variation(m: int, p: Fraction, q: Fraction) -> None:
    if p == q:
        return
    p, q = min(p, q), max(p, q)
    holds = [k for k in range(m + 1) if q**k * (1 - q) ** (m - k) <= p**k * (1 - p) ** (m - k)]
    t = cross(m, p, q)
    if m and p > 0 and q < 1:
        assert t == max(holds)
    variation = sum((abs(mass(m, p, k) - mass(m, q, k)) for k in range(m + 1)), Fraction(0)) / 2
    assert psi_exact(m, q, t) - psi_exact(m, p, t) == variation
    assert math.isclose(gap(m, p, q), float(variation), rel_tol=1e-11, abs_tol=1e-300)


def test_cross_returns_exact_ties_at_any_size() -> None:
    # For q = 1 - p the ratio crosses 1 exactly at m/2.
    assert cross(10, "1/3", "2/3") == 5
    assert cross(100_000, "1/3", "2/3") == 50_000
    assert cross(100_001, "1/3", "2/3") == 50_000


@given(rates, rates)
@settings(max_examples=40)
def test_gap_never_falls_with_more_records(p: Fraction, q: Fraction) -> None:
    if p == q:
        return
    gaps = [gap(m, min(p, q), max(p, q)) for m in range(30)]
    assert all(a <= b + 1e-14 for a, b in pairwise(gaps))


@given(st.integers(1, 20), rates, rates, st.fractions(min_value="1/40", max_value=1, max_denominator=40))
@settings(max_examples=60)
def test_robust_t_is_the_best_threshold_by_brute_force(
    m: int, eta_hat: Fraction, alpha_e: Fraction, alpha: Fraction
) -> None:
    hi = max(Fraction(0), min(1 - alpha, eta_hat + alpha_e))
    lo = min(max(Fraction(0), eta_hat - alpha_e), hi)

    def separation(t: int, eta: Fraction) -> Fraction:
        return Fraction(psi_exact(m, min(Fraction(1), eta + alpha), t) - psi_exact(m, eta, t))

    worst = [min(separation(t, lo), separation(t, hi)) for t in range(m)]
    choice = next(t for t in range(m) if worst[t] >= max(worst) * (1 - Fraction(1, 10**9)))
    assert robust_t(m, eta_hat, alpha_e, alpha) == choice
    assert math.isclose(robust_gap(m, eta_hat, alpha_e, alpha), float(worst[choice]), rel_tol=1e-10, abs_tol=1e-300)
    # The end points of the interval are the worst case: the gap holds everywhere in between.
    inside = [lo + (hi - lo) * i / 8 for i in range(9)]
    assert all(separation(choice, eta) >= worst[choice] for eta in inside)


@pytest.mark.parametrize("m", [10, 1000, 4000, 1 << 20])
def test_a_threshold_costs_the_logarithm_of_the_records(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users with thousands of records each, all of different numbers, must not cost seconds."""
    asked: list[int] = []
    monkeypatch.setattr(special, "betainc", lambda a, b, x: asked.append(np.size(a)) or betainc(a, b, x))
    special._robust.cache_clear()
    robust_t(m, "1/8", "1/8", "1/10")
    assert sum(asked) <= 12 * m.bit_length() + 40


@given(st.fractions(0, "1/2", max_denominator=64), st.fractions("1/64", "1/2", max_denominator=64))
@settings(max_examples=30, deadline=None)
def test_crossings_of_many_sizes_are_those_of_each(p: Fraction, width: Fraction) -> None:
    sizes = np.array([0, 1, 2, 3, 8, 10, 40, 64, 100, 1000, 4096])
    assert crosses(sizes[1:], p, p + width).tolist() == [cross(int(m), p, p + width) for m in sizes[1:]]


def test_robust_gap_beats_the_narrow_choice_of_the_paper() -> None:
    assert round(robust_gap(64, "1/4", "1/16", "1/10"), 4) == 0.3627
    assert robust_t(0, 0, 0, "1/2") == 0
    assert robust_gap(0, 0, 0, "1/2") == 0


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: psi(-1, 0.5, 0), ParameterError),
        (lambda: psi(3, 1.5, 0), ParameterError),
        (lambda: psi(3, math.nan, 0), ParameterError),
        (lambda: psi(3, 0.5, 0.5), TypeError),
        (lambda: psi(True, 0.5, 0), TypeError),
        (lambda: psi(1 << 40, 0.5, 0), TooLargeError),
        (lambda: psi_exact(1 << 15, 0.5, 0), TooLargeError),
        (lambda: cross(3, 0.5, 0.5), ParameterError),
        (lambda: cross(3, 0.6, 0.5), ParameterError),
        (lambda: cross(3, None, 0.5), TypeError),
        (lambda: robust_t(3, 0.5, -0.1, 0.1), ParameterError),
        (lambda: robust_t(3, 0.5, 0.1, 0), ParameterError),
        (lambda: robust_t(3, 2, 0.1, 0.1), ParameterError),
        (lambda: robust_t("3", 0.5, 0.1, 0.1), TypeError),
    ],
)
def test_bad_parameters(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
