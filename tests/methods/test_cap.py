"""The private cap: its score is the distance from a quantile, its grid is public, and it feeds other learners."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.data import Integers, UserData
from privpac.errors import IncompatibleGuarantees, ParameterError
from privpac.methods.cap import DEFAULT_GRID, CapSelection, _AtMost, private_cap
from privpac.papers.few_examples_per_user.pairwise import PairwiseSelection
from privpac.rules import Thresholds
from privpac.testing import SeededRng, insecure_randomness


def people(sizes: list[int]) -> UserData:
    return UserData.from_users([[(0, 0)] * m for m in sizes], features={"x": Integers(0, 1)})


@given(
    st.lists(st.integers(0, 40), max_size=12),
    st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=50),
    st.sets(st.integers(1, 50), min_size=1, max_size=6),
)
def test_scores_equal_the_definition(sizes: list[int], quantile: Fraction, caps: set[int]) -> None:
    grid, (a, b) = sorted(caps), quantile.as_integer_ratio()
    learner = CapSelection(1, quantile, grid)
    expected = [abs(b * sum(m <= cap for m in sizes) - a * len(sizes)) for cap in grid]
    assert learner.scores(people(sizes)).tolist() == expected
    parts = _AtMost(tuple(grid))
    both = parts.merge(parts.chunk(people(sizes[:3])), parts.chunk(people(sizes[3:])))
    assert parts.merge(parts.zero(), both).tolist() == parts.chunk(people(sizes)).tolist()
    law = learner.law(people(sizes))
    assert float(sum(law.prob(cap).hi for cap in grid)) == pytest.approx(1)


def test_the_mode_is_the_quantile() -> None:
    sizes = np.random.default_rng(0).zipf(1.6, 1000).clip(max=2000).tolist()
    for quantile in ("1/2", "9/10", "99/100"):
        law = CapSelection(1, quantile).law(people(sizes))
        share = Fraction(sum(m <= law.mode for m in sizes), len(sizes))
        others = [abs(Fraction(sum(m <= cap for m in sizes), len(sizes)) - Fraction(quantile)) for cap in DEFAULT_GRID]
        assert abs(share - Fraction(quantile)) == min(others)


@pytest.mark.parametrize(
    ("quantile", "neighbours", "rho"),
    [
        ("9/10", "replace", 20),
        ("9/10", "add-remove", 18),
        ("1/2", "add-remove", 2),
        ("1/4", "add-remove", 6),
        (1, "add-remove", 2),
    ],
)
def test_the_range_sensitivity(quantile: Any, neighbours: str, rho: int) -> None:
    assert CapSelection(1, quantile, neighbours=neighbours).range_sensitivity == rho


@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 0]])
def test_no_users_and_empty_users_are_ordinary(sizes: list[int]) -> None:
    law = CapSelection(1, grid=(1, 2, 4)).law(people(sizes))
    assert [law.prob_float(cap) for cap in (1, 2, 4)] == pytest.approx([1 / 3] * 3)


def test_the_released_cap_feeds_a_learner() -> None:
    table = people([3] * 200 + [900] * 5)
    with insecure_randomness():
        released = private_cap(table, epsilon=1, rng=SeededRng(4))
    cap = released.value
    assert cap in DEFAULT_GRID
    assert set(released.parameters) == {"quantile", "grid"}
    learner = PairwiseSelection(Thresholds(), 1, records_per_user=cap, max_records=cap)
    assert learner.range_sensitivity(learner.bind(table).clip) <= 2 * cap
    assert str(private_cap(table, epsilon="1/10").guarantee) == "(0.1, 0)-DP per user, add-remove"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"epsilon": -1}, ParameterError),
        ({"epsilon": math.nan}, ParameterError),
        ({"epsilon": "x"}, (ParameterError, TypeError)),
        ({"quantile": 0}, ParameterError),
        ({"quantile": 2}, ParameterError),
        ({"quantile": Fraction(1, (1 << 20) + 1)}, ParameterError),
        ({"grid": ()}, ParameterError),
        ({"grid": (2, 1)}, ParameterError),
        ({"grid": (1, 1)}, ParameterError),
        ({"grid": (0, 1)}, ParameterError),
        ({"grid": (1, 1 << 50)}, ParameterError),
        ({"grid": (1.5,)}, TypeError),
        ({"grid": "12"}, TypeError),
        ({"grid": 3}, TypeError),
        ({"neighbours": "both"}, ParameterError),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(options: dict[str, Any], error: Any) -> None:
    with pytest.raises(error):
        CapSelection(**({"epsilon": 1} | options))


def test_item_level_data_are_refused() -> None:
    items = UserData.from_arrays([[1]], [1], None, features={"x": Integers(0, 5)})
    with pytest.raises(IncompatibleGuarantees, match="user column"):
        private_cap(items, epsilon=1)
