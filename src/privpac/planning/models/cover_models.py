"""What selection among distributions is predicted to do: the mean total variation over its exact law, on drawn people
of a stated law.

=================
====================================================================================================================
selection          ``k`` candidates on a power of two of values, tilted along different Walsh signs so that any two are
``2 alpha`` apart
                   (at most 1/2); the first of them is the law.  Given candidates of one column: the first is the law.
discrete, product  the masses of every column grow like 1, 2, ..., k gaussian           the mean is half-way to the
public radius, in all columns alike, and so is the variance where it has a range (one column) =================
====================================================================================================================

Learners, clips and covers are those of the plan; scores are computed as the learner does, and the mean over its
exponential law is a sum in double precision.  People are drawn with fixed seeds, so the same question has the same
answer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain, Integers, UserData
from privpac.distributions.covers.base import Cover, DiscreteCover, ProductCover
from privpac.distributions.covers.gaussian import GridCover, LocationCover
from privpac.distributions.covers.learner import CoverLearner
from privpac.distributions.covers.scale import ScaleCover
from privpac.distributions.families import Family
from privpac.distributions.selection.accuracy import read_top
from privpac.errors import ParameterError, PrivpacWarning, TooLargeError
from privpac.exact import rational
from privpac.guarantee import Neighbours
from privpac.planning.models.simulation import Simulation
from privpac.special import ndtr

if TYPE_CHECKING:
    from privpac.planning.targets.family_base import FamilyTarget
    from privpac.planning.targets.family_targets import CountedTarget, GaussianTarget, SelectionTarget

__all__ = [
    "LawSimulation",
    "Ready",
    "counted_ready",
    "family_cover",
    "mass_simulations",
    "normal_ready",
    "normal_simulations",
    "selected_ready",
    "selection_simulations",
]

Floats64 = NDArray[np.float64]
MOST_RECORDS, MOST_CANDIDATES, MOST_MEMBERS, MOST_VALUES = 1 << 18, 64, 1 << 18, 1 << 10
QUICK_PAIRS, QUICK_NORMALS = 1 << 22, 1 << 19
_USUAL = (Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(2, 5))
"""The accuracies that learners may aim at where it is what is asked for: the first whose cover is not too large."""


@dataclass(frozen=True, eq=False)
class Ready:
    """A learner with all that does not depend on the data: scores of a data set, their range, and how far each outcome
    is from the law."""

    scores: Callable[[UserData], NDArray[np.int64]]
    rate: float
    distances: Floats64
    draw: Callable[[int, np.random.Generator], NDArray[Any]]
    domains: tuple[tuple[str, Domain], ...]

    def mean(self, n: int, m: int, rng: np.random.Generator) -> float:
        """Mean total variation over the law of the output, for one drawn data set."""
        return float(np.sum(self.chances(n, m, rng) * self.distances))

    def chances(self, n: int, m: int, rng: np.random.Generator) -> Floats64:
        """The law of the output, for one drawn data set."""
        values = self.draw(n * m, rng)
        people = UserData.from_arrays(values, None, np.repeat(np.arange(n), m), features=dict(self.domains))
        scores = self.scores(people).astype(np.float64)
        weight = np.exp(-self.rate * (scores - scores.min()))
        return np.asarray(weight / np.sum(weight))


@dataclass(frozen=True)
class LawSimulation(Simulation):
    """One way of selecting a distribution, on one law."""

    method: str
    law: str
    target: FamilyTarget
    prepare: Callable[[Any, int, Fraction], Ready]
    quick: bool = True
    """Whether it takes a moment only."""
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    first: ClassVar[int] = 4
    most_runs: ClassVar[int] = 160

    @property
    def model(self) -> str:
        return f"{self.law}, as many records per user as the column says"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """None where the people are too many to simulate, or the learner refuses these numbers."""
        m, asked = records_per_user, (records_per_user, epsilon)
        if n_users * m * self.target.numbers_per_record > MOST_RECORDS:
            return None
        try:
            if asked not in self._made:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
                    self._made[asked] = self.prepare(self.target, m, epsilon)
        except (ParameterError, TooLargeError):
            return None
        ready: Ready = self._made[asked]
        return lambda i: ready.mean(n_users, m, np.random.default_rng([19, m, i]))

    def limit(self, records_per_user: int, n_users: int) -> int:
        return self.most_runs if self.quick else 8

    def between(self, records_per_user: int) -> tuple[int, int]:
        certified = self.target.certified_users(self.method, records_per_user)
        return max(4, (certified or 64) // 32), MOST_RECORDS // (records_per_user * self.target.numbers_per_record)


@lru_cache(maxsize=64)
def family_cover(family: Family, domains: tuple[tuple[str, Domain], ...], alpha: Fraction) -> Cover:
    """The learner's own cover: it depends on neither epsilon nor the records."""
    return CoverLearner(family, 1, alpha=alpha, records_per_user=1).cover(dict(domains))


