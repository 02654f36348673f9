"""Laws from blocks of equal integer score: 2**64 hypotheses cost as many blocks as there are distinct points.

``P(one value of block i) = e**(-eta s_i) / Z`` with ``Z = sum of c_i e**(-eta s_i)``, or ``base**(-s_i)`` with a
rational base.  Multiplicities ``c_i`` are exact integers of any size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from privpac.arrays import Bools, Ints
from privpac.display import Discreet
from privpac.errors import LawError, ParameterError, TooLargeError, Undecided
from privpac.exact import MAX_PRECISION, Ball, ExpSum, Rational, precision, rational
from privpac.law import divergence
from privpac.law.numbers import (
    Denominator,
    Enclosed,
    Number,
    Quotient,
    enclosed,
    present,
    read_weight,
    sign_of_sum,
    sum_of,
)
from privpac.law.sampling import (
    MAX_BLOCKS,
    Filter,
    Levels,
    Part,
    Rate,
    draw,
    grouped,
    invert,
    locate,
    nth,
    representable,
)
from privpac.law.weights import Uints, Weights, of_blocks, split_runs
from privpac.rng import Rng, secret_rng

_Step = tuple[int, ArrayLike, int, ArrayLike]
"""Offset, starts, end, scores of one step function."""
Lows = NDArray[np.uint64] | NDArray[np.object_]


# What a distribution is.
#
# A :class:`Law` is a finite probability law described by integers and rationals.  The law that is audited is the law
# that is sampled: no floating point decides a probability.  Values are Python ints of any size (in blocks of equal
# probability), any hashable atoms, or ``BOTTOM``, the one "no answer" outcome.

PROB_BITS = 192


class Bottom:
    """The type of ``BOTTOM``."""

    _only: Bottom | None = None

    def __new__(cls) -> Bottom:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "BOTTOM"

    def __reduce__(self) -> str:
        return "BOTTOM"


BOTTOM: Final = Bottom()
"""The one "no answer" outcome; may be an atom of any law."""

Cell = range | Hashable
"""A block of consecutive integers (``range(lo, hi + 1)``) or a single atom."""


class Law(Discreet, ABC):
    """A finite probability law; build one with the constructors below.

    Examples
    --------
    >>> law = Law.from_blocks([0, 10], [9, 2**64], [3, 0], "1/2")
    >>> law.mode
    10
    >>> law.satisfies(law, 0)
    True
    """

    # Constructors

    @staticmethod
    def from_blocks(
        lo: ArrayLike | None = None,
        hi: ArrayLike | None = None,
        score: ArrayLike | None = None,
        eta: Rational | None = None,
        *,
        base: Rational | None = None,
        counts: ArrayLike | None = None,
        labels: Sequence[Hashable] | None = None,
        domain: tuple[int, int] | None = None,
    ) -> Law:
        """Weight ``e**(-eta * score)`` (or ``base**(-score)``) for every value of every block; scores are minimised.

        Value blocks are closed intervals ``[lo_i, hi_i]`` of integers of any size, disjoint, and without gaps when
        ``domain`` is given; neighbours of equal score are merged.  With ``counts`` blocks are labelled instead
        (values ``(label, offset)``, labels default to the block's index) and never merged.  Scores alone are
        candidates ``0..k-1``, one block each, never merged: the fast path of selection.
        """
        listed = lo is None and hi is None and domain is None
        if counts is not None and not listed:
            raise LawError("give either lo and hi, or counts")
        if counts is None and labels is not None:
            raise LawError("labels name the blocks of counts; give counts too")
        if not listed:
            return _value_law(lo, hi, score, Rate.read(eta, base), domain)
        scores = _read_scores(score)
        if counts is None:
            # All spans are the same zero, so one word of memory holds them.
            span = np.broadcast_to(np.zeros(1, dtype=np.uint64), len(scores))
            return BlockLaw(np.arange(len(scores), dtype=np.uint64), span, {}, scores, Rate.read(eta, base))
        span, big = _read_spans(counts, len(scores))
        names = None if labels is None else tuple(labels)
        if names is not None and (len(names) != len(scores) or len(set(names)) != len(scores)):
            raise LawError("labels must be distinct, one for each block")
        return BlockLaw(None, span, big, scores, Rate.read(eta, base), labels=names)

    @staticmethod
    def from_steps(
        steps: Iterable[_Step],
        eta: Rational | None = None,
        *,
        base: Rational | None = None,
        weights: Weights | None = None,
    ) -> Law:
        """Step functions laid one after the other, the fast path of the learners.

        Each step is ``(offset, starts, end, scores)``: block ``i`` holds the values ``offset + starts[i]`` up to the
        one before ``offset + starts[i+1]`` (the last one up to ``offset + end``); ``starts`` is an increasing uint64
        array.  With ``weights`` the probability of a value is its weight times that of its score.
        """
        return _step_law(steps, eta, base, weights)

    @staticmethod
    def from_weights(weights: Mapping[Hashable, object] | Iterable[tuple[Hashable, object]]) -> Law:
        """A law from weights per value: rationals, ``ExpSum``s or pairs ``(a, x)`` meaning ``a * e**x``."""
        pairs = weights.items() if isinstance(weights, Mapping) else weights
        items = [(_as_cell(value), read_weight(weight)) for value, weight in pairs]
        items = [(cell, weight) for cell, weight in items if weight.terms]
        if not items:
            raise LawError("a law needs at least one value of positive weight")
        total = ExpSum((x, a * _size_of(cell)) for cell, weight in items for x, a in weight)
        z, exact = Denominator(total), total.exact
        return _collect(
            (cell, Quotient.of(weight, z) if exact is None else Quotient.of(weight * (1 / exact)))
            for cell, weight in items
        )

    @staticmethod
    def point(value: Hashable) -> Law:
        """All mass on one value."""
        return Law.from_weights([(value, 1)])

    @staticmethod
    def mixture(parts: Iterable[tuple[Rational | Number, Law]]) -> Law:
        """``sum of a_i * law_i``; the weights must sum to 1."""
        read: list[tuple[Number, FiniteLaw]] = []
        for share, law in parts:
            if not isinstance(law, Law):
                raise TypeError(f"a mixture takes (share, Law) pairs, not {type(law).__name__}")
            exact = isinstance(share, (Quotient, Enclosed))
            number = cast("Number", share) if exact else Quotient.of(rational(share, "share", minimum=0))
            if present(number):
                read.append((number, law.as_finite()))
        total = sum_of([_ZERO, *(number for number, _ in read)])
        if total.exact is None:
            with precision(128):
                if not total.arb().overlaps(arb(1)):
                    raise ParameterError("the shares of a mixture must sum to 1")
        elif total.exact != 1:
            raise ParameterError(f"the shares of a mixture must sum to 1, got {total.exact}")
        return _collect((cell, number * share) for share, law in read for cell, number in law.cells)

    # What a law must know

    @abstractmethod
    def as_finite(self) -> FiniteLaw:
        """The same law with explicit probabilities per block."""

    def as_blocks(self) -> BlockLaw | None:
        """The same law as blocks of equal score, where it is one."""
        return None

    @abstractmethod
    def sample(self, rng: Rng | None = None) -> Any:
        """One exact draw."""

    @abstractmethod
    def support(self) -> Iterator[Cell]:
        """Blocks (``range``) and atoms of positive probability."""

    @abstractmethod
    def number(self, value: object) -> Number:
        """The probability of one value."""

    @abstractmethod
    def block_number(self, i: int) -> Number:
        """The mass of the ``i``-th block."""

    # Reading

    def prob(self, value: object) -> Ball:
        """A rigorous enclosure of the probability of one value."""
        return self._enclose(self.number(value))

    def block_prob(self, i: int) -> Ball:
        """A rigorous enclosure of the mass of the ``i``-th block."""
        return self._enclose(self.block_number(i))

    def prob_exact(self, value: object) -> Fraction:
        """The probability as a rational; only for laws without exponentials."""
        exact = self.number(value).exact
        if exact is None:
            raise LawError("this law has irrational probabilities; use prob(value), or build it with base=")
        return exact

    def prob_float(self, value: object) -> float:
        """The probability as a double (for plots, never for decisions)."""
        return float(self.prob(value))

    @staticmethod
    def _enclose(number: Number) -> Ball:
        exact = number.exact
        if exact is not None:
            return Ball(exact, exact)
        with precision(PROB_BITS):
            return enclosed(number.arb(), ceiling=Fraction(1))

    @property
    def mode(self) -> Any:
        """A most likely value (the first one)."""
        return self.as_finite().mode

    @property
    def entropy(self) -> float:
        """Entropy in nats, as a double."""
        return self.as_finite().entropy

    # Building larger laws

    def map(self, f: Callable[[Any], Hashable]) -> Law:
        """Push-forward under ``f``; blocks are enumerated, so they must be small (see ``map_blocks``)."""
        finite = self.as_finite()
        return _collect((f(value), finite.number(value)) for value in finite.values())

    def map_blocks(self, f: Callable[[Cell], Cell]) -> Law:
        """Push-forward given block by block: a ``range`` goes to an atom or to a ``range`` of the same length."""

        def moved() -> Iterator[tuple[Cell, Number]]:
            for cell, number in self.as_finite().cells:
                target = _as_cell(f(cell))
                if _size_of(target) == _size_of(cell):
                    yield target, number
                elif not isinstance(target, range) or _size_of(target) == 1:
                    yield target, number * _size_of(cell)
                else:
                    raise LawError("map_blocks: a block goes to one value or to a range of the same length")

        return _collect(moved())

    def product(self, other: Law) -> Law:
        """Independent pair: values are tuples."""
        return self.bind(lambda a: other.map(lambda b: (a, b)))

    def bind(self, f: Callable[[Any], Law]) -> Law:
        """Draw ``v`` from this law, then from ``f(v)``: adaptive composition."""
        finite = self.as_finite()
        return Law.mixture([(finite.number(value), f(value)) for value in finite.values()])

    # Divergences

    def hockey_stick(self, other: Law, epsilon: Rational, *, precision: Rational | None = None) -> Ball:
        """Encloses ``sum of max(0, P(v) - e**epsilon Q(v))``: report ``hi`` for a claim, ``lo`` for a violation."""
        return divergence.hockey_stick(self, other, rational(epsilon, "epsilon"), precision)

    def total_variation(self, other: Law) -> Ball:
        """Encloses the distance in total variation."""
        return self.hockey_stick(other, 0)

    def max_divergence(self, other: Law, *, enough: Fraction | None = None) -> Ball | float:
        """Encloses the largest ``ln(P(v)/Q(v))``; ``inf`` where only this law has mass.  Where it is at most
        ``enough``, the ball from 0 to that number may do."""
        return divergence.max_divergence(self, other, enough)

    def identity(self) -> Hashable:
        """Equal for two laws only if they are the same law; None where a law cannot say so shortly."""
        return None

    def dominated_by(self, other: Law, epsilon: Fraction) -> bool | None:
        """Whether ``P(v) <= e**epsilon Q(v)`` for all values; None where a law does not know without listing them."""
        return None

    def epsilon_at(self, other: Law, delta: Rational = 0) -> Fraction | float:
        """The least epsilon with ``hockey_stick <= delta``, rounded up; ``inf`` if there is none."""
        return divergence.epsilon_at(self, other, rational(delta, "delta", minimum=0, maximum=1))

    def satisfies(self, other: Law, epsilon: Rational, delta: Rational = 0) -> bool:
        """Exact decision: the two laws are (epsilon, delta)-indistinguishable, in both directions."""
        e, d = rational(epsilon, "epsilon", minimum=0), rational(delta, "delta", minimum=0)
        return divergence.within(self, other, e, d) and divergence.within(other, self, e, d)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


# Laws with explicit probabilities: weights constant on blocks of integers, or on single atoms.
#
# Closed under mixture, push-forward and adaptive composition; all of these work on the common refinement of the blocks,
# so 2**64 cuts beside the atom ``BOTTOM`` stay few.

MAX_VALUES = 1 << 20
"""How many single values ``map`` and ``bind`` enumerate at most."""

_ZERO: Number = Quotient(())
_KEPT = 1 << 10
"""Cells up to which a law says what it is."""


def _size_of(cell: Cell) -> int:
    """How many values a cell holds; also beyond 2**63, where ``len`` fails."""
    return cell.stop - cell.start if isinstance(cell, range) else 1


def _as_cell(value: Cell) -> Cell:
    """Integers become blocks of one; ranges must be non-empty with step 1."""
    if isinstance(value, range):
        if value.step != 1 or value.stop <= value.start:
            raise LawError("a block is a non-empty range(lo, hi + 1)")
        return value
    if isinstance(value, (int, np.integer)):
        return range(int(value), int(value) + 1)
    return value


class FiniteLaw(Law):
    """Probability per value of each cell; cells are disjoint, integer blocks in increasing order, then atoms."""

    def __init__(self, blocks: list[tuple[range, Number]], atoms: dict[Hashable, Number]) -> None:
        self.blocks, self.atoms = blocks, atoms
        self._starts = [block.start for block, _ in blocks]
        self._cumulative: list[arb] | None = None

    # Reading

    @cached_property
    def cells(self) -> list[tuple[Cell, Number]]:
        """Blocks and atoms with the probability of one of their values."""
        return [*self.blocks, *self.atoms.items()]

    def as_finite(self) -> FiniteLaw:
        return self

    def identity(self) -> Hashable:
        if len(self.blocks) + len(self.atoms) > _KEPT:
            return None
        shares = [number.short if isinstance(number, Quotient) else None for _, number in self.cells]
        return None if None in shares else frozenset(zip((cell for cell, _ in self.cells), shares))

    def support(self) -> Iterator[Cell]:
        return (cell for cell, _ in self.cells)

    def values(self) -> Iterator[Any]:
        """Every single value; refuses to enumerate more than ``MAX_VALUES``."""
        total = sum(_size_of(cell) for cell in self.support())
        if total > MAX_VALUES:
            raise TooLargeError(f"{total} values are too many to enumerate; use map_blocks, or mixture over blocks")
        for cell in self.support():
            if isinstance(cell, range):
                yield from cell
            else:
                yield cell

    def number(self, value: object) -> Number:
        if isinstance(value, (int, np.integer)):
            i = bisect_right(self._starts, value) - 1
            return self.blocks[i][1] if i >= 0 and value < self.blocks[i][0].stop else _ZERO
        try:
            return self.atoms.get(value, _ZERO)
        except TypeError:
            raise LawError(f"a value is an integer or hashable, not {type(value).__name__}") from None

    def block_number(self, i: int) -> Number:
        cell, number = self.cells[i]
        return number * _size_of(cell)

    @property
    def mode(self) -> Any:
        """The first most likely value, decided exactly."""
        best, most = self.cells[0]
        for cell, number in self.cells[1:]:
            if number != most and sign_of_sum(number + most * -1) > 0:
                best, most = cell, number
        return best.start if isinstance(best, range) else best

    @property
    def entropy(self) -> float:
        with precision(128):
            balls = [(number.arb(), _size_of(cell)) for cell, number in self.cells]
            return sum(float(-p * n * p.log()) for p, n in balls if p > 0)

    # Sampling

    def _masses(self) -> list[arb]:
        total, out = arb(0), []
        for cell, number in self.cells:
            total += number.arb() * _size_of(cell)
            out.append(total)
        return out

    def sample(self, rng: Rng | None = None) -> Any:
        source = secret_rng(rng)
        u, bits = source.bits(64), 64
        while True:
            with precision(bits + 64):
                if bits == 64 and self._cumulative is None:
                    self._cumulative = self._masses()
                masses = self._cumulative if bits == 64 and self._cumulative is not None else self._masses()
                # The masses sum to 1; nothing lies above the last cell.
                i = invert(masses, arb(1), u, bits)
            if i is not None:
                break
            bits += 64
            if bits > MAX_PRECISION:
                raise Undecided("a draw was not decided")
            u = (u << 64) | source.bits(64)
        cell = self.cells[i][0]
        return cell.start + source.below(_size_of(cell)) if isinstance(cell, range) else cell


def _collect(items: Iterable[tuple[Cell, Number]]) -> FiniteLaw:
    """Sum the numbers of overlapping cells on their common refinement; touching blocks of equal number are merged."""
    blocks: list[tuple[range, Number]] = []
    atoms: dict[Hashable, list[Number]] = {}
    for value, number in items:
        if not present(number):
            continue
        cell = _as_cell(value)
        if isinstance(cell, range):
            blocks.append((cell, number))
        else:
            try:
                atoms.setdefault(cell, []).append(number)
            except TypeError:
                raise LawError(f"a value is an integer or hashable, not {type(cell).__name__}") from None
    ordered = sorted(blocks, key=lambda item: item[0].start)
    if any(a[0].stop > b[0].start for a, b in pairwise(ordered)):
        edges = sorted({edge for block, _ in ordered for edge in (block.start, block.stop)})
        place = {edge: i for i, edge in enumerate(edges)}
        over: list[list[Number]] = [[] for _ in edges]
        for block, number in ordered:
            for i in range(place[block.start], place[block.stop]):
                over[i].append(number)
        ordered = [(range(a, b), sum_of(numbers)) for (a, b), numbers in zip(pairwise(edges), over) if numbers]
    merged: list[tuple[range, Number]] = []
    for block, number in ordered:
        if merged and merged[-1][0].stop == block.start and (merged[-1][1] is number or merged[-1][1] == number):
            merged[-1] = (range(merged[-1][0].start, block.stop), number)
        else:
            merged.append((block, number))
    return FiniteLaw(merged, {atom: sum_of(numbers) for atom, numbers in atoms.items()})


class BlockLaw(Law):
    """Blocks with scores.  ``lows`` are the first values (relative to the segment's offset), or None when labelled.

    With ``weights`` every value of block ``i`` weighs ``weights.values[which[i]]`` beside its score, else 1.
    """

    def __init__(
        self,
        lows: Lows | None,
        span: Uints,
        big: dict[int, int],
        score: NDArray[np.int64],
        rate: Rate,
        segments: tuple[tuple[int, int], ...] = ((0, 0),),
        labels: tuple[Hashable, ...] | None = None,
        weights: Weights | None = None,
        which: Ints | None = None,
    ) -> None:
        self.lows, self.span, self.big, self.score = lows, span, big, score
        self.rate, self.segments, self.labels = rate, segments, labels
        self.weights, self.which = weights, which

    # Layout

    def as_blocks(self) -> BlockLaw:
        return self

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

    def weight(self, i: int) -> int:
        """What every value of block ``i`` weighs beside its score."""
        return 1 if self.weights is None or self.which is None else self.weights.values[int(self.which[i])]

    @cached_property
    def tickets(self) -> tuple[Uints, dict[int, int]]:
        """Multiplicity times weight of every block: one less, and the few beyond 64 bits."""
        if self.weights is None or self.which is None:
            return self.span, self.big
        return self.weights.tickets(self.span, self.which)

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
            and (self.lows is None) == (other.lows is None)
            and (self.lows is None or np.array_equal(self.lows, cast("Lows", other.lows)))
            and np.array_equal(self.span, other.span)
            and self.weights == other.weights
            and (self.which is None or np.array_equal(self.which, cast("Ints", other.which)))
        )

    def identity(self) -> Hashable:
        if len(self) > _KEPT:
            return None
        lows = None if self.lows is None else tuple(self.lows.tolist())
        layout = lows, tuple(self.span.tolist()), tuple(self.big.items()), self.segments, self.labels, self.weights
        return (*layout, tuple(self.gaps.tolist()), self.rate)

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
        gaps, totals = grouped(self.gaps, *self.tickets)
        return Levels(gaps, totals, self.rate)

    def level_table(self) -> list[tuple[int, int]]:
        """``(score, total multiplicity)``, best first."""
        return [(self.best + int(gap), total) for gap, total in zip(self.levels.gaps.tolist(), self.levels.totals)]

    @cached_property
    def _filter(self) -> Filter | None:
        """The draw's filter, from the blocks whose weight doubles can see."""
        span, more = self.tickets
        most = max([int(span.max()) + 1, *more.values()])
        count_bits = (len(self) * most).bit_length()
        if not representable(count_bits):
            return None
        cut = Filter.reach(self.rate, count_bits)
        if cut is None or cut >= int(self.score.max()) - self.best:
            return Filter.of(self.levels.gaps, self.levels.totals, self.rate, 0.0)
        near = np.flatnonzero(self.score <= self.best + cut)
        big = {j: more[i] for j, i in enumerate(near.tolist()) if i in more} if more else {}
        gaps, totals = grouped(self.score[near] - self.best, span[near], big)
        return Filter.of(gaps, totals, self.rate, Filter.tail(self.rate, cut, count_bits))

    # Sampling

    def sample_block(self, rng: Rng | None = None) -> tuple[int, int]:
        """One exact draw as (block, offset inside it)."""
        source = secret_rng(rng)
        gap, total = draw(source, self._filter, lambda: self.levels)
        chosen, r = self.score == self.best + gap, source.below(total)
        if self.span.strides == (0,):
            return nth(chosen, r), 0  # candidates of one value each
        i, ticket = locate(np.flatnonzero(chosen), r, *self.tickets)
        return i, ticket // self.weight(i)

    def sample(self, rng: Rng | None = None) -> Any:
        i, offset = self.sample_block(rng)
        return self.value(i, offset)

    def value(self, i: int, offset: int) -> Any:
        """The value of block ``i`` at an offset."""
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
            lambda: self.rate.exact_total(levels.gaps.tolist(), levels.totals), levels.z, irrational=irrational
        )

    def weight_number(self, gap: int) -> Number:
        """Probability of one value of weight 1 whose score is ``gap`` above the best."""
        return Quotient.of(self.rate.exact(gap), self.partition)

    def block_number(self, i: int) -> Number:
        return self.weight_number(int(self.score[i]) - self.best) * (self.count(i) * self.weight(i))

    def find(self, value: object) -> int | None:
        """The block that holds a value."""
        if self.lows is None:
            if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], (int, np.integer))):
                return None
            place = self.places.get(value[0])
            return place if place is not None and 0 <= value[1] < self.count(place) else None
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

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """The index of every labelled block."""
        return {self.label(i): i for i in range(len(self))}

    def number(self, value: object) -> Number:
        i = self.find(value)
        return Quotient(()) if i is None else self.weight_number(int(self.score[i]) - self.best) * self.weight(i)

    def support(self) -> Iterator[Cell]:
        return (cell for cell, _ in self.blocks)

    @property
    def mode(self) -> Any:
        if self.which is not None:
            # The first best block of each weight; among these the exact numbers decide.
            order = np.arange(len(self)) if self.rate.flat else np.argsort(self.score, kind="stable")
            _, first = np.unique(self.which[order], return_index=True)
            best, *others = sorted(order[first].tolist())
            for i in others:
                if (self._weight_sum(i) + self._weight_sum(best) * -1).sign() > 0:
                    best = i
            return self.value(best, 0)
        return self.value(0 if self.rate.flat else int(np.argmin(self.score)), 0)

    def _weight_sum(self, i: int) -> ExpSum:
        return self.rate.exact(int(self.score[i]) - self.best) * self.weight(i)

    @property
    def entropy(self) -> float:
        """In nats, level by level."""
        if self.which is not None:
            return self._finite.entropy
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
            if self.which is not None:
                heavy = {
                    key: shared[key[0]] * key[1]
                    for key in {(gap, self.weight(i)) for i, gap in enumerate(self.gaps.tolist())}
                }
                numbered = [
                    (cell, heavy[score - self.best, self.weight(i)]) for i, (cell, score) in enumerate(self.blocks)
                ]
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


