"""Averaged histograms: everybody adds the same to the sums, whatever their records are; people count alike;
certificates hold."""

from __future__ import annotations

import sys
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
import privpac.distributions.histogram as module
import privpac.mechanisms.laplace as laplace
from privpac.api.distributions import distribution_learner
from privpac.data import Floats, Integers, UserData
from privpac.distributions import AveragedHistogram, ClippedHistogram
from privpac.distributions.cells import CodeCells
from privpac.distributions.family_plan import family_target
from privpac.distributions.histogram import averaged_sums, certify_averages, certify_counts
from privpac.errors import ParameterError
from privpac.parameters import COUNT_LEVELS
from privpac.sklearn import PrivateHistogram
from privpac.testing import SeededRng, insecure_randomness

sys.path.insert(0, str(Path(__file__).parent))
from literal import users_of

CELLS = CodeCells("x", 3)
USERS = [list(user) for size in range(5) for user in combinations_with_replacement(range(3), size)]
"""Every user with up to four records of three values."""


def vector(user: list[int], levels: int) -> list[int]:
    return averaged_sums(users_of([user], x=Integers(0, 2)), CELLS, levels).tolist()


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), max_size=9), max_size=7), st.integers(1, 1000))
def test_sums_equal_the_literal_ones_and_ignore_the_order_of_records(users: list[list[int]], levels: int) -> None:
    def upto(user: list[int], j: int) -> int:
        return levels * sum(x <= j for x in user) // len(user) if user else 0

    expected = [sum(upto(user, j) - upto(user, j - 1) for user in users) for j in range(4)]
    for given_users in (users, [user[::-1] for user in users][::-1]):
        assert averaged_sums(users_of(given_users, x=Integers(0, 3)), CodeCells("x", 4), levels).tolist() == expected


def test_shares_are_off_by_less_than_a_level_and_huge_users_do_not_overflow() -> None:
    for user in filter(None, USERS):
        for levels in (1, 2, 7, COUNT_LEVELS):
            shares = [
                Fraction(v, levels) - Fraction(user.count(j), len(user)) for j, v in enumerate(vector(user, levels))
            ]
            assert max(map(abs, shares)) < Fraction(1, levels)
    many = UserData.from_arrays(
        np.zeros((3_000_000, 1), np.int64), None, np.zeros(3_000_000), features={"x": Integers(0, 2)}
    )
    assert averaged_sums(many, CELLS, 1 << 30).tolist() == [1 << 30, 0, 0]


class Silent:
    """Records the rates that noise was asked for, and adds none."""

    def __init__(self) -> None:
        self.rates: list[Fraction] = []

    def __call__(self, eta: Fraction, rng: Any) -> int:
        self.rates.append(eta)
        return 0


def largest_loss(neighbours: str, levels: int, columns: int = 1) -> Fraction:
    """The loss of all columns together over every pair of neighbours, exactly: Laplace noise of rate ``eta`` loses
    ``eta`` per unit.

    Under add-remove any user comes; under replace any user becomes any other.
    """
    noise = Silent()
    saved, laplace.discrete_laplace = laplace.discrete_laplace, noise  # type: ignore[assignment]
    try:
        data = UserData.from_arrays(
            np.zeros((1, columns), np.int64), None, [0], features={f"x{i}": Integers(0, 2) for i in range(columns)}
        )
        AveragedHistogram(1, levels=levels, neighbours=neighbours).learn(data)
    finally:
        laplace.discrete_laplace = saved
    (rate,) = set(noise.rates)
    added = [module.averaged_sums(users_of([user], x=Integers(0, 2)), CELLS, levels) for user in USERS]
    others = added if neighbours == "replace" else [np.zeros(3, np.int64)]
    return columns * rate * max(int(np.abs(a - b).sum()) for a in added for b in others)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("levels", [1, 6, 840, COUNT_LEVELS])
