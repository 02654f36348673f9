"""``privpac predict``: apply a saved rule; costs no privacy."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from privpac.api import load
from privpac.cli.app import app, working
from privpac.cli.options import Json, check_targets
from privpac.concepts.base import Rule
from privpac.data.readers import read_files
from privpac.errors import ModelFileError, NoReleaseError, ParameterError

__all__ = ["predict"]


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A rule saved by: privpac learn --out model.json")],
    table: Annotated[str, typer.Argument(help="New records: a .parquet or .csv file, or a glob of them.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write predictions to .csv or .parquet instead of the terminal.")
    ] = None,
    json: Json = False,
) -> None:
    """Predict 0 or 1 for each row of a table, in its order.

    Values outside the rule's domain are clamped; missing values are refused.
    """
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise ParameterError(f"--out must end in .csv or .parquet, got {out.name!r}")
    check_targets({"--out": out}, {"the model": model, "the table": table})
    released = load(model)
    if not released:
        raise NoReleaseError(f"{str(model)!r} holds no rule: nothing was released, so nothing can be predicted")
    rule = released.hypothesis
    if not isinstance(rule, Rule):
        raise ModelFileError(f"{str(model)!r} holds a {type(rule).__name__}, not a rule: it does not predict")
    with working("predicting"):
        columns, _ = read_files(table, list(rule.reads))
        answers = rule.predict(columns)
    frame = pl.DataFrame({rule.label if rule.label != "1" else "prediction": answers})
    if out is None:
        typer.echo(json_format.dumps(answers.tolist()) if json else frame.write_csv(), nl=json)
        return
    try:
        frame.write_csv(out) if out.suffix == ".csv" else frame.write_parquet(out)
    except OSError as error:
        raise ParameterError(f"cannot write {str(out)!r}: {error.strerror}; choose a writable place") from None
