"""Clipped sums for many nested sets of ordered cells: one sweep over the records instead of one count per set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpac.data import UserData
from privpac.data.jit import jit
from privpac.distributions.selection.kernels import group_sizes, interval_sums

__all__ = ["Sweep", "around", "worst"]

Ints = NDArray[np.int64]
Floats64 = NDArray[np.float64]


@jit
def _by_cell(index: Ints, owner: Ints, n_cells: int) -> tuple[Ints, Ints]:
    """Owners of the records cell by cell, and where each cell begins."""
    starts = np.zeros(n_cells + 1, np.int64)
    for i in range(index.size):
        starts[index[i] + 1] += 1
    for j in range(n_cells):
        starts[j + 1] += starts[j]
    heads, out = starts[:-1].copy(), np.empty(index.size, np.int64)
    for i in range(index.size):
        out[heads[index[i]]] = owner[i]
        heads[index[i]] += 1
    return out, starts


@jit
def around(thresholds: Ints, along: Floats64) -> Ints:
    """``2 j + 1`` on the j-th threshold (integers, increasing), ``2 j`` between it and the one before."""
    least, most = thresholds[0], thresholds[-1]
    upto = np.zeros(most - least + 1, np.int64)
    for t in thresholds:
        upto[t - least] = 1
    for j in range(1, upto.size):
        upto[j] += upto[j - 1]
    out = np.empty(along.size, np.int64)
    for i in range(along.size):
        if along[i] < least:
            out[i] = 0
        elif along[i] > most:
            out[i] = 2 * thresholds.size
        else:
            whole = np.int64(np.floor(along[i]))
            j = upto[whole - least]
            out[i] = 2 * j - int(along[i] == whole and thresholds[j - 1] == whole)
    return out


class Sweep:
    """Users prepared for sweeps over ordered cells."""

    def __init__(self, users: UserData) -> None:
        sizes = users.sizes
        filled = sizes > 0
        self.sizes = sizes[filled]
        self.owner = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.groups = group_sizes(self.sizes)

    def sums(self, index: Ints, n_cells: int, sets: Ints, q: Ints, unit: int, top: int) -> Ints:
        """Clipped sums for sets of ordered cells (see
        :func:`privpac.distributions.selection.kernels.interval_sums`)."""
        if not len(self.sizes):
            return np.zeros(len(sets), np.int64)
        owner, starts = _by_cell(index, self.owner, n_cells)
        return interval_sums(owner, starts, self.sizes, *self.groups, sets, q, unit, top)


def worst(sums: Ints, first: Ints, size: int) -> Ints:
    """The largest of each member's pair sums; ``first`` names the member of each sum."""
    out = np.full(size, np.iinfo(np.int64).min)
    if len(first):
        # Sorting and reducing runs of equal members takes a tenth of the time of ``maximum.at``.
        order = np.argsort(first, kind="stable")
        held = first[order]
        begins = np.flatnonzero(np.append(True, held[1:] != held[:-1]))
        out[held[begins]] = np.maximum.reduceat(sums[order], begins)
    return out
