"""Small random sets of rules that represent a class, whatever the data.

An ``(alpha, beta)`` representation is a random set H such that for every concept and every distribution of points, with
probability at least ``1 - beta``, some rule of H disagrees with the concept on mass at most ``alpha`` (Li, Wang and Ye,
*Improved Bounds*, Definition 2.3). It is drawn from *public* coins before any data are seen; a selection over it pays
for ``log_size`` only.

======================  ==========================================================  ============================ kind
construction                                                log size ======================
==========================================================  ============================ ``FiniteRepresentation``  the
class itself, (0, 0)                                  ln |C| ``HashedPoints``          buckets of k hash functions, for
"x = value"              ln(k B), any domain ``LearnerRepresentation`` K draws of a pure realizable learner without data
epsilon n + ln ln(1/beta) - ln(1 - beta0) ``BoostedRepresentation`` majorities of T rules, each from k fresh base sets
T (base log size + ln k) ======================  ==========================================================
============================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from attrs import field, frozen

from privpac.bisection import least_between
from privpac.data import Domain, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, as_arb, rational, up
from privpac.guarantee import Neighbours
from privpac.law import Law
from privpac.papers.pure_agnostic.hashed_points import HashedPointSet, prime_for
from privpac.papers.pure_agnostic.surrogates import ClassHypotheses, Hypotheses, MajorityHypotheses, Subset
from privpac.parameters import bounds, fraction, named, probability_or_zero, whole
from privpac.rng import PublicCoins, Rng
from privpac.rules.base import ConceptClass

__all__ = [
    "MAX_RULES",
    "BoostedRepresentation",
    "FiniteRepresentation",
    "HashedPoints",
    "LearnerRepresentation",
    "ProbabilisticRepresentation",
]

MAX_RULES = 1 << 22
"""Representations with more rules are for planning; running an exponential law over them is refused."""


class ProbabilisticRepresentation(ABC):
    """A way to draw a set of rules from public coins; ``alpha`` and ``beta`` are its accuracy and its failure
    probability."""

    alpha: Fraction
    beta: Fraction

    @property
    @abstractmethod
    def log_size(self) -> float:
        """Natural logarithm of (a bound on) the number of rules."""

    @property
    def enumerable(self) -> bool:
        """Whether the set is small enough to select from."""
        return self.log_size <= math.log(MAX_RULES) * (1 + 1e-12)

    def sample(self, coins: PublicCoins) -> Hypotheses:
        """The set for these public coins; sampling one member instead is no substitute for a selection over all of
        them."""
        if not isinstance(coins, PublicCoins):
            raise TypeError(
                f"a representation is drawn from PublicCoins, not {type(coins).__name__}: everyone may know it"
            )
        if not self.enumerable:
            raise TooLargeError(
                f"the representation has about e**{self.log_size:.1f} rules, at most {MAX_RULES} can be selected from; "
                "use the class itself, hashed points or a learner's draws"
            )
        return self._draw(coins)

    @abstractmethod
    def _draw(self, coins: PublicCoins) -> Hypotheses: ...


_ALPHA = bounds(minimum=Fraction(1, 10**12), below=1)
_BETA = bounds(minimum=Fraction(1, 10**100), below=1)


@dataclass(frozen=True)
class FiniteRepresentation(ProbabilisticRepresentation):
    """The class itself: every concept represents itself."""

    concept: ConceptClass
    alpha: Fraction = Fraction(0)
    beta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not isinstance(self.concept, ConceptClass):
            raise TypeError(f"concept must be a class of rules, got {type(self.concept).__name__}")
        if self.alpha != 0 or self.beta != 0:
            raise ParameterError("the class itself is a (0, 0) representation; leave alpha and beta out")

    @property
    def log_size(self) -> float:
        return self.concept.log_size

    @property
    def enumerable(self) -> bool:
        """Always: classes are folded in blocks, whatever their size."""
        return True

    def _draw(self, coins: PublicCoins) -> ClassHypotheses:
        return ClassHypotheses(self.concept)


@frozen(slots=False, field_transformer=named)
class HashedPoints(ProbabilisticRepresentation):
    """Buckets of two-universal hash functions, for the class "x = value".

    One hash function fails with probability at most ``1/(B alpha)`` (a value shares its bucket with expected mass 1/B;
    Markov), k of them with at most its k-th power; the cheapest k B with that at most ``beta`` is taken, exactly.

    >>> from privpac.data import Integers
    >>> r = HashedPoints(Integers(0, 2**64 - 1), alpha="0.02", beta="0.01")
    >>> r.copies, r.buckets
    (5, 126)
    """

    domain: Domain
    alpha: Fraction = field(converter=fraction, metadata=_ALPHA)
    beta: Fraction = field(converter=fraction, metadata=_BETA)
    zero: bool = False

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(self.domain).__name__}")

    @property
    def _shape(self) -> tuple[int, int]:
        # Past k = 2 ln(1/beta) the number of buckets hardly falls.
        top = 2 + math.ceil(-2 * math.log(self.beta))
        return min(((k, self._buckets(k)) for k in range(1, top + 1)), key=lambda shape: shape[0] * shape[1])

    def _buckets(self, k: int) -> int:
        """The least B with ``(B alpha)**k beta >= 1``."""
        low, high = 0, 1
        while (high * self.alpha) ** k * self.beta < 1:
            low, high = high, 2 * high
        return least_between(lambda b: bool((b * self.alpha) ** k * self.beta >= 1), low, high)

    @property
    def copies(self) -> int:
        return self._shape[0]

    @property
    def buckets(self) -> int:
        return self._shape[1]

    @property
    def log_size(self) -> float:
        return math.log(self.copies * self.buckets + self.zero)

    def _draw(self, coins: PublicCoins) -> HashedPointSet:
        prime = prime_for(self.domain.size)
        hashes = []
        for _ in range(self.copies):
            a = 1 + coins.below(prime - 1)
            hashes.append((a, coins.below(prime)))
        return HashedPointSet(self.domain, tuple(hashes), self.buckets, prime, self.zero)


class _Known(Rng):
    """Public coins where a law expects a generator: for draws that are meant to be public."""

    def __init__(self, coins: PublicCoins) -> None:
        self._coins = coins

    def word(self) -> int:
        return self._coins.word()


@frozen(slots=False, field_transformer=named)
class LearnerRepresentation(ProbabilisticRepresentation):
    """Draws of a pure private learner on public data.

    ``law`` is the learner's law over rule ids on the empty dataset (add-remove) or on any fixed public ``n_records``
    records (replace); the learner is ``epsilon``-DP and reaches error ``alpha`` with probability ``1 - beta0`` from
    ``n_records`` realizable records.  Some dataset makes a good rule likely, and changing ``n_records`` records one by
    one costs a factor ``e**(-epsilon n)``, so ``K = ceil(e**(epsilon n) ln(1/beta) / (1 - beta0))`` draws contain one
    except with probability beta.
    """

    concept: ConceptClass
    law: Law
    n_records: int = field(converter=whole, metadata=bounds(minimum=0))
    epsilon: Fraction = field(converter=fraction, metadata=bounds(minimum=0))
    alpha: Fraction = field(converter=fraction, metadata=_ALPHA)
    beta: Fraction = field(converter=fraction, metadata=_BETA)
    beta0: Fraction = field(converter=probability_or_zero)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.law, Law):
            raise TypeError(f"law must be a Law over rule ids, got {type(self.law).__name__}")

    @classmethod
    def of(
        cls,
        learner: Any,
        *,
        n_records: int,
        alpha: Rational,
        beta: Rational,
        beta0: Rational,
        public_data: UserData | None = None,
    ) -> LearnerRepresentation:
        """From a proper pure learner with ``concept``, ``guarantee`` and ``law``; ``public_data`` is needed under
        replace."""
        guarantee = learner.guarantee
        if guarantee.delta:
            raise ParameterError("a representation needs a pure learner (delta = 0)")
        if public_data is None:
            if guarantee.neighbours is not Neighbours.ADD_REMOVE:
                raise ParameterError(
                    f"under replace the learner must be given {n_records} public records; pass public_data"
                )
            domains = {name or "x": domain for name, domain in learner.concept.declared().items()}
            public_data = UserData.from_users([], features=domains)
        return cls(
            learner.concept,
            getattr(learner, "rule_law", learner.law)(public_data),
            n_records,
            guarantee.epsilon,
            rational(alpha),
            rational(beta),
            rational(beta0),
        )

    @property
    def _exponent(self) -> Fraction:
        return self.epsilon * self.n_records

    @property
    def log_size(self) -> float:
        return float(self._exponent) + math.log(-math.log(self.beta)) - math.log1p(-float(self.beta0))

    @property
    def draws(self) -> int:
        """K, refused above ``MAX_RULES``."""
        if self.log_size > math.log(MAX_RULES) + 1:
            raise TooLargeError(
                f"e**{self.log_size:.1f} draws are needed, at most {MAX_RULES} are made; use fewer records or a "
                "smaller epsilon"
            )
        exact = up(lambda: as_arb(self._exponent).exp() * -as_arb(self.beta).log() / as_arb(1 - self.beta0))
        return max(1, math.ceil(exact))

    @property
    def enumerable(self) -> bool:
        return self.log_size <= math.log(MAX_RULES) + 1 and self.draws <= MAX_RULES

    def _draw(self, coins: PublicCoins) -> Subset:
        source = _Known(coins)

        def drawn() -> Iterator[int]:
            for _ in range(self.draws):
                yield int(self.law.sample(source))

        return Subset(self.concept, tuple(dict.fromkeys(drawn())))


@frozen(slots=False, field_transformer=named)
class BoostedRepresentation(ProbabilisticRepresentation):
    """A finer representation from a coarse one: majorities of one rule per round, every round from fresh copies.

    With base accuracy ``a0 < 1/2`` and failure ``b0``: ``T`` rounds, the least with ``(2 sqrt(a0 (1 - a0)))**T <=
    alpha`` (1 if ``alpha >= a0``), and k copies a round, the least with ``b0**k <= beta/T``.  Reweighting the points
    after each round as boosting does depends on earlier rounds only, so a fresh round contains a rule that is good for
    the new weights; the unweighted majority errs on mass at most the product of the normalisers.  Mostly for planning:
    ``log_size`` grows with T.
    """

    base: ProbabilisticRepresentation
    concept: ConceptClass
    alpha: Fraction = field(converter=fraction, metadata=_ALPHA)
    beta: Fraction = field(converter=fraction, metadata=_BETA)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.base, ProbabilisticRepresentation):
            raise TypeError(f"base must be a representation, got {type(self.base).__name__}")
        if self.base.alpha >= Fraction(1, 2):
            raise ParameterError(f"boosting needs a base of accuracy below 1/2, got {self.base.alpha}")

    @property
    def rounds(self) -> int:
        return (
            1
            if self.alpha >= self.base.alpha
            else _least_power(4 * self.base.alpha * (1 - self.base.alpha), self.alpha**2)
        )

    @property
    def copies(self) -> int:
        return max(1, _least_power(self.base.beta, self.beta / self.rounds)) if self.base.beta else 1

    @property
    def log_size(self) -> float:
        return self.rounds * (self.base.log_size + math.log(self.copies))

    def _draw(self, coins: PublicCoins) -> MajorityHypotheses:
        rounds = tuple(tuple(self.base.sample(coins) for _ in range(self.copies)) for _ in range(self.rounds))
        return MajorityHypotheses(self.concept, rounds)


def _least_power(base: Fraction, target: Fraction) -> int:
    """The least ``k >= 0`` with ``base**k <= target``."""
    k, power = 0, Fraction(1)
    while power > target:
        k, power = k + 1, power * base
    return k
