"""Propose, test, release: the curve is the largest valid one, ladders are shortest, and Theorem G holds exactly."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import as_arb, up
from privpac.law import BOTTOM, Law
from privpac.mechanisms import ReleaseTest, TruncatedLaplace, pass_curve, smallest_K
from privpac.mechanisms.release_test import MAX_LADDER, valid_curve
from privpac.testing import SeededRng, insecure_randomness

TAGS: dict[str, Any] = {"unit": "user", "neighbours": "replace"}
bases = st.integers(22, 100).map(lambda k: Fraction(k, 20))
deltas = st.integers(1, 250).map(lambda k: Fraction(k, 500))


# The curve


@given(bases, deltas, st.integers(0, 12))
@settings(deadline=None, max_examples=60)
def test_the_curve_is_valid_and_no_entry_can_be_larger(a: Fraction, delta: Fraction, ladder: int) -> None:
    curve = pass_curve(a, delta, ladder)
    assert len(curve) == ladder + 2
    assert valid_curve(curve, a, delta)
    assert curve[ladder] <= delta
    for k in range(ladder + 1):
        raised = min(Fraction(1), curve[k] + Fraction(1, 10**9))
        if raised > curve[k]:
            assert not valid_curve((*curve[:k], raised, *curve[k + 1 :]), a, delta)


@given(bases, deltas, st.sampled_from([Fraction(0), Fraction(1, 20), Fraction(1, 1000)]))
@settings(deadline=None, max_examples=60)
def test_the_ladder_is_the_shortest_one(a: Fraction, delta: Fraction, failure: Fraction) -> None:
    ladder = smallest_K(a, delta, failure)
    assert pass_curve(a, delta, ladder)[0] >= 1 - failure
    assert ladder == 0 or pass_curve(a, delta, ladder - 1)[0] < 1 - failure


@pytest.mark.parametrize(("a", "delta"), [("11/10", "1/1000"), ("3", "1/1000"), ("13/10", "1/20"), ("2", "1/100")])
def test_without_failure_it_is_the_truncated_laplace_or_one_step_shorter(a: str, delta: str) -> None:
    kappa = TruncatedLaplace(None, delta, base=a, **TAGS).kappa
    assert smallest_K(a, delta, 0) in (2 * kappa, 2 * kappa - 1)


def test_figures_of_a_weak_test() -> None:
    """Base 11/10 and delta 1/1000: 148 by the closed form, 82 exactly, 63 if it may fail once in twenty."""
    assert 2 * TruncatedLaplace(None, "1/1000", base="11/10", **TAGS).certified_kappa == 148
    assert smallest_K("11/10", "1/1000", 0) == 82
    assert smallest_K("11/10", "1/1000", "1/20") == 63


def test_a_smaller_base_is_stricter() -> None:
    exact = ReleaseTest(1, "1e-6", **TAGS)
    assert exact.base < Fraction(2718281829, 10**9)
    assert up(lambda: as_arb(exact.base).log()) <= 1 + Fraction(1, 10**9)
    assert smallest_K(2, "1e-6") >= exact.ladder


def test_a_long_curve_is_rounded_down_and_still_valid() -> None:
    test = ReleaseTest("0.05", "1e-9", **TAGS)
    assert test.ladder > 64
    assert valid_curve(test.curve, test.base, "1e-9")
    assert max(b.denominator.bit_length() for b in test.curve) <= 513
    assert float(test.curve[0]) >= 0.999 - 1e-12
    assert all(a >= b for a, b in pairwise(test.curve))


def test_curves_that_break_a_condition_are_told_apart() -> None:
    good = pass_curve(2, "1/10", 2)
    assert valid_curve(good, 2, "1/10")
    assert not valid_curve(good[:-1], 2, "1/10")
    assert not valid_curve((Fraction(1), *good[1:]), 2, "1/10")
    assert not valid_curve((good[1], good[0], *good[2:]), 2, "1/10")


# Theorem G


@given(bases, deltas, st.integers(0, 4), st.data())
@settings(deadline=None, max_examples=40)
def test_release_is_private_for_every_pair_of_neighbouring_distances(
    a: Fraction, delta: Fraction, ladder: int, data: st.DataObject
) -> None:
    """Answers that are close where they must be, and arbitrary where the theorem does not look."""
    test = ReleaseTest(None, delta, base=a, ladder=ladder, **TAGS)
    odds = Fraction(data.draw(st.integers(1, 81)), 9)
    near = Law.from_weights({0: odds, 1: 1}), Law.from_weights({0: 2 * odds, 1: 1})  # within a factor of 2
    free = Law.point(0), Law.point(1)
    total = up(lambda: as_arb(2 * a).log())
    for rho in range(ladder + 2):
        for other in {max(rho - 1, 0), rho, min(rho + 1, ladder + 1)}:
            asked = max(rho, other) <= ladder and (rho, other) != (ladder, ladder)
            answers = near if asked else free
            assert test.law(rho, answers[0]).satisfies(test.law(other, answers[1]), total, delta)


def test_answers_that_are_not_close_are_caught() -> None:
    test = ReleaseTest(None, "1/10", base=2, ladder=3, **TAGS)
    assert not test.law(0, Law.point(0)).satisfies(test.law(1, Law.point(1)), 3, "1/10")


# Coins and bad input


def test_the_coin_follows_the_curve() -> None:
    test = ReleaseTest(None, "1/10", base=2, ladder=2, **TAGS)
    with insecure_randomness():
        rng = SeededRng(3)
        for rho, b in enumerate(test.curve):
            passed = sum(test.passes(rho, rng) for _ in range(4000))
            # Five and a half standard deviations: a false alarm below 1e-7 each.
            assert abs(passed - 4000 * b) <= 5.5 * (4000 * float(b) * (1 - float(b))) ** 0.5
    assert test.law(3, None).prob_exact(BOTTOM) == 1
    assert test.law(99, Law.point(0)).prob_exact(BOTTOM) == 1


@pytest.mark.parametrize("delta", [0, 1, -1, float("nan"), "1.5"])
def test_bad_deltas_are_refused(delta: Any) -> None:
    with pytest.raises(ParameterError, match="delta"):
        ReleaseTest(1, delta, **TAGS)
    with pytest.raises(ParameterError):
        pass_curve(2, delta, 3)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="base"):
        pass_curve("1/2", "1/10", 3)
    with pytest.raises(ParameterError, match="ladder"):
        pass_curve(2, "1/10", -1)
    with pytest.raises(TypeError, match="ladder"):
        pass_curve(2, "1/10", 1.5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="ladder"):
        ReleaseTest(1, "1/10", ladder=MAX_LADDER + 1, **TAGS)
    with pytest.raises(ParameterError, match="loses more"):
        ReleaseTest(1, "1/10", base=3, **TAGS)
    with pytest.raises(ParameterError, match="failure"):
        smallest_K(2, "1/10", 1)
    with pytest.raises(ParameterError, match="epsilon"):
        ReleaseTest(0, "1/10", **TAGS)
    with pytest.raises(InfeasibleError, match="raise epsilon"):
        smallest_K(1, "1e-9")
