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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import TypeAlias

import flint
import numpy as np
from flint import arb, fmpz_poly
from numpy.typing import NDArray

from privpac.errors import Undecided
from privpac.exact import MAX_PRECISION, as_arb, exp_ball, precision
from privpac.law.numbers import Ints, Totals
from privpac.rng import Rng

__all__ = ["Filter", "Levels", "Powers", "Rate", "draw", "invert", "settled"]

Arb: TypeAlias = arb
_TABLE_BITS = 11
_TABLE_MASK = (1 << _TABLE_BITS) - 1
_CHUNK = 1 << 14  # so that temporaries stay in the cache
_MAX_COUNT_BITS = 900


@dataclass(frozen=True)
class Rate:
    """How weights fall with the score: ``e**(-eta s)``, or ``base**(-s)`` with a rational base."""

    eta: Fraction | None
    base: Fraction | None = None

    @property
    def flat(self) -> bool:
        """Whether all scores weigh the same."""
        return self.eta == 0 or self.base == 1

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


# The filter


@dataclass(frozen=True)
class Filter:
    """Doubles that settle almost every draw: cumulative quotients of the nearest levels, each within ``error``."""

    gaps: Ints
    totals: Totals
    quotients: NDArray[np.float64]
    error: float
    complete: bool

    @staticmethod
    def of(gaps: Ints, totals: Totals, rate: Rate, tail: float) -> Filter:
        """From the nearest levels; ``tail`` bounds the weight of all others (0 if there are none)."""
        weights, n_tables = _table_weights(gaps, rate)
        cumulative = np.cumsum(weights * totals.floats())
        z = float(cumulative[-1])
        error = 2.04 * (len(gaps) + 2 * n_tables + 4) * 2.0**-53 + 2 * tail / z
        return Filter(gaps, totals, cumulative / z, error, tail == 0)

    @staticmethod
    def reach(rate: Rate, count_bits: int) -> int | None:
        """The gap up to which a filter reads levels when all values are fewer than ``2**count_bits``; None: read
        all."""
        return rate.cut(64 + count_bits)

    @staticmethod
    def tail(rate: Rate, cut: int, count_bits: int) -> float:
        """A bound on the weight of fewer than ``2**count_bits`` values at gaps above ``cut``."""
        with precision(64):
            return float((rate.arb(cut + 1) * arb(2) ** count_bits).upper()) * (1 + 2.0**-50) + 2.0**-1000

    def accept(self, u: int) -> int | None:
        """The level that certainly holds the cylinder ``[u, u+1) * 2**-64``, or None."""
        return settled(self.quotients, self.error, u, complete=self.complete)


def settled(quotients: NDArray[np.float64], error: float, u: int, *, complete: bool = True) -> int | None:
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


def _table_weights(gaps: Ints, rate: Rate) -> tuple[NDArray[np.float64], int]:
    """Weights as products of table entries (one entry for every 11 bits of the gap), and the number of tables."""
    if len(gaps) <= 256:
        with precision(160):
            return np.array([float(rate.arb(gap)) for gap in gaps.tolist()], dtype=np.float64), 1
    powers = Powers.of(rate, int(gaps[-1]))
    return powers.weights(gaps), len(powers.tables)


@dataclass(frozen=True)
class Powers:
    """Weights of gaps in ``0..top`` as products of doubles, each rounded from a ball."""

    tables: tuple[NDArray[np.float64], ...]

    @staticmethod
    def of(rate: Rate, top: int) -> Powers:
        with precision(160):
            # No index of a table exceeds the largest gap, so no entry is smaller than the smallest weight.
            return Powers(
                tuple(
                    _powers(rate.arb(1 << shift), min(1 << _TABLE_BITS, (top >> shift) + 1))
                    for shift in range(0, max(1, top.bit_length()), _TABLE_BITS)
                )
            )

    def weights(self, gaps: Ints) -> NDArray[np.float64]:
        """The weight of every gap."""
        out = np.empty(len(gaps), dtype=np.float64)
        for at in range(0, len(gaps), _CHUNK):
            part, product = gaps[at : at + _CHUNK], out[at : at + _CHUNK]
            np.take(self.tables[0], part & _TABLE_MASK, out=product, mode="clip")
            for i, table in enumerate(self.tables[1:], 1):
                product *= table[(part >> (i * _TABLE_BITS)) & _TABLE_MASK]
        return out


def _powers(x: arb, n: int) -> NDArray[np.float64]:
    """``x**0 .. x**(n-1)`` rounded to doubles; at 160 bits the balls stay far narrower than a double's last place."""
    ball, out = arb(1), np.empty(n, dtype=np.float64)
    for i in range(n):
        out[i] = float(ball)
        ball *= x
    return out


# The draw


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
