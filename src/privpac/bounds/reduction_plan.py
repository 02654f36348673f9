"""Public constants for the realizable-to-agnostic transformation, from public numbers.

Relabelling adds the noise ``L/(b w) + 2 L/(a t)``, ``L = ln(labellings of t points / failure)``, to the error (see
``bounds.reduction_utility``).  For every share t of a geometric grid and every privacy of the inner algorithm, ``b`` follows from ``a`` in
closed form (``bounds.reduction``) and ``a`` is found by golden section.  The law then needs integers ``A``, ``B`` and a dyadic rate
``eta``: the guarantee that is stored is recomputed from exactly these, never the one that was aimed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from privpac.bounds.reduction import outer
from privpac.errors import InfeasibleError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int

__all__ = ["MAX_COST", "ReductionPlan", "integer_costs", "plan_reduction"]

MAX_COST = 1 << 26
"""``A`` and ``B * levels`` stay at most this, so that scores stay below 2**62 for fewer than 2**36 units."""

_RATIO = 1 << 16
_GRID = 1.04
_GOLDEN = (math.sqrt(5) - 1) / 2
_ETA_BITS = 53
_MAX_UNITS = 1 << 36
INNER_EPSILONS: tuple[Rational, ...] = ("1/4", "1/2", 1, 2)

LeastSplit = Callable[[Fraction], int]
LogGrowth = Callable[[int], float]


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
) -> ReductionPlan:
    """The constants of least noise for ``n_users`` (public: declared, or the number itself under replace).

    ``log_growth(t)``: logarithm of the number of labellings of t points.  ``least_split(eps_A)``: how many units the inner algorithm
    needs; ``most_split``: how many it may get.  ``labellings``: ``G``.  ``levels``: a unit's loss on W lies in ``0..levels``.
    ``InfeasibleError`` says which number of users would do, and which epsilon.

    >>> plan = plan_reduction(n_users=10000, epsilon=1, log_growth=lambda t: math.log(t + 1), inner_epsilons=["1/2"], neighbours="replace")
    >>> round(plan.noise, 3), plan.epsilon <= 1
    (0.072, True)
    """
    n = positive_int(n_users, "n_users", minimum=2, maximum=_MAX_UNITS)
    relation = one_of(Neighbours, neighbours, "neighbours")
    target, leak = rational(epsilon, "epsilon", above=0, maximum=1000), rational(delta, "delta", minimum=0, below=1)
    beta = float(rational(failure, "failure", minimum="1e-100", below=1))
    g, top = positive_int(labellings, "labellings", maximum=1 << 62), positive_int(levels, "levels", maximum=MAX_COST)
    inner = [rational(e, "inner_epsilons", minimum=0, maximum=1000) for e in inner_epsilons]
    inner_leak = rational(inner_delta, "inner_delta", minimum=0, below=1)
    needs = [(e, _least(least_split, e)) for e in inner]
    task = _Task(float(target), g, relation is Neighbours.REPLACE, log_growth, beta)
    best: tuple[float, Fraction, int, float, float] | None = None
    for eps_a, t_min in needs:
        largest = n - 1 if inner_leak == 0 else min(n - 1, int(leak * n / inner_leak))
        largest = largest if most_split is None else min(largest, positive_int(most_split, "most_split"))
        for t in _grid(t_min, largest):
            found = task.best(n, t, float(eps_a))
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], eps_a, t, found[1], found[2])
    if best is None:
        raise _infeasible(n, target, leak, inner_leak, needs, task)
    noise, eps_a, t, a, b = best
    A, B = _ratio(a, b / top)
    share = Fraction(t, n)

    def spend(x: Fraction, y: Fraction) -> tuple[Fraction, Fraction]:
        return outer(relation, share, x, y, eps_a, inner_leak, g)

    # Both parts of the promise grow with the rate, delta only where e**b is above K'.
    eta = integer_costs(a, b, A, B, top, lambda x, y: spend(x, y)[0] <= target and spend(x, y)[1] <= leak)
    spent, lost = spend(eta * A, eta * B * top)
    noise = task.noise(n, t, float(eta * A), float(eta * B * top))
    return ReductionPlan(n, t, A, B, top, eta, eps_a, inner_leak, g, relation, spent, lost, noise)


def integer_costs(a: float, b: float, A: int, B: int, levels: int, affordable: Callable[[Fraction, Fraction], bool]) -> Fraction:
    """The largest dyadic ``eta`` of at most 53 bits with ``affordable(eta A, eta B levels)``."""
    guess = max(a / A, b / (B * levels))
    exponent = math.frexp(guess)[1] + 1 - _ETA_BITS
    low, high = 0, 1 << _ETA_BITS
    while high - low > 1:
        middle = (low + high) // 2
        eta = Fraction(middle) * Fraction(2) ** exponent
        low, high = (middle, high) if affordable(eta * A, eta * B * levels) else (low, middle)
    if low == 0:
        raise InfeasibleError("no positive rate is affordable with these public numbers; ask for a larger epsilon or declare more users")
    return Fraction(low) * Fraction(2) ** exponent


# Searching


@dataclass(frozen=True)
class _Task:
    epsilon: float
    g: int
    replace: bool
    log_growth: LogGrowth
    failure: float

    def noise(self, n: int, t: int, a: float, b: float) -> float:
        """``L/(b w) + 2 L/(a t)``."""
        size = self.log_growth(t) - math.log(self.failure)
        return size / (b * (n - t)) + 2 * size / (a * t)

    def b(self, q: float, a: float, eps_a: float) -> float:
        """The closed form of ``solve_b`` in doubles; 0 where nothing is left."""
        e = self.epsilon
        if self.replace:
            log_k = 2 * math.log(self.g) + 2 * a + eps_a
            if log_k <= e:
                return e / 2
            rest = (1 - q) + q * (math.exp(log_k) - math.exp(e))
            return max(0.0, (e + math.log((1 - q) / rest)) / 2)
        left = (math.exp(e) - q * self.g * math.exp(a + eps_a)) / (1 - q)
        return math.log(left) if left > 1 else 0.0

    def largest_a(self, q: float, eps_a: float) -> float:
        """Where ``b`` reaches 0."""
        room = math.log((math.expm1(self.epsilon) + q) / q)
        return (room - 2 * math.log(self.g) - eps_a) / 2 if self.replace else room - math.log(self.g) - eps_a

    def best(self, n: int, t: int, eps_a: float) -> tuple[float, float, float] | None:
        """``(noise, a, b)`` of the best ``a`` for a share; golden section, since the noise is convex in ``a`` where b is log-concave."""
        q, limit = t / n, self.largest_a(t / n, eps_a)
        if limit <= 1e-9:
            return None

        def value(a: float) -> float:
            b = self.b(q, a, eps_a)
            return self.noise(n, t, a, b) if b > 0 else math.inf

        low, high = 0.0, limit
        left, right = high - _GOLDEN * high, _GOLDEN * high
        f_left, f_right = value(left), value(right)
        for _ in range(40):
            if f_left <= f_right:
                high, right, f_right = right, left, f_left
                left = high - _GOLDEN * (high - low)
                f_left = value(left)
            else:
                low, left, f_left = left, right, f_right
                right = low + _GOLDEN * (high - low)
                f_right = value(right)
        a = left if f_left <= f_right else right
        b = self.b(q, a, eps_a)
        return (min(f_left, f_right), a, b) if b > 0 else None

    def least_epsilon(self, q: float, eps_a: float) -> float:
        """The infimum of the epsilons that leave anything for b."""
        return math.log1p(q * (self.g ** (2 if self.replace else 1) * math.exp(eps_a) - 1))


def _grid(first: int, last: int) -> list[int]:
    """Geometric, both ends included."""
    out, t = [], first
    while t < last:
        out.append(t)
        t = max(t + 1, int(t * _GRID))
    return [*out, last] if first <= last else []


def _least(least_split: LeastSplit | int, eps_a: Fraction) -> int:
    return positive_int(least_split(eps_a) if callable(least_split) else least_split, "least_split")


def _ratio(a: float, b: float) -> tuple[int, int]:
    """``A : B`` close to ``a : b`` with both at most 2**16."""
    swap = a > b
    small, large = (b, a) if swap else (a, b)
    nearest = Fraction(small / large).limit_denominator(_RATIO)
    if nearest == 0:
        nearest = Fraction(1, _RATIO)
    return (nearest.denominator, nearest.numerator) if swap else (nearest.numerator, nearest.denominator)


def _infeasible(
    n: int, target: Fraction, leak: Fraction, inner_leak: Fraction, needs: list[tuple[Fraction, int]], task: _Task
) -> InfeasibleError:
    if inner_leak and not leak:
        return InfeasibleError(f"the inner algorithm spends delta = {float(inner_leak):.3g}: allow delta above 0")

    def works(units: int) -> bool:
        delta_fits = [t for _, t in needs if inner_leak == 0 or inner_leak * t <= leak * units]
        return any(
            t < units and (inner_leak == 0 or t in delta_fits) and task.least_epsilon(t / units, float(e)) < float(target) * (1 - 1e-9)
            for e, t in needs
        )

    low, high = 1, 2
    while not works(high) and high < _MAX_UNITS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    smallest = min((task.least_epsilon(t / n, float(e)) for e, t in needs if t < n), default=math.inf)
    epsilon = f"; with {n} users epsilon must be above {smallest:.4g}" if smallest < math.inf else ""
    return InfeasibleError(
        f"epsilon = {float(target):.4g} is out of reach with {n} users for this inner algorithm: at least {high} users are needed{epsilon}"
    )
