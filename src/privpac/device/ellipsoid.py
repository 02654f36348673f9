"""Linear separators without a margin, by statistical queries.

An ellipsoid contains a ball of true separators.  Ask only for *directions* ``u = sgn L^T x'/|L^T x'|`` of the records
the centre gets wrong: a true separator ``c + L z`` has ``z.u >= 0`` for each of them, at whatever scale, so the
tolerance need not follow the margin.  If the mean direction is visible it is a cut through the centre; if it vanishes,
``z`` is almost orthogonal to all of them, and one column of their second moments is the normal of a thin slab.

**Theorem.**  If the labels are those of a linear separator and every answer is within ``1/I`` of the truth, the
certified parameters return a rule of error at most ``alpha`` within ``T = O(D^3 log D)`` steps and ``T(3D+1)`` queries.
The certified number of records is polynomial but far beyond use; few steps and small grids are practical, and
``RoundedSeparator`` agrees more often.  Labels no separator explains: no promise, but the item is still well defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, isqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import integer, rational
from privpac.device.learner import ItemUniverse, Padded
from privpac.device.logarithms import ln_up
from privpac.device.records import Records
from privpac.device.rules import LinearRule
from privpac.device.statistical_queries import QueryLearner, RoundedAnswers, sqrt_up
from privpac.errors import ParameterError

__all__ = [
    "Constants",
    "Ellipsoid",
    "EllipsoidPlan",
    "EllipsoidRun",
    "SQEllipsoid",
    "UNIT",
    "constants",
    "normalise",
    "plan_ellipsoid",
]


# Ellipsoids ``{c + L z : |z| <= 1}`` in integers: cuts through the centre and thin slabs.
#
# Units: ``c`` and ``L`` in ``2**-64``, unit vectors in ``2**-30``; every floor rounds towards minus infinity.  The
# constants are those of the least ellipsoid that contains the half ball ``z.g >= -kappa``, ``kappa = 1/(4(D+1))``
# (cut), or the slab ``|z.g| <= 1/(2 sqrt D)``, enlarged by ``up = 1 + 2**-20``, which absorbs all rounding.  Each move
# lowers the logarithm of the volume by at least ``1/(5(D+1))``.


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


MAX_GRID = 1 << 27
MAX_DIMENSION = 128
MAX_BOUND = 1 << 30


class EllipsoidPlan(NamedTuple):
    """Certified parameters: ``I``, cut-off of the squared mean direction, stop index, first radius, steps, queries."""

    grid: int
    theta2: int
    stop: int
    radius: int
    steps: int
    queries: int


def plan_ellipsoid(dimension: int, alpha: Any, bound: int | None = None) -> EllipsoidPlan:
    """Certified parameters in dimension ``D`` (columns and a constant), for values 0 and 1 or integers up to ``bound``.

    >>> plan_ellipsoid(2, "1/5")
    EllipsoidPlan(grid=4243, theta2=451, stop=636, radius=4, steps=52, queries=364)
    """
    if dimension == 1:
        raise ParameterError("a separator needs at least one column (D >= 2); use a race for a constant rule")
    D, error = integer("D", dimension, 2, MAX_DIMENSION), rational("alpha", alpha)
    if not 0 < error < 1:
        raise ParameterError(f"alpha must be between 0 and 1, got {alpha}")
    root = sqrt_up(Fraction(D), 1 << 16)
    grid = ceil(50 * D * D * (D + 1) * root / error)
    if grid > MAX_GRID:
        raise ParameterError(
            f"the grid I = {grid} exceeds 2**27, the limit of the rounding argument; lower D or raise alpha"
        )
    theta = error / (10 * D * D)
    if bound is None:
        square = D ** (D + 1)
        spread = ln_up(D) / 2
    else:
        X = integer("bound", bound, 1, MAX_BOUND)
        square = D * D * (X * X * D) ** (D - 1)
        spread = ln_up(X * X * D) / 2
    radius = isqrt(square - 1) + 2
    steps = ceil(5 * D * (D + 1) * (ln_up(radius) + spread))
    return EllipsoidPlan(grid, ceil((theta * grid) ** 2), int(3 * error * grid / 4), radius, steps, steps * (3 * D + 1))


class EllipsoidRun(NamedTuple):
    """The centre at the end, the number of moves, and why it ended: "done", "stuck" or "budget"."""

    centre: list[int]
    steps: int
    status: str


@dataclass(frozen=True)
class SQEllipsoid(QueryLearner):
    """Separators of ``d`` integer columns and a constant, ``c.(x, 1) > 0``; ``bound=None`` means values 0 and 1."""

    d: int
    theta2: int
    stop: int
    radius: int
    steps: int
    bound: int | None = None

    label: ClassVar[str] = "ellipsoid"
    width: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("d", self.d, 1, MAX_DIMENSION - 1)
        integer("grid", self.grid, 1, MAX_GRID)
        integer("theta2", self.theta2, 1)
        integer("stop", self.stop, 0)
        integer("radius", self.radius, 1)
        integer("steps", self.steps, 1)
        if self.bound is not None:
            integer("bound", self.bound, 1, MAX_BOUND)

    @classmethod
    def certified(cls, d: int, alpha: Any, bound: int | None = None) -> Self:
        plan = plan_ellipsoid(integer("d", d, 0) + 1, alpha, bound)
        return cls(d, plan.theta2, plan.stop, plan.radius, plan.steps, bound, grid=plan.grid)

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, 1) if self.bound is None else (-self.bound, self.bound),) * self.d

    @property
    def queries(self) -> int:
        return self.steps * (3 * self.d + 4)

    @cached_property
    def _bytes(self) -> int:
        """Bytes of a coordinate: ``ceil((70 + 6 log2(R sqrt D))/8)``."""
        return -(-(70 + ((self.radius**2 * (self.d + 1)) ** 3 - 1).bit_length()) // 8)

    @property
    def universe(self) -> ItemUniverse:
        return Padded(self._bytes * (self.d + 1))

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        # The theorem keeps the centre within range; labels no separator explains may push it out, and it stays at the
        # end.
        most = (1 << (8 * self._bytes - 1)) - 1
        centre = (max(-most, min(most, c)) for c in self.run(records, answers).centre)
        return b"".join(c.to_bytes(self._bytes, "little", signed=True) for c in centre)

    def run(self, records: Records, answers: RoundedAnswers) -> EllipsoidRun:
        D, scale = self.d + 1, 1 << UNIT
        rows = np.concatenate([records.x.astype(object), np.ones((len(records), 1), dtype=object)], axis=1)
        signs = 2 * records.y - 1
        signed = rows * signs.astype(object)[:, None]
        body = Ellipsoid(D, self.radius)
        for step in range(self.steps):
            wrong = body.wrong(signed)
            if answers.ask(wrong.astype(np.int64) * scale, scale) <= self.stop:
                return EllipsoidRun(body.centre, step, "done")
            # Records the centre gets right count as 0 in every further query.
            u = body.directions(rows, signs) * wrong.astype(object)[:, None]
            mean = [answers.ask(u[:, j], scale) for j in range(D)]
            if sum(v * v for v in mean) >= self.theta2:
                body.cut(mean)
                continue
            second = [answers.ask((u[:, j] * u[:, j]) >> UNIT, scale) for j in range(D)]
            top = second.index(max(second))
            column = [second[top] if i == top else answers.ask((u[:, top] * u[:, i]) >> UNIT, scale) for i in range(D)]
            if not any(column):
                return EllipsoidRun(body.centre, step, "stuck")
            body.slab(column)
        return EllipsoidRun(body.centre, self.steps, "budget")

    def decode(self, item: bytes) -> LinearRule | None:
        if len(item) != self._bytes * (self.d + 1):
            return None
        pieces = [item[i : i + self._bytes] for i in range(0, len(item), self._bytes)]
        return LinearRule(tuple(int.from_bytes(piece, "little", signed=True) for piece in pieces))
