"""Wide tables: how good small trees, stumps and points cards are beside models without privacy, and how fast.

    python benchmarks/wide.py accuracy        errors by n and epsilon on public tables with ids
    python benchmarks/wide.py speed           10^7 rows, 20 columns of 16 bins, and how time grows

Errors are averages over people who were not learned from, less that of boosted trees on the same people without
privacy, times 1000.  Private methods draw from the system's generator; the standard error is over tables.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from wide_tables import TABLES, Wide, wide_table

import privpac as pp
from privpac.concepts.cards.family import PointsCard
from privpac.concepts.small_trees.cells import cells_of
from privpac.learners import SmallTreeLearner
from privpac.learners.wide.card import CardLearner
from privpac.learners.wide.tree_law import SmallTreeLaw

DELTA = "1e-6"
PEOPLE, EPSILONS = (100, 300, 1000), ("0.3", "1", "3")
MOST_TESTED = 1000
PRIVATE = ("tree", "stump", "card")


def learned(method: str, users: Any, epsilon: str, n: int) -> Any:
    if method == "tree":
        return pp.learn(users, pp.SmallTrees(), epsilon=epsilon)
    if method == "stump":
        return pp.learn(users, pp.SmallTrees(depth=1) if _holes(users) else pp.Stumps(), epsilon=epsilon)
    return CardLearner(PointsCard(), epsilon, delta=DELTA, public_n_users=n).learn(users)


def _holes(users: Any) -> bool:
    """Stumps know nothing of missing values; one question of a small tree stands in where there are some."""
    return any(isinstance(domain, pp.Missing) for domain in users.features.values())


def error(table: Wide, said: Any, tested: Any) -> float:
    """The mean over people of the share of their records that are wrong."""
    wrong = (said != table.labels[tested]).astype(float)
    _, person = np.unique(table.people[tested], return_inverse=True)
    return float(np.mean(np.bincount(person, wrong) / np.bincount(person)))


def plain_models() -> dict[str, Callable[[], Any]]:
    return {
        "boosting": lambda: HistGradientBoostingClassifier(max_iter=60, early_stopping=False),
        "logistic": lambda: make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=500)),
    }


def measured(table: Wide, splits: int, draws: int) -> dict[tuple[str, int, str], list[float]]:
    """Excess errors over boosting, by method, number of people and epsilon."""
    found: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    everybody = np.unique(table.people)
    for n in PEOPLE:
        if len(everybody) < 1.25 * n:
            continue
        for split in range(splits):
            order = np.random.default_rng([n, split]).permutation(everybody)
            trained, tested = order[:n], np.isin(table.people, order[n : n + MOST_TESTED])
            rows = np.isin(table.people, trained)
            _, person, sizes = np.unique(table.people[rows], return_inverse=True, return_counts=True)
            weights = 1 / sizes[person]
            errors = {}
            for name, build in plain_models().items():
                model = build()
                where = (
                    {"logisticregression__sample_weight": weights} if name == "logistic" else {"sample_weight": weights}
                )
                model.fit(table.raw[rows], table.labels[rows], **where)
                errors[name] = error(table, model.predict(table.raw[tested]), tested)
            share = np.average(table.labels[rows], weights=weights)
            errors["majority"] = error(table, np.full(int(tested.sum()), int(share > 0.5)), tested)
            for name in ("logistic", "majority"):
                for epsilon in EPSILONS:
                    found[name, n, epsilon].append(1000 * (errors[name] - errors["boosting"]))
            users = table.users(trained)
            for method in PRIVATE:
                for epsilon in EPSILONS:
                    drawn = [
                        error(table, learned(method, users, epsilon, n).predict(table.frame[tested]), tested)
                        for _ in range(draws)
                    ]
                    found[method, n, epsilon].append(1000 * (float(np.mean(drawn)) - errors["boosting"]))
    return found


def accuracy(names: list[str], splits: int, draws: int) -> None:
    rows = (*PRIVATE, "logistic", "majority")
    means: dict[tuple[str, str], list[float]] = defaultdict(list)
    cells: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    print(f"excess error over boosting without privacy, x1000; {splits} splits, {draws} draws; cards at delta {DELTA}")
    for name in names:
        table = wide_table(name)
        found = measured(table, splits, draws)
        shown = []
        for method in rows:
            parts = {
                "few": [v for (m, n, e), vs in found.items() if m == method and n * float(e) <= 100 for v in vs],
                "many": [v for (m, n, e), vs in found.items() if m == method and n * float(e) >= 300 for v in vs],
            }
            for part, values in parts.items():
                means[method, part] += [float(np.mean(values))] if values else []
            shown.append(f"{method} " + " / ".join(f"{np.mean(values):.0f}" for values in parts.values()))
        for key, values in found.items():
            cells[key].append(float(np.mean(values)))
        print(f"{name:11} {len(np.unique(table.people)):6} people {len(table.domains):3} columns   {'   '.join(shown)}")
    print("\nmean over tables (standard error), people x epsilon <= 100 and >= 300")
    for method in rows:
        print(f"{method:10}" + "".join(_mean(means[method, part]) for part in ("few", "many")))
    for other in ("stump", "card"):
        for part in ("few", "many"):
            gap = [a - b for a, b in zip(means["tree", part], means[other, part])]
            print(f"tree - {other}, {part}:{_mean(gap)}, better on {sum(g < 0 for g in gap)} of {len(gap)}")
    print("\nby people and epsilon")
    for n in PEOPLE:
        for epsilon in EPSILONS:
            line = "".join(f"{method} {np.mean(cells[method, n, epsilon]):6.0f}   " for method in rows)
            print(f"n = {n:5}, epsilon = {epsilon:4}: {line}")


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):8.1f} ({np.std(values, ddof=1) / len(values) ** 0.5:.1f})"


# Speed


def made(path: Path, rows: int, columns: int, per_person: int = 10) -> None:
    rng = np.random.default_rng(0)
    table = {f"x{j}": rng.integers(0, 1000, rows, dtype=np.int16) for j in range(columns)}
    y = ((table["x0"] > 500) ^ (table["x1"] > 300)) ^ (rng.random(rows) < 0.1)
    pl.DataFrame({**table, "y": y, "who": np.arange(rows) // per_person}).write_parquet(path)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    found = work()
    return found, time.perf_counter() - begin


def once(rows: int, columns: int, cuts: int, folder: str) -> dict[str, Any]:
    """Seconds of each step on a made-up file, after a first small run that compiles."""
    path = Path(folder) / "wide.parquet"
    made(path, rows, columns)
    _, reading = timed(lambda: pl.read_parquet(path))
    declared: dict[str, Any] = {"user": "who", "features": {f"x{j}": pp.Integers(0, 999) for j in range(columns)}}
    data, grouping = timed(lambda: pp.UserData.read(path, label="y", **declared))
    learner = SmallTreeLearner(pp.SmallTrees(cuts=cuts), 1)
    bound = learner.bind(data)
    sums, folding = timed(lambda: bound.users.fold(bound.concept.cells_kernel()))
    rate = learner.vote_rate
    tree, drawing = timed(
        lambda: SmallTreeLaw(bound.concept.shape, cells_of(bound.concept.binned, sums), rate).sample()
    )
    print(
        f"{rows:>11,} rows {columns:>3} columns {cuts + 1:>3} bins: read {reading:.2f} s, and group {grouping:.2f} s, "
        f"cells {folding:.2f} s, law and draw {drawing:.3f} s"
    )
    assert bound.concept.decode(tree)
    return {"reading": reading, "tree": folding + drawing, "path": path, "columns": columns}


def speed(rows: int) -> None:
    with TemporaryDirectory() as folder:
        once(20_000, 5, 15, folder)
        for columns in (5, 10, 20, 40):
            once(rows // 10, columns, 15, folder)
        for cuts in (7, 31, 63):
            once(rows // 10, 20, cuts, folder)
        full = once(rows, 20, 15, folder)
        table = pl.read_parquet(full["path"])
        X = table.select(pl.exclude("y", "who")).to_numpy()
        _, boosting = timed(lambda: HistGradientBoostingClassifier().fit(X, table["y"].to_numpy()))
        print(
            f"ratios at {rows:,} rows: tree / polars reading {full['tree'] / full['reading']:.1f}, "
            f"boosting (HistGradientBoostingClassifier, {boosting:.1f} s) / tree {boosting / full['tree']:.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["accuracy", "speed"])
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if asked.what == "speed":
        return speed(asked.rows)
    return accuracy(asked.tables, asked.splits, asked.draws)


if __name__ == "__main__":
    main()
