"""Lower bounds: with fewer users, no private algorithm of any kind can be accurate.

Stated for *replace* neighbours; an add-remove algorithm with ``epsilon`` is a replace algorithm with ``2 epsilon``, and
that is what is used when ``neighbours="add-remove"``.  ``success`` is the probability of success demanded on every task
(default 2/3, ``1 - beta`` to compare with an upper bound).  Certified, and often far from tight.

``Lo(n, g) = min{E[a e**(-epsilon h)] : 0 <= a <= 1, E a = success}`` with ``h ~ Bin(n, g)``, reached by filling ``a``
from the largest ``h`` down.  It falls with ``n``; each bound is the least ``n`` at which the necessary condition holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privpac.bisection import half_way, least, least_between, narrow
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.sample_size import SLACK, Certificate, open_unit, positive, relation
from privpac.special import betainc, betaincc, binom, entr, gap, ndtr, ndtri

STRICT = 1 + 1e-9
"""Tasks need a bias strictly above the one that is just not learned."""

_MAX_CODE = 4096
_LIMIT = 1 << 50


# Building blocks


def lower_packing(
    tasks: int,
    gamma: Rational,
    *,
    epsilon: Rational,
    success: Rational = "2/3",
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Certificate:
    """``tasks`` laws with disjoint answers, any two at distance at most ``gamma`` for one user: ``s + (W - 1) Lo(n,
    gamma) <= 1``.

    Couple user by user: at most ``Bin(n, gamma)`` users differ, so each wrong answer keeps probability ``Lo``, and the
    answers are disjoint.  ``gamma = 1`` gives ``n >= ln((W-1) s/(1-s)) / epsilon``; fewer than two tasks, or ``gamma =
    0`` with two tasks told apart, decide nothing or everything (``n_users`` 0, or ``None``: impossible for any number
    of users).
    """
    count, g = positive_int(tasks, "tasks"), float(rational(gamma, "gamma", minimum=0, maximum=1))
    s = _success(success)
    n = _packing(_log_share(count, s), g, _epsilon(epsilon, neighbours), s)
    return Certificate.lower(
        n, "packing", f"{count} tasks with disjoint answers, one user tells two apart by at most {g:.6g}"
    )


def lower_fano(tasks: int, divergence: Rational, *, records_per_user: int, success: Rational = "2/3") -> Certificate:
    """Without privacy: ``n >= (s ln W - ln 2) / (m kl)`` for ``W`` tasks at pairwise divergence at most ``kl`` per
    record."""
    count, kl, m = positive_int(tasks, "tasks"), positive(divergence, "divergence"), _records(records_per_user)
    n = _fano(math.log(count), m * kl, _success(success))
    return Certificate.lower(n, "Fano", f"{count} tasks at divergence at most {kl:.6g} per record")


def lower_two_points(divergence: Rational, *, records_per_user: int, success: Rational = "2/3") -> Certificate:
    """Without privacy: ``n >= max(2 v**2, -ln(1 - v**2)) / (m kl)``, ``v = 2 s - 1``, for two tasks at divergence
    ``kl`` per record."""
    kl, m = positive(divergence, "divergence"), _records(records_per_user)
    return Certificate.lower(
        _two_points(m * kl, _success(success)), "two points", f"two tasks at divergence {kl:.6g} per record"
    )


def gilbert_varshamov(length: int, distance: int) -> int:
    """A binary code of this length and least distance has at least ``ceil(2**N / V(N, dmin - 1))`` words.

    >>> gilbert_varshamov(20, 6)
    49
    """
    n, d = positive_int(length, "length", maximum=_MAX_CODE), positive_int(distance, "distance")
    return -(-(1 << n) // _ball(n, d - 1))


# Learning problems


def lower_agnostic_vc(
    dimension: int,
    *,
    alpha: Rational,
    epsilon: Rational,
    records_per_user: int,
    success: Rational = "2/3",
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Certificate:
    """Agnostic learning, VC dimension ``d``: labels of ``d`` shattered points tilted by ``a > 2 alpha d / dmin`` along
    a code."""
    d, target = _code_length(dimension, "dimension"), open_unit(alpha, "alpha")
    m, s, eps = read_private(records_per_user, success, epsilon, neighbours)
    n = code_bound(_tilted_codes(d, target, m), eps, s, 0)
    return Certificate.lower(n, "agnostic learning, VC dimension", f"a class of VC dimension {d}", records_per_user=m)


def lower_discrete(
    categories: int,
    *,
    alpha: Rational,
    epsilon: Rational,
    records_per_user: int,
    success: Rational = "2/3",
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Certificate:
    """Learning a law on ``k`` categories in total variation: ``floor(k/2)`` pairs tilted along a code, or two laws at
    bias ``2 alpha``."""
    k, target = positive_int(categories, "categories", minimum=2, maximum=2 * _MAX_CODE), open_unit(alpha, "alpha")
    m, s, eps = read_private(records_per_user, success, epsilon, neighbours)
    bias = 2 * target * STRICT
    start = _two_points(tilted(bias, m)[1], s) if bias < 1 else 0
    n = code_bound(_tilted_codes(k // 2, target, m), eps, s, start)
    return Certificate.lower(n, "discrete law", f"all laws on {k} categories", records_per_user=m)


def lower_gauss_mean(
    dimension: int,
    *,
    alpha: Rational,
    epsilon: Rational,
    records_per_user: int,
    success: Rational = "2/3",
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Certificate:
    """Learning N(mu, I) in ``d`` dimensions to total variation ``alpha < 1/2``: means ``a u`` along a code, exact
    distance for one user."""
    d, target = (
        _code_length(dimension, "dimension"),
        float(rational(alpha, "alpha", minimum="1e-9", maximum="0.499999")),
    )
    m, s, eps = read_private(records_per_user, success, epsilon, neighbours)

    def families() -> Iterator[tuple[int, float, float]]:
        for distance, words in codes(d):
            a = float(ndtri(0.5 + target)) / math.sqrt(distance) * STRICT
            yield words, min(1.0, float(2 * ndtr(a * math.sqrt(m * d)) - 1) * STRICT), 2 * a * a * d * m

    n = code_bound(families(), eps, s, 0)
    return Certificate.lower(n, "Gaussian mean", f"all means in {d} dimensions, unit covariance", records_per_user=m)


def lower_littlestone(
    ldim: int,
    *,
    alpha: Rational,
    epsilon: Rational,
    records_per_user: int,
    success: Rational = "2/3",
    neighbours: Neighbours | str = Neighbours.REPLACE,
    masses: Iterable[Rational] | None = None,
) -> Certificate:
    """Realizable learning of a class of Littlestone dimension ``ldim``, proper or not: ``Lo(n, 1-(1-p)**m) <= V(d,
    floor(alpha d/p)) / 2**d``.

    Mass ``1 - p`` sits on the root of a mistake tree and ``p`` on the ``d = ldim - 1`` points of a path; a fixed rule
    is accurate for at most ``V(d, floor(alpha d/p))`` of the ``2**d`` paths, and all of them look like the data set on
    the root alone.  ``p = 1`` uses the whole tree (``d = ldim``, one user tells everything).  The largest bound over
    ``masses`` (default: 1 and ``alpha`` times 1.5, 2, 3, 4, 8, 16).
    """
    tree, target = positive_int(ldim, "ldim", minimum=0, maximum=_MAX_CODE), rational(alpha, "alpha", above=0, below=1)
    m, s, eps = read_private(records_per_user, success, epsilon, neighbours)
    given = (
        [Fraction(1), *(target * Fraction(c) for c in ("3/2", "2", "3", "4", "8", "16"))] if masses is None else masses
    )
    found, chosen = 0, Fraction(1)
    for p in (rational(value, "masses", above=0) for value in given):
        depth = tree if p == 1 else tree - 1
        if p > 1 or depth < 1:
            continue
        share = _ball(depth, math.floor(target * depth / p))
        log_share = math.log(share) - depth * math.log(2)
        g = 1.0 if p == 1 else -math.expm1(m * math.log1p(-float(p)))
        # Only a mass whose condition fails at the best n so far can improve on it.
        if found and log_least_wrong(found, g, eps, s) <= log_share + SLACK:
            continue
        n = _packing(log_share, g, eps, s)
        if n is not None and n > found:
            found, chosen = n, p
    return Certificate.lower(
        found, "Littlestone dimension", f"a class of Littlestone dimension {tree}", mass=chosen, records_per_user=m
    )


# The necessary conditions


def log_least_wrong(n: int, g: float, epsilon: float, success: float) -> float:
    """``ln Lo(n, g)``, rounded down.

    With ``k`` the level at which ``success`` is used up, ``Lo = e**(-epsilon k) (success - Pr[h > k] + E[e**(-epsilon
    (h - k)); h > k])``.
    """
    if g >= 1:
        return math.log(success) - epsilon * n
    k = least_between(lambda level: _above(level, n, g) <= success, -1, n)
    reach = min(n - k, math.ceil(745 / epsilon), math.ceil(80 * math.sqrt(n * g * (1 - g)) + 80))
    step = np.arange(1, min(reach, 1 << 20) + 1)
    beyond = float((binom.pmf(k + step, n, g) * np.exp(-epsilon * step)).sum()) if len(step) else 0.0
    rest = max(0.0, success - _above(k, n, g)) + beyond
    return -epsilon * k + (math.log(rest) if rest > 0 else -math.inf) - SLACK


def _above(k: int, n: int, g: float) -> float:
    if k < 0:
        return 1.0
    return 0.0 if k >= n else float(betainc(k + 1.0, float(n - k), g))


def _packing(log_share: float, g: float, epsilon: float, success: float) -> int | None:
    """The least ``n`` with ``ln Lo(n, g) <= log_share``; ``None`` if no ``n`` reaches it."""
    return (
        least(lambda n: log_least_wrong(n, g, epsilon, success) <= log_share + SLACK, start=0, limit=_LIMIT)
        if g > 0 or log_share >= 0
        else None
    )


def _log_share(tasks: int, success: float) -> float:
    return math.log1p(-success) - math.log(tasks - 1) if tasks > 1 else math.inf


def _fano(log_tasks: float, divergence: float, success: float) -> int:
    return max(0, math.ceil((success * log_tasks - math.log(2)) / divergence * (1 - SLACK)))


def _two_points(divergence: float, success: float) -> int:
    v = max(0.0, 2 * success - 1)
    return max(0, math.ceil(max(2 * v * v, -math.log1p(-v * v)) / divergence * (1 - SLACK)))


def tilted(bias: float, m: int) -> tuple[float, float]:
    """Distance of two tilted laws for one user of ``m`` records, and their divergence: ``kl = a ln((1+a)/(1-a))`` per
    record."""
    kl = 2 * bias * math.atanh(bias) * m
    return min(1.0, math.sqrt(kl / 2), math.sqrt(-math.expm1(-kl))), kl


def _tilted_codes(length: int, target: float, m: int) -> Iterator[tuple[int, float, float]]:
    """``length`` pairs tilted by ``a > 2 target length / dmin`` along a code, one family for each ``dmin`` with
    ``a < 1``."""
    for distance, words in codes(length):
        bias = 2 * target * length / distance * STRICT
        if bias < 1:
            yield words, *tilted(bias, m)


def code_bound(families: Iterator[tuple[int, float, float]], epsilon: float, success: float, start: int) -> int:
    """The largest packing or Fano bound over families of (tasks, distance of one user, divergence of one user)."""
    found = start
    for tasks, g, kl in families:
        found = max(found, _fano(math.log(tasks), kl, success))
        # Only a family whose condition fails at the best n so far can improve on it.
        if log_least_wrong(found, g, epsilon, success) > _log_share(tasks, success) + SLACK:
            found = max(found, _packing(_log_share(tasks, success), g, epsilon, success) or 0)
    return found


def codes(length: int) -> Iterator[tuple[int, int]]:
    """Every least distance with at least two code words, and their number."""
    volume, term = 0, 1
    for distance in range(1, length + 1):
        volume += term
        words = -(-(1 << length) // volume)
        if words >= 2:
            yield distance, words
        term = term * (length - distance + 1) // distance


def _ball(length: int, radius: int) -> int:
    """``V(N, r) = sum_{i <= r} C(N, i)``."""
    return sum(math.comb(length, i) for i in range(min(length, radius) + 1))


# Parameters


def _epsilon(epsilon: Rational, neighbours: Neighbours | str) -> float:
    value = positive(epsilon, "epsilon") * (1 if relation(neighbours) is Neighbours.REPLACE else 2)
    if value < 1e-6:
        raise ParameterError(f"epsilon must be at least 1e-6 for a lower bound, got {epsilon}")
    return value


def read_private(
    records_per_user: int, success: Rational, epsilon: Rational, neighbours: Neighbours | str
) -> tuple[int, float, float]:
    """Records of each user, the success demanded, and the epsilon under *replace*."""
    return _records(records_per_user), _success(success), _epsilon(epsilon, neighbours)


def _success(success: Rational) -> float:
    return float(rational(success, "success", minimum="1e-9", maximum="0.999999999"))


def _records(records_per_user: int) -> int:
    return positive_int(records_per_user, "records_per_user", maximum=1 << 40)


def _code_length(value: int, name: str) -> int:
    length = positive_int(value, name)
    if length > _MAX_CODE:
        raise TooLargeError(
            f"codes are tried up to length {_MAX_CODE}, got {name} = {length}; the bound for a smaller one holds as "
            "well"
        )
    return length


# Lower bounds for pure private learners from representations, private testing and plain statistics.
#
# ``Rep(al, b) = ln 2 ((1 - H2((1-b) al + b/2)) LDim - 1)`` bounds from below the log size of every ``(al, b)``
# representation of a class of Littlestone dimension LDim, for ``al < 1/2``: the index of the best rule (or its
# complement) answers one-way augmented index along a mistake tree (Fano).  A pure learner *is* a representation: ``K =
# ceil(e**(epsilon n) ln(1/b) / success)`` of its outputs on one fixed data set contain an accurate rule for each
# concept, except with probability ``b``.  So ``K >= e**Rep``, that is
#
#     e**(epsilon n) ln(1/b) / success > ceil(e**Rep) - 1.
#
# The number of outputs is a whole number: where ``Rep <= 0`` nothing follows, however close ``b`` is to 1.
#
# :func:`lower_testing` and :func:`lower_statistics` need a point that the class can label both ways; strictly they hold
# for every accuracy above ``alpha``.


def lower_representation(
    *, ldim: int, alpha: Rational, beta: Rational, epsilon: Rational, grid: int = 1000
) -> Certificate:
    """Any number of records per user, both relations: the fixed data set is ``n`` users away from any other.

    The best ``b`` on a grid of step ``1/grid``.  0 when the class is too small for the argument (or ``alpha >= 1/2``).
    """
    tree, target, b = positive_int(ldim, "ldim", minimum=0), open_unit(alpha, "alpha"), open_unit(beta, "beta")
    need = _outputs_needed(tree, target, 1 - b, positive_int(grid, "grid", minimum=2, maximum=10**6))
    n = _whole(need / _epsilon_declared(epsilon))
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
    m, eps = _records_declared(records_per_user), _epsilon_declared(epsilon) * _doubled(neighbours)
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
    m, eps = _records_declared(records_per_user, 1 << 20), _epsilon_declared(epsilon) * _doubled(neighbours)
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
        leak *= 1 + math.exp(_epsilon_declared(epsilon))  # of two steps, as its epsilon
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
        _records_declared(records_per_user),
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


def _records_declared(m: int, maximum: int = 1 << 40) -> int:
    return positive_int(m, "records_per_user", maximum=maximum)


def _epsilon_declared(epsilon: Rational) -> float:
    return positive(epsilon, "epsilon")


def _doubled(neighbours: Neighbours | str) -> int:
    """An add-remove algorithm is a replace algorithm with twice the epsilon."""
    return 1 if relation(neighbours) is Neighbours.REPLACE else 2


# Users below which no private selection among ``k`` candidate distributions can be right for all of them.
#
# Candidates pairwise just over ``alpha`` apart leave one right answer each, so the packing and Fano bounds of
# :mod:`privpac.lower_bounds` apply to any method that names one of the candidates.
#
# * *Spikes*: a share ``alpha`` of the records names the candidate, the rest is the same for all.  Two users' records
#   differ with probability at most ``1 - (1 - alpha)**m``.
# * *Tilts*: ``N`` pairs of values, each tilted by a bias ``a`` one way or the other along a binary code of ``k`` words
#   at
#   distance ``dmin`` or more; distances are at least ``a dmin/N``, the divergence per record at most ``a ln((1 + a)/(1
#   -
#   a))``.  Two candidates need no code.


_MAX_CANDIDATE_CODE = 256


def lower_selection(
    candidates: int,
    *,
    alpha: Rational,
    epsilon: Rational,
    records_per_user: int,
    success: Rational = "2/3",
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Certificate:
    """The largest of the bounds for the worst ``candidates``, one of which is the truth.

    >>> lower_selection(1000, alpha="0.05", epsilon=1, records_per_user=4, success="0.95").n_users
    83
    """
    k, m, apart = (
        positive_int(candidates, "candidates"),
        positive_int(records_per_user, "records_per_user"),
        float(rational(alpha, "alpha", minimum="1e-40", below=1)) * STRICT,
    )
    private = {"epsilon": epsilon, "success": success, "neighbours": neighbours}
    users: list[int | None] = [0]
    if k > 1 and apart < 1:
        users.append(lower_packing(k, -math.expm1(m * math.log1p(-apart)), **private).n_users)  # type: ignore[arg-type]
        users.append(lower_two_points(tilted(apart, 1)[1], records_per_user=m, success=success).n_users)
        bias = apart * _stretch(k)
        if bias < 1:
            users.append(lower_fano(k, tilted(bias, 1)[1], records_per_user=m, success=success).n_users)
            users.append(lower_packing(k, tilted(bias, m)[0], **private).n_users)  # type: ignore[arg-type]
    return Certificate.lower(
        max(n for n in users if n is not None), "selection", f"the worst {k} candidates", records_per_user=m
    )


def _stretch(k: int) -> float:
    """``N/dmin`` of a code of ``k`` words, of the length that is twice what counting needs; infinite where none is
    tried."""
    length = 2 * math.ceil(math.log2(k))
    if length > _MAX_CANDIDATE_CODE:
        return math.inf
    distance = max((d for d in range(1, length + 1) if gilbert_varshamov(length, d) >= k), default=0)
    return length / distance if distance else math.inf


# Lower bounds whose size is that of a whole family: ``k d`` numbers of a product, ``d**2/4`` of a covariance.
#
# Tasks are laws along a binary code, further than ``2 alpha`` apart so that no answer is right for two of them; the
# packing and Fano bounds of :mod:`privpac.lower_bounds` do the rest.
#
# **Products.**  ``d`` columns of ``2 N`` values, in each ``N`` pairs with masses ``(1 +- a)/(2 N)``, signs from a code
# of length ``N d``.  Two words that differ in ``h_j`` pairs of column ``j``, ``h >= dmin`` in all, give laws with
# divergence ``(h/N) a ln((1+a)/(1-a)) <= d a ln((1+a)/(1-a))``.  *Their distance.*  A record tells the two apart only
# by its columns in a pair where they differ (each such column with probability ``h_j/N``, independently), and each of
# these ``M`` columns shows the side that its law favours with probability ``p = (1+a)/2``.  The likelihood ratio is a
# power of ``(1+a)/(1-a)`` whose exponent is the lead of one side, so the distance is ``E t(M)`` with ``t(M) = Pr[Bin(M,
# p) > M/2] - Pr[Bin(M, p) < M/2]``: exactly.  ``t(2j) = t(2j-1)`` and ``t(2j+1) - t(2j-1) = 2 (2p-1) C(2j-1, j)
# (p(1-p))**j``, which falls with ``j`` (the ratio of two of them is ``p (1-p) (4j+2)/(j+1) < 1``).  So ``c``, equal to
# ``t`` at even numbers and linear between them, is concave, rising, and at most ``t`` (up to two columns ``t`` is
# concave itself).  Among all sums of ``d`` independent 0/1 numbers with a given mean the binomial gives a concave
# function its least mean (Hoeffding 1956), and it grows with the mean ``sum h_j/N >= dmin/N``: the distance is at least
# ``E c(Bin(d, dmin/(N d)))``.
#
# **Covariances.**  ``x`` standard normal in ``p`` columns, ``y = A x + w``, ``w`` standard normal in ``r = d - p``
# columns, the ``p r`` entries of ``A`` being ``+-a`` along a code.  Both laws have the same ``x``, so the divergence is
# ``E |(A-B) x|**2/2 = F**2/2`` with ``F`` the Frobenius norm of ``A - B``, and the distance ``E[2 Phi(|(A-B) x|/2) -
# 1]``. With ``s_i`` the singular values that is the mean of a concave function of ``sum s_i**2 x_i**2``, hence a
# symmetric concave function of the squares ``s_i**2``, which sum to ``F**2``: least where only one of them is not
# 0.  There it is ``Pr[|z| < F |x|/2]``, a quotient of normal numbers: **the distance is at least (2/pi)
# arctan(F/2)**.  Words at distance ``h`` have ``F = 2 a sqrt(h)``, so ``a = tan(pi alpha)/sqrt(dmin)`` does, with
# divergence at most ``2 a**2 p r``.  The covariance is ``L L'`` with ``L = [[I, 0], [A, I]]``, whose singular values
# lie between ``1/q`` and ``q = (s + sqrt(s**2 + 4))/2``, ``s <= a sqrt(p r)`` the largest one of ``A``: scaled by
# ``q**2`` all its eigenvalues are between the least variance and ``q**4`` times that, and the family must reach so far.


_MAX_FAMILY_CODE = 1 << 10
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
            d = min(len(pairs) - place, _MAX_FAMILY_CODE)
            found = code_bound(_product_tasks(min(n, _MAX_FAMILY_CODE // d), d, target, m), eps, s, found)
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
    entries = min((d // 2) * (d - d // 2), _MAX_FAMILY_CODE)
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


# What no private learner of a class can do without, from dimensions that are proved and not only bounded from above.
#
# ``ConceptClass.vc_dimension`` may be too large for some classes (several columns of stumps, short lists, separators),
# which is right for upper bounds and wrong for lower ones.  Lower bounds stand on sets that *are* shattered and mistake
# trees that *are* there, as each class knows them (``shattered_points``, ``mistake_tree_depth``).
#
# All bounds are the largest of those that apply.


_LONGEST = 4096
"""Dimensions beyond this are cut: a smaller one is a dimension of a smaller class."""

MOST_TOLD_APART = 1 << 12
"""Records per user up to which two laws of one user are told apart exactly."""

_STRICT = Fraction(10**9 + 1, 10**9)
"""Two tasks must differ by more than the accuracy asked for."""


class Dimensions(Protocol):
    """Of a class of rules: what is proved of it."""

    @property
    def shattered_points(self) -> int: ...
    @property
    def mistake_tree_depth(self) -> int: ...


def mistake_depth(concept: Dimensions) -> int:
    """The depth of some complete mistake tree, at most the Littlestone dimension.

    >>> from privpac.data import Integers
    >>> from privpac.rules import Intervals, Points, Thresholds
    >>> cuts = Thresholds(Integers(0, 1440))
    >>> mistake_depth(cuts), mistake_depth(Points(Integers(0, 1440))), mistake_depth(Intervals(Integers(0, 1440)))
    (10, 1, 18)
    """
    return min(_LONGEST, max(concept.shattered_points, concept.mistake_tree_depth))


def lower_realizable(
    concept: Dimensions,
    *,
    alpha: Fraction,
    beta: Fraction,
    epsilon: Fraction,
    records_per_user: int,
    neighbours: Neighbours,
) -> Certificate:
    """With fewer users no pure private learner is right to ``alpha`` with probability ``1 - beta``, though some rule is
    right."""
    depth, goal = mistake_depth(concept), dict[str, Any](alpha=alpha, epsilon=epsilon)
    shared: dict[str, Any] = {"records_per_user": records_per_user, "neighbours": neighbours}
    return largest_bound(
        lambda: lower_littlestone(depth, success=1 - beta, **goal, **shared),
        lambda: lower_representation(ldim=depth, beta=beta, **goal),
        # The rules below one side of the root agree there.
        lambda: lower_sparse(ldim=max(0, depth - 1), beta=beta, **goal, **shared),
    )


def lower_agnostic(
    concept: Dimensions,
    *,
    alpha: Fraction,
    beta: Fraction,
    epsilon: Fraction,
    records_per_user: int,
    neighbours: Neighbours,
) -> Certificate:
    """The same when labels may be wrong: also noise on shattered points must be told from the truth."""
    points, beyond = min(concept.shattered_points, _LONGEST), just_beyond(alpha)
    goal: dict[str, Any] = {"epsilon": epsilon, "records_per_user": records_per_user, "neighbours": neighbours}
    found = [lambda: lower_realizable(concept, alpha=alpha, beta=beta, **goal)]
    if points:
        found.append(lambda: lower_agnostic_vc(points, alpha=alpha, success=1 - beta, **goal))
        found.append(
            lambda: lower_statistics(alpha=beyond, beta=beta, records_per_user=records_per_user, dimension=points)
        )
    if points and records_per_user <= MOST_TOLD_APART:
        found.append(lambda: lower_testing(alpha=beyond, beta=beta, **goal))
    return largest_bound(*found)


def just_beyond(alpha: Fraction) -> Fraction:
    """A hair more than the accuracy asked for."""
    return min(alpha * _STRICT, (1 + alpha) / 2)


def largest_bound(*bounds: Callable[[], Certificate]) -> Certificate:
    """The largest of the bounds that can be computed; a bound that is out of its own range says nothing."""
    found, refused = [], None
    for bound in bounds:
        try:
            found.append(bound())
        except (ParameterError, TooLargeError) as error:
            refused = refused or error
    known = [certificate for certificate in found if certificate.n_users is not None]
    if not known:
        raise refused or ParameterError("no lower bound applies to this class")
    return max(known, key=lambda certificate: certificate.n_users or 0)
