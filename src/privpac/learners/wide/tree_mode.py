"""The most likely small tree, found exactly: the best option of each side, then the best root.

A candidate weighs ``c e**(lambda g)`` with rational ``c`` and integer ``g``; two of them are equal only if both are,
since ``ln(c/c') + lambda (g - g')`` is 0 for no other rationals.  Among equals the first id counts.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from privpac.concepts.small_trees.cells import Ints, TreeCells
from privpac.concepts.small_trees.shape import Side, TreeShape
from privpac.exact import ExpSum
from privpac.learners.wide.tree_filter import Corners, corners

__all__ = ["most_likely"]

Candidate = tuple[Fraction, int]
"""A prior and a gain."""


def _more(a: Candidate, b: Candidate, rate: Fraction) -> bool:
    """Whether ``a`` weighs more than ``b``, decided exactly."""
    if a[0] >= b[0] and a[1] >= b[1]:
        return a[0] > b[0] or (rate > 0 and a[1] > b[1])
    return ExpSum([(rate * (a[1] - b[1]), a[0]), (Fraction(0), -b[0])]).sign() > 0


def most_likely(shape: TreeShape, cells: TreeCells, rate: Fraction) -> int:
    """The first id of the largest weight."""
    groups: dict[Fraction, list[int]] = {}
    for j, ask in enumerate(shape.asks):
        groups.setdefault(ask, []).append(j)
    tests = [(ask, np.array(members, dtype=np.int64)) for ask, members in groups.items()]
    best: tuple[Candidate, int] | None = None
    for root, prior in enumerate(shape.prior):
        sides = [_best_side(shape, corner, tests, rate) for corner in corners(cells, root, root + 1)]
        (first, yes), (second, no) = sides
        candidate = (prior * first[0] * second[0], first[1] + second[1])
        if best is None or _more(candidate, best[0], rate):
            best = candidate, shape.id(root, yes, no)
    assert best is not None
    return best[1]


def _labels(cell: Ints, flat: bool) -> tuple[Ints, Ints]:
    """The first best label of every leaf, and what it wins; without a rate all labels weigh the same."""
    values = np.concatenate([np.zeros((1, *cell.shape[1:]), dtype=np.int64), cell])
    label = np.zeros(cell.shape[1:], dtype=np.int64) if flat else values.argmax(axis=0)
    return label, np.take_along_axis(values, label[None], axis=0)[0]


def _best_side(
    shape: TreeShape, corner: Corners, tests: list[tuple[Fraction, Ints]], rate: Fraction
) -> tuple[Candidate, Side]:
    flat = rate == 0
    label, win = _labels(corner.side, flat)
    best: tuple[Candidate, Side] = ((shape.leaf, int(win[0])), Side(None, (int(label[0]),)))
    if not tests:
        return best
    held, won = _labels(corner.held[:, 0], flat)
    failed, lost = _labels(corner.failed[:, 0], flat)
    gains = won + lost
    found: list[tuple[Candidate, Side]] = []
    for ask, members in tests:
        j = int(members[0 if flat else int(gains[members].argmax())])
        found.append(((ask, int(gains[j])), Side(j, (int(held[j]), int(failed[j])))))
    for candidate, side in sorted(found, key=lambda one: one[1].test or 0):
        if _more(candidate, best[0], rate):
            best = candidate, side
    return best
