"""What a plan says beyond its certificates: the method to use and why, and what a stated model lets expect.

Everything is a function of public numbers and of a model that is stated or supplied, never of the private table.
Predictions are simulated with fixed seeds, so the same question has the same answer; they hold for their model only.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from privpac.errors import PrivpacWarning
from privpac.guarantee import Model
from privpac.learners.registry import METHODS, simulated_methods
from privpac.planning.choose import Choice, choose_method
from privpac.planning.inversion import InversePlan, InverseRow
from privpac.planning.models.agreement_models import agreement_simulations
from privpac.planning.models.family_models import family_simulations
from privpac.planning.models.rule_models import MOST_RECORDS, rule_simulations
from privpac.planning.models.simulation import SETTLED, MeanSimulation
from privpac.planning.plans import Plan, PlanRow
from privpac.planning.targets.agreement_targets import AgreementTarget
from privpac.planning.targets.family_targets import FamilyTarget
from privpac.planning.targets.median_targets import MedianTarget
from privpac.planning.targets.rule_targets import Target

__all__ = [
    "better_certificate",
    "enough_for",
    "measure_of",
    "predicted_rows",
    "predicted_values",
    "quick",
    "recommend",
    "rows_of",
    "simulations",
]

_SOME = 100
"""People to compare methods on where nothing is certified for any number of them."""
CLEARLY = 1.25
"""So many times the users of another method are within what a simulation of a few data sets can tell apart."""
_SIMULATED = "mean {} on one simulated model, {}"
_MEAN, _CAPPED = "mean {} at most alpha", "runs ended at their public number: the standard error is {:.0%}, not {:.0%}"
_EPSILONS = (1e-3, 100.0)
_SMALL = 1 << 12
"""Classes up to this size are simulated without being asked."""
_STEPS = 7


# The recommendation


def recommend(plan: Plan | InversePlan) -> Choice | None:
    """The method for the middle one of the numbers of records per user; None for a plan that was put together by
    hand."""
    if plan.asked is None:
        return None
    place = len(plan.records_per_user) // 2
    m, target, users = plan.records_per_user[place], plan.asked.target, plan.asked.n_users
    if isinstance(target, Target):
        asked = (
            target
            if isinstance(plan, Plan) or plan.quantity == "alpha"
            else replace(target, epsilon=epsilon_found(plan, place))
        )
        if users is not None or not _by_numbers(asked, plan.asked.setting, m):
            return _choice(asked, plan.asked.setting, users, m)
        typical = (
            _typical(plan, place) if isinstance(plan, Plan) and target.population is None and quick(plan) else None
        )
        if typical is not None:
            return typical
        stands, where = _standing(plan, place)
        choice = _choice(asked, plan.asked.setting, stands, m)
        return choice if stands is None else replace(choice, reason=f"{choice.reason}; {where}")
    if hasattr(target, "recommend"):
        found: Choice = target.recommend(users, m)
        return found
    return _fewest(plan, place)


def better_certificate(plan: Any) -> str:
    """Which method to name where its certificate is better than that of two voices, in words; empty where none is.

    Two voices are one law, and what is proved of it charges both of them; a method of one voice may be certified for
    less.
    """
    found = []
    for place, m in enumerate(plan.records_per_user):
        own, (best, method) = (
            _best(plan, "voices", place),
            min((_best(plan, name, place), name) for name in ("mean", "regret")),
        )
        if best < own < math.inf:
            said = ["{:,}" if isinstance(plan, Plan) else "{:.3g}"] * 2
            shown = " instead of ".join(said).format(best, own)
            found.append(f"method='{method}' with {m:,} record{'s' * (m != 1)} per user ({shown})")
    what = (
        "fewer users"
        if isinstance(plan, Plan)
        else f"a smaller {plan.quantity}"
        if isinstance(plan, InversePlan)
        else ""
    )
    return f"for a certificate with {what} than the default's, name {', '.join(found)}" if found else ""


def _best(plan: Any, method: str, place: int) -> float:
    """What is certified for a method; infinite where nothing is."""
    if isinstance(plan, Plan):
        return enough_for(plan, method, place) or math.inf
    values = [row.values[place] for row in rows_of(plan.rows, method)] if isinstance(plan, InversePlan) else []
    return min((float(value) for value in values if value is not None), default=math.inf)


def _choice(target: Target, setting: str | None, users: int | None, m: int) -> Choice:
    """By the rules of ``choose_method``, at no more records than can be simulated in a moment."""
    modelled = target.users is not None or target.population is not None
    within, each = (None, m) if users is None and not modelled else simulable(users or _SOME, m)
    return choose_method(
        target.concept,
        epsilon=target.epsilon,
        neighbours=target.neighbours,
        setting=setting or "agnostic",
        public_n_users=within,
        records_per_user=each,
        noise=target.noise if target.model_noise is None else target.model_noise,
        people=target.users,
        population=target.population,
    )


def _by_numbers(target: Target, setting: str | None, m: int) -> bool:
    """Whether the choice between methods takes a number of users."""
    return target.population is not None or (setting != "realizable" and (m > 1 or target.users == "heavy"))


def _typical(plan: Plan, place: int) -> Choice | None:
    """The method with the fewest typical users, as the plan shows them; the default unless another needs clearly
    fewer."""
    shown = {row.method: row.n_users[place] for row in plan.predicted}
    titles = {method: METHODS[method].title for method in simulated_methods("agnostic")}
    found = {method: n for method, title in titles.items() if (n := shown.get(title)) is not None}
    if not found or plan.asked is None:
        return None
    best = min(found, key=lambda method: found[method])
    kept = "voices" in found and found["voices"] <= CLEARLY * found[best]
    said = ", ".join(f"{method} {n:,}" for method, n in found.items())
    near = f"; {best} does not need clearly fewer" if kept and best != "voices" else ""
    model = next(row.assumption for row in plan.predicted if row.method == titles[best])
    goal = f"{measure_of(plan.asked.target)} {float(plan.asked.target.alpha):g}"
    return Choice("voices" if kept else best, f"predicted users for {goal}: {said} ({model}){near}")


def _standing(plan: Plan | InversePlan, place: int) -> tuple[int | None, str]:
    """Where somebody stands who did not say how many people there are: where the wanted accuracy is within reach, on
    the stated model.

    The certified number would judge methods on the worst law's terms, where all of them are good enough for the
    reader's.
    """
    assert plan.asked is not None
    target, m = plan.asked.target, plan.records_per_user[place]
    if isinstance(plan, Plan) and quick(plan):
        rows = [
            row.n_users[place]
            for row in plan.predicted
            if plan.asked.setting == "realizable" or row.method != METHODS["realizable"].title
        ]
    else:
        first = [
            made for made in simulations(target, plan.asked.setting) if made.method != METHODS["realizable"].title
        ][:1]
        rows = [made.users(m) for made in first]
    fewest = min((n for n in rows if n is not None), default=None)
    if fewest is not None:
        return fewest, f"judged at the fewest users that typically reach {float(target.alpha):g}"
    certified = enough_for(plan, "voices", place) if isinstance(plan, Plan) else None
    return certified, "judged at the certified number of users, since no simulated one reaches the accuracy"


def _fewest(plan: Plan | InversePlan, place: int) -> Choice:
    """The method with the best certified number."""
    held = f"with {plan.records_per_user[place]:,} record{'s' * (plan.records_per_user[place] != 1)} per user"
    if isinstance(plan, Plan):
        found = {row.method: row.n_users[place] for row in plan.rows if row.kind == "certified"}
        what, shown = "users", "{:,}"
    else:
        found = {row.method: row.values[place] for row in plan.rows if row.kind == "certified"}  # type: ignore[misc]
        what, shown = plan.quantity, "{:.3g}"
    known = sorted(
        ((float(value), method) for method, value in found.items() if value is not None), key=lambda pair: pair[0]
    )
    if not known:
        return Choice(next(iter(found), "none"), f"nothing is certified {held}")
    compared = ", ".join(
        f"{method} {shown.format(value if what != 'users' else round(value))}" for value, method in known
    )
    return Choice(known[0][1], f"the least certified {what} {held}: {compared}")


def rows_of(rows: Any, method: str) -> list[Any]:
    """The certified rows of a method: its own, and the one that knows a bound on the noise."""
    name = METHODS[method].title if method in METHODS and METHODS[method].simulated else method
    return [row for row in rows if row.kind == "certified" and row.method in (name, f"{name}, bounded noise")]


def enough_for(plan: Plan, method: str, place: int = 0) -> int | None:
    """The least number of users that the plan certifies for the method."""
    return min(
        (row.n_users[place] for row in rows_of(plan.rows, method) if row.n_users[place] is not None), default=None
    )


def epsilon_found(plan: Plan | InversePlan, place: int) -> Fraction:
    """The epsilon found for the default method, or the least one found, for one number of records; 1 where there is
    none."""
    rows = plan.rows if isinstance(plan, InversePlan) and plan.quantity == "epsilon" else ()
    found = {row.method: row.values[place] for row in rows if row.kind == "certified"}
    best = (
        found["two voices"]
        if "two voices" in found
        else min((value for value in found.values() if value), default=None)
    )
    return best or Fraction(1)


def simulable(n: int, m: int) -> tuple[int, int]:
    """Users and records to simulate for so many: fewer records each where they would be too many."""
    users = min(n, MOST_RECORDS)
    return users, min(m, max(2, MOST_RECORDS // users))


# Predictions


def simulations(target: Any, setting: str | None) -> list[MeanSimulation]:
    """What can be simulated for a target."""
    if not isinstance(target, Target):
        if isinstance(target, AgreementTarget):
            return [*agreement_simulations(target)]
        found: list[MeanSimulation] = (
            target.simulations(setting) if hasattr(target, "simulations") else [*family_simulations(target)]
        )
        return found
    return [*rule_simulations(target, setting)]


def measure_of(target: Any) -> str:
    """What ``alpha`` bounds."""
    if isinstance(target, MedianTarget):
        return "share of ranks"
    return "total variation" if isinstance(target, FamilyTarget) else "excess error"


def quick(plan: Plan | InversePlan) -> bool:
    """Whether the predictions of a plan take a moment only, judged from the sizes asked for."""
    if plan.asked is not None and isinstance(plan.asked.target, AgreementTarget):
        few = len(plan.records_per_user) == 1 or plan.asked.target.model is not Model.CENTRAL
        return few and getattr(plan, "quantity", "users") != "epsilon"
    if plan.asked is None:
        return True
    if not isinstance(plan.asked.target, Target):
        return all(getattr(made, "quick", True) for made in simulations(plan.asked.target, plan.asked.setting))
    concept, n = plan.asked.target.concept, plan.asked.n_users
    records = 0 if n is None else sum(min(n * m, 64 * MOST_RECORDS) for m in plan.records_per_user)
    if isinstance(plan, InversePlan) and plan.quantity == "epsilon":
        records *= _STEPS
    return records <= 32 * MOST_RECORDS and (not concept.rule_by_rule or concept.size <= _SMALL)


def predicted_rows(plan: Plan) -> tuple[PlanRow, ...]:
    """Users needed on the model, for every method that can be simulated."""
    if plan.asked is None:
        return ()
    rows = []
    for simulation in simulations(plan.asked.target, plan.asked.setting):
        what = measure_of(plan.asked.target)
        found = [simulation.found(m) for m in plan.records_per_user]
        error = max((error for _, error in found), default=0.0)
        note = _CAPPED.format(error, SETTLED) if error > SETTLED * 1.0001 else ""
        users, assumed = tuple(n for n, _ in found), _SIMULATED.format(what, simulation.model)
        rows.append(PlanRow(simulation.method, "predicted", assumed, users, note, _MEAN.format(what), round(error, 4)))
    return tuple(rows)


def predicted_values(plan: InversePlan) -> tuple[InverseRow, ...]:
    """The mean excess error on the model, or the epsilon at which it is at most alpha."""
    if plan.asked is None or plan.asked.n_users is None:
        return ()
    n, target, rows = plan.asked.n_users, plan.asked.target, []
    for simulation in simulations(target, plan.asked.setting):
        find: Callable[[int], float | None]
        errors: list[float] = []
        if plan.quantity == "alpha":

            def find(m: int, simulation: MeanSimulation = simulation, errors: list[float] = errors) -> float | None:
                found = simulation.at(m, n, target.epsilon)
                errors.append(0.0 if found is None else found.relative)
                return None if found is None else found.excess
        else:

            def find(m: int, simulation: MeanSimulation = simulation) -> float | None:
                return _least_epsilon(simulation, m, n, float(target.alpha))

        values = tuple(None if (value := find(m)) is None else _three(value) for m in plan.records_per_user)
        what, error = measure_of(target), max(errors, default=0.0)
        stated = f"mean {what}" if plan.quantity == "alpha" else _MEAN.format(what)
        note = _CAPPED.format(error, SETTLED) if error > SETTLED * 1.0001 else ""
        assumed = _SIMULATED.format(what, simulation.model)
        rows.append(InverseRow(simulation.method, "predicted", values, assumed, note, stated, round(error, 4)))
    return tuple(rows)


def _least_epsilon(simulation: MeanSimulation, m: int, n: int, alpha: float) -> float | None:
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
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
    return math.exp(high)


def _three(value: float) -> Fraction:
    """Three significant digits."""
    return Fraction(f"{value:.3g}")
