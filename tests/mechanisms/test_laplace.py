"""Discrete Laplace noise: the sampler's law by exact enumeration, the clamped law, the tail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privpac.errors import ParameterError, TooLargeError
from privpac.exact import as_arb, exp_ball, precision
from privpac.mechanisms import Laplace, discrete_laplace
from privpac.mechanisms.laplace import bernoulli_exp, geometric
from privpac.rng import Rng
from privpac.testing import SeededRng, insecure_randomness


def noise(epsilon: Any = "1/2", sensitivity: int = 1) -> Laplace:
    return Laplace(epsilon, sensitivity, unit="user", neighbours="add-remove")


# Exactness of the sampler: every branch of its decision tree


class _Branch(Exception):
    def __init__(self, ways: int) -> None:
        self.ways = ways


class _Scripted(Rng):
    """Replays choices; asks for one more when they run out."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._script = list(script)

    def word(self) -> int:
        raise AssertionError("the sampler draws integers below n and single bits only")

    def below(self, n: int) -> int:
        if n == 1:
            return 0
        if not self._script:
            raise _Branch(n)
        return self._script.pop(0)

    def bits(self, k: int) -> int:
        return self.below(1 << k)


def enumerate_tree(draw: Callable[[Rng], Any], cut: Fraction) -> tuple[dict[Any, Fraction], Fraction]:
    """Exact decided mass of every outcome, and the mass of branches lighter than ``cut`` that were left open."""
    decided: dict[Any, Fraction] = {}
    left_open = Fraction(0)
    stack: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while stack:
        script, mass = stack.pop()
        if mass < cut:
            left_open += mass
            continue
        try:
            outcome = draw(_Scripted(script))
        except _Branch as branch:
            stack.extend(((*script, i), mass / branch.ways) for i in range(branch.ways))
        else:
            decided[outcome] = decided.get(outcome, Fraction(0)) + mass
    return decided, left_open


def encloses(decided: Fraction, left_open: Fraction, truth: arb) -> bool:
    return bool(as_arb(decided) <= truth) and bool(truth <= as_arb(decided + left_open))


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 1), (1, 3), (2, 3), (5, 2)])
def test_bernoulli_exp_is_exact(a: int, b: int) -> None:
    decided, left_open = enumerate_tree(lambda rng: bernoulli_exp(a, b, rng), Fraction(1, 10**5))
    with precision(128):
        assert encloses(decided.get(True, Fraction(0)), left_open, exp_ball(Fraction(-a, b)))
    assert left_open < Fraction(1, 200)


@pytest.mark.parametrize("eta", [Fraction(1, 2), Fraction(1), Fraction(3, 2)])
def test_geometric_is_exact(eta: Fraction) -> None:
    decided, left_open = enumerate_tree(lambda rng: geometric(eta, rng), Fraction(1, 10**5))
    assert left_open < Fraction(1, 20)
    with precision(128):
        x = exp_ball(-eta)
        assert all(encloses(decided.get(g, Fraction(0)), left_open, (1 - x) * x**g) for g in range(8))


def test_two_sided_noise_is_exact() -> None:
    decided, left_open = enumerate_tree(lambda rng: discrete_laplace(Fraction(1), rng), Fraction(1, 10**5))
    assert left_open < Fraction(1, 10)
    with precision(128):
        x = exp_ball(Fraction(-1))
        assert all(
            encloses(decided.get(k, Fraction(0)), left_open, (1 - x) / (1 + x) * x ** abs(k)) for k in range(-5, 6)
        )


@pytest.mark.parametrize("eta", ["1/3", "7/5"])
def test_draws_match_the_law(eta: str) -> None:
    """Chi-square at false-alarm probability 1e-7; the seed is fixed."""
    draws, lo, hi = 4000, -6, 6
    mechanism = noise(eta)
    with insecure_randomness():
        rng = SeededRng("laplace")
        counts = Counter(mechanism.sample(0, rng, bounds=(lo, hi)) for _ in range(draws))
    law = mechanism.law(0, bounds=(lo, hi))
    cells = [(draws * float(law.prob(k)), counts[k]) for k in range(lo, hi + 1)]
    big = [cell for cell in cells if cell[0] >= 5]
    rest = (sum(e for e, _ in cells if e < 5), sum(o for e, o in cells if e < 5))
    pooled = [*big, rest] if rest[0] else big
    assert chi2.sf(sum((o - e) ** 2 / e for e, o in pooled), len(pooled) - 1) > 1e-7


