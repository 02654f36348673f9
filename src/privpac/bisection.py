"""The least number with a property: one search for all plans, bounds and budgets.

Where a property stays true once it is true, the number from which on it holds is found by halving an interval that has
it at its upper and not at its lower end.  What halving is (of integers, of reals, of exponents) and when the interval
is narrow enough is said by the caller; ends that are known are not tried again.  A property that wavers near its
boundary gives *a* number at which it holds and before which it does not: callers that promise more say how they know.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import count
from typing import TypeVar

_T = TypeVar("_T", int, float, Fraction)


def halved(low: int, high: int) -> int:
    """The integer half-way."""
    return (low + high) // 2


def half_way(low: float, high: float) -> float:
    """The number half-way."""
    return (low + high) / 2


def _apart(low: int, high: int) -> bool:
    return high - low > 1


def narrow(
    holds: Callable[[_T], bool],
    low: _T,
    high: _T,
    *,
    middle: Callable[[_T, _T], _T],
    wide: Callable[[_T, _T], bool] = lambda low, high: True,
    steps: int | None = None,
) -> tuple[_T, _T]:
    """An interval ``(low, high]`` that is no longer ``wide``, with ``holds`` true at its upper end only.

    Parameters
    ----------
    holds
        The property; taken to be true at ``high`` and false at ``low``, which are not tried.
    low, high
        The interval to begin with.
    middle
        Where to try next, strictly between both ends.
    wide
        Whether to go on.
    steps
        How often at the most; one of both must end the search.

    >>> narrow(lambda x: x * x >= 2, 0.0, 2.0, middle=half_way, wide=lambda low, high: high - low > 0.5)
    (1.0, 1.5)
    """
    for _ in count() if steps is None else range(steps):
        if not wide(low, high):
            break
        at = middle(low, high)
        low, high = (low, at) if holds(at) else (at, high)
    return low, high


def least_between(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least integer above ``low`` at which a property that is true at ``high`` holds.

    >>> least_between(lambda n: n * n >= 50, 0, 100)
    8
    """
    return narrow(holds, low, high, middle=halved, wide=_apart)[1]


def last_between(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last integer below ``high`` at which a property holds that is true at ``low`` and ends before ``high``.

    >>> last_between(lambda n: n * n <= 50, 0, 100)
    7
    """
    return narrow(lambda n: not holds(n), low, high, middle=halved, wide=_apart)[0]


def least(holds: Callable[[int], bool], *, start: int = 1, limit: int = 1 << 60) -> int | None:
    """The least ``n >= start`` at which a property holds: doubling, then halving; None if not up to about ``limit``.

    >>> least(lambda n: n * n >= 50), least(lambda n: False, limit=100)
    (8, None)
    """
    if holds(start):
        return start
    low, high = start, max(2 * start, 1)
    while not holds(high):
        low, high = high, 2 * high
        if high > limit:
            return None
    return least_between(holds, low, high)


def least_from(holds: Callable[[int], bool], start: int) -> int:
    """The least integer from ``start`` on at which a property holds that is true in the end: doubling steps, then
    halving.

    >>> least_from(lambda n: n * n >= 50, 0), least_from(lambda n: n >= -3, -10)
    (8, -3)
    """
    if holds(start):
        return start
    step = 1
    while not holds(start + step):
        step *= 2
    return least_between(holds, start + step // 2, start + step)


def least_about(holds: Callable[[int], bool], *, start: int, most: int, fine: int) -> int | None:
    """About the least ``n >= 1`` at which a property holds, up to one part in ``fine``; None if not up to ``most``.

    Doubling or halving from ``start``, where a guess stands, then halving of the interval.

    >>> least_about(lambda n: n >= 1000, start=64, most=4096, fine=64)
    1000
    >>> least_about(lambda n: n >= 1000, start=8, most=512, fine=16) is None
    True
    """
    high = min(max(start, 1), most)
    if holds(high):
        low = high // 2
        while low and holds(low):
            low, high = low // 2, low
    else:
        low = high
        while True:
            if low == most:
                return None
            high = min(2 * low, most)
            if holds(high):
                break
            low = high
    return narrow(holds, low, high, middle=halved, wide=lambda low, high: high - low > max(1, high // fine))[1]
