"""Declared parameters: how each word of a constructor is read and refused, said once, on the field.

A frozen ``attrs`` class lists its parameters as fields::

    @frozen(slots=False, field_transformer=named)
    class Example:
        epsilon: Fraction = field(converter=privacy)
        levels: int = field(default=64, converter=whole, metadata=bounds(maximum=4096))
        theta: Fraction = field(default=Fraction(2, 3), converter=fraction, metadata=bounds(above="1/2", below=1))

A *converter* reads a value exactly (``0.1`` is 1/10, ``"replace"`` is the relation) and refuses what is out of bounds
with the name of its field, which :func:`named` tells it; a *validator* checks what was read.  Nothing here sees data.

A parameter that is planned when left out is declared with an underscore (``_ladder``, given as ``ladder=``) and read
by a property without one, so that a copy with other parameters (``attrs.evolve``) is planned anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any

from attrs import Attribute

from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit, one_of, positive_int

__all__ = [
    "MAX_EPSILON",
    "bounds",
    "probability",
    "probability_or_none",
    "probability_or_zero",
    "whole",
    "whole_or_none",
    "named",
    "fraction",
    "fraction_or_none",
    "one_word_of",
    "privacy",
    "privacy_or_none",
    "privacy_or_zero",
    "protected_unit",
    "read_epsilon",
    "relation",
    "truth",
]

MAX_EPSILON = 10_000
"""Above this an epsilon promises nothing, and numbers such as ``e**epsilon`` would fill the memory."""


def read_epsilon(value: Any, name: str = "epsilon", *, zero: bool = False) -> Fraction:
    """A privacy parameter: positive (or zero where a law without data remains) and at most ``MAX_EPSILON``."""
    if zero:
        return rational(value, name, minimum=0, maximum=MAX_EPSILON)
    return rational(value, name, above=0, maximum=MAX_EPSILON)


# Converters; all but the last two are told the name of their field


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


def protected_unit(value: Unit | str) -> Unit:
    return one_of(Unit, value, "unit")


def relation(value: Neighbours | str) -> Neighbours:
    return one_of(Neighbours, value, "neighbours")


_NAMED: set[Any] = {privacy, privacy_or_zero, privacy_or_none, fraction, fraction_or_none}
_NAMED |= {probability, probability_or_zero, probability_or_none, whole, whole_or_none}


def bounds(**limits: Rational) -> dict[str, Rational]:
    """``minimum``, ``maximum``, ``above`` and ``below`` of a field, as its metadata."""
    return limits


def named(_: type[Any], fields: list[Attribute[Any]]) -> list[Attribute[Any]]:
    """Tell the converters of a class the names and bounds of their fields."""
    return [_with_name(field) for field in fields]


def _with_name(field: Attribute[Any]) -> Attribute[Any]:
    convert: Any = field.converter
    if convert not in _NAMED:
        return field
    name = field.alias or field.name.lstrip("_")
    return field.evolve(converter=partial(convert, name=name, **field.metadata))


# Validators: attrs tells them the field


Validator = Callable[[Any, Any, Any], None]


def truth(_: Any, field: Any, value: Any) -> None:
    """Yes or no, and nothing that merely counts as one of them."""
    if not isinstance(value, bool):
        raise TypeError(f"{field.alias} must be True or False, got {type(value).__name__}")


def one_word_of(words: Iterable[str]) -> Validator:
    """One of a few words."""
    listed = tuple(words)

    def check(_: Any, field: Any, value: Any) -> None:
        if value not in listed:
            raise ParameterError(f"{field.alias} must be one of {', '.join(listed)}, got {value!r}")

    return check
