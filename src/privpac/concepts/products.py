"""Products of runs of cells: boxes, conjunctions and disjunctions are one class with one kernel.

Column ``j`` is cut into ``K_j`` public cells and has a public list of *selectors*, each a run ``first..last`` of cells.
A rule picks one selector per column; a point is inside if every column's cell is selected.  Rule 0 has nothing inside,
rule ``1 + r`` has the selectors that are the digits of ``r`` (first column most significant).  With ``outside=True`` a
rule says 1 outside instead (disjunctions, by De Morgan).

Kernel.  The last columns, as few as make lines of ``_LINE`` products of selectors, have a 0/1 table of their cells by
these products: a user's signed counts add lines of it into a table of the first columns' cells.  Then, first columns
one by one, prefix sums along the cells turn an axis of cells into an axis of selectors.  These are in order of length
there: those of one length that begin at neighbouring cells are a *band*, the difference of two stretches of prefix
sums.  The last step writes the sum inside of every rule by one vector subtraction per band, so a user costs O(size)
whatever the number of records, and the user's own minimum is over the whole class.

A voice that is linear in mistakes (no offset, no cap below the number of records, and one that divides the levels) is a
sum over users that needs no user by user: ``sum of slope * (e - b)`` is the mistakes, so weighted, of all their records
together, less the sum of ``slope * b``.  Their counts are added first and turned into rules once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.dense import EnumeratedClass
from privpac.concepts.kernels.grouped import Groups, Terms, group, shared, tally, terms
from privpac.concepts.kernels.narrow import MOST_RECORDS, charge, extremes, holds, settle
from privpac.concepts.profile import Profile, dense_profile
from privpac.concepts.statistics import Statistic
from privpac.data import UserData
from privpac.data.jit import jit

__all__ = ["ProductClass", "box_dimension"]

Ints = NDArray[np.int64]
_LINE, _LARGEST = 64, 1 << 24


class _Shape(NamedTuple):
    """A cell's line among those of the first columns and its row of ``table``, which the last columns have; per first
    column the numbers of cells and of selectors, and where its bands begin; of each band the first cell of its first
    run, the length of its runs and their number."""

    line: Ints
    row: Ints
    table: NDArray[np.uint8]
    cells: Ints
    selectors: Ints
    begins: Ints
    bands: Ints


@jit
def _lines(lines: Any, k: int, n: int, width: int) -> Any:
    return lines[k * width : (k + n) * width]


@jit
def _expand(source: Any, target: Any, sums: Any, outer: int, cells: int, width: int, base: Any, bands: Any) -> None:
    """``(outer, cells)`` lines summed over the selected cells, plus ``base``: ``(outer, selectors)`` lines."""
    sums[:width] = 0
    done = 0
    for x in range(outer):
        for k in range(cells):
            line, above, here = (
                _lines(source, x * cells + k, 1, width),
                _lines(sums, k, 1, width),
                _lines(sums, k + 1, 1, width),
            )
            for r in range(width):
                here[r] = above[r] + line[r]
        for band in range(len(bands)):
            first, length, n = bands[band, 0], bands[band, 1], bands[band, 2]
            out, top, low = (
                _lines(target, done, n, width),
                _lines(sums, first + length, n, width),
                _lines(sums, first, n, width),
            )
            for r in range(n * width):
                out[r] = top[r] - low[r] + base
            done += n


@jit
def _mistakes(row: Any, room: Any, shape: Any, places: Any, weights: Any, start: int, end: int, base: Any) -> None:
    """``base`` plus the weights inside of every rule, in the type of ``row``.

    ``room`` has three rows of twice its length: a column has at least as many selectors as cells, so that neither its
    lines nor their prefix sums, one more, need more.
    """
    at, which, table, cells, selectors, begins, bands = shape
    width, columns = table.shape[1], len(cells)
    outer = 1
    for j in range(columns):
        outer *= cells[j]
    source, target, sums = room[0], room[1], room[2]
    source[: outer * width] = 0
    nothing = row.dtype.type(0)
    for k in range(start, end):
        weight = row.dtype.type(weights[k])
        line, out = table[which[places[k]]], _lines(source, at[places[k]], 1, width)
        for r in range(width):
            out[r] += weight if line[r] else nothing
    for j in range(columns - 1, -1, -1):
        outer //= cells[j]
        if j == 0:
            target = row[1:]
        more = base if j == 0 else nothing
        _expand(source, target, sums, outer, cells[j], width, more, bands[begins[j] : begins[j + 1]])
        width *= selectors[j]
        source, target = target, source
    row[0] = base


@jit
def _scores(
    first: int,
    last: int,
    scores: Any,
    groups: Any,
    offset: Any,
    cap: Any,
    levels: int,
    uses_minimum: bool,
    own: Any,
    slope: Any,
    shape: Any,
) -> None:
    """Add the contributions of the distinct users ``first..last - 1``, but for those that have a slope."""
    starts, ends, places, weights, ones, sizes, times = groups
    size = scores.shape[1]
    bytes_row, bytes_room = np.empty(size, np.uint8), np.empty((3, 2 * size), np.uint8)
    # Counts of users with more records than a byte holds are rare: room for them is made when one comes.
    row, room = np.empty(0, np.int32), np.empty((3, 0), np.int32)
    values, held = np.empty(MOST_RECORDS + 1, dtype=np.int64), holds(len(scores), size)
    for i in range(first, last):
        m, base = sizes[i], ones[i]
        if m <= MOST_RECORDS:
            _mistakes(bytes_row, bytes_room, shape, places, weights, starts[i], ends[i], np.uint8(base))
            own[0, i], own[1, i] = extremes(bytes_row)
            least = own[0, i] if uses_minimum else 0
            charge(bytes_row, least, m, offset[i], cap[:, i], levels, times[i], slope[:, i], values, held, scores)
        else:
            if len(row) < size:
                row, room = np.empty(size, np.int32), np.empty((3, 2 * size), np.int32)
            if len(values) <= m:
                values = np.empty(2 * m + 1, dtype=np.int64)
            _mistakes(row, room, shape, places, weights, starts[i], ends[i], np.int32(base))
            own[0, i], own[1, i] = extremes(row)
            least = own[0, i] if uses_minimum else 0
            tally(row, least, m, offset[i], cap[:, i], levels, times[i], values, scores)
    settle(held, scores)


@jit
def _pool(groups: Any, slope: Any, sums: Any) -> None:
    """Signed counts of every cell, each user's times multiplicity and slope; one row a voice."""
    starts, ends, places, weights, _, sizes, times = groups
    for i in range(len(sizes)):
        for v in range(len(slope)):
            worth = slope[v, i] * times[i]
            if worth:
                for k in range(starts[i], ends[i]):
                    sums[v, places[k]] += worth * weights[k]


