"""Correlated sampling: with public randomness, people whose data are alike draw the same candidate.

**Flat races.**  Candidate ``h`` with public exponential clock ``E_h`` and weight ``P(h)`` arrives at time ``E_h /
P(h)``; the first one wins.  Competing exponentials make the winner a draw from ``P``, and two users with weights ``P``
and ``Q`` get the same winner with probability at least ``(1 - TV)/(1 + TV)``.  For weights ``exp(-gamma s_h / m)``
logarithms turn this into ``argmin log2 E_h + gamma log2(e) s_h / m``; no normaliser is needed.

Normative, on integers: ``cost = (ilog2(t) >> 16) + floor(Gamma * s / m)`` and the winner has the least ``(cost, t,
id)``.  ``m`` is the user's own denominator and is not cancelled against ``s``: the floors are part of the definition.

**Words and clocks.**  Users agree on an item only if their devices agree on every bit of the arithmetic that chose it,
so everything here is defined on integers; no floating point takes part.  ``ilog2`` is a base-2 logarithm with 56
fraction bits, ``clock`` turns a uniform word into a standard exponential variable in units of ``ln 2 * 2**-56``.  The
array versions give the same integers as the scalar ones.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from privpac.errors import ParameterError, TooLargeError
from privpac.rng import derive

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
Ratio = Fraction | int | float | str
"""A public rational parameter, as it may be written."""
RaceScores = Sequence[int | None] | NDArray[Any]
"""One for every candidate; ``None`` is outside the support."""

MAX_RATE = 1 << 62
"""Rates (``Gamma``) stay below this, so that costs fit 64 bits."""

_WRITTEN = re.compile(r"\s*[+-]?([0-9]{1,400}(/[0-9]{1,400}|\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?\s*")
_FRACTION = 56
_HALF = 1 << 63
_BLOCK = 512


# Parameters


def integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """A public integer parameter within its range."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if value < low or (high is not None and value > high):
        raise ParameterError(
            f"{name} must be {f'at least {low}' if high is None else f'in {low}..{high}'}, got {value}"
        )
    return int(value)


