"""What people add to a few cells when everybody adds the same amount.

A person with ``c`` records in each cell adds the largest-remainder rounding of ``levels * c / m`` to integers (ties to
the earlier cell): non-negative integers that sum to ``levels`` exactly, so one person more or less moves the sums by at
most ``levels`` in L1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpac.arrays import Ints
from privpac.data.loops import jit


@jit
def _to_shares(counts: Ints, rests: Ints, m: int, levels: int) -> None:
    """Shares of ``levels`` in place of counts of ``m`` records."""
    left = levels
    for c in range(counts.size):
        # levels * count may not fit into 64 bits for huge users: divide the whole and the rest apart.
        whole, part = counts[c] // m, counts[c] % m
        told = whole * levels + part * levels // m
        rests[c] = part * levels % m
        counts[c] = told
        left -= told
    while left > 0:  # fewer units than cells are left: one each, the largest remainder first, ties to the earlier cell
        best = 0
        for c in range(1, counts.size):
            if rests[c] > rests[best]:
                best = c
        counts[best] += 1
        rests[best] = -1
        left -= 1


@jit
def user_tables(offsets: Ints, cells: NDArray[np.uint8], size: int, levels: int, shares: bool, empty: int) -> Ints:
    """What all users add together; ``empty`` is the cell of somebody without records, ``-1`` for none."""
    out = np.zeros(size, np.int64)
    counts, rests = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for user in range(offsets.size - 1):
        m = offsets[user + 1] - offsets[user]
        if m == 0:
            if empty >= 0:
                out[empty] += levels
            continue
        counts[:] = 0
        for i in range(offsets[user], offsets[user + 1]):
            counts[cells[i]] += 1
        if shares:
            _to_shares(counts, rests, m, levels)
        out += counts
    return out


@jit
def user_moments(
    offsets: Ints, cells: NDArray[np.uint8], groups: Ints, top: int, levels: int, divisor: int, empty: int
) -> Ints:
    """The shares of all users together, and behind them the products of every two groups of cells, divided by
    ``divisor`` and rounded down person by person.

    ``groups`` says to which of the ``top`` groups a cell belongs.  The products of one person's shares sum to at most
    ``levels**2 (1 - 1/k)/2`` with ``k`` groups: squares are at least ``1/k`` of the square of the sum.
    """
    size = groups.size
    out = np.zeros(size + top * (top - 1) // 2, np.int64)
    counts, rests, held = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(top, np.int64)
    for user in range(offsets.size - 1):
        m = offsets[user + 1] - offsets[user]
        if m == 0:
            if empty >= 0:
                out[empty] += levels
            continue
        counts[:] = 0
        for i in range(offsets[user], offsets[user + 1]):
            counts[cells[i]] += 1
        _to_shares(counts, rests, m, levels)
        held[:] = 0
        for c in range(size):
            out[c] += counts[c]
            held[groups[c]] += counts[c]
        place = size
        for a in range(top):
            for b in range(a + 1, top):
                out[place] += held[a] * held[b] // divisor
                place += 1
    return out
