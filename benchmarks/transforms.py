"""Which transformation when: excess error of five ways from records to people, and the speed of the trimmed sweep.

    python benchmarks/transforms.py --markdown --plots docs/img

*Regimes.*  Cut-offs over 2^b values; the data fall on 16 neighbouring values in the middle, so that 15 cuts are useful
and all others say "always" or "never".  Every fifth label is wrong.  Expectations are over the exact law, block by
block in double precision.  Where a method gives no answer, or does not exist for so few users, a constant rule stands
in (excess 0.3).

*Speed.*  TrimmedSelection on a million records of a thousand people over 2^64 values, from bound table to released
rule, against ``np.lexsort`` of the same two columns (user, value); best of three in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from common import Grid, dense, forget_peak, measured, peak_mib
from numpy.typing import NDArray
from rich.console import Console

from privpac.bounds import lddp_pure
from privpac.data import Integers, UserData
from privpac.errors import InfeasibleError
from privpac.mechanisms import ReleaseTest
from privpac.methods import PairwiseSelection, TrimmedSelection, choose_transform
from privpac.rng import secret_rng
from privpac.rules import Thresholds
from privpac.rules.profile import ClipRule, Mean, Regret

EPSILON, DELTA, NOISE, VALUES = 1, "1e-6", 0.2, 16
RECORDS = (1, 3, 10, 30, 100, 300, 1000)
CONSTANT = 0.5 - NOISE
METHODS = ("one record", "group privacy", "clipped", "regret (default)", "trimmed", "literal transformation")

Floats = NDArray[np.float64]


@frozen(slots=False)
class Regime:
    """So many rules and people, whose own noise rates differ by ``spread``."""

    name: str
    bits: int
    n: int
    spread: float = 0.0


REGIMES = (
    Regime("2^16 rules, 200 people", 16, 200),
    Regime("2^64 rules, 200 people", 64, 200),
    Regime("2^200 rules, 300 people", 200, 300),
    Regime("2^200 rules, 300 people who differ", 200, 300, 0.05),
)


# Data and laws


def table(regime: Regime, m: int, seed: int) -> UserData:
    rng = np.random.default_rng((seed, m, regime.bits, regime.n))
    x = rng.integers(0, VALUES, (regime.n, m))
    noise = np.clip(rng.normal(NOISE, regime.spread, regime.n), 0, 0.5)
    y = (2 * x >= VALUES) ^ (rng.random((regime.n, m)) < noise[:, None])
    ids = np.repeat(np.arange(regime.n), m)
    return UserData.from_arrays(x.reshape(-1, 1), y.ravel().astype(int), ids, features={"x": Integers(0, VALUES - 1)})


def expected(scores: NDArray[Any], rate: float, bits: int) -> float:
    """The mean excess error when the two constants have 2^(bits - 1) rules each."""
    weights = -rate * (scores - scores.min()).astype(float)
    weights[[0, -1]] += (bits - 1) * math.log(2)
    law = np.exp(weights - weights.max())
    law /= law.sum()
    excess = (1 - 2 * NOISE) * np.abs(np.arange(VALUES + 1) - VALUES // 2) / VALUES
    return float(law @ excess)


CUTS = Thresholds(Integers(0, VALUES - 1), "x")


def mistakes(data: UserData) -> NDArray[Any]:
    """Mistakes of every cut on all records, up to a constant; users hold equally many."""
    m = int(data.sizes[0])
    return dense(CUTS.profile(data, Mean(m)))


def literal_rate(n: int, m: int) -> tuple[int, float] | None:
    """Users left and rate of the exponential mechanism inside the literal transformation; None if nobody would be
    left."""
    near = EPSILON / 3
    t = 2 * ReleaseTest(near, float(DELTA) / 2, unit="user", neighbours="replace").ladder
    if n <= t:
        return None
    close = float(DELTA) / (2 * (1 + math.exp(near)))
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if lddp_pure(middle, n, m, t, close, 0.05) <= near else (low, middle)
    return n - t, low / 2


def trimmed(data: UserData, m: int, regime: Regime) -> tuple[float, float]:
    """Excess with a constant for "no answer", and the chance of that."""
    learner = TrimmedSelection(CUTS, EPSILON, delta=DELTA, records_per_user=m, effective_size=VALUES + 1)
    try:
        bound = learner.bind(data)
    except InfeasibleError:
        return CONSTANT, 1.0
    found, design = learner.scores(bound), bound.design
    test = ReleaseTest(design.share * learner.epsilon, DELTA, ladder=design.ladder, unit="user", neighbours="replace")
    passed = float(test.curve[found.distance])
    rate = float((1 - design.share) * learner.epsilon / (2 * design.width))
    return passed * expected(dense(found.profile), rate, regime.bits) + (1 - passed) * CONSTANT, 1 - passed


def excesses(regime: Regime, m: int, seed: int) -> dict[str, float]:
    data = table(regime, m, seed)
    tau = min(m, math.ceil(0.05 * m + math.sqrt(m * math.log(20) / 2)))
    clipped = PairwiseSelection(CUTS, EPSILON, neighbours="replace", tau=tau)
    clip = ClipRule(EPSILON / 2, regime.n, regime.bits)
    out = {
        "one record": expected(mistakes(data.max_records(1)), EPSILON / 2, regime.bits),
        "group privacy": expected(mistakes(data), EPSILON / (2 * m), regime.bits),
        "clipped": expected(dense(clipped.profile(data)), EPSILON / (4 * tau), regime.bits),
        "regret (default)": expected(dense(CUTS.profile(data, Regret(clip))), EPSILON / (2 * 840), regime.bits),
    }
    out["trimmed"], out["no answer"] = trimmed(data, m, regime)
    literal = literal_rate(regime.n, m)
    left = None if literal is None else data.take(np.arange(literal[0]))
    out["literal transformation"] = (
        CONSTANT if left is None or literal is None else expected(mistakes(left), literal[1], regime.bits)
    )
    return out


def chosen(regime: Regime, m: int, *, allow_bottom: bool) -> str:
    given = {
        "n": regime.n,
        "m": m,
        "epsilon": EPSILON,
        "delta": DELTA,
        "log_size": regime.bits * math.log(2),
        "H_eff": VALUES + 1,
    }
    try:
        return choose_transform(**given, allow_bottom=allow_bottom).choice  # type: ignore[arg-type]
    except InfeasibleError:
        return "none"


def measure(regime: Regime, datasets: int) -> dict[int, dict[str, float]]:
    out = {}
    for m in RECORDS:
        runs = [excesses(regime, m, seed) for seed in range(datasets)]
        out[m] = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    return out


# Output


COLOURS = ("tab:gray", "tab:blue", "tab:green", "tab:red", "tab:orange", "black")


def picture(path: Path, found: dict[str, dict[int, dict[str, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 2, figsize=(9.6, 7.6), sharex=True, sharey=True)
    for axes, regime in zip(panels.flat, REGIMES):
        for name, colour in zip(METHODS, COLOURS):
            y = [max(found[regime.name][m][name], 1e-5) for m in RECORDS]
            axes.loglog(RECORDS, y, color=colour, marker="o", markersize=4, linewidth=1.5, label=name)
        axes.axhline(CONSTANT, color="black", linestyle=":", linewidth=1)
        axes.set_title(f"$2^{{{regime.bits}}}$" + regime.name.removeprefix(f"2^{regime.bits}"), fontsize=10)
        axes.grid(alpha=0.3)
    for axes in panels[1]:
        axes.set_xlabel("records per person")
    for axes in panels[:, 0]:
        axes.set_ylabel("mean excess error")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.suptitle(
        "epsilon 1, delta 1e-6 per person (replace); dotted: a constant rule, which also stands in for no answer",
        fontsize=11,
    )
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.legend(handles, labels, loc="lower center", ncols=3, fontsize=9, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


# Speed


def worker(task: str, n: int, rounds: int) -> None:
    rng = np.random.default_rng(1)
    users, m = 1000, n // 1000
    x = rng.integers(0, (1 << 64) - 1, n, dtype=np.uint64, endpoint=True)
    y = ((x >> np.uint64(63)) ^ (rng.random(n) < 0.2)).astype(np.uint8)
    ids = np.repeat(np.arange(users), m)
    data = UserData.from_arrays(x.reshape(-1, 1), y, ids, features={"x": Integers(0, (1 << 64) - 1)})
    learner = TrimmedSelection(Thresholds(), EPSILON, delta=DELTA, records_per_user=m)
    order = rng.permutation(n)
    columns = x[order], ids[order]
    bound, resting = learner.bind(data), forget_peak()
    times = []
    for _ in range(rounds + 1):  # the first round compiles
        start = time.perf_counter()
        if task == "np.lexsort":
            np.lexsort(columns)
        else:
            learner.draw(bound, secret_rng())
        times.append(time.perf_counter() - start)
    sys.stdout.write(json.dumps({"s": min(times[1:]), "peak": peak_mib(), "table": resting}) + "\n")


def speed(console: Console, *, markdown: bool) -> None:
    rows, sort = [], None
    for task in ("np.lexsort", "TrimmedSelection"):
        found = measured([sys.executable, __file__, "--worker", task])
        sort = sort or found["s"]
        rows.append(
            [task, f"{found['s']:.2f} s", f"{found['s'] / sort:.2f}", f"{found['peak'] - found['table']:.0f} MiB"]
        )
    heads = ["task", "best of 3", "ratio to np.lexsort", "beyond the table"]
    Grid("1,000,000 records of 1,000 people, 2^64 values", heads, rows).show(console, markdown=markdown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=4, help="data sets a cell")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--plots", type=Path, help="folder for the picture")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, 10**6, 3)
        return
    console = Console(width=160)
    found = {regime.name: measure(regime, options.datasets) for regime in REGIMES}
    for regime in REGIMES:
        cells = found[regime.name]
        rows = [[name, *(f"{cells[m][name]:.4f}" for m in RECORDS)] for name in METHODS]
        rows.append(["chance of no answer (trimmed)", *(f"{cells[m]['no answer']:.3f}" for m in RECORDS)])
        rows += [
            [f"choose_transform{more}", *(chosen(regime, m, allow_bottom=allow) for m in RECORDS)]
            for more, allow in (("", False), (", allow_bottom", True))
        ]
        Grid(regime.name, ["mean excess error", *(f"m = {m}" for m in RECORDS)], rows).show(
            console, markdown=options.markdown
        )
    if options.plots:
        picture(options.plots / "transforms.png", found)
    speed(console, markdown=options.markdown)


if __name__ == "__main__":
    main()
