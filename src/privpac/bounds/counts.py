"""Users that noisy counts need: the certificates of histograms, by counting records or by averaging people.

``n`` users with ``m`` records each from one law, ``d`` columns; each column's counts ``C`` (they sum to ``N = n m``)
get discrete Laplace noise ``Z`` of rate ``eta = epsilon/(d f m)``, are cut off at 0 and normalised; ``f = 1`` under
add-remove, 2 under replace.

*Noise.* Cutting off at 0 moves no count away from ``C >= 0``, and for non-negative vectors ``x``, ``y`` the normalised
ones are within ``|x - y|_1/|y|_1`` in total variation (``|x/|x| - y/|y||_1 <= (|x - y|_1 + ||x| - |y||)/|y|``).  So
noise costs at most ``S/N``, with ``S`` the sum of ``|Z|`` over all cells of all columns, whose law is known: ``|Z|`` is
0 with probability ``(1 - r)/(1 + r)``, ``r = e**-eta``, else one more than a geometric number, so ``S = J + NB(J, 1 -
r)`` with ``J`` binomial.

*Luck.* The distance of ``C/N`` from the truth exceeds ``t`` with probability at most ``(2**k - 2) e**(-2 N t**2)`` (a
union over sets), and also has mean at most ``sqrt((k - 1)/N)/2`` and moves by at most ``1/N`` with one record
(McDiarmid).  The better of the two is used.

Total variation adds up over independent columns.  With ``beta`` split between luck and noise the error is ``a/sqrt(n) +
b/n``: the least ``n`` is a formula, and the best of 15 splits is taken.

*Averages.*  Every person adds the vector of their own shares, in steps of ``1/L``.  Persons are independent, each with
a distribution of their own, of which their records are drawn; the mean of these is wanted.  The vectors are independent
with that mean, in the simplex: both bounds on luck hold with ``N = n``, for any numbers of records (a set's share of
one person is between 0 and 1, the variance of a share at most ``p (1 - p)``, one person moves the distance by at most
``1/n``).  Rounding moves each share of a person by less than ``1/L``, so the mean by less than ``k/(2 L)`` in total
variation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from privpac.bounds.certificate import LIMIT, SLACK, Certificate, open_unit, positive, relation
from privpac.bounds.laws import binom
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.least import least_between
from privpac.parameters import COUNT_LEVELS
from privpac.special import betaincc

__all__ = ["certify_averages", "certify_counts", "noise_quantile"]


MAX_CELLS = 1 << 17
_SPLITS = 16


def certify_counts(
    cells: int | Sequence[int],
    *,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    records_per_user: int,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """Users for total variation ``alpha`` with probability ``1 - beta``; ``cells`` of the column, or of each column.

    >>> certify_counts(4, epsilon=1, alpha="0.1", beta="0.05", records_per_user=1).n_users
    459
    >>> certify_counts([4, 4], epsilon=1, alpha="0.1", beta="0.05", records_per_user=16).n_users
    492
    """
    counts = _read_cells(cells)
    m, d = positive_int(records_per_user, "records_per_user", maximum=1 << 40), len(counts)
    target, failure = open_unit(alpha, "alpha"), float(rational(beta, "beta", minimum="1e-9", below=1))
    eta = positive(epsilon, "epsilon") / (d * m * (1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2))
    n = _users(counts, eta, m, m, target, failure)
    assumption = "users with equally many records from one law" + (", its columns independent" if d > 1 else "")
    return Certificate.upper(n, "noisy counts", assumption, records_per_user=m).run_with(max_records=m, stages=1)


def certify_averages(
    cells: int | Sequence[int],
    *,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    levels: int = COUNT_LEVELS,
) -> Certificate:
    """The same where every person counts alike, for people who may differ and hold any numbers of records.

    >>> certify_averages(4, epsilon=1, alpha="0.1", beta="0.05").n_users
    471
    """
    counts, steps = _read_cells(cells), positive_int(levels, "levels", maximum=1 << 30)
    d, target, failure = len(counts), open_unit(alpha, "alpha"), float(rational(beta, "beta", minimum="1e-9", below=1))
    eta = positive(epsilon, "epsilon") / (d * steps * (1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2))
    left = target - sum(k for k in counts if k > 1) / (2 * steps)
    n = _users(counts, eta, steps, 1, left, failure) if left > 0 else None
    assumption = (
        "people drawn independently, alike or not, each with at least one record; the mean of their own distributions "
        "is learned"
    )
    assumption += ", column by column" if d > 1 else ""
    return Certificate.upper(n, "noisy averages", assumption, levels=steps).run_with(levels=steps)


def _read_cells(cells: int | Sequence[int]) -> list[int]:
    sizes = list(cells) if isinstance(cells, Sequence) else [cells]
    if not sizes:
        raise ParameterError("cells needs the number of cells of at least one column")
    counts = [positive_int(size, "cells") for size in sizes]
    if sum(counts) > MAX_CELLS:
        raise TooLargeError(f"{sum(counts)} cells are more than {MAX_CELLS}; use fewer, wider bins")
    return counts


def _users(counts: Sequence[int], eta: float, weight: int, records: int, target: float, failure: float) -> int | None:
    """The least ``n``: everybody adds ``weight`` in all, and ``records`` independent ones to the luck."""
    # A column of one cell is right whatever the noise; it takes its share of the budget all the same.
    noisy, best = sum(k for k in counts if k > 1), math.inf
    for part in range(1, _SPLITS):
        luck = _luck(counts, failure * part / _SPLITS) / math.sqrt(records)
        noise = noise_quantile(noisy, eta, failure * (1 - part / _SPLITS)) / weight if noisy else 0.0
        root = (luck + math.sqrt(luck * luck + 4 * target * noise)) / (2 * target)
        best = min(best, root * root * (1 + SLACK))
    return max(1, math.ceil(best)) if best < LIMIT else None


def _luck(counts: Sequence[int], failure: float) -> float:
    """``sqrt(N)`` times what the sum over columns of the empirical distances exceeds with probability at most
    ``failure``."""
    several = [k for k in counts if k > 1]
    if not several:
        return 0.0
    d = len(several)
    # ln(2**k - 2), for any k.
    unions = sum(
        math.sqrt((k * math.log(2) + math.log1p(-(2.0 ** (1 - k))) + math.log(d / failure)) / 2) for k in several
    )
    return min(unions, sum(math.sqrt(k - 1) / 2 for k in several) + d * math.sqrt(math.log(1 / failure) / 2))


_TAIL_SLACK = 1e-10


@lru_cache(maxsize=1024)
def noise_quantile(cells: int, eta: float, failure: float) -> int:
    """The least ``x`` with ``Pr[S > x] <= failure``, ``S`` the sum of ``cells`` absolute values of discrete Laplace
    noise of rate ``eta``.

    Doubtful cases are rounded up.

    >>> noise_quantile(1, 1.0, 0.05)
    3
    """
    r = math.exp(-eta)
    likely = 2 * r / (1 + r)
    low, high = (int(quantile(1e-16, cells, likely)) for quantile in (binom.ppf, binom.isf))
    j = np.arange(max(low - 1, 0), min(cells, high + 1) + 1)
    weights, rest = binom.pmf(j, cells, likely), 0.0 if len(j) > cells else 1e-15  # what is left out counts as failure

    def beyond(x: int) -> float:
        # j values of at least 1: their excess over 1, a negative binomial, must pass x - j.  -expm1(-eta) is 1 - r
        # without cancellation; scipy's own tail of that law is off by up to 5e-8 of itself for tiny eta, this by 2e-11.
        tails = betaincc(np.maximum(j, 1), np.maximum(x - j, 0) + 1, -math.expm1(-eta))
        return float(weights @ np.where(j > 0, np.where(j > x, 1.0, tails), 0.0)) + rest

    limit = failure * (1 - _TAIL_SLACK)
    # Where a normal law of this mean and variance would be; from there in doubling steps.
    spread = math.sqrt(cells * 2 * r) / -math.expm1(-eta)
    guess = cells * likely / -math.expm1(-eta) + math.sqrt(-math.log(failure)) * spread
    last, step = int(min(guess, LIMIT)), int(min(spread / 8, LIMIT)) + 1
    if beyond(last) <= limit:
        first = last - step
        while first >= 0 and beyond(first) <= limit:
            first, last, step = first - 2 * step, first, 2 * step
        return least_between(lambda x: beyond(x) <= limit, max(first, -1), last)
    while True:
        first, last, step = last, last + step, 2 * step
        if last > LIMIT:
            raise TooLargeError("the noise is larger than any number of users; raise epsilon")
        if beyond(last) <= limit:
            return least_between(lambda x: beyond(x) <= limit, first, last)
