"""Numbers that are never approximate by accident.

Parameters are rationals (:func:`rational`).  Irrational results are rounded *outward* (:func:`up`), from rigorous
balls, never to nearest.  :class:`Ball` is an enclosure with rational ends.  :class:`ExpSum` is a finite sum of
``a * e**x`` with rational ``a`` and ``x``: by Lindemann-Weierstrass the values ``e**x`` at distinct rational
exponents are linearly independent over the rationals, so such a sum is zero iff its collected form is empty, and
:meth:`ExpSum.sign` always terminates: double the precision until the ball excludes zero.
"""

from __future__ import annotations

import numbers
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import isfinite, isqrt
from typing import Any, TypeVar

import flint
from attrs import frozen
from flint import arb, fmpq

from privpac.errors import ParameterError, Undecided, did_you_mean

Rational = int | float | str | Fraction | Decimal
"""What a numeric parameter may be written as; a float is read as its shortest decimal."""

MAX_PRECISION = 1 << 16
"""Bits at which an undecided comparison gives up (``Undecided``), never guesses."""


# The working precision of flint is one number per process.  A ball is rigorous at any precision, so sharing it
# could only cost accuracy; the lock keeps two threads from undoing each other's choice.
_lock = threading.RLock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Ball arithmetic at ``bits`` bits."""
    with _lock, flint.ctx.workprec(bits):
        yield


# Reading parameters


def rational(
    value: object,
    name: str = "value",
    *,
    minimum: Rational | None = None,
    maximum: Rational | None = None,
    above: Rational | None = None,
    below: Rational | None = None,
) -> Fraction:
    """Read a number exactly; ``0.1`` means 1/10.

    >>> rational(0.1), rational("1/3"), rational("2.5e-1")
    (Fraction(1, 10), Fraction(1, 3), Fraction(1, 4))
    """
    exact = _read(value, name)
    for limit, symbol, holds in (
        (minimum, ">=", operator.ge),
        (maximum, "<=", operator.le),
        (above, ">", operator.gt),
        (below, "<", operator.lt),
    ):
        if limit is not None and not holds(exact, limit if type(limit) is int else _read(limit, "limit")):
            raise ParameterError(f"{name} must be {symbol} {limit}, got {shown(value)}")
    return exact


def _read(value: Any, name: str) -> Fraction:
    if type(value) is Fraction:
        return value
    if hasattr(value, "dtype") and getattr(value, "shape", None) is not None:
        if getattr(value, "size", 0) != 1 or getattr(value.dtype, "kind", "") in "mM":
            raise TypeError(
                f"{name} must be one number, got {type(value).__name__} of shape {value.shape} and type {value.dtype}"
            )
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal, numbers.Rational)):
        raise TypeError(
            f"{name} must be a number (int, float, Fraction, Decimal or text like '1/10'), got {type(value).__name__}"
        )
    try:
        if isinstance(value, float):
            if not isfinite(value):
                raise ValueError
            return Fraction(repr(float(value)))
        if isinstance(value, str):
            exponent = value.lower().partition("e")[2]
            if len(value) > 4096 or (exponent and abs(int(exponent)) > 4096):
                raise ValueError
            return Fraction(value)
        if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > 4096):
            raise ValueError
        return Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ParameterError(
            f"{name} must be a finite number, got {shown(value)}; write it as 0.5, '1/2' or Fraction(1, 2)"
        ) from None


def positive_int(value: object, name: str, *, minimum: int = 1, maximum: int | None = None) -> int:
    """An integer parameter within its public range."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    number = int(value.__index__())
    if number < minimum or (maximum is not None and number > maximum):
        top = "" if maximum is None else f" and at most {maximum}"
        raise ParameterError(f"{name} must be at least {minimum}{top}, got {shown(number)}")
    return number


_E = TypeVar("_E", bound=StrEnum)


def one_of(kind: type[_E], value: object, name: str) -> _E:
    """The enum member, or its exact text."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text or a {kind.__name__}, got {type(value).__name__}")
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(repr(str(member)) for member in kind)
        near = did_you_mean(value, map(str, kind))
        raise ParameterError(f"{name} must be one of {allowed}; got {value!r}{near}") from None


def shown(value: object) -> str:
    """A value for an error message: short, and without Python's refusal to print very long integers."""
    try:
        text = str(value)
    except ValueError:
        return "a number of more than 4300 digits"
    return text if len(text) < 40 else text[:40] + "…"


# Balls


@frozen
class Ball:
    """A rigorous enclosure ``lo <= x <= hi`` with rational ends."""

    lo: Fraction
    hi: Fraction

    def __float__(self) -> float:
        return float((self.lo + self.hi) / 2)

    def __contains__(self, x: Rational) -> bool:
        return self.lo <= rational(x) <= self.hi

    @property
    def width(self) -> Fraction:
        return self.hi - self.lo


def _fraction(x: arb) -> Fraction:
    """An exact ball (radius 0) as a rational."""
    mantissa, exponent = x.man_exp()
    m, e = int(mantissa), int(exponent)
    return Fraction(m << e) if e >= 0 else Fraction(m, 1 << -e)


def ball_of(x: arb, *, floor: Fraction | None = None, ceiling: Fraction | None = None) -> Ball:
    """Rational ends of an ``arb``, optionally clipped to known bounds."""
    lo, hi = _fraction(x.lower()), _fraction(x.upper())
    if floor is not None:
        lo, hi = max(lo, floor), max(hi, floor)
    if ceiling is not None:
        lo, hi = min(lo, ceiling), min(hi, ceiling)
    return Ball(lo, hi)


