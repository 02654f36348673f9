"""Public parameters of hidden-walk interior points: how many values are needed, and which integers and bases to run
with.

Conditions for a level with window size ``m`` (``n = m + T + B - 1``), innermost domain ``0..D`` and innermost size
``m_z``:

* (a) ``D rz**-ceil(m_z/2) <= beta_z``,  (b) ``2 rc**-c <= beta_c``,  (c) ``B = 2c - 1``,
* (d) ``T >= 2c + kappa - 2`` and ``T >= kappa``,
* (e) ``a/(a + w(T+1)) <= beta_L``, ``w(q) = delta0 (rL**q - 1)/(rL - 1)``, ``a = 1 + n w(c-1)/(c-1)``.

**Accuracy.** Under (a)-(e) the point lies outside ``[min, max]`` with probability at most ``beta_z + sum of (beta_L +
beta_c)``, for every multiset of ``n`` values.  *Proof.* (a) puts the depth ``z`` between two depths of the window.
Then at least ``B`` values were left at or above ``z`` and the walk reached ``z`` with at least ``T + 1`` values
together, whose taken half holds at least ``c`` by (d).  (e) yields a prefix with at least ``c`` values; by counting
left, right and half not taken (at least ``2c - 1`` together), one of the three points has ``c`` values on both sides,
and (b) keeps points without values on one side away.

Conditions are judged in double precision with the rounded bases that will be used, moved outward by ``SLACK``; privacy
is recomputed exactly from the final integers (:class:`~privpac.mechanisms.interior_point.InteriorPoint`).  Any
parameters are private; the search over five shares of the budgets only looks for few values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Generic, TypeVar

from privpac.errors import InfeasibleError
from privpac.least import least_from
from privpac.mechanisms.hidden_walk import Level
from privpac.mechanisms.rank import positive_base
from privpac.special import log1p_exp, log_expm1, log_of

__all__ = [
    "SLACK",
    "InteriorBudget",
    "InteriorPlan",
    "Shares",
    "base_of",
    "choosing_depth",
    "exact_rate",
    "log_domain",
    "plan_walk",
    "relaxed",
    "rough_size",
    "search",
    "voters",
]

SLACK = 1e-9
"""Relative outward rounding of every condition, far above the error of doubles."""

MAX_ACTIVE = 11
_PREFIX = 1 / 8
"""Share of a level's beta for the prefix: (e) is rarely the condition that binds, (b) always costs."""

Real = Fraction | float
_L = TypeVar("_L", covariant=True)


@dataclass(frozen=True)
class InteriorPlan(Generic[_L]):
    """Levels (outermost first), innermost base, number of values, and the failure probability they certify."""

    levels: tuple[_L, ...]
    rz: Fraction
    size: int
    beta: Fraction
    needed: int
    """The least size that this planner certifies for the failure probability asked."""


# Logarithms of public numbers


@lru_cache(maxsize=4096)
def base_of(exponent: Real) -> Fraction:
    """The base of a share of epsilon, rounded down."""
    return positive_base(Fraction(exponent), "epsilon")


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


def choosing_depth(size: Callable[[int], int], c: int, rate: float, delta: float, beta: float, start: int) -> int:
    """Condition (e): the least ``q >= start`` such that, with ``q`` votes on top among ``size(q)``, fewer than ``c``
    are chosen with probability at most ``beta``.

    Monotone: ``w(q)/q`` grows with ``q``, and ``a/size`` does not grow.
    """
    # ln w(q) = scale + ln(rL**q - 1)
    scale = math.log(delta) - math.log1p(-delta) - log_expm1(rate)
    odds = math.log1p(-beta) - math.log(beta) + SLACK
    share = scale + log_expm1(rate * (c - 1)) - math.log(c - 1) if c > 1 else -math.inf

    def holds(q: int) -> bool:
        b = share + math.log(size(q))
        a = log1p_exp(b)
        return scale + log_expm1(rate * q) >= a + odds

    return least_from(holds, start)


