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

Columns of integers are kept as 64-bit integers, all others as texts, which changes nothing about who is equal to whom.
In a column of Python objects each id has the text of its own type, whatever the other ids are; an object of another
type has none.
"""

from __future__ import annotations

from math import inf

import numpy as np
import polars as pl

from privpac.arrays import Bools
from privpac.data.columns import column, missing, moments, without_zeros
from privpac.data.objects import MOMENTS, OBJECTS, Kind, parts
from privpac.data.schema import wrong_type

SPOILT = (
    "are fractions or beyond 2^53 (2^24 in 32 bits, 2^11 in 16) in a float, or dates outside the years 1 to 9999, or "
    "objects of other types"
)
"""What is said of ids that are there and belong to nobody."""

_HALF, _SINGLE, _DOUBLE = 2.0**11, 2.0**24, 2.0**53
_EXACT = {"Float16": _HALF, "Float32": _SINGLE}


def as_ids(series: pl.Series, name: str) -> tuple[pl.Series, Bools | None, Bools | None]:
    """Ids as 64-bit integers or canonical text, the mask of missing ones (``None``: none is), and of those without a
    sure text."""
    dtype = series.dtype
    if dtype == OBJECTS:
        return _objects(series, name)
    if dtype.is_float():
        return _floats(series, _EXACT.get(str(dtype), _DOUBLE))
    if dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128):
        ids = series.cast(pl.Int64 if dtype.is_signed_integer() else pl.UInt64)
        return ids, missing(ids), None
    spoilt: Bools | None = None
    if dtype == pl.String or isinstance(dtype, (pl.Categorical, pl.Enum)):
        ids = composed(series.cast(pl.String))
    elif dtype in (pl.Int128, pl.UInt128, pl.Null, pl.Boolean):
        ids = series.cast(pl.String)
    elif dtype == pl.Decimal:
        ids = without_zeros(series.cast(pl.String))
    elif dtype == pl.Binary:
        ids = series.bin.encode("hex")
    elif dtype in (pl.Date, MOMENTS) or isinstance(dtype, pl.Datetime):
        ids, spoilt = moments(series)
        return ids, missing(series), spoilt
    else:
        raise wrong_type(name, dtype, "user ids that are integers or text are") from None
    return ids, (ids.is_null() | (ids == "").fill_null(False)).to_numpy(), None


def _objects(series: pl.Series, name: str) -> tuple[pl.Series, Bools, Bools]:
    """Each id by the rule of its own type."""
    ids = pl.repeat(None, len(series), dtype=pl.String, eager=True).alias(series.name)
    absent, spoilt = np.zeros(len(series), np.bool_), np.zeros(len(series), np.bool_)
    for kind, rows, values in parts(series, universal=True):
        if kind is Kind.GAP:
            absent[rows] = True
        elif kind is Kind.UNREAD:
            spoilt[rows] = True
        else:
            found, gone, lossy = _of_kind(kind, values, name)
            ids = ids.scatter(rows, found.cast(pl.String))
            absent[rows], spoilt[rows] = (False if mask is None else mask for mask in (gone, lossy))
    return ids, absent, spoilt


def _of_kind(kind: Kind, values: pl.Series, name: str) -> tuple[pl.Series, Bools | None, Bools | None]:
    if kind is Kind.HALF:
        return _floats(values, _HALF)
    if kind is Kind.DECIMAL:  # infinity, and exponents, of which one number has many
        return without_zeros(values), None, values.str.contains("[A-Za-z]").to_numpy()
    return as_ids(values, name)


def _floats(series: pl.Series, limit: float) -> tuple[pl.Series, Bools | None, Bools | None]:
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


def id_column(values: object, name: str) -> pl.Series:
    """A column of ids of any kind."""
    if isinstance(values, np.ndarray) and values.dtype == np.float16:
        # Wider types forget how many digits these had.
        with np.errstate(over="ignore"):
            return pl.Series(np.where(np.abs(values) >= _HALF, inf, values).astype(np.float32))
    return column(values, name)