# Reading scores, intervals and multiplicities into block laws; what is ill-formed is a ``LawError``.

_CHUNK = 1 << 15


def _read_scores(score: ArrayLike | None, *, copy: bool = True) -> Ints:
    """Scores as int64; without ``copy`` the array may be the caller's own."""
    array = np.asarray(score)
    if array.ndim != 1 or array.size == 0:
        raise LawError(f"scores must be a non-empty one-dimensional array, got shape {array.shape}")
    if array.dtype.kind not in "iu" and not (array.dtype == object and all(_is_int(s) for s in array)):
        raise LawError(
            f"scores must be integers (scale rational scores, and the sensitivity with them), got {array.dtype}"
        )
    _check_blocks(array.size, int(array.min()), int(array.max()))
    return array.astype(np.int64, copy=copy)


def _check_blocks(n: int, low: int, high: int) -> None:
    """The number of blocks and the range of their scores."""
    if n > MAX_BLOCKS:
        raise TooLargeError(f"{n} blocks are more than {MAX_BLOCKS}; merge blocks of equal score")
    if high - low >= 1 << 62 or high >= 1 << 63 or low < -(1 << 63):
        raise LawError("scores must be 64-bit integers that span less than 2**62")


def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _read_spans(counts: ArrayLike, n: int) -> tuple[Uints, dict[int, int]]:
    if not isinstance(counts, (np.ndarray, Sequence)) or isinstance(counts, str):
        raise LawError(f"counts must be an array or a list of integers, got {type(counts).__name__}")
    array = counts if isinstance(counts, np.ndarray) else np.array(list(counts), dtype=object)
    if array.ndim != 1 or len(array) != n:
        raise LawError(f"{n} scores but multiplicities of shape {array.shape}")
    if array.dtype.kind in "iu":
        if int(array.min()) < 1:
            raise LawError("every multiplicity must be at least 1")
        spans = array.astype(np.uint64)
        spans -= np.uint64(1)
        return spans, {}
    values = [int(c) if _is_int(c) else 0 for c in array]
    if min(values) < 1:
        raise LawError("every multiplicity must be an integer of at least 1")
    return _as_spans([c - 1 for c in values])


