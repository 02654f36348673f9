"""Numbers of records that users may hold, as public knowledge.

Most statistics cost nothing when users hold different numbers of records.  Comparing a count with its *expectation*
does, under replace: a user of one size may be swapped for a user of another.  ``sizes`` declares the admissible
numbers; a user with another number of records is cut down to the next admissible one (0 if there is none), by a rule
that looks only at that user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from attrs import field, frozen

from privpac.data.users import SALT, Kernel, UserData
from privpac.errors import ParameterError
from privpac.guarantee import Unit, positive_int
from privpac.methods.base import Bound, Selection
from privpac.parameters import named

if TYPE_CHECKING:
    from privpac.data import Domain, OnInvalid, Users

_P = TypeVar("_P")
MAX_SIZES = 1 << 12
"""Admissible numbers of records up to which sensitivities are computed instead of bounded."""


def read_sizes(sizes: object) -> tuple[int, ...] | None:
    """Admissible numbers of records, ascending; None stays as it is."""
    if sizes is None:
        return None
    if isinstance(sizes, (str, bytes)) or not isinstance(sizes, Iterable):
        raise TypeError(
            f"sizes must list the admissible numbers of records, such as [1, 4, 16], got {type(sizes).__name__}"
        )
    listed = sorted({positive_int(size, "sizes", minimum=0) for size in sizes})
    if not listed or len(listed) > MAX_SIZES:
        raise ParameterError(
            f"sizes must hold 1 to {MAX_SIZES} numbers of records, got {len(listed)}; use max_records for a plain cap"
        )
    return tuple(listed)


# Users cut down to admissible sizes


def _pieces(users: UserData, sizes: tuple[int, ...]) -> list[UserData]:
    """The users in groups, each cut down to an admissible size; those left without records say nothing and are left
    out."""
    admissible = np.array(sizes, dtype=np.int64)
    at = np.searchsorted(admissible, users.sizes, side="right") - 1
    target = np.where(at >= 0, admissible[np.maximum(at, 0)], 0)
    exact = target == users.sizes
    if bool(exact.all()):
        return [users]
    cut = [
        users.take((target == size) & ~exact).max_records(int(size))
        for size in np.unique(target[~exact]).tolist()
        if size
    ]
    return [users.take(exact), *cut]


@frozen(slots=False)
class _Cutting:
    """A kernel that sees users cut down to admissible sizes."""

    kernel: Kernel[Any]
    sizes: tuple[int, ...]

    def zero(self) -> Any:
        return self.kernel.zero()

    def chunk(self, users: UserData) -> Any:
        return fold_pieces(_pieces(users, self.sizes), self.kernel)

    def merge(self, a: object, b: object) -> Any:
        return self.kernel.merge(a, b)


def fold_pieces(pieces: Iterable[UserData], kernel: Kernel[_P]) -> _P:
    """The kernel's value over groups of users (at least one group)."""
    first, *rest = (kernel.chunk(piece) for piece in pieces)
    for part in rest:
        first = kernel.merge(first, part)
    return first


@frozen(slots=False, eq=False, repr=False)
class UsersView:
    """Users seen another way; the schema is that of the base."""

    base: Users

    @property
    def features(self) -> Mapping[str, Domain | None]:
        return self.base.features

    @property
    def unit(self) -> Unit:
        return self.base.unit

    @property
    def label_name(self) -> str | None:
        return self.base.label_name


@frozen(slots=False, eq=False, repr=False)
class AdmissibleUsers(UsersView):
    """A view of users in which everyone holds an admissible number of records."""

    sizes: tuple[int, ...]

    def bind(self, domains: Mapping[str, Domain], on_invalid: OnInvalid | str | None = None) -> AdmissibleUsers:
        return AdmissibleUsers(self.base.bind(domains, on_invalid), self.sizes)

    def max_records(self, cap: int, rule: str | None = None, salt: bytes = SALT) -> AdmissibleUsers:
        return AdmissibleUsers(self.base.max_records(cap, rule, salt), self.sizes)

    @cached_property
    def pieces(self) -> list[UserData] | None:
        """The groups, made once, where the data are in memory."""
        return _pieces(self.base, self.sizes) if isinstance(self.base, UserData) else None

    def fold(self, kernel: Kernel[_P]) -> _P:
        if self.pieces is not None:
            return fold_pieces(self.pieces, kernel)
        cut: _P = self.base.fold(_Cutting(kernel, self.sizes))
        return cut


class _SizeCounts:
    """How many users hold how many records."""

    def zero(self) -> dict[int, int]:
        return {}

    def chunk(self, users: UserData) -> dict[int, int]:
        distinct, counts = np.unique(users.sizes, return_counts=True)
        return dict(zip(distinct.tolist(), counts.tolist()))

    def merge(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        return {size: a.get(size, 0) + b.get(size, 0) for size in {*a, *b}}


def size_counts(users: Users) -> dict[int, int]:
    """Number of users by number of records: private, for kernels."""
    return users.fold(_SizeCounts())


# Learners with declared sizes


@frozen(slots=False, field_transformer=named)
class SizedSelection(Selection):
    """A selection learner that may be told which numbers of records occur.

    Parameters
    ----------
    sizes : iterable of int, optional
        The admissible numbers of records (public), such as ``[1, 4, 16]``; users are cut down to one of them.
    """

    _sizes: tuple[int, ...] | None = field(default=None, converter=read_sizes)

    @cached_property
    def sizes(self) -> tuple[int, ...] | None:
        """The admissible numbers of records, ascending, up to the cap."""
        if self._sizes is None or self.max_records is None:
            return self._sizes
        return tuple(size for size in self._sizes if size <= self.max_records) or (0,)

    @property
    def admissible(self) -> tuple[int, ...] | range | None:
        """The numbers of records that can occur, from public knowledge; None if anything can."""
        if self.sizes is not None:
            return self.sizes
        if self.unit is Unit.ITEM:
            return range(2)
        return None if self.max_records is None else range(self.max_records + 1)

    @property
    def largest(self) -> int | None:
        """The largest admissible number of records."""
        admissible = self.admissible
        return None if admissible is None else max(admissible)

    def bind(self, data: Users) -> Bound:
        bound = super().bind(data)
        return (
            bound if self.sizes is None else Bound(bound.concept, AdmissibleUsers(bound.users, self.sizes), bound.label)
        )
