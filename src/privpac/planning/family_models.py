"""What learners of distributions are predicted to do on a stated law: mean total variation over simulated people.

Noisy counts and coarse-to-fine means have no finite law, so the learners themselves run, with the system's randomness: predictions repeat
up to their Monte-Carlo error only.  Stated laws: all values of every column equally likely; normal with the mean half-way to the public
radius.  Selection has an exact law (:mod:`privpac.planning.cover_models`).
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
from privpac.planning.cover_models import cover_simulations
from privpac.planning.families import CountedTarget, GaussianTarget
from privpac.planning.predict import Prediction
from privpac.planning.simulated import keeps_promise, least_users

__all__ = ["FamilySimulation", "family_simulations"]

REPEATS = 4
MOST_RECORDS, MOST_VALUES, MOST_COLUMNS = 1 << 18, 1 << 12, 64
MOST_CELLS = 1 << 16


def family_simulations(target: Any) -> list[Any]:
    """What can be simulated of a family in a moment.

    >>> from privpac.planning.families import family_target
    >>> [made.method for made in family_simulations(family_target("histogram", epsilon=1, k=10))]
    ['clipped histogram, one stage']
    """
    return [*cover_simulations(target), *_runs(target)]


def _runs(target: Any) -> list[FamilySimulation]:
    """Learners that must run."""
    if isinstance(target, CountedTarget) and max(target.sizes) > 1 and sum(target.sizes) <= MOST_VALUES:
        many = "" if len(target.sizes) == 1 else " of every column"
        summed = "" if math.prod(target.sizes) <= MOST_CELLS else " (the sum over the columns, which is at least that of the whole)"
        law = f"all {' x '.join(map(str, dict.fromkeys(target.sizes)))} values{many} equally likely{summed}"
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
        return f"{self.law}, as many records per user as the column says; mean of {REPEATS} drawn data sets and runs"

    @property
    def columns(self) -> int:
        return len(self.target.sizes) if isinstance(self.target, CountedTarget) else int(self.target.d)

    def at(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Prediction | None:
        """Mean total variation; None where the people are too many to simulate, or the learner refuses these numbers."""
        if n_users * records_per_user * self.columns > MOST_RECORDS:
            return None
        return _mean_of(self, records_per_user, n_users, epsilon)

    def users(self, records_per_user: int) -> int | None:
        """About the least number of users at which the mean is at most alpha, up to one part in 16."""
        enough = keeps_promise(self, records_per_user)
        most = MOST_RECORDS // (records_per_user * self.columns)
        certify = next(certify for name, certify, _, _ in self.target.methods() if name == self.method)
        try:
            certified = certify(records_per_user).n_users
        except (ParameterError, TooLargeError):
            certified = None
        return None if most < 1 else least_users(enough, start=max(2, (certified or 64) // 8), most=most)


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
    sizes = target.sizes
    rng = np.random.default_rng([sizes[0], m, seed])
    values = np.stack([rng.integers(0, k, n * m) for k in sizes], axis=1)
    domains = {f"x{i}": Integers(0, k - 1) for i, k in enumerate(sizes)}
    people = UserData.from_arrays(values, None, np.repeat(np.arange(n), m), features=domains)
    learner = ClippedHistogram(epsilon, max_records=m, stages=1, neighbours=target.neighbours)
    learned: Any = learner.learn(people).hypothesis
    columns = [np.array(part.probabilities, dtype=np.float64) for part in getattr(learned, "parts", (learned,))]
    if math.prod(sizes) > MOST_CELLS:
        return sum(float(np.abs(masses - 1 / len(masses)).sum() / 2) for masses in columns)
    joint = np.ones(1)
    for masses in columns:
        joint = np.multiply.outer(joint, masses).ravel()
    return float(np.abs(joint - 1 / len(joint)).sum() / 2)


def _normal(target: Any, m: int, n: int, epsilon: Fraction, seed: int) -> float:
    law, d = target.law, target.d
    deviation, radius = math.sqrt(rational(law.variance)), float(rational(law.radius))
    centre = np.full(d, radius / 2 / math.sqrt(d))
    values = np.random.default_rng([d, m, seed]).normal(centre, deviation, (n * m, d))
    learner = CoarseToFineMean(epsilon, records_per_user=m, neighbours=target.neighbours, radius=law.radius, variance=law.variance)
    learned: Any = learner.learn(_people(values, n, m, Floats())).hypothesis
    away = float(np.linalg.norm(np.array([float(mean) for mean in learned.mean]) - centre)) / deviation
    return float(2 * ndtr(away / 2) - 1)
