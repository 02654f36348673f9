"""Classes of rules whose errors on one user's records are all known at once, and the race among them.

A class is a list of components, each an interval of numbered rules; the rules are numbered as in ``privpac.rules``,
component after component, in as few blocks of equal error as possible.  Thresholds, points and stumps cost a sort;
parities one Walsh-Hadamard transform; intervals prefix sums; any finite class a product of its table with the counts of
the points.

**The stable learner from a representation** (:class:`RaceLearner`): a race in which every rule runs at a rate set by
its errors.  Public: a finite list H of rules (a finite class itself, or one drawn from a representation with public
coins), the seed and the rate ``gamma``.  The user's item is the winner of the race with weights ``exp(-gamma
errors/m)``.

*Stability.*  If two score functions differ by at most ``Delta`` everywhere, the Gibbs laws differ by at most
``tanh(gamma Delta / 2)`` in total variation; with ``E max |err_S - err_D| <= sqrt(ln(2|H|)/(2m))`` the item differs
from the one of the true errors with probability at most ``gamma sqrt(ln(2|H|)/(2m))``.  *Accuracy.*  The winner for the
true errors exceeds the least error by more than ``alpha/2`` with probability at most ``|H| exp(-gamma alpha/2)``.  No
promise on the labels is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from math import isqrt

import numpy as np

from privpac.device.correlated_sampling import (
    MAX_INDEXED,
    Component,
    Ints,
    Words,
    block_component,
    check_race,
    integer,
    le64,
    leaf_component,
    race_dyadic,
    race_indexed,
    word_named,
)
from privpac.device.items import (
    BitParity,
    CappedLearner,
    CodeRows,
    Cut,
    Hypothesis,
    ItemUniverse,
    Labels,
    NumberedItems,
    OnePoint,
    Padded,
    Ranges,
    Records,
    rows_of,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.rng import PublicCoins, derive

_MAX_RULES = 1 << 64
MAX_PARITY_COLUMNS = 22


class RuleScores(ABC):
    """A class of rules and the error counts of all of them on a user's records.  A class tells its
    columns and sizes with :meth:`_shape` when it is made."""

    columns: Ranges
    """The allowed range of every column."""
    sizes: tuple[int, ...]
    """The number of rules of every component."""

    def _shape(self, columns: Ranges, *sizes: int) -> None:
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "sizes", sizes)

    @abstractmethod
    def components(self, records: Records) -> list[Component]:
        """Errors of every rule; the denominator is the number of records."""

    @abstractmethod
    def rule(self, number: int) -> Hypothesis:
        """The rule of a number, components one after another."""


@dataclass(frozen=True)
class CutScores(RuleScores):
    """Cuts of each of several ordered columns: thresholds (one column, "above"), or stumps.

    ``domains``: the number of values of each column; component ``2 j`` holds the cuts 0..N_j with 1 from the cut on,
    component ``2 j + 1`` their complements.  A race has at most 2**64 leaves, so the cut 2**64 ("never") of a column of
    2**64 values is left out.
    """

    domains: tuple[int, ...]
    directions: tuple[str, ...] = ("above", "below")

    def __post_init__(self) -> None:
        if not self.domains:
            raise ParameterError("cuts need at least one column")
        object.__setattr__(self, "domains", tuple(integer("a domain size", n, 1, 1 << 64) for n in self.domains))
        if not self.directions or [d for d in ("above", "below") if d in self.directions] != list(self.directions):
            raise ParameterError(f"directions must be some of 'above', 'below' in this order, got {self.directions!r}")
        self._shape(
            tuple((0, n - 1) for n in self.domains),
            *(min(n + 1, _MAX_RULES) for n in self.domains for _ in self.directions),
        )

    def components(self, records: Records) -> list[Component]:
        m, out = len(records), []
        for j, n in enumerate(self.domains):
            starts, errors = _cut_errors(records.x[:, j].astype(np.uint64), records.y, n)
            for below in (direction == "below" for direction in self.directions):
                scores = m - errors if below else errors
                out.append(block_component(starts, scores, min(n + 1, _MAX_RULES), m, 2 * j + below))
        return out

    def rule(self, number: int) -> Cut:
        ends = list(accumulate(self.sizes))
        number = integer("number", number, 0, ends[-1] - 1)
        place = bisect_right(ends, number)
        column, direction = divmod(place, len(self.directions))
        return Cut(column, number - (ends[place] - self.sizes[place]), self.directions[direction] == "above")


def _cut_errors(x: Words, y: Ints, size: int) -> tuple[Words, Ints]:
    """The first cut of every block of cuts with equal errors, and the errors of "1 from the cut on"."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    last = np.append(x[1:] != x[:-1], True) if len(x) else np.zeros(0, dtype=np.bool_)
    # Moving the cut past a record labelled 1 adds an error, past one labelled 0 removes one.
    errors = int((y == 0).sum()) + np.cumsum(2 * y - 1)[last]
    values = x[last]
    if size == _MAX_RULES and len(values) and int(values[-1]) == size - 1:
        values, errors = values[:-1], errors[:-1]
    starts = np.concatenate([np.zeros(1, np.uint64), values + np.uint64(1)])
    return starts, np.concatenate([[int((y == 0).sum())], errors]).astype(np.int64)


