"""Probabilities as exact real numbers.

:class:`Quotient` is a sum of terms ``N / (Z1 Z2 ...)`` with exponential sums above and below: what mixtures,
products and adaptive compositions of exponential laws look like.  Denominators stay factored and shared, so balls
are cheap; only when a comparison cannot be settled by balls is everything put over a common denominator and the
sign decided exactly.  :class:`Enclosed` is a number known through balls only (an integral); its comparisons may
end in ``Undecided``, never in a guess.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import flint
import numpy as np
from flint import arb
from numpy.typing import NDArray

from privpac.errors import LawError, Undecided
from privpac.exact import MAX_PRECISION, Ball, ExpSum, ball_of, precision, rational

__all__ = [
    "Denominator",
    "Enclosed",
    "Ints",
    "MAX_BLOCKS",
    "Number",
    "Quotient",
    "Totals",
    "Uints",
    "enclosed",
    "exp_times",
    "grouped",
    "locate",
    "nth",
    "read_weight",
    "sign_of_sum",
    "sum_of",
]


# Exact sums of many multiplicities.
#
# A multiplicity ``c >= 1`` is stored as ``span = c - 1`` in a uint64 array; the few that do not fit stand in a sparse
# dictionary ``{index: c}`` of Python ints.  Sums are exact: 32-bit halves are added separately, by ``bincount`` in
# chunks of at most 2**20 entries (each partial sum is below 2**53, hence exact in a double) or as int64 along sorted
# runs. With at most ``MAX_BLOCKS`` entries neither half overflows.


Uints = NDArray[np.uint64]
Ints = NDArray[np.int64]
MAX_BLOCKS = 1 << 30
_CHUNK = 1 << 20
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


@dataclass(frozen=True)
class Totals:
    """Multiplicities ``low + 2**32 * high``, plus what single blocks beyond 2**64 add to them."""

    low: Ints
    high: Ints | None
    extra: dict[int, int]

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, j: int) -> int:
        high = 0 if self.high is None else int(self.high[j])
        return int(self.low[j]) + (high << 32) + self.extra.get(j, 0)

    def __iter__(self) -> Iterator[int]:
        return iter(self.part(0, len(self)))

    def total(self) -> int:
        """Their sum; neither half overflows, however many groups."""
        high = 0 if self.high is None else int(self.high.sum())
        return int(self.low.sum()) + (high << 32) + sum(self.extra.values())

    def part(self, start: int, stop: int) -> list[int]:
        """Some of them as Python ints."""
        out: list[int] = self.low[start:stop].tolist()
        if self.high is not None:
            out = [a + (b << 32) for a, b in zip(out, self.high[start:stop].tolist())]
        for j, more in self.extra.items():
            if start <= j < stop:
                out[j - start] += more
        return out

    def floats(self) -> NDArray[np.float64]:
        """As doubles, relative error at most 2.01 * 2**-53: two conversions and one sum of non-negative numbers."""
        out = self.low.astype(np.float64)
        if self.high is not None:
            out += self.high.astype(np.float64) * 2.0**32
        for j in self.extra:
            out[j] = float(self[j])
        return out


def grouped(keys: Ints, span: Uints, big: dict[int, int]) -> tuple[Ints, Totals]:
    """Distinct non-negative keys, ascending, and the total multiplicity of each: one counting pass or one sort."""
    top = int(span.max())
    unit = top == 0 and not big
    width = int(keys.max()) + 1
    dense = width <= 4 * (len(keys) if unit else min(len(keys), _CHUNK)) + 1024
    high: Ints | None = None
    if dense:
        low: Ints = np.bincount(keys, minlength=width)
        distinct = np.flatnonzero(low)
        if top * len(keys) < 1 << 53:
            low = low if top == 0 else low + np.bincount(keys, weights=span, minlength=width).astype(np.int64)
        else:
            low = low + _bincount_halves(keys, span, width, 0)
            high = _bincount_halves(keys, span, width, 1) if top >> 32 else None
        if len(distinct) < width:
            low, high = low[distinct], None if high is None else high[distinct]
    elif unit:
        ordered = np.sort(keys)
        starts = _run_starts(ordered)
        distinct, low = (
            (ordered, np.ones_like(keys))
            if len(starts) == len(keys)
            else (ordered[starts], _run_lengths(starts, len(keys)))
        )
    else:
        ordered, order = _sorted(keys, width)
        starts, spans = _run_starts(ordered), span[order]
        distinct, low = ordered[starts], (spans & _LOW).view(np.int64)
        high = (spans >> _SHIFT).view(np.int64) if top >> 32 else None
        if len(starts) < len(keys):
            low, high = np.add.reduceat(low, starts), None if high is None else np.add.reduceat(high, starts)
        low = low + _run_lengths(starts, len(keys))
    extra: dict[int, int] = {}
    for i, count in big.items():
        j = int(np.searchsorted(distinct, keys[i]))
        extra[j] = extra.get(j, 0) + count - 1 - int(span[i])
    return distinct, Totals(low, high, extra)


def _bincount_halves(keys: Ints, span: Uints, width: int, half: int) -> Ints:
    """Sums of the low (0) or high (1) 32 bits of the spans."""
    halves = np.ascontiguousarray(span).view(np.uint32)[half if sys.byteorder == "little" else 1 - half :: 2]
    total = np.zeros(width, dtype=np.int64)
    for at in range(0, len(keys), _CHUNK):
        total += np.bincount(keys[at : at + _CHUNK], weights=halves[at : at + _CHUNK], minlength=width).astype(np.int64)
    return total


def _run_starts(ordered: Ints) -> NDArray[np.intp]:
    new = np.empty(len(ordered), dtype=bool)
    new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)


def _run_lengths(starts: NDArray[np.intp], n: int) -> Ints:
    out = np.empty(len(starts), dtype=np.int64)
    np.subtract(starts[1:], starts[:-1], out=out[:-1])
    out[-1] = n - starts[-1]
    return out


def _sorted(keys: Ints, width: int) -> tuple[Ints, NDArray[np.intp]]:
    """Sorted keys and their places: one plain sort of (key, place) packed in 63 bits where they fit."""
    bits = (len(keys) - 1).bit_length()
    if width.bit_length() + bits <= 63:
        packed = np.sort((keys << bits) | np.arange(len(keys), dtype=np.int64))
        return packed >> bits, packed & ((1 << bits) - 1)
    order = np.argsort(keys, kind="stable")
    return keys[order], order


def nth(mask: NDArray[np.bool_], r: int) -> int:
    """The place of the ``r``-th True."""
    for at in range(0, len(mask), _CHUNK >> 4):
        part = mask[at : at + (_CHUNK >> 4)]
        held = int(np.count_nonzero(part))
        if r < held:
            return at + int(np.flatnonzero(part)[r])
        r -= held
    raise IndexError("fewer True entries than asked for")


def locate(members: NDArray[np.intp], r: int, span: Uints, big: dict[int, int]) -> tuple[int, int]:
    """The block (and offset inside it) of the ``r``-th value among ``members``, in order."""
    chosen = span[members]
    if big and any(_holds(members, i) for i in big):
        counts = [big.get(i, s + 1) for i, s in zip(members.tolist(), chosen.tolist())]
        ends = list(accumulate(counts))
        j = next(j for j, end in enumerate(ends) if r < end)
        return int(members[j]), r - (ends[j] - counts[j])
    if not chosen.any():
        return int(members[r]), 0
    # Two-limb cumulative sums; at most 2**30 members, so neither limb overflows before it is normalised.
    low = np.cumsum(chosen & _LOW) + np.arange(1, len(chosen) + 1, dtype=np.uint64)
    high = np.cumsum(chosen >> _SHIFT) + (low >> _SHIFT)
    low &= _LOW
    r_high, r_low = r >> 32, r & 0xFFFFFFFF
    first = int(np.searchsorted(high, np.uint64(r_high), side="left"))
    last = int(np.searchsorted(high, np.uint64(r_high), side="right"))
    j = first + int(np.searchsorted(low[first:last], np.uint64(r_low), side="right"))
    end = (int(high[j]) << 32) + int(low[j])
    return int(members[j]), r - (end - int(chosen[j]) - 1)


def _holds(members: NDArray[np.intp], i: int) -> bool:
    at = int(np.searchsorted(members, i))
    return at < len(members) and int(members[at]) == i


ENCLOSED_PRECISION = 1 << 12
"""Bits at which comparing numbers known through balls only gives up: integrals cannot be decided at equality."""

_TINY = arb(2) ** -MAX_PRECISION


class Denominator:
    """A positive exponential sum shared by many quotients; balls are kept per precision, and the sum is built when
    needed."""

    def __init__(
        self, value: ExpSum | Callable[[], ExpSum], ball: Callable[[], arb] | None = None, *, irrational: bool = False
    ) -> None:
        self._value, self._ball, self._irrational = value, ball, irrational
        self._balls: dict[int, arb] = {}

    @cached_property
    def sum(self) -> ExpSum:
        return self._value if isinstance(self._value, ExpSum) else self._value()

    @cached_property
    def exact(self) -> Fraction | None:
        """The value as a rational, if no exponential is involved."""
        return None if self._irrational else self.sum.exact

    def arb(self) -> arb:
        bits = flint.ctx.prec
        if bits not in self._balls:
            self._balls[bits] = self.sum.arb() if self._ball is None else self._ball()
        return self._balls[bits]


class Quotient:
    """``sum of N / product of denominators``."""

    __slots__ = ("terms",)

    def __init__(self, terms: tuple[tuple[ExpSum, tuple[Denominator, ...]], ...]) -> None:
        self.terms = tuple(term for term in terms if term[0].terms)

    @staticmethod
    def of(value: Fraction | int | ExpSum, *denominators: Denominator) -> Quotient:
        return Quotient(((ExpSum.of(value), denominators),))

    def __add__(self, other: Number) -> Number:
        return sum_of([self, other])

    def __eq__(self, other: object) -> bool:
        """Same terms over the same denominators: sufficient for equal values, not necessary."""
        if not isinstance(other, Quotient) or len(self.terms) != len(other.terms):
            return False
        return all(n.terms == m.terms and d == e for (n, d), (m, e) in zip(self.terms, other.terms))

    def __hash__(self) -> int:
        return hash(tuple((n, d) for n, d in self.terms))

    def __mul__(self, other: Number | Fraction | int | ExpSum) -> Number:
        if isinstance(other, Enclosed):
            return other * self
        if not isinstance(other, Quotient):
            return Quotient(tuple((n * other, d) for n, d in self.terms))
        return Quotient(tuple((n1 * n2, d1 + d2) for n1, d1 in self.terms for n2, d2 in other.terms))

    def arb(self) -> arb:
        total = arb(0)
        for numerator, denominators in self.terms:
            value = numerator.arb()
            for denominator in denominators:
                value /= denominator.arb()
            total += value
        return total

    @property
    def exact(self) -> Fraction | None:
        """The value as a rational when no exponential is involved."""
        total = Fraction(0)
        for numerator, denominators in self.terms:
            value = numerator.exact
            for denominator in denominators:
                below = None if value is None else denominator.exact
                value = None if value is None or below is None else value / below
            if value is None:
                return None
            total += value
        return total

    @property
    def short(self) -> Fraction | None:
        """The value where it is written as one rational without denominators; None says nothing."""
        if len(self.terms) != 1 or self.terms[0][1]:
            return None
        return self.terms[0][0].exact

    def numerator(self) -> ExpSum:
        """The numerator over the (positive) common denominator: same sign as the number."""
        common: Counter[Denominator] = Counter()
        for _, denominators in self.terms:
            common |= Counter(denominators)
        total = ExpSum()
        for value, denominators in self.terms:
            for denominator in (common - Counter(denominators)).elements():
                value = value * denominator.sum
            total = total + value
        return total


class Enclosed:
    """A non-negative number given by a ball at every precision."""

    __slots__ = ("_compute",)
    exact: Fraction | None = None

    def __init__(self, compute: Callable[[], arb]) -> None:
        self._compute = compute

    def arb(self) -> arb:
        return self._compute()

    def __add__(self, other: Number) -> Enclosed:
        return Enclosed(lambda: self.arb() + other.arb())

    def __mul__(self, other: Number | Fraction | int | ExpSum) -> Enclosed:
        right = other if isinstance(other, (Quotient, Enclosed)) else Quotient.of(other)
        return Enclosed(lambda: self.arb() * right.arb())


Number = Quotient | Enclosed


def sum_of(numbers: Sequence[Number]) -> Number:
    """The sum of many numbers; terms over the same denominators are collected."""
    if len(numbers) == 1:
        return numbers[0]
    quotients = [number for number in numbers if isinstance(number, Quotient)]
    if len(quotients) < len(numbers):
        return Enclosed(lambda: sum((number.arb() for number in numbers), arb(0)))
    held: dict[tuple[int, ...], tuple[list[ExpSum], tuple[Denominator, ...]]] = {}
    for quotient in quotients:
        for numerator, denominators in quotient.terms:
            held.setdefault(tuple(sorted(map(id, denominators))), ([], denominators))[0].append(numerator)
    return Quotient(tuple((_sum(numerators), denominators) for numerators, denominators in held.values()))


def _sum(values: Sequence[ExpSum]) -> ExpSum:
    return values[0] if len(values) == 1 else ExpSum(term for value in values for term in value)


def enclosed(x: arb, *, ceiling: Fraction | None = None) -> Ball:
    """Rational ends of a non-negative ball; below ``2**-65536`` they are 0 and that power, which no integer
    overflows."""
    if x.lower() < _TINY:
        x = arb(0).union(x.upper())
    if x.upper() < _TINY:
        return Ball(Fraction(0), Fraction(1, 1 << MAX_PRECISION))
    return ball_of(x, floor=Fraction(0), ceiling=ceiling)


def exp_times(x: Fraction, number: Number) -> Number:
    """``e**x * number``."""
    return number * ExpSum.exp(x)


def sign_of_sum(number: Number, *, limit: int = 1024) -> int:
    """The sign of a number: balls up to ``limit`` bits, then (for quotients) the exact decision."""
    bits = 64
    last = ENCLOSED_PRECISION if isinstance(number, Enclosed) else limit
    while bits <= last:
        with precision(bits):
            value = number.arb()
            if value > 0:
                return 1
            if value < 0:
                return -1
        bits *= 4
    if isinstance(number, Enclosed):
        raise Undecided("a comparison of integrals was not decided; widen the margin or use the exponential mechanism")
    return number.numerator().sign()


def read_weight(weight: object) -> ExpSum:
    """A weight: a rational, an exponential sum, or a list of pairs ``(a, x)`` meaning ``a * e**x``."""
    if isinstance(weight, ExpSum):
        out = weight
    elif isinstance(weight, (list, tuple)):
        if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in weight):
            raise LawError("a weight given as a list holds pairs (a, x), each meaning a * e**x")
        out = ExpSum((rational(x, "exponent"), rational(a, "coefficient")) for a, x in weight)
    else:
        out = ExpSum.of(rational(weight, "weight"))
    if any(a < 0 for _, a in out) and out.sign() < 0:
        raise LawError("weights must not be negative")
    return out
