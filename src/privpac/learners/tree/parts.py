"""Users bound to a tree, and their secret partitions into parts, drawn without a look at the data.

Under replace the number ``n`` of users is public: a uniformly random permutation, part = position mod ``t``.  Under
add-remove ``t`` is fixed in advance and every user goes to an independent uniform part, so that adding a user changes
one part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import factorial, prod
from typing import TYPE_CHECKING

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.errors import ParameterError, TooLargeError
from privpac.learners.reduction.coins import below, random_order
from privpac.parameters import named, whole, whole_or_none
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.concepts.trees.base import VC1Tree
    from privpac.data import Users

__all__ = ["MAX_PARTITIONS", "BoundTree", "PartSizes", "all_partitions", "draw_partition"]

MAX_PARTITIONS = 1 << 12
"""How many partitions an exact law averages over at most."""

Partition = NDArray[np.int64]


@frozen(slots=False, field_transformer=named)
class PartSizes:
    """How users form parts, each of which says one node.  All public.

    Parameters
    ----------
    parts : int, optional
        A number of parts fixed in advance; by default every user is one.
    users_per_part : int
        Users of a part, under replace; default 1.
    """

    parts: int | None = field(default=None, converter=whole_or_none)
    users_per_part: int = field(default=1, converter=whole)

    def __attrs_post_init__(self) -> None:
        if self.users_per_part > 1 and self.parts is not None:
            raise ParameterError("give parts or users_per_part, not both")


@dataclass(frozen=True, repr=False)
class BoundTree:
    """A tree with its columns, the users bound to it, and what is to be said with the result."""

    tree: VC1Tree
    users: Users
    label: str
    warnings: tuple[str, ...]


def draw_partition(n: int, t: int, rng: Rng, *, independent: bool) -> Partition:
    """The part of every user."""
    if independent:
        return below(np.full(n, t), rng)
    return np.arange(n, dtype=np.int64)[random_order(n, rng)] % t


def all_partitions(n: int, t: int, *, independent: bool) -> list[Partition]:
    """All partitions that can be drawn; they are equally likely.

    >>> len(all_partitions(4, 2, independent=False)), len(all_partitions(4, 2, independent=True))
    (6, 16)
    """
    count = 0
    if n <= 40:
        sizes = (len(range(i, n, t)) for i in range(min(t, n)))
        count = t**n if independent else factorial(n) // prod(map(factorial, sizes))
    if n > 40 or count > MAX_PARTITIONS:
        raise TooLargeError(
            f"there are more than {MAX_PARTITIONS} partitions to average over; pass law(data, given=partition)"
        )
    listed = product(range(t), repeat=n) if independent else _arrangements([i % t for i in range(n)])
    return [np.array(partition, dtype=np.int64) for partition in listed]


def _arrangements(items: list[int]) -> Iterator[tuple[int, ...]]:
    """Distinct orders of a multiset; each is reached by equally many permutations."""
    if not items:
        yield ()
    for first in dict.fromkeys(items):
        rest = items.copy()
        rest.remove(first)
        for tail in _arrangements(rest):
            yield (first, *tail)
