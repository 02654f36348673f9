"""Clipped-regret selection: the default learner for real, noisy labels.

A rule is scored by how much worse it does on a user's records than *that user's own best rule*, cut off at a clip
``tau(m)`` that depends on the user's number of records and on public numbers only:

    g_i(h) = floor( levels * min(mistakes_i(h) - own least mistakes_i, tau(m_i)) / tau(m_i) )   in 0..levels

The clip follows :class:`privpac.rules.profile.ClipRule` for a public number ``N`` of users: with few users
sqrt(m), the size of a user's own optimism; with many users m itself, the unbiased per-user mean.  ``N`` is declared
(``public_n_users``), or the public number of users under replace, or else a noisy count that costs ``epsilon / 16``.
With one or two records at most (item level, ``max_records``) the clip does not depend on it, and nothing is spent.

**Guarantee.**  ``(epsilon, 0)`` per user: g_i depends on user i's records and public values only and lies in
``0..levels`` (range rule, see ``methods.base``); the count, where one is drawn, has sensitivity 1 and composes
adaptively: ``epsilon/16 + 15 epsilon/16``.  The true number of users is never used under add-remove.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from attrs import evolve, field, frozen

from privpac.arrays import Floats64
from privpac.bisection import least
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Rational, one_of, positive_int, rational, root_up
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.law import Law
from privpac.mechanisms.laplace import Laplace
from privpac.methods.base import Bound, Selection, count_users, drawn_id, profile_of, public_table, shown_table
from privpac.methods.planned import RuleGoal, kept_by_numbers
from privpac.methods.registry import PlannedMethod
from privpac.parameters import DEFAULT_LEVELS, MAX_EPSILON, bounds, either, named, whole, whole_or_none
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.profile import ClipRule, Mean, Regret, Statistic, Table
from privpac.sample_size import (
    LIMIT,
    MOST_READ,
    SLACK,
    Certificate,
    best,
    log_size_of,
    numbers_up_to,
    open_unit,
    positive,
    users_for,
)
from privpac.special import betainc, binom, log_ndtr, ndtr

if TYPE_CHECKING:
    from privpac.data import Users

COUNT_SHARE = Fraction(1, 16)
"""Part of epsilon spent on the noisy count when no number of users is public."""

COUNT_CAP = 1 << 40


def _read_tau(tau: Table | None) -> Table | None:
    return None if tau is None else public_table(tau, "tau", minimum=1)


@frozen(slots=False, field_transformer=named)
class RegretSelection(Selection):
    """The user gives epsilon and a domain and nothing else.

    Parameters
    ----------
    public_n_users : int, optional
        About how many users there are (public): it sets the clip.  Left out, part of epsilon buys a noisy count.
    levels : int, optional
        Steps in which a user's contribution is counted (public).
    statistic : {"regret", "mean"}
        ``"mean"`` is per-user averaging: right for panels whose x is a clock, or users known to disagree.
    tau : int, table or function, optional
        A public clip in records instead of the one that follows the number of users.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> learner = RegretSelection(Thresholds(), epsilon=1, public_n_users=3)
    >>> str(learner.guarantee)
    '(1, 0)-DP per user, add-remove'
    >>> learner.law(people).mode
    4
    """

    public_n_users: int | None = field(
        default=None, converter=whole_or_none, metadata=bounds(minimum=0, maximum=COUNT_CAP)
    )
    levels: int = field(default=DEFAULT_LEVELS, converter=whole, metadata=bounds(maximum=1 << 31))
    statistic: str = field(default="regret", validator=either("regret", "mean"))
    tau: Table | None = field(default=None, converter=_read_tau)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.tau is not None and self.statistic == "mean":
            raise ParameterError("statistic='mean' has no clip; leave tau out")
        if self.needs_count:
            self._count()  # its own limits on epsilon, before anything is spent

    # The split of the budget

    @property
    def needs_count(self) -> bool:
        """Whether a noisy count of the users has to be bought for the clip."""
        follows = (
            self.statistic == "regret" and self.tau is None and self.public_n_users is None and not self.fixed_clip
        )
        return follows and self.neighbours is Neighbours.ADD_REMOVE and self.epsilon > 0

    @property
    def fixed_clip(self) -> bool:
        """Whether the clip is the same for every number of users: with at most two records ``k*k >= m`` alone makes it
        ``m``."""
        return self.unit is Unit.ITEM or (self.max_records is not None and self.max_records <= 2)

    @property
    def epsilon_count(self) -> Fraction:
        return self.epsilon * COUNT_SHARE if self.needs_count else Fraction(0)

    @property
    def epsilon_selection(self) -> Fraction:
        return self.epsilon - self.epsilon_count

    @property
    def theta(self) -> Fraction:
        """The per-user privacy of the selection: ``eta * levels``."""
        return self.rate(self.epsilon_selection, 1)

    @property
    def guarantee(self) -> Guarantee:
        bought = f"noisy count of users ({self.epsilon_count}) and selection ({self.epsilon_selection})"
        how = (bought,) if self.needs_count else ()
        rho = self.epsilon_count**2 / 2 + self.epsilon_selection**2 / 8
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=rho, derivation=how)

    # Laws

    def statistic_for(self, bound: Bound, n_users: int) -> Statistic:
        """The per-user statistic, given the public number of users."""
        if self.statistic == "mean":
            return Mean(self.levels)
        if self.tau is not None:
            return Regret(self.tau, self.levels)
        return Regret(ClipRule(self.theta, n_users, bound.concept.bits), self.levels)

    def count_law(self, data: Users, cap: int = COUNT_CAP) -> Law:
        """The law of the noisy count, clamped to ``0..cap``."""
        return self._count().law(count_users(data), bounds=(0, cap))

    def _count(self) -> Laplace:
        return Laplace(self.epsilon_count, 1, unit=self.unit, neighbours=self.neighbours)

    def law(self, data: Users, given: int | None = None) -> Law:
        """The law over rule ids, given the number of users the clip follows (``given``, where it is drawn)."""
        bound = self.bind(data)
        if given is None and self.needs_count:
            raise TooLargeError(
                "the clip follows a noisy count: pass given=N for the law given N, or declare public_n_users"
            )
        n = self._public_count(bound) if given is None else positive_int(given, "given", minimum=0)
        return profile_of(bound, self.statistic_for(bound, n)).law(self.rate(self.epsilon_selection, self.levels))

    def _public_count(self, bound: Bound) -> int:
        """N without a draw: declared, or public under replace (users without records included)."""
        if self.public_n_users is not None:
            return self.public_n_users
        return count_users(bound.users) if self.neighbours is Neighbours.REPLACE else 0

    def draw(self, bound: Bound, rng: Rng) -> Released:
        shown: dict[str, object] = {"statistic": self.statistic, "levels": self.levels}
        if self.needs_count:
            noisy = self._count().sample(count_users(bound.users), rng)
            n_users = min(max(noisy, 0), COUNT_CAP)
            shown |= {"noisy_n_users": n_users, "epsilon_count": self.epsilon_count}
        else:
            n_users = self._public_count(bound)
            if self.tau is not None:
                shown["tau"] = shown_table(self.tau)
            elif self.statistic == "regret" and not self.fixed_clip:
                shown["public_n_users"] = n_users
        eta = self.rate(self.epsilon_selection, self.levels)
        chosen = drawn_id(bound, self.statistic_for(bound, n_users), eta, rng)
        return self.release_id(bound, chosen, shown, "clipped-regret selection")


# What certificates of clipped votes read and search for.
#
# The learner scores a rule by ``floor(levels * min(r, tau) / tau)`` per user, ``r`` the user's mistakes above the
# user's own best rule, and selects with per-user privacy ``theta`` (``lambda * levels``): ``epsilon`` under add-remove,
# ``epsilon / 2`` under replace, after the share of a noisy count where one is taken (:func:`regret_split`).
# Certificates take the clip ``tau`` in use as an integer.


def read_theta(value: Rational) -> float:
    """The rate at which votes are weighed."""
    rate = positive(value, "theta")
    if rate > MAX_EPSILON:
        raise ParameterError(f"theta must be at most {MAX_EPSILON}, got {value}; beyond that nothing is protected")
    return rate


def read_record_count(value: int, most: int) -> int:
    """Records per user, as many as the certificate is computed for."""
    m = positive_int(value, "records_per_user")
    if m > most:
        raise TooLargeError(
            f"this certificate is computed for at most {most} records per user, got {m}; declare max_records"
        )
    return m


def read_clip(value: int, records: int) -> int:
    """A clip that is no larger than what a user holds."""
    clip = positive_int(value, "tau")
    if clip > records:
        raise ParameterError(
            f"tau must be at most records_per_user = {records}, got {clip}; larger clips cut nothing off"
        )
    return clip


MAX_REGRET_RECORDS = 4096
"""Records per user up to which certificates by walks are computed; that of regular x stops at a quarter of that."""

NOISE_TOP, ALPHA_BOTTOM = "0.4999999", "1e-9"
"""Closer to a coin, or finer, nothing useful is certified."""

TILTS = 64
"""``theta'`` runs over this many equal steps up to ``theta``, then closer to the best of them."""


