"""Clipped histograms: the sums literally, the two stages, edge cases, and noise that is what it says."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac.distributions.histogram as module
import privpac.mechanisms.laplace as laplace
from privpac.data import Categories, Floats, Integers, UserData
from privpac.distributions import ClippedHistogram, DiscreteDistribution, HistogramDistribution, ProductDistribution
from privpac.distributions.cells import CodeCells
from privpac.distributions.histogram import A0, LUCK, clipped_deviations, deviation_scales
from privpac.errors import ParameterError, TooLargeError
from privpac.testing import SeededRng, insecure_randomness

sys.path.insert(0, str(Path(__file__).parent))
from literal import clip, users_of


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), max_size=9), max_size=7),
    st.lists(st.integers(0, 100), min_size=4, max_size=4),
    st.lists(st.integers(1, 400), min_size=4, max_size=4),
)
def test_deviations_equal_the_literal_sums(users: list[list[int]], a: list[int], taus: list[int]) -> None:
    data = users_of(users, x=Integers(0, 3))
    got = clipped_deviations(data, CodeCells("x", 4), np.array(a), np.array(taus), 64)
    assert got.tolist() == [
        sum(clip(64 * user.count(j) - len(user) * a[j], taus[j]) for user in users) for j in range(4)
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=6), st.integers(1, 2), st.fractions(Fraction(1, 100), 10))
def test_scales_pay_for_every_coordinate(taus: list[int], factor: int, epsilon: Fraction) -> None:
    scales = deviation_scales(np.array(taus), factor, epsilon)
    assert sum(Fraction(factor * tau, scale) for tau, scale in zip(taus, scales, strict=True)) <= epsilon
    roots = [math.isqrt(tau - 1) + 1 for tau in taus]
    assert all(root**2 >= tau > (root - 1) ** 2 for root, tau in zip(roots, taus, strict=True))


class Silent:
    """Records the rates that noise was asked for, and adds none."""

    def __init__(self) -> None:
        self.rates: list[Fraction] = []

    def __call__(self, eta: Fraction, rng: Any) -> int:
        self.rates.append(eta)
        return 0


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_without_noise_both_stages_return_the_counts(monkeypatch: pytest.MonkeyPatch, neighbours: str) -> None:
    silent = Silent()
    for place in (module, laplace):
        monkeypatch.setattr(place, "discrete_laplace", silent)
    users = [[0, 0, 1], [2], [], [0, 1, 1, 1, 1]]
    data = users_of(users, x=Integers(0, 3))
    f = 1 if neighbours == "add-remove" else 2
    with insecure_randomness():
        one = ClippedHistogram(2, max_records=4, stages=1, neighbours=neighbours).learn(data, rng=SeededRng(1))
        assert one.value.weights == (3, 4, 1, 0)
        assert silent.rates == [Fraction(2, f * 4)] * 4
        silent.rates.clear()
        two = ClippedHistogram(2, max_records=4, stages=2, first_share="1/4", neighbours=neighbours).learn(
            data, rng=SeededRng(1)
        )
    first, second = silent.rates[:4], silent.rates[4:]
    assert first == [Fraction(1, 2) / (f * 4)] * 4
    # Stage B from its definition, with wide clips (few users: nothing is cut off), gives back the counts in units of
    # A0.
    dl = 2 * f * 4 / (0.5 * 8)
    taus = [
        min(A0 * 4, math.ceil(A0 * (math.sqrt(8 * (p + dl) * LUCK) + LUCK / 3 + 4 * dl)))
        for p in (3 / 8, 1 / 2, 1 / 8, 0)
    ]
    assert second == [Fraction(1, b) for b in deviation_scales(np.array(taus), f, Fraction(3, 2))]
    assert two.value.weights == tuple(A0 * count for count in (3, 4, 1, 0))


def test_the_cap_is_applied_before_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (module, laplace):
        monkeypatch.setattr(place, "discrete_laplace", Silent())
    data = users_of([[1] * 50, [0]], x=Integers(0, 1))
    with insecure_randomness():
        assert ClippedHistogram(1, max_records=3, stages=1).learn(data, rng=SeededRng(0)).value.weights == (1, 3)


def test_nothing_left_is_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (module, laplace):
        monkeypatch.setattr(place, "discrete_laplace", lambda eta, rng: -5)
    for stages in (1, 2):
        with insecure_randomness():
            released = ClippedHistogram(1, max_records=3, stages=stages).learn(
                users_of([], x=Integers(0, 3)), rng=SeededRng(0)
            )
        assert released.value.probabilities.tolist() == [0.25] * 4


def test_noise_is_exact_discrete_laplace() -> None:
    """Empty data, k = 4000: the kept counts are the positive part of the noise; mean |noise| of scale s is about s.

    The mean of max(noise, 0) over 4000 cells has mean x / (1 - x^2) = 3.98 at eta = 1/8 and deviation 0.11: 0.8 is over
    7 sigma.
    """
    with insecure_randomness():
        released = ClippedHistogram(1, max_records=8, stages=1).learn(
            users_of([], x=Integers(0, 3999)), rng=SeededRng(5)
        )
    x = math.exp(-1 / 8)
    assert abs(np.mean(released.value.weights) - x / (1 - x * x)) < 0.8


def test_the_public_rule_picks_the_stages() -> None:
    assert ClippedHistogram(1, max_records=int(16 * 8 * LUCK)).stages_for(8) == 1
    assert ClippedHistogram(1, max_records=int(16 * 8 * LUCK) + 1).stages_for(8) == 2
    assert ClippedHistogram(1, unit="item").stages_for(8) == 1
    assert ClippedHistogram(1, max_records=10**6, stages=1).stages_for(8) == 1


def test_two_stages_are_closer_with_many_records() -> None:
    """k = 8, n = 400, M = 4096 records each: mean distance over 6 runs, one stage against two (about a factor of 4
    apart)."""
    rng = np.random.default_rng(2)
    n, m, k = 400, 4096, 8
    p = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])
    x = rng.choice(k, n * m, p=p)
    data = UserData.from_arrays(x[:, None], users=np.repeat(np.arange(n), m), features={"x": Integers(0, k - 1)})
    true = np.bincount(x, minlength=k) / len(x)
    away = {1: 0.0, 2: 0.0}
    for stages in away:
        with insecure_randomness():
            for seed in range(6):
                released = ClippedHistogram(1, max_records=m, stages=stages).learn(data, rng=SeededRng(seed))
                away[stages] += float(np.abs(released.value.probabilities - true).sum()) / 12
    assert away[2] < away[1]


def test_bins_and_products_publish_what_they_are() -> None:
    rows = [[("a", 0.5), ("b", -3.0)], [("a", 99.0)]]
    data = UserData.from_users(rows, features={"c": Categories(["a", "b"]), "x": Floats()}, labelled=False)
    learner = ClippedHistogram(20, max_records=4, bins={"x": [-1, 0, 1, 2]})
    released = learner.learn(data)
    assert isinstance(released.value, ProductDistribution)
    city, number = released.value.parts
    assert isinstance(city, DiscreteDistribution)
    assert isinstance(number, HistogramDistribution)
    assert number.edges == (-1, 0, 1, 2)
    assert released.guarantee is not None
    assert released.guarantee.epsilon == 20


def test_values_beyond_the_edges_fall_into_the_end_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (module, laplace):
        monkeypatch.setattr(place, "discrete_laplace", Silent())
    data = users_of([[-50.0, 0.0, 1.0], [1.5, 2.0, 70.0]], x=Floats())
    with insecure_randomness():
        released = ClippedHistogram(1, max_records=9, stages=1, bins=[-1, 0, 1, 2]).learn(data, rng=SeededRng(0))
    assert released.value.weights == (1, 1, 4)


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="max_records must be declared"):
        ClippedHistogram(1)
    with pytest.raises(ParameterError, match="stages"):
        ClippedHistogram(1, max_records=3, stages=3)
    with pytest.raises(ParameterError, match="increasing"):
        ClippedHistogram(1, max_records=3, bins=[1, 1, 2])
    with pytest.raises(ParameterError, match="first_share"):
        ClippedHistogram(1, max_records=3, first_share=1)
    with pytest.raises(TooLargeError, match="bins"):
        ClippedHistogram(1, max_records=3).bind(users_of([[0.5]], x=Floats()))
    with pytest.raises(ParameterError, match="numbers"):
        ClippedHistogram(1, max_records=3, bins=[0, 1]).bind(users_of([["a"]], x=Categories(["a"])))


def test_a_tiny_epsilon_overflows_nowhere_after_the_spend() -> None:
    data = users_of([[("a",)] * 3, [("b",)]], x=Categories(["a", "b"]))
    for epsilon in ("1e-400", "1e-20", 1):
        released = ClippedHistogram(epsilon, max_records=300, stages=2).learn(data)
        assert released.outcome == "released"
