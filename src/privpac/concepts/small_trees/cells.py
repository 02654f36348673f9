"""The integers that a table is folded into: signed weights of every pair of bins.

User ``i`` with ``m_i`` records gives each of them the weight ``a_i = floor(levels / m_i)``, so all of a user's records
weigh at most ``levels`` together: **this line is the sensitivity**, whatever the number of records, users or bins.  For
every two columns the weights are summed over records in the table of their bins, with the record's label for a sign;
prefix sums over cuts then give ``both[i][j]``, the weight where two tests hold.  Integer sums: any order, chunks,
threads and engines give the same cells.

With two labels the sums are signed (label 1 plus, label 0 minus).  With ``c`` there is one sum per label, and the cells
of label ``k`` are those of label ``k`` less those of label 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.kernels.spread import spread, user_spans
from privpac.concepts.small_trees.columns import BinnedColumn
from privpac.data import UserData
from privpac.data.jit import jit

__all__ = ["TreeCells", "CellsKernel", "PairSums", "cells_of", "pair_count"]

Ints = NDArray[np.int64]

_BLOCK = 1 << 13
"""Rows in work at a time: their bins stay in the cache."""


@dataclass(frozen=True, eq=False, repr=False)
class PairSums:
    """Weight of every label, and the weights of pairs of bins: one signed table, or one for every label."""

    totals: Ints
    tables: Ints

    def __repr__(self) -> str:
        return "<PairSums>"


@dataclass(frozen=True, eq=False, repr=False)
class TreeCells:
    """``D`` of label ``k = 1..c-1`` (weight of label k less that of label 0): in all, where a test holds, where two do.

    ``others`` is the weight of all records that label 0 gets wrong: the score of "always label 0".
    """

    total: Ints
    single: Ints
    both: Ints
    others: int

    def same(self, other: TreeCells) -> bool:
        """Whether all cells are equal; trees then have the same law."""
        return all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip((self.total, self.single, self.both), (other.total, other.single, other.both))
        )

    def __repr__(self) -> str:
        return "<TreeCells>"


def pair_count(columns: tuple[BinnedColumn, ...]) -> int:
    """Pairs of bins of two columns, or of one with itself."""
    widths = [column.width for column in columns]
    return sum(width * sum(widths[j:]) for j, width in enumerate(widths))


def _places(columns: tuple[BinnedColumn, ...]) -> tuple[Ints, int]:
    """Where the table of columns ``j <= k`` begins (a column alone has one row), and the entries of all tables."""
    d, widths = len(columns), [column.width for column in columns]
    sizes = [[widths[k] if j == k else widths[j] * widths[k] if j < k else 0 for k in range(d)] for j in range(d)]
    ends = list(accumulate((size for row in sizes for size in row), initial=0))
    return np.array(ends[:-1], dtype=np.int64).reshape(d, d), ends[-1]


@jit
def _weigh(labels: Any, offsets: Any, first: int, last: int, levels: int, signed: bool, weights: Any) -> None:
    """The weight of every record of some users; a user's together are at most ``levels``."""
    start = offsets[first]
    for user in range(first, last):
        begin, end = offsets[user], offsets[user + 1]
        if end > begin:
            a = levels // (end - begin)
            for r in range(begin, end):
                weights[r - start] = -a if signed and labels[r] == 0 else a


@jit
def _add(bins: Any, weights: Any, bases: Any, places: Any, widths: Any, out: Any) -> None:
    """Add the weights of some records to the tables of all pairs of columns."""
    d, n = bins.shape
    for j in range(d):
        own = bins[j]
        at = places[j, j]
        for r in range(n):
            out[bases[r] + at + own[r]] += weights[r]
        for k in range(j + 1, d):
            other, width, at = bins[k], widths[k], places[j, k]
            for r in range(n):
                out[bases[r] + at + own[r] * width + other[r]] += weights[r]


