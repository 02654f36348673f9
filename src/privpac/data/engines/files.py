"""Parquet files as one stream of batches, in the order of their names.

A table is a file, a glob, or a folder with everything below it (names that begin with ``_`` or ``.`` are left out, as
Spark and Hive write them for themselves).  A column that the files lack but every path names
(``year=2024/part-0.parquet``) is read from the path, as text.  Types and sizes come from the files' own metadata; a
file whose sizes disagree with each other, or with the rows that are read, is refused.  What it says about order and
extremes is forgotten.

Rows are decoded by polars' streaming engine, a few row groups ahead of who reads them.  A file with a larger row group
is decoded page by page by Arrow instead, which is slower and holds less; so is one with a type that the two read
differently.

What is read is hashed as it is read.  The first whole reading of a file sets its digest; a later one
that differs is refused at the end of the file, before anything that was folded from it can be used: sizes and times of
a file can be restored, its content cannot.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
import polars as pl
from attrs import field, frozen
from polars.selectors import by_name

from privpac.data.columns import arrow_frame, check_arrow, plain
from privpac.data.grouping import ascends
from privpac.data.ids import as_ids
from privpac.data.loops import share_cores, workers
from privpac.data.readers import TablePath, check_names, check_size, counted_rows, expand, shown_path
from privpac.data.schema import quietly
from privpac.data.users import UserData
from privpac.errors import EngineError, ParameterError, SchemaError
from privpac.lazy import LateModule, need

pq = LateModule("pyarrow.parquet")
_KEY = secrets.randbits(64)
_WORD = (1 << 64) - 1
CHANGED = "the files changed while they were in use; start again from files that stay as they are"
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
Stamp = tuple[int, int, int]
GROUP_ROWS = 1 << 22
"""Row groups up to this are decoded whole."""


@frozen(slots=False, repr=False)
class _File:
    path: Path
    rows: int
    scanned: pl.LazyFrame | None
    """The file as polars sees it, if polars decodes it."""
    stamp: Stamp
    constants: dict[str, str | None]


@frozen(slots=False, repr=False)
class ParquetTable:
    """Files of one schema."""

    files: tuple[_File, ...]
    schema: dict[str, pl.DataType]
    digests: dict[tuple[Path, tuple[str, ...]], tuple[int, int]] = field(factory=dict)
    """Of the files read to their ends, by the columns that were read."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
        """Frames of at most ``rows`` rows; files that changed since they were opened are refused before and after
        reading."""
        for file in self.files:
            _check_stamp(file)
            stored = [name for name in names if name not in file.constants]
            batches, digest = _batches(file, stored, rows), _Digest()
            left = file.rows
            while (frame := quietly(lambda: next(batches, None), _unreadable(file.path))) is not None:  # noqa: B023
                left -= len(frame)
                typed = quietly(lambda: _typed(frame, file, names, self.schema), _unreadable(file.path))  # noqa: B023
                digest.add(typed)
                yield typed
            if left:
                raise SchemaError(_unreadable(file.path)) from None
            _check_stamp(file)
            found = digest.value()
            if self.digests.setdefault((file.path, tuple(names)), found) != found:
                raise EngineError(CHANGED) from None


class _Digest:
    """A hash of rows in their order, however they come in batches.

    Rows are hashed under a key that this process draws and nobody sees, so no table can be made to collide with
    another; the sum over rows has a weight for each place.
    """

    def __init__(self) -> None:
        self._rows = self._sum = 0

    def add(self, frame: pl.DataFrame) -> None:
        hashes = pl.DataFrame([_hashable(series) for series in frame]).hash_rows(_KEY).to_numpy()
        places = np.arange(self._rows, self._rows + len(frame), dtype=np.uint64)
        self._sum = (self._sum + int((hashes * (2 * places + np.uint64(1))).sum(dtype=np.uint64))) & _WORD
        self._rows += len(frame)

    def value(self) -> tuple[int, int]:
        return self._rows, self._sum


