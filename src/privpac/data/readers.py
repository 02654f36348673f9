"""Tables of any kind as a few polars columns; files by their extension.

Only the columns asked for are read.  A CSV field is text until a domain reads it, so that no digit is lost and a bad
field is counted like any other; lines with too few or too many fields are refused.  Messages name files and columns
as the caller gave them, never a line or a value.
"""

from __future__ import annotations

import csv
import glob
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from privpac.data.columns import check_arrow, column, plain, sound
from privpac.data.ids import id_column
from privpac.data.schema import quietly
from privpac.errors import ParameterError, SchemaError
from privpac.lazy import need

__all__ = [
    "MISSING_TEXTS",
    "check_names",
    "check_size",
    "counted_rows",
    "csv_names",
    "expand",
    "read_files",
    "read_frame",
]

MISSING_TEXTS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""CSV fields that stand for a missing value; an id among them is never a user."""

Table = dict[str, pl.Series]


def read_frame(frame: Any, wanted: Sequence[str], user: str | None = None) -> Table:
    """Columns of a pandas, polars, Arrow or DuckDB table, or of anything else that narwhals knows; ``user`` names the
    one of ids."""
    if hasattr(frame, "iloc"):  # pandas allows one name twice
        check_names([str(name) for name in frame.columns], wanted, "the table")
    try:
        table = nw.from_native(frame)
    except TypeError:
        raise TypeError(
            f"a table must be a pandas, polars, Arrow or DuckDB frame, got {type(frame).__name__}"
        ) from None
    except Exception:
        table = None
    if table is None:
        raise SchemaError("the table cannot be read; its column names must be unique") from None
    check_names(
        quietly(lambda: list(table.collect_schema().names()), "the table's columns cannot be read"), wanted, "the table"
    )
    if isinstance(table, nw.LazyFrame):
        lazy = table
        table = quietly(
            lambda: lazy.select(*wanted).collect("polars"),
            "the table cannot be computed; run its query alone to see why",
        )
    return {
        name: (id_column if name == user else column)(nw.to_native(table.get_column(name)), name) for name in wanted
    }


def read_files(
    path: str | os.PathLike[str], wanted: Sequence[str], missing: Sequence[str] = MISSING_TEXTS
) -> tuple[Table, bool]:
    """Columns of one file or of all files of a glob in the order of their names, and whether they are plain text."""
    if isinstance(missing, str):
        raise TypeError("missing must be a list of texts, got one text")
    files = expand(path)
    readers: dict[str, Callable[[Path, Sequence[str], Sequence[str]], pl.DataFrame]] = {
        ".parquet": _read_parquet,
        ".csv": _read_csv,
    }
    kinds = {file.suffix.lower() for file in files}
    if len(kinds) != 1 or not kinds <= readers.keys():
        raise ParameterError(f"a table must be .parquet or .csv files of one kind, got {os.fspath(path)!r}")
    kind = kinds.pop()
    need("pyarrow", "reading a file")
    frames = [readers[kind](file, wanted, missing) for file in files]
    joined = quietly(
        lambda: pl.concat(frames, how="vertical"),
        "the files disagree on the type of a column; write them with one schema",
    )
    return {name: plain(joined.get_column(name)) for name in wanted}, kind == ".csv"


def expand(path: str | os.PathLike[str], *, folders: bool = False) -> list[Path]:
    """The files that a path or a glob names, in order; of a folder, if that may be named, its Parquet files."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be text or a path, got {type(path).__name__}")
    shown = os.fspath(path)
    files = (
        [Path(shown)] if os.path.exists(shown) else [Path(found) for found in sorted(glob.glob(shown, recursive=True))]
    )
    if not files:
        raise ParameterError(f"no file matches {shown!r}")
    if folders:
        files = [found for file in files for found in (sorted(file.rglob("*.parquet")) if file.is_dir() else [file])]
    if any(file.is_dir() for file in files):
        raise ParameterError(f"{shown!r} is a folder; name its files, for example {os.path.join(shown, '*.parquet')!r}")
    return files


def check_names(names: Sequence[str], wanted: Sequence[str], where: str) -> None:
    """Refuse a table in which a wanted column is absent or ambiguous."""
    if not names:
        raise SchemaError(f"{where} has no columns") from None
    absent = [name for name in wanted if name not in names]
    if absent:
        raise SchemaError(
            f"{where} has no column {', '.join(map(repr, absent))}; check the names given for user, features and label"
        ) from None
    counts = Counter(names)
    twice = [name for name in wanted if counts[name] > 1]
    if twice:
        raise SchemaError(f"{where} has {counts[twice[0]]} columns named {twice[0]!r}; names must be unique") from None


def _read_parquet(file: Path, wanted: Sequence[str], missing: Sequence[str]) -> pl.DataFrame:
    where = f"file {file.name!r}"
    check_size(file, where)
    broken = f"{where} is not a readable Parquet file"
    parquet = need("pyarrow.parquet", "reading a Parquet file")
    schema = quietly(lambda: parquet.read_schema(file), broken)
    check_names(schema.names, wanted, where)
    for name in wanted:
        check_arrow(schema.field(name).type, name)
    rows = quietly(lambda: counted_rows(parquet.read_metadata(file)), broken)
    frame = quietly(lambda: pl.read_parquet(file, columns=list(wanted), glob=False, hive_partitioning=False), broken)
    if len(frame) != rows:
        raise SchemaError(broken) from None
    days = [name for name in wanted if str(schema.field(name).type).startswith("date") and frame[name].dtype != pl.Date]
    return frame.with_columns(pl.col(*days).cast(pl.Date)) if days else frame


def counted_rows(metadata: Any) -> int:
    """The rows that a Parquet file says it has, in all and group by group; ``ValueError`` if it says two things.

    Readers follow one count or the other, and a reader that fails half-way may give the rows before: so whoever reads
    counts them.
    """
    rows = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    if rows != metadata.num_rows:
        raise ValueError
    return int(rows)


def _read_csv(file: Path, wanted: Sequence[str], missing: Sequence[str]) -> pl.DataFrame:
    where = f"file {file.name!r}"
    check_size(file, where)
    broken = (
        f"{where} is not a well-formed CSV table: every line needs as many fields as the first, in UTF-8, with closed "
        "quotes"
    )
    names, rows = quietly(lambda: _header(file), broken)
    check_names(names, wanted, where)
    if not rows:
        return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
    text = dict.fromkeys(wanted, "string")
    arrow_csv = need("pyarrow.csv", "reading a CSV file")
    convert = arrow_csv.ConvertOptions(
        include_columns=list(wanted),
        column_types=text,
        null_values=list(missing),
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    table = quietly(lambda: arrow_csv.read_csv(file, convert_options=convert, parse_options=parse), broken)
    frame = quietly(lambda: pl.from_arrow(sound(table)), broken)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _header(file: Path) -> tuple[list[str], bool]:
    """The names, and whether anything follows them."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return next(csv.reader(lines, strict=True), []), lines.read(1) != ""


def csv_names(file: Path) -> list[str]:
    """The first line of a CSV file; whatever comes after it decides nothing."""
    where = f"file {file.name!r}"
    check_size(file, where)

    def first() -> list[str]:
        with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
            names = next(csv.reader(lines, strict=True), [])
        return [name.encode().decode() for name in names]  # names alone must be UTF-8

    return quietly(first, f"{where} does not begin with a line of column names in UTF-8")


def check_size(file: Path, where: str) -> None:
    """Refuse an empty file."""
    if quietly(lambda: file.stat().st_size, f"{where} cannot be read") == 0:
        raise SchemaError(f"{where} is empty: no columns") from None
