"""The worst comparison of every rule, for classes given by a table of predictions.

Points on which all rules say the same as on another point are one point, rules that say the same on all points of the
data are one *column*, and users with equal signed counts are one user with a multiplicity.  ``P(a, b) = sum over users
of gain(e_u(a) - e_u(b))`` is then added up tile by tile (some columns ``a`` by some columns ``b``); a user's mistakes
on a tile are computed on the fly, so nothing of size users by rules is stored.  ``P(b, a) = -P(a, b)`` halves the work.
No rule is left out because it looks bad: a support that depends on data would not be private.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.concepts.kernels.grouped import Groups, group
from privpac.concepts.kernels.spread import spread, workers
from privpac.concepts.profile import Profile, dense_profile
from privpac.data.group import ranked
from privpac.data.jit import jit
from privpac.learners.pairwise.sweep import Gains, Ints, plain_scores

__all__ = ["MAX_RULES", "Table", "table_of", "table_scores"]

MAX_RULES = 1 << 13
"""The most rules a class without a sweep may have: their pairs are compared one by one."""

Bytes = NDArray[np.uint8]
Codes = Mapping[str, NDArray[np.uint64]]

_CELLS = 1 << 26
_LEFT, _RIGHT = 256, 512
_LOWEST = -(1 << 62)


class Table:
    """Distinct users on distinct points, and what the distinct rules say there (points by columns)."""

    def __init__(self, said: Bytes, column: Ints, groups: Groups) -> None:
        self.said, self.column, self.groups = said, column, groups
        self.single = np.bincount(column, minlength=said.shape[1]) == 1

    def profile(self, scores: Ints) -> Profile:
        """Scores of columns as scores of rules."""
        return dense_profile(scores[self.column])


def _distinct_rows(table: Bytes) -> tuple[NDArray[Any], Ints]:
    """The distinct rows of a 0/1 table, packed, and the place of every row among them."""
    packed = np.ascontiguousarray(np.packbits(table, axis=1))
    rows, place = np.unique(packed.view(np.dtype((np.void, packed.shape[1])))[:, 0], return_inverse=True)
    return rows, place.astype(np.int64)


def _points(codes: Codes) -> tuple[Codes, Ints]:
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


def table_of(concept: ConceptClass, codes: Codes, labels: Bytes, offsets: Ints) -> Table:
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
            group(place.astype(np.uint64), labels, offsets),
        )
    rows, again = np.unique(np.concatenate([rows for rows, _ in parts]), return_inverse=True)
    shift = np.cumsum([0, *(len(rows) for rows, _ in parts)])
    kind = np.concatenate([again[s + where] for s, (_, where) in zip(shift.tolist(), parts)])
    bits = np.unpackbits(rows.view(np.uint8).reshape(len(rows), -1), axis=1, count=size)
    columns, column = _distinct_rows(np.ascontiguousarray(bits.T))
    said = np.unpackbits(columns.view(np.uint8).reshape(len(columns), -1), axis=1, count=len(rows)).T
    return Table(np.ascontiguousarray(said), column, group(kind[place].astype(np.uint64), labels, offsets))


@jit
def _mistakes(
    said: Any, starts: Any, ends: Any, places: Any, weights: Any, ones: Any, i: int, first: int, row: Any
) -> None:
    row[:] = np.int32(ones[i])
    for k in range(starts[i], ends[i]):
        weight, line = weights[k], said[places[k]]
        for h in range(len(row)):
            row[h] += weight * np.int32(line[first + h])


@jit
def _clip_tile(said: Any, groups: Any, clips: Any, left: int, right: int, total: Any) -> None:
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
def _gain_tile(said: Any, groups: Any, gains: Any, centre: Any, left: int, right: int, total: Any) -> None:
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
def _raise(total: Any, left: int, right: int, top: Any) -> None:
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
    packed = tuple(groups)
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
