"""The same three numbers on laws that are as hard as the lower bounds say: lower <= measured <= certified, computed and
not sampled.

    python benchmarks/sandwich_hard.py [--quick] [--markdown]

*Coin*: every x is the same point, and one of its two labels is likelier by a little more than alpha; the failure is the
larger of the two cases, since no learner knows which it is.  Nobody holds more than a number of ones, so the law of the
data is that of a sum over users: it is convolved exactly (fast Fourier transform, absolute error below 1e-10), and the
law of the output is taken at every sum.

*Rare*: clean labels, all mass on two points, and just above alpha of it on the one that tells the best rule from many
others.  4000 seeded data sets, the law of the output on each; a standard error is at most .005.

What a user contributes is read off the learners themselves, from data sets of one user.  Estimates of the least error
depend on all users at once: user agnostic selection is measured where its certificate uses none.
"""

from __future__ import annotations

import argparse
import math
import time
from fractions import Fraction
from functools import cached_property

import numpy as np
from attrs import frozen
from common import Grid, dense
from numpy.typing import NDArray
from rich.console import Console
from sandwich import AGNOSTIC, BETA, CHANGE, CLASSES, CUTS, NARROW, PAIRWISE, Cell, Line, Rules, least, scored
from scipy.special import expit
from scipy.stats import binom

from privpac.data import Integers, UserData

__all__ = ["Coin", "Rare", "hard_line"]

STRICT = 1.0001
"""The excess of a bad rule over alpha."""
SETS = 4000
Ints = NDArray[np.int64]


def one_user(rules: Rules, points: Ints, ones: NDArray[np.bool_]) -> UserData:
    features = {f"x{i}": Integers(0, size - 1) for i, size in enumerate(rules.sizes)}
    return UserData.from_arrays(points, ones, np.zeros(len(points), dtype=int), features=features)


def says(rules: Rules, point: Ints) -> NDArray[np.bool_]:
    """What every rule says at a point."""
    codes = {f"x{i}": point[i : i + 1].astype(np.uint64) for i in range(len(point))}
    return np.array([rules.concept.predictions(codes, h)[0] == 1 for h in range(rules.concept.size)])


# Coin-like labels of one point


