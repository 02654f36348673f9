"""Scorecards: how fast (how good they are on public tables, ``wide.py`` measures).

    python benchmarks/scorecard.py [--rows 1000000 10000000] [--columns 20] [--per-user 10]

One table of shuffled rows, 16 bins a column; grouping by user is timed beside, and the ratio of processor times printed
(on a machine with other work the clock on the wall says little).  Loops are compiled on a small table before the clock
starts.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import polars as pl
from common import Grid, forget_peak, peak_mib
from rich.console import Console

from privpac.data import Integers, UserData
from privpac.methods import ScorecardLearner
from privpac.rules import Scorecards

DELTA = "1e-6"


def wide(rows: int, columns: int, per_user: int) -> pl.DataFrame:
    rng = np.random.default_rng(rows)
    made: dict[str, Any] = {"user": rng.permutation(np.arange(rows, dtype=np.int64) // per_user)}
    score = np.zeros(rows, np.float32)
    for j in range(columns):
        made[f"x{j}"] = rng.integers(0, 100, rows, dtype=np.int8)
        score += (made[f"x{j}"] - np.float32(50)) * np.float32(1 if j % 3 == 0 else 0.2)
    made["y"] = (score + 60 * rng.standard_normal(rows, dtype=np.float32) > 0).astype(np.int8)
    return pl.DataFrame(made)


def speed(args: argparse.Namespace, console: Console) -> None:
    domains = {f"x{j}": Integers(0, 99) for j in range(args.columns)}
    learner = ScorecardLearner(Scorecards(), epsilon=1, delta=DELTA)

    def grouped(frame: pl.DataFrame) -> UserData:
        return UserData.from_frame(frame, user="user", features=domains, label="y")

    learner.learn(grouped(wide(100_000, args.columns, args.per_user)))
    lines = []
    for rows in args.rows:
        frame = wide(rows, args.columns, args.per_user)
        forget_peak()
        start, used = time.perf_counter(), time.process_time()
        users = grouped(frame)
        del frame
        group, used = time.process_time() - used, time.process_time()
        grouping, start = time.perf_counter() - start, time.perf_counter()
        learner.learn(users)
        learn, learning = time.process_time() - used, time.perf_counter() - start
        times = [f"{grouping:.1f} s ({group:.1f} s)", f"{learning:.1f} s ({learn:.1f} s)", f"{learn / group:.1f}"]
        lines.append([f"{rows:,}", *times, f"{peak_mib():,.0f} MiB"])
        del users
    title = f"{args.columns} columns of 16 bins, {args.per_user} records a person, 40 steps"
    Grid(title, ["rows", "grouping (processor)", "scorecard (processor)", "÷ grouping", "peak memory"], lines).show(
        console
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--per-user", type=int, default=10)
    speed(parser.parse_args(), Console())


if __name__ == "__main__":
    main()
