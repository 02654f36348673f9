"""How good are evaluations?  Coverage and width of the intervals, and the time for 10^7 rows.

    python benchmarks/evaluation.py                    coverage and half-widths of 200 datasets in each cell, minutes
    python benchmarks/evaluation.py --pupils           ten rules of one table: are they shown to beat a constant?
    python benchmarks/evaluation.py --rows 10000000    against reading and grouping the same table
    python benchmarks/evaluation.py --excess           the certificate after the data: formula and truth

A population is a law over 400 kinds of people, each with an own error rate, an own base rate and an own number of
records; a dataset of n people is one multinomial draw, so that sums over people are drawn without listing them and the
truth is known exactly.  Half-widths stand beside those of boxes, which earlier versions showed: an interval for every
mean, and the rate at the corners.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
from attrs import frozen

import privpac as pp
from privpac.evaluation import BestErrorBound, Evaluation, EvaluationCertificate
from privpac.evaluation.intervals import Range, kl_range, noise_reach, ratio
from privpac.guarantee import Neighbours
from privpac.parameters import DEFAULT_LEVELS
from privpac.parameters import EVALUATION_LEVELS as LEVELS
from privpac.rules.kernels.shares import user_moments

KINDS = 400
SIZES = (100, 1_000, 10_000)
EPSILONS = ("0.2", "1", "3")
RATES = ("error", "lift", "sensitivity", "precision")
DOUBT = Fraction(1, 20)
BOXED = 20
"""Datasets whose boxes are computed: their widths hardly vary."""


@frozen(slots=False)
class People:
    """A law: how many records people have, how often they are wrong and labelled 1, and how much they differ."""

    name: str
    most_records: int
    error: float
    base: float = 0.4
    differ: bool = False


LAWS = (
    People("one record, wrong .1", 1, 0.1),
    People("one record, wrong .5", 1, 0.5),
    People("1 to 30 records, differ, wrong .1", 30, 0.1, differ=True),
    People("10 records, alike, wrong .1", 10, 0.1),
    People("30 records, alike, wrong .3", 30, 0.3),
    People("one record, 2 % labelled 1, wrong .01", 1, 0.01, 0.02),
)


def population(law: People, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Exact shares of every kind of person in the four cells; the same as integers that sum to ``LEVELS``, and their
    products."""
    sizes = rng.integers(1, law.most_records + 1, KINDS) if law.differ else np.full(KINDS, law.most_records)
    wrong, base = np.full(KINDS, law.error), np.full(KINDS, law.base)
    if law.differ:
        wrong, base = rng.beta(0.5 * law.error, 0.5 * (1 - law.error), KINDS), rng.beta(0.8, 1.2, KINDS)
    shares, tables = [], []
    for m, e, b in zip(sizes.tolist(), wrong, base):
        labels = (rng.random(m) < b).astype(np.uint8)
        cells = (2 * labels + (labels ^ (rng.random(m) < e))).astype(np.uint8)
        shares.append(np.bincount(cells, minlength=4) / m)
        tables.append(user_moments(np.array([0, m]), cells, np.arange(4), 4, LEVELS, 2 * LEVELS, -1))
    return np.stack(shares), np.stack(tables)


def truth(shares: np.ndarray) -> dict[str, np.ndarray]:
    """Rates of tables, one a row."""
    tn, fp, fn, tp = np.atleast_2d(shares).T
    whole = tn + fp + fn + tp
    error, base = (fp + fn) / whole, (tp + fn) / whole
    with np.errstate(invalid="ignore"):
        lift = np.minimum(base, 1 - base) - error
        return {"error": error, "lift": lift, "sensitivity": tp / (tp + fn), "precision": tp / (tp + fp)}


