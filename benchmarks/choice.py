"""What the choice of a method from public numbers costs: its excess error against that of the best method in hindsight.

    python benchmarks/choice.py [--quick] [--markdown]

For every cell (model or table, number of users, records per user, epsilon) the mean excess error of each candidate is taken over
seeded data sets and over the law of the output, in double precision; the mechanism is never sampled.  ``choose_method`` is told the
number of users and of records per user (for a table, or where users differ, the median) and nothing else.  The plain default is told
nothing: it buys a noisy count of the users (its law as in ``utility.py``).

The ratio is (chosen + FLOOR) / (best + FLOOR): below FLOOR nobody cares which method it was.

"realizable" is shown, and is no candidate: it is only chosen when some rule is declared to be right.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from common import REAL, Grid, Real
from generative import MODELS, Model
from rich.console import Console
from utility import count_points

from privpac.concepts.statistics import Exceeds
from privpac.data import UserData
from privpac.learners.base import profile_of
from privpac.learners.regret import RegretSelection
from privpac.planning import choose_method

FLOOR = 0.001
NAMES = (
    "label noise 0.1",
    "label noise 0.3",
    "40 % of users label at random",
    "own cut, normal sd .1, logistic",
    "own cut, exponential .12, noise .05",
    "two groups, cuts .2 apart, noise .05 / .3",
    "x a trait of the user, random effect",
)
SIZED = "m_i Zipf(1.2), users with m_i > 20 cut .15 higher"
TABLES = ("pitchers", "women's wages", "men's wages by experience")
USERS, RECORDS, EPSILONS = (25, 100, 400), (4, 64), (Fraction(1, 2), Fraction(2))
CANDIDATES = ("regret", "mean")
DEFAULT = "undeclared"
"""Regret selection that is told nothing."""


@dataclass(frozen=True)
class Cell:
    name: str
    users: int
    records: int
    """Declared records per user."""
    epsilon: Fraction


@dataclass(frozen=True)
class Outcome:
    """Mean excess errors by method, and which method was chosen."""

    cell: Cell
    excess: dict[str, float]
    chosen: str

    def ratio(self, method: str) -> float:
        return (self.excess[method] + FLOOR) / (min(self.excess[name] for name in CANDIDATES) + FLOOR)


def cells() -> list[Cell]:
    found = [Cell(name, n, m, epsilon) for name in NAMES for m in RECORDS for epsilon in EPSILONS for n in USERS]
    zipf = MODELS[SIZED].draw(np.random.default_rng(0), 10_000, 1)[0]
    found += [Cell(SIZED, n, max(1, int(np.median(zipf))), epsilon) for epsilon in EPSILONS for n in USERS]
    for name in TABLES:
        sizes = REAL[name].users.sizes
        found += [Cell(name, n, int(np.median(sizes)), epsilon) for epsilon in EPSILONS for n in USERS if n <= len(sizes)]
    return found


def drawn(cell: Cell, datasets: int) -> Iterator[UserData]:
    for i in range(datasets):
        rng = np.random.default_rng([i, cell.users, cell.records])
        if cell.name in MODELS:
            model = MODELS[cell.name]
            yield model.users(model.draw(rng, cell.users, cell.records))
        else:
            users = REAL[cell.name].users
            yield users.take(rng.choice(users.n_users, cell.users, replace=False))


def excess(method: str, world: Model | Real, epsilon: Fraction, data: UserData) -> float:
    """Mean excess error over the law of the output, the number of users declared except for the plain default."""
    if method == DEFAULT:
        return undeclared(world, epsilon, data)
    statistic = "mean" if method == "mean" else "regret"
    learner = RegretSelection(world.concept, epsilon, public_n_users=data.n_users, statistic=statistic)
    bound = learner.bind(data)
    if method == "realizable":
        return world.risk(profile_of(bound, Exceeds(0)), float(learner.rate(epsilon, 1)), 1.0)[1]
    return world.risk(profile_of(bound, learner.statistic_for(bound, data.n_users)), float(learner.rate(epsilon, learner.levels)), 1.0)[1]


def undeclared(world: Model | Real, epsilon: Fraction, data: UserData) -> float:
    learner = RegretSelection(world.concept, epsilon)
    bound = learner.bind(data)
    rate = float(learner.rate(learner.epsilon_selection, learner.levels))
    sizes = tuple(np.unique(data.sizes).tolist())
    points = count_points(learner, bound.concept.bits, data.n_users, sizes[:5])
    return sum(p * world.risk(profile_of(bound, learner.statistic_for(bound, n)), rate, 1.0)[1] for p, n in points)


def outcome(cell: Cell, datasets: int) -> Outcome:
    world: Model | Real = MODELS[cell.name] if cell.name in MODELS else REAL[cell.name]
    sums = dict.fromkeys((*CANDIDATES, DEFAULT, "realizable"), 0.0)
    for data in drawn(cell, datasets):
        for method in sums:
            sums[method] += excess(method, world, cell.epsilon, data) / datasets
    told = choose_method(world.concept, epsilon=cell.epsilon, public_n_users=cell.users, records_per_user=cell.records)
    return Outcome(cell, sums, told.method)


# The tables


def middle(ratios: list[float]) -> str:
    return f"{float(np.exp(np.mean(np.log(ratios)))):.3f}"


def summary(results: list[Outcome]) -> Grid:
    rows = []
    for name in dict.fromkeys(r.cell.name for r in results):
        own = [r for r in results if r.cell.name == name]
        rows.append(_line(name, own))
    rows.append(_line("all", results))
    heads = [
        "model or table",
        "cells",
        "chosen: mean",
        "not the best",
        "chosen / best",
        "worst",
        "told nothing / best",
        "worst",
        "always mean / best",
        "worst",
    ]
    return Grid(f"(chosen + {FLOOR}) / (best + {FLOOR}), geometric means", heads, rows)


def _line(name: str, results: list[Outcome]) -> list[str]:
    picks = [[r.ratio(r.chosen) for r in results], [r.ratio(DEFAULT) for r in results], [r.ratio("mean") for r in results]]
    missed = sum(ratio > 1 for ratio in picks[0])
    changed = sum(r.chosen == "mean" for r in results)
    return [name, str(len(results)), str(changed), str(missed), *(part for p in picks for part in (middle(p), f"{max(p):.2f}"))]


def losses(results: list[Outcome], shown: int = 12) -> Grid:
    """The cells where the choice loses most."""
    ordered = sorted(results, key=lambda r: -r.ratio(r.chosen))[:shown]
    rows = [
        [r.cell.name, f"{r.cell.users}", f"{r.cell.records}", str(r.cell.epsilon), r.chosen]
        + [f"{r.excess[m]:.4f}" for m in (*CANDIDATES, DEFAULT, "realizable")]
        + [f"{r.ratio(r.chosen):.2f}"]
        for r in ordered
    ]
    heads = ["model or table", "users", "m", "ε", "chosen", *CANDIDATES, DEFAULT, "realizable", "ratio"]
    return Grid("where the choice loses most: mean excess error", heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 data sets a cell instead of 12")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    options = parser.parse_args()
    start, console = time.perf_counter(), Console(width=180)
    datasets = 3 if options.quick else 12
    results = [outcome(cell, datasets) for cell in cells()]
    for grid in (summary(results), losses(results)):
        grid.show(console, markdown=options.markdown)
    better = sum(r.excess["realizable"] < min(r.excess[name] for name in CANDIDATES) for r in results)
    console.print(f"{datasets} data sets a cell; counting users with any mistake (realizable) beats both candidates in {better} cells")
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
