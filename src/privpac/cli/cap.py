"""``privpac cap``: a private number of records that most people do not exceed, for ``--max-records`` later on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.cli.jobs import Job, command
from privpac.cli.options import Json, Ledger
from privpac.errors import ParameterError
from privpac.methods.cap import DEFAULT_GRID, CapSelection, private_cap


@command(
    private_cap,
    leave_out="rng ledger",
    flags={"quantile": ("--share",), "grid": ("--choice",)},
    help={
        "quantile": "About so many people hold no more records than the cap.",
        "grid": "A cap to choose from; 1, 2, 4, ... if none is named. Repeat.",
    },
)
def cap(
    job: Job,
    ledger: Ledger = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the released cap as JSON.")] = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Buy a cap on the records read per person: the longest list of records in a table is not public.

    The columns are those that will be learned from: records that are left out there do not count here.

    privpac cap visits.parquet --user patient --feature glucose=40:400 --epsilon 0.1 --ledger budget.db
    """
    if job.spec.user is None:
        raise ParameterError("a cap is on the records of one person: name the column of ids with --user")
    options["grid"] = tuple(options["grid"] or DEFAULT_GRID)
    job.release(
        CapSelection(**options),
        "cap",
        "choosing",
        shown=lambda made: f"{made.value} records, {made.guarantee}; next: privpac learn --max-records {made.value}",
    )