def laplace(rate: float, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Discrete Laplace noise for simulations: a difference of two geometric draws."""
    p = -np.expm1(-rate)
    return rng.geometric(p, shape) - rng.geometric(p, shape)


# Boxes: every mean in an interval of its own, and the rate at the corners.

FORMS = {"error": ((1, 2), (0, 3)), "sensitivity": ((3,), (2,)), "precision": ((3,), (1,))}
GAINS = ((3, 1), (0, 2))


def boxes(sums: list[int], noise: Fraction) -> dict[str, float]:
    """Half-widths of the intervals of earlier versions, which divided the doubt among noises and means."""

    def noisy(beta: Fraction, *cells: int, minus: int | None = None) -> Range:
        reach = noise_reach(noise, len(cells) + (minus is not None), beta)
        exact = sum(sums[c] for c in cells) - (0 if minus is None else sums[minus])
        return Range((exact - reach) / LEVELS, (exact + reach) / LEVELS)

    out = {}
    whole = noisy(DOUBT / 5, 0, 1, 2, 3)
    for name, (top, rest) in FORMS.items():
        if name == "error":
            pair = [noisy(DOUBT / 3, *form) for form in (top, rest)]
            found = kl_range(ratio(*pair), sum(form.lo for form in pair), float(DOUBT / 3))
        else:
            means = [noisy(DOUBT / 5, *form) for form in (top, rest)]
            found = ratio(*(kl_range(_over(mean, whole), whole.lo, float(DOUBT / 5)) for mean in means))
        out[name] = (found.hi - found.lo) / 2
    ends = []
    for plus, minus in GAINS:
        mean = _over(noisy(DOUBT / 5, plus, minus=minus), whole)
        ends.append(kl_range(mean.scaled(0.5) + Range(0.5, 0.5), whole.lo, float(DOUBT / 5)).scaled(2))
    return out | {"lift": (min(end.hi for end in ends) - min(end.lo for end in ends)) / 2}


def _over(form: Range, whole: Range) -> Range:
    if whole.lo <= 0:
        return Range(-1.0, 1.0)
    return Range(min(form.lo / whole.lo, form.lo / whole.hi), max(form.hi / whole.lo, form.hi / whole.hi))


def coverage(datasets: int, sizes: Sequence[int], epsilons: Sequence[str]) -> None:
    rng = np.random.default_rng(17)
    print(f"{datasets:,} datasets in each cell; per cent of intervals (95 % asked) that miss, at most of four rates;")
    print("half-widths in points: boxes → without / with products (typical)")
    print("| people | n | ε | measured | new: without | with | typical | " + " | ".join(RATES) + " |")
    print("|---|---|---|---|---|---|---|" + "---|" * len(RATES))
    worst = 0.0
    for law in LAWS:
        shares, tables = population(law, rng)
        for n in sizes:
            for epsilon in map(Fraction, epsilons):
                missed, widths = _cell(shares, tables, n, epsilon, datasets, rng)
                worst = max(worst, *(missed[kind] for kind in ("sample", "plain", "products")))
                shown = " | ".join(
                    "{:.2g} → {:.2g} / {:.2g} ({:.2g})".format(*(100 * width for width in widths[name]))
                    for name in RATES
                )
                misses = " | ".join(f"{100 * missed[kind]:.1f}" for kind in missed)
                print(f"| {law.name} | {n:,} | {float(epsilon):g} | {misses} | {shown} |", flush=True)
    print(f"most misses of all cells, rates and intervals that are guaranteed: {100 * worst:.1f} %")


def _cell(
    shares: np.ndarray, tables: np.ndarray, n: int, epsilon: Fraction, datasets: int, rng: np.random.Generator
) -> tuple[dict[str, float], dict[str, tuple[float, ...]]]:
    """The most misses of a rate for each kind of interval, and mean half-widths: boxes, without and with products,
    typical."""
    drawn = rng.multinomial(n, np.full(KINDS, 1 / KINDS), size=datasets)
    here, people, sums = truth(drawn @ shares), truth(shares.mean(axis=0)), drawn @ tables
    missed = {kind: dict.fromkeys(RATES, 0) for kind in ("sample", "plain", "products", "typical")}
    widths = {name: np.zeros(4) for name in RATES}
    for products in (False, True):
        rate = epsilon / LEVELS * (Fraction(16, 19) if products else 1)
        noisy = (sums + laplace(float(rate), sums.shape, rng)).tolist()
        for i, row in enumerate(noisy):
            found = Evaluation(
                tuple(row[:4]),
                "table",
                "user",
                LEVELS,
                rate,
                Neighbours.ADD_REMOVE,
                1 - DOUBT,
                products=tuple(row[4:]) if products else None,
                product_weight=Fraction(1, 2) if products else None,
            )
            for name in RATES:
                shown, mine, theirs = getattr(found, name), here[name][i], people[name][0]
                new, typical = shown.population, shown.typical or Range(-1.0, 1.0)
                widths[name][1 + products] += (new.hi - new.lo) / 2 / datasets
                missed["products" if products else "plain"][name] += _misses(theirs, new)
                if products:
                    widths[name][3] += (typical.hi - typical.lo) / 2 / datasets
                    missed["sample"][name] += _misses(mine, shown.sample)
                    missed["typical"][name] += _misses(theirs, typical)
            if not products and i < BOXED:
                for name, width in boxes(row[:4], rate).items():
                    widths[name][0] += width / min(BOXED, datasets)
    most = {kind: max(counts.values()) / datasets for kind, counts in missed.items()}
    return most, {name: tuple(values.tolist()) for name, values in widths.items()}


def _misses(value: float, interval: Range) -> bool:
    return bool(not np.isnan(value) and value not in interval.widened(1e-9))


def pupils(runs: int = 10) -> None:
    """School children (mlmRev egsingle): is a maths score above 0?  Learned on two thirds, evaluated on a third."""
    from wide_tables import wide_table

    table = wide_table("children")
    people = table.users(np.unique(table.people))
    better = 0
    print(f"{people.n_users:,} children, {len(table.labels):,} records, {len(table.domains)} columns; epsilon 1")
    for _ in range(runs):
        rule = pp.learn(people, epsilon=1, evaluate="1/3")
        better += rule.evaluation.better_than_constant is True
        print(rule.evaluation.brief(), flush=True)
    print(f"shown to be better than a constant in {better} of {runs} runs")


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
            learn * DEFAULT_LEVELS // 10,
            learn,
            DEFAULT_LEVELS,
            spent * Fraction(4, 5) / DEFAULT_LEVELS,
            spent / 5,
            Fraction(19, 20),
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
    parser.add_argument("--datasets", type=int, default=200)
    parser.add_argument("--people", type=int, nargs="+", default=SIZES)
    parser.add_argument("--epsilon", nargs="+", default=EPSILONS)
    parser.add_argument("--pupils", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--excess", action="store_true")
    chosen = parser.parse_args()
    if chosen.rows:
        speed(chosen.rows)
    elif chosen.pupils:
        pupils()
    elif chosen.excess:
        excess()
        certificates(min(chosen.datasets, 200))
    else:
        coverage(chosen.datasets, chosen.people, chosen.epsilon)
