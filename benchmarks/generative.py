"""Generated users with a known truth, so that the excess error of every cut is known and not estimated.

A model draws a *type* for each user from a finite list (a continuous trait stands on a fine grid of quantiles), then
that user's records: x by the law of the type, and a label that is 1 with the type's probability at x.  The error of a
cut is the average over types, users weighing equally: a finite sum.  x lives on ``CELLS`` cells of 0..1; on a domain of
2**64 codes the cells share a 2**-40 part of it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from attrs import frozen
from common import risk
from numpy.typing import NDArray
from scipy.special import betainc, ndtri

from privpac.data import Integers, UserData
from privpac.rules import Thresholds
from privpac.rules.profile import Profile

__all__ = ["CELLS", "MODELS", "Model", "Records", "Types"]

CELLS = 1024
QUANTILES = 512
HARD = float("inf")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Records = tuple[Ints, Ints, NDArray[np.uint8]]
"""Records per user, codes, labels."""


# Types of users


@frozen(slots=False)
class Types:
    """One entry per type: weight, own cut, chance that a label is turned below and above it, own shift of the log odds,
    place of x."""

    weight: Floats
    cut: Floats
    below: Floats
    above: Floats
    shift: Floats
    place: Floats

    def __len__(self) -> int:
        return len(self.weight)


def types(
    weight: Any = 1.0,
    *,
    cut: Any = 0.5,
    noise: Any = None,
    below: Any = 0.0,
    above: Any = 0.0,
    shift: Any = 0.0,
    place: Any = 0.5,
) -> Types:
    """Broadcast the columns against each other; ``noise`` sets both sides of the cut."""
    sides = (below, above) if noise is None else (noise, noise)
    table = np.broadcast_arrays(*(np.asarray(values, dtype=float) for values in (weight, cut, *sides, shift, place)))
    first, *rest = (values.ravel().copy() for values in table)
    return Types(first / first.sum(), *rest)


def even(n: int = QUANTILES) -> Floats:
    """Midpoints of n equal parts of 0..1."""
    return (np.arange(n) + 0.5) / n


ZIPF = np.cumsum(np.arange(1, 10**4 + 1) ** -1.2)
ZIPF /= ZIPF[-1]
"""Distribution function of the number of records 1..10**4."""


# Models


@frozen(slots=False, eq=False)
class Model:
    """A population, and what every cut on its records costs."""

    name: str
    types: Types
    slope: float = HARD
    """Steepness of logistic labels; hard labels by default."""
    cells: Floats | None = None
    """Distribution function of x at the ends of the cells; uniform by default."""
    window: float | None = None
    """Width of the part of x that one user sees, around the type's place."""
    zipf: bool = False
    heavy: int | None = None
    """Users with more records than this are of type 1, all others of type 0."""
    wide: bool = False
    """2**64 codes, the data in a 2**-40 part."""

    # The domain

    @property
    def per_cell(self) -> int:
        return (1 << 24) // CELLS if self.wide else 1

    @property
    def first(self) -> int:
        """The first code that occurs."""
        return 0x5EED << 40 if self.wide else 0

    @cached_property
    def concept(self) -> Thresholds:
        return Thresholds(Integers(0, ((1 << 64) if self.wide else CELLS) - 1), feature="x")

    # Truth

    def _cdf(self, g: int) -> Floats:
        edges = np.arange(CELLS + 1) / CELLS
        if self.window is not None:
            edges = np.clip((edges - self.types.place[g]) / self.window + 0.5, 0, 1)
        elif self.cells is not None:
            edges = self.cells.copy()
        # What falls outside 0..1 is recorded at its ends.
        edges[0], edges[-1] = 0, 1
        return edges

    def _chance(self, g: Any, cell: Ints) -> Floats:
        """Probability of label 1 for types g in cells."""
        t, x = self.types, (cell + 0.5) / CELLS
        over = x >= t.cut[g]
        right = (
            over.astype(float) if self.slope == HARD else 1 / (1 + np.exp(-self.slope * (x - t.cut[g]) - t.shift[g]))
        )
        turned = np.where(over, t.above[g], t.below[g])
        return np.asarray(right + turned * (1 - 2 * right))

    @cached_property
    def error(self) -> Floats:
        """Error of the cuts between cells, users weighing equally."""
        ones, zeros = np.zeros(CELLS), np.zeros(CELLS)
        for g, weight in enumerate(self.types.weight):
            mass, p = weight * np.diff(self._cdf(g)), self._chance(g, np.arange(CELLS))
            ones += mass * p
            zeros += mass * (1 - p)
        return np.asarray(np.append(0.0, np.cumsum(ones)) + np.append(np.cumsum(zeros[::-1])[::-1], 0.0))

    @cached_property
    def excess(self) -> Floats:
        return np.asarray(self.error - self.error.min())

    # Data

    def draw(self, rng: np.random.Generator, n: int, m: int) -> Records:
        """n users with m records each (or Zipf many)."""
        sizes = 1 + np.searchsorted(ZIPF, rng.random(n)) if self.zipf else np.full(n, m)
        g = (
            rng.choice(len(self.types), size=n, p=self.types.weight)
            if self.heavy is None
            else (sizes > self.heavy).astype(int)
        )
        owner, u = np.repeat(g, sizes), rng.random(int(sizes.sum()))
        if self.window is not None:
            x = self.types.place[owner] + self.window * (u - 0.5)
            cell = np.clip((x * CELLS).astype(np.int64), 0, CELLS - 1)
        else:
            cell = np.searchsorted(self._cdf(0), u, side="right") - 1
        labels = (rng.random(len(owner)) < self._chance(owner, cell)).astype(np.uint8)
        inside = rng.integers(0, self.per_cell, len(owner)) if self.wide else 0
        return sizes, self.first + cell * self.per_cell + inside, labels

    def users(self, records: Records) -> UserData:
        sizes, codes, labels = records
        owner = np.repeat(np.arange(len(sizes)), sizes)
        return UserData.from_arrays(codes, labels, owner, features={"x": self.concept.domain})

    # Expectations over the law

    def risk(self, profile: Profile, rate: float, alpha: float) -> tuple[float, float]:
        """Probability of an excess above ``alpha`` and mean excess, when cut u has weight e**(-rate * score)."""
        if not self.wide:
            return risk(profile, rate, self.excess, alpha)
        cut0, rest = profile.steps
        scores = np.concatenate([cut0.scores, rest.scores])
        weight = np.exp(-rate * (scores - scores.min()))
        # In cells from the first code that occurs; cuts before and after the data cost as much as the ends.
        at = np.where(rest.starts > self.first, rest.starts - np.uint64(self.first), 0).astype(float) / self.per_cell
        edges = np.concatenate([[0.0], at, [float(CELLS)]])
        below, above = float(self.first), float((1 << 64) - self.first) - CELLS * self.per_cell
        out = []
        for cost in ((self.excess > alpha).astype(float), self.excess):
            summed = np.append(0.0, np.cumsum((cost[1:] + cost[:-1]) / 2))
            inside = np.diff(np.interp(edges, np.arange(CELLS + 1), summed)) * self.per_cell
            out.append(weight @ inside + weight[0] * below * cost[0] + weight[-1] * above * cost[-1])
        total = weight @ np.diff(edges) * self.per_cell + weight[0] * below + weight[-1] * above
        return float(out[0] / total), float(out[1] / total)


