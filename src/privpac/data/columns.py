"""Any column as one polars series, without losing a digit.

numpy, Arrow, pandas and polars columns are taken as they are: their type is schema.  Columns of Python objects have no
type and get none here: they become :data:`privpac.data.objects.OBJECTS`, whatever they hold.

Values are taken, claims about them are not.  A file can say that a column is sorted; polars then finds least and
largest values, compares and searches by looking at a few rows.  So every series that enters goes through :func:`plain`,
and Arrow's arrays, whose texts and dictionary indices nobody has checked, through :func:`sound`.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.arrays import Array, Bools, Bytes
from privpac.data.objects import MOMENTS, NAMED, OBJECTS, objects, parts, unreadable
from privpac.data.schema import Verdict, quietly, wrong_type
from privpac.errors import SchemaError
from privpac.lazy import need

_PER_DAY = {"ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_FIRST_DAY, _LAST_DAY = (
    date.min.toordinal() - date(1970, 1, 1).toordinal(),
    date.max.toordinal() - date(1970, 1, 1).toordinal(),
)
_WIDEST = (1 << 63) - 1
_PIECE = 1 << 16
_DIGITS = 38
"""The most digits of a decimal that polars holds."""


def plain(series: pl.Series) -> pl.Series:
    """The same memory without what polars was told about its order."""
    if not any(series.flags.values()):
        return series
    # The fields of a struct are bare arrays.
    return series.alias("").to_frame().to_struct().struct.field("").alias(series.name)


def sound(values: Any) -> Any:
    """Arrow arrays, batches or tables whose offsets, texts and dictionary indices are what they must be; raises
    otherwise."""
    values.validate(full=True)
    return values


def check_arrow(kind: object, name: str) -> None:
    """Refuse decimals of more digits than polars holds, wherever they are in a type of Arrow."""
    if "decimal256" not in str(kind):
        return
    digits = [int(found) for found in re.findall(r"decimal256\((\d+)", str(kind))]
    if max(digits, default=0) > _DIGITS:
        raise SchemaError(
            f"column {name!r} has decimals of {max(digits)} digits; at most {_DIGITS} are read: store fewer digits, or "
            "text"
        )


def arrow_frame(table: Any) -> pl.DataFrame:
    """A batch or table of Arrow, column by column, as single columns are read."""
    return pl.DataFrame([_from_arrow(table.column(name)).alias(name) for name in table.schema.names])


def _from_arrow(values: Any) -> pl.Series:
    pa = need("pyarrow", "reading Arrow's columns")
    kind = values.type
    # polars has no wide decimals, but those of up to 38 digits fit its own; days in milliseconds it takes for moments.
    if pa.types.is_decimal256(kind):
        values = values.cast(pa.decimal128(kind.precision, kind.scale))
    elif pa.types.is_date64(kind):
        # Days beyond 32 bits are as far from every calendar as the last one of 32.
        days = pl.Series(sound(values).cast(pa.int64())) // _PER_DAY["ms"]
        return days.clip(-(1 << 31), (1 << 31) - 1).cast(pl.Int32).cast(pl.Date)
    return pl.Series(sound(values))


def column(values: Any, name: str) -> pl.Series:
    """One column of any kind as a polars series."""
    if isinstance(values, pl.Series) and values.dtype != pl.Object:
        return plain(values)
    if type(values).__module__.partition(".")[0] == "pyarrow":
        check_arrow(values.type, name)
    return quietly(
        lambda: plain(_coerce(values)),
        f"column {name!r} cannot be read: its type is none of numbers, texts, booleans and dates, or it is damaged",
    )


def _coerce(values: Any) -> pl.Series:
    if isinstance(values, np.ndarray):
        if (
            values.ndim != 1
            or values.dtype.kind not in "biufOUSMT"
            or (values.dtype.itemsize > 8 and values.dtype.kind == "f")
        ):
            raise TypeError
        if values.dtype.kind in "OUT":  # texts of numpy may hold half a letter, which polars cannot
            return objects(values.tolist())
        if values.dtype.kind == "S":
            return pl.Series(values.tolist(), dtype=pl.Binary)
        # float16 is exact in float32; polars would keep a type that few kernels know.
        return pl.Series(values.astype(np.float32) if values.dtype == np.float16 else values)
    if type(values).__module__.partition(".")[0] == "pyarrow":
        return _from_arrow(values)
    if isinstance(values, (list, tuple)):
        return objects(list(values))
    if isinstance(values, pl.Series):
        return objects(values.to_list())
    dtype = values.dtype
    if dtype == np.dtype(object) or getattr(dtype, "storage", None) == "python":
        return objects(values.to_numpy(dtype=object).tolist())
    listed = getattr(getattr(dtype, "categories", None), "dtype", None)
    if listed is not None and (listed == np.dtype(object) or getattr(listed, "storage", None) == "python"):
        # every category once, and a gap for -1 at the end
        return objects([*dtype.categories, None]).gather(
            values.cat.codes.to_numpy().astype(np.int64) % (len(dtype.categories) + 1)
        )
    typed: pl.Series = nw.from_native(values, series_only=True).to_polars()
    return typed


def holds_text(dtype: pl.DataType) -> bool:
    """Whether values are read through their exact text: text itself, decimals, integers beyond 64 bits."""
    return dtype in (pl.String, pl.Decimal, pl.Int128, pl.UInt128, pl.Null) or isinstance(
        dtype, (pl.Categorical, pl.Enum)
    )


def buffers(texts: pl.Series) -> tuple[NDArray[np.int64], Bytes]:
    """Where each text begins (and the last ends), and the UTF-8 bytes of all; a missing one is empty."""
    sizes = texts.str.len_bytes().fill_null(0).to_numpy()
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    # one text of polars holds less than 2^32 bytes
    parts = [texts.slice(first, _PIECE).str.join("").item() for first in range(0, len(texts), _PIECE)]
    return ends, np.frombuffer("".join(parts).encode(), np.uint8)


def missing(series: pl.Series) -> Bools | None:
    """Mask of null values, ``None`` if there are none."""
    return series.is_null().to_numpy() if series.null_count() else None


def numbers(series: pl.Series) -> Array:
    """A boolean, integer or float series as a numpy array of 64 bits; nulls become 0 (or NaN)."""
    if series.dtype.is_float():
        wide = series.cast(pl.Float64)
        return (wide.fill_null(float("nan")) if wide.null_count() else wide).to_numpy()
    wide = series.cast(pl.Int64 if series.dtype.is_signed_integer() else pl.UInt64)
    return (wide.fill_null(0) if wide.null_count() else wide).to_numpy()


def text(series: pl.Series) -> pl.Series:
    """The canonical text of each value: integers in decimal, booleans true/false, dates as ISO; NaN becomes null.

    A whole number in a float column has the text of the integer, so that a column that became float because values
    were missing still matches.  Objects have the text of their own kind, null where they have none.
    """
    if series.dtype == OBJECTS:
        return _object_texts(series)
    if series.dtype.is_float():
        wide = series.cast(pl.Float64).fill_nan(None)
        whole = wide.cast(pl.Int64, strict=False)
        shown = pl.when(whole.cast(pl.Float64) == wide).then(whole.cast(pl.String))
        return pl.select(shown.otherwise(pl.when(wide.is_not_null()).then(series.cast(pl.String)))).to_series()
    if series.dtype == pl.Decimal:
        return without_zeros(series.cast(pl.String))
    if series.dtype == pl.Date or isinstance(series.dtype, pl.Datetime):
        return moments(series)[0]
    return series.cast(pl.String)


def without_zeros(digits: pl.Series) -> pl.Series:
    """Decimals without trailing zeros: how many there are is the type's scale, which a reader may have found from
    everybody's values."""
    shorter = digits.str.strip_chars_end("0").str.strip_chars_end(".")
    return pl.select(pl.when(digits.str.contains(".", literal=True)).then(shorter).otherwise(digits)).to_series()


