"""``privpac domains``: a schema file to edit, from names, types and public knowledge."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from attrs import asdict

from privpac.cli.app import app
from privpac.cli.declared import schema_features
from privpac.cli.options import (
    TABLE,
    HeaderLine,
    Json,
    Names,
    OnInvalidOption,
    Separator,
    check_targets,
    csv_format,
    table_argument,
)
from privpac.data.domains import MissingRule
from privpac.data.schema_file import OPEN, Schema
from privpac.data.suggest import chosen, suggest_domains
from privpac.errors import ParameterError


@app.command()
def domains(
    table: Annotated[str, table_argument("A .parquet or .csv file, a glob, or a folder: names and types are read.")],
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Column with the person's id; guessed from the names.")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", "-y", help="Column to predict; guessed from the names.")
    ] = None,
    positive: Annotated[str | None, typer.Option(help="The label value that is predicted, such as dead.")] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature", "-f", help="Only these columns: name (domain suggested), or name=lo:hi as for learn. Repeat."
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(help="own (an answer of its own), drop or raise. Default: own from five columns on, else drop."),
    ] = None,
    unit: Annotated[
        str, typer.Option(help="user, or item: every record is a person of its own.", rich_help_panel=TABLE)
    ] = "user",
    on_invalid: OnInvalidOption = None,
    ranges_are_public: Annotated[
        bool,
        typer.Option(
            "--ranges-are-public",
            help="The owner's word that least and greatest values and categories of this table are public.",
        ),
    ] = False,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the schema file; else it is shown.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write over an existing file.", rich_help_panel=TABLE)
    ] = False,
    json: Json = False,
) -> None:
    """Write a schema file to edit: what everybody may know about the columns, never read off the values.

    privpac domains visits.parquet --user patient --label event --out visits.toml

    privpac learn visits.parquet --schema visits.toml --epsilon 1
    """
    if missing not in (None, "own", "drop", "raise"):
        raise ParameterError(f"missing must be own, drop or raise, got {missing!r}")
    rule: MissingRule | None = missing  # type: ignore[assignment]
    check_targets({"--out": out}, {"the table": table})
    if out is not None and out.exists() and not overwrite:
        raise ParameterError(f"{str(out)!r} exists already, and a person may have edited it; choose another name")
    options = {"user": user, "label": label, "positive": positive, "missing": rule, "unit": unit}
    options |= asdict(csv_format(separator, header, names))
    suggested = suggest_domains(table, ranges_are_public=ranges_are_public, **options)  # type: ignore[arg-type]
    picked = schema_features(suggested, feature or [])
    if picked is not None:
        suggested = chosen(suggested, picked)
    if on_invalid is not None:
        suggested = chosen(suggested, dict.fromkeys(suggested.columns), on_invalid=on_invalid)
    if out is not None:
        suggested.save(out)
    if json:
        typer.echo(json_format.dumps(_plain(suggested), indent=2))
    elif out is None:
        typer.echo(suggested.to_toml(), nl=False)
    else:
        typer.echo(f"schema written to {out}; {_next(suggested, table, out)}")


def _next(schema: Schema, table: str, out: Path) -> str:
    if schema.open:
        return f"a person has to declare {', '.join(schema.open)} there (each {OPEN!r}), and to check the rest"
    return f"check it, then: privpac learn {table} --schema {out} --epsilon 1"


def _plain(schema: Schema) -> dict[str, object]:
    columns = {name: OPEN if domain is None else domain.to_schema() for name, domain in schema.columns.items()}
    declared = {"user": schema.user, "label": schema.label, "positive": schema.positive}
    declared |= {"on_invalid": schema.on_invalid, "on_invalid_label": schema.on_invalid_label}
    return {**declared, "missing": schema.missing, "columns": columns}
