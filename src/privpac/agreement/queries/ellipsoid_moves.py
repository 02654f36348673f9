"""Ellipsoids ``{c + L z : |z| <= 1}`` in integers: cuts through the centre and thin slabs.

Units: ``c`` and ``L`` in ``2**-64``, unit vectors in ``2**-30``; every floor rounds towards minus infinity.  The
constants are those of the least ellipsoid that contains the half ball ``z.g >= -kappa``, ``kappa = 1/(4(D+1))`` (cut),
or the slab ``|z.g| <= 1/(2 sqrt D)``, enlarged by ``up = 1 + 2**-20``, which absorbs all rounding.  Each move lowers
the logarithm of the volume by at least ``1/(5(D+1))``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.queries.rounding import sqrt_up

__all__ = ["UNIT", "Constants", "Ellipsoid", "constants", "normalise"]

FINE = 64
UNIT = 30

Big = NDArray[np.object_]


@dataclass(frozen=True)
class Constants:
    """Stretch along and across the direction of a cut and of a slab, and the shift of the centre as a fraction."""

    cut_a: int
    cut_b: int
    slab_a: int
    slab_b: int
    shift: tuple[int, int]


def constants(D: int) -> Constants:
    """The constants in dimension ``D >= 2``.

    >>> constants(2).shift
    (10, 36)
    """
    up, one = Fraction((1 << 20) + 1, 1 << 20), 1 << UNIT
    kappa = Fraction(1, 4 * (D + 1))
    across = sqrt_up(Fraction(D * D, D * D - 1) * (1 - kappa**2), one) * one
    slab = sqrt_up(Fraction(4 * D - 1, 4 * (D - 1)), one) * one
    return Constants(
        ceil(up * one * Fraction(D * (4 * D + 5), 4 * (D + 1) ** 2)),
        ceil(up * across),
        ceil(up * (one >> 1)),
        ceil(up * slab),
        (3 * D + 4, 4 * (D + 1) ** 2),
    )


def normalise(direction: Sequence[int]) -> list[int]:
    """A vector of integers scaled to length ``2**30``."""
    length = isqrt(sum(a * a for a in direction) << 60)
    return [(a << 60) // length for a in direction]


class Ellipsoid:
    """Centre and shape; ``shape[i][j]`` is the i-th coordinate of the j-th axis."""

    def __init__(self, dimension: int, radius: int) -> None:
        self.constants = constants(dimension)
        self.centre = [0] * dimension
        self.shape = [[(radius << FINE) if i == j else 0 for j in range(dimension)] for i in range(dimension)]

    def cut(self, direction: Sequence[int]) -> None:
        """Keep the half with ``z . direction >= 0``, and a little more."""
        along = self._stretch(normalise(direction), self.constants.cut_a, self.constants.cut_b)
        top, bottom = self.constants.shift
        # The shift is taken along the old axes.
        self.centre = [c + p * top // (bottom << UNIT) for c, p in zip(self.centre, along)]

    def slab(self, direction: Sequence[int]) -> None:
        """Keep the thin layer where ``z . direction`` is nearly 0."""
        self._stretch(normalise(direction), self.constants.slab_a, self.constants.slab_b)

    def _stretch(self, g: list[int], a: int, b: int) -> list[int]:
        along = [sum(entry * part for entry, part in zip(row, g)) for row in self.shape]
        self.shape = [
            [(b * (entry << 60) + (a - b) * p * part) >> 90 for entry, part in zip(row, g)]
            for row, p in zip(self.shape, along)
        ]
        return along

    def wrong(self, signed: Big) -> NDArray[np.bool_]:
        """Which records (rows times their sign) the centre does not classify."""
        return np.asarray(signed @ np.array(self.centre, dtype=object) <= 0, dtype=np.bool_)

    def directions(self, rows: Big, signs: NDArray[Any]) -> Big:
        """``sgn * floor(2**30 a / n)`` for ``a = L^T x``, ``n = isqrt(|a|^2) + 1``."""
        inner = rows @ np.array(self.shape, dtype=object)
        lengths = np.array([isqrt(total) + 1 for total in (inner * inner).sum(axis=1).tolist()], dtype=object)
        return np.asarray((inner * (1 << UNIT)) // lengths[:, None] * signs.astype(object)[:, None], dtype=object)