def value_changes(values: CodeRows, labels: Ints) -> tuple[CodeRows, Ints]:
    """The distinct values, and by how much the errors of "never" change if a value is named: that repairs its positive
    records and spoils its negative ones."""
    points, place = np.unique(values, return_inverse=True)
    change = np.zeros(len(points), dtype=np.int64)
    np.add.at(change, place.reshape(-1), 1 - 2 * labels)
    return points, change


@dataclass(frozen=True)
class PointScores(RuleScores):
    """Rules "1 iff the value is v", v in 0..size-1."""

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", integer("size", self.size, 1, _MAX_RULES))
        self._shape(((0, self.size - 1),), self.size)

    def components(self, records: Records) -> list[Component]:
        points, gain = value_changes(records.x[:, 0].astype(np.uint64), records.y)
        positive = int(records.y.sum())
        starts, scores = [0], [positive]
        for point, change in zip(points.tolist(), gain.tolist()):
            if starts[-1] == point:
                scores[-1] = positive + change
            else:
                starts.append(point)
                scores.append(positive + change)
            if point + 1 < self.size:
                starts.append(point + 1)
                scores.append(positive)
        return [block_component(np.array(starts, dtype=np.uint64), np.array(scores), self.size, len(records))]

    def rule(self, number: int) -> OnePoint:
        return OnePoint(integer("number", number, 0, self.size - 1))


