"""What learners of distributions are predicted to do on a stated law: mean total variation over simulated people.

Noisy counts and coarse-to-fine means have no finite law, so their steps are drawn: people and noise of the learners'
own public numbers, in double precision, with public seeds.  Stated laws: all values of every column equally likely;
normal with the mean half-way to the public radius.  Selection has an exact law
(:mod:`privpac.planning.models.cover_models`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.distributions.coarse import TAU, Quantities, cell_scores, fine_budget
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational
from privpac.guarantee import Neighbours
from privpac.parameters import COUNT_LEVELS
from privpac.planning.models.simulation import Simulation
from privpac.special import ndtr

if TYPE_CHECKING:
    from privpac.planning.targets.family_base import FamilyTarget
    from privpac.planning.targets.family_targets import CountedTarget, GaussianTarget

__all__ = ["FamilySimulation", "coarse_simulations", "histogram_simulations", "noise_of_sums", "normal_run"]

Floats64 = NDArray[np.float64]
Runner = Callable[[Any, int, int, Fraction], Callable[[int], float]]
MOST_VALUES, MOST_COLUMNS = 1 << 12, 64
MOST_USERS = 1 << 20
MOST_CELLS = 1 << 16
_MOST_DRAWN, _MOST_BRANCHES = 1 << 18, 1 << 10


def histogram_simulations(target: CountedTarget) -> list[FamilySimulation]:
    """Noisy averages and noisy counts.

    >>> from privpac.planning.targets.family_targets import family_target
    >>> [made.method for made in histogram_simulations(family_target("histogram", epsilon=1, k=10))]
    ['averaged histogram', 'clipped histogram, one stage']
    """
    if max(target.sizes) == 1 or sum(target.sizes) > MOST_VALUES:
        return []
    many = "" if len(target.sizes) == 1 else " of every column"
    summed = (
        ""
        if math.prod(target.sizes) <= MOST_CELLS
        else " (the sum over the columns, which is at least that of the whole)"
    )
    law = f"all {' x '.join(map(str, dict.fromkeys(target.sizes)))} values{many} equally likely{summed}"
    return [
        FamilySimulation("averaged histogram", law, target, _averaged, MOST_USERS),
        FamilySimulation("clipped histogram, one stage", law, target, _counted, MOST_USERS),
    ]


def coarse_simulations(target: GaussianTarget) -> list[FamilySimulation]:
    """Coarse-to-fine means of known variance; people are drawn one by one."""
    if target.law.max_variance is not None or target.d > MOST_COLUMNS:
        return []
    law = f"normal with variance {float(rational(target.law.variance)):g}, the mean half-way to the radius"
    return [FamilySimulation("coarse-to-fine mean", law, target, _normal, _MOST_DRAWN // target.d)]


@dataclass(frozen=True)
class FamilySimulation(Simulation):
    """One learner on one law."""

    method: str
    law: str
    target: FamilyTarget
    steps: Runner
    most_users: int

    first: ClassVar[int] = 16
    most_runs: ClassVar[int] = 2048

    @property
    def model(self) -> str:
        return f"{self.law}, as many records per user as the column says"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """None where the people are too many to simulate, or the learner refuses these numbers."""
        if n_users > self.most_users:
            return None
        try:
            return self.steps(self.target, records_per_user, n_users, epsilon)
        except (ParameterError, TooLargeError):
            return None

    def between(self, records_per_user: int) -> tuple[int, int]:
        certified = self.target.certified_users(self.method, records_per_user)
        return max(2, (certified or 64) // 8), self.most_users


def noise_of_sums(rng: np.random.Generator, rate: float, size: Any) -> NDArray[Any]:
    """Discrete Laplace noise."""
    kept = -math.expm1(-rate)
    return np.asarray(rng.geometric(kept, size) - rng.geometric(kept, size))


# Counts


def _counted(target: Any, m: int, n: int, epsilon: Fraction) -> Callable[[int], float]:
    return _masses(target, m, n, epsilon, m)


def _averaged(target: Any, m: int, n: int, epsilon: Fraction) -> Callable[[int], float]:
    """Everybody has as many records: the sums are the counts in finer units."""
    return _masses(target, m, n, epsilon, COUNT_LEVELS)


def _masses(target: Any, m: int, n: int, epsilon: Fraction, weight: int) -> Callable[[int], float]:
    sizes, factor = target.sizes, 1 if target.neighbours is Neighbours.ADD_REMOVE else 2
    rate = float(epsilon) / (len(sizes) * factor * weight)

    def distance(i: int) -> float:
        rng, columns = np.random.default_rng([41, m, i]), []
        for k in sizes:
            sums = rng.multinomial(n * m, np.full(k, 1 / k)) * (weight / m)
            kept = np.maximum(sums + noise_of_sums(rng, rate, k), 0)
            columns.append(kept / kept.sum() if kept.any() else np.full(k, 1 / k))
        if math.prod(sizes) > MOST_CELLS:
            return sum(float(np.abs(masses - 1 / len(masses)).sum() / 2) for masses in columns)
        joint: Floats64 = np.ones(1)
        for masses in columns:
            joint = np.multiply.outer(joint, masses).ravel()
        return float(np.abs(joint - 1 / len(joint)).sum() / 2)

    return distance


# Means


def _normal(target: Any, m: int, n: int, epsilon: Fraction) -> Callable[[int], float]:
    run = normal_run(target, m, n, epsilon)

    def distance(i: int) -> float:
        distances, likely = run(i)
        return float(np.sum(likely * distances))

    return distance


def normal_run(
    target: Any, m: int, n: int, epsilon: Fraction, place: float = 0.5, more: float = 0.0
) -> Callable[[int], tuple[Floats64, Floats64]]:
    """Distances of what is released, and their chances, in a run; the mean ``place`` of the way to the radius.

    ``more``: the share of users who hold four times as many records as declared.
    """
    law, d = target.law, int(target.d)
    learner = replace(target, epsilon=epsilon).coarse_learner(m)
    axis, relation, shares = learner.axis, Neighbours(target.neighbours), learner.shares
    factor, deviation = 1 if relation is Neighbours.ADD_REMOVE else 2, math.sqrt(rational(law.variance))
    centre = float(rational(law.radius)) * place / math.sqrt(d)
    scatter = deviation / np.sqrt(np.where(np.arange(n) < more * n, 4.0 * m, float(m)))
    coarse, fine = epsilon * shares[0] / d, epsilon * shares[1] / d
    first, last = axis.limits

    def cells(rng: np.random.Generator, y: NDArray[np.int64]) -> tuple[Floats64, Floats64]:
        """The exact law of the first step: a center in every block of cells that count alike, and its chance."""
        if axis.idle:
            return np.array([float(axis.window[0])]), np.ones(1)
        places, scores = cell_scores(Quantities(y, n), axis.cell, first, last)
        lengths = np.diff(np.append(places, last - first + 1)).astype(np.float64)
        logs = np.log(lengths) - float(coarse) / factor * (scores - scores.min())
        chance = np.exp(logs - logs.max())
        kept = chance > 1e-6 * chance.sum()
        chosen = first + places[kept] + np.floor(rng.random(int(kept.sum())) * lengths[kept])
        return chosen * axis.cell + axis.cell // 2, chance[kept] / chance[kept].sum()

    tau = axis.window[1] if axis.idle else TAU
    rate = float(fine_budget(axis, (coarse, fine))) / (factor * tau)

    def run(i: int) -> tuple[Floats64, Floats64]:
        rng, away, likely = np.random.default_rng([43, m, d, i]), np.zeros(1), np.ones(1)
        count = n if not shares[2] else max(1, n + int(noise_of_sums(rng, float(epsilon * shares[2]), ())))
        for _ in range(d):
            y = axis.steps(rng.normal(centre, scatter, n))
            centers, chance = cells(rng, y)
            sums = np.clip(y[None, :] - centers[:, None], -tau, tau).sum(axis=1) + noise_of_sums(rng, rate, ())
            value = np.clip(axis.unit * (centers + sums / count), axis.lo, axis.hi)
            away, likely = np.add.outer(away, (value - centre) ** 2).ravel(), np.multiply.outer(likely, chance).ravel()
            if len(away) > _MOST_BRANCHES:  # one of them, by its chance
                one = rng.choice(len(away), p=likely / likely.sum())
                away, likely = away[one : one + 1], np.ones(1)
        return np.asarray(2 * ndtr(np.sqrt(away) / deviation / 2) - 1), likely

    return run