def _hashable(series: pl.Series) -> pl.Series:
    """The same values bit by bit, in a type that rows are hashed in."""
    name, bare = series.name, series.to_physical()
    if bare.dtype.is_nested():
        return bare.alias("").to_frame().to_struct().struct.json_encode().alias(name)
    if not bare.dtype.is_float():
        return series.cast(pl.String) if series.dtype.is_decimal() else bare
    # polars takes both zeros, and all that is no number, for one.
    held = bare.to_numpy()
    bits = pl.Series(name, held.view(f"u{held.itemsize}"))
    return bits.set(bare.is_null(), None) if bare.null_count() else bits


def open_table(path: TablePath, wanted: Sequence[str]) -> ParquetTable:
    """Look at names, sizes and types; no row is read."""
    need("pyarrow", "streaming from files")
    root, paths = _find(path)
    files, schemas = [], []
    for found in paths:
        constants = {k: v for k, v in _constants(found, root).items() if k in wanted}
        rows, scanned, schema = _metadata(found, wanted, constants)
        files.append(_File(found, rows, scanned, _stamp(found), constants))
        schemas.append(schema)
    if any(schema != schemas[0] for schema in schemas):
        raise SchemaError("the files disagree on the type of a column; write them with one schema") from None
    return ParquetTable(tuple(files), schemas[0])


def _find(path: TablePath) -> tuple[Path | None, list[Path]]:
    root = Path(path) if isinstance(path, (str, os.PathLike)) and os.path.isdir(path) else None
    if root is None:
        paths = expand(path)
    else:
        inside = ((found, found.relative_to(root).parts) for found in root.rglob("*.parquet"))
        paths = sorted(
            found for found, parts in inside if found.is_file() and not any(part[0] in "._" for part in parts)
        )
        if not paths:
            raise ParameterError(
                f"{shown_path(path)} is a folder without .parquet files; name files, or a folder of them"
            )
    if any(found.suffix.lower() != ".parquet" for found in paths):
        raise ParameterError(
            f"only .parquet files are streamed, got {shown_path(path)}; read CSV files with UserData.read, or convert "
            "them"
        )
    return root, paths


def _constants(path: Path, root: Path | None) -> dict[str, str | None]:
    """Columns that the path names, below the folder that was asked for (everywhere in the path of a glob)."""
    parts = path.parts[:-1] if root is None else path.relative_to(root).parts[:-1]
    pairs = (part.partition("=") for part in parts if "=" in part)
    return {unquote(name): None if value == _HIVE_NULL else unquote(value) for name, _, value in pairs}


def _metadata(
    path: Path, wanted: Sequence[str], constants: dict[str, str | None]
) -> tuple[int, pl.LazyFrame | None, dict[str, pl.DataType]]:
    where = f"file {path.name!r}"
    check_size(path, where)
    metadata, arrow = quietly(lambda: _footer(path), _unreadable(path))
    for name in [name for name in constants if name in arrow.names]:
        del constants[name]  # the file's own column is right
    check_names([*arrow.names, *constants] if arrow.names else [], wanted, where)
    stored = [name for name in wanted if name not in constants]
    for name in stored:
        check_arrow(arrow.field(name).type, name)
    empty = quietly(lambda: arrow_frame(arrow.empty_table().select(stored)), _unreadable(path))
    found = {name: _clean_type(dtype) for name, dtype in empty.schema.items()}
    types = {name: pl.String() if name in constants else found[name] for name in wanted}
    total = quietly(lambda: counted_rows(metadata), _unreadable(path))
    small = all(metadata.row_group(i).num_rows <= GROUP_ROWS for i in range(metadata.num_row_groups))
    return total, _scanned(path, {name: found[name] for name in stored}) if small else None, types


