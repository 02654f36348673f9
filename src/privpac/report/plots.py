"""Pictures for reports, as SVG text.  They show the released rule over its declared domain and plans from public numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib.figure import Figure

from privpac.concepts.base import Rule
from privpac.data import Domain
from privpac.planning import Plan

__all__ = ["plan_picture", "rule_picture"]

YES, NO, INK = "#0b6e4f", "#e3e7ea", "#24292f"
POINTS = 801


def _svg(figure: Figure) -> str:
    out = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "privpac", "font.size": 10}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    text = out.getvalue()
    return text[text.index("<svg") :]


def _axis(domain: Domain, around: int | None) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Codes to draw: the whole declared domain if it has few values, else a window around the rule's own cut."""
    low, high = domain.value_range()
    if high - low < POINTS:
        return np.array([low + i for i in range(high - low + 1)], dtype=np.uint64)
    if getattr(domain, "kind", "") == "floats":
        centre = domain.value(min(max(around if around is not None else (low + high) // 2, low), high))
        reach = max(abs(float(centre)), 1.0)
        return domain.encode(np.linspace(float(centre) - reach, float(centre) + reach, POINTS))[0]
    return np.array([low + (high - low) * i // (POINTS - 1) for i in range(POINTS)], dtype=np.uint64)


def _position(domain: Domain, codes: np.ndarray[Any, np.dtype[np.uint64]]) -> list[float]:
    values = [domain.value(int(code)) for code in codes]
    return [float(v) for v in values] if all(isinstance(v, (int, float)) or hasattr(v, "__float__") for v in values) else list(range(len(values)))


def rule_picture(rule: Rule) -> str:
    """Where the rule says 1, over the declared domains: a band for one column, a map for two; empty text otherwise."""
    features = dict(rule.features)
    cut = getattr(rule, "cut", None)
    if len(features) == 1:
        return _band(rule, features, cut)
    if len(features) == 2:
        return _map(rule, features, cut)
    return ""


def _band(rule: Rule, features: Mapping[str, Domain], cut: int | None) -> str:
    ((name, domain),) = features.items()
    codes = _axis(domain, cut)
    said, x = rule.predict_codes({name: codes}), _position(domain, codes)
    figure = Figure(figsize=(7.2, 1.5))
    axes = figure.subplots()
    axes.fill_between(x, 0, 1, color=NO, step="post", linewidth=0)
    axes.fill_between(x, 0, 1, where=list(said.astype(bool)), color=YES, step="post", linewidth=0)
    axes.set_yticks([])
    axes.set_xlabel(name)
    axes.set_xlim(min(x), max(x) if max(x) > min(x) else min(x) + 1)
    _labels(axes, domain, codes)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    return _svg(figure)


def _map(rule: Rule, features: Mapping[str, Domain], cut: int | None) -> str:
    (first, a), (second, b) = features.items()
    xs, ys = _axis(a, cut)[::4], _axis(b, cut)[::4]
    grid_x, grid_y = np.meshgrid(xs, ys)
    said = rule.predict_codes({first: grid_x.ravel(), second: grid_y.ravel()}).reshape(grid_x.shape)
    x, y = _position(a, xs), _position(b, ys)
    figure = Figure(figsize=(5.2, 4.2))
    axes = figure.subplots()
    axes.pcolormesh(x, y, said, cmap=matplotlib.colors.ListedColormap([NO, YES]), vmin=0, vmax=1, shading="nearest", rasterized=True)
    axes.set_xlabel(first)
    axes.set_ylabel(second)
    _labels(axes, a, xs)
    return _svg(figure)


def _labels(axes: Any, domain: Domain, codes: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
    """Names instead of positions where values are not numbers."""
    if not isinstance(domain.value(int(codes[0])), (int, float)) and not hasattr(domain.value(int(codes[0])), "__float__"):
        every = max(1, len(codes) // 8)
        axes.set_xticks(list(range(0, len(codes), every)), [domain.text(int(codes[i])) for i in range(0, len(codes), every)])


def plan_picture(plan: Plan) -> str:
    """Users needed against records per user, on logarithmic axes."""
    figure = Figure(figsize=(7.2, 3.6))
    axes = figure.subplots()
    for row in plan.rows:
        points = [(m, n) for m, n in zip(plan.records_per_user, row.n_users) if n]
        if points:
            style = {"linestyle": "--", "color": "#9aa4ad"} if row.kind != "certified" else {}
            axes.plot(*zip(*points), marker="o", markersize=4, label=f"{row.method} ({row.kind})", **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(plan.records_per_user, [str(m) for m in plan.records_per_user])
    axes.set_xlabel("records per user")
    axes.set_ylabel("users needed")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return _svg(figure)
