"""Kernels for rules on a line: a cut on one column.

With a user's records sorted by code, the mistakes of "1 iff code >= u" are a step function of the cut ``u``: all
records with label 0 are wrong at ``u = 0``, and passing a record's code adds 1 for label 1 and takes 1 away for label
0.  The opposite direction makes ``m - mistakes``.  One walk finds the user's own least and most mistakes, a second one
writes an event wherever the user's contribution changes: O(m) per user after the sort, on any domain, and nothing but
the events is kept. Statistics of two scores write both changes of an event in the same walk, and one sort of the events
serves both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from privpac.arrays import Array, Bytes, Codes, Ints
from privpac.data import UserData
from privpac.data.loops import jit, spread, user_spans
from privpac.rules.kernels import Bundle
from privpac.rules.kernels.events import FEW_PLACES, ROOM, sort_span, sorted_events, sum_events, sum_places
from privpac.rules.profile import Profile, Statistic, Step

# What one user adds to one rule: a whole number between 0 and ``levels``, whatever the user's records are.


@jit
def contribution(mistakes: int, minimum: int, offset: int, cap: int, levels: int) -> int:
    """One user's contribution to one rule."""
    # The value lies in 0..levels: this bound is the sensitivity.
    excess = mistakes - minimum - offset
    if excess <= 0:
        return 0
    if excess >= cap:
        return levels
    return levels * excess // cap


def change_type(levels: int) -> type[np.int16] | type[np.int32] | type[np.int64]:
    """A type that holds every difference of two contributions; small ones travel several in a word."""
    if levels < 1 << 15:
        return np.int16
    return np.int32 if levels < 1 << 31 else np.int64


# A cut on a column of few places, for people with few records: sixty-four at a time.
#
# The records of a person are a column of a small table, largest last, in words of 16 bits (twice the place, plus the
# label).  One row after the other is what all of them have at one rank, so a processor compares, exchanges and counts
# sixteen people in one instruction; what is left to do one by one is to add a change to the place that it belongs to.
#
# * *Sort.*  Batcher's merge exchange (Knuth, volume 3, 5.2.2M): pairs of rows that depend on their number only.
# * *Walk.*  Passing a record changes the mistakes of "1 iff code >= u" by one; they count where the next code differs.
#   The opposite direction makes ``m - mistakes``.
# * *Contributions* are read from a table by ``m`` and by the mistakes beyond those that are free; a row in which
#   nothing counts keeps the entry of the row before, and so adds 0.
#
# Columns with fewer records are filled up with a word beyond the last place, which sorts last and never counts; so
# there is one place more than the domain has, to which nothing is ever added.


FEW_RECORDS = 64
_LANES = 64
"""People at a time: several registers of them, so that what a loop asks before it begins is asked seldom."""
_LANE = np.uint64(_LANES)
_ENTRIES = FEW_RECORDS + 1
"""Of the table of contributions, for every number of records: mistakes 0..FEW_RECORDS."""
_ONE = np.uint16(1)
_PAIRS = 543
"""Exchanges that sort 64 rows."""


def few_room(n_scores: int) -> tuple[Any, ...]:
    """Room for :func:`walk_few`: words, entries, pairs of rows, people who wait, small numbers of each, the table."""
    rows = (FEW_RECORDS + 1) * _LANES
    table = np.full((n_scores, _ENTRIES * _ENTRIES), -1, np.int64)
    table[:, :_ENTRIES] = 0
    return (
        np.zeros(rows, np.uint16),
        np.zeros(rows, np.int16),
        np.zeros((_PAIRS, 2), np.uint64),
        np.zeros((5, _LANES), np.int64),
        tuple(np.zeros((7, _LANES), np.int16)),
        table,
    )


@jit
def _network(rows: int, pairs: Array) -> int:
    """Pairs of words, in the first lane, whose exchange sorts ``rows`` rows; returns how many."""
    whole, count = 1, 0
    while whole < rows:
        whole *= 2
    p = whole // 2
    while p > 0:
        q, r, d = whole // 2, 0, p
        while True:
            for i in range(rows - d):
                if i & p == r:
                    pairs[count, 0], pairs[count, 1] = i * _LANES, (i + d) * _LANES
                    count += 1
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2
    return count


@jit
def _sort(words: Array, pairs: Array, count: int) -> None:
    for c in range(count):
        a, b = pairs[c, 0], pairs[c, 1]
        for lane in range(_LANE):
            x, y = words[a + lane], words[b + lane]
            words[a + lane], words[b + lane] = min(x, y), max(x, y)


@jit
def _load(codes: Array, labels: Array, offsets: Array, people: Array, rows: int, pad: object, words: Array) -> None:
    for lane in range(_LANES):
        a, m = 0, 0
        if lane < len(people):
            a = offsets[people[lane]]
            m = offsets[people[lane] + 1] - a
        for i in range(m):
            words[np.uint64(i * _LANES + lane)] = np.uint16(codes[a + i] << np.uint64(1)) | np.uint16(labels[a + i])
        for i in range(m, rows + 1):
            words[np.uint64(i * _LANES + lane)] = pad


