"""Statistical-query learners: distinct records in, rounded answers, one item out.

A learner is deterministic integer code that sees the user's records only through rounded answers
(:class:`RoundedAnswers`), so two users whose answers agree have the same item.  It takes its public coins from the seed
and nothing else.

**Shared-offset rounding.**  A number ``u`` is rounded to ``floor(I u + theta) / I`` with a public uniform offset
``theta``: the error is below ``1/I``, and two users with ``u`` and ``u'`` differ with probability exactly ``min(1, I |u
- u'|)``, better than any coupling of the two-point laws through their total variation.

**Sample reuse is free.**  All queries are asked on the same records, adaptive or not.  The ideal run (true means in
place of sample means) asks its i-th query as a function of the public offsets of the earlier ones only, hence
independently of the records; the first disagreement with it at step i means that query i *of the ideal run* is rounded
differently.  The union bound over q queries of width ``w`` gives ``Pr[item differs] <= q I (w/2) / sqrt(m)``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import isqrt
from typing import ClassVar, Self

import numpy as np

from privpac.device.correlated_sampling import Ints, Ratio, ilog2, integer, le64, proper, rational, word_named
from privpac.device.items import (
    CappedLearner,
    CodeRows,
    Hypothesis,
    ItemUniverse,
    Junction,
    Labels,
    Padded,
    Ranges,
    Records,
    distinct,
    literals,
)
from privpac.errors import ParameterError
from privpac.rng import derive


def round_shared(s: int, M: int, I: int, word: int) -> int:  # noqa: E741
    """``floor(I * s/M + word / 2**64)``, the floor also of negative numbers.

    >>> [round_shared(-1, 3, 10, word) for word in (0, 2**63)]
    [-4, -3]
    """
    return (I * s * (1 << 64) + word * M) // (M << 64)


class RoundedAnswers:
    """Rounded answers to the statistical queries of one user, counted from 0 in asking order.

    ``weights`` are the multiplicities of the user's distinct records, ``records`` their sum; a query gives an integer
    in ``-scale..scale`` for each.
    """

    def __init__(self, seed: bytes, label: str, grid: int, weights: Ints) -> None:
        self._key = derive(seed, label)
        self._grid = integer("grid", grid, 1)
        self.weights = weights
        self.records = int(weights.sum())
        if self.records < 1:
            raise ParameterError("statistical queries need at least one record; a user without records sends none")
        self.given: list[int] = []

    def ask(self, values: CodeRows, scale: int = 1) -> int:
        """The rounded mean of a query, in units of ``1/grid``.

        The caller bounds ``|values| <= scale``; int64 sums are exact below 2**63, object arrays always.
        """
        return self.answer(int(values @ self.weights), scale)

    def answer(self, total: int, scale: int = 1) -> int:
        """The same from the sum of the query over the records."""
        return self.round(self._grid * total, self.records * scale)

    def round(self, top: int, bottom: int) -> int:
        """``top/bottom`` rounded with the next public offset; ``bottom`` is positive."""
        found = round_shared(top, bottom, 1, word_named(self._key, le64(len(self.given))))
        self.given.append(found)
        return found


def query_records(queries: int, grid: int, beta: Ratio, width: Ratio = 1) -> int:
    """Records per user at which the item differs from the ideal run's with probability at most ``beta/30``, over seeds
    and records.

    ``ceil((30 q I (w/2) / beta)**2)``: certified and large; what is needed in practice is found by simulation.
    """
    queries, grid = integer("queries", queries, 0), integer("grid", grid, 1)
    failure, spread = proper("beta", beta), rational("width", width)
    square: Fraction = (30 * queries * grid * spread / (2 * failure)) ** 2
    return -(-square.numerator // square.denominator)


def sqrt_up(value: Fraction, unit: int) -> Fraction:
    """The least multiple of ``1/unit`` that is at least the square root of ``value``."""
    scaled = value * unit * unit
    whole = -(-scaled.numerator // scaled.denominator)
    root = isqrt(whole)
    return Fraction(root + (root * root < whole), unit)


@dataclass(frozen=True, kw_only=True)
class QueryLearner(CappedLearner):
    """A learner from rounded answers; ``grid`` is ``I``: answers are multiples of ``1/I``, off by less than one."""

    grid: int

    label: ClassVar[str] = "sq"
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        integer("grid", self.grid, 1)
        super().__post_init__()

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

    def item_of(self, records: Records, seed: bytes) -> bytes:
        found, weights = distinct(records)
        return self.learn(found, RoundedAnswers(seed, self.label, self.grid, weights))

    def plan(self, beta: Ratio) -> int:
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
    def certified(cls, d: int, alpha: Ratio) -> Self:
        """The grid that promises error at most ``alpha`` for answers off by less than ``1/I``."""
        error = proper("alpha", alpha)
        return cls(integer("d", d, 1), grid=-(-2 * d * error.denominator // error.numerator))

    @property
    def columns(self) -> Ranges:
        return ((0, 1),) * self.d

    @property
    def queries(self) -> int:
        return 2 * self.d

    @property
    def universe(self) -> ItemUniverse:
        return Padded(-(-2 * self.d // 8))

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        # A literal of a disjunction stays if it is hardly ever 1 on a negative record.
        truth = literals(records.x) == self.every
        against = records.y == int(self.every)
        mask = 0
        for j in range(2 * self.d):
            if answers.ask((against & ~truth[:, j]).astype(np.int64)) <= self.keep_at_most:
                mask |= 1 << j
        return Junction(self.d, mask, self.every).to_bytes()

    def decode(self, item: bytes) -> Junction | None:
        mask = int.from_bytes(item, "little")
        if len(item) != -(-2 * self.d // 8) or mask >> (2 * self.d):
            return None
        return Junction(self.d, mask, self.every)


class SQDisjunctions(SQConjunctions):
    """Disjunctions: the same with labels and literals negated."""

    every: ClassVar[bool] = False


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

    def predict(self, x: object) -> Labels:
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
    def columns(self) -> Ranges:
        return tuple((0, n - 1) for n in self.domains)

    @property
    def queries(self) -> int:
        return 1 + 2 * sum(self.domains)

    @property
    def universe(self) -> ItemUniverse:
        return Padded(_BYTES * self.queries)

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        counts = [answers.ask(records.y)]
        for j, n in enumerate(self.domains):
            for v in range(n):
                here = records.x[:, j] == v
                counts += [answers.ask((here & (records.y == b)).astype(np.int64)) for b in (0, 1)]
        return b"".join(max(count, 0).to_bytes(_BYTES, "little") for count in counts)

    def decode(self, item: bytes) -> BayesRule | None:
        if len(item) != _BYTES * self.queries:
            return None
        counts = [int.from_bytes(item[_BYTES * i :][:_BYTES], "little") for i in range(self.queries)]
        if counts[0] > self.grid + 1:
            return None
        counts.insert(0, max(self.grid - counts[0], 0))  # pairs (zero, one) from here on, the prior's first
        ratios = [ilog2(one + 1) - ilog2(zero + 1) for zero, one in zip(counts[::2], counts[1::2])]
        ends = list(accumulate(self.domains, initial=1))
        return BayesRule(ratios[0], tuple(tuple(ratios[a:b]) for a, b in pairwise(ends)))
