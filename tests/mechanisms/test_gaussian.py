"""Discrete Gaussian noise: the sampler against its exact law, its zCDP promise, large variances, bad input."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import isqrt, pi
from typing import Any

import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privpac.composition import zcdp_epsilon
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import as_arb, exp_ball, precision
from privpac.mechanisms import DiscreteGaussian, discrete_gaussian
from privpac.mechanisms.gaussian import normal_reach
from privpac.testing import SeededRng, insecure_randomness


def noise(sigma2: Any, sensitivity2: int = 1) -> DiscreteGaussian:
    rho = Fraction(sensitivity2) / (2 * Fraction(sigma2))
    return DiscreteGaussian(rho, sensitivity2, delta="1e-6", unit="user", neighbours="add-remove")


@pytest.mark.parametrize("sigma2", ["1/10", "1/2", "1", "7/3", "50"])
def test_proposal_times_acceptance_is_the_target(sigma2: str) -> None:
    """Accepted draws have weight e**(-y**2/(2 sigma2)) times a constant, exactly."""
    exact = Fraction(sigma2)
    a, b = exact.numerator, exact.denominator
    t = isqrt(a // b) + 1
    assert (t - 1) ** 2 <= exact < t * t
    for y in range(-30, 31):
        exponent = Fraction(abs(y), t) + Fraction((abs(y) * b * t - a) ** 2, 2 * a * b * t * t)
        assert exponent == Fraction(y * y) / (2 * exact) + exact / (2 * t * t)


@pytest.mark.parametrize("sigma2", ["1/4", "1", "7/3", "40"])
def test_draws_match_the_exact_law(sigma2: str) -> None:
    """Chi-square at false-alarm probability 1e-7; the seed is fixed."""
    draws, reach = 6000, 25
    mechanism = noise(sigma2)
    with insecure_randomness():
        rng = SeededRng("gaussian")
        counts = Counter(mechanism.sample(0, rng, bounds=(-reach, reach)) for _ in range(draws))
    law = mechanism.law(0, bounds=(-reach, reach))
    cells = [(draws * float(law.prob(k)), counts[k]) for k in range(-reach, reach + 1)]
    big = [cell for cell in cells if cell[0] >= 5]
    rest = (sum(e for e, _ in cells if e < 5), sum(o for e, o in cells if e < 5))
    pooled = [*big, rest] if rest[0] > 1 else big
    assert sum(o for _, o in pooled) >= draws - 20
    assert chi2.sf(sum((o - e) ** 2 / e for e, o in pooled), len(pooled) - 1) > 1e-7


def test_a_wrong_variance_is_noticed() -> None:
    """The same chi-square refuses draws of another variance: it has power."""
    draws, reach = 6000, 8
    with insecure_randomness():
        rng = SeededRng("mutant")
        counts = Counter(noise(3).sample(0, rng, bounds=(-reach, reach)) for _ in range(draws))
    law = noise("5/2").law(0, bounds=(-reach, reach))
    cells = [(draws * float(law.prob(k)), counts[k]) for k in range(-5, 6)]
    assert chi2.sf(sum((o - e) ** 2 / e for e, o in cells), len(cells) - 1) < 1e-9


@pytest.mark.parametrize("sigma2", ["1/9", "2", "33/7"])
@pytest.mark.parametrize("bounds", [(-3, 4), (0, 1), (5, 60), (-70, -60), (2, 2)])
def test_the_clamped_law_adds_to_one(sigma2: str, bounds: tuple[int, int]) -> None:
    law = noise(sigma2).law(3, bounds=bounds)
    with precision(192):
        total = sum((law.number(k).arb() for k in range(bounds[0], bounds[1] + 1)), arb(0))
        assert total.overlaps(arb(1))
        assert total.rad() < arb(2) ** -100


@pytest.mark.parametrize("sigma2", ["1/2", "1", "9/4", "12"])
def test_renyi_divergence_is_at_most_the_stated_one(sigma2: str) -> None:
    """For integer shifts and several orders, in balls: D_a <= a m**2 / (2 sigma2)."""
    rate = 1 / (2 * Fraction(sigma2))
    with precision(256):
        whole = sum((exp_ball(-x * x * rate) for x in range(-200, 201)), arb(0))
        for shift in (1, 2, 5):
            for order in (Fraction(3, 2), Fraction(2), Fraction(8)):
                moved = sum((exp_ball(-((x - order * shift) ** 2) * rate) for x in range(-300, 301)), arb(0))
                excess = (moved / whole).log() / as_arb(order - 1)
                assert excess <= arb(10) ** -40  # 0 up to the rounding of equal sums


def test_the_promise_is_the_optimal_conversion() -> None:
    mechanism = noise(8, 4)
    assert mechanism.guarantee.rho == Fraction(1, 4)
    assert mechanism.sigma2 == 8
    assert mechanism.guarantee.epsilon == zcdp_epsilon(Fraction(1, 4), "1e-6", "optimal")
    assert mechanism.guarantee.delta == Fraction(1, 10**6)


@pytest.mark.parametrize("sigma2", [Fraction(10**12), Fraction(10**12 * 7 + 1, 7)])
def test_large_variances(sigma2: Fraction) -> None:
    """The mean square of n draws, as a sum of about normal squares: outside with probability below 1e-9; seeded."""
    n = 400
    with insecure_randomness():
        rng = SeededRng("large")
        draws = [discrete_gaussian(sigma2, rng) for _ in range(n)]
    square = sum(x * x for x in draws) / float(sigma2)
    assert chi2.ppf(5e-10, n) < square < chi2.isf(5e-10, n)
    assert abs(sum(draws)) < 6.2 * (n * float(sigma2)) ** 0.5
    assert len({x % 1000 for x in draws}) > 200  # no digits are lost


def test_parity_of_large_draws_is_even() -> None:
    """Low bits are uniform; 6.2 standard deviations, false alarm below 1e-9."""
    n = 1000
    with insecure_randomness():
        odd = sum(discrete_gaussian(Fraction(10**18), rng) & 1 for rng in [SeededRng("bits")] for _ in range(n))
    assert abs(odd - n / 2) < 6.2 * (n / 4) ** 0.5


def test_vectors_have_independent_coordinates() -> None:
    """Products of two coordinates average to 0 within 6.2 standard deviations: false alarm below 1e-9."""
    n = 1500
    with insecure_randomness():
        rng = SeededRng("vector")
        draws = [noise(100).sample_vector([5, -7], rng) for _ in range(n)]
    total = sum((a - 5) * (b + 7) for a, b in draws)
    assert abs(total) < 6.2 * 100 * n**0.5


@given(
    st.fractions(min_value=Fraction(1, 50), max_value=300, max_denominator=60),
    st.fractions(min_value=Fraction(1, 10**6), max_value=1, max_denominator=10**6),
)
@settings(max_examples=60, deadline=None)
def test_reach_bounds_the_tail(sigma2: Fraction, beta: Fraction) -> None:
    t = normal_reach(sigma2, beta)
    assert noise(sigma2).tail(t + 1).lo <= beta
    assert noise(sigma2).tail(t + 1).hi <= beta * (1 + Fraction(1, 10**20))


def test_reach_of_a_large_variance() -> None:
    t = noise(10**12).reach("0.05")
    assert abs(t - 1.959964 * 10**6) < 2
    assert noise(10**12).reach(1) == 0


@pytest.mark.parametrize("sigma2", ["1/5", "3"])
def test_tail_of_zero_and_far_away(sigma2: str) -> None:
    assert noise(sigma2).tail(0).lo == 1
    far = noise(sigma2).tail(400)
    assert 0 <= far.lo <= far.hi < Fraction(1, 10**100)


def test_the_normaliser_is_the_theta_function() -> None:
    """Poisson summation: the sum is sqrt(2 pi sigma2) up to e**(-2 pi**2 sigma2) for sigma2 = 4."""
    assert abs(float(noise(4).law(0, bounds=(-90, 90)).prob(0)) * (2 * pi * 4) ** 0.5 - 1) < 1e-15


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"rho": 0}, ParameterError),
        ({"rho": "x"}, ParameterError),
        ({"rho": None}, TypeError),
        ({"sensitivity2": -1}, ParameterError),
        ({"delta": 0}, ParameterError),
        ({"delta": 1}, ParameterError),
        ({"unit": "person"}, ParameterError),
        ({"neighbours": "any"}, ParameterError),
    ],
)
def test_bad_parameters(change: dict[str, Any], error: type[Exception]) -> None:
    good = {"rho": 1, "sensitivity2": 1, "delta": "1e-6", "unit": "user", "neighbours": "replace"}
    with pytest.raises(error):
        DiscreteGaussian(**(good | change))


def test_bad_values_and_sizes() -> None:
    with pytest.raises(TypeError, match="integer"):
        noise(1).sample(1.5)  # type: ignore[arg-type]
    with pytest.raises(TooLargeError):
        noise(10**9).law(0, bounds=(0, 5))
    with pytest.raises(TooLargeError):
        noise(10**9).tail(3)
    with pytest.raises(ParameterError):
        noise(1).law(0, bounds=(3, 2))
