"""Candidate distributions: what a user may list, read into a few kinds with one interface.

**Candidates must be public**: fixed in advance, fitted on public data, or outputs of a private mechanism whose budget
is added.  Fitting them on the same users, or on other private users, without privacy voids the guarantee.

=====================================  ==========================================================================
written as                             read as
=====================================  ==========================================================================
list of weights, or ``{value: w}``     mass function on the column's domain (rational, normalised exactly)
frozen ``scipy.stats`` distribution    continuous or integer-valued law of one column
frozen ``multivariate_normal``         normal law of several columns
a released distribution                what it is (mass function, histogram, normal, family, product)
:class:`Density`, or a plain function  any density, with what else is known of it
=====================================  ==========================================================================
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from attrs import frozen

from privpac.arrays import Array, Floats64
from privpac.data import Domain
from privpac.distributions.cells import codes_below, values_of
from privpac.distributions.results import (
    DiscreteDistribution,
    Distribution,
    FamilyDistribution,
    GaussianDistribution,
    HistogramDistribution,
    NamedCandidate,
    ProductDistribution,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational

MAX_CANDIDATES = 1 << 11
_INTEGRATED, _LEVELS = ("levy_stable", "studentized_range"), 64
"""Laws whose quantiles are roots of integrals (about 50 ms each), and how many of them are worth waiting for."""
FrozenLaw = Any
"""A frozen distribution of ``scipy.stats``, which has no types."""
_TERMS = 1 << 20
"""Masses that are added up for one value of a distribution function without a formula."""


@frozen(slots=False)
class Density:
    """Any density: ``logpdf`` of an array of numbers (one column) or of rows (several).

    ``cdf`` and the finite ``support = (lo, hi)`` help for one column; ``sample(size, seed)`` draws from it for several.
    """

    logpdf: Callable[[Array], object]
    cdf: Callable[[Array], object] | None = None
    sample: Callable[[int, int], object] | None = None
    support: tuple[float, float] | None = None
    name: str = "density"

    def __attrs_post_init__(self) -> None:
        for part, needed in (("logpdf", True), ("cdf", False), ("sample", False)):
            given = getattr(self, part)
            if not callable(given) and (needed or given is not None):
                raise TypeError(f"{part} must be a function, got {type(given).__name__}")


def values_or_nan(function: Callable[[Array], object], x: Array, n: int) -> Floats64:
    """Values of a candidate's own function; whatever goes wrong on a record is NaN, never an exception or a warning."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out: Floats64 = np.asarray(function(x), dtype=np.float64).reshape(-1)
    except Exception:
        return np.full(n, np.nan)
    return out if out.shape == (n,) else np.full(n, np.nan)


def check_terms(law: FrozenLaw, name: str, most: float | None = None) -> None:
    """Refuse a law on the integers whose distribution function is a sum of too many masses: up to ``most``, or to the
    end of its tail."""
    from scipy.stats import rv_discrete

    if getattr(type(getattr(law, "dist", None)), "_cdf", None) is not rv_discrete._cdf:
        return
    first, last = law.support()
    last = last if most is None else min(last, most)
    if last - first <= _TERMS or (most is None and float(law.pmf(first + _TERMS)) * _TERMS < 1e-16):
        return
    raise TooLargeError(
        f"{name}: the distribution function of {law.dist.name} is a sum of more than 2^20 masses here; give edges "
        "below 2^20 as bins=[...], list the masses as {value: weight}, or use a law that ends, such as zipfian for zipf"
    )


class Candidate(ABC):
    """A candidate.  ``measure``: "values" (masses of values) or "line" (a density)."""

    name: str
    measure: ClassVar[str] = "line"

    @abstractmethod
    def publish(self, domains: Mapping[str, Domain], index: int) -> Distribution | NamedCandidate:
        """The distribution to release if this candidate is chosen."""

    def value_masses(self, domains: Mapping[str, Domain]) -> list[Fraction] | Floats64:
        """The mass of every value of small domains."""
        raise ParameterError(f"{self.name} is a density on the line, not on the listed values; give bins=")

    def edge_masses(self, edges: Sequence[Fraction], domain: Domain) -> list[Fraction] | Floats64:
        """The mass of ``(-inf, e_0), [e_0, e_1), ..., [e_last, inf)``."""
        raise ParameterError(f"{self.name} has no masses of bins on one column")

    def log_density(self, points: Floats64) -> Floats64:
        """The log density at rows."""
        raise ParameterError(f"{self.name} has no density at points; give bins=, or use candidates of one kind")

    def quantiles(self, levels: Floats64) -> Floats64:
        """Points below which the given parts of the mass lie."""
        raise ParameterError(f"{self.name} has no quantiles to place bins by; give the edges as bins=[...]")


