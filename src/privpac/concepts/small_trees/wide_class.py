"""What small trees and points cards share: columns in public bins, bound to data, and rules that are not scored one by
one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from attrs import evolve

from privpac.concepts.base import ConceptClass
from privpac.concepts.cells import Frozen, declared_of, domains_of
from privpac.concepts.profile import Profile
from privpac.concepts.small_trees.columns import BinnedColumn, Cuts, binned
from privpac.concepts.statistics import Statistic
from privpac.data import Domain, Missing, UserData
from privpac.data.missing import values_of
from privpac.errors import ParameterError, TooLargeError

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["WideClass", "read_classes"]

_MOST_LABELS = 64


def read_classes(classes: Any) -> tuple[str, ...] | None:
    """The labels, where there are more than two; None leaves them to the data."""
    if classes is None:
        return None
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must list the labels, got {type(classes).__name__}")
    names = tuple(str(name) for name in classes)
    if not 2 <= len(names) <= _MOST_LABELS or len(set(names)) < len(names):
        raise ParameterError(f"classes must be 2 to {_MOST_LABELS} different labels, got {len(names)}")
    return names


class WideClass(ConceptClass):
    """A class over binned columns; its subclasses are frozen ``attrs`` classes that declare the four fields below."""

    columns: Frozen[Domain | None] | None
    cuts: Cuts
    missing: str | tuple[str, ...] | None
    classes: tuple[str, ...] | None

    takes_missing: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True

    @property
    def scored(self) -> bool:
        """Its rules are never laid out one by one."""
        return False

    # Columns

    @cached_property
    def binned(self) -> tuple[BinnedColumn, ...]:
        """The columns with their bins."""
        if self.columns is None:
            raise ParameterError(
                f"this class has no columns yet: {type(self).__name__}({{'age': Integers(0, 120)}}), or bind it to data"
            )
        return binned(domains_of(self.columns), self.cuts, self.missing)

    def _own(self, name: str) -> bool:
        return self.missing == "own" or (isinstance(self.missing, tuple) and name in self.missing)

    def declared(self) -> Mapping[str | None, Domain | None]:
        return declared_of(
            {
                name: Missing(values_of(domain), "own") if domain is not None and self._own(name) else domain
                for name, domain in (self.columns or {}).items()
            }
        )

    def with_columns(self, columns: Mapping[str, Domain]) -> Self:
        return evolve(self, columns=dict(columns))  # type: ignore[misc]

    def bind(self, users: Users) -> tuple[Self, Users]:
        if self.columns is None:
            return self.with_columns(dict.fromkeys(users.features)).bind(users)  # type: ignore[arg-type]
        # Data that were bound without missing values have the same codes, only none of the last.
        told = {
            name: None if domain is not None and values_of(domain) == users.features.get(name) else domain
            for name, domain in self.columns.items()
        }
        asked = self.with_columns(told) if told != dict(self.columns) else self  # type: ignore[arg-type]
        return super(WideClass, asked._labelled(users)).bind(users)

    @property
    def labels(self) -> int:
        return 2 if self.classes is None else len(self.classes)

    def _labelled(self, users: Users) -> Self:
        """The class with the labels that the data declare."""
        declared = tuple(getattr(users, "classes", ()))
        if len(declared) <= 2 and self.labels == 2:
            return self
        if self.classes not in (None, declared):
            raise ParameterError(
                "classes are declared twice, in the data and in the rules, and differ; declare them in the data alone"
                if declared
                else "declare the classes in the data too: UserData.from_frame(..., classes=[...])"
            )
        return evolve(self, classes=declared)  # type: ignore[misc]

    # What cannot be done rule by rule

    def _refuse(self) -> NoReturn:
        raise TooLargeError(f"rules of {type(self).__name__} are not scored one by one; use method={self.own_method!r}")

    def empty_profile(self) -> Profile:
        self._refuse()

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        self._refuse()
