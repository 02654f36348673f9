"""The score of a quantile: by how much the weight on either side of a value is too large.

Everybody owns a weight of at most ``L``, spread over the values of their records by themselves.  For ``q = a/b`` and a
value ``z`` with weight ``W_<`` below, ``W_>`` above and ``W`` in all,

    cost(z) = max(b W_< - a W,  b W_> - (b - a) W),

at most 0 exactly for the ``q``-quantiles, and ``b`` for every unit of weight by which a rank is missed.

**Guarantee.**  A user with weight ``w <= L`` adds ``b w_< - a w``, in ``[-aL, (b-a)L]``, to the first term and ``b w_>
- (b-a) w``, in ``[-(b-a)L, aL]``, to the second.  A maximum moves by no more and no less than its terms do.  So the
change of the cost lies in an interval of length ``R = 2 max(a, b-a) L`` for a user who comes or leaves; for one who is
replaced each term moves by at most ``bL`` either way, ``R = 2bL``.  By the range rule weights ``e**(-(epsilon/R)
cost)`` are epsilon-DP.

**Accuracy.** Some value of the data costs at most 0, so ``Pr[cost > s] <= (D - 1) e**(-(epsilon/R)(s + 1))`` over ``D``
values, whatever the data. For the *ends* of an interval the costs are shifted by ``s``: the lower one is ``max(b W_< -
a W + s [z > least], b W_> - (b-a) W - s)``, and still some value costs at most 0: the quantile of rank ``(aW - s)/b``,
or the least value of the domain if that is negative. So but for the same probability the value drawn is the least one,
or has ``b W_< <= a W``: it is not above the quantile. Shifts are public constants and do not touch the guarantee.

**Own quantiles.**  Who votes for the ``q``-quantile of their own ``m`` records has two of them where ``qm`` is whole,
``c_qm`` and ``c_(qm+1)``, and every value between is one.  So everybody has two votes (``L = 2``): one for each, or,
where values are equally spaced, for the middle of both, rounded down and up.  Otherwise both votes are the same one.
They are at least 0 and add up to 2, and the proof above needs no more.

Costs change only at a value and right behind it: a law over 2**64 values is as short as the data.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from attrs import frozen

from privpac.arrays import Ints, Words
from privpac.data import UserData
from privpac.data.grouping import ranked
from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.law import Law
from privpac.sample_size import LIMIT, SLACK, Certificate, open_unit, positive

# How far a quantile law misses its rank, and how many people it needs.


def quantile_range(q: Fraction, levels: int, neighbours: Neighbours) -> int:
    """The length of the interval in which one person of weight ``levels`` moves all costs of a quantile ``a/b``.

    The cost of ``z`` is ``max(b W_< - a W, b W_> - (b - a) W)``.  One person adds to its terms at least
    ``-max(a, b-a)`` and at most ``max(a, b-a)`` times their weight; a replaced one moves them by at most ``b`` times
    it, either way.

    >>> quantile_range(Fraction(1, 2), 1, Neighbours.ADD_REMOVE), quantile_range(Fraction(9, 10), 4, Neighbours.REPLACE)
    (2, 80)
    """
    a, b = q.as_integer_ratio()
    return 2 * levels * (max(a, b - a) if neighbours is Neighbours.ADD_REMOVE else b)


def quantile_reach(eta: Rational, size: int, beta: Rational) -> int:
    """The least ``s`` with ``(size - 1) e**(-eta (s + 1)) <= beta``: costs of a quantile law exceed it so rarely,
    since one value at least costs nothing.

    >>> quantile_reach("1/2", 2**64, "0.05")
    94
    """
    rate, b = positive(eta, "eta"), open_unit(beta, "beta")
    if positive_int(size, "size") == 1:
        return 0
    needed = (math.log(size - 1) - math.log(b)) / rate * (1 + SLACK)
    if needed > LIMIT:
        raise ParameterError("epsilon is too small for a statement about ranks; use at least 1e-9")
    return max(0, math.ceil(needed) - 1)


def certify_quantile(
    epsilon: Rational,
    beta: Rational,
    alpha: Rational,
    *,
    size: int,
    q: Fraction = Fraction(1, 2),
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    levels: int = 2,
) -> Certificate:
    """Users that suffice for a quantile over ``size`` values that misses its rank by at most a share ``alpha``.

    ``levels`` is the weight of a person: the two votes for the quantile of their own records.

    >>> certify_quantile(1, "0.05", "0.05", size=2**64).n_users
    946
    """
    relation, share = one_of(Neighbours, neighbours, "neighbours"), open_unit(alpha, "alpha")
    eta = positive(epsilon, "epsilon") / quantile_range(q, positive_int(levels, "levels"), relation)
    if (math.log(positive_int(size, "size")) - math.log(open_unit(beta, "beta"))) / eta > LIMIT:
        return Certificate.upper(None, "quantile", "any values in the domain")
    missed = quantile_reach(eta, size, beta) / (q.denominator * levels)
    return Certificate.upper(
        max(1, math.ceil(missed / share * (1 + SLACK))), "quantile", "any values in the domain", missed=missed
    )


End = str
"""Which number is drawn: ``"point"``, or the ``"lower"`` or ``"upper"`` end of an interval."""


class Weighted(NamedTuple):
    """Distinct codes, ascending, each with the weight of everybody on it."""

    codes: Words
    weights: Ints


def weights_of(users: UserData, codes: Words, weight: str, levels: int) -> Ints:
    """The weight of every record, in the order of users and ascending codes; one user's add up to at most ``levels``.

    ``"user"``: shares of ``levels``, rounded so that they telescope; otherwise 1 for every record.
    """
    sizes = np.diff(users.offsets).astype(np.int64)
    held = np.repeat(sizes, sizes)
    place = np.arange(codes.size, dtype=np.int64) - np.repeat(np.asarray(users.offsets[:-1], np.int64), sizes)
    if weight == "user":
        # Telescopes to ``levels`` for everybody with records: this line is the bound on a person's influence.
        shares: Ints = levels * (place + 1) // np.maximum(held, 1) - levels * place // np.maximum(held, 1)
        return shares
    return np.ones(codes.size, np.int64)


def own_votes(users: UserData, codes: Words, levels: int, q: Fraction, linear: bool) -> Words:
    """``levels`` votes of everybody with records, 2 or 1, for the quantile of their own records; codes ascend within
    each user.

    One vote is for the lower of two quantiles.
    """
    sizes = np.diff(users.offsets).astype(np.int64)
    first, held = np.asarray(users.offsets[:-1], np.int64)[sizes > 0], sizes[sizes > 0]
    place, left = np.divmod(q.numerator * held - 1, q.denominator)  # of the ceil(q m)-th: at least 0, for 0 < q < 1
    low = codes[first + place]
    if levels == 1:
        return low
    high = codes[first + place + (left == q.denominator - 1)]  # q m is whole, and below m
    if linear:
        apart = high - low
        low, high = low + apart // np.uint64(2), high - apart // np.uint64(2)
    return np.concatenate([low, high])


@frozen(slots=False)
class WeightedValues:
    """A kernel: how much weight of all users lies on each value of a column."""

    column: str
    weight: str
    levels: int
    q: Fraction
    linear: bool = False
    """Whether the middle of two codes is the middle of their values."""

    def zero(self) -> Weighted:
        return Weighted(np.empty(0, np.uint64), np.empty(0, np.int64))

    def chunk(self, users: UserData) -> Weighted:
        codes = np.asarray(users.codes[self.column], np.uint64)
        sizes = np.diff(users.offsets).astype(np.int64)
        owner = np.repeat(np.arange(sizes.size), sizes)
        codes = codes[np.lexsort((codes, owner))]
        if self.weight == "own":
            votes = own_votes(users, codes, self.levels, self.q, self.linear)
            return _gathered(votes, np.ones(votes.size, np.int64))
        return _gathered(codes, weights_of(users, codes, self.weight, self.levels))

    def merge(self, a: Weighted, b: Weighted) -> Weighted:
        return _gathered(np.concatenate([a.codes, b.codes]), np.concatenate([a.weights, b.weights]))


def _gathered(codes: Words, weights: Ints) -> Weighted:
    distinct, places = ranked(codes)
    sums = np.zeros(distinct.size, np.int64)
    np.add.at(sums, places, weights)
    return Weighted(distinct[sums > 0], sums[sums > 0])


@frozen(slots=False)
class RankLaw:
    """The law of one quantile over the codes ``least..most``; all fields are public."""

    q: Fraction
    epsilon: Fraction
    levels: int
    least: int
    most: int
    neighbours: Neighbours
    beta: Fraction
    """How often this number may miss."""

    @property
    def eta(self) -> Fraction:
        """Epsilon over the range by which one person moves the costs."""
        return self.epsilon / quantile_range(self.q, self.levels, self.neighbours)

    @property
    def reach(self) -> int:
        """A cost that is exceeded with probability at most ``beta``, whatever the data."""
        return quantile_reach(self.eta, self.most - self.least + 1, self.beta)

    def costs(self, values: Weighted, end: End = "point") -> tuple[Words, Words, Ints]:
        """First and last codes of the blocks of equal cost, and these costs."""
        codes = np.clip(values.codes, np.uint64(self.least), np.uint64(self.most))
        edges = [np.array([self.least], np.uint64), codes, codes[codes < self.most] + np.uint64(1)]
        if end == "lower" and self.most > self.least:
            edges.append(np.array([self.least + 1], np.uint64))
        if end == "upper":
            edges.append(np.array([self.most], np.uint64))
        starts = np.unique(np.concatenate(edges))
        upto = np.concatenate([[0], np.cumsum(values.weights)]).astype(np.int64)
        below = upto[np.searchsorted(codes, starts, side="left")]
        above = upto[-1] - upto[np.searchsorted(codes, starts, side="right")]
        a, b = self.q.as_integer_ratio()
        left, right = b * below - a * upto[-1], b * above - (b - a) * upto[-1]
        shift = 0 if end == "point" else self.reach
        if end == "lower":
            left, right = left + shift * (starts > self.least), right - shift
        elif end == "upper":
            left, right = left - shift, right + shift * (starts < self.most)
        ends = np.concatenate([starts[1:] - np.uint64(1), np.array([self.most], np.uint64)])
        return starts, ends, np.maximum(left, right)

    def law(self, values: Weighted, end: End = "point") -> Law:
        """Weights ``e**(-eta cost)``."""
        starts, ends, costs = self.costs(values, end)
        return Law.from_blocks(starts, ends, costs, self.eta, domain=(self.least, self.most))

    @property
    def missed(self) -> Fraction:
        """By how many people's weight the rank may be missed."""
        return Fraction(self.reach, self.q.denominator * self.levels)
