"""How errors shrink with users and records and grow with the size of the problem, next to the stated rates and the
certified bounds.

    python benchmarks/scaling.py [--markdown] [--only Gaussian] [--sets 40]

One line of sweeps for each row of Table 1 of Ghazi et al., *Few Examples* (pure user-level privacy) that a learner here
implements; epsilon 1, add-remove. For every sweep: the measured error, the slope of a straight line through it on log
axes, the slope the stated rate has there, the error the library certifies for that many users (failure 1/20; least on a
grid of 2 %), and the error below which a lower bound says that no private method succeeds with probability 2/3.  Rates
are orders, without constants and logarithms: only slopes can be compared.

Comparisons of pairs need a clip; both the root of m and the planner's clip for the least error certified with that many
users are measured. Selections are measured by the law of their output, nothing is sampled; the others are run with the
system's randomness.  Data sets are seeded; +- is the standard error over data sets.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from common import Grid, dense
from numpy.typing import NDArray
from rich.console import Console
from scaling_normal import (
    COARSE,
    FINE,
    NEAR,
    REACH,
    gaussian,
    gaussian_certified,
    gaussian_clip,
    gaussian_cover,
    gaussian_lower,
    spread,
    spread_certified,
    spread_clip,
    spread_cover,
)
from sweeps import (
    BETA,
    Sweep,
    cover,
    cover_clip,
    least_certified,
    least_possible,
    lower_users,
    pairwise_users,
    people,
    selected,
    weights_of,
)

from privpac.data import Integers, UserData
from privpac.distributions import ClippedHistogram
from privpac.distributions.selection.accuracy import plan_pairwise, plan_scheffe
from privpac.lower_bounds import lower_agnostic_vc, lower_discrete, lower_littlestone
from privpac.methods.realizable import RealizableSelection, plan_realizable
from privpac.papers.few_examples_per_user.pairwise import PairwiseSelection
from privpac.rules import Exceeds, FiniteClass, Thresholds
from privpac.sample_size import Certificate

Reals = NDArray[np.float64]


# Rules


CUTS = 1 << 16


def realizable(n: int, m: int, seed: int) -> float:
    """Mean error over the law: 2**16 values, uniform, a cut in the middle, no noise."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, CUTS, n * m)
    concept = Thresholds(Integers(0, CUTS - 1), "x")
    scores = dense(concept.profile(people(x, m, {"x": concept.domain}, (x >= CUTS // 2).astype(int)), Exceeds(0)))
    return float(weights_of(scores, 1.0) @ (np.abs(np.arange(CUTS + 1) - CUTS // 2) / CUTS))


def users_needed(bits: int, seed: int) -> int:
    """The least users with mean error 1/20 when one of 2**bits + 1 cuts is right and all others err on half of the
    records."""
    middle, rng = 1 << (bits - 1), np.random.default_rng(seed)
    sides = rng.integers(0, 2, 4 * bits + 100)
    learner = RealizableSelection(Thresholds(Integers(0, (1 << bits) - 1), "x"), Fraction(1))

    def error(n: int) -> float:
        data = UserData.from_users(
            [[(middle - int(y == 0), int(y))] for y in sides[:n]], features={"x": Integers(0, (1 << bits) - 1)}
        )
        return (1 - learner.law(data).prob_float(middle)) / 2

    low, high = 0, len(sides)
    while high - low > 1:
        half = (low + high) // 2
        low, high = (half, high) if error(half) > 0.05 else (low, half)
    return high


def needed_certified(bits: int) -> int | None:
    # Mean error 1/20 where an error is 1/2: failure 1/10.
    return plan_realizable(
        log_size=math.log(2**bits + 1), epsilon=1, alpha="0.49", beta="1/10", records_per_user=1
    ).n_users


def realizable_certified(n: int, m: int) -> float | None:
    given: dict[str, Any] = {"log_size": math.log(CUTS + 1), "epsilon": 1, "beta": BETA, "records_per_user": m}
    return least_certified(lambda a: plan_realizable(alpha=a, **given).n_users, n)


def realizable_lower(n: int, m: int) -> float | None:
    return least_possible(lambda a: lower_users(lower_littlestone, 16, a, m), n)


BIASES = [2.0**-j for j in range(9)]


def agnostic(d: int, n: int, m: int, seed: int, clip: Fraction | None) -> list[float]:
    """All 2**d labellings of d points, labels biased by a: the mean excess over the law, for several biases."""
    rng = np.random.default_rng(seed)
    x, coin = rng.integers(0, d, n * m), rng.random(n * m)
    rules = np.arange(1 << d)[:, None] >> np.arange(d) & 1
    concept = FiniteClass(rules, Integers(0, d - 1), feature="x")
    wrong = (rules == 0).mean(axis=1)
    tau = math.isqrt(m) if clip is None else int(clip)
    learner = PairwiseSelection(concept, Fraction(1), tau=tau)
    found = []
    for bias in BIASES:
        data = people(x, m, {"x": Integers(0, d - 1)}, (coin < (1 + bias) / 2).astype(int))
        found.append(bias * float(weights_of(dense(learner.profile(data)), 1 / learner.range_sensitivity(tau)) @ wrong))
    return found


def agnostic_plan(d: int, m: int, alpha: Any) -> Certificate:
    return plan_pairwise(alpha1=alpha, log_size=d * math.log(2), epsilon=1, beta=BETA, records_per_user=m)


def agnostic_certified(d: int, n: int, m: int) -> float | None:
    return least_certified(lambda a: agnostic_plan(d, m, a).n_users, n)


def agnostic_clip(d: int, n: int, m: int) -> Fraction | None:
    alpha = agnostic_certified(d, n, m)
    return None if alpha is None else Fraction(agnostic_plan(d, m, alpha)["tau"])


def agnostic_lower(d: int, n: int, m: int) -> float | None:
    return least_possible(lambda a: lower_users(lower_agnostic_vc, d, a, m), n)


# Mass functions


def masses(k: int) -> Reals:
    """Unequal masses between 1/2 and 3/2 of 1/k."""
    p = 0.5 + np.arange(1, k + 1) * 0.6180339887 % 1
    return np.asarray(p / p.sum())


def discrete_cover(k: int, n: int, m: int, seed: int, clip: Fraction | None) -> float:
    """Mean total variation over the law on a cover of radius 1/200."""
    rng = np.random.default_rng(seed)
    p = masses(k)
    members = cover("discrete", k)
    law = selected(members, people(rng.choice(k, n * m, p=p), m, {"x": Integers(0, k - 1)}), m, clip)
    return float(law @ (np.abs(compositions(k, members.units) / members.units - p).sum(axis=1) / 2))


@cache
def compositions(k: int, units: int) -> NDArray[np.int16]:
    """All k counts that add up to ``units``, in lexicographic order."""
    axes = np.indices((units + 1,) * (k - 1), dtype=np.int16).reshape(k - 1, -1).T
    kept = axes[axes.sum(axis=1) <= units]
    return np.column_stack([kept, units - kept.sum(axis=1)])


def discrete_certified(k: int, n: int, m: int) -> float | None:
    """Selection from a cover whose radius is a tenth of the error."""

    def users(alpha: Fraction) -> int | None:
        size = math.lgamma((units := math.ceil(2.5 * k / alpha)) + k) - math.lgamma(k) - math.lgamma(units + 1)
        return pairwise_users(size, alpha, m)

    return least_certified(users, n)


def discrete_clip(k: int, n: int, m: int) -> Fraction | None:
    return cover_clip(cover("discrete", k), "discrete", n, m)


def discrete_lower(k: int, n: int, m: int) -> float | None:
    return least_possible(lambda a: lower_users(lower_discrete, k, a, m), n)


def histogram(k: int, n: int, m: int, stages: int, seed: int, draws: int = 4) -> float:
    rng = np.random.default_rng(seed)
    p = masses(k)
    data = people(rng.choice(k, n * m, p=p), m, {"x": Integers(0, k - 1)})
    learner = ClippedHistogram(1, max_records=m, stages=stages)
    return float(np.mean([np.abs(learner.learn(data).value.probabilities - p).sum() / 2 for _ in range(draws)]))


def product(d: int, n: int, m: int, seed: int, draws: int = 4) -> float:
    """d columns of 2 values each, one stage each; total variation over all 2**d cells."""
    rng = np.random.default_rng(seed)
    p = masses(2)
    x = (rng.random((n * m, d)) < p[1]).astype(int)
    features = {f"x{j}": Integers(0, 1) for j in range(d)}
    learner = ClippedHistogram(1, max_records=m, stages=1)
    data = people(x, m, features)
    found = []
    for _ in range(draws):
        parts = learner.learn(data).value.parts if d > 1 else [learner.learn(data).value]
        ours, true = np.ones(1), np.ones(1)
        for part in parts:
            ours, true = np.outer(ours, part.probabilities).ravel(), np.outer(true, p).ravel()
        found.append(np.abs(ours - true).sum() / 2)
    return float(np.mean(found))


def product_certified(d: int, n: int, m: int) -> float | None:
    def users(alpha: Fraction) -> int | None:
        return pairwise_users(d * math.log(math.ceil(5 * d / alpha) + 1), alpha, m)

    return least_certified(users, n)


# Users certified for selection among known candidates


def known_candidates() -> Grid:
    """100 candidates whose sets may have any probability: what clipping takes bounded (C2), and computed from binomial
    laws."""
    heads = ["100 candidates", *(f"m = {m}" for m in PLANNED)]
    rows = []
    for alpha in (Fraction(1, 5), Fraction(1, 10)):
        given: dict[str, Any] = {
            "log_size": math.log(100),
            "epsilon": 1,
            "alpha1": alpha,
            "beta": BETA,
            "clip_step": Fraction(1, 4),
        }
        plans = [
            (
                plan_pairwise(width=1, records_per_user=m, **given),
                plan_scheffe(probabilities=EVERY, records_per_user=m, **given),
            )
            for m in PLANNED
        ]
        for name, at in (("bounded", 0), ("computed", 1)):
            rows.append(
                [
                    f"error {float(alpha):g}, {name}",
                    *(f"{pair[at].n_users} (clip {float(pair[at]['tau']):g})" for pair in plans),
                ]
            )
    return Grid("Users certified, hypothesis selection", heads, rows)


PLANNED = (1, 4, 16, 64, 256)
EVERY = [Fraction(k, 256) for k in range(1, 257)]


# The table


USERS, RECORDS = (100, 200, 400, 800), (1, 4, 16, 64)
ONCE, HALF, FALL, RISE, SQUARE = (-1.0, -1.0), (-0.5, -0.5), (-1.0, -0.5), (0.5, 1.0), (1.0, 2.0)
PAC, AGN, DISC, PROD, NORMAL = (
    "realizable PAC",
    "agnostic PAC",
    "discrete distribution",
    "product distribution",
    "Gaussian mean",
)
SPREAD = "Gaussian, covariance unknown"
ONE = "one stage gains nothing from more records"
ROUGH = "the cover is as coarse as the errors"
TWO = "own order k^1.5: a factor sqrt k above the rate"


# fmt: off
def sweeps() -> list[Sweep]:
    return [
        Sweep(PAC, "2^16 cuts, m = 4", "n", USERS, lambda v, s: realizable(v, 4, s), ONCE, "",
              lambda v: realizable_certified(v, 4), lambda v: realizable_lower(v, 4)),
        Sweep(PAC, "2^16 cuts, n = 200", "m", RECORDS, lambda v, s: realizable(200, v, s), ONCE, "",
              lambda v: realizable_certified(200, v), lambda v: realizable_lower(200, v)),
        Sweep(PAC, "users for error 1/20 among 2^d cuts, m = 1", "d", (8, 16, 32, 64), users_needed, (1, 1),
              "a constant per d; ln(1/failure) adds to it", needed_certified),
        Sweep(AGN, "16 labellings, m = 16", "n", USERS, lambda v, s, c: agnostic(4, v, 16, s, c), FALL, "",
              lambda v: agnostic_certified(4, v, 16), lambda v: agnostic_lower(4, v, 16), times=5,
              clip=lambda v: agnostic_clip(4, v, 16)),
        Sweep(AGN, "16 labellings, n = 200", "m", RECORDS, lambda v, s, c: agnostic(4, 200, v, s, c), HALF, "",
              lambda v: agnostic_certified(4, 200, v), lambda v: agnostic_lower(4, 200, v), times=5,
              clip=lambda v: agnostic_clip(4, 200, v)),
        Sweep(AGN, "2^d labellings, n = 200, m = 16", "d", (2, 4, 6, 8), lambda v, s, c: agnostic(v, 200, 16, s, c), RISE, "",
              lambda v: agnostic_certified(v, 200, 16), lambda v: agnostic_lower(v, 200, 16), times=5,
              clip=lambda v: agnostic_clip(v, 200, 16)),
        Sweep(DISC, "cover, k = 3, m = 16", "n", USERS, lambda v, s, c: discrete_cover(3, v, 16, s, c), FALL, "",
              lambda v: discrete_certified(3, v, 16), lambda v: discrete_lower(3, v, 16), clip=lambda v: discrete_clip(3, v, 16)),
        Sweep(DISC, "cover, k = 3, n = 100", "m", RECORDS, lambda v, s, c: discrete_cover(3, 100, v, s, c), HALF, "",
              lambda v: discrete_certified(3, 100, v), lambda v: discrete_lower(3, 100, v), clip=lambda v: discrete_clip(3, 100, v)),
        Sweep(DISC, "cover, n = 100, m = 16", "k", (2, 3, 4), lambda v, s, c: discrete_cover(v, 100, 16, s, c), RISE,
              "the order counts k - 1", lambda v: discrete_certified(v, 100, 16), lambda v: discrete_lower(v, 100, 16),
              clip=lambda v: discrete_clip(v, 100, 16)),
        Sweep(DISC, "one stage, k = 16, m = 16", "n", USERS, lambda v, s: histogram(16, v, 16, 1, s), FALL),
        Sweep(DISC, "one stage, k = 16, n = 200", "m", (16, 64, 256, 1024), lambda v, s: histogram(16, 200, v, 1, s), HALF, ONE),
        Sweep(DISC, "one stage, n = 800, m = 64", "k", (4, 16, 64, 256), lambda v, s: histogram(v, 800, 64, 1, s), RISE, "",
              None, lambda v: discrete_lower(v, 800, 64)),
        Sweep(DISC, "two stages, k = 16, n = 800", "m", (64, 256, 1024, 4096), lambda v, s: histogram(16, 800, v, 2, s, 2), HALF),
        Sweep(DISC, "two stages, n = 800, m = 1024", "k", (4, 8, 16, 32), lambda v, s: histogram(v, 800, 1024, 2, s, 2), RISE, TWO,
              None, lambda v: discrete_lower(v, 800, 1024)),
        Sweep(PROD, "2 values, d = 4, m = 16", "n", USERS, lambda v, s: product(4, v, 16, s), FALL, "",
              lambda v: product_certified(4, v, 16), proper=False),
        Sweep(PROD, "2 values, d = 4, n = 200", "m", RECORDS, lambda v, s: product(4, 200, v, s), HALF, ONE,
              lambda v: product_certified(4, 200, v), proper=False),
        Sweep(PROD, "2 values, n = 800, m = 64", "d", (1, 2, 4, 8), lambda v, s: product(v, 800, 64, s), RISE,
              "columns share epsilon: own order d^1.5", lambda v: product_certified(v, 800, 64), proper=False),
        Sweep(NORMAL, "cover, d = 1, m = 4", "n", USERS, lambda v, s, c: gaussian_cover(v, 4, s, c), FALL, "",
              lambda v: gaussian_certified(1, v, 4), lambda v: gaussian_lower(1, v, 4), clip=lambda v: gaussian_clip(v, 4)),
        Sweep(NORMAL, "coarse to fine, d = 1, m = 16", "n", USERS, lambda v, s: gaussian(1, v, 16, s), FALL, "",
              lambda v: gaussian_certified(1, v, 16), lambda v: gaussian_lower(1, v, 16), proper=False),
        Sweep(NORMAL, "coarse to fine, d = 1, n = 200", "m", RECORDS, lambda v, s: gaussian(1, 200, v, s), HALF, "",
              lambda v: gaussian_certified(1, 200, v), lambda v: gaussian_lower(1, 200, v), proper=False),
        Sweep(NORMAL, "coarse to fine, n = 1600, m = 16", "d", (1, 2, 4, 8, 16), lambda v, s: gaussian(v, 1600, 16, s), RISE,
              "columns share epsilon: own order d^1.5", lambda v: gaussian_certified(v, 1600, 16),
              lambda v: gaussian_lower(v, 1600, 16), proper=False),
        Sweep(SPREAD, "cover, d = 1, m = 4", "n", USERS, lambda v, s, c: spread_cover(1, v, 4, FINE, REACH, s, c), FALL, "",
              lambda v: spread_certified(1, v, 4), lambda v: gaussian_lower(1, v, 4),
              clip=lambda v: spread_clip(1, v, 4, FINE, REACH)),
        Sweep(SPREAD, "cover, d = 1, n = 100", "m", RECORDS, lambda v, s, c: spread_cover(1, 100, v, FINE, REACH, s, c), HALF, "",
              lambda v: spread_certified(1, 100, v), lambda v: gaussian_lower(1, 100, v),
              clip=lambda v: spread_clip(1, 100, v, FINE, REACH)),
        Sweep(SPREAD, "cover of radius 1/5, d = 2, m = 4", "n", (25, 50, 100, 200, 400),
              lambda v, s: spread_cover(2, v, 4, COARSE, NEAR, s, None), FALL, ROUGH,
              lambda v: spread_certified(2, v, 4, NEAR), lambda v: gaussian_lower(2, v, 4), proper=False),
        Sweep(SPREAD, "coarse to fine, d = 2, m = 16", "n", (400, 800, 1600, 3200), lambda v, s: spread(2, v, 16, s), FALL, "",
              lambda v: spread_certified(2, v, 16), lambda v: gaussian_lower(2, v, 16), proper=False),
        Sweep(SPREAD, "coarse to fine, d = 2, n = 800", "m", (4, 16, 64, 256), lambda v, s: spread(2, 800, v, s), HALF, "",
              lambda v: spread_certified(2, 800, v), lambda v: gaussian_lower(2, 800, v), proper=False),
        Sweep(SPREAD, "coarse to fine, n = 6400, m = 16", "d", (1, 2, 4, 8), lambda v, s: spread(v, 6400, 16, s, 2), SQUARE,
              "entries share epsilon: own order d^3", lambda v: spread_certified(v, 6400, 16),
              lambda v: gaussian_lower(v, 6400, 16), proper=False),
    ]
# fmt: on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=40, help="data sets for each figure, at least 2")
    parser.add_argument("--only", default="", help="sweeps whose name contains this")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--time", action="store_true", help="print the processor time of every sweep")
    options = parser.parse_args()
    console, found = Console(width=150), []
    warnings.simplefilter("ignore")
    for sweep in (s for s in sweeps() if options.only in f"{s.row}: {s.about}"):
        start = time.process_time()
        grid, lines = sweep.table(max(2, options.sets))
        grid.show(console, markdown=options.markdown)
        found.extend(lines)
        if options.time:
            console.print(f"{time.process_time() - start:.1f} s")
    if options.only in "hypothesis selection":
        known_candidates().show(console, markdown=options.markdown)
    heads = ["row of the table", "instance", "varied", "measured slope", "slope of the rate", "remark"]
    Grid("Slopes on log axes", heads, found).show(console, markdown=options.markdown)


if __name__ == "__main__":
    main()