def best_tilt(rates: Callable[[Floats64], Floats64], theta: float, enough: float = math.inf) -> tuple[float, float]:
    """The largest rate over ``0 < theta' <= theta`` and where it is; every ``theta'`` proves its rate, so this is a
    matter of search.

    Halves of ``theta``, until one has the rate ``enough``; then equal steps, and ever finer ones around the best.
    Equal steps alone move with ``theta`` and would certify more users for a larger budget.
    """
    halves = theta * 2.0 ** -np.arange(12.0)
    for tilt in halves[:3] if enough < math.inf else ():
        rate = float(rates(np.array([tilt]))[0])
        if rate >= enough:
            return rate, float(tilt)
    grid = np.unique(np.concatenate([theta * np.arange(1, TILTS + 1) / TILTS, halves]))
    found, place = 0.0, theta
    for _ in range(4):
        tried = rates(grid)
        best = int(np.argmax(tried))
        if tried[best] > found:
            found, place = float(tried[best]), float(grid[best])
        if not found:
            break
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
        grid = np.linspace(low if best else low / 2, high, 17)
    return found, place


def needed(log_ratio: float, users: int | None) -> float:
    """The rate at which so many users are certified."""
    return math.inf if users is None else log_ratio * (1 + 2 * SLACK) / max(1, users)


@frozen(slots=False)
class RegretSplit:
    """``count_epsilon`` for a noisy number of users, ``selection_epsilon`` for the rule, and ``theta = lambda *
    levels``."""

    count_epsilon: Fraction
    selection_epsilon: Fraction
    theta: Fraction


def regret_split(epsilon: Rational, neighbours: Neighbours | str, public_n_users: int | None = None) -> RegretSplit:
    """How the budget is divided: 1/16 buys a count under add-remove when no number of users is declared, and nothing
    otherwise.

    Under replace the number of users is public.  A declared 0 is a declaration (the clip then ignores the number of
    users).

    >>> regret_split(1, "add-remove").theta, regret_split(1, "add-remove", 500).theta, regret_split(1, "replace").theta
    (Fraction(15, 16), Fraction(1, 1), Fraction(1, 2))
    """
    total, relation = rational(epsilon, "epsilon", above=0), one_of(Neighbours, neighbours, "neighbours")
    if public_n_users is not None:
        positive_int(public_n_users, "public_n_users", minimum=0)
    counted = relation is Neighbours.ADD_REMOVE and public_n_users is None
    count = total * COUNT_SHARE if counted else Fraction(0)
    selection = total - count
    # One user moves every score within 0..levels; a replacement is two such moves.
    return RegretSplit(count, selection, selection if relation is Neighbours.ADD_REMOVE else selection / 2)


def amplification(records_per_user: int, tau: int) -> Fraction:
    """``m / tau``, at least 1: how much louder a user speaks than under the per-user mean."""
    return max(Fraction(1), Fraction(positive_int(records_per_user, "records_per_user"), positive_int(tau, "tau")))


def regret_bias_bound(*, records_per_user: int, tau: int, best_error: Rational, own_error: Rational = 0) -> Fraction:
    """Excess error of the rule that the clipped score prefers with infinitely many users, for users of any kind.

    With ``o = own_error`` the mean over users of their own least error rate and ``A`` the amplification (for unequal
    users: the largest one), ``r/m <= min(r, tau)/tau <= A r/m`` gives ``err - o <= A (best_error - o)``, that is an
    excess of at most ``(A - 1)(best_error - o)``; 0 for the mean.

    >>> regret_bias_bound(records_per_user=16, tau=4, best_error="1/10", own_error="1/20")
    Fraction(3, 20)
    """
    loudness = amplification(records_per_user, tau)
    best_error = rational(best_error, "best_error", minimum=0, maximum=1)
    own = rational(own_error, "own_error", minimum=0, maximum=1)
    if own > best_error:
        raise ParameterError(
            f"own_error = {own} exceeds best_error = {best_error}; nobody's own best rule is worse than a shared one"
        )
    return min((loudness - 1) * (best_error - own), 1 - best_error)


# Users that clipped-regret selection needs for thresholds when label noise is bounded.
#
# The learner scores a rule ``h`` by ``X = (min(r(h), tau) - min(r(h*), tau)) / tau`` per user, ``r`` the user's
# mistakes above the user's own best rule, and ``Pr[output h] <= f**n`` with ``f >= E exp(-theta' X)`` for any ``0 <
# theta' <= theta``, so ``n >= ln(|H|/beta) / -ln f``.
#
# **Assumption of both certificates**: all users draw ``records_per_user`` records from one law, each label is wrong
# with probability at most ``noise < 1/2`` at every x, independently given x, and ``noise`` is declared.  (If the noise
# also differs between users while the x law is shared, call with ``alpha * (1 - 2 noise)`` for ``alpha``.)  The clip
# ``tau`` must be the one in use for that many records.
#
# Notation of the code: ``q = noise / (1 - noise)``, ``t = theta' / tau``; for a rule with excess error in ``[a1, a2]``
# the difference of mistakes to the best rule is bounded by a walk ``W`` with up-probability ``p+ = a1 + p-`` and
# down-probability ``p- = min(noise a2 / (1 - 2 noise), (1 - a1) / 2)``; ``E(u) = E exp(-t min(W, u))`` and ``D = min(1,
# a2 / (1 - 2 noise))``.

_ASSUMES_NOISE = (
    "thresholds, users with the same law and equally many records, each label wrong with probability at most {noise} "
    "at every x"
)


def _read_noise(
    m: int, tau: int, noise: Rational, alpha: Rational, beta: Rational, theta: Rational, levels: int
) -> tuple[int, int, float, float, float, float, int]:
    records = read_record_count(m, MAX_REGRET_RECORDS)
    clip, rate = read_clip(tau, records), read_theta(theta)
    wrong = float(rational(noise, "noise", minimum=0, maximum=NOISE_TOP))
    excess = open_unit(rational(alpha, "alpha", minimum=ALPHA_BOTTOM), "alpha")
    return records, clip, wrong, excess, open_unit(beta, "beta"), rate, positive_int(levels, "levels")


# The law of a walk with steps +1, 0, -1, accurate in both tails.
#
# A user's mistakes of a rule, less those of the best rule, are such a walk.  Its law is the coefficient sequence of
# ``(p- + p0 x + p+ x**2)**m``.  The ratios ``r`` of neighbouring coefficients obey
#
#     (k+1) p- r[k+1] = (m-k) p0 + (2m-k+1) p+ / r[k]
#
# with only positive terms up to ``k = m``, so each ratio is right to a few units in the last place; the other half is
# the same sequence read from the other end.  Logarithms are summed outward from the middle, so that nothing underflows.

