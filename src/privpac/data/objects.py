"""Columns of Python objects: every value is read alone.

Lists, pandas ``object`` columns and numpy object arrays have no type.  A type guessed from their values would be
everybody's: one person's 2 among booleans, one person's 2^53 + 1 among floats would change how all others are read.  So
such a column is held as one fixed pair per value, its *kind* and its *text*, and a domain reads the values of each kind
as it reads a typed column of that kind, hence one by one:

===========================================================  ========================================================
an object that is                                            is read like a value of
===========================================================  ========================================================
``None``, a NaN of any float type, ``NaT``, ``pandas.NA``    any column, where it is missing
a boolean                                                    a boolean column
an integer                                                   an integer column, of any width
a float of 64, 32 or 16 bits                                 a float column of that width
a ``Decimal``, or a ``Fraction``                             a decimal column with its digits (a fraction that is no
                                                             decimal: with its first 420)
a text                                                       a text column
a date; a date with a time, with or without a time zone      a date column; a column of moments
bytes                                                        a binary column: an id in base 16, nothing else
===========================================================  ========================================================

Subclasses count as what they are, so members of ``StrEnum`` and ``IntEnum`` are texts and integers; a member of a plain
``Enum``, a list, a text with half a letter (a lone surrogate) and everything else is *unreadable*.  Only the methods of
the types above are called, never those of a subclass, and whatever an object does, it raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.arrays import Bools
from privpac.data.schema import Encoded, Verdict


class Kind(IntEnum):
    """What one object is."""

    GAP = 0
    UNREAD = 1
    TRUTH = 2
    WHOLE = 3
    DOUBLE = 4
    SINGLE = 5
    HALF = 6
    DECIMAL = 7
    TEXT = 8
    BYTES = 9
    DATE = 10
    MOMENT = 11
    ZONED = 12


_KIND, _TEXT = "kind of object", "text of object"
OBJECTS = pl.Struct({_KIND: pl.UInt8, _TEXT: pl.String})
"""The type of every column of Python objects."""
MOMENTS = pl.Struct({"day": pl.Int64, "nanosecond": pl.Int64})
"""Days from 1970 and the time of day, for moments in any year."""
FLOATS = frozenset({Kind.DOUBLE, Kind.SINGLE, Kind.HALF})
NUMBERS = FLOATS | {Kind.TRUTH, Kind.WHOLE, Kind.DECIMAL}
NAMED = NUMBERS | {Kind.TEXT, Kind.DATE}
"""What has a text that a category may have."""
DATED = frozenset({Kind.TEXT, Kind.DATE, Kind.MOMENT, Kind.ZONED})

Read = tuple[Kind, str | None]
Reader = Callable[[Any], Read]
"""Reads objects of one type."""
_GAP: Read = (Kind.GAP, None)
_UNREAD: Read = (Kind.UNREAD, None)
_BITS = 13_000  # integers of 3,900 digits and more are beyond every end, whatever they are
_PLACES, _DENOMINATOR = 420, 10**100
_LONGEST = 1 << 30
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400 * 10**9
_FARTHEST = (1 << 31) - 1
_UNITS = {"W": 7 * _DAY, "D": _DAY, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


# One object


def _truth(value: object) -> Read:
    return Kind.TRUTH, "true" if value else "false"


def _whole(value: int) -> Read:
    number = int.__int__(value)
    if number.bit_length() > _BITS:
        return Kind.DECIMAL, "1E+5000" if number > 0 else "-1E+5000"
    return Kind.WHOLE, int.__repr__(number)


def _double(value: float) -> Read:
    shown = float.__repr__(value)
    return _GAP if shown == "nan" else (Kind.DOUBLE, shown)


def _single(value: np.floating[Any]) -> Read:
    return _GAP if np.isnan(value) else (Kind.SINGLE, str(np.float32(value)))


def _half(value: np.floating[Any]) -> Read:
    return _GAP if np.isnan(value) else (Kind.HALF, str(np.float32(value)))


def _wide(value: np.floating[Any]) -> Read:
    return _GAP if np.isnan(value) else _UNREAD  # no column holds more than 64 bits


def _decimal(value: Decimal) -> Read:
    if Decimal.is_nan(value):
        return _GAP
    if not value:
        return Kind.DECIMAL, "0"
    if not Decimal.is_finite(value) or abs(Decimal.adjusted(value)) > 500 or len(Decimal.as_tuple(value).digits) > 500:
        return Kind.DECIMAL, Decimal.__str__(value)
    shown = Decimal.__format__(value, "f")
    whole, _, places = shown.partition(".")
    return Kind.DECIMAL, shown if places.strip("0") else whole


def _fraction(value: Fraction) -> Read:
    above, below = value.numerator, value.denominator
    if below == 1:
        return _whole(above)
    if below > _DENOMINATOR or above.bit_length() > _BITS:
        return _UNREAD
    # Two fractions of such denominators are farther apart than 10^-201, and one is farther than 10^-401 from every
    # point of a grid that it is not on: 420 places, rounded down, tell them apart and stay on their side.
    digits = above * 10**_PLACES // below
    shown = f"{abs(digits):0{_PLACES + 1}d}"
    return Kind.DECIMAL, f"{'-' * (digits < 0)}{shown[:-_PLACES]}.{shown[-_PLACES:].rstrip('0')}"


def _text(value: str) -> Read:
    shown = str.__str__(value)
    if not shown.isascii():
        shown.encode()  # half a letter raises, and is unreadable
    return (Kind.TEXT, shown) if len(shown) < _LONGEST else _UNREAD


def _bytes(value: bytes) -> Read:
    return Kind.BYTES, bytes.hex(value)


def _date(value: date) -> Read:
    return Kind.DATE, str(date.toordinal(value) - _EPOCH)


def _clock(total: int) -> str:
    day, rest = divmod(total, _DAY)
    return f"{min(max(day, -_FARTHEST), _FARTHEST)} {rest}"


def _moment(value: datetime) -> Read:
    at = datetime.time(value)
    seconds = (at.hour * 60 + at.minute) * 60 + at.second
    local = (date.toordinal(value) - _EPOCH) * _DAY + (seconds * 10**6 + at.microsecond) * 1000
    offset = datetime.utcoffset(value)
    if offset is None:
        return Kind.MOMENT, _clock(local)
    return Kind.ZONED, f"{_clock(local)} {_clock(local - offset // timedelta(microseconds=1) * 1000)}"


def _stamp(value: np.datetime64) -> Read:
    if np.isnat(value):
        return _GAP
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        return Kind.DATE, _clock(int(value.astype("datetime64[D]").astype(np.int64)) * _DAY).partition(" ")[0]
    shown = _clock(int(value.astype(np.int64)) * count * _UNITS[unit])  # finer units than nanoseconds: unreadable
    return (Kind.DATE, shown.partition(" ")[0]) if unit in ("W", "D") else (Kind.MOMENT, shown)


def _timestamp(value: Any) -> Read:
    universal = _stamp(value.asm8)
    if value.tz is None:
        return universal
    return Kind.ZONED, f"{_stamp(value.tz_localize(None).asm8)[1]} {universal[1]}"


_READERS: dict[type, Reader] = {
    NoneType: lambda _: _GAP,
    bool: _truth,
    str: _text,
    int: _whole,
    float: _double,
    Decimal: _decimal,
    Fraction: _fraction,
    datetime: _moment,
    date: _date,
    bytes: _bytes,
    np.bool_: _truth,
    np.integer: lambda value: _whole(value.item()),
    np.float16: _half,
    np.float32: _single,
    np.longdouble: _wide,
    np.datetime64: _stamp,
}
_PANDAS: dict[str, Reader] = {
    "NAType": _READERS[NoneType],
    "NaTType": _READERS[NoneType],
    "Timestamp": _timestamp,
}


def _reader(kind: type) -> Reader:
    """How objects of a type are read: as the first of its bases that is known."""
    if kind.__module__.partition(".")[0] == "pandas" and kind.__name__ in _PANDAS:
        return _PANDAS[kind.__name__]
    return next((_READERS[base] for base in type.mro(kind) if base in _READERS), lambda _: _UNREAD)


# Columns


def objects(values: list[object]) -> pl.Series:
    """The column of some objects."""
    found = _alike(values)
    return _each(values) if found is None else found


def _each(values: list[object]) -> pl.Series:
    kinds = np.zeros(len(values), np.uint8)
    texts: list[str | None] = [None] * len(values)
    readers: dict[type, Reader] = {}
    for i, value in enumerate(values):
        kind = type(value)
        try:
            if kind not in readers:
                readers[kind] = _reader(kind)
            kinds[i], texts[i] = readers[kind](value)
        except Exception:
            kinds[i] = Kind.UNREAD
    return _paired(kinds, pl.Series(texts, dtype=pl.String))


_ALIKE: dict[type, tuple[Kind, type[pl.DataType]]] = {
    str: (Kind.TEXT, pl.String),
    int: (Kind.WHOLE, pl.Int64),
    float: (Kind.DOUBLE, pl.Float64),
    bool: (Kind.TRUTH, pl.Boolean),
}


def _alike(values: list[object]) -> pl.Series | None:
    """The same without a loop, where objects are of one simple type or missing and polars can hold them all."""
    try:
        types = set(map(type, values)) - {NoneType}
    except Exception:  # a type may refuse to be compared
        return None
    if len(types) != 1 or (simple := types.pop()) not in _ALIKE:
        return None
    kind, dtype = _ALIKE[simple]
    if simple is int:  # polars writes an integer that it cannot hold to the terminal
        whole = [value for value in values if isinstance(value, int)]
        if min(whole) < -(1 << 63) or max(whole) >= 1 << 63:
            return None
    try:
        series = pl.Series(values, dtype=dtype, strict=True)
    except (Exception, pl.exceptions.PanicException):
        return None
    series = series.fill_nan(None) if kind is Kind.DOUBLE else series
    return _paired(np.where(series.is_null().to_numpy(), Kind.GAP, kind).astype(np.uint8), series.cast(pl.String))


def _paired(kinds: NDArray[np.uint8], texts: pl.Series) -> pl.Series:
    return pl.DataFrame({_KIND: kinds, _TEXT: texts}).to_struct("")


# Reading


class OfKind(NamedTuple):
    """The values of one kind, as a typed column."""

    kind: Kind
    rows: NDArray[np.intp]
    values: pl.Series


def _kinds(series: pl.Series) -> NDArray[np.uint8]:
    return series.struct.field(_KIND).fill_null(int(Kind.GAP)).to_numpy()


def parts(series: pl.Series, *, universal: bool = False) -> Iterator[OfKind]:
    """The values by kind, gaps and unreadable ones without theirs; moments with a zone on their own clock, or on the
    ``universal`` one."""
    kinds, texts = _kinds(series), series.struct.field(_TEXT)
    present = np.flatnonzero(np.bincount(kinds, minlength=len(Kind))).tolist()
    for found in present:
        kind = Kind(found) if found < len(Kind) else Kind.UNREAD
        rows = np.flatnonzero(kinds == found)
        yield OfKind(kind, rows, _typed(kind, texts if len(present) == 1 else texts.gather(rows), universal))


def _typed(kind: Kind, texts: pl.Series, universal: bool) -> pl.Series:
    if kind is Kind.TRUTH:
        return texts == "true"
    if kind in FLOATS:
        return texts.cast(pl.Float64 if kind is Kind.DOUBLE else pl.Float32)
    if kind is Kind.DATE:
        return texts.cast(pl.Int32).cast(pl.Date)
    if kind in (Kind.MOMENT, Kind.ZONED):
        words, first = texts.str.split(" "), 2 * (universal and kind is Kind.ZONED)
        fields = {name: words.list.get(first + i).cast(pl.Int64) for i, name in enumerate(("day", "nanosecond"))}
        return pl.DataFrame(fields).to_struct("")
    return texts


def by_kind(series: pl.Series, kinds: frozenset[Kind], read: Callable[[pl.Series], Encoded]) -> Encoded:
    """Each kind read as a typed column; other kinds than these are unreadable."""
    codes, verdicts = np.zeros(len(series), np.uint64), np.full(len(series), Verdict.UNREAD, np.uint8)
    for kind, rows, values in parts(series):
        if kind is Kind.GAP:
            verdicts[rows] = Verdict.MISSING
        elif kind in kinds:
            found, judged = read(values)
            codes[rows], verdicts[rows] = found, Verdict.GOOD if judged is None else judged
    return Encoded(codes, verdicts if verdicts.any() else None)


def unreadable(series: pl.Series, kinds: frozenset[Kind]) -> Bools:
    """Where there is a value, and of none of these kinds."""
    readable = np.zeros(1 << 8, np.bool_)
    readable[[Kind.GAP, *kinds]] = True
    return ~readable[_kinds(series)]
