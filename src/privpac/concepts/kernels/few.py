"""A cut on a column of few places, for people with few records: sixty-four at a time.

The records of a person are a column of a small table, largest last, in words of 16 bits (twice the place, plus the
label).  One row after the other is what all of them have at one rank, so a processor compares, exchanges and counts
sixteen people in one instruction; what is left to do one by one is to add a change to the place that it belongs to.

* *Sort.*  Batcher's merge exchange (Knuth, volume 3, 5.2.2M): pairs of rows that depend on their number only.
* *Walk.*  Passing a record changes the mistakes of "1 iff code >= u" by one; they count where the next code differs.
  The opposite direction makes ``m - mistakes``.
* *Contributions* are read from a table by ``m`` and by the mistakes beyond those that are free; a row in which nothing
  counts keeps the entry of the row before, and so adds 0.

Columns with fewer records are filled up with a word beyond the last place, which sorts last and never counts; so there
is one place more than the domain has, to which nothing is ever added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privpac.concepts.kernels.contribution import contribution
from privpac.data.jit import jit

__all__ = ["FEW_RECORDS", "few_room", "walk_few"]

FEW_RECORDS = 64
_LANES = 64
"""People at a time: several registers of them, so that what a loop asks before it begins is asked seldom."""
_LANE = np.uint64(_LANES)
_ENTRIES = FEW_RECORDS + 1
"""Of the table of contributions, for every number of records: mistakes 0..FEW_RECORDS."""
_ONE = np.uint16(1)
_PAIRS = 543
"""Exchanges that sort 64 rows."""


def few_room(voices: int) -> tuple[Any, ...]:
    """Room for :func:`walk_few`: words, entries, pairs of rows, people who wait, small numbers of each, the table."""
    rows = (FEW_RECORDS + 1) * _LANES
    table = np.full((voices, _ENTRIES * _ENTRIES), -1, np.int64)
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
def _network(rows: int, pairs: Any) -> int:
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
def _sort(words: Any, pairs: Any, count: int) -> None:
    for c in range(count):
        a, b = pairs[c, 0], pairs[c, 1]
        for lane in range(_LANE):
            x, y = words[a + lane], words[b + lane]
            words[a + lane], words[b + lane] = min(x, y), max(x, y)


@jit
def _load(codes: Any, labels: Any, offsets: Any, people: Any, rows: int, pad: Any, words: Any) -> None:
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
def _zeros(words: Any, rows: int, zeros: Any) -> None:
    """Records with label 0, the mistakes of cut 0; rows that fill up have label 1."""
    for lane in range(_LANE):
        zeros[lane] = np.int16(rows)
    for i in range(rows):
        row = np.uint64(i * _LANES)
        for lane in range(_LANE):
            zeros[lane] = np.int16(zeros[lane] - np.int16(words[row + lane] & _ONE))


@jit
def _ends(words: Any, rows: int, zeros: Any, mistakes: Any, least: Any, most: Any) -> None:
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
def _entries(words: Any, rows: int, sign: Any, base: Any, free: Any, mistakes: Any, entries: Any) -> None:
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
def _tally(words: Any, rows: int, entries: Any, table: Any, moved: Any) -> Any:
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
    codes: Any,
    labels: Any,
    offsets: Any,
    people: Any,
    rows: int,
    signs: Any,
    mode: Any,
    shape: Any,
    out: Any,
    room: Any,
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
    codes: Any,
    labels: Any,
    offsets: Any,
    start: int,
    stop: int,
    signs: Any,
    find: bool,
    emit: bool,
    shape: Any,
    out: Any,
    room: Any,
) -> None:
    """What ``line._walk`` does for the others: ``find`` widens every user's least and most mistakes, ``emit`` tallies
    the changes of all directions of one voice, then of the other.

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
