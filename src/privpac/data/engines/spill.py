"""Rows parted by user into files on disk, in a private folder that does not outlive its use.

The part of a row is a run of bits of a hash of its user id, so all rows of a user land in one part, wherever they
stood, and in their given order.  A part that is larger than a chunk, also without its largest user, is parted again by
the next bits.  Ids travel with the rows, so two users with one hash share a part and are told apart there.

The folder is a :class:`~privpac.data.private_folder.PrivateFolder`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from attrs import define, frozen
from numpy.typing import NDArray

from privpac.arrays import Words
from privpac.data.engines.files import identified, in_lanes
from privpac.data.grouping import hash_ids, mix
from privpac.data.loops import jit
from privpac.data.private_folder import PrivateFolder
from privpac.data.schema import quietly
from privpac.errors import ParameterError
from privpac.lazy import LateModule

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = LateModule("pyarrow", "streaming from files")

SPILL_PREFIX = "privpac-spill-"
BITS = 8
"""Bits that one pass parts by: 256 open files."""
_BATCH = 1 << 18
FULL = "the folder for spilled rows cannot be written to or is full; name another with spill="
LOST = "the spilled rows cannot be read any more"


class SpillFolder(PrivateFolder):
    """A private folder for rows."""

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        place = _writing(tempfile.gettempdir) if parent is None else os.fspath(parent)
        check_place(place)
        try:
            super().__init__(SPILL_PREFIX, place)
        except OSError:
            raise ParameterError(FULL) from None
        self._count = 0

    def file(self) -> Path:
        """A new name."""
        self._count += 1
        return self.path / str(self._count)


def check_place(place: str | os.PathLike[str] | None) -> None:
    """A folder that is there, or none that was named."""
    if place is not None and not os.path.isdir(place):
        raise ParameterError(f"spill must name an existing folder, got {os.fspath(place)!r}")


# Parting


@frozen(slots=False, repr=False)
class SpillPart:
    """A file of whole users: its rows, the least and the largest hash in it, and how many rows at most are not of one
    user."""

    path: Path
    rows: int
    low: int
    high: int
    others: int


@jit
def _mixed(keys: Words) -> Words:
    out = np.empty_like(keys)
    for i in range(keys.size):
        out[i] = mix(keys[i])
    return out


def hashed_ids(ids: pl.Series) -> Words:
    """A 64-bit hash of every id, the same in every process."""
    return _mixed(hash_ids(ids) if ids.dtype == pl.String else ids.to_numpy().view(np.uint64))


def part_rows(
    batches: Iterable[pl.DataFrame], user: str, folder: SpillFolder, *, total: int, rows: int, lanes: int = 1
) -> list[SpillPart]:
    """All rows in parts with at most ``rows`` rows besides those of one user (or one hash); ``total`` is the expected
    number of rows."""
    bits = _bits(total, rows)
    return _split(_pass(batches, user, folder, 0, bits, lanes), user, folder, bits, rows, lanes)


def _bits(total: int, rows: int) -> int:
    """So many that a part has at most 4/5 of ``rows`` rows if users are spread evenly, up to :data:`BITS` at a time."""
    return min(BITS, (5 * total // (4 * rows)).bit_length())


def _split(parts: list[SpillPart], user: str, folder: SpillFolder, used: int, rows: int, lanes: int) -> list[SpillPart]:
    out: list[SpillPart] = []
    for part in parts:
        bits = min(max(4, _bits(part.rows, rows)), 64 - used)
        if min(part.rows, part.others) <= rows or part.low == part.high or bits == 0:
            out.append(part)
            continue
        finer = _pass(_stored(part.path), user, folder, used, bits, lanes)
        with suppress(OSError):
            part.path.unlink()
        out += _split(finer, user, folder, used + bits, rows, lanes)
    return out


@define(slots=False)
class _Open:
    """A part that is being written."""

    path: Path
    writer: Any
    rows: int = 0
    low: int = (1 << 64) - 1
    high: int = 0
    candidate: int = 0
    votes: int = 0

    def write(self, table: pa.Table, survey: Words) -> None:
        _writing(lambda: self.writer.write_table(table))
        low, high, candidate, votes = survey.tolist()
        self.rows += table.num_rows
        self.low, self.high = min(self.low, low), max(self.high, high)
        # The votes of two different candidates cancel, as they do inside a batch.
        if candidate == self.candidate:
            self.votes += votes
        elif votes > self.votes:
            self.candidate, self.votes = candidate, votes - self.votes
        else:
            self.votes -= votes

    def done(self) -> SpillPart:
        return SpillPart(self.path, self.rows, self.low, self.high, self.rows - self.votes)


@jit
def _arrange(hashes: Words, used: int, bits: int) -> tuple[NDArray[np.uint32], NDArray[np.int64], Words]:
    """The rows in the order of their parts, those of a part as they stood, where each part begins, and of each part the
    least and the largest hash, a candidate and its votes.

    The votes rise with the candidate and fall with others, and at 0 the next hash becomes the candidate (Boyer and
    Moore): every fall pairs the candidate with somebody else, so the votes that are left are rows of one hash.
    """
    parts, one = 1 << bits, np.uint64(1)
    up, down = np.uint64(used), np.uint64(63 - bits)  # and one more: a shift by 64 is undefined
    heads, survey = np.zeros(parts + 1, np.int64), np.zeros((parts, 4), np.uint64)
    survey[:, 0] = ~np.uint64(0)
    for i in range(hashes.size):
        word = hashes[i]
        part = ((word << up) >> down) >> one
        heads[part + one] += 1
        survey[part, 0], survey[part, 1] = min(survey[part, 0], word), max(survey[part, 1], word)
        if survey[part, 3] == 0:
            survey[part, 2] = word
        if survey[part, 2] == word:
            survey[part, 3] += one
        else:
            survey[part, 3] -= one
    for p in range(parts):
        heads[p + 1] += heads[p]
    starts, order = heads.copy(), np.empty(hashes.size, np.uint32)
    for i in range(hashes.size):
        part = ((hashes[i] << up) >> down) >> one
        order[heads[part]] = i
        heads[part] += 1
    return order, starts, survey


def _pass(
    batches: Iterable[pl.DataFrame], user: str, folder: SpillFolder, used: int, bits: int, lanes: int
) -> list[SpillPart]:
    """Part by the ``bits`` bits of the hash after the first ``used``."""
    parts: dict[int, _Open] = {}
    with _Files() as open_files:
        for table, starts, survey in in_lanes(lambda batch: _arranged(batch, user, used, bits), batches, lanes):
            for p, (a, b) in enumerate(pairwise(starts.tolist())):
                if a == b:
                    continue
                if p not in parts:
                    path = folder.file()
                    parts[p] = _Open(path, _writing(lambda: _open(path, table.schema, open_files)))  # noqa: B023
                parts[p].write(table.slice(a, b - a), survey[p])
    return [parts[p].done() for p in sorted(parts)]


def _arranged(batch: pl.DataFrame, user: str, used: int, bits: int) -> tuple[pa.Table, NDArray[np.int64], Words]:
    """The rows of a batch in the order of their parts, where each part begins, and what there is to know of it."""
    frame, ids = identified(batch, user)
    order, starts, survey = _arrange(hashed_ids(ids), used, bits)
    return frame[order].to_arrow(compat_level=pl.CompatLevel.oldest()), starts, survey


class _Files(ExitStack):
    """Open files.  Closing writes what is left: a disk may be found full only then."""

    def __exit__(self, *error: Any) -> bool:
        if error[0] is None:
            return bool(_writing(lambda: ExitStack.__exit__(self, *error)))
        with suppress(OSError):  # what went wrong first is told
            ExitStack.__exit__(self, *error)
        return False


def _open(path: Path, schema: object, open_files: ExitStack) -> Any:
    sink = open_files.enter_context(pa.OSFile(str(path), "wb"))
    return open_files.enter_context(pa.ipc.new_stream(sink, schema))


def _writing(action: Any) -> Any:
    try:
        return action()
    except OSError:
        pass
    raise ParameterError(FULL) from None


def _stored(path: Path) -> Iterator[pl.DataFrame]:
    """A part again, a batch of many written ones at a time."""
    frames = _frames(path)
    while (frame := quietly(lambda: next(frames, None), LOST)) is not None:
        yield frame


def _frames(path: Path) -> Iterator[pl.DataFrame]:
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        waiting, rows = [], 0
        for batch in reader:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= _BATCH:
                yield pl.DataFrame(pa.Table.from_batches(waiting))
                waiting, rows = [], 0
        if waiting:
            yield pl.DataFrame(pa.Table.from_batches(waiting))


def read_parts(parts: Iterable[SpillPart]) -> pl.DataFrame:
    """Some parts in memory."""
    return quietly(lambda: pl.DataFrame(pa.concat_tables(map(_whole, parts))), LOST)


def _whole(part: SpillPart) -> pa.Table:
    with pa.OSFile(str(part.path)) as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all()


def packed_rows(parts: Iterable[SpillPart], rows: int) -> Iterator[list[SpillPart]]:
    """Neighbouring parts together, as long as they have at most ``rows`` rows."""
    waiting: list[SpillPart] = []
    for part in parts:
        if waiting and sum(other.rows for other in waiting) + part.rows > rows:
            yield waiting
            waiting = []
        waiting.append(part)
    if waiting:
        yield waiting
