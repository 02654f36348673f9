"""Clipped histograms: mass functions on many values, in time linear in the data.

*One stage.*  Noisy counts of at most ``M`` records per user, cut off at 0 and normalised.

*Two stages.*  The first gives ``phat``; the second estimates how far each user's counts are from ``m_i phat``,
coordinate by coordinate, cut off at ``tau_j`` (the size a user's own luck can have):

    A: C_j = sum_i c_ij;  Chat_j = C_j + DLap(f M / eps_A);  Nhat = max(1, sum_j max(Chat_j, 0));  phat_j = max(Chat_j,
    0) / Nhat B: a_j = floor(A0 phat_j), A0 = 2^16;  tau_j as below;  R_j = ceil(sqrt tau_j);  b_j = ceil(f (sum R) R_j
    / eps_B)
       G_j = sum_i clip(A0 c_ij - m_i a_j, -tau_j, tau_j) + DLap(b_j);   p_j = a_j / A0 + G_j / (A0 Nhat), cut off at 0,
       normalised

**Guarantee.**  ``eps_A + eps_B`` per user, with ``f = 1`` under add-remove and 2 under replace.  A: one user's counts
have L1 norm at most M, two users' differ by at most 2 M.  B: coordinate j moves by at most ``f tau_j``, so the loss is
at most ``sum f tau_j / b_j <= eps_B sum tau_j / (R_j sum R) <= eps_B`` because ``tau_j <= R_j^2``; its parameters are
functions of A's *output*, so adaptive composition applies.  Several columns share the budget equally (basic
composition).

**Accuracy.**  Privacy costs about ``k / (eps n)`` in total variation with one stage, ``k^1.5 / (eps n sqrt M)`` with
two: a factor ``min(sqrt k, sqrt m)`` above the best known inefficient method.  Two stages pay off when ``M >= 16 k ln
200``, the public rule of ``stages="auto"``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.bisection import least_between
from privpac.composition import zcdp_within
from privpac.data import Domain, Grid, Integers, UserData
from privpac.data.jit import jit
from privpac.distributions.base import BoundUsers, DistributionLearner, Sum
from privpac.distributions.cells import MAX_CELLS, CodeCells, LineCells, Partition, is_numeric, read_edges
from privpac.distributions.results import DiscreteDistribution, Distribution, HistogramDistribution, ProductDistribution
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational, root_up
from privpac.guarantee import Guarantee, Neighbours, positive_int
from privpac.mechanisms.gaussian import DiscreteGaussian
from privpac.mechanisms.laplace import discrete_laplace
from privpac.parameters import COUNT_LEVELS, bounds, named, privacy, probability, whole
from privpac.result import Released
from privpac.sample_size import LIMIT, SLACK, Certificate, open_unit, positive, relation
from privpac.special import betaincc, binom

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.rng import Rng

__all__ = [
    "AveragedHistogram",
    "ClippedHistogram",
    "ColumnByColumn",
    "ColumnMasses",
    "GaussianHistogram",
    "averaged_sums",
    "certify_averages",
    "certify_counts",
    "clipped_deviations",
    "deviation_scales",
    "edges_of",
    "equal_bins",
    "noise_quantile",
    "published",
]


# Bins from public declarations: edges, or a number of equal bins over a declared range.


MAX_BINS = 1 << 16


def equal_bins(domain: Domain | None, count: int, ends: tuple[Any, Any] | None = None) -> tuple[Fraction, ...]:
    """Edges of ``count`` equal bins between the declared ends, by default those of a bounded domain of numbers.

    >>> from privpac.data import Integers
    >>> [int(edge) for edge in equal_bins(Integers(0, 23), 4)]
    [0, 6, 12, 18, 24]
    """
    positive_int(count, "bins", maximum=MAX_BINS)
    if ends is not None:
        low, high = rational(ends[0], "the lower end of the range"), rational(ends[1], "the upper end of the range")
    elif isinstance(domain, Integers):
        low, high = Fraction(domain.lo), Fraction(domain.hi) + 1
    elif isinstance(domain, Grid):
        low, high = rational(domain.lo), rational(domain.hi) + rational(domain.step)
    else:
        raise ParameterError("a number of bins needs a column declared with Integers or Grid; give the edges instead")
    if low >= high:
        raise ParameterError(f"a range of bins must increase, got {float(low):g} to {float(high):g}")
    return tuple(low + (high - low) * i / count for i in range(count + 1))


def edges_of(bins: Any, domains: Mapping[str, Domain | None], features: Any) -> Any:
    """Bins with numbers of them replaced by edges."""
    if isinstance(bins, Mapping):
        return {
            name: equal_bins(domains.get(name), edges) if _is_count(edges) else edges for name, edges in bins.items()
        }
    if not _is_count(bins):
        return bins
    named = list(domains) if features is None else [features] if isinstance(features, str) else list(features)
    return (
        equal_bins(domains.get(named[0]), bins)
        if len(named) == 1
        else {name: equal_bins(domains.get(name), bins) for name in named}
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Masses of values or bins, column by column: what histograms share, whatever a person adds to them.
#
# Columns share the budget equally (basic composition); one column is released by ``_weights``, the only place where
# data are touched.


def _read_bins(bins: Any) -> Any:
    if isinstance(bins, Mapping):
        return {name: read_edges(edges, 2) for name, edges in bins.items()}
    return None if bins is None else read_edges(bins, 2)


@frozen(slots=False, field_transformer=named)
class ColumnMasses(DistributionLearner):
    """A mass function (or histogram, with ``bins``) for each column.

    Parameters
    ----------
    epsilon : number
        The privacy parameter.
    bins : edges, or mapping of edges, optional
        Public edges for one column, or ``{column: edges}``; by default every value of a domain is a cell.
    """

    epsilon: Fraction = field(converter=privacy)
    bins: Any = field(default=None, kw_only=True, converter=_read_bins)

    named: ClassVar[str]

    @abstractmethod
    def _weights(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> tuple[int, ...]:
        """The released weights of one column."""

    @abstractmethod
    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Public parameters, for columns of so many cells."""

    # Columns

    def edges_of(self, name: str, only: bool) -> tuple[Fraction, ...] | None:
        """The declared edges of a column."""
        if isinstance(self.bins, Mapping):
            found = self.bins.get(name)
            return None if found is None else tuple(found)
        if self.bins is not None and not only:
            raise ParameterError("several columns need bins={column: edges}")
        return None if self.bins is None else tuple(self.bins)

    def cells_of(self, name: str, domain: Domain, only: bool) -> Partition:
        """The cells of a column."""
        edges = self.edges_of(name, only)
        if edges is not None:
            if not is_numeric(domain):
                raise ParameterError(f"column {name!r} does not hold numbers, so it has no bins")
            return LineCells.at_edges(name, domain, edges[1:-1])
        if domain.size > MAX_CELLS:
            raise TooLargeError(
                f"column {name!r} has {domain.size} possible values, more than {MAX_CELLS}; give bins=[...], "
                "or method='stable' and a delta"
            )
        return CodeCells(name, domain.size)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        for name, domain in domains.items():
            self.cells_of(name, domain, len(domains) == 1)

    # Release

    def bind(self, data: Users) -> BoundUsers:
        return BoundUsers(*self.bind_users(data))

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        epsilon = self.epsilon / len(bound.features)
        parts: list[Distribution] = []
        for name, domain in bound.features.items():
            only = len(bound.features) == 1
            weights = self._weights(bound.users, self.cells_of(name, domain, only), epsilon, rng)
            edges = self.edges_of(name, only)
            parts.append(
                DiscreteDistribution(name, domain, weights)
                if edges is None
                else HistogramDistribution(name, edges, weights)
            )
        shown = self._public(
            {name: self.cells_of(name, d, len(bound.features) == 1).size for name, d in bound.features.items()}
        )
        found = parts[0] if len(parts) == 1 else ProductDistribution(tuple(parts))
        return Released(found, self.guarantee, shown, learner=self.named)


