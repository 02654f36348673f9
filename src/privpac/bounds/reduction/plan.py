"""Public constants for the realizable-to-agnostic transformation, from public numbers.

Relabelling adds the noise ``L/(b w) + 2 L/(a t)``, ``L = ln(labellings of t points / failure)``, to the error; what is
promised about the error has more terms (``bounds.reduction_utility``).  Every share q of T and every cost ``a`` of two
**fixed** grids is a candidate; ``b`` follows in closed form (``bounds.reduction``) and does not depend on the number of
units.  So the candidates of one privacy of the inner algorithm are the same for every number of units, those of a
larger epsilon have a larger ``b`` each, and the least value of any objective that falls with t, w, a and b never rises
with units or epsilon.

The law needs integers ``A``, ``B`` and a dyadic rate ``eta``: the guarantee that is stored is recomputed from exactly
these, never the one that was aimed at, and they stay within a share ``ROUNDED`` of the costs that were aimed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.reduction.privacy import outer
from privpac.errors import InfeasibleError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.least import last_between, least_between

__all__ = ["MAX_COST", "ROUNDED", "ReductionTask", "ReductionPlan", "integer_costs", "plan_reduction"]

MAX_COST = 1 << 26
"""``A`` and ``B * levels`` stay at most this, so that scores stay below 2**62 for fewer than 2**36 units."""

ROUNDED = 1e-5
"""Costs are judged this share smaller than aimed at, which integers and a rate reach."""

_ETA_BITS = 53
_MAX_UNITS = 1 << 36
INNER_EPSILONS: tuple[Rational, ...] = ("1/4", "1/2", 1, 2)

LeastSplit = Callable[[Fraction], int]
LogGrowth = Callable[[int], float]
Floats = NDArray[np.float64]
Objective = Callable[[NDArray[np.int64], NDArray[np.int64], Floats, Floats], Floats]
"""``(t, w, a, b) -> value``: t and w one per row, a one per column, b and the values a matrix; never rises with any of
them."""

SHARES: Floats = 2.0 ** (-np.arange(1, 36 * 12 + 1) / 12)
COSTS: Floats = 2.0 ** (np.arange(-30 * 8, 10 * 8 + 1) / 8)


@dataclass(frozen=True)
class ReductionPlan:
    """Constants of a transformation and the promise recomputed from them.

    ``a = eta * A`` is the cost of a disagreement on T, ``b = eta * B * levels`` that of one unit's mistakes on W.
    """

    n_users: int
    split_size: int
    A: int
    B: int
    levels: int
    eta: Fraction
    eps_A: Fraction
    delta_A: Fraction
    labellings: int
    neighbours: Neighbours
    epsilon: Fraction
    delta: Fraction
    noise: float

    @property
    def split_rate(self) -> Fraction:
        return Fraction(self.split_size, self.n_users)

    @property
    def a(self) -> Fraction:
        return self.eta * self.A

    @property
    def b(self) -> Fraction:
        return self.eta * self.B * self.levels


def plan_reduction(
    *,
    n_users: int,
    epsilon: Rational,
    log_growth: LogGrowth,
    delta: Rational = 0,
    failure: Rational = "1/100",
    inner_epsilons: Sequence[Rational] = INNER_EPSILONS,
    inner_delta: Rational = 0,
    least_split: LeastSplit | int = 1,
    most_split: int | None = None,
    labellings: int = 2,
    levels: int = 1,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    objective: Callable[[Fraction], Objective] | None = None,
) -> ReductionPlan:
    """The constants of least noise, or of the least ``objective(eps_A)``, for ``n_users``.

    The number is public: declared, or that of the units itself under replace.

    ``log_growth(t)``: logarithm of the number of labellings of t points.  ``least_split(eps_A)``: how many units the
    inner algorithm needs; ``most_split``: how many it may get.  ``labellings``: ``G``.  ``levels``: a unit's loss on W
    lies in ``0..levels``. ``InfeasibleError`` says which number of users would do, and which epsilon.

    >>> plan = plan_reduction(n_users=10000, epsilon=1, log_growth=lambda t: math.log(t + 1), inner_epsilons=["1/2"],
    ...     neighbours="replace")
    >>> round(plan.noise, 3), plan.epsilon <= 1
    (0.072, True)
    """
    task = ReductionTask.read(epsilon, delta, failure, inner_delta, labellings, levels, neighbours, log_growth)
    n = positive_int(n_users, "n_users", minimum=2, maximum=_MAX_UNITS)
    most = None if most_split is None else positive_int(most_split, "most_split")
    needs = [
        (e, _least(least_split, e))
        for e in (rational(e, "inner_epsilons", minimum=0, maximum=1000) for e in inner_epsilons)
    ]
    best: tuple[float, Fraction, int, float, float] | None = None
    for eps_a, t_min in needs:
        found = task.best(n, eps_a, task.noise if objective is None else objective(eps_a), t_min, most)
        if found is not None and (best is None or found[0] < best[0]):
            best = (found[0], eps_a, *found[1:])
    if best is None:
        raise _infeasible(n, needs, task)
    return task.settle(n, *best[1:])


def integer_costs(
    a: float, b: float, A: int, B: int, levels: int, affordable: Callable[[Fraction, Fraction], bool]
) -> Fraction:
    """The largest dyadic ``eta`` of at most 53 bits with ``affordable(eta A, eta B levels)``."""
    guess = max(a / A, b / (B * levels))
    exponent = math.frexp(guess)[1] + 1 - _ETA_BITS
    unit = Fraction(2) ** exponent
    steps = last_between(lambda k: affordable(k * unit * A, k * unit * B * levels), 0, 1 << _ETA_BITS)
    if steps == 0:
        raise InfeasibleError(
            "no positive rate is affordable with these public numbers; ask for a larger epsilon or declare more users"
        )
    return steps * unit


# Searching


@dataclass(frozen=True, eq=False)
class ReductionTask:
    """What is affordable with a target ``(epsilon, delta)``: for every share and every cost ``a`` the largest ``b``."""

    target: Fraction
    leak: Fraction
    failure: float
    inner_leak: Fraction
    g: int
    levels: int
    neighbours: Neighbours
    log_growth: LogGrowth

    @classmethod
    def read(
        cls,
        epsilon: Rational,
        delta: Rational,
        failure: Rational,
        inner_delta: Rational,
        labellings: int,
        levels: int,
        neighbours: Neighbours | str,
        log_growth: LogGrowth,
    ) -> ReductionTask:
        return cls(
            rational(epsilon, "epsilon", above=0, maximum=1000),
            rational(delta, "delta", minimum=0, below=1),
            float(rational(failure, "failure", minimum="1e-100", below=1)),
            rational(inner_delta, "inner_delta", minimum=0, below=1),
            positive_int(labellings, "labellings", maximum=1 << 62),
            positive_int(levels, "levels", maximum=MAX_COST),
            one_of(Neighbours, neighbours, "neighbours"),
            log_growth,
        )

    @property
    def replace(self) -> bool:
        return self.neighbours is Neighbours.REPLACE

    def b(self, q: Floats, eps_a: Fraction) -> Floats:
        """The closed form of ``solve_b`` in doubles, a row for every share; not positive where nothing is left."""
        e, spent, x = float(self.target), float(eps_a), COSTS
        share = q[:, None]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self.replace:
                log_k = 2 * math.log(self.g) + 2 * x + spent
                # rest = 1 - q + q (K - E), divided by E so that large budgets do not overflow
                rest = share * np.expm1(log_k - e) + (1 - share) * np.exp(-e)
                found = np.where(log_k <= e, e / 2, (np.log1p(-share) - np.log(rest)) / 2)
            else:
                found = e + np.log1p(-share * self.g * np.exp(x + spent - e)) - np.log1p(-share)
                if self.inner_leak:
                    # Within K' the inner delta is paid times the share and no more (Theorem B).
                    found = np.minimum(found, x + spent + math.log(self.g))
        return np.where(np.isfinite(found), found, 0.0) * (1 - 1e-9)

    @cached_property
    def _tables(self) -> dict[Fraction, Floats]:
        return {}

    def rows(
        self, n: int, eps_a: Fraction, least: int = 1, most: int | None = None
    ) -> tuple[NDArray[np.int64], Floats]:
        """Sizes of T to try for ``n`` units, and for each the affordable ``b`` of every cost."""
        if eps_a not in self._tables:
            self._tables[eps_a] = self.b(SHARES, eps_a)
        last = n - 1 if self.inner_leak == 0 else min(n - 1, int(self.leak * n / self.inner_leak))
        last = last if most is None else min(last, most)
        # T of floor(q n) units has a share of at most q; the ends of the range are tried as well.
        sizes = np.floor(SHARES * n).astype(np.int64)
        held = (sizes >= least) & (sizes <= last)
        ends = np.array(sorted({least, last}) if least <= last else [], dtype=np.int64)
        return np.concatenate([sizes[held], ends]), np.concatenate([self._tables[eps_a][held], self.b(ends / n, eps_a)])

    def best(
        self, n: int, eps_a: Fraction, objective: Objective, least: int = 1, most: int | None = None
    ) -> tuple[float, int, float, float] | None:
        """``(value, t, a, b)`` of the least objective; ``None`` where nothing is affordable.  Where so few units are
        promised nothing: infinity, with the constants of the least noise."""
        t, b = self.rows(n, eps_a, least, most)
        b = b * (1 - ROUNDED)
        if not bool((b > 0).any()):
            return None
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            value = np.where(b > 0, objective(t, n - t, COSTS * (1 - ROUNDED), b), math.inf)
            promised = bool(np.isfinite(value).any())
            if not promised:
                value = np.where(b > 0, self.noise(t, n - t, COSTS * (1 - ROUNDED), b), math.inf)
        i, j = np.unravel_index(int(np.nanargmin(value)), value.shape)
        found = float(value[i, j]) if promised else math.inf
        return found, int(t[i]), float(COSTS[j]), float(b[i, j]) / (1 - ROUNDED)

    def noise(self, t: NDArray[np.int64], w: NDArray[np.int64], a: Floats, b: Floats) -> Floats:
        """``L/(b w) + 2 L/(a t)``."""
        size = np.array([self.log_growth(int(k)) for k in t])[:, None] - math.log(self.failure)
        return np.asarray(size / (b * w[:, None]) + 2 * size / (a * t[:, None]))

    def settle(self, n: int, eps_a: Fraction, t: int, a: float, b: float) -> ReductionPlan:
        """The plan with integer costs close to ``a`` and ``b``, and the promise that they keep."""
        A, B = _ratio(a, b, self.levels)
        share = Fraction(t, n)

        def spend(x: Fraction, y: Fraction) -> tuple[Fraction, Fraction]:
            return outer(self.neighbours, share, x, y, eps_a, self.inner_leak, self.g)

        # Both parts of the promise grow with the rate, delta only where e**b is above K'.
        eta = integer_costs(
            a, b, A, B, self.levels, lambda x, y: spend(x, y)[0] <= self.target and spend(x, y)[1] <= self.leak
        )
        spent, lost = spend(eta * A, eta * B * self.levels)
        found = self.noise(
            np.array([t]), np.array([n - t]), np.array([float(eta * A)]), np.array([[float(eta * B * self.levels)]])
        )
        shape = (eps_a, self.inner_leak, self.g, self.neighbours)
        return ReductionPlan(n, t, A, B, self.levels, eta, *shape, spent, lost, float(found[0, 0]))

    def least_epsilon(self, q: float, eps_a: float) -> float:
        """The infimum of the epsilons that leave anything for b."""
        return math.log1p(q * (self.g ** (2 if self.replace else 1) * math.exp(eps_a) - 1))


def _least(least_split: LeastSplit | int, eps_a: Fraction) -> int:
    return positive_int(least_split(eps_a) if callable(least_split) else least_split, "least_split")


def _ratio(a: float, b: float, levels: int) -> tuple[int, int]:
    """``A : B levels`` as close to ``a : b`` as integers within the limits come."""
    ratio = min(max(a * levels / b, 1 / MAX_COST), float(MAX_COST))
    B = max(1, min(MAX_COST // levels, math.floor(MAX_COST / ratio)))
    return max(1, min(MAX_COST, round(B * ratio))), B


def _infeasible(n: int, needs: list[tuple[Fraction, int]], task: ReductionTask) -> InfeasibleError:
    target, leak, inner_leak = task.target, task.leak, task.inner_leak
    if inner_leak and not leak:
        return InfeasibleError(f"the inner algorithm spends delta = {float(inner_leak):.3g}: allow delta above 0")

    def works(units: int) -> bool:
        delta_fits = [t for _, t in needs if inner_leak == 0 or inner_leak * t <= leak * units]
        return any(
            t < units
            and (inner_leak == 0 or t in delta_fits)
            and task.least_epsilon(t / units, float(e)) < float(target) * (1 - 1e-9)
            for e, t in needs
        )

    low, high = 1, 2
    while not works(high) and high < _MAX_UNITS:
        low, high = high, 2 * high
    high = least_between(works, low, high)
    smallest = min((task.least_epsilon(t / n, float(e)) for e, t in needs if t < n), default=math.inf)
    epsilon = f"; with {n} users epsilon must be above {smallest:.4g}" if smallest < math.inf else ""
    return InfeasibleError(
        f"epsilon = {float(target):.4g} is out of reach with {n} users for this inner algorithm: at least {high} users "
        f"are needed{epsilon}"
    )
