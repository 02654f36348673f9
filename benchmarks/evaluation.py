"""How good are evaluations?  Coverage and width of the intervals, and the time for 10^7 rows.

    python benchmarks/evaluation.py                    coverage of 2,000 datasets in each cell, a few minutes
    python benchmarks/evaluation.py --rows 10000000    against reading and grouping the same table
    python benchmarks/evaluation.py --excess           the certificate after the data: formula and truth

A population is a law over 400 kinds of people, each with an own error rate, an own base rate and an own number of
records; a dataset of n people is one multinomial draw, so that sums over people are drawn without listing them and the
truth is known exactly.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import beta as beta_law

import privpac as pp
from privpac.evaluation import BestErrorBound, Evaluation, EvaluationCertificate
from privpac.guarantee import Neighbours
from privpac.parameters import DEFAULT_LEVELS as LEVELS
from privpac.rules.kernels.shares import user_tables

KINDS = 400
SIZES = (20, 200, 2_000, 20_000)
EPSILONS = ("0.1", "1", "3")
ERRORS = (0.0, 0.1, 0.5)
RATES = ("error", "lift", "sensitivity")


def population(error: float, differ: bool, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Exact shares of every kind of person in the four cells, and the same as integers that sum to ``LEVELS``."""
    sizes = rng.integers(1, 31, KINDS) if differ else np.ones(KINDS, np.int64)
    spread = 0.5 if differ else 1e9
    wrong = rng.beta(spread * error, spread * (1 - error), KINDS) if error > 0 else np.zeros(KINDS)
    base = rng.beta(0.8, 1.2, KINDS) if differ else np.full(KINDS, 0.4)
    cells, offsets = [], np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    for m, e, b in zip(sizes, wrong, base):
        labels = (rng.random(m) < b).astype(np.uint8)
        cells.append(2 * labels + (labels ^ (rng.random(m) < e)))
    shares = np.stack([np.bincount(c, minlength=4) / len(c) for c in cells])
    tables = np.stack(
        [
            user_tables(np.array([0, b - a]), np.concatenate(cells).astype(np.uint8)[a:b], 4, LEVELS, True, -1)
            for a, b in pairwise(offsets)
        ]
    )
    return shares, tables


def truth(shares: np.ndarray) -> dict[str, np.ndarray]:
    """Rates of tables, one a row."""
    tn, fp, fn, tp = np.atleast_2d(shares).T
    whole = tn + fp + fn + tp
    error, base = (fp + fn) / whole, (tp + fn) / whole
    with np.errstate(invalid="ignore"):
        return {"error": error, "lift": np.minimum(base, 1 - base) - error, "sensitivity": tp / (tp + fn)}


