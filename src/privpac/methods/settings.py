"""Parameters of a learner as text, both ways: ``--set name=value`` on the command line, and commands that a plan
prints.

The learner's own fields say which names there are and how a text is read; whether a value is allowed the learner says
itself.

=====================  =========================================================
field                  text
=====================  =========================================================
a whole number         ``32``
a rational             ``1/16``, ``0.05``
a word                 ``bisect``
yes or no              ``true``, ``false``
numbers of records     ``1,4,16``
a pair of rationals    ``0.1,1/16``
a table of numbers     ``3``, ``1:1,16:4`` (from 16 records on 4), or ``auto``
a seed                 hexadecimal digits
words to numbers       ``Gamma:60,race:dyadic``
=====================  =========================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from privpac.errors import ParameterError
from privpac.methods.registry import learner_options

COMMON = ("concept", "tree", "epsilon", "neighbours", "unit", "max_records")
"""Fields of every learner: they have options of their own."""

_FLAGS = {
    "public_n_users": "--people",
    "n_users": "--people",
    "people": "--people-are",
    "k": "--values",
    "d": "--columns",
}
"""Parameters whose options are not called like them."""

_WHOLE = re.compile(r"[+-]?\d+")


def flag(name: str) -> str:
    """The option of the command line that says a parameter of the library.

    >>> flag("records_per_user"), flag("public_n_users")
    ('--records-per-user', '--people')
    """
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


def read_settings(method: str, texts: Iterable[str]) -> dict[str, Any]:
    """The parameters named by ``name=value`` texts, for the learner of a method.

    >>> read_settings("agnostic", ["radius=1/16", "sizes=32", "estimator=bisect"])
    {'radius': '1/16', 'sizes': (32,), 'estimator': 'bisect'}
    """
    given = [text.partition("=") for text in texts]
    if not given:
        return {}
    if method == "auto":
        raise ParameterError("a parameter belongs to a method: name one with --method next to --set")
    allowed = _settable(method)
    found: dict[str, Any] = {}
    for name, equals, value in given:
        if not equals or not name or not value:
            raise ParameterError(
                f"a parameter is set as name=value, such as radius=1/16; got {name + equals + value!r}"
            )
        if name not in allowed:
            known = ", ".join(allowed) or "none"
            raise ParameterError(f"the method {method!r} has no parameter {name!r} to set; it has {known}")
        if name in found:
            raise ParameterError(f"the parameter {name!r} is set twice; set it once")
        found[name] = _read(allowed[name], name, value)
    return found


def _settable(method: str) -> dict[str, str]:
    """Parameters that a text can say, with their types."""
    kinds = {name: str(word.type) for name, word in learner_options(method, dict.fromkeys(COMMON)).items()}
    return {name: kind for name, kind in kinds.items() if name != "population" and _reader(kind) is not None}


def _reader(kind: str) -> tuple[Callable[[str], Any], str] | None:
    return next(((read, said) for mark, read, said in _READERS if mark in kind), None)


def _read(kind: str, name: str, text: str) -> Any:
    reader = _reader(kind)
    assert reader is not None
    try:
        return reader[0](text)
    except ValueError:
        raise ParameterError(f"{name} must be {reader[1]}; got {text[:40]!r}") from None


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError(text)
    return int(text)


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _table(text: str) -> Any:
    """A number, a table, or a word that the learner may know."""
    if ":" in text:
        return {_whole(least): _whole(value) for least, _, value in (part.partition(":") for part in text.split(","))}
    return _whole(text) if _WHOLE.fullmatch(text.strip()) else text


def _words(text: str) -> dict[str, int | str]:
    pairs = [part.partition(":") for part in text.split(",")]
    if any(not (name and value) for name, _, value in pairs):
        raise ValueError(text)
    return {name: int(value) if _WHOLE.fullmatch(value) else value for name, _, value in pairs}


_READERS: tuple[tuple[str, Callable[[str], Any], str], ...] = (
    ("Table", _table, "a whole number, or a table such as 1:1,16:4"),
    ("tuple[int", lambda text: tuple(_whole(part) for part in text.split(",")), "whole numbers such as 1,4,16"),
    ("tuple[Fraction", lambda text: tuple(text.split(",")), "two numbers such as 0.1,1/16"),
    ("Mapping[str, int | str]", _words, "names with values such as Gamma:60,race:dyadic"),
    ("bytes", bytes.fromhex, "hexadecimal digits"),
    ("bool", _truth, "true or false"),
    ("Fraction", str, "a number"),
    ("Rational", str, "a number"),
    ("int", _whole, "a whole number"),
    ("str", str, "a word"),
    ("Mode", str, "a word"),
    ("Any", _table, "a whole number, or a table such as 1:1,16:4"),
)
"""By a mark in the type of a field, the first that fits: how its text is read, and what it must be."""


def setting_text(value: Any) -> str:
    """A value as :func:`read_settings` reads it.

    >>> [setting_text(value) for value in (Fraction(1, 16), (1, 4), {1: 1, 16: 4}, True, bytes(2))]
    ['0.0625', '1,4', '1:1,16:4', 'true', '0000']
    """
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return ",".join(map(setting_text, value))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Fraction):
        short = f"{float(value):g}"
        return short if Fraction(short) == value else str(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
