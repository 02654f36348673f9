"""The certificates of a plan for cut-offs, points and stumps, as claims to refute.

*Laws* are those of :mod:`privpac.auditing.few_values`: the class falls into few groups of rules, and a user is a row of
counts.

*Failure.*  The output's law depends on sums over users of small integers.  Where a single group is good enough, the
probability that a bad group is released is at least its probability against the good one alone; that needs the law of
one sum of independent integers, a convolution power, taken by the fast Fourier transform: nothing is drawn.  Elsewhere
data sets are drawn from a fixed seed and the exact law of the output is averaged over them.

*Learners.*  One entry of :data:`VOTES` for each: what a user adds to which sums, and the law of the output given the
sums.  Tests hold them against the learners' own laws.  Learners whose law needs all users at once are in
:mod:`privpac.auditing.drawn_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.auditing.few_values import STARTS, FewValueLaw, law_at, shape_of, user_types
from privpac.auditing.refutation import Claim, Failure, Point
from privpac.bounds.certificate import Certificate
from privpac.concepts.statistics import ClipRule, Exceeds, Mean, Regret, Statistic, own_clip
from privpac.concepts.voices import own_luck
from privpac.errors import TooLargeError
from privpac.learners.agnostic.counting import UserAgnosticLearner
from privpac.learners.base import Selection
from privpac.learners.pairwise.learner import PairwiseSelection
from privpac.learners.selection.realizable import RealizableSelection
from privpac.learners.selection.regret import RegretSelection
from privpac.learners.selection.voices import TwoVoices
from privpac.planning.models.fixed_draws import fixed_draws
from privpac.planning.targets.rule_goal import RuleGoal
from privpac.planning.targets.rule_targets import RuleTarget
from privpac.planning.targets.target import PlannedMethod

__all__ = ["LEARNERS", "VOTES", "Votes", "rule_claim", "rule_claims", "Trial", "mean_failure"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_LENGTH, _DRAWN = 1 << 22, 1 << 19


# What a learner reads


@dataclass(frozen=True)
class Votes:
    """What users add up to, and the law of the output.

    ``cast(mistakes, records)``: integers of every user (rows), from the mistakes of all groups; ``law(totals,
    copies)``: probabilities of the groups, rows by rows.  ``rate``: the weight of group g is its copies times
    ``exp(-rate total_g)`` and nothing else, if not ``None``.
    """

    cast: Callable[[Ints, int], Ints]
    law: Callable[[Ints, Floats], Floats]
    rate: float | None = None


def _softmax(logs: Floats) -> Floats:
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _selection(statistic: Statistic, rate: float) -> Votes:
    def cast(mistakes: Ints, m: int) -> Ints:
        base = mistakes.min(axis=1, keepdims=True) if statistic.uses_minimum else 0
        cap = statistic.cap_of(m)
        return np.asarray(statistic.bound * np.clip(mistakes - base - statistic.offset_of(m), 0, cap) // cap)

    return Votes(cast, lambda totals, copies: _softmax(np.log(copies) - rate * totals), rate)


def _regret(learner: RegretSelection, bits: int, n: int) -> Votes:
    if learner.statistic == "mean":
        statistic: Statistic = Mean(learner.levels)
    else:
        statistic = Regret(learner.tau or ClipRule(learner.theta, n, bits), learner.levels)
    return _selection(statistic, float(learner.rate(learner.epsilon_selection, learner.levels)))


def _realizable(learner: RealizableSelection, bits: int, n: int) -> Votes:
    return _selection(learner.statistic, float(learner.rate(learner.epsilon, 1)))


def _agnostic(learner: UserAgnosticLearner, bits: int, n: int) -> Votes:
    if learner.estimates:
        raise TooLargeError("an estimate depends on all users at once")
    return _selection(Exceeds(learner.tolerance_given(None)), float(learner.rate(learner.epsilon, 1)))


def _voices(learner: TwoVoices, bits: int, n: int) -> Votes:
    levels, (most, always) = learner.levels, learner.handicap(bits)
    rate = float(learner.rate(learner.epsilon, levels))

    def cast(mistakes: Ints, m: int) -> Ints:
        own = mistakes.min(axis=1)
        regret = mistakes - own[:, None]
        clip = levels * np.minimum(regret, own_clip(m)) // own_clip(m)
        mean = levels * regret // m
        luck = np.minimum(np.array([own_luck(m, int(b), levels) for b in own]), levels - mean.max(axis=1))
        return np.concatenate([clip, mean, luck[:, None]], axis=1)

    def law(totals: Ints, copies: Floats) -> Floats:
        groups = len(copies)
        clip, mean, luck = totals[..., :groups], totals[..., groups : 2 * groups], totals[..., -1:]
        both = np.concatenate([clip, mean + np.minimum(luck, most) + always], axis=-1)
        pairs = _softmax(np.log(np.tile(copies, 2)) - rate * both)
        return np.asarray(pairs[..., :groups] + pairs[..., groups:])

    return Votes(cast, law)


def _pairwise(learner: PairwiseSelection, bits: int, n: int) -> Votes:
    clip = int(learner.tau)
    rate = float(learner.epsilon / learner.range_sensitivity(clip))

    def cast(mistakes: Ints, m: int) -> Ints:
        apart = np.clip(mistakes[:, :, None] - mistakes[:, None, :], -clip, clip)
        return np.asarray(apart.reshape(len(mistakes), -1))

    def law(totals: Ints, copies: Floats) -> Floats:
        groups = len(copies)
        apart = totals.reshape(*totals.shape[:-1], groups, groups).astype(float)
        # A rule competes with others that predict alike, but not with itself.
        alone = np.where(np.eye(groups, dtype=bool) & (copies == 1)[:, None], -np.inf, 0.0)
        return _softmax(np.log(copies) - rate * (apart + alone).max(axis=-1))

    return Votes(cast, law)


VOTES: dict[type[Any], Callable[[Any, int, int], Votes]] = {
    RegretSelection: _regret,
    RealizableSelection: _realizable,
    UserAgnosticLearner: _agnostic,
    TwoVoices: _voices,
    PairwiseSelection: _pairwise,
}
"""For each learner: its votes on a class of so many bits, with ``n`` users."""

LEARNERS: dict[str, type[Selection]] = {
    "realizable": RealizableSelection,
    "voices": TwoVoices,
    "regret": RegretSelection,
    "mean": RegretSelection,
    "agnostic": UserAgnosticLearner,
    "pairwise": PairwiseSelection,
}
"""The learner of each method of a plan, by its key."""


# Failure


@dataclass(frozen=True)
class Trial:
    """One row of a plan for ``records`` records per user."""

    target: RuleGoal
    method: PlannedMethod
    parameters: dict[str, Any]
    records: int

    @property
    def noise(self) -> float:
        """The largest share of wrong labels that the row's assumption allows."""
        if self.method.key == "realizable":
            return 0.0
        return float(self.target.noise or 0) if self.method.bounded_noise else 0.5

    def law(self, point: Point) -> FewValueLaw:
        return law_at(point, float(self.target.alpha), self.noise, *self.shape)

    @cached_property
    def shape(self) -> tuple[str, tuple[int, ...]]:
        return shape_of(self.target.concept)

    def about(self, point: Point) -> str:
        return str(self.law(point))

    def learner(self, n: int) -> Selection:
        given = dict(self.parameters)
        if "public_n_users" in given:
            given["public_n_users"] = n  # the clip follows the number of users
        target = self.target
        common: dict[str, Any] = {"concept": target.concept, "epsilon": target.epsilon, "neighbours": target.neighbours}
        return LEARNERS[self.method.key](**common | given)

    def failure(self, point: Point, n: int) -> Failure:
        law, learner = self.law(point), self.learner(n)
        votes = VOTES[type(learner)](learner, self.target.concept.bits, n)
        copies = law.copies(self.target.concept.size)
        bad = law.errors > law.errors.min() + float(self.target.alpha)
        m = min(self.records, learner.max_records or self.records)
        if not bad.any():
            return Failure(0.0)
        listed = user_types(law, m)
        if listed is None:
            return _drawn_users(law, m, votes, copies, bad, n)
        counts, chances = listed
        cast = votes.cast(law.mistakes(counts), m)
        exact = (
            _convolved(cast, chances, votes.rate, copies, bad, n)
            if votes.rate is not None and (~bad).sum() == 1
            else None
        )
        return exact or _drawn_types(cast, chances, votes, copies, bad, n)


