"""What mechanisms declare: whose data, which neighbours, and the range sensitivity of their scores.

Nothing here sees data.  ``range_sensitivity`` is the one number that ties a score to its privacy: the largest change,
over neighbouring inputs, of the *difference* of two candidates' scores.
"""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from privpac.errors import ParameterError
from privpac.guarantee import Neighbours, Unit, one_of, positive_int
from privpac.parameters import named, privacy_or_zero, protected_unit, relation, whole

__all__ = ["Protected", "ScoreMechanism", "range_sensitivity"]


def range_sensitivity(delta_inf: int, monotone: bool, neighbours: Neighbours | str) -> int:
    """The range sensitivity of scores that each move by at most ``delta_inf`` between neighbours.

    ``2 * delta_inf``, or ``delta_inf`` when every neighbour step moves all scores the same way.  A replacement removes
    one unit and adds another, so it moves scores both ways: ``monotone`` with ``replace`` is refused.

    >>> range_sensitivity(1, True, "add-remove"), range_sensitivity(1, False, "replace")
    (1, 2)
    """
    bound = positive_int(delta_inf, "delta_inf")
    relation = one_of(Neighbours, neighbours, "neighbours")
    if not isinstance(monotone, bool):
        raise TypeError(f"monotone must be True or False, got {type(monotone).__name__}")
    if monotone and relation is Neighbours.REPLACE:
        raise ParameterError(
            "scores are not monotone under replace, where one unit leaves and another enters; pass monotone=False, or "
            "use add-remove"
        )
    return bound if monotone else 2 * bound


@frozen(slots=False, field_transformer=named)
class Protected:
    """Whose data a mechanism protects, and which datasets must be hard to tell apart: to be said, never assumed."""

    unit: Unit = field(kw_only=True, converter=protected_unit)
    neighbours: Neighbours = field(kw_only=True, converter=relation)


@frozen(slots=False, field_transformer=named)
class ScoreMechanism(Protected):
    """What mechanisms on integer scores share: epsilon, the range sensitivity of the scores, unit and relation."""

    epsilon: Fraction = field(converter=privacy_or_zero)
    range_sensitivity: int = field(converter=whole)

    @property
    def eta(self) -> Fraction:
        """The rate at which the chance of a candidate falls with its score."""
        return self.epsilon / self.range_sensitivity
