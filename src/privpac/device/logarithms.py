"""Natural logarithms of rationals, rounded up, for published parameters (the standard library's decimals are correctly
rounded)."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

from privpac.errors import ParameterError

__all__ = ["ln_up"]

_DIGITS = 50


def ln_up(value: Fraction | int) -> Fraction:
    """An upper bound of ``ln(value)``, within ``10**-40`` relative (exactly 0 at 1)."""
    value = Fraction(value)
    if value <= 0:
        raise ParameterError(f"a logarithm needs a positive number, got {value}")
    if value == 1:
        return Fraction(0)
    if value < 1:
        return -_ln(1 / value)[0]
    return _ln(value)[1]


def _ln(value: Fraction) -> tuple[Fraction, Fraction]:
    """Lower and upper bound of the logarithm of a number above 1, from the logarithms of numerator and denominator."""
    digits = _DIGITS + len(str(value.numerator)) + len(str(value.denominator))
    context = Context(prec=digits)
    top, bottom = (Fraction(context.ln(Decimal(n))) for n in (value.numerator, value.denominator))
    # Each logarithm is correctly rounded: off by at most half a unit in its last digit.
    slack = (top + bottom) / 10 ** (digits - 1)
    return top - bottom - slack, top - bottom + slack
