"""Coarse to fine: the mean of one number per user, first its cell, then its place in it.

Each user holds one integer ``y_i`` (in units so small that a user's own luck is 64 of them), or none.

    1 (eps_1): score_j = n - #{i : |cell(y_i) - j| <= 1}; exponential mechanism over the cells  ``j_min..j_max``
    2 (eps_2): G = sum_i clip(y_i - center, -tau, tau) + DLap(f tau / eps_2),  center = j * cell + cell / 2
    3 (eps_3): where the number of users is private, divide by max(1, #{y_i} + DLap(1 / eps_3)), else by it

On a short axis step 1 buys nothing: of three cells the window around the middle one holds all.  It is skipped, and step
2 has its budget too: ``center`` is the middle of the axis and ``tau`` reaches from there to its ends, and as far beyond
as ever.  How long an axis may be for that is a public number: where the count is noisy, an error of it counts as much
as the mean is far from the center, so three cells and a half; where it is not, nine, at which the wider clip costs as
much as half of the budget.

**Guarantee.**  ``eps_1 + eps_2 (+ eps_3)`` per user.  1: one user changes every score by at most 1, and in one
direction under add-remove, so the range is 1 (2 under replace).  2: the clipped sum moves by at most ``f tau``.  3: a
count moves by at most 1 under both relations.  The later steps use the earlier ones' outputs only, so adaptive
composition applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpac.guarantee import Neighbours
from privpac.law import Law
from privpac.mechanisms.laplace import discrete_laplace

if TYPE_CHECKING:
    from privpac.rng import Rng

__all__ = [
    "CELL",
    "STEPS",
    "TAU",
    "Axis",
    "Quantities",
    "cell_law",
    "cell_scores",
    "estimate",
    "fine_budget",
    "fine_sum",
]

Ints = NDArray[np.int64]
Floats64 = NDArray[np.float64]
STEPS, CELL = 64, 128
BEYOND = ceil(64 * sqrt(2 * log(100)))
"""How far from the mean a user's number is let lie."""

TAU = 192 + BEYOND
SHORT = {Neighbours.ADD_REMOVE: 224, Neighbours.REPLACE: 576}
"""Half the length of an axis, in steps, up to which no cell is chosen."""
MAX_STEPS = 1 << 52


@dataclass(frozen=True)
class Axis:
    """A quantity between ``lo`` and ``hi`` in steps of ``unit``; cells of ``cell`` steps."""

    unit: float
    lo: float
    hi: float
    cell: int = CELL
    short: int = SHORT[Neighbours.ADD_REMOVE]

    @property
    def limits(self) -> tuple[int, int]:
        """The first and the last cell."""
        return floor(floor(self.lo / self.unit + 0.5) / self.cell), floor(floor(self.hi / self.unit + 0.5) / self.cell)

    @property
    def idle(self) -> bool:
        """Whether choosing a cell first would cost more than it saves."""
        return self.hi - self.lo <= 2 * self.short * self.unit

    @property
    def window(self) -> tuple[int, int]:
        """The middle of a short axis and how far from it users' numbers are read."""
        half = (self.hi - self.lo) / (2 * self.unit)
        return floor((self.lo + self.hi) / (2 * self.unit) + 0.5), ceil(half) + BEYOND

    def steps(self, values: Floats64) -> Ints:
        """Integers ``round(clamp(v) / unit)``, one for each number; a NaN, which no public domain holds, counts as the
        lower end.

        A user's number scatters around a mean in ``[lo, hi]``; cut off at these ends, numbers around a mean near one of
        them would be pulled inwards.  The clamp is so far out that ``clip(y - center, -TAU, TAU)`` is what it would be
        without it.
        """
        beyond = (TAU + self.cell) * self.unit
        clamped = np.clip(np.where(np.isnan(values), self.lo, values), self.lo - beyond, self.hi + beyond)
        return np.floor(clamped / self.unit + 0.5).astype(np.int64)


@dataclass(frozen=True)
class Quantities:
    """The users' integers (those who have one) and how many users there are altogether."""

    y: Ints
    n_users: int


def cell_scores(data: Quantities, cell: int, first: int, last: int) -> tuple[Ints, Ints]:
    """Where the score changes (offsets from ``first``) and its value from there on."""
    cells = np.clip(data.y // cell, first, last) - first
    begin, end = np.maximum(cells - 1, 0), np.minimum(cells + 1, last - first) + 1
    places, at = np.unique(np.concatenate([np.zeros(1, np.int64), begin, end]), return_inverse=True)
    change = np.bincount(
        at, weights=np.concatenate([[0.0], np.ones(len(begin)), -np.ones(len(end))]), minlength=len(places)
    )
    scores = data.n_users - np.cumsum(change.astype(np.int64))
    inside = places <= last - first
    return places[inside], scores[inside]


def cell_law(data: Quantities, cell: int, limits: tuple[int, int], epsilon: Fraction, neighbours: Neighbours) -> Law:
    """The law over cells ``first..last``, as offsets from ``first``."""
    first, last = limits
    places, scores = cell_scores(data, cell, first, last)
    rate = epsilon if neighbours is Neighbours.ADD_REMOVE else epsilon / 2
    ends = np.append(places[1:] - 1, last - first)
    return Law.from_blocks(places.astype(np.uint64), ends.astype(np.uint64), scores, rate, domain=(0, last - first))


def fine_sum(data: Quantities, center: int, tau: int) -> int:
    """``sum_i clip(y_i - center, -tau, tau)``."""
    return int(np.clip(data.y - center, -tau, tau).sum())


def fine_budget(axis: Axis, budgets: tuple[Fraction, Fraction]) -> Fraction:
    """What the second step has."""
    return budgets[0] + budgets[1] if axis.idle else budgets[1]


def estimate(
    data: Quantities,
    axis: Axis,
    count: int,
    budgets: tuple[Fraction, Fraction],
    neighbours: Neighbours,
    rng: Rng,
) -> float:
    """Both steps; ``count`` is the public or already released number of users to divide by."""
    factor = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    if axis.idle:
        center, tau = axis.window
    else:
        first, _ = axis.limits
        chosen = first + int(cell_law(data, axis.cell, axis.limits, budgets[0], neighbours).sample(rng))
        center, tau = chosen * axis.cell + axis.cell // 2, TAU
    total = fine_sum(data, center, tau) + discrete_laplace(fine_budget(axis, budgets) / (factor * tau), rng)
    value = axis.unit * float(center + Fraction(total, max(1, count)))
    return min(max(value, axis.lo), axis.hi)
