"""How far apart two laws are, rigorously.

For two block laws of the same rate ``w = e**-eta`` the ratio ``P(v)/Q(v)`` depends on the difference of the two scores
only.  With ``N_ab`` values of gap ``a`` in P and ``b`` in Q on the common refinement, and
``A_k = sum over a-b=k of N_ab w**a``,

    H_eps(P, Q) = sum over k of A_k * max(0, 1/Z_P - e**eps w**-k / Z_Q),

few terms whatever the domain; values whose P-mass is below the working precision enter as a ball from 0 to that mass.
Decisions (``within``) first use balls; what balls cannot settle, equality in particular, is decided exactly as the sign
of an exponential sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property, reduce
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import flint
import numpy as np
from attrs import frozen
from flint import arb
from numpy.typing import NDArray

from privpac.arrays import Ints
from privpac.bisection import narrow
from privpac.errors import LawError, Undecided
from privpac.exact import MAX_PRECISION, Ball, ExpSum, Rational, as_arb, exp_ball, precision, rational
from privpac.law.numbers import Number, Quotient, enclosed, present, sign_of_sum, sum_of
from privpac.law.sampling import Totals, grouped
from privpac.law.weights import Uints

if TYPE_CHECKING:
    from privpac.law.blocks import BlockLaw, FiniteLaw, Law

# The common refinement of two block laws: how many values have score ``a`` in one and ``b`` in the other.

_DOMAINS = "the two laws live on different domains"


@frozen(slots=False)
class Pairs:
    """Groups of values by (gap in P minus gap in Q, gap in P), in increasing order, with their exact number."""

    difference: Ints
    gap: Ints
    totals: Totals


class Refinement(NamedTuple):
    """Every block of the common refinement: its gap in P and in Q, and how many values it has, each counted as often
    as it weighs (one more than ``span``, or what ``big`` says)."""

    p: Ints
    q: Ints
    span: Uints
    big: dict[int, int]


def _refined(p: BlockLaw, q: BlockLaw) -> Refinement:
    """The common refinement of laws with the same weights; different domains are a ``LawError``."""
    if p.lows is None or q.lows is None:
        order = _same_labels(p, q)
        return Refinement(p.gaps, q.gaps[order], p.span, p.big)
    if p.same_layout(q):
        return Refinement(p.gaps, q.gaps, *p.tickets)
    short = p.lows.dtype == np.uint64 and q.lows.dtype == np.uint64
    alike = short and [o for _, o in p.segments] == [o for _, o in q.segments]
    first, second, span, big = (_refine_segments(p, q) if alike else None) or _refine_any(p, q)
    if p.weights is not None and p.which is not None:
        span, big = p.weights.tickets(span, p.which[first])
    return Refinement(p.gaps[first], q.gaps[second], span, big)


def _same_labels(p: BlockLaw, q: BlockLaw) -> NDArray[np.intp]:
    """Where the blocks of ``p`` stand in ``q``."""
    order = np.arange(len(p))
    same = p.lows is q.lows and len(p) == len(q)
    if same and p.labels != q.labels:
        places = [q.places.get(p.label(i)) for i in range(len(p))]
        same = None not in places
        order = np.array(places if same else [], dtype=np.intp)
    if same and not (p.big or q.big):
        same = bool((p.span == q.span[order]).all())
    elif same:
        same = all(p.count(i) == q.count(j) for i, j in enumerate(order.tolist()))
    if not same:
        raise LawError("the two laws live on different labelled blocks")
    return order


def _grouped_pairs(common: Refinement) -> Pairs:
    """Blocks of the same two gaps together."""
    a, b, span, big = common
    difference = a - b
    low, width = int(difference.min()), int(a.max()) + 1
    if (int(difference.max()) - low + 1) * width < 1 << 62:
        keys, totals = grouped((difference - low) * width + a, span, big)
        return Pairs(keys // width + low, keys % width, totals)
    # Gaps too wide to pack: number them first.
    gaps, place = np.unique(a, return_inverse=True)
    differences, which = np.unique(difference, return_inverse=True)
    keys, totals = grouped(which.astype(np.int64) * len(gaps) + place, span, big)
    return Pairs(differences[keys // len(gaps)], gaps[keys % len(gaps)], totals)


Refined = tuple[NDArray[np.intp], NDArray[np.intp], Uints, dict[int, int]]


def _refine_segments(p: BlockLaw, q: BlockLaw) -> Refined | None:
    """Segment by segment on uint64 starts; None when the segments have holes or do not match one by one."""
    assert p.lows is not None
    assert q.lows is not None
    ends = [[*(first for first, _ in law.segments), len(law)] for law in (p, q)]
    first: list[NDArray[np.intp]] = []
    second: list[NDArray[np.intp]] = []
    spans: list[Uints] = []
    big: dict[int, int] = {}
    n = 0
    for (pa, pb), (qa, qb) in zip(*map(pairwise, ends)):
        if not (_contiguous(p, pa, pb) and _contiguous(q, qa, qb)):
            return None
        p_low, q_low = p.lows[pa:pb], q.lows[qa:qb]
        end = int(p_low[-1]) + p.count(pb - 1)
        if int(p_low[0]) != int(q_low[0]) or end != int(q_low[-1]) + q.count(qb - 1):
            return None
        # Two sorted runs: a stable sort merges them in one pass.
        starts = np.concatenate([p_low, q_low])
        order = np.argsort(starts, kind="stable")
        starts, mine = starts[order], order < len(p_low)
        last = np.append(starts[1:] != starts[:-1], True)
        starts, p_at = starts[last], np.cumsum(mine)[last]
        first.append(pa + p_at - 1)
        second.append(qa + np.flatnonzero(last) - p_at)
        tail = end - 1 - int(starts[-1])
        if tail >= 1 << 64:
            big[n + len(starts) - 1] = tail + 1
            tail = 0
        spans.append(np.append(starts[1:] - starts[:-1] - np.uint64(1), np.uint64(tail)))
        n += len(starts)
    return np.concatenate(first), np.concatenate(second), np.concatenate(spans), big


def _contiguous(law: BlockLaw, a: int, b: int) -> bool:
    assert law.lows is not None
    low = law.lows[a:b]
    if any(a <= i < b - 1 for i in law.big):
        return False
    return bool((low[1:] - low[:-1] == law.span[a : b - 1] + np.uint64(1)).all())


def _refine_any(p: BlockLaw, q: BlockLaw) -> Refined:
    """Python ints of any size, any layout."""
    mine, theirs = (sorted((law.low(i), law.low(i) + law.count(i), i) for i in range(len(law))) for law in (p, q))
    i = j = 0
    first, second, counts = [], [], []
    while i < len(mine) and j < len(theirs):
        (a, b, x), (c, d, y) = mine[i], theirs[j]
        if a != c:
            raise LawError(_DOMAINS)
        stop = min(b, d)
        first.append(x)
        second.append(y)
        counts.append(stop - a)
        mine[i], theirs[j] = (stop, b, x), (stop, d, y)
        i += stop == b
        j += stop == d
    if i < len(mine) or j < len(theirs):
        raise LawError(_DOMAINS)
    big = {k: c for k, c in enumerate(counts) if c > 1 << 64}
    span = np.array([0 if k in big else c - 1 for k, c in enumerate(counts)], dtype=np.uint64)
    return np.array(first, dtype=np.intp), np.array(second, dtype=np.intp), span, big


_ZERO, _ONE = Fraction(0), Fraction(1)


class _Blocks:
    """Two block laws of the same rate."""

    def __init__(self, p: BlockLaw, q: BlockLaw) -> None:
        self.p, self.q, self.rate = p, q, p.rate
        self.common = _refined(p, q)

    @cached_property
    def pairs(self) -> Pairs:
        return _grouped_pairs(self.common)

    @cached_property
    def slices(self) -> list[tuple[int, int]]:
        """Where the groups of one difference begin and end."""
        starts = np.flatnonzero(np.append(True, self.pairs.difference[1:] != self.pairs.difference[:-1]))
        return list(pairwise([*starts.tolist(), len(self.pairs.gap)]))

    def excess(self, epsilon: Fraction) -> arb:
        """Ball of the hockey stick at the working precision."""
        z_p, factor = self.p.levels.z(), exp_ball(epsilon) / self.q.levels.z()
        cut = self.rate.cut(flint.ctx.prec + 8 + self.p.levels.size.bit_length())
        total, truncated = arb(0), False
        for start, stop in self.slices:
            # An uncertain sign contributes the hull with zero.
            height = (1 / z_p - factor * self.rate.arb(-int(self.pairs.difference[start]))).nonnegative_part()
            if height <= 0:
                break  # the height falls as the difference grows
            gaps, n = self.pairs.gap[start:stop], stop - start
            if cut is not None and cut < int(gaps[-1]):
                n, truncated = int(np.searchsorted(gaps, cut, side="right")), True
            total += height * self.rate.total(gaps[:n].tolist(), self.pairs.totals.part(start, start + n))
        if truncated:
            assert cut is not None
            total += arb(0).union(self.rate.arb(cut + 1) * self.p.levels.size / z_p)
        return total

    def least(self) -> int:
        """The difference of scores where ``P/Q`` is largest."""
        return int((self.common.p - self.common.q).min())

    def sign(self, difference: int, epsilon: Fraction) -> int:
        """Sign of ``P - e**epsilon Q`` at one difference of scores: cheap balls first, then the exact decision."""
        p, q = self.p.levels, self.q.levels
        for bits in (64, 256):
            with precision(bits):
                value = self.rate.arb(difference) * q.z() - exp_ball(epsilon) * p.z()
                if value > 0:
                    return 1
                if value < 0:
                    return -1
        mine, theirs = ExpSum.exp(epsilon) * self.p.partition.sum, self.rate.exact(difference) * self.q.partition.sum
        return (theirs - mine).sign()

    def positive(self, epsilon: Fraction) -> Iterator[Number]:
        """The terms of the hockey stick, as exact numbers."""
        for start, stop in self.slices:
            difference = int(self.pairs.difference[start])
            if self.sign(difference, epsilon) <= 0:
                return
            mass = ExpSum(
                (x, a * count)
                for gap, count in zip(self.pairs.gap[start:stop].tolist(), self.pairs.totals.part(start, stop))
                for x, a in self.rate.exact(gap)
            )
            yield Quotient.of(mass, self.p.partition)
            yield Quotient.of(mass * self.rate.exact(-difference) * ExpSum.exp(epsilon, -1), self.q.partition)

    def top(self) -> arb:
        """Ball of the largest ``ln(P/Q)``."""
        return (self.rate.arb(self.least()) * self.q.levels.z() / self.p.levels.z()).log()

    def escaped(self) -> Number | None:
        return None


class _PairedCells:
    """Any two laws: groups of values with both probabilities."""

    def __init__(self, cells: Iterator[tuple[int, Number, Number]]) -> None:
        self.cells = list(cells)

    def excess(self, epsilon: Fraction) -> arb:
        total, factor = arb(0), exp_ball(epsilon)
        for count, a, b in self.cells:
            if present(a):
                total += (a.arb() - factor * b.arb()).nonnegative_part() * count
        return total

    def positive(self, epsilon: Fraction) -> Iterator[Number]:
        for count, a, b in self.cells:
            excess = a + b * ExpSum.exp(epsilon) * -1
            if sign_of_sum(excess) > 0:
                yield excess * count

    def top(self) -> arb:
        """Ball of the largest ``ln(P/Q)`` where both have mass."""
        ratios = [a.arb() / b.arb() for _, a, b in self.cells if present(a) and present(b)]
        return reduce(arb.max, ratios).log() if ratios else arb(0)

    def escaped(self) -> Number | None:
        """The mass P puts where Q has none."""
        lost = [a * count for count, a, b in self.cells if present(a) and not present(b)]
        return sum_of(lost) if lost else None


def _compare(p: Law, q: Law) -> _Blocks | _PairedCells:
    _require_laws(p, q)
    mine, theirs = p.as_blocks(), q.as_blocks()
    # Weights cancel where they are the same function of the value.
    if mine is None or theirs is None or mine.weights != theirs.weights:
        return _PairedCells(_common_cells(p.as_finite(), q.as_finite()))
    if mine.rate == theirs.rate:
        return _Blocks(mine, theirs)
    if mine.weights is not None:
        return _PairedCells(_common_cells(p.as_finite(), q.as_finite()))
    pairs = _grouped_pairs(_refined(mine, theirs))  # of different rates: grouped by both scores
    groups = zip(pairs.difference.tolist(), pairs.gap.tolist(), pairs.totals)
    return _PairedCells((n, mine.weight_number(gap), theirs.weight_number(gap - d)) for d, gap, n in groups)


def _require_laws(p: Law, q: Law) -> None:
    if not (hasattr(p, "as_finite") and hasattr(q, "as_finite")):
        raise TypeError(f"a Law is compared with a Law, not {type(q).__name__}")


def _common_cells(p: FiniteLaw, q: FiniteLaw) -> Iterator[tuple[int, Number, Number]]:
    """``(number of values, P, Q)`` over the common refinement; a missing outcome has probability 0."""
    edges = sorted({edge for law in (p, q) for block, _ in law.blocks for edge in (block.start, block.stop)})
    for start, stop in pairwise(edges):
        first, second = p.number(start), q.number(start)
        if present(first) or present(second):
            yield stop - start, first, second
    for atom in {**p.atoms, **q.atoms}:
        yield 1, p.number(atom), q.number(atom)


def hockey_stick(p: Law, q: Law, epsilon: Fraction, width: Rational | None) -> Ball:
    goal = None if width is None else rational(width, "precision", above=0)
    compared = _compare(p, q)

    def narrow(ball: Ball) -> bool:
        if goal is not None:
            return ball.width <= goal
        return ball.width <= ball.hi / (1 << 50) or ball.hi <= Fraction(1, 1 << 200)

    return _enclosed(lambda: compared.excess(epsilon), narrow, ceiling=_ONE)


def _enclosed(compute: Callable[[], arb], narrow: Callable[[Ball], bool], *, ceiling: Fraction | None = None) -> Ball:
    """Rational ends of a non-negative number, at growing precision."""
    bits = 128
    while bits <= MAX_PRECISION:
        with precision(bits):
            value = compute()
            if value.is_finite():
                ball = enclosed(value, ceiling=ceiling)
                if narrow(ball):
                    return ball
        bits *= 2
    raise Undecided(
        f"a divergence was not enclosed to the width asked for at {MAX_PRECISION} bits; ask for a larger precision="
    )


def within(p: Law, q: Law, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether ``H_epsilon(P, Q) <= delta``, decided exactly."""
    _require_laws(p, q)
    known = p.dominated_by(q, epsilon) if delta == 0 else None
    if known is not None:
        return known
    compared = _compare(p, q)
    if delta == 0 and isinstance(compared, _Blocks):
        # P <= e**eps Q everywhere iff it holds where the difference is least.
        return compared.sign(compared.least(), epsilon) <= 0
    if delta == 0:
        return next(compared.positive(epsilon), None) is None
    for bits in (64, 256):
        with precision(bits):
            value, bound = compared.excess(epsilon), as_arb(delta)
            if value <= bound:
                return True
            if value > bound:
                return False
    return sign_of_sum(sum_of([Quotient.of(-delta), *compared.positive(epsilon)])) <= 0