def rational(name: str, value: object) -> Fraction:
    """A public parameter as an exact rational; a float is its shortest decimal."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction)):
        raise TypeError(f"{name} must be a number or a text such as '1/20', got {type(value).__name__}")
    # A short text must not ask for endless digits: a stranger's manifest is read with this.
    if isinstance(value, str) and not _WRITTEN.fullmatch(value):
        raise ParameterError(f"{name} must be a number such as 1/20, of at most 400 digits; got {value[:40]!r}")
    try:
        return Fraction(repr(value) if isinstance(value, float) else value)
    except (ValueError, ZeroDivisionError):
        raise ParameterError(f"{name} must be a finite number, got {value!r}") from None


def proper(name: str, value: Ratio) -> Fraction:
    """A public probability or error strictly between 0 and 1."""
    share = rational(name, value)
    if not 0 < share < 1:
        raise ParameterError(f"{name} must be between 0 and 1, got {value}")
    return share


def check_seed(seed: object) -> bytes:
    """The public seed: 32 bytes."""
    if not isinstance(seed, bytes):
        raise TypeError(f"the public seed must be bytes, got {type(seed).__name__}")
    if len(seed) != 32:
        raise ParameterError(f"the public seed must have 32 bytes, got {len(seed)}; secrets.token_bytes(32) makes one")
    return seed


def rate(gamma: Ratio) -> int:
    """The published integer ``floor(gamma * log2(e) * 2**40)`` of an inverse temperature ``gamma``.

    >>> rate(1), rate("1/2")
    (1586259972792, 793129986396)
    """
    value = rational("gamma", gamma)
    if value < 0:
        raise ParameterError(f"gamma must be at least 0, got {gamma}")
    digits = 60 + len(str(value.numerator))
    # 1 / ln 2 is irrational: once the enclosure is narrow enough both ends have the same floor.
    while True:
        context = Context(prec=digits)
        ln2, ulp = Fraction(context.ln(Decimal(2))), Fraction(1, 10**digits)
        low, high = (value * 2**40 / (ln2 + side) for side in (ulp, -ulp))
        if low // 1 == high // 1:
            break
        digits *= 2
    found = int(low // 1)
    if found >= MAX_RATE:
        raise ParameterError(f"gamma must keep its integer rate below 2**62, got {gamma}")
    return found


def ln_up(value: Fraction | int) -> Fraction:
    """An upper bound of ``ln(value)``, within ``10**-40`` relative (exactly 0 at 1), for published parameters."""
    value = Fraction(value)
    if value <= 0:
        raise ParameterError(f"a logarithm needs a positive number, got {value}")
    if value == 1:
        return Fraction(0)
    top, bottom = max(value.numerator, value.denominator), min(value.numerator, value.denominator)
    digits = 50 + len(str(top)) + len(str(bottom))
    context = Context(prec=digits)
    more, less = Fraction(context.ln(Decimal(top))), Fraction(context.ln(Decimal(bottom)))
    # Each logarithm is correctly rounded: off by at most half a unit in its last digit.
    slack = (more + less) / Fraction(10) ** (digits - 1)
    return more - less + slack if value > 1 else less - more + slack


# Words


def le64(number: int) -> bytes:
    """A 64-bit number, little end first."""
    return number.to_bytes(8, "little")


def word_named(key: bytes, name: bytes) -> int:
    """The public word of a name."""
    return int.from_bytes(hashlib.blake2b(name, digest_size=8, key=key).digest(), "little")


def words_indexed(key: bytes, size: int) -> Words:
    """The words ``0..size-1`` of the public stream of ``key``."""
    blocks = [hashlib.shake_256(key + le64(block)).digest(8 * _BLOCK) for block in range(-(-size // _BLOCK))]
    return np.frombuffer(b"".join(blocks), dtype="<u8")[:size].astype(np.uint64)


# Logarithms and clocks


def ilog2(x: int, bits: int = _FRACTION) -> int:
    """``log2(x)`` with 56 fraction bits, of an integer of any size from 1 on; with fewer, the first of them.

    >>> ilog2(1), ilog2(2) == 2**56
    (0, True)
    >>> ilog2(3, 40) == ilog2(3) >> 16
    True
    """
    if x < 1:
        raise ParameterError(f"ilog2 needs an integer of at least 1, got {x}")
    out = x.bit_length() - 1
    a = x << (63 - out) if out < 63 else x >> (out - 63)
    for _ in range(bits):
        a = (a * a) >> 64
        if a >= _HALF:
            out += out + 1
        else:
            out += out
            a += a
    return out


def ilog2_array(x: Words) -> Words:
    """``ilog2`` of every entry (all at least 1)."""
    x = np.ascontiguousarray(x, dtype=np.uint64)
    exponent = np.zeros(x.shape, dtype=np.uint64)
    rest = x.copy()
    for shift in (32, 16, 8, 4, 2, 1):
        big = rest >= np.uint64(1 << shift)
        exponent[big] += np.uint64(shift)
        rest[big] >>= np.uint64(shift)
    a = x << (np.uint64(63) - exponent)
    out, low = exponent, np.uint64(0xFFFFFFFF)
    s31, s32, s33, s63, one = (np.uint64(s) for s in (31, 32, 33, 63, 1))
    for _ in range(_FRACTION):
        ah, al = a >> s32, a & low
        # floor(a * a / 2**64): the sum inside stays below 2**64 because ah*al <= 2**64 - 2**33 + 1.
        a = ah * ah + ((ah * al + ((al * al) >> s33)) >> s31)
        bit = a >> s63
        out = (out << one) | bit
        a <<= one - bit
    return out


def clock(word: int) -> int:
    """A standard exponential variable in units of ``ln 2 * 2**-56``, in ``1..2**62``, from a uniform word."""
    return (64 << _FRACTION) - ilog2(word | 1)


def clock_array(words: Words) -> Words:
    """``clock`` of every word."""
    return np.uint64(64 << _FRACTION) - ilog2_array(np.asarray(words, dtype=np.uint64) | np.uint64(1))


MAX_DENOMINATOR = (1 << 31) - 1
MAX_INDEXED = 4096
INFINITE = np.int64(1 << 62)
"""The score of what lies outside the support."""

# Below this many candidates plain integers are faster than arrays.
_FEW = 64
_Name = TypeVar("_Name", int, bytes)


def check_race(m: object, Gamma: object) -> tuple[int, int]:
    """The denominator and the rate of a race, within the ranges where 64-bit costs are exact."""
    return integer("m", m, 1, MAX_DENOMINATOR), integer("Gamma", Gamma, 0, MAX_RATE - 1)


def score_array(scores: RaceScores, m: int) -> Ints:
    """RaceScores as an array, with ``INFINITE`` for ``None``."""
    if isinstance(scores, np.ndarray) and scores.dtype != object:
        if scores.dtype.kind not in "iu":
            raise TypeError(f"scores must be integers, got {scores.dtype}")
        if scores.dtype.kind == "u" and scores.size and int(scores.max()) > INFINITE:
            raise ParameterError(f"scores must be in 0..m = {m}, or None")
        out = scores.astype(np.int64)
    else:
        entries = [INFINITE if s is None else integer("a score", s, 0, int(INFINITE)) for s in scores]
        out = np.array(entries, dtype=np.int64)
    if out.ndim != 1:
        raise ParameterError(f"scores must be one list, got {out.ndim} dimensions")
    if np.any((out < 0) | ((out > m) & (out != INFINITE))):
        raise ParameterError(f"scores must be in 0..m = {m}, or None")
    return out


def race_indexed(key: bytes, scores: RaceScores, m: int, Gamma: int) -> int | None:
    """The index that wins the flat race, ``None`` if the support is empty.

    For at most 4096 candidates; a larger class runs the dyadic race, which gives other winners: never mix the two.
    """
    m, Gamma = check_race(m, Gamma)
    array = score_array(scores, m)
    if len(array) > MAX_INDEXED:
        raise TooLargeError(f"a flat race has at most {MAX_INDEXED} candidates, got {len(array)}; use the dyadic race")
    support = np.flatnonzero(array != INFINITE)
    if not len(support):
        return None
    words = words_indexed(key, len(array))[support]
    if len(support) < _FEW:
        return min(
            _entry(word, s, m, Gamma, i)
            for word, s, i in zip(words.tolist(), array[support].tolist(), support.tolist())
        )[2]
    t = clock_array(words)
    whole, rest = divmod(Gamma, m)
    s = array[support]
    # whole * s <= Gamma < 2**62 and rest * s < m * m < 2**62: every product is exact.
    cost = (ilog2_array(t) >> np.uint64(16)).astype(np.int64) + whole * s + (rest * s) // m
    return int(support[np.lexsort((support, t, cost))[0]])


def _entry(word: int, score: int, m: int, Gamma: int, name: _Name) -> tuple[int, int, _Name]:
    """The key by which candidates are compared."""
    t = clock(word)
    return ilog2(t, 40) + Gamma * score // m, t, name


def race_named(key: bytes, scores: Mapping[bytes, int | None], m: int, Gamma: int) -> bytes | None:
    """The name that wins the flat race among canonical byte strings, ``None`` if the support is empty."""
    m, Gamma = check_race(m, Gamma)
    best: tuple[int, int, bytes] | None = None
    for name, score in scores.items():
        if score is None:
            continue
        entry = _entry(word_named(key, name), integer("a score", score, 0, m), m, Gamma, name)
        if best is None or entry < best:
            best = entry
    return None if best is None else best[2]


# The dyadic race: up to ``2**64`` candidates, never enumerated.
#
# The exponential clocks of all leaves of a binary tree are defined lazily through the minima of subtrees.  The least of
# ``2**k`` standard exponential clocks has rate ``2**k`` and sits at a uniform leaf independent of its value; by
# memorylessness the other half's minimum exceeds it by a fresh exponential of rate ``2**(k-1)``.  So one hash per node
# says which child inherits the minimum and how much later the other one is, and the leaves are independent standard
# exponentials.
#
# RaceScores are constant on blocks of leaves.  Keys grow with the clock inside a block, so the winner is the leaf-wise
# winner and does not depend on how a user cuts the domain into blocks.  Search is best first: a node's minimum and the
# least score over its range bound every leaf below from below.


_ROOT = 255


class RaceWinner(NamedTuple):
    """The winning leaf with its key, in the order in which keys are compared."""

    cost: int
    clock: int
    component: int
    leaf: int


# The tree of clocks


class Clocks:
    """The clocks of one component's ``2**bits`` leaves."""

    def __init__(self, key: bytes, component: int, bits: int) -> None:
        self.bits = bits
        self._key = derive(key, "component", component)

    def _words(self, level: int, prefix: int) -> tuple[int, int]:
        digest = hashlib.blake2b(bytes((level,)) + le64(prefix), digest_size=16, key=self._key).digest()
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")

    def root(self) -> int:
        return clock(self._words(_ROOT, 0)[0]) << (64 - self.bits)

    def children(self, level: int, prefix: int, minimum: int) -> tuple[int, int]:
        """The minima of the two children of a node."""
        w, v = self._words(level, prefix)
        later = minimum + (clock(v) << (64 - self.bits + level + 1))
        return (later, minimum) if w & 1 else (minimum, later)

    def first(self, level: int, prefix: int) -> int:
        """The leaf below a node that attains its minimum."""
        for deeper in range(level, self.bits):
            prefix = 2 * prefix + (self._words(deeper, prefix)[0] & 1)
        return prefix


