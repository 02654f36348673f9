"""How plans are printed: one table with the kinds of numbers told apart, and lines that say what they rest on."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privpac.planning.plans import Plan

__all__ = ["KINDS", "NAMES", "as_text", "cost_cells", "meanings", "plan_grid", "plan_words"]

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


def meanings(plan: Plan) -> dict[str, str]:
    """What each kind of number of a plan means, in a sentence."""
    return _MEANINGS[plan.quantity]


def plan_grid(plan: Plan, *, predict: bool) -> Any:
    """The rows of a plan by kind; then what a record costs."""
    from rich.table import Table

    title = f"{plan.title}: " + ", ".join(f"{name} {value}" for name, value in plan.target.items())
    table = Table(title=title, title_justify="left", caption=plan.caption, caption_justify="left")
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


def cost_cells(plan: Plan) -> dict[str, list[str]]:
    """What a record costs, as it is printed, for methods of which that is known."""
    known = {method: costs for method, costs in plan.cost_per_record.items() if any(cost is not None for cost in costs)}
    return {
        method: ["-" if c is None else f"{c:.2g}×" if c < 100 else f"{c:,.0f}×" for c in costs]
        for method, costs in known.items()
    }


def plan_words(plan: Plan, *, predict: bool) -> list[str]:
    """What the rows of a plan rest on, line by line, and the recommendation."""
    lines = [f"{NAMES[kind]}: {said}" for kind, said in meanings(plan).items() if _has(plan, kind, predict)]
    lines += [row.words() for row in plan.rows]
    models: dict[str, list[str]] = {}
    for row in plan.predicted if predict else ():
        models.setdefault(row.assumption, []).append(row.method)
    lines += [f"typical ({', '.join(methods)}): {model}" for model, methods in models.items()]
    lines += [plan.note] if plan.note else []
    choice = plan.recommendation
    lines += [] if choice is None else [f"recommended: {choice.method}, because {choice.because}"]
    return [*lines, *run_lines(plan)]


def _has(plan: Plan, kind: str, predict: bool) -> bool:
    return bool(predict and plan.predicted) if kind == "predicted" else any(row.kind == kind for row in plan.rows)


def run_lines(plan: Plan) -> list[str]:
    """The commands that run the certified rows, for the middle one of the numbers of records per user."""
    m = plan.records_per_user[plan.place]
    found = plan.runs_for(m)
    head = f"to run what is certified, for people with {m:,} record{'s' * (m != 1)} each (all parameters count):"
    return [head, *(f"  {row}: {run['command'] or run['note']}" for row, run in found.items())] if found else []


def as_text(table: Any, lines: Iterable[str]) -> str:
    """A table and lines below it, as plain text."""
    from rich.console import Console

    out = Console(file=StringIO(), width=110, force_terminal=False)
    out.print(table)
    for line in lines:
        out.print(line, markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())  # type: ignore[attr-defined]
