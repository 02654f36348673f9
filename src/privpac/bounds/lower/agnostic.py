"""Lower bounds for pure private learners from representations, private testing and plain statistics.

``Rep(al, b) = ln 2 ((1 - H2((1-b) al + b/2)) LDim - 1)`` bounds from below the log size of every ``(al, b)``
representation of a class of Littlestone dimension LDim, for ``al < 1/2``: the index of the best rule (or its
complement) answers one-way augmented index along a mistake tree (Fano).  A pure learner *is* a representation: ``K =
ceil(e**(epsilon n) ln(1/b) / success)`` of its outputs on one fixed data set contain an accurate rule for each concept,
except with probability ``b``.  So ``K >= e**Rep``, that is

    e**(epsilon n) ln(1/b) / success > ceil(e**Rep) - 1.

The number of outputs is a whole number: where ``Rep <= 0`` nothing follows, however close ``b`` is to 1.

:func:`lower_testing` and :func:`lower_statistics` need a point that the class can label both ways; strictly they hold
for every accuracy above ``alpha``.
"""

from __future__ import annotations

import math

import numpy as np

from privpac.bounds.binomial import gap
from privpac.bounds.certificate import SLACK, Certificate, open_unit, positive, relation
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.least import least
from privpac.special import betainc, betaincc, entr

__all__ = ["lower_representation", "lower_sparse", "lower_statistics", "lower_testing"]

_LIMIT = 1 << 50


def lower_representation(
    *, ldim: int, alpha: Rational, beta: Rational, epsilon: Rational, grid: int = 1000
) -> Certificate:
    """Any number of records per user, both relations: the fixed data set is ``n`` users away from any other.

    The best ``b`` on a grid of step ``1/grid``.  0 when the class is too small for the argument (or ``alpha >= 1/2``).
    """
    tree, target, b = positive_int(ldim, "ldim", minimum=0), open_unit(alpha, "alpha"), open_unit(beta, "beta")
    need = _outputs_needed(tree, target, 1 - b, positive_int(grid, "grid", minimum=2, maximum=10**6))
    n = _whole(need / _epsilon(epsilon))
    return Certificate.lower(n, "representation", f"a class of Littlestone dimension {tree}, pure privacy")


def lower_sparse(
    *,
    ldim: int,
    alpha: Rational,
    beta: Rational,
    epsilon: Rational,
    records_per_user: int,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    grid: int = 200,
) -> Certificate:
    """Few informative users: mass ``1 - v`` sits on a point where all concepts agree.

    ``K ~ Bin(n, 1 - (1-v)**m)`` users hold anything else; with probability 3/4 no more than the 3/4-quantile of ``K``,
    so the learner still succeeds with probability ``3/4 - beta`` there, and that quantile must reach the bound for
    ``Rep(alpha/v, b)``.  ``v`` runs over 3, 4, 8 times ``alpha`` (smaller factors leave ``alpha/v >= 1/2``, for which
    two rules represent every class).  ``beta < 3/4``; ``ldim`` is that of the concepts that agree on the heavy point.
    """
    tree, target = positive_int(ldim, "ldim", minimum=0), open_unit(alpha, "alpha")
    success = 0.75 - float(rational(beta, "beta", above=0, below="3/4"))
    if success < 1e-9:
        raise ParameterError(f"beta must be below 3/4 by more than 1e-9, got {beta}")
    m, eps = _records(records_per_user), _epsilon(epsilon) * _doubled(neighbours)
    resolution = positive_int(grid, "grid", minimum=2, maximum=10**6)
    found, share = 0, 1.0
    for factor in (3, 4, 8):
        v = factor * target
        if v > 1:
            continue
        needed = _whole(_outputs_needed(tree, 1 / factor, success, resolution) / eps)
        touched = -math.expm1(m * math.log1p(-v)) if v < 1 else 1.0
        n = _quantile_reaches(needed, touched)
        if n > found:
            found, share = n, v
    return Certificate.lower(
        found, "few informative users", f"a class of Littlestone dimension {tree}, pure privacy", share=share
    )


