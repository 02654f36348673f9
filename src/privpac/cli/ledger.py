"""``privpac ledger``: make, show and verify budget ledgers."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from privpac.cli.app import app
from privpac.cli.options import Json
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger

__all__ = ["ledger"]

ledger = typer.Typer(help="Make, show and verify budget ledgers.", no_args_is_help=True)
app.add_typer(ledger, name="ledger")

Where = Annotated[Path, typer.Argument(help="The ledger's file.")]


@ledger.command()
def new(
    path: Where,
    epsilon: Annotated[str, typer.Option("--epsilon", "-e", help="Total privacy loss allowed.")],
    dataset: Annotated[str, typer.Option(help="A declared name for the dataset.")],
    delta: Annotated[str, typer.Option(help="Total delta allowed.")] = "0",
    unit: Annotated[str, typer.Option(help="user or item.")] = "user",
    neighbours: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    rule: Annotated[str, typer.Option(help="basic (sums) or zcdp (tighter for many releases; needs delta).")] = "basic",
) -> None:
    """Make a ledger with its budget."""
    book = BudgetLedger.create(path, Guarantee(epsilon, delta, unit=unit, neighbours=neighbours), rule=rule, dataset=dataset)
    typer.echo(f"{path}: budget {book.budget.summary} for dataset {book.dataset}")


@ledger.command()
def show(path: Where, json: Json = False) -> None:
    """What was spent, and what is left."""
    book = BudgetLedger.open(path)
    if json:
        typer.echo(book.export_json())
        return
    console = Console(highlight=False, markup=False)
    table = Table("no.", "epsilon", "delta", "what", "when")
    for entry in book.history():
        table.add_row(str(entry.seq), str(float(entry.eps)), str(float(entry.delta)), entry.label, entry.at)
    console.print(table)
    console.print(f"dataset {book.dataset}: budget {book.budget.summary}; left {book.remaining()}")


@ledger.command()
def verify(path: Where, json: Json = False) -> None:
    """Recompute the hash chain and all sums."""
    book = BudgetLedger.open(path)
    book.verify()
    head = book.head()
    typer.echo(json_format.dumps({"ok": True, "head": head}) if json else f"{path}: chain and sums verify; head {head}")
