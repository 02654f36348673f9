"""Covariances of normal quantities, and normal laws with nothing known but ranges, coarse to fine.

A user's number for the entry ``(a, b)`` is half the mean product of the differences of disjoint pairs of records, whose
mean is ``S_ab`` whatever the mean of the records and whose spread is at most ``K sqrt(2 / nu)`` for variances up to K.
Every entry gets an equal part of the budget; the matrix is then projected to eigenvalues in ``[min_variance,
max_variance]``, which is post-processing.

**Guarantee.**  ``(epsilon, 0)`` per user by basic composition over entries (see :mod:`privpac.distributions.coarse`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import Domain
from privpac.distributions.base import BoundUsers
from privpac.distributions.coarse import STEPS, Axis, estimate
from privpac.distributions.means import (
    CoarseToFineMean,
    CoarseToFineVariance,
    Collect,
    PairedSteps,
    checked_axis,
    moment_of,
)
from privpac.distributions.results import GaussianDistribution
from privpac.errors import ParameterError
from privpac.guarantee import Guarantee
from privpac.parameters import bounds, fraction, named, probability
from privpac.released import Released

if TYPE_CHECKING:
    from privpac.rng import Rng

__all__ = ["CoarseToFineCovariance", "CoarseToFineGaussian", "project_eigenvalues"]

Floats64 = NDArray[np.float64]


def project_eigenvalues(matrix: Floats64, lo: float, hi: float) -> Floats64:
    """The nearest symmetric matrix with eigenvalues in ``[lo, hi]``."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    out = (vectors * np.clip(values, lo, hi)) @ vectors.T
    return np.asarray((out + out.T) / 2)


@frozen(slots=False, init=False, field_transformer=named)
class CoarseToFineCovariance(PairedSteps):
    """The covariance matrix of several columns, eigenvalues known to lie between ``min_variance`` and ``max_variance``.

    Releases the matrix as a tuple of rows; at least 4 records per user are promised.
    """

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.axis  # noqa: B018

    @property
    def axis(self) -> Axis:
        """The public axis of every entry: units of ``K sqrt(2 / nu) / 64`` on ``[-K, K]``."""
        top = float(self.spread.max_variance)
        return checked_axis(top * math.sqrt(2 / (self.records_per_user // 2)) / STEPS, -top, top, self.neighbours)

    @property
    def idle(self) -> bool:
        return self.axis.idle

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        matrix, shown = self._matrix(bound, self.epsilon, rng)
        return Released(
            tuple(map(tuple, matrix.tolist())),
            self.guarantee,
            self._public | shown,
            learner="coarse-to-fine covariance",
        )

    def _matrix(self, bound: BoundUsers, epsilon: Fraction, rng: Rng) -> tuple[Floats64, dict[str, Any]]:
        names = list(bound.features)
        entries = [(i, j) for i in range(len(names)) for j in range(i, len(names))]
        folded = [
            bound.users.fold(Collect(moment_of((names[i], names[j]), bound.features), self.axis)) for i, j in entries
        ]
        count, shown = self._count(bound.users, len(folded[0].y), epsilon, rng)
        budgets = self._split(epsilon, len(entries))
        relation = self.neighbours
        matrix = np.zeros((len(names), len(names)))
        for (i, j), data in zip(entries, folded):
            matrix[i, j] = matrix[j, i] = estimate(data, self.axis, count, budgets, relation, rng)
        return project_eigenvalues(matrix, float(self.spread.min_variance), float(self.spread.max_variance)), shown


@frozen(slots=False, init=False, field_transformer=named)
class CoarseToFineGaussian(PairedSteps):  # type: ignore[override]
    """A normal law with unknown mean (coordinates within ``radius``) and unknown variance or covariance.

    The spread is released first; its released values are the units of the mean (adaptive composition).

    Parameters
    ----------
    radius : number
        A public bound on every coordinate of the mean.
    spread_share : number
        The part of epsilon that the spread costs (public); default 1/2.
    """

    radius: Fraction = field(kw_only=True, converter=fraction, metadata=bounds(above=0))
    spread_share: Fraction = field(default=Fraction(1, 2), kw_only=True, converter=probability)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._axis(float(self.spread.min_variance))  # the finest units: too many steps are refused here
        self._spread(1), self._spread(2), self._mean

    def _axis(self, variance: float) -> Axis:
        reach = float(self.radius)
        return checked_axis(
            math.sqrt(variance) / (STEPS * math.sqrt(self.records_per_user)), -reach, reach, self.neighbours
        )

    @property
    def _common(self) -> dict[str, Any]:
        names = ("records_per_user", "shares", "features", "max_records", "neighbours", "unit")
        return {name: getattr(self, name) for name in names}

    def _spread(self, columns: int) -> CoarseToFineVariance | CoarseToFineCovariance:
        kind = CoarseToFineVariance if columns == 1 else CoarseToFineCovariance
        epsilon = self.epsilon * self.spread_share
        return kind(epsilon, spread=self.spread, **self._common)

    @property
    def _mean(self) -> CoarseToFineMean:
        epsilon = self.epsilon * (1 - self.spread_share)
        return CoarseToFineMean(epsilon, radius=self.radius, variance=self.spread.min_variance, **self._common)

    @property
    def guarantee(self) -> Guarantee:
        epsilon = self.epsilon
        first = epsilon * self.spread_share
        how = (f"spread ({first}), then the mean in its units ({epsilon - first})",)
        return Guarantee(epsilon, unit=self.unit, neighbours=self.neighbours, derivation=how)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        super().check_domains(domains)
        if len(domains) > 64:
            raise ParameterError(
                f"a covariance of {len(domains)} columns would spread the budget over too many entries; use at most 64"
            )

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        epsilon = self.epsilon
        first = epsilon * self.spread_share
        spread = self._spread(len(bound.features))
        if isinstance(spread, CoarseToFineVariance):
            found, shown = spread._variances(bound, first, rng)
            matrix = np.array([found])
        else:
            matrix, shown = spread._matrix(bound, first, rng)
        axes = [self._axis(float(matrix[i, i])) for i in range(len(matrix))]
        means, more = self._mean._means(bound, axes, epsilon - first, rng)
        published = GaussianDistribution(tuple(bound.features), tuple(means), tuple(map(tuple, matrix.tolist())))
        shown = {"radius": self.radius, "records_per_user": self.records_per_user} | shown | more
        return Released(published, self.guarantee, shown, learner="coarse-to-fine normal law")
