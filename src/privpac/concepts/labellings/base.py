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

One unit's loss lies in ``0..levels`` (:class:`Loss`): this bound enters the guarantee.  Nothing here is private by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.concepts.dense import EnumeratedClass
from privpac.concepts.intervals import Intervals
from privpac.concepts.points import Points
from privpac.concepts.profile import Profile
from privpac.concepts.statistics import Statistic
from privpac.concepts.stumps import Stumps
from privpac.concepts.thresholds import Thresholds
from privpac.errors import TooLargeError
from privpac.guarantee import positive_int

if TYPE_CHECKING:
    from privpac.concepts.trees.base import VC1Tree
    from privpac.data import UserData

__all__ = ["Labellings", "Loss", "check_labellings", "growth_of", "labellings", "losses", "part_labellings"]

Codes = Mapping[str, NDArray[np.uint64]]
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


def labellings(
    concept: ConceptClass, codes: Codes, rest: UserData, A: int, B: int, levels: int = 1, offsets: Ints | None = None
) -> Labellings:
    """All labellings of the points ``codes`` by a bound class, scored with the units ``rest``.

    ``offsets``: with several records per unit in T, where each unit's begin; ``D_T`` then counts units with any
    difference.
    """
    from privpac.concepts.labellings import dense as labellings_dense
    from privpac.concepts.labellings import line as labellings_line
    from privpac.concepts.labellings.stumps import stump_labellings

    size = len(next(iter(codes.values())))
    if size == 0:
        return Labellings(np.zeros(1, dtype=np.int64), lambda _: np.zeros(0, dtype=np.uint8))
    if offsets is not None:
        return labellings_dense.unit_labellings(concept, codes, offsets, losses(concept, rest, levels), A, B)
    if isinstance(concept, Thresholds):
        return labellings_line.threshold_labellings(concept, codes, losses(concept, rest, levels), A, B)
    if isinstance(concept, Points):
        return labellings_line.point_labellings(concept, codes, losses(concept, rest, levels), A, B)
    if isinstance(concept, Intervals):
        from privpac.concepts.labellings.intervals import interval_labellings

        return interval_labellings(concept, codes, rest, A, B, levels)
    if isinstance(concept, Stumps):
        return stump_labellings(concept, codes, losses(concept, rest, levels), A, B)
    return labellings_dense.dense_labellings(concept, codes, losses(concept, rest, levels), A, B)


def part_labellings(
    concept: ConceptClass | VC1Tree,
    part: UserData,
    rest: UserData,
    A: int,
    B: int,
    levels: int = 1,
    whole: bool = False,
) -> Labellings:
    """The same for T as data (its labels are not read), by a class or a tree; ``whole``: several records per unit in
    T."""
    from privpac.concepts.trees.base import VC1Tree as Tree

    if isinstance(concept, Tree):
        from privpac.concepts.labellings.trees import tree_labellings

        return tree_labellings(concept, part, rest, A, B, levels)
    codes = {name: part.codes[name] for name in concept.declared() if name is not None}
    return labellings(concept, codes, rest, A, B, levels, part.offsets if whole else None)


def growth_of(concept: ConceptClass | VC1Tree, points: int) -> int:
    """An upper bound on the number of labellings of so many points; a tree has VC dimension 1."""
    return concept.growth(points) if isinstance(concept, ConceptClass) else points + 1


def losses(concept: ConceptClass, rest: UserData, levels: int) -> Profile:
    """``E_W`` of every rule: the sum over units of their losses."""
    return rest.fold(concept.kernel(Loss(levels)))


def check_labellings(
    concept: ConceptClass | VC1Tree, *, units: int | None = None, split_size: int | None = None, whole: bool = False
) -> None:
    """Refuse a class whose labellings would be too much work, from public numbers only, before any data are touched.

    ``units`` and ``split_size`` where they are public (replace); ``whole``: several records per unit in T.
    """
    if not isinstance(concept, ConceptClass):
        if whole:
            raise TooLargeError(
                "relabelling all records of a unit by a tree is not offered; use users='hybrid' (one record of each in "
                "T)"
            )
        return
    fast = isinstance(concept, (Thresholds, Points, Intervals, Stumps))
    if fast and not whole:
        return
    size = concept.size
    if whole or not isinstance(concept, EnumeratedClass):
        if size > MAX_LISTED:
            what = "with several records per unit in T" if whole else f"for {type(concept).__name__}"
            raise TooLargeError(f"relabelling {what} lists at most {MAX_LISTED} rules, got {_shown(size)}; {_INSTEAD}")
        return
    if size > MAX_RULES or (units is not None and size * units > MAX_WORK):
        raise TooLargeError(
            f"relabelling with {_shown(size)} rules is too much work (at most {MAX_RULES} rules, {MAX_WORK} rules "
            f"times units); {_INSTEAD}"
        )
    if size**2 > MAX_PAIRS:
        most = size if split_size is None else min(size, concept.growth(split_size))
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
