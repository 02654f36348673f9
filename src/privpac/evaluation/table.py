"""The 2x2 table of a predictor, person by person: what everybody adds has the same size.

A person with ``c`` records in each of ``k`` cells adds, with weight ``"user"``, the largest-remainder rounding of
``levels * c / m`` to integers (ties to the earlier cell): non-negative integers that sum to ``levels`` exactly.  With
weight ``"record"`` the counts themselves, of at most ``levels`` records.  Somebody without records adds nothing.  So
one person more or less moves the sums by at most ``levels`` in L1, whatever their records are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpac.data.jit import jit

if TYPE_CHECKING:
    from privpac.data import UserData
    from privpac.evaluation.predictors import Predictor

__all__ = ["CELLS", "Cells", "TableKernel", "Weight", "user_tables"]

Ints = NDArray[np.int64]
Cells = Literal["table", "error"]
Weight = Literal["user", "record"]

CELLS: dict[Cells, tuple[str, ...]] = {"table": ("tn", "fp", "fn", "tp"), "error": ("right", "wrong")}
"""What is counted: label and prediction, or only whether they agree."""


@jit
def user_tables(offsets: Ints, cells: NDArray[np.uint8], size: int, levels: int, shares: bool, empty: int) -> Ints:
    """What all users add together; ``empty`` is the cell of somebody without records, ``-1`` for none."""
    out = np.zeros(size, np.int64)
    counts, rests = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for user in range(offsets.size - 1):
        m = offsets[user + 1] - offsets[user]
        if m == 0:
            if empty >= 0:
                out[empty] += levels
            continue
        counts[:] = 0
        for i in range(offsets[user], offsets[user + 1]):
            counts[cells[i]] += 1
        if not shares:
            out += counts
            continue
        left = levels
        for c in range(size):
            # levels * count may not fit into 64 bits for huge users: divide the whole and the rest apart.
            whole, part = counts[c] // m, counts[c] % m
            told = whole * levels + part * levels // m
            rests[c] = part * levels % m
            out[c] += told
            left -= told
        while (
            left > 0
        ):  # fewer than ``size`` units are left: one each, the largest remainder first, ties to the earlier cell
            best = 0
            for c in range(1, size):
                if rests[c] > rests[best]:
                    best = c
            out[best] += 1
            rests[best] = -1
            left -= 1
    return out


@dataclass(frozen=True)
class TableKernel:
    """The sums over users, folded on any engine."""

    predictor: Predictor
    cells: Cells
    weight: Weight
    levels: int
    empty: int = -1

    def zero(self) -> Ints:
        return np.zeros(len(CELLS[self.cells]), np.int64)

    def chunk(self, users: UserData) -> Ints:
        told = self.predictor.predictions(users)
        labels: Any = users.labels
        # A prediction that is neither label is wrong, whatever the label is.
        said = np.where(told <= 1, told, 1 - labels).astype(np.uint8)
        found = 2 * labels + said if self.cells == "table" else (said != labels).astype(np.uint8)
        size = len(CELLS[self.cells])
        return user_tables(users.offsets, found.astype(np.uint8), size, self.levels, self.weight == "user", self.empty)

    def merge(self, a: Ints, b: Ints) -> Ints:
        return a + b
