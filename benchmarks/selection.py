"""One private selection, and one exact comparison of neighbours, against peers and against sorting the same scores.

    python benchmarks/selection.py [--largest 1000000] [--peers .venv-peers/bin/python]

Every library reads the same scores from the same file, in a process of its own, and times itself: building its law or
mechanism and drawing once, median of repeats, reading excluded.  ``np.sort`` of the same int64 scores is the physical
limit we measure against.  Two instances: scores spread over 0..999, and one good candidate among many at distance 400.
The hockey stick compares the threshold laws of two neighbouring datasets over 2**64 points, starting from the step
functions of their scores.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
PEERS = ("opendp-permute-and-flip", "opendp-exponential", "diffprivlib")
RATE = "1/20"


# Data


def instance(name: str, n: int) -> Any:
    rng = np.random.default_rng(n)
    if name == "spread":
        return rng.integers(0, 1000, n)
    scores = np.full(n, 400)
    scores[int(rng.integers(n))] = 0
    return scores


def threshold_profile(n_users: int) -> tuple[Any, Any, Any, Any]:
    """Errors of every cut of 2**64 points on one record per user, with and without one user near the best cut."""
    rng = np.random.default_rng(n_users)
    points = rng.integers(0, 2**64, n_users, dtype=np.uint64)
    labels = (points > 2**63) ^ (rng.random(n_users) < 0.2)

    def profile(x: Any, y: Any) -> tuple[Any, Any]:
        order = np.argsort(x)
        # Cut u predicts 1 from u on: above a point labelled 1 it errs once more, above a point labelled 0 once less.
        steps = np.concatenate([[int((~y).sum())], np.where(y[order], 1, -1)])
        return np.concatenate([np.zeros(1, np.uint64), x[order] + np.uint64(1)]), np.cumsum(steps)

    others = np.arange(n_users) != np.argmin(np.abs(points.astype(np.float64) - 2.0**63))
    return *profile(points, labels), *profile(points[others], labels[others])


# What is timed


def selection(scores: Any) -> Callable[[], object]:
    from privpac.law import Law

    return lambda: Law.from_blocks(score=scores, eta=RATE).sample()


def comparison(n_users: int) -> Callable[[], object]:
    from privpac.law import Law

    starts, scores, fewer_starts, fewer_scores = threshold_profile(n_users)

    def run() -> object:
        p = Law.from_steps([(0, starts, 2**64, scores)], RATE)
        q = Law.from_steps([(0, fewer_starts, 2**64, fewer_scores)], RATE)
        return p.hockey_stick(q, "1/100")

    return run


def worker(task: str, argument: str, repeats: int) -> None:
    if task == "np.sort":
        scores = np.load(argument)
        run: Callable[[], object] = lambda: np.sort(scores)  # noqa: E731
    else:
        run = selection(np.load(argument)) if task == "privpac" else comparison(int(argument))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"ms": 1000 * statistics.median(times), "peak": peak}) + "\n")


# The table


def measured(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def ours(task: str, argument: object, repeats: int) -> dict[str, float]:
    return measured([sys.executable, __file__, "--worker", task, str(argument), str(repeats)])


def theirs(python: Path, library: str, path: Path, repeats: int) -> dict[str, float]:
    return measured([str(python), str(HERE / "peers" / "selection_peers.py"), library, str(path), str(repeats)])


def repeats_for(n: int, *, slow: bool) -> int:
    return max(3, min(101, (10**6 if slow else 3 * 10**7) // n))


def cell(result: dict[str, float], best: float) -> str:
    return f"{result['ms']:.2f} ms  ×{result['ms'] / best:.1f}  {result['peak']:.0f} MiB"


def selections(console: Console, largest: int, python: Path | None) -> None:
    table = Table(title=f"one selection at rate {RATE}: median time, ratio to privpac, peak memory of the process")
    for head in ("candidates", "scores", "privpac", "np.sort", *(PEERS if python else ())):
        table.add_column(head, justify="right")
    with tempfile.TemporaryDirectory() as folder, console.status("measuring"):
        for n in (10**k for k in range(3, 10) if 10**k <= largest):
            for name in ("spread", "one good"):
                path = Path(folder) / "scores.npy"
                np.save(path, instance(name, n))
                mine = ours("privpac", path, repeats_for(n, slow=False))
                row = [cell(mine, mine["ms"]), cell(ours("np.sort", path, repeats_for(n, slow=False)), mine["ms"])]
                row += (
                    [cell(theirs(python, peer, path, repeats_for(n, slow=True)), mine["ms"]) for peer in PEERS]
                    if python
                    else []
                )
                table.add_row(f"{n:,}", name, *row)
    console.print(table)


def comparisons(console: Console, largest: int) -> None:
    table = Table(title="hockey stick of two neighbours over 2**64 thresholds, laws built from step functions")
    for head in ("users", "privpac", "np.sort of as many scores", "ratio", "peak"):
        table.add_column(head, justify="right")
    with tempfile.TemporaryDirectory() as folder, console.status("measuring"):
        for n in (10**k for k in range(3, 10) if 10**k <= largest):
            path = Path(folder) / "scores.npy"
            np.save(path, np.random.default_rng(n).integers(0, 2**62, n))
            mine, sort = ours("hockey-stick", n, 7), ours("np.sort", path, repeats_for(n, slow=False))
            table.add_row(
                f"{n:,}",
                f"{mine['ms']:.2f} ms",
                f"{sort['ms']:.2f} ms",
                f"{mine['ms'] / sort['ms']:.1f}",
                f"{mine['peak']:.0f} MiB",
            )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=10**6, help="largest number of candidates and users")
    parser.add_argument(
        "--peers", type=Path, default=Path(".venv-peers/bin/python"), help="python of the peers' environment"
    )
    parser.add_argument("--worker", nargs=3, metavar=("TASK", "ARGUMENT", "REPEATS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        task, argument, repeats = options.worker
        worker(task, argument, int(repeats))
        return
    console = Console(width=200)
    python = options.peers if options.peers.exists() else None
    if python is None:
        console.print(f"no {options.peers}: peers are left out; 'make bench' builds their environment")
    selections(console, options.largest, python)
    comparisons(console, options.largest)


if __name__ == "__main__":
    main()
