"""Means and variances of normal quantities, coarse to fine: nothing to search, any number of columns.

*Mean.*  A user's number is the mean of their records, in units of ``s / (64 sqrt m)``; columns share the budget
equally.  For one column the rate is that of the best known method; for d columns it is ``d^1.5 / (eps alpha sqrt m)``,
a factor ``sqrt d`` above it.

*Variance.*  ``v_i`` = half the mean squared difference of disjoint pairs of the user's records (``nu = floor(m_i / 2)``
of them) is ``s^2 chi^2_nu / nu`` whatever the mean, so ``y = ln v_i - digamma(nu/2) + ln(nu/2)`` has mean ``ln s^2``
and spread about ``sqrt(2 / nu)``.

**Guarantee.**  ``(epsilon, 0)`` per user (see :mod:`privpac.distributions.gaussian`), whatever the true distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from math import ceil, floor, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from privpac.arrays import Floats64, Ints
from privpac.bisection import least
from privpac.data import Domain, UserData
from privpac.data.loops import jit
from privpac.distributions.base import BoundUsers, DistributionLearner
from privpac.distributions.cells import is_numeric, values_of
from privpac.distributions.results import GaussianDistribution
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, positive_int
from privpac.law import Law
from privpac.mechanisms.laplace import discrete_laplace
from privpac.methods.base import count_users
from privpac.parameters import Composed, bounds, fraction, named, part, privacy, probability, whole
from privpac.result import Released
from privpac.sample_size import SLACK, Certificate, open_unit
from privpac.special import digamma, erfinv, ndtr, ndtri

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.rng import Rng

# Coarse to fine: the mean of one number per user, first its cell, then its place in it.
#
# Each user holds one integer ``y_i`` (in units so small that a user's own sampling is 64 of them), or none.
#
#     1 (eps_1): score_j = n - #{i : |cell(y_i) - j| <= 1}; exponential mechanism over the cells  ``j_min..j_max``
#     2 (eps_2): G = sum_i clip(y_i - center, -tau, tau) + DLap(f tau / eps_2),  center = j * cell + cell / 2
#     3 (eps_3): where the number of users is private, divide by max(1, #{y_i} + DLap(1 / eps_3)), else by it
#
# On a short axis step 1 buys nothing: of three cells the window around the middle one holds all.  It is skipped, and
# step 2 has its budget too: ``center`` is the middle of the axis and ``tau`` reaches from there to its ends, and as far
# beyond as ever.  How long an axis may be for that is a public number: where the count is noisy, an error of it counts
# as much as the mean is far from the center, so three cells and a half; where it is not, nine, at which the wider clip
# costs as much as half of the budget.
#
# **Guarantee.**  ``eps_1 + eps_2 (+ eps_3)`` per user.  1: one user changes every score by at most 1, and in one
# direction under add-remove, so the range is 1 (2 under replace).  2: the clipped sum moves by at most ``f tau``.  3: a
# count moves by at most 1 under both relations.  The later steps use the earlier ones' outputs only, so adaptive
# composition applies.


STEPS, CELL = 64, 128
BEYOND = ceil(64 * sqrt(2 * log(100)))
"""How far from the mean a user's number is let lie."""

TAU = 192 + BEYOND
SHORT = {Neighbours.ADD_REMOVE: 224, Neighbours.REPLACE: 576}
"""Half the length of an axis, in steps, up to which no cell is chosen."""
_MAX_STEPS = 1 << 52


@frozen(slots=False)
class Axis:
    """A quantity between ``lo`` and ``hi`` in steps of ``unit``; cells of ``cell`` steps."""

    unit: float
    lo: float
    hi: float
    cell: int = CELL
    short: int = SHORT[Neighbours.ADD_REMOVE]

    @property
    def limits(self) -> tuple[int, int]:
        """The first and the last cell."""
        return floor(floor(self.lo / self.unit + 0.5) / self.cell), floor(floor(self.hi / self.unit + 0.5) / self.cell)

    @property
    def idle(self) -> bool:
        """Whether choosing a cell first would cost more than it saves."""
        return self.hi - self.lo <= 2 * self.short * self.unit

    @property
    def window(self) -> tuple[int, int]:
        """The middle of a short axis and how far from it users' numbers are read."""
        half = (self.hi - self.lo) / (2 * self.unit)
        return floor((self.lo + self.hi) / (2 * self.unit) + 0.5), ceil(half) + BEYOND

    def steps(self, values: Floats64) -> Ints:
        """Integers ``round(clamp(v) / unit)``, one for each number; a NaN, which no public domain holds, counts as the
        lower end.

        A user's number scatters around a mean in ``[lo, hi]``; cut off at these ends, numbers around a mean near one of
        them would be pulled inwards.  The clamp is so far out that ``clip(y - center, -TAU, TAU)`` is what it would be
        without it.
        """
        beyond = (TAU + self.cell) * self.unit
        clamped = np.clip(np.where(np.isnan(values), self.lo, values), self.lo - beyond, self.hi + beyond)
        return np.floor(clamped / self.unit + 0.5).astype(np.int64)


