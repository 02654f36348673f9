"""Declared ranges that are too wide: what they cost cut-offs and stumps, with and without public weights of rules.

    python benchmarks/range_cuts.py             all public tables, 40, 160 and 640 people, epsilon 1 (half an hour)
    python benchmarks/range_cuts.py --quick     eight tables, 160 people (a minute)

Every column of more than 16 numbers is declared ``0..r max`` for a range factor ``r``, ``-r max..r max`` where values
are negative.  *cut-offs* read the column with the best cut-off of the table, *stumps* all of these columns.
``typical`` is the range of the table's own values.  Figures are mean excess errors over the best rule, times 1000: the
exact laws on drawn people, no draws of the mechanism.  Small trees and scorecards: ``ranges.py``.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from wide_tables import FRESH, TABLES

from privpac.data import Domain, Grid, Integers, UserData
from privpac.methods import HybridSelection
from privpac.methods.simulation import fixed_draws
from privpac.rules import Stumps
from privpac.rules.populations import public_population

FACTORS, FEW, DIGITS, QUICK = (1, 10, 100, 1000), 16, 3, 8
PRIORS = ("uniform", "scale-free", "typical")
MOST_RECORDS = 20
Frame = dict[str, Any]


def numbers_of(name: str) -> tuple[Frame, dict[str, int], Any, Any]:
    """The columns of more than 16 numbers, their decimal places, the labels and the people of a table."""
    load, person, columns = (TABLES | FRESH)[name]
    table = load()
    wide = [column for column in columns.split() if table[column].dtype.kind in "iuf" and table[column].nunique() > FEW]
    table = table.dropna(subset=[person, "label_", *wide])
    table = table[table.groupby(person).cumcount() < MOST_RECORDS]
    values, places = {}, {}
    for column in wide:
        numbers = table[column].to_numpy().astype(float)
        whole = bool((numbers == np.round(numbers)).all())
        most = float(np.abs(numbers).max(initial=1e-6))
        places[column] = 0 if whole else max(0, DIGITS - 1 - math.floor(math.log10(max(most, 1e-6))))
        values[column] = np.round(numbers, places[column])
    ids = np.unique(table[person].astype(str).to_numpy().astype(str), return_inverse=True)[1]
    return values, places, table["label_"].astype(int).to_numpy(), ids


def declared(numbers: Any, places: int, factor: int, typical: bool) -> Domain:
    """``0..factor max``, or both ways from zero, in steps of the column's own places."""
    unit = 10**places
    steps = np.round(numbers * unit).astype(int)
    most = factor * int(np.abs(steps).max(initial=1))
    ends, inside = (-most if int(steps.min()) < 0 else 0, most), (int(steps.min()), int(steps.max()))
    if places == 0:
        return Integers(*ends, typical=inside if typical else None)
    low, high, a, b = (f"{end / unit:.{places}f}" for end in (*ends, *inside))
    return Grid(low, high, f"{1 / unit:.{places}f}", typical=(a, b) if typical else None)


def population(name: str, factor: int, prior: str, only: tuple[str, ...] | None = None) -> Any:
    """The people of a table and the stumps of its columns, as they are declared."""
    values, places, labels, ids = numbers_of(name)
    domains = {
        column: declared(numbers, places[column], factor, prior == "typical")
        for column, numbers in values.items()
        if only is None or column in only
    }
    rows = np.column_stack([values[column] for column in domains])
    users = UserData.from_arrays(rows, labels, ids, features=domains)
    return public_population(users, Stumps(domains, prior="uniform" if prior == "uniform" else "scale-free"), name=name)


def excess(people: Any, n: int, epsilon: str, draws: int) -> float:
    """The mean excess error of the released rule over drawn people and the exact law."""
    learner = HybridSelection(people.concept, epsilon)
    found = [people.expected_excess(learner.law(people.draw(n, fixed_draws(n, i))).as_blocks()) for i in range(draws)]
    return float(np.mean(found))


def best_column(name: str) -> str:
    """The column of the table's best stump."""
    people = population(name, 1, "uniform")
    return str(people.concept.split(people.best)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK} tables, 160 people, 6 draws")
    parser.add_argument("--tables", nargs="*", default=[*TABLES, *FRESH])
    parser.add_argument("--people", nargs="*", type=int, default=[40, 160, 640])
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--draws", type=int, default=30)
    how = parser.parse_args()
    if how.quick:
        how.tables, how.people, how.draws = how.tables[:QUICK], [160], 6
    found: dict[tuple[str, int, str], list[float]] = {}
    for name in how.tables:
        if not numbers_of(name)[0]:
            print(f"{name:12} no column of numbers")
            continue
        only = (best_column(name),)
        for rules, columns in (("cut-offs", only), ("stumps", None)):
            cells = []
            for factor in FACTORS:
                for prior in PRIORS:
                    people = population(name, factor, prior, columns)
                    sizes = [n for n in how.people if n <= people.users.n_users]
                    values = [1000 * excess(people, n, how.epsilon, how.draws) for n in sizes]
                    if values:
                        found.setdefault((rules, factor, prior), []).append(float(np.mean(values)))
                        cells.append(f"{np.mean(values):.1f}")
            print(f"{name:12} {rules:9} " + " ".join(f"{cell:>6}" for cell in cells), flush=True)
    print("\nmean excess error x 1000: " + ", ".join(PRIORS))
    for rules in ("cut-offs", "stumps"):
        for factor in FACTORS:
            means = [np.mean(found[rules, factor, prior]) for prior in PRIORS if (rules, factor, prior) in found]
            print(f"{rules:9} declared {factor:>4} times too wide  " + "  ".join(f"{mean:6.1f}" for mean in means))


if __name__ == "__main__":
    main()
