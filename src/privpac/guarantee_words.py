"""What an epsilon means, in words that grow less reassuring as it grows.

Someone who holds odds of a to b for a fact about one person ends up, after seeing the output of an epsilon-private
mechanism, with odds of at most ``a * e**epsilon`` to b: Bayes' rule multiplies odds by the ratio of the two
likelihoods, which is what epsilon bounds.  From even odds (1 in 2) that is a probability of at most
``e**epsilon / (1 + e**epsilon)``.  Delta is said apart: but for a part of probability delta, such a
pair of laws has likelihood ratios of at most ``e**epsilon`` (Kairouz, Oh and Viswanath, "The composition theorem for
differential privacy").

=============  ==========  =============================================================
epsilon        strength    said
=============  ==========  =============================================================
at most 1/10   strong      learns almost nothing
up to 1        strong      learns little
below 3        moderate    may learn something
3 to 10        weak        may learn a lot; shown in red
above 10       empty       no reassuring words; shown in red
=============  ==========  =============================================================
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction

__all__ = ["EMPTY_ABOVE", "RED_FROM", "Strength", "certainty", "learned", "strength"]

RED_FROM, EMPTY_ABOVE = 3, 10
_LARGE_DELTA = Fraction(1, 100)


class Strength(StrEnum):
    """How much a promise is worth, from its numbers alone."""

    STRONG = "strong"
    MODERATE = "moderate"
    WEAK = "weak"
    EMPTY = "empty"

    @property
    def alarming(self) -> bool:
        """Whether it is shown in red."""
        return self in (Strength.WEAK, Strength.EMPTY)


def strength(epsilon: Fraction, delta: Fraction = Fraction(0)) -> Strength:
    """By epsilon; a delta above 1 in 100 is weak at best.

    >>> [str(strength(Fraction(e))) for e in (1, 2, 3, 10, 11)]
    ['strong', 'moderate', 'weak', 'weak', 'empty']
    """
    if epsilon > EMPTY_ABOVE:
        return Strength.EMPTY
    if epsilon >= RED_FROM or delta > _LARGE_DELTA:
        return Strength.WEAK
    return Strength.STRONG if epsilon <= 1 else Strength.MODERATE


def learned(epsilon: Fraction, delta: Fraction = Fraction(0)) -> str:
    """What whoever sees the result may learn about one person, as a verb phrase."""
    found = strength(epsilon, delta)
    if found is Strength.EMPTY:
        return "may learn practically everything there is to learn"
    if found is Strength.WEAK:
        return "may learn a lot"
    if found is Strength.MODERATE:
        return "may learn something"
    return "learns almost nothing" if epsilon <= Fraction(1, 10) else "learns little"


def certainty(epsilon: Fraction) -> str:
    """Where 1 in 2 may go at most, to the nearest digit that tells it from certainty.

    >>> [certainty(Fraction(e)) for e in ("0", "0.1", "1", "3", "10", "100")]
    ['50 in 100', '52 in 100', '73 in 100', '95 in 100', '99,995 in 100,000', 'certainty']
    """
    if epsilon > 30:
        return "certainty"
    doubt = 1 / (1 + math.exp(float(epsilon)))
    scale = 100
    while round(doubt * scale) < 1:
        scale *= 10
    return f"{scale - round(doubt * scale):,} in {scale:,}"
