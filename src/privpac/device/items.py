"""From one person's records to one item: clean records, the rules that items stand for, and what a stable learner is.

**Privacy.**  The item is a deterministic function of one user's records, the public seed and public parameters.  If a
selection among items is (epsilon, delta)-private when one item is replaced (or added or removed), then items followed
by selection are (epsilon, delta)-private at user level in the same relation, for every seed: a neighbouring dataset
changes at most one item.  Nothing else is needed: neither stability, nor independent records, nor the accuracy of the
learner.

**Utility.**  Stable means that, for most seeds, fresh users produce the *same* item.  An item is canonical bytes;
``None`` is the item of a user with nothing to say.  The universe numbers all items, for selections that need every
candidate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import MAX_DENOMINATOR, Ints, check_seed, integer
from privpac.errors import ParameterError

Labels = NDArray[np.int8]
Marks = NDArray[np.bool_]
CodeRows = NDArray[Any]
"""Codes of any width, or exact integers of any size."""
Ranges = tuple[tuple[int, int], ...]
"""The allowed integers of every column."""

ListRules = list[tuple[int, int]]
"""Rules of a decision list: (number of the test, label)."""

_WORD = 1 << 64


# Records: one with a label other than 0 and 1, a missing number, a fraction or a value outside the public domain is
# dropped before anything else looks at it, each by itself; what is left may be nothing, and a user with nothing to say
# has no item.


@dataclass(frozen=True, repr=False)
class Records:
    """Clean records: ``x`` (one row each, or one number each) and ``y`` in {0, 1}."""

    x: CodeRows
    y: Ints

    def __len__(self) -> int:
        return len(self.y)

    def part(self, begin: int, end: int) -> Records:
        return Records(self.x[begin:end], self.y[begin:end])


def clean(
    x: object, y: object, ranges: Sequence[tuple[int, int]], *, flat: bool = False, limit: int | None = None
) -> Records:
    """The valid records among ``x`` (one column per range of allowed integers) and ``y``; at most the first ``limit``.

    ``flat`` gives ``x`` as one list of numbers (one range only).  Only the shape can be wrong; values are never an
    error.
    """
    labels, rows = _as_table(y), _as_table(x)
    if rows.ndim == 1 and len(ranges) == 1:
        rows = rows[:, None]
    if labels.ndim != 1 or len(rows) != len(labels):
        raise ParameterError("x and y must have one entry per record")
    if len(rows) and (rows.ndim != 2 or rows.shape[1] != len(ranges)):
        raise ParameterError(f"x must have {len(ranges)} columns")
    if not len(rows):
        rows = np.zeros((0, len(ranges)), dtype=np.int64)
    marks, good = _integers(labels, 0, 1)
    columns = []
    for j, (low, high) in enumerate(ranges):
        values, valid = _integers(rows[:, j], low, high)
        columns.append(values)
        good = good & valid
    places = np.flatnonzero(good)[:limit]
    table = columns[0][places] if flat else np.stack([column[places] for column in columns], axis=1)
    return Records(table, marks[places].astype(np.int64))


def distinct(records: Records) -> tuple[Records, Ints]:
    """The distinct records in sorted order, and how often each occurs."""
    table = np.column_stack([records.x, records.y])
    rows, counts = np.unique(table, axis=0, return_counts=True)
    return Records(rows[:, :-1], rows[:, -1].astype(np.int64)), counts.astype(np.int64)


def _as_table(values: object) -> CodeRows:
    if isinstance(values, np.ndarray):
        return values
    try:
        table = np.asarray(values)
    except (ValueError, OverflowError):
        raise ParameterError("records must be a rectangular table of numbers") from None
    # Lists that mix kinds would be turned into floats or texts as a whole; element by element only what is wrong is
    # dropped.
    return table if table.dtype.kind in "biu" else np.asarray(values, dtype=object)


def _integers(column: CodeRows, low: int, high: int) -> tuple[CodeRows, Marks]:
    """The column as integers, and where they are integers in ``low..high``; other places hold ``low``."""
    kind: type[np.uint64] | type[np.int64] = np.uint64 if high >= _WORD // 2 else np.int64
    if column.dtype.kind in "biu":
        column = column.astype(np.int64) if column.dtype.kind == "b" else column
        good = np.asarray((column >= low) & (column <= high), dtype=np.bool_)
        return np.where(good, column, np.array(low, dtype=kind)).astype(kind), good
    out = np.full(len(column), low, dtype=kind)
    good = np.zeros(len(column), dtype=np.bool_)
    for i, value in enumerate(column.tolist() if column.dtype.kind in "fO" else ()):
        whole = isinstance(value, (bool, int, np.integer, np.bool_)) or (
            isinstance(value, (float, np.floating)) and np.isfinite(value) and value == np.floor(value)
        )
        if whole and low <= int(value) <= high:
            out[i], good[i] = int(value), True
    return out, good


# The rules that items stand for, light enough for a device; each has canonical bytes.  Bits are packed little end
# first: byte ``a``, bit ``b`` is entry ``8a + b``.


def pack_bits(bits: CodeRows) -> bytes:
    """0/1 entries as bytes, little end first.

    >>> pack_bits(np.array([1, 1, 0, 0, 0, 0, 0, 0, 1])).hex()
    '0301'
    """
    return np.packbits(np.asarray(bits, dtype=np.uint8), bitorder="little").tobytes()


def unpack_bits(text: bytes, size: int) -> NDArray[np.uint8] | None:
    """The first ``size`` bits of packed bytes; ``None`` if the length is wrong or a spare bit is set."""
    if len(text) != -(-size // 8):
        return None
    bits = np.unpackbits(np.frombuffer(text, dtype=np.uint8), bitorder="little")
    return None if bits[size:].any() else bits[:size]


def rows_of(x: object) -> CodeRows:
    """Codes as a table, one row per record."""
    rows = np.asarray(x)
    return rows[:, None] if rows.ndim == 1 else rows


@dataclass(frozen=True)
class Cut:
    """1 iff a column is at least ``cut`` (``above``), or below it."""

    column: int
    cut: int
    above: bool = True

    def predict(self, x: object) -> Labels:
        return np.asarray((rows_of(x)[:, self.column] >= self.cut) == self.above, dtype=np.int8)


@dataclass(frozen=True)
class OnePoint:
    """1 iff the value is ``point``; never if there is none."""

    point: int | None

    def predict(self, x: object) -> Labels:
        column = rows_of(x)[:, 0]
        if self.point is None:
            return np.zeros(len(column), dtype=np.int8)
        return np.asarray(column == self.point, dtype=np.int8)


@dataclass(frozen=True)
class BitParity:
    """1 iff an odd number of the columns in ``mask`` are 1."""

    mask: int

    def predict(self, x: object) -> Labels:
        rows = rows_of(x).astype(np.int64)
        chosen = np.array([self.mask >> j & 1 for j in range(rows.shape[1])], dtype=np.int64)
        return np.asarray(rows @ chosen & 1, dtype=np.int8)


@dataclass(frozen=True)
class TruthTable:
    """What to say at each of the points 0, 1, ..."""

    bits: tuple[int, ...]

    def predict(self, x: object) -> Labels:
        return np.asarray(self.bits, dtype=np.int8)[rows_of(x)[:, 0].astype(np.int64)]


def literals(x: object) -> Marks:
    """Every literal of 0/1 columns: ``x_j`` is number ``j``, ``not x_j`` is number ``d + j``."""
    rows = rows_of(x).astype(np.bool_)
    return np.concatenate([rows, ~rows], axis=1)


@dataclass(frozen=True)
class Junction:
    """The conjunction (``every``) or disjunction of the literals in ``mask``; without literals: always, or never."""

    columns: int
    mask: int
    every: bool = True

    def predict(self, x: object) -> Labels:
        chosen = [j for j in range(2 * self.columns) if self.mask >> j & 1]
        truth = literals(x)[:, chosen]
        return np.asarray(truth.all(axis=1) if self.every else truth.any(axis=1), dtype=np.int8)

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

    def predict(self, x: object) -> Labels:
        truth = literals(x)
        out = np.full(len(truth), self.default, dtype=np.int8)
        for test, label in reversed(list(zip(self.tests, self.labels))):
            out[truth[:, list(test)].all(axis=1)] = label
        return out


@dataclass(frozen=True)
class LinearRule:
    """1 iff the weighted sum of the columns (and a last column 1, if ``constant``) is positive; exact integers of any
    size."""

    weights: tuple[int, ...]
    constant: bool = True

    def predict(self, x: object) -> Labels:
        rows = rows_of(x).astype(object)
        if self.constant:
            rows = np.concatenate([rows, np.ones((len(rows), 1), dtype=object)], axis=1)
        return np.array([sum(a * w for a, w in zip(row, self.weights)) > 0 for row in rows.tolist()], dtype=np.int8)


# Learners


@runtime_checkable
class Hypothesis(Protocol):
    """A decision rule light enough for a device."""

    def predict(self, x: object) -> Labels:
        """0 or 1 for every row of ``x``."""


@runtime_checkable
class ItemUniverse(Protocol):
    """All items a learner can send: ``size`` of them, or every string of ``bits`` bits."""

    @property
    def size(self) -> int: ...

    @property
    def bits(self) -> int: ...

    def number(self, item: bytes) -> int:
        """The number of an item, in ``0..size-1``."""

    def item(self, number: int) -> bytes:
        """The item of a number."""


@runtime_checkable
class StableLearner(Protocol):
    """Turns one user's records into one item."""

    @property
    def universe(self) -> ItemUniverse: ...

    def item(self, x: object, y: object, seed: bytes) -> bytes | None:
        """The user's item, ``None`` for a user with nothing to say."""

    def decode(self, item: bytes) -> Hypothesis | None:
        """The rule of an item, ``None`` if the bytes are not a rule (the caller's public default then stands in)."""


