"""One self-contained HTML page about one comparison, and its picture.

Unlike the other reports this one shows measured errors: it is made from public tables and generated people only, and
says so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from privpac.errors import ParameterError
from privpac.lazy import need
from privpac.planning.comparison import Comparison, Measured
from privpac.protocols.demo import Demo, DemoRow
from privpac.report.pages import page, write_page
from privpac.report.plots import INK, LINES, QUIET, figure_of, plain_name, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEAST = 1e-4
"""Excess below this is drawn at this height: logarithmic axes have no zero."""


# The picture


def comparison_picture(found: Comparison) -> Markup:
    """Excess error of every method as SVG text: bars for one setting, lines against users or epsilon for several."""
    return svg(_drawn(found), f"excess error of {len(found.methods)} methods on {found.population}")


def _drawn(found: Comparison) -> Figure:
    with need("matplotlib", "a picture").rc_context({"font.size": 10}):
        if len(found.rows) == len(found.methods):
            return _bars(found.rows)
        # Users on the axis where several were asked for, one panel for each epsilon; else epsilon on the axis.
        by_users = len(found.n_users) > 1
        panels = found.epsilons if by_users else [str(found.n_users[0])]
        figure: Figure = need("matplotlib.figure").Figure(figsize=(4.8, 3.0 * len(panels)))
        for axes, panel in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels):
            _lines(axes, found, panel if by_users else None)
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.22), handlelength=1.6)
        figure.subplots_adjust(hspace=0.4)
        return figure


def _bars(rows: Sequence[Measured]) -> Figure:
    figure: Figure = need("matplotlib.figure").Figure(figsize=(4.8, 0.6 + 0.3 * len(rows)))
    axes = figure.subplots()
    places = range(len(rows) - 1, -1, -1)
    axes.barh(
        places,
        [max(row.excess, 0.0) for row in rows],
        xerr=[row.spread or 0.0 for row in rows],
        color=LINES[0],
        ecolor=QUIET,
        height=0.6,
    )
    axes.set_yticks(places, [plain_name(row.method) for row in rows])
    axes.set_xlabel(f"excess error, epsilon {rows[0].epsilon}, {rows[0].n_users:,} users")
    _plain_frame(axes)
    return figure


def _lines(axes: Axes, found: Comparison, epsilon: str | None) -> None:
    for i, method in enumerate(found.methods):
        mine = [row for row in found.rows if row.method == method and epsilon in (None, row.epsilon)]
        # From left to right, in whatever order they were asked for.
        rows = sorted(mine, key=lambda row: float(row.n_users) if epsilon is not None else _number(row.epsilon))
        x = [float(row.n_users) if epsilon is not None else _number(row.epsilon) for row in rows]
        unprotected = "not private" in rows[0].promise
        style: dict[str, Any] = (
            {"linestyle": ("--", ":")[i % 2], "color": QUIET} if unprotected else {"color": LINES[i % len(LINES)]}
        )
        marker = "osd^vP*X<>"[(i // len(LINES)) % 10]
        axes.plot(
            x,
            [max(row.excess, _LEAST) for row in rows],
            marker=marker,
            markersize=3.5,
            linewidth=1.4,
            label=plain_name(method),
            **style,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.minorticks_off()
    ticks = [float(n) for n in found.n_users] if epsilon is not None else [_number(e) for e in found.epsilons]
    axes.set_xticks(ticks, [f"{n:,}" for n in found.n_users] if epsilon is not None else list(found.epsilons))
    axes.set_xlabel(f"users (epsilon {epsilon})" if epsilon is not None else f"epsilon ({found.n_users[0]:,} users)")
    axes.set_ylabel("excess error")
    _plain_frame(axes)


def _number(epsilon: str) -> float:
    top, _, bottom = epsilon.partition("/")
    return float(top) / float(bottom or 1)


def _plain_frame(axes: Axes) -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


# The page


def comparison_html(found: Comparison) -> str:
    """The report as one HTML text."""
    pairs = [(epsilon, n) for epsilon in found.epsilons for n in found.n_users]
    facts = [
        ("people", found.population),
        ("least error of any rule of the class", f"{found.best_error:.4f}"),
        ('error of the better of "always" and "never"', f"{found.constant_error:.4f}"),
        ("neighbours", found.neighbours),
        ("data sets drawn for each number of users", found.draws),
    ]
    return page(
        "comparison.html",
        found=found,
        picture=comparison_picture(found),
        pairs=[(epsilon, f"{n:,}") for epsilon, n in pairs],
        rows=[(method, [_cell(found.of(method, *pair)) for pair in pairs]) for method in found.methods],
        facts=facts,
        promises=[(method, f"{found.about[method]}; {_first(found, method).promise}") for method in found.methods],
    )


def _first(found: Comparison, method: str) -> Measured:
    return next(row for row in found.rows if row.method == method)


def _cell(row: Measured) -> tuple[str, str]:
    """Excess error and its spread, which is empty where nothing was drawn."""
    return f"{row.excess:.4f}", "" if row.spread is None else f"{row.spread:.4f}"


# Files


def write_comparison(found: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the page to ``path``, whole or not at all."""
    return write_page(comparison_html(found), path)


def write_comparison_plot(found: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the picture to ``path``: ``.png`` or ``.svg``."""
    kind = Path(path).suffix.lower()
    if kind == ".svg":
        return write_page(comparison_picture(found), path)
    if kind != ".png":
        raise ParameterError(f"a picture is written as .png or .svg, got {str(path)!r}")
    figure, out = _drawn(found), BytesIO()
    need("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    figure.savefig(out, format="png", dpi=150, bbox_inches="tight", metadata={"Software": None})
    return write_page(out.getvalue(), path)


# One self-contained HTML file about a demonstration of the protocols: made-up people, three models and a table.


_NAMES = {"local": "local", "shuffle": "shuffled", "central": "central", "one table": "one table"}


def demo_html(demo: Demo) -> str:
    """The page as one HTML text."""
    pictures = [(row.model, _seen(demo, row)) for row in demo.rows if row.seen]
    return page("protocol.html", demo=demo, names=_NAMES, pictures=pictures, bars=_needed(demo))


def write_demo_report(demo: Demo, path: str | os.PathLike[str]) -> Path:
    """Write the page."""
    return write_page(demo_html(demo), path)


def _seen(demo: Demo, row: DemoRow) -> Markup:
    """What the analyzer saw of every cut, over what people said."""
    figure, axes = figure_of(2.1)
    axes.bar(range(len(demo.votes)), demo.votes, width=1.6, color=LINES[1], alpha=0.55, label="what people named")
    axes.plot(range(len(row.seen)), row.seen, color=LINES[0], linewidth=1.1, label="what the analyzer saw")
    axes.set_xlabel("cut-off")
    axes.set_ylabel("people")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return svg(figure, f"{row.model}: counts seen by the analyzer over the votes")


def _needed(demo: Demo) -> Markup:
    rows = [row for row in demo.rows if row.needed]
    figure, axes = figure_of(0.45 * len(rows) + 0.5)
    places = list(range(len(rows)))[::-1]
    axes.barh(places, [row.needed or 0 for row in rows], color=LINES[0], height=0.6)
    axes.axvline(demo.people, color=INK, linewidth=1, linestyle=":")
    axes.set_yticks(places, [_NAMES[row.model] for row in rows])
    axes.set_xlabel("people needed, certified (dotted: people here)")
    for place, row in zip(places, rows):
        axes.annotate(f" {row.needed}", (row.needed or 0, place), va="center", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return svg(figure, "people needed in each model")
