"""Certified numbers for every applicable method, next to what no method can beat and to what a stated model lets
expect.

A plan is a pure function of public numbers: what is to be learned, epsilon, the accuracy ``alpha`` and failure
probability ``beta`` wanted, and how many records each user is known to hold.  It answers one of three questions: how
many users are needed, or which ``alpha``, or which epsilon, so many users can be promised.  Certified numbers hold for
every law the stated assumption allows and are pessimistic for milder ones.  Predictions hold for the model they name,
and are made when they are first looked at.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from io import StringIO
from itertools import count
from typing import TYPE_CHECKING, Any

import polars as pl
from attrs import evolve, field, frozen

from privpac.bisection import half_way, halved, narrow
from privpac.display import Shown
from privpac.errors import ParameterError, PrivpacError, PrivpacWarning, TooLargeError
from privpac.exact import positive_int
from privpac.methods.planned import MOST, Asked, CertifiedRun, OutOfReach, PlanRow, Target, written
from privpac.methods.registry import Choice, PlannedMethod
from privpac.methods.simulation import EPSILON_STEPS, SETTLED, Simulation
from privpac.parameters import MAX_EPSILON
from privpac.sample_size import Certificate

if TYPE_CHECKING:
    from rich.table import Table

# How plans are printed: one table with the kinds of numbers told apart, and lines that say what they rest on.


_KINDS = {"certified": "", "lower bound": "dim", "predicted": "italic"}
"""Kinds of numbers in the order of the table, and how they look in a terminal."""

NAMES = {"certified": "certified", "lower bound": "no method can", "predicted": "typical"}
"""Kinds of numbers as a reader sees them."""

_MEANINGS = {
    "users": {
        "certified": (
            "so many people are enough whatever they are like, as long as the row's assumption holds: proved, and "
            "mostly too many"
        ),
        "lower bound": "with fewer people than this every private method fails for some kind of people: proved",
        "predicted": (
            "so many people were enough on average, in a simulation of one kind of people that is named below: no "
            "promise"
        ),
    },
    "alpha": {
        "certified": (
            "no worse than this whatever the people are like, as long as the row's assumption holds: proved, mostly "
            "pessimistic"
        ),
        "lower bound": "no private method can promise so many people less than this: proved",
        "predicted": (
            "this was reached on average, in a simulation of one kind of people that is named below: no promise"
        ),
    },
    "epsilon": {
        "certified": (
            "this epsilon is enough whatever the people are like, as long as the row's assumption holds: proved, "
            "mostly too large"
        ),
        "lower bound": "with a smaller epsilon every private method fails for some kind of people: proved",
        "predicted": (
            "this epsilon was enough on average, in a simulation of one kind of people that is named below: no promise"
        ),
    },
}


def meanings(plan: Plan) -> dict[str, str]:
    """What each kind of number of a plan means, in a sentence."""
    return _MEANINGS[plan.quantity]


_ROW_NAMES = {
    "users": {"predicted": "typical", "certified": "certified", "lower bound": "with fewer, no method is certain"},
    "alpha": {"predicted": "typical", "certified": "certified", "lower bound": "no method is certain of less"},
    "epsilon": {"predicted": "typical", "certified": "certified", "lower bound": "with less, no method is certain"},
}
"""How the rows of the short table begin."""


def short_rows(plan: Plan, *, predict: bool) -> list[tuple[str, str, list[str]]]:
    """At most four rows that answer the question: kind, name and cells.

    What is typical and what is certified of the recommended method, the best certificate of another one where that is
    better, and what no method can beat.  A row that nobody can meet is left out.
    """
    named = _ROW_NAMES[plan.quantity]
    return [
        (
            row.kind,
            named[row.kind] if row.kind == "lower bound" else f"{named[row.kind]}, {row.method}",
            row_cells(plan, row),
        )
        for row in plan.main_rows(predict=predict)
    ]


def row_cells(plan: Plan, row: PlanRow) -> list[str]:
    """The numbers as they are printed; empty where nothing was simulated."""
    open_ = row.kind == "predicted" and not plan.quick
    return ["" if open_ and place != plan.place else cell for place, cell in enumerate(row.cells())]


def plan_grid(plan: Plan, *, predict: bool) -> Table:
    """The rows that answer the question; all rows by kind, and what a record costs, where all were asked for."""
    from rich.table import Table

    table = Table(title=None if plan.short else plan.question, title_justify="left", caption_justify="left")
    table.add_column("records per user →", overflow="fold")
    for m in plan.records_per_user:
        table.add_column(f"{m:,}", justify="right", no_wrap=True)
    shown: list[list[str]] = []
    if plan.short:
        for kind, name, cells in short_rows(plan, predict=predict):
            table.add_row(name, *cells, style=_KINDS[kind])
            shown.append(cells)
    else:
        shown = _all_rows(plan, table, predict=predict)
    if any("-" in cells for cells in shown):
        table.caption = plan.caption
    return table


def _all_rows(plan: Plan, table: Table, *, predict: bool) -> list[list[str]]:
    """Every row by kind, then what a record costs."""
    rows, cells = [*plan.rows, *(plan.predicted if predict else ())], []
    for kind, style in _KINDS.items():
        shown = [row for row in rows if row.kind == kind]
        if shown:
            table.add_row(f"{NAMES[kind]}:", style=f"bold {style}")
            for row in shown:
                cells.append(row.cells())
                table.add_row(f"  {row.method}", *cells[-1], style=style)
            table.add_section()
    costs = cost_cells(plan) if any(m > 1 for m in plan.records_per_user) else {}
    if costs:
        table.add_row("cost of a record, certified:", style="bold dim")
        for method, each in costs.items():
            cells.append(each)
            table.add_row(f"  {method}", *each, style="dim")
    return cells


def cost_cells(plan: Plan) -> dict[str, list[str]]:
    """What a record costs, as it is printed, for methods of which that is known."""
    known = {method: costs for method, costs in plan.cost_per_record.items() if any(cost is not None for cost in costs)}
    return {
        method: ["-" if c is None else f"{c:.2g}×" if c < 100 else f"{c:,.0f}×" for c in costs]
        for method, costs in known.items()
    }


def answer_text(plan: Plan, *, predict: bool) -> str:
    """The answer in a sentence, for the middle one of the numbers of records per user, and what enough means."""
    m, place, shown = plan.records_per_user[plan.place], plan.place, plan.answering(predict=predict)
    each = f"with {m:,} record{'s' * (m != 1)} each"
    number = {kind: row.cells()[place] for kind, row in shown.items() if row.values[place] is not None}
    asked, target = plan.asked, None if plan.asked is None else plan.asked.target
    condition = "under what its row assumes" if target is None or asked is None else target.certain_if(asked.setting)
    measure = "excess error" if target is None else target.measure
    typical, certain, least = (number.get(kind) for kind in ("predicted", "certified", "lower bound"))
    if plan.quantity == "users":
        many = {"1": f"person {each} is"}
        parts = [f"about {typical} {many.get(typical, f'people {each} are')} typical"] if typical else []
        held = ("is" if certain == "1" else "are") if parts else many.get(certain or "", f"people {each} are")
        parts.append(f"{certain} {held} certain, {condition}" if certain else "no number of people is certified")
        parts += [f"with fewer than {least} no method can be certain"] if least else []
        text = "; ".join(parts)
        goal = "" if target is None else f"Enough means {measure} at most {float(target.alpha):g}"
    else:
        what = measure if plan.quantity == "alpha" else "epsilon"
        parts = [f"{what} {typical} is typical"] if typical else []
        name, most = "" if parts else f"{what} ", "at most " if plan.quantity == "alpha" else ""
        parts.append(f"{name}{most}{certain} is certain, {condition}" if certain else "nothing is certified")
        than = "of less than" if plan.quantity == "alpha" else "with less than"
        parts += [f"no method can be certain {than} {least}"] if least else []
        people = "" if asked is None or asked.n_users is None else f"{asked.n_users:,} people {each}: "
        text = people + "; ".join(parts)
        goal = ""
        if plan.quantity == "epsilon" and target is not None:
            goal = f"Enough means {measure} at most {float(target.alpha):g}"
    sure = "" if target is None or not certain else f"ertain means with probability {float(1 - target.beta):g}"
    ends = f"{goal}; c{sure}." if goal and sure else f"{goal}." if goal else f"C{sure}." if sure else ""
    return f"{text[:1].upper()}{text[1:]}. {ends}".rstrip()


def _plan_words(plan: Plan, *, predict: bool) -> list[str]:
    """What the rows of a plan rest on, line by line, and the recommendation."""
    if plan.short:
        return _short_words(plan, predict=predict)
    lines = [f"{NAMES[kind]}: {said}" for kind, said in meanings(plan).items() if _has(plan, kind, predict)]
    lines += [row.words() for row in plan.rows]
    models: dict[str, list[str]] = {}
    for row in plan.predicted if predict else ():
        models.setdefault(row.assumption, []).append(row.method)
    lines += [f"typical ({', '.join(methods)}): {model}" for model, methods in models.items()]
    lines += [plan.note] if plan.note else []
    choice = plan.recommendation
    lines += [] if choice is None else [f"recommended: {choice.method}, because {choice.because}"]
    return [*lines, *run_lines(plan, [row.method for row in plan.rows])]


def _short_words(plan: Plan, *, predict: bool) -> list[str]:
    """What the rows of the short table rest on, how to run what is certified, and where the rest is."""
    shown = plan.answering(predict=predict)
    certified = [row for row in (shown.get("certified"), plan.better) if row is not None]
    lines = [plan.question]
    lines += [f"certified, {row.words()}" for row in certified if row.assumption or row.note or row.reason]
    typical, choice = shown.get("predicted"), plan.recommendation
    if typical is not None:
        told = choice is not None and typical.assumption in choice.reason
        model = "the model of the recommendation" if told else typical.assumption
        note = f"; {typical.note}" if typical.note else ""
        lines += [f"typical, a simulation and no promise: {model}{note}"]
    elif not plan.predicts and plan.simulations:
        lines += ["what is typical takes a while to simulate: --predict, or plan.answer(predict=True)"]
    lines += [plan.note] if plan.note else []
    lines += [] if choice is None else [f"recommended: {choice.method}, because {choice.because}"]
    lines += run_lines(plan, [row.method for row in certified])
    return [*lines, "all methods, what they assume and what a record costs: --all, or every_method=True"]


def _has(plan: Plan, kind: str, predict: bool) -> bool:
    return bool(predict and plan.predicted) if kind == "predicted" else any(row.kind == kind for row in plan.rows)


def run_lines(plan: Plan, among: Collection[str]) -> list[str]:
    """The commands that run some of the certified rows, for the middle one of the numbers of records per user."""
    m = plan.records_per_user[plan.place]
    found = plan.runs_for(m, among)
    head = f"to run what is certified, for people with {m:,} record{'s' * (m != 1)} each (all parameters count):"
    return [head, *(f"  {row}: {run['command'] or run['note']}" for row, run in found.items())] if found else []


def _as_text(answer: str, table: Table, lines: Iterable[str]) -> str:
    """The answer, a table and lines below it, as plain text."""
    from rich.console import Console

    out = Console(file=StringIO(), width=110, force_terminal=False)
    out.print(answer, markup=False, highlight=False)
    out.print()
    out.print(table)
    for line in lines:
        out.print(line, markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())  # type: ignore[attr-defined]


# The other way round: what can be promised with so many users, and which epsilon does it take?
#
# For every method the least ``alpha`` (or ``epsilon``) at which its certified number of users is at most the number
# there is, found by bisection on a logarithmic grid and rounded up to three digits.  A promise is checked with exactly
# the number of users asked for, with the parameters that the learner has then; for the lower bound the value below
# which no private learner can promise anything with so few users, rounded down.  Pure functions of public numbers.


_COARSE, _FINE = 16, 256
_RANGES = {"alpha": (1e-4, 0.9), "epsilon": (1e-3, float(MAX_EPSILON))}

Least = tuple[PlannedMethod, tuple[Fraction | None, ...], str]
"""A method, its least value for each number of records, and what that assumes."""


def least_values(
    target: Target,
    quantity: str,
    n_users: int,
    sizes: tuple[int, ...],
    setting: str | None,
    among: Collection[str] | None = None,
) -> Iterator[Least]:
    """The least value of every method (or of some, by name) that is certified for exactly ``n_users`` users."""
    if quantity not in _RANGES:
        raise ParameterError(f"quantity must be 'alpha' or 'epsilon', got {quantity!r}")
    probe = target.exactly(n_users)
    for place, method in enumerate(target.methods(setting)):
        if among is not None and method.name not in among:
            continue
        assumed: list[str] = []

        def certify(value: Fraction, m: int, place: int = place, assumed: list[str] = assumed) -> Certificate:
            certificate = probe.changed(**{quantity: value}).methods(setting)[place].certify(m)
            assumed[:] = [certificate.assumption]
            return certificate

        values, start = [], _COARSE // 2
        for m in sizes:
            value, start = _least(certify, m, n_users, quantity, start, lower=method.kind == "lower bound")
            values.append(value)
        yield method, tuple(values), "".join([*assumed, method.assumes]) if assumed else ""


def least_for(
    target: Target, methods: Collection[str], *, quantity: str, n_users: int, records: int, setting: str | None
) -> Fraction | None:
    """The least value that some of these methods certify for exactly ``n_users`` users."""
    values = [values[0] for _, values, _ in least_values(target, quantity, n_users, (records,), setting, methods)]
    return min((value for value in values if value is not None), default=None)


def _least(
    certify: Callable[[Fraction, int], Certificate], m: int, n: int, quantity: str, start: int, *, lower: bool
) -> tuple[Fraction | None, int]:
    """The least value at which ``n`` users are certified (or, for a lower bound, no longer excluded).

    On a fine logarithmic grid.  Some bounds have ranges of their own, so the largest value need not be the easiest:
    coarse steps first, outwards from ``start``, where the last search ended; then the fine step, guessed from the
    numbers of users on both sides.
    """
    first, last = (math.log(end) for end in _RANGES[quantity])
    users: dict[int, int | None] = {}

    def value(step: int) -> Fraction:
        return _rounded(math.exp(first + (last - first) * step / (_COARSE * _FINE)), up=not lower)

    def enough(step: int) -> bool:
        if step not in users:
            try:
                users[step] = certify(value(step), m).n_users
            except (ParameterError, TooLargeError):
                users[step] = None
        found = users[step]
        return lower if found is None else found <= n

    place = _coarse_place(lambda i: enough(i * _FINE), start)
    if place is None or (lower and place == 0):  # a lower bound that excludes nothing in the whole range says nothing
        return None, start
    low, high = max(place - 1, 0) * _FINE, place * _FINE
    guesses = count()

    def middle(low: int, high: int) -> int:
        """A guess, then its neighbour, which often ends the search, then the middle."""
        return _guess(low, high, users[low], users[high], n) if next(guesses) % 3 < 2 else halved(low, high)

    low, high = narrow(enough, low, high, middle=middle, wide=lambda low, high: high - low > 1)
    return value(low if lower else high), place


def _coarse_place(enough: Callable[[int], bool], start: int) -> int | None:
    """A coarse step that is enough while the one before is not, near ``start``; None if none is enough."""
    upwards = next((i for i in range(start, _COARSE + 1) if enough(i)), None)
    place = upwards if upwards is not None else next((i for i in range(start - 1, -1, -1) if enough(i)), None)
    while place is not None and place > 0 and enough(place - 1):
        place -= 1
    return place


def _guess(low: int, high: int, users_low: int | None, users_high: int | None, n: int) -> int:
    """Where a power law through both ends reaches ``n`` users: the step that is then just enough, or the one before
    it."""
    if not users_low or not users_high or users_low <= users_high:
        return (low + high) // 2
    share = (math.log(users_low) - math.log(max(n, 1))) / (math.log(users_low) - math.log(users_high))
    return min(high - 1, max(low + 1, round(low + share * (high - low))))


def _rounded(value: float, *, up: bool) -> Fraction:
    """Two significant digits and a half: a value a reader can type again."""
    scale = 10 ** (2 - math.floor(math.log10(value)))
    return Fraction(math.ceil(value * scale) if up else math.floor(value * scale)) / Fraction(scale)


# What a stated model lets expect of the methods of a plan: simulated with fixed seeds, so the same question has the
# same answer; it holds for its model only.


_EPSILONS = (1e-3, 100.0)

Predicted = tuple[int | Fraction | None, float]
"""A simulated number, None where none was found, and its standard error as a share."""


def _predicted_row(plan: Plan, simulation: Simulation, places: Collection[int]) -> PlanRow:
    """The number that the plan is about, users or an epsilon at which the mean loss of one method is at most alpha, or
    that mean; simulated for some of the numbers of records."""
    assert plan.asked is not None
    target, quantity = plan.asked.target, plan.quantity
    sizes = enumerate(plan.records_per_user)
    numbers = [plan.simulated(simulation, m) if place in places else (None, 0.0) for place, m in sizes]
    error = max((error for _, error in numbers), default=0.0)
    capped = f"runs ended at their public number: the standard error is {error:.1%}, not {SETTLED:.0%}"
    return PlanRow(
        simulation.method,
        "predicted",
        plan.model_of(simulation),
        tuple(value for value, _ in numbers),
        capped if error > SETTLED * 1.0001 else "",
        f"mean {target.measure}" + ("" if quantity == "alpha" else " at most alpha"),
        round(error, 4),
        quantity,
        simulation.key,
    )


def _predicted(plan: Plan, simulation: Simulation, m: int) -> Predicted:
    """The number for ``m`` records per user, and its standard error as a share."""
    assert plan.asked is not None
    if plan.quantity == "users":
        return simulation.found(m)
    target, n = plan.asked.target, plan.asked.n_users
    assert n is not None
    if plan.quantity == "epsilon":
        least = _least_epsilon(simulation, m, n, float(target.alpha))
        return (None if least is None else _three(least)), 0.0
    mean = simulation.at(m, n, target.epsilon)
    return (None, 0.0) if mean is None else (_three(mean.excess), mean.relative)


def _least_epsilon(simulation: Simulation, m: int, n: int, alpha: float) -> float | None:
    """The least epsilon with a mean excess of at most ``alpha``, by bisection on a logarithmic scale; the error falls
    with epsilon."""

    def enough(exponent: float) -> bool:
        found = simulation.at(m, n, _three(math.exp(exponent)), alpha)
        return found is not None and found.excess <= alpha

    low, high = (math.log(end) for end in _EPSILONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released, however large the epsilon
        if not enough(high):
            return None
        return math.exp(narrow(enough, low, high, middle=half_way, steps=EPSILON_STEPS)[1])


def _three(value: float) -> Fraction:
    """Three significant digits."""
    return Fraction(f"{value:.3g}")


@frozen(slots=False)
class Plan(Shown):
    """Rows of methods against numbers of records per user; ``quantity`` is what the numbers are: "users" needed, or the
    least "alpha" or "epsilon" for so many users."""

    target: dict[str, str]
    records_per_user: tuple[int, ...]
    rows: tuple[PlanRow, ...]
    asked: Asked | None = field(default=None, eq=False, repr=False)
    quantity: str = "users"

    # What the numbers are

    @property
    def title(self) -> str:
        return "users needed" if self.quantity == "users" else f"least {self.quantity}"

    @property
    def question(self) -> str:
        """What was asked, with its numbers."""
        return f"{self.title}: " + ", ".join(f"{name} {value}" for name, value in self.target.items())

    @property
    def caption(self) -> str:
        return "- : no number of users" if self.quantity == "users" else "- : nothing is certified"

    def written(self, value: object) -> str:
        """A number as it is printed."""
        return written(value, self.quantity)

    @property
    def place(self) -> int:
        """Where the number of records stands that stands for all."""
        return len(self.records_per_user) // 2

    def row(self, method: str) -> PlanRow:
        """The row of a method."""
        for row in self.rows:
            if row.method == method:
                return row
        raise ParameterError(
            f"the plan has no method {method!r}; it has {', '.join(repr(row.method) for row in self.rows)}"
        )

    def rows_of(self, method: str) -> list[PlanRow]:
        """The certified rows of a method, by its key or its name: its own, and the one that knows a bound on the
        noise."""
        return [row for row in self.rows if row.kind == "certified" and method in (row.key, row.method)]

    def best(self, method: str, place: int = 0) -> Any:
        """The least number that is certified for a method; None where nothing is."""
        values = [row.values[place] for row in self.rows_of(method)]
        return min((value for value in values if value is not None), default=None)

    def epsilon_at(self, place: int) -> Fraction:
        """The epsilon found for the default method, or the least one found, for one number of records; 1 where there is
        none."""
        rows = self.rows if self.quantity == "epsilon" else ()
        values = {row.method: row.values[place] for row in rows if row.kind == "certified"}
        known = [values["hybrid selection"]] if "hybrid selection" in values else [*values.values()]
        return min((value for value in known if value), default=None) or Fraction(1)

    # What answers the question

    @property
    def short(self) -> bool:
        """Whether the rows that answer the question are printed, or all of them."""
        return self.asked is not None and not self.asked.every_method

    def answering(self, *, predict: bool) -> dict[str, PlanRow]:
        """The rows that answer the question, by kind: what is typical and what is certified of the recommended method,
        and what no method can beat for the same labels.  A kind of which nothing is known is missing.

        ``predict``: whether what is typical is simulated; where that takes a while, for the middle one of the numbers
        of records only.
        """
        choice = self.recommendation
        method = "" if choice is None else choice.method
        own, shown = self._own_rows, dict[str, PlanRow]()
        if own:
            shown["certified"] = min(own, key=lambda row: _or_infinity(row.values[self.place]))
        simulation = self.simulation if predict else None
        if simulation is not None:
            shown["predicted"] = _predicted_row(self, simulation, self._simulated_places)
        bounds = [row for row in self.rows if row.kind == "lower bound"]
        if bounds:  # that for labels some rule explains is the first
            shown["lower bound"] = bounds[0 if method == "realizable" else -1]
        return shown

    def main_rows(self, *, predict: bool) -> list[PlanRow]:
        """The rows of :meth:`answering`, and the better certificate of another method; those that nobody can meet are
        left out."""
        shown = self.answering(predict=predict)
        rows = (shown.get("predicted"), shown.get("certified"), self.better, shown.get("lower bound"))
        return [row for row in rows if row is not None and any(value is not None for value in row.values)]

    @property
    def _own_rows(self) -> list[PlanRow]:
        """The certified rows of the recommended method; all of them where it has none of its name."""
        choice = self.recommendation
        own = [] if choice is None else self.rows_of(choice.method)
        return own or [row for row in self.rows if row.kind == "certified"]

    @property
    def _simulated_places(self) -> Sequence[int]:
        return range(len(self.records_per_user)) if self.quick else (self.place,)

    @property
    def better(self) -> PlanRow | None:
        """The certified row of another method for the same labels that needs least, where that is less than the
        recommended method needs."""
        choice = self.recommendation
        if choice is None or self.asked is None:
            return None
        own = _or_infinity(self.best(choice.method, self.place))
        rivals = [row for key in self.asked.target.rivals(choice.method) for row in self.rows_of(key)]
        row = min(rivals, key=lambda row: (_or_infinity(row.values[self.place]), row.key), default=None)
        return row if row is not None and _or_infinity(row.values[self.place]) < own else None

    def answer(self, *, predict: bool | None = None) -> str:
        """The answer in a sentence, for the middle one of the numbers of records per user.

        Parameters
        ----------
        predict : bool, optional
            Whether to simulate what is typical; by default where that takes a moment.

        Returns
        -------
        str

        Examples
        --------
        >>> import privpac as pp
        >>> planned = pp.plan(pp.Thresholds(pp.Integers(0, 99)), epsilon=1, records_per_user=16, setting="realizable")
        >>> print(planned.answer(predict=False).split(";")[0])
        18 people with 16 records each are certain, if some rule is always right
        """
        return answer_text(self, predict=self.predicts if predict is None else predict)

    # What is made when it is looked at

    @cached_property
    def simulations(self) -> tuple[Simulation, ...]:
        """What can be simulated on the stated model."""
        return () if self.asked is None else tuple(self.asked.target.simulations(self.asked.setting))

    @cached_property
    def _simulated(self) -> dict[tuple[str, int], Predicted]:
        return {}

    def simulated(self, simulation: Simulation, records_per_user: int) -> Predicted:
        """What a simulation says for one number of records, and its standard error; run once."""
        place = (simulation.method, records_per_user)
        if place not in self._simulated:
            self._simulated[place] = _predicted(self, simulation, records_per_user)
        return self._simulated[place]

    @property
    def simulation(self) -> Simulation | None:
        """That of the recommended method."""
        own = {row.method for row in self._own_rows}
        return next((found for found in self.simulations if found.method in own), None)

    def model_of(self, simulation: Simulation) -> str:
        """What a prediction holds for."""
        assert self.asked is not None
        return f"mean {self.asked.target.measure} on one simulated model, {simulation.model}"

    @cached_property
    def predicted(self) -> tuple[PlanRow, ...]:
        """The number at which a method's mean loss on the stated model is at most ``alpha``, or that mean: simulated,
        not certified."""
        return tuple(map(self.predicted_of, self.simulations))

    def predicted_of(self, simulation: Simulation) -> PlanRow:
        """The row of one simulation."""
        return _predicted_row(self, simulation, range(len(self.records_per_user)))

    @property
    def predicts(self) -> bool:
        """Whether what is typical is simulated without being asked for: where that takes a moment only, in the short
        table at least for the middle one of the numbers of records."""
        return self.quick_here if self.short else self.quick

    @cached_property
    def quick_here(self) -> bool:
        """Whether predictions take a moment only for the middle one of the numbers of records."""
        return self.quick or evolve(self, records_per_user=(self.records_per_user[self.place],)).quick

    @property
    def quick(self) -> bool:
        """Whether the predictions take a moment only, judged from the sizes asked for."""
        return self.asked is None or self.asked.target.quick(self)

    @property
    def note(self) -> str:
        """What is left out, and why; and which method to name where its certificate is better than the default's."""
        return self.asked.target.remark(self) if self.asked else ""

    @cached_property
    def recommendation(self) -> Choice | None:
        """The method to use and the reason, from public numbers only; for the middle one of the numbers of records per
        user.  None for a plan that was put together by hand."""
        return None if self.asked is None else self.asked.target.recommend(self)

    @cached_property
    def cost_per_record(self) -> dict[str, tuple[float | None, ...]]:
        """For each certified method, users times records against one record per user, for the same promise.

        1: a further record of the same person is worth as much as one of somebody new; 10: it takes ten times as many
        records in all.
        """
        rows = [row for row in self.rows if row.kind == "certified"]
        cost = self._cost_of_users if self.quantity == "users" else self._cost_of_value
        return {row.method: tuple(cost(row, place) for place in range(len(self.records_per_user))) for row in rows}

    def _cost_of_users(self, row: PlanRow, place: int) -> float | None:
        known = dict(zip(self.records_per_user, row.values))
        alone = known[1] if 1 in known else self._alone(row.method)
        return _share(row.values[place], self.records_per_user[place], alone)

    def _cost_of_value(self, row: PlanRow, place: int) -> float | None:
        m, value = self.records_per_user[place], row.values[place]
        if value is None or self.asked is None:
            return None
        return 1.0 if m == 1 else _share(self.asked.n_users, m, self._alone(row.method, **{self.quantity: value}))

    def _alone(self, method: str, **changed: Fraction) -> int | None:
        """Users with one record each."""
        if self.asked is None:
            return None
        return self.asked.target.changed(**changed).certified_users(method, 1, self.asked.setting)

    # What is run

    def run(self, row: str | PlanRow, records_per_user: int | None = None) -> CertifiedRun:
        """The learner of a certified row before it is built, for one of the plan's numbers of records per user (the
        middle one if none is named)."""
        name = row if isinstance(row, str) else row.method
        shown = self.row(name)
        if self.asked is None or shown.kind != "certified":
            raise ParameterError(
                f"the row {name!r} is no certificate of a learner; take a certified row of privpac.plan"
            )
        place = self._place(records_per_user)
        m, target, certificate = self.records_per_user[place], self.asked.target, None
        if shown.values[place] is not None and self.quantity != "users":
            assert self.asked.n_users is not None
            target = target.exactly(self.asked.n_users).changed(**{self.quantity: shown.values[place]})
        method = next(line for line in target.methods(self.asked.setting) if line.name == name)
        if shown.values[place] is not None:
            certificate = shown.certificates[place] if shown.certificates else method.certify(m)
        if certificate is None or certificate.n_users is None:
            raise ParameterError(
                f"{name!r} certifies nothing for {m} records per user, so there is no learner to run; take another row"
            )
        assert method.run is not None
        return method.run(m, certificate, self.asked)

    def _place(self, records_per_user: int | None) -> int:
        if records_per_user is None:
            return self.place
        if records_per_user not in self.records_per_user:
            listed = ", ".join(map(str, self.records_per_user))
            raise ParameterError(
                f"the plan is for {listed} records per user, got {records_per_user}; plan for that number first"
            )
        return self.records_per_user.index(records_per_user)

    def learner(self, row: str | PlanRow, *, records_per_user: int | None = None) -> Any:
        """The learner that a certified row speaks of, with exactly the parameters that are certified.

        It is a learner, a protocol (agreement without a curator) or an ``InteriorPoint`` (medians).

        >>> import privpac as pp
        >>> planned = pp.plan(pp.Thresholds(pp.Integers(0, 99)), epsilon=1, alpha="0.1", records_per_user=4)
        >>> planned.learner("realizable selection").max_records
        4
        """
        return self.run(row, records_per_user).learner()

    def command(self, row: str | PlanRow, *, records_per_user: int | None = None) -> str:
        """The command that runs a certified row."""
        return self.run(row, records_per_user).command()

    def runs_for(self, records_per_user: int, among: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        """Method, parameters and command of every certified row (or of some, by name), for one number of records per
        user."""
        runs: dict[str, dict[str, Any]] = {}
        for row in self.rows if self.asked is not None else ():
            if row.kind == "certified" and (among is None or row.method in among):
                with suppress(PrivpacError):  # nothing is certified there
                    runs[row.method] = self.run(row, records_per_user).to_dict()
        return runs

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """For each certified row and number of records: the method, its certified parameters, and the command or why
        there is none."""
        return {str(m): self.runs_for(m) for m in self.records_per_user}

    # How it is shown

    def to_dict(self, *, predict: bool = True) -> dict[str, Any]:
        """Plain values for JSON; ``predict=False`` leaves the predictions out."""
        choice = self.recommendation
        return {
            **({} if self.quantity == "users" else {"quantity": self.quantity}),
            "answer": self.answer(predict=predict),
            "target": self.target,
            "records_per_user": list(self.records_per_user),
            "rows": [row.to_dict() for row in self.rows],
            "note": self.note,
            "cost_per_record": {method: list(costs) for method, costs in self.cost_per_record.items()},
            "recommendation": None if choice is None else {"method": choice.method, "reason": choice.reason},
            "meaning": {NAMES[kind]: said for kind, said in meanings(self).items()},
            "runs": self.runs,
            "predicted": [row.to_dict() for row in self.predicted] if predict else [],
        }

    def to_frame(self, *, predict: bool | None = None) -> pl.DataFrame:
        """One line for each method and number of records per user, as a polars frame.

        Parameters
        ----------
        predict : bool, optional
            Whether simulated numbers are among them; by default where they take a moment only.

        Returns
        -------
        polars.DataFrame
            Columns ``method``, ``kind`` ("certified", "lower bound", "predicted"), ``records_per_user``, the quantity
            that was asked for (``users``, ``alpha`` or ``epsilon``; null where there is none) and ``assumption``.

        Examples
        --------
        >>> import privpac as pp
        >>> planned = pp.plan(pp.Thresholds(pp.Integers(0, 99)), epsilon=1, records_per_user=(1, 4))
        >>> planned.to_frame(predict=False).columns
        ['method', 'kind', 'records_per_user', 'users', 'assumption']
        """
        rows = [*self.rows, *(self.predicted if (self.quick if predict is None else predict) else ())]
        number = pl.Int64 if self.quantity == "users" else pl.Float64
        plain = (lambda value: value) if self.quantity == "users" else float
        lines = [
            (row.method, row.kind, m, None if value is None else plain(value), row.assumption)
            for row in rows
            for m, value in zip(self.records_per_user, row.values)
        ]
        schema = {"method": pl.String, "kind": pl.String, "records_per_user": pl.Int64, self.quantity: number}
        return pl.DataFrame(lines, schema=schema | {"assumption": pl.String}, orient="row")

    def table(self, *, predict: bool = True) -> Table:
        """A rich table for the terminal."""
        return plan_grid(self, predict=predict)

    def words(self, *, predict: bool = True) -> list[str]:
        """What the rows rest on, and the recommendation."""
        return _plan_words(self, predict=predict)

    def __str__(self) -> str:
        told = {"predict": self.predicts}
        return _as_text(self.answer(**told), self.table(**told), self.words(**told))


def _or_infinity(value: Any) -> float:
    return math.inf if value is None else float(value)


InversePlan, InverseRow = Plan, PlanRow
"""A plan for a given number of users, and its rows: the same classes, with another ``quantity``."""


def _share(n: int | None, m: int, alone: int | None) -> float | None:
    """Records in all, against as many users with one record."""
    return None if n is None or not alone else n * m / alone


# Answers


def plan_target(
    target: Target,
    sizes: Iterable[int],
    stated: dict[str, str],
    setting: str | None = None,
    *,
    every_method: bool = False,
) -> Plan:
    """Users needed: one row for each of the target's methods.  ``stated``: the question in words."""
    records = tuple(sizes)
    rows = [_users_row(method, records) for method in target.methods(setting)]
    asked = Asked(target, setting, every_method=every_method)
    return Plan(dict(stated), records, target.annotated(rows, records), asked)


def _users_row(method: PlannedMethod, sizes: tuple[int, ...]) -> PlanRow:
    """One method for all sizes; a bound that refuses a size (too many records to scan, epsilon too small) leaves it
    open and says why."""
    certificates: list[Certificate | None] = []
    users: list[int | None] = []
    assumption = note = reason = ""
    for m in sizes:
        n = None
        try:
            certificate = method.certify(m)
        except OutOfReach as error:
            certificates.append(None)
            reason = reason or str(error)
        except (ParameterError, TooLargeError) as error:
            certificates.append(None)
            note = note or f"not computed for {m} records: {error}"
        else:
            certificates.append(certificate)
            assumption = certificate.assumption + method.assumes
            n = certificate.n_users
            if n is not None and n > MOST:
                n = None
                reason = reason or str(OutOfReach(f"people with {m:,} record{'s' * (m != 1)} each"))
        users.append(n)
    told: dict[str, Any] = {"key": method.key, "certificates": tuple(certificates), "reason": reason}
    return PlanRow(method.name, method.kind, assumption, tuple(users), note, **told)


def invert_plan(
    target: Target,
    *,
    quantity: str,
    n_users: int,
    sizes: Iterable[int],
    stated: dict[str, str],
    setting: str | None = None,
    every_method: bool = False,
) -> Plan:
    """The least ``alpha`` or ``epsilon`` for ``n_users`` users, method by method."""
    n, records = positive_int(n_users, "n_users"), tuple(sizes)
    rows = []
    for method, values, assumption in least_values(target, quantity, n, records, setting):
        rows.append(PlanRow(method.name, method.kind, assumption, values, quantity=quantity, key=method.key))
    return Plan(dict(stated), records, tuple(rows), Asked(target, setting, n, every_method), quantity)
