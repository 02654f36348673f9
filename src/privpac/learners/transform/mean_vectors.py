"""What the mean learners share: users' means on a public integer grid, and the published vector.

Every column is a number on a declared range.  A user's mean of a column becomes the nearest of ``0..levels`` (halves
up), in exact integers, from that user's records only; a user without records stands in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain, Grid, Integers, UserData
from privpac.errors import IncompatibleGuarantees, ParameterError, SchemaError
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.learners.base import Learner
from privpac.learners.seats import public_count, read_slots
from privpac.mechanisms.certificate import DEFAULT_FAILURE, ReleaseTest
from privpac.parameters import read_epsilon
from privpac.released import register

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["MeanBound", "MeanLearner", "MeanVector"]

Ints = NDArray[np.int64]
MAX_LEVELS = 1 << 20
_HALF = np.uint64(32)


@register("mean-vector")
@dataclass(frozen=True)
class MeanVector:
    """Published means, one rational for each column."""

    features: tuple[str, ...]
    values: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        names, values = tuple(self.features), tuple(rational(value, "a mean") for value in self.values)
        if len(names) != len(values) or not all(isinstance(name, str) for name in names):
            raise ParameterError("a mean vector has one number for each named column")
        object.__setattr__(self, "features", names)
        object.__setattr__(self, "values", values)

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


@dataclass(frozen=True)
class _Means:
    """A kernel: users by columns, each mean as a step in 0..levels."""

    columns: tuple[tuple[str, int], ...]
    levels: int

    def zero(self) -> Ints:
        return np.empty((0, len(self.columns)), np.int64)

    def chunk(self, users: UserData) -> Ints:
        return np.stack([self._column(users, name, size) for name, size in self.columns], axis=1)

    def _column(self, users: UserData, name: str, size: int) -> Ints:
        codes, offsets = users.codes[name], users.offsets
        low, high = _sums(codes & np.uint64(0xFFFFFFFF), offsets), _sums(codes >> _HALF, offsets)
        out = np.full(users.n_users, self.levels // 2, np.int64)
        for u, (a, b, m) in enumerate(zip(low, high, users.sizes.tolist())):
            if m:
                whole = m * (size - 1)
                # Nearest step, halves up; a domain of one value has one step.
                out[u] = (2 * self.levels * (a + (b << 32)) + whole) // (2 * whole) if whole else 0
        return out

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


@dataclass(frozen=True)
class MeanLearner(Learner):
    """Parameters of both: ``share`` is the release test's part of epsilon, ``ladder`` the length of its pass curve."""

    epsilon: Rational
    delta: Rational
    neighbours: Neighbours | str = Neighbours.REPLACE
    unit: Unit | str = Unit.USER
    features: Any = field(kw_only=True, default=None)
    levels: int = field(kw_only=True, default=1000)
    ladder: int | None = field(kw_only=True, default=None)
    share: Rational = field(kw_only=True, default=Fraction(1, 4))
    failure: Rational = field(kw_only=True, default=DEFAULT_FAILURE)
    max_records: int | None = field(kw_only=True, default=None)
    slots: int | None = field(kw_only=True, default=None)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", read_epsilon(self.epsilon))
        put(self, "delta", rational(self.delta, "delta", above=0, below=1))
        put(self, "neighbours", one_of(Neighbours, self.neighbours, "neighbours"))
        put(self, "unit", one_of(Unit, self.unit, "unit"))
        put(self, "levels", positive_int(self.levels, "levels", maximum=MAX_LEVELS))
        put(self, "share", rational(self.share, "share", above=0, below=1))
        put(self, "failure", rational(self.failure, "failure", minimum=0, below=1))
        put(self, "slots", read_slots(self.slots, Neighbours(self.neighbours)))
        if self.max_records is not None:
            put(self, "max_records", positive_int(self.max_records, "max_records"))
        if self.features is not None:
            names = (self.features,) if isinstance(self.features, str) else tuple(self.features)
            if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
                raise ParameterError("features must be one column name or several different ones")
            put(self, "features", names)
        put(self, "ladder", self.test.ladder if self.ladder is None else positive_int(self.ladder, "ladder", minimum=0))

    @property
    def test(self) -> ReleaseTest:
        """The release test: ``share`` of epsilon and all of delta."""
        given: dict[str, Any] = {} if self.ladder is None else {"ladder": self.ladder}
        tags: dict[str, Any] = {"unit": self.unit, "neighbours": self.neighbours, "failure": self.failure}
        return ReleaseTest(rational(self.share) * rational(self.epsilon), self.delta, **tags, **given)

    @property
    def answer_epsilon(self) -> Fraction:
        """What is left for the noise."""
        return (1 - rational(self.share)) * rational(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        how = f"{type(self).__name__} behind a release test" + ("" if self.slots is None else f", {self.slots} slots")
        tags = Unit(self.unit), Neighbours(self.neighbours)
        return Guarantee(
            rational(self.epsilon), rational(self.delta), unit=tags[0], neighbours=tags[1], derivation=(how,)
        )

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
        n = public_count(users, self.slots)
        return MeanBound(users, {name: domain for name, domain in domains.items() if domain is not None}, n)

    def vectors(self, bound: MeanBound) -> Ints:
        """Users by columns, in steps; empty slots filled (private)."""
        found = bound.users.fold(
            _Means(tuple((name, domain.size) for name, domain in bound.features.items()), self.levels)
        )
        if self.slots is None:
            return found
        empty = np.full((max(0, self.slots - len(found)), found.shape[1]), self.levels // 2, np.int64)
        return np.concatenate([found[: self.slots], empty])

    def published(self, bound: MeanBound, steps: list[Fraction]) -> MeanVector:
        """Steps in 0..levels as values."""
        values = []
        for step, domain in zip(steps, bound.features.values()):
            assert isinstance(domain, (Integers, Grid))
            values.append(Fraction(domain.lo) + (Fraction(domain.hi) - Fraction(domain.lo)) * step / self.levels)
        return MeanVector(tuple(bound.features), tuple(values))