def _footer(path: Path) -> Any:
    """What the file says about itself, in one look."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        return file.metadata, file.schema_arrow


def _scanned(path: Path, types: dict[str, pl.DataType]) -> pl.LazyFrame | None:
    """The file, if polars reads these types too."""
    with suppress(Exception, pl.exceptions.PanicException):
        scanned = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        schema = scanned.collect_schema()
        if all(_clean_type(schema[name]) == dtype for name, dtype in types.items()):
            return scanned
    return None


def _clean_type(dtype: pl.DataType) -> pl.DataType:
    return pl.String() if isinstance(dtype, (pl.Categorical, pl.Enum)) else dtype


def clean_types(frame: pl.DataFrame) -> pl.DataFrame:
    """Categories as their texts, so that batches of different dictionaries agree."""
    kinds = [name for name, dtype in frame.schema.items() if _clean_type(dtype) != dtype]
    return frame.with_columns(by_name(*kinds).cast(pl.String)) if kinds else frame


def _batches(file: _File, stored: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
    if file.scanned is not None and stored:
        wanted = file.scanned.select(by_name(*stored))
        batches = wanted.collect_batches(chunk_size=rows, maintain_order=True, engine="streaming")
        yield from (batch for batch in batches if len(batch))
        return
    with pq.ParquetFile(file.path, pre_buffer=False) as reader:
        # Where every value comes from the path, the first column is read to count the rows.
        for batch in reader.iter_batches(batch_size=rows, columns=list(stored) or reader.schema_arrow.names[:1]):
            if batch.num_rows and stored:
                yield arrow_frame(batch.select(list(stored)))
            elif batch.num_rows:
                yield pl.DataFrame({"": pl.repeat(None, batch.num_rows, eager=True)})


def _typed(frame: pl.DataFrame, file: _File, names: Sequence[str], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    constants = [pl.lit(file.constants[name], dtype=pl.String).alias(name) for name in names if name in file.constants]
    found = clean_types(pl.DataFrame([plain(column) for column in frame]))  # refuses columns of different lengths
    if constants or found.columns != list(names):
        found = found.with_columns(constants).select(by_name(*names))
    if any(found.schema[name] != schema[name] for name in names):
        raise EngineError(CHANGED) from None
    return found


def _stamp(path: Path) -> Stamp:
    found = quietly(lambda: os.stat(path), f"file {path.name!r} cannot be read")
    return found.st_size, found.st_mtime_ns, found.st_ino


def _check_stamp(file: _File) -> None:
    if _stamp(file.path) != file.stamp:
        raise EngineError(CHANGED) from None


def _unreadable(path: Path) -> str:
    return f"file {path.name!r} is not a readable Parquet file"


# Cutting a stream of rows between users.
#
# :func:`whole_users` takes batches in which the rows of a user stand together and gives chunks of whole users; with
# ``ascending`` it does not trust the order but checks every row against the one before.  Either way ids that are
# missing or spoilt belong to nobody and are left out (or were refused before).


def identified(frame: pl.DataFrame, user: str) -> tuple[pl.DataFrame, pl.Series]:
    """The rows that belong to somebody, and their ids as integers or text."""
    ids, absent, spoilt = as_ids(frame.get_column(user), user)
    masks = [mask for mask in (absent, spoilt) if mask is not None and mask.any()]
    if not masks:
        return frame, ids
    good = pl.Series(~np.logical_or.reduce(masks))
    return frame.filter(good), ids.filter(good)


class Order:
    """Whether ids never descend, over any number of batches."""

    def __init__(self) -> None:
        self._last: object = None

    def holds(self, ids: pl.Series) -> bool:
        """Look at the next batch."""
        if not len(ids):
            return True
        if self._last is not None and ids[0] < self._last:
            return False
        self._last = ids[-1]
        if ids.dtype == pl.String:
            return bool(
                (ids.slice(1) >= ids.slice(0, len(ids) - 1)).all()
            )  # every row, unlike is_sorted() of what is said to be
        return bool(ascends(ids.to_numpy()))


def whole_users(batches: Iterable[pl.DataFrame], user: str, rows: int, *, ascending: bool) -> Iterator[pl.DataFrame]:
    """Chunks of about ``rows`` rows, or of one user if that user has more.

    A user on the border of a large batch is a chunk alone: to join the others, all of them would have to be copied.
    """
    waiting: list[tuple[pl.DataFrame, pl.Series]] = []
    order, count = Order(), 0
    for batch in batches:
        frame, ids = identified(batch, user)
        if not len(frame):
            continue
        if ascending and not order.holds(ids):
            raise SchemaError(
                f"column {user!r} was sorted when it was checked and is not any more; start again from files that stay "
                "as they are"
            ) from None
        if waiting and len(frame) >= rows and (end := _end_of(waiting[-1][1][-1], ids)) < len(ids):
            yield pl.concat([*(part for part, _ in waiting), frame[:end]])
            waiting, count, frame, ids = [], 0, frame[end:], ids[end:]
        waiting.append((frame, ids))
        count += len(frame)
        if count >= rows:
            done, waiting = _cut(waiting)
            if done:
                yield pl.concat(done)
            count = sum(len(part) for part, _ in waiting)
    if waiting:
        yield pl.concat([part for part, _ in waiting])


def _cut(
    waiting: list[tuple[pl.DataFrame, pl.Series]],
) -> tuple[list[pl.DataFrame], list[tuple[pl.DataFrame, pl.Series]]]:
    """Everything before the last user, and the rows of the last user, who may go on in the next batch."""
    last = waiting[-1][1][-1]
    for place in range(len(waiting) - 1, -1, -1):
        frame, ids = waiting[place]
        if ids[0] == last:
            continue  # the last user may begin in an earlier batch
        start = _start_of(last, ids)
        done = [part for part, _ in waiting[:place]] + [frame[:start]]
        rest = [(frame[start:], ids[start:])] if start < len(frame) else []
        return done, rest + waiting[place + 1 :]
    return [], waiting


def _end_of(first: object, ids: pl.Series) -> int:
    """How many rows at the beginning belong to this user."""
    size = 1
    while (head := ids[:size])[-1] == first and size < len(ids):
        size *= 2
    others = np.flatnonzero((head != first).to_numpy())
    return int(others[0]) if len(others) else len(head)


def _start_of(last: object, ids: pl.Series) -> int:
    """Where the run of the last user begins, at the end if these rows are of others; the first row is."""
    size = 1
    while (tail := ids[-min(size, len(ids)) :])[0] == last:
        size *= 2
    return len(ids) - len(tail) + int(np.flatnonzero((tail != last).to_numpy())[-1]) + 1


# A bar with the rows read, on a terminal only: it is for the curator, and logs must not hold counts.


_T = TypeVar("_T", bound=pl.DataFrame | UserData)


def tracked(batches: Iterable[_T], total: int, what: str, *, show: bool) -> Iterator[_T]:
    """The same batches; the bar moves as they are taken."""
    if not show or not sys.stderr.isatty():
        yield from batches
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        for batch in batches:
            yield batch
            progress.advance(task, batch.n_records if isinstance(batch, UserData) else len(batch))


# Work on chunks in a few threads, results in order.
#
# Kernels, polars and Arrow release the interpreter lock, so that threads are enough to use the cores.


S = TypeVar("S")
R = TypeVar("R")

FILE_WORKERS = min(4, workers())
"""Chunks in work at the same time; kernels use further cores themselves."""


def in_lanes(work: Callable[[S], R], items: Iterable[S], lanes: int) -> Iterator[R]:
    """``map(work, items)`` that takes at most one item more than there are lanes before giving a result.

    >>> list(in_lanes(lambda n: n * n, range(5), lanes=2))
    [0, 1, 4, 9, 16]
    """
    if lanes == 1:
        yield from map(work, items)
        return
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(lanes, initializer=share_cores, initargs=(lanes,)) as pool:
        for item in items:
            pending.append(pool.submit(work, item))
            del item
            if len(pending) > lanes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
