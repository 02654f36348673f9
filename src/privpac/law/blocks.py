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
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from flint import arb
from numpy.typing import NDArray

from privpac.errors import LawError, ParameterError, TooLargeError, Undecided
from privpac.exact import MAX_PRECISION, Ball, ExpSum, Rational, precision, rational
from privpac.law.numbers import (
    Denominator,
    Enclosed,
    Number,
    Quotient,
    Uints,
    enclosed,
    grouped,
    locate,
    nth,
    read_weight,
    sign_of_sum,
    sum_of,
)
from privpac.law.sampling import Filter, Levels, Rate, draw, invert, representable
from privpac.rng import Rng, secret_rng

if TYPE_CHECKING:
    from privpac.law import blocks as finite
    from privpac.law import build, divergence

__all__ = [
    "BOTTOM",
    "BlockLaw",
    "Bottom",
    "Cell",
    "FiniteLaw",
    "Law",
    "Lows",
    "hand_over",
    "mixed_law",
    "present",
    "size_of",
    "weight",
    "weighted_law",
]


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


class Law(ABC):
    """A finite probability law; build one with the constructors below.

    >>> law = Law.from_blocks([0, 10], [9, 2**64], [3, 0], "1/2")
    >>> law.mode
    10
    >>> law.satisfies(law, 0)
    True
    """

    # Constructors

    @staticmethod
    def from_blocks(
        lo: Any = None,
        hi: Any = None,
        score: Any = None,
        eta: Rational | None = None,
        *,
        base: Rational | None = None,
        counts: Any = None,
        labels: Sequence[Hashable] | None = None,
        domain: tuple[int, int] | None = None,
    ) -> Law:
        """Weight ``e**(-eta * score)`` (or ``base**(-score)``) for every value of every block; scores are minimised.

        Value blocks are closed intervals ``[lo_i, hi_i]`` of integers of any size, disjoint, and without gaps when
        ``domain`` is given; neighbours of equal score are merged.  With ``counts`` blocks are labelled instead
        (values ``(label, offset)``, labels default to the block's index) and never merged.  Scores alone are
        candidates ``0..k-1``, one block each, never merged: the fast path of selection.
        """
        if counts is not None:
            if lo is not None or hi is not None or domain is not None:
                raise LawError("give either lo and hi, or counts")
            return build.labelled_law(counts, score, eta, base, labels)
        if labels is not None:
            raise LawError("labels name the blocks of counts; give counts too")
        if lo is None and hi is None and domain is None:
            return build.candidate_law(score, eta, base)
        return build.value_law(lo, hi, score, eta, base, domain)

    @staticmethod
    def from_steps(
        steps: Iterable[tuple[int, Any, int, Any]], eta: Rational | None = None, *, base: Rational | None = None
    ) -> Law:
        """Step functions laid one after the other, the fast path of the learners.

        Each step is ``(offset, starts, end, scores)``: block ``i`` holds the values ``offset + starts[i]`` up to the
        one before ``offset + starts[i+1]`` (the last one up to ``offset + end``); ``starts`` is an increasing uint64
        array.
        """
        return build.step_law(steps, eta, base)

    @staticmethod
    def from_weights(weights: Mapping[Any, object] | Iterable[tuple[Any, object]]) -> Law:
        """A law from weights per value: rationals, ``ExpSum``s or pairs ``(a, x)`` meaning ``a * e**x``."""
        return finite.weighted_law(weights)

    @staticmethod
    def point(value: Hashable) -> Law:
        """All mass on one value."""
        return Law.from_weights([(value, 1)])

    @staticmethod
    def mixture(parts: Iterable[tuple[Rational | Number, Law]]) -> Law:
        """``sum of a_i * law_i``; the weights must sum to 1."""
        return finite.mixed_law(parts)

    # What a law must know

    @abstractmethod
    def as_finite(self) -> FiniteLaw:
        """The same law with explicit probabilities per block."""

    @abstractmethod
    def sample(self, rng: Rng | None = None) -> Any:
        """One exact draw."""

    @abstractmethod
    def support(self) -> Iterator[Cell]:
        """Blocks (``range``) and atoms of positive probability."""

    @abstractmethod
    def _number(self, value: Any) -> Number:
        """The probability of one value."""

    @abstractmethod
    def block_number(self, i: int) -> Number:
        """The mass of the ``i``-th block."""

    # Reading

    def prob(self, value: Any) -> Ball:
        """A rigorous enclosure of the probability of one value."""
        return self._enclose(self._number(value))

    def block_prob(self, i: int) -> Ball:
        """A rigorous enclosure of the mass of the ``i``-th block."""
        return self._enclose(self.block_number(i))

    def prob_exact(self, value: Any) -> Fraction:
        """The probability as a rational; only for laws without exponentials."""
        exact = self._number(value).exact
        if exact is None:
            raise LawError("this law has irrational probabilities; use prob(value), or build it with base=")
        return exact

    def prob_float(self, value: Any) -> float:
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
        return self.as_finite().push(f)

    def map_blocks(self, f: Callable[[Cell], Cell]) -> Law:
        """Push-forward given block by block: a ``range`` goes to an atom or to a ``range`` of the same length."""
        return self.as_finite().push_blocks(f)

    def product(self, other: Law) -> Law:
        """Independent pair: values are tuples."""
        return self.bind(lambda a: other.map(lambda b: (a, b)))

    def bind(self, f: Callable[[Any], Law]) -> Law:
        """Draw ``v`` from this law, then from ``f(v)``: adaptive composition."""
        finite = self.as_finite()
        return Law.mixture([(finite._number(value), f(value)) for value in finite.values()])

    # Divergences

    def hockey_stick(self, other: Law, epsilon: Rational, *, precision: Rational | None = None) -> Ball:
        """Encloses ``sum over v of max(0, P(v) - e**epsilon Q(v))``: report ``hi`` for a claim, ``lo`` for a
        violation."""
        return divergence.hockey_stick(self, other, rational(epsilon, "epsilon"), precision)

    def total_variation(self, other: Law) -> Ball:
        return self.hockey_stick(other, 0)

    def max_divergence(self, other: Law, *, enough: Fraction | None = None) -> Ball | float:
        """Encloses the largest ``ln(P(v)/Q(v))``; ``inf`` where only this law has mass.  Where it is at most
        ``enough``, the ball from 0 to that number may do."""
        return divergence.max_divergence(self, other, enough)

    def identity(self) -> Hashable:
        """Equal for two laws only if they are the same law; None where a law cannot say so shortly."""
        return None

    def dominated_by(self, other: Law, epsilon: Fraction) -> bool | None:
        """Whether ``P(v) <= e**epsilon Q(v)`` for all values, where a law knows without listing them; None: list
        them."""
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