def max_divergence(p: Law, q: Law, enough: Fraction | None = None) -> Ball | float:
    """With ``enough`` a ball from 0 up to that number will do where it holds the divergence."""
    compared = _compare(p, q)
    if compared.escaped() is not None:
        return inf
    if enough is not None and enough >= 0:
        with precision(64):
            if compared.top() <= as_arb(enough):
                return Ball(_ZERO, enough)
    return _top(compared)


def _top(compared: _Blocks | _PairedCells) -> Ball:
    """The largest ``ln(P/Q)`` where both have mass, at least 0 and to 2**-100."""
    return _enclosed(compared.top, lambda ball: ball.width <= max(ball.hi, _ONE) / (1 << 100))


def epsilon_at(p: Law, q: Law, delta: Fraction) -> Fraction | float:
    """Bisection on the certified upper end, to 2**-40 relative; rounded up."""
    compared = _compare(p, q)
    lost = compared.escaped()
    if lost is not None and sign_of_sum(lost + Quotient.of(-delta)) > 0:
        return inf
    if within(p, q, _ZERO, delta):
        return _ZERO
    # Here P <= e**high Q wherever Q has mass, so the hockey stick is at most what escapes, and that is at most delta.
    low, high = _ZERO, _top(compared).hi
    if delta == 0:
        return high

    def holds(epsilon: Fraction) -> bool:
        with precision(160):
            return bool(compared.excess(epsilon) <= as_arb(delta))

    return narrow(
        holds,
        low,
        high,
        middle=lambda low, high: _short((low + high) / 2),
        wide=lambda low, high: high - low > high / (1 << 40),
        steps=100,
    )[1]


def _short(x: Fraction) -> Fraction:
    """A nearby rational of 64 significant bits."""
    shift = 64 - (x.numerator.bit_length() - x.denominator.bit_length())
    scale = Fraction(2) ** shift
    return Fraction(round(x * scale)) / scale
