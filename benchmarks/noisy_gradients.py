"""Logistic regression by noisy gradients, per user: the usual alternative to selecting a rule, for comparisons on
public tables.

Each step averages a user's gradients over that user's records, clips the average to length ``clip``, adds the users up,
adds Gaussian noise of standard deviation ``noise * clip`` per coordinate, and moves (Abadi et al. 2016, with users in
the place of examples).  The released model is the mean of the second half of the path.  Features are scaled to -1..1 by
their public domains.

**What it would promise.**  A user changes a sum by at most ``clip`` under add-remove, so ``steps`` steps at noise
multiplier ``noise``, each on users sampled with probability ``sampling``, are ``(epsilon, delta)``-DP by the accountant
of ``dp-accounting``.  Under replace a user takes one vector of length at most ``clip`` out of a sum and puts another
one in, which moves it by at most ``2 * clip``: twice the noise makes every step the Gaussian mechanism of the
add-remove case.  With sampled users that argument does not carry over (both neighbours are mixtures then); a replaced
user is one removed and one added, so add-remove at ``epsilon / 2`` and ``delta / (1 + e**(epsilon / 2))`` promises
``(epsilon, delta)`` (group privacy, Dwork and Roth 2014, Theorem 2.2 with the deltas summed).

Noise here is drawn in floating point from a seeded generator, and the number of users is told to it: good for measuring
errors on public tables, never for a release.  Hence no ``Guarantee`` and no ``Released`` here.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Floats64
from privpac.bisection import narrow
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.parameters import read_epsilon

__all__ = ["NoisyGradients", "accountant_installed", "epsilon_spent", "noise_multiplier", "train"]

MISSING = "DP-SGD is accounted by the package dp-accounting, which is not installed: pip install dp-accounting"
RESOLUTION = 1e-3
"""Step of the accountant's privacy losses; it rounds against us, by less than a thousandth here."""
_LEAST = 1e-2


def accountant_installed() -> bool:
    return find_spec("dp_accounting") is not None


def _event(noise: float, steps: int, sampling: float) -> Any:
    accounting = import_module("dp_accounting")
    if sampling == 1:
        # Composed Gaussians of equal noise are one Gaussian: the squared shifts add up, adaptively too.
        return accounting.GaussianDpEvent(noise / math.sqrt(steps))
    return accounting.SelfComposedDpEvent(
        accounting.PoissonSampledDpEvent(sampling, accounting.GaussianDpEvent(noise)), steps
    )


def _accountant() -> Any:
    if not accountant_installed():
        raise ParameterError(MISSING)
    return import_module("dp_accounting.pld").PLDAccountant(value_discretization_interval=RESOLUTION)


def epsilon_spent(noise: float, delta: float, *, steps: int, sampling: float = 1.0) -> float:
    """The least epsilon at ``delta`` that the accountant (privacy loss distributions, add-remove) certifies for this
    noise multiplier."""
    return float(_accountant().compose(_event(noise, steps, sampling)).get_epsilon(delta))


@lru_cache(maxsize=256)
def noise_multiplier(epsilon: float, delta: float, *, steps: int, sampling: float = 1.0) -> float:
    """A noise multiplier, within two per cent of the least, that spends at most ``epsilon`` at ``delta`` by the
    accountant."""
    if sampling == 1 and steps > 1:
        return math.sqrt(steps) * noise_multiplier(epsilon, delta, steps=1)
    high = math.sqrt(2 * math.log(1.25 / delta)) / epsilon  # the classical bound, as a first guess

    def enough(noise: float) -> bool:
        return epsilon_spent(noise, delta, steps=steps, sampling=sampling) <= epsilon

    while not enough(high):
        high *= 2
    low = high / 2
    while low > _LEAST and enough(low):
        low, high = low / 2, low
    return narrow(enough, low, high, middle=lambda a, b: math.sqrt(a * b), wide=lambda low, high: high / low > 1.02)[1]