def hand_over(**modules: ModuleType) -> None:
    """Give laws the modules that make and compare them.

    Those know every kind of law, and every kind is a ``Law``: what this module calls imports it.  The package hands
    them over once all are there, so that no import goes in a circle.
    """
    globals().update(modules)


# Laws with explicit probabilities: weights constant on blocks of integers, or on single atoms.
#
# Closed under mixture, push-forward and adaptive composition; all of these work on the common refinement of the blocks,
# so 2**64 cuts beside the atom ``BOTTOM`` stay few.


MAX_VALUES = 1 << 20
"""How many single values ``map`` and ``bind`` enumerate at most."""

_ZERO: Number = Quotient(())
_KEPT = 1 << 10
"""Cells up to which a law says what it is."""


def size_of(cell: Cell) -> int:
    """How many values a cell holds; also beyond 2**63, where ``len`` fails."""
    return cell.stop - cell.start if isinstance(cell, range) else 1


def as_cell(value: Cell) -> Cell:
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
        total = sum(size_of(cell) for cell in self.support())
        if total > MAX_VALUES:
            raise TooLargeError(f"{total} values are too many to enumerate; use map_blocks, or mixture over blocks")
        for cell in self.support():
            if isinstance(cell, range):
                yield from cell
            else:
                yield cell

    def number(self, value: Any) -> Number:
        return self._number(value)

    def _number(self, value: Any) -> Number:
        if isinstance(value, (int, np.integer)):
            i = bisect_right(self._starts, value) - 1
            return self.blocks[i][1] if i >= 0 and value < self.blocks[i][0].stop else _ZERO
        try:
            return self.atoms.get(value, _ZERO)
        except TypeError:
            raise LawError(f"a value is an integer or hashable, not {type(value).__name__}") from None

    def block_number(self, i: int) -> Number:
        cell, number = self.cells[i]
        return number * size_of(cell)

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
            balls = [(number.arb(), size_of(cell)) for cell, number in self.cells]
            return sum(float(-p * n * p.log()) for p, n in balls if p > 0)

    # Sampling

    def _masses(self) -> list[arb]:
        total, out = arb(0), []
        for cell, number in self.cells:
            total += number.arb() * size_of(cell)
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
        return cell.start + source.below(size_of(cell)) if isinstance(cell, range) else cell

    # Larger laws

    def push(self, f: Callable[[Any], Hashable]) -> Law:
        return _collect((f(value), self._number(value)) for value in self.values())

    def push_blocks(self, f: Callable[[Cell], Cell]) -> Law:
        def moved() -> Iterator[tuple[Cell, Number]]:
            for cell, number in self.cells:
                target = as_cell(f(cell))
                if size_of(target) == size_of(cell):
                    yield target, number
                elif not isinstance(target, range) or size_of(target) == 1:
                    yield target, number * size_of(cell)
                else:
                    raise LawError("map_blocks: a block goes to one value or to a range of the same length")

        return _collect(moved())


