"""``privpac cap``: a private number of records that most people do not exceed, for ``--max-records`` later on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privpac.api import release_rule
from privpac.cli.app import app, working
from privpac.cli.deliver import check_recovery, deliver
from privpac.cli.options import (
    Epsilon,
    Features,
    Json,
    NeighboursOption,
    OnInvalid,
    check_targets,
    features_of,
    open_ledger,
)
from privpac.data import UserData
from privpac.learners.cap import DEFAULT_GRID, CapSelection

__all__ = ["cap"]


@app.command()
def cap(
    table: Annotated[str, typer.Argument(help="A .parquet or .csv file, or a glob of them.")],
    user: Annotated[str, typer.Option("--user", "-u", help="Column with the person's id.")],
    feature: Features,
    epsilon: Epsilon,
    share: Annotated[str, typer.Option("--share", help="About so many people hold no more records than the cap.")] = (
        "9/10"
    ),
    choice: Annotated[
        list[int] | None, typer.Option("--choice", help="A cap to choose from; 1, 2, 4, ... if none is named. Repeat.")
    ] = None,
    neighbours: NeighboursOption = "add-remove",
    on_invalid: OnInvalid = "raise",
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="Budget ledger to spend from (made with: privpac ledger new).")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the released cap as JSON.")] = None,
    json: Json = False,
) -> None:
    """Buy a cap on the records read per person: the longest list of records in a table is not public.

    The columns are those that will be learned from: records that are left out there do not count here.

    privpac cap visits.parquet --user patient --feature glucose=40:400 --epsilon 0.1 --ledger budget.db
    """
    features = features_of(feature)
    learner = CapSelection(epsilon, share, tuple(choice) if choice else DEFAULT_GRID, neighbours)
    check_targets({"--out": out}, {"the table": table, "--ledger": ledger})
    book = None if ledger is None else open_ledger(ledger)
    check_recovery(ledger)
    with working("reading the table"):
        data = UserData.read(table, user=user, features=features, on_invalid=on_invalid)
    with working("choosing"):
        released = release_rule(learner, data, ledger=book)
    said = (
        f"{released.hypothesis} records, {released.guarantee}; next: privpac learn --max-records {released.hypothesis}"
    )
    deliver(released, "cap", released.to_json() if json else said, {"cap": (out, released.save)}, ledger, note=not json)
