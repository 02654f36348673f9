"""Intervals over a public grid: all of them scored at once from prefix sums.

The values 0..size-1 are cut into ``cells`` nearly equal cells; a rule says 1 on a run of whole cells, or never.  Finer
grids represent intervals more closely at a price quadratic in the number of cells.  With as many cells as values the
rules are all intervals, numbered as in ``privpac.rules``: 0 is the empty one, then by first cell, then by last.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import Component, integer, leaf_component
from privpac.device.records import Records
from privpac.errors import TooLargeError

__all__ = ["IntervalScores", "Run"]

MAX_CELLS = 1413
"""The most cells whose intervals number at most a million."""


@dataclass(frozen=True)
class Run:
    """1 iff the value is in ``low..high-1``; never if they are equal."""

    low: int
    high: int

    def predict(self, x: Any) -> NDArray[np.int8]:
        rows = np.asarray(x)
        column = rows[:, 0] if rows.ndim == 2 else rows
        return np.asarray((column >= self.low) & (column < self.high), dtype=np.int8)


@dataclass(frozen=True)
class IntervalScores:
    """Runs of cells of a column with values 0..size-1."""

    size: int
    cells: int

    def __post_init__(self) -> None:
        integer("size", self.size, 1, 1 << 53)
        integer("cells", self.cells, 1, self.size)
        if self.cells > MAX_CELLS:
            raise TooLargeError(f"{self.cells} cells have more than a million intervals; use at most {MAX_CELLS} cells")

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, self.size - 1),)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.cells * (self.cells + 1) // 2 + 1,)

    def edge(self, cell: int) -> int:
        """The first value of a cell; the end of the column for the cell after the last."""
        return -(-cell * self.size // self.cells)

    def components(self, records: Records) -> list[Component]:
        edges = np.array([self.edge(cell) for cell in range(1, self.cells)], dtype=np.int64)
        place = np.searchsorted(edges, records.x[:, 0].astype(np.int64), side="right")
        # Saying 1 on a cell repairs its records labelled 1 and spoils those labelled 0.
        change = np.bincount(place[records.y == 0], minlength=self.cells) - np.bincount(
            place[records.y == 1], minlength=self.cells
        )
        prefix = np.concatenate([[0], np.cumsum(change)])
        first, last = np.triu_indices(self.cells)
        errors = int(records.y.sum()) + np.concatenate([[0], prefix[last + 1] - prefix[first]])
        return [leaf_component(errors.astype(np.int64), len(records))]

    def rule(self, number: int) -> Run:
        number = integer("number", number, 0, self.sizes[0] - 1)
        if number == 0:
            return Run(0, 0)
        # Counted from the last number, the runs that start at the last cell, the one before, ... number 1, 2, ...
        back = self.sizes[0] - 1 - number
        row = (isqrt(8 * back + 1) - 1) // 2
        return Run(self.edge(self.cells - 1 - row), self.edge(self.cells - (back - row * (row + 1) // 2)))
