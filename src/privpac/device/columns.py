"""Columns of a protocol: public domains that a device can read without any library.

| entry of a manifest | values |
|---|---|
| ``lo``, ``hi`` and perhaps ``step`` | numbers, decimal steps |
| ``from``, ``to`` | days, written 2020-12-31 |
| ``values`` | listed texts |
| ``ordered`` | listed texts whose order means something |
| ``floats`` = 64 | every finite 64-bit float, by the order of its bits |

A record's value becomes a code ``0..size-1`` in the order of the domain, the same code that a curator's table would
give it.  A value outside the domain has no code and its record is dropped, by itself.  Standard library only.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from typing import Any

from privpac.errors import ManifestError, ParameterError

INVALID = -1
"""The code of what has none: outside every range."""

_EXACT = re.compile(r"-?[0-9]{1,400}(/[0-9]{1,400}|\.[0-9]{1,300})?")
_WRITTEN = re.compile(r"\s*[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?\s*")
_DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})([T ]00:00(:00(\.0{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?")
_PLAIN_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TOP = 1 << 63


def exact(value: object) -> Fraction:
    """A rational of a manifest: an integer, ``"a/b"`` or a decimal; exponents would let a short text ask for endless
    digits."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 1300:
        return Fraction(value)
    if not isinstance(value, str) or not _EXACT.fullmatch(value):
        raise ManifestError("a rational is an integer or a text such as '1/10'")
    try:
        return Fraction(value)
    except ZeroDivisionError:
        raise ManifestError("a rational has no zero below its line") from None


@dataclass(frozen=True)
class DeviceColumn:
    """A named column: ``first + step * code``, ``values[code]``, a day, or a float."""

    name: str
    size: int
    first: Fraction = Fraction(0)
    step: Fraction = Fraction(1)
    values: tuple[str, ...] | None = None
    kind: str = "numbers"

    # Manifests

    @classmethod
    def read(cls, entry: object) -> DeviceColumn:
        """From a manifest."""
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or not entry["name"]:
            raise ManifestError("a feature needs a name")
        name, keys = entry["name"], set(entry) - {"name"}
        if keys in ({"values"}, {"ordered"}):
            (kind,) = keys
            return cls.listed(name, entry[kind], kind)
        if keys == {"from", "to"}:
            return cls.days(name, entry["from"], entry["to"])
        if keys == {"floats"} and entry["floats"] == 64:
            return cls.floats(name)
        if not {"lo", "hi"} <= keys <= {"lo", "hi", "step"}:
            raise ManifestError(
                "a feature has lo and hi and perhaps step, or from and to, or values, or ordered, or floats = 64"
            )
        return cls.numbers(name, *(exact(entry.get(key, 1)) for key in ("lo", "hi", "step")))

    @classmethod
    def numbers(cls, name: str, lo: Fraction, hi: Fraction, step: Fraction = Fraction(1)) -> DeviceColumn:
        steps = (hi - lo) / step if step > 0 else Fraction(-1)
        if steps < 0 or steps.denominator != 1 or steps >= 1 << 64:
            raise ManifestError("hi must be lo plus a number of steps, below 2**64")
        if any(10**300 % end.denominator for end in (lo, step)):
            raise ManifestError("lo, hi and step must be decimals")
        return cls(name, int(steps) + 1, lo, step)

    @classmethod
    def listed(cls, name: str, values: object, kind: str = "values") -> DeviceColumn:
        if not isinstance(values, (list, tuple)) or not values or any(not isinstance(value, str) for value in values):
            raise ManifestError("values must be a list of texts")
        if len(set(values)) < len(values):
            raise ManifestError("values must differ")
        return cls(name, len(values), values=tuple(values), kind=kind)

    @classmethod
    def days(cls, name: str, first: Any, last: Any) -> DeviceColumn:
        try:
            if not all(_PLAIN_DAY.fullmatch(day) for day in (first, last)):  # Python also reads 20201231
                raise ValueError
            low, high = date.fromisoformat(first).toordinal(), date.fromisoformat(last).toordinal()
        except (TypeError, ValueError):
            raise ManifestError("days are written like 2020-12-31") from None
        if high < low:
            raise ManifestError("to must not be before from")
        return cls(name, high - low + 1, Fraction(low), kind="days")

    @classmethod
    def floats(cls, name: str) -> DeviceColumn:
        return cls(name, 1 << 64, kind="floats")

    def write(self) -> dict[str, object]:
        """The same for a manifest."""
        if self.values is not None:
            return {"name": self.name, self.kind: list(self.values)}
        if self.kind == "floats":
            return {"name": self.name, "floats": 64}
        if self.kind == "days":
            ends = (date.fromordinal(int(self.first) + shift).isoformat() for shift in (0, self.size - 1))
            return {"name": self.name, **dict(zip(("from", "to"), ends))}
        last = self.first + self.step * (self.size - 1)
        plain: dict[str, object] = {"name": self.name, "lo": _text(self.first), "hi": _text(last)}
        return plain if self.step == 1 else {**plain, "step": _text(self.step)}

    # Values

    def code(self, value: Any) -> int:
        """The code of a value, or ``INVALID``."""
        try:
            if hasattr(value, "item") and getattr(value, "shape", None) == ():
                value = value.item()
            return _CODES[self.kind](self, value)
        except Exception:  # whatever an odd object does, its record is dropped by itself
            return INVALID

    @cached_property
    def _whole(self) -> tuple[int, int] | None:
        """First and step of a column of integers."""
        return (int(self.first), int(self.step)) if self.first.denominator == self.step.denominator == 1 else None

    def _number(self, value: Any) -> int:
        if isinstance(value, str):
            if not _WRITTEN.fullmatch(value):
                return INVALID
            value = int(value) if value.isdigit() else value
        if isinstance(value, int) and self._whole is not None:
            code, rest = divmod(value - self._whole[0], self._whole[1])
            return code if rest == 0 and 0 <= code < self.size else INVALID
        place = (Fraction(repr(value) if isinstance(value, float) else value) - self.first) / self.step
        return int(place) if place.denominator == 1 and 0 <= place < self.size else INVALID

    def _listed(self, value: Any) -> int:
        assert self.values is not None
        if isinstance(value, (bool, float)):  # the texts of a curator's table: true, and 1 for 1.0
            value = str(value).lower() if isinstance(value, bool) or not value.is_integer() else int(value)
        return self.values.index(str(value))

    def _day(self, value: Any) -> int:
        moment = value
        if isinstance(value, str):
            written = _DAY.fullmatch(value.strip())
            moment = date.fromisoformat(written[1]) if written else None
        if isinstance(moment, datetime) and moment.time() != time(0):
            return INVALID
        place = int(moment.toordinal()) - int(self.first) if isinstance(moment, date) else INVALID
        return place if 0 <= place < self.size else INVALID

    def _float(self, value: Any) -> int:
        if isinstance(value, str) and not _WRITTEN.fullmatch(value):
            return INVALID
        number = float(value)
        if not math.isfinite(number) or (isinstance(value, int) and int(number) != value):
            return INVALID
        (bits,) = struct.unpack("<Q", struct.pack("<d", number or 0.0))
        return int(bits) + _TOP if bits < _TOP else (1 << 64) - 1 - int(bits)


