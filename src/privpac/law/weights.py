"""Public weights of values beside their scores: constant on few runs, whatever the number of values.

A value of weight ``w`` holds ``w`` of the *tickets* of its level, so that a draw stays a level by its number of tickets
and then a ticket, uniformly: weights are exact integers, and sums over a block are ``count * w``.  They are public and
the same in two laws that are compared, so they cancel in every ratio of probabilities.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.arrays import Floats64, Ints
from privpac.errors import LawError

Uints = NDArray[np.uint64]
_FITS = 2.0**63


@frozen(slots=False)
class Weights:
    """Value ``v`` weighs ``values[i]``, ``i`` the last run with ``starts[i] <= v % size``: several scores of the same
    rules have the same weights.

    >>> weights = Weights.of([(0, 4), (1, 3), (5, 3)], 8)
    >>> weights.starts, weights.total, weights.least, weights.weight(8)
    ((0, 1), 25, 3, 4)
    """

    starts: tuple[int, ...]
    values: tuple[int, ...]
    size: int

    def __attrs_post_init__(self) -> None:
        ends = [*self.starts, self.size]
        if len(self.starts) != len(self.values) or ends[0] != 0 or any(a >= b for a, b in pairwise(ends)):
            raise LawError("weights need increasing starts from 0 on, one weight each, below the number of values")
        if min(self.values) < 1:
            raise LawError("every weight must be an integer of at least 1")

    @classmethod
    def of(cls, runs: Iterable[tuple[int, int]], size: int) -> Weights:
        """From runs ``(first value, weight)`` in order; neighbours of equal weight become one."""
        starts: list[int] = []
        values: list[int] = []
        for start, value in runs:
            if not values or values[-1] != value:
                starts.append(start)
                values.append(value)
        return cls(tuple(starts), tuple(values), size)

    @cached_property
    def total(self) -> int:
        """The sum over all values."""
        return sum((b - a) * w for (a, b), w in zip(pairwise([*self.starts, self.size]), self.values))

    @property
    def least(self) -> int:
        return min(self.values)

    def weight(self, value: int) -> int:
        """The weight of one value."""
        return self.values[bisect_right(self.starts, value % self.size) - 1]

    def runs(self, first: int, last: int) -> tuple[Uints, Ints]:
        """The runs of the values ``first..last``: where they begin, counted from ``first``, and their indices."""
        at = first % self.size
        i, j = bisect_right(self.starts, at) - 1, bisect_right(self.starts, at + last - first)
        begins = [max(start - at, 0) for start in self.starts[i:j]]
        return np.array(begins, dtype=np.uint64), np.arange(i, j)

    @cached_property
    def _floats(self) -> Floats64:
        return np.array([float(value) for value in self.values])

    @cached_property
    def _words(self) -> Uints:
        return np.array([value if value < 1 << 64 else 0 for value in self.values], dtype=np.uint64)

    def masses(self, span: Uints, which: Ints) -> Floats64:
        """``count * weight`` of blocks as doubles: two roundings of the count, one of the weight and one of the
        product, at most 4.02 * 2**-53 in all."""
        return np.asarray((span.astype(np.float64) + 1) * self._floats[which])

    def tickets(self, span: Uints, which: Ints) -> tuple[Uints, dict[int, int]]:
        """``count * weight`` of blocks, stored as multiplicities are: one less, and in a dictionary beyond 64 bits."""
        fits = self.masses(span, which) < _FITS
        # Doubles err by less than half: what they put below 2**63 is below 2**64, and both factors fit 64 bits.
        out = (span + np.uint64(1)) * self._words[which] - np.uint64(1)
        big: dict[int, int] = {}
        for i in np.flatnonzero(~fits).tolist():
            count = (int(span[i]) + 1) * self.values[which[i]]
            out[i] = 0 if count > 1 << 64 else count - 1
            if count > 1 << 64:
                big[i] = count
        return out, big


def split_runs(lows: Uints, span: Uints, begins: Uints) -> tuple[Uints, Uints, NDArray[np.intp]]:
    """Blocks ``low..low + span``, disjoint and in order, cut where runs begin: lows, spans, and the block each was.

    >>> words = lambda *values: np.array(values, dtype=np.uint64)
    >>> low, span, source = split_runs(words(2, 9), words(6, 0), words(0, 5, 9))
    >>> low.tolist(), span.tolist(), source.tolist()
    ([2, 5, 9], [2, 3, 0], [0, 0, 1])
    """
    place = np.searchsorted(lows, begins, side="right")
    block = np.maximum(place - 1, 0)
    inside = (place > 0) & (begins > lows[block]) & (begins - lows[block] <= span[block])
    source = np.insert(np.arange(len(lows)), place[inside], block[inside])
    cut = np.insert(lows, place[inside], begins[inside])
    last = (lows + span)[source]
    same = np.append(source[1:] == source[:-1], False)
    last[same] = cut[1:][same[:-1]] - np.uint64(1)
    return cut, last - cut, source


def of_blocks(lows: Uints, begins: Uints, index: Ints) -> Ints:
    """The run that each block lies in, after :func:`split`; ``begins[0]`` is at or before the first block."""
    place = np.searchsorted(lows, begins, side="left")
    place[0] = 0
    return np.repeat(index, np.diff(np.append(place, len(lows))))
