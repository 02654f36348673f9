"""Naive Bayes from rounded counts: quick, without a promise on accuracy.

The answers are the shares of ``y = 1`` and, for every column ``j``, value ``v`` and label ``b``, of the records with
``x_j = v`` and ``y = b``.  The item is the vector of answers itself; the rule adds integer logarithms of ratios.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.learner import ItemUniverse, Padded
from privpac.agreement.queries.base import QueryLearner
from privpac.agreement.queries.rounding import RoundedAnswers
from privpac.agreement.races.words import ilog2, integer
from privpac.agreement.records import Records
from privpac.errors import ParameterError

__all__ = ["BayesRule", "SQNaiveBayes"]

_BYTES = 4


@dataclass(frozen=True)
class BayesRule:
    """1 iff the sum of the weights of the values, less the prior's weight for all columns but one, is positive."""

    prior: int
    weights: tuple[tuple[int, ...], ...]

    def predict(self, x: Any) -> NDArray[np.int8]:
        rows = np.asarray(x)
        total = np.full(len(rows), -(len(self.weights) - 1) * self.prior, dtype=object)
        for j, column in enumerate(self.weights):
            total = total + np.array(column, dtype=object)[rows[:, j].astype(np.int64)]
        return np.asarray(total > 0, dtype=np.int8)


@dataclass(frozen=True)
class SQNaiveBayes(QueryLearner):
    """``domains``: the number of values of each column."""

    domains: tuple[int, ...]

    label: ClassVar[str] = "bayes"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.domains:
            raise ParameterError("naive Bayes needs at least one column")
        object.__setattr__(self, "domains", tuple(integer("a domain size", n, 1, 1 << 16) for n in self.domains))
        integer("grid", self.grid, 1, (1 << 31) - 1)

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return tuple((0, n - 1) for n in self.domains)

    @property
    def queries(self) -> int:
        return 1 + 2 * sum(self.domains)

    @property
    def universe(self) -> ItemUniverse:
        return Padded(_BYTES * self.queries)

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        given = [answers.ask(records.y)]
        for j, n in enumerate(self.domains):
            for v in range(n):
                here = records.x[:, j] == v
                given += [answers.ask((here & (records.y == b)).astype(np.int64)) for b in (0, 1)]
        return b"".join(max(answer, 0).to_bytes(_BYTES, "little") for answer in given)

    def decode(self, item: bytes) -> BayesRule | None:
        if len(item) != _BYTES * self.queries:
            return None
        counts = [int.from_bytes(item[_BYTES * i :][:_BYTES], "little") for i in range(self.queries)]
        if counts[0] > self.grid + 1:
            return None
        prior, rest, weights = _weight(counts[0], max(self.grid - counts[0], 0)), counts[1:], []
        for n in self.domains:
            weights.append(tuple(_weight(one, zero) for zero, one in zip(rest[0 : 2 * n : 2], rest[1 : 2 * n : 2])))
            rest = rest[2 * n :]
        return BayesRule(prior, tuple(weights))


def _weight(one: int, zero: int) -> int:
    return ilog2(one + 1) - ilog2(zero + 1)
