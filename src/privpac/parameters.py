"""Declared parameters: how each word of a constructor is read and refused, said once, on the field.

A frozen ``attrs`` class lists its parameters as fields::

    @frozen(slots=False, field_transformer=named)
    class Example:
        epsilon: Fraction = field(converter=privacy)
        levels: int = field(default=64, converter=whole, metadata=bounds(maximum=4096))
        theta: Fraction = field(default=Fraction(2, 3), converter=fraction, metadata=bounds(above="1/2", below=1))

A *converter* reads a value exactly (``0.1`` is 1/10, ``"replace"`` is the relation) and refuses what is out of bounds
with the name of its field, which :func:`named` tells it; a *validator* checks what was read.  Nothing here sees data.

Every value of the package is an ``attrs`` class, but for those of ``device`` (standard library only).  They are
declared with ``slots=False``: ``cached_property`` keeps what it worked out in ``__dict__``, classes register themselves
once in ``__init_subclass__``, and a class may inherit from several.  Small values that do none of this may have slots.

A class with many parameters holds *parts* (:func:`part`): frozen values whose parameters are given, read and changed as
if they were its own, so that what several classes share is written once and passed on whole.

A parameter that is planned when left out is declared with an underscore (``_ladder``, given as ``ladder=``) and read
by a property without one, so that a copy with other parameters (``attrs.evolve``) is planned anew.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from attrs import NOTHING, Attribute, evolve, field, fields

from privpac.errors import ParameterError, did_you_mean
from privpac.exact import Rational, one_of, positive_int, rational
from privpac.guarantee import Neighbours, Unit

# Public constants and defaults, each once

MAX_EPSILON = 200
"""The largest privacy parameter, of learners, plans, protocols and services: beyond it nothing is protected, and powers
of ``e**epsilon`` leave the range of a float."""
DEFAULT_BETA = Fraction(1, 20)
"""The probability with which a promised accuracy may fail, where none is named."""
DEFAULT_LEVELS = 840
"""Steps in which a person's vote is counted: all numbers of records up to 8 divide it, and 10, 12, 14, 15."""
TREE_LEVELS = 720_720
"""The same for small trees, whose weights are exact up to 16 records."""
EVALUATION_LEVELS = 720_720
"""Steps of a person's part in a table of right and wrong, for the same reason; noise is relative to them."""
QUANTILE_LEVELS = 4096
"""Steps of a person's weight in a quantile, where their records share it."""
COUNT_LEVELS = 1 << 20
"""Steps in which a person's share of a count is rounded down: histograms and vocabularies."""


# Reading


def read_epsilon(value: object, name: str = "epsilon", *, zero: bool = False) -> Fraction:
    """A privacy parameter: positive (or zero where a law without data remains) and at most ``MAX_EPSILON``."""
    if zero:
        return rational(value, name, minimum=0, maximum=MAX_EPSILON)
    return rational(value, name, above=0, maximum=MAX_EPSILON)


# Converters; those with a parameter ``name`` are told that of their field


def privacy(value: Rational, name: str = "epsilon") -> Fraction:
    """A positive privacy parameter."""
    return read_epsilon(value, name)


def privacy_or_zero(value: Rational, name: str = "epsilon") -> Fraction:
    """A privacy parameter, or 0 for an answer without data."""
    return read_epsilon(value, name, zero=True)


def privacy_or_none(value: Rational | None, name: str = "epsilon") -> Fraction | None:
    return None if value is None else read_epsilon(value, name)


def fraction(value: Rational, name: str = "value", **limits: Rational) -> Fraction:
    """A rational between the :func:`bounds` of its field."""
    return rational(value, name, **limits)


def fraction_or_none(value: Rational | None, name: str = "value", **limits: Rational) -> Fraction | None:
    return None if value is None else rational(value, name, **limits)


def probability(value: Rational, name: str = "value") -> Fraction:
    """A rational strictly between 0 and 1: a delta, a failure probability, an error rate, a part of a budget."""
    return rational(value, name, above=0, below=1)


def probability_or_zero(value: Rational, name: str = "value") -> Fraction:
    return rational(value, name, minimum=0, below=1)


def probability_or_none(value: Rational | None, name: str = "value") -> Fraction | None:
    return None if value is None else probability(value, name)


def whole(value: int, name: str = "value", **limits: int) -> int:
    """A whole number, at least 1 unless the :func:`bounds` of its field say otherwise."""
    return positive_int(value, name, **limits)


def whole_or_none(value: int | None, name: str = "value", **limits: int) -> int | None:
    return None if value is None else positive_int(value, name, **limits)


def whole_list(values: Iterable[int]) -> tuple[int, ...]:
    """Whole numbers of any sign, kept as a tuple of Python's."""
    return tuple(int(value) for value in values)


def protected_unit(value: Unit | str) -> Unit:
    return one_of(Unit, value, "unit")


def relation(value: Neighbours | str) -> Neighbours:
    return one_of(Neighbours, value, "neighbours")