# The law


@given(st.integers(-8, 8), st.integers(-5, 0), st.integers(0, 5), st.sampled_from(["1/3", "1", "5/2"]))
@settings(max_examples=30, deadline=None)
def test_clamped_law_is_the_clamped_sum(value: int, lo: int, hi: int, eta: str) -> None:
    law = noise(eta).law(value, bounds=(lo, hi))
    with precision(256):
        x = exp_ball(-Fraction(eta))
        far = 400
        mass = {k: (1 - x) / (1 + x) * x ** abs(k - value) for k in range(-far, far)}
        rest = arb(0).union(arb(10) ** -40)
        for k in range(lo, hi + 1):
            inside = [m for v, m in mass.items() if min(max(v, lo), hi) == k]
            assert (sum(inside, arb(0)) + rest).overlaps(law.number(k).arb())
    assert sum(law.prob(k).lo for k in range(lo, hi + 1)) <= 1 <= sum(law.prob(k).hi for k in range(lo, hi + 1))


@pytest.mark.parametrize("sensitivity", [1, 3])
def test_law_is_epsilon_dp_up_to_the_sensitivity_and_not_beyond(sensitivity: int) -> None:
    mechanism = noise(1, sensitivity)
    laws = [mechanism.law(v, bounds=(-4, 9)) for v in range(-7, 13)]
    for i, law in enumerate(laws):
        assert all(law.satisfies(other, 1) for other in laws[i : i + sensitivity + 1])
    assert not laws[8].satisfies(laws[8 + sensitivity + 1], 1)


def test_tail_is_exact_and_bounded_at_integers() -> None:
    mechanism = noise()
    law = mechanism.law(0, bounds=(-5, 5))
    tail = mechanism.tail(5)
    assert abs(float(tail) - 2 * float(law.prob(5))) < 1e-15
    assert mechanism.tail(0).lo == mechanism.tail(0).hi == 1
    with precision(128):
        # Pr[|noise| > t] <= e**(-eta t) for integer t.
        assert all(as_arb(mechanism.tail(t + 1).hi) <= exp_ball(Fraction(-t, 2)) for t in range(1, 30))
    assert mechanism.tail(10**30).hi > 0
    assert mechanism.tail(10**30).lo == 0


@pytest.mark.parametrize("beta", ["0.5", "1e-2", "1e-9"])
def test_reach_covers_all_but_beta(beta: str) -> None:
    reach = noise("1/7").reach(beta)
    assert noise("1/7").tail(reach + 1).hi <= Fraction(beta)
    assert noise().reach(1) == 0


def test_values_may_be_huge_and_bounds_hold() -> None:
    mechanism = noise("1e-30")
    assert isinstance(mechanism.sample(10**40), int)
    assert mechanism.sample(10**40, bounds=(0, 9)) in range(10)
    assert noise(10, 10**50).sample(0, bounds=(3, 3)) == 3
    assert noise().law(7, bounds=(2, 2)).prob_exact(2) == 1


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ((3, 2), ParameterError),
        (None, TypeError),
        ((1.0, 2), TypeError),
        ((1, 2, 3), TypeError),
        ((0, 1 << 40), TooLargeError),
        (5, TypeError),
    ],
)
def test_bad_bounds_are_refused(bounds: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        noise().law(0, bounds=bounds)


@pytest.mark.parametrize("value", [1.5, "3", None, float("nan"), True])
def test_values_must_be_integers_and_are_not_repeated(value: Any) -> None:
    with pytest.raises(TypeError, match="integer") as caught:
        noise().sample(value)
    assert "1.5" not in str(caught.value)
    with pytest.raises(TypeError, match="integer"):
        noise().law(value, bounds=(0, 1))
