"""Lower bounds whose size is that of a whole family: ``k d`` numbers of a product, ``d**2/4`` of a covariance.

Tasks are laws along a binary code, further than ``2 alpha`` apart so that no answer is right for two of them; the
packing and Fano bounds of :mod:`privpac.bounds.lower.general` do the rest.

**Products.**  ``d`` columns of ``2 N`` values, in each ``N`` pairs with masses ``(1 +- a)/(2 N)``, signs from a code
of length ``N d``.  Two words that differ in ``h_j`` pairs of column ``j``, ``h >= dmin`` in all, give laws with
divergence ``(h/N) a ln((1+a)/(1-a)) <= d a ln((1+a)/(1-a))``.  *Their distance.*  A record tells the two apart only
by its columns in a pair where they differ (each such column with probability ``h_j/N``, independently), and each of
these ``M`` columns shows the side that its law favours with probability ``p = (1+a)/2``.  The likelihood ratio is a
power of ``(1+a)/(1-a)`` whose exponent is the lead of one side, so the distance is ``E t(M)`` with ``t(M) = Pr[Bin(M,
p) > M/2] - Pr[Bin(M, p) < M/2]``: exactly.  ``t(2j) = t(2j-1)`` and ``t(2j+1) - t(2j-1) = 2 (2p-1) C(2j-1, j)
(p(1-p))**j``, which falls with ``j`` (the ratio of two of them is ``p (1-p) (4j+2)/(j+1) < 1``).  So ``c``, equal to
``t`` at even numbers and linear between them, is concave, rising, and at most ``t`` (up to two columns ``t`` is
concave itself).  Among all sums of ``d`` independent 0/1 numbers with a given mean the binomial gives a concave
function its least mean (Hoeffding 1956), and it grows with the mean ``sum h_j/N >= dmin/N``: the distance is at least
``E c(Bin(d, dmin/(N d)))``.

**Covariances.**  ``x`` standard normal in ``p`` columns, ``y = A x + w``, ``w`` standard normal in ``r = d - p``
columns, the ``p r`` entries of ``A`` being ``+-a`` along a code.  Both laws have the same ``x``, so the divergence is
``E |(A-B) x|**2/2 = F**2/2`` with ``F`` the Frobenius norm of ``A - B``, and the distance ``E[2 Phi(|(A-B) x|/2) -
1]``. With ``s_i`` the singular values that is the mean of a concave function of ``sum s_i**2 x_i**2``, hence a
symmetric concave function of the squares ``s_i**2``, which sum to ``F**2``: least where only one of them is not
0.  There it is ``Pr[|z| < F |x|/2]``, a quotient of normal numbers: **the distance is at least (2/pi)
arctan(F/2)**.  Words at distance ``h`` have ``F = 2 a sqrt(h)``, so ``a = tan(pi alpha)/sqrt(dmin)`` does, with
divergence at most ``2 a**2 p r``.  The covariance is ``L L'`` with ``L = [[I, 0], [A, I]]``, whose singular values
lie between ``1/q`` and ``q = (s + sqrt(s**2 + 4))/2``, ``s <= a sqrt(p r)`` the largest one of ``A``: scaled by
``q**2`` all its eigenvalues are between the least variance and ``q**4`` times that, and the family must reach so far.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.certificate import Certificate, open_unit
from privpac.bounds.laws import binom
from privpac.bounds.lower.general import STRICT, code_bound, codes, read_private, tilted
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.least import half_way, narrow

__all__ = ["column_distance", "larger", "lower_covariance", "lower_product"]

_MAX_CODE = 1 << 10
"""Longer codes only repeat the bound of this many numbers, which holds as well."""
_TRIED = 48


def lower_product(
    sizes: Sequence[int],
    *,
    alpha: Rational,
    epsilon: Rational,
    records_per_user: int,
    success: Rational = "2/3",
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Certificate:
    """Learning independent columns of so many values each in total variation: what all columns together need.

    Columns are cut to equally many pairs of values, for every such number; the largest bound counts.  0 where codes say
    nothing.

    >>> lower_product([2] * 64, alpha="0.1", epsilon=1, records_per_user=1, success="0.95").n_users
    48
    """
    if not sizes:
        raise ParameterError("sizes needs at least one column")
    pairs = sorted(positive_int(size, "sizes") // 2 for size in sizes)
    target = open_unit(alpha, "alpha")
    m, s, eps = read_private(records_per_user, success, epsilon, neighbours)
    found = 0
    for place, n in enumerate(pairs):
        if n and (place == 0 or pairs[place - 1] != n):
            # The laws that use n pairs of each of these columns, and of the others one value, are products as well.
            d = min(len(pairs) - place, _MAX_CODE)
            found = code_bound(_product_tasks(min(n, _MAX_CODE // d), d, target, m), eps, s, found)
    what = f"all products of {len(sizes)} column{'s' if len(sizes) > 1 else ''}"
    return Certificate.lower(found, "product law", what, records_per_user=m)


def lower_covariance(
    dimension: int,
    *,
    alpha: Rational,
    epsilon: Rational,
    records_per_user: int,
    ratio: Rational,
    success: Rational = "2/3",
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Certificate:
    """Learning a normal law of ``d`` columns with unknown covariance to total variation ``alpha < 1/2``, its largest
    variance up to ``ratio`` times the least.

    0 for one column, and where ``ratio`` is too small for the covariances of the argument.

    >>> lower_covariance(12, alpha="0.05", epsilon=1, records_per_user=1, ratio=10, success="0.95").n_users
    46
    """
    d = positive_int(dimension, "dimension")
    target = float(rational(alpha, "alpha", minimum="1e-9", maximum="0.499999"))
    spread = float(rational(ratio, "ratio", minimum=1))
    m, s, eps = read_private(records_per_user, success, epsilon, neighbours)
    entries = min((d // 2) * (d - d // 2), _MAX_CODE)
    found = code_bound(_covariance_tasks(entries, target, spread, m), eps, s, 0) if entries else 0
    what = f"all covariances in {d} dimensions whose eigenvalues differ by at most {spread:.6g} times"
    return Certificate.lower(found, "Gaussian covariance", what, records_per_user=m)


def larger(a: Certificate, b: Certificate) -> Certificate:
    """The stronger of two lower bounds."""
    return b if (b.n_users or 0) > (a.n_users or 0) else a


# Tasks: (how many, distance for one user, divergence for one user)


def _product_tasks(pairs: int, columns: int, target: float, m: int) -> Iterator[tuple[int, float, float]]:
    for distance, words in _some_codes(pairs * columns):
        bias = _least_bias(columns, distance / pairs, 2 * target)
        if bias < 1:
            yield words, *tilted(bias, m * columns)


def _covariance_tasks(entries: int, target: float, ratio: float, m: int) -> Iterator[tuple[int, float, float]]:
    for distance, words in _some_codes(entries):
        a = math.tan(math.pi * target) / math.sqrt(distance) * STRICT
        largest = a * math.sqrt(entries)
        if ((largest + math.hypot(largest, 2)) / 2) ** 4 * STRICT <= ratio:
            kl = 2 * a * a * entries * m
            yield words, min(1.0, math.sqrt(kl / 2), math.sqrt(-math.expm1(-kl))), kl


def _some_codes(length: int) -> list[tuple[int, int]]:
    """Distances up to half the length, all of a short code and some of a long one, the same for every target."""
    listed = [(distance, words) for distance, words in codes(length) if 2 * distance <= length + 1]
    step = max(1, len(listed) // _TRIED)
    return listed[step - 1 :: step]


# The distance of two products


def _leads(bias: float, most: int) -> NDArray[np.float64]:
    """``t(0), ..., t(most)``."""
    j = np.arange(1, most // 2 + 1, dtype=float)
    # 2 (2p - 1) C(2j-1, j) (p (1-p))**j = (2p - 1) C(2j, j) (p (1-p))**j, and p (1-p) = (1 - a**2)/4.
    steps = bias * np.cumprod((2 * j - 1) / (2 * j) * (1 - bias**2))
    odd = bias + np.concatenate(([0.0], np.cumsum(steps)))
    found = np.zeros(most + 1)
    found[1::2] = odd[: len(found[1::2])]
    found[2::2] = odd[: len(found[2::2])]
    return found


def column_distance(columns: int, mean: float, bias: float) -> float:
    """At most the distance of two products in which columns show a difference ``mean`` times on average.

    >>> column_distance(1, 0.5, 0.2)
    0.1
    """
    lead = _leads(bias, columns + 1)
    if columns > 2:
        odd = np.arange(1, columns + 1, 2)
        lead[odd] = (lead[odd - 1] + lead[odd + 1]) / 2
    return float(_shown(columns, mean) @ lead[: columns + 1])


@lru_cache(maxsize=64)
def _shown(columns: int, mean: float) -> NDArray[np.float64]:
    """The law of the number of columns that show a difference."""
    return np.asarray(binom.pmf(np.arange(columns + 1), columns, min(1.0, mean / columns)))


@lru_cache(maxsize=1 << 14)
def _least_bias(columns: int, mean: float, distance: float) -> float:
    """A bias at which the distance is surely larger than this; 1 if there is none."""
    wanted = distance * STRICT
    if column_distance(columns, mean, 1.0) <= wanted:
        return 1.0

    def beyond(bias: float) -> bool:
        return column_distance(columns, mean, bias) > wanted

    return narrow(beyond, 0.0, 1.0, middle=half_way, wide=lambda low, high: high - low > 1e-6 * high)[1]