@frozen(slots=False)
class Quantities:
    """The users' integers (those who have one) and how many users there are altogether."""

    y: Ints
    n_users: int


def cell_scores(data: Quantities, cell: int, first: int, last: int) -> tuple[Ints, Ints]:
    """Where the score changes (offsets from ``first``) and its value from there on."""
    cells = np.clip(data.y // cell, first, last) - first
    begin, end = np.maximum(cells - 1, 0), np.minimum(cells + 1, last - first) + 1
    places, at = np.unique(np.concatenate([np.zeros(1, np.int64), begin, end]), return_inverse=True)
    change = np.bincount(
        at, weights=np.concatenate([[0.0], np.ones(len(begin)), -np.ones(len(end))]), minlength=len(places)
    )
    scores = data.n_users - np.cumsum(change.astype(np.int64))
    inside = places <= last - first
    return places[inside], scores[inside]


def cell_law(data: Quantities, cell: int, limits: tuple[int, int], epsilon: Fraction, neighbours: Neighbours) -> Law:
    """The law over cells ``first..last``, as offsets from ``first``."""
    first, last = limits
    places, scores = cell_scores(data, cell, first, last)
    rate = epsilon if neighbours is Neighbours.ADD_REMOVE else epsilon / 2
    ends = np.append(places[1:] - 1, last - first)
    return Law.from_blocks(places.astype(np.uint64), ends.astype(np.uint64), scores, rate, domain=(0, last - first))


def fine_sum(data: Quantities, center: int, tau: int) -> int:
    """``sum_i clip(y_i - center, -tau, tau)``."""
    return int(np.clip(data.y - center, -tau, tau).sum())


def fine_budget(axis: Axis, budgets: tuple[Fraction, Fraction]) -> Fraction:
    """What the second step has."""
    return budgets[0] + budgets[1] if axis.idle else budgets[1]


def estimate(
    data: Quantities,
    axis: Axis,
    count: int,
    budgets: tuple[Fraction, Fraction],
    neighbours: Neighbours,
    rng: Rng,
) -> float:
    """Both steps; ``count`` is the public or already released number of users to divide by."""
    factor = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    if axis.idle:
        center, tau = axis.window
    else:
        first, _ = axis.limits
        chosen = first + int(cell_law(data, axis.cell, axis.limits, budgets[0], neighbours).sample(rng))
        center, tau = chosen * axis.cell + axis.cell // 2, TAU
    total = fine_sum(data, center, tau) + discrete_laplace(fine_budget(axis, budgets) / (factor * tau), rng)
    value = axis.unit * float(center + Fraction(total, max(1, count)))
    return min(max(value, axis.lo), axis.hi)


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


@frozen(slots=False)
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


def _read_shares(shares: Iterable[Rational] | None) -> tuple[Fraction, ...] | None:
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

    def _count(self, users: Users, filled: int, epsilon: Fraction, rng: Rng) -> tuple[int, dict[str, object]]:
        """The number to divide by, and what is published of it: the noisy number of users with a value, or the public
        n."""
        if not self.shares[2]:
            return count_users(users), {}
        noisy = filled + discrete_laplace(epsilon * self.shares[2], rng)
        return max(1, noisy), {"users (noisy)": max(1, noisy)}

    def _split(self, epsilon: Fraction, parts: int) -> tuple[Fraction, Fraction]:
        return epsilon * self.shares[0] / parts, epsilon * self.shares[1] / parts


def checked_axis(unit: float, lo: float, hi: float, neighbours: Neighbours | str) -> Axis:
    """An axis whose steps fit 52 bits."""
    if not unit > 0 or max(abs(lo), abs(hi)) / unit > _MAX_STEPS:
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
    ) -> tuple[list[float], dict[str, object]]:
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
    def _public(self) -> dict[str, object]:
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

    def _variances(self, bound: BoundUsers, epsilon: Fraction, rng: Rng) -> tuple[list[float], dict[str, object]]:
        folded = [
            bound.users.fold(Collect(log_variance_of(name, domain), self.axis))
            for name, domain in bound.features.items()
        ]
        count, shown = self._count(bound.users, len(folded[0].y), epsilon, rng)
        budgets = self._split(epsilon, len(folded))
        relation = self.neighbours
        return [math.exp(estimate(data, self.axis, count, budgets, relation, rng)) for data in folded], shown


