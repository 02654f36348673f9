"""Normal laws for ``scaling.py``: known covariance, and covariance known to lie between I and 2 I."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from sweeps import cover, cover_clip, least_certified, least_possible, lower_users, pairwise_users, people, selected

from privpac.data import Floats
from privpac.distributions import CoarseToFineGaussian, CoarseToFineMean, Gaussian
from privpac.lower_bounds import lower_gauss_mean

__all__ = [
    "COARSE",
    "FINE",
    "NEAR",
    "REACH",
    "gaussian",
    "gaussian_certified",
    "gaussian_clip",
    "gaussian_cover",
    "gaussian_lower",
    "spread",
    "spread_certified",
    "spread_clip",
    "spread_cover",
]

Reals = NDArray[np.float64]


# Normal means


RADIUS = 10


def gaussian(d: int, n: int, m: int, seed: int, draws: int = 8) -> float:
    """Mean total variation of N(mean, I); coarse to fine."""
    rng = np.random.default_rng(seed)
    true = rng.uniform(-3, 3, d)
    data = people(rng.normal(true, 1, (n * m, d)), m, {f"x{j}": Floats() for j in range(d)})
    learner = CoarseToFineMean(1, radius=RADIUS, records_per_user=m)
    means = np.array([learner.learn(data).value.mean for _ in range(draws)])
    return float(np.mean(2 * ndtr(np.linalg.norm(means - true, axis=1) / 2) - 1))


def gaussian_cover(n: int, m: int, seed: int, clip: Fraction | None) -> float:
    """Mean total variation over the law on a cover of radius 1/200, one column."""
    rng = np.random.default_rng(seed)
    true = rng.uniform(-3, 3)
    members = cover(Gaussian(radius=RADIUS), 0)
    law = selected(members, people(rng.normal(true, 1, n * m), m, {"x": Floats()}), m, clip)
    means = float(members.start) + float(members.step) * np.arange(members.size)
    return float(law @ (2 * ndtr(np.abs(means - true) / 2) - 1))


def gaussian_certified(d: int, n: int, m: int) -> float | None:
    def users(alpha: Fraction) -> int | None:
        spacing = 2 * float(ndtri((1 + float(alpha) / 10) / 2))
        return pairwise_users(d * math.log(math.ceil(RADIUS * math.sqrt(d) / spacing)), alpha, m)

    return least_certified(users, n)


def gaussian_clip(n: int, m: int) -> Fraction | None:
    return cover_clip(cover(Gaussian(radius=RADIUS), 0), Gaussian(radius=RADIUS), n, m)


def gaussian_lower(d: int, n: int, m: int) -> float | None:
    return least_possible(lambda a: lower_users(lower_gauss_mean, d, a, m), n)


# Normal laws with unknown covariance


REACH, NEAR, LARGEST = Fraction(1), Fraction(1, 10), 2
FINE, COARSE = Fraction(1, 100), Fraction(1, 5)


def population(d: int, reach: float, rng: np.random.Generator) -> tuple[Reals, Reals]:
    """A mean within reach, and a covariance with eigenvalues between 1 and 2 in random directions."""
    way = rng.normal(size=d)
    mean = way / np.linalg.norm(way) * reach * rng.random() ** (1 / d)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return mean, turn * rng.uniform(1, LARGEST, d) @ turn.T


def distances(mean: Reals, covariance: Reals, means: Reals, covariances: Reals, rng: np.random.Generator) -> Reals:
    """Total variation from one normal law to others: the mean of ``(1 - Q/P)_+`` over 2048 points of P."""
    points = rng.multivariate_normal(mean, covariance, 2048)
    own = log_normal(points, mean[None], covariance[None])
    return np.asarray(np.maximum(0, -np.expm1(log_normal(points, means, covariances) - own)).mean(axis=0))


def log_normal(points: Reals, means: Reals, covariances: Reals) -> Reals:
    """One column for each law, up to a constant."""
    inverse, (_, size) = np.linalg.inv(covariances), np.linalg.slogdet(covariances)
    linear = np.einsum("kij,kj->ki", inverse, means)
    square = np.einsum("ni,nj->nij", points, points).reshape(len(points), -1) @ inverse.reshape(len(means), -1).T
    return np.asarray(points @ linear.T - (square + np.einsum("ki,ki->k", linear, means) + size) / 2)


def spread_cover(d: int, n: int, m: int, radius: Fraction, reach: Fraction, seed: int, clip: Fraction | None) -> float:
    """Mean total variation over the law on a cover, mean and covariance unknown."""
    rng = np.random.default_rng(seed)
    mean, covariance = population(d, float(reach), rng)
    members = spread_members(d, radius, reach)
    x = rng.multivariate_normal(mean, covariance, n * m)
    names = ["x"] if d == 1 else [f"x{j}" for j in range(d)]
    law = selected(members, people(x, m, {name: Floats() for name in names}), m, clip)
    if d == 1:
        means, covariances = members.means[:, None], members.deviations[:, None, None] ** 2
    else:
        means, covariances = (
            np.stack([p.mean for p in members.members]),
            np.stack([p.covariance for p in members.members]),
        )
    kept = law > 1e-9
    return float(law[kept] @ distances(mean, covariance, means[kept], covariances[kept], rng))


def spread_members(d: int, radius: Fraction, reach: Fraction) -> Any:
    return cover(Gaussian(radius=reach, max_variance=LARGEST), 0, radius, d)


def spread_clip(d: int, n: int, m: int, radius: Fraction, reach: Fraction) -> Fraction | None:
    return cover_clip(spread_members(d, radius, reach), Gaussian(radius=reach, max_variance=LARGEST), n, m)


def spread(d: int, n: int, m: int, seed: int, draws: int = 4) -> float:
    """Mean total variation, mean and covariance unknown; coarse to fine."""
    rng = np.random.default_rng(seed)
    mean, covariance = population(d, float(REACH), rng)
    data = people(rng.multivariate_normal(mean, covariance, n * m), m, {f"x{j}": Floats() for j in range(d)})
    learner = CoarseToFineGaussian(1, radius=REACH, max_variance=LARGEST, records_per_user=m)
    found = [learner.learn(data).value for _ in range(draws)]
    means, covariances = np.array([law.mean for law in found]), np.array([law.covariance for law in found])
    return float(distances(mean, covariance, means, covariances, rng).mean())


def spread_certified(d: int, n: int, m: int, reach: Fraction = REACH) -> float | None:
    """Selection from a cover whose radius is a tenth of the error; its size before matrices out of range are left
    out."""

    def users(alpha: Fraction) -> int | None:
        c = float(alpha) / 10
        if d == 1:
            steps = math.ceil(0.5 * math.log(LARGEST) / (c * math.sqrt(math.pi * math.e / 2)))
            scales = np.exp((np.arange(steps) + 0.5) * c * math.sqrt(math.pi * math.e / 2))
            return pairwise_users(
                math.log(np.ceil(2 * float(reach) / (c * math.sqrt(2 * math.pi) * scales)).sum()), alpha, m
            )
        spacing = 2 * float(ndtri((1 + c / 2) / 2))
        means = d * math.log(math.ceil(float(reach) * math.sqrt(d) / spacing))
        return pairwise_users(means + d * (d + 1) / 2 * math.log(math.ceil((LARGEST - 1) * d / (2 * c))), alpha, m)

    return least_certified(users, n)
