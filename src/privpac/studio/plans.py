"""What a plan says as epsilon moves: certified numbers for a few standard epsilons at once, kept in memory.

A plan is a function of declared facts alone, so it may be shown before anything is released, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from privpac.data.domains import Domain, Integers
from privpac.data.schema_file import Schema
from privpac.errors import PrivpacError
from privpac.exact import rational, shown
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.planning import Plan, plan
from privpac.rules.named import default_rule, rule_class
from privpac.studio.desk import said_promise
from privpac.studio.words import command_line, plan_words

STOPS = ("0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "5", "8", "10")
"""Where the handle of epsilon may stand."""
DEFAULTS = ("hybrid selection", "small tree")
_WIDE = 5


def shown_rule_name(rule: str | None, features: Mapping[str, Domain]) -> str:
    """The kind of rule: as chosen, or the usual one for these columns."""
    return rule or (default_rule(features) if len(features) < _WIDE else "small-tree")


@lru_cache(maxsize=512)
def _asked(
    rule: str, columns: tuple[Any, ...], epsilon: str, alpha: str | None, people: int | None, records: int
) -> Plan:
    told: dict[str, Any] = {"n_users": people} if people is not None else {"alpha": alpha}
    return plan(rule_class(rule, dict(columns)), epsilon=epsilon, records_per_user=[records], **told)


def planned(
    schema: Schema, place: str, *, rule: str | None, epsilon: str, alpha: str, people: int | None, records: int
) -> dict[str, Any]:
    """Numbers of people (or errors, for a known number of them) at an epsilon, and the curve over all of ``STOPS``."""
    features = schema.features
    name, columns = shown_rule_name(rule, features), tuple(features.items())
    rational(epsilon, "epsilon", above=0)
    rational(alpha, "alpha", above=0, below=1)
    unit = Unit.USER if schema.user else Unit.ITEM
    promise = Guarantee(epsilon, 0, unit=unit, neighbours=Neighbours.ADD_REMOVE)
    line = plan_words(place, name, epsilon, alpha, records, people)
    told = said_promise(promise) | {"rule": name, "command": command_line(line)}
    try:
        curve = [(stop, _figures(_asked(name, columns, stop, alpha, None, records), 0)) for stop in STOPS]
        now = _asked(name, columns, epsilon, None if people is not None else alpha, people, records)
    except PrivpacError as error:
        return told | {"words": [str(error)], "rows": [], "curve": []}
    points = [{"epsilon": float(stop), "people": found.get("certified")} for stop, found in curve]
    return told | {"rows": _rows(now, people), "words": _words(now, people, alpha), "curve": points, "people": people}


def _figures(found: Plan, place: int) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for row in found.rows:
        if row.kind == "certified" and row.method in DEFAULTS:
            told["certified"] = row.n_users[place]
        if row.kind == "lower bound":
            told["least"] = max(told.get("least") or 0, row.n_users[place] or 0)
    return told


def _rows(found: Plan, people: int | None) -> list[dict[str, Any]]:
    numbers = "n_users" if people is None else "values"
    return [
        {"method": row["method"], "kind": row["kind"], "number": _number(row[numbers]), "assumption": row["assumption"]}
        for row in found.to_dict(predict=False)["rows"]
    ]


def _number(values: Any) -> str:
    value = values[0] if isinstance(values, (list, tuple)) else values
    if value is None:
        return "–"
    return (
        f"{value:,}" if isinstance(value, int) else shown(rational(value)) if isinstance(value, str) else f"{value:.3g}"
    )


def _words(found: Plan, people: int | None, alpha: str) -> list[str]:
    rows = _rows(found, people)
    usual = next((row for row in rows if row["method"] in DEFAULTS and row["kind"] == "certified"), None)
    if usual is None:
        return []
    if people is None:
        return [
            f"{usual['number']} people are enough for a rule whose error is at most {alpha} above the best of its "
            f"kind, whatever the people are like: proved, and mostly too many."
        ]
    return [
        f"With {people:,} people the error is at most {usual['number']} above the best rule of its kind, whatever the "
        f"people are like: proved, and mostly pessimistic."
    ]


def warm_plans() -> None:
    """Plan something small, so that the first plan of a person does not have to wait for what all plans need."""
    _asked("threshold", (("x", Integers(0, 1)),), "1", "0.05", None, 1)
