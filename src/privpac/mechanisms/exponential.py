"""The exponential mechanism: choose a candidate of small integer score.

``P(h) = c_h e**(-eta s_h) / Z`` with ``eta = epsilon / R``, where ``R`` is the range sensitivity of the scores and
``c_h`` a public base measure.

**Guarantee.** ``(epsilon, 0)``: between neighbours ``P(h)/P'(h) = e**(-eta (s_h - s'_h)) Z'/Z``, and ``Z'/Z`` is a
weighted mean of ``e**(eta (s_g - s'_g))``, so the ratio is at most ``e**(eta R)``.  Ratios of two candidates vary in a
range of ``epsilon`` (bounded range), hence ``rho = epsilon**2 / 8`` for composition.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import frozen

from privpac.exact import Rational, as_arb, rational
from privpac.guarantee import Guarantee, positive_int
from privpac.law.base import Law
from privpac.law.blocks import BlockLaw
from privpac.mechanisms.enclosures import ceil_log
from privpac.mechanisms.sensitivity import ScoreMechanism
from privpac.parameters import named
from privpac.rng import Rng

__all__ = ["ExponentialMechanism", "candidate_blocks", "interval_blocks"]


def candidate_blocks(
    scores: Any, eta: Fraction, counts: Any = None, labels: Sequence[Hashable] | None = None
) -> BlockLaw:
    """Candidates ``0..k-1`` with their scores; with ``counts`` or ``labels``, labelled blocks of equal candidates."""
    if counts is None and labels is not None:
        counts = np.ones(np.asarray(scores).size, dtype=np.uint64)
    law = Law.from_blocks(score=scores, eta=eta, counts=counts, labels=labels)
    assert isinstance(law, BlockLaw)
    return law


def interval_blocks(lo: Any, hi: Any, score: Any, eta: Fraction, domain: tuple[int, int] | None = None) -> BlockLaw:
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

    def law(self, scores: Any, *, counts: Any = None, labels: Sequence[Hashable] | None = None) -> BlockLaw:
        """The law over indices ``0..k-1``.

        ``counts`` is a public base measure of positive integers: candidate ``i`` stands for ``counts[i]`` equal ones
        and values are ``(label, offset)``, ``label`` being ``i`` unless ``labels`` are given.
        """
        return candidate_blocks(scores, self.eta, counts, labels)

    def law_blocks(self, lo: Any, hi: Any, score: Any, *, domain: tuple[int, int] | None = None) -> BlockLaw:
        """The law over integers given as closed intervals ``[lo_i, hi_i]`` of equal score."""
        return interval_blocks(lo, hi, score, self.eta, domain)

    # Draws

    def sample(
        self, scores: Any, rng: Rng | None = None, *, counts: Any = None, labels: Sequence[Hashable] | None = None
    ) -> Any:
        """One exact draw from :meth:`law`."""
        return self.law(scores, counts=counts, labels=labels).sample(rng)

    def sample_blocks(
        self, lo: Any, hi: Any, score: Any, rng: Rng | None = None, *, domain: tuple[int, int] | None = None
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
