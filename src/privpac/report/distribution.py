"""One self-contained HTML file about one released distribution, and its picture.

Everything in it is a function of the release, the declared candidates and public parameters: no record, count, range,
score or path of the table.  The window of the picture comes from the distributions drawn, never from data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen
from markupsafe import Markup

from privpac.arrays import Floats64
from privpac.data import Domain
from privpac.distributions.results import (
    DiscreteDistribution,
    FamilyDistribution,
    GaussianDistribution,
    HistogramDistribution,
    NamedCandidate,
    ProductDistribution,
    VocabularyDistribution,
)
from privpac.distributions.selection.selector import HypothesisSelector
from privpac.report.pages import WORDS, page, promise_section, release_facts, write_page
from privpac.report.plots import INK, LINES, NO, YES, figure_of, plain_name, svg
from privpac.result import Released

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEHIND = tuple(color for color in LINES if color != YES)
_MOST_NAMES = 24
_MOST_PANELS = 12
_POINTS = 400
_MOST = (0.002, 0.97)
_WORDS_HERE = WORDS | {
    "size": "members of the cover",
    "tau": "clip of a user's contribution, in records",
    "name": "selected",
    "candidate": "its place in the list",
    "candidates": "number of candidates",
    "candidates_are": "candidates are",
    "candidates_epsilon": "epsilon spent on the candidates before",
    "records_per_user": "records per user, as declared",
    "cover_radius": "radius of the cover, in total variation",
    "alpha": "total variation aimed at",
    "resolution": "steps of a probability",
    "stages": "stages of noisy counts",
}


# What there is to draw: one shape for each column


@frozen(slots=False, eq=False)
class Outline:
    """Heights over a column: bars with ``names``, steps between ``x`` edges, or a curve at ``x``."""

    column: str
    kind: str
    x: Floats64
    height: Floats64
    names: tuple[str, ...] = ()
    measured: str = "density"
    curve: Callable[[Floats64], Floats64] | None = None

    @property
    def window(self) -> tuple[float, float]:
        """The part of the axis that holds most of the mass: long tails would hide the rest."""
        if self.kind != "steps":
            return float(self.x[0]), float(self.x[-1])
        mass = np.cumsum(self.height * np.diff(self.x))
        first, last = np.searchsorted(mass, np.array(_MOST) * mass[-1])
        return float(self.x[first]), float(self.x[min(last + 1, len(self.x) - 1)])


def _shapes(found: object) -> list[Outline]:
    if isinstance(found, ProductDistribution):
        return [shape for part in found.parts for shape in _shapes(part)]
    if isinstance(found, GaussianDistribution):
        return [_bell(name, found.mean[i], found.covariance[i][i]) for i, name in enumerate(found.names)]
    if isinstance(found, HistogramDistribution):
        edges = np.array([float(edge) for edge in found.edges])
        return [Outline(found.feature, "steps", edges, found.probabilities / np.diff(edges))]
    if isinstance(found, FamilyDistribution):
        return [_family(found)]
    if isinstance(found, VocabularyDistribution):
        return [_most_held(found)]
    return (
        [_masses(found.feature, found.domain, found.probabilities)] if isinstance(found, DiscreteDistribution) else []
    )


def _most_held(found: VocabularyDistribution) -> Outline:
    """The values shown with the largest masses, and everything else in one bar."""
    kept = np.argsort(-found.probabilities, kind="stable")[: _MOST_NAMES - 1]
    masses = found.probabilities[kept]
    names = (*(found.name(int(place)) for place in kept), "all others")
    heights = np.append(masses, 1 - masses.sum())
    return Outline(found.feature, "bars", np.arange(len(names), dtype=float), heights, names)


def _bell(name: str, mean: float, variance: float) -> Outline:
    deviation = variance**0.5

    def height(x: Floats64) -> Floats64:
        return np.asarray(np.exp(-(((x - mean) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi)))

    return _curve(name, height, mean - 3.5 * deviation, mean + 3.5 * deviation)


def _family(found: FamilyDistribution) -> Outline:
    low, high = found._frozen.ppf(_MOST)
    if found.is_discrete:
        values = np.arange(low, min(high, low + 4096) + 1)
        return Outline(
            found.feature, "steps", np.append(values, values[-1] + 1) - 0.5, found.pmf(values), measured="probability"
        )
    return _curve(found.feature, found.pdf, low, high)


def _curve(name: str, height: Callable[[Floats64], Floats64], low: float, high: float) -> Outline:
    def finite(x: Floats64) -> Floats64:
        y = height(x)
        return np.where(np.isfinite(y), y, np.nan)

    x = np.linspace(low, high, _POINTS)
    return Outline(name, "curve", x, finite(x), curve=finite)


def _masses(feature: str, domain: Domain, masses: Floats64) -> Outline:
    if domain.stepped and len(masses) > 1:
        values = np.array([float(domain.value(code)) for code in range(domain.size)])
        step = (values[-1] - values[0]) / (len(values) - 1)
        return Outline(
            feature,
            "steps",
            np.append(values - step / 2, values[-1] + step / 2),
            masses / step,
            measured="probability" if step == 1 else "density",
        )
    order = (
        np.arange(len(masses))
        if not domain.listed or len(masses) <= _MOST_NAMES
        else np.argsort(-masses, kind="stable")
    )
    kept = order[:_MOST_NAMES] if domain.listed else order
    return Outline(
        feature, "bars", np.arange(float(len(kept))), masses[kept], tuple(domain.text(int(code)) for code in kept)
    )


# Drawing


def draw_distribution(
    axes: Axes, found: object, others: Mapping[str, object] | None = None, *, column: int = 0, name: str = ""
) -> None:
    """Draw one column of a distribution on matplotlib axes, other candidates as thin lines behind it."""
    shape = _shapes(found)[column]
    behind = [
        (label, _shapes(other)[column]) for label, other in (others or {}).items() if len(_shapes(other)) > column
    ]
    if shape.kind == "bars":
        _bars(axes, shape)
        return
    windows = [each.window for each in (shape, *(other for _, other in behind))]
    ends = min(low for low, _ in windows), max(high for _, high in windows)
    for i, (label, other) in enumerate(behind):
        _line(axes, other, ends, color=BEHIND[i % len(BEHIND)], linewidth=1.2, label=plain_name(label))
    if shape.kind == "steps":
        axes.stairs(shape.height, shape.x, fill=True, color=YES, alpha=0.25, linewidth=0)
    title = f"{plain_name(name)} (selected)" if others else plain_name(name) or None
    _line(axes, shape, ends, color=YES, linewidth=2.2, label=title)
    axes.set_xlim(*ends)
    # A density may be infinite at an end; the picture is cut where the others have long been drawn.
    tops = [
        float(np.nanquantile(each.height, 0.98) if each.kind == "curve" else each.height.max())
        for each in (shape, *(s for _, s in behind))
    ]
    axes.set_ylim(0, 1.1 * max(tops) or 1)
    _finish(axes, shape.column, shape.measured)
    if others:
        axes.legend(fontsize=9, frameon=False)


def _line(axes: Axes, shape: Outline, ends: tuple[float, float], **style: Any) -> None:
    if shape.curve is not None:
        x = np.linspace(*ends, _POINTS)
        axes.plot(x, shape.curve(x), **style)
    else:
        axes.stairs(shape.height, shape.x, baseline=0, **style)


def _bars(axes: Axes, shape: Outline) -> None:
    axes.bar(shape.x, shape.height, color=YES, width=0.75)
    count = len(shape.names)
    chosen = [i * (count - 1) // max(1, min(count, 12) - 1) for i in range(min(count, 12))]
    axes.set_xticks(
        chosen,
        [plain_name(shape.names[i], 14) for i in chosen],
        rotation=0 if count <= 5 else 45,
        ha="center" if count <= 5 else "right",
    )
    _finish(axes, shape.column, "probability")


def _finish(axes: Axes, column: str, height: str) -> None:
    axes.set_xlabel(plain_name(column))
    axes.set_ylabel(height)
    axes.tick_params(colors=INK)
    axes.grid(axis="y", color=NO, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def distribution_picture(
    found: object, others: Mapping[str, object] | None = None, *, column: int = 0, name: str = ""
) -> Markup | str:
    """SVG text of one column; empty for a candidate that is a function, which has no saved form."""
    figure = distribution_figure(found, others, column=column, name=name)
    return "" if figure is None else svg(figure, f"the released distribution of {_shapes(found)[column].column}")


def distribution_figure(
    found: object, others: Mapping[str, object] | None = None, *, column: int = 0, name: str = ""
) -> Figure | None:
    """One column; None for what is no distribution, and for a candidate that is a function."""
    if column >= len(_shapes(found)):
        return None
    figure, axes = figure_of(2.7)
    draw_distribution(axes, found, others, column=column, name=name)
    return figure


# The page


def candidates_of(selector: HypothesisSelector, domains: Mapping[str, Domain]) -> dict[str, object]:
    """The declared candidates by name, as they would be published; public."""
    return {candidate.name: candidate.publish(domains, i) for i, candidate in enumerate(selector.candidates)}


def distribution_html(released: Released, candidates: Mapping[str, object] | None = None, **said: str) -> str:
    """The report as one HTML text; ``candidates`` are those of a selection, see :func:`candidates_of`; ``said`` as in
    :func:`privpac.report.pages.release_facts`."""
    found, listed = released.value, dict(candidates or {})
    selected = str(released.parameters.get("name", ""))
    others = {name: other for name, other in listed.items() if name != selected}
    shapes = _shapes(found)
    pictures = [
        distribution_picture(found, others, column=i, name=selected) for i in range(min(len(shapes), _MOST_PANELS))
    ]
    return page(
        "distribution.html",
        released=released,
        title=selected or ", ".join(shape.column for shape in shapes) or str(found),
        selected=selected,
        lines=str(found).splitlines()[:_MOST_PANELS],
        pictures=pictures,
        candidates=[
            (name, "a function" if isinstance(other, NamedCandidate) else str(other)) for name, other in listed.items()
        ],
        promise=promise_section(released.guarantee),
        facts=release_facts(released, {}, _public(released, shapes), **said),
    )


def _public(released: Released, shapes: Sequence[Outline]) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [("method", released.learner), ("outcome", released.outcome)]
    rows += [(_WORDS_HERE.get(name, name), value) for name, value in released.parameters.items()]
    return rows + ([("columns", ", ".join(shape.column for shape in shapes))] if shapes else [])


def write_distribution_report(
    released: Released,
    path: str | os.PathLike[str],
    *,
    candidates: Mapping[str, object] | None = None,
    **said: str,
) -> Path:
    """Write the report to ``path``, whole or not at all."""
    return write_page(distribution_html(released, candidates, **said), path)