def _object_texts(series: pl.Series) -> pl.Series:
    found = [(rows, text(values)) for kind, rows, values in parts(series) if kind in NAMED]
    if len(found) == 1 and len(found[0][0]) == len(series):
        return found[0][1]
    shown = pl.repeat(None, len(series), dtype=pl.String, eager=True)
    for rows, texts in found:
        shown = shown.scatter(rows, texts)
    return shown


def named_texts(series: pl.Series, name: str) -> tuple[pl.Series, Bytes | None]:
    """The canonical texts of a column that has any, and a verdict each (``None``: all are there)."""
    dtype = series.dtype
    if not (holds_text(dtype) or dtype.is_numeric() or dtype in (pl.Boolean, pl.Date, OBJECTS)):
        raise wrong_type(name, dtype, "texts, integers or booleans are") from None
    shown = text(series)
    if not shown.null_count():
        return shown, None
    verdicts = shown.is_null().to_numpy().astype(np.uint8) * np.uint8(Verdict.MISSING)
    if dtype == OBJECTS:
        verdicts[unreadable(series, NAMED)] = Verdict.UNREAD
    return shown, verdicts


def moments(series: pl.Series) -> tuple[pl.Series, Bools]:
    """Dates and times as ISO text (in UTC; midnight is the date), and the mask of those outside the years 1 to 9999,
    which are null.

    The stored numbers are judged first, because a calendar that is asked about other years may end the process.
    """
    if series.dtype == MOMENTS:
        day, rest = series.struct.field("day"), series.struct.field("nanosecond")
        shown, outside = moments(day.clip(_FIRST_DAY - 1, _LAST_DAY + 1).cast(pl.Int32).cast(pl.Date))
        times = rest.cast(pl.Time).dt.to_string(" %H:%M:%S%.9f").str.strip_chars_end("0").str.strip_chars_end(".")
        return shown + pl.select(pl.when(rest != 0).then(times).otherwise(pl.lit(""))).to_series(), outside
    dtype, stamps = series.dtype, series.to_physical()
    per_day = _PER_DAY[dtype.time_unit] if isinstance(dtype, pl.Datetime) else 1
    least, most = max(_FIRST_DAY * per_day, -_WIDEST), min((_LAST_DAY + 1) * per_day - 1, _WIDEST)
    good = (stamps >= least) & (stamps <= most)
    kept = pl.select(pl.when(good).then(stamps)).to_series()
    outside = (~good).fill_null(False).to_numpy()
    if not isinstance(dtype, pl.Datetime):
        return kept.cast(pl.Date).dt.to_string("%Y-%m-%d"), outside
    shown = kept.cast(pl.Datetime(dtype.time_unit)).dt.to_string("%Y-%m-%d %H:%M:%S%.9f")
    return shown.str.strip_chars_end("0").str.strip_chars_end(".").str.strip_suffix(" 00:00:00"), outside


def days(series: pl.Series) -> tuple[pl.Series, Bools]:
    """The day of each moment on its own clock, counted from 1970, and whether it has a time of day; null where there is
    no moment."""
    if series.dtype == MOMENTS:
        return series.struct.field("day"), (series.struct.field("nanosecond") != 0).to_numpy()
    dtype, stamps = series.dtype, series.to_physical()
    assert isinstance(dtype, pl.Datetime)
    per_day = _PER_DAY[dtype.time_unit]
    if dtype.time_zone is not None:
        reach = min(4 * _LAST_DAY * per_day, _WIDEST)  # beyond it no clock matters, and calendars end
        near = pl.select(pl.when((stamps >= -reach) & (stamps <= reach)).then(series)).to_series()
        stamps = pl.select(pl.coalesce(near.dt.replace_time_zone(None).to_physical(), stamps)).to_series()
    return stamps // per_day, (stamps % per_day != 0).fill_null(False).to_numpy()