_CODES = {
    "numbers": DeviceColumn._number,
    "values": DeviceColumn._listed,
    "ordered": DeviceColumn._listed,
    "days": DeviceColumn._day,
    "floats": DeviceColumn._float,
}


def _text(value: Fraction) -> int | str:
    return int(value) if value.denominator == 1 and abs(value) < 1 << 53 else str(value)


_LABELS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


def _label(value: object) -> int:
    """Labels are 0 and 1, in any of their spellings."""
    if isinstance(value, str):
        return _LABELS.get(value.strip().lower(), INVALID)
    try:
        return int(value == 1) if value in (0, 1) else INVALID
    except Exception:
        return INVALID


def check_columns(columns: Sequence[DeviceColumn], label: str, header: Iterable[str]) -> None:
    """A column that is missing, or written differently, is an error on the device: its records would all be dropped."""
    known = [str(name) for name in header]
    for name in (*(column.name for column in columns), label):
        if name not in known:
            close = get_close_matches(name.lower(), [text.strip().lower() for text in known], 1, 0.7)
            alike = [text for text in known if close and text.strip().lower() == close[0]]
            hint = f"; there is {alike[0]!r}" if alike else ""
            raise ParameterError(f"the records have no column {name!r}{hint}; nothing was drawn or sent")


def encode(
    columns: Sequence[DeviceColumn], label: str, records: Iterable[Mapping[str, object]]
) -> tuple[list[list[int]], list[int]]:
    """Codes and labels of records by column name; a column that no record has is an error, in one record an invalid
    value."""
    listed = list(records)
    if listed:
        check_columns(columns, label, dict.fromkeys(name for record in listed for name in record))
    x, y = [], []
    for record in listed:
        x.append([column.code(record.get(column.name)) for column in columns])
        y.append(_label(record.get(label)))
    return x, y
