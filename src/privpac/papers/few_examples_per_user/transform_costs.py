"""From item level to user level: what the literal transformation costs, and the tools around it.

*Sample perfect generalisation* (``spg_pure``): two independent samples of N records give a pure item-level algorithm
laws that are ``(s, delta)``-close, except with probability ``beta``.  With ``v = N eps'**2 / 8`` and ``s >= 2v``,
``E[d_s(A(x) || A(x'))] <= exp(v - (s - 2v)**2 / (8v))``, because ``ln f`` has bounded differences ``eps'``; Markov in
both directions. *Local-deletion privacy* (``lddp_*``): the same for every pair of deletions of ``t`` users out of
``n``, by a union bound. *User complexity*: how many users the transformation then needs (Theorem 10; Theorem 11 with
subsampling).

These numbers are certified for the **literal transformation**.  They are not what this library needs: at ordinary sizes
the naive exponential mechanism needs far fewer users.

Small tools: group privacy, the triangle inequality, amplification by sampling and its inverse, and ``width_iid``, the
spread that order statistics of independent users keep.  Values are doubles; guarantees in code are computed exactly
elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from privpac.bisection import half_way, least, narrow
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.mechanisms.release_test import DEFAULT_FAILURE
from privpac.methods.trimmed import TrimDesign, design_trim, plan_trim, shortest_ladder, width_iid
from privpac.parameters import DEFAULT_BETA, read_epsilon
from privpac.sample_size import Certificate, log_size_of, open_unit, positive
from privpac.special import gammaln

_VACUOUS = 50.0
_MAX_RECORDS = 1 << 22
_BISECTIONS = 200
_INWARD = 1e-9
"""Relative shift of a quantile to the safe side, far above the error of the inverse that found it."""

_CELLS = 1 << 12
"""Most cells that [0, 1] is cut into; more records than this share cells, which can only widen the result."""


# Group privacy, triangle inequality, sampling


def group_privacy(epsilon: Rational, delta: Rational, k: int) -> tuple[float, float]:
    """``(k eps, delta (e**(k eps) - 1) / (e**eps - 1))``, delta at most 1.

    >>> group_privacy(1, 0, 20)
    (20.0, 0.0)
    """
    eps, d = _loss(epsilon, "epsilon"), _small(delta, "delta")
    size = positive_int(k, "k")
    return size * eps, min(1.0, d * _chain(eps, size))


def group_budget(epsilon: Rational, delta: Rational, k: int) -> tuple[float, float]:
    """The inverse: what each of ``k`` steps may lose so that the group loses ``(epsilon, delta)``."""
    eps, d = _loss(epsilon, "epsilon"), _small(delta, "delta")
    size = positive_int(k, "k")
    return eps / size, d / _chain(eps / size, size)


def _chain(eps: float, k: int) -> float:
    """``1 + e**eps + ... + e**((k-1) eps)``."""
    if eps == 0:
        return float(k)
    return math.expm1(k * eps) / math.expm1(eps) if k * eps < 700 else math.inf


def triangle(e1: Rational, d1: Rational, e2: Rational, d2: Rational) -> tuple[float, float]:
    """P and R, when P is ``(e1, d1)``-close to Q and Q ``(e2, d2)``-close to R: ``(e1 + e2, max(d1 + e**e1 d2, d2 +
    e**e2 d1))``."""
    first, second = _loss(e1, "e1"), _loss(e2, "e2")
    p, q = _small(d1, "d1"), _small(d2, "d2")
    return first + second, max(p + math.exp(min(first, 700)) * q, q + math.exp(min(second, 700)) * p)


def amplify(epsilon: Rational, delta: Rational, k: int, n: int) -> tuple[float, float]:
    """``(ln(1 + q (e**eps - 1)), q delta)`` for a secret sample of ``k`` out of ``n`` units, ``q = k / n``.

    Fixed size without replacement goes with replace neighbours and a public n, Poisson sampling with add-remove.  The
    unit that is sampled is the unit protected: sampling records amplifies item-level promises only.
    """
    eps, d, q = _loss(epsilon, "epsilon"), _small(delta, "delta"), _rate(k, n)
    if eps > 30:  # the same number without a power that overflows
        return eps + math.log(q + (1 - q) * math.exp(-eps)), q * d
    return math.log1p(q * math.expm1(eps)), q * d


def deamplify(epsilon: Rational, delta: Rational, k: int, n: int) -> tuple[float, float]:
    """What may be spent on a sample so that the whole costs ``(epsilon, delta)``: the inverse of :func:`amplify`."""
    eps, d, q = _loss(epsilon, "epsilon"), _small(delta, "delta"), _rate(k, n)
    if eps > 30:
        return eps + math.log((1 - math.exp(-eps)) / q + math.exp(-eps)), d / q
    return math.log1p(math.expm1(eps) / q), d / q


def subsample_size(epsilon_base: Rational, n_base: int, epsilon_target: Rational) -> int:
    """Records from which a sample of ``n_base`` turns an ``epsilon_base`` algorithm into an ``epsilon_target`` one.

    ``max(n, ceil(n (e**eps - 1) / (e**eps' - 1)))``.

    >>> subsample_size(1, 301, 0.23962035228479353)
    1911
    """
    base, target = positive(epsilon_base, "epsilon_base"), positive(epsilon_target, "epsilon_target")
    n = positive_int(n_base, "n_base")
    if base > 700:
        raise ParameterError(f"epsilon_base must be at most 700, got {base:g}")
    return max(n, math.ceil(n * math.expm1(base) / math.expm1(min(target, base))))


# Closeness of a pure or approximate item-level algorithm on deletions


def spg_pure(epsilon_item: Rational, records: int, delta: Rational, beta: Rational) -> float:
    """``s`` such that laws on two independent samples are ``(s, delta)``-close except with probability ``beta``."""
    e, n = positive(epsilon_item, "epsilon_item"), positive_int(records, "records")
    return _generalisation(e, n, math.log(2 / (open_unit(delta, "delta") * open_unit(beta, "beta"))))


def lddp_pure(epsilon_item: Rational, n: int, m: int, t: int, delta: Rational, beta: Rational) -> float:
    """The same for all pairs of deletions of ``t`` out of ``n`` users with ``m`` records each."""
    e, (users, records, deleted) = positive(epsilon_item, "epsilon_item"), _sizes(n, m, t)
    tail = -math.log(open_unit(delta, "delta") * open_unit(beta, "beta")) + 2 * _log_choose(users, deleted)
    return _generalisation(e, deleted * records, tail)


def _generalisation(e: float, n: int, tail: float) -> float:
    v = n * e * e
    return min(v / 4 + math.sqrt(v * (tail + v / 8)), n * e)


def lddp_approx(
    epsilon_item: Rational, delta_item: Rational, n: int, m: int, t: int, beta: Rational
) -> tuple[float, float]:
    """``(eps_S, delta_S)`` for an ``(eps', delta')`` item-level algorithm; often vacuous, then group privacy is
    returned."""
    e, d = positive(epsilon_item, "epsilon_item"), open_unit(delta_item, "delta_item")
    users, records, deleted = _sizes(n, m, t)
    size = deleted * records
    plain = size * e, min(1.0, d * _chain(e, size))
    if size * d >= 1:
        return plain
    a = 2 * e
    s = size * a * a + 2 * a * math.sqrt(size * math.log(1 / (size * d)))
    tail = math.log(1 / open_unit(beta, "beta")) + 2 * _log_choose(users, deleted)
    steps = math.ceil(math.sqrt(size) * (math.sqrt(math.log(2)) + math.sqrt(tail)))
    eps = s + steps * e
    if s >= _VACUOUS or eps >= _VACUOUS or eps >= plain[0]:
        return plain
    lost = 4 * (size * d + (1 + math.exp(s)) * (1 + math.exp(-e)) * size * d)
    walked = min(1.0, d * _chain(e, steps))
    return eps, walked + math.exp(steps * e) * lost + math.exp(eps) * walked


def user_complexity(
    n1: Callable[[float], float],
    *,
    epsilon: Rational,
    delta: Rational,
    records_per_user: int,
    ladder: int,
    beta: Rational = DEFAULT_BETA,
    subsample: bool = False,
) -> Certificate:
    """Users that the *literal transformation* of a pure item-level algorithm needs; ``n1(eps')`` is how many records it
    needs.

    ``eps_R = eps_S = eps/3``, ``delta_R = delta/2``, ``t = 2 * ladder``, where ``ladder`` is
    ``mechanisms.smallest_K(dyadic_base(eps_R), delta_R)``; the largest ``eps'`` with ``lddp_pure(eps') <= eps_S``; the
    least n with ``(n - t) m >= n1(eps')``.  With ``subsample`` (Theorem 11) the base runs at epsilon on a sample and
    ``subsample_size(epsilon, n1(epsilon), eps')`` records are needed.
    """
    eps, d = positive(epsilon, "epsilon"), open_unit(delta, "delta")
    m, k = positive_int(records_per_user, "records_per_user"), positive_int(ladder, "ladder", minimum=0)
    if not callable(n1):
        raise TypeError(f"n1 must be a function of epsilon, got {type(n1).__name__}")
    near, t = eps / 3, max(1, 2 * k)
    close = d / (2 * (1 + math.exp(near)))

    def item_budget(n: int) -> float:
        # The largest epsilon that is affordable, to 13 digits, or rounded down to 0.
        return narrow(
            lambda e: not (e > 0 and lddp_pure(e, n, m, t, close, beta) <= near),
            0.0,
            max(near, 1.0),
            middle=half_way,
            wide=lambda low, high: high - low > 1e-13 * high,
            steps=_BISECTIONS,
        )[0]

    def enough(n: int) -> bool:
        if n <= t:
            return False
        item = item_budget(n)
        need = subsample_size(eps, math.ceil(n1(eps)), min(item, eps)) if subsample else n1(item)
        return (n - t) * m >= need

    found = least(enough, start=t + 1)
    details: dict[str, Any] = {"deleted": t, "ladder": k}
    if found is not None:
        details |= {"item_epsilon": item_budget(found), "lower_bound": math.ceil(math.ceil(n1(eps)) / m)}
    which = "Theorem 11, subsampled" if subsample else "Theorem 10"
    return Certificate.upper(
        found, f"literal transformation ({which})", "a pure item-level algorithm and independent users", **details
    )


# Reading


def _loss(value: object, name: str) -> float:
    return float(rational(value, name, minimum=0, maximum=10**6))


def _small(value: object, name: str) -> float:
    return float(rational(value, name, minimum=0, maximum=1))


def _rate(k: int, n: int) -> float:
    pool = positive_int(n, "n")
    return positive_int(k, "k", maximum=pool) / pool


def _sizes(n: int, m: int, t: int) -> tuple[int, int, int]:
    users = positive_int(n, "n")
    return users, positive_int(m, "m"), positive_int(t, "t", maximum=users)


def _log_choose(n: int, t: int) -> float:
    return float(gammaln(n + 1) - gammaln(t + 1) - gammaln(n - t + 1))


# Which transformation when, from public numbers only.
#
# *Group privacy* counts every record as a person (noise ``2L / (eps n)``), *clipping* cuts a user's comparison of two
# rules at ``tau`` records (``4 tau L / (eps n m)``), *trimming* drops the extreme users of every rule and tests
# privately that the rest agree (``2 w L / (eps_O (n - 2t) m)``), where ``L = ln|H| + ln(1/beta)``.  The smallest
# predicted excess error wins.  Trimming may answer "nothing" and counts on exchangeable users, which no public number
# can show: it is considered only with ``allow_bottom=True``.
#
# The literal transformation of the paper is never chosen: :func:`literal_users` says what it would need.


_RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Error rates whose widths predict the noise of trimming; a width that is *used* covers all of them
(``design_trim``)."""


@frozen(slots=False)
class TransformChoice:
    """``choice`` is "group", "clip" or "trim"; ``predicted`` the excess error of each (``inf``: out of reach)."""

    choice: str
    predicted: Mapping[str, float]
    tau: int
    design: TrimDesign | None = None

    def __str__(self) -> str:
        shown = ", ".join(
            f"{name} {'out of reach' if math.isinf(value) else f'{value:.4f}'}"
            for name, value in self.predicted.items()
        )
        return f"{self.choice}: predicted excess error {shown}"


def choose_transform(
    n: int,
    m: int,
    epsilon: Rational,
    delta: Rational,
    log_size: Rational,
    H_eff: int,
    alpha: Rational = 0.05,
    beta: Rational = DEFAULT_BETA,
    allow_bottom: bool = False,
    failure: Rational = DEFAULT_FAILURE,
) -> TransformChoice:
    """The transformation with the smallest predicted excess error; ties go to group, then clip, then trim.

    ``m`` is a public cap on records, ``H_eff`` about how many rules differ on the data.  ``allow_bottom=True`` states
    that users are exchangeable and that "no answer" is acceptable.

    >>> print(choose_transform(500, 100, 1, "1e-6", 44, 1000))
    clip: predicted excess error group 0.1880, clip 0.0677, trim out of reach
    """
    users, records = positive_int(n, "n"), positive_int(m, "m")
    eps, d = positive(epsilon, "epsilon"), float(rational(delta, "delta", minimum=0, below=1))
    near, size = open_unit(alpha, "alpha"), log_size_of(log_size) + math.log(1 / open_unit(beta, "beta"))
    if not isinstance(allow_bottom, bool):
        raise TypeError(f"allow_bottom must be True or False, got {type(allow_bottom).__name__}")
    tau = min(records, math.ceil(near * records + math.sqrt(records * math.log(1 / near) / 2)))
    predicted = {
        "group": 2 * size / (eps * users) if eps * users / 2 >= size else math.inf,
        "clip": 4 * tau * size / (eps * users * records) if eps * users / 4 >= size else math.inf,
        "trim": math.inf,
    }
    design, fail = None, rational(failure, "failure", above=0, below=1)
    if allow_bottom and d > 0:
        try:

            def usual_width(n: int, m: int, trim: int, ladder: int, rules: int) -> int:
                return width_iid(n, m, trim, ladder, rules, fail, _RATES)

            usual = plan_trim(users, records, epsilon, delta, H_eff, fail, usual_width)
            design = design_trim(users, records, epsilon, delta, H_eff, fail)
            predicted["trim"] = usual.noise * size
        except InfeasibleError:
            design = None
    choice = min(predicted, key=lambda name: predicted[name])
    if math.isinf(predicted[choice]):
        need = math.ceil(2 * size / eps)
        raise InfeasibleError(
            f"too few users for a class of this size: {users}, and ln|H| + ln(1/beta) = {size:.1f} needs about {need}"
        )
    return TransformChoice(choice, MappingProxyType(predicted), tau, design)


def literal_users(
    n1: Callable[[float], float],
    *,
    epsilon: Rational,
    delta: Rational,
    records_per_user: int,
    beta: Rational = DEFAULT_BETA,
    failure: Rational = DEFAULT_FAILURE,
    subsample: bool = False,
) -> Certificate:
    """Users that the paper's transformation needs of an algorithm with ``n1(eps')`` records: see
    ``bounds.user_complexity``."""
    eps, d = read_epsilon(epsilon), rational(delta, "delta", above=0, below=1)
    ladder = shortest_ladder(eps / 3, d / 2, rational(failure, "failure", above=0, below=1))
    return user_complexity(
        n1, epsilon=eps, delta=d, records_per_user=records_per_user, ladder=ladder, beta=beta, subsample=subsample
    )
