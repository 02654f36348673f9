"""Distributions as they are published: frozen, printable, saved as JSON, and ready to sample from.

Mass functions, histograms and products live here, the parametric ones in :mod:`privpac.distributions.parametric`; all
of them are found, and registered for reading saved results, by importing this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import Domain
from privpac.distributions.cells import read_edges
from privpac.distributions.parametric import (
    Coins,
    Distribution,
    FamilyDistribution,
    GaussianDistribution,
    NamedCandidate,
    uniforms,
)
from privpac.distributions.vocabulary.result import VocabularyDistribution
from privpac.errors import ParameterError
from privpac.released import register, rule_from_dict, rule_to_dict

__all__ = [
    "DiscreteDistribution",
    "Distribution",
    "FamilyDistribution",
    "GaussianDistribution",
    "HistogramDistribution",
    "NamedCandidate",
    "ProductDistribution",
    "VocabularyDistribution",
]

Floats64 = NDArray[np.float64]
_SHOWN = 8


def _shares(weights: tuple[int, ...]) -> Floats64:
    total = sum(weights)
    return np.array([w / total for w in weights])


def _pick(weights: tuple[int, ...], u: Floats64) -> NDArray[np.int64]:
    ends = np.cumsum(_shares(weights))
    return np.minimum(np.searchsorted(ends / ends[-1], u, side="right"), len(weights) - 1)


def _read_weights(weights: Any) -> tuple[int, ...]:
    counts = tuple(int(w) for w in weights)
    if not counts or min(counts) < 0 or sum(counts) == 0:
        raise ParameterError("weights must be non-negative integers, one of them positive")
    return counts


def _read_edges(edges: Any) -> tuple[Fraction, ...]:
    return read_edges(edges, 2, "edges")


def _as_tuple(parts: Iterable[Distribution]) -> tuple[Distribution, ...]:
    return tuple(parts)


class WeightedDistribution(Distribution):
    """A distribution of one column by integer weights of its values or bins."""

    feature: str
    weights: tuple[int, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.feature,)

    @cached_property
    def probabilities(self) -> Floats64:
        """The mass of every code or bin, in order."""
        return _shares(self.weights)


@register("discrete-distribution")
@frozen(slots=False)
class DiscreteDistribution(WeightedDistribution):
    """A mass function on the values of a declared domain; ``weights`` are integers, one for each code.

    >>> from privpac.data import Categories
    >>> print(DiscreteDistribution("city", Categories(["a", "b"]), (3, 1)))
    city: a 0.75, b 0.25
    """

    feature: str
    domain: Domain
    weights: tuple[int, ...] = field(converter=_read_weights)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.domain, Domain) or len(self.weights) != self.domain.size:
            raise ParameterError(f"one weight is needed for every value of the domain, got {len(self.weights)}")

    def pmf(self, X: Any) -> Floats64:
        """The mass of every value; 0 outside the domain."""
        codes, inside = self.domain.encode(self._columns(X)[0], "drop", name=self.feature)
        out = np.zeros(len(codes))
        out[inside] = self.probabilities[codes[inside].astype(np.int64)]
        return out

    def score_samples(self, X: Any) -> Floats64:
        with np.errstate(divide="ignore"):
            return np.log(self.pmf(X))

    def sample(self, size: int, rng: Coins = None) -> NDArray[Any]:
        codes, places = np.unique(_pick(self.weights, uniforms(size, rng)), return_inverse=True)
        return np.array([self.domain.value(int(code)) for code in codes])[places] if size else np.empty(0)

    def __str__(self) -> str:
        order = np.argsort(-self.probabilities, kind="stable")[:_SHOWN].tolist()
        rest = len(self.weights) - len(order)
        shown = ", ".join(f"{self.domain.text(j)} {self.probabilities[j]:.3g}" for j in order)
        return f"{self.feature}: {shown}" + (f" and {rest} more values" if rest else "")

    def to_dict(self) -> dict[str, Any]:
        return {"feature": self.feature, "domain": self.domain.to_dict(), "weights": [str(w) for w in self.weights]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(values["feature"], Domain.from_dict(values["domain"]), tuple(int(w) for w in values["weights"]))


@register("histogram-distribution")
@frozen(slots=False)
class HistogramDistribution(WeightedDistribution):
    """A piecewise constant density on ``[e_0, e_1), ..., [e_(B-1), e_B]``, with integer weights."""

    feature: str
    edges: tuple[Fraction, ...] = field(converter=_read_edges)
    weights: tuple[int, ...] = field(converter=_read_weights)

    def __attrs_post_init__(self) -> None:
        if len(self.weights) != len(self.edges) - 1:
            raise ParameterError(
                f"{len(self.edges)} edges make {len(self.edges) - 1} bins, got {len(self.weights)} weights"
            )

    @cached_property
    def _ends(self) -> Floats64:
        return np.array([float(edge) for edge in self.edges])

    def pdf(self, X: Any) -> Floats64:
        """The density at every value; 0 outside the edges."""
        values = self._numbers(X)[:, 0]
        bins = np.searchsorted(self._ends, values, side="right") - 1
        bins[values == self._ends[-1]] = len(self.weights) - 1
        inside = (bins >= 0) & (bins < len(self.weights))
        heights = np.append(self.probabilities / np.diff(self._ends), 0.0)
        return heights[np.where(inside, bins, len(self.weights))]

    def score_samples(self, X: Any) -> Floats64:
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(X))

    def sample(self, size: int, rng: Coins = None) -> NDArray[Any]:
        u = uniforms(2 * size, rng)
        bins = _pick(self.weights, u[:size])
        return np.asarray(self._ends[bins] + u[size:] * np.diff(self._ends)[bins])

    def __str__(self) -> str:
        order = np.argsort(-self.probabilities, kind="stable")[:_SHOWN].tolist()
        rest = len(self.weights) - len(order)
        shown = ", ".join(
            f"[{float(self.edges[j]):g}, {float(self.edges[j + 1]):g}) {self.probabilities[j]:.3g}" for j in order
        )
        return f"{self.feature}: {shown}" + (f" and {rest} more bins" if rest else "")

    def to_dict(self) -> dict[str, Any]:
        return {"feature": self.feature, "edges": list(self.edges), "weights": [str(w) for w in self.weights]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(values["feature"], tuple(values["edges"]), tuple(int(w) for w in values["weights"]))


@register("product-distribution")
@frozen(slots=False)
class ProductDistribution(Distribution):
    """Independent columns."""

    parts: tuple[Distribution, ...] = field(converter=_as_tuple)

    def __attrs_post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Distribution) for part in self.parts):
            raise ParameterError("a product needs at least one distribution, and nothing else")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.columns)

    def pmf(self, X: Any) -> Floats64:
        return self._density(X)

    pdf = pmf

    def score_samples(self, X: Any) -> Floats64:
        given = dict(zip(self.columns, self._columns(X)))
        return np.asarray(sum(part.score_samples({name: given[name] for name in part.columns}) for part in self.parts))

    def sample(self, size: int, rng: Coins = None) -> NDArray[Any]:
        drawn = [np.asarray(part.sample(size, rng)) for part in self.parts]
        if all(column.dtype.kind in "iuf" for column in drawn):
            return np.column_stack(drawn)
        return np.column_stack([column.astype(object).reshape(size, -1) for column in drawn])

    def __str__(self) -> str:
        return "\n".join(str(part) for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        return {"parts": [rule_to_dict(part) for part in self.parts]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(tuple(rule_from_dict(part) for part in values["parts"]))