# What the coarse-to-fine mean certifies, from public numbers only.
#
# Users with ``m`` records from ``N(mu, s**2)`` in every column.  In units of ``s/(64 sqrt m)`` a user's mean is
# ``N(mu', 64**2)``, rounded to an integer ``y``; ``j*`` is the cell of ``mu'``, ``Q`` the normal upper tail, ``z`` the
# distance from ``mu'`` to the upper end of its cell in units of 64, ``0 <= z <= 2``.
#
# *Cell.* A cell two or more above ``j*`` counts only users above cell ``j*``.  Let ``X`` be 1 for a user in the window
# of ``j*`` and not above its cell, -1 for one above that window, else 0.  Then ``Pr[X = -1] <= Q(2 + z) <= Q(2)`` and
# ``Pr[X <= 0] <= Q(z) + Q(4 - z) <= Q(0) + Q(4)`` (the derivative ``-phi(z) + phi(4 - z)`` is negative up to ``z =
# 2``), and likewise below.  With ``K`` cells and rate ``lam`` a cell further than 1 from ``j*`` is chosen with
# probability at most
#
#     E min(1, K e**(-lam sum X)) <= K**s (E e**(-s lam X))**n
#
# for every ``0 < s <= 1``; above and below together with ``2**(1-s) K**s`` in front, as they share the cells. Values
# beyond the ends count for the end cells, which can only raise ``X``.
#
# *Place.* The center of a cell within 1 of ``j*`` is within 192.5 of ``mu'``.  Cutting off at ``TAU`` moves a user's
# mean by at most ``64 L(w)``, ``L(w) = phi(w) - w Q(w)``, ``w = (TAU - 193)/64``; rounding by at most ``Q(w)`` (without
# the cut-off its mean is 0 up to ``e**-80000``).  A clipped normal is sub-Gaussian with parameter 64 (a 1-Lipschitz
# function of it), a rounding with 1/2, so their sum with 64.5; three centers, two sides.  Then come the noise of the
# sum and, under add-remove, of the number of users:
#
#     error <= bias + t + (|Z2| + (193 + bias + t) |Z3|)/(n - |Z3|).
#
# *No cell to find.* On an idle axis the middle is within half the range and 1 of ``mu'``: one center, its own clip, no
# failure of the cell.
#
# *More records.* A user with more than ``m`` of them scatters less, and every bound above grows with the scatter.
#
# *Total variation* of two normal laws of one variance is ``2 Phi(distance/(2 s)) - 1``; for ``d`` columns each may err
# by ``1/sqrt d`` of it.  All terms fall with ``n``; the least ``n`` is found by bisection for a few splits of ``beta``.


_FAR = 1.5 * CELL + 1
"""From the center of a neighbouring cell to ``mu'``, both roundings included."""

_SPREAD = STEPS + 0.5
_TILTS = np.linspace(1 / 64, 1, 64)


@frozen(slots=False)
class _Split:
    """What may fail: the cell, the sampling of the sum, its noise (each in every column), and the noisy number of
    users."""

    cell: float
    sampling: float
    noise: float
    count: float


def certify_mean(learner: CoarseToFineMean, *, alpha: Rational, beta: Rational, dimension: int = 1) -> Certificate:
    """Users for total variation ``alpha`` between the learned normal law and the true one, except with probability
    ``beta``.

    >>> certify_mean(CoarseToFineMean(1, radius=10, records_per_user=16), alpha="0.1", beta="0.05").n_users
    243
    """
    d, failure = (
        positive_int(dimension, "dimension", maximum=1 << 16),
        float(rational(beta, "beta", minimum="1e-9", below=1)),
    )
    if learner.cap is not None and learner.cap < learner.records_per_user:
        # The axis would be finer than the users' sampling.
        raise ParameterError(
            f"records_per_user must be at most {learner.cap}, got {learner.records_per_user}: more are never read"
        )
    allowed = 2 * _deviations(alpha) * STEPS * math.sqrt(learner.records_per_user / d) * (1 - 1e-9)
    found = [
        least(partial(_holds, learner, d, allowed, split), limit=1 << 50) for split in _splits(learner, d, failure)
    ]
    known = [n for n in found if n is not None]
    return Certificate.upper(
        min(known) if known else None,
        "coarse-to-fine mean",
        "users with so many records or more, normal with this variance, unrounded, the mean within the radius",
        records_per_user=learner.records_per_user,
        dimension=d,
    )


