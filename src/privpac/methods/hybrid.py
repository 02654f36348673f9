"""Hybrid selection: the default learner for real, noisy labels.

Every rule is scored twice: the *clipped score* ``C`` says how much worse it does than each user's own best rule, cut
off at ``own_clip(m)``, and the *mean score* ``M`` is an average of per-user averages (``rules.profile``).  One
exponential law over pairs (score, rule) is sampled, and only the rule is released.  The mean score pays a penalty, so
that with few users the clipped score decides and with many the unbiased mean:

    P(clip, h) ~ w(h) exp(-theta C(h) / levels)      theta = epsilon (add-remove) or epsilon / 2 (replace)
    P(mean, h) ~ w(h) exp(-theta A(h) / levels)      A = M + min(D, K) + B,   D the users' own optimism, summed
    K = floor(4 bits levels / theta)
    B = floor(bits levels / theta)              bits = bit length of |H| - 1, at least 1

No number of users is needed, declared or bought.  ``w`` are the class's public weights (``rules.priors``), 1 for most
classes; they follow the declared domains alone and cancel in the ratio of two laws.

**Guarantee.**  ``(epsilon, 0)`` per user and ``epsilon**2 / 8``-zCDP, for the pair and hence for the rule.  Add one
user: every clip score grows by an integer in ``0..levels``; every mean score by ``v + w`` with ``v = floor(levels r /
m) <= levels - d`` (the room, see ``rules.profile``) and ``w = min(D + d, K) - min(D, K)`` in ``0..d``, since ``x ->
min(x, K)`` rises by at most its argument's rise.  So all ``2 |H|`` scores grow within one interval ``[0, levels]``; a
user without records adds 0.  The range rule of ``methods.base`` applies with ``R = levels`` under add-remove and ``2 *
levels`` under replace.  Forgetting the score is post-processing.

**Accuracy.**  ``C >= M`` for every rule and the penalty is at most ``5 bits / theta`` users' votes, whatever their
number: the error tends to that of the best rule whoever the users are (``certify_hybrid_any``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from attrs import evolve, field, frozen

from privpac.arrays import Floats64
from privpac.bisection import least, least_between
from privpac.exact import Rational, positive_int, rational
from privpac.law import Law
from privpac.law.blocks import Cell
from privpac.methods.base import Bound, Selection, drawn_id, profile_of
from privpac.methods.planned import RuleGoal, kept_by_numbers
from privpac.methods.registry import PlannedMethod
from privpac.methods.regret import (
    ALPHA_BOTTOM,
    MAX_REGRET_RECORDS,
    NOISE_TOP,
    TILTS,
    read_record_count,
    read_theta,
    regret_factors,
)
from privpac.parameters import DEFAULT_LEVELS, bounds, named, whole
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.base import ConceptClass
from privpac.rules.profile import HybridStatistic, Profile, Step, own_clip
from privpac.sample_size import LIMIT, MOST_READ, SLACK, Certificate, fewest, numbers_up_to, open_unit
from privpac.special import binom

if TYPE_CHECKING:
    from privpac.data import Users

# Users that hybrid selection needs: certificates that hold for every larger number of users too.
#
# The learner draws a pair (score, rule): clipped score ``C`` with clip ``tau = own_clip(m)``, mean score ``A = M +
# min(D, K) + B`` with ``K + B <= 5 bits levels / theta`` (``methods.hybrid``).  With ``h*`` the best rule of the
# population and ``h`` a rule of excess error above ``alpha``, the probability of (score, h) is at most ``exp(-theta'
# (its score - the score of any fixed pair) / levels)`` for every ``0 < theta' <= theta``, and users are independent, so
#
#     Pr[bad] <= B_C(n) + B_A(n),      each B(n) = min over terms of |H| exp(c + n ln f),  f < 1.
#
# Every term falls with ``n``, so do minima and sums: what is certified at ``n`` is certified at every larger number.
#
# **Weights.**  Where rules do not weigh alike, ``pi(h)`` the share of a rule in all weight, (score, h) has probability
# at most ``min(1, pi(h)/pi(h*) e**(-theta x)) <= (pi(h)/pi(h*))**t e**(-theta' x)``, ``t = theta'/theta <= 1``.  Summed
# over the rules, ``sum pi(h)**t <= |H|**(1 - t)`` and ``|H| <= 1/min pi``: the factor is at most ``effective_size``,
# which is ``1/min pi`` and stands for ``|H|`` in ``B(n)``.  The penalties and ``k`` of (K2) keep the number of rules.
#
# **Terms.**  (K1) *own score*, ``c = 0``: (clip, h) against (clip, h*) is clipped-regret selection with a fixed clip;
# (mean, h) against (mean, h*) is the per-user mean, since the offset cancels.  Users of one law, any labels:
#
#     f_M = (cosh(t) - alpha sinh(t))**m,      t = theta'/m
#
# (each step replaced by +-1 of the same mean, then the mean lowered to alpha: a convex falling function only grows);
# any users: the same with ``m = 1``.
#
# (K2) *clipped score against (mean, h*)*, ``c = theta' (K + B) / levels``: since ``C >= M``, ``f = f_M`` (or the mean's
# ``f`` under bounded noise); or, with ``k = 4`` for thresholds and ``|H|`` for a finite class,
#
#     f    = F(theta') + (e**theta' - 1) sqrt(2 (1 + ln k) / m) sqrt(F(2 theta'))
#     F(t) = E exp(-t min(W, tau)/tau),      W = 2 Bin(m, (1 + alpha)/2) - m
#
# because with ``b' = r(h*)``, ``min(a + b', tau)/tau - b'/m >= min(a, tau)/tau - b'/m``, Cauchy-Schwarz, and ``E b'**2
# <= 2 m (1 + ln k)``.
#
# (K3) *mean score against a mixture* (thresholds, label noise at most ``eta``): with ``A(h*)**(1 - l) C(h*)**l`` for
# the reference weight, ``c = -l theta' B / levels`` and
#
#     f      = f_mean Psi(q) + Psi(q e**s) - 1
#     Psi(z) = 1 + sum_{j=1..tau} (e**(k j) - e**(k (j-1))) z**j
#     k      = l theta' (1/tau - 1/m),      q = eta/(1 - eta),      s = theta'/m,      q e**s < 1
#
# The bracket ``min(b', tau)/tau - b'/m`` is at most ``psi(b') = min(b', tau)(1/tau - 1/m)``, and ``b'`` is the larger
# of the best gains on the far side of h* (independent of ``a``, at least j with probability at most ``q**j``) and on
# h's side (given that the walk visits -j, ``E exp(-s a) <= exp(s j)``).
#
# Rounding to ``levels`` steps costs ``theta' / levels`` in ``ln f`` where ``m`` (clip terms: ``tau``) does not divide
# them.

_MIXES, _FINE = 8, 15
ROUNDS = 3
"""How often ``theta'`` is refined around its best values, so that more budget never asks for more users."""