_NONE = 1e-200
"""Stands for a probability 0 of a step back; its effect is far below the rounding error."""

_NEVER_STILL = 1e-13
"""Least probability of standing still.  It is taken from the step up, which only makes the walk smaller: the safe
side."""


@frozen(slots=False)
class Walks:
    """One law per row: ``up[:, w]`` is ``ln Pr[W = w]`` from 0 on, ``down[:, w-1]`` is ``ln Pr[W = -w]`` from 1 on."""

    up: Floats64
    down: Floats64


def walks(steps: int, plus: Floats64, minus: Floats64) -> Walks:
    """The laws of walks of ``steps`` steps, up with probability ``plus[i]`` and down with ``minus[i]``."""
    minus = np.maximum(minus, _NONE)
    still = np.maximum(1 - plus - minus, _NEVER_STILL)
    plus = np.maximum(1 - still - minus, _NONE)
    # From the upper end up and down change places; the last ratio of either end is the step next to the middle.
    down = -np.cumsum(_log_ratios(steps, plus, minus, still)[:, ::-1], axis=1)
    up = -np.cumsum(_log_ratios(steps, minus, plus, still)[:, ::-1], axis=1)
    up = np.concatenate([np.zeros((len(plus), 1)), up], axis=1)
    top = np.maximum(up.max(axis=1), down.max(axis=1))[:, None]
    total = np.log(np.exp(up - top).sum(axis=1) + np.exp(down - top).sum(axis=1))[:, None] + top
    return Walks(up - total, down - total)


def _log_ratios(steps: int, plus: Floats64, minus: Floats64, still: Floats64) -> Floats64:
    """``ln(c[k] / c[k-1])`` for k = 1..steps, rows by k, from the end where every step is down."""
    k = np.arange(steps)[:, None]
    stay = (steps - k) / (k + 1) * (still / minus)
    lift = (2 * steps - k + 1) / (k + 1) * (plus / minus)
    lift[0] = 0.0
    ratios = np.ones((steps, len(plus)))
    current = ratios[0].copy()
    for row, s, r in zip(ratios, stay, lift):
        np.divide(r, current, out=row)
        row += s
        current = row
    return np.log(ratios.T)


def cells(alpha: float, noise: float) -> tuple[Floats64, Floats64]:
    """``[alpha 2**(k/8), alpha 2**((k+1)/8)]`` up to ``1 - 2 noise``, the largest excess under noise everywhere.

    A larger excess (less noise than declared) has a walk that dominates the last cell's.  If ``alpha`` is beyond the
    top, one cell.
    """
    top = 1 - 2 * noise
    if alpha >= top:
        return np.array([alpha]), np.array([alpha])
    count = max(1, math.ceil(8 * math.log2(top / alpha) - 1e-9))
    edges = alpha * 2 ** (np.arange(count + 1) / 8)
    edges[-1] = top
    return edges[:-1], edges[1:]


def _steps(a1: Floats64, a2: Floats64, noise: float) -> tuple[Floats64, Floats64]:
    minus = np.minimum(noise * a2 / (1 - 2 * noise), (1 - a1) / 2)
    return a1 + minus, minus


def _unclipped(records: int, plus: Floats64, minus: Floats64, tilt: Floats64) -> Floats64:
    """``E exp(-t W)``, rows by tilts: nothing is cut off when ``tau`` is the number of records."""
    step = plus[:, None] * np.expm1(-tilt) + minus[:, None] * np.expm1(np.minimum(tilt, 700.0))
    return np.asarray(np.exp(np.minimum(records * np.log1p(step), 700.0)))


def _back(law: Walks, tilt: Floats64) -> Floats64:
    """``E[exp(-t W); W < 0]``, rows by tilts, in logarithms: the weight grows as fast as the probability falls."""
    depth = np.arange(1, law.down.shape[1] + 1)
    deepest = law.down + tilt[-1] * depth
    kept = int(np.max(np.flatnonzero((deepest > -60).any(axis=0)), initial=0)) + 1
    down, depth = law.down[:, :kept], depth[:kept]
    return np.stack([np.exp(np.minimum(down + t * depth, 600.0)).sum(axis=1) for t in tilt], axis=1)


def _factor(
    law: Walks, back: Floats64, records: int, tau: int, reach: int, spread: Floats64, q: float, theta: Floats64
) -> Floats64:
    """``f``, rows by tilts, for ``reach = tau`` (or ``tau`` less the records between best rule and comparison rule).

    f = (1-q) sum_{0<=j<reach} q**j E(reach-j) + q**reach E(0)
        + exp(-theta') sum_{1<=j<=tau} (e**(t j) - e**(t (j-1))) q**j Pr[Bin(records, spread) > tau + j]
        + q**(tau+1) (E(0) - exp(-theta'))
    """
    tilt = theta / tau
    mass = np.exp(law.up)
    at_zero = mass.sum(axis=1)[:, None] + back
    if reach <= 0:
        first = at_zero
    else:
        # The first line is E exp(-t min(W, U)) with Pr[U = reach - j] = (1-q) q**j, Pr[U = 0] = q**reach: one weight
        # per W >= 0.
        u = np.arange(reach + 1)
        falling = np.exp(-np.outer(u, tilt))
        survival = np.concatenate([[1.0], 1 - q ** (reach - u[1:] + 1.0)])[:, None]
        law_u = np.concatenate([[q**reach], (1 - q) * q ** (reach - u[1:].astype(float))])[:, None]
        weight = survival * falling + np.concatenate(
            [np.zeros((1, len(tilt))), np.cumsum(law_u * falling, axis=0)[:-1]]
        )
        width = min(reach, mass.shape[1] - 1)
        first = mass[:, :width] @ weight[:width] + mass[:, width:].sum(axis=1)[:, None] * weight[width] + back
    if q == 0:
        return np.asarray(first)
    j = np.arange(1, min(tau, records - tau - 1) + 1)
    beyond = (
        betainc(tau + j + 1.0, (records - tau - j).astype(float), spread[:, None])
        if len(j)
        else np.zeros((len(spread), 0))
    )
    inner = q ** j[:, None] * np.exp(np.outer(j, tilt) - theta) * -np.expm1(-tilt)
    return np.asarray(first + beyond @ inner + q ** (tau + 1) * (at_zero - np.exp(-theta)))


@lru_cache(maxsize=32)
def _cell_steps(noise: float, alpha: float) -> tuple[Floats64, Floats64]:
    return _steps(*cells(alpha, noise), noise)


@lru_cache(maxsize=32)
def _cell_walks(records: int, noise: float, alpha: float) -> Walks:
    return walks(records, *_cell_steps(noise, alpha))


def regret_factors(m: int, tau: int, noise: float, alpha: float, grid: Floats64) -> Floats64:
    """``f`` for every ``theta'`` of the grid: the largest over the cells of excess error from ``alpha`` on."""
    if tau >= m:
        return np.asarray(_unclipped(m, *_cell_steps(noise, alpha), grid / tau).max(axis=0))
    _, a2 = cells(alpha, noise)
    law = _cell_walks(m, noise, alpha)
    spread = np.minimum(1, a2 / (1 - 2 * noise))
    return np.asarray(_factor(law, _back(law, grid / tau), m, tau, tau, spread, noise / (1 - noise), grid).max(axis=0))


