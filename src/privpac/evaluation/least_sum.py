"""The least sum of errors over a class: where rules have scores one by one, and where they share one law.

Either way a person adds to every rule an integer in ``0..levels`` that is at most ``levels`` times that person's error
rate: floors only lower it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from privpac.concepts.base import ConceptClass
from privpac.concepts.statistics import Statistic
from privpac.errors import TooLargeError
from privpac.learners.wide.tree_law import SmallTreeLaw
from privpac.learners.wide.tree_mode import most_likely

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["MeanError", "least_sum", "steps_of"]

_SHARP = Fraction(1 << 20)
"""A rate at which one vote outweighs every prior: the most likely tree is one of the fewest votes against it."""


@dataclass(frozen=True)
class MeanError(Statistic):
    """A user's error rate in steps of ``1/levels``, rounded down; nothing is subtracted."""

    levels: int

    @property
    def bound(self) -> int:
        return self.levels

    def cap_of(self, m: int) -> int:
        return m


def steps_of(concept: ConceptClass, levels: int) -> int:
    """In how many steps a person's error rate is counted: those of the class where it has steps of its own."""
    steps = concept.error_steps(levels)
    if steps is None:
        raise TooLargeError(
            f"the least error of {type(concept).__name__} is not found: its rules are not scored one by one"
        )
    return steps


def least_sum(concept: Any, users: Users, levels: int) -> int:
    """The least sum over all rules of a bound class."""
    if concept.scored:
        return int(users.fold(concept.kernel(MeanError(levels))).least)
    cells = concept.cells(users)
    best = most_likely(concept.shape, cells, _SHARP)
    return int(SmallTreeLaw(concept.shape, cells, _SHARP).score(best))