def test_no_pair_of_neighbours_loses_more_than_epsilon_and_some_lose_all_of_it(neighbours: str, levels: int) -> None:
    assert largest_loss(neighbours, levels) == 1
    assert largest_loss(neighbours, levels, columns=2) == 1


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_vectors_that_are_not_normalised_fail_the_same_check(neighbours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(users: UserData, cells: Any, levels: int) -> Any:
        return levels * np.bincount(cells.index(users), minlength=cells.size)

    monkeypatch.setattr(module, "averaged_sums", counted)
    assert largest_loss(neighbours, 840) == 4

    def rounded(users: UserData, cells: Any, levels: int) -> Any:
        """Each share by itself, to the nearest level: three thirds of one level are three levels."""
        counts = np.bincount(cells.index(users), minlength=cells.size)
        return np.floor(levels * counts / max(1, counts.sum()) + 0.5).astype(np.int64)

    monkeypatch.setattr(module, "averaged_sums", rounded)
    assert largest_loss(neighbours, 2) > 1


# What is learned


def test_people_count_alike_however_many_records_they_have() -> None:
    data = users_of([[0] * 50] + [[1]] * 3, x=Integers(0, 1))
    with insecure_randomness():
        learned = AveragedHistogram(200).learn(data, rng=SeededRng(1)).value
        counted = ClippedHistogram(200, max_records=50, stages=1).learn(data, rng=SeededRng(1)).value
    assert float(learned.probabilities[0]) == pytest.approx(1 / 4, abs=0.01)
    assert float(counted.probabilities[0]) == pytest.approx(50 / 53, abs=0.1)


def test_no_users_and_users_without_records_give_noise_only() -> None:
    for users in ([], [[]], [[], []]):
        released = AveragedHistogram(1).learn(users_of(users, x=Integers(0, 3)))
        assert sum(released.value.probabilities) == pytest.approx(1)
        assert released.parameters["every person counts"] == "alike"


def test_bins_several_columns_and_a_cap_work_as_for_counts() -> None:
    data = users_of([[(0.5, 1)] * 9, [(7.0, 0)]] * 200, x=Floats(), y=Integers(0, 1))
    with insecure_randomness():
        learned = AveragedHistogram(50, bins={"x": [0, 1, 10]}, max_records=3).learn(data, rng=SeededRng(2))
    assert [float(p) for p in learned.value.parts[0].probabilities] == pytest.approx([0.5, 0.5], abs=0.01)
    assert learned.parameters["max_records"] == 3
    for wrong in (0, -1, 1.5, 1 << 40):
        with pytest.raises((ParameterError, TypeError)):
            AveragedHistogram(1, levels=wrong)


# The default


def test_averaging_is_the_default_unless_records_are_to_be_counted() -> None:
    assert isinstance(distribution_learner(epsilon=1), AveragedHistogram)
    assert isinstance(distribution_learner(epsilon=1, levels=840), AveragedHistogram)
    assert isinstance(distribution_learner(epsilon=1, method="average", max_records=9), AveragedHistogram)
    for declared in ({"max_records": 9}, {"max_records": 9, "method": "counts"}, {"max_records": 9, "stages": 1}):
        assert isinstance(distribution_learner(epsilon=1, **declared), ClippedHistogram)
    assert isinstance(distribution_learner(epsilon=1, unit="item"), ClippedHistogram)
    data = users_of([[3, 4], [5]] * 30, x=Integers(0, 9))
    assert pp.learn_distribution(data, epsilon=1).learner == "averaged histogram"
    model = PrivateHistogram(bins=None, domains=[Integers(0, 9)]).fit([[3], [4], [5]], groups=["a", "a", "b"])
    assert model.released_.learner == "averaged histogram"
    model = PrivateHistogram(bins=None, domains=[Integers(0, 9)], max_records=2).fit(
        [[3], [4], [5]], groups=["a", "a", "b"]
    )
    assert model.released_.learner == "clipped histogram"


# Certificates


def excess(rng: np.random.Generator, n: int, k: int, shares: Any, noise: int) -> float:
    """Total variation of one run from the mean of the people's own distributions, with their shares given."""
    counts = shares.sum(axis=0) * 840 + (
        rng.geometric(-np.expm1(-1 / noise), k) - rng.geometric(-np.expm1(-1 / noise), k)
    )
    kept = np.maximum(counts, 0)
    return float(np.abs(kept / max(1, kept.sum()) - 1 / k).sum() / 2)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("k", [2, 10])
def test_certified_people_who_differ_as_much_as_they_can_suffice(neighbours: str, k: int) -> None:
    """Everybody holds one value only, all values alike often: the largest spread; more than 22 failures of 100 at 1/20
    have probability below 1e-8.
    """
    n = certify_averages(k, epsilon=1, alpha="0.2", beta="0.05", neighbours=neighbours).n_users
    assert n is not None
    rng, noise = np.random.default_rng(7), 840 if neighbours == "add-remove" else 1680
    failures = sum(excess(rng, n, k, rng.multinomial(1, np.full(k, 1 / k), n), noise) > 0.2 for _ in range(100))
    assert failures <= 22


def test_certificates_charge_rounding_and_fall_with_every_budget() -> None:
    asked: dict[str, Any] = {"epsilon": 1, "alpha": "0.1", "beta": "0.05"}
    numbers = [certify_averages(50, **asked, levels=levels).n_users for levels in (300, 1000, 840_000)]
    assert numbers == sorted(numbers, reverse=True)
    assert certify_averages(50, **asked, levels=250).n_users is None  # rounding alone may cost alpha
    for name, values in {
        "epsilon": ("1/2", 1, 2),
        "alpha": ("0.05", "0.1", "0.2"),
        "beta": ("0.01", "0.05", "0.2"),
    }.items():
        found = [certify_averages(50, **{**asked, name: value}).n_users for value in values]
        assert found == sorted(found, reverse=True)
    # With one record each nothing distinguishes the two but the finer noise.
    one = certify_counts(50, **asked, records_per_user=1).n_users
    assert one <= certify_averages(50, **asked).n_users <= 1.15 * one


def test_a_plan_has_both_and_says_what_they_assume() -> None:
    rows = {row.name: row for row in family_target("histogram", epsilon=1, k=24).methods()}
    both = [rows[name].certify(16) for name in ("averaged histogram", "clipped histogram, one stage")]
    assert both[0].assumption.startswith("people drawn independently")
    assert both[1].assumption.startswith("users with equally many records")
    assert both[0].n_users == rows["averaged histogram"].certify(1).n_users > both[1].n_users
    assert "averaging needs no cap" in family_target("histogram", epsilon=1, k=24).note
