"""The nodes of a tree as a class of rules: numbers in preorder, and profiles equal to brute force over all nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Domain, Floats, Integers, Texts, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.rules import (
    AddressTree,
    BranchThresholds,
    PathTree,
    Points,
    PrefixTree,
    StarTree,
    Taxonomy,
    Thresholds,
    TreeNodes,
    VC1Tree,
)
from privpac.rules.hierarchies import glue, graft
from privpac.rules.profile import Exceeds, Mean, Regret, Statistic

FAMILY = {"b": "a", "c": "a", "d": "c", "e": "c", "f": "e"}
NETS = ["0.0.0.0/1", "128.0.0.0/1", "192.0.0.0/2", "224.0.0.0/3", "32.0.0.0/3", "0.0.0.0/0", "64.0.0.0/2", "no network"]
LINES = {"line": Categories(["u", "v"]), "build": Integers(1, 4)}
ONE: dict[str, Domain] = {"x": Texts()}

TREES: dict[str, tuple[VC1Tree, list[Any], dict[str, Domain]]] = {
    "path": (PathTree(5), [1, 2, 3, 4, 5], {"x": Integers(1, 5)}),
    "path from above": (PathTree(Integers(1, 5), direction="above"), [1, 2, 3, 4, 5], {"x": Integers(1, 5)}),
    "star": (StarTree(Categories(list("abcd"))), list("abcd"), {"x": Categories(list("abcd"))}),
    "branches": (
        BranchThresholds(LINES["build"], LINES["line"], features=("line", "build")),
        [(b, p) for b in "uv" for p in range(1, 5)],
        LINES,
    ),
    "taxonomy": (Taxonomy(FAMILY), list("abcdef"), ONE),
    "capped taxonomy": (Taxonomy({**FAMILY, "q": None, "r": "q"}, max_depth=2), list("abcdefqr"), ONE),
    "networks": (AddressTree(4, 3), NETS, ONE),
    "glued": (glue(PathTree(3), Taxonomy(FAMILY)), ["1", "2", "3", *"abcdef"], ONE),
    "grafted": (graft(Taxonomy(FAMILY), "c", PathTree(3)), ["1", "2", "3", *"abcdef"], ONE),
    "table": (
        VC1Tree.from_matrix([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]], root=0),
        [0, 1, 2],
        {"x": Integers(0, 2)},
    ),
}
STATISTICS: list[Statistic] = [
    Mean(840),
    Mean(5),
    Regret(2, 840),
    Regret({0: 1, 3: 2}, levels=7),
    Exceeds(0),
    Exceeds(1),
]


@pytest.mark.parametrize("name", TREES)
def test_numbers_are_a_preorder(name: str) -> None:
    tree = TREES[name][0]
    assert tree.n_nodes is not None
    nodes = [tree.numbered(i) for i in range(tree.n_nodes)]
    assert nodes[0] == tree.root
    assert len(set(nodes)) == tree.n_nodes
    assert [tree.number(v) for v in nodes] == list(range(tree.n_nodes))
    for i, v in enumerate(nodes):
        for j, w in enumerate(nodes):
            assert tree.is_ancestor(v, w) == (i <= j < i + tree.below(v))


def test_numbers_of_large_trees() -> None:
    tree = AddressTree(4)
    for shown in ("0.0.0.0/0", "128.0.0.0/1", "255.255.255.255/32", "203.0.113.64/26"):
        assert tree.describe(tree.numbered(tree.number(tree.node(shown)))) == shown  # type: ignore[arg-type]
    assert tree.n_nodes == 2**33 - 1
    assert tree.number(tree.node("255.255.255.255")) == tree.n_nodes - 1  # type: ignore[arg-type]
    assert PathTree(Floats()).n_nodes == 2**64 + 1
    assert PrefixTree(8).n_nodes is None
    assert StarTree().n_nodes is None


def _mistakes(tree: VC1Tree, users: list[list[tuple[Any, ...]]]) -> Callable[[int, int], int]:
    assert tree.n_nodes is not None
    said: list[list[int]] = []
    for i in range(tree.n_nodes):
        v, row = tree.numbered(i), []
        for user in users:
            wrong = 0
            for *x, y in user:
                point = x[0] if len(x) == 1 else tuple(x)
                node = tree.node(point)
                says = (
                    0 if node is None else tree.base_label(point) ^ int(node != tree.root and tree.is_ancestor(node, v))
                )
                wrong += says != y
            row.append(wrong)
        said.append(row)
    return lambda i, user: said[i][user]


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=40, deadline=None)
@given(drawn=st.data())
def test_profiles_equal_brute_force(name: str, drawn: st.DataObject) -> None:
    tree, points, columns = TREES[name]
    record = st.tuples(st.sampled_from(points), st.integers(0, 1))
    shape = st.lists(st.lists(record, max_size=7), max_size=5)
    users = [[(*(x if isinstance(x, tuple) else (x,)), y) for x, y in user] for user in drawn.draw(shape)]
    data = UserData.from_users(users, features=columns)
    nodes, wrong = TreeNodes(tree), _mistakes(tree, users)
    statistic = drawn.draw(st.sampled_from(STATISTICS))
    found = nodes.profile(data, statistic)
    for i in range(nodes.size):
        total = 0
        for user, held in enumerate(users):
            least = min(wrong(j, user) for j in range(nodes.size))
            total += statistic.value(wrong(i, user), least, len(held))
        assert found.score(i) == total
    halves = [UserData.from_users(part, features=columns) for part in (users[::2], users[1::2])]
    merged = nodes.profile(halves[0], statistic) + nodes.profile(halves[1], statistic)
    assert merged.blocks() == found.blocks()


def test_a_path_of_all_floats_scores_like_thresholds() -> None:
    rng = np.random.default_rng(5)
    users = [[(float(x), int(rng.integers(2))) for x in rng.normal(size=6)] for _ in range(30)]
    data = UserData.from_users(users, features={"x": Floats()})
    for direction in ("below", "above"):
        path, cuts = TreeNodes(PathTree(Floats(), direction=direction)), Thresholds(direction=direction)
        mine = path.profile(data, Regret(2)).blocks()
        theirs = cuts.profile(data, Regret(2)).blocks()
        if direction == "above":  # node v says 1 on the v highest values: cut N - v
            theirs = [(2**64 - last, 2**64 - first, score) for first, last, score in reversed(theirs)]
        assert mine == theirs


def test_a_star_scores_like_points_and_the_zero_rule() -> None:
    domain = Integers(0, 40)
    rng = np.random.default_rng(6)
    users = [[(int(x), int(rng.integers(2))) for x in rng.integers(0, 41, size=5)] for _ in range(30)]
    data = UserData.from_users(users, features={"x": domain})
    star, points = TreeNodes(StarTree(domain)).profile(data, Mean()), Points(zero=True).profile(data, Mean())
    assert sorted(star.score(i) for i in range(42)) == sorted(points.score(i) for i in range(42))


def test_open_and_oversized_trees_are_refused() -> None:
    with pytest.raises(ParameterError, match="open"):
        TreeNodes(PrefixTree(8))
    with pytest.raises(TooLargeError, match="TreeLearner"):
        TreeNodes(AddressTree(6))
    with pytest.raises(TypeError):
        TreeNodes("path:/")  # type: ignore[arg-type]
