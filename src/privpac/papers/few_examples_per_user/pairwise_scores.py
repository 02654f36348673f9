"""Users' records into the pairwise score of every rule.

Comparisons of two rules are clipped per user, and their maximum does not add up over parts of the users, so the records
of the columns read are brought together first (O(records)); then cuts and points are swept and other classes tabulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from privpac.arrays import Array, Bools, Bytes, Ints, Words
from privpac.data.grouping import ranked
from privpac.data.loops import even, jit, spread, workers
from privpac.rules.base import ConceptClass
from privpac.rules.kernels.cuts import sort_within_users
from privpac.rules.kernels.grouped import Groups, group_equal_users
from privpac.rules.profile import Profile, Step, dense_profile, read_table
from privpac.rules.profile import Table as SizeTable

if TYPE_CHECKING:
    from privpac.data import Domain

_Codes = Mapping[str, Words]

_LOWEST = -(1 << 62)


# The worst comparison of every rule, for classes whose users are step functions of the rule.
#
# Rules that predict alike on all the data are one *column*; a user's mistakes are a step function over the columns with
# few pieces.  Wanted is, for every column ``a``, the largest ``P(a, b) = sum over users of gain(e_u(a) - e_u(b))`` over
# the other rules ``b``.  The row ``P(a, .)`` is swept over ``a``: where a user's mistakes change, the user's part of
# the row changes by a step function of ``b`` with no more pieces than the user has.  The row is kept through its
# differences, either as an array that is summed up for every ``a`` (few columns, many users) or in a tree of (sum,
# largest prefix) where one difference costs O(log K): O(sum of p_u**2 log K) for users of p_u pieces, and memory
# O(records).
#
# A column of one rule has no competitor inside it; a column of several has one, of value 0.


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
    keys: Array,
    tags: Array,
    offsets: Array,
    users: Array,
    bases: Array,
    above: Array,
    begins: Array,
    starts: Array,
    values: Array,
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
    ranks: Sequence[Ints], single: Sequence[Bools], labels: Bytes, offsets: Ints, directions: Sequence[str]
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
def _point(
    key: Array, tag: Array, offsets: Array, users: Array, width: int, begins: Array, starts: Array, values: Array
) -> int:
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


def point_pieces(ranks: Ints, single: Bools, labels: Bytes, offsets: Ints) -> Pieces:
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
def _totals(begins: Array, starts: Array, values: Array, change: Array) -> None:
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
def _place(begins: Array, starts: Array, column: int, current: Array) -> None:
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
def _first_row(
    begins: Array, starts: Array, values: Array, gains: Array, centre: Array, current: Array, change: Array
) -> None:
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
    owner: Array,
    begins: Array,
    starts: Array,
    values: Array,
    gains: Array,
    centre: Array,
    current: Array,
    places: Array,
    steps: Array,
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
def _rows(
    first: int,
    last: int,
    pieces: tuple[Array, ...],
    events: tuple[Array, ...],
    gains: Array,
    centre: Array,
    row: Array,
    out: Array,
) -> None:
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
def _add(tree: Array, leaves: int, place: int, change: int) -> None:
    p = leaves + place
    tree[p, 0] += change
    tree[p, 1] += change
    p >>= 1
    while p > 0:
        tree[p, 0] += change
        tree[p, 1] = max(tree[2 * p, 1], tree[2 * p, 0] + tree[2 * p + 1, 1])
        p >>= 1


@jit
def _top_without(tree: Array, leaves: int, place: int) -> int:
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
def _tree(
    first: int, last: int, pieces: tuple[Array, ...], events: tuple[Array, ...], gains: Array, centre: Array, out: Array
) -> None:
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


# The worst comparison of every rule, for classes given by a table of predictions.
#
# Points on which all rules say the same as on another point are one point, rules that say the same on all points of the
# data are one *column*, and users with equal signed counts are one user with a multiplicity.  ``P(a, b) = sum over
# users of gain(e_u(a) - e_u(b))`` is then added up tile by tile (some columns ``a`` by some columns ``b``); a user's
# mistakes on a tile are computed on the fly, so nothing of size users by rules is stored.  ``P(b, a) = -P(a, b)``
# halves the work. No rule is left out because it looks bad: a support that depends on data would not be private.


MAX_PAIRED_RULES = 1 << 13
"""The most rules a class without a sweep may have: their pairs are compared one by one."""

_CELLS = 1 << 26
_LEFT, _RIGHT = 256, 512


class Table:
    """Distinct users on distinct points, and what the distinct rules say there (points by columns)."""

    def __init__(self, said: Bytes, column: Ints, groups: Groups) -> None:
        self.said, self.column, self.groups = said, column, groups
        self.single = np.bincount(column, minlength=said.shape[1]) == 1

    def profile(self, scores: Ints) -> Profile:
        """Scores of columns as scores of rules."""
        return dense_profile(scores[self.column])


def _distinct_rows(table: Bytes) -> tuple[Array, Ints]:
    """The distinct rows of a 0/1 table, packed, and the place of every row among them."""
    packed = np.ascontiguousarray(np.packbits(table, axis=1))
    rows, place = np.unique(packed.view(np.dtype((np.void, packed.shape[1])))[:, 0], return_inverse=True)
    return rows, place.astype(np.int64)


def _points(codes: _Codes) -> tuple[_Codes, Ints]:
    """The distinct records, and the place of every record among them."""
    n = len(next(iter(codes.values())))
    place = np.zeros(n, dtype=np.int64)
    for column in codes.values():
        distinct, rank = ranked(column)
        # Ranked again after every column, so that the numbers stay below the square of the number of records.
        _, place = ranked(place * len(distinct) + rank)
    first = np.full(int(place.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[place[::-1]] = np.arange(n)[::-1]
    return {name: column[first] for name, column in codes.items()}, place.astype(np.int64)


def table_of(concept: ConceptClass, codes: _Codes, labels: Bytes, offsets: Ints) -> Table:
    """Merge equal points, equal rules and equal users."""
    size = concept.size
    points, place = _points(codes)
    n, chunk = len(next(iter(points.values()))), max(1, _CELLS // size)
    parts = [
        _distinct_rows(concept.table({k: v[a : a + chunk] for k, v in points.items()}, 0, size))
        for a in range(0, n, chunk)
    ]
    if not parts:
        return Table(
            np.zeros((0, 1), dtype=np.uint8),
            np.zeros(size, dtype=np.int64),
            group_equal_users(place.astype(np.uint64), labels, offsets),
        )
    rows, again = np.unique(np.concatenate([rows for rows, _ in parts]), return_inverse=True)
    shift = np.cumsum([0, *(len(rows) for rows, _ in parts)])
    kind = np.concatenate([again[s + where] for s, (_, where) in zip(shift.tolist(), parts)])
    bits = np.unpackbits(rows.view(np.uint8).reshape(len(rows), -1), axis=1, count=size)
    columns, column = _distinct_rows(np.ascontiguousarray(bits.T))
    said = np.unpackbits(columns.view(np.uint8).reshape(len(columns), -1), axis=1, count=len(rows)).T
    return Table(np.ascontiguousarray(said), column, group_equal_users(kind[place].astype(np.uint64), labels, offsets))


@jit
def _mistakes(
    said: Array, starts: Array, ends: Array, places: Array, weights: Array, ones: Array, i: int, first: int, row: Array
) -> None:
    row[:] = np.int32(ones[i])
    for k in range(starts[i], ends[i]):
        weight, line = weights[k], said[places[k]]
        for h in range(len(row)):
            row[h] += weight * np.int32(line[first + h])


@jit
def _clip_tile(said: Array, groups: tuple[Array, ...], clips: Array, left: int, right: int, total: Array) -> None:
    """Add all users' clipped comparisons of the columns from ``left`` on with those from ``right`` on, in 32 bits."""
    starts, ends, places, weights, ones, sizes, times = groups
    a, b = np.empty(total.shape[0], np.int32), np.empty(total.shape[1], np.int32)
    for i in range(len(sizes)):
        _mistakes(said, starts, ends, places, weights, ones, i, left, a)
        _mistakes(said, starts, ends, places, weights, ones, i, right, b)
        low, high, many = np.int32(-clips[i]), np.int32(clips[i]), np.int32(times[i])
        for x in range(len(a)):
            line, mine = total[x], a[x]
            for y in range(len(b)):
                # One user's part of a comparison lies in -clip..clip: this interval is the sensitivity.
                line[y] += np.int32(many * min(max(np.int32(mine - b[y]), low), high))


