"""The dyadic race: up to ``2**64`` candidates, never enumerated.

The exponential clocks of all leaves of a binary tree are defined lazily through the minima of subtrees.  The least of
``2**k`` standard exponential clocks has rate ``2**k`` and sits at a uniform leaf independent of its value; by
memorylessness the other half's minimum exceeds it by a fresh exponential of rate ``2**(k-1)``.  So one hash per node
says which child inherits the minimum and how much later the other one is, and the leaves are independent standard
exponentials.

Scores are constant on blocks of leaves.  Keys grow with the clock inside a block, so the winner is the leaf-wise winner
and does not depend on how a user cuts the domain into blocks.  Search is best first: a node's minimum and the least
score over its range bound every leaf below from below.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.races.flat import INFINITE, check_race, penalty, score_array
from privpac.agreement.races.words import clock, derive, ilog2, integer, le64
from privpac.errors import ParameterError

__all__ = [
    "Component",
    "Winner",
    "block_component",
    "interval_min",
    "leaf_component",
    "race_blocks",
    "race_dyadic",
    "race_scores",
]

_ROOT = 255


class Winner(NamedTuple):
    """The winning leaf with its key, in the order in which keys are compared."""

    cost: int
    clock: int
    component: int
    leaf: int


# The tree of clocks


class _Clocks:
    """The clocks of one component's ``2**bits`` leaves."""

    def __init__(self, key: bytes, component: int, bits: int) -> None:
        self.bits = bits
        self._key = derive(key, "component", component)

    def _words(self, level: int, prefix: int) -> tuple[int, int]:
        digest = hashlib.blake2b(bytes((level,)) + le64(prefix), digest_size=16, key=self._key).digest()
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")

    def root(self) -> int:
        return clock(self._words(_ROOT, 0)[0]) << (64 - self.bits)

    def children(self, level: int, prefix: int, minimum: int) -> tuple[int, int]:
        """The minima of the two children of a node."""
        w, v = self._words(level, prefix)
        later = minimum + (clock(v) << (64 - self.bits + level + 1))
        return (later, minimum) if w & 1 else (minimum, later)

    def first(self, level: int, prefix: int) -> int:
        """The leaf below a node that attains its minimum."""
        for deeper in range(level, self.bits):
            prefix = 2 * prefix + (self._words(deeper, prefix)[0] & 1)
        return prefix


# Scores by component


@dataclass(frozen=True)
class Component:
    """Scores of one component's leaves: block ``i`` starts at leaf ``starts[i]`` and ends before the next one.

    ``INFINITE`` marks leaves outside the support.  The last block ends at leaf ``size - 1``; leaves from ``size`` on do
    not run.
    """

    number: int
    size: int
    starts: NDArray[np.uint64] | None
    scores: NDArray[np.int64]

    @property
    def bits(self) -> int:
        return max(1, (self.size - 1).bit_length())

    # Minima over aligned runs of 2**j leaves (one leaf per score), or over 2**j consecutive blocks.
    @cached_property
    def _minima(self) -> list[NDArray[np.int64]]:
        rows = [self.scores]
        if self.starts is None:
            while len(rows[-1]) > 1:
                row = rows[-1]
                if len(row) % 2:
                    row = np.append(row, INFINITE)
                rows.append(np.minimum(row[0::2], row[1::2]))
            return rows
        while 2 ** len(rows) <= len(self.scores):
            row, step = rows[-1], 2 ** (len(rows) - 1)
            rows.append(np.minimum(row[:-step], row[step:]))
        return rows

    def least(self, level: int, prefix: int) -> tuple[int, bool]:
        """The least score over a node's range, and whether the range lies inside one block."""
        height = self.bits - level
        if self.starts is None:
            row = self._minima[height] if height < len(self._minima) else self._minima[-1]
            return (int(row[prefix]) if prefix < len(row) else int(INFINITE)), height == 0
        low, high = prefix << height, min(((prefix + 1) << height) - 1, self.size - 1)
        if low >= self.size:
            return int(INFINITE), True
        i = int(np.searchsorted(self.starts, np.uint64(low), side="right")) - 1
        j = int(np.searchsorted(self.starts, np.uint64(high), side="right"))
        row = self._minima[(j - i).bit_length() - 1]
        step = 1 << ((j - i).bit_length() - 1)
        # A node that reaches beyond the last leaf is not inside a block: its first clock may belong to a leaf that does
        # not run.
        return min(int(row[i]), int(row[j - step])), j - i == 1 and (prefix + 1) << height <= self.size


