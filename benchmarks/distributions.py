"""Distributions learned from large tables, against counting the same tables with a polars group-by.

    python benchmarks/distributions.py [--rounds 3] [--scale 1]

Records arrive in random order; users hold 16 on average.  Selection: 10**6 records, 100 candidates (normal laws on
10**4 values, or mass functions on 16 values).  Histogram: 10**7 records, 10**4 values of unequal mass.  The physical
limit is a group-by count of the same columns: by user, by value, by both.  A learner's time is one whole ``learn`` with
the system's randomness; grouping the table by user (``UserData.from_arrays``) is timed on its own, because it is done
once for many releases.

Every task runs in a process of its own, on data built there, and reports the best of some rounds in processor and wall
time (polars may use every core, the learners use one) and the peak memory beyond what the table takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from common import Grid, forget_peak, measured, peak_mib
from numpy.typing import NDArray
from rich.console import Console
from scipy import stats

from privpac.data import Integers, UserData
from privpac.distributions import ClippedHistogram, HypothesisSelector

PER_USER, CAP = 16, 32
COUNTS = {"group-by user": ["user"], "group-by value": ["x"], "group-by user, value": ["user", "x"]}
TABLES = {
    "normal": (10**6, 10**4, ("select, 100 normal laws",)),
    "small": (10**6, 16, ("select, 100 mass functions",)),
    "wide": (10**7, 10**4, ("histogram, one stage", "histogram, two stages")),
}

Columns = tuple[NDArray[np.int64], NDArray[np.int64]]


# Tables and tasks


def columns(table: str, n: int) -> Columns:
    """Users and values, in random order."""
    _, k, _ = TABLES[table]
    rng = np.random.default_rng(n)
    user = rng.integers(0, max(1, n // PER_USER), n)
    if table == "normal":
        return user, np.clip(np.rint(rng.normal(0.52 * k, 0.1 * k, n)), 0, k - 1).astype(np.int64)
    return user, (k * rng.random(n) ** 2).astype(np.int64)


def candidates(table: str) -> list[Any]:
    """100 laws; the middle one fits best."""
    k = TABLES[table][1]
    if table == "normal":
        return [stats.norm(k * (0.02 + 0.01 * j), 0.1 * k) for j in range(100)]
    cells = np.arange(k)
    shapes = np.linspace(1, 3, 100)
    return [
        np.rint(10**6 * (((cells + 1) / k) ** (1 / s) - (cells / k) ** (1 / s))).astype(int).tolist() for s in shapes
    ]


def prepared(task: str, table: str, n: int) -> Callable[[], object]:
    user, x = columns(table, n)
    if task in COUNTS:
        frame = pl.DataFrame({"user": user, "x": x})
        return lambda: frame.group_by(COUNTS[task]).len()
    features = {"x": Integers(0, TABLES[table][1] - 1)}
    if task == "group the records":
        return lambda: UserData.from_arrays(x, None, user, features=features)
    data = UserData.from_arrays(x, None, user, features=features)
    if task.startswith("histogram"):
        histogram = ClippedHistogram(1, max_records=CAP, stages=2 if task.endswith("two stages") else 1)
        return lambda: histogram.learn(data)
    selector = HypothesisSelector(candidates(table), 1, candidates_are="public", records_per_user=PER_USER)
    selector.comparison(features)  # public, the same for any data
    return lambda: selector.learn(data)


def worker(task: str, table: str, n: int, rounds: int) -> None:
    prepared(task, table, 1 << 12)()  # compiled kernels, imports
    run = prepared(task, table, n)
    before = forget_peak()
    times = []
    for _ in range(rounds):
        start = time.process_time(), time.perf_counter()
        run()
        times.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    best = {"cpu": min(cpu for cpu, _ in times), "wall": min(wall for _, wall in times)}
    sys.stdout.write(json.dumps(best | {"table": before, "peak": peak_mib()}) + "\n")


def compared(table: str, scale: float, rounds: int) -> list[list[str]]:
    largest, k, learners = TABLES[table]
    n = max(1000, int(largest * scale))
    found = {}
    for task in (*COUNTS, "group the records", *learners):
        found[task] = measured([sys.executable, __file__, "--worker", task, table, str(n), "--rounds", str(rounds)])
    rows = []
    for task, got in found.items():
        ratios = [f"{got['cpu'] / found[base]['cpu']:.2f}" for base in COUNTS]
        times = [f"{got['cpu']:.3f} s", f"{got['wall']:.3f} s"]
        rows.append(
            [
                f"{n:,} × {k:,}",
                task,
                *times,
                *ratios,
                f"{max(0, got['peak'] - got['table']):.0f} MiB",
                f"{got['peak']:.0f} MiB",
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="best of so many")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the records")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--worker", nargs=3, metavar=("TASK", "TABLE", "RECORDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        task, table, n = options.worker
        worker(task, table, int(n), options.rounds)
        return
    rows = [row for table in TABLES for row in compared(table, options.scale, options.rounds)]
    heads = ["records × values", "task", "processor", "wall", "/ user", "/ value", "/ both", "beyond the table", "peak"]
    title = f"epsilon 1 per user, best of {options.rounds}; ratios of processor time to the three group-by counts"
    Grid(title, heads, rows).show(Console(width=150), markdown=options.markdown)


if __name__ == "__main__":
    main()
