"""Profiles: blocks, sums, ends of 64 bits, and the law they give."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.errors import ParameterError
from privpac.rules.kernels.events import sum_events
from privpac.rules.profile import Profile, Step, concatenate, constant_profile, dense_profile


@st.composite
def profiles(draw: Any, sizes: tuple[int, int] = (3, 6)) -> Profile:
    steps, base = [], 0
    for size in sizes:
        events = draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(-2, 2)), max_size=5))
        at = np.array([a for a, _ in events], dtype=np.uint64)
        change = np.array([c for _, c in events], dtype=np.int64)
        ((starts, scores),) = sum_events(at, change[:, None], [draw(st.integers(-3, 3))], size)
        steps.append(Step(base, starts, size - 1, scores))
        base += size
    return Profile(tuple(steps))


def listed(profile: Profile) -> list[int]:
    return [score for first, last, score in profile.blocks() for _ in range(first, last + 1)]


@given(profiles(), profiles())
def test_sums_are_sums_of_scores(a: Profile, b: Profile) -> None:
    assert listed(a + b) == [x + y for x, y in zip(listed(a), listed(b), strict=True)]
    assert [(a + b).score(h) for h in range(9)] == listed(a + b)


@given(profiles())
def test_blocks_are_maximal_and_argmin_is_the_first_best(a: Profile) -> None:
    scores = listed(a)
    assert all(left[2] != right[2] for left, right in zip(a.blocks(), a.blocks()[1:], strict=False))
    assert a.least == min(scores)
    assert a.argmin() == scores.index(min(scores))


@given(profiles())
def test_law_weighs_every_id_by_its_score(a: Profile) -> None:
    law = a.law(base=Fraction(2))
    weights = [Fraction(1, 2) ** s for s in listed(a)]
    assert [law.prob_exact(h) for h in range(9)] == [w / sum(weights) for w in weights]


@given(profiles(), profiles())
def test_concatenated_profiles_stand_one_after_the_other(a: Profile, b: Profile) -> None:
    assert listed(concatenate([a, b], [9, 9])) == listed(a) + listed(b)


def test_ids_beyond_64_bits_have_scores() -> None:
    size = (1 << 70) + 3
    profile = constant_profile(size, 4)
    assert [profile.score(h) for h in (0, 1 << 64, size - 1)] == [4, 4, 4]
    assert profile.blocks() == [(0, size - 1, 4)]


@pytest.mark.parametrize("hypothesis", [-1, 3, 1 << 70])
def test_ids_outside_the_class_are_refused(hypothesis: int) -> None:
    with pytest.raises(ParameterError, match="no hypothesis has id"):
        dense_profile(np.array([1, 2, 3])).score(hypothesis)


def test_profiles_of_different_classes_do_not_add() -> None:
    three, four = dense_profile(np.array([1, 2, 3])), dense_profile(np.array([1, 2, 3, 4]))
    with pytest.raises(ParameterError, match="different classes"):
        three + four
    with pytest.raises(ParameterError, match="different classes"):
        three + Profile((*three.steps, Step(3, np.zeros(1, dtype=np.uint64), 0, np.zeros(1, dtype=np.int64))))


def test_repr_shows_no_score() -> None:
    assert repr(dense_profile(np.array([17]))) == "<Profile>"