# One plan for given shares


@dataclass(frozen=True)
class InteriorBudget:
    """What to spend: epsilon, delta and beta in total, on an innermost domain of logarithm ``log_top``, over
    ``reductions`` levels."""

    epsilon: Real
    delta: Real
    beta: Real
    log_top: float
    reductions: int

    @property
    def rough(self) -> InteriorBudget:
        """The same in doubles: enough to search with, and faster."""
        return replace(self, epsilon=float(self.epsilon), delta=float(self.delta), beta=float(self.beta))


Shares = tuple[int, ...]
"""In thousandths: epsilon of the innermost choice; of the rest, walk and prefix; beta of the innermost choice; delta of
the walk."""

Rate = Callable[[Real], float]
"""From an exponent to the logarithm of the base that is used for it: the exponent itself while searching, rounded in
the end."""


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
    def of(budget: InteriorBudget, shares: Shares) -> _Spent:
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


def _numbers(budget: InteriorBudget, shares: Shares, rate: Rate, innermost: int = 1) -> _Numbers:
    """The least integers for these shares, with an innermost window of at least ``innermost`` values."""
    spent, beta = _Spent.of(budget, shares), float(budget.beta) * (1 - SLACK)
    beta_z = beta * shares[3] / 1000
    beta_each = (beta - beta_z) / budget.reductions
    beta_c, beta_L = beta_each * (1 - _PREFIX), beta_each * _PREFIX
    m = max(innermost, 2 * voters(budget.log_top - math.log(beta_z), rate(spent.eps_z / 2)) - 1)
    prefix, delta_walk, delta_L = rate(spent.prefix / 2), float(spent.delta_walk) * (1 - SLACK), float(spent.delta_L)
    delta_L = min(delta_L, -math.expm1(-prefix))
    c = voters(math.log(2 / beta_c), rate(spent.point / 2))
    # Walks of J active steps, whatever the window: (kappa, J).
    kinds = [(_kappa(rate(spent.walk / (J + 1)), J, delta_walk), J) for J in range(1, MAX_ACTIVE + 1)]
    stops: list[tuple[int, int, int]] = []
    for _ in range(budget.reductions):
        others = m + 2 * c - 3
        # (e) does not depend on the walk: T + 1 votes on top among n = m + T + B - 1.
        deep = choosing_depth(lambda q, others=others: others + q, c, prefix, delta_L, beta_L, 2 * c) - 1  # type: ignore[misc]
        stops.append(min((_stop(m + 2 * c - 2, c, deep, J, kappa), J, kappa) for kappa, J in kinds))
        m += stops[-1][0] + 2 * c - 2
    return _Numbers(m, 2 * c - 1, stops)


def _kappa(rate: float, J: int, delta: float) -> int:
    """The least ``kappa`` with ``(J + r) delta1(r, kappa) <= delta``: ``r**kappa - 1 >= (r - 1)(J + r)/(2 delta)``."""
    goal = log_expm1(rate) + rate + math.log1p(J * math.exp(-rate)) - math.log(2 * delta)
    return max(1, math.ceil(log1p_exp(goal) / rate * (1 + SLACK)))


def _stop(others: int, c: int, deep: int, J: int, kappa: int) -> int:
    """The least ``T`` with (d), (e) and no more than ``J`` active steps: ``n - 1 - kappa < 2**J (T + 1 - kappa)``, ``n
    = others + T``."""
    halvings: int = 1 << J
    linear = (others - 1 - kappa + (kappa - 1) * halvings) // (halvings - 1) + 1
    return max(2 * c + kappa - 2, kappa, deep, linear)


