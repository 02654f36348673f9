"""What the coarse-to-fine mean certifies, from public numbers only.

Users with ``m`` records from ``N(mu, s**2)`` in every column.  In units of ``s/(64 sqrt m)`` a user's mean is ``N(mu',
64**2)``, rounded to an integer ``y``; ``j*`` is the cell of ``mu'``, ``Q`` the normal upper tail, ``z`` the distance
from ``mu'`` to the upper end of its cell in units of 64, ``0 <= z <= 2``.

*Cell.* A cell two or more above ``j*`` counts only users above cell ``j*``.  Let ``X`` be 1 for a user in the window of
``j*`` and not above its cell, -1 for one above that window, else 0.  Then ``Pr[X = -1] <= Q(2 + z) <= Q(2)`` and ``Pr[X
<= 0] <= Q(z) + Q(4 - z) <= Q(0)
+ Q(4)`` (the derivative ``-phi(z) + phi(4 - z)`` is negative up to ``z = 2``), and likewise below.  With ``K`` cells
  and rate ``lam`` a
cell further than 1 from ``j*`` is chosen with probability at most ``E min(1, K e**(-lam sum X)) <= K**s (E e**(-s lam
X))**n`` for every ``0 < s <= 1``; above and below together with ``2**(1-s) K**s`` in front, as they share the cells.
Values beyond the ends count for the end cells, which can only raise ``X``.

*Place.* The center of a cell within 1 of ``j*`` is within 192.5 of ``mu'``.  Cutting off at ``TAU`` moves a user's mean
by at most ``64 L(w)``, ``L(w) = phi(w) - w Q(w)``, ``w = (TAU - 193)/64``; rounding by at most ``Q(w)`` (without the
cut-off its mean is 0 up to ``e**-80000``).  A clipped normal is sub-Gaussian with parameter 64 (a 1-Lipschitz function
of it), a rounding with 1/2, so their sum with 64.5; three centers, two sides.  Then come the noise of the sum and,
under add-remove, of the number of users:

    error <= bias + t + (|Z2| + (193 + bias + t) |Z3|)/(n - |Z3|).

*No cell to find.* On an idle axis the middle is within half the range and 1 of ``mu'``: one center, its own clip, no
failure of the cell.

*More records.* A user with more than ``m`` of them scatters less, and every bound above grows with the scatter.

*Total variation* of two normal laws of one variance is ``2 Phi(distance/(2 s)) - 1``; for ``d`` columns each may err by
``1/sqrt d`` of it.  All terms fall with ``n``; the least ``n`` is found by bisection for a few splits of ``beta``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from privpac.bounds.certificate import SLACK, Certificate, open_unit
from privpac.distributions.coarse import CELL, STEPS, TAU
from privpac.distributions.means import CoarseToFineMean
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.least import least
from privpac.special import erfinv, ndtr, ndtri

__all__ = ["certify_mean"]

_FAR = 1.5 * CELL + 1
"""From the center of a neighbouring cell to ``mu'``, both roundings included."""

_SPREAD = STEPS + 0.5
_TILTS = np.linspace(1 / 64, 1, 64)


@dataclass(frozen=True)
class _Split:
    """What may fail: the cell, the luck of the sum, its noise (each in every column), and the noisy number of users."""

    cell: float
    luck: float
    noise: float
    count: float


