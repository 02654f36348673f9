"""Doubles that settle almost every draw of a small tree.

With ``D_0 = 0`` and ``m = max D_k`` a leaf weighs ``e**(lambda m) h``, ``h = sum of e**(-lambda (m - D_k))`` over the
labels.  Exponents stay integers: their maximum is subtracted per side and over roots, and ``e**(-lambda g)`` comes from
``t`` tables of 2**11 doubles rounded from balls (``law.levels``; ``numpy.exp`` is not trusted).  Only positive products
and sums follow.  With ``u = 2**-53``, ``K`` tests and ``c`` labels: a table entry errs by ``u``, a weight by
``(2t - 1) u``, ``h`` by ``(2t + c - 2) u``, a term by ``(6t + 2c - 1) u`` (two ``h``, a weight, a rounded prior, three
products), a side by ``K u`` more, a root by ``(2K + 14t + 4c + 1) u``, a cumulative sum of roots by ``(K - 1) u`` more.
So quotients are within

    root 2.04 (3K + 14t + 4c + 1) u      side 2.04 (K + 6t + 2c) u      label 2.04 (2t + c) u

each plus ``2**-900`` for terms below ``e**-700``, which count as 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.small_trees.cells import TreeCells
from privpac.concepts.small_trees.shape import TreeShape
from privpac.law.levels import Powers, Rate

__all__ = ["Corners", "TreeFilter", "corners"]

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

_UNIT = 2.0**-53
_DROPPED = 2.0**-900
_FARTHEST = 700
_ENTRIES = 1 << 16
"""Pairs of tests in work at a time."""


@dataclass(frozen=True)
class Corners:
    """``D`` on one side of some roots: all of the side, and where each further test holds."""

    side: Ints
    held: Ints

    @property
    def failed(self) -> Ints:
        return self.side[:, :, None] - self.held


def corners(cells: TreeCells, first: int, last: int) -> tuple[Corners, Corners]:
    """Both sides of the roots ``first..last - 1``, with axes label, root, test."""
    both, single = cells.both[:, first:last], cells.single
    root = single[:, first:last]
    return Corners(root, both), Corners(cells.total[:, None] - root, single[:, None, :] - both)


@dataclass(frozen=True)
class TreeFilter:
    """The weights of roots, sides and labels as doubles, each choice with a bound on its error."""

    shape: TreeShape
    cells: TreeCells
    rate: Fraction

    @cached_property
    def _cut(self) -> int | None:
        """The last gap that has a weight."""
        return None if self.rate == 0 else _FARTHEST * self.rate.denominator // self.rate.numerator

    @cached_property
    def _powers(self) -> Powers:
        both = self.cells.both
        most = int(max(np.abs(part).max(initial=0) for part in (both, self.cells.single, self.cells.total)))
        # A corner is at most a signed sum of four cells, and a root has four corners.
        top = 16 * most if self._cut is None else min(self._cut, 16 * most)
        return Powers.of(Rate(Fraction(0) if self.rate == 0 else self.rate), 0 if self.rate == 0 else top)

    def _weight(self, gaps: Ints) -> Doubles:
        """``e**(-rate * gap)``, 0 beyond the cut."""
        if self._cut is None:
            return np.ones(gaps.shape, dtype=np.float64)
        flat = gaps.reshape(-1)
        found = self._powers.weights(np.minimum(flat, self._cut))
        found[flat > self._cut] = 0.0
        return found.reshape(gaps.shape)

    def _leaf(self, cell: Ints) -> tuple[Ints, Doubles]:
        """Exponent and ``h`` of leaves, summed over labels."""
        if len(cell) == 1:
            return np.maximum(cell[0], 0), 1.0 + self._weight(np.abs(cell[0]))
        top = np.maximum(cell.max(axis=0), 0)
        return top, self._weight(top) + sum(self._weight(top - one) for one in cell)

    def _terms(self, corner: Corners) -> tuple[Ints, Doubles]:
        """For every root the largest exponent of the side, and the terms of its options, the leaf first."""
        exponent, h = self._leaf(corner.side)
        if self.shape.depth == 1:
            return exponent, (float(self.shape.leaf) * h)[:, None]
        (first, h_held), (second, h_failed) = self._leaf(corner.held), self._leaf(corner.failed)
        exponents = np.concatenate([exponent[:, None], first + second], axis=1)
        top = exponents.max(axis=1)
        scale = self._weight(top[:, None] - exponents)
        terms = np.empty_like(scale)
        terms[:, 0] = float(self.shape.leaf) * h
        terms[:, 1:] = self._asks * (h_held * h_failed)
        return top, terms * scale

    @cached_property
    def _asks(self) -> Doubles:
        return np.array([float(weight) for weight in self.shape.asks], dtype=np.float64)

    # Choices: cumulative quotients and their error

    @cached_property
    def roots(self) -> tuple[Doubles, float]:
        k, step = self.shape.tests, max(1, _ENTRIES // self.shape.tests)
        exponents, sums = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.float64)
        for first in range(0, k, step):
            last = min(first + step, k)
            (top, terms), (below, others) = map(self._terms, corners(self.cells, first, last))
            exponents[first:last], sums[first:last] = top + below, terms.sum(axis=1) * others.sum(axis=1)
        prior = np.array([float(weight) for weight in self.shape.prior], dtype=np.float64)
        return self._quotients(
            prior * sums * self._weight(exponents.max() - exponents),
            3 * k + 14 * len(self._powers.tables) + 4 * self.shape.labels + 1,
        )

    def options(self, root: int, yes: bool) -> tuple[Doubles, float]:
        """The options of one side, the leaf first."""
        _, terms = self._terms(corners(self.cells, root, root + 1)[0 if yes else 1])
        return self._quotients(terms[0], self.shape.tests + 6 * len(self._powers.tables) + 2 * self.shape.labels)

    def labels(self, cell: Ints) -> tuple[Doubles, float]:
        """The labels of a leaf with these ``D``."""
        values = np.concatenate([np.zeros(1, dtype=np.int64), cell])
        return self._quotients(self._weight(values.max() - values), 2 * len(self._powers.tables) + self.shape.labels)

    @staticmethod
    def _quotients(weights: Doubles, units: int) -> tuple[Doubles, float]:
        cumulative = np.cumsum(weights)
        return cumulative / cumulative[-1], 2.04 * units * _UNIT + _DROPPED
