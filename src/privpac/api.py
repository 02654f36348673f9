"""What most people touch: ``learn`` a private rule, ``load`` a saved one.

``learn`` chooses a learner from public quantities only, spends from the ledger if one is given, and returns a
``Released``: the rule, its guarantee, the public parameters used, and nothing else that depends on the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from privpac.concepts.base import ConceptClass
from privpac.data import Users
from privpac.errors import ItemLevelWarning, ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit, one_of
from privpac.learners.base import Learner
from privpac.ledger import BudgetLedger, release
from privpac.released import Released

__all__ = ["METHODS", "learn", "learner_for", "load"]


def _regret(common: Mapping[str, Any], options: dict[str, Any]) -> Learner:
    from privpac.learners.regret import RegretSelection

    return RegretSelection(**common, **options)


def _mean(common: Mapping[str, Any], options: dict[str, Any]) -> Learner:
    return _regret(common, options | {"statistic": "mean"})


def _realizable(common: Mapping[str, Any], options: dict[str, Any]) -> Learner:
    from privpac.learners.realizable import RealizableSelection

    options.pop("public_n_users", None)
    return RealizableSelection(**common, **options)


METHODS: dict[str, Callable[[Mapping[str, Any], dict[str, Any]], Learner]] = {
    "regret": _regret,
    "mean": _mean,
    "realizable": _realizable,
}
"""Methods by name; ``auto`` picks among them from public quantities."""


def learner_for(
    concept: ConceptClass,
    *,
    epsilon: Rational,
    method: str = "auto",
    setting: str = "agnostic",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    unit: Unit | str = Unit.USER,
    max_records: int | None = None,
    **options: Any,
) -> Learner:
    """The learner that ``learn`` would run; data are not needed to build it."""
    if setting not in ("agnostic", "realizable"):
        raise ParameterError(f"setting must be 'agnostic' (labels may be wrong) or 'realizable' (some rule is right), got {setting!r}")
    if method != "auto" and method not in METHODS:
        raise ParameterError(f"method must be 'auto' or one of {', '.join(sorted(METHODS))}; got {method!r}")
    chosen = ("realizable" if setting == "realizable" else "regret") if method == "auto" else method
    exact: Fraction = rational(epsilon, "epsilon", above=0)
    common = {
        "concept": concept,
        "epsilon": exact,
        "neighbours": one_of(Neighbours, neighbours, "neighbours"),
        "unit": one_of(Unit, unit, "unit"),
        "max_records": max_records,
    }
    return METHODS[chosen](common, {name: value for name, value in options.items() if value is not None})


def learn(
    data: Users,
    concept: ConceptClass,
    *,
    epsilon: Rational,
    method: str = "auto",
    setting: str = "agnostic",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    max_records: int | None = None,
    ledger: BudgetLedger | None = None,
    not_before: float | None = None,
    **options: Any,
) -> Released:
    """Learn one rule of ``concept`` from ``data`` with ``epsilon``-differential privacy per user.

    Give epsilon and a class over public domains; everything else has a default.  ``setting="realizable"`` when some rule is
    known to be right, ``"agnostic"`` (default) for real, noisy labels.  ``public_n_users=`` declares a rough number of users,
    ``method=`` names a method, further options are those of its learner.

    **Guarantees.** ``(epsilon, 0)``-DP per user for the chosen relation (per record, with an ``ItemLevelWarning``, when the data
    have no user column).  Schema errors are raised before anything is spent; afterwards nothing data-dependent is
    raised, warned or logged.

    | case | behaviour |
    |---|---|
    | no users, one user, users without records | the law of the edge case is sampled; no error, no warning |
    | a user with a million records | counts as one user |
    | no user column | item level, said loudly |

    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0), (80, 1)], [(20, 0)], [(90, 1), (50, 1)]], features={"age": pp.Integers(0, 99)})
    >>> rule = pp.learn(people, pp.Thresholds(), epsilon=1)
    >>> rule.guarantee.summary
    '(1, 0)-DP per user, add-remove'
    """
    if data.unit == Unit.ITEM:
        warnings.warn(
            "no user column: single records are protected, not people; someone with many records is protected much less",
            ItemLevelWarning,
            stacklevel=2,
        )
    learner = learner_for(
        concept,
        epsilon=epsilon,
        method=method,
        setting=setting,
        neighbours=neighbours,
        unit=data.unit,
        max_records=max_records,
        **options,
    )
    return release(learner, data, ledger=ledger, not_before=not_before)


def load(path: str | Path) -> Released:
    """Read a saved result."""
    import privpac.concepts.named  # noqa: F401  # registers every kind of rule

    return Released.load(path)
