"""Which way to the least error of a class needs fewer people?  Certified numbers of all three, before any data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.bounds.selection.least_error import certify_least_error
from privpac.concepts.base import ConceptClass
from privpac.concepts.trees.base import VC1Tree
from privpac.concepts.trees.nodes import TreeNodes
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours
from privpac.parameters import DEFAULT_BETA

__all__ = ["LeastErrorPlan", "plan_least_error"]

WAYS = ("sum", "oneshot", "bisect")


@dataclass(frozen=True)
class LeastErrorPlan:
    """Users for an estimate within ``radius`` of the least error, by every method."""

    radius: Fraction
    epsilon: Fraction
    records_per_user: int
    certificates: tuple[tuple[str, Certificate], ...]

    @property
    def best(self) -> str:
        """The method of the fewest certified users; of equals the sum, which has a bound that holds for fewer, too."""
        known = [(c.n_users, WAYS.index(way), way) for way, c in self.certificates if c.n_users is not None]
        return min(known)[2] if known else "sum"

    def __getitem__(self, method: str) -> Certificate:
        return dict(self.certificates)[method]

    def __str__(self) -> str:
        rows = ", ".join(f"{way} {'none' if c.n_users is None else f'{c.n_users:,}'}" for way, c in self.certificates)
        return (
            f"least error within {self.radius}, epsilon {self.epsilon}, {self.records_per_user} records each:\n"
            f"certified people by {rows}; fewest: {self.best}"
        )


def plan_least_error(
    rule: ConceptClass | VC1Tree,
    *,
    epsilon: Rational,
    radius: Rational = "1/8",
    records_per_user: int,
    beta: Rational = DEFAULT_BETA,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> LeastErrorPlan:
    """Certified users of ``pp.least_error`` by its three methods.

    Parameters
    ----------
    rule : class of rules
        With declared domains.
    epsilon : rational
        The privacy loss.
    radius : rational
        How close the estimate shall be.
    records_per_user : int
        Records each person holds, all of one law.
    beta : rational
        How often it may be further off.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.

    Returns
    -------
    LeastErrorPlan
        ``best`` is the method of the fewest people.

    Examples
    --------
    >>> import privpac as pp
    >>> print(plan_least_error(pp.Thresholds(pp.Integers(0, 1440)), epsilon=1, radius="1/32", records_per_user=256))
    least error within 1/32, epsilon 1, 256 records each:
    certified people by sum 1,229, oneshot 614, bisect 443; fewest: bisect
    """
    concept: Any = TreeNodes(rule) if isinstance(rule, VC1Tree) else rule
    if not isinstance(concept, ConceptClass):
        raise TypeError(f"rule must be a class of rules with declared domains, got {type(rule).__name__}")
    try:
        size: float | None = concept.log_size
    except (TooLargeError, ParameterError):
        size = None
    told: dict[str, Any] = {"epsilon": epsilon, "radius": radius, "beta": beta, "neighbours": neighbours}
    told |= {"records_per_user": records_per_user, "dimension": concept.vc_dimension, "log_size": size}
    found = tuple((way, certify_least_error(way, **told)) for way in WAYS)
    return LeastErrorPlan(rational(radius, "radius"), rational(epsilon, "epsilon"), records_per_user, found)
