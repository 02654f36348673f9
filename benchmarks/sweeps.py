"""One number varied, what is measured against it, the slope on log axes; bounds on users read as bounds on errors; data
and covers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from attrs import frozen
from common import Grid
from numpy.typing import NDArray

from privpac.data import Floats, Integers, UserData
from privpac.distributions import CoverLearner
from privpac.distributions.selection.accuracy import plan_pairwise
from privpac.errors import PrivpacError
from privpac.sample_size import Certificate

__all__ = [
    "BETA",
    "Sweep",
    "cover",
    "cover_clip",
    "least_certified",
    "least_possible",
    "lower_users",
    "pairwise_users",
    "people",
    "selected",
    "weights_of",
]

Reals = NDArray[np.float64]
BETA = Fraction(1, 20)
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


@frozen(slots=False)
class Sweep:
    """One number varied; ``error(value, seed)``, or ``error(value, seed, clip)``, is what is measured on one data
    set."""

    row: str
    about: str
    axis: str
    values: Sequence[int]
    error: Callable[..., Any]
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
    clip: Callable[[int], Fraction | None] | None = None
    """The planner's clip, None where it certifies nothing; then ``error`` takes a clip as well, None for the root of
    m."""

    def measured(
        self, values: Sequence[int], sets: int, clips: Sequence[Fraction | None] | None
    ) -> tuple[Reals, Reals]:
        sets *= self.times
        given = [()] * len(values) if clips is None else [(clip,) for clip in clips]
        found = np.array(
            [[np.atleast_1d(self.error(v, seed, *clip)) for seed in range(sets)] for v, clip in zip(values, given)]
        )
        mean, spread = found.mean(axis=1), found.std(axis=1, ddof=1) / math.sqrt(sets)
        worst = mean.argmax(axis=1)[:, None]
        return np.take_along_axis(mean, worst, 1)[:, 0], np.take_along_axis(spread, worst, 1)[:, 0]

    def table(self, sets: int) -> tuple[Grid, list[list[str]]]:
        """What was found for every value, and a line on the slope for each clip."""
        if self.clip is None:
            rows, lines = self._rows("measured", self.about, self.values, sets, None)
        else:
            rows, lines = self._rows(
                "measured, clip √m", f"{self.about}, clip √m", self.values, sets, [None] * len(self.values)
            )
            clips = {value: clip for value in self.values if (clip := self.clip(value)) is not None}
            if clips:
                more = self._rows(
                    "measured, planned clip", f"{self.about}, planned clip", list(clips), sets, list(clips.values())
                )
                rows, lines = rows + more[0], lines + more[1]
            rows.append(
                ["planned clip", *(_shown(float(clips[value]) if value in clips else None) for value in self.values)]
            )
        if self.certified is not None:
            name = "certified" if self.proper else "certified for a cover"
            rows.append([name, *(_shown(self.certified(value)) for value in self.values)])
        if self.lower is not None:
            rows.append(["no method below", *(_shown(self.lower(value)) for value in self.values)])
        heads = [f"{self.row}: {self.about}", *(f"{self.axis} = {value}" for value in self.values)]
        return Grid("", heads, rows), lines

    def _rows(
        self, name: str, about: str, values: Sequence[int], sets: int, clips: Sequence[Fraction | None] | None
    ) -> tuple[list[list[str]], list[list[str]]]:
        mean, spread = self.measured(values, sets, clips)
        shown = {v: f"{_shown(a)} ± {_shown(b)}" for v, a, b in zip(values, mean.tolist(), spread.tolist())}
        row = [name, *(shown.get(value, "-") for value in self.values)]
        if len(values) < 2:
            return [row], []
        slope, width = _slope(np.array(values, float), mean, spread)
        low, high = self.stated
        rate = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        room = TOLERANCE + 2 * width
        remark = "" if low - room <= slope <= high + room else self.why or "differs"
        return [row], [[self.row, about, self.axis, f"{slope:.2f} ± {width:.2f}", rate, remark]]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _slope(x: Reals, y: Reals, spread: Reals) -> tuple[float, float]:
    """Least squares on log axes; the standard error is that of the measured errors."""
    u = np.log(x) - np.log(x).mean()
    weights = u / (u @ u)
    return float(weights @ np.log(y)), float(np.sqrt(weights**2 @ (spread / y) ** 2))


# Data, covers, bounds


def weights_of(scores: NDArray[np.int64], rate: float) -> Reals:
    law = np.exp(-rate * (scores - scores.min()))
    return np.asarray(law / law.sum())


def people(x: NDArray[Any], m: int, features: dict[str, Any], y: Any = None) -> UserData:
    return UserData.from_arrays(x, y, np.arange(len(x)) // m, features=features)


def selected(members: Any, data: UserData, m: int, clip: Fraction | None) -> Reals:
    """The law over a cover's members."""
    top = math.ceil(members.unit * (math.isqrt(m) if clip is None else clip))
    return weights_of(members.scores(data, top), 1 / members.range(top, None, "add-remove"))


@cache
def cover(family: Any, values: int, radius: Fraction = Fraction(1, 200), columns: int = 1) -> Any:
    """The cover of mass functions on so many values, or (0) of normal laws."""
    domain = Integers(0, values - 1) if values else Floats()
    names = ["x"] if columns == 1 else [f"x{j}" for j in range(columns)]
    return CoverLearner(family, 1, alpha=max(Fraction(1, 5), 4 * radius), cover_radius=radius, tau=1).cover(
        dict.fromkeys(names, domain)
    )


def cover_clip(members: Any, family: Any, n: int, m: int) -> Fraction | None:
    """The clip planned for the least error that so many users are certified for, with this cover."""

    def plan(alpha: Any) -> Any:
        return CoverLearner(family, 1, alpha=alpha, cover_radius=members.radius, beta=BETA, records_per_user=m).plan(
            members
        )

    alpha = least_certified(lambda a: plan(a).certificate.n_users, n)
    return None if alpha is None else plan(alpha).clip


def pairwise_users(log_size: float, alpha: Fraction, m: int) -> int | None:
    given: dict[str, Any] = {"epsilon": 1, "beta": BETA, "records_per_user": m, "width": 1, "clip_step": Fraction(1, 4)}
    return plan_pairwise(log_size=log_size, alpha0=alpha / 10, alpha1=alpha * Fraction(4, 5), **given).n_users


def lower_users(bound: Callable[..., Certificate], size: int, alpha: Fraction, m: int) -> int | None:
    return bound(size, alpha=alpha, epsilon=1, records_per_user=m, neighbours="add-remove").n_users
