"""The one exact law over all small trees.

With ``D`` the signed weight of a leaf's records (``concepts.small_trees.cells``) and ``lambda`` the rate, a tree weighs
``prior * e**(-lambda s)``, and ``s = others - sum over leaves of D_label``.  Given the tests this is a product over
leaves, so labels sum leaf by leaf, options side by side, and then the roots:

    Z = e**(-lambda others) * sum_i pi_i S_i(yes) S_i(no)
    S_i(side) = leaf * l(D) + sum_j ask_j l(D, j holds) l(D, j fails)         l(D) = 1 + sum_k e**(lambda D_k)

``K**2`` pairs of tests instead of ``4 K (2K+1)**2`` trees.  A draw goes from the top down: root, then for each side
leaf or test, then its labels; the conditional probabilities multiply to the law.  Each choice is drawn by inversion
with as many random bits as it needs, so no probability is approximate: doubles filter (``tree_filter``), balls decide.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from privpac.concepts.small_trees.cells import Ints, TreeCells
from privpac.concepts.small_trees.shape import Side, TreeShape
from privpac.errors import TooLargeError, Undecided
from privpac.exact import MAX_PRECISION, Ball, ExpSum, as_arb, ball_of, exp_ball, precision
from privpac.law import Law
from privpac.law.base import Cell
from privpac.law.finite import FiniteLaw
from privpac.law.levels import invert, settled
from privpac.law.numbers import Denominator, Number, Quotient
from privpac.learners.wide.tree_filter import Corners, Doubles, TreeFilter, corners
from privpac.learners.wide.tree_mode import most_likely
from privpac.rng import Rng, secret_rng

__all__ = ["MAX_LISTED", "SmallTreeLaw"]

MAX_LISTED = 1 << 16
"""Trees that are listed one by one at most."""

_KEPT = 1 << 10
"""Cells up to which a law says what it is."""


class SmallTreeLaw(Law):
    """``P(tree) = prior(tree) * e**(-rate * score(tree)) / Z`` over the ids of a class of small trees."""

    def __init__(self, shape: TreeShape, cells: TreeCells, rate: Fraction) -> None:
        self.shape, self.cells, self.rate = shape, cells, rate

    # Reading

    def gain(self, tree: int) -> int:
        """The weight that the tree's leaves win over "always label 0"."""
        root, yes, no = self.shape.parts(tree)
        sides = corners(self.cells, root, root + 1)
        return sum(_gain(corner, side) for corner, side in zip(sides, (yes, no)))

    def score(self, tree: int) -> int:
        """The summed votes against a tree."""
        return self.cells.others - self.gain(tree)

    def _number(self, value: Any) -> Number:
        if not isinstance(value, (int, np.integer)) or not 0 <= value < self.shape.size:
            return Quotient(())
        tree = int(value)
        return Quotient.of(ExpSum.exp(self.rate * self.gain(tree), self.shape.of_tree(tree)), self.total)

    def block_number(self, i: int) -> Number:
        return self._number(i)

    @cached_property
    def total(self) -> Denominator:
        """``Z`` without its factor ``e**(-rate * others)``."""
        flat = self.rate == 0 or not any(part.any() for part in (self.cells.total, self.cells.single, self.cells.both))
        return Denominator(self._sum, self._ball, irrational=not flat)

    def log_normaliser(self) -> Ball:
        """``ln of the sum of prior * e**(-rate * score)``; as private as the scores."""
        with precision(256):
            return ball_of(self.total.arb().log() - as_arb(self.rate * self.cells.others))

    def _listed(self) -> range:
        if self.shape.size > MAX_LISTED:
            raise TooLargeError(f"{self.shape.size} trees are too many to list; at most {MAX_LISTED} are")
        return range(self.shape.size)

    def as_finite(self) -> FiniteLaw:
        return FiniteLaw([(range(tree, tree + 1), self._number(tree)) for tree in self._listed()], {})

    def support(self) -> Iterator[Cell]:
        return (range(tree, tree + 1) for tree in self._listed())

    @property
    def mode(self) -> int:
        return most_likely(self.shape, self.cells, self.rate)

    # The normaliser

    def _leaf(self, cell: Ints) -> arb:
        return sum((exp_ball(self.rate * d) for d in cell.tolist()), arb(1))

    def _options(self, corner: Corners) -> list[arb]:
        """The terms of a side of one root, the leaf first."""
        out = [as_arb(self.shape.leaf) * self._leaf(corner.side[:, 0])]
        if self.shape.depth == 2:
            held, failed = corner.held[:, 0], corner.failed[:, 0]
            out += [
                as_arb(ask) * self._leaf(held[:, j]) * self._leaf(failed[:, j]) for j, ask in enumerate(self.shape.asks)
            ]
        return out

    def _roots(self) -> list[arb]:
        """The weight of every root."""
        return [
            as_arb(prior) * sum(self._options(yes), arb(0)) * sum(self._options(no), arb(0))
            for i, prior in enumerate(self.shape.prior)
            for yes, no in [corners(self.cells, i, i + 1)]
        ]

    def _ball(self) -> arb:
        return sum(self._roots(), arb(0))

    def _sum(self) -> ExpSum:
        """The same as an exponential sum, for decisions that no ball settles."""

        def leaf(cell: Ints) -> ExpSum:
            return ExpSum([(Fraction(0), Fraction(1)), *((self.rate * d, Fraction(1)) for d in cell.tolist())])

        def side(corner: Corners) -> ExpSum:
            out = leaf(corner.side[:, 0]) * self.shape.leaf
            for j, ask in enumerate(self.shape.asks):
                out = out + leaf(corner.held[:, 0, j]) * leaf(corner.failed[:, 0, j]) * ask
            return out

        total = ExpSum()
        for i, prior in enumerate(self.shape.prior):
            yes, no = corners(self.cells, i, i + 1)
            total = total + side(yes) * side(no) * prior
        return total

    # Sampling

    @cached_property
    def filter(self) -> TreeFilter:
        return TreeFilter(self.shape, self.cells, self.rate)

    def sample(self, rng: Rng | None = None) -> int:
        """One exact draw, from the top down."""
        source = secret_rng(rng)
        root = _choose(source, self.filter.roots, self._roots)
        both = corners(self.cells, root, root + 1)
        yes, no = (self._draw_side(source, root, corner, i == 0) for i, corner in enumerate(both))
        return self.shape.id(root, yes, no)

    def _draw_side(self, rng: Rng, root: int, corner: Corners, yes: bool) -> Side:
        option = _choose(rng, self.filter.options(root, yes), lambda: self._options(corner))
        if option == 0:
            return Side(None, (self._draw_label(rng, corner.side[:, 0]),))
        held, failed = corner.held[:, 0, option - 1], corner.failed[:, 0, option - 1]
        return Side(option - 1, (self._draw_label(rng, held), self._draw_label(rng, failed)))

    def _draw_label(self, rng: Rng, cell: Ints) -> int:
        return _choose(
            rng, self.filter.labels(cell), lambda: [arb(1), *(exp_ball(self.rate * d) for d in cell.tolist())]
        )

    # Divergences, without listing trees

    def _comparable(self, other: Law) -> bool:
        return isinstance(other, SmallTreeLaw) and (self.shape, self.rate) == (other.shape, other.rate)

    def _farthest(self, other: SmallTreeLaw) -> int:
        """The largest difference of gains over all trees: each leaf, side and root takes its own best."""
        mine, theirs = self.cells, other.cells
        delta = TreeCells(mine.total - theirs.total, mine.single - theirs.single, mine.both - theirs.both, 0)

        def side(corner: Corners) -> Ints:
            leaf: Ints = np.maximum(corner.side.max(axis=0), 0)
            if self.shape.depth == 1:
                return leaf
            asked = np.maximum(corner.held.max(axis=0), 0) + np.maximum(corner.failed.max(axis=0), 0)
            best: Ints = np.maximum(leaf, asked.max(axis=1))
            return best

        return max(
            int((side(yes) + side(no))[0]) for i in range(self.shape.tests) for yes, no in [corners(delta, i, i + 1)]
        )

    def max_divergence(self, other: Law, *, enough: Fraction | None = None) -> Ball | float:
        if not isinstance(other, SmallTreeLaw) or not self._comparable(other):
            return super().max_divergence(other, enough=enough)
        farthest = self._farthest(other)
        bits = 128
        while bits <= MAX_PRECISION:
            with precision(bits):
                found = ball_of(
                    as_arb(self.rate * farthest) + (other.total.arb() / self.total.arb()).log(), floor=Fraction(0)
                )
            if found.width <= max(found.hi, Fraction(1)) / (1 << 100):
                return found
            bits *= 2
        raise Undecided("a divergence of small trees was not enclosed")

    def identity(self) -> Hashable:
        cells = (self.cells.total, self.cells.single, self.cells.both)
        if sum(part.size for part in cells) > _KEPT:
            return None
        return self.shape, self.rate, tuple(tuple(part.ravel().tolist()) for part in cells)

    def dominated_by(self, other: Law, epsilon: Fraction) -> bool | None:
        if not isinstance(other, SmallTreeLaw) or not self._comparable(other):
            return None
        if self.cells.same(other.cells):
            return epsilon >= 0
        shift = self.rate * self._farthest(other) - epsilon
        for bits in (128, 1024):
            with precision(bits):
                value = exp_ball(shift) * other.total.arb() - self.total.arb()
                if value < 0:
                    return True
                if value > 0:
                    return False
        return (other.total.sum * ExpSum.exp(shift) - self.total.sum).sign() <= 0


def _gain(corner: Corners, side: Side) -> int:
    """What one side of a single root wins; label 0 wins nothing."""
    if side.test is None:
        cells = [corner.side[:, 0]]
    else:
        cells = [corner.held[:, 0, side.test], corner.failed[:, 0, side.test]]
    return sum(int(cell[label - 1]) for cell, label in zip(cells, side.labels) if label)


def _choose(rng: Rng, table: tuple[Doubles, float], weights: Callable[[], Sequence[arb]]) -> int:
    """An index with probability proportional to its weight, exactly: 64 bits more until the answer is certain for
    every real that begins with them."""
    u, bits = rng.bits(64), 64
    found = settled(*table, u)
    while found is None:
        bits += 64
        if bits > MAX_PRECISION:
            raise Undecided("a draw was not decided")
        u = (u << 64) | rng.bits(64)
        with precision(bits + 64):
            running, cumulative = arb(0), []
            for weight in weights():
                running += weight
                cumulative.append(running)
            found = invert(cumulative, running, u, bits)
    return found
