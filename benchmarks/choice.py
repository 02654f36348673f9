"""What the choice of a method from public numbers costs: its excess error against that of the best method in hindsight.

    python benchmarks/choice.py [--quick] [--markdown]

For every cell (model or table, number of users, records per user, epsilon) the mean excess error of each candidate is
taken over seeded data sets and over the law of the output, in double precision; the mechanism is never sampled.
``choose_method`` is asked three times, and each time is told the number of users and of records per user (for a table,
or where users differ, the median):

* *numbers*: nothing else;
* *declared*: also what is known about the people (``users=``), by a rule that is the same for all models and tables
  (``declaration``);
* *population*: the model or table itself (``population=``), as if it were public; data sets have other seeds.

*Told nothing* is the plain default, which buys a noisy count of the users (its law as in ``utility.py``).

The ratio is (chosen + FLOOR) / (best + FLOOR): below FLOOR nobody cares which method it was.  The best is the best of
the candidates and of all that were chosen.

"realizable" is shown, and is no candidate: it is only chosen when some rule is declared to be right.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
from attrs import frozen
from common import REAL, Grid, Real
from generative import MODELS, Model
from numpy.typing import NDArray
from rich.console import Console
from utility import count_points

from privpac.data import UserData
from privpac.methods.base import profile_of
from privpac.methods.registry import build_learner
from privpac.methods.regret import RegretSelection
from privpac.methods.simulation import excess_on
from privpac.planning import choose_method
from privpac.rules.populations import Population, public_population
from privpac.rules.profile import Exceeds, Mean

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
TABLES = tuple(REAL)
USERS, RECORDS, EPSILONS = (25, 100, 400), (4, 64), (Fraction(1, 2), Fraction(2))
CANDIDATES = ("regret", "mean")
DEFAULT = "undeclared"
"""Regret selection that is told nothing."""

TOLD = ("numbers", "declared", "population")
SAID = ("differ", "heavy")
"""Also declared everywhere, to see what a wrong declaration costs."""


EXPLAINED = 1 / 3
"""People "differ" where the best rule removes less than this part of the error of the better constant."""

MANY, FEW_HEAVY, APART = 2, 0.1, 0.1
"""They are "heavy" where a tenth of them or more have over twice the median number of records, and the best cut of
these people and that of the others have a tenth of the people's x between them."""


# Models and tables


@frozen(slots=False, eq=False, repr=False)
class Generated(Population):
    """A model with its exact truth."""

    model: Model | None = None
    records: int = 1

    def draw(self, n_users: int, rng: np.random.Generator) -> UserData:
        assert self.model is not None
        return self.model.users(self.model.draw(rng, n_users, self.records))

    @property
    def _summed(self) -> NDArray[np.float64]:
        assert self.model is not None
        return np.append(0.0, np.cumsum(self.model.excess))

    def largest(self) -> None:
        return None


@cache
def people_of(name: str, records: int) -> Population:
    if name in REAL:
        return public_population(REAL[name].users, REAL[name].concept, name=name)
    model = MODELS[name]
    sample = model.users(model.draw(np.random.default_rng(0), 5_000, records))
    return Generated(name, sample, model.concept, None, model, records)


@cache
def declaration(name: str, records: int) -> str:
    """What a person who knows these people would declare."""
    world: Model | Real = MODELS[name] if name in MODELS else REAL[name]
    people = people_of(name, records)
    if heavy_differ(people):
        return "heavy"
    gained = min(
        float(world.excess[0]), float(world.excess[-1])
    )  # over "always" and "never", the ends of the line of cuts
    return "differ" if gained < EXPLAINED * people.constant_error else "alike"


def heavy_differ(people: Population) -> bool:
    sizes = people.users.sizes
    many = sizes > MANY * np.median(sizes)
    if many.mean() < FEW_HEAVY:
        return False
    low, high = sorted(
        people.concept.profile(people.users.take(part), Mean(1 << 20)).argmin() for part in (many, ~many)
    )
    x = people.users.codes["x"]
    weight = np.repeat(1 / sizes, sizes)
    return float(weight[(x >= low) & (x < high)].sum() / weight.sum()) >= APART


