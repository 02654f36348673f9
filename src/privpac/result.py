"""What a result is.

``Released`` carries the rule, its guarantee, the public parameters, the outcome and the warnings, and nothing else
that depends on the data.  Three outcomes are possible and all of them are outputs covered by the guarantee:
``"released"``; ``"default"``, a public default stands in for "no answer"; ``"none"``, no answer and no default, when
the value is the ``NoRelease`` singleton.

Files are versioned JSON, never pickle: rationals are text ``"p/q"``, and a rule names its *kind*, which is looked up
only among classes that registered themselves here.  A file can therefore choose a class but never name code.
"""

from __future__ import annotations

import json
import math
import os
import re
import warnings as python_warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NoReturn, Self, TypeVar, get_args, get_origin, get_type_hints

from attrs import field, fields, frozen, has

from privpac.display import Picture, Shown, front
from privpac.errors import InfeasibleError, ModelFileError, NoReleaseError, ParameterError, WeakGuaranteeWarning
from privpac.exact import Rational
from privpac.files import write_durably
from privpac.guarantee import Guarantee, Neighbours

# Parts of a result's file that are read before anything is made of them.
#
# A file may hold anything.  What is read here is refused if it is not what a result would have written: a field twice,
# numbers that are none, rationals too long to expand, names that are no text.


_NAME, _NAMES = ("family", "feature", "label", "name"), ("features", "names")


def well_named(values: object, name: str = "") -> bool:
    """Whether all that is called a name is text (or not there).

    >>> well_named({"feature": "x", "columns": [{"name": 3}]})
    False
    """
    if name in _NAME:
        return values is None or isinstance(values, str)
    if isinstance(values, Mapping):
        return name not in _NAMES and all(well_named(item, key) for key, item in values.items())
    if isinstance(values, (list, tuple)):
        return all(well_named(item, "name" if name in _NAMES else "") for item in values)
    return name not in _NAMES


def read_guarantee(values: object) -> Guarantee | None:
    if values is None:
        return None
    numbers = {"epsilon", "delta", "rho"}
    if not isinstance(values, dict) or not values.keys() <= numbers | {"unit", "neighbours", "model", "derivation"}:
        raise ModelFileError("the guarantee has unknown fields")
    for name in numbers & values.keys():
        # Digits only: an exponent such as 1e999999999 would be expanded in memory.
        if not isinstance(values[name], str) or not re.fullmatch(r"[0-9]{1,2000}(/[0-9]{1,2000})?", values[name]):
            raise ModelFileError(f"the guarantee's {name} must be a rational as text")
    steps = values.get("derivation", [])
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise ModelFileError("the guarantee's derivation must be a list of texts")
    return Guarantee.from_dict(values)


def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ModelFileError("the file names a field twice")
    return out


def no_constant(name: str) -> NoReturn:
    raise ModelFileError(f"the file holds {name}, which is not a number")


Outcome = Literal["released", "default", "none"]

INSECURE = "INSECURE RANDOMNESS: no guarantee"
BUDGET_LEFT = "budget left"
"""The parameter that says what a ledger has left after the release."""
_FORMAT, _VERSION = "privpac.result", 2
"""The newest version; a file carries the least that can hold it, which a value says by ``file_version``, else 1."""
_FIELDS = {"format", "version", "learner", "outcome", "value", "guarantee", "parameters", "warnings", "insecure"}
_MAX_FILE = 1 << 26
_MAX_DEPTH = 32
_MAX_BITS = 13_000  # below the interpreter's limit of 4300 digits for turning integers into text
_RATIONAL = re.compile(r"-?[0-9]+/[0-9]+")


class _NoRelease:
    """The mechanism answered "no answer" and no public default was declared."""

    _only: _NoRelease | None = None

    def __new__(cls) -> _NoRelease:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NoRelease"

    def __str__(self) -> str:
        return "nothing was released"

    def __reduce__(self) -> str:
        return "NoRelease"


NoRelease = _NoRelease()


# Kinds of rules


