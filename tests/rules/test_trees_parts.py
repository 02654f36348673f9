"""The node of a part: the kernels against the definition, on clean, noisy, contradictory and empty parts of every kind
of tree."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privpac.data import Categories, Integers, Texts, UserData
from privpac.errors import ParameterError
from privpac.rules.hierarchies import (
    AddressTree,
    BranchThresholds,
    PathTree,
    PrefixTree,
    StarTree,
    Taxonomy,
    VC1Tree,
    glue,
    graft,
    part_node,
)
from privpac.rules.hierarchies.base import MODES, Mode

sys.path.insert(0, str(Path(__file__).parent))

from vc1_classes import random_class

Rng = np.random.Generator
Draw = Callable[[Rng], Any]


def word(rng: Rng, letters: str = "ab", longest: int = 3) -> str:
    return "".join(rng.choice(list(letters), size=int(rng.integers(1, longest + 1))))


def path(rng: Rng) -> str:
    return (
        str(rng.choice(["/", ""]))
        + "/".join(word(rng, longest=2) for _ in range(int(rng.integers(0, 6))))
        + str(rng.choice(["/", "", "//"]))
    )


def address(rng: Rng) -> str:
    number = ".".join(str(n) for n in rng.choice([0, 1, 128, 255], size=4))
    return number + str(rng.choice(["", "/0", "/1", "/7", "/8", "/9", "/24", "/31", "/40", "/x"]))


def address6(rng: Rng) -> str:
    number = "::".join(f"{int(n):x}" for n in rng.choice([0, 1, 0x8000, 0xFFFF], size=2))
    return number + str(rng.choice(["", "/0", "/1", "/15", "/16", "/63", "/64", "/65", "/127"]))


NAMES = {"cat": "mammal", "dog": "mammal", "mammal": "animal", "bird": "animal", "owl": "bird", "eagle owl": "owl"}
TOPS = {"a1": "a", "a2": "a", "b1": "b", "a11": "a1", "c": None}
PATHS = PrefixTree(4)
TREES: dict[str, tuple[VC1Tree, Draw]] = {
    "path": (PathTree(9), lambda rng: int(rng.integers(1, 10))),
    "path above": (PathTree(Integers(-3, 5), direction="above"), lambda rng: int(rng.integers(-3, 6))),
    "path of 2^64 values": (PathTree(Integers(0, 2**64 - 1)), lambda rng: (1 << 64) - int(rng.integers(1, 9))),
    "path of 2^1000 values": (PathTree(2**1000), lambda rng: str(2**1000 + 2 - int(rng.integers(0, 9)))),
    "path above of 2^70 values": (
        PathTree(2**70, direction="above"),
        lambda rng: str(2**70 + 2 - int(rng.integers(0, 9))),
    ),
    "star": (StarTree(), lambda rng: word(rng)),
    "star of categories": (StarTree(Categories(["x", "y", "z"])), lambda rng: str(rng.choice(["x", "y", "z"]))),
    "prefix": (PATHS, path),
    "prefix, capped": (PrefixTree(2, "::"), lambda rng: path(rng).replace("/", "::")),
    "cuts": (PrefixTree(cuts=(1, 3, 4), ignore="."), lambda rng: word(rng, "aβ.", 6)),
    "characters": (PrefixTree(cuts=(1, 2, 3)), lambda rng: word(rng, "a€𝄞", 4)),
    "addresses": (AddressTree(4), address),
    "addresses, capped": (AddressTree(4, 9), address),
    "addresses of version 6": (AddressTree(6), address6),
    "taxonomy": (Taxonomy(NAMES), lambda rng: str(rng.choice([*NAMES, "animal", "stone"]))),
    "taxonomy, capped": (Taxonomy(NAMES, 2), lambda rng: str(rng.choice([*NAMES, "animal", "stone"]))),
    "taxonomy of several tops": (Taxonomy(TOPS), lambda rng: str(rng.choice([*TOPS, "b", ""]))),
    "branches": (BranchThresholds(Integers(0, 5)), lambda rng: (word(rng, longest=1), int(rng.integers(0, 6)))),
    "branches above": (
        BranchThresholds(Integers(0, 2**64 - 1), Categories(["a", "b"]), direction="above"),
        lambda rng: (word(rng, longest=1), int(rng.integers(0, 4))),
    ),
    "glued": (
        glue(PathTree(5), StarTree(Categories(["x", "y"])), PATHS),
        lambda rng: str(rng.integers(0, 8)) if rng.random() < 0.5 else str(rng.choice(["x", "y", "a/b", "a/c"])),
    ),
    "grafted": (
        graft(Taxonomy(NAMES), "bird", PathTree(4)),
        lambda rng: str(rng.integers(0, 6)) if rng.random() < 0.5 else str(rng.choice([*NAMES, "animal"])),
    ),
}


def clean_part(rng: Rng, tree: VC1Tree, draw: Draw, size: int, noise: float) -> list[tuple[Any, int]]:
    """Records labelled by one concept, a few labels flipped."""
    target = next((v for _ in range(5) if (v := tree.node(draw(rng))) is not None), tree.root)
    out = []
    for _ in range(size):
        x = draw(rng)
        v = tree.node(x)
        y = tree.base_label(x) ^ int(v is not None and v != tree.root and tree.is_ancestor(v, target))
        out.append((x, y ^ int(rng.random() < noise)))
    return out


def random_parts(rng: Rng, tree: VC1Tree, draw: Draw, count: int) -> list[list[tuple[Any, int]]]:
    sizes = rng.integers(0, 7, size=count)
    return [
        clean_part(rng, tree, draw, int(size), noise)
        for size, noise in zip(sizes, rng.choice([0.0, 0.0, 0.1, 0.5], size=count))
    ]


def as_users(parts: list[list[tuple[Any, int]]]) -> UserData:
    pairs = any(isinstance(x, tuple) for part in parts for x, _ in part)
    records: list[list[tuple[Any, ...]]] = [
        [(*x, y) if isinstance(x, tuple) else (x, y) for x, y in part] for part in parts
    ]
    return UserData.from_users(records, features=["b", "p"] if pairs else ["x"])


def check(tree: VC1Tree, parts: list[list[tuple[Any, int]]], mode: Mode) -> int:
    """The kernel, its depths and its votes against the definition; how many parts have a node other than the root."""
    found = tree.part_nodes(as_users(parts), mode)
    expected = [part_node(tree, part, mode) for part in parts]
    assert found.nodes() == expected
    depths = [tree.depth(v) for v in expected]
    assert list(found.depths) == depths
    assert isinstance(found.depths, list) == (tree.height >= 1 << 63)
    for z in sorted({0, 1, *depths}):
        votes: Counter[Any] = Counter(tree.ancestor(v, z) for v in expected if tree.depth(v) >= z)
        if z <= tree.height:
            assert found.votes(z) == votes
    return sum(depth > 0 for depth in depths)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", TREES)
def test_kernel_is_the_definition_on_every_kind_of_tree(kind: str, mode: Mode) -> None:
    tree, draw = TREES[kind]
    rng = np.random.default_rng([*kind.encode(), *mode.encode()])
    assert check(tree, random_parts(rng, tree, draw, 100), mode) > 10


@pytest.mark.parametrize("mode", MODES)
def test_kernel_is_the_definition_on_random_classes(mode: Mode) -> None:
    rng = np.random.default_rng(len(mode))
    open_ones = 0
    for _ in range(60):
        tree = VC1Tree.from_matrix(random_class(rng, nodes=16, density=0.35), root="auto")
        points = len(tree.f)
        check(tree, random_parts(rng, tree, lambda r: int(r.integers(0, points)), 50), mode)  # noqa: B023
        open_ones += not tree.closed
    assert open_ones > 10


def test_exact_is_never_shallower_than_closure_on_clean_parts_and_equal_on_closed_classes() -> None:
    rng = np.random.default_rng(0)
    deeper = 0
    for _ in range(60):
        tree = VC1Tree.from_matrix(random_class(rng, nodes=16, density=float(rng.choice([0.35, 1.0]))))
        concepts = tree.row_node.tolist()
        for _ in range(30):
            labels = tree.labels(concepts[int(rng.integers(0, len(concepts)))])
            points = rng.integers(0, len(labels), size=int(rng.integers(0, 6))).tolist()
            records = [(x, int(labels[x])) for x in points]
            near, far, least = (part_node(tree, records, mode) for mode in ("closure", "exact", "erm"))
            assert near == least
            assert tree.is_ancestor(near, far)
            assert near == far or not tree.closed
            deeper += near != far
    assert deeper > 0


@pytest.mark.parametrize("mode", MODES)
def test_a_contradictory_part_has_one_node_and_one_vote(mode: Mode) -> None:
    part = [("a/b", 1), ("a/b", 0), ("c", 1), ("c/d", 1), ("e", 0)]
    found = PATHS.part_nodes(UserData.from_users([part]), mode)
    assert len(found.nodes()) == 1
    for z in range(PATHS.height + 1):
        assert sum(found.votes(z).values()) <= 1
    if mode != "erm":
        assert found.nodes() == [()]
        assert found.votes(1) == {}


def test_changing_one_part_moves_one_depth_and_at_most_one_vote_at_each_level() -> None:
    rng = np.random.default_rng(8)
    for _ in range(25):
        parts = random_parts(rng, PATHS, path, 5)
        other = [*parts[:-1], *random_parts(rng, PATHS, path, 1)]
        for mode in MODES:
            one, two = (PATHS.part_nodes(as_users(p), mode) for p in (parts, other))
            assert list(one.depths)[:-1] == list(two.depths)[:-1]
            for z in range(PATHS.height + 1):
                a, b = Counter(one.votes(z)), Counter(two.votes(z))
                assert sum((a - b).values()) <= 1
                assert sum((b - a).values()) <= 1


def test_parts_join_whole_users_and_may_be_empty() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        users = random_parts(rng, PATHS, path, 12)
        parts = rng.integers(0, 5, size=12)
        joined = [[record for user, p in zip(users, parts) if p == part for record in user] for part in range(6)]
        for mode in MODES:
            found = PATHS.part_nodes(as_users(users), mode, parts, 6)
            assert found.nodes() == [part_node(PATHS, records, mode) for records in joined]


def test_no_users_and_users_without_records() -> None:
    for tree, _ in TREES.values():
        width = len(tree.declared())
        names = ["b", "p"] if width == 2 else ["x"]
        for users in ([], [[], []]):
            found = tree.part_nodes(UserData.from_users(users, features=names), "erm")
            assert list(found.depths) == [0] * len(users)
            assert found.votes(0) == ({tree.root: 2} if users else {})


def test_parts_and_modes_are_checked() -> None:
    users = UserData.from_users([[("a", 1)], [("b", 0)]], features={"x": Texts()})
    bad: list[tuple[Any, Any]] = [
        ([0], 2),
        ([0, 2], 2),
        ([-1, 0], 2),
        ([0.5, 0], 2),
        ([0, 1], None),
        (None, 3),
        ([0, 1], 0),
    ]
    for parts, n_parts in bad:
        with pytest.raises(ParameterError):
            StarTree().part_nodes(users, "closure", parts, n_parts)
    with pytest.raises(ParameterError):
        StarTree().part_nodes(users, "best")  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        StarTree().part_nodes(users).votes(2)


def test_combined_trees_that_are_not_closed_have_no_exact_mode() -> None:
    gap = VC1Tree.from_matrix([[0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0]], root=0)
    assert not gap.closed
    both = glue(gap, StarTree(Categories(["p", "q"])))
    assert part_node(both, [("0", 1)], "closure") == (0, 1)
    for call in (
        lambda: part_node(both, [], "exact"),
        lambda: both.part_nodes(UserData.from_users([[("0", 1)]]), "exact"),
    ):
        with pytest.raises(ParameterError, match="closure"):
            call()


def test_a_column_with_a_domain_is_read_by_its_texts() -> None:
    users = [[("a/b", 1), ("a", 1)], [("c", 1)]]
    bound = UserData.from_users(users, features={"x": Categories(["c", "a", "a/b"])})
    for tree in (PATHS, StarTree(), Taxonomy({"a/b": "a", "c": "a"})):
        assert list(tree.part_nodes(bound).depths) == list(tree.part_nodes(as_users(users)).depths)


def test_nothing_private_is_shown() -> None:
    found = StarTree().part_nodes(UserData.from_users([[("secret", 1)]]))
    assert repr(found) == "<PartNodes>"
    assert "secret" not in repr(found.places)
