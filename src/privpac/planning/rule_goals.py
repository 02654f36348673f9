"""What is wanted of a rule, as public numbers, and the certificates of every method for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, wraps
from typing import Any, ClassVar

from privpac.bounds import (
    certify_regret_agnostic,
    certify_regret_bounded_noise,
    certify_voices_any,
    certify_voices_noise,
    plan_own_clip,
    plan_pairwise,
    plan_realizable,
    plan_user_agnostic,
    regret_split,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Neighbours
from privpac.methods.registry import METHODS, build_learner, simulated_methods
from privpac.parameters import MAX_EPSILON
from privpac.planning.lower_bounds import (
    lower_agnostic_vc,
    lower_littlestone,
    lower_representation,
    lower_sparse,
    lower_statistics,
    lower_testing,
)
from privpac.planning.populations import DEFAULT_NOISE, Population, declared_population
from privpac.planning.simulation import Simulation, excess_on
from privpac.rules.base import ConceptClass
from privpac.rules.statistics import DEFAULT_LEVELS, ClipRule, own_clip
from privpac.sample_size import MOST_READ, Certificate, best, fewest, numbers_up_to

__all__ = [
    "EPSILON_STEPS",
    "MOST_RECORDS",
    "RuleGoal",
    "RuleSimulation",
    "just_beyond",
    "largest_bound",
    "lower_agnostic",
    "lower_realizable",
    "mistake_depth",
    "quick_rules",
    "rule_simulations",
    "shattered",
    "simulable",
]


# What no private learner of a class can do without, from dimensions that are proved and not only bounded from above.
#
# ``ConceptClass.vc_dimension`` may be too large for some classes (several columns of stumps, short lists, separators),
# which is right for upper bounds and wrong for lower ones.  Lower bounds stand on sets that *are* shattered and mistake
# trees that *are* there, as each class knows them (``shattered_points``, ``mistake_tree_depth``).
#
# All bounds are the largest of those that apply.


_LONGEST = 4096
"""Dimensions beyond this are cut: a smaller one is a dimension of a smaller class."""

_MOST_RECORDS = 1 << 12
"""Records per user up to which two laws of one user are told apart exactly."""

_STRICT = Fraction(10**9 + 1, 10**9)
"""Two tasks must differ by more than the accuracy asked for."""


# Dimensions


def shattered(concept: ConceptClass) -> int:
    """So many points are shattered, surely; 0 where nothing is known of the class.

    >>> from privpac.data import Integers
    >>> from privpac.rules import Intervals, Stumps
    >>> shattered(Intervals(Integers(0, 9))), shattered(Stumps({name: Integers(0, 9) for name in "abc"}))
    (2, 3)
    """
    return concept.shattered_points


def mistake_depth(concept: ConceptClass) -> int:
    """The depth of some complete mistake tree, at most the Littlestone dimension.

    >>> from privpac.data import Integers
    >>> from privpac.rules import Intervals, Points, Thresholds
    >>> cuts = Thresholds(Integers(0, 1440))
    >>> mistake_depth(cuts), mistake_depth(Points(Integers(0, 1440))), mistake_depth(Intervals(Integers(0, 1440)))
    (10, 1, 18)
    """
    return min(_LONGEST, max(concept.shattered_points, concept.mistake_tree_depth))


# Bounds


def lower_realizable(
    concept: ConceptClass,
    *,
    alpha: Fraction,
    beta: Fraction,
    epsilon: Fraction,
    records_per_user: int,
    neighbours: Neighbours,
) -> Certificate:
    """With fewer users no pure private learner is right to ``alpha`` with probability ``1 - beta``, though some rule is
    right."""
    depth, goal = mistake_depth(concept), dict[str, Any](alpha=alpha, epsilon=epsilon)
    shared: dict[str, Any] = {"records_per_user": records_per_user, "neighbours": neighbours}
    return largest_bound(
        lambda: lower_littlestone(depth, success=1 - beta, **goal, **shared),
        lambda: lower_representation(ldim=depth, beta=beta, **goal),
        # The rules below one side of the root agree there.
        lambda: lower_sparse(ldim=max(0, depth - 1), beta=beta, **goal, **shared),
    )


def lower_agnostic(
    concept: ConceptClass,
    *,
    alpha: Fraction,
    beta: Fraction,
    epsilon: Fraction,
    records_per_user: int,
    neighbours: Neighbours,
) -> Certificate:
    """The same when labels may be wrong: also noise on shattered points must be told from the truth."""
    points, beyond = min(shattered(concept), _LONGEST), just_beyond(alpha)
    goal: dict[str, Any] = {"epsilon": epsilon, "records_per_user": records_per_user, "neighbours": neighbours}
    found = [lambda: lower_realizable(concept, alpha=alpha, beta=beta, **goal)]
    if points:
        found.append(lambda: lower_agnostic_vc(points, alpha=alpha, success=1 - beta, **goal))
        found.append(
            lambda: lower_statistics(alpha=beyond, beta=beta, records_per_user=records_per_user, dimension=points)
        )
    if points and records_per_user <= _MOST_RECORDS:
        found.append(lambda: lower_testing(alpha=beyond, beta=beta, **goal))
    return largest_bound(*found)


def just_beyond(alpha: Fraction) -> Fraction:
    """A hair more than the accuracy asked for."""
    return min(alpha * _STRICT, (1 + alpha) / 2)


def largest_bound(*bounds: Callable[[], Certificate]) -> Certificate:
    """The largest of the bounds that can be computed; a bound that is out of its own range says nothing."""
    found, refused = [], None
    for bound in bounds:
        try:
            found.append(bound())
        except (ParameterError, TooLargeError) as error:
            refused = refused or error
    known = [certificate for certificate in found if certificate.n_users is not None]
    if not known:
        raise refused or ParameterError("no lower bound applies to this class")
    return max(known, key=lambda certificate: certificate.n_users or 0)


_BELOW_TEN = (
    "100 105 110 115 120 125 130 135 140 145 150 155 160 170 175 180 190 200 210 220 225 230 240 250 260 270 275 280 "
    "300 320 340 350 360 380 400 420 450 480 500 520 550 600 650 700 750 800 850 900 950"
)
_ABOVE_TEN = "100 120 150 200 300 500 700"
"""Leading digits of the values of epsilon that a learner may be planned with; above ten they hardly matter."""


def round_values(most: Fraction) -> Iterator[Fraction]:
    """Round numbers from ``most`` downwards, without end: the same for everyone, so that who may spend more may choose
    among more of them.

    >>> [float(value) for value in itertools.islice(round_values(Fraction("1.07")), 4)]
    [1.05, 1.0, 0.95, 0.9]
    """
    for power in itertools.count(math.floor(math.log10(most)) + 1, -1):
        digits = (_BELOW_TEN if power < 1 else _ABOVE_TEN).split()
        values = (int(leading) * Fraction(10) ** (power - 2) for leading in reversed(digits))
        yield from (value for value in values if value <= most)


_DIVISORS = [d for d in range(1, DEFAULT_LEVELS + 1) if DEFAULT_LEVELS % d == 0]

FixedClip = Callable[[int, int, float, "int | None"], Certificate]
"""Records, clip, rate, and how many users are enough: the certificate of a fixed clip."""


@dataclass(frozen=True)
class _OwnClip:
    """The clip of the regret learner, for :func:`~privpac.methods.regret.plan_own_clip`."""

    bits: int
    exponent: float
    fixed: FixedClip

    def clip(self, rate: Fraction, records: int, n: int) -> int:
        return ClipRule(rate, n, self.bits)(records)

    def rate_below(self, tau: int, records: int, n: int) -> float:
        return ClipRule.rate_below(tau, records, n, self.bits)

    def certify(self, rate: float, records: int, tau: int, enough: int | None) -> Certificate:
        return self.fixed(records, tau, rate, enough)


@dataclass(frozen=True)
class _Sizes:
    """What a certificate of selection reads of a class."""

    size: int
    log_size: float
    bits: int
    cut_direction: str | None


def _kept(certify: Callable[[RuleGoal, int], Certificate]) -> Callable[[RuleGoal, int], Certificate]:
    """The certificates found are kept by the public numbers they are functions of: a page of plans, an inverse plan and
    the next question ask for many of them again."""
    found = lru_cache(maxsize=1 << 12)(certify)

    @wraps(certify)
    def of_numbers(goal: RuleGoal, m: int) -> Certificate:
        return found(goal._numbers, m)

    return of_numbers


@dataclass(frozen=True)
class RuleGoal:
    """Excess error ``alpha`` with probability ``1 - beta`` for a rule of the class, at ``epsilon``.

    ``users`` (what is declared about the people), ``model_noise`` and ``population`` set the model of predictions and
    are no part of a certificate.
    """

    concept: ConceptClass
    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    noise: Fraction | None = None
    users: str | None = None
    population: Population | None = None
    model_noise: Fraction | None = None
    every_method: bool = False
    """Whether methods that have never needed fewer users than selection are planned too."""
    representation: str | None = None
    """A public set that stands in for the class, by name."""
    within: int | None = None
    """Ask whether exactly so many users are enough: an inverse plan."""

    @property
    def delta(self) -> Fraction:
        """All methods for rules are pure."""
        return Fraction(0)

    @property
    def on_a_line(self) -> bool:
        return self.concept.cut_direction not in (None, "both")

    @property
    def _common(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "beta": self.beta}

    @property
    def _numbers(self) -> RuleGoal:
        """This goal without the class, of which only the sizes matter, and without the people."""
        own = self.concept
        sizes: Any = _Sizes(own.size, own.log_size, own.bits, own.cut_direction)
        return RuleGoal(
            sizes, self.epsilon, self.alpha, self.beta, self.neighbours, noise=self.noise, within=self.within
        )

    @property
    def declared(self) -> str:
        """The learner's clip follows a number of users: public under replace, to be declared under add-remove."""
        return ", their number declared (public_n_users)" if self.neighbours is Neighbours.ADD_REMOVE else ""

    # Upper bounds

    def realizable(self, m: int) -> Certificate:
        return plan_realizable(
            log_size=self.concept.log_size,
            epsilon=self.epsilon,
            records_per_user=m,
            neighbours=self.neighbours,
            **self._common,
        )

    def _own_clip(self, m: int, certify: FixedClip) -> Certificate:
        """The learner's own clip grows with the number of users: the n from which on its own rule is certified."""
        share = regret_split(1, self.neighbours, 1).theta
        exponent = (float(self.concept.log_size) - math.log(self.beta)) / float(self.alpha)
        rules = _OwnClip(self.concept.bits, exponent, certify)
        return plan_own_clip(
            m, self.epsilon * share, rules, largest_rate=float(MAX_EPSILON * share), within=self.within
        )

    def _agnostic(self, m: int, tau: int, theta: float, enough: int | None = None) -> Certificate:
        return certify_regret_agnostic(
            records_per_user=m,
            tau=tau,
            theta=theta,
            log_size=self.concept.log_size,
            levels=DEFAULT_LEVELS,
            log_class_size=None if self.on_a_line else self.concept.log_size,
            enough=enough,
            **self._common,
        )

    @_kept
    def regret(self, m: int) -> Certificate:
        return self._own_clip(m, self._agnostic)

    @_kept
    def regret_noise(self, m: int) -> Certificate:
        def certify(records: int, tau: int, theta: float, enough: int | None) -> Certificate:
            return certify_regret_bounded_noise(
                records_per_user=records,
                tau=tau,
                theta=theta,
                log_size=self.concept.log_size,
                noise=self.noise or 0,
                levels=DEFAULT_LEVELS,
                enough=enough,
                **self._common,
            )

        return self._own_clip(m, certify)

    def _voices(
        self, certify: Callable[..., Certificate], m: int, *, beat: int | None = None, **more: Any
    ) -> Certificate:
        given = {"size": self.concept.size, "theta": self._theta, "levels": DEFAULT_LEVELS, **self._common, **more}

        def certified(size: int, beat: int | None) -> Certificate:
            return certify(records_per_user=size, beat=beat, **given)

        return fewest(m, certified, self._worth, beat if self.within is None else self.within + 1)

    @property
    def _theta(self) -> Fraction:
        return self.epsilon if self.neighbours is Neighbours.ADD_REMOVE else self.epsilon / 2

    def _worth(self, records: int) -> float:
        """Fewer users are never certified with so many records: the clip voice's vote is worth at most ``alpha m/tau``
        (see ``plan_own_clip``)."""
        exponent = (float(self.concept.log_size) - math.log(self.beta)) / float(self.alpha * self._theta)
        return exponent * own_clip(records) / records

    @_kept
    def voices(self, m: int) -> Certificate:
        return self._voices(certify_voices_any, m, thresholds=self.on_a_line)

    @_kept
    def voices_noise(self, m: int) -> Certificate:
        """The fewest users at a round epsilon up to this one.

        With a larger epsilon the mean voice takes over sooner, sometimes before it has enough users (83 certified at
        1.3, 128 at 1.7): who may spend more may also spend less.  Round values alone are tried, this epsilon only if it
        is one: more budget then has all the choices that less has, and never certifies more users.
        """
        least: Certificate | None = None
        for epsilon in round_values(self.epsilon):
            goal, beat = replace(self, epsilon=epsilon), None
            if least is not None:
                beat = least.n_users if self.within is None else self.within + 1
                fewest_ever = min(map(goal._worth, numbers_up_to(min(m, MOST_READ))))
                if beat is None or fewest_ever >= beat or (least.n_users is not None and least.n_users < beat):
                    break
            found = goal._voices(certify_voices_noise, m, beat=beat, noise=self.noise or 0)
            if least is None or (found.n_users is not None and (beat is None or found.n_users < beat)):
                least = found.run_with(epsilon=epsilon)
        assert least is not None
        return least

    def mean(self, m: int) -> Certificate:
        """More records mean fewer users, except that a vote of a number of records that does not divide the levels is
        rounded: then perhaps only as many are read as the largest number that does."""
        theta = float(regret_split(self.epsilon, self.neighbours, 1).theta)
        whole = max(divisor for divisor in _DIVISORS if divisor <= m)
        found = best([self._agnostic(size, size, theta) for size in dict.fromkeys((m, whole))])
        capped = {} if found["records_per_user"] == m else {"max_records": whole}
        return found.run_with(statistic="mean", **capped)

    def user_agnostic(self, m: int) -> Certificate:
        return plan_user_agnostic(
            log_size=self.concept.log_size,
            dimension=self.concept.vc_dimension,
            records_per_user=m,
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            truncate=True,
            **self._common,
        )

    def pairwise(self, m: int) -> Certificate:
        return plan_pairwise(
            log_size=self.concept.log_size,
            epsilon=self.epsilon,
            alpha1=self.alpha,
            beta=self.beta,
            records_per_user=m,
            neighbours=self.neighbours,
        )

    # Lower bounds

    def lower_realizable(self, m: int) -> Certificate:
        return lower_realizable(
            self.concept, epsilon=self.epsilon, records_per_user=m, neighbours=self.neighbours, **self._common
        )

    def lower(self, m: int) -> Certificate:
        return lower_agnostic(
            self.concept, epsilon=self.epsilon, records_per_user=m, neighbours=self.neighbours, **self._common
        )


