"""What is said about a table, in one value: whose records they are, which columns rules may read, what is predicted.

Every entry that reads a table (``UserData.from_frame``, ``read``, ``scan``, ``from_spark``, ``check``, the commands,
the estimators) takes these fields as keywords, or a :class:`TableSpec`; below the entry only the spec is passed on.  It
is public, and checked before the table is touched.

What a column may hold is written in the same words everywhere: in Python, on the command line and in a schema file.

================================  ========================================  ==========================================
in Python                         in a text (command line, schema file)     domain
================================  ========================================  ==========================================
``(0, 110)``, ``range(0, 111)``   ``"0:110"``                               ``Integers(0, 110)``
``(0, 50, 0.5)``                  ``"0:50:0.5"``                            ``Grid(0, 50, "0.5")``
``("2020-01-01", "2025-12-31")``  ``"2020-01-01:2025-12-31"``               ``Dates("2020-01-01", "2025-12-31")``
``["f", "m"]``                    ``"{f,m}"``; a list in a schema file       ``Categories(["f", "m"])``
``"{low<mid<high}"``              ``"{low<mid<high}"``                      ``Categories([...], ordered=True)``
``"number"``                      ``"number"``                              ``Floats()``
``"text"``                        ``"text"``                                ``Texts()``
``"0:110,missing=own"``           ``"0:110,missing=own"``                   ``Missing(Integers(0, 110), "own")``
any domain                                                                  itself
``None``                                                                    none yet: the schema's, or the rule's own
================================  ========================================  ==========================================

Ends are included, as everywhere; only a ``range`` leaves out its stop, as Python does.  Dates may be texts, dates,
datetimes, timestamps of pandas or ``numpy.datetime64``.  A list holds names, a tuple holds bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NoReturn, get_args

import numpy as np
from attrs import Factory, evolve, field, frozen

from privpac.data.domains import (
    Categories,
    Dates,
    Domain,
    Grid,
    Integers,
    Missing,
    MissingRule,
    as_day,
    parse_domain,
)
from privpac.data.schema import OnInvalid, OnInvalidLabel
from privpac.errors import ParameterError
from privpac.guarantee import Unit, one_of

LabelValue = str | int | bool
NamedFeatures = str | Sequence[str] | Mapping[str, Any]
"""Columns by name, each with its domain in any form of the module's table or (named alone) without one yet."""

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
    return _Fixed(read_features(features))


def _fixed_or_none(mapping: object) -> Any:
    return _Fixed(mapping) if isinstance(mapping, Mapping) else mapping  # anything else is refused below


def read_features(features: NamedFeatures) -> dict[str, Domain | None]:
    """Columns with their domains, None where only the name is given: the one reader of all forms in the module's table.

    Parameters
    ----------
    features : mapping of names to domains, or names
        What rules may read.

    Returns
    -------
    dict

    Raises
    ------
    ParameterError, TypeError
        A domain in none of the forms, or a name given twice.  The message names the column.

    Examples
    --------
    >>> read_features({"age": (0, 110), "dose": (0, 50, 0.5), "sex": ["f", "m"], "bp": "50:250"})["bp"]
    Integers(lo=50, hi=250)
    >>> read_features(["age", "dose"])
    {'age': None, 'dose': None}
    """
    if isinstance(features, str):
        return {features: None}
    if isinstance(features, Mapping):
        return {name: read_domain(value, name) for name, value in features.items()}
    if not isinstance(features, Iterable):
        raise TypeError(f"features must be names or a mapping from names to domains, got {type(features).__name__}")
    listed = list(features)
    if len(set(listed)) < len(listed):
        raise ParameterError("a feature is named twice")
    return dict.fromkeys(listed)


def read_domain(value: object, name: str) -> Domain | None:
    """The domain of one column in any form of the module's table.

    >>> read_domain(range(0, 24), "hour"), read_domain(("2020-01-01", "2025-12-31"), "when").size
    (Integers(lo=0, hi=23), 2192)
    """
    if value is None or isinstance(value, Domain):
        return value
    found = domain_of(value, name)
    if found is None:
        raise TypeError(
            f"the domain of {name!r} must be a Domain such as Integers(0, 10), bounds such as (0, 10) or (0, 1, 0.1), "
            f'a list of names such as ["no", "yes"], or text such as "0:10"; got {type(value).__name__}'
        )
    return found


def domain_of(value: object, name: str) -> Domain | None:
    """The domain that bounds, a list or a text declare; None for what is in none of the forms."""
    try:
        return _domain_of(value)
    except (ParameterError, TypeError) as error:
        raise type(error)(f"the column {str(name)[:60]!r}: {error}") from None


def _domain_of(value: object) -> Domain | None:
    if isinstance(value, str) and value.strip():
        return parse_domain(value)
    if isinstance(value, range) and value:
        lo, hi = sorted((value[0], value[-1]))
        return Integers(lo, hi) if abs(value.step) == 1 else Grid(lo, hi, abs(value.step))
    if isinstance(value, tuple):
        return _between(tuple(_end(each) for each in value))
    return next((found for kind in Domain.kinds() if (found := kind.from_schema(value)) is not None), None)


def _end(value: object) -> Any:
    """One of some bounds, as Python's own number, date or text."""
    if isinstance(value, (date, np.datetime64)):
        return as_day(value)  # a datetime is a date, a timestamp of pandas is a datetime
    return value.item() if isinstance(value, np.generic) else value


