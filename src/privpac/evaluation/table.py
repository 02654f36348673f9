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

from privpac.concepts.kernels.shares import user_tables

if TYPE_CHECKING:
    from privpac.data import UserData
    from privpac.evaluation.predictors import Predictor

__all__ = ["CELLS", "Cells", "TableKernel", "Weight", "user_tables"]

Ints = NDArray[np.int64]
Cells = Literal["table", "error"]
Weight = Literal["user", "record"]

CELLS: dict[Cells, tuple[str, ...]] = {"table": ("tn", "fp", "fn", "tp"), "error": ("right", "wrong")}
"""What is counted: label and prediction, or only whether they agree."""


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
