"""Shuffle histograms: the promise by enumerating the counts of all buckets, the law of the noise, and the front."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import nbinom

import privpac as pp
from privpac.data import Integers, UserData
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.protocols import ShuffleHistogram
from privpac.testing import SeededRng, insecure_randomness

LEARNER = ShuffleHistogram(3, delta="1/50", neighbours="replace")


def data_of(values: list[list[int]], most: int = 2) -> UserData:
    return UserData.from_users(values, features={"x": Integers(0, most)}, labelled=False)


def worst(r: float, p: float, epsilon: float, n: int = 2, buckets: int = 3) -> float:
    """The largest divergence over all neighbours of ``n`` people (one value each, or none: the last bucket)."""
    reach = int(nbinom.isf(1e-9, r, 1 - p)) + n + 1
    mass = nbinom.pmf(np.arange(reach), r, 1 - p)

    def law(people: tuple[int, ...]) -> Any:
        found = np.ones(())
        for bucket in range(buckets):
            shifted = np.concatenate([np.zeros(people.count(bucket)), mass])[:reach]
            found = np.multiply.outer(found, shifted)
        return found

    largest = 0.0
    for rest in combinations_with_replacement(range(buckets), n - 1):
        for a, b in product(range(buckets), repeat=2):
            largest = max(largest, float(np.maximum(law((*rest, a)) - math.exp(epsilon) * law((*rest, b)), 0).sum()))
    return largest


def test_no_pair_of_neighbours_exceeds_delta_and_less_noise_does() -> None:
    noise = LEARNER.calibrated
    found = worst(float(noise.r), float(noise.p), 3.0)
    assert found == pytest.approx(float(noise.delta), rel=1e-4)
    assert found <= 0.02 * (1 + 1e-6)
    assert worst(float(noise.r) * 0.8, float(noise.p), 3.0) > 0.02


def test_counts_carry_the_noise_of_the_protocol() -> None:
    """The mean of 400 draws of two buckets, five standard errors: false alarms below 1e-5; and the sum over devices has
    the same mean."""
    people = data_of([[0]] * 30 + [[1]] * 10 + [[]] * 5, most=1)
    noise = LEARNER.calibrated
    with insecure_randomness():
        drawn = np.array([LEARNER.learn(people, rng=SeededRng(k)).value.weights for k in range(400)], float)
        run, coins = LEARNER.protocol(2, 45), SeededRng(1)
        sent = [sum(len(run.messages(0, coins)) for _ in range(45)) - 45 for _ in range(60)]
    unit = noise.mean.denominator
    spread = math.sqrt(float(noise.r * noise.p / (1 - noise.p) ** 2))
    assert drawn[:, 0].mean() / unit == pytest.approx(30, abs=5 * spread / 20)
    assert drawn[:, 0].std() / unit == pytest.approx(spread, rel=0.3)
    assert np.mean(sent) == pytest.approx(3 * float(noise.mean), abs=5 * spread * math.sqrt(3 / 60))


def test_more_people_than_needed_only_add_noise() -> None:
    few = ShuffleHistogram(1, delta="1e-6", neighbours="replace", n_min=100)
    assert few.protocol(3, 400).share * 400 == 4 * few.calibrated.r
    with pytest.raises(InfeasibleError, match="fewer than the 100"):
        few.learn(data_of([[0]] * 99))


def test_through_the_front() -> None:
    people = data_of([[0, 1], [1], [2]] * 300)
    released = pp.learn_distribution(people, epsilon=1, method="shuffle", delta="1e-6", neighbours="replace")
    assert released.guarantee is not None
    assert str(released.guarantee.model) == "shuffle"
    assert released.guarantee.delta == Fraction(1, 10**6)
    assert float(released.value.probabilities[2]) == pytest.approx(1 / 3, abs=0.1)
    with pytest.raises(ParameterError, match="noise along"):
        pp.learn_distribution(people, epsilon=1, method="shuffle", delta="1e-6")
    with pytest.raises(ParameterError, match="needs delta"):
        pp.learn_distribution(people, epsilon=1, method="shuffle", neighbours="replace")
    two = UserData.from_users([[(0, 1)]], features={"a": Integers(0, 1), "b": Integers(0, 1)}, labelled=False)
    with pytest.raises(ParameterError, match="one column"):
        pp.learn_distribution(two, epsilon=1, method="shuffle", delta="1e-6", neighbours="replace")
    nobody = pp.learn_distribution(data_of([]), epsilon=1, method="shuffle", delta="1e-6", neighbours="replace")
    assert sum(nobody.value.probabilities) == pytest.approx(1)


@pytest.mark.parametrize(
    ("people", "most", "n_min", "error"),
    [(6000, 1, 1, ParameterError), (3, 1 << 16, None, TooLargeError)],
    ids=["far more people than n_min", "more buckets than the protocol has"],
)
def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_spent(
    people: int, most: int, n_min: int | None, error: type[Exception], tmp_path: Path
) -> None:
    learner = ShuffleHistogram(3, delta="1/50", neighbours="replace", n_min=n_min)
    budget = Guarantee(3, "1/50", unit="user", neighbours="replace", model="shuffle")
    with BudgetLedger.create(tmp_path / "budget.db", budget, dataset="made up") as book:
        with pytest.raises(error):
            learner.learn(data_of([[0]] * people, most), ledger=book)
        assert not list(book.history())
