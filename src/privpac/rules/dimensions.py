"""Dimensions of explicit finite classes: how rich a 0/1 matrix (rows = concepts, columns = points) is.

* :func:`vc_dimension`: the most points that show all their labellings.
* :func:`littlestone_dimension`: the depth of the deepest complete mistake tree, ``L(V) = max over x of 1 + min(L(V0),
  L(V1))``.
* :func:`threshold_dimension`: the longest ``c_1, x_1, ..., c_k, x_k`` with ``c_i(x_j) = 1`` iff ``j >= i``.

``floor(log2 threshold_dimension) <= littlestone_dimension``, and ``vc_dimension <= littlestone_dimension <= floor(log2
#concepts)``.  All three are hard in general, so each takes ``max_states``; beyond it
:class:`~privpac.errors.DimensionLimit` carries bounds that are valid whatever was left out.  (For a class of VC
dimension 1 the threshold dimension relative to a concept ``f`` is the height of its tree, in linear time:
``VC1Tree.from_matrix(M, root=f).height``.)

Classes are public: nothing here sees data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from privpac.errors import DimensionLimit, ParameterError
from privpac.guarantee import positive_int

__all__ = [
    "MAX_STATES",
    "cut_mistakes",
    "interval_mistakes",
    "littlestone_dimension",
    "threshold_dimension",
    "vc_dimension",
]

MAX_STATES = 1 << 20
"""Search states visited at most, unless the caller says otherwise."""


# Reading


def _bitmasks(matrix: Any) -> tuple[list[int], list[int]]:
    """Distinct rows, and distinct columns over these rows, as bit masks."""
    table = np.asarray(matrix)
    if table.ndim != 2 or table.shape[0] == 0:
        raise ParameterError(f"a class is a matrix with at least one row (concept), got shape {table.shape}")
    if table.size and (table.dtype.kind not in "biuf" or not bool(np.isin(table, (0, 1)).all())):
        raise ParameterError("a class is a matrix of 0 and 1: rows are concepts, columns are points")
    bits = table.astype(bool)
    rows = list(dict.fromkeys(_mask(row) for row in bits))
    columns = dict.fromkeys(sum(1 << i for i, row in enumerate(rows) if row >> x & 1) for x in range(bits.shape[1]))
    return rows, list(columns)


def _mask(row: Any) -> int:
    return int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little")


def _splitting(rows: list[int], columns: list[int]) -> list[int]:
    """Columns that split the class, one of each complementary pair: which label is called 1 does not matter here."""
    everyone = (1 << len(rows)) - 1
    return list(dict.fromkeys(min(column, everyone ^ column) for column in columns if column not in (0, everyone)))


class _Work:
    """Counts states; the bounds of the error are whatever is known when the limit is reached."""

    def __init__(self, max_states: int, upper: int) -> None:
        self.left, self.lower, self.upper = positive_int(max_states, "max_states"), 0, upper

    def visit(self) -> None:
        if self.left == 0:
            raise DimensionLimit(self.lower, self.upper)
        self.left -= 1


# VC dimension


def vc_dimension(matrix: Any, *, max_states: int = MAX_STATES) -> int:
    """The size of the largest set of points whose labels take all patterns.

    >>> vc_dimension([[0, 0], [0, 1], [1, 1]]), vc_dimension([[0, 0], [0, 1], [1, 0], [1, 1]])
    (1, 2)
    """
    rows, columns = _bitmasks(matrix)
    points = _splitting(rows, columns)
    work = _Work(max_states, min(len(points), len(rows).bit_length() - 1))
    _shatter([(1 << len(rows)) - 1], points, 0, work)
    return work.lower


def _shatter(cells: list[int], points: list[int], size: int, work: _Work) -> None:
    """Extend a shattered set whose patterns partition the rows into ``cells``; subsets of shattered sets are
    shattered."""
    work.visit()
    work.lower = max(work.lower, size)
    room = min(cell.bit_count() for cell in cells).bit_length() - 1
    fitting = [x for x in points if all(cell & x and cell & ~x for cell in cells)] if room else []
    for i, x in enumerate(fitting):
        if work.lower == work.upper or size + min(room, len(fitting) - i) <= work.lower:
            return
        _shatter([part for cell in cells for part in (cell & x, cell & ~x)], fitting[i + 1 :], size + 1, work)


# Littlestone dimension


def littlestone_dimension(matrix: Any, *, max_states: int = MAX_STATES) -> int:
    """The number of mistakes that every online learner can be forced to make.

    >>> littlestone_dimension([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]])
    2
    """
    rows, columns = _bitmasks(matrix)
    search = _Mistakes(_splitting(rows, columns), _Work(max_states, len(rows).bit_length() - 1))
    everyone, work = (1 << len(rows)) - 1, search.work
    while work.lower < work.upper and search.at_least(everyone, work.lower + 1):
        work.lower += 1
    return work.lower


class _Mistakes:
    """Decides ``L(V) >= d`` with ``lo <= L(V) < hi`` remembered for every set ``V`` of rows met on the way."""

    def __init__(self, points: list[int], work: _Work) -> None:
        self.points, self.work = points, work
        self.lo: dict[int, int] = {}
        self.hi: dict[int, int] = {}

    def at_least(self, rows: int, d: int) -> bool:
        size = rows.bit_count()
        if d <= 1:
            return size > d  # rows are distinct: two of them differ somewhere
        if size < 1 << d or d >= self.hi.get(rows, d + 1):
            return False
        if d <= self.lo.get(rows, 0):
            return True
        self.work.visit()
        for x in self.points:
            ones = rows & x
            few, many = sorted((ones, rows ^ ones), key=int.bit_count)
            if few.bit_count() >= 1 << (d - 1) and self.at_least(few, d - 1) and self.at_least(many, d - 1):
                self.lo[rows] = d
                return True
        self.hi[rows] = d
        return False


# Threshold dimension


def threshold_dimension(matrix: Any, *, max_states: int = MAX_STATES) -> int:
    """The longest family of thresholds inside the class: ``c_i(x_j) = 1`` iff ``j >= i``.

    >>> threshold_dimension([[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]])
    3
    """
    rows, columns = _bitmasks(matrix)
    # Over the distinct columns a row has distinct points, and equal columns never both belong to one family.
    across = [sum(1 << x for x, column in enumerate(columns) if column >> i & 1) for i in range(len(rows))]
    search = _Chains(
        across, columns, _Work(max_states, min(len([r for r in rows if r]), len([c for c in columns if c])))
    )
    start, work = ((1 << len(rows)) - 1, (1 << len(columns)) - 1), search.work
    work.lower = search.greedy(*start)
    while work.lower < work.upper and search.at_least(*start, work.lower + 1):
        work.lower += 1
    return work.lower


class _Chains:
    """Decides whether rows ``V`` and points ``U`` hold a family of length ``d``, by a depth-first search without
    recursion.

    After ``(c, x)`` the rest of a family lies in the rows that are 0 on ``x`` and the points where ``c`` is 1.
    """

    def __init__(self, rows: list[int], columns: list[int], work: _Work) -> None:
        self.rows, self.columns, self.work = rows, columns, work
        self.failed: dict[tuple[int, int], int] = {}
        """Least length known to be impossible."""

    def _rest(self, rows: int, points: int, d: int) -> Iterator[tuple[int, int]]:
        held = ((self.rows[i] & points, i) for i in _places(rows))
        for row, _ in sorted(((r, i) for r, i in held if r.bit_count() >= d), key=lambda pair: -pair[0].bit_count()):
            left = {rows & ~self.columns[x] for x in _places(row)}
            for others in sorted((o for o in left if o.bit_count() >= d - 1), key=int.bit_count, reverse=True):
                yield others, row

    def greedy(self, rows: int, points: int) -> int:
        """The length of one family: a start for the search."""
        length = 0
        while (rest := next(self._rest(rows, points, 1), None)) is not None:
            (rows, points), length = rest, length + 1
        return length

    def at_least(self, rows: int, points: int, d: int) -> bool:
        """One success anywhere below makes every state above succeed."""
        stack = [((rows, points), d, self._rest(rows, points, d))]
        while stack:
            state, length, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                self.failed[state] = min(length, self.failed.get(state, length))
                stack.pop()
            elif length == 1:
                return True
            elif self.failed.get(child, length) > length - 1:
                self.work.visit()
                stack.append((child, length - 1, self._rest(*child, length - 1)))
        return False


def _places(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


# Classes on a line


def cut_mistakes(points: int) -> int:
    """The depth of the mistake tree of all cuts between so many points: bisection."""
    return (points + 1).bit_length() - 1


def interval_mistakes(points: int) -> int:
    """The same for the intervals that hold one point ``c``: ``c + 1`` left ends and ``points - c`` right ends, one
    after the other."""
    return max(k + cut_mistakes(points - (1 << k)) for k in range(points.bit_length()))
