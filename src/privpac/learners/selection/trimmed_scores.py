"""Trimmed sums and spreads of users' contributions, rule by rule.

For one rule, sort the n contributions ``x_(1) <= ... <= x_(n)``.  With ``trim`` t on each side

    s   = x_(t+1) + ... + x_(n-t)                                   the trimmed sum
    W_k = max over a + b = k of  x_(n-t+1+a) - x_(t-b)              the width reachable by replacing k users

and the distance to instability is ``rho = min{j <= K : W_(K-j) <= w}`` (``K+1`` if none), with the maximum of W over
all rules.

*Dense*: a matrix of users by rules, sorted column by column.  *Swept*: for cuts on ordered columns of any size, passing
one record changes one user's contribution by a step; a histogram of the contributions with six moving order statistics
gives s, and the widths are compared with w only as far as needed: O(records (log records + K)), and as many blocks as
distinct values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.kernels.events import ROOM, sort_span
from privpac.concepts.profile import Step, step_of
from privpac.data.jit import jit

__all__ = ["SortedColumn", "contributions", "distance_of", "spreads", "sweep", "trimmed_sums"]

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


# Contributions


@jit
def contribution(mistakes: int, m: int, levels: int, counts: bool) -> int:
    """One user's contribution: mistakes, or the error rate in steps of ``1/levels`` (half a step up); always in
    0..levels."""
    if counts:
        return min(mistakes, levels)
    # A user without records stands in the middle; the bound 0..levels is what the order statistics rely on.
    return levels // 2 if m == 0 else (2 * levels * mistakes + m) // (2 * m)


def contributions(mistakes: Ints, sizes: Ints, levels: int, *, counts: bool) -> Ints:
    """The same for a matrix (users by rules)."""
    if counts:
        return np.minimum(mistakes, levels)
    m = np.maximum(sizes, 1)[:, None]
    scaled = (2 * levels * mistakes + m) // (2 * m)
    return np.where(sizes[:, None] == 0, levels // 2, scaled)


# Dense


def trimmed_sums(sorted_columns: Ints, trim: int) -> Ints:
    """``s`` of every column of contributions sorted along the users."""
    return np.asarray(sorted_columns[trim : len(sorted_columns) - trim].sum(axis=0), dtype=np.int64)


def spreads(sorted_columns: Ints, trim: int, ladder: int) -> Ints:
    """``W_0..W_K``, each the maximum over all columns."""
    n = len(sorted_columns)
    top = sorted_columns[n - trim : n - trim + ladder + 1]  # x_(n-t+1+a) for a = 0..K
    low = sorted_columns[trim - 1 - ladder : trim][::-1]  # x_(t-b) for b = 0..K
    return np.array(
        [max(int((top[a] - low[k - a]).max()) for a in range(k + 1)) for k in range(ladder + 1)], dtype=np.int64
    )


def distance_of(reach: int, ladder: int) -> int:
    """``rho`` from the largest k with ``W_k <= w`` (-1 if even ``W_0`` is too wide)."""
    return ladder - reach if reach >= 0 else ladder + 1


# Swept


class SortedColumn:
    """The records of one column in order of code, each with ``2 * user + label``."""

    def __init__(self, codes: Words, labels: NDArray[np.uint8], offsets: Ints) -> None:
        n = int(offsets[-1])
        kind = np.uint32 if len(offsets) < 1 << 31 else np.uint64
        self.key = codes[:n].copy()
        self.load = np.empty(n, dtype=kind)
        _tag(offsets, labels, self.load)
        sort_span(self.key, self.load, 0, n, np.empty(n, np.uint64), np.empty(n, kind), np.empty(ROOM, np.int64))


@jit
def _tag(offsets: Any, labels: Any, load: Any) -> None:
    for u in range(len(offsets) - 1):
        for i in range(offsets[u], offsets[u + 1]):
            load[i] = 2 * u + labels[i]


@jit
def _settle(hist: Any, rank: Any, value: Any, below: Any, p: int) -> None:
    """Move pointer p to the value of its rank; ``below`` counts the contributions under that value."""
    while below[p] >= rank[p]:
        value[p] -= 1
        below[p] -= hist[value[p]]
    while below[p] + hist[value[p]] < rank[p]:
        below[p] += hist[value[p]]
        value[p] += 1


@jit
def _too_wide(hist: Any, value: Any, below: Any, trim: int, n: int, k: int, width: int, top: Any) -> bool:
    """Whether ``W_k > width``: ranks n-t+1..n-t+1+k from above against t-k..t from below."""
    if value[5] - value[4] <= width:
        return False
    at, seen = value[3], below[3]
    for a in range(k + 1):
        while seen + hist[at] < n - trim + 1 + a:
            seen += hist[at]
            at += 1
        top[a] = at
    at, seen = value[4], below[4]
    for a in range(k + 1):
        # x_(n-t+1+a) goes with x_(t-(k-a)).
        while seen + hist[at] < trim - k + a:
            seen += hist[at]
            at += 1
        if top[a] - at > width:
            return True
    return False


@jit
def _sweep(
    key: Any,
    load: Any,
    sizes: Any,
    mistakes: Any,
    sign: int,
    levels: int,
    counts: bool,
    trim: int,
    width: int,
    reach: int,
    places: Any,
    scores: Any,
) -> Any:
    """Scores of the blocks; returns (score before the first record, blocks, largest k that stays within the width)."""
    n = len(sizes)
    held = np.empty(n, np.int64)
    hist = np.zeros(levels + 2, np.int64)
    for u in range(n):
        held[u] = contribution(mistakes[u], sizes[u], levels, counts)
        hist[held[u]] += 1
    k = reach
    top = np.empty(max(reach, 0) + 1, np.int64)
    rank = np.array([trim, trim + 1, n - trim, n - trim + 1, trim - max(k, 0), n - trim + 1 + max(k, 0)])
    value, below = np.zeros(6, np.int64), np.zeros(6, np.int64)
    for p in range(6):
        _settle(hist, rank, value, below, p)
    total: Any = 0
    seen: Any = 0
    for v in range(levels + 1):
        # Ranks seen+1..seen+hist[v] have value v; those in t+1..n-t count.
        total += v * max(0, min(seen + hist[v], n - trim) - max(seen, trim))
        seen += hist[v]
    first: Any = total
    blocks = 0
    changed = True
    for i in range(-1, len(key)):
        if i >= 0:
            who: Any = load[i]
            user, label = np.int64(who) >> 1, np.int64(who) & 1
            mistakes[user] += sign * (2 * label - 1)
            old: Any = held[user]
            new = contribution(mistakes[user], sizes[user], levels, counts)
            if new != old:
                # With y the other users' contributions, s = const + clip(own; y_(t), y_(n-t)).
                low = value[0] if old > value[0] else value[1]
                high = value[2] if old > value[2] else value[3]
                total += min(max(new, low), high) - min(max(old, low), high)
                held[user] = new
                hist[old] -= 1
                hist[new] += 1
                for p in range(6):
                    if old < value[p]:
                        below[p] -= 1
                    if new < value[p]:
                        below[p] += 1
                    _settle(hist, rank, value, below, p)
                changed = True
            if i + 1 < len(key) and key[i + 1] == key[i]:
                continue
            places[blocks], scores[blocks] = key[i], total
            blocks += 1
        # The sweep goes on when the width is lost, so that its time does not tell.
        while changed and k >= 0 and _too_wide(hist, value, below, trim, n, k, width, top):
            k -= 1
            rank[4], rank[5] = trim - max(k, 0), n - trim + 1 + max(k, 0)
            _settle(hist, rank, value, below, 4)
            _settle(hist, rank, value, below, 5)
        changed = False
    return first, blocks, k


def sweep(
    column: SortedColumn,
    labels: NDArray[np.uint8],
    offsets: Ints,
    directions: tuple[str, ...],
    base: int,
    size: int,
    *,
    levels: int,
    counts: bool,
    trim: int,
    width: int,
    reach: int,
) -> tuple[list[Step], int]:
    """The steps of all cuts, direction by direction with ids from ``base`` on, and the reach that is left."""
    out: list[Step] = []
    sizes = np.diff(offsets)
    ones = np.concatenate([[0], np.cumsum(labels[: int(offsets[-1])], dtype=np.int64)])
    ones = ones[offsets[1:]] - ones[offsets[:-1]]
    for c, direction in enumerate(directions):
        above = direction == "above"
        places, scores = np.empty(len(column.key), np.uint64), np.empty(len(column.key), np.int64)
        mistakes = sizes - ones if above else ones.copy()
        first, blocks, reach = _sweep(
            column.key,
            column.load,
            sizes,
            mistakes,
            1 if above else -1,
            levels,
            counts,
            trim,
            width,
            reach,
            places,
            scores,
        )
        cut0 = base + c * (size + 1)
        alone = Step(cut0, np.zeros(1, dtype=np.uint64), 0, np.array([first], dtype=np.int64))
        out += [alone, step_of(cut0 + 1, size - 1, int(first), places[:blocks], scores[:blocks])]
    return out, int(reach)
