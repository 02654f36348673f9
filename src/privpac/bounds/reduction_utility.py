"""Accuracy of the realizable-to-agnostic transformation, with constants.

Let ``L = ln(labellings of t points / b2)`` and let the inner learner be proper, with at most a share ``alpha_A`` of wrong labels on any
realizable T except with probability ``b_A``.  Off events of total probability ``b1 + b2 + b3 + b_A``,

    error <= best + 2 alpha1 + L/(b w) + 2 theta,      theta >= alpha_A + L/(a t),
    b1 = 4 Pi(2w) exp(-w alpha1**2 / 8),      b3 = 4 Pi(2t)**2 exp(-theta t / 8),

``Pi`` the growth function, t and w the sizes of T and W, a and b the costs of the relabelling law.  *Proof.*  The law gives, except with
probability b2, ``a t dis_T(h, f) + b w err_W(f) <= b w err_W(f0) + L`` for the rule f behind the labels h and the best rule f0 on W; since
f0 is best there, ``dis_T(h, f) <= L/(a t)`` and ``err_W(f) <= err_W(f0) + L/(b w)``.  The learnt rule g and f differ on a share theta of T
at most, hence (relative deviation) on a share 2 theta of the population; the rest is uniform convergence on W.  Here ``theta`` is raised
to what b3 allows.  One of the two ``alpha1`` concerns the single best rule and may be Hoeffding's ``sqrt(ln(1/b)/(2 w))``.

*Prediction* by votes replaces ``2 alpha_A`` by the envelope of the vote's error, and theta is ``L/(a t)``.

Under add-remove t and w are binomial: both are at least their lower Chernoff bounds, which costs two more failures, and every term
falls with them because growth functions are log-concave.  T and W are independent samples given the split.  The constants of uniform
convergence and relative deviation are Anthony and Bartlett's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from privpac.bounds.certificate import LIMIT, SLACK, Certificate, log_size_of, open_unit, positive, relation
from privpac.bounds.reduction_plan import INNER_EPSILONS, ReductionPlan, plan_reduction
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int

__all__ = ["ReductionExcess", "certify_reduction", "reduction_excess", "selection_error"]

LogGrowth = Callable[[int], float]
InnerError = Callable[[int, float, float], float]
"""``(t, eps_A, failure) -> alpha_A``: wrong labels on any realizable T of size t."""

_ASSUMES = "independent records (one per user counts) from one law; a proper inner learner"


@dataclass(frozen=True)
class ReductionExcess:
    """How much worse than the best rule the result may be, term by term; ``total`` holds but for the declared failure."""

    convergence: float
    noise_rest: float
    noise_part: float
    inner: float

    @property
    def total(self) -> float:
        return (self.convergence + self.noise_rest + self.noise_part + self.inner) * (1 + SLACK)


def selection_error(log_size: Rational, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> InnerError:
    """The inner error of an exponential law over a class (or representation) of this log size, on any realizable data."""
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
) -> ReductionExcess:
    """The bound for sizes ``t`` and ``w``; ``beta`` is split evenly over the events (the inner learner's own failure is not among them).

    ``inner_error``: ``alpha_A``.  ``envelope``: for prediction by votes, the bound on a wrong vote; ``inner_error`` is then not used.

    >>> x = reduction_excess(t=20_000, w=80_000, a="0.9", b="0.4", log_growth=lambda n: math.log(n + 1), beta="0.05")
    >>> round(x.total, 3)
    0.069
    """
    part, rest = positive_int(t, "t", maximum=LIMIT), positive_int(w, "w", maximum=LIMIT)
    cost_t, cost_w = positive(a, "a"), positive(b, "b")
    failure = open_unit(beta, "beta") / 4
    error = 0.0 if envelope is not None else float(rational(inner_error, "inner_error", minimum=0, maximum=1 << 60))
    extra = 0.0 if envelope is None else float(rational(envelope, "envelope", minimum=0, maximum=1))
    size = log_growth(part) - math.log(failure)
    uniform = math.sqrt(8 * (math.log(4) + log_growth(2 * rest) - math.log(failure)) / rest)
    single = math.sqrt(-math.log(failure) / (2 * rest))
    noise = size / (cost_t * part)
    theta = max(error + noise, 8 * (math.log(4) + 2 * log_growth(2 * part) - math.log(failure)) / part)
    return ReductionExcess(uniform + min(uniform, single), size / (cost_w * rest), 2 * (theta - error), 2 * error + extra)


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
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    n_users: int | None = None,
) -> Certificate:
    """Users with which the excess error is at most ``alpha`` but for ``beta``, with the planned constants.

    ``n_users`` asks about one number: the certificate then holds it, or ``None``, and ``excess`` says what is reached.
    """
    target, failure = open_unit(alpha, "alpha"), open_unit(beta, "beta")
    rule = relation(neighbours)
    common = {"epsilon": epsilon, "delta": delta, "inner_delta": inner_delta, "log_growth": log_growth, "labellings": labellings}

    def reached(n: int) -> tuple[float, ReductionPlan | None]:
        best: tuple[float, ReductionPlan | None] = (math.inf, None)
        for eps in inner_epsilons:
            try:
                plan = plan_reduction(n_users=n, inner_epsilons=[eps], failure=failure / 8, neighbours=rule, **common)  # type: ignore[arg-type]
            except InfeasibleError:
                continue
            value = _excess(plan, failure, log_growth, inner_error)
            best = (value, plan) if value < best[0] else best
        return best

    def certificate(n: int | None, value: float, plan: ReductionPlan | None) -> Certificate:
        shown = {} if plan is None else {"split_size": plan.split_size, "a": float(plan.a), "b": float(plan.b), "eps_A": plan.eps_A}
        return Certificate.upper(n, "agnostic reduction", _ASSUMES, excess=value, **shown)

    if n_users is not None:
        n = positive_int(n_users, "n_users", minimum=2)
        value, plan = reached(n)
        return certificate(n if value <= target else None, value, plan)
    high = 16
    while reached(high)[0] > target:
        high *= 2
        if high > 1 << 36:
            return certificate(None, math.inf, None)
    low = high // 2
    # Constants are searched on a grid, so the excess falls in small steps: a bisection to one part in a thousand.
    while high - low > max(1, high >> 10):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle)[0] <= target else (middle, high)
    return certificate(high, *reached(high))


def _excess(plan: ReductionPlan, failure: float, log_growth: LogGrowth, inner_error: InnerError) -> float:
    """Half of the failure for the events, a quarter for the inner learner, a quarter for the sizes under add-remove."""
    t, w = plan.split_size, plan.n_users - plan.split_size
    if plan.neighbours is Neighbours.ADD_REMOVE:
        t, w = _at_least(t, failure / 8), _at_least(w, failure / 8)
        if t < 1 or w < 1:
            return math.inf
    error = inner_error(t, float(plan.eps_A), failure / 4)
    if not 0 <= error < math.inf:
        raise ParameterError(f"inner_error must be a number that is at least 0, got {error}")
    return reduction_excess(t=t, w=w, a=plan.a, b=plan.b, log_growth=log_growth, beta=failure / 2, inner_error=error).total


def _at_least(mean: int, failure: float) -> int:
    """A binomial number with this mean is at least ``mean - sqrt(2 mean ln(1/failure))`` but for the failure (Chernoff)."""
    return math.floor(mean - math.sqrt(-2 * mean * math.log(failure)) * (1 + SLACK))
