"""Quantiles of several columns in one release, which share the budget equally (basic composition)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attrs import frozen

from privpac.distributions.base import BoundUsers
from privpac.distributions.quantiles.learner import QuantileLearner
from privpac.distributions.quantiles.result import Quantiles
from privpac.errors import ParameterError
from privpac.guarantee import Guarantee
from privpac.learners.base import Learner
from privpac.released import Released, register, rule_from_dict, rule_to_dict

if TYPE_CHECKING:
    from privpac.data import Domain, Users
    from privpac.rng import Rng

__all__ = ["ColumnQuantiles", "QuantileTable"]


@register("quantile-table")
@dataclass(frozen=True)
class QuantileTable:
    """Released quantiles of several columns."""

    columns: tuple[Quantiles, ...]

    def __post_init__(self) -> None:
        if not self.columns or not all(isinstance(part, Quantiles) for part in self.columns):
            raise ParameterError("a table of quantiles needs those of at least one column, and nothing else")

    def __getitem__(self, column: str) -> Quantiles:
        for part in self.columns:
            if part.feature == column:
                return part
        raise ParameterError(f"released are {', '.join(part.feature for part in self.columns)}; got {str(column)[:40]}")

    def __str__(self) -> str:
        return "\n".join(map(str, self.columns))

    def to_dict(self) -> dict[str, Any]:
        return {"columns": [rule_to_dict(part) for part in self.columns]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> QuantileTable:
        return cls(tuple(rule_from_dict(part) for part in values["columns"]))


@frozen(slots=False)
class ColumnQuantiles(Learner):
    """The learners of all columns, one after the other: their epsilons add up to the whole.

    Parameters
    ----------
    parts : tuple of QuantileLearner
        One for each column.
    """

    parts: tuple[QuantileLearner, ...]

    @staticmethod
    def of(names: Iterable[str], epsilon: Any, q: Any, **options: Any) -> ColumnQuantiles:
        """Equal parts of epsilon for every column."""
        listed = list(names)
        whole = QuantileLearner(epsilon, q, **options)
        return ColumnQuantiles(
            tuple(QuantileLearner(whole.epsilon / len(listed), q, features=name, **options) for name in listed)
        )

    @property
    def guarantee(self) -> Guarantee:
        first = self.parts[0]
        total = first.epsilon * len(self.parts)
        how = (f"quantiles of {len(self.parts)} columns, each with epsilon {first.epsilon}",)
        return Guarantee(total, unit=first.unit, neighbours=first.neighbours, derivation=how)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        for part in self.parts:
            assert part.features is not None
            part.check_domains({name: domains[name] for name in part.features})

    def bind(self, data: Users) -> tuple[BoundUsers, ...]:
        return tuple(part.bind(data) for part in self.parts)

    def draw(self, bound: tuple[BoundUsers, ...], rng: Rng) -> Released:
        found = [part.draw(one, rng) for part, one in zip(self.parts, bound)]
        shown = {"columns": len(found), **found[0].parameters}
        return Released(
            QuantileTable(tuple(one.hypothesis for one in found)), self.guarantee, shown, learner="ColumnQuantiles"
        )
