"""How fast against the aims: one run, one table, the aim beside each figure.

    python benchmarks/bench.py [--rows 10000000] [--stream 20000000] [--spark] [--growth]

Figures are ratios, so that they mean the same on another machine.  What is compared runs in turn in one process, and
the best of several is taken; times are CPU seconds of the process, since others may use the machine too.  Memory is the
peak above what was in use before.

* one cut-off: ``learn`` from a data frame, grouping and checks included, on a 64-bit column with ten records a person;
* stumps: five such columns, both directions; boxes: two such columns, 18,497 rules, each scored by every person;
* streams: the scores of 1,442 cuts, checks included, against polars' group-by of the same file;
* ``--spark``: check and fold in local mode with two threads against Spark's own group-by (wall time);
* ``--growth``: the largest exponent in rows of the methods that are sums over people.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import growth
import numpy as np
import scale
import tables
from common import Grid, forget_peak, measured, peak_mib
from rich.console import Console

COLUMN = 8 / (1 << 20)
"""MiB of a row of a 64-bit column."""


def best(jobs: Mapping[str, Callable[[], object]], repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Least CPU seconds and added memory of every job, run in turn; memory in runs of their own, for to forget the peak
    of a process slows down what comes next."""
    seconds, memory = dict.fromkeys(jobs, float("inf")), {}
    for name, job in jobs.items():
        before = forget_peak()
        job()
        memory[name] = peak_mib() - before
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.process_time()
            job()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds, memory


# Jobs, each in a process of its own


def in_memory(rows: int) -> list[tuple[str, float, float]]:
    tasks = ("learn-64", "stumps", "boxes")
    warm = tables.table(tables.WARM_ROWS * 2)
    for task in tasks:
        tables.timed(task, warm, Path())()
    frame = tables.table(rows)
    columns = {task: frame.select(tables.needs(task)) for task in tasks}
    seconds, memory = best({task: tables.timed(task, columns[task], Path()) for task in tasks}, 3)
    read = columns["stumps"].estimated_size("mb")
    return [
        (f"stumps of 5 columns ÷ one cut-off, {rows:,} rows", seconds["stumps"] / seconds["learn-64"], 4),
        (f"boxes of 2 columns ÷ one cut-off, {rows:,} rows", seconds["boxes"] / seconds["learn-64"], 4),
        (f"stumps: memory with the table ÷ columns read, {rows:,} rows", 1 + memory["stumps"] / read, 3),
        (f"one cut-off: columns beyond the table, {rows:,} rows", memory["learn-64"] / (COLUMN * rows), 3),
    ]


def streams(rows: int) -> list[tuple[str, float, float]]:
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for size in (20_000, rows):
            for order in ("sorted", "shuffled"):
                path = Path(folder) / f"{order}.parquet"
                scale.write(path, size, ascending=order == "sorted")
                names = ("group-by", "stream")
                jobs = {name: _job(name, path) for name in names}
                seconds, memory = best(jobs, int(np.clip(5 * 10**6 // size, 3, 15)))
                if size == rows:
                    ratio = seconds["stream"] / seconds["group-by"]
                    what = f"stream ÷ polars' group-by, {rows:,} rows, {order} (peak {memory['stream']:.0f} MiB)"
                    out.append((what, ratio, 1.5 if rows < 2 * 10**7 else 1.3))
    return out


def _job(name: str, path: Path) -> Callable[[], object]:
    return lambda: scale.JOBS[name](path, 1 << 21, scale.VALUES)


def spark(rows: int) -> list[tuple[str, float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{size}.parquet" for size in (10**6, rows)]
        for size, path in zip((10**6, rows), paths):
            scale.write(path, size, ascending=False)
        found = scale.run_spark(paths)[-1]
    ratio = (found["check"] + found["fold"]) / found["group-by"]
    return [(f"Spark: check and fold ÷ its group-by, {rows:,} rows (wall time)", ratio, 1.5)]


def exponents(largest: int) -> list[tuple[str, float, float]]:
    out = []
    for name, job in growth.JOBS.items():
        if job.fold:
            command = [sys.executable, str(Path(growth.__file__)), "--job", name, "rows", "--largest", str(largest)]
            points = [tuple(point) for point in measured(command)["points"]]
            out.append((f"exponent in rows: {name}", growth.slope(points[-2:]), growth.FOLD))
    return out


PARTS: dict[str, Callable[[int], list[tuple[str, float, float]]]] = {
    "memory": in_memory,
    "stream": streams,
    "spark": spark,
    "growth": exponents,
}


def run(part: str, rows: int) -> list[Any]:
    return list(measured([sys.executable, "-W", "ignore", __file__, "--part", part, str(rows)])["figures"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**7, help="rows of the table in memory")
    parser.add_argument("--stream", type=int, nargs="+", default=[10**5, 10**6, 2 * 10**7], help="rows of the files")
    parser.add_argument("--spark", action="store_true", help="also on a local Spark, 20 million rows")
    parser.add_argument("--growth", action="store_true", help="also the growth of every method, up to a million rows")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        part, rows = options.part
        sys.stdout.write(json.dumps({"figures": PARTS[part](int(rows))}) + "\n")
        return
    wanted = [("memory", options.rows), *(("stream", rows) for rows in options.stream)]
    wanted += [("spark", 2 * 10**7)] * options.spark + [("growth", 10**6)] * options.growth
    console, grid = Console(width=120), Grid("Figures and aims", ["figure", "measured", "aim: at most", "met"], [])
    for part, rows in wanted:
        with console.status(f"{part}, {rows:,} rows"):
            figures = run(part, rows)
        grid.rows += [
            [what, f"{value:.2f}", f"{aim:g}", "yes" if value <= aim else "NO"] for what, value, aim in figures
        ]
    grid.show(console)


if __name__ == "__main__":
    main()
