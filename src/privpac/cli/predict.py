"""``privpac predict``: apply a saved rule; costs no privacy."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from privpac.cli.app import app, working
from privpac.cli.options import HeaderLine, Json, Names, Separator, check_targets, csv_format, table_argument
from privpac.cli.saved import rule_and_result
from privpac.data.readers import MISSING_TEXTS, read_files
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.result import Released
from privpac.rules.base import Rule
from privpac.rules.chances import NO_CHANCES

_COLUMN = "prediction"


def chance_columns(rule: Rule, released: Released) -> list[str]:
    """The names of the columns of chances; refused where there are none."""
    if not released.has_chances:
        raise ParameterError(NO_CHANCES)
    return [f"chance_{name}" for name in rule.names or ("0", "1")]


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A rule saved by: privpac learn --out model.json")],
    table: Annotated[str, table_argument("New records: a .parquet or .csv file, or a glob of them.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write predictions to .csv or .parquet instead of the terminal.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", "-k", help="A column to show beside the predictions, such as an id. Repeat."),
    ] = None,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities", help="Add the chance of each label, such as chance_1, if the rule has chances."
        ),
    ] = False,
    threshold: Annotated[
        str | None,
        typer.Option("--threshold", help="Say 1 where the chance of 1 is above this, from 0 to 1, such as 1/3 or 0.2."),
    ] = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    json: Json = False,
) -> None:
    """Predict 0 or 1 for each row of a table, in its order: a column called prediction.

    privpac predict rule.json new.csv --keep patient --out predicted.csv

    privpac predict rule.json new.csv --probabilities --threshold 0.2

    Values outside the rule's domain are clamped; missing values are refused.
    """
    passed_on = list(dict.fromkeys(keep or []))
    if _COLUMN in passed_on:
        raise ParameterError(f"--keep {_COLUMN}: the predictions are called so; leave it out, or rename that column")
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise ParameterError(f"--out must end in .csv or .parquet, got {out.name!r}")
    check_targets({"--out": out}, {"the model": model, "the table": table})
    written = csv_format(separator, header, names)
    rule, released = rule_and_result(model, "nothing can be predicted")
    shown = chance_columns(rule, released) if probabilities else []
    twice = [name for name in passed_on if name in shown]
    if twice:
        raise ParameterError(f"--keep {twice[0]}: chances are called so; leave it out, or rename that column")
    cut = None if threshold is None else rational(threshold, "threshold", minimum=0, maximum=1)
    if cut is not None and not released.has_chances:
        raise ParameterError(NO_CHANCES)
    with working("predicting"):
        columns, _ = read_files(table, list(dict.fromkeys([*rule.reads, *passed_on])), MISSING_TEXTS, written)
        read = {name: columns[name] for name in rule.reads}
        answers = released.predict(read, cut)
        chances = released.predict_proba(read).T if shown else []
    frame = pl.DataFrame(
        {**{name: columns[name] for name in passed_on}, _COLUMN: answers, **dict(zip(shown, chances, strict=True))}
    )
    if out is None:
        body = frame.to_dicts() if passed_on or shown else answers.tolist()
        typer.echo(json_format.dumps(body, default=str) if json else frame.write_csv(), nl=json)
        return
    try:
        frame.write_csv(out) if out.suffix == ".csv" else frame.write_parquet(out)
    except OSError as error:
        raise ParameterError(f"cannot write {str(out)!r}: {error.strerror}; choose a writable place") from None
