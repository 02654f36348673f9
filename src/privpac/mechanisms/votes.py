"""Private plurality: every person names one item or none, and the item named most often is released.

Items come from any universe; only items that were named are touched.  Noise ``N`` lives on ``-K..K`` with weights
``q**|k|``, ``q`` rational, ``d(k) = Pr[N = k]``.

:class:`StableHistogram` releases the item with the largest ``count + N``, if that is at least ``K + 1``.  An item
nobody named could never reach ``K + 1``, so this is noise on the whole universe without listing it.  **Guarantee.**
Add-remove: one bin moves by one, the ratio is at most ``1/q`` except at the end that falls out: ``(ln 1/q, d(K))``.
Replace: two independent bins, ``(2 ln 1/q, 2 d(K) - d(K)**2)``: an outcome impossible on the other side has probability
at most ``1 - (1 - d(K))**2``, elsewhere the losses add.  Threshold and maximum are post-processing, and so is a higher
threshold: with ``named = 2`` (``count + N >= K + 2``) an item that one person named is never released.

:class:`GapSelection` releases the first item iff ``gap + N >= K + s + 1``, ``gap`` the lead over the second and ``s``
how far one person moves it: 1 (add-remove) or 2 (replace).  If the first item differs between neighbours both gaps are
at most ``s`` and nothing is released.  **Guarantee.**  ``(ln 1/q, d(K))`` and, the gap moving by two, ``(2 ln 1/q, d(K)
+ d(K-1))``.

:class:`PureSelection` draws an item with probability proportional to ``B**count`` over a declared universe, ``B =
1/q``.  **Guarantee.** Pure: add-remove moves one weight by ``B``, replace two, so ``epsilon = ln B`` and ``2 ln B``.
With ``abstain`` there is one more outcome, ``BOTTOM``, of the constant weight ``B**abstain``, which nobody moves: the
same proof.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from attrs import field, frozen

from privpac.bisection import least_from
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, as_arb, precision, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.law.blocks import BOTTOM, FiniteLaw, Law
from privpac.law.numbers import Number
from privpac.mechanisms.truncated_laplace import TruncatedLaplace
from privpac.parameters import (
    bounds,
    named,
    privacy,
    probability,
    protected_unit,
    read_epsilon,
    relation,
    whole,
    whole_or_none,
)
from privpac.rng import Rng, secret_rng

# Votes for candidates of an unknown or huge universe: only candidates with a positive count exist.
#
# A candidate is any hashable value; counts are non-negative integers, given as a mapping or as an array whose indices
# are the candidates.  Counts are private, so no error repeats one.


def by_count(votes: object) -> dict[int, list[Hashable]]:
    """Candidates with positive counts, grouped by count, largest first."""
    groups: dict[int, list[Hashable]] = {}
    for candidate, count in _positive(votes):
        groups.setdefault(count, []).append(candidate)
    return dict(sorted(groups.items(), reverse=True))


def _positive(votes: object) -> list[tuple[Hashable, int]]:
    if isinstance(votes, Mapping):
        if any(candidate is BOTTOM or isinstance(candidate, range) for candidate in votes):
            raise ParameterError("a candidate is a single value: BOTTOM and ranges cannot be voted for")
        read = [(int(c) if isinstance(c, np.integer) else c, _count(count)) for c, count in votes.items()]
        return [(candidate, count) for candidate, count in read if count]
    array = np.asarray(votes)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"votes must be a mapping from candidate to count or a one-dimensional integer array, got "
            f"{type(votes).__name__} of {array.dtype} and shape {array.shape}"
        )
    if array.dtype.kind == "i" and (array < 0).any():
        raise ParameterError("counts must not be negative")
    where = np.flatnonzero(array)
    return list(zip(where.tolist(), (int(c) for c in array[where].tolist())))


def _count(value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"counts must be integers, got {type(value).__name__}")
    count = int(value.__index__())
    if count < 0:
        raise ParameterError("counts must not be negative")
    return count


def law_of_counts(groups: Mapping[int, list[Hashable]], numbers: Mapping[int, Number], abstain: Number) -> FiniteLaw:
    """The law that gives every candidate the number of its count, and ``BOTTOM`` the rest."""
    blocks: list[tuple[range, Number]] = []
    atoms: dict[Hashable, Number] = {}
    for count, candidates in groups.items():
        for candidate in candidates:
            if isinstance(candidate, int):
                blocks.append((range(candidate, candidate + 1), numbers[count]))
            else:
                atoms[candidate] = numbers[count]
    atoms[BOTTOM] = abstain
    return FiniteLaw(sorted(blocks, key=lambda item: item[0].start), atoms)


MAX_K = 10**6
_LAW_WORK = 1 << 22


# Laws


class _VoteNoise:
    """Integer weights of ``N + K`` on ``0..2K``: ``a**|k| b**(K - |k|)`` for ``q = a/b``."""

    def __init__(self, q: Rational, K: int) -> None:
        ratio, self.K = rational(q, "q", above=0, below=1), positive_int(K, "K", maximum=MAX_K)
        a, b = ratio.numerator, ratio.denominator
        side = [a**k * b ** (self.K - k) for k in range(self.K + 1)]
        self.weights = [*reversed(side[1:]), *side]
        self.below = [0, *accumulate(self.weights)]
        self.total = self.below[-1]

    def at(self, k: int) -> int:
        """The weight of ``N = k``."""
        return self.weights[k + self.K] if -self.K <= k <= self.K else 0

    def most(self, k: int) -> int:
        """The weight of ``N <= k``."""
        weight: int = self.below[min(max(k + self.K + 1, 0), 2 * self.K + 1)]
        return weight


def _items(votes: object) -> list[tuple[Any, int]]:
    """Items named, in their own order, with their counts."""
    return sorted((item, count) for count, held in by_count(votes).items() for item in held)


def histogram_law(votes: object, q: Rational, K: int, named: int = 1) -> Law:
    """The law of :class:`StableHistogram`; of equal noisy counts the smaller item wins.

    >>> histogram_law({"c": 2}, "4/5", 2).prob_exact("c")
    Fraction(36, 97)
    """
    noise, items = _VoteNoise(q, K), _items(votes)
    top = max((count for _, count in items), default=0) + noise.K
    if len(items) ** 2 * (top + 1) > _LAW_WORK:
        raise TooLargeError(f"the law of {len(items)} items has too many terms to be written out; draw with sample()")
    weights = dict.fromkeys((item for item, _ in items), 0)
    for v in range(noise.K + positive_int(named, "named"), top + 1):
        # Smaller items must stay below v, larger ones may tie.
        before = list(accumulate((noise.most(v - 1 - count) for _, count in items), lambda a, b: a * b, initial=1))
        after = list(
            accumulate((noise.most(v - count) for _, count in reversed(items)), lambda a, b: a * b, initial=1)
        )[::-1]
        for i, (item, count) in enumerate(items):
            weights[item] += noise.at(v - count) * before[i] * after[i + 1]
    total = noise.total ** len(items)
    return _law(weights, total)


def gap_law(votes: object, q: Rational, K: int, neighbours: Neighbours | str) -> Law:
    """The law of :class:`GapSelection`."""
    noise, step = _VoteNoise(q, K), _step(one_of(Neighbours, neighbours, "neighbours"))
    first, gap = _lead(votes)
    return _law({} if first is BOTTOM else {first: noise.total - noise.most(noise.K + step - gap)}, noise.total)


def plurality_law(votes: object, base: Rational, universe: int, abstain: int | None = None) -> Law:
    """``Pr[item]`` proportional to ``base**count`` over the items ``0..universe - 1``, and to ``base**abstain`` for
    ``BOTTOM``."""
    law = _plurality(votes, base, universe, abstain)
    if abstain is None:
        return law
    return law.map_blocks(lambda cell: BOTTOM if isinstance(cell, range) and cell.start > universe else cell)


def _plurality(votes: object, base: Rational, universe: int, abstain: int | None) -> Law:
    """The same with ``universe + 1`` for ``BOTTOM``: apart from the items, so that no block holds both."""
    size = positive_int(universe, "universe")
    items = _items(votes)
    if any(not isinstance(item, int) or not 0 <= item < size for item, _ in items):
        raise ParameterError("items must be integers below the size of the universe")
    blocks: list[tuple[int, int, int]] = []
    free = 0
    for item, count in items:
        blocks += [(free, item - 1, 0)] if item > free else []
        blocks.append((item, item, -count))
        free = item + 1
    blocks += [(free, size - 1, 0)] if free < size else []
    blocks += [] if abstain is None else [(size + 1, size + 1, -abstain)]
    lo, hi, score = zip(*blocks)
    return Law.from_blocks(lo, hi, score, base=rational(base, "base", above=1))


def _law(weights: Mapping[Hashable, int], total: int) -> Law:
    listed: list[tuple[Hashable, int]] = [*weights.items(), (BOTTOM, total - sum(weights.values()))]
    return Law.from_weights([(item, Fraction(weight, total)) for item, weight in listed if weight])


def _lead(votes: object) -> tuple[Hashable, int]:
    """The item named most often (the smallest of several) and its lead."""
    groups = by_count(votes)
    if not groups:
        return BOTTOM, 0
    counts = list(groups)
    held: list[Any] = list(groups[counts[0]])
    second = counts[0] if len(held) > 1 else counts[1] if len(counts) > 1 else 0
    return min(held), counts[0] - second


def _step(neighbours: Neighbours) -> int:
    return 2 if neighbours is Neighbours.REPLACE else 1


# Mechanisms


def vote_decay(epsilon: Rational, neighbours: Neighbours | str) -> Fraction:
    """``q = ceil(2**32 e**-e)/2**32`` with ``e`` all of epsilon under add-remove, half of it under replace: rounding up
    loses less."""
    share = read_epsilon(epsilon) / _step(one_of(Neighbours, neighbours, "neighbours"))
    with precision(256):
        scaled = ((-as_arb(share)).exp() * (1 << 32)).ceil().unique_fmpz()
    if scaled is None or int(scaled) >= 1 << 32:
        raise ParameterError("epsilon is too small for weights of 32 bits; take at least 2**-31")
    return Fraction(int(scaled), 1 << 32)


@frozen(slots=False, field_transformer=named)
class _Selection:
    """What the selectors share."""

    epsilon: Fraction = field(converter=privacy)
    unit: Unit = field(kw_only=True, default=Unit.USER, converter=protected_unit)
    neighbours: Neighbours = field(kw_only=True, default=Neighbours.ADD_REMOVE, converter=relation)

    def __attrs_post_init__(self) -> None:
        vote_decay(self.epsilon, self.neighbours)

    @cached_property
    def q(self) -> Fraction:
        return vote_decay(self.epsilon, self.neighbours)


@frozen(slots=False, field_transformer=named)
class _Bounded(_Selection, ABC):
    delta: Fraction = field(kw_only=True, converter=probability)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self._enough(MAX_K):
            raise ParameterError(f"epsilon and delta need noise wider than {MAX_K}; raise one of them")

    @abstractmethod
    def _enough(self, K: int) -> bool:
        """Whether the ends of noise of this half width weigh little enough."""

    @cached_property
    def K(self) -> int:
        """The least half width of the noise whose ends weigh little enough."""
        return least_from(self._enough, 1)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours)

    @cached_property
    def _noise(self) -> TruncatedLaplace:
        # Any delta with which this K passes; the guarantee is the selector's own.
        edge = _edge(self.q, self.K)
        return TruncatedLaplace(None, edge, base=1 / self.q, kappa=self.K, unit=self.unit, neighbours=self.neighbours)

    def _draw(self, rng: Rng) -> int:
        return self._noise.sample(0, rng) - self.K


def _edge(q: Fraction, K: int) -> Fraction:
    """``d(K) = q**K (1 - q)/(1 + q - 2 q**(K+1))``."""
    return q**K * (1 - q) / (1 + q - 2 * q ** (K + 1))


def _edge_within(q: Fraction, K: int, limit: Fraction, second: bool = False) -> bool:
    """``d(K) <= limit`` (with ``second``: ``d(K) + d(K-1) <= limit``): balls first, the large rationals only where they
    cannot tell."""
    more = 1 + 1 / q if second else Fraction(1)
    for bits in (128, 1024):
        with precision(bits):
            x = as_arb(q)
            edge = as_arb(more) * x**K * (1 - x) / (1 + x - 2 * x ** (K + 1))
            if edge > as_arb(limit) or edge < as_arb(limit):
                return bool(edge < as_arb(limit))
    return more * _edge(q, K) <= limit


@frozen(slots=False, field_transformer=named)
class StableHistogram(_Bounded):
    """Release the item named most often, or ``BOTTOM``; one that fewer than ``named`` people named is never released.

    >>> select = StableHistogram(1, delta="1e-6")
    >>> select.K, select.majority_needed(45)
    (14, 37)
    """

    named: int = field(kw_only=True, default=1, converter=whole, metadata=bounds(maximum=MAX_K))

    def _enough(self, K: int) -> bool:
        return _edge_within(self.q, K, self.delta / _step(self.neighbours))

    def law(self, votes: object) -> Law:
        """The law over the items named and ``BOTTOM``."""
        return histogram_law(votes, self.q, self.K, self.named)

    def sample(self, votes: object, rng: Rng | None = None) -> Hashable:
        """One exact draw from :meth:`law`."""
        return self.noisy(votes, rng)[0]

    def noisy(self, votes: object, rng: Rng | None = None) -> tuple[Hashable, int]:
        """A draw with its noisy count, covered by the same guarantee: the item was named at least that count minus
        ``K`` times."""
        source = secret_rng(rng)
        best, most = BOTTOM, self.K + self.named - 1
        for item, count in _items(votes):
            seen = count + self._draw(source)
            if seen > most:
                best, most = item, seen
        return (best, most) if best is not BOTTOM else (BOTTOM, 0)

    def majority_needed(self, users: int) -> int:
        """Votes with which an item surely wins among so many users: ``2 c - n >= 2 K + 1`` and ``c >= 2 K + named``."""
        return max((positive_int(users, "users") + 2 * self.K + 2) // 2, 2 * self.K + self.named)


@frozen(slots=False, field_transformer=named)
class GapSelection(_Bounded):
    """Release the first item if its lead is clear, or ``BOTTOM``."""

    def _enough(self, K: int) -> bool:
        return _edge_within(self.q, K, self.delta, second=self.neighbours is Neighbours.REPLACE)

    def law(self, votes: object) -> Law:
        return gap_law(votes, self.q, self.K, self.neighbours)

    def sample(self, votes: object, rng: Rng | None = None) -> Hashable:
        """One exact draw from :meth:`law`."""
        first, gap = _lead(votes)
        drawn = gap + self._draw(secret_rng(rng))
        return first if drawn >= self.K + _step(self.neighbours) + 1 else BOTTOM


@frozen(slots=False, field_transformer=named)
class PureSelection(_Selection):
    """Draw an item of ``0..universe - 1`` that many have named; the universe may be 2**64 or far larger.

    With ``abstain`` the answer may be ``BOTTOM``, which counts as named by so many
    (:func:`privpac.methods.agreement.plurality.silent_votes`).

    >>> PureSelection(1, universe=2**64).law({7: 60}).mode
    7
    """

    universe: int = field(kw_only=True, converter=whole)
    abstain: int | None = field(kw_only=True, default=None, converter=whole_or_none)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours)

    def law(self, votes: object) -> Law:
        return plurality_law(votes, 1 / self.q, self.universe, self.abstain)

    def sample(self, votes: object, rng: Rng | None = None) -> Hashable:
        """One exact draw from :meth:`law`."""
        drawn = int(_plurality(votes, 1 / self.q, self.universe, self.abstain).sample(secret_rng(rng)))
        return drawn if drawn < self.universe else BOTTOM
