"""What the mean learners share: users' means on a public integer grid, and the published vector.

Every column is a number on a declared range.  A user's mean of a column becomes the nearest of ``0..levels`` (halves
up), in exact integers, from that user's records only; a user without records stands in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import Domain, Grid, Integers, UserData
from privpac.errors import IncompatibleGuarantees, ParameterError, SchemaError
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.learners.base import Learner
from privpac.learners.seats import public_count, read_slots
from privpac.mechanisms.certificate import DEFAULT_FAILURE, ReleaseTest
from privpac.parameters import (
    Composed,
    bounds,
    columns_or_none,
    named,
    part,
    privacy,
    probability,
    probability_or_zero,
    protected_unit,
    relation,
    whole,
    whole_or_none,
)
from privpac.released import register

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["MeanBound", "MeanLearner", "MeanVector", "user_steps"]

Ints = NDArray[np.int64]
MAX_LEVELS = 1 << 20
_HALF = np.uint64(32)


def _read_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


def _read_means(values: Iterable[Rational]) -> tuple[Fraction, ...]:
    return tuple(rational(value, "a mean") for value in values)


@register("mean-vector")
@frozen(slots=False)
class MeanVector:
    """Published means, one rational for each column."""

    features: tuple[str, ...] = field(converter=_read_names)
    values: tuple[Fraction, ...] = field(converter=_read_means)

    def __attrs_post_init__(self) -> None:
        if len(self.features) != len(self.values) or not all(isinstance(name, str) for name in self.features):
            raise ParameterError("a mean vector has one number for each named column")

    def __getitem__(self, name: str) -> float:
        return float(dict(zip(self.features, self.values))[name])

    def __str__(self) -> str:
        return ", ".join(f"mean of {name} = {float(value):.6g}" for name, value in zip(self.features, self.values))

    def to_dict(self) -> dict[str, Any]:
        return {"features": list(self.features), "values": list(self.values)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(tuple(values["features"]), tuple(values["values"]))


# Users' means


def user_steps(users: UserData, name: str, size: int, levels: int) -> Ints:
    """Everybody's mean of a column as the nearest of ``0..levels``; the middle for who has no records."""
    codes, offsets = users.codes[name], users.offsets
    low, high = _sums(codes & np.uint64(0xFFFFFFFF), offsets), _sums(codes >> _HALF, offsets)
    out = np.full(users.n_users, levels // 2, np.int64)
    for u, (a, b, m) in enumerate(zip(low, high, users.sizes.tolist())):
        if m:
            whole = m * (size - 1)
            # Nearest step, halves up; a domain of one value has one step.
            out[u] = (2 * levels * (a + (b << 32)) + whole) // (2 * whole) if whole else 0
    return out


@dataclass(frozen=True)
class _Means:
    """A kernel: users by columns, each mean as a step in 0..levels."""

    columns: tuple[tuple[str, int], ...]
    levels: int

    def zero(self) -> Ints:
        return np.empty((0, len(self.columns)), np.int64)

    def chunk(self, users: UserData) -> Ints:
        return np.stack([user_steps(users, name, size, self.levels) for name, size in self.columns], axis=1)

    def merge(self, a: Ints, b: Ints) -> Ints:
        return np.concatenate([a, b])


def _sums(values: NDArray[np.uint64], offsets: Ints) -> list[int]:
    """Exact sums by user: halves of 32 bits, so that 2**32 records of one user cannot overflow."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    return [int(x) for x in running[offsets[1:]] - running[offsets[:-1]]]


@dataclass(frozen=True, repr=False)
class MeanBound:
    """Users bound to numeric columns, and their public number."""

    users: Users
    features: Mapping[str, Domain]
    n_users: int


@frozen(slots=False, field_transformer=named)
class Gate:
    """The release test in front of an answer.  All public.

    Parameters
    ----------
    ladder : int, optional
        The length of its pass curve; by default the shortest that fails at most ``failure`` often.
    share : number
        Its part of epsilon; default 1/4.
    failure : number
        How often nothing may be released although users agree.
    slots : int, optional
        A public number of seats, under add-remove.
    """

    ladder: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0))
    share: Fraction = field(default=Fraction(1, 4), converter=probability)
    failure: Fraction = field(default=DEFAULT_FAILURE, converter=probability_or_zero)
    slots: int | None = None


@frozen(slots=False, init=False, field_transformer=named)
class MeanLearner(Composed, Learner):
    """What learners of means share.  All parameters are public.

    Parameters
    ----------
    epsilon, delta : number
        The privacy parameters.
    neighbours : {"replace", "add-remove"}
        The second needs ``slots``.
    unit : {"user", "item"}
        Whose data are protected.
    features : str or several, optional
        The columns; default: all.
    levels : int
        Steps in which a user's mean is counted; default 1000.
    max_records : int, optional
        How many records of a user are read at most.
    gate : Gate
        Given by its own parameters: ``ladder``, ``share``, ``failure``, ``slots``.
    """

    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(converter=probability)
    neighbours: Neighbours = field(default=Neighbours.REPLACE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    features: Any = field(kw_only=True, default=None, converter=columns_or_none)
    levels: int = field(kw_only=True, default=1000, converter=whole, metadata=bounds(maximum=MAX_LEVELS))
    max_records: int | None = field(kw_only=True, default=None, converter=whole_or_none)
    gate: Gate = part(Gate)

    def __attrs_post_init__(self) -> None:
        read_slots(self.gate.slots, self.neighbours)
        _ = self.test

    @cached_property
    def test(self) -> ReleaseTest:
        """The release test: ``share`` of epsilon and all of delta."""
        tags: dict[str, Any] = {"unit": self.unit, "neighbours": self.neighbours, "failure": self.gate.failure}
        return ReleaseTest(self.gate.share * self.epsilon, self.delta, ladder=self.gate.ladder, **tags)

    @property
    def ladder(self) -> int:
        """The length of the test's pass curve."""
        return self.test.ladder

    @property
    def answer_epsilon(self) -> Fraction:
        """What is left for the noise."""
        return (1 - self.gate.share) * self.epsilon

    @property
    def guarantee(self) -> Guarantee:
        slots = "" if self.gate.slots is None else f", {self.gate.slots} slots"
        how = f"{type(self).__name__} behind a release test" + slots
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, derivation=(how,))

    def bind(self, data: Users) -> MeanBound:
        if not hasattr(data, "fold") or not hasattr(data, "unit"):
            raise TypeError(f"data must be UserData, got {type(data).__name__}")
        if data.unit != self.unit:
            raise IncompatibleGuarantees(
                f"the learner promises privacy per {self.unit} but the data are grouped per {data.unit}"
            )
        names = tuple(data.features) if self.features is None else self.features
        unknown = [name for name in names if name not in data.features]
        if unknown:
            raise SchemaError(f"columns {unknown} are not among the features {list(data.features)}") from None
        domains = {name: data.features[name] for name in names}
        odd = [name for name, domain in domains.items() if not isinstance(domain, (Integers, Grid))]
        if odd:
            raise ParameterError(
                f"columns {odd} have no declared range of evenly spaced numbers; declare Integers or Grid in UserData"
            )
        users = data if self.max_records is None else data.max_records(self.max_records)
        n = public_count(users, self.gate.slots)
        return MeanBound(users, {name: domain for name, domain in domains.items() if domain is not None}, n)

    def vectors(self, bound: MeanBound) -> Ints:
        """Users by columns, in steps; empty slots filled (private)."""
        found = bound.users.fold(
            _Means(tuple((name, domain.size) for name, domain in bound.features.items()), self.levels)
        )
        slots = self.gate.slots
        if slots is None:
            return found
        empty = np.full((max(0, slots - len(found)), found.shape[1]), self.levels // 2, np.int64)
        return np.concatenate([found[:slots], empty])

    def published(self, bound: MeanBound, steps: list[Fraction]) -> MeanVector:
        """Steps in 0..levels as values."""
        values = []
        for step, domain in zip(steps, bound.features.values()):
            assert isinstance(domain, (Integers, Grid))
            values.append(Fraction(domain.lo) + (Fraction(domain.hi) - Fraction(domain.lo)) * step / self.levels)
        return MeanVector(tuple(bound.features), tuple(values))