def plain_text(value: object, name: str, longest: int) -> str:
    """A text of one line, such as a label."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {type(value).__name__}")
    if not 1 <= len(value) <= longest or not value.isprintable():
        raise ParameterError(
            f"{name} must be 1 to {longest} printable characters on one line, got {value[:20]!r} ({len(value)} "
            "characters)"
        )
    return str.__str__(value)


def seconds(value: object, name: str) -> float:
    """A span of time, at most a day."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, got {type(value).__name__}")
    if not math.isfinite(value) or not 0 <= value <= 86_400:
        raise ParameterError(f"{name} must be between 0 and 86400 seconds, got {value}")
    return float(value)


def columns_or_none(features: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Names of columns: one, or several different ones; None stands for all."""
    if features is None:
        return None
    names = (features,) if isinstance(features, str) else tuple(features)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ParameterError("features must be one column name or several different ones")
    return names


def bounds(**limits: Rational) -> dict[str, Rational]:
    """``minimum``, ``maximum``, ``above`` and ``below`` of a field, as its metadata."""
    return limits


def named(kind: type[object], listed: list[Attribute[Any]]) -> list[Attribute[Any]]:
    """Tell the converters of a class the names and bounds of their fields; let a class show what its parts hold."""
    for each in listed:
        for name in () if "part" not in each.metadata else declared(each.metadata["part"]):
            if not hasattr(kind, name):
                setattr(kind, name, property(attrgetter(f"{each.name}.{name}")))
    if issubclass(kind, Composed) and kind.__init__ is Composed.__init__:
        kind.__signature__ = _signature(listed)  # type: ignore[attr-defined]
    return [_with_name(each) for each in listed]


def _signature(listed: Iterable[Attribute[Any]]) -> inspect.Signature:
    """How a class with parts is called: its own parameters as declared, those of its parts by name."""
    words = {each: each.kw_only for each in listed if each.init and "part" not in each.metadata}
    held = [each.metadata["part"] for each in listed if "part" in each.metadata]
    words |= {each: True for kind in held for each in fields(kind) if each.init}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = [
        inspect.Parameter(
            each.alias or each.name.lstrip("_"),
            kinds[by_name],
            default=inspect.Parameter.empty if each.default is NOTHING else each.default,
            annotation=each.type,
        )
        for each, by_name in sorted(words.items(), key=lambda word: word[1])
    ]
    return inspect.Signature(found)


def _with_name(each: Attribute[Any]) -> Attribute[Any]:
    convert: Any = each.converter
    code = getattr(convert, "__code__", None)
    if code is None or "name" not in code.co_varnames[: code.co_argcount]:
        return each
    name = each.alias or each.name.lstrip("_")
    return each.evolve(converter=partial(convert, name=name, **each.metadata))


# Parts


class Parameter(NamedTuple):
    """One word of a constructor."""

    type: Any
    required: bool


def declared(kind: type[Any]) -> dict[str, Parameter]:
    """The parameters of a class as they are given, those of its parts among them."""
    found: dict[str, Parameter] = {}
    for each in fields(kind):
        if "part" in each.metadata:
            found |= declared(each.metadata["part"])
        elif each.init:
            found[each.alias] = Parameter(each.type, each.default is NOTHING)
    return found


_T = TypeVar("_T")


def part(kind: type[_T]) -> _T:
    """A field of a :class:`Composed` class that holds a value of ``kind``."""
    held: Any = field(kw_only=True, metadata={"part": kind})
    return held  # type: ignore[no-any-return]


class Composed:
    """A frozen class (``init=False``) with parts: it is given their parameters beside its own, or a part as it is.

    ``attrs.evolve`` passes the parts on and changes in them what is named.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        for each in fields(type(self)):  # type: ignore[arg-type]
            if (kind := each.metadata.get("part")) is not None:
                own = {name: given.pop(name) for name in declared(kind) if name in given}
                held = given.get(each.name)
                given[each.name] = kind(**own) if held is None else evolve(held, **own)
        init: Any = self.__attrs_init__  # type: ignore[attr-defined]
        init(*args, **given)


# Validators: attrs tells them the field


Validator = Callable[[object, Any, object], None]


def truth(_: object, attribute: Attribute[Any], value: object) -> None:
    """Yes or no, and nothing that merely counts as one of them."""
    if not isinstance(value, bool):
        raise TypeError(f"{attribute.alias} must be True or False, got {type(value).__name__}")


def either(one: str, other: str) -> Validator:
    """One of two words."""

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if value not in (one, other):
            near = did_you_mean(value, (one, other))
            raise ParameterError(f"{attribute.alias} must be {one!r} or {other!r}, got {value!r}{near}")

    return check


def one_word_of(words: Iterable[str]) -> Validator:
    """One of a few words."""
    listed = tuple(words)

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if value not in listed:
            near = did_you_mean(value, listed)
            raise ParameterError(f"{attribute.alias} must be one of {', '.join(listed)}, got {value!r}{near}")

    return check
