"""Public words, logarithms and clocks, to the last bit.

Users agree on an item only if their devices agree on every bit of the arithmetic that chose it, so everything here is
defined on integers; no floating point takes part.  ``ilog2`` is a base-2 logarithm with 56 fraction bits, ``clock``
turns a uniform word into a standard exponential variable in units of ``ln 2 * 2**-56``.  The array versions give the
same integers as the scalar ones.
"""

from __future__ import annotations

import hashlib
import re
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.errors import ParameterError
from privpac.rng import derive, word_indexed

__all__ = [
    "MAX_RATE",
    "check_seed",
    "clock",
    "clock_array",
    "derive",
    "ilog2",
    "ilog2_array",
    "integer",
    "le64",
    "rate",
    "rational",
    "word_indexed",
    "word_named",
    "words_indexed",
]

Words = NDArray[np.uint64]

MAX_RATE = 1 << 62
"""Rates (``Gamma``) stay below this, so that costs fit 64 bits."""

_WRITTEN = re.compile(r"\s*[+-]?([0-9]{1,400}(/[0-9]{1,400}|\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?\s*")
_FRACTION = 56
_HALF = 1 << 63
_BLOCK = 512


# Parameters


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """A public integer parameter within its range."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if value < low or (high is not None and value > high):
        raise ParameterError(
            f"{name} must be {f'at least {low}' if high is None else f'in {low}..{high}'}, got {value}"
        )
    return int(value)


def rational(name: str, value: Any) -> Fraction:
    """A public parameter as an exact rational; a float is its shortest decimal."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction)):
        raise TypeError(f"{name} must be a number or a text such as '1/20', got {type(value).__name__}")
    # A short text must not ask for endless digits: a stranger's manifest is read with this.
    if isinstance(value, str) and not _WRITTEN.fullmatch(value):
        raise ParameterError(f"{name} must be a number such as 1/20, of at most 400 digits; got {value[:40]!r}")
    try:
        return Fraction(repr(value) if isinstance(value, float) else value)
    except (ValueError, ZeroDivisionError):
        raise ParameterError(f"{name} must be a finite number, got {value!r}") from None


def check_seed(seed: Any) -> bytes:
    """The public seed: 32 bytes."""
    if not isinstance(seed, bytes):
        raise TypeError(f"the public seed must be bytes, got {type(seed).__name__}")
    if len(seed) != 32:
        raise ParameterError(f"the public seed must have 32 bytes, got {len(seed)}; secrets.token_bytes(32) makes one")
    return seed


def rate(gamma: Any) -> int:
    """The published integer ``floor(gamma * log2(e) * 2**40)`` of an inverse temperature ``gamma``.

    >>> rate(1), rate("1/2")
    (1586259972792, 793129986396)
    """
    value = rational("gamma", gamma)
    if value < 0:
        raise ParameterError(f"gamma must be at least 0, got {gamma}")
    digits = 60 + len(str(value.numerator))
    # 1 / ln 2 is irrational: once the enclosure is narrow enough both ends have the same floor.
    while True:
        context = Context(prec=digits)
        ln2, ulp = Fraction(context.ln(Decimal(2))), Fraction(1, 10**digits)
        low, high = (value * 2**40 / (ln2 + side) for side in (ulp, -ulp))
        if low // 1 == high // 1:
            break
        digits *= 2
    found = int(low // 1)
    if found >= MAX_RATE:
        raise ParameterError(f"gamma must keep its integer rate below 2**62, got {gamma}")
    return found


# Words


def le64(number: int) -> bytes:
    """A 64-bit number, little end first."""
    return number.to_bytes(8, "little")


def word_named(key: bytes, name: bytes) -> int:
    """The public word of a name."""
    return int.from_bytes(hashlib.blake2b(name, digest_size=8, key=key).digest(), "little")


def words_indexed(key: bytes, size: int) -> Words:
    """The words ``0..size-1`` of the public stream of ``key``."""
    blocks = [hashlib.shake_256(key + le64(block)).digest(8 * _BLOCK) for block in range(-(-size // _BLOCK))]
    return np.frombuffer(b"".join(blocks), dtype="<u8")[:size].astype(np.uint64)


# Logarithms and clocks


def ilog2(x: int, bits: int = _FRACTION) -> int:
    """``log2(x)`` with 56 fraction bits, of an integer of any size from 1 on; with fewer, the first of them.

    >>> ilog2(1), ilog2(2) == 2**56
    (0, True)
    >>> ilog2(3, 40) == ilog2(3) >> 16
    True
    """
    if x < 1:
        raise ParameterError(f"ilog2 needs an integer of at least 1, got {x}")
    out = x.bit_length() - 1
    a = x << (63 - out) if out < 63 else x >> (out - 63)
    for _ in range(bits):
        a = (a * a) >> 64
        if a >= _HALF:
            out += out + 1
        else:
            out += out
            a += a
    return out


def ilog2_array(x: Words) -> Words:
    """``ilog2`` of every entry (all at least 1)."""
    x = np.ascontiguousarray(x, dtype=np.uint64)
    exponent = np.zeros(x.shape, dtype=np.uint64)
    rest = x.copy()
    for shift in (32, 16, 8, 4, 2, 1):
        big = rest >= np.uint64(1 << shift)
        exponent[big] += np.uint64(shift)
        rest[big] >>= np.uint64(shift)
    a = x << (np.uint64(63) - exponent)
    out, low = exponent, np.uint64(0xFFFFFFFF)
    s31, s32, s33, s63, one = (np.uint64(s) for s in (31, 32, 33, 63, 1))
    for _ in range(_FRACTION):
        ah, al = a >> s32, a & low
        # floor(a * a / 2**64): the sum inside stays below 2**64 because ah*al <= 2**64 - 2**33 + 1.
        a = ah * ah + ((ah * al + ((al * al) >> s33)) >> s31)
        bit = a >> s63
        out = (out << one) | bit
        a <<= one - bit
    return out


def clock(word: int) -> int:
    """A standard exponential variable in units of ``ln 2 * 2**-56``, in ``1..2**62``, from a uniform word."""
    return (64 << _FRACTION) - ilog2(word | 1)


def clock_array(words: Words) -> Words:
    """``clock`` of every word."""
    return np.uint64(64 << _FRACTION) - ilog2_array(np.asarray(words, dtype=np.uint64) | np.uint64(1))