def _as_spans(spans: list[int]) -> tuple[Uints, dict[int, int]]:
    big = {i: s + 1 for i, s in enumerate(spans) if s >= 1 << 64}
    return np.array([0 if i in big else s for i, s in enumerate(spans)] if big else spans, dtype=np.uint64), big


def _value_law(
    lo: ArrayLike | None, hi: ArrayLike | None, score: ArrayLike | None, rate: Rate, domain: tuple[int, int] | None
) -> BlockLaw:
    scores = _read_scores(score, copy=False)
    lows, highs = _read_ints(lo, len(scores), "lo"), _read_ints(hi, len(scores), "hi")
    if lows.dtype != highs.dtype:
        lows, highs = lows.astype(object), highs.astype(object)
    if lo is not hi and (highs < lows).any():
        raise LawError("a block needs lo <= hi")
    if not (lows[1:] > highs[:-1]).all():
        order = np.argsort(lows, kind="stable")
        lows, highs, scores = lows[order], highs[order], scores[order]
        if not (lows[1:] > highs[:-1]).all():
            raise LawError("blocks overlap")
    # Whether each block begins right after the one before; chunk by chunk, so that temporaries stay in the cache.
    touching = np.empty(len(lows) - 1, dtype=bool)
    one = 1 if lows.dtype == object else np.uint64(1)
    for at in range(0, len(touching), _CHUNK):
        stop = min(at + _CHUNK, len(touching))
        # Disjoint and sorted, so a later block is above an earlier one and the difference cannot wrap.
        touching[at:stop] = lows[at + 1 : stop + 1] - highs[at:stop] == one
    if domain is not None:
        if not (isinstance(domain, tuple) and len(domain) == 2 and all(_is_int(end) for end in domain)):
            raise LawError("domain must be a pair (first value, last value) of integers")
        if not (touching.all() and (int(lows[0]), int(highs[-1])) == (int(domain[0]), int(domain[1]))):
            raise LawError("blocks must cover the domain without a gap")
    apart = ~touching
    apart |= scores[1:] != scores[:-1]
    # Boolean indexing copies, so the law owns its arrays.
    first = np.append(True, apart)
    lows, highs, scores = lows[first], highs[np.append(apart, True)], scores[first]
    if lows.dtype == object:
        span, big = _as_spans([int(b) - int(a) for a, b in zip(lows, highs)])
        return BlockLaw(lows, span, big, scores, rate)
    highs -= lows
    return BlockLaw(lows, highs.view(np.uint64), {}, scores, rate)


