"""Distributions as they are published: frozen, printable, saved as JSON, and ready to sample from.

They hold released numbers only; densities and samples are post-processing of them and cost no budget.  ``sample``
draws from the system's generator, or from public coins for reproducible synthetic data.  Importing this module
registers all of them for reading saved results.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from attrs import field, frozen

from privpac.arrays import Array, Floats64, Ints
from privpac.data import Domain
from privpac.data.columns import column, text
from privpac.data.domains import in_one_line
from privpac.distributions.cells import read_edges
from privpac.errors import NoReleaseError, ParameterError, SchemaError
from privpac.exact import Rational
from privpac.guarantee import positive_int
from privpac.parameters import whole_list
from privpac.result import Saved, WideInt, register
from privpac.rng import PublicCoins, Rng, secret_rng
from privpac.rules.base import columns_of
from privpac.special import ndtri

Coins = Rng | PublicCoins | None
Parsed = Mapping[str, Any]
"""An object of a saved file, as read."""


class Distribution(Saved, ABC):
    """A released distribution of one or several columns."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns it describes, in order."""

    @abstractmethod
    def score_samples(self, X: object) -> Floats64:
        """The logarithm of the density (or mass) of every row; ``-inf`` where there is none."""

    @abstractmethod
    def sample(self, size: int, rng: Coins = None) -> Array:
        """``size`` independent rows; one-dimensional for one column."""

    def _density(self, X: object) -> Floats64:
        return np.exp(self.score_samples(X))

    def _columns(self, X: object) -> list[Any]:
        spaces: dict[str, Any] = dict.fromkeys(self.columns)
        return [values for _, values in columns_of(X, spaces).values()]

    def _numbers(self, X: object) -> Floats64:
        """Rows of numbers; anything that is not one is refused, as prediction does."""
        try:
            rows = np.column_stack([np.asarray(values, dtype=np.float64) for values in self._columns(X)])
        except (TypeError, ValueError):
            raise SchemaError(f"columns {list(self.columns)} must hold numbers") from None
        if not np.isfinite(rows).all():
            raise SchemaError(
                f"columns {list(self.columns)} hold missing or infinite values; every row needs a number"
            ) from None
        return rows


class ColumnDistribution(Distribution):
    """A released distribution of one column."""

    feature: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.feature,)


