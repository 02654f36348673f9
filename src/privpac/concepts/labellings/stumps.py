"""Labellings by cuts of one of several columns.

For the cut i of column k and the cut j of column g let ``X(i, j)`` be the records of T that "above i" and "above j"
label differently. Moving i past a record flips one label of h: X grows by 1 for the cuts j up to that record's rank in
g and shrinks by 1 beyond.  A tree over j of (sum, least prefix sum) of differences takes that as one point change and
has the minimum of ``+-A X + B M`` at its root, so a sweep costs O(t log t) for each pair of columns and directions.

Labellings of different columns may coincide (the two constants always do).  Each must be listed once: equal labellings
have equal sums of per-record words, and those with equal sums are compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.labellings.base import Ints, Labellings
from privpac.concepts.labellings.line import gap_minima
from privpac.concepts.profile import Profile
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


def stump_labellings(
    columns: Sequence[NDArray[np.uint64]], directions: tuple[str, ...], profile: Profile, A: int, B: int
) -> Labellings:
    size = len(columns[0])
    ranks: list[Ints] = []
    below: list[Ints] = []
    costs: list[list[Ints]] = []
    for k, codes in enumerate(columns):
        held, rank, times = np.unique(codes, return_inverse=True, return_counts=True)
        ranks.append(rank.astype(np.int64))
        below.append(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(times)]))
        steps = profile.steps[2 * len(directions) * k :]
        costs.append([B * gap_minima(steps[2 * d], steps[2 * d + 1], held) for d in range(len(directions))])
    scores = [[np.full(len(below[k]), _FAR, dtype=np.int64) for _ in directions] for k in range(len(columns))]
    for k in range(len(columns)):
        order = np.argsort(ranks[k], kind="stable")
        for g in range(len(columns)):
            for h in range(len(directions)):
                for f in range(len(directions)):
                    # Opposite directions agree exactly where equal ones differ: A (t - X) instead of A X; X(0, j) =
                    # records below j.
                    cost = A if h == f else -A
                    start = cost * below[g] + (0 if h == f else A * size) + costs[g][f]
                    _sweep(order, below[k], ranks[g], start, np.int64(cost), scores[k][h])
    where = [(k, d, i) for k in range(len(columns)) for d in range(len(directions)) for i in range(len(below[k]))]

    def bits(place: tuple[int, int, int]) -> NDArray[np.uint8]:
        k, d, i = place
        return (ranks[k] >= i if directions[d] == "above" else ranks[k] < i).astype(np.uint8)

    keep = _distinct(where, ranks, below, directions, size, bits)
    listed = np.concatenate([part for column in scores for part in column])[keep]
    kept = [where[i] for i in keep.tolist()]
    return Labellings(listed, lambda i: bits(kept[i]))


def _distinct(
    where: list[tuple[int, int, int]], ranks: list[Ints], below: list[Ints], directions: Any, size: int, bits: Any
) -> Ints:
    """The first place of every labelling."""
    words = _mixed(np.arange(1, size + 1, dtype=np.uint64))
    total = words.sum(dtype=np.uint64)
    keys: list[NDArray[np.uint64]] = []
    for rank, ends in zip(ranks, below):
        running = np.concatenate(
            [np.zeros(1, np.uint64), np.cumsum(words[np.argsort(rank, kind="stable")], dtype=np.uint64)]
        )[ends]
        keys += [total - running if direction == "above" else running for direction in directions]
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
