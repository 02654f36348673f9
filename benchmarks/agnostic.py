"""The pure agnostic learners on large tables, against one sort of the same table.

    python benchmarks/agnostic.py [--largest 10000000] [--rounds 3]

Users with 16 records each, x uniform over 2**64 values, a cut in the middle, labels wrong with probability 0.2.
``np.lexsort`` by user and x is the physical limit: a profile over cuts needs the records of each user in order.  Every
task runs in a process of its own, on data built there, and reports the best of some rounds in processor time (all tasks
are single-threaded; other processes may share the cores), and the peak memory beyond what the table itself takes.  A
learner's time is one whole ``learn`` on a built ``UserData``: estimate of the least error, law, and a draw.

Hashed points: "x = value" over 2**64 values, 10**6 records, one popular value in ten, from a public set of buckets
whose size does not depend on the number of values; item level (t = 0) and user level with an estimate.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from common import Grid, forget_peak, measured, peak_mib
from numpy.typing import NDArray
from rich.console import Console

from privpac.data import Integers, UserData
from privpac.papers.pure_agnostic.counting import UserAgnosticLearner
from privpac.papers.pure_agnostic.representations import HashedPoints
from privpac.papers.pure_agnostic.search import ThresholdLearner
from privpac.papers.pure_agnostic.surrogate_selection import SurrogateSelection
from privpac.rules import Points, Thresholds

PER_USER, EPSILON = 16, Fraction(1)
CODES = Integers(0, (1 << 64) - 1)
POPULAR = 0x5EED5EED5EED5EED
AIMS = {"direct": 0.5, "direct, t given": 0.5, "search": 1.5}
CUTS = ("direct", "direct, t given", "search")
HASHED = ("hashed points, item level", "hashed points, user level")

Table = tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.int64]]


# Data


def records(n: int, *, points: bool) -> Table:
    """x, label, user; users' records lie together, in random order of x."""
    rng = np.random.default_rng(n)
    x = rng.integers(0, 1 << 64, n, dtype=np.uint64)
    if points:
        x[rng.random(n) < 0.1] = POPULAR
    right = x == POPULAR if points else x >= 1 << 63
    return x, (right ^ (rng.random(n) < 0.2)).astype(np.uint8), np.arange(n) // PER_USER


# Tasks


def prepared(task: str, n: int) -> Callable[[], object]:
    table = records(n, points=task in HASHED)
    if task == "np.lexsort":
        return lambda: np.lexsort((table[0], table[2]))
    return learning(task, table)


def learning(task: str, table: Table) -> Callable[[], object]:
    x, y, user = table
    item = task == HASHED[0]
    data = UserData.from_arrays(x, y, np.arange(len(x)) if item else user, features={"x": CODES})
    learner: Any
    if task in HASHED:
        few = HashedPoints(CODES, Fraction(1, 50), Fraction(1, 100))
        shape: dict[str, Any] = {"representation": few, "public_seed": bytes(32)}
        learner = (
            SurrogateSelection(Points(), EPSILON, **shape)
            if item
            else UserAgnosticLearner(Points(), EPSILON, max_records=PER_USER, **shape)
        )
    else:
        known: dict[str, Any] = {"tolerance": 4} if task == "direct, t given" else {"max_records": PER_USER}
        learner = ThresholdLearner(Thresholds(), EPSILON, method="search" if task == "search" else "direct", **known)
    return lambda: learner.learn(data)


def worker(task: str, n: int, rounds: int) -> None:
    prepared(task, 1 << 12)()  # compiled kernels, imports
    run = prepared(task, n)
    before = forget_peak()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    sys.stdout.write(json.dumps({"s": min(times), "table": before, "peak": peak_mib()}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=10**7, help="most records")
    parser.add_argument("--rounds", type=int, default=3, help="best of so many")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--worker", nargs=2, metavar=("TASK", "RECORDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker[0], int(options.worker[1]), options.rounds)
        return
    console, rows = Console(width=140), []
    for n in (size for size in (10**6, 10**7) if size <= options.largest):
        sort = None
        for task in ("np.lexsort", *CUTS, *(HASHED if n == 10**6 else ())):
            found = measured([sys.executable, __file__, "--worker", task, str(n), "--rounds", str(options.rounds)])
            sort = sort or found["s"]
            aim = f"{AIMS[task]}" if task in AIMS else "-"
            extra = f"{found['peak'] - found['table']:.0f} MiB"
            rows.append(
                [
                    f"{n:,}",
                    task,
                    f"{found['s']:.2f} s",
                    f"{found['s'] / sort:.2f}",
                    aim,
                    extra,
                    f"{found['peak']:.0f} MiB",
                ]
            )
    heads = ["records", "task", f"best of {options.rounds}", "ratio to np.lexsort", "aim", "beyond the table", "peak"]
    Grid("2^64 values, 16 records per user, epsilon 1 per user", heads, rows).show(console, markdown=options.markdown)


if __name__ == "__main__":
    main()
