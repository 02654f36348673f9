"""The worst comparison of every rule, for classes whose users are step functions of the rule.

Rules that predict alike on all the data are one *column*; a user's mistakes are a step function over the columns with
few pieces.  Wanted is, for every column ``a``, the largest ``P(a, b) = sum over users of gain(e_u(a) - e_u(b))`` over
the other rules ``b``.  The row ``P(a, .)`` is swept over ``a``: where a user's mistakes change, the user's part of the
row changes by a step function of ``b`` with no more pieces than the user has.  The row is kept through its differences,
either as an array that is summed up for every ``a`` (few columns, many users) or in a tree of (sum, largest prefix)
where one difference costs O(log K): O(sum of p_u**2 log K) for users of p_u pieces, and memory O(records).

A column of one rule has no competitor inside it; a column of several has one, of value 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpac.data.jit import jit
from privpac.data.threads import even, spread
from privpac.rules.kernels.cuts import sort_within_users

__all__ = ["Gains", "Pieces", "gains_of", "line_pieces", "plain_scores", "point_pieces", "sweep_scores"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_LOWEST = -(1 << 62)


# What one user says about two rules


class Gains(NamedTuple):
    """``values[centre[u] + difference]`` is what user ``u`` adds to a comparison of two rules."""

    values: Ints
    centre: Ints


def gains_of(sizes: Ints, clips: Mapping[int, int], levels: int | None) -> Gains:
    """Clipped differences of mistakes, or (with ``levels``) these in steps of ``clip / levels``, nearest, halves away
    from 0.

    Every value lies in ``-min(clip, m)..min(clip, m)``, or in ``-levels..levels``: this interval is the sensitivity.
    """
    distinct, place = np.unique(sizes, return_inverse=True)
    rows, middle, used = [], np.empty(len(distinct), dtype=np.int64), 0
    for i, m in enumerate(distinct.tolist()):
        clip = clips[m]
        if levels is None:
            up = np.minimum(np.arange(m + 1), min(clip, m))
        else:
            # Beyond 2 * levels * m every difference rounds to 0, so larger clips are the same and products stay small.
            clip = min(clip, 2 * levels * m + 1)
            up = (2 * levels * np.minimum(np.arange(m + 1), clip) + clip) // (2 * clip)
        rows.append(np.concatenate([-up[:0:-1], up]))
        middle[i] = used + m
        used += 2 * m + 1
    return Gains(np.concatenate(rows) if rows else np.zeros(1, dtype=np.int64), middle[place])


# Users as step functions over columns


class Pieces(NamedTuple):
    """User ``u`` makes ``values[p]`` mistakes from column ``starts[p]`` on, for ``begins[u] <= p < begins[u + 1]``;
    users without records are left out.  ``single`` marks the columns that stand for one rule."""

    single: Bools
    begins: Ints
    starts: Ints
    values: Ints
    sizes: Ints


@jit
def _line(
    keys: Any, tags: Any, offsets: Any, users: Any, bases: Any, above: Any, begins: Any, starts: Any, values: Any
) -> int:
    """Pieces of cuts on several columns (rows of ``keys``: ranks, sorted within users); with empty ``starts`` only
    counts."""
    used, fill = 0, len(starts) > 0
    for i in range(len(users)):
        begins[i] = used
        a, b = offsets[users[i]], offsets[users[i] + 1]
        shown = -1
        for f in range(len(keys)):
            zeros = 0
            for r in range(a, b):
                zeros += 1 - tags[f, r]
            for d in range(len(above)):
                mistakes: Any = zeros
                value = mistakes if above[d] else b - a - mistakes
                if value != shown:
                    if fill:
                        starts[used], values[used] = bases[f, d], value
                    used, shown = used + 1, value
                for r in range(a, b):
                    mistakes += 2 * np.int64(tags[f, r]) - 1
                    value = mistakes if above[d] else b - a - mistakes
                    if value != shown and (r + 1 == b or keys[f, r + 1] != keys[f, r]):
                        if fill:
                            starts[used], values[used] = bases[f, d] + np.int64(keys[f, r]) + 1, value
                        used, shown = used + 1, value
    begins[len(users)] = used
    return used


def line_pieces(
    ranks: Sequence[Ints], single: Sequence[Bools], labels: NDArray[np.uint8], offsets: Ints, directions: Sequence[str]
) -> Pieces:
    """Cuts on one or several data columns: ``ranks[f]`` numbers the distinct codes of column ``f``, ``single[f]`` marks
    its cuts.

    The columns of the sweep are, per data column and direction, the cuts below, between and above its distinct codes.
    """
    users = np.flatnonzero(np.diff(offsets))
    sorted_ = [sort_within_users(rank.astype(np.uint64), labels, offsets) for rank in ranks]
    keys, tags = np.stack([key for key, _ in sorted_]), np.stack([tag for _, tag in sorted_])
    widths = np.repeat([len(marks) for marks in single], len(directions))
    bases = np.concatenate([[0], np.cumsum(widths)[:-1]]).reshape(len(ranks), len(directions))
    above = np.array([direction == "above" for direction in directions])
    none, begins = np.empty(0, dtype=np.int64), np.empty(len(users) + 1, dtype=np.int64)
    used = _line(keys, tags, offsets, users, bases, above, begins, none, none)
    starts, values = np.empty(used, dtype=np.int64), np.empty(used, dtype=np.int64)
    _line(keys, tags, offsets, users, bases, above, begins, starts, values)
    marks = np.concatenate([one for one in single for _ in directions])
    return Pieces(marks, begins, starts, values, np.diff(offsets)[users])


@jit
def _point(key: Any, tag: Any, offsets: Any, users: Any, width: int, begins: Any, starts: Any, values: Any) -> int:
    """Pieces of single values: ``ones`` everywhere but at the values the user holds."""
    used = 0
    for i in range(len(users)):
        begins[i] = used
        a, b = offsets[users[i]], offsets[users[i] + 1]
        ones = 0
        for r in range(a, b):
            ones += tag[r]
        starts[used], values[used] = 0, ones
        used += 1
        value: Any = ones
        for r in range(a, b):
            value += 1 - 2 * np.int64(tag[r])
            if r + 1 == b or key[r + 1] != key[r]:
                place = np.int64(key[r])
                if value != ones:
                    if starts[used - 1] == place:
                        used -= 1
                    starts[used], values[used] = place, value
                    used += 1
                    if place + 1 < width:
                        starts[used], values[used] = place + 1, ones
                        used += 1
                value = ones
    begins[len(users)] = used
    return used


def point_pieces(ranks: Ints, single: Bools, labels: NDArray[np.uint8], offsets: Ints) -> Pieces:
    """One rule per value: the distinct values held, in order; all other rules, if there are any, are the last
    column."""
    users = np.flatnonzero(np.diff(offsets))
    key, tag = sort_within_users(ranks.astype(np.uint64), labels, offsets)
    room = 2 * len(key) + len(users) + 2
    begins = np.empty(len(users) + 1, dtype=np.int64)
    starts, values = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    used = _point(key, tag, offsets, users, len(single), begins, starts, values)
    return Pieces(single, begins, starts[:used].copy(), values[:used].copy(), np.diff(offsets)[users])


# No clipping: the score is an excess


@jit
def _totals(begins: Any, starts: Any, values: Any, change: Any) -> None:
    for u in range(len(begins) - 1):
        before = 0
        for p in range(begins[u], begins[u + 1]):
            change[starts[p]] += values[p] - before
            before = values[p]


def plain_scores(totals: Ints, single: Bools) -> Ints:
    """``Err(a)`` minus the least ``Err`` of another rule: the score when no comparison is cut off."""
    if len(totals) == 1:
        return np.zeros(1, dtype=np.int64)
    best = int(np.argmin(totals))
    least, second = int(totals[best]), int(np.delete(totals, best).min())
    out = totals - least
    if single[best]:
        out[best] = least - second
    return np.asarray(out, dtype=np.int64)


# The sweep


@jit
def _place(begins: Any, starts: Any, column: int, current: Any) -> None:
    """The piece of every user that holds a column."""
    for u in range(len(begins) - 1):
        low, high = begins[u], begins[u + 1]
        while high - low > 1:
            middle = (low + high) // 2
            if starts[middle] <= column:
                low = middle
            else:
                high = middle
        current[u] = low


@jit
def _first_row(begins: Any, starts: Any, values: Any, gains: Any, centre: Any, current: Any, change: Any) -> None:
    """Differences of the row of the column on which ``current`` stands."""
    for u in range(len(begins) - 1):
        at, before = centre[u] + values[current[u]], 0
        for p in range(begins[u], begins[u + 1]):
            now = gains[at - values[p]]
            change[starts[p]] += now - before
            before = now


@jit
def _enter(
    piece: int,
    owner: Any,
    begins: Any,
    starts: Any,
    values: Any,
    gains: Any,
    centre: Any,
    current: Any,
    places: Any,
    steps: Any,
) -> int:
    """The sweep enters a piece: where its user's row steps differently now, and by how much; the number of places."""
    u, found, before = owner[piece], 0, 0
    old, new = centre[u] + values[current[u]], centre[u] + values[piece]
    current[u] = piece
    for p in range(begins[u], begins[u + 1]):
        now = gains[new - values[p]] - gains[old - values[p]]
        if now != before:
            places[found], steps[found] = starts[p], now - before
            found, before = found + 1, now
    return found


