"""Finite classes and parities: kernels against brute force, words, labellings, dimensions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Domain, Integers, UserData
from privpac.errors import DimensionLimit
from privpac.rules import FiniteClass, Parities
from privpac.rules.base import ConceptClass
from privpac.rules.enumerated import table_vc_dimension
from privpac.rules.profile import Exceeds, Mean, Regret, Statistic

sys.path.insert(0, str(Path(__file__).parent))
import brute

YES_NO = Categories(["no", "yes"])
BITS: dict[str, Domain] = {f"b{j}": YES_NO if j % 2 else Integers(0, 1) for j in range(4)}
PLANE: dict[str, Domain] = {"a": Integers(1, 3), "c": Categories(["u", "v"])}
DAYS: dict[str, Domain] = {"x": Integers(0, 6)}
RANDOM = np.random.default_rng(3).integers(0, 2, (9, 7))

CASES: list[tuple[ConceptClass, dict[str, Domain]]] = [
    (FiniteClass(RANDOM, DAYS["x"]), DAYS),
    (FiniteClass(RANDOM.astype(bool)), DAYS),
    (FiniteClass([[0, 1, 1, 0, 0, 1, 0]], DAYS["x"]), DAYS),
    (
        FiniteClass([lambda d: d % 2, lambda d: d > 4, lambda d: True], DAYS["x"], names=["odd", "weekend", "any day"]),
        DAYS,
    ),
    (FiniteClass([lambda a, c: a > 1 and c == "v", lambda a, c: a == 3, lambda a, c: False], PLANE), PLANE),
    (Parities(BITS), BITS),
    (Parities({"b1": YES_NO}), {"b1": YES_NO}),
]
cases = st.sampled_from(CASES)
statistics = st.sampled_from(brute.STATISTICS)


@settings(deadline=None, max_examples=200)
@given(st.data(), cases, statistics)
def test_profile_is_brute_force(draw: Any, case: Any, statistic: Statistic) -> None:
    concept, columns = case
    bound = concept.with_columns(columns)
    brute.check_profile(bound, columns, draw.draw(brute.tables(columns)), statistic)


@settings(deadline=None, max_examples=100)
@given(st.data(), cases, statistics)
def test_profiles_add_up_over_disjoint_users(draw: Any, case: Any, statistic: Statistic) -> None:
    concept, columns = case
    tables = brute.tables(columns, most=4)
    brute.check_addition(concept, columns, draw.draw(tables), draw.draw(tables), statistic)


@pytest.mark.parametrize(("concept", "columns"), CASES, ids=str)
def test_rules_print_save_and_predict_alike(concept: ConceptClass, columns: dict[str, Domain]) -> None:
    brute.check_rules(concept.with_columns(columns), columns, range(concept.size), brute.grid(columns))


@settings(deadline=None, max_examples=150)
@given(st.data(), cases)
def test_labellings_and_consistent_rules_are_brute_force(draw: Any, case: Any) -> None:
    concept, columns = case
    brute.check_labellings(
        concept.with_columns(columns), columns, draw.draw(st.lists(brute.records(columns), max_size=7))
    )


@settings(deadline=None, max_examples=50)
@given(st.data(), cases)
def test_erm_is_the_first_best_rule(draw: Any, case: Any) -> None:
    concept, columns = case
    brute.check_erm(concept.with_columns(columns), columns, draw.draw(brute.tables(columns)))


@pytest.mark.parametrize(("concept", "columns"), CASES, ids=str)
def test_vc_dimension_is_exact_and_growth_an_upper_bound(concept: ConceptClass, columns: dict[str, Domain]) -> None:
    said = brute.matrix(concept.with_columns(columns), columns)
    points = range(min(said.shape[1], 7) + 1)
    assert concept.vc_dimension == max(n for n in points if brute.growth(said, n) == 1 << n)
    exact = [brute.growth(said, n) for n in points]
    assert all(concept.growth(n) >= e for n, e in zip(points, exact))
    if isinstance(concept, Parities):
        assert [concept.growth(n) for n in points] == exact


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**6))
def test_vc_dimension_of_a_table_is_brute_force(rules: int, points: int, seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 2, (rules, points), dtype=np.uint8)
    assert table_vc_dimension(table) == brute.vc_dimension(table.astype(np.int8))


def test_vc_dimension_beyond_the_work_limit_is_enclosed() -> None:
    table = np.random.default_rng(5).integers(0, 2, (300, 14), dtype=np.uint8)
    with pytest.raises(DimensionLimit) as caught:
        table_vc_dimension(table, max_states=50)
    exact = table_vc_dimension(table)
    assert caught.value.lower <= exact <= caught.value.upper  # type: ignore[operator]


@pytest.mark.parametrize("d", [1, 5, 13])
@pytest.mark.parametrize("statistic", [Exceeds(1), Mean(), Regret(2)], ids=str)
def test_parities_of_many_columns_are_brute_force(d: int, statistic: Statistic) -> None:
    """13 columns need more than one block of the transform."""
    rng = np.random.default_rng(d)
    columns: dict[str, Domain] = {f"b{j}": Integers(0, 1) for j in range(d)}
    x, y, who = rng.integers(0, 2, (60, d)), rng.integers(0, 2, 60), rng.integers(0, 9, 60)
    data = UserData.from_arrays(x, y, who, features=columns)
    profile = Parities(columns).profile(data, statistic)
    masks = (x << np.arange(d)).sum(axis=1)
    wrong = (np.bitwise_count(masks[:, None] & np.arange(1 << d)) % 2) != y[:, None]
    expected = np.zeros(1 << d, dtype=np.int64)
    for u in np.unique(who):
        mistakes = wrong[who == u].sum(axis=0)
        m, least = int((who == u).sum()), int(mistakes.min())
        values = np.array([statistic.value(e, least, m) for e in range(m + 1)])
        expected += values[mistakes]
    assert profile.steps[0].scores.tolist() == expected.tolist()


def test_a_finite_class_of_many_rules_is_brute_force() -> None:
    """More rules than one strip, more users than one thread."""
    rng = np.random.default_rng(1)
    table = rng.integers(0, 2, (5000, 12))
    x, y, who = rng.integers(0, 12, 900), rng.integers(0, 2, 900), rng.integers(0, 150, 900)
    data = UserData.from_arrays(x[:, None], y, who, features={"x": Integers(0, 11)})
    expected = np.zeros(5000, dtype=np.int64)
    for u in np.unique(who):
        mistakes = (table[:, x[who == u]] != y[who == u]).sum(axis=1)
        expected += 840 * np.minimum(mistakes - mistakes.min(), 2) // 2
    assert FiniteClass(table).profile(data, Regret(2)).steps[0].scores.tolist() == expected.tolist()


def test_undeclared_yes_no_columns_are_read_as_0_and_1() -> None:
    data = UserData.from_users([[(0, True, 1), (1, False, 0)]], features=["a", "b"])
    for concept in (Parities(), Parities(["a", "b"])):
        assert concept.bind(data)[0] == Parities({"a": Integers(0, 1), "b": Integers(0, 1)})
    declared = UserData.from_users([[(0, "yes", 1)]], features={"a": Integers(0, 1), "b": YES_NO})
    assert Parities(["b"]).bind(declared)[0] == Parities({"b": YES_NO})


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Parities(BITS).decode(0), "1 never"),
        (Parities(BITS).decode(2, "ill"), "ill when b1 = yes"),
        (Parities(BITS).decode(5, "ill"), "ill when an odd number of b0 = 1, b2 = 1"),
        (FiniteClass([[0, 1, 1, 0, 0, 0, 0]], DAYS["x"], feature="day").decode(0), "1 when day in {1, 2}"),
        (
            FiniteClass([[1] * 11 + [0]], Integers(0, 11)).decode(0),
            "1 when x in {0, 1, 2, 3, 4, 5, 6, 7, … (11 values)}",
        ),
        (FiniteClass([[0, 0, 1, 0, 0, 1]], PLANE).decode(0), "1 when (a, c) in {(2, u), (3, v)}"),
        (FiniteClass([[1, 0]], YES_NO, names=["healthy"]).decode(0, "late"), "late when healthy"),
        (FiniteClass([[1, 1]], YES_NO, names=["healthy"]).decode(0, "late"), "late always"),
    ],
    ids=str,
)
def test_rules_print_in_the_units_of_the_domain(rule: Any, words: str) -> None:
    assert str(rule) == words


def test_equal_tables_are_equal_classes_and_cannot_be_changed() -> None:
    one, other = FiniteClass(RANDOM, DAYS["x"]), FiniteClass(RANDOM.tolist(), DAYS["x"])
    assert one == other
    assert hash(one) == hash(other)
    assert one != FiniteClass(1 - RANDOM, DAYS["x"])
    with pytest.raises(ValueError, match="read-only"):
        one.rules[0, 0] = 1
