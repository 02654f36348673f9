"""What a private estimate of the least error of a class costs and brings.

Both estimators compare ``eta`` with grid values through counts of users: a comparison of width ``w`` at ``p`` separates
``Bin(m, p)`` from ``Bin(m, p + w)``, whose total variation distance ``g`` must exceed noise and deviation.

* *bisect*: ``T`` comparisons, each with ``epsilon/T``; ``w = alpha_e``, ``T = log2(1/alpha_e)``; succeeds when
  ``n (g/2 - a) >= (T/epsilon) ln(T/(2 b))``.
* *oneshot*: one selection among ``J = ceil(1/w)`` cells, ``w = 2 alpha_e/3``; succeeds when ``n (g - 2a) >= (2/epsilon)
  ln(J/b)``.

All users hold the same number of records, so one user moves every comparison by at most 1 under both relations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.certificate import SLACK
from privpac.special import gammaln, xlog1py, xlogy

__all__ = ["ESTIMATORS", "Estimate", "estimate_plan"]

ESTIMATORS = ("bisect", "oneshot")

_DROP = 1e-10
"""Gaps from summed probabilities are lowered by this much: above their rounding error and the ties of ``robust_t``."""


@dataclass(frozen=True)
class Estimate:
    """Accuracy ``2**-j``: ``compare_gap`` is the worst comparison, ``robust_gap`` the worst gap of the threshold chosen
    afterwards."""

    estimator: str
    m: int
    j: int
    alpha: Fraction

    @property
    def cells(self) -> int:
        return _cells(self.estimator, self.j).cells

    @property
    def compare_gap(self) -> float:
        return _compare_gap(self.estimator, self.m, self.j)

    @cached_property
    def robust_gap(self) -> float:
        return max(0.0, _worst_robust_gap(self.m, _cells(self.estimator, self.j), self.alpha))

    def succeeds(self, n_users: int, radius: float, epsilon: float, failure: float) -> bool:
        """Whether the estimate is right with probability ``1 - failure``, given uniform deviations of at most
        ``radius``."""
        if self.estimator == "bisect":
            rounds = self.cells.bit_length() - 1
            noise = rounds / epsilon * max(0.0, math.log(rounds / (2 * failure)))
            return noise * (1 + SLACK) <= n_users * (self.compare_gap / 2 - radius)
        return 2 / epsilon * math.log(self.cells / failure) * (1 + SLACK) <= n_users * (self.compare_gap - 2 * radius)


@dataclass(frozen=True)
class _EstimateCells:
    """The cells of an estimate: grid values to compare with, and both ends of what an answer leaves possible."""

    cells: int
    width: float
    grid: list[float]
    below: NDArray[np.float64]
    above: NDArray[np.float64]


@lru_cache(maxsize=64)
def _cells(estimator: str, j: int) -> _EstimateCells:
    accuracy = Fraction(1, 1 << j)
    if estimator == "bisect":
        width, cells = accuracy, 1 << j
        centres = [(i * width + min(Fraction(1), (i + 2) * width)) / 2 for i in range(cells)]
    else:
        width = accuracy * 2 / 3
        cells = math.ceil(1 / width)
        centres = [min(Fraction(1), (i + Fraction(1, 2)) * width) for i in range(cells)]
    below, above = (np.array([float(centre + sign * accuracy) for centre in centres]) for sign in (-1, 1))
    return _EstimateCells(cells, float(width), [float(i * width) for i in range(1, cells)], below, above)


@lru_cache(maxsize=512)
def _compare_gap(estimator: str, m: int, j: int) -> float:
    cells = _cells(estimator, j)
    compare = _distances(m, cells.grid, [min(1.0, p + cells.width) for p in cells.grid])
    return max(0.0, min(compare, default=1.0) - _DROP)


@lru_cache(maxsize=512)
def estimate_plan(estimator: str, m: int, j: int, alpha: Fraction) -> Estimate:
    """The two gaps of an estimate with accuracy ``2**-j`` followed by a choice of threshold at ``alpha``."""
    return Estimate(estimator, m, j, alpha)


def _worst_robust_gap(m: int, cells: _EstimateCells, alpha: Fraction) -> float:
    # Rounding is monotone, so that clipping the rounded ends is rounding the clipped ones.
    high = np.maximum(0.0, np.minimum(float(1 - alpha), cells.above))
    low = np.minimum(np.maximum(0.0, cells.below), high)
    at_low, at_high = (_gaps(m, ends, float(alpha)) for ends in (low, high))
    return float(np.minimum(at_low, at_high).max(axis=1).min()) * (1 - 2e-9) - _DROP


def _gaps(m: int, etas: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """``psi(m, eta + alpha, t) - psi(m, eta, t)`` for each eta and t = 0..m-1."""
    upper, lower = (_masses(m, rates).cumsum(axis=1)[:, :-1] for rates in (np.minimum(1.0, etas + alpha), etas))
    return np.asarray(lower - upper)


def _distances(m: int, low: list[float], high: list[float]) -> list[float]:
    """Total variation distances of ``Bin(m, low[i])`` and ``Bin(m, high[i])``."""
    if not low:
        return []
    return [float(x) for x in np.abs(_masses(m, np.array(low)) - _masses(m, np.array(high))).sum(axis=1) / 2]


def _masses(m: int, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities of ``Bin(m, p)``, one row per rate, scaled to sum to 1."""
    k, p = np.arange(m + 1, dtype=float)[None, :], rates[:, None]
    choose = gammaln(m + 1.0) - gammaln(k + 1) - gammaln(m - k + 1)
    mass = np.exp(choose + xlogy(k, p) + xlog1py(m - k, -p))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))
