"""``privpac evaluate``, ``select-model`` and ``best-error``: how good is it, which is best, how good can it be?"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.api import evaluation as library
from privpac.cli.jobs import Job, command
from privpac.cli.options import METHOD, TABLE, Json, Ledger, LedgerHead, Report, TreeText, tree_of, wants_tree
from privpac.cli.saved import saved_rule
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.evaluation import Evaluation
from privpac.evaluation.evaluator import Evaluator
from privpac.methods.registry import named_class
from privpac.result import Released
from privpac.rules.base import RULES, Rule
from privpac.rules.named import default_rule

_COLUMN = "column:"

_Engine = Annotated[
    str, typer.Option(help="auto, memory, stream (Parquet larger than memory) or spark.", rich_help_panel=TABLE)
]
_Out = Annotated[Path | None, typer.Option("--out", "-o", help="Save the result as JSON.")]


def _predictor(text: str) -> tuple[Any, dict[str, Domain | None]]:
    """What ``rule.json`` or ``column:NAME`` names, and the columns it reads."""
    if text.startswith(_COLUMN):
        name = text.removeprefix(_COLUMN)
        if not name:
            raise ParameterError("name the column of predictions: column:predicted")
        return name, {name: None}
    rule = saved_rule(text, "there is nothing to evaluate")
    return rule, {name: rule.features[name] for name in rule.reads or rule.features}


def _with_rates(released: Released) -> str:
    """JSON with everything that follows from the released sums beside them."""
    body = json_format.loads(released.to_json())
    evaluation = released.value if isinstance(released.value, Evaluation) else released.evaluation
    if evaluation is not None:
        body["rates"] = {
            name: {
                "value": rate.value,
                "sample": [rate.sample.lo, rate.sample.hi],
                "population": None if rate.population is None else [rate.population.lo, rate.population.hi],
                "typical": None if rate.typical is None else [rate.typical.lo, rate.typical.hi],
            }
            for name, rate in evaluation.rates.items()
        }
    return json_format.dumps(body, indent=1)


@command(
    library.evaluate,
    leave_out="labels rowwise moments levels ledger",
    panels={METHOD: "weight neighbours confidence"},
    help={
        "cells": "regions (leaves, bands), table (2x2), or error: only right and wrong, with less noise.",
        "weight": "user: every person counts the same; record: needs --max-records.",
        "confidence": "Of each interval on its own.",
        "same_people": "The rule was learned from these people: nothing is said about others.",
    },
    features=False,
    labels=True,
    engine=_Engine,
)
def evaluate_command(
    predictor: Annotated[str, typer.Argument(help="A saved rule (rule.json), or column:NAME of 0/1 predictions.")],
    job: Job,
    ledger: Ledger = None,
    ledger_head: LedgerHead = None,
    out: _Out = None,
    report: Report = None,
    json: Json = False,
    **options: Any,
) -> None:
    """How often is a rule right on these people, and on new people from the same population?  With differential privacy
    per person.

    privpac evaluate rule.json visits.parquet --user patient --label event --epsilon 0.5 --report good.html
    """
    model, columns = _predictor(predictor)
    job.columns.update(columns)
    job.sources["the predictor"] = predictor
    learner = Evaluator(model, unit=job.spec.unit, **options)
    subject = f"the rule “{model}”" if isinstance(model, Rule) else f"the predictions in {model}"

    def write(released: Released, path: Path, _: Any) -> None:
        from privpac.report import write_evaluation_report

        write_evaluation_report(released, path, subject=subject)

    job.release(
        learner,
        "evaluation",
        "evaluating",
        report=write,
        shown=lambda released: f"{subject}\n{released}",
        json=_with_rates,
    )


@command(
    library.select_model,
    leave_out="labels rowwise ledger",
    panels={METHOD: "neighbours confidence"},
    help={
        "evaluate": "Share of the people set aside to measure the chosen one, such as 1/5.",
        "ids": "Under replace: private, or public (known to all, and fixed).",
        "confidence": "Of each interval on its own.",
    },
    features=False,
    labels=True,
    engine=_Engine,
)
def select_model_command(
    job: Job,
    model: Annotated[
        list[str], typer.Option("--model", help="name=rule.json, or name=column:NAME of 0/1 predictions. Repeat.")
    ],
    ledger: Ledger = None,
    out: _Out = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Choose the best of some fixed models with differential privacy per person; the price grows with log k.

    privpac select-model visits.parquet --model a=first.json --model b=second.json -u patient -y event --epsilon 1
    """
    named = [text.partition("=") for text in model]
    if any(not name or not place for name, _, place in named):
        raise ParameterError("a model is written name=rule.json or name=column:NAME")
    if len({name for name, _, _ in named}) != len(named):
        raise ParameterError("a model is named twice")
    models = {name: _predictor(place) for name, _, place in named}
    job.sources.update({f"--model {name}": place for name, _, place in named if not place.startswith(_COLUMN)})
    for _, reads in models.values():
        for name, domain in reads.items():
            if job.columns.get(name, domain) not in (None, domain):
                raise ParameterError(f"the models declare different domains for the column {name!r}")
            job.columns[name] = job.columns.get(name) or domain
    predictors = {name: predictor for name, (predictor, _) in models.items()}
    learner = library.selection_learner(predictors, unit=job.spec.unit, **options)
    job.release(learner, "choice", "choosing", json=_with_rates)


@command(
    library.best_error,
    leave_out="ledger",
    panels={METHOD: "neighbours confidence"},
    help={
        "confidence": "Of each interval on its own.",
        "method": "sum (with a bound), oneshot or bisect (within --radius); auto.",
        "radius": "Accuracy aimed at by oneshot and bisect.",
    },
    labels=True,
    engine=_Engine,
)
def best_error_command(
    job: Job,
    rule: Annotated[
        str | None, typer.Option("--rule", "-r", help=f"{', '.join(RULES)}; branch for --tree.", show_default=False)
    ] = None,
    tree: TreeText = None,
    ledger: Ledger = None,
    out: _Out = None,
    json: Json = False,
    **options: Any,
) -> None:
    """How well can any rule of a kind do?  A private lower bound on the least error, for new people from the same
    population.

    privpac best-error visits.parquet --user patient --label event --feature glucose=40:400 --epsilon 0.5
    """
    grown = tree_of(tree or "", job.options["feature"] or []) if wants_tree(rule, tree) else None
    if grown is not None:
        job.columns.update(grown.columns)
    domains = job.spec.domains
    concept = named_class(rule or default_rule(domains), domains, "auto") if grown is None else grown
    learner = library.best_error_learner(concept, unit=job.spec.unit, **options)
    job.release(learner, "bound", "measuring")
