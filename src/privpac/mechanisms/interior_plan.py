"""Public parameters of hidden-walk interior points: how many values are needed, and which integers and bases to run with.

Conditions for a level with window size ``m`` (``n = m + T + B - 1``), innermost domain ``0..D`` and innermost size ``m_z``:

* (a) ``D rz**-ceil(m_z/2) <= beta_z``,  (b) ``2 rc**-c <= beta_c``,  (c) ``B = 2c - 1``,
* (d) ``T >= 2c + kappa - 2`` and ``T >= kappa``,
* (e) ``a/(a + w(T+1)) <= beta_L``, ``w(q) = delta0 (rL**q - 1)/(rL - 1)``, ``a = 1 + n w(c-1)/(c-1)``.

**Accuracy.** Under (a)-(e) the point lies outside ``[min, max]`` with probability at most ``beta_z + sum of (beta_L + beta_c)``, for every
multiset of ``n`` values.  *Proof.* (a) puts the depth ``z`` between two depths of the window.  Then at least ``B`` values were left at or
above ``z`` and the walk reached ``z`` with at least ``T + 1`` values together, whose taken half holds at least ``c`` by (d).  (e) yields a
prefix with at least ``c`` values; by counting left, right and half not taken (at least ``2c - 1`` together), one of the three points has
``c`` values on both sides, and (b) keeps points without values on one side away.

Conditions are judged in double precision with the rounded bases that will be used, moved outward by ``SLACK``; privacy is recomputed
exactly from the final integers (:class:`~privpac.mechanisms.interior_point.InteriorPoint`).  Any parameters are private; the search
over five shares of the budgets only looks for few values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Generic, TypeVar

from privpac.mechanisms.hidden_walk import Level
from privpac.mechanisms.parameters import least_int
from privpac.mechanisms.rank import positive_base

__all__ = ["SLACK", "Budget", "Plan", "Shares", "base_of", "choosing_depth", "exact_rate", "log_domain", "log_of", "plan_walk", "search", "voters"]

SLACK = 1e-9
"""Relative outward rounding of every condition, far above the error of doubles."""

MAX_ACTIVE = 11
Real = Fraction | float
_L = TypeVar("_L", covariant=True)


@dataclass(frozen=True)
class Plan(Generic[_L]):
    """Levels (outermost first), innermost base, number of values, and the failure probability they certify."""

    levels: tuple[_L, ...]
    rz: Fraction
    size: int
    beta: Fraction


# Logarithms of public numbers


@lru_cache(maxsize=4096)
def base_of(exponent: Real) -> Fraction:
    """The base of a share of epsilon, rounded down."""
    return positive_base(Fraction(exponent), "epsilon")


def log_of(base: Fraction) -> float:
    """``ln(base)``, also for bases close to 1."""
    return math.log1p(float(base - 1))


def log_domain(bits: int, top: int | None, reductions: int) -> float:
    """``ln D`` of the innermost domain ``0..D``: values, depths, depths of depths ..."""
    if reductions == 0:
        return bits * math.log(2) if top is None else math.log(top)
    domain = bits
    for _ in range(reductions - 1):
        domain = domain.bit_length()
    return math.log(domain)


def voters(log_ratio: float, rate: float) -> int:
    """The least integer ``q >= 1`` with ``q * rate >= log_ratio``, rounded up safely."""
    return max(1, math.ceil(log_ratio / rate * (1 + SLACK)))


def _log_weight(q: int, rate: float, log_scale: float) -> float:
    """``ln w(q)`` with ``w(q) = scale (e**(rate q) - 1)``."""
    x = rate * q
    return log_scale + (x + math.log1p(-math.exp(-x)) if x > 1 else math.log(math.expm1(x)))


def choosing_depth(size: Callable[[int], int], c: int, rate: float, delta: float, beta: float, start: int) -> int:
    """Condition (e): the least ``q >= start`` such that, with ``q`` votes on top among ``size(q)``, fewer than ``c`` are chosen with
    probability at most ``beta``.

    Monotone: ``w(q)/q`` grows with ``q``, and ``a/size`` does not grow.
    """
    scale = math.log(delta / (1 - delta)) - math.log(math.expm1(rate))
    odds = math.log1p(-beta) - math.log(beta) + SLACK
    share = _log_weight(c - 1, rate, scale) - math.log(c - 1) if c > 1 else -math.inf

    def holds(q: int) -> bool:
        b = share + math.log(size(q))
        a = max(b, 0.0) + math.log1p(math.exp(-abs(b)))
        return _log_weight(q, rate, scale) >= a + odds

    return least_int(holds, start)


# One plan for given shares


@dataclass(frozen=True)
class Budget:
    """What to spend: epsilon, delta and beta in total, on an innermost domain of logarithm ``log_top``, over ``reductions`` levels."""

    epsilon: Real
    delta: Real
    beta: Real
    log_top: float
    reductions: int


    @property
    def rough(self) -> Budget:
        """The same in doubles: enough to search with, and faster."""
        return replace(self, epsilon=float(self.epsilon), delta=float(self.delta), beta=float(self.beta))


Shares = tuple[int, ...]
"""In thousandths: epsilon of the innermost choice; of the rest, walk and prefix; beta of the innermost choice; delta of the walk."""

Rate = Callable[[Real], float]
"""From an exponent to the logarithm of the base that is used for it: the exponent itself while searching, rounded in the end."""


def exact_rate(exponent: Real) -> float:
    """The logarithm of the rounded base."""
    return log_of(base_of(exponent))


@dataclass(frozen=True)
class _Spent:
    """The budgets of one level."""

    eps_z: Real
    walk: Real
    prefix: Real
    point: Real
    delta_walk: Real
    delta_L: Real

    @staticmethod
    def of(budget: Budget, shares: Shares) -> _Spent:
        z, walk, prefix, _, delta = shares
        k = budget.reductions
        rest, each = budget.epsilon * (1000 - z) / (1_000_000 * k), budget.delta / (1000 * k)
        eps_z, point = budget.epsilon * z / 1000, rest * (1000 - walk - prefix)
        return _Spent(eps_z, rest * walk, rest * prefix, point, each * delta, each * (1000 - delta))


@dataclass(frozen=True)
class _Numbers:
    """Integers of a plan; stops are ``(T, J, kappa)``, innermost first."""

    size: int
    B: int
    stops: list[tuple[int, int, int]]


def _numbers(budget: Budget, shares: Shares, rate: Rate, innermost: int = 1) -> _Numbers:
    """The least integers for these shares, with an innermost window of at least ``innermost`` values."""
    spent, beta = _Spent.of(budget, shares), float(budget.beta) * (1 - SLACK)
    beta_z = beta * shares[3] / 1000
    beta_each = (beta - beta_z) / (2 * budget.reductions)
    m = max(innermost, 2 * voters(budget.log_top - math.log(beta_z), rate(spent.eps_z / 2)) - 1)
    prefix, delta_walk, delta_L = rate(spent.prefix / 2), float(spent.delta_walk) * (1 - SLACK), float(spent.delta_L)
    c = voters(math.log(2 / beta_each), rate(spent.point / 2))
    # Walks of J active steps, whatever the window: (kappa, J).
    kinds = [(_kappa(rate(spent.walk / (J + 1)), J, delta_walk), J) for J in range(1, MAX_ACTIVE + 1)]
    stops: list[tuple[int, int, int]] = []
    for _ in range(budget.reductions):
        others = m + 2 * c - 3
        # (e) does not depend on the walk: T + 1 votes on top among n = m + T + B - 1.
        deep = choosing_depth(lambda q, others=others: others + q, c, prefix, delta_L, beta_each, 2 * c) - 1  # type: ignore[misc]
        stops.append(min((_stop(m + 2 * c - 2, c, deep, J, kappa), J, kappa) for kappa, J in kinds))
        m += stops[-1][0] + 2 * c - 2
    return _Numbers(m, 2 * c - 1, stops)


def _kappa(rate: float, J: int, delta: float) -> int:
    """The least ``kappa`` with ``(J + r) delta1(r, kappa) <= delta``."""
    r = math.exp(rate)
    return max(1, math.ceil(math.log1p(math.expm1(rate) * (J + r) / (2 * delta)) / rate * (1 + SLACK)))


def _stop(others: int, c: int, deep: int, J: int, kappa: int) -> int:
    """The least ``T`` with (d), (e) and no more than ``J`` active steps: ``n - 1 - kappa < 2**J (T + 1 - kappa)``, ``n = others + T``."""
    linear = (others - 1 - kappa + (kappa - 1) * 2**J) // (2**J - 1) + 1
    return max(2 * c + kappa - 2, kappa, deep, linear)


def _build(budget: Budget, shares: Shares, innermost: int = 1) -> Plan[Level]:
    """The least plan for these shares, with the rounded bases that will be used."""
    spent, found = _Spent.of(budget, shares), _numbers(budget, shares, exact_rate, innermost)
    rL, rc = base_of(spent.prefix / 2), base_of(spent.point / 2)
    levels = [Level(kappa, base_of(spent.walk / (J + 1)), T, found.B, rL, Fraction(spent.delta_L), rc) for T, J, kappa in reversed(found.stops)]
    return Plan(tuple(levels), base_of(spent.eps_z / 2), found.size, Fraction(budget.beta))


# Searching shares


_STARTS: tuple[Shares, ...] = ((400, 350, 250, 300, 950), (200, 400, 200, 100, 900), (500, 300, 300, 500, 800))


def search(cost: Callable[[Shares], float], starts: tuple[Shares, ...], allowed: Callable[[Shares], bool]) -> Shares:
    """Coordinate search from each start, two shares at a time, steps from 8 to 0.5 percent; deterministic."""
    found: list[tuple[float, Shares]] = []
    for start in starts:
        here = (cost(start), start)
        for step in (80, 40, 20, 10, 5):
            moved = True
            while moved:
                best = min(((cost(s), s) for s in _near(here[1], step) if allowed(s)), default=here)
                moved = best[0] < here[0]
                here = best if moved else here
        found.append(here)
    return min(found)[1]


def _near(shares: Shares, step: int) -> Iterator[Shares]:
    """One share up or down, alone or with another one."""
    for i in range(len(shares)):
        for change in (-step, step):
            one = shares[:i] + (shares[i] + change,) + shares[i + 1 :]
            yield one
            for j in range(i):
                for other in (-step, step):
                    yield one[:j] + (one[j] + other,) + one[j + 1 :]


def _allowed(shares: Shares) -> bool:
    z, walk, prefix, beta, delta = shares
    return min(shares) >= 5 and max(z, walk + prefix, beta, delta) <= 995


@lru_cache(maxsize=256)
def _best_shares(budget: Budget) -> Shares:
    return search(lambda shares: _numbers(budget.rough, shares, float).size, _STARTS, _allowed)


def plan_walk(
    epsilon: Fraction, delta: Fraction, beta: Fraction, *, bits: int, reductions: int, top: int | None = None, size: int | None = None
) -> Plan[Level]:
    """The least certified plan for values of ``bits`` bits, or the plan for ``size`` values if that is larger."""
    log_top = log_domain(bits, top, reductions)
    if reductions == 0:
        needed = 2 * voters(log_top - math.log(float(beta)), exact_rate(epsilon / 2)) - 1
        return Plan((), base_of(epsilon / 2), max(needed, size or 0), beta)
    budget = Budget(epsilon, delta, beta, log_top, reductions)
    shares = _best_shares(budget)
    plan = _build(budget, shares)
    return plan if size is None or size <= plan.size else _stretched(budget, shares, size)


def _stretched(budget: Budget, shares: Shares, size: int) -> Plan[Level]:
    """The surplus goes to the innermost window; what that leaves over makes the outermost walk stop earlier, which no condition minds."""
    over = least_int(lambda m: _build(budget, shares, m).size > size, 1)
    plan = _build(budget, shares, over - 1)
    first = plan.levels[0]
    spare = size - plan.size
    widened = Level(first.kappa, first.r, first.T + spare, first.B, first.rL, first.delta_L, first.rc)
    return Plan((widened, *plan.levels[1:]), plan.rz, size, plan.beta)
