"""``privpac predict``: apply a saved rule; costs no privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from privpac.api import load
from privpac.cli.app import app
from privpac.cli.options import Json
from privpac.data import UserData
from privpac.errors import ParameterError

__all__ = ["predict"]


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A rule saved by: privpac learn --out model.json")],
    table: Annotated[str, typer.Argument(help="New records: a .parquet or .csv file.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write predictions to .csv or .parquet instead of the terminal.")] = None,
    json: Json = False,
) -> None:
    """Predict 0 or 1 for each row of a table, in its order."""
    released = load(model)
    rule = released.hypothesis
    data = UserData.read(table, user=None, features=dict(rule.features), on_invalid="clamp")
    answers = rule.predict_codes(data.codes)
    frame = pl.DataFrame({rule.label if rule.label != "1" else "prediction": answers})
    if out is None:
        typer.echo(frame.to_series().to_list() if json else frame.write_csv(), nl=json)
    elif out.suffix == ".csv":
        frame.write_csv(out)
    elif out.suffix == ".parquet":
        frame.write_parquet(out)
    else:
        raise ParameterError(f"--out must end in .csv or .parquet, got {out.name}")
