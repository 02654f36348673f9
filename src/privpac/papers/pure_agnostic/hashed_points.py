"""Hashed points: a small set of rules for "x = value" whose size does not depend on the number of values.

``h(x) = ((a x + b) mod P) mod B`` puts every value into one of ``B`` buckets; the rules are "x is in bucket j of hash
k" for all j and k.  Two values collide with probability at most ``1/B``, so ``k`` hash functions contain, except with
probability ``(1/(B alpha))**k``, a bucket that holds a given value and other values of mass at most ``alpha``.

The partners of bucket j are the points in it, so a score takes one pass over the records.  With ``E0`` users who have
more than t(m) positive records, ``U_j`` users with a record in bucket j, and per value u: ``e(u)`` the change of the
count from the zero rule to "x = u", ``S(u)`` users whose only value in u's bucket is u,

    sum:    E0 + U_j + min( 0 if some value of the bucket is absent from the data;  e(u) - S(u) )
    union:  E0 - Z_j + U_j + min( 0 as above;  S1(u) - S(u) )

``Z_j``: users in ``U_j`` counted in ``E0``; ``S1(u)``: users in ``S(u)`` with too many mistakes of "x = u".  Over more
than ``2**22`` values the zero rule joins the partners of every bucket (the same score unless the data hold every value
of a bucket): a public choice either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.data import Domain
from privpac.data.jit import jit
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.papers.pure_agnostic.surrogates import Hypotheses, check_score
from privpac.result import register
from privpac.rules.base import ConceptClass, Rule
from privpac.rules.kernels.cuts import sort_within_users
from privpac.rules.profile import Profile, dense_profile
from privpac.rules.statistics import Exceeds, Table

if TYPE_CHECKING:
    from privpac.data import UserData, Users

__all__ = [
    "BucketRule",
    "HashedPointSet",
    "MERSENNE",
    "bucket_of",
    "check_hash",
    "prime_for",
]


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
def _small(codes: Any, a: Any, b: Any, prime: Any, buckets: Any, out: Any) -> None:
    for i in range(len(codes)):
        x = (codes[i] % prime + np.uint64(1)) % prime
        out[i] = ((a * x + b) % prime) % buckets


@jit
def _large(codes: Any, a: Any, b: Any, exponent: int, buckets: Any, out: Any) -> None:
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
def _carry(acc: Any) -> None:
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

Ints = NDArray[np.int64]
Codes = Mapping[str, NDArray[np.uint64]]


@register("hash-bucket")
@dataclass(frozen=True, repr=False)
class BucketRule(Rule):
    """1 iff ``((a (code + 1) + b) mod prime) mod buckets = bucket``; ``bucket=None`` never says 1."""

    feature: str
    domain: Domain
    a: int
    b: int
    prime: int
    buckets: int
    bucket: int | None
    label: str = "1"

    def __post_init__(self) -> None:
        check_hash(self.a, self.b, self.prime, self.buckets, self.domain.size)
        if self.bucket is not None:
            positive_int(self.bucket, "bucket", minimum=0, maximum=self.buckets - 1)

    @property
    def features(self) -> Mapping[str, Domain]:
        return {self.feature: self.domain}

    def predict_codes(self, codes: Codes) -> NDArray[np.int8]:
        column = codes[self.feature]
        if self.bucket is None:
            return np.zeros(len(column), dtype=np.int8)
        inside: NDArray[np.bool_] = bucket_of(column, self.a, self.b, self.prime, self.buckets) == self.bucket
        return inside.astype(np.int8)

    def condition(self) -> str:
        if self.bucket is None:
            return "never"
        return f"{self.feature} is in bucket {self.bucket} of {self.buckets} (public hash {self.a}, {self.b})"

    def to_dict(self) -> dict[str, Any]:
        numbers = {name: str(getattr(self, name)) for name in ("a", "b", "prime", "buckets")}
        bucket = None if self.bucket is None else str(self.bucket)
        return {
            "feature": self.feature,
            "domain": self.domain.to_dict(),
            **numbers,
            "bucket": bucket,
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        a, b, prime, buckets = (int(values[name]) for name in ("a", "b", "prime", "buckets"))
        bucket = None if values["bucket"] is None else int(values["bucket"])
        return cls(values["feature"], Domain.from_dict(values["domain"]), a, b, prime, buckets, bucket, values["label"])


# One pass over the records


@jit
def _distinct(key: Any, tag: Any, offsets: Any, tolerance: Any, starts: Any, value: Any, wrong: Any, heavy: Any) -> int:
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
    starts: Any,
    place: Any,
    wrong: Any,
    heavy: Any,
    bucket: Any,
    stamp: Any,
    held: Any,
    union: bool,
    own: Any,
    touched: Any,
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
def _changes(starts: Any, place: Any, wrong: Any, heavy: Any, change: Any) -> None:
    for u in range(len(starts) - 1):
        for i in range(starts[u], starts[u + 1]):
            change[place[i]] += np.int64(wrong[i]) - np.int64(heavy[u])


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
