"""The tree of an explicit class: the builder against the order by containment, the test of VC dimension 1, the choice
of the root."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Integers
from privpac.errors import NotVC1Error, ParameterError
from privpac.rules.hierarchies import ExplicitTree, VC1Tree

sys.path.insert(0, str(Path(__file__).parent))

from vc1_classes import literal_tree, random_class, shattered


@pytest.mark.parametrize("seed", range(10))
def test_builder_equals_the_order_by_containment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        rows = random_class(rng)
        distinct = [list(row) for row in dict.fromkeys(map(tuple, rows))]
        for root in range(len(distinct)):
            tree = VC1Tree.from_matrix(rows, root=root)
            node_of, parent, depth = literal_tree(distinct, distinct[root])
            assert (tree.node_of.tolist(), tree.parent.tolist(), tree.depths.tolist()) == (node_of, parent, depth)
            assert [tree.labels(v).tolist() for v in tree.row_node.tolist()] == distinct
            assert tree.is_concept.tolist() == [v in {0, *tree.row_node.tolist()} for v in range(len(parent))]


def test_ancestors_and_common_ancestors_are_those_of_the_parents() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        tree = VC1Tree.from_matrix(random_class(rng, nodes=12))
        paths = []
        for v in range(len(tree.parent)):
            path = [v]
            while path[-1]:
                path.append(int(tree.parent[path[-1]]))
            paths.append(path[::-1])
        for v, path in enumerate(paths):
            assert [tree.ancestor(v, z) for z in range(len(path))] == path
            for a, other in enumerate(paths):
                assert tree.is_ancestor(a, v) == (a in path)
                assert tree.lowest_common(a, v) == [u for u, w in zip(path, other) if u == w][-1]
        widths = [tree.level_width(z) for z in range(tree.height + 1)]
        assert widths == [tree.depths.tolist().count(z) for z in range(tree.height + 1)]
        for z, width in enumerate(widths):
            if width == 1:
                assert tree.depth(tree.only_node(z)) == z
            else:
                with pytest.raises(ParameterError):
                    tree.only_node(z)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1, max_size=7)
    )
)
def test_rejects_exactly_the_classes_that_shatter_two_points_with_a_witness(rows: list[list[int]]) -> None:
    for root in ("center", "end", "auto"):
        if not shattered(rows):
            VC1Tree.from_matrix(rows, root=root)  # type: ignore[arg-type]
            continue
        with pytest.raises(NotVC1Error) as caught:
            VC1Tree.from_matrix(rows, root=root)  # type: ignore[arg-type]
        points, four = caught.value.points, caught.value.rows
        assert points is not None
        assert four is not None
        assert [[rows[r][x] for x in points] for r in four] == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_center_has_the_least_eccentricity_and_end_an_end_of_the_class() -> None:
    rng = np.random.default_rng(11)
    for _ in range(150):
        rows = random_class(rng)
        distinct = np.array(list(dict.fromkeys(map(tuple, rows))))
        classes = {min(tuple(c), tuple(1 - c)) for c in distinct.T if 0 < c.sum() < len(c)}
        split = np.array(sorted(classes)).reshape(len(classes), len(distinct)).T
        away = (split[:, None, :] != split[None, :, :]).sum(axis=2)
        furthest = away.max(axis=1)
        center, end, auto = (VC1Tree.from_matrix(rows, root=root) for root in ("center", "end", "auto"))  # type: ignore[arg-type]
        assert center.root_row == int(np.argmin(furthest))
        assert furthest[end.root_row] == furthest.max()
        chain = furthest.max() == len(classes)
        assert auto.root_row == (end if chain else center).root_row
        assert not chain or all(auto.level_width(z) == 1 for z in range(auto.height + 1))


def test_height_is_the_threshold_dimension_relative_to_the_root() -> None:
    rows = [[int(x <= t) for x in range(1, 8)] for t in range(8)]
    heights = [VC1Tree.from_matrix(rows, root=i).height for i in range(8)]
    assert heights == [7, 6, 5, 4, 4, 5, 6, 7]
    assert VC1Tree.from_matrix(rows, root="auto").height == 7


def test_one_concept_is_a_tree_of_height_zero() -> None:
    tree = VC1Tree.from_matrix([[0, 1, 1], [0, 1, 1]])
    assert (tree.height, tree.root_row, tree.closed, tree.level_width(0), tree.only_node(0)) == (0, 0, True, 1, 0)
    assert tree.labels(0).tolist() == [0, 1, 1]


def test_complementary_points_are_one_node() -> None:
    # Distinct columns of C, equal columns of C_f: a builder that merged before XOR with f would place neither.
    tree = VC1Tree.from_matrix([[0, 1, 0], [1, 0, 0], [1, 0, 1]], root=0)
    assert tree.node_of.tolist() == [1, 1, 2]
    assert tree.parent.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "bad",
    [[], [[]], [0, 1], [[0, 2]], [[0.5, 1]], [["a", "b"]], [[float("nan"), 1]], [[-1, 0]], None, np.zeros((2, 2, 2))],
    ids=["none", "empty", "flat", "two", "half", "text", "nan", "negative", "null", "cube"],
)
def test_anything_but_a_table_of_0_and_1_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        VC1Tree.from_matrix(bad)


def test_root_and_domain_are_checked() -> None:
    for root in ("middle", -1, 2):
        with pytest.raises(ParameterError):
            VC1Tree.from_matrix([[0, 1], [1, 1]], root=root)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        VC1Tree.from_matrix([[0, 1], [1, 1]], root=1.5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        VC1Tree.from_matrix([[0, 1], [1, 1]], domain=Integers(0, 2))
    with pytest.raises(TypeError):
        VC1Tree.from_matrix([[0, 1], [1, 1]], domain=3)  # type: ignore[arg-type]


def test_rule_of_a_node_is_the_labelling_flipped_on_its_path() -> None:
    rows = [list(row) for row in product((0, 1), repeat=3) if sum(row) <= 1]
    tree = VC1Tree.from_matrix(rows, root=0, domain=Categories(["red", "green", "blue"]), feature="colour")
    green = tree.node("green")
    assert str(tree.rule(green, label="late")) == "late when colour in {green}"
    assert tree.rule(green).predict({"colour": ["blue", "green"]}).tolist() == [0, 1]
    assert str(tree.rule(0)) == "1 never"
    assert tree.node("black") is None


def test_a_stored_tree_is_the_same_tree() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        tree = VC1Tree.from_matrix(random_class(rng))
        again = VC1Tree.from_dict(tree.to_dict())
        assert isinstance(again, ExplicitTree)
        assert again.to_dict() == tree.to_dict()
        assert again.depths.tolist() == tree.depths.tolist()
    damaged = tree.to_dict() | {"parent": [0, 2, 1], "node_of": [0] * len(tree.f), "row_node": [0]}
    for values in (damaged, tree.to_dict() | {"f": [7] * len(tree.f)}, {"kind": "shrub"}):
        with pytest.raises(ParameterError):
            VC1Tree.from_dict(values)
