"""The best cuts of several columns, without the scores of all of them.

A draw from an exponential law sees only rules near the best one: all others together weigh less than 64 random bits can
tell from 0 (``law.near``).  So the first look at the users adds up what each of a few thousand *cells* of a column,
runs of codes, moves the scores by.  Passing a record moves a score by at most ``levels``, so inside a cell of ``n``
records that leads from score ``s`` to ``t`` every score ``x`` has ``(s - x) + (t - x) <= n levels``, that is

    x >= (s + t - n levels) / 2.

Only cells where this bound is within reach of a score that was seen are looked at again, record by record.  A run of
equal scores that is near lies between two records, and each of them is in a cell that touches this score, hence in
one that is looked at: no run is cut short.  Nothing but the sums is kept of the other cells.

Columns are read one after another.  Where a user's best rule over all of them is needed, the order of a user's records
in each column is kept in between, in one byte for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Bytes, Codes, Ints
from privpac.data import UserData
from privpac.data.loops import jit, spread, user_spans
from privpac.law.sampling import Part
from privpac.rules.kernels import Bundle
from privpac.rules.kernels.cuts import SIGNS, change_type, contribution
from privpac.rules.kernels.events import FEW_PLACES, ROOM, sort_span
from privpac.rules.profile import Statistic

_MANY = 1 << 18
_CELLS_BITS = 13
_FEW = 32
_LISTED = _USERS = 1 << 16


# One user


@jit
def _arrange(codes: Array, labels: Array, a: Any, m: Any, order: Array, known: bool, at: Array, tag: Array) -> None:
    """Up to ``_FEW`` records by code, from their known order or by counting, for each, those before it."""
    if known:
        for i in range(m):
            at[i], tag[i] = codes[a + order[i]], labels[a + order[i]]
        return
    for i in range(m):
        word, rank = codes[a + i], np.int64(0)
        for j in range(i):
            rank += np.int64(codes[a + j] <= word)
        for j in range(i + 1, m):
            rank += np.int64(codes[a + j] < word)
        order[rank], at[rank], tag[rank] = i, word, labels[a + i]


@jit
def _widen(at: Array, tag: Array, m: Any, zeros: Any, both: bool, sign: int, own: Array, u: Any) -> None:
    """Widen a user's own least and most mistakes to those of one column, in one direction or in both."""
    mistakes = zeros if both or sign > 0 else m - zeros
    step = 1 if both else sign
    least, most = mistakes, mistakes
    for i in range(m):
        mistakes += step * (2 * np.int64(tag[i]) - 1)
        if i + 1 == m or at[i + 1] != at[i]:
            least, most = min(least, mistakes), max(most, mistakes)
    if both:  # the other direction makes m - mistakes
        least, most = min(least, m - most), max(most, m - least)
    own[0, u], own[1, u] = min(own[0, u], least), max(own[1, u], most)


