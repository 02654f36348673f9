"""Laws from blocks of equal integer score: 2**64 hypotheses cost as many blocks as there are distinct points.

``P(one value of block i) = e**(-eta s_i) / Z`` with ``Z = sum of c_i e**(-eta s_i)``, or ``base**(-s_i)`` with a
rational base.  Multiplicities ``c_i`` are exact integers of any size.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from privpac.errors import TooLargeError
from privpac.exact import ExpSum, precision
from privpac.law.base import Cell, Law
from privpac.law.counts import Uints, grouped, locate, nth
from privpac.law.finite import MAX_VALUES, FiniteLaw
from privpac.law.levels import Filter, Levels, Rate, draw, representable
from privpac.law.numbers import Denominator, Number, Quotient
from privpac.rng import Rng, secret_rng

__all__ = ["BlockLaw", "Lows", "weight"]

Lows = NDArray[np.uint64] | NDArray[np.object_]

_KEPT = 1 << 10
"""Blocks up to which a law says what it is."""


class BlockLaw(Law):
    """Blocks with scores.  ``lows`` are the first values (relative to the segment's offset), or None when labelled."""

    def __init__(
        self,
        lows: Lows | None,
        span: Uints,
        big: dict[int, int],
        score: NDArray[np.int64],
        rate: Rate,
        segments: tuple[tuple[int, int], ...] = ((0, 0),),
        labels: tuple[Hashable, ...] | None = None,
    ) -> None:
        self.lows, self.span, self.big, self.score = lows, span, big, score
        self.rate, self.segments, self.labels = rate, segments, labels

    # Layout

    @property
    def eta(self) -> Fraction | None:
        return self.rate.eta

    @property
    def base(self) -> Fraction | None:
        return self.rate.base

    def __len__(self) -> int:
        return len(self.score)

    def count(self, i: int) -> int:
        """Multiplicity of block ``i``."""
        return self.big.get(i, int(self.span[i]) + 1)

    def label(self, i: int) -> Hashable:
        """Label of block ``i``, its index by default."""
        return i if self.labels is None else self.labels[i]

    def low(self, i: int) -> int:
        """First value of block ``i``."""
        assert self.lows is not None
        segment = bisect_right(self._firsts, i) - 1
        return self.segments[segment][1] + int(self.lows[i])

    @cached_property
    def _firsts(self) -> list[int]:
        return [first for first, _ in self.segments]

    @property
    def blocks(self) -> Iterator[tuple[Cell, int]]:
        """Cells with their scores: ``range`` objects, or labels."""
        for i, score in enumerate(self.score.tolist()):
            if self.lows is None:
                yield self.label(i), score
            else:
                yield range(self.low(i), self.low(i) + self.count(i)), score

    def same_layout(self, other: BlockLaw) -> bool:
        """Whether both laws have the same blocks, whatever their scores."""
        return (
            self.segments == other.segments
            and self.labels == other.labels
            and self.big == other.big
            and (other.lows is None if self.lows is None else _equal(self.lows, other.lows))
            and np.array_equal(self.span, other.span)
        )

    def identity(self) -> Hashable:
        if len(self) > _KEPT:
            return None
        lows = None if self.lows is None else tuple(self.lows.tolist())
        return (
            lows,
            tuple(self.span.tolist()),
            tuple(self.big.items()),
            tuple(self.gaps.tolist()),
            self.rate,
            self.segments,
            self.labels,
        )

    # Levels

    @cached_property
    def best(self) -> int:
        return int(self.score.min())

    @property
    def gaps(self) -> NDArray[np.int64]:
        """The gap of every block to the best score."""
        return self.score - self.best if self.best else self.score

    @cached_property
    def levels(self) -> Levels:
        """Distinct gaps to the best score with their multiplicities."""
        gaps, totals = grouped(self.gaps, self.span, self.big)
        return Levels(gaps, totals, self.rate)

    def level_table(self) -> list[tuple[int, int]]:
        """``(score, total multiplicity)``, best first."""
        return [(self.best + int(gap), total) for gap, total in zip(self.levels.gaps.tolist(), self.levels.totals)]

    @cached_property
    def _filter(self) -> Filter | None:
        """The draw's filter, from the blocks whose weight doubles can see."""
        most = max([int(self.span.max()) + 1, *self.big.values()])
        count_bits = (len(self) * most).bit_length()
        if not representable(count_bits):
            return None
        cut = Filter.reach(self.rate, count_bits)
        if cut is None or cut >= int(self.score.max()) - self.best:
            return Filter.of(self.levels.gaps, self.levels.totals, self.rate, 0.0)
        near = np.flatnonzero(self.score <= self.best + cut)
        big = {j: self.big[i] for j, i in enumerate(near.tolist()) if i in self.big} if self.big else {}
        gaps, totals = grouped(self.score[near] - self.best, self.span[near], big)
        return Filter.of(gaps, totals, self.rate, Filter.tail(self.rate, cut, count_bits))

    # Sampling

    def sample_block(self, rng: Rng | None = None) -> tuple[int, int]:
        """One exact draw as (block, offset inside it)."""
        source = secret_rng(rng)
        gap, total = draw(source, self._filter, lambda: self.levels)
        chosen, r = self.score == self.best + gap, source.below(total)
        if self.span.strides == (0,):
            return nth(chosen, r), 0  # candidates of one value each
        return locate(np.flatnonzero(chosen), r, self.span, self.big)

    def sample(self, rng: Rng | None = None) -> Any:
        i, offset = self.sample_block(rng)
        return self._value(i, offset)

    def _value(self, i: int, offset: int) -> Any:
        if self.lows is not None:
            return self.low(i) + offset
        return (self.label(i), offset)

    # Probabilities

    @cached_property
    def partition(self) -> Denominator:
        """``Z`` relative to the best score."""
        levels = self.levels
        irrational = not self.rate.flat and self.eta is not None and len(levels.gaps) > 1
        return Denominator(
            lambda: sum_levels(levels.gaps.tolist(), levels.totals, self.rate), levels.z, irrational=irrational
        )

    def weight_number(self, gap: int) -> Number:
        """Probability of one value whose score is ``gap`` above the best."""
        return Quotient.of(weight(gap, self.rate), self.partition)

    def block_number(self, i: int) -> Number:
        return self.weight_number(int(self.score[i]) - self.best) * self.count(i)

    def find(self, value: Any) -> int | None:
        """The block that holds a value."""
        return self._find_labelled(value) if self.lows is None else self._find_integer(value)

    def _find_labelled(self, value: Any) -> int | None:
        if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], (int, np.integer))):
            return None
        i = self.place(value[0])
        return i if i is not None and 0 <= value[1] < self.count(i) else None

    def place(self, label: Hashable) -> int | None:
        """The index of a labelled block."""
        return self._places.get(label)

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {self.label(i): i for i in range(len(self))}

    def _find_integer(self, value: Any) -> int | None:
        assert self.lows is not None
        if not isinstance(value, (int, np.integer)):
            return None
        ends = [*self._firsts[1:], len(self)]
        for (first, offset), end in zip(self.segments, ends):
            part, local = self.lows[first:end], int(value) - offset
            if part.dtype == np.uint64:
                at = 0 if local < 0 else int(np.searchsorted(part, np.uint64(min(local, (1 << 64) - 1)), side="right"))
            else:
                at = bisect_right(part, local)
            i = first + at - 1
            if at > 0 and local - int(part[at - 1]) < self.count(i):
                return i
        return None

    def _number(self, value: Any) -> Number:
        i = self.find(value)
        return Quotient(()) if i is None else self.weight_number(int(self.score[i]) - self.best)

    def support(self) -> Iterator[Cell]:
        return (cell for cell, _ in self.blocks)

    @property
    def mode(self) -> Any:
        return self._value(0 if self.rate.flat else int(np.argmin(self.score)), 0)

    @property
    def entropy(self) -> float:
        """In nats, level by level."""
        with precision(128):
            z = self.levels.z()
            log_z = z.log()
            terms = zip(self.levels.rate.balls(self.levels.gaps.tolist()), self.levels.totals)
            return float(sum(((ball * count / z) * (log_z - ball.log()) for ball, count in terms), arb(0)))

    def as_finite(self) -> FiniteLaw:
        return self._finite

    @cached_property
    def _finite(self) -> FiniteLaw:
        shared = {gap: self.weight_number(gap) for gap in self.levels.gaps.tolist()}
        if self.lows is not None:
            numbered = [(cell, shared[score - self.best]) for cell, score in self.blocks]
            return FiniteLaw(sorted(numbered, key=lambda item: item[0].start), {})  # type: ignore[arg-type]
        if sum(self.levels.totals) > MAX_VALUES:
            raise TooLargeError(
                "labelled blocks are too large to enumerate; compare them with a law of the same blocks"
            )
        atoms: dict[Hashable, Number] = {}
        for i, (label, score) in enumerate(self.blocks):
            for offset in range(self.count(i)):
                atoms[(label, offset)] = shared[score - self.best]
        return FiniteLaw([], atoms)


def _equal(a: Lows, b: Lows | None) -> bool:
    return b is not None and np.array_equal(a, b)


def weight(gap: int, rate: Rate) -> ExpSum:
    """The exact weight at a gap."""
    if rate.eta is not None:
        return ExpSum.exp(-rate.eta * gap)
    assert rate.base is not None
    return ExpSum.of(rate.base**-gap)


def sum_levels(gaps: list[int], totals: Iterable[int], rate: Rate) -> ExpSum:
    """``Z`` relative to the best score, exactly."""
    if rate.flat:
        return ExpSum.of(sum(totals))
    if rate.eta is not None:
        return ExpSum({-rate.eta * gap: Fraction(total) for gap, total in zip(gaps, totals)})
    assert rate.base is not None
    # Over the common denominator p**last the sum of N_d (q/p)**d is an integer.
    p, q, last = rate.base.numerator, rate.base.denominator, max(gaps)
    return ExpSum.of(Fraction(sum(total * q**gap * p ** (last - gap) for gap, total in zip(gaps, totals)), p**last))
