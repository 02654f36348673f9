"""Private interior points and medians over ordered domains of any size: 64-bit numbers, long strings, integers below
2**65536.

An *interior point* of ``size`` values lies between the smallest and the largest of them; one of the central values of a
larger table is an approximate median.  The plain exponential mechanism (``levels=0``) needs about ``(4/epsilon)
ln(top/beta)`` values and no delta.  Each reduction by a hidden walk (``levels=k``) replaces the domain by the number of
its bits, so that the size grows like ``k**2 log k``, ``k = log*``, instead of ``log`` of the domain (Yan, *VC Dimension
1*, Theorem 6, which names such a median and gives no algorithm; the construction here is our own, with every constant).

What that is worth: for 64-bit numbers the exponential mechanism is right.  One reduction pays from about 140 bits on
(461 values instead of 181 717 at 65536 bits, epsilon 1, delta 1e-6).  A second one would pay beyond 2**165 *bits*,
never for data that fit in a computer; it is there because the theorem asks for it, and ``"auto"`` does not choose it in
practice.

**Guarantee.** ``(epsilon, delta)`` per user, one value each, under add-remove **and** replace: adding, removing or
replacing a user replaces at most one element of the window of ranks ``hi..hi+size-1``
(:func:`~privpac.mechanisms.rank.rank_window`, padded with 0), and the engine is private for one replaced element of
*every* window (:mod:`~privpac.mechanisms.walk_reduction`, :mod:`~privpac.mechanisms.prefix_point`).  The exact
``e**epsilon`` and ``delta`` are recomputed from the final integers and rounded bases, and refused if they exceed what
was asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from attrs import field, frozen

from privpac.errors import AccuracyWarning, InfeasibleError, ParameterError
from privpac.exact import ExpSum, Rational, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law.base import BOTTOM, Law
from privpac.mechanisms.interior_plan import InteriorBudget, InteriorPlan, log_domain, plan_walk, rough_size
from privpac.mechanisms.interior_tail import Outcome
from privpac.mechanisms.prefix_plan import plan_pairs
from privpac.mechanisms.prefix_point import PrefixInteriorPoint
from privpac.mechanisms.rank import clipped, rank_window
from privpac.mechanisms.walk_reduction import WalkReduction
from privpac.parameters import (
    DEFAULT_BETA,
    bounds,
    fraction,
    named,
    privacy,
    protected_unit,
    read_epsilon,
    relation,
    whole,
    whole_or_none,
)
from privpac.released import NoRelease, Released
from privpac.rng import Rng

__all__ = ["ENGINES", "InteriorPoint", "PrefixInteriorPoint", "plan_interior_point"]

ENGINES = ("walk", "pairs")
MAX_REDUCTIONS = 64
_AUTO = (0, 1, 2, 3)
_SMALLEST = Fraction(1, 10**300)
"""Failure probabilities and deltas below this are outside the planner's doubles."""


# Planning, from public numbers


def plan_interior_point(
    epsilon: Rational,
    delta: Rational,
    beta: Rational,
    *,
    bits: int,
    top: int | None = None,
    levels: int | str = "auto",
    engine: str = "walk",
    size: int | None = None,
) -> InteriorPlan[Any]:
    """Levels, bases and the number of values for integers of ``bits`` bits (or ``0..top``); ``bits`` may be as large as
    2**65536.

    >>> plan_interior_point(1, "1e-6", "0.05", bits=64).size
    189
    >>> len(plan_interior_point(1, "1e-6", "0.05", bits=65536).levels)
    1
    """
    budget = (read_epsilon(epsilon), _read_delta(delta), rational(beta, "beta", minimum=_SMALLEST, below=1))
    ask = _InteriorQuestion(*budget, positive_int(bits, "bits"), top, _read_engine(engine), size)
    wanted = _read_levels(levels, ask.delta)
    return ask.plan(wanted) if isinstance(wanted, int) else ask.auto()


def _read_delta(delta: Rational) -> Fraction:
    value = rational(delta, "delta", minimum=0, below=1)
    if 0 < value < _SMALLEST:
        raise ParameterError("delta must be 0 or at least 1e-300")
    return value


def _read_engine(engine: Any) -> str:
    if not isinstance(engine, str):
        raise TypeError(f"engine must be text, got {type(engine).__name__}")
    if engine not in ENGINES:
        raise ParameterError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {engine!r}")
    return engine


