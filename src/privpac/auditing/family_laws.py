"""The certificates of families of distributions, as claims to refute.

*Histograms.*  Masses between two halves and all cells alike; where people may differ, some hold one record or records
of one kind only, and the others draw as many as declared from the law.  Counts and noise are drawn many times at once.

*Open vocabularies.*  One heavy value, and others alike: few and heavy (luck, noise of the number of people), or so
many that each weighs just above ``alpha`` and may stay below the threshold.  Some people hold one value only, the
others as many records as may count; sums, noises and the threshold are the learner's, drawn many times at once.

*Coarse-to-fine means.*  The mean anywhere within the radius, a share of users with four times the declared records; the
first step's exact law, the noise of the second drawn.

*Selection from a cover, among candidates.*  The exact law of the output on drawn data sets: masses between cover
members, means anywhere.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from attrs import evolve

from privpac.arrays import Floats64
from privpac.auditing.refutation import Claim, Failure, SearchPoint
from privpac.auditing.rule_laws import mean_failure
from privpac.data import Integers
from privpac.distributions.family_plan import (
    CountedTarget,
    FamilyTarget,
    GaussianTarget,
    Ready,
    SelectionTarget,
    VocabularyTarget,
    noise_of_sums,
    normal_run,
    selected_ready,
)
from privpac.errors import ParameterError, PrivpacWarning, TooLargeError
from privpac.guarantee import Neighbours
from privpac.methods.registry import PlannedMethod
from privpac.methods.simulation import fixed_draws
from privpac.parameters import COUNT_LEVELS
from privpac.sample_size import Certificate

RUNS, SETS, MOST_CELLS, MOST_RECORDS, MOST_MEMBERS = 20_000, 25, 256, 1 << 17, 1 << 14


def two_heavy_masses(size: int, halves: float) -> Floats64:
    """Between all values alike and half of the mass on each of the first two."""
    two = np.zeros(size)
    two[: min(2, size)] = 1 / min(2, size)
    return np.asarray(halves * two + (1 - halves) / size)


# Counts


def histogram_claim(
    target: CountedTarget, method: PlannedMethod, found: Certificate, records_per_user: int
) -> Claim | str:
    """Averages (people may differ) or counts (they may not)."""
    assert found.n_users is not None
    if math.prod(target.sizes) > MOST_CELLS:
        return f"{math.prod(target.sizes):,} cells are too many to draw {RUNS:,} times"
    averaged, sizes, alpha = method.key == "average", target.sizes, float(target.alpha)
    m, weight = records_per_user, COUNT_LEVELS if averaged else records_per_user
    rate = float(target.epsilon) / (len(sizes) * (1 if target.neighbours is Neighbours.ADD_REMOVE else 2) * weight)

    def failure(point: SearchPoint, n: int) -> Failure:
        rng, truth, learned = fixed_draws(n), np.ones((1, 1)), np.ones((RUNS, 1))
        alone = round(point[1] * n) if averaged else 0  # people who hold records of one kind only
        for size in sizes:
            masses = two_heavy_masses(size, point[0])
            sums = rng.multinomial(alone, masses, size=RUNS) * weight + rng.multinomial(
                (n - alone) * m, masses, size=RUNS
            ) * (weight // m)
            kept = np.maximum(sums + noise_of_sums(rng, rate, sums.shape), 0).astype(float)
            total = kept.sum(axis=1, keepdims=True)
            column = np.where(total > 0, kept / np.maximum(total, 1), 1 / size)
            truth = (truth[:, :, None] * masses[None, None, :]).reshape(1, -1)
            learned = (learned[:, :, None] * column[:, None, :]).reshape(RUNS, -1)
        return Failure.counted(int((np.abs(learned - truth).sum(axis=1) / 2 > alpha).sum()), RUNS)

    def about(point: SearchPoint) -> str:
        people = f", {point[1]:.3g} of the people with records of one kind only" if averaged else ""
        return f"{point[0]:.3g} of the mass on two values, the rest evenly{people}"

    return Claim(method.name, found.n_users, float(target.beta), ((0.0, 1.0), (1.0, 1.0), (0.0, 0.0)), failure, about)


# Open vocabularies


def vocabulary_claim(
    target: VocabularyTarget, method: PlannedMethod, found: Certificate, records_per_user: int
) -> Claim | str:
    """The shares of all values, shown or not, against the people's mean."""
    assert found.n_users is not None
    alpha = float(target.alpha)

    def failure(point: SearchPoint, n: int) -> Failure:
        masses = vocabulary_masses(point)
        shares = vocabulary_shares(target, found, masses, round(point[2] * n), n, records_per_user)
        return Failure.counted(int((np.abs(shares - masses).max(axis=1) > alpha).sum()), RUNS)

    def about(point: SearchPoint) -> str:
        others = len(vocabulary_masses(point)) - 1
        return (
            f"{point[0]:.3g} of the mass on one value, the rest evenly on {others}, {point[2]:.3g} of the people with "
            "one value only"
        )

    just_above = math.log(min(MOST_CELLS, max(1, math.ceil(1 / alpha) - 1))) / math.log(MOST_CELLS)
    starts = ((1.0, 0.0, 1.0), (0.5, 0.0, 1.0), (0.0, just_above, 1.0), (0.75, 0.5, 0.0))
    return Claim(method.name, found.n_users, float(target.beta), starts, failure, about)


