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
    ward = ["north, old", "south"]

A column that nobody has declared yet is written ``"?"``; a file that holds one is refused until a person has written
what everybody may know, or deleted the line.  Whatever a caller says beside a schema goes before it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from privpac.data.build import Declared, declare, declared_labels
from privpac.data.declare import categories_text, domain_text, parse_domain
from privpac.data.domains import Categories, Domain, Floats, Grid, Missing, MissingRule, Texts
from privpac.data.schema import OnInvalid, OnInvalidLabel
from privpac.errors import ParameterError
from privpac.files import write_whole
from privpac.guarantee import one_of

__all__ = ["BY_SCHEMA", "OPEN", "Schema", "chosen_features", "declared_with", "domain_value", "read_schema"]

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


@dataclass(frozen=True)
class Schema:
    """What everybody may know about a table: who a record belongs to, what is predicted, which values columns have.

    Parameters
    ----------
    columns : mapping of names to domains
        The columns that rules may read; None where a person still has to declare the domain.
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
    notes: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("columns", "notes"):
            if not isinstance(getattr(self, name), Mapping):
                raise TypeError(f"{name} must be a mapping by column names, got {type(getattr(self, name)).__name__}")
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if len(self.columns) > _MOST_COLUMNS:
            raise ParameterError(f"a schema declares at most {_MOST_COLUMNS} columns, got {len(self.columns)}")
        if self.on_invalid is not None:
            object.__setattr__(self, "on_invalid", one_of(OnInvalid, self.on_invalid, "on_invalid"))
        if self.on_invalid_label is not None:
            policy = one_of(OnInvalidLabel, self.on_invalid_label, "on_invalid_label")
            object.__setattr__(self, "on_invalid_label", policy)
        if self.missing is not None and self.missing not in get_args(MissingRule):
            raise ParameterError(f"missing must be 'own', 'drop' or 'raise', got {self.missing!r}")
        classes = None if self.classes is None else tuple(declared_labels(self.classes, None) or ())
        object.__setattr__(self, "classes", classes)
        meanings = (self.positive, self.label_map, self.classes)
        if self.label is None and any(meaning is not None for meaning in meanings):
            raise ParameterError(
                "positive, label_map and classes say what labels mean: name the label's column as well"
            )
        known = {name: domain or Floats() for name, domain in self.columns.items()} or {"\0none": Floats()}
        user, label = (None if name == OPEN else name for name in (self.user, self.label))
        meaning = None if label is None else declared_labels(self.classes, self.label_map)
        positive = None if label is None else self.positive
        declare(user, known, label, self.on_invalid or OnInvalid.RAISE, meaning, positive=positive)
        if self.label_map is not None:  # labels are compared as texts
            pairs = {str(_plain(name)): int(to) for name, to in self.label_map.items()}
            object.__setattr__(self, "label_map", MappingProxyType(pairs))

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

    def domains(self, on_invalid: OnInvalid | str | None = None) -> dict[str, Domain]:
        """The same for another rule for invalid values than the schema's own."""
        self.check()
        policy = one_of(OnInvalid, on_invalid or self.on_invalid or OnInvalid.RAISE, "on_invalid")
        return {name: self._with_missing(domain, policy) for name, domain in self.columns.items() if domain is not None}

    def check(self, where: str = "the schema") -> None:
        """Refuse what is not finished."""
        if not self.open:
            return
        more = f" (and {len(self.open) - 1} more)" if len(self.open) > 1 else ""
        column = self.open[0] in self.columns
        said = f"the column {self.open[0]!r} has no domain yet" if column else f"{self.open[0]} is not said yet"
        do = f"what everybody may know, such as {_EXAMPLES}," if column else "it"
        raise ParameterError(f"{where}: {said}{more}; write {do} in place of {OPEN!r}, or delete the line")

    def _with_missing(self, domain: Domain, policy: OnInvalid) -> Domain:
        """The domain with the rule of all columns, where that says more than what happens to invalid values anyway."""
        known = self.missing == "own" or (self.missing == "drop" and policy is OnInvalid.RAISE)
        bare = not known or isinstance(domain, (Missing, Texts))
        return domain if bare else Missing(domain, self.missing)  # type: ignore[arg-type]

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
            lines += self._line(_key(name), OPEN if domain is None else domain_value(domain), f"columns.{name}")
        return "\n".join(lines).lstrip("\n") + "\n"

    def _line(self, key: str, value: Any, note: str) -> list[str]:
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


def domain_value(domain: Domain) -> str | list[Any] | dict[str, Any]:
    """A domain as a schema file says it: a text, a list of categories, or a table of ordered ones."""
    if isinstance(domain, Categories):
        text, texts = categories_text(domain), all(isinstance(name, str) for name in domain.values)
        if texts and text.startswith("{"):
            return text
        return {"values": list(domain.values), "ordered": True} if domain.ordered else list(domain.values)
    if isinstance(domain, Missing):
        inner = domain_value(domain.inner)
        # Names that need a list are written as one inside the text, ordered or not.
        text = inner if isinstance(inner, str) else _list_text(domain.inner)
        return f"{text},missing={domain.rule}"
    if isinstance(domain, Grid):
        ends = domain.to_dict()
        return f"{ends['lo']}:{ends['hi']}:{ends['step']}"
    return domain_text(domain).removeprefix("=") or "number"