def _read_levels(levels: Any, delta: Fraction) -> int | str:
    if isinstance(levels, str):
        if levels != "auto":
            raise ParameterError(f"levels must be 'auto' or an integer from 0 to {MAX_REDUCTIONS}, got {levels!r}")
        return 0 if delta == 0 else levels
    k = positive_int(levels, "levels", minimum=0, maximum=MAX_REDUCTIONS)
    if k and delta == 0:
        raise ParameterError("levels >= 1 needs delta > 0; give a delta such as 1e-6, or levels=0")
    return k


@dataclass(frozen=True)
class _InteriorQuestion:
    """A planning question."""

    epsilon: Fraction
    delta: Fraction
    beta: Fraction
    bits: int
    top: int | None
    engine: str
    size: int | None

    def budget(self, reductions: int) -> InteriorBudget:
        return InteriorBudget(
            self.epsilon, self.delta, self.beta, log_domain(self.bits, self.top, reductions), reductions
        )

    def plan(self, reductions: int, *, least: bool = False) -> InteriorPlan[Any]:
        size = None if least else self.size
        if self.engine == "pairs" and reductions:
            if size is not None and size % 2:
                raise ParameterError(f"engine='pairs' needs an even size, got {size}")
            return plan_pairs(self.budget(reductions), size)
        return plan_walk(self.budget(reductions), size)

    def auto(self) -> InteriorPlan[Any]:
        """The number of reductions of least size, ties to the smaller; with too few values, the one that fails
        least."""
        best, chosen = self.plan(0, least=True), 0
        for k in _AUTO[1:]:
            # The search improves its first guess by far less than a half, so a guess of twice the best size cannot win.
            if rough_size(self.budget(k)) < 2 * best.size and (found := self.plan(k, least=True)).size < best.size:
                best, chosen = found, k
        if self.size is None or self.size >= best.size:
            return self.plan(chosen)
        return replace(min(self._short(), key=lambda plan: (plan.beta, len(plan.levels))), needed=best.size)

    def _short(self) -> Iterator[InteriorPlan[Any]]:
        for k in (0, 1):
            try:
                yield self.plan(k)
            except InfeasibleError:
                continue


# The mechanism


