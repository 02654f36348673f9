"""What one would do without user-level learning: two honest baselines for any learner.

*One record per user*: each user keeps one record, chosen by a public rule that looks at that user's records only, or
drawn uniformly with secret coins (``record="random"``); then a user is a record.  Costs nothing in privacy and throws
the other records away.

*Group privacy*: each user keeps at most ``max_records`` records M, every record counts as a user of its own, and the
learner runs with ``epsilon / M`` (and a delta small enough that M steps add up to the one promised).  A user's whole
contribution is then worth M records.

**Guarantees.**  Both have the learner's ``(epsilon, delta)`` per user.  One record: a function of each user's own
records, or coins of their own, come first, which no guarantee per user notices.  Group privacy: under add-remove a user
comes or goes with at most M records, so M steps of an item-level learner lead from one dataset to the other.  Under
replace every user gets exactly M slots, some of them empty, so the number of slots is public and replacing a user
replaces at most M slots.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from attrs import evolve, field, frozen, has

from privpac.arrays import Ints
from privpac.data import UserData
from privpac.errors import IncompatibleGuarantees, TooLargeError
from privpac.exact import as_arb, up
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law import Law
from privpac.methods.base import Learner, count_users
from privpac.methods.regret import RegretSelection
from privpac.parameters import declared, either, named, whole
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.base import ConceptClass

if TYPE_CHECKING:
    from privpac.data import Domain, Kernel, OnInvalid, Users

_P = TypeVar("_P")

_MAX_SLOTS = 1 << 28
"""The most slots (users times ``max_records``) under replace; both numbers are public there."""

_MAX_CHOICES = 1 << 12
"""The most choices of records that a law averages over."""


def _records(users: UserData, slots: int | None) -> UserData:
    """Every record a user of its own; with ``slots``, that many for each user, the last ones empty."""
    if slots is None:
        offsets = np.arange(users.n_records + 1)
    else:
        filled = np.minimum(np.arange(1, slots + 1), users.sizes[:, None])
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), (users.offsets[:-1, None] + filled).ravel()])
    return evolve(users, offsets=offsets, unit=Unit.ITEM, ids=None)


@frozen(slots=False)
class _Flat(Generic[_P]):
    """A kernel that sees records as users."""

    kernel: Kernel[_P]
    slots: int | None

    def zero(self) -> _P:
        return self.kernel.zero()

    def chunk(self, users: UserData) -> _P:
        return self.kernel.chunk(_records(users, self.slots))

    def merge(self, a: _P, b: _P) -> _P:
        return self.kernel.merge(a, b)


@frozen(slots=False, repr=False)
class RecordsAsUsers:
    """A dataset whose records are the users; ``slots`` pads every former user to that many."""

    users: Users
    slots: int | None = None

    @property
    def features(self) -> Mapping[str, Domain | None]:
        return self.users.features

    @property
    def unit(self) -> Unit:
        return Unit.ITEM

    @property
    def label_name(self) -> str | None:
        return self.users.label_name

    @property
    def labels(self) -> object:
        return getattr(self.users, "labels", ())

    def bind(self, domains: Mapping[str, Domain], on_invalid: OnInvalid | str | None = None) -> RecordsAsUsers:
        return evolve(self, users=self.users.bind(domains, on_invalid))

    def max_records(self, cap: int, rule: str | None = None, salt: bytes = b"") -> RecordsAsUsers:
        """Nothing to drop: a record is one record."""
        positive_int(cap, "cap")
        return self

    def fold(self, kernel: Kernel[_P]) -> _P:
        return self.users.fold(_Flat(kernel, self.slots))


def _bound_users(learner: Learner, data: Users) -> Users:
    """The users with the columns the learner reads: a public rule for records hashes their codes."""
    concept: ConceptClass | None = getattr(learner, "concept", None)
    return data if concept is None else concept.bind(data)[1]


def _with(learner: Learner, **changes: object) -> Learner:
    own = declared(type(learner)) if has(type(learner)) else {}
    missing = [name for name in changes if name not in own]
    if missing:
        raise TypeError(f"{type(learner).__name__} has no parameter {missing[0]!r}, which this baseline sets")
    if isinstance(learner, RegretSelection) and learner.needs_count:
        # With one record each the clip is 1 whatever the number of users: no budget for counting them.
        changes["public_n_users"] = 0
    return evolve(learner, **changes) if changes else learner  # type: ignore[misc]


@frozen(slots=False)
class OneRecordPerUser(Learner):
    """``inner`` on one record of each user.

    Users without records stay as they are: learners here say what such a user contributes.

    Parameters
    ----------
    inner : Learner
        A learner that protects users.
    record : {"public", "random"}
        The record by the data's public rule, or a secret uniform one.
    """

    inner: Learner
    record: str = field(default="public", validator=either("public", "random"))

    def __attrs_post_init__(self) -> None:
        _require(self.inner, Unit.USER)

    @property
    def guarantee(self) -> Guarantee:
        return self.inner.guarantee

    def _in_memory(self, data: Users) -> UserData:
        users = _bound_users(self.inner, data)
        if not isinstance(users, UserData):
            raise TypeError("record='random' draws from users in memory: pass UserData, or use record='public'")
        return users

    def bind(self, data: Users) -> object:
        if self.record == "public":
            return self.inner.bind(_bound_users(self.inner, data).max_records(1))
        self.inner.bind(data)  # schema and public numbers are checked before any spend
        return self._in_memory(data)

    def law(self, data: Users) -> Law:
        if self.record == "public":
            return self.inner.law(_bound_users(self.inner, data).max_records(1))  # type: ignore[attr-defined,no-any-return]
        users = self._in_memory(data)
        choices = prod(max(int(m), 1) for m in users.sizes)
        if choices > _MAX_CHOICES:
            raise TooLargeError(
                f"the law averages over {choices} choices of records, at most {_MAX_CHOICES}; use record='public'"
            )
        picks = product(*(range(max(int(m), 1)) for m in users.sizes))
        parts = [self.inner.law(_pick(users, np.array(pick, dtype=np.int64))) for pick in picks]  # type: ignore[attr-defined]
        return Law.mixture([(Fraction(1, choices), part) for part in parts])

    def shown_as(self, bound: Any, value: object) -> tuple[str, str] | None:
        return self.inner.shown_as(bound if self.record == "public" else self.inner.bind(bound), value)

    def draw(self, bound: object, rng: Rng) -> Released:
        if self.record == "random":
            assert isinstance(bound, UserData)
            pick = np.array([rng.below(max(int(m), 1)) for m in bound.sizes], dtype=np.int64)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were given when the learner was bound before the spend
                bound = self.inner.bind(_pick(bound, pick))
        return _renamed(self.inner.draw(bound, rng), self.guarantee, "one record per user", {})


def _pick(users: UserData, pick: Ints) -> UserData:
    """One record of every user who has any."""
    keep = np.zeros(users.n_records, dtype=bool)
    filled = users.sizes > 0
    keep[users.offsets[:-1][filled] + pick[filled]] = True
    return users._filter(keep)


@frozen(slots=False, field_transformer=named)
class GroupPrivacy(Learner):
    """``inner``, an item-level learner, on all records of users with at most ``max_records`` of them each.

    Parameters
    ----------
    inner : Learner
        A learner that protects records.
    max_records : int
        How many records of a user are read at most (public).
    """

    inner: Learner
    max_records: int = field(converter=whole)

    def __attrs_post_init__(self) -> None:
        _require(self.inner, Unit.ITEM)

    @property
    def guarantee(self) -> Guarantee:
        # Slots make the number of records of every user the same, which is what item-level replace needs.
        item = self.inner.guarantee
        return item.item_to_user(self.max_records, exact=item.neighbours is Neighbours.REPLACE)

    def _flat(self, data: Users) -> RecordsAsUsers:
        if data.unit != Unit.USER:
            raise IncompatibleGuarantees(
                "group privacy is about users with several records: name the user column in UserData"
            )
        users = _bound_users(self.inner, data).max_records(self.max_records)
        if self.inner.guarantee.neighbours is Neighbours.ADD_REMOVE:
            return RecordsAsUsers(users)
        if count_users(users) * self.max_records > _MAX_SLOTS:
            raise TooLargeError(
                f"users times max_records must be at most {_MAX_SLOTS} under replace; use a smaller cap or add-remove"
            )
        return RecordsAsUsers(users, self.max_records)

    def bind(self, data: Users) -> object:
        return self.inner.bind(self._flat(data))

    def law(self, data: Users) -> Law:
        return self.inner.law(self._flat(data))  # type: ignore[attr-defined,no-any-return]

    def shown_as(self, bound: object, value: object) -> tuple[str, str] | None:
        return self.inner.shown_as(bound, value)

    def draw(self, bound: object, rng: Rng) -> Released:
        return _renamed(self.inner.draw(bound, rng), self.guarantee, "group privacy", {"max_records": self.max_records})


def _require(learner: Learner, unit: Unit) -> None:
    if not isinstance(learner, Learner):
        raise TypeError(f"a baseline wraps a learner of this library, got {type(learner).__name__}")
    if learner.guarantee.unit is not unit:
        raise IncompatibleGuarantees(
            f"this baseline starts from a learner with unit={unit.value!r}, got {learner.guarantee.unit.value!r}"
        )


def _renamed(released: Released, guarantee: Guarantee, method: str, more: dict[str, object]) -> Released:
    name = f"{released.learner}, {method}".lstrip(", ")
    return evolve(released, guarantee=guarantee, parameters=dict(released.parameters) | more, learner=name)


def one_record_per_user(learner: Learner, record: str = "public") -> OneRecordPerUser:
    """The same learner on one record of each user; the guarantee stays.

    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers
    >>> str(one_record_per_user(RegretSelection(Thresholds(Integers(0, 9)), epsilon=1)).guarantee)
    '(1, 0)-DP per user, add-remove'
    """
    _require(learner, Unit.USER)
    return OneRecordPerUser(_with(learner), record)


def group_privacy(learner: Learner, max_records: int) -> GroupPrivacy:
    """A user-level learner's item-level twin at ``epsilon / max_records``: the same guarantee per user by group
    privacy.

    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers
    >>> baseline = group_privacy(RegretSelection(Thresholds(Integers(0, 9)), epsilon=1), max_records=4)
    >>> str(baseline.inner.guarantee), str(baseline.guarantee)
    ('(0.25, 0)-DP per item, add-remove', '(1, 0)-DP per user, add-remove')
    """
    _require(learner, Unit.USER)
    cap = positive_int(max_records, "max_records")
    small = learner.guarantee.epsilon / cap
    changes: dict[str, object] = {"epsilon": small, "unit": Unit.ITEM, "max_records": 1}
    if learner.guarantee.delta > 0:
        # M steps add up to delta' (1 + e**epsilon' + ...), so delta' is delta over that, rounded down to 64 bits.
        chain = up(lambda: as_arb(cap * small).expm1() / as_arb(small).expm1()) if small else Fraction(cap)
        delta = learner.guarantee.delta / chain
        shift = 64 + delta.denominator.bit_length() - delta.numerator.bit_length()
        changes["delta"] = Fraction(int(delta * (1 << shift)) - 1, 1 << shift)
    return GroupPrivacy(_with(learner, **changes), cap)
