"""Means by name: the plain one decided exactly, the trimmed and friendly ones through the front, refusals."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privpac as pp
from privpac.data import Categories, Integers, UserData
from privpac.distributions import AveragedMean
from privpac.errors import ParameterError, TooLargeError


def users(people: list[list[int]], top: int = 99) -> UserData:
    return UserData.from_users(people, features={"x": Integers(0, top)}, labelled=False)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_noise_covers_what_one_person_moves(neighbours: str) -> None:
    """The ratio of two neighbouring laws is e**(rate * moved): rates times the largest moves are at most epsilon."""
    learner = AveragedMean(1, neighbours=neighbours, levels=8)
    rate, counting = learner.rates(1)
    moves = [(2 * s - 8, 1) for s in range(9)]
    if counting is not None:
        assert max(rate * abs(a) + counting * n for a, n in moves) == 1
    else:
        everybody = [*(a for a, _ in moves), 0]
        assert max(rate * abs(a - b) for a in everybody for b in everybody) == 1
    assert (
        max(rate * abs(a) * 2 + (counting or 0) for a, _ in moves) > 1 or counting is None
    )  # half the noise would fail


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_mean_is_close_and_everybody_counts_alike(neighbours: str) -> None:
    people = users([[90] * 500, *([[10], [30]] * 1000)])
    found = pp.learn_distribution(people, epsilon=1, family="mean", neighbours=neighbours)
    assert abs(found.value["x"] - 20) < 3  # noise of scale 0.1: beyond with probability below 1e-9


def test_saved_and_loaded(tmp_path: Path) -> None:
    released = pp.learn_distribution(users([[1], [2]]), epsilon=1, family="mean")
    released.save(tmp_path / "m.json")
    assert pp.load(tmp_path / "m.json").value == released.value


def test_nobody_is_no_error() -> None:
    for people in ([], [[]]):
        assert 0 <= pp.learn_distribution(users(people), epsilon=1, family="mean").value["x"] <= 99


def test_trimmed_and_friendly_by_name() -> None:
    rng = np.random.default_rng(5)
    people = users(rng.integers(45, 56, size=(400, 20)).tolist())
    told: dict[str, Any] = {"epsilon": 2, "family": "mean", "neighbours": "replace", "delta": "1e-5"}
    trimmed = pp.learn_distribution(people, method="trimmed", width=10, **told)
    assert trimmed.guarantee is not None
    assert trimmed.guarantee.delta == Fraction(1, 10**5)
    if trimmed:
        assert abs(trimmed.value["x"] - 50) < 5
    assert pp.learn_distribution(people, method="friendly", width="1/5", **told).outcome in ("released", "none")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "trimmed", "neighbours": "replace"}, "needs delta and width"),
        ({"method": "trimmed", "delta": "1e-6", "width": 3}, "declare slots"),
        ({"method": "friendly", "neighbours": "replace", "delta": "1e-6", "width": 5}, "whole ranges"),
        ({"method": "cover"}, "must be auto, average"),
        ({"radius": 3}, "no option radius"),
    ],
)
def test_refusals_say_what_to_do(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        pp.learn_distribution(users([[1]]), epsilon=1, family="mean", **options)


def test_columns_without_numbers_are_refused() -> None:
    words = UserData.from_users([["a"]], features={"x": Categories(["a", "b"])}, labelled=False)
    with pytest.raises(ParameterError, match="needs numbers"):
        pp.learn_distribution(words, epsilon=1, family="mean")


# Products of any size


def many(columns: int, size: int) -> UserData:
    rng = np.random.default_rng(6)
    rows = [[tuple(map(int, rng.integers(0, size, columns))) for _ in range(3)] for _ in range(400)]
    return UserData.from_users(rows, features={f"c{j}": Integers(0, size - 1) for j in range(columns)}, labelled=False)


def test_products_that_no_cover_holds_are_learned_column_by_column_and_it_is_said() -> None:
    released = pp.learn_distribution(many(5, 4), epsilon=2, family="product", records_per_user=3)
    assert released.parameters["columns"] == "one by one, as if independent"
    assert "too large" in released.parameters["chosen because"]
    assert released.value.sample(3).shape[0] == 3
    with pytest.raises(TooLargeError):
        pp.learn_distribution(many(5, 4), epsilon=2, family="product", records_per_user=3, method="cover")
    asked = pp.learn_distribution(many(2, 2), epsilon=2, family="product", method="columns")
    assert asked.parameters["chosen because"] == "asked for"


def test_small_products_are_still_selected_from_a_cover() -> None:
    released = pp.learn_distribution(many(2, 2), epsilon=2, family="product", records_per_user=3)
    assert released.learner == "selection from a cover"


def test_a_column_of_many_values_too() -> None:
    assert "too large" in pp.learn_distribution(
        many(1, 30), epsilon=2, family="discrete", records_per_user=3
    ).parameters["chosen because"]  # fmt: skip
