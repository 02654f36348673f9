"""Bins, tests and words of small trees, missing values, and what is refused before anything is spent."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data import Categories, Dates, Floats, Grid, Integers, Missing, Texts, UserData
from privpac.data.domains import own_code, values_of
from privpac.errors import ParameterError, SchemaError, TooLargeError
from privpac.rules.small_trees import CellsKernel, cells_of
from privpac.rules.wide_columns import binned

# Bins


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 60), cuts=st.integers(1, 20), missing=st.booleans())
def test_even_cuts_of_a_domain(size: int, cuts: int, missing: bool) -> None:
    """Cut u at code ceil(uN/B), B = min(N, q + 1)."""
    if size == 1 and not missing:
        return
    (column,) = binned({"x": Integers(0, size - 1)}, cuts, ("x",) if missing else None)
    bins = min(size, cuts + 1)
    assert column.bins == bins
    assert column.edges == tuple(-(-u * size // bins) for u in range(1, bins))
    assert len(column.tests) == bins - 1 + missing
    found = np.empty(size + missing, dtype=np.uint16)
    column.bin_codes(np.arange(size + missing, dtype=np.uint64), found)
    expected = [sum(code >= edge for edge in column.edges) for code in range(size)]
    assert found.tolist() == expected + ([bins] if missing else [])


@settings(max_examples=60, deadline=None)
@given(lo=st.integers(-(10**6), 10**6), size=st.integers(2, 10**6), cuts=st.integers(1, 20), power=st.integers(0, 3))
def test_scale_free_cuts_contain_the_equal_ones_and_those_of_fewer_steps(
    lo: int, size: int, cuts: int, power: int
) -> None:
    x = Integers(lo, lo + size - 1)
    equal, fewer, more = (
        set(binned({"x": x}, cuts, steps=steps)[0].edges) for steps in (0, 1 << power, 1 << (power + 1))
    )
    assert equal <= fewer <= more
    assert all(1 <= edge < size for edge in more)
    if size <= cuts + 1:
        assert more == equal == set(range(1, size))


@pytest.mark.parametrize("factor", [1, 10, 100, 1000])
def test_a_wider_range_keeps_cuts_among_the_values(factor: int) -> None:
    """Sixteen equal bins of 0..99,999 say nothing about 0..100; eight cuts an octave do."""
    x = Integers(0, 100 * factor)
    inside = [sum(edge <= 100 for edge in binned({"x": x}, 15, steps=steps)[0].edges) for steps in (0, 8)]
    assert inside[1] >= 34
    assert factor == 1 or inside[0] <= 2


def test_what_goes_before_scale_free_cuts() -> None:
    x, years = Integers(0, 10**7), Dates("1900-01-01", "2099-12-31")
    trees = pp.SmallTrees(
        {
            "listed": x,
            "typical": Integers(0, 10**7, typical=(100, 199)),
            "few": Integers(0, 15),
            "ordered": Categories([str(i) for i in range(20)], ordered=True),
            "missing": Missing(x, "own"),
            "days": years,
        },
        cuts={"listed": [5, 7]},
    )
    found = {column.name: column.edges for column in trees.binned}
    assert found["listed"] == (6, 8)
    assert found["typical"][0] == 100
    assert found["typical"][-1] == 200
    assert len(found["typical"]) == 15
    assert found["few"] == tuple(range(1, 16))
    assert len(found["ordered"]) == 15
    assert len(found["missing"]) == 160
    assert found["days"][:4] == (1, 2, 3, 4)
    assert trees.spacing_words == "scale-free, 8 an octave"
    assert binned({"x": Integers(0, 9, typical=(0, 9))}, 2)[0].edges == (4, 7)  # both of its edges are ends


def test_steps_fall_until_the_tests_are_few_enough() -> None:
    """By public numbers: 20 columns of 160 cuts would be 3,200 tests."""
    x = Integers(0, 10**7)
    wide = pp.SmallTrees({f"x{j}": x for j in range(20)})
    assert (wide.spacing_words, len(wide.tests)) == ("scale-free, 4 an octave", 1680)
    assert pp.SmallTrees({"x": x}, max_cells=1300).spacing_words == "scale-free, 1 an octave"
    assert pp.SmallTrees({"x": x}, max_cells=256).spacing_words == "equal"
    assert pp.SmallTrees({"x": x}, spacing="equal").spacing_words == "equal"
    with pytest.raises(TooLargeError, match="use fewer cuts"):
        pp.SmallTrees({"x": x}, max_cells=255 - 31)
    with pytest.raises(ParameterError, match="spacing must be 'scale-free' or 'equal'"):
        pp.SmallTrees({"x": x}, spacing="even")


def test_listed_cuts_hold_strictly_above_them() -> None:
    (column,) = binned({"x": Floats()}, _cuts({"x": [0.0, 0.5, 3]}))
    codes, _ = Floats().encode([-1.0, 0.0, 0.1, 0.5, 0.6, 3.0, 3.1])
    found = np.empty(7, dtype=np.uint16)
    column.bin_codes(codes, found)
    assert found.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert [column.says(test) for test in column.tests] == ["x > 0.0", "x > 0.5", "x > 3.0"]
    between = binned({"x": Integers(0, 9)}, _cuts({"x": [2.5, 7]}))[0]
    assert (between.edges, between.says(("cut", 1))) == ((3, 8), "x > 2")


def _cuts(value: Any) -> Any:
    return pp.SmallTrees(["x"], cuts=value).cuts


def test_codes_of_large_domains_and_missing_floats() -> None:
    (column,) = binned({"x": Missing(Integers(0, 10**12), "own")}, 3)
    codes, _ = column.domain.encode([0, None, 10**12, 5 * 10**11])
    found = np.empty(4, dtype=np.uint16)
    column.bin_codes(codes, found)
    assert found.tolist() == [0, 4, 3, 1]
    floats = binned({"x": Missing(Floats(), "own")}, _cuts({"x": [1.0]}))[0]
    codes, _ = floats.domain.encode([0.5, float("nan"), 2.0])
    floats.bin_codes(codes, found[:3])
    assert found[:3].tolist() == [0, 2, 1]


def test_words() -> None:
    trees = pp.SmallTrees(
        {"age": Integers(0, 120), "ward": Categories(["a", "b", "c"]), "day": Dates("2024-01-01", "2024-12-31")},
        cuts={"age": [17, 64], "day": 1},
        missing=["age"],
        spacing="equal",
    )
    said = [trees.binned[t.column].says((t.kind, t.value)) for t in trees.tests]
    assert said == [
        "age > 17",
        "age > 64",
        "age is missing",
        "ward is a",
        "ward is b",
        "ward is c",
        "day > 2024-07-01",
    ]
    shown = {str(trees.decode(t, "ill")) for t in range(0, trees.size, 31)}
    assert "ill never" in {str(trees.decode(0, "ill"))}
    assert any("if age is missing: " in line for line in shown)
    two = pp.SmallTrees({"k": Categories(["no", "yes"]), "x": Integers(0, 1)})
    assert [(t.kind, t.value) for t in two.tests] == [("is", 1), ("cut", 1)]


def test_a_test_that_the_root_decides_is_shown_as_a_leaf() -> None:
    trees = pp.SmallTrees({"x": Integers(0, 9)}, cuts=9)
    from privpac.rules.small_trees import Side

    tree = trees.shape.id(4, Side(2, (1, 0)), Side(2, (1, 0)))  # x > 4, then x > 2 on both sides
    assert str(trees.decode(tree, "y")) == "y when x > 4 or x > 2"
    assert trees.decode(tree, "y").condition() == "x > 4 or x > 2"


def test_trees_read_as_conditions_or_stand_indented_with_labels_at_their_leaves() -> None:
    trees = pp.SmallTrees({"a": Integers(0, 9), "b": Integers(0, 9)}, cuts=9)
    from privpac.rules.small_trees import Side

    def shown(yes: Side | int, no: Side | int, label: str = "ill") -> str:
        return str(trees.decode(trees.shape.id(4, yes, no), label))

    b = 13  # b > 4
    assert shown(Side(None, (1,)), Side(None, (0,))) == "ill when a > 4"
    assert shown(Side(b, (1, 0)), Side(None, (0,))) == "ill when a > 4 and b > 4"
    assert shown(Side(None, (1,)), Side(b, (1, 0))) == "ill when a > 4 or b > 4"
    assert shown(Side(None, (0,)), Side(b, (1, 0))).splitlines() == [
        "if a > 4: not ill",
        "else:",
        "    if b > 4: ill",
        "    else: not ill",
    ]
    assert shown(Side(b, (0, 1)), Side(None, (1,)), "1").splitlines()[1] == "    if b > 4: 0"
    assert shown(Side(None, (1,)), Side(None, (1,))) == "ill always"


# Missing values


FRAME = pl.DataFrame({"who": [1, 1, 2, 3], "x": [1, None, 7, None], "k": ["a", "b", None, "a"], "y": [0, 1, 1, 0]})
DECLARED: dict[str, Any] = {"user": "who", "label": "y"}


def test_missing_values_have_a_code_of_their_own_or_go() -> None:
    own = UserData.from_frame(
        FRAME, features={"x": Missing(Integers(0, 9), "own"), "k": Missing(Categories(["a", "b"]), "own")}, **DECLARED
    )
    assert own.codes["x"].tolist() == [1, 10, 7, 10]
    assert own.codes["k"].tolist() == [0, 1, 2, 0]
    drop = UserData.from_frame(FRAME, features={"x": Missing(Integers(0, 9), "drop")}, **DECLARED)
    assert (drop.n_users, drop.n_records) == (3, 2)
    with pytest.raises(SchemaError, match="2 missing"):
        UserData.from_frame(FRAME, features={"x": Missing(Integers(0, 9), "raise")}, **DECLARED)
    with pytest.raises(SchemaError, match="outside"):
        UserData.from_frame(FRAME, features={"x": Missing(Integers(0, 5), "drop")}, **DECLARED)
    again = pp.Missing.from_dict(own.features["x"].to_dict())  # type: ignore[union-attr]
    assert again == own.features["x"]
    assert (values_of(again), own_code(again)) == (Integers(0, 9), 10)


@pytest.mark.parametrize("way", ["class", "data", "both"])
def test_the_class_or_the_data_may_declare_missing_values(way: str) -> None:
    plain = {"x": Integers(0, 9), "k": Categories(["a", "b"])}
    owned: dict[str, Any] = {name: Missing(domain, "own") for name, domain in plain.items()}
    data = UserData.from_frame(FRAME, features=owned if way != "class" else list(plain), **DECLARED)
    concept = {
        "class": pp.SmallTrees(plain, missing="own"),
        "data": pp.SmallTrees(),
        "both": pp.SmallTrees(owned),
    }[way]
    bound, users = concept.bind(data)
    assert [column.width for column in bound.binned] == [11, 3]
    assert users.codes["x"].tolist() == [1, 10, 7, 10]  # type: ignore[attr-defined]


def test_data_without_missing_values_serve_a_class_with_them() -> None:
    data = UserData.from_users([[(3, 1)], [(4, 0)]], features={"x": Integers(0, 9)})
    bound, _ = pp.SmallTrees({"x": Integers(0, 9)}, missing="own").bind(data)
    assert [t.kind for t in bound.tests] == ["cut"] * 9 + ["is"]
    assert str(pp.learn(data, pp.SmallTrees({"x": Integers(0, 9)}, missing="own"), epsilon=1))


def test_other_classes_refuse_missing_values_before_any_spend(tmp_path: Path) -> None:
    data = UserData.from_frame(FRAME, features={"x": Missing(Integers(0, 9), "own")}, **DECLARED)
    book = pp.BudgetLedger(tmp_path / "b.db", pp.Guarantee(1, unit="user", neighbours="add-remove"), dataset="people")
    for concept in (pp.Thresholds(), pp.Stumps(), pp.Intervals()):
        with pytest.raises(ParameterError, match="keep missing values"):
            pp.learn(data, concept, epsilon=1, ledger=book)
    assert not book.history()


def test_prediction_takes_declared_missing_values_only() -> None:
    trees = pp.SmallTrees({"x": Missing(Integers(0, 9), "own"), "z": Integers(0, 9)})
    missing = next(i for i, t in enumerate(trees.tests) if t.kind == "is")
    rule = trees.decode(trees.shape.id(missing, trees.shape.side(1), trees.shape.side(0)))
    assert rule.predict({"x": [None, 3, 99], "z": [1, 2, 3]}).tolist() == [1, 0, 0]
    with pytest.raises(SchemaError, match="missing"):
        pp.SmallTrees({"z": Integers(0, 9)}).decode(0).predict({"z": [None, 2]})


# Cells


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), labels=st.sampled_from([2, 3, 4]))
def test_cells_are_sums_over_records_in_any_split(seed: int, labels: int) -> None:
    rng = np.random.default_rng(seed)
    trees = pp.SmallTrees(
        {"x": Missing(Integers(0, 4), "own"), "k": Categories(["a", "b"]), "z": Integers(0, 2)}, cuts=3
    )
    people = [
        [
            (int(rng.integers(0, 6)), int(rng.integers(0, 2)), int(rng.integers(0, 3)), int(rng.integers(0, labels)))
            for _ in range(m)
        ]
        for m in rng.integers(0, 4, 7)
    ]
    kernel = CellsKernel(trees.binned, 6, labels)

    def data(some: list[Any]) -> UserData:
        rows = [row for user in some for row in user]
        offsets = np.concatenate([[0], np.cumsum([len(user) for user in some])]).astype(np.int64)
        made = UserData.from_users([[(0, "a", 0, 0)]], features={c.name: c.domain for c in trees.binned})
        from attrs import evolve

        codes = {c.name: np.array([row[j] for row in rows], dtype=np.uint64) for j, c in enumerate(trees.binned)}
        return evolve(made, offsets=offsets, codes=codes, labels=np.array([r[-1] for r in rows], dtype=np.uint8))

    whole = kernel.chunk(data(people))
    parts = kernel.merge(kernel.merge(kernel.zero(), kernel.chunk(data(people[:3]))), kernel.chunk(data(people[3:])))
    assert np.array_equal(whole.tables, parts.tables)
    assert np.array_equal(whole.totals, parts.totals)
    cells = cells_of(trees.binned, whole)
    k = len(trees.tests)
    weight = np.zeros((labels, k, k), dtype=np.int64)
    for user in people:
        for *row, y in user:
            codes = np.array(row, dtype=np.uint64)
            held = [
                bool(trees.binned[t.column].holds((t.kind, t.value), codes[t.column : t.column + 1])[0])
                for t in trees.tests
            ]
            weight[y] += (6 // len(user)) * np.outer(held, held)
    assert np.array_equal(cells.both, weight[1:] - weight[0])
    assert np.array_equal(cells.single, np.einsum("cii->ci", cells.both))


# Refusals


@pytest.mark.parametrize(
    ("parameters", "error", "said"),
    [
        ({"depth": 3}, ParameterError, "depth must be 1 or 2"),
        ({"depth": True}, ParameterError, "depth must be 1 or 2"),
        ({"cuts": 0}, ParameterError, "cuts"),
        ({"cuts": {"q": 3}}, ParameterError, "not among"),
        ({"cuts": {"x": [5, 3]}}, ParameterError, "must increase"),
        ({"cuts": {"x": [50]}}, ParameterError, "within its domain"),
        ({"cuts": {"x": [9]}}, ParameterError, "within its domain"),
        ({"cuts": {"x": [-1]}}, ParameterError, "within its domain"),
        ({"cuts": {"k": [1]}}, ParameterError, "unordered categories"),
        ({"missing": ["q"]}, ParameterError, "not among"),
        ({"missing": "drop"}, ParameterError, "missing must be"),
        ({"split": 0}, ParameterError, "split"),
        ({"split": 1}, ParameterError, "split"),
        ({"levels": 0}, ParameterError, "levels"),
        ({"max_cells": 40}, TooLargeError, "fewer cuts or columns"),
        ({"classes": ["a"]}, ParameterError, "classes"),
        ({"classes": ["a", "a"]}, ParameterError, "classes"),
        ({"classes": "ab"}, TypeError, "classes"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        pp.SmallTrees({"x": Integers(0, 9), "k": Categories(["a", "b"])}, **parameters)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x": Floats()}, "cuts must be public"),
        ({"x": Texts()}, "open vocabulary"),
        ({"x": Integers(3, 3)}, "one value only"),
        ({}, "at least one column"),
    ],
)
def test_columns_without_public_tests_are_refused(columns: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        pp.SmallTrees(columns)


def test_too_many_cells_are_refused_before_any_spend(tmp_path: Path) -> None:
    data = UserData.from_users([[(3, 1)]], features={"x": Integers(0, 9)})
    book = pp.BudgetLedger(tmp_path / "b.db", pp.Guarantee(1, unit="user", neighbours="add-remove"), dataset="people")
    with pytest.raises(TooLargeError):
        pp.learn(data, pp.SmallTrees(max_cells=10), epsilon=1, ledger=book)
    assert not book.history()


def test_prices() -> None:
    """Ten columns of 16 bins cost at most 18.5 nats, twenty 20.6; 9 % of the prior asks once, 42 % twice, 49 % three
    times."""
    for columns, price in ((10, 18.5), (20, 20.6)):
        trees = pp.SmallTrees({f"x{j}": Grid(0, 1, "0.001") for j in range(columns)}, spacing="equal")
        tree = trees.shape.id(0, trees.shape.side(2), trees.shape.side(2))
        assert trees.price(tree) == pytest.approx(price, abs=0.06)
        assert trees.shape.of_tree(tree) == trees.shape.least
    shape = pp.SmallTrees({"x": Integers(0, 2)}).shape
    by_tests = [Fraction(0)] * 4
    for tree in range(shape.size):
        _, yes, no = shape.parts(tree)
        by_tests[1 + (yes.test is not None) + (no.test is not None)] += shape.of_tree(tree)
    assert by_tests[1:] == [Fraction(9, 100), Fraction(42, 100), Fraction(49, 100)]
    assert pp.SmallTrees({f"x{j}": Integers(0, 15) for j in range(10)}).size == 54_360_600
