"""What a learner is predicted to do on a stated model: the exact law on simulated data, never the mechanism's own
draws.

A model is a :class:`~privpac.planning.comparison.population.Population`: the standard one of a class
(:func:`standard_population`), a public table, or a function of one's own.  A prediction is not a certificate: it holds
for the model it names.

The mean excess error is over data sets of a fixed seed and over the law of the output, in double precision.  Where a
learner first buys a noisy count of the users its law is taken at the true number; where it first buys an estimate of
the least error, the mean is over the law of the estimate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from privpac.concepts.thresholds import Thresholds
from privpac.data import UserData
from privpac.errors import AccuracyWarning, ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.law import Law
from privpac.law.blocks import BlockLaw
from privpac.least import halved, narrow
from privpac.planning.comparison.population import Population
from privpac.planning.models.simulation import Prediction
from privpac.planning.models.standard_models import standard_population

__all__ = ["Prediction", "predict_excess", "predict_on", "predicted_users", "standard_population"]

MOST_USERS = 1 << 14
MOST_REPEATS = 10_000
_FINE = 64
"""A predicted number of users is found up to one part in this many; its Monte-Carlo error is larger."""


def predict_on(learner: Any, population: Population, *, n_users: int, repeats: int = 6, seed: int = 0) -> Prediction:
    """Mean excess error of a selection learner on data sets of ``n_users`` users drawn from a population.

    >>> from privpac.learners.selection.regret import RegretSelection
    >>> from privpac.data import Integers
    >>> cuts = Thresholds(Integers(0, 1440))
    >>> people = standard_population(cuts, records_per_user=16, noise="0.1")
    >>> round(predict_on(RegretSelection(cuts, 1, public_n_users=100), people, n_users=100).excess, 3)
    0.003
    """
    _check(learner, population)
    n, k = positive_int(n_users, "n_users"), positive_int(repeats, "repeats", maximum=MOST_REPEATS)
    most = population.largest()
    if most is not None and n > most:
        raise ParameterError(f"the population has {most} users, so n_users can be at most that; got {n}")
    start = positive_int(seed, "seed", minimum=0)
    twin = learner.with_(concept=population.concept)
    found = [excess_on(twin, population.draw(n, np.random.default_rng([start, i])), population) for i in range(k)]
    spread = float(np.std(found, ddof=1)) / len(found) ** 0.5 if len(found) > 1 else float("nan")
    return Prediction(float(np.mean(found)), spread, f"{population.name}; {n} users", k)


def predicted_users(
    build: Callable[[int], Any],
    population: Population,
    *,
    alpha: Rational,
    repeats: int = 6,
    seed: int = 0,
    most: int = MOST_USERS,
) -> int | None:
    """About the least number of users at which the mean excess error is at most ``alpha``; None if more than ``most``
    (or all) are needed.

    ``build(n)`` is the learner for ``n`` users.  Doubling, then bisection on nested data sets, up to one part in 64:
    the excess is taken to fall with the number of users.
    """
    wanted = float(rational(alpha, "alpha", above=0, below=1))
    k, top = positive_int(repeats, "repeats", maximum=MOST_REPEATS), positive_int(most, "most")
    largest = population.largest() if isinstance(population, Population) else None
    top = top if largest is None else min(top, largest)
    start = positive_int(seed, "seed", minimum=0)
    _check(build(1), population)
    people = [population.growing((start, i)) for i in range(k)]

    def enough(n: int) -> bool:
        twin, total = build(n).with_(concept=population.concept), 0.0
        for first in people:
            total += excess_on(twin, first(n), population)
            if total > wanted * k:  # excess errors are not negative: the rest cannot bring the mean down
                return False
        return True

    high = 1
    while not enough(high):
        if high == top:
            return None
        high = min(2 * high, top)
    return narrow(enough, high // 2, high, middle=halved, wide=lambda low, high: high - low > max(1, low // _FINE))[1]


def predict_excess(
    learner: Any, *, n_users: int, records_per_user: int, noise: Rational = 0.2, repeats: int = 6, seed: int = 0
) -> Prediction:
    """Mean excess error of a learner on the standard model of its class."""
    concept = getattr(learner, "concept", None)
    people = standard_population(
        Thresholds() if concept is None else concept, records_per_user=records_per_user, noise=noise
    )
    if people is None:
        raise ParameterError("this class has no affordable model: give predict_on a population of your own")
    return predict_on(learner, people, n_users=n_users, repeats=repeats, seed=seed)


def excess_on(learner: Any, data: UserData, population: Population) -> float:
    """Mean excess error over the law of the rule that a learner would release from these data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        if getattr(learner, "needs_count", False):
            return population.expected_excess(_blocks(learner.law(data, given=data.n_users)))
        if not getattr(learner, "estimates", False):
            return population.expected_excess(_blocks(learner.law(data)))
        bound = learner.bind(data)
        estimates = learner.estimate_learner.law_of(bound)
        shares = [(value, float(estimates.prob(value))) for value in estimates.support()]
        # What has no weight in doubles costs as much time as what has.
        kept = [(value, share) for value, share in shares if share > 1e-9]
        total = sum(share for _, share in kept)
        return (
            sum(share * population.expected_excess(_blocks(learner.given_law(bound, value))) for value, share in kept)
            / total
        )


def _blocks(law: Law) -> BlockLaw:
    if not isinstance(law, BlockLaw) or law.lows is None or law.eta is None:
        raise ParameterError(
            "predictions need a law over blocks of rules, such as those of RegretSelection or RealizableSelection"
        )
    return law


def _check(learner: Any, population: Any) -> None:
    if not hasattr(learner, "with_") or not hasattr(learner, "law"):
        raise TypeError(f"learner must be a selection learner such as RegretSelection, got {type(learner).__name__}")
    if not isinstance(population, Population):
        raise TypeError(
            f"population must be a Population, such as standard_population(...), got {type(population).__name__}"
        )
