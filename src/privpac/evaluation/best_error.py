"""How well can any rule of this kind do?  A private lower bound on the least error of a class, for people like these.

``S = min over rules of sum over users of floor(levels * mistakes / m)``, the least entry of one folded profile, is
released with noise, and under add-remove the number of users with records as well.

**Guarantee.**  Pure epsilon.  One user more or less moves every sum, hence the minimum, by an integer in ``0..levels``;
a replaced one by at most ``levels`` either way: noise of rate ``epsilon/levels`` under both relations.  Under
add-remove a fifth of epsilon buys the count (sensitivity 1), four fifths S.

**Accuracy.**  Users i.i.d., any law.  Let ``h*`` have the least error of the population; it does not depend on the
data.  The empirical minimum is at most the empirical error of ``h*`` (floors only lower it), which exceeds its mean by
much with little probability: with ``s`` below S, ``n+`` and ``n-`` around the number of users,
``l = inf{p <= s/(n+ levels): kl(s/(n+ levels) || p) <= ln(1/b)/n-}`` is at most ``err(h*)``, hence at most the error of
every rule, except with probability ``b`` and what the noises fail by.  One rule, no union: the size of the class does
not enter.  Under replace users without records count with error 0, which only lowers the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from privpac.errors import ParameterError, TooLargeError
from privpac.evaluation.best_error_bounds import certify_least_error
from privpac.evaluation.evaluator import MAX_LEVELS
from privpac.evaluation.intervals import Range, kl_range, noise_reach
from privpac.evaluation.results import LEAST_NOISE, percent, sure
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.mechanisms.laplace import discrete_laplace
from privpac.methods.base import Bound, Learner, count_users
from privpac.methods.small_tree import SmallTreeLaw, most_likely
from privpac.parameters import (
    DEFAULT_BETA,
    DEFAULT_LEVELS,
    bounds,
    named,
    privacy,
    probability,
    protected_unit,
    relation,
    whole,
    whole_or_none,
)
from privpac.result import Released, register
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.hierarchies.nodes import TreeNodes
from privpac.rules.statistics import Statistic
from privpac.sample_size import Certificate

if TYPE_CHECKING:
    from privpac.data import UserData, Users
    from privpac.rng import Rng

__all__ = [
    "LeastError",
    "LeastErrorBound",
    "LeastErrorPlan",
    "MeanError",
    "least_sum",
    "plan_least_error",
    "steps_of",
]


# The least sum of errors over a class: where rules have scores one by one, and where they share one law.
#
# Either way a person adds to every rule an integer in ``0..levels`` that is at most ``levels`` times that person's
# error rate: floors only lower it.


_SHARP = Fraction(1 << 20)
"""A rate at which one vote outweighs every prior: the most likely tree is one of the fewest votes against it."""


@dataclass(frozen=True)
class MeanError(Statistic):
    """A user's error rate in steps of ``1/levels``, rounded down; nothing is subtracted."""

    levels: int

    @property
    def bound(self) -> int:
        return self.levels

    def cap_of(self, m: int) -> int:
        return m


def steps_of(concept: ConceptClass, levels: int) -> int:
    """In how many steps a person's error rate is counted: those of the class where it has steps of its own."""
    steps = concept.error_steps(levels)
    if steps is None:
        raise TooLargeError(
            f"the least error of {type(concept).__name__} is not found: its rules are not scored one by one"
        )
    return steps


def least_sum(concept: Any, users: Users, levels: int) -> int:
    """The least sum over all rules of a bound class."""
    if concept.scored:
        return int(users.fold(concept.kernel(MeanError(levels))).least)
    cells = concept.cells(users)
    best = most_likely(concept.shape, cells, _SHARP)
    return int(SmallTreeLaw(concept.shape, cells, _SHARP).score(best))


COUNT_SHARE = Fraction(1, 5)
"""Of epsilon, for the number of users where that is private."""


class _WithRecords:
    """The number of users who have records."""

    def zero(self) -> int:
        return 0

    def chunk(self, users: UserData) -> int:
        return int(np.count_nonzero(users.sizes))

    def merge(self, a: int, b: int) -> int:
        return a + b


