"""The cover of normal laws of several columns with unknown covariance ``I <= S <= K I`` (in units of the least
variance).

Entries of S lie on a grid of spacing ``2 c / d``, means on a cubic grid of radius ``c / 2``.  A matrix of the family is
within ``spacing * d / 2 = c`` (Frobenius) of a grid matrix, and ``TV <= (1/2) |S1^{-1/2} S2 S1^{-1/2} - I|`` while
eigenvalues stay above 1/2. The size grows like ``(K d / (2 c))^(d (d+1) / 2)`` times the means: only tiny covers can be
searched, pair by pair, with ``P(W)`` from public coins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain
from privpac.distributions.covers.base import Cover, grid_points
from privpac.distributions.covers.gaussian import grid_cover
from privpac.distributions.results import Distribution, GaussianDistribution
from privpac.distributions.selection.candidates import Normal
from privpac.distributions.selection.pointwise import DensityComparison, monte_carlo
from privpac.errors import TooLargeError

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["CovarianceCover", "covariance_cover", "covariance_grid"]

MAX_NORMALS = 256
SAMPLES = 1 << 15


@dataclass(frozen=True, eq=False)
class CovarianceCover(Cover):
    """Normal laws listed one by one."""

    domains: dict[str, Domain]
    members: tuple[Normal, ...]
    unit: int
    radius: Fraction

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.members)

    @cached_property
    def comparison(self) -> DensityComparison:
        likely = monte_carlo(self.members, len(self.domains), SAMPLES, bytes(32))
        q = np.floor(likely * self.unit + 0.5).astype(np.int64)
        return DensityComparison(q, self.unit, self.members, self.domains)

    def likely(self) -> NDArray[np.int64]:
        return np.unique(self.comparison.q[~np.eye(self.size, dtype=bool)])

    def member(self, index: int) -> Distribution:
        found = self.members[index].publish(self.domains, index)
        assert isinstance(found, GaussianDistribution)
        return found

    def scores(self, users: Users, top: int) -> NDArray[np.int64]:
        return self.comparison.scores(users, top)


def covariance_grid(d: int, ratio: float, radius: float) -> NDArray[np.float64]:
    """Symmetric matrices with entries on the grid and eigenvalues within ``radius`` of ``[1, ratio]``, one of them
    within ``radius`` of every S with ``I <= S <= ratio I`` (off the diagonal ``|S_ij| <= (ratio - 1) / 2``)."""
    spacing = 2 * radius / d
    count = max(1, math.ceil((ratio - 1) / spacing))
    entries = d * (d + 1) // 2
    if count**entries > 1 << 20:
        raise _too_large(count**entries)
    places = grid_points([range(1 - count, count, 2)] * entries).astype(np.float64) * (spacing / 2)
    rows, columns = np.triu_indices(d)
    out = np.zeros((len(places), d, d))
    out[:, rows, columns] = places + np.where(rows == columns, (1 + ratio) / 2, 0.0)
    out[:, columns, rows] = out[:, rows, columns]
    eigenvalues = np.linalg.eigvalsh(out)
    keep = (
        (eigenvalues[:, 0] >= 1 - radius - 1e-12)
        & (eigenvalues[:, -1] <= ratio + radius + 1e-12)
        & (eigenvalues[:, 0] >= 0.5)
    )
    return np.asarray(out[keep])


def covariance_cover(
    domains: dict[str, Domain], reach: Fraction, variance: Fraction, ratio: Fraction, radius: Fraction, unit: int
) -> CovarianceCover:
    """The cover of means within ``reach`` and covariances between ``variance I`` and ``ratio variance I``."""
    matrices = covariance_grid(len(domains), float(ratio), float(radius)) * float(variance)
    means = grid_cover(domains, reach, variance, radius / 2, unit)
    total = len(matrices) * means.size
    if total > MAX_NORMALS:
        raise _too_large(total)
    members = [Normal(point * means.half, matrix, "normal") for matrix in matrices for point in means.points]
    return CovarianceCover(dict(domains), tuple(members), unit, radius)


def _too_large(count: int) -> TooLargeError:
    return TooLargeError(
        f"the cover has about {count} normal laws, more than {MAX_NORMALS}; use CoarseToFineGaussian, or a larger alpha"
    )
