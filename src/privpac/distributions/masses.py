"""Masses of values or bins, column by column: what histograms share, whatever a person adds to them.

Columns share the budget equally (basic composition); one column is released by ``_weights``, the only place where data
are touched.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from privpac.data import Domain
from privpac.distributions.base import BoundUsers, DistributionLearner
from privpac.distributions.cells import MAX_CELLS, CodeCells, LineCells, Partition, is_numeric, read_edges
from privpac.distributions.results import DiscreteDistribution, Distribution, HistogramDistribution, ProductDistribution
from privpac.errors import ParameterError, TooLargeError
from privpac.parameters import named, privacy
from privpac.released import Released

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.rng import Rng

__all__ = ["ColumnMasses", "published"]


def _read_bins(bins: Any) -> Any:
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
        """The released weights of one column."""

    @abstractmethod
    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Public parameters, for columns of so many cells."""

    # Columns

    def edges_of(self, name: str, only: bool) -> tuple[Fraction, ...] | None:
        """The declared edges of a column."""
        if isinstance(self.bins, Mapping):
            found = self.bins.get(name)
            return None if found is None else tuple(found)
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
                f"column {name!r} has {domain.size} possible values, more than {MAX_CELLS}; give bins=[...]"
            )
        return CodeCells(name, domain.size)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        for name, domain in domains.items():
            self.cells_of(name, domain, len(domains) == 1)

    # Release

    def bind(self, data: Users) -> BoundUsers:
        return BoundUsers(*self.bind_users(data))

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        epsilon = self.epsilon / len(bound.features)
        parts: list[Distribution] = []
        for name, domain in bound.features.items():
            only = len(bound.features) == 1
            weights = self._weights(bound.users, self.cells_of(name, domain, only), epsilon, rng)
            edges = self.edges_of(name, only)
            parts.append(
                DiscreteDistribution(name, domain, weights)
                if edges is None
                else HistogramDistribution(name, edges, weights)
            )
        shown = self._public(
            {name: self.cells_of(name, d, len(bound.features) == 1).size for name, d in bound.features.items()}
        )
        found = parts[0] if len(parts) == 1 else ProductDistribution(tuple(parts))
        return Released(found, self.guarantee, shown, learner=self.named)


def published(weights: list[int]) -> tuple[int, ...]:
    """Weights as they are released; uniform if none is left."""
    return tuple(weights) if any(weights) else (1,) * len(weights)
