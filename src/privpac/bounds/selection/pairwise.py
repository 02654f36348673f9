"""Users that clipped pairwise selection needs: every pair of rules is compared, each user moves a comparison by at most
``tau``.

**Certificate C2.**  One record's comparison lies in a sub-interval of [-1, 1] of width ``width`` containing 0 (2 for
agnostic learning, 1 for Scheffé comparisons of distributions), every user has ``m`` records, some candidate has score
at most ``a0`` and the output shall have score below ``a1``; ``gam = a1 - a0``, ``sig = width sqrt(m) / 2``, ``Q`` the
normal upper tail.  Clipping costs at most ``B+ = sig sqrt(2 pi) Q((tau - a1 m)/sig)`` (``a1 m - tau + sig sqrt(pi/2)``
for clips below the mean ``a1 m``) and ``B- = sig sqrt(2 pi) Q((tau + a0 m)/sig)`` per user, so the margin is ``Gam =
gam m - B+ - B-`` (``B = 0`` when ``tau >= m``: nothing is cut off).  With ``lam = epsilon / rho``, failure is at most
``beta`` if ``Gam > 0`` and

* *split*: ``n Gam >= b sqrt n + c``, ``b = 2 width sqrt(m ln(4|H|/beta)/2)``, ``c = ln(2|H|/beta)/lam``; or
* *chernoff*: ``n >= ln(|H|**2/beta) / (th Gam - th**2 m width**2 / 2)``, ``th = min(lam, Gam/(m width**2))``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.certificate import LIMIT, SLACK, Certificate, log_size_of, open_unit, positive, relation, users_for
from privpac.errors import InfeasibleError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.special import ndtr

__all__ = ["certify_pairwise", "pairwise_closed_form", "plan_pairwise"]

Array = NDArray[np.float64]
_MAX_CLIPS = 1 << 20
_ASSUMES = "users with equally many records from one law, and a candidate of score at most {alpha0}"


def plan_pairwise(
    *,
    log_size: Rational,
    epsilon: Rational,
    alpha1: Rational,
    beta: Rational,
    records_per_user: int,
    alpha0: Rational = 0,
    width: Rational = 2,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    clip_step: Rational = 1,
) -> Certificate:
    """The clip and the bound (*split* before *chernoff*) that certify the fewest users; the first minimum wins.

    Clips are the multiples of ``clip_step`` up to ``records_per_user``: 1 for agnostic learning, 1/4 for Scheffé
    comparisons.  Agnostic use: ``alpha0 = 0`` and ``alpha1`` = the target excess, less the accuracy of a representation
    if one is used.  ``n_users`` is ``None`` when clipping eats the margin at every clip, which for ``tau = m`` never
    happens.
    """
    m = positive_int(records_per_user, "records_per_user")
    step = rational(clip_step, "clip_step", above=0, maximum=m)
    if m / step > _MAX_CLIPS:
        raise TooLargeError(
            f"the plan scans at most {_MAX_CLIPS} clips, got {math.floor(m / step)}; use a larger clip_step"
        )
    wanted = read_target(log_size, epsilon, alpha0, alpha1, width, beta)
    return _best(_Multiples(step, math.floor(m / step)), wanted, m, neighbours)


def certify_pairwise(
    *,
    log_size: Rational,
    epsilon: Rational,
    alpha1: Rational,
    beta: Rational,
    records_per_user: int,
    tau: Rational,
    alpha0: Rational = 0,
    width: Rational = 2,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """The certificate for one clip ``tau`` (in records)."""
    m = positive_int(records_per_user, "records_per_user", maximum=1 << 50)
    clip = rational(tau, "tau", above=0)
    return _best([clip], read_target(log_size, epsilon, alpha0, alpha1, width, beta), m, neighbours)


def pairwise_closed_form(
    *,
    log_size: Rational,
    epsilon: Rational,
    alpha1: Rational,
    beta: Rational,
    records_per_user: int,
    alpha0: Rational = 0,
    width: Rational = 2,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """``tau = ceil(a1 m + (width sqrt m / 2) sqrt(2 max(0, ln(2.51 width/(gam sqrt m)))))`` leaves half of the margin;
    then

    ``n >= max{16 tau ln(2|H|/beta)/(epsilon gam m), 32 width**2 ln(4|H|/beta)/(gam**2 m)}`` under replace, 8 instead of
    16 under add-remove.
    """
    m = positive_int(records_per_user, "records_per_user", maximum=1 << 50)
    log_h, eps, a0, a1, w, b, assumption = read_target(log_size, epsilon, alpha0, alpha1, width, beta)
    margin, root = a1 - a0, math.sqrt(m)
    tau = math.ceil(a1 * m + w * root / 2 * math.sqrt(2 * max(0.0, math.log(2.51 * w / (margin * root)))))
    factor = 8 if relation(neighbours) is Neighbours.ADD_REMOVE else 16
    needed = max(
        factor * tau * (math.log(2 / b) + log_h) / (eps * margin * m),
        32 * w * w * (math.log(4 / b) + log_h) / (margin**2 * m),
    )
    return Certificate.upper(
        users_for(needed, 1.0),
        "pairwise selection, closed form",
        assumption,
        tau=tau,
        records_per_user=m,
    )


@dataclass(frozen=True)
class _Multiples(Sequence[Fraction]):
    """``step, 2 step, ...``, made one by one when looked at."""

    step: Fraction
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: Any) -> Any:
        return self.step * (i + 1)


def _floats(clips: Sequence[Fraction]) -> Array:
    """Exactly rounded; multiples of a dyadic step of at most 2**20 terms are exact in doubles anyway."""
    if isinstance(clips, _Multiples) and clips.step.denominator in (1, 2, 4) and clips.step.numerator == 1:
        return np.arange(1, len(clips) + 1, dtype=np.float64) * np.float64(clips.step)
    return np.array([float(clip) for clip in clips])


class ScoreTarget(NamedTuple):
    """What a selection shall achieve, read."""

    log_h: float
    epsilon: float
    a0: float
    a1: float
    width: float
    beta: float
    assumption: str


def _best(clips: Sequence[Fraction], wanted: ScoreTarget, m: int, neighbours: Neighbours | str) -> Certificate:
    tau = _floats(clips)
    margin = (wanted.a1 - wanted.a0) * m - np.where(tau < m, _cut_off(tau, m, wanted), 0.0) - SLACK * m
    # The pairwise score of one rule moves by the whole interval [-tau, tau] of one user, twice that under replace.
    rate = wanted.epsilon / (tau * (2 if relation(neighbours) is Neighbours.ADD_REMOVE else 4))
    return least_users(clips, margin, rate, m, wanted, "pairwise selection")


def least_users(
    clips: Sequence[Fraction], margin: Array, rate: Array, m: int, wanted: ScoreTarget, method: str
) -> Certificate:
    """The clip and the bound with the fewest users, given the margin and the rate ``epsilon / rho`` of every clip."""
    users = np.stack([_split(margin, rate, m, wanted), _chernoff(margin, rate, m, wanted)], axis=1)
    row, column = np.unravel_index(int(np.argmin(users)), users.shape)
    found = float(users[row, column])
    chosen = clips[int(row)]
    tau = chosen.numerator if chosen.denominator == 1 else chosen
    bound = ("split", "chernoff")[int(column)]
    # The clip follows the records per user and not n; both conditions stay true for more users.
    return Certificate.upper(
        int(found) if found < LIMIT else None, method, wanted.assumption, tau=tau, bound=bound, records_per_user=m
    ).run_with(tau=tau, records_per_user=m)


def _cut_off(tau: Array, m: int, wanted: ScoreTarget) -> Array:
    """``B+ + B-``: sub-Gaussian bounds on what clipping takes from the mean of one user's sum.

    ``B+`` is the integral of ``Pr[S > s]`` beyond ``tau``; below the mean ``a1 m`` the tail bound says nothing, so 1 is
    integrated there.
    """
    low, high, sigma = wanted.a0 * m, wanted.a1 * m, wanted.width * math.sqrt(m) / 2
    short = np.maximum(0.0, high - tau)
    return np.asarray(
        short + sigma * math.sqrt(2 * math.pi) * (ndtr((high - tau - short) / sigma) + ndtr(-(tau + low) / sigma))
    )


def _split(margin: Array, lam: Array, m: int, wanted: ScoreTarget) -> Array:
    b = 2 * wanted.width * math.sqrt(m * (math.log(4 / wanted.beta) + wanted.log_h) / 2)
    c = (math.log(2 / wanted.beta) + wanted.log_h) / lam
    safe = np.where(margin > 0, margin, 1.0)
    return _users(((b + np.sqrt(b * b + 4 * safe * c)) / (2 * safe)) ** 2, margin)


def _chernoff(margin: Array, lam: Array, m: int, wanted: ScoreTarget) -> Array:
    safe, w = np.where(margin > 0, margin, 1.0), wanted.width
    tilt = np.minimum(lam, safe / (m * w * w))
    return _users((2 * wanted.log_h - math.log(wanted.beta)) / (tilt * safe - tilt**2 * m * w * w / 2), margin)


def _users(n: Array, margin: Array) -> Array:
    return np.where(margin > 0, np.maximum(1.0, np.ceil(n * (1 + SLACK))), np.inf)


def read_target(
    log_size: Rational, epsilon: Rational, alpha0: Rational, alpha1: Rational, width: Rational, beta: Rational
) -> ScoreTarget:
    w = float(rational(width, "width", above=0, maximum=2))
    a0, a1 = float(rational(alpha0, "alpha0", minimum=0)), float(rational(alpha1, "alpha1", above=0, maximum=1))
    if a1 - a0 < 1e-9:
        raise InfeasibleError(
            f"alpha1 must exceed alpha0 = {alpha0}, got {alpha1}; ask for less accuracy or use a finer cover"
        )
    log_h, eps, b = log_size_of(log_size), positive(epsilon, "epsilon"), open_unit(beta, "beta")
    return ScoreTarget(log_h, eps, a0, a1, w, b, _ASSUMES.format(alpha0=alpha0))
