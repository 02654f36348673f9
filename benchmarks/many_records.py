"""Excess error against the number of records per user, at a fixed number of users; and users with very unequal numbers
of records.

    python benchmarks/many_records.py [--quick | --full] [--markdown] [--plots docs/img]

All learners protect whole users (add-remove, epsilon 1).  Data are seeded.  Regret selection, direct selection with
estimated t, one record per user and per-user averaging are never sampled: figures are expectations and quantiles over
the law of the output, pooled over data sets (estimates of the least error with probability below 1e-6 are left out).
The search has no affordable law: it is run with the system's randomness, and its Monte-Carlo error is printed.  Beside
the measured 95 % quantiles stand the least excess error that each method certifies at this number of users, with
probability 0.95, and the one that no private learner can beat on *every* law of the data (on one kind law a learner
may).

Zipf users have 1 to 10**4 records.  Caps are public and applied before learning; the best of them is picked with
hindsight.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define
from common import Grid, dense
from generative import CELLS, MODELS, Model
from numpy.typing import NDArray
from rich.console import Console

from privpac.data import UserData
from privpac.lower_bounds import (
    lower_agnostic_vc,
    lower_representation,
    lower_sparse,
    lower_statistics,
    lower_testing,
)
from privpac.methods.base import Bound, profile_of
from privpac.methods.baselines import one_record_per_user
from privpac.methods.regret import RegretSelection, certify_regret_agnostic, certify_regret_bounded_noise
from privpac.papers.pure_agnostic.counting import (
    NoiseKnowledge,
    UserAgnosticLearner,
    plan_threshold_search,
    plan_user_agnostic,
)
from privpac.papers.pure_agnostic.minimum_error import ordered
from privpac.papers.pure_agnostic.search import ThresholdLearner
from privpac.rng import secret_rng
from privpac.rules.profile import DEFAULT_LEVELS, ClipRule, Exceeds, Profile

EPSILON, BETA, N = Fraction(1), Fraction(1, 20), 500
RECORDS = (1, 4, 16, 64, 256)
PANELS = (
    "label noise 0.1",
    "label noise 0.45",
    "2^64 cuts, data in a 2^-40 part, noise .3",
    "40 % of users label at random",
)
ONE_LAW = {PANELS[0]: Fraction(1, 10), PANELS[1]: Fraction(9, 20), PANELS[2]: Fraction(3, 10)}
"""Models whose users all have the same law, which is what certificates assume, and their label noise."""

METHODS = {
    "regret": "regret selection",
    "direct": "direct selection, estimated t",
    "search": "search",
    "one": "one record per user",
    "mean": "per-user averaging",
}
ZIPF = tuple(name for name, model in MODELS.items() if model.zipf)
CAPS = (1, 4, 16, 64, 256, 1024)
ZIPF_USERS, RADIUS = 400, Fraction(1, 8)

Floats = NDArray[np.float64]


# Where the released cut lies: a law over bins with known excess


def costs(model: Model) -> Floats:
    """Excess error by bin: cuts between cells; over 2**64 codes the part before the data, the cells, the part after."""
    e = model.excess
    return np.concatenate([e[:1], (e[1:] + e[:-1]) / 2, e[-1:]]) if model.wide else e


def place(model: Model, cut: int) -> int:
    """The bin of a cut."""
    return min(max((cut - model.first) // model.per_cell + 1, 0), CELLS + 1) if model.wide else cut


def spread(model: Model, profile: Profile, rate: float) -> Floats:
    """Mass of every bin when a cut has weight e**(-rate * score)."""
    if not model.wide:
        scores = dense(profile)
        law = np.exp(-rate * (scores - scores.min()))
        return np.asarray(law / law.sum())
    _, rest = profile.steps
    weight = np.exp(-rate * (rest.scores - rest.scores.min()))
    # In cells from the first code that occurs; the whole domain is one long interval of cuts, each block evenly filled.
    start = -float(model.first) / model.per_cell
    at = np.where(
        rest.starts >= model.first,
        (rest.starts - np.uint64(model.first)).astype(float),
        rest.starts.astype(float) - float(model.first),
    )
    edges = np.append(at / model.per_cell, start + 2.0**64 / model.per_cell)
    summed = np.append(0.0, np.cumsum(weight * np.diff(edges)))
    inner = np.interp(np.arange(CELLS + 1), edges, summed)
    mass = np.concatenate([inner[:1], np.diff(inner), [summed[-1] - inner[-1]]])
    return np.asarray(mass / mass.sum())


# One learner on one data set


def estimated(model: Model, learner: NoiseKnowledge, bound: Bound) -> Floats:
    """The law of a direct selection, averaged over the law of its estimate; tables that agree are taken together."""
    tables: dict[Any, tuple[float, Any]] = {}
    sizes = tuple(np.unique(np.diff(_offsets(bound))).tolist())
    for value, share in estimates(learner, bound):
        table = learner.tolerance_given(value)
        key = tuple(table(m) for m in sizes) if callable(table) else table
        tables[key] = (tables.get(key, (0.0, table))[0] + share, table)
    rate = float(learner.rate(learner.epsilon_rest, 1))
    total = sum(share for share, _ in tables.values())
    parts = [share / total * spread(model, profile_of(bound, Exceeds(table)), rate) for share, table in tables.values()]
    return np.asarray(np.sum(parts, axis=0))


def _offsets(bound: Bound) -> NDArray[np.int64]:
    assert isinstance(bound.users, UserData)
    return bound.users.offsets


def estimates(learner: NoiseKnowledge, bound: Bound) -> Iterator[tuple[Fraction | None, float]]:
    if not learner.estimates:
        yield None, 1.0
        return
    law: Any = learner.estimate_learner.law_of(bound)
    for value in law.support():
        share = law.prob_float(value)
        if share > 1e-6:
            yield value, share


def selected(model: Model, learner: RegretSelection, bound: Bound, n: int) -> Floats:
    rate = float(learner.rate(learner.epsilon_selection, learner.levels))
    return spread(model, profile_of(bound, learner.statistic_for(bound, n)), rate)


def searched(model: Model, data: UserData, m: int, draws: int) -> Floats:
    """Where the search ended, over runs with the system's randomness."""
    learner = ThresholdLearner(model.concept, EPSILON, max_records=m, method="search").search
    bound, rng = learner.bind(data), secret_rng()
    law = learner.estimate_learner.law_of(bound) if learner.estimates else None
    bound, counts = ordered(bound), np.zeros(len(costs(model)))
    for _ in range(draws):
        cut = learner.search(bound, None if law is None else law.sample(rng), rng)
        counts[place(model, cut)] += 1 / draws
    return counts


