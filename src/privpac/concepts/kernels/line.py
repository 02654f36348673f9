"""Kernels for rules on a line: a cut on one column.

With a user's records sorted by code, the mistakes of "1 iff code >= u" are a step function of the cut ``u``: all
records with label 0 are wrong at ``u = 0``, and passing a record's code adds 1 for label 1 and takes 1 away for label
0.  The opposite direction makes ``m - mistakes``.  One walk finds the user's own least and most mistakes, a second one
writes an event wherever the user's contribution changes: O(m) per user after the sort, on any domain, and nothing but
the events is kept. Statistics of two voices write both changes of an event in the same walk, and one sort of the events
serves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.kernels.contribution import change_type, contribution
from privpac.concepts.kernels.events import FEW_PLACES, ROOM, sort_span, sum_events, sum_places
from privpac.concepts.kernels.few import FEW_RECORDS, few_room, walk_few
from privpac.concepts.kernels.spread import spread, user_spans
from privpac.concepts.profile import Step
from privpac.concepts.statistics import Statistic
from privpac.data.jit import jit

__all__ = ["OneColumn", "sort_within_users"]

Codes = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
SIGNS = {"above": 1, "below": -1}
_RANKED = 32


# Sorting


@jit
def _sort_users(
    key: Any, tag: Any, offsets: Any, first: int, last: int, key_room: Any, tag_room: Any, stack: Any
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
def _ends(at: Any, tag: Any, m: int, mistakes: Any, sign: int) -> Any:
    """The least and the most mistakes of all cuts."""
    least, most = mistakes, mistakes
    for i in range(m):
        mistakes += sign * (2 * np.int64(tag[i]) - 1)
        if i + 1 == m or at[i + 1] != at[i]:
            least, most = min(least, mistakes), max(most, mistakes)
    return least, most


@jit
def _emit(at: Any, tag: Any, m: int, mistakes: Any, sign: int, free: int, values: Any, change: Any) -> Any:
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
    at: Any, tag: Any, m: int, mistakes: Any, sign: int, free: int, values: Any, other: Any, change: Any, second: Any
) -> Any:
    """The same for two voices in one walk; returns both contributions at cut 0."""
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
def _tally(at: Any, tag: Any, m: int, mistakes: Any, sign: int, free: int, values: Any, moved: Any) -> Any:
    """The changes of one voice, added to what every place has moved by so far."""
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
def _by_rank(codes: Any, labels: Any, a: int, m: int, at: Any, tag: Any, room: Any) -> bool:
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
def _net(codes: Any, labels: Any, a: int, b: int, places: int, net: Any) -> Any:
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
def _net_ends(net: Any, places: int, mistakes: Any, sign: int) -> Any:
    """The least and the most mistakes of all cuts; a place without records changes nothing."""
    least, most = mistakes, mistakes
    for p in range(places):
        mistakes += sign * net[p]
        least, most = min(least, mistakes), max(most, mistakes)
    return least, most


@jit
def _net_tally(net: Any, places: int, mistakes: Any, sign: int, free: int, cap: int, levels: int, moved: Any) -> Any:
    """The changes of one voice, added to what every place has moved by so far."""
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
def _zeros(tag: Any, m: int) -> Any:
    zeros = np.int64(0)
    for i in range(m):
        zeros += 1 - np.int64(tag[i])
    return zeros


@jit
def _walk(
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
    """``find``: widen every user's least and most mistakes to those of these directions; ``emit``: then write the
    events, or tally them where there are few places (people with few records are :func:`walk_few`'s).

    Columns of changes, totals and tallies are the directions of one voice, then those of the other.
    """
    own, uses_minimum, offset, cap, levels = shape
    key, change, total, moved = out
    dense = moved.shape[1] > 0
    at, tag, at_room, tag_room, stack, values = room
    voices, directions = len(cap), len(signs)
    tabulated, filled = np.zeros(voices, dtype=np.int64), np.zeros(voices, dtype=np.int64)
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
            for c in range(directions * voices if emit else 0):
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
        zeros = _zeros(tag, m)
        if find:
            for sign in signs:
                least, most = _ends(at, tag, m, zeros if sign > 0 else m - zeros, sign)
                own[0, u], own[1, u] = min(own[0, u], least), max(own[1, u], most)
        if emit:
            for v in range(voices):
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
                    total[c] += _tally(at, tag, m, mistakes, signs[c], free, values[0], moved[c])
                    if voices > 1:
                        total[d] += _tally(at, tag, m, mistakes, signs[c], free, values[1], moved[d])
                elif voices > 1:
                    first, also = _emit_two(
                        at, tag, m, mistakes, signs[c], free, values[0], values[1], change[a:b, c], change[a:b, d]
                    )
                    total[c] += first
                    total[d] += also
                else:
                    total[c] += _emit(at, tag, m, mistakes, signs[c], free, values[0], change[a:b, c])


@dataclass(frozen=True)
class OneColumn:
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
        return len(self.directions) * self.statistic.voices

    def _run(
        self, key: Codes, change: NDArray[Any], places: int = 0, *, find: bool, emit: bool
    ) -> tuple[list[int], Ints]:
        """Totals at cut 0, and with ``places`` what every place moves the totals by, instead of events."""
        signs = np.array([SIGNS[direction] for direction in self.directions], dtype=np.int64)
        shape, columns = (self.own, self.statistic.uses_minimum, *self.shape, self.statistic.bound), self._columns
        width = places + 1 if places else 0  # one place beyond the last, where nothing happens

        def run(start: int, stop: int) -> tuple[Ints, Ints]:
            n, voices = int(np.diff(self.offsets[start : stop + 1]).max()), self.statistic.voices
            words, small = np.empty((2, n), dtype=np.uint64), np.empty((2, n), dtype=np.uint8)
            room = (
                words[0],
                small[0],
                words[1],
                small[1],
                np.empty(ROOM, dtype=np.int64),
                np.empty((voices, n + 1), dtype=np.int64),
            )
            total, moved = np.zeros(columns, dtype=np.int64), np.zeros((columns, width), dtype=np.int64)
            people = (self.codes, self.labels, self.offsets, start, stop, signs, find, emit, shape)
            if not places or n > FEW_RECORDS:
                _walk(*people, (key, change, total, moved), room)
            if places:
                walk_few(*people, (total, moved), few_room(voices))
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
        """Two steps (cut 0; cuts 1..size) for every voice and direction, with ids from ``base`` on, a voice ``whole``
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
            voice, direction = divmod(c, len(self.directions))
            cut0 = base + voice * whole + direction * (size + 1)
            out.append(Step(cut0, np.zeros(1, dtype=np.uint64), 0, np.array([first[c]], dtype=np.int64)))
            out.append(Step(cut0 + 1, starts, size - 1, scores))
        return out
