"""What is publicly known of a table, in one file that a person edits: TOML, in the words of ``--feature``.

::

    user = "patient"
    label = "status"
    positive = "dead"
    on_invalid = "clamp"
    missing = "own"

    [columns]
    age = "0:120"
    bili = "0:50:0.1"
    income = { domain = "0:10000000", typical = [10000, 200000] }   # or "0:10000000~10000:200000"
    ward = ["north, old", "south"]

A column that nobody has declared yet is written ``"?"``; a file that holds one is refused until a person has written
what everybody may know, or deleted the line.  Whatever a caller says beside a schema goes before it.
"""

from __future__ import annotations

import inspect
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar

from attrs import field, frozen

from privpac.data.domains import Categories, Domain, Floats, MissingRule, toml_kind
from privpac.data.schema import OnInvalid, OnInvalidLabel
from privpac.data.spec import (
    LabelValue,
    NamedFeatures,
    TableSpec,
    domain_of,
    missing_policy,
    read_features,
    with_missing_rule,
)
from privpac.errors import DeclarationError, ParameterError, did_you_mean
from privpac.files import write_whole
from privpac.guarantee import one_of

OPEN = "?"
"""Stands where a person has to write."""
LARGEST = 1 << 20
_MOST_COLUMNS = 10_000
_KEYS = ("user", "label", "positive", "label_map", "classes", "on_invalid", "on_invalid_label", "missing", "columns")
_EXAMPLES = '"0:120", "35:42:0.1", "2020-01-01:2029-12-31", ["no", "yes"], "number" or "text"'


class _BySchema:
    """What a schema says, if there is one."""

    def __repr__(self) -> str:
        return "<as the schema says>"


BY_SCHEMA: Any = _BySchema()
"""The default of ``user``: it must be said, here or in a schema, even if it is None."""


