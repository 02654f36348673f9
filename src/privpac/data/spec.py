"""What is said about a table, in one value: whose records they are, which columns rules may read, what is predicted.

Every entry that reads a table (``UserData.from_frame``, ``read``, ``scan``, ``from_spark``, ``check``, the commands,
the estimators) takes these fields as keywords, or a :class:`TableSpec`; below the entry only the spec is passed on.  It
is public, and checked before the table is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from attrs import evolve, field, frozen

from privpac.data.domains import Categories, Domain
from privpac.data.schema import OnInvalid, OnInvalidLabel
from privpac.errors import ParameterError
from privpac.guarantee import Unit, one_of

LabelValue = str | int | bool
NamedFeatures = str | Sequence[str] | Mapping[str, Domain | None]
"""Columns by name, each with its domain or (named alone) without one yet."""

MOST_CLASSES = 64
_PLAIN_YES = {"1", "1.0", "true", "yes", "y", "t"}
"""Labels that say no more than that there is one."""


class _Fixed(dict[Any, Any]):
    """A mapping as it was declared: whoever holds it cannot change what was checked."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the declaration of a table cannot be changed; make another TableSpec")

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset((name, repr(value)) for name, value in self.items()))

    def __reduce__(self) -> tuple[type[_Fixed], tuple[dict[Any, Any]]]:
        return _Fixed, (dict(self),)


def _fixed_features(features: NamedFeatures) -> _Fixed:
    return _Fixed(named_features(features))


def _fixed_or_none(mapping: object) -> Any:
    return _Fixed(mapping) if isinstance(mapping, Mapping) else mapping  # anything else is refused below


def named_features(features: NamedFeatures) -> dict[str, Domain | None]:
    """Columns with their domains, None where only the name is given."""
    if isinstance(features, str):
        return {features: None}
    if isinstance(features, Mapping):
        return dict(features)
    if not isinstance(features, Iterable):
        raise TypeError(f"features must be names or a mapping from names to domains, got {type(features).__name__}")
    listed = list(features)
    if len(set(listed)) < len(listed):
        raise ParameterError("a feature is named twice")
    return dict.fromkeys(listed)


def _classes(classes: Sequence[LabelValue] | None) -> tuple[LabelValue, ...]:
    """Labels in order; () and None name none, another empty list is refused as a list of categories."""
    return () if classes is None or (isinstance(classes, tuple) and not classes) else Categories(classes).values


def _policy(said: OnInvalid | str | None) -> OnInvalid:
    return one_of(OnInvalid, OnInvalid.RAISE if said is None else said, "on_invalid")


def _label_policy(said: OnInvalidLabel | str | None) -> OnInvalidLabel:
    return one_of(OnInvalidLabel, OnInvalidLabel.RAISE if said is None else said, "on_invalid_label")


