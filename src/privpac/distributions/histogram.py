"""Histograms: mass functions on many values, in time linear in the data.

Every person adds non-negative integers to the cells of a column (the *contribution*), the sums get *noise*, are cut
off at 0 and normalised.  One learner, :class:`Histogram`, does this for any contribution and any noise:

=====================  ====================================  =========================  ==========================
constructor            a person adds                         noise                      promise
=====================  ====================================  =========================  ==========================
AveragedHistogram      own shares, in ``levels`` steps       discrete Laplace, or any   ``epsilon``
ColumnByColumn         the same, and why is said             the same                   ``epsilon``
GaussianHistogram      own shares                            discrete Gaussian          ``(epsilon, delta)``
ClippedHistogram       at most ``max_records`` records       discrete Laplace, or any   ``epsilon``
VocabularyHistogram    own shares of values that nobody      discrete Laplace and a     ``(epsilon, delta)``
                       lists                                 threshold
=====================  ====================================  =========================  ==========================

**Guarantee.**  A person's integers sum to at most ``L`` in one column, so neighbours are apart by a
:class:`~privpac.mechanisms.noise.Change` of ``L`` and one person under add-remove, two under replace; the noise is
scaled to that.  Cutting off and normalising is post-processing.  Columns share the budget equally.

**Accuracy.**  Privacy costs about ``k / (eps n)`` in total variation with ``k`` cells.  Counts of records may be
released in two stages (:class:`RecordCounts`), which cost ``k^1.5 / (eps n sqrt M)``: a factor ``min(sqrt k, sqrt m)``
above the best known inefficient method.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from attrs import field, frozen

from privpac.arrays import Ints
from privpac.composition import zcdp_epsilon
from privpac.data import Domain, UserData
from privpac.data.loops import jit
from privpac.distributions.base import BoundUsers, DistributionLearner, Sum
from privpac.distributions.cells import MAX_CELLS, CodeCells, LineCells, Partition, is_numeric, read_edges
from privpac.distributions.results import DiscreteDistribution, Distribution, HistogramDistribution, ProductDistribution
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational, root_up
from privpac.guarantee import Guarantee, Neighbours, positive_int
from privpac.law.blocks import Law
from privpac.mechanisms.gaussian import DiscreteGaussian
from privpac.mechanisms.laplace import Laplace, discrete_laplace, noise_quantile
from privpac.mechanisms.noise import Change, Noise
from privpac.mechanisms.stable_weights import StableWeights
from privpac.parameters import (
    COUNT_LEVELS,
    Composed,
    bounds,
    named,
    part,
    privacy,
    probability,
    probability_or_zero,
    whole,
)
from privpac.result import Released
from privpac.sample_size import LIMIT, SLACK, Certificate, open_unit, positive, relation

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.rng import Rng

_Edges = Sequence[Rational]
_Bins = int | _Edges | Mapping[str, int | _Edges] | None
"""What stands for bins: a number of equal ones, edges, or one of them for each column."""


# _Bins from public declarations: edges, or a number of equal bins over a declared range.


MAX_BINS = 1 << 16


def equal_bins(
    domain: Domain | None, count: int, ends: tuple[Rational, Rational] | None = None
) -> tuple[Fraction, ...]:
    """_Edges of ``count`` equal bins between the declared ends, by default those of a bounded domain of numbers.

    >>> from privpac.data import Integers
    >>> [int(edge) for edge in equal_bins(Integers(0, 23), 4)]
    [0, 6, 12, 18, 24]
    """
    positive_int(count, "bins", maximum=MAX_BINS)
    if ends is not None:
        low, high = rational(ends[0], "the lower end of the range"), rational(ends[1], "the upper end of the range")
    elif domain is not None and domain.stepped and domain.line is not None:
        low, high = domain.ends[0], domain.ends[1] + domain.line[1]
    else:
        raise ParameterError("a number of bins needs a column declared with Integers or Grid; give the edges instead")
    if low >= high:
        raise ParameterError(f"a range of bins must increase, got {float(low):g} to {float(high):g}")
    return tuple(low + (high - low) * i / count for i in range(count + 1))


def edges_of(bins: _Bins, domains: Mapping[str, Domain | None], features: str | Sequence[str] | None) -> _Bins:
    """_Bins with numbers of them replaced by edges."""
    if isinstance(bins, Mapping):
        return {name: _equal(domains.get(name), edges) for name, edges in bins.items()}
    if not _is_count(bins):
        return bins
    names = list(domains) if features is None else [features] if isinstance(features, str) else list(features)
    each = {name: _equal(domains.get(name), bins) for name in names}
    return each[names[0]] if len(names) == 1 else each


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _equal(domain: Domain | None, bins: Any) -> Any:
    return equal_bins(domain, bins) if _is_count(bins) else bins


# Masses of values or bins, column by column: what histograms share, whatever a person adds to them.
#
# Columns share the budget equally (basic composition); one column is released by ``_weights``, the only place where
# data are touched.


def _read_bins(bins: object) -> Any:
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
        """The released weights of one column, whose part of the budget is ``epsilon``."""

    @abstractmethod
    def _public(self, sizes: Mapping[str, int]) -> dict[str, object]:
        """Public parameters, for columns of so many cells."""

    @property
    def title(self) -> str:
        """The name of the learner in its results."""
        return self.named

    # Columns

    def edges_of(self, name: str, only: bool) -> tuple[Fraction, ...] | None:
        """The declared edges of a column."""
        if isinstance(self.bins, Mapping):
            edges = self.bins.get(name)
            return None if edges is None else tuple(edges)
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
        self.sizes_of(domains)

    def sizes_of(self, domains: Mapping[str, Domain]) -> dict[str, int]:
        """How many cells every column has."""
        return {name: self.cells_of(name, domain, len(domains) == 1).size for name, domain in domains.items()}

    # Release

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        parts = [self._column(bound, name, rng) for name in bound.features]
        distribution = parts[0] if len(parts) == 1 else ProductDistribution(tuple(parts))
        return Released(distribution, self.guarantee, self._public(self.sizes_of(bound.features)), learner=self.title)

    def _column(self, bound: BoundUsers, name: str, rng: Rng) -> Distribution:
        domain, only = bound.features[name], len(bound.features) == 1
        cells, edges = self.cells_of(name, domain, only), self.edges_of(name, only)
        weights = self._weights(bound.users, cells, self.epsilon / len(bound.features), rng)
        if edges is None:
            return DiscreteDistribution(name, domain, weights)
        return HistogramDistribution(name, edges, weights)


def published(weights: list[int]) -> tuple[int, ...]:
    """Weights as they are released; uniform if none is left."""
    return tuple(weights) if any(weights) else (1,) * len(weights)


# Contributions: what one person adds to the sums of a column.


class Contribution(ABC):
    """Non-negative integers that a person adds to the cells of a column, with a public bound on their sum.

    All that it says is known before any data but ``sums``, a function of each person's own records.
    """

    title: ClassVar[str]
    counts_people: ClassVar[Fraction] = Fraction(0)
    """The part of epsilon that buys the number of people."""

    def check(self, histogram: Histogram) -> None:
        """Refuse parameters that do not go together, before any data."""
        if not isinstance(histogram.alone, Noise):
            raise ParameterError(f"a {self.title} needs noise on every cell, such as Laplace")

    @abstractmethod
    def change(self, histogram: Histogram) -> Change:
        """How far neighbours move the sums of a column."""

    @abstractmethod
    def sums(self, users: UserData, cells: Partition) -> Ints:
        """The sum over users, for every cell."""

    def sizes(self, histogram: Histogram, domains: Mapping[str, Domain]) -> dict[str, int]:
        """How many cells every column has; columns that cannot be read are refused."""
        return ColumnMasses.sizes_of(histogram, domains)

    def column(self, histogram: Histogram, bound: BoundUsers, name: str, rng: Rng) -> Distribution:
        """One column, released."""
        return ColumnMasses._column(histogram, bound, name, rng)

    def weights(self, histogram: Histogram, users: Users, cells: Partition, columns: int, rng: Rng) -> list[int]:
        """Noisy sums of one of so many columns, cut off at 0."""
        sums = users.fold(Sum((cells.size,), lambda chunk: self.sums(chunk, cells)))
        return [max(0, value) for value in histogram.cell_noise(columns).sample_vector(sums.tolist(), rng)]

    # What is said of it

    @abstractmethod
    def how(self, noise: Noise | StableWeights) -> str:
        """Where the promise comes from, in words."""

    @abstractmethod
    def public(self, histogram: Histogram, sizes: Mapping[str, int]) -> dict[str, object]:
        """Public parameters, for columns of so many cells."""

    def certificate(self, histogram: Histogram, cells: Sequence[int], alpha: float, beta: float) -> Certificate:
        """People for total variation ``alpha`` but for ``beta``, where that is proved."""
        raise ParameterError(f"a {self.title} has no certificate")


def with_cap(histogram: Histogram, public: dict[str, object]) -> dict[str, object]:
    """Public parameters, and the cap on records if one was declared."""
    return public if histogram.cap is None else public | {"max_records": histogram.cap}


# Own shares: every person counts alike, so no cap on records has to be known.


_MAX_LEVELS = 1 << 30
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
class OwnShares(Contribution):
    """A person's own distribution, in ``levels`` steps.

    Who has ``c_j`` of ``m`` records in cell ``j`` adds, with ``C`` the counts up to a cell,

        v_j = floor(L C_j / m) - floor(L C_{j-1} / m):

    ``L`` times their own shares, rounded to integers.  ``C`` grows, so no ``v_j`` is negative, and they sum to
    ``floor(L m/m) - 0 = L`` whatever the records are (to 0 without any).

    What is learned is the mean of the people's own distributions: everybody counts alike, however many records they
    hold, where :class:`RecordCounts` counts records up to a cap.  If people are alike, or hold equally many records,
    both are the same distribution.  Each ``v_j / L`` is within ``1/L`` of the person's share.

    Parameters
    ----------
    levels : int
        ``L``, the steps of a person's contribution (public).
    """

    levels: int = field(default=COUNT_LEVELS, kw_only=True, converter=whole, metadata=bounds(maximum=_MAX_LEVELS))

    title: ClassVar[str] = "averaged histogram"

    def change(self, histogram: Histogram) -> Change:
        return Change(self.levels, histogram.factor)

    def sums(self, users: UserData, cells: Partition) -> Ints:
        return averaged_sums(users, cells, self.levels)

    def how(self, noise: Noise | StableWeights) -> str:
        if isinstance(noise, Laplace):
            added = "noisy sums of the users' own shares, which add up to the same for everybody"
            return f"{added}; columns share the budget equally"
        assert isinstance(noise, Noise)
        return f"{noise.title} noise on the users' own shares; columns share {noise.divides} equally"

    def public(self, histogram: Histogram, sizes: Mapping[str, int]) -> dict[str, object]:
        return with_cap(histogram, {"every person counts": "alike", "levels": self.levels})

    def certificate(self, histogram: Histogram, cells: Sequence[int], alpha: float, beta: float) -> Certificate:
        noise = histogram.cell_noise(len(cells))
        return _averaged(cells, noise.reach_of_sum, self.levels, alpha, beta)


@frozen(slots=False, field_transformer=named)
class ColumnShares(OwnShares):
    """Own shares of columns that are learned one by one, as if independent, and why.

    Parameters
    ----------
    because : str
        Why this way was taken, for the result.
    """

    because: str = field(default="asked for", kw_only=True)

    title: ClassVar[str] = "averaged histograms, column by column"

    def public(self, histogram: Histogram, sizes: Mapping[str, int]) -> dict[str, object]:
        told = super().public(histogram, sizes)
        return told | {"columns": "one by one, as if independent", "chosen because": self.because}


# RecordCounts, up to a cap; where a person has many of them, in two stages.


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
class RecordCounts(Contribution):
    """A person's records, of which ``max_records`` are read at most: the public cap ``M``.

    *One stage.*  Noisy counts.  One user's counts have L1 norm at most ``M``, two users' differ by at most ``2 M``.

    *Two stages.*  The first gives ``phat``; the second estimates how far each user's counts are from ``m_i phat``,
    coordinate by coordinate, cut off at ``tau_j`` (the size a user's own sampling can have):

        A:  C_j    = sum_i c_ij
            Chat_j = C_j + DLap(f M / eps_A)
            Nhat   = max(1, sum_j max(Chat_j, 0))
            phat_j = max(Chat_j, 0) / Nhat
        B:  a_j    = floor(A0 phat_j),  A0 = 2^16
            tau_j  = ceil(A0 (sqrt(2 M (phat_j + dl) l) + l/3 + M dl)),  l = ln 200,  dl = 2 f M / (eps_A Nhat)
            R_j    = ceil(sqrt tau_j)
            b_j    = ceil(f (sum R) R_j / eps_B)
            G_j    = sum_i clip(A0 c_ij - m_i a_j, -tau_j, tau_j) + DLap(b_j)
            p_j    = a_j / A0 + G_j / (A0 Nhat), cut off at 0, normalised

    **Guarantee of two stages.**  ``eps_A + eps_B`` per user, with ``f = 1`` under add-remove and 2 under replace.  A is
    one stage.  In B coordinate ``j`` moves by at most ``f tau_j``, so the loss is at most

        sum f tau_j / b_j  <=  eps_B sum tau_j / (R_j sum R)  <=  eps_B

    because ``tau_j <= R_j^2``; its parameters are functions of A's *output*, so adaptive composition applies.

    Two stages pay off when ``M >= 16 k ln 200``, the public rule of ``stages="auto"``.

    Parameters
    ----------
    stages : {"auto", 1, 2}
        In how many steps a column is released (public).
    first_share : number
        The first step's part of epsilon (public); default 1/2.
    """

    stages: int | str = field(default="auto", kw_only=True)
    first_share: Fraction = field(default=Fraction(1, 2), kw_only=True, converter=probability)

    title: ClassVar[str] = "clipped histogram"

    def check(self, histogram: Histogram) -> None:
        if histogram.cap is None:
            raise ParameterError(
                "max_records must be declared: it is the public bound on a user's influence on the counts; "
                "an AveragedHistogram (method='average') needs none"
            )
        if self.stages not in (1, 2, "auto") or isinstance(self.stages, bool):
            raise ParameterError(f"stages must be 1, 2 or 'auto', got {str(self.stages)[:20]!r}")
        super().check(histogram)
        if self.stages == 2 and not isinstance(histogram.alone, Laplace):
            raise ParameterError("two stages are proved for discrete Laplace noise; use stages=1 with other noise")

    def cap(self, histogram: Histogram) -> int:
        assert histogram.cap is not None
        return histogram.cap

    def stages_for(self, histogram: Histogram, cells: int) -> int:
        """One or two stages for so many values: the public rule."""
        if self.stages != "auto":
            return int(self.stages)
        pays = self.cap(histogram) >= 16 * cells * LUCK
        return 2 if pays and isinstance(histogram.alone, Laplace) else 1

    def change(self, histogram: Histogram) -> Change:
        return Change(self.cap(histogram), histogram.factor)

    def sums(self, users: UserData, cells: Partition) -> Ints:
        return np.bincount(cells.index(users), minlength=cells.size).astype(np.int64)

    def weights(self, histogram: Histogram, users: Users, cells: Partition, columns: int, rng: Rng) -> list[int]:
        if self.stages_for(histogram, cells.size) == 1:
            return super().weights(histogram, users, cells, columns, rng)
        epsilon, factor, cap = histogram.epsilon / columns, histogram.factor, self.cap(histogram)
        first = epsilon * self.first_share
        counts = users.fold(Sum((cells.size,), lambda chunk: self.sums(chunk, cells))).tolist()
        kept = [max(0, count + discrete_laplace(first / (factor * cap), rng)) for count in counts]
        total = max(1, sum(kept))
        scaled = np.array([A0 * count // total for count in kept], dtype=np.int64)
        clip = self.clips(kept, cap, factor, first)
        sums = users.fold(Sum((cells.size,), lambda chunk: clipped_deviations(chunk, cells, scaled, clip)))
        scales = deviation_scales(clip, factor, epsilon - first)
        noisy = [value + discrete_laplace(Fraction(1, scale), rng) for value, scale in zip(sums.tolist(), scales)]
        return [max(0, a * total + g) for a, g in zip(scaled.tolist(), noisy)]

    def clips(self, kept: list[int], cap: int, factor: int, epsilon: Fraction) -> Ints:
        """``tau_j`` from the first stage's output; any would be private."""
        m, total = float(cap), max(1, sum(kept))
        # Beyond 2**40 every clip is at its limit; as a rational nothing overflows, whatever epsilon is.
        dl = float(min(Fraction(2 * factor * cap) / (epsilon * total), Fraction(1 << 40)))
        likely = np.array([count / total for count in kept])
        spread = np.sqrt(2 * m * (likely + dl) * LUCK) + LUCK / 3 + m * dl
        # |A0 c - m a| never exceeds A0 M, so a larger clip would only add noise.
        return np.asarray(np.ceil(np.clip(A0 * spread, 1.0, A0 * m)).astype(np.int64))

    def how(self, noise: Noise | StableWeights) -> str:
        if isinstance(noise, Laplace):
            counted = "noisy counts, then clipped deviations from them where two stages are used"
            return f"{counted}; columns share the budget equally"
        assert isinstance(noise, Noise)
        return f"{noise.title} noise on the counts of records; columns share {noise.divides} equally"

    def public(self, histogram: Histogram, sizes: Mapping[str, int]) -> dict[str, object]:
        stages = {name: self.stages_for(histogram, size) for name, size in sizes.items()}
        return {"max_records": histogram.cap, "stages": next(iter(stages.values())) if len(stages) == 1 else stages}

    def certificate(self, histogram: Histogram, cells: Sequence[int], alpha: float, beta: float) -> Certificate:
        if any(self.stages_for(histogram, size) == 2 for size in cells):
            raise ParameterError("histograms in two stages have no certificate; it is for stages=1")
        noise = histogram.cell_noise(len(cells))
        return _counted(cells, noise.reach_of_sum, self.cap(histogram), alpha, beta)


# The learner


class NoiseKind(Protocol):
    """What scales a noise to a budget: a class derived from :class:`~privpac.mechanisms.noise.Noise`, or
    :class:`~privpac.mechanisms.StableWeights` where values are not listed."""

    def within(self, budget: Guarantee, change: Change, parts: int) -> Noise | StableWeights: ...


_LISTED = 1 << 16


@frozen(slots=False, field_transformer=named)
class Histogram(ColumnMasses):
    """A mass function (or histogram, with ``bins``) for each column: noisy sums of what people contribute.

    Values outside the outermost ``bins`` edges fall into the end bins.

    Parameters
    ----------
    contribution : Contribution
        What a person adds to the cells: :class:`OwnShares` (the default), :class:`RecordCounts`, or one of your own.
    noise : class of noise
        What is added to the sums: ``Laplace`` (the default), ``DiscreteGaussian``, or one of your own.
    delta : number
        How often the promise may fail (public); 0 unless the noise needs more.

    Examples
    --------
    >>> from privpac.mechanisms import DiscreteGaussian
    >>> many = Histogram(1, contribution=OwnShares(levels=840), noise=DiscreteGaussian, delta="1e-6")
    >>> many.guarantee.summary, many.cell_noise(20).title
    ('(1, 1e-06)-DP per user, add-remove', 'discrete Gaussian')
    """

    contribution: Contribution = field(factory=OwnShares, kw_only=True)
    noise: NoiseKind = field(default=Laplace, kw_only=True)
    delta: Fraction = field(default=Fraction(0), kw_only=True, converter=probability_or_zero)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.contribution, Contribution) or not callable(getattr(self.noise, "within", None)):
            raise TypeError("a histogram needs a Contribution such as OwnShares() and a noise such as Laplace")
        self.contribution.check(self)  # out of reach is said here
        if self.delta and not self.alone.guarantee.delta:
            raise ParameterError("this noise keeps a pure promise: leave delta out")

    # Noise

    def noise_of(self, columns: int) -> Noise | StableWeights:
        """The noise of each of so many columns, which together keep the promise."""
        return self.alone if columns == 1 else self._scaled(columns)

    def _scaled(self, columns: int) -> Noise | StableWeights:
        spent = (1 - self.contribution.counts_people) * self.epsilon
        budget = Guarantee(spent, self.delta, unit=self.unit, neighbours=self.neighbours)
        noise = self.noise.within(budget, self.contribution.change(self), columns)
        if type(noise) not in (Laplace, DiscreteGaussian, StableWeights):  # those are proved beside their code
            _check_cost(noise.guarantee, budget, columns)
        return noise

    @cached_property
    def alone(self) -> Noise | StableWeights:
        """The noise of a single column."""
        return self._scaled(1)

    def cell_noise(self, columns: int) -> Noise:
        """The same, where every cell gets its own."""
        noise = self.noise_of(columns)
        assert isinstance(noise, Noise)  # checked at construction
        return noise

    @property
    def guarantee(self) -> Guarantee:
        how = (self.contribution.how(self.alone),)
        return Guarantee(
            self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, rho=self._rho, derivation=how
        )

    @property
    def _rho(self) -> Fraction | None:
        # Proved for this class alone: what another noise calls rho is its own word.
        return self.alone.rho if type(self.alone) is DiscreteGaussian else None

    def variance(self, columns: int) -> float:
        """Of the noise of one cell of one of so many columns, in steps (at most)."""
        return float(getattr(self.cell_noise(columns), "variance"))  # noqa: B009  # a noise of one's own may have none

    # Law and draws

    def law_of_sums(self, data: Users, *, bounds: tuple[int, int]) -> Law:
        """The exact law of the noisy sums of one column (curator only), each clamped to ``bounds``: what is released is
        computed from them."""
        bound = self.bind(data)
        ((name, domain),) = bound.features.items()
        cells = self.cells_of(name, domain, True)
        if self._public(self.sizes_of(bound.features)).get("stages") == 2 or (
            (bounds[1] - bounds[0] + 1) ** cells.size > _LISTED
        ):
            raise TooLargeError("the law of such sums is not listed; draw with learn()")
        sums = bound.users.fold(Sum((cells.size,), lambda chunk: self.contribution.sums(chunk, cells))).tolist()
        law: Law = Law.point(())
        for value in sums:
            one = self.cell_noise(1).law(value, bounds=bounds)
            law = law.bind(lambda told, one=one: one.map(lambda noisy: (*told, noisy)))  # type: ignore[misc]
        return law

    def sizes_of(self, domains: Mapping[str, Domain]) -> dict[str, int]:
        return self.contribution.sizes(self, domains)

    def _column(self, bound: BoundUsers, name: str, rng: Rng) -> Distribution:
        return self.contribution.column(self, bound, name, rng)

    def _weights(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> tuple[int, ...]:
        return published(self.contribution.weights(self, users, cells, int(self.epsilon / epsilon), rng))

    # What is said of it

    @property
    def title(self) -> str:
        noise = self.alone
        if isinstance(noise, (Laplace, StableWeights)):
            return self.contribution.title
        return f"{self.contribution.title}, {noise.title.removeprefix('discrete ')} noise"

    def _public(self, sizes: Mapping[str, int]) -> dict[str, object]:
        noise, public = self.alone, self.contribution.public(self, sizes)
        if isinstance(noise, (Laplace, StableWeights)):
            return public
        return public | {"noise": noise.title} | ({} if self._rho is None else {"rho": self._rho})

    def certificate(self, cells: int | Sequence[int], *, alpha: Rational, beta: Rational) -> Certificate:
        """People for total variation ``alpha`` with probability ``1 - beta``; ``cells`` of the column, or of each.

        >>> AveragedHistogram(1).certificate(4, alpha="0.1", beta="0.05").n_users
        471
        """
        return self.contribution.certificate(self, _read_cells(cells), open_unit(alpha, "alpha"), _failure(beta))


def _check_cost(cost: Guarantee, budget: Guarantee, columns: int) -> None:
    """Refuse a noise that says itself that it costs more than the budget."""
    if cost.unit is not budget.unit or cost.neighbours is not budget.neighbours:
        raise ParameterError(f"the noise promises {cost.summary}, not what is asked for: {budget.summary}")
    if columns * cost.epsilon <= budget.epsilon and columns * cost.delta <= budget.delta:
        return
    if cost.rho is None or not budget.delta or zcdp_epsilon(columns * cost.rho, budget.delta) > budget.epsilon:
        raise ParameterError(
            f"the noise of each of {columns} columns costs {cost.summary}, together more than {budget.summary}"
        )


@frozen(slots=False, init=False, field_transformer=named)
class AveragedHistogram(Composed, Histogram):
    """A mass function (or histogram, with ``bins``) for each column, in which every person counts alike.

    ``max_records`` may be left out.

    Parameters
    ----------
    contribution : OwnShares
        Given by its own parameter ``levels``.

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[0] * 999, [1], [1, 1]] * 400, features={"x": Integers(0, 1)}, labelled=False)
    >>> [round(p, 1) for p in map(float, AveragedHistogram(1).learn(people).value.probabilities)]
    [0.3, 0.7]
    """

    contribution: OwnShares = part(OwnShares)


@frozen(slots=False, init=False, field_transformer=named)
class ColumnByColumn(Composed, Histogram):
    """Independent columns of any number and size: one averaged histogram each, and what that means is said.

    Columns are released one by one with equal parts of epsilon, so it is their product that is learned: what hangs
    together between columns is not.

    Parameters
    ----------
    contribution : ColumnShares
        Given by its own parameters ``levels`` and ``because``.
    """

    contribution: ColumnShares = part(ColumnShares)


@frozen(slots=False, init=False, field_transformer=named)
class GaussianHistogram(Composed, Histogram):
    """An averaged histogram for each of many columns, with discrete Gaussian noise.

    The noise of a cell grows with the square root of the number of columns instead of the number itself: it pays at
    ``(1, 1e-6)`` from about ten columns on.

    Parameters
    ----------
    delta : number
        How often the promise may fail (public).

    >>> many = GaussianHistogram(1, delta="1e-6")
    >>> many.guarantee.summary, many.variance(20) < AveragedHistogram(1).variance(20)
    ('(1, 1e-06)-DP per user, add-remove', True)
    """

    contribution: OwnShares = part(OwnShares)
    delta: Fraction = field(kw_only=True, converter=probability)
    noise: NoiseKind = field(default=DiscreteGaussian, init=False)

    @property
    def rho(self) -> Fraction:
        """The zCDP parameter of everything released."""
        noise = self.alone
        assert isinstance(noise, DiscreteGaussian)
        return noise.rho


@frozen(slots=False, init=False, field_transformer=named)
class ClippedHistogram(Composed, Histogram):
    """A mass function (or histogram, with ``bins``) for each column, by counting records.

    ``max_records`` is the public cap M on a user's records.

    Parameters
    ----------
    contribution : RecordCounts
        Given by its own parameters ``stages`` and ``first_share``.

    >>> from privpac.data import Integers
    >>> learner = ClippedHistogram(1, max_records=4)
    >>> str(learner.guarantee), learner.stages_for(1000)
    ('(1, 0)-DP per user, add-remove', 1)
    """

    contribution: RecordCounts = part(RecordCounts)

    def stages_for(self, cells: int) -> int:
        """One or two stages for so many values: the public rule."""
        return self.contribution.stages_for(self, cells)


# Users that noisy sums need: the certificates of histograms, by counting records or by averaging people.
#
# ``n`` users with ``m`` records each from one law, ``d`` columns; each column's counts ``C`` (they sum to ``N = n m``)
# get noise ``Z``, are cut off at 0 and normalised.
#
# *Noise.* Cutting off at 0 moves no count away from ``C >= 0``, and for non-negative vectors ``x``, ``y`` the
# normalised ones are within ``|x - y|_1/|y|_1`` in total variation, because
#
#     |x/|x| - y/|y||_1 <= (|x - y|_1 + ||x| - |y||)/|y|.
#
# So noise costs at most ``S/N``, with ``S`` the sum of ``|Z|`` over all cells of all columns.  For discrete Laplace
# noise of rate ``eta = epsilon/(d f m)`` (``f = 1`` under add-remove, 2 under replace) the law of ``S`` is known
# (:func:`~privpac.mechanisms.laplace.noise_quantile`): ``|Z|`` is 0 with probability ``(1 - r)/(1 + r)``, ``r =
# e**-eta``, else one more than a geometric number, so ``S = J + NB(J, 1 - r)`` with ``J`` binomial.
#
# *Luck.* The distance of ``C/N`` from the truth exceeds ``t`` with probability at most ``(2**k - 2) e**(-2 N t**2)`` (a
# union over sets), and also has mean at most ``sqrt((k - 1)/N)/2`` and moves by at most ``1/N`` with one record
# (McDiarmid).  The better of the two is used.
#
# Total variation adds up over independent columns.  With ``beta`` split between sampling and noise the error is
# ``a/sqrt(n) + b/n``: the least ``n`` is a formula, and the best of 15 splits is taken.
#
# *Averages.*  Every person adds the vector of their own shares, in steps of ``1/L``.  Persons are independent, each
# with a distribution of their own, of which their records are drawn; the mean of these is wanted.  The vectors are
# independent with that mean, in the simplex: both bounds on sampling hold with ``N = n``, for any numbers of records (a
# set's share of one person is between 0 and 1, the variance of a share at most ``p (1 - p)``, one person moves the
# distance by at most ``1/n``).  Rounding moves each share of a person by less than ``1/L``, so the mean by less than
# ``k/(2 L)`` in total variation.


MOST_COUNTED_CELLS = 1 << 17
_SPLITS = 16
_Reach = Callable[[int, float], int]
"""What the sizes of the noises of so many cells sum to at most, but for a probability."""


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
    m = positive_int(records_per_user, "records_per_user", maximum=1 << 40)
    target, failure = open_unit(alpha, "alpha"), _failure(beta)
    return _counted(counts, _laplace(epsilon, len(counts) * m, neighbours), m, target, failure)


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
    counts, steps = _read_cells(cells), positive_int(levels, "levels", maximum=_MAX_LEVELS)
    target, failure = open_unit(alpha, "alpha"), _failure(beta)
    return _averaged(counts, _laplace(epsilon, len(counts) * steps, neighbours), steps, target, failure)


def _counted(counts: Sequence[int], reach: _Reach, m: int, alpha: float, beta: float) -> Certificate:
    n = _users(counts, reach, m, m, alpha, beta)
    assumption = "users with equally many records from one law"
    assumption += ", its columns independent" if len(counts) > 1 else ""
    return Certificate.upper(n, "noisy counts", assumption, records_per_user=m).run_with(max_records=m, stages=1)


def _averaged(counts: Sequence[int], reach: _Reach, levels: int, alpha: float, beta: float) -> Certificate:
    left = alpha - sum(k for k in counts if k > 1) / (2 * levels)
    n = _users(counts, reach, levels, 1, left, beta) if left > 0 else None
    assumption = (
        "people drawn independently, alike or not, each with at least one record; the mean of their own distributions "
        "is learned"
    )
    assumption += ", column by column" if len(counts) > 1 else ""
    return Certificate.upper(n, "noisy averages", assumption, levels=levels).run_with(levels=levels)


def _laplace(epsilon: Rational, steps: int, neighbours: Neighbours | str) -> _Reach:
    """Of discrete Laplace noise for all columns, to which one person adds so many steps."""
    eta = positive(epsilon, "epsilon") / (steps * (1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2))
    return lambda cells, failure: noise_quantile(cells, eta, failure)


def _failure(beta: Rational) -> float:
    return float(rational(beta, "beta", minimum="1e-9", below=1))


def _read_cells(cells: int | Sequence[int]) -> list[int]:
    sizes = list(cells) if isinstance(cells, Sequence) else [cells]
    if not sizes:
        raise ParameterError("cells needs the number of cells of at least one column")
    counts = [positive_int(size, "cells") for size in sizes]
    if sum(counts) > MOST_COUNTED_CELLS:
        raise TooLargeError(f"{sum(counts)} cells are more than {MOST_COUNTED_CELLS}; use fewer, wider bins")
    return counts


def _users(
    counts: Sequence[int], reach: _Reach, weight: int, records: int, target: float, failure: float
) -> int | None:
    """The least ``n``: everybody adds ``weight`` in all, and ``records`` independent ones to the sampling."""
    # A column of one cell is right whatever the noise; it takes its share of the budget all the same.
    several, best = [k for k in counts if k > 1], math.inf
    noisy, d = sum(several), len(several)
    for split in range(1, _SPLITS):
        # ``sqrt(N)`` times what the sum over columns of the empirical distances exceeds with probability at most
        # ``unlucky``; ln(2**k - 2), for any k.
        unlucky = failure * split / _SPLITS
        unions = sum(
            math.sqrt((k * math.log(2) + math.log1p(-(2.0 ** (1 - k))) + math.log(d / unlucky)) / 2) for k in several
        )
        means = sum(math.sqrt(k - 1) / 2 for k in several) + d * math.sqrt(math.log(1 / unlucky) / 2)
        sampling = min(unions, means) / math.sqrt(records)
        noise = reach(noisy, failure * (1 - split / _SPLITS)) / weight if noisy else 0.0
        root = (sampling + math.sqrt(sampling * sampling + 4 * target * noise)) / (2 * target)
        best = min(best, root * root * (1 + SLACK))
    return max(1, math.ceil(best)) if best < LIMIT else None
