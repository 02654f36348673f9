"""Any column as one polars series, without losing a digit.

numpy, Arrow, pandas and polars columns are taken as they are.  Python lists that polars would refuse (integers
beside fractions, integers beyond 128 bits) become text, which the domains read exactly.
"""

from __future__ import annotations

from decimal import Decimal
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from privpac.data.schema import Bools, quietly

__all__ = ["column", "holds_text", "missing", "numbers", "text"]


def column(values: Any, name: str) -> pl.Series:
    """One column of any kind as a polars series."""
    if isinstance(values, pl.Series) and values.dtype != pl.Object:
        return values
    return quietly(lambda: _coerce(values), f"column {name!r}: mixed or unsupported types; one kind of value per column is needed")


def _coerce(values: Any) -> pl.Series:
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in "biufOUSMT" or (values.dtype.itemsize > 8 and values.dtype.kind == "f"):
            raise TypeError
        if values.dtype.kind not in "OS":
            # float16 is exact in float32; polars would keep a type that few kernels know.
            return pl.Series(values.astype(np.float32) if values.dtype == np.float16 else values)
        return _objects(values.tolist())
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return pl.Series(values)
    if isinstance(values, (pl.Series, list, tuple)):
        return _objects(list(values))
    narwhal = nw.from_native(values, series_only=True)
    try:
        series = narwhal.to_polars()
    except Exception:
        return _objects(narwhal.to_list())
    return series if series.dtype != pl.Object else _objects(narwhal.to_list())


def _objects(values: list[Any]) -> pl.Series:
    """Python objects: polars where it agrees on a type, else numbers as exact text."""
    try:
        series = pl.Series(values, strict=True)
        if series.dtype != pl.Object:
            return series
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        pass
    return pl.Series([_as_text(v) for v in values], dtype=pl.String)


def _as_text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, (Integral, np.bool_)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError


def holds_text(dtype: pl.DataType) -> bool:
    """Whether values are read through their exact text: text itself, decimals, integers beyond 64 bits."""
    return dtype in (pl.String, pl.Decimal, pl.Int128, pl.UInt128, pl.Null) or isinstance(dtype, (pl.Categorical, pl.Enum))


def missing(series: pl.Series) -> Bools | None:
    """Mask of null values, ``None`` if there are none."""
    return series.is_null().to_numpy() if series.null_count() else None


def numbers(series: pl.Series) -> NDArray[Any]:
    """A boolean, integer or float series as a numpy array of 64 bits; nulls become 0 (or NaN)."""
    if series.dtype.is_float():
        wide = series.cast(pl.Float64)
        return (wide.fill_null(float("nan")) if wide.null_count() else wide).to_numpy()
    wide = series.cast(pl.Int64 if series.dtype.is_signed_integer() else pl.UInt64)
    return (wide.fill_null(0) if wide.null_count() else wide).to_numpy()


def text(series: pl.Series) -> pl.Series:
    """The canonical text of each value: integers in decimal, booleans true/false, dates as ISO; NaN becomes null.

    A whole number in a float column has the text of the integer, so that a column that became float because values
    were missing still matches.
    """
    if series.dtype.is_float():
        wide = series.cast(pl.Float64).fill_nan(None)
        whole = wide.cast(pl.Int64, strict=False)
        shown = pl.when(whole.cast(pl.Float64) == wide).then(whole.cast(pl.String))
        return pl.select(shown.otherwise(pl.when(wide.is_not_null()).then(series.cast(pl.String)))).to_series()
    if series.dtype == pl.Decimal:
        return series.cast(pl.String).str.replace(r"\.0*$", "")
    return series.cast(pl.String)
