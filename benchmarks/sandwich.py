"""Certified numbers of users next to measured ones and to lower bounds: lower <= measured <= certified, for rules
selected by score.

    python benchmarks/sandwich.py [--quick] [--markdown] [--part cuts|replace|classes]

Small domains, a stated law of x, one best rule, every label wrong with the same probability.  For each cell of (class,
epsilon, alpha, records per user, neighbours) and each planned method the *measured* number is the least n, found by
doubling and bisection on nested seeded data sets, at which the probability of an excess error above alpha, averaged
over the data sets, is at most beta.  The probability is that of the law of the output, in double precision; the
mechanism is never sampled.  Every method runs with the parameters that its certificate chose (a clip, a truncation, an
accuracy of the estimate).  Harder laws: ``sandwich_hard.py``; other families of methods: ``sandwich_more.py``.

Certified numbers and lower bounds speak of the worst law their assumption allows, measured numbers of the one above.
So a measured number above the certified one, or a failure above beta at the certified number, would refute a
certificate, and a lower bound above a certified number would refute one of the two.  A measured number below the lower
bound would refute nothing: this law is easier than the worst.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from attrs import frozen
from common import Grid, risk
from numpy.typing import NDArray
from rich.console import Console

from privpac.bounds import Certificate, plan_item_proper
from privpac.data import Integers, UserData
from privpac.guarantee import Neighbours
from privpac.methods.base import Bound, profile_of
from privpac.methods.realizable import RealizableSelection
from privpac.methods.regret import RegretSelection
from privpac.papers.few_examples_per_user.pairwise import PairwiseSelection
from privpac.papers.pure_agnostic.counting import UserAgnosticLearner
from privpac.planning.rules import RuleTarget
from privpac.rules.base import ConceptClass
from privpac.rules.named import rule_class
from privpac.rules.profile import Exceeds, Profile

__all__ = ["CLASSES", "CUTS", "Cell", "Line", "Rules", "World", "failure", "least", "measure", "scored"]

BETA = Fraction(1, 10)
NOISE = (Fraction(1, 10), Fraction(3, 10))
"""Label noise of the agnostic rows; the certificate for bounded noise assumes the larger."""
COME, CHANGE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
REALIZABLE, ITEM = "realizable selection", "selection, one record each"
PAIRWISE, AGNOSTIC = "pairwise selection", "user agnostic selection"
NARROW = (REALIZABLE, "regret selection, bounded noise")
"""Methods whose assumption leaves out the laws of the agnostic lower bounds."""


# The model


@frozen(slots=False)
class Rules:
    """A class of rules over columns ``0..size-1``, and what the best rule says; ``extra`` of the mass of x lies where
    it says 1."""

    rule: str
    sizes: tuple[int, ...]
    truth: Callable[[NDArray[np.int64]], Any]
    extra: float = 0.0

    @cached_property
    def concept(self) -> ConceptClass:
        return rule_class(self.rule, {f"x{i}": Integers(0, size - 1) for i, size in enumerate(self.sizes)})

    @cached_property
    def points(self) -> NDArray[np.int64]:
        return np.array(list(itertools.product(*map(range, self.sizes))))

    @cached_property
    def mass(self) -> NDArray[np.float64]:
        ones = self.truth(self.points)
        return np.asarray((1 - self.extra) / len(ones) + self.extra * ones / ones.sum())

    @cached_property
    def distance(self) -> NDArray[np.float64]:
        """The mass on which each rule differs from the best one."""
        codes = {f"x{i}": self.points[:, i].astype(np.uint64) for i in range(len(self.sizes))}
        says = np.stack([self.concept.predictions(codes, h) for h in range(self.concept.size)])
        return np.asarray((says != self.truth(self.points)) @ self.mass)


CUTS = Rules("threshold", (256,), lambda x: x[:, 0] >= 128)
CLASSES = (
    Rules("stump", (16, 16), lambda x: x[:, 0] >= 8),
    Rules("point", (64,), lambda x: x[:, 0] == 20, extra=0.5),
    Rules("interval", (32,), lambda x: (x[:, 0] >= 8) & (x[:, 0] < 20)),
    Rules("conjunction", (2, 2, 2, 2), lambda x: (x[:, 0] == 1) & (x[:, 2] == 0)),
    Rules("rectangle", (6, 6), lambda x: (abs(2 * x - 5) <= 3).all(axis=1)),
)


@frozen(slots=False)
class World:
    """Seeded data sets of one noise rate; the first n users of a larger draw are the draw of n users."""

    rules: Rules
    noise: Fraction
    records: int
    datasets: int

    @cached_property
    def excess(self) -> NDArray[np.float64]:
        return self.rules.distance * float(1 - 2 * self.noise)

    def first(self, n: int) -> Iterator[UserData]:
        rules, edges = self.rules, np.cumsum(self.rules.mass)
        features = {f"x{i}": Integers(0, size - 1) for i, size in enumerate(rules.sizes)}
        for i in range(self.datasets):
            # A stream for the points and one for the flips, so that both are nested in n.
            points, flips = (
                np.random.default_rng([len(edges), int(100 * self.noise), self.records, i, k]) for k in (0, 1)
            )
            x = rules.points[
                np.minimum(np.searchsorted(edges, points.random(n * self.records), side="right"), len(edges) - 1)
            ]
            y = rules.truth(x) ^ (flips.random(len(x)) < float(self.noise))
            yield UserData.from_arrays(x, y, np.repeat(np.arange(n), self.records), features=features)


# One method on one data set


Scored = list[tuple[float, Profile, Fraction]]
"""Scores of all rules and the rate of their exponential law, each with a probability."""


def scored(method: str, certificate: Certificate, cell: Cell, data: UserData, n_users: int) -> Scored:
    """What the method scores on these data, with the clip of a data set of ``n_users``."""
    epsilon, concept, relation = Fraction(cell.epsilon), cell.rules.concept, cell.neighbours
    if method in (REALIZABLE, ITEM):
        reads, forgives = (1, 0) if method == ITEM else (certificate["records_per_user"], certificate["tolerance"])
        realizable = RealizableSelection(concept, epsilon, relation, max_records=reads, tolerance=forgives)
        return [(1.0, profile_of(realizable.bind(data), realizable.statistic), realizable.rate(epsilon, 1))]
    if method == PAIRWISE:
        pairwise = PairwiseSelection(concept, epsilon, relation, tau=int(certificate["tau"]))
        return [(1.0, pairwise.profile(data), epsilon / pairwise.range_sensitivity(int(certificate["tau"])))]
    if method == AGNOSTIC:
        learner = agnostic_learner(certificate, cell)
        bound = learner.bind(data)
        tolerances = _tolerances(learner, bound, certificate["records_per_user"])
        return [
            (chance, profile_of(bound, Exceeds(t)), learner.rate(learner.epsilon_rest, 1))
            for t, chance in tolerances.items()
        ]
    statistic = "mean" if method == "per-user mean" else "regret"
    regret = RegretSelection(concept, epsilon, relation, public_n_users=n_users, statistic=statistic)
    bound = regret.bind(data)
    return [(1.0, profile_of(bound, regret.statistic_for(bound, n_users)), regret.rate(epsilon, regret.levels))]


def failure(method: str, certificate: Certificate, cell: Cell, world: World, data: UserData) -> float:
    """Probability, over the law of the output, of an excess error above alpha."""
    found = scored(method, certificate, cell, data, data.n_users)
    return sum(
        chance * risk(profile, float(rate), world.excess, float(cell.alpha))[0] for chance, profile, rate in found
    )


def agnostic_learner(certificate: Certificate, cell: Cell) -> UserAgnosticLearner:
    """The learner as the certificate describes it; without an estimate nothing is known of the least error."""
    m, accuracy = certificate["records_per_user"], certificate["estimate"]
    half = Fraction(1, 2)
    return UserAgnosticLearner(
        cell.rules.concept,
        Fraction(cell.epsilon),
        cell.neighbours,
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


@frozen(slots=False)
class Cell:
    """What is asked for."""

    rules: Rules
    epsilon: int
    alpha: Fraction
    records: int
    neighbours: Neighbours = COME

    @cached_property
    def planned(self) -> dict[str, Certificate]:
        """The rows of ``plan_users``, with the parameters they chose, and selection at item level where everybody has
        one record."""
        goal = Fraction(self.epsilon), self.alpha, BETA, self.neighbours, max(NOISE)
        target = RuleTarget(self.rules.concept, *goal, every_method=True)
        rows = {method.name: method.certify(self.records) for method in target.methods()}
        if self.records == 1:
            sizes: dict[str, Any] = {
                "log_size": self.rules.concept.log_size,
                "dimension": self.rules.concept.vc_dimension,
            }
            asked = {"alpha": self.alpha, "beta": BETA, "epsilon": self.epsilon, "neighbours": self.neighbours}
            rows[ITEM] = plan_item_proper(**sizes, **asked)
        return rows

    @property
    def certificates(self) -> dict[str, Certificate]:
        return {method: bound for method, bound in self.planned.items() if bound.kind == "upper" and bound.certified}

    def lower(self, method: str) -> int:
        """No learner of this kind keeps the promise with fewer users, on the worst law that the method's assumption
        allows."""
        return self.planned[f"any private {'realizable' if method in NARROW else 'agnostic'} learner"].n_users or 0


@frozen(slots=False)
class Line:
    """One method in one cell: a measured number for each noise rate, and the largest failure at the certified
    number."""

    cell: Cell
    method: str
    lower: int
    measured: tuple[int | None, ...]
    certified: int
    at_certified: float

    @property
    def inside(self) -> bool:
        """Whether the certificate held: enough users at its number, on every law tried, and no fewer than any learner
        needs."""
        enough = self.at_certified <= BETA and all(n is not None and n <= self.certified for n in self.measured)
        return enough and self.lower <= self.certified

    @property
    def above_lower(self) -> bool:
        return all(n is None or n >= self.lower for n in self.measured)

    @property
    def factors(self) -> list[float]:
        return [self.certified / n for n in self.measured if n]

    def __str__(self) -> str:
        return f"{self.lower} · {' / '.join('-' if n is None else str(n) for n in self.measured)} · {self.certified}"


def measure(cell: Cell, method: str, datasets: int) -> Line:
    certificate = cell.certificates[method]
    certified = certificate.n_users
    assert certified is not None
    measured, worst = [], 0.0
    for noise in (Fraction(0),) if method == REALIZABLE else NOISE:
        world = World(cell.rules, noise, cell.records, datasets)

        def fails(n: int, world: World = world) -> float:
            return float(np.mean([failure(method, certificate, cell, world, data) for data in world.first(n)]))

        last = fails(certified)
        worst = max(worst, last)
        measured.append(least(lambda n, fails=fails: fails(n) <= BETA, certified) if last <= BETA else None)  # type: ignore[misc]
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


# Tables


def cells(part: str, *, quick: bool) -> list[Cell]:
    """The grid of a part."""
    some = Fraction(1, 10)
    if part == "cuts":
        grid = itertools.product(
            (1,) if quick else (1, 4),
            (some,) if quick else (Fraction(1, 20), some),
            (1, 16) if quick else (1, 4, 16, 64),
        )
        return [Cell(CUTS, *asked) for asked in grid]
    if part == "replace":
        return [
            Cell(CUTS, epsilon, some, m, CHANGE)
            for epsilon in ((1,) if quick else (1, 4))
            for m in ((16,) if quick else (1, 4, 16, 64))
        ]
    return [Cell(rules, 1, some, m) for rules in CLASSES for m in ((16,) if quick else (1, 4, 16))]


def grid(part: str, lines: list[Line], datasets: int) -> Grid:
    """One row for each method and setting, one column for each number of records."""
    records = sorted({line.cell.records for line in lines})
    rows: dict[tuple[str, ...], dict[int, Line]] = {}
    for line in lines:
        cell = line.cell
        shown = [cell.rules.rule] if part == "classes" else [f"{cell.epsilon}", f"{float(cell.alpha):g}"]
        rows.setdefault((*shown, line.method), {})[cell.records] = line
    title = (
        f"β = {float(BETA):g}; lower · measured · certified; noise 0 where realizable, else 0.1 / 0.3; {datasets} data "
        "sets"
    )
    title += (
        ", ε = 1, α = 0.1"
        if part == "classes"
        else f", {CUTS.concept.size} cuts" + (", replace" if part == "replace" else "")
    )
    heads = [
        *(["class"] if part == "classes" else ["ε", "α"]),
        "method",
        *(f"m = {m}" for m in records),
        "failure at certified",
    ]
    body = []
    for key, found in rows.items():
        worst = max(line.at_certified for line in found.values())
        body.append([*key, *(str(found[m]) if m in found else "-" for m in records), f"{worst:.0e}" if worst else "0"])
    return Grid(title, heads, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 data sets a cell, a few cells of every part")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument(
        "--part", choices=("cuts", "replace", "classes"), action="append", help="only this part; repeat"
    )
    options = parser.parse_args()
    start, console, datasets = time.perf_counter(), Console(width=180), 3 if options.quick else 10
    lines: list[Line] = []
    for part in options.part or ("cuts", "replace", "classes"):
        own = [
            measure(cell, method, datasets) for cell in cells(part, quick=options.quick) for method in cell.certificates
        ]
        grid(part, own, datasets).show(console, markdown=options.markdown)
        lines += own
    kept, above = sum(line.inside for line in lines), sum(line.above_lower for line in lines)
    console.print(
        f"lower <= certified, measured <= certified and failure <= beta at the certified number: {kept} of "
        f"{len(lines)} lines"
    )
    console.print(f"measured >= lower bound: {above} of {len(lines)} lines")
    for method in dict.fromkeys(line.method for line in lines):
        factors = [factor for line in lines if line.method == method for factor in line.factors]
        middle = float(np.exp(np.mean(np.log(factors))))
        console.print(
            f"{method}: certified / measured {min(factors):.1f} to {max(factors):.1f}, geometric mean {middle:.1f}"
        )
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