def _models() -> list[Model]:
    place, effect = np.meshgrid(even(48), even(48))
    beta = betainc(0.5, 2.0, np.arange(CELLS + 1) / CELLS)
    middle = float(np.interp(0.5, beta, np.arange(CELLS + 1) / CELLS))
    light = float(ZIPF[19])
    return [
        *(Model(f"label noise {noise}", types(noise=noise)) for noise in (0, 0.1, 0.3, 0.45)),
        Model("half the users 0, half 0.2", types([1, 1], noise=[0, 0.2])),
        Model("40 % of users label at random", types([0.6, 0.4], noise=[0, 0.5])),
        Model("10 % of users all ones, rest 0.1", types([0.9, 0.1], below=[0.1, 1], above=[0.1, 0])),
        Model("logistic labels", types(), slope=10),
        Model("x ~ beta(.5, 2), noise .05 / .25", types(cut=middle, below=0.05, above=0.25), cells=beta),
        Model("2^64 cuts, data in a 2^-40 part, noise .3", types(cut=0.28, noise=0.3), wide=True),
        Model("own cut, normal sd .1, logistic", types(cut=0.5 + 0.1 * ndtri(even())), slope=20),
        Model("own cut, exponential .12, noise .05", types(cut=0.3 - 0.12 * np.log(even()), noise=0.05)),
        Model("two groups, cuts .2 apart, noise .05 / .3", types([0.45, 0.55], cut=[0.4, 0.6], noise=[0.05, 0.3])),
        Model(
            "x a trait of the user, random effect", types(place=place, shift=2 * ndtri(effect)), slope=12, window=0.05
        ),
        *(Model(f"m_i Zipf(1.2), noise {noise}", types(noise=noise), zipf=True) for noise in (0.1, 0.3)),
        Model(
            "m_i Zipf(1.2), users with m_i > 20 cut .15 higher",
            types([light, 1 - light], cut=[0.4, 0.55], noise=0.1),
            zipf=True,
            heavy=20,
        ),
    ]


MODELS = {model.name: model for model in _models()}
