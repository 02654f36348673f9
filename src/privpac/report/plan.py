"""One self-contained HTML file about one plan: how many users, at which epsilon, for which accuracy, and with which
method.

Everything in it is a function of public numbers.  Certified numbers, which hold for every law that their assumption
allows, and predictions, which hold for one simulated model, stand in sections of their own.  It fetches nothing.  The
numbers are those of :mod:`privpac.planning`; here they are only drawn.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from privpac.planning import InversePlan, Plan
from privpac.planning import plan as ask
from privpac.planning.curves import Curves
from privpac.planning.predictions import quick
from privpac.planning.tables import NAMES, because, cost_cells, meanings
from privpac.planning.targets.rule_runs import runs
from privpac.report.html import _STYLE, write_whole
from privpac.report.plots import INK, LINES, QUIET, _figure, _svg

__all__ = ["plan_html", "write_plan_report"]

_TICKS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
_LEAST = 1e-4
_AROUND = [Fraction(1, 4), Fraction(1), Fraction(4)]
_NAMES = {"beta": "failure probability at most"}


def plan_html(
    concept: Any = None, *, planned: Plan | InversePlan | None = None, predict: bool | None = None, **question: Any
) -> str:
    """The page for one question to :func:`privpac.plan`, as one HTML text; ``planned`` is its answer, if it is there
    already.

    ``predict``: whether to simulate the model; by default where that takes a moment.
    """
    answer = ask(concept, **question) if planned is None else planned
    return _page(Curves(answer), quick(answer) if predict is None else predict)


def write_plan_report(path: str | os.PathLike[str], concept: Any = None, **question: Any) -> Path:
    """Write the page of :func:`plan_html` to ``path``, whole or not at all."""
    return write_whole(plan_html(concept, **question).encode(), path)


# The page


def _page(view: Curves, predict: bool) -> str:
    parts = [
        _head(view, predict),
        _answer(view),
        _curves(view, predict),
        _cost(view),
        *(_predicted(view) if predict else []),
    ]
    parts += [_runs(view), _words(view)]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        "content='width=device-width,initial-scale=1'>"
        f"<title>Plan: how many people, at which epsilon</title><style>{_STYLE}</style></head>"
        f"<body><main>{chr(10).join(parts)}</main></body></html>\n"
    )


def _holding(view: Curves) -> str:
    return f"{view.records:,} record{'' if view.records == 1 else 's'} each"


def _head(view: Curves, predict: bool) -> str:
    title, answer = _headline(view)
    promise = f"epsilon {_short(view.target.epsilon)} per person, {view.target.neighbours!s}"
    what = ", ".join(f"{name}: {value}" for name, value in getattr(view.target, "shown", {}).items())
    choice = view.planned.recommendation
    method, _, reason = because(choice).partition(", because ") if choice is not None else ("", "", "")
    advice = (
        f"<p><b>Recommended method: {html.escape(method)}</b>, because {html.escape(reason)}.</p>"
        if choice is not None
        else ""
    )
    return (
        f"<section><h1>How many people does it take?</h1><div class='rule'>{title}</div>"
        f"<span class='promise'>{html.escape(promise)}</span><p>{answer}</p>{_beside(view, predict)}"
        f"{f'<p class=quiet>{html.escape(what)}</p>' if what else ''}{advice}</section>"
    )


def _beside(view: Curves, predict: bool) -> str:
    """The three kinds of numbers side by side, each with the sentence that says what it means."""
    certified = view.promised if isinstance(view.planned, InversePlan) else view.enough
    shown = {
        "certified": None
        if certified is None
        else f"{certified:,}"
        if isinstance(certified, int)
        else _short(certified)
    }
    shown |= {"lower bound": view.number("lower bound"), "predicted": view.number("predicted") if predict else None}
    said = meanings(view.planned)
    rows = "".join(
        f"<tr><td class='n'><b>{html.escape(number)}</b></td><td><b>{NAMES[kind]}</b>: "
        f"{html.escape(said[kind])}</td></tr>"
        for kind, number in shown.items()
        if number is not None
    )
    return f"<table>{rows}</table>" if rows else ""


def _headline(view: Curves) -> tuple[str, str]:
    """What was asked, answered for the recommended method, and in which sense it is certified."""
    planned, n = view.planned, view.enough
    sure = f"with probability {_short(1 - view.target.beta)}"
    wanted = f"{view.measure} at most {_short(view.target.alpha)} {sure}"
    if isinstance(planned, Plan):
        if n is None:
            return f"Nothing is certified for people with {_holding(view)}", f"Asked for: {wanted}."
        return f"{n:,} people with {_holding(view)}", f"Certified to be enough for {wanted}."
    people, value = f"{view.n_users:,} people with {_holding(view)}", view.promised
    if value is None:
        below = f"epsilon {_short(view.target.epsilon)}, alpha {_short(view.target.alpha)}"
        return f"Nothing is certified for {people}", f"The least {planned.quantity} was asked for; below, {below}."
    if planned.quantity == "epsilon":
        return f"{people}: epsilon {_short(value)}", f"Certified to be enough for {wanted}."
    needed = f" For {view.measure} {_short(view.target.alpha)} it takes {n:,} people." if n is not None else ""
    return f"{people}: {view.measure} at most {_short(value)}", f"Certified to hold {sure}.{needed}"


def _answer(view: Curves) -> str:
    """The certified part of the plan, as on the terminal, and what its rows assume."""
    planned = view.planned
    names = {"alpha": f"{view.measure} at most", **_NAMES}
    target = ", ".join(f"{names.get(name, name)} {value}" for name, value in planned.target.items())
    title = "Users needed" if isinstance(planned, Plan) else f"The least {planned.quantity} that can be promised"
    rows = [(row.method, row.kind, row.cells()) for row in planned.rows]
    words = "".join(f"<li>{html.escape(row.words())}</li>" for row in planned.rows)
    note = f"<li>{html.escape(planned.note)}</li>" if planned.note else ""
    return (
        f"<section><h2>{title}: certified, and what no method can</h2><p class='quiet'>{html.escape(target)}. – : "
        "nothing is certified.</p>"
        f"{_grid(planned.records_per_user, rows)}<ul class='quiet'>{words}{note}</ul></section>"
    )


def _grid(sizes: Iterable[int], rows: Iterable[tuple[str, str, Sequence[str]]]) -> str:
    body = ""
    for method, kind, cells in rows:
        mark = (
            "" if kind in ("certified", "") else f" <span class='quiet'>({html.escape(NAMES.get(kind, kind))})</span>"
        )
        numbers = "".join(f"<td class=n>{'–' if cell == '-' else html.escape(cell)}</td>" for cell in cells)
        body += f"<tr><td style='overflow-wrap:normal'>{html.escape(method)}{mark}</td>{numbers}</tr>"
    top = "".join(f"<th class='n'>{m:,}</th>" for m in sizes)
    return f"<div class='scroll'><table><tr><th>records per user</th>{top}</tr>{body}</table></div>"


# Curves


def _curves(view: Curves, predict: bool) -> str:
    eps, alpha, holding = _short(view.target.epsilon), _short(view.target.alpha), _holding(view)
    plan, sizes = view.by_records, view.by_records.records_per_user
    told = [
        "Dashed: no method can do with fewer, under the assumption named for it.",
        "Dotted with crosses: typical, not certified." if predict and view.simulation is not None else "",
        "Upright dotted line: what you asked for. Colours mean the same method in all three pictures.",
    ]
    records = _Picture("records per user", "users needed", sizes, legend=True)
    for i, row in enumerate(plan.rows):
        records.line(i, row.method, row.kind, [(m, n) for m, n in zip(sizes, row.n_users) if n])
    if predict:
        for row in plan.predicted:
            place = next((i for i, own in enumerate(plan.rows) if own.method == row.method), len(LINES))
            records.line(place, row.method, "predicted", [(m, n) for m, n in zip(sizes, row.n_users) if n])
    factors = [Fraction(2) ** k for k in range(-5, 2)] if predict else []
    found = [(n, m, p) for n, m, p in view.predicted_errors(factors) if p.excess >= _LEAST]
    privacy = _Picture(
        "epsilon", "users needed", [float(e) for e, _ in view.by_epsilon], here=float(view.target.epsilon)
    )
    privacy.plans(view.by_epsilon, lambda value, n: (value, n))
    lowest = min((p.excess for _, m, p in found if m == view.records), default=1.0)
    people = _Picture(
        "users", f"{view.measure} (alpha)", [t for t in _TICKS if t >= min(0.01, lowest)], here=view.n_users, swap=True
    )
    people.plans(view.by_alpha, lambda value, n: (n, value))
    if view.simulation is not None:
        place = next((i for i, own in enumerate(plan.rows) if own.method == view.simulation.method), len(LINES))
        people.line(
            place, view.simulation.method, "predicted", [(n, p.excess) for n, m, p in found if m == view.records]
        )
    return (
        f"<section><h2>What moves the numbers</h2><p class='quiet'>{' '.join(filter(None, told))}</p>"
        f"<p>More records per person (epsilon {eps}, alpha {alpha})</p>{records.svg()}"
        f"<p>More privacy loss ({holding}, alpha {alpha})</p>{privacy.svg()}"
        f"<p>More people (epsilon {eps}, {holding})</p>{people.svg()}</section>"
    )


class _Picture:
    """Lines on logarithmic axes; ``here`` is marked.  ``swap``: the ticks are those of the upright axis."""

    def __init__(
        self,
        across: str,
        up: str,
        ticks: Sequence[float],
        *,
        here: float | None = None,
        swap: bool = False,
        legend: bool = False,
    ) -> None:
        self.across, self.up, self.ticks, self.here, self.swap, self.legend = across, up, ticks, here, swap, legend
        self.figure, self.axes = _figure(3.1 if legend else 2.6)
        self.bounds = 0

    def line(self, place: int, method: str, kind: str, points: Sequence[tuple[float, float]]) -> None:
        if not points:
            return
        colour = QUIET if kind == "lower bound" else LINES[place % len(LINES)]
        self.bounds += kind == "lower bound"
        look = {"certified": ("o", "-"), "lower bound": ("os^v"[self.bounds % 4], "--"), "predicted": ("x", ":")}[kind]
        name = method if kind == "certified" else f"{method} ({NAMES[kind]})"
        self.axes.plot(
            *zip(*points), marker=look[0], linestyle=look[1], color=colour, markersize=3.5, linewidth=1.6, label=name
        )

    def plans(
        self, plans: Sequence[tuple[Fraction, Plan]], point: Callable[[float, float], tuple[float, float]]
    ) -> None:
        """One line for each method through ``point(value, users)``."""
        for i, row in enumerate(plans[0][1].rows):
            found = [(float(value), plan.rows[i].n_users[0]) for value, plan in plans]
            self.line(i, row.method, row.kind, [point(value, float(n)) for value, n in found if n])

    def svg(self) -> str:
        axes = self.axes
        if not axes.lines:
            return "<p class='quiet'>Nothing is certified here.</p>"
        if self.here is not None:
            axes.axvline(self.here, color=INK, linewidth=1, linestyle=":")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.minorticks_off()
        (axes.set_yticks if self.swap else axes.set_xticks)(self.ticks, [f"{tick:.3g}" for tick in self.ticks])
        axes.set_xlabel(self.across)
        axes.set_ylabel(self.up)
        axes.grid(alpha=0.25)
        if self.legend:
            axes.legend(
                fontsize=9,
                frameon=False,
                loc="upper left",
                bbox_to_anchor=(0, -0.18),
                handlelength=1.8,
                labelspacing=0.3,
            )
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        return _svg(self.figure, f"{self.up} against {self.across}, one line for each method")


# What more records are worth


def _cost(view: Curves) -> str:
    """Records in all against one record per user: the price of asking few people much instead of many people little."""
    plan = view.by_records
    rows = [(method, "", cells) for method, cells in cost_cells(plan).items()]
    if not rows:
        return ""
    return (
        "<section><h2>What a record costs: certified</h2><p class='quiet'>Users times records per user, against one "
        "record per user. 1×: "
        "a further record of the same person is worth as much as one of somebody new. 10×: it takes ten times as many "
        "records in "
        f"all, be it from fewer people.</p>{_grid(plan.records_per_user, rows)}</section>"
    )


# What is predicted


def _predicted(view: Curves) -> list[str]:
    """The plan's predictions, and simulated errors of the recommended method next to what is certified for the same
    numbers."""
    planned = view.planned
    if not planned.predicted:
        return []
    models: dict[str, list[str]] = {}
    for row in planned.predicted:
        models.setdefault(row.assumption, []).append(row.method)
    said = "".join(
        f"<li>{html.escape(', '.join(methods))}: {html.escape(model)}</li>" for model, methods in models.items()
    )
    what = (
        "Users"
        if isinstance(planned, Plan)
        else view.measure.capitalize()
        if planned.quantity == "alpha"
        else "Epsilon"
    )
    rows = [(row.method, "", row.cells()) for row in planned.predicted]
    return [
        "<section><h2>What is typical: simulated, not certified</h2>"
        "<p class='warn'>A simulation of one model, named below. Your people may be harder. Promise the certified "
        "number; "
        f"use this one to see how pessimistic it may be.</p><p>{what}, "
        f"typical</p>{_grid(planned.records_per_user, rows)}"
        f"<ul class='quiet'>{said}</ul>{_errors(view)}</section>"
    ]


def _errors(view: Curves) -> str:
    found = view.predicted_errors(_AROUND)
    if not found or view.simulation is None:
        return ""
    rows = ""
    for n, m, predicted in found:
        sure = view.certified_alpha(n, m)
        rows += (
            f"<tr><td class='n'>{n:,}</td><td class='n'>{m:,}</td><td class='n'>{predicted.excess:.2g} <span "
            "class='quiet'>± "
            f"{predicted.error:.1g}</span></td><td class='n'>{'–' if sure is None else _short(sure)}</td></tr>"
        )
    return (
        f"<p>{view.measure.capitalize()} of {html.escape(view.simulation.method)}, typical and certified</p>"
        "<div class='scroll'><table><tr><th class='n'>users</th><th class='n'>records each</th><th "
        "class='n'>typical</th>"
        f"<th class='n'>certified</th></tr>{rows}</table></div><p class='quiet'>Typical: the mean ± its Monte-Carlo "
        "error. Certified: the "
        "least that is proved for exactly so many users and records. Large tables are simulated with fewer records or "
        "users.</p>"
    )


def _runs(view: Curves) -> str:
    """The commands behind the certified numbers: another clip, cap or split is another learner, of which nothing is
    promised."""
    found = runs(view.planned, view.records)
    if not found:
        return ""
    look = "white-space:pre-wrap"
    said = {row: html.escape(run["command"] or run["note"]) for row, run in found.items()}
    rows = "".join(f"<p>{html.escape(row)}</p><pre style='{look}'>{text}</pre>" for row, text in said.items())
    return (
        f"<section><h2>How to run it</h2><p class='quiet'>What is certified for people with {_holding(view)} is "
        "certified for the learner "
        f"with exactly these parameters. Put in your own names for the words in capitals.</p>{rows}</section>"
    )


def _words(view: Curves) -> str:
    meant = {
        "total variation": (
            "Total variation: the largest difference between the probabilities that the released law and the true one "
            "give to any event."
        ),
        "share of ranks": "Share of ranks: how far the released number is from the middle of all numbers in order.",
    }.get(view.measure, "Excess error: how much more often the released rule is wrong than the best rule of its class.")
    return (
        f"<p class='quiet'>{meant} Certified: proved for every law that the assumption allows. Nothing on this page "
        "depends on private "
        "data: it may be made, shown and shared freely.</p>"
    )


def _short(value: Fraction) -> str:
    return f"{float(value):.4g}"
