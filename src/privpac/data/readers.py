"""Tables of any kind as a few polars columns; files by their extension.

Only the columns asked for are read.  A CSV field is text until a domain reads it, so that no digit is lost and a bad
field is counted like any other.  What separates one record from the next is judged for the file as a whole, before
any record is read: quotes, NUL bytes, the number of fields and UTF-8 (:func:`_scanned`).  Messages name files and
columns as the caller gave them, never a line or a value.

The first line of a CSV file names its columns.  A file without such a line begins with somebody's record, so a first
line that looks like one is refused, and none of its cells is shown: :class:`CsvFormat` says how a file is written.
"""

from __future__ import annotations

import csv
import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data.columns import check_arrow, column, plain, sound
from privpac.data.ids import id_column
from privpac.data.loops import jit
from privpac.data.schema import quietly
from privpac.errors import ParameterError, SchemaError, did_you_mean
from privpac.lazy import need

MISSING_TEXTS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""CSV fields that stand for a missing value; an id among them is never a user."""

TablePath = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A file, a glob of files, or several of these."""
_Table = dict[str, pl.Series]
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
_LONGEST = 1 << 24
"""Characters of a first line; what has more is no line of names."""
_LONGEST_RECORD = 1 << 30
"""Bytes of a record: Arrow counts those of a block in 31 bits."""


def _separator(value: object) -> str | None:
    if value is None:
        return None
    if value in ("tab", "\\t"):
        return "\t"
    if not isinstance(value, str):
        raise TypeError(f"separator must be one character, got {type(value).__name__}")
    if len(value) != 1 or not value.isascii() or value.isalnum() or value in ' \0\r\n"':
        raise ParameterError(f"separator must be one character such as ; or tab (\\t), got {value[:20]!r}")
    return value


def _header(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"header must be True, False or None, got {type(value).__name__}")
    return value


