"""Where the values of a column lie, found for a part of the budget: the private ranges of a scorecard's columns.

*Problem.*  A scorecard's waves run over bins, so equal bins of a range ten times too wide leave it one bin to see with.

*Family.*  Intervals of the codes ``0..N-1``, by the declaration alone: all of them, and for ``t = 1, 2, ...`` intervals
of the width ``w = N / 2**t`` at both ends, at the anchor, around it, and for ``t <= 6`` at every multiple of ``w/2``.
An interval of level ``t`` counts ``2**t`` times.  One more outcome, *abstain*, counts 64 times as much as all of them.

*Law.*  A user with ``m`` records scores ``floor(levels / m)`` for each of them inside: at most ``levels``.  With ``S``
the sum over users, ``P(interval)`` is proportional to ``multiplicity * e**(eta S / levels)``, with ``eta/2`` for
``eta`` under replace; abstain has the score 0.

*Theorem.*  One draw is ``eta``-DP, and ``(1.2534 eta)``-Gaussian private.  *Proof.*  (i) Family and multiplicities are
public.  A user more multiplies every weight by a factor in ``[1, e**eta]``, hence the normaliser too, and every
probability by one in ``[e**-eta, e**eta]``.  A replaced user multiplies weights by factors in ``[e**(-eta/2),
e**(eta/2)]``, and probabilities again by one in ``[e**-eta, e**eta]``.  A user without records multiplies by 1.

(ii) *Gaussian accounting.*  Let ``G(x) = Phi(Phi**-1(1 - x) - mu)``.  The trade-off of ``eta``-DP is made of two
straight pieces, from (0, 1) to the kink ``(k, k)``, ``k = 1/(1 + e**eta)``, and from there to (1, 0).  ``G`` is convex
with ``G(0) = 1`` and ``G(1) = 0``, so it lies below both pieces as soon as ``G(k) <= k``, that is ``mu >= 2
Phi**-1(e**eta / (1 + e**eta))``.

(iii) *A straight bound.*  ``2 Phi**-1(e**eta / (1 + e**eta)) <= 2 c eta`` with ``c = sqrt(2 pi)/4``, and ``2 c <
1.2534``.  Let ``s(x) = 1/(1 + e**-x)`` and ``f(x) = Phi(c x) - s(x)`` for ``x >= 0``: 0 at both ends.  ``4 f'(x)`` is
``e**(-pi x**2/16) - cosh(x/2)**-2`` and has the sign of ``h(y) = ln cosh y - pi y**2/8`` at ``y = x/2``.  ``h(0) = 0``,
and ``h'(y) = tanh y - pi y/4`` is first positive and then negative, because ``tanh`` is concave for ``y >= 0`` and its
slope at 0 is more than ``pi/4``.  So ``h`` is first positive and then negative, ``f`` rises and then falls, ``f >= 0``.

(iv) Draws compose with the noise of the scorecard as Gaussian private releases do: squares of their parameters add up
(:mod:`privpac.mechanisms.gaussian`).  A draw is exact, so it adds nothing to that module's rounding.  As zCDP it costs
``eta**2 / 8`` by bounded range, less than the ``(1.2534 eta)**2 / 2`` that is paid for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import isqrt

import numpy as np
from attrs import frozen

from privpac.arrays import Ints
from privpac.data import Domain, UserData
from privpac.guarantee import Neighbours
from privpac.law import Law
from privpac.parameters import TREE_LEVELS
from privpac.rng import Rng
from privpac.rules.wide_columns import BinnedColumn, typical_edges

SHARE = Fraction(3, 20)
"""Of a scorecard's budget, for all columns together."""
GAUSSIAN = Fraction(12534, 10000)
"""``eta``-DP is at most so many times ``eta``-Gaussian private."""
LEAST_SIZE = 33
"""Columns of fewer values have bins enough."""
LEAST_PEOPLE = 12
"""With fewer people times ``eta`` nearly every draw abstains, so nothing is spent."""
_HALF_STEPS, _FINEST, _ABSTAIN = 6, 14, 64
_BITS = 24


def searched(domain: Domain) -> bool:
    """Whether the range of a column without listed cuts is looked for: many numbers or dates, none called typical."""
    values = domain.present
    return values.anchor() is not None and values.typical_codes() is None and values.size >= LEAST_SIZE


