"""Users in memory whose records are sorted once, for learners that fold the same column many times.

Every fold of a class of cuts starts by sorting each user's records; on records in order that is one look at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from privpac.concepts.kernels.line import sort_within_users
from privpac.data.users import SALT, Kernel, UserData
from privpac.learners.base import Bound
from privpac.learners.sizes import AdmissibleUsers, UsersView, fold_pieces

if TYPE_CHECKING:
    from privpac.data import Domain, OnInvalid, Users

__all__ = ["OrderedUsers", "ordered"]

P = TypeVar("P")


@dataclass(frozen=True, eq=False, repr=False)
class OrderedUsers(UsersView):
    """Groups of bound users, each user's records in increasing order of one column."""

    pieces: tuple[UserData, ...]

    def bind(self, domains: Mapping[str, Domain], on_invalid: OnInvalid | str | None = None) -> Users:
        return self.base.bind(domains, on_invalid)

    def max_records(self, cap: int, rule: str | None = None, salt: bytes = SALT) -> Users:
        return self.base.max_records(cap, rule, salt)

    def fold(self, kernel: Kernel[P]) -> P:
        return fold_pieces(self.pieces, kernel)


def _sort(users: UserData, column: str) -> UserData:
    assert users.labels is not None
    key, tag = sort_within_users(users.codes[column], users.labels, users.offsets)
    return replace(users, codes={column: key}, features={column: users.features[column]}, labels=tag, _raw={})


def ordered(bound: Bound) -> Bound:
    """The same users with their records in order, where they are in memory and the class is one of cuts."""
    pieces = [bound.users] if isinstance(bound.users, UserData) else None
    if isinstance(bound.users, AdmissibleUsers):
        pieces = bound.users.pieces
    if pieces is None or bound.concept.cut_direction is None:
        return bound
    (column,) = bound.concept.declared()
    assert column is not None
    return Bound(bound.concept, OrderedUsers(bound.users, tuple(_sort(piece, column) for piece in pieces)), bound.label)
