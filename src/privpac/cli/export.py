"""``privpac export``: a saved rule in another language; costs no privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privpac.cli.app import app
from privpac.cli.options import check_targets
from privpac.cli.saved import saved_rule
from privpac.errors import ParameterError
from privpac.files import write_durably
from privpac.rules.export.code import LANGUAGES
from privpac.rules.export.sql import DIALECTS

_TARGETS = ("sql", *LANGUAGES, "csv", "table")


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A rule saved by: privpac learn --out model.json")],
    to: Annotated[str, typer.Option("--to", help=f"What to write: {', '.join(_TARGETS)}.")],
    dialect: Annotated[str | None, typer.Option(help=f"Which SQL: {', '.join(DIALECTS)}.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to a file instead of the terminal.")] = None,
) -> None:
    """Write a saved rule as SQL, as a function, or a scorecard as a table.

    privpac export rule.json --to sql --dialect duckdb

    The result says what privpac predict says. Scorecards also have csv and table.
    """
    if to not in _TARGETS:
        raise ParameterError(f"--to must be one of {', '.join(_TARGETS)}, got {to[:40]!r}")
    if dialect is not None and to != "sql":
        raise ParameterError(f"--dialect goes with --to sql, got --to {to}")
    check_targets({"--out": out}, {"the model": model})
    rule = saved_rule(model, "nothing can be exported")
    if to in LANGUAGES:
        text = rule.to_code(to)
    else:
        text = {"csv": rule.to_csv, "table": rule.to_table}[to]() if to != "sql" else rule.to_sql(dialect or "ansi")
    if out is None:
        typer.echo(text.removesuffix("\n"))
    else:
        write_durably(out, (text.removesuffix("\n") + "\n").encode())
