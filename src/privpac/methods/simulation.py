"""What simulations share: means of repeatable draws, whether so many users will do, and the search for the least number
that will.

**What a prediction is.**  The mean of a loss (excess error, total variation, share of ranks) on a stated model: at the
predicted number of users it is at most ``alpha``.  In a single run the loss may be larger; only certificates say how
often.

**How sure it is.**  Runs ``0, 1, 2, ...`` have public seeds of their own, so every process gives the same answer.  They
are added until the standard error of the mean is at most 5 % of it; in a search, of ``alpha``, or until the mean is
three standard errors away from ``alpha`` (then the number of users is right up to the steps of the search).  At a
public number of runs it ends all the same, and what is shown says so.  Where a run may fail altogether, a standard
error is never taken to be smaller than that of one failure in all runs.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import evolve, field, frozen

from privpac.arrays import Array
from privpac.bisection import halved, least_about, narrow
from privpac.data import UserData
from privpac.errors import AccuracyWarning, ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.law import Law
from privpac.law.blocks import BlockLaw
from privpac.methods.planned import RuleGoal
from privpac.methods.registry import METHODS, build_learner
from privpac.rng import Rng
from privpac.rules.base import ConceptClass
from privpac.rules.cuts import Thresholds
from privpac.rules.populations import DEFAULT_NOISE, Population, declared_population, standard_population

# Public randomness of simulations: made-up people are the same in every process, and no private data are near.


Draws = np.random.Generator
"""What made-up people are drawn with."""


def fixed_draws(*seed: int) -> Draws:
    """A generator that depends on the seed alone; never for data, never for noise.

    >>> bool(fixed_draws(1, 2).integers(10**6) == fixed_draws(1, 2).integers(10**6))
    True
    """
    return np.random.default_rng(seed)


SETTLED = 0.05
_CLEAR = 3.0


@frozen(slots=False)
class Prediction:
    """A mean over simulated data sets, and its standard error."""

    excess: float
    error: float
    model: str
    runs: int = 0

    @property
    def relative(self) -> float:
        """The standard error as a share of the mean."""
        return 0.0 if self.error == 0 else self.error / self.excess if self.excess else math.inf

    def __str__(self) -> str:
        return f"predicted excess error {self.excess:.4f} ± {self.error:.4f} (mean; {self.model})"


class ModelRng(Rng):
    """Coins of a simulation: public, repeatable, and never used for a release."""

    def __init__(self, *seed: int) -> None:
        self._drawn = np.random.default_rng(list(seed))

    def word(self) -> int:
        return int(self._drawn.integers(0, 1 << 64, dtype=np.uint64))


def draw_until_decided(
    draw: Callable[[int], float],
    *,
    against: float | None = None,
    first: int = 6,
    most: int = 256,
    worst: float = 0.0,
    strata: int = 1,
) -> tuple[float, float, int]:
    """The mean of runs ``draw(0), draw(1), ...``, its standard error, and how many there were.

    ``worst`` is the loss of a run that fails, where that may happen so rarely that few runs do not show it.  Run ``i``
    belongs to part ``i % strata`` of the model, all of them equally often (``first`` is a multiple): only the spread
    within a part is chance.

    >>> draw_until_decided(lambda i: float(i % 2), most=4096)[2], draw_until_decided(lambda i: 0.25, against=0.5)
    (768, (0.25, 0.0, 6))
    """
    values: list[float] = []
    size = min(first, most)
    while True:
        values += [draw(i) for i in range(len(values), size)]
        mean = float(np.mean(values))
        parts = np.array(values[: size - size % strata]).reshape(-1, strata)
        spread = math.sqrt(float(parts.var(axis=0, ddof=1).mean()) / size) if len(parts) > 1 else math.inf
        error = max(spread, worst / size)
        clear = against is not None and abs(mean - against) > _CLEAR * error
        if clear or error <= SETTLED * (mean if against is None else against) or size >= most:
            return mean, error, size
        size = min(2 * size, most)


class Simulation(ABC):
    """One method on one stated model: a concrete one has a ``target``, a ``method`` (the row) and a ``model``, and says
    what a run is."""

    if TYPE_CHECKING:  # fields or properties of the concrete ones

        @property
        def target(self) -> Any: ...  # the target, or what of it the simulation reads
        @property
        def method(self) -> str: ...
        @property
        def model(self) -> str: ...

    first: ClassVar[int] = 6
    most_runs: ClassVar[int] = 256
    worst: ClassVar[float] = 0.0
    strata: ClassVar[int] = 1
    fine: ClassVar[int] = 16
    quick: bool = True
    """Whether it takes a moment only."""

    @property
    def key(self) -> str:
        """The key of its line in a plan, where a recommendation goes by it."""
        return ""

    @property
    def possible(self) -> bool:
        """Whether there is an affordable model."""
        return True

    @abstractmethod
    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """The loss of run ``i``, exactly or with its seed; None where that is too much to simulate, or no run is
        possible."""

    @abstractmethod
    def between(self, records_per_user: int) -> tuple[int, int]:
        """Where to begin the search, and the most users that are simulated; at most 0 where nothing is."""

    def at(
        self, records_per_user: int, n_users: int, epsilon: Fraction, against: float | None = None
    ) -> Prediction | None:
        """The mean loss of so many users; with ``against`` as sure as it takes to compare it with that."""
        draw = self.run(records_per_user, n_users, epsilon)
        if draw is None:
            return None
        most = self.limit(records_per_user, n_users)
        mean, error, runs = draw_until_decided(
            draw, against=against, first=self.first, most=most, worst=self.worst, strata=self.strata
        )
        return Prediction(mean, error, f"{self.model}; {n_users} users", runs)

    def limit(self, records_per_user: int, n_users: int) -> int:
        """Runs at most."""
        return self.most_runs

    def users(self, records_per_user: int) -> int | None:
        """About the least number of users at which the mean is at most alpha."""
        return self.found(records_per_user)[0]

    def found(self, records_per_user: int) -> tuple[int | None, float]:
        """The same, and its standard error: 0 where the comparisons next to it are clear, else that of the mean as a
        share of alpha."""
        alpha, seen = float(self.target.alpha), dict[int, Prediction]()

        def enough(n_users: int) -> bool:
            made = self.at(records_per_user, n_users, self.target.epsilon, alpha)
            if made is not None:
                seen[n_users] = made
            return made is not None and made.excess <= alpha

        start, most = self.between(records_per_user)
        users = None if most < 1 else least_about(enough, start=start, most=most, fine=self.fine)
        if users is None:
            return None, 0.0
        below = max((n for n in seen if n < users), default=users)
        near = [seen[n] for n in {users, below} if n in seen]
        return users, max(
            (made.error / alpha for made in near if abs(made.excess - alpha) <= _CLEAR * made.error), default=0.0
        )


def big_integers(values: list[int]) -> Array:
    """Integers of any size as an array."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


