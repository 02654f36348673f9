"""Pictures for reports, as SVG text.  They show the released rule over its declared domain and plans from public
numbers only."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from io import StringIO
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from privpac.arrays import Codes
from privpac.data import Domain
from privpac.data.domains import values_of
from privpac.lazy import need
from privpac.planning import Plan
from privpac.report.pages import standing
from privpac.rules.base import Rule
from privpac.rules.scorecards import Scorecard
from privpac.rules.wide_columns import BinnedColumn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

YES, NO, INK, QUIET = "#0b6e4f", "#e3e7ea", "#24292f", "#8a949e"
LINES = ("#1f6fb2", "#c2571a", "#0b6e4f", "#7a4fa3", "#a3160a", "#b3197a")
WIDTH = 4.8
POINTS = 601


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


def figure_of(height: float) -> tuple[Figure, Axes]:
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
    if len(reads) == 3:
        return _maps(rule, reads)
    figure, axes = figure_of(3.4)
    _draw_map(axes, rule, reads, {})
    return figure


def _edges(rule: Rule, column: str) -> list[int]:
    """The codes around those at which the rule changes."""
    return [edge + step for edge in rule.edges(column) for step in (-1, 0, 1)]


def _extreme(rule: Rule, column: str) -> bool:
    domain = values_of(rule.features[column])
    low, high = domain.value_range()
    return not domain.bounded and any(
        abs(domain.value(min(max(edge, low), high))) > 1e300 for edge in _edges(rule, column)
    )


def codes_to_draw(domain: Domain, edges: Sequence[int], points: int) -> Codes:
    """Codes to draw: all of a small domain, else evenly spaced ones and those around the rule's own edges."""
    low, high = domain.value_range()
    inside = [code for code in edges if low <= code <= high]
    if high - low < points:
        return np.array([low + i for i in range(high - low + 1)], dtype=np.uint64)
    return np.array(sorted({*domain.drawn(inside, points), *inside}), dtype=np.uint64)


def places(domain: Domain, codes: Codes) -> NDArray[np.float64]:
    """Where codes stand on an axis: numbers at their value, dates at their day, names in their order."""
    return domain.places(codes)