def certify_regret_bounded_noise(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    log_size: Rational,
    noise: Rational,
    levels: int,
    enough: int | None = None,
) -> Certificate:
    """Users for excess error at most ``alpha`` with probability ``1 - beta``: thresholds, bounded label noise, any law
    of x.

    Moving away from the best cut, mistakes make a walk with up-steps more likely than down-steps; the user's own
    advantage is the best gain on the far side, inside, or beyond; ``exp(-t min(a, u))`` is convex and falling, so full
    noise everywhere is the worst case.  ``f`` is the largest over cells of excess error, minimised over ``theta'``.
    When ``tau`` does not divide ``levels``, rounding costs at most ``1/levels`` per user: ``f exp(theta'/levels)``.

    ``theta`` is the privacy of the selection per user, ``lambda * levels`` (``regret_split``).  ``noise = 0`` is the
    realizable case; ``tau = records_per_user`` is the per-user mean and always certifies.  ``n_users`` is ``None`` when
    ``f >= 1``.  ``enough``: the search for ``theta'`` ends once so many users are certified.
    """
    m, t, noise_, alpha_, beta_, theta_, levels_ = _read_noise(records_per_user, tau, noise, alpha, beta, theta, levels)
    log_ratio = log_size_of(log_size) - math.log(beta_)

    def rates(grid: Floats64) -> Floats64:
        return np.asarray(
            -np.log(regret_factors(m, t, noise_, alpha_, grid) * (1 + SLACK)) - (grid / levels_ if levels_ % t else 0.0)
        )

    rate, tilt = best_tilt(rates, theta_, needed(log_ratio, enough))
    return Certificate.upper(
        users_for(log_ratio, rate),
        "regret selection, bounded noise",
        _ASSUMES_NOISE.format(noise=noise),
        tau=t,
        records_per_user=m,
        tilt=tilt,
    )


