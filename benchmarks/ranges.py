"""Declared ranges that are too wide: what they cost small trees and scorecards, beside others' private models.

    python benchmarks/ranges.py             24 tables, 100 to 1000 people, epsilon 0.3 to 3 (hours)
    python benchmarks/ranges.py --quick     the same tables, 100 to 1000 people, epsilon 1, one draw (minutes)

A column of more than 16 numbers is declared ``0..r max`` (or ``-r max..r max`` where values are negative) for a range
factor ``r``, years ``1900..2100``.  *natural* is what ``privpac domains`` suggests by the column's name, else the next
power of ten; *typical* is the factor 100 with ``typical=`` the table's own 2 to 98 % widened by a quarter, as somebody
who knows the column might say.  Errors are means over people who were not learned from, times 1000.

DP-SGD (one fixed setting) sees numbers scaled from the declared range to -1..1; diffprivlib, with ``--peers PYTHON`` as
for ``wide.py``, gets the same numbers and one random row of each person.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from wide import DELTA, cases, error, peer_errors
from wide_peers import FIXED, SETTINGS, descend
from wide_tables import FRESH, TABLES, Wide, binned_column, by_number, loaded

import privpac as pp
from privpac.data import Categories, Domain, Grid, Integers, Missing, parse_domain
from privpac.data.domains import values_of
from privpac.data.suggest import known_domain
from privpac.methods.scorecard import ScorecardLearner
from privpac.rules.scorecards import Scorecards

FACTORS = {"x1": 1, "x3": 3, "x10": 10, "x100": 100, "x1000": 1000}
RANGES = (*FACTORS, "natural", "typical")
FEW, DIGITS, PEER_BINS = 16, 3, 16
OURS: dict[str, Any] = {
    "tree, scale-free": pp.SmallTrees(),
    "tree, equal": pp.SmallTrees(spacing="equal"),
    "scorecard, equal": Scorecards(zoom=None),
    "scorecard, private range": Scorecards(),
}
ROWS = (*OURS, "dp-sgd, fixed", "diffprivlib-logistic", "diffprivlib-bayes", "diffprivlib-forest", "dp-ebm")

Found = dict[tuple[str, str, int, str], list[float]]
"""Errors by method, range, people and epsilon."""


# Declarations


def places_of(numbers: Any) -> int:
    """Decimal places that keep three digits of the largest value; none for whole numbers."""
    there = numbers[~np.isnan(numbers)]
    if (there == np.round(there)).all():
        return 0
    return max(0, DIGITS - 1 - math.floor(math.log10(max(np.abs(there).max(), 1e-6))))


def _domain(low: float, high: float, places: int) -> Domain:
    if places == 0:
        return Integers(math.floor(low), math.ceil(high))
    unit = 10**places
    ends = (f"{math.floor(low * unit) / unit:.{places}f}", f"{math.ceil(high * unit) / unit:.{places}f}")
    return Grid(*ends, f"{1 / unit:.{places}f}")


def declared(name: str, numbers: Any, setting: str) -> Domain:
    """The domain of a column of numbers, of its values' own places."""
    there, places = numbers[~np.isnan(numbers)], places_of(numbers)
    low, high = float(there.min()), float(there.max())
    if name.lower().startswith("y") and low >= 1900 and high <= 2100:
        return Integers(1900, 2100)
    most = max(abs(low), abs(high), 10.0**-places)
    if setting == "natural":
        known = known_domain(name)
        if known is not None:
            domain = parse_domain(known[0])
            if domain.stepped and domain.ends[0] <= low and high <= domain.ends[1]:
                return domain
        end = 10.0 ** math.ceil(math.log10(most))
        return _domain(-end if low < 0 else 0, end, places)
    factor = FACTORS.get(setting, 100)
    wide = _domain(-factor * most if low < 0 else 0, factor * most, places)
    if setting != "typical":
        return wide
    a, b = np.quantile(there, [0.02, 0.98])
    middle, half = (a + b) / 2, max((b - a) * 1.25 / 2, 10.0**-places)
    least, greatest = wide.ends
    inside = [min(max(end, float(least)), float(greatest)) for end in (middle - half, middle + half)]
    codes, _ = wide.encode(np.round(inside, places), on_invalid="clamp")
    return wide.with_typical(*(wide.value(int(code)) for code in codes))


def ranged(name: str, setting: str) -> Wide:
    """A table whose numbers are declared for a setting."""
    table, person, columns = loaded(name)
    frame, domains = {}, {}
    for column in columns:
        series = table[column]
        values, domain, _ = binned_column(series)
        if series.dtype.kind in "biuf" and series.nunique() > FEW:
            numbers = series.astype(float)
            domain = declared(column, numbers.to_numpy(), setting)
            assert domain.line is not None
            values = numbers.round(max(0, round(-math.log10(domain.line[1]))))
        frame[column] = values
        domains[column] = Missing(domain, "own") if values.isna().any() else domain
    pandas, labels = type(table), table["label_"].astype(int).to_numpy()
    return Wide(name, pandas(frame), pandas(frame), domains, labels, by_number(table[person]))