# What a learner is predicted to do on a stated model: the exact law on simulated data, never the mechanism's own
# draws.
#
# A model is a :class:`~privpac.rules.populations.Population`: the standard one of a class
# (:func:`standard_population`), a public table, or a function of one's own.  A prediction is not a certificate: it
# holds for the model it names.
#
# The mean excess error is over data sets of a fixed seed and over the law of the output, in double precision.  Where a
# learner first buys a noisy count of the users its law is taken at the true number; where it first buys an estimate of
# the least error, the mean is over the law of the estimate.


_MOST_USERS = 1 << 14
_MOST_REPEATS = 10_000
_FINE = 64
"""A predicted number of users is found up to one part in this many; its Monte-Carlo error is larger."""


def predict_on(learner: Any, population: Population, *, n_users: int, repeats: int = 6, seed: int = 0) -> Prediction:
    """Mean excess error of a selection learner on data sets of ``n_users`` users drawn from a population.

    >>> from privpac.methods.regret import RegretSelection
    >>> from privpac.data import Integers
    >>> cuts = Thresholds(Integers(0, 1440))
    >>> people = standard_population(cuts, records_per_user=16, noise="0.1")
    >>> round(predict_on(RegretSelection(cuts, 1, public_n_users=100), people, n_users=100).excess, 3)
    0.003
    """
    _check(learner, population)
    n, k = positive_int(n_users, "n_users"), positive_int(repeats, "repeats", maximum=_MOST_REPEATS)
    most = population.largest()
    if most is not None and n > most:
        raise ParameterError(f"the population has {most} users, so n_users can be at most that; got {n}")
    start = positive_int(seed, "seed", minimum=0)
    twin = learner.with_(concept=population.concept)
    found = [excess_on(twin, population.draw(n, fixed_draws(start, i)), population) for i in range(k)]
    spread = float(np.std(found, ddof=1)) / len(found) ** 0.5 if len(found) > 1 else float("nan")
    return Prediction(float(np.mean(found)), spread, f"{population.name}; {n} users", k)


def predicted_users(
    build: Callable[[int], Any],
    population: Population,
    *,
    alpha: Rational,
    repeats: int = 6,
    seed: int = 0,
    most: int = _MOST_USERS,
) -> int | None:
    """About the least number of users at which the mean excess error is at most ``alpha``; None if more than ``most``
    (or all) are needed.

    ``build(n)`` is the learner for ``n`` users.  Doubling, then bisection on nested data sets, up to one part in 64:
    the excess is taken to fall with the number of users.
    """
    wanted = float(rational(alpha, "alpha", above=0, below=1))
    k, top = positive_int(repeats, "repeats", maximum=_MOST_REPEATS), positive_int(most, "most")
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
    learner: object, *, n_users: int, records_per_user: int, noise: Rational = 0.2, repeats: int = 6, seed: int = 0
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


