"""What one user says about one rule: a bounded integer.

All three statistics are one formula of the user's own mistakes ``e``, own least mistakes ``b`` over the class and own
number of records ``m``:

    g = floor( levels * min( max(e - b*uses_minimum - offset(m), 0), cap(m) ) / cap(m) ),   an integer in 0..levels

and 0 for a user without records.  The bound ``levels`` *is* the privacy proof: a sum over users of values in 0..levels
has range sensitivity ``levels`` under add-remove and ``2 * levels`` under replace, whatever ``offset`` and ``cap`` are,
as long as they are public functions of ``m`` (rule R2 of the pure agnostic learner).

A statistic may have several *voices*: one formula each, with caps of their own, folded together in one pass over the
users (:mod:`privpac.rules.profile`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.errors import ParameterError
from privpac.exact import Rational, rational, root_up
from privpac.guarantee import positive_int
from privpac.parameters import DEFAULT_LEVELS, bounds, fraction, named, own_clip, whole

__all__ = ["DEFAULT_LEVELS", "ClipRule", "Exceeds", "Mean", "Regret", "Statistic", "own_clip", "root_clip"]


MOST = 1 << 62
"""More mistakes than any user can make: larger entries of a table mean the same."""

_LISTED = 1 << 16

Table = int | Mapping[int, int] | Callable[[int], int]
"""A public function of a user's number of records: a constant, a table or a rule."""


def read_table(table: Table, m: int, *, name: str, minimum: int) -> int:
    """The entry for ``m`` records; in a mapping the largest key at most ``m`` rules."""
    if isinstance(table, Mapping):
        value = table[max(key for key in table if key <= m)]
    else:
        value = table(m) if callable(table) else table
    return min(positive_int(value, name, minimum=minimum), MOST)


def check_table(table: Table, *, name: str, minimum: int) -> None:
    """Refuse a table with missing or bad entries when it is declared: afterwards an error would depend on the data."""
    if isinstance(table, Mapping):
        if not any(key in (0, 1) for key in table):
            raise ParameterError(f"{name} needs an entry for users with one record; add a key 0 or 1")
        for value in table.values():
            positive_int(value, name, minimum=minimum, maximum=MOST)
    elif not callable(table):
        positive_int(table, name, minimum=minimum, maximum=MOST)


