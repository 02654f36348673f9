"""The realizable-to-agnostic transformation: excess error against its certificate, and against direct selection.

    python benchmarks/reduction.py [--runs 200] [--sizes 10000 30000 100000] [--markdown]

x uniform over [0, 1] in 2**32 steps, the label is "x >= 0.4" and wrong with probability 0.2, one record per user,
epsilon 1.  Inside runs the selection of cuts for clean labels at the planned epsilon; the constants are those of
``AgnosticReduction.for_target``.  Data are seeded, the learner draws from the system: means are shown with their
Monte-Carlo standard error.  The excess of a cut at distance d from 0.4 is ``0.6 d``.  ``bound`` is the certificate at
failure 0.05; the share of runs below it must be at least 0.95.  ``noise`` is the relabelling noise ``L/(b w) + 2 L/(a
t)``.  Direct selection is the exponential law over the same 2**32 cuts at epsilon 1.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from common import Grid
from rich.console import Console
from rich.progress import track

from privpac.data import Integers, UserData
from privpac.methods.prediction.service_sample_size import certify_reduction, selection_error
from privpac.methods.realizable import RealizableSelection
from privpac.papers.realizable_to_agnostic.reduction import AgnosticReduction
from privpac.rules import Thresholds

STEPS, CUT, WRONG, BETA = 1 << 32, 0.4, 0.2, "0.05"
CODES = Integers(0, STEPS - 1)
CUTS = Thresholds(CODES, "x")


def log_growth(t: int) -> float:
    return math.log(t + 1)


def data(n: int, run: int) -> UserData:
    rng = np.random.default_rng((n, run))
    x = rng.integers(0, STEPS, n)
    y = (x >= CUT * STEPS) ^ (rng.random(n) < WRONG)
    return UserData.from_arrays(x, y.astype(np.int64), np.arange(n), features={"x": CODES})


def excess(cut: int) -> float:
    return (1 - 2 * WRONG) * abs(cut / STEPS - CUT)


def row(n: int, neighbours: str, runs: int) -> list[str]:
    error = selection_error(CUTS.log_size, neighbours)
    shape = {"alpha": "0.5", "beta": BETA, "epsilon": 1, "log_growth": log_growth, "neighbours": neighbours}
    bound = certify_reduction(n_users=n, inner_error=error, **shape)  # type: ignore[arg-type]
    inner = RealizableSelection(CUTS, epsilon=bound["eps_A"], neighbours=neighbours)  # type: ignore[arg-type]
    learner = AgnosticReduction.for_target(
        inner, epsilon=1, public_n_users=n, neighbours=neighbours, users="one", beta=BETA
    )
    direct = RealizableSelection(CUTS, epsilon=1, neighbours=neighbours)  # type: ignore[arg-type]
    found, plain = [], []
    for run in track(range(runs), description=f"{n} users, {neighbours}", transient=True):
        people = data(n, run)
        found.append(excess(learner.learn(people).value.cut))
        plain.append(excess(direct.learn(people).value.cut))
    # The certificate and the learner are about one set of constants, or the comparison means nothing.
    law, part = learner.relabelling, bound["split_size"]
    if (law.share * n, float(law.a), float(law.b)) != (part, bound["a"], bound["b"]):
        raise RuntimeError("the certificate and the learner use different constants")
    size = log_growth(part) - math.log(float(BETA) / 8)
    noise = size / (float(law.b) * (n - part)) + 2 * size / (float(law.a) * part)
    below = sum(value <= bound["excess"] for value in found) / runs
    spread = np.std(found) / math.sqrt(runs)
    means = [f"{np.mean(found):.5f} ± {spread:.5f}", f"{np.max(found):.5f}", f"{np.mean(plain):.5f}"]
    return [
        f"{n}",
        neighbours,
        str(bound["eps_A"]),
        f"{part}",
        f"{noise:.4f}",
        f"{bound['excess']:.4f}",
        f"{below:.3f}",
        *means,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    heads = [
        "users",
        "neighbours",
        "inner epsilon",
        "T",
        "noise",
        "bound",
        "below bound",
        "mean excess",
        "largest",
        "direct, mean",
    ]
    rows = [row(n, neighbours, arguments.runs) for n in arguments.sizes for neighbours in ("add-remove", "replace")]
    Grid("Cuts of [0, 1], labels wrong 1 time in 5, epsilon 1", heads, rows).show(
        Console(width=180), markdown=arguments.markdown
    )


if __name__ == "__main__":
    main()