@register("least-error")
@dataclass(frozen=True)
class LeastErrorBound:
    """A noisy least sum of errors, and what it says of every rule of the class.

    ``sum`` in units of ``1/levels`` of a person, with noise of rate ``noise``; ``people`` with noise of rate
    ``count_noise``, or exact where that is None.
    """

    sum: int
    people: int
    levels: int
    noise: Fraction
    count_noise: Fraction | None
    confidence: Fraction
    of: str = "rule"

    @property
    def value(self) -> float:
        """The least error on these people, as measured."""
        return min(1.0, max(0.0, self.sum / (max(1, self.people) * self.levels)))

    def lower(self, records_per_user: int = 1, *, confidence: Rational | None = None) -> float:
        """No rule of the class is wrong less often than this, for people like these.

        ``records_per_user`` above 1 declares that everybody holds so many records, all of one law: then records count,
        not only people.
        """
        doubt = 1 - (self.confidence if confidence is None else rational(confidence, "confidence", above=0, below=1))
        beta = doubt / (2 if self.count_noise is None else 3)  # people, the noise of the sum, that of the count
        around = 0 if self.count_noise is None else noise_reach(self.count_noise, 1, beta)
        least, most = self.people - around, self.people + around
        low = self.sum - noise_reach(self.noise, 1, 2 * beta)  # one side only: twice the level for both
        if least < 1 or low <= 0:
            return 0.0
        share = min(1.0, low / (most * self.levels))
        return kl_range(Range(share, share), least * records_per_user, float(beta), sides=1).lo

    def __str__(self) -> str:
        return (
            f"no {self.of} of this kind is wrong less often than {percent(self.lower())}, for people like these "
            f"({sure(self.confidence)})"
        )

    def to_dict(self) -> dict[str, Any]:
        names = ("sum", "people", "levels", "noise", "count_noise", "confidence", "of")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LeastErrorBound:
        made = cls(**values)
        if any(isinstance(v, bool) or not isinstance(v, int) for v in (made.sum, made.people)):
            raise ParameterError("sum and people must be integers")
        positive_int(made.levels, "levels")
        noises = [made.noise] if made.count_noise is None else [made.noise, made.count_noise]
        return cls(
            made.sum,
            made.people,
            made.levels,
            rational(noises[0], "noise", minimum=LEAST_NOISE),
            None if made.count_noise is None else rational(noises[1], "count_noise", minimum=LEAST_NOISE),
            rational(made.confidence, "confidence", above=0, below=1),
            str(made.of),
        )


def _as_class(concept: Any) -> ConceptClass:
    if isinstance(concept, VC1Tree):
        return TreeNodes(concept)
    if not isinstance(concept, ConceptClass):
        raise TypeError(f"concept must be a class of rules, got {type(concept).__name__}")
    return concept


@frozen(slots=False, field_transformer=named)
class LeastError(Learner):
    """Estimate the least error of a class from below.

    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0)], [(30, 1)]] * 900, features={"age": pp.Integers(0, 99)})
    >>> found = LeastError(pp.Thresholds(), 1).learn(people).hypothesis
    >>> 0.4 < found.lower() < 0.5
    True
    """

    concept: ConceptClass = field(converter=_as_class)
    epsilon: Fraction = field(converter=privacy)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    max_records: int | None = field(default=None, kw_only=True, converter=whole_or_none)
    levels: int = field(default=DEFAULT_LEVELS, kw_only=True, converter=whole, metadata=bounds(maximum=MAX_LEVELS))
    confidence: Fraction = field(default=Fraction(19, 20), kw_only=True, converter=probability)

    def __attrs_post_init__(self) -> None:
        least = 5 * self.steps * LEAST_NOISE
        if self.epsilon < least:
            raise ParameterError(f"epsilon must be at least {float(least):.1g} to say anything")

    @property
    def steps(self) -> int:
        """In how many steps a person's error rate is counted."""
        return steps_of(self.concept, self.levels)

    @property
    def _counts(self) -> bool:
        return self.neighbours is Neighbours.ADD_REMOVE

    @property
    def guarantee(self) -> Guarantee:
        epsilon = self.epsilon
        how = ("the least sum of errors with noise" + (", and the number of users" if self._counts else ""),)
        parts = (COUNT_SHARE * epsilon, (1 - COUNT_SHARE) * epsilon) if self._counts else (epsilon,)
        rho = sum((part**2 / 2 for part in parts), Fraction(0))
        return Guarantee(epsilon, unit=self.unit, neighbours=self.neighbours, rho=rho, derivation=how)

    def bind(self, data: Users) -> Bound:
        return Bound.of(self.concept, data, self.unit, self.max_records)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        epsilon, levels = self.epsilon, self.steps
        exact = least_sum(bound.concept, bound.users, levels)
        spent = (1 - COUNT_SHARE) * epsilon if self._counts else epsilon
        noise, counting = spent / levels, COUNT_SHARE * epsilon if self._counts else None
        noisy = exact + discrete_laplace(noise, rng)
        if counting is None:
            people = count_users(bound.users)
        else:
            people = bound.users.fold(_WithRecords()) + discrete_laplace(counting, rng)
        found = LeastErrorBound(noisy, people, levels, noise, counting, self.confidence)
        return Released(
            found, self.guarantee, parameters={"class": type(bound.concept).__name__}, learner="least error"
        )


