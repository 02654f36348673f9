"""What simulations share: the search for the least number of users that will do."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["least_users"]


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