def borders(at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half-way points between neighbours: every code gets a cell."""
    if len(at) == 1:
        return np.array([at[0] - 0.5, at[0] + 0.5])
    middle = at[:-1] / 2 + at[1:] / 2
    return np.concatenate([[1.5 * at[0] - 0.5 * at[1]], middle, [1.5 * at[-1] - 0.5 * at[-2]]])


def ticks(axis: Axis, domain: Domain, codes: Codes, most: int) -> None:
    """Names and dates instead of positions."""
    if domain.numeric:
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
    axes.spines[["top", "left", "right"]].set_visible(False)
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


def _draw_map(axes: Axes, rule: Rule, reads: Mapping[str, Domain], fixed: Mapping[str, int]) -> None:
    """Where the rule says 1 over two columns, with the others fixed."""
    (first, a), (second, b) = reads.items()
    xs, ys = (codes_to_draw(domain, _edges(rule, name), POINTS // 4) for name, domain in reads.items())
    _paint(axes, rule, {first: (a, xs), second: (b, ys)}, fixed)
    axes.set_xlabel(plain_name(first))
    axes.set_ylabel(plain_name(second))
    ticks(axes.xaxis, a, xs, 4)
    ticks(axes.yaxis, b, ys, 6)
    axes.spines[["top", "right"]].set_visible(False)


def _paint(axes: Axes, rule: Rule, plane: Mapping[str, tuple[Domain, Codes]], fixed: Mapping[str, int]) -> None:
    """What the rule says on the codes of two columns, with the others fixed."""
    (first, (a, xs)), (second, (b, ys)) = plane.items()
    grid_x, grid_y = np.meshgrid(xs, ys)
    codes = {name: np.full(grid_x.size, code, np.uint64) for name, code in fixed.items()}
    labels = rule.predict_codes(codes | {first: grid_x.ravel(), second: grid_y.ravel()}).reshape(grid_x.shape)
    edges = borders(places(a, xs)), borders(places(b, ys))
    colours = need("matplotlib.colors").ListedColormap([NO, YES])
    axes.pcolormesh(*edges, labels, cmap=colours, vmin=0, vmax=1, shading="flat", rasterized=True)


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
    axes.spines[["top", "right"]].set_visible(False)
    return svg(figure, "users needed for each number of records per user")


# The picture of a scorecard: a strip for each column, its answers from left to right, darker where they give more
# points.


_ROW, _BAR = 0.5, 0.42
_MISSING = 0.09
"""The width of the box of missing values, beside a strip of width 1."""
_MOST_ROWS = 60
_FEW = 8
_LETTER = 0.021
"""About the width of a letter below a strip."""


@cache
def _shades() -> Colormap:
    shades: Colormap = need("matplotlib.colors").LinearSegmentedColormap.from_list("points", [NO, YES])
    return shades


def scorecards_of(rule: Any) -> list[dict[str, object]]:
    """What a page shows of a scorecard, or of each of several; nothing of other rules and of constants."""
    if getattr(rule, "picture", "") != "scorecard":
        return []
    return [
        {
            "label": scorecard.label,
            "threshold": scorecard.threshold,
            "most": scorecard.most,
            "picture": svg(scorecard_figure(scorecard), str(scorecard)) if scorecard.table else "",
            "lines": scorecard.table,
            "idle": scorecard.idle,
            "calibration": scorecard.calibration_words() if scorecard.calibration else (),
        }
        for scorecard in rule.scorecards
    ]


def scorecard_figure(scorecard: Scorecard) -> Figure:
    """All columns whose answers differ in points, up to a page of them."""
    shown = [
        (column, points)
        for column, points in zip(scorecard.columns, scorecard.points)
        if column.name in scorecard.reads
    ][:_MOST_ROWS]
    figure, axes = figure_of(_ROW * len(shown) + 0.3)
    for row, (column, points) in enumerate(shown):
        y = -float(row)
        axes.text(-0.02, y + _BAR / 2, plain_name(column.name, 18), ha="right", va="center", fontsize=9, color=INK)
        _strip(axes, column, points, y, scorecard.top)
    axes.set_xlim(-0.02, 1.02 + _MISSING)
    axes.set_ylim(-len(shown) + 0.55, 1 - 0.4)
    axes.axis("off")
    return figure


def _strip(axes: Axes, column: BinnedColumn, points: tuple[int, ...], y: float, top: int) -> None:
    """One column: neighbouring bins with the same points are one box."""
    whole, named, last = column.width if column.is_category else column.bins, _named(column), -1.0
    key = (lambda b: b) if named else (lambda b: points[b])
    for _, run in groupby(range(whole), key=key):
        bins = list(run)
        left, right = bins[0] / whole, (bins[-1] + 1) / whole
        _box(axes, left, right, y, points[bins[0]], top)
        name = _answer(column, bins[-1])
        wide = len(name) * _LETTER
        at = (left + right) / 2 if named else right
        if name and at - wide / 2 > last:  # names that would run into each other are left out; the table has all
            axes.text(at, y - 0.05, plain_name(name, 12), ha="center", va="top", fontsize=6.5, color=QUIET)
            last = at + wide / 2
    if column.has_missing and not column.is_category:
        _box(axes, 1.02, 1.02 + _MISSING, y, points[-1], top)
        axes.text(1.02 + _MISSING / 2, y - 0.05, "missing", ha="center", va="top", fontsize=6.5, color=QUIET)


def _named(column: BinnedColumn) -> bool:
    """Whether every box is one value: a category, or one of a few numbers."""
    return column.is_category or column.bins == values_of(column.domain).size <= _FEW


def _answer(column: BinnedColumn, last: int) -> str:
    """What stands below a box: its value, or the cut at its end."""
    domain = values_of(column.domain)
    if _named(column):
        return domain.text(last) if last < column.bins else "missing"
    return domain.text(column.edges[last] - 1) if last < column.bins - 1 else ""


def _box(axes: Axes, left: float, right: float, y: float, points: int, top: int) -> None:
    shade = points / top
    style = {"facecolor": _shades()(shade), "edgecolor": "white", "linewidth": 0.8}
    axes.add_patch(need("matplotlib.patches").Rectangle((left, y), right - left, _BAR, **style))
    if right - left > 0.03:
        colour = "white" if shade > 0.45 else INK
        axes.text((left + right) / 2, y + _BAR / 2, str(points), ha="center", va="center", fontsize=7.5, color=colour)


# A weighted sum of three or more columns as a picture: how far each column moves the sum, and slices of the rule.
#
# The bars say how much of the sum's whole range a column can move, from its least to its greatest declared value, and
# which way.  The slices are maps over the two columns that move most, with the third at its least, middle and greatest
# value and all others in the middle of their domains: public numbers only.


_SLICE_ROW = 0.34
_MOST_BARS = 16
_AGAINST = "#c2571a"


def weights_figure(rule: Rule) -> Figure:
    """Bars of all weighted columns above three slices."""
    pulls = dict(sorted(rule.pulls.items(), key=lambda item: -abs(item[1])))
    shown = dict(list(pulls.items())[:_MOST_BARS])
    high = _SLICE_ROW * len(shown) + 0.55
    drawing = need("matplotlib.figure", "a picture")
    figure: Figure = drawing.Figure(figsize=(WIDTH * 1.25, high + 2.3), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[high, 2.3])
    _bars(parts[0].subplots(), shown, sum(map(abs, pulls.values())), plain_name(rule.label, 20))
    x, y, z = list(pulls)[:3]
    domain = rule.features[z]
    low, top = domain.value_range()
    panels = parts[1].subplots(1, 3, sharey=True)
    for axes, at in zip(panels, (low, (low + top) // 2, top)):
        _slice(axes, rule, (x, y), {z: at})
        axes.set_title(f"{plain_name(z, 12)} = {plain_name(domain.text(at), 10)}", fontsize=9)
    panels[0].set_ylabel(plain_name(y, 24), fontsize=9)
    panels[1].set_xlabel(plain_name(x), fontsize=9)
    return figure


def _bars(axes: Axes, pulls: dict[str, float], whole: float, label: str) -> None:
    names = list(reversed(pulls))
    shares = [pulls[name] / whole for name in names]
    axes.barh(range(len(names)), shares, color=[YES if share > 0 else _AGAINST for share in shares], height=0.62)
    axes.set_yticks(range(len(names)), [plain_name(name, 24) for name in names], fontsize=9)
    axes.axvline(0, color=QUIET, linewidth=0.8)
    reach = max(map(abs, shares)) * 1.12
    axes.set_xlim(-reach if min(shares) < 0 else 0, reach if max(shares) > 0 else 0)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * abs(share):.0f} %")
    axes.set_xlabel(
        f"share of the sum that the column can move; right: towards {label}, left: away from it", fontsize=8
    )
    axes.tick_params(axis="both", length=0, labelsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _slice(axes: Axes, rule: Rule, plane: tuple[str, str], fixed: dict[str, int]) -> None:
    domains: dict[str, Domain] = {name: rule.features[name] for name in rule.reads}
    shown = {name: (domains[name], codes_to_draw(domains[name], (), POINTS // 6)) for name in plane}
    _paint(axes, rule, shown, {name: sum(domain.value_range()) // 2 for name, domain in domains.items()} | fixed)
    axes.tick_params(labelsize=8)
    for axis, name, most in ((axes.xaxis, plane[0], 2), (axes.yaxis, plane[1], 4)):
        ticks(axis, *shown[name], most)


# A small tree as a picture: questions in boxes, answers on the lines, labels in the leaves.


_LONGEST = 34
_SIDES = ("yes", "no")


class AskingRule(Protocol):
    """A rule that asks questions: the first one, and of each side its label, or its question and two labels."""

    @property
    def drawn(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def label_text(self, label: int) -> str: ...

    def condition(self) -> str: ...


def questions_figure(rule: AskingRule) -> Figure:
    """The tree from the first question down."""
    root, yes, no = rule.drawn
    positive = "" if rule.names else rule.label_text(1)
    deep = max(len(yes), len(no)) > 1
    figure, axes = figure_of(2.3 if deep else 1.5)
    figure.set_size_inches(WIDTH * 1.35, figure.get_size_inches()[1])
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.12 if deep else 0.35, 1.08)
    _tree_box(axes, 0.5, 1.0, root, None)

    def leaf(x: float, y: float, label: str) -> None:
        _tree_box(axes, x, y, label, label == positive)

    for x, side, answer in ((0.25, yes, "yes"), (0.75, no, "no")):
        _line(axes, (0.5, 1.0), (x, 0.5), answer)
        if len(side) == 1:
            leaf(x, 0.5, side[0])
            continue
        _tree_box(axes, x, 0.5, side[0], None)
        for at, label, inner in zip((x - 0.125, x + 0.125), side[1:], _SIDES):
            _line(axes, (x, 0.5), (at, 0.0), inner)
            leaf(at, 0.0, label)
    return figure


def _tree_box(axes: Axes, x: float, y: float, text: str, positive: bool | None) -> None:
    """A question (``positive`` None), or a leaf in the colour of its label."""
    shown = plain_name(text, _LONGEST)
    colour = "white" if positive is None else YES if positive else NO
    axes.text(
        x,
        y,
        shown,
        ha="center",
        va="center",
        fontsize=9,
        color="white" if positive else INK,
        fontweight="normal" if positive is None else "bold",
        zorder=3,
        bbox={
            "boxstyle": "round,pad=0.45" if positive is not None else "square,pad=0.45",
            "facecolor": colour,
            "edgecolor": QUIET,
        },
    )


def _line(axes: Axes, start: tuple[float, float], end: tuple[float, float], answer: str) -> None:
    axes.plot([start[0], end[0]], [start[1], end[1]], color=QUIET, linewidth=1, zorder=1)
    axes.text(
        (start[0] + end[0]) / 2,
        (start[1] + end[1]) / 2,
        answer,
        fontsize=8,
        color=QUIET,
        ha="center",
        va="center",
        zorder=2,
        bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"},
    )