def _names(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise TypeError(f"names must be a list of column names, got {type(value).__name__}")
    odd = next((name for name in value if not isinstance(name, str)), None)
    if odd is not None:
        raise TypeError(f"a column's name must be text, got {type(odd).__name__}")
    if not value or not all(value) or len(set(value)) < len(value):
        raise ParameterError("names must name every column of the file, in order, each by another name")
    return tuple(value)


@frozen
class CsvFormat:
    """How a CSV file is written: what separates its fields, and where the names of its columns are.

    Parameters
    ----------
    separator : str, optional
        One character, such as ``";"`` or ``"\\t"`` (also written ``"tab"``).  None: a comma, and a file that looks as
        if another one separated its fields is refused.
    header : bool, optional
        Whether the first line names the columns.  None: it does, and a file whose first line looks like a record is
        refused.
    names : sequence of str, optional
        With ``header=False``: the names of all columns, in order.
    """

    separator: str | None = field(default=None, converter=_separator)
    header: bool | None = field(default=None, converter=_header)
    names: tuple[str, ...] | None = field(default=None, converter=_names)

    def __attrs_post_init__(self) -> None:
        if self.names is not None and self.header is not False:
            raise ParameterError("names= are for a file whose first line is a record: say header=False as well")
        if self.names is None and self.header is False:
            raise ParameterError("header=False says that no line names the columns: name all of them with names=")

    @property
    def delimiter(self) -> str:
        return self.separator or ","


AS_USUAL = CsvFormat()


def read_frame(frame: Any, wanted: Sequence[str], user: str | None = None) -> _Table:
    """Columns of a pandas, polars, Arrow or DuckDB table, or of anything else that narwhals or Arrow knows; ``user``
    names the one of ids."""
    frame = as_table(frame)
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


def is_frame(table: Any) -> bool:
    """Whether narwhals knows this kind of table, readable or not."""
    try:
        return isinstance(nw.from_native(table), (nw.DataFrame, nw.LazyFrame))
    except TypeError:
        return False
    except Exception:  # it is one, with columns that cannot be read
        return True


def as_table(frame: object) -> Any:
    """A frame as it is; what only hands out a stream of Arrow's, which can be read once, as a table in memory."""
    if is_frame(frame) or not hasattr(frame, "__arrow_c_stream__"):
        return frame
    arrow = need("pyarrow", "reading a stream of Arrow's")
    return quietly(lambda: arrow.table(frame), "the stream of Arrow cannot be read, or was read before; make it again")


def read_files(
    path: TablePath,
    wanted: Sequence[str],
    missing: Sequence[str] = MISSING_TEXTS,
    written: CsvFormat = AS_USUAL,
) -> tuple[_Table, bool]:
    """Columns of one file or of all files of a glob in the order of their names, and whether they are plain text."""
    if isinstance(missing, str):
        raise TypeError("missing must be a list of texts, got one text")
    files = expand(path)
    kinds = {file.suffix.lower() for file in files}
    if len(kinds) != 1 or not kinds <= {".parquet", ".csv"}:
        raise ParameterError(
            f"a table must be .parquet or .csv files of one kind, not compressed, got {shown_path(path)}"
        )
    kind = kinds.pop()
    if kind == ".parquet":
        no_format(written)
    need("pyarrow", "reading a file")
    frames = [
        _read_parquet(file, wanted) if kind == ".parquet" else _read_csv(file, wanted, missing, written)
        for file in files
    ]
    joined = quietly(
        lambda: pl.concat(frames, how="vertical"),
        "the files disagree on the type of a column; write them with one schema",
    )
    return {name: plain(joined.get_column(name)) for name in wanted}, kind == ".csv"


def is_path(table: object) -> bool:
    """Whether a table is named by its file, or by several."""
    several = isinstance(table, (list, tuple)) and bool(table) and all(isinstance(p, (str, os.PathLike)) for p in table)
    return several or isinstance(table, (str, os.PathLike))


def shown_path(path: TablePath) -> str:
    """The path as the caller gave it, the first of several."""
    if isinstance(path, (str, os.PathLike)):
        return repr(os.fspath(path))
    return repr(os.fspath(path[0])) + (f" and {len(path) - 1} more" if len(path) > 1 else "")


def expand(path: TablePath, *, folders: bool = False) -> list[Path]:
    """The files that a path or a glob names, in order; of a folder, if that may be named, its Parquet files; those of
    several paths one after the other, each once, by whatever name."""
    if not isinstance(path, (str, os.PathLike)) and is_path(path):
        found: dict[str, Path] = {}
        for file in (file for one in path for file in expand(one, folders=folders)):
            found.setdefault(os.path.realpath(file), file)
        return list(found.values())
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


def no_format(written: CsvFormat) -> None:
    """Refuse a format where no CSV file is read."""
    if written != AS_USUAL:
        raise ParameterError("separator, header and names describe .csv files; leave them out for .parquet files")


def check_names(names: Sequence[str], wanted: Sequence[str], where: str) -> None:
    """Refuse a table in which a wanted column is absent or ambiguous."""
    if not names:
        raise SchemaError(f"{where} has no columns") from None
    absent = [name for name in wanted if name not in names]
    if absent:
        raise SchemaError(
            f"{where} has no column {', '.join(map(repr, absent))}; check the names given for user, features and label"
            f"{did_you_mean(absent[0], names)}"
        ) from None
    counts = Counter(names)
    twice = [name for name in wanted if counts[name] > 1]
    if twice:
        raise SchemaError(f"{where} has {counts[twice[0]]} columns named {twice[0]!r}; names must be unique") from None


def _read_parquet(file: Path, wanted: Sequence[str]) -> pl.DataFrame:
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


def _read_csv(file: Path, wanted: Sequence[str], missing: Sequence[str], written: CsvFormat) -> pl.DataFrame:
    where = f"file {file.name!r}"
    broken = (
        f"{where} is not a well-formed CSV table: every line needs as many fields as the first, in UTF-8, with closed "
        "quotes around whole fields"
    )
    names = csv_names(file, written, wanted)
    check_names(names, wanted, where)
    scan = quietly(lambda: _scanned(file, written.delimiter), f"{where} cannot be read")
    if scan.has_nul:
        raise SchemaError(_not_text(where, "no text: it has NUL bytes")) from None
    if scan.misquoted:
        raise SchemaError(broken) from None
    if scan.longest > _LONGEST_RECORD:
        raise SchemaError(
            f"{where} has a record of more than {_LONGEST_RECORD} bytes; save it as a .parquet file"
        ) from None
    if written.header is not False and not quietly(lambda: _has_records(file, written), broken):
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
    parse = arrow_csv.ParseOptions(newlines_in_values=True, delimiter=written.delimiter)
    options = {"convert_options": convert, "parse_options": parse}
    options["read_options"] = arrow_csv.ReadOptions(
        column_names=None if written.names is None else names,
        block_size=max(1 << 20, scan.longest + 2),  # a record may lie in two blocks, not in three; 2: its line end
    )
    table = quietly(lambda: arrow_csv.read_csv(file, **options), broken)
    frame = quietly(lambda: pl.from_arrow(sound(table)), broken)
    assert isinstance(frame, pl.DataFrame)
    return frame


# Where the records of a CSV file end


@frozen
class _Scan:
    """What the bytes of a CSV file say about its records."""

    fields: int
    """Of the first record that is no empty line."""
    longest: int
    """Bytes of the longest record, without its line end."""
    misquoted: bool
    has_nul: bool


_START, _PLAIN, _QUOTED, _CLOSING = range(4)


def _scanned(file: Path, separator: str, first: bool = False) -> _Scan:
    """One pass over a file, or over its ``first`` record, in small memory.

    The grammar is that of RFC 4180: a quote opens at the start of a field, is written twice inside, and closes before
    a separator, a line end or the end of the file; a field that does not begin with one has none.  A reader that goes
    on after a quote without its partner takes the records of the people after it for a part of the field, up to a quote
    of theirs: no record can be repaired alone, so that the file is refused.
    """
    seen = np.zeros(7, np.int64)
    block = np.empty(1 << 18, np.uint8)
    with file.open("rb") as data:
        if data.read(3) != b"\xef\xbb\xbf":  # the mark of UTF-8 belongs to no field
            data.seek(0)
        while (size := data.readinto(block.data)) and not (first and seen[1]):
            _scan(block[:size], ord(separator), seen)
    state, _, separators, length, longest, misquoted, has_nul = seen.tolist()
    longest = max(longest, length)
    return _Scan(separators + 1 if longest else 0, longest, bool(misquoted) or state == _QUOTED, bool(has_nul))


@jit
def _scan(data: NDArray[np.uint8], separator: int, seen: NDArray[np.int64]) -> None:
    """Go on from what was ``seen``: the state, whether the first record has ended, its separators, the bytes of this
    record and of the longest, whether text follows a closing quote, whether there is a NUL."""
    state, ended, separators, length, longest, misquoted, has_nul = (
        seen[0],
        seen[1],
        seen[2],
        seen[3],
        seen[4],
        seen[5],
        seen[6],
    )
    for i in range(data.size):
        byte = data[i]
        if byte == 0:
            has_nul = 1
        if state == _QUOTED:
            if byte == 34:
                state = _CLOSING
        elif byte == 10 or byte == 13:
            if length > 0:
                ended = 1
                longest = max(longest, length)
            state, length = _START, -1
        elif byte == separator:
            state = _START
            separators += 1 - ended
        elif byte == 34:
            # a quote inside a field that does not begin with one: as bytes, it could end a field that somebody else
            # opened
            if state == _PLAIN:
                misquoted = 1
            state = _QUOTED
        else:
            if state == _CLOSING:
                misquoted = 1
            state = _PLAIN
        length += 1
    seen[0], seen[1], seen[2], seen[3] = state, ended, separators, length
    seen[4], seen[5], seen[6] = longest, misquoted, has_nul


# The first line of a CSV file


def csv_names(file: Path, written: CsvFormat = AS_USUAL, wanted: Sequence[str] = ()) -> list[str]:
    """The columns of a CSV file, by its first line; whatever comes after it decides nothing.

    Of a first line that is somebody's record (``header=False``) the fields are counted, as of any other.  Another first
    line that looks like a record, or as if another character separated its cells, is refused unless it holds
    all ``wanted`` names; so is a file of another kind.  No cell is shown: it may be somebody's.
    """
    where = f"file {file.name!r}"
    check_size(file, where)
    if written.names is not None:
        _check_count(file, written, written.names)
        return list(written.names)
    kind = quietly(lambda: _other_kind(file), f"{where} cannot be read")
    if kind:
        raise SchemaError(_not_text(where, kind)) from None
    cells, closed = quietly(lambda: _first_cells(file, written.delimiter), _not_text(where))
    if any("\0" in cell or not _is_text(cell) for cell in cells):
        raise SchemaError(_not_text(where)) from None
    if not cells:
        raise SchemaError(f"{where} has no columns: its first line is empty") from None
    if closed and wanted and set(wanted) <= set(cells):
        return cells
    other = _separated_by(cells) if written.separator is None else None
    if other is not None:
        raise SchemaError(
            f"{where}: {SEPARATORS[other]} seems to separate the names in its first line, not a comma; say so with "
            "separator="
        ) from None
    if not closed:
        raise SchemaError(f"{where}: the quotes in its first line are not closed, or have text beside them") from None
    odd = _unlike_names(cells) if written.header is None else 0
    if odd:
        raise SchemaError(
            f"{where}: its first line looks like a record, not like names of columns: {odd} of its {len(cells)} cells "
            "are numbers, dates, empty or there twice; if it is a record, say header=False and name all columns with "
            "names=; if these are names, say header=True"
        ) from None
    return cells


_MAGIC = {
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"\x1f\x8b": "compressed by gzip",
    b"PK\x03\x04": "a zip archive or an Excel file",
    b"\xd0\xcf\x11\xe0": "an Excel file",
    b"%PDF-": "a PDF document",
    b"SQLite format 3\0": "an SQLite database",
    b"ARROW1\0": "an Arrow file",
}
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?\s?%?")
_TIME = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s?(Z|[+-]\d{2}:?\d{2})?"
_MOMENT = re.compile(rf"\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}([T ]\s?{_TIME})?|{_TIME}")


def _other_kind(file: Path) -> str | None:
    """What a file is, if its first bytes say that it is no text in UTF-8."""
    with file.open("rb") as data:
        start = data.read(16)
        data.seek(-min(4, file.stat().st_size), os.SEEK_END)
        if start.startswith(b"PAR1") and data.read() == b"PAR1":
            return "a Parquet file"
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


def _not_text(where: str, kind: str | None = None) -> str:
    seen = "begins with what is no text" if kind is None else f"is {kind}"
    return f"{where} is not a CSV table in UTF-8, it {seen}; save it as CSV in UTF-8, or as a .parquet file"


def _lines(file: Path) -> Iterator[str]:
    """Lines of a file, of which those with bytes that are no UTF-8 can be told by :func:`_is_text`."""
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
        while line := lines.readline(_LONGEST):
            if len(line) == _LONGEST:
                raise ValueError
            yield line


def _first_cells(file: Path, delimiter: str) -> tuple[list[str], bool]:
    """The first record and True; the cells of the first line and False where quotes do not go round whole cells, as
    happens with another separator than the file's own."""
    with suppress(csv.Error):
        return next(csv.reader(_lines(file), strict=True, delimiter=delimiter), []), True
    return next(csv.reader(islice(_lines(file), 1), delimiter=delimiter), []), False


def _has_records(file: Path, written: CsvFormat) -> bool:
    """Whether anything follows the line of names."""
    lines = _lines(file)
    next(csv.reader(lines, strict=True, delimiter=written.delimiter), None)
    return next(lines, None) is not None


def _is_text(cell: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in cell)


def _separated_by(cells: Sequence[str]) -> str | None:
    """The character that all cells hold as separators do."""
    return next((mark for mark in SEPARATORS if mark != "," and all(mark in cell for cell in cells)), None)


def _check_count(file: Path, written: CsvFormat, names: Sequence[str]) -> None:
    """Refuse a first record with another number of fields than there are names, with a hint at the character that
    gives as many."""
    where = f"file {file.name!r}"
    unreadable = f"{where} cannot be read"
    first = quietly(lambda: _scanned(file, written.delimiter, first=True), unreadable)
    if first.fields == len(names):
        return
    if not first.fields:
        raise SchemaError(f"{where} has no columns: its first line is empty") from None
    others = [mark for mark in SEPARATORS if mark != written.delimiter and len(names) > 1]
    fitting = quietly(
        lambda: [mark for mark in others if _scanned(file, mark, first=True).fields == len(names)], unreadable
    )
    hint = f"; if {SEPARATORS[fitting[0]]} separates the fields, say so with separator=" if fitting else ""
    raise SchemaError(
        f"{where}: its first line has {first.fields} fields and names= has {len(names)}; name all "
        f"columns, in order{hint}"
    ) from None


def _unlike_names(cells: Sequence[str]) -> int:
    """How many cells are no names.  One empty cell before names is: so R and pandas write the column of row names."""
    cells = [cell.strip(" \t'") for cell in cells]
    counts = Counter(cells)
    odd = sum(not cell or counts[cell] > 1 or _is_value(cell) for cell in cells)
    return 0 if odd == 1 and len(cells) > 1 and not cells[0] else odd


def _is_value(cell: str) -> bool:
    """Whether a cell that is not empty is a number, a date or a time."""
    return _NUMBER.fullmatch(cell) is not None or _MOMENT.fullmatch(cell) is not None


def check_size(file: Path, where: str) -> None:
    """Refuse an empty file."""
    if quietly(lambda: file.stat().st_size, f"{where} cannot be read") == 0:
        raise SchemaError(f"{where} is empty: no columns") from None
