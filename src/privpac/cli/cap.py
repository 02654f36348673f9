"""``privpac cap``: a private number of records that most people do not exceed, for ``--max-records`` later on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privpac.cli.app import app
from privpac.cli.deliver import deliver, released_from
from privpac.cli.options import (
    Epsilon,
    Features,
    HeaderLine,
    Json,
    Ledger,
    Names,
    NeighboursOption,
    OnInvalid,
    Separator,
    Table,
    check_targets,
    csv_options,
    features_of,
)
from privpac.methods.cap import DEFAULT_GRID, CapSelection

__all__ = ["cap"]


@app.command()
def cap(
    table: Table,
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
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    ledger: Ledger = None,
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
    declared = {"user": user, "features": features, "on_invalid": on_invalid} | csv_options(separator, header, names)
    released = released_from(table, declared, ledger, learner, "choosing")
    said = (
        f"{released.hypothesis} records, {released.guarantee}; next: privpac learn --max-records {released.hypothesis}"
    )
    deliver(released, "cap", released.to_json() if json else said, {"cap": (out, released.save)}, ledger, note=not json)