def run(method: str, model: Model, data: UserData, m: int, draws: int) -> Floats:
    """The law of the released cut over bins."""
    if method == "search":
        return searched(model, data, m, draws)
    if method == "direct":
        learner = ThresholdLearner(model.concept, EPSILON, max_records=m, method="direct").direct
        return estimated(model, learner, learner.bind(data))
    if method == "one":
        single = one_record_per_user(RegretSelection(model.concept, EPSILON))
        assert isinstance(single.inner, RegretSelection)
        return selected(model, single.inner, single.bind(data), 0)
    regret = RegretSelection(model.concept, EPSILON, public_n_users=data.n_users, statistic=method)
    return selected(model, regret, regret.bind(data), data.n_users)


# Measured


@define(slots=False)
class Pooled:
    """The law of the cut over data sets and mechanism."""

    cost: Floats
    laws: list[Floats]

    @property
    def mean(self) -> float:
        return float(np.mean([law @ self.cost for law in self.laws]))

    def error(self) -> float:
        """Standard error of the mean, from data set to data set (which holds that of the runs, where the mechanism was
        sampled)."""
        means = [float(law @ self.cost) for law in self.laws]
        return float(np.std(means, ddof=1) / np.sqrt(len(means)))

    @property
    def quantile(self) -> float:
        """The least excess that is exceeded with probability at most BETA."""
        law, order = np.mean(self.laws, axis=0), np.argsort(self.cost)
        reached = np.searchsorted(np.cumsum(law[order]), 1 - float(BETA) - 1e-12)
        return float(self.cost[order][min(int(reached), len(order) - 1)])


def measure(name: str, m: int, datasets: int, draws: int) -> dict[str, Pooled]:
    model = MODELS[name]
    found = {method: Pooled(costs(model), []) for method in METHODS}
    for i in range(datasets):
        rng = np.random.default_rng([7, list(MODELS).index(name), m, i])
        data = model.users(model.draw(rng, N, m))
        for method in METHODS:
            found[method].laws.append(run(method, model, data, m, draws))
    return found


# Certified, and impossible


GRID = tuple(Fraction(str(round(0.5 / 1.04**k, 7))) for k in range(160))
"""Excess errors from 1/2 down to 0.001, in steps of 4 %."""


def last(holds: Callable[[Fraction], bool]) -> float | None:
    """The smallest excess error of the grid at which a condition holds that gets harder as it falls; None if it fails
    at 1/2."""
    low, high = -1, len(GRID)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(GRID[middle]) else (low, middle)
    return None if low < 0 else float(GRID[low])


def enough(users: int | None) -> bool:
    return users is not None and users <= N