@frozen(slots=False)
class Schema:
    """What everybody may know about a table: who a record belongs to, what is predicted, which values columns have.

    Parameters
    ----------
    columns : mapping of names to domains
        The columns that rules may read, with domains in any form of :mod:`privpac.data.spec`; None where a person still
        has to declare the domain.
    user : str, optional
        The column of person ids; without one every record is a person of its own.
    label, positive, label_map, classes
        The column to predict and what its values mean, as in ``UserData.from_frame``.
    on_invalid : {"raise", "drop", "clamp"}, optional
        What happens to values outside their domain.
    on_invalid_label : {"raise", "drop"}, optional
        What happens to a record whose label is missing or none of the named ones.
    missing : {"own", "drop", "raise"}, optional
        What missing values are, in every column that does not say so itself.
    notes : mapping of names to texts
        Comments of the file, by column or key.

    Raises
    ------
    ParameterError
        Declarations that contradict each other; the text names the column.

    Examples
    --------
    >>> import privpac as pp
    >>> schema = pp.Schema({"age": pp.Integers(0, 120)}, user="patient", label="status", positive="dead")
    >>> print(schema.to_toml())
    user = "patient"
    label = "status"
    positive = "dead"
    <BLANKLINE>
    [columns]
    age = "0:120"
    <BLANKLINE>
    """

    columns: Mapping[str, Domain | None]
    user: str | None = None
    label: str | None = None
    positive: str | int | bool | None = None
    label_map: Mapping[Any, int] | None = None
    classes: Sequence[Any] | None = None
    on_invalid: OnInvalid | str | None = None
    missing: MissingRule | None = None
    on_invalid_label: OnInvalidLabel | str | None = None
    notes: Mapping[str, str] = field(factory=dict, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        for name in ("columns", "notes"):
            if not isinstance(getattr(self, name), Mapping):
                raise TypeError(f"{name} must be a mapping by column names, got {type(getattr(self, name)).__name__}")
        object.__setattr__(self, "columns", MappingProxyType(read_features(self.columns)))
        object.__setattr__(self, "notes", MappingProxyType(dict(self.notes)))
        if len(self.columns) > _MOST_COLUMNS:
            raise ParameterError(f"a schema declares at most {_MOST_COLUMNS} columns, got {len(self.columns)}")
        if self.on_invalid is not None:
            object.__setattr__(self, "on_invalid", one_of(OnInvalid, self.on_invalid, "on_invalid"))
        if self.on_invalid_label is not None:
            policy = one_of(OnInvalidLabel, self.on_invalid_label, "on_invalid_label")
            object.__setattr__(self, "on_invalid_label", policy)
        missing_policy(self.missing)
        if self.classes is not None:
            object.__setattr__(self, "classes", Categories(self.classes).values)
        meanings = (self.positive, self.label_map, self.classes)
        if self.label is None and any(meaning is not None for meaning in meanings):
            raise ParameterError(
                "positive, label_map and classes say what labels mean: name the label's column as well"
            )
        known = {name: domain or Floats() for name, domain in self.columns.items()} or {"\0none": Floats()}
        user, label = (None if name == OPEN else name for name in (self.user, self.label))
        TableSpec(user, known, label, **(self._meaning() if label else {"classes": self.classes}))
        if self.label_map is not None:  # labels are compared as texts
            pairs = {str(_plain(name)): int(to) for name, to in self.label_map.items()}
            object.__setattr__(self, "label_map", MappingProxyType(pairs))

    def _meaning(self) -> dict[str, Any]:
        """What labels mean, in fields of a ``TableSpec``."""
        return {"positive": self.positive, "label_map": self.label_map, "classes": tuple(self.classes or ())}

    # Reading

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """The schema in a file; an error says what is wrong, what is allowed and what to do."""
        return read_schema(path)

    @property
    def open(self) -> tuple[str, ...]:
        """What a person still has to declare."""
        keys = [key for key in ("user", "label", "positive") if getattr(self, key) == OPEN]
        return (*keys, *(name for name, domain in self.columns.items() if domain is None))

    @property
    def features(self) -> dict[str, Domain]:
        """The columns with their domains, the rule for missing values included; refused while one is open."""
        return self.domains()

    def domains(
        self, on_invalid: OnInvalid | str | None = None, missing: MissingRule | None = None
    ) -> dict[str, Domain]:
        """The same for other rules for invalid and missing values than the schema's own."""
        self.check()
        policy = one_of(OnInvalid, on_invalid or self.on_invalid or OnInvalid.RAISE, "on_invalid")
        rule = missing_policy(missing) or self.missing
        return {name: with_missing_rule(one, rule, policy) for name, one in self.columns.items() if one is not None}

    def check(self, where: str = "the schema") -> None:
        """Refuse what is not finished."""
        if not self.open:
            return
        more = f" (and {len(self.open) - 1} more)" if len(self.open) > 1 else ""
        column = self.open[0] in self.columns
        said = f"the column {self.open[0]!r} has no domain yet" if column else f"{self.open[0]} is not said yet"
        do = f"what everybody may know, such as {_EXAMPLES}," if column else "it"
        raise ParameterError(f"{where}: {said}{more}; write {do} in place of {OPEN!r}, or delete the line")

    # Writing

    def to_toml(self) -> str:
        """The text of the file, with its comments."""
        lines = [f"# {_said(line)}".rstrip() for line in self.notes.get("", "").splitlines()]
        lines += [""] if lines else []
        for key in _KEYS[:-1]:
            value = getattr(self, key)
            if value is not None and key != "label_map":
                lines += self._line(key, str(value) if key.startswith("on_invalid") else value, key)
            elif value is None and key in self.notes:
                lines.append(f"# {_said(self.notes[key])}")
        if self.label_map is not None:
            pairs = ", ".join(f"{_key(name)} = {to}" for name, to in self.label_map.items())
            lines.append(f"label_map = {{ {pairs} }}")
        lines += ["", "[columns]"]
        for name, domain in self.columns.items():
            lines += self._line(_key(name), OPEN if domain is None else domain.to_schema(), f"columns.{name}")
        return "\n".join(lines).lstrip("\n") + "\n"

    def _line(self, key: str, value: object, note: str) -> list[str]:
        text = f"{key} = {_toml(value)}"
        said = _said(self.notes.get(note, ""))
        if not said:
            return [text]
        return [f"{text:<30}  # {said}"] if len(text) + len(said) < 110 else [f"# {said}", text]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        try:
            write_whole(Path(path), self.to_toml().encode())
        except OSError as error:
            raise ParameterError(f"cannot write {str(path)!r}: {error.strerror}; choose a writable place") from None


def _said(note: str) -> str:
    """A comment in one line, without what TOML does not allow in one."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in note).split())


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _toml(value: object) -> str:
    """A text, whole number, truth or list of them.

    TOML's basic strings have the escapes of JSON, but know no surrogates and no bare delete character.
    """
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(part)}" for key, part in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool) or not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else format(value, "d")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ParameterError(
            "a name holds half a letter (a lone surrogate), which no file in UTF-8 can hold; rename it"
        )
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    bare = name.isascii() and bool(name) and all(letter.isalnum() or letter in "-_" for letter in name)
    return name if bare else _toml(name)


# Reading a file


def read_schema(source: str | os.PathLike[str] | Schema) -> Schema:
    """The schema in a file, or the schema itself; every error names the file."""
    if isinstance(source, Schema):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"schema must be a Schema or the path of a file, got {type(source).__name__}")
    where = f"the schema {os.fspath(source)!r}"
    try:
        with open(source, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ParameterError(
            f"{where} cannot be read: {error.strerror}; make one with: privpac domains TABLE"
        ) from None
    if len(data) > LARGEST:
        raise ParameterError(f"{where} is larger than {LARGEST >> 20} MiB; a schema is a short text")
    try:
        return parse_schema(data.decode())
    except UnicodeDecodeError:
        raise ParameterError(f"{where} is not UTF-8 text; save it as such") from None
    except (ParameterError, TypeError) as error:
        raise ParameterError(f"{where}: {error}") from None


def parse_schema(text: str) -> Schema:
    """The schema that a text says."""
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ParameterError("it is nested too deeply; a schema has one table of columns") from None
    except ValueError as error:  # also whole numbers of thousands of digits
        raise ParameterError(f"it is not TOML ({error}); each name may stand once, values are in quotes") from None
    strange = next((key for key in found if key not in _KEYS), None)
    if strange is not None:
        near = did_you_mean(strange, _KEYS)
        raise ParameterError(f"{strange[:60]!r} means nothing here; allowed: {', '.join(_KEYS)}{near}")
    columns = found.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise ParameterError('there is no table of columns: write [columns], then lines such as age = "0:120"')
    for key in ("user", "label", "on_invalid", "on_invalid_label", "missing"):
        if not isinstance(found.get(key, ""), str):
            raise ParameterError(f"{key} must be text in quotes, got {toml_kind(found[key])}")
    if not isinstance(found.get("positive", ""), (str, int)):
        raise ParameterError(f"positive must be one label value, got {toml_kind(found['positive'])}")
    for key, kind, such in (("classes", list, '["a", "b", "c"]'), ("label_map", dict, "{ yes = 1, no = 0 }")):
        if not isinstance(found.get(key, kind()), kind):
            raise ParameterError(f"{key} is written {such}, got {toml_kind(found[key])}")
    told = {key: value for key, value in found.items() if key != "columns"}
    return Schema(columns={name: _domain(name, value) for name, value in columns.items()}, **told)


def _domain(name: str, value: object) -> Domain | None:
    if value == OPEN:
        return None
    try:
        found = domain_of(value, name)
    except TypeError as error:  # a file is no program: what it says wrongly is a bad parameter
        raise ParameterError(str(error)) from None
    if found is None:
        seen = "an empty text" if isinstance(value, str) else toml_kind(value)
        raise ParameterError(f"the column {name[:60]!r} must have a domain such as {_EXAMPLES}, got {seen}")
    return found


# The one place where keywords and a schema become a spec


class TableFields(TypedDict, total=False):
    """The keywords of every function that reads a table; see :class:`privpac.data.TableSpec`."""

    user: str | None
    features: NamedFeatures | None
    label: str | None
    on_invalid: OnInvalid | str | None
    on_invalid_label: OnInvalidLabel | str | None
    label_map: Mapping[Any, int] | None
    positive: LabelValue | None
    classes: Sequence[Any] | None
    missing: MissingRule | None
    schema: Schema | str | os.PathLike[str] | None


def table_spec(spec: TableSpec | None, fields: TableFields) -> TableSpec:
    """The declaration of a table: a spec as it is, or one made of its fields and the schema that they name."""
    if spec is None:
        said = dict(fields)
        return declared_with(said.pop("schema", None), **said)  # type: ignore[arg-type]
    if not isinstance(spec, TableSpec):
        raise TypeError(f"a table is declared by a TableSpec or by keywords, got {type(spec).__name__}")
    if fields:
        raise DeclarationError(f"the spec says everything about the table: leave out {', '.join(fields)}")
    return spec


_F = TypeVar("_F", bound=Callable[..., object])


def shows(fields: type[Any]) -> Callable[[_F], _F]:
    """List the keywords of a typed dictionary in ``help`` and notebooks, as checkers of types read them off
    ``**table: Unpack[...]``.

    Keywords of another kind (``**options: Any``) stay.
    """
    first = {"user": BY_SCHEMA}

    def show(function: _F) -> _F:
        shown = inspect.signature(function)
        own = [one for one in shown.parameters.values() if "Unpack" not in str(one.annotation)]
        listed = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=first.get(name), annotation=kind)
            for name, kind in fields.__annotations__.items()
        ]
        by_place = [one for one in own if one.kind < one.KEYWORD_ONLY]
        rest = [one for one in own if one.kind >= one.KEYWORD_ONLY]
        function.__signature__ = shown.replace(parameters=[*by_place, *listed, *rest])  # type: ignore[attr-defined]
        return function

    return show


shows_fields = shows(TableFields)


def declared_with(
    schema: Schema | str | os.PathLike[str] | None,
    *,
    user: str | None = BY_SCHEMA,
    features: NamedFeatures | None = None,
    label: str | None = None,
    on_invalid: OnInvalid | str | None = None,
    label_map: Mapping[Any, int] | None = None,
    positive: LabelValue | None = None,
    classes: Sequence[Any] | None = None,
    on_invalid_label: OnInvalidLabel | str | None = None,
    missing: MissingRule | None = None,
    own_columns: bool = False,
) -> TableSpec:
    """One spec of what a caller and a schema say; the caller goes first, with ``own_columns`` alone on columns."""
    meaning: dict[str, Any] = {"positive": positive, "label_map": label_map}
    meaning["classes"] = () if classes is None else Categories(classes).values
    unnamed = classes is None and label_map is None and positive is None
    known: dict[str, Domain] | None = None
    if schema is not None:
        found = read_schema(schema)
        found.check("the schema" if isinstance(schema, Schema) else f"the schema {os.fspath(schema)!r}")
        user = found.user if user is BY_SCHEMA else user
        if unnamed and label in (None, found.label):
            meaning = found._meaning()
        label = found.label if label is None else label
        on_invalid = on_invalid or found.on_invalid
        on_invalid_label = on_invalid_label or found.on_invalid_label
        known = None if own_columns else found.domains(on_invalid, missing)
    for name, value, nothing in (("user", user, BY_SCHEMA), ("features", features, None)):
        if value is nothing and schema is None:
            raise DeclarationError(f"{name}= is missing: say it here, or name a schema= that does")
    if known is not None and features is None:
        features = {name: domain for name, domain in known.items() if name not in (user, label)}
    elif known is not None and isinstance(features, (str, Mapping, Sequence)):
        named = read_features(features)
        strange = [name for name, domain in named.items() if domain is None and name not in known]
        if strange:
            raise ParameterError(
                f"the schema has no column {strange[0]!r}; it has {', '.join(map(repr, known))}"
                f"{did_you_mean(strange[0], known)}"
            )
        features = {name: known[name] if domain is None else domain for name, domain in named.items()}
    rules: dict[str, Any] = {"on_invalid": on_invalid, "on_invalid_label": on_invalid_label, "missing": missing}
    return TableSpec(user, features, label, **rules, **meaning)  # type: ignore[arg-type]