def _read_ints(values: ArrayLike | None, n: int, name: str) -> Lows:
    """Integers as uint64 (perhaps the caller's own array) or as Python ints."""
    if not isinstance(values, (np.ndarray, Sequence)) or isinstance(values, str):
        raise LawError(f"{name} must be an array or a list of integers, got {type(values).__name__}")
    array = values if isinstance(values, np.ndarray) else np.array(list(values), dtype=object)
    if array.ndim != 1 or len(array) != n:
        raise LawError(f"{name} must be one-dimensional with one entry for each of the {n} scores")
    if array.dtype.kind == "u" or (array.dtype.kind == "i" and int(array.min()) >= 0):
        return array.astype(np.uint64, copy=False)
    if array.dtype.kind != "i" and not (array.dtype == object and all(_is_int(v) for v in array)):
        raise LawError(f"{name} must hold integers")
    ints = [int(v) for v in array]
    if min(ints) >= 0 and max(ints) < 1 << 64:
        return np.array(ints, dtype=np.uint64)
    out: NDArray[np.object_] = np.empty(n, dtype=object)
    out[:] = ints
    return out


def _step_law(
    steps: Iterable[_Step], eta: Rational | None, base: Rational | None = None, weights: Weights | None = None
) -> BlockLaw:
    """The law of step functions, see ``Law.from_steps``."""
    rate = Rate.read(eta, base)
    parts = [(*_read_step(*step), step[0], step[2]) for step in steps]
    if not parts:
        raise LawError("a law needs at least one block")
    sizes = [len(score) if first is None else int(np.count_nonzero(first)) for _, score, first, _, _ in parts]
    total = sum(sizes)
    _check_blocks(total, min(int(part[1].min()) for part in parts), max(int(part[1].max()) for part in parts))
    # Written once into arrays of the final size: with millions of blocks every further copy would show.
    lows, span, scores = np.empty(total, np.uint64), np.empty(total, np.uint64), np.empty(total, np.int64)
    big: dict[int, int] = {}
    segments: list[tuple[int, int]] = []
    n, after = 0, None
    for (low, score, first, offset, end), size in zip(parts, sizes):
        offset, end = int(offset), int(end)
        if after is not None and offset + int(low[0]) <= after:
            raise LawError("step functions must follow one another without overlap")
        after = offset + end
        here = slice(n, n + size)
        if first is None:
            lows[here], scores[here] = low, score
        else:
            np.compress(first, low, out=lows[here])
            np.compress(first, score, out=scores[here])
        part, gaps = lows[here], span[here]
        np.subtract(part[1:], part[:-1], out=gaps[:-1])
        gaps[:-1] -= np.uint64(1)
        # The last block may hold more than 2**64 values; all others end before the next start.
        last = end - int(part[-1])
        if last >= 1 << 64:
            big[n + size - 1] = last + 1
        gaps[-1] = 0 if last >= 1 << 64 else last
        segments.append((n, offset))
        n += size
    law = BlockLaw(lows, span, big, scores, rate, tuple(segments))
    return law if weights is None else _weighted(law, lows, weights)