def _differences(ends: Floats64, upper: Floats64) -> Floats64:
    """Masses between edges from the distribution function and, on the right, its complement (no cancellation)."""
    inner = np.where(ends[:-1] >= 0.5, -np.diff(upper), np.diff(ends))
    return np.asarray(np.maximum(np.nan_to_num(np.concatenate([ends[:1], inner, upper[-1:]])), 0.0))


@frozen(slots=False)
class Pmf(Candidate):
    """Masses of listed values: by position, or by value."""

    weights: tuple[Fraction, ...] | Mapping[object, Fraction]
    name: str = "mass function"
    measure: ClassVar[str] = "values"

    def value_masses(self, domains: Mapping[str, Domain]) -> list[Fraction]:
        size = math.prod(domain.size for domain in domains.values())
        listed: list[Fraction]
        if isinstance(self.weights, Mapping):
            if len(domains) != 1:
                raise ParameterError("masses by value describe one column; list them by position for several columns")
            codes, _ = next(iter(domains.values())).encode(list(self.weights), name="candidates")
            placed = dict(zip(codes.tolist(), self.weights.values()))
            listed = [placed.get(code, Fraction(0)) for code in range(size)]
        else:
            listed = list(self.weights)
        if len(listed) != size:
            raise ParameterError(f"{self.name} lists {len(listed)} masses, the declared domain has {size} values")
        total = sum(listed)
        return [weight / total for weight in listed]

    def edge_masses(self, edges: Sequence[Fraction], domain: Domain) -> list[Fraction]:
        masses = self.value_masses({"": domain})
        cuts = [0, *(codes_below(domain, edge) for edge in edges), domain.size]
        return [sum(masses[a:b], Fraction(0)) for a, b in pairwise(cuts)]

    def publish(self, domains: Mapping[str, Domain], index: int) -> Distribution | NamedCandidate:
        if len(domains) > 1:
            return NamedCandidate(index, self.name)
        ((feature, domain),) = domains.items()
        masses = self.value_masses(domains)
        unit = math.lcm(*(mass.denominator for mass in masses))
        return DiscreteDistribution(feature, domain, tuple(int(mass * unit) for mass in masses))


@frozen(slots=False)
class BinnedLaw(Candidate):
    """A piecewise constant density with rational weights."""

    edges: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    name: str = "histogram"

    def below(self, x: Fraction) -> Fraction:
        """The mass below ``x``, exactly."""
        out = Fraction(0)
        for (a, b), weight in zip(pairwise(self.edges), self.weights):
            out += weight * min(max((x - a) / (b - a), Fraction(0)), Fraction(1))
        return out / sum(self.weights)

    def edge_masses(self, edges: Sequence[Fraction], domain: Domain) -> list[Fraction]:
        ends = [Fraction(0), *(self.below(edge) for edge in edges), Fraction(1)]
        return [b - a for a, b in pairwise(ends)]

    def log_density(self, points: Floats64) -> Floats64:
        return HistogramDistribution("x", self.edges, self._integers).score_samples(points)

    def quantiles(self, levels: Floats64) -> Floats64:
        ends = np.array([float(self.below(edge)) for edge in self.edges])
        return np.asarray(np.interp(levels, ends, np.array([float(edge) for edge in self.edges])))

    def publish(self, domains: Mapping[str, Domain], index: int) -> Distribution | NamedCandidate:
        return HistogramDistribution(next(iter(domains)), self.edges, self._integers)

    @property
    def _integers(self) -> tuple[int, ...]:
        unit = math.lcm(*(weight.denominator for weight in self.weights))
        return tuple(int(weight * unit) for weight in self.weights)


