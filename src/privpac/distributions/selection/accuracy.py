"""The clip of pairwise selection and what it certifies, from public numbers only (certificate C2).

Where the probabilities ``P(W)`` of all pairs are known, what clipping takes is computed from binomial laws, else
bounded.

*Rounding.*  Comparisons use ``q / L`` for ``P(W)``, off by at most ``1 / (2 L)``, and the clip ``ceil(L tau) / L``.  A
good candidate's score may thus be larger by the rounding and a bad one's smaller (``a0 + 1/(2 L)``, ``a1 - 1/(2 L)``),
and the rate is that of the clip in use.

The clip ``tau`` is given, or planned from the declared records per user; it is never inferred from the data: a clip
taken from the largest number of records in the data is not private, because one user then changes everybody's
contribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Floats64
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.parameters import DEFAULT_BETA, bounds, fraction_or_none, named, probability, whole_or_none
from privpac.sample_size import LIMIT, SLACK, Certificate, log_size_of, open_unit, positive, relation, users_for
from privpac.special import bdtr, ndtr

# Users that clipped pairwise selection needs: every pair of rules is compared, each user moves a comparison by at most
# ``tau``.
#
# **Certificate C2.**  One record's comparison lies in a sub-interval of [-1, 1] of width ``width`` containing 0 (2 for
# agnostic learning, 1 for Scheffé comparisons of distributions), every user has ``m`` records, some candidate has score
# at most ``a0`` and the output shall have score below ``a1``; ``gam = a1 - a0``, ``sig = width sqrt(m) / 2``, ``Q`` the
# normal upper tail.  Clipping costs per user at most
#
#     B+ = sig sqrt(2 pi) Q((tau - a1 m)/sig)      (a1 m - tau + sig sqrt(pi/2) for clips below the mean a1 m)
#     B- = sig sqrt(2 pi) Q((tau + a0 m)/sig)
#
# so the margin is ``Gam = gam m - B+ - B-`` (``B = 0`` when ``tau >= m``: nothing is cut off).  With ``lam = epsilon /
# rho``, failure is at most ``beta`` if ``Gam > 0`` and
#
#     split:     n Gam >= b sqrt n + c,  b = 2 width sqrt(m ln(4|H|/beta)/2),  c = ln(2|H|/beta)/lam;  or
#     chernoff:  n >= ln(|H|**2/beta) / (th Gam - th**2 m width**2 / 2),  th = min(lam, Gam/(m width**2))


_MAX_CLIPS = 1 << 20
_ASSUMES = "users with equally many records from one law, and a candidate of score at most {alpha0}"


def plan_pairwise(
    *,
    log_size: Rational,
    epsilon: Rational,
    alpha1: Rational,
    beta: Rational,
    records_per_user: int,
    alpha0: Rational = 0,
    width: Rational = 2,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    clip_step: Rational = 1,
    tau: Rational | None = None,
) -> Certificate:
    """The certificate for the clip ``tau`` (in records), or for the clip that certifies the fewest users.

    The better bound is taken (*split* before *chernoff*); the first minimum wins.  Clips are the multiples of
    ``clip_step`` up to ``records_per_user``: 1 for agnostic learning, 1/4 for Scheffé comparisons.  Agnostic use:
    ``alpha0 = 0`` and ``alpha1`` = the target excess, less the accuracy of a representation if one is used.
    ``n_users`` is ``None`` when clipping eats the margin at every clip, which for ``tau = m`` never happens.
    """
    clips: Sequence[Fraction]
    if tau is not None:
        m = positive_int(records_per_user, "records_per_user", maximum=1 << 50)
        clips = [rational(tau, "tau", above=0)]
    else:
        m = positive_int(records_per_user, "records_per_user")
        step = rational(clip_step, "clip_step", above=0, maximum=m)
        if m / step > _MAX_CLIPS:
            raise TooLargeError(
                f"the plan scans at most {_MAX_CLIPS} clips, got {math.floor(m / step)}; use a larger clip_step"
            )
        clips = _Multiples(step, math.floor(m / step))
    wanted = read_target(log_size, epsilon, alpha0, alpha1, width, beta)
    values = _floats(clips)
    margin = (wanted.a1 - wanted.a0) * m - np.where(values < m, _cut_off(values, m, wanted), 0.0) - SLACK * m
    # The pairwise score of one rule moves by the whole interval [-tau, tau] of one user, twice that under replace.
    rate = wanted.epsilon / (values * (2 if relation(neighbours) is Neighbours.ADD_REMOVE else 4))
    return least_users(clips, margin, rate, m, wanted, "pairwise selection")


def pairwise_closed_form(
    *,
    log_size: Rational,
    epsilon: Rational,
    alpha1: Rational,
    beta: Rational,
    records_per_user: int,
    alpha0: Rational = 0,
    width: Rational = 2,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """``tau = ceil(a1 m + (width sqrt m / 2) sqrt(2 max(0, ln(2.51 width/(gam sqrt m)))))`` leaves half of the margin;
    then

    ``n >= max{16 tau ln(2|H|/beta)/(epsilon gam m), 32 width**2 ln(4|H|/beta)/(gam**2 m)}`` under replace, 8 instead of
    16 under add-remove.
    """
    m = positive_int(records_per_user, "records_per_user", maximum=1 << 50)
    log_h, eps, a0, a1, w, b, assumption = read_target(log_size, epsilon, alpha0, alpha1, width, beta)
    margin, root = a1 - a0, math.sqrt(m)
    tau = math.ceil(a1 * m + w * root / 2 * math.sqrt(2 * max(0.0, math.log(2.51 * w / (margin * root)))))
    factor = 8 if relation(neighbours) is Neighbours.ADD_REMOVE else 16
    needed = max(
        factor * tau * (math.log(2 / b) + log_h) / (eps * margin * m),
        32 * w * w * (math.log(4 / b) + log_h) / (margin**2 * m),
    )
    return Certificate.upper(
        users_for(needed, 1.0),
        "pairwise selection, closed form",
        assumption,
        tau=tau,
        records_per_user=m,
    )


@frozen(slots=False)
class _Multiples(Sequence[Fraction]):
    """``step, 2 step, ...``, made one by one when looked at."""

    step: Fraction
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> Fraction:  # type: ignore[override]
        return self.step * (i + 1)


def _floats(clips: Sequence[Fraction]) -> Floats64:
    """Exactly rounded; multiples of a dyadic step of at most 2**20 terms are exact in doubles anyway."""
    if isinstance(clips, _Multiples) and clips.step.denominator in (1, 2, 4) and clips.step.numerator == 1:
        return np.arange(1, len(clips) + 1, dtype=np.float64) * np.float64(clips.step)
    return np.array([float(clip) for clip in clips])


class ScoreTarget(NamedTuple):
    """What a selection shall achieve, read."""

    log_h: float
    epsilon: float
    a0: float
    a1: float
    width: float
    beta: float
    assumption: str


def least_users(
    clips: Sequence[Fraction], margin: Floats64, rate: Floats64, m: int, wanted: ScoreTarget, method: str
) -> Certificate:
    """The clip and the bound with the fewest users, given the margin and the rate ``epsilon / rho`` of every clip."""
    safe, w = np.where(margin > 0, margin, 1.0), wanted.width
    b = 2 * w * math.sqrt(m * (math.log(4 / wanted.beta) + wanted.log_h) / 2)
    c = (math.log(2 / wanted.beta) + wanted.log_h) / rate
    split = ((b + np.sqrt(b * b + 4 * safe * c)) / (2 * safe)) ** 2
    tilt = np.minimum(rate, safe / (m * w * w))
    chernoff = (2 * wanted.log_h - math.log(wanted.beta)) / (tilt * safe - tilt**2 * m * w * w / 2)
    users = np.where(
        margin[:, None] > 0, np.maximum(1.0, np.ceil(np.stack([split, chernoff], axis=1) * (1 + SLACK))), np.inf
    )
    row, column = np.unravel_index(int(np.argmin(users)), users.shape)
    found = float(users[row, column])
    chosen = clips[int(row)]
    tau = chosen.numerator if chosen.denominator == 1 else chosen
    bound = ("split", "chernoff")[int(column)]
    # The clip follows the records per user and not n; both conditions stay true for more users.
    return Certificate.upper(
        int(found) if found < LIMIT else None, method, wanted.assumption, tau=tau, bound=bound, records_per_user=m
    ).run_with(tau=tau, records_per_user=m)


def _cut_off(tau: Floats64, m: int, wanted: ScoreTarget) -> Floats64:
    """``B+ + B-``: sub-Gaussian bounds on what clipping takes from the mean of one user's sum.

    ``B+`` is the integral of ``Pr[S > s]`` beyond ``tau``; below the mean ``a1 m`` the tail bound says nothing, so 1 is
    integrated there.
    """
    low, high, sigma = wanted.a0 * m, wanted.a1 * m, wanted.width * math.sqrt(m) / 2
    short = np.maximum(0.0, high - tau)
    return np.asarray(
        short + sigma * math.sqrt(2 * math.pi) * (ndtr((high - tau - short) / sigma) + ndtr(-(tau + low) / sigma))
    )


def read_target(
    log_size: Rational, epsilon: Rational, alpha0: Rational, alpha1: Rational, width: Rational, beta: Rational
) -> ScoreTarget:
    w = float(rational(width, "width", above=0, maximum=2))
    a0, a1 = float(rational(alpha0, "alpha0", minimum=0)), float(rational(alpha1, "alpha1", above=0, maximum=1))
    if a1 - a0 < 1e-9:
        raise InfeasibleError(
            f"alpha1 must exceed alpha0 = {alpha0}, got {alpha1}; ask for less accuracy or use a finer cover"
        )
    log_h, eps, b = log_size_of(log_size), positive(epsilon, "epsilon"), open_unit(beta, "beta")
    return ScoreTarget(log_h, eps, a0, a1, w, b, _ASSUMES.format(alpha0=alpha0))


# Users that selection among *known* candidate distributions needs: certificate C2 with what clipping takes computed,
# not bounded.
#
# For candidates P, Q with ``p = P(W)``, ``W = {P > Q}``, a user with ``m`` records from a population D has the clipped
# comparison ``clip(m p - X, -tau, tau)`` with ``X ~ Bin(m, D(W))``.  Its mean grows with ``mu = p - D(W)``, so over
# every D
#
# * a comparison with ``mu >= a1`` has mean at least ``E clip(m p - Bin(m, p - a1))``, and none has ``p < a1``;
# * one with ``mu <= a0`` has mean at most ``E clip(m p - Bin(m, max(0, p - a0)))``.
#
# The least of the former less the largest of the latter, over the pairs' probabilities ``p``, is a margin; C2 goes from
# there to users (:mod:`privpac.distributions.selection.accuracy`).  Nothing is assumed about D beyond C2, only the
# probabilities ``p`` must be right: where the comparison uses rounded ones, ``rounding`` says how far off they may be.
#
# The mean is exact: ``E clip(a - X, -tau, tau) = G(a + tau) - G(a - tau) - tau`` with ``G(u)`` the integral of ``Pr[X
# <= .]`` up to ``u``, which is linear between integers.


_MAX_WORK = 1 << 25
"""Probabilities times records and clips up to which a plan is computed."""

_NEAR = 1e-9


def plan_scheffe(
    *,
    probabilities: Sequence[Rational] | Array,
    log_size: Rational,
    epsilon: Rational,
    alpha1: Rational,
    beta: Rational,
    records_per_user: int,
    alpha0: Rational = 0,
    rounding: Rational = 0,
    max_records: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    clip_step: Rational = Fraction(1, 4),
    tau: Rational | None = None,
) -> Certificate:
    """The certificate for the clip ``tau`` (in records), or for the multiple of ``clip_step`` up to
    ``records_per_user`` that certifies the fewest users.

    ``probabilities`` are the values ``P(W)`` of all ordered pairs of candidates (repeated ones count once), each within
    ``rounding`` of the truth; ``log_size`` is the logarithm of the number of candidates.  A public cap ``max_records``
    shortens users' intervals, which lowers the noise.  If no pair can have a comparison of ``alpha1`` every candidate
    is good enough, and one user is certified.

    >>> from privpac.distributions.selection.accuracy import plan_pairwise
    >>> given = {"log_size": 3, "epsilon": 1, "alpha1": "1/5", "beta": "1/20", "records_per_user": 16}
    >>> plan_scheffe(probabilities=["9/10", "1/2"], **given).n_users, plan_pairwise(**given, width=1,
    ...     clip_step="1/4").n_users
    (40, 51)
    """
    m, p = positive_int(records_per_user, "records_per_user", maximum=_MAX_WORK), _probabilities(probabilities)
    if tau is None:
        step = rational(clip_step, "clip_step", above=0, maximum=m)
        count = math.floor(m / step)
        if max(1, len(p)) * (m + count) > _MAX_WORK:
            raise TooLargeError(
                f"{len(p)} probabilities, {m} records and {count} clips are too many for exact means; use "
                "plan_pairwise or a larger clip_step"
            )
        clips = [step * k for k in range(1, count + 1)]
    else:
        if max(1, len(p)) * m > _MAX_WORK:
            raise TooLargeError(
                f"{len(p)} probabilities and {m} records are too many for exact means; use plan_pairwise"
            )
        clips = [rational(tau, "tau", above=0)]
    wanted = read_target(log_size, epsilon, alpha0, alpha1, 1, beta)
    off = float(rational(rounding, "rounding", minimum=0, maximum=1))
    cap = None if max_records is None else positive_int(max_records, "max_records")
    if cap is not None and cap < m:
        raise ParameterError(f"records_per_user must be at most max_records = {cap}, got {m}: more are never read")
    values = np.array([float(clip) for clip in clips])
    rate = wanted.epsilon / _range(p, values, cap, relation(neighbours))
    # D(W) <= p + off - a1 for a comparison of a1 or more, D(W) >= p - off - a0 for one of at most a0.
    witnesses = p[p + off - wanted.a1 >= -_NEAR]
    low = [
        _means(m, chance, min(1.0, max(0.0, chance + off - wanted.a1)), values)
        for chance in (witnesses if len(witnesses) else p[-1:]).tolist()
    ]
    high = [_means(m, chance, max(0.0, chance - off - wanted.a0), values) for chance in p.tolist()]
    margin = np.minimum.reduce(low) - np.maximum.reduce(high) - SLACK * m
    found = least_users(clips, margin, rate, m, wanted, "hypothesis selection")
    return found if len(witnesses) else evolve(found, n_users=1)


def clipped_mean(records: int, probability: Rational, rate: Rational, tau: Rational) -> float:
    """``E clip(m p - Bin(m, rate), -tau, tau)`` for ``m`` records and ``p = probability``.

    >>> clipped_mean(2, "1/2", "1/2", 1), clipped_mean(2, 1, "1/2", "1/2")
    (0.0, 0.375)
    """
    m = positive_int(records, "records", maximum=_MAX_WORK)
    p = float(rational(probability, "probability", minimum=0, maximum=1))
    inside = float(rational(rate, "rate", minimum=0, maximum=1))
    return float(_means(m, p, inside, np.array([float(rational(tau, "tau", above=0))]))[0])


def _means(m: int, p: float, rate: float, tau: Floats64) -> Floats64:
    """``E clip(m p - Bin(m, rate), -tau, tau)`` for every clip."""
    below = np.concatenate([[0.0], np.cumsum(bdtr(np.arange(m), m, rate))])

    def integral(u: Floats64) -> Floats64:
        return np.asarray(np.interp(u, np.arange(m + 1), below) + np.maximum(0.0, u - m))

    return np.asarray(integral(m * p + tau) - integral(m * p - tau) - tau)


def _range(p: Floats64, tau: Floats64, cap: int | None, neighbours: Neighbours) -> Floats64:
    """``rho`` for every clip: a user's comparison lies in ``[-min(tau, M (1 - p)), min(tau, M p)]``, with ``M`` the
    public cap."""
    if cap is None:
        return tau * (2 if neighbours is Neighbours.ADD_REMOVE else 4)
    high, low = np.minimum(tau, cap * p[:, None]), -np.minimum(tau, cap * (1 - p[:, None]))
    found = 2 * (high - low).max(axis=0) if neighbours is Neighbours.REPLACE else high.max(axis=0) - low.min(axis=0)
    return np.asarray(found)


def _probabilities(given: Sequence[Rational] | Array) -> Floats64:
    """Different values in increasing order; 0 if there is only one candidate, hence no pair."""
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"probabilities must be a sequence of numbers, got {type(given).__name__}")
    values = given.ravel() if isinstance(given, np.ndarray) else list(given)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        found = values.astype(np.float64)
        if not ((found >= 0) & (found <= 1)).all():
            raise ParameterError("probabilities must lie between 0 and 1")
    else:
        found = np.array(
            [float(rational(value, "a probability", minimum=0, maximum=1)) for value in values], dtype=np.float64
        )
    return np.unique(found) if len(found) else np.zeros(1)


_MAX_TOP = 1 << 28
"""With at most 2**32 users scores then span less than 2**62."""

MAX_RESOLUTION = 1 << 24
_MAX_PLANNED_CLIPS = 1 << 14
_LEAST_MARGIN = Fraction(1, 10**8)
_MAX_MEANS = 1 << 20
"""Probabilities times records, and times clips, up to which means are computed exactly."""


def default_resolution(alpha: Fraction) -> int:
    """``2**ceil(log2(100 / alpha))``: rounding ``P(W)`` costs a user at most ``m / (2 L) <= alpha m / 200``."""
    return 1 << max(2, ceil(log2(100 / alpha)))


def read_top(unit: int, tau: Fraction) -> int:
    """The integer clip ``T = ceil(L tau)``."""
    top = ceil(unit * tau)
    if not 1 <= top <= _MAX_TOP:
        raise ParameterError(f"resolution * tau must be between 1 and {_MAX_TOP}, got {top}; change tau or resolution")
    return top


@frozen(slots=False, field_transformer=named)
class ClipAim:
    """What sets the clip of a selection among distributions, and what its certificate is about.  All public.

    Parameters
    ----------
    records_per_user : int, optional
        Records that every user holds; sets the clip unless ``tau`` is given.
    tau : number, optional
        The clip, in records.
    beta : number
        How often the aim may be missed; default 1/20.
    public_n_users : int, optional
        A lower bound on the number of users, for accuracy statements.
    """

    records_per_user: int | None = field(
        default=None, kw_only=True, converter=whole_or_none, metadata=bounds(maximum=1 << 31)
    )
    tau: Fraction | None = field(default=None, kw_only=True, converter=fraction_or_none, metadata=bounds(above=0))
    beta: Fraction = field(default=DEFAULT_BETA, kw_only=True, converter=probability)
    public_n_users: int | None = field(default=None, kw_only=True, converter=whole_or_none, metadata=bounds(minimum=0))


@frozen(slots=False)
class KnownPairs:
    """The probabilities ``q / unit`` of all pairs' sets, right up to ``rounding``, and the public cap on a user's
    records."""

    likely: tuple[int, ...]
    unit: int
    rounding: Fraction
    cap: int | None

    @staticmethod
    def of(q: NDArray[np.int64], unit: int, rounding: Fraction, cap: int | None) -> KnownPairs | None:
        """None where the probabilities are too many for exact means."""
        distinct = np.unique(q)
        return (
            KnownPairs(tuple(distinct.tolist()), unit, rounding, cap) if len(distinct) <= _MAX_PLANNED_CLIPS else None
        )


@frozen(slots=False)
class ClipPlan:
    """What C2 needs to know; ``tau`` is the declared clip or None, ``pairs`` is None where ``P(W)`` is not known well
    enough.

    ``unit`` is the resolution ``L`` of ``P(W)`` and of the clip; None stands for exact probabilities and clips.
    """

    log_size: float
    epsilon: Fraction
    alpha0: Fraction
    alpha1: Fraction
    beta: Fraction
    records_per_user: int | None
    tau: Fraction | None
    neighbours: Neighbours
    pairs: KnownPairs | None = None
    unit: int | None = None

    @property
    def rounding(self) -> Fraction:
        """How far the probabilities in use may be from ``P(W)``."""
        if self.pairs is not None:
            return self.pairs.rounding
        return Fraction(0) if self.unit is None else Fraction(1, 2 * self.unit)

    def used(self, tau: Fraction) -> Fraction:
        """The clip that ``T = ceil(L tau)`` stands for."""
        unit = self.unit if self.pairs is None else self.pairs.unit
        return tau if unit is None else Fraction(ceil(unit * tau), unit)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate at the declared records per user, None where that number is not declared."""
        return _certificate(self)

    @property
    def clip(self) -> Fraction:
        """The clip, in records."""
        if self.tau is not None:
            return self.tau
        found = self.certificate
        if found is None:
            raise ParameterError(
                "declare records_per_user (public) or tau: the clip must not be read off the data; "
                "privpac.private_cap buys a private cap for part of the budget"
            )
        return rational(found["tau"])

    def shortfall(self, n_users: int) -> str | None:
        """Words for too few users, None if the certificate covers that many."""
        found = self.certificate
        if found is None or (found.n_users is not None and found.n_users <= n_users):
            return None
        needed = "no number of users is" if found.n_users is None else f"{found.n_users} users are"
        reached = self._reached(n_users)
        tail = "nothing is certified" if reached is None else f"score differences of {float(reached):.3g} are certified"
        return f"{needed} certified for a score difference of {float(self.alpha1):.3g}; with {n_users} users {tail}"

    def _reached(self, n_users: int) -> Fraction | None:
        """The smallest ``alpha1`` on a grid of 64 that is certified with this many users."""
        step = (1 - self.alpha0) / 64
        low, high = 0, 64
        while low < high:
            middle = (low + high) // 2
            found = None
            if middle:
                found = _certificate(ClipPlan(**{**self.__dict__, "alpha1": self.alpha0 + step * middle}))
            if found is not None and found.n_users is not None and found.n_users <= n_users:
                high = middle
            else:
                low = middle + 1
        return self.alpha0 + step * low if low <= 63 else None