def mass_simulations(target: CountedTarget) -> list[LawSimulation]:
    """Selection from a cover of mass functions, as far as that takes a moment.

    >>> from privpac.planning.targets.family_targets import family_target
    >>> [made.law for made in mass_simulations(family_target("discrete", epsilon=1, k=3))]
    ['masses that grow like 1, 2, ..., 3']
    """
    cover = _small_cover(target)
    if cover is None:
        return []
    many = "" if len(target.sizes) == 1 else " in every column"
    law = f"masses that grow like 1, 2, ..., {max(target.sizes)}{many}"
    # Products are compared pair by pair.
    quick = not isinstance(cover, ProductCover) or cover.size**2 <= QUICK_PAIRS
    return [LawSimulation("selection from a cover", law, target, counted_ready, quick)]


def normal_simulations(target: GaussianTarget) -> list[LawSimulation]:
    """Selection from a cover of normal laws, as far as that takes a moment."""
    cover = _small_cover(target)
    if not isinstance(cover, (GridCover, LocationCover, ScaleCover)):
        return []
    law = f"normal with variance {_deviation(target) ** 2:g}, the mean half-way to the radius"
    quick = isinstance(cover, LocationCover) or cover.size**2 <= QUICK_NORMALS
    return [LawSimulation("selection from a cover", law, target, normal_ready, quick)]


def _small_cover(target: FamilyTarget) -> Cover | None:
    try:
        cover = _cover_of(target)
    except (ParameterError, TooLargeError):
        return None
    return cover if cover.size <= MOST_MEMBERS else None


def _aim(target: FamilyTarget) -> Fraction:
    """The accuracy that a learner is told; from one half on, where it says nothing, a usual one."""
    if target.alpha < Fraction(1, 2):
        return target.alpha
    return _USUAL[0] if target.covered is None else _reachable(target)


@lru_cache(maxsize=64)
def _reachable(target: FamilyTarget) -> Fraction:
    for alpha in _USUAL[:-1]:
        try:
            family_cover(_family(target), target.domains, alpha)
        except TooLargeError:
            continue
        return alpha
    return _USUAL[-1]


# Candidates


def selection_simulations(target: SelectionTarget) -> list[LawSimulation]:
    """Selection among candidates, as far as that takes a moment."""
    if target.candidates is None:
        if not 1 < target.k <= MOST_CANDIDATES:
            return []
        law = f"{target.k} candidates, any two {float(_apart(target)):g} apart, one of them right"
        return [LawSimulation("hypothesis selection", law, target, selected_ready)]
    if len(target.domains) != 1 or target.domains[0][1].size > MOST_VALUES or len(target.candidates) > MOST_CANDIDATES:
        return []
    return [LawSimulation("hypothesis selection", "the first of the given candidates", target, selected_ready)]


def _apart(target: SelectionTarget) -> Fraction:
    return min(2 * _aim(target), Fraction(1, 2))


def _walsh(target: SelectionTarget) -> tuple[list[list[int]], tuple[tuple[str, Domain], ...]]:
    """Weights ``1 + t w_i(x)``, ``w_i`` different Walsh signs: where two differ, on half of the values, it is by ``2
    t``."""
    size, tilt = 1 << target.k.bit_length(), 2 * _apart(target)
    x = np.arange(size)
    signs = [1 - 2 * (np.bitwise_count(x & i).astype(np.int64) & 1) for i in range(1, target.k + 1)]
    weights = [(tilt.denominator + tilt.numerator * sign).tolist() for sign in signs]
    return weights, (("x", Integers(0, size - 1)),)


def selected_ready(target: SelectionTarget, m: int, epsilon: Fraction) -> Ready:
    given, domains = (target.candidates, target.domains) if target.candidates is not None else _walsh(target)
    told = {"records_per_user": m, "alpha": _aim(target), "beta": target.beta, "opt": target.opt}
    learner = replace(target, epsilon=epsilon).selector(given, told)
    comparison = learner.comparison(dict(domains))
    top, reach = learner.top_for(comparison), learner.range_of(comparison)
    masses = np.array([[float(p) for p in candidate.value_masses(dict(domains))] for candidate in learner.candidates])
    masses /= masses.sum(axis=1, keepdims=True)
    domain = domains[0][1]

    def draw(size: int, rng: np.random.Generator) -> NDArray[Any]:
        codes = rng.choice(masses.shape[1], size, p=masses[0])
        return (
            codes
            if isinstance(domain, Integers) and domain.lo == 0
            else np.array([domain.value(int(code)) for code in codes])
        )

    distances = np.abs(masses - masses[0]).sum(axis=1) / 2
    return Ready(lambda users: comparison.scores(users, top), float(epsilon) / reach, distances, draw, domains)


