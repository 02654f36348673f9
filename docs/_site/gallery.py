"""Runs the examples of ``docs/gallery.md`` and draws their pictures into ``docs/img/gallery``.

    .venv/bin/python docs/_site/gallery.py              # draw the pictures of what was printed
    .venv/bin/python docs/_site/gallery.py run [name]   # run all examples, or one, anew: print, keep, draw

The page is the source: its blocks make the tables and the releases.  A run writes what was printed into the page, and
keeps the release in ``docs/_site/gallery/NAME.json``; a picture shows that release over its public table.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import privpac as pp
from privpac.report.plots import INK, LINES, NO, QUIET, YES

HERE = Path(__file__).parent
PAGE = HERE.parent / "gallery.md"
KEPT = HERE / "gallery"
BLUE, ORANGE = LINES[:2]
EPSILONS = ("1/8", "1/4", "1/2", "1", "2", "4")


@frozen(slots=False)
class Example:
    """One section of the page."""

    name: str
    tables: tuple[str, ...]
    """Python that makes the table, and writes it for the command line."""
    calls: tuple[str, ...]
    """Python of the first tab."""
    commands: tuple[str, ...]
    """Lines of the second tab."""
    printed: str


def blocks(text: str, language: str, indent: str) -> tuple[str, ...]:
    found = re.findall(rf"^{indent}```{language}\n(.*?)^{indent}```$", text, re.MULTILINE | re.DOTALL)
    return tuple(textwrap.dedent(block) for block in found)


def examples() -> list[Example]:
    """The sections of the page, in their order."""
    found = []
    for text in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        (name,) = re.findall(r"\(img/gallery/(.*?)\.png\)", text)
        (printed,) = blocks(text, "text", "")
        commands = [line for block in blocks(text, "sh", "    ") for line in block.splitlines()]
        tables, calls = blocks(text, "python", ""), blocks(text, "python", "    ")
        found.append(Example(name, tables, calls, tuple(commands), printed))
    return found


def execute(codes: tuple[str, ...], names: dict[str, Any]) -> str:
    """Run blocks in a folder of their own, and hand over what they printed."""
    out, back = io.StringIO(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            for code in codes:
                exec(compile(code, PAGE.name, "exec", dont_inherit=True), names)
        finally:
            os.chdir(back)
    return out.getvalue()


def run(example: Example) -> None:
    """Run an example, keep its release, and write what it printed into the page."""
    names: dict[str, Any] = {}
    printed = execute((*example.tables, *example.calls), names)
    result, target = names["result"], KEPT / f"{example.name}.json"
    if isinstance(result, pp.Released):
        result.save(target)
    else:
        target.write_text(json.dumps(people_needed(), indent=1) + "\n", encoding="utf-8")
    head, *sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    for i, text in enumerate(sections):
        if f"(img/gallery/{example.name}.png)" in text:
            sections[i] = re.sub(
                r"^```text\n.*?^```$", lambda _: f"```text\n{printed}```", text, flags=re.MULTILINE | re.DOTALL
            )
    PAGE.write_text("\n## ".join([head, *sections]), encoding="utf-8")


def people_needed() -> dict[str, list[int | None]]:
    """The plan of the page, asked for people at each epsilon."""
    lines: dict[str, list[int | None]] = {"typical": [], "certain": [], "no method can": []}
    for epsilon in EPSILONS:
        plan = pp.plan("threshold", features={"score": (0, 100)}, epsilon=epsilon, records_per_user=4, alpha="0.05")
        certain = [row.values[0] for row in plan.rows if row.method == "hybrid selection"]
        bound = [row.values[0] for row in plan.rows if row.kind == "lower bound" and "agnostic" in row.method]
        typical = [row.values[0] for row in plan.predicted if row.method == "hybrid selection"]
        for line, values in zip(lines.values(), (typical, certain, bound)):
            line.append(min((int(value) for value in values if value is not None), default=None))
    return lines


# Pictures.  Each takes the release and the names of its table's blocks.


def canvas() -> tuple[Figure, Any]:
    """Letters stay readable when the picture is 300 pixels wide."""
    figure = Figure(figsize=(4, 2.8), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10, colors=INK)
    return figure, axes


def labelled(axes: Any, title: str, x: str, y: str = "") -> None:
    axes.set_title(title, fontsize=12, weight="bold", color=YES, loc="left")
    axes.set_xlabel(x, fontsize=11, color=INK)
    axes.set_ylabel(y, fontsize=11, color=INK)


def cut_off(result: Any, names: dict[str, Any]) -> Figure:
    """How often a season has a home run, for all numbers of times at bat."""
    import polars as pl

    figure, axes = canvas()
    cut, wide = result.rule.edges("AB")[0], 25
    seasons = names["seasons"].drop_nulls().group_by(pl.col("AB") // wide * wide)
    shares = seasons.agg(homer=100 * pl.col("homer").mean()).filter(pl.col("AB") < 650)
    colours = [YES if at + wide / 2 >= cut else NO for at in shares["AB"]]
    axes.bar(shares["AB"] + wide / 2, shares["homer"], width=0.88 * wide, color=colours)
    axes.axvline(cut, color=ORANGE, linewidth=2.5)
    axes.set(xlim=(0, 650), ylim=(0, 100))
    labelled(axes, str(result.rule), "times at bat in a season", "% with a home run")
    return figure


def wide_table(result: Any, names: dict[str, Any]) -> Figure:
    """The tree from left to right."""
    figure, axes = canvas()
    axes.set_axis_off()
    axes.set(xlim=(-0.06, 3), ylim=(-0.6, 3.6))
    root, *sides = result.rule.drawn
    axes.text(0.02, 1.5, asked(root), **boxed("white"))
    for side, word, high in zip(sides, ("yes", "no"), ((3, 2), (1, 0))):
        middle = sum(high) / 2
        if len(side) == 1:
            branch(axes, (0.45, 1.5), (2.3, middle), word)
            leaf(axes, middle, side[0], result.rule.label)
            continue
        branch(axes, (0.45, 1.5), (1.05, middle), word)
        axes.text(1.05, middle, asked(side[0]), **boxed("white"))
        for label, inner, y in zip(side[1:], ("yes", "no"), high):
            branch(axes, (1.5, middle), (2.3, y), inner)
            leaf(axes, y, label, result.rule.label)
    return figure


def asked(question: str) -> str:
    return question.replace(" > ", "\n> ").replace(" is ", "\nis ")


def boxed(colour: str) -> dict[str, Any]:
    frame = {"boxstyle": "round,pad=0.4", "facecolor": colour, "edgecolor": QUIET}
    return {"fontsize": 11, "ha": "left", "va": "center", "color": INK, "bbox": frame, "zorder": 3}


def leaf(axes: Any, y: float, label: str, positive: str) -> None:
    yes = label == positive
    style = boxed(YES if yes else NO) | {"color": "white" if yes else INK, "weight": "bold"}
    axes.text(2.3, y, label.replace("_", " ").replace("not ", "not\n"), **style)


def branch(axes: Any, start: tuple[float, float], end: tuple[float, float], word: str) -> None:
    axes.plot(*zip(start, end), color=QUIET, linewidth=1.4, zorder=1)
    x, y = (0.35 * a + 0.65 * b for a, b in zip(start, end))
    frame = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    axes.text(x, y, word, fontsize=10, color=INK, ha="center", va="center", bbox=frame, zorder=2)


def labels(result: Any, names: dict[str, Any]) -> Figure:
    """What the rule says on the plane, and every fortieth season as a dot."""
    figure, axes = canvas()
    fielding, classes = names["fielding"], ("pitcher", "infield", "outfield")
    x, y = np.meshgrid(np.arange(401), np.arange(201))
    says = result.predict({"PO": x.ravel(), "A": y.ravel()})
    regions = np.array([classes.index(label) for label in says]).reshape(x.shape)
    colours = (BLUE, ORANGE, YES)
    axes.pcolormesh(x + 1, y + 1, regions, cmap=ListedColormap(colours), vmin=0, vmax=2, alpha=0.22, rasterized=True)
    some = fielding.sort("playerID", "PO", "A").gather_every(40)
    for label, colour in zip(classes, colours):
        mine = some.filter(position=label)
        axes.scatter(mine["PO"] + 1, mine["A"] + 1, s=7, color=colour, linewidth=0, label=label)
    axes.set(xscale="log", yscale="log", xlim=(1, 400), ylim=(1, 200))
    axes.set_xticks([1, 10, 100], ["0", "10", "100"])
    axes.set_yticks([1, 10, 100], ["0", "10", "100"])
    axes.minorticks_off()
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=10.5, handletextpad=0, markerscale=2)
    axes.set_xlabel("put-outs", fontsize=11, color=INK)
    axes.set_ylabel("assists", fontsize=11, color=INK)
    return figure


def hierarchy(result: Any, names: dict[str, Any]) -> Figure:
    """All folders, three levels from left to right, and the path to the one that was released."""
    figure, axes = canvas()
    axes.set_axis_off()
    place = {"": (-0.6, 39.5)}
    deepest = [folder for folder in names["folders"] if folder.count("/") == 2]
    for folder in sorted(names["folders"], key=lambda name: -name.count("/")):
        below = [i for i, name in enumerate(deepest) if f"{name}/".startswith(f"{folder}/")]
        place[folder] = (folder.count("/"), 79 - float(np.mean(below)))
    released = result.rule.condition().split(" is ")[1].removesuffix(" or contains it")
    word = {"fontsize": 12, "bbox": {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}}
    for folder, at in place.items():
        if folder:
            path = f"{released}/".startswith(f"{folder}/")
            above = place[folder.rpartition("/")[0]]
            colour, width = (YES, 3) if path else (QUIET, 0.5)
            axes.plot(*zip(above, at), color=colour, linewidth=width, zorder=2 if path else 1)
            if path:
                axes.text(at[0] + 0.06, at[1] + 4, folder.rpartition("/")[2], **word, weight="bold", color=YES)
            elif "/" not in folder:
                axes.text(at[0] + 0.06, at[1] + 3, folder, fontsize=10, color=INK)
    axes.set(xlim=(-0.65, 2.25), ylim=(-3, 85))
    return figure


def histogram(result: Any, names: dict[str, Any]) -> Figure:
    figure, axes = canvas()
    shares = [100 * float(p) for p in result.value.probabilities]
    axes.bar(range(len(shares)), shares, color=YES, width=0.8)
    axes.set_xticks([0, 5, 10, 15, 20], ["0", "5", "10", "15", "20+"])
    labelled(axes, f"{shares[0]:.0f} % did not go at all", "visits to a doctor in a year", "% of the people")
    return figure


def median(result: Any, names: dict[str, Any]) -> Figure:
    """Salaries, every player counting alike, with the released median and its interval; the mean is public here."""
    import polars as pl

    figure, axes = canvas()
    table = names["salaries"].with_columns(share=100 / pl.len().over("playerID") / pl.col("playerID").n_unique())
    middle, (low, high) = result.value.value, result.value.interval
    axes.hist(table["salary"], np.geomspace(3e5, 4e7, 36), weights=table["share"], color=NO)
    axes.axvspan(low, high, color=YES, alpha=0.35, linewidth=0)
    axes.axvline(middle, color=YES, linewidth=2.5)
    mean = float((table["salary"] * table["share"]).sum() / 100)
    axes.axvline(mean, color=ORANGE, linewidth=2, linestyle="--")
    top = axes.get_ylim()[1]
    axes.text(high * 1.1, 0.93 * top, "median", fontsize=11.5, weight="bold", color=YES)
    axes.text(mean * 1.08, 0.75 * top, "mean", fontsize=11.5, weight="bold", color=ORANGE)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks([5e5, 2e6, 1e7, 3e7], ["0.5", "2", "10", "30"])
    axes.set_xlabel("yearly salary, millions of dollars", fontsize=11, color=INK)
    axes.set_ylabel("% of the players", fontsize=11, color=INK)
    return figure


def devices(result: Any, names: dict[str, Any]) -> Figure:
    """The released shares, beside those of the table."""
    figure, axes = canvas()
    released = [100 * float(p) for p in result.value.probabilities]
    counts, _ = np.histogram(names["answers"]["affairs"], result.value.edges)
    axes.bar(range(3), released, color=YES, width=0.6, label="released")
    true = 100 * counts / counts.sum()
    axes.scatter(range(3), true, marker="_", s=900, linewidth=2.5, color=ORANGE, label="in the table")
    for at, share in enumerate(released):
        axes.text(at, max(share, true[at]) + 3, f"{share:.0f} %", ha="center", fontsize=11.5, weight="bold", color=YES)
    axes.set_xticks(range(3), ["none", "1 to 3", "more"])
    axes.set_ylim(0, 90)
    axes.legend(frameon=False, fontsize=10.5, markerscale=0.4)
    labelled(axes, "", "affairs in the past year", "% of the people")
    return figure


def plan(result: dict[str, list[int | None]], names: dict[str, Any]) -> Figure:
    figure, axes = canvas()
    at = [float(Fraction(epsilon)) for epsilon in EPSILONS]
    for (word, people), colour, style in zip(result.items(), (BLUE, YES, QUIET), ("-", "-", "--")):
        some = [(x, y) for x, y in zip(at, people) if y is not None]
        axes.plot(*zip(*some), color=colour, linestyle=style, linewidth=2.4, marker="o", markersize=4)
        axes.text(at[0], some[0][1] * 1.2, word, fontsize=11, weight="bold", color=INK if colour == QUIET else colour)
    axes.set(xscale="log", yscale="log", ylim=(5, 9000))
    axes.set_xticks(at, EPSILONS)
    axes.set_yticks([10, 100, 1000], ["10", "100", "1,000"])
    axes.minorticks_off()
    axes.set_xlabel("ε", fontsize=12, color=INK)
    axes.set_ylabel("people needed", fontsize=11, color=INK)
    return figure


PICTURES: dict[str, Callable[[Any, dict[str, Any]], Figure]] = {
    "cut-off": cut_off,
    "wide-table": wide_table,
    "labels": labels,
    "hierarchy": hierarchy,
    "histogram": histogram,
    "median": median,
    "devices": devices,
    "plan": plan,
}


def kept(name: str) -> Any:
    """The release that the page shows, or the numbers of the plan."""
    path = KEPT / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if name == "plan" else pp.load(path)


def write(folder: Path, wanted: tuple[str, ...] = ()) -> list[Path]:
    """The pictures, without dates: the same release and table make the same files."""
    written = []
    for example in examples():
        if not wanted or example.name in wanted:
            names: dict[str, Any] = {}
            execute(example.tables, names)
            written.append(folder / f"{example.name}.png")
            figure = PICTURES[example.name](kept(example.name), names)
            figure.savefig(written[-1], dpi=160, metadata={"Software": None}, facecolor="white")
    return written


if __name__ == "__main__":
    mode, *some = sys.argv[1:] or ["draw"]
    if mode == "run":
        for each in examples():
            if not some or each.name in some:
                run(each)
    for path in write(HERE.parent / "img" / "gallery", tuple(some)):
        print(path)
