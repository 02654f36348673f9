"""Words, logarithms and clocks: the array versions and the scalar ones are the same integers, and they are what they
claim to be."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.device.correlated_sampling import (
    check_seed,
    clock,
    clock_array,
    ilog2,
    ilog2_array,
    integer,
    ln_up,
    rate,
    rational,
    words_indexed,
)
from privpac.errors import ParameterError
from privpac.rng import derive, word_indexed


def test_array_logarithms_equal_scalar_ones_on_many_words() -> None:
    words = np.random.default_rng(1).integers(0, 2**64, 50_000, dtype=np.uint64, endpoint=False)
    shifts = np.random.default_rng(2).integers(0, 64, 50_000).astype(np.uint64)
    words = np.concatenate(
        [words, words >> shifts, np.array([0, 1, 2, 3, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)]
    )
    assert clock_array(words).tolist() == [clock(int(word)) for word in words]
    assert ilog2_array(words | np.uint64(1)).tolist() == [ilog2(int(word) | 1) for word in words]


@given(st.integers(1, 2**200))
def test_logarithm_is_within_its_last_bits(x: int) -> None:
    with localcontext(prec=80):
        exact = (Decimal(x).ln() / Decimal(2).ln()) * 2**56
        # Every squaring truncates to 64 bits: a few units in the last place over 56 squarings, always downwards.
        assert -Decimal("1e-50") <= exact - ilog2(x) < 4


@given(st.integers(0, 2**64 - 1))
def test_clocks_are_positive_and_fall_with_the_word(word: int) -> None:
    assert 1 <= clock(word) <= 2**62
    if word < 2**64 - 1:
        assert clock(word) >= clock(word + 1)


def test_words_of_a_stream_equal_single_words() -> None:
    key = derive(bytes(32), "some")
    assert words_indexed(key, 1030).tolist() == [word_indexed(key, i) for i in range(1030)]
    assert words_indexed(key, 0).tolist() == []


@given(st.fractions(0, 1000, max_denominator=997))
def test_rate_is_the_floor_of_gamma_log2_e(gamma: Fraction) -> None:
    with localcontext(prec=90):
        exact = Decimal(gamma.numerator) / Decimal(gamma.denominator) / Decimal(2).ln() * 2**40
        assert rate(gamma) == int(exact)


@pytest.mark.parametrize("gamma", [-1, "x", "1/0", float("nan"), float("inf"), 10**9])
def test_rate_refuses_what_is_not_a_rate(gamma: Any) -> None:
    with pytest.raises(ParameterError):
        rate(gamma)


def test_a_float_is_its_shortest_decimal() -> None:
    assert rational("alpha", 0.1) == Fraction(1, 10)
    with pytest.raises(TypeError):
        rational("alpha", True)
    with pytest.raises(TypeError):
        rational("alpha", None)


@pytest.mark.parametrize("bad", ["x" * 32, None, 7, bytearray(32)])
def test_seed_must_be_bytes(bad: Any) -> None:
    with pytest.raises(TypeError):
        check_seed(bad)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_seed_must_have_32_bytes(size: int) -> None:
    with pytest.raises(ParameterError, match=str(size)):
        check_seed(bytes(size))


def test_integers_are_checked() -> None:
    assert integer("n", np.int64(3), 0) == 3
    for bad in (1.0, "1", None, True):
        with pytest.raises(TypeError):
            integer("n", bad, 0)
    with pytest.raises(ParameterError, match=r"in 2\.\.5, got 6"):
        integer("n", 6, 2, 5)


def test_logarithm_of_nothing_is_refused() -> None:
    with pytest.raises(ParameterError):
        ilog2(0)
    with pytest.raises(ParameterError):
        ln_up(Fraction(0))


@given(st.fractions(Fraction(1, 1000), 10**9, max_denominator=10**6))
def test_upper_logarithm_is_an_upper_bound_and_tight(value: Fraction) -> None:
    with localcontext(prec=60):
        exact = Fraction((Decimal(value.numerator) / Decimal(value.denominator)).ln())
    assert exact - Fraction(1, 10**45) <= ln_up(value) <= exact + Fraction(1, 10**40)
    assert math.isclose(ln_up(value), math.log(value), rel_tol=1e-9, abs_tol=1e-12)
