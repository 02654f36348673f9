"""Internet addresses read from bytes: the texts that ``inet_pton`` accepts, with an optional prefix length.

IPv4 is four decimal numbers 0..255 without leading zeros; IPv6 is up to eight groups of one to four hexadecimal digits,
one ``::`` for a run of zero groups, and perhaps an IPv4 address in place of the last two groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.data.columns import buffers
from privpac.data.jit import jit

__all__ = ["read_networks"]

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]


def read_networks(texts: pl.Series, bits: int) -> tuple[Words, Words, Ints]:
    """The upper and lower 64 bits of each address, left-aligned in 128, and the prefix length (-1: not an address)."""
    high, low, size = _read_all(*buffers(texts), bits)
    return high, low, size


@jit
def _read_all(ends: Any, data: Any, bits: int) -> tuple[Any, Any, Any]:
    n = len(ends) - 1
    high, low = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
    size = np.full(n, -1, dtype=np.int64)
    groups = np.zeros(8, dtype=np.uint64)
    for i in range(n):
        a, b = ends[i], ends[i + 1]
        slash = b
        for j in range(a, min(b, a + 64)):  # no address is longer
            if data[j] == 47:
                slash = j
                break
        length = bits
        if slash < b:
            length = _length(data, slash + 1, b, bits)
        if length < 0 or slash - a > 64:
            continue
        if bits == 32:
            number = _quad(data, a, slash)
            if number >= 0:
                high[i], size[i] = np.uint64(number) << np.uint64(32), length
        elif _groups(data, a, slash, groups):
            for k in range(4):
                high[i] = (high[i] << np.uint64(16)) | groups[k]
                low[i] = (low[i] << np.uint64(16)) | groups[k + 4]
            size[i] = length
    return high, low, size


@jit
def _length(data: Any, a: int, b: int, most: int) -> int:
    if b == a or b - a > 3:
        return -1
    out = 0
    for j in range(a, b):
        if data[j] < 48 or data[j] > 57:
            return -1
        out = 10 * out + data[j] - 48
    return out if out <= most else -1


@jit
def _quad(data: Any, a: int, b: int) -> int:
    """Four decimal numbers as one, or -1."""
    out, part, digits, dots = 0, 0, 0, 0
    for j in range(a, b):
        c = int(data[j])
        if c == 46:
            if digits == 0 or dots == 3:
                return -1
            out, part, digits, dots = out * 256 + part, 0, 0, dots + 1
        elif c >= 48 and c <= 57:
            if digits > 0 and part == 0:
                return -1
            part, digits = 10 * part + c - 48, digits + 1
            if part > 255:
                return -1
        else:
            return -1
    return out * 256 + part if dots == 3 and digits > 0 else -1


@jit
def _groups(data: Any, a: int, b: int, out: Any) -> bool:
    """Eight groups of an IPv6 address; false if the bytes are none."""
    out[:] = 0
    count, gap, j = 0, -1, a
    if b - a >= 2 and data[a] == 58 and data[a + 1] == 58:
        gap, j = 0, a + 2
    while j < b:
        value, digits, start = np.uint64(0), 0, j
        while j < b and data[j] != 58 and data[j] != 46:
            c = int(data[j])
            digit = (
                c - 48
                if c >= 48 and c <= 57
                else c - 55
                if c >= 65 and c <= 70
                else c - 87
                if c >= 97 and c <= 102
                else -1
            )
            if digit < 0 or digits == 4:
                return False
            value, digits, j = (value << np.uint64(4)) | np.uint64(digit), digits + 1, j + 1
        if j < b and data[j] == 46:
            number = _quad(data, start, b)
            if number < 0 or count > 6:
                return False
            out[count], out[count + 1] = np.uint64(number >> 16), np.uint64(number & 0xFFFF)
            count, j = count + 2, b
            break
        if digits == 0 or count == 8:
            return False
        out[count] = value
        count += 1
        if j < b:
            j += 1
            if j == b:
                return False  # a single colon at the end
            if data[j] == 58:
                if gap >= 0:
                    return False
                gap, j = count, j + 1
    if gap < 0:
        return count == 8
    if count == 8:
        return False  # the run must stand for a group
    moved = count - gap
    for k in range(moved):
        out[7 - k] = out[count - 1 - k]
    for k in range(gap, 8 - moved):
        out[k] = 0
    return True
