"""A weighted sum of three or more columns as a picture: how far each column moves the sum, and slices of the rule.

The bars say how much of the sum's whole range a column can move, from its least to its greatest declared value, and
which way.  The slices are maps over the two columns that move most, with the third at its least, middle and greatest
value and all others in the middle of their domains: public numbers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privpac.concepts.base import Rule
from privpac.data import Domain
from privpac.lazy import need
from privpac.report.plots import NO, POINTS, QUIET, WIDTH, YES, borders, codes_to_draw, places, plain_name, ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["weights_figure"]

_ROW = 0.34
_MOST_BARS = 16
_AGAINST = "#c2571a"


def weights_figure(rule: Rule) -> Figure:
    """Bars of all weighted columns above three slices."""
    pulls = dict(sorted(rule.pulls.items(), key=lambda item: -abs(item[1])))
    shown = dict(list(pulls.items())[:_MOST_BARS])
    high = _ROW * len(shown) + 0.55
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


def _bars(axes: Any, pulls: dict[str, float], whole: float, label: str) -> None:
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
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _slice(axes: Any, rule: Rule, plane: tuple[str, str], fixed: dict[str, int]) -> None:
    domains: dict[str, Domain] = {name: rule.features[name] for name in rule.reads}
    xs, ys = (codes_to_draw(domains[name], (), POINTS // 6) for name in plane)
    grid_x, grid_y = np.meshgrid(xs, ys)
    rest = {name: sum(domain.value_range()) // 2 for name, domain in domains.items()} | fixed
    codes = {name: np.full(grid_x.size, code, dtype=np.uint64) for name, code in rest.items()}
    said = rule.predict_codes(codes | {plane[0]: grid_x.ravel(), plane[1]: grid_y.ravel()}).reshape(grid_x.shape)
    axes.pcolormesh(
        borders(places(domains[plane[0]], xs)),
        borders(places(domains[plane[1]], ys)),
        said,
        cmap=need("matplotlib.colors").ListedColormap([NO, YES]),
        vmin=0,
        vmax=1,
        shading="flat",
        rasterized=True,
    )
    axes.tick_params(labelsize=8)
    ticks(axes.xaxis, domains[plane[0]], xs, 2)
    ticks(axes.yaxis, domains[plane[1]], ys, 4)
