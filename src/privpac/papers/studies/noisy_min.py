"""Noisy minimum (permute-and-flip): the best one-shot pure selection.

Every candidate's score is lowered by independent exponential noise and the least one wins:
minimise ``eta s_h - E_h`` with ``eta = epsilon / R``.

**Guarantee.** ``(epsilon, 0)``: given the noise of the others, ``h`` wins iff ``E_h`` exceeds a threshold; a neighbour
raises that threshold by at most ``eta R``, and ``Pr[E > x + eta R] >= e**(-eta R) Pr[E > x]`` for every real ``x``.
The range is not bounded as for the exponential mechanism, so ``rho = epsilon**2 / 2``.  The noisy score itself is never
released.

The expected score is never worse than that of the exponential mechanism at the same rate.  Use this one for a single
selection; the exponential mechanism when many selections are composed by zCDP.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from attrs import frozen

from privpac.exact import rational
from privpac.guarantee import Guarantee
from privpac.law.blocks import BlockLaw, FiniteLaw
from privpac.mechanisms.exponential import ScoreMechanism, candidate_blocks, interval_blocks
from privpac.papers.studies.race import race_block
from privpac.papers.studies.race_law import race_law
from privpac.parameters import named
from privpac.rng import Rng

__all__ = ["NoisyMin"]


@frozen(slots=False, field_transformer=named)
class NoisyMin(ScoreMechanism):
    """Report the candidate of least noisy score (scores are integers and minimised).

    >>> choice = NoisyMin("1/2", 1, unit="user", neighbours="add-remove")
    >>> choice.eta, choice.guarantee.rho
    (Fraction(1, 2), Fraction(1, 8))
    >>> choice.law([0, 0]).prob_exact(1)
    Fraction(1, 2)

    Up to 64 candidates with few distinct sums of scores have exact laws, on which privacy is *decided*; larger ones
    have enclosures of any precision, on which a comparison may end in ``Undecided``.  Draws are exact at any size.
    """

    @property
    def guarantee(self) -> Guarantee:
        epsilon = rational(self.epsilon)
        return Guarantee(epsilon, unit=self.unit, neighbours=self.neighbours, rho=epsilon * epsilon / 2)

    # Laws

    def law(self, scores: Any, *, counts: Any = None, labels: Sequence[Hashable] | None = None) -> FiniteLaw:
        """The law over indices ``0..k-1``; with ``counts``, over ``(label, offset)`` for blocks of equal candidates."""
        return race_law(candidate_blocks(scores, self.eta, counts, labels))

    def law_blocks(self, lo: Any, hi: Any, score: Any, *, domain: tuple[int, int] | None = None) -> FiniteLaw:
        """The law over integers given as closed intervals ``[lo_i, hi_i]`` of equal score."""
        return race_law(interval_blocks(lo, hi, score, self.eta, domain))

    # Draws

    def sample(
        self, scores: Any, rng: Rng | None = None, *, counts: Any = None, labels: Sequence[Hashable] | None = None
    ) -> Any:
        """One exact draw from :meth:`law`, by running the race."""
        return _draw(candidate_blocks(scores, self.eta, counts, labels), rng)

    def sample_blocks(
        self, lo: Any, hi: Any, score: Any, rng: Rng | None = None, *, domain: tuple[int, int] | None = None
    ) -> int:
        """One exact draw from :meth:`law_blocks`; multiplicities may have any size."""
        return int(_draw(interval_blocks(lo, hi, score, self.eta, domain), rng))


def _draw(blocks: BlockLaw, rng: Rng | None) -> Any:
    return blocks._value(*race_block(blocks, rng))
