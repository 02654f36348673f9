"""Wide tables: how good small trees, stumps and scorecards are beside others' private models and models without
privacy, and how fast.

    python benchmarks/wide.py accuracy        errors by n and epsilon on public tables with ids
    python benchmarks/wide.py summary FILES   the same means from what --save wrote
    python benchmarks/wide.py classes         more than two labels: trees and scorecards, one against the rest
    python benchmarks/wide.py speed           10^7 rows, 20 columns of 16 bins, and how time grows

Errors are averages over people who were not learned from, less that of boosted trees on the same people without
privacy, times 1000.  Ours draw from the system's generator; the standard error is over tables.  ``--peers PYTHON``
names an environment made from ``peers/requirements.txt`` (``make .venv-peers/.installed``): diffprivlib and DP-EBM run
there, and are left out without it.  What each of them promises is in ``wide_peers.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from wide_peers import FIXED, SETTINGS, descend, encoded, in_peers
from wide_tables import CLASSES, TABLES, Wide, wide_table

import privpac as pp
from privpac.methods import SmallTreeLearner
from privpac.methods.scorecard import ScorecardLearner
from privpac.methods.small_tree import SmallTreeLaw
from privpac.rules.scorecards import Scorecards
from privpac.rules.small_trees import cells_of

DELTA = "1e-6"
PEOPLE, EPSILONS = (100, 300, 1000), ("0.3", "1", "3")
MOST_TESTED = 1000
PRIVATE = ("tree", "stump", "scorecard", "scorecard, n bought")
HINDSIGHT = {"dp-sgd, best of 6": "dp-sgd/", "diffprivlib, best of 3": "diffprivlib-"}
ROWS = (*PRIVATE, "dp-sgd, fixed", *HINDSIGHT, "dp-ebm", "logistic", "majority")
"""What is shown: ours, others' (the best of several settings or models being chosen for each table, n and epsilon after
seeing its error), and what has no privacy."""

Found = dict[tuple[str, int, str], list[float]]


def learned(method: str, users: Any, epsilon: str, n: int) -> Any:
    if method == "tree":
        return pp.learn(users, pp.SmallTrees(), epsilon=epsilon)
    if method == "stump":
        return pp.learn(users, pp.SmallTrees(depth=1) if _holes(users) else pp.Stumps(), epsilon=epsilon)
    told = None if method.endswith("bought") else n
    return ScorecardLearner(Scorecards(), epsilon, delta=DELTA, public_n_users=told).learn(users)


def _holes(users: Any) -> bool:
    """Stumps know nothing of missing values; one question of a small tree stands in where there are some."""
    return any(isinstance(domain, pp.Missing) for domain in users.features.values())


class Case(NamedTuple):
    """People to learn from and rows of others to be tested on, with the error of boosting there."""

    n: int
    split: int
    trained: Any
    rows: Any
    tested: Any


def cases(table: Wide, splits: int, people: tuple[int, ...] = PEOPLE) -> Iterable[Case]:
    everybody = np.unique(table.people)
    for n in people:
        if len(everybody) < 1.25 * n:
            continue
        for split in range(splits):
            order = np.random.default_rng([n, split]).permutation(everybody)
            trained, tested = order[:n], np.isin(table.people, order[n : n + MOST_TESTED])
            yield Case(n, split, trained, np.isin(table.people, trained), tested)


def error(table: Wide, said: Any, tested: Any) -> float:
    """The mean over people of the share of their records that are wrong."""
    wrong = (said != table.labels[tested]).astype(float)
    _, person = np.unique(table.people[tested], return_inverse=True)
    return float(np.mean(np.bincount(person, wrong) / np.bincount(person)))


def plain_errors(table: Wide, case: Case) -> dict[str, float]:
    """Without privacy: boosting, logistic regression, the majority label; every person weighs the same."""
    _, person, sizes = np.unique(table.people[case.rows], return_inverse=True, return_counts=True)
    X, y, weights = table.raw[case.rows], table.labels[case.rows], 1 / sizes[person]
    boosting = HistGradientBoostingClassifier(max_iter=60, early_stopping=False).fit(X, y, sample_weight=weights)
    line = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=500))
    line.fit(X, y, logisticregression__sample_weight=weights)
    models = {"boosting": boosting, "logistic": line}
    found = {name: error(table, m.predict(table.raw[case.tested]), case.tested) for name, m in models.items()}
    most = int(np.argmax(np.bincount(y, weights)))
    return found | {"majority": error(table, np.full(int(case.tested.sum()), most), case.tested)}


def gradient_errors(table: Wide, case: Case, x: Any, draws: int) -> dict[tuple[str, str], float]:
    """DP-SGD by setting and epsilon."""
    place = np.flatnonzero(case.rows)[np.argsort(table.people[case.rows], kind="stable")]
    person = np.unique(table.people[place], return_inverse=True)[1]
    tested, out = np.column_stack([x[case.tested], np.ones(int(case.tested.sum()))]), {}
    for k, (name, how) in enumerate(SETTINGS.items()):
        noise = np.repeat([how.noise(epsilon, DELTA) for epsilon in EPSILONS], draws)
        rng = np.random.default_rng([case.n, case.split, k])
        weights = descend(x[place], table.labels[place], person, how, noise, rng)
        errors = [error(table, (tested @ w > 0).astype(int), case.tested) for w in weights]
        for e, epsilon in enumerate(EPSILONS):
            out[f"dp-sgd/{name}", epsilon] = float(np.mean(errors[e * draws : (e + 1) * draws]))
    return out


def peer_errors(
    table: Wide, some: list[Case], python: str, coded: Any, draws: int
) -> list[dict[tuple[str, str], float]]:
    """diffprivlib and DP-EBM by model and epsilon, for each case: one random row a person."""
    x, codes, widths, nominal = coded
    job: dict[str, Any] = {"widths": widths, "nominal": nominal, "delta": float(DELTA), "draws": draws, "x": x}
    job |= {"codes": codes, "epsilons": np.array([float(e) for e in EPSILONS]), "sets": len(some)}
    for i, case in enumerate(some):
        rows = np.random.default_rng([case.n, case.split, 9]).permutation(np.flatnonzero(case.rows))
        _, first = np.unique(table.people[rows], return_index=True)
        one = rows[first]
        job |= {f"x{i}": x[one], f"codes{i}": codes[one], f"y{i}": table.labels[one], f"tested{i}": case.tested}
    out: list[dict[tuple[str, str], list[float]]] = [defaultdict(list) for _ in some]
    for key, said in in_peers(python, job).items():
        model, i, e, _ = key.split("/")
        out[int(i)][model, EPSILONS[int(e)]].append(error(table, said, some[int(i)].tested))
    return [{key: float(np.mean(values)) for key, values in one.items()} for one in out]


def measured(table: Wide, splits: int, draws: int, peers: str | None) -> Found:
    """Excess errors over boosting, by method, number of people and epsilon; one for each split."""
    found: Found = defaultdict(list)
    some, coded = list(cases(table, splits)), encoded(table)
    theirs = peer_errors(table, some, peers, coded, draws) if peers else [{} for _ in some]
    for case, other in zip(some, theirs):
        plain = plain_errors(table, case)
        other = other | gradient_errors(table, case, coded[0], draws)
        other |= {(name, epsilon): plain[name] for name in ("logistic", "majority") for epsilon in EPSILONS}
        users = table.users(case.trained)
        for method in PRIVATE:
            for epsilon in EPSILONS:
                drawn = [
                    error(table, learned(method, users, epsilon, case.n).predict(table.frame[case.tested]), case.tested)
                    for _ in range(draws)
                ]
                other[method, epsilon] = float(np.mean(drawn))
        for (method, epsilon), value in other.items():
            found[method, case.n, epsilon].append(1000 * (value - plain["boosting"]))
    return found


def shown_rows(found: Found) -> Found:
    """With the fixed setting and the best in hindsight of each cell by their names."""
    out = dict(found)
    for n, epsilon in {(n, epsilon) for _, n, epsilon in found}:
        out["dp-sgd, fixed", n, epsilon] = found[f"dp-sgd/{FIXED}", n, epsilon]
        for name, start in HINDSIGHT.items():
            several = [values for (m, k, e), values in found.items() if m.startswith(start) and (k, e) == (n, epsilon)]
            if several:
                out[name, n, epsilon] = min(several, key=np.mean)
    return out


def accuracy(names: list[str], splits: int, draws: int, peers: str | None, save: str | None) -> None:
    tables = {}
    for name in names:
        table = wide_table(name)
        found = measured(table, splits, draws, peers)
        about = {"people": len(np.unique(table.people)), "columns": len(table.domains)}
        tables[name] = {**about, "splits": splits, "draws": draws, "errors": [[*k, v] for k, v in found.items()]}
        if save:
            Path(save).write_text(json.dumps(tables))
        print(f"{name:11} {about['people']:6} people {about['columns']:3} columns   " + "   ".join(_parts(found)))
    summary(tables)


FEW, MANY = "few", "many"


def _split_by_size(found: Found, method: str) -> dict[str, list[float]]:
    return {
        FEW: [v for (m, n, e), vs in found.items() if m == method and n * float(e) <= 100 for v in vs],
        MANY: [v for (m, n, e), vs in found.items() if m == method and n * float(e) >= 300 for v in vs],
    }


def _parts(found: Found) -> list[str]:
    rows = shown_rows(found)
    parts = {method: _split_by_size(rows, method) for method in ROWS}
    return [f"{m} " + " / ".join(f"{np.mean(v):.0f}" for v in part.values()) for m, part in parts.items() if part[FEW]]


def summary(tables: dict[str, Any]) -> None:
    """Means over tables by size, paired differences from the tree and the scorecard, and every cell."""
    means: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    cells: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    one = next(iter(tables.values()))
    print(f"\n{len(tables)} tables, {one['splits']} splits, {one['draws']} draws; delta {DELTA} where there is one")
    for name, kept in tables.items():
        bare = {(method, n, epsilon): values for method, n, epsilon, values in kept["errors"]}
        found = shown_rows(bare)
        for method in {m for m, _, _ in found}:
            for part, values in _split_by_size(found, method).items():
                if values:
                    means[method, part][name] = float(np.mean(values))
        for key, values in found.items():
            cells[key].append(float(np.mean(values)))
        print(f"{name:11} {kept['people']:6} people {kept['columns']:3} columns   {'   '.join(_parts(bare))}")
    print("\nmean over tables (standard error), people x epsilon <= 100 and >= 300")
    for method in (*ROWS, *sorted({m for m, _ in means if "/" in m or m.startswith("diffprivlib-")})):
        if means[method, FEW]:
            print(f"{method:40}" + "".join(_mean(list(means[method, part].values())) for part in (FEW, MANY)))
    print("\npaired")
    for ours, other in [("tree", "stump"), ("tree", "scorecard"), ("scorecard", "scorecard, n bought")] + [
        (ours, other) for ours in ("tree", "scorecard") for other in ("dp-sgd, fixed", *HINDSIGHT, "dp-ebm")
    ]:
        for part in (FEW, MANY):
            a, b = means[ours, part], means[other, part]
            gap = [a[name] - b[name] for name in a if name in b]
            if gap:
                print(f"{ours} - {other}, {part}:{_mean(gap)}, better on {sum(g < 0 for g in gap)} of {len(gap)}")
    print("\nby people and epsilon")
    for n in PEOPLE:
        for epsilon in EPSILONS:
            if cells["tree", n, epsilon]:
                line = "  ".join(f"{m} {np.mean(cells[m, n, epsilon]):.0f}" for m in ROWS if cells[m, n, epsilon])
                print(f"n = {n:5}, epsilon = {epsilon:4} ({len(cells['tree', n, epsilon])} tables): {line}")


def classes(splits: int, draws: int) -> None:
    """More than two labels: excess errors of trees and scorecards over boosting without privacy."""
    print(f"x1000; {splits} splits, {draws} draws; people x epsilon <= 100 and >= 300")
    for name in CLASSES:
        table, found = wide_table(name), defaultdict(list)
        for case in cases(table, splits):
            plain, users = plain_errors(table, case), table.users(case.trained)
            for epsilon in EPSILONS:
                for key in ("logistic", "majority"):
                    found[key, case.n, epsilon].append(1000 * (plain[key] - plain["boosting"]))
                for method in ("tree", "scorecard"):
                    for _ in range(draws):
                        rule = learned(method, users, epsilon, case.n).value
                        said = rule.predict_codes(rule.encode(table.frame[case.tested]))
                        lost = error(table, said, case.tested) - plain["boosting"]
                        found[method, case.n, epsilon].append(1000 * lost)
        parts = {method: _split_by_size(found, method) for method in ("tree", "scorecard", "logistic", "majority")}
        shown = [f"{m} " + " / ".join(f"{np.mean(v):.0f}" for v in part.values()) for m, part in parts.items()]
        print(f"{name:24} {len(table.classes)} labels {len(np.unique(table.people)):6} people   {'   '.join(shown)}")


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):8.1f} ({np.std(values, ddof=1) / len(values) ** 0.5:.1f})" if len(values) > 1 else ""


# Speed


def made(path: Path, rows: int, columns: int, per_person: int = 10) -> None:
    rng = np.random.default_rng(0)
    table = {f"x{j}": rng.integers(0, 1000, rows, dtype=np.int16) for j in range(columns)}
    y = ((table["x0"] > 500) ^ (table["x1"] > 300)) ^ (rng.random(rows) < 0.1)
    pl.DataFrame({**table, "y": y, "who": np.arange(rows) // per_person}).write_parquet(path)


class Took(NamedTuple):
    """Processor seconds of all threads, and seconds on the clock; with other work on the machine the former count."""

    processor: float
    clock: float

    def __str__(self) -> str:
        return f"{self.processor:.2f} s ({self.clock:.2f} s)"


def timed(work: Callable[[], Any]) -> tuple[Any, Took]:
    clock, used = time.perf_counter(), time.process_time()
    found = work()
    return found, Took(time.process_time() - used, time.perf_counter() - clock)


def once(rows: int, columns: int, cuts: int, folder: str) -> dict[str, Any]:
    """Each step on a made-up file, after a first small run that compiles."""
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
    scorecard = ScorecardLearner(Scorecards(cuts=cuts), 1, delta=DELTA)
    _, descent = timed(lambda: scorecard.learn(data))
    print(
        f"{rows:>11,} rows {columns:>3} columns {cuts + 1:>3} bins: read {reading}, and group {grouping}, "
        f"cells {folding}, law and draw {drawing}, scorecard {descent}"
    )
    assert bound.concept.decode(tree)
    tree_took = folding.processor + drawing.processor
    return {"reading": reading.processor, "tree": tree_took, "scorecard": descent.processor, "path": path}


def speed(rows: int) -> None:
    print("processor seconds of all threads (seconds on the clock)")
    with TemporaryDirectory() as folder:
        once(20_000, 5, 15, folder)
        for columns in (5, 10, 20, 40):
            once(rows // 10, columns, 15, folder)
        for cuts in (7, 31, 63):
            once(rows // 10, 20, cuts, folder)
        once(rows, 20, 15, folder)
        part = once(rows // 10, 20, 15, folder)
        table = pl.read_parquet(part["path"])
        X = table.select(pl.exclude("y", "who")).to_numpy()
        _, boosting = timed(lambda: HistGradientBoostingClassifier().fit(X, table["y"].to_numpy()))
        print(f"at {rows // 10:,} rows HistGradientBoostingClassifier {boosting}")
        for name in ("tree", "scorecard"):
            read, boost = part[name] / part["reading"], boosting.processor / part[name]
            print(
                f"processor time of the {name}: {read:.1f} times polars reading; boosting {boost:.1f} times the {name}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["accuracy", "summary", "classes", "speed"])
    parser.add_argument("files", nargs="*", help="what --save wrote, for summary")
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--peers", help="a Python with peers/requirements.txt")
    parser.add_argument("--save", help="a file for all errors, as JSON")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if asked.what == "speed":
        return speed(asked.rows)
    if asked.what == "classes":
        return classes(asked.splits, asked.draws)
    if asked.what == "summary":
        return summary({k: v for file in asked.files for k, v in json.loads(Path(file).read_text()).items()})
    return accuracy(asked.tables, asked.splits, asked.draws, asked.peers, asked.save)


if __name__ == "__main__":
    main()