@frozen(slots=False, eq=False)
class ScipyLaw(Candidate):
    """A frozen distribution of ``scipy.stats``: a law of one column with a distribution function."""

    law: FrozenLaw
    name: str

    def _between(self, x: Floats64) -> Floats64:
        return _differences(values_or_nan(self.law.cdf, x, len(x)), values_or_nan(self.law.sf, x, len(x)))

    def quantiles(self, levels: Floats64) -> Floats64:
        return np.asarray(np.where(levels <= 0.5, self.law.ppf(levels), self.law.isf(1 - levels)))

    def publish(self, domains: Mapping[str, Domain], index: int) -> Distribution | NamedCandidate:
        parameters = frozen_parameters(self.law)
        if parameters is None:
            return NamedCandidate(index, self.name)
        return FamilyDistribution(next(iter(domains)), self.law.dist.name, parameters)


@frozen(slots=False, eq=False)
class LineLaw(ScipyLaw):
    """A continuous one; ``normal`` holds mean and deviation if it is normal."""

    normal: tuple[Fraction, Fraction] | None = None

    def edge_masses(self, edges: Sequence[Fraction], domain: Domain) -> Floats64:
        return self._between(np.array([float(edge) for edge in edges]))

    def log_density(self, points: Floats64) -> Floats64:
        return values_or_nan(self.law.logpdf, points[:, 0], len(points))

    def quantiles(self, levels: Floats64) -> Floats64:
        family = getattr(getattr(self.law, "dist", None), "name", "")
        if family in _INTEGRATED and len(levels) > _LEVELS:
            raise TooLargeError(
                f"{self.name}: {len(levels)} quantiles of {family} would take minutes, each is the root of an "
                "integral; give the edges as bins=[...]"
            )
        return super().quantiles(levels)

    def publish(self, domains: Mapping[str, Domain], index: int) -> Distribution | NamedCandidate:
        if self.normal is None:
            return super().publish(domains, index)
        mean, deviation = self.normal
        return GaussianDistribution((next(iter(domains)),), (float(mean),), ((float(deviation**2),),))


@frozen(slots=False, eq=False)
class IntegerLaw(ScipyLaw):
    """One on the integers."""

    measure: ClassVar[str] = "values"

    def value_masses(self, domains: Mapping[str, Domain]) -> Floats64:
        if len(domains) != 1:
            raise ParameterError(f"{self.name} describes one column")
        domain = next(iter(domains.values()))
        return values_or_nan(self.law.pmf, values_of(domain, np.arange(domain.size, dtype=np.uint64)), domain.size)

    def edge_masses(self, edges: Sequence[Fraction], domain: Domain) -> Floats64:
        x = np.array([float(math.ceil(edge) - 1) for edge in edges])
        check_terms(self.law, self.name, float(x.max(initial=0.0)))
        return self._between(x)

    def log_density(self, points: Floats64) -> Floats64:
        return values_or_nan(self.law.logpmf, points[:, 0], len(points))

    def quantiles(self, levels: Floats64) -> Floats64:
        check_terms(self.law, self.name)
        return super().quantiles(levels) + 0.5


@frozen(slots=False, eq=False)
class Normal(Candidate):
    """A normal law of several columns."""

    mean: Floats64
    covariance: Floats64
    name: str = "normal"

    @property
    def quadratic(self) -> tuple[Floats64, float]:
        """The inverse covariance and the constant of the log density."""
        inverse = np.linalg.inv(self.covariance)
        return (inverse + inverse.T) / 2, -0.5 * float(np.linalg.slogdet(2 * math.pi * self.covariance)[1])

    def log_density(self, points: Floats64) -> Floats64:
        inverse, constant = self.quadratic
        away = points - self.mean
        return np.asarray(constant - np.einsum("ni,ij,nj->n", away, inverse, away) / 2)

    def publish(self, domains: Mapping[str, Domain], index: int) -> Distribution | NamedCandidate:
        return GaussianDistribution(tuple(domains), tuple(self.mean), tuple(tuple(row) for row in self.covariance))


