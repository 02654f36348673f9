"""What the methods cost on people whose records are public: excess error at the same epsilon, side by side.

The population is a table declared public or a stated model; the methods are those of :mod:`privpac.methods.registry`:

* ``default``, what ``learn`` runs; ``one-record`` and ``group``: the default on one record per user, and per record at
  ``epsilon / cap`` with at most ``cap`` records per user;
* ``erm``: the best rule on the data set, and ``constant``: the better of "always" and "never" on the population;
  neither is private.

Every other one protects whole users at the same epsilon and for the same neighbours.  For every number of users, data
sets are drawn with a seeded generator, and every method sees the same ones.  *Excess error* is the error over all users
of the population, each weighing the same, minus the least error of any rule of the class: what privacy, few users and a
method's own model cost together.  It is an expectation over the exact law where that is affordable, else a few runs.

**Not private.**  Measured errors and the optimum are functions of the records.  Run this on public or generated data
only.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from privpac.arrays import Floats64
from privpac.data import UserData
from privpac.errors import AccuracyWarning, ParameterError, PrivpacError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.methods.base import Learner
from privpac.methods.baselines import group_privacy, one_record_per_user
from privpac.methods.expected_error import COUNT_POINTS, error_by_rule, mean_excess
from privpac.methods.registry import METHODS, as_tree, build_learner, takes
from privpac.methods.regret import RegretSelection
from privpac.methods.trimmed import TrimmedSelection
from privpac.parameters import read_epsilon
from privpac.planning.choose import choose_method
from privpac.rules.populations import (
    Population,
)

if TYPE_CHECKING:
    from rich.table import Table

# One method of a comparison, and what all of them share.


@frozen(slots=False, eq=False)
class Setting:
    """What all contenders share."""

    population: Population
    epsilons: tuple[Fraction, ...]
    delta: Fraction
    cap: int
    runs: int
    seed: int
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    sizes: tuple[int, ...] = ()
    """The numbers of users that will be drawn."""


@frozen(slots=False)
class Contender:
    """One method: who is protected, how it is measured, and the measurement: excess by (epsilon, data set, run)."""

    name: str
    about: str
    how: str | Callable[[Setting], str]
    """In words, how it is measured."""
    promise: Callable[[Setting, Fraction], str]
    run: Callable[[Setting, Sequence[UserData]], Floats64]
    ready: Callable[[Setting], str | None] = lambda setting: None
    """Why it cannot run here, or None."""


def runs_in_words(setting: Setting) -> str:
    """How a method without an affordable law is measured."""
    return f"{setting.runs} runs a data set"


# The library's methods as contenders.
#
# What a learner has to be told is taken from the stated model, or from the public table itself (which only a comparison
# may do), by what :mod:`privpac.methods.registry` says that it needs:
#
# * the records per user of the model; of a table the median, unless a clip that grows with each user's own number of
#   records does as well;
# * ``delta`` of the comparison;
# * a public seed for each run, derived from the comparison's;
# * of parameters that follow the setting, those for labels that may be wrong: each user of ``tree`` names the node of
#   its
#   own best cut or value.


WRAPPED = {
    "default": "what pp.learn runs when only epsilon is given",
    "one-record": "the default on one record of each user",
    "group": "the default per record, by group privacy",
}
"""The default method, as it is and on fewer records."""


def own_contender(name: str) -> Contender:
    """A method of the registry, or one of :data:`WRAPPED`."""
    about = WRAPPED[name] if name in WRAPPED else METHODS[name].about
    run = partial(_expected if _exact(name) else _sampled, name)
    return Contender(name, about, partial(_how, name), partial(_promise, name), run, partial(_refusal, name))


def _exact(name: str) -> bool:
    return name in WRAPPED or METHODS[name].exact_law


# The learner


def own_learner(name: str, setting: Setting, epsilon: Fraction, run: int = 0) -> Learner:
    """The learner behind a contender's name; ``run`` counts the public seeds of those that have one."""
    people, relation = setting.population, setting.neighbours
    method = choose_method(people.concept, epsilon=epsilon, neighbours=relation).method if name in WRAPPED else name
    subject = METHODS[method].subject
    learned: Any = as_tree(people.concept, people.users.features) if subject == "tree" else people.concept
    common = {subject: learned, "epsilon": epsilon, "neighbours": relation}
    built = build_learner(method, common, _told(method, setting, run))
    if name == "one-record":
        return one_record_per_user(built)
    return group_privacy(built, setting.cap) if name == "group" else built


def _told(method: str, setting: Setting, run: int) -> dict[str, Any]:
    """What a learner cannot do without, and its public seed."""
    people = setting.population
    # The first that is known of what would do; the median of a table only where nothing else would.
    known = {"delta": setting.delta, "records_per_user": people.records_per_user, "weighted": True}
    median = {"records_per_user": max(1, int(np.median(people.users.sizes)))}
    told: dict[str, Any] = {**METHODS[method].by_setting.get("agnostic", {})}
    for need in METHODS[method].needs:
        name, value = next(
            ((name, held[name]) for held in (known, median) for name in need if held.get(name) is not None), ("", None)
        )
        told |= {name: value} if name else {}  # what is still missing, the learner says
    if takes(method, "seed"):
        told["seed"] = hashlib.sha256(b"privpac compare %d %d" % (setting.seed, run)).digest()
    return told


