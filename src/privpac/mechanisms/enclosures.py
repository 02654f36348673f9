"""Logarithms and probabilities without rounding: the integer above, the rationals around."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from flint import arb

from privpac.errors import Undecided
from privpac.exact import MAX_PRECISION, Ball, as_arb, ball_of, precision
from privpac.law.base import PROB_BITS
from privpac.law.numbers import Number

__all__ = ["ceil_log", "enclose"]

_TINY_BITS = 1 << 16


def ceil_log(x: Fraction, rate: Callable[[], arb]) -> int:
    """``ceil(ln(x) / rate)`` for rational ``x >= 1`` and a positive rate; exact, also when the quotient is an integer's
    neighbour.

    The quotient must not be an integer itself unless ``x`` is 1: true for a rational rate, because ``e`` to a non-zero
    rational power is irrational.
    """
    if x == 1:
        return 0
    bits = 128
    while bits <= MAX_PRECISION:
        with precision(bits):
            top = (as_arb(x).log() / rate()).ceil().unique_fmpz()
        if top is not None:
            return int(top)
        bits *= 2
    raise Undecided("a logarithm could not be rounded up")


def enclose(number: Number) -> Ball:
    """Rational ends of a probability; one below ``2**-65536`` is enclosed by 0 and that."""
    exact = number.exact
    if exact is not None:
        return Ball(exact, exact)
    with precision(PROB_BITS):
        value, tiny = number.arb(), arb(2) ** -_TINY_BITS
        if value < tiny:
            return Ball(Fraction(0), Fraction(1, 1 << _TINY_BITS))
        return ball_of(value, floor=Fraction(0), ceiling=Fraction(1))
