"""Pictures for reports, as SVG text.  They show the released rule over its declared domain and plans from public
numbers only."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import date
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from privpac.concepts.base import Rule
from privpac.data import Domain
from privpac.data.missing import values_of
from privpac.lazy import need
from privpac.planning import Plan
from privpac.report.pages import standing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Markup",
    "borders",
    "codes_to_draw",
    "domain_figure",
    "figure_of",
    "places",
    "plain_name",
    "plan_picture",
    "svg",
    "ticks",
]

YES, NO, INK, QUIET = "#0b6e4f", "#e3e7ea", "#24292f", "#8a949e"
LINES = ("#1f6fb2", "#c2571a", "#0b6e4f", "#7a4fa3", "#a3160a", "#b3197a")
WIDTH = 4.8
POINTS = 601
Codes = NDArray[np.uint64]


def svg(figure: Figure, alt: str) -> Markup:
    """Text without metadata, dates or random ids: the same picture for the same input."""
    need("matplotlib.backends.backend_agg", "a picture").FigureCanvasAgg(figure)
    out = StringIO()
    style = {
        "svg.fonttype": "path",
        "svg.hashsalt": "privpac",
        "font.size": 10,
        "axes.edgecolor": QUIET,
        "text.color": INK,
    }
    with need("matplotlib").rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # of a name in a script the font lacks
        figure.savefig(
            out,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
            bbox_inches="tight",
        )
    text = out.getvalue()
    body = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    return Markup(body.replace("<svg ", f'<svg role="img" aria-label="{escape(standing(alt))}" ', 1))


def figure_of(height: float) -> tuple[Figure, Any]:
    with need("matplotlib", "a picture").rc_context({"font.size": 10}):
        figure: Figure = need("matplotlib.figure").Figure(figsize=(WIDTH, height))
        return figure, figure.subplots()


# The rule


def domain_figure(rule: Rule) -> Figure | None:
    """Where the rule says 1 over the columns it reads: a band for one, a map for two, for three a map at the least, a
    middle and the greatest value of the third.

    None for constants, for more columns, and for cuts among floats that no axis can hold.
    """
    reads = {name: values_of(rule.features[name]) for name in rule.reads}
    if rule.condition() in ("always", "never") or len(reads) > 3 or any(_extreme(rule, name) for name in reads):
        return None
    if len(reads) == 1:
        return _band(rule, *next(iter(reads.items())))
    return _map(rule, reads) if len(reads) == 2 else _maps(rule, reads)


def _edges(rule: Rule, column: str) -> list[int]:
    """The codes around those at which the rule changes."""
    return [edge + step for edge in rule.edges(column) for step in (-1, 0, 1)]


def _extreme(rule: Rule, column: str) -> bool:
    domain = values_of(rule.features[column])
    low, high = domain.value_range()
    return domain.kind == "floats" and any(
        abs(domain.value(min(max(edge, low), high))) > 1e300 for edge in _edges(rule, column)
    )


def codes_to_draw(domain: Domain, edges: Sequence[int], points: int) -> Codes:
    """Codes to draw: all of a small domain, else evenly spaced ones and those around the rule's own edges."""
    low, high = domain.value_range()
    inside = [code for code in edges if low <= code <= high]
    if high - low < points:
        return np.array([low + i for i in range(high - low + 1)], dtype=np.uint64)
    if domain.kind == "floats":
        # All floats do not fit one axis: a window around the rule's own edge, twice as wide as the edge is large.
        centre = float(domain.value(inside[len(inside) // 2])) if inside else 0.0
        reach = max(abs(centre), 1.0)
        window = np.linspace(centre - reach, centre + reach, points)
        codes = domain.encode(window, on_invalid="clamp")[0].tolist()
    else:
        codes = [low + (high - low) * i // (points - 1) for i in range(points)]
    return np.array(sorted({*codes, *inside}), dtype=np.uint64)


def places(domain: Domain, codes: Codes) -> NDArray[np.float64]:
    """Where codes stand on an axis: numbers at their value, dates at their day, names in their order."""
    if domain.kind == "categories":
        return codes.astype(np.float64)
    values = [domain.value(int(code)) for code in codes]
    return np.array([float(v.toordinal()) if isinstance(v, date) else float(v) for v in values])


def borders(at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half-way points between neighbours: every code gets a cell."""
    if len(at) == 1:
        return np.array([at[0] - 0.5, at[0] + 0.5])
    middle = at[:-1] / 2 + at[1:] / 2
    return np.concatenate([[1.5 * at[0] - 0.5 * at[1]], middle, [1.5 * at[-1] - 0.5 * at[-2]]])


def ticks(axis: Any, domain: Domain, codes: Codes, most: int) -> None:
    """Names and dates instead of positions."""
    if domain.kind not in ("categories", "dates"):
        return
    count = min(most, len(codes))
    chosen = [codes[i * (len(codes) - 1) // max(count - 1, 1)] for i in range(count)]
    shown = [plain_name(domain.text(int(code)), 14) for code in chosen]
    axis.set_ticks(places(domain, np.array(chosen, dtype=np.uint64)), shown)


def plain_name(name: str, most: int = 40) -> str:
    """A name on a picture: text, not a formula, and not too long."""
    text = standing(name)
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")


def _band(rule: Rule, name: str, domain: Domain) -> Figure:
    codes = codes_to_draw(domain, _edges(rule, name), POINTS)
    said = rule.predict_codes({name: codes}).astype(bool)
    edges = borders(places(domain, codes))
    left, right = float(edges[0]), float(edges[-1])
    figure, axes = figure_of(0.75)
    axes.axvspan(left, right, color=NO, linewidth=0)
    flips = np.flatnonzero(np.diff(np.concatenate([[False], said, [False]]).astype(np.int8)))
    least = (right - left) / 250  # a single value in a long domain must stay visible
    for start, stop in flips.reshape(-1, 2):
        a, b = float(edges[start]), float(edges[stop])
        axes.axvspan(a, max(b, a + least), color=YES, linewidth=0)
    axes.set_yticks([])
    axes.set_xlabel(plain_name(name))
    axes.set_xlim(left, right)
    ticks(axes.xaxis, domain, codes, 5)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    return figure


def _map(rule: Rule, reads: Mapping[str, Domain]) -> Figure:
    figure, axes = figure_of(3.4)
    _draw_map(axes, rule, reads, {})
    return figure


def _maps(rule: Rule, reads: Mapping[str, Domain]) -> Figure:
    """Maps of two columns side by side, each at one value of the column that has the fewest."""
    fixed = min(list(reads)[::-1], key=lambda name: reads[name].size)
    low, high = reads[fixed].value_range()
    at = sorted({low, (low + high) // 2, high})
    with need("matplotlib", "a picture").rc_context({"font.size": 10}):
        figure: Figure = need("matplotlib.figure").Figure(figsize=(WIDTH, 2.6), layout="constrained")
        panels = figure.subplots(1, len(at), sharey=True, squeeze=False)[0]
    for axes, code in zip(panels, at):
        _draw_map(axes, rule, {name: reads[name] for name in reads if name != fixed}, {fixed: code})
        axes.set_title(f"{plain_name(fixed, 20)} = {plain_name(reads[fixed].text(code), 14)}", fontsize=10)
        axes.label_outer()
    return figure


def _draw_map(axes: Any, rule: Rule, reads: Mapping[str, Domain], fixed: Mapping[str, int]) -> None:
    """Where the rule says 1 over two columns, with the others fixed."""
    (first, a), (second, b) = reads.items()
    xs, ys = codes_to_draw(a, _edges(rule, first), POINTS // 4), codes_to_draw(b, _edges(rule, second), POINTS // 4)
    grid_x, grid_y = np.meshgrid(xs, ys)
    known = {name: np.full(grid_x.size, code, np.uint64) for name, code in fixed.items()}
    said = rule.predict_codes({first: grid_x.ravel(), second: grid_y.ravel(), **known}).reshape(grid_x.shape)
    edges = borders(places(a, xs)), borders(places(b, ys))
    colours = need("matplotlib.colors").ListedColormap([NO, YES])
    axes.pcolormesh(*edges, said, cmap=colours, vmin=0, vmax=1, shading="flat", rasterized=True)
    axes.set_xlabel(plain_name(first))
    axes.set_ylabel(plain_name(second))
    ticks(axes.xaxis, a, xs, 4)
    ticks(axes.yaxis, b, ys, 6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


# The plan


def plan_picture(plan: Plan) -> Markup | str:
    """Users needed against records per user, on logarithmic axes; empty text if there is nothing to draw."""
    lines = [(row, [(m, n) for m, n in zip(plan.records_per_user, row.n_users) if n]) for row in plan.rows]
    if not any(points for _, points in lines) or len(plan.records_per_user) < 2:
        return ""
    figure, axes = figure_of(3.1)
    bounds = [row for row, _ in lines if row.kind != "certified"]
    for i, (row, points) in enumerate(lines):
        if points:
            bound = row.kind != "certified"
            style: dict[str, Any] = {"marker": "o", "color": LINES[i % len(LINES)]}
            if bound:  # all grey, each in its own way
                turn = next(j for j, other in enumerate(bounds) if other is row) % 4
                style = {"linestyle": ("--", ":", "-.", (0, (6, 3)))[turn], "marker": "s^vD"[turn], "color": QUIET}
            axes.plot(
                *zip(*points),
                markersize=3.5,
                linewidth=1.6,
                label=row.method + (" (lower bound)" if bound else ""),
                **style,
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_xticks(plan.records_per_user, [str(m) for m in plan.records_per_user])
    axes.set_xlabel("records per user")
    axes.set_ylabel("users needed")
    axes.grid(alpha=0.25)
    axes.legend(
        fontsize=10, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.18), handlelength=1.6, labelspacing=0.3
    )
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return svg(figure, "users needed for each number of records per user")
