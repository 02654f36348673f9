"""Tables larger than memory: time and peak memory of the engines against a plain group-by of the same file.

    python benchmarks/scale.py [--rows 1000000 5000000 20000000] [--growth 5000000] [--spark] [--markdown] [--folder
    DIR]

One Parquet table per size (seeded; about 20 records per user, one user with 10**6): sorted by user, and shuffled.
``--growth`` changes the number of users and of distinct values of shuffled tables with that many rows.  Every job runs
in a process of its own, after a small warm-up that compiles kernels, and tells its wall time and its peak memory above
what was in use before.  The job: the scores of all 1442 cuts of a column, per-user mean error, as a learner would fold
them, checks included.  The limits beside it read the same columns of the same file: polars' streaming engine groups by
user and adds up two columns, and writes nothing back.  With ``--spark`` the same on a local Spark of two threads, in
one session, against Spark's own group-by.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from common import Grid, forget_peak, measured, peak_mib
from rich.console import Console

import privpac as pp
from privpac.rules.profile import Mean, Profile

LARGEST, PER_USER, VALUES, GROUP = 10**6, 20, 1441, 1 << 20
SPARK_ROWS = 2 * 10**7
IN_MEMORY = 5 * 10**7
"""Tables with more rows are not read into memory."""
CONCEPT = pp.Thresholds(feature="minute")


def schema(values: int) -> dict[str, Any]:
    return {"user": "who", "features": {"minute": pp.Integers(0, values - 1)}, "label": "late"}


# Data


def write(path: Path, rows: int, *, ascending: bool, per_user: int = PER_USER, values: int = VALUES) -> None:
    """Row group by row group; ids are drawn per group when shuffled, in order when sorted."""
    rng = np.random.default_rng(rows)
    users = max(1, rows // per_user)
    big = min(LARGEST, rows // 2)
    kind = pa.int16() if values <= 1 << 15 else pa.int64()
    with pq.ParquetWriter(path, pa.schema([("who", pa.int64()), ("minute", kind), ("late", pa.bool_())])) as out:
        for start in range(0, rows, GROUP):
            n = min(GROUP, rows - start)
            who = np.arange(start, start + n) // per_user if ascending else rng.integers(0, users, n)
            who = (
                np.where(np.arange(start, start + n) < big, 0, who)
                if ascending
                else np.where(rng.random(n) < big / rows, 0, who)
            )
            minute = rng.integers(0, values, n)
            late = (minute > 2 * values // 3) ^ (rng.random(n) < 0.2)
            columns = [pa.array(who), pa.array(minute, kind), pa.array(late)]
            out.write_table(pa.table(columns, schema=out.schema), row_group_size=n)


# Jobs


def memory(path: Path, chunk_rows: int, values: int) -> Profile:
    return CONCEPT.profile(pp.UserData.read(path, **schema(values)), Mean())


def stream(path: Path, chunk_rows: int, values: int) -> Profile:
    return CONCEPT.profile(
        pp.scan(path, chunk_rows=chunk_rows, spill=path.parent, progress=False, **schema(values)), Mean()
    )


def group_by(path: Path, chunk_rows: int, values: int) -> Any:
    per_user = pl.scan_parquet(path).group_by("who").agg(pl.col("minute").sum(), pl.col("late").sum())
    return per_user.select(pl.len(), pl.col("minute").max(), pl.col("late").max()).collect(engine="streaming")


JOBS: dict[str, Callable[[Path, int, int], Any]] = {"memory": memory, "stream": stream, "group-by": group_by}


def run(job: str, path: Path, chunk_rows: int, values: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.parquet"
        for ascending in (True, False):
            write(small, 20000, ascending=ascending, values=values)
            JOBS[job](small, 4000, values)
    before = forget_peak()
    start = time.perf_counter()
    found = JOBS[job](path, chunk_rows, values)
    seconds = time.perf_counter() - start
    digest = hash(tuple(found.blocks())) if isinstance(found, Profile) else None
    return {"seconds": seconds, "mib": peak_mib() - before, "digest": digest}


def run_spark(paths: list[Path]) -> list[dict[str, Any]]:
    """All tables in one session, small ones first."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sql

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    session = builder.config("spark.sql.shuffle.partitions", "8").config("spark.driver.memory", "4g").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    out = []
    for path in [paths[0], *paths]:  # the first pass over the smallest table warms up
        frame = session.read.parquet(str(path))
        start = time.perf_counter()
        users = pp.from_spark(frame, **schema(VALUES))
        checked = time.perf_counter()
        profile = CONCEPT.profile(users, Mean())
        folded = time.perf_counter()
        sums = frame.groupBy("who").agg(
            sql.sum("minute").alias("minute"), sql.sum(sql.col("late").cast("int")).alias("late")
        )
        sums.agg(sql.count("*"), sql.max("minute"), sql.max("late")).collect()
        grouped = time.perf_counter()
        times = {"check": checked - start, "fold": folded - checked, "group-by": grouped - folded}
        out.append({"path": str(path), **times, "digest": hash(tuple(profile.blocks()))})
    session.stop()
    return out[1:]


