"""How often two users agree: exact formulas, and the stream of public points as a reference.

Correlated sampling draws from each user's own law with public randomness so that users with close laws get the same
point. The *race* agrees with probability ``sum_i 1 / sum_j max(p_j/p_i, q_j/q_i)``.  The *stream* outputs the first
public point ``(w, h)``, ``w`` uniform and ``h`` uniform in [0, 1), with ``h < P(w)``; it needs as many rounds as there
are points, so it is kept as a reference only.  Both disagree with probability at most ``2 TV / (1 + TV)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import ClassVar, NamedTuple, Self

import numpy as np
from attrs import frozen

from privpac.device.correlated_sampling import (
    Clocks,
    Component,
    Ints,
    RaceWinner,
    Ratio,
    check_race,
    ilog2,
    integer,
    leaf_component,
    ln_up,
    rate,
    rational,
)
from privpac.device.items import ItemUniverse, LinearRule, Padded, Records, TruthTable
from privpac.device.littlestone import (
    DEFAULT_BUDGET,
    Reduction,
    ReductionList,
    Rows,
    Search,
    VersionSpaceList,
    accuracy_order,
    list_bound,
    version_space_records,
)
from privpac.device.scores import RuleScores, table_errors
from privpac.device.statistical_queries import QueryLearner, RoundedAnswers, sqrt_up
from privpac.errors import ParameterError, TooLargeError


def _laws(p: Sequence[Fraction], q: Sequence[Fraction]) -> None:
    if len(p) != len(q):
        raise ParameterError(f"the two laws must have the same points, got {len(p)} and {len(q)}")
    for law in (p, q):
        if sum(law) != 1 or min(law) < 0:
            raise ParameterError("a law has entries of at least 0 that add up to 1")


def total_variation(p: Sequence[Fraction], q: Sequence[Fraction]) -> Fraction:
    """Half the sum of the absolute differences."""
    _laws(p, q)
    return sum((abs(a - b) for a, b in zip(p, q)), Fraction(0)) / 2


def race_disagreement(p: Sequence[Fraction], q: Sequence[Fraction]) -> Fraction:
    """The exact probability that two users' races have different winners.

    Both get ``i`` iff ``E_j >= E_i max(p_j/p_i, q_j/q_i)`` for all ``j``: ``E_i`` is first among exponentials with
    these rates.
    """
    _laws(p, q)
    agree = Fraction(0)
    for a, b in zip(p, q):
        if a and b:
            agree += 1 / sum((max(c / a, d / b) for c, d in zip(p, q)), Fraction(0))
    return 1 - agree


def stream_disagreement(p: Sequence[Fraction], q: Sequence[Fraction]) -> Fraction:
    """The exact probability that two users accept different points of one stream.

    The first point below ``max(P, Q)`` is accepted by both with probability ``min/sum max``; otherwise one user stops
    at ``w`` and the other goes on alone and still gets ``w`` with its own probability of ``w``.
    """
    _laws(p, q)
    either = sum((max(a, b) for a, b in zip(p, q)), Fraction(0))
    agree = sum((min(a, b) + abs(a - b) * min(a, b) for a, b in zip(p, q)), Fraction(0))
    return 1 - agree / either


def stream_sample(law: Sequence[Fraction], points: Iterable[tuple[int, Fraction]]) -> int:
    """The first point of the public stream that lies below the law."""
    for w, height in points:
        if height < law[w]:
            return w
    raise ParameterError("the stream ended before a point was accepted; give more points")


# The function that the lists of every good sample share, computed from the distribution itself.
#
# For checks of the theorem and for planning on public distributions: nothing here sees users' records.


@frozen(slots=False)
class StableHypothesis:
    """The reduced dimensions of the error levels, the first level that repeats, and the function found there."""

    values: tuple[int, ...]
    level: int
    dimension: int
    item: bytes
    error: Fraction


def stable_hypothesis(
    rows: Rows,
    weights: Sequence[Fraction],
    target: int,
    levels: Sequence[Fraction],
    depths: Sequence[int],
    q: int,
    budget: int = DEFAULT_BUDGET,
) -> StableHypothesis:
    """``target`` is a mask over the points; ``levels`` has one entry more than ``depths``.

    The first leaf (label 0 before 1) of the tree of the inner level that has the common dimension and cannot be reduced
    within the depth between the two levels.
    """
    if len(weights) != rows.points or len(levels) != len(depths) + 1:
        raise ParameterError("there must be a weight for every point and one level more than depths")
    search = Reduction(rows, budget)
    errors = [_error(word ^ target, weights) for word in rows.words]
    classes = [rows.mask(i for i, error in enumerate(errors) if error <= level) for level in levels]
    deep = [*depths, depths[-1] + max(depths[-1] + 1, q)]
    values = tuple(search.value(mask, k) for mask, k in zip(classes, deep))
    level = next(i for i in range(len(depths)) if values[i] == values[i + 1])
    r, between = values[level], deep[level + 1] - deep[level]
    for leaf in search.tree(classes[level + 1], deep[level], r):
        if leaf.dimension == r and (r == 0 or not search.reaches(leaf.mask, between, r - 1)):
            word = search.soa(leaf.mask)
            return StableHypothesis(values, level, r, rows.packed(word), _error(word ^ target, weights))
    raise AssertionError("some leaf is irreducible, by the choice of the level")


def _error(differ: int, weights: Sequence[Fraction]) -> Fraction:
    return sum((weight for x, weight in enumerate(weights) if differ >> x & 1), Fraction(0))


# The tournament list learner, for comparison: complete proof, short for small dimensions only.
#
# Pairs of version spaces whose optimal predictions differ meet at the first point where they do; both labels of that
# point are followed, and the side that would err is restricted.  Following the true labels lowers the dimension with
# every round, so some function is in the list with probability at least ``2**-(d+2)``; lists have up to ``2**(2**d)``
# entries and ``2**(d+2) - d - 3`` fresh blocks are used.


Block = Sequence[Sequence[int]]

MAX_DIMENSION = 3


def tournament_blocks(d: int) -> int:
    """The number of fresh blocks used."""
    return (1 << (d + 2)) - d - 3


def tournament_lists(
    rows: Rows, d: int, blocks: Sequence[Block], budget: int = DEFAULT_BUDGET
) -> list[frozenset[bytes]]:
    """The list of every level 0..d, as packed truth tables; ``blocks`` are consumed in order."""
    d = integer("d", d, 0)
    if d > MAX_DIMENSION:
        raise TooLargeError(f"tournaments are for dimension at most {MAX_DIMENSION}, got {d}; use ReductionList")
    if len(blocks) < tournament_blocks(d):
        raise ParameterError(f"a tournament of dimension {d} needs {tournament_blocks(d)} blocks, got {len(blocks)}")
    search, fresh = Search(rows, budget), iter(blocks)
    lists = []
    for k in range(d + 1):
        test = next(fresh)
        spaces = (rows.restrict(space, test) for space in _variants(search, k, fresh))
        lists.append(frozenset(rows.packed(search.soa(space)) for space in spaces if space))
    return lists


def _variants(search: Search, k: int, fresh: Iterator[Block]) -> set[int]:
    if k == 0:
        return {search.rows.everything}
    rows = search.rows
    left, right = _variants(search, k - 1, fresh), _variants(search, k - 1, fresh)
    blocks = next(fresh), next(fresh)
    out = set()
    for pair in ((a, b) for a in left for b in right):
        spaces = [rows.restrict(space, block) for space, block in zip(pair, blocks)]
        if not all(spaces):
            continue
        words = [search.soa(space) for space in spaces]
        differ = words[0] ^ words[1]
        if not differ:
            continue
        x = (differ & -differ).bit_length() - 1
        for y in (0, 1):
            wrong = next(b for b in (0, 1) if words[b] >> x & 1 != y)
            out.add(rows.split(spaces[wrong], x)[y])
    return out - {0}


# Halfspaces with a margin, by statistical queries: a perceptron that sees only the mean of its mistakes.
#
# ``x`` is fixed point (unit ``2**-16``) with norm at most 1; the weights are integers.  Ask for the share ``e`` of
# mistakes; stop when it is small; else ask for the mean of the signed mistakes coordinate by coordinate and add it,
# divided by ``e``.
#
# *Accuracy.*  The step ``u`` has ``u.w* >= rho``, ``u.w <= 0``, norm at most 1, and with ``I = ceil(16 (sqrt d +
# 1)/(rho alpha))`` its error has norm at most ``rho/8``; so norms grow like ``2 sqrt t`` and progress like ``7 rho
# t/8``, and there are at most ``6/rho^2`` steps.


_BYTES = 8


@dataclass(frozen=True)  # as its base, which devices load
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
    def certified(cls, d: int, alpha: object, margin: object) -> Self:
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


# Beside what devices run: the race by its definition, plans of list learners, any finite class.


def interval_min(key: bytes, component: int, bits: int, low: int, high: int) -> tuple[int, int]:
    """The least ``(clock, leaf)`` among the leaves ``low..high``, by the canonical dyadic cover."""
    bits = integer("bits", bits, 1, 64)
    low, high = integer("low", low, 0, (1 << bits) - 1), integer("high", high, 0, (1 << bits) - 1)
    if low > high:
        raise ParameterError(f"low must be at most high, got {low} > {high}")
    tree = Clocks(key, component, bits)
    best: tuple[int, int] | None = None
    stack = [(0, 0, tree.root())]
    while stack:
        level, prefix, minimum = stack.pop()
        height = bits - level
        begin, end = prefix << height, ((prefix + 1) << height) - 1
        if end < low or high < begin:
            continue
        if low <= begin and end <= high:
            entry = (minimum, tree.first(level, prefix))
            best = entry if best is None else min(best, entry)
            continue
        left, right = tree.children(level, prefix, minimum)
        stack += [(level + 1, 2 * prefix, left), (level + 1, 2 * prefix + 1, right)]
    assert best is not None
    return best


def race_blocks(
    key: bytes, blocks: Sequence[tuple[int, int, int | None]], bits: int, m: int, Gamma: int, component: int = 0
) -> RaceWinner | None:
    """The winner over blocks ``(low, high, score)``, block by block as the race is defined; ``None`` if the support is
    empty."""
    m, Gamma = check_race(m, Gamma)
    best: RaceWinner | None = None
    for low, high, score in blocks:
        if score is None:
            continue
        minimum, leaf = interval_min(key, component, bits, low, high)
        cost = ilog2(minimum, 40) + Gamma * integer("a score", score, 0, m) // m
        found = RaceWinner(cost, minimum, component, leaf)
        best = found if best is None else min(best, found)
    return best


class ListPlan(NamedTuple):
    """Least share, published rate and number of sub-samples."""

    tau: Fraction
    Gamma: int
    parts: int


def plan_list_race(length: int, eta: Ratio, beta: Ratio) -> ListPlan:
    """Certified parameters for lists of at most ``length`` that contain one hypothesis with probability ``eta``.

    With ``tau = eta/2`` and ``B = beta/30``: ``gamma = ln(6L/(0.9 tau B))/(0.9 tau)`` and ``k = ceil max( ln(24L/(tau
    B))/(0.02 tau^2), gamma^2 ln(2L/(0.9 tau))/2 (3/B)^2 )`` keep the probability of another item than the common one
    below ``B``.  Practical numbers of sub-samples are 9 to 50.
    """
    length, often, failure = integer("length", length, 1), rational("eta", eta), rational("beta", beta)
    if not (0 < often <= 1 and 0 < failure < 1):
        raise ParameterError(f"eta must be in (0, 1] and beta between 0 and 1, got {eta} and {beta}")
    tau, budget = often / 2, failure / 30
    kept = Fraction(9, 10) * tau
    gamma = ln_up(6 * length / (kept * budget)) / kept
    spread = 50 * ln_up(24 * length / (tau * budget)) / tau**2
    return ListPlan(tau, rate(gamma), ceil(max(spread, gamma**2 * ln_up(2 * length / kept) / 2 * (3 / budget) ** 2)))


def choose_list(
    rows: Rows, alpha: Ratio, zeta: Ratio = "1/20", *, d: int | None = None
) -> tuple[ReductionList | VersionSpaceList, int]:
    """The list learner with the shorter certified lists, and the records per list it needs."""
    if d is None:
        d = Search(rows).dimension(rows.everything)
    if d == 0 or list_bound(d, accuracy_order(d), None) < rows.size:
        plan = ReductionList.plan(rows, alpha, zeta, d=d)
        return ReductionList(rows, plan.depths, plan.cutoffs), plan.records
    return VersionSpaceList(rows), version_space_records(rows.size, alpha, zeta)


@frozen(slots=False, init=False)
class TableScores(RuleScores):
    """Any finite class: ``rows[h][x]`` is what rule ``h`` says at point ``x``."""

    rows: tuple[tuple[int, ...], ...]

    def __init__(self, rows: Iterable[Sequence[int]]) -> None:
        table = tuple(tuple(int(bit) for bit in row) for row in rows)
        if (
            not table
            or not table[0]
            or len({len(row) for row in table}) != 1
            or {bit for row in table for bit in row} - {0, 1}
        ):
            raise ParameterError("rows must be a rectangular table of 0 and 1 with at least one rule and one point")
        object.__setattr__(self, "rows", table)
        self._shape(((0, len(table[0]) - 1),), len(table))

    @cached_property
    def _table(self) -> Ints:
        return np.array(self.rows, dtype=np.int64)

    def components(self, records: Records) -> list[Component]:
        return [leaf_component(table_errors(self._table, records), len(records))]

    def rule(self, number: int) -> TruthTable:
        return TruthTable(self.rows[integer("number", number, 0, len(self.rows) - 1)])
