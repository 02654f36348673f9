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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpac.errors import TooLargeError
from privpac.guarantee import positive_int
from privpac.rules.profile import Profile
from privpac.rules.statistics import Statistic

if TYPE_CHECKING:
    from privpac.rules.base import ConceptClass

__all__ = [
    "Labellings",
    "Loss",
    "NO_POINTS",
    "check_listed",
    "check_tabulated",
    "dense_labellings",
    "unit_labellings",
]


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


# Labellings by a class that is listed rule by rule.
#
# Rules are grouped by their packed bits on the distinct points of T, ``M`` is the least loss of a group, and the
# numbers of differing records between all pairs of labellings come from one product of matrices (exact in floating
# point: whole numbers of at most 24 or 53 bits).


Codes = Mapping[str, NDArray[np.uint64]]
Bits = NDArray[np.uint8]
_CELLS = 1 << 24


def dense_labellings(concept: ConceptClass, codes: Codes, profile: Profile, A: int, B: int) -> Labellings:
    place, times, points = _distinct_points(codes)
    table, least = _grouped(concept, points, profile)
    # Points that no labelling tells apart (one cell of a grid) count together.
    kinds = np.ascontiguousarray(np.packbits(table, axis=0).T)
    _, first_of, kind = np.unique(
        kinds.view(np.dtype((np.void, kinds.shape[1])))[:, 0], return_index=True, return_inverse=True
    )
    records = np.bincount(kind, weights=times)
    # Exact in either type: whole numbers, at most the number of records.
    number = np.float32 if records.sum() < 1 << 22 else np.float64
    bits = table[:, first_of].astype(number)
    weighted = bits * records.astype(number)
    counts, costs = weighted.sum(axis=1), B * least
    scores = np.empty(len(table), dtype=np.int64)
    block = max(1, _CELLS // len(table))
    for first in range(0, len(table), block):
        both = weighted[first : first + block] @ bits.T
        differ = (counts[first : first + block, None] + counts[None, :] - 2 * both).astype(np.int64)
        scores[first : first + block] = (A * differ + costs[None, :]).min(axis=1)
    return Labellings(scores, lambda i: table[i][place])


def unit_labellings(concept: ConceptClass, codes: Codes, offsets: Ints, profile: Profile, A: int, B: int) -> Labellings:
    """Several records per unit: two labellings differ on a unit if they differ on any of its records."""
    table, least = _grouped(concept, codes, profile)
    costs = B * least
    units = offsets[:-1][np.diff(offsets) > 0]  # reduceat knows no empty ranges; a unit without records never differs
    scores = np.empty(len(table), dtype=np.int64)
    for i, row in enumerate(table):
        differ = np.bitwise_or.reduceat(table ^ row, units, axis=1).sum(axis=1, dtype=np.int64)
        scores[i] = (A * differ + costs).min()
    return Labellings(scores, lambda i: table[i])


def _distinct_points(codes: Codes) -> tuple[Ints, NDArray[np.float64], Codes]:
    """For every record its distinct point, how many records each has, and the points."""
    columns = np.stack(list(codes.values()), axis=1)
    distinct, place, times = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    return (
        place.reshape(-1),
        times.astype(np.float64),
        {name: np.ascontiguousarray(distinct[:, i]) for i, name in enumerate(codes)},
    )


def _grouped(concept: ConceptClass, points: Codes, profile: Profile) -> tuple[Bits, Ints]:
    """The distinct labellings of the points, and the least loss of the rules that give each."""
    size = len(next(iter(points.values())))
    keys = np.concatenate([np.packbits(table, axis=0).T for table in _tables(concept, points)])
    rows = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1])))[:, 0]
    _, first, group = np.unique(rows, return_index=True, return_inverse=True)
    least = np.full(len(first), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(least, group, dense_losses(profile))
    return np.unpackbits(keys[first], axis=1, count=size), least


def _tables(concept: ConceptClass, points: Codes) -> Iterator[Bits]:
    """What the rules say on the points (points by rules), some rules at a time."""
    size = len(next(iter(points.values())))
    block = max(1, _CELLS // size)
    for first in range(0, concept.size, block):
        yield concept.table(points, first, min(first + block, concept.size))
