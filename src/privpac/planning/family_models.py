"""What learners of distributions are predicted to do on a stated law: mean total variation over simulated people.

Their outputs have no finite law, so the learners themselves run, with the system's randomness: predictions repeat up to their
Monte-Carlo error only.  Stated laws: all values of one column equally likely; normal with the mean half-way to the public radius.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr

from privpac.data import Floats, Integers, UserData
from privpac.distributions.histogram import ClippedHistogram
from privpac.distributions.means import CoarseToFineMean
from privpac.errors import ParameterError, PrivpacWarning, TooLargeError
from privpac.exact import rational
from privpac.planning.families import CountedTarget, GaussianTarget
from privpac.planning.predict import Prediction

__all__ = ["FamilySimulation", "family_simulations"]

REPEATS = 4
MOST_RECORDS, MOST_VALUES, MOST_COLUMNS = 1 << 18, 1 << 12, 64


def family_simulations(target: Any) -> list[FamilySimulation]:
    """What can be simulated of a family in a moment.

    >>> from privpac.planning.families import family_target
    >>> [made.method for made in family_simulations(family_target("histogram", epsilon=1, k=10))]
    ['clipped histogram, one stage']
    """
    if isinstance(target, CountedTarget) and len(target.sizes) == 1 and 1 < target.sizes[0] <= MOST_VALUES:
        law = f"all {target.sizes[0]} values equally likely"
        return [FamilySimulation("clipped histogram, one stage", law, target, _counted)]
    if isinstance(target, GaussianTarget) and target.law.max_variance is None and target.d <= MOST_COLUMNS:
        law = f"normal with variance {float(rational(target.law.variance)):g}, the mean half-way to the radius"
        return [FamilySimulation("coarse-to-fine mean", law, target, _normal)]
    return []


@dataclass(frozen=True)
class FamilySimulation:
    """One learner on one law."""

    method: str
    law: str
    target: Any
    run: Callable[[Any, int, int, Fraction, int], float]

    @property
    def model(self) -> str:
        return f"{self.law}, as many records per user as the column says"

    def at(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Prediction | None:
        """Mean total variation; None where the people are too many to simulate, or the learner refuses these numbers."""
        if n_users * records_per_user * getattr(self.target, "d", 1) > MOST_RECORDS:
            return None
        return _mean_of(self, records_per_user, n_users, epsilon)

    def users(self, records_per_user: int) -> int | None:
        """About the least number of users at which the mean is at most alpha: doubling, then bisection up to one part in 16."""

        def enough(n: int) -> bool:
            found = self.at(records_per_user, n, self.target.epsilon)
            return found is not None and found.excess <= self.target.alpha

        low, high = 0, 1
        while not enough(high):
            low, high = high, 2 * high
            if high * records_per_user * getattr(self.target, "d", 1) > MOST_RECORDS:
                return None
        while high - low > max(1, high // 16):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


@lru_cache(maxsize=1024)
def _mean_of(simulation: FamilySimulation, m: int, n: int, epsilon: Fraction) -> Prediction | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
            found = [simulation.run(simulation.target, m, n, epsilon, seed) for seed in range(REPEATS)]
    except (ParameterError, TooLargeError):
        return None
    return Prediction(float(np.mean(found)), float(np.std(found, ddof=1)) / REPEATS**0.5, f"{simulation.law}; {n} users with {m} records")


def _people(values: Any, n: int, m: int, domain: Any) -> UserData:
    names = [f"x{i}" for i in range(values.shape[1])]
    return UserData.from_arrays(values, None, np.repeat(np.arange(n), m), features=dict.fromkeys(names, domain))


def _counted(target: Any, m: int, n: int, epsilon: Fraction, seed: int) -> float:
    k = target.sizes[0]
    values = np.random.default_rng([k, m, seed]).integers(0, k, (n * m, 1))
    learner = ClippedHistogram(epsilon, max_records=m, stages=1, neighbours=target.neighbours)
    learned: Any = learner.learn(_people(values, n, m, Integers(0, k - 1))).hypothesis
    masses = np.array([float(mass) for mass in learned.probabilities])
    return float(np.abs(masses - 1 / k).sum() / 2)


def _normal(target: Any, m: int, n: int, epsilon: Fraction, seed: int) -> float:
    law, d = target.law, target.d
    deviation, radius = math.sqrt(rational(law.variance)), float(rational(law.radius))
    centre = np.full(d, radius / 2 / math.sqrt(d))
    values = np.random.default_rng([d, m, seed]).normal(centre, deviation, (n * m, d))
    learner = CoarseToFineMean(epsilon, records_per_user=m, neighbours=target.neighbours, radius=law.radius, variance=law.variance)
    learned: Any = learner.learn(_people(values, n, m, Floats())).hypothesis
    away = float(np.linalg.norm(np.array([float(mean) for mean in learned.mean]) - centre)) / deviation
    return float(2 * ndtr(away / 2) - 1)