# What a method is predicted to do for a class of rules, on the standard model or on people of one's own.
#
# Data sets are drawn with fixed seeds and the excess error is a mean over the exact law, so the same question has the
# same answer.


MOST_RECORDS = 1 << 14
"""Simulated records per data set where a moment is all there is."""

NAMED = 16
_SEED = 0


_SMALL = 1 << 12
"""Classes up to this size are simulated without being asked."""
EPSILON_STEPS = 7
"""Of the search for the epsilon at which a mean is small enough."""


def simulable(n: int, m: int) -> tuple[int, int]:
    """Users and records to simulate for so many: fewer records each where they would be too many."""
    users = min(n, MOST_RECORDS)
    return users, min(m, max(2, MOST_RECORDS // users))


def quick_rules(concept: ConceptClass, n_users: int | None, sizes: Iterable[int], quantity: str) -> bool:
    """Whether predictions for so many users, or for the search for their number, take a moment only."""
    records = 0 if n_users is None else sum(min(n_users * m, 64 * MOST_RECORDS) for m in sizes)
    if quantity == "epsilon":
        records *= EPSILON_STEPS
    return records <= 32 * MOST_RECORDS and (not concept.rule_by_rule or concept.size <= _SMALL)


def rule_simulations(target: RuleGoal, setting: str | None) -> list[RuleSimulation]:
    """The methods of a setting; none where the class has no affordable model."""
    made = [RuleSimulation(method, target) for method in simulated_methods(setting)]
    return [simulation for simulation in made if simulation.people(NAMED) is not None]


@dataclass(frozen=True)
class RuleSimulation(Simulation):
    """One method for rules, on the population that was supplied or else on the standard model."""

    kind: str
    target: RuleGoal
    _held: dict[int, dict[int, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    fine: ClassVar[int] = 32

    @property
    def key(self) -> str:
        return self.kind

    @property
    def method(self) -> str:
        return METHODS[self.kind].title

    @property
    def noise(self) -> Fraction:
        """Label noise of the standard model: none where some rule is right."""
        if self.target.model_noise is not None or self.kind == "realizable":
            return self.target.model_noise or Fraction(0)
        return DEFAULT_NOISE if self.target.noise is None else self.target.noise

    @cached_property
    def model(self) -> str:
        people = self.people(NAMED)
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
        return given if given.records_per_user is None else replace(given, records_per_user=m)

    def learner(self, concept: ConceptClass, n: int, m: int, epsilon: Fraction) -> Any:
        common = {"concept": concept, "epsilon": epsilon, "neighbours": self.target.neighbours, "max_records": m}
        return build_learner(self.kind, common, {"public_n_users": n})

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """None where the people are more than can be simulated, or than there are."""
        people, m = self.people(records_per_user), records_per_user
        most = None if people is None else people.largest()
        if people is None or (most is not None and n_users > most) or n_users * m > 64 * MOST_RECORDS:
            return None
        twin = self.learner(people.concept, n_users, m, epsilon).with_(concept=people.concept)
        held = self._held.setdefault(m, {})

        def excess(i: int) -> float:
            # Nested data sets, so that more users of a run are its fewer ones and some more.
            if i not in held:
                held[i] = people.growing((_SEED, i))
            return excess_on(twin, held[i](n_users), people)

        return excess

    def between(self, records_per_user: int) -> tuple[int, int]:
        people = self.people(records_per_user)
        return (4, 0) if people is None else (4, people.largest() or max(64, 4 * MOST_RECORDS // records_per_user))

    def limit(self, records_per_user: int, n_users: int) -> int:
        """A public number of records, but eight runs at least."""
        return min(self.most_runs, max(8, 16 * MOST_RECORDS // (n_users * records_per_user)))