def _deviations(alpha: Rational) -> float:
    """``Phi^-1((1 + alpha)/2)``, without cancellation at either end."""
    target = open_unit(alpha, "alpha")
    return math.sqrt(2) * float(erfinv(target)) if target < 0.5 else -float(ndtri(float((1 - rational(alpha)) / 2)))


def _splits(learner: CoarseToFineMean, d: int, failure: float) -> Iterator[_Split]:
    private = bool(learner.shares[2])
    cell = 0 if learner.idle else 1
    for sampling in (1, 2, 4):
        for count in (1, 2) if private else (0,):
            noise = 8 - cell - sampling - count
            yield _Split(
                failure * cell / (8 * d), failure * sampling / (8 * d), failure * noise / (8 * d), failure * count / 8
            )


def _holds(learner: CoarseToFineMean, d: int, allowed: float, split: _Split, n: int) -> bool:
    add_remove = learner.neighbours is Neighbours.ADD_REMOVE
    epsilon = float(rational(learner.epsilon))
    axis, (coarse, fine) = learner.axis, (epsilon * float(part) / d for part in learner.shares[:2])
    first, last = axis.limits
    if not (axis.idle or _cell_found(n, last - first, coarse if add_remove else coarse / 2, split.cell)):
        return False
    # The center, how far it may be from mu' (both roundings included), and how many centers there are.
    tau, far, centers, rate = TAU, _FAR, 3, fine
    if axis.idle:
        tau, far, centers, rate = axis.window[1], (axis.hi - axis.lo) / (2 * axis.unit) + 1, 1, coarse + fine
    w = (tau - far) / STEPS
    bias = STEPS * (math.exp(-w * w / 2) / math.sqrt(2 * math.pi) - w * float(ndtr(-w))) + float(ndtr(-w)) + 1e-9
    sampling = bias + _SPREAD * math.sqrt(2 * math.log(2 * centers / split.sampling) / n)
    noise = _laplace(rate / (tau * (1 if add_remove else 2)), split.noise)
    count = _laplace(epsilon * float(learner.shares[2]), split.count) if learner.shares[2] else 0
    return n > count and sampling + (noise + (far + sampling) * count) / (n - count) <= allowed * (1 - SLACK)


def _cell_found(n: int, others: int, rate: float, failure: float) -> bool:
    if others < 2:
        return True
    far, none = float(ndtr(-2)), float(ndtr(0) + ndtr(-4) - ndtr(-2))
    # s = share; tilts beyond 2 only lose (the best one for many users is ln(Pr[X = 1]/Pr[X = -1])/2 = 1.55).
    share = _TILTS * min(1.0, 2 / rate)
    tilt = rate * share
    moment = np.log((1 - far - none) * np.exp(-tilt) + none + far * np.exp(tilt))
    return float((share * math.log(others) + (1 - share) * math.log(2) + n * moment).min()) + SLACK * n <= math.log(
        failure
    )


def _laplace(rate: float, failure: float) -> int:
    """The least ``x`` with ``Pr[|Z| > x] = 2 r**(x+1)/(1 + r) <= failure``, ``r = e**-rate``."""
    return max(0, math.ceil((math.log(2 / failure) - math.log1p(math.exp(-rate))) / rate * (1 + SLACK)) - 1)


# Covariances of normal quantities, and normal laws with nothing known but ranges, coarse to fine.
#
# A user's number for the entry ``(a, b)`` is half the mean product of the differences of disjoint pairs of records,
# whose mean is ``S_ab`` whatever the mean of the records and whose spread is at most ``K sqrt(2 / nu)`` for variances
# up to K. Every entry gets an equal part of the budget; the matrix is then projected to eigenvalues in ``[min_variance,
# max_variance]``, which is post-processing.
#
# **Guarantee.**  ``(epsilon, 0)`` per user by basic composition over entries (see
# :mod:`privpac.distributions.gaussian`).


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

    def _matrix(self, bound: BoundUsers, epsilon: Fraction, rng: Rng) -> tuple[Floats64, dict[str, object]]:
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