def certified(model: Model, m: int, noise: Fraction) -> dict[str, float | None]:
    log_size = Fraction(model.concept.log_size)
    pair: dict[str, Any] = {"records_per_user": m, "beta": BETA}
    clip: dict[str, Any] = {
        "tau": min(m, ClipRule(EPSILON, N, model.concept.bits)(m)),
        "theta": EPSILON,
        "log_size": log_size,
        "levels": DEFAULT_LEVELS,
    }
    user: dict[str, Any] = pair | {"epsilon": EPSILON, "estimator": "oneshot"}
    bounds: dict[str, Callable[[Fraction], int | None]] = {
        "regret": lambda alpha: certify_regret_agnostic(alpha=alpha, **pair, **clip).n_users,
        "regret, noise bound": lambda alpha: (
            certify_regret_bounded_noise(alpha=alpha, noise=noise, **pair, **clip).n_users
        ),
        "direct": lambda alpha: plan_user_agnostic(alpha=alpha, log_size=log_size, dimension=1, **user).n_users,
        "search": lambda alpha: plan_threshold_search(alpha=alpha, log_domain=log_size, **user).n_users,
    }
    found = {name: last(lambda alpha, users=users: enough(users(alpha))) for name, users in bounds.items()}  # type: ignore[misc]
    # Who knows a bound on the noise may use either certificate.
    known = [found[name] for name in ("regret", "regret, noise bound") if found[name] is not None]
    return found | {"regret, noise bound": min(known, default=None)}  # type: ignore[type-var]


def impossible(model: Model, m: int) -> float | None:
    """The largest excess error for which some lower bound asks for more than N users."""
    ldim = model.concept.domain.size.bit_length() - 1
    common: dict[str, Any] = {"beta": BETA, "epsilon": EPSILON}

    def allowed(alpha: Fraction) -> bool:
        found = (
            lower_representation(ldim=ldim, alpha=alpha, **common),
            lower_sparse(ldim=ldim, alpha=alpha, records_per_user=m, **common),
            lower_testing(alpha=alpha, records_per_user=m, **common),
            lower_statistics(alpha=alpha, beta=BETA, records_per_user=m),
            lower_agnostic_vc(
                1, alpha=alpha, epsilon=EPSILON, records_per_user=m, success=1 - BETA, neighbours="add-remove"
            ),
        )
        return all(enough(bound.n_users or 0) for bound in found)

    least = last(allowed)
    # The next value of the grid is refuted.
    return None if least in (None, float(GRID[-1])) else float(GRID[[float(a) for a in GRID].index(least) + 1])


# Zipf users


@cache
def zipf_data(name: str, i: int) -> UserData:
    model = MODELS[name]
    return model.users(model.draw(np.random.default_rng([9, i]), ZIPF_USERS, 1))


def zipf_law(method: str, model: Model, data: UserData, cap: int | None) -> Floats:
    """``cap`` records at most, or all of them."""
    if method in ("regret", "mean"):
        regret = RegretSelection(model.concept, EPSILON, public_n_users=ZIPF_USERS, statistic=method)
        return selected(model, regret, regret.bind(data if cap is None else data.max_records(cap, "hash")), ZIPF_USERS)
    shape: dict[str, Any] = {"max_records": cap, "radius": RADIUS}
    if method == "known":
        shape["noise"] = (Fraction(float(model.error.min())).limit_denominator(10**6), Fraction(0))
    learner = UserAgnosticLearner(model.concept, EPSILON, **shape)
    return estimated(model, learner, learner.bind(data if cap is None else data.max_records(cap, "hash")))


ZIPF_METHODS = {
    "regret": "regret selection",
    "mean": "per-user averaging",
    "estimated": "t(m_i), estimated",
    "known": "t(m_i), noise known",
}


def zipf(name: str, datasets: int) -> list[list[str]]:
    """Rows: method, all records, every cap, difference to the best cap with its paired standard error."""
    model, rows = MODELS[name], []
    cost = costs(model)
    for method, title in ZIPF_METHODS.items():
        means = np.array(
            [
                [zipf_law(method, model, zipf_data(name, i), cap) @ cost for cap in (None, *CAPS)]
                for i in range(datasets)
            ]
        )
        average = means.mean(axis=0)
        best = 1 + int(np.argmin(average[1:]))
        apart = means[:, 0] - means[:, best]
        error = float(apart.std(ddof=1)) / datasets**0.5
        rows.append(
            [
                name,
                title,
                f"{average[0]:.4f}",
                *(f"{v:.4f}" for v in average[1:]),
                f"{apart.mean():+.4f} ± {error:.4f} ({CAPS[best - 1]})",
            ]
        )
    return rows