@jit
def _rows(first: int, last: int, pieces: Any, events: Any, gains: Any, centre: Any, row: Any, out: Any) -> None:
    """Columns ``first..last - 1``, the row summed up for each."""
    single, begins, starts, values = pieces
    owner, order, edges = events
    width = len(single)
    current = np.empty(len(begins) - 1, dtype=np.int64)
    change = np.zeros(width, dtype=np.int64)
    places, steps = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    _place(begins, starts, first, current)
    _first_row(begins, starts, values, gains, centre, current, change)
    for a in range(first, last):
        if a > first:
            for k in range(edges[a], edges[a + 1]):
                for i in range(_enter(order[k], owner, begins, starts, values, gains, centre, current, places, steps)):
                    change[places[i]] += steps[i]
        running = 0
        for b in range(width):
            running += change[b]
            change[b] = 0
            row[b] += running
        top = _LOWEST if single[a] else 0
        for b in range(a):
            top = max(top, row[b])
        for b in range(a + 1, width):
            top = max(top, row[b])
        out[a] = top


@jit
def _add(tree: Any, leaves: int, place: int, change: int) -> None:
    p = leaves + place
    tree[p, 0] += change
    tree[p, 1] += change
    p >>= 1
    while p > 0:
        tree[p, 0] += change
        tree[p, 1] = max(tree[2 * p, 1], tree[2 * p, 0] + tree[2 * p + 1, 1])
        p >>= 1


