"""``privpac check``: what becomes of a table when it is read, for the curator's eyes; spends nothing."""

from __future__ import annotations

import json as json_format
import os
import sys
from typing import Any

import typer

from privpac.api.check import check_declared
from privpac.api.tables import choose_engine
from privpac.cli.app import app, working
from privpac.cli.declared import SchemaFile, table_facts
from privpac.cli.options import (
    Classes,
    Engine,
    Features,
    HeaderLine,
    Json,
    Label,
    LabelMap,
    MaxRecords,
    Names,
    OnInvalid,
    OnInvalidLabel,
    Positive,
    Separator,
    Tables,
    User,
    csv_options,
)
from privpac.data.check import DataCheck
from privpac.data.readers import CsvFormat

__all__ = ["check"]


@app.command()
def check(
    table: Tables,
    label: Label = None,
    feature: Features = None,
    user: User = None,
    schema: SchemaFile = None,
    max_records: MaxRecords = None,
    on_invalid: OnInvalid = None,
    on_invalid_label: OnInvalidLabel = None,
    label_map: LabelMap = None,
    positive: Positive = None,
    classes: Classes = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    engine: Engine = "auto",
    json: Json = False,
) -> None:
    """Show what is read of a table, what is repaired or dropped, and why: for the curator only, spends nothing.

    privpac check visits.csv --user patient --label died --feature age=0:110 --on-invalid clamp

    privpac check visits.parquet --schema visits.toml
    """
    told: dict[str, Any] = {"label_map": label_map, "positive": positive, "classes": classes, "on_invalid": on_invalid}
    told |= {"on_invalid_label": on_invalid_label}
    written = CsvFormat(**csv_options(separator, header, names))
    facts = table_facts(schema, user=user, feature=feature, label=label, labelled=True, optional_label=True, **told)
    with working("reading the table"):
        found = check_declared(table, facts.declared, max_records, choose_engine(table, engine), written)
    typer.echo(json_format.dumps(found.to_dict(), indent=1) if json else _coloured(found))


def _coloured(found: DataCheck) -> str:
    """On a terminal warnings are red."""
    terminal = sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    text = str(found)
    for line in found.warnings if terminal else ():
        text = text.replace(f"warning: {line}", typer.style(f"warning: {line}", fg="red", bold=True))
    return text