# Cells


@frozen(slots=False)
class Cell:
    name: str
    users: int
    records: int
    """Declared records per user."""
    epsilon: Fraction


@frozen(slots=False)
class Outcome:
    """Mean excess errors by method, and which method was chosen by what was told."""

    cell: Cell
    excess: dict[str, float]
    chosen: dict[str, str]
    declared: str

    @property
    def best(self) -> str:
        return min((*CANDIDATES, *self.chosen.values()), key=lambda name: self.excess[name])

    def ratio(self, method: str) -> float:
        return (self.excess[method] + FLOOR) / (self.excess[self.best] + FLOOR)


def cells() -> list[Cell]:
    found = [Cell(name, n, m, epsilon) for name in NAMES for m in RECORDS for epsilon in EPSILONS for n in USERS]
    zipf = MODELS[SIZED].draw(np.random.default_rng(0), 10_000, 1)[0]
    found += [Cell(SIZED, n, max(1, int(np.median(zipf))), epsilon) for epsilon in EPSILONS for n in USERS]
    for name in TABLES:
        sizes = REAL[name].users.sizes
        found += [
            Cell(name, n, int(np.median(sizes)), epsilon) for epsilon in EPSILONS for n in USERS if n <= len(sizes)
        ]
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


def excess(method: str, cell: Cell, data: UserData) -> float:
    """Mean excess error over the law of the output, the number of users declared except for the plain default."""
    world: Model | Real = MODELS[cell.name] if cell.name in MODELS else REAL[cell.name]
    if method == DEFAULT:
        return undeclared(world, cell.epsilon, data)
    if method not in (*CANDIDATES, "realizable"):
        facts = {"public_n_users": cell.users, "records_per_user": cell.records}
        learner = build_learner(method, {"concept": world.concept, "epsilon": cell.epsilon}, facts)
        return excess_on(learner, data, people_of(cell.name, cell.records))
    statistic = "mean" if method == "mean" else "regret"
    selection = RegretSelection(world.concept, cell.epsilon, public_n_users=data.n_users, statistic=statistic)
    bound = selection.bind(data)
    if method == "realizable":
        return world.risk(profile_of(bound, Exceeds(0)), float(selection.rate(cell.epsilon, 1)), 1.0)[1]
    rate = float(selection.rate(cell.epsilon, selection.levels))
    return world.risk(profile_of(bound, selection.statistic_for(bound, data.n_users)), rate, 1.0)[1]


def undeclared(world: Model | Real, epsilon: Fraction, data: UserData) -> float:
    learner = RegretSelection(world.concept, epsilon)
    bound = learner.bind(data)
    rate = float(learner.rate(learner.epsilon_selection, learner.levels))
    sizes = tuple(np.unique(data.sizes).tolist())
    points = count_points(learner, bound.concept.bits, data.n_users, sizes[:5])
    return sum(p * world.risk(profile_of(bound, learner.statistic_for(bound, n)), rate, 1.0)[1] for p, n in points)


def outcome(cell: Cell, datasets: int) -> Outcome:
    people, declared = people_of(cell.name, cell.records), declaration(cell.name, cell.records)
    known = {"numbers": {}, "declared": {"people": declared}, "population": {"population": people}}
    known |= {said: {"people": said} for said in SAID}
    common = {"epsilon": cell.epsilon, "public_n_users": cell.users, "records_per_user": cell.records}
    chosen = {told: choose_method(people.concept, **common, **known[told]).method for told in known}
    sums = dict.fromkeys((*CANDIDATES, DEFAULT, "realizable", *chosen.values()), 0.0)
    for data in drawn(cell, datasets):
        for method in sums:
            sums[method] += excess(method, cell, data) / datasets
    return Outcome(cell, sums, chosen, declared)


# The tables


