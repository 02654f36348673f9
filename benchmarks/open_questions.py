"""Other statistics for people whose x is a clock, or who differ: tried against the default and the mean, at the same
epsilon.

    python benchmarks/open_questions.py [--quick] [--markdown]

A user's contribution may be any integer in 0..levels that depends on that user's own records and on public numbers: the
privacy proof is the range.  Every candidate here is clipped regret with another clip, so each has the guarantee of the
default (add-remove, epsilon 1, number of users declared).  Three kinds:

- *sooner* (``48``, ``24``): the fourth condition of the clip with that number for 96, so that the mean is reached with
  fewer users;
- *own labels*: a user keeps the default clip only if the rarer label occurs in at least half the root of the own
  records (``crosses``), or if the own best cut gains that many over the better constant (``gains``); all others speak
  with their mean;
- *own x*: a user whose x are evenly spaced, as a yearly clock's are, speaks with the mean (``even``: largest gap at
  most twice the smallest); or does so if also the rarer label is rare (``clock``: at most 8 times, and not
  ``crosses``).

Judged on tables and models that none of the constants of the default was fitted on, and on the models that it was.
Data are seeded; the mechanism is never sampled: figures are expectations over the exact law of the output.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from attrs import define, frozen
from common import REAL, Grid, Real
from generative import MODELS, ZIPF, Model, types
from numpy.typing import NDArray
from open_tables import CLOCKS, LATER_CLOCKS, LATER_OTHERS, OTHERS
from rich.console import Console

from privpac.data import UserData
from privpac.methods.regret import RegretSelection
from privpac.rules.profile import DEFAULT_LEVELS, ClipRule, Statistic

EPSILON, ALPHA = Fraction(1), 0.02
Ints = NDArray[np.int64]
World = Model | Real


# Candidates


@frozen(slots=False, eq=False)
class Clipped(Statistic):
    """Clipped regret with a clip for every user."""

    caps: Ints

    @property
    def bound(self) -> int:
        return DEFAULT_LEVELS

    @property
    def uses_minimum(self) -> bool:
        return True

    def shape(self, sizes: Ints) -> tuple[Ints, Ints]:
        return np.zeros_like(sizes), self.caps


@frozen(slots=False, eq=False)
class Own:
    """What each user's own records show."""

    m: Ints
    rarer: Ints
    """Records with the rarer label: mistakes of the better constant."""
    least: Ints
    """Mistakes of the own best cut."""
    spread: NDArray[np.float64]
    """Largest gap between neighbouring x over the smallest; infinite when two are equal or there are fewer than
    three."""


def own(world: World, data: UserData) -> Own:
    sizes, (codes,) = data.sizes, data.codes.values()
    owner = np.repeat(np.arange(len(sizes)), sizes)
    x = codes.astype(np.int64) if codes.max(initial=0) < 1 << 62 else (codes >> np.uint64(2)).astype(np.int64)
    order = np.lexsort((x, owner))
    x, y = x[order], (data.labels[order] > 0) == ("above" in world.concept.directions)
    first, ones = data.offsets[:-1], np.add.reduceat(y.astype(np.int64), data.offsets[:-1])
    # The cut above a record: its ones so far are wrong, its zeros so far no longer.  Only the last of equal x counts.
    walk = np.cumsum(np.where(y, 1, -1))
    walk -= np.repeat(np.append(0, walk)[first], sizes)
    last = np.append((x[1:] != x[:-1]) | (owner[1:] != owner[:-1]), True)
    least = sizes - ones + np.minimum(0, np.minimum.reduceat(np.where(last, walk, 0), first))
    gaps, inside = np.diff(x), owner[1:] == owner[:-1]
    small, large = np.full(len(sizes), 1 << 62), np.zeros(len(sizes), dtype=np.int64)
    np.minimum.at(small, owner[1:][inside], gaps[inside])
    np.maximum.at(large, owner[1:][inside], gaps[inside])
    spread = np.where((sizes >= 3) & (small >= 1), large / np.maximum(small, 1), np.inf)
    return Own(sizes, np.minimum(ones, sizes - ones), least, spread)


