"""Runners of the sections of ``vc1_trees.json`` about explicit classes and the node of a part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpac.data import UserData
from privpac.errors import NotVC1Error
from privpac.rules.enumerated import littlestone_dimension, threshold_dimension, vc_dimension
from privpac.rules.hierarchies import VC1Tree, part_node

__all__ = ["RUNNERS"]


def run_classes(case: dict[str, Any]) -> None:
    rows = case["rows"]
    assert vc_dimension(rows) == case["vc"]
    assert littlestone_dimension(rows) == case["littlestone"]
    assert threshold_dimension(rows) == case["threshold_dimension"]
    if case["vc"] > 1:
        with pytest.raises(NotVC1Error) as caught:
            VC1Tree.from_matrix(rows)
        assert caught.value.points is not None
        assert caught.value.rows is not None
        assert sorted(
            (rows[r][caught.value.points[0]], rows[r][caught.value.points[1]]) for r in caught.value.rows
        ) == [
            (0, 0),
            (0, 1),
            (1, 0),
            (1, 1),
        ]
    if "tree" not in case:
        return
    tree, expected = VC1Tree.from_matrix(rows, root="center"), case["tree"]
    assert tree.root_row == case["f_index"]
    for name, found in (
        ("parent", tree.parent),
        ("depth", tree.depths),
        ("node_of", tree.node_of),
        ("f", tree.f),
        ("is_concept", tree.is_concept),
    ):
        assert found.tolist() == expected[name]
    assert tree.height == expected["height"]
    assert [VC1Tree.from_matrix(rows, root=i).height for i in range(len(case["height_by_f"]))] == case["height_by_f"]


def run_part_node(case: dict[str, Any]) -> None:
    tree = VC1Tree.from_matrix(case["rows"], root=case["f_index"])
    records = [(x, y) for x, y in case["records"]]
    users = UserData.from_users([records, []])
    for mode in ("closure", "exact", "erm"):
        assert part_node(tree, records, mode) == case[mode]
        found = tree.part_nodes(users, mode)
        assert found.nodes() == [case[mode], 0]
        assert np.asarray(found.depths).tolist() == [tree.depth(case[mode]), 0]


RUNNERS = {"classes": run_classes, "part_node": run_part_node}