_ROOM = 0.5
"""A bound on failure before refining is hardly ever larger by this share than after."""

_MAX_LAW = 1 << 16
"""Records per user up to which the law of ``W`` is summed term by term."""


_Family = Callable[[Floats64], tuple[Floats64, Floats64]]
"""Terms ``(c, ln f)`` for an array of ``theta'``."""


class _Terms:
    """The terms of one score: families over a grid of ``theta'``, of which those with ``ln f < 0`` bound something."""

    def __init__(self, families: list[_Family], grid: Floats64) -> None:
        self.families, self.grids = families, [grid] * len(families)
        self.values = [family(grid) for family in families]
        self._gather()

    def _gather(self) -> None:
        """All terms that bound something, in one row."""
        c, log_f = (np.concatenate(parts) for parts in zip(*self.values))
        bounding = log_f < -SLACK
        self._c, self._log_f = c[bounding], log_f[bounding]

    def log_bound(self, n: int) -> float:
        """``ln (B(n) / |H|)``."""
        return float((self._c + n * self._log_f).min(initial=np.inf))

    def refine(self, n: int) -> None:
        """More values of ``theta'`` around the best one of each family for ``n`` users."""
        for i, family in enumerate(self.families):
            c, log_f = self.values[i]
            best = int(np.argmin(np.where(log_f < -SLACK, c + n * log_f, np.inf)))
            grid = self.grids[i]
            low, high = grid[best - 1] if best else grid[0] / _FINE, grid[min(best + 1, len(grid) - 1)]
            more = np.linspace(low, high, _FINE + 2)[1:-1]
            order = np.argsort(np.concatenate([grid, more]), kind="stable")
            self.grids[i] = np.concatenate([grid, more])[order]
            self.values[i] = tuple(np.concatenate([old, new])[order] for old, new in zip((c, log_f), family(more)))  # type: ignore[assignment]
        self._gather()


