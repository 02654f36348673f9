"""Users for an estimate of the least error of a class, by its least sum or by the search of comparisons.

Both are within ``radius`` of the least error with probability ``1 - beta``, for users who hold ``m`` records each,
all of one law.

*Sum.*  The least of the mean errors is within the uniform deviation of ``n m`` records of the truth; floors cost
``1/L``, and with ``epsilon' = 4 epsilon/5`` (all of it under replace, where the number of users is public) the noise is
at most ``t = ln(2/b)/epsilon'`` people, that of the count at most ``c = 5 ln(2/b)/epsilon``: ``D + 1/L + (t + c)/(n -
c)``.  More records of a user lower ``D`` and nothing else.

*Search.* Comparisons of width ``w`` separate users, not sums: ``m`` records tell two error rates apart with
probability of order ``w sqrt(m)``, so both noise and deviation shrink with ``m``
(:mod:`privpac.bounds.selection.estimate`), at the price of ``log2(1/radius)`` comparisons or as many cells. Users may
be asked for fewer records than they hold.
"""

from __future__ import annotations

import math
from functools import partial

from privpac.bounds.certificate import LIMIT, SLACK, Certificate, fewest, open_unit, positive, relation
from privpac.bounds.selection.deviation import agnostic_radius
from privpac.bounds.selection.estimate import ESTIMATORS, estimate_plan
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.least import least
from privpac.parameters import DEFAULT_LEVELS

__all__ = ["certify_least_error"]

"""Steps of an error rate, those of the evaluator."""
_MOST = 1 << 10
"""Records beyond which more are not read by a search: certified numbers only fall slowly from here."""


def certify_least_error(
    method: str,
    *,
    epsilon: Rational,
    radius: Rational,
    beta: Rational,
    records_per_user: int,
    dimension: int,
    log_size: float | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """Users for which the estimate by ``"sum"``, ``"oneshot"`` or ``"bisect"`` is within ``radius``.

    >>> told = dict(epsilon="0.1", radius="1/16", beta="0.05", dimension=1)
    >>> [certify_least_error(way, records_per_user=1, **told).n_users for way in ("sum", "oneshot")]
    [18193, 97765]
    """
    m, eps = positive_int(records_per_user, "records_per_user", maximum=1 << 40), positive(epsilon, "epsilon")
    wanted, failure = rational(radius, "radius", above=0, below=1), open_unit(beta, "beta")
    assumption = "users with equally many records, all of one law"
    if method == "sum":
        private_count = relation(neighbours) is Neighbours.ADD_REMOVE
        n = _by_sum(m, eps, float(wanted), failure, dimension, log_size, private_count)
        return Certificate.upper(n, "least sum of errors", assumption, records_per_user=m)
    if method not in ESTIMATORS:
        raise ParameterError(f"method must be sum, {' or '.join(ESTIMATORS)}, got {str(method)[:40]!r}")
    j = 0
    while wanted * (1 << j) < 1:
        j += 1
    # Under replace a person with other numbers of records moves a comparison by up to 2.
    step = 1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2
    by_search = partial(_by_search, method, j, eps / step, failure, dimension, log_size)

    def certify(records: int) -> Certificate:
        return Certificate.upper(by_search(records), f"least error by search ({method})", assumption)

    return fewest(min(m, _MOST), lambda records, beat: certify(records), lambda records: 0.0)


def _by_sum(
    m: int, epsilon: float, radius: float, beta: float, dimension: int, log_size: float | None, counted: bool
) -> int | None:
    noise = math.log(6 / beta) / (epsilon * (0.8 if counted else 1.0))  # a third of beta each
    count = 5 * math.log(6 / beta) / epsilon + 1 if counted else 0.0

    def enough(n: int) -> bool:
        if n <= count:
            return False
        luck = agnostic_radius(
            n_users=n * m,
            records_per_user=1,
            dimension=dimension,
            thresholds=1,
            failure=beta / 3,
            log_size=log_size,
        )
        return (luck + 1 / DEFAULT_LEVELS + (noise + count) / (n - count)) * (1 + SLACK) <= radius

    return least(enough, start=1, limit=LIMIT)


def _by_search(
    method: str, j: int, epsilon: float, beta: float, dimension: int, log_size: float | None, m: int
) -> int | None:
    plan = estimate_plan(method, m, j, rational(1, "alpha") / (1 << j))
    if plan.compare_gap <= 0:
        return None

    def enough(n: int) -> bool:
        deviation = agnostic_radius(
            n_users=n, records_per_user=m, dimension=dimension, thresholds=m, failure=beta / 2, log_size=log_size
        )
        return plan.succeeds(n, deviation, epsilon, beta / 2)

    return least(enough, start=1, limit=LIMIT)
