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
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import polars as pl

from privpac.data.build import Declared
from privpac.data.check import PART, DataCheck, ReadCounts, ReadCountsKernel, result_of
from privpac.data.engines.files import CHANGED, LANES, Order, ParquetTable, identified, open_table, tracked, whole_users
from privpac.data.engines.lazy_plan import Chunk, Faults, Recipe, RecipeUsers, doubted, faults_of, fold_chunks
from privpac.data.engines.spill import Part, SpillFolder, check_place, packed, part_rows, read_parts
from privpac.data.ids import SPOILT, as_ids
from privpac.data.schema import Tally, accept_ids, tallied
from privpac.data.users import Kernel, UserData
from privpac.errors import EngineError, ParameterError, SchemaError
from privpac.guarantee import positive_int

__all__ = ["CHUNK_ROWS", "StreamedUsers"]

P = TypeVar("P")
CHUNK_ROWS = 1 << 21
"""Rows in work at a time: a few hundred MiB with a handful of columns."""


class _Source(Protocol):
    """Where whole users come from."""

    @property
    def rows(self) -> int: ...

    @property
    def lanes(self) -> int: ...

    def chunks(self) -> Iterator[Chunk]: ...


@dataclass(frozen=True, repr=False)
class _Ascending:
    """Files in which rows ascend by user id, or without a user column."""

    table: ParquetTable
    declared: Declared
    chunk_rows: int
    lanes: int = LANES

    @property
    def rows(self) -> int:
        return self.table.rows

    def chunks(self) -> Iterator[pl.DataFrame]:
        batches = self.table.batches(self.declared.wanted, _share(self.chunk_rows))
        if self.declared.user is None:
            return batches
        return whole_users(batches, self.declared.user, _share(self.chunk_rows), ascending=True)


@dataclass(frozen=True, repr=False)
class _Parted:
    """Parts on disk; the folder lives as long as this."""

    folder: SpillFolder
    parts: tuple[Part, ...]
    chunk_rows: int
    lanes: int = LANES

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def chunks(self) -> Iterator[pl.DataFrame]:
        return map(read_parts, packed(self.parts, _share(self.chunk_rows)))


@dataclass(frozen=True, repr=False)
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
    return max(1, chunk_rows // LANES)


class StreamedUsers(RecipeUsers):
    """Users of Parquet files; see the module's docstring.  Made by ``pp.scan``."""

    def __init__(self, recipe: Recipe, sample: UserData, source: _Source, table: ParquetTable, progress: bool) -> None:
        super().__init__(recipe, sample)
        self._source, self._table, self._progress = source, table, progress

    @classmethod
    def scan(
        cls,
        path: str | os.PathLike[str],
        declared: Declared,
        *,
        chunk_rows: int = CHUNK_ROWS,
        spill: str | os.PathLike[str] | None = None,
        progress: bool = True,
    ) -> StreamedUsers:
        """Check and, if need be, part the rows of a file, a glob or a folder."""
        user = declared.user
        chunk_rows = positive_int(chunk_rows, "chunk_rows", maximum=1 << 40)
        check_place(spill)
        table = open_table(path, declared.wanted)
        recipe, sample = cls.start(declared, table.schema)

        def batches(what: str) -> Iterator[pl.DataFrame]:
            rows = max(1, _share(chunk_rows) // 4)
            return tracked(table.batches(declared.wanted, rows), table.rows, what, show=progress)

        # Every page of every column is read before anything can be spent: a damaged file is found now.
        count = _Counting(declared)
        if table.rows <= chunk_rows:
            frames = list(batches("reading the rows"))
            users = recipe.build(pl.concat(frames), whole=True) if frames else sample
            return cls(recipe, sample, _Held(users), table, progress)
        if _ascends(count.seen(batches("checking the rows")), user):
            count.found.report(declared)
            return cls(recipe, sample, _Ascending(table, declared, chunk_rows), table, progress)
        assert user is not None
        # Not sorted after all: begin again, now writing; the folder goes with any error.
        folder, count = SpillFolder(spill), _Counting(declared)
        try:
            seen = count.seen(batches("parting the rows by user"))
            parts = part_rows(seen, user, folder, total=table.rows, rows=_share(chunk_rows), lanes=LANES)
            count.found.report(declared)
        except BaseException:
            folder.remove()
            raise
        return cls(recipe, sample, _Parted(folder, tuple(parts), chunk_rows), table, progress)

    def _with(self, recipe: Recipe, sample: UserData) -> StreamedUsers:
        return StreamedUsers(recipe, sample, self._source, self._table, self._progress)

    def fold(self, kernel: Kernel[P]) -> P:
        """The kernel's value over all users, chunk by chunk."""
        chunks = tracked(self._source.chunks(), self._source.rows, "folding users", show=self._progress)
        with suppress(SchemaError):
            return fold_chunks(kernel, self._recipe, chunks, self._source.lanes).total()
        # All rows were good when they were checked.  What is wrong now is not told: the budget may be spent already.
        raise EngineError(CHANGED) from None

    def check(self, max_records: int | None = None) -> DataCheck:
        """How many records and people were read, kept, repaired and dropped: for the curator, as in memory."""
        return result_of(self.counts(), self._sample, max_records)

    def counts(self) -> ReadCounts:
        """What :meth:`check` shows; private."""
        if self._sample._tally is None:
            raise ParameterError(PART)
        counts = self.fold(ReadCountsKernel())
        if counts.tally.records < self._table.rows:  # rows of nobody are left out of every chunk
            counts = replace(counts, tally=counts.tally.merge(self._nobody()))
        return counts

    def _nobody(self) -> Tally:
        """The rows whose id is missing or not sure."""
        declared = self._recipe.declared
        assert declared.user is not None
        with tallied(lenient=declared.counted) as found:
            for batch in self._table.batches([declared.user], CHUNK_ROWS):
                _, absent, spoilt = as_ids(batch.get_column(declared.user), declared.user)
                accept_ids(declared.user, absent, spoilt, SPOILT, declared.on_invalid)
        found.records = sum(found.faults.values())
        return found


class _Counting:
    """Counts faults in batches that pass by, unless they are only counted for a check."""

    def __init__(self, declared: Declared) -> None:
        self.found = Faults()
        self._declared = doubted(declared)

    def seen(self, batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for batch in batches:
            if not self._declared.counted:
                columns = {name: batch.get_column(name) for name in self._declared.wanted}
                self.found = self.found.merge(faults_of(columns, self._declared))
            yield batch


def _ascends(batches: Iterator[pl.DataFrame], user: str | None) -> bool:
    """Whether ids never descend; stops at the first that does.  Without a user column every row stands alone."""
    order = Order()
    return all(user is None or order.holds(identified(batch, user)[1]) for batch in batches)
