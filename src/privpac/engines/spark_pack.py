"""Rows of a cluster in packets: parted by person where they are read, moved as a few large values.

Spark's own shuffle moves row by row, 32 bytes and more for an id and two small columns.  Here a task that reads rows
parts them by a hash of the person's id, as :mod:`privpac.engines.spill` does on disk, and packs the rows of each part
as columns: one packet for each part of every :data:`ROWS` rows.  Spark then moves packets to the task of their part,
which reads them as frames again.  All rows of a person have one hash, so they meet in one task, wherever they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from privpac.data.columns import sound
from privpac.data.schema import Words
from privpac.engines.chunks import identified
from privpac.engines.files import clean_types
from privpac.engines.spill import hashed_ids

__all__ = ["MOST_PARTS", "PACKETS", "Packing", "frames_of", "slots"]

PACKETS = "slot int, packet binary"
MOST_PARTS = 1 << 10
"""With more parts packets would hold a few rows each."""
ROWS = 1 << 19
BYTES = 1 << 28


@dataclass(frozen=True)
class Packing:
    """Frames of a task to packets, each with the slot of its part."""

    user: str
    slots: tuple[int, ...]

    def __call__(self, frames: Iterable[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
        for frame in _gathered(frames):
            rows, ids = identified(frame, self.user)
            if len(rows):
                yield self._packets(rows, ids)

    def _packets(self, rows: pl.DataFrame, ids: pl.Series) -> pa.RecordBatch:
        place = _parts(hashed_ids(ids), len(self.slots))
        order = np.argsort(place, kind="stable")
        table = rows[order].to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
        ends = np.cumsum(np.bincount(place, minlength=len(self.slots))).tolist()
        slots, packets = [], []
        for slot, a, b in zip(self.slots, [0, *ends[:-1]], ends):
            if a < b:
                slots.append(slot)
                packets.append(_packed(table.slice(a, b - a)))
        return pa.RecordBatch.from_arrays(
            [pa.array(slots, pa.int32()), pa.array(packets, pa.binary())], names=["slot", "packet"]
        )


def _parts(hashes: Words, count: int) -> NDArray[np.uint16]:
    """The part of each hash: its leading 32 bits as a fraction of ``count``."""
    return (((hashes >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)).astype(np.uint16)


def _gathered(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Frames together, up to about ``ROWS`` rows or ``BYTES`` bytes at a time."""
    waiting: list[pl.DataFrame] = []
    rows, size = 0, 0.0
    for frame in frames:
        waiting.append(frame)
        rows, size = rows + len(frame), size + frame.estimated_size()
        if rows >= ROWS or size >= BYTES:
            yield pl.concat(waiting)
            waiting, rows, size = [], 0, 0.0
    if waiting:
        yield pl.concat(waiting)


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def frames_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """The rows of packets."""
    for batch in batches:
        for packet in batch.column("packet"):
            with pa.ipc.open_stream(packet.as_buffer()) as reader:
                for rows in reader:
                    yield clean_types(pl.DataFrame(sound(rows)))


# Which key Spark sends to which task


def slots(count: int) -> tuple[int, ...]:
    """A key for each of ``count`` tasks, so that Spark sends every key to a task of its own.

    Spark sends a key to the task ``hash mod count``, with the hash below; were it another, some tasks would get several
    parts and others none, and nothing else would change.
    """
    keys = np.arange(64 * count + 1024, dtype=np.uint32)
    tasks = _murmur(keys).view(np.int32).astype(np.int64) % count
    found, first = np.unique(tasks, return_index=True)
    spare = iter(np.setdiff1d(np.arange(len(keys)), first).tolist())
    of_task = dict(zip(found.tolist(), first.tolist()))
    return tuple(of_task[task] if task in of_task else next(spare) for task in range(count))


def _murmur(keys: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Murmur3 of one 32-bit word each, seed 42."""

    def turned(word: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
        return (word << np.uint32(by)) | (word >> np.uint32(32 - by))

    word = turned(keys * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    word = turned(np.uint32(42) ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    word ^= np.uint32(4)
    word = (word ^ (word >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    word = (word ^ (word >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return word ^ (word >> np.uint32(16))
