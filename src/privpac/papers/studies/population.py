"""The function that the lists of every good sample share, computed from the distribution itself.

For checks of the theorem and for planning on public distributions: nothing here sees users' records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from privpac.device.littlestone import DEFAULT_BUDGET, Reduction, Rows
from privpac.errors import ParameterError

__all__ = ["StableHypothesis", "stable_hypothesis"]


@dataclass(frozen=True)
class StableHypothesis:
    """The reduced dimensions of the error levels, the first level that repeats, and the function found there."""

    values: tuple[int, ...]
    level: int
    dimension: int
    item: bytes
    error: Fraction


def stable_hypothesis(
    rows: Rows,
    weights: Sequence[Fraction],
    target: int,
    levels: Sequence[Fraction],
    depths: Sequence[int],
    q: int,
    budget: int = DEFAULT_BUDGET,
) -> StableHypothesis:
    """``target`` is a mask over the points; ``levels`` has one entry more than ``depths``.

    The first leaf (label 0 before 1) of the tree of the inner level that has the common dimension and cannot be reduced
    within the depth between the two levels.
    """
    if len(weights) != rows.points or len(levels) != len(depths) + 1:
        raise ParameterError("there must be a weight for every point and one level more than depths")
    search = Reduction(rows, budget)
    errors = [_error(word ^ target, weights) for word in rows.words]
    classes = [rows.mask(i for i, error in enumerate(errors) if error <= level) for level in levels]
    deep = [*depths, depths[-1] + max(depths[-1] + 1, q)]
    values = tuple(search.value(mask, k) for mask, k in zip(classes, deep))
    level = next(i for i in range(len(depths)) if values[i] == values[i + 1])
    r, between = values[level], deep[level + 1] - deep[level]
    for leaf in search.tree(classes[level + 1], deep[level], r):
        if leaf.dimension == r and (r == 0 or not search.reaches(leaf.mask, between, r - 1)):
            word = search.soa(leaf.mask)
            return StableHypothesis(values, level, r, rows.packed(word), _error(word ^ target, weights))
    raise AssertionError("some leaf is irreducible, by the choice of the level")


def _error(differ: int, weights: Sequence[Fraction]) -> Fraction:
    return sum((weight for x, weight in enumerate(weights) if differ >> x & 1), Fraction(0))