def _weighted(law: BlockLaw, lows: Uints, weights: Weights) -> BlockLaw:
    """The same blocks, cut where the weights change."""
    if law.big:
        raise LawError("weighted blocks hold at most 2**64 values each")
    ends = [*(first for first, _ in law.segments[1:]), len(law)]
    parts, segments, n = [], [], 0
    for (first, offset), end in zip(law.segments, ends):
        last = int(lows[end - 1]) + int(law.span[end - 1])
        begins, index = weights.runs(offset, offset + last)
        low, span, source = split_runs(lows[first:end], law.span[first:end], begins)
        parts.append((low, span, law.score[first:end][source], of_blocks(low, begins, index)))
        segments.append((n, offset))
        n += len(low)
    low, span, score, which = (np.concatenate(arrays) for arrays in zip(*parts))
    return BlockLaw(low, span, {}, score, law.rate, tuple(segments), weights=weights, which=which)


def _read_step(offset: int, starts: ArrayLike, end: int, values: ArrayLike) -> tuple[Uints, Ints, Bools | None]:
    """Starts and scores of one step function, and where a block begins if neighbours of equal score are merged."""
    score = _read_scores(values, copy=False)
    read = _read_ints(starts, len(score), "starts")
    if read.dtype != np.uint64:
        raise LawError("starts must lie in 0..2**64-1; larger values go into the offset")
    low: Uints = read.view(np.uint64)
    if not (_is_int(offset) and _is_int(end)):
        raise LawError(f"offset and end must be integers, got {type(offset).__name__} and {type(end).__name__}")
    if not (low[1:] > low[:-1]).all() or end < int(low[-1]):
        raise LawError("a step function needs increasing starts, one score each, and end >= the last start")
    first = np.append(True, score[1:] != score[:-1])
    return low, score, None if first.all() else first


def whole_law(parts: Iterable[Part], eta: Rational, weights: Weights | None = None) -> BlockLaw:
    """The law that :func:`~privpac.law.sampling.sample_steps` draws from without laying it out."""
    steps = [(offset, starts, end, scores + more) for offset, starts, end, scores, more in parts]
    return _step_law(steps, eta, weights=weights)
