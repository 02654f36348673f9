"""Small random sets of rules that represent a class, whatever the data.

An ``(alpha, beta)`` representation is a random set H such that for every concept and every distribution of points, with
probability at least ``1 - beta``, some rule of H disagrees with the concept on mass at most ``alpha`` (Li, Wang and Ye,
*Improved Bounds*, Definition 2.3). It is drawn from *public* coins before any data are seen; a selection over it pays
for ``log_size`` only.

=========================  ================================================  =========================================
kind                       construction                                      log size
=========================  ================================================  =========================================
``FiniteRepresentation``   the class itself, (0, 0)                          ln |C|
``HashedPoints``           buckets of k hash functions, for "x = value"      ln(k B), any domain
``LearnerRepresentation``  K draws of a pure realizable learner without      epsilon n + ln ln(1/beta) - ln(1 - beta0)
                           data
``BoostedRepresentation``  majorities of T rules, each from k fresh base     T (base log size + ln k)
                           sets
=========================  ================================================  =========================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Bytes, Codes, Ints
from privpac.bisection import least_between
from privpac.data import Domain, UserData
from privpac.data.loops import jit
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, as_arb, rational, up
from privpac.guarantee import Neighbours, positive_int
from privpac.law import Law
from privpac.parameters import bounds, fraction, named, probability_or_zero, whole
from privpac.result import WideInt, register
from privpac.rng import PublicCoins, Rng
from privpac.rules.base import ConceptClass, Rule
from privpac.rules.kernels.cuts import sort_within_users
from privpac.rules.profile import Exceeds, Profile, Table, dense_profile

if TYPE_CHECKING:
    from privpac.data import Users

# Sets of rules that stand in for a class, and how well each of them does *through* the class.
#
# A rule ``h`` of a set H drawn without looking at data is scored by the best concept it stands for.  With ``mist_i(c)``
# the mistakes of a concept on user i's records and ``dis_i(c, h)`` the number of those records on which the two
# disagree,
#
#     sum:    min over partners c of  #{i : mist_i(c) > t(m_i)} + #{i : dis_i(c, h) > s(m_i)}
#     union:  min over partners c of  #{i : mist_i(c) > t(m_i)  or  dis_i(c, h) > s(m_i)}
#
# Partners are a public subset of the class, so only the class, not H, has to generalise (Li, Wang and Ye, *Improved
# Bounds*, Theorem 3.4).
#
# **Sensitivity.**  One user adds at most 2 (``sum``) or 1 (``union``) to the count of every pair, and a minimum over a
# public set of such counts inherits the bound: :meth:`Hypotheses.step` is that number.  Where H lies in the class and
# no disagreement is forgiven, both scores are the plain count of users with too many mistakes, and the step is 1.


SCORES = ("union", "sum")
_MAX_PAIRS = 1 << 22
"""The most (rule, partner) pairs that are counted one by one."""

_ROWS = 1 << 22
_Columns = Mapping[str, Codes]


def check_score(score: str) -> str:
    if score not in SCORES:
        raise ParameterError(f"score must be 'union' or 'sum', got {score!r}")
    return score


class Hypotheses(ABC):
    """A public set of rules with ids ``0..size-1``."""

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def on(self, concept: ConceptClass) -> Hypotheses:
        """The same set on the columns and domains of a bound class."""

    @abstractmethod
    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        """The rule with this id."""

    @abstractmethod
    def step(self, score: str) -> int:
        """The most that one user adds to any score."""

    @abstractmethod
    def profile(self, users: Users, score: str, tolerance: Table, forgiven: Table = 0) -> Profile:
        """Scores of bound users; ``tolerance`` is t, ``forgiven`` is s."""

    def require(self, score: str, forgiven: Table = 0) -> None:
        """Refuse what cannot be scored, from public numbers and before any data."""
        check_score(score)

    def table(self, codes: _Columns) -> Bytes:
        """Predictions, records by rules; for small sets."""
        return np.stack([self.decode(h).predict_codes(codes) for h in range(self.size)], axis=1).astype(np.uint8)

    def checked(self, hypothesis: int) -> int:
        return positive_int(hypothesis, "value", minimum=0, maximum=self.size - 1)


@frozen(slots=False)
class ClassHypotheses(Hypotheses):
    """The class itself; every concept is its own only partner, so the score is the plain count."""

    concept: ConceptClass

    @property
    def size(self) -> int:
        return self.concept.size

    def on(self, concept: ConceptClass) -> ClassHypotheses:
        return ClassHypotheses(concept)

    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        return self.concept.decode(hypothesis, label)

    def step(self, score: str) -> int:
        return 1

    def profile(self, users: Users, score: str, tolerance: Table, forgiven: Table = 0) -> Profile:
        return users.fold(self.concept.kernel(Exceeds(tolerance)))


@frozen(slots=False)
class Subset(Hypotheses):
    """Some rules of the class, by id; with nothing forgiven the score through all of the class is the plain count."""

    concept: ConceptClass
    ids: tuple[int, ...]

    def __attrs_post_init__(self) -> None:
        if not self.ids or len(set(self.ids)) < len(self.ids):
            raise ParameterError("a subset needs at least one id, and each of them once")

    @property
    def size(self) -> int:
        return len(self.ids)

    def on(self, concept: ConceptClass) -> Subset:
        return Subset(concept, self.ids)

    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        return self.concept.decode(self.ids[self.checked(hypothesis)], label)

    def step(self, score: str) -> int:
        return 1

    def require(self, score: str, forgiven: Table = 0) -> None:
        check_score(score)
        if forgiven != 0:
            raise ParameterError("a subset of the class forgives no disagreement; leave forgiven out")

    def profile(self, users: Users, score: str, tolerance: Table, forgiven: Table = 0) -> Profile:
        self.require(score, forgiven)
        counts = users.fold(self.concept.kernel(Exceeds(tolerance)))
        return dense_profile(np.array([counts.score(h) for h in self.ids], dtype=np.int64))


# Any rules, against all concepts


@jit
def _count_pairs(
    offsets: Array,
    labels: Array,
    rules: Array,
    concepts: Array,
    tolerance: Array,
    forgiven: Array,
    union: bool,
    counts: Array,
) -> None:
    """Add every user's contribution to ``counts`` (rules by concepts)."""
    for u in range(len(offsets) - 1):
        a, b = offsets[u], offsets[u + 1]
        for c in range(concepts.shape[1]):
            mistakes = 0
            for i in range(a, b):
                mistakes += labels[i] != concepts[i, c]
            bad = mistakes > tolerance[u]
            for h in range(rules.shape[1]):
                apart = 0
                for i in range(a, b):
                    apart += rules[i, h] != concepts[i, c]
                    if apart > forgiven[u]:
                        break
                far = apart > forgiven[u]
                # At most 1 per user and pair, or 2 for the sum: this is the sensitivity.
                if union:
                    counts[h, c] += bad or far
                else:
                    counts[h, c] += np.int64(bad) + np.int64(far)