@frozen(slots=False, field_transformer=named)
class InteriorPoint:
    """A private point between the largest and the smallest of the values of ranks ``hi..hi+size-1``.

    ``size`` (the window) is planned for failure probability ``beta`` unless given; parameters come from public numbers
    only.  ``levels`` is the number of reductions, ``"auto"`` the one of least size.

    >>> point = InteriorPoint(1, "1e-6", top=2**1000 - 1)
    >>> point.reductions, point.size <= 426, str(point.guarantee)
    (1, True, '(1, 1e-06)-DP per user, add-remove')
    >>> year = InteriorPoint.median(2, top=3000, n_users=500)
    >>> 1995 <= year.sample([2000 + i % 7 for i in range(500)]) <= 2011
    True

    ===========================
    =========================================================================================== ``top = 0``
    the answer is 0 and costs nothing: guarantee (0, 0) ``delta = 0``                ``levels="auto"`` means 0; ``levels
    >= 1`` is refused ``size`` below the plan      runs with ``AccuracyWarning`` and says what would be needed; privacy
    is untouched.  A fixed ``levels >= 1``
                                 with fewer values than any accuracy needs is an ``InfeasibleError``
    fewer values than ``hi+size``  the window is padded with 0, without an error: the number of values stays private
    values outside ``0..top``    moved to the nearest end, one by one ``BOTTOM``                   the choosing
    mechanism abstained (only with reductions): an output like any other ===========================
    ===========================================================================================
    """

    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(default=Fraction(0), converter=_read_delta)
    top: int = field(  # may have more digits than Python prints
        kw_only=True, repr=False, converter=whole, metadata=bounds(minimum=0)
    )
    beta: Fraction = field(
        kw_only=True,
        default=DEFAULT_BETA,
        converter=fraction,
        metadata=bounds(minimum=_SMALLEST, below=1),
    )
    _size: int | None = field(kw_only=True, default=None, converter=whole_or_none)
    levels: int | str = field(kw_only=True, default="auto")
    engine: str = field(kw_only=True, default="walk")
    hi: int = field(kw_only=True, default=1, converter=whole)
    unit: Unit = field(kw_only=True, default=Unit.USER, converter=protected_unit)
    neighbours: Neighbours = field(kw_only=True, default=Neighbours.ADD_REMOVE, converter=relation)

    def __attrs_post_init__(self) -> None:
        _ = self.reduction
        if self.size < self.plan.needed:
            warnings.warn(self.warnings[0], AccuracyWarning, stacklevel=3)

    @cached_property
    def plan(self) -> InteriorPlan[Any]:
        if self.top == 0:
            return InteriorPlan((), Fraction(2), self._size or 1, Fraction(0), 1)
        how: dict[str, Any] = {"levels": self.levels, "engine": self.engine, "size": self._size}
        return plan_interior_point(self.epsilon, self.delta, self.beta, bits=self.top.bit_length(), top=self.top, **how)

    @cached_property
    def reduction(self) -> WalkReduction | PrefixInteriorPoint | None:
        return None if self.top == 0 else self._checked(self.plan)

    def _checked(self, plan: InteriorPlan[Any]) -> WalkReduction | PrefixInteriorPoint:
        """The engine, after its exact privacy was compared with the promise."""
        engine = PrefixInteriorPoint if self.engine == "pairs" and plan.levels else WalkReduction
        built = engine(plan.levels, plan.rz, self.top, plan.size)
        promised = ExpSum.exp(rational(self.epsilon)) - ExpSum.of(built.multiplicative)
        if promised.sign() < 0 or built.delta_up > rational(self.delta):
            raise InfeasibleError("the planned integers exceed the privacy asked for; use a larger epsilon or delta")
        return built

    @staticmethod
    def median(epsilon: Rational, delta: Rational = 0, *, n_users: int, **options: Any) -> InteriorPoint:
        """The window in the middle of ``n_users`` values (a public figure; the values at hand may be more or fewer)."""
        n = positive_int(n_users, "n_users")
        if "size" in options or "hi" in options:
            raise ParameterError("median chooses size and hi itself; give them to InteriorPoint for other ranks")
        planned = InteriorPoint(epsilon, delta, **options)
        even = isinstance(planned.reduction, PrefixInteriorPoint)
        size = min(planned.size, n - n % 2 if even else n)
        return InteriorPoint(epsilon, delta, hi=1 + (n - size) // 2, size=size, **options)

    # Public numbers

    @property
    def size(self) -> int:
        """The number of values in the window."""
        return self.plan.size

    @property
    def reductions(self) -> int:
        """How many reductions run before the exponential mechanism."""
        return len(self.plan.levels)

    @property
    def failure(self) -> Fraction:
        """The certified probability of a point outside the window; at most ``beta`` unless ``size`` is too small."""
        return self.plan.beta

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.size >= self.plan.needed:
            return ()
        text = f"a window of {self.size} values certifies failure probability {float(self.failure):.3g}; "
        return (text + f"{self.plan.needed} values would certify {float(self.beta):.3g}",)

    @property
    def guarantee(self) -> Guarantee:
        if self.reduction is None:
            return Guarantee(0, unit=self.unit, neighbours=self.neighbours)
        if not self.reductions:
            return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 8)
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours)

    # Data

    def window(self, values: Any) -> list[int]:
        """The values of ranks ``hi..hi+size-1``, ascending, padded with 0 (private)."""
        return rank_window(values, self.hi, self.hi + self.size - 2, self.top)[::-1]

    def sample(self, values: Any, rng: Rng | None = None) -> Outcome:
        """One exact draw: a point of ``0..top``, or ``BOTTOM``."""
        window = self.window(values)
        return 0 if self.reduction is None else self.reduction.sample(window, rng)

    def law(self, values: Any) -> Law:
        """The exact law of :meth:`sample`, where it is small enough to be written out (curator only)."""
        window = self.window(values)
        return Law.point(0) if self.reduction is None else self.reduction.law(window)

    # Release: ``privpac.release(point, values, ledger=...)``

    def bind(self, values: Any) -> list[int]:
        """The numbers, one of each person, checked before anything is spent."""
        return clipped(values, self.top)

    def draw(self, bound: list[int], rng: Rng) -> Released:
        """One draw; ``outcome="none"`` where the choosing mechanism abstained."""
        drawn = self.sample(bound, rng)
        told: dict[str, Any] = {
            "parameters": {"window": self._size, "highest rank": self.hi, "reductions": self.reductions},
            "warnings": self.warnings,
            "learner": "InteriorPoint",
        }
        if drawn is BOTTOM:
            return Released(NoRelease, self.guarantee, outcome="none", **told)
        return Released(drawn, self.guarantee, **told)
