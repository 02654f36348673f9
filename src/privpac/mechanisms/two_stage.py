"""Test, then select: the classical choosing mechanism, for comparison and for scores that are not plain votes.

    m = largest count;  if m = 0: BOTTOM
    if m + (discrete Laplace noise at rate epsilon1) < T: BOTTOM
    else a candidate with probability proportional to e**(eta2 q), among those with q >= 1

Needs: all scores 0 without units, and one unit raises each score by 0 or 1, at most ``k`` of them.

**Guarantee** under add-remove: ``(epsilon1 + eta2, delta*)``, ``delta* = max over m >= 1 of p(m) a(m)``, with
``p(m) = Pr[m + noise >= T]``, ``a(1) = 1``, ``a(m) = k/(k + e**(eta2 (m-1)))``.

*Proof.*  Let ``x'`` be ``x`` plus a unit; ``p <= p' <= e**epsilon1 p`` if ``m >= 1``.  *x' against x*: among old
candidates ``P' <= e**(epsilon1 + eta2) P`` since ``Z' >= Z``; the at most ``k`` new ones have score 1 and mass at most
``p(m') a(m')`` if ``m' >= 2`` (the best one is not new), at most ``p(1)`` if ``m' = 1``.  *x against x'*: ``Z' <=
e**eta2 (Z + k)``, so the excess is at most ``p(m) (1 - Z/(Z + k)) <= p(m) a(m)``.  ``BOTTOM`` has ratio at most
``e**epsilon1`` if ``m >= 1`` and costs at most ``p(1)`` if ``m = 0``. Replace is one removal and one addition: ``(2 e,
(1 + e**e) delta*)`` with ``e = epsilon1 + eta2``.

``ln p`` and ``ln a`` are concave in ``m >= 2`` (the noise is log-concave; log-sum-exp is convex), so bisection finds
the worst ``m``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privpac.bisection import least_from
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import ExpSum, Rational, rational
from privpac.guarantee import positive_int
from privpac.law.blocks import BOTTOM, FiniteLaw, sum_levels
from privpac.law.numbers import Denominator, Number, Quotient, sign_of_sum
from privpac.law.sampling import Rate
from privpac.mechanisms.exponential import candidate_blocks
from privpac.mechanisms.laplace import discrete_laplace, upper_tail
from privpac.mechanisms.votes import by_count, candidate_law
from privpac.parameters import read_epsilon
from privpac.rng import Rng, secret_rng

__all__ = ["TwoStage"]


@dataclass(frozen=True)
class TwoStage:
    """Rates of the test and of the selection, the threshold, and how many candidates one unit may raise."""

    epsilon1: Fraction
    eta2: Fraction
    T: int
    growth: int

    @staticmethod
    def within(
        step: Fraction,
        delta: Fraction,
        growth: int,
        replace: bool,
        epsilon1: Rational | None = None,
        eta2: Rational | None = None,
        T: int | None = None,
    ) -> TwoStage:
        """Parameters that lose at most ``step`` per added or removed unit, and at most ``delta`` in the chosen
        relation."""
        first = None if epsilon1 is None else read_epsilon(epsilon1, "epsilon1")
        second = None if eta2 is None else read_epsilon(eta2, "eta2")
        if first is None:
            first = step / 2 if second is None else step - second
        if second is None:
            second = step - first
        if first <= 0 or second <= 0 or first + second > step:
            raise ParameterError(
                f"epsilon1 and eta2 must be positive and sum to at most {step} (half of epsilon under replace)"
            )
        factor = 1 + ExpSum.exp(first + second) if replace else ExpSum.of(1)

        def private(threshold: int) -> bool:
            risk = TwoStage(first, second, threshold, growth).worst()[1]
            return sign_of_sum(risk * factor + Quotient.of(-delta)) <= 0

        if T is None:
            return TwoStage(first, second, least_from(private, 1), growth)
        threshold = positive_int(T, "T")
        if not private(threshold):
            raise InfeasibleError(
                f"T = {threshold} does not reach delta; the least threshold is {least_from(private, threshold)}"
            )
        return TwoStage(first, second, threshold, growth)

    # Privacy: the exact delta

    def _risk(self, m: int, T: int, z: Denominator) -> Number:
        """``p(m) a(m)``."""
        passing = upper_tail(self.epsilon1, T - m, z)
        if m == 1:
            return passing
        other = Denominator(ExpSum.of(self.growth) + ExpSum.exp(self.eta2 * (m - 1)))
        return passing * Quotient.of(self.growth, other)

    def worst(self, T: int | None = None) -> tuple[int, Number]:
        """The top count that attains ``delta*``, and ``delta*``, exactly."""
        threshold = self.T if T is None else positive_int(T, "T")
        z = Denominator(1 + ExpSum.exp(-self.epsilon1))

        def falls(m: int) -> bool:
            return sign_of_sum(self._risk(m + 1, threshold, z) + self._risk(m, threshold, z) * -1) <= 0

        m = least_from(falls, 2)
        first, later = self._risk(1, threshold, z), self._risk(m, threshold, z)
        return (1, first) if sign_of_sum(later + first * -1) <= 0 else (m, later)

    # Law and draws

    def law(self, votes: Any) -> FiniteLaw:
        groups = by_count(votes)
        if not groups:
            return candidate_law({}, {}, Quotient.of(1))
        best = next(iter(groups))
        noise = Denominator(1 + ExpSum.exp(-self.epsilon1))
        passing, failing = (
            upper_tail(self.epsilon1, self.T - best, noise),
            upper_tail(self.epsilon1, best - self.T + 1, noise),
        )
        z = Denominator(sum_levels([best - q for q in groups], map(len, groups.values()), Rate(self.eta2)))
        numbers = {q: passing * Quotient.of(ExpSum.exp(self.eta2 * (q - best)), z) for q in groups}
        return candidate_law(groups, numbers, failing)

    def sample(self, votes: Any, rng: Rng | None = None) -> Any:
        groups = by_count(votes)
        if not groups:
            return BOTTOM
        source = secret_rng(rng)
        if next(iter(groups)) + discrete_laplace(self.epsilon1, source) < self.T:
            return BOTTOM
        held = list(groups.values())
        level, at = candidate_blocks([-q for q in groups], self.eta2, [len(h) for h in held]).sample(source)
        return held[level][at]

    # Accuracy

    def votes_needed(self, beta: Fraction) -> int:
        """The least count at which the only candidate passes the test, except with probability ``beta``."""
        failure = rational(beta)
        return least_from(
            lambda m: sign_of_sum(upper_tail(self.epsilon1, m - self.T + 1) + Quotient.of(-failure)) <= 0, 1
        )
