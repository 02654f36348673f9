"""Selection when some rule is right (realizable learning).

Score of a rule: the number of users on whose first ``max_records`` records it makes more than ``tolerance`` mistakes.
With about ``ln|H| / (epsilon * min(1, alpha * m))`` users the released rule has error at most ``alpha`` when some rule
of the class has error 0 (Ghazi et al., *Few Examples*, Theorem 4, with certificate C1 in ``privpac.bounds``).

**Guarantee.**  ``(epsilon, 0)`` per user, add-remove or replace, for any ``tolerance``, any cap and any numbers of
records: each user moves each score by at most 1.  Accuracy parameters never enter it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from attrs import field, frozen

from privpac.arrays import Floats64
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Rational, positive_int, rational
from privpac.guarantee import Neighbours
from privpac.law import Law
from privpac.methods.base import Bound, Selection, drawn_id, profile_of, public_table, shown_table
from privpac.methods.registry import PlannedMethod
from privpac.parameters import named
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.profile import Exceeds, Table
from privpac.sample_size import SLACK, Certificate, log_size_of, open_unit, positive, relation, users_for
from privpac.special import betainc

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.methods.planned import RuleGoal

# Users that realizable selection needs: some rule is (nearly) perfect, and each user counts once.
#
# The learner scores a rule by the number of users on whose first ``records`` records it makes more than ``tolerance``
# mistakes. **Certificate C1**: with ``p1 = Pr[Bin(records, alpha) > tolerance]``, ``p0 = Pr[Bin(records, alpha0) >
# tolerance]`` for a rule of error at most ``alpha0`` in H, and ``f(th) = 1 - p1 (1 - e**-th) + p0 (e**th - 1)``,
#
#     Pr[error > alpha] <= |H| f(th)**n      for every 0 < th <= lambda,
#
# ``lambda = epsilon`` under add-remove and ``epsilon / 2`` under replace; the best ``th`` is ``min(lambda, ln(p1/p0) /
# 2)``.  *Proof.* ``Pr[h | data] <= exp(-th (s_h - s_*))``, users are independent, and a user counts against ``h`` but
# not against the good rule at least ``p1 - p0`` more often than the other way round; union bound over H.

_MAX_RECORDS = 1 << 16
_ASSUMES = (
    "users with at least the declared number of records, all from one law, and a rule of error at most {alpha0} in the "
    "class"
)


def plan_realizable(
    *,
    log_size: Rational,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    records_per_user: int,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    alpha0: Rational = 0,
    max_records: int | None = None,
    max_tolerance: int = 3,
) -> Certificate:
    """The truncation ``max_records`` and ``tolerance`` that certify the fewest users.

    ``alpha0 = 0`` for a proper finite class with a perfect rule; a representation of accuracy ``alpha0`` that succeeds
    with probability ``1 - b`` adds ``b`` to ``beta``.  Scans records 1..min(records_per_user, max_records) (all of them
    if no cap is given, up to 65 536) and tolerances 0..max_tolerance; the first minimum wins.  ``n_users`` is ``None``
    only where every ``f >= 1`` in double precision.
    """
    m, lam, target, near, log_ratio = _read(log_size, epsilon, alpha, alpha0, beta, records_per_user, neighbours)
    limit = m if max_records is None else min(m, positive_int(max_records, "max_records"))
    if limit > _MAX_RECORDS:
        raise TooLargeError(f"the plan scans at most {_MAX_RECORDS} records per user, got {limit}; give max_records")
    sizes = np.arange(1, limit + 1, dtype=float)[:, None]
    most = positive_int(max_tolerance, "max_tolerance", minimum=0, maximum=1000)
    rates = _rate(sizes, np.arange(most + 1, dtype=float)[None, :], target, near, lam)
    with np.errstate(divide="ignore"):
        users = np.where(rates > 0, np.maximum(1, np.ceil(log_ratio / np.maximum(rates, 0) * (1 + SLACK))), np.inf)
    row, column = np.unravel_index(int(np.argmin(users)), users.shape)
    return _certificate(log_ratio, float(rates[row, column]), int(row) + 1, int(column), alpha0)


def certify_realizable(
    *,
    log_size: Rational,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    records_per_user: int,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    alpha0: Rational = 0,
    tolerance: int = 0,
) -> Certificate:
    """The certificate for a learner that reads exactly ``records_per_user`` records of each user and forgives
    ``tolerance`` mistakes."""
    m, lam, target, near, log_ratio = _read(log_size, epsilon, alpha, alpha0, beta, records_per_user, neighbours)
    forgiven = positive_int(tolerance, "tolerance", minimum=0)
    rate = float(_rate(np.array([[float(m)]]), np.array([[float(forgiven)]]), target, near, lam)[0, 0])
    return _certificate(log_ratio, rate, m, forgiven, alpha0)


def realizable_closed_form(
    *,
    log_size: Rational,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    records_per_user: int,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """With ``alpha0 = alpha/100``, tolerance 0 and ``M = min(records_per_user, floor(1/alpha))`` records:

    replace, epsilon <= 1: ``n >= 4.36 ln(|H|/beta) / (epsilon alpha M)``; add-remove: ``n >= 2.18 ln(|H|/beta) /
    (min(epsilon, 1/2) alpha M)``. Never below :func:`plan_realizable`; ``InfeasibleError`` for replace with ``epsilon >
    1``.
    """
    near = rational(alpha, "alpha", above=0, below=1) / 100
    m, lam, target, _, log_ratio = _read(log_size, epsilon, alpha, near, beta, records_per_user, neighbours)
    if relation(neighbours) is Neighbours.REPLACE and lam > 0.5:
        raise InfeasibleError(f"the closed form needs epsilon <= 1 under replace, got {epsilon}; use plan_realizable")
    used = min(m, math.floor(1 / rational(alpha)))
    n = users_for(2.18 * log_ratio, min(lam, 0.5) * target * used)
    return Certificate.upper(
        n, "realizable selection, closed form", _ASSUMES.format(alpha0=near), records_per_user=used, tolerance=0
    )


def _rate(m: Floats64, t: Floats64, alpha: float, alpha0: float, lam: float) -> Floats64:
    """``-ln f`` at the best tilt, records by tolerances; 0 where the tolerance forgives every record."""
    rest = np.maximum(m - t, 1.0)
    p1, p0 = betainc(t + 1, rest, alpha), betainc(t + 1, rest, alpha0)
    with np.errstate(divide="ignore", invalid="ignore"):
        tilt = np.minimum(lam, np.where(p0 > 0, np.log(np.maximum(p1, 1e-300)) - np.log(p0), np.inf) / 2)
    f = -p1 * np.expm1(-tilt) - p0 * np.expm1(tilt) - SLACK * p1
    return np.asarray(np.where(m > t, -np.log1p(-np.clip(f, 0.0, 1 - 1e-16)), 0.0))


def _certificate(log_ratio: float, rate: float, records: int, tolerance: int, alpha0: Rational) -> Certificate:
    n = users_for(log_ratio, rate)
    # The learner's score does not follow n, and |H| f**n falls with it.
    found = Certificate.upper(
        n, "realizable selection", _ASSUMES.format(alpha0=alpha0), records_per_user=records, tolerance=tolerance
    )
    return found.run_with(max_records=records, tolerance=tolerance)


def _read(
    log_size: Rational,
    epsilon: Rational,
    alpha: Rational,
    alpha0: Rational,
    beta: Rational,
    m: int,
    neighbours: Neighbours | str,
) -> tuple[int, float, float, float, float]:
    target, near = open_unit(alpha, "alpha"), float(rational(alpha0, "alpha0", minimum=0, below=1))
    if near >= target:
        raise ParameterError(
            f"alpha0 must be below alpha = {alpha}, got {alpha0}; otherwise no rule need be better than the target"
        )
    lam = positive(epsilon, "epsilon") / (1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2)
    log_ratio = log_size_of(log_size) - math.log(open_unit(beta, "beta"))
    return positive_int(m, "records_per_user", maximum=1 << 50), lam, target, near, log_ratio


@frozen(slots=False, field_transformer=named)
class RealizableSelection(Selection):
    """Exponential law over "users with more than ``tolerance`` mistakes".

    Parameters
    ----------
    tolerance : int, table or function, optional
        Mistakes forgiven to a user: one number (default 0), or ``{least count: value}`` or a function of the number
        of records.  Public; so are the parameters of every :class:`~privpac.methods.base.Selection`.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> learner = RealizableSelection(Thresholds(), epsilon=1)
    >>> learner.law(people).mode
    4
    """

    tolerance: Table = field(default=0, converter=public_table)

    @property
    def statistic(self) -> Exceeds:
        return Exceeds(self.tolerance)

    def law(self, data: Users) -> Law:
        """The law over rule ids (private: for the curator and for audits)."""
        return self._law(self.bind(data))

    def _law(self, bound: Bound) -> Law:
        return profile_of(bound, self.statistic).law(self.rate(self.epsilon, 1))

    def draw(self, bound: Bound, rng: Rng) -> Released:
        chosen = drawn_id(bound, self.statistic, self.rate(self.epsilon, 1), rng)
        return self.release_id(bound, chosen, {"tolerance": shown_table(self.tolerance)}, "realizable selection")


# Its line in a plan


def realizable_rows(goal: RuleGoal) -> list[PlannedMethod]:
    def certify(m: int) -> Certificate:
        return plan_realizable(log_size=goal.concept.log_size, records_per_user=m, **goal.wanted)

    return [PlannedMethod("realizable selection", certify)]
