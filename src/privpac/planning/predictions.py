"""What a stated model lets expect of the methods of a plan: simulated with fixed seeds, so the same question has the
same answer; it holds for its model only."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from privpac.errors import PrivpacWarning
from privpac.least import half_way, narrow
from privpac.planning.models.rule_models import EPSILON_STEPS
from privpac.planning.models.simulation import SETTLED, Simulation
from privpac.planning.rows import PlanRow

if TYPE_CHECKING:
    from privpac.planning.plans import Plan

__all__ = ["predicted_rows"]

_EPSILONS = (1e-3, 100.0)


def predicted_rows(plan: Plan) -> tuple[PlanRow, ...]:
    """For every method that can be simulated on the model, the number that the plan is about: users, or an epsilon, at
    which the mean loss is at most alpha, or that mean."""
    if plan.asked is None:
        return ()
    target, quantity, rows = plan.asked.target, plan.quantity, []
    for simulation in target.simulations(plan.asked.setting):
        numbers = [_predicted(plan, simulation, m) for m in plan.records_per_user]
        error = max((error for _, error in numbers), default=0.0)
        capped = f"runs ended at their public number: the standard error is {error:.0%}, not {SETTLED:.0%}"
        row = PlanRow(
            simulation.method,
            "predicted",
            f"mean {target.measure} on one simulated model, {simulation.model}",
            tuple(value for value, _ in numbers),
            capped if error > SETTLED * 1.0001 else "",
            f"mean {target.measure}" + ("" if quantity == "alpha" else " at most alpha"),
            round(error, 4),
            quantity,
            simulation.key,
        )
        rows.append(row)
    return tuple(rows)


def _predicted(plan: Plan, simulation: Simulation, m: int) -> tuple[Any, float]:
    """The number for ``m`` records per user, and its standard error as a share."""
    assert plan.asked is not None
    if plan.quantity == "users":
        return simulation.found(m)
    target, n = plan.asked.target, plan.asked.n_users
    assert n is not None
    if plan.quantity == "epsilon":
        least = _least_epsilon(simulation, m, n, float(target.alpha))
        return (None if least is None else _three(least)), 0.0
    mean = simulation.at(m, n, target.epsilon)
    return (None, 0.0) if mean is None else (_three(mean.excess), mean.relative)


def _least_epsilon(simulation: Simulation, m: int, n: int, alpha: float) -> float | None:
    """The least epsilon with a mean excess of at most ``alpha``, by bisection on a logarithmic scale; the error falls
    with epsilon."""

    def enough(exponent: float) -> bool:
        found = simulation.at(m, n, _three(math.exp(exponent)), alpha)
        return found is not None and found.excess <= alpha

    low, high = (math.log(end) for end in _EPSILONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released, however large the epsilon
        if not enough(high):
            return None
        return math.exp(narrow(enough, low, high, middle=half_way, steps=EPSILON_STEPS)[1])


def _three(value: float) -> Fraction:
    """Three significant digits."""
    return Fraction(f"{value:.3g}")
