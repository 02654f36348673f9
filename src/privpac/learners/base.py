"""The shape of every learner.

Parameters in, ``guarantee`` known before any data, ``law(data)`` where the output is finite and affordable,
``learn(data, rng=None, ledger=None)`` to release.  :class:`Selection` holds what all selection learners share: a class of
rules, a per-user statistic bounded by an integer, and the exponential law over the summed scores.

*Privacy of a selection.*  Each user adds an integer in ``0..bound`` to the score of every rule, a function of that user's
records and public numbers only.  For neighbours ``x, x'`` let ``d_h`` be the change of the score of ``h``: it lies in
``[0, bound]`` (or ``[-bound, 0]``) under add-remove and in ``[-bound, bound]`` under replace, so ``max d - min d <= R`` with
``R = bound`` or ``2 * bound``, and weights ``e**(-(epsilon/R) * score)`` are epsilon-DP (the range rule).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from privpac.concepts.base import ConceptClass, Rule
from privpac.concepts.profile import Profile
from privpac.concepts.statistics import Statistic
from privpac.errors import IncompatibleGuarantees
from privpac.exact import rational
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.law import Law
from privpac.ledger import release
from privpac.released import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import UserData, Users
    from privpac.ledger import BudgetLedger

__all__ = ["Bound", "Learner", "Selection"]


class Learner(ABC):
    """Base of the learners: ``bind`` checks everything before a spend, ``draw`` touches data and randomness after it."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, known before any data."""

    @abstractmethod
    def bind(self, data: Users) -> Any:
        """Schema checks and warnings from public numbers; nothing is spent yet."""

    @abstractmethod
    def draw(self, bound: Any, rng: Rng) -> Released:
        """One release; raises for no reason that depends on the data."""

    def learn(self, data: Users, *, rng: Rng | None = None, ledger: BudgetLedger | None = None) -> Released:
        """Validate, spend, touch the data, return."""
        return release(self, data, rng=rng, ledger=ledger)


@dataclass(frozen=True, repr=False)
class Bound:
    """A class filled in with columns and domains, and the users bound to it."""

    concept: ConceptClass
    users: Users
    label: str


@dataclass(frozen=True)
class Selection(Learner):
    """What the selection learners share."""

    concept: ConceptClass
    epsilon: Fraction
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: Unit = Unit.USER
    max_records: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.concept, ConceptClass):
            raise TypeError(f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got {type(self.concept).__name__}")
        put = object.__setattr__
        put(self, "epsilon", rational(self.epsilon, "epsilon", minimum=0))
        put(self, "neighbours", one_of(Neighbours, self.neighbours, "neighbours"))
        put(self, "unit", one_of(Unit, self.unit, "unit"))
        if self.max_records is not None:
            put(self, "max_records", positive_int(self.max_records, "max_records"))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 8)

    def rate(self, epsilon: Fraction, bound: int) -> Fraction:
        """``eta = epsilon / R``; R = bound under add-remove (all scores move the same way), twice that under replace."""
        return epsilon / (bound if self.neighbours is Neighbours.ADD_REMOVE else 2 * bound)

    def bind(self, data: Users) -> Bound:
        if data.unit != self.unit:
            raise IncompatibleGuarantees(
                f"the learner promises privacy per {self.unit} but the data are grouped per {data.unit}; "
                "name the user column when building UserData, or set unit='item' on purpose"
            )
        concept, users = self.concept.bind(data)
        if self.max_records is not None:
            users = users.max_records(self.max_records)
        return Bound(concept, users, data.label_name or "1")

    def release_rule(self, bound: Bound, law: Law, rng: Rng, parameters: dict[str, Any], method: str) -> Released:
        rule: Rule = bound.concept.decode(law.sample(rng), bound.label)
        shown = {"class": type(bound.concept).__name__, "size": bound.concept.size} | parameters
        if self.max_records is not None:
            shown["max_records"] = self.max_records
        return Released(rule, self.guarantee, parameters=shown, learner=method)

    def with_(self, **changes: Any) -> Any:
        """The same learner with other parameters."""
        return replace(self, **changes)


def profile_of(bound: Bound, statistic: Statistic) -> Profile:
    """The summed scores of bound users."""
    return bound.users.fold(bound.concept.kernel(statistic))


class _Count:
    """The number of users, those without records included."""

    def zero(self) -> int:
        return 0

    def chunk(self, users: UserData) -> int:
        return users.n_users

    def merge(self, a: int, b: int) -> int:
        return a + b


def count_users(users: Users) -> int:
    """How many users there are: private under add-remove."""
    return users.fold(_Count())
