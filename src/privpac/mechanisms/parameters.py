"""Public parameters of mechanisms: read exactly, refused early, compared without rounding.

Nothing here sees data.  ``range_sensitivity`` is the one number that ties a score to its privacy: the largest change,
over neighbouring inputs, of the *difference* of two candidates' scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flint import arb

from privpac.errors import ParameterError, Undecided
from privpac.exact import MAX_PRECISION, Ball, Rational, as_arb, ball_of, precision, rational
from privpac.guarantee import Neighbours, Unit, one_of, positive_int
from privpac.law.base import PROB_BITS
from privpac.law.numbers import Number

__all__ = ["MAX_EPSILON", "ScoreMechanism", "ceil_log", "enclose", "least_int", "range_sensitivity", "read_epsilon"]

MAX_EPSILON = 10_000
"""Above this an epsilon promises nothing, and numbers such as ``e**epsilon`` would fill the memory."""

_TINY_BITS = 1 << 16


def range_sensitivity(delta_inf: int, monotone: bool, neighbours: Neighbours | str) -> int:
    """The range sensitivity of scores that each move by at most ``delta_inf`` between neighbours.

    ``2 * delta_inf``, or ``delta_inf`` when every neighbour step moves all scores the same way.  A replacement removes
    one unit and adds another, so it moves scores both ways: ``monotone`` with ``replace`` is refused.

    >>> range_sensitivity(1, True, "add-remove"), range_sensitivity(1, False, "replace")
    (1, 2)
    """
    bound = positive_int(delta_inf, "delta_inf")
    relation = one_of(Neighbours, neighbours, "neighbours")
    if not isinstance(monotone, bool):
        raise TypeError(f"monotone must be True or False, got {type(monotone).__name__}")
    if monotone and relation is Neighbours.REPLACE:
        raise ParameterError(
            "scores are not monotone under replace, where one unit leaves and another enters; pass monotone=False, or "
            "use add-remove"
        )
    return bound if monotone else 2 * bound


def read_epsilon(value: Any, name: str = "epsilon", *, zero: bool = False) -> Fraction:
    """A privacy parameter: positive (or zero where a law without data remains) and at most ``MAX_EPSILON``."""
    if zero:
        return rational(value, name, minimum=0, maximum=MAX_EPSILON)
    return rational(value, name, above=0, maximum=MAX_EPSILON)


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


def least_int(holds: Callable[[int], bool], start: int) -> int:
    """The least integer ``>= start`` at which a monotone public condition holds: doubling, then bisection."""
    if holds(start):
        return start
    step = 1
    while not holds(start + step):
        step *= 2
    low, high = start + step // 2, start + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


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


@dataclass(frozen=True)
class ScoreMechanism:
    """What mechanisms on integer scores share: epsilon, the range sensitivity of the scores, unit and relation."""

    epsilon: Rational
    range_sensitivity: int
    unit: Unit | str = field(kw_only=True)
    neighbours: Neighbours | str = field(kw_only=True)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", read_epsilon(self.epsilon, zero=True))
        put(self, "range_sensitivity", positive_int(self.range_sensitivity, "range_sensitivity"))
        put(self, "unit", one_of(Unit, self.unit, "unit"))
        put(self, "neighbours", one_of(Neighbours, self.neighbours, "neighbours"))

    @property
    def eta(self) -> Fraction:
        """The rate at which the chance of a candidate falls with its score."""
        return rational(self.epsilon) / self.range_sensitivity
