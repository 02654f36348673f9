"""What statistical-query learners share: distinct records in, rounded answers, one item out.

A learner is deterministic integer code that sees the user's records only through rounded answers
(``rounding.RoundedAnswers``), so two users whose answers agree have the same item.  It takes its public coins from the
seed and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import (
    MAX_DENOMINATOR,
    check_seed,
    derive,
    ilog2,
    integer,
    le64,
    rational,
    word_named,
)
from privpac.device.learner import Hypothesis, ItemUniverse, Padded
from privpac.device.records import Records, clean, distinct
from privpac.device.rules import Junction, literals
from privpac.errors import ParameterError

__all__ = [
    "BayesRule",
    "QueryLearner",
    "RoundedAnswers",
    "SQConjunctions",
    "SQDisjunctions",
    "SQNaiveBayes",
    "query_records",
    "round_shared",
    "sqrt_up",
]


# Shared-offset rounding, and answers to statistical queries.
#
# A number ``u`` is rounded to ``floor(I u + theta) / I`` with a public uniform offset ``theta``: the error is below
# ``1/I``, and two users with ``u`` and ``u'`` differ with probability exactly ``min(1, I |u - u'|)``, better than any
# coupling of the two-point laws through their total variation.
#
# **Sample reuse is free.**  All queries are asked on the same records, adaptive or not.  The ideal run (true means in
# place of sample means) asks its i-th query as a function of the public offsets of the earlier ones only, hence
# independently of the records; the first disagreement with it at step i means that query i *of the ideal run* is
# rounded
# differently.  The union bound over q queries of width ``w`` gives ``Pr[item differs] <= q I (w/2) / sqrt(m)``.


def round_shared(s: int, M: int, I: int, word: int) -> int:  # noqa: E741
    """``floor(I * s/M + word / 2**64)``, the floor also of negative numbers.

    >>> [round_shared(-1, 3, 10, word) for word in (0, 2**63)]
    [-4, -3]
    """
    return (I * s * (1 << 64) + word * M) // (M << 64)


class RoundedAnswers:
    """Rounded answers to the statistical queries of one user, counted from 0 in asking order.

    ``weights`` are the multiplicities of the user's distinct records; a query gives an integer in ``-scale..scale`` for
    each.
    """

    def __init__(self, seed: bytes, label: str, grid: int, weights: NDArray[np.int64]) -> None:
        self._key = derive(seed, label)
        self._grid = integer("grid", grid, 1)
        self._weights = weights
        self._total = int(weights.sum())
        if self._total < 1:
            raise ParameterError("statistical queries need at least one record; a user without records sends none")
        self.given: list[int] = []

    @property
    def records(self) -> int:
        """How many records the user has."""
        return self._total

    @property
    def weights(self) -> NDArray[np.int64]:
        """How often each distinct record occurs."""
        return self._weights

    def ask(self, values: NDArray[Any], scale: int = 1) -> int:
        """The rounded mean of a query, in units of ``1/grid``.

        The caller bounds ``|values| <= scale``; int64 sums are exact below 2**63, object arrays always.
        """
        return self.answer(int(values @ self._weights), scale)

    def answer(self, total: int, scale: int = 1) -> int:
        """The same from the sum of the query over the records."""
        return self.round(self._grid * total, self._total * scale)

    def round(self, top: int, bottom: int) -> int:
        """``top/bottom`` rounded with the next public offset; ``bottom`` is positive."""
        found = round_shared(top, bottom, 1, word_named(self._key, le64(len(self.given))))
        self.given.append(found)
        return found


def query_records(queries: int, grid: int, beta: Any, width: Any = 1) -> int:
    """Records per user at which the item differs from the ideal run's with probability at most ``beta/30``, over seeds
    and records.

    ``ceil((30 q I (w/2) / beta)**2)``: certified and large; what is needed in practice is found by simulation.
    """
    queries, grid = integer("queries", queries, 0), integer("grid", grid, 1)
    failure, spread = rational("beta", beta), rational("width", width)
    if not 0 < failure < 1:
        raise ParameterError(f"beta must be between 0 and 1, got {beta}")
    square: Fraction = (30 * queries * grid * spread / (2 * failure)) ** 2
    return -(-square.numerator // square.denominator)


def sqrt_up(value: Fraction, unit: int) -> Fraction:
    """The least multiple of ``1/unit`` that is at least the square root of ``value``."""
    scaled = value * unit * unit
    whole = -(-scaled.numerator // scaled.denominator)
    root = isqrt(whole)
    return Fraction(root + (root * root < whole), unit)


@dataclass(frozen=True, kw_only=True)
class QueryLearner(ABC):
    """A learner from rounded answers; ``grid`` is ``I``: answers are multiples of ``1/I``, off by less than one."""

    grid: int
    min_records: int = 1
    max_records: int = MAX_DENOMINATOR

    label: ClassVar[str] = "sq"
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        integer("grid", self.grid, 1)
        integer("min_records", self.min_records, 1)
        integer("max_records", self.max_records, 1, MAX_DENOMINATOR)

    @property
    @abstractmethod
    def columns(self) -> tuple[tuple[int, int], ...]:
        """The allowed range of every column."""

    @property
    @abstractmethod
    def queries(self) -> int:
        """The largest number of queries asked."""

    @property
    @abstractmethod
    def universe(self) -> ItemUniverse: ...

    @abstractmethod
    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        """The item, from distinct records and the answers to queries on them."""

    @abstractmethod
    def decode(self, item: bytes) -> Hypothesis | None: ...

    def item(self, x: Any, y: Any, seed: bytes) -> bytes | None:
        """The user's item, ``None`` for a user with fewer than ``min_records`` valid records."""
        check_seed(seed)
        records = clean(x, y, self.columns, limit=self.max_records)
        if len(records) < self.min_records:
            return None
        found, weights = distinct(records)
        return self.learn(found, RoundedAnswers(seed, self.label, self.grid, weights))

    def plan(self, beta: Any) -> int:
        """Certified records per user: the item differs from the common one with probability at most ``beta/30``."""
        return query_records(self.queries, self.grid, beta, self.width)


# Conjunctions and disjunctions of literals, by statistical queries.
#
# Ask for every literal how often it is 0 on a positive record; keep those answered with 0.  A literal of the target is
# never 0 there, so its answer is 0 whatever the offset; a literal kept by mistake is 0 on a share below ``1/I`` of the
# records.  All errors are misses, at most ``2d/I`` in total: ``I = ceil(2d/alpha)`` suffices.  Disjunctions are the
# same with labels and literals negated.


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


# Naive Bayes from rounded counts: quick, without a promise on accuracy.
#
# The answers are the shares of ``y = 1`` and, for every column ``j``, value ``v`` and label ``b``, of the records with
# ``x_j = v`` and ``y = b``.  The item is the vector of answers itself; the rule adds integer logarithms of ratios.


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