@frozen(slots=False)
class Product(Candidate):
    """Independent columns, each a candidate of its own."""

    parts: tuple[Candidate, ...]
    name: str = "product"

    @property
    def measure(self) -> str:  # type: ignore[override]
        kinds = {part.measure for part in self.parts}
        return kinds.pop() if len(kinds) == 1 else "mixed"

    def value_masses(self, domains: Mapping[str, Domain]) -> Floats64 | list[Fraction]:
        self._check(domains)
        out: Array = np.array([Fraction(1)], dtype=object)
        for part, (name, domain) in zip(self.parts, domains.items()):
            out = np.outer(out, np.array(part.value_masses({name: domain}), dtype=object)).ravel()
        exact = all(isinstance(mass, Fraction) for mass in out)
        return list(out) if exact else out.astype(np.float64)

    def log_density(self, points: Floats64) -> Floats64:
        return np.asarray(sum(part.log_density(points[:, [i]]) for i, part in enumerate(self.parts)))

    def publish(self, domains: Mapping[str, Domain], index: int) -> Distribution | NamedCandidate:
        self._check(domains)
        parts = [part.publish({name: domain}, index) for part, (name, domain) in zip(self.parts, domains.items())]
        return ProductDistribution(tuple(parts))  # type: ignore[arg-type]  # a part without a law is refused there

    def _check(self, domains: Mapping[str, Domain]) -> None:
        if len(domains) != len(self.parts):
            raise ParameterError(f"{self.name} describes {len(self.parts)} columns, the data have {len(domains)}")


@frozen(slots=False)
class Joint(Candidate):
    """A :class:`Density`."""

    density: Density
    name: str

    def value_masses(self, domains: Mapping[str, Domain]) -> Floats64:
        axes = [values_of(domain, np.arange(domain.size, dtype=np.uint64)) for domain in domains.values()]
        points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        heights = np.nan_to_num(np.exp(self.log_density(points)), posinf=0.0)
        return np.asarray(heights / heights.sum() if heights.sum() > 0 else np.full(len(points), 1 / len(points)))

    def edge_masses(self, edges: Sequence[Fraction], domain: Domain) -> Floats64:
        x = np.array([float(edge) for edge in edges])
        if self.density.cdf is not None:
            ends = values_or_nan(self.density.cdf, x, len(x))
            return _differences(ends, 1 - ends)
        from scipy.integrate import quad

        limits = [-math.inf, *x.tolist(), math.inf]
        height = lambda z: float(np.nan_to_num(math.exp(min(700.0, self.log_density(np.array([[z]]))[0]))))  # noqa: E731
        masses = np.maximum([quad(height, a, b, limit=200, full_output=1)[0] for a, b in pairwise(limits)], 0.0)
        return masses / masses.sum() if masses.sum() > 0 else np.full(len(masses), 1 / len(masses))

    def log_density(self, points: Floats64) -> Floats64:
        return values_or_nan(self.density.logpdf, points[:, 0] if points.shape[1] == 1 else points, len(points))

    def publish(self, domains: Mapping[str, Domain], index: int) -> Distribution | NamedCandidate:
        return NamedCandidate(index, self.name)


def frozen_parameters(law: FrozenLaw) -> tuple[float, ...] | None:
    """The positional parameters of a frozen distribution: shapes, location, scale; None if they are not numbers."""
    named = [name.strip() for name in law.dist.shapes.split(",")] if law.dist.shapes else []
    named += ["loc", "scale"] if hasattr(law.dist, "pdf") else ["loc"]
    given = {"loc": 0.0, "scale": 1.0} | dict(zip(named, law.args)) | dict(law.kwds)
    try:
        return tuple(float(given[name]) for name in named)
    except (KeyError, TypeError, ValueError):
        return None


def _weights_of(values: Sequence[Rational], name: str) -> tuple[Fraction, ...]:
    """Non-negative rational weights, one of them positive."""
    weights = tuple(rational(value, f"a weight of {name}", minimum=0) for value in values)
    if not weights or sum(weights) == 0:
        raise ParameterError(f"{name} needs at least one positive weight")
    return weights