# RaceScores by component


@dataclass(frozen=True)
class Component:
    """RaceScores of one component's leaves: block ``i`` starts at leaf ``starts[i]`` and ends before the next one.

    ``INFINITE`` marks leaves outside the support.  The last block ends at leaf ``size - 1``; leaves from ``size`` on do
    not run.
    """

    number: int
    size: int
    starts: Words | None
    scores: Ints

    @property
    def bits(self) -> int:
        return max(1, (self.size - 1).bit_length())

    # Minima over aligned runs of 2**j leaves (one leaf per score), or over 2**j consecutive blocks.
    @cached_property
    def _minima(self) -> list[Ints]:
        rows = [self.scores]
        if self.starts is None:
            while len(rows[-1]) > 1:
                row = rows[-1]
                if len(row) % 2:
                    row = np.append(row, INFINITE)
                rows.append(np.minimum(row[0::2], row[1::2]))
            return rows
        while 2 ** len(rows) <= len(self.scores):
            row, step = rows[-1], 2 ** (len(rows) - 1)
            rows.append(np.minimum(row[:-step], row[step:]))
        return rows

    def least(self, level: int, prefix: int) -> tuple[int, bool]:
        """The least score over a node's range, and whether the range lies inside one block."""
        height = self.bits - level
        if self.starts is None:
            row = self._minima[height] if height < len(self._minima) else self._minima[-1]
            return (int(row[prefix]) if prefix < len(row) else int(INFINITE)), height == 0
        low, high = prefix << height, min(((prefix + 1) << height) - 1, self.size - 1)
        if low >= self.size:
            return int(INFINITE), True
        i = int(np.searchsorted(self.starts, np.uint64(low), side="right")) - 1
        j = int(np.searchsorted(self.starts, np.uint64(high), side="right"))
        row = self._minima[(j - i).bit_length() - 1]
        step = 1 << ((j - i).bit_length() - 1)
        # A node that reaches beyond the last leaf is not inside a block: its first clock may belong to a leaf that does
        # not run.
        return min(int(row[i]), int(row[j - step])), j - i == 1 and (prefix + 1) << height <= self.size