@frozen(slots=False)
class NoisyGradients:
    """One choice of the parameters that a user of DP-SGD has to choose."""

    steps: int = 300
    clip: float = 0.1
    rate: float = 30.0
    sampling: float = 1.0

    def __attrs_post_init__(self) -> None:
        positive_int(self.steps, "steps", maximum=1 << 20)
        for name, least in (("clip", 0), ("rate", 0), ("sampling", 0)):
            value = getattr(self, name)
            if (
                not isinstance(value, int | float)
                or isinstance(value, bool)
                or not math.isfinite(value)
                or value <= least
            ):
                raise ParameterError(f"{name} must be a number above 0, got {value!r}")
        if self.sampling > 1:
            raise ParameterError(f"sampling is a probability, at most 1, got {self.sampling!r}")

    def noise(self, epsilon: Rational, delta: Rational, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> float:
        """The noise multiplier, in clips, for ``(epsilon, delta)`` per user."""
        if not accountant_installed():
            raise ParameterError(MISSING)
        eps, chance = (
            float(read_epsilon(epsilon)),
            float(rational(delta, "delta", above=0, below=1)),
        )
        if one_of(Neighbours, neighbours, "neighbours") is Neighbours.ADD_REMOVE:
            return noise_multiplier(eps, chance, steps=self.steps, sampling=self.sampling)
        if self.sampling == 1:
            return 2 * noise_multiplier(eps, chance, steps=self.steps)
        return noise_multiplier(eps / 2, chance / (1 + math.exp(eps / 2)), steps=self.steps, sampling=self.sampling)


def train(
    features: Floats64,
    labels: Array,
    offsets: NDArray[np.int64],
    how: NoisyGradients,
    noise: Floats64,
    rng: np.random.Generator,
) -> Floats64:
    """One model for each noise multiplier: weights of the features, then the intercept.

    User ``i`` owns rows ``offsets[i]:offsets[i+1]``; one without records has no gradient.  All models see the same
    users and walk side by side.
    """
    points, held, ones = _by_user(features, labels, offsets)
    weights = np.zeros((len(noise), points.shape[1]))
    total, counted = np.zeros_like(weights), 0
    n_users = len(offsets) - 1
    expected = max(how.sampling * n_users, 1.0)
    for step in range(how.steps):
        taken = rng.random((n_users, 1)) < how.sampling if how.sampling < 1 else None
        gradient = _summed(points, held, ones, weights, how.clip, taken)
        gradient += (noise * how.clip)[:, None] * rng.standard_normal(weights.shape)
        weights = weights - how.rate * gradient / expected
        if 2 * step >= how.steps - 1:
            total, counted = total + weights, counted + 1
    return total / counted


def _by_user(features: Floats64, labels: Array, offsets: NDArray[np.int64]) -> tuple[Floats64, Any, Floats64]:
    """Distinct points with a 1 for the intercept; the share of each user's records at each point; each user's mean of
    label times point."""
    from scipy.sparse import csr_matrix

    distinct, place = np.unique(features, axis=0, return_inverse=True)
    points = np.column_stack([distinct, np.ones(len(distinct))])
    sizes = np.diff(offsets)
    shares = np.repeat(1 / np.maximum(sizes, 1), sizes)
    shape = (len(sizes), len(points))
    # Nobody weighs more for holding more: a user's shares sum to 1.
    held = csr_matrix((shares, place.reshape(-1), offsets), shape=shape)
    right = csr_matrix((shares * np.asarray(labels, dtype=np.float64), place.reshape(-1), offsets), shape=shape)
    held.sum_duplicates()
    return points, held, np.asarray(right @ points)


def _summed(points: Floats64, held: Any, ones: Floats64, weights: Floats64, clip: float, taken: Any) -> Floats64:
    """The sum over users of clipped mean gradients, one row for each model."""
    chance = 0.5 * (1 + np.tanh(points @ weights.T / 2))
    # (coordinates, users, models): the mean over a user's records of (chance - label) times the record.
    mean = np.stack([held @ (chance * points[:, [j]]) - ones[:, [j]] for j in range(points.shape[1])])
    length = np.sqrt((mean**2).sum(axis=0))
    # The clip is the sensitivity: whoever comes or goes moves the sum by at most ``clip``, whoever is replaced by twice
    # that.
    scale = np.minimum(1.0, clip / np.maximum(length, 1e-300))
    if taken is not None:
        scale = scale * taken
    return np.asarray((mean * scale).sum(axis=1).T)
