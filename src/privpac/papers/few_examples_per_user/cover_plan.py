"""Selection from a cover as a line of the plan of a family of distributions: its certificate, what it is predicted to
do, and the hard laws that attack it.

The exact law of the output on drawn data sets; for the attacks masses between cover members, and means anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from privpac.arrays import Array, Floats64
from privpac.auditing.family_laws import selected_claim, two_heavy_masses
from privpac.auditing.refutation import Claim, SearchPoint
from privpac.data import Domain
from privpac.distributions.base import Family
from privpac.distributions.family_plan import CountedTarget, FamilyTarget, GaussianTarget, LawSimulation, Ready
from privpac.distributions.selection.accuracy import read_top
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational
from privpac.guarantee import Neighbours
from privpac.methods.registry import PlannedMethod
from privpac.methods.simulation import Draws
from privpac.papers.few_examples_per_user.covers import (
    Cover,
    CoverLearner,
    DiscreteCover,
    GridCover,
    LocationCover,
    ProductCover,
    ScaleCover,
)
from privpac.sample_size import Certificate
from privpac.special import ndtr

MOST_MEMBERS = 1 << 18
QUICK_PAIRS, QUICK_NORMALS = 1 << 22, 1 << 19
_USUAL = (Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(2, 5))
"""The accuracies that learners may aim at where it is what is asked for: the first whose cover is not too large."""


def cover_learner(target: FamilyTarget, told: dict[str, Any]) -> CoverLearner:
    return CoverLearner(_family(target), target.epsilon, neighbours=target.neighbours, **told)


def cover_line(target: FamilyTarget, assumes: str = "") -> PlannedMethod:
    """The learner for people with so many records."""

    def certify(m: int) -> Certificate:
        told = {"alpha": target.alpha, "beta": target.beta, "records_per_user": m}
        learner = cover_learner(target, told)
        found = learner.plan(family_cover(_family(target), target.domains, target.alpha)).certificate
        assert found is not None
        return found.run_with(**told, cover_radius=learner.cover_radius)

    return PlannedMethod("selection from a cover", certify, assumes, key="cover")


@lru_cache(maxsize=64)
def family_cover(family: Family, domains: tuple[tuple[str, Domain], ...], alpha: Fraction) -> Cover:
    """The learner's own cover: it depends on neither epsilon nor the records."""
    return CoverLearner(family, 1, alpha=alpha, records_per_user=1).cover(dict(domains))


def mass_simulations(target: CountedTarget) -> list[LawSimulation]:
    """Selection from a cover of mass functions, as far as that takes a moment.

    >>> from privpac.distributions.family_plan import family_target
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
    return target.alpha if target.alpha < Fraction(1, 2) else _reachable(target)


@lru_cache(maxsize=64)
def _reachable(target: FamilyTarget) -> Fraction:
    for alpha in _USUAL[:-1]:
        try:
            family_cover(_family(target), target.domains, alpha)
        except TooLargeError:
            continue
        return alpha
    return _USUAL[-1]


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
    draw: Callable[..., Array],
) -> Ready:
    told = {"alpha": _aim(target), "beta": target.beta, "records_per_user": m}
    learner, cover = cover_learner(evolve(target, epsilon=epsilon), told), _cover_of(target)
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

    def draw(size: int, rng: Draws) -> Array:
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

    def draw(size: int, rng: Draws) -> Array:
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


# Attacks


def masses_claim(target: CountedTarget, line: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The learner's own cover of mass functions, laws between its members."""

    def ready(point: SearchPoint) -> Ready:
        masses = [two_heavy_masses(size, point[0]) for size in target.sizes]
        return counted_ready(target, records_per_user, target.epsilon, masses)

    starts: tuple[SearchPoint, ...] = ((0.0,), (1.0,), (0.37,))
    about = "{:.3g} of the mass on two values, the rest evenly"
    return selected_claim(target, line, found, records_per_user, ready, starts, lambda point: about.format(point[0]))


def products_claim(target: CountedTarget, line: PlannedMethod, found: Certificate, records_per_user: int) -> str:
    """Why a cover of products is not tried."""
    return "members of a cover of products are compared pair by pair on every record: seconds for one data set"


def normal_claim(target: GaussianTarget, line: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The learner's own cover of normal laws, laws between its members."""
    return selected_claim(
        target,
        line,
        found,
        records_per_user,
        lambda point: normal_ready(target, records_per_user, target.epsilon, point[0]),
        ((0.5,), (1.0,), (0.013,)),
        lambda point: f"the mean at {point[0]:.3g} of the radius",
    )