def _least(scores: list[_Terms], log_size: float, beta: float, rounds: int, beat: int | None) -> int | None:
    """The least n with ``B_C(n) + B_A(n) <= beta``; the sum falls with n.  ``beat``: None where it is that or more by
    far."""

    def enough(n: int, room: float = -SLACK) -> bool:
        return sum(math.exp(min(0.0, log_size + score.log_bound(n))) for score in scores) <= beta * (1 + room)

    if beat is not None and not enough(beat, _ROOM):
        return None
    found = least(enough, limit=LIMIT)
    for _ in range(rounds if found is not None else 0):
        assert found is not None
        for score in scores:
            score.refine(found)
        # What was enough is enough with more terms too, and mostly little less.
        near = found - found // 32 - 1
        found = least_between(enough, near, found) if near <= 0 or not enough(near) else least_between(enough, 0, near)
    return found


def _read(
    theta: Rational, alpha: Rational, beta: Rational, size: int, levels: int, effective_size: int | None
) -> tuple[float, float, float, float, int]:
    """theta, alpha, beta, ln |H| (of weighted rules, ln of what stands for it), levels."""
    rate, rules = read_theta(theta), positive_int(size, "size")
    excess = open_unit(rational(alpha, "alpha", minimum=ALPHA_BOTTOM), "alpha")
    share = rules if effective_size is None else positive_int(effective_size, "effective_size", minimum=rules)
    return rate, excess, open_unit(beta, "beta"), math.log(share), positive_int(levels, "levels")


_MOST_PENALTY = 1 << 60


def penalty(theta: Fraction, bits: int, levels: int) -> tuple[int, int]:
    """``K = floor(4 bits levels/theta)``, the most that optimism is worth to the mean score, and ``B = floor(bits
    levels/theta)``, what it pays in any case.

    Scores are 64-bit integers, so both end at 2**60: at an epsilon of about 1e-13, where no rule is told from another.
    Any constants are private; the certificates speak of these.

    >>> penalty(Fraction(1, 4), 1, 840)
    (13440, 3360)
    """
    votes = bits * levels / Fraction(theta)
    return min(math.floor(4 * votes), _MOST_PENALTY), min(math.floor(votes), _MOST_PENALTY)


def _penalty(theta: Rational, size: int, levels: int) -> tuple[float, float]:
    """``(K + B) / levels`` and ``B / levels``."""
    most, always = penalty(rational(theta, "theta", above=0), max(1, (size - 1).bit_length()), levels)
    return float(Fraction(most + always, levels)), float(Fraction(always, levels))


def _rounding(grid: Floats64, levels: int, clip: int) -> Floats64:
    return grid / levels if levels % clip else np.zeros_like(grid)


