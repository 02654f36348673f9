"""Littlestone dimension and the standard optimal algorithm, for finite classes.

A class is a table of distinct 0/1 rows in lexicographic order over points 0..N-1; a subclass is a bit mask over the
rows, and ``V|(x, y)`` keeps the rows with value ``y`` at ``x``.  ``Ldim(empty) = -1`` and ``Ldim(V) = max_x 1 +
min(Ldim(V|(x,0)), Ldim(V|(x,1)))`` over the points that split ``V``; ``SOA(V)(x)`` is the value whose side has the
larger dimension, 0 if equal.  At most one side keeps ``Ldim(V)``.

The dimension is found by deciding ``Ldim >= t``, with proved bounds remembered per mask: exponential in the worst case,
so work is counted and refused above a budget.  A search belongs to one user; only the table is shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache, cached_property
from itertools import accumulate, islice, pairwise
from math import ceil, comb, prod
from typing import NamedTuple

import numpy as np

from privpac.device.correlated_sampling import (
    MAX_DENOMINATOR,
    Ints,
    Ratio,
    check_race,
    check_seed,
    integer,
    ln_up,
    proper,
    race_named,
    rational,
)
from privpac.device.items import (
    CodeRows,
    Hypothesis,
    ItemUniverse,
    Labels,
    ListLearner,
    NumberedItems,
    OnePoint,
    Padded,
    Ranges,
    Records,
    TruthTable,
    clean,
    pack_bits,
    rows_of,
    unpack_bits,
)
from privpac.device.scores import PointScores, RuleScores, table_errors, value_changes
from privpac.errors import ParameterError, TooLargeError
from privpac.rng import derive

DEFAULT_BUDGET = 10**6
"""Search nodes before a search gives up."""


class WorkExceeded(TooLargeError):
    """The search needed more nodes than its budget."""


class Rows:
    """A finite class: duplicates removed, rows sorted, points with equal columns merged for the search.

    >>> Rows(["001", "010", "100"]).size
    3
    """

    def __init__(self, rows: Iterable[str | Sequence[int]]) -> None:
        try:
            table = sorted({tuple(int(bit) for bit in row) for row in rows})
        except (TypeError, ValueError):
            raise ParameterError("rows must be texts or lists of 0 and 1") from None
        rectangular = table and table[0] and len({len(row) for row in table}) == 1
        if not rectangular or any(bit not in (0, 1) for row in table for bit in row):
            raise ParameterError("rows must be a rectangular table of 0 and 1 with at least one row and one point")
        self.rows = tuple(table)
        self.points = len(table[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.rows == other.rows

    def __hash__(self) -> int:
        return hash(self.rows)

    def __repr__(self) -> str:
        return f"Rows({self.size} rules on {self.points} points)"

    @property
    def size(self) -> int:
        return len(self.rows)

    @property
    def everything(self) -> int:
        return (1 << self.size) - 1

    @cached_property
    def table(self) -> Ints:
        return np.array(self.rows, dtype=np.int64)

    @cached_property
    def ones(self) -> tuple[int, ...]:
        """For every point, the mask of the rows with value 1."""
        return tuple(int("".join(map(str, column))[::-1], 2) for column in self.table.T.tolist())

    @cached_property
    def heads(self) -> tuple[int, ...]:
        """The first point of every group of points with equal columns."""
        first: dict[int, int] = {}
        for x, mask in enumerate(self.ones):
            first.setdefault(mask, x)
        return tuple(first.values())

    @cached_property
    def words(self) -> tuple[int, ...]:
        """Every row as a mask over the points."""
        return tuple(int("".join(map(str, row))[::-1], 2) for row in self.rows)

    def split(self, mask: int, x: int) -> tuple[int, int]:
        """The rows of a mask with value 0 and with value 1 at a point."""
        one = mask & self.ones[x]
        return mask ^ one, one

    def restrict(self, mask: int, sample: Iterable[Sequence[int]]) -> int:
        for x, y in sample:
            mask = self.split(mask, x)[y]
        return mask

    def mask(self, members: Iterable[int]) -> int:
        return sum(1 << i for i in set(members))

    def packed(self, word: int) -> bytes:
        """A function on the points, given as a mask, as canonical bytes."""
        return word.to_bytes(-(-self.points // 8), "little")

    def row_bytes(self, row: int) -> bytes:
        return pack_bits(self.table[row])


class Search:
    """Dimensions and optimal predictions within a budget of search nodes; forgets everything with the user it
    serves."""

    def __init__(self, rows: Rows, budget: int = DEFAULT_BUDGET) -> None:
        self.rows = rows
        self._left = budget
        self._lower: dict[int, int] = {}
        self._upper: dict[int, int] = {}
        self._soa: dict[int, int] = {}

    def spend(self, nodes: int = 1) -> None:
        self._left -= nodes
        if self._left < 0:
            raise WorkExceeded(
                "the search for a Littlestone dimension needs more nodes than its budget; raise it, or use the version "
                "space"
            )

    def splits(self, mask: int) -> list[tuple[int, int, int]]:
        """(point, smaller side, larger side) for every point that splits a mask, most balanced first."""
        found = []
        for x in self.rows.heads:
            zero, one = self.rows.split(mask, x)
            if zero and one:
                found.append((x, zero, one) if zero.bit_count() <= one.bit_count() else (x, one, zero))
        found.sort(key=lambda entry: -entry[1].bit_count())
        return found

    def at_least(self, mask: int, t: int) -> bool:
        """Whether ``Ldim(mask) >= t``."""
        if t <= 0:
            return mask != 0 or t < 0
        if mask.bit_count() < 1 << t or self._upper.get(mask, t) < t:
            return False
        if self._lower.get(mask, -1) >= t:
            return True
        self.spend()
        for _, small, large in self.splits(mask):
            if small.bit_count() < 1 << (t - 1):
                break
            if self.at_least(small, t - 1) and self.at_least(large, t - 1):
                self._lower[mask] = max(t, self._lower.get(mask, -1))
                return True
        self._upper[mask] = min(t - 1, self._upper.get(mask, t - 1))
        return False

    def dimension(self, mask: int) -> int:
        """``Ldim`` of a subclass, -1 if it is empty."""
        if not mask:
            return -1
        t = max(0, self._lower.get(mask, 0))
        while self.at_least(mask, t + 1):
            t += 1
        return t

    def soa(self, mask: int) -> int:
        """The optimal prediction of a subclass at every point, as a mask over the points."""
        if mask not in self._soa:
            d, by_column, out = self.dimension(mask), dict[int, int](), 0
            for x, column in enumerate(self.rows.ones):
                if column not in by_column:
                    by_column[column] = self._predict(mask, x, d)
                out |= by_column[column] << x
            self._soa[mask] = out
        return self._soa[mask]

    def _predict(self, mask: int, x: int, d: int) -> int:
        zero, one = self.rows.split(mask, x)
        if not zero or not one:
            return int(zero == 0 and one != 0)
        if self.at_least(zero, d):
            return 0
        if self.at_least(one, d):
            return 1
        return int(self.at_least(one, self.dimension(zero) + 1))

    def shattered(self, mask: int, t: int, near: int) -> int:
        """``2**t`` members shattered by a tree of depth ``t``, close to the function ``near``; ``Ldim(mask) >= t`` is
        known."""
        self.spend()
        if t == 0:
            words, best, rest = self.rows.words, (1 << 62, 0), mask
            while rest:
                row = (rest & -rest).bit_length() - 1
                best = min(best, ((words[row] ^ near).bit_count(), row))
                rest &= rest - 1
            return 1 << best[1]
        for _, small, large in self.splits(mask):
            if self.at_least(small, t - 1) and self.at_least(large, t - 1):
                return self.shattered(small, t - 1, near) | self.shattered(large, t - 1, near)
        raise AssertionError("a class of this dimension has a shattered tree")


# The stable learner from a list learner.
#
# A list learner gives short lists one member of which is in most of them.  The user's records are cut into ``k``
# disjoint sub-samples; each gives a list; a hypothesis that is in at least a share ``tau`` of the lists runs in a named
# race with score ``k - count``.  Hypotheses that are in a list by accident have too small a share to run at all, so the
# winner is accurate for *every* seed once a list contains bad hypotheses with probability below ``0.9 tau``.  With no
# hypothesis left the user has nothing to say.


def race_lists(key: bytes, lists: Iterable[Iterable[bytes]], tau: Fraction, Gamma: int) -> bytes | None:
    """The winner among the items in at least a share ``tau`` of the lists; ``None`` if there is none."""
    members = [frozenset(items) for items in lists]
    k = len(members)
    counts = Counter(item for items in members for item in items)
    running: dict[bytes, int | None] = {item: k - count for item, count in counts.items() if count >= tau * k}
    return race_named(key, running, k, Gamma) if running else None


@dataclass(frozen=True)
class ListRaceLearner:
    """Lists of ``parts`` sub-samples of ``records_per_part`` records each, then a race among frequent members.

    ``filter_records`` further records keep only members with at most ``filter_errors`` errors on them.  A user with
    fewer records than all of this together has no item; records beyond it are not read.
    """

    learner: ListLearner
    parts: int
    records_per_part: int
    Gamma: int
    tau: Fraction = Fraction(1, 2)
    filter_records: int = 0
    filter_errors: int = 0

    def __post_init__(self) -> None:
        integer("parts", self.parts, 1, MAX_DENOMINATOR)
        integer("records_per_part", self.records_per_part, 1)
        integer("filter_records", self.filter_records, 0)
        integer("filter_errors", self.filter_errors, 0)
        check_race(1, self.Gamma)
        object.__setattr__(self, "tau", rational("tau", self.tau))
        if not 0 < self.tau <= 1:
            raise ParameterError(f"tau must be in (0, 1], got {self.tau}")

    @property
    def min_records(self) -> int:
        return self.parts * self.records_per_part + self.filter_records

    @property
    def universe(self) -> ItemUniverse:
        return self.learner.universe

    def item(self, x: object, y: object, seed: bytes) -> bytes | None:
        check_seed(seed)
        records = clean(x, y, self.learner.columns, flat=len(self.learner.columns) == 1, limit=self.min_records)
        if len(records) < self.min_records:
            return None
        step = self.records_per_part
        lists = [self.learner.candidates(records.part(step * j, step * (j + 1))) for j in range(self.parts)]
        if self.filter_records:
            fresh = records.part(self.min_records - self.filter_records, self.min_records)
            good = {item for items in lists for item in items if self._errors(item, fresh) <= self.filter_errors}
            lists = [items & good for items in lists]
        return race_lists(derive(seed, "alg1"), lists, self.tau, self.Gamma)

    def _errors(self, item: bytes, fresh: Records) -> int:
        rule = self.learner.decode(item)
        assert rule is not None
        return int(np.count_nonzero(rule.predict(fresh.x) != fresh.y))

    def decode(self, item: bytes) -> Hypothesis | None:
        return self.learner.decode(item)


# List learners of finite classes


@dataclass(frozen=True)
class TableLists:
    """What list learners of a finite class share: items are packed truth tables over points 0..N-1."""

    rows: Rows = field(repr=False)

    @property
    def columns(self) -> Ranges:
        return ((0, self.rows.points - 1),)

    @property
    def universe(self) -> ItemUniverse:
        return Padded(-(-self.rows.points // 8))

    def decode(self, item: bytes) -> Hypothesis | None:
        bits = unpack_bits(item, self.rows.points)
        return None if bits is None else TruthTable(tuple(bits.tolist()))

    def errors_at_most(self, records: Records, most: int) -> int:
        """The mask of the rules with at most so many errors."""
        good = np.flatnonzero(table_errors(self.rows.table, records) <= most)
        return self.rows.mask(good.tolist())

    def members(self, mask: int) -> frozenset[bytes]:
        return frozenset(self.rows.row_bytes(i) for i in range(self.rows.size) if mask >> i & 1)


@dataclass(frozen=True)
class VersionSpaceList(TableLists):
    """All rules whose sample error is at most ``share`` (list length |C|).

    Without an error the target is always among them, and with ``ln(|C|/zeta)/alpha`` records all of them have error at
    most ``alpha``, except with probability ``zeta``.  For labels with noise: three quarters of the error allowed, say.
    """

    share: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", rational("share", self.share))
        if not 0 <= self.share < 1:
            raise ParameterError(f"share must be in [0, 1), got {self.share}")

    def candidates(self, records: Records) -> frozenset[bytes]:
        if not len(records):
            return frozenset()
        return self.members(self.errors_at_most(records, int(self.share * len(records))))


# Reduction trees: how far can questions lower the Littlestone dimension?
#
# ``R_k(V)`` is the least ``r`` such that some tree of depth at most ``k`` leaves dimension at most ``r`` at every leaf.
# In a tree of depth ``k`` at most ``growth(k, Ldim(V) - r)`` leaves have dimension ``r`` or more, which is why deep
# trees still give short lists.
#
# One level of reduction is a hitting-set problem: while the dimension is kept, the child that keeps it is the optimal
# prediction ``h = SOA(V)``, so ``R_k(V) < Ldim(V)`` iff ``k`` points ``X`` make the dimension of ``{f in V : f = h on
# X}`` smaller.  A shattered set of members that differ from ``h`` outside ``X`` only would keep it, so ``X`` meets the
# points where the members of any witness differ from ``h``.


def growth(k: int, j: int) -> int:
    """``sum of binom(k, i), i <= j``."""
    return sum(comb(k, i) for i in range(min(j, k) + 1))


class Leaf(NamedTuple):
    """A leaf of a reduction tree: the answers on the way, the members left, their dimension."""

    path: tuple[tuple[int, int], ...]
    mask: int
    dimension: int


class Reduction(Search):
    """Reduction values and trees, with the memory and the budget of a search."""

    def __init__(self, rows: Rows, budget: int = DEFAULT_BUDGET) -> None:
        super().__init__(rows, budget)
        self._reaches: dict[tuple[int, int, int], bool] = {}
        self._hits: dict[tuple[int, int, int, int], bool] = {}

    # Trees

    def value(self, mask: int, k: int) -> int:
        """``R_k`` of a subclass."""
        r = self.dimension(mask)
        while r > 0 and self.reaches(mask, k, r - 1):
            r -= 1
        return r

    def tree(self, mask: int, k: int, r: int) -> list[Leaf]:
        """The leaves of the tree that asks the smallest point that still lets ``r`` be reached; label 0 before 1."""
        out: list[Leaf] = []
        stack: list[tuple[tuple[tuple[int, int], ...], int, int]] = [((), mask, k)]
        while stack:
            path, part, depth = stack.pop()
            self.spend()
            if not self.at_least(part, r + 1):
                out.append(Leaf(path, part, self.dimension(part)))
                continue
            for x in self.rows.heads:
                zero, one = self.rows.split(part, x)
                if zero and one and self.reaches(zero, depth - 1, r) and self.reaches(one, depth - 1, r):
                    stack += [((*path, (x, 1)), one, depth - 1), ((*path, (x, 0)), zero, depth - 1)]
                    break
            else:
                raise AssertionError("the caller knows that r can be reached")
        return out

    def reaches(self, mask: int, k: int, r: int) -> bool:
        """Whether some tree of depth at most ``k`` leaves dimension at most ``r`` everywhere."""
        if not self.at_least(mask, r + 1):
            return True
        if k <= 0 or r < 0:
            return False
        size, d = mask.bit_count(), self.dimension(mask)
        # Ldim(A or B) + 1 <= Ldim(A) + 1 + Ldim(B) + 1, so k questions divide Ldim + 1 by at most 2**k.
        if k < d.bit_length() + 1 and d + 1 > (r + 1) << k:
            return False
        # Splitting off one member at a time ends with fewer than 2**(r+1) members.
        if size - (1 << (r + 1)) + 1 <= k:
            return True
        if r == 0 and size > growth(k, d):
            return False
        entry = (mask, k, r)
        if entry not in self._reaches:
            self.spend()
            self._reaches[entry] = self._search(mask, k, r, d)
        return self._reaches[entry]

    def _search(self, mask: int, k: int, r: int, d: int) -> bool:
        if d == r + 1:
            return self._hit(mask, k, d, self.soa(mask))
        # Reaching r passes through d - 1: too many disjoint witnesses rule out even that.
        if self._packing(mask, k, d, self.soa(mask)) > k:
            return False
        return any(
            self.reaches(large, k - 1, r) and self.reaches(small, k - 1, r) for _, small, large in self.splits(mask)
        )

    # One level

    def _agree(self, mask: int, x: int, near: int) -> int:
        return self.rows.split(mask, x)[near >> x & 1]

    def _choices(self, mask: int, d: int, near: int) -> list[int]:
        """Points, one of which every solution contains: those where a shattered witness differs from ``near``."""
        witness, differ = self.shattered(mask, d, near), 0
        while witness:
            row = (witness & -witness).bit_length() - 1
            differ |= self.rows.words[row] ^ near
            witness &= witness - 1
        return [x for x in self.rows.heads if differ >> x & 1]

    def _packing(self, mask: int, k: int, d: int, near: int) -> int:
        """A lower bound on the number of points needed: witnesses that share no point."""
        rounds = 0
        while rounds <= k and self.at_least(mask, d):
            rounds += 1
            for x in self._choices(mask, d, near):
                mask = self._agree(mask, x, near)
        return rounds

    def _hit(self, mask: int, k: int, d: int, near: int) -> bool:
        """Whether ``k`` points on which ``near`` is followed bring the dimension below ``d``."""
        if not self.at_least(mask, d):
            return True
        if k == 0:
            return False
        entry = (mask, k, d, near)
        if entry not in self._hits:
            self.spend()
            self._hits[entry] = self._packing(mask, k, d, near) <= k and any(
                self._hit(self._agree(mask, x, near), k - 1, d, near) for x in self._choices(mask, d, near)
            )
        return self._hits[entry]


# Constants of the list learner for Littlestone classes: all public, all exact.
#
# ``q(v, rho)`` is the depth to which irreducibility forces accuracy, ``k_0 = 0, k_{i+1} = k_i + max(k_i + 1, q)`` are
# the depths of the trees, ``e_j = rho alpha ((d+1-j)/d)^2`` the error levels (equally spaced square roots), and the
# cut-offs ``t_i`` separate sample errors of the level ``e_{i+1}`` from those of level ``e_i`` as well as binomial tails
# allow.


_CONTEXT = Context(prec=60, Emin=-(10**15), Emax=10**15)
_NEGLIGIBLE = Decimal(10) ** -70
_MOST_FRESH = 120
_MOST_RECORDS = 10**6


@cache
def accuracy_order(v: int, rho: Fraction = Fraction(1, 4)) -> int:
    """The least ``q`` with ``growth(q+u, v) binom(q+t, q) < binom(q+u, q) Pr[Bin(u, rho) <= t]`` for some ``q <= u <
    120`` and ``t``.

    Fewer fresh points than ``q`` are not tried: they would save a step at most, and only for large ``rho``.

    >>> [accuracy_order(v) for v in (1, 2, 3)]
    [3, 5, 7]
    """
    v, share = integer("v", v, 0), proper("rho", rho)
    a, b = share.numerator, share.denominator
    tails = [list(accumulate(comb(u, t) * a**t * (b - a) ** (u - t) for t in range(u + 1))) for u in range(_MOST_FRESH)]
    for q in range(1, _MOST_FRESH):
        for u in range(q, _MOST_FRESH):
            left, right, scale = growth(q + u, v), comb(q + u, q), b**u
            # t < u: with t = u the inequality reads growth < 1.
            if any(left * comb(q + t, q) * scale < right * tails[u][t] for t in range(u)):
                return q
    raise TooLargeError(f"no order was found for VC dimension {v}; lower v or rho")


def depths(d: int, q: int, levels: int | None = None) -> tuple[int, ...]:
    """Depths ``k_0..k_d`` (or as many as asked for).

    >>> depths(3, 7)
    (0, 7, 15, 31)
    """
    out = [0]
    while len(out) < (integer("d", d, 0) + 1 if levels is None else levels):
        out.append(out[-1] + max(out[-1] + 1, integer("q", q, 1)))
    return tuple(out)


def list_bound(d: int, q: int, size: int | None = None) -> int:
    """The largest length of a list: ``sum_i min(growth(k_i, d), |C|)``."""
    bounds = [growth(k, d) for k in depths(d, q)]
    return sum(bounds if size is None else [min(bound, size) for bound in bounds])


def error_levels(d: int, alpha: Ratio, rho: Ratio = Fraction(1, 4)) -> tuple[Fraction, ...]:
    """``e_0..e_{d+1}``."""
    d = integer("d", d, 1)
    top = rational("alpha", alpha) * rational("rho", rho)
    return tuple(top * Fraction(d + 1 - j, d) ** 2 for j in range(d + 2))


def cutoffs(levels: Sequence[Fraction], m: int) -> tuple[tuple[int, ...], Fraction]:
    """The cut-offs ``t_0..t_d`` for ``m`` records, and the sum over levels of the larger tail (times |C| it bounds the
    failure)."""
    m = integer("m", m, 1)
    if len(levels) < 2 or any(not 0 <= b < a <= 1 for a, b in pairwise(levels)):
        raise ParameterError("levels must fall strictly within 1..0")
    pairs = list(pairwise(levels))
    found = [_cut(high, low, m) for high, low in pairs[:-1]]
    last = _rounded_up(next(_probabilities(pairs[-1][0], m)))
    return (*(t for t, _ in found), 0), sum((tail for _, tail in found), last)


def _cut(high: Fraction, low: Fraction, m: int) -> tuple[int, Fraction]:
    """The ``t`` that minimises the larger of ``Pr[Bin(m, low) > t]`` (falling) and ``Pr[Bin(m, high) <= t]`` (rising),
    and that tail.

    Sums of positive terms in 60-digit decimals, rounded up at the end; the crossing is at or before the median of the
    larger law.
    """
    last = min(m, -(-m * high.numerator // high.denominator))
    rising = list(accumulate(islice(_probabilities(high, m), last + 1), _CONTEXT.add))
    falling = [Decimal(0)]
    probabilities = _probabilities(low, m)
    below = list(islice(probabilities, last + 1))
    for term in probabilities:
        # Beyond the mean the terms fall faster than a geometric series: what is left out is covered by the rounding up.
        if term <= _NEGLIGIBLE * falling[0]:
            break
        falling[0] = _CONTEXT.add(falling[0], term)
    for term in reversed(below[1:]):
        falling.append(_CONTEXT.add(falling[-1], term))
    tail, t = min((max(up, down), t) for t, (up, down) in enumerate(zip(rising, reversed(falling))))
    return t, _rounded_up(tail)


def _rounded_up(value: Decimal) -> Fraction:
    """Well above the error of some millions of roundings at 60 digits."""
    return Fraction(value) * (1 + Fraction(1, 10**40))


def _probabilities(p: Fraction, m: int) -> Iterator[Decimal]:
    """``Pr[Bin(m, p) = k]`` for k = 0..m; 0 < p <= 1."""
    if p == 1:
        yield from (Decimal(0) for _ in range(m))
        yield Decimal(1)
        return
    odds = _CONTEXT.divide(Decimal(p.numerator), Decimal(p.denominator - p.numerator))
    term = _CONTEXT.power(_CONTEXT.divide(Decimal(p.denominator - p.numerator), Decimal(p.denominator)), m)
    for k in range(m + 1):
        yield term
        term = _CONTEXT.divide(_CONTEXT.multiply(_CONTEXT.multiply(term, odds), Decimal(m - k)), Decimal(k + 1))


class ListReductionPlan(NamedTuple):
    """Everything public that the list learner needs, and what it promises."""

    dimension: int
    depths: tuple[int, ...]
    cutoffs: tuple[int, ...]
    records: int
    list_bound: int
    failure: Fraction


def plan_reduction_lists(
    size: int, d: int, alpha: Ratio, zeta: Ratio = "1/20", *, rho: Ratio = "1/4", v: int | None = None
) -> ListReductionPlan:
    """The least number of records with ``|C| * tail sum <= zeta`` (found by doubling and halving), and the cut-offs for
    it."""
    size, d = integer("size", size, 1), integer("d", d, 0)
    failure, share, excess = rational("zeta", zeta), rational("rho", rho), rational("alpha", alpha)
    if not (0 < failure < 1 and 0 < share < 1 and 0 < excess <= 1):
        raise ParameterError(f"zeta and rho must be between 0 and 1 and alpha in (0, 1], got {zeta}, {rho} and {alpha}")
    if d == 0:
        return ListReductionPlan(0, (0,), (0,), 1, 1, Fraction(0))
    q = accuracy_order(d if v is None else integer("v", v, 1, d), share)
    levels = error_levels(d, excess, share)
    if levels[0] > 1:
        raise ParameterError(f"alpha * rho * ((d+1)/d)**2 must be at most 1, got {levels[0]}; lower rho")
    high = 1
    while size * cutoffs(levels, high)[1] > failure:
        high *= 2
        if high > _MOST_RECORDS:
            raise TooLargeError(f"more than {_MOST_RECORDS} records per list would be needed; raise alpha or zeta")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if size * cutoffs(levels, middle)[1] <= failure else (middle, high)
    cuts, tail = cutoffs(levels, high)
    return ListReductionPlan(d, depths(d, q), cuts, high, list_bound(d, q, size), size * tail)


# A list-stable learner for Littlestone classes whose lists depend on the dimension only.
#
# Level ``i`` takes the rules with at most ``t_i`` errors, reduces their Littlestone dimension as far as a tree of depth
# ``k_i`` can, and lists the optimal prediction of every leaf that keeps the reduced dimension.
#
# **Theorem.**  If the labels come from a rule of the class, there is a function ``h*`` of error at most ``alpha``,
# depending on the distribution only, that is in the list of *every* sample whose cut-offs separate the error levels;
# that fails with probability at most ``zeta``.  Lists have at most ``sum_i min(growth(k_i, d), |C|)`` members.  The
# reduced dimensions of d + 2 nested levels cannot all differ; between two equal ones a leaf is irreducible, and
# irreducible classes have the same optimal prediction inside every tree of smaller depth.
#
# A search that exceeds its budget, or starts from too many rules, answers with the version space: some hypothesis of
# error at most ``alpha`` is then still listed with probability ``(1 - zeta)/2``, whatever the budget.


def _set_levels(learner: ReductionList | PointsReductionList) -> None:
    for name in ("depths", "cutoffs"):
        values = tuple(getattr(learner, name))
        object.__setattr__(learner, name, values)
        for value in values:
            integer(name, value, 0)
    depths, cutoffs = learner.depths, learner.cutoffs
    if not depths or len(depths) != len(cutoffs) or list(depths) != sorted(depths):
        raise ParameterError("depths must not fall, and there must be one cut-off for each depth")


@dataclass(frozen=True)
class ReductionList(TableLists):
    """Lists by reduction trees; ``depths`` and ``cutoffs`` are public, one each for level 0..d."""

    depths: tuple[int, ...] = (0,)
    cutoffs: tuple[int, ...] = (0,)
    budget: int = DEFAULT_BUDGET
    max_rules: int = 1 << 20

    def __post_init__(self) -> None:
        _set_levels(self)
        integer("budget", self.budget, 1)
        integer("max_rules", self.max_rules, 1)

    @classmethod
    def certified(cls, rows: Rows, alpha: Ratio, zeta: Ratio = "1/20", **more: int | None) -> ReductionList:
        """Certified depths and cut-offs; :meth:`plan` says how many records a sample needs."""
        plan = cls.plan(rows, alpha, zeta, **more)
        return cls(rows, plan.depths, plan.cutoffs)

    @staticmethod
    def plan(
        rows: Rows, alpha: Ratio, zeta: Ratio = "1/20", *, d: int | None = None, v: int | None = None
    ) -> ListReductionPlan:
        """Depths, cut-offs, records per list and failure.  A declared ``d`` that is too small is refused; where
        checking it exceeds the budget it is trusted."""
        search = Search(rows)
        if d is None:
            d = search.dimension(rows.everything)
        else:
            with suppress(WorkExceeded):
                if search.at_least(rows.everything, integer("d", d, 0) + 1):
                    raise ParameterError(
                        f"the class has a Littlestone dimension above d = {d}; the lists would promise nothing"
                    )
        return plan_reduction_lists(rows.size, d, alpha, zeta, v=v)

    def candidates(self, records: Records) -> frozenset[bytes]:
        if not len(records):
            return frozenset()
        search = Reduction(self.rows, self.budget)
        try:
            return frozenset(item for _, items in self.levels(records, search) for item in items)
        except WorkExceeded:
            return self.members(self.errors_at_most(records, 0))

    def levels(self, records: Records, search: Reduction | None = None) -> list[tuple[int | None, frozenset[bytes]]]:
        """Reduced dimension and list of every level; ``(None, empty)`` where no rule is good enough."""
        search = search or Reduction(self.rows, self.budget)
        out: list[tuple[int | None, frozenset[bytes]]] = []
        for depth, most in zip(self.depths, self.cutoffs):
            mask = self.errors_at_most(records, most)
            if mask.bit_count() > self.max_rules:
                raise WorkExceeded("more rules are good enough than the public cap allows; use the version space")
            if not mask:
                out.append((None, frozenset()))
                continue
            r = search.value(mask, depth)
            leaves = [leaf.mask for leaf in search.tree(mask, depth, r) if leaf.dimension == r]
            out.append((r, frozenset(self.rows.packed(search.soa(leaf)) for leaf in leaves)))
        return out


@dataclass(frozen=True)
class PointsReductionList:
    """The same lists for "1 iff the value is v" over up to 2**64 values, in closed form: time linear in the sample.

    Items are the numbers of the points; ``size`` stands for the rule that is never 1, which may be listed though it is
    not in the class.
    """

    size: int
    depths: tuple[int, ...] = (0, 3)
    cutoffs: tuple[int, ...] = (0, 0)

    def __post_init__(self) -> None:
        integer("size", self.size, 1, 1 << 64)
        _set_levels(self)

    @property
    def columns(self) -> Ranges:
        return ((0, self.size - 1),)

    @property
    def universe(self) -> ItemUniverse:
        return NumberedItems(self.size + 1)

    def decode(self, item: bytes) -> OnePoint | None:
        number = int.from_bytes(item, "little")
        if len(item) != NumberedItems(self.size + 1).width or number > self.size:
            return None
        return OnePoint(None if number == self.size else number)

    def candidates(self, records: Records) -> frozenset[bytes]:
        return frozenset(self.universe.item(number) for level in self.levels(records) for number in level)

    def levels(self, records: Records) -> list[frozenset[int]]:
        if not len(records):
            return [frozenset() for _ in self.depths]
        points, change = value_changes(np.asarray(records.x).reshape(len(records)), records.y)
        positive = int(records.y.sum())
        errors, seen = positive + change, [int(point) for point in points]
        out = []
        for depth, most in zip(self.depths, self.cutoffs):
            good = [point for point, s in zip(seen, errors.tolist()) if s <= most]
            unseen = self.size - len(seen) if positive <= most else 0
            count = len(good) + unseen
            if count - 1 > depth:
                out.append(frozenset((self.size,)))
                continue
            if unseen:
                # At most depth + 1 unseen points exist, so the domain is not much larger than the sample.
                known = set(seen)
                good += [point for point in range(self.size) if point not in known]
            out.append(frozenset(good))
        return out


def version_space_records(size: int, alpha: Ratio, zeta: Ratio) -> int:
    """``ceil(ln(|C|/zeta)/alpha)``."""
    excess, failure = rational("alpha", alpha), rational("zeta", zeta)
    if not (0 < excess <= 1 and 0 < failure < 1):
        raise ParameterError(f"alpha must be in (0, 1] and zeta between 0 and 1, got {alpha} and {zeta}")
    return ceil(ln_up(Fraction(size) / failure) / excess)


# Lists for small classes over columns: every rule is written out at every point, once and publicly.
#
# ``version_lists`` cuts a user's records into parts and lists the rules without an error (or with few, for labels with
# noise) on each; ``reduction_lists`` lists the optimal predictions of reduction trees, whose number depends on the
# Littlestone dimension only.  A rule that is in at least half of the lists runs in a race.  A user with fewer records
# than all parts need has nothing to say; records beyond them are not read.
#
# A list that follows from ``records`` of a part holds, except with probability 1/20, no rule of error above ``alpha``
# (version space, some rule of the class is right), or the one function that the theorem above promises.
# The reduction's functions need not be in the class; points are listed in closed form at any size.


MOST_ENTRIES = 1 << 15
"""Rules times points that may be written out: cut-offs of 180 values, parities of 7 columns."""
BUDGET = 1 << 12
"""Search nodes for one list; a list that needs more is the version space."""
_FAILURE = Fraction(1, 20)


@dataclass(frozen=True)
class ValueTable:
    """What to say at every combination of the columns' values, those of the last column running fastest."""

    sizes: tuple[int, ...]
    bits: tuple[int, ...]

    def predict(self, x: object) -> Labels:
        return np.asarray(self.bits, dtype=np.int8)[_places(rows_of(x), self.sizes)]


