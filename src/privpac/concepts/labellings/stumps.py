"""Labellings by cuts of one of several columns, or by single values where a column has no order.

For the cut i of column k and the cut j of column g let ``X(i, j)`` be the records of T that "above i" and "above j"
label differently. Moving i past a record flips one label of h: X grows by 1 for the cuts j up to that record's rank in
g and shrinks by 1 beyond.  A tree over j of (sum, least prefix sum) of differences takes that as one point change and
has the minimum of ``+-A X + B M`` at its root, so a sweep costs O(t log t) for each pair of columns and directions.

A column without an order has one labelling for every value held in T and one for all others, each with its complement.
How many records hold a value and lie below the cuts, or hold the values, of another column says in how many labels any
two of them differ: all pairs with such a column are compared, value by value.

Labellings of different columns may coincide (the two constants always do).  Each must be listed once: equal labellings
have equal sums of per-record words, and those with equal sums are compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.labellings.base import Ints, Labellings
from privpac.concepts.labellings.line import gap_minima
from privpac.concepts.profile import Profile, Step
from privpac.data.jit import jit

__all__ = ["stump_labellings"]

_FAR = np.int64(1 << 61)


@jit
def _update(sums: Any, least: Any, leaf: int, change: Any) -> None:
    sums[leaf] += change
    least[leaf] += change
    node = leaf >> 1
    while node >= 1:
        left = 2 * node
        sums[node] = sums[left] + sums[left + 1]
        least[node] = min(least[left], sums[left] + least[left + 1])
        node >>= 1


@jit
def _sweep(order: Any, ends: Any, rank: Any, values: Any, cost: Any, out: Any) -> None:
    """``out[i] = min(out[i], min over j)`` while the cut of h passes the records ``order``, ``ends[i]`` of them before
    cut i.

    ``values[j]`` belong to cut 0; passing a record adds ``cost`` for the cuts j up to its ``rank`` and subtracts it
    beyond.
    """
    width = 1
    while width < len(values):
        width *= 2
    sums, least = np.zeros(2 * width, dtype=np.int64), np.full(2 * width, _FAR, dtype=np.int64)
    for j in range(len(values)):
        sums[width + j] = least[width + j] = values[j] - (values[j - 1] if j else 0)
    for node in range(width - 1, 0, -1):
        left = 2 * node
        sums[node] = sums[left] + sums[left + 1]
        least[node] = min(least[left], sums[left] + least[left + 1])
    base, done = np.int64(0), 0
    for i in range(len(out)):
        while done < ends[i]:
            base += cost
            _update(sums, least, width + rank[order[done]] + 1, -2 * cost)
            done += 1
        out[i] = min(out[i], base + least[1])


@dataclass(frozen=True)
class _Column:
    """One column of T: every record's rank among the held values, and per direction what each labelling costs.

    ``below[i]``: records below the cut i.  Without an order ``times[i]`` records have the value i, and nobody has the
    last one, which stands for all values that are not held.
    """

    rank: Ints
    times: Ints
    costs: list[Ints]
    ordered: bool

    @cached_property
    def below(self) -> Ints:
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.times)])

    @property
    def places(self) -> int:
        return len(self.costs[0])

    def says(self, i: int) -> NDArray[np.bool_]:
        """The labels of a place in the first direction."""
        return self.rank >= i if self.ordered else self.rank == i

    def sums(self, weights: NDArray[Any]) -> NDArray[Any]:
        """The sum of the weights of the records that each place labels 1 in the first direction."""
        by_rank = np.zeros(self.places, dtype=weights.dtype)
        np.add.at(by_rank, self.rank, weights)
        if not self.ordered:
            return by_rank
        return np.cumsum(by_rank[::-1], dtype=weights.dtype)[::-1]


def _read(codes: NDArray[np.uint64], steps: Sequence[Step], directions: int, B: int, ordered: bool) -> _Column:
    """``steps``: two for each direction."""
    held, rank, times = np.unique(codes, return_inverse=True, return_counts=True)
    pairs = [(steps[2 * d], steps[2 * d + 1]) for d in range(directions)]
    found = [gap_minima(*pair, held) if ordered else _value_minima(*pair, held) for pair in pairs]
    # Without an order the value that nobody has comes last.
    counts = times.astype(np.int64) if ordered else np.append(times, 0).astype(np.int64)
    return _Column(rank.astype(np.int64), counts, [B * cost for cost in found], ordered)


def _value_minima(values: Step, nobody: Step, held: NDArray[np.uint64]) -> Ints:
    """The loss of every held value, and the least one of all others."""
    every = values.scores[np.searchsorted(values.starts, np.arange(values.end + 1, dtype=np.uint64), side="right") - 1]
    others = np.append(np.delete(every, held.astype(np.int64)), nobody.scores)
    return np.append(every[held.astype(np.int64)], others.min())


def stump_labellings(
    columns: Sequence[tuple[NDArray[np.uint64], bool]],
    directions: tuple[str, ...],
    profile: Profile,
    A: int,
    B: int,
) -> Labellings:
    """``columns``: the codes of each, and whether it is ordered."""
    size, ways = len(columns[0][0]), len(directions)
    read = [_read(codes, profile.steps[2 * ways * k :], ways, B, ordered) for k, (codes, ordered) in enumerate(columns)]
    scores = [[np.full(column.places, _FAR, dtype=np.int64) for _ in directions] for column in read]
    for k, column in enumerate(read):
        if not column.ordered:
            _by_value(read, scores, k, A, size)
            continue
        order = np.argsort(column.rank, kind="stable")
        for other in read:
            if not other.ordered:
                continue
            for h in range(ways):
                for f in range(ways):
                    # Opposite directions agree exactly where equal ones differ: A (t - X) instead of A X; X(0, j) =
                    # records below j.
                    cost = A if h == f else -A
                    start = cost * other.below + (0 if h == f else A * size) + other.costs[f]
                    _sweep(order, column.below, other.rank, start, np.int64(cost), scores[k][h])
    where = [(k, d, i) for k, column in enumerate(read) for d in range(ways) for i in range(column.places)]

    def bits(place: tuple[int, int, int]) -> NDArray[np.uint8]:
        k, d, i = place
        said = read[k].says(i)
        return (said if directions[d] == "above" else ~said).astype(np.uint8)

    keep = _distinct(where, read, directions, size, bits)
    listed = np.concatenate([part for column in scores for part in column])[keep]
    kept = [where[i] for i in keep.tolist()]
    return Labellings(listed, lambda i: bits(kept[i]))


def _by_value(read: list[_Column], scores: list[list[Ints]], k: int, A: int, size: int) -> None:
    """Compare every value of the column k with all labellings of all columns, both ways."""
    column = read[k]
    ways = range(len(column.costs))
    ones = [other.sums(np.ones(size, dtype=np.int64)) for other in read]
    for i in range(column.places):
        mine = column.says(i).astype(np.int64)
        for g, other in enumerate(read):
            # Records that one of the two labels 1: all of both, less twice those of both together.
            differ = int(mine.sum()) + ones[g] - 2 * other.sums(mine)
            for h in ways:
                for f in ways:
                    distance = A * (differ if h == f else size - differ)
                    scores[k][h][i] = min(int(scores[k][h][i]), int((distance + other.costs[f]).min()))
                    np.minimum(scores[g][f], distance + column.costs[h][i], out=scores[g][f])


def _distinct(where: list[tuple[int, int, int]], read: list[_Column], directions: Any, size: int, bits: Any) -> Ints:
    """The first place of every labelling."""
    words = _mixed(np.arange(1, size + 1, dtype=np.uint64))
    total = words.sum(dtype=np.uint64)
    keys: list[NDArray[np.uint64]] = []
    for column in read:
        sums = column.sums(words)
        keys += [sums if direction == "above" else total - sums for direction in directions]
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    group = np.cumsum(
        np.concatenate([np.zeros(1, dtype=np.int64), (np.diff(key[order].view(np.int64)) != 0).astype(np.int64)])
    )
    keep = np.ones(len(key), dtype=bool)
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    for a, b in zip(starts.tolist(), [*starts[1:].tolist(), len(key)]):
        if b - a == 1:
            continue
        seen: list[NDArray[np.uint8]] = []
        for i in order[a:b].tolist():  # a stable sort: in order of places
            labels = bits(where[i])
            if any(np.array_equal(labels, other) for other in seen):
                keep[i] = False
            else:
                seen.append(labels)
    return np.flatnonzero(keep)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words that differ in about half their bits; only to find candidates for an exact comparison."""
    x = x * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