@frozen(slots=False)
class RangeFamily:
    """The intervals among which the range of a column is drawn; ``size`` codes, with the anchor at one of them.

    >>> RangeFamily(40, 0).intervals[:5]
    ((0, 39, 0), (0, 19, 1), (10, 29, 1), (20, 39, 1), (0, 9, 2))
    """

    size: int
    anchor: int

    @cached_property
    def intervals(self) -> tuple[tuple[int, int, int], ...]:
        """First code, last code and level of every interval, the whole range first."""
        found = [(0, self.size - 1, 0)]
        for t in range(1, min(_FINEST, (self.size - 1).bit_length() - 4) + 1):
            width = Fraction(self.size, 1 << t)
            last = self.size - width
            starts = {Fraction(0), last, min(Fraction(self.anchor), last)}
            starts.add(min(max(self.anchor - width / 2, Fraction(0)), last))
            if t <= _HALF_STEPS:
                starts |= {k * width / 2 for k in range((2 << t) - 1)}
            found += [(-(-start // 1), -(-(start + width) // 1) - 1, t) for start in sorted(starts)]
        return tuple(found)

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """Codes at which an interval begins or the one before has ended."""
        ends = {edge for low, high, _ in self.intervals for edge in (low, high + 1)}
        return tuple(sorted(ends - {0, self.size}))

    @cached_property
    def multiplicities(self) -> tuple[int, ...]:
        """Of the intervals, and of abstaining."""
        counts = [1 << t for _, _, t in self.intervals]
        return (*counts, _ABSTAIN * sum(counts))

    def scores(self, cells: Sequence[int]) -> list[int]:
        """The weight inside every interval, and 0, from the weights between neighbouring edges."""
        places = {edge: i for i, edge in enumerate((0, *self.edges, self.size))}
        sums = list(accumulate((int(cell) for cell in cells), initial=0))
        return [*(sums[places[high + 1]] - sums[places[low]] for low, high, _ in self.intervals), 0]

    def law(self, cells: Sequence[int], rate: Fraction) -> Law:
        """The law of one draw over ``(outcome, offset)``: an interval, or after the last of them *abstain*."""
        scores = [-score for score in self.scores(cells)]
        return Law.from_blocks(score=scores, eta=rate, counts=list(self.multiplicities))

    def drawn(self, cells: Sequence[int], rate: Fraction, rng: Rng) -> tuple[int, int] | None:
        """First and last code of the interval drawn; None for the whole range."""
        outcome, _ = self.law(cells, rate).sample(rng)
        low, high, t = (*self.intervals, (0, 0, 0))[outcome]
        return (low, high) if t else None


@frozen(slots=False)
class RangeSearch:
    """What the ranges of some columns cost: one draw each, all at the same ``eta``."""

    columns: tuple[str, ...]
    eta: Fraction
    neighbours: Neighbours
    levels: int = TREE_LEVELS

    @staticmethod
    def of(columns: Sequence[str], rho: Fraction, neighbours: Neighbours, users: int | None) -> RangeSearch | None:
        """The search for :data:`SHARE` of ``rho``; None, with nothing spent, where it would find nothing.

        ``(1.2534 eta)**2 / 2`` is at most the share of a column: ``eta`` is the root, rounded down.
        """
        if not columns or users is None:
            return None
        square = 2 * rho * SHARE / len(columns) / GAUSSIAN**2
        eta = Fraction(isqrt((square.numerator << 2 * _BITS) // square.denominator), 1 << _BITS)
        return RangeSearch(tuple(columns), eta, neighbours) if users * eta >= LEAST_PEOPLE else None

    @property
    def rate(self) -> Fraction:
        """What one vote counts in the exponent."""
        return self.eta / self.levels / (1 if self.neighbours is Neighbours.ADD_REMOVE else 2)


@frozen(slots=False)
class RangeKernel:
    """Folds whole users into the weights between the edges of each family, column after column."""

    columns: tuple[BinnedColumn, ...]
    levels: int

    def zero(self) -> Ints:
        return np.zeros(sum(column.width for column in self.columns), np.int64)

    def chunk(self, users: UserData) -> Ints:
        # All records of a user weigh at most ``levels`` together: this line is the sensitivity.
        records = np.diff(users.offsets)
        weights = np.repeat(self.levels // np.maximum(records, 1), records)
        found, start = self.zero(), 0
        for column in self.columns:
            bins = np.empty(len(weights), np.uint16)
            column.bin_codes(np.ascontiguousarray(users.codes[column.name]), bins)
            np.add.at(found[start : start + column.width], bins, weights)
            start += column.width
        return found

    def merge(self, a: Ints, b: Ints) -> Ints:
        return a + b

    def split(self, sums: Ints) -> list[list[int]]:
        """The weights of the values that are there, column by column."""
        ends = accumulate((column.width for column in self.columns), initial=0)
        return [sums[at : at + column.bins].tolist() for at, column in zip(ends, self.columns)]


def family(domain: Domain) -> RangeFamily:
    """The intervals of a column's values."""
    anchor = domain.present.anchor()
    assert anchor is not None
    return RangeFamily(domain.present.size, anchor)


def range_kernel(columns: Sequence[BinnedColumn], levels: int) -> RangeKernel:
    """What one user adds to the weights of some columns."""
    return RangeKernel(
        tuple(BinnedColumn(each.name, each.domain, family(each.domain).edges) for each in columns), levels
    )


def zoomed(column: BinnedColumn, drawn: tuple[int, int] | None, cuts: int) -> BinnedColumn:
    """``cuts + 1`` equal bins inside the interval drawn and one on each side of it; without one the column as it is."""
    if drawn is None:
        return column
    return BinnedColumn(column.name, column.domain, typical_edges(column.domain.present.size, drawn, cuts + 3))
