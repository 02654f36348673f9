"""Which method for a class of rules: by the rules of ``choose_method``, and by what the plan itself predicts.

Everything is a function of public numbers and of a model that is stated or supplied, never of the private table.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privpac.planning.choice import Choice
from privpac.planning.choose import choose_method
from privpac.planning.models.rule_models import simulable

if TYPE_CHECKING:
    from privpac.planning.plans import Plan
    from privpac.planning.targets.rule_targets import RuleTarget

__all__ = ["CLEARLY", "better_certificate", "recommend_rules"]

_SOME = 100
"""People to compare methods on where nothing is certified for any number of them."""
CLEARLY = 1.25
"""So many times the users of another method are within what a simulation of a few data sets can tell apart."""


def recommend_rules(target: RuleTarget, plan: Plan) -> Choice:
    """The method for the middle one of the numbers of records per user."""
    asked: Any = plan.asked
    m, setting, users = plan.records_per_user[plan.place], asked.setting, asked.n_users
    spent = target.changed(epsilon=plan.epsilon_at(plan.place)) if plan.quantity == "epsilon" else target
    if users is not None or not _by_numbers(spent, setting, m):
        return _choice(spent, setting, users, m)
    typical = _typical(plan, target) if target.population is None and plan.quick else None
    if typical is not None:
        return typical
    stands, where = _standing(plan, target)
    choice = _choice(spent, setting, stands, m)
    return choice if stands is None else replace(choice, reason=f"{choice.reason}; {where}")


def better_certificate(plan: Plan) -> str:
    """Which method to name where its certificate is better than that of two voices, in words; empty where none is.

    Two voices are one law, and what is proved of it charges both of them; a method of one voice may be certified for
    less.
    """
    better = []
    for place, m in enumerate(plan.records_per_user):
        own = plan.best("voices", place) or math.inf
        best, method = min((plan.best(key, place) or math.inf, key) for key in ("mean", "regret"))
        if best < own < math.inf:
            compared = f"{plan.written(best)} instead of {plan.written(own)}"
            better.append(f"method='{method}' with {m:,} record{'s' * (m != 1)} per user ({compared})")
    what = "fewer users" if plan.quantity == "users" else f"a smaller {plan.quantity}"
    return f"for a certificate with {what} than the default's, name {', '.join(better)}" if better else ""


def _choice(target: RuleTarget, setting: str | None, users: int | None, m: int) -> Choice:
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


def _by_numbers(target: RuleTarget, setting: str | None, m: int) -> bool:
    """Whether the choice between methods takes a number of users."""
    return target.population is not None or (setting != "realizable" and (m > 1 or target.users == "heavy"))


def _typical(plan: Plan, target: RuleTarget) -> Choice | None:
    """The method with the fewest typical users, as the plan shows them; the default unless another needs clearly
    fewer."""
    predicted = {row.key: row for row in plan.predicted}
    users = {
        key: n
        for key in ("voices", "regret", "mean")
        if key in predicted and (n := predicted[key].values[plan.place]) is not None
    }
    if not users:
        return None
    best = min(users, key=lambda key: users[key])
    kept = "voices" in users and users["voices"] <= CLEARLY * users[best]
    said = ", ".join(f"{key} {n:,}" for key, n in users.items())
    near = f"; {best} does not need clearly fewer" if kept and best != "voices" else ""
    goal = f"{target.measure} {float(target.alpha):g}"
    reason = f"predicted users for {goal}: {said} ({predicted[best].assumption}){near}"
    return Choice("voices" if kept else best, reason, "predicted")


def _standing(plan: Plan, target: RuleTarget) -> tuple[int | None, str]:
    """Where somebody stands who did not say how many people there are: where the wanted accuracy is within reach, on
    the stated model.

    The certified number would judge methods on the worst law's terms, where all of them are good enough for the
    reader's.
    """
    assert plan.asked is not None
    m, setting = plan.records_per_user[plan.place], plan.asked.setting
    if plan.quick:
        rows: list[Any] = [
            row.values[plan.place] for row in plan.predicted if setting == "realizable" or row.key != "realizable"
        ]
    else:
        first = [made for made in target.simulations(setting) if made.key != "realizable"][:1]
        rows = [made.users(m) for made in first]
    fewest = min((n for n in rows if n is not None), default=None)
    if fewest is not None:
        return fewest, f"judged at the fewest users that typically reach {float(target.alpha):g}"
    certified: Any = plan.best("voices", plan.place)
    return certified, "judged at the certified number of users, since no simulated one reaches the accuracy"
