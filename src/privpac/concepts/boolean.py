"""Conjunctions and disjunctions of yes/no columns: "1 iff a and not b", "1 iff a or not b".

A column has two values; its second one (code 1) is "yes".  Each column is absent, required or negated
(``negations=False``: absent or required), so contradictions do not arise, and no two of these rules predict alike.  The
constant that this leaves out, "never" for conjunctions and "always" for disjunctions, is there once, as id 0: ``3**d +
1`` or ``2**d + 1`` rules.  A disjunction is the complement of the conjunction of the opposite literals, so both run on
the kernel of ``products``; a user's own minimum is over the whole class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import Rule
from privpac.concepts.cells import Frozen, columns_from_list, columns_to_list, declared_of, domains_of, named_domains
from privpac.concepts.dense import limited
from privpac.concepts.products import ProductClass, box_dimension
from privpac.concepts.rules import ByAgreement
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.released import register

__all__ = ["Conjunction", "Conjunctions", "Disjunction", "Disjunctions", "literal", "yes_no_columns"]

_PLAIN = {("0", "1"), ("false", "true"), ("no", "yes"), ("n", "y")}


def literal(name: str, domain: Domain, value: int) -> str:
    """``a`` / ``not a`` where the two values read as no and yes, else ``a = value``."""
    if (domain.text(0).lower(), domain.text(1).lower()) in _PLAIN:
        return name if value else f"not {name}"
    return f"{name} = {domain.text(value)}"


def yes_no_columns(features: Any) -> Frozen[Domain | None]:
    """Columns whose declared domains have two values."""
    columns = named_domains(features, "features")
    for name, domain in columns.items():
        if domain is not None and domain.size != 2:
            raise ParameterError(
                f"features[{name!r}] must have two values, such as Integers(0, 1) or Categories(['no', 'yes']); it has "
                f"{domain.size}"
            )
    return columns


@dataclass(frozen=True, repr=False)
class _Literals(Rule):
    """Required codes per column (None: absent); ``constant`` is the rule that no literals give."""

    columns: Frozen[Domain]
    values: tuple[int | None, ...] | None
    label: str = "1"

    def __post_init__(self) -> None:
        if self.values is None:
            return
        if len(self.values) != len(self.columns) or any(value not in (None, 0, 1) for value in self.values):
            raise ParameterError("a rule on yes/no columns needs 0, 1 or None for each of them")
        if any(domain.size != 2 for domain in self.columns.values()):
            raise ParameterError("a rule on yes/no columns needs domains of two values")

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.columns

    def _literals(self) -> list[tuple[str, int]]:
        return [(name, value) for name, value in zip(self.columns, self.values or ()) if value is not None]

    @property
    def reads(self) -> Sequence[str]:
        return tuple(name for name, _ in self._literals()) or tuple(self.columns)[:1]

    def _texts(self) -> list[str]:
        return [literal(name, self.columns[name], value) for name, value in self._literals()]

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": columns_to_list(self.columns),
            "values": None if self.values is None else list(self.values),
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        listed = values["values"]
        return cls(columns_from_list(values["columns"]), None if listed is None else tuple(listed), values["label"])


@register("conjunction")
@dataclass(frozen=True, repr=False)
class Conjunction(_Literals):
    """1 iff every listed column has its value; ``values=None`` says 1 never."""

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        out = np.full(len(codes[self.reads[0]]), self.values is not None)
        for name, value in self._literals():
            out &= codes[name] == value
        return out.astype(np.int8)

    def condition(self) -> str:
        return "never" if self.values is None else " and ".join(self._texts()) or "always"


@register("disjunction")
@dataclass(frozen=True, repr=False)
class Disjunction(_Literals):
    """1 iff some listed column has its value; ``values=None`` says 1 always."""

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        out = np.full(len(codes[self.reads[0]]), self.values is None)
        for name, value in self._literals():
            out |= codes[name] == value
        return out.astype(np.int8)

    def condition(self) -> str:
        return "always" if self.values is None else " or ".join(self._texts()) or "never"


@dataclass(frozen=True)
class _YesNoClass(ProductClass):
    inherits: ClassVar[bool] = True

    features: Mapping[str, Domain | None] | Sequence[str] | None = None
    negations: bool = True

    def __post_init__(self) -> None:
        columns = yes_no_columns(self.features)
        object.__setattr__(self, "features", columns)
        if not isinstance(self.negations, bool):
            raise TypeError(f"negations must be True or False, got {type(self.negations).__name__}")
        what = f"{type(self).__name__} of {len(columns)} columns"
        limited(
            (3 if self.negations else 2) ** len(columns) + 1,
            what,
            "name fewer columns" + ", or negations=False" * self.negations,
        )

    @property
    def _values(self) -> tuple[int | None, ...]:
        """What a digit asks of its column."""
        return (None, 1, 0) if self.negations else (None, 1)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        assert isinstance(self.features, Frozen)
        if not self.features:
            domains_of({})
        return tuple(self.features)

    @property
    def _counts(self) -> tuple[int, ...]:
        return (2,) * len(self._names)

    @cached_property
    def _selectors(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        # Outside rules fail where every literal does, hence the opposite value.
        wanted = [None if value is None else value ^ self.outside for value in self._values]
        runs = tuple((0, 1) if value is None else (value, value) for value in wanted)
        return (runs,) * len(self._names)

    def _cell(self, name: str, codes: NDArray[np.uint64]) -> NDArray[np.int64]:
        return codes.astype(np.int64)

    @property
    def vc_dimension(self) -> int:
        """Exact: the number of columns, or 2 for one column with negation (all four rules of a bit)."""
        return box_dimension(self._counts) if self.negations else len(self._names)

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    def declared(self) -> Mapping[str | None, Domain | None]:
        return declared_of(self.features)

    def with_columns(self, columns: Mapping[str, Domain]) -> Self:
        return type(self)(columns, self.negations)

    def _picked(self, hypothesis: int) -> tuple[Frozen[Domain], tuple[int | None, ...] | None]:
        assert isinstance(self.features, Frozen)
        digits = self.digits(hypothesis)
        columns = Frozen(tuple(domains_of(self.features).items()))
        return columns, None if digits is None else tuple(self._values[digit] for digit in digits)


@dataclass(frozen=True)
class Conjunctions(_YesNoClass):
    """All conjunctions of literals of yes/no columns, and "never" (id 0).

    After id 0 the first column varies slowest; each is absent, required, negated.

    >>> from privpac.data import Integers
    >>> rules = Conjunctions({"smoker": Integers(0, 1), "over_60": Integers(0, 1)})
    >>> rules.size, str(rules.decode(1 + 3 + 2, label="event"))
    (10, 'event when smoker and not over_60')
    """

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement("conjunction")

    def decode(self, hypothesis: int, label: str = "1") -> Conjunction:
        return Conjunction(*self._picked(hypothesis), label)


@dataclass(frozen=True)
class Disjunctions(_YesNoClass):
    """All disjunctions of literals of yes/no columns, and "always" (id 0); ids as in :class:`Conjunctions`.

    >>> from privpac.data import Integers
    >>> str(Disjunctions({"smoker": Integers(0, 1), "over_60": Integers(0, 1)}).decode(6))
    '1 when smoker or not over_60'
    """

    outside: ClassVar[bool] = True

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement("disjunction")

    def decode(self, hypothesis: int, label: str = "1") -> Disjunction:
        return Disjunction(*self._picked(hypothesis), label)
