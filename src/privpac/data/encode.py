"""Columns to codes, exactly and without a Python loop over rows.

A :class:`Ladder` is an arithmetic progression of decimals, ``(start + stride * k) / 10**places`` for
``k = 0..size-1``; whole numbers, grids and days are ladders.  All comparisons are exact:

* integers: 64-bit two's complement, where ``code = value - start`` modulo 2**64 is the true difference because the
  value was found inside the range first;
* floats on a decimal ladder mean their shortest decimal.  If every numerator has at most 15 digits and
  ``places <= 22``, numerator and ``10**places`` are exact doubles, so their quotient is the double nearest to the
  ladder's point; distinct decimals of 15 digits have distinct nearest doubles, hence a float sits on the point whose
  nearest double it equals, and on no other.  Otherwise the distinct values are read one by one as rationals;
* text and decimals: through the distinct values, as rationals.

Codes of values outside or off the ladder are those of ``clamp``: the nearest end, the point below.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import inf, nextafter
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.arrays import Array, Bytes, Words
from privpac.data.columns import holds_text, missing, numbers
from privpac.data.grouping import dictionary
from privpac.data.loops import jit
from privpac.data.schema import Encoded, Verdict, wrong_type

_LIMIT = 4096  # digits and exponents beyond this are far outside every domain


class Ladder(NamedTuple):
    """The points ``(start + stride * k) / 10**places``, ``k = 0..size-1``."""

    start: int
    stride: int
    places: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.stride * (self.size - 1)

    def place(self, number: Fraction) -> tuple[int, Verdict]:
        """Code and verdict of one exact number."""
        scaled = number * 10**self.places
        if scaled < self.start:
            return 0, Verdict.OUTSIDE
        if scaled > self.end:
            return self.size - 1, Verdict.OUTSIDE
        code, rest = divmod(scaled - self.start, self.stride)
        return code, Verdict.OFF if rest else Verdict.GOOD


def on_ladder(series: pl.Series, ladder: Ladder, name: str) -> Encoded:
    """Encode numbers, booleans, decimals or text on a ladder."""
    dtype = series.dtype
    if holds_text(dtype):
        return _text_on_ladder(series.cast(pl.String), ladder)
    if dtype.is_float():
        return _with_missing(_floats_on_ladder(numbers(series), ladder, single=dtype == pl.Float32), series)
    if dtype == pl.Boolean or dtype.is_integer():
        fits = max(abs(ladder.start), abs(ladder.end)) < 1 << 62
        if ladder.places == 0 and ladder.stride == 1:
            return (
                _all_on(series, ladder)
                if covers(series, ladder)
                else _with_missing(_whole(numbers(series), ladder), series)
            )
        if fits:
            return _with_missing(_integers_on_grid(numbers(series), ladder), series)
        return _text_on_ladder(series.cast(pl.Int64 if dtype == pl.Boolean else dtype).cast(pl.String), ladder)
    raise wrong_type(name, dtype, "numbers are") from None


def _with_missing(encoded: Encoded, series: pl.Series) -> Encoded:
    null = missing(series)
    if null is None:
        return encoded
    verdicts = np.zeros(len(null), np.uint8) if encoded.verdicts is None else encoded.verdicts
    verdicts[null] = Verdict.MISSING
    return Encoded(encoded.codes, verdicts)


# Integer columns


def covers(series: pl.Series, ladder: Ladder) -> bool:
    """Whether the values are integers, all there and all on a ladder of whole numbers: two looks at the column as it is
    stored.

    numpy looks, since it knows nothing but the values; polars would believe what a file says about their order.
    """
    if (
        not series.dtype.is_integer()
        or holds_text(series.dtype)
        or series.null_count()
        or ladder.places
        or ladder.stride != 1
    ):
        return False
    values = series.to_numpy()
    return not len(values) or (ladder.start <= int(values.min()) and int(values.max()) <= ladder.end)


def _all_on(series: pl.Series, ladder: Ladder) -> Encoded:
    """Codes of values that are all on the ladder; where these are the codes, the column's own memory, not to be
    written to."""
    values = series.to_numpy()
    wide = np.int64 if series.dtype.is_signed_integer() else np.uint64
    if ladder.start == 0 and not values.flags.writeable:
        return Encoded(values.astype(wide, copy=False).view(np.uint64), None)
    codes: Words = values.astype(wide).view(np.uint64)
    codes -= np.uint64(ladder.start % (1 << 64))
    return Encoded(codes, None)


def _whole(values: Array, ladder: Ladder) -> Encoded:
    codes: Words = values.view(np.uint64) - np.uint64(ladder.start % (1 << 64))
    below, above = values < ladder.start, values > ladder.end
    if not (below.any() or above.any()):
        return Encoded(codes, None)
    codes[below], codes[above] = 0, ladder.size - 1
    return Encoded(codes, (below | above).astype(np.uint8) * np.uint8(Verdict.OUTSIDE))


def _integers_on_grid(values: Array, ladder: Ladder) -> Encoded:
    unit = 10**ladder.places
    below, above = values < -(-ladder.start // unit), values > ladder.end // unit
    outside = below | above
    # Inside the range |value| * unit <= max(|start|, |end|) < 2**62, so int64 does not overflow; a unit that large
    # itself leaves only the value 0 inside, for which any factor will do.
    inside = np.where(outside, 0, values).astype(np.int64)
    codes, rest = np.divmod(inside * np.int64(min(unit, 1 << 62)) - np.int64(ladder.start), np.int64(ladder.stride))
    verdicts = np.where(outside, Verdict.OUTSIDE, np.where(rest != 0, Verdict.OFF, Verdict.GOOD)).astype(np.uint8)
    codes = codes.astype(np.uint64)
    codes[below], codes[above] = 0, ladder.size - 1
    return Encoded(codes, verdicts)


# Float columns


def _floats_on_ladder(values: NDArray[np.float64], ladder: Ladder, *, single: bool) -> Encoded:
    if ladder.places == 0 and ladder.stride == 1:
        return _floats_whole(values, ladder)
    digits, places = (10**6, 8) if single else (10**15, 22)
    if max(abs(ladder.start), abs(ladder.end)) <= digits and ladder.places <= places:
        return _floats_on_grid(values, ladder, np.float32 if single else np.float64)
    distinct, inverse = np.unique(values, return_inverse=True)
    # numpy writes a float of either width as its shortest decimal.
    table = [read_number(str(x), ladder) for x in (distinct.astype(np.float32) if single else distinct)]
    codes, verdicts = _columns(table)
    return Encoded(codes[inverse], verdicts[inverse])


def _columns(table: list[tuple[int, Verdict]]) -> tuple[Words, Bytes]:
    return np.array([code for code, _ in table], np.uint64), np.array([verdict for _, verdict in table], np.uint8)


def _floats_whole(values: NDArray[np.float64], ladder: Ladder) -> Encoded:
    # The extreme doubles inside the range, so that comparing doubles compares the integers exactly.
    least, most = float(ladder.start), float(ladder.end)
    least = nextafter(least, inf) if int(least) < ladder.start else least
    most = nextafter(most, -inf) if int(most) > ladder.end else most
    inside = (values >= least) & (values <= most)
    floor = np.floor(np.where(inside, values, 0.0))
    negative = floor < 0
    words: Words = np.where(negative, 0.0, floor).astype(np.uint64)
    words[negative] = floor[negative].astype(np.int64).view(np.uint64)
    codes: Words = words - np.uint64(ladder.start % (1 << 64))
    codes[~inside], codes[values > most] = 0, ladder.size - 1  # NaN is neither below nor above
    off = inside & (floor != values)
    return Encoded(codes, _float_verdicts(values, inside, off))


def _floats_on_grid(values: NDArray[np.float64], ladder: Ladder, width: type[np.floating[Any]]) -> Encoded:
    unit = float(10**ladder.places)
    least, most = float(width(ladder.start / unit)), float(width(ladder.end / unit))
    inside = (values >= least) & (values <= most)
    shown = np.where(inside, values, least)
    # |shown * unit| <= 10**15 < 2**50 with relative error below 2**-51: off by less than 1/2 + 1/4 after rounding.
    nearest = np.rint(shown * unit)
    point = (nearest / unit).astype(width).astype(np.float64)
    floor = nearest.astype(np.int64) - (shown < point)
    codes, rest = np.divmod(floor - np.int64(ladder.start), np.int64(ladder.stride))
    codes = codes.astype(np.uint64)
    codes[values < least], codes[values > most] = 0, ladder.size - 1
    off = inside & ((shown != point) | (rest != 0))
    return Encoded(codes, _float_verdicts(values, inside, off))


def _float_verdicts(values: NDArray[np.float64], inside: NDArray[np.bool_], off: NDArray[np.bool_]) -> Bytes | None:
    if inside.all() and not off.any():
        return None
    verdicts = np.where(inside, Verdict.GOOD, Verdict.OUTSIDE).astype(np.uint8)
    verdicts[off] = Verdict.OFF
    verdicts[np.isnan(values)] = Verdict.MISSING
    return verdicts


# Text columns


def _text_on_ladder(series: pl.Series, ladder: Ladder) -> Encoded:
    if ladder.places == 0 and ladder.stride == 1:
        whole = series.cast(pl.Int64, strict=False)
        # The same numbers as below, only faster: polars reads plain integers, and those of any length.
        if whole.null_count() == series.null_count() and (series.str.len_bytes().max() or 0) <= _LIMIT:  # type: ignore[operator]
            return _with_missing(_whole(numbers(whole), ladder), series)
    return by_distinct_text(series, lambda shown: read_number(shown, ladder))


def by_distinct_text(series: pl.Series, read: Callable[[str], tuple[int, Verdict]]) -> Encoded:
    """Read every distinct text once."""
    rows, distinct = dictionary(series)
    table = [read(shown) for shown in distinct] + [(0, Verdict.MISSING)]  # missing is -1, the last
    codes, verdicts = _columns(table)
    return Encoded(codes[rows], verdicts[rows])


def read_number(shown: str, ladder: Ladder) -> tuple[int, Verdict]:
    """One decimal text; ``nan`` is missing, ``inf`` is outside."""
    shown = shown.strip()
    try:
        if not shown.isascii() or "_" in shown or len(shown) > _LIMIT:
            return 0, Verdict.UNREAD
        number = Decimal(shown)
    except InvalidOperation:
        return 0, Verdict.UNREAD
    if number.is_nan():
        return 0, Verdict.MISSING
    if number.is_infinite() or (number and number.adjusted() > _LIMIT):
        return ladder.size - 1 if number > 0 else 0, Verdict.OUTSIDE
    if number and number.adjusted() < -_LIMIT:
        number = Decimal(1 if number > 0 else -1).scaleb(-_LIMIT)
    return ladder.place(Fraction(number))


# Floats: the sort key of the bits


@jit
def float_keys(values: NDArray[np.float64], bits: Words, codes: Words, verdicts: Bytes) -> int:
    """Sort key: ``bits + 2**63`` if the sign is clear, ``~bits`` otherwise, after -0.0 became 0.0."""
    top, low = np.uint64(1 << 63), np.uint64(0x0010000000000000)
    high, sign = np.uint64(0xFFEFFFFFFFFFFFFF), np.uint64(63)
    invalid = 0
    for i in range(values.size):
        b = bits[i]
        if values[i] == 0.0:
            codes[i] = top
        else:
            codes[i] = b ^ top if (b >> sign) == 0 else ~b
        if not np.isfinite(values[i]):
            invalid += 1
            verdicts[i] = 1 if np.isnan(values[i]) else 2
            codes[i] = high if values[i] > 0 else low
    return invalid


def on_floats(series: pl.Series, name: str) -> Encoded:
    """Encode on the domain of all 64-bit floats; integers must be exact there, or are off (clamped to the float
    below)."""
    dtype = series.dtype
    off: NDArray[np.bool_] | None = None
    unread: NDArray[np.bool_] | None = None
    if holds_text(dtype):
        shown = series.cast(pl.String).str.strip_chars()
        read = shown.cast(pl.Float64, strict=False)
        unread = (read.is_null() & shown.is_not_null()).to_numpy()
        values = numbers(read)
        big = (np.abs(values) >= 2.0**53) & shown.str.contains(r"^[+-]?\d+$").fill_null(False).to_numpy()
        if big.any():
            values, off = _exact_texts(values.copy(), shown, np.flatnonzero(big))
    elif dtype.is_float():
        values = numbers(series)
    elif dtype == pl.Boolean or dtype.is_integer():
        values, off = _exact_floats(numbers(series))
    else:
        raise wrong_type(name, dtype, "numbers are") from None
    codes, verdicts = np.empty(len(values), np.uint64), np.zeros(len(values), np.uint8)
    values = np.ascontiguousarray(values)
    clean = float_keys(values, values.view(np.uint64), codes, verdicts) == 0
    for mask, verdict in ((off, Verdict.OFF), (unread, Verdict.UNREAD)):
        if mask is not None and mask.any():
            verdicts[mask], clean = verdict, False
    return _with_missing(Encoded(codes, None if clean else verdicts), series)


def _exact_floats(values: Array) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    floats = values.astype(np.float64)
    if not len(values) or (int(values.max()) <= 1 << 53 and int(values.min()) >= -(1 << 53)):
        return floats, None
    top = 2.0**63 if values.dtype == np.int64 else 2.0**64
    over = floats >= top  # rounded up past every value of the type
    back = np.where(over, 0.0, floats).astype(values.dtype)
    floats = np.where(over | (back > values), np.nextafter(floats, -inf), floats)
    return floats, over | (back != values)


def _exact_texts(
    values: NDArray[np.float64], shown: pl.Series, rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Integer literals from 2**53 on: off unless the float is that integer."""

    def read(literal: str) -> tuple[int, Verdict]:
        nearest = float(literal)
        exact = nearest if nearest in (inf, -inf) else Decimal(literal)  # int() refuses 4,300 zeros
        below = nextafter(nearest, -inf) if nearest > exact else nearest
        return int(np.float64(below).view(np.uint64)), Verdict.GOOD if nearest == exact else Verdict.OFF

    bits, verdicts = by_distinct_text(shown.gather(rows), read)
    off = np.zeros(len(values), np.bool_)
    off[rows] = verdicts == Verdict.OFF
    values[rows] = bits.view(np.float64)
    return values, off
