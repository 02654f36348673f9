"""The rank law: blocks against the definition, privacy under both relations decided exactly, accuracy, bad input."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.auditing.exact import audit_exact, datasets
from privpac.errors import ParameterError
from privpac.exact import dyadic_base
from privpac.mechanisms.rank import RankMechanism, clipped, rank_law, rank_window
from privpac.testing import SeededRng, insecure_randomness


def literal_score(y: list[int], hi: int, K: int, z: int) -> int:
    return min(sum(v >= z for v in y) - hi, K - sum(v > z for v in y))


RANKS = st.integers(1, 5).flatmap(lambda hi: st.tuples(st.just(hi), st.integers(hi - 1, hi + 6)))


# The law


@given(st.lists(st.integers(0, 9), max_size=12), RANKS, st.integers(9, 12))
def test_blocks_are_the_pointwise_law(y: list[int], ranks: tuple[int, int], d: int) -> None:
    hi, K = ranks
    base = Fraction(7, 4)
    law = rank_law(y, hi, K, d, base)
    weights = [base ** literal_score(y, hi, K, z) for z in range(d + 1)]
    assert [law.prob_exact(z) for z in range(d + 1)] == [w / sum(weights) for w in weights]


@given(st.lists(st.integers(0, 2**1000 - 1), max_size=8), RANKS)
def test_values_of_a_thousand_bits_make_few_blocks(y: list[int], ranks: tuple[int, int]) -> None:
    hi, K = ranks
    law = rank_law(y, hi, K, 2**1000 - 1, Fraction(3, 2))
    blocks = list(law.blocks)
    assert len(blocks) <= 2 * len(y) + 1
    first, last = blocks[0][0], blocks[-1][0]
    assert isinstance(first, range)
    assert isinstance(last, range)
    assert (first.start, last.stop) == (0, 2**1000)
    for block, score in blocks:
        assert isinstance(block, range)
        assert {-literal_score(y, hi, K, z) for z in (block.start, block.stop - 1)} == {score}


@pytest.mark.parametrize("d", [2**64 - 1, 2**64, 2**63])
def test_the_last_codes_of_64_bits_do_not_wrap(d: int) -> None:
    y = [d, d, d - 1, 0]
    law = rank_law(y, 2, 2, d, 2)
    for z in (0, 1, d - 2, d - 1, d):
        i = law.find(z)
        assert i is not None
        assert -int(law.score[i]) == literal_score(y, 2, 2, z)


def test_arrays_and_lists_give_one_law() -> None:
    y = [3, 1, 4, 1, 5]
    for same in (tuple(y), np.array(y), np.array(y, dtype=np.uint8), np.array(y, dtype=object)):
        assert list(rank_law(same, 2, 3, 9, 2).blocks) == list(rank_law(y, 2, 3, 9, 2).blocks)


def test_values_outside_the_domain_move_to_the_nearest_end() -> None:
    assert clipped([-5, 3, 99], 9) == [0, 3, 9]
    assert list(rank_law([-5, 3, 99], 1, 2, 9, 2).blocks) == list(rank_law([0, 3, 9], 1, 2, 9, 2).blocks)


def test_no_values_give_the_uniform_law() -> None:
    law = rank_law([], 3, 5, 9, 2)
    assert {law.prob_exact(z) for z in range(10)} == {Fraction(1, 10)}


# Privacy


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("hi", "K"), [(1, 2), (2, 1), (2, 3)])
def test_law_is_epsilon_dp_on_every_neighbouring_pair(neighbours: str, hi: int, K: int) -> None:
    mechanism = RankMechanism("1/2", hi=hi, K=K, d=3, unit="user", neighbours=neighbours)
    n_min = 4 if neighbours == "replace" else 0
    audit = audit_exact(mechanism, datasets(range(4), 4, n_min=n_min))
    assert audit.holds


def test_a_base_of_the_whole_epsilon_is_not_private() -> None:
    audit = audit_exact(
        lambda y: rank_law(y, 2, 2, 3, dyadic_base("1/2")),
        datasets(range(4), 4, n_min=4),
        neighbours="replace",
        epsilon="1/2",
    )
    assert not audit.holds


@pytest.mark.parametrize(("hi", "K"), [(1, 0), (1, 3), (2, 3), (3, 6)])
def test_one_user_replaces_at_most_one_element_of_the_window(hi: int, K: int) -> None:
    def moved(y: tuple[int, ...], z: tuple[int, ...]) -> int:
        one, two = rank_window(y, hi, K, 3), rank_window(z, hi, K, 3)
        assert len(one) == len(two) == K + 2 - hi
        return sum(max(0, one.count(v) - two.count(v)) for v in range(4))

    for n in range(5):
        for rest in combinations_with_replacement(range(4), n):
            for x in range(4):
                assert moved((*rest, x), rest) <= 1
                assert all(moved((*rest, x), (*rest, y)) <= 1 for y in range(4))


# Accuracy


@given(st.lists(st.integers(0, 50), min_size=9, max_size=20))
def test_a_point_of_score_opt_exists_and_failure_is_bounded(y: list[int]) -> None:
    mechanism = RankMechanism(2, hi=3, K=13, d=50, unit="user", neighbours="replace")
    law = mechanism.law(y)
    opt = mechanism.opt
    assert opt == 5
    assert -law.best >= min(opt, len(y) - 3)
    if len(y) >= opt + 3:
        bad = sum((law.prob_exact(z) for z in range(51) if literal_score(y, 3, 13, z) < 0), Fraction(0))
        assert bad <= 50 * mechanism.base ** -(opt + 1)


def test_a_draw_lies_in_the_domain() -> None:
    mechanism = RankMechanism(1, hi=2, K=4, d=2**64 - 1, unit="user", neighbours="add-remove")
    with insecure_randomness():
        rng = SeededRng("rank")
        assert all(0 <= mechanism.sample([5, 2**60, 7], rng) < 2**64 for _ in range(50))


# Bad input


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"epsilon": 0}, ParameterError),
        ({"epsilon": -1}, ParameterError),
        ({"epsilon": float("nan")}, ParameterError),
        ({"epsilon": 1e-12}, ParameterError),
        ({"epsilon": "x"}, ParameterError),
        ({"hi": 0}, ParameterError),
        ({"hi": 5, "K": 3}, ParameterError),
        ({"d": -1}, ParameterError),
        ({"hi": 1.5}, TypeError),
        ({"K": True}, TypeError),
        ({"neighbours": "both"}, ParameterError),
        ({"unit": "person"}, ParameterError),
    ],
)
def test_bad_parameters_are_refused(change: dict[str, Any], error: type[Exception]) -> None:
    good: dict[str, Any] = {"epsilon": 1, "hi": 2, "K": 4, "d": 9, "unit": "user", "neighbours": "replace"}
    assert RankMechanism(**good).guarantee.epsilon == 1
    with pytest.raises(error):
        RankMechanism(**(good | change))


@pytest.mark.parametrize(
    "values", [[1.0], ["3"], [None], [True], "123", 5, {1: 2}, np.array([1.5]), np.array([[1]]), [float("nan")]]
)
def test_values_must_be_integers(values: Any) -> None:
    with pytest.raises(TypeError):
        rank_law(values, 1, 2, 9, 2)


def test_no_error_repeats_a_value() -> None:
    with pytest.raises(TypeError) as caught:
        rank_law([1, 2, 123456.5], 1, 2, 9, 2)
    assert "123456" not in str(caught.value)