# Which way to the least error of a class needs fewer people?  Certified numbers of all three, before any data.


WAYS = ("sum", "oneshot", "bisect")


@dataclass(frozen=True)
class LeastErrorPlan:
    """Users for an estimate within ``radius`` of the least error, by every method."""

    radius: Fraction
    epsilon: Fraction
    records_per_user: int
    certificates: tuple[tuple[str, Certificate], ...]

    @property
    def best(self) -> str:
        """The method of the fewest certified users; of equals the sum, which has a bound that holds for fewer, too."""
        known = [(c.n_users, WAYS.index(way), way) for way, c in self.certificates if c.n_users is not None]
        return min(known)[2] if known else "sum"

    def __getitem__(self, method: str) -> Certificate:
        return dict(self.certificates)[method]

    def __str__(self) -> str:
        rows = ", ".join(f"{way} {'none' if c.n_users is None else f'{c.n_users:,}'}" for way, c in self.certificates)
        return (
            f"least error within {self.radius}, epsilon {self.epsilon}, {self.records_per_user} records each:\n"
            f"certified people by {rows}; fewest: {self.best}"
        )


def plan_least_error(
    rule: ConceptClass | VC1Tree,
    *,
    epsilon: Rational,
    radius: Rational = "1/8",
    records_per_user: int,
    beta: Rational = DEFAULT_BETA,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> LeastErrorPlan:
    """Certified users of ``pp.least_error`` by its three methods.

    Parameters
    ----------
    rule : class of rules
        With declared domains.
    epsilon : rational
        The privacy loss.
    radius : rational
        How close the estimate shall be.
    records_per_user : int
        Records each person holds, all of one law.
    beta : rational
        How often it may be further off.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.

    Returns
    -------
    LeastErrorPlan
        ``best`` is the method of the fewest people.

    Examples
    --------
    >>> import privpac as pp
    >>> print(plan_least_error(pp.Thresholds(pp.Integers(0, 1440)), epsilon=1, radius="1/32", records_per_user=256))
    least error within 1/32, epsilon 1, 256 records each:
    certified people by sum 1,229, oneshot 614, bisect 443; fewest: bisect
    """
    concept: Any = TreeNodes(rule) if isinstance(rule, VC1Tree) else rule
    if not isinstance(concept, ConceptClass):
        raise TypeError(f"rule must be a class of rules with declared domains, got {type(rule).__name__}")
    try:
        size: float | None = concept.log_size
    except (TooLargeError, ParameterError):
        size = None
    told: dict[str, Any] = {"epsilon": epsilon, "radius": radius, "beta": beta, "neighbours": neighbours}
    told |= {"records_per_user": records_per_user, "dimension": concept.vc_dimension, "log_size": size}
    found = tuple((way, certify_least_error(way, **told)) for way in WAYS)
    return LeastErrorPlan(rational(radius, "radius"), rational(epsilon, "epsilon"), records_per_user, found)
