"""How errors shrink with users and records and grow with the size of the problem, next to the stated rates and the certified bounds.

    python benchmarks/scaling.py [--markdown] [--only gaussian] [--sets 12]

One line of sweeps for each row of Table 1 of seed 002 (pure user-level privacy) that a learner here implements; epsilon 1, add-remove.
For every sweep: the measured error, the slope of a straight line through it on log axes, the slope the stated rate has there, the error
the library certifies for that many users (failure 1/20; least on a grid of 2 %), and the error below which a lower bound says that no
private method succeeds with probability 2/3.  Rates are orders, without constants and logarithms: only slopes can be compared.

Selections are measured by the law of their output, nothing is sampled; the others are run with the system's randomness.  Data sets are
seeded; +- is the standard error over data sets.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from common import Grid, dense
from numpy.typing import NDArray
from rich.console import Console
from scipy.special import ndtr, ndtri

from privpac.bounds import (
    lower_agnostic_vc,
    lower_discrete,
    lower_gauss_mean,
    lower_littlestone,
    plan_pairwise,
    plan_realizable,
)
from privpac.bounds.certificate import Certificate
from privpac.concepts import Exceeds, FiniteClass, Thresholds
from privpac.data import Floats, Integers, UserData
from privpac.distributions import ClippedHistogram, CoarseToFineMean, CoverLearner, Gaussian
from privpac.errors import PrivpacError
from privpac.learners.pairwise import PairwiseSelection

Reals = NDArray[np.float64]
BETA = Fraction(1, 20)
GRID = [Fraction(round(0.98**i * 10**6), 10**6) for i in range(35, 400)]
"""Errors tried for a bound, from 0.49 down."""


# Bounds, read backwards


def least_certified(users: Callable[[Fraction], int | None], n: int) -> float | None:
    """The least error that so many users are certified for."""

    def holds(alpha: Fraction) -> bool:
        found = _quiet(users, alpha)
        return found is not None and found <= n

    return _last(holds)


def least_possible(users: Callable[[Fraction], int | None], n: int) -> float | None:
    """The largest error that needs more users than that."""

    def too_few(alpha: Fraction) -> bool:
        found = _quiet(users, alpha)
        return found is not None and found > n

    return _last(too_few, GRID[::-1])


def _quiet(users: Callable[[Fraction], int | None], alpha: Fraction) -> int | None:
    try:
        return users(alpha)
    except PrivpacError:
        return None


def _last(holds: Callable[[Fraction], bool], order: Sequence[Fraction] = GRID) -> float | None:
    """The last of the errors that hold, when they hold up to some place in the order."""
    if not holds(order[0]):
        return None
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(order[middle]) else (low, middle)
    return float(order[low])


# Sweeps


@dataclass(frozen=True)
class Sweep:
    """One number varied; ``error(value, seed)`` is the error on one data set."""

    row: str
    about: str
    axis: str
    values: Sequence[int]
    error: Callable[[int, int], float]
    stated: str
    certified: Callable[[int], float | None] | None = None
    lower: Callable[[int], float | None] | None = None

    def measured(self, sets: int) -> tuple[Reals, Reals]:
        found = np.array([[self.error(value, seed) for seed in range(sets)] for value in self.values])
        return found.mean(axis=1), found.std(axis=1, ddof=1) / math.sqrt(sets)

    def table(self, sets: int) -> tuple[Grid, list[str]]:
        mean, spread = self.measured(sets)
        rows = [["measured", *(f"{a:.4f} ± {b:.4f}" for a, b in zip(mean, spread))]]
        if self.certified is not None:
            rows.append(["certified", *(_shown(self.certified(value)) for value in self.values)])
        if self.lower is not None:
            rows.append(["no method below", *(_shown(self.lower(value)) for value in self.values)])
        heads = [f"{self.row}: {self.about}", *(f"{self.axis} = {value}" for value in self.values)]
        slope, width = _slope(np.array(self.values, float), mean, spread)
        return Grid("", heads, rows), [self.row, self.about, self.axis, f"{slope:.2f} ± {width:.2f}", self.stated]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _slope(x: Reals, y: Reals, spread: Reals) -> tuple[float, float]:
    """Least squares on log axes; the standard error is that of the measured errors."""
    u = np.log(x) - np.log(x).mean()
    weights = u / (u @ u)
    return float(weights @ np.log(y)), float(np.sqrt(weights**2 @ (spread / y) ** 2))


def weights_of(scores: NDArray[np.int64], rate: float) -> Reals:
    law = np.exp(-rate * (scores - scores.min()))
    return np.asarray(law / law.sum())


def people(x: NDArray[Any], m: int, features: dict[str, Any], y: Any = None) -> UserData:
    return UserData.from_arrays(x, y, np.arange(len(x)) // m, features=features)


# Rules


CUTS = 1 << 16


def realizable(n: int, m: int, seed: int) -> float:
    """Mean error over the law: 2**16 values, uniform, a cut in the middle, no noise."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, CUTS, n * m)
    concept = Thresholds(Integers(0, CUTS - 1), "x")
    scores = dense(concept.profile(people(x, m, {"x": concept.domain}, (x >= CUTS // 2).astype(int)), Exceeds(0)))
    return float(weights_of(scores, 1.0) @ (np.abs(np.arange(CUTS + 1) - CUTS // 2) / CUTS))


def realizable_certified(n: int, m: int) -> float | None:
    given: dict[str, Any] = {"log_size": math.log(CUTS + 1), "epsilon": 1, "beta": BETA, "records_per_user": m}
    return least_certified(lambda a: plan_realizable(alpha=a, **given).n_users, n)


def realizable_lower(n: int, m: int) -> float | None:
    return least_possible(lambda a: _users(lower_littlestone, 16, a, m), n)


def _users(bound: Callable[..., Certificate], size: int, alpha: Fraction, m: int) -> int | None:
    return bound(size, alpha=alpha, epsilon=1, records_per_user=m, neighbours="add-remove").n_users


BIASES = [2.0**-j for j in range(9)]


def agnostic(d: int, n: int, m: int, seed: int) -> float:
    """All 2**d labellings of d points, labels biased by a; the largest mean excess over the biases a, with common random numbers."""
    rng = np.random.default_rng(seed)
    x, coin = rng.integers(0, d, n * m), rng.random(n * m)
    rules = np.arange(1 << d)[:, None] >> np.arange(d) & 1
    concept = FiniteClass(rules, Integers(0, d - 1), feature="x")
    wrong = (rules == 0).mean(axis=1)
    clip = math.isqrt(m)
    learner = PairwiseSelection(concept, 1, tau=clip)
    found = []
    for bias in BIASES:
        data = people(x, m, {"x": Integers(0, d - 1)}, (coin < (1 + bias) / 2).astype(int))
        found.append(bias * float(weights_of(dense(learner.profile(data)), 1 / learner.range_sensitivity(clip)) @ wrong))
    return max(found)


def agnostic_certified(d: int, n: int, m: int) -> float | None:
    given: dict[str, Any] = {"log_size": d * math.log(2), "epsilon": 1, "beta": BETA, "records_per_user": m}
    return least_certified(lambda a: plan_pairwise(alpha1=a, **given).n_users, n)


# Mass functions


def masses(k: int) -> Reals:
    """Unequal masses between 1/2 and 3/2 of 1/k."""
    p = 0.5 + np.arange(1, k + 1) * 0.6180339887 % 1
    return np.asarray(p / p.sum())


def discrete_cover(k: int, n: int, m: int, seed: int) -> float:
    """Mean total variation over the law on a cover of radius 1/100."""
    rng = np.random.default_rng(seed)
    p = masses(k)
    domain = {"x": Integers(0, k - 1)}
    clip = math.isqrt(m)
    members: Any = CoverLearner("discrete", 1, alpha=Fraction(1, 5), cover_radius=Fraction(1, 100), tau=clip).cover(domain)
    top = members.unit * clip
    scores = members.scores(people(rng.choice(k, n * m, p=p), m, domain), top)
    law = weights_of(scores, 1 / members.range(top, None, "add-remove"))
    return float(law @ (np.abs(compositions(k, members.units) / members.units - p).sum(axis=1) / 2))


def compositions(k: int, units: int) -> NDArray[np.int64]:
    """All k counts that add up to ``units``, in lexicographic order."""
    axes = np.indices((units + 1,) * (k - 1)).reshape(k - 1, -1).T
    kept = axes[axes.sum(axis=1) <= units]
    return np.column_stack([kept, units - kept.sum(axis=1)])


def discrete_certified(k: int, n: int, m: int) -> float | None:
    """Selection from a cover whose radius is a tenth of the error."""

    def users(alpha: Fraction) -> int | None:
        size = math.lgamma((units := math.ceil(2.5 * k / alpha)) + k) - math.lgamma(k) - math.lgamma(units + 1)
        return pairwise_users(size, alpha, m)

    return least_certified(users, n)


def pairwise_users(log_size: float, alpha: Fraction, m: int) -> int | None:
    given: dict[str, Any] = {"epsilon": 1, "beta": BETA, "records_per_user": m, "width": 1, "clip_step": Fraction(1, 4)}
    return plan_pairwise(log_size=log_size, alpha0=alpha / 10, alpha1=alpha * Fraction(4, 5), **given).n_users


def discrete_lower(k: int, n: int, m: int) -> float | None:
    return least_possible(lambda a: _users(lower_discrete, k, a, m), n)


def histogram(k: int, n: int, m: int, stages: int, seed: int, draws: int = 4) -> float:
    rng = np.random.default_rng(seed)
    p = masses(k)
    data = people(rng.choice(k, n * m, p=p), m, {"x": Integers(0, k - 1)})
    learner = ClippedHistogram(1, max_records=m, stages=stages)
    return float(np.mean([np.abs(learner.learn(data).hypothesis.probabilities - p).sum() / 2 for _ in range(draws)]))


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
        parts = learner.learn(data).hypothesis.parts if d > 1 else [learner.learn(data).hypothesis]
        ours, true = np.ones(1), np.ones(1)
        for part in parts:
            ours, true = np.outer(ours, part.probabilities).ravel(), np.outer(true, p).ravel()
        found.append(np.abs(ours - true).sum() / 2)
    return float(np.mean(found))


def product_certified(d: int, n: int, m: int) -> float | None:
    def users(alpha: Fraction) -> int | None:
        return pairwise_users(d * math.log(math.ceil(5 * d / alpha) + 1), alpha, m)

    return least_certified(users, n)


# Normal means


RADIUS = 10


def gaussian(d: int, n: int, m: int, seed: int, draws: int = 8) -> float:
    """Mean total variation of N(mean, I); coarse to fine."""
    rng = np.random.default_rng(seed)
    true = rng.uniform(-3, 3, d)
    data = people(rng.normal(true, 1, (n * m, d)), m, {f"x{j}": Floats() for j in range(d)})
    learner = CoarseToFineMean(1, radius=RADIUS, records_per_user=m)
    means = np.array([learner.learn(data).hypothesis.mean for _ in range(draws)])
    return float(np.mean(2 * ndtr(np.linalg.norm(means - true, axis=1) / 2) - 1))


def gaussian_cover(n: int, m: int, seed: int) -> float:
    """Mean total variation over the law on a cover of radius 1/100, one column."""
    rng = np.random.default_rng(seed)
    true = rng.uniform(-3, 3)
    domain = {"x": Floats()}
    clip = math.isqrt(m)
    members: Any = CoverLearner(Gaussian(radius=RADIUS), 1, alpha=Fraction(1, 5), cover_radius=Fraction(1, 100), tau=clip).cover(domain)
    top = members.unit * clip
    law = weights_of(members.scores(people(rng.normal(true, 1, n * m), m, domain), top), 1 / members.range(top, None, "add-remove"))
    means = float(members.start) + float(members.step) * np.arange(members.size)
    return float(law @ (2 * ndtr(np.abs(means - true) / 2) - 1))


def gaussian_certified(d: int, n: int, m: int) -> float | None:
    def users(alpha: Fraction) -> int | None:
        spacing = 2 * float(ndtri((1 + float(alpha) / 10) / 2))
        return pairwise_users(d * math.log(math.ceil(RADIUS * math.sqrt(d) / spacing)), alpha, m)

    return least_certified(users, n)


def gaussian_lower(d: int, n: int, m: int) -> float | None:
    return least_possible(lambda a: _users(lower_gauss_mean, d, a, m), n)


def agnostic_lower(d: int, n: int, m: int) -> float | None:
    return least_possible(lambda a: _users(lower_agnostic_vc, d, a, m), n)


# The table


USERS, RECORDS = (100, 200, 400, 800), (1, 4, 16, 64)


def sweeps() -> list[Sweep]:
    pac, agn, disc, prod, gauss = "realizable PAC", "agnostic PAC", "discrete distribution", "product distribution", "Gaussian mean"
    # fmt: off
    return [
        Sweep(pac, "2^16 cuts, m = 4", "n", USERS, lambda v, s: realizable(v, 4, s), "-1",
              lambda v: realizable_certified(v, 4), lambda v: realizable_lower(v, 4)),
        Sweep(pac, "2^16 cuts, n = 200", "m", RECORDS, lambda v, s: realizable(200, v, s), "-1",
              lambda v: realizable_certified(200, v), lambda v: realizable_lower(200, v)),
        Sweep(agn, "16 labellings, m = 16", "n", USERS, lambda v, s: agnostic(4, v, 16, s), "-1 to -1/2",
              lambda v: agnostic_certified(4, v, 16), lambda v: agnostic_lower(4, v, 16)),
        Sweep(agn, "16 labellings, n = 200", "m", RECORDS, lambda v, s: agnostic(4, 200, v, s), "-1/2",
              lambda v: agnostic_certified(4, 200, v), lambda v: agnostic_lower(4, 200, v)),
        Sweep(agn, "2^d labellings, n = 200, m = 16", "d", (2, 4, 6, 8), lambda v, s: agnostic(v, 200, 16, s), "1/2 to 1",
              lambda v: agnostic_certified(v, 200, 16), lambda v: agnostic_lower(v, 200, 16)),
        Sweep(disc, "cover, k = 3, m = 16", "n", USERS, lambda v, s: discrete_cover(3, v, 16, s), "-1 to -1/2",
              lambda v: discrete_certified(3, v, 16), lambda v: discrete_lower(3, v, 16)),
        Sweep(disc, "cover, k = 3, n = 100", "m", RECORDS, lambda v, s: discrete_cover(3, 100, v, s), "-1/2",
              lambda v: discrete_certified(3, 100, v), lambda v: discrete_lower(3, 100, v)),
        Sweep(disc, "cover, n = 100, m = 16", "k", (2, 3, 4), lambda v, s: discrete_cover(v, 100, 16, s), "1/2 to 1",
              lambda v: discrete_certified(v, 100, 16), lambda v: discrete_lower(v, 100, 16)),
        Sweep(disc, "histogram, one stage, k = 16, m = 16", "n", USERS, lambda v, s: histogram(16, v, 16, 1, s), "-1 to -1/2"),
        Sweep(disc, "histogram, one stage, k = 16, n = 200", "m", (16, 64, 256, 1024), lambda v, s: histogram(16, 200, v, 1, s), "-1/2"),
        Sweep(disc, "histogram, two stages, k = 16, n = 800", "m", (64, 256, 1024, 4096),
              lambda v, s: histogram(16, 800, v, 2, s, 2), "-1/2"),
        Sweep(disc, "histogram, one stage, n = 800, m = 64", "k", (4, 16, 64, 256), lambda v, s: histogram(v, 800, 64, 1, s), "1/2 to 1",
              None, lambda v: discrete_lower(v, 800, 64)),
        Sweep(disc, "histogram, two stages, n = 800, m = 1024", "k", (4, 8, 16, 32),
              lambda v, s: histogram(v, 800, 1024, 2, s, 2), "1/2 to 1"),
        Sweep(prod, "2 values, one stage, d = 4, m = 16", "n", USERS, lambda v, s: product(4, v, 16, s), "-1 to -1/2",
              lambda v: product_certified(4, v, 16)),
        Sweep(prod, "2 values, one stage, d = 4, n = 200", "m", RECORDS, lambda v, s: product(4, 200, v, s), "-1/2",
              lambda v: product_certified(4, 200, v)),
        Sweep(prod, "2 values, one stage, n = 800, m = 64", "d", (1, 2, 4, 8), lambda v, s: product(v, 800, 64, s), "1/2 to 1",
              lambda v: product_certified(v, 800, 64)),
        Sweep(gauss, "cover, d = 1, m = 16", "n", USERS, lambda v, s: gaussian_cover(v, 16, s), "-1 to -1/2",
              lambda v: gaussian_certified(1, v, 16)),
        Sweep(gauss, "coarse to fine, d = 1, m = 16", "n", USERS, lambda v, s: gaussian(1, v, 16, s), "-1 to -1/2",
              lambda v: gaussian_certified(1, v, 16), lambda v: gaussian_lower(1, v, 16)),
        Sweep(gauss, "coarse to fine, d = 1, n = 200", "m", RECORDS, lambda v, s: gaussian(1, 200, v, s), "-1/2",
              lambda v: gaussian_certified(1, 200, v), lambda v: gaussian_lower(1, 200, v)),
        Sweep(gauss, "coarse to fine, n = 1600, m = 16", "d", (1, 2, 4, 8, 16), lambda v, s: gaussian(v, 1600, 16, s), "1/2 to 1",
              lambda v: gaussian_certified(v, 1600, 16), lambda v: gaussian_lower(v, 1600, 16)),
    ]
    # fmt: on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=12, help="data sets for each figure, at least 2")
    parser.add_argument("--only", default="", help="sweeps whose name contains this")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--time", action="store_true", help="print the processor time of every sweep")
    options = parser.parse_args()
    console, found = Console(width=150), []
    warnings.simplefilter("ignore")
    for sweep in (s for s in sweeps() if options.only in f"{s.row}: {s.about}"):
        start = time.process_time()
        grid, line = sweep.table(max(2, options.sets))
        grid.show(console, markdown=options.markdown)
        found.append(line)
        if options.time:
            console.print(f"{time.process_time() - start:.1f} s")
    heads = ["row of the table", "instance", "varied", "measured slope", "slope of the rate"]
    Grid("Slopes on log axes", heads, found).show(console, markdown=options.markdown)


if __name__ == "__main__":
    main()
