"""Users that clipped-regret selection needs for thresholds when label noise is bounded.

The learner scores a rule ``h`` by ``X = (min(r(h), tau) - min(r(h*), tau)) / tau`` per user, ``r`` the user's mistakes
above the user's own best rule, and ``Pr[output h] <= f**n`` with ``f >= E exp(-theta' X)`` for any ``0 < theta' <=
theta``, so ``n >= ln(|H|/beta) / -ln f``.

**Assumption of both certificates**: all users draw ``records_per_user`` records from one law, each label is wrong with
probability at most ``noise < 1/2`` at every x, independently given x, and ``noise`` is declared.  (If the noise also
differs between users while the x law is shared, call with ``alpha * (1 - 2 noise)`` for ``alpha``.)  The clip ``tau``
must be the one in use for that many records.

Notation of the code: ``q = noise / (1 - noise)``, ``t = theta' / tau``; for a rule with excess error in ``[a1, a2]``
the difference of mistakes to the best rule is bounded by a walk ``W`` with up-probability ``p+ = a1 + p-`` and
down-probability ``p- = min(noise a2 / (1 - 2 noise), (1 - a1) / 2)``; ``E(u) = E exp(-t min(W, u))`` and ``D = min(1,
a2 / (1 - 2 noise))``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.bisection import least
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.parameters import MAX_EPSILON
from privpac.sample_size import SLACK, Certificate, log_size_of, open_unit, positive, users_for
from privpac.special import betainc, binom

__all__ = [
    "MAX_RECORDS",
    "Walks",
    "certify_regret_bounded_noise",
    "certify_regret_regular",
    "read_clip",
    "read_records",
    "read_theta",
    "regret_factors",
    "walks",
]


# Public numbers that several certificates of clipped votes read: the rate, the records they compute for, the clip.


def read_theta(value: Any) -> float:
    """The rate at which votes are weighed."""
    rate = positive(value, "theta")
    if rate > MAX_EPSILON:
        raise ParameterError(f"theta must be at most {MAX_EPSILON}, got {value}; beyond that nothing is protected")
    return rate


def read_records(value: Any, most: int) -> int:
    """Records per user, as many as the certificate is computed for."""
    m = positive_int(value, "records_per_user")
    if m > most:
        raise TooLargeError(
            f"this certificate is computed for at most {most} records per user, got {m}; declare max_records"
        )
    return m


def read_clip(value: Any, records: int) -> int:
    """A clip that is no larger than what a user holds."""
    clip = positive_int(value, "tau")
    if clip > records:
        raise ParameterError(
            f"tau must be at most records_per_user = {records}, got {clip}; larger clips cut nothing off"
        )
    return clip


# The law of a walk with steps +1, 0, -1, accurate in both tails.
#
# A user's mistakes of a rule, less those of the best rule, are such a walk.  Its law is the coefficient sequence of
# ``(p- + p0 x + p+ x**2)**m``.  The ratios ``r`` of neighbouring coefficients obey
#
#     (k+1) p- r[k+1] = (m-k) p0 + (2m-k+1) p+ / r[k]
#
# with only positive terms up to ``k = m``, so each ratio is right to a few units in the last place; the other half is
# the same sequence read from the other end.  Logarithms are summed outward from the middle, so that nothing underflows.


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


MAX_RECORDS = 4096
"""Records per user up to which the first certificate is computed; the second one stops at a quarter of that."""

NOISE_TOP, ALPHA_BOTTOM = "0.4999999", "1e-9"
"""Closer to a coin, or finer, nothing useful is certified."""

TILTS = 64
"""``theta'`` runs over this many equal steps up to ``theta``, then closer to the best of them."""


def best_tilt(rates: Callable[[Array], Array], theta: float, enough: float = math.inf) -> tuple[float, float]:
    """The largest rate over ``0 < theta' <= theta`` and where it is; every ``theta'`` proves its rate, so this is a
    matter of search.

    Halves of ``theta``, until one has the rate ``enough``; then equal steps, and ever finer ones around the best.
    Equal steps alone move with ``theta`` and would certify more users for a larger budget.
    """
    halves = theta * 2.0 ** -np.arange(12.0)
    for tilt in halves[:3] if enough < math.inf else ():
        rate = float(rates(np.array([tilt]))[0])
        if rate >= enough:
            return rate, float(tilt)
    grid = np.unique(np.concatenate([theta * np.arange(1, TILTS + 1) / TILTS, halves]))
    found, place = 0.0, theta
    for _ in range(4):
        tried = rates(grid)
        best = int(np.argmax(tried))
        if tried[best] > found:
            found, place = float(tried[best]), float(grid[best])
        if not found:
            break
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
        grid = np.linspace(low if best else low / 2, high, 17)
    return found, place


