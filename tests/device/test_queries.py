"""Statistical-query learners: rounding is exact and shared, planted targets are recovered, parameters are the certified
ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.device.correlated_sampling import rate
from privpac.device.decision_lists import (
    KDecisionList,
    SQDecisionLists,
    StagewiseDecisionList,
    conjunction_tests,
    count_tests,
)
from privpac.device.items import Junction, LinearRule, RuleList
from privpac.device.separators import RoundedSeparator, fraction_free_solve
from privpac.device.statistical_queries import (
    RoundedAnswers,
    SQConjunctions,
    SQDisjunctions,
    SQNaiveBayes,
    query_records,
    round_shared,
    sqrt_up,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.papers.correlated_sampling import SQPerceptron
from privpac.rng import derive

SEED = bytes(range(32))
ONE = np.ones(1, dtype=np.int64)


def error(learner: Any, x: Any, y: Any, seed: bytes = SEED) -> float:
    """The share of mistakes of the rule learned from a sample, on the sample."""
    item = learner.item(x, y, seed)
    assert item is not None
    rule = learner.decode(item)
    assert rule is not None
    return float(np.mean(rule.predict(x) != np.asarray(y)))


# Rounding


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**9), st.integers(1, 10**6), st.integers(0, 2**64 - 1))
def test_rounding_is_the_floor_of_the_shifted_value(s: int, M: int, grid: int, word: int) -> None:
    found = round_shared(s, M, grid, word)
    assert found == (Fraction(s, M) * grid + Fraction(word, 1 << 64)) // 1
    assert abs(Fraction(found, grid) - Fraction(s, M)) < Fraction(1, grid)


@given(st.integers(-40, 40), st.integers(-40, 40), st.integers(1, 9))
def test_two_users_differ_with_probability_grid_times_distance(a: int, b: int, grid: int) -> None:
    """Exactly: with values in 40ths the answers change only at 40ths of an offset, so 40 midpoints weigh the same."""
    M = 40
    offsets = [((2 * i + 1) << 64) // 80 for i in range(40)]
    differ = sum(round_shared(a, M, grid, word) != round_shared(b, M, grid, word) for word in offsets)
    assert Fraction(differ, 40) == min(Fraction(1), grid * Fraction(abs(a - b), M))


def test_answers_are_counted_and_keyed() -> None:
    one, other = (RoundedAnswers(SEED, label, 7, ONE) for label in ("a", "b"))
    first = [one.ask(np.array([1]), 3) for _ in range(40)]
    assert first == one.given
    assert set(first) == {2, 3}
    assert [other.ask(np.array([1]), 3) for _ in range(40)] != first
    with pytest.raises(ParameterError):
        RoundedAnswers(SEED, "a", 7, np.zeros(0, dtype=np.int64))
    with pytest.raises(ParameterError):
        RoundedAnswers(SEED, "a", 0, ONE)


def test_certified_records_of_queries() -> None:
    assert query_records(10, 10, "1/10") == 15000**2
    assert query_records(10, 10, "1/10", 2) == 30000**2
    assert SQConjunctions(5, grid=10).plan("1/10") == 15000**2
    for bad in (0, 1, "2"):
        with pytest.raises(ParameterError):
            query_records(10, 10, bad)


@given(st.fractions(0, 1000, max_denominator=999), st.integers(1, 1 << 20))
def test_square_roots_round_up_to_the_next_unit(value: Fraction, unit: int) -> None:
    found = sqrt_up(value, unit)
    assert found**2 >= value
    assert found == 0 or (found - Fraction(1, unit)) ** 2 < value
    assert (found * unit).denominator == 1


# Conjunctions and disjunctions


@settings(max_examples=50)
@given(st.integers(1, 5), st.data())
def test_certified_conjunctions_stay_within_alpha_on_their_sample(d: int, data: Any) -> None:
    mask = data.draw(st.integers(0, 4**d - 1))
    x = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 2, (60, d))
    for learner, target in (
        (SQConjunctions.certified(d, "1/5"), Junction(d, mask)),
        (SQDisjunctions.certified(d, "1/5"), Junction(d, mask, False)),
    ):
        y = target.predict(x)
        assert error(learner, x, y, derive(SEED, "d", mask)) <= 0.2
        rule = learner.decode(learner.item(x, y, SEED) or b"")
        assert rule is not None
        # Every literal of the target is kept, so a conjunction errs only by missing and a disjunction only by false
        # alarms.
        assert rule.mask & mask == mask
        assert not np.any(rule.predict(x) > y) or not learner.every
        assert not np.any(rule.predict(x) < y) or learner.every


def test_disjunctions_are_negated_conjunctions() -> None:
    x = np.random.default_rng(1).integers(0, 2, (40, 4))
    y = (x[:, 0] | (1 - x[:, 2])).astype(int)
    both = [SQConjunctions(4, grid=40).item(1 - x, 1 - y, SEED), SQDisjunctions(4, grid=40).item(x, y, SEED)]
    assert both[0] == both[1]


# Decision lists


@pytest.mark.parametrize(("d", "k"), [(1, 1), (3, 2), (4, 3), (3, 5)])
def test_tests_are_ordered_and_counted(d: int, k: int) -> None:
    tests = conjunction_tests(d, k)
    expected = [
        t for r in range(1, k + 1) for t in sorted(set(product(range(2 * d), repeat=r))) if list(t) == sorted(set(t))
    ]
    expected = [t for t in expected if not any(j + d in t for j in t)]
    assert list(tests) == [*expected, ()]
    assert len(tests) == count_tests(d, k)


def test_too_many_tests_are_refused() -> None:
    for build in (
        lambda: KDecisionList(60, 3, grid=10),
        lambda: conjunction_tests(60, 3),
        lambda: StagewiseDecisionList(60, 1, 3),
    ):
        with pytest.raises(TooLargeError, match="4096"):
            build()


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_certified_lists_stay_within_alpha_on_their_sample(seed: int) -> None:
    random = np.random.default_rng(seed)
    d = int(random.integers(1, 4))
    x = random.integers(0, 2, (80, d))
    order = random.permutation(2 * d)[: random.integers(0, 2 * d + 1)]
    target = RuleList(
        d,
        tuple((int(t),) for t in order),
        tuple(random.integers(0, 2, len(order)).tolist()),
        int(random.integers(0, 2)),
    )
    assert error(SQDecisionLists.certified(d, "1/5"), x, target.predict(x)) <= 0.2


def test_planted_2_lists_are_found() -> None:
    random, d = np.random.default_rng(4), 4
    target = RuleList(d, ((0, 5), (2, 3), (7,)), (1, 0, 1), 0)
    x = random.integers(0, 2, (400, d))
    assert error(KDecisionList.certified(d, "1/10", k=2), x, target.predict(x)) <= 0.1
    assert (
        error(KDecisionList(d, 2, Fraction(1, 50), Fraction(1, 50), grid=200, max_rules=8), x, target.predict(x)) <= 0.1
    )


def test_certified_parameters_of_lists() -> None:
    learner = SQDecisionLists.certified(2, "1/10")
    assert (learner.grid, learner.theta, learner.stop, learner.queries) == (
        16 * 25 * 10,
        Fraction(1, 1000),
        Fraction(1, 20),
        55,
    )
    assert KDecisionList(10, 2, grid=5).queries == 201 * 403


def test_stagewise_lists_agree_and_are_accurate() -> None:
    """Ten users with fresh records: one item for most of them, and a good one."""
    random, d = np.random.default_rng(6), 5
    often = np.array([0.5, 0.3, 0.6, 0.75, 0.5])
    target = RuleList(d, ((1,), (8,)), (1, 0), 1)
    learner, items = StagewiseDecisionList(d, rate(60), stages=2), []
    for _ in range(10):
        x = (random.random((4000, d)) < often).astype(int)
        items.append(learner.item(x, target.predict(x), SEED))
    top = max(set(items), key=items.count)
    assert items.count(top) >= 6
    rule = learner.decode(top or b"")
    assert rule is not None
    x = (random.random((4000, d)) < often).astype(int)
    assert np.mean(rule.predict(x) != target.predict(x)) <= 0.15


def test_broken_list_items_are_no_rules() -> None:
    learner = SQDecisionLists(2, grid=10, max_rules=2)
    good = b"\x00\x00\x01" + b"\x04\x00\x00" + b"\x01"
    assert learner.decode(good) == RuleList(2, ((0,), ()), (1, 0), 1)
    for bad in (
        b"",
        b"\x02",
        good[:-1],
        good + b"\x00",
        b"\x05\x00\x00\x00",
        b"\x00\x00\x02\x00",
        b"\x00\x00\x00" * 3 + b"\x00",
    ):
        assert learner.decode(bad) is None


# Halfspaces


def test_certified_perceptron_on_a_margin() -> None:
    random = np.random.default_rng(3)
    angles = random.random(4000) * 2 * np.pi
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    keep = np.abs(x @ np.array([0.6, 0.8])) >= 0.25
    points = (x[keep] * 0.9 * 2**16).astype(int)
    learner = SQPerceptron.certified(2, "1/10", "1/5")
    assert (learner.steps, learner.queries) == (150, 450)
    assert error(learner, points, x[keep] @ np.array([0.6, 0.8]) > 0) <= 0.1


@given(st.integers(1, 5), st.integers(0, 10**6))
def test_solution_of_a_positive_system_is_exact(size: int, seed: int) -> None:
    root = np.random.default_rng(seed).integers(-9, 10, (size, size))
    matrix = (root.T @ root + np.eye(size, dtype=int)).tolist()
    target = np.random.default_rng(seed + 1).integers(-99, 100, size).tolist()
    numerators, determinant = fraction_free_solve(matrix, target)
    assert determinant > 0
    for row, right in zip(matrix, target):
        assert sum(a * n for a, n in zip(row, numerators)) == right * determinant


@pytest.mark.parametrize("bound", [None, 50, 1 << 30])
def test_rounded_separators_learn_planted_ones(bound: int | None) -> None:
    random = np.random.default_rng(7)
    low, high = (0, 2) if bound is None else (-bound, bound + 1)
    x = random.integers(low, high, (800, 5))
    y = x @ np.array([3, -2, 1, 0, -1]) > 0
    assert error(RoundedSeparator(5, Fraction(1, 50), 3, bound, grid=20 if bound is None else 20 * bound), x, y) <= 0.15


def test_rounded_separator_users_agree() -> None:
    random, items = np.random.default_rng(9), []
    learner = RoundedSeparator(3, grid=2)
    for _ in range(12):
        x = random.integers(0, 2, (8000, 3))
        items.append(learner.item(x, x[:, 0] + x[:, 1] > 1, SEED))
    assert max(items.count(item) for item in items) >= 8


def test_an_empty_active_set_halves_the_vector_and_does_not_forget_it() -> None:
    """Constant labels: with the half step the rule survives stages in which no record has a small margin."""
    x = np.random.default_rng(1).integers(0, 2, (50, 3))
    for label in (0, 1):
        for stages in (1, 2, 3, 5):
            assert error(RoundedSeparator(3, grid=8, stages=stages), x, np.full(50, label)) == 0


def test_agreement_bound_of_rounded_separators() -> None:
    assert RoundedSeparator(3, grid=4).plan("1/10") > 10**12
    with pytest.raises(ParameterError, match="simulate"):
        RoundedSeparator(3, bound=9, grid=4).plan("1/10")
    with pytest.raises(ParameterError):
        RoundedSeparator(3, grid=4).plan(2)


def test_linear_rules_are_exact_beyond_64_bits() -> None:
    rule = LinearRule((1 << 90, -(1 << 90), 1))
    assert rule.predict([[1, 1], [0, 1], [1, 0]]).tolist() == [1, 0, 1]
    assert LinearRule((1 << 90, -(1 << 90)), constant=False).predict([[1, 1], [1, 0]]).tolist() == [0, 1]


# Naive Bayes


def test_naive_bayes_on_independent_columns() -> None:
    random = np.random.default_rng(5)
    y = random.integers(0, 2, 3000)
    x = np.stack([(random.random(3000) < np.where(y == 1, 0.8, 0.3)).astype(int), random.integers(0, 3, 3000)], axis=1)
    best = min(np.mean((x[:, 0] == 1) != y), 0.5)
    assert error(SQNaiveBayes((2, 3), grid=100), x, y) <= best + 0.01
    assert SQNaiveBayes((2, 3), grid=100).queries == 11


def test_naive_bayes_follows_the_prior_when_columns_say_nothing() -> None:
    x = np.random.default_rng(5).integers(0, 2, (4000, 3))
    y = np.random.default_rng(6).random(4000) < 0.9
    rule = SQNaiveBayes((2, 2, 2), grid=50).decode(SQNaiveBayes((2, 2, 2), grid=50).item(x, y, SEED) or b"")
    assert rule is not None
    assert rule.predict(x).all()


# Parameters


@pytest.mark.parametrize(
    "build",
    [
        lambda: SQConjunctions(0, grid=5),
        lambda: SQConjunctions(3, grid=0),
        lambda: SQConjunctions(3, -1, grid=5),
        lambda: SQConjunctions.certified(3, 0),
        lambda: SQConjunctions.certified(3, 1),
        lambda: SQConjunctions(3, grid=5, min_records=0),
        lambda: KDecisionList(3, 0, grid=5),
        lambda: KDecisionList(3, 2, Fraction(2), grid=5),
        lambda: KDecisionList(3, 2, Fraction(1, 20), Fraction(-1), grid=5),
        lambda: KDecisionList.certified(3, 0),
        lambda: StagewiseDecisionList(3, -1),
        lambda: StagewiseDecisionList(3, 1, stages=0),
        lambda: SQPerceptron(0, 5, grid=5),
        lambda: SQPerceptron(2, 0, grid=5),
        lambda: SQPerceptron(2, 1 << 60, grid=5),
        lambda: SQPerceptron.certified(2, "1/10", 0),
        lambda: RoundedSeparator(0, grid=5),
        lambda: RoundedSeparator(3, Fraction(0), grid=5),
        lambda: RoundedSeparator(3, stages=0, grid=5),
        lambda: SQNaiveBayes((), grid=5),
        lambda: SQNaiveBayes((0,), grid=5),
        lambda: SQNaiveBayes((2,), grid=1 << 40),
    ],
)
def test_parameters_are_checked(build: Any) -> None:
    with pytest.raises(ParameterError):
        build()


WRONG_TYPES: list[dict[str, Any]] = [
    {"d": 2.0, "grid": 5},
    {"d": 2, "grid": "5"},
    {"d": True, "grid": 5},
    {"d": None, "grid": 5},
]


@pytest.mark.parametrize("bad", WRONG_TYPES)
def test_types_are_checked(bad: dict[str, Any]) -> None:
    for kind in (SQConjunctions, KDecisionList, RoundedSeparator):
        with pytest.raises(TypeError):
            kind(**bad)
