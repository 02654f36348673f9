"""One user's records, made fit for integer arithmetic.

A record with a label other than 0 and 1, a missing number, a fraction or a value outside the public domain is dropped
before anything else looks at it, each record by itself; what is left may be nothing, and a user with nothing to say has
no item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.errors import ParameterError

__all__ = ["Records", "clean", "distinct"]

_WORD = 1 << 64


@dataclass(frozen=True, repr=False)
class Records:
    """Clean records: ``x`` (one row each, or one number each) and ``y`` in {0, 1}."""

    x: NDArray[Any]
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y)

    def part(self, begin: int, end: int) -> Records:
        return Records(self.x[begin:end], self.y[begin:end])


def clean(
    x: Any, y: Any, ranges: Sequence[tuple[int, int]], *, flat: bool = False, limit: int | None = None
) -> Records:
    """The valid records among ``x`` (one column per range of allowed integers) and ``y``; at most the first ``limit``.

    ``flat`` gives ``x`` as one list of numbers (one range only).  Only the shape can be wrong; values are never an
    error.
    """
    labels = _table(y)
    rows = _table(x)
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
    kept = np.flatnonzero(good)[:limit]
    table = columns[0][kept] if flat else np.stack([column[kept] for column in columns], axis=1)
    return Records(table, marks[kept].astype(np.int64))


def distinct(records: Records) -> tuple[Records, NDArray[np.int64]]:
    """The distinct records in sorted order, and how often each occurs."""
    table = np.column_stack([records.x, records.y])
    rows, counts = np.unique(table, axis=0, return_counts=True)
    return Records(rows[:, :-1], rows[:, -1].astype(np.int64)), counts.astype(np.int64)


def _table(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ndarray):
        return values
    try:
        table = np.asarray(values)
    except (ValueError, OverflowError):
        raise ParameterError("records must be a rectangular table of numbers") from None
    # Lists that mix kinds would be turned into floats or texts as a whole; element by element only what is wrong is
    # dropped.
    return table if table.dtype.kind in "biu" else np.asarray(values, dtype=object)


def _integers(column: NDArray[Any], low: int, high: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The column as integers, and where they are integers in ``low..high``; other places hold ``low``."""
    kind: type[np.integer[Any]] = np.uint64 if high >= _WORD // 2 else np.int64
    if column.dtype.kind in "biu":
        column = column.astype(np.int64) if column.dtype.kind == "b" else column
        good = np.asarray((column >= low) & (column <= high), dtype=np.bool_)
        return np.where(good, column, np.array(low, dtype=kind)).astype(kind), good
    out = np.full(len(column), low, dtype=kind)
    good = np.zeros(len(column), dtype=np.bool_)
    if column.dtype.kind in "fO":
        for i, value in enumerate(column.tolist()):
            whole = _whole(value)
            if whole is not None and low <= whole <= high:
                out[i], good[i] = whole, True
    return out, good


def _whole(value: object) -> int | None:
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return int(value)
    if isinstance(value, (float, np.floating)) and np.isfinite(value) and value == np.floor(value):
        return int(value)
    return None
