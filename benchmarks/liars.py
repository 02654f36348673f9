"""The worst liars that the wire allows, at the cap, in every model: what share of them a run survives.

    python benchmarks/liars.py [--markdown]

1024 rules; of the honest people nine in ten name the right rule and the others one rival, for which all liars work as
hard as they can.  Central: one vote.  Local: a report whose sign speaks for the rival and against the right rule.
Shuffle: as many messages for the rival as the cap allows (the least that a planner may choose), and no noise.  A share
is survived if the right rule is released in all of 20 runs.  Laws of whole crowds are drawn at once.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

import numpy as np
from common import Grid
from rich.console import Console

from privpac.data import Integers
from privpac.device.randomizers import HadamardSelection, ShuffleSelection
from privpac.mechanisms.randomized_response import keep_probability
from privpac.mechanisms.votes import StableHistogram
from privpac.protocols import ShuffleProtocol
from privpac.protocols.analyzer import decode_counts, decode_reports

RIGHT, RIVAL, SIZE, RUNS = 417, 90, 1024, 20
SHARES = (0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
PEOPLE = (500, 2000, 10_000)
BETA = 0.05


def central(n: int, liars: int, rng: np.random.Generator) -> bool:
    right = int(rng.binomial(n - liars, 0.9))
    select = StableHistogram(1, delta="1e-6", named=2)
    return bool(select.sample({RIGHT: right, RIVAL: n - right}) == RIGHT)


def local(n: int, liars: int, rng: np.random.Generator) -> bool:
    select = HadamardSelection(10, keep_probability(Fraction(1)))
    items = np.where(rng.random(n - liars) < 0.9, RIGHT, RIVAL)
    j = rng.integers(0, SIZE, n - liars)
    truth = rng.random(n - liars) < float(select.keep)
    signs = 1 - np.bitwise_count(j & items) % 2
    honest = list(zip([0] * len(j), j.tolist(), np.where(truth, signs, 1 - signs).tolist()))
    against = [k for k in range(SIZE) if (k & (RIGHT ^ RIVAL)).bit_count() % 2]
    lies = [(0, k, 1 - (k & RIVAL).bit_count() % 2) for k in rng.choice(against, liars).tolist()]
    return decode_reports(select, [*honest, *lies], BETA) == RIGHT


def shuffled(n: int, liars: int, rng: np.random.Generator) -> bool:
    select = _run(n)
    right = int(rng.binomial(n - liars, 0.9))
    counts = rng.negative_binomial(float(select.share * (n - liars)), 1 - float(select.p), select.buckets)
    counts[RIGHT] += right
    counts[RIVAL] += n - liars - right + liars * select.cap
    return decode_counts(select, counts.tolist(), n, BETA) == RIGHT


_RUNS: dict[int, ShuffleProtocol] = {}


def _run(n: int) -> ShuffleSelection:
    if n not in _RUNS:
        column = {"x": Integers(0, SIZE - 2)}
        _RUNS[n] = ShuffleProtocol("threshold", column, Fraction(1), delta=Fraction("1e-6"), n_min=n * 9 // 10, n_max=n)
    return _RUNS[n].manifest.shuffle


def survived(model: str, n: int) -> str:
    """The largest share of the list up to which all runs release the right rule."""
    rng, best = np.random.default_rng(1), "none"
    for share in SHARES:
        liars = round(share * n)
        if model == "shuffle":
            good = all(shuffled(n, liars, rng) for _ in range(RUNS))
        else:
            good = all((central if model == "central" else local)(n, liars, rng) for _ in range(RUNS))
        if not good:
            break
        best = f"{100 * share:g} %"
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    rows = []
    for model in ("central", "local", "shuffle"):
        for n in PEOPLE:
            each = {"central": "1 vote", "local": "4.3 votes"}.get(model) or f"{_run(n).cap} votes"
            rows.append([model, str(n), each, survived(model, n)])
    Grid("Liars, at the cap", ["model", "people", "a liar counts as", "survived"], rows).show(
        Console(), markdown=options.markdown
    )


if __name__ == "__main__":
    main()
