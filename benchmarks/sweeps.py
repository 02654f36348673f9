"""One number varied, what is measured against it, the slope on log axes, and bounds on numbers of users read as bounds on errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from common import Grid
from numpy.typing import NDArray

from privpac.errors import PrivpacError

__all__ = ["Sweep", "least_certified", "least_possible"]

Reals = NDArray[np.float64]
GRID = [Fraction(round(0.98**i * 10**9), 10**9) for i in range(35, 700)]
"""Errors tried for a bound, from 0.49 down."""

TOLERANCE = 0.1
"""Slopes of a few points differ that much from those of an order without saying anything."""


# Bounds, read backwards


def least_certified(users: Callable[[Fraction], int | None], n: int) -> float | None:
    """The least error that so many users are certified for."""

    def holds(alpha: Fraction) -> bool:
        found = _quiet(users, alpha)
        return found is not None and found <= n

    return _last(holds)


def least_possible(users: Callable[[Fraction], int | None], n: int) -> float | None:
    """The largest error that needs more users than that."""

    def too_few(alpha: Fraction) -> bool:
        found = _quiet(users, alpha)
        return found is not None and found > n

    return _last(too_few, GRID[::-1])


def _quiet(users: Callable[[Fraction], int | None], alpha: Fraction) -> int | None:
    try:
        return users(alpha)
    except PrivpacError:
        return None


def _last(holds: Callable[[Fraction], bool], order: Sequence[Fraction] = GRID) -> float | None:
    """The last of the errors that hold, when they hold up to some place in the order."""
    if not holds(order[0]):
        return None
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(order[middle]) else (low, middle)
    return float(order[low])


# Sweeps


@dataclass(frozen=True)
class Sweep:
    """One number varied; ``error(value, seed)`` is what is measured on one data set."""

    row: str
    about: str
    axis: str
    values: Sequence[int]
    error: Callable[[int, int], Any]
    """A number, or one for each of several instances, of which the worst mean counts."""
    stated: tuple[float, float]
    why: str = ""
    """What makes the measured slope differ, where it does."""
    certified: Callable[[int], float | None] | None = None
    lower: Callable[[int], float | None] | None = None

    times: int = 1
    """So many times the data sets, where luck weighs more."""
    proper: bool = True
    """Whether the certificate is about the learner measured, not about selection from a cover too large to search."""

    def measured(self, sets: int) -> tuple[Reals, Reals]:
        sets *= self.times
        found = np.array([[np.atleast_1d(self.error(value, seed)) for seed in range(sets)] for value in self.values])
        mean, spread = found.mean(axis=1), found.std(axis=1, ddof=1) / math.sqrt(sets)
        worst = mean.argmax(axis=1)[:, None]
        return np.take_along_axis(mean, worst, 1)[:, 0], np.take_along_axis(spread, worst, 1)[:, 0]

    def table(self, sets: int) -> tuple[Grid, list[str]]:
        mean, spread = self.measured(sets)
        rows = [["measured", *(f"{_shown(a)} ± {_shown(b)}" for a, b in zip(mean.tolist(), spread.tolist()))]]
        if self.certified is not None:
            name = "certified" if self.proper else "certified for a cover"
            rows.append([name, *(_shown(self.certified(value)) for value in self.values)])
        if self.lower is not None:
            rows.append(["no method below", *(_shown(self.lower(value)) for value in self.values)])
        heads = [f"{self.row}: {self.about}", *(f"{self.axis} = {value}" for value in self.values)]
        slope, width = _slope(np.array(self.values, float), mean, spread)
        low, high = self.stated
        rate = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        room = TOLERANCE + 2 * width
        inside = low - room <= slope <= high + room
        remark = "" if inside else self.why or "differs"
        return Grid("", heads, rows), [self.row, self.about, self.axis, f"{slope:.2f} ± {width:.2f}", rate, remark]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _slope(x: Reals, y: Reals, spread: Reals) -> tuple[float, float]:
    """Least squares on log axes; the standard error is that of the measured errors."""
    u = np.log(x) - np.log(x).mean()
    weights = u / (u @ u)
    return float(weights @ np.log(y)), float(np.sqrt(weights**2 @ (spread / y) ** 2))