@jit
def _gain_tile(
    said: Array, groups: tuple[Array, ...], gains: Array, centre: Array, left: int, right: int, total: Array
) -> None:
    """The same with a table of gains, in 64 bits."""
    starts, ends, places, weights, ones, sizes, times = groups
    a, b = np.empty(total.shape[0], np.int32), np.empty(total.shape[1], np.int32)
    for i in range(len(sizes)):
        _mistakes(said, starts, ends, places, weights, ones, i, left, a)
        _mistakes(said, starts, ends, places, weights, ones, i, right, b)
        for x in range(len(a)):
            line, at = total[x], centre[i] + a[x]
            for y in range(len(b)):
                line[y] += times[i] * gains[at - b[y]]


@jit
def _raise(total: Array, left: int, right: int, top: Array) -> None:
    """Read a tile both ways: the gain of one column over another is the other's loss."""
    for x in range(total.shape[0]):
        for y in range(total.shape[1]):
            if left + x != right + y:
                top[left + x] = max(top[left + x], np.int64(total[x, y]))
                top[right + y] = max(top[right + y], -np.int64(total[x, y]))


def table_scores(table: Table, gains: Gains, *, clipped: bool, levels: int | None) -> Ints:
    """The score of every column; ``clipped=False`` if no difference is ever cut off, ``levels`` of scaled gains."""
    said, groups = table.said, table.groups
    width = said.shape[1]
    if width == 1 or not len(groups.sizes):
        return np.zeros(width, dtype=np.int64)
    if not clipped:
        per_point = np.zeros(len(said), dtype=np.int64)
        lengths = groups.ends - groups.starts
        index = np.repeat(groups.starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
        np.add.at(per_point, groups.places[index], np.repeat(groups.times, lengths) * groups.weights[index])
        return plain_scores(int((groups.ones * groups.times).sum()) + per_point @ said.astype(np.int64), table.single)
    # The largest gain of a user is the one at the largest difference, m.
    clips = gains.values[gains.centre + groups.sizes]
    small = levels is None and int((groups.times * clips).sum()) < 1 << 31
    packed: tuple[Array, ...] = tuple(groups)
    corners = [(a, b) for a in range(0, width, _LEFT) for b in range(a - a % _RIGHT, width, _RIGHT)]

    def part(worker: int, of: int) -> Ints:
        top = np.where(table.single, _LOWEST, 0).astype(np.int64)
        for a, b in corners[worker::of]:
            total = np.zeros((min(_LEFT, width - a), min(_RIGHT, width - b)), dtype=np.int32 if small else np.int64)
            if small:
                _clip_tile(said, packed, clips, a, b, total)
            else:
                _gain_tile(said, packed, gains.values, gains.centre, a, b, total)
            _raise(total, a, b, top)
        return top

    threads = min(workers(), len(corners))
    return np.max(spread(part, [(i, threads) for i in range(threads)]), axis=0)  # type: ignore[no-any-return]


# Scores


def pairwise_profile(
    concept: ConceptClass,
    codes: Mapping[str, Words],
    labels: Bytes,
    offsets: Ints,
    *,
    clip: SizeTable,
    levels: int | None,
    method: str | None = None,
) -> Profile:
    """The worst comparison of every rule of a bound class."""
    sizes = np.unique(np.diff(offsets))
    clips = {m: read_table(clip, m, name="tau", minimum=1) for m in sizes.tolist() if m}
    clipped = levels is not None or any(tau < m for m, tau in clips.items())
    if concept.layout == "listed":
        table = table_of(concept, codes, labels, offsets)
        found = table_scores(table, gains_of(table.groups.sizes, clips, levels), clipped=clipped, levels=levels)
        return table.profile(found)

    def scores(pieces: Pieces) -> Ints:
        return sweep_scores(pieces, gains_of(pieces.sizes, clips, levels), clipped=clipped, method=method)

    domains = [domain for domain in concept.declared().values() if domain is not None]
    ranks = {name: ranked(column) for name, column in codes.items()}
    if concept.layout == "values":
        ((held, rank),) = ranks.values()
        rest = concept.size - len(held)
        single = np.append(np.ones(len(held), dtype=bool), [rest == 1] if rest else [])
        found = scores(point_pieces(rank, single.astype(bool), labels, offsets))
        return _point_profile(found, held, concept.size, domains[0].size)
    marks = [_single_cuts(held, domain) for (held, _), domain in zip(ranks.values(), domains)]
    found = scores(line_pieces([rank for _, rank in ranks.values()], marks, labels, offsets, concept.directions))
    return _cut_profile(found, [held for held, _ in ranks.values()], domains, len(concept.directions))


def _single_cuts(held: Words, domain: Domain) -> Bools:
    """Which of the runs of cuts below, between and above the held codes are one cut only."""
    if not len(held):
        return np.zeros(1, dtype=bool)
    between = np.diff(held) == 1
    return np.concatenate([[held[0] == 0], between, [int(held[-1]) == domain.size - 1]])


def _cut_profile(scores: Ints, held: list[Words], domains: list[Domain], directions: int) -> Profile:
    """Two steps (cut 0; cuts 1..N) per data column and direction, as the classes of cuts lay out their ids."""
    steps: list[Step] = []
    base = used = 0
    for codes, domain in zip(held, domains):
        for _ in range(directions):
            part = scores[used : used + len(codes) + 1]
            first = int(part[0])
            steps += [
                Step(base, np.zeros(1, dtype=np.uint64), 0, part[:1]),
                _step(base + 1, domain.size - 1, first, codes, part[1:]),
            ]
            base, used = base + domain.size + 1, used + len(codes) + 1
    return Profile(tuple(steps))


def _point_profile(scores: Ints, held: Words, size: int, codes: int) -> Profile:
    """One score per held value, and the last one for all the other rules."""
    # After a held value comes another one, the end, or a run of values that nobody holds.
    gap = np.append(np.diff(held) != 1, [int(held[-1]) != codes - 1] if len(held) else [])
    kept = np.stack([np.ones(len(held), dtype=bool), gap.astype(bool)], axis=1).ravel()
    starts = np.stack([held, held + np.uint64(1)], axis=1).ravel()[kept]
    values = np.stack([scores[: len(held)], np.full(len(held), scores[-1])], axis=1).ravel()[kept]
    steps = [_step(0, codes - 1, int(scores[-1]), starts, values)]
    if size > codes:
        steps.append(Step(codes, np.zeros(1, dtype=np.uint64), 0, scores[-1:]))
    return Profile(tuple(steps))


def _step(offset: int, end: int, first: int, starts: Words, scores: Ints) -> Step:
    """``scores[i]`` from ``offset + starts[i]`` on, ``first`` before that."""
    if not len(starts) or starts[0] != 0:
        starts = np.concatenate([np.zeros(1, dtype=np.uint64), starts])
        scores = np.concatenate([np.array([first], dtype=np.int64), scores])
    return Step(offset, starts, end, scores)
