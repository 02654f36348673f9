"""Users that selection among *known* candidate distributions needs: certificate C2 with what clipping takes computed,
not bounded.

For candidates P, Q with ``p = P(W)``, ``W = {P > Q}``, a user with ``m`` records from a population D has the clipped
comparison ``clip(m p - X, -tau, tau)`` with ``X ~ Bin(m, D(W))``.  Its mean grows with ``mu = p - D(W)``, so over every
D

* a comparison with ``mu >= a1`` has mean at least ``E clip(m p - Bin(m, p - a1))``, and none has ``p < a1``;
* one with ``mu <= a0`` has mean at most ``E clip(m p - Bin(m, max(0, p - a0)))``.

The least of the former less the largest of the latter, over the pairs' probabilities ``p``, is a margin; C2 goes from
there to users (:mod:`privpac.bounds.selection.pairwise`).  Nothing is assumed about D beyond C2, only the probabilities
``p`` must be right: where the comparison uses rounded ones, ``rounding`` says how far off they may be.

The mean is exact: ``E clip(a - X, -tau, tau) = G(a + tau) - G(a - tau) - tau`` with ``G(u)`` the integral of ``Pr[X <=
.]`` up to ``u``, which is linear between integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.certificate import SLACK, Certificate, relation
from privpac.bounds.selection.pairwise import ScoreTarget, least_users, read_target
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.special import bdtr

__all__ = ["certify_scheffe", "clipped_mean", "plan_scheffe"]

Array = NDArray[np.float64]
MAX_WORK = 1 << 25
"""Probabilities times records and clips up to which a plan is computed."""

_NEAR = 1e-9


def plan_scheffe(
    *,
    probabilities: Sequence[Rational] | NDArray[Any],
    log_size: Rational,
    epsilon: Rational,
    alpha1: Rational,
    beta: Rational,
    records_per_user: int,
    alpha0: Rational = 0,
    rounding: Rational = 0,
    max_records: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    clip_step: Rational = Fraction(1, 4),
) -> Certificate:
    """The clip, among multiples of ``clip_step`` up to ``records_per_user``, and the bound that certify the fewest
    users.

    ``probabilities`` are the values ``P(W)`` of all ordered pairs of candidates (repeated ones count once), each within
    ``rounding`` of the truth; ``log_size`` is the logarithm of the number of candidates.  A public cap ``max_records``
    shortens users' intervals, which lowers the noise.  If no pair can have a comparison of ``alpha1`` every candidate
    is good enough, and one user is certified.

    >>> from privpac.bounds.selection.pairwise import plan_pairwise
    >>> given = {"log_size": 3, "epsilon": 1, "alpha1": "1/5", "beta": "1/20", "records_per_user": 16}
    >>> plan_scheffe(probabilities=["9/10", "1/2"], **given).n_users, plan_pairwise(**given, width=1,
    ...     clip_step="1/4").n_users
    (40, 51)
    """
    m = positive_int(records_per_user, "records_per_user", maximum=MAX_WORK)
    step = rational(clip_step, "clip_step", above=0, maximum=m)
    count = math.floor(m / step)
    p = _probabilities(probabilities)
    if max(1, len(p)) * (m + count) > MAX_WORK:
        raise TooLargeError(
            f"{len(p)} probabilities, {m} records and {count} clips are too many for exact means; use plan_pairwise or "
            "a larger clip_step"
        )
    clips = [step * k for k in range(1, count + 1)]
    return _best(
        clips, p, read_target(log_size, epsilon, alpha0, alpha1, 1, beta), m, rounding, max_records, neighbours
    )


def certify_scheffe(
    *,
    probabilities: Sequence[Rational] | NDArray[Any],
    log_size: Rational,
    epsilon: Rational,
    alpha1: Rational,
    beta: Rational,
    records_per_user: int,
    tau: Rational,
    alpha0: Rational = 0,
    rounding: Rational = 0,
    max_records: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """The certificate for one clip ``tau`` (in records); see :func:`plan_scheffe`."""
    m = positive_int(records_per_user, "records_per_user", maximum=MAX_WORK)
    p = _probabilities(probabilities)
    if max(1, len(p)) * m > MAX_WORK:
        raise TooLargeError(
            f"{len(p)} probabilities and {m} records are too many for exact means; use certify_pairwise"
        )
    clips = [rational(tau, "tau", above=0)]
    return _best(
        clips, p, read_target(log_size, epsilon, alpha0, alpha1, 1, beta), m, rounding, max_records, neighbours
    )


def clipped_mean(records: int, probability: Rational, rate: Rational, tau: Rational) -> float:
    """``E clip(m p - Bin(m, rate), -tau, tau)`` for ``m`` records and ``p = probability``.

    >>> clipped_mean(2, "1/2", "1/2", 1), clipped_mean(2, 1, "1/2", "1/2")
    (0.0, 0.375)
    """
    m = positive_int(records, "records", maximum=MAX_WORK)
    p = float(rational(probability, "probability", minimum=0, maximum=1))
    inside = float(rational(rate, "rate", minimum=0, maximum=1))
    return float(_means(m, p, inside, np.array([float(rational(tau, "tau", above=0))]))[0])


def _best(
    clips: list[Fraction],
    p: Array,
    wanted: ScoreTarget,
    m: int,
    rounding: Rational,
    max_records: int | None,
    neighbours: Neighbours | str,
) -> Certificate:
    off = float(rational(rounding, "rounding", minimum=0, maximum=1))
    cap = None if max_records is None else positive_int(max_records, "max_records")
    if cap is not None and cap < m:
        raise ParameterError(f"records_per_user must be at most max_records = {cap}, got {m}: more are never read")
    tau = np.array([float(clip) for clip in clips])
    rate = wanted.epsilon / _range(p, tau, cap, relation(neighbours))
    # D(W) <= p + off - a1 for a comparison of a1 or more, D(W) >= p - off - a0 for one of at most a0.
    witnesses = p[p + off - wanted.a1 >= -_NEAR]
    low = [
        _means(m, chance, min(1.0, max(0.0, chance + off - wanted.a1)), tau)
        for chance in (witnesses if len(witnesses) else p[-1:]).tolist()
    ]
    high = [_means(m, chance, max(0.0, chance - off - wanted.a0), tau) for chance in p.tolist()]
    margin = np.minimum.reduce(low) - np.maximum.reduce(high) - SLACK * m
    found = least_users(clips, margin, rate, m, wanted, "hypothesis selection")
    return found if len(witnesses) else replace(found, n_users=1)


def _means(m: int, p: float, rate: float, tau: Array) -> Array:
    """``E clip(m p - Bin(m, rate), -tau, tau)`` for every clip."""
    below = np.concatenate([[0.0], np.cumsum(bdtr(np.arange(m), m, rate))])

    def integral(u: Array) -> Array:
        return np.asarray(np.interp(u, np.arange(m + 1), below) + np.maximum(0.0, u - m))

    return np.asarray(integral(m * p + tau) - integral(m * p - tau) - tau)


def _range(p: Array, tau: Array, cap: int | None, neighbours: Neighbours) -> Array:
    """``rho`` for every clip: a user's comparison lies in ``[-min(tau, M (1 - p)), min(tau, M p)]``, with ``M`` the
    public cap."""
    if cap is None:
        return tau * (2 if neighbours is Neighbours.ADD_REMOVE else 4)
    high, low = np.minimum(tau, cap * p[:, None]), -np.minimum(tau, cap * (1 - p[:, None]))
    found = 2 * (high - low).max(axis=0) if neighbours is Neighbours.REPLACE else high.max(axis=0) - low.min(axis=0)
    return np.asarray(found)


def _probabilities(given: Any) -> Array:
    """Different values in increasing order; 0 if there is only one candidate, hence no pair."""
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"probabilities must be a sequence of numbers, got {type(given).__name__}")
    values = given.ravel() if isinstance(given, np.ndarray) else list(given)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        found = values.astype(np.float64)
        if not ((found >= 0) & (found <= 1)).all():
            raise ParameterError("probabilities must lie between 0 and 1")
    else:
        found = np.array(
            [float(rational(value, "a probability", minimum=0, maximum=1)) for value in values], dtype=np.float64
        )
    return np.unique(found) if len(found) else np.zeros(1)
