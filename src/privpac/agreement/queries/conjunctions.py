"""Conjunctions and disjunctions of literals, by statistical queries.

Ask for every literal how often it is 0 on a positive record; keep those answered with 0.  A literal of the target is
never 0 there, so its answer is 0 whatever the offset; a literal kept by mistake is 0 on a share below ``1/I`` of the
records.  All errors are misses, at most ``2d/I`` in total: ``I = ceil(2d/alpha)`` suffices.  Disjunctions are the same
with labels and literals negated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.learner import ItemUniverse, Padded
from privpac.agreement.queries.base import QueryLearner
from privpac.agreement.queries.rounding import RoundedAnswers
from privpac.agreement.races.words import integer, rational
from privpac.agreement.records import Records
from privpac.agreement.rules import Junction, literals
from privpac.errors import ParameterError

__all__ = ["SQConjunctions", "SQDisjunctions"]


@dataclass(frozen=True)
class SQConjunctions(QueryLearner):
    """Conjunctions of the ``2d`` literals of ``d`` columns with values 0 and 1; the item is the mask of the literals
    kept."""

    d: int
    keep_at_most: int = 0

    label: ClassVar[str] = "conj"
    every: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("d", self.d, 1, 1 << 15)
        integer("keep_at_most", self.keep_at_most, 0)

    @classmethod
    def certified(cls, d: int, alpha: Any) -> Self:
        """The grid that promises error at most ``alpha`` for answers off by less than ``1/I``."""
        error = rational("alpha", alpha)
        if not 0 < error < 1:
            raise ParameterError(f"alpha must be between 0 and 1, got {alpha}")
        return cls(integer("d", d, 1), grid=-(-2 * d * error.denominator // error.numerator))

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, 1),) * self.d

    @property
    def queries(self) -> int:
        return 2 * self.d

    @property
    def universe(self) -> ItemUniverse:
        return Padded(-(-2 * self.d // 8))

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        said, positive = self._view(records)
        mask = 0
        for j in range(2 * self.d):
            if answers.ask((positive & ~said[:, j]).astype(np.int64)) <= self.keep_at_most:
                mask |= 1 << j
        return Junction(self.d, mask, self.every).to_bytes()

    def _view(self, records: Records) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return literals(records.x), records.y == 1

    def decode(self, item: bytes) -> Junction | None:
        mask = int.from_bytes(item, "little")
        if len(item) != -(-2 * self.d // 8) or mask >> (2 * self.d):
            return None
        return Junction(self.d, mask, self.every)


@dataclass(frozen=True)
class SQDisjunctions(SQConjunctions):
    """Disjunctions: a literal stays if it is hardly ever 1 on a negative record."""

    every: ClassVar[bool] = False

    def _view(self, records: Records) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return ~literals(records.x), records.y == 0
