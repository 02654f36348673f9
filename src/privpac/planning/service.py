"""Constants of a prediction service from public numbers: a budget, a number of answers and a declared number of people.

More noise in the votes (small ``gamma``) leaves more of the budget for relabelling; more voters beat that noise but
learn from smaller parts.  For every cost ``eps_A`` of the transcript, every share of T of a fixed grid
(``bounds.reduction_plan``) and every number of voters, the choice is that of the least

    noise of the relabelling  +  1/levels  +  sqrt(dimension / w) / 2  +  env(share of wrong votes),      share ~
    dimension * voters / t,

where the share is the usual size of the error of a rule that fits ``t / voters`` records, the root that of the best
rule on the others, and ``1/levels`` what rounding a user's loss may hide (nothing at item level).  It is an estimate,
not a certificate, and serves the choice only: **the guarantee is recomputed from the constants that were chosen** and
does not depend on any of this.  The candidates are the same for every number of people and every budget, and each one's
estimate falls with both: more people, epsilon or delta never raise it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privpac.bounds.reduction.plan import COSTS, ROUNDED, SHARES, ReductionPlan, ReductionTask, plan_reduction
from privpac.bounds.reduction.privacy import inner_delta
from privpac.bounds.votes import MAX_QUERIES, gamma_for_transcript
from privpac.composition import zcdp_budget
from privpac.concepts.base import ConceptClass
from privpac.concepts.statistics import DEFAULT_LEVELS
from privpac.errors import InfeasibleError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit, one_of, positive_int
from privpac.learners.prediction.voters import VotePredictor
from privpac.learners.reduction.relabel import Relabelling

__all__ = ["ServicePlan", "plan_service"]

_INNER: tuple[Rational, ...] = ("1/4", "1/2", 1, "3/2", 2, 3, 4, 6)
_MAX_VOTERS = 4096
_EVERY = 6
"""Of the shares of T one in six is tried: a factor of the square root of 2 apart."""

_FAILURE = Fraction(1, 100)


@dataclass(frozen=True)
class ServicePlan:
    """A predictor and the error it is expected to add: an estimate from public numbers, not a promise."""

    predictor: VotePredictor
    expected_error: float
    relabelling_noise: float


def plan_service(
    concept: ConceptClass,
    *,
    epsilon: Rational,
    queries: int,
    public_n_users: int,
    delta: Rational = 0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    unit: Unit | str = Unit.USER,
    max_records: int | None = None,
    levels: int = DEFAULT_LEVELS,
    epochs: int = 1,
) -> ServicePlan:
    """The predictor of least estimated error that gives ``queries`` answers within ``(epsilon, delta)``.

    ``concept`` must be on named columns with domains.  ``public_n_users`` is a declared number under add-remove and the
    number itself under replace.  ``InfeasibleError`` says what would suffice.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Floats
    >>> plan = plan_service(Thresholds(Floats(), "x"), epsilon=1, delta="1e-6", queries=100, public_n_users=20000)
    >>> plan.predictor.guarantee.epsilon <= 1, plan.expected_error < 0.2
    (True, True)
    """
    n, relation = (
        positive_int(public_n_users, "public_n_users", minimum=2),
        one_of(Neighbours, neighbours, "neighbours"),
    )
    k, times = positive_int(queries, "queries", maximum=MAX_QUERIES), positive_int(epochs, "epochs", maximum=1 << 10)
    target = rational(epsilon, "epsilon", above=0, maximum=1000) / times
    leak = rational(delta, "delta", minimum=0, below=1) / times
    single = one_of(Unit, unit, "unit") is Unit.ITEM
    top = 1 if single else positive_int(levels, "levels", maximum=1 << 20)
    each = -(-k // times)

    def log_growth(t: int) -> float:
        return math.log(concept.growth(t))

    task = ReductionTask.read(target, 0, _FAILURE, 0, 2, top, relation, log_growth)
    best: tuple[float, float, Fraction, int, float, float, int] | None = None
    for eps_a in (rational(e) for e in _INNER):
        for noise, t, a, b in _splits(task, n, eps_a, leak > 0):
            gamma = _rough_gamma(each, float(eps_a), min(leak * n / t, Fraction(1, 2)))
            apart = math.sqrt(concept.vc_dimension / (n - t)) / 2
            for r in _counts(t):
                total = noise + apart + _envelope(min(0.5, concept.vc_dimension * r / t), gamma, r)
                if best is None or total < best[0]:
                    best = total, noise, eps_a, t, a, b, r
    if best is None:
        shape: dict[str, Any] = {"inner_epsilons": _INNER, "levels": top, "neighbours": relation}
        plan_reduction(n_users=n, epsilon=target, log_growth=log_growth, **shape)  # says what would suffice
        raise InfeasibleError("no split is affordable with these public numbers; ask for a larger epsilon")
    total, noise, eps_a, t, a, b, r = best
    plan = task.settle(n, eps_a, t, a, b)
    # What the relabelling leaves of the budget is spent on the votes, rounded down.
    gamma_exact = gamma_for_transcript(each, plan.eps_A, r, _inner_leak(plan, leak))
    split = (
        {"split_rate": plan.split_rate}
        if relation is Neighbours.ADD_REMOVE
        else {"split_size": plan.split_size, "public_n_users": n}
    )
    relabelling = Relabelling(
        concept,
        plan.A,
        plan.B,
        eta=plan.eta,
        neighbours=relation,
        unit=one_of(Unit, unit, "unit"),
        levels=top,
        max_records=max_records,
        **split,
    )
    predictor = VotePredictor(relabelling, r, gamma_exact, each * times, leak * times, times, target * times)
    rounding = 0.0 if single or max_records == 1 else 1 / top
    return ServicePlan(predictor, min(1.0, total + rounding), noise + rounding)


def _splits(task: ReductionTask, n: int, eps_a: Fraction, leaks: bool) -> Iterator[tuple[float, int, float, float]]:
    """For every size of T to try the least noise, with its costs."""
    t, b = task.rows(n, eps_a)
    tried = np.isin(t, np.floor(SHARES[::_EVERY] * n)) | (t == 1)
    t, b = t[tried], b[tried] * (1 - ROUNDED)
    if leaks and not task.replace:
        # Within K' the transcript's delta is paid times the share of T and no more, whatever the budget.
        b = np.minimum(b, COSTS + math.log(task.g))
    with np.errstate(divide="ignore"):
        noise = np.where(b > 0, task.noise(t, n - t, COSTS * (1 - ROUNDED), b), math.inf)
    for i in np.flatnonzero(np.isfinite(noise).any(axis=1)):
        j = int(np.argmin(noise[i]))
        yield float(noise[i, j]), int(t[i]), float(COSTS[j]), float(b[i, j]) / (1 - ROUNDED)


def _inner_leak(plan: ReductionPlan, delta: Fraction) -> Fraction:
    if delta == 0:
        return delta
    return min(inner_delta(plan.split_rate, plan.a, plan.b, 0, delta, plan.labellings, plan.neighbours), Fraction(1, 2))


def _counts(t: int) -> list[int]:
    """Numbers of voters to try, about 30 % apart; each learns from two records or more on average."""
    top = max(1, min(_MAX_VOTERS, t // 2))
    return sorted({min(top, round(1.3**i)) for i in range(math.ceil(math.log(top) / math.log(1.3)) + 1)})


def _rough_gamma(queries: int, eps_a: float, leak: Fraction) -> float:
    """``gamma`` by the simple conversions, for comparing plans."""
    pure = eps_a / queries / 2
    if leak == 0:
        return pure
    return max(pure, math.sqrt(2 * float(zcdp_budget(eps_a, leak)) / queries))


def _envelope(share: float, gamma: float, r: int) -> float:
    """``bounds.votes.wrong_answer`` in doubles."""
    j = np.arange(r + 1)
    values = 1 / (1 + np.exp(np.clip(-gamma * (2 * j - r), -700, 700)))
    place = share * r
    below = min(math.floor(place), r - 1)
    best = 0.0
    for i in {0, below}:
        ends = np.arange(max(i + 1, math.ceil(place)), r + 1)
        best = max(best, float((values[i] + (place - i) / (ends - i) * (values[ends] - values[i])).max()))
    return best
