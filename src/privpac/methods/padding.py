"""A public number of seats, so that people may come and go.

Learners whose test or score depends on the number of users are proved for *replace*, where that number is public.  With
a declared number of ``slots`` they hold under add-remove: an empty slot is a user without records, so a user who comes
replaces an empty one, and a user who goes leaves one.  Users beyond the last slot are left out, first come first
seated: one more user then pushes out at most one other, which again is one replacement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpac.errors import ParameterError
from privpac.guarantee import Neighbours, positive_int
from privpac.methods.base import count_users

if TYPE_CHECKING:
    from privpac.data import UserData, Users

__all__ = ["MAX_SLOTS", "public_count", "read_slots", "seat_arrays", "seat_users"]

MAX_SLOTS = 1 << 28


def read_slots(slots: Any, neighbours: Neighbours) -> int | None:
    """The declared number of slots: required under add-remove, useless under replace."""
    if neighbours is Neighbours.REPLACE:
        if slots is not None:
            raise ParameterError(
                "slots stand for a private number of users; under replace that number is public: leave slots out"
            )
        return None
    if slots is None:
        raise ParameterError(
            "under add-remove declare slots, a public number of seats a little above the number of users, or use "
            "replace"
        )
    return positive_int(slots, "slots", maximum=MAX_SLOTS)


def public_count(users: Users, slots: int | None) -> int:
    """The public number of users: the slots, or the number itself under replace."""
    return count_users(users) if slots is None else slots


def seat_arrays(offsets: NDArray[np.int64], slots: int | None) -> NDArray[np.int64]:
    """Offsets of exactly ``slots`` users, the last ones empty; records beyond the last offset are not read."""
    if slots is None:
        return offsets
    missing = slots + 1 - len(offsets)
    return offsets[: slots + 1] if missing <= 0 else np.concatenate([offsets, np.full(missing, offsets[-1])])


def seat_users(users: UserData, slots: int | None) -> UserData:
    """Exactly ``slots`` users."""
    if slots is None or users.n_users == slots:
        return users
    if users.n_users > slots:
        return users.take(np.arange(slots))
    return replace(users, offsets=seat_arrays(users.offsets, slots), _ids=None)