def published(weights: list[int]) -> tuple[int, ...]:
    """Weights as they are released; uniform if none is left."""
    return tuple(weights) if any(weights) else (1,) * len(weights)


# Users that noisy counts need: the certificates of histograms, by counting records or by averaging people.
#
# ``n`` users with ``m`` records each from one law, ``d`` columns; each column's counts ``C`` (they sum to ``N = n m``)
# get discrete Laplace noise ``Z`` of rate ``eta = epsilon/(d f m)``, are cut off at 0 and normalised; ``f = 1`` under
# add-remove, 2 under replace.
#
# *Noise.* Cutting off at 0 moves no count away from ``C >= 0``, and for non-negative vectors ``x``, ``y`` the
# normalised
# ones are within ``|x - y|_1/|y|_1`` in total variation (``|x/|x| - y/|y||_1 <= (|x - y|_1 + ||x| - |y||)/|y|``).  So
# noise costs at most ``S/N``, with ``S`` the sum of ``|Z|`` over all cells of all columns, whose law is known: ``|Z|``
# is
# 0 with probability ``(1 - r)/(1 + r)``, ``r = e**-eta``, else one more than a geometric number, so ``S = J + NB(J, 1 -
# r)`` with ``J`` binomial.
#
# *Luck.* The distance of ``C/N`` from the truth exceeds ``t`` with probability at most ``(2**k - 2) e**(-2 N t**2)`` (a
# union over sets), and also has mean at most ``sqrt((k - 1)/N)/2`` and moves by at most ``1/N`` with one record
# (McDiarmid).  The better of the two is used.
#
# Total variation adds up over independent columns.  With ``beta`` split between luck and noise the error is ``a/sqrt(n)
# + b/n``: the least ``n`` is a formula, and the best of 15 splits is taken.
#
# *Averages.*  Every person adds the vector of their own shares, in steps of ``1/L``.  Persons are independent, each
# with
# a distribution of their own, of which their records are drawn; the mean of these is wanted.  The vectors are
# independent
# with that mean, in the simplex: both bounds on luck hold with ``N = n``, for any numbers of records (a set's share of
# one person is between 0 and 1, the variance of a share at most ``p (1 - p)``, one person moves the distance by at most
# ``1/n``).  Rounding moves each share of a person by less than ``1/L``, so the mean by less than ``k/(2 L)`` in total
# variation.