def certify_mean(learner: CoarseToFineMean, *, alpha: Rational, beta: Rational, dimension: int = 1) -> Certificate:
    """Users for total variation ``alpha`` between the learned normal law and the true one, except with probability
    ``beta``.

    >>> certify_mean(CoarseToFineMean(1, radius=10, records_per_user=16), alpha="0.1", beta="0.05").n_users
    243
    """
    d, failure = (
        positive_int(dimension, "dimension", maximum=1 << 16),
        float(rational(beta, "beta", minimum="1e-9", below=1)),
    )
    if learner.cap is not None and learner.cap < learner.records_per_user:
        # The axis would be finer than the users' luck.
        raise ParameterError(
            f"records_per_user must be at most {learner.cap}, got {learner.records_per_user}: more are never read"
        )
    allowed = 2 * _deviations(alpha) * STEPS * math.sqrt(learner.records_per_user / d) * (1 - 1e-9)
    found = [
        least(partial(_holds, learner, d, allowed, split), limit=1 << 50) for split in _splits(learner, d, failure)
    ]
    known = [n for n in found if n is not None]
    return Certificate.upper(
        min(known) if known else None,
        "coarse-to-fine mean",
        "users with so many records or more, normal with this variance, unrounded, the mean within the radius",
        records_per_user=learner.records_per_user,
        dimension=d,
    )


def _deviations(alpha: Rational) -> float:
    """``Phi^-1((1 + alpha)/2)``, without cancellation at either end."""
    target = open_unit(alpha, "alpha")
    return math.sqrt(2) * float(erfinv(target)) if target < 0.5 else -float(ndtri(float((1 - rational(alpha)) / 2)))


def _splits(learner: CoarseToFineMean, d: int, failure: float) -> Iterator[_Split]:
    private = bool(learner.shares[2])
    cell = 0 if learner.idle else 1
    for luck in (1, 2, 4):
        for count in (1, 2) if private else (0,):
            noise = 8 - cell - luck - count
            yield _Split(
                failure * cell / (8 * d), failure * luck / (8 * d), failure * noise / (8 * d), failure * count / 8
            )


def _holds(learner: CoarseToFineMean, d: int, allowed: float, split: _Split, n: int) -> bool:
    add_remove = learner.neighbours is Neighbours.ADD_REMOVE
    epsilon = float(rational(learner.epsilon))
    axis, (coarse, fine) = learner.axis, (epsilon * float(part) / d for part in learner.shares[:2])
    first, last = axis.limits
    if not (axis.idle or _cell_found(n, last - first, coarse if add_remove else coarse / 2, split.cell)):
        return False
    # The center, how far it may be from mu' (both roundings included), and how many centers there are.
    tau, far, centers, rate = TAU, _FAR, 3, fine
    if axis.idle:
        tau, far, centers, rate = axis.window[1], (axis.hi - axis.lo) / (2 * axis.unit) + 1, 1, coarse + fine
    w = (tau - far) / STEPS
    bias = STEPS * (math.exp(-w * w / 2) / math.sqrt(2 * math.pi) - w * float(ndtr(-w))) + float(ndtr(-w)) + 1e-9
    luck = bias + _SPREAD * math.sqrt(2 * math.log(2 * centers / split.luck) / n)
    noise = _laplace(rate / (tau * (1 if add_remove else 2)), split.noise)
    count = _laplace(epsilon * float(learner.shares[2]), split.count) if learner.shares[2] else 0
    return n > count and luck + (noise + (far + luck) * count) / (n - count) <= allowed * (1 - SLACK)


def _cell_found(n: int, others: int, rate: float, failure: float) -> bool:
    if others < 2:
        return True
    far, none = float(ndtr(-2)), float(ndtr(0) + ndtr(-4) - ndtr(-2))
    # s = share; tilts beyond 2 only lose (the best one for many users is ln(Pr[X = 1]/Pr[X = -1])/2 = 1.55).
    share = _TILTS * min(1.0, 2 / rate)
    tilt = rate * share
    moment = np.log((1 - far - none) * np.exp(-tilt) + none + far * np.exp(tilt))
    return float((share * math.log(others) + (1 - share) * math.log(2) + n * moment).min()) + SLACK * n <= math.log(
        failure
    )


def _laplace(rate: float, failure: float) -> int:
    """The least ``x`` with ``Pr[|Z| > x] = 2 r**(x+1)/(1 + r) <= failure``, ``r = e**-rate``."""
    return max(0, math.ceil((math.log(2 / failure) - math.log1p(math.exp(-rate))) / rate * (1 + SLACK)) - 1)