def needed(log_ratio: float, users: int | None) -> float:
    """The rate at which so many users are certified."""
    return math.inf if users is None else log_ratio * (1 + 2 * SLACK) / max(1, users)


# Cells of excess error


def cells(alpha: float, noise: float) -> tuple[Array, Array]:
    """``[alpha 2**(k/8), alpha 2**((k+1)/8)]`` up to ``1 - 2 noise``, the largest excess under noise everywhere.

    A larger excess (less noise than declared) has a walk that dominates the last cell's.  If ``alpha`` is beyond the
    top, one cell.
    """
    top = 1 - 2 * noise
    if alpha >= top:
        return np.array([alpha]), np.array([alpha])
    count = max(1, math.ceil(8 * math.log2(top / alpha) - 1e-9))
    edges = alpha * 2 ** (np.arange(count + 1) / 8)
    edges[-1] = top
    return edges[:-1], edges[1:]


def _steps(a1: Array, a2: Array, noise: float) -> tuple[Array, Array]:
    minus = np.minimum(noise * a2 / (1 - 2 * noise), (1 - a1) / 2)
    return a1 + minus, minus


# The factor f


def _unclipped(records: int, plus: Array, minus: Array, tilt: Array) -> Array:
    """``E exp(-t W)``, rows by tilts: nothing is cut off when ``tau`` is the number of records."""
    step = plus[:, None] * np.expm1(-tilt) + minus[:, None] * np.expm1(np.minimum(tilt, 700.0))
    return np.asarray(np.exp(np.minimum(records * np.log1p(step), 700.0)))


def _back(law: Walks, tilt: Array) -> Array:
    """``E[exp(-t W); W < 0]``, rows by tilts, in logarithms: the weight grows as fast as the probability falls."""
    depth = np.arange(1, law.down.shape[1] + 1)
    deepest = law.down + tilt[-1] * depth
    kept = int(np.max(np.flatnonzero((deepest > -60).any(axis=0)), initial=0)) + 1
    down, depth = law.down[:, :kept], depth[:kept]
    return np.stack([np.exp(np.minimum(down + t * depth, 600.0)).sum(axis=1) for t in tilt], axis=1)


def _factor(
    law: Walks, back: Array, records: int, tau: int, reach: int, spread: Array, q: float, theta: Array
) -> Array:
    """``f``, rows by tilts, for ``reach = tau`` (or ``tau`` less the records between best rule and comparison rule).

    f = (1-q) sum_{0<=j<reach} q**j E(reach-j) + q**reach E(0)
        + exp(-theta') sum_{1<=j<=tau} (e**(t j) - e**(t (j-1))) q**j Pr[Bin(records, spread) > tau + j] + q**(tau+1)
          (E(0) - exp(-theta'))
    """
    tilt = theta / tau
    mass = np.exp(law.up)
    at_zero = mass.sum(axis=1)[:, None] + back
    if reach <= 0:
        first = at_zero
    else:
        # The first line is E exp(-t min(W, U)) with Pr[U = reach - j] = (1-q) q**j, Pr[U = 0] = q**reach: one weight
        # per W >= 0.
        u = np.arange(reach + 1)
        falling = np.exp(-np.outer(u, tilt))
        survival = np.concatenate([[1.0], 1 - q ** (reach - u[1:] + 1.0)])[:, None]
        law_u = np.concatenate([[q**reach], (1 - q) * q ** (reach - u[1:].astype(float))])[:, None]
        weight = survival * falling + np.concatenate(
            [np.zeros((1, len(tilt))), np.cumsum(law_u * falling, axis=0)[:-1]]
        )
        width = min(reach, mass.shape[1] - 1)
        first = mass[:, :width] @ weight[:width] + mass[:, width:].sum(axis=1)[:, None] * weight[width] + back
    if q == 0:
        return np.asarray(first)
    j = np.arange(1, min(tau, records - tau - 1) + 1)
    beyond = (
        betainc(tau + j + 1.0, (records - tau - j).astype(float), spread[:, None])
        if len(j)
        else np.zeros((len(spread), 0))
    )
    inner = q ** j[:, None] * np.exp(np.outer(j, tilt) - theta) * -np.expm1(-tilt)
    return np.asarray(first + beyond @ inner + q ** (tau + 1) * (at_zero - np.exp(-theta)))


@lru_cache(maxsize=32)
def _cell_steps(noise: float, alpha: float) -> tuple[Array, Array]:
    a1, a2 = cells(alpha, noise)
    return _steps(a1, a2, noise)