@jit
def _expand_pool(sums: Any, bases: Any, shape: Any, scores: Any) -> None:
    """Add the mistakes of all pooled records to the scores."""
    places = np.arange(sums.shape[1])
    size = scores.shape[1]
    row, room = np.empty(size, np.int64), np.empty((3, 2 * size), np.int64)
    for v in range(len(sums)):
        _mistakes(row, room, shape, places, sums[v], 0, len(places), bases[v])
        for h in range(len(row)):
            scores[v, h] += row[h]


def _by_length(firsts: Ints, lasts: Ints) -> NDArray[np.intp]:
    """The order of a column's selectors in the kernel."""
    return np.lexsort((firsts, lasts - firsts))


def _bands(firsts: Ints, lasts: Ints) -> Ints:
    order = _by_length(firsts, lasts)
    begin, length = firsts[order], (lasts - firsts)[order] + 1
    new = np.flatnonzero(np.concatenate([[True], (np.diff(length) != 0) | (np.diff(begin) != 1)]))
    return np.stack([begin[new], length[new], np.diff([*new, len(order)])], axis=1)


def _slopes(groups: Groups, term: Terms) -> Ints:
    """What one mistake is worth, one row a voice; 0 for users whose contribution is not linear or who are tallied."""
    linear = (term.offset == 0) & (groups.sizes <= np.minimum(term.cap, MOST_RECORDS)) & (term.levels % term.cap == 0)
    slopes: Ints = np.where(linear, term.levels // term.cap, 0)
    return slopes


class ProductClass(EnumeratedClass):
    """A class of products of selectors."""

    outside: ClassVar[bool] = False

    @property
    @abstractmethod
    def _names(self) -> tuple[str, ...]:
        """The columns, in order."""

    @property
    @abstractmethod
    def _counts(self) -> tuple[int, ...]:
        """Cells per column."""

    @property
    @abstractmethod
    def _selectors(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Runs ``(first cell, last cell)`` per column; at least as many as cells."""

    @abstractmethod
    def _cell(self, name: str, codes: NDArray[np.uint64]) -> Ints:
        """The cell of every code of a column."""

    @property
    def size(self) -> int:
        return 1 + prod(len(runs) for runs in self._selectors)

    @cached_property
    def _runs(self) -> tuple[tuple[Ints, Ints], ...]:
        pairs = [np.array(runs, dtype=np.int64).reshape(-1, 2) for runs in self._selectors]
        return tuple((np.ascontiguousarray(p[:, 0]), np.ascontiguousarray(p[:, 1])) for p in pairs)

    def digits(self, hypothesis: int) -> tuple[int, ...] | None:
        """The selector of every column, None for rule 0."""
        rest = self.checked(hypothesis) - 1
        if rest < 0:
            return None
        out: list[int] = []
        for runs in reversed(self._selectors):
            rest, digit = divmod(rest, len(runs))
            out.append(digit)
        return tuple(reversed(out))

    def table(self, codes: Mapping[str, NDArray[np.uint64]], first: int, last: int) -> NDArray[np.uint8]:
        ids = np.arange(first, last, dtype=np.int64)
        rest = np.maximum(ids - 1, 0)
        inside = np.broadcast_to(ids > 0, (len(codes[self._names[0]]), len(ids))).copy()
        for name, (firsts, lasts) in reversed(list(zip(self._names, self._runs))):
            rest, digit = np.divmod(rest, len(firsts))
            cell = self._cell(name, codes[name])[:, None]
            inside &= (firsts[digit] <= cell) & (cell <= lasts[digit])
        return (~inside if self.outside else inside).astype(np.uint8)

    @cached_property
    def _shape(self) -> _Shape:
        counts, runs, columns, size = list(self._counts), list(self._runs), len(self._counts), 1
        while columns and size < _LINE:
            columns -= 1
            size *= len(runs[columns][0])
        if prod(counts[columns:]) * size > _LARGEST:  # one column of very many cells
            columns = len(counts)
        table = np.ones((1, 1), dtype=np.uint8)
        for count, (firsts, lasts) in zip(counts[columns:], runs[columns:]):
            cell = np.arange(count)[:, None]
            table = np.kron(table, ((firsts <= cell) & (cell <= lasts)).astype(np.uint8))
        line, row = np.divmod(np.arange(prod(counts)), len(table))
        counts, runs = counts[:columns], runs[:columns]
        if not columns:  # at least one, of one cell
            counts, runs = [1], [(np.zeros(1, np.int64), np.zeros(1, np.int64))]
        bands = [_bands(*run) for run in runs]
        begins = np.cumsum([0, *map(len, bands)])
        selectors = np.array([len(firsts) for firsts, _ in runs])
        return _Shape(line, row, table, np.array(counts), selectors, begins, np.concatenate(bands))

    def _in_order(self, scores: Ints) -> Ints:
        """Scores by id, from those in the order of the kernel."""
        columns = len(self._shape.selectors)
        boxes = scores[:, 1:].reshape(len(scores), *self._shape.selectors, -1)
        for axis, run in enumerate(self._runs[:columns], 1):
            if boxes.shape[axis] > 1:  # not the column that stands for none
                boxes = np.take(boxes, np.argsort(_by_length(*run)), axis=axis)
        return np.concatenate([scores[:, :1], boxes.reshape(len(scores), -1)], axis=1)

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        place = np.zeros(len(users.labels), dtype=np.int64)
        for name, count in zip(self._names, self._counts):
            place *= count
            place += self._cell(name, users.codes[name])
        # A rule that says 1 outside is wrong where its inside is wrong about the opposite labels.
        labels = users.labels ^ np.uint8(self.outside)
        groups = group(place.view(np.uint64), labels, users.offsets, prod(self._counts))
        del place
        term, packed, shape = terms(groups, statistic), tuple(groups), tuple(self._shape)
        slope = _slopes(groups, term)
        scores = shared(groups, term, self.size, lambda a, b, out: _scores(a, b, out, packed, *term, slope, shape))
        if slope.any():
            pooled = np.zeros((len(slope), prod(self._counts)), dtype=np.int64)
            _pool(packed, slope, pooled)
            bases = (slope * (groups.times * (groups.ones - term.own[0] * term.uses_minimum))).sum(axis=1)
            _expand_pool(pooled, bases, shape, scores)
        return dense_profile(self._in_order(scores), statistic.luck(groups.sizes, term.own, groups.times))


def box_dimension(counts: tuple[int, ...]) -> int:
    """VC dimension of all boxes on a grid of ``counts`` cells, the empty box included; exact.

    In a shattered set every point is the only lowest or the only highest one along some column.  A column of two cells
    with both an only lowest and an only highest point leaves room for no third point, so a set of three or more has at
    most ``2a + b`` points, with ``a`` columns of three or more cells and ``b`` of two.  The middle cell moved one step
    either way along the former, and one step along the latter, reach that number; two cells of one column, or one cell
    at all, are always shattered.
    """
    a, b = sum(count > 2 for count in counts), sum(count == 2 for count in counts)
    return max(2, 2 * a + b) if a + b else 1