def laplace(rate: float, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Discrete Laplace noise for simulations: a difference of two geometric draws."""
    p = -np.expm1(-rate)
    return rng.geometric(p, shape) - rng.geometric(p, shape)


def clopper_pearson(wrong: float, n: int, level: float = 0.05) -> float:
    """The half-width of the interval without privacy, for ``wrong`` of ``n``."""
    k = round(wrong)
    low = 0.0 if k == 0 else float(beta_law.ppf(level / 2, k, n - k + 1))
    high = 1.0 if k == n else float(beta_law.ppf(1 - level / 2, k + 1, n - k))
    return (high - low) / 2


def coverage(datasets: int) -> None:
    rng = np.random.default_rng(17)
    print(f"{datasets:,} datasets in each cell; per cent of intervals (95 % asked) that hold; half-widths in points")
    print("| people | n | ε | error | these: least | like: least | width: these | like | Clopper–Pearson |")
    print("|---|---|---|---|---|---|---|---|---|")
    worst = 1.0
    for differ in (True, False):
        for error in ERRORS:
            shares, tables = population(error, differ, rng)
            people = truth(shares.mean(axis=0))
            for n in SIZES:
                for epsilon in EPSILONS:
                    held, widths = _cell(shares, tables, people, n, Fraction(epsilon), datasets, rng)
                    worst = min(worst, *held.values())
                    these = min(held[r, "these"] for r in RATES)
                    like = min(held[r, "like"] for r in RATES)
                    plain = clopper_pearson(float(people["error"][0]) * n, n)
                    print(
                        f"| {'differ' if differ else 'alike, one record'} | {n:,} | {epsilon} | {error:g} "
                        f"| {100 * these:.1f} | {100 * like:.1f} | {100 * widths[0]:.2g} | {100 * widths[1]:.2g} "
                        f"| {100 * plain:.2g} |",
                        flush=True,
                    )
    print(f"least coverage of all cells, rates and intervals: {100 * worst:.1f} %")


def _cell(
    shares: np.ndarray,
    tables: np.ndarray,
    people: dict[str, np.ndarray],
    n: int,
    epsilon: Fraction,
    datasets: int,
    rng: np.random.Generator,
) -> tuple[dict[tuple[str, str], float], tuple[float, float]]:
    drawn = rng.multinomial(n, np.full(KINDS, 1 / KINDS), size=datasets)
    here = truth(drawn @ shares)
    rate = epsilon / LEVELS
    sums = drawn @ tables + laplace(float(rate), (datasets, 4), rng)
    held = dict.fromkeys([(r, kind) for r in RATES for kind in ("these", "like")], 0)
    widths = np.zeros(2)
    for i in range(datasets):
        found = Evaluation(
            tuple(sums[i].tolist()), "table", "user", LEVELS, rate, Neighbours.ADD_REMOVE, Fraction(19, 20)
        )
        for name in RATES:
            shown = getattr(found, name)
            mine, theirs = here[name][i], people[name][0]
            held[name, "these"] += bool(np.isnan(mine) or mine in shown.sample.widened(1e-9))
            held[name, "like"] += bool(np.isnan(theirs) or theirs in shown.population.widened(1e-9))
            if name == "error":
                widths += [(r.hi - r.lo) / 2 / datasets for r in (shown.sample, shown.population)]
    return {key: count / datasets for key, count in held.items()}, (float(widths[0]), float(widths[1]))


# The certificate after the data


def excess() -> None:
    """What a certificate says without noise: error .1, epsilon 1, evaluate 1/5, certify 1/4."""
    print("| people | any people | records of one law, 16 each |")
    print("|---|---|---|")
    for n in (500, 2_000, 10_000, 100_000):
        learn, rest = n * 4 // 5, n // 5
        wrong = rest * LEVELS // 10
        table = (rest * LEVELS // 2 - wrong // 2, wrong // 2, wrong // 2, rest * LEVELS // 2 - wrong // 2)
        found = Evaluation(table, "table", "user", LEVELS, Fraction(1, LEVELS), Neighbours.ADD_REMOVE, Fraction(19, 20))
        spent = Fraction(1, 4)
        least = BestErrorBound(
            learn * LEVELS // 10, learn, LEVELS, spent * Fraction(4, 5) / LEVELS, spent / 5, Fraction(19, 20)
        )
        certificate = EvaluationCertificate(found, least, 16)
        print(
            f"| {n:,} | {100 * certificate.excess:.1f} points | {100 * (certificate.excess_one_law or 0):.2g} points |"
        )


def certificates(datasets: int) -> None:
    """Rule, evaluation and certificate together, against the excess of the rule that is known by construction.

    x is uniform on 0..99 and a label is x > 60, wrong with the person's own probability; so a cut ``x > u`` exceeds the
    best one by ``(1 - 2 e)|u - 60| / 100``, where ``e`` is the mean probability (at most 1/2).
    """
    print("| people who | n | certificates that hold | certified, mean | true excess, mean |")
    print("|---|---|---|---|---|")
    rng = np.random.default_rng(5)
    for kind, draw, mean in (
        ("are alike", lambda n: np.full(n, 0.1), 0.1),
        ("differ", lambda n: rng.beta(0.2, 1.8, n), 0.1),
        ("contradict each other", lambda n: (rng.random(n) < 0.3).astype(float), 0.3),
    ):
        for n in (300, 3_000):
            held, said, true = 0, [], []
            for _ in range(datasets):
                x = rng.integers(0, 100, (n, 4))
                y = (x > 60) ^ (rng.random(x.shape) < draw(n)[:, None])
                frame = pl.DataFrame({"who": np.repeat(np.arange(n), 4), "x": x.ravel(), "y": y.ravel()})
                data = pp.UserData.from_frame(frame, user="who", features={"x": pp.Integers(0, 99)}, label="y")
                found = pp.learn(data, pp.Thresholds(), epsilon=1, evaluate="1/5", certify="1/4")
                u = found.value.cut - 1
                true.append((1 - 2 * mean) * abs(u - 60) / 100)
                said.append(found.certificate.excess)
                held += true[-1] <= said[-1]
            print(
                f"| {kind} | {n:,} | {held} of {datasets} | {100 * np.mean(said):.1f} points "
                f"| {100 * np.mean(true):.1f} points |",
                flush=True,
            )


# Speed


def speed(rows: int) -> None:
    rng = np.random.default_rng(3)
    users = rows // 10
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pl.DataFrame(
            {
                "who": rng.integers(0, users, rows),
                "x": rng.integers(0, 1000, rows).astype(np.int32),
                "y": rng.integers(0, 2, rows).astype(np.uint8),
            }
        ).write_parquet(path)
        features = {"x": pp.Integers(0, 999)}
        rule = pp.Thresholds(features["x"], feature="x").decode(500)
        small = pp.UserData.from_users([[(1, 0)]], features=features)
        pp.evaluate(rule, small, epsilon=1)  # compile
        start = time.perf_counter()
        data = pp.UserData.read(path, user="who", features=features, label="y")
        read = time.perf_counter() - start
        start = time.perf_counter()
        found = pp.evaluate(rule, data, epsilon=1)
        evaluated = time.perf_counter() - start
        start = time.perf_counter()
        parts = data.split({"learn": "4/5", "evaluate": "1/5"})
        dealt = time.perf_counter() - start
    assert len(parts) == 2
    print(found)
    print(f"{rows:,} rows, {users:,} people: read and grouped in {read:.2f} s")
    print(f"evaluated in {evaluated:.2f} s more: {(read + evaluated) / read:.2f} times reading and grouping")
    print(f"dealt into two parts in {dealt:.2f} s more: {(read + evaluated + dealt) / read:.2f} times, all together")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=2_000)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--excess", action="store_true")
    chosen = parser.parse_args()
    if chosen.rows:
        speed(chosen.rows)
    elif chosen.excess:
        excess()
        certificates(min(chosen.datasets, 200))
    else:
        coverage(chosen.datasets)