# Walks.  Sums are cut to 16 bits at once: numba would widen them, and the processor do four at a time.


@jit
def _step(word: Any) -> Any:
    """What passing a record does to the mistakes: 1 for label 1, -1 for label 0."""
    return np.int16(np.int16(np.int16(word & _ONE) << 1) - np.int16(1))


@jit
def _counts(word: Any, after: Any) -> Any:
    """All bits where the next code is another one, else none."""
    return np.int16(np.int16(-np.int16((word ^ after) >> _ONE)) >> 15)


@jit
def _either(mask: Any, a: Any, b: Any) -> Any:
    return np.int16((a & mask) | (b & ~mask))


@jit
def _zeros(words: Array, rows: int, zeros: Array) -> None:
    """Records with label 0, the mistakes of cut 0; rows that fill up have label 1."""
    for lane in range(_LANE):
        zeros[lane] = np.int16(rows)
    for i in range(rows):
        row = np.uint64(i * _LANES)
        for lane in range(_LANE):
            zeros[lane] = np.int16(zeros[lane] - np.int16(words[row + lane] & _ONE))


@jit
def _ends(words: Array, rows: int, zeros: Array, mistakes: Array, least: Array, most: Array) -> None:
    """The least and the most mistakes of all cuts."""
    for lane in range(_LANE):
        mistakes[lane], least[lane], most[lane] = zeros[lane], zeros[lane], zeros[lane]
    for i in range(rows):
        row = np.uint64(i * _LANES)
        for lane in range(_LANE):
            word, after = words[row + lane], words[row + _LANE + lane]
            now = np.int16(mistakes[lane] + _step(word))
            seen = _either(_counts(word, after), now, zeros[lane])
            mistakes[lane], least[lane], most[lane] = now, min(least[lane], seen), max(most[lane], seen)


@jit
def _entries(words: Array, rows: int, sign: object, base: Array, free: Array, mistakes: Array, entries: Array) -> None:
    """Where the contribution stands in the table, at cut 0 (row 0) and behind every record."""
    none = np.int16(0)
    for lane in range(_LANE):
        entries[lane] = np.int16(base[lane] + max(np.int16(mistakes[lane] - free[lane]), none))
    for i in range(rows):
        row = np.uint64(i * _LANES)
        for lane in range(_LANE):
            word, after = words[row + lane], words[row + _LANE + lane]
            now = np.int16(mistakes[lane] + np.int16(sign * _step(word)))
            entry = np.int16(base[lane] + max(np.int16(now - free[lane]), none))
            mistakes[lane] = now
            entries[row + _LANE + lane] = _either(_counts(word, after), entry, entries[row + lane])


@jit
def _tally(words: Array, rows: int, entries: Array, table: Array, moved: Array) -> Any:
    """Add every change to its place; returns the contributions at cut 0."""
    first = np.int64(0)
    for lane in range(_LANE):
        first += table[np.uint64(entries[lane])]
    for i in range(np.uint64(rows * _LANES)):
        change = table[np.uint64(entries[i + _LANE])] - table[np.uint64(entries[i])]
        moved[np.uint64(words[i] >> _ONE)] += change
    return first


@jit
def _batch(
    codes: Array,
    labels: Array,
    offsets: Array,
    people: Array,
    rows: int,
    signs: Array,
    mode: Bundle,
    shape: Bundle,
    out: Bundle,
    room: Bundle,
) -> None:
    """Those of ``people`` who are somebody, with at most ``rows`` records each."""
    find, emit = mode
    own, uses_minimum, offset, cap, levels = shape
    total, moved = out
    words, entries, pairs, _, (sizes, base, zeros, mistakes, least, most, free), table = room
    count = len(people)
    for lane in range(count):
        sizes[lane] = offsets[people[lane] + 1] - offsets[people[lane]]
    for lane in range(count, _LANES):
        sizes[lane] = 0  # nobody; an entry of 0 records is 0
    _load(codes, labels, offsets, people, rows, np.uint16(2 * moved.shape[1] - 1), words)
    _sort(words, pairs, _network(rows, pairs))
    _zeros(words, rows, zeros)
    if find:
        _ends(words, rows, zeros, mistakes, least, most)
        for lane in range(count):
            p, m = people[lane], np.int64(sizes[lane])
            for sign in signs:
                low = np.int64(least[lane]) if sign > 0 else m - np.int64(most[lane])
                high = np.int64(most[lane]) if sign > 0 else m - np.int64(least[lane])
                own[0, p], own[1, p] = min(own[0, p], low), max(own[1, p], high)
    if not emit:
        return
    for lane in range(count):
        p, m = people[lane], np.int64(sizes[lane])
        free[lane] = min(offset[p] + (own[0, p] if uses_minimum else np.int64(0)), _ENTRIES)
        if table[0, m * _ENTRIES + m] < 0:  # not filled yet; caps are functions of the number of records
            for v in range(len(cap)):
                for e in range(m + 1):
                    table[v, m * _ENTRIES + e] = contribution(e, 0, 0, cap[v, p], levels)
    for c in range(len(signs)):
        for lane in range(_LANES):
            base[lane] = sizes[lane] * _ENTRIES
            mistakes[lane] = zeros[lane] if signs[c] > 0 else sizes[lane] - zeros[lane]
        _entries(words, rows, np.int16(signs[c]), base, free, mistakes, entries)
        for v in range(len(cap)):
            column = v * len(signs) + c
            total[column] += _tally(words, rows, entries, table[v], moved[column])


