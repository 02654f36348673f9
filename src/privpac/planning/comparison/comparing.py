"""What the methods cost on people whose records are public: excess error at the same epsilon, side by side.

The population is a table declared public or a stated model (``comparison.population``); the methods are
``comparison.contenders``.  For every number of users, data sets are drawn with a seeded generator, and every method
sees the same ones.  *Excess error* is the error over all users of the population, each weighing the same, minus the
least error of any rule of the class: what privacy, few users and a method's own model cost together.  A peer with
another class of rules may come out below zero.

**Not private.**  Measured errors and the optimum are functions of the records.  Run this on public or generated data
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.parameters import read_epsilon
from privpac.planning.comparison.methods_compared import STANDARD, Contender, Setting, named_contenders
from privpac.planning.populations import Floats64, Population

__all__ = ["Comparison", "Measured", "compare"]

MOST_DRAWS = 10_000


@dataclass(frozen=True)
class Measured:
    """One method at one epsilon and number of users."""

    method: str
    epsilon: str
    n_users: int
    excess: float
    spread: float | None
    """Standard error of ``excess`` over data sets and runs; None where one number was computed or nothing varied."""
    promise: str

    def to_dict(self) -> dict[str, Any]:
        names = ("method", "epsilon", "n_users", "excess", "spread", "promise")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Comparison:
    """All that was measured, and on what."""

    population: str
    best_error: float
    constant_error: float
    draws: int
    runs: int
    rows: tuple[Measured, ...]
    about: dict[str, str]
    """What each method is, and how it was measured."""
    left_out: tuple[str, ...] = ()
    neighbours: str = "add-remove"

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.method for row in self.rows))

    @property
    def epsilons(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.epsilon for row in self.rows))

    @property
    def n_users(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(row.n_users for row in self.rows))

    def of(self, method: str, epsilon: Rational, n_users: int) -> Measured:
        wanted = rational(epsilon, "epsilon")
        for row in self.rows:
            if (row.method, row.n_users) == (method, n_users) and rational(row.epsilon, "epsilon") == wanted:
                return row
        raise ParameterError(f"nothing was measured for {method!r} at epsilon {epsilon} with {n_users} users")

    def users_needed(self, method: str, epsilon: Rational, excess: float) -> int | None:
        """The least number of users tried from which on the mean excess error stays at most this; None if the last one
        is above."""
        needed = None
        for n in sorted(self.n_users, reverse=True):
            if self.of(method, epsilon, n).excess > excess:
                break
            needed = n
        return needed

    def to_dict(self) -> dict[str, Any]:
        return {
            "population": self.population,
            "neighbours": self.neighbours,
            "best_error": self.best_error,
            "constant_error": self.constant_error,
            "draws": self.draws,
            "runs": self.runs,
            "rows": [row.to_dict() for row in self.rows],
            "about": self.about,
            "left_out": list(self.left_out),
        }

    def headline(self) -> str:
        return (
            f"excess error on {self.population}; least error of the class {self.best_error:.4f}, "
            f"of the better constant {self.constant_error:.4f}"
        )

    def tables(self) -> list[Any]:
        """Rich tables for the terminal, one for each epsilon; standard errors where there is room."""
        from rich.table import Table

        found = []
        for epsilon in self.epsilons:
            table = Table(title=f"excess error, epsilon {epsilon}", title_justify="left")
            table.add_column("method", no_wrap=True)
            for n in self.n_users:
                table.add_column(f"{n:,} users", justify="right", no_wrap=True)
            for method in self.methods:
                cells = (self.of(method, epsilon, n) for n in self.n_users)
                table.add_row(method, *(_shown(cell, wide=len(self.n_users) <= 2) for cell in cells))
            found.append(table)
        return found

    def notes(self) -> list[str]:
        """Each method in a line, then what was left out."""
        lines = [f"{method}: {self.about[method]}; {self._promise(method)}" for method in self.methods]
        return [*lines, *(f"left out: {line}" for line in self.left_out)]

    def _promise(self, method: str) -> str:
        return next(row.promise for row in self.rows if row.method == method)

    def __str__(self) -> str:
        from rich.console import Console

        out = Console(file=StringIO(), width=160, force_terminal=False)
        out.print(self.headline(), markup=False, highlight=False, soft_wrap=True)
        for table in self.tables():
            out.print(table)
        for line in self.notes():
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())  # type: ignore[attr-defined]


def _shown(row: Measured, *, wide: bool) -> str:
    return f"{row.excess:.4f}" + (f" ± {row.spread:.4f}" if wide and row.spread is not None else "")


def compare(
    population: Population,
    *,
    epsilon: Rational | Sequence[Rational],
    methods: Iterable[str | Contender] | None = None,
    n_users: int | Sequence[int] | None = None,
    draws: int = 1,
    runs: int = 10,
    delta: Rational = "1e-6",
    cap: int = 4,
    peers: str | Path | None = None,
    seed: int = 0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Comparison:
    """Mean excess error of each method over ``draws`` data sets of ``n_users`` users; all users of a table by default.

    Methods without an affordable law run ``runs`` times on each data set.  ``cap``: records per user under group
    privacy. ``delta``: for DP-SGD and ``trimmed``, the other methods need none.  ``peers``: a Python that has
    diffprivlib.  ``neighbours``: what every method protects people against, somebody who comes or goes or
    (``"replace"``) somebody whose records become any others.

    A method of the standard list that cannot run here is left out and said so; one that was asked for by name is an
    error.

    >>> from privpac.planning.populations import generated_population
    >>> people = generated_population("0.1", records_per_user=16, values=64)
    >>> found = compare(people, epsilon=1, n_users=100, methods=["default", "one-record", "erm"])
    >>> found.of("default", 1, 100).excess < found.of("one-record", 1, 100).excess
    True
    """
    if not isinstance(population, Population):
        raise TypeError(
            f"population must come from public_population or generated_population, got {type(population).__name__}"
        )
    several = epsilon if isinstance(epsilon, Sequence) and not isinstance(epsilon, str) else [epsilon]
    epsilons = {read_epsilon(one): str(one) for one in several}
    if not epsilons:
        raise ParameterError("give at least one epsilon")
    chosen = named_contenders(STANDARD if methods is None else methods)
    repeats = positive_int(draws, "draws", maximum=MOST_DRAWS)
    sizes = _sizes(population, n_users)
    setting = Setting(
        population,
        tuple(epsilons),
        rational(delta, "delta", above=0, below=1),
        positive_int(cap, "cap", maximum=1 << 20),
        positive_int(runs, "runs", maximum=MOST_DRAWS),
        positive_int(seed, "seed", minimum=0, maximum=1 << 32),
        None if peers is None else Path(peers),
        one_of(Neighbours, neighbours, "neighbours"),
        tuple(sizes),
    )
    missing = {one.name: why for one in chosen if (why := one.ready(setting)) is not None}
    if missing and methods is not None:
        name, why = next(iter(missing.items()))
        raise ParameterError(f"{name} cannot run: {why}")
    # Every method sees the same data sets; those of the whole table are all the same one.
    counts = [1 if n == population.largest() else repeats for n in sizes]
    datasets = [
        population.draw(n, np.random.default_rng([setting.seed, n, i])) for n, k in zip(sizes, counts) for i in range(k)
    ]
    rows: list[Measured] = []
    kept = [one for one in chosen if one.name not in missing]
    for one in kept:
        found = one.run(setting, datasets)
        ends = np.cumsum([0, *counts])
        for e, (value, text) in enumerate(epsilons.items()):
            promise = one.promise(setting, value)
            for n, start, stop in zip(sizes, ends, ends[1:]):
                rows.append(Measured(one.name, text, n, *_summary(found[e, start:stop]), promise))
    if not kept:
        raise ParameterError(
            "none of the methods can run here: " + "; ".join(f"{name}: {why}" for name, why in missing.items())
        )
    about = {one.name: f"{one.about} ({one.how(setting) if callable(one.how) else one.how})" for one in kept}
    left = tuple(
        dict.fromkeys(f"{one.family or one.name}: {missing[one.name]}" for one in chosen if one.name in missing)
    )
    errors = population.best_error, population.constant_error
    return Comparison(
        population.name, *errors, repeats, setting.runs, tuple(rows), about, left, str(setting.neighbours)
    )


def _sizes(population: Population, n_users: int | Sequence[int] | None) -> list[int]:
    most = population.largest()
    if n_users is None:
        if most is None:
            raise ParameterError("a generated population has no number of users: give n_users")
        return [most]
    given = n_users if isinstance(n_users, Sequence) else [n_users]
    sizes = list(dict.fromkeys(positive_int(n, "n_users", maximum=1 << 24) for n in given))
    if not sizes:
        raise ParameterError("give at least one number of users")
    if most is not None and max(sizes) > most:
        raise ParameterError(
            f"the table has {most} users with records, so n_users can be at most that; got {max(sizes)}"
        )
    return sizes


def _summary(values: Floats64) -> tuple[float, float | None]:
    """Mean and its standard error: over data sets where there are several, else over runs."""
    per_set = values.mean(axis=1) if len(values) > 1 else values[0]
    varied = len(per_set) > 1 and float(np.ptp(per_set)) > 0
    spread = float(np.std(per_set, ddof=1) / np.sqrt(len(per_set))) if varied else None
    return float(values.mean()), spread
