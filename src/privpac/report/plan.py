"""One self-contained HTML file about one plan: how many users, at which epsilon, for which accuracy, and with which
method.

Everything in it is a function of public numbers.  Certified numbers, which hold for every law that their assumption
allows, and predictions, which hold for one simulated model, stand in sections of their own.  It fetches nothing.  The
numbers are those of :mod:`privpac.planning`; here they are only drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from markupsafe import Markup

from privpac.planning import Plan
from privpac.planning import plan as ask
from privpac.planning.curves import Curves
from privpac.planning.plans import NAMES, cost_cells, meanings
from privpac.report.pages import page, write_page
from privpac.report.plots import INK, LINES, QUIET, figure_of, svg

_TICKS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
_LEAST = 1e-4
_AROUND = [Fraction(1, 4), Fraction(1), Fraction(4)]
_NAMES = {"beta": "failure probability at most"}
_MEANT = {
    "total variation": (
        "Total variation: the largest difference between the probabilities that the released law and the true one "
        "give to any event."
    ),
    "share of ranks": "Share of ranks: how far the released number is from the middle of all numbers in order.",
    "excess error": "Excess error: how much more often the released rule is wrong than the best rule of its class.",
}


def plan_html(
    concept: object = None, *, planned: Plan | None = None, predict: bool | None = None, **question: Any
) -> str:
    """The page for one question to :func:`privpac.plan`, as one HTML text; ``planned`` is its answer, if it is there
    already.

    ``predict``: whether to simulate the model; by default where that takes a moment.
    """
    answer = ask(concept, **question) if planned is None else planned
    return _page(Curves(answer), answer.quick if predict is None else predict)


def write_plan_report(path: str | os.PathLike[str], concept: object = None, **question: Any) -> Path:
    """Write the page of :func:`plan_html` to ``path``, whole or not at all."""
    return write_page(plan_html(concept, **question), path)


# The page


def _page(view: Curves, predict: bool) -> str:
    return page(
        "plan.html",
        holding=_holding(view),
        sizes=_sizes(view.planned.records_per_user),
        head=_head(view, predict),
        answer=_answer(view),
        curves=_curves(view, predict),
        cost=_cost(view),
        predicted=_predicted(view) if predict and view.planned.predicted else None,
        runs=_runs(view),
        meaning=_MEANT.get(view.measure, _MEANT["excess error"]),
    )


def _holding(view: Curves) -> str:
    return f"{view.records:,} record{'' if view.records == 1 else 's'} each"


def _head(view: Curves, predict: bool) -> dict[str, object]:
    title, answer = _headline(view)
    choice = view.planned.recommendation
    return {
        "title": title,
        "promise": f"epsilon {_short(view.target.epsilon)} per person, {view.target.neighbours!s}",
        "sentence": view.planned.answer(predict=predict),
        "answer": answer,
        "beside": _beside(view, predict),
        "what": ", ".join(f"{name}: {value}" for name, value in view.target.shown.items()),
        "advice": None if choice is None else (choice.method, choice.because),
    }


def _beside(view: Curves, predict: bool) -> list[tuple[str, str, str]]:
    """The three kinds of numbers side by side, each with the sentence that says what it means."""
    if view.planned.quantity == "users":
        certified = None if view.enough is None else f"{view.enough:,}"
    else:
        certified = None if view.promised is None else _short(view.promised)
    shown = {"certified": certified}
    shown |= {"lower bound": view.number("lower bound"), "predicted": view.number("predicted") if predict else None}
    said = meanings(view.planned)
    return [(number, NAMES[kind], said[kind]) for kind, number in shown.items() if number is not None]


def _headline(view: Curves) -> tuple[str, str]:
    """What was asked, answered for the recommended method, and in which sense it is certified."""
    planned, n = view.planned, view.enough
    sure = f"with probability {_short(1 - view.target.beta)}"
    wanted = f"{view.measure} at most {_short(view.target.alpha)} {sure}"
    if planned.quantity == "users":
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


def _answer(view: Curves) -> dict[str, object]:
    """The certified part of the plan, as on the terminal, and what its rows assume."""
    planned = view.planned
    names = {"alpha": f"{view.measure} at most", **_NAMES}
    marks = {kind: name for kind, name in NAMES.items() if kind != "certified"}
    wanted = "Users needed" if planned.quantity == "users" else f"The least {planned.quantity} that can be promised"
    return {
        "title": wanted,
        "target": ", ".join(f"{names.get(name, name)} {value}" for name, value in planned.target.items()),
        "rows": [(row.method, marks.get(row.kind, ""), _cells(row.cells())) for row in planned.rows],
        "words": [row.words() for row in planned.rows] + ([planned.note] if planned.note else []),
    }


def _sizes(records_per_user: Iterable[int]) -> list[str]:
    return [f"{m:,}" for m in records_per_user]


def _cells(texts: Iterable[str]) -> list[str]:
    return ["–" if text == "-" else text for text in texts]


# Curves


def _curves(view: Curves, predict: bool) -> dict[str, object]:
    plan, sizes, drawn = view.by_records, view.by_records.records_per_user, _drawn(view.planned, predict)
    told = [
        "Dashed: no method can do with fewer, under the assumption named for it.",
        "Dotted with crosses: typical, not certified." if predict and view.simulation is not None else "",
        "Upright dotted line: what you asked for. Colours mean the same method in all three pictures.",
    ]
    records = _Picture("records per user", "users needed", sizes, legend=True)
    for i, row in enumerate(plan.rows):
        if (row.kind, row.method) in drawn:
            records.line(i, row.method, row.kind, [(m, n) for m, n in zip(sizes, row.n_users) if n])
    for made in plan.simulations if predict else ():
        if ("predicted", made.method) in drawn:
            row = plan.predicted_of(made)
            place = next((i for i, own in enumerate(plan.rows) if own.method == row.method), len(LINES))
            records.line(place, row.method, "predicted", [(m, n) for m, n in zip(sizes, row.n_users) if n])
    factors = [Fraction(2) ** k for k in range(-5, 2)] if predict else []
    found = [(n, m, p) for n, m, p in view.predicted_errors(factors) if p.excess >= _LEAST]
    privacy = _Picture(
        "epsilon", "users needed", [float(e) for e, _ in view.by_epsilon], here=float(view.target.epsilon)
    )
    privacy.plans(view.by_epsilon, drawn, lambda value, n: (value, n))
    lowest = min((p.excess for _, m, p in found if m == view.records), default=1.0)
    people = _Picture(
        "users", f"{view.measure} (alpha)", [t for t in _TICKS if t >= min(0.01, lowest)], here=view.n_users, swap=True
    )
    people.plans(view.by_alpha, drawn, lambda value, n: (n, value))
    if view.simulation is not None:
        place = next((i for i, own in enumerate(plan.rows) if own.method == view.simulation.method), len(LINES))
        people.line(
            place, view.simulation.method, "predicted", [(n, p.excess) for n, m, p in found if m == view.records]
        )
    return {
        "told": " ".join(filter(None, told)),
        "epsilon": _short(view.target.epsilon),
        "alpha": _short(view.target.alpha),
        "records": records.svg(),
        "privacy": privacy.svg(),
        "people": people.svg(),
    }


def _drawn(plan: Plan, predict: bool) -> set[tuple[str, str]]:
    """Kind and name of the rows with a line in the pictures: at most four, unless all rows were asked for."""
    everything = [*plan.rows, *(plan.predicted if predict else ())]
    return {(row.kind, row.method) for row in (plan.main_rows(predict=predict) if plan.short else everything)}


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
        self.figure, self.axes = figure_of(3.1 if legend else 2.6)
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
        self,
        plans: Sequence[tuple[Fraction, Plan]],
        drawn: Collection[tuple[str, str]],
        point: Callable[[float, float], tuple[float, float]],
    ) -> None:
        """One line for each method that is drawn, through ``point(value, users)``."""
        for i, row in enumerate(plans[0][1].rows):
            if (row.kind, row.method) not in drawn:
                continue
            found = [(float(value), plan.rows[i].n_users[0]) for value, plan in plans]
            self.line(i, row.method, row.kind, [point(value, float(n)) for value, n in found if n])

    def svg(self) -> Markup | None:
        """The picture; None if there is nothing to draw."""
        axes = self.axes
        if not axes.lines:
            return None
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
        axes.spines[["top", "right"]].set_visible(False)
        return svg(self.figure, f"{self.up} against {self.across}, one line for each method")


# What more records are worth


def _cost(view: Curves) -> dict[str, object]:
    """Records in all against one record per user: the price of asking few people much instead of many people little."""
    plan = view.by_records
    rows = [(method, "", _cells(cells)) for method, cells in cost_cells(plan).items()]
    return {"sizes": _sizes(plan.records_per_user), "rows": rows}


# What is predicted


def _predicted(view: Curves) -> dict[str, object]:
    """The plan's predictions, and simulated errors of the recommended method next to what is certified for the same
    numbers."""
    planned = view.planned
    models: dict[str, list[str]] = {}
    for row in planned.predicted:
        models.setdefault(row.assumption, []).append(row.method)
    names = {"users": "Users", "alpha": view.measure.capitalize(), "epsilon": "Epsilon"}
    return {
        "what": names[planned.quantity],
        "rows": [(row.method, "", _cells(row.cells())) for row in planned.predicted],
        "models": [f"{', '.join(methods)}: {model}" for model, methods in models.items()],
        "measure": view.measure.capitalize(),
        "method": "" if view.simulation is None else view.simulation.method,
        "errors": [] if view.simulation is None else list(_errors(view)),
    }


def _errors(view: Curves) -> Iterator[tuple[str, ...]]:
    for n, m, predicted in view.predicted_errors(_AROUND):
        sure = view.certified_alpha(n, m)
        certified = "–" if sure is None else _short(sure)
        yield f"{n:,}", f"{m:,}", f"{predicted.excess:.2g}", f"{predicted.error:.1g}", certified


def _runs(view: Curves) -> list[tuple[str, str]]:
    """The commands behind the certified numbers: another clip, cap or split is another learner, of which nothing is
    promised."""
    return [(row, run["command"] or run["note"]) for row, run in view.planned.runs_for(view.records).items()]


def _short(value: Fraction) -> str:
    return f"{float(value):.4g}"