# Covers


def _cover_of(target: FamilyTarget) -> Cover:
    return family_cover(_family(target), target.domains, _aim(target))


def _family(target: FamilyTarget) -> Family:
    assert target.covered is not None
    return target.covered


def _from_cover(
    target: FamilyTarget,
    m: int,
    epsilon: Fraction,
    distances: Floats64,
    draw: Callable[..., NDArray[Any]],
) -> Ready:
    told = {"alpha": _aim(target), "beta": target.beta, "records_per_user": m}
    learner, cover = replace(target, epsilon=epsilon).cover_learner(_family(target), told), _cover_of(target)
    top = read_top(cover.unit, learner.plan(cover).clip)
    reach = cover.range(top, learner.cap, Neighbours(target.neighbours))
    return Ready(lambda users: cover.scores(users, top), float(epsilon) / reach, distances, draw, target.domains)


def counted_ready(target: CountedTarget, m: int, epsilon: Fraction, law: list[Floats64] | None = None) -> Ready:
    """A cover of mass functions; ``law``: the masses of every column, unless as stated."""
    cover, masses = _cover_of(target), np.ones(1)
    columns = law or [np.arange(1, size + 1) / (size * (size + 1) / 2) for size in target.sizes]
    for column in columns:
        masses = np.multiply.outer(masses, column).ravel()
    members = _compositions(cover.units, cover.domain.size) if isinstance(cover, DiscreteCover) else _weights(cover)

    def draw(size: int, rng: np.random.Generator) -> NDArray[Any]:
        return np.stack([rng.choice(len(column), size, p=column) for column in columns], axis=1)

    return _from_cover(target, m, epsilon, np.abs(members / cover.unit - masses).sum(axis=1) / 2, draw)


def _weights(cover: Cover) -> NDArray[np.int64]:
    assert isinstance(cover, ProductCover)
    return cover.weights


def _compositions(units: int, cells: int) -> NDArray[np.int64]:
    """All counts of so many cells that sum to ``units``, in lexicographic order: the gaps between ``cells - 1``
    bars."""
    size = math.comb(units + cells - 1, cells - 1)
    bars = np.fromiter(
        chain.from_iterable(combinations(range(units + cells - 1), cells - 1)), np.int64, size * (cells - 1)
    )
    ends = np.full((size, 1), -1), bars.reshape(size, cells - 1), np.full((size, 1), units + cells - 1)
    counts: NDArray[np.int64] = np.diff(np.concatenate(ends, axis=1), axis=1) - 1
    return counts


def _deviation(target: GaussianTarget) -> float:
    """Of the law: known, or half-way between the ends on a logarithmic scale."""
    least = rational(target.law.variance)
    most = least if target.law.max_variance is None else rational(target.law.max_variance)
    return math.sqrt(math.sqrt(least * most))


def normal_ready(target: GaussianTarget, m: int, epsilon: Fraction, place: float = 0.5) -> Ready:
    """A cover of normal laws; ``place``: how far the mean is on its way to the radius."""
    cover, d, deviation = _cover_of(target), target.d, _deviation(target)
    centre = np.full(d, float(rational(target.law.radius)) * place / math.sqrt(d))

    def draw(size: int, rng: np.random.Generator) -> NDArray[Any]:
        return rng.normal(centre, deviation, (size, d))

    if isinstance(cover, ScaleCover):
        distances = _between(cover.means, cover.deviations, centre[0], deviation)
        return _from_cover(target, m, epsilon, distances, draw)
    if isinstance(cover, LocationCover):
        means = (float(cover.start) + float(cover.step) * np.arange(cover.size))[:, None]
    else:
        assert isinstance(cover, GridCover)
        means = cover.points * cover.half
    away = np.sqrt(((means - centre) ** 2).sum(axis=1)) / deviation
    return _from_cover(target, m, epsilon, np.asarray(2 * ndtr(away / 2) - 1), draw)


def _between(means: Floats64, deviations: Floats64, mean: float, deviation: float) -> Floats64:
    """Total variation of normal laws of one column and one of them, by the masses of fine cells."""
    edges = mean + deviation * np.linspace(-9, 9, 2001)
    inside = np.diff(ndtr((edges - mean) / deviation))
    others = ndtr((edges - means[:, None]) / deviations[:, None])
    beyond = others[:, 0] + 1 - others[:, -1]  # where the law has next to no mass
    distances: Floats64 = (np.abs(np.diff(others, axis=1) - inside).sum(axis=1) + beyond) / 2
    return distances