def _places(rows: CodeRows, sizes: tuple[int, ...]) -> Ints:
    return np.asarray(np.ravel_multi_index(tuple(rows.T.astype(np.int64)), sizes), dtype=np.int64)


def _points(scores: RuleScores) -> Ints:
    sizes = tuple(high + 1 for _, high in scores.columns)
    return np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1).astype(np.int64)


@dataclass(frozen=True)
class SmallClassLists:
    """The race among frequent members of the lists of a user's parts, over columns.

    ``scores`` are the class and its columns; a function that is a rule of the class is shown as that rule.
    """

    scores: RuleScores
    learner: ListLearner = field(repr=False)
    records_per_part: int
    Gamma: int
    parts: int = 9
    min_records: int = 1
    max_records: int = MAX_DENOMINATOR

    def __post_init__(self) -> None:
        integer("min_records", self.min_records, 1)
        integer("max_records", self.max_records, 1, MAX_DENOMINATOR)
        needed = self.race.min_records
        if needed > self.max_records:
            raise ParameterError(
                f"{self.parts} lists of {self.records_per_part} records read {needed} records of a user, more than the "
                f"{self.max_records} allowed; take fewer parts or a larger alpha"
            )

    @cached_property
    def race(self) -> ListRaceLearner:
        """The learner over the numbers of points."""
        return ListRaceLearner(self.learner, self.parts, self.records_per_part, self.Gamma)

    @property
    def universe(self) -> ItemUniverse:
        return self.learner.universe

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(high + 1 for _, high in self.scores.columns)

    def item(self, x: object, y: object, seed: bytes) -> bytes | None:
        records = clean(x, y, self.scores.columns, limit=max(self.min_records, self.race.min_records))
        if len(records) < self.min_records:
            return None
        one = len(self.sizes) == 1
        return self.race.item(records.x[:, 0] if one else _places(records.x, self.sizes), records.y, seed)

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        """The first rule of the class with each table of values."""
        points, found = _points(self.scores), dict[bytes, int]()
        for number in range(sum(self.scores.sizes)):
            found.setdefault(pack_bits(self.scores.rule(number).predict(points)), number)
        return found

    def decode(self, item: bytes) -> Hypothesis | None:
        rule = self.learner.decode(item)
        if not isinstance(rule, TruthTable):
            return rule
        number = self._numbers.get(item)
        return ValueTable(self.sizes, rule.bits) if number is None else self.scores.rule(number)