def _build(budget: InteriorBudget, shares: Shares, innermost: int = 1) -> InteriorPlan[Level]:
    """The least plan for these shares, with the rounded bases that will be used."""
    spent, found = _Spent.of(budget, shares), _numbers(budget, shares, exact_rate, innermost)
    rL, rc = base_of(spent.prefix / 2), base_of(spent.point / 2)
    delta_L = min(Fraction(spent.delta_L), 1 - 1 / rL)  # more would not be private with this base
    levels = [
        Level(kappa, base_of(spent.walk / (J + 1)), T, found.B, rL, delta_L, rc)
        for T, J, kappa in reversed(found.stops)
    ]
    return InteriorPlan(tuple(levels), base_of(spent.eps_z / 2), found.size, Fraction(budget.beta), found.size)


# Searching shares


def _starts(reductions: int) -> tuple[Shares, ...]:
    return (
        (400 // reductions, 370, 230, 220, 850),
        (600 // reductions, 300, 250, 120, 950),
        (500 // reductions, 350, 230, 250, 800),
    )


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
def _best_shares(budget: InteriorBudget) -> Shares:
    rough = budget.rough
    return search(lambda shares: _numbers(rough, shares, float).size, _starts(budget.reductions), _allowed)


def rough_size(budget: InteriorBudget) -> int:
    """The size at the first shares of the search: at most twice the least one in all plans tried."""
    return _numbers(budget.rough, _starts(budget.reductions)[0], float).size


# Plans


def plan_walk(budget: InteriorBudget, size: int | None = None) -> InteriorPlan[Level]:
    """The least certified plan, or the plan for ``size`` values: the surplus certifies nothing more, a lack certifies
    less."""
    if budget.reductions == 0:
        return _plan_exponential(budget, size)
    shares = _best_shares(budget)
    plan = _build(budget, shares)
    if size is None or size == plan.size:
        return plan
    if size < plan.size:
        budget = relaxed(budget, size, lambda weaker: _build(weaker, shares).size)
    return replace(_stretched(budget, shares, size), needed=plan.size)


def _plan_exponential(budget: InteriorBudget, size: int | None) -> InteriorPlan[Level]:
    base, beta = base_of(budget.epsilon / 2), Fraction(budget.beta)
    needed = 2 * voters(budget.log_top - math.log(float(beta) * (1 - SLACK)), log_of(base)) - 1
    if size is not None and size < needed:
        beta = Fraction(min(1.0, math.exp(min(0.0, budget.log_top - (size + 1) // 2 * log_of(base))) * (1 + SLACK)))
    return InteriorPlan((), base, needed if size is None else size, beta, needed)


def _stretched(budget: InteriorBudget, shares: Shares, size: int) -> InteriorPlan[Level]:
    """The surplus goes to the innermost window; what that leaves over makes the outermost walk stop earlier, which no
    condition minds."""
    over = least_from(lambda m: _build(budget, shares, m).size > size, 1)
    plan = _build(budget, shares, over - 1)
    outer = plan.levels[0]
    widened = Level(outer.kappa, outer.r, outer.T + size - plan.size, outer.B, outer.rL, outer.delta_L, outer.rc)
    return InteriorPlan((widened, *plan.levels[1:]), plan.rz, size, plan.beta, plan.needed)


_WEAKEST = Fraction(999, 1000)


def relaxed(budget: InteriorBudget, size: int, needed: Callable[[InteriorBudget], int]) -> InteriorBudget:
    """The same budget with the least failure probability (on a grid of 64) that ``size`` values certify."""

    def weaker(i: int) -> InteriorBudget:
        share = i / 64
        return replace(budget, beta=Fraction(float(budget.beta) ** (1 - share) * float(_WEAKEST) ** share))

    if needed(weaker(64)) > size:
        raise InfeasibleError(
            f"levels={budget.reductions} needs at least {needed(weaker(64))} values even for failure probability "
            f"{float(_WEAKEST)}, "
            f"and {needed(budget)} for the one asked; got size = {size}: use levels=0, or more values"
        )
    return weaker(least_from(lambda i: needed(weaker(i)) <= size, 1))
