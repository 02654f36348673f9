"""Parquet larger than memory, folded in chunks of whole users.

**How.**  One pass reads the declared columns, counts what breaks the schema, and finds out whether rows ascend by user
id.

* There are no more than ``chunk_rows``: they stay in memory, checked, encoded and grouped as tables in memory are.
* They ascend: nothing is written; every fold reads the files again and cuts between users, checking the order as it
  goes.
* They do not: rows are parted by a hash of the id into files on disk (:mod:`privpac.data.engines.spill`); folds read
  these.
* No user column: any cut will do.

A user whose rows are spread over files and row groups is one user in either case.

**Guarantees.**  The fold is the sum over the same users as in memory, so profiles and laws are equal, number by number.
Schema errors are raised by ``scan`` and ``bind``, before anything is spent, with column and count only.  At a time
about ``chunk_rows`` rows (or one user's, if they are more) are in work and up to as many wait in columns; beside them
buffers of a few row groups and the profile.

| case | behaviour |
|---|---|
| empty files, no rows at all | no users; no error |
| one user with more than ``chunk_rows`` records | that user's records are one chunk |
| files change after the scan | ``EngineError`` with a fixed text (sorted, item-level), or no effect (parted, held) |

Whether a file changed is told by what is read, not by its size and time; the budget that was spent before stays spent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Protocol

import polars as pl
from attrs import frozen

from privpac.data.engines.files import FILE_WORKERS, Order, ParquetTable, identified, open_table, tracked, whole_users
from privpac.data.engines.lazy_plan import Chunk, ChunkedUsers, Faults, Recipe, doubted, faults_of
from privpac.data.engines.spill import SpillFolder, SpillPart, check_place, packed_rows, part_rows, read_parts
from privpac.data.readers import TablePath
from privpac.data.spec import TableSpec
from privpac.data.users import UserData
from privpac.guarantee import positive_int
from privpac.parameters import CHUNK_ROWS


class _Source(Protocol):
    """Where whole users come from."""

    @property
    def rows(self) -> int: ...

    @property
    def lanes(self) -> int: ...

    def chunks(self) -> Iterator[Chunk]: ...


@frozen(slots=False, repr=False)
class _Ascending:
    """Files in which rows ascend by user id, or without a user column."""

    table: ParquetTable
    spec: TableSpec
    chunk_rows: int
    lanes: int = FILE_WORKERS

    @property
    def rows(self) -> int:
        return self.table.rows

    def chunks(self) -> Iterator[pl.DataFrame]:
        batches = self.table.batches(self.spec.wanted, _share(self.chunk_rows))
        if self.spec.user is None:
            return batches
        return whole_users(batches, self.spec.user, _share(self.chunk_rows), ascending=True)


@frozen(slots=False, repr=False)
class _Parted:
    """Parts on disk; the folder lives as long as this."""

    folder: SpillFolder
    parts: tuple[SpillPart, ...]
    chunk_rows: int
    lanes: int = FILE_WORKERS

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def chunks(self) -> Iterator[pl.DataFrame]:
        return map(read_parts, packed_rows(self.parts, _share(self.chunk_rows)))


@frozen(slots=False, repr=False)
class _Held:
    """The users of a table that is no larger than a chunk."""

    users: UserData
    lanes: int = 1

    @property
    def rows(self) -> int:
        return self.users.n_records

    def chunks(self) -> Iterator[UserData]:
        return iter([self.users])


def _share(chunk_rows: int) -> int:
    """Rows of one chunk, so that those in work are ``chunk_rows`` together; one more waits and one more is being
    read."""
    return max(1, chunk_rows // FILE_WORKERS)


class StreamedUsers(ChunkedUsers):
    """Users of Parquet files; see the module's docstring.  Made by ``pp.scan``."""

    def __init__(self, recipe: Recipe, sample: UserData, source: _Source, table: ParquetTable, progress: bool) -> None:
        super().__init__(recipe, sample)
        self._source, self._table, self._progress = source, table, progress
        self.lanes, self.rows = source.lanes, table.rows

    @classmethod
    def scan(
        cls,
        path: TablePath,
        spec: TableSpec,
        *,
        chunk_rows: int = CHUNK_ROWS,
        spill: str | os.PathLike[str] | None = None,
        progress: bool = True,
    ) -> StreamedUsers:
        """Check and, if need be, part the rows of a file, a glob, a folder or a list of files."""
        chunk_rows = positive_int(chunk_rows, "chunk_rows", maximum=1 << 40)
        check_place(spill)
        table = open_table(path, spec.wanted)
        recipe, sample = cls.start(spec, table.schema)
        doubtful = doubted(spec)
        faults = Faults()

        def batches(what: str, *, judged: bool = True) -> Iterator[pl.DataFrame]:
            """All rows; faults are counted as they pass by, unless that is done by a check."""
            nonlocal faults
            faults, rows = Faults(), max(1, _share(chunk_rows) // 4)
            for batch in tracked(table.batches(spec.wanted, rows), table.rows, what, show=progress):
                if judged and not spec.counted:
                    columns = {name: batch.get_column(name) for name in doubtful.wanted}
                    faults = faults.merge(faults_of(columns, doubtful))
                yield batch

        def made(source: _Source) -> StreamedUsers:
            return cls(recipe, sample, source, table, progress)

        # Every page of every column is read before anything can be spent: a damaged file is found now.
        if table.rows <= chunk_rows:
            frames = list(batches("reading the rows", judged=False))
            return made(_Held(recipe.build(pl.concat(frames), whole=True) if frames else sample))
        # Ids never descend; without a user column every row stands alone.
        user, order = spec.user, Order()
        if all(user is None or order.holds(identified(batch, user)[1]) for batch in batches("checking the rows")):
            faults.report(spec)
            return made(_Ascending(table, spec, chunk_rows))
        assert user is not None
        # Not sorted after all: begin again, now writing; the folder goes with any error.
        folder = SpillFolder(spill)
        try:
            rows = batches("parting the rows by user")
            parts = part_rows(rows, user, folder, total=table.rows, rows=_share(chunk_rows), lanes=FILE_WORKERS)
            faults.report(spec)
        except BaseException:
            folder.remove()
            raise
        return made(_Parted(folder, tuple(parts), chunk_rows))

    def batches(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        return self._table.batches(names, CHUNK_ROWS)

    def chunks(self) -> Iterator[Chunk]:
        return tracked(self._source.chunks(), self._source.rows, "folding users", show=self._progress)
