"""Least counts over cuts for many tolerances at once.

``Exceeds(t)`` counts the users with more than ``t(m)`` mistakes; an estimate of the least error asks for the least
count over all cuts under a dozen tables ``t``.  A user's mistakes move when the cut passes one of the user's values,
and a move from ``a`` to ``b`` changes the counts of exactly the tables with ``min(a, b) <= t(m) < max(a, b)``.  So one
walk and one sort of the moves serve all tables together: moves along a walk are single steps unless values repeat, and
each touches the tables of one level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.kernels.events import sorted_events
from privpac.concepts.kernels.line import SIGNS
from privpac.concepts.kernels.spread import spread, user_spans
from privpac.data import UserData
from privpac.data.jit import jit

__all__ = ["least_counts"]

Ints = NDArray[np.int64]

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
    codes: Any,
    tag: Any,
    offsets: Any,
    kind: Any,
    first: int,
    last: int,
    sign: int,
    base: Any,
    start: Any,
    who: Any,
    move: Any,
    total: Any,
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
def _sweep(key: Any, move: Any, base: Any, start: Any, who: Any, total: Any, least: Any) -> None:
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
