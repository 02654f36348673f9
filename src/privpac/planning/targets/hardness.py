"""What no private learner of a class can do without, from dimensions that are proved and not only bounded from above.

``ConceptClass.vc_dimension`` may be too large for some classes (several columns of stumps, short lists, separators),
which is right for upper bounds and wrong for lower ones.  Lower bounds stand on sets that *are* shattered and mistake
trees that *are* there, as each class knows them (``shattered_points``, ``mistake_tree_depth``).

All bounds are the largest of those that apply.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.bounds.lower.agnostic import lower_representation, lower_sparse, lower_statistics, lower_testing
from privpac.bounds.lower.general import lower_agnostic_vc, lower_littlestone
from privpac.concepts.base import ConceptClass
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Neighbours

__all__ = ["just_beyond", "largest_bound", "lower_agnostic", "lower_realizable", "mistake_depth", "shattered"]

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
    return concept.shattered_points


def mistake_depth(concept: ConceptClass) -> int:
    """The depth of some complete mistake tree, at most the Littlestone dimension.

    >>> from privpac.data import Integers
    >>> from privpac.concepts import Intervals, Points, Thresholds
    >>> cuts = Thresholds(Integers(0, 1440))
    >>> mistake_depth(cuts), mistake_depth(Points(Integers(0, 1440))), mistake_depth(Intervals(Integers(0, 1440)))
    (10, 1, 18)
    """
    return min(_LONGEST, max(concept.shattered_points, concept.mistake_tree_depth))


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
    return largest_bound(
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
    points, beyond = min(shattered(concept), _LONGEST), just_beyond(alpha)
    goal: dict[str, Any] = {"epsilon": epsilon, "records_per_user": records_per_user, "neighbours": neighbours}
    found = [lambda: lower_realizable(concept, alpha=alpha, beta=beta, **goal)]
    if points:
        found.append(lambda: lower_agnostic_vc(points, alpha=alpha, success=1 - beta, **goal))
        found.append(
            lambda: lower_statistics(alpha=beyond, beta=beta, records_per_user=records_per_user, dimension=points)
        )
    if points and records_per_user <= _MOST_RECORDS:
        found.append(lambda: lower_testing(alpha=beyond, beta=beta, **goal))
    return largest_bound(*found)


def just_beyond(alpha: Fraction) -> Fraction:
    """A hair more than the accuracy asked for."""
    return min(alpha * _STRICT, (1 + alpha) / 2)


def largest_bound(*bounds: Callable[[], Certificate]) -> Certificate:
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
