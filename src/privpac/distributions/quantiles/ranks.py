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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from privpac.data import UserData
from privpac.data.grouping import ranked
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.law import Law
from privpac.sample_size import LIMIT, SLACK, Certificate, open_unit, positive
from privpac.special import log1p_exp, log_expm1, log_of

__all__ = [
    "End",
    "RankLaw",
    "Weighted",
    "WeightedValues",
    "certify_quantile",
    "certify_rank",
    "choosing_votes",
    "interior_point_closed_form",
    "interior_point_exponential",
    "log_star",
    "pairs_failure",
    "quantile_range",
    "quantile_reach",
    "reductions_to_constant",
    "walk_failure",
    "weights_of",
]


# How many values private medians and interior points need, and what given parameters certify.
#
# * Order statistics (:func:`certify_rank`): the rank law over ``0..d`` misses its ranks with probability at most ``d
#   r**-(opt + 1)``.
# * Quantiles (:func:`certify_quantile`): one law whose scores follow the ranks themselves needs neither a window nor
#   the
#   number of values, and half as many of them.
# * The choosing step (:func:`choosing_votes`): one candidate with ``hi`` votes is missed with probability ``1/(1 +
#   w(hi))``.
# * The exponential mechanism (:func:`interior_point_exponential`): ``n = 2 ceil(2 ln(D/beta)/epsilon) - 1`` values in
#   ``0..D``.
# * Hidden walks: :func:`walk_failure` evaluates the utility theorem for given integers and bases (conditions (a)-(e) of
#   :mod:`privpac.mechanisms.interior_point`, which plans them); :func:`interior_point_closed_form` is the closed form
#   ``n
#   = (2k+2) T = O(k**2 log k ln(k/(delta beta))/epsilon)`` with ``k`` = :func:`reductions_to_constant`, at most
#   ``log*``
#   of the domain.
# * Random pairs: :func:`pairs_failure` does the same for that engine.
#
# Everything is a pure function of public numbers; privacy never rests on it.


_ANY = "any values in the domain"


# Sizes of domains


def log_star(bits: int) -> int:
    """``log*`` to base 2 of a domain of ``2**bits`` values: how often the logarithm is taken until at most 1 is left.

    >>> [log_star(b) for b in (0, 1, 2, 4, 16, 65536)]
    [0, 1, 2, 3, 4, 5]
    """
    x, times = positive_int(bits, "bits", minimum=0), 1
    if x == 0:
        return 0
    while x > 1:
        # ceil(log2 x): the next logarithm, rounded up; exact where it matters because the towers are powers of two.
        x, times = (x - 1).bit_length(), times + 1
    return times


def reductions_to_constant(bits: int) -> int:
    """``k(b)``: reductions until the innermost domain of values of ``bits`` bits is ``0..3``; at most
    ``log_star(bits)``."""
    domain, k = positive_int(bits, "bits"), 1
    while domain > 3:
        domain, k = domain.bit_length(), k + 1
    return k


# Rank law and choosing step


def certify_rank(epsilon: Any, beta: Any, *, d: int, hi: int = 1) -> Certificate:
    """Values that suffice for the rank law over ``0..d`` to stay between ranks ``hi`` and ``K + 1``, with the least
    such ``K``.

    >>> certify_rank(1, "0.05", d=2**16 - 1)["K"]
    56
    """
    e, b = positive(epsilon, "epsilon"), open_unit(beta, "beta")
    top, first = positive_int(d, "d", minimum=0), positive_int(hi, "hi")
    steps = 1 if top == 0 else max(1, math.ceil((math.log(top) - math.log(b)) * 2 / e * (1 + SLACK)))
    if steps > LIMIT:
        return Certificate.upper(None, "rank law", _ANY)
    opt = steps - 1
    return Certificate.upper(opt + first, "rank law", _ANY, hi=first, K=2 * opt + first - 1, opt=opt)


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