# Tables and the picture


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def tables(name: str, found: dict[int, dict[str, Pooled]], bounds: dict[int, dict[str, float | None]]) -> list[Grid]:
    heads = ["", *(f"m = {m}" for m in RECORDS)]
    means = [[METHODS[c], *(f"{found[m][c].mean:.4f} ± {found[m][c].error():.4f}" for m in RECORDS)] for c in METHODS]
    tails = [[METHODS[c], *(number(found[m][c].quantile) for m in RECORDS)] for c in METHODS]
    tails += [
        [f"certified: {c}" if c != "any" else "no learner beats", *(number(bounds[m][c]) for m in RECORDS)]
        for c in bounds[1]
    ]
    return [
        Grid(f"{name}, {N} users: mean excess error ± standard error", heads, means),
        Grid(f"{name}, {N} users: excess error exceeded with probability 0.05", heads, tails),
    ]


COLOURS = {"regret": "tab:red", "direct": "tab:green", "search": "tab:purple", "one": "tab:gray", "mean": "tab:blue"}
MARKS = {"regret": "o", "direct": "v", "search": "D", "one": "^", "mean": "s"}
CERTIFIED = {"regret": "tab:red", "regret, noise bound": "tab:orange", "direct": "tab:green", "search": "tab:purple"}


def picture(
    path: Path, found: dict[str, dict[int, dict[str, Pooled]]], bounds: dict[str, dict[int, dict[str, float | None]]]
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure, panels = plt.subplots(2, 2, figsize=(9.2, 7.4), sharex=True, sharey=True)
    for axes, name in zip(panels.flat, PANELS):
        for c in METHODS:
            y = [max(found[name][m][c].quantile, 1e-4) for m in RECORDS]
            axes.loglog(RECORDS, y, color=COLOURS[c], marker=MARKS[c], markersize=5, linewidth=1.5, label=METHODS[c])
        for c, colour in CERTIFIED.items():
            kept = [(m, bounds[name][m][c]) for m in RECORDS if bounds[name][m].get(c) is not None]
            if kept:
                axes.loglog(*zip(*kept), color=colour, linestyle="--", marker=".", linewidth=1, label=f"certified: {c}")
        kept = [(m, bounds[name][m]["any"]) for m in RECORDS if bounds[name][m]["any"] is not None]
        if kept:
            axes.loglog(
                *zip(*kept), color="black", linestyle=":", linewidth=1.3, label="no learner beats this on every law"
            )
        axes.set_title(name.replace("2^64", "$2^{64}$").replace("2^-40", "$2^{-40}$"), fontsize=10)
        axes.set_xticks(RECORDS, [str(m) for m in RECORDS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    for axes in panels[1]:
        axes.set_xlabel("records per user")
    for axes in panels[:, 0]:
        axes.set_ylabel("excess error, 95 % quantile")
    known = {label: line for axes in panels.flat for line, label in zip(*axes.get_legend_handles_labels())}
    figure.suptitle(
        f"{N} users, epsilon 1 per user: measured (solid), certified (dashed), out of reach on some law (dotted)",
        fontsize=11,
    )
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.legend(known.values(), known.keys(), loc="lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="2 data sets a cell, 4 runs of the search on each")
    size.add_argument("--full", action="store_true", help="48 data sets a cell, 20 runs of the search on each")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--plots", type=Path, help="folder for the picture")
    options = parser.parse_args()
    datasets, draws, unequal = (2, 4, 2) if options.quick else (48, 20, 24) if options.full else (12, 10, 8)
    console, start = Console(width=200), time.perf_counter()
    console.print(
        f"{datasets} data sets a cell, the search runs {draws} times on each; {unequal} data sets of Zipf users"
    )
    found: dict[str, dict[int, dict[str, Pooled]]] = {}
    bounds: dict[str, dict[int, dict[str, float | None]]] = {}
    for name in PANELS:
        found[name] = {m: measure(name, m, datasets, draws) for m in RECORDS}
        noise = ONE_LAW.get(name)
        upper = {m: {} if noise is None else certified(MODELS[name], m, noise) for m in RECORDS}
        bounds[name] = {m: upper[m] | {"any": impossible(MODELS[name], m)} for m in RECORDS}
        for grid in tables(name, found[name], bounds[name]):
            grid.show(console, markdown=options.markdown)
        console.print(f"{time.perf_counter() - start:.0f} s")
    rows = [row for name in ZIPF for row in zipf(name, unequal)]
    heads = ["model", "method", "all records", *(f"cap {cap}" for cap in CAPS), "all - best cap"]
    Grid(f"1 to 10^4 records, {ZIPF_USERS} users: mean excess error", heads, rows).show(
        console, markdown=options.markdown
    )
    if options.plots:
        picture(options.plots / "many-records.png", found, bounds)
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