@frozen(slots=False)
class Coin:
    """One method of one cell on the law of the coin."""

    cell: Cell
    method: str

    @cached_property
    def yes(self) -> NDArray[np.bool_]:
        return says(self.cell.rules, self._point)

    @property
    def _point(self) -> Ints:
        points = self.cell.rules.points
        return np.asarray(points[len(points) // 2])

    @property
    def lone(self) -> tuple[bool, bool]:
        """Whether a single rule says 1, and whether a single one says 0."""
        return bool(self.yes.sum() == 1), bool((~self.yes).sum() == 1)

    def swings(self, n: int) -> tuple[Ints, float]:
        """By how much a user with 0..m ones prefers saying 1 to saying 0, and the rate."""
        m, rules = self.cell.records, self.cell.rules
        first, other, rate = int(np.argmax(self.yes)), int(np.argmin(self.yes)), 0.0
        found = []
        for ones in range(m + 1):
            data = one_user(rules, np.tile(self._point, (m, 1)), np.arange(m) < ones)
            ((_, profile, exact),) = scored(self.method, self.cell.certificates[self.method], self.cell, data, n)
            scores, rate = dense(profile), float(exact)
            yes, no = int(scores[first]), int(scores[other])
            # A pairwise score is a maximum, with 0 where another rule says the same: a lone rule shows the comparison
            # itself.
            lone = self.method == PAIRWISE and any(self.lone)
            found.append((-yes if self.lone[0] else no) if lone else no - yes)
        return np.array(found), rate

    def lead(self, total: Ints) -> Ints:
        """The score of a rule that says 0 less that of one that says 1, when all users together prefer 1 by
        ``total``."""
        if self.method != PAIRWISE:
            return total
        yes, no = (sign * total if lone else np.maximum(0, sign * total) for sign, lone in zip((-1, 1), self.lone))
        return np.asarray(no - yes)

    def bad(self, total: Ints, rate: float, likely: bool) -> NDArray[np.float64]:
        """The mass of the law on the rules that say the less likely label."""
        odds = rate * self.lead(total) + math.log(self.yes.sum()) - math.log((~self.yes).sum())
        return np.asarray(expit(-odds if likely else odds))

    def failure(self, n: int) -> float:
        """The larger failure of the two labels."""
        m = self.cell.records
        swing, rate = self.swings(n)
        step = math.gcd(*swing.tolist()) or 1
        worst = 0.0
        for likely in (True, False):
            chance = binom.pmf(np.arange(m + 1), m, 0.5 + (0.5 if likely else -0.5) * STRICT * float(self.cell.alpha))
            total, mass = _summed(swing // step, chance, n)
            worst = max(worst, float(mass @ self.bad(total * step, rate, likely)))
        return worst


def _summed(values: Ints, chance: NDArray[np.float64], n: int) -> tuple[Ints, NDArray[np.float64]]:
    """The law of the sum of n independent values."""
    low, width = int(values.min()), int(values.max() - values.min())
    length = 1 << (n * width + 1).bit_length()
    single = np.zeros(length)
    np.add.at(single, values - low, chance)
    mass = np.maximum(np.fft.irfft(np.fft.rfft(single) ** n, length), 0)[: n * width + 1]
    return n * low + np.arange(n * width + 1), mass


# A rare point with clean labels


@frozen(slots=False)
class Rare:
    """One method of one cell on the law of the rare point."""

    cell: Cell
    method: str

    @cached_property
    def pair(self) -> tuple[int, int]:
        """A common and a rare point, next to each other, on which the fewest rules are right together."""
        rules = self.cell.rules
        right = np.stack([says(rules, point) == bool(rules.truth(point[None])[0]) for point in rules.points])
        both = right.astype(int) @ right.T.astype(int)
        a, b = np.unravel_index(int(np.argmin(both)), both.shape)
        return int(a), int(b)

    def failure(self, n: int) -> float:
        m, rules, cell = self.cell.records, self.cell.rules, self.cell
        ends = rules.points[list(self.pair)]
        labels = np.asarray(rules.truth(ends), dtype=bool)
        wrong = np.stack([says(rules, point) != label for point, label in zip(ends, labels)])
        groups, place, size = np.unique(wrong, axis=1, return_index=True, return_counts=True)
        mass = np.array([1 - STRICT * float(cell.alpha), STRICT * float(cell.alpha)])
        table, rate = [], 0.0
        for rare in range(m + 1):
            which = (np.arange(m) < rare).astype(int)
            data = one_user(rules, ends[which], labels[which])
            ((_, profile, exact),) = scored(self.method, cell.certificates[self.method], cell, data, n)
            table.append(dense(profile)[place])
            rate = float(exact)
        drawn = np.random.default_rng([n, m]).multinomial(n, binom.pmf(np.arange(m + 1), m, mass[1]), size=SETS)
        scores = drawn @ np.array(table)
        weight = size * np.exp(-rate * (scores - scores.min(axis=1, keepdims=True)))
        bad = mass @ groups > float(cell.alpha)
        return float((weight[:, bad].sum(axis=1) / weight.sum(axis=1)).mean())


# Lines


def hard_line(cell: Cell, method: str) -> Line | None:
    """Lower bound, measured number and certified number; None where the certificate uses an estimate."""
    certificate = cell.certificates[method]
    if method == AGNOSTIC and certificate["estimate"] != "none":
        return None
    world = Rare(cell, method) if method in NARROW else Coin(cell, method)
    certified = certificate.n_users
    assert certified is not None
    last = world.failure(certified)
    found = least(lambda n: world.failure(n) <= BETA, certified) if last <= BETA else None
    return Line(cell, method, cell.lower(method), (found,), certified, last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few cells only")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args()
    start, console, some = time.perf_counter(), Console(width=180), Fraction(1, 10)
    records = (4,) if options.quick else (1, 4, 16, 64)
    asked = [Cell(CUTS, epsilon, some, m) for epsilon in (1, 4) for m in records]
    asked += [Cell(CUTS, 1, some, m, CHANGE) for m in records]
    asked += [Cell(rules, 1, some, m) for rules in CLASSES for m in ((4,) if options.quick else (1, 4, 16))]
    lines = [line for cell in asked for method in cell.certificates if (line := hard_line(cell, method))]
    rows: dict[tuple[str, ...], dict[int, Line]] = {}
    for line in lines:
        cell = line.cell
        rows.setdefault((cell.rules.rule, f"{cell.epsilon}", str(cell.neighbours), line.method), {})[cell.records] = (
            line
        )
    heads = ["class", "ε", "neighbours", "method", *(f"m = {m}" for m in records), "failure at certified"]
    body = []
    for key, found in rows.items():
        worst = max(line.at_certified for line in found.values())
        body.append(
            [
                *key,
                *(str(found[m]) if m in found else "-" for m in records),
                f"{worst:.0e}" if worst > 1e-10 else "< 1e-10",
            ]
        )
    title = (
        "β = 0.1, α = 0.1; lower · measured · certified on the hard law (rare point where labels are clean or noise is "
        "bounded, else coin)"
    )
    Grid(title, heads, body).show(console, markdown=options.markdown)
    console.print(
        f"lower <= certified, measured <= certified, failure <= beta there: {sum(line.inside for line in lines)} of "
        f"{len(lines)} lines"
    )
    console.print(f"measured >= lower bound: {sum(line.above_lower for line in lines)} of {len(lines)} lines")
    for method in dict.fromkeys(line.method for line in lines):
        factors = [factor for line in lines if line.method == method for factor in line.factors]
        middle = math.exp(sum(map(math.log, factors)) / len(factors))
        console.print(
            f"{method}: certified / measured {min(factors):.1f} to {max(factors):.1f}, geometric mean {middle:.1f}"
        )
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
