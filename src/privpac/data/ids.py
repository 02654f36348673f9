"""Who is the same person.

Two ids are the same person if and only if their *canonical texts* are equal, whatever table, engine or type they come
in.  A person split in two breaks the promise, two people merged break the answer; so an id without one sure text is
refused, never guessed.

===========================  =====================================================================================
an id that is                has the canonical text
===========================  =====================================================================================
an integer                   plain decimal: ``7``, ``-7``, ``0``
a float, whole and exact     that integer, ``-0.0`` is ``0``; *exact*: below 2^53, 2^24 in 32 bits, 2^11 in 16 bits
any other float              none, refused: several people share it
a decimal                    that integer if it is whole, otherwise without trailing zeros: ``1.50`` is ``1.5``
a text, a category           its NFC form, otherwise as it is (``01``, ``1`` and ``1.0`` are three texts)
a boolean                    ``true``, ``false``
bytes                        their digits in base 16
a date                       ``2020-12-31``; years 1 to 9999, others are refused
a date with a time           ``2020-12-31 23:59:59.5``, in UTC if it has a time zone; at midnight that date
nothing, NaN, an empty text  none: nobody
===========================  =====================================================================================

Columns are kept as 64-bit integers where all their texts are integers, which changes nothing about who is equal to
whom.
"""

from __future__ import annotations

from decimal import Decimal
from math import inf
from numbers import Integral
from typing import Any

import numpy as np
import polars as pl

from privpac.data.columns import column, missing, moments
from privpac.data.schema import Bools, quietly, wrong_type

__all__ = ["SPOILT", "as_ids", "composed", "id_column"]

SPOILT = (
    "are fractions or beyond 2^53 (2^24 in 32 bits, 2^11 in 16) in a float column, or dates outside the years 1 to 9999"
)
"""What is said of ids that are there and belong to nobody."""

_HALF, _SINGLE, _DOUBLE = 2.0**11, 2.0**24, 2.0**53
_EXACT = {"Float16": _HALF, "Float32": _SINGLE}
_DIGITS = 4096


def as_ids(series: pl.Series, name: str) -> tuple[pl.Series, Bools | None, Bools | None]:
    """Ids as 64-bit integers or canonical text, the mask of missing ones (``None``: none is), and of those without a
    sure text."""
    dtype = series.dtype
    if dtype.is_float():
        return _floats(series)
    if dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128):
        ids = series.cast(pl.Int64 if dtype.is_signed_integer() else pl.UInt64)
        return ids, missing(ids), None
    spoilt: Bools | None = None
    if dtype == pl.String or isinstance(dtype, (pl.Categorical, pl.Enum)):
        ids = composed(series.cast(pl.String))
    elif dtype in (pl.Int128, pl.UInt128, pl.Null, pl.Boolean):
        ids = series.cast(pl.String)
    elif dtype == pl.Decimal:
        digits = series.cast(pl.String)
        ids = pl.select(
            pl.when(digits.str.contains(".", literal=True)).then(_trimmed(digits)).otherwise(digits)
        ).to_series()
    elif dtype == pl.Binary:
        ids = series.bin.encode("hex")
    elif dtype == pl.Date or isinstance(dtype, pl.Datetime):
        ids, spoilt = moments(series)
        return ids, missing(series), spoilt
    else:
        raise wrong_type(name, dtype, "user ids that are integers or text are") from None
    return ids, (ids.is_null() | (ids == "").fill_null(False)).to_numpy(), None


def _trimmed(digits: pl.Series) -> pl.Series:
    return digits.str.strip_chars_end("0").str.strip_chars_end(".")


def _floats(series: pl.Series) -> tuple[pl.Series, Bools | None, Bools | None]:
    limit = _EXACT.get(str(series.dtype), _DOUBLE)
    wide = series.cast(pl.Float64).fill_nan(None)
    whole = wide.cast(pl.Int64, strict=False)
    # From the limit on several integers share one float, so that two people may share one id.
    lossy = ((whole.cast(pl.Float64) != wide) | (wide.abs() >= limit)).fill_null(True) & wide.is_not_null()
    return whole, missing(wide), lossy.to_numpy()


def composed(texts: pl.Series) -> pl.Series:
    """Texts in NFC form; the same series where every character is ASCII, which has one form only."""
    if int(texts.str.len_bytes().sum()) == int(texts.str.len_chars().sum()):
        return texts
    # No character below U+0300 combines with anything or is written in another way.
    doubtful = texts.filter(texts.str.contains(r"[^\x{0}-\x{2FF}]").fill_null(False)).unique()
    forms = doubtful.str.normalize("NFC")
    changed = doubtful != forms
    return texts.replace(doubtful.filter(changed), forms.filter(changed)) if changed.any() else texts


# Python objects, which may differ in type from row to row


def id_column(values: Any, name: str) -> pl.Series:
    """A column of ids of any kind; numbers of several types in one column become the integers that they are."""
    if isinstance(values, np.ndarray) and values.dtype == np.float16:
        # Wider types forget how many digits these had.
        with np.errstate(over="ignore"):
            return pl.Series(np.where(np.abs(values) >= _HALF, inf, values).astype(np.float32))
    objects = _objects(values)
    kinds = set() if objects is None else set(map(type, objects)) - {type(None)}
    if objects is None or (len(kinds) == 1 and not issubclass(next(iter(kinds)), (np.float16, np.float32))):
        return column(values, name)
    if not all(issubclass(kind, (Integral, float, np.floating, Decimal)) for kind in kinds if not _is_gap(kind)):
        return column(values, name)
    return quietly(
        lambda: _numbers(objects),
        f"column {name!r}: mixed or unsupported types; one kind of value per column is needed",
    )


def _objects(values: Any) -> list[Any] | None:
    """The rows of a list or of an array or series of Python objects, ``None`` for a typed column."""
    if isinstance(values, (list, tuple)):
        return list(values)
    if isinstance(values, pl.Series):
        return values.to_list() if values.dtype == pl.Object else None
    return list(values) if getattr(values, "dtype", None) == np.dtype(object) else None


def _is_gap(kind: type) -> bool:
    return kind.__name__ in ("NAType", "NaTType")


def _numbers(objects: list[Any]) -> pl.Series:
    found = [_number(value) for value in objects]
    if inf in found and all(
        value is None or value == inf or (isinstance(value, int) and abs(value) < _DOUBLE) for value in found
    ):
        return pl.Series([None if value is None else float(value) for value in found], dtype=pl.Float64)
    texts = pl.Series([None if value is None or value == inf else str(value) for value in found], dtype=pl.String)
    whole = texts.cast(pl.Int64, strict=False)
    return whole if whole.null_count() == texts.null_count() else texts


def _number(value: Any) -> int | float | str | None:
    """An integer, a decimal fraction as text, infinity for a number that is nobody's alone, ``None`` where there is
    none."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    if value is None or _is_gap(type(value)) or value != value:
        return None
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > _DIGITS:
            return inf
        shown = format(value, "f")
        shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
        return shown if "." in shown else int(shown)
    limit = _HALF if isinstance(value, np.float16) else _SINGLE if isinstance(value, np.float32) else _DOUBLE
    return int(value) if abs(value) < limit and value == int(value) else inf
