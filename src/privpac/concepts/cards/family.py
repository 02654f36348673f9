"""The class of points cards over the columns of a wide table: what is learned, in public numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.concepts.cards.card import MAX_TOP, Card
from privpac.concepts.cards.codes import CodeTable, Shape, code_table
from privpac.concepts.cells import Frozen, declared_of, domains_of, named_domains
from privpac.concepts.profile import Profile
from privpac.concepts.small_trees.columns import DEFAULT_CUTS, BinnedColumn, Cuts, binned, read_cuts, read_missing
from privpac.concepts.statistics import Statistic
from privpac.data import Domain, Missing, UserData
from privpac.data.missing import values_of
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import positive_int

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["PointsCard"]

MAX_STEPS = 10_000


def _columns(columns: Any) -> Frozen[Domain | None] | None:
    return None if columns is None else named_domains(columns, "columns")


def _steps(steps: Any) -> int:
    return positive_int(steps, "steps", maximum=MAX_STEPS)


def _top(top: Any) -> int:
    return positive_int(top, "top", maximum=MAX_TOP)


@frozen(slots=False)
class PointsCard(ConceptClass):
    """Points cards: whole points for each public bin of each column, yes above a threshold.

    Parameters
    ----------
    columns : mapping of names to domains, or names; None takes every feature of the data.
    cuts : at most so many cuts of every number, spread evenly over its declared values; or a number or list of values
        for each column.  ``Floats()`` needs a list.
    missing : ``"own"`` (all columns) or a list of columns whose missing values have points of their own; None leaves it
        to the domains.
    steps : steps of the descent.
    top : the most points one answer can have.

    >>> from privpac.data import Categories, Integers
    >>> card = PointsCard({"age": Integers(0, 120), "ward": Categories(["a", "b", "c"])})
    >>> card.codes.coordinates, card.vc_dimension
    (6, 18)
    """

    columns: Frozen[Domain | None] | None = field(default=None, converter=_columns)
    cuts: Cuts = field(default=DEFAULT_CUTS, converter=read_cuts)
    missing: str | tuple[str, ...] | None = field(default=None, converter=read_missing)
    steps: int = field(default=40, converter=_steps)
    top: int = field(default=20, converter=_top)

    own_method: ClassVar[str | None] = "card"
    takes_missing: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        if self.columns is not None and all(domain is not None for domain in self.columns.values()):
            _ = self.codes  # what is too wide is refused now

    # Columns

    @cached_property
    def binned(self) -> tuple[BinnedColumn, ...]:
        """The columns with their bins."""
        if self.columns is None:
            raise ParameterError(
                "this card has no columns yet: PointsCard({'age': Integers(0, 120)}), or bind it to data"
            )
        return binned(domains_of(self.columns), self.cuts, self.missing)

    @cached_property
    def codes(self) -> CodeTable:
        """The public codes of the columns."""
        return code_table([Shape(not column.is_category, column.bins, column.has_missing) for column in self.binned])

    def _own(self, name: str) -> bool:
        return self.missing == "own" or (isinstance(self.missing, tuple) and name in self.missing)

    def declared(self) -> Mapping[str | None, Domain | None]:
        return declared_of(
            {
                name: Missing(values_of(domain), "own") if domain is not None and self._own(name) else domain
                for name, domain in (self.columns or {}).items()
            }
        )

    def with_columns(self, columns: Mapping[str, Domain]) -> PointsCard:
        return evolve(self, columns=dict(columns))

    def bind(self, users: Users) -> tuple[PointsCard, Users]:
        if self.columns is None:
            return evolve(self, columns=dict.fromkeys(users.features)).bind(users)
        # Data that were bound without missing values have the same codes, only none of the last.
        told = {
            name: None if domain is not None and values_of(domain) == users.features.get(name) else domain
            for name, domain in self.columns.items()
        }
        asked = evolve(self, columns=told) if told != dict(self.columns) else self
        return ConceptClass.bind(asked, users)

    # Cards

    @property
    def size(self) -> int:
        """So many tables of points and thresholds there are; many of them predict alike."""
        answers: int = sum(column.width for column in self.binned)
        cards: int = (self.top + 1) ** answers
        return cards * (self.top * len(self.binned) + 2)

    @property
    def vc_dimension(self) -> int:
        """An upper bound: one weight for every answer but the first of a column, and a threshold."""
        return 1 + sum(column.width - 1 for column in self.binned)

    @property
    def scored(self) -> bool:
        return False

    # What cannot be done card by card

    def _refuse(self) -> NoReturn:
        raise TooLargeError("points cards are not scored one by one; use method='card'")

    def decode(self, hypothesis: int, label: str = "1") -> Card:
        self._refuse()

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        self._refuse()

    def empty_profile(self) -> Profile:
        self._refuse()

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        self._refuse()

    def dichotomies(self, codes: Mapping[str, NDArray[np.uint64]]) -> Any:
        self._refuse()