def vocabulary_masses(point: SearchPoint) -> Floats64:
    """One value, and 1 to 256 others alike."""
    others = round(MOST_CELLS ** point[1])
    return np.array([point[0], *[(1 - point[0]) / others] * others])


def vocabulary_shares(
    target: VocabularyTarget, found: Certificate, masses: Floats64, alone: int, n: int, records_per_user: int
) -> Floats64:
    """What is said of every value in each of many runs: ``alone`` people hold one value, the others draw records.

    Their number is a power of two, so that it divides the steps of a person, and at most the values that count.
    """
    learner, rng = target.learner("stable", found), fixed_draws(n)
    each = 1 << (min(records_per_user, target.max_values).bit_length() - 1)
    counted = rng.multinomial(alone, masses, RUNS) * each + rng.multinomial((n - alone) * each, masses, RUNS)
    weights = counted * (learner.contribution.levels // each)
    noisy = weights + noise_of_sums(rng, float(learner.stable.eta), weights.shape)
    people = np.maximum(1, n + noise_of_sums(rng, float(learner.counting), (RUNS, 1)))
    shown = (weights > 0) & (noisy >= learner.stable.threshold)
    return np.where(shown, np.minimum(1.0, noisy / (people * float(learner.contribution.levels))), 0.0)


# Means


def mean_claim(target: GaussianTarget, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """With the records per user that the certificate declares."""
    assert found.n_users is not None
    if 4 * found.n_users * target.d > MOST_RECORDS:
        return f"{4 * found.n_users:,} users (4 times the certified ones) are too many to draw {SETS} times"
    alpha, told = float(target.alpha), int(found["records_per_user"])

    def failure(point: SearchPoint, n: int) -> Failure:
        run = normal_run(target, told, n, target.epsilon, *point)
        return mean_failure(np.array([float(likely[away > alpha].sum()) for away, likely in map(run, range(2 * SETS))]))

    def about(point: SearchPoint) -> str:
        return f"the mean at {point[0]:.3g} of the radius, {point[1]:.3g} of the users with four times the records"

    return Claim(method.name, found.n_users, float(target.beta), ((0.5, 0.0), (1.0, 0.0), (0.01, 0.5)), failure, about)


# Selection


def _selected(
    ready: Callable[[SearchPoint], Ready], target: FamilyTarget, m: int
) -> Callable[[SearchPoint, int], Failure]:
    ready = lru_cache(maxsize=64)(ready)

    def failure(point: SearchPoint, n: int) -> Failure:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
            made, rng = ready(point), fixed_draws(n)
            far = made.distances > float(target.alpha)
            return mean_failure(np.array([float(made.chances(n, m, rng)[far].sum()) for _ in range(SETS)]))

    return failure


def selected_claim(
    target: FamilyTarget,
    method: PlannedMethod,
    found: Certificate,
    m: int,
    ready: Callable[[SearchPoint], Ready],
    starts: tuple[SearchPoint, ...],
    about: Callable[[SearchPoint], str],
) -> Claim | str:
    n = found.n_users
    assert n is not None
    if 4 * n * m * target.numbers_per_record > MOST_RECORDS:
        return f"{4 * n * m:,} records (4 times the certified users) are too many to draw {SETS} times"
    try:
        if len(ready(starts[0]).distances) > MOST_MEMBERS:
            return f"a cover of more than {MOST_MEMBERS:,} members is too large to score {SETS} times"
    except (ParameterError, TooLargeError) as error:
        return str(error)
    return Claim(method.name, n, float(target.beta), starts, _selected(ready, target, m), about)


def candidates_claim(
    target: SelectionTarget, method: PlannedMethod, found: Certificate, records_per_user: int
) -> Claim | str:
    """Candidates just over alpha apart (or those given), the first of them right."""
    assert found.n_users is not None
    m, alpha = records_per_user, target.alpha
    if target.candidates is not None:
        return selected_claim(
            target,
            method,
            found,
            m,
            lambda point: selected_ready(target, m, target.epsilon),
            ((0.0,),),
            lambda point: "the first",
        )
    if not 2 <= target.k <= 64:
        return f"{target.k:,} candidates are too many to compare on every data set"
    size = 1 << target.k.bit_length()
    values = np.arange(size)

    def ready(point: SearchPoint) -> Ready:
        # Weights 1 + t w(x) along different Walsh signs differ by 2 t on half of the values: t/2 in total variation.
        tilt = min(1.0, 2 * float(alpha) * (1.0001 + point[0]))
        signs = [1 - 2 * (np.bitwise_count(values & i).astype(np.int64) & 1) for i in range(1, target.k + 1)]
        weights = [[round(10**6 * (1 + tilt * sign)) for sign in row.tolist()] for row in signs]
        given = evolve(target, candidates=weights, domains=(("x", Integers(0, size - 1)),))
        return selected_ready(given, m, target.epsilon)

    return selected_claim(
        target,
        method,
        found,
        m,
        ready,
        ((0.0,), (0.5,)),
        lambda point: f"candidates {(1 + point[0]):.3g} alpha apart",
    )