def leaf_component(scores: RaceScores, m: int, number: int = 0) -> Component:
    """One score per leaf."""
    array = score_array(scores, m)
    if not len(array):
        raise ParameterError("a race needs at least one candidate")
    return Component(number, len(array), None, array)


def block_component(starts: Words, scores: RaceScores, size: int, m: int, number: int = 0) -> Component:
    """Blocks of leaves with equal score; ``starts`` increases from 0, the last block ends at leaf ``size - 1``."""
    size = integer("size", size, 1, 1 << 64)
    begins = np.asarray(starts)
    array = score_array(scores, m)
    if begins.dtype != np.uint64 or begins.ndim != 1 or begins.shape != array.shape or not len(begins):
        raise ParameterError("starts must be unsigned 64-bit integers, one for every score")
    if begins[0] != 0 or np.any(begins[1:] <= begins[:-1]) or int(begins[-1]) >= size:
        raise ParameterError(f"starts must increase strictly from 0 to at most {size - 1}")
    return Component(integer("component", number, 0), size, begins, array)


# Races


def race_dyadic(key: bytes, components: Sequence[Component], m: int, Gamma: int) -> RaceWinner | None:
    """The winner over all components, by best-first search; ``None`` if the support is empty."""
    m, Gamma = check_race(m, Gamma)
    clocks = [Clocks(key, part.number, part.bits) for part in components]
    heap: list[tuple[int, int, int, int, int, bool]] = []

    def push(part: int, level: int, prefix: int, minimum: int) -> None:
        least, flat = components[part].least(level, prefix)
        if least != INFINITE:
            cost = ilog2(minimum, 40) + Gamma * least // m
            heapq.heappush(heap, (cost, minimum, part, level, prefix, flat))

    for part, tree in enumerate(clocks):
        push(part, 0, 0, tree.root())
    best: RaceWinner | None = None
    while heap:
        cost, minimum, part, level, prefix, flat = heapq.heappop(heap)
        # Every leaf still below the heap has at least this (cost, clock); equal ones are looked at, for the tie by
        # leaf.
        if best is not None and (cost, minimum) > best[:2]:
            break
        tree = clocks[part]
        if flat:
            # Inside a block every other leaf has a later clock and at least the same cost.
            found = RaceWinner(cost, minimum, components[part].number, tree.first(level, prefix))
            best = found if best is None else min(best, found)
            continue
        for side, below in enumerate(tree.children(level, prefix, minimum)):
            push(part, level + 1, 2 * prefix + side, below)
    return best


def race_scores(key: bytes, scores: RaceScores, m: int, Gamma: int) -> RaceWinner | None:
    """The dyadic race of an indexed class, one score per index."""
    m, Gamma = check_race(m, Gamma)
    return race_dyadic(key, [leaf_component(scores, m)], m, Gamma)
