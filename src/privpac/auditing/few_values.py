"""Laws of people on a few values, as hard as an assumption allows: what the attacks on certificates start from.

A few values of x carry all the mass: one *critical* value, just heavy enough that the many rules which are wrong there
are too bad by a hair; a *far* value with nearly all the rest; and perhaps two *light* values, which only make luck.
Labels are wrong as often as the assumption allows, or less.  So a class falls into few groups of rules that predict
alike, and a user is a row of counts:

=========
========================================================================================================================
``cuts``   cut-offs that say 1 from the cut on; most cuts lie between the critical and the far value ``points`` single
values; most of them are no value of the law, and say 0 everywhere.  Leaves of any tree are the same ``stumps`` cut-offs
of several columns in both directions, all columns in one order: as ``cuts``, more often =========
========================================================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from privpac.auditing.refutation import Point
from privpac.concepts.base import ConceptClass
from privpac.errors import ParameterError
from privpac.special import gammaln, xlogy

__all__ = ["OVER", "STARTS", "FewValueLaw", "law_at", "shape_of", "user_types"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

OVER = 1 + 1e-6
"""How much worse than alpha a critical rule is."""

_TYPES = 1 << 14


def shape_of(concept: ConceptClass) -> tuple[str, tuple[int, ...]]:
    """How the class falls into groups on a few values, and for stumps the numbers of cuts of its columns."""
    found = concept.few_values
    if found is not None:
        return found.shape, found.cuts
    raise ParameterError(
        "laws are made for cut-offs that say 1 from the cut on, such as Thresholds(Integers(0, 100)), for points, "
        "stumps and nodes of trees"
    )


@dataclass(frozen=True)
class FewValueLaw:
    """Values of x in order with their masses, how often each has the label 1, and the shape of the class (see the
    module)."""

    mass: tuple[float, ...]
    ones: tuple[float, ...]
    shape: str = "cuts"
    columns: tuple[int, ...] = ()
    """Of stumps: cuts of every column."""

    @property
    def values(self) -> int:
        return len(self.mass)

    @cached_property
    def says(self) -> Ints:
        """Predictions of the groups: cut g says 0 on the first g values, point g says 1 on value g only."""
        k = self.values
        if self.shape == "points":
            return np.concatenate([np.eye(k, dtype=np.int64), np.zeros((1, k), dtype=np.int64)])
        above = np.array([[int(j >= g) for j in range(k)] for g in range(k + 1)])
        return np.concatenate([above, 1 - above[1:k]]) if self.shape == "stumps" else above

    def copies(self, size: int) -> Floats:
        """Rules in each group of a class of this size: the values are 0, 1, ... and the last of all, where most cuts
        lie before that one.

        Those of stumps are 0, 1, ... and the last in every column, so both constants are there twice for each.
        """
        k = self.values
        many = (min(self.columns) if self.shape == "stumps" else size) - k
        if many < 1:
            raise ParameterError(f"a class of {size} rules is too small for {k} values")
        if self.shape == "points":
            return np.array([*[1.0] * k, float(many)])
        if self.shape == "cuts":
            return np.array([*[1.0] * (k - 1), float(many), 1.0])
        d, between = float(len(self.columns)), float(sum(self.columns)) - len(self.columns) * k
        one_way = np.array([*[d] * (k - 1), between, d])
        ends = np.zeros(k + 1)
        ends[[0, k]] = d
        return np.concatenate([one_way + ends, one_way[1:k]])

    def places(self, size: int) -> list[int]:
        """The codes of the values in a column of so many."""
        return [*range(self.values - 1), self.values - 1 if self.shape == "points" else size - 1]

    @cached_property
    def errors(self) -> Floats:
        mass, ones = np.array(self.mass), np.array(self.ones)
        return np.asarray(np.where(self.says == 1, 1 - ones, ones) @ mass)

    def mistakes(self, counts: Ints) -> Ints:
        """Of users by groups; ``counts`` has the zeros of all values, then the ones."""
        k = self.values
        return np.asarray(counts[:, :k] @ self.says.T + counts[:, k:] @ (1 - self.says).T)

    @property
    def cells(self) -> Floats:
        """Probabilities of (value, 0) for all values, then of (value, 1)."""
        mass, ones = np.array(self.mass), np.array(self.ones)
        return np.concatenate([mass * (1 - ones), mass * ones])

    def __str__(self) -> str:
        return ", ".join(f"{mass:.4g} of x with ones {ones:.3g}" for mass, ones in zip(self.mass, self.ones))


def law_at(point: Point, alpha: float, noise: float, shape: str = "cuts", columns: tuple[int, ...] = ()) -> FewValueLaw:
    """The law of a point: noise at the critical, the far and the light values, mass of the two light ones, and of the
    critical one."""
    critical, far, light, left, right, heavier = point
    top = min(noise, (1 - alpha * OVER / 0.9) / 2)
    at_critical, at_far, at_light = critical * top, far * noise, light * top
    wanted = min(alpha * OVER * (1 + heavier), 0.95 * (1 - 2 * at_critical))
    # The light value on the right is on the way to the many cuts; the one on the left costs the cut before the best
    # one.
    room = 0.97 - wanted / (1 - 2 * at_critical)
    between = min(right * wanted / 2 / (1 - 2 * at_light), room) if right else 0.0
    mass = (wanted - (0.0 if shape == "points" else between * (1 - 2 * at_light))) / (1 - 2 * at_critical)
    beside = min(left * wanted / (1 - 2 * at_light), max(0.0, 0.98 - mass - between)) if left else 0.0
    rest = 1 - mass - between - beside
    if shape == "points":  # one value is mostly 1, all others are mostly 0
        parts = [(beside, at_light), (between, at_light), (mass, 1 - at_critical), (rest, at_far)]
    else:
        parts = [(beside, at_light), (between, 1 - at_light), (mass, 1 - at_critical), (rest, 1 - at_far)]
    kept = [(weight, ones) for weight, ones in parts if weight > 1e-9]
    return FewValueLaw(tuple(weight for weight, _ in kept), tuple(ones for _, ones in kept), shape, columns)


STARTS: tuple[Point, ...] = (
    *((critical, far, 0.0, 0.0, 0.0, 0.0) for critical in (0.0, 0.5, 1.0) for far in (0.0, 1.0)),
    (0.5, 0.5, 1.0, 1.0, 0.0, 0.0),
    (1.0, 1.0, 1.0, 0.5, 0.0, 0.0),
)
"""Two values with noise at either, and a third one beside the best cut."""


def user_types(law: FewValueLaw, m: int) -> tuple[Ints, Floats] | None:
    """All users of ``m`` records as counts of cells, with their probabilities; ``None`` if they are too many."""
    cells = law.cells
    used = np.flatnonzero(cells > 0)
    parts = len(used)
    if math.comb(m + parts - 1, parts - 1) > _TYPES:
        return None
    bars = np.array(list(combinations(range(m + parts - 1), parts - 1)), dtype=np.int64).reshape(-1, parts - 1)
    ends = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), m + parts - 1)], axis=1)
    counts = np.zeros((len(bars), len(cells)), dtype=np.int64)
    counts[:, used] = np.diff(ends, axis=1) - 1
    logs = gammaln(m + 1) - gammaln(counts + 1).sum(axis=1) + xlogy(counts, cells).sum(axis=1)
    chances = np.exp(logs)
    return counts, chances / chances.sum()
