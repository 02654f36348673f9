"""Drawing a level by lazy-precision inversion.

Values of equal score are equally likely, so a draw picks a score *level* first and then a value uniformly inside it.
With ``W_j`` the cumulative weight of the ``j+1`` best levels and ``U`` uniform on [0, 1), the level is the ``j`` with
``W_{j-1}/Z <= U < W_j/Z``.  Bits of ``U`` are drawn 64 at a time until the answer is certain for *every* real in the
current dyadic cylinder; the cylinders answered ``j`` are disjoint subsets of that interval and the undecided set
shrinks to a null set, so the output law is exactly the stated one.

Levels so far above the best one that together they weigh less than the working precision are not summed: they enter
as a ball from 0 to a bound of their mass (``tail``), and a draw that falls near it asks for more bits.

Doubles only filter.  With ``t`` tables a weight is a product of ``t`` entries, each rounded from a ball; entries,
products, the rounded count (2.01 u) and one more product err by at most ``2.01 (t + 1)`` u (u = 2**-53); any summation
order of D positive terms adds (D-1) u, the division one more; hence a quotient of sums is within
``2.04 (D + 2t + 4) u + 2 tail`` of the truth.  ``numpy.exp`` is not trusted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import isqrt
from typing import TYPE_CHECKING, TypeAlias

import flint
import numpy as np
from attrs import frozen
from flint import arb, fmpz_poly
from numpy.typing import NDArray

from privpac.arrays import Bools, Floats64, Ints
from privpac.errors import LawError, Undecided
from privpac.exact import MAX_PRECISION, ExpSum, Rational, as_arb, exp_ball, precision, rational
from privpac.law.weights import Uints, Weights, of_blocks, split_runs
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.law.blocks import BlockLaw

Arb: TypeAlias = arb
_TABLE_BITS = 11
_TABLE_MASK = (1 << _TABLE_BITS) - 1
_TABLE_CHUNK = 1 << 14  # so that temporaries stay in the cache
_MAX_COUNT_BITS = 900


# Exact sums of many multiplicities.
#
# A multiplicity ``c >= 1`` is stored as ``span = c - 1`` in a uint64 array; the few that do not fit stand in a sparse
# dictionary ``{index: c}`` of Python ints.  Sums are exact: 32-bit halves are added separately, by ``bincount`` in
# chunks of at most 2**20 entries (each partial sum is below 2**53, hence exact in a double) or as int64 along sorted
# runs. With at most ``MAX_BLOCKS`` entries neither half overflows.


MAX_BLOCKS = 1 << 30
_CHUNK = 1 << 20
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


@frozen(slots=False)
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

    def floats(self) -> Floats64:
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


@frozen(slots=False)
class Tickets:
    """Multiplicities times weights, level by level: as doubles for a filter, exactly only for the level asked for."""

    gaps: Ints
    sums: Floats64
    keys: Ints
    span: Uints
    which: Ints
    weights: Weights

    @staticmethod
    def of(keys: Ints, span: Uints, which: Ints, weights: Weights) -> Tickets:
        """From blocks: how far above the best, how many values (less one), and their weights."""
        each, width = weights.masses(span, which), int(keys.max()) + 1
        if width <= 4 * len(keys) + 1024:
            gaps = np.flatnonzero(np.bincount(keys))
            sums: Floats64 = np.bincount(keys, weights=each)[gaps].astype(np.float64)
        else:
            ordered, order = _sorted(keys, width)
            starts = _run_starts(ordered)
            gaps, sums = ordered[starts], np.add.reduceat(each[order], starts)
        return Tickets(gaps, sums, keys, span, which, weights)

    def floats(self) -> Floats64:
        """Sums of doubles that err by at most 4.02 * 2**-53 each."""
        return self.sums

    def __getitem__(self, j: int) -> int:
        members = np.flatnonzero(self.keys == self.gaps[j])
        values = zip(self.span[members].tolist(), self.which[members].tolist())
        return sum((span + 1) * self.weights.values[run] for span, run in values)

    def locate(self, gap: int, r: int) -> tuple[int, int]:
        """The block of the ``r``-th ticket of a level, and the value inside it."""
        members = np.flatnonzero(self.keys == gap)
        which = self.which[members]
        i, ticket = locate(np.arange(len(members)), r, *self.weights.tickets(self.span[members], which))
        return int(members[i]), ticket // self.weights.values[int(which[i])]


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


def nth(mask: Bools, r: int) -> int:
    """The place of the ``r``-th True."""
    for at in range(0, len(mask), _CHUNK >> 4):
        part = mask[at : at + (_CHUNK >> 4)]
        count = int(np.count_nonzero(part))
        if r < count:
            return at + int(np.flatnonzero(part)[r])
        r -= count
    raise IndexError("fewer True entries than asked for")


def locate(members: NDArray[np.intp], r: int, span: Uints, big: dict[int, int]) -> tuple[int, int]:
    """The block (and offset inside it) of the ``r``-th value among ``members``, in order."""
    chosen = span[members]
    places = np.searchsorted(members, list(big)).tolist() if big else []
    if any(at < len(members) and int(members[at]) == i for at, i in zip(places, big)):
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


@frozen(slots=False)
class Rate:
    """How weights fall with the score: ``e**(-eta s)``, or ``base**(-s)`` with a rational base."""

    eta: Fraction | None
    base: Fraction | None = None

    @staticmethod
    def read(eta: Rational | None, base: Rational | None) -> Rate:
        if (eta is None) == (base is None):
            raise LawError("give exactly one of eta (weights e**(-eta * score)) and base (weights base**(-score))")
        if eta is not None:
            return Rate(rational(eta, "eta", minimum=0))
        return Rate(None, rational(base, "base", minimum=1))

    @property
    def flat(self) -> bool:
        """Whether all scores weigh the same."""
        return self.eta == 0 or self.base == 1

    def exact(self, gap: int) -> ExpSum:
        """The weight at a gap."""
        if self.eta is not None:
            return ExpSum.exp(-self.eta * gap)
        assert self.base is not None
        return ExpSum.of(self.base**-gap)

    def exact_total(self, gaps: Sequence[int], counts: Iterable[int]) -> ExpSum:
        """``sum of count * weight(gap)``, exactly."""
        if self.flat:
            return ExpSum.of(sum(counts))
        if self.eta is not None:
            return ExpSum({-self.eta * gap: Fraction(count) for gap, count in zip(gaps, counts)})
        assert self.base is not None
        # Over the common denominator p**last the sum of N_d (q/p)**d is an integer.
        p, q, last = self.base.numerator, self.base.denominator, max(gaps)
        return ExpSum.of(Fraction(sum(n * q**gap * p ** (last - gap) for gap, n in zip(gaps, counts)), p**last))

    def arb(self, power: int) -> arb:
        """``e**(-eta * power)`` or ``base**(-power)`` at the working precision."""
        if self.eta is not None:
            return exp_ball(-self.eta * power)
        assert self.base is not None
        return as_arb(self.base) ** (-power)

    def cut(self, bits: int) -> int | None:
        """The last gap whose weight is at least about ``2**-bits``; None if there is none.  A choice, not a bound."""
        if self.flat:
            return None
        with precision(64):
            rate = as_arb(self.eta) if self.eta is not None else as_arb(self.base or Fraction(1)).log()
            return int((arb(bits) * arb.const_log2() / rate).mid().floor().unique_fmpz())

    def balls(self, gaps: Sequence[int]) -> list[Arb]:
        """Balls of the weights at increasing non-negative gaps, by two short tables."""
        if not gaps:
            return []
        step = isqrt(gaps[-1]) + 1
        if len(gaps) < 4 * step:
            return [self.arb(gap) for gap in gaps]
        low = [self.arb(i) for i in range(step)]
        high = [self.arb(i * step) for i in range(gaps[-1] // step + 1)]
        return [high[gap // step] * low[gap % step] for gap in gaps]

    def total(self, gaps: Sequence[int], counts: Sequence[int]) -> Arb:
        """``sum of count * weight(gap)``: where gaps are dense, a polynomial in the weight of gap 1."""
        if gaps and len(gaps) > 16 and gaps[-1] < 4 * len(gaps):
            coefficients = [0] * (gaps[-1] + 1)
            for gap, count in zip(gaps, counts):
                coefficients[gap] = count
            return fmpz_poly(coefficients)(self.arb(1))
        return sum((ball * count for ball, count in zip(self.balls(gaps), counts)), arb(0))


def invert(cumulative: Sequence[arb], total: arb, u: int, bits: int, *, complete: bool = True) -> int | None:
    """The index whose interval certainly contains the cylinder ``[u, u+1) * 2**-bits``, or None.

    ``complete``: the last cumulative weight is the total, so nothing lies above the last index.
    """
    scale = arb(2) ** bits
    top, bottom = arb(u + 1) * total, arb(u) * total
    first, last = 0, len(cumulative) - 1
    while first < last:
        middle = (first + last) // 2
        if top <= cumulative[middle] * scale:
            last = middle
        else:
            first = middle + 1
    if first == len(cumulative) - 1 and not complete and not top <= cumulative[first] * scale:
        return None
    if first > 0 and not bottom >= cumulative[first - 1] * scale:
        return None
    return first


class Levels:
    """Distinct scores (as gaps to the best one, ascending), their exact multiplicities and their rate."""

    def __init__(self, gaps: Ints, totals: Totals, rate: Rate) -> None:
        self.gaps, self.totals, self.rate = gaps, totals, rate
        self._z: dict[int, arb] = {}

    @cached_property
    def size(self) -> int:
        """How many values there are."""
        return self.totals.total()

    def _near(self) -> tuple[int, arb]:
        """How many levels count at the working precision, and a ball for the weight of the others."""
        cut = self.rate.cut(flint.ctx.prec + 8 + self.size.bit_length())
        if cut is None or cut >= int(self.gaps[-1]):
            return len(self.gaps), arb(0)
        n = int(np.searchsorted(self.gaps, cut, side="right"))
        return n, arb(0).union(self.rate.arb(cut + 1) * self.size)

    def z(self) -> arb:
        """Ball of the total weight at the working precision (relative to the best level)."""
        bits = flint.ctx.prec
        if bits not in self._z:
            n, tail = self._near()
            self._z[bits] = self.rate.total(self.gaps[:n].tolist(), self.totals.part(0, n)) + tail
        return self._z[bits]

    def invert(self, u: int, bits: int) -> int | None:
        """The level that certainly holds the cylinder, at the working precision."""
        n, tail = self._near()
        running, cumulative = arb(0), []
        for ball, count in zip(self.rate.balls(self.gaps[:n].tolist()), self.totals.part(0, n)):
            running += ball * count
            cumulative.append(running)
        return invert(cumulative, running + tail, u, bits, complete=n == len(self.gaps))


@frozen(slots=False)
class Filter:
    """Doubles that settle almost every draw: cumulative quotients of the nearest levels, each within ``error``."""

    gaps: Ints
    totals: Totals | Tickets
    quotients: Floats64
    error: float
    complete: bool

    @staticmethod
    def of(gaps: Ints, totals: Totals | Tickets, rate: Rate, tail: float) -> Filter:
        """From the nearest levels; ``tail`` bounds the weight of all others (0 if there are none)."""
        # One entry for each level, or products of one entry for every 11 bits of the gap.
        if len(gaps) <= 256:
            with precision(160):
                weights, n_tables = np.array([float(rate.arb(gap)) for gap in gaps.tolist()], dtype=np.float64), 1
        else:
            powers = Powers.of(rate, int(gaps[-1]))
            weights, n_tables = powers.weights(gaps), len(powers.tables)
        cumulative = np.cumsum(weights * totals.floats())
        z = float(cumulative[-1])
        # Tickets are added up block by block; their 4.02 u instead of 2.01 u are within the 4 spare ones.
        terms = len(totals.keys) if isinstance(totals, Tickets) else len(gaps)
        error = 2.04 * (terms + 2 * n_tables + 4) * 2.0**-53 + 2 * tail / z
        return Filter(gaps, totals, cumulative / z, error, tail == 0)

    @staticmethod
    def reach(rate: Rate, count_bits: int) -> int | None:
        """The gap up to which a filter of fewer than ``2**count_bits`` values reads levels; None: read all."""
        return rate.cut(64 + count_bits)

    @staticmethod
    def tail(rate: Rate, cut: int, count_bits: int) -> float:
        """A bound on the weight of fewer than ``2**count_bits`` values at gaps above ``cut``."""
        with precision(64):
            return float((rate.arb(cut + 1) * arb(2) ** count_bits).upper()) * (1 + 2.0**-50) + 2.0**-1000

    def accept(self, u: int) -> int | None:
        """The level that certainly holds the cylinder ``[u, u+1) * 2**-64``, or None."""
        return settled(self.quotients, self.error, u, complete=self.complete)


def settled(quotients: Floats64, error: float, u: int, *, complete: bool = True) -> int | None:
    """The index whose interval certainly holds the cylinder ``[u, u+1) * 2**-64``, or None.

    ``quotients`` are cumulative probabilities, each within ``error`` of the truth; ``complete``: the last one is 1.
    """
    j = min(int(np.searchsorted(quotients, u * 2.0**-64, side="right")), len(quotients) - 1)
    # Scaling a double by a power of two is exact, so both comparisons are between integers; four units pad the floors.
    margin = int(error * 2.0**64) + 4
    last = complete and j == len(quotients) - 1
    if not last and u + 1 > int(float(quotients[j]) * 2.0**64) - margin:
        return None
    if j > 0 and u < int(float(quotients[j - 1]) * 2.0**64) + margin:
        return None
    return j


def representable(count_bits: int) -> bool:
    """Whether doubles can hold the multiplicities and their sums."""
    return count_bits < _MAX_COUNT_BITS


@frozen(slots=False)
class Powers:
    """Weights of gaps in ``0..top`` as products of doubles, each rounded from a ball."""

    tables: tuple[Floats64, ...]

    @staticmethod
    def of(rate: Rate, top: int) -> Powers:
        tables = []
        with precision(160):  # so that balls of powers stay far narrower than a double's last place
            for shift in range(0, max(1, top.bit_length()), _TABLE_BITS):
                # No index of a table exceeds the largest gap, so no entry is smaller than the smallest weight.
                table = np.empty(min(1 << _TABLE_BITS, (top >> shift) + 1), dtype=np.float64)
                x, ball = rate.arb(1 << shift), arb(1)
                for i in range(len(table)):
                    table[i] = float(ball)
                    ball *= x
                tables.append(table)
        return Powers(tuple(tables))

    def weights(self, gaps: Ints) -> Floats64:
        """The weight of every gap."""
        out = np.empty(len(gaps), dtype=np.float64)
        for at in range(0, len(gaps), _TABLE_CHUNK):
            part, product = gaps[at : at + _TABLE_CHUNK], out[at : at + _TABLE_CHUNK]
            np.take(self.tables[0], part & _TABLE_MASK, out=product, mode="clip")
            for i, table in enumerate(self.tables[1:], 1):
                product *= table[(part >> (i * _TABLE_BITS)) & _TABLE_MASK]
        return out


def draw(rng: Rng, table: Filter | None, levels: Callable[[], Levels]) -> tuple[int, int]:
    """Gap and multiplicity of a level drawn with exactly the stated probability."""
    u, bits = rng.bits(64), 64
    accepted = None if table is None else table.accept(u)
    if table is not None and accepted is not None:
        return int(table.gaps[accepted]), table.totals[accepted]
    exact = levels()
    while True:
        bits += 64
        if bits > MAX_PRECISION:
            raise Undecided("a draw was not decided")
        u = (u << 64) | rng.bits(64)
        with precision(bits + 64):
            level = exact.invert(u, bits)
        if level is not None:
            return int(exact.gaps[level]), exact.totals[level]


# One exact draw from step functions, without laying out their law.
#
# Scores of millions of blocks are far above the best one; their weight is below what 64 random bits can tell from 0.
# So the blocks near the best score are looked at first, with a bound of the weight of all others: the filter, which
# settles almost every draw.  The few others go on with the same bits and the whole law, so the law of what is drawn is
# exactly the stated one.

Part = tuple[int, Uints, int, Ints, int]
"""Offset, starts, end, scores as in ``Law.from_steps``, and what is added to every score."""


def near_reach(eta: Rational, count: int) -> int | None:
    """How far above the best score a draw among ``count`` values looks at first; None: at all of them."""
    bits = count.bit_length()
    return Filter.reach(Rate.read(eta, None), bits) if representable(bits) else None


def sample_steps(
    parts: Sequence[Part], eta: Rational, source: Rng, whole: Callable[[], BlockLaw], weights: Weights | None = None
) -> int:
    """A value drawn from ``whole``, the law of these steps: weight ``e**(-eta * score)``, times its own."""
    best = min(int(scores.min()) + more for *_, scores, more in parts)
    count = sum(end + 1 - int(starts[0]) for _, starts, end, _, _ in parts)
    if weights is not None:
        count = -(-count // weights.size) * weights.total
    reach = near_reach(eta, count)
    if reach is None or reach >= max(int(scores.max()) + more for *_, scores, more in parts) - best:
        return int(whole().sample(source))
    return sample_near(parts, eta, count, reach, source, whole, weights)


def sample_near(
    parts: Sequence[Part],
    eta: Rational,
    count: int,
    reach: int,
    source: Rng,
    whole: Callable[[], BlockLaw],
    weights: Weights | None = None,
) -> int:
    """The same, where ``parts`` need hold no more than the blocks at most ``reach`` above the best, of ``count`` values
    in all, each counted as often as it weighs."""
    best, rate = min(int(scores.min()) + more for *_, scores, more in parts), Rate.read(eta, None)
    lows, span, gaps, big, owner, which = _near(parts, best, reach, weights)
    tickets = None if weights is None else Tickets.of(gaps, span, which, weights)
    levels, totals = grouped(gaps, span, big) if tickets is None else (tickets.gaps, tickets)
    table = Filter.of(levels, totals, rate, Filter.tail(rate, reach, count.bit_length()))
    law: list[BlockLaw] = []

    def exact() -> Levels:
        law.append(whole())
        return law[0].levels

    gap, total = draw(source, table, exact)
    r = source.below(total)
    if law and gap > reach:
        i, ticket = locate(np.flatnonzero(law[0].score == best + gap), r, *law[0].tickets)
        return law[0].low(i) + ticket // law[0].weight(i)
    i, inside = locate(np.flatnonzero(gaps == gap), r, span, big) if tickets is None else tickets.locate(gap, r)
    return parts[int(owner[i])][0] + int(lows[i]) + inside


def _near(
    parts: Sequence[Part], best: int, cut: int, weights: Weights | None
) -> tuple[Uints, Uints, Ints, dict[int, int], Ints, Ints]:
    """Blocks at most ``cut`` above the best: starts, spans, gaps, the few spans beyond 64 bits, whose they are, and
    their runs of equal weight."""
    lows, spans, gaps, owners, big, n = [], [], [], [], {}, 0
    runs: list[Ints] = []
    for p, (offset, starts, end, scores, more) in enumerate(parts):
        near = np.flatnonzero(scores <= best + cut - more)
        low = starts[near]
        after = np.minimum(near + 1, len(starts) - 1)
        span = starts[after] - low - np.uint64(1)
        if len(near) and near[-1] == len(starts) - 1:
            last = end - int(starts[-1])
            if last >= 1 << 64:
                big[n + len(near) - 1] = last + 1
            span[-1] = 0 if last >= 1 << 64 else last
        gap = scores[near] + (more - best)
        if weights is not None and len(near):
            begins, index = weights.runs(offset, offset + end)
            low, span, source = split_runs(low, span, begins)
            gap = gap[source]
            runs.append(of_blocks(low, begins, index))
        lows.append(low)
        spans.append(span)
        gaps.append(gap)
        owners.append(np.full(len(low), p, dtype=np.int64))
        n += len(low)
    which = np.concatenate(runs) if runs else np.empty(0, dtype=np.int64)
    return np.concatenate(lows), np.concatenate(spans), np.concatenate(gaps), big, np.concatenate(owners), which
