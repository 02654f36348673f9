"""Deletion stability around algorithms it did not come with; its search against brute force; its limits."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Integers, UserData
from privpac.errors import (
    IncompatibleGuarantees,
    InfeasibleError,
    NoReleaseError,
    ParameterError,
    SchemaError,
    TooLargeError,
)
from privpac.law import BOTTOM, Law
from privpac.mechanisms import RandomizedResponse, ReleaseTest
from privpac.methods import DeletionStability
from privpac.methods.regret import RegretSelection
from privpac.papers.few_examples_per_user.deletion import MAX_LAWS, RetainedLaws, close, deletion_law
from privpac.rules import Thresholds
from privpac.testing import SeededRng, insecure_randomness

TAGS: dict[str, Any] = {"unit": "user", "neighbours": "replace"}


def share_of_ones(users: Any) -> dict[int, int]:
    """A user's own function: 1 with probability about the share of ones."""
    return {1: sum(users) + 1, 0: len(users) - sum(users) + 1}


# Closeness


@given(
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
    st.integers(10, 30),
)
@settings(deadline=None, max_examples=60)
def test_closeness_is_decided_exactly_also_at_equality(p: list[int], q: list[int], tenths: int) -> None:
    factor = Fraction(tenths, 10)
    first, second = (Law.from_weights(dict(enumerate(weights))) for weights in (p, q))
    a, b = ([Fraction(w, sum(weights)) for w in weights] for weights in (p, q))
    needed = max(sum(max(x - factor * y, Fraction(0)) for x, y in zip(*pair)) for pair in ((a, b), (b, a)))
    assert close(first, second, factor, needed)
    assert needed == 0 or not close(first, second, factor, needed * Fraction(10**9 - 1, 10**9))


def test_closeness_of_blocks_atoms_and_exponentials() -> None:
    wide = Law.from_blocks([0, 1 << 40], [(1 << 40) - 1, 1 << 64], [0, 3], "1/3")
    other = Law.from_blocks([0, 1 << 39], [(1 << 39) - 1, 1 << 64], [0, 3], "1/3")
    assert close(wide, wide, Fraction(1), Fraction(0))
    assert close(wide, other, Fraction(3), Fraction(0))
    assert not close(wide, other, Fraction(1), Fraction(0))
    assert not close(wide, Law.point(BOTTOM), Fraction(9), Fraction(99, 100))


# The search, against the definition


@given(st.lists(st.integers(0, 2), min_size=4, max_size=6), st.sampled_from([(1, 2), (1, 3), (0, 1)]))
@settings(deadline=None, max_examples=40)
def test_the_law_is_the_definition(users: list[int], shape: tuple[int, int]) -> None:
    ladder, deleted = shape
    test = ReleaseTest(None, "1/10", base="3/2", ladder=ladder, **TAGS)
    factor, slack, n = Fraction(6, 5), Fraction(1, 20), len(users)

    def run(kept: tuple[int, ...]) -> Law:
        return Law.from_weights(Counter({0: 1, 1: 1, 2: 1}) + Counter(users[i] for i in kept))

    def stable(removed: tuple[int, ...]) -> bool:
        left = [i for i in range(n) if i not in removed]
        laws = [run(kept) for kept in combinations(left, n - deleted)]
        return all(close(p, q, factor, slack) for p, q in combinations(laws, 2))

    found = deletion_law(RetainedLaws(n, deleted, run, factor, slack), test)
    for size in range(ladder + 1):
        sets = [removed for removed in combinations(range(n), size) if stable(removed)]
        if sets:
            for value in range(3):
                rest = [
                    [
                        run(kept).prob_exact(value)
                        for kept in combinations([i for i in range(n) if i not in s], n - deleted)
                    ]
                    for s in sets
                ]
                mean = sum(sum(part) / len(part) for part in rest) / len(sets)
                assert found.prob_exact(value) == test.curve[size] * mean
            break
    else:
        assert found.prob_exact(BOTTOM) == 1


def test_agreeing_users_pass_and_opposed_users_do_not() -> None:
    learner = DeletionStability(share_of_ones, 3, "0.2", ladder=2)
    assert learner.law([1] * 6).prob_exact(BOTTOM) < learner.law([0, 0, 0, 1, 1, 1]).prob_exact(BOTTOM)


