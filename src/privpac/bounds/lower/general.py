"""Lower bounds: with fewer users, no private algorithm of any kind can be accurate.

Stated for *replace* neighbours; an add-remove algorithm with ``epsilon`` is a replace algorithm with ``2 epsilon``, and
that is what is used when ``neighbours="add-remove"``.  ``success`` is the probability of success demanded on every task
(default 2/3, ``1 - beta`` to compare with an upper bound).  Certified, and often far from tight.

``Lo(n, g) = min{E[a e**(-epsilon h)] : 0 <= a <= 1, E a = success}`` with ``h ~ Bin(n, g)``, reached by filling ``a``
from the largest ``h`` down.  It falls with ``n``; each bound is the least ``n`` at which the necessary condition holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np

from privpac.bounds.certificate import SLACK, Certificate, open_unit, positive, relation
from privpac.bounds.laws import binom
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.least import least, least_between
from privpac.special import betainc, ndtr, ndtri

__all__ = [
    "STRICT",
    "code_bound",
    "codes",
    "gilbert_varshamov",
    "lower_agnostic_vc",
    "lower_discrete",
    "lower_fano",
    "lower_gauss_mean",
    "lower_littlestone",
    "lower_packing",
    "lower_two_points",
    "read_private",
    "tilted",
]

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
