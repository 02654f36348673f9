"""What private medians are predicted to do on uniform numbers: the mean share of ranks by which the answer misses the
middle.

One number per user, uniform over the domain.  An answer with a share ``a`` of the numbers at most it, and ``b`` at
least it, misses by ``max(0, 1/2 - min(a, b))``; no answer by 1/2.  The exponential mechanism has an exact law over
blocks, and its mean is a sum in double precision over drawn people of fixed seeds.  Hidden walks run, with the coins of
the model.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.errors import ParameterError, PrivpacWarning, TooLargeError
from privpac.law.base import Bottom
from privpac.law.blocks import BlockLaw
from privpac.mechanisms.interior_point import InteriorPoint
from privpac.planning.comparison.population import law_blocks
from privpac.planning.models.simulation import ModelRng, Simulation, big_integers

if TYPE_CHECKING:
    from privpac.planning.targets.median_targets import MedianTarget

__all__ = ["MedianSimulation", "median_point", "median_simulations"]

MOST_USERS = 1 << 13
MOST_BITS = 1 << 10
"""Numbers whose logarithms are doubles; longer ones are not simulated."""


def median_simulations(target: MedianTarget) -> list[MedianSimulation]:
    """The mechanisms of the plan.

    >>> from privpac.planning.targets.median_targets import median_target
    >>> [made.method for made in median_simulations(median_target(bits=32, epsilon=1))]
    ['median by the exponential mechanism']
    """
    if not 0 < target.top.bit_length() < MOST_BITS:
        return []
    made = [MedianSimulation(target, "median by the exponential mechanism", 0)]
    return [
        *made,
        *([MedianSimulation(target, "median, best number of hidden walks", "auto")] if target.delta > 0 else []),
    ]


@dataclass(frozen=True)
class MedianSimulation(Simulation):
    """One mechanism on uniform numbers."""

    target: MedianTarget
    method: str
    levels: int | str

    fine: ClassVar[int] = 32

    @property
    def model(self) -> str:
        return "numbers uniform over the domain, one per user"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """None where the people are too many, or the mechanism refuses these numbers."""
        target = self.target
        try:
            point = median_point(target, self.levels, n_users, epsilon) if n_users <= MOST_USERS else None
        except (ParameterError, TooLargeError):
            return None
        return None if point is None else lambda i: _missed(point, _numbers(target.top, n_users, i), i)

    def limit(self, records_per_user: int, n_users: int) -> int:
        return self.most_runs if not self.levels else 64

    def between(self, records_per_user: int) -> tuple[int, int]:
        return max(2, int(self.target.window(self.levels) / 2)), MOST_USERS

    def found(self, records_per_user: int) -> tuple[int | None, float]:
        """Whatever the number of records."""
        return _found(self)


@lru_cache(maxsize=64)
def _found(simulation: MedianSimulation) -> tuple[int | None, float]:
    return super(MedianSimulation, simulation).found(1)


def median_point(target: MedianTarget, levels: int | str, n: int, epsilon: Fraction) -> InteriorPoint:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
        return replace(target, epsilon=epsilon).point(levels, n)


def _numbers(top: int, n: int, seed: int) -> list[int]:
    """Uniform numbers, of which a larger data set of the same seed holds those of a smaller one; the bias is below
    2**-64."""
    size = top.bit_length() // 8 + 9
    drawn = np.random.default_rng([13, seed]).bytes(n * size)
    return [int.from_bytes(drawn[i * size : (i + 1) * size], "little") % (top + 1) for i in range(n)]


def _missed(point: InteriorPoint, numbers: list[int], i: int) -> float:
    """The mean share of ranks by which the answer misses the middle, in run ``i``."""
    if point.reductions:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
            answer = point.sample(numbers, ModelRng(29, i))
        return 0.5 if isinstance(answer, Bottom) else float(_shares(sorted(numbers), [answer])[0])
    law = point.law(numbers)
    assert isinstance(law, BlockLaw)
    held: Any = sorted(numbers)
    firsts, _, scores = law_blocks(law, point.top + 1)
    # The law's blocks outside its window of ranks hold further numbers: on the common refinement both are constant.
    begins = sorted({*(int(v) for v in firsts.tolist()), *held, *(v + 1 for v in held if v < point.top)})
    place = np.searchsorted(big_integers([int(v) for v in firsts.tolist()]), big_integers(begins), side="right") - 1
    lengths = np.array([float(b - a) for a, b in zip(begins, [*begins[1:], point.top + 1])])
    rate = float(law.eta) if law.eta is not None else math.log(law.base or 1)
    logs = np.log(lengths) - rate * (scores - scores.min())[place]
    weight = np.exp(logs - logs.max())
    return float(np.sum(weight * _shares(held, begins)) / np.sum(weight))


def _shares(held: list[int], answers: list[int]) -> NDArray[np.float64]:
    """By which share of the ranks each answer misses the middle of the sorted numbers."""
    n, y, z = len(held), big_integers(held), big_integers(answers)
    fewer = np.minimum(np.searchsorted(y, z, side="right"), n - np.searchsorted(y, z))
    missed: NDArray[np.float64] = np.maximum(0.5 - fewer / n, 0.0)
    return missed