def as_arb(x: Fraction | int) -> arb:
    """A rational as a ball at the working precision."""
    if isinstance(x, int):
        return arb(x)
    return arb(fmpq(x.numerator, x.denominator))


def exp_ball(x: Fraction) -> arb:
    """``e**x`` at the working precision."""
    return as_arb(x).exp()


def up(compute: Callable[[], arb]) -> Fraction:
    """Round the non-negative real that ``compute`` encloses **up** to a rational of 64 significant bits.

    ``compute`` is called at growing precision until its ball is narrow; the result is never below the true value.
    """
    bits = 128
    while True:
        with precision(bits):
            x = compute()
            if x.is_finite() and (x.rel_accuracy_bits() >= 72 or x.upper() == 0 or x.is_exact()):
                top = x.upper()
                if abs(int(top.man_exp()[1])) > 1 << 24:
                    raise Undecided("a value is too large or too small to be written as a rational")
                return round_up(_fraction(top))
        bits *= 2
        if bits > MAX_PRECISION:
            raise Undecided("a value could not be enclosed tightly enough to round it up")


def root_up(a: int) -> int:
    """The least k >= 0 with ``k*k >= a``."""
    return isqrt(a - 1) + 1 if a > 0 else 0


def round_up(x: Fraction) -> Fraction:
    """The least rational of 64 significant bits that is not below ``x``; 0 for negative ``x``."""
    if x <= 0:
        return Fraction(0)
    shift = x.numerator.bit_length() - x.denominator.bit_length() - 64
    scaled = x / (Fraction(2) ** shift)
    if scaled > 1 << 64:
        scaled, shift = scaled / 2, shift + 1
    mantissa = -(-scaled.numerator // scaled.denominator)
    return Fraction(mantissa) * (Fraction(2) ** shift)


def dyadic_base(a: Rational) -> Fraction:
    """``floor(2**32 * e**a) / 2**32``: a rational just below ``e**a``, so a loss of ``ln(base)`` is at most ``a``."""
    exponent = rational(a, "a", minimum=0, maximum=40_000)  # e**40000 still fits into MAX_PRECISION bits
    bits = 128
    while bits <= MAX_PRECISION:
        with precision(bits):
            scaled = exp_ball(exponent) * (1 << 32)
            lo, hi = scaled.lower().floor().unique_fmpz(), scaled.upper().floor().unique_fmpz()
        if lo is not None and lo == hi:
            return Fraction(int(lo), 1 << 32)
        bits *= 2
    raise Undecided("dyadic_base")


# Exponential sums


_ZERO = Fraction(0)


class ExpSum:
    """A finite sum of ``a * e**x`` with rational coefficients and exponents, in collected form."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Fraction, Fraction] | Iterable[tuple[Fraction, Fraction]] = ()) -> None:
        collected: Mapping[Fraction, Fraction]
        if isinstance(terms, Mapping):
            collected = terms
        else:
            collected = {}
            for x, a in terms:
                held = collected.get(x)
                collected[x] = a if held is None else held + a
        self.terms: dict[Fraction, Fraction] = {x: a for x, a in collected.items() if a}

    @staticmethod
    def of(value: ExpSum | Fraction | int) -> ExpSum:
        return value if isinstance(value, ExpSum) else ExpSum({_ZERO: Fraction(value)})

    @staticmethod
    def exp(x: Fraction, a: Fraction | int = 1) -> ExpSum:
        return ExpSum({Fraction(x): Fraction(a)})

    # Ring operations

    def __add__(self, other: ExpSum | Fraction | int) -> ExpSum:
        merged = dict(self.terms)
        for x, a in ExpSum.of(other).terms.items():
            held = merged.get(x)
            merged[x] = a if held is None else held + a
        return ExpSum(merged)

    __radd__ = __add__

    def __neg__(self) -> ExpSum:
        return ExpSum({x: -a for x, a in self.terms.items()})

    def __sub__(self, other: ExpSum | Fraction | int) -> ExpSum:
        return self + (-ExpSum.of(other))

    def __mul__(self, other: ExpSum | Fraction | int) -> ExpSum:
        if not isinstance(other, ExpSum):
            factor = Fraction(other)
            return self if factor == 1 else ExpSum({x: a * factor for x, a in self.terms.items()})
        if len(other.terms) == 1:  # distinct exponents stay distinct
            [(y, b)] = other.terms.items()
            return ExpSum({x + y if y else x: a * b for x, a in self.terms.items()})
        return ExpSum((x + y, a * b) for x, a in self.terms.items() for y, b in other.terms.items())

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (ExpSum, Fraction, int)) and not (self - other).terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()) if self.exact is None else self.exact)

    def __iter__(self) -> Iterator[tuple[Fraction, Fraction]]:
        return iter(self.terms.items())

    # Decisions

    @property
    def exact(self) -> Fraction | None:
        """The value as a rational, if no exponential is involved."""
        if not self.terms:
            return _ZERO
        return self.terms.get(_ZERO) if len(self.terms) == 1 else None

    def arb(self) -> arb:
        """Enclosure at the working precision."""
        total = arb(0)
        for x, a in self.terms.items():
            total += as_arb(a) * exp_ball(x) if x else as_arb(a)
        return total

    def sign(self) -> int:
        """-1, 0 or 1, decided exactly."""
        if not self.terms:
            return 0
        rational_value = self.exact
        if rational_value is not None:
            return 1 if rational_value > 0 else -1
        bits = 64
        while bits <= MAX_PRECISION:
            with precision(bits):
                value = self.arb()
                if value > 0:
                    return 1
                if value < 0:
                    return -1
            bits *= 2
        raise Undecided(f"the sign of an exponential sum was not decided at {MAX_PRECISION} bits")