def scaled(table: Wide) -> tuple[Any, Any, Any, Any]:
    """As others' models read it: numbers of the declared range in -1..1, names as 0/1, and bare codes in 16 bins."""
    wide, bare, widths, nominal = [], [], [], []
    for name, domain in table.domains.items():
        values, series = values_of(domain), table.frame[name]
        holes = series.isna().to_numpy()
        names = isinstance(values, Categories)
        if isinstance(values, Categories):
            codes = series.map({value: i for i, value in enumerate(values.values)}).fillna(-1).to_numpy().astype(int)
            wide += [(codes == c).astype(float) for c in range(values.size)]
            bins = values.size
        else:
            low, high = map(float, values.ends)
            place = (series.fillna(low).to_numpy().astype(float) - low) / max(high - low, 1e-12)
            wide.append(np.where(holes, 0.0, 2 * place - 1))
            bins = min(values.size, PEER_BINS)
            codes = np.minimum((place * bins).astype(int), bins - 1)
        if holes.any():
            wide.append(holes.astype(float))
        bare.append(codes)
        widths.append(bins)
        nominal.append(names)
    return np.column_stack(wide), np.column_stack(bare), np.array(widths), np.array(nominal)


# Measuring


def learned(method: str, users: Any, epsilon: str, n: int) -> Any:
    rules = OURS[method]
    if isinstance(rules, Scorecards):
        return ScorecardLearner(rules, epsilon, delta=DELTA, public_n_users=n).learn(users)
    return pp.learn(users, rules, epsilon=epsilon)


def measured(table: Wide, setting: str, how: argparse.Namespace, found: Found) -> None:
    people, epsilons = tuple(how.people), tuple(how.epsilons)
    some, coded = list(cases(table, how.splits, people)), scaled(table)
    theirs = peer_errors(table, some, how.peers, coded, how.draws) if how.peers else [{} for _ in some]
    for case, other in zip(some, theirs):
        for (method, epsilon), value in other.items():
            if epsilon in epsilons:
                found[method, setting, case.n, epsilon].append(value)
        users = table.users(case.trained)
        for epsilon in epsilons:
            for method in OURS:
                drawn = [learned(method, users, epsilon, case.n) for _ in range(how.draws)]
                errors = [error(table, one.predict(table.frame[case.tested]), case.tested) for one in drawn]
                found[method, setting, case.n, epsilon].append(float(np.mean(errors)))
            found["dp-sgd, fixed", setting, case.n, epsilon].append(
                gradients(table, case, coded[0], epsilon, how.draws)
            )


def gradients(table: Wide, case: Any, x: Any, epsilon: str, draws: int) -> float:
    place = np.flatnonzero(case.rows)[np.argsort(table.people[case.rows], kind="stable")]
    person = np.unique(table.people[place], return_inverse=True)[1]
    setting = SETTINGS[FIXED]
    noise = np.full(draws, setting.noise(epsilon, DELTA))
    rng = np.random.default_rng([case.n, case.split])
    weights = descend(x[place], table.labels[place], person, setting, noise, rng)
    tested = np.column_stack([x[case.tested], np.ones(int(case.tested.sum()))])
    return float(np.mean([error(table, (tested @ w > 0).astype(int), case.tested) for w in weights]))


# Showing


def mean(found: Found, method: str, setting: str, many: bool) -> str:
    values = [
        value
        for (m, s, n, epsilon), listed in found.items()
        if (m, s) == (method, setting) and (n * float(epsilon) >= 300) == many
        for value in listed
    ]
    return f"{1000 * np.mean(values):.0f}" if values else "–"


def shown(tables: dict[str, Found]) -> None:
    found: Found = defaultdict(list)
    for one in tables.values():
        for key, values in one.items():
            found[key].append(float(np.mean(values)))
    print(f"\nerrors x 1000, n epsilon >= 300 (below), means over {len(tables)} tables")
    print(f"{'':26}" + "".join(f"{setting:>13}" for setting in RANGES))
    for method in ROWS:
        cells = [(mean(found, method, s, True), mean(found, method, s, False)) for s in RANGES]
        if any(cell != ("–", "–") for cell in cells):
            print(f"{method:26}" + "".join(f"{many + f' ({few})':>13}" for many, few in cells))
    for ours, base in (("tree, scale-free", "tree, equal"), ("scorecard, private range", "scorecard, equal")):
        at = {
            name: [
                np.mean([np.mean(v) for (m, s, _, _), v in one.items() if (m, s) == (which, "x1")])
                for which in (ours, base)
            ]
            for name, one in tables.items()
        }
        worst = max(at, key=lambda name: at[name][0] / at[name][1])
        print(f"{ours} over {base} at x1: worst table {worst}, {at[worst][0] / at[worst][1]:.2f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 to 1000 people, epsilon 1, one split, one draw")
    parser.add_argument("--tables", nargs="*", default=[*TABLES, *FRESH])
    parser.add_argument("--ranges", nargs="*", default=list(RANGES), choices=RANGES)
    parser.add_argument("--people", nargs="*", type=int, default=[100, 300, 1000])
    parser.add_argument("--epsilons", nargs="*", default=["0.3", "1", "3"])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--peers", help="python of the other libraries' environment")
    parser.add_argument("--save", help="where the errors are written, table by table")
    how = parser.parse_args()
    if how.quick:
        how.people, how.epsilons, how.splits, how.draws = [100, 300, 1000], ["1"], 1, 1
    tables: dict[str, Found] = {}
    for name in how.tables:
        found: Found = defaultdict(list)
        for setting in how.ranges:
            measured(ranged(name, setting), setting, how, found)
        if not found:
            print(f"{name:11} too few people")
            continue
        tables[name] = found
        print(f"{name:11} " + "  ".join(f"{method} {mean(found, method, 'x1', True)}" for method in OURS), flush=True)
        if how.save:
            Path(how.save).write_text(json.dumps({t: [[*k, v] for k, v in one.items()] for t, one in tables.items()}))
    shown(tables)


if __name__ == "__main__":
    main()