_C = TypeVar("_C", bound=type[Any])
_kinds: dict[str, type[Any]] = {}


def register(kind: str) -> Callable[[_C], _C]:
    """Class decorator: rules with ``to_dict()`` and a classmethod ``from_dict(values)`` are saved under the name
    ``kind``."""
    if not isinstance(kind, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,59}", kind):
        raise ParameterError(f"a kind is 1 to 60 lower-case letters, digits and hyphens, got {kind!r}")

    def remember(cls: _C) -> _C:
        known = _kinds.get(kind)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ParameterError(f"kind {kind!r} is taken by {known.__qualname__}; choose another name")
        if not callable(getattr(cls, "to_dict", None)) or not callable(getattr(cls, "from_dict", None)):
            raise TypeError(f"{cls.__qualname__} needs to_dict() and a classmethod from_dict(values) to be registered")
        _kinds[kind] = cls
        return cls

    return remember


def rule_to_dict(rule: Any) -> Any:
    """A rule of a registered class as ``{"kind": ..., ...}``; a plain value as it is.  For rules made of rules, too."""
    for kind, cls in _kinds.items():
        if type(rule) is cls:
            values = rule.to_dict()
            if "kind" in values:
                raise ParameterError(f"to_dict of kind {kind!r} must not use the name 'kind' itself")
            return {"kind": kind} | values
    if isinstance(rule, Mapping) or hasattr(rule, "predict"):
        raise TypeError(
            f"{type(rule).__name__} is not a registered kind of rule, so it cannot be saved; see released.register"
        )
    return rule


def rule_from_dict(values: object) -> Any:
    """The inverse of :func:`rule_to_dict`; kinds come from the registry only."""
    if not isinstance(values, Mapping):
        return values
    kind = values.get("kind")
    cls = _kinds.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ModelFileError(
            f"unknown kind of rule {str(kind)[:60]!r}; import the module that defines it, or update privpac"
        )
    if not well_named(values):
        raise ModelFileError(f"the rule of kind {kind!r} is damaged (a name is not text)")
    try:
        rule = cls.from_dict({name: value for name, value in values.items() if name != "kind"})
        str(rule)  # what cannot be shown was not read
    except (Warning, ModelFileError):
        raise
    except Exception as error:  # whatever a hostile file provokes in a reader is one thing: an unreadable file
        raise ModelFileError(f"the rule of kind {kind!r} is damaged ({type(error).__name__})") from None
    if type(rule) is not cls:
        raise ModelFileError(f"the rule of kind {kind!r} is damaged (read as {type(rule).__name__})")
    return rule


# Values by their fields: what a file holds follows from the types that a class declares, through one converter


WideInt = Annotated[int, "as text"]
"""A whole number that may exceed 2**53: files hold it as text, since other readers of JSON would round it."""

_stores: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
_TAKEN: dict[Any, Any] = {bool: bool, int: int, float: (int, float), str: str, Fraction: (int, Fraction)}


