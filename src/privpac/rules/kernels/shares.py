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
        if not shares:
            out += counts
            continue
        left = levels
        for c in range(size):
            # levels * count may not fit into 64 bits for huge users: divide the whole and the rest apart.
            whole, part = counts[c] // m, counts[c] % m
            told = whole * levels + part * levels // m
            rests[c] = part * levels % m
            out[c] += told
            left -= told
        while (
            left > 0
        ):  # fewer than ``size`` units are left: one each, the largest remainder first, ties to the earlier cell
            best = 0
            for c in range(1, size):
                if rests[c] > rests[best]:
                    best = c
            out[best] += 1
            rests[best] = -1
            left -= 1
    return out