@frozen
class TableSpec:
    """The declaration of a table; all of it is public.

    Parameters
    ----------
    user : str or None
        The column of person ids; None makes every record its own user.
    features : mapping of names to domains, or names
        The columns that rules may read.
    label : str, optional
        The column to predict: 0/1 or booleans, unless one of the next three says what its values mean.
    positive : value, optional
        The label that is predicted; every other value means the opposite.
    label_map : mapping, optional
        What each label value means: ``{"dead": 1, "alive": 0}``.
    classes : sequence, optional
        All labels, where there are more than two.
    on_invalid : {"raise", "drop", "clamp"}
        What happens to a value outside its domain.
    on_invalid_label : {"raise", "drop"}
        What happens to a record whose label is missing or none of the named ones.

    Examples
    --------
    >>> import polars as pl
    >>> from privpac.data import Integers, TableSpec, UserData
    >>> visits = TableSpec(user="who", features={"age": Integers(0, 99)}, label="ill", positive="yes")
    >>> UserData.from_frame(pl.DataFrame({"who": [1, 2], "age": [30, 40], "ill": ["no", "yes"]}), visits).label_name
    'ill'
    """

    user: str | None
    features: Mapping[str, Domain | None] = field(converter=_fixed_features)
    label: str | None = None
    on_invalid: OnInvalid = field(default=OnInvalid.RAISE, converter=_policy)
    on_invalid_label: OnInvalidLabel = field(default=OnInvalidLabel.RAISE, converter=_label_policy)
    label_map: Mapping[LabelValue, int] | None = field(default=None, converter=_fixed_or_none)
    positive: LabelValue | None = None
    classes: tuple[LabelValue, ...] = field(default=(), converter=_classes)
    shown: Mapping[str, str] = field(factory=dict, repr=False, converter=_fixed_or_none)
    """What messages call a column, where that is not its name."""
    counted: bool = field(default=False, repr=False)
    """Read for a ``check`` only: what would be refused is counted."""
    partial: bool = field(default=False, repr=False)
    """A part of a declaration, which need not name a feature."""

    def __attrs_post_init__(self) -> None:
        if not self.features and not self.partial:
            raise ParameterError("features must name at least one column, got none")
        for name, domain in self.features.items():
            if not isinstance(name, str):
                raise TypeError(f"a feature must be a column name, got {type(name).__name__}")
            if domain is not None and not isinstance(domain, Domain):
                raise TypeError(
                    f"the domain of {name!r} must be a Domain such as Integers(0, 10), got {type(domain).__name__}"
                )
        for role, value in (("user", self.user), ("label", self.label)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{role} must be a column name or None, got {type(value).__name__}")
            if value in self.features or (value is not None and self.user == self.label):
                raise ParameterError(
                    f"column {value!r} has two roles; user, features and label must be different columns"
                )
        self._check_labels()

    def _check_labels(self) -> None:
        if self.classes and self.label_map is not None:
            raise ParameterError("give either classes or label_map: each of them says what the labels mean")
        if self.classes and not 2 <= len(self.classes) <= MOST_CLASSES:
            raise ParameterError(f"classes must be 2 to {MOST_CLASSES} different labels, got {len(self.classes)}")
        if self.label_map is not None:
            if not isinstance(self.label_map, Mapping):
                raise TypeError(
                    f"label_map must be a mapping from values to 0 or 1, got {type(self.label_map).__name__}"
                )
            Categories(self.label_map)
            targets = self.label_map.values()
            if not all(isinstance(to, (int, np.integer, np.bool_)) and to in (0, 1) for to in targets):
                raise ParameterError("label_map must map every value to 0 or 1")
        if self.positive is not None:
            if self.meaning is not None:
                raise ParameterError(
                    "positive= names the value that means 1, label_map= says it of all values; give one"
                )
            if self.label is None and not self.partial:
                raise ParameterError("positive= is a value of the label column: name label= too")
            Categories([self.positive])

    @property
    def meaning(self) -> Mapping[LabelValue, int] | None:
        """The code of every label that is named, None where labels are 0/1 or one of them is positive."""
        return {name: code for code, name in enumerate(self.classes)} if self.classes else self.label_map

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels, where they were declared as classes."""
        return tuple(map(str, self.classes))

    @property
    def n_labels(self) -> int:
        return len(self.classes) or 2

    @property
    def unit(self) -> Unit:
        """Whose data are protected: users, or single records."""
        return Unit.ITEM if self.user is None else Unit.USER

    @property
    def domains(self) -> dict[str, Domain]:
        """The columns that have a domain."""
        return {name: domain for name, domain in self.features.items() if domain is not None}

    @property
    def wanted(self) -> list[str]:
        """The columns to read."""
        return [name for name in (self.user, *self.features, self.label) if name is not None]

    @property
    def predicted(self) -> str | None:
        """What a rule predicts, in words: the values that mean 1 where they say more than yes, or else the column."""
        ones = [self.positive] if self.positive is not None else [v for v, to in (self.meaning or {}).items() if to]
        words = [str(value) for value in ones]
        if words and len(self.classes) < 3 and not any(word.lower() in _PLAIN_YES for word in words):
            return " or ".join(words)
        return None if self.label is None or self.label.startswith("\0") else self.label

    @property
    def user_name(self) -> str | None:
        """The column that says whose record it is, if it has a name of its own."""
        return None if self.user is None or self.user.startswith("\0") else self.user

    def name(self, column: str) -> str:
        """The column's name in messages."""
        return self.shown.get(column, column)

    def only(self, columns: Iterable[str]) -> TableSpec:
        """The same for some of the columns, none of which need be a feature."""
        left = set(columns)
        user, label = (name if name in left else None for name in (self.user, self.label))
        features = {name: domain for name, domain in self.features.items() if name in left}
        return evolve(self, user=user, features=features, label=label, partial=True)
