"""One more look at the scorecard: other accounting, momentum, a warm start, calmer steps; on tables not used before.

    python benchmarks/scorecard_variants.py [--tables …] [--splits 3] [--draws 2]

Everything but the accounting post-processes what is released anyway, or moves shares between steps, so each variant
keeps the promise.  Gradients are those of the scorecard, in integers; noise is normal and rounded: for measuring only.
Figures are the mean over tables of the error of a variant less that of ``zcdp``, the scorecard of spec and vectors,
times 1000 (standard error over tables), on the same people.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import evolve, frozen
from wide import EPSILONS, cases, error
from wide_tables import FRESH, TABLES, wide_table

from privpac.composition import zcdp_within
from privpac.guarantee import Neighbours
from privpac.mechanisms.gaussian import SMOOTHING, gaussian_within
from privpac.methods.scorecard import (
    DescentState,
    ScorecardBudget,
    centre_clip,
    centre_sum,
    clip_size,
    gradient_sum,
    norm_cap,
    norm_sum,
    pack_answers,
    scorecard_points,
    shrunk_centre,
    training_time,
    updated,
)
from privpac.rules.scorecards import Scorecard, Scorecards

DELTA = Fraction(1, 10**6)


@frozen(slots=False)
class Variant:
    """What is done otherwise."""

    gaussian: bool = True
    momentum: float = 0.0
    longer: float = 1.0
    """Training time, as a multiple of the scorecard's."""
    first: float = 0.0
    """Share of the steps' budget for the first of them, whose step is as many times as long as its share."""
    calm: bool = False
    """Halve the steps whenever two released gradients in a row clearly point against each other."""


VARIANTS = {
    "zcdp": Variant(gaussian=False),
    "gaussian": Variant(),
    "momentum 0.5": Variant(momentum=0.5),
    "momentum 0.8": Variant(momentum=0.8),
    "momentum 0.8, twice as long": Variant(momentum=0.8, longer=2.0),
    "warm start": Variant(first=0.15),
    "calmer": Variant(calm=True),
}


def descended(concept: Scorecards, packed: Any, n: int, epsilon: Fraction, how: Variant, rng: Any) -> Scorecard:
    table, columns, steps = concept.codes, len(concept.binned), concept.steps
    rho = gaussian_within(epsilon, DELTA) if how.gaussian else zcdp_within(epsilon, DELTA)
    smoothing = SMOOTHING if how.gaussian else 0
    budget = ScorecardBudget(rho, columns, steps, Neighbours.ADD_REMOVE, False, smoothing=smoothing)

    def noisy(sums: Any, variance: Fraction) -> list[int]:
        drawn = np.rint(float(variance) ** 0.5 * rng.standard_normal(len(sums))).astype(int)
        return [int(a) + int(b) for a, b in zip(sums, drawn)]

    centre = tuple(
        shrunk_centre(
            noisy(centre_sum(table, packed, centre_clip(columns)), budget.centre_variance), n, budget.centre_variance
        )
    )
    (norm,) = noisy([norm_sum(table, packed, centre, norm_cap(columns))], budget.norm_variance)
    clip = clip_size(norm, n, budget.rest, columns)
    time, state = how.longer * training_time(n, budget.rest), DescentState.start(centre)
    total, speed, before, calmer = [0] * (table.coordinates + 1), None, None, 1.0
    spent = 83 * budget.rest / 100
    for step in range(1, steps + 1):
        share, length = 1 / steps, 1.0
        if how.first:
            share = how.first if step == 1 else (1 - how.first) / (steps - 1)
            length = share * steps
        variance = clip**2 / (2 * spent * Fraction(share)) + smoothing
        moved = np.array(noisy(gradient_sum(table, packed, state, clip), variance), float)
        if how.calm and before is not None and moved @ before < -2 * len(moved) ** 0.5 * float(variance):
            calmer /= 2
        before = moved
        speed = moved if speed is None else how.momentum * speed + (1 - how.momentum) * moved
        pushed = [int(v) for v in np.rint(speed * length * calmer * time)]
        state = evolve(state, weights=tuple(updated(state.weights, pushed, 1, steps, n)))
        if step > steps // 2:
            total = [a + b for a, b in zip(total, state.weights)]
    found = scorecard_points(table, total, centre, concept.top)
    return Scorecard(concept.binned, found.points, found.threshold, concept.top)


def measured(name: str, splits: int, draws: int) -> dict[tuple[str, int, str], float]:
    table, found = wide_table(name), defaultdict(list)
    for case in cases(table, splits):
        concept, users = Scorecards().bind(table.users(case.trained))
        packed = pack_answers(concept.binned, users)
        for epsilon in EPSILONS:
            for draw in range(draws):
                for variant, how in VARIANTS.items():
                    rng = np.random.default_rng([case.n, case.split, draw])
                    scorecard = descended(concept, packed, case.n, Fraction(epsilon), how, rng)
                    said = scorecard.predict(table.frame[case.tested])
                    found[variant, case.n, epsilon].append(1000 * error(table, said, case.tested))
    return {key: float(np.mean(values)) for key, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", default=list(FRESH), choices=[*FRESH, *TABLES])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    gaps: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name in asked.tables:
        found, line = measured(name, asked.splits, asked.draws), []
        for variant in VARIANTS:
            parts = []
            for part, belongs in (("few", lambda x: x <= 100), ("many", lambda x: x >= 300)):
                own = [
                    value - found["zcdp", n, e] if variant != "zcdp" else value
                    for (which, n, e), value in found.items()
                    if which == variant and belongs(n * float(e))
                ]
                gaps[variant, part].append(float(np.mean(own)))
                parts.append(f"{np.mean(own):.1f}")
            line.append(f"{variant} {' / '.join(parts)}")
        print(f"{name:11} {'   '.join(line)}")
    print(f"\nmean over {len(asked.tables)} tables (standard error), people x epsilon <= 100 and >= 300; better on")
    for variant in VARIANTS:
        for part in ("few", "many"):
            values = gaps[variant, part]
            spread = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
            print(f"{variant:30} {part:5} {np.mean(values):8.2f} ({spread:.2f})   {sum(v < 0 for v in values)}")


if __name__ == "__main__":
    main()
