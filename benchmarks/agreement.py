"""What one user's device spends on finding an item, against hashing the same input once.

    python benchmarks/agreement.py [--markdown]

Every row times one call (median of a few repeats in one process, single thread) and divides by the time of one BLAKE2b
over the bytes of the same input, the least that reading it could cost.  The last column is the target for the call on
one core. Inputs are generated from fixed seeds; nothing here is private.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from privpac.device.correlated_sampling import race_indexed, race_scores, rate
from privpac.device.items import Records
from privpac.device.littlestone import PointsReductionList, ReductionList, Rows
from privpac.device.scores import CutScores, RaceLearner, walsh_hadamard
from privpac.device.separators import RoundedSeparator, SQEllipsoid

SEED = bytes(range(32))
Job = tuple[str, Callable[[], Any], bytes, str]


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """The median time of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


# Jobs


def races() -> list[Job]:
    random = np.random.default_rng(1)
    scores = random.integers(0, 1000, 1_000_000)
    flat = scores[:4096]
    x = random.integers(0, 2**64, 100_000, dtype=np.uint64)
    y = ((x > 2**63) ^ (random.random(100_000) < 0.1)).astype(np.int64)
    thresholds = RaceLearner(CutScores((1 << 64,), ("above",)), rate(60))
    table = random.integers(0, 1000, (10_000, 20))
    stumps = RaceLearner(CutScores((1000,) * 20), rate(60))
    late = (table[:, 3] > 400).astype(np.int64)
    return [
        ("dyadic race, 10^6 scores", lambda: race_scores(SEED, scores, 1000, rate(60)), scores.tobytes(), "0.3 s"),
        ("flat race, 4096 scores", lambda: race_indexed(SEED, flat, 1000, rate(60)), flat.tobytes(), ""),
        ("2^64 thresholds, 10^5 records", lambda: thresholds.item(x, y, SEED), x.tobytes() + y.tobytes(), "0.5 s"),
        (
            "40 stumps of 1001 cuts, 10^4 records",
            lambda: stumps.item(table, late, SEED),
            table.tobytes() + late.tobytes(),
            "",
        ),
        ("Walsh-Hadamard transform, 2^20", lambda: walsh_hadamard(scores_of_two()), scores_of_two().tobytes(), "1 s"),
    ]


def scores_of_two() -> Any:
    return np.arange(1 << 20, dtype=np.int64) % 7


def lists() -> list[Job]:
    random = np.random.default_rng(2)
    x = random.integers(0, 10_000, 300)
    points = PointsReductionList(10_000, (0, 3), (20, 0))
    sample = Records(x, (x == x[0]).astype(np.int64))
    sets = {tuple(sorted(random.choice(60, 2, replace=False).tolist())) for _ in range(560)}
    rows = Rows([[int(j in members) for j in range(60)] for members in sorted(sets)[:500]])
    plan = ReductionList.plan(rows, "1/5")
    learner = ReductionList(rows, plan.depths, plan.cutoffs)
    drawn = random.integers(0, 60, plan.records)
    other = Records(drawn, rows.table[100][drawn])
    return [
        ("list, 10^4 points, 300 records", lambda: points.candidates(sample), x.tobytes(), "10 ms"),
        (f"list, {rows.size} rules, d = {plan.dimension}", lambda: learner.candidates(other), drawn.tobytes(), "2 s"),
    ]


def separators() -> list[Job]:
    random = np.random.default_rng(3)
    x = np.unique(random.integers(-50, 51, (10_000, 10)), axis=0)
    y = (x @ np.arange(1, 11) > 3).astype(np.int64)
    one = SQEllipsoid(10, 16, 1, 1 << 20, 1, 50, grid=1000)
    rounded = RoundedSeparator(10, bound=50, grid=200)
    return [
        (
            f"ellipsoid step, D = 11, {len(x)} distinct records",
            lambda: one.item(x, y, SEED),
            x.tobytes() + y.tobytes(),
            "1 s",
        ),
        (
            "rounded separator, two stages, same records",
            lambda: rounded.item(x, y, SEED),
            x.tobytes() + y.tobytes(),
            "",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    markdown = parser.parse_args().markdown
    heads = ["one call", "time", "hash of the input", "ratio", "target"]
    rows = []
    for name, call, data, target in [*races(), *lists(), *separators()]:
        spent, hashed = seconds(call, 5), seconds(lambda data=data: hashlib.blake2b(data).digest(), 21)  # type: ignore[misc]
        rows.append([name, f"{1e3 * spent:.2f} ms", f"{1e3 * hashed:.3f} ms", f"{spent / hashed:.0f}", target])
    if markdown:
        sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in [heads, ["---"] * len(heads), *rows]))
        return
    table = Table(title="One user's item", title_justify="left")
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