@jit
def walk_few(
    codes: Array,
    labels: Array,
    offsets: Array,
    start: int,
    stop: int,
    signs: Array,
    find: bool,
    emit: bool,
    shape: Bundle,
    out: Bundle,
    room: Bundle,
) -> None:
    """What ``line._walk`` does for the others: ``find`` widens every user's least and most mistakes, ``emit`` tallies
    the changes of all directions of one score, then of the other.

    People wait for others of about the same number of records, so that at most half of a table is filled up.
    """
    waiting, mode = room[3], (find, emit)
    count, rows = np.zeros(len(waiting), dtype=np.int64), np.zeros(len(waiting), dtype=np.int64)
    for u in range(start, stop):
        m = offsets[u + 1] - offsets[u]
        if 0 < m <= FEW_RECORDS:
            kind = 0
            while m > 4 << kind:
                kind += 1
            waiting[kind, count[kind]] = u
            count[kind] += 1
            rows[kind] = max(rows[kind], m)
            if count[kind] == _LANES:
                _batch(codes, labels, offsets, waiting[kind], rows[kind], signs, mode, shape, out, room)
                count[kind], rows[kind] = 0, 0
    for kind in range(len(waiting)):
        if count[kind]:
            people = waiting[kind, : count[kind]]
            _batch(codes, labels, offsets, people, rows[kind], signs, mode, shape, out, room)


SIGNS = {"above": 1, "below": -1}
_RANKED = 32


# Sorting


@jit
def _sort_users(
    key: Array, tag: Array, offsets: Array, first: int, last: int, key_room: Array, tag_room: Array, stack: Array
) -> None:
    for u in range(first, last):
        sort_span(key, tag, offsets[u], offsets[u + 1], key_room, tag_room, stack)


def sort_within_users(codes: Codes, labels: Bytes, offsets: Ints) -> tuple[Codes, Bytes]:
    """Copies of a column and the labels, each user's records in increasing order of code."""
    key, tag = codes.copy(), labels.copy()

    def sort(first: int, last: int) -> None:
        longest = int(np.diff(offsets[first : last + 1]).max())
        rooms = np.empty(longest, dtype=np.uint64), np.empty(longest, dtype=np.uint8)
        _sort_users(key, tag, offsets, first, last, *rooms, np.empty(ROOM, dtype=np.int64))

    spread(sort, user_spans(offsets))
    return key, tag


# One user: the walk along the cuts; ``sign`` is 1 for above, -1 for below, ``mistakes`` those at cut 0


@jit
def _cut_ends(at: Array, tag: Array, m: int, mistakes: Any, sign: int) -> Any:
    """The least and the most mistakes of all cuts."""
    least, most = mistakes, mistakes
    for i in range(m):
        mistakes += sign * (2 * np.int64(tag[i]) - 1)
        if i + 1 == m or at[i + 1] != at[i]:
            least, most = min(least, mistakes), max(most, mistakes)
    return least, most


@jit
def _emit(at: Array, tag: Array, m: int, mistakes: Any, sign: int, free: int, values: Array, change: Array) -> Any:
    """Per record the change of the contribution when the cut passes it (0 if none); returns the contribution at cut
    0."""
    first = values[max(mistakes - free, 0)]
    value = first
    for i in range(m):
        mistakes += sign * (2 * np.int64(tag[i]) - 1)
        change[i] = 0
        if i + 1 == m or at[i + 1] != at[i]:
            now = values[max(mistakes - free, 0)]
            change[i] = now - value
            value = now
    return first


@jit
def _emit_two(
    at: Array,
    tag: Array,
    m: int,
    mistakes: Any,
    sign: int,
    free: int,
    values: Array,
    other: Array,
    change: Array,
    second: Array,
) -> Any:
    """The same for two scores in one walk; returns both contributions at cut 0."""
    e = max(mistakes - free, 0)
    first, also = values[e], other[e]
    value, beside = first, also
    for i in range(m):
        mistakes += sign * (2 * np.int64(tag[i]) - 1)
        change[i], second[i] = 0, 0
        if i + 1 == m or at[i + 1] != at[i]:
            e = max(mistakes - free, 0)
            now, then = values[e], other[e]
            change[i], second[i] = now - value, then - beside
            value, beside = now, then
    return first, also


