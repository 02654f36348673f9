"""How plans are printed: one table with the kinds of numbers told apart, and lines that say what they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from io import StringIO
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from privpac.errors import ParameterError

if TYPE_CHECKING:
    from privpac.planning.choose import Choice

__all__ = [
    "KINDS",
    "NAMES",
    "Shown",
    "as_text",
    "because",
    "cost_cells",
    "found_row",
    "meanings",
    "plan_grid",
    "plan_words",
    "share",
]

Row = TypeVar("Row")

KINDS = {"certified": "", "lower bound": "dim", "predicted": "italic"}
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


def meanings(plan: Any) -> dict[str, str]:
    """What each kind of number of a plan means, in a sentence."""
    return _MEANINGS[getattr(plan, "quantity", "users")]


class Shown:
    """What plans and inverse plans share: rows of several kinds, a recommendation, and three ways to show them."""

    target: dict[str, Any]
    records_per_user: tuple[int, ...]
    rows: tuple[Any, ...]
    asked: Any
    caption: ClassVar[str]

    @property
    def title(self) -> str:
        """What the numbers are."""
        raise NotImplementedError

    @property
    def predicted(self) -> tuple[Any, ...]:
        raise NotImplementedError

    @property
    def cost_per_record(self) -> dict[str, tuple[float | None, ...]]:
        raise NotImplementedError

    @property
    def note(self) -> str:
        """What is left out, and why; and which method to name where its certificate is better than the default's."""
        from privpac.planning.predictions import better_certificate

        return getattr(self.asked.target, "note", "") or better_certificate(self) if self.asked else ""

    @cached_property
    def recommendation(self) -> Choice | None:
        """The method to use and the reason, from public numbers only; for the middle one of the numbers of records per
        user."""
        from privpac.planning.predictions import recommend

        return recommend(self)  # type: ignore[arg-type]

    def learner(self, row: Any, *, records_per_user: int | None = None) -> Any:
        """The learner that a certified row speaks of, with exactly the parameters that are certified.

        It is a learner, a protocol (agreement without a curator) or an ``InteriorPoint`` (medians).

        >>> import privpac as pp
        >>> planned = pp.plan(pp.Thresholds(pp.Integers(0, 99)), epsilon=1, alpha="0.1", records_per_user=4)
        >>> planned.learner("realizable selection").max_records
        4
        """
        from privpac.planning.targets.rule_runs import certified_run

        return certified_run(self, row, records_per_user).learner()

    def command(self, row: Any, *, records_per_user: int | None = None) -> str:
        """The command that runs a certified row."""
        from privpac.planning.targets.rule_runs import certified_run

        return certified_run(self, row, records_per_user).command()

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """For each certified row and number of records: the method, its certified parameters, and the command or why
        there is none."""
        from privpac.planning.targets.rule_runs import runs

        return {str(m): runs(self, m) for m in self.records_per_user}

    def to_dict(self, *, predict: bool = True) -> dict[str, Any]:
        """Plain values for JSON; ``predict=False`` leaves the predictions out."""
        choice = self.recommendation
        return {
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

    def table(self, *, predict: bool = True) -> Any:
        """A rich table for the terminal."""
        title = f"{self.title}: " + ", ".join(f"{name} {value}" for name, value in self.target.items())
        return plan_grid(title, self.caption, self, predict=predict)

    def words(self, *, predict: bool = True) -> list[str]:
        """What the rows rest on, and the recommendation."""
        return plan_words(self, predict=predict)

    def __str__(self) -> str:
        from privpac.planning.predictions import quick

        predict = quick(self)  # type: ignore[arg-type]
        return as_text(self.table(predict=predict), self.words(predict=predict))


def found_row(rows: Sequence[Row], method: str) -> Row:
    """The row of a method."""
    for row in rows:
        if row.method == method:  # type: ignore[attr-defined]
            return row
    raise ParameterError(f"the plan has no method {method!r}; it has {', '.join(repr(row.method) for row in rows)}")  # type: ignore[attr-defined]


def share(n: int | None, m: int, alone: int | None) -> float | None:
    """Records in all, against as many users with one record."""
    return None if n is None or not alone else n * m / alone


def plan_grid(title: str, caption: str, plan: Any, *, predict: bool) -> Any:
    """The rows of a plan, or of an inverse plan, by kind; then what a record costs."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("records per user →", overflow="fold")
    for m in plan.records_per_user:
        table.add_column(str(m), justify="right", no_wrap=True)
    rows = [*plan.rows, *(plan.predicted if predict else ())]
    for kind, style in KINDS.items():
        shown = [row for row in rows if row.kind == kind]
        if shown:
            table.add_row(f"{NAMES[kind]}:", style=f"bold {style}")
            for row in shown:
                table.add_row(f"  {row.method}", *row.cells(), style=style)
            table.add_section()
    costs = cost_cells(plan) if any(m > 1 for m in plan.records_per_user) else {}
    if costs:
        table.add_row("cost of a record, certified:", style="bold dim")
        for method, cells in costs.items():
            table.add_row(f"  {method}", *cells, style="dim")
    return table


def cost_cells(plan: Any) -> dict[str, list[str]]:
    """What a record costs, as it is printed, for methods of which that is known."""
    known = {method: costs for method, costs in plan.cost_per_record.items() if any(cost is not None for cost in costs)}
    return {
        method: ["-" if c is None else f"{c:.2g}×" if c < 100 else f"{c:,.0f}×" for c in costs]
        for method, costs in known.items()
    }


def plan_words(plan: Any, *, predict: bool) -> list[str]:
    """What the rows of a plan rest on, line by line, and the recommendation."""
    lines = [f"{NAMES[kind]}: {said}" for kind, said in meanings(plan).items() if _has(plan, kind, predict)]
    lines += [row.words() for row in plan.rows]
    models: dict[str, list[str]] = {}
    for row in plan.predicted if predict else ():
        models.setdefault(row.assumption, []).append(row.method)
    lines += [f"typical ({', '.join(methods)}): {model}" for model, methods in models.items()]
    lines += [plan.note] if plan.note else []
    lines += [] if plan.recommendation is None else [f"recommended: {because(plan.recommendation)}"]
    return [*lines, *run_lines(plan)]


def _has(plan: Any, kind: str, predict: bool) -> bool:
    return bool(predict and plan.predicted) if kind == "predicted" else any(row.kind == kind for row in plan.rows)


def run_lines(plan: Any) -> list[str]:
    """The commands that run the certified rows, for the middle one of the numbers of records per user."""
    from privpac.planning.targets.rule_runs import runs

    m = plan.records_per_user[len(plan.records_per_user) // 2]
    found = runs(plan, m)
    head = f"to run what is certified, for people with {m:,} record{'s' * (m != 1)} each (all parameters count):"
    return [head, *(f"  {row}: {run['command'] or run['note']}" for row, run in found.items())] if found else []


def because(choice: Any) -> str:
    """A choice as a sentence without its stop."""
    reason: str = choice.reason
    if reason.startswith("predicted"):
        reason = f"a simulation says so (not a certificate): {reason}"
    elif reason.startswith("no prediction"):
        reason = f"it is the default, with {reason}"
    elif reason.startswith(("the default", "the least")):
        reason = f"it {'is' if reason.startswith('the default') else 'has'} {reason}"
    return f"{choice.method}, because {reason}"


def as_text(table: Any, lines: Iterable[str]) -> str:
    """A table and lines below it, as plain text."""
    from rich.console import Console

    out = Console(file=StringIO(), width=110, force_terminal=False)
    out.print(table)
    for line in lines:
        out.print(line, markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())  # type: ignore[attr-defined]