def uniforms(size: int, rng: Coins) -> Floats64:
    """Numbers strictly between 0 and 1, of 53 bits."""
    source = rng if isinstance(rng, PublicCoins) else secret_rng(rng)
    words = source.words(positive_int(size, "size", minimum=0, maximum=1 << 32))
    return (np.right_shift(words, np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _texts(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _rows(matrix: Iterable[Iterable[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(_floats(row) for row in matrix)


@register("gaussian-distribution")
@frozen(slots=False)
class GaussianDistribution(Distribution):
    """A normal distribution of one or several columns.

    >>> print(GaussianDistribution(("x",), (1.5,), ((4.0,),)))
    x: normal, mean 1.5, standard deviation 2
    """

    names: tuple[str, ...] = field(converter=_texts)
    mean: tuple[float, ...] = field(converter=_floats)
    covariance: tuple[tuple[float, ...], ...] = field(converter=_rows)

    def __attrs_post_init__(self) -> None:
        d = len(self.names)
        matrix = np.array(self.covariance)
        if (
            d == 0
            or len(self.mean) != d
            or matrix.shape != (d, d)
            or not np.isfinite([*self.mean, *matrix.ravel()]).all()
        ):
            raise ParameterError(f"{d} columns need {d} finite means and a finite {d} x {d} covariance")
        if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0) or np.linalg.eigvalsh(matrix)[0] <= 0:
            raise ParameterError("a covariance must be symmetric and positive definite")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @cached_property
    def _root(self) -> Floats64:
        return np.asarray(np.linalg.cholesky(np.array(self.covariance)))

    def pdf(self, X: object) -> Floats64:
        return self._density(X)

    def score_samples(self, X: object) -> Floats64:
        scaled = np.linalg.solve(self._root, (self._numbers(X) - np.array(self.mean)).T)
        constant = -len(self.names) / 2 * math.log(2 * math.pi) - float(np.log(np.diag(self._root)).sum())
        return np.asarray(constant - (scaled**2).sum(axis=0) / 2)

    def sample(self, size: int, rng: Coins = None) -> Array:
        normal = ndtri(uniforms(size * len(self.names), rng)).reshape(size, len(self.names))
        rows = np.asarray(normal @ self._root.T + np.array(self.mean))
        return rows[:, 0] if len(self.names) == 1 else rows

    def __str__(self) -> str:
        deviations = [math.sqrt(row[i]) for i, row in enumerate(self.covariance)]
        lines = [
            f"{n}: normal, mean {m:.6g}, standard deviation {s:.6g}"
            for n, m, s in zip(self.names, self.mean, deviations)
        ]
        return "\n".join(lines)


@register("family-distribution")
@frozen(slots=False)
class FamilyDistribution(ColumnDistribution):
    """A distribution of ``scipy.stats`` by its name, with its parameters."""

    feature: str
    family: str
    parameters: tuple[float, ...] = field(converter=_floats)

    def __attrs_post_init__(self) -> None:
        self._frozen  # noqa: B018  # an unknown family is refused here

    @cached_property
    def _frozen(self) -> Any:
        from scipy import stats

        found = getattr(stats, self.family, None) if self.family.isidentifier() else None
        if not isinstance(found, (stats.rv_continuous, stats.rv_discrete)):
            raise ParameterError(f"scipy.stats has no distribution named {self.family[:40]!r}")
        return found(*self.parameters)

    @property
    def is_discrete(self) -> bool:
        return hasattr(self._frozen, "pmf") and not hasattr(self._frozen.dist, "pdf")

    def pmf(self, X: object) -> Floats64:
        return self._density(X)

    pdf = pmf

    def score_samples(self, X: object) -> Floats64:
        values = self._numbers(X)[:, 0]
        return np.asarray(self._frozen.logpmf(values) if self.is_discrete else self._frozen.logpdf(values))

    def sample(self, size: int, rng: Coins = None) -> Array:
        return np.asarray(self._frozen.ppf(uniforms(size, rng)))

    def __str__(self) -> str:
        return f"{self.feature}: {self.family}({', '.join(f'{p:.6g}' for p in self.parameters)})"


@register("named-candidate")
@frozen(slots=False)
class NamedCandidate(Saved):
    """The choice of a candidate that is a Python function: its place in the list and its name; the function is not
    saved."""

    index: int
    name: str

    def __str__(self) -> str:
        return f"candidate {self.index}: {self.name}"


# Integer weights of values, of bins, or of the values that were shown.


_SHOWN, _LETTERS = 8, 80


def _read_values(values: Iterable[str | int]) -> tuple[str | int, ...]:
    return tuple(value if isinstance(value, str) else int(value) for value in values)


def _read_weights(weights: Iterable[int | str]) -> tuple[int, ...]:
    counts = tuple(int(w) for w in weights)
    if not counts or min(counts) < 0 or sum(counts) == 0:
        raise ParameterError("weights must be non-negative integers, one of them positive")
    return counts


def _read_edges(edges: Iterable[Rational]) -> tuple[Fraction, ...]:
    return read_edges(edges, 2, "edges")


class WeightedDistribution(ColumnDistribution):
    """A distribution of one column by integer weights of its values or bins."""

    weights: tuple[int, ...]
    noun: ClassVar[str] = "values"

    @cached_property
    def probabilities(self) -> Floats64:
        """The mass of every code or bin, in order."""
        total = sum(self.weights)
        return np.array([weight / total for weight in self.weights])

    @abstractmethod
    def name(self, place: int) -> str:
        """What has the weight at this place."""

    def _pick(self, u: Floats64) -> Ints:
        """The places at which uniform numbers fall."""
        ends = np.cumsum(self.probabilities)
        return np.minimum(np.searchsorted(ends / ends[-1], u, side="right"), len(ends) - 1)

    @abstractmethod
    def _mass(self, X: object) -> Floats64:
        """The mass or density of every row."""

    def score_samples(self, X: object) -> Floats64:
        with np.errstate(divide="ignore"):
            return np.log(self._mass(X))

    def __str__(self) -> str:
        order = [int(j) for j in np.argsort(-self.probabilities, kind="stable")[:_SHOWN]]
        more = len(self.weights) - len(order)
        shown = ", ".join(f"{self.name(j)} {self.probabilities[j]:.3g}" for j in order)
        return f"{self.feature}: {shown}" + (f" and {more} more {self.noun}" if more else "")


@register("vocabulary-distribution")
@frozen(slots=False)
class VocabularyDistribution(WeightedDistribution):
    """Values that enough people hold, with noisy weights in steps of ``1/levels`` of a person, of ``people`` (noisy) in
    all.

    ``values`` are texts, or codes of the domain.  What is not shown has mass ``rest`` together.

    >>> from privpac.data import Texts
    >>> print(VocabularyDistribution("word", Texts(), ("tea", "mate"), (60, 30), 1, 100))
    word: tea 0.6, mate 0.3, all others 0.1
    """

    feature: str
    domain: Domain
    values: tuple[str | int, ...] = field(converter=_read_values)
    weights: tuple[int, ...] = field(converter=whole_list)
    levels: int
    people: int

    def __attrs_post_init__(self) -> None:
        kind = str if self.domain.open else int
        if len(self.values) != len(self.weights) or len(set(self.values)) != len(self.values):
            raise ParameterError("every value needs one weight, and no value may come twice")
        if not all(isinstance(value, kind) for value in self.values) or min(self.weights, default=1) < 1:
            raise ParameterError("values must be those of the domain, and weights positive integers")
        positive_int(self.levels, "levels")

    @property
    def shares(self) -> Floats64:
        """The noisy weight of every value over the noisy number of people: what certificates speak of."""
        return np.array([min(1.0, weight / (max(1, self.people) * self.levels)) for weight in self.weights])

    @cached_property
    def probabilities(self) -> Floats64:
        """The mass of every value shown, in the order of ``values``: the shares, scaled down where noise made them
        more than 1."""
        return np.array([weight / self._total for weight in self.weights])

    @property
    def _total(self) -> int:
        return max(1, self.people * self.levels, sum(self.weights))

    @property
    def rest(self) -> float:
        """The mass of everything that is not shown."""
        return (self._total - sum(self.weights)) / self._total

    def name(self, place: int) -> str:
        """One of the values, in one line of not too many letters."""
        value = self.values[place]
        if not isinstance(value, str):
            return self.domain.text(value)
        cut = value if len(value) <= _LETTERS else f"{value[:_LETTERS]}…"
        return in_one_line(cut)

    def pmf(self, X: object) -> Floats64:
        """The mass of every value; 0 for one that is not shown, which is not to say that nobody holds it."""
        known = {value: float(p) for value, p in zip(self.values, self.probabilities)}
        (values,) = self._columns(X)
        if self.domain.open:
            return np.array([known.get(value, 0.0) for value in text(column(values, self.feature)).to_list()])
        codes, inside = self.domain.encode(values, "drop", name=self.feature)
        return np.array([known.get(code, 0.0) if ok else 0.0 for code, ok in zip(codes.tolist(), inside.tolist())])

    _mass = pmf

    def sample(self, size: int, rng: Coins = None) -> Array:
        """Values among those shown, by their weights."""
        if size and not self.values:
            raise NoReleaseError("no value was shown, so there is nothing to draw from")
        if not size:
            return np.empty(0)
        places = self._pick(uniforms(size, rng))
        listed = [value if isinstance(value, str) else self.domain.value(value) for value in self.values]
        return np.array(listed)[places]

    def __str__(self) -> str:
        order = sorted(range(len(self.values)), key=lambda j: -self.weights[j])[:_SHOWN]
        shown = [f"{self.name(j)} {self.probabilities[j]:.3g}" for j in order]
        more = len(self.values) - len(order)
        shown += [f"{more} more values {1 - self.rest - sum(self.probabilities[j] for j in order):.3g}"] if more else []
        return f"{self.feature}: " + ", ".join([*shown, f"all others {self.rest:.3g}"])

    def to_dict(self) -> dict[str, object]:
        return {
            "feature": self.feature,
            "domain": self.domain.to_dict(),
            "values": [value if isinstance(value, str) else {"code": str(value)} for value in self.values],
            "weights": [str(weight) for weight in self.weights],
            "levels": self.levels,
            "people": self.people,
        }

    @classmethod
    def from_dict(cls, values: Parsed) -> Self:
        listed = [value if isinstance(value, str) else int(value["code"]) for value in values["values"]]
        return cls(
            values["feature"],
            Domain.from_dict(values["domain"]),
            listed,
            values["weights"],
            values["levels"],
            values["people"],
        )


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
    weights: tuple[WideInt, ...] = field(converter=_read_weights)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.domain, Domain) or len(self.weights) != self.domain.size:
            raise ParameterError(f"one weight is needed for every value of the domain, got {len(self.weights)}")

    def pmf(self, X: object) -> Floats64:
        """The mass of every value; 0 outside the domain."""
        codes, inside = self.domain.encode(self._columns(X)[0], "drop", name=self.feature)
        out = np.zeros(len(codes))
        out[inside] = self.probabilities[codes[inside].astype(np.int64)]
        return out

    _mass = pmf

    def sample(self, size: int, rng: Coins = None) -> Array:
        codes, places = np.unique(self._pick(uniforms(size, rng)), return_inverse=True)
        return np.array([self.domain.value(int(code)) for code in codes])[places] if size else np.empty(0)

    def name(self, place: int) -> str:
        return self.domain.text(place)


@register("histogram-distribution")
@frozen(slots=False)
class HistogramDistribution(WeightedDistribution):
    """A piecewise constant density on ``[e_0, e_1), ..., [e_(B-1), e_B]``, with integer weights."""

    feature: str
    edges: tuple[Fraction, ...] = field(converter=_read_edges)
    weights: tuple[WideInt, ...] = field(converter=_read_weights)

    noun: ClassVar[str] = "bins"

    def __attrs_post_init__(self) -> None:
        if len(self.weights) != len(self.edges) - 1:
            raise ParameterError(
                f"{len(self.edges)} edges make {len(self.edges) - 1} bins, got {len(self.weights)} weights"
            )

    @cached_property
    def _ends(self) -> Floats64:
        return np.array([float(edge) for edge in self.edges])

    def pdf(self, X: object) -> Floats64:
        """The density at every value; 0 outside the edges."""
        values = self._numbers(X)[:, 0]
        bins = np.searchsorted(self._ends, values, side="right") - 1
        bins[values == self._ends[-1]] = len(self.weights) - 1
        inside = (bins >= 0) & (bins < len(self.weights))
        heights = np.append(self.probabilities / np.diff(self._ends), 0.0)
        return heights[np.where(inside, bins, len(self.weights))]

    _mass = pdf

    def sample(self, size: int, rng: Coins = None) -> Array:
        u = uniforms(2 * size, rng)
        bins = self._pick(u[:size])
        return np.asarray(self._ends[bins] + u[size:] * np.diff(self._ends)[bins])

    def name(self, place: int) -> str:
        return f"[{float(self.edges[place]):g}, {float(self.edges[place + 1]):g})"


def _as_tuple(parts: Iterable[Distribution]) -> tuple[Distribution, ...]:
    return tuple(parts)


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

    def pmf(self, X: object) -> Floats64:
        return self._density(X)

    pdf = pmf

    def score_samples(self, X: object) -> Floats64:
        values = dict(zip(self.columns, self._columns(X)))
        return np.asarray(sum(part.score_samples({name: values[name] for name in part.columns}) for part in self.parts))

    def sample(self, size: int, rng: Coins = None) -> Array:
        drawn = [np.asarray(part.sample(size, rng)) for part in self.parts]
        if all(column.dtype.kind in "iuf" for column in drawn):
            return np.column_stack(drawn)
        return np.column_stack([column.astype(object).reshape(size, -1) for column in drawn])

    def __str__(self) -> str:
        return "\n".join(str(part) for part in self.parts)
