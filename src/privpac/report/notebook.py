"""What a notebook shows: a small card for a result, a promise, a plan, data, a budget or an evaluation.

A card holds what ``print`` would say, a picture where there is one, and the rest folded away.  Of data it shows the
declared schema and nothing else: no value, no range found in the table, no count of people or records.  Every value
is escaped by the template, as on all pages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from privpac.data import UserData
from privpac.data.check import DataCheck
from privpac.data.domains import invalid_words
from privpac.errors import MissingExtra, ParameterError
from privpac.evaluation import Evaluation
from privpac.exact import shown
from privpac.guarantee import Guarantee, Unit
from privpac.ledger import BudgetLedger
from privpac.planning import Plan
from privpac.planning.plans import NAMES, meanings, row_cells
from privpac.report.distribution import distribution_picture
from privpac.report.pages import WORDS, page, promise_lines
from privpac.report.plots import NO, YES
from privpac.report.rule import bars_picture, rule_picture
from privpac.result import Released
from privpac.rules.base import Rule

_MOST_LINES = 12


def fragment(value: object) -> str:
    """The card of one value as HTML text."""
    empty: dict[str, object] = {
        "picture": "",
        "key": None,
        "lines": [],
        "tables": [],
        "notes": [],
        "rests": "What this rests on",
    }
    for kind, card in _CARDS.items():
        if isinstance(value, kind):
            return page("notebook.html", **(empty | card(value)))
    raise ParameterError(f"a notebook shows no card of a {type(value).__name__}; print it")


def _released(value: Released) -> dict[str, object]:
    rows = [("method", value.learner)] if value.learner else []
    rows += [("outcome", value.outcome), *((WORDS.get(name, name), said) for name, said in value.parameters.items())]
    if isinstance(value.value, Rule):
        rows += [(f"domain of {name}", domain.describe()) for name, domain in value.value.features.items()]
    found = [line for item in value.findings.values() for line in str(item).splitlines()]
    default = ["no answer: the public default stands in"] if value.outcome == "default" else []
    return _said(value.value) | {
        "released": value,
        "lines": [*str(value.value).splitlines()[1:], *found, *default][:_MOST_LINES],
        "odds": None if value.guarantee is None else value.guarantee.odds,
        "warnings": value.warnings,
        "tables": [{"title": "What was public", "pairs": rows}],
    }


def _said(value: object) -> dict[str, object]:
    """The first line of a value, and its picture."""
    picture = _picture(value)
    key = (YES, NO, value.label) if picture and isinstance(value, Rule) and value.picture == "domain" else None
    return {"said": str(value).splitlines()[0] if str(value) else "", "picture": picture, "key": key}


def _picture(value: object) -> Markup | str:
    """The picture of a rule, a distribution or an evaluation; empty where words say it all."""
    try:
        if isinstance(value, Evaluation):
            return bars_picture(value)
        return rule_picture(value) if isinstance(value, Rule) else distribution_picture(value)
    except MissingExtra:  # a card without a picture says the same
        return ""


def _rule(value: Rule) -> dict[str, object]:
    rows = [(name, domain.describe()) for name, domain in value.features.items()]
    return _said(value) | {
        "lines": str(value).splitlines()[1 : _MOST_LINES + 1],
        "tables": [{"title": "Columns", "pairs": rows}],
    }


def _plan(value: Plan) -> dict[str, object]:
    everything = [*value.rows, *(value.predicted if value.quick else ())]
    rows = value.main_rows(predict=value.predicts) if value.short else everything
    told = {row.kind: NAMES[row.kind] for row in rows}
    choice = value.recommendation
    target = ", ".join(f"{name} {said}" for name, said in value.target.items())
    return {
        "said": value.answer() if value.short else value.title[0].upper() + value.title[1:],
        "lines": [target, *([f"Recommended: {choice.method}, because {choice.reason}"] if choice else [])],
        "grid": {
            "sizes": [f"{m:,}" for m in value.records_per_user],
            "groups": [
                (
                    name,
                    [
                        (r.method, [cell.replace("-", "–", cell == "-") for cell in row_cells(value, r)])
                        for r in rows
                        if r.kind == kind
                    ],
                )
                for kind, name in told.items()
            ],
        },
        "notes": [
            *(f"{NAMES[kind]}: {said}" for kind, said in meanings(value).items() if kind in told),
            *(row.words() for row in rows),
        ],
    }


def _data(value: UserData) -> dict[str, object]:
    """The schema only: what was declared, which is public."""
    protected = "a person with all their records" if value.unit is Unit.USER else "a single record"
    rows = [
        (name, "no domain declared yet" if domain is None else domain.describe())
        for name, domain in value.features.items()
    ]
    if value.labels is not None:
        labels = ", ".join(value.classes) if value.classes else "0 or 1"
        rows.append((value.label_name or "label", f"label: {labels}"))
    return {
        "said": "People's records" if value.unit is Unit.USER else "Records",
        "lines": [f"protected: {protected}", *_rules(value)],
        "tables": [{"title": "", "pairs": rows}],
        "rests": "What is not shown",
        "notes": ["Values, ranges and counts found in the table are private."],
    }


def _rules(value: UserData) -> list[str]:
    """What happens to values outside their domain and to missing ones."""
    refused = ["values outside their domain: refused before anything is spent"] if value.on_invalid == "raise" else []
    return refused + [line for line in invalid_words(value.on_invalid, value.features).split("; ") if line]


def _check(value: DataCheck) -> dict[str, object]:
    """For the curator, who says so by asking; no page of ours holds it."""
    rows = [(f"{found.column}, {found.what}", f"{found.records:,}: {found.reason}") for found in value.columns]
    labels = [(f"label {found.label}", f"{found.records:,}") for found in value.labels]
    return {
        "said": "What was read",
        "warnings": value.warnings,
        "lines": [
            f"records: {value.records_read:,} read, {value.records_kept:,} kept",
            f"people: {value.people_read:,} read, {value.people_kept:,} kept",
        ],
        "tables": [{"title": "", "pairs": rows + labels + [*value.records_per_person.items()]}],
        "rests": "Only you see this",
        "notes": [value.notice],
    }


def _ledger(value: BudgetLedger) -> dict[str, object]:
    spent = [(str(line.seq), shown(line.eps), shown(line.delta), line.label, line.at) for line in value.history()]
    return {
        "said": f"Budget of {value.dataset}" if value.dataset else "Budget",
        "promise": value.budget,
        "lines": [f"left: {value.remaining()}", *([] if spent else ["nothing was spent yet"])],
        "spent": spent,
    }


_CARDS: dict[type, Callable[[Any], dict[str, object]]] = {
    Released: _released,
    Rule: _rule,
    Evaluation: lambda value: {"said": value.sentence(), "lines": value.notes(), "picture": _picture(value)},
    Guarantee: lambda value: {"promise": value, "lines": promise_lines(value), "notes": value.derivation},
    Plan: _plan,
    UserData: _data,
    DataCheck: _check,
    BudgetLedger: _ledger,
}
