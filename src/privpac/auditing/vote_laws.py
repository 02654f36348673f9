"""The certificates of agreement and of medians, as claims to refute.

*Agreement.*  Every user names one item with probability 0.9 (or more), independently; all the others name one rival, or
nothing.  The certificate gives the plurality a third of ``beta``, and a third is what it is held to.  Central
selection: the exact law, summed over the votes.  Shuffled counts in one piece: a sum over votes and noise, ties counted
in favour.  Local reports and chunks: runs with the protocol's own decoding.  The agreement of users' own rules, the
other two thirds, takes millions of records per user: not tried.

*Medians.*  Any numbers are allowed: shares at both ends of the domain, all others at its middle, so that next to
nothing between is close enough.  The exact law without hidden walks, runs with them.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import frozen
from scipy.stats import binom, nbinom

from privpac.arrays import Ints
from privpac.auditing.refutation import Claim, Failure, SearchPoint
from privpac.data import Integers
from privpac.device.randomizers import ChunkedHadamard, ShuffleSelection
from privpac.distributions.quantiles import QuantileLearner
from privpac.distributions.quantiles.median_plan import MedianTarget, median_point
from privpac.distributions.quantiles.ranks import Weighted
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Model
from privpac.law import Law
from privpac.law.blocks import Bottom
from privpac.mechanisms.interior_point import InteriorPoint
from privpac.mechanisms.randomized_response import keep_probability
from privpac.mechanisms.votes import StableHistogram
from privpac.methods.agreement.agreement_learner import pure_selection
from privpac.methods.agreement.plurality import CLEAR, shuffle_edge
from privpac.methods.registry import PlannedMethod
from privpac.methods.simulation import Draws, ModelRng, fixed_draws
from privpac.protocols.agreement_plan import (
    AgreementTarget,
    local_winner,
    shuffle_winner,
    shuffled_selection,
    width_of_reports,
)
from privpac.rng import Rng
from privpac.sample_size import Certificate

SHARE, RUNS, MOST_USERS = 0.9, 400, 1 << 16

STARTS: tuple[SearchPoint, ...] = ((1.0, 0.0), (0.0, 0.0))
"""Whether the others name one rival or nothing, and how much likelier than 0.9 the item is."""


def stability_claim(target: AgreementTarget, method: PlannedMethod, found: Certificate, records_per_user: int) -> str:
    """Why agreement itself is not tried."""
    return "agreement itself takes millions of records per user; its plurality is tried in the row for 9 in 10 users"


def agreement_claim(
    target: AgreementTarget, method: PlannedMethod, found: Certificate, records_per_user: int
) -> Claim | str:
    """The plurality of one model, held to its third of beta."""
    assert found.n_users is not None
    if 4 * found.n_users > MOST_USERS:
        return f"{4 * found.n_users:,} reports (4 times the certified users) are too many to draw {RUNS} times"
    failure = {Model.CENTRAL: _central, Model.LOCAL: _local, Model.SHUFFLE: _shuffle}[target.model](target, found)

    def about(point: SearchPoint) -> str:
        return (
            f"{SHARE + (1 - SHARE) * point[1]:.3g} name one item, the others "
            f"{'a rival' if point[0] >= 0.5 else 'nothing'}"
        )

    return Claim(f"{method.name}, third of beta", found.n_users, float(target.beta) / 3, STARTS, failure, about)


def _votes(point: SearchPoint, n: int) -> tuple[list[tuple[int, float]], bool]:
    """Numbers of right votes with their chances, and whether the others name a rival; what is left out counts as
    success."""
    share = SHARE + (1 - SHARE) * point[1]
    return [(c, p) for c in range(n + 1) if (p := float(binom.pmf(c, n, share))) > 1e-12], point[0] >= 0.5


def _central(target: AgreementTarget, found: Certificate) -> Callable[[SearchPoint, int], Failure]:
    selector: Any = (
        StableHistogram(target.epsilon, delta=target.delta, neighbours=target.neighbours, named=2)
        if target.delta > 0
        else pure_selection(target.epsilon, target.task, CLEAR, target.neighbours)
    )

    @lru_cache(maxsize=1 << 12)
    def missed(right: int, wrong: int) -> float:
        # Of equals the smaller number wins: the rival's.
        return 1 - float(selector.law({item: count for item, count in ((1, right), (0, wrong)) if count}).prob_float(1))

    def failure(point: SearchPoint, n: int) -> Failure:
        votes, rival = _votes(point, n)
        return Failure(sum(p * missed(c, n - c if rival else 0) for c, p in votes))

    return failure


def _shuffle(target: AgreementTarget, found: Certificate) -> Callable[[SearchPoint, int], Failure]:
    universe = target.task.learner.universe

    def select(n: int) -> ShuffleSelection:
        return shuffled_selection(found["epsilon"], target.delta, universe.size, universe.bits, n)

    def failure(point: SearchPoint, n: int) -> Failure:
        chosen = select(n)
        if chosen.width:
            return _counted(point, n, lambda items, rng: shuffle_winner(chosen, items, rng))
        r, p = float(chosen.share * n), float(chosen.p)
        edge = shuffle_edge(r, p, chosen.buckets, float(CLEAR), speak=n)
        votes, rival = _votes(point, n)
        noise = np.arange(int(nbinom.isf(1e-14, r, 1 - p)) + 2)
        chance, right = nbinom.pmf(noise, r, 1 - p), 0.0
        for c, likely in votes:
            below = nbinom.cdf(c - (n - c if rival else 0) + noise, r, 1 - p) * nbinom.cdf(c + noise, r, 1 - p) ** (
                chosen.size - 2
            )
            right += likely * float(chance @ np.where(c + noise > edge, below, 0.0))
        return Failure(max(0.0, sum(likely for _, likely in votes) - right - 1e-12))

    return failure


def _local(target: AgreementTarget, found: Certificate) -> Callable[[SearchPoint, int], Failure]:
    bits = target.task.learner.universe.bits
    local = ChunkedHadamard(bits, keep_probability(target.epsilon), width_of_reports(bits))
    return lambda point, n: _counted(point, n, lambda items, rng: local_winner(local, items, rng))


def _counted(point: SearchPoint, n: int, winner: Callable[[Ints, Draws], int | None]) -> Failure:
    rng, wrong = fixed_draws(n), 0
    for _ in range(RUNS):
        right = rng.random(n) < SHARE + (1 - SHARE) * point[1]
        wrong += winner(np.where(right, 1, 0 if point[0] >= 0.5 else -1), rng) != 1
    return Failure.counted(wrong, RUNS)


# Medians


@frozen(slots=False)
class _Median:
    """One way to a median; a way without an exact law is drawn."""

    target: MedianTarget
    law: Callable[[list[int]], Law | None]
    sample: Callable[[list[int], Rng], int | Bottom]

    def numbers(self, point: SearchPoint, n: int) -> list[int]:
        low, high = (int(n * share / 2) for share in point)
        return [0] * low + [self.target.top // 2] * (n - low - high) + [self.target.top] * high

    def about(self, point: SearchPoint) -> str:
        return (
            f"{point[0] / 2:.3g} of the numbers at the lower end, {point[1] / 2:.3g} at the upper, the others in the "
            "middle"
        )

    def failure(self, point: SearchPoint, n: int) -> Failure:
        numbers = self.numbers(point, n)
        middle, enough = self.target.top // 2, (0.5 - self.target.alpha) * n
        low, high = numbers.count(0), numbers.count(self.target.top)

        def good(answer: int | Bottom) -> bool:
            if isinstance(answer, Bottom):
                return False
            under = low + (n - low - high) * (answer >= middle) + high * (answer == self.target.top)
            over = high + (n - low - high) * (answer <= middle) + low * (answer == 0)
            return bool(min(under, over) >= enough)

        law, top = self.law(numbers), self.target.top
        if law is None:
            wrong = sum(not good(self.sample(numbers, ModelRng(n, i))) for i in range(RUNS // 4))
            return Failure.counted(wrong, RUNS // 4)
        # Answers between the ends and the middle count alike, and so are as likely.
        blocks = [(0, 1), (1, middle), (middle, middle + 1), (middle + 1, top), (top, top + 1)]
        return Failure(max(0.0, sum(law.prob_float(a) * (b - a) for a, b in blocks if a < b and not good(a)) - 1e-10))


def median_claim(target: MedianTarget, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The mechanism for as many values as there are users."""

    @lru_cache(maxsize=16)
    def chooser(n: int) -> InteriorPoint:
        return median_point(target, found["levels"], n, target.epsilon)

    def law(numbers: list[int]) -> Law | None:
        point = chooser(len(numbers))
        return None if point.reductions else point.law(numbers)

    def sample(numbers: list[int], rng: Rng) -> int | Bottom:
        return chooser(len(numbers)).sample(numbers, rng)

    return _median(_Median(target, law, sample), method, found)


