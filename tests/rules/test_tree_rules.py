"""Rules of trees, trees by name, and input that nobody should send."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Dates, Floats, Integers, Texts, UserData
from privpac.errors import ModelFileError, ParameterError, SchemaError
from privpac.result import Released, rule_from_dict, rule_to_dict
from privpac.rules.hierarchies import (
    AddressTree,
    BranchThresholds,
    PathTree,
    PrefixTree,
    StarTree,
    Taxonomy,
    TreeRule,
    VC1Tree,
    glue,
    graft,
    parse_tree,
    part_node,
)

PATHS = PrefixTree(5, feature="path")
ANIMALS = Taxonomy({"cat": "mammal", "dog": "mammal", "mammal": "animal", "bird": "animal"}, feature="kind")
BUILDS = BranchThresholds(Integers(1, 9), features=("line", "build"))

# Tree, a point whose node is learned, points, what the rule says on them, how it reads.
RULES: dict[str, tuple[VC1Tree, Any, list[Any], list[int], str]] = {
    "path": (PathTree(Integers(0, 9), "age"), 4, [0, 4, 5, 9], [1, 1, 0, 0], "1 when age <= 4"),
    "above": (PathTree(Integers(0, 9), "age", "above"), 4, [0, 3, 4, 9], [0, 0, 1, 1], "1 when age > 3"),
    "dates": (
        PathTree(Dates("2020-01-01", "2020-12-31"), "day"),
        "2020-02-01",
        ["2020-01-31", "2020-02-02"],
        [1, 0],
        "1 when day <= 2020-02-01",
    ),
    "floats": (PathTree(Floats(), "dose"), 0.5, [0.5, -3.0, 0.75], [1, 1, 0], "1 when dose <= 0.5"),
    "long": (
        PathTree(2**70, "key"),
        2**69,
        [str(2**69), str(2**69 + 1), "0", "x"],
        [1, 0, 0, 0],
        f"1 when key <= {2**69}",
    ),
    "star": (StarTree(feature="url"), "/cart", ["/cart", "/", "/cart "], [1, 0, 0], "1 when url = /cart"),
    "categories": (StarTree(Categories(["a", "b"]), "c"), "b", ["a", "b"], [0, 1], "1 when c is b"),
    "prefix": (
        PATHS,
        "usr/lib/python3",
        ["/usr/", "usr/lib", "usr/bin", "/", "usr/lib/python3/x"],
        [1, 1, 0, 1, 0],
        "1 when path is usr/lib/python3 or contains it",
    ),
    "codes": (
        PrefixTree(cuts=(1, 3, 4), ignore=".", feature="icd"),
        "E11",
        ["E", "E11", "E11.9", "F", "E1"],
        [1, 1, 0, 0, 1],
        "1 when icd is E11 or contains it",
    ),
    "addresses": (
        AddressTree(4, feature="net"),
        "10.1.0.0/16",
        ["10.0.0.0/8", "10.1.2.3", "0.0.0.0/0", "11.0.0.0/8", "?"],
        [1, 0, 1, 0, 0],
        "1 when net is 10.1.0.0/16 or contains it",
    ),
    "addresses 6": (
        AddressTree(6, feature="net"),
        "2001:db8::/32",
        ["2001::/16", "2001:db8::1", "::/0"],
        [1, 0, 1],
        "1 when net is 2001:db8::/32 or contains it",
    ),
    "taxonomy": (
        ANIMALS,
        "mammal",
        ["animal", "mammal", "cat", "bird", "stone"],
        [1, 1, 0, 0, 0],
        "1 when kind is mammal or contains it",
    ),
    "branches": (
        BUILDS,
        ("beta", 4),
        [("beta", 4), ("beta", 5), ("alpha", 1)],
        [1, 0, 0],
        "1 when line = beta and build <= 4",
    ),
    "glued": (
        glue(PathTree(5), StarTree(Categories(["x", "y"])), feature="k"),
        "3",
        ["1", "3", "4", "x", "?"],
        [1, 1, 0, 0, 0],
        "1 when k <= 3",
    ),
    "grafted": (
        graft(Taxonomy({"cat": "mammal", "mammal": "animal"}), "mammal", PathTree(4), feature="k"),
        "2",
        ["1", "2", "3", "mammal", "cat", "animal"],
        [1, 1, 0, 1, 0, 1],
        "1 when k <= 2",
    ),
}


def frame(tree: VC1Tree, points: list[Any]) -> pl.DataFrame:
    columns = list(zip(*points)) if len(tree.columns) > 1 else [points]
    return pl.DataFrame({name: list(values) for name, values in zip(tree.columns, columns)})


@pytest.mark.parametrize("kind", RULES)
def test_rule_says_reads_and_saves_what_the_tree_means(kind: str) -> None:
    tree, learned, points, expected, text = RULES[kind]
    named = tree.with_columns(tree.columns)
    rule = named.rule(named.node(learned))
    assert str(rule) == text
    table = frame(named, points)
    assert rule.predict(table).tolist() == expected
    for x, y in zip(points, expected):
        v = named.node(x)
        flipped = v is not None and v != named.root and named.is_ancestor(v, named.node(learned))
        assert named.base_label(x) ^ int(flipped) == y
    again = Released.from_json(Released(rule, None).to_json()).value
    assert again == rule
    assert again.predict(table).tolist() == expected
    assert again.predict(table.head(0)).tolist() == []


@pytest.mark.parametrize("kind", RULES)
def test_rule_of_the_root_is_the_base_label(kind: str) -> None:
    tree, _, points, _, _ = RULES[kind]
    rule = tree.rule(tree.root)
    assert rule.predict(frame(tree, points)).tolist() == [tree.base_label(x) for x in points]
    assert str(rule)
    assert rule_from_dict(rule_to_dict(rule)) == rule


@pytest.mark.parametrize("kind", RULES)
def test_a_tree_saves_as_plain_data(kind: str) -> None:
    tree, learned, _, _, _ = RULES[kind]
    again = VC1Tree.from_dict(tree.to_dict())
    assert again == tree
    assert hash(again) == hash(tree)
    assert again.node(learned) == tree.node(learned)
    assert tree.unpack(tree.pack(tree.node(learned))) == tree.node(learned)


def test_rule_on_users_and_on_codes() -> None:
    users = UserData.from_users([[("usr", 1), ("bin", 0)], [("usr/lib", 1)]], features={"path": Texts()})
    rule = PATHS.rule(("usr", "lib"))
    assert isinstance(rule, TreeRule)
    assert rule.predict_users(users).tolist() == [1, 0, 1]
    with pytest.raises(ParameterError, match="open vocabulary"):
        rule.predict_codes(users.codes)
    with pytest.raises(SchemaError, match="1 missing"):
        rule.predict(pl.DataFrame({"path": ["usr", None]}))
    with pytest.raises(SchemaError, match="missing"):
        rule.predict(pl.DataFrame({"road": ["usr"]}))
    listed = PrefixTree(3, feature="p", domain=Categories(["a", "a/b", "c"])).rule(("a", "b"))
    assert listed.predict_codes({"p": np.array([0, 1, 2], dtype=np.uint64)}).tolist() == [1, 1, 0]


def test_a_damaged_rule_is_one_error() -> None:
    good = rule_to_dict(PATHS.rule(("usr",)))
    for bad in (
        {"node": [3]},
        {"node": ["a/b"]},
        {"node": ["x"] * 9},
        {"node": None},
        {"tree": {"kind": "shrub"}},
        {"tree": {"kind": "prefix"}},
    ):
        with pytest.raises(ModelFileError):
            rule_from_dict(good | bad)
    for tree, v in (
        (ANIMALS, "stone"),
        (AddressTree(4), (1, 8)),
        (StarTree(), ("a", "b")),
        (PathTree(2**70), 2**71),
        (BUILDS, ("a", 10)),
    ):
        with pytest.raises((ParameterError, TypeError)):
            tree.rule(v)


# Levels


def test_widths_and_only_nodes() -> None:
    assert [PathTree(2**1000).only_node(z) for z in (0, 1, 2**1000)] == [0, 1, 2**1000]
    assert (AddressTree(6).level_width(128), PATHS.level_width(0), PATHS.level_width(1)) == (2**128, 1, None)
    assert StarTree(Integers(5, 5)).only_node(1) == (0,)
    assert BranchThresholds(Integers(0, 9), Categories(["a"])).only_node(7) == (0, 7)
    assert (BUILDS.level_width(3), BUILDS.only_node(0)) == (None, ())
    assert (ANIMALS.level_width(1), ANIMALS.level_width(2), ANIMALS.only_node(0)) == (2, 2, "animal")
    glued = glue(PathTree(5), StarTree(Categories(["x", "y"])))
    assert ([glued.level_width(z) for z in range(6)], glued.only_node(3)) == ([1, 3, 1, 1, 1, 1], (0, 3))
    grafted = graft(PathTree(2), 2, PathTree(Categories(["a", "b"], ordered=True)))
    assert ([grafted.level_width(z) for z in range(5)], grafted.only_node(4)) == ([1] * 5, (1, 2))
    for tree, z in (
        (PATHS, 1),
        (StarTree(), 1),
        (ANIMALS, 1),
        (AddressTree(4), 3),
        (BUILDS, 2),
        (glued, 1),
        (PathTree(3), 4),
        (PATHS, -1),
    ):
        with pytest.raises(ParameterError):
            tree.only_node(z)


# Names on the command line


def test_trees_by_name(tmp_path: Path) -> None:
    table = tmp_path / "tree.csv"
    table.write_text("parent,child\n,animal\nanimal,mammal\nmammal,cat\n", encoding="utf-8")
    assert parse_tree("path:/") == PrefixTree(32)
    assert parse_tree("path:::8") == PrefixTree(8, ":")
    assert parse_tree("path::") == PrefixTree(32, ":")
    assert parse_tree("prefix:1,3,4:.") == PrefixTree(cuts=(1, 3, 4), ignore=".")
    assert parse_tree("chars:3") == PrefixTree(cuts=(1, 2, 3))
    assert (parse_tree("ip"), parse_tree("ip6:64")) == (AddressTree(4), AddressTree(6, 64))
    assert (parse_tree("points"), parse_tree("points:{a,b}")) == (StarTree(), StarTree(Categories(["a", "b"])))
    assert parse_tree("thresholds:0:9") == PathTree(Integers(0, 9))
    assert parse_tree("branch:1:9") == BranchThresholds(Integers(1, 9))
    assert parse_tree(f"taxonomy:{table}").ancestor("cat", 1) == "mammal"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "oak",
        "path",
        "path:",
        "prefix:",
        "prefix:a",
        "prefix:3,1",
        "prefix:0",
        "chars:",
        "chars:-1",
        "chars:0",
        "ip:33",
        "ip:x",
        "thresholds",
        "thresholds:9:0",
        "branch",
        "taxonomy",
        "taxonomy:no/such/file.csv",
        "points:5",
        "branch:text",
        "thresholds:text",
    ],
)
def test_a_name_that_is_no_tree_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        parse_tree(text)


def test_taxonomy_files_that_are_no_tree_are_refused(tmp_path: Path) -> None:
    files = {
        "columns": b"a,b\n1,2\n",
        "empty": b"",
        "no rows": b"child,parent\n",
        "two parents": b"child,parent\na,b\na,c\n",
        "cycle": b"child,parent\na,b\nb,a\n",
        "no child": b"child,parent\n,b\n",
        "bytes": b"child,parent\n\xff,b\n",
        "quote": b'child,parent\n"a,b\n',
    }
    for name, body in files.items():
        table = tmp_path / f"{name}.csv"
        table.write_bytes(body)
        with pytest.raises(ParameterError):
            parse_tree(f"taxonomy:{table}")
    with pytest.raises(TypeError):
        parse_tree(7)  # type: ignore[arg-type]


# Input that nobody should send


@pytest.mark.parametrize(
    "build",
    [
        lambda: PrefixTree(),
        lambda: PrefixTree(-1),
        lambda: PrefixTree(3, ""),
        lambda: PrefixTree(3, "\0"),
        lambda: PrefixTree(3, ignore="."),
        lambda: PrefixTree(cuts=()),
        lambda: PrefixTree(cuts=(2, 2)),
        lambda: PathTree(0),
        lambda: PathTree(2**20000),
        lambda: PathTree(Texts()),
        lambda: PathTree(3, direction="up"),
        lambda: AddressTree(5),
        lambda: AddressTree(4, 33),
        lambda: Taxonomy({"": "a"}),
        lambda: Taxonomy({1: "a", "1": "b"}),
        lambda: Taxonomy({"a": "a"}),
        lambda: Taxonomy({"a": "b", "b": "c", "c": "a", "d": None}),
        lambda: BranchThresholds(Texts()),
        lambda: BranchThresholds(Integers(0, 1), features=("a", "a")),
        lambda: glue(),
        lambda: glue(BUILDS),
        lambda: graft(ANIMALS, "stone", StarTree()),
    ],
    ids=range(22),
)
def test_parameters_are_checked(build: Any) -> None:
    with pytest.raises(ParameterError):
        build()


def test_types_are_checked() -> None:
    for build in (
        lambda: PrefixTree(3, 7),
        lambda: StarTree(3),
        lambda: BranchThresholds(3),
        lambda: Taxonomy([1]),
        lambda: glue(3),
        lambda: TreeRule(3, 1),
    ):
        with pytest.raises(TypeError):
            build()  # type: ignore[no-untyped-call]


def test_a_cycle_is_named_briefly() -> None:
    loop = {f"n{i}": f"n{(i + 1) % 1000}" for i in range(1000)}
    with pytest.raises(ParameterError, match="cycle: 'n") as caught:
        Taxonomy(loop | {"top": None, "low": "n3"})
    assert len(str(caught.value)) < 200


def test_deep_hierarchies_need_no_recursion() -> None:
    deep = Taxonomy({f"n{i + 1}": f"n{i}" for i in range(20_000)})
    assert (deep.height, deep.ancestor("n20000", 7)) == (20_000, "n7")
    assert list(deep.part_nodes(UserData.from_users([[("n19999", 1), ("n20000", 0)]])).depths) == [19_999]
    slashes, names = "/" * 100_000, "a/" * 50_000
    found = PrefixTree(40_000).part_nodes(
        UserData.from_users([[(slashes, 1)], [(names, 1)], [(slashes, 0)], [("x" * 100_000, 1)]])
    )
    assert list(found.depths) == [0, 40_000, 0, 1]
    assert found.votes(39_999) == {("a",) * 39_999: 1}


texts = st.text(st.sampled_from(["a", "b", "/", "\0", "\1", "\2", "é", "€", "𝄞", "\u0301", " ", "."]), max_size=8)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.tuples(texts, st.integers(0, 1)), max_size=5), max_size=4),
    st.sampled_from(["/", "//", "é", "a"]),
    st.integers(0, 4),
)
def test_any_text_is_a_path_and_a_code(users: list[list[tuple[str, int]]], separator: str, depth: int) -> None:
    trees: list[VC1Tree] = [
        PrefixTree(depth, separator),
        PrefixTree(cuts=(1, 2, 5), max_depth=depth, ignore="."),
        StarTree(),
        AddressTree(4),
    ]
    for tree in trees:
        for mode in ("closure", "erm"):
            found = tree.part_nodes(UserData.from_users(users), mode)  # type: ignore[arg-type]
            assert found.nodes() == [part_node(tree, user, mode) for user in users]  # type: ignore[arg-type]
            for z in range(tree.height + 1)[:3]:
                assert sum(found.votes(z).values()) == sum(d >= z for d in found.depths)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.ip_addresses(network="10.0.0.0/8"), st.ip_addresses()).map(str), st.integers(0, 128))
def test_networks_are_those_of_ipaddress(address: str, length: int) -> None:
    tree = AddressTree(6 if ":" in address else 4)
    v = tree.node(f"{address}/{length}")
    if length > tree.bits:
        assert v is None
        return
    network = ip_network(f"{address}/{length}", strict=False)
    assert v == (int(network.network_address), length)
    assert tree.describe(v) == str(network)
    assert tree.node(network) == v


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "1.2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "01.2.3.4",
        "1.2.3.4/",
        "1.2.3.4/-1",
        "1.2.3.4/33",
        "1.2.3.4/٣",
        "1.2.3.4\0",
        "::1",
        "a" * 100_000,
    ],
)
def test_what_is_no_address_is_unknown(shown: str) -> None:
    assert AddressTree(4).node(shown) is None
    assert AddressTree(4).part_nodes(UserData.from_users([[(shown, 1), ("1.2.3.4", 1)]])).nodes() == [(0x01020304, 32)]


def test_points_of_strange_types_are_unknown_or_their_text() -> None:
    for tree in (
        PATHS,
        StarTree(),
        ANIMALS,
        AddressTree(4),
        BUILDS,
        PathTree(5),
        PathTree(2**70),
        StarTree(Integers(0, 3)),
        VC1Tree.from_matrix([[0], [1]]),
    ):
        for x in (None, float("nan"), object(), b"a", [1], {}, 10**5000):
            assert tree.node(x) is None
            assert part_node(tree, [(x, 1)]) == tree.root
    assert StarTree().node(7) == StarTree().node("7") == StarTree().node(7.0) == ("7",)
    assert StarTree().node(True) == ("true",)
    assert PATHS.node(("usr", "lib")) == ("usr", "lib")
    assert PATHS.node(("a/b",)) is None
    assert part_node(PATHS, [("usr", 2), ("usr", None), ("bin", 1)]) == ("bin",)  # type: ignore[list-item]


def test_columns_are_found_as_for_other_classes() -> None:
    two = UserData.from_users([[("a", 3, 1)]], features=["line", "build"])
    assert BranchThresholds(Integers(1, 9)).part_nodes(two).nodes() == [("a", 3)]
    with pytest.raises(ParameterError, match="name the features"):
        StarTree().part_nodes(two)
    with pytest.raises(SchemaError, match="not among"):
        StarTree(feature="road").part_nodes(two)
    with pytest.raises(ParameterError, match="labels"):
        StarTree().part_nodes(UserData.from_users([["a"]], labelled=False))
    with pytest.raises(SchemaError, match="outside"):
        PathTree(Integers(0, 2), "build").part_nodes(two)
    tree, bound = StarTree(feature="line").bind(two)
    assert tree.columns == {"line": Texts()}
    assert bound.features["line"] == Texts()


digits = st.text(st.sampled_from(list("0123:::.af/G ")), max_size=20)
groups = st.lists(st.sampled_from(["", "0", "1", "ffff", "00ff", "12345", "1.2.3.4"]), max_size=9).map(":".join)
quads = st.lists(st.sampled_from(["", "0", "1", "01", "255", "256"]), min_size=3, max_size=5).map(".".join)
sizes = st.sampled_from(["", "/", "/0", "/08", "/32", "/33", "/128", "/129", "/1000", "/x"])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.one_of(digits, groups, quads, st.ip_addresses(v=6).map(str)), sizes).map("".join), max_size=20
    )
)
def test_tables_of_addresses_are_read_like_single_ones(shown: list[str]) -> None:
    for tree in (AddressTree(4), AddressTree(6), AddressTree(6, 50), AddressTree(4, 0)):
        found = tree.part_nodes(UserData.from_users([[(text, 1)] for text in shown]))
        assert found.nodes() == [tree.root if (v := tree.node(text)) is None else v for text in shown]


@pytest.mark.parametrize(
    "tree", [StarTree(feature="w"), PrefixTree(3, feature="w"), PrefixTree(cuts=(40,), feature="w")]
)
def test_texts_of_people_command_no_terminal_and_forge_no_line(tree: VC1Tree) -> None:
    held = "\x1b[2J\nbudget left: 100"
    rule = tree.rule(tree.node(held))
    assert str(rule).isprintable()
    assert rule.predict([[held]]).tolist() == [1]
