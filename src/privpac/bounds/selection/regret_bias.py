"""Users that clipped-regret selection needs whatever the labels do, for clips as small as sqrt m: the coin bias is
charged, not refused.

The learner scores a rule ``h`` by ``min(r, tau)`` per user, ``r`` the user's mistakes above the user's own best cut.
With ``h*`` the best cut of the population, ``a`` the difference of mistakes of ``h`` and ``h*``, ``b = r(h*)`` and ``d
= E a / m`` the excess error of ``h``,

    tau X = min(r(h), tau) - min(b, tau),   E tau X >= m d - E(r(h) - tau)+   and   E tau X >= E min(a, tau) - E min(b,
    tau).

A clip of sqrt m favours extreme rules a little when labels are coins, so below some excess, the *bias*, nothing can be
certified.  The bias is small because of

**Theorem (coins are the worst luck).**  Thresholds, m independent records of any law, ``h`` of excess error ``d``.
Then ``r(h)`` is stochastically at most ``max(Z + M_k, Z' + M'_{m-k})`` for a random ``k``, where ``M_k`` is the maximum
of a fair +-1 walk of ``k`` steps, ``Z`` and ``Z'`` are Bin(m, 1 - sqrt(1 - 2d)) (1 if ``d > 1/2``) and all are
independent.  For ``h*`` (``d = 0``): own luck is at most that of a user whose labels are fair coins, exactly and for
every m.

*Proof.*  Walk from h to the right.  A record with label 0 gains 1, one with label 1 loses 1; let D(c), U(c) be their
masses up to the cut c.  No cut is better than h by more than d, so ``U(c) >= D(c) - d``.  Give each gain a rank uniform
within its jump of D and each loss one within its jump of U.  Then the gain of c is #{gains of rank <= D(c)} - #{losses
of rank <= U(c)}, at most Z + #{gains of rank in (d, D(c)]} - #{losses of rank <= D(c) - d} with Z = #{gains of rank <=
d}.  Ranks of gains beyond d, less d, and ranks of losses up to ``D(inf) - d`` have the same uniform law: read by rank
they are a fair walk.  The left side is the same.  So each record is free on the left or free on the right (mass at most
d each), a step on the left or on the right (masses p, p'; p + p' <= 1 - 2d where both sides have steps), or idle.  Give
each record independent marks instead: free left and free right with probability ``f = 1 - sqrt(1
- 2d)`` each, and always one step, on the left with probability ``p/(p + p')``.  More marks only make the maximum
  larger, and marks
that contain the kind exist by Hall's condition: ``f >= d``, ``(1-f)**2 = 1 - 2d``, and with s = p/(p+p') the subsets of
kinds need ``(1-f)(1-s) <= 1 - d - p``, ``(1-f) s <= 1 - d - p'`` and ``(1-2d)(1-s) <= 1 - 2d - p``, linear in s and
true at s = 0 and 1.  Where one side has no steps, s is 0 or 1 and they are trivial.  Given the numbers of steps, k and
m - k, everything is independent.  []

So ``E(r(h) - tau)+`` and ``E min(b, tau)`` are at most the largest over k of sums of survival functions, computed
exactly (reflection principle, convolution), with k in cells (the larger walk on either side).  Nothing depends on the
number of cuts.  ``a`` is at most a fair-size walk in convex order: E min(a, tau) is least, and E a- largest, for steps
+-1 of mean d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.certificate import SLACK, Certificate, log_size_of, open_unit, users_for
from privpac.bounds.laws import binom
from privpac.bounds.selection.reading import read_clip, read_records, read_theta
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.special import betainc

__all__ = ["MAX_COIN_RECORDS", "certify_regret_charged", "certify_regret_coin", "coin_bias"]

Array = NDArray[np.float64]

MAX_COIN_RECORDS = 4096
"""Records per user up to which these certificates are computed."""

LEAST_EXCESS = 1e-5
"""Excess errors are told apart down to this."""

_SIDES = 16
_TILTS: Array = 100 * 2.0 ** (-np.arange(240) / 8)
_ROUNDING = 1e-9
"""In records per user: far above the error of the convolutions."""


def coin_bias(*, records_per_user: int, tau: int) -> Fraction:
    """An excess error above which the clipped score prefers the best cut, whatever the law that all users share.

    With infinitely many users the selected cut has at most this excess.  0 for the mean (``tau = records_per_user``); 1
    when nothing can be said.

    >>> [round(float(coin_bias(records_per_user=256, tau=tau)) * 16, 3) for tau in (16, 24, 32, 256)]
    [0.266, 0.065, 0.016, 0.0]
    """
    m, clip = _read(records_per_user, tau)
    if clip >= m:
        return Fraction(0)
    cells = _cells(m)
    failing = np.flatnonzero(_gain(m, clip, cells.low, cells.over[:, clip]) <= _ROUNDING)
    return Fraction(float(cells.high[failing[-1]]) if len(failing) else LEAST_EXCESS)


def certify_regret_coin(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    log_size: Rational,
    levels: int,
) -> Certificate:
    """Users for excess error at most ``alpha`` with probability ``1 - beta``, with no assumption on the labels.

    **Assumption**: thresholds, all users have ``records_per_user`` records from one law.  For ``theta' <= theta`` and
    every cut of excess ``d >= alpha``, ``Pr[output] <= (E exp(-theta' X))**n`` and ``E exp(-theta' X) <= 1 - w`` with
    ``w = max{theta' gamma - (e**theta' - 1 - theta') v, (1 - e**-theta') gamma - (e**theta' + e**-theta' - 2) u}``,
    where ``gamma`` bounds ``E X`` from below (module docstring), ``v = min(1, (m + (m d)**2)/tau**2)`` its second
    moment and ``u`` its negative part from above. The best ``theta'`` for each cell of ``d`` (ratio 1.007 or 1.03),
    then the worst cell.  Rounding to ``levels`` steps costs ``exp(theta'/levels)`` when ``tau`` does not divide them.
    ``n_users`` is ``None`` when ``alpha`` is below :func:`coin_bias`.

    >>> given = dict(theta=1, alpha=0.05, beta=0.1, log_size=math.log(1025), levels=840)
    >>> [certify_regret_coin(records_per_user=256, tau=tau, **given).n_users for tau in (16, 32, 64)]
    [427, 58, 70]
    """
    m, clip = _read(records_per_user, tau)
    excess = open_unit(rational(alpha, "alpha", minimum=Fraction(LEAST_EXCESS)), "alpha")
    return _certify(m, clip, theta, excess, beta, log_size, levels, "regret selection, coin luck", {})


def certify_regret_charged(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    log_size: Rational,
    levels: int,
) -> Certificate:
    """Users for excess error at most ``coin_bias + alpha`` with probability ``1 - beta``: the same, with the bias
    charged.

    ``certificate["bias"]`` is :func:`coin_bias` and ``certificate["excess"]`` the promise, their sum.  ``n_users`` is
    ``None`` when the sum is 1 or more.

    >>> given = dict(theta=1, alpha=0.02, beta=0.1, log_size=math.log(1025), levels=840)
    >>> found = certify_regret_charged(records_per_user=256, tau=16, **given)
    >>> found.n_users, round(float(found["excess"]), 4)
    (502, 0.0366)
    """
    m, clip = _read(records_per_user, tau)
    more = rational(alpha, "alpha", minimum=Fraction(LEAST_EXCESS), below=1)
    bias = coin_bias(records_per_user=m, tau=clip)
    promise = bias + more
    notes: dict[str, object] = {"bias": bias, "excess": promise}
    name = "regret selection, bias charged"
    if promise >= 1:
        open_unit(beta, "beta"), log_size_of(log_size), read_theta(theta), positive_int(levels, "levels")
        return Certificate.upper(None, name, _ASSUMES, tau=clip, records_per_user=m, **notes)
    return _certify(m, clip, theta, float(promise), beta, log_size, levels, name, notes)


_ASSUMES = "thresholds, users with the same law and equally many records"


def _certify(
    m: int,
    tau: int,
    theta: Rational,
    excess: float,
    beta: Rational,
    log_size: Rational,
    levels: int,
    name: str,
    notes: dict[str, object],
) -> Certificate:
    rate, steps = read_theta(theta), positive_int(levels, "levels")
    log_ratio = log_size_of(log_size) - math.log(open_unit(beta, "beta"))
    cells = _cells(m)
    kept = cells.high > excess
    low, high = np.maximum(cells.low[kept], excess), cells.high[kept]
    gamma = _gain(m, tau, low, cells.over[kept, tau]) / tau
    v = np.minimum(1.0, (m + (m * high) ** 2) / tau**2)
    u = np.minimum(1.0, _shortfall(m, 0, low) / tau)
    t = np.minimum(rate, _TILTS)[:, None]
    first = t * gamma - (np.expm1(t) - t) * v
    second = -np.expm1(-t) * gamma - (2 * np.cosh(t) - 2) * u
    w = np.clip(np.maximum(first, second) - SLACK, 0.0, 1 - SLACK)
    # Each bad rule may take its own theta'; the slowest cell rules.
    speed = -np.log1p(-w) - (t / steps if steps % tau else 0.0)
    n = users_for(log_ratio, float(speed.max(axis=0).min()))
    return Certificate.upper(n, name, _ASSUMES, tau=tau, records_per_user=m, **notes)


# The mean vote


def _gain(m: int, tau: int, low: Array, over: Array) -> Array:
    """A lower bound of ``E tau X`` on cells of excess from ``low`` on, where clipping takes at most ``over``."""
    clipped = m * low - over
    if tau >= m:
        return np.asarray(clipped)
    direct = tau - _shortfall(m, tau, low) - _own_luck(m)[tau]
    return np.asarray(np.maximum(clipped, direct) - _ROUNDING)


def _shortfall(m: int, t: int, d: Array) -> Array:
    """``E(t - a)+`` for ``a = 2 Bin(m, (1+d)/2) - m``: with K = floor((m+t)/2), (m+t) Pr[Bin(m) <= K] - 2 m p
    Pr[Bin(m-1) <= K - 1]."""
    p, k = (1 + d) / 2, (m + t) // 2
    most = betainc(m - k, k + 1, 1 - p) if k < m else np.ones_like(p)
    less = (betainc(m - k, k, 1 - p) if k < m else np.ones_like(p)) if k > 0 else np.zeros_like(p)
    return np.asarray(np.maximum((m + t) * most - 2 * m * p * less, 0.0))


# Walks


@lru_cache(maxsize=16)
def _sides(m: int) -> tuple[Array, Array]:
    """``Pr[M >= j]``, j = 0..m, for the longer walks of each cell of k: rows of the two sides."""
    edges = sorted(
        {math.floor(m * i * i / (2 * _SIDES**2)) for i in range(_SIDES + 1)} | set(range(min(m // 2, 8) + 1))
    )
    # Cells [0, 0], (0, e1], (e1, e2], ...: at most e steps on one side, at most m - (previous edge) - 1 on the other.
    fewer = np.array([_record_law(e, m) for e in edges])
    rest = np.array([_record_law(m - e, m) for e in [0, *(before + 1 for before in edges[:-1])]])
    return fewer, rest


def _record_law(k: int, top: int) -> Array:
    """``Pr[M_k >= j] = Pr[S_k >= j] + Pr[S_k > j]`` for the maximum of a fair walk (reflection)."""
    j = np.arange(top + 1)
    return np.asarray(np.minimum(1.0, binom.sf((k + j + 1) // 2 - 1, k, 0.5) + binom.sf((k + j) // 2, k, 0.5)))


@lru_cache(maxsize=64)
def _own_luck(m: int) -> Array:
    """For every clip ``t``, an upper bound of ``E min(b, t)``, the largest over the cells of k."""
    fewer, rest = _sides(m)
    survival = 1 - (1 - fewer) * (1 - rest)
    return np.append(0.0, np.cumsum(survival[:, 1:], axis=1).max(axis=0))


@dataclass(frozen=True, eq=False)
class _ExcessCells:
    """Cells of excess error, and for every clip ``t`` an upper bound of ``E(r(h) - t)+`` at their upper ends."""

    low: Array
    high: Array
    over: Array


@lru_cache(maxsize=4)
def _cells(m: int) -> _ExcessCells:
    edges = _edges(m)
    high = edges[1:]
    # Pr[Z + M >= t] by convolution; sums beyond 2m wrap nowhere.
    width = 1 << (2 * m + 2).bit_length()
    fewer, rest = (np.fft.rfft(_masses(side), width) for side in _sides(m))
    over = np.empty((len(high), m + 1))
    for i, d in enumerate(high):
        free = -math.expm1(math.log1p(-2 * d) / 2) if d < 0.5 else 1.0
        law = np.fft.rfft(binom.pmf(np.arange(m + 1), m, free), width)
        ends = [
            np.clip(np.cumsum(np.fft.irfft(law * side, width)[:, 2 * m :: -1], axis=1)[:, ::-1], 0.0, 1.0)
            for side in (fewer, rest)
        ]
        # r is at most m: only t in clip+1..m can be exceeded.
        beyond = (1 - (1 - ends[0]) * (1 - ends[1]))[:, 1 : m + 1]
        over[i] = np.append(np.cumsum(beyond[:, ::-1], axis=1)[:, ::-1].max(axis=0), 0.0)
    return _ExcessCells(edges[:-1], high, over)


def _edges(m: int) -> Array:
    """Ratio 1.03, and 1.007 around one over sqrt m, where the two bounds of the mean vote meet."""
    bends = [LEAST_EXCESS, min(0.25, 0.3 / math.sqrt(m)), min(0.5, 3 / math.sqrt(m)), 1.0]
    runs = [
        np.geomspace(a, b, 1 + math.ceil(math.log(b / a) / ratio))[:-1]
        for a, b, ratio in zip(bends, bends[1:], (0.03, 0.007, 0.03))
    ]
    return np.append(np.concatenate(runs), 1.0)


def _masses(survival: Array) -> Array:
    return survival - np.append(survival[:, 1:], np.zeros((len(survival), 1)), axis=1)


# Parameters


def _read(records_per_user: int, tau: int) -> tuple[int, int]:
    m = read_records(records_per_user, MAX_COIN_RECORDS)
    return m, read_clip(tau, m)