@jit
def _add(
    at: Array, tag: Array, m: Any, zeros: Any, signs: Array, free: Any, values: Array, grid: Bundle, out: Bundle
) -> None:
    """What passing the records of every cell moves the scores by, one score and direction at a time."""
    low, shift, _ = grid
    total, moved, count = out
    directions = len(signs)
    for i in range(m):
        count[np.int64((at[i] - low) >> shift)] += 1
    for d in range(len(total)):
        row, sign, mistakes = values[d // directions], signs[d % directions], zeros
        value = row[max((mistakes if sign > 0 else m - mistakes) - free, 0)]
        total[d] += value
        for i in range(m):
            mistakes += 2 * np.int64(tag[i]) - 1
            if i + 1 == m or at[i + 1] != at[i]:
                now = row[max((mistakes if sign > 0 else m - mistakes) - free, 0)]
                moved[np.int64((at[i] - low) >> shift), d] += now - value
                value = now


@jit
def _add_four(at: Array, tag: Array, m: Any, zeros: Any, free: Any, values: Array, grid: Bundle, out: Bundle) -> None:
    """The same for two scores in both directions, above and then below, in one walk."""
    low, shift, _ = grid
    total, moved, count = out
    clip, mean, mistakes = values[0], values[1], zeros
    above, below = max(mistakes - free, 0), max(m - mistakes - free, 0)
    a, b, c, d = clip[above], clip[below], mean[above], mean[below]
    total[0] += a
    total[1] += b
    total[2] += c
    total[3] += d
    for i in range(m):
        mistakes += 2 * np.int64(tag[i]) - 1
        cell = np.int64((at[i] - low) >> shift)
        count[cell] += 1
        if i + 1 == m or at[i + 1] != at[i]:
            above, below = max(mistakes - free, 0), max(m - mistakes - free, 0)
            p, q, r, s = clip[above], clip[below], mean[above], mean[below]
            moved[cell, 0] += p - a
            moved[cell, 1] += q - b
            moved[cell, 2] += r - c
            moved[cell, 3] += s - d
            a, b, c, d = p, q, r, s


@jit
def _keep(
    at: Array,
    tag: Array,
    m: Any,
    zeros: Any,
    signs: Array,
    free: Any,
    values: Array,
    grid: Bundle,
    out: Bundle,
    used: Any,
) -> Any:
    """The records in marked cells with what passing them changes; returns how many there are by now."""
    low, shift, marked = grid
    key, change = out
    directions, mistakes, before = len(signs), zeros, zeros
    for i in range(m):
        mistakes += 2 * np.int64(tag[i]) - 1
        if i + 1 == m or at[i + 1] != at[i]:
            if marked[np.int64((at[i] - low) >> shift)]:
                for d in range(change.shape[1]):
                    row, above = values[d // directions], signs[d % directions] > 0
                    now = row[max((mistakes if above else m - mistakes) - free, 0)]
                    change[used, d] = now - row[max((before if above else m - before) - free, 0)]
                key[used] = at[i]
                used += 1
            before = mistakes
    return used


# Many users


@jit
def _look(
    codes: Array,
    labels: Array,
    offsets: Array,
    start: int,
    stop: int,
    signs: Array,
    find: bool,
    add: bool,
    own: Array,
    shape: Bundle,
    order: Array,
    grid: Bundle,
    out: Bundle,
    room: Bundle,
) -> int:
    """``find`` the least and most mistakes of users, ``add`` up what cells move; returns the number of events kept."""
    uses_minimum, levels, offset, cap, by_size = shape
    low, shift, marked = grid
    total, moved, count, key, change = out
    at, tag, at_room, tag_room, stack, values, places = room
    n_scores, used = len(cap), 0
    tabulated, filled = np.zeros(n_scores, dtype=np.int64), np.zeros(n_scores, dtype=np.int64)
    for u in range(start, stop):
        a, m = offsets[u], offsets[u + 1] - offsets[u]
        if m == 0:
            continue
        if len(marked) > 0:
            wanted = False
            for i in range(a, a + m):
                wanted = wanted or marked[np.int64((codes[i] - low) >> shift)] != 0
            if not wanted:
                continue
        if m <= _FEW:
            kept = len(order) > 0
            _arrange(codes, labels, a, m, order[a : a + m] if kept else places, kept and not find, at, tag)
        else:
            for i in range(m):
                at[i], tag[i] = codes[a + i], labels[a + i]
            sort_span(at, tag, 0, m, at_room, tag_room, stack)
        zeros = np.int64(0)
        for i in range(m):
            zeros += 1 - np.int64(tag[i])
        if find:
            _widen(at, tag, m, zeros, len(signs) > 1, signs[0], own, u)
        if add:
            k = m if by_size else u
            for v in range(n_scores):
                if cap[v, k] != tabulated[v] or filled[v] < m:
                    tabulated[v], filled[v] = cap[v, k], m
                    for e in range(m + 1):
                        values[v, e] = contribution(e, 0, 0, cap[v, k], levels)
            free = offset[k] + (own[0, u] if uses_minimum else np.int64(0))
            if len(marked) > 0:
                used = _keep(at, tag, m, zeros, signs, free, values, grid, (key, change), used)
            elif n_scores == 2 and len(signs) == 2:
                _add_four(at, tag, m, zeros, free, values, grid, (total, moved, count))
            else:
                _add(at, tag, m, zeros, signs, free, values, grid, (total, moved, count))
    return used


@frozen(slots=False)
class CutColumn:
    """One column of a class of cuts: its codes, how many values they may have, and the id of its first rule."""

    codes: Codes
    size: int
    base: int


@frozen(slots=False, eq=False)
class _Cells:
    """What the cells of a column hold: records, and the score before each of them and after the last, a row for every
    score and direction."""

    low: np.uint64
    shift: np.uint64
    count: Ints
    scores: Ints


@frozen(slots=False, eq=False)
class Survey:
    """The first look at the users, from which the rules near the best one are found.

    ``optimism`` is the statistic's own sum; ``whole`` the number of rules, after which the ids of the next score begin.
    """

    columns: Sequence[CutColumn]
    labels: Bytes
    offsets: Ints
    signs: Ints
    statistic: Statistic
    whole: int
    own: Ints
    shape: tuple[Any, ...]
    order: Sequence[Bytes]
    first: Sequence[Ints]
    cells: Sequence[_Cells]
    optimism: int

    @property
    def rules(self) -> int:
        """How many rules are scored, once for every score."""
        return self.statistic.n_scores * self.whole

    def near(self, reach: int, more: Sequence[int]) -> list[Part] | None:
        """Every run of rules whose score is at most ``reach`` above the best, others among them, if ``more`` is added
        to the scores of each score; None where that means most of the records."""
        added = np.repeat(np.array(more, dtype=np.int64), len(self.signs))
        best = min(int((cells.scores + added).min()) for cells in self.cells)
        marks = [self._marked(cells, added, best + reach) for cells in self.cells]
        if 2 * sum(int(cells.count[mark].sum()) for cells, mark in zip(self.cells, marks)) > len(self.labels):
            return None
        parts: list[Part] = []
        for j, (column, cells, mark) in enumerate(zip(self.columns, self.cells, marks)):
            cut0 = [self._cut0(column, c) for c in range(len(added))]
            zero = np.zeros(1, dtype=np.uint64)
            parts += [(at, zero, 0, self.first[j][c : c + 1], int(added[c])) for c, at in enumerate(cut0)]
            for starts, scores in self._runs(j, cells, mark):
                end = column.size - 1
                parts += [(cut0[c] + 1, starts, end, scores[:, c], int(added[c])) for c in range(len(added))]
        return parts

    def _cut0(self, column: CutColumn, c: int) -> int:
        which, direction = divmod(c, len(self.signs))
        return column.base + which * self.whole + direction * (column.size + 1)

    def _marked(self, cells: _Cells, added: Ints, most: int) -> NDArray[np.bool_]:
        """The cells that may hold a score of at most ``most``."""
        ends = cells.scores[:-1] + cells.scores[1:]
        lowest = ends - (cells.count * self.statistic.bound)[:, None]
        return (cells.count > 0) & (lowest <= 2 * (most - added)).any(axis=1)

    def _runs(self, j: int, cells: _Cells, mark: NDArray[np.bool_]) -> Iterator[tuple[Codes, Ints]]:
        """Starts and scores between the records of marked cells, cells without records between them left out.

        The first and the last of a run begin or end elsewhere unless the column does; they are near only if it does.
        """
        if not mark.any():
            return
        at, change = _events(self, j, cells, mark)
        order = np.argsort(at, kind="stable")
        at, change = at[order], change[order]
        held = np.flatnonzero(cells.count)
        place = np.flatnonzero(mark[held])
        for run in np.split(place, np.flatnonzero(np.diff(place) > 1) + 1):
            a, b = held[run[0]], held[run[-1]]
            i, k = np.searchsorted((at - cells.low) >> cells.shift, [a, b + 1])
            codes, scores = at[i:k], cells.scores[a] + np.cumsum(change[i:k], axis=0, dtype=np.int64)
            last = np.append(codes[1:] != codes[:-1], True) if len(codes) else np.zeros(0, dtype=bool)
            codes, scores = codes[last], scores[last]
            if run[0] == 0 and not (len(codes) and codes[0] == 0):  # before the first record of all
                codes = np.concatenate([np.zeros(1, dtype=np.uint64), codes])
                scores = np.concatenate([cells.scores[:1], scores])
            yield codes, scores


# Both looks


def _run(
    column: Codes,
    labels: Bytes,
    offsets: Ints,
    signs: Ints,
    statistic: Statistic,
    own: Ints,
    shape: tuple[object, ...],
    order: Bytes,
    grid: tuple[np.uint64, np.uint64, Bytes],
    *,
    find: bool,
    add: bool,
    cells: int = 0,
    events: int = 0,
) -> list[tuple[Ints, Ints, Ints, Codes, Array]]:
    """The kernel in all threads: per thread totals, what cells move and hold, or events."""
    columns = len(signs) * statistic.n_scores

    def run(start: int, stop: int) -> tuple[Ints, Ints, Ints, Codes, Array]:
        n = int(np.diff(offsets[start : stop + 1]).max())
        words, small = np.empty((2, n), dtype=np.uint64), np.empty((2, n), dtype=np.uint8)
        values = np.empty((statistic.n_scores, n + 1), dtype=np.int64)
        places = np.empty(_FEW, dtype=np.uint8)
        room = (words[0], small[0], words[1], small[1], np.empty(ROOM, dtype=np.int64), values, places)
        total, moved = np.zeros(columns, dtype=np.int64), np.zeros((cells, columns), dtype=np.int64)
        count, key = np.zeros(cells, dtype=np.int64), np.empty(events, dtype=np.uint64)
        change = np.empty((events, columns), dtype=change_type(statistic.bound))
        out = (total, moved, count, key, change)
        used = _look(column, labels, offsets, start, stop, signs, find, add, own, shape, order, grid, out, room)
        return total, moved, count, key[:used], change[:used]

    return spread(run, user_spans(offsets))


def _events(seen: Survey, j: int, cells: _Cells, mark: NDArray[np.bool_]) -> tuple[Codes, Array]:
    """The records in marked cells, in any order, with what passing them changes."""
    found = _run(
        seen.columns[j].codes,
        seen.labels,
        seen.offsets,
        seen.signs,
        seen.statistic,
        seen.own,
        seen.shape,
        seen.order[j],
        (cells.low, cells.shift, mark.astype(np.uint8)),
        find=False,
        add=True,
        events=int(cells.count[mark].sum()),
    )
    return np.concatenate([key for *_, key, _ in found]), np.concatenate([change for *_, change in found])


def survey(
    columns: Sequence[CutColumn],
    labels: Bytes,
    offsets: Ints,
    directions: Sequence[str],
    statistic: Statistic,
    whole: int,
) -> Survey:
    """Look at all users once (twice where several columns share a user's best rule)."""
    signs = np.array([SIGNS[direction] for direction in directions], dtype=np.int64)
    own, shape = _own(offsets), (statistic.uses_minimum, statistic.bound, *_shape(statistic, offsets))
    none = np.empty(0, dtype=np.uint8)
    keep = statistic.uses_minimum and len(columns) > 1
    order = [np.empty(len(labels), dtype=np.uint8) if keep else none for _ in columns]
    nowhere = (np.uint64(0), np.uint64(0), none)
    first, cells = [], []
    if keep:
        for column, places in zip(columns, order):
            rest = (labels, offsets, signs, statistic, own, shape, places, nowhere)
            _run(column.codes, *rest, find=True, add=False)
    for column, places in zip(columns, order):
        low, high = column.codes.min(), column.codes.max()
        shift = np.uint64(max(0, int(high - low).bit_length() - _CELLS_BITS))
        grid, n = (low, shift, none), int((high - low) >> shift) + 1
        rest = (labels, offsets, signs, statistic, own, shape, places, grid)
        found = _run(column.codes, *rest, find=statistic.uses_minimum and not keep, add=True, cells=n)
        total, moved, count = (np.sum([part[k] for part in found], axis=0) for k in range(3))
        first.append(total)
        cells.append(_Cells(low, shift, count, np.concatenate([total[None], total + np.cumsum(moved, axis=0)])))
    optimism = sum(
        statistic.optimism(np.diff(offsets[a : a + _USERS + 1]), own[:, a : a + _USERS])
        for a in range(0, len(offsets) - 1, _USERS)
    )
    return Survey(columns, labels, offsets, signs, statistic, whole, own, shape, order, first, cells, optimism)


def worthwhile(users: UserData, sizes: Sequence[int]) -> bool:
    """Whether a first look pays: the table is large, and so is a column's number of values."""
    return users.n_records >= _MANY and max(sizes) > FEW_PLACES


def _own(offsets: Ints) -> Ints:
    """Least and most mistakes, before any rule was looked at."""
    own = np.zeros((2, len(offsets) - 1), dtype=np.int64)
    np.subtract(offsets[1:], offsets[:-1], out=own[0])
    return own


def _shape(statistic: Statistic, offsets: Ints) -> tuple[Ints, Ints, bool]:
    """The statistic's public functions of the number of records: by that number where it is small, else by user."""
    sizes = np.diff(offsets)
    most = int(sizes.max(initial=0))
    if most >= _LISTED:
        return *statistic.shape(sizes), False
    present = np.flatnonzero(np.bincount(sizes, minlength=1))
    offset, cap = np.zeros(most + 1, dtype=np.int64), np.ones((statistic.n_scores, most + 1), dtype=np.int64)
    offset[present], cap[:, present] = statistic.shape(present)
    return offset, cap, True
