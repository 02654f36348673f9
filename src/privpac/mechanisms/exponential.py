"""The exponential mechanism: choose a candidate of small integer score.

``P(h) = c_h e**(-eta s_h) / Z`` with ``eta = epsilon / R``, where ``R`` is the range sensitivity of the scores and
``c_h`` a public base measure.

**Guarantee.** ``(epsilon, 0)``: between neighbours ``P(h)/P'(h) = e**(-eta (s_h - s'_h)) Z'/Z``, and ``Z'/Z`` is a
weighted mean of ``e**(eta (s_g - s'_g))``, so the ratio is at most ``e**(eta R)``.  Ratios of two candidates vary in a
range of ``epsilon`` (bounded range), hence ``rho = epsilon**2 / 8`` for composition.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import field, frozen
from flint import arb
from numpy.typing import ArrayLike

from privpac.errors import ParameterError, Undecided
from privpac.exact import MAX_PRECISION, Ball, Rational, as_arb, ball_of, precision, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.law.blocks import PROB_BITS, BlockLaw, Law
from privpac.law.numbers import Number
from privpac.parameters import named, privacy_or_zero, protected_unit, relation, whole
from privpac.rng import Rng

# What mechanisms declare: whose data, which neighbours, and the range sensitivity of their scores.
#
# Nothing here sees data.  ``range_sensitivity`` is the one number that ties a score to its privacy: the largest change,
# over neighbouring inputs, of the *difference* of two candidates' scores.


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


# Logarithms and probabilities without rounding: the integer above, the rationals around.


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


def candidate_blocks(
    scores: ArrayLike, eta: Fraction, counts: ArrayLike | None = None, labels: Sequence[Hashable] | None = None
) -> BlockLaw:
    """Candidates ``0..k-1`` with their scores; with ``counts`` or ``labels``, labelled blocks of equal candidates."""
    if counts is None and labels is not None:
        counts = np.ones(np.asarray(scores).size, dtype=np.uint64)
    law = Law.from_blocks(score=scores, eta=eta, counts=counts, labels=labels)
    assert isinstance(law, BlockLaw)
    return law


def interval_blocks(
    lo: ArrayLike, hi: ArrayLike, score: ArrayLike, eta: Fraction, domain: tuple[int, int] | None = None
) -> BlockLaw:
    """Integers in closed intervals of equal score."""
    law = Law.from_blocks(lo, hi, score, eta, domain=domain)
    assert isinstance(law, BlockLaw)
    return law


@frozen(slots=False, field_transformer=named)
class ExponentialMechanism(ScoreMechanism):
    """Exponential mechanism on integer scores, which are minimised.

    >>> em = ExponentialMechanism(1, 2, unit="user", neighbours="replace")
    >>> em.eta, em.guarantee.rho
    (Fraction(1, 2), Fraction(1, 8))
    >>> em.law([0, 3, 1]).mode
    0

    ==========================  ===========================================================
    ``epsilon = 0``             uniform law, whatever the scores
    one candidate               constant law
    scores of any gap           exact; a gap of 4000 at ``eta = 1`` keeps its positive mass
    ==========================  ===========================================================
    """

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 8)

    # Laws

    def law(
        self, scores: ArrayLike, *, counts: ArrayLike | None = None, labels: Sequence[Hashable] | None = None
    ) -> BlockLaw:
        """The law over indices ``0..k-1``.

        ``counts`` is a public base measure of positive integers: candidate ``i`` stands for ``counts[i]`` equal ones
        and values are ``(label, offset)``, ``label`` being ``i`` unless ``labels`` are given.
        """
        return candidate_blocks(scores, self.eta, counts, labels)

    def law_blocks(
        self, lo: ArrayLike, hi: ArrayLike, score: ArrayLike, *, domain: tuple[int, int] | None = None
    ) -> BlockLaw:
        """The law over integers given as closed intervals ``[lo_i, hi_i]`` of equal score."""
        return interval_blocks(lo, hi, score, self.eta, domain)

    # Draws

    def sample(
        self,
        scores: ArrayLike,
        rng: Rng | None = None,
        *,
        counts: ArrayLike | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> Any:
        """One exact draw from :meth:`law`."""
        return self.law(scores, counts=counts, labels=labels).sample(rng)

    def sample_blocks(
        self,
        lo: ArrayLike,
        hi: ArrayLike,
        score: ArrayLike,
        rng: Rng | None = None,
        *,
        domain: tuple[int, int] | None = None,
    ) -> int:
        """One exact draw from :meth:`law_blocks`."""
        return int(self.law_blocks(lo, hi, score, domain=domain).sample(rng))

    # Accuracy

    def excess(self, size: int, beta: Rational) -> int:
        """Among ``size`` candidates the chosen score exceeds the best by at most this, except with probability
        ``beta``."""
        n, failure = positive_int(size, "size"), rational(beta, "beta", above=0, below=1)
        eta = rational(self.eta, "eta = epsilon / range_sensitivity", above=0)
        return max(0, ceil_log(n / failure, lambda: as_arb(eta)))