@frozen(slots=False)
class _PairKernel:
    """Counts for every pair (rule, concept); partial counts of disjoint users add up."""

    hypotheses: Hypotheses
    concept: ConceptClass
    score: str
    tolerance: Table
    forgiven: Table

    def zero(self) -> NDArray[np.int64]:
        return np.zeros((self.hypotheses.size, self.concept.size), dtype=np.int64)

    def chunk(self, users: UserData) -> NDArray[np.int64]:
        counts = self.zero()
        assert users.labels is not None
        t, _ = Exceeds(self.tolerance).shape(users.sizes)
        s, _ = Exceeds(self.forgiven).shape(users.sizes)
        for first, last in self._batches(users.offsets):
            a, b = int(users.offsets[first]), int(users.offsets[last])
            codes = {name: column[a:b] for name, column in users.codes.items()}
            concepts = np.stack([self.concept.predictions(codes, c) for c in range(self.concept.size)], axis=1).astype(
                np.uint8
            )
            offsets, labels = users.offsets[first : last + 1] - a, users.labels[a:b]
            _count_pairs(
                offsets,
                labels,
                self.hypotheses.table(codes),
                concepts,
                t[first:last],
                s[first:last],
                self.score == "union",
                counts,
            )
        return counts

    def _batches(self, offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Runs of users whose tables of predictions stay small; a single user may exceed that."""
        rows, first = max(1, _ROWS // (self.hypotheses.size + self.concept.size)), 0
        while first < len(offsets) - 1:
            last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1)
            yield first, last
            first = last

    def merge(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        return a + b


class PairHypotheses(Hypotheses):
    """Rules that need not lie in the class; all concepts are partners of each."""

    @property
    @abstractmethod
    def partners(self) -> ConceptClass:
        """The class."""

    def step(self, score: str) -> int:
        return 1 if check_score(score) == "union" else 2

    def require(self, score: str, forgiven: Table = 0) -> None:
        check_score(score)
        if self.size * self.partners.size > _MAX_PAIRS:
            raise TooLargeError(
                f"{self.size} rules against {self.partners.size} concepts are more than {_MAX_PAIRS} pairs; use a "
                "smaller representation"
            )

    def profile(self, users: Users, score: str, tolerance: Table, forgiven: Table = 0) -> Profile:
        self.require(score, forgiven)
        counts = users.fold(_PairKernel(self, self.partners, score, tolerance, forgiven))
        return dense_profile(counts.min(axis=1))


# Majorities


@register("majority")
@frozen(slots=False, repr=False)
class Majority(Rule):
    """1 iff more than half of the rules say 1; a tie is 0."""

    rules: tuple[Rule, ...]
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        if not self.rules or not all(isinstance(rule, Rule) for rule in self.rules):
            raise ParameterError("a majority needs at least one rule")

    @property
    def features(self) -> Mapping[str, Domain]:
        return {name: domain for rule in self.rules for name, domain in rule.features.items()}

    def predict_codes(self, codes: _Columns) -> NDArray[np.int8]:
        votes = sum(rule.predict_codes(codes).astype(np.int64) for rule in self.rules)
        return (2 * np.asarray(votes) > len(self.rules)).astype(np.int8)

    def condition(self) -> str:
        if len(self.rules) == 1:
            return self.rules[0].condition()
        return f"most of ({'; '.join(rule.condition() for rule in self.rules)})"


@frozen(slots=False)
class MajorityHypotheses(PairHypotheses):
    """One rule from each round; a round is the union of several sets.  Ids count the last round fastest."""

    concept: ConceptClass
    rounds: tuple[tuple[Hypotheses, ...], ...]

    @property
    def partners(self) -> ConceptClass:
        return self.concept

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sum(part.size for part in parts) for parts in self.rounds)

    @property
    def size(self) -> int:
        return prod(self.sizes)

    def on(self, concept: ConceptClass) -> MajorityHypotheses:
        return evolve(
            self, concept=concept, rounds=tuple(tuple(part.on(concept) for part in parts) for parts in self.rounds)
        )

    def decode(self, hypothesis: int, label: str = "1") -> Majority:
        rest, chosen = self.checked(hypothesis), []
        for parts, size in zip(reversed(self.rounds), reversed(self.sizes)):
            rest, place = divmod(rest, size)
            for part in parts:
                if place < part.size:
                    chosen.append(part.decode(place, label))
                    break
                place -= part.size
        return Majority(tuple(reversed(chosen)), label)

    def table(self, codes: _Columns) -> Bytes:
        votes: NDArray[np.int64] | None = None
        for parts in self.rounds:
            said = np.concatenate([part.table(codes) for part in parts], axis=1).astype(np.int64)
            votes = (
                said
                if votes is None
                else (votes[:, :, None] + said[:, None, :]).reshape(len(said), votes.shape[1] * said.shape[1])
            )
        return (2 * np.asarray(votes) > len(self.rounds)).astype(np.uint8)


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


@frozen(slots=False)
class FiniteRepresentation(ProbabilisticRepresentation):
    """The class itself: every concept represents itself."""

    concept: ConceptClass
    alpha: Fraction = Fraction(0)
    beta: Fraction = Fraction(0)

    def __attrs_post_init__(self) -> None:
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


# Hashed points: a small set of rules for "x = value" whose size does not depend on the number of values.
#
# ``h(x) = ((a x + b) mod P) mod B`` puts every value into one of ``B`` buckets; the rules are "x is in bucket j of hash
# k" for all j and k.  Two values collide with probability at most ``1/B``, so ``k`` hash functions contain, except with
# probability ``(1/(B alpha))**k``, a bucket that holds a given value and other values of mass at most ``alpha``.
#
# The partners of bucket j are the points in it, so a score takes one pass over the records.  With ``E0`` users who have
# more than t(m) positive records, ``U_j`` users with a record in bucket j, and per value u: ``e(u)`` the change of the
# count from the zero rule to "x = u", ``S(u)`` users whose only value in u's bucket is u,
#
#     sum:    E0 + U_j + min( 0 if some value of the bucket is absent from the data;  e(u) - S(u) )
#     union:  E0 - Z_j + U_j + min( 0 as above;  S1(u) - S(u) )
#
# ``Z_j``: users in ``U_j`` counted in ``E0``; ``S1(u)``: users in ``S(u)`` with too many mistakes of "x = u".  Over
# more than ``2**22`` values the zero rule joins the partners of every bucket (the same score unless the data hold every
# value of a bucket): a public choice either way.


# ``((a x + b) mod P) mod B`` for whole columns, exact for 64-bit codes and primes up to ``2**127 - 1``.
#
# ``x`` is the code plus 1.  Any prime below ``2**31`` is done in one word; the Mersenne primes ``2**61 - 1``, ``2**89 -
# 1`` and ``2**127 - 1`` in limbs of 32 bits, where reducing means adding the high part to the low part.


MERSENNE = {(1 << p) - 1: p for p in (61, 89, 127)}
_LIMB = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def prime_for(size: int) -> int:
    """The least of the three Mersenne primes that exceeds the number of values."""
    return next(prime for prime in MERSENNE if prime >= size + 1)


def check_hash(a: int, b: int, prime: int, buckets: int, size: int) -> None:
    """A hash function of the family for a domain of ``size`` values."""
    if prime not in MERSENNE and not (positive_int(prime, "prime", minimum=2) < 1 << 31 and _is_prime(prime)):
        raise ParameterError("prime must be a prime below 2**31, or 2**61 - 1, 2**89 - 1 or 2**127 - 1")
    if prime < size + 1:
        raise ParameterError(f"prime must exceed the {size} values of the domain, got {prime}")
    positive_int(a, "a", maximum=prime - 1)
    positive_int(b, "b", minimum=0, maximum=prime - 1)
    positive_int(buckets, "buckets", maximum=(1 << 31) - 1)


def _is_prime(n: int) -> bool:
    return all(n % d for d in range(2, int(n**0.5) + 1))


@jit
def _small(codes: Codes, a: np.uint64, b: np.uint64, prime: np.uint64, buckets: np.uint64, out: Array) -> None:
    for i in range(len(codes)):
        x = (codes[i] % prime + np.uint64(1)) % prime
        out[i] = ((a * x + b) % prime) % buckets


@jit
def _large(codes: Array, a: Array, b: Array, exponent: int, buckets: np.uint64, out: Array) -> None:
    word, bit = exponent // 32, np.uint64(exponent % 32)
    low_mask = (np.uint64(1) << bit) - np.uint64(1)
    acc, high = np.zeros(9, np.uint64), np.zeros(9, np.uint64)
    x = np.zeros(3, np.uint64)
    for i in range(len(codes)):
        # x = code + 1 may need 65 bits.
        x[0] = (codes[i] & _LIMB) + np.uint64(1)
        x[1] = (codes[i] >> _HALF) + (x[0] >> _HALF)
        x[2] = x[1] >> _HALF
        x[0] &= _LIMB
        x[1] &= _LIMB
        acc[:] = 0
        for s in range(4):
            acc[s] += b[s]
            for t in range(3):
                product = a[s] * x[t]
                acc[s + t] += product & _LIMB
                acc[s + t + 1] += product >> _HALF
        _carry(acc)
        while True:
            # value = low + 2**p * high, and 2**p = 1 modulo the prime.
            more = False
            for s in range(9):
                high[s] = 0
                if s + word < 9:
                    high[s] = acc[s + word] >> bit
                    if s + word + 1 < 9:
                        high[s] |= (acc[s + word + 1] << (_HALF - bit)) & _LIMB
                more = more or high[s] != 0
            if not more:
                break
            acc[word] &= low_mask
            for s in range(word + 1, 9):
                acc[s] = 0
            for s in range(9):
                acc[s] += high[s]
            _carry(acc)
        full = acc[word] == low_mask
        for s in range(word):
            full = full and acc[s] == _LIMB
        rest = np.uint64(0)
        if not full:
            for s in range(word, -1, -1):
                rest = ((rest << _HALF) | acc[s]) % buckets
        out[i] = rest


@jit
def _carry(acc: Array) -> None:
    for s in range(8):
        acc[s + 1] += acc[s] >> _HALF
        acc[s] &= _LIMB


def _limbs(value: int) -> NDArray[np.uint64]:
    return np.array([(value >> (32 * s)) & 0xFFFFFFFF for s in range(4)], dtype=np.uint64)


def bucket_of(codes: NDArray[np.uint64], a: int, b: int, prime: int, buckets: int) -> NDArray[np.int64]:
    """The bucket of every code.

    >>> bucket_of(np.array([0, 4], dtype=np.uint64), 3, 3, 11, 3).tolist()
    [0, 1]
    """
    out = np.empty(len(codes), dtype=np.int64)
    values = np.ascontiguousarray(codes, dtype=np.uint64)
    if prime in MERSENNE:
        _large(values, _limbs(a), _limbs(b), MERSENNE[prime], np.uint64(buckets), out)
    else:
        _small(values, np.uint64(a), np.uint64(b), np.uint64(prime), np.uint64(buckets), out)
    return out


KNOWN = 1 << 22
"""Domains up to this size are hashed value by value, to drop empty buckets and to know which values are absent."""


@register("hash-bucket")
@frozen(slots=False, repr=False)
class BucketRule(Rule):
    """1 iff ``((a (code + 1) + b) mod prime) mod buckets = bucket``; ``bucket=None`` never says 1."""

    feature: str
    domain: Domain
    a: WideInt
    b: WideInt
    prime: WideInt
    buckets: WideInt
    bucket: WideInt | None
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        check_hash(self.a, self.b, self.prime, self.buckets, self.domain.size)
        if self.bucket is not None:
            positive_int(self.bucket, "bucket", minimum=0, maximum=self.buckets - 1)

    @property
    def features(self) -> Mapping[str, Domain]:
        return {self.feature: self.domain}

    def predict_codes(self, codes: _Columns) -> NDArray[np.int8]:
        column = codes[self.feature]
        if self.bucket is None:
            return np.zeros(len(column), dtype=np.int8)
        inside: NDArray[np.bool_] = bucket_of(column, self.a, self.b, self.prime, self.buckets) == self.bucket
        return inside.astype(np.int8)

    def condition(self) -> str:
        if self.bucket is None:
            return "never"
        return f"{self.feature} is in bucket {self.bucket} of {self.buckets} (public hash {self.a}, {self.b})"


# One pass over the records


@jit
def _distinct(
    key: Array, tag: Array, offsets: Array, tolerance: Array, starts: Array, value: Array, wrong: Array, heavy: Array
) -> int:
    """Each user's distinct values, whether "x = value" makes too many mistakes, and whether the zero rule does."""
    used = 0
    for u in range(len(offsets) - 1):
        starts[u] = used
        ones = 0
        for i in range(offsets[u], offsets[u + 1]):
            ones += tag[i]
        heavy[u] = ones > tolerance[u]
        mistakes = ones
        for i in range(offsets[u], offsets[u + 1]):
            mistakes += 1 if tag[i] == 0 else -1
            if i + 1 == offsets[u + 1] or key[i + 1] != key[i]:
                value[used], wrong[used] = key[i], mistakes > tolerance[u]
                mistakes = ones
                used += 1
    starts[len(offsets) - 1] = used
    return used


@jit
def _tally(
    starts: Array,
    place: Array,
    wrong: Array,
    heavy: Array,
    bucket: Array,
    stamp: Array,
    held: Array,
    union: bool,
    own: Array,
    touched: Array,
) -> None:
    """One hash function: ``touched[j]`` counts users in bucket j, ``own[u]`` those who hold no other value of u's
    bucket."""
    for u in range(len(starts) - 1):
        for i in range(starts[u], starts[u + 1]):
            j = bucket[place[i]]
            if stamp[j] != u + 1:
                stamp[j] = u + 1
                held[j] = 0
                # In the union a user already counted for too many positives is not counted twice.
                touched[j] += 0 if union and heavy[u] else 1
            held[j] += 1
        for i in range(starts[u], starts[u + 1]):
            if held[bucket[place[i]]] == 1:
                own[place[i]] -= 0 if union and wrong[i] else 1


@jit
def _changes(starts: Array, place: Array, wrong: Array, heavy: Array, change: Array) -> None:
    for u in range(len(starts) - 1):
        for i in range(starts[u], starts[u + 1]):
            change[place[i]] += np.int64(wrong[i]) - np.int64(heavy[u])


@frozen(slots=False)
class _Counts:
    """What disjoint groups of users add up: per value and hash the terms of the minimum, per hash and bucket ``U_j``
    (less ``Z_j``)."""

    zero_rule: int
    values: NDArray[np.uint64]
    terms: Ints
    touched: Ints

    def __add__(self, other: _Counts) -> _Counts:
        values, place = np.unique(np.concatenate([self.values, other.values]), return_inverse=True)
        terms = np.zeros((len(values), self.terms.shape[1]), dtype=np.int64)
        np.add.at(terms, place, np.concatenate([self.terms, other.terms]))
        return _Counts(self.zero_rule + other.zero_rule, values, terms, self.touched + other.touched)


@frozen(slots=False)
class _Kernel:
    hypotheses: HashedPointSet
    column: str
    score: str
    tolerance: Table

    def zero(self) -> _Counts:
        k, buckets = len(self.hypotheses.hashes), self.hypotheses.buckets
        return _Counts(0, np.empty(0, np.uint64), np.empty((0, k), np.int64), np.zeros((k, buckets), np.int64))

    def chunk(self, users: UserData) -> _Counts:
        assert users.labels is not None
        key, tag = sort_within_users(users.codes[self.column], users.labels, users.offsets)
        tolerance, _ = Exceeds(self.tolerance).shape(users.sizes)
        n, union = len(users.offsets) - 1, self.score == "union"
        starts, value = np.empty(n + 1, np.int64), np.empty(len(key), np.uint64)
        wrong, heavy = np.empty(len(key), np.bool_), np.empty(n, np.bool_)
        used = _distinct(key, tag, users.offsets, tolerance, starts, value, wrong, heavy)
        values, place = np.unique(value[:used], return_inverse=True)
        wrong = wrong[:used]
        out = self.zero()
        terms, buckets = np.zeros((len(values), len(self.hypotheses.hashes)), np.int64), self.hypotheses.buckets
        change = np.zeros(len(values), np.int64)
        if not union:
            _changes(starts, place, wrong, heavy, change)
        for k in range(terms.shape[1]):
            own = change.copy()
            stamp, held = np.zeros(buckets, np.int64), np.zeros(buckets, np.int64)
            _tally(
                starts, place, wrong, heavy, self.hypotheses.bucket(k, values), stamp, held, union, own, out.touched[k]
            )
            terms[:, k] = own
        return _Counts(int(heavy.sum()), values, terms, out.touched)

    def merge(self, a: _Counts, b: _Counts) -> _Counts:
        return a + b


def _pairs(hashes: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(a), int(b)) for a, b in hashes)


