"""Users that clipped-regret selection needs, whatever the labels do; the split of its budget; its bias; its planner.

The learner (the default one) scores a rule by ``floor(levels * min(r, tau) / tau)`` per user, ``r`` the user's mistakes
above the user's own best rule, and selects with per-user privacy ``theta`` (``lambda * levels``): ``epsilon`` under
add-remove, ``epsilon / 2`` under replace, after the share of a noisy count where one is taken (:func:`regret_split`).
Certificates take the clip ``tau`` in use as an integer.  With bounded label noise see
:mod:`privpac.bounds.selection.regret_noise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.certificate import SLACK, Certificate, best, log_size_of, open_unit, users_for
from privpac.bounds.selection.reading import read_clip, read_theta
from privpac.bounds.selection.regret_noise import ALPHA_BOTTOM, best_tilt, needed
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import Rational, rational, root_up
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.special import log_ndtr, ndtr

__all__ = [
    "RegretSplit",
    "amplification",
    "certify_regret_agnostic",
    "clip_candidates",
    "plan_clip",
    "regret_agnostic_corollary",
    "regret_bias_bound",
    "regret_split",
]

Array = NDArray[np.float64]
_ROOT_TWO_PI = math.sqrt(2 * math.pi)
_COUNT_SHARE = Fraction(1, 16)


# Budget


@dataclass(frozen=True)
class RegretSplit:
    """``count_epsilon`` for a noisy number of users, ``selection_epsilon`` for the rule, and ``theta = lambda *
    levels``."""

    count_epsilon: Fraction
    selection_epsilon: Fraction
    theta: Fraction


def regret_split(epsilon: Rational, neighbours: Neighbours | str, public_n_users: int | None = None) -> RegretSplit:
    """How the budget is divided: 1/16 buys a count under add-remove when no number of users is declared, and nothing
    otherwise.

    Under replace the number of users is public.  A declared 0 is a declaration (the clip then ignores the number of
    users).

    >>> regret_split(1, "add-remove").theta, regret_split(1, "add-remove", 500).theta, regret_split(1, "replace").theta
    (Fraction(15, 16), Fraction(1, 1), Fraction(1, 2))
    """
    total, relation = rational(epsilon, "epsilon", above=0), one_of(Neighbours, neighbours, "neighbours")
    if public_n_users is not None:
        positive_int(public_n_users, "public_n_users", minimum=0)
    counted = relation is Neighbours.ADD_REMOVE and public_n_users is None
    count = total * _COUNT_SHARE if counted else Fraction(0)
    selection = total - count
    # One user moves every score within 0..levels; a replacement is two such moves.
    return RegretSplit(count, selection, selection if relation is Neighbours.ADD_REMOVE else selection / 2)


# Bias


def amplification(records_per_user: int, tau: int) -> Fraction:
    """``m / tau``, at least 1: how much louder a user speaks than under the per-user mean."""
    return max(Fraction(1), Fraction(positive_int(records_per_user, "records_per_user"), positive_int(tau, "tau")))


def regret_bias_bound(*, records_per_user: int, tau: int, best_error: Rational, own_error: Rational = 0) -> Fraction:
    """Excess error of the rule that the clipped score prefers with infinitely many users, for users of any kind.

    With ``o = own_error`` the mean over users of their own least error rate and ``A`` the amplification (for unequal
    users: the largest one), ``r/m <= min(r, tau)/tau <= A r/m`` gives ``err - o <= A (best_error - o)``, that is an
    excess of at most ``(A - 1)(best_error - o)``; 0 for the mean.

    >>> regret_bias_bound(records_per_user=16, tau=4, best_error="1/10", own_error="1/20")
    Fraction(3, 20)
    """
    loudness = amplification(records_per_user, tau)
    least_error = rational(best_error, "best_error", minimum=0, maximum=1)
    own = rational(own_error, "own_error", minimum=0, maximum=1)
    if own > least_error:
        raise ParameterError(
            f"own_error = {own} exceeds best_error = {least_error}; nobody's own best rule is worse than a shared one"
        )
    return min((loudness - 1) * (least_error - own), 1 - least_error)


# Certificate S2


def certify_regret_agnostic(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    log_size: Rational,
    levels: int,
    log_class_size: Rational | None = None,
    enough: int | None = None,
) -> Certificate:
    """Users for excess error at most ``alpha`` with probability ``1 - beta``, with no assumption on the labels.

    **Assumption**: all users have ``records_per_user`` records from one law.  ``log_class_size=None`` means thresholds
    (own luck by the Dvoretzky-Kiefer-Wolfowitz inequality, K = 4); a number means any finite class of that log size for
    the own minimum (union bound).

    With ``c = tau/sqrt m`` and ``s = excess * sqrt m``, the mean of a user's vote is at least ``gamma(s)``, its second
    moment at most ``v`` and its negative part at most ``u``, hence ``E exp(-theta' X) <= 1 - w`` with ``w = min_s
    max{theta' gamma - (e**theta' - 1 - theta') v, (1 - e**-theta') gamma - (e**theta' + e**-theta' - 2) u}``. The
    minimum runs over cells of ratio 1.01 in ``s`` (each quantity at its worse end), ``theta'`` up to ``theta``;
    rounding to ``levels`` steps costs ``exp(theta'/levels)`` when ``tau`` does not divide them.  ``n_users`` is
    ``None`` when ``w <= 0``, as for ``tau = ceil(sqrt m)``, whose coin bias is real.  ``enough``: the search for
    ``theta'`` ends once so many users are certified.
    """
    m = positive_int(records_per_user, "records_per_user", maximum=1 << 50)
    clip = read_clip(tau, m)
    rate, excess, steps = (
        read_theta(theta),
        open_unit(rational(alpha, "alpha", minimum=ALPHA_BOTTOM), "alpha"),
        positive_int(levels, "levels"),
    )
    log_ratio = log_size_of(log_size) - math.log(open_unit(beta, "beta"))
    log_k = math.log(4) if log_class_size is None else log_size_of(log_class_size, "log_class_size")
    luck = 2 * math.sqrt(2 / math.pi) if log_class_size is None else math.sqrt(2 * log_k)
    gamma, v, u = _moments(m, clip, excess, log_k, luck)

    def speeds(tilts: Array) -> Array:
        t = tilts[:, None]
        w = (
            np.maximum(t * gamma - (np.expm1(t) - t) * v, -np.expm1(-t) * gamma - (2 * np.cosh(t) - 2) * u).min(axis=1)
            - SLACK
        )
        usable = (w > 0) & (w < 1)
        return np.where(usable, -np.log1p(-np.where(usable, w, 0.0)) - (tilts / steps if steps % clip else 0.0), 0.0)

    found, tilt = best_tilt(speeds, rate, needed(log_ratio, enough))
    who = "thresholds" if log_class_size is None else "a finite class"
    return Certificate.upper(
        users_for(log_ratio, found),
        "regret selection, any labels",
        f"{who}, users with the same law and equally many records",
        tau=clip,
        records_per_user=m,
        tilt=tilt,
    )


@lru_cache(maxsize=256)
def _moments(m: int, tau: int, alpha: float, log_k: float, luck: float) -> tuple[Array, Array, Array]:
    """``gamma``, ``v``, ``u`` on cells of ratio 1.01 from ``alpha sqrt m`` to ``sqrt m``, each at the end that makes
    the bound larger."""
    root = math.sqrt(m)
    c, start = tau / root, alpha * root
    count = max(1, math.ceil(math.log(root / start) / math.log(1.01)))
    edges: Array = start * 1.01 ** np.arange(count + 1, dtype=np.float64)
    edges[-1] = root
    low, high = edges[:-1], edges[1:]
    if tau >= m:
        gamma = low / c
    else:
        rising = np.maximum(low - _overshoot(c - high, log_k), low - _ROOT_TWO_PI * ndtr(low - c) - luck)
        full = np.maximum(c - _overshoot(np.zeros(1), log_k), c - _ROOT_TWO_PI * ndtr(c - low) - luck)
        gamma = np.where(low < c, rising, full) / c
    return gamma, np.minimum(1.0, (1 + high**2) / c**2), _ROOT_TWO_PI * ndtr(-low) / c


def _overshoot(y: Array, log_k: float) -> Array:
    """``J(y)``, the integral over ``[y, inf)`` of ``min(1, K exp(-k**2 / 2))``."""
    knee = math.sqrt(2 * log_k)
    return np.asarray(np.maximum(knee - y, 0.0) + _ROOT_TWO_PI * np.exp(log_k + log_ndtr(-np.maximum(y, knee))))


def regret_agnostic_corollary(
    *, records_per_user: int, theta: Rational, alpha: Rational, beta: Rational, log_size: Rational
) -> Certificate:
    """Thresholds, any labels, in closed form: ``n >= ln(|H|/beta) max{8.9/(theta alpha sqrt m), 3.6 + 3.6/(alpha**2
    m)}``.

    For ``tau = ceil(4 sqrt m) <= m``, ``theta <= 1`` and ``.004 <= alpha sqrt m <= 1``; outside, ``InfeasibleError``.
    Never below :func:`certify_regret_agnostic` at the same clip, and it needs no scan.
    """
    m, rate, excess = (
        positive_int(records_per_user, "records_per_user", maximum=1 << 50),
        read_theta(theta),
        open_unit(alpha, "alpha"),
    )
    log_ratio = log_size_of(log_size) - math.log(open_unit(beta, "beta"))
    tau, scale = root_up(16 * m), excess * math.sqrt(m)
    if tau > m or rate > 1 or not 0.004 <= scale <= 1:
        raise InfeasibleError(
            f"the closed form holds for ceil(4 sqrt m) <= m, theta <= 1 and .004 <= alpha sqrt m <= 1; here m = {m}, "
            f"theta = {theta}, "
            f"alpha sqrt m = {scale:.4g}; use certify_regret_agnostic"
        )
    n = users_for(log_ratio * max(8.9 / (rate * scale), 3.6 + 3.6 / scale**2), 1.0)
    return Certificate.upper(
        n,
        "regret selection, any labels, closed form",
        "thresholds, users with the same law and equally many records",
        tau=tau,
        records_per_user=m,
    )


# Planning: which clip; for the learner's own clip see :mod:`privpac.bounds.selection.own_clip`


def clip_candidates(records_per_user: int) -> tuple[int, ...]:
    """Clips worth trying: powers of two, ``ceil(c sqrt m)`` for c in {1/2, 1, 3/2, 2, 5/2, 3, 7/2, 4, 6}, and ``m``
    (the mean)."""
    m = positive_int(records_per_user, "records_per_user")
    roots = {max(1, math.isqrt(max(0, c * c * m - 1) // 4) + 1) for c in (1, 2, 3, 4, 5, 6, 7, 8, 12)}
    return tuple(sorted(k for k in {1 << e for e in range(m.bit_length())} | roots | {m} if k <= m))


def plan_clip(
    records_per_user: int, certify: Callable[[int, int], Certificate], *, truncate: bool = True
) -> Certificate:
    """The clip, and the public truncation ``m' <= m``, that certify the fewest users.

    ``certify(records, tau)`` is one of the certificates with everything else fixed.  With ``truncate`` the powers of
    two below ``m`` are tried for ``m'`` as well, each with the clips ``sqrt m'``, ``2 sqrt m'`` and ``m'``: reading
    fewer records than a user holds is private and sometimes certifies more.
    """
    m = positive_int(records_per_user, "records_per_user")
    tried = [certify(m, tau) for tau in clip_candidates(m)]
    for size in (1 << e for e in reversed(range((m - 1).bit_length()))) if truncate else ():
        tried += [certify(size, tau) for tau in sorted({root_up(size), min(size, root_up(4 * size)), size})]
    return best(tried)
