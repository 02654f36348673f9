"""``privpac evaluate``, ``choose`` and ``least-error``: how good is it, which is best, how good can it be?"""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.api.evaluation import choice_learner, least_error_learner
from privpac.api.learn import release_rule, warn_item_level
from privpac.api.tables import choose_engine, read_users
from privpac.cli.app import app, working
from privpac.cli.declared import SchemaFile, table_facts
from privpac.cli.deliver import check_recovery, deliver
from privpac.cli.options import (
    METHOD,
    TABLE,
    Epsilon,
    Features,
    HeaderLine,
    Json,
    Label,
    LabelMap,
    Ledger,
    LedgerHead,
    MaxRecords,
    Names,
    NeighboursOption,
    OnInvalid,
    OnInvalidLabel,
    Positive,
    RecordsPerUser,
    Report,
    Separator,
    Tables,
    TreeText,
    User,
    check_targets,
    csv_options,
    spending_ledger,
    tree_of,
    wants_tree,
)
from privpac.cli.saved import saved_rule
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.evaluation import Evaluation
from privpac.evaluation.evaluator import Evaluator
from privpac.ledger import check_room
from privpac.methods.registry import named_class
from privpac.result import Released
from privpac.rules.base import ConceptClass, Rule
from privpac.rules.hierarchies import VC1Tree
from privpac.rules.named import RULES, default_rule

__all__ = ["choose", "evaluate", "least_error"]

COLUMN = "column:"