# Reading one candidate, whatever it was written as.


def read_candidate(value: object, name: str) -> Candidate:
    """One candidate; unknown types are refused with the list of known ones."""
    if isinstance(value, Candidate):
        return value
    if isinstance(value, DiscreteDistribution):
        return Pmf(_weights_of(value.weights, name), name)
    if isinstance(value, HistogramDistribution):
        return BinnedLaw(value.edges, _weights_of(value.weights, name), name)
    if isinstance(value, GaussianDistribution):
        return _gaussian(np.array(value.mean), np.array(value.covariance), name)
    if isinstance(value, FamilyDistribution):
        return _frozen(value._frozen, name)
    if isinstance(value, ProductDistribution):
        return Product(tuple(read_candidate(part, name) for part in value.parts), name)
    if isinstance(value, Density):
        return Joint(value, value.name if value.name != "density" else name)
    if isinstance(value, Mapping):
        return Pmf(dict(zip(value, _weights_of(list(value.values()), name))), name)
    from scipy import stats

    dist = getattr(value, "dist", None)
    if isinstance(dist, (stats.rv_continuous, stats.rv_discrete)):
        return _frozen(value, name)
    if hasattr(value, "cov_object") and hasattr(value, "mean") and hasattr(value, "cov"):
        return _gaussian(np.atleast_1d(value.mean), np.atleast_2d(value.cov), name)
    if isinstance(value, np.ndarray) or (isinstance(value, Sequence) and not isinstance(value, (str, bytes))):
        array = np.asarray(value, dtype=object)
        return Pmf(_weights_of(array.ravel().tolist(), name), name)
    if isinstance(value, (stats.rv_continuous, stats.rv_discrete)) or type(value).__module__.startswith("scipy.stats"):
        raise TypeError(f"{name} is a scipy.stats distribution without parameters; freeze it, as in stats.norm(0, 1)")
    if callable(value):
        return Joint(Density(lambda x: np.log(np.asarray(value(x), dtype=np.float64))), name)
    raise TypeError(
        f"{name} must be a list of weights, a mapping of values to weights, a frozen scipy.stats distribution, a "
        f"released distribution, a Density or a function, got {type(value).__name__}"
    )


def _frozen(law: FrozenLaw, name: str) -> Candidate:
    from scipy import stats

    if np.ndim(law.mean()) != 0:
        raise ParameterError(f"{name} has arrays as parameters; list one candidate for each of them")
    if isinstance(law.dist, stats.rv_discrete):
        return IntegerLaw(law, name)
    if not np.isfinite(law.ppf(0.5)):
        raise ParameterError(f"{name} has invalid parameters for {law.dist.name!r}")
    normal = (rational(float(law.mean())), rational(float(law.std()))) if law.dist.name == "norm" else None
    return LineLaw(law, name, normal)


def _gaussian(mean: Floats64, covariance: Floats64, name: str) -> Candidate:
    if len(mean) == 1:
        from scipy import stats

        return _frozen(stats.norm(float(mean[0]), float(np.sqrt(covariance[0, 0]))), name)
    GaussianDistribution(tuple(map(str, range(len(mean)))), tuple(mean), tuple(map(tuple, covariance)))
    return Normal(np.asarray(mean, dtype=np.float64), np.asarray(covariance, dtype=np.float64), name)


def read_candidates(given: Iterable[object]) -> tuple[Candidate, ...]:
    """Candidates from a list, or from a mapping of names to candidates."""
    if isinstance(given, Mapping):
        listed = [read_candidate(value, str(name)) for name, value in given.items()]
    elif isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"candidates must be a list or a mapping of distributions, got {type(given).__name__}")
    else:
        listed = [read_candidate(value, f"candidate {i}") for i, value in enumerate(given)]
    if not listed:
        raise ParameterError("candidates must hold at least one distribution, got none")
    if len(listed) > MAX_CANDIDATES:
        raise TooLargeError(
            f"at most {MAX_CANDIDATES} candidates are compared pairwise, got {len(listed)}; list fewer, or use "
            "CoverLearner"
        )
    return tuple(listed)
