"""Uniform deviation bounds with explicit constants, shared by the agnostic certificates.

``lnPi(d, N) = ln sum_{i<=d} C(N, i)`` is Sauer's bound on the number of labellings of ``N`` points by a class of VC
dimension ``d``.
"""

from __future__ import annotations

import math

import numpy as np

from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.special import logsumexp

__all__ = ["agnostic_radius", "log_growth", "relative_deviation"]


def log_growth(dimension: int, points: int) -> float:
    """``ln sum_{i <= d} C(N, i)``; ``N ln 2`` when ``N <= d``.

    >>> round(log_growth(1, 99), 12) == round(math.log(100), 12)
    True
    """
    d, n = positive_int(dimension, "dimension", minimum=0, maximum=1 << 20), positive_int(points, "points", minimum=0)
    if n <= d:
        return n * math.log(2)
    if d == 1:
        return math.log(1 + n)
    i = np.arange(1, d + 1, dtype=float)
    return float(logsumexp(np.concatenate([[0.0], np.cumsum(np.log((float(n) - i + 1) / i))])))


def agnostic_radius(
    *, n_users: int, records_per_user: int, dimension: int, thresholds: int, failure: float, log_size: float | None
) -> float:
    """How far any user error of the class is from its mean, with probability ``1 - failure``.

    The smaller of ``sqrt(ln(2 tv |C|/b) / (2n))`` (finite class, Hoeffding) and ``sqrt(2 (ln(2 tv) + lnPi(d, n m))/n) +
    sqrt(ln(1/b)/(2n))`` (symmetrisation, Massart, McDiarmid); ``tv = thresholds`` is the number of thresholds among
    which one is chosen from the data (1 when it is fixed).
    """
    n, tv = n_users, thresholds
    growth = log_growth(dimension, n * records_per_user)
    radius = math.sqrt(2 * (math.log(2 * tv) + growth) / n) + math.sqrt(-math.log(failure) / (2 * n))
    if log_size is not None:
        radius = min(radius, math.sqrt((math.log(2 * tv / failure) + log_size) / (2 * n)))
    return radius


def relative_deviation(share: float, *, n_users: int, dimension: int, log_size: float, failure: float) -> float:
    """``omega(d)``: a set of empirical mass ``d`` has true mass at most ``d + xi**2/2 + xi sqrt(d + xi**2/4)``,
    uniformly.

    ``xi**2 = 4 (ln 4 + lnPi(d, 2n) + ln|H| + ln(1/b)) / n``, from ``Pr[exists: (P - P_n)/sqrt P > xi] <= 4 Pi(2n)
    exp(-xi**2 n/4)``.
    """
    if share < 0:
        raise ParameterError(f"share must be at least 0, got {share}")
    square = 4 * (math.log(4) + log_growth(dimension, 2 * n_users) + log_size - math.log(failure)) / n_users
    return share + square / 2 + math.sqrt(square) * math.sqrt(share + square / 4)
