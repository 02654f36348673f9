"""What a published distribution is, and the parametric ones: normal, any family of ``scipy.stats``, a named candidate.

They hold released numbers only; densities and samples are post-processing of them and cost no budget.  ``sample`` draws
from the system's generator, or from public coins for reproducible synthetic data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.concepts.base import columns_of
from privpac.errors import ParameterError, SchemaError
from privpac.guarantee import positive_int
from privpac.released import register
from privpac.rng import PublicCoins, Rng, secret_rng
from privpac.special import ndtri

__all__ = ["Distribution", "FamilyDistribution", "GaussianDistribution", "NamedCandidate", "uniforms"]

Floats64 = NDArray[np.float64]
Coins = Rng | PublicCoins | None


class Distribution(ABC):
    """A released distribution of one or several columns."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns it describes, in order."""

    @abstractmethod
    def score_samples(self, X: Any) -> Floats64:
        """The logarithm of the density (or mass) of every row; ``-inf`` where there is none."""

    @abstractmethod
    def sample(self, size: int, rng: Coins = None) -> NDArray[Any]:
        """``size`` independent rows; one-dimensional for one column."""

    def _density(self, X: Any) -> Floats64:
        return np.exp(self.score_samples(X))

    def _columns(self, X: Any) -> list[Any]:
        spaces: dict[str, Any] = dict.fromkeys(self.columns)
        return [values for _, values in columns_of(X, spaces).values()]

    def _numbers(self, X: Any) -> Floats64:
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

    def pdf(self, X: Any) -> Floats64:
        return self._density(X)

    def score_samples(self, X: Any) -> Floats64:
        scaled = np.linalg.solve(self._root, (self._numbers(X) - np.array(self.mean)).T)
        constant = -len(self.names) / 2 * math.log(2 * math.pi) - float(np.log(np.diag(self._root)).sum())
        return np.asarray(constant - (scaled**2).sum(axis=0) / 2)

    def sample(self, size: int, rng: Coins = None) -> NDArray[Any]:
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

    def to_dict(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "mean": list(self.mean),
            "covariance": [list(row) for row in self.covariance],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(tuple(values["names"]), tuple(values["mean"]), tuple(tuple(row) for row in values["covariance"]))


@register("family-distribution")
@frozen(slots=False)
class FamilyDistribution(Distribution):
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
    def columns(self) -> tuple[str, ...]:
        return (self.feature,)

    @property
    def is_discrete(self) -> bool:
        return hasattr(self._frozen, "pmf") and not hasattr(self._frozen.dist, "pdf")

    def pmf(self, X: Any) -> Floats64:
        return self._density(X)

    pdf = pmf

    def score_samples(self, X: Any) -> Floats64:
        values = self._numbers(X)[:, 0]
        return np.asarray(self._frozen.logpmf(values) if self.is_discrete else self._frozen.logpdf(values))

    def sample(self, size: int, rng: Coins = None) -> NDArray[Any]:
        return np.asarray(self._frozen.ppf(uniforms(size, rng)))

    def __str__(self) -> str:
        return f"{self.feature}: {self.family}({', '.join(f'{p:.6g}' for p in self.parameters)})"

    def to_dict(self) -> dict[str, Any]:
        return {"feature": self.feature, "family": self.family, "parameters": list(self.parameters)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(values["feature"], values["family"], tuple(values["parameters"]))


@register("named-candidate")
@dataclass(frozen=True)
class NamedCandidate:
    """The choice of a candidate that is a Python function: its place in the list and its name; the function is not
    saved."""

    index: int
    name: str

    def __str__(self) -> str:
        return f"candidate {self.index}: {self.name}"

    def to_dict(self) -> dict[str, Any]:
        return {"index": self.index, "name": self.name}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(positive_int(values["index"], "index", minimum=0), str(values["name"]))