@lru_cache(maxsize=32)
def _cell_walks(records: int, noise: float, alpha: float) -> Walks:
    return walks(records, *_cell_steps(noise, alpha))


def regret_factors(m: int, tau: int, noise: float, alpha: float, grid: Array) -> Array:
    """``f`` for every ``theta'`` of the grid: the largest over the cells of excess error from ``alpha`` on."""
    if tau >= m:
        return np.asarray(_unclipped(m, *_cell_steps(noise, alpha), grid / tau).max(axis=0))
    _, a2 = cells(alpha, noise)
    law = _cell_walks(m, noise, alpha)
    return np.asarray(
        _factor(
            law, _back(law, grid / tau), m, tau, tau, np.minimum(1, a2 / (1 - 2 * noise)), noise / (1 - noise), grid
        ).max(axis=0)
    )


# Certificate S1


def certify_regret_bounded_noise(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    log_size: Rational,
    noise: Rational,
    levels: int,
    enough: int | None = None,
) -> Certificate:
    """Users for excess error at most ``alpha`` with probability ``1 - beta``: thresholds, bounded label noise, any law
    of x.

    Moving away from the best cut, mistakes make a walk with up-steps more likely than down-steps; the user's own
    advantage is the best gain on the far side, inside, or beyond; ``exp(-t min(a, u))`` is convex and falling, so full
    noise everywhere is the worst case.  ``f`` is the largest over cells of excess error, minimised over ``theta'``.
    When ``tau`` does not divide ``levels``, rounding costs at most ``1/levels`` per user: ``f exp(theta'/levels)``.

    ``theta`` is the privacy of the selection per user, ``lambda * levels`` (``regret_split``).  ``noise = 0`` is the
    realizable case; ``tau = records_per_user`` is the per-user mean and always certifies.  ``n_users`` is ``None`` when
    ``f >= 1``.  ``enough``: the search for ``theta'`` ends once so many users are certified.
    """
    m, t, noise_, alpha_, beta_, theta_, levels_ = _read(records_per_user, tau, noise, alpha, beta, theta, levels)
    log_ratio = log_size_of(log_size) - math.log(beta_)

    def rates(grid: Array) -> Array:
        return np.asarray(
            -np.log(regret_factors(m, t, noise_, alpha_, grid) * (1 + SLACK)) - (grid / levels_ if levels_ % t else 0.0)
        )

    rate, tilt = best_tilt(rates, theta_, needed(log_ratio, enough))
    return Certificate.upper(
        users_for(log_ratio, rate),
        "regret selection, bounded noise",
        _ASSUMES.format(noise=noise),
        tau=t,
        records_per_user=m,
        tilt=tilt,
    )


# Certificate S3


def certify_regret_regular(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    size: int,
    noise: Rational,
    kappa: Rational = 1,
    levels: int,
) -> Certificate:
    """As :func:`certify_regret_bounded_noise`, without ``ln |H|``, when cuts and x-mass are spread alike; exponential
    law only.

    **Further assumption**: for any two cuts, the share of cuts between them and the x-mass between them differ by at
    most the declared factor ``kappa``.  A bad cut is compared with the average of the ``|V|`` cuts within mass ``rho``
    of the best one on its side (Jensen), so only the number of cuts *at each distance* counts: ``n`` is the least with
    ``sum_k cuts_k f_k**n <= beta |V|``, the best of ``rho = alpha/2, ..., alpha/32``.  ``n_users`` is ``None`` when
    some ``f_k >= 1`` for each ``rho``.
    """
    m, t, noise_, alpha_, beta_, theta_, levels_ = _read(records_per_user, tau, noise, alpha, beta, theta, levels)
    read_records(m, MAX_RECORDS // 4)
    spread, rules = (
        float(rational(kappa, "kappa", minimum=1, maximum=10**9)),
        positive_int(size, "size", maximum=1 << 1000),
    )
    a1, a2 = cells(alpha_, noise_)
    log_cuts = _log_cuts(a1, a2, rules, spread, noise_)
    rounding = theta_ / levels_ if levels_ % t else 0.0

    def users(rho: float, factors: Array) -> int | None:
        near = max(1, math.floor(rational(rho) * rules / rational(kappa) * (1 - rational(SLACK))))
        return _users_for_sum(log_cuts, np.log(factors * (1 + SLACK)) + rounding, math.log(beta_) + math.log(near))

    # With no record between the two cuts the factor is a lower bound of f_k, hence its n of the final n: most promising
    # rho first.
    shares = [alpha_ / share for share in (2, 4, 8, 16, 32)]
    promise = {rho: users(rho, _regular_factor(m, 0, t, noise_, alpha_, theta_, rho)) for rho in shares}
    found: tuple[int, float] | None = None
    for at_least, rho in sorted((n, rho) for rho, n in promise.items() if n is not None):
        n = (
            users(rho, _regular_factors(m, t, noise_, alpha_, theta_, rho))
            if found is None or at_least < found[0]
            else None
        )
        if n is not None and (found is None or n < found[0]):
            found = n, rho
    return Certificate.upper(
        found and found[0],
        "regret selection, regular x",
        _ASSUMES.format(noise=noise) + f", cuts and x-mass spread alike up to a factor {kappa}",
        tau=t,
        records_per_user=m,
        rho=found and found[1],
    )


def _log_cuts(a1: Array, a2: Array, size: int, kappa: float, noise: float) -> Array:
    """Cuts per cell, nearest first, ``size`` in all; those beyond the last cell (less noise than declared) count with
    the last."""
    scale = float(size) if size < 1 << 1000 else math.inf
    share = np.minimum(1.0, 2 * (kappa * (a2 - a1) / (1 - 2 * noise) + 1 / scale)) * (1 + SLACK)
    filled = np.minimum(1.0, np.cumsum(share))
    filled[-1] = 1.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.diff(filled, prepend=0.0)) + math.log(size))