def test_every_way_of_selecting_gives_a_law_over_the_same_values() -> None:
    users = [0, 1, 2, 2, 2, 2]

    def shown(chosen: Any) -> Law:
        return DeletionStability(lambda kept: {kept[0]: 1}, 6, "0.4", ladder=2, select=chosen).law(users)

    assert shown("first").prob_exact(BOTTOM) == shown("last").prob_exact(BOTTOM)
    assert shown(lambda sets, data: sets[-1]).satisfies(shown("last"), 0)
    assert shown(lambda sets, data: (9, 9)).satisfies(shown("first"), 0)  # not a stable set
    assert shown(lambda sets, data: 1 / 0).satisfies(shown("first"), 0)  # a rule that fails


# Mechanisms it did not come with


def test_around_a_function_of_ones_own() -> None:
    learner = DeletionStability(share_of_ones, 9, "0.2", ladder=2, symmetric=True)
    law = learner.law([0, 1, 1, 1, 1, 1, 1])
    assert law.satisfies(learner.law([1, 1, 1, 0, 1, 1, 1]), 0)
    assert law.satisfies(learner.law([1] * 7), "9", "0.2")
    released = learner.learn([0, 1, 1, 1, 1, 1, 1])
    assert released.outcome in ("released", "none")
    assert str(released.guarantee) == "(9, 0.2)-DP per user, replace"
    assert released.learner == "deletion stability"


def test_around_randomised_response_to_a_vote_of_categories() -> None:
    """Item-level randomised response over the most frequent of three categories; users hold several records."""
    response = RandomizedResponse(None, 3, keep="3/4", **TAGS)

    def vote(users: Any) -> Law:
        counts = Counter(record for user in users for record in user)
        return response.law(max(range(3), key=lambda k: (counts[k], -k)))

    learner = DeletionStability(vote, 6, "0.2", ladder=2, symmetric=True)
    people = [(0, 0), (0, 1), (0,), (0, 0, 2), (0, 2), ()]
    law = learner.law(people)
    assert law.mode == 0
    for i in range(len(people)):
        other = [*people]
        other[i] = (1, 1, 1, 1)
        assert law.satisfies(learner.law(other), 6, "0.2")


def test_around_a_mechanism_of_opendp() -> None:
    """OpenDP's randomised response, through the law its own parameter states."""
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    keep = 0.75
    theirs = opendp.m.make_randomized_response_bool(keep)
    assert theirs.map(1) >= 1.0986

    def law(users: Any) -> Law:
        majority = 2 * sum(users) > len(users)
        theirs(bool(majority))  # the mechanism accepts this input
        return Law.from_weights({int(majority): Fraction(keep), int(not majority): 1 - Fraction(keep)})

    learner = DeletionStability(law, 4, "0.2", ladder=1)
    assert learner.law([1, 1, 1, 1]).mode in (1, BOTTOM)
    assert learner.law([1, 1, 1, 1]).satisfies(learner.law([1, 1, 1, 0]), 4, "0.2")


def test_around_a_learner_of_this_library_rules_come_out() -> None:
    features = {"x": Integers(0, 3)}
    data = UserData.from_users([[(0, 0), (3, 1)]] * 5, features=features)
    inner = RegretSelection(Thresholds(), "0.1", unit="user", neighbours="replace", public_n_users=5)
    learner = DeletionStability(inner, 9, "0.4", ladder=2)
    with insecure_randomness():
        outcomes = [learner.learn(data, rng=SeededRng(seed)) for seed in range(12)]
    some = [released for released in outcomes if released]
    assert some
    assert str(some[0].value).startswith("1 ")
    assert some[0].predict([[3]]).shape == (1,)


def test_a_learner_without_a_law_is_refused_before_the_spend() -> None:
    data = UserData.from_users([[(0, 0), (3, 1)]] * 5, features={"x": Integers(0, 3)})
    counting = RegretSelection(Thresholds(), "0.1")
    assert counting.needs_count
    with pytest.raises(TooLargeError, match="noisy count"):
        DeletionStability(counting, 9, "0.4", ladder=2).bind(data)


# Nothing, errors, limits


