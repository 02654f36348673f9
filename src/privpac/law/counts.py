"""Exact sums of many multiplicities.

A multiplicity ``c >= 1`` is stored as ``span = c - 1`` in a uint64 array; the few that do not fit stand in a sparse
dictionary ``{index: c}`` of Python ints.  Sums are exact: 32-bit halves are added separately, by ``bincount`` in chunks
of at most 2**20 entries (each partial sum is below 2**53, hence exact in a double) or as int64 along sorted runs.
With at most ``MAX_BLOCKS`` entries neither half overflows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_BLOCKS", "Ints", "Totals", "Uints", "grouped", "locate", "nth"]

Uints = NDArray[np.uint64]
Ints = NDArray[np.int64]
MAX_BLOCKS = 1 << 30
_CHUNK = 1 << 20
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


@dataclass(frozen=True)
class Totals:
    """Multiplicities ``low + 2**32 * high``, plus what single blocks beyond 2**64 add to them."""

    low: Ints
    high: Ints | None
    extra: dict[int, int]

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, j: int) -> int:
        high = 0 if self.high is None else int(self.high[j])
        return int(self.low[j]) + (high << 32) + self.extra.get(j, 0)

    def __iter__(self) -> Iterator[int]:
        return iter(self.part(0, len(self)))

    def total(self) -> int:
        """Their sum; neither half overflows, however many groups."""
        high = 0 if self.high is None else int(self.high.sum())
        return int(self.low.sum()) + (high << 32) + sum(self.extra.values())

    def part(self, start: int, stop: int) -> list[int]:
        """Some of them as Python ints."""
        out: list[int] = self.low[start:stop].tolist()
        if self.high is not None:
            out = [a + (b << 32) for a, b in zip(out, self.high[start:stop].tolist())]
        for j, more in self.extra.items():
            if start <= j < stop:
                out[j - start] += more
        return out

    def floats(self) -> NDArray[np.float64]:
        """As doubles, relative error at most 2.01 * 2**-53: two conversions and one sum of non-negative numbers."""
        out = self.low.astype(np.float64)
        if self.high is not None:
            out += self.high.astype(np.float64) * 2.0**32
        for j in self.extra:
            out[j] = float(self[j])
        return out


def grouped(keys: Ints, span: Uints, big: dict[int, int]) -> tuple[Ints, Totals]:
    """Distinct non-negative keys, ascending, and the total multiplicity of each: one counting pass or one sort."""
    top = int(span.max())
    unit = top == 0 and not big
    width = int(keys.max()) + 1
    dense = width <= 4 * (len(keys) if unit else min(len(keys), _CHUNK)) + 1024
    high: Ints | None = None
    if dense:
        low: Ints = np.bincount(keys, minlength=width)
        distinct = np.flatnonzero(low)
        if top * len(keys) < 1 << 53:
            low = low if top == 0 else low + np.bincount(keys, weights=span, minlength=width).astype(np.int64)
        else:
            low = low + _bincount_halves(keys, span, width, 0)
            high = _bincount_halves(keys, span, width, 1) if top >> 32 else None
        if len(distinct) < width:
            low, high = low[distinct], None if high is None else high[distinct]
    elif unit:
        ordered = np.sort(keys)
        starts = _run_starts(ordered)
        distinct, low = (
            (ordered, np.ones_like(keys))
            if len(starts) == len(keys)
            else (ordered[starts], _run_lengths(starts, len(keys)))
        )
    else:
        ordered, order = _sorted(keys, width)
        starts, spans = _run_starts(ordered), span[order]
        distinct, low = ordered[starts], (spans & _LOW).view(np.int64)
        high = (spans >> _SHIFT).view(np.int64) if top >> 32 else None
        if len(starts) < len(keys):
            low, high = np.add.reduceat(low, starts), None if high is None else np.add.reduceat(high, starts)
        low = low + _run_lengths(starts, len(keys))
    extra: dict[int, int] = {}
    for i, count in big.items():
        j = int(np.searchsorted(distinct, keys[i]))
        extra[j] = extra.get(j, 0) + count - 1 - int(span[i])
    return distinct, Totals(low, high, extra)


def _bincount_halves(keys: Ints, span: Uints, width: int, half: int) -> Ints:
    """Sums of the low (0) or high (1) 32 bits of the spans."""
    halves = np.ascontiguousarray(span).view(np.uint32)[half if sys.byteorder == "little" else 1 - half :: 2]
    total = np.zeros(width, dtype=np.int64)
    for at in range(0, len(keys), _CHUNK):
        total += np.bincount(keys[at : at + _CHUNK], weights=halves[at : at + _CHUNK], minlength=width).astype(np.int64)
    return total


def _run_starts(ordered: Ints) -> NDArray[np.intp]:
    new = np.empty(len(ordered), dtype=bool)
    new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)


def _run_lengths(starts: NDArray[np.intp], n: int) -> Ints:
    out = np.empty(len(starts), dtype=np.int64)
    np.subtract(starts[1:], starts[:-1], out=out[:-1])
    out[-1] = n - starts[-1]
    return out


def _sorted(keys: Ints, width: int) -> tuple[Ints, NDArray[np.intp]]:
    """Sorted keys and their places: one plain sort of (key, place) packed in 63 bits where they fit."""
    bits = (len(keys) - 1).bit_length()
    if width.bit_length() + bits <= 63:
        packed = np.sort((keys << bits) | np.arange(len(keys), dtype=np.int64))
        return packed >> bits, packed & ((1 << bits) - 1)
    order = np.argsort(keys, kind="stable")
    return keys[order], order


def nth(mask: NDArray[np.bool_], r: int) -> int:
    """The place of the ``r``-th True."""
    for at in range(0, len(mask), _CHUNK >> 4):
        part = mask[at : at + (_CHUNK >> 4)]
        held = int(np.count_nonzero(part))
        if r < held:
            return at + int(np.flatnonzero(part)[r])
        r -= held
    raise IndexError("fewer True entries than asked for")


def locate(members: NDArray[np.intp], r: int, span: Uints, big: dict[int, int]) -> tuple[int, int]:
    """The block (and offset inside it) of the ``r``-th value among ``members``, in order."""
    chosen = span[members]
    if big and any(_holds(members, i) for i in big):
        counts = [big.get(i, s + 1) for i, s in zip(members.tolist(), chosen.tolist())]
        ends = list(accumulate(counts))
        j = next(j for j, end in enumerate(ends) if r < end)
        return int(members[j]), r - (ends[j] - counts[j])
    if not chosen.any():
        return int(members[r]), 0
    # Two-limb cumulative sums; at most 2**30 members, so neither limb overflows before it is normalised.
    low = np.cumsum(chosen & _LOW) + np.arange(1, len(chosen) + 1, dtype=np.uint64)
    high = np.cumsum(chosen >> _SHIFT) + (low >> _SHIFT)
    low &= _LOW
    r_high, r_low = r >> 32, r & 0xFFFFFFFF
    first = int(np.searchsorted(high, np.uint64(r_high), side="left"))
    last = int(np.searchsorted(high, np.uint64(r_high), side="right"))
    j = first + int(np.searchsorted(low[first:last], np.uint64(r_low), side="right"))
    end = (int(high[j]) << 32) + int(low[j])
    return int(members[j]), r - (end - int(chosen[j]) - 1)


def _holds(members: NDArray[np.intp], i: int) -> bool:
    at = int(np.searchsorted(members, i))
    return at < len(members) and int(members[at]) == i