@jit
def _cut_tally(at: Array, tag: Array, m: int, mistakes: Any, sign: int, free: int, values: Array, moved: Array) -> Any:
    """The changes of one score, added to what every place has moved by so far."""
    first = values[max(mistakes - free, 0)]
    value = first
    for i in range(m):
        mistakes += sign * (2 * np.int64(tag[i]) - 1)
        if i + 1 == m or at[i + 1] != at[i]:
            now = values[max(mistakes - free, 0)]
            moved[at[i]] += now - value
            value = now
    return first


# Many users, each sorted in a small room


@jit
def _by_rank(codes: Array, labels: Array, a: int, m: int, at: Array, tag: Array, room: Array) -> bool:
    """Sort up to ``_RANKED`` records by counting, for each, those below it: no branch to guess.  False if a code has
    more than 58 bits.

    Code, label and place make one word, so no two are equal.
    """
    wide = np.uint64(0)
    for i in range(m):
        wide |= codes[a + i]
        room[i] = (codes[a + i] << np.uint64(6)) | np.uint64(labels[a + i] << 5) | np.uint64(i)
    if wide >> np.uint64(58):
        return False
    for i in range(m):
        word, rank = room[i], np.uint64(0)
        for j in range(m):
            rank += np.uint64(room[j] < word)
        at[rank] = word >> np.uint64(6)
        tag[rank] = (word >> np.uint64(5)) & np.uint64(1)
    return True


@jit
def _net(codes: Array, labels: Array, a: int, b: int, places: int, net: Array) -> Any:
    """Ones minus zeros at every place, in place of a sort where records outnumber places; returns the zeros."""
    for p in range(places):
        net[p] = 0
    zeros = np.int64(0)
    for i in range(a, b):
        one = np.int64(labels[i])
        net[codes[i]] += 2 * one - 1
        zeros += 1 - one
    return zeros


@jit
def _net_ends(net: Array, places: int, mistakes: Any, sign: int) -> Any:
    """The least and the most mistakes of all cuts; a place without records changes nothing."""
    least, most = mistakes, mistakes
    for p in range(places):
        mistakes += sign * net[p]
        least, most = min(least, mistakes), max(most, mistakes)
    return least, most


@jit
def _net_tally(
    net: Array, places: int, mistakes: Any, sign: int, free: int, cap: int, levels: int, moved: Array
) -> Any:
    """The changes of one score, added to what every place has moved by so far."""
    first = contribution(mistakes, free, 0, cap, levels)
    value = first
    for p in range(places):
        if net[p] != 0:
            mistakes += sign * net[p]
            now = contribution(mistakes, free, 0, cap, levels)
            moved[p] += now - value
            value = now
    return first


@jit
def _cut_zeros(tag: Array, m: int) -> Any:
    zeros = np.int64(0)
    for i in range(m):
        zeros += 1 - np.int64(tag[i])
    return zeros


