"""Mixtures, push-forwards, products and adaptive composition, against brute force with Fractions and mpmath."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.errors import LawError, ParameterError, TooLargeError
from privpac.exact import ExpSum
from privpac.law import BOTTOM, Law
from privpac.law.blocks import FiniteLaw
from privpac.law.numbers import Quotient, sign_of_sum

F = Fraction
Table = dict[Any, Fraction]


@st.composite
def rational_laws(draw: st.DrawFn) -> tuple[Law, Table]:
    """A law with rational probabilities and the same as a table."""
    start = draw(st.integers(-3, 3))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    scores = [draw(st.integers(-3, 3)) for _ in sizes]
    base = draw(st.sampled_from([F(2), F(3, 2), F(1)]))
    lo = [start + sum(sizes[:i]) for i in range(len(sizes))]
    hi = [a + n - 1 for a, n in zip(lo, sizes)]
    law = Law.from_blocks(lo, hi, scores, base=base)
    weights = {v: base**-s for a, b, s in zip(lo, hi, scores) for v in range(a, b + 1)}
    total = sum(weights.values())
    return law, {v: w / total for v, w in weights.items()}


def table_of(law: Law) -> Table:
    return {value: law.prob_exact(value) for value in law.as_finite().values()}


def pushed(table: Table, f: Any) -> Table:
    out: Table = defaultdict(Fraction)
    for value, p in table.items():
        out[f(value)] += p
    return dict(out)


# Against Fractions


@given(st.lists(st.tuples(st.integers(0, 5), rational_laws()), min_size=1, max_size=4))
def test_mixture_adds_shares_on_the_common_refinement(parts: list[tuple[int, tuple[Law, Table]]]) -> None:
    total = sum(share for share, _ in parts)
    if total == 0:
        return
    law = Law.mixture([(F(share, total), part) for share, (part, _) in parts])
    expected: Table = defaultdict(Fraction)
    for share, (_, table) in parts:
        for value, p in table.items():
            if share:
                expected[value] += F(share, total) * p
    assert table_of(law) == dict(expected)


@given(rational_laws(), st.integers(1, 4))
def test_map_pushes_forward(law: tuple[Law, Table], modulus: int) -> None:
    def name(value: int) -> Any:
        return BOTTOM if value % modulus == 0 else (value % modulus, "x")

    assert table_of(law[0].map(name)) == pushed(law[1], name)
    assert table_of(law[0].map(lambda v: v // modulus)) == pushed(law[1], lambda v: v // modulus)
    assert table_of(law[0].map(lambda v: np.int64(-v))) == pushed(law[1], lambda v: -v)


@given(rational_laws(), rational_laws())
def test_product_is_independent(a: tuple[Law, Table], b: tuple[Law, Table]) -> None:
    expected = {(x, y): p * q for x, p in a[1].items() for y, q in b[1].items()}
    assert table_of(a[0].product(b[0])) == expected


@settings(max_examples=40)
@given(rational_laws(), st.lists(rational_laws(), min_size=2, max_size=3))
def test_bind_is_adaptive_composition(first: tuple[Law, Table], then: list[tuple[Law, Table]]) -> None:
    law = first[0].bind(lambda v: then[v % len(then)][0].map(lambda w: w - v))
    expected: Table = defaultdict(Fraction)
    for v, p in first[1].items():
        for w, q in then[v % len(then)][1].items():
            expected[w - v] += p * q
    assert table_of(law) == dict(expected)


@given(
    st.dictionaries(
        st.one_of(st.integers(-5, 5), st.text(max_size=2)), st.fractions(0, 5, max_denominator=9), min_size=1
    )
)
def test_weights_are_normalised(weights: Table) -> None:
    total = sum(weights.values())
    if total == 0:
        with pytest.raises(LawError):
            Law.from_weights(weights)
        return
    law = Law.from_weights(weights)
    assert {v: law.prob_exact(v) for v in weights} == {v: w / total for v, w in weights.items()}
    assert all(weights[v] > 0 for v in law.as_finite().values())
    assert law.mode in {v for v, w in weights.items() if w == max(weights.values())}


# Against mpmath


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=4), st.sampled_from([F(1, 3), F(2)])
)
def test_irrational_mixtures_products_and_binds_match_mpmath(rows: list[tuple[int, int]], eta: Fraction) -> None:
    lo = [sum(n for _, n in rows[:i]) for i in range(len(rows))]
    law = Law.from_blocks(lo, [a + n - 1 for a, (_, n) in zip(lo, rows)], [s for s, _ in rows], eta)
    other = Law.from_weights({0: [(1, F(1, 7))], 1: 1, BOTTOM: [(F(1, 2), -1), (1, -eta)]})
    with mpmath.workdps(60):
        rate = mpmath.mpf(eta.numerator) / eta.denominator
        weights = [mpmath.exp(-rate * s) for s, n in rows for _ in range(n)]
        p: dict[Any, Any] = {v: w / mpmath.fsum(weights) for v, w in enumerate(weights)}
        raw = {0: mpmath.exp(mpmath.mpf(1) / 7), 1: mpmath.mpf(1), BOTTOM: mpmath.exp(-1) / 2 + mpmath.exp(-rate)}
        q: dict[Any, Any] = {v: w / mpmath.fsum(raw.values()) for v, w in raw.items()}

        def same(got: Law, value: Any, expected: Any) -> None:
            for end in (got.prob(value).lo, got.prob(value).hi):
                assert abs(mpmath.mpf(end.numerator) / end.denominator - expected) <= expected * mpmath.mpf(10) ** -45

        mixed = Law.mixture([("1/3", law), ("2/3", other)])
        for v in {*p, *q}:
            same(mixed, v, p.get(v, 0) / 3 + 2 * q.get(v, 0) / 3)
        pair = law.product(other)
        for v, a in p.items():
            for w, b in q.items():
                same(pair, (v, w), a * b)
        bound = law.bind(lambda v: other if v % 2 else law)
        odd, even = mpmath.fsum(a for v, a in p.items() if v % 2), mpmath.fsum(a for v, a in p.items() if v % 2 == 0)
        for v in {*p, *q}:
            expected = odd * q.get(v, 0) + even * p.get(v, 0)
            if expected:
                same(bound, v, expected)
        assert mixed.entropy == pytest.approx(
            float(-mpmath.fsum(x * mpmath.log(x) for v in {*p, *q} for x in [p.get(v, 0) / 3 + 2 * q.get(v, 0) / 3])),
            abs=1e-12,
        )


# Blocks stay few


def test_a_mixture_over_two_to_the_64_cuts_and_bottom_stays_small() -> None:
    law = Law.from_steps([(0, [0, 5, 2**63], 2**64, [0, 2, 1])], base=2)
    other = Law.from_steps([(0, [0, 7], 2**64, [1, 0])], base=3)
    mixed = Law.mixture([("1/2", law), ("1/4", other), ("1/4", Law.point(BOTTOM))])
    assert len(list(mixed.support())) == 5
    assert mixed.prob_exact(BOTTOM) == F(1, 4)
    assert mixed.prob_exact(2**64) == law.prob_exact(2**64) / 2 + other.prob_exact(2**64) / 4
    assert mixed.prob_exact(6) == law.prob_exact(6) / 2 + other.prob_exact(6) / 4
    for _ in range(20):
        value = mixed.sample()
        assert value is BOTTOM or 0 <= value <= 2**64
    total = sum(mixed.block_prob(i).lo for i in range(5))
    assert total == 1


def test_touching_cells_of_equal_probability_are_merged() -> None:
    assert list(Law.from_weights({0: 1, 1: 1, 2: 3, 4: 3}).support()) == [range(2), range(2, 3), range(4, 5)]
    law = Law.from_blocks([0], [9], [0], 1)
    assert list(law.map(lambda v: v + 1).support()) == [range(1, 11)]


def test_map_blocks_moves_whole_blocks() -> None:
    law = Law.from_blocks([0, 2**64], [2**64 - 1, 2**65], [1, 0], base=2)
    moved = law.map_blocks(lambda cell: range(cell.start + 5, cell.stop + 5) if isinstance(cell, range) else cell)
    assert moved.prob_exact(5) == law.prob_exact(0)
    flagged = law.map_blocks(lambda cell: BOTTOM if isinstance(cell, range) and cell.start == 0 else cell)
    assert flagged.prob_exact(BOTTOM) == law.block_prob(0).lo
    assert flagged.prob_exact(2**64) == law.prob_exact(2**64)
    with pytest.raises(LawError, match="same length"):
        law.map_blocks(lambda cell: range(3))


def test_zero_shares_leave_no_trace() -> None:
    law = Law.mixture([(0, Law.point("a")), (1, Law.point("b"))])
    assert list(law.support()) == ["b"]


def test_support_holds_only_values_of_positive_weight() -> None:
    assert list(Law.from_weights({"a": 0, "b": 1, 3: 0}).support()) == ["b"]


def test_floats_are_read_as_their_shortest_decimal() -> None:
    assert Law.from_weights({"a": 0.1, "b": 0.9}).prob_exact("a") == F(1, 10)
    law = Law.from_weights({"a": [(0.1, 0)], "b": [("9/10", 0)]})
    assert law.prob_exact("a") == F(1, 10)


# Mode and entropy at the edge of doubles


def test_mode_sees_differences_no_double_can_hold() -> None:
    tiny = F(1, 10**50)
    assert Law.from_weights([("a", 1), ("b", 1 + tiny), ("c", 1)]).mode == "b"
    assert Law.from_weights([("a", [(1, 1)]), ("b", [(1, 1 + tiny)])]).mode == "b"
    assert Law.from_weights([("a", [(1, -3000)]), ("b", [(1, -2999)]), (range(2**70), [(1, -4000)])]).mode == "b"
    assert Law.from_weights([("a", 1), ("b", 1)]).mode == "a"


def test_entropy_of_more_values_than_a_double_can_count() -> None:
    law = Law.from_weights([(range(2**1100), 1)])
    assert law.entropy == pytest.approx(1100 * float(mpmath.log(2)), rel=1e-12)


# Exact comparisons of quotients


def test_quotients_that_agree_to_thousands_of_bits_are_still_told_apart() -> None:
    law = Law.from_blocks([0, 1], [0, 1], [0, 1], 1)
    number = law.number(0)
    assert isinstance(number, Quotient)
    one = law.number(0) + law.number(1)
    assert sign_of_sum(one + Quotient.of(-1)) == 0
    assert sign_of_sum(one + Quotient.of(-1 - F(1, 2**3000))) == -1
    assert sign_of_sum(one + Quotient.of(-1 + F(1, 2**3000))) == 1


def test_bound_shares_of_irrational_laws_sum_to_one_exactly() -> None:
    law = Law.from_blocks([0, 1, 2], [0, 1, 2], [0, 1, 5], "1/3")
    back = law.bind(lambda v: Law.point(v))
    assert back.satisfies(law, 0)


# Bad input


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ({}, LawError),
        ({"a": 0}, LawError),
        ({"a": -1}, LawError),
        ({"a": [(1, 0), (-2, 0)]}, LawError),
        ({"a": [(1, 0), (-1, 1)]}, LawError),
        ({"a": [1, 2]}, LawError),
        ({"a": [(1, 2, 3)]}, LawError),
        ({"a": float("nan")}, ParameterError),
        ({"a": float("inf")}, ParameterError),
        ({"a": "much"}, ParameterError),
        ({"a": None}, TypeError),
        ({"a": True}, TypeError),
        ([([], 1)], LawError),
        ([(range(0), 1)], LawError),
        ([(range(0, 9, 2), 1)], LawError),
    ],
)
def test_ill_formed_weights_are_refused(weights: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Law.from_weights(weights)


def test_a_positive_difference_of_exponentials_is_a_weight() -> None:
    law = Law.from_weights({"a": [(1, 1), (-2, 0)], "b": ExpSum.exp(F(1))})
    assert 0 < law.prob_float("a") < law.prob_float("b")


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ([], ParameterError),
        ([("1/2", Law.point(1))], ParameterError),
        ([("1/2", Law.point(1)), ("2/3", Law.point(2))], ParameterError),
        ([(-1, Law.point(1)), (2, Law.point(2))], ParameterError),
        ([(float("nan"), Law.point(1))], ParameterError),
        ([(True, Law.point(1))], TypeError),
        ([(1, "law")], TypeError),
        ([(Law.from_blocks([0, 1], [0, 1], [0, 1], 1).number(0), Law.point(1))], ParameterError),
    ],
)
def test_ill_formed_mixtures_are_refused(parts: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Law.mixture(parts)


def test_unhashable_images_are_refused() -> None:
    with pytest.raises(LawError, match="hashable"):
        Law.point(3).map(lambda v: [v])  # type: ignore[arg-type, return-value]
    with pytest.raises(LawError, match="hashable"):
        Law.point("a").prob([1])


def test_huge_laws_are_not_bound_value_by_value() -> None:
    law = Law.from_blocks([0], [2**64], [0], 1)
    with pytest.raises(TooLargeError):
        law.bind(Law.point)
    with pytest.raises(TooLargeError):
        law.product(Law.point(1))


def test_bind_refuses_what_is_not_a_law() -> None:
    with pytest.raises(TypeError):
        Law.point(3).bind(lambda v: v)


def test_finite_laws_answer_like_the_blocks_they_come_from() -> None:
    law = Law.from_steps([(-4, [0, 2], 5, [1, 0]), (20, [0], 2, [3])], "1/4")
    finite = law.as_finite()
    assert isinstance(finite, FiniteLaw)
    for value in range(-6, 25):
        assert law.prob(value) == finite.prob(value)
    assert finite.mode == law.mode == -2
