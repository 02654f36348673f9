"""Sum the changes that happen at the same place, places in order.

Events ``(place, change)`` come in any order, with repeats; wanted is the running total as a step function of the place.
Few possible places: one pass over an array of all of them.  Many: a radix sort whose digits are taken from the range
really present, first into buckets (all threads), then inside each bucket (:func:`sort_span`).  Every level divides the
range of a bucket by at least 4, and by 512 while it is large, so clustered places (floats close together, many repeats)
cost a few passes more and never a quadratic one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from privpac.arrays import Array, Codes, Ints
from privpac.data.loops import even, jit, spread

Loads = Array

_RUN, _FILL, _BITS = 24, 2, 9
_TOP_BITS = 11
_SMALL = 1 << 15
FEW_PLACES = _SMALL - 1
"""A place, one more, and a label fit 16 bits."""
_WORDS = {4: np.int32, 8: np.int64}
_STACK = 2 * 32 * (1 << _BITS)
ROOM = _STACK + (1 << _BITS) + 1
"""Work space of :func:`sort_span`: two ends for every bucket on each of at most 32 levels, and the counts of one
level."""


@jit
def _shift(span: Any, bits: int) -> Any:
    """How far to shift down a range so that it fits ``bits`` bits, at least 1."""
    shift = np.uint64(0)
    while (span >> shift) >> np.uint64(bits):
        shift += np.uint64(1)
    return shift


@jit
def _insert(key: Array, load: Array, first: int, i: int, k: object, t: object) -> None:
    """Put an entry into the sorted ``key[first:i]``."""
    j = i - 1
    while j >= first and key[j] > k:
        key[j + 1] = key[j]
        load[j + 1] = load[j]
        j -= 1
    key[j + 1] = k
    load[j + 1] = t


@jit
def _is_sorted(key: Array, a: int, b: int) -> bool:
    i = a + 1
    while i < b and key[i] >= key[i - 1]:
        i += 1
    return i >= b


@jit
def sort_span(key: Array, load: Array, a: int, b: int, key_room: Array, load_room: Array, stack: Array) -> None:
    """Sort ``key[a:b]`` (uint64) with ``load`` alongside; the rooms hold ``b - a`` entries, ``stack`` holds
    ``ROOM``."""
    if b - a <= _RUN:
        for i in range(a + 1, b):
            _insert(key, load, a, i, key[i], load[i])
        return
    count = stack[_STACK:]
    stack[0], stack[1] = a, b
    top = 1
    while top > 0:
        top -= 1
        start, stop = stack[2 * top], stack[2 * top + 1]
        if _is_sorted(key, start, stop):
            continue
        low, high = key[start], key[start]
        for i in range(start + 1, stop):
            low, high = min(low, key[i]), max(high, key[i])
        bits = 2
        while bits < _BITS and (stop - start) >> (bits + _FILL):
            bits += 1
        shift = _shift(high - low, bits)
        buckets = np.int64((high - low) >> shift) + 1
        count[: buckets + 1] = 0
        for i in range(start, stop):
            count[np.int64((key[i] - low) >> shift) + 1] += 1
        for d in range(buckets):
            count[d + 1] += count[d]
        for i in range(start, stop):
            digit = np.int64((key[i] - low) >> shift)
            key_room[count[digit]], load_room[count[digit]] = key[i], load[i]
            count[digit] += 1
        # count[d] is now the end of bucket d: small ones are sorted on their way back, the others later.
        before = np.int64(0)
        for d in range(buckets):
            first, small = start + before, count[d] - before <= _RUN
            for i in range(before, count[d]):
                if small:
                    _insert(key, load, first, start + i, key_room[i], load_room[i])
                else:
                    key[start + i], load[start + i] = key_room[i], load_room[i]
            if not small:
                stack[2 * top], stack[2 * top + 1] = first, start + count[d]
                top += 1
            before = count[d]


# Many places: buckets by the leading bits of the range, then a sort inside each


@jit
def _range(at: Array, change: Array, a: int, b: int, out: Array) -> None:
    low, high, n = ~np.uint64(0), np.uint64(0), np.uint64(0)
    for i in range(a, b):
        if change[i] != 0:
            low, high = min(low, at[i]), max(high, at[i])
            n += np.uint64(1)
    out[0], out[1], out[2] = low, high, n


@jit
def _count(at: Array, change: Array, a: int, b: int, low: object, shift: object, count: Array) -> None:
    for i in range(a, b):
        if change[i] != 0:
            count[np.int64((at[i] - low) >> shift)] += 1


@jit
def _scatter(
    at: Array, change: Array, a: int, b: int, low: object, shift: object, slot: Array, key: Array, load: Array
) -> None:
    for i in range(a, b):
        if change[i] != 0:
            d = np.int64((at[i] - low) >> shift)
            key[slot[d]], load[slot[d]] = at[i], change[i]
            slot[d] += 1


@jit
def _sort_buckets(
    key: Array, load: Array, ends: Array, a: int, b: int, key_room: Array, load_room: Array, stack: Array
) -> None:
    for d in range(a, b):
        sort_span(key, load, ends[d], ends[d + 1], key_room, load_room, stack)


def sorted_events(at: Codes, load: Loads) -> tuple[Codes, Loads]:
    """The events that change something, in order of place; their places begin at entry 1."""
    parts = [(i, a, b) for i, (a, b) in enumerate(even(len(at), _SMALL))]
    ranges = np.empty((len(parts), 3), dtype=np.uint64)
    spread(lambda i, a, b: _range(at, load, a, b, ranges[i]), parts)
    low, high, n = ranges[:, 0].min(), ranges[:, 1].max(), int(ranges[:, 2].sum())
    starts, moved = np.empty(n + 1, dtype=np.uint64), np.empty(n, dtype=load.dtype)
    key = starts[1:]
    if n == 0:
        return starts, moved
    shift = _shift(high - low, _TOP_BITS if n > _SMALL else 1)
    buckets = int((high - low) >> shift) + 1
    count = np.zeros((len(parts), buckets), dtype=np.int64)
    spread(lambda i, a, b: _count(at, load, a, b, low, shift, count[i]), parts)
    # Slots are numbered by bucket, then by thread, so that every thread owns its own.
    slot = np.concatenate([[0], np.cumsum(count.T.ravel())])
    ends, slots = slot[:: len(parts)].copy(), slot[:-1].reshape(buckets, len(parts)).T.copy()
    spread(lambda i, a, b: _scatter(at, load, a, b, low, shift, slots[i], key, moved), parts)

    def sort(a: int, b: int) -> None:
        longest = int(np.diff(ends[a : b + 1]).max(initial=0))
        rooms = np.empty(longest, dtype=np.uint64), np.empty(longest, dtype=load.dtype)
        _sort_buckets(key, moved, ends, a, b, *rooms, np.empty(ROOM, dtype=np.int64))

    shares = [0, *(int(np.searchsorted(ends, b)) for _, b in even(n, _SMALL)[:-1]), buckets]
    spread(sort, [(a, b) for a, b in pairwise(shares) if a < b])
    return starts, moved


# Running totals, written over the places: entry 0 is free, and no entry is written before it was read


@jit
def _totals(key: Array, change: Array, first: int, total: Array) -> int:
    """Turn events at ``key[1:]`` into starts (0, then every place where the total moves) and totals; returns their
    number."""
    n = 0
    if len(change) == 0 or key[1] != 0:
        key[0], total[0] = 0, first
        n = 1
    running, shown = first, first
    for i in range(len(change)):
        running += change[i]
        if (i + 1 == len(change) or key[i + 2] != key[i + 1]) and (running != shown or n == 0):
            key[n], total[n] = key[i + 1], running
            shown = running
            n += 1
    return n


@jit
def _totals_of_all(key: Array, change: Array, first: Array, totals: Array) -> int:
    """The same for several columns at once, with the places where any of them moves."""
    n, columns = 0, change.shape[1]
    running, shown = first.copy(), first.copy()
    if len(change) == 0 or key[1] != 0:
        key[0] = 0
        for c in range(columns):
            totals[c, 0] = first[c]
        n = 1
    for i in range(len(change)):
        for c in range(columns):
            running[c] += change[i, c]
        if i + 1 == len(change) or key[i + 2] != key[i + 1]:
            moves = n == 0
            for c in range(columns):
                moves = moves or running[c] != shown[c]
            if moves:
                key[n] = key[i + 1]
                for c in range(columns):
                    totals[c, n] = shown[c] = running[c]
                n += 1
    return n


@jit
def _totals_of_two(key: Array, change: Array, first: int, second: int, one: Array, two: Array) -> int:
    """The same for two columns."""
    n = 0
    if len(change) == 0 or key[1] != 0:
        key[0], one[0], two[0] = 0, first, second
        n = 1
    running, other = first, second
    shown, also = first, second
    for i in range(len(change)):
        running += change[i, 0]
        other += change[i, 1]
        if (i + 1 == len(change) or key[i + 2] != key[i + 1]) and (running != shown or other != also or n == 0):
            key[n], one[n], two[n] = key[i + 1], running, other
            shown, also = running, other
            n += 1
    return n


# Few places: an array of all of them


@jit
def _accumulate(at: Array, change: Array, out: Array) -> None:
    for i in range(len(at)):
        out[at[i]] += change[i]


def _dense(at: Codes, change: Loads, first: int, places: int) -> tuple[Codes, Ints]:
    moved = np.zeros(places, dtype=np.int64)
    _accumulate(at, change, moved)
    return sum_places(moved, first)


def sum_places(moved: Ints, first: int) -> tuple[Codes, Ints]:
    """The step function of changes that are listed for every place."""
    place = np.flatnonzero(moved)
    if moved[0] == 0:
        place = np.concatenate([np.zeros(1, dtype=np.intp), place])
    return place.astype(np.uint64), first + np.cumsum(moved[place])


def sum_events(
    at: Codes, change: Loads, first: Sequence[int], places: int, *, spare: Codes | None = None
) -> list[tuple[Codes, Ints]]:
    """For each column of ``change`` a step function: increasing starts, the first one 0, and the total from each on.

    ``at[i] < places`` (at most 2**64), ``change`` has one row per event, ``first`` the total before all events, one per
    column.  Every place where a total moves is a start; two columns may share their starts.  ``spare`` is memory for
    ``len(at) + 1`` words that may be overwritten once ``at`` has been read, even that of ``at`` itself.
    """
    columns = range(change.shape[1])
    if places <= max(_SMALL, 2 * len(at)):
        return [_dense(at, change[:, c], first[c], places) for c in columns]
    if len(columns) > 1 and (word_type := _WORDS.get(change.dtype.itemsize * len(columns))) is not None:
        # All changes of an event travel as one word: one sort serves all columns.
        key, word = sorted_events(at, np.ascontiguousarray(change).view(word_type)[:, 0])
        moved = word.view(change.dtype).reshape(-1, len(columns))
        if len(columns) == 2:
            totals = [_room(spare, len(key)), np.empty(len(key), dtype=np.int64)]
            n = _totals_of_two(key, moved, first[0], first[1], *totals)
        else:
            rows = np.empty((len(columns), len(key)), dtype=np.int64)
            n, totals = _totals_of_all(key, moved, np.array(first, dtype=np.int64), rows), [*rows]
        place, *totals = _used([key, *totals], n, len(at))
        return [(place, total) for total in totals]
    out = []
    for c in columns:
        key, moved = sorted_events(at, np.ascontiguousarray(change[:, c]))
        total = _room(spare if c == columns[-1] else None, len(key))
        place, total = _used([key, total], _totals(key, moved, first[c], total), len(at))
        out.append((place, total))
    return out


def _room(spare: Codes | None, n: int) -> Ints:
    return np.empty(n, dtype=np.int64) if spare is None else spare[:n].view(np.int64)


def _used(arrays: Sequence[Array], n: int, whole: int) -> list[Array]:
    """The first ``n`` entries.  A view keeps the memory of all events alive, which is fine if most of it is used."""
    return [array[:n] if 4 * n > 3 * whole else array[:n].copy() for array in arrays]