Confidence = Annotated[str, typer.Option(help="Of each interval on its own.", rich_help_panel=METHOD)]
Engine = Annotated[
    str, typer.Option(help="auto, memory, stream (Parquet larger than memory) or spark.", rich_help_panel=TABLE)
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Save the result as JSON.")]


def _predictor(text: str) -> tuple[Any, dict[str, Domain | None]]:
    """What ``rule.json`` or ``column:NAME`` names, and the columns it reads."""
    if text.startswith(COLUMN):
        name = text.removeprefix(COLUMN)
        if not name:
            raise ParameterError("name the column of predictions: column:said")
        return name, {name: None}
    rule = saved_rule(text, "there is nothing to evaluate")
    return rule, {name: rule.features[name] for name in rule.reads or rule.features}


def _release(
    learner: Any,
    table: str,
    engine: str,
    ledger: Path | None,
    doing: str,
    reading: Mapping[str, Any],
    head: str | None = None,
) -> Released:
    """Ask the ledger for room, read the people, and only then spend."""
    book = spending_ledger(ledger, head)
    check_recovery(ledger)
    check_room(learner, book)
    engine = choose_engine(table, engine)
    bar: Callable[[str], Any] = nullcontext if engine == "stream" else working  # streams show the rows they read
    with bar("reading the table"):
        data = read_users(table, engine=engine, **reading)
    warn_item_level(data)
    with bar(doing):
        return release_rule(learner, data, ledger=book)


def _shown(released: Released) -> str:
    """JSON with everything that follows from the released sums beside them."""
    body = json_format.loads(released.to_json())
    found = released.hypothesis if isinstance(released.hypothesis, Evaluation) else released.evaluation
    if found is not None:
        rates = found.rates.items()
        body["rates"] = {
            name: {"value": r.value, "these": _ends(r.these), "like": None if r.like is None else _ends(r.like)}
            for name, r in rates
        }
    return json_format.dumps(body, indent=1)


def _ends(interval: Any) -> list[float]:
    return [interval.lo, interval.hi]


@app.command()
def evaluate(
    predictor: Annotated[str, typer.Argument(help="A saved rule (rule.json), or column:NAME of 0/1 predictions.")],
    table: Tables,
    epsilon: Epsilon,
    label: Label = None,
    user: User = None,
    schema: SchemaFile = None,
    cells: Annotated[str, typer.Option(help="table (2x2), or error: only right and wrong, with less noise.")] = "table",
    weight: Annotated[
        str,
        typer.Option(help="user: every person counts the same; record: needs --max-records.", rich_help_panel=METHOD),
    ] = "user",
    max_records: MaxRecords = None,
    neighbours: NeighboursOption = "add-remove",
    confidence: Confidence = "0.95",
    same_people: Annotated[
        bool,
        typer.Option("--same-people", help="The rule was learned from these people: nothing is said about others."),
    ] = False,
    on_invalid: OnInvalid = None,
    on_invalid_label: OnInvalidLabel = None,
    label_map: LabelMap = None,
    positive: Positive = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    engine: Engine = "auto",
    ledger: Ledger = None,
    ledger_head: LedgerHead = None,
    out: Out = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """How often is a rule right on these people, and on people like these?  With differential privacy per person.

    privpac evaluate rule.json visits.parquet --user patient --label event --epsilon 0.5 --report good.html
    """
    model, columns = _predictor(predictor)
    said: dict[str, Any] = {"label": label, "on_invalid": on_invalid, "label_map": label_map, "positive": positive}
    said |= {"on_invalid_label": on_invalid_label}
    facts = table_facts(schema, user=user, feature=columns, labelled=True, **said)
    check_targets(
        {"--out": out, "--report": report},
        {"the predictor": predictor, "the table": table, "--ledger": ledger, "--schema": schema},
    )
    asked: dict[str, Any] = {"epsilon": epsilon, "cells": cells, "weight": weight, "max_records": max_records}
    asked |= {"neighbours": neighbours, "confidence": confidence, "same_people": same_people}
    learner = Evaluator(model, unit=facts.unit, **asked)
    reading = facts.reading | csv_options(separator, header, names)
    released = _release(learner, table, engine, ledger, "evaluating", reading, ledger_head)
    subject = f"the rule “{model}”" if isinstance(model, Rule) else f"the predictions in {model}"
    writes = {
        "evaluation": (out, released.save),
        "report": (report, lambda path: _report(released, path, subject)),
    }
    text = _shown(released) if json else f"{subject}\n{released}"
    deliver(released, "evaluation", text, writes, ledger, note=not json)


def _report(released: Released, path: Path, subject: str) -> None:
    from privpac.report import write_evaluation_report

    write_evaluation_report(released, path, subject=subject)


@app.command()
def choose(
    table: Tables,
    model: Annotated[
        list[str], typer.Option("--model", help="name=rule.json, or name=column:NAME of 0/1 predictions. Repeat.")
    ],
    epsilon: Epsilon,
    label: Label = None,
    user: User = None,
    schema: SchemaFile = None,
    evaluate: Annotated[
        str | None, typer.Option(help="Share of the people set aside to measure the chosen one, such as 1/5.")
    ] = None,
    ids: Annotated[str, typer.Option(help="Under replace: private, or public (known to all, and fixed).")] = "private",
    max_records: MaxRecords = None,
    neighbours: NeighboursOption = "add-remove",
    confidence: Confidence = "0.95",
    on_invalid: OnInvalid = None,
    on_invalid_label: OnInvalidLabel = None,
    label_map: LabelMap = None,
    positive: Positive = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    engine: Engine = "auto",
    ledger: Ledger = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Choose the best of some fixed models with differential privacy per person; the price grows with log k.

    privpac choose visits.parquet --model a=first.json --model b=second.json --user patient --label event --epsilon 1
    """
    named = [text.partition("=") for text in model]
    if any(not name or not place for name, _, place in named):
        raise ParameterError("a model is written name=rule.json or name=column:NAME")
    if len({name for name, _, _ in named}) != len(named):
        raise ParameterError("a model is named twice")
    found = {name: _predictor(place) for name, _, place in named}
    columns: dict[str, Domain | None] = {}
    for _, reads in found.values():
        for name, domain in reads.items():
            if columns.get(name, domain) not in (None, domain):
                raise ParameterError(f"the models declare different domains for the column {name!r}")
            columns[name] = columns.get(name) or domain
    said: dict[str, Any] = {"label": label, "on_invalid": on_invalid, "label_map": label_map, "positive": positive}
    said |= {"on_invalid_label": on_invalid_label}
    facts = table_facts(schema, user=user, feature=columns, labelled=True, **said)
    check_targets({"--out": out}, {"the table": table, "--ledger": ledger, "--schema": schema})
    asked: dict[str, Any] = {"epsilon": epsilon, "evaluate": evaluate, "ids": ids, "max_records": max_records}
    asked |= {"neighbours": neighbours, "confidence": confidence}
    learner = choice_learner({name: kept for name, (kept, _) in found.items()}, unit=facts.unit, **asked)
    reading = facts.reading | csv_options(separator, header, names)
    released = _release(learner, table, engine, ledger, "choosing", reading)
    text = _shown(released) if json else str(released)
    deliver(released, "choice", text, {"choice": (out, released.save)}, ledger, note=not json)


@app.command("least-error")
def least_error(
    table: Tables,
    epsilon: Epsilon,
    label: Label = None,
    feature: Features = None,
    user: User = None,
    schema: SchemaFile = None,
    rule: Annotated[
        str | None, typer.Option("--rule", "-r", help=f"{', '.join(RULES)}; branch for --tree.", show_default=False)
    ] = None,
    tree: TreeText = None,
    max_records: MaxRecords = None,
    neighbours: NeighboursOption = "add-remove",
    confidence: Confidence = "0.95",
    method: Annotated[str, typer.Option(help="sum (with a bound), oneshot or bisect (within --radius); auto.")] = "sum",
    radius: Annotated[str, typer.Option(help="Accuracy aimed at by oneshot and bisect.")] = "1/8",
    records_per_user: RecordsPerUser = None,
    on_invalid: OnInvalid = None,
    on_invalid_label: OnInvalidLabel = None,
    label_map: LabelMap = None,
    positive: Positive = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    engine: Engine = "auto",
    ledger: Ledger = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """How well can any rule of a kind do?  A private lower bound on the least error, for people like these.

    privpac least-error visits.parquet --user patient --label event --feature glucose=40:400 --epsilon 0.5
    """
    concept: ConceptClass | VC1Tree
    grown = tree_of(tree or "", feature or []) if wants_tree(rule, tree) else None
    said: dict[str, Any] = {"label": label, "on_invalid": on_invalid, "label_map": label_map, "positive": positive}
    said |= {"on_invalid_label": on_invalid_label}
    facts = table_facts(schema, user=user, feature=feature if grown is None else grown.columns, labelled=True, **said)
    concept = named_class(rule or default_rule(facts.features), facts.features, "auto") if grown is None else grown
    check_targets({"--out": out}, {"the table": table, "--ledger": ledger, "--schema": schema})
    asked: dict[str, Any] = {"epsilon": epsilon, "max_records": max_records, "neighbours": neighbours}
    asked |= {"method": method, "radius": radius, "records_per_user": records_per_user}
    learner = least_error_learner(concept, unit=facts.unit, confidence=confidence, **asked)
    reading = facts.reading | csv_options(separator, header, names)
    released = _release(learner, table, engine, ledger, "measuring", reading)
    text = released.to_json() if json else str(released)
    deliver(released, "bound", text, {"bound": (out, released.save)}, ledger, note=not json)
