"""What every method costs as tables grow: CPU seconds and memory against rows, people, records, values and rules.

    python benchmarks/growth.py [--largest 10000000] [--methods hybrid ...] [--sweeps rows ...] [--markdown]

Each method of the registry, and a few more jobs, in a process of its own.  The process runs the job once on a small
table, so that loops are compiled, and then on every table of a sweep, ``learn`` from bound users to the released rule;
reading and grouping are measured by ``tables.py``.  Told are the CPU seconds of the largest table, the memory added at
its peak, and the exponents of the growth: slopes, on log axes, over the tables that take 4 ms or more (*flat*: at most
one does).
A sweep ends before a run that would take longer than ``--limit`` seconds.

Tables: people with 20 records (or as many as the sweep says, or unequal numbers with a heavy tail), 1,441 values,
labels that a cut explains up to one in five.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from math import log
from typing import Any

import numpy as np
import polars as pl
from attrs import frozen
from common import Grid, forget_peak, measured, peak_mib
from rich.console import Console

import privpac as pp
from privpac.data import Texts
from privpac.methods.prediction.relabel import Relabelling
from privpac.methods.prediction.voters import VotePredictor
from privpac.methods.registry import METHODS
from privpac.rules.hierarchies import PrefixTree

PER_USER, VALUES, WIDE, LEAST, FOLD = 20, 1441, 6, 0.004, 1.1


# Tables


@frozen(slots=False)
class Size:
    """One table of a sweep."""

    rows: int = 10**5
    per_user: int = PER_USER
    values: int = VALUES
    unequal: bool = False
    columns: int = 1


def frame(size: Size) -> pl.DataFrame:
    rng = np.random.default_rng(size.rows)
    if size.unequal:
        counts = np.minimum(1 + 6 * rng.pareto(1.2, max(1, size.rows // 26)), size.rows / 50 + 1).astype(np.int64)
    else:
        counts = np.full(max(1, size.rows // size.per_user), size.per_user)
    who = np.repeat(np.arange(len(counts)), counts)
    columns = {f"x{j}": rng.integers(0, size.values, len(who), dtype=np.int64) for j in range(size.columns)}
    late = (columns["x0"] > 2 * size.values // 3) ^ (rng.random(len(who)) < 0.2)
    return pl.DataFrame({"who": who, **columns, "late": late})


def people(size: Size, domain: Any = None) -> pp.UserData:
    domains = {f"x{j}": domain or pp.Integers(0, size.values - 1) for j in range(size.columns)}
    return pp.UserData.from_frame(frame(size), user="who", features=domains, label="late")


# Jobs: bound users in, what is measured out


@frozen(slots=False)
class Job:
    """How a method is run here; ``fold`` tells whether it is a sum over people."""

    run: Callable[[pp.UserData], object]
    unequal: bool = False
    columns: int = 1
    domain: Any = None
    fold: bool = True
    sweeps: tuple[str, ...] = ("rows", "records", "values", "rules")


def learns(method: str, concept: Callable[[], Any] = pp.Thresholds, **options: Any) -> Callable[[pp.UserData], object]:
    return lambda users: pp.learn(users, concept(), epsilon=1, method=method, **options)


def fits(users: pp.UserData) -> object:
    """What ``privpac serve fit`` does with the table."""
    relabelling = Relabelling(pp.Thresholds(), 4, 1, eta="1/8", split_rate="1/2", levels=16)
    return VotePredictor(relabelling, 3, "1/2", 8).learn(users)


JOBS: dict[str, Job] = {
    "hybrid": Job(learns("hybrid")),
    "hybrid, unequal people": Job(learns("hybrid"), unequal=True, sweeps=("rows",)),
    "hybrid, stumps of 6 columns": Job(learns("hybrid", pp.Stumps), columns=WIDE, sweeps=("rows", "values")),
    "hybrid, boxes of 2 columns": Job(learns("hybrid", pp.Rectangles), columns=2, sweeps=("rows",)),
    "hybrid, intervals": Job(learns("hybrid", pp.Intervals), sweeps=("rows",)),
    "regret": Job(learns("regret", public_n_users=1000)),
    "mean": Job(learns("mean")),
    "realizable": Job(learns("realizable")),
    "agnostic": Job(learns("agnostic")),
    "agnostic, unequal people": Job(learns("agnostic"), unequal=True, sweeps=("rows",)),
    "direct": Job(learns("direct")),
    "search": Job(learns("search")),
    "surrogate": Job(learns("surrogate", pp.Points)),
    "pairwise": Job(learns("pairwise", records_per_user=PER_USER)),
    "trimmed": Job(learns("trimmed", delta="1e-3", records_per_user=PER_USER, neighbours="replace"), fold=False),
    "reduction": Job(learns("reduction", public_n_users=500), fold=False),
    "agreement": Job(learns("agreement", delta="1e-4")),
    "tree": Job(learns("tree", delta="1e-4")),
    "tree, open vocabulary": Job(
        learns("tree", lambda: PrefixTree(4), delta="1e-4"), domain=Texts(), sweeps=("rows", "values")
    ),
    "small-tree": Job(learns("small-tree", pp.SmallTrees), columns=WIDE, sweeps=("rows", "records", "values")),
    "scorecard": Job(
        learns("scorecard", pp.Scorecards, delta="1e-4"), columns=WIDE, sweeps=("rows", "records", "values"), fold=False
    ),
    "serve fit": Job(fits, fold=False, sweeps=("rows",)),
}
missing = [key for key in METHODS if key not in JOBS]
if missing:
    raise SystemExit(f"no job for the methods {missing}: add them to JOBS")

SWEEPS: dict[str, Callable[[int], list[tuple[float, Size]]]] = {
    "rows": lambda largest: [(n, Size(rows=n)) for n in (10**k for k in range(4, 9)) if n <= largest],
    "records": lambda largest: [(m, Size(rows=2 * 10**5, per_user=m)) for m in (1, 10, 100, 1000, 10**4)],
    "values": lambda largest: [(v, Size(values=v)) for v in (16, 1 << 10, 1 << 16, 1 << 32, 1 << 62)],
    "rules": lambda largest: [(v, Size(rows=10**4, values=v)) for v in (1 << 4, 1 << 7, 1 << 10, 1 << 13)],
}
"""In the sweep over records the rows stay, so that people become fewer as each has more."""


def sweep(name: str, which: str, largest: int, limit: float) -> dict[str, Any]:
    job = JOBS[name]
    warnings.simplefilter("ignore")
    job.run(people(Size(rows=2000, unequal=job.unequal, columns=job.columns), job.domain))
    points: list[tuple[float, float, float]] = []
    note = ""
    for x, size in SWEEPS[which](largest):
        grows = max(float(which == "rows"), slope(points))
        if len(points) > 1 and points[-1][1] * max(1.0, x / points[-1][0]) ** grows > limit:
            note = "stopped"
            break
        sized = Size(size.rows, size.per_user, size.values, job.unequal, job.columns)
        users = people(sized, job.domain)
        before, start = forget_peak(), time.process_time()
        try:
            job.run(users)
        except pp.errors.PrivpacError as error:  # too many rules for a method that lists them
            note = type(error).__name__
            break
        points.append((x, time.process_time() - start, peak_mib() - before))
    return {"points": points, "note": note}


def slope(points: list[tuple[float, float, float]], what: int = 1, least: float = LEAST) -> float:
    """The slope on log axes over the last points that can be told from nothing."""
    seen = [(log(p[0]), log(p[what])) for p in points if p[what] >= least]
    if len(seen) < 2:
        return 0.0
    x, y = np.array(seen).T
    return float(np.polyfit(x, y, 1)[0])


def exponent(points: list[tuple[float, float, float]]) -> str:
    return f"{slope(points):.2f}" if sum(point[1] >= LEAST for point in points) > 1 else "flat"


def row(name: str, found: dict[str, dict[str, Any]]) -> list[str]:
    """The largest table of the sweep over rows, the exponents of all sweeps, and what ended one early."""
    points = {which: [tuple(point) for point in each["points"]] for which, each in found.items()}
    x, seconds, mib = points["rows"][-1] if points.get("rows") else (0, 0, 0)
    missed = JOBS[name].fold and slope(points.get("rows", [])[-2:]) > FOLD
    notes = [f"last step above {FOLD}"] * missed + ["not a fold"] * (not JOBS[name].fold)
    notes += [f"{which}: {each['note']}" for which, each in found.items() if each["note"]]
    grows = [exponent(points[which]) if which in points else "" for which in SWEEPS]
    return [name, f"{x:,.0f}", f"{seconds:.2f}", f"{mib:.0f}", *grows, ", ".join(notes)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=10**6, help="rows of the largest table")
    parser.add_argument("--limit", type=float, default=20.0, help="CPU seconds that one run may be expected to take")
    parser.add_argument("--methods", nargs="+", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--sweeps", nargs="+", default=list(SWEEPS), choices=list(SWEEPS))
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        sys.stdout.write(json.dumps(sweep(*options.job, options.largest, options.limit)) + "\n")
        return
    heads = ["method", "rows", "CPU (s)", "memory (MiB)", *(f"grows with {which}" for which in SWEEPS), ""]
    grid, console = Grid("What every method costs", heads, []), Console(width=140)
    for name in options.methods:
        found = {}
        for which in JOBS[name].sweeps:
            if which not in options.sweeps:
                continue
            command = [sys.executable, __file__, "--job", name, which]
            command += ["--largest", str(options.largest), "--limit", str(options.limit)]
            with console.status(f"{name}, {which}"):
                found[which] = measured(command)
        grid.rows.append(row(name, found))
    grid.show(console, markdown=options.markdown)


if __name__ == "__main__":
    main()
