"""Labellings of some points by a class, scored by how well the class does elsewhere.

The realizable-to-agnostic transformation gives a secret part T of the units new labels that some rule of the class
would give.  With ``D_T(h, f)`` the positions of T where a labelling h and a rule f differ and ``E_W(f)`` the summed
losses of the other units, the score is

    Q(h) = min over rules f of  A * D_T(h, f) + B * E_W(f)          (an integer)

over the *distinct* labellings h of T.  Since Q sees a rule only through its labels on T and its loss on W, rules are
grouped by their labels on T and only ``M(c) = min of E_W`` over a group is kept.  Three properties carry the privacy
proof:

* every labelling that some rule gives is there **once**: a missing one breaks "each labelling of the rest extends", one
  listed twice breaks "in at most two ways";
* the score of a labelling never reads a representative rule on W;
* the original labels of T are never read (they are not even passed).

Classes list their own labellings (``ConceptClass.labellings``, ``part_labellings``); here is what they share.
One unit's loss lies in ``0..levels`` (:class:`Loss`): this bound enters the guarantee.  Nothing here is private by
itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.profile import Profile
from privpac.concepts.statistics import Statistic
from privpac.errors import TooLargeError
from privpac.guarantee import positive_int

__all__ = ["NO_POINTS", "Labellings", "Loss", "check_listed", "check_tabulated"]

Ints = NDArray[np.int64]

MAX_LISTED = 1 << 12
"""The most rules of a class that is asked rule by rule."""

MAX_RULES = 1 << 20
MAX_WORK = 10**9
MAX_PAIRS = 1 << 30
"""Limits for enumerated classes: rules, rules times public units, pairs of labellings."""

_INSTEAD = (
    "use Thresholds, Points, Intervals, Stumps, a tree class, Rectangles with fewer cuts, or a FiniteClass of fewer "
    "rules"
)


@dataclass(frozen=True)
class Loss(Statistic):
    """A unit's share of mistakes in steps: ``floor(levels * mistakes / records)``, an integer in ``0..levels``."""

    levels: int = 1

    def __post_init__(self) -> None:
        positive_int(self.levels, "levels", maximum=1 << 31)

    @property
    def bound(self) -> int:
        return self.levels

    def cap_of(self, m: int) -> int:
        return m


@dataclass(frozen=True, eq=False, repr=False)
class Labellings:
    """The distinct labellings of T: ``scores[i]`` is Q of the i-th, ``labels(i)`` its bits in the order of T's
    records."""

    scores: Ints
    labels: Callable[[int], NDArray[np.uint8]]

    @property
    def count(self) -> int:
        return len(self.scores)


NO_POINTS = Labellings(np.zeros(1, dtype=np.int64), lambda _: np.zeros(0, dtype=np.uint8))
"""No record in T: one labelling."""


def check_listed(size: int, what: str) -> None:
    """A class that is asked rule by rule."""
    if size > MAX_LISTED:
        raise TooLargeError(f"relabelling {what} lists at most {MAX_LISTED} rules, got {_shown(size)}; {_INSTEAD}")


def check_tabulated(size: int, units: int | None, most: int) -> None:
    """A class of so many rules that is tabulated on public ``units``, with at most ``most`` labellings of T."""
    if size > MAX_RULES or (units is not None and size * units > MAX_WORK):
        raise TooLargeError(
            f"relabelling with {_shown(size)} rules is too much work (at most {MAX_RULES} rules, {MAX_WORK} rules "
            f"times units); {_INSTEAD}"
        )
    if most**2 > MAX_PAIRS:
        raise TooLargeError(
            f"relabelling compares pairs of labellings, and {_shown(most)} of them are possible; {_INSTEAD}"
        )


def _shown(size: int) -> str:
    return str(size) if size < 10**15 else f"more than 10^{len(str(size)) - 1}"


# Shared by the classes


def dense_losses(profile: Profile) -> Ints:
    """The losses of ids 0, 1, 2, ... one by one."""
    parts: list[Any] = []
    for step in profile.steps:
        ends = np.concatenate([step.starts[1:].astype(np.int64), np.array([step.end + 1], dtype=np.int64)])
        parts.append(np.repeat(step.scores, ends - step.starts.astype(np.int64)))
    return np.concatenate(parts).astype(np.int64)


def distance_minimum(costs: Ints, place: Ints) -> Ints:
    """``min over j of |place[i] - place[j]| + costs[j]`` for increasing places: two running minima."""
    left = np.minimum.accumulate(costs - place) + place
    right = np.minimum.accumulate((costs + place)[::-1])[::-1] - place
    return np.minimum(left, right)