def middle(ratios: list[float]) -> str:
    """Geometric mean, and the largest."""
    return f"{float(np.exp(np.mean(np.log(ratios)))):.3f} ({max(ratios):.2f})"


def summary(results: list[Outcome]) -> Grid:
    rows = []
    for name in dict.fromkeys(r.cell.name for r in results):
        own = [r for r in results if r.cell.name == name]
        rows.append(_line(name, own))
    tables = [r for r in results if r.cell.name in REAL]
    rows += [
        _line("all models", [r for r in results if r.cell.name in MODELS]),
        _line("all tables", tables),
        _line("all", results),
    ]
    heads = [
        "model or table",
        "declared",
        "cells",
        *(f"told {told}" for told in TOLD),
        "told nothing",
        "always mean",
        "mean chosen",
        "not the best",
    ]
    return Grid(f"(chosen + {FLOOR}) / (best + {FLOOR}): geometric mean (worst)", heads, rows)


def _line(name: str, results: list[Outcome]) -> list[str]:
    told = [[r.ratio(r.chosen[how]) for r in results] for how in TOLD]
    others = [[r.ratio(method) for r in results] for method in (DEFAULT, "mean")]
    changed = " / ".join(str(sum(r.chosen[how] == "mean" for r in results)) for how in TOLD)
    missed = " / ".join(str(sum(ratio > 1 for ratio in ratios)) for ratios in told)
    said = ", ".join(dict.fromkeys(r.declared for r in results)) if not name.startswith("all") else ""
    return [name, said, str(len(results)), *(middle(ratios) for ratios in (*told, *others)), changed, missed]


def losses(results: list[Outcome], how: str, shown: int = 8) -> Grid:
    """The cells where a choice loses most."""
    ordered = sorted(results, key=lambda r: -r.ratio(r.chosen[how]))[:shown]
    rows = [
        [r.cell.name, f"{r.cell.users}", f"{r.cell.records}", str(r.cell.epsilon), r.declared, r.chosen[how]]
        + [f"{r.excess[m]:.4f}" for m in (*CANDIDATES, DEFAULT, "realizable")]
        + [f"{r.best} {r.excess[r.best]:.4f}", f"{r.ratio(r.chosen[how]):.2f}"]
        for r in ordered
    ]
    heads = [
        "model or table",
        "users",
        "m",
        "ε",
        "declared",
        "chosen",
        *CANDIDATES,
        DEFAULT,
        "realizable",
        "best",
        "ratio",
    ]
    return Grid(f"where the choice loses most, told {how}: mean excess error", heads, rows)


def mistaken(results: list[Outcome]) -> Grid:
    """What it costs to declare something of people for whom the rule would not."""
    rows = []
    for said in SAID:
        others = [r for r in results if r.declared != said]
        found = [[r.ratio(r.chosen[how]) for r in others] for how in (said, "numbers")]
        rows.append(
            [
                said,
                str(len(others)),
                str(sum(r.chosen[said] == "mean" for r in others)),
                *(middle(ratios) for ratios in found),
            ]
        )
    return Grid("wrong declarations", ["declared", "cells", "mean chosen", "told this", "told numbers"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 data sets a cell instead of 12")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    options = parser.parse_args()
    start, console = time.perf_counter(), Console(width=200)
    datasets = 3 if options.quick else 12
    results = [outcome(cell, datasets) for cell in cells()]
    for grid in (summary(results), mistaken(results), *(losses(results, how) for how in TOLD)):
        grid.show(console, markdown=options.markdown)
    better = sum(r.excess["realizable"] < min(r.excess[name] for name in CANDIDATES) for r in results)
    others = sum(r.chosen["population"] not in CANDIDATES for r in results)
    console.print(
        f"{datasets} data sets a cell; told the population, another method than the two candidates was chosen in "
        f"{others} cells"
    )
    console.print(
        f"counting users with any mistake (realizable) beats both candidates in {better} of {len(results)} cells"
    )
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
