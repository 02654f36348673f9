"""Labellings by ranges of one column.

With gaps 0..u between the distinct values of T, the labelling (i, j), i < j, has 1 on the ranks i..j-1, and no 1 at all
is one more.  Two ranges differ on ``|i - i'| + |j - j'|`` records when they meet and on ``length + length'`` when they
do not: always on the smaller of the two.  The first is a separable distance transform of ``M`` with nothing below the
diagonal; the second needs one number for all ranges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.labellings.base import Ints, Labellings, dense_losses
from privpac.concepts.profile import Profile
from privpac.data.jit import jit

__all__ = ["interval_labellings", "range_labellings"]

NONE = np.int64(1 << 62)
"""No rule: above every score."""


@jit
def _table_minima(scores: Any, gap: Any, n: int, out: Any) -> Any:
    """From the loss of every range, the least one for every pair of gaps; returns the least one with both ends in one
    gap."""
    same = scores[0]
    at = 1
    for low in range(n):
        for high in range(low + 1, n + 1):
            i, j = gap[low], gap[high]
            if i == j:
                same = min(same, scores[at])
            else:
                out[i, j] = min(out[i, j], scores[at])
            at += 1
    return same


@jit
def _walk(values: Any, weights: Any, held: Any, low: Any, high: Any) -> Any:
    """Least and greatest running sum of ``weights`` over the cuts of every gap; returns the greatest rise inside one
    gap."""
    gap, total, rise, least = 0, 0, 0, 0
    low[0] = high[0] = 0
    for k in range(len(values)):
        while gap < len(held) and held[gap] <= values[k]:
            gap += 1
            # The first cut beyond held[gap - 1] counts every value up to it, this one included where they are equal.
            total_here = total + (weights[k] if held[gap - 1] == values[k] else 0)
            low[gap] = high[gap] = least = total_here
        total += weights[k]
        rise = max(rise, total - least)
        least = min(least, total)
        low[gap], high[gap] = min(low[gap], total), max(high[gap], total)
    while gap < len(held):
        gap += 1
        low[gap] = high[gap] = total
    return rise


@jit
def _transform(costs: Any, place: Any) -> None:
    """``min over (i', j') of |place_i - place_i'| + |place_j - place_j'| + costs[i', j']``, in place, rows and then
    columns."""
    n = len(place)
    for i in range(n):
        for j in range(1, n):
            costs[i, j] = min(
                costs[i, j], costs[i, j - 1] + place[j] - place[j - 1] if costs[i, j - 1] < NONE else NONE
            )
        for j in range(n - 2, -1, -1):
            costs[i, j] = min(
                costs[i, j], costs[i, j + 1] + place[j + 1] - place[j] if costs[i, j + 1] < NONE else NONE
            )
    for i in range(1, n):
        for j in range(n):
            costs[i, j] = min(
                costs[i, j], costs[i - 1, j] + place[i] - place[i - 1] if costs[i - 1, j] < NONE else NONE
            )
    for i in range(n - 2, -1, -1):
        for j in range(n):
            costs[i, j] = min(
                costs[i, j], costs[i + 1, j] + place[i + 1] - place[i] if costs[i + 1, j] < NONE else NONE
            )


def interval_labellings(points: NDArray[np.uint64], size: int, profile: Profile, A: int, B: int) -> Labellings:
    """On a domain of ``size`` values."""
    held = np.unique(points)
    gap = np.searchsorted(held, np.arange(size + 1, dtype=np.uint64), side="left")
    least = np.full((len(held) + 1, len(held) + 1), NONE, dtype=np.int64)
    same = _table_minima(dense_losses(profile), gap, size, least)
    return _scored(points, least, int(same), A, B)


def range_labellings(
    points: NDArray[np.uint64], values: NDArray[np.uint64], labels: NDArray[np.uint8], A: int, B: int
) -> Labellings:
    """The same for single records in W, on a domain of any size: the loss is the positives minus the rise of one
    running sum."""
    held = np.unique(points)
    order = np.argsort(values, kind="stable")
    ordered, weights = values[order], 2 * labels[order].astype(np.int64) - 1
    distinct, first = np.unique(ordered, return_index=True)
    sums = np.add.reduceat(weights, first) if len(distinct) else np.zeros(0, dtype=np.int64)
    low, high = np.zeros(len(held) + 1, dtype=np.int64), np.zeros(len(held) + 1, dtype=np.int64)
    rise = _walk(distinct, sums, held, low, high)
    positives = int(labels.sum())
    least = positives - high[None, :] + low[:, None]
    least[np.tril_indices(len(least))] = NONE
    return _scored(points, least, positives - int(rise), A, B)


def _scored(points: NDArray[np.uint64], least: Ints, same: int, A: int, B: int) -> Labellings:
    """``least[i, j]``: the least loss of ranges with 1 on the ranks i..j-1 (``NONE`` unless i < j), ``same`` of those
    with none."""
    held, rank, times = np.unique(points, return_inverse=True, return_counts=True)
    u = len(held)
    place = A * np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(times)])
    rows, columns = np.triu_indices(u + 1, 1)
    costs = np.full((u + 1, u + 1), NONE, dtype=np.int64)
    costs[rows, columns] = B * least[rows, columns]
    lengths = place[columns] - place[rows]
    far = min(B * same, int((lengths + costs[rows, columns]).min()))
    _transform(costs, place)
    scores = np.minimum(costs[rows, columns], lengths + far)

    def labels(i: int) -> NDArray[np.uint8]:
        low, high = (rows[i - 1], columns[i - 1]) if i else (0, 0)  # no 1 first, then by the gap of either end
        return ((rank >= low) & (rank < high)).astype(np.uint8)

    return Labellings(np.concatenate([np.array([far], dtype=np.int64), scores]), labels)
