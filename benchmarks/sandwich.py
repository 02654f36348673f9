"""Certified numbers of users next to measured ones and to lower bounds: lower <= measured <= certified.

    python benchmarks/sandwich.py [--quick] [--markdown]

Cut-offs on 256 points, x uniform, the best cut in the middle, every label wrong with the same probability.  For each cell of
(epsilon, alpha, records per user) and each planned method the *measured* number is the least n, found by doubling and bisection on
nested seeded data sets, at which the probability of an excess error above alpha, averaged over the data sets, is at most beta.  The
probability is that of the law of the output, in double precision; the mechanism is never sampled.  Every method runs with the
parameters that its certificate chose (a clip, a truncation, an accuracy of the estimate) and add-remove neighbours.

Certified numbers and lower bounds speak of the worst law their assumption allows, measured numbers of the one above.  So a measured
number above the certified one, or a failure above beta at the certified number, would refute a certificate; a measured number below
the lower bound would refute nothing, and says only that this law is easier than the worst.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from common import Grid, risk
from numpy.typing import NDArray
from rich.console import Console

from privpac.bounds import Certificate, lower_littlestone
from privpac.concepts import Thresholds
from privpac.concepts.statistics import Exceeds
from privpac.data import Integers, UserData
from privpac.guarantee import Neighbours
from privpac.learners.agnostic import UserAgnosticLearner
from privpac.learners.base import Bound, profile_of
from privpac.learners.pairwise import PairwiseSelection
from privpac.learners.realizable import RealizableSelection
from privpac.learners.regret import RegretSelection
from privpac.planning.plan import Target

__all__ = ["Cell", "Line", "World", "failure", "measure"]

POINTS, BETA = 256, Fraction(1, 10)
EPSILONS, ALPHAS, RECORDS = (1, 4), (Fraction(1, 20), Fraction(1, 10)), (4, 16, 64)
NOISE = (Fraction(1, 10), Fraction(3, 10))
"""Label noise of the agnostic rows; the certificate for bounded noise assumes the larger."""
CONCEPT = Thresholds(Integers(0, POINTS - 1), "x")


# The model


@dataclass(frozen=True)
class World:
    """Seeded data sets of one noise rate; the first n users of a larger draw are the draw of n users."""

    noise: Fraction
    records: int
    datasets: int

    @cached_property
    def excess(self) -> NDArray[np.float64]:
        return np.abs(np.arange(POINTS + 1) - POINTS // 2) / POINTS * float(1 - 2 * self.noise)

    def first(self, n: int) -> Iterator[UserData]:
        for i in range(self.datasets):
            # A stream for the points and one for the flips, so that both are nested in n.
            points, flips = (np.random.default_rng([POINTS, int(100 * self.noise), self.records, i, k]) for k in (0, 1))
            x = points.integers(0, POINTS, n * self.records)
            y = (x >= POINTS // 2) ^ (flips.random(len(x)) < float(self.noise))
            owners = np.repeat(np.arange(n), self.records)
            yield UserData.from_arrays(x[:, None], y, owners, features={"x": CONCEPT.domain})


# One method on one data set


def failure(method: str, certificate: Certificate, cell: Cell, world: World, data: UserData) -> float:
    """Probability, over the law of the output, of an excess error above alpha."""
    epsilon, alpha = Fraction(cell.epsilon), float(cell.alpha)
    if method == "realizable selection":
        realizable = RealizableSelection(CONCEPT, epsilon, max_records=certificate["records_per_user"], tolerance=certificate["tolerance"])
        profile = profile_of(realizable.bind(data), realizable.statistic)
        return risk(profile, float(realizable.rate(epsilon, 1)), world.excess, alpha)[0]
    if method == "pairwise selection":
        pairwise = PairwiseSelection(CONCEPT, epsilon, tau=int(certificate["tau"]))
        rate = epsilon / pairwise.range_sensitivity(int(certificate["tau"]))
        return risk(pairwise.profile(data), float(rate), world.excess, alpha)[0]
    if method == "user agnostic selection":
        learner = agnostic_learner(certificate, cell)
        bound = learner.bind(data)
        return sum(
            chance * risk(profile_of(bound, Exceeds(t)), float(learner.rate(learner.epsilon_rest, 1)), world.excess, alpha)[0]
            for t, chance in _tolerances(learner, bound, certificate["records_per_user"]).items()
        )
    statistic = "mean" if method == "per-user mean" else "regret"
    regret = RegretSelection(CONCEPT, epsilon, public_n_users=data.n_users, statistic=statistic)
    bound = regret.bind(data)
    rate = regret.rate(epsilon, regret.levels)
    return risk(profile_of(bound, regret.statistic_for(bound, data.n_users)), float(rate), world.excess, alpha)[0]


def agnostic_learner(certificate: Certificate, cell: Cell) -> UserAgnosticLearner:
    """The learner as the certificate describes it; without an estimate nothing is known of the least error."""
    m, accuracy = certificate["records_per_user"], certificate["estimate"]
    half = Fraction(1, 2)
    return UserAgnosticLearner(
        CONCEPT,
        Fraction(cell.epsilon),
        max_records=m,
        alpha=cell.alpha,
        estimator="bisect",
        noise=(half, half) if accuracy == "none" else None,
        radius=None if accuracy == "none" else accuracy,
    )


def _tolerances(learner: UserAgnosticLearner, bound: Bound, m: int) -> dict[int, float]:
    """The law of the number of mistakes forgiven."""
    if not learner.estimates:
        table = learner.tolerance_given(None)
        return {table if isinstance(table, int) else table(m): 1.0}  # type: ignore[operator]
    found: dict[int, float] = {}
    estimates = learner.estimate_learner.law_of(bound).as_finite()
    for value in estimates.values():
        t = learner.tolerance_given(value)(m)  # type: ignore[operator]
        found[t] = found.get(t, 0.0) + float(estimates.prob(value))
    return found


# One cell


@dataclass(frozen=True)
class Cell:
    """What is asked for."""

    epsilon: int
    alpha: Fraction
    records: int

    @cached_property
    def certificates(self) -> dict[str, Certificate]:
        """The rows of ``plan_users``, with the parameters they chose."""
        target = Target(CONCEPT, Fraction(self.epsilon), self.alpha, BETA, Neighbours.ADD_REMOVE, max(NOISE))
        return {method: certify(self.records) for method, certify, _, _ in target.methods(None)}

    def lower(self, method: str) -> int:
        """No learner of this kind keeps the promise with fewer users, on the worst law."""
        tree = lower_littlestone(
            CONCEPT.bits,
            alpha=self.alpha,
            epsilon=self.epsilon,
            records_per_user=self.records,
            success=1 - BETA,
            neighbours=Neighbours.ADD_REMOVE,
        )
        agnostic = self.certificates["any private agnostic learner"]
        return tree.n_users or 0 if method == "realizable selection" else max(tree.n_users or 0, agnostic.n_users or 0)


@dataclass(frozen=True)
class Line:
    """One method in one cell: a measured number for each noise rate, and the largest failure at the certified number."""

    cell: Cell
    method: str
    lower: int
    measured: tuple[int | None, ...]
    certified: int
    at_certified: float

    @property
    def inside(self) -> bool:
        """Whether the certificate held: enough users at its number, on every law tried."""
        return self.at_certified <= BETA and all(n is not None and n <= self.certified for n in self.measured)

    @property
    def above_lower(self) -> bool:
        return all(n is None or n >= self.lower for n in self.measured)


def measure(cell: Cell, method: str, datasets: int) -> Line:
    certificate = cell.certificates[method]
    certified = certificate.n_users
    if certified is None:
        raise ValueError(f"{method} certifies nothing at epsilon {cell.epsilon}, alpha {cell.alpha}, {cell.records} records")
    measured, worst = [], 0.0
    for noise in (Fraction(0),) if method == "realizable selection" else NOISE:
        world = World(noise, cell.records, datasets)

        def fails(n: int, world: World = world) -> float:
            return float(np.mean([failure(method, certificate, cell, world, data) for data in world.first(n)]))

        last = fails(certified)
        worst = max(worst, last)
        measured.append(certified if last <= BETA else None)
        if last <= BETA:
            measured[-1] = least(lambda n, fails=fails: fails(n) <= BETA, certified)  # type: ignore[misc]
    return Line(cell, method, cell.lower(method), tuple(measured), certified, worst)


def least(enough: Callable[[int], bool], most: int) -> int:
    """The least n in 1..most, by doubling and bisection; ``most`` is enough."""
    low, high = 0, 1
    while high < most and not enough(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# The table


def row(line: Line) -> list[str]:
    cell = line.cell
    ratios = [line.certified / n for n in line.measured if n]
    return [
        f"{cell.epsilon}",
        f"{float(cell.alpha):g}",
        f"{cell.records}",
        line.method,
        f"{line.lower}",
        " / ".join("-" if n is None else str(n) for n in line.measured),
        f"{line.certified}",
        " / ".join(f"{r:.1f}" for r in ratios),
        f"{line.at_certified:.1e}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="4 data sets a cell, epsilon 1 and alpha 0.1 only")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args()
    start, console = time.perf_counter(), Console(width=160)
    epsilons, alphas, datasets = (EPSILONS[:1], ALPHAS[1:], 4) if options.quick else (EPSILONS, ALPHAS, 10)
    cells = [Cell(*asked) for asked in itertools.product(epsilons, alphas, RECORDS)]
    methods = [method for method, bound in cells[0].certificates.items() if bound.kind == "upper"]
    lines = [measure(cell, method, datasets) for cell in cells for method in methods]
    heads = ["ε", "α", "m", "method", "lower", "measured", "certified", "certified / measured", "failure at certified"]
    title = f"β = {float(BETA):g}, {CONCEPT.size} cuts; noise 0 where realizable, else 0.1 / 0.3; {datasets} data sets"
    Grid(title, heads, [row(line) for line in lines]).show(console, markdown=options.markdown)
    kept, above = sum(line.inside for line in lines), sum(line.above_lower for line in lines)
    console.print(f"measured <= certified and failure <= beta at the certified number: {kept} of {len(lines)} lines")
    console.print(f"measured >= lower bound: {above} of {len(lines)} lines")
    for method in methods:
        factors = [line.certified / n for line in lines if line.method == method for n in line.measured if n]
        middle = float(np.exp(np.mean(np.log(factors))))
        console.print(f"{method}: certified / measured {min(factors):.1f} to {max(factors):.1f}, geometric mean {middle:.1f}")
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
