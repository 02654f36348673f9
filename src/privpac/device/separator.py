"""Linear separators in practice: fit exactly, round few numbers.

Each user makes one damped Newton step per stage of the squared-hinge support vector machine in exact integers, and only
the coefficients are rounded with shared offsets.  Stage 0 uses all records; later stages use those with margin below 1
under the *agreed* vector of the stage before, and average the solution with it (without the half step a stage without
active records would forget everything).

*Agreement.*  Only roundings can disagree (ideal-run argument); for columns with values 0 and 1 they do with probability
at most ``sum over stages of I sqrt(D) (sqrt D + D/sqrt(lambda)) / (lambda sqrt(m))``.  *Accuracy*: no promise; measured
to be good.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import integer, rational
from privpac.device.learner import ItemUniverse, Padded
from privpac.device.records import Records
from privpac.device.rules import LinearRule
from privpac.device.statistical_queries import QueryLearner, RoundedAnswers
from privpac.errors import ParameterError

__all__ = ["RoundedSeparator", "fraction_free_solve"]

_BYTES = 8
_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class RoundedSeparator(QueryLearner):
    """``l.(x, 1) > 0`` for ``d`` integer columns (``bound=None``: values 0 and 1), the item ``l`` as 64-bit integers.

    ``ridge`` is lambda, ``grid`` the number of steps per unit of weight; 4 and two stages are a start.
    """

    d: int
    ridge: Fraction = Fraction(1, 50)
    stages: int = 2
    bound: int | None = None

    label: ClassVar[str] = "svm"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("d", self.d, 1, 127)
        integer("stages", self.stages, 1, 64)
        object.__setattr__(self, "ridge", rational("ridge", self.ridge))
        if self.ridge <= 0:
            raise ParameterError(f"ridge must be positive, got {self.ridge}")
        if self.bound is not None:
            integer("bound", self.bound, 1, 1 << 30)

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, 1) if self.bound is None else (-self.bound, self.bound),) * self.d

    @property
    def queries(self) -> int:
        """Roundings in all: of coefficients, not of means, so ``plan`` has a bound of its own."""
        return self.stages * (self.d + 1)

    def plan(self, beta: object) -> int:
        """Records for agreement at ``1 - beta/30`` by the (loose) bound above; for columns with values 0 and 1 only."""
        if self.bound is not None:
            raise ParameterError("the agreement bound is proved for columns with values 0 and 1; simulate instead")
        failure, D, lam = rational("beta", beta), self.d + 1, self.ridge
        if not 0 < failure < 1:
            raise ParameterError(f"beta must be between 0 and 1, got {beta}")
        # (I sqrt D (sqrt D + D / sqrt lam) / lam)^2 <= 2 I^2 D (D + D^2/lam) / lam^2, stages add before the square.
        square = (30 * self.stages * self.grid / failure) ** 2 * 2 * D * (D + D * D / lam) / lam**2
        return -(-square.numerator // square.denominator)

    @property
    def universe(self) -> ItemUniverse:
        return Padded(_BYTES * (self.d + 1))

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        last = self.trail(records, answers)[-1]
        return b"".join(max(-_MOST, min(_MOST, weight)).to_bytes(_BYTES, "little", signed=True) for weight in last)

    def trail(self, records: Records, answers: RoundedAnswers) -> list[list[int]]:
        """The agreed vector of every stage."""
        weights = answers.weights
        rows = np.concatenate([records.x.astype(np.int64), np.ones((len(records), 1), dtype=np.int64)], axis=1)
        signed = rows * (2 * records.y - 1)[:, None]
        active = np.ones(len(rows), dtype=np.bool_)
        agreed: list[int] | None = None
        out = []
        for _ in range(self.stages):
            if agreed is not None:
                active = np.asarray(signed.astype(object) @ np.array(agreed, dtype=object) < self.grid, dtype=np.bool_)
            top, bottom = self._newton(rows[active], signed[active], weights[active], answers.records)
            if agreed is None:
                agreed = [answers.round(self.grid * n, bottom) for n in top]
            else:
                agreed = [answers.round(self.grid * n + old * bottom, 2 * bottom) for n, old in zip(top, agreed)]
            out.append(agreed)
        return out

    def _newton(
        self, rows: NDArray[np.int64], signed: NDArray[np.int64], weights: NDArray[np.int64], total: int
    ) -> tuple[list[int], int]:
        """``w`` of the ridge problem on the active records, as integers over a common positive denominator."""
        kind = np.int64 if (self.bound or 1) ** 2 * total < 1 << 62 else object
        weighted = rows.astype(kind) * weights.astype(kind)[:, None]
        gram = (rows.astype(kind).T @ weighted).tolist()
        target = (signed.astype(kind).T @ weights.astype(kind)).tolist()
        num, den = self.ridge.numerator, self.ridge.denominator
        matrix = [
            [den * entry + (num * total if i == j else 0) for j, entry in enumerate(row)] for i, row in enumerate(gram)
        ]
        return fraction_free_solve(matrix, [den * entry for entry in target])

    def decode(self, item: bytes) -> LinearRule | None:
        if len(item) != _BYTES * (self.d + 1):
            return None
        pieces = [item[i : i + _BYTES] for i in range(0, len(item), _BYTES)]
        return LinearRule(tuple(int.from_bytes(piece, "little", signed=True) for piece in pieces))


def fraction_free_solve(matrix: list[list[int]], target: list[int]) -> tuple[list[int], int]:
    """``(N, det)`` with ``matrix @ N = det * target``, for a positive definite integer matrix (Bareiss elimination,
    both ways).

    >>> fraction_free_solve([[2, 1], [1, 3]], [3, 5])
    ([4, 7], 5)
    """
    size = len(matrix)
    rows = [[*row, right] for row, right in zip(matrix, target)]
    before = 1
    for k in range(size):
        pivot = rows[k][k]
        # Leading minors of a positive definite matrix are positive, so no pivot is 0; the divisions are exact.
        for i in range(size):
            if i != k:
                factor = rows[i][k]
                rows[i] = [(pivot * a - factor * b) // before for a, b in zip(rows[i], rows[k])]
        before = pivot
    return [row[-1] for row in rows], before