def lower_testing(
    *,
    alpha: Rational,
    beta: Rational,
    epsilon: Rational,
    records_per_user: int,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    delta: Rational = 0,
) -> Certificate:
    """Telling two labels of one point apart: ``e**(-epsilon k) (1 - beta - Pr[Bin(n, TV) > k]) <= beta + delta (1 -
    e**(-epsilon k))/(e**epsilon - 1)`` for every ``k``.

    ``TV`` is the distance for one user between label bias ``alpha`` one way and the other; couple the two data sets
    user by user, of whom ``k`` or fewer differ: group privacy.
    """
    target, b = rational(alpha, "alpha", above=0, below=1), open_unit(beta, "beta")
    m, eps = _records(records_per_user, 1 << 20), _epsilon(epsilon) * _doubled(neighbours)
    distance = min(1.0, gap(m, (1 - target) / 2, (1 + target) / 2) * (1 + SLACK))
    # Beyond this k the left side is below beta whatever n is.
    top = math.ceil(max(0.0, math.log((1 - b) / b)) / eps)
    if top > 1 << 20:
        raise ParameterError(
            f"epsilon = {epsilon} is too small for this bound; use at least {math.log(1 / b) / (1 << 20):.2g}"
        )
    k = np.arange(top + 1, dtype=float)
    discount = np.exp(-eps * k)
    leak = float(rational(delta, "delta", minimum=0, below=1))
    if relation(neighbours) is Neighbours.ADD_REMOVE:
        leak *= 1 + math.exp(_epsilon(epsilon))  # of two steps, as its epsilon
    lost = leak * (1 - discount) / math.expm1(eps) if leak else np.zeros_like(discount)

    def possible(n: int) -> bool:
        beyond = np.where(k < n, betainc(k + 1, np.maximum(n - k, 1.0), distance), 0.0)
        return bool((discount * (1 - b - beyond) <= (b + lost) * (1 + SLACK) + SLACK * discount).all())

    return Certificate.lower(
        least(possible, start=0, limit=_LIMIT),
        "private testing",
        "a point that the class can label both ways",
        records_per_user=m,
    )


def lower_statistics(*, alpha: Rational, beta: Rational, records_per_user: int, dimension: int = 1) -> Certificate:
    """Without privacy: ``n m`` records are at least the smallest odd ``N`` whose majority at bias ``alpha/2`` errs with
    probability <= ``beta``.

    For VC dimension ``d`` also ``n m >= d/(320 alpha**2)`` when ``alpha, beta < 1/64`` (Anthony and Bartlett, Theorem
    5.2; quoted).
    """
    target, b, m = (
        float(rational(alpha, "alpha", minimum="1e-9", below=1)),
        open_unit(beta, "beta"),
        _records(records_per_user),
    )
    d = positive_int(dimension, "dimension")

    def sure(half: int) -> bool:
        # 2 half + 1 records; the majority errs when at most ``half`` of them show the likelier label.
        return bool(betaincc(half + 1.0, half + 1.0, (1 + target) / 2) <= b * (1 + SLACK))

    half = least(sure, start=0, limit=_LIMIT)
    records = 0 if half is None or b >= 0.5 else 2 * half + 1
    if target < 1 / 64 and b < 1 / 64:
        records = max(records, math.ceil(d / (320 * target**2) * (1 - SLACK)))
    return Certificate.lower(
        -(-records // m), "statistics", "a point that the class can label both ways", records_per_user=m
    )


def _outputs_needed(ldim: int, alpha: float, success: float, grid: int) -> float:
    """The largest ``ln(ceil(e**Rep) - 1) - ln(ln(1/b)/success)`` over the grid of ``b``; minus infinity when ``Rep`` is
    never positive."""
    if alpha >= 0.5 or ldim == 0:
        return -math.inf
    b = np.arange(1, grid) / grid
    error = (1 - b) * alpha + b / 2
    bits = (1 - (entr(error) + entr(1 - error)) / math.log(2)) * float(min(ldim, 10**15)) * (1 - SLACK) - 1
    rep = math.log(2) * bits
    # Above e**30 the ceiling is left out: ln(e**r - 1).
    with np.errstate(divide="ignore", invalid="ignore"):
        small = np.log(np.ceil(np.exp(np.clip(rep, 0.0, 30.0)) - SLACK) - 1)
        large = rep + np.log1p(-np.exp(-np.maximum(rep, 1.0)))
    whole = np.where(rep > 30, large, np.where(rep > 0, small, -np.inf))
    return float(np.max(whole - np.log(-np.log(b) / success)))


def _whole(users: float) -> int:
    """Rounded up to a whole number of users, after a step to the safe side."""
    return math.ceil(users * (1 - SLACK)) if users > 0 else 0


def _quantile_reaches(needed: int, touched: float) -> int:
    """The least ``n`` whose 3/4-quantile of ``Bin(n, touched)`` is at least ``needed``."""
    if needed <= 0:
        return 0
    below = float(needed)
    n = least(lambda n: float(betaincc(below, n - below + 1, touched)) < 0.75 + SLACK, start=needed, limit=_LIMIT)
    return n or 0


def _records(m: int, maximum: int = 1 << 40) -> int:
    return positive_int(m, "records_per_user", maximum=maximum)


def _epsilon(epsilon: Rational) -> float:
    return positive(epsilon, "epsilon")


def _doubled(neighbours: Neighbours | str) -> int:
    """An add-remove algorithm is a replace algorithm with twice the epsilon."""
    return 1 if relation(neighbours) is Neighbours.REPLACE else 2
