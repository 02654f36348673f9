"""Error counts of every rule of a class on one user's records, as few blocks as possible.

A class is a list of components, each an interval of numbered rules; the rules are numbered as in ``privpac.rules``,
component after component.  Thresholds, points and stumps cost a sort; parities one Walsh-Hadamard transform; any finite
class a product of its table with the counts of the points.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import Component, block_component, integer, leaf_component
from privpac.device.learner import Hypothesis
from privpac.device.records import Records
from privpac.device.rules import BitParity, Cut, OnePoint, TruthTable
from privpac.errors import ParameterError, TooLargeError

__all__ = [
    "CutScores",
    "ParityScores",
    "PointScores",
    "RuleScores",
    "TableScores",
    "dense",
    "locate",
    "table_errors",
    "walsh_hadamard",
]

Ints = NDArray[np.int64]

MAX_RULES = 1 << 64
MAX_PARITY_COLUMNS = 22


class RuleScores(Protocol):
    """A class of rules and the error counts of all of them on a user's records."""

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        """The allowed range of every column."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of rules of every component."""

    def components(self, records: Records) -> list[Component]:
        """Errors of every rule; the denominator is the number of records."""

    def rule(self, number: int) -> Hypothesis:
        """The rule of a number, components one after another."""


@dataclass(frozen=True)
class CutScores:
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

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return tuple((0, n - 1) for n in self.domains)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(min(n + 1, MAX_RULES) for n in self.domains for _ in self.directions)

    @property
    def numbers(self) -> tuple[tuple[int, str], ...]:
        """(column, direction) of every component."""
        return tuple((j, direction) for j in range(len(self.domains)) for direction in self.directions)

    def components(self, records: Records) -> list[Component]:
        m, out = len(records), []
        for j, n in enumerate(self.domains):
            starts, errors = _cut_errors(records.x[:, j].astype(np.uint64), records.y, n)
            for direction in self.directions:
                below = direction == "below"
                out.append(
                    block_component(starts, m - errors if below else errors, min(n + 1, MAX_RULES), m, 2 * j + below)
                )
        return out

    def rule(self, number: int) -> Cut:
        place, offset = locate(self.sizes, number)
        column, direction = self.numbers[place]
        return Cut(column, offset, direction == "above")


def _cut_errors(x: NDArray[np.uint64], y: Ints, size: int) -> tuple[NDArray[np.uint64], Ints]:
    """The first cut of every block of cuts with equal errors, and the errors of "1 from the cut on"."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    last = np.append(x[1:] != x[:-1], True) if len(x) else np.zeros(0, dtype=np.bool_)
    # Moving the cut past a record labelled 1 adds an error, past one labelled 0 removes one.
    errors = int((y == 0).sum()) + np.cumsum(2 * y - 1)[last]
    values = x[last]
    if size == MAX_RULES and len(values) and int(values[-1]) == size - 1:
        values, errors = values[:-1], errors[:-1]
    starts = np.concatenate([np.zeros(1, np.uint64), values + np.uint64(1)])
    return starts, np.concatenate([[int((y == 0).sum())], errors]).astype(np.int64)


@dataclass(frozen=True)
class PointScores:
    """Rules "1 iff the value is v", v in 0..size-1."""

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", integer("size", self.size, 1, MAX_RULES))

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, self.size - 1),)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.size,)

    def components(self, records: Records) -> list[Component]:
        points, place = np.unique(records.x[:, 0].astype(np.uint64), return_inverse=True)
        positive = int(records.y.sum())
        # Naming a point repairs its positive records and spoils its negative ones.
        gain = np.zeros(len(points), dtype=np.int64)
        np.add.at(gain, place.reshape(-1), 1 - 2 * records.y)
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
class ParityScores:
    """All parities of up to 22 columns with values 0 and 1; bit ``j`` of a rule's number says whether column ``j``
    takes part."""

    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", integer("width", self.width, 1))
        if self.width > MAX_PARITY_COLUMNS:
            raise TooLargeError(
                f"parities of {self.width} columns are 2^{self.width} rules; solve for one with learner='solve' instead"
            )

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, 1),) * self.width

    @property
    def sizes(self) -> tuple[int, ...]:
        return (1 << self.width,)

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


@dataclass(frozen=True)
class TableScores:
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

    @cached_property
    def _table(self) -> Ints:
        return np.array(self.rows, dtype=np.int64)

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, len(self.rows[0]) - 1),)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (len(self.rows),)

    def components(self, records: Records) -> list[Component]:
        return [leaf_component(table_errors(self._table, records), len(records))]

    def rule(self, number: int) -> TruthTable:
        return TruthTable(self.rows[integer("number", number, 0, len(self.rows) - 1)])


def table_errors(table: Ints, records: Records) -> Ints:
    """Errors of every row of a 0/1 table; one matrix product."""
    x = np.asarray(records.x).reshape(len(records)).astype(np.int64)
    ones = np.bincount(x[records.y == 1], minlength=table.shape[1])
    zeros = np.bincount(x[records.y == 0], minlength=table.shape[1])
    return np.asarray(int(ones.sum()) + table @ (zeros - ones), dtype=np.int64)


def locate(sizes: Sequence[int], number: int) -> tuple[int, int]:
    """Component and offset of a rule's number."""
    ends = list(accumulate(sizes))
    number = integer("number", number, 0, ends[-1] - 1)
    place = bisect_right(ends, number)
    return place, number - (ends[place] - sizes[place])


def dense(component: Component) -> Ints:
    """One score per leaf, for small classes."""
    if component.starts is None:
        return component.scores
    return np.repeat(component.scores, np.diff(np.append(component.starts.astype(np.int64), component.size)))
