"""Accuracy of the realizable-to-agnostic transformation, with constants.

Let ``L = ln(labellings of t points / b2)`` and let the inner learner be proper, with at most a share ``alpha_A`` of
wrong labels on any realizable T except with probability ``b_A``.  Off events of total probability ``b0 + b1 + b2 + b3 +
b_A``,

    error <= best + alpha1 + alpha0 + 1/levels + L/(b w) + omega(alpha_A + L/(a t)),
    alpha1 = sqrt(2 ln Pi(w) / w) + sqrt(ln(1/b1) / (2 w)),  alpha0 = sqrt(ln(1/b0) / (2 w)),
    omega(d) = d + xi**2/2 + xi sqrt(d + xi**2/4),  xi**2 = 4 (ln 4 + 2 ln Pi(2t) + ln(1/b3)) / t,

``Pi`` the growth function, t and w the sizes of T and W, a and b the costs of the relabelling law.  *Proof.*  The law
gives, except with probability b2, ``a t dis_T(h, f) + b w err_W(f) <= b w err_W(f0) + L`` for the rule f behind the
labels h and the best rule f0 on W; since f0 is best there, ``dis_T(h, f) <= L/(a t)`` and ``err_W(f) <= err_W(f0) +
L/(b w)``.  The learnt rule g and f differ on a share ``d = alpha_A + L/(a t)`` of T at most, hence on a share
``omega(d)`` of the population: relative deviation, ``Pr[some pair: P - P_T > xi sqrt(P)] <= 4 Pi(2t)**2 exp(-xi**2 t /
4)``, solved for P.

*Users with many records.*  ``err_W`` averages over users the share of each one's own mistakes, **rounded down to a step
of** ``1/levels``: it is at most ``1/levels`` below the true average, and never above it, which costs ``1/levels`` once
(nothing where a unit has one record).  The true average is the expectation, over one record of each user drawn at
random, of an average over w records, so its supremum over the class is at most the expectation of theirs: ``alpha1``
(symmetrisation, Massart, McDiarmid with steps of ``1/w``) is that of one record per user, whatever the numbers of
records.  ``alpha0`` is Hoeffding's for the single best rule.

*Prediction* by votes leaves ``alpha_A`` out and adds the envelope of the vote's error.

Under add-remove t and w are binomial: both are at least their lower Chernoff bounds, which costs two more failures.  T
and W are independent samples given the split.  Every term falls with t, w, a and b (growth functions are log-concave)
and with the failure, so with the candidates of ``bounds.reduction_plan`` the least promised excess never rises with the
number of units, epsilon or beta: a certified number holds for every larger one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.certificate import LIMIT, SLACK, Certificate, log_size_of, open_unit, positive, relation
from privpac.bounds.reduction.plan import INNER_EPSILONS, ROUNDED, Objective, ReductionPlan, ReductionTask
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.least import least

__all__ = ["ReductionExcess", "certify_reduction", "excess_objective", "reduction_excess", "selection_error"]

LogGrowth = Callable[[int], float]
InnerError = Callable[[int, float, float], float]
"""``(t, eps_A, failure) -> alpha_A``: wrong labels on any realizable T of size t."""

_USERS = "independent users from one law, each counting alike"
_ASSUMES = f"{_USERS}; a proper inner learner"
_MAX_UNITS = 1 << 36


@dataclass(frozen=True)
class ReductionExcess:
    """How much worse than the best rule the result may be, term by term; ``total`` holds but for the declared
    failure."""

    convergence: float
    noise_rest: float
    noise_part: float
    inner: float
    rounding: float = 0.0

    @property
    def total(self) -> float:
        return (self.convergence + self.noise_rest + self.noise_part + self.inner + self.rounding) * (1 + SLACK)


def selection_error(log_size: Rational, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> InnerError:
    """The inner error of an exponential law over a class (or representation) of this log size, on any realizable
    data."""
    size, halves = log_size_of(log_size), 1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2
    return lambda t, epsilon, failure: halves * (size - math.log(failure)) / (epsilon * t)


def reduction_excess(
    *,
    t: int,
    w: int,
    a: Rational,
    b: Rational,
    log_growth: LogGrowth,
    beta: Rational,
    inner_error: float = 0.0,
    envelope: float | None = None,
    levels: int | None = None,
) -> ReductionExcess:
    """The bound for sizes ``t`` and ``w``; ``beta`` is split evenly over the events (the inner learner's own failure is
    not among them).

    ``inner_error``: ``alpha_A``.  ``envelope``: for prediction by votes, the bound on a wrong vote; ``inner_error`` is
    then not used. ``levels``: steps of a unit's loss on W; ``None`` where every unit has one record there, and nothing
    is rounded.

    >>> x = reduction_excess(t=20_000, w=80_000, a="0.9", b="0.4", log_growth=lambda n: math.log(n + 1), beta="0.05")
    >>> round(x.total, 3)
    0.035
    """
    part, rest = positive_int(t, "t", maximum=LIMIT), positive_int(w, "w", maximum=LIMIT)
    cost_t, cost_w = positive(a, "a"), positive(b, "b")
    failure = open_unit(beta, "beta") / 4
    error = 0.0 if envelope is not None else float(rational(inner_error, "inner_error", minimum=0, maximum=1 << 60))
    extra = 0.0 if envelope is None else float(rational(envelope, "envelope", minimum=0, maximum=1))
    size, square, convergence = by_size(part, rest, failure, log_growth)
    apart = float(relative(error + size / (cost_t * part), square))
    rounding = 0.0 if levels is None else 1 / positive_int(levels, "levels")
    return ReductionExcess(convergence, size / (cost_w * rest), apart - error, error + extra, rounding)


def by_size(t: int, w: int, failure: float, log_growth: LogGrowth) -> tuple[float, float, float]:
    """``L``, ``xi**2`` and ``alpha1 + alpha0``: what follows from the sizes alone."""
    log_one = -math.log(failure)
    single = math.sqrt(log_one / (2 * w))
    square = 4 * (math.log(4) + 2 * log_growth(2 * t) + log_one) / t
    return log_growth(t) + log_one, square, math.sqrt(2 * log_growth(w) / w) + 2 * single


def relative(d: Any, square: Any) -> Any:
    """``omega(d)``."""
    return d + square / 2 + np.sqrt(square * (d + square / 4))


def excess_objective(
    *, beta: float, log_growth: LogGrowth, inner_error: InnerError, neighbours: Neighbours, levels: int | None = None
) -> Callable[[Fraction], Objective]:
    """The promised excess of a matrix of candidates, for ``bounds.reduction_plan``.

    Half of ``beta`` for the events, a quarter for the inner learner, a quarter for the sizes under add-remove.
    """
    rounding = 0.0 if levels is None else 1 / levels

    def of(eps_a: Fraction) -> Objective:
        def value(t: NDArray[np.int64], w: NDArray[np.int64], a: Any, b: Any) -> Any:
            rows = np.array([_row(int(x), int(y), float(eps_a)) for x, y in zip(t, w)])
            size, square, convergence, error, part, rest = rows.T[:, :, None]
            return (convergence + size / (b * rest) + relative(error + size / (a * part), square) + rounding) * (
                1 + SLACK
            )

        return value

    def _row(t: int, w: int, eps_a: float) -> tuple[float, ...]:
        if neighbours is Neighbours.ADD_REMOVE:
            t, w = at_least(t, beta / 8), at_least(w, beta / 8)
        if t < 1 or w < 1:
            return (math.inf, math.inf, math.inf, math.inf, 1.0, 1.0)
        error = inner_error(t, eps_a, beta / 4)
        if not 0 <= error < math.inf:
            raise ParameterError(f"inner_error must be a number that is at least 0, got {error}")
        return (*by_size(t, w, beta / 8, log_growth), error, t, w)

    return of


def certify_reduction(
    *,
    alpha: Rational,
    beta: Rational,
    epsilon: Rational,
    log_growth: LogGrowth,
    inner_error: InnerError,
    delta: Rational = 0,
    inner_delta: Rational = 0,
    inner_epsilons: tuple[Rational, ...] = INNER_EPSILONS,
    labellings: int = 2,
    levels: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    n_users: int | None = None,
    objective: Callable[[Fraction], Objective] | None = None,
) -> Certificate:
    """Users with which the excess error is at most ``alpha`` but for ``beta``, with the constants of least promised
    excess.

    ``objective``: the promised excess of an inner learner that is not proper
    (:mod:`privpac.bounds.reduction.improper`).

    ``levels``: steps of a unit's loss; ``None`` where every unit has one record outside T.  ``n_users`` asks about one
    number: the certificate then holds it, or ``None``, and ``excess`` says what is reached.
    """
    target, failure, rule = open_unit(alpha, "alpha"), open_unit(beta, "beta"), relation(neighbours)
    steps = None if levels is None else positive_int(levels, "levels")
    task = ReductionTask.read(epsilon, delta, failure / 8, inner_delta, labellings, steps or 1, rule, log_growth)
    promised = objective or excess_objective(
        beta=failure, log_growth=log_growth, inner_error=inner_error, neighbours=rule, levels=steps
    )
    assumes = _ASSUMES if objective is None else f"{_USERS}; any inner learner"
    inner = [rational(e, "inner_epsilons", minimum=0, maximum=1000) for e in inner_epsilons]

    def reached(n: int) -> tuple[float, Fraction, int, float, float]:
        found = [(got[0], eps, *got[1:]) for eps in inner if (got := task.best(n, eps, promised(eps))) is not None]
        return min(found, default=(math.inf, Fraction(0), 0, 0.0, 0.0))

    def certificate(n: int | None, at: int) -> Certificate:
        value, eps, t, a, b = reached(at)
        if value == math.inf:
            return Certificate.upper(None, "agnostic reduction", assumes, excess=value)
        plan = task.settle(at, eps, t, a, b)
        # What is promised was judged at costs that the integers must reach; it is what they reach where they do not.
        if objective is not None or plan.a < a * (1 - ROUNDED) or plan.b < b * (1 - ROUNDED):
            sizes = np.array([plan.split_size]), np.array([at - plan.split_size])
            value = float(promised(plan.eps_A)(*sizes, np.array([float(plan.a)]), np.array([[float(plan.b)]]))[0, 0])
        return Certificate.upper(
            n if value <= target else None, "agnostic reduction", assumes, excess=value, **_shown(plan, steps)
        )

    if n_users is not None:
        n = positive_int(n_users, "n_users", minimum=2)
        return certificate(n, n)
    enough = least(lambda n: reached(n)[0] <= target, start=16, limit=_MAX_UNITS)
    return certificate(enough, _MAX_UNITS if enough is None else enough)


def _shown(plan: ReductionPlan, levels: int | None) -> dict[str, Any]:
    """The constants that were judged; ``users`` says which records of a user count."""
    shape: dict[str, Any] = {"users": "one"} if levels is None else {"users": "hybrid", "levels": levels}
    return {"split_size": plan.split_size, "a": float(plan.a), "b": float(plan.b), "eps_A": plan.eps_A, **shape}


def at_least(mean: float, failure: float) -> int:
    """A binomial number with this mean is at least ``mean - sqrt(2 mean ln(1/failure))`` but for the failure
    (Chernoff)."""
    return math.floor(mean - math.sqrt(-2 * mean * math.log(failure)) * (1 + SLACK))
