"""Literal, slow references: one loop for each sum of the definitions, nothing shared with the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from privpac.data import Domain, UserData


def users_of(users: Sequence[Sequence[Any]], **features: Domain) -> UserData:
    """Unlabelled users."""
    return UserData.from_users(users, features=features, labelled=False)


def clip(value: int, top: int) -> int:
    return max(-top, min(top, value))


def pair_sum(users: Sequence[Sequence[Any]], inside: Callable[[Any], bool], q: int, unit: int, top: int) -> int:
    """``sum_i clip(m_i q - unit c_i, -top, top)``."""
    return sum(clip(len(user) * q - unit * sum(inside(z) for z in user), top) for user in users)


def scores(
    users: Sequence[Sequence[Any]],
    size: int,
    inside: Callable[[int, int, Any], bool],
    q: Callable[[int, int], int],
    unit: int,
    top: int,
) -> list[int]:
    """The worst pair sum of every candidate over all competitors."""
    if size == 1:
        return [0]
    out = []
    for p in range(size):
        sums = [pair_sum(users, lambda z, p=p, r=r: inside(p, r, z), q(p, r), unit, top) for r in range(size) if r != p]
        out.append(max(sums))
    return out
