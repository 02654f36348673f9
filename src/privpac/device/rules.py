"""The rules that items stand for, light enough for a device; each has canonical bytes.

Bits are packed little end first: byte ``a``, bit ``b`` is entry ``8a + b``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BitParity", "Cut", "Junction", "LinearRule", "OnePoint", "RuleList", "TruthTable", "pack", "unpack"]

Labels = NDArray[np.int8]


def pack(bits: NDArray[Any]) -> bytes:
    """0/1 entries as bytes, little end first.

    >>> pack(np.array([1, 1, 0, 0, 0, 0, 0, 0, 1])).hex()
    '0301'
    """
    return np.packbits(np.asarray(bits, dtype=np.uint8), bitorder="little").tobytes()


def unpack(text: bytes, size: int) -> NDArray[np.uint8] | None:
    """The first ``size`` bits of packed bytes; ``None`` if the length is wrong or a spare bit is set."""
    if len(text) != -(-size // 8):
        return None
    bits = np.unpackbits(np.frombuffer(text, dtype=np.uint8), bitorder="little")
    return None if bits[size:].any() else bits[:size]


def _table(x: Any) -> NDArray[Any]:
    rows = np.asarray(x)
    return rows[:, None] if rows.ndim == 1 else rows


@dataclass(frozen=True)
class Cut:
    """1 iff a column is at least ``cut`` (``above``), or below it."""

    column: int
    cut: int
    above: bool = True

    def predict(self, x: Any) -> Labels:
        return np.asarray((_table(x)[:, self.column] >= self.cut) == self.above, dtype=np.int8)


@dataclass(frozen=True)
class OnePoint:
    """1 iff the value is ``point``; never if there is none."""

    point: int | None

    def predict(self, x: Any) -> Labels:
        column = _table(x)[:, 0]
        if self.point is None:
            return np.zeros(len(column), dtype=np.int8)
        return np.asarray(column == self.point, dtype=np.int8)


@dataclass(frozen=True)
class BitParity:
    """1 iff an odd number of the columns in ``mask`` are 1."""

    mask: int

    def predict(self, x: Any) -> Labels:
        rows = _table(x).astype(np.int64)
        chosen = np.array([self.mask >> j & 1 for j in range(rows.shape[1])], dtype=np.int64)
        return np.asarray(rows @ chosen & 1, dtype=np.int8)


@dataclass(frozen=True)
class TruthTable:
    """What to say at each of the points 0, 1, ..."""

    bits: tuple[int, ...]

    def predict(self, x: Any) -> Labels:
        return np.asarray(self.bits, dtype=np.int8)[_table(x)[:, 0].astype(np.int64)]


def literals(x: Any) -> NDArray[np.bool_]:
    """Every literal of 0/1 columns: ``x_j`` is number ``j``, ``not x_j`` is number ``d + j``."""
    rows = _table(x).astype(np.bool_)
    return np.concatenate([rows, ~rows], axis=1)


@dataclass(frozen=True)
class Junction:
    """The conjunction (``every``) or disjunction of the literals in ``mask``; without literals: always, or never."""

    columns: int
    mask: int
    every: bool = True

    def predict(self, x: Any) -> Labels:
        chosen = [j for j in range(2 * self.columns) if self.mask >> j & 1]
        said = literals(x)[:, chosen]
        return np.asarray(said.all(axis=1) if self.every else said.any(axis=1), dtype=np.int8)

    def to_bytes(self) -> bytes:
        return self.mask.to_bytes(-(-2 * self.columns // 8), "little")


@dataclass(frozen=True)
class RuleList:
    """If the first test holds say its label, else if the second ...; else the default.  A test is a tuple of literal
    numbers."""

    columns: int
    tests: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]
    default: int

    def predict(self, x: Any) -> Labels:
        said = literals(x)
        out = np.full(len(said), self.default, dtype=np.int8)
        for test, label in reversed(list(zip(self.tests, self.labels))):
            out[said[:, list(test)].all(axis=1)] = label
        return out


@dataclass(frozen=True)
class LinearRule:
    """1 iff the weighted sum of the columns (and a last column 1, if ``constant``) is positive; exact integers of any
    size."""

    weights: tuple[int, ...]
    constant: bool = True

    def predict(self, x: Any) -> Labels:
        rows = _table(x).astype(object)
        if self.constant:
            rows = np.concatenate([rows, np.ones((len(rows), 1), dtype=object)], axis=1)
        return np.array([sum(a * w for a, w in zip(row, self.weights)) > 0 for row in rows.tolist()], dtype=np.int8)
