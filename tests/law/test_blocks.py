"""Block laws: layouts, exact probabilities, bad input."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.errors import LawError, ParameterError, TooLargeError
from privpac.law import BOTTOM, Law
from privpac.law.blocks import BlockLaw

F = Fraction


def block(law: Law) -> BlockLaw:
    assert isinstance(law, BlockLaw)
    return law


# Exact probabilities


@given(
    st.lists(st.tuples(st.integers(1, 2**80), st.integers(-6, 6)), min_size=1, max_size=6),
    st.sampled_from([F(3, 2), F(2), F(5, 4), F(1)]),
)
def test_base_gives_the_exact_rational_of_every_block(rows: list[tuple[int, int]], base: Fraction) -> None:
    counts, scores = [c for c, _ in rows], [s for _, s in rows]
    law = Law.from_blocks(counts=counts, score=scores, base=base)
    z = sum(c * base**-s for c, s in rows)
    for i, (count, score) in enumerate(rows):
        assert law.prob_exact((i, 0)) == base**-score / z
        assert law.prob_exact((i, count - 1)) == base**-score / z
        assert law.prob_exact((i, count)) == 0
        assert law.block_prob(i).lo == law.block_prob(i).hi == count * base**-score / z


@given(
    st.lists(st.tuples(st.integers(1, 2**70), st.integers(-40, 40)), min_size=1, max_size=6),
    st.fractions(0, 3, max_denominator=50),
)
def test_eta_gives_balls_around_the_mpmath_value(rows: list[tuple[int, int]], eta: Fraction) -> None:
    law = Law.from_blocks(counts=[c for c, _ in rows], score=[s for _, s in rows], eta=eta)
    with mpmath.workdps(70):
        rate = mpmath.mpf(eta.numerator) / eta.denominator
        z = mpmath.fsum(c * mpmath.exp(-rate * s) for c, s in rows)
        for i, (_, score) in enumerate(rows):
            ball, value = law.prob((i, 0)), mpmath.exp(-rate * score) / z
            assert abs(mpmath.mpf(ball.lo.numerator) / ball.lo.denominator - value) <= value * mpmath.mpf(10) ** -50
            assert abs(mpmath.mpf(ball.hi.numerator) / ball.hi.denominator - value) <= value * mpmath.mpf(10) ** -50
            assert law.prob_float((i, 0)) == pytest.approx(float(value), rel=1e-15)


def test_irrational_laws_have_no_exact_probability() -> None:
    with pytest.raises(LawError, match="base="):
        Law.from_blocks([0, 1], [0, 1], [0, 1], 1).prob_exact(0)


def test_eta_zero_and_single_levels_are_exact() -> None:
    assert Law.from_blocks([0, 5], [4, 9], [3, -7], 0).prob_exact(3) == F(1, 10)
    assert Law.from_blocks([0], [6], [4], 1).prob_exact(3) == F(1, 7)


# Layouts


def test_one_block_holds_two_to_the_64_plus_one_cuts() -> None:
    law = block(Law.from_blocks([0], [2**64], [5], 1, domain=(0, 2**64)))
    assert law.level_table() == [(5, 2**64 + 1)]
    assert law.prob_exact(2**64) == law.prob_exact(0) == F(1, 2**64 + 1)
    assert law.prob_exact(2**64 + 1) == law.prob_exact(-1) == 0
    stepped = block(Law.from_steps([(0, np.array([0], dtype=np.uint64), 2**64, [5])], 1))
    assert stepped.level_table() == law.level_table()
    assert stepped.satisfies(law, 0)


def test_values_reach_two_to_the_1000() -> None:
    top = 2**1000
    law = block(Law.from_blocks([0, 10, top], [9, top - 1, top], [2, 1, 0], base=2, domain=(0, top)))
    z = F(10, 4) + F(top - 10, 2) + 1
    assert law.prob_exact(top) == 1 / z
    assert law.prob_exact(top - 1) == law.prob_exact(10) == F(1, 2) / z
    assert law.mode == top
    assert list(law.support()) == [range(10), range(10, top), range(top, top + 1)]
    assert law.entropy == pytest.approx(1000 * float(mpmath.log(2)), rel=1e-6)


def test_negative_values_are_allowed() -> None:
    law = Law.from_blocks(np.array([-3, 2]), np.array([1, 2]), [0, 1], base=3)
    assert law.prob_exact(-3) == F(3, 16)
    assert law.prob_exact(2) == F(1, 16)


def test_touching_blocks_of_equal_score_are_merged_but_labelled_ones_never() -> None:
    assert len(block(Law.from_blocks([0, 4, 6], [3, 5, 9], [1, 1, 2], 1))) == 2
    assert len(block(Law.from_blocks([0, 5], [3, 9], [1, 1], 1))) == 2
    assert len(block(Law.from_blocks([2**70, 2**70 + 4], [2**70 + 3, 2**70 + 9], [1, 1], 1))) == 1
    assert len(block(Law.from_steps([(7, [0, 3, 5], 9, [1, 1, 2])], 1))) == 2
    assert len(block(Law.from_blocks(counts=[1, 1], score=[0, 0], eta=1))) == 2


def test_scores_alone_are_candidates_that_are_never_merged() -> None:
    law = block(Law.from_blocks(score=[2, 2, 0], base=2))
    assert len(law) == 3
    assert [law.prob_exact(v) for v in range(-1, 4)] == [0, F(1, 6), F(1, 6), F(4, 6), 0]
    assert law.block_prob(1).lo == F(1, 6)
    assert law.satisfies(Law.from_blocks([0, 2], [1, 2], [2, 0], base=2), 0)
    with pytest.raises(LawError):
        Law.from_blocks(score=[0, 1], base=2, labels=["a", "b"])


@given(st.permutations(list(range(6))))
def test_order_of_the_blocks_does_not_matter(order: list[int]) -> None:
    lo, hi, score = [0, 3, 4, 9, 20, 21], [2, 3, 8, 9, 20, 30], [1, 0, 4, 2, 2, 0]
    law = Law.from_blocks([lo[i] for i in order], [hi[i] for i in order], [score[i] for i in order], base=2)
    straight = Law.from_blocks(lo, hi, score, base=2)
    assert [law.prob_exact(v) for v in range(-1, 32)] == [straight.prob_exact(v) for v in range(-1, 32)]


def test_steps_lay_functions_one_after_the_other() -> None:
    law = block(Law.from_steps([(-5, [0, 2], 3, [1, 0]), (10, [0], 0, [2]), (2**80, [1, 3], 2**64, [0, 1])], base=2))
    lasts = (-5, -3, 10, 2**80 + 1, 2**80 + 3)
    assert [cell.start for cell in law.support()] == list(lasts)  # type: ignore[union-attr]
    z = F(2, 2) + 2 + F(1, 4) + 2 + F(2**64 - 2, 2)
    assert law.prob_exact(-4) == F(1, 2) / z
    assert law.prob_exact(10) == F(1, 4) / z
    assert law.prob_exact(2**80) == law.prob_exact(9) == law.prob_exact(-1) == 0
    assert law.prob_exact(2**80 + 2**64) == F(1, 2) / z


def test_labels_name_blocks() -> None:
    law = Law.from_blocks(counts=[2, 2**65], score=[0, 1], base=2, labels=["a", ("b", 1)])
    z = 2 + F(2**65, 2)
    assert law.prob_exact(("a", 1)) == 1 / z
    assert law.prob_exact((("b", 1), 2**65 - 1)) == F(1, 2) / z
    assert list(law.support()) == ["a", ("b", 1)]
    assert law.mode == ("a", 0)


@pytest.mark.parametrize(
    "value", [BOTTOM, "a", None, (0, 5), (-1, 0), (3, 0), (0, -1), ("x", 0), (0, "x"), (0, 0, 0), 0, 1.0]
)
def test_values_outside_a_labelled_law_have_probability_zero(value: Any) -> None:
    assert Law.from_blocks(counts=[5, 1, 2], score=[0, 1, 0], base=2).prob_exact(value) == 0


@pytest.mark.parametrize("value", [BOTTOM, "a", None, (0, 0), -1, 10, 2**64, 2**70, -(2**70), 3.5])
def test_values_outside_a_value_law_have_probability_zero(value: Any) -> None:
    assert Law.from_blocks([0, 7], [5, 9], [0, 1], base=2).prob_exact(value) == 0
    assert Law.from_blocks([0, 7], [5, 9], [0, 1], base=2).prob_exact(6) == 0


def test_numpy_integers_are_integers() -> None:
    law = Law.from_blocks([0, 7], [5, 9], [0, 1], base=2)
    for kind in (np.int8, np.int64, np.uint64):
        assert law.prob_exact(kind(7)) == law.prob_exact(7) == F(1, 15)
        assert Law.from_weights({kind(7): 1, 8: 3}).prob_exact(7) == F(1, 4)


def test_mode_is_the_first_most_likely_value() -> None:
    assert Law.from_blocks([5, 0], [9, 4], [1, 1], 1).mode == 0
    assert Law.from_blocks([5, 0], [9, 4], [0, 1], 1).mode == 5
    assert Law.from_blocks([5, 0], [9, 4], [0, 1], 0).mode == 0


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=6))
def test_entropy_matches_enumeration(rows: list[tuple[int, int]]) -> None:
    law = Law.from_blocks(counts=[c for c, _ in rows], score=[s for _, s in rows], eta="1/3")
    weights = [mpmath.exp(-mpmath.mpf(s) / 3) for c, s in rows for _ in range(c)]
    z = mpmath.fsum(weights)
    expected = -mpmath.fsum(w / z * mpmath.log(w / z) for w in weights)
    assert law.entropy == pytest.approx(float(expected), abs=1e-13)
    assert law.as_finite().entropy == pytest.approx(float(expected), abs=1e-13)


def test_a_law_does_not_change_with_the_callers_arrays() -> None:
    scores, lo, counts = np.array([0, 5]), np.array([0, 1], dtype=np.uint64), np.array([1, 1], dtype=np.uint64)
    laws = [
        Law.from_blocks(lo, lo, scores, base=2),
        Law.from_blocks(counts=counts, score=scores, base=2),
        Law.from_steps([(0, lo, 1, scores)], base=2),
    ]
    scores[:], lo[:], counts[:] = 9, 7, 3
    assert laws[0].prob_exact(0) == laws[1].prob_exact((0, 0)) == laws[2].prob_exact(0) == F(32, 33)


def test_repr_shows_no_numbers() -> None:
    for law in (Law.from_blocks([3], [77], [5], 1), Law.from_weights({4: 1, BOTTOM: 2}), Law.point(12)):
        assert not any(character.isdigit() for character in repr(law) + str(law))


def test_bottom_is_one_object() -> None:
    assert pickle.loads(pickle.dumps(BOTTOM)) is BOTTOM
    assert type(BOTTOM)() is BOTTOM
    assert repr(BOTTOM) == "BOTTOM"


# Rates at the ends of what a double can hold


@pytest.mark.parametrize("eta", [F(10) ** 400, F(1, 10**400), F(1, 10**310), F(10) ** 20])
def test_extreme_rates_are_sampled_and_compared(eta: Fraction) -> None:
    law = Law.from_blocks([0, 1], [0, 1], [0, 3], eta)
    assert law.sample() in (0, 1)
    ball = law.prob(1)
    assert 0 <= ball.lo <= ball.hi <= F(1, 2) + F(1, 2**180)
    assert law.satisfies(Law.from_blocks([0, 1], [0, 1], [3, 0], eta), 3 * eta)
    assert not law.satisfies(Law.from_blocks([0, 1], [0, 1], [3, 0], eta), 3 * eta * (1 - F(1, 10**40)))


# Bad input

GOOD: dict[str, Any] = {"lo": [0, 5], "hi": [4, 9], "score": [1, 2], "eta": 1}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"lo": [0, 4]}, LawError),  # overlap
        ({"lo": [5, 0], "hi": [9, 5]}, LawError),
        ({"hi": [4, 4]}, LawError),  # lo > hi
        ({"domain": (0, 10)}, LawError),
        ({"domain": (-1, 9)}, LawError),
        ({"lo": [0, 6], "domain": (0, 9)}, LawError),  # gap
        ({"domain": 10}, LawError),
        ({"lo": None}, LawError),
        ({"hi": None}, LawError),
        ({"lo": None, "hi": None, "domain": (0, 9)}, LawError),
        ({"lo": "05"}, LawError),
        ({"lo": [0]}, LawError),
        ({"lo": [[0, 5]]}, LawError),
        ({"lo": [0.0, 5.0]}, LawError),
        ({"lo": np.array([0.0, 5.0])}, LawError),
        ({"hi": [True, 9]}, LawError),
        ({"hi": [float("nan"), 9]}, LawError),
        ({"score": [0.5, 1]}, LawError),
        ({"score": [float("nan"), 1]}, LawError),
        ({"score": [True, False]}, LawError),
        ({"score": []}, LawError),
        ({"score": 3}, LawError),
        ({"score": None}, LawError),
        ({"score": [[1, 2]]}, LawError),
        ({"score": [0, 2**62]}, LawError),
        ({"score": [0, 2**63]}, LawError),
        ({"score": [0, 2**80]}, LawError),
        ({"score": [-(2**63), 1]}, LawError),
        ({"eta": None}, LawError),
        ({"base": 2}, LawError),
        ({"eta": -1}, ParameterError),
        ({"eta": float("nan")}, ParameterError),
        ({"eta": float("inf")}, ParameterError),
        ({"eta": True}, TypeError),
        ({"eta": [1]}, TypeError),
        ({"eta": None, "base": F(1, 2)}, ParameterError),
        ({"eta": None, "base": 0}, ParameterError),
        ({"eta": None, "base": "two"}, ParameterError),
        ({"counts": [1, 1]}, LawError),
    ],
)
def test_ill_formed_value_laws_are_refused(change: dict[str, Any], error: type[Exception]) -> None:
    Law.from_blocks(**GOOD)
    with pytest.raises(error):
        Law.from_blocks(**{**GOOD, **change})


@pytest.mark.parametrize(
    "counts",
    [
        [0, 1],
        [-1, 1],
        [1],
        [1, 1, 1],
        [1.0, 1],
        [True, 1],
        np.array([0, 1]),
        np.array([1.0, 2.0]),
        np.array([[1, 1]]),
        2,
        "ab",
        {1, 2},
    ],
)
def test_ill_formed_multiplicities_are_refused(counts: Any) -> None:
    with pytest.raises(LawError):
        Law.from_blocks(counts=counts, score=[0, 1], eta=1)


@pytest.mark.parametrize("labels", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_ill_formed_labels_are_refused(labels: list[str]) -> None:
    with pytest.raises(LawError):
        Law.from_blocks(counts=[1, 1], score=[0, 1], eta=1, labels=labels)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [(0, [0, 0], 5, [1, 2])],
        [(0, [3, 1], 5, [1, 2])],
        [(0, [0, 6], 5, [1, 2])],
        [(0, [0], 5, [1, 2])],
        [(0, [], 5, [])],
        [(0, np.array([-1, 2]), 5, [1, 2])],
        [(0, [0.5, 2], 5, [1, 2])],
        [(0, [0, 2**64], 2**65, [1, 2])],
        [(0, [0, 2], 5.0, [1, 2])],
        [("0", [0, 2], 5, [1, 2])],
        [(0, [0], 5, [1]), (5, [0], 5, [1])],
        [(10, [0], 5, [1]), (0, [0], 5, [1])],
        [(0, [0], 5, [0]), (6, [0], 5, [2**62])],
    ],
)
def test_ill_formed_steps_are_refused(steps: Any) -> None:
    with pytest.raises(LawError):
        Law.from_steps(steps, 1)


def test_too_many_values_are_not_enumerated() -> None:
    with pytest.raises(TooLargeError):
        Law.from_blocks(counts=[2**64], score=[0], eta=1).as_finite()
    with pytest.raises(TooLargeError):
        Law.from_blocks([0], [2**64], [0], 1).map(lambda v: v)


@pytest.mark.parametrize("rng", [7, "seed", np.random.default_rng(0), object()])
def test_only_secret_generators_draw(rng: Any) -> None:
    for law in (Law.from_blocks(**GOOD), Law.point(3)):
        with pytest.raises(TypeError, match="Rng"):
            law.sample(rng)
