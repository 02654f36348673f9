"""Public parameters of mechanisms: read exactly, refused early, compared without rounding.

Nothing here sees data.  ``range_sensitivity`` is the one number that ties a score to its privacy: the largest change,
over neighbouring inputs, of the *difference* of two candidates' scores.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from attrs import field, frozen
from flint import arb

from privpac.errors import ParameterError, Undecided
from privpac.exact import MAX_PRECISION, Ball, as_arb, ball_of, precision
from privpac.guarantee import Neighbours, Unit, one_of, positive_int
from privpac.law.base import PROB_BITS
from privpac.law.numbers import Number
from privpac.least import least_between
from privpac.parameters import named, privacy_or_zero, protected_unit, relation, whole

__all__ = ["Protected", "ScoreMechanism", "ceil_log", "enclose", "least_int", "range_sensitivity"]

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
    return least_between(holds, start + step // 2, start + step)


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


@frozen(slots=False, field_transformer=named)
class Protected:
    """Whose data a mechanism protects, and which datasets must be hard to tell apart: to be said, never assumed."""

    unit: Unit = field(kw_only=True, converter=protected_unit)
    neighbours: Neighbours = field(kw_only=True, converter=relation)


@frozen(slots=False, field_transformer=named)
class ScoreMechanism(Protected):
    """What mechanisms on integer scores share: epsilon, the range sensitivity of the scores, unit and relation."""

    epsilon: Fraction = field(converter=privacy_or_zero)
    range_sensitivity: int = field(converter=whole)

    @property
    def eta(self) -> Fraction:
        """The rate at which the chance of a candidate falls with its score."""
        return self.epsilon / self.range_sensitivity