def quantile_reach(eta: Any, size: int, beta: Any) -> int:
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
    epsilon: Any,
    beta: Any,
    alpha: Any,
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
        return Certificate.upper(None, "quantile", _ANY)
    missed = quantile_reach(eta, size, beta) / (q.denominator * levels)
    return Certificate.upper(max(1, math.ceil(missed / share * (1 + SLACK))), "quantile", _ANY, missed=missed)


def choosing_votes(epsilon: Any, delta: Any, beta: Any) -> tuple[int, float]:
    """The least number of votes on a single candidate at which the choosing law (replace) names it but for ``beta``,
    and its failure.

    >>> choosing_votes(0.5, 1e-6, 0.01)[0]
    69
    """
    e, d, b = positive(epsilon, "epsilon"), open_unit(delta, "delta"), open_unit(beta, "beta")
    rate, odds = e / 2, math.log(d) - math.log1p(-d)
    if odds > log_expm1(rate):
        raise ParameterError("delta too large for epsilon: delta/(1 - delta) must be at most e**(epsilon/2) - 1")

    def failure(q: int) -> float:
        return _share(0.0, odds + log_expm1(rate * q) - log_expm1(rate))

    hi = max(1, math.ceil(log1p_exp(log_expm1(rate) + math.log1p(-b) - math.log(b) - odds) / rate - SLACK))
    return hi, failure(hi)


# Interior points


def interior_point_exponential(
    epsilon: Any, beta: Any, *, top: int | None = None, bits: int | None = None
) -> Certificate:
    """Values that suffice for the exponential mechanism over ``0..top``, or over values of ``bits`` bits.

    >>> interior_point_exponential(1, "0.05", bits=64).n_users
    189
    """
    e, b = positive(epsilon, "epsilon"), open_unit(beta, "beta")
    if (top is None) == (bits is None):
        raise ParameterError("give exactly one of top and bits")
    size = positive_int(bits, "bits") * math.log(2) if top is None else math.log(positive_int(top, "top"))
    needed = (size - math.log(b)) * 2 / e * (1 + SLACK)
    n = 2 * max(1, math.ceil(needed)) - 1 if needed < LIMIT else None
    return Certificate.upper(n, "exponential mechanism", _ANY)


def interior_point_closed_form(
    epsilon: Any, delta: Any, beta: Any, *, bits: int, reductions: int | None = None
) -> Certificate:
    """The closed form for ``k`` reductions (by default until the domain is constant): ``(2k + 2) T`` values suffice.

    ``J = 2 + ceil(log2(k+1))``, ``T = 4 + ceil(2 (J+1)(3k+1) ln(max(n, 10k/delta, D)(2k+1)/beta)/epsilon)``, ``n`` on
    both sides; the planner of the mechanism needs 6 to 9 times fewer values.
    """
    e, d, b = positive(epsilon, "epsilon"), open_unit(delta, "delta"), open_unit(beta, "beta")
    domain = positive_int(bits, "bits")
    k = (
        reductions_to_constant(domain)
        if reductions is None
        else positive_int(reductions, "reductions", maximum=1 << 20)
    )
    if e > 3 * k + 1:
        raise ParameterError(
            f"epsilon must be at most 3k + 1 = {3 * k + 1} for {k} reductions; use a smaller one, it also holds"
        )
    for _ in range(k - 1):
        domain = domain.bit_length()
    J = 2 + k.bit_length()  # ceil(log2(k+1)) is the number of bits of k
    log_floor = max(math.log(10 * k) - math.log(d), math.log(domain))
    n, T = 0, 0
    while n < LIMIT:
        width = max(log_floor, math.log(n) if n else 0.0) + math.log(2 * k + 1) - math.log(b)
        T = 4 + math.ceil(2 * (J + 1) * (3 * k + 1) * width / e * (1 + SLACK))
        if (2 * k + 2) * T <= n:
            return Certificate.upper(n, "hidden walks, closed form", _ANY, reductions=k, J=J)
        n = (2 * k + 2) * T
    return Certificate.upper(None, "hidden walks, closed form", _ANY, reductions=k)


