"""Littlestone dimension and the standard optimal algorithm, for finite classes.

A class is a table of distinct 0/1 rows in lexicographic order over points 0..N-1; a subclass is a bit mask over the
rows, and ``V|(x, y)`` keeps the rows with value ``y`` at ``x``.  ``Ldim(empty) = -1`` and ``Ldim(V) = max_x 1 +
min(Ldim(V|(x,0)), Ldim(V|(x,1)))`` over the points that split ``V``; ``SOA(V)(x)`` is the value whose side has the
larger dimension, 0 if equal.  At most one side keeps ``Ldim(V)``.

The dimension is found by deciding ``Ldim >= t``, with proved bounds remembered per mask: exponential in the worst case,
so work is counted and refused above a budget.  A search belongs to one user; only the table is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from privpac.agreement.rules import pack
from privpac.errors import ParameterError, TooLargeError

__all__ = ["DEFAULT_BUDGET", "Rows", "Search", "WorkExceeded", "littlestone_dimension"]

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
        if (
            not table
            or not table[0]
            or len({len(row) for row in table}) != 1
            or any(bit not in (0, 1) for row in table for bit in row)
        ):
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
    def table(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
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
        return pack(self.table[row])


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


def littlestone_dimension(rows: Iterable[str | Sequence[int]], budget: int = DEFAULT_BUDGET) -> int:
    """The Littlestone dimension of a finite class; refused with ``TooLargeError`` above the budget of search nodes.

    >>> littlestone_dimension(["000", "001", "011", "111"])
    2
    """
    table = Rows(rows)
    return Search(table, budget).dimension(table.everything)