def leaf_component(scores: Sequence[int | None] | NDArray[Any], m: int, number: int = 0) -> Component:
    """One score per leaf."""
    array = score_array(scores, m)
    if not len(array):
        raise ParameterError("a race needs at least one candidate")
    return Component(number, len(array), None, array)


def block_component(
    starts: NDArray[np.uint64], scores: Sequence[int | None] | NDArray[Any], size: int, m: int, number: int = 0
) -> Component:
    """Blocks of leaves with equal score; ``starts`` increases from 0, the last block ends at leaf ``size - 1``."""
    size = integer("size", size, 1, 1 << 64)
    begins = np.asarray(starts)
    array = score_array(scores, m)
    if begins.dtype != np.uint64 or begins.ndim != 1 or begins.shape != array.shape or not len(begins):
        raise ParameterError("starts must be unsigned 64-bit integers, one for every score")
    if begins[0] != 0 or np.any(begins[1:] <= begins[:-1]) or int(begins[-1]) >= size:
        raise ParameterError(f"starts must increase strictly from 0 to at most {size - 1}")
    return Component(integer("component", number, 0), size, begins, array)


# Races


def race_dyadic(key: bytes, components: Sequence[Component], m: int, Gamma: int) -> Winner | None:
    """The winner over all components, by best-first search; ``None`` if the support is empty."""
    m, Gamma = check_race(m, Gamma)
    clocks = [_Clocks(key, part.number, part.bits) for part in components]
    heap: list[tuple[int, int, int, int, int, bool]] = []

    def push(part: int, level: int, prefix: int, minimum: int) -> None:
        least, flat = components[part].least(level, prefix)
        if least != INFINITE:
            cost = ilog2(minimum, 40) + penalty(least, m, Gamma)
            heapq.heappush(heap, (cost, minimum, part, level, prefix, flat))

    for part, tree in enumerate(clocks):
        push(part, 0, 0, tree.root())
    best: Winner | None = None
    while heap:
        cost, minimum, part, level, prefix, flat = heapq.heappop(heap)
        # Every leaf still below the heap has at least this (cost, clock); equal ones are looked at, for the tie by
        # leaf.
        if best is not None and (cost, minimum) > best[:2]:
            break
        tree = clocks[part]
        if flat:
            # Inside a block every other leaf has a later clock and at least the same cost.
            found = Winner(cost, minimum, components[part].number, tree.first(level, prefix))
            best = found if best is None else min(best, found)
            continue
        for side, below in enumerate(tree.children(level, prefix, minimum)):
            push(part, level + 1, 2 * prefix + side, below)
    return best


def race_scores(key: bytes, scores: Sequence[int | None] | NDArray[Any], m: int, Gamma: int) -> Winner | None:
    """The dyadic race of an indexed class, one score per index."""
    m, Gamma = check_race(m, Gamma)
    return race_dyadic(key, [leaf_component(scores, m)], m, Gamma)


# The definition itself, kept as the reference of the search


def interval_min(key: bytes, component: int, bits: int, low: int, high: int) -> tuple[int, int]:
    """The least ``(clock, leaf)`` among the leaves ``low..high``, by the canonical dyadic cover."""
    bits = integer("bits", bits, 1, 64)
    low, high = integer("low", low, 0, (1 << bits) - 1), integer("high", high, 0, (1 << bits) - 1)
    if low > high:
        raise ParameterError(f"low must be at most high, got {low} > {high}")
    tree = _Clocks(key, component, bits)
    best: tuple[int, int] | None = None
    stack = [(0, 0, tree.root())]
    while stack:
        level, prefix, minimum = stack.pop()
        height = bits - level
        begin, end = prefix << height, ((prefix + 1) << height) - 1
        if end < low or high < begin:
            continue
        if low <= begin and end <= high:
            entry = (minimum, tree.first(level, prefix))
            best = entry if best is None else min(best, entry)
            continue
        left, right = tree.children(level, prefix, minimum)
        stack += [(level + 1, 2 * prefix, left), (level + 1, 2 * prefix + 1, right)]
    assert best is not None
    return best


def race_blocks(
    key: bytes, blocks: Sequence[tuple[int, int, int | None]], bits: int, m: int, Gamma: int, component: int = 0
) -> Winner | None:
    """The winner over blocks ``(low, high, score)``, block by block as the race is defined; ``None`` if the support is
    empty."""
    m, Gamma = check_race(m, Gamma)
    best: Winner | None = None
    for low, high, score in blocks:
        if score is None:
            continue
        minimum, leaf = interval_min(key, component, bits, low, high)
        found = Winner(
            ilog2(minimum, 40) + penalty(integer("a score", score, 0, m), m, Gamma), minimum, component, leaf
        )
        best = found if best is None else min(best, found)
    return best