@dataclass(frozen=True)
class ParityScores(RuleScores):
    """All parities of up to 22 columns with values 0 and 1; bit ``j`` of a rule's number says whether column ``j``
    takes part."""

    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", integer("width", self.width, 1))
        if self.width > MAX_PARITY_COLUMNS:
            raise TooLargeError(
                f"parities of {self.width} columns are 2^{self.width} rules; solve for one with learner='solve' instead"
            )
        self._shape(((0, 1),) * self.width, 1 << self.width)

    def components(self, records: Records) -> list[Component]:
        index = records.x.astype(np.int64) @ (np.int64(1) << np.arange(self.width))
        zeros, ones = (np.bincount(index[records.y == b], minlength=1 << self.width) for b in (0, 1))
        return [leaf_component((len(records) - walsh_hadamard((zeros - ones).astype(np.int64))) // 2, len(records))]

    def rule(self, number: int) -> BitParity:
        return BitParity(integer("number", number, 0, (1 << self.width) - 1))


def walsh_hadamard(values: Ints) -> Ints:
    """``sum_x values[x] (-1)^<a, x>`` for every ``a``; the length is a power of two."""
    out, half = values, 1
    while half < len(values):
        pairs = out.reshape(-1, 2, half)
        first, second = pairs[:, 0], pairs[:, 1]
        out = np.stack([first + second, first - second], axis=1).reshape(-1)
        half *= 2
    return out


def table_errors(table: Ints, records: Records) -> Ints:
    """Errors of every row of a 0/1 table; one matrix product."""
    x = np.asarray(records.x).reshape(len(records)).astype(np.int64)
    zeros, ones = (np.bincount(x[records.y == b], minlength=table.shape[1]) for b in (0, 1))
    return np.asarray(int(ones.sum()) + table @ (zeros - ones), dtype=np.int64)


def dense(component: Component) -> Ints:
    """One score per leaf, for small classes."""
    if component.starts is None:
        return component.scores
    return np.repeat(component.scores, np.diff(np.append(component.starts.astype(np.int64), component.size)))


# Intervals over a public grid: all of them scored at once from prefix sums.
#
# The values 0..size-1 are cut into ``cells`` nearly equal cells; a rule says 1 on a run of whole cells, or never.
# Finer grids represent intervals more closely at a price quadratic in the number of cells.  With as many cells as
# values the rules are all intervals, numbered as in ``privpac.rules``: 0 is the empty one, then by first cell, then by
# last.


MAX_INTERVAL_CELLS = 1413
"""The most cells whose intervals number at most a million."""


@dataclass(frozen=True)
class CellRun:
    """1 iff the value is in ``low..high-1``; never if they are equal."""

    low: int
    high: int

    def predict(self, x: object) -> Labels:
        column = rows_of(x)[:, 0]
        return np.asarray((column >= self.low) & (column < self.high), dtype=np.int8)


@dataclass(frozen=True)
class IntervalScores(RuleScores):
    """Runs of cells of a column with values 0..size-1."""

    size: int
    cells: int

    def __post_init__(self) -> None:
        integer("size", self.size, 1, 1 << 53)
        integer("cells", self.cells, 1, self.size)
        if self.cells > MAX_INTERVAL_CELLS:
            raise TooLargeError(
                f"{self.cells} cells have more than a million intervals; use at most {MAX_INTERVAL_CELLS} cells"
            )
        self._shape(((0, self.size - 1),), self.cells * (self.cells + 1) // 2 + 1)

    def edge(self, cell: int) -> int:
        """The first value of a cell; the end of the column for the cell after the last."""
        return -(-cell * self.size // self.cells)

    def components(self, records: Records) -> list[Component]:
        edges = np.array([self.edge(cell) for cell in range(1, self.cells)], dtype=np.int64)
        place = np.searchsorted(edges, records.x[:, 0].astype(np.int64), side="right")
        # Saying 1 on a cell repairs its records labelled 1 and spoils those labelled 0.
        zeros, ones = (np.bincount(place[records.y == b], minlength=self.cells) for b in (0, 1))
        prefix = np.concatenate([[0], np.cumsum(zeros - ones)])
        first, last = np.triu_indices(self.cells)
        errors = int(records.y.sum()) + np.concatenate([[0], prefix[last + 1] - prefix[first]])
        return [leaf_component(errors.astype(np.int64), len(records))]

    def rule(self, number: int) -> CellRun:
        number = integer("number", number, 0, self.sizes[0] - 1)
        if number == 0:
            return CellRun(0, 0)
        # Counted from the last number, the runs that start at the last cell, the one before, ... number 1, 2, ...
        back = self.sizes[0] - 1 - number
        row = (isqrt(8 * back + 1) - 1) // 2
        return CellRun(self.edge(self.cells - 1 - row), self.edge(self.cells - (back - row * (row + 1) // 2)))


# Single values among very many, through a small set of rules drawn with public coins.
#
# "x = value" over ``N`` values is ``N`` rules, and a local vote among them pays for ``log N``.  A representation does
# without: ``functions`` public hash functions put every value into one of ``buckets`` buckets, and the rules are "x is
# in bucket b of hash j", and "never".  Two values collide with probability ``1/buckets``, so except with probability
# ``(1/(buckets alpha))**functions`` over the coins some rule holds a given value and others of mass at most ``alpha``,
# whatever ``N`` is.  The race over these rules is the stable learner from a representation
# (:class:`RaceLearner`).
#
#     hash_j(x) = (word_named(derive(coins, "hash", j), LE64(x)) * buckets) >> 64
#     rule j * buckets + b: hash_j(x) = b;  the last rule: never


MAX_HASHED = 1 << 20


def read_coins(text: str) -> bytes:
    """Public coins: 64 small hexadecimal digits."""
    try:
        coins = bytes.fromhex(text)
    except ValueError:
        coins = b""
    if len(coins) != 32 or coins.hex() != text:
        raise ParameterError("coins must be 64 small hexadecimal digits")
    return coins


def _bucket(key: bytes, value: int, buckets: int) -> int:
    return (word_named(key, le64(value)) * buckets) >> 64


@dataclass(frozen=True)
class HashedPoint:
    """1 iff a value is in ``bucket`` of a public hash; never if there is none."""

    coins: bytes
    function: int
    buckets: int
    bucket: int | None

    def predict(self, x: object) -> Labels:
        column = rows_of(x)[:, 0]
        if self.bucket is None:
            return np.zeros(len(column), dtype=np.int8)
        key = derive(self.coins, "hash", self.function)
        return np.array([_bucket(key, int(v), self.buckets) == self.bucket for v in column.tolist()], dtype=np.int8)


@dataclass(frozen=True)
class HashedPointScores(RuleScores):
    """The errors of all buckets of some public hash functions over ``size`` values."""

    size: int
    functions: int
    buckets: int
    coins: bytes

    def __post_init__(self) -> None:
        integer("a domain size", self.size, 1, 1 << 64)
        integer("functions", self.functions, 1, 64)
        integer("buckets", self.buckets, 2, 1 << 20)
        if self.functions * self.buckets >= MAX_HASHED:
            raise TooLargeError(f"{self.functions * self.buckets} rules are more than {MAX_HASHED}; take fewer buckets")
        self._shape(((0, self.size - 1),), self.functions * self.buckets + 1)

    def components(self, records: Records) -> list[Component]:
        values, gain = value_changes(records.x[:, 0].astype(np.uint64), records.y)
        scores = np.full(self.sizes[0], int(records.y.sum()), dtype=np.int64)
        for j in range(self.functions):
            key = derive(self.coins, "hash", j)
            buckets = np.array([_bucket(key, v, self.buckets) for v in values.tolist()], dtype=np.int64)
            np.add.at(scores, j * self.buckets + buckets, gain)
        return [leaf_component(scores, len(records))]

    def rule(self, number: int) -> HashedPoint:
        j, b = divmod(integer("number", number, 0, self.sizes[0] - 1), self.buckets)
        never = j == self.functions
        return HashedPoint(self.coins, 0 if never else j, self.buckets, None if never else b)


@dataclass(frozen=True)
class RaceLearner(CappedLearner):
    """The winner of a race over all rules of a class, by their errors on the user's records.

    ``Gamma`` is the published integer rate (``rate(gamma)``); ``race`` is "dyadic", or "indexed" for at most 4096
    rules.  The two give different winners and must not be mixed.
    """

    scores: RuleScores
    Gamma: int
    race: str = "dyadic"

    def __post_init__(self) -> None:
        check_race(1, self.Gamma)
        super().__post_init__()
        if self.race not in ("dyadic", "indexed"):
            raise ParameterError(f"race must be 'dyadic' or 'indexed', got {self.race!r}")
        if self.race == "indexed" and self.universe.size > MAX_INDEXED:
            raise TooLargeError(
                f"a flat race has at most {MAX_INDEXED} rules, got {self.universe.size}; use race='dyadic'"
            )

    @property
    def columns(self) -> Ranges:
        return self.scores.columns

    @property
    def universe(self) -> NumberedItems:
        return NumberedItems(sum(self.scores.sizes))

    def item_of(self, records: Records, seed: bytes) -> bytes:
        parts = self.scores.components(records)
        if self.race == "indexed":
            errors = [score for part in parts for score in dense(part).tolist()]
            number = race_indexed(derive(seed, "race"), errors, len(records), self.Gamma)
            assert number is not None
            return self.universe.item(number)
        winner = race_dyadic(derive(seed, "tree"), parts, len(records), self.Gamma)
        assert winner is not None
        place = [part.number for part in parts].index(winner.component)
        return self.universe.item(sum(self.scores.sizes[:place]) + winner.leaf)

    def decode(self, item: bytes) -> Hypothesis | None:
        number = int.from_bytes(item, "little")
        if len(item) != self.universe.width or number >= self.universe.size:
            return None
        return self.scores.rule(number)


# Parities of many columns: solve for one instead of scoring all.
#
# After a public random invertible change of basis of the columns, the user's records are a linear system over two
# elements; the item is the solution with every free coordinate 0, written in the old basis.  Users whose records span
# the same space agree; for parities of more than 22 columns, where a race would need every parity.  Inconsistent
# records (noise) give no item.  Agreement needs enough records to span what the distribution spans; no more is
# promised.


@dataclass(frozen=True)
class ParitySolver(CappedLearner):
    """The parity of ``width`` columns with values 0 and 1 that explains all of a user's records."""

    width: int

    def __post_init__(self) -> None:
        integer("width", self.width, 1, 4096)
        super().__post_init__()

    @property
    def columns(self) -> Ranges:
        return ((0, 1),) * self.width

    @property
    def universe(self) -> ItemUniverse:
        return Padded(-(-self.width // 8))

    def item_of(self, records: Records, seed: bytes) -> bytes | None:
        basis = public_basis(seed, self.width)
        rows = [int("".join(map(str, row))[::-1], 2) for row in records.x.tolist()]
        # A parity a of the old columns is sum_i b_i basis_i; its value on x is sum_i b_i <basis_i, x>: solve for b.
        system = [
            sum(((vector & row).bit_count() & 1) << i for i, vector in enumerate(basis)) | label << self.width
            for row, label in zip(rows, records.y.tolist())
        ]
        solution = _solve(system, self.width)
        if solution is None:
            return None
        mask = 0
        for i, vector in enumerate(basis):
            if solution >> i & 1:
                mask ^= vector
        return mask.to_bytes(-(-self.width // 8), "little")

    def decode(self, item: bytes) -> BitParity | None:
        mask = int.from_bytes(item, "little")
        return BitParity(mask) if len(item) == -(-self.width // 8) and not mask >> self.width else None


def public_basis(seed: bytes, width: int) -> list[int]:
    """Linearly independent masks, drawn one after another from public coins until there are enough."""
    coins, basis = PublicCoins(seed, "basis"), list[int]()
    reduced: dict[int, int] = {}
    while len(basis) < width:
        vector = coins.bits(width)
        rest = vector
        while rest and (top := rest.bit_length()) in reduced:
            rest ^= reduced[top]
        if rest:
            reduced[rest.bit_length()] = rest
            basis.append(vector)
    return basis


def _solve(system: list[int], width: int) -> int | None:
    """The solution with free coordinates 0 (pivots from coordinate 0 up; bit ``width`` is the right side), ``None`` if
    there is none."""
    pivots: dict[int, int] = {}
    low = (1 << width) - 1
    for row in system:
        for place, other in pivots.items():
            if row >> place & 1:
                row ^= other
        left = row & low
        if not left:
            if row:
                return None
            continue
        place = (left & -left).bit_length() - 1
        for earlier, other in pivots.items():
            if other >> place & 1:
                pivots[earlier] = other ^ row
        pivots[place] = row
    return sum(1 << place for place, row in pivots.items() if row >> width & 1)