def certify_regret_regular(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    size: int,
    noise: Rational,
    kappa: Rational = 1,
    levels: int,
) -> Certificate:
    """As :func:`certify_regret_bounded_noise`, without ``ln |H|``, when cuts and x-mass are spread alike; exponential
    law only.

    **Further assumption**: for any two cuts, the share of cuts between them and the x-mass between them differ by at
    most the declared factor ``kappa``.  A bad cut is compared with the average of the ``|V|`` cuts within mass ``rho``
    of the best one on its side (Jensen), so only the number of cuts *at each distance* counts: ``n`` is the least with
    ``sum_k cuts_k f_k**n <= beta |V|``, the best of ``rho = alpha/2, ..., alpha/32``.  ``n_users`` is ``None`` when
    some ``f_k >= 1`` for each ``rho``.
    """
    m, t, noise_, alpha_, beta_, theta_, levels_ = _read_noise(records_per_user, tau, noise, alpha, beta, theta, levels)
    read_record_count(m, MAX_REGRET_RECORDS // 4)
    spread = float(rational(kappa, "kappa", minimum=1, maximum=10**9))
    rules = positive_int(size, "size", maximum=1 << 1000)
    a1, a2 = cells(alpha_, noise_)
    # Cuts per cell, nearest first, all of them; those beyond the last cell (less noise than declared) count with it.
    scale = float(rules) if rules < 1 << 1000 else math.inf
    share = np.minimum(1.0, 2 * (spread * (a2 - a1) / (1 - 2 * noise_) + 1 / scale)) * (1 + SLACK)
    filled = np.minimum(1.0, np.cumsum(share))
    filled[-1] = 1.0
    with np.errstate(divide="ignore"):
        log_cuts = np.log(np.diff(filled, prepend=0.0)) + math.log(rules)
    rounding = theta_ / levels_ if levels_ % t else 0.0

    def users(rho: float, factors: Floats64) -> int | None:
        """The least ``n`` with ``sum cuts f**n <= beta |V|``."""
        near = max(1, math.floor(rational(rho) * rules / rational(kappa) * (1 - rational(SLACK))))
        log_f = np.log(factors * (1 + SLACK)) + rounding
        if (log_f[np.isfinite(log_cuts)] >= 0).any():
            return None
        # Scaled so that nothing overflows: each term is at most 1 once the condition holds.
        level = log_cuts - (math.log(beta_) + math.log(near)) + SLACK
        return least(lambda n: float(np.exp(np.minimum(level + n * log_f, 1.0)).sum()) <= 1)

    # With no record between the two cuts the factor is a lower bound of f_k, hence its n of the final n: most promising
    # rho first.
    shares = [alpha_ / share for share in (2, 4, 8, 16, 32)]
    promise = {rho: users(rho, _regular_factor(m, 0, t, noise_, alpha_, theta_, rho)) for rho in shares}
    found: tuple[int, float] | None = None
    for at_least, rho in sorted((n, rho) for rho, n in promise.items() if n is not None):
        if found is None or at_least < found[0]:
            n = users(rho, _regular_factors(m, t, noise_, alpha_, theta_, rho))
            if n is not None and (found is None or n < found[0]):
                found = n, rho
    return Certificate.upper(
        found and found[0],
        "regret selection, regular x",
        _ASSUMES_NOISE.format(noise=noise) + f", cuts and x-mass spread alike up to a factor {kappa}",
        tau=t,
        records_per_user=m,
        rho=found and found[1],
    )


@lru_cache(maxsize=256)
def _regular_factors(m: int, tau: int, noise: float, alpha: float, theta: float, rho: float) -> Floats64:
    """``f_k`` for every cell: average over the number ``i`` of own records between best and comparison cut of the worst
    factor so far."""
    cap = math.exp(theta)
    tails = binom.sf(np.arange(m + 1), m, rho)
    last = int(np.argmax(tails < 1e-12))
    shares = binom.pmf(np.arange(last + 1), m, rho)
    total: Floats64 = np.zeros(len(cells(alpha, noise)[0]))
    worst = total
    for i in range(last + 1):
        worst = np.maximum(worst, np.minimum(_regular_factor(m, i, tau, noise, alpha, theta, rho), cap))
        total = total + shares[i] * worst
    return np.asarray(total + tails[last] * cap)


def _regular_factor(m: int, i: int, tau: int, noise: float, alpha: float, theta: float, rho: float) -> Floats64:
    """``f`` for ``m - i`` records, with ``tau - i`` for ``tau`` in its first line; 1 when no record is left."""
    low, high = _regular_cells(alpha, noise, rho)
    if i == m:
        return np.ones(len(low))
    grid = np.array([theta])
    if tau >= m:
        return _unclipped(m - i, *_steps(low, high, noise), grid / tau)[:, 0]
    law = _regular_walks(m - i, noise, alpha, rho)
    spread = np.minimum(1.0, high / (1 - 2 * noise))
    return _factor(law, _back(law, grid / tau), m - i, tau, tau - i, spread, noise / (1 - noise), grid)[:, 0]


def _regular_cells(alpha: float, noise: float, rho: float) -> tuple[Floats64, Floats64]:
    """Excess over a comparison cut within mass ``rho`` of the best one, given that the record is not between the
    two."""
    a1, a2 = cells(alpha, noise)
    return np.maximum(0.0, a1 - rho), np.minimum(a2 / (1 - rho), 1 - 2 * noise)


@lru_cache(maxsize=128)
def _regular_walks(records: int, noise: float, alpha: float, rho: float) -> Walks:
    low, high = _regular_cells(alpha, noise, rho)
    return walks(records, *_steps(low, high, noise))


# Users that clipped-regret selection needs whatever the labels do, for clips as small as sqrt m: the coin bias is
# charged, not refused.
#
# The learner scores a rule ``h`` by ``min(r, tau)`` per user, ``r`` the user's mistakes above the user's own best cut.
# With ``h*`` the best cut of the population, ``a`` the difference of mistakes of ``h`` and ``h*``, ``b = r(h*)`` and
# ``d = E a / m`` the excess error of ``h``,
#
#     tau X   =  min(r(h), tau) - min(b, tau)
#     E tau X >= m d - E(r(h) - tau)+
#     E tau X >= E min(a, tau) - E min(b, tau)
#
# A clip of sqrt m favours extreme rules a little when labels are coins, so below some excess, the *bias*, nothing can
# be certified.  The bias is small because of
#
# **Theorem (coins are the worst optimism).**  Thresholds, m independent records of any law, ``h`` of excess error
# ``d``. Then ``r(h)`` is stochastically at most ``max(Z + M_k, Z' + M'_{m-k})`` for a random ``k``, where ``M_k`` is
# the maximum of a fair +-1 walk of ``k`` steps, ``Z`` and ``Z'`` are Bin(m, 1 - sqrt(1 - 2d)) (1 if ``d > 1/2``) and
# all are independent.  For ``h*`` (``d = 0``): own optimism is at most that of a user whose labels are fair coins,
# exactly and for every m.
#
# *Proof.*  Walk from h to the right.  A record with label 0 gains 1, one with label 1 loses 1; let D(c), U(c) be their
# masses up to the cut c.  No cut is better than h by more than d, so ``U(c) >= D(c) - d``.  Give each gain a rank
# uniform within its jump of D and each loss one within its jump of U.  Then the gain of c is
#
#     #{gains of rank <= D(c)} - #{losses of rank <= U(c)}
#         <= Z + #{gains of rank in (d, D(c)]} - #{losses of rank <= D(c) - d},   Z = #{gains of rank <= d}.
#
# Ranks of gains beyond d, less d, and ranks of losses up to ``D(inf) - d`` have the same uniform law: read by rank they
# are a fair walk.  The left side is the same.  So each record is free on the left or free on the right (mass at most d
# each), a step on the left or on the right (masses p, p'; p + p' <= 1 - 2d where both sides have steps), or idle.  Give
# each record independent marks instead: free left and free right with probability ``f = 1 - sqrt(1 - 2d)`` each, and
# always one step, on the left with probability ``p/(p + p')``.  More marks only make the maximum larger, and marks that
# contain the kind exist by Hall's condition: ``f >= d``, ``(1-f)**2 = 1 - 2d``, and with s = p/(p+p') the subsets of
# kinds need ``(1-f)(1-s) <= 1 - d - p``, ``(1-f) s <= 1 - d - p'`` and ``(1-2d)(1-s) <= 1 - 2d - p``, linear in s and
# true at s = 0 and 1.  Where one side has no steps, s is 0 or 1 and they are trivial.  Given the numbers of steps, k
# and m - k, everything is independent.  []
#
# So ``E(r(h) - tau)+`` and ``E min(b, tau)`` are at most the largest over k of sums of survival functions, computed
# exactly (reflection principle, convolution), with k in cells (the larger walk on either side).  Nothing depends on the
# number of cuts.  ``a`` is at most a fair-size walk in convex order: E min(a, tau) is least, and E a- largest, for
# steps +-1 of mean d.

LEAST_EXCESS = 1e-5
"""Excess errors are told apart down to this."""

_SIDES = 16
_TILTS: Floats64 = 100 * 2.0 ** (-np.arange(240) / 8)
_ROUNDING = 1e-9
"""In records per user: far above the error of the convolutions."""


def coin_bias(*, records_per_user: int, tau: int) -> Fraction:
    """An excess error above which the clipped score prefers the best cut, whatever the law that all users share.

    With infinitely many users the selected cut has at most this excess.  0 for the mean (``tau = records_per_user``); 1
    when nothing can be said.

    >>> [round(float(coin_bias(records_per_user=256, tau=tau)) * 16, 3) for tau in (16, 24, 32, 256)]
    [0.266, 0.065, 0.016, 0.0]
    """
    m = read_record_count(records_per_user, MAX_REGRET_RECORDS)
    clip = read_clip(tau, m)
    if clip >= m:
        return Fraction(0)
    cells = _cells(m)
    failing = np.flatnonzero(_gain(m, clip, cells.low, cells.over[:, clip]) <= _ROUNDING)
    return Fraction(float(cells.high[failing[-1]]) if len(failing) else LEAST_EXCESS)


def certify_regret_coin(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    log_size: Rational,
    levels: int,
) -> Certificate:
    """Users for excess error at most ``alpha`` with probability ``1 - beta``, with no assumption on the labels.

    **Assumption**: thresholds, all users have ``records_per_user`` records from one law.  For ``theta' <= theta`` and
    every cut of excess ``d >= alpha``, ``Pr[output] <= (E exp(-theta' X))**n`` and ``E exp(-theta' X) <= 1 - w`` with

        w = max{theta' gamma - (e**theta' - 1 - theta') v,  (1 - e**-theta') gamma - (e**theta' + e**-theta' - 2) u},

    where ``gamma`` bounds ``E X`` from below (:func:`coin_bias`), ``v = min(1, (m + (m d)**2)/tau**2)`` its second
    moment and ``u`` its negative part from above.  The best ``theta'`` for each cell of ``d`` (ratio 1.007 or 1.03),
    then the worst cell.  Rounding to ``levels`` steps costs ``exp(theta'/levels)`` when ``tau`` does not divide them.
    ``n_users`` is ``None`` when ``alpha`` is below :func:`coin_bias`.

    >>> given = dict(theta=1, alpha=0.05, beta=0.1, log_size=math.log(1025), levels=840)
    >>> [certify_regret_coin(records_per_user=256, tau=tau, **given).n_users for tau in (16, 32, 64)]
    [427, 58, 70]
    """
    m = read_record_count(records_per_user, MAX_REGRET_RECORDS)
    clip = read_clip(tau, m)
    excess = open_unit(rational(alpha, "alpha", minimum=Fraction(LEAST_EXCESS)), "alpha")
    return _certify(m, clip, theta, excess, beta, log_size, levels, "regret selection, coin optimism", {})


def certify_regret_charged(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    log_size: Rational,
    levels: int,
) -> Certificate:
    """Users for excess error at most ``coin_bias + alpha`` with probability ``1 - beta``: the same, with the bias
    charged.

    ``certificate["bias"]`` is :func:`coin_bias` and ``certificate["excess"]`` the promise, their sum.  ``n_users`` is
    ``None`` when the sum is 1 or more.

    >>> given = dict(theta=1, alpha=0.02, beta=0.1, log_size=math.log(1025), levels=840)
    >>> found = certify_regret_charged(records_per_user=256, tau=16, **given)
    >>> found.n_users, round(float(found["excess"]), 4)
    (502, 0.0366)
    """
    m = read_record_count(records_per_user, MAX_REGRET_RECORDS)
    clip = read_clip(tau, m)
    more = rational(alpha, "alpha", minimum=Fraction(LEAST_EXCESS), below=1)
    bias = coin_bias(records_per_user=m, tau=clip)
    promise = bias + more
    notes: dict[str, object] = {"bias": bias, "excess": promise}
    name = "regret selection, bias charged"
    if promise >= 1:
        open_unit(beta, "beta"), log_size_of(log_size), read_theta(theta), positive_int(levels, "levels")
        return Certificate.upper(None, name, _ASSUMES, tau=clip, records_per_user=m, **notes)
    return _certify(m, clip, theta, float(promise), beta, log_size, levels, name, notes)


_ASSUMES = "thresholds, users with the same law and equally many records"


def _certify(
    m: int,
    tau: int,
    theta: Rational,
    excess: float,
    beta: Rational,
    log_size: Rational,
    levels: int,
    name: str,
    notes: dict[str, object],
) -> Certificate:
    rate, steps = read_theta(theta), positive_int(levels, "levels")
    log_ratio = log_size_of(log_size) - math.log(open_unit(beta, "beta"))
    cells = _cells(m)
    kept = cells.high > excess
    low, high = np.maximum(cells.low[kept], excess), cells.high[kept]
    gamma = _gain(m, tau, low, cells.over[kept, tau]) / tau
    v = np.minimum(1.0, (m + (m * high) ** 2) / tau**2)
    u = np.minimum(1.0, _shortfall(m, 0, low) / tau)
    t = np.minimum(rate, _TILTS)[:, None]
    w = np.clip(_moment(t, gamma, v, u) - SLACK, 0.0, 1 - SLACK)
    # Each bad rule may take its own theta'; the slowest cell rules.
    speed = -np.log1p(-w) - (t / steps if steps % tau else 0.0)
    n = users_for(log_ratio, float(speed.max(axis=0).min()))
    return Certificate.upper(n, name, _ASSUMES, tau=tau, records_per_user=m, **notes)


def _moment(t: Floats64, gamma: Floats64, v: Floats64, u: Floats64) -> Floats64:
    """``w`` with ``E exp(-t X) <= 1 - w``: mean at least ``gamma``, second moment at most ``v``, ``E X- <= u``."""
    return np.maximum(t * gamma - (np.expm1(t) - t) * v, -np.expm1(-t) * gamma - (2 * np.cosh(t) - 2) * u)


def _gain(m: int, tau: int, low: Floats64, over: Floats64) -> Floats64:
    """A lower bound of ``E tau X`` on cells of excess from ``low`` on, where clipping takes at most ``over``."""
    clipped = m * low - over
    if tau >= m:
        return np.asarray(clipped)
    direct = tau - _shortfall(m, tau, low) - _own_optimism(m)[tau]
    return np.asarray(np.maximum(clipped, direct) - _ROUNDING)


def _shortfall(m: int, t: int, d: Floats64) -> Floats64:
    """``E(t - a)+`` for ``a = 2 Bin(m, (1+d)/2) - m``: with K = floor((m+t)/2), (m+t) Pr[Bin(m) <= K] - 2 m p
    Pr[Bin(m-1) <= K - 1]."""
    p, k = (1 + d) / 2, (m + t) // 2
    most = betainc(m - k, k + 1, 1 - p) if k < m else np.ones_like(p)
    less = (betainc(m - k, k, 1 - p) if k < m else np.ones_like(p)) if k > 0 else np.zeros_like(p)
    return np.asarray(np.maximum((m + t) * most - 2 * m * p * less, 0.0))


@lru_cache(maxsize=16)
def _sides(m: int) -> tuple[Floats64, Floats64]:
    """``Pr[M >= j]``, j = 0..m, for the longer walks of each cell of k: rows of the two sides."""
    edges = sorted(
        {math.floor(m * i * i / (2 * _SIDES**2)) for i in range(_SIDES + 1)} | set(range(min(m // 2, 8) + 1))
    )
    # Cells [0, 0], (0, e1], (e1, e2], ...: at most e steps on one side, at most m - (previous edge) - 1 on the other.
    fewer = np.array([_record_law(e, m) for e in edges])
    rest = np.array([_record_law(m - e, m) for e in [0, *(before + 1 for before in edges[:-1])]])
    return fewer, rest


def _record_law(k: int, top: int) -> Floats64:
    """``Pr[M_k >= j] = Pr[S_k >= j] + Pr[S_k > j]`` for the maximum of a fair walk (reflection)."""
    j = np.arange(top + 1)
    return np.asarray(np.minimum(1.0, binom.sf((k + j + 1) // 2 - 1, k, 0.5) + binom.sf((k + j) // 2, k, 0.5)))


@lru_cache(maxsize=64)
def _own_optimism(m: int) -> Floats64:
    """For every clip ``t``, an upper bound of ``E min(b, t)``, the largest over the cells of k."""
    fewer, rest = _sides(m)
    survival = 1 - (1 - fewer) * (1 - rest)
    return np.append(0.0, np.cumsum(survival[:, 1:], axis=1).max(axis=0))


@frozen(slots=False, eq=False)
class _ExcessCells:
    """Cells of excess error, and for every clip ``t`` an upper bound of ``E(r(h) - t)+`` at their upper ends."""

    low: Floats64
    high: Floats64
    over: Floats64


@lru_cache(maxsize=4)
def _cells(m: int) -> _ExcessCells:
    # Ratio 1.03, and 1.007 around one over sqrt m, where the two bounds of the mean vote meet.
    bends = [LEAST_EXCESS, min(0.25, 0.3 / math.sqrt(m)), min(0.5, 3 / math.sqrt(m)), 1.0]
    runs = [
        np.geomspace(a, b, 1 + math.ceil(math.log(b / a) / ratio))[:-1]
        for a, b, ratio in zip(bends, bends[1:], (0.03, 0.007, 0.03))
    ]
    edges = np.append(np.concatenate(runs), 1.0)
    high = edges[1:]
    # Pr[Z + M >= t] by convolution; sums beyond 2m wrap nowhere.
    width = 1 << (2 * m + 2).bit_length()
    fewer, rest = (
        np.fft.rfft(side - np.append(side[:, 1:], np.zeros((len(side), 1)), axis=1), width) for side in _sides(m)
    )
    over = np.empty((len(high), m + 1))
    for i, d in enumerate(high):
        free = -math.expm1(math.log1p(-2 * d) / 2) if d < 0.5 else 1.0
        law = np.fft.rfft(binom.pmf(np.arange(m + 1), m, free), width)
        ends = [
            np.clip(np.cumsum(np.fft.irfft(law * side, width)[:, 2 * m :: -1], axis=1)[:, ::-1], 0.0, 1.0)
            for side in (fewer, rest)
        ]
        # r is at most m: only t in clip+1..m can be exceeded.
        beyond = (1 - (1 - ends[0]) * (1 - ends[1]))[:, 1 : m + 1]
        over[i] = np.append(np.cumsum(beyond[:, ::-1], axis=1)[:, ::-1].max(axis=0), 0.0)
    return _ExcessCells(edges[:-1], high, over)


_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def certify_regret_agnostic(
    *,
    records_per_user: int,
    tau: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    log_size: Rational,
    levels: int,
    log_class_size: Rational | None = None,
    enough: int | None = None,
) -> Certificate:
    """Users for excess error at most ``alpha`` with probability ``1 - beta``, with no assumption on the labels.

    **Assumption**: all users have ``records_per_user`` records from one law.  ``log_class_size=None`` means thresholds
    (own optimism by the Dvoretzky-Kiefer-Wolfowitz inequality, K = 4); a number means any finite class of that log size
    for the own minimum (union bound).

    With ``c = tau/sqrt m`` and ``s = excess * sqrt m``, the mean of a user's vote is at least ``gamma(s)``, its second
    moment at most ``v`` and its negative part at most ``u``, hence ``E exp(-theta' X) <= 1 - w`` with the least over
    ``s`` of the ``w`` of :func:`certify_regret_coin`.  The minimum runs over cells of ratio 1.01 in ``s`` (each
    quantity at its worse end), ``theta'`` up to ``theta``; rounding to ``levels`` steps costs ``exp(theta'/levels)`` if
    ``tau`` does not divide them.  ``n_users`` is ``None`` when ``w <= 0``, as for ``tau = ceil(sqrt m)``, whose coin
    bias is real.  ``enough``: the search for ``theta'`` ends once so many users are certified.
    """
    m = positive_int(records_per_user, "records_per_user", maximum=1 << 50)
    clip = read_clip(tau, m)
    rate, steps = read_theta(theta), positive_int(levels, "levels")
    excess = open_unit(rational(alpha, "alpha", minimum=ALPHA_BOTTOM), "alpha")
    log_ratio = log_size_of(log_size) - math.log(open_unit(beta, "beta"))
    log_k = math.log(4) if log_class_size is None else log_size_of(log_class_size, "log_class_size")
    optimism = 2 * math.sqrt(2 / math.pi) if log_class_size is None else math.sqrt(2 * log_k)
    gamma, v, u = _moments(m, clip, excess, log_k, optimism)

    def speeds(tilts: Floats64) -> Floats64:
        t = tilts[:, None]
        w = _moment(t, gamma, v, u).min(axis=1) - SLACK
        usable = (w > 0) & (w < 1)
        return np.where(usable, -np.log1p(-np.where(usable, w, 0.0)) - (tilts / steps if steps % clip else 0.0), 0.0)

    found, tilt = best_tilt(speeds, rate, needed(log_ratio, enough))
    who = "thresholds" if log_class_size is None else "a finite class"
    return Certificate.upper(
        users_for(log_ratio, found),
        "regret selection, any labels",
        f"{who}, users with the same law and equally many records",
        tau=clip,
        records_per_user=m,
        tilt=tilt,
    )


@lru_cache(maxsize=256)
def _moments(m: int, tau: int, alpha: float, log_k: float, optimism: float) -> tuple[Floats64, Floats64, Floats64]:
    """``gamma``, ``v``, ``u`` on cells of ratio 1.01 from ``alpha sqrt m`` to ``sqrt m``, each at the end that makes
    the bound larger."""
    root = math.sqrt(m)
    c, start = tau / root, alpha * root
    count = max(1, math.ceil(math.log(root / start) / math.log(1.01)))
    edges: Floats64 = start * 1.01 ** np.arange(count + 1, dtype=np.float64)
    edges[-1] = root
    low, high = edges[:-1], edges[1:]
    if tau >= m:
        gamma = low / c
    else:
        rising = np.maximum(low - _overshoot(c - high, log_k), low - _ROOT_TWO_PI * ndtr(low - c) - optimism)
        full = np.maximum(c - _overshoot(np.zeros(1), log_k), c - _ROOT_TWO_PI * ndtr(c - low) - optimism)
        gamma = np.where(low < c, rising, full) / c
    return gamma, np.minimum(1.0, (1 + high**2) / c**2), _ROOT_TWO_PI * ndtr(-low) / c


def _overshoot(y: Floats64, log_k: float) -> Floats64:
    """``J(y)``, the integral over ``[y, inf)`` of ``min(1, K exp(-k**2 / 2))``."""
    knee = math.sqrt(2 * log_k)
    return np.asarray(np.maximum(knee - y, 0.0) + _ROOT_TWO_PI * np.exp(log_k + log_ndtr(-np.maximum(y, knee))))


def regret_agnostic_corollary(
    *, records_per_user: int, theta: Rational, alpha: Rational, beta: Rational, log_size: Rational
) -> Certificate:
    """Thresholds, any labels, in closed form: ``n >= ln(|H|/beta) max{8.9/(theta alpha sqrt m), 3.6 + 3.6/(alpha**2
    m)}``.

    For ``tau = ceil(4 sqrt m) <= m``, ``theta <= 1`` and ``.004 <= alpha sqrt m <= 1``; outside, ``InfeasibleError``.
    Never below :func:`certify_regret_agnostic` at the same clip, and it needs no scan.
    """
    m = positive_int(records_per_user, "records_per_user", maximum=1 << 50)
    rate, excess = read_theta(theta), open_unit(alpha, "alpha")
    log_ratio = log_size_of(log_size) - math.log(open_unit(beta, "beta"))
    tau, scale = root_up(16 * m), excess * math.sqrt(m)
    if tau > m or rate > 1 or not 0.004 <= scale <= 1:
        raise InfeasibleError(
            f"the closed form holds for ceil(4 sqrt m) <= m, theta <= 1 and .004 <= alpha sqrt m <= 1; here m = {m}, "
            f"theta = {theta}, "
            f"alpha sqrt m = {scale:.4g}; use certify_regret_agnostic"
        )
    n = users_for(log_ratio * max(8.9 / (rate * scale), 3.6 + 3.6 / scale**2), 1.0)
    return Certificate.upper(
        n,
        "regret selection, any labels, closed form",
        "thresholds, users with the same law and equally many records",
        tau=tau,
        records_per_user=m,
    )


def clip_candidates(records_per_user: int) -> tuple[int, ...]:
    """Clips worth trying: powers of two, ``ceil(c sqrt m)`` for c in {1/2, 1, 3/2, 2, 5/2, 3, 7/2, 4, 6}, and ``m``
    (the mean)."""
    m = positive_int(records_per_user, "records_per_user")
    roots = {max(1, math.isqrt(max(0, c * c * m - 1) // 4) + 1) for c in (1, 2, 3, 4, 5, 6, 7, 8, 12)}
    return tuple(sorted(k for k in {1 << e for e in range(m.bit_length())} | roots | {m} if k <= m))


def plan_clip(
    records_per_user: int, certify: Callable[[int, int], Certificate], *, truncate: bool = True
) -> Certificate:
    """The clip, and the public truncation ``m' <= m``, that certify the fewest users.

    ``certify(records, tau)`` is one of the certificates with everything else fixed.  With ``truncate`` the powers of
    two below ``m`` are tried for ``m'`` as well, each with the clips ``sqrt m'``, ``2 sqrt m'`` and ``m'``: reading
    fewer records than a user holds is private and sometimes certifies more.
    """
    m = positive_int(records_per_user, "records_per_user")
    tried = [certify(m, tau) for tau in clip_candidates(m)]
    for size in (1 << e for e in reversed(range((m - 1).bit_length()))) if truncate else ():
        tried += [certify(size, tau) for tau in sorted({root_up(size), min(size, root_up(4 * size)), size})]
    return best(tried)


# Users from which on the regret learner's *own* clip is certified: it follows the number of users, so that a
# certificate may lapse.
#
# The learner's clip grows with the number ``n`` of users until it is the number of records (the per-user mean).  A
# certificate for a fixed clip holds for its number of users and all larger ones, but a larger clip is a weaker vote:
# what is certified with 451 users may be false with 461, where the clip has taken its next step.  A number in a plan
# must hold for **every** larger number of people (:func:`certify_own_clip`); an inverse plan asks about one number only
# (:func:`certify_clip_at`).
#
# The clip also grows with the budget, so the same happens there, and :func:`plan_own_clip` asks for **every larger
# budget** too: more of either never certifies more users.  Records beyond what helps are not read.

Clip = Callable[[int], int]
"""The clip with so many users; it never falls, and ends at the number of records."""


class Certify(Protocol):
    """The certificate of a fixed clip, for its number of users and all larger ones; the search may end at ``enough``
    users."""

    def __call__(self, tau: int, enough: int | None = None) -> Certificate: ...


class ClipRules(Protocol):
    """A learner's clip as a public function of its rate, records per user and users, and the certificates of fixed
    clips."""

    def clip(self, rate: Fraction, records: int, n: int) -> int:
        """The clip in use: exact, as the learner's is."""

    def rate_below(self, tau: int, records: int, n: int) -> float:
        """The largest rate at which the clip with ``n`` users is still below ``tau``."""

    def certify(self, rate: float, records: int, tau: int, enough: int | None) -> Certificate:
        """The certificate of a fixed clip at a rate."""

    @property
    def exponent(self) -> float:
        """``ln(|H|/beta)/alpha``: nothing below ``exponent tau/(rate m)`` users is ever certified, as a vote is worth
        ``alpha m/tau``."""


def certify_own_clip(clip: Clip, certify: Certify, *, start: int = 1, spread: int = 0) -> Certificate:
    """The least number of users, at least ``start``, from which on the learner's own clip is certified, and stays so.

    With ``n`` users the own clip is certified if ``certify(clip(n)).n_users <= n``.  Each clip is in use on a range
    ``first..last`` and fails on ``first..min(last, certified - 1)`` of it; the last failing number, found from the
    largest clip down, ends the search.

    ``spread``: the clip follows some number within ``n - spread .. n + spread`` instead of ``n`` (a noisy count, except
    with a probability that ``certify`` must leave room for); then every clip of that range must be certified with ``n``
    users.

    >>> needed = {1: 10, 2: 25}  # users for the clips 1 and 2; the latter is in use from 21 on
    >>> def certify(tau, enough=None):
    ...     return Certificate.upper(needed[tau], "demonstration", "nothing")
    >>> certify_own_clip(lambda n: 1 if n <= 20 else 2, certify).n_users
    25
    """
    slack = positive_int(spread, "spread", minimum=0)
    last, tau = LIMIT, positive_int(clip(LIMIT), "clip(n)")

    def first_with(tau: int) -> int:
        """The least number of users whose clip is at least ``tau``."""
        found = least(lambda n: clip(n) >= tau)
        assert found is not None
        return found

    while True:
        first = first_with(tau)
        begin = max(start, first - slack)
        found = certify(tau, begin)
        failing = last + slack if found.n_users is None else min(last + slack, found.n_users - 1)
        if failing >= LIMIT:
            return evolve(found, n_users=None, method=f"{found.method}, own clip")
        if failing >= begin or begin == start:
            n = failing + 1 if failing >= begin else start
            used = certify(clip(n))
            return evolve(used, n_users=n, method=f"{used.method}, own clip")
        last, tau = first - 1, positive_int(clip(first - 1), "clip(n)")


def certify_clip_at(clip: Clip, certify: Certify, n_users: int) -> Certificate:
    """The learner's own clip with exactly ``n_users`` users: at most that many are certified, or it fails there.

    Nothing is said of other numbers of users.
    """
    n = positive_int(n_users, "n_users")
    return certify(positive_int(clip(n), "clip(n)"), n)


def plan_own_clip(
    records_per_user: int, rate: Rational, rules: ClipRules, *, largest_rate: float, within: int | None = None
) -> Certificate:
    """The records to read, at most those given, with which the own clip is certified for the fewest users.

    The number holds for every larger number of users and every rate from ``rate`` to ``largest_rate``.  ``within`` asks
    about exactly so many users at exactly ``rate``: at most that many are certified if they are enough.

    Candidates for the records read are the same for everyone (:func:`~privpac.sample_size.numbers_up_to`), so
    that who holds more needs no more users.  The certificate's parameters are ``max_records`` and ``public_n_users``.
    """
    best: Certificate | None = None
    theta = rational(rate, "rate", above=0)
    for records in numbers_up_to(min(positive_int(records_per_user, "records_per_user"), MOST_READ)):

        def clip(n: int, records: int = records) -> int:
            return rules.clip(theta, records, n)

        def certify(tau: int, enough: int | None = None, records: int = records) -> Certificate:
            return rules.certify(float(theta), records, tau, enough)

        # What would be an improvement: one user less than the best so far, or the number asked about.
        aim = within if within is not None or best is None or best.n_users is None else best.n_users - 1
        if aim is not None:
            if aim < 1 or rules.exponent * clip(aim) > float(theta) * records * aim * (1 + 1e-9):
                continue
            found = certify_clip_at(clip, certify, aim)
            if found.n_users is None or found.n_users > aim:
                continue
        if within is None:
            found = certify_own_clip(clip, certify, start=_for_larger_rates(rules, theta, records, largest_rate))
        if best is None or (found.n_users is not None and (best.n_users is None or found.n_users < best.n_users)):
            best = found.run_with(max_records=records, public_n_users=within or found.n_users)
        if within is not None:
            break
    return best or evolve(rules.certify(float(theta), 1, 1, None), n_users=None)


def _for_larger_rates(rules: ClipRules, rate: Fraction, records: int, largest: float) -> int:
    """Users that are enough at every rate from this one up, whose clips are larger: the next clip at the least rate it
    is used with.

    With ``n`` users a clip is first in use at a rate ``c(n)`` that falls no faster than ``1/n``, and the proven
    exponent of a vote grows less than in proportion to the rate, so ``n`` times the exponent at ``c(n)`` grows: what
    holds for ``n`` holds for more.
    """
    n = 1
    for tau in range(rules.clip(rate, records, 1), records + 1):

        def fits(n: int, tau: int = tau) -> bool:
            lowest = max(float(rate), rules.rate_below(tau, records, n))
            if lowest >= largest or rules.clip(rate, records, n) > tau:
                return True
            users = rules.certify(lowest, records, tau, n).n_users
            return users is not None and users <= n

        n = least(fits, start=n) or n
    return n


# Its lines in a plan, and those of the mean: a statistic of the same learner


_DIVISORS = [d for d in range(1, DEFAULT_LEVELS + 1) if DEFAULT_LEVELS % d == 0]

FixedClip = Callable[[int, int, float, "int | None"], Certificate]
"""Records, clip, rate, and how many users are enough: the certificate of a fixed clip."""


@frozen(slots=False)
class _OwnClip:
    """The clip of the regret learner, for :func:`plan_own_clip`."""

    bits: int
    exponent: float
    fixed: FixedClip

    def clip(self, rate: Fraction, records: int, n: int) -> int:
        return ClipRule(rate, n, self.bits)(records)

    def rate_below(self, tau: int, records: int, n: int) -> float:
        return ClipRule.rate_below(tau, records, n, self.bits)

    def certify(self, rate: float, records: int, tau: int, enough: int | None) -> Certificate:
        return self.fixed(records, tau, rate, enough)


def _with_own_clip(goal: RuleGoal, m: int, certify: FixedClip) -> Certificate:
    """The learner's own clip grows with the number of users: the n from which on its own rule is certified."""
    share = regret_split(1, goal.neighbours, 1).theta
    exponent = (float(goal.concept.log_size) - math.log(goal.beta)) / float(goal.alpha)
    rules = _OwnClip(goal.concept.bits, exponent, certify)
    return plan_own_clip(m, goal.epsilon * share, rules, largest_rate=float(MAX_EPSILON * share), within=goal.within)


def _any_labels(goal: RuleGoal, m: int, tau: int, theta: float, enough: int | None = None) -> Certificate:
    return certify_regret_agnostic(
        records_per_user=m,
        tau=tau,
        theta=theta,
        log_size=goal.concept.log_size,
        levels=DEFAULT_LEVELS,
        log_class_size=None if goal.on_a_line else goal.concept.log_size,
        enough=enough,
        **goal.accuracy,
    )


@kept_by_numbers
def certified_regret(goal: RuleGoal, m: int) -> Certificate:
    return _with_own_clip(goal, m, partial(_any_labels, goal))


@kept_by_numbers
def _bounded_noise(goal: RuleGoal, m: int) -> Certificate:
    def certify(records: int, tau: int, theta: float, enough: int | None) -> Certificate:
        return certify_regret_bounded_noise(
            records_per_user=records,
            tau=tau,
            theta=theta,
            log_size=goal.concept.log_size,
            noise=goal.noise or 0,
            levels=DEFAULT_LEVELS,
            enough=enough,
            **goal.accuracy,
        )

    return _with_own_clip(goal, m, certify)


def regret_rows(goal: RuleGoal) -> list[PlannedMethod]:
    # The learner's clip follows a number of users: public under replace, to be declared under add-remove.
    declared = ", their number declared (public_n_users)" if goal.neighbours is Neighbours.ADD_REMOVE else ""
    lines = [PlannedMethod("regret selection", partial(certified_regret, goal), declared)]
    if goal.bounded_noise:
        name = "regret selection, bounded noise"
        lines.append(PlannedMethod(name, partial(_bounded_noise, goal), declared, bounded_noise=True))
    return lines


def certified_mean(goal: RuleGoal, m: int) -> Certificate:
    """More records mean fewer users, except that a vote of a number of records that does not divide the levels is
    rounded: then perhaps only as many are read as the largest number that does."""
    theta = float(regret_split(goal.epsilon, goal.neighbours, 1).theta)
    whole = max(divisor for divisor in _DIVISORS if divisor <= m)
    found = best([_any_labels(goal, size, size, theta) for size in dict.fromkeys((m, whole))])
    capped = {} if found["records_per_user"] == m else {"max_records": whole}
    return found.run_with(statistic="mean", **capped)


def mean_rows(goal: RuleGoal) -> list[PlannedMethod]:
    return [PlannedMethod("per-user mean", partial(certified_mean, goal))]