@jit
def _walk(
    codes: Array,
    labels: Array,
    offsets: Array,
    start: int,
    stop: int,
    signs: Array,
    find: bool,
    emit: bool,
    shape: Bundle,
    out: Bundle,
    room: Bundle,
) -> None:
    """``find``: widen every user's least and most mistakes to those of these directions; ``emit``: then write the
    events, or tally them where there are few places (people with few records are :func:`walk_few`'s).

    Columns of changes, totals and tallies are the directions of one score, then those of the other.
    """
    own, uses_minimum, offset, cap, levels = shape
    key, change, total, moved = out
    dense = moved.shape[1] > 0
    at, tag, at_room, tag_room, stack, values = room
    n_scores, directions = len(cap), len(signs)
    tabulated, filled = np.zeros(n_scores, dtype=np.int64), np.zeros(n_scores, dtype=np.int64)
    for u in range(start, stop):
        a, b = offsets[u], offsets[u + 1]
        m = b - a
        if m == 0 or (dense and m <= FEW_RECORDS):
            continue  # nobody, or one of those for ``walk_few``
        if dense and m > moved.shape[1]:
            places = moved.shape[1]
            zeros = _net(codes, labels, a, b, places, values[0])
            if find:
                for sign in signs:
                    least, most = _net_ends(values[0], places, zeros if sign > 0 else m - zeros, sign)
                    own[0, u], own[1, u] = min(own[0, u], least), max(own[1, u], most)
            free = offset[u] + (own[0, u] if uses_minimum else np.int64(0))
            for c in range(directions * n_scores if emit else 0):
                sign = signs[c % directions]
                mistakes = zeros if sign > 0 else m - zeros
                total[c] += _net_tally(
                    values[0], places, mistakes, sign, free, cap[c // directions, u], levels, moved[c]
                )
            filled[0] = 0
            continue
        if m > _RANKED or not _by_rank(codes, labels, a, m, at, tag, at_room):
            for i in range(m):
                at[i], tag[i] = codes[a + i], labels[a + i]
            sort_span(at, tag, 0, m, at_room, tag_room, stack)
        zeros = _cut_zeros(tag, m)
        if find:
            for sign in signs:
                least, most = _cut_ends(at, tag, m, zeros if sign > 0 else m - zeros, sign)
                own[0, u], own[1, u] = min(own[0, u], least), max(own[1, u], most)
        if emit:
            for v in range(n_scores):
                if cap[v, u] != tabulated[v] or filled[v] < m:
                    tabulated[v], filled[v] = cap[v, u], m
                    for e in range(m + 1):
                        values[v, e] = contribution(e, 0, 0, cap[v, u], levels)
            free = offset[u] + (own[0, u] if uses_minimum else np.int64(0))
            if not dense:
                for i in range(m):
                    key[a + i] = at[i]
            for c in range(directions):
                mistakes, d = zeros if signs[c] > 0 else m - zeros, directions + c
                if dense:
                    total[c] += _cut_tally(at, tag, m, mistakes, signs[c], free, values[0], moved[c])
                    if n_scores > 1:
                        total[d] += _cut_tally(at, tag, m, mistakes, signs[c], free, values[1], moved[d])
                elif n_scores > 1:
                    first, also = _emit_two(
                        at, tag, m, mistakes, signs[c], free, values[0], values[1], change[a:b, c], change[a:b, d]
                    )
                    total[c] += first
                    total[d] += also
                else:
                    total[c] += _emit(at, tag, m, mistakes, signs[c], free, values[0], change[a:b, c])


@frozen(slots=False)
class _Seen:
    """Users seen through one column.  ``own``, least and most mistakes, is shared by the columns of a class, which
    widen it in turn."""

    codes: Codes
    labels: Bytes
    offsets: Ints
    directions: Sequence[str]
    own: Ints
    statistic: Statistic
    shape: tuple[Ints, Ints]

    @property
    def _columns(self) -> int:
        return len(self.directions) * self.statistic.n_scores

    @property
    def _signs(self) -> Ints:
        return np.array([SIGNS[direction] for direction in self.directions], dtype=np.int64)

    @property
    def _packed(self) -> tuple[Any, ...]:
        """What the loops read of the statistic."""
        return self.own, self.statistic.uses_minimum, *self.shape, self.statistic.bound


@frozen(slots=False)
class OneColumn(_Seen):
    """Users seen through the cuts of one column."""

    def _run(self, key: Codes, change: Array, places: int = 0, *, find: bool, emit: bool) -> tuple[list[int], Ints]:
        """Totals at cut 0, and with ``places`` what every place moves the totals by, instead of events."""
        signs, shape, columns = self._signs, self._packed, self._columns
        width = places + 1 if places else 0  # one place beyond the last, where nothing happens

        def run(start: int, stop: int) -> tuple[Ints, Ints]:
            n, n_scores = int(np.diff(self.offsets[start : stop + 1]).max()), self.statistic.n_scores
            words, small = np.empty((2, n), dtype=np.uint64), np.empty((2, n), dtype=np.uint8)
            room = (
                words[0],
                small[0],
                words[1],
                small[1],
                np.empty(ROOM, dtype=np.int64),
                np.empty((n_scores, n + 1), dtype=np.int64),
            )
            total, moved = np.zeros(columns, dtype=np.int64), np.zeros((columns, width), dtype=np.int64)
            people = (self.codes, self.labels, self.offsets, start, stop, signs, find, emit, shape)
            if not places or n > FEW_RECORDS:
                _walk(*people, (key, change, total, moved), room)
            if places:
                walk_few(*people, (total, moved), few_room(n_scores))
            return total, moved

        found = spread(run, user_spans(self.offsets))
        moved = sum((part for _, part in found), start=np.zeros((columns, width), dtype=np.int64))
        return [sum(int(total[c]) for total, _ in found) for c in range(columns)], moved

    def find_ends(self, size: int) -> None:
        """Widen ``own`` to each user's least and most mistakes over all cuts of ``size`` places."""
        nothing = np.empty((0, self._columns), dtype=change_type(self.statistic.bound))
        places = size if size <= FEW_PLACES else 0
        self._run(np.empty(0, dtype=np.uint64), nothing, places, find=True, emit=False)

    def steps(self, base: int, size: int, whole: int, *, find: bool = False) -> list[Step]:
        """Two steps (cut 0; cuts 1..size) for every score and direction, with ids from ``base`` on, a score ``whole``
        ids after the other.

        ``find`` the least and most mistakes first.

        Cut ``c + 1`` is where the code ``c`` is passed; keeping ``c`` itself as the start, in a step whose offset is
        one higher, lets 2**64 codes and their 2**64 + 1 cuts fit in 64 bits.
        """
        few = size <= FEW_PLACES
        events = 0 if few else len(self.codes)
        words = np.empty(events + 1, dtype=np.uint64)
        change = np.empty((events, self._columns), dtype=change_type(self.statistic.bound))
        first, moved = self._run(words[:-1], change, size if few else 0, find=find, emit=True)
        sums = (
            [sum_places(moved[c], first[c]) for c in range(len(first))]
            if few
            else sum_events(words[:-1], change, first, size, spare=words)
        )
        out: list[Step] = []
        for c, (starts, scores) in enumerate(sums):
            which, direction = divmod(c, len(self.directions))
            cut0 = base + which * whole + direction * (size + 1)
            out.append(Step(cut0, np.zeros(1, dtype=np.uint64), 0, np.array([first[c]], dtype=np.int64)))
            out.append(Step(cut0 + 1, starts, size - 1, scores))
        return out


# Least counts over cuts for many tolerances at once.
#
# ``Exceeds(t)`` counts the users with more than ``t(m)`` mistakes; an estimate of the least error asks for the least
# count over all cuts under a dozen tables ``t``.  A user's mistakes move when the cut passes one of the user's values,
# and a move from ``a`` to ``b`` changes the counts of exactly the tables with ``min(a, b) <= t(m) < max(a, b)``.  So
# one walk and one sort of the moves serve all tables together: moves along a walk are single steps unless values
# repeat, and each touches the tables of one level.


_BITS = 21
"""A move is one word: which size, mistakes before, mistakes after."""
_ROOM = 1 << 24
"""Entries of the levels of all sizes together."""


class _Levels:
    """For each number of records and each number of mistakes, the tables that forgive just so many."""

    def __init__(self, sizes: Ints, tables: Sequence[Callable[[int], int]]) -> None:
        self.sizes, self.tables = sizes, len(tables)
        self.base = np.concatenate([[0], np.cumsum(sizes + 1)]).astype(np.int64)
        forgiven = np.array([[min(max(table(m), 0), m) for table in tables] for m in sizes.tolist()], dtype=np.int64)
        place = (self.base[:-1, None] + forgiven).ravel()
        order = np.argsort(place, kind="stable")
        self.who = np.tile(np.arange(len(tables)), len(sizes))[order]
        self.start = np.searchsorted(place[order], np.arange(self.base[-1] + 1)).astype(np.int64)


@jit
def _moves(
    codes: Array,
    tag: Array,
    offsets: Array,
    kind: Array,
    first: int,
    last: int,
    sign: int,
    base: Array,
    start: Array,
    who: Array,
    move: Array,
    total: Array,
) -> None:
    """Per record the move of its user's mistakes when the cut passes it (0 if no table minds); ``total``: counts at cut
    0."""
    for u in range(first, last):
        a, b = offsets[u], offsets[u + 1]
        if a == b:
            continue
        mistakes = np.int64(0)
        for i in range(a, b):
            mistakes += 1 - tag[i] if sign > 0 else tag[i]
        level = base[kind[u]]
        for e in range(start[level], start[level + mistakes]):
            total[who[e]] += 1
        before = mistakes
        for i in range(a, b):
            mistakes += sign * (2 * np.int64(tag[i]) - 1)
            move[i] = 0
            if i + 1 == b or codes[i + 1] != codes[i]:
                low, high = min(before, mistakes), max(before, mistakes)
                if start[level + low] < start[level + high]:
                    move[i] = (np.int64(kind[u]) << 2 * _BITS) | (before << _BITS) | mistakes
                before = mistakes


@jit
def _sweep(key: Array, move: Array, base: Array, start: Array, who: Array, total: Array, least: Array) -> None:
    """Running counts along the cuts; a count is looked at once all moves at a place are in."""
    mask = (np.int64(1) << _BITS) - 1
    opened = 0
    for i in range(len(move)):
        before, after = (move[i] >> _BITS) & mask, move[i] & mask
        level = base[move[i] >> 2 * _BITS]
        change = 1 if after > before else -1
        for e in range(start[level + min(before, after)], start[level + max(before, after)]):
            total[who[e]] += change
        if i + 1 < len(move) and key[i + 1] == key[i]:
            continue
        for k in range(opened, i + 1):
            before, after = (move[k] >> _BITS) & mask, move[k] & mask
            level = base[move[k] >> 2 * _BITS]
            for e in range(start[level + min(before, after)], start[level + max(before, after)]):
                least[who[e]] = min(least[who[e]], total[who[e]])
        opened = i + 1


def least_counts(
    pieces: Sequence[UserData], column: str, directions: Sequence[str], tables: Sequence[Callable[[int], int]]
) -> list[int] | None:
    """For each table the least number, over all cuts, of users with more than ``table(m)`` mistakes; records in order
    within users.

    ``None`` if the numbers of records are too many or too large for the levels to be listed: ask table by table then.
    """
    users = [piece for piece in pieces if len(piece.codes[column])]
    if not users or not tables:
        return [0] * len(tables)
    sizes = np.unique(np.concatenate([piece.sizes for piece in users]))
    if int(sizes[-1]) >= 1 << _BITS or len(sizes) >= 1 << _BITS - 1 or int((sizes + 1).sum()) > _ROOM:
        return None
    levels = _Levels(sizes, tables)
    found = [_least(users, column, SIGNS[direction], levels) for direction in directions]
    return np.min(found, axis=0).tolist()  # type: ignore[no-any-return]


def _least(users: Sequence[UserData], column: str, sign: int, levels: _Levels) -> Ints:
    keys = users[0].codes[column] if len(users) == 1 else np.concatenate([piece.codes[column] for piece in users])
    move, total, done = np.empty(len(keys), dtype=np.int64), np.zeros(levels.tables, dtype=np.int64), 0
    for piece in users:
        codes, tag, kind = piece.codes[column], piece.labels, np.searchsorted(levels.sizes, piece.sizes)
        here = move[done : done + len(codes)]

        def walk(
            first: int, last: int, piece: UserData = piece, tag: Any = tag, kind: Ints = kind, here: Ints = here
        ) -> Ints:
            counts = np.zeros(levels.tables, dtype=np.int64)
            codes = piece.codes[column]
            _moves(
                codes, tag, piece.offsets, kind, first, last, sign, levels.base, levels.start, levels.who, here, counts
            )
            return counts

        total += sum(spread(walk, user_spans(piece.offsets)))
        done += len(codes)
    places, moved = sorted_events(keys, move)
    least = total.copy()
    _sweep(places[1:], moved, levels.base, levels.start, levels.who, total, least)
    return least


# Single values
#
# A user's mistakes with "is v" are ``ones`` (records with label 1) for every value the user does not hold, and ``ones
# + zeros(v) - ones(v)`` for a value v the user holds; "is not v" makes ``m - mistakes``.  So a user adds one number to
# all rules of a direction and a correction to at most m of them: O(m) after the sort, on any domain.


@jit
def _ones(tag: Array, a: int, b: int) -> Any:
    ones = np.int64(0)
    for i in range(a, b):
        ones += np.int64(tag[i])
    return ones


@jit
def _value_ends(
    key: Array, tag: Array, offsets: Array, start: int, stop: int, values: Any, signs: Array, own: Array
) -> None:
    """Widen every user's least and most mistakes to those of these directions.

    ``values`` is the number of values a user must hold so that no rule is left with the mistakes of the others.
    """
    for u in range(start, stop):
        a, b = offsets[u], offsets[u + 1]
        if a == b:
            continue
        ones = _ones(tag, a, b)
        least: Any = b - a
        most: Any = np.int64(0)
        mistakes: Any = ones
        held = np.uint64(0)
        for i in range(a, b):
            mistakes += 1 - 2 * np.int64(tag[i])
            if i + 1 == b or key[i + 1] != key[i]:
                least, most = min(least, mistakes), max(most, mistakes)
                mistakes = ones
                held += np.uint64(1)
        if held < values:
            least, most = min(least, ones), max(most, ones)
        for sign in signs:
            if sign > 0:
                own[0, u], own[1, u] = min(own[0, u], least), max(own[1, u], most)
            else:
                own[0, u], own[1, u] = min(own[0, u], b - a - most), max(own[1, u], b - a - least)


@jit
def _value_events(
    key: Array,
    tag: Array,
    offsets: Array,
    start: int,
    stop: int,
    signs: Array,
    shape: Bundle,
    change: Array,
    total: Array,
) -> None:
    """Per distinct value of a user (at its last record) what it adds to the base; ``total`` sums the bases.

    Columns are the directions of one score, then those of the other.
    """
    own, uses_minimum, offset, cap, levels = shape
    for u in range(start, stop):
        a, b = offsets[u], offsets[u + 1]
        if a == b:
            continue
        ones = _ones(tag, a, b)
        minimum: Any = own[0, u] if uses_minimum else np.int64(0)
        for c in range(len(signs) * len(cap)):
            sign, most = signs[c % len(signs)], cap[c // len(signs), u]
            first = ones if sign > 0 else b - a - ones
            base = contribution(first, minimum, offset[u], most, levels)
            total[c] += base
            mistakes: Any = first
            for i in range(a, b):
                mistakes += sign * (1 - 2 * np.int64(tag[i]))
                change[i, c] = 0
                if i + 1 == b or key[i + 1] != key[i]:
                    change[i, c] = contribution(mistakes, minimum, offset[u], most, levels) - base
                    mistakes = first


@jit
def _spikes(places: Array, totals: Array, base: int, last: object, starts: Array, scores: Array) -> int:
    """From running totals of what is added at each place: that place's own score, and back to ``base`` after it."""
    n = 0
    before: Any = 0
    for i in range(len(places)):
        starts[n], scores[n] = places[i], base + totals[i] - before
        before = totals[i]
        n += 1
        if places[i] != last and (i + 1 == len(places) or places[i + 1] != places[i] + np.uint64(1)):
            starts[n], scores[n] = places[i] + np.uint64(1), base
            n += 1
    return n


def value_steps(at: int, size: int, base: int, places: Codes, totals: Ints, zero: bool) -> list[Step]:
    """``base`` for the rules of ``size`` values from id ``at`` on, and at ``places[i]`` (the first one is 0) what
    ``totals`` grows by there; with ``zero`` one more rule, of the base."""
    last = np.uint64(size - 1)
    apart = int(np.count_nonzero(np.diff(places) != 1)) + int(places[-1] != last)
    starts, scores = np.empty(len(places) + apart, dtype=np.uint64), np.empty(len(places) + apart, dtype=np.int64)
    _spikes(places, totals, base, last, starts, scores)
    steps = [Step(at, starts, size - 1, scores)]
    if zero:
        steps.append(Step(at + size, np.zeros(1, dtype=np.uint64), 0, np.array([base], dtype=np.int64)))
    return steps


@frozen(slots=False)
class OneValue(_Seen):
    """Users seen through the values of one column, as :class:`OneColumn` sees them through its cuts: "above" is "is v",
    "below" its opposite.  ``zero``: a last rule asks for a value nobody holds."""

    zero: bool = True

    def _find(self, key: Codes, tag: Bytes, size: int) -> None:
        # No user holds 2**64 values, so the last code stands in for that number.
        values, signs = np.uint64(min(size + self.zero, (1 << 64) - 1)), self._signs
        spread(
            lambda a, b: _value_ends(key, tag, self.offsets, a, b, values, signs, self.own), user_spans(self.offsets)
        )

    def find_ends(self, size: int) -> None:
        """Widen ``own`` to each user's least and most mistakes over all rules."""
        self._find(*sort_within_users(self.codes, self.labels, self.offsets), size)

    def steps(self, base: int, size: int, whole: int, *, find: bool = False) -> list[Step]:
        """The steps of every score and direction, with ids from ``base`` on, a score ``whole`` ids after the other;
        ``find`` the least and most mistakes first."""
        key, tag = sort_within_users(self.codes, self.labels, self.offsets)
        if find:
            self._find(key, tag, size)
        signs, shape, columns = self._signs, self._packed, self._columns
        change = np.empty((len(key), columns), dtype=change_type(self.statistic.bound))

        def run(a: int, b: int) -> Ints:
            total = np.zeros(columns, dtype=np.int64)
            _value_events(key, tag, self.offsets, a, b, signs, shape, change, total)
            return total

        bases = sum(spread(run, user_spans(self.offsets)), start=np.zeros(columns, dtype=np.int64)).tolist()
        out: list[Step] = []
        for c, sums in enumerate(sum_events(key, change, [0] * columns, size)):
            which, direction = divmod(c, len(self.directions))
            out += value_steps(base + which * whole + direction * (size + self.zero), size, bases[c], *sums, self.zero)
        return out


# All columns of a class


@frozen(slots=False)
class Line:
    """One column of a class: how many values it has, the id of its first rule, and whether its rules are cuts; else
    they are "is v" and "is not v", with ``zero`` also of a value that nobody holds."""

    size: int
    base: int = 0
    cuts: bool = True
    zero: bool = True


def fold_lines(
    users: UserData, lines: Mapping[str, Line], directions: Sequence[str], statistic: Statistic, whole: int
) -> Profile:
    """The profile of ``whole`` rules, each about one of these columns."""
    assert users.labels is not None
    sizes = np.diff(users.offsets)
    own = np.stack([sizes, np.zeros_like(sizes)])
    rest = (users.labels, users.offsets, directions, own, statistic, statistic.shape(sizes))
    seen = [
        OneColumn(users.codes[name], *rest) if line.cuts else OneValue(users.codes[name], *rest, line.zero)
        for name, line in lines.items()
    ]
    # A user's own best rule is the best over all columns; sorting a user again is cheaper than keeping every sorted
    # column.
    first = statistic.uses_minimum and len(lines) > 1
    for column, line in zip(seen, lines.values() if first else ()):
        column.find_ends(line.size)
    steps = [
        step
        for column, line in zip(seen, lines.values())
        for step in column.steps(line.base, line.size, whole, find=statistic.uses_minimum and not first)
    ]
    # All columns of one score come before those of the other.
    return Profile(tuple(sorted(steps, key=lambda step: step.offset)), statistic.optimism(sizes, own))


def zero_profile(lines: Iterable[Line], directions: int) -> Profile:
    """The steps of :func:`fold_lines` for one score, with all scores zero."""
    zero, start = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint64)
    steps: list[Step] = []
    for line in lines:
        for i in range(directions):
            if line.cuts:
                cut0 = line.base + i * (line.size + 1)
                steps += (Step(cut0, start, 0, zero), Step(cut0 + 1, start, line.size - 1, zero))
            else:
                steps += value_steps(line.base + i * (line.size + line.zero), line.size, 0, start, zero, line.zero)
    return Profile(tuple(steps))
