"""Columns of a protocol: public domains that a device can read without any library.

A column is ``lo..hi`` (integers), ``lo..hi`` in steps (decimal or rational), or a list of values; a record's value becomes a code
``0..size-1`` in the order of the domain.  A value outside the domain has no code and its record is dropped, by itself.  Standard library
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privpac.errors import ManifestError

__all__ = ["INVALID", "Column", "encode"]

INVALID = -1
"""The code of what has none: outside every range."""


@dataclass(frozen=True)
class Column:
    """A named column: ``first + step * code``, or ``values[code]``."""

    name: str
    size: int
    first: Fraction = Fraction(0)
    step: Fraction = Fraction(1)
    values: tuple[str, ...] | None = None

    @classmethod
    def read(cls, entry: Any) -> Column:
        """From a manifest: ``{"name", "values"}`` or ``{"name", "lo", "hi"[, "step"]}``."""
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or not entry["name"]:
            raise ManifestError("a feature needs a name")
        name, keys = entry["name"], set(entry) - {"name"}
        if keys == {"values"}:
            listed = entry["values"]
            if not isinstance(listed, list) or not listed or any(not isinstance(v, str) for v in listed) or len(set(listed)) < len(listed):
                raise ManifestError("values must be a list of different texts")
            return cls(name, len(listed), values=tuple(listed))
        if not {"lo", "hi"} <= keys <= {"lo", "hi", "step"}:
            raise ManifestError("a feature has values, or lo and hi and perhaps step")
        lo, hi, step = (_number(entry.get(key, 1), key) for key in ("lo", "hi", "step"))
        steps = (hi - lo) / step if step > 0 else Fraction(-1)
        if steps < 0 or steps.denominator != 1 or steps >= 1 << 64:
            raise ManifestError("hi must be lo plus a number of steps, below 2**64")
        return cls(name, int(steps) + 1, lo, step)

    def write(self) -> dict[str, Any]:
        """The same for a manifest."""
        if self.values is not None:
            return {"name": self.name, "values": list(self.values)}
        last = self.first + self.step * (self.size - 1)
        plain: dict[str, Any] = {"name": self.name, "lo": _text(self.first), "hi": _text(last)}
        return plain if self.step == 1 else {**plain, "step": _text(self.step)}

    def code(self, value: Any) -> int:
        """The code of a value, or ``INVALID``."""
        if self.values is not None:
            text = str(value)
            return self.values.index(text) if text in self.values else INVALID
        try:
            place = (Fraction(repr(value) if isinstance(value, float) else value) - self.first) / self.step
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            return INVALID
        return int(place) if place.denominator == 1 and 0 <= place < self.size else INVALID


def _number(value: Any, key: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ManifestError(f"{key} must be an integer or a text such as '1/10'")
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise ManifestError(f"{key} must be a number") from None


def _text(value: Fraction) -> int | str:
    return int(value) if value.denominator == 1 and abs(value) < 1 << 53 else str(value)


def _label(value: Any) -> int:
    """Labels are 0 and 1, in any of their spellings."""
    if isinstance(value, str):
        return {"0": 0, "1": 1, "false": 0, "true": 1}.get(value.strip().lower(), INVALID)
    try:
        return int(value) if value in (0, 1) else INVALID
    except (TypeError, ValueError):
        return INVALID


def encode(columns: Sequence[Column], label: str, records: Iterable[Mapping[str, Any]]) -> tuple[list[list[int]], list[int]]:
    """Codes and labels of records by column name; a missing column is an invalid value."""
    x, y = [], []
    for record in records:
        x.append([column.code(record.get(column.name)) for column in columns])
        y.append(_label(record.get(label)))
    return x, y