@jit
def _top_without(tree: Any, leaves: int, place: int) -> int:
    """The largest prefix sum, the one that ends at ``place`` left out."""
    p, best = leaves + place, _LOWEST
    while p > 1:
        if p & 1:
            best = max(tree[p - 1, 1], tree[p - 1, 0] + best)
        else:
            best = max(best, tree[p, 0] + tree[p + 1, 1])
        p >>= 1
    return best


@jit
def _tree(first: int, last: int, pieces: Any, events: Any, gains: Any, centre: Any, out: Any) -> None:
    """Columns ``first..last - 1``, the row kept in a tree of (sum, largest prefix)."""
    single, begins, starts, values = pieces
    owner, order, edges = events
    width = len(single)
    current = np.empty(len(begins) - 1, dtype=np.int64)
    leaves = 1
    while leaves < width:
        leaves *= 2
    tree = np.zeros((2 * leaves, 2), dtype=np.int64)
    change = np.zeros(width, dtype=np.int64)
    places, steps = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    _place(begins, starts, first, current)
    _first_row(begins, starts, values, gains, centre, current, change)
    tree[leaves + width :, 1] = _LOWEST
    for b in range(width):
        tree[leaves + b, 0] = change[b]
        tree[leaves + b, 1] = change[b]
    for p in range(leaves - 1, 0, -1):
        tree[p, 0] = tree[2 * p, 0] + tree[2 * p + 1, 0]
        tree[p, 1] = max(tree[2 * p, 1], tree[2 * p, 0] + tree[2 * p + 1, 1])
    for a in range(first, last):
        if a > first:
            for k in range(edges[a], edges[a + 1]):
                for i in range(_enter(order[k], owner, begins, starts, values, gains, centre, current, places, steps)):
                    _add(tree, leaves, places[i], steps[i])
        # The row is 0 at a itself, which counts as a competitor only inside a column of several rules.
        out[a] = _top_without(tree, leaves, a) if single[a] else tree[1, 1]


def sweep_scores(pieces: Pieces, gains: Gains, *, clipped: bool, method: str | None = None) -> Ints:
    """The score of every column; ``clipped=False`` if no difference is ever cut off.

    ``method`` ("row", "tree") overrides the choice between the two forms of the row; it does not change the result.
    """
    width = len(pieces.single)
    if not clipped:
        change = np.zeros(width, dtype=np.int64)
        _totals(pieces.begins, pieces.starts, pieces.values, change)
        return plain_scores(np.cumsum(change), pieces.single)
    if width == 1:
        return np.zeros(1, dtype=np.int64)
    counts = np.diff(pieces.begins)
    if method is None:
        method = "row" if 2 * width * width <= int((counts * counts).sum()) else "tree"
    order = np.argsort(pieces.starts, kind="stable")
    edges = np.searchsorted(pieces.starts[order], np.arange(width + 1))
    events = np.repeat(np.arange(len(counts)), counts), order, edges
    shape = pieces.single, pieces.begins, pieces.starts, pieces.values
    out = np.empty(width, dtype=np.int64)
    small = len(counts) * int(np.abs(gains.values).max()) < 1 << 31

    def rows(first: int, last: int) -> None:
        if method == "row":
            row = np.zeros(width, dtype=np.int32 if small else np.int64)
            _rows(first, last, shape, events, gains.values, gains.centre, row, out)
        else:
            _tree(first, last, shape, events, gains.values, gains.centre, out)

    spread(rows, even(width, 1 << 8))
    return out