def _between(ends: tuple[Any, ...]) -> Domain:
    """``(lo, hi)`` or ``(lo, hi, step)``."""
    if len(ends) not in (2, 3):
        raise ParameterError(
            f"a tuple holds bounds, (lo, hi) or (lo, hi, step), got {len(ends)} values; names are a list, such as "
            '["f", "m"]'
        )
    if any(isinstance(end, str) for end in ends):  # as on the command line
        try:
            return parse_domain(":".join(map(str, ends)))
        except ParameterError as error:
            raise ParameterError(f'{error}; names are a list, such as ["f", "m"]') from None
    if isinstance(ends[0], date):
        if len(ends) == 3:
            raise ParameterError("dates have no step: write (first, last)")
        return Dates(*ends)
    if len(ends) == 3:
        return Grid(*ends)
    if any(isinstance(end, float) for end in ends):
        raise ParameterError(
            f"({ends[0]}, {ends[1]}) are bounds of decimals without a step: write ({ends[0]}, {ends[1]}, 0.1), whole "
            'numbers such as (0, 10), or "number" for any number'
        )
    return Integers(*ends)


def with_missing_rule(domain: Domain, missing: MissingRule | None, policy: OnInvalid) -> Domain:
    """The domain with the rule of all columns for missing values, where that says more than what happens to invalid
    values anyway."""
    known = missing == "own" or (missing == "drop" and policy is OnInvalid.RAISE)
    bare = missing is None or not known or domain.open or domain.present is not domain
    return domain if bare else Missing(domain, missing)  # type: ignore[arg-type]


def missing_policy(said: MissingRule | None) -> MissingRule | None:
    """What missing values are, in all columns that do not say so themselves."""
    if said is not None and said not in get_args(MissingRule):
        raise ParameterError(f"missing must be 'own', 'drop' or 'raise', got {said!r}")
    return said


def _classes(classes: Sequence[LabelValue] | None) -> tuple[LabelValue, ...]:
    """Labels in order; () and None name none, another empty list is refused as a list of categories."""
    return () if classes is None or (isinstance(classes, tuple) and not classes) else Categories(classes).values


def _policy(said: OnInvalid | str | None) -> OnInvalid:
    return one_of(OnInvalid, OnInvalid.RAISE if said is None else said, "on_invalid")


def _label_policy(said: OnInvalidLabel | str | None) -> OnInvalidLabel:
    return one_of(OnInvalidLabel, OnInvalidLabel.RAISE if said is None else said, "on_invalid_label")


def _ruled(spec: TableSpec) -> _Fixed:
    """The columns as they were named, with the rule of all columns for missing values."""
    return _Fixed(
        {
            name: None if domain is None else with_missing_rule(domain, spec.missing, spec.on_invalid)
            for name, domain in spec._named.items()
        }
    )


@frozen
class TableSpec:
    """The declaration of a table; all of it is public.

    Parameters
    ----------
    user : str or None
        The column of person ids; None makes every record its own user.
    features : mapping of names to domains, or names
        The columns that rules may read, with domains in any form of the table above.
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
    missing : {"own", "drop", "raise"}, optional
        What missing values are, in every column that does not say so itself: a category of their own, records to leave
        out, or what ``on_invalid`` says.

    Examples
    --------
    >>> import polars as pl
    >>> from privpac.data import Integers, TableSpec, UserData
    >>> visits = TableSpec(user="who", features={"age": Integers(0, 99)}, label="ill", positive="yes")
    >>> UserData.from_frame(pl.DataFrame({"who": [1, 2], "age": [30, 40], "ill": ["no", "yes"]}), visits).label_name
    'ill'
    """

    user: str | None
    _named: Mapping[str, Domain | None] = field(converter=_fixed_features, alias="features", repr=False)
    label: str | None = None
    on_invalid: OnInvalid = field(default=OnInvalid.RAISE, converter=_policy)
    on_invalid_label: OnInvalidLabel = field(default=OnInvalidLabel.RAISE, converter=_label_policy)
    label_map: Mapping[LabelValue, int] | None = field(default=None, converter=_fixed_or_none)
    positive: LabelValue | None = None
    classes: tuple[LabelValue, ...] = field(default=(), converter=_classes)
    missing: MissingRule | None = field(default=None, converter=missing_policy)
    shown: Mapping[str, str] = field(factory=dict, repr=False, converter=_fixed_or_none)
    """What messages call a column, where that is not its name."""
    counted: bool = field(default=False, repr=False)
    """Read for a ``check`` only: what would be refused is counted."""
    partial: bool = field(default=False, repr=False)
    """A part of a declaration, which need not name a feature."""
    features: Mapping[str, Domain | None] = field(init=False, eq=False, default=Factory(_ruled, takes_self=True))
    """The columns that rules may read, each with the rule for missing values."""

    def __attrs_post_init__(self) -> None:
        if not self.features and not self.partial:
            raise ParameterError("features must name at least one column, got none")
        for name, domain in self.features.items():
            if not isinstance(name, str):
                raise TypeError(f"a feature must be a column name, got {type(name).__name__}")
            if domain is None and self.missing in ("own", "drop"):
                raise ParameterError(
                    f"missing={self.missing!r} is about columns with a domain: declare one for {name!r}, such as "
                    "(0, 100)"
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
