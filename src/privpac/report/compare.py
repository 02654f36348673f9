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

from privpac.errors import ParameterError
from privpac.lazy import need
from privpac.planning.comparison import Comparison, Measured
from privpac.report.pages import page, write_page
from privpac.report.plots import LINES, QUIET, Markup, plain_name, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["comparison_html", "comparison_picture", "write_comparison", "write_comparison_plot"]

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


def _lines(axes: Any, found: Comparison, epsilon: str | None) -> None:
    for i, method in enumerate(found.methods):
        mine = [row for row in found.rows if row.method == method and epsilon in (None, row.epsilon)]
        # From left to right, in whatever order they were asked for.
        rows = sorted(mine, key=lambda row: float(row.n_users) if epsilon is not None else _number(row.epsilon))
        x = [float(row.n_users) if epsilon is not None else _number(row.epsilon) for row in rows]
        unprotected = "not private" in rows[0].promise
        style = {"linestyle": ("--", ":")[i % 2], "color": QUIET} if unprotected else {"color": LINES[i % len(LINES)]}
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


def _plain_frame(axes: Any) -> None:
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


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
