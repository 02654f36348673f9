"""Learning from large tables against the physical limit (reading and sorting them) and against a peer.

    python benchmarks/tables.py [--rows 100000 1000000 10000000] [--rounds 3] [--peers .venv-peers/bin/python]

One table of shuffled rows, ten records per user: a user id, five 64-bit features, one 10-bit feature, a label.  Every
task runs in a process of its own that times itself and reports its own peak memory: three repeats a round, the same for
every task and peer, and the best is shown.  Loops are compiled and every library is warmed up on a small table before
the clock starts.  Tasks other than "read" get the columns they need in memory; ``learn`` starts from the data frame, so
grouping by user, encoding and checking are inside its time.  diffprivlib's decision tree (depth 1, bounds and classes
given) protects single *records*, not users; it reads the same columns from ``.npy`` files because its environment has
no Parquet reader.
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
from common import Grid, forget_peak, measured, peak_mib
from rich.console import Console

HERE = Path(__file__).parent
PER_USER, FEATURES, WARM_ROWS, REPEATS = 10, 5, 200_000, 3
COLUMNS_BYTES = 8 + 8 + 1
"""User id, feature and label of one row."""

TASKS = {
    "read": "polars reads three columns of Parquet",
    "lexsort": "np.lexsort((x, user))",
    "polars-sort": "polars sort by user, x",
    "group-by": "polars mean label per user",
    "learn-64": "privpac thresholds, 2^64 values",
    "learn-10": "privpac thresholds, 2^10 values",
    "stumps": f"privpac stumps, {FEATURES} features of 2^64",
    "boxes": "privpac boxes, 2 features of 2^64",
    "diffprivlib": "diffprivlib decision tree (per record)",
}


# Data


def table(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(rows)
    columns: dict[str, Any] = {"user": rng.permutation(np.arange(rows) // PER_USER)}
    for j in range(FEATURES):
        columns[f"x{j}"] = rng.integers(0, 1 << 64, rows, dtype=np.uint64)
    columns["small"] = (columns["x0"] >> np.uint64(54)).astype(np.uint16)
    columns["y"] = ((columns["x0"] > 3 << 61) ^ (rng.random(rows) < 0.2)).astype(np.uint8)
    return pl.DataFrame(columns)


def write(rows: int, folder: Path) -> None:
    frame = table(rows)
    frame.write_parquet(folder / "table.parquet")
    np.save(folder / "x.npy", frame["x0"].to_numpy())
    np.save(folder / "y.npy", frame["y"].to_numpy())


# Tasks: a frame in, what is timed out


def needs(task: str) -> list[str]:
    if task == "stumps":
        return ["user", *(f"x{j}" for j in range(FEATURES)), "y"]
    if task == "boxes":
        return ["user", "x0", "x1", "y"]
    return ["user", "small" if task == "learn-10" else "x0", "y"]


def learning(task: str, frame: pl.DataFrame) -> Callable[[], object]:
    import privpac as pp

    bits = 10 if task == "learn-10" else 64
    names = needs(task)[1:-1]
    domains = {name: pp.Integers(0, (1 << bits) - 1) for name in names}
    concept = {"stumps": pp.Stumps, "boxes": pp.Rectangles}.get(task, pp.Thresholds)()

    def run() -> object:
        users = pp.UserData.from_frame(frame, user="user", features=domains, label="y")
        return pp.learn(users, concept, epsilon=1)

    return run


def timed(task: str, frame: pl.DataFrame, path: Path) -> Callable[[], object]:
    if task == "read":
        return lambda: pl.read_parquet(path, columns=needs(task))
    if task == "lexsort":
        x, user = frame["x0"].to_numpy(), frame["user"].to_numpy()
        return lambda: np.lexsort((x, user))
    if task == "polars-sort":
        return lambda: frame.sort("user", "x0")
    if task == "group-by":
        return lambda: frame.group_by("user").agg(pl.col("y").mean())
    return learning(task, frame)


def worker(task: str, folder: Path, repeats: int) -> None:
    path = folder / "table.parquet"
    warm = table(WARM_ROWS)
    if task == "read":
        warm.write_parquet(folder / "warm.parquet")
        timed(task, warm, folder / "warm.parquet")()
    else:
        timed(task, warm, path)()
    del warm
    before = forget_peak()
    frame = pl.DataFrame() if task == "read" else pl.read_parquet(path, columns=needs(task))
    run = timed(task, frame, path)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
        del result
    sys.stdout.write(json.dumps({"seconds": min(times), "before": before, "peak": peak_mib()}) + "\n")


# Rounds


def command(task: str, folder: Path, repeats: int, peers: Path) -> list[str]:
    if task == "diffprivlib":
        return [str(peers), str(HERE / "peers" / "tables_peers.py"), str(folder), str(repeats)]
    return [sys.executable, __file__, "--worker", task, str(folder), str(repeats)]


def measure(rows: int, rounds: int, peers: Path | None, console: Console) -> dict[str, dict[str, float]]:
    best: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured([sys.executable, __file__, "--write", str(rows), name])
        for round_ in range(rounds):
            for task in TASKS:
                if task == "diffprivlib" and peers is None:
                    continue
                with console.status(f"{rows:,} rows, round {round_ + 1} of {rounds}: {TASKS[task]}"):
                    result = measured(command(task, folder, REPEATS, peers or Path()))
                if task not in best or result["seconds"] < best[task]["seconds"]:
                    best[task] = result
    return best


def report(rows: int, best: dict[str, dict[str, float]]) -> Grid:
    lexsort, sort, data = best["lexsort"]["seconds"], best["polars-sort"]["seconds"], rows * COLUMNS_BYTES / (1 << 20)
    lines = [
        [
            what,
            f"{1000 * r['seconds']:,.1f} ms",
            f"{rows / r['seconds'] / 1e6:,.1f}",
            f"{r['seconds'] / lexsort:.2f}",
            f"{r['seconds'] / sort:.2f}",
            f"{r['peak']:,.0f} MiB",
            f"{(r['peak'] - r['before']) / data:.1f}",
        ]
        for task, what in TASKS.items()
        if (r := best.get(task))
    ]
    heads = [
        "task",
        "best time",
        "million rows/s",
        "÷ lexsort",
        "÷ polars sort",
        "peak memory",
        "added ÷ three columns",
    ]
    return Grid(f"{rows:,} rows, {rows // PER_USER:,} users; the three columns take {data:,.0f} MiB", heads, lines)


def aims(best: dict[str, dict[str, float]], rows: int) -> list[str]:
    t = {task: result["seconds"] for task, result in best.items()}
    learn = best["learn-64"]
    ratios = [
        ("thresholds ÷ lexsort", t["learn-64"] / t["lexsort"], 0.4),
        ("thresholds ÷ polars sort", t["learn-64"] / t["polars-sort"], 1.0),
        ("2^64 ÷ 2^10", t["learn-64"] / t["learn-10"], 1.3),
        (f"stumps ({FEATURES} features) ÷ one threshold", t["stumps"] / t["learn-64"], 6.0),
        ("memory added ÷ three columns", (learn["peak"] - learn["before"]) * (1 << 20) / (rows * COLUMNS_BYTES), 4.0),
    ]
    return [
        f"{what}: {value:.2f} (aim: at most {aim}){'' if value <= aim else '  MISSED'}" for what, value, aim in ratios
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--peers", type=Path, default=Path(".venv-peers/bin/python"), help="python of the peers' environment"
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--worker", nargs=3, metavar=("TASK", "FOLDER", "REPEATS"), help=argparse.SUPPRESS)
    parser.add_argument("--write", nargs=2, metavar=("ROWS", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        task, folder, repeats = options.worker
        worker(task, Path(folder), int(repeats))
        return
    if options.write:
        write(int(options.write[0]), Path(options.write[1]))
        sys.stdout.write("{}\n")
        return
    console = Console(width=180)
    peers = options.peers if options.peers.exists() else None
    if peers is None:
        console.print(f"no {options.peers}: diffprivlib is left out; 'make bench' builds its environment")
    console.print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at the start")
    for rows in options.rows:
        best = measure(rows, options.rounds, peers, console)
        report(rows, best).show(console, markdown=options.markdown)
        for line in aims(best, rows):
            console.print(line)


if __name__ == "__main__":
    main()
