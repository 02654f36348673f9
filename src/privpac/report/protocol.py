"""One self-contained HTML file about a demonstration of the protocols: made-up people, three models and a table."""

from __future__ import annotations

import os
from pathlib import Path

from privpac.protocols.demo import Demo, DemoRow
from privpac.report.pages import page, write_page
from privpac.report.plots import INK, LINES, Markup, figure_of, svg

__all__ = ["demo_html", "write_demo_report"]

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
