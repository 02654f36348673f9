"""Hybrid selection against the per-user mean and clipped regret, on public tables with real ids.

    python benchmarks/hybrid.py [--draws 12] [--markdown] [--window]

Every figure is a mean over the exact law of the output.  The error of a rule is the mean over all users of the table,
who weigh equally; n users are drawn without replacement.  Ratios are of mean excess errors with .001 added to both.
*Known* tables have been used for this library before (``common.REAL``, ``open_tables.py``); *fresh* ones had not been
when this script was written: their columns, labels and ranges were fixed from the tables' descriptions, before any
learner was run on them, and nothing was changed since.

``--window`` prints the failure of hybrid selection on the law in which more people hurt: four atoms, two light noisy
ones beside the best cut.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from common import REAL, Grid, Real, _above_median, _columns, _rdata, dense
from numpy.typing import NDArray
from open_tables import CLOCKS, LATER_CLOCKS, LATER_OTHERS, OTHERS
from rich.console import Console

import privpac as pp
from privpac.data import UserData
from privpac.methods.expected_error import count_points
from privpac.rules.populations import users_from_codes

USERS, EPSILONS = (25, 100, 400), (Fraction(3, 10), Fraction(1))
COLUMNS = ("mean", "regret", "hybrid")


def _high(column: str) -> Callable[[Any], Any]:
    return lambda table: _above_median(table, column)


def _scaled(
    package: str, name: str, user: str, feature: Callable[[Any], Any], label: Callable[[Any], Any]
) -> Callable[[], tuple[Any, Any, Any]]:
    def load() -> tuple[Any, Any, Any]:
        table = _rdata(package, name)
        return table[user], feature(table), label(table)

    return load


def _log(column: str, steps: int = 10) -> Callable[[Any], Any]:
    """Logarithm in steps of 1/steps; what is not positive stands at the lower end."""
    return lambda table: steps * np.log(table[column].clip(lower=1e-3))


FRESH = {
    table.name: table
    for table in (
        Real(
            "chemistry grade by GCSE score",
            "mlmRev/Chem97, schools",
            _scaled("mlmRev", "Chem97", "school", lambda t: 10 * t["gcsescore"], lambda t: t["score"] >= 6),
            0,
            80,
        ),
        Real(
            "mathematics by social status",
            "nlme/MathAchieve, schools",
            _scaled("nlme", "MathAchieve", "School", lambda t: 10 * t["SES"], _high("MathAch")),
            -40,
            30,
        ),
        Real(
            "headache by day of treatment",
            "carData/KosteckiDillon",
            _columns("carData", "KosteckiDillon", "id", "time", lambda t: t["headache"] == "yes"),
            -30,
            100,
            "below",
        ),
        Real(
            "exercise by age",
            "carData/Blackmore",
            _columns("carData", "Blackmore", "subject", "age", _high("exercise")),
            8,
            18,
        ),
        Real(
            "obesity by age",
            "geepack/muscatine",
            _columns("geepack", "muscatine", "id", "age", lambda t: t["numobese"] > 0),
            6,
            18,
        ),
        Real(
            "life expectancy by income",
            "gapminder, countries",
            _scaled("gapminder", "gapminder", "country", _log("gdpPercap"), _high("lifeExp")),
            50,
            120,
        ),
        Real(
            "patents by research spending",
            "sandwich/InstInnovation, companies",
            _scaled("sandwich", "InstInnovation", "company", _log("randd"), _high("patents")),
            -20,
            100,
        ),
        Real(
            "air fares by distance",
            "wooldridge/airfare, routes",
            _columns("wooldridge", "airfare", "id", "dist", _high("fare")),
            0,
            2800,
        ),
        Real(
            "inspection scores by year",
            "causaldata/restaurant_inspections",
            _columns("causaldata", "restaurant_inspections", "business_name", "Year", _high("inspection_score")),
            2000,
            2019,
            "below",
        ),
        Real(
            "rice harvest by land",
            "plm/RiceFarms",
            _scaled("plm", "RiceFarms", "id", lambda t: 100 * t["size"], _high("goutput")),
            0,
            500,
        ),
        Real(
            "firms' employment by capital",
            "plm/EmplUK",
            _scaled("plm", "EmplUK", "firm", _log("capital"), _high("emp")),
            -60,
            40,
        ),
        Real(
            "housing by visit",
            "multgee/housing",
            _columns("multgee", "housing", "id", "time", lambda t: t["y"] >= 2),
            0,
            24,
        ),
        Real(
            "arthritis by first score",
            "multgee/arthritis",
            _columns("multgee", "arthritis", "id", "baseline", _high("y")),
            0,
            6,
        ),
        Real(
            "quinidine by hours",
            "nlme/Quinidine, patients",
            _columns("nlme", "Quinidine", "Subject", "time", _high("conc")),
            0,
            400,
        ),
        Real(
            "professors' salaries by publications",
            "wooldridge/big9salary",
            _columns("wooldridge", "big9salary", "id", "pubindx", _high("salary")),
            0,
            200,
        ),
        Real(
            "children's height by parents'",
            "HistData/GaltonFamilies",
            _scaled("HistData", "GaltonFamilies", "family", lambda t: 4 * t["midparentHeight"], _high("childHeight")),
            250,
            310,
        ),
        Real(
            "travel mode by waiting time",
            "AER/TravelMode",
            _columns("AER", "TravelMode", "individual", "wait", lambda t: t["choice"] == "yes"),
            0,
            99,
            "below",
        ),
        Real(
            "countries' savings by year",
            "plm/SumHes",
            _columns("plm", "SumHes", "country", "year", _high("sr")),
            1960,
            1985,
        ),
        Real(
            "countries over five million by year",
            "gt/countrypops",
            _columns("gt", "countrypops", "country_name", "year", lambda t: t["population"] > 5 * 10**6),
            1960,
            2022,
        ),
        Real(
            "coffee imports by year",
            "stevedata/coffee_imports, countries",
            _columns("stevedata", "coffee_imports", "country", "year", _high("value")),
            1990,
            2019,
        ),
    )
}
GROUPS = {"known": {**REAL, **CLOCKS, **OTHERS, **LATER_CLOCKS, **LATER_OTHERS}, "fresh": FRESH}


# One learner on one data set


def excess(column: str, table: Real, data: UserData, epsilon: Fraction) -> float:
    """The mean excess error of what the learner releases."""
    if column == "mean":
        learner = pp.RegretSelection(table.concept, epsilon, statistic="mean")
        return weighed(table, [(1.0, learner.law(data))])
    if column == "hybrid":
        return weighed(table, [(1.0, pp.HybridSelection(table.concept, epsilon).law(data))])
    learner = pp.RegretSelection(table.concept, epsilon)
    return weighed(table, [(p, learner.law(data, given=n)) for p, n in count_points(learner, table.concept.bits, data)])


def weighed(table: Real, laws: Iterable[tuple[float, Any]]) -> float:
    total = 0.0
    for p, law in laws:
        counts = law.span.astype(np.int64) + 1
        scores = np.repeat(law.score, counts).reshape(-1, table.concept.size)
        weight = np.exp(-float(law.eta) * (scores - scores.min()))
        total += p * float((weight @ table.excess).sum() / weight.sum())
    return total


def samples(table: Real, draws: int) -> Iterator[tuple[int, list[UserData]]]:
    """Data sets of n users, for every n that leaves a sixth of the table's users out."""
    for n in (n for n in USERS if n <= table.users.n_users // 1.2):
        yield (
            n,
            [
                table.users.take(np.random.default_rng([i, n]).choice(table.users.n_users, n, replace=False))
                for i in range(draws)
            ],
        )


def cells(table: Real, draws: int) -> dict[tuple[int, Fraction], dict[str, float]]:
    found = {}
    for n, drawn in samples(table, draws):
        for epsilon in EPSILONS:
            found[n, epsilon] = {
                c: float(np.mean([excess(c, table, data, epsilon) for data in drawn])) for c in COLUMNS
            }
            found[n, epsilon]["public"] = float(np.mean([table.excess[table.concept.erm(data)] for data in drawn]))
    return found


def each_ratio(found: Iterable[dict[str, float]], a: str, b: str) -> NDArray[np.float64]:
    return np.array([(cell[a] + 0.001) / (cell[b] + 0.001) for cell in found])


def ratios(found: Iterable[dict[str, float]], a: str, b: str) -> str:
    """Geometric mean, worst, share above 1.1."""
    each = each_ratio(found, a, b)
    return f"{math.exp(float(np.log(each).mean())):.3f}, {each.max():.2f}, {100 * float((each > 1.1).mean()):.0f} %"


# Where more people hurt


WINDOW_USERS, WINDOW_NOISES, WINDOW_RECORDS = (50, 100, 150, 200, 250, 300, 350, 400, 450, 520), (0.1, 0.2, 0.3), 16
# Rule 0 is the best; the other 1024 move one of two light noisy atoms to the wrong side.
WINDOW_RULES = pp.FiniteClass(np.array([[0, 0, 1, 1], *[[0, 1, 1, 1]] * 512, *[[0, 0, 0, 1]] * 512]), pp.Integers(0, 3))


def window_samples(noise: float, m: int, n: int, seeds: int, alpha: float = 0.02) -> Iterator[UserData]:
    """Users of the law in which every rule but the best has excess alpha."""
    light, rng = 1.001 * alpha / (1 - 2 * noise), np.random.default_rng([n, m])
    for _ in range(seeds):
        x = rng.choice(4, n * m, p=[0.5 - light, light, light, 0.5 - light])
        labels = (x >= 2) ^ (((x == 1) | (x == 2)) & (rng.random(n * m) < noise))
        yield users_from_codes(np.full(n, m), {"x": x}, labels, {"x": pp.Integers(0, 3)})


def window(noise: float, m: int, n: int, seeds: int) -> float:
    """Failure of hybrid selection."""
    learner, total = pp.HybridSelection(WINDOW_RULES, epsilon=1), 0.0
    for data in window_samples(noise, m, n, seeds):
        scores = dense(learner.scores(learner.bind(data))).reshape(2, -1)
        weight = np.exp(-(scores - scores.min()) / learner.levels)
        total += 1 - float(weight[:, 0].sum() / weight.sum())
    return total / seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--window", action="store_true", help="where more people hurt, instead of tables")
    options = parser.parse_args()
    console = Console(width=200)
    if options.window:
        rows = [
            [f"noise {noise}", *(f"{window(noise, WINDOW_RECORDS, n, 400):.3f}" for n in WINDOW_USERS)]
            for noise in WINDOW_NOISES
        ]
        title = f"probability of an excess above .02 at so many users, m = {WINDOW_RECORDS}"
        Grid(title, ["", *map(str, WINDOW_USERS)], rows).show(console, markdown=options.markdown)
        return
    summary = []
    for group, tables in GROUPS.items():
        rows = []
        every: list[dict[str, float]] = []
        for table in tables.values():
            found = cells(table, options.draws)
            every += found.values()
            row = [f"{table.name} ({np.median(table.users.sizes):.0f})", str(table.users.n_users)]
            for epsilon in EPSILONS:
                here = [cell for (_, e), cell in found.items() if e == epsilon]
                row += [" / ".join(f"{cell[c]:.4f}".lstrip("0") for cell in here) for c in COLUMNS]
            row.append(ratios(found.values(), "hybrid", "mean").split(", ")[1])
            rows.append(row)
        heads = [
            "table (median records)",
            "users",
            *(f"{c}, ε {float(e):g}" for e in EPSILONS for c in COLUMNS),
            "worst hybrid/mean",
        ]
        Grid(f"{group} tables: mean excess error at {' / '.join(map(str, USERS))} users", heads, rows).show(
            console, markdown=options.markdown
        )
        pairs = (("regret", "mean"), ("hybrid", "mean"), ("hybrid", "regret"))
        summary.append([f"{group}, {len(tables)} tables, {len(every)} cells", *(ratios(every, a, b) for a, b in pairs)])
    heads = [
        "geometric mean, worst, share above 1.1",
        "regret / mean",
        "hybrid selection / mean",
        "hybrid selection / regret",
    ]
    Grid("ratios of mean excess errors, .001 added", heads, summary).show(console, markdown=options.markdown)


if __name__ == "__main__":
    main()
