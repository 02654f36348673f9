"""``privpac quantile``: a table in, a private median or other quantiles out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.api.quantiles import METHODS, quantile_learner
from privpac.cli.app import app
from privpac.cli.declared import SchemaFile, table_facts
from privpac.cli.deliver import deliver, released_from
from privpac.cli.options import (
    METHOD,
    Epsilon,
    Features,
    HeaderLine,
    Json,
    Ledger,
    MaxRecords,
    Names,
    NeighboursOption,
    OnInvalid,
    People,
    Separator,
    Table,
    User,
    check_targets,
    csv_options,
)
from privpac.distributions.quantiles.quantile_learner import WEIGHTS

__all__ = ["quantile"]


@app.command()
def quantile(
    table: Table,
    epsilon: Epsilon,
    feature: Features = None,
    user: User = None,
    schema: SchemaFile = None,
    q: Annotated[
        list[str] | None, typer.Option("--q", "-q", help="A quantile such as 1/2 (the default) or 0.9. Repeat.")
    ] = None,
    weight: Annotated[
        str,
        typer.Option(
            "--weight",
            help=f"{', '.join(WEIGHTS)}: everybody alike, everybody's own quantile, one record each, or every record.",
        ),
    ] = "user",
    interval: Annotated[
        bool, typer.Option("--interval", help="Also release an interval around every quantile (three numbers each).")
    ] = False,
    confidence: Annotated[str, typer.Option("--confidence", help="How sure all statements are at once.")] = "0.95",
    max_records: MaxRecords = None,
    method: Annotated[str, typer.Option("--method", help=f"{', '.join(METHODS)}.", rich_help_panel=METHOD)] = "auto",
    delta: Annotated[
        str, typer.Option("--delta", "-d", help="Only for --method walks, e.g. 1e-6.", rich_help_panel=METHOD)
    ] = "0",
    people: People = None,
    neighbours: NeighboursOption = "add-remove",
    on_invalid: OnInvalid = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    ledger: Ledger = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the released quantiles as JSON.")] = None,
    json: Json = False,
) -> None:
    """Release the median of a column, or other quantiles, with what is certain about their ranks.

    privpac quantile people.parquet --user id --feature income=0:1000000 --epsilon 1 -q 1/4 -q 1/2 -q 3/4
    """
    facts = table_facts(schema, user=user, feature=feature, on_invalid=on_invalid)
    options: dict[str, Any] = {"weight": weight, "interval": interval, "confidence": confidence}
    learner = quantile_learner(
        q=q or ["1/2"],
        epsilon=epsilon,
        unit=facts.unit,
        max_records=max_records,
        neighbours=neighbours,
        method=method,
        delta=delta,
        public_n_users=people,
        **options,
    )
    learner.check_domains(facts.features)
    check_targets({"--out": out}, {"the table": table, "--ledger": ledger, "--schema": schema})
    released = released_from(table, facts.reading | csv_options(separator, header, names), ledger, learner, "learning")
    text = released.to_json() if json else str(released)
    deliver(released, "quantiles", text, {"quantiles": (out, released.save)}, ledger, note=not json)
