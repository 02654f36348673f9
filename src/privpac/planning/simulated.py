"""What simulations share: whether so many users will do, and the search for the least number that will."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["keeps_promise", "least_users"]


def keeps_promise(simulation: Any, records_per_user: int) -> Callable[[int], bool]:
    """Whether the simulated mean at so many users is at most the target's alpha; what cannot be simulated does not count."""

    def enough(n_users: int) -> bool:
        found = simulation.at(records_per_user, n_users, simulation.target.epsilon)
        return found is not None and bool(found.excess <= simulation.target.alpha)

    return enough


def least_users(enough: Callable[[int], bool], *, start: int, most: int, fine: int = 16) -> int | None:
    """About the least number of users that are enough, up to one part in ``fine``; None if more than ``most`` are needed.

    Doubling or halving from ``start``, then bisection; being enough is taken to be monotone.

    >>> least_users(lambda n: n >= 1000, start=64, most=4096, fine=64), least_users(lambda n: n >= 1000, start=8, most=512)
    (1000, None)
    """
    high = min(max(start, 1), most)
    if enough(high):
        low = high // 2
        while low and enough(low):
            low, high = low // 2, low
    else:
        low = high
        while True:
            if low == most:
                return None
            high = min(2 * low, most)
            if enough(high):
                break
            low = high
    while high - low > max(1, high // fine):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
