"""Linear separators: fit exactly and round few numbers, or ask statistical queries with a proof.

**In practice** (:class:`RoundedSeparator`).  Each user makes one damped Newton step per stage of the squared-hinge
support vector machine in exact integers, and only the coefficients are rounded with shared offsets.  Stage 0 uses all
records; later stages use those with margin below 1 under the *agreed* vector of the stage before, and average the
solution with it (without the half step a stage without active records would forget everything).

*Agreement.*  Only roundings can disagree (ideal-run argument); for columns with values 0 and 1 they do with probability
at most ``sum over stages of I sqrt(D) (sqrt D + D/sqrt(lambda)) / (lambda sqrt(m))``.  *Accuracy*: no promise; measured
to be good.

**With a proof, and no margin** (:class:`SQEllipsoid`).  An ellipsoid contains a ball of true separators.  Ask only for
*directions* ``u = sgn L^T x'/|L^T x'|`` of the records the centre gets wrong: a true separator ``c + L z`` has ``z.u >=
0`` for each of them, at whatever scale, so the tolerance need not follow the margin.  If the mean direction is visible
it is a cut through the centre; if it vanishes, ``z`` is almost orthogonal to all of them, and one column of their
second moments is the normal of a thin slab.

*Theorem.*  If the labels are those of a linear separator and every answer is within ``1/I`` of the truth, the certified
parameters return a rule of error at most ``alpha`` within ``T = O(D^3 log D)`` steps and ``T(3D+1)`` queries.  The
certified number of records is polynomial but far beyond use; few steps and small grids are practical, and
``RoundedSeparator`` agrees more often.  Labels no separator explains: no promise, but the item is still well defined.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, isqrt
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import Ints, Ratio, integer, ln_up, proper, rational
from privpac.device.items import ItemUniverse, LinearRule, Marks, Padded, Ranges, Records
from privpac.device.statistical_queries import QueryLearner, RoundedAnswers, sqrt_up
from privpac.errors import ParameterError

_BYTES = 8


class _Separators:
    """What learners of separators share: ``d`` integer columns and a constant, the item one number for each."""

    d: int
    bound: int | None

    @property
    @abstractmethod
    def _bytes(self) -> int:
        """Bytes of a number."""

    @property
    def columns(self) -> Ranges:
        return ((0, 1) if self.bound is None else (-self.bound, self.bound),) * self.d

    @property
    def universe(self) -> ItemUniverse:
        return Padded(self._bytes * (self.d + 1))

    def encode(self, weights: Sequence[int]) -> bytes:
        """Numbers out of range stay at its end."""
        most = (1 << (8 * self._bytes - 1)) - 1
        return b"".join(max(-most, min(most, w)).to_bytes(self._bytes, "little", signed=True) for w in weights)

    def decode(self, item: bytes) -> LinearRule | None:
        if len(item) != self._bytes * (self.d + 1):
            return None
        pieces = [item[i : i + self._bytes] for i in range(0, len(item), self._bytes)]
        return LinearRule(tuple(int.from_bytes(piece, "little", signed=True) for piece in pieces))


@dataclass(frozen=True)
class RoundedSeparator(_Separators, QueryLearner):
    """``l.(x, 1) > 0`` for ``d`` integer columns (``bound=None``: values 0 and 1), the item ``l`` as 64-bit integers.

    ``ridge`` is lambda, ``grid`` the number of steps per unit of weight; 4 and two stages are a start.
    """

    d: int
    ridge: Fraction = Fraction(1, 50)
    stages: int = 2
    bound: int | None = None

    label: ClassVar[str] = "svm"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("d", self.d, 1, 127)
        integer("stages", self.stages, 1, 64)
        object.__setattr__(self, "ridge", rational("ridge", self.ridge))
        if self.ridge <= 0:
            raise ParameterError(f"ridge must be positive, got {self.ridge}")
        if self.bound is not None:
            integer("bound", self.bound, 1, 1 << 30)

    @property
    def queries(self) -> int:
        """Roundings in all: of coefficients, not of means, so ``plan`` has a bound of its own."""
        return self.stages * (self.d + 1)

    def plan(self, beta: Ratio) -> int:
        """Records for agreement at ``1 - beta/30`` by the (loose) bound above; for columns with values 0 and 1 only."""
        if self.bound is not None:
            raise ParameterError("the agreement bound is proved for columns with values 0 and 1; simulate instead")
        failure, D, lam = proper("beta", beta), self.d + 1, self.ridge
        # (I sqrt D (sqrt D + D / sqrt lam) / lam)^2 <= 2 I^2 D (D + D^2/lam) / lam^2, stages add before the square.
        square = (30 * self.stages * self.grid / failure) ** 2 * 2 * D * (D + D * D / lam) / lam**2
        return -(-square.numerator // square.denominator)

    @property
    def _bytes(self) -> int:
        return _BYTES

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        return self.encode(self.trail(records, answers)[-1])

    def trail(self, records: Records, answers: RoundedAnswers) -> list[list[int]]:
        """The agreed vector of every stage."""
        weights = answers.weights
        rows = np.concatenate([records.x.astype(np.int64), np.ones((len(records), 1), dtype=np.int64)], axis=1)
        signed = rows * (2 * records.y - 1)[:, None]
        active = np.ones(len(rows), dtype=np.bool_)
        agreed: list[int] | None = None
        out = []
        for _ in range(self.stages):
            if agreed is not None:
                active = np.asarray(signed.astype(object) @ np.array(agreed, dtype=object) < self.grid, dtype=np.bool_)
            top, bottom = self._newton(rows[active], signed[active], weights[active], answers.records)
            if agreed is None:
                agreed = [answers.round(self.grid * n, bottom) for n in top]
            else:
                agreed = [answers.round(self.grid * n + old * bottom, 2 * bottom) for n, old in zip(top, agreed)]
            out.append(agreed)
        return out

    def _newton(self, rows: Ints, signed: Ints, weights: Ints, total: int) -> tuple[list[int], int]:
        """``w`` of the ridge problem on the active records, as integers over a common positive denominator."""
        kind = np.int64 if (self.bound or 1) ** 2 * total < 1 << 62 else object
        weighted = rows.astype(kind) * weights.astype(kind)[:, None]
        gram = (rows.astype(kind).T @ weighted).tolist()
        target = (signed.astype(kind).T @ weights.astype(kind)).tolist()
        num, den = self.ridge.numerator, self.ridge.denominator
        matrix = [[den * entry for entry in row] for row in gram]
        for i, row in enumerate(matrix):
            row[i] += num * total
        return fraction_free_solve(matrix, [den * entry for entry in target])


def fraction_free_solve(matrix: list[list[int]], target: list[int]) -> tuple[list[int], int]:
    """``(N, det)`` with ``matrix @ N = det * target``, for a positive definite integer matrix (Bareiss elimination,
    both ways).

    >>> fraction_free_solve([[2, 1], [1, 3]], [3, 5])
    ([4, 7], 5)
    """
    size = len(matrix)
    rows = [[*row, right] for row, right in zip(matrix, target)]
    before = 1
    for k in range(size):
        pivot = rows[k][k]
        # Leading minors of a positive definite matrix are positive, so no pivot is 0; the divisions are exact.
        for i in range(size):
            if i != k:
                factor = rows[i][k]
                rows[i] = [(pivot * a - factor * b) // before for a, b in zip(rows[i], rows[k])]
        before = pivot
    return [row[-1] for row in rows], before


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

    def wrong(self, signed: Big) -> Marks:
        """Which records (rows times their sign) the centre does not classify."""
        return np.asarray(signed @ np.array(self.centre, dtype=object) <= 0, dtype=np.bool_)

    def directions(self, rows: Big, signs: Ints) -> Big:
        """``sgn * floor(2**30 a / n)`` for ``a = L^T x``, ``n = isqrt(|a|^2) + 1``."""
        inner = rows @ np.array(self.shape, dtype=object)
        lengths = np.array([isqrt(total) + 1 for total in (inner * inner).sum(axis=1).tolist()], dtype=object)
        return np.asarray((inner * (1 << UNIT)) // lengths[:, None] * signs.astype(object)[:, None], dtype=object)


MAX_GRID = 1 << 27
MAX_SEPARATOR_DIMENSION = 128
MAX_BOUND = 1 << 30


class EllipsoidPlan(NamedTuple):
    """Certified parameters: ``I``, cut-off of the squared mean direction, stop index, first radius, steps, queries."""

    grid: int
    theta2: int
    stop: int
    radius: int
    steps: int
    queries: int


def plan_ellipsoid(dimension: int, alpha: Ratio, bound: int | None = None) -> EllipsoidPlan:
    """Certified parameters in dimension ``D`` (columns and a constant), for values 0 and 1 or integers up to ``bound``.

    >>> plan_ellipsoid(2, "1/5")
    EllipsoidPlan(grid=4243, theta2=451, stop=636, radius=4, steps=52, queries=364)
    """
    if dimension == 1:
        raise ParameterError("a separator needs at least one column (D >= 2); use a race for a constant rule")
    D, error = integer("D", dimension, 2, MAX_SEPARATOR_DIMENSION), proper("alpha", alpha)
    root = sqrt_up(Fraction(D), 1 << 16)
    grid = ceil(50 * D * D * (D + 1) * root / error)
    if grid > MAX_GRID:
        raise ParameterError(
            f"the grid I = {grid} exceeds 2**27, the limit of the rounding argument; lower D or raise alpha"
        )
    theta = error / (10 * D * D)
    X = 1 if bound is None else integer("bound", bound, 1, MAX_BOUND)
    radius = isqrt(D * D * (X * X * D) ** (D - 1) - 1) + 2
    steps = ceil(5 * D * (D + 1) * (ln_up(radius) + ln_up(X * X * D) / 2))
    return EllipsoidPlan(grid, ceil((theta * grid) ** 2), int(3 * error * grid / 4), radius, steps, steps * (3 * D + 1))


class EllipsoidRun(NamedTuple):
    """The centre at the end, the number of moves, and why it ended: "done", "stuck" or "budget"."""

    centre: list[int]
    steps: int
    status: str


@dataclass(frozen=True)
class SQEllipsoid(_Separators, QueryLearner):
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
        integer("d", self.d, 1, MAX_SEPARATOR_DIMENSION - 1)
        integer("grid", self.grid, 1, MAX_GRID)
        for name, low in (("theta2", 1), ("stop", 0), ("radius", 1), ("steps", 1)):
            integer(name, getattr(self, name), low)
        if self.bound is not None:
            integer("bound", self.bound, 1, MAX_BOUND)

    @classmethod
    def certified(cls, d: int, alpha: Ratio, bound: int | None = None) -> Self:
        plan = plan_ellipsoid(integer("d", d, 0) + 1, alpha, bound)
        return cls(d, plan.theta2, plan.stop, plan.radius, plan.steps, bound, grid=plan.grid)

    @property
    def queries(self) -> int:
        return self.steps * (3 * self.d + 4)

    @cached_property
    def _bytes(self) -> int:
        """Bytes of a coordinate: ``ceil((70 + 6 log2(R sqrt D))/8)``."""
        return -(-(70 + ((self.radius**2 * (self.d + 1)) ** 3 - 1).bit_length()) // 8)

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        # The theorem keeps the centre within range; labels no separator explains may push it out.
        return self.encode(self.run(records, answers).centre)

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
