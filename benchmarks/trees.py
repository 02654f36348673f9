"""Learning one node of a tree with a million nodes from a million records of an open vocabulary, beside sorting the
same texts.

Part 1: 10^5 people with 10 records each, texts such as ``d17/d4/d80/f8123``; a quarter of the records are regions that
hold the target. ``UserData`` is built from a polars frame, then a node is learned.  Beside: polars sorts the two
columns, groups by them, and ``np.lexsort`` on the same values.  Every job has a process of its own; the best of three
runs; memory is the peak above what was in use before the first.

Part 2: the rank law over 2^64 depths for 10^5 parts, beside ``np.sort`` of their depths.

Run: ``python benchmarks/trees.py [--records 1000000] [--markdown]``
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from common import Grid, forget_peak, measured, peak_mib
from rich.console import Console

from privpac.data import Texts, UserData
from privpac.exact import dyadic_base
from privpac.mechanisms.rank import rank_law
from privpac.methods import TreeLearner
from privpac.rng import SystemRng
from privpac.rules import PrefixTree

TARGET = ("d3", "d14", "d15", "f92")
RECORDS_PER_USER = 10
SORT, GROUP, LEXSORT = "polars sort of (who, path)", "polars group by (who, path)", "np.lexsort of (who, path)"
BUILD, CLOSURE, ERM, BOTH = (
    "UserData.from_frame",
    "learn, mode closure",
    "learn, mode erm",
    "UserData.from_frame, then learn",
)
JOBS = (SORT, GROUP, LEXSORT, BUILD, CLOSURE, ERM, BOTH)


def table(records: int, seed: int = 2024) -> pl.DataFrame:
    """Records ``(who, path, inside)``: does the region hold the target?"""
    rng = np.random.default_rng(seed)
    parts = rng.integers(0, 100, (records, 3))
    paths = [f"d{a}/d{b}/d{c}/f{i}" for i, (a, b, c) in enumerate(parts.tolist())]
    above = ["/".join(TARGET[:k]) for k in range(1, 5)]
    hit = rng.random(records) < 0.25
    which = rng.integers(0, 4, records)
    shown = [above[which[i]] if hit[i] else path for i, path in enumerate(paths)]
    label = [int("/".join(TARGET).startswith(path)) for path in shown]
    who = rng.permutation(np.arange(records) // RECORDS_PER_USER)
    return pl.DataFrame({"who": who, "path": shown, "inside": label})


def nodes(frame: pl.DataFrame) -> int:
    """Regions that occur, with all that hold them."""
    found = frame["path"].unique().to_list()
    return len({"/".join(path.split("/")[:k]) for path in found for k in range(1, 5)})


def best(run: Callable[[], Any], times: int = 3) -> tuple[float, float]:
    """Least seconds, and the peak memory of the first run above what was in use."""
    seconds, memory = [], 0.0
    for i in range(times):
        held = forget_peak()
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
        memory = peak_mib() - held if i == 0 else memory
    return min(seconds), memory


def job(name: str, frame: pl.DataFrame) -> Callable[[], Any]:
    """What is timed; whatever it needs is made, and compiled code loaded, before the clock runs."""
    if name == SORT:
        return lambda: frame.sort("who", "path")
    if name == GROUP:
        return lambda: frame.group_by("who", "path").len()
    if name == LEXSORT:
        who, paths = frame["who"].to_numpy(), frame["path"].to_numpy().astype("U")
        return lambda: np.lexsort((paths, who))
    learner = TreeLearner(PrefixTree(8), 1, "1e-6", mode="erm" if name == ERM else "closure")
    learner.learn(_users(frame.head(100)))
    if name == BUILD:
        return lambda: _users(frame)
    if name == BOTH:
        return lambda: learner.learn(_users(frame))
    users = _users(frame)
    return lambda: learner.learn(users)


def _users(frame: pl.DataFrame) -> UserData:
    return UserData.from_frame(frame, user="who", features={"path": Texts()}, label="inside")


def learning(records: int) -> Grid:
    """Each job in a process of its own, on the same file."""
    frame = table(records)
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/table.parquet"
        frame.write_parquet(file)
        found = {name: measured([sys.executable, __file__, "--job", name, "--table", file]) for name in JOBS}
    unit = found[SORT]["seconds"]
    rows = [
        [name, f"{said['seconds']:.2f} s", f"{said['seconds'] / unit:.2f}", f"{said['memory']:,.0f} MiB"]
        for name, said in found.items()
    ]
    title = f"{records:,} records of {records // RECORDS_PER_USER:,} people, {nodes(frame):,} nodes"
    return Grid(title, ["what", "time", "times polars sort", "peak memory above the table"], rows)


def ranks(parts: int = 100_000) -> Grid:
    rng = np.random.default_rng(7)
    depths = rng.integers(0, 1 << 64, parts, dtype=np.uint64, endpoint=False)
    listed = [int(y) for y in depths.tolist()]
    r, coins = dyadic_base("1/2"), SystemRng()
    law = rank_law(depths, 40, 120, (1 << 64) - 1, r)
    runs = {
        "np.sort of the depths as 64-bit numbers": lambda: np.sort(depths),
        "sorted() of the depths as Python integers": lambda: sorted(listed),
        "rank law over 2^64 depths": lambda: rank_law(depths, 40, 120, (1 << 64) - 1, r),
        "rank law over 2^64 + 1 depths, as Python integers": lambda: rank_law(listed, 40, 120, 1 << 64, r),
        "one exact draw": lambda: law.sample(coins),
    }
    found = {name: best(run) for name, run in runs.items()}
    unit = found["sorted() of the depths as Python integers"][0]
    rows = [
        [name, f"{1000 * s:.1f} ms", f"{s / unit:.2f}", f"{memory:,.0f} MiB"] for name, (s, memory) in found.items()
    ]
    return Grid(
        f"The rank law written out, {parts:,} parts", ["what", "time", "times sorted()", "peak memory above"], rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--table", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        seconds, memory = best(job(options.job, pl.read_parquet(options.table)))
        sys.stdout.write(json.dumps({"seconds": seconds, "memory": memory}) + "\n")
        return
    console = Console(width=160)
    learning(options.records).show(console, markdown=options.markdown)
    ranks().show(console, markdown=options.markdown)


if __name__ == "__main__":
    main()