def _collect(items: Iterable[tuple[Cell, Number]]) -> FiniteLaw:
    """Sum the numbers of overlapping cells on their common refinement; touching blocks of equal number are merged."""
    blocks: list[tuple[range, Number]] = []
    atoms: dict[Hashable, list[Number]] = {}
    for value, number in items:
        if not present(number):
            continue
        cell = as_cell(value)
        if isinstance(cell, range):
            blocks.append((cell, number))
        else:
            try:
                atoms.setdefault(cell, []).append(number)
            except TypeError:
                raise LawError(f"a value is an integer or hashable, not {type(cell).__name__}") from None
    return FiniteLaw(_merged(_refined(blocks)), {atom: sum_of(numbers) for atom, numbers in atoms.items()})


def present(number: Number) -> bool:
    """Whether a probability is more than the empty sum."""
    return not (isinstance(number, Quotient) and not number.terms)


def _refined(blocks: list[tuple[range, Number]]) -> list[tuple[range, Number]]:
    ordered = sorted(blocks, key=lambda item: item[0].start)
    if all(a[0].stop <= b[0].start for a, b in pairwise(ordered)):
        return ordered
    edges = sorted({edge for block, _ in ordered for edge in (block.start, block.stop)})
    place = {edge: i for i, edge in enumerate(edges)}
    held: list[list[Number]] = [[] for _ in edges]
    for block, number in ordered:
        for i in range(place[block.start], place[block.stop]):
            held[i].append(number)
    return [(range(a, b), sum_of(numbers)) for (a, b), numbers in zip(pairwise(edges), held) if numbers]


def _merged(blocks: list[tuple[range, Number]]) -> list[tuple[range, Number]]:
    out: list[tuple[range, Number]] = []
    for block, number in blocks:
        if out and out[-1][0].stop == block.start and (out[-1][1] is number or out[-1][1] == number):
            out[-1] = (range(out[-1][0].start, block.stop), number)
        else:
            out.append((block, number))
    return out


def weighted_law(weights: Mapping[Any, object] | Iterable[tuple[Any, object]]) -> FiniteLaw:
    """Normalise exponential-polynomial weights."""
    items = [
        (as_cell(cell), read_weight(weight))
        for cell, weight in (weights.items() if isinstance(weights, Mapping) else weights)
    ]
    items = [(cell, weight) for cell, weight in items if weight.terms]
    total = ExpSum((x, a * size_of(cell)) for cell, weight in items for x, a in weight)
    if not items:
        raise LawError("a law needs at least one value of positive weight")
    z = Denominator(total)
    exact = total.exact
    if exact is not None:
        return _collect((cell, Quotient.of(weight * (1 / exact))) for cell, weight in items)
    return _collect((cell, Quotient.of(weight, z)) for cell, weight in items)


def mixed_law(parts: Iterable[tuple[Rational | Number, Law]]) -> FiniteLaw:
    """``sum of a_i * law_i`` on the common refinement."""
    read: list[tuple[Number, FiniteLaw]] = []
    for share, law in parts:
        if not isinstance(law, Law):
            raise TypeError(f"a mixture takes (share, Law) pairs, not {type(law).__name__}")
        number = share if isinstance(share, (Quotient, Enclosed)) else Quotient.of(rational(share, "share", minimum=0))
        if present(number):
            read.append((number, law.as_finite()))
    _require_one(sum_of([Quotient(()), *(number for number, _ in read)]))
    return _collect((cell, number * share) for share, law in read for cell, number in law.cells)


def _require_one(total: Number) -> None:
    if isinstance(total, Quotient) and total.exact is not None:
        if total.exact != 1:
            raise ParameterError(f"the shares of a mixture must sum to 1, got {total.exact}")
        return
    with precision(128):
        if not total.arb().overlaps(arb(1)):
            raise ParameterError("the shares of a mixture must sum to 1")


Lows = NDArray[np.uint64] | NDArray[np.object_]


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