class ReductionNumbers(Protocol):
    """What the utility theorem reads of one reduction, whichever it is."""

    @property
    def B(self) -> int: ...
    @property
    def rL(self) -> Fraction: ...
    @property
    def delta_L(self) -> Fraction: ...
    @property
    def rc(self) -> Fraction: ...


class WalkNumbers(ReductionNumbers, Protocol):
    """What it reads of a hidden walk."""

    @property
    def kappa(self) -> int: ...
    @property
    def T(self) -> int: ...


def walk_failure(levels: Sequence[WalkNumbers], rz: Fraction, size: int, *, bits: int, top: int | None = None) -> float:
    """The failure probability that the utility theorem certifies for these levels (outermost first); 1 where a
    condition fails."""
    domain, m, total = bits, size, 0.0
    for level in levels:
        c = (level.B + 1) // 2
        if level.kappa > level.T or 2 * c + level.kappa - 2 > level.T:
            return 1.0
        total += 2 * math.exp(-c * log_of(level.rc)) + _missed(m, c, level.T + 1, level)
        m -= level.T + level.B - 1
    for _ in levels[1:]:
        domain = domain.bit_length()
    return min(1.0, (total + _last(levels, rz, m, domain, bits, top)) * (1 + SLACK)) if m >= 1 else 1.0


class PairNumbers(ReductionNumbers, Protocol):
    """What it reads of random pairs."""

    @property
    def A(self) -> int: ...


def pairs_failure(levels: Sequence[PairNumbers], rz: Fraction, size: int, *, bits: int) -> float:
    """The failure probability certified for random pairs, with the best number of votes ``q`` that ``A`` allows at each
    level."""
    domain, m, total = bits, size, 0.0
    for i, level in enumerate(levels):
        c, n = (level.B + 1) // 2, m
        if n < 2:
            return 1.0
        best = 1.0
        for q in range(max(c, 2), n + 1):
            slack = level.A - n * (q - 2) / (2 * (n - 1))
            if slack <= 0:
                break
            best = min(best, math.exp(-slack * slack / n) + _missed(n, c, q, level))
        total += 2 * math.exp(-c * log_of(level.rc)) + best
        m = n // 2 - (level.A - 1) - (level.B - 1)
        m -= m % 2 if i < len(levels) - 1 else 0
    for _ in levels[1:]:
        domain = domain.bit_length()
    return min(1.0, (total + _last(levels, rz, m, domain, bits, None)) * (1 + SLACK)) if m >= 1 else 1.0


def _last(levels: Sequence[object], rz: Fraction, m: int, domain: int, bits: int, top: int | None) -> float:
    """``D rz**-ceil(m/2)`` of the innermost choice."""
    if levels:
        size = math.log(domain)
    else:
        size = bits * math.log(2) if top is None else math.log(top)
    return math.exp(min(0.0, size - (m + 1) // 2 * log_of(rz)))


def _missed(n: int, c: int, q: int, level: WalkNumbers | PairNumbers) -> float:
    """``a/(a + w(q))``: with ``q`` of ``n`` votes on top, a prefix of fewer than ``c`` is chosen."""
    rate = log_of(level.rL)
    odds = math.log(float(level.delta_L)) - math.log1p(-float(level.delta_L)) - log_expm1(rate)
    few = 0.0 if c == 1 else log1p_exp(math.log(n) + odds + log_expm1(rate * (c - 1)) - math.log(c - 1))
    return _share(few, odds + log_expm1(rate * q))


def _share(a: float, w: float) -> float:
    """``e**a/(e**a + e**w)``."""
    return math.exp(-log1p_exp(w - a))


Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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

    def costs(self, values: Weighted, end: End = "point") -> tuple[Any, Any, Any]:
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