def test_nothing_is_an_outcome_without_diagnostics() -> None:
    none = DeletionStability(lambda users: {users[0]: 1}, 1, "0.001", ladder=1).learn([0, 1, 2])
    assert none.outcome == "none"
    assert set(none.parameters) == {"ladder", "deleted", "constants"}
    with pytest.raises(NoReleaseError):
        none.predict([0])


@pytest.mark.parametrize(
    "broken",
    [lambda users: 1 / 0, lambda users: 3, lambda users: {0: -1}, lambda users: {}],
    ids=["raises", "type", "negative", "empty"],
)
def test_an_algorithm_that_fails_has_no_answer_after_the_spend_and_an_error_for_the_curator(broken: Any) -> None:
    learner = DeletionStability(broken, 1, "0.1", ladder=1)
    assert learner.learn([0, 1, 2]).outcome == "none"
    with pytest.raises(Exception):  # noqa: B017
        learner.law([0, 1, 2])


def test_work_is_refused_from_public_numbers() -> None:
    ordinary = DeletionStability(share_of_ones, 1, "1e-6")
    assert ordinary.deleted == 2 * ordinary.ladder > 100
    with pytest.raises(InfeasibleError, match="too few users"):
        ordinary.bind([0] * 50)
    with pytest.raises(TooLargeError, match="TrimmedSelection"):
        ordinary.bind([0] * 200)
    small = DeletionStability(share_of_ones, 1, "0.1", ladder=1)
    assert small.work(5) == comb(5, 2) + 5 * comb(4, 1)
    with pytest.raises(TooLargeError):
        DeletionStability(share_of_ones, 1, "0.1", ladder=1, max_laws=29).bind([0] * 5)
    DeletionStability(share_of_ones, 1, "0.1", ladder=1, max_laws=30).bind([0] * 5)
    assert small.work(2000) > MAX_LAWS


@pytest.mark.slow
def test_the_papers_constants() -> None:
    """Half a millionth at epsilon 1: kappa 48, 192 users deleted; feasible only for promises that say little."""
    literal = DeletionStability(share_of_ones, 1, "1e-6", constants="paper")
    assert (literal.ladder, literal.deleted) == (96, 192)
    with pytest.raises(TooLargeError):
        literal.bind([0] * 300)
    weak = DeletionStability(lambda users: {0: 1}, 6, "0.9", constants="paper")
    assert weak.deleted == 16
    law = weak.law([0] * 17)
    assert law.prob_exact(0) == 1  # everybody agrees: the size drawn never matters
    with pytest.raises(ParameterError, match="fixes ladder"):
        DeletionStability(share_of_ones, 1, "0.1", constants="paper", ladder=2)


def test_bad_parameters_are_refused() -> None:
    good: dict[str, Any] = {"algorithm": share_of_ones, "epsilon": 1, "delta": "0.1"}
    for changes, match in [
        ({"delta": 0}, "delta"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"ladder": 2, "deleted": 3}, "at least 2"),
        ({"ladder": -1}, "ladder"),
        ({"constants": "loose"}, "constants"),
        ({"select": "best"}, "select"),
        ({"neighbours": "add-remove"}, "declare slots"),
        ({"neighbours": "add-remove", "slots": 5}, "symmetric"),
        ({"max_laws": 0}, "max_laws"),
    ]:
        with pytest.raises(ParameterError, match=match):
            DeletionStability(**(good | changes))
    with pytest.raises(TypeError, match="algorithm"):
        DeletionStability(3, 1, "0.1")
    with pytest.raises(TypeError, match="symmetric"):
        DeletionStability(**good, symmetric=1)
    small = DeletionStability(**good, ladder=1)
    with pytest.raises(TypeError, match="list of users"):
        small.learn("abc")
    with pytest.raises(SchemaError, match="put in order"):
        DeletionStability(**good, ladder=1, symmetric=True).learn([{}, {}, {}])
    with pytest.raises(IncompatibleGuarantees):
        small.learn(UserData.from_arrays([[1]], [1], None, features={"x": Integers(0, 1)}))
    seats = DeletionStability(**good, ladder=1, neighbours="add-remove", slots=4, symmetric=True)
    with pytest.raises(ParameterError, match="order of users"):
        seats.bind(UserData.from_users([[(1, 1)]], features={"x": Integers(0, 1)}))