@lru_cache(maxsize=256)
def _certificate(plan: ClipPlan) -> Certificate | None:
    if plan.records_per_user is None:
        return None
    if plan.alpha1 <= plan.alpha0:
        raise InfeasibleError(
            f"alpha1 = {float(plan.alpha1):.3g} must exceed alpha0 = {float(plan.alpha0):.3g}; ask for less accuracy "
            "or use a finer cover"
        )
    if plan.tau is not None:
        return _certify(plan, plan.used(plan.tau))
    found = _certify(plan, None)
    planned = rational(found["tau"])
    return found if plan.used(planned) == planned else _certify(plan, plan.used(planned))


def _certify(plan: ClipPlan, tau: Fraction | None) -> Certificate:
    """C2 for this clip, or for the best one."""
    m, off, pairs = plan.records_per_user, plan.rounding, plan.pairs
    assert m is not None
    shared: dict[str, Any] = {
        "log_size": plan.log_size,
        "epsilon": plan.epsilon,
        "alpha0": plan.alpha0,
        "alpha1": plan.alpha1,
        "beta": plan.beta,
        "records_per_user": m,
        "neighbours": plan.neighbours,
    }
    if pairs is not None and len(pairs.likely) * m <= _MAX_MEANS:
        shared |= {"probabilities": np.array(pairs.likely) / pairs.unit, "rounding": off, "max_records": pairs.cap}
        clips = min(_MAX_PLANNED_CLIPS, _MAX_MEANS // max(1, len(pairs.likely)))
        return plan_scheffe(**shared, tau=tau, clip_step=_step(m, clips))
    # Where rounding takes the whole margin a clip is still needed, but nothing is certified.
    lost = plan.alpha1 - plan.alpha0 - 2 * off < _LEAST_MARGIN
    if not lost:
        shared |= {"alpha0": plan.alpha0 + off, "alpha1": plan.alpha1 - off}
    found = plan_pairwise(**shared, width=1, tau=tau, clip_step=_step(m, _MAX_PLANNED_CLIPS))
    assumption = _ASSUMES.format(alpha0=plan.alpha0)
    return evolve(found, n_users=None if lost else found.n_users, assumption=assumption)


def _step(m: int, clips: int) -> Fraction:
    """Quarters of a record, or coarser if these are too many clips."""
    return min(Fraction(max(1, -(-4 * m // clips)), 4), Fraction(m))


def read_plan(
    log_size: float,
    epsilon: Fraction,
    alpha0: Fraction,
    alpha1: Fraction,
    beta: Rational,
    records_per_user: int | None,
    tau: Rational | None,
    neighbours: Neighbours,
    cap: int | None,
    pairs: KnownPairs | None = None,
    unit: int | None = None,
) -> ClipPlan:
    """Check the public numbers of a plan; records beyond the cap are never read, so they count for nothing."""
    m = None if records_per_user is None else positive_int(records_per_user, "records_per_user", maximum=1 << 31)
    return ClipPlan(
        log_size,
        epsilon,
        alpha0,
        alpha1,
        rational(beta, "beta", above=0, below=1),
        m if m is None or cap is None else min(m, cap),
        None if tau is None else rational(tau, "tau", above=0),
        neighbours,
        pairs,
        unit,
    )
