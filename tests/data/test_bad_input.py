"""Bad tables raise one clear line that holds no value, row or id, and chain nothing."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from privpac.data import Categories, Dates, Floats, Grid, Integers, UserData
from privpac.errors import ParameterError, PrivpacError, SchemaError

SECRET = re.compile("7777|secret")


def refused(action: Callable[[], object], pattern: str, kind: type[PrivpacError] = SchemaError) -> None:
    with pytest.raises(kind, match=pattern) as caught:
        action()
    error = caught.value
    shown = "".join(traceback.format_exception_only(error)) + str(error)
    assert "\n" not in str(error)
    assert not SECRET.search(shown)
    if kind is SchemaError:
        assert error.__cause__ is None
        assert error.__suppress_context__
        assert error.__context__ is None


def table(**columns: Any) -> pl.DataFrame:
    base: dict[str, Any] = {"u": [1, 1, 2], "x": [1, 2, 3], "y": [0, 1, 1]}
    return pl.DataFrame(base | columns, strict=False)


def build(frame: Any, **changes: Any) -> UserData:
    return UserData.from_frame(frame, **({"user": "u", "features": {"x": Integers(0, 9)}, "label": "y"} | changes))


def forms(frame: pl.DataFrame) -> list[Any]:
    return [frame, frame.lazy(), frame.to_pandas(), frame.to_arrow(), duckdb.connect().from_arrow(frame.to_arrow())]


# Values

BAD: list[tuple[dict[str, Any], str]] = [
    ({"x": [1, 7777, -7777]}, "^column 'x': 2 outside whole numbers 0..9 \\(number of records\\); allowed"),
    ({"x": [1, None, 3]}, "^column 'x': 1 missing or NaN \\(number of records\\); allowed"),
    ({"x": [1.0, float("nan"), 7777.5]}, "^column 'x': 1 missing or NaN, 1 outside"),
    ({"x": [1.0, float("inf"), float("-inf")]}, "^column 'x': 2 outside"),
    ({"x": [1.0, 2.5, 3.0]}, "^column 'x': 1 not whole numbers"),
    ({"x": ["1", "secret", "7777x"]}, "^column 'x': 2 not a number"),
    ({"x": pl.Series([1, 2, 7777 * 10**30], dtype=pl.Int128)}, "^column 'x': 1 outside"),
    (
        {"x": pl.Series([Decimal("1.5"), Decimal(2), Decimal(7777)])},
        "^column 'x': 1 outside whole numbers 0..9, 1 not whole numbers",
    ),
    ({"x": [[1], [2], [7777]]}, "^column 'x' has type List; numbers are needed"),
    ({"u": [1, None, 2]}, "^column 'u': 1 user ids are missing"),
    ({"u": ["secret", "", None]}, "^column 'u': 2 user ids are missing"),
    ({"u": [1.0, float("nan"), 2.0]}, "^column 'u': 1 user ids are missing"),
    ({"u": [1.0, 7777.5, 2.0**53]}, "^column 'u': 2 user ids are fractions or beyond 2"),
    ({"u": [[1], [2], [7777]]}, "^column 'u' has type List; user ids that are integers or text are needed"),
    ({"y": [0, 1, 2]}, "^column 'y': 1 not 0 or 1 \\(number of records\\); allowed: 0/1 or booleans"),
    ({"y": [0, 1, -7777]}, "^column 'y': 1 not 0 or 1"),
    ({"y": [0.0, 0.5, float("nan")]}, "^column 'y': 1 missing or NaN, 1 not 0 or 1"),
    ({"y": [True, None, False]}, "^column 'y': 1 missing or NaN"),
    ({"y": ["0", "1", "secret"]}, "^column 'y' has type String; labels 0/1 or booleans"),
]


@pytest.mark.parametrize(("columns", "pattern"), BAD, ids=[f"{next(iter(c))}-{i}" for i, (c, _) in enumerate(BAD)])
def test_bad_values_are_counted_never_quoted(columns: dict[str, Any], pattern: str) -> None:
    frame = table(**columns)
    refused(lambda: build(frame), pattern)
    refused(lambda: build(frame.lazy()), pattern)
    if "Int128" not in str(frame.schema):
        refused(lambda: build(frame.to_arrow()), pattern)


@pytest.mark.parametrize(("columns", "pattern"), BAD, ids=[f"{next(iter(c))}-{i}" for i, (c, _) in enumerate(BAD)])
def test_drop_and_clamp_raise_nothing_about_values(columns: dict[str, Any], pattern: str) -> None:
    if "has type" in pattern:
        return
    for rule in ("drop", "clamp"):
        data = build(table(**columns), on_invalid=rule, on_invalid_label="drop")
        assert data.n_records <= 3
        if "y" in columns:
            refused(lambda rule=rule: build(table(**columns), on_invalid=rule), pattern)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("mixed", "pattern"),
    [
        ([1, "secret", 3], "1 not a number"),
        ([1, object(), 3], "1 not a number"),
        ([1, {"secret": 7777}, 3], "1 not a number"),
        (["secret", 7777, None], "1 missing or NaN, 1 outside whole numbers 0..9, 1 not a number"),
    ],
    ids=["text", "object", "dict", "number"],
)
def test_mixed_objects_in_pandas_are_judged_one_by_one(mixed: list[Any], pattern: str) -> None:
    frame = pd.DataFrame({"u": [1, 1, 2], "x": pd.Series(mixed, dtype=object), "y": [0, 1, 1]})
    refused(lambda: build(frame), f"^column 'x': {pattern} \\(number of records\\); allowed")
    assert build(frame, on_invalid="drop").n_records == sum(isinstance(value, int) and value < 10 for value in mixed)


def test_huge_python_integers_are_outside_not_a_crash() -> None:
    for huge in (7777 * 10**40, -(10**4000)):
        frame = pd.DataFrame({"u": [1, 1, 2], "x": pd.Series([1, huge, 3], dtype=object), "y": [0, 1, 1]})
        refused(lambda frame=frame: build(frame), "^column 'x': 1 outside whole numbers")  # type: ignore[misc]


def test_values_outside_label_map_are_counted() -> None:
    frame = table(y=["yes", "secret", None])
    refused(lambda: build(frame, label_map={"yes": 1, "no": 0}), "^column 'y': 1 missing or NaN, 1 not in label_map")
    for policy in ("drop", "clamp"):
        told: dict[str, Any] = {"label_map": {"yes": 1, "no": 0}, "on_invalid": policy}
        refused(lambda told=told: build(frame, **told), "1 missing or NaN, 1 not in label_map.*on_invalid_label='drop'")  # type: ignore[misc]
        assert build(frame, **told, on_invalid_label="drop").n_records == 1


@pytest.mark.parametrize(
    ("domain", "values", "pattern"),
    [
        (Grid(0, 9, "0.5"), [1, 0.7777, 3], "1 off the grid"),
        (Floats(), [1, float("inf"), 3], "1 outside finite"),
        (Dates("2020-01-01", "2020-01-31"), ["2020-01-02", "secret", "2020-01-03"], "1 not an ISO date"),
        (Dates("2020-01-01", "2020-01-31"), [1, 7777, 2], "has type Int64; dates are needed"),
        (Categories(["a"]), ["a", "secret", "a"], "1 not a listed category"),
    ],
)
def test_every_domain_refuses_at_construction_and_at_bind(domain: Any, values: list[Any], pattern: str) -> None:
    refused(lambda: build(table(x=values), features={"x": domain}), f"^column 'x'.*{pattern}")
    refused(lambda: build(table(x=values), features=["x"]).bind({"x": domain}), f"^column 'x'.*{pattern}")


# Schema


def test_missing_columns_are_named() -> None:
    for frame in forms(table()):
        refused(lambda frame=frame: build(frame, features=["nope"]), "^the table has no column 'nope'")  # type: ignore[misc]
        refused(lambda frame=frame: build(frame, user="who", label="late"), "^the table has no column 'who', 'late'")  # type: ignore[misc]


def test_tables_without_columns_are_refused() -> None:
    for frame in (pl.DataFrame(), pd.DataFrame(), pa.table({})):
        refused(lambda frame=frame: build(frame), "^the table has no columns")  # type: ignore[misc]


def test_duplicate_column_names_are_refused() -> None:
    twice = pd.DataFrame([[1, 2, 7777, 0]], columns=["u", "x", "x", "y"])
    refused(lambda: build(twice), "^the table has 2 columns named 'x'; names must be unique")
    arrow = pa.table([[1], [2], [7777], [0]], names=["u", "x", "x", "y"])
    refused(lambda: build(arrow), "names must be unique|the table")


def test_failing_queries_keep_their_message_to_themselves() -> None:
    bad = table(x=["1", "secret7777", "3"])
    refused(lambda: build(bad.lazy().with_columns(pl.col("x").cast(pl.Int64))), "^the table cannot be computed")
    connection = duckdb.connect()
    connection.register("bad", bad.to_arrow())
    refused(
        lambda: build(connection.sql("select u, cast(x as bigint) as x, y from bad")), "^the table cannot be computed"
    )


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"features": []}, ParameterError),
        ({"features": ["x", "x"]}, ParameterError),
        ({"features": ["u"]}, ParameterError),
        ({"features": ["y"]}, ParameterError),
        ({"user": "y"}, ParameterError),
        ({"features": 5}, TypeError),
        ({"features": [5]}, TypeError),
        ({"features": {"x": 5}}, TypeError),
        ({"user": 5}, TypeError),
        ({"label": 5}, TypeError),
        ({"on_invalid": "ignore"}, ParameterError),
        ({"on_invalid": None}, TypeError),
        ({"label_map": {}}, ParameterError),
        ({"label_map": {"a": 2}}, ParameterError),
        ({"label_map": {"a": 0.5}}, ParameterError),
        ({"label_map": ["a"]}, TypeError),
    ],
)
def test_bad_declarations_are_seen_before_the_table(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        build(None, **changes)


@pytest.mark.parametrize("frame", [None, 5, "data.parquet", {"x": [1]}, np.zeros(3)])
def test_things_that_are_no_table(frame: Any) -> None:
    with pytest.raises(TypeError, match="a table must be"):
        build(frame)


def test_arrays_of_different_lengths_or_shapes() -> None:
    x = np.arange(3)
    refused(lambda: UserData.from_arrays(x, [0, 1]), "lengths differ")
    refused(lambda: UserData.from_arrays(x, [0, 1, 1], [1, 2]), "lengths differ")
    refused(lambda: UserData.from_arrays(np.zeros((2, 2, 2)), [0, 1]), "one or two dimensions, got 3")
    refused(lambda: UserData.from_arrays([[1], [2, 3]], [0, 1]), "1 records do not have 1 features, as the first")
    refused(lambda: UserData.from_arrays(np.zeros((2, 2)), [0, 1], features=["x"]), "2 columns but 1 features")
    refused(lambda: UserData.from_arrays(x, [0, 1, 7]), "^column 'y': 1 not 0 or 1")
    refused(lambda: UserData.from_arrays(x, [0, 1, 1], [1, None, 2]), "^column 'users': 1 user ids are missing")


def test_ragged_lists_of_users() -> None:
    refused(lambda: UserData.from_users([[(1, 0)], [(7777, 1, 0)]]), "^1 records do not have 1 features and a label")
    refused(lambda: UserData.from_users([[(1, 2)]]), "^column 'y': 1 not 0 or 1")
    refused(lambda: UserData.from_users([[(1,)]]), "records do not have 1 features and a label")


# Files


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("t.csv", b"", "^file 't.csv' is empty: no columns"),
        ("t.parquet", b"", "^file 't.parquet' is empty: no columns"),
        ("t.csv", b"\n", "^file 't.csv' "),
        ("t.csv", b"u,x,y\n1,2,0\n1,7777,0,secret\n", "^file 't.csv' is not a well-formed CSV"),
        ("t.csv", b"u,x,y\n1,2,0\n7777,secret\n", "^file 't.csv' is not a well-formed CSV"),
        ("t.csv", b'u,x,y\n1,"secret7777,0\n1,2,0\n', "^file 't.csv' is not a well-formed CSV"),
        ("t.csv", b"u,x,y\n\xff\xfesecret,2,0\n", "^file 't.csv' is not a well-formed CSV"),
        ("t.csv", b"u,x,x,y\n1,2,7777,0\n", "^file 't.csv' has 2 columns named 'x'"),
        ("t.csv", b"u,z,y\n1,7777,0\n", "^file 't.csv' has no column 'x'"),
        ("t.csv", b"u,x,y\n1,secret,0\n", "^column 'x': 1 not a number"),
        ("t.csv", b"u,x,y\n1,2,7777\n", "^column 'y': 1 not 0 or 1"),
        ("t.csv", b"u,x,y\n1,2,\n", "^column 'y': 1 missing"),
        ("t.csv", b"u,x,y\nNA,2,1\n,3,1\n", "^column 'u': 2 user ids are missing"),
        ("t.parquet", b"secret 7777 is no parquet", "^file 't.parquet' is not a readable Parquet file"),
        ("t.parquet", b"PAR1" + b"secret" * 9 + b"PAR1", "^file 't.parquet' is not a readable Parquet file"),
    ],
)
def test_broken_files_are_one_line(tmp_path: Path, name: str, content: bytes, pattern: str) -> None:
    (tmp_path / name).write_bytes(content)
    refused(lambda: UserData.read(tmp_path / name, user="u", features={"x": Integers(0, 9)}, label="y"), pattern)


def test_parquet_without_columns_or_with_a_truncated_tail(tmp_path: Path) -> None:
    pl.DataFrame().write_parquet(tmp_path / "none.parquet")
    refused(lambda: UserData.read(tmp_path / "none.parquet", user="u", features="x"), "has no columns")
    table().write_parquet(tmp_path / "t.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-20])
    refused(lambda: UserData.read(tmp_path / "cut.parquet", user="u", features="x"), "not a readable Parquet")
    refused(
        lambda: UserData.read(tmp_path / "t.parquet", user="u", features="z"), "^file 't.parquet' has no column 'z'"
    )


def test_paths_that_are_no_table(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"x")
    (tmp_path / "t.csv").write_text("u,x\n1,2\n")
    table().write_parquet(tmp_path / "t.parquet")
    for path, pattern in (
        ("nothing.csv", "no file matches"),
        ("no*.parquet", "no file matches"),
        ("", "is a folder"),
        ("t.xlsx", ".parquet or .csv"),
        ("t.*", "of one kind"),
    ):
        refused(lambda path=path: UserData.read(tmp_path / path, user="u", features="x"), pattern, ParameterError)  # type: ignore[misc]
    with pytest.raises(TypeError):
        UserData.read(5, user="u", features="x")  # type: ignore[arg-type]


def test_files_that_disagree_on_a_type(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "a.parquet")
    table(x=["1", "2", "secret"]).write_parquet(tmp_path / "b.parquet")
    refused(
        lambda: UserData.read(str(tmp_path / "*.parquet"), user="u", features="x"),
        "^the files disagree on the type of a column",
    )
