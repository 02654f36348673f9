"""One table, one ``UserData``, wherever the table comes from."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from privpac.data import Categories, Floats, Grid, Integers, UserData
from privpac.errors import ParameterError, SchemaError
from privpac.guarantee import Unit
from privpac.rules import Thresholds
from privpac.rules.profile import Mean

quick = settings(deadline=None, max_examples=60)

TABLE = pl.DataFrame(
    {
        "who": [30, 10, 20, 10, 30, 10],
        "name": ["c", "a", "b", "a", "c", "a"],
        "x": [5, 1, 9, 2, 6, 3],
        "t": [0.5, 0.1, 0.9, 0.2, 0.6, 0.3],
        "late": [True, False, True, True, False, False],
    }
)
DOMAINS = {"x": Integers(0, 9), "t": Grid(0, 1, 0.1)}
EXPECTED = {10: [(1, 1, 0), (2, 2, 1), (3, 3, 0)], 20: [(9, 9, 1)], 30: [(5, 5, 1), (6, 6, 0)]}


def same(a: UserData, b: UserData) -> bool:
    return (
        a.offsets.tolist() == b.offsets.tolist()
        and {n: c.tolist() for n, c in a.codes.items()} == {n: c.tolist() for n, c in b.codes.items()}
        and (None if a.labels is None else a.labels.tolist()) == (None if b.labels is None else b.labels.tolist())
        and dict(a.features) == dict(b.features)
        and a.unit is b.unit
    )


def frames() -> dict[str, Any]:
    arrow = TABLE.to_arrow()
    return {
        "polars": TABLE,
        "lazy": TABLE.lazy(),
        "pandas": TABLE.to_pandas(),
        "pandas-arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas-object": TABLE.to_pandas().astype(object),
        "arrow": arrow,
        "duckdb": duckdb.connect().from_arrow(arrow),
    }


# Sources


@pytest.mark.parametrize("user", ["who", "name"])
@pytest.mark.parametrize("source", sorted(frames()))
def test_every_dataframe_library_gives_the_same_users(source: str, user: str) -> None:
    data = UserData.from_frame(frames()[source], user=user, features=DOMAINS, label="late")
    typed = user == "who" and source != "pandas-object"  # ids of objects are texts: users by first row
    if typed or user == "name":
        assert same(data, UserData.from_frame(TABLE, user=user, features=DOMAINS, label="late"))
    lists = data.to_lists()
    assert sorted(lists) == sorted(EXPECTED.values())
    assert lists == ([EXPECTED[k] for k in (10, 20, 30)] if typed else [EXPECTED[k] for k in (30, 10, 20)])


@pytest.mark.parametrize("source", sorted(frames()))
def test_item_level_makes_every_record_its_own_user(source: str) -> None:
    data = UserData.from_frame(frames()[source], user=None, features={"x": DOMAINS["x"]}, label="late")
    assert data.unit is Unit.ITEM
    assert data.to_lists() == [[(x, int(y))] for x, y in zip(TABLE["x"], TABLE["late"])]


def test_files_give_the_same_users_as_frames(tmp_path: Path) -> None:
    TABLE[:3].write_parquet(tmp_path / "part-0.parquet")
    TABLE[3:].write_parquet(tmp_path / "part-1.parquet")
    TABLE.write_csv(tmp_path / "all.csv")
    expected = UserData.from_frame(TABLE, user="name", features=DOMAINS, label="late")
    for path in (str(tmp_path / "part-*.parquet"), tmp_path / "all.csv"):
        assert same(UserData.read(path, user="name", features=DOMAINS, label="late"), expected)
    by_number = UserData.read(tmp_path / "all.csv", user="who", features=DOMAINS, label="late")
    assert by_number.to_lists() == [EXPECTED[k] for k in (30, 10, 20)]


def test_csv_keeps_every_digit(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        '\ufeffu,k,"two\nlines",y\n"a",18446744073709551615,0.1,1\n"a",0,0.30,0.0\nb,9007199254740993,1e-1,TRUE\n',
        "utf-8",
    )
    features = {"k": Integers(0, 2**64 - 1), "two\nlines": Grid(0, 1, "0.1")}
    data = UserData.read(tmp_path / "t.csv", user="u", features=features, label="y")
    assert data.to_lists() == [[(2**64 - 1, 1, 1), (0, 3, 0)], [(2**53 + 1, 1, 1)]]


def test_arrays_and_lists() -> None:
    X = np.array([[5, 50], [1, 10], [9, 90], [2, 20]])
    y, users = [1, 0, 1, 1], ["c", "a", "b", "a"]
    domains = {"x1": Integers(0, 9), "x2": Integers(0, 99)}
    data = UserData.from_arrays(X, y, users, features=domains)
    assert data.to_lists() == [[(5, 50, 1)], [(1, 10, 0), (2, 20, 1)], [(9, 90, 1)]]
    for form in (
        X.tolist(),
        pd.DataFrame(X, columns=["x1", "x2"]),
        pl.DataFrame(X, schema=["x1", "x2"]),
        np.asfortranarray(X),
    ):
        assert same(UserData.from_arrays(form, np.array(y), np.array(users), features=domains), data)
    assert list(UserData.from_arrays(X, y).features) == ["x1", "x2"]
    assert list(UserData.from_arrays(X[:, 0], y).features) == ["x"]
    assert UserData.from_arrays(X[:, 0], y).unit is Unit.ITEM
    listed = UserData.from_users([[(5, 50, 1)], [], [(1, 10, 0), (2, 20, 1)]], features=domains)
    assert listed.to_lists() == [[(5, 50, 1)], [], [(1, 10, 0), (2, 20, 1)]]
    unlabelled = UserData.from_users([[5, 6], [], [7]], features={"x": Integers(0, 9)}, labelled=False)
    assert unlabelled.to_lists() == [[(5,), (6,)], [], [(7,)]]
    assert unlabelled.labels is None
    assert unlabelled.unit is Unit.USER


@quick
@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)))))
def test_lists_of_users_come_back(users: list[list[tuple[int, int]]]) -> None:
    assert UserData.from_users(users, features={"x": Integers(0, 5)}).to_lists() == users


def test_label_map_and_numeric_labels() -> None:
    frame = pl.DataFrame(
        {
            "x": [1, 2, 3],
            "s": ["yes", "no", "yes"],
            "f": [1.0, 0.0, 1.0],
            "i": [1, 0, 1],
            "u8": pl.Series([1, 0, 1], dtype=pl.UInt8),
        }
    )
    for label, mapping in (
        ("s", {"yes": 1, "no": 0}),
        ("s", {"yes": True, "no": False}),
        ("f", None),
        ("i", None),
        ("u8", None),
        ("i", {1: 1, 0: 0}),
    ):
        data = UserData.from_frame(frame, user=None, features="x", label=label, label_map=mapping)
        assert data.labels is not None
        assert data.labels.tolist() == [1, 0, 1]
    flipped = UserData.from_frame(frame, user=None, features="x", label="i", label_map={1: 0, 0: 1})
    assert flipped.labels is not None
    assert flipped.labels.tolist() == [0, 1, 0]


def test_ids_that_became_float_because_some_were_missing() -> None:
    frame = pd.DataFrame({"u": [3.0, np.nan, 1.0, 3.0], "x": [1, 2, 3, 4]})
    data = UserData.from_frame(frame, user="u", features={"x": Integers(0, 9)}, on_invalid="drop")
    assert data.to_lists() == [[(3,)], [(1,), (4,)]]


@pytest.mark.parametrize(
    "ids",
    [
        [True, False, True],
        [b"\x01", b"\x02", b"\x01"],
        pd.to_datetime(["2020", "2021", "2020"]),
        pd.Series(["b", "a", "b"], dtype="category"),
    ],
)
def test_other_kinds_of_ids(ids: Any) -> None:
    frame = pl.DataFrame({"u": pl.Series(ids), "x": [1, 2, 3]})
    assert UserData.from_frame(frame, user="u", features={"x": Integers(0, 9)}).to_lists() == [[(1,), (3,)], [(2,)]]


# Edge cases: never an error, never a warning


def test_tables_without_rows() -> None:
    for frame in (
        TABLE[:0],
        TABLE[:0].to_pandas(),
        TABLE[:0].to_arrow(),
        pd.DataFrame({"who": [], "x": [], "t": [], "late": []}),
    ):
        for user in ("who", None):
            data = UserData.from_frame(frame, user=user, features=DOMAINS, label="late")
            assert (data.n_users, data.n_records, data.to_lists()) == (0, 0, [])
            assert data.max_records(2).n_users == 0
    assert UserData.from_users([]).bind({"x": Floats()}).n_users == 0
    assert UserData.from_users([[], []]).bind({"x": Floats()}).max_records(1).n_users == 2
    assert UserData.from_arrays(np.empty((0, 2)), [], []).n_users == 0


def test_files_without_rows(tmp_path: Path) -> None:
    TABLE[:0].write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("who,x,t,late\n")
    (tmp_path / "u.csv").write_text("who,x,t,late")
    for name in ("t.parquet", "t.csv", "u.csv"):
        assert UserData.read(tmp_path / name, user="who", features=DOMAINS, label="late").n_users == 0


def test_one_user_with_a_million_records() -> None:
    x = np.arange(10**6) % 1000
    data = UserData.from_arrays(x, x % 2, np.full(10**6, 7), features={"x": Integers(0, 999)})
    assert (data.n_users, data.n_records) == (1, 10**6)
    assert data.max_records(5, rule="hash").n_records == 5
    assert data.max_records(5).to_lists() == [[(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]]


# Binding


@pytest.mark.parametrize("rule", ["raise", "drop", "clamp"])
@quick
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 12), st.integers(0, 1))))
def test_binding_now_or_later_is_the_same(rule: str, rows: list[tuple[int, int, int]]) -> None:
    frame = pl.DataFrame(rows, schema={"u": pl.Int64, "x": pl.Int64, "y": pl.Int64}, orient="row")

    def build(features: Any) -> UserData:
        return UserData.from_frame(frame, user="u", features=features, label="y", on_invalid=rule)

    domain = Integers(0, 9)
    if rule == "raise" and any(not 0 <= x <= 9 for _, x, _ in rows):
        with pytest.raises(SchemaError) as now:
            build({"x": domain})
        with pytest.raises(SchemaError) as later:
            build(["x"]).bind({"x": domain})
        assert str(now.value) == str(later.value)
        return
    data = build({"x": domain})
    assert same(data, build(["x"]).bind({"x": domain}))
    assert data.n_users == len({u for u, _, _ in rows})
    expected = [
        [(min(max(x, 0), 9), y) for v, x, y in rows if v == u and (rule != "drop" or 0 <= x <= 9)]
        for u in sorted({u for u, _, _ in rows})
    ]
    assert data.to_lists() == expected


def test_a_user_stays_when_all_records_are_dropped() -> None:
    data = UserData.from_users([[(99, 0)], [(1, 1)]], features={"x": Integers(0, 9)}, on_invalid="drop")
    assert data.to_lists() == [[], [(1, 1)]]


def test_drop_and_clamp_look_at_one_record_only() -> None:
    frame = pl.DataFrame({"u": [1, 1, 1, 2, None], "x": [5.0, None, 99.0, 2.0, 3.0], "y": [0, 1, 1, 7, 1]})
    told: dict[str, Any] = {"user": "u", "features": {"x": Integers(0, 9)}, "label": "y", "on_invalid_label": "drop"}
    assert UserData.from_frame(frame, **told, on_invalid="drop").to_lists() == [[(5, 0)], []]
    assert UserData.from_frame(frame, **told, on_invalid="clamp").to_lists() == [[(5, 0), (9, 1)], []]


def test_two_declarations_of_one_column_conflict() -> None:
    data = UserData.from_frame(TABLE, user="who", features={"x": Integers(0, 9), "t": None}, label="late")
    assert same(data.bind({"x": Integers(0, 9)}), data)
    with pytest.raises(ParameterError, match="declared twice"):
        data.bind({"x": Integers(0, 10)})
    with pytest.raises(SchemaError, match="no feature 'z'"):
        data.bind({"z": Floats()})
    with pytest.raises(TypeError):
        data.bind({"t": 5})  # type: ignore[dict-item]
    assert data.bind({"t": Floats()}).features == {"x": Integers(0, 9), "t": Floats()}


def test_the_only_feature_needs_no_name() -> None:
    one, two = (
        UserData.from_frame(TABLE, user="who", features="x"),
        UserData.from_frame(TABLE, user="who", features=["x", "t"]),
    )
    assert one.feature() == "x"
    assert two.feature("t") == "t"
    with pytest.raises(ParameterError, match="name one"):
        two.feature()


# Immutability and privacy of the object


def test_nothing_can_be_changed_afterwards() -> None:
    x, y = np.array([1, 2, 3]), np.array([0, 1, 1], np.uint8)
    for features in ({"x": Integers(0, 9)}, {"x": Integers(-1, 9)}, ["x"]):
        data = UserData.from_arrays(x, y, [1, 1, 2], features=features)
        x[0], y[0] = 9, 1
        bound = data if data.codes else data.bind({"x": Integers(0, 9)})
        domain = bound.features["x"]
        assert domain is not None
        assert bound.labels is not None
        assert [domain.value(int(c)) for c in bound.codes["x"]] == [1, 2, 3]
        assert bound.labels.tolist() == [0, 1, 1]
        x[0], y[0] = 1, 0
        for array in (bound.offsets, bound.codes["x"], bound.labels):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 5
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    kept = UserData.from_frame(frame, user=None, features="x")
    frame.to_numpy().setflags(write=True)
    frame.loc[0, "x"] = 7.0
    assert [Floats().value(int(c)) for c in kept.bind({"x": Floats()}).codes["x"]] == [1.0, 2.0]
    with pytest.raises(AttributeError):
        kept.labels = None  # type: ignore[misc]
    with pytest.raises(TypeError):
        kept.features["z"] = None  # type: ignore[index]


def test_repr_shows_the_schema_and_no_count() -> None:
    small = UserData.from_frame(TABLE, user="who", features={"x": Integers(0, 9), "t": None}, label="late")
    large = UserData.from_frame(
        pl.concat([TABLE, TABLE.with_columns(who=pl.col("who") + 5)]),
        user="who",
        features={"x": Integers(0, 9), "t": None},
        label="late",
    )
    assert (
        repr(small)
        == repr(large)
        == str(large)
        == "UserData(unit='user', features={'x': Integers(lo=0, hi=9), 't': 'unbound'}, label=True)"
    )


# Subsets and folds


def test_take_selects_users() -> None:
    data = UserData.from_users([[(1, 0), (2, 1)], [], [(3, 1)]], features={"x": Integers(0, 9)})
    assert data.take([2, 0]).to_lists() == [[(3, 1)], [(1, 0), (2, 1)]]
    assert data.take(np.array([True, True, False])).to_lists() == [[(1, 0), (2, 1)], []]
    assert data.take([]).to_lists() == []
    unbound = UserData.from_users([[(1, 0), (2, 1)], [], [(3, 1)]]).take([2])
    assert unbound.bind({"x": Integers(0, 9)}).to_lists() == [[(3, 1)]]
    with pytest.raises(TypeError):
        data.take([0.5])


class Positives:
    """Users with a positive record."""

    def zero(self) -> int:
        return 0

    def chunk(self, users: UserData) -> int:
        assert users.labels is not None
        running = np.concatenate([[0], np.cumsum(users.labels)])
        return int(np.count_nonzero(np.diff(running[users.offsets])))

    def merge(self, a: int, b: int) -> int:
        return a + b


def test_fold_over_users_is_a_sum_over_any_split() -> None:
    data = UserData.from_frame(TABLE, user="who", features=DOMAINS, label="late")
    kernel = Positives()
    assert data.fold(kernel) == 3
    pieces = [data.take([0, 2]), data.take([1]), data.take([])]
    total = kernel.zero()
    for piece in pieces:
        total = kernel.merge(total, piece.fold(kernel))
    assert total == 3


def test_categories_as_feature_and_arrow_dictionary() -> None:
    frame = pa.table({"c": pa.array(["b", "a", "b"]).dictionary_encode(), "y": [1, 0, 1]})
    data = UserData.from_frame(frame, user=None, features={"c": Categories(["a", "b"])}, label="y")
    assert data.to_lists() == [[(1, 1)], [(0, 0)], [(1, 1)]]


def test_rich_shows_no_more_than_repr_does() -> None:
    """It lists the fields of attrs classes that have a ``repr`` of their own, alone and within containers."""
    people = UserData.from_users([[(7731, 1)], [(7732, 0)]] * 3, features={"x": Integers(0, 9999)})
    rules = Thresholds(Integers(0, 9999), "x")
    profile = rules.profile(people, Mean(16))
    for value in (people, profile, profile.law(Fraction(1, 16))):
        for shown in (value, [value], {"a": (value,)}):
            out = io.StringIO()
            Console(file=out, width=500).print(shown)
            assert "773" not in out.getvalue()
            assert len(out.getvalue()) <= 40 + len(repr(value))
        out = io.StringIO()
        Console(file=out, width=500).print(value)
        assert out.getvalue().split() == repr(value).split()
