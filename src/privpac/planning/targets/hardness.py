"""What no private learner of a class can do without, from dimensions that are proved and not only bounded from above.

``ConceptClass.vc_dimension`` may be too large for some classes (several columns of stumps, short lists, separators),
which is right for upper bounds and wrong for lower ones.  Here are sizes of sets that *are* shattered and depths of
mistake trees that *are* there:

* stumps: the subsets of ``n`` points split into ``C(n, n/2)`` chains (Dilworth), and a column of ``n`` values or more
  orders the points along one chain; both directions of one column shatter two points;
* decision lists of ``k`` tests: zero and ``k`` unit points; separators with weights -1, 0 and 1: zero and the unit
  points of all columns;
* cut-offs on ``N`` points: ``floor(log2(N + 1))`` mistakes by bisection; stumps and separators contain those of each
  column;
* intervals around the point ``c`` of ``N``: their two ends are found one after the other; boxes: column by column.

All bounds are the largest of those that apply (spec 40 section 7, spec 10 section 8).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np

from privpac.bounds.certificate import Certificate
from privpac.bounds.lower.agnostic import lower_representation, lower_sparse, lower_statistics, lower_testing
from privpac.bounds.lower.general import lower_agnostic_vc, lower_littlestone
from privpac.concepts.base import ConceptClass
from privpac.concepts.boolean import Conjunctions, Disjunctions
from privpac.concepts.cells import domains_of
from privpac.concepts.dimensions import littlestone_dimension
from privpac.concepts.finite import FiniteClass
from privpac.concepts.halfspaces import Halfspaces
from privpac.concepts.intervals import Intervals
from privpac.concepts.lists import DecisionLists
from privpac.concepts.parities import Parities
from privpac.concepts.points import Points
from privpac.concepts.rectangles import Rectangles
from privpac.concepts.stumps import Stumps
from privpac.concepts.thresholds import Thresholds
from privpac.concepts.trees.nodes import TreeNodes
from privpac.errors import DimensionLimit, ParameterError, TooLargeError
from privpac.guarantee import Neighbours

__all__ = ["lower_agnostic", "lower_realizable", "mistake_depth", "shattered"]

_MOST_STATES = 1 << 14
"""Steps of a search for the dimensions of a table of rules: a fraction of a second."""

_MOST_CELLS = 1 << 16
"""Cells of a table that is searched at all."""

_LONGEST = 4096
"""Dimensions beyond this are cut: a smaller one is a dimension of a smaller class."""

_MOST_RECORDS = 1 << 12
"""Records per user up to which two laws of one user are told apart exactly."""

_STRICT = Fraction(10**9 + 1, 10**9)
"""Two tasks must differ by more than the accuracy asked for."""


# Dimensions


def shattered(concept: ConceptClass) -> int:
    """So many points are shattered, surely; 0 where nothing is known of the class.

    >>> from privpac.data import Integers
    >>> from privpac.concepts import Intervals, Stumps
    >>> shattered(Intervals(Integers(0, 9))), shattered(Stumps({name: Integers(0, 9) for name in "abc"}))
    (2, 3)
    """
    if isinstance(
        concept, (Thresholds, Points, Intervals, Rectangles, Conjunctions, Disjunctions, Parities, TreeNodes)
    ):
        return concept.vc_dimension
    if isinstance(concept, FiniteClass):
        try:
            return concept.vc_dimension
        except DimensionLimit as limit:
            return limit.lower
    if isinstance(concept, DecisionLists):
        return min(len(concept.features), concept.length) + 1
    if isinstance(concept, Stumps):
        sizes = [domain.size for domain in domains_of(concept.columns or {}).values()]
        n = max((n for n in range(1, 17) if comb(n, n // 2) <= sum(size >= n for size in sizes)), default=0)
        return max(n, 2) if max(sizes) > 1 and len(concept.directions) == 2 else n
    if isinstance(concept, Halfspaces):
        return len(concept.strides) + 1 if {-1, 0, 1} <= _weights(concept) and all(_units(concept)) else 1
    return 0


def mistake_depth(concept: ConceptClass) -> int:
    """The depth of some complete mistake tree, at most the Littlestone dimension.

    >>> from privpac.data import Integers
    >>> cuts = Thresholds(Integers(0, 1440))
    >>> mistake_depth(cuts), mistake_depth(Points(Integers(0, 1440))), mistake_depth(Intervals(Integers(0, 1440)))
    (10, 1, 18)
    """
    return min(_LONGEST, max(shattered(concept), _tree_depth(concept)))


def _tree_depth(concept: ConceptClass) -> int:
    if isinstance(concept, Thresholds):
        assert concept.domain is not None
        return _line(concept.domain.size)
    if isinstance(concept, TreeNodes):
        return _line(concept.tree.height)  # cut-offs along its longest path
    if isinstance(concept, Stumps):
        return max(_line(domain.size) for domain in domains_of(concept.columns or {}).values())
    if isinstance(concept, Intervals):
        assert concept.domain is not None
        return _two_ends(concept.domain.size)
    if isinstance(concept, Rectangles):
        return sum(_two_ends(cells.count) for cells in concept._cells.values())
    if isinstance(concept, Halfspaces) and {0, 1} <= _weights(concept):
        return max(_line(units + 1) for units in _units(concept))
    if isinstance(concept, FiniteClass):
        return _table_depth(concept.rules.tobytes(), concept.rules.shape) if concept.rules.size <= _MOST_CELLS else 0
    return 0


@lru_cache(maxsize=64)
def _table_depth(cells: bytes, shape: tuple[int, int]) -> int:
    try:
        return littlestone_dimension(np.frombuffer(cells, np.uint8).reshape(shape), max_states=_MOST_STATES)
    except DimensionLimit as limit:
        return limit.lower


def _line(points: int) -> int:
    """Cut-offs on so many points, found by bisection."""
    return (points + 1).bit_length() - 1


def _two_ends(points: int) -> int:
    """Intervals that hold one point ``c``: ``c + 1`` left ends and ``points - c`` right ends, each found by
    bisection."""
    return max(k + (points - (1 << k) + 1).bit_length() - 1 for k in range(points.bit_length()))


def _weights(concept: Halfspaces) -> set[int]:
    assert isinstance(concept.weights, tuple)
    return set(concept.weights)


def _units(concept: Halfspaces) -> list[int]:
    """How many cut-offs, constants left out, each column has alone."""
    domains = [domain for domain in concept.declared().values() if domain is not None]
    return [(domain.size - 1) // stride for domain, stride in zip(domains, concept.strides)]


# Bounds


def lower_realizable(
    concept: ConceptClass,
    *,
    alpha: Fraction,
    beta: Fraction,
    epsilon: Fraction,
    records_per_user: int,
    neighbours: Neighbours,
) -> Certificate:
    """With fewer users no pure private learner is right to ``alpha`` with probability ``1 - beta``, though some rule is
    right."""
    depth, goal = mistake_depth(concept), dict[str, Any](alpha=alpha, epsilon=epsilon)
    shared: dict[str, Any] = {"records_per_user": records_per_user, "neighbours": neighbours}
    return _largest(
        lambda: lower_littlestone(depth, success=1 - beta, **goal, **shared),
        lambda: lower_representation(ldim=depth, beta=beta, **goal),
        # The rules below one side of the root agree there.
        lambda: lower_sparse(ldim=max(0, depth - 1), beta=beta, **goal, **shared),
    )


def lower_agnostic(
    concept: ConceptClass,
    *,
    alpha: Fraction,
    beta: Fraction,
    epsilon: Fraction,
    records_per_user: int,
    neighbours: Neighbours,
) -> Certificate:
    """The same when labels may be wrong: also noise on shattered points must be told from the truth."""
    points, beyond = min(shattered(concept), _LONGEST), min(alpha * _STRICT, (1 + alpha) / 2)
    goal: dict[str, Any] = {"epsilon": epsilon, "records_per_user": records_per_user, "neighbours": neighbours}
    found = [lambda: lower_realizable(concept, alpha=alpha, beta=beta, **goal)]
    if points:
        found.append(lambda: lower_agnostic_vc(points, alpha=alpha, success=1 - beta, **goal))
        found.append(
            lambda: lower_statistics(alpha=beyond, beta=beta, records_per_user=records_per_user, dimension=points)
        )
    if points and records_per_user <= _MOST_RECORDS:
        found.append(lambda: lower_testing(alpha=beyond, beta=beta, **goal))
    return _largest(*found)


def _largest(*bounds: Callable[[], Certificate]) -> Certificate:
    """The largest of the bounds that can be computed; a bound that is out of its own range says nothing."""
    found, refused = [], None
    for bound in bounds:
        try:
            found.append(bound())
        except (ParameterError, TooLargeError) as error:
            refused = refused or error
    known = [certificate for certificate in found if certificate.n_users is not None]
    if not known:
        raise refused or ParameterError("no lower bound applies to this class")
    return max(known, key=lambda certificate: certificate.n_users or 0)