MOST_COUNTED_CELLS = 1 << 17
_SPLITS = 16


def certify_counts(
    cells: int | Sequence[int],
    *,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    records_per_user: int,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """Users for total variation ``alpha`` with probability ``1 - beta``; ``cells`` of the column, or of each column.

    >>> certify_counts(4, epsilon=1, alpha="0.1", beta="0.05", records_per_user=1).n_users
    459
    >>> certify_counts([4, 4], epsilon=1, alpha="0.1", beta="0.05", records_per_user=16).n_users
    492
    """
    counts = _read_cells(cells)
    m, d = positive_int(records_per_user, "records_per_user", maximum=1 << 40), len(counts)
    target, failure = open_unit(alpha, "alpha"), float(rational(beta, "beta", minimum="1e-9", below=1))
    eta = positive(epsilon, "epsilon") / (d * m * (1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2))
    n = _users(counts, eta, m, m, target, failure)
    assumption = "users with equally many records from one law" + (", its columns independent" if d > 1 else "")
    return Certificate.upper(n, "noisy counts", assumption, records_per_user=m).run_with(max_records=m, stages=1)


def certify_averages(
    cells: int | Sequence[int],
    *,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    levels: int = COUNT_LEVELS,
) -> Certificate:
    """The same where every person counts alike, for people who may differ and hold any numbers of records.

    >>> certify_averages(4, epsilon=1, alpha="0.1", beta="0.05").n_users
    471
    """
    counts, steps = _read_cells(cells), positive_int(levels, "levels", maximum=1 << 30)
    d, target, failure = len(counts), open_unit(alpha, "alpha"), float(rational(beta, "beta", minimum="1e-9", below=1))
    eta = positive(epsilon, "epsilon") / (d * steps * (1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2))
    left = target - sum(k for k in counts if k > 1) / (2 * steps)
    n = _users(counts, eta, steps, 1, left, failure) if left > 0 else None
    assumption = (
        "people drawn independently, alike or not, each with at least one record; the mean of their own distributions "
        "is learned"
    )
    assumption += ", column by column" if d > 1 else ""
    return Certificate.upper(n, "noisy averages", assumption, levels=steps).run_with(levels=steps)


def _read_cells(cells: int | Sequence[int]) -> list[int]:
    sizes = list(cells) if isinstance(cells, Sequence) else [cells]
    if not sizes:
        raise ParameterError("cells needs the number of cells of at least one column")
    counts = [positive_int(size, "cells") for size in sizes]
    if sum(counts) > MOST_COUNTED_CELLS:
        raise TooLargeError(f"{sum(counts)} cells are more than {MOST_COUNTED_CELLS}; use fewer, wider bins")
    return counts


def _users(counts: Sequence[int], eta: float, weight: int, records: int, target: float, failure: float) -> int | None:
    """The least ``n``: everybody adds ``weight`` in all, and ``records`` independent ones to the luck."""
    # A column of one cell is right whatever the noise; it takes its share of the budget all the same.
    noisy, best = sum(k for k in counts if k > 1), math.inf
    for part in range(1, _SPLITS):
        luck = _luck(counts, failure * part / _SPLITS) / math.sqrt(records)
        noise = noise_quantile(noisy, eta, failure * (1 - part / _SPLITS)) / weight if noisy else 0.0
        root = (luck + math.sqrt(luck * luck + 4 * target * noise)) / (2 * target)
        best = min(best, root * root * (1 + SLACK))
    return max(1, math.ceil(best)) if best < LIMIT else None


def _luck(counts: Sequence[int], failure: float) -> float:
    """``sqrt(N)`` times what the sum over columns of the empirical distances exceeds with probability at most
    ``failure``."""
    several = [k for k in counts if k > 1]
    if not several:
        return 0.0
    d = len(several)
    # ln(2**k - 2), for any k.
    unions = sum(
        math.sqrt((k * math.log(2) + math.log1p(-(2.0 ** (1 - k))) + math.log(d / failure)) / 2) for k in several
    )
    return min(unions, sum(math.sqrt(k - 1) / 2 for k in several) + d * math.sqrt(math.log(1 / failure) / 2))


_TAIL_SLACK = 1e-10


@lru_cache(maxsize=1024)
def noise_quantile(cells: int, eta: float, failure: float) -> int:
    """The least ``x`` with ``Pr[S > x] <= failure``, ``S`` the sum of ``cells`` absolute values of discrete Laplace
    noise of rate ``eta``.

    Doubtful cases are rounded up.

    >>> noise_quantile(1, 1.0, 0.05)
    3
    """
    r = math.exp(-eta)
    likely = 2 * r / (1 + r)
    low, high = (int(quantile(1e-16, cells, likely)) for quantile in (binom.ppf, binom.isf))
    j = np.arange(max(low - 1, 0), min(cells, high + 1) + 1)
    weights, rest = binom.pmf(j, cells, likely), 0.0 if len(j) > cells else 1e-15  # what is left out counts as failure

    def beyond(x: int) -> float:
        # j values of at least 1: their excess over 1, a negative binomial, must pass x - j.  -expm1(-eta) is 1 - r
        # without cancellation; scipy's own tail of that law is off by up to 5e-8 of itself for tiny eta, this by 2e-11.
        tails = betaincc(np.maximum(j, 1), np.maximum(x - j, 0) + 1, -math.expm1(-eta))
        return float(weights @ np.where(j > 0, np.where(j > x, 1.0, tails), 0.0)) + rest

    limit = failure * (1 - _TAIL_SLACK)
    # Where a normal law of this mean and variance would be; from there in doubling steps.
    spread = math.sqrt(cells * 2 * r) / -math.expm1(-eta)
    guess = cells * likely / -math.expm1(-eta) + math.sqrt(-math.log(failure)) * spread
    last, step = int(min(guess, LIMIT)), int(min(spread / 8, LIMIT)) + 1
    if beyond(last) <= limit:
        first = last - step
        while first >= 0 and beyond(first) <= limit:
            first, last, step = first - 2 * step, first, 2 * step
        return least_between(lambda x: beyond(x) <= limit, max(first, -1), last)
    while True:
        first, last, step = last, last + step, 2 * step
        if last > LIMIT:
            raise TooLargeError("the noise is larger than any number of users; raise epsilon")
        if beyond(last) <= limit:
            return least_between(lambda x: beyond(x) <= limit, first, last)


Ints = NDArray[np.int64]
A0 = 1 << 16
"""Units of a mass in the second stage."""

LUCK = math.log(200)


@jit
def _deviations(offsets: Ints, cells: Ints, scaled: Ints, clip: Ints, a0: int) -> tuple[Ints, Ints]:
    """Corrections for the cells a user has records in, over what ``c = 0`` would give; and how many users have m
    records."""
    out, count = np.zeros(scaled.size, np.int64), np.zeros(scaled.size, np.int64)
    most = 0
    for user in range(offsets.size - 1):
        most = max(most, offsets[user + 1] - offsets[user])
    users = np.zeros(most + 1, np.int64)
    for user in range(offsets.size - 1):
        first, last = offsets[user], offsets[user + 1]
        m = last - first
        users[m] += 1
        for i in range(first, last):
            count[cells[i]] += 1
        for i in range(first, last):
            j = cells[i]
            if count[j] > 0:
                value = a0 * count[j] - m * scaled[j]
                out[j] += min(max(value, -clip[j]), clip[j]) + min(m * scaled[j], clip[j])
                count[j] = 0
    return out, users


def clipped_deviations(users: UserData, cells: Partition, scaled: Ints, clip: Ints, a0: int = A0) -> Ints:
    """``sum_i clip(a0 c_ij - m_i a_j, -tau_j, tau_j)`` for every cell."""
    out, sizes = _deviations(users.offsets, cells.index(users), scaled, clip, a0)
    for m in np.flatnonzero(sizes[1:]) + 1:
        out -= sizes[m] * np.minimum(m * scaled, clip)
    return out


def deviation_scales(clip: Ints, factor: int, epsilon: Fraction) -> list[int]:
    """The noise scales ``b_j`` of the second stage."""
    roots = [root_up(t) for t in clip.tolist()]
    total = sum(roots)
    return [math.ceil(factor * total * root / epsilon) for root in roots]


@frozen(slots=False, field_transformer=named)
class ClippedHistogram(ColumnMasses):
    """A mass function (or histogram, with ``bins``) for each column.

    ``max_records`` is the public cap M on a user's records.  Values outside the outermost ``bins`` edges fall into the
    end bins.

    Parameters
    ----------
    stages : {"auto", 1, 2}
        In how many steps a column is released (public).
    first_share : number
        The first step's part of epsilon (public); default 1/2.

    >>> from privpac.data import Integers
    >>> learner = ClippedHistogram(1, max_records=4)
    >>> str(learner.guarantee), learner.stages_for(1000)
    ('(1, 0)-DP per user, add-remove', 1)
    """

    stages: int | str = field(default="auto", kw_only=True)
    first_share: Fraction = field(default=Fraction(1, 2), kw_only=True, converter=probability)

    named: ClassVar[str] = "clipped histogram"

    def __attrs_post_init__(self) -> None:
        if self.cap is None:
            raise ParameterError(
                "max_records must be declared: it is the public bound on a user's influence on the counts; "
                "an AveragedHistogram (method='average') needs none"
            )
        if self.stages not in (1, 2, "auto") or isinstance(self.stages, bool):
            raise ParameterError(f"stages must be 1, 2 or 'auto', got {str(self.stages)[:20]!r}")

    @property
    def guarantee(self) -> Guarantee:
        how = (
            "noisy counts, then clipped deviations from them where two stages are used; columns share the budget "
            "equally",
        )
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, derivation=how)

    def stages_for(self, cells: int) -> int:
        """One or two stages for so many values: the public rule."""
        if self.stages != "auto":
            return int(self.stages)
        assert self.cap is not None
        return 2 if self.cap >= 16 * cells * LUCK else 1

    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        stages = {name: self.stages_for(size) for name, size in sizes.items()}
        return {"max_records": self.cap, "stages": next(iter(stages.values())) if len(stages) == 1 else stages}

    def _weights(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> tuple[int, ...]:
        two = self.stages_for(cells.size) == 2
        first = epsilon * self.first_share if two else epsilon
        kept = self._counts(users, cells, first, rng)
        if not two:
            return published(kept)
        total = max(1, sum(kept))
        scaled = np.array([A0 * count // total for count in kept], dtype=np.int64)
        clip = self.clips(kept, total, first)
        sums = users.fold(Sum((cells.size,), lambda part: clipped_deviations(part, cells, scaled, clip)))
        scales = deviation_scales(clip, self.factor, epsilon - first)
        noisy = [value + discrete_laplace(Fraction(1, scale), rng) for value, scale in zip(sums.tolist(), scales)]
        return published([max(0, a * total + g) for a, g in zip(scaled.tolist(), noisy)])

    def _counts(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> list[int]:
        """Noisy counts, cut off at 0."""
        assert self.cap is not None
        true = users.fold(
            Sum((cells.size,), lambda part: np.bincount(cells.index(part), minlength=cells.size).astype(np.int64))
        )
        eta = epsilon / (self.factor * self.cap)
        return [max(0, count + discrete_laplace(eta, rng)) for count in true.tolist()]

    def clips(self, kept: list[int], total: int, epsilon: Fraction) -> Ints:
        """``tau_j = ceil(A0 (sqrt(2 M (phat_j + dl) l) + l/3 + M dl))`` from the first stage's output; any would be
        private."""
        assert self.cap is not None
        m = float(self.cap)
        # Beyond 2**40 every clip is at its limit; as a rational nothing overflows, whatever epsilon is.
        dl = float(min(Fraction(2 * self.factor * self.cap) / (epsilon * total), Fraction(1 << 40)))
        likely = np.array([count / total for count in kept])
        spread = np.sqrt(2 * m * (likely + dl) * LUCK) + LUCK / 3 + m * dl
        # |A0 c - m a| never exceeds A0 M, so a larger clip would only add noise.
        return np.asarray(np.ceil(np.clip(A0 * spread, 1.0, A0 * m)).astype(np.int64))


# Averaged histograms: every person adds their own distribution, so no cap on records has to be known.
#
# A person with ``c_j`` of ``m`` records in cell ``j`` adds ``v_j = floor(L C_j / m) - floor(L C_{j-1} / m)`` to cell
# ``j``, ``C`` the counts up to it: ``L`` times their own shares, rounded to integers.  The sums get discrete Laplace
# noise and are cut off at 0 and normalised.
#
# **Guarantee.**  ``(epsilon, 0)`` per user, with noise of rate ``epsilon/(f L)``, ``f = 1`` under add-remove, 2 under
# replace.  ``C`` grows, so no ``v_j`` is negative, and they sum to ``floor(L m/m) - 0 = L`` whatever the records are
# (to
# 0 without any): a user who comes or leaves moves the sums by ``L`` in L1, one who is replaced by at most ``2 L``.
# Columns share the budget equally (basic composition).
#
# **Accuracy.**  What is learned is the mean of the people's own distributions: everybody counts alike, however many
# records they hold, where :class:`~privpac.distributions.ClippedHistogram` counts records up to its cap.  If people are
# alike, or hold equally many records, both are the same distribution.  Each ``v_j / L`` is within ``1/L`` of the
# person's
# share; privacy costs about ``k / (eps n)`` in total variation (certificate:
# :func:`privpac.distributions.histogram.certify_averages`).


MAX_LEVELS = 1 << 30
"""Times 2**31 records, or 2**32 users, this is below 2**62."""


@jit
def _sums(offsets: Ints, cells: Ints, size: int, levels: int) -> Ints:
    out = np.zeros(size, np.int64)
    for user in range(offsets.size - 1):
        held = np.sort(cells[offsets[user] : offsets[user + 1]])
        told = 0
        for i in range(held.size):
            if i + 1 == held.size or held[i + 1] != held[i]:
                # What is told of a user telescopes to ``levels``: this line is the bound on their influence.
                upto = levels * (i + 1) // held.size
                out[held[i]] += upto - told
                told = upto
    return out


def averaged_sums(users: UserData, cells: Partition, levels: int) -> Ints:
    """The sum over users of ``levels`` times their own shares of every cell."""
    return _sums(users.offsets, np.asarray(cells.index(users), np.int64), cells.size, levels)


@frozen(slots=False, field_transformer=named)
class AveragedHistogram(ColumnMasses):
    """A mass function (or histogram, with ``bins``) for each column, in which every person counts alike.

    ``max_records`` may be left out.  Values outside the outermost ``bins`` edges fall into the end bins.

    Parameters
    ----------
    levels : int
        ``L``, the steps of a person's contribution (public).

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[0] * 999, [1], [1, 1]] * 400, features={"x": Integers(0, 1)}, labelled=False)
    >>> [round(p, 1) for p in map(float, AveragedHistogram(1).learn(people).hypothesis.probabilities)]
    [0.3, 0.7]
    """

    levels: int = field(default=COUNT_LEVELS, kw_only=True, converter=whole, metadata=bounds(maximum=MAX_LEVELS))

    named: ClassVar[str] = "averaged histogram"

    @property
    def guarantee(self) -> Guarantee:
        how = (
            "noisy sums of the users' own shares, which add up to the same for everybody; columns share the budget "
            "equally",
        )
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, derivation=how)

    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        return {"every person counts": "alike", "levels": self.levels} | (
            {} if self.cap is None else {"max_records": self.cap}
        )

    def variance(self, columns: int) -> float:
        """Of the noise of one cell of one of so many columns, in steps: at most ``2/eta**2``."""
        return 2 * float(self.factor * self.levels * columns / self.epsilon) ** 2

    def _weights(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> tuple[int, ...]:
        sums = users.fold(Sum((cells.size,), lambda part: averaged_sums(part, cells, self.levels)))
        eta = epsilon / (self.factor * self.levels)
        return published([max(0, value + discrete_laplace(eta, rng)) for value in sums.tolist()])


@frozen(slots=False, field_transformer=named)
class ColumnByColumn(AveragedHistogram):
    """Independent columns of any number and size: one averaged histogram each, and what that means is said.

    Columns are released one by one with equal parts of epsilon, so it is their product that is learned: what hangs
    together between columns is not.

    Parameters
    ----------
    because : str
        Why this way was taken, for the result.
    """

    because: str = field(default="asked for", kw_only=True)

    named: ClassVar[str] = "averaged histograms, column by column"

    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        return super()._public(sizes) | {"columns": "one by one, as if independent", "chosen because": self.because}


# Averaged histograms with Gaussian noise: for many columns at once, where a delta pays.
#
# The sums are those of :mod:`privpac.distributions.histogram`: a person's shares of the cells of a column, non-negative
# integers that add up to ``L``.
#
# **Guarantee.** ``(epsilon, delta)`` per user. A column's vector moves by at most ``L**2`` in squared Euclidean norm
# for
# a person who comes or leaves (non-negative numbers with sum ``L``), and by ``2 L**2`` for one who is replaced (two
# such
# vectors, whose product is not negative). Discrete Gaussian noise of ``sigma2 = d s/(2 rho)`` on each of ``d`` columns
# is
# ``rho/d``-zCDP, together ``rho``; ``rho`` is the largest of 16 significant bits whose optimal conversion stays within
# ``(epsilon, delta)``.
#
# **When it pays.**  The noise of a cell grows with the square root of the number of columns instead of the number
# itself:
# at ``(1, 1e-6)`` from about ten columns on.


@frozen(slots=False, field_transformer=named)
class GaussianHistogram(AveragedHistogram):
    """An averaged histogram for each of many columns, with discrete Gaussian noise.

    Parameters
    ----------
    delta : number
        How often the promise may fail (public).

    >>> many = GaussianHistogram(1, delta="1e-6")
    >>> many.guarantee.summary, many.variance(20) < AveragedHistogram(1).variance(20)
    ('(1, 1e-06)-DP per user, add-remove', True)
    """

    delta: Fraction = field(kw_only=True, converter=probability)

    named: ClassVar[str] = "averaged histogram, Gaussian noise"

    def __attrs_post_init__(self) -> None:
        self.rho  # noqa: B018  # a delta too small for any noise is refused here

    @cached_property
    def rho(self) -> Fraction:
        """The zCDP parameter of everything released."""
        return zcdp_within(self.epsilon, self.delta)

    @property
    def guarantee(self) -> Guarantee:
        how = ("discrete Gaussian noise on the users' own shares; columns share rho equally",)
        return Guarantee(
            self.epsilon,
            self.delta,
            unit=self.unit,
            neighbours=self.neighbours,
            rho=self.rho,
            derivation=how,
        )

    def noise(self, columns: int) -> DiscreteGaussian:
        """The noise of one of so many columns."""
        return DiscreteGaussian(
            self.rho / columns,
            self.factor * self.levels**2,
            delta=self.delta,
            unit=self.unit,
            neighbours=self.neighbours,
        )

    def variance(self, columns: int) -> float:
        """Of the noise of one cell, in steps."""
        return float(self.noise(columns).sigma2)

    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        return super()._public(sizes) | {"noise": "discrete Gaussian", "rho": self.rho}

    def _weights(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> tuple[int, ...]:
        sums = users.fold(Sum((cells.size,), lambda part: averaged_sums(part, cells, self.levels)))
        noise = self.noise(int(self.epsilon / epsilon))
        return published([max(0, value) for value in noise.sample_vector(sums.tolist(), rng)])
