"""The law of a walk with steps +1, 0, -1, accurate in both tails.

A user's mistakes of a rule, less those of the best rule, are such a walk.  Its law is the coefficient sequence of
``(p- + p0 x + p+ x**2)**m``.  The ratios ``r`` of neighbouring coefficients obey

    (k+1) p- r[k+1] = (m-k) p0 + (2m-k+1) p+ / r[k]

with only positive terms up to ``k = m``, so each ratio is right to a few units in the last place; the other half is the
same sequence read from the other end.  Logarithms are summed outward from the middle, so that nothing underflows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Walks", "walks"]

Array = NDArray[np.float64]

_NONE = 1e-200
"""Stands for a probability 0 of a step back; its effect is far below the rounding error."""

_NEVER_STILL = 1e-13
"""Least probability of standing still.  It is taken from the step up, which only makes the walk smaller: the safe
side."""


@dataclass(frozen=True)
class Walks:
    """One law per row; ``up[:, w]`` is ``ln Pr[W = w]`` for w = 0, 1, ..., ``down[:, w-1]`` is ``ln Pr[W = -w]`` for w
    = 1, 2, ..."""

    up: Array
    down: Array


def walks(steps: int, plus: Array, minus: Array) -> Walks:
    """The laws of walks of ``steps`` steps, up with probability ``plus[i]`` and down with ``minus[i]``."""
    minus = np.maximum(minus, _NONE)
    still = np.maximum(1 - plus - minus, _NEVER_STILL)
    plus = np.maximum(1 - still - minus, _NONE)
    # From the upper end up and down change places; the last ratio of either end is the step next to the middle.
    down = -np.cumsum(_log_ratios(steps, plus, minus, still)[:, ::-1], axis=1)
    up = -np.cumsum(_log_ratios(steps, minus, plus, still)[:, ::-1], axis=1)
    up = np.concatenate([np.zeros((len(plus), 1)), up], axis=1)
    top = np.maximum(up.max(axis=1), down.max(axis=1))[:, None]
    total = np.log(np.exp(up - top).sum(axis=1) + np.exp(down - top).sum(axis=1))[:, None] + top
    return Walks(up - total, down - total)


def _log_ratios(steps: int, plus: Array, minus: Array, still: Array) -> Array:
    """``ln(c[k] / c[k-1])`` for k = 1..steps, rows by k, from the end where every step is down."""
    k = np.arange(steps)[:, None]
    stay = (steps - k) / (k + 1) * (still / minus)
    lift = (2 * steps - k + 1) / (k + 1) * (plus / minus)
    lift[0] = 0.0
    ratios = np.ones((steps, len(plus)))
    current = ratios[0].copy()
    for row, s, r in zip(ratios, stay, lift):
        np.divide(r, current, out=row)
        row += s
        current = row
    return np.log(ratios.T)