def certify_hybrid_noise(
    *,
    records_per_user: int,
    noise: Rational,
    size: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    levels: int,
    effective_size: int | None = None,
    rounds: int = ROUNDS,
    beat: int | None = None,
) -> Certificate:
    """Users for excess error at most ``alpha`` with probability ``1 - beta``: thresholds, bounded label noise, any law
    of x.

    **Assumption**: all users draw ``records_per_user`` records from one law; each label is wrong with probability at
    most ``noise`` at every x, independently given x.  ``size`` is the number of cuts, ``effective_size`` one over the
    least share of a cut in all weight, where they do not weigh alike.  Any larger number of users is
    certified too.  ``theta'`` takes 64 equal steps, refined ``rounds`` times around the best.

    ``beat``: so many users or more are of no interest, and perhaps not found.

    >>> given = dict(size=1025, theta=1, alpha=0.02, beta=0.1, levels=840)
    >>> [certify_hybrid_noise(records_per_user=m, noise=0, **given).n_users for m in (1, 4, 16, 64)]
    [726, 293, 131, 62]
    """
    rate, excess, failure, log_size, steps = _read(theta, alpha, beta, size, levels, effective_size)
    m = read_record_count(records_per_user, MAX_REGRET_RECORDS)
    wrong = float(rational(noise, "noise", minimum=0, maximum=NOISE_TOP))
    tau, (both, always) = own_clip(m), _penalty(theta, size, steps)

    def mean(t: Floats64) -> Floats64:
        return np.log(unclipped(t) * (1 + SLACK)) + _rounding(t, steps, m)

    def clip(t: Floats64) -> tuple[Floats64, Floats64]:
        return np.zeros_like(t), np.log(regret_factors(m, tau, wrong, excess, t) * (1 + SLACK)) + _rounding(
            t, steps, tau
        )

    def mixed(share: float) -> _Family:
        def terms(t: Floats64) -> tuple[Floats64, Floats64]:
            f = _mixed(unclipped(t), m, tau, wrong / (1 - wrong), share, t)
            return -share * always * t, np.log(f * (1 + SLACK)) + _rounding(t, steps, m)

        return terms

    grid = rate * np.arange(1, TILTS + 1) / TILTS
    on_grid = regret_factors(m, m, wrong, excess, grid)

    def unclipped(t: Floats64) -> Floats64:
        return on_grid if t is grid else regret_factors(m, m, wrong, excess, t)

    # Nothing is cut off where tau = m: both scores are the mean.
    mixes = [mixed(i / _MIXES) for i in range(1, _MIXES + 1)] if tau < m else []
    scores = [_Terms([lambda t: (np.zeros_like(t), mean(t)), *mixes], grid)]
    if tau < m:
        scores.append(_Terms([clip, lambda t: (both * t, mean(t))], grid))
    return Certificate.upper(
        _least(scores, log_size, failure, positive_int(rounds, "rounds", minimum=0), beat),
        "hybrid selection, bounded noise",
        f"thresholds, users with the same law and equally many records, each label wrong with probability at most "
        f"{noise} at every x",
        tau=tau,
        records_per_user=m,
    )


def _mixed(mean: Floats64, m: int, tau: int, q: float, share: float, grid: Floats64) -> Floats64:
    """``f`` of (K3); infinite where ``q e**s >= 1``."""
    k, s = share * grid * (1 / tau - 1 / m), grid / m
    j = np.arange(1, tau + 1)[:, None]
    rises = np.exp(k * j) * -np.expm1(-k)
    far = 1 + (rises * q**j).sum(axis=0)
    near = (rises * (q * np.exp(s)) ** j).sum(axis=0)
    return np.asarray(np.where(q * np.exp(s) < 1, mean * far + near, np.inf))