def _distinct(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct sizes in order, and the place of each user's among them; without a sort of those that are small."""
    listed = min(_LISTED, 1024 + 4 * len(sizes))  # a table for few people is short
    small = np.minimum(sizes, listed)
    distinct = np.flatnonzero(np.bincount(small, minlength=1))
    rank = np.zeros(listed + 1 if not len(distinct) else int(distinct[-1]) + 1, dtype=np.int64)
    rank[distinct] = np.arange(len(distinct))
    place = rank[small]
    if not len(distinct) or distinct[-1] < listed:
        return distinct, place
    # The few large ones, by a sort.
    large = np.flatnonzero(sizes >= listed)
    more, inside = np.unique(sizes[large], return_inverse=True)
    place[large] = len(distinct) - 1 + inside
    return np.concatenate([distinct[:-1], more]), place


@dataclass(frozen=True)
class Statistic:
    """Base of the three statistics; see the module docstring for the formula."""

    @property
    def bound(self) -> int:
        """The largest contribution of one user to one rule."""
        raise NotImplementedError

    @property
    def uses_minimum(self) -> bool:
        """Whether mistakes are counted from the user's own best rule."""
        return False

    def offset_of(self, m: int) -> int:
        """Mistakes that cost nothing."""
        return 0

    def cap_of(self, m: int) -> int:
        """Mistakes from which on nothing more is charged, at least 1."""
        raise NotImplementedError

    def caps_of(self, m: int) -> tuple[int, ...]:
        """The cap of every voice."""
        return (self.cap_of(m),)

    @property
    def voices(self) -> int:
        """How many scores every rule gets."""
        return 1

    def luck(self, sizes: NDArray[np.int64], own: NDArray[np.int64], times: NDArray[np.int64] | None = None) -> int:
        """One more integer summed over users, from the own least and most mistakes (rows of ``own``); 0 for one
        voice."""
        return 0

    def value(self, mistakes: int, own_minimum: int, m: int) -> int:
        """The contribution of one user, for reference and tests."""
        if m == 0:
            return 0
        base = own_minimum if self.uses_minimum else 0
        cap = self.cap_of(m)
        return self.bound * min(max(mistakes - base - self.offset_of(m), 0), cap) // cap

    def shape(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``offset`` for every user, and ``cap`` in one row for every voice, from a table over the distinct sizes."""
        distinct, place = _distinct(sizes)
        offsets = np.array([self.offset_of(int(m)) if m else 0 for m in distinct], dtype=np.int64)
        caps = np.array([self.caps_of(int(m)) if m else (1,) * self.voices for m in distinct], dtype=np.int64)
        return offsets[place], np.ascontiguousarray(caps.reshape(-1, self.voices).T[:, place])


@dataclass(frozen=True)
class Exceeds(Statistic):
    """1 if the rule makes more than ``tolerance`` mistakes on the user's records."""

    tolerance: Table = 0

    def __post_init__(self) -> None:
        check_table(self.tolerance, name="tolerance", minimum=0)

    @property
    def bound(self) -> int:
        return 1

    def offset_of(self, m: int) -> int:
        return read_table(self.tolerance, m, name="tolerance", minimum=0)

    def cap_of(self, m: int) -> int:
        return 1


class Graded(Statistic):
    """A share in steps of ``1/levels``, counted from the user's own best rule."""

    levels: int

    def __post_init__(self) -> None:
        positive_int(self.levels, "levels", maximum=1 << 31)

    @property
    def bound(self) -> int:
        return self.levels

    @property
    def uses_minimum(self) -> bool:
        return True


@dataclass(frozen=True)
class Mean(Graded):
    """The user's error rate in steps of ``1/levels``, counted from the user's own best rule (a shift that cancels)."""

    levels: int = DEFAULT_LEVELS

    def cap_of(self, m: int) -> int:
        return m


@frozen(slots=False, field_transformer=named)
class ClipRule:
    """The default clip: the least integer ``k`` in 1..m with

        k*k >= m,   16 k >= m,   64 k*k >= theta**2 N m,   96 bits k >= theta N m.

    sqrt(m) is the size of a user's own luck; never amplify a user more than 16 times; stop amplifying once the privacy
    noise is below the sampling noise (third) or negligible (fourth), so that many users give the unbiased mean.
    """

    theta: Fraction = field(converter=fraction, metadata=bounds(minimum=0))
    n_users: int = field(converter=whole, metadata=bounds(minimum=0))
    bits: int = field(converter=whole)

    def __call__(self, m: int) -> int:
        p, q, n = self.theta.numerator, self.theta.denominator, self.n_users
        k = max(
            own_clip(m),
            root_up(_ratio_up(p * p * n * m, 64 * q * q)),
            _ratio_up(p * n * m, 96 * self.bits * q),
        )
        return min(k, max(m, 1))

    @staticmethod
    def rate_below(tau: int, m: int, n_users: int, bits: int) -> float:
        """The largest ``theta`` with which ``n_users`` users have a clip below ``tau``, rounded down; 0 if none has."""
        k = tau - 1
        if k * k < m or 16 * k < m:
            return 0.0
        return min(8 * k / sqrt(n_users * m), 96 * bits * k / (n_users * m)) * (1 - 1e-12)


def root_clip(c: Rational) -> Callable[[int], int]:
    """``tau(m)`` = the least ``k >= 1`` with ``k >= c sqrt(m)``, at most ``m``."""
    exact = rational(c, "c", above=0)
    p, q = exact.numerator, exact.denominator
    return lambda m: min(max(1, root_up(_ratio_up(p * p * m, q * q))), max(m, 1))


def _ratio_up(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Regret(Graded):
    """How much worse than the user's own best rule, cut off at ``tau(m)`` records, in steps of ``1/levels``."""

    tau: Table
    levels: int = DEFAULT_LEVELS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_table(self.tau, name="tau", minimum=1)

    def cap_of(self, m: int) -> int:
        return read_table(self.tau, m, name="tau", minimum=1)
