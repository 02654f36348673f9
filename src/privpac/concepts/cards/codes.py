"""The public codes of a points card's columns: how the bin of a value becomes a few integers.

All units are ``1/U`` with ``U = 4096``.

* A column of numbers with ``B`` bins has at most three smooth waves: bin ``b`` at ``x = (b + 1/2)/B`` has the
  coordinates ``-U cos(pi k x)/k``, ``k = 1..min(3, B - 1)``, to the nearest integer; two bins have one coordinate,
  ``-U`` and ``+U``.  Three waves cost the noise of three coordinates however fine the cuts are.  A missing value has 0
  in these and ``U`` in a last coordinate of its own.
* A category has ``U`` at its code and 0 elsewhere; missing is one more code.

The norm of a column's code is below ``7 U/6``: the coordinates are at most ``U``, ``U/2`` and ``U/3`` rounded, 4096,
2048 and 1365, and ``1 + 1/4 + 1/9 = 49/36``.

*Rounding.*  Values are rounded from balls.  A rational cosine of a rational angle is 0, 1/2 or 1 in size (Niven), and
none of these leaves a half after the division by ``k``, so more bits always decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

from privpac.errors import ParameterError, TooLargeError, Undecided
from privpac.exact import MAX_PRECISION, precision

__all__ = [
    "LANES",
    "MAX_COORDINATES",
    "U",
    "CodeTable",
    "CodeShape",
    "code_rows",
    "code_table",
    "nearest",
    "sigmoid_table",
]

U = 4096
"""The unit of codes, centres, residuals and gradients."""

LANES = 3
"""Neighbouring coordinates in which one code may differ from 0."""

MAX_COORDINATES = 1 << 18
"""With fewer coordinates every sum of the card stays within 64 bits."""

_SCORES_A_UNIT = 256


class CodeShape(NamedTuple):
    """What a code depends on: whether bins are ordered, how many there are, and whether a value may be missing."""

    ordered: bool
    bins: int
    missing: bool = False

    @property
    def codes(self) -> int:
        """The number of codes; a missing value is the last."""
        return self.bins + self.missing

    @property
    def waves(self) -> int:
        return min(LANES, self.bins - 1) if self.ordered else 0

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return self.waves + self.missing if self.ordered else self.codes


def nearest(compute: Callable[[], arb]) -> int:
    """The integer nearest to a real that is no half, from balls at growing precision."""
    bits = 64
    while bits <= MAX_PRECISION:
        with precision(bits):
            found = (compute() + arb(1) / 2).floor().unique_fmpz()
        if found is not None:
            return int(found)
        bits *= 2
    raise Undecided("a public table could not be rounded")


@lru_cache(maxsize=256)
def code_rows(shape: CodeShape) -> tuple[tuple[int, ...], ...]:
    """The coordinates of every code, a missing value last.

    >>> code_rows(CodeShape(True, 3, True))
    ((-3547, -1024, 0), (0, 2048, 0), (3547, -1024, 0), (0, 0, 4096))
    """
    if shape.bins < 1 or shape.codes < 2:
        raise ParameterError(f"a column of a card needs two codes or more, got {shape.codes}")
    if not shape.ordered:
        return tuple(tuple(U * (i == k) for k in range(shape.codes)) for i in range(shape.codes))
    rows = [[_wave(b, k, shape.bins) for k in range(1, shape.waves + 1)] for b in range(shape.bins)]
    if shape.bins == 2:
        rows = [[-U], [U]]
    if shape.missing:
        rows = [[*row, 0] for row in rows] + [[*([0] * shape.waves), U]]
    return tuple(map(tuple, rows))


def _wave(b: int, k: int, bins: int) -> int:
    return nearest(lambda: -U * (arb.pi() * k * (2 * b + 1) / (2 * bins)).cos() / k)


@lru_cache(maxsize=1)
def sigmoid_table() -> NDArray[np.int64]:
    """``U / (1 + e**(-k/256))`` to the nearest integer, for ``k = -4096..4096``; ``k = 0`` is in the middle."""

    def at(k: int) -> int:
        return nearest(lambda: U / (1 + (arb(-k) / _SCORES_A_UNIT).exp()))

    table = np.array([at(k) for k in range(-U, U + 1)], np.int64)
    table.setflags(write=False)
    return table


class CodeTable(NamedTuple):
    """The codes of all columns, one entry a (column, code) pair, ready for compiled loops.

    Entry ``e = base[j] + code`` differs from 0 in the coordinates ``first[e], first[e] + 1, first[e] + 2`` at most, by
    ``lanes[e]``.  Coordinate 0 is the intercept.
    """

    shapes: tuple[CodeShape, ...]
    base: NDArray[np.int64]
    first: NDArray[np.int64]
    lanes: NDArray[np.int64]
    place: NDArray[np.int64]
    """For each column the first coordinate of all its codes, -1 where codes differ in it."""
    coordinates: int
    """Without the intercept."""

    @property
    def columns(self) -> int:
        return len(self.shapes)

    def scores(self, weights: Sequence[int]) -> list[int]:
        """For every entry the sum of its coordinates times their weights, the intercept's weight being the first."""
        padded = [*weights, *([0] * LANES)]
        return [
            sum(int(z) * padded[at + i] for i, z in enumerate(row))
            for at, row in zip(self.first.tolist(), self.lanes.tolist())
        ]

    def split(self, entries: Sequence[int]) -> list[list[int]]:
        """Values of all entries, column by column."""
        starts = self.base.tolist()
        return [list(entries[at : at + shape.codes]) for at, shape in zip(starts, self.shapes)]


def code_table(shapes: Sequence[CodeShape]) -> CodeTable:
    """The codes of some columns, in order."""
    shapes = tuple(shapes)
    coordinates = sum(shape.width for shape in shapes)
    if coordinates >= MAX_COORDINATES:
        raise TooLargeError(
            f"a card of {coordinates} coordinates is too wide, fewer than {MAX_COORDINATES} are allowed; declare fewer "
            "categories or columns"
        )
    base: list[int] = []
    first: list[int] = []
    lanes: list[tuple[int, ...]] = []
    at = 1
    for shape in shapes:
        base.append(len(first))
        for code, row in enumerate(_sparse(shape)):
            place = code if not shape.ordered else shape.waves if code == shape.bins else 0
            first.append(at + place)
            lanes.append(row)
        at += shape.width
    return CodeTable(
        shapes,
        np.array(base, np.int64),
        np.array(first, np.int64),
        np.array(lanes, np.int64).reshape(-1, LANES),
        np.array([first[e] if shape.ordered and not shape.missing else -1 for e, shape in zip(base, shapes)], np.int64),
        coordinates,
    )


def _sparse(shape: CodeShape) -> list[tuple[int, ...]]:
    """The coordinates of every code from its first that may differ from 0 on, without listing one-hot rows whole."""
    alone = (U, *([0] * (LANES - 1)))
    if not shape.ordered:
        return [alone] * shape.codes
    whole = code_rows(shape)[: shape.bins]
    rows = [(*row[: shape.waves], *([0] * (LANES - shape.waves))) for row in whole]
    return [*rows, alone] if shape.missing else rows
