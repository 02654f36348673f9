"""``privpac learn``: a table in, a private rule out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from privpac.api import learn as learn_rule
from privpac.api import learner_for
from privpac.cli.app import NOTHING, app, working
from privpac.cli.options import Epsilon, Features, Json, Label, NeighboursOption, Rule, User, features_of
from privpac.concepts.named import rule_class
from privpac.data import UserData
from privpac.guarantee import Unit
from privpac.ledger import BudgetLedger

__all__ = ["learn"]


@app.command()
def learn(
    table: Annotated[str, typer.Argument(help="A .parquet or .csv file, or a glob of them.")],
    label: Label,
    feature: Features,
    epsilon: Epsilon,
    user: User = None,
    rule: Rule = "threshold",
    setting: Annotated[str, typer.Option(help="agnostic (labels may be wrong) or realizable (some rule is right).")] = "agnostic",
    method: Annotated[str, typer.Option(help="auto, regret, mean or realizable.")] = "auto",
    neighbours: NeighboursOption = "add-remove",
    max_records: Annotated[int | None, typer.Option(help="Public cap on the records read per person. Not needed for privacy.")] = None,
    public_n_users: Annotated[int | None, typer.Option(help="A rough, publicly known number of people; saves 1/16 of epsilon.")] = None,
    on_invalid: Annotated[str, typer.Option(help="raise, drop or clamp values outside their domain.")] = "raise",
    ledger: Annotated[Path | None, typer.Option(help="Budget ledger to spend from (made with: privpac ledger new).")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the released rule as JSON.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML report.")] = None,
    json: Json = False,
) -> None:
    """Learn one rule with differential privacy per person.

    privpac learn visits.parquet --user patient --label event --feature glucose=40:400 --epsilon 1
    """
    features = features_of(feature)
    concept = rule_class(rule, features)
    options = {"setting": setting, "method": method, "neighbours": neighbours, "max_records": max_records, "public_n_users": public_n_users}
    learner_for(concept, epsilon=epsilon, unit=Unit.USER if user else Unit.ITEM, **options)  # parameters first, then the file
    book = None if ledger is None else BudgetLedger.open(ledger)
    with working("reading the table"):
        data = UserData.read(table, user=user, features=features, label=label, on_invalid=on_invalid)
    with working("learning"):
        released = learn_rule(data, concept, epsilon=epsilon, ledger=book, **options)
    if out is not None:
        released.save(out)
    if report is not None:
        from privpac.report import write_report

        write_report(released, concept, report)
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if json:
        typer.echo(released.to_json())
    else:
        console.print(str(released))
        if book is not None:
            console.print(f"budget left in {book.dataset}: {book.remaining()}")
        for name, path in (("rule", out), ("report", report)):
            if path is not None:
                console.print(f"{name} written to {path}")
    if not released:
        raise typer.Exit(NOTHING)