def certify_hybrid_any(
    *,
    records_per_user: int | None,
    size: int,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    levels: int,
    effective_size: int | None = None,
    thresholds: bool = True,
    rounds: int = ROUNDS,
    beat: int | None = None,
) -> Certificate:
    """Users for excess error at most ``alpha`` with probability ``1 - beta``, with no assumption on the labels.

    **Assumption**: all users have ``records_per_user`` records from one law; with ``None``, nothing at all but that
    users are independent (error is the mean over users of their own error rates).  ``thresholds=False``: a finite class
    of ``size`` rules.  ``effective_size``: one over the least share of a rule in all weight, where they do not weigh
    alike.  ``beat``: so many users or more are of no interest, and perhaps not found.

    >>> given = dict(size=1025, theta=1, alpha=0.05, beta=0.1, levels=840)
    >>> [certify_hybrid_any(records_per_user=m, **given).n_users for m in (4, 256, 1024, None)]
    [3719, 325, 192, 9932]
    """
    rate, excess, failure, log_size, steps = _read(theta, alpha, beta, size, levels, effective_size)
    m = 1 if records_per_user is None else positive_int(records_per_user, "records_per_user", maximum=1 << 50)
    tau, (both, _) = own_clip(m), _penalty(theta, size, steps)

    def mean(t: Floats64) -> Floats64:
        # Unknown numbers of records need not divide the levels.
        rounding = t / steps if records_per_user is None else _rounding(t, steps, m)
        return m * np.log1p(2 * np.sinh(t / m / 2) ** 2 - excess * np.sinh(t / m)) + SLACK + rounding

    def apart(t: Floats64) -> tuple[Floats64, Floats64]:
        return both * t, _apart(m, tau, excess, math.log(4 if thresholds else size), t) + _rounding(t, steps, tau)

    k = np.arange(1, 65)
    # each value once: between a value and itself there is nothing to refine
    grid = np.unique(np.concatenate([rate * k / 64, rate * 2.0 ** (-k / 8)]))
    scores = [_Terms([lambda t: (np.zeros_like(t), mean(t))], grid)]
    if records_per_user is None or tau < m:
        known = [apart] if records_per_user is not None and m <= _MAX_LAW else []
        scores.append(_Terms([lambda t: (both * t, mean(t)), *known], grid))
    found = _least(scores, log_size, failure, positive_int(rounds, "rounds", minimum=0), beat)
    if records_per_user is None:
        return Certificate.upper(found, "hybrid selection, any labels", "independent users of any kind")
    who = "users with the same law and equally many records"
    return Certificate.upper(found, "hybrid selection, any labels", who, tau=tau, records_per_user=m)


def _apart(m: int, tau: int, alpha: float, log_k: float, grid: Floats64) -> Floats64:
    """``ln f`` of the second half of (K2)."""
    w = 2 * np.arange(m + 1) - m
    mass = binom.logpmf(np.arange(m + 1), m, (1 + alpha) / 2)

    def clipped(t: Floats64) -> Floats64:
        return np.array([np.exp(np.minimum(mass - x * np.minimum(w, tau) / tau, 600.0)).sum() for x in t])

    optimism = math.sqrt(2 * (1 + log_k) / m)
    return np.log((clipped(grid) + np.expm1(grid) * optimism * np.sqrt(clipped(2 * grid))) * (1 + SLACK))


def hybrid_excess(
    *, n_users: int, size: int, theta: Rational, beta: Rational, levels: int, effective_size: int | None = None
) -> float:
    """What the error *on the users present* exceeds the least one by, at most, with probability ``1 - beta`` over the
    draw: every data set.

    ``n_users``: those with records.  ``(ln(|H|/beta) + ln(1 + e**(5 bits))) / (theta n) + 1/levels``, since a rule of
    the clipped score weighs at most ``e**(5 bits)`` times what it weighs in the mean score (``C >= M``).  Where rules
    do not weigh alike, ``effective_size`` (one over the least share of a rule) stands for ``|H|``, and ``bits`` stay.

    >>> round(hybrid_excess(n_users=10_000, size=1025, theta=1, beta=0.1, levels=840), 4)
    0.0076
    """
    rate, _, failure, log_size, steps = _read(theta, "1/2", beta, size, levels, effective_size)
    extra = 5 * max(1, (size - 1).bit_length())
    return (log_size - math.log(failure) + extra + math.log1p(math.exp(-extra))) / (
        rate * positive_int(n_users, "n_users")
    ) + 1 / steps


