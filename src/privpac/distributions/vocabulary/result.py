"""A mass function of the values that were shown, and how much of the people's mass they leave."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import Domain, Texts
from privpac.data.columns import column, text
from privpac.data.texts import in_one_line
from privpac.distributions.parametric import Coins, Distribution, uniforms
from privpac.errors import NoReleaseError, ParameterError
from privpac.guarantee import positive_int
from privpac.parameters import whole_list
from privpac.released import register

__all__ = ["VocabularyDistribution"]

Floats64 = NDArray[np.float64]
_SHOWN, _LETTERS = 8, 80


def _read_values(values: Any) -> tuple[str | int, ...]:
    return tuple(value if isinstance(value, str) else int(value) for value in values)


@register("vocabulary-distribution")
@frozen(slots=False)
class VocabularyDistribution(Distribution):
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
        kind = str if isinstance(self.domain, Texts) else int
        if len(self.values) != len(self.weights) or len(set(self.values)) != len(self.values):
            raise ParameterError("every value needs one weight, and no value may come twice")
        if not all(isinstance(value, kind) for value in self.values) or min(self.weights, default=1) < 1:
            raise ParameterError("values must be those of the domain, and weights positive integers")
        positive_int(self.levels, "levels")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.feature,)

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

    def pmf(self, X: Any) -> Floats64:
        """The mass of every value; 0 for one that is not shown, which is not to say that nobody holds it."""
        known = {value: float(p) for value, p in zip(self.values, self.probabilities)}
        (values,) = self._columns(X)
        if isinstance(self.domain, Texts):
            return np.array([known.get(value, 0.0) for value in text(column(values, self.feature)).to_list()])
        codes, inside = self.domain.encode(values, "drop", name=self.feature)
        return np.array([known.get(code, 0.0) if ok else 0.0 for code, ok in zip(codes.tolist(), inside.tolist())])

    def score_samples(self, X: Any) -> Floats64:
        with np.errstate(divide="ignore"):
            return np.log(self.pmf(X))

    def sample(self, size: int, rng: Coins = None) -> NDArray[Any]:
        """Values among those shown, by their weights."""
        if size and not self.values:
            raise NoReleaseError("no value was shown, so there is nothing to draw from")
        if not size:
            return np.empty(0)
        ends = np.cumsum(self.probabilities)
        places = np.minimum(np.searchsorted(ends / ends[-1], uniforms(size, rng), side="right"), len(ends) - 1)
        listed = [value if isinstance(value, str) else self.domain.value(value) for value in self.values]
        return np.array(listed)[places]

    def __str__(self) -> str:
        order = sorted(range(len(self.values)), key=lambda j: -self.weights[j])[:_SHOWN]
        shown = [f"{self.name(j)} {self.probabilities[j]:.3g}" for j in order]
        more = len(self.values) - len(order)
        shown += [f"{more} more values {1 - self.rest - sum(self.probabilities[j] for j in order):.3g}"] if more else []
        return f"{self.feature}: " + ", ".join([*shown, f"all others {self.rest:.3g}"])

    def to_dict(self) -> dict[str, Any]:
        return {
            "feature": self.feature,
            "domain": self.domain.to_dict(),
            "values": [value if isinstance(value, str) else {"code": str(value)} for value in self.values],
            "weights": [str(weight) for weight in self.weights],
            "levels": self.levels,
            "people": self.people,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        listed = [value if isinstance(value, str) else int(value["code"]) for value in values["values"]]
        return cls(
            values["feature"],
            Domain.from_dict(values["domain"]),
            listed,
            values["weights"],
            values["levels"],
            values["people"],
        )
