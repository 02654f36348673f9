"""Means and variances of normal quantities, coarse to fine: nothing to search, any number of columns.

*Mean.*  A user's number is the mean of their records, in units of ``s / (64 sqrt m)``; columns share the budget
equally.  For one column the rate is that of the best known method; for d columns it is ``d^1.5 / (eps alpha sqrt m)``,
a factor ``sqrt d`` above it.

*Variance.*  ``v_i`` = half the mean squared difference of disjoint pairs of the user's records (``nu = floor(m_i / 2)``
of them) is ``s^2 chi^2_nu / nu`` whatever the mean, so ``y = ln v_i - digamma(nu/2) + ln(nu/2)`` has mean ``ln s^2``
and spread about ``sqrt(2 / nu)``.

**Guarantee.**  ``(epsilon, 0)`` per user (see :mod:`privpac.distributions.coarse`), whatever the true distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import Domain, UserData
from privpac.data.jit import jit
from privpac.distributions.base import BoundUsers, DistributionLearner
from privpac.distributions.cells import is_numeric, values_of
from privpac.distributions.coarse import MAX_STEPS, SHORT, STEPS, Axis, Quantities, cell_law, estimate
from privpac.distributions.results import GaussianDistribution
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.guarantee import Guarantee, Neighbours
from privpac.learners.base import count_users
from privpac.mechanisms.laplace import discrete_laplace
from privpac.parameters import Composed, bounds, fraction, named, part, privacy, whole
from privpac.released import Released
from privpac.special import digamma

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.law import Law
    from privpac.rng import Rng

__all__ = ["CoarseToFineMean", "CoarseToFineVariance", "PairedSteps", "TwoSteps"]

Ints = NDArray[np.int64]
Floats64 = NDArray[np.float64]


@jit
def user_means(offsets: Ints, values: Floats64) -> Floats64:
    """The mean of each user's records, added in their order; NaN without records."""
    out = np.full(offsets.size - 1, np.nan)
    for user in range(offsets.size - 1):
        first, last = offsets[user], offsets[user + 1]
        total = 0.0
        for i in range(first, last):
            total += values[i]
        if last > first:
            out[user] = total / (last - first)
    return out


@jit
def pair_moments(offsets: Ints, first: Floats64, second: Floats64) -> Floats64:
    """Half the mean product of the differences of disjoint pairs; NaN with fewer than two pairs."""
    out = np.full(offsets.size - 1, np.nan)
    for user in range(offsets.size - 1):
        start, pairs = offsets[user], (offsets[user + 1] - offsets[user]) // 2
        if pairs < 2:
            continue
        total = 0.0
        for k in range(pairs):
            i = start + 2 * k
            total += (first[i] - first[i + 1]) * (second[i] - second[i + 1])
        out[user] = total / (2 * pairs)
    return out


@dataclass(frozen=True)
class Collect:
    """A kernel: the users' integers (where they have one), and how many users there are."""

    compute: Callable[[UserData], Floats64]
    axis: Axis

    def zero(self) -> Quantities:
        return Quantities(np.empty(0, np.int64), 0)

    def chunk(self, users: UserData) -> Quantities:
        values = self.compute(users)
        return Quantities(self.axis.steps(values[~np.isnan(values)]), users.n_users)

    def merge(self, a: Quantities, b: Quantities) -> Quantities:
        return Quantities(np.concatenate([a.y, b.y]), a.n_users + b.n_users)


def mean_of(name: str, domain: Domain) -> Callable[[UserData], Floats64]:
    return lambda users: user_means(users.offsets, values_of(domain, users.codes[name]))


def moment_of(names: tuple[str, str], domains: Mapping[str, Domain]) -> Callable[[UserData], Floats64]:
    a, b = names
    return lambda users: pair_moments(
        users.offsets, values_of(domains[a], users.codes[a]), values_of(domains[b], users.codes[b])
    )


@jit
def _log_moments(moments: Floats64, shift: Floats64) -> Floats64:
    """``ln v + shift``, one scalar logarithm per user; a moment of 0 counts as the smallest positive number, NaN
    stays."""
    out = np.empty(moments.size)
    for user in range(moments.size):
        out[user] = math.log(5e-324) if moments[user] <= 0 else math.log(moments[user])
        out[user] += shift[user]
    return out


