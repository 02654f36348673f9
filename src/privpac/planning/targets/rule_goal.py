"""What is wanted of a rule, as public numbers, and the certificates of every method for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from privpac.bounds import (
    Certificate,
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
from privpac.bounds.certificate import MOST_READ, best, fewest, numbers_up_to
from privpac.concepts.base import ConceptClass
from privpac.concepts.statistics import DEFAULT_LEVELS, ClipRule, own_clip
from privpac.guarantee import Neighbours
from privpac.parameters import MAX_EPSILON
from privpac.planning.targets.hardness import lower_agnostic, lower_realizable

if TYPE_CHECKING:
    from privpac.planning.comparison.population import Population

__all__ = ["RuleGoal"]

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
    """The clip of the regret learner, for :func:`~privpac.bounds.selection.own_clip.plan_own_clip`."""

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
