"""Halfspaces with a margin, by statistical queries: a perceptron that sees only the mean of its mistakes.

``x`` is fixed point (unit ``2**-16``) with norm at most 1; the weights are integers.  Ask for the share ``e`` of
mistakes; stop when it is small; else ask for the mean of the signed mistakes coordinate by coordinate and add it,
divided by ``e``.

*Accuracy.*  The step ``u`` has ``u.w* >= rho``, ``u.w <= 0``, norm at most 1, and with ``I = ceil(16 (sqrt d + 1)/(rho
alpha))`` its error has norm at most ``rho/8``; so norms grow like ``2 sqrt t`` and progress like ``7 rho t/8``, and
there are at most ``6/rho^2`` steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np

from privpac.device.correlated_sampling import integer, rational
from privpac.device.learner import ItemUniverse, Padded
from privpac.device.records import Records
from privpac.device.rules import LinearRule
from privpac.device.statistical_queries import QueryLearner, RoundedAnswers, sqrt_up
from privpac.errors import ParameterError

__all__ = ["SQPerceptron"]

_BYTES = 8


@dataclass(frozen=True)
class SQPerceptron(QueryLearner):
    """The halfspace ``w.x > 0`` of ``d`` columns with values in ``-2**point .. 2**point``; the item is ``w`` as 64-bit
    integers.

    At most ``steps`` updates; stops when the answer for the share of mistakes is at most ``stop_index``.
    """

    d: int
    steps: int
    stop_index: int = 1
    point: int = 16

    label: ClassVar[str] = "perc"
    width: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("d", self.d, 1, 1 << 12)
        integer("point", self.point, 1, 24)
        # |w_j| <= steps * grid * 2**point must fit the 64-bit encoding.
        integer("steps", self.steps, 1, ((1 << 62) >> self.point) // (self.grid + 1))
        integer("stop_index", self.stop_index, 1)

    @classmethod
    def certified(cls, d: int, alpha: Any, margin: Any) -> Self:
        """Parameters that promise error at most ``alpha`` for separators with the given margin."""
        error, rho = rational("alpha", alpha), rational("margin", margin)
        if not (0 < error < 1 and 0 < rho <= 1):
            raise ParameterError(f"alpha must be between 0 and 1 and margin in (0, 1], got {alpha} and {margin}")
        grid = ceil(16 * (sqrt_up(Fraction(integer("d", d, 1)), 1 << 16) + 1) / (rho * error))
        return cls(d, ceil(6 / rho**2), max(1, int(grid * error / 2)), grid=grid)

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((-(1 << self.point), 1 << self.point),) * self.d

    @property
    def queries(self) -> int:
        return self.steps * (self.d + 1)

    @property
    def universe(self) -> ItemUniverse:
        return Padded(_BYTES * self.d)

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        return b"".join(w.to_bytes(_BYTES, "little", signed=True) for w in self.weights(records, answers))

    def weights(self, records: Records, answers: RoundedAnswers) -> list[int]:
        signs = 2 * records.y - 1
        signed = records.x.astype(np.int64) * signs[:, None]
        exact = signed.astype(object)
        w = [0] * self.d
        for _ in range(self.steps):
            mistake = np.array(exact @ np.array(w, dtype=object) <= 0, dtype=np.int64)
            share = answers.ask(mistake)
            if share <= self.stop_index:
                break
            for j in range(self.d):
                w[j] += (answers.ask(mistake * signed[:, j], 1 << self.point) << self.point) // share
        return w

    def decode(self, item: bytes) -> LinearRule | None:
        if len(item) != _BYTES * self.d:
            return None
        return LinearRule(
            tuple(int.from_bytes(item[_BYTES * j : _BYTES * (j + 1)], "little", signed=True) for j in range(self.d)),
            constant=False,
        )
