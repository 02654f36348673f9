"""Laws with explicit probabilities: weights constant on blocks of integers, or on single atoms.

Closed under mixture, push-forward and adaptive composition; all of these work on the common refinement of the blocks,
so 2**64 cuts beside the atom ``BOTTOM`` stay few.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb

from privpac.errors import LawError, ParameterError, TooLargeError, Undecided
from privpac.exact import MAX_PRECISION, ExpSum, Rational, precision, rational
from privpac.law.base import Cell, Law
from privpac.law.levels import invert
from privpac.law.numbers import Denominator, Enclosed, Number, Quotient, read_weight, sign_of_sum, sum_of
from privpac.rng import Rng, secret_rng

__all__ = ["FiniteLaw", "mixed_law", "present", "size_of", "weighted_law"]

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
