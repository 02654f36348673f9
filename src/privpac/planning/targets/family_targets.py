"""Families of distributions as something to plan for: users needed to learn a law in total variation, from public
numbers only.

=============  =============================================  =====================================================
family         must be given                                  methods
=============  =============================================  =====================================================
``selection``  ``k`` candidates (or ``candidates``,           hypothesis selection
               ``domains``)
``discrete``   ``k`` values (or ``domain``)                   selection from a cover, noisy averages, noisy counts
``product``    ``d`` columns of ``k`` values (or ``sizes``)   selection from a cover, noisy averages, noisy counts
``histogram``  ``k`` bins (``d`` columns, or ``sizes``)       noisy averages, noisy counts
``gaussian``   ``radius`` (``d``, ``variance``,               coarse to fine (known variance), selection from a cover
               ``max_variance``)
``vocabulary`` ``delta`` (``max_values``)                     stable histogram
=============  =============================================  =====================================================

Certified numbers are those of the learners themselves (their own certificates, with the same cover, clip and split of
the budget). Not certified, so not in a plan: histograms in two stages, and coarse-to-fine variances and covariances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from privpac.bounds.certificate import Certificate
from privpac.bounds.counts import certify_averages, certify_counts
from privpac.bounds.lower.candidates import lower_selection
from privpac.bounds.lower.families import larger, lower_covariance, lower_product
from privpac.bounds.lower.general import lower_discrete, lower_gauss_mean
from privpac.data import Domain, Floats, Integers
from privpac.distributions.averaged import AveragedHistogram
from privpac.distributions.base import DistributionLearner
from privpac.distributions.coarse_accuracy import certify_mean
from privpac.distributions.families import Discrete, Family, Gaussian, Independent
from privpac.distributions.histogram import ClippedHistogram
from privpac.distributions.means import CoarseToFineMean
from privpac.distributions.selection.selector import HypothesisSelector
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours
from privpac.parameters import DEFAULT_BETA
from privpac.planning.models.cover_models import mass_simulations, normal_simulations, selection_simulations
from privpac.planning.models.family_models import coarse_simulations, histogram_simulations
from privpac.planning.models.simulation import Simulation
from privpac.planning.targets.certified_runs import TABLE
from privpac.planning.targets.family_base import FamilyTarget
from privpac.planning.targets.family_shape import read_shape
from privpac.planning.targets.median_targets import MedianTarget, median_target
from privpac.planning.targets.target import PlannedMethod, read_goal
from privpac.planning.targets.vocabulary_targets import VocabularyTarget
from privpac.special import ndtri

__all__ = ["FAMILY_TARGETS", "FamilyTarget", "family_target", "shape_of_family"]

_ANY_TWO = ([1, 0], [0, 1])


# Selection


@dataclass(frozen=True)
class SelectionTarget(FamilyTarget):
    """The closest of ``k`` candidates, one of which is within ``opt`` of the population."""

    k: int
    opt: Fraction = Fraction(0)
    candidates: Any = None
    domains: tuple[tuple[str, Domain], ...] = ()

    family = "selection"
    takes = ("k", "candidates", "domains", "opt")

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        lines = [self._line("hypothesis selection", "selection", self.selection)]
        return lines if self.candidates is not None else self._with_lower(lines, "any private selection", self.lower)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*selection_simulations(self)]

    @property
    def shown(self) -> dict[str, str]:
        return {"selection": f"among {self.k} {'given ' if self.candidates is not None else ''}candidates"}

    def _remarks(self) -> list[str]:
        if self.candidates is not None:
            return ["no lower bound for given candidates: the one for the worst candidates says nothing about them"]
        return super()._remarks()

    def _command(self, method: str) -> list[str]:
        """A law for every name: one of ``scipy.stats``, or a file."""
        given = self.candidates
        names = list(given) if isinstance(given, Mapping) else [f"NAME{i}" for i in range(1, min(self.k, 3) + 1)]
        laws = [word for name in names for word in ("--candidate", f"{name}=LAW")]
        columns = self._columns() or ["--feature", "COLUMN=LO:HI"]
        return ["select", *TABLE, *columns, *laws, "--candidates-are", "public"]

    def selection(self, m: int) -> Certificate:
        # Any two candidates stand for k: what is promised whatever the candidates depends on their number only.
        listed = _ANY_TWO if self.candidates is None else self.candidates
        told = {"records_per_user": m, "alpha": self.alpha, "beta": self.beta, "opt": self.opt}
        learner = self.selector(listed, told)
        if self.candidates is None:
            found = replace(learner.plan, log_size=math.log(self.k)).certificate
        else:
            found = learner.certificate_for(dict(self.domains)) if self.domains else learner.certificate
        assert found is not None
        return found.run_with(**told)

    def selector(self, candidates: Any, told: dict[str, Any]) -> HypothesisSelector:
        return HypothesisSelector(candidates, self.epsilon, candidates_are="public", neighbours=self.neighbours, **told)

    def learner(self, method: str, certificate: Certificate) -> HypothesisSelector:
        if self.candidates is None:
            raise ParameterError(
                "the learner selects among candidates that the plan does not know: plan with candidates=[...]"
            )
        return self.selector(self.candidates, certificate.parameters)

    def lower(self, m: int) -> Certificate:
        return lower_selection(self.k, alpha=self.alpha, records_per_user=m, **self._hard)


# Mass functions


@dataclass(frozen=True)
class CountedTarget(FamilyTarget):
    """Mass functions on so many values in each column."""

    sizes: tuple[int, ...]

    takes: ClassVar[tuple[str, ...]] = ("k", "d", "sizes")
    described: ClassVar[Family | None] = None
    cells: ClassVar[str] = "values"
    """What has a mass."""
    cover_key = "cover of masses"

    @property
    def covered(self) -> Family | None:
        return self.described

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        lines = [
            *([] if self.covered is None else [self._cover_line()]),
            self._line("averaged histogram", "average", lambda m: certify_averages(self.sizes, **self._goal)),
            self._line("clipped histogram, one stage", "counts", self.counts),
        ]
        return self._with_lower(lines, "any private learner", self.lower)

    def counts(self, m: int) -> Certificate:
        return certify_counts(self.sizes, records_per_user=m, **self._goal)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*([] if self.covered is None else mass_simulations(self)), *histogram_simulations(self)]

    def _command(self, method: str) -> list[str]:
        family = self.family if method == "cover" else "histogram"
        return ["distribution", *TABLE, *self._columns(), "--family", family, "--method", method]

    @property
    def shown(self) -> dict[str, str]:
        if len(self.sizes) == 1:
            return {self.family: f"{self.sizes[0]} {self.cells}"}
        same = len(set(self.sizes)) == 1
        return {
            self.family: f"{len(self.sizes)} columns of "
            f"{self.sizes[0] if same else ', '.join(map(str, self.sizes))} {self.cells}"
        }

    def _remarks(self) -> list[str]:
        words = super()._remarks()
        words.append("histograms in two stages have no certificate; the number is for stages=1")
        words.append(
            "averaging needs no cap and lets people differ; where all hold equally many records it errs as counting "
            "does"
        )
        return words

    @property
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        return tuple((f"x{i}", Integers(0, size - 1)) for i, size in enumerate(self.sizes))

    def learner(self, method: str, certificate: Certificate) -> DistributionLearner:
        if method == "cover":
            assert self.covered is not None
            return self.cover_learner(self.covered, certificate.parameters)
        kind = AveragedHistogram if method == "average" else ClippedHistogram
        return kind(self.epsilon, neighbours=self.neighbours, **certificate.parameters)

    def lower(self, m: int) -> Certificate:
        largest = max(self.sizes)
        if largest < 2:
            return Certificate.lower(0, "discrete law", "one value")
        # The bound grows with the number of categories, so that for fewer of them holds as well.
        one = lower_discrete(min(largest, 1 << 13), alpha=self.alpha, records_per_user=m, **self._hard)
        if len(self.sizes) == 1:
            return one
        return larger(one, lower_product(self.sizes, alpha=self.alpha, records_per_user=m, **self._hard))


@dataclass(frozen=True)
class DiscreteTarget(CountedTarget):
    """All mass functions on ``k`` values."""

    family = "discrete"
    takes = ("k", "domain")
    described = Discrete()


@dataclass(frozen=True)
class ProductTarget(CountedTarget):
    """All products of mass functions."""

    family = "product"
    cover_key = "cover of products"
    described = Independent()


@dataclass(frozen=True)
class HistogramTarget(CountedTarget):
    """Masses of declared bins."""

    family = "histogram"
    cells = "bins"

    def _columns(self) -> list[str]:
        names = ["COLUMN"] if len(self.sizes) == 1 else [f"COLUMN{i}" for i in range(1, len(self.sizes) + 1)]
        features = [word for name in names for word in ("--feature", f"{name}=LO:HI")]
        return [*features, *(word for name, size in zip(names, self.sizes) for word in ("--bins", f"{name}={size}"))]


# Normal laws


@dataclass(frozen=True)
class GaussianTarget(FamilyTarget):
    """Normal laws of ``d`` columns, the mean within ``radius`` of 0, one known ``variance`` or eigenvalues up to
    ``max_variance``."""

    law: Gaussian
    d: int

    family = "gaussian"
    cover_key = "cover of normal laws"
    takes = ("radius", "d", "variance", "max_variance")

    @property
    def covered(self) -> Family | None:
        return self.law

    @property
    def numbers_per_record(self) -> int:
        return self.d

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        known = self.law.max_variance is None
        lines = [self._line("coarse-to-fine mean", "coarse-to-fine", self.coarse)] if known else []
        if self.d <= 4:
            # Sets of laws with different spreads are found on a grid, their probabilities from many samples.
            sets = "" if known else ", and sets and their probabilities right up to the learner's rounding"
            lines.append(self._cover_line(sets))
        return self._with_lower(lines, "any private learner", self.lower)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*normal_simulations(self), *coarse_simulations(self)]

    def _ranges(self) -> dict[str, Any]:
        wide = {} if self.law.max_variance is None else {"max_variance": rational(self.law.max_variance)}
        return {"radius": rational(self.law.radius), "variance": rational(self.law.variance), **wide}

    @property
    def shown(self) -> dict[str, str]:
        spread = f"variance {float(rational(self.law.variance)):g}"
        if self.law.max_variance is not None:
            spread += f" to {float(rational(self.law.max_variance)):g}"
        return {
            "gaussian": (
                f"{self.d} column{'s' if self.d > 1 else ''}, radius {float(rational(self.law.radius)):g}, {spread}"
            )
        }

    def _remarks(self) -> list[str]:
        words = super()._remarks()
        if self.law.max_variance is not None:
            words.append("coarse-to-fine variances and covariances have no certificate")
            if self.d == 1:
                words.append("the lower bound is that of the mean alone")
        if self.d > 4:
            words.append("covers of more than 4 columns are too large to search")
        return words

    def coarse(self, m: int) -> Certificate:
        """The best of all declarations that people with ``m`` records fulfil: finer units have more cells to choose
        from.

        ``records_per_user`` of the certificate is the one to declare.
        """
        found = [_coarse(self, told) for told in _declared(m)]
        return min(found, key=lambda c: math.inf if c.n_users is None else c.n_users)

    @property
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        return tuple((f"x{i}", Floats()) for i in range(self.d))

    def coarse_learner(self, told: int) -> CoarseToFineMean:
        """The learner of people with ``told`` records or more."""
        ranges: dict[str, Any] = {"radius": self.law.radius, "variance": self.law.variance}
        return CoarseToFineMean(self.epsilon, records_per_user=told, neighbours=self.neighbours, **ranges)

    def learner(self, method: str, certificate: Certificate) -> DistributionLearner:
        if method == "cover":
            return self.cover_learner(self.law, certificate.parameters)
        return self.coarse_learner(certificate["records_per_user"])

    def lower(self, m: int) -> Certificate:
        """The mean's, or the covariance's where that is unknown and needs more people."""
        if self.law.max_variance is None or self.d == 1:
            return self._lower_mean(m)
        target = min(self.alpha, Fraction(499999, 10**6))
        shape = lower_covariance(self.d, alpha=target, records_per_user=m, ratio=self.law.ratio, **self._hard)
        try:
            return larger(self._lower_mean(m), shape)
        except InfeasibleError:
            return shape

    def _lower_mean(self, m: int) -> Certificate:
        """Means along a code, all of them within ``Phi^-1(1/2 + alpha) sqrt(d)`` deviations of 0: the family must hold
        them."""
        needed = float(ndtri(0.5 + min(float(self.alpha), 0.499999))) * math.sqrt(self.d) * (1 + 1e-6)
        reach = float(rational(self.law.radius)) / math.sqrt(rational(self.law.variance))
        if reach < needed:
            raise InfeasibleError(
                f"the bound is for means within {needed:.3g} deviations of 0; the radius is {reach:.3g} of them"
            )
        return lower_gauss_mean(self.d, alpha=self.alpha, records_per_user=m, **self._hard)


@lru_cache(maxsize=4096)
def _coarse(target: GaussianTarget, m: int) -> Certificate:
    found = certify_mean(target.coarse_learner(m), alpha=target.alpha, beta=target.beta, dimension=target.d)
    return found.run_with(radius=target.law.radius, variance=target.law.variance, records_per_user=m)


def _declared(m: int) -> list[int]:
    """Numbers of up to three binary digits, at most ``m``, the largest first: one list for all ``m``, so more records
    never harm."""
    found = {1, 2, 3} | {digits << shift for shift in range(m.bit_length()) for digits in (4, 5, 6, 7)}
    return sorted((told for told in found if told <= m), reverse=True)


# Reading a request


FAMILY_TARGETS: dict[str, type[FamilyTarget]] = {
    kind.family: kind
    for kind in (SelectionTarget, DiscreteTarget, ProductTarget, HistogramTarget, GaussianTarget, VocabularyTarget)
}


def shape_of_family(family: str) -> tuple[str, ...]:
    """By which numbers a family, or the median, is described."""
    return MedianTarget.takes if family == "median" else FAMILY_TARGETS[family].takes


def family_target(
    family: str,
    *,
    epsilon: Rational,
    alpha: Rational = "0.1",
    beta: Rational = DEFAULT_BETA,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    delta: Rational = 0,
    **shape: Any,
) -> FamilyTarget | MedianTarget:
    """What to plan for: a family by name, its public shape, and the total variation wanted.

    ``"median"`` (of a ``domain``, or of numbers of so many ``bits``) is planned as well; ``alpha`` is then a share of
    the ranks.

    >>> target = family_target("discrete", epsilon=1, alpha="0.1", k=4)
    >>> {method.name: method.certify(16).n_users for method in target.methods()}  # doctest: +NORMALIZE_WHITESPACE
    {'selection from a cover': 695, 'averaged histogram': 471, 'clipped histogram, one stage': 137,
     'any private learner': 3}
    """
    if not isinstance(family, str) or family not in (*FAMILY_TARGETS, "median"):
        raise ParameterError(f"family must be one of {', '.join(FAMILY_TARGETS)}, median, got {str(family)[:40]!r}")
    takes = shape_of_family(family)
    given = {name: value for name, value in shape.items() if value is not None}
    strange = sorted(set(given) - set(takes))
    if strange:
        raise ParameterError(f"family {family!r} is not described by {', '.join(strange)}; give {', '.join(takes)}")
    if family == "median":
        return median_target(epsilon=epsilon, alpha=alpha, beta=beta, neighbours=neighbours, delta=delta, **given)
    goal = read_goal(epsilon, alpha, beta, neighbours, delta)
    return FAMILY_TARGETS[family](**goal, **read_shape(family, given))
