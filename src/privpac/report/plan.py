"""One self-contained HTML file about one plan: how many users, at which epsilon, for which accuracy, and with which method.

Everything in it is a function of public numbers.  Certified numbers, which hold for every law that their assumption allows, and
predictions, which hold for one simulated model, stand in sections of their own.  It fetches nothing.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from privpac.concepts.base import ConceptClass
from privpac.concepts.thresholds import Thresholds
from privpac.concepts.trees.base import VC1Tree
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours
from privpac.learners.realizable import RealizableSelection
from privpac.learners.regret import RegretSelection
from privpac.planning import Choice, InversePlan, Plan, choose_method, plan_of_tree
from privpac.planning import plan as ask
from privpac.planning.choose import DEFAULT_NOISE
from privpac.planning.plan import MAX_EPSILON, STANDARD_RECORDS
from privpac.planning.predict import Prediction, predict_excess
from privpac.report.html import _STYLE, write_whole
from privpac.report.plots import INK, LINES, QUIET, _figure, _svg, plan_picture

__all__ = ["plan_html", "write_plan_report"]

_EPSILONS = [Fraction(2) ** k for k in range(-3, 4)]
_ALPHAS = [Fraction(a) for a in ("0.01", "0.015", "0.02", "0.03", "0.04", "0.05", "0.07", "0.1", "0.15", "0.2", "0.3")]
_TICKS = [0.01, 0.02, 0.05, 0.1, 0.2]
_MOST_RECORDS = 1 << 14
"""Simulated records per data set at most: a page is made in seconds."""
_REPEATS = 3
_ROWS = {"regret": "regret selection", "mean": "per-user mean", "realizable": "realizable selection", "tree": "tree learner"}


@dataclass(frozen=True)
class _Question:
    """What was asked, and the numbers that stand for those left open: one epsilon, one alpha and one number of records."""

    concept: ConceptClass | VC1Tree
    planned: Plan | InversePlan
    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    n_users: int | None
    records: int
    neighbours: Neighbours | str
    noise: Rational | None
    setting: str | None
    delta: Rational

    def plan(self, *, epsilon: Fraction | None = None, alpha: Fraction | None = None, records: Iterable[int] | None = None) -> Plan:
        """The plan of these numbers, with some of them changed."""
        if isinstance(self.concept, VC1Tree):
            spent = {"epsilon": epsilon or self.epsilon, "delta": self.delta, "alpha": alpha or self.alpha, "beta": self.beta}
            sizes = records or self.records
            return plan_of_tree(self.concept, records_per_user=sizes, neighbours=self.neighbours, simple=False, **spent)
        found: Plan = ask(
            self.concept,
            epsilon=epsilon or self.epsilon,
            alpha=alpha or self.alpha,
            beta=self.beta,
            records_per_user=records or self.records,
            neighbours=self.neighbours,
            noise=self.noise,
            setting=self.setting,
        )
        return found

    @property
    def holding(self) -> str:
        return f"{self.records:,} record{'' if self.records == 1 else 's'} each"

    @property
    def on_a_line(self) -> bool:
        return isinstance(self.concept, Thresholds) and self.concept.direction != "both"


def plan_html(
    concept: ConceptClass | VC1Tree,
    *,
    epsilon: Rational | None = None,
    alpha: Rational | None = None,
    beta: Rational = "0.05",
    n_users: int | None = None,
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    noise: Rational | None = None,
    setting: str | None = None,
    delta: Rational = 0,
    planned: Plan | InversePlan | None = None,
) -> str:
    """The page for one question to :func:`privpac.plan`, as one HTML text; ``planned`` is its answer, if it is there already.

    Curves vary one number at a time; the others are those asked for, alpha 0.05 where the question was which alpha, the epsilon found
    where the question was which epsilon, and the middle one of the numbers of records.
    """
    sizes = list(records_per_user) if isinstance(records_per_user, Iterable) else records_per_user
    if planned is None:
        planned = ask(
            concept,
            epsilon=epsilon,
            alpha=alpha,
            beta=beta,
            n_users=n_users,
            records_per_user=sizes,
            neighbours=neighbours,
            noise=noise,
            setting=setting,
            delta=delta,
        )
    place = len(planned.records_per_user) // 2
    eps = rational(epsilon, "epsilon") if epsilon is not None else _epsilon_found(planned, place)
    question = _Question(
        concept,
        planned,
        eps,
        rational("0.05" if alpha is None else alpha, "alpha"),
        rational(beta, "beta"),
        n_users,
        planned.records_per_user[place],
        neighbours,
        noise,
        setting,
        delta,
    )
    return _page(question)


def write_plan_report(path: str | os.PathLike[str], concept: ConceptClass | VC1Tree, **question: Any) -> Path:
    """Write the page of :func:`plan_html` to ``path``, whole or not at all."""
    return write_whole(plan_html(concept, **question).encode(), path)


def _epsilon_found(planned: Plan | InversePlan, place: int) -> Fraction:
    """The epsilon found for the default method, or the least one found, at the middle number of records; 1 where there is none."""
    rows = planned.rows if isinstance(planned, InversePlan) else ()
    found = {row.method: row.values[place] for row in rows if row.kind == "certified"}
    best = found["regret selection"] if "regret selection" in found else min((value for value in found.values() if value), default=None)
    return best or Fraction(1)


def _scaled(epsilon: Fraction, factors: Iterable[Fraction]) -> list[Fraction]:
    return [epsilon * factor for factor in factors if epsilon * factor <= MAX_EPSILON]


# The page


def _page(question: _Question) -> str:
    # A certificate of a tree takes a second: its curves have fewer points.
    slow = isinstance(question.concept, VC1Tree)
    sizes = {1, *question.planned.records_per_user, *(STANDARD_RECORDS[2:3] if slow else STANDARD_RECORDS)}
    by_records = question.plan(records=sorted(sizes))
    by_epsilon = [(e, question.plan(epsilon=e)) for e in _scaled(question.epsilon, _EPSILONS[1:6:2] if slow else _EPSILONS)]
    by_alpha = [(a, question.plan(alpha=a)) for a in sorted({*(_ALPHAS[2:10:3] if slow else _ALPHAS), question.alpha})]
    here = question.plan()
    choice, users = _choice(question, here)
    parts = [
        _head(question, choice, here),
        _answer(question.planned, here),
        _curves(question, by_records, by_epsilon, by_alpha),
        _cost(by_records),
    ]
    parts += [*_predicted(question, choice, users, by_alpha), _words()]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>Plan: how many people, at which epsilon</title><style>{_STYLE}</style></head>"
        f"<body><main>{chr(10).join(parts)}</main></body></html>\n"
    )


def _mine(rows: Iterable[Any], method: str) -> list[Any]:
    """The rows that certify the method: its own, and the one that knows a bound on the noise."""
    name = _ROWS.get(method, method)
    return [row for row in rows if row.method in (name, f"{name}, bounded noise")]


def _enough(plan: Plan, method: str) -> int | None:
    """The least number of users that the plan certifies for the method."""
    return min((row.n_users[0] for row in _mine(plan.rows, method) if row.n_users[0] is not None), default=None)


def _simulable(n: int, m: int) -> tuple[int, int]:
    """Users and records to simulate for so many: fewer records each where they would be too many."""
    users = min(n, _MOST_RECORDS)
    return users, min(m, max(2, _MOST_RECORDS // users))


def _choice(question: _Question, here: Plan) -> tuple[Choice, int | None]:
    """The recommendation, and the number of users it is made for: those there are, or else those certified."""
    method = "tree" if isinstance(question.concept, VC1Tree) else "realizable" if question.setting == "realizable" else "regret"
    users = question.n_users or _enough(here, method)
    within, m = (None, question.records) if users is None else _simulable(users, question.records)
    options: dict[str, Any] = {"epsilon": question.epsilon, "delta": question.delta, "neighbours": question.neighbours}
    options |= {"public_n_users": within, "records_per_user": m, "noise": question.noise}
    return choose_method(question.concept, setting=question.setting or "agnostic", **options), users


def _head(question: _Question, choice: Choice, here: Plan) -> str:
    title, answer = _headline(question, choice, _enough(here, choice.method))
    promise = f"epsilon {_short(question.epsilon)} per person, {question.neighbours!s}"
    return (
        f"<section><h1>How many people does a private rule need?</h1><div class='rule'>{title}</div>"
        f"<span class='promise'>{html.escape(promise)}</span><p>{answer}</p>"
        f"<p><b>Recommended method: {html.escape(choice.method)}</b>, because {html.escape(_because(choice.reason))}.</p></section>"
    )


def _headline(question: _Question, choice: Choice, n: int | None) -> tuple[str, str]:
    """What was asked, answered for the recommended method, and in which sense it is certified."""
    planned, holding = question.planned, question.holding
    sure = f"with probability {_short(1 - question.beta)}"
    wanted = f"excess error at most {_short(question.alpha)} {sure}"
    if isinstance(planned, Plan):
        if n is None:
            return f"Nothing is certified for people with {holding}", f"Asked for: {wanted}."
        return f"{n:,} people with {holding}", f"Certified to be enough for {wanted}."
    place = planned.records_per_user.index(question.records)
    value = min((row.values[place] for row in _mine(planned.rows, choice.method) if row.values[place] is not None), default=None)
    people = f"{question.n_users:,} people with {holding}"
    if value is None:
        return (
            f"Nothing is certified for {people}",
            f"The least {planned.quantity} was asked for; below, epsilon {_short(question.epsilon)}.",
        )
    if planned.quantity == "epsilon":
        return f"{people}: epsilon {_short(value)}", f"Certified to be enough for {wanted}."
    needed = f" For excess error {_short(question.alpha)} it takes {n:,} people." if n is not None else ""
    return f"{people}: excess error at most {_short(value)}", f"Certified to hold {sure}.{needed}"


def _because(reason: str) -> str:
    """The reason as the end of a sentence."""
    if reason.startswith("predicted"):
        return f"a simulation says so (not a certificate): {reason}"
    if reason.startswith("no prediction"):
        return f"it is the default, with {reason}"
    return f"it is {reason}" if reason.startswith("the default") else reason


def _answer(planned: Plan | InversePlan, here: Plan) -> str:
    """The plan itself, as on the terminal, and what its rows assume."""
    names = {"alpha": "excess error at most", "beta": "failure probability at most"}
    target = ", ".join(f"{names.get(name, name)} {value}" for name, value in planned.target.items())
    if isinstance(planned, Plan):
        title = "Users needed"
        rows = [(row.method, row.kind, ["–" if n is None else f"{n:,}" for n in row.n_users]) for row in planned.rows]
    else:
        title = f"The least {planned.quantity} that can be promised"
        rows = [(row.method, row.kind, ["–" if v is None else f"{float(v):.3g}" for v in row.values]) for row in planned.rows]
    rests = planned if isinstance(planned, Plan) else here
    words = "".join(f"<li>{html.escape(row.words())}</li>" for row in rests.rows)
    return (
        f"<section><h2>{title}: certified</h2><p class='quiet'>{html.escape(target)}. – : nothing is certified.</p>"
        f"{_grid('records per user', [f'{m:,}' for m in planned.records_per_user], rows)}<ul class='quiet'>{words}</ul></section>"
    )


def _grid(corner: str, head: Sequence[str], rows: Iterable[tuple[str, str, Sequence[str]]]) -> str:
    body = ""
    for method, kind, cells in rows:
        mark = "" if kind == "certified" else f" <span class='quiet'>({html.escape(kind)})</span>"
        body += f"<tr><td>{html.escape(method)}{mark}</td>{''.join(f'<td class=n>{cell}</td>' for cell in cells)}</tr>"
    top = "".join(f"<th class='n'>{cell}</th>" for cell in head)
    return f"<div class='scroll'><table><tr><th>{corner}</th>{top}</tr>{body}</table></div>"


# Curves


def _curves(
    question: _Question, by_records: Plan, by_epsilon: Sequence[tuple[Fraction, Plan]], by_alpha: Sequence[tuple[Fraction, Plan]]
) -> str:
    eps, alpha, holding = _short(question.epsilon), _short(question.alpha), question.holding
    asked = float(question.epsilon)
    first = _lines(by_epsilon, lambda x, n: (x, n), "epsilon", "users needed", [float(e) for e, _ in by_epsilon], asked)
    second = _lines(by_alpha, lambda x, n: (n, x), "users", "certified excess error (alpha)", _TICKS, question.n_users, swap=True)
    return (
        "<section><h2>What moves the numbers: certified</h2><p class='quiet'>Dashed: with fewer no private learner succeeds under the "
        "assumption named for it. Dotted: what you asked for. Colours mean the same method in all three pictures.</p>"
        f"<p>More records per person (epsilon {eps}, alpha {alpha})</p>"
        f"{plan_picture(by_records)}<p>More privacy loss ({holding}, alpha {alpha})</p>{first}"
        f"<p>More people (epsilon {eps}, {holding})</p>{second}</section>"
    )


def _lines(
    plans: Sequence[tuple[Fraction, Plan]],
    point: Callable[[float, float], tuple[float, float]],
    across: str,
    up: str,
    ticks: Sequence[float],
    here: float | None,
    *,
    swap: bool = False,
) -> str:
    """One line for each method through ``point(value, users)``; ``here`` is marked. ``swap``: the ticks are those of the other axis."""
    figure, axes = _figure(2.6)
    for i, row in enumerate(plans[0][1].rows):
        found = [(value, plan.rows[i].n_users[0]) for value, plan in plans]
        points = [point(float(value), float(n)) for value, n in found if n]
        if points:
            style: dict[str, Any] = {"color": LINES[i % len(LINES)]} if row.kind == "certified" else {"linestyle": "--", "color": QUIET}
            axes.plot(*zip(*points), marker="o", markersize=3.5, linewidth=1.6, **style)
    if here is not None:
        axes.axvline(here, color=INK, linewidth=1, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    (axes.set_yticks if swap else axes.set_xticks)(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return _svg(figure, f"{up} against {across}, one line for each method")


# What more records are worth


def _cost(by_records: Plan) -> str:
    """Records in all against one record per user: the price of asking few people much instead of many people little."""
    sizes = by_records.records_per_user
    rows = []
    for row in by_records.rows:
        alone = row.n_users[sizes.index(1)]
        cells = ["–" if n is None or not alone else f"{n * m / alone:.2g}×" for m, n in zip(sizes, row.n_users)]
        if row.kind == "certified":
            rows.append((row.method, row.kind, cells))
    return (
        "<section><h2>What a record costs: certified</h2><p class='quiet'>Users times records per user, against one record per user. 1×: "
        "a further record of the same person is worth as much as one of somebody new. 10×: it takes ten times as many records in "
        f"all, be it from fewer people.</p>{_grid('records per user', [f'{m:,}' for m in sizes], rows)}</section>"
    )


# What is predicted


def _predicted(question: _Question, choice: Choice, users: int | None, by_alpha: Sequence[tuple[Fraction, Plan]]) -> list[str]:
    """Simulated excess errors for cut-offs, next to what is certified for the same numbers."""
    if not question.on_a_line or users is None or choice.method not in ("regret", "mean", "realizable"):
        return []
    noise = 0.0 if choice.method == "realizable" else DEFAULT_NOISE if question.noise is None else float(rational(question.noise, "noise"))
    rows = ""
    for n, m in sorted({_simulable(max(1, count), question.records) for count in (users // 4, users, 4 * users)}):
        found = _simulated(question, choice.method, n, m, noise)
        sure = [a for a, plan in by_alpha if (_enough(plan, choice.method) or n + 1) <= n]
        rows += (
            f"<tr><td class='n'>{n:,}</td><td class='n'>{m:,}</td><td class='n'>{found.excess:.2g} <span class='quiet'>± {found.error:.1g}"
            f"</span></td><td class='n'>{_short(min(sure)) if sure else '–'}</td></tr>"
        )
    model = f"x uniform, the best cut in the middle, labels wrong with probability {noise:g}"
    return [
        "<section><h2>What is likely: predicted, not certified</h2>"
        f"<p class='warn'>A simulation of one model: {html.escape(model)}. Your people may be harder. Promise the certified number; "
        "use this one to see how pessimistic it may be.</p>"
        "<div class='scroll'><table><tr><th class='n'>users</th><th class='n'>records each</th>"
        f"<th class='n'>predicted, {html.escape(choice.method)}</th><th class='n'>certified</th></tr>{rows}</table></div>"
        f"<p class='quiet'>Excess errors. Predicted: the mean ± its Monte-Carlo error. "
        f"Certified: the least alpha of the curve above, for {question.holding}. Large "
        "tables are simulated with fewer records or users.</p></section>"
    ]


def _simulated(question: _Question, method: str, n: int, m: int, noise: float) -> Prediction:
    if method == "realizable":
        learner: Any = RealizableSelection(Thresholds(), question.epsilon, question.neighbours)  # type: ignore[arg-type]
    else:
        learner = RegretSelection(Thresholds(), question.epsilon, question.neighbours, public_n_users=n, statistic=method)  # type: ignore[arg-type]
    return predict_excess(learner, n_users=n, records_per_user=m, noise=noise, repeats=_REPEATS)


def _words() -> str:
    return (
        "<p class='quiet'>Excess error: how much more often the released rule is wrong than the best rule of its class. Certified: proved "
        "for every law that the assumption allows. Nothing on this page depends on data: it may be made, shown and shared freely.</p>"
    )


def _short(value: Fraction) -> str:
    return f"{float(value):.4g}"