def _convolved(
    cast: Ints, chances: Floats, rate: float, copies: Floats, bad: NDArray[np.bool_], n: int
) -> Failure | None:
    """Exactly: the only good group against the worst bad one.  More bad groups only raise the probability of a bad
    one."""
    good = int(np.flatnonzero(~bad)[0])
    found = None
    for group in np.flatnonzero(bad):
        gap = cast[:, group] - cast[:, good]
        unit = int(np.gcd.reduce(gap))
        if unit == 0:
            continue
        low, high = int(gap.min()) // unit, int(gap.max()) // unit
        length = (high - low) * n + 1
        if length > _LENGTH:
            return None
        one = np.bincount(gap // unit - low, weights=chances, minlength=high - low + 1)
        size = 1 << (length - 1).bit_length()
        law = np.maximum(np.fft.irfft(np.fft.rfft(one, size) ** n, size)[:length], 0.0)
        logs = np.log(copies[group] / copies[good]) - rate * unit * (np.arange(length) + low * n)
        # A rounding error of 1e-12 in all.
        value = float(law @ (1 / (1 + np.exp(np.clip(-logs, -700, 700))))) - 1e-10
        found = value if found is None else max(found, value)
    return None if found is None else Failure(max(0.0, found))


def _drawn_types(cast: Ints, chances: Floats, votes: Votes, copies: Floats, bad: NDArray[np.bool_], n: int) -> Failure:
    """Data sets by the numbers of users of each type; types that vote alike count as one."""
    distinct, place = np.unique(cast, axis=0, return_inverse=True)
    merged = np.bincount(place.reshape(-1), weights=chances)
    sets = max(32, min(2000, _DRAWN // len(merged)))
    users = fixed_draws(n).multinomial(n, merged / merged.sum(), size=sets)
    return mean_failure(votes.law(users @ distinct, copies)[:, bad].sum(axis=1))


def _drawn_users(law: FewValueLaw, m: int, votes: Votes, copies: Floats, bad: NDArray[np.bool_], n: int) -> Failure:
    """Data sets user by user."""
    rng, values = fixed_draws(n), []
    for _ in range(max(16, min(200, _DRAWN // n))):
        cast = votes.cast(law.mistakes(rng.multinomial(m, law.cells, size=n)), m)
        values.append(float(votes.law(cast.sum(axis=0), copies)[bad].sum()))
    return mean_failure(np.array(values))


def mean_failure(values: Floats) -> Failure:
    # The spread of few values may be 0 by chance: one more failure is allowed for.
    count = len(values)
    return Failure(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(count) + 1 / count**1.5)


# Claims


def rule_claim(target: RuleGoal, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim:
    """The claim of one row, with the learner that its certificate names."""
    assert found.n_users is not None
    trial = Trial(replace(target), method, found.parameters, records_per_user)
    trial.shape  # noqa: B018  # classes without laws are refused here
    return Claim(method.name, found.n_users, float(target.beta), STARTS, trial.failure, trial.about)


def rule_claims(target: RuleTarget, records_per_user: int, *, rows: tuple[str, ...] | None = None) -> list[Claim]:
    """The certified rows of a plan for rules that select, each with the learner that its certificate names.

    Rows without a number are left out, and those that depend on an estimate; :func:`privpac.auditing.plan_claims`
    has all.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Integers
    >>> from privpac.planning.targets.rule_targets import rule_target
    >>> from privpac.auditing.refutation import refute
    >>> target = rule_target(Thresholds(Integers(0, 99)), 1, "0.1", "0.05", "add-remove", "0.1")
    >>> [claim.name for claim in rule_claims(target, 1, rows=("realizable selection", "two voices"))]
    ['realizable selection', 'two voices']
    """
    shape_of(target.concept)
    claims = []
    for method in target.methods():
        if method.key not in LEARNERS or (rows is not None and method.name not in rows):
            continue
        found = method.certify(records_per_user)
        if found.n_users is not None and not found.parameters.get("estimator"):
            claims.append(rule_claim(target, method, found, records_per_user))
    return claims