@frozen(slots=False, field_transformer=named)
class HybridSelection(Selection):
    """The user gives epsilon and a domain and nothing else.

    Parameters
    ----------
    levels : int, optional
        Steps in which a user's contribution is counted (public).

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> learner = HybridSelection(Thresholds(), epsilon=1)
    >>> str(learner.guarantee)
    '(1, 0)-DP per user, add-remove'
    >>> learner.law(people).mode, learner.rule_law(people).mode
    (4, 4)
    """

    levels: int = field(default=DEFAULT_LEVELS, converter=whole, metadata=bounds(maximum=1 << 31))
    weighs_rules: ClassVar[bool] = True

    @property
    def theta(self) -> Fraction:
        """The per-user privacy of the selection: ``eta * levels``."""
        return self.rate(self.epsilon, 1)

    def penalty(self, bits: int) -> tuple[int, int]:
        """``K``, the most that optimism is worth to the mean score, and ``B``, what it pays in any case; constants of
        the law.

        >>> from privpac.rules import Thresholds
        >>> HybridSelection(Thresholds(), epsilon="1/2", neighbours="replace").penalty(1)
        (13440, 3360)
        """
        return penalty(self.theta, bits, self.levels)

    # Laws

    def scores(self, bound: Bound) -> Profile:
        """The scores of all pairs: clipped score at ids ``0..|H| - 1``, mean score at ``|H|..2|H| - 1``."""
        folded = profile_of(bound, HybridStatistic(self.levels))
        if self.epsilon == 0:  # nothing is told apart
            return Profile(tuple(Step(s.offset, s.starts, s.end, np.zeros_like(s.scores)) for s in folded.steps))
        most, always = self.penalty(bound.concept.bits)
        more = min(folded.optimism, most) + always
        return Profile(
            tuple(
                s if s.offset < bound.concept.size else Step(s.offset, s.starts, s.end, s.scores + more)
                for s in folded.steps
            )
        )

    def law(self, data: Users) -> Law:
        """The law over pairs: id ``h`` is (clip, rule h), id ``|H| + h`` is (mean, rule h)."""
        return self._law(self.bind(data))

    def rule_law(self, data: Users) -> Law:
        """The law of what is released, the rule's id alone."""
        bound = self.bind(data)
        size = bound.concept.size

        def rules(ids: Cell) -> range:
            assert isinstance(ids, range)
            return range(ids.start % size, ids.start % size + (ids.stop - ids.start))

        return self._law(bound).map_blocks(rules)

    def outcome_text(self, concept: ConceptClass, pair: int) -> str:
        """A value of the law in words, for audits."""
        score, rule = divmod(pair, concept.size)
        return f"{concept.decode(rule)} ({('clip', 'mean')[score]} score)"

    def shown_as(self, bound: Bound, value: object) -> tuple[str, str] | None:
        assert isinstance(value, int)
        return super().shown_as(bound, value % bound.concept.size)  # which score it was is not shown

    def _law(self, bound: Bound) -> Law:
        return self.scores(bound).law(self.rate(self.epsilon, self.levels), weights=bound.concept.rule_weights)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        eta, size = self.rate(self.epsilon, self.levels), bound.concept.size
        # One draw from the law of pairs; it is not laid out where two profiles of millions of blocks would be copied.
        if self.epsilon == 0:
            pair = int(self._law(bound).sample(rng))
        else:
            penalty, weights = self.penalty(bound.concept.bits), bound.concept.rule_weights
            pair = drawn_id(bound, HybridStatistic(self.levels), eta, rng, penalty, weights)
        prior = bound.concept.prior_name
        shown = {"prior": prior, "effective_size": bound.concept.effective_size} if prior else {}
        return self.release_id(bound, pair % size, {"levels": self.levels, **shown}, "hybrid selection")


# Its lines in a plan