def clip(m: Ints, n: int, bits: int, constant: int = 96) -> Ints:
    """The default clip, with another constant in its fourth condition."""
    sizes, place = np.unique(m, return_inverse=True)
    fourth = [-(-n * k * EPSILON.numerator // (constant * bits * EPSILON.denominator)) for k in sizes.tolist()]
    rest = ClipRule(EPSILON, n, 1 << 40)
    third = ClipRule(EPSILON, n, bits) if constant == 96 else rest
    return np.array([min(k, max(third(k), f)) for k, f in zip(sizes.tolist(), fourth)], dtype=np.int64)[place]


Caps = Callable[[Own, Ints], Ints]


def few(o: Own) -> NDArray[np.bool_]:
    """Fewer than half the root of m records with the rarer label."""
    return 2 * o.rarer < np.ceil(np.sqrt(o.m))


CANDIDATES: dict[str, Caps | int] = {
    "mean": lambda o, t: o.m,
    "default": 96,
    "48": 48,
    "24": 24,
    "crosses": lambda o, t: np.where(few(o), o.m, t),
    "gains": lambda o, t: np.where(2 * (o.rarer - o.least) < np.ceil(np.sqrt(o.m)), o.m, t),
    "even": lambda o, t: np.where(o.spread <= 2, o.m, t),
    "clock": lambda o, t: np.where((o.spread <= 8) & few(o), o.m, t),
}


def risks(world: World, data: UserData) -> dict[str, tuple[float, float]]:
    """For every candidate the probability of an excess above ALPHA and the mean excess."""
    n, bits, seen = data.n_users, world.concept.bits, own(world, data)
    rate = float(RegretSelection(world.concept, EPSILON, public_n_users=n).theta) / DEFAULT_LEVELS
    out: dict[str, tuple[float, float]] = {}
    for name, rule in CANDIDATES.items():
        caps = (
            clip(seen.m, n, bits, rule) if isinstance(rule, int) else np.maximum(1, rule(seen, clip(seen.m, n, bits)))
        )
        out[name] = world.risk(world.concept.profile(data, Clipped(caps)), rate, ALPHA)
    return out


# Models: those of the other benchmarks, and some with rare labels or own windows


def _new_models() -> list[Model]:
    place, cut = np.meshgrid((np.arange(32) + 0.5) / 32, 0.5 + 0.15 * np.linspace(-2, 2, 32))
    light = float(ZIPF[19])
    return [
        Model("cut at .1, noise .05", types(cut=0.1, noise=0.05)),
        Model("cut at .05, noise 0", types(cut=0.05)),
        Model("cut at .9, noise .2", types(cut=0.9, noise=0.2)),
        Model("own windows of x, own cuts", types(place=place, cut=cut, noise=0.05), window=0.3),
        Model("m_i Zipf(1.2), cut at .1, noise .1", types(cut=0.1, noise=0.1), zipf=True),
        Model(
            "m_i Zipf(1.2), users with m_i > 20 cut .1 lower",
            types([light, 1 - light], cut=[0.5, 0.4], noise=0.1),
            zipf=True,
            heavy=20,
        ),
    ]


NEW_MODELS = {model.name: model for model in _new_models()}
USERS, DRAWN = (12, 25, 50, 100, 200), (25, 50, 100, 200, 400)


def model_data(model: Model, m: int, n: int, i: int) -> UserData:
    return model.users(model.draw(np.random.default_rng([len(model.name), m, n, i]), n, m))


def table_data(table: Real, n: int, i: int) -> UserData:
    return table.users.take(np.random.default_rng([i, n, 9]).choice(table.users.n_users, n, replace=False))


def mean_excess(world: World, datasets: list[UserData]) -> dict[str, float]:
    found = [risks(world, data) for data in datasets]
    return {name: float(np.mean([each[name][1] for each in found])) for name in CANDIDATES}


@define(slots=False)
class Ratios:
    """Logarithms of (excess + .001) over that of the default, per candidate."""

    logs: dict[str, list[float]]

    @staticmethod
    def of(cells: list[dict[str, float]]) -> Ratios:
        return Ratios(
            {
                name: [math.log((cell[name] + 0.001) / (cell["default"] + 0.001)) for cell in cells]
                for name in CANDIDATES
            }
        )

    def middle(self, name: str) -> str:
        return f"{math.exp(float(np.mean(self.logs[name]))):.2f}"

    def worst(self, name: str) -> str:
        return f"{math.exp(max(self.logs[name])):.1f}"


OTHER = [name for name in CANDIDATES if name != "default"]


def summary(title: str, rows: dict[str, list[dict[str, float]]], shown: tuple[int, ...] = ()) -> Grid:
    """One row per table or model: excess of the mean, the default and ``clock`` at some cells, then the ratios over all
    cells."""
    out = []
    for name, cells in rows.items():
        some = (
            [
                " / ".join(f"{cells[k][c]:.4f}".lstrip("0") for k in shown if k < len(cells))
                for c in ("mean", "default", "clock")
            ]
            if shown
            else []
        )
        out.append([name, *some, *(Ratios.of(cells).middle(c) for c in OTHER)])
    every = Ratios.of([cell for cells in rows.values() for cell in cells])
    blank = [""] * (3 if shown else 0)
    out.append(["**all** (worst cell)", *blank, *(f"{every.middle(c)} ({every.worst(c)})" for c in OTHER)])
    return Grid(title, ["", *(["mean", "default", "clock"] if shown else []), *(f"{c} : default" for c in OTHER)], out)


def users_needed(model: Model, m: int, datasets: int, most: int = 1200) -> dict[str, int | None]:
    """The least n (on a grid of ratio 1.1) from which on Pr[excess > ALPHA] stays at most 0.1."""
    sizes = sorted({round(8 * 1.1**k) for k in range(60) if 8 * 1.1**k <= most})
    longest = [model.users(model.draw(np.random.default_rng([3, m, i]), sizes[-1], m)) for i in range(datasets)]
    failing = dict.fromkeys(CANDIDATES, 0)
    for place, n in enumerate(sizes):
        found = [risks(model, data.take(np.arange(n))) for data in longest]
        for name in CANDIDATES:
            if np.mean([each[name][0] for each in found]) > 0.1:
                failing[name] = place + 1
    return {name: sizes[place] if place < len(sizes) else None for name, place in failing.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 data sets a cell, 4 draws from a table")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    options = parser.parse_args()
    datasets, draws = (2, 4) if options.quick else (6, 12)
    console, start = Console(width=230), time.perf_counter()
    console.print(
        f"epsilon 1, add-remove, number of users declared; {datasets} data sets a cell, {draws} draws from a table"
    )
    groups = {
        "tables with a clock": CLOCKS,
        "other tables": OTHERS,
        "tables with a clock, looked at once": LATER_CLOCKS,
        "other tables, looked at once": LATER_OTHERS,
        "tables of the other benchmarks": REAL,
    }
    for title, tables in groups.items():
        rows = {
            f"{name} ({np.median(table.users.sizes):.0f})": [
                mean_excess(table, [table_data(table, n, i) for i in range(draws)])
                for n in DRAWN
                if n <= table.users.n_users
            ]
            for name, table in tables.items()
        }
        summary(f"{title}: mean excess at 50 / 100 / 200 users; ratios over {DRAWN} users", rows, (1, 2, 3)).show(
            console, markdown=options.markdown
        )
    for title, models in {"models of the other benchmarks": MODELS, "new models": NEW_MODELS}.items():
        rows = {
            f"{name}, m = {m}" if not model.zipf else name: [
                mean_excess(model, [model_data(model, m, n, i) for i in range(datasets)]) for n in USERS
            ]
            for name, model in models.items()
            for m in ((1,) if model.zipf else (4, 16, 64))
        }
        summary(f"{title}: ratios of the mean excess over {USERS} users", rows).show(console, markdown=options.markdown)
    chosen = ["m_i Zipf(1.2), noise 0.1", "m_i Zipf(1.2), users with m_i > 20 cut .15 higher"]
    needed = {name: users_needed(MODELS[name], 1, 2 * datasets) for name in chosen}
    needed |= {f"{name}, m = 64": users_needed(MODELS[name], 64, 2 * datasets, 200) for name in ("label noise 0.1",)}
    lines = [[name, *("-" if n[c] is None else str(n[c]) for c in CANDIDATES)] for name, n in needed.items()]
    Grid(f"users needed for excess error <= {ALPHA} with probability .9", ["", *CANDIDATES], lines).show(
        console, markdown=options.markdown
    )
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
