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

from collections.abc import Hashable
from fractions import Fraction
from functools import cached_property

from attrs import field, frozen

from privpac.bisection import least_from
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import Ball, ExpSum, Rational
from privpac.guarantee import Neighbours, positive_int
from privpac.law.blocks import BOTTOM, FiniteLaw
from privpac.law.numbers import Denominator, Number, Quotient, sign_of_sum
from privpac.law.sampling import Rate
from privpac.mechanisms.choosing import ChoosingMechanism
from privpac.mechanisms.exponential import candidate_blocks, enclose
from privpac.mechanisms.laplace import discrete_laplace, upper_tail
from privpac.mechanisms.votes import by_count, law_of_counts
from privpac.parameters import named, privacy_or_none, probability, whole_or_none
from privpac.rng import Rng, secret_rng


@frozen(slots=False, field_transformer=named)
class TwoStageChoosing(ChoosingMechanism):
    """Choose a candidate with many votes, or ``BOTTOM``: test, then select.

    Parameters
    ----------
    epsilon1, eta2 : number, optional
        Rates of the test and of the selection; ``epsilon/2`` each, a quarter under replace.
    T : int, optional
        The threshold; the least whose ``delta_star`` is small enough.

    >>> TwoStageChoosing(1, "1e-6", 1, "add-remove", unit="user").T
    28
    """

    _epsilon1: Fraction | None = field(kw_only=True, default=None, converter=privacy_or_none)
    _eta2: Fraction | None = field(kw_only=True, default=None, converter=privacy_or_none)
    _T: int | None = field(kw_only=True, default=None, converter=whole_or_none)

    def __attrs_post_init__(self) -> None:
        if min(self.epsilon1, self.eta2) <= 0 or self.epsilon1 + self.eta2 > self.step:
            raise ParameterError(
                f"epsilon1 and eta2 must be positive and sum to at most {self.step} (half of epsilon under replace)"
            )
        if not self._private(self.T):
            raise InfeasibleError(
                f"T = {self.T} does not reach delta; the least threshold is {least_from(self._private, self.T)}"
            )

    @property
    def epsilon1(self) -> Fraction:
        """The rate of the test."""
        if self._epsilon1 is not None:
            return self._epsilon1
        return self.step / 2 if self._eta2 is None else self.step - self._eta2

    @property
    def eta2(self) -> Fraction:
        """The rate of the selection."""
        return self.step - self.epsilon1 if self._eta2 is None else self._eta2

    @cached_property
    def T(self) -> int:
        """The threshold of the test."""
        return least_from(self._private, 1) if self._T is None else self._T

    # Privacy: the exact delta

    def _private(self, T: int) -> bool:
        factor = ExpSum.of(1)
        if self.neighbours is Neighbours.REPLACE:
            factor = 1 + ExpSum.exp(self.epsilon1 + self.eta2)
        return sign_of_sum(self._worst(T)[1] * factor + Quotient.of(-self.delta)) <= 0

    def _risk(self, m: int, T: int, z: Denominator) -> Number:
        """``p(m) a(m)``."""
        passing = upper_tail(self.epsilon1, T - m, z)
        if m == 1:
            return passing
        other = Denominator(ExpSum.of(self.growth) + ExpSum.exp(self.eta2 * (m - 1)))
        return passing * Quotient.of(self.growth, other)

    def _worst(self, T: int) -> tuple[int, Number]:
        """The top count that attains ``delta*``, and ``delta*``, exactly."""
        z = Denominator(1 + ExpSum.exp(-self.epsilon1))

        def falls(m: int) -> bool:
            return sign_of_sum(self._risk(m + 1, T, z) + self._risk(m, T, z) * -1) <= 0

        m = least_from(falls, 2)
        first, later = self._risk(1, T, z), self._risk(m, T, z)
        return (1, first) if sign_of_sum(later + first * -1) <= 0 else (m, later)

    def delta_star(self, T: int | None = None) -> Ball:
        """The exact delta under add-remove at a threshold."""
        return enclose(self._worst(self.T if T is None else positive_int(T, "T"))[1])

    def worst_count(self, T: int | None = None) -> int:
        """The top count at which ``delta_star`` is attained."""
        return self._worst(self.T if T is None else positive_int(T, "T"))[0]

    # Law and draws

    def law(self, votes: object) -> FiniteLaw:
        groups = by_count(votes)
        if not groups:
            return law_of_counts({}, {}, Quotient.of(1))
        best = next(iter(groups))
        noise = Denominator(1 + ExpSum.exp(-self.epsilon1))
        passing = upper_tail(self.epsilon1, self.T - best, noise)
        failing = upper_tail(self.epsilon1, best - self.T + 1, noise)
        z = Denominator(Rate(self.eta2).exact_total([best - q for q in groups], map(len, groups.values())))
        numbers = {q: passing * Quotient.of(ExpSum.exp(self.eta2 * (q - best)), z) for q in groups}
        return law_of_counts(groups, numbers, failing)

    def sample(self, votes: object, rng: Rng | None = None) -> Hashable:
        groups = by_count(votes)
        if not groups:
            return BOTTOM
        source = secret_rng(rng)
        if next(iter(groups)) + discrete_laplace(self.epsilon1, source) < self.T:
            return BOTTOM
        held = list(groups.values())
        level, at = candidate_blocks([-q for q in groups], self.eta2, [len(h) for h in held]).sample(source)
        chosen: Hashable = held[level][at]
        return chosen

    # Accuracy

    def votes_needed(self, beta: Rational) -> int:
        """The least count at which the only candidate passes the test, except with probability ``beta``."""
        failure = probability(beta, "beta")
        return least_from(
            lambda m: sign_of_sum(upper_tail(self.epsilon1, m - self.T + 1) + Quotient.of(-failure)) <= 0, 1
        )
