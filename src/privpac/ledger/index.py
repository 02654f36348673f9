"""Where every id stands: what an exact search for duplicates and for repeated queries needs, in 24 bytes an entry.

An entry has a 64-bit key (a hash of the id), the place of its line, its number, and 48 bits of the line's hash.  Keys
may collide, so a hit is confirmed by reading the line (:mod:`privpac.ledger.state`); a key that is not here belongs to
no id of the lines that are indexed.  The search is therefore exact, whoever chose the ids.
"""

from __future__ import annotations

import base64
import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LIMIT", "Entry", "Index", "check_of", "key_of", "packed", "unpacked"]

LIMIT = 1 << 40
"""Places and numbers are below this; a file of a terabyte gets no more checkpoints and is read line by line."""

_LOW = (1 << 24) - 1
Columns = NDArray[np.uint64]


class Entry(NamedTuple):
    """One spend or one answer: its key, the place and check of its line, and its number."""

    key: int
    place: int
    number: int
    check: int


def key_of(*names: str) -> int:
    return int.from_bytes(hashlib.blake2b("\n".join(names).encode(), digest_size=8).digest(), "big")


def check_of(line: bytes) -> int:
    return int.from_bytes(hashlib.sha256(line).digest()[:6], "big")


def packed(entries: Iterable[Entry]) -> str:
    """Sorted entries as text: the keys, then place and number with half of the check below each."""
    rows = sorted((e.key, e.place << 24 | e.check >> 24, (e.number - 1) << 24 | e.check & _LOW) for e in entries)
    return base64.b64encode(np.array(rows, "<u8").reshape(-1, 3).T.tobytes()).decode()


def unpacked(text: str) -> Columns:
    """Three columns; ``ValueError`` for anything but sorted entries."""
    columns = np.frombuffer(base64.b64decode(text, validate=True), "<u8").reshape(3, -1).astype(np.uint64, copy=False)
    if (columns[0, 1:] < columns[0, :-1]).any():
        raise ValueError
    return columns


class Index:
    """Entries of many checkpoints; few sorted runs, the longer first."""

    def __init__(self) -> None:
        self._runs: list[tuple[Columns, memoryview]] = []  # and the first column as the standard library reads it

    def fill(self, parts: Iterable[Columns], total: int) -> None:
        """Take many parts at once, with one sort."""
        whole, at = np.empty((3, total), np.uint64), 0
        for part in parts:
            whole[:, at : at + part.shape[1]] = part  # too many: ValueError
            at += part.shape[1]
        if at != total:
            raise ValueError
        self._runs = [_sorted(whole)] if total else []

    def add(self, part: Columns) -> None:
        self._runs.append((part, memoryview(part[0])))
        while len(self._runs) > 1 and 2 * len(self._runs[-1][1]) > len(self._runs[-2][1]):
            (last, _), (before, _) = self._runs.pop(), self._runs.pop()
            self._runs.append(_sorted(np.concatenate([before, last], axis=1)))

    def find(self, key: int) -> Iterator[Entry]:
        """All entries with this key, as a rule none or one."""
        for run, keys in self._runs:
            at = bisect_left(keys, key)
            while at < len(keys) and keys[at] == key:
                place, number = int(run[1, at]), int(run[2, at])
                yield Entry(key, place >> 24, (number >> 24) + 1, (place & _LOW) << 24 | number & _LOW)
                at += 1


def _sorted(columns: Columns) -> tuple[Columns, memoryview]:
    order = np.argsort(columns[0], kind="stable")
    for column in columns:  # one at a time: a copy of all would be held twice
        column[:] = column[order]
    return columns, memoryview(columns[0])
