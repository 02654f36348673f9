"""The class of points cards over the columns of a wide table: what is learned, in public numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.concepts.cards.card import MAX_TOP, Card
from privpac.concepts.cards.codes import CodeShape, CodeTable, code_table
from privpac.concepts.cells import Frozen, domains_or_none
from privpac.concepts.small_trees.columns import DEFAULT_CUTS, Cuts, read_cuts, read_missing
from privpac.concepts.small_trees.wide_class import WideClass, read_classes
from privpac.data import Domain
from privpac.parameters import bounds, named, whole

__all__ = ["PointsCard"]

MAX_STEPS = 10_000


@frozen(slots=False, field_transformer=named)
class PointsCard(WideClass):
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
    classes : the labels, where there are more than two: one card against the rest for each.

    >>> from privpac.data import Categories, Integers
    >>> card = PointsCard({"age": Integers(0, 120), "ward": Categories(["a", "b", "c"])})
    >>> card.codes.coordinates, card.vc_dimension
    (6, 18)
    """

    columns: Frozen[Domain | None] | None = field(default=None, converter=domains_or_none)
    cuts: Cuts = field(default=DEFAULT_CUTS, converter=read_cuts)
    missing: str | tuple[str, ...] | None = field(default=None, converter=read_missing)
    steps: int = field(default=40, converter=whole, metadata=bounds(maximum=MAX_STEPS))
    top: int = field(default=20, converter=whole, metadata=bounds(maximum=MAX_TOP))
    classes: tuple[str, ...] | None = field(default=None, converter=read_classes)

    own_method: ClassVar[str | None] = "card"

    def __attrs_post_init__(self) -> None:
        if self.columns is not None and all(domain is not None for domain in self.columns.values()):
            _ = self.codes  # what is too wide is refused now

    @cached_property
    def codes(self) -> CodeTable:
        """The public codes of the columns."""
        return code_table(
            [CodeShape(not column.is_category, column.bins, column.has_missing) for column in self.binned]
        )

    # Cards

    @property
    def size(self) -> int:
        """So many tables of points and thresholds there are; many of them predict alike."""
        answers: int = sum(column.width for column in self.binned)
        cards: int = (self.top + 1) ** answers * (self.top * len(self.binned) + 2)
        return cards if self.labels == 2 else cards**self.labels

    @property
    def vc_dimension(self) -> int:
        """An upper bound: one weight for every answer but the first of a column, and a threshold; with more labels that
        of each card against the rest, together."""
        one: int = 1 + sum(column.width - 1 for column in self.binned)
        return one if self.labels == 2 else one * self.labels

    def decode(self, hypothesis: int, label: str = "1") -> Card:
        self._refuse()

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        self._refuse()

    def dichotomies(self, codes: Mapping[str, NDArray[np.uint64]]) -> Any:
        self._refuse()