@dataclass(frozen=True)
class CellsKernel:
    """Folds whole users into pair sums."""

    columns: tuple[BinnedColumn, ...]
    levels: int
    labels: int = 2

    @property
    def _tables(self) -> int:
        return 1 if self.labels == 2 else self.labels

    def zero(self) -> PairSums:
        _, size = _places(self.columns)
        return PairSums(np.zeros(self.labels, dtype=np.int64), np.zeros((self._tables, size), dtype=np.int64))

    def merge(self, a: PairSums, b: PairSums) -> PairSums:
        return PairSums(a.totals + b.totals, a.tables + b.tables)

    def chunk(self, users: UserData) -> PairSums:
        assert users.labels is not None
        found = self.zero()
        for part in spread(lambda first, last: self._span(users, first, last), user_spans(users.offsets)):
            found = self.merge(found, part)
        return found

    def _span(self, users: UserData, first: int, last: int) -> PairSums:
        """The sums of the users ``first..last - 1``."""
        assert users.labels is not None
        found = self.zero()
        places, size = _places(self.columns)
        widths = np.array([column.width for column in self.columns], dtype=np.int64)
        begin, end = int(users.offsets[first]), int(users.offsets[last])
        signed, flat = self.labels == 2, found.tables.reshape(-1)
        weights = np.zeros(end - begin, dtype=np.int64)
        _weigh(users.labels, users.offsets, first, last, self.levels, signed, weights)
        bins = np.empty((len(self.columns), _BLOCK), dtype=np.uint16)
        bases = np.zeros(_BLOCK, dtype=np.int64)
        for at in range(begin, end, _BLOCK):
            stop = min(at + _BLOCK, end)
            n, labels, part = stop - at, users.labels[at:stop], weights[at - begin : stop - begin]
            for row, column in zip(bins, self.columns):
                column.bin_codes(users.codes[column.name][at:stop], row[:n])
            if not signed:
                np.multiply(labels, size, out=bases[:n], dtype=np.int64)
            _add(bins[:, :n], part, bases[:n], places, widths, flat)
            for label in range(self.labels):
                found.totals[label] += np.abs(part[labels == label]).sum()
        return found


def cells_of(columns: tuple[BinnedColumn, ...], sums: PairSums) -> TreeCells:
    """Where tests hold, from the sums of bins: one square of all bins, whose rows and then columns become tests."""
    places, _ = _places(columns)
    tables = sums.tables if len(sums.totals) == 2 else sums.tables[1:] - sums.tables[0]
    bins = _spans(column.width for column in columns)
    tests = _spans(len(column.tests) for column in columns)
    c, width, k = len(tables), bins[-1].stop, tests[-1].stop
    pairs = np.zeros((c, width, width), dtype=np.int64)
    single = np.zeros((c, k), dtype=np.int64)
    for j, first in enumerate(columns):
        own = tables[:, places[j, j] : places[j, j] + first.width]
        single[:, tests[j]] = first.of_tests(own, 1)
        pairs[:, np.arange(bins[j].start, bins[j].stop), np.arange(bins[j].start, bins[j].stop)] = own
        for other in range(j + 1, len(columns)):
            size = first.width * columns[other].width
            found = tables[:, places[j, other] : places[j, other] + size].reshape(c, first.width, -1)
            pairs[:, bins[j], bins[other]] = found
            pairs[:, bins[other], bins[j]] = found.transpose(0, 2, 1)
    rows, both = np.zeros((c, k, width), dtype=np.int64), np.zeros((c, k, k), dtype=np.int64)
    for column, span, held in zip(columns, bins, tests):
        rows[:, held] = column.of_tests(pairs[:, span], 1)
    for column, span, held in zip(columns, bins, tests):
        both[:, :, held] = column.of_tests(rows[:, :, span], 2)
    totals = sums.totals
    return TreeCells(totals[1:] - totals[0], single, both, int(totals[1:].sum()))


def _spans(sizes: Iterable[int]) -> list[slice]:
    """Ranges of these sizes, one after the other."""
    return [slice(a, b) for a, b in pairwise(accumulate(sizes, initial=0))]