@runtime_checkable
class ListLearner(Protocol):
    """Turns records into a short list of items, one of which is the same for most samples."""

    def candidates(self, records: Records) -> frozenset[bytes]: ...

    @property
    def columns(self) -> Ranges: ...

    @property
    def universe(self) -> ItemUniverse: ...

    def decode(self, item: bytes) -> Hypothesis | None: ...


@dataclass(frozen=True, kw_only=True)
class CappedLearner(ABC):
    """A stable learner that reads the first ``max_records`` valid records; with fewer than ``min_records`` of them the
    user has nothing to say."""

    min_records: int = 1
    max_records: int = MAX_DENOMINATOR

    def __post_init__(self) -> None:
        integer("min_records", self.min_records, 1)
        integer("max_records", self.max_records, 1, MAX_DENOMINATOR)

    @property
    @abstractmethod
    def columns(self) -> Ranges: ...

    @abstractmethod
    def item_of(self, records: Records, seed: bytes) -> bytes | None:
        """The item of clean records."""

    def item(self, x: object, y: object, seed: bytes) -> bytes | None:
        """The user's item, ``None`` for a user with fewer than ``min_records`` valid records."""
        check_seed(seed)
        records = clean(x, y, self.columns, limit=self.max_records)
        return None if len(records) < self.min_records else self.item_of(records, seed)


