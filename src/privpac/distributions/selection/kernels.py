"""Sums over users of clipped Scheffé counts, without a Python loop over users or records.

For a pair of candidates with set ``W`` of public probability ``q / L``, a user with ``m`` records of which ``c`` lie in
``W`` contributes ``clip(m q - L c, -T, T)``.  That clip is the privacy proof: whatever the records, the contribution
stays in ``[-T, T]``.  The kernels differ only in how they find ``c``: by comparing public ranks of the candidates in
the record's cell, by comparing densities at the record, or by sweeping nested intervals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpac.arrays import Array, Floats64, Ints
from privpac.data import UserData
from privpac.data.loops import jit


@jit
def _add_clipped(out: Ints, q: Ints, count: Array, m: int, unit: int, top: int) -> None:
    for p in range(out.shape[0]):
        for r in range(out.shape[1]):
            value = m * q[p, r] - unit * np.int64(count[p, r])
            out[p, r] += min(max(value, -top), top)


@jit
def _count_ranks(small: NDArray[np.uint8], above: Array, theirs: Array) -> None:
    for p in range(small.shape[0]):
        mine, row = above[p], small[p]
        for r in range(small.shape[1]):
            row[r] = np.uint8(row[r] + np.uint8(mine > theirs[r]))


@jit
def _add_narrow(
    part: NDArray[np.int32], q: NDArray[np.int32], count: Array, m: np.int32, unit: np.int32, top: np.int32
) -> None:
    for p in range(part.shape[0]):
        row, counts, likely = part[p], count[p], q[p]
        for r in range(part.shape[1]):
            value = np.int32(m * likely[r] - unit * np.int32(counts[r]))
            row[r] = np.int32(row[r] + min(max(value, np.int32(-top)), top))


@jit
def _empty_into(out: Ints, part: Array) -> None:
    """Add, and begin again."""
    for p in range(out.shape[0]):
        for r in range(out.shape[1]):
            out[p, r] += np.int64(part[p, r])
            part[p, r] = 0


@jit
def rank_sums(offsets: Ints, cells: Ints, above: Array, below: Array, q: Ints, unit: int, top: int) -> Ints:
    """All pair sums of users whose contributions may be clipped: ``m unit > top`` and at least two records.

    ``z`` is in ``W`` iff ``above[cell, P] > below[cell, Q]``; ``below`` is padded on the right with ranks that nothing
    exceeds. Counters have 8 bits and sums 32 where they provably suffice; both are emptied into 64 bits before they
    could overflow.
    """
    size, width = q.shape[0], below.shape[1]
    out = np.zeros((size, width), np.int64)
    likely, narrow = np.zeros((size, width), np.int64), np.zeros((size, width), np.int32)
    for p in range(size):
        for r in range(size):
            likely[p, r], narrow[p, r] = q[p, r], np.int32(q[p, r])
    small, wide = np.zeros((size, width), np.uint8), np.zeros((size, width), np.int64)
    part, added, room = np.zeros((size, width), np.int32), 0, (1 << 31) // top - 1
    for user in range(offsets.size - 1):
        first, last = offsets[user], offsets[user + 1]
        m = last - first
        if m < 2 or m * unit <= top:
            continue
        small[:] = 0
        if m <= 255 and m * unit < 1 << 30:
            for i in range(first, last):
                _count_ranks(small, above[cells[i]], below[cells[i]])
            if added == room:
                _empty_into(out, part)
                added = 0
            _add_narrow(part, narrow, small, np.int32(m), np.int32(unit), np.int32(top))
            added += 1
        else:
            wide[:] = 0
            for i in range(first, last):
                _count_ranks(small, above[cells[i]], below[cells[i]])
                if (i - first) % 255 == 254:
                    _empty_into(wide, small)
            _empty_into(wide, small)
            _add_clipped(out, likely, wide, m, unit, top)
    _empty_into(out, part)
    return out[:, :size].copy()


@jit
def linear_sums(times: Ints, above: Array, below: Array, q: Ints, unit: int) -> Ints:
    """All pair sums of users who cannot be clipped (``m unit <= top``), given their records in each cell together."""
    size = q.shape[0]
    out: Ints = q * times.sum()
    for cell in range(times.size):
        if times[cell] == 0:
            continue
        for p in range(size):
            for r in range(size):
                if above[cell, p] > below[cell, r]:
                    out[p, r] -= unit * times[cell]
    return out


@jit
def single_sums(times: Ints, above: Array, below: Array, q: Ints, unit: int, top: int) -> Ints:
    """All pair sums for users with one record, given how many of them have it in each cell."""
    size = q.shape[0]
    out = np.zeros((size, size), np.int64)
    for cell in range(times.size):
        if times[cell] == 0:
            continue
        for p in range(size):
            for r in range(size):
                value = q[p, r] - (unit if above[cell, p] > below[cell, r] else 0)
                out[p, r] += times[cell] * min(max(value, -top), top)
    return out


def tally(offsets: Ints, cells: Ints, n_cells: int, unit: int, top: int) -> tuple[Ints, Ints]:
    """Records in each cell of the users with one record, and of the users with more who cannot be clipped."""
    sizes = np.diff(offsets)
    one = np.bincount(cells[offsets[:-1][sizes == 1]], minlength=n_cells)
    free = np.repeat((sizes > 1) & (sizes <= top // unit), sizes)
    return one.astype(np.int64), np.bincount(cells[free], minlength=n_cells).astype(np.int64)


@jit
def density_sums(offsets: Ints, density: NDArray[np.float64], q: Ints, unit: int, top: int) -> Ints:
    """All pair sums from log densities at the records (rows); NaN and equal values are in no set."""
    size = q.shape[0]
    out = np.zeros((size, size), np.int64)
    count = np.zeros((size, size), np.int64)
    for user in range(offsets.size - 1):
        first, last = offsets[user] - offsets[0], offsets[user + 1] - offsets[0]
        if last == first:
            continue
        count[:] = 0
        for i in range(first, last):
            for p in range(size):
                for r in range(size):
                    count[p, r] += np.int64(density[i, p] > density[i, r])
        _add_clipped(out, q, count, last - first, unit, top)
    return out


# Intervals of ordered cells


@jit
def clipped_sum(q: int, unit: int, top: int, sizes: Ints, base: Ints, number: Ints, total: Ints) -> int:
    """``sum of clip(m q - unit c)`` from prefix sums over ``c``: constant, linear, constant."""
    out = 0
    for k in range(sizes.size):
        m, start = sizes[k], base[k]
        # c <= low gives +top, c >= high gives -top.
        low = min(max((m * q - top) // unit, -1), m)
        high = min(max(-((-m * q - top) // unit), low + 1), m + 1)
        upto_low = number[start + low] if low >= 0 else 0
        sum_low = total[start + low] if low >= 0 else 0
        upto_high = number[start + high - 1] if high >= 1 else 0
        sum_high = total[start + high - 1] if high >= 1 else 0
        everyone = number[start + m]
        out += top * upto_low - top * (everyone - upto_high)
        out += m * q * (upto_high - upto_low) - unit * (sum_high - sum_low)
    return out


@jit
def prefix_sums(histogram: Ints, sizes: Ints, base: Ints, number: Ints, total: Ints) -> None:
    """Users with at most ``c`` records in the set, and their counts together, for each number of records."""
    for k in range(sizes.size):
        n, t = 0, 0
        for c in range(sizes[k] + 1):
            n += histogram[base[k] + c]
            t += c * histogram[base[k] + c]
            number[base[k] + c], total[base[k] + c] = n, t


@jit
def interval_sums(
    owner: Ints,
    starts: Ints,
    user_size: Ints,
    sizes: Ints,
    base: Ints,
    user_base: Ints,
    sets: Ints,
    q: Ints,
    unit: int,
    top: int,
) -> Ints:
    """Sums for the sets ``[a, b)`` of ordered cells or their complements; ``sets`` has rows ``(a, b, complement)``
    sorted by a, then b.

    ``owner[starts[j]:starts[j+1]]`` are the users (with repetition) of the records in cell ``j``; ``sizes`` the
    distinct numbers of records, ``base`` where their histograms of ``c`` begin.  Sweeping ``b`` moves one user at a
    time from ``c`` to ``c + 1``.  On a complement ``m q - unit (m - c) = -(m (unit - q) - unit c)``, and the clip is
    odd.
    """
    out = np.zeros(sets.shape[0], np.int64)
    length = base[-1] + sizes[-1] + 1 if sizes.size else 0
    histogram = np.zeros(length, np.int64)
    number, total = np.zeros(length, np.int64), np.zeros(length, np.int64)
    count = np.zeros(user_base.size, np.int64)
    s = 0
    while s < sets.shape[0]:
        a = sets[s, 0]
        histogram[:] = 0
        count[:] = 0
        for user in range(user_base.size):
            histogram[user_base[user]] += 1
        reached = a
        while s < sets.shape[0] and sets[s, 0] == a:
            b = sets[s, 1]
            while reached < b:
                for i in range(starts[reached], starts[reached + 1]):
                    user = owner[i]
                    histogram[user_base[user] + count[user]] -= 1
                    count[user] += 1
                    histogram[user_base[user] + count[user]] += 1
                reached += 1
            end = s
            while end < sets.shape[0] and sets[end, 0] == a and sets[end, 1] == b:
                end += 1
            if length + (end - s) * sizes.size <= (end - s) * user_base.size:
                prefix_sums(histogram, sizes, base, number, total)
                for j in range(s, end):
                    if sets[j, 2]:
                        out[j] = -clipped_sum(unit - q[j], unit, top, sizes, base, number, total)
                    else:
                        out[j] = clipped_sum(q[j], unit, top, sizes, base, number, total)
            else:
                for j in range(s, end):
                    amount, sign = (unit - q[j], -1) if sets[j, 2] else (q[j], 1)
                    sum_ = 0
                    for user in range(user_base.size):
                        value = user_size[user] * amount - unit * count[user]
                        sum_ += min(max(value, -top), top)
                    out[j] = sign * sum_
            s = end
    return out


def group_sizes(sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct sizes, where the histogram of each begins, and where that of each user does."""
    distinct, place = np.unique(sizes, return_inverse=True)
    base = np.concatenate([np.zeros(1, np.int64), np.cumsum(distinct + 1)])[:-1].astype(np.int64)
    return distinct.astype(np.int64), base, base[place]


# Clipped sums for many nested sets of ordered cells: one sweep over the records instead of one count per set.


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