class Saved:
    """A value that files hold: its fields by name, each as its type says.

    Numbers and texts are held as they are, tuples as lists, values with ``to_dict`` and ``from_dict`` by these, and
    values of registered kinds with their kind.  A class writes these two itself only where its file is not its fields.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Its fields as plain data."""
        return _write_fields(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        made: Self = _read_fields(values, cls)
        return made


def stores(kind: object, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
    """Say how files hold fields of a type that has no ``to_dict``."""
    _stores[kind] = (write, read)
    _converter.cache_clear()


@cache
def _types(kind: Any) -> list[tuple[str, str, Any]]:
    """Of every field its name, its word in the constructor and its type."""
    types = get_type_hints(kind, include_extras=True)
    return [(each.name, each.alias, types[each.name]) for each in fields(kind)]


def _write_fields(value: Any) -> dict[str, Any]:
    write, kind = _converter().unstructure, value.__class__
    return {name: write(getattr(value, name), its) for name, _, its in _types(kind)}


def _read_fields(values: Mapping[str, Any], kind: Any) -> Any:
    read = _converter().structure
    return kind(**{word: read(values[name], its) for name, word, its in _types(kind)})


def _read_plain(value: Any, kind: Any) -> Any:
    if not isinstance(value, _TAKEN[kind]) or isinstance(value, bool) is not (kind is bool):
        raise TypeError(f"{kind.__name__} expected, got {type(value).__name__}")
    return kind(value)


def _read_saved(values: Any, kind: Any) -> Any:
    found = rule_from_dict(values)
    if not isinstance(found, kind):
        raise TypeError(f"{kind.__name__} expected, got {type(found).__name__}")
    return found


def _write_named(values: Any) -> list[Any]:
    types, write = get_type_hints(values.__class__, include_extras=True), _converter().unstructure
    return [write(value, its) for value, its in zip(values, types.values(), strict=True)]


def _read_tuple(values: Any, kind: Any) -> Any:
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"a list expected, got {type(values).__name__}")
    own = get_args(kind) or tuple(get_type_hints(kind, include_extras=True).values()) or (Any, ...)
    read = _converter().structure
    each = own[:1] * len(values) if own[-1] is Ellipsis else own
    found = [read(value, its) for value, its in zip(values, each, strict=True)]
    return kind(*found) if hasattr(kind, "_fields") else tuple(found)


@cache
def _converter() -> Any:
    """Fields to plain data and back, by their types; made on first use."""
    from cattrs import Converter

    made = Converter(detailed_validation=False, unstruct_collection_overrides={tuple: list})

    def add(applies: Callable[[Any], bool], write: Callable[[Any], Any], read: Callable[[Any, Any], Any]) -> None:
        made.register_unstructure_hook_func(applies, write)
        made.register_structure_hook_func(applies, read)

    for plain in _TAKEN:
        made.register_structure_hook(plain, _read_plain)
    # What is added last is asked first.
    made.register_structure_hook_func(partial(_is_a, tuple), _read_tuple)
    add(lambda kind: hasattr(kind, "_fields"), _write_named, _read_tuple)
    add(has, _write_fields, _read_fields)
    add(lambda kind: hasattr(kind, "from_dict"), lambda value: value.to_dict(), lambda value, its: its.from_dict(value))
    add(lambda kind: isinstance(kind, type) and issubclass(kind, Saved), rule_to_dict, _read_saved)
    add(lambda kind: kind == WideInt, str, lambda text, _: int(text))
    for kind, ways in _stores.items():
        add(partial(_is_a, kind), ways[0], partial(_read_by, ways[1]))
    return made


def _is_a(kind: object, found: object) -> bool:
    return kind in (found, get_origin(found))


def _read_by(read: Callable[[Any], Any], values: object, _: object) -> Any:
    return read(values)


# Plain values: None, bool, int, float, str, Fraction, and sequences and mappings of them


def _freeze(value: object, where: str, depth: int = 0) -> Any:
    """A read-only copy with tuples and mapping views, or an error that names the place."""
    if depth > _MAX_DEPTH:
        raise ParameterError(f"{where} is nested more than {_MAX_DEPTH} levels deep")
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, Fraction)):
        if max(abs(value.numerator), value.denominator).bit_length() > _MAX_BITS:
            raise ParameterError(f"{where} has more than {_MAX_BITS} bits; give its logarithm or a text instead")
        return int(value) if isinstance(value, int) else Fraction(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ParameterError(f"{where} must be finite, got {value}")
        return float(value)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str) or name.startswith("$"):
                raise ParameterError(f"{where} must have text keys that do not begin with '$', got {str(name)[:40]!r}")
        return MappingProxyType(
            {str.__str__(name): _freeze(item, f"{where}.{name}"[:80], depth + 1) for name, item in value.items()}
        )
    if isinstance(value, (list, tuple)):
        return tuple(_freeze(item, where, depth + 1) for item in value)
    raise TypeError(f"{where} must be plain (numbers, text, rationals, lists, mappings), got {type(value).__name__}")


