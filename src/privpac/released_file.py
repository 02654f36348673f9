"""Parts of a result's file that are read before anything is made of them.

A file may hold anything.  What is read here is refused if it is not what a result would have written: a field twice,
numbers that are none, rationals too long to expand, names that are no text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from privpac.errors import ModelFileError
from privpac.guarantee import Guarantee

__all__ = ["no_constant", "read_guarantee", "unique", "well_named"]

_NAME, _NAMES = ("family", "feature", "label", "name"), ("features", "names")


def well_named(values: Any, name: str = "") -> bool:
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


def read_guarantee(values: Any) -> Guarantee | None:
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


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ModelFileError("the file names a field twice")
    return out


def no_constant(name: str) -> NoReturn:
    raise ModelFileError(f"the file holds {name}, which is not a number")
