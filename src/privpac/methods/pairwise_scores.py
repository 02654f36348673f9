"""Users' records into the pairwise score of every rule.

Comparisons of two rules are clipped per user, and their maximum does not add up over parts of the users, so the records
of the columns read are brought together first (O(records)); then cuts and points are swept and other classes tabulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpac.data.grouping import ranked
from privpac.data.jit import jit
from privpac.data.threads import spread, workers
from privpac.methods.pairwise_sweep import (
    Gains,
    Ints,
    Pieces,
    gains_of,
    line_pieces,
    plain_scores,
    point_pieces,
    sweep_scores,
)
from privpac.rules.base import ConceptClass
from privpac.rules.kernels.grouped import Groups, group
from privpac.rules.profile import Profile, Step, dense_profile
from privpac.rules.statistics import Table as SizeTable
from privpac.rules.statistics import read_table

if TYPE_CHECKING:
    from privpac.data import Domain, UserData

__all__ = [
    "Gather",
    "MAX_RULES",
    "Table",
    "joined",
    "pairwise_profile",
    "table_of",
    "table_scores",
]


# The worst comparison of every rule, for classes given by a table of predictions.
#
# Points on which all rules say the same as on another point are one point, rules that say the same on all points of the
# data are one *column*, and users with equal signed counts are one user with a multiplicity.  ``P(a, b) = sum over
# users of gain(e_u(a) - e_u(b))`` is then added up tile by tile (some columns ``a`` by some columns ``b``); a user's
# mistakes on a tile are computed on the fly, so nothing of size users by rules is stored.  ``P(b, a) = -P(a, b)``
# halves the work. No rule is left out because it looks bad: a support that depends on data would not be private.


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


Part = tuple[Ints, tuple[NDArray[np.uint64], ...], NDArray[np.uint8]]


@dataclass(frozen=True)
class Gather:
    """All records of the columns read, users kept together."""

    columns: tuple[str, ...]

    def zero(self) -> list[Part]:
        return []

    def chunk(self, users: UserData) -> list[Part]:
        assert users.labels is not None
        return [(users.offsets, tuple(users.codes[name] for name in self.columns), users.labels)]

    def merge(self, a: list[Part], b: list[Part]) -> list[Part]:
        return a + b


def joined(
    parts: list[Part], columns: tuple[str, ...]
) -> tuple[dict[str, NDArray[np.uint64]], NDArray[np.uint8], Ints]:
    if len(parts) != 1:
        sizes = [np.empty(0, dtype=np.int64), *(np.diff(offsets) for offsets, _, _ in parts)]
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(sizes))])
        none = np.empty(0, dtype=np.uint64)
        codes = tuple(np.concatenate([none, *(part[1][j] for part in parts)]) for j in range(len(columns)))
        parts = [(offsets, codes, np.concatenate([np.empty(0, dtype=np.uint8), *(part[2] for part in parts)]))]
    ((offsets, codes, labels),) = parts
    return dict(zip(columns, codes)), labels, offsets


# Scores


def pairwise_profile(
    concept: ConceptClass,
    codes: Mapping[str, NDArray[np.uint64]],
    labels: NDArray[np.uint8],
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


def _single_cuts(held: NDArray[np.uint64], domain: Domain) -> NDArray[np.bool_]:
    """Which of the runs of cuts below, between and above the held codes are one cut only."""
    if not len(held):
        return np.zeros(1, dtype=bool)
    between = np.diff(held) == 1
    return np.concatenate([[held[0] == 0], between, [int(held[-1]) == domain.size - 1]])


def _cut_profile(scores: Ints, held: list[NDArray[np.uint64]], domains: list[Domain], directions: int) -> Profile:
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


def _point_profile(scores: Ints, held: NDArray[np.uint64], size: int, codes: int) -> Profile:
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


def _step(offset: int, end: int, first: int, starts: NDArray[np.uint64], scores: Ints) -> Step:
    """``scores[i]`` from ``offset + starts[i]`` on, ``first`` before that."""
    if not len(starts) or starts[0] != 0:
        starts = np.concatenate([np.zeros(1, dtype=np.uint64), starts])
        scores = np.concatenate([np.array([first], dtype=np.int64), scores])
    return Step(offset, starts, end, scores)
