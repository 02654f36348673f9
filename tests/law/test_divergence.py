"""Hockey sticks and decisions, against literal enumeration."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.errors import LawError, ParameterError, Undecided
from privpac.exact import Ball
from privpac.law import BOTTOM, Law
from privpac.law.blocks import FiniteLaw
from privpac.law.numbers import Enclosed, Quotient

F = Fraction
EPSILONS = st.sampled_from([F(0), F(1, 10), F(1, 2), F(1), F(3)])


# Random pairs on one domain, in every representation


@st.composite
def steps_on(draw: st.DrawFn, size: int) -> list[tuple[int, int, int]]:
    """(lo, hi, score) over 0..size-1."""
    cuts = sorted(draw(st.sets(st.integers(1, size - 1), max_size=8))) if size > 1 else []
    edges = [0, *cuts, size]
    return [(a, b - 1, draw(st.integers(-4, 4))) for a, b in pairwise(edges)]


def as_law(blocks: list[tuple[int, int, int]], layout: str, offset: int, rate: dict[str, Any]) -> Law:
    if layout == "blocks":
        return Law.from_blocks(
            [offset + a for a, _, _ in blocks], [offset + b for _, b, _ in blocks], [s for _, _, s in blocks], **rate
        )
    if layout == "steps":
        return Law.from_steps([(offset, [a for a, _, _ in blocks], blocks[-1][1], [s for _, _, s in blocks])], **rate)
    if layout == "segments":
        return Law.from_steps([(offset + a, [0], b - a, [s]) for a, b, s in blocks], **rate)
    cells = [(v, s) for a, b, s in blocks for v in range(a, b + 1)]
    return Law.from_weights(
        {offset + v: [(1, -rate["eta"] * s)] if "eta" in rate else rate["base"] ** -s for v, s in cells}
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Law, Law, int, int]:
    size, offset = draw(st.integers(1, 64)), draw(st.sampled_from([0, 7, 2**64 - 30, 2**200]))
    layouts = ["blocks", "steps", "segments", "weights"]
    rates: list[dict[str, Any]] = [{"eta": F(2, 5)}, {"eta": F(0)}, {"eta": F(3)}, {"base": F(3, 2)}, {"base": F(7, 2)}]
    rate = draw(st.sampled_from(rates))
    other = draw(st.sampled_from([rate, rate, *rates]))
    p = as_law(draw(steps_on(size)), draw(st.sampled_from(layouts)), offset, rate)
    q = as_law(draw(steps_on(size)), draw(st.sampled_from(layouts)), offset, other)
    if draw(st.booleans()):
        share = draw(st.sampled_from([F(1, 3), F(9, 10)]))
        p = Law.mixture([(share, p), (1 - share, Law.point(BOTTOM))])
        if draw(st.booleans()):
            q = Law.mixture([(F(1, 2), q), (F(1, 2), Law.point(BOTTOM))])
    return p, q, offset, size


def values(offset: int, size: int) -> list[Any]:
    return [*range(offset, offset + size), BOTTOM]


def mpf(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def literal(p: Law, q: Law, epsilon: Fraction, over: list[Any]) -> Any:
    """The definition, value by value, from probabilities of 190 bits."""
    factor = mpmath.exp(mpf(epsilon))
    return mpmath.fsum(max(0, mpf(p.prob(v).lo) - factor * mpf(q.prob(v).lo)) for v in over)


@settings(max_examples=150, deadline=None)
@given(pairs(), EPSILONS)
def test_hockey_stick_equals_literal_enumeration(pair: tuple[Law, Law, int, int], epsilon: Fraction) -> None:
    p, q, offset, size = pair
    with mpmath.workdps(50):
        expected = literal(p, q, epsilon, values(offset, size))
        ball = p.hockey_stick(q, epsilon)
        assert 0 <= ball.lo <= ball.hi <= 1
        assert ball.width <= ball.hi / 2**50 or ball.hi <= F(1, 2**200)
        assert mpf(ball.lo) - mpmath.mpf(10) ** -40 <= expected <= mpf(ball.hi) + mpmath.mpf(10) ** -40
        narrow = p.hockey_stick(q, epsilon, precision=F(1, 10**80))
        assert narrow.width <= F(1, 10**80)
        assert narrow.lo <= ball.hi
        assert ball.lo <= narrow.hi


@settings(max_examples=100, deadline=None)
@given(pairs(), EPSILONS, st.sampled_from([F(0), F(1, 1000), F(1, 10), F(1, 2)]))
def test_decisions_agree_with_enumeration(pair: tuple[Law, Law, int, int], epsilon: Fraction, delta: Fraction) -> None:
    p, q, offset, size = pair
    with mpmath.workdps(50):
        excess = max(literal(p, q, epsilon, values(offset, size)), literal(q, p, epsilon, values(offset, size)))
        if abs(excess - mpf(delta)) > mpmath.mpf(10) ** -40:
            assert p.satisfies(q, epsilon, delta) == (excess < mpf(delta))


@settings(max_examples=60, deadline=None)
@given(pairs())
def test_max_divergence_and_epsilon_at_bound_each_other(pair: tuple[Law, Law, int, int]) -> None:
    p, q, offset, size = pair
    top = p.max_divergence(q)
    missing = any(p.prob(v).hi > 0 and q.prob(v).hi == 0 for v in values(offset, size))
    assert (top == inf) == missing
    if isinstance(top, Ball):
        with mpmath.workdps(50):
            ratios = [mpf(p.prob(v).lo) / mpf(q.prob(v).lo) for v in values(offset, size) if p.prob(v).lo > 0]
            assert (
                mpf(top.lo) - mpmath.mpf(10) ** -30
                <= max(0, mpmath.log(max(ratios)))
                <= mpf(top.hi) + mpmath.mpf(10) ** -30
            )
    for delta in (F(0), F(1, 50)):
        epsilon = p.epsilon_at(q, delta)
        if isinstance(epsilon, Fraction):
            assert p.hockey_stick(q, epsilon).lo <= delta
            if epsilon > F(1, 10**9):
                assert p.hockey_stick(q, epsilon * (1 - F(1, 2**30))).hi > delta
        else:
            assert p.hockey_stick(q, 200).lo > delta


@settings(max_examples=40, deadline=None)
@given(pairs())
def test_total_variation_is_symmetric(pair: tuple[Law, Law, int, int]) -> None:
    p, q, _, _ = pair
    a, b = p.total_variation(q), q.total_variation(p)
    assert max(a.lo, b.lo) <= min(a.hi, b.hi)


@given(st.data())
def test_rational_laws_have_rational_total_variation(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 20))
    rate = {"base": F(3, 2)}
    p, q = (as_law(data.draw(steps_on(size)), "blocks", 0, rate) for _ in range(2))
    exact = sum((max(F(0), p.prob_exact(v) - q.prob_exact(v)) for v in range(size)), F(0))
    assert p.hockey_stick(q, 0).lo <= exact <= p.hockey_stick(q, 0).hi
    assert p.satisfies(q, 0, exact)
    if exact:
        assert not p.satisfies(q, 0, exact - F(1, 10**100))


# Labelled blocks


def test_labelled_blocks_compare_block_by_block_at_any_multiplicity() -> None:
    counts = [2**64 + 5, 1, 2**300, 3]
    p = Law.from_blocks(counts=counts, score=[3, 0, 60, 2], base=2)
    q = Law.from_blocks(counts=counts, score=[2, 1, 61, 2], base=2)
    z_p = sum(c * F(2) ** -s for c, s in zip(counts, [3, 0, 60, 2]))
    z_q = sum(c * F(2) ** -s for c, s in zip(counts, [2, 1, 61, 2]))
    exact = sum(
        c * max(F(0), F(2) ** -a / z_p - F(2) ** -b / z_q) for c, a, b in zip(counts, [3, 0, 60, 2], [2, 1, 61, 2])
    )
    assert p.hockey_stick(q, 0, precision=F(1, 10**60)).lo <= exact <= p.hockey_stick(q, 0, precision=F(1, 10**60)).hi
    assert p.satisfies(q, 2)


def test_labels_may_stand_in_another_order() -> None:
    p = Law.from_blocks(counts=[2, 5], score=[0, 1], base=2, labels=["a", "b"])
    q = Law.from_blocks(counts=[5, 2], score=[1, 0], base=2, labels=["b", "a"])
    assert p.satisfies(q, 0)


# Equality is decided, not guessed


@pytest.mark.parametrize("eta", [F(1), F(1, 3), F(7, 20)])
def test_a_tight_epsilon_is_satisfied_and_anything_less_is_not(eta: Fraction) -> None:
    p, q = Law.from_blocks([0, 1], [0, 1], [0, 1], eta), Law.from_blocks([0, 1], [0, 1], [1, 0], eta)
    for first, second in ((p, q), (p.as_finite(), q.as_finite()), (p, q.as_finite())):
        assert first.satisfies(second, eta)
        assert not first.satisfies(second, eta - F(1, 10**200))
    assert p.epsilon_at(q, 0) >= eta
    assert p.epsilon_at(q, 0) - eta < F(1, 10**25)


@pytest.mark.parametrize("delta", [F(1, 3), F(1, 10**9), F(1, 10**60)])
def test_a_tight_delta_is_satisfied_and_anything_less_is_not(delta: Fraction) -> None:
    shared = Law.from_blocks([0, 3], [2, 9], [0, 2], "1/7")
    p = Law.mixture([(1 - delta, shared), (delta, Law.point("left"))])
    q = Law.mixture([(1 - delta, shared), (delta, Law.point("right"))])
    assert p.satisfies(q, 0, delta)
    assert p.satisfies(q, 5, delta)
    assert not p.satisfies(q, 5, delta * (1 - F(1, 10**90)))
    assert p.max_divergence(q) == inf
    assert p.epsilon_at(q, delta) == 0
    assert p.epsilon_at(q, delta * (1 - F(1, 10**90))) == inf


def test_identical_laws_are_indistinguishable_at_zero() -> None:
    law = Law.from_blocks([0, 10], [9, 2**64], [3, 0], "1/2")
    again = Law.from_blocks([0, 10], [9, 2**64], [7, 4], "1/2")
    assert law.satisfies(again, 0)
    assert law.epsilon_at(again) == 0
    assert law.hockey_stick(again, 0).hi <= F(1, 2**200)
    assert law.as_finite().satisfies(again, 0)


def test_epsilon_beyond_any_double_is_found() -> None:
    p, q = Law.from_blocks([0, 1], [0, 1], [0, 1], 2**22), Law.from_blocks([0, 1], [0, 1], [1, 0], 2**22)
    epsilon = p.epsilon_at(q, F(1, 10))
    assert isinstance(epsilon, Fraction)
    assert 2**22 - 1 < epsilon <= 2**22
    assert p.satisfies(q, 2**22)
    assert not p.satisfies(q, 2**22 - F(1, 10**30))


@pytest.mark.parametrize("epsilon", [F(0), F(1, 2)])
def test_mass_below_the_working_precision_is_bounded_not_forgotten(epsilon: Fraction) -> None:
    """The two laws differ by about e**-500, at a level that 128 bits do not sum."""
    p, q = Law.from_blocks([0, 1], [0, 1], [0, 500], 1), Law.from_blocks([0, 1], [0, 1], [0, 501], 1)
    with mpmath.workdps(400):
        exact = mpmath.exp(-500) / (1 + mpmath.exp(-500)) - mpmath.exp(mpf(epsilon) - 501) / (1 + mpmath.exp(-501))
        for ball in (p.hockey_stick(q, epsilon), p.hockey_stick(q, epsilon, precision=F(1, 10**250))):
            assert mpf(ball.lo) <= exact <= mpf(ball.hi)
        assert p.hockey_stick(q, epsilon, precision=F(1, 10**250)).lo > 0
    assert not p.satisfies(q, epsilon, F(1, 10**250))
    assert not p.satisfies(q, epsilon)


# Numbers known through balls only


def by_balls(values: dict[Any, Fraction], radius: float = 0.0) -> FiniteLaw:
    def number(x: Fraction) -> Enclosed:
        return Enclosed(lambda: arb(x.numerator) / x.denominator + arb(0, radius))

    return FiniteLaw([], {value: number(x) for value, x in values.items()})


def test_balls_decide_what_they_can_and_are_undecided_at_equality() -> None:
    p = by_balls({"a": F(1, 3), "b": F(2, 3)})
    q = FiniteLaw([], {"a": Quotient.of(F(1, 3)), "b": Quotient.of(F(2, 3))})
    assert p.satisfies(q, F(1, 10**30))
    assert not p.satisfies(by_balls({"a": F(1, 2), "b": F(1, 2)}), F(1, 10))
    with pytest.raises(Undecided):
        p.satisfies(q, 0)


def test_a_width_that_cannot_be_met_is_undecided() -> None:
    p, q = by_balls({"a": F(1, 3), "b": F(2, 3)}, 1e-6), by_balls({"a": F(2, 3), "b": F(1, 3)}, 1e-6)
    assert F(1, 3) in p.hockey_stick(q, 0, precision=F(1, 1000))
    with pytest.raises(Undecided):
        p.hockey_stick(q, 0, precision=F(1, 10**9))


# Bad input


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (Law.from_blocks([0], [9], [0], 1), Law.from_blocks([0], [10], [0], 1)),
        (Law.from_blocks([0], [9], [0], 1), Law.from_blocks([1], [9], [0], 1)),
        (Law.from_blocks([0], [9], [0], 1), Law.from_blocks([0, 6], [4, 9], [0, 0], 1)),
        (Law.from_blocks([0], [9], [0], 1), Law.from_blocks([0], [10], [0], 2)),
        (Law.from_blocks([0], [9], [0], 1), Law.from_blocks([0], [10], [0], base=2)),
        (Law.from_blocks([0], [2**70], [0], 1), Law.from_blocks([0], [2**70 + 1], [0], 1)),
        (Law.from_blocks([0], [2**70], [0], 1), Law.from_blocks([0], [9], [0], 1)),
        (Law.from_blocks([0], [1], [0], 1), Law.from_blocks(counts=[2], score=[0], eta=1)),
        (Law.from_blocks(counts=[2], score=[0], eta=1), Law.from_blocks(counts=[3], score=[0], eta=1)),
        (Law.from_blocks(counts=[2], score=[0], eta=1), Law.from_blocks(counts=[2**65], score=[0], eta=1)),
        (Law.from_blocks(counts=[2], score=[0], eta=1), Law.from_blocks(counts=[2, 1], score=[0, 0], eta=1)),
        (Law.from_blocks(counts=[2], score=[0], eta=1), Law.from_blocks(counts=[2], score=[0], eta=1, labels=["a"])),
        (
            Law.from_steps([(0, [0], 4, [0]), (9, [0], 4, [1])], 1),
            Law.from_steps([(0, [0], 4, [0]), (9, [0], 5, [1])], 1),
        ),
    ],
)
def test_different_domains_are_an_error_not_a_distance(p: Law, q: Law) -> None:
    for first, second in ((p, q), (q, p)):
        calls: list[Callable[[Law, Law], object]] = [
            lambda a, b: a.hockey_stick(b, 1),
            lambda a, b: a.satisfies(b, 1),
            lambda a, b: a.satisfies(b, 1, F(1, 10)),
            lambda a, b: a.max_divergence(b),
            lambda a, b: a.epsilon_at(b, F(1, 10)),
            lambda a, b: a.total_variation(b),
        ]
        for call in calls:
            with pytest.raises(LawError):
                call(first, second)


def test_segments_that_divide_one_domain_differently_still_compare() -> None:
    p = Law.from_steps([(0, [0], 9, [0]), (0, [10], 19, [1])], 1)
    q = Law.from_steps([(0, [0], 4, [0]), (0, [5], 19, [1])], 1)
    r = Law.from_blocks([0, 5], [4, 19], [0, 1], 1)
    assert q.satisfies(r, 0)
    assert p.hockey_stick(q, 0).lo == p.hockey_stick(r, 0).lo


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda law: law.satisfies(law, -1), ParameterError),
        (lambda law: law.satisfies(law, 1, -1), ParameterError),
        (lambda law: law.satisfies(law, float("nan")), ParameterError),
        (lambda law: law.satisfies(law, None), TypeError),
        (lambda law: law.satisfies("law", 1), TypeError),
        (lambda law: law.hockey_stick(law, True), TypeError),
        (lambda law: law.hockey_stick(law, 1, precision=0), ParameterError),
        (lambda law: law.hockey_stick(law, 1, precision=-1), ParameterError),
        (lambda law: law.hockey_stick(3, 1), TypeError),
        (lambda law: law.epsilon_at(law, 2), ParameterError),
        (lambda law: law.epsilon_at(law, -1), ParameterError),
        (lambda law: law.max_divergence(None), TypeError),
    ],
)
def test_bad_parameters_are_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(Law.from_blocks([0], [9], [0], 1))


# Short answers


def test_a_bound_that_is_enough_ends_the_search_and_one_that_is_not_changes_nothing() -> None:
    for p, q in [
        (Law.from_blocks([0, 4], [3, 9], [0, 2], F(1, 2)), Law.from_blocks([0, 7], [6, 9], [1, 0], F(1, 2))),
        (Law.from_weights({"a": 1, "b": 2}), Law.from_weights({"a": 3, "b": 1})),
    ]:
        full = p.max_divergence(q)
        assert isinstance(full, Ball)
        assert p.max_divergence(q, enough=full.hi * 2) == Ball(F(0), full.hi * 2)
        assert p.max_divergence(q, enough=full.lo / 2) == full
        assert p.max_divergence(q, enough=F(-1)) == full
    only = Law.from_weights({"a": 1})
    assert Law.from_weights({"a": 1, "b": 1}).max_divergence(only, enough=F(100)) == inf


def test_laws_of_one_identity_are_the_same_law() -> None:
    def block(scores: list[int], eta: Any = 1, **layout: Any) -> Law:
        return Law.from_blocks([0, 4], [3, 9], scores, eta) if not layout else Law.from_blocks(score=scores, eta=eta)

    first = block([0, 2])
    assert first.identity() == block([5, 7]).identity() is not None
    others = [block([0, 3]), block([2, 0]), block([0, 2], 2), block([0, 2], candidates=True)]
    others.append(Law.from_blocks([0, 4], [3, 8], [0, 2], 1))
    others.append(Law.from_blocks(score=[0, 2], eta=1, counts=[4, 6]))
    assert all(first.identity() != other.identity() for other in others)
    rational = Law.from_weights({"a": 1, "b": 2})
    assert rational.identity() == Law.from_weights({"b": 4, "a": 2}).identity() is not None
    assert rational.identity() != Law.from_weights({"a": 2, "b": 1}).identity()
    assert Law.from_weights({"a": [(1, 1)], "b": 1}).identity() is None


# Size


def test_neighbouring_laws_over_two_to_the_64_cuts_are_compared_by_blocks() -> None:
    rng = np.random.default_rng(5)
    starts = np.unique(np.concatenate([[0], rng.integers(1, 2**63, 3000).astype(np.uint64) * 2]).astype(np.uint64))
    scores = rng.integers(0, 60, len(starts))
    p = Law.from_steps([(0, starts, 2**64, scores)], 1)
    q = Law.from_steps([(0, starts, 2**64, scores + (np.arange(len(starts)) >= 1500))], 1)
    assert p.satisfies(q, 1)
    assert not p.satisfies(q, F(1, 100))
    ball = p.hockey_stick(q, F(1, 10))
    assert 0 < ball.lo <= ball.hi < 1
