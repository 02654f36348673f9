"""Draws the pictures of the guides into ``docs/img`` from the public table of ``tables.py``: run it after a change.

    .venv/bin/python docs/_site/pictures.py [folder]

Nothing here is drawn by hand and nothing is random: the pictures show exact laws, which are functions of the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import privpac as pp

sys.path.insert(0, str(Path(__file__).parent))
from tables import visits

GREEN, ORANGE, BLUE, GREY, INK = "#0b6e4f", "#c2571a", "#1f6fb2", "#c9d0d6", "#24292f"
BILIRUBIN = pp.Grid(0, 40, "0.1")
SHOWN = 8.0
CUTS = int(SHOWN * 10)
WEIGHTIEST = 299
"""The patient whose absence moves more of the law at epsilon 1 than that of any other."""


def data(frame: Any) -> pp.UserData:
    return pp.UserData.from_frame(
        frame, user="patient", features={"bilirubin": BILIRUBIN}, label="died", on_invalid="clamp"
    )


def chances(learner: pp.HybridSelection, people: pp.UserData) -> np.ndarray:
    """The probability of each cut 0.0, 0.1, ... up to the end of the picture; id h says 1 above the h-th value."""
    law = learner.rule_law(people)
    return np.array([float(law.prob(h)) for h in range(1, CUTS + 1)])


def at() -> np.ndarray:
    return np.arange(CUTS) / 10


def bare(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=9)


def draw_people(axes: Any) -> None:
    """Patients with all their visits."""
    table = visits()
    people = table["patient"].unique(maintain_order=True).to_list()[:26]
    for row, person in enumerate(people):
        mine = table.filter(patient=person)
        values, died = mine["bilirubin"].to_numpy(), int(mine["died"][0])
        axes.plot([values.min(), values.max()], [row, row], color=GREY, linewidth=1.2, zorder=1)
        axes.scatter(
            values, [row] * len(values), s=13, color=ORANGE if died else BLUE, alpha=0.85, linewidth=0, zorder=2
        )
    axes.set_xscale("log")
    axes.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axes.minorticks_off()
    axes.set_yticks([])
    axes.set_xlabel("bilirubin at each visit (orange: the patient died)", fontsize=9)
    axes.set_ylabel("one line is one patient", fontsize=9)
    axes.set_title("What is protected: a whole line, not a dot", fontsize=10.5, color=INK, loc="left")
    bare(axes)


def draw_law(axes: Any) -> None:
    """What is published, and how it is drawn."""
    chance = chances(pp.HybridSelection(pp.Thresholds(), epsilon=1), data(visits()))
    best = at()[int(np.argmax(chance))]
    axes.axvspan(0, best, color="#e3e7ea", linewidth=0)
    axes.axvspan(best, SHOWN, color="#d3ebe1", linewidth=0)
    axes.fill_between(at(), 100 * chance, color=GREEN, alpha=0.9, linewidth=0, step="mid")
    axes.set_xlim(0, SHOWN)
    axes.set_ylim(0, 115 * chance.max())
    axes.text(
        best + 0.3, 106 * chance.max(), f"died when bilirubin > {best:g}", fontsize=11, weight="bold", color=GREEN
    )
    axes.set_xlabel("the cut-off that is published", fontsize=9)
    axes.set_ylabel("chance, in 100", fontsize=9)
    axes.set_title("What is published: one draw from this, ε = 1", fontsize=10.5, color=INK, loc="left")
    bare(axes)


def home() -> Figure:
    """Both, for the README."""
    figure = Figure(figsize=(9.2, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    draw_people(left)
    draw_law(right)
    return figure


def alone(draw: Any) -> Figure:
    figure = Figure(figsize=(4.6, 3.5), layout="constrained")
    draw(figure.subplots())
    return figure


def with_and_without() -> Figure:
    """The same law with and without one patient, at three epsilons."""
    table = visits()
    without = table.filter(table["patient"] != WEIGHTIEST)
    figure = Figure(figsize=(9.2, 2.9), layout="constrained")
    for axes, epsilon in zip(figure.subplots(1, 3), ("1/4", "1", "4")):
        learner = pp.HybridSelection(pp.Thresholds(), epsilon=epsilon)
        here, gone = chances(learner, data(table)), chances(learner, data(without))
        axes.fill_between(at(), 100 * here, color=GREEN, alpha=0.35, linewidth=0, step="mid", label="with the patient")
        axes.step(at(), 100 * gone, color=ORANGE, linewidth=1.3, where="mid", label="without")
        ratio = float(np.max(np.maximum(here / gone, gone / here)))
        odds = float(np.exp(float(learner.epsilon)))
        axes.set_title(f"ε = {epsilon}: at most {odds:.3g} times as likely", fontsize=9.5, loc="left")
        axes.text(0.98, 0.9, f"largest here: {ratio:.2f}", transform=axes.transAxes, ha="right", fontsize=8.5)
        axes.set_xlabel("bilirubin cut-off", fontsize=9)
        axes.set_xlim(0, SHOWN)
        axes.set_ylim(0, None)
        bare(axes)
    figure.axes[0].set_ylabel("chance, in 100", fontsize=9)
    figure.axes[0].legend(frameon=False, fontsize=8.5, loc="upper right", bbox_to_anchor=(1, 0.86))
    return figure


def hybrid_selection() -> Figure:
    """Above: what both scores of hybrid selection hold against each cut.  Below: how much of the draw is each one's."""
    table = visits()
    people = table["patient"].unique(maintain_order=True).to_list()
    figure = Figure(figsize=(9.2, 4.6), layout="constrained")
    grid = figure.subplots(2, 3, sharex=True)
    for (above, below), step in zip(grid.T, (26, 4, 1)):
        some = data(table.filter(table["patient"].is_in(people[::step])))
        learner = pp.HybridSelection(pp.Thresholds(), epsilon=1)
        bound = learner.bind(some)
        law, held, size = learner.law(some), learner.scores(bound), bound.concept.size
        first = {"clip": 0, "mean": size}
        scores = {v: [held.score(first[v] + h) / learner.levels for h in range(1, CUTS + 1)] for v in first}
        shares = {v: np.array([float(law.prob(first[v] + h)) for h in range(1, CUTS + 1)]) for v in first}
        for score, colour in (("clip", BLUE), ("mean", ORANGE)):
            above.plot(at(), scores[score], color=colour, linewidth=1.6, label=f"{score} score")
            below.fill_between(at(), 100 * shares[score], color=colour, alpha=0.55, linewidth=0, step="mid")
        above.set_title(f"{len(people[::step])} patients", fontsize=10, loc="left")
        below.set_xlabel("bilirubin cut-off", fontsize=9)
        below.set_xlim(0, SHOWN)
        below.set_ylim(0, None)
        said = {v: sum(float(law.prob(first[v] + h)) for h in range(size)) for v in first}
        told = f"clip {100 * said['clip']:.0f} : {100 * said['mean']:.0f} mean"
        below.text(0.98, 0.88, told, transform=below.transAxes, ha="right", fontsize=8.5)
        bare(above)
        bare(below)
    grid[0][0].set_ylabel("held against the cut,\nin patients", fontsize=9)
    grid[1][0].set_ylabel("chance, in 100", fontsize=9)
    grid[0][0].legend(frameon=False, fontsize=8.5)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "home": home,
    "home-people": lambda: alone(draw_people),
    "home-law": lambda: alone(draw_law),
    "with-and-without": with_and_without,
    "hybrid-selection": hybrid_selection,
}


def write(folder: Path) -> list[Path]:
    """All pictures, without dates: the same table makes the same files."""
    written = []
    for name, draw in PICTURES.items():
        written.append(folder / f"{name}.png")
        draw().savefig(written[-1], dpi=160, metadata={"Software": None}, facecolor="white")
    return written


if __name__ == "__main__":
    for path in write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "img"):
        print(path)