def _users_for_sum(log_cuts: Array, log_f: Array, log_target: float) -> int | None:
    """The least ``n`` with ``sum cuts f**n <= target``."""
    if (log_f[np.isfinite(log_cuts)] >= 0).any():
        return None
    # Scaled so that nothing overflows: each term is at most 1 once the condition holds.
    level = log_cuts - log_target + SLACK
    return least(lambda n: float(np.exp(np.minimum(level + n * log_f, 1.0)).sum()) <= 1)


@lru_cache(maxsize=256)
def _regular_factors(m: int, tau: int, noise: float, alpha: float, theta: float, rho: float) -> Array:
    """``f_k`` for every cell: average over the number ``i`` of own records between best and comparison cut of the worst
    factor so far."""
    cap = math.exp(theta)
    tails = binom.sf(np.arange(m + 1), m, rho)
    last = int(np.argmax(tails < 1e-12))
    shares = binom.pmf(np.arange(last + 1), m, rho)
    total: Array = np.zeros(len(cells(alpha, noise)[0]))
    worst = total
    for i in range(last + 1):
        worst = np.maximum(worst, np.minimum(_regular_factor(m, i, tau, noise, alpha, theta, rho), cap))
        total = total + shares[i] * worst
    return np.asarray(total + tails[last] * cap)


def _regular_factor(m: int, i: int, tau: int, noise: float, alpha: float, theta: float, rho: float) -> Array:
    """``f`` for ``m - i`` records, with ``tau - i`` for ``tau`` in its first line; 1 when no record is left."""
    low, high = _regular_cells(alpha, noise, rho)
    if i == m:
        return np.ones(len(low))
    grid = np.array([theta])
    if tau >= m:
        return _unclipped(m - i, *_steps(low, high, noise), grid / tau)[:, 0]
    law = _regular_walks(m - i, noise, alpha, rho)
    spread = np.minimum(1.0, high / (1 - 2 * noise))
    return _factor(law, _back(law, grid / tau), m - i, tau, tau - i, spread, noise / (1 - noise), grid)[:, 0]


def _regular_cells(alpha: float, noise: float, rho: float) -> tuple[Array, Array]:
    """Excess over a comparison cut within mass ``rho`` of the best one, given that the record is not between the
    two."""
    a1, a2 = cells(alpha, noise)
    return np.maximum(0.0, a1 - rho), np.minimum(a2 / (1 - rho), 1 - 2 * noise)


@lru_cache(maxsize=128)
def _regular_walks(records: int, noise: float, alpha: float, rho: float) -> Walks:
    low, high = _regular_cells(alpha, noise, rho)
    return walks(records, *_steps(low, high, noise))


# Parameters

_ASSUMES = (
    "thresholds, users with the same law and equally many records, each label wrong with probability at most {noise} "
    "at every x"
)


def _read(
    m: Any, tau: Any, noise: Any, alpha: Any, beta: Any, theta: Any, levels: Any
) -> tuple[int, int, float, float, float, float, int]:
    records = read_records(m, MAX_RECORDS)
    clip, rate = read_clip(tau, records), read_theta(theta)
    wrong = float(rational(noise, "noise", minimum=0, maximum=NOISE_TOP))
    excess = open_unit(rational(alpha, "alpha", minimum=ALPHA_BOTTOM), "alpha")
    return records, clip, wrong, excess, open_unit(beta, "beta"), rate, positive_int(levels, "levels")