def _written_out(scores: RuleScores) -> Rows:
    count, points = sum(scores.sizes), prod(high + 1 for _, high in scores.columns)
    if count * points > MOST_ENTRIES:
        raise TooLargeError(
            f"lists need every rule at every point: {count} rules on {points} points, at most {MOST_ENTRIES} entries; "
            "take a coarser domain or fewer columns, or learner='race'"
        )
    table = _points(scores)
    return Rows([scores.rule(number).predict(table).tolist() for number in range(count)])


def version_lists(
    scores: RuleScores, Gamma: int, alpha: Ratio = "1/4", parts: int = 9, share: Ratio = 0, **records: int
) -> SmallClassLists:
    """Lists of the rules with a share of at most ``share`` errors on a part."""
    rows = _written_out(scores)
    needed = version_space_records(rows.size, alpha, _FAILURE)
    return SmallClassLists(scores, VersionSpaceList(rows, rational("share", share)), needed, Gamma, parts, **records)


def reduction_lists(
    scores: RuleScores, Gamma: int, alpha: Ratio = "1/4", parts: int = 9, **records: int
) -> SmallClassLists:
    """Lists by reduction trees, with certified depths and cut-offs; closed form for points."""
    lists: ListLearner
    if isinstance(scores, PointScores):
        # Single values have Littlestone dimension 1, and 0 where there is one alone.
        plan = plan_reduction_lists(scores.size, min(1, scores.size - 1), alpha, _FAILURE)
        lists = PointsReductionList(scores.size, plan.depths, plan.cutoffs)
    else:
        rows = _written_out(scores)
        plan = ReductionList.plan(rows, alpha, _FAILURE)
        lists = ReductionList(rows, plan.depths, plan.cutoffs, BUDGET)
    return SmallClassLists(scores, lists, plan.records, Gamma, parts, **records)