@dataclass(frozen=True)
class NumberedItems:
    """The items ``0..size-1``, written little end first in as few bytes as hold the largest.

    >>> NumberedItems(1000).item(258), NumberedItems(1000).number(bytes([2, 1]))
    (b'\\x02\\x01', 258)
    """

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", integer("size", self.size, 1))

    @property
    def bits(self) -> int:
        return max(1, (self.size - 1).bit_length())

    @property
    def width(self) -> int:
        return -(-self.bits // 8)

    def number(self, item: bytes) -> int:
        return integer("the number of an item", int.from_bytes(item, "little"), 0, self.size - 1)

    def item(self, number: int) -> bytes:
        return integer("the number of an item", number, 0, self.size - 1).to_bytes(self.width, "little")


@dataclass(frozen=True)
class Padded:
    """All byte strings of ``width`` bytes; shorter items are filled up with 255, which never ends a shorter item.

    An item of full width may end in anything; ``step`` is the length of what may be missing at the end (0: nothing).
    """

    width: int
    step: int = 0

    @property
    def size(self) -> int:
        return 1 << self.bits

    @property
    def bits(self) -> int:
        return 8 * self.width

    def number(self, item: bytes) -> int:
        integer("the length of an item", len(item), 0 if self.step else self.width, self.width)
        return int.from_bytes(item + b"\xff" * (self.width - len(item)), "little")

    def item(self, number: int) -> bytes:
        text = integer("the number of an item", number, 0, self.size - 1).to_bytes(self.width, "little")
        filler = b"\xff" * self.step
        while self.step and len(text) > self.step and text.endswith(filler):
            text = text[: -self.step]
        return text