# Measuring


def _promise(name: str, setting: Setting, epsilon: Fraction) -> str:
    return own_learner(name, setting, epsilon).guarantee.summary


def _expected(name: str, setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    """Mean excess over the exact law; for learners with a public seed one mean for each of ``runs`` seeds."""
    people = setting.population
    seeds = setting.runs if takes(name, "seed") else 1
    out = np.zeros((len(setting.epsilons), len(datasets), seeds))
    for e, epsilon in enumerate(setting.epsilons):
        for k in range(seeds):
            learner = own_learner(name, setting, epsilon, k)
            value = error_by_rule(learner, people)
            if value is None:
                return _sampled(name, setting, datasets)
            for i, data in enumerate(datasets):
                out[e, i, k] = mean_excess(learner, people, data, value)
    return out


def _sampled(name: str, setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    """Excess of released rules; where nothing is released, of "never"."""
    people = setting.population
    never = np.zeros(len(people.costs[0]))
    out = np.zeros((len(setting.epsilons), len(datasets), setting.runs))
    for e, epsilon in enumerate(setting.epsilons):
        for k in range(setting.runs):
            learner = own_learner(name, setting, epsilon, k)
            for i, data in enumerate(datasets):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", AccuracyWarning)
                    released = learner.learn(data)
                said = released.value.predict_codes(people.points) if released else never
                out[e, i, k] = float(people.error(said)) - people.best_error
    return out


def _how(name: str, setting: Setting) -> str:
    """How a method is measured, in words."""
    learner = own_learner(name, setting, setting.epsilons[0])
    if not _exact(name) or error_by_rule(learner, setting.population) is None:
        return runs_in_words(setting)
    if isinstance(learner, RegretSelection) and learner.needs_count:
        return f"exact law; at most {COUNT_POINTS} values stand for its noisy count of users"
    return f"exact law, {setting.runs} public seeds a data set" if takes(name, "seed") else "exact law"


def _refusal(name: str, setting: Setting) -> str | None:
    """Why a learner does not fit the class of rules or the parameters, in its own words; None if it does."""
    try:
        for epsilon in setting.epsilons:
            learner = own_learner(name, setting, epsilon)
            if isinstance(learner, TrimmedSelection):
                for n in setting.sizes:
                    learner.design(n, setting.population.concept.size)
    except (PrivpacError, TypeError) as error:
        return " ".join(str(error).split())
    return None


STANDARD = ("default", "mean", "one-record", "group", "erm", "constant")
"""What is compared when nothing is named."""


def _erm(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    people = setting.population
    found = [people.excess_of(people.concept.erm(data)) for data in datasets]
    return np.tile(np.array(found)[None, :, None], (len(setting.epsilons), 1, 1))


def _constant(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    excess = setting.population.constant_error - setting.population.best_error
    return np.full((len(setting.epsilons), len(datasets), 1), excess)


_NOBODY: Callable[[Setting, Fraction], str] = lambda setting, epsilon: "none: not private"  # noqa: E731


def all_contenders() -> dict[str, Contender]:
    """All of them by name: the registry's methods as they are now, and the others."""
    listed = (
        *(own_contender(name) for name in (*WRAPPED, *METHODS)),
        Contender("erm", "the best rule on the data set", "exact", _NOBODY, _erm),
        Contender("constant", 'the better of "always" and "never"', "exact", _NOBODY, _constant),
    )
    return {one.name: one for one in listed}


def named_contenders(methods: Iterable[str | Contender]) -> list[Contender]:
    """Contenders by name, or of one's own."""
    known, found = all_contenders(), dict[str, Contender]()
    for method in methods:
        if not isinstance(method, Contender) and method not in known:
            raise ParameterError(f"method must be one of {', '.join(known)}; got {method!r}")
        one = method if isinstance(method, Contender) else known[method]
        found[one.name] = one
    if not found:
        raise ParameterError("name at least one method to compare")
    return list(found.values())


MOST_DRAWS = 10_000


@frozen(slots=False)
class Measured:
    """One method at one epsilon and number of users."""

    method: str
    epsilon: str
    n_users: int
    excess: float
    spread: float | None
    """Standard error of ``excess`` over data sets and runs; None where one number was computed or nothing varied."""
    promise: str

    def to_dict(self) -> dict[str, object]:
        names = ("method", "epsilon", "n_users", "excess", "spread", "promise")
        return {name: getattr(self, name) for name in names}


@frozen(slots=False)
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

    def to_dict(self) -> dict[str, object]:
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

    def tables(self) -> list[Table]:
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
    seed: int = 0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Comparison:
    """Mean excess error of each method over ``draws`` data sets of ``n_users`` users; all users of a table by default.

    Methods without an affordable law run ``runs`` times on each data set.  ``cap``: records per user under group
    privacy. ``delta``: for ``trimmed`` and others that need one.  ``neighbours``: what every method protects people
    against, somebody who comes or goes or (``"replace"``) somebody whose records become any others.  ``methods``:
    names, or a :class:`Contender` of one's own (``benchmarks/peer_contenders.py`` has DP-SGD and diffprivlib's models).

    A method of the standard list that cannot run here is left out and said so; one that was asked for by name is an
    error.

    >>> from privpac.rules.populations import generated_population
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
    left = tuple(f"{name}: {why}" for name, why in missing.items())
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