_BELOW_TEN = (
    "100 105 110 115 120 125 130 135 140 145 150 155 160 170 175 180 190 200 210 220 225 230 240 250 260 270 275 280 "
    "300 320 340 350 360 380 400 420 450 480 500 520 550 600 650 700 750 800 850 900 950"
)
_ABOVE_TEN = "100 120 150 200 300 500 700"
"""Leading digits of the values of epsilon that a learner may be planned with; above ten they hardly matter."""


def round_values(most: Fraction) -> Iterator[Fraction]:
    """Round numbers from ``most`` downwards, without end: the same for everyone, so that who may spend more may choose
    among more of them.

    >>> [float(value) for value in itertools.islice(round_values(Fraction("1.07")), 4)]
    [1.05, 1.0, 0.95, 0.9]
    """
    for power in itertools.count(math.floor(math.log10(most)) + 1, -1):
        digits = (_BELOW_TEN if power < 1 else _ABOVE_TEN).split()
        values = (int(leading) * Fraction(10) ** (power - 2) for leading in reversed(digits))
        yield from (value for value in values if value <= most)


def _users(
    goal: RuleGoal, certify: Callable[..., Certificate], m: int, *, beat: int | None = None, **more: object
) -> Certificate:
    sizes = {"size": goal.concept.size, "effective_size": goal.concept.effective_size}
    given = {**sizes, "theta": goal.theta, "levels": DEFAULT_LEVELS, **goal.accuracy, **more}

    def certified(size: int, beat: int | None) -> Certificate:
        return certify(records_per_user=size, beat=beat, **given)

    return fewest(m, certified, partial(_worth, goal), beat if goal.within is None else goal.within + 1)


def _worth(goal: RuleGoal, records: int) -> float:
    """Fewer users are never certified with so many records: the clipped score's vote is worth at most ``alpha m/tau``
    (see ``regret.plan_own_clip``)."""
    exponent = (math.log(goal.concept.effective_size) - math.log(goal.beta)) / float(goal.alpha * goal.theta)
    return exponent * own_clip(records) / records


@kept_by_numbers
def certified_voices(goal: RuleGoal, m: int) -> Certificate:
    return _users(goal, certify_hybrid_any, m, thresholds=goal.on_a_line)


@kept_by_numbers
def _bounded_noise(wanted: RuleGoal, m: int) -> Certificate:
    """The fewest users at a round epsilon up to this one.

    With a larger epsilon the mean score takes over sooner, sometimes before it has enough users (83 certified at 1.3,
    128 at 1.7): who may spend more may also spend less.  Round values alone are tried, this epsilon only if it is one:
    more budget then has all the choices that less has, and never certifies more users.
    """
    fewest_users: Certificate | None = None
    for epsilon in round_values(wanted.epsilon):
        goal, beat = evolve(wanted, epsilon=epsilon), None
        if fewest_users is not None:
            n = fewest_users.n_users
            beat = n if wanted.within is None else wanted.within + 1
            fewest_ever = min(_worth(goal, size) for size in numbers_up_to(min(m, MOST_READ)))
            if beat is None or fewest_ever >= beat or (n is not None and n < beat):
                break
        found = _users(goal, certify_hybrid_noise, m, beat=beat, noise=wanted.noise or 0)
        if fewest_users is None or (found.n_users is not None and (beat is None or found.n_users < beat)):
            fewest_users = found.run_with(epsilon=epsilon)
    assert fewest_users is not None
    return fewest_users


def hybrid_rows(goal: RuleGoal) -> list[PlannedMethod]:
    prior = f", prior of the rules: {goal.concept.prior_name}" if goal.concept.prior_name else ""
    lines = [PlannedMethod("hybrid selection", partial(certified_voices, goal), prior)]
    if goal.bounded_noise:
        less = f"{prior}, at this epsilon or less (its command says which)"
        name = "hybrid selection, bounded noise"
        lines.append(PlannedMethod(name, partial(_bounded_noise, goal), less, bounded_noise=True))
    return lines
