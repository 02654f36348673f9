"""Littlestone dimensions, reduction trees and tournaments against brute force on small classes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.device.littlestone import Reduction, Rows, Search, WorkExceeded, growth
from privpac.errors import ParameterError, TooLargeError
from privpac.papers.correlated_sampling import tournament_blocks, tournament_lists

sys.path.insert(0, str(Path(__file__).parent))
import plain

classes = st.integers(1, 5).flatmap(lambda N: st.sets(st.tuples(*[st.integers(0, 1)] * N), min_size=1, max_size=14))


def dimension(table: Rows, budget: int = 10**6) -> int:
    return Search(table, budget).dimension(table.everything)


def thresholds(N: int) -> Rows:
    return Rows([[int(x >= u) for x in range(N)] for u in range(N + 1)])


def singletons(N: int) -> Rows:
    return Rows([[int(x == v) for x in range(N)] for v in range(N)])


# Dimension and optimal prediction


@given(classes)
def test_dimension_and_prediction_equal_brute_force(rows: set[plain.Row]) -> None:
    table = Rows(rows)
    search = Search(table)
    assert search.dimension(table.everything) == plain.dimension(frozenset(rows))
    assert table.packed(search.soa(table.everything)) == plain.packed(plain.soa(frozenset(rows)))


@given(classes, st.data())
def test_restriction_equals_brute_force(rows: set[plain.Row], data: Any) -> None:
    table = Rows(rows)
    sample = data.draw(st.lists(st.tuples(st.integers(0, table.points - 1), st.integers(0, 1)), max_size=3))
    left = frozenset(row for row in rows if all(row[x] == y for x, y in sample))
    mask = table.restrict(table.everything, sample)
    assert {table.rows[i] for i in range(table.size) if mask >> i & 1} == left
    assert Search(table).dimension(mask) == plain.dimension(left)


@pytest.mark.parametrize("N", [1, 2, 3, 7, 8, 31, 100])
def test_closed_forms(N: int) -> None:
    assert dimension(thresholds(N)) == (N + 1).bit_length() - 1
    assert dimension(singletons(N)) == int(N > 1)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_parities_have_dimension_d(d: int) -> None:
    rows = [[(a & x).bit_count() & 1 for x in range(2**d)] for a in range(2**d)]
    assert dimension(Rows(rows)) == d


def test_search_beyond_its_budget_is_refused() -> None:
    table = np.random.default_rng(1).integers(0, 2, (200, 40)).tolist()
    with pytest.raises(TooLargeError, match="budget"):
        dimension(Rows(table), budget=3)


@pytest.mark.parametrize("rows", [[], [[]], ["01", "0"], ["02"], [[0, 2]], [["a"]], [None]])
def test_tables_that_are_not_tables_are_refused(rows: Any) -> None:
    with pytest.raises(ParameterError):
        Rows(rows)


def test_rows_are_sorted_and_distinct() -> None:
    assert Rows(["10", "01", "10"]).rows == ((0, 1), (1, 0))
    assert Rows([[0, 1]]) == Rows(["01"])
    assert "01" not in repr(Rows(["01"]))


# Reduction


@settings(max_examples=60)
@given(classes, st.integers(0, 4))
def test_reduction_value_equals_brute_force(rows: set[plain.Row], k: int) -> None:
    table = Rows(rows)
    search = Reduction(table)
    r = search.value(table.everything, k)
    assert r == plain.value(frozenset(rows), k)
    # Every r is decided, not only the least one.
    for other in range(-1, 4):
        assert search.reaches(table.everything, k, other) == (other >= r)


@settings(max_examples=60)
@given(classes, st.integers(0, 4))
def test_tree_is_a_tree_of_its_depth_with_few_heavy_leaves(rows: set[plain.Row], k: int) -> None:
    table = Rows(rows)
    search = Reduction(table)
    d, r = search.dimension(table.everything), search.value(table.everything, k)
    leaves = search.tree(table.everything, k, r)
    assert sum(leaf.mask for leaf in leaves) == table.everything
    for leaf in leaves:
        assert len(leaf.path) <= k
        assert leaf.mask == table.restrict(table.everything, leaf.path)
        assert leaf.dimension == search.dimension(leaf.mask) <= r
    for least in range(r + 1):
        assert sum(leaf.dimension >= least for leaf in leaves) <= growth(k, d - least)


@settings(max_examples=40)
@given(classes, st.integers(1, 3))
def test_irreducible_means_that_no_k_points_lower_the_dimension(rows: set[plain.Row], k: int) -> None:
    table = Rows(rows)
    search = Reduction(table)
    irreducible = search.value(table.everything, k) == search.dimension(table.everything)
    assert irreducible == plain.irreducible_by_sets(frozenset(rows), k)


@settings(max_examples=40)
@given(classes, st.data())
def test_reduction_value_grows_with_the_class_and_falls_with_depth(rows: set[plain.Row], data: Any) -> None:
    table = Rows(rows)
    search = Reduction(table)
    part = table.mask(data.draw(st.sets(st.integers(0, table.size - 1), min_size=1)))
    values = [search.value(table.everything, k) for k in range(5)]
    assert values == sorted(values, reverse=True)
    for k, value in enumerate(values):
        assert 0 <= search.value(part, k) <= value


def test_larger_classes_agree_with_brute_force() -> None:
    """Classes with columns that repeat and dimension 2 to 3, where hitting sets and packing decide."""
    random = np.random.default_rng(5)
    for _ in range(15):
        table = Rows(random.integers(0, 2, (24, 6)).tolist())
        search = Reduction(table)
        for k in range(4):
            assert search.value(table.everything, k) == plain.value(frozenset(table.rows), k)


def test_reduction_stops_at_its_budget() -> None:
    table = thresholds(60)
    with pytest.raises(WorkExceeded):
        Reduction(table, 20).value(table.everything, 4)


# Tournament


def test_tournament_list_contains_a_stable_hypothesis() -> None:
    """Dimension 1: the theorem promises a share of 2**-3; the samples are fixed by their seed, and the share seen is
    far above it."""
    rows, random, runs, counts = singletons(6), np.random.default_rng(3), 400, dict[bytes, int]()
    target = rows.rows[2]
    for _ in range(runs):
        draws = random.integers(0, 6, (tournament_blocks(1), 7)).tolist()
        lists = tournament_lists(rows, 1, [[(x, target[x]) for x in block] for block in draws])
        for item in set().union(*lists):
            counts[item] = counts.get(item, 0) + 1
    assert max(counts.values()) / runs >= 1 / 8
    assert all(len(items) <= 4 for items in lists)


def test_tournament_refuses_large_dimensions_and_missing_blocks() -> None:
    with pytest.raises(TooLargeError, match="ReductionList"):
        tournament_lists(thresholds(20), 4, [])
    with pytest.raises(ParameterError, match="blocks"):
        tournament_lists(singletons(3), 1, [[]])
