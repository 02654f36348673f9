"""Dimensions of explicit classes: against their definitions, closed forms, and limits that enclose the truth."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.errors import DimensionLimit, ParameterError, TooLargeError
from privpac.rules.enumerated import littlestone_dimension, threshold_dimension, vc_dimension
from privpac.rules.hierarchies import VC1Tree

Matrix = list[list[int]]


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    """Classes with repeated rows, repeated, complementary and constant columns."""
    points = draw(st.integers(1, 5))
    return draw(st.lists(st.lists(st.integers(0, 1), min_size=points, max_size=points), min_size=1, max_size=7))


def literal_vc(rows: Matrix) -> int:
    points = range(len(rows[0]))
    return max(
        k
        for k in range(len(points) + 1)
        if any(len({tuple(r[x] for x in s) for r in rows}) == 2**k for s in combinations(points, k))
    )


def literal_littlestone(rows: Matrix) -> int:
    @cache
    def depth(held: frozenset[tuple[int, ...]]) -> int:
        best = 0 if held else -1
        for x in range(len(rows[0])):
            zero = frozenset(r for r in held if r[x] == 0)
            if zero and zero != held:
                best = max(best, 1 + min(depth(zero), depth(held - zero)))
        return best

    return depth(frozenset(map(tuple, rows)))


def literal_threshold(rows: Matrix) -> int:
    def found(k: int) -> bool:
        return any(
            all(c[x] == (j >= i) for i, c in enumerate(concepts) for j, x in enumerate(points))
            for concepts in permutations(rows, k)
            for points in permutations(range(len(rows[0])), k)
        )

    k = 0
    while k < min(len(rows), len(rows[0])) and found(k + 1):
        k += 1
    return k


@settings(max_examples=150, deadline=None)
@given(matrices())
def test_all_three_follow_their_definitions(rows: Matrix) -> None:
    assert vc_dimension(rows) == literal_vc(rows)
    assert littlestone_dimension(rows) == literal_littlestone(rows)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=1, max_size=5))
def test_threshold_dimension_follows_its_definition(rows: Matrix) -> None:
    assert threshold_dimension(rows) == literal_threshold(rows)


@settings(max_examples=100, deadline=None)
@given(matrices())
def test_inequalities_between_the_dimensions(rows: Matrix) -> None:
    concepts = len({tuple(row) for row in rows})
    littlestone = littlestone_dimension(rows)
    assert vc_dimension(rows) <= littlestone <= concepts.bit_length() - 1
    assert max(1, threshold_dimension(rows)).bit_length() - 1 <= littlestone


@settings(max_examples=60, deadline=None)
@given(matrices(), st.integers(0, 31))
def test_relabelling_points_keeps_vc_and_littlestone(rows: Matrix, flips: int) -> None:
    moved = [[bit ^ (flips >> x & 1) for x, bit in enumerate(row)] for row in rows]
    assert (vc_dimension(moved), littlestone_dimension(moved)) == (vc_dimension(rows), littlestone_dimension(rows))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=7), st.integers(0, 127), st.integers(1, 255))
def test_a_class_with_a_tree_has_the_thresholds_of_its_height(parents: list[int], flips: int, kept: int) -> None:
    """Rows: base labels flipped on one root path, for some nodes of a random tree; the base labels are row 0."""
    paths = [0]
    for i, parent in enumerate(parents):
        paths.append(paths[parent % len(paths)] | 1 << i)
    chosen = [path for i, path in enumerate(paths) if i == 0 or kept >> i & 1]
    rows = [[(path ^ flips) >> x & 1 for x in range(len(parents))] for path in chosen]
    assert vc_dimension(rows) <= 1
    littlestone = littlestone_dimension(rows)
    for f in range(len(rows)):
        height = VC1Tree.from_matrix(rows, root=f).height
        relative = [[a ^ b for a, b in zip(row, rows[f])] for row in rows]
        assert threshold_dimension(relative) == height
        assert (height + 1).bit_length() - 1 <= littlestone
    center = VC1Tree.from_matrix(rows, root="center").height
    assert littlestone <= min(center, len(rows).bit_length() - 1)


@pytest.mark.parametrize("points", [1, 2, 6, 7, 31, 100])
def test_a_path_has_littlestone_log2_and_its_own_length_of_thresholds(points: int) -> None:
    path = np.tri(points + 1, points, -1, dtype=int)
    assert (vc_dimension(path), threshold_dimension(path)) == (1, points)
    assert littlestone_dimension(path) == (points + 1).bit_length() - 1


def test_a_star_is_one_in_every_dimension() -> None:
    star = np.vstack([np.zeros(50, dtype=int), np.eye(50, dtype=int)])
    assert (vc_dimension(star), littlestone_dimension(star), threshold_dimension(star)) == (1, 1, 1)


def test_a_cube_is_shattered() -> None:
    cube = [[row >> x & 1 for x in range(5)] for row in range(32)]
    assert (vc_dimension(cube), littlestone_dimension(cube)) == (5, 5)


@pytest.mark.parametrize("dimension", [vc_dimension, littlestone_dimension, threshold_dimension])
def test_one_concept_has_dimension_zero_unless_it_is_a_threshold(dimension: Any) -> None:
    assert dimension([[0, 0]]) == 0
    assert dimension(np.zeros((1, 0))) == 0
    assert dimension([[1, 0]]) == (1 if dimension is threshold_dimension else 0)


@settings(max_examples=80, deadline=None)
@given(matrices(), st.integers(1, 12))
def test_limits_enclose_the_truth(rows: Matrix, states: int) -> None:
    def bounds(dimension: Any) -> tuple[int, int | None]:
        try:
            found: int = dimension(rows, max_states=states)
        except DimensionLimit as limit:
            return limit.lower, limit.upper
        return found, found

    for dimension in (vc_dimension, littlestone_dimension, threshold_dimension):
        lower, upper = bounds(dimension)
        assert upper is not None
        assert lower <= dimension(rows) <= upper


def test_a_limit_is_reached_and_says_what_is_known() -> None:
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 2, (200, 40))
    for dimension in (vc_dimension, littlestone_dimension, threshold_dimension):
        with pytest.raises(DimensionLimit, match="raise the work limit") as caught:
            dimension(rows, max_states=5)
        assert 1 <= caught.value.lower < (caught.value.upper or 0)
        assert isinstance(caught.value, TooLargeError)


@pytest.mark.parametrize(
    "bad", [[], [[]] * 0, [1, 0], [[2]], [[0.5]], [["a"]], [[float("nan")]], [[None]], np.zeros((0, 3))], ids=str
)
@pytest.mark.parametrize("dimension", [vc_dimension, littlestone_dimension, threshold_dimension])
def test_what_is_not_a_class_is_refused(dimension: Any, bad: Any) -> None:
    with pytest.raises(ParameterError, match="a class is a matrix"):
        dimension(bad)


@pytest.mark.parametrize("states", [0, -1, 1.5, "9"])
def test_the_limit_must_be_a_positive_integer(states: Any) -> None:
    with pytest.raises((ParameterError, TypeError), match="max_states"):
        vc_dimension([[0], [1]], max_states=states)
