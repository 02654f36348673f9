"""``privpac ledger``: make, show and verify budget ledgers."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from privpac.cli.app import Commands, app
from privpac.cli.options import Json, open_ledger
from privpac.exact import shown
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger, CompositionRule

ledger = Commands(help="Make, show and verify budget ledgers.", no_args_is_help=True)
app.add_typer(ledger, name="ledger")

Where = Annotated[Path, typer.Argument(help="The ledger's file.")]


@ledger.command("new")
def new_command(
    path: Where,
    epsilon: Annotated[str, typer.Option("--epsilon", "-e", help="Total privacy loss allowed.")],
    dataset: Annotated[str, typer.Option(help="A declared name for the dataset.")],
    delta: Annotated[str, typer.Option(help="Total delta allowed.")] = "0",
    unit: Annotated[str, typer.Option(help="user or item.")] = "user",
    neighbours: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    rule: Annotated[str, typer.Option(help="basic (sums) or zcdp (tighter for many releases; needs delta).")] = "basic",
    json: Json = False,
) -> None:
    """Make a ledger with its budget."""
    book = BudgetLedger.create(
        path, Guarantee(epsilon, delta, unit=unit, neighbours=neighbours), rule=rule, dataset=dataset
    )
    typer.echo(book.export_json() if json else f"{path}: budget {book.budget.summary} for dataset {book.dataset}")


@ledger.command()
def show(path: Where, json: Json = False) -> None:
    """What was spent, and what is left."""
    book = open_ledger(path)
    sessions = _sessions(book)
    if json:
        typer.echo(json_format.dumps(json_format.loads(book.export_json()) | {"sessions": sessions}, indent=1))
        return
    console = Console(highlight=False, markup=False)
    zcdp = book.rule is CompositionRule.ZCDP
    table = Table(
        "no.",
        "epsilon",
        "delta",
        *(["rho"] if zcdp else []),
        Column("what", overflow="fold"),
        Column("when", no_wrap=True),
    )
    for entry in book.history():
        numbers = [entry.eps, entry.delta, *([entry.rho or 0] if zcdp else [])]
        table.add_row(str(entry.seq), *(shown(number) for number in numbers), entry.label, entry.at)
    if table.row_count:
        console.print(table)
    else:
        console.print("nothing was spent yet")
    if sessions:
        answered = Table(
            "spend",
            Column("prediction session", overflow="fold"),
            Column("answered", justify="right"),
            Column("limit", justify="right"),
        )
        for session in sessions:
            answered.add_row(*(str(session[name]) for name in ("seq", "session_id", "answered", "queries")))
        console.print(answered)
    console.print(f"dataset {book.dataset}: budget {book.budget.summary}; left {book.remaining()}", soft_wrap=True)


def _sessions(book: BudgetLedger) -> list[dict[str, int | str]]:
    """Prediction sessions with what they have answered; a session has the id of the spend that paid for it."""
    opened, queries = set(book.queries.sessions()), book.queries
    return [
        {
            "session_id": (name := entry.spend_id),
            "seq": entry.seq,
            "answered": queries.used(name),
            "queries": queries.limit(name),
            "head": queries.head(name),
        }
        for entry in (book.history() if opened else ())
        if entry.spend_id in opened
    ]


@ledger.command()
def verify(
    path: Where,
    published: Annotated[
        str | None, typer.Option(help="A head that was published before: is this history its continuation?")
    ] = None,
    json: Json = False,
) -> None:
    """Read every line: recompute the hash chain, all sums and every checkpoint."""
    book = open_ledger(path)
    head = book.verify(published)
    typer.echo(json_format.dumps({"ok": True, "head": head}) if json else f"{path}: chain and sums verify; head {head}")