@frozen(slots=False)
class HashedPointSet(Hypotheses):
    """All buckets of some public hash functions ``(a, b)``, by hash and then bucket; with ``zero`` the rule "never"
    comes last.

    >>> from privpac.data import Integers
    >>> HashedPointSet(Integers(1, 5), hashes=((3, 3), (1, 9)), buckets=3, prime=11).members
    ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2))
    """

    domain: Domain
    hashes: tuple[tuple[int, int], ...] = field(converter=_pairs)
    buckets: int
    prime: int
    zero: bool = False
    feature: str | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(self.domain).__name__}")
        if not self.hashes:
            raise ParameterError("hashed points need at least one hash function")
        for a, b in self.hashes:
            check_hash(a, b, self.prime, self.buckets, self.domain.size)

    def bucket(self, k: int, codes: NDArray[np.uint64]) -> Ints:
        """The bucket of every code under hash ``k``."""
        return bucket_of(codes, *self.hashes[k], self.prime, self.buckets)

    @cached_property
    def _contents(self) -> Ints | None:
        """How many values lie in each bucket, where that is known."""
        if self.domain.size > KNOWN:
            return None
        every = np.arange(self.domain.size, dtype=np.uint64)
        return np.stack(
            [np.bincount(self.bucket(k, every), minlength=self.buckets) for k in range(len(self.hashes))]
        ).astype(np.int64)

    @cached_property
    def members(self) -> tuple[tuple[int, int], ...]:
        """``(hash, bucket)`` of every rule; buckets known to be empty are dropped."""
        held = self._contents
        pairs = ((k, j) for k in range(len(self.hashes)) for j in range(self.buckets))
        return tuple(pair for pair in pairs if held is None or held[pair] > 0)

    @property
    def size(self) -> int:
        return len(self.members) + self.zero

    def on(self, concept: ConceptClass) -> HashedPointSet:
        columns = dict(concept.declared())
        if list(columns.values()) != [self.domain]:
            raise ParameterError(
                f"these hashed points are for one column over {self.domain.describe()}; draw them for the class's own "
                "domain"
            )
        return evolve(self, feature=next(iter(columns)))

    def decode(self, hypothesis: int, label: str = "1") -> BucketRule:
        k, j = (*self.members, (0, None))[self.checked(hypothesis)]
        a, b = self.hashes[k]
        return BucketRule(self.feature or "x", self.domain, a, b, self.prime, self.buckets, j, label)

    def step(self, score: str) -> int:
        return 1 if check_score(score) == "union" else 2

    def require(self, score: str, forgiven: Table = 0) -> None:
        check_score(score)
        if forgiven != 0:
            raise ParameterError("hashed points forgive no disagreement; leave forgiven out")

    def profile(self, users: Users, score: str, tolerance: Table, forgiven: Table = 0) -> Profile:
        self.require(score, forgiven)
        counts = users.fold(_Kernel(self, self.feature or "x", check_score(score), tolerance))
        scores = np.array([counts.zero_rule + s for s in self._scores(counts)], dtype=np.int64)
        return dense_profile(np.append(scores, counts.zero_rule) if self.zero else scores)

    def _scores(self, counts: _Counts) -> list[int]:
        best = np.zeros((len(self.hashes), self.buckets), dtype=np.int64)
        for k in range(len(self.hashes)):
            place = self.bucket(k, counts.values)
            if self._contents is not None:
                # Every value of the bucket is in the data: no partner makes the zero rule's mistakes.
                full = np.bincount(place, minlength=self.buckets) == self._contents[k]
                best[k, full] = np.iinfo(np.int64).max
            np.minimum.at(best[k], place, counts.terms[:, k])
        return [int(counts.touched[pair] + best[pair]) for pair in self.members]
