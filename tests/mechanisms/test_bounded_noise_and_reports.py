"""Truncated Laplace noise and randomised response."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privpac.errors import ParameterError, TooLargeError
from privpac.exact import dyadic_base
from privpac.mechanisms import RandomizedResponse, TruncatedLaplace
from privpac.testing import SeededRng, insecure_randomness


def truncated(epsilon: Any, delta: Any, **more: Any) -> TruncatedLaplace:
    return TruncatedLaplace(epsilon, delta, unit="user", neighbours="replace", **more)


def answer(epsilon: Any, k: Any, **more: Any) -> RandomizedResponse:
    return RandomizedResponse(epsilon, k, unit="user", neighbours="replace", **more)


# Truncated Laplace


@pytest.mark.parametrize(
    ("epsilon", "delta", "least", "certified"), [(1, "1e-3", 7, 8), ("1/2", "1e-6", 25, 29), ("1/10", "1e-5", 86, 117)]
)
def test_half_widths_are_the_known_ones(epsilon: Any, delta: Any, least: int, certified: int) -> None:
    noise = truncated(epsilon, delta)
    assert (noise.kappa, noise.certified_kappa) == (least, certified)


@given(
    st.sampled_from(["1/4", "1/2", "1", "2"]), st.fractions(Fraction(1, 5000), Fraction(1, 3), max_denominator=10**6)
)
@settings(max_examples=25, deadline=None)
def test_kappa_is_least_and_the_certified_one_suffices(epsilon: str, delta: Fraction) -> None:
    noise = truncated(epsilon, delta)
    assert noise.edge().hi <= delta
    assert noise.kappa == 1 or noise.edge(noise.kappa - 1).lo > delta
    assert noise.kappa <= noise.certified_kappa
    assert truncated(epsilon, delta, kappa=noise.certified_kappa).edge().hi <= delta


@pytest.mark.parametrize(
    "noise", [truncated("1/2", "1/20"), truncated(None, "1/20", base="3/2"), truncated(1, "1/50", base=dyadic_base(1))]
)
def test_shift_by_one_costs_exactly_the_edge(noise: TruncatedLaplace) -> None:
    here, there = noise.law(), noise.shift(1)
    assert here.satisfies(there, noise.guarantee.epsilon, noise.guarantee.delta)
    stick, edge = here.hockey_stick(there, noise.guarantee.epsilon), noise.edge()
    assert float(stick.hi) == pytest.approx(float(edge.hi), rel=1e-12)
    assert not here.satisfies(there, noise.guarantee.epsilon, edge.lo * Fraction(999, 1000))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_group_privacy_of_the_noise_is_attained(size: int) -> None:
    """The conversion ``delta * (1 + e**e + ...)`` is tight here, and ``size * delta`` alone is false."""
    noise = truncated("1/2", "1/20", kappa=5)
    stick = noise.law().hockey_stick(noise.shift(size), size * Fraction(1, 2))
    factor = sum(2.718281828459045 ** (i / 2) for i in range(size))
    assert float(stick.lo) == pytest.approx(factor * float(noise.edge()), rel=1e-12)
    assert stick.lo > size * noise.edge().hi


def test_rational_base_gives_rational_probabilities() -> None:
    noise = truncated(None, "1/7", base=2)
    assert sum(noise.law().prob_exact(v) for v in range(2 * noise.kappa + 1)) == 1
    assert noise.certified_kappa == 1 + 3  # 2**3 >= 7
    assert truncated(None, "1/8", base=2).certified_kappa == 1 + 3  # ln(1/delta)/ln(base) is the integer 3
    assert Fraction(6931, 10000) < noise.guarantee.epsilon < Fraction(6932, 10000)


def test_noise_draws_match_the_law() -> None:
    """Chi-square at false-alarm probability 1e-7; the seed is fixed."""
    noise, draws = truncated("1/2", "1/100"), 4000
    with insecure_randomness():
        rng = SeededRng("truncated")
        counts = Counter(noise.sample(100, rng) - 100 for _ in range(draws))
    expected = [draws * float(noise.law().prob(v)) for v in range(2 * noise.kappa + 1)]
    assert min(expected) >= 5
    assert sum(counts.values()) == sum(counts[v] for v in range(len(expected)))
    assert chi2.sf(sum((counts[v] - e) ** 2 / e for v, e in enumerate(expected)), len(expected) - 1) > 1e-7


def test_too_wide_noise_is_refused_from_public_numbers() -> None:
    wide = truncated("1e-9", "1e-6")
    assert wide.kappa > 10**5
    with pytest.raises(TooLargeError, match="Laplace"):
        truncated("1e-12", "1e-9").sample()
    with pytest.raises(ParameterError, match="least kappa is 7"):
        truncated(1, "1e-3", kappa=6)


@pytest.mark.parametrize(
    ("epsilon", "more", "error"),
    [
        (None, {}, ParameterError),
        (None, {"base": 1}, ParameterError),
        (None, {"base": "1/2"}, ParameterError),
        (None, {"base": float("inf")}, ParameterError),
        (None, {"base": True}, TypeError),
        (1, {"base": 3}, ParameterError),
        (1, {"kappa": 0}, ParameterError),
        (1, {"kappa": 7.0}, TypeError),
    ],
)
def test_bad_bases_and_half_widths_are_refused(epsilon: Any, more: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        truncated(epsilon, "1e-3", **more)


# Randomised response


@pytest.mark.parametrize("k", [2, 5])
def test_reports_are_epsilon_dp_between_any_two_values(k: int) -> None:
    for mechanism in (answer(1, k), answer(1, k, keep=Fraction(1, k)), answer(None, k, keep="3/4")):
        laws = [mechanism.law(v) for v in range(k)]
        assert all(p.satisfies(q, mechanism.guarantee.epsilon) for p in laws for q in laws)
    assert not answer(1, k).law(0).satisfies(answer(1, k).law(1), "0.999999")
    assert (
        not answer(None, k, keep="3/4")
        .law(0)
        .satisfies(
            answer(None, k, keep="3/4").law(1), answer(None, k, keep="3/4").guarantee.epsilon - Fraction(1, 10**9)
        )
    )


def test_keep_is_the_probability_of_the_truth() -> None:
    law = answer(None, 4, keep="2/5").law(3)
    assert [law.prob_exact(v) for v in range(4)] == [Fraction(1, 5)] * 3 + [Fraction(2, 5)]
    assert answer(None, 2, keep="1/2").guarantee.epsilon == 0
    assert answer(2, 3, keep="1/2").guarantee.epsilon == 2


def test_wire_keep_probability_is_within_epsilon() -> None:
    """The rounded-down 32-bit keep probability of a local client."""
    base = dyadic_base(1)
    keep = Fraction(int((base / (1 + base)) * (1 << 32)), 1 << 32)
    assert answer(1, 2, keep=keep).guarantee.epsilon == 1
    with pytest.raises(ParameterError, match="loses more"):
        answer(1, 2, keep=keep + Fraction(1, 1 << 30))


def test_local_guarantee_and_huge_alphabets() -> None:
    report = answer(1, 1 << 70)
    assert report.guarantee.model == "local"
    assert 0 <= report.sample((1 << 70) - 1) < 1 << 70
    with pytest.raises(ParameterError, match="replace"):
        RandomizedResponse(1, 2, unit="user", neighbours="add-remove")


@pytest.mark.parametrize("keep", ["1/3", 1, 0, -1, 2, float("nan")])
def test_bad_keep_is_refused(keep: Any) -> None:
    with pytest.raises(ParameterError):
        answer(None, 2, keep=keep)
    with pytest.raises(ParameterError, match="give epsilon"):
        answer(None, 2)


@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ParameterError), (777, ParameterError), (1.0, TypeError), ("1", TypeError), (True, TypeError)],
)
def test_reports_outside_the_domain_are_refused_without_repeating_them(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        answer(1, 5).sample(value)
    assert "777" not in str(caught.value)