def _list_text(domain: Domain) -> str:
    assert isinstance(domain, Categories)
    return json.dumps(list(domain.values), ensure_ascii=False) + ",ordered=true" * domain.ordered


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _toml(value: Any) -> str:
    """A text, whole number, truth or list of them.

    TOML's basic strings have the escapes of JSON, but know no surrogates and no bare delete character.
    """
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(part)}" for key, part in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool) or not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(int(value))
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
        raise ParameterError(f"{strange[:60]!r} means nothing here; allowed: {', '.join(_KEYS)}")
    columns = found.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise ParameterError('there is no table of columns: write [columns], then lines such as age = "0:120"')
    for key in ("user", "label", "on_invalid", "on_invalid_label", "missing"):
        if not isinstance(found.get(key, ""), str):
            raise ParameterError(f"{key} must be text in quotes, got {_kind(found[key])}")
    if not isinstance(found.get("positive", ""), (str, int)):
        raise ParameterError(f"positive must be one label value, got {_kind(found['positive'])}")
    for key, kind, such in (("classes", list, '["a", "b", "c"]'), ("label_map", dict, "{ yes = 1, no = 0 }")):
        if not isinstance(found.get(key, kind()), kind):
            raise ParameterError(f"{key} is written {such}, got {_kind(found[key])}")
    told = {key: value for key, value in found.items() if key != "columns"}
    return Schema(columns={name: _domain(name, value) for name, value in columns.items()}, **told)


def _domain(name: str, value: Any) -> Domain | None:
    if value == OPEN:
        return None
    try:
        if isinstance(value, list):
            return Categories(value)
        if isinstance(value, dict) and "values" in value and set(value) <= {"values", "ordered"}:
            if not isinstance(value["values"], list):
                raise ParameterError(f"values is a list of categories, got {_kind(value['values'])}")
            return Categories(value["values"], ordered=value.get("ordered", False))
        if isinstance(value, str) and value.strip():
            return parse_domain(value)
    except (ParameterError, TypeError) as error:
        raise ParameterError(f"the column {name[:60]!r}: {error}") from None
    seen = "an empty text" if isinstance(value, str) else _kind(value)
    raise ParameterError(f"the column {name[:60]!r} must have a domain such as {_EXAMPLES}, got {seen}")


def _kind(value: Any) -> str:
    words = {bool: "true or false", int: "a number", float: "a number", dict: "a table", list: "a list", str: "a text"}
    return words.get(type(value), "a date or time")


# A schema and what is said beside it


def declared_with(
    schema: Schema | str | os.PathLike[str] | None,
    *,
    user: Any,
    features: Any,
    label: str | None,
    on_invalid: OnInvalid | str | None,
    label_map: Mapping[Any, int] | None,
    positive: str | int | bool | None,
    classes: Sequence[Any] | None,
    on_invalid_label: OnInvalidLabel | str | None = None,
    own_columns: bool = False,
) -> Declared:
    """One declaration of what a caller and a schema say; the caller goes first, with ``own_columns`` alone on
    columns."""
    said = declared_labels(classes, label_map)
    if schema is None:
        for name, value, nothing in (("user", user, BY_SCHEMA), ("features", features, None)):
            if value is nothing:
                raise TypeError(f"{name}= is missing: say it here, or name a schema= that does")
        rule = on_invalid or OnInvalid.RAISE
        return declare(user, features, label, rule, said, positive=positive, on_invalid_label=on_invalid_label)
    found = read_schema(schema)
    found.check("the schema" if isinstance(schema, Schema) else f"the schema {os.fspath(schema)!r}")
    user = found.user if user is BY_SCHEMA else user
    if label in (None, found.label) and said is None and positive is None:
        said, positive = declared_labels(found.classes, found.label_map), found.positive
    label = found.label if label is None else label
    policy = on_invalid or found.on_invalid or OnInvalid.RAISE
    named = features if own_columns else chosen_features(found.domains(policy), features, {user, label})
    labels = on_invalid_label or found.on_invalid_label
    return declare(user, named, label, policy, said, positive=positive, on_invalid_label=labels)


def chosen_features(known: Mapping[str, Domain], features: Any, taken: set[str | None]) -> Any:
    """The columns of a schema: all without another role, or those named; a domain given beside a name goes first."""
    if features is None:
        return {name: domain for name, domain in known.items() if name not in taken}
    listed = [features] if isinstance(features, str) else features
    if not isinstance(listed, Mapping) and not isinstance(listed, Sequence):
        return features  # refused with the others
    given = dict(listed) if isinstance(listed, Mapping) else dict.fromkeys(listed)
    strange = [name for name, domain in given.items() if domain is None and name not in known]
    if strange:
        raise ParameterError(f"the schema has no column {strange[0]!r}; it has {', '.join(map(repr, known))}")
    if len(given) < len(listed):
        raise ParameterError("a feature is named twice")
    return {name: known[name] if domain is None else domain for name, domain in given.items()}