# Tables


def measure(path: Path, rows: int, chunk_rows: int, values: int = VALUES) -> dict[str, dict[str, Any]]:
    """All jobs on one table; they must agree."""
    found = {}
    for job in ("group-by", "stream", *(["memory"] if rows <= IN_MEMORY else [])):
        command = [
            sys.executable,
            __file__,
            "--job",
            job,
            "--path",
            str(path),
            "--chunk-rows",
            str(chunk_rows),
            "--values",
            str(values),
        ]
        found[job] = measured(command)
    if "memory" in found and found["stream"]["digest"] != found["memory"]["digest"]:
        raise SystemExit("streaming and memory disagree")
    return found


def cells(found: dict[str, dict[str, Any]], job: str) -> list[str]:
    row = found[job]
    return [f"{row['seconds']:.2f}", f"{row['seconds'] / found['group-by']['seconds']:.1f}", f"{row['mib']:.0f}"]


HEADS = ["time (s)", "against group-by", "peak memory (MiB)"]


def engines(
    console: Console, folder: Path, sizes: list[int], chunk_rows: int, markdown: bool
) -> dict[Path, int | None]:
    grid = Grid("One machine, streaming", ["rows", "order", "job", *HEADS], [])
    digests: dict[Path, int | None] = {}
    for rows in sizes:
        for order in ("sorted", "shuffled"):
            path = folder / f"{order}-{rows}.parquet"
            write(path, rows, ascending=order == "sorted")
            found = measure(path, rows, chunk_rows)
            digests[path] = found["stream"]["digest"]
            grid.rows += [[f"{rows:,}", order, job, *cells(found, job)] for job in found]
            if rows > SPARK_ROWS:
                path.unlink()
    grid.show(console, markdown=markdown)
    return digests


def growth(console: Console, folder: Path, rows: int, chunk_rows: int, markdown: bool) -> None:
    """One table for each number of records per user, and one for each number of values."""
    grid = Grid(f"{rows:,} shuffled rows", ["records per user", "values", "job", *HEADS], [])
    path = folder / "growth.parquet"
    for per_user, values in [
        (2, VALUES),
        (PER_USER, VALUES),
        (2000, VALUES),
        (PER_USER, 16),
        (PER_USER, 10**6),
        (PER_USER, 1 << 62),
    ]:
        write(path, rows, ascending=False, per_user=per_user, values=values)
        found = measure(path, rows, chunk_rows, values)
        shown = f"{values:,}" if values < 1 << 40 else "2^62"
        grid.rows += [[f"{per_user:,}", shown, job, *cells(found, job)] for job in found]
    grid.show(console, markdown=markdown)


def cluster(console: Console, paths: list[Path], digests: dict[Path, int | None], markdown: bool) -> None:
    command = [sys.executable, "-W", "ignore", __file__, "--job", "spark", "--path", *map(str, paths)]
    grid = Grid(
        "Spark, local[2]",
        ["rows", "check (s)", "fold (s)", "group-by (s)", "fold against group-by", "check and fold"],
        [],
    )
    for row in measured(command)["rows"]:
        path = Path(row["path"])
        if row["digest"] != digests[path]:
            raise SystemExit("Spark and memory disagree")
        times = [row[name] for name in ("check", "fold", "group-by")]
        rows = f"{pq.read_metadata(path).num_rows:,}"
        check, fold, group = times
        grid.rows.append([rows, *(f"{t:.2f}" for t in times), f"{fold / group:.1f}", f"{(check + fold) / group:.1f}"])
    grid.show(console, markdown=markdown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 5 * 10**6, 2 * 10**7])
    parser.add_argument("--chunk-rows", type=int, default=1 << 21)
    parser.add_argument("--spark", action="store_true", help=f"also on a local Spark, up to {SPARK_ROWS:,} rows")
    parser.add_argument("--growth", type=int, help="change users and values of tables with so many rows")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--folder", type=Path, help="where to write the tables; removed at the end")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--values", type=int, default=VALUES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None:
        spark = options.job == "spark"
        found = (
            {"rows": run_spark(options.path)}
            if spark
            else run(options.job, options.path[0], options.chunk_rows, options.values)
        )
        sys.stdout.write(json.dumps(found) + "\n")
        return
    console = Console()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        digests = engines(console, Path(folder), options.rows, options.chunk_rows, options.markdown)
        if options.growth:
            growth(console, Path(folder), options.growth, options.chunk_rows, options.markdown)
        if options.spark:
            small = [path for path in digests if path.name.startswith("shuffled") and path.exists()]
            cluster(console, small, digests, options.markdown)


if __name__ == "__main__":
    main()