def _thaw(value: object) -> Any:
    if isinstance(value, Mapping):
        return {name: _thaw(item) for name, item in value.items()}
    return [_thaw(item) for item in value] if isinstance(value, tuple) else value


def _encode(value: object) -> object:
    """Frozen to JSON; text that looks like a rational is marked, so that reading back gives the same types."""
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, str):
        return {"$text": value} if _RATIONAL.fullmatch(value) else value
    if isinstance(value, Mapping):
        return {name: _encode(item) for name, item in value.items()}
    return [_encode(item) for item in value] if isinstance(value, tuple) else value


def _decode(value: object, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH + 2:
        raise ModelFileError(f"the file is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, str) and _RATIONAL.fullmatch(value):
        return Fraction(value)
    if isinstance(value, dict):
        if value.keys() == {"$text"} and isinstance(value["$text"], str):
            return value["$text"]
        return {name: _decode(item, depth + 1) for name, item in value.items()}
    return [_decode(item, depth + 1) for item in value] if isinstance(value, list) else value


# The result


@frozen(slots=False, repr=False)
class Released(Shown):
    """A rule with its promise.

    ``parameters`` holds public numbers and values that the guarantee covers; ``learner`` names the method.

    Examples
    --------
    >>> g = Guarantee(1, unit="user", neighbours="add-remove")
    >>> for line in str(Released(17, g, {"levels": 16}, learner="RegretSelection")).splitlines():
    ...     print(line[:60])
    17
    ε = 1 for each person: someone who was 50 % sure that a give
    RegretSelection, levels = 16
    """

    value: Any
    guarantee: Guarantee | None
    parameters: Mapping[str, Any] = field(factory=dict)
    outcome: Outcome = "released"
    warnings: tuple[str, ...] = ()
    insecure: bool = False
    learner: str = ""
    findings: Mapping[str, Any] = field(factory=dict)
    """What was measured in the same release and under the same guarantee, by name: ``evaluation``, ``certificate``."""
    about: Mapping[str, str] = field(factory=dict, eq=False)
    """Public facts about the release itself: when, with which version, whom a column names, which ledger paid."""

    def __attrs_post_init__(self) -> None:
        if self.guarantee is not None and not isinstance(self.guarantee, Guarantee):
            raise TypeError(f"guarantee must be a Guarantee or None, got {type(self.guarantee).__name__}")
        if not isinstance(self.insecure, bool) or not isinstance(self.learner, str):
            raise TypeError("insecure must be a bool and learner a text")
        if self.insecure and self.guarantee is not None:
            raise ParameterError("a result of insecure randomness has no guarantee; pass guarantee=None")
        if not isinstance(self.outcome, str) or self.outcome not in get_args(Outcome):
            raise ParameterError(f"outcome must be 'released', 'default' or 'none', got {str(self.outcome)[:40]!r}")
        if (self.outcome == "none") != (self.value is NoRelease):
            raise ParameterError("outcome 'none' goes with the value NoRelease, and only with it")
        if isinstance(self.warnings, str) or not all(isinstance(line, str) for line in self.warnings):
            raise TypeError("warnings must be a tuple of texts")
        if not isinstance(self.parameters, Mapping):
            raise TypeError(f"parameters must be a mapping, got {type(self.parameters).__name__}")
        object.__setattr__(self, "warnings", tuple(self.warnings))
        object.__setattr__(self, "parameters", _freeze(self.parameters, "parameters"))
        if not isinstance(self.findings, Mapping) or any(
            type(v) not in _kinds.values() for v in self.findings.values()
        ):
            raise TypeError("findings must map names to values of registered kinds")
        object.__setattr__(self, "findings", MappingProxyType({str(n): v for n, v in self.findings.items()}))
        if not isinstance(self.about, Mapping) or not all(
            isinstance(text, str) for pair in self.about.items() for text in pair
        ):
            raise TypeError("about must map texts to texts")
        object.__setattr__(self, "about", MappingProxyType(dict(self.about)))

    def __bool__(self) -> bool:
        return self.outcome != "none"

    def __hash__(self) -> int:
        return hash((self.guarantee, self.outcome, self.warnings, self.insecure, self.learner))

    def __reduce__(self) -> tuple[object, ...]:
        # Copies for estimators and worker processes; files are JSON.
        plain = (_thaw(self.parameters), self.outcome, self.warnings, self.insecure, self.learner, dict(self.findings))
        return (Released, (self.value, self.guarantee, *plain, dict(self.about)))

    def predict(self, X: object, threshold: Rational | None = None) -> Any:
        """The rule's predictions; ``NoReleaseError`` if there is no rule.

        Parameters
        ----------
        X : table or array
            New records.
        threshold : rational, optional
            Say 1 exactly where the chance of 1 is above it.  None, the rule's own answer, is what 1/2 gives.

        Returns
        -------
        array
            0 or 1 for each row, or the names of the labels where there are more than two.

        Raises
        ------
        ParameterError
            The threshold is outside 0 to 1, or the result has no chances.
        """
        if threshold is None:
            return self._predicting().predict(X)
        return self._with_chances().predict(X, threshold)

    def _predicting(self) -> Any:
        if not self:
            raise NoReleaseError(
                "nothing was released, so nothing can be predicted; declare a fallback, or use more users or budget"
            )
        if not hasattr(self.value, "predict"):
            raise TypeError(f"this result is a value ({type(self.value).__name__}), not a rule: it does not predict")
        return self.value

    @property
    def has_chances(self) -> bool:
        """Whether there is a chance for every label: of a scorecard always, of a small tree with ``calibrate=``, of
        any rule that says yes or no with ``evaluate=``."""
        return bool(getattr(self.value, "has_chances", False)) or bool(getattr(self.evaluation, "has_chances", False))

    def _with_chances(self) -> Any:
        """What says the chances: the rule itself, or what its evaluation measured in its regions."""
        rule = self._predicting()
        if getattr(rule, "has_chances", False) or not getattr(self.evaluation, "has_chances", False):
            if not hasattr(rule, "predict_proba"):
                raise ParameterError(f"{type(rule).__name__} has no chances")
            return rule
        return self.evaluation.chances_for(rule)

    def predict_proba(self, X: object) -> Any:
        """The chance of every label.

        Parameters
        ----------
        X : table or array
            New records.

        Returns
        -------
        array
            One row for each record, one column for each label, in the order of the labels; a row adds up to 1.

        Raises
        ------
        ParameterError
            The result has no chances: learn with ``evaluate="1/5"``, or a small tree with ``calibrate="1/5"``.
        """
        return self._with_chances().predict_proba(X)

    def decision_function(self, X: object) -> Any:
        """The log odds of 1 for each row, above 0 exactly where :meth:`predict` says 1.

        Parameters
        ----------
        X : table or array
            New records.

        Returns
        -------
        array
            A number for each row; one for each label where there are more than two.

        Raises
        ------
        ParameterError
            The result has no chances.
        """
        return self._with_chances().decision_function(X)

    @property
    def evaluation(self) -> Any:
        """How good the rule is, if that was measured in the same release; None otherwise."""
        return self.findings.get("evaluation")

    def roc(self) -> Any:
        """The ROC curve that the evaluation measured; see :meth:`privpac.evaluation.Evaluation.roc`.

        Returns
        -------
        tuple
            Points with false and true positive rates and their intervals.

        Raises
        ------
        ParameterError
            Nothing was measured: learn with ``evaluate="1/5"``.
        """
        if self.evaluation is None:
            raise ParameterError("no ROC curve was measured; learn with evaluate='1/5', or use privpac.evaluate")
        return self.evaluation.roc()

    @property
    def certificate(self) -> Any:
        """How far from the best rule of its kind it can be, if that was measured in the same release."""
        return self.findings.get("certificate")

    @property
    def rule(self) -> Any:
        """The released rule; an ``AttributeError`` where the value is none: a histogram, a mean, an evaluation."""
        if self and not hasattr(self.value, "predict"):
            raise AttributeError(f"this result is no rule but a {type(self.value).__name__}: see .value")
        return self.value

    # Words

    @property
    def exact_promise(self) -> tuple[str, ...]:
        """The mathematical statement, and what it implies for the other relation."""
        if self.guarantee is None:
            return (INSECURE if self.insecure else "no guarantee",)
        implied: tuple[str, ...] = ()
        if self.guarantee.neighbours is Neighbours.ADD_REMOVE:
            with python_warnings.catch_warnings(), suppress(InfeasibleError):
                python_warnings.simplefilter("ignore", WeakGuaranteeWarning)
                implied = (f"hence {self.guarantee.to_replace().summary}",)
        return (self.guarantee.summary, *implied)

    def __str__(self) -> str:
        """The value, how good it is, what is promised, what is left of the budget; for a rule, all else is in
        ``parameters`` and on the report."""
        lines = [str(self.value), *(getattr(value, "brief", value.__str__)() for value in self.findings.values())]
        if self.outcome == "default":
            lines.append("no answer: the public default stands in")
        lines.append(self.exact_promise[0] if self.guarantee is None else self.guarantee.sentence)
        shown = {name: value for name, value in self.parameters.items() if name != BUDGET_LEFT}
        if not hasattr(self.value, "predict"):
            numbers = ", ".join(f"{name} = {_plain(value)}" for name, value in shown.items())
            lines += [", ".join(text for text in (self.learner, numbers) if text)] if numbers else []
        if BUDGET_LEFT in self.parameters:
            lines.append(f"{BUDGET_LEFT}: {self.parameters[BUDGET_LEFT]}")
        return "\n".join([*lines, *(f"warning: {line}" for line in self.warnings)])

    def __repr__(self) -> str:
        return f"<Released ({self.outcome}): " + " · ".join([str(self.value), *self.exact_promise]) + ">"

    # The rule elsewhere

    def _exported(self) -> Any:
        if not self:
            raise NoReleaseError("nothing was released, so nothing can be exported; use more users or budget")
        if not hasattr(self.value, "to_sql"):
            raise TypeError(f"this result is a value ({type(self.value).__name__}), not a rule: it is not exported")
        return self.value

    def to_sql(self, dialect: str = "ansi") -> str:
        """The rule as one expression of SQL; ``dialect`` is ansi, duckdb, postgres, bigquery or sqlite."""
        return str(self._exported().to_sql(dialect))

    def to_code(self, language: str) -> str:
        """The rule as a function of one row; ``language`` is python, javascript or r."""
        return str(self._exported().to_code(language))

    def to_table(self) -> str:
        """A released scorecard as a table to print."""
        return str(self._exported().to_table())

    def to_csv(self) -> str:
        """A released scorecard as CSV."""
        return str(self._exported().to_csv())

    # Pages and pictures

    def plot(self) -> Picture:
        """A picture of the released rule, distribution or evaluation, to show or to ``save``."""
        picture: Picture = front("rule").plot(self.value)
        return picture

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        purpose: str | None = None,
        contact: str | None = None,
        dataset: str | None = None,
    ) -> Path:
        """Write the report: one HTML file that holds everything and fetches nothing.

        Parameters
        ----------
        path : str or path
            Where to; an existing file is replaced, whole or not at all.
        purpose, contact, dataset : str, optional
            What the release is for, whom to ask, what the table is called (unless the ledger names it).

        Returns
        -------
        Path
            The file that was written.
        """
        named = {"purpose": purpose, "contact": contact, "dataset": dataset}
        written: Path = front("rule").write_released(self, path, **{k: v for k, v in named.items() if v is not None})
        return written

    # Storage

    def to_json(self) -> str:
        """Versioned JSON; the inverse of :meth:`from_json`."""
        rule = None if self.value is NoRelease else _encode(_freeze(rule_to_dict(self.value), "the rule"))
        body: dict[str, object] = {
            "format": _FORMAT,
            "version": max(getattr(value, "file_version", 1) for value in (self.value, *self.findings.values())),
            "learner": self.learner,
            "outcome": self.outcome,
        }
        body |= {"value": rule, "guarantee": None if self.guarantee is None else self.guarantee.to_dict()}
        body |= {"parameters": _encode(self.parameters), "warnings": list(self.warnings), "insecure": self.insecure}
        if self.findings:
            found = {name: rule_to_dict(value) for name, value in self.findings.items()}
            body["findings"] = _encode(_freeze(found, "findings"))
        if self.about:
            body["about"] = dict(self.about)
        return json.dumps(body | ({"notice": INSECURE} if self.insecure else {}), indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Released:
        """Read a result; anything that is not one is a ``ModelFileError``."""
        if not isinstance(text, str):
            raise TypeError(f"from_json takes text, got {type(text).__name__}")
        try:
            return _read(json.loads(text, object_pairs_hook=unique, parse_constant=no_constant))
        except (Warning, ModelFileError):
            raise
        except RecursionError:
            raise ModelFileError("the file is nested too deeply to be a privpac result") from None
        except json.JSONDecodeError as error:
            raise ModelFileError(f"not a readable privpac result: it is no JSON (line {error.lineno})") from None
        except Exception as error:  # as above: one situation, one class, one line
            raise ModelFileError(f"not a readable privpac result: {' '.join(str(error).split())[:160]}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file whole or not at all."""
        write_durably(Path(path), (self.to_json() + "\n").encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Released:
        """Read a saved result."""
        try:
            with open(path, "rb") as file:
                data = file.read(_MAX_FILE + 1)
            text = data.decode()
        except OSError as error:
            raise ModelFileError(f"cannot read {str(path)!r}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ModelFileError(f"{str(path)!r} is not a privpac result: it is not UTF-8 text") from None
        if len(data) > _MAX_FILE:
            raise ModelFileError(f"{str(path)!r} is not a privpac result: it is larger than {_MAX_FILE} bytes")
        try:
            return Released.from_json(text)
        except ModelFileError as error:
            raise ModelFileError(f"{str(path)!r}: {error}") from None


def _read(body: object) -> Released:
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise ModelFileError(f"not a privpac result: the field 'format' must be {_FORMAT!r}")
    if type(body.get("version")) is not int or not 1 <= body["version"] <= _VERSION:
        raise ModelFileError(
            f"the file has version {str(body.get('version'))[:20]!r}, this privpac reads up to version {_VERSION}; "
            "update privpac"
        )
    if "hypothesis" in body and "value" not in body:
        raise ModelFileError(
            "this file was written by an earlier privpac, which called the released value 'hypothesis'; such files are "
            "not read: release again, or open it with the version that wrote it"
        )
    found = body.get("findings", {})
    if not isinstance(found, dict):
        raise ModelFileError("the field 'findings' must map names to what was measured")
    optional = {"notice": body.get("insecure") is True, "findings": bool(found), "about": bool(body.get("about"))}
    expected = _FIELDS | {name for name, there in optional.items() if there}
    if body.keys() != expected:
        strange = ", ".join(sorted(str(name)[:40] for name in body.keys() ^ expected)[:5])
        raise ModelFileError(f"missing or unknown fields: {strange}")
    if not isinstance(body["warnings"], list):
        raise ModelFileError("the field 'warnings' must be a list of texts")
    if body["outcome"] == "none" and body["value"] is not None:
        raise ModelFileError("outcome 'none' cannot come with a rule")
    rule = (
        NoRelease if body["outcome"] == "none" else rule_from_dict(_thaw(_freeze(_decode(body["value"]), "the rule")))
    )
    return Released(
        rule,
        read_guarantee(body["guarantee"]),
        _decode(body["parameters"]),
        outcome=body["outcome"],
        warnings=tuple(body["warnings"]),
        insecure=body["insecure"],
        learner=body["learner"],
        findings={name: rule_from_dict(value) for name, value in _thaw(_freeze(_decode(found), "findings")).items()},
        about=body.get("about", {}),
    )


def _plain(value: object) -> str:
    return str(_thaw(value)) if isinstance(value, (tuple, Mapping)) else str(value)