def quantile_claim(
    target: MedianTarget, method: PlannedMethod, found: Certificate, records_per_user: int
) -> Claim | str:
    """The law that scores every value by its rank."""
    learner = QuantileLearner(target.epsilon, "1/2", neighbours=target.neighbours, **found.parameters)

    def law(numbers: list[int]) -> Law:
        codes, counts = np.unique(np.array(numbers, np.uint64), return_counts=True)
        return learner.ranks(Fraction(1, 2), Integers(0, target.top)).law(Weighted(codes, learner.levels * counts))

    return _median(_Median(target, law, lambda numbers, rng: law(numbers).sample(rng)), method, found)


def _median(trial: _Median, method: PlannedMethod, found: Certificate) -> Claim | str:
    target = trial.target
    assert found.n_users is not None
    if target.top < 4 or target.top.bit_length() > 1000 or 4 * found.n_users > MOST_USERS:
        return "numbers of more than 1000 bits, or of hardly any values, or too many of them to draw"
    try:
        trial.failure((0.5, 0.5), found.n_users)
    except (ParameterError, TooLargeError) as error:
        return str(error)
    share = 1 - 2 * float(target.alpha)
    starts = ((0.0, 0.0), (max(0.0, share - 0.01), max(0.0, share - 0.01)), (max(0.0, share - 0.01), 0.0))
    return Claim(method.name, found.n_users, float(target.beta), starts, trial.failure, trial.about)
