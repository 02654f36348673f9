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

import flint
import numpy as np
from flint import arb

from privpac.errors import Undecided
from privpac.exact import MAX_PRECISION, Ball, ExpSum, Rational, as_arb, exp_ball, precision, rational
from privpac.law.base import Law
from privpac.law.blocks import BlockLaw, weight
from privpac.law.finite import FiniteLaw, present
from privpac.law.numbers import Number, Quotient, enclosed, exp_times, sign_of_sum, sum_of
from privpac.law.refine import Pairs, grouped_pairs, paired, refined
from privpac.least import narrow

__all__ = ["epsilon_at", "hockey_stick", "max_divergence", "within"]

_ZERO, _ONE = Fraction(0), Fraction(1)


class _Blocks:
    """Two block laws of the same rate."""

    def __init__(self, p: BlockLaw, q: BlockLaw) -> None:
        self.p, self.q, self.rate = p, q, p.rate
        self.common = refined(p, q)

    @cached_property
    def pairs(self) -> Pairs:
        return grouped_pairs(self.common)

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
        return (
            weight(difference, self.rate) * self.q.partition.sum - ExpSum.exp(epsilon) * self.p.partition.sum
        ).sign()

    def positive(self, epsilon: Fraction) -> Iterator[Number]:
        """The terms of the hockey stick, as exact numbers."""
        for start, stop in self.slices:
            difference = int(self.pairs.difference[start])
            if self.sign(difference, epsilon) <= 0:
                return
            mass = ExpSum(
                (x, a * count)
                for gap, count in zip(self.pairs.gap[start:stop].tolist(), self.pairs.totals.part(start, stop))
                for x, a in weight(gap, self.rate)
            )
            yield Quotient.of(mass, self.p.partition)
            yield Quotient.of(mass * weight(-difference, self.rate) * ExpSum.exp(epsilon, -1), self.q.partition)

    def top(self) -> arb:
        """Ball of the largest ``ln(P/Q)``."""
        return (self.rate.arb(self.least()) * self.q.levels.z() / self.p.levels.z()).log()

    def escaped(self) -> Number | None:
        return None


class _PairedCells:
    """Any two laws: groups of values with both probabilities."""

    def __init__(self, p: Law, q: Law) -> None:
        if isinstance(p, BlockLaw) and isinstance(q, BlockLaw):
            self.cells = list(_paired_cells(p, q))
        else:
            self.cells = list(_common_cells(p.as_finite(), q.as_finite()))

    def excess(self, epsilon: Fraction) -> arb:
        total, factor = arb(0), exp_ball(epsilon)
        for count, a, b in self.cells:
            if present(a):
                total += (a.arb() - factor * b.arb()).nonnegative_part() * count
        return total

    def positive(self, epsilon: Fraction) -> Iterator[Number]:
        for count, a, b in self.cells:
            excess = a + exp_times(epsilon, b) * -1
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
    if not (isinstance(p, Law) and isinstance(q, Law)):
        raise TypeError(f"a Law is compared with a Law, not {type(q).__name__}")
    if isinstance(p, BlockLaw) and isinstance(q, BlockLaw) and p.rate == q.rate:
        return _Blocks(p, q)
    return _PairedCells(p, q)


def _paired_cells(p: BlockLaw, q: BlockLaw) -> Iterator[tuple[int, Number, Number]]:
    """Two block laws of different rates, grouped by both scores."""
    pairs = paired(p, q)
    for difference, gap, count in zip(pairs.difference.tolist(), pairs.gap.tolist(), pairs.totals):
        yield count, p.weight_number(gap), q.weight_number(gap - difference)


def _common_cells(p: FiniteLaw, q: FiniteLaw) -> Iterator[tuple[int, Number, Number]]:
    """``(number of values, P, Q)`` over the common refinement; a missing outcome has probability 0."""
    edges = sorted({edge for law in (p, q) for block, _ in law.blocks for edge in (block.start, block.stop)})
    for start, stop in pairwise(edges):
        first, second = p.number(start), q.number(start)
        if present(first) or present(second):
            yield stop - start, first, second
    for atom in {**p.atoms, **q.atoms}:
        yield 1, p.number(atom), q.number(atom)


# The hockey stick


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


# Decisions


def within(p: Law, q: Law, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether ``H_epsilon(P, Q) <= delta``, decided exactly."""
    known = p.dominated_by(q, epsilon) if delta == 0 and isinstance(p, Law) else None
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


# Derived quantities


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