def log_variance_of(name: str, domain: Domain) -> Callable[[UserData], Floats64]:
    """``ln v - digamma(nu/2) + ln(nu/2)`` for every user."""

    def compute(users: UserData) -> Floats64:
        values = values_of(domain, users.codes[name])
        pairs, place = np.unique(np.maximum(users.sizes // 2, 1), return_inverse=True)
        shift = np.log(pairs / 2) - np.asarray(digamma(pairs / 2))
        return _log_moments(pair_moments(users.offsets, values, values), shift[place])

    return compute


def _read_shares(shares: Any) -> tuple[Fraction, ...] | None:
    if shares is None:
        return None
    return tuple(rational(each, "a share", minimum=0, maximum=1) for each in shares)


@frozen(slots=False, field_transformer=named)
class TwoSteps(DistributionLearner):
    """What the coarse-to-fine learners share: the split of the budget and the number to divide by.

    Parameters
    ----------
    epsilon : number
        The privacy parameter.
    records_per_user : int
        Records that every user is promised to hold (public).
    shares : three numbers, optional
        The parts of epsilon for the cell, the clipped sum and the count of users (public); they sum to 1.
    """

    epsilon: Fraction = field(converter=privacy)
    records_per_user: int = field(kw_only=True, converter=whole, metadata=bounds(maximum=1 << 31))
    _shares: tuple[Fraction, ...] | None = field(default=None, kw_only=True, converter=_read_shares)

    def __attrs_post_init__(self) -> None:
        shares, private = self.shares, self.neighbours is Neighbours.ADD_REMOVE
        if len(shares) != 3 or sum(shares) != 1 or not (shares[0] and shares[1]) or (private and not shares[2]):
            raise ParameterError(
                "shares must be (coarse, fine, count), sum to 1, and be positive (count may be 0 under replace)"
            )

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Coarse, fine, count; under replace the number of users is public and costs nothing."""
        if self._shares is not None:
            return self._shares
        if self.neighbours is Neighbours.ADD_REMOVE:
            return Fraction(3, 8), Fraction(1, 2), Fraction(1, 8)
        return Fraction(1, 2), Fraction(1, 2), Fraction(0)

    @property
    def idle(self) -> bool:
        """Whether the range is so small that there is no first step, and the second has its share too."""
        return False

    @property
    def guarantee(self) -> Guarantee:
        sums = "clipped sums (no cells to choose from)" if self.idle else "cells, clipped sums"
        how = (sums + (" and a count of users" if self.shares[2] else "") + f" with shares {self._shown}",)
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, derivation=how)

    @property
    def _shown(self) -> str:
        coarse, fine, count = self.shares
        return ", ".join(str(part) for part in ((coarse + fine, count) if self.idle else self.shares))

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        odd = [name for name, domain in domains.items() if not is_numeric(domain)]
        if odd:
            raise ParameterError(f"columns {odd} do not hold numbers; declare Integers, Grid or Floats")

    def bind(self, data: Users) -> BoundUsers:
        return BoundUsers(*self.bind_users(data))

    def _count(self, users: Users, filled: int, epsilon: Fraction, rng: Rng) -> tuple[int, dict[str, Any]]:
        """The number to divide by, and what is published of it: the noisy number of users with a value, or the public
        n."""
        if not self.shares[2]:
            return count_users(users), {}
        noisy = filled + discrete_laplace(epsilon * self.shares[2], rng)
        return max(1, noisy), {"users (noisy)": max(1, noisy)}

    def _split(self, epsilon: Fraction, parts: int) -> tuple[Fraction, Fraction]:
        return epsilon * self.shares[0] / parts, epsilon * self.shares[1] / parts


def checked_axis(unit: float, lo: float, hi: float, neighbours: Any) -> Axis:
    """An axis whose steps fit 52 bits."""
    if not unit > 0 or max(abs(lo), abs(hi)) / unit > MAX_STEPS:
        raise ParameterError("the declared range has more than 2^52 steps; declare a smaller range or a larger spread")
    return Axis(unit, lo, hi, short=SHORT[Neighbours(neighbours)])


@frozen(slots=False, field_transformer=named)
class CoarseToFineMean(TwoSteps):
    """The mean of each column, for normal (or similar) quantities of known ``variance``.

    Parameters
    ----------
    radius : number
        A public bound on every coordinate of the mean.
    variance : number
        The known variance (public); default 1.

    >>> from privpac.data import Grid, UserData
    >>> data = UserData.from_users([[1.0, 1.5], [0.5]], features={"x": Grid(-9, 9, 0.5)}, labelled=False)
    >>> CoarseToFineMean(1, radius=10, records_per_user=2).coarse_law(data).mode
    7
    """

    radius: Fraction = field(kw_only=True, converter=fraction, metadata=bounds(above=0))
    variance: Fraction = field(default=Fraction(1), kw_only=True, converter=fraction, metadata=bounds(above=0))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.axis  # noqa: B018  # a range of too many steps is refused here

    @property
    def axis(self) -> Axis:
        """The public axis of every coordinate: units of ``sqrt(variance) / (64 sqrt m)``."""
        reach = float(self.radius)
        return checked_axis(
            math.sqrt(self.variance) / (STEPS * math.sqrt(self.records_per_user)),
            -reach,
            reach,
            self.neighbours,
        )

    @property
    def idle(self) -> bool:
        return self.axis.idle

    def coarse_law(self, data: Users, feature: str | None = None) -> Law:
        """The law of the first step for one column, over cells counted from the lowest."""
        if self.idle:
            raise ParameterError(
                f"radius = {self.radius} leaves too few cells to choose from, so there is no first step"
            )
        bound = self.bind(data)
        name = next(iter(bound.features)) if feature is None else feature
        found = bound.users.fold(Collect(mean_of(name, bound.features[name]), self.axis))
        first, _ = self._split(self.epsilon, len(bound.features))
        return cell_law(found, self.axis.cell, self.axis.limits, first, self.neighbours)

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        epsilon, d = self.epsilon, len(bound.features)
        means, shown = self._means(bound, [self.axis] * d, epsilon, rng)
        variance = float(self.variance)
        covariance = tuple(tuple(variance if i == j else 0.0 for j in range(d)) for i in range(d))
        shown = {"radius": self.radius, "records_per_user": self.records_per_user, "variance": self.variance} | shown
        published = GaussianDistribution(tuple(bound.features), tuple(means), covariance)
        return Released(published, self.guarantee, shown, learner="coarse-to-fine mean")

    def _means(
        self, bound: BoundUsers, axes: list[Axis], epsilon: Fraction, rng: Rng
    ) -> tuple[list[float], dict[str, Any]]:
        folded = [
            bound.users.fold(Collect(mean_of(name, domain), axis))
            for (name, domain), axis in zip(bound.features.items(), axes)
        ]
        count, shown = self._count(bound.users, len(folded[0].y), epsilon, rng)
        budgets = self._split(epsilon, len(axes))
        relation = self.neighbours
        return [estimate(data, axis, count, budgets, relation, rng) for data, axis in zip(folded, axes)], shown


@frozen(slots=False, field_transformer=named)
class VarianceRange:
    """Where variances are known to lie.  Public.

    Parameters
    ----------
    max_variance, min_variance : number
        The largest, and the smallest (default 1).
    """

    max_variance: Fraction = field(converter=fraction)
    min_variance: Fraction = field(default=Fraction(1), converter=fraction, metadata=bounds(above=0))

    def __attrs_post_init__(self) -> None:
        if self.max_variance <= self.min_variance:
            raise ParameterError(
                f"max_variance must exceed min_variance = {self.min_variance}, got {self.max_variance}"
            )


@frozen(slots=False, init=False, field_transformer=named)
class PairedSteps(Composed, TwoSteps):
    """Learners of spread, known to lie in a declared range, from pairs of a user's records.

    Parameters
    ----------
    spread : VarianceRange
        Given by its own parameters: ``max_variance``, ``min_variance``.
    """

    spread: VarianceRange = part(VarianceRange)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.records_per_user < 4:
            raise ParameterError(
                f"records_per_user must be at least 4 to see a user's own spread, got {self.records_per_user}"
            )

    @property
    def _public(self) -> dict[str, Any]:
        return {
            "min_variance": self.spread.min_variance,
            "max_variance": self.spread.max_variance,
            "records_per_user": self.records_per_user,
        }


@frozen(slots=False, init=False, field_transformer=named)
class CoarseToFineVariance(PairedSteps):
    """The variance of each column, known to lie between ``min_variance`` and ``max_variance``; at least 4 records per
    user are promised.

    Releases one number, or one for each column.
    """

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.axis  # noqa: B018

    @property
    def axis(self) -> Axis:
        """The public axis of ``ln variance``: units of ``sqrt(2 / nu) / 64``."""
        lo, hi = math.log(self.spread.min_variance), math.log(self.spread.max_variance)
        return checked_axis(math.sqrt(2 / (self.records_per_user // 2)) / STEPS, lo, hi, self.neighbours)

    @property
    def idle(self) -> bool:
        return self.axis.idle

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        found, shown = self._variances(bound, self.epsilon, rng)
        return Released(
            found[0] if len(found) == 1 else tuple(found),
            self.guarantee,
            self._public | shown,
            learner="coarse-to-fine variance",
        )

    def _variances(self, bound: BoundUsers, epsilon: Fraction, rng: Rng) -> tuple[list[float], dict[str, Any]]:
        folded = [
            bound.users.fold(Collect(log_variance_of(name, domain), self.axis))
            for name, domain in bound.features.items()
        ]
        count, shown = self._count(bound.users, len(folded[0].y), epsilon, rng)
        budgets = self._split(epsilon, len(folded))
        relation = self.neighbours
        return [math.exp(estimate(data, self.axis, count, budgets, relation, rng)) for data in folded], shown