def _check(learner: object, population: object) -> None:
    if not hasattr(learner, "with_") or not hasattr(learner, "law"):
        raise TypeError(f"learner must be a selection learner such as RegretSelection, got {type(learner).__name__}")
    if not isinstance(population, Population):
        raise TypeError(
            f"population must be a Population, such as standard_population(...), got {type(population).__name__}"
        )


# What a method is predicted to do for a class of rules, on the standard model or on people of one's own.
#
# Data sets are drawn with fixed seeds and the excess error is a mean over the exact law, so the same question has the
# same answer.


MOST_SIMULATED_RECORDS = 1 << 14
"""Simulated records per data set where a moment is all there is."""

_NAMED = 16
_SMALL = 1 << 12
"""Classes up to this size are simulated without being asked."""
_MOST_COLUMNS = 16
"""Columns that are drawn, over all numbers of records, where a number of users is searched for without being asked."""
EPSILON_STEPS = 7
"""Of the search for the epsilon at which a mean is small enough."""


def simulable(n: int, m: int) -> tuple[int, int]:
    """Users and records to simulate for so many: fewer records each where they would be too many."""
    users = min(n, MOST_SIMULATED_RECORDS)
    return users, min(m, max(2, MOST_SIMULATED_RECORDS // users))


def quick_rules(concept: ConceptClass, n_users: int | None, sizes: tuple[int, ...], quantity: str) -> bool:
    """Whether predictions for so many users, or for the search for their number, take a moment only."""
    records = 0 if n_users is None else sum(min(n_users * m, 64 * MOST_SIMULATED_RECORDS) for m in sizes)
    if quantity == "epsilon":
        records *= EPSILON_STEPS
    wide = n_users is None and len(concept.declared()) * len(sizes) > _MOST_COLUMNS
    few = not wide and records <= 32 * MOST_SIMULATED_RECORDS
    return few and (not concept.rule_by_rule or concept.size <= _SMALL)


@frozen(slots=False)
class RuleSimulation(Simulation):
    """One method for rules, on the population that was supplied or else on the standard model."""

    kind: str
    target: RuleGoal
    _drawn: dict[int, dict[int, Any]] = field(factory=dict, init=False, repr=False, eq=False)

    fine: ClassVar[int] = 32

    @property
    def key(self) -> str:
        return self.kind

    @property
    def possible(self) -> bool:
        return self.people(_NAMED) is not None

    @property
    def method(self) -> str:
        return METHODS[self.kind].title

    @property
    def noise(self) -> Fraction:
        """Label noise of the standard model: none where some rule is right."""
        if self.target.model_noise is not None or METHODS[self.kind].setting == "realizable":
            return self.target.model_noise or Fraction(0)
        return DEFAULT_NOISE if self.target.noise is None else self.target.noise

    @cached_property
    def model(self) -> str:
        people = self.people(_NAMED)
        assert people is not None
        return people.for_any_records

    def people(self, m: int) -> Population | None:
        """People with ``m`` records each; of a table or a function of one's own, its people, of whom ``m`` records are
        read."""
        given = self.target.population
        if given is None:
            try:
                return declared_population(
                    self.target.users or "alike", self.target.concept, records_per_user=m, noise=self.noise
                )
            except (ParameterError, TooLargeError):
                return None
        return given if given.records_per_user is None else evolve(given, records_per_user=m)

    def learner(self, concept: ConceptClass, n: int, m: int, epsilon: Fraction) -> Any:
        common = {"concept": concept, "epsilon": epsilon, "neighbours": self.target.neighbours, "max_records": m}
        return build_learner(self.kind, common, {"public_n_users": n})

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """None where the people are more than can be simulated, or than there are."""
        people, m = self.people(records_per_user), records_per_user
        most = None if people is None else people.largest()
        if people is None or (most is not None and n_users > most) or n_users * m > 64 * MOST_SIMULATED_RECORDS:
            return None
        twin = self.learner(people.concept, n_users, m, epsilon).with_(concept=people.concept)
        drawn = self._drawn.setdefault(m, {})

        def excess(i: int) -> float:
            # Nested data sets, so that more users of a run are its fewer ones and some more.
            if i not in drawn:
                drawn[i] = people.growing((0, i))
            return excess_on(twin, drawn[i](n_users), people)

        return excess

    def between(self, records_per_user: int) -> tuple[int, int]:
        people = self.people(records_per_user)
        return (
            (4, 0)
            if people is None
            else (4, people.largest() or max(64, 4 * MOST_SIMULATED_RECORDS // records_per_user))
        )

    def limit(self, records_per_user: int, n_users: int) -> int:
        """A public number of records, but eight runs at least."""
        return min(self.most_runs, max(8, 16 * MOST_SIMULATED_RECORDS // (n_users * records_per_user)))
