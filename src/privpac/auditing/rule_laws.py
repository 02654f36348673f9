"""The certificates of a plan for cut-offs, points and stumps, as claims to refute.

*Laws* are those of :mod:`privpac.auditing.refutation`: the class falls into few groups of rules, and a user is a row of
counts.

*Failure.*  The output's law depends on sums over users of small integers.  Where a single group is good enough, the
probability that a bad group is released is at least its probability against the good one alone; that needs the law of
one sum of independent integers, a convolution power, taken by the fast Fourier transform: nothing is drawn.  Elsewhere
data sets are drawn from a fixed seed and the exact law of the output is averaged over them.

*Learners.*  One entry of :data:`VOTES` for each: what a user adds to which sums, and the law of the output given the
sums.  Tests hold them against the learners' own laws.  Learners whose law needs all users at once are in
:mod:`privpac.auditing.rule_laws`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from privpac.auditing.refutation import OVER, STARTS, Claim, Failure, FewValueLaw, Point, law_at, shape_of, user_types
from privpac.data import UserData
from privpac.errors import ParameterError, PrivpacWarning, TooLargeError
from privpac.guarantee import Neighbours
from privpac.mechanisms.choosing import choosing_law
from privpac.methods.base import Selection
from privpac.methods.hierarchy.tree_learner import NodeChoice, TreeLearner
from privpac.methods.hybrid import TwoVoices
from privpac.methods.prediction.session import vote_law
from privpac.methods.prediction.voters import VotePredictor
from privpac.methods.realizable import RealizableSelection
from privpac.methods.regret import RegretSelection
from privpac.papers.few_examples_per_user.pairwise import PairwiseSelection
from privpac.papers.pure_agnostic.counting import UserAgnosticLearner
from privpac.papers.pure_agnostic.search import ThresholdSearch
from privpac.papers.pure_agnostic.surrogate_selection import SurrogateSelection
from privpac.papers.realizable_to_agnostic.reduction import AgnosticReduction
from privpac.planning.hierarchies import TreeTarget
from privpac.planning.rule_goals import RuleGoal
from privpac.planning.rules import RuleTarget
from privpac.planning.services import plan_service
from privpac.planning.simulation import ModelRng, fixed_draws
from privpac.planning.target import PlannedMethod
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies.base import MAX_LEVELS
from privpac.rules.hierarchies.nodes import TreeNodes
from privpac.rules.profile import own_luck
from privpac.rules.statistics import ClipRule, Exceeds, Mean, Regret, Statistic, own_clip
from privpac.sample_size import Certificate

__all__ = [
    "LEARNERS",
    "STARTS",
    "Trial",
    "VOTES",
    "Votes",
    "estimating_claim",
    "mean_failure",
    "reduction_claim",
    "rule_claim",
    "rule_claims",
    "search_claim",
    "selection_claim",
    "service_claim",
    "surrogate_claim",
    "tree_claim",
    "users_of",
]


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

    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers
    >>> from privpac.planning.rules import rule_target
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


# The certificates of a plan for trees, as claims to refute.
#
# *Tree learner.*  All mass lies on three points: the target's own node ``v``, perhaps one of its ancestors ``u``, both
# labelled 1, and a point below ``v``, labelled 0, with the rest.  A user who saw ``v`` names it, one who saw ``u`` only
# names that, everybody else the root. ``v`` and ``u`` together weigh just above ``alpha``, so nodes deeper than ``v``
# are
# bad, those above ``u`` too, and those from ``u`` on only if ``v`` weighs that much alone.  Some users may hold four
# times the declared records, as the assumption allows.  With two points a data set is the number of users who saw
# ``v``,
# and the mean of the exact law over it is a sum; with three, data sets are drawn.
#
# *Selection from all rules* is realizable selection: the laws of cut-offs on a path, and of points at the leaves of any
# other tree.


SETS = 40
_RANKS = ("epsilon1", "hi", "K", "users_per_part")

TREE_STARTS: tuple[Point, ...] = (
    (0.0, 0.0, 0.0, 0.5),
    (0.0, 0.0, 0.5, 1.0),
    (0.0, 0.5, 0.0, 0.5),
    (0.5, 0.9, 0.0, 1.0),
)
"""Mass beyond alpha, part of it on the ancestor, users with four times the records, depth of the target."""


@dataclass(frozen=True)
class _Tree:
    """The learner of one certificate."""

    target: TreeTarget
    learner: TreeLearner
    records: int

    def shares(self, point: Point) -> tuple[float, float, int, int]:
        """How often a part names the target, and the ancestor; their depths."""
        heavier, middle, more, deep = point
        wanted, height = min(0.95, float(self.target.alpha) * OVER * (1 + heavier)), self.target.tree.height
        depth = max(1, math.ceil(height * deep))
        upper = depth // 2
        above = wanted * 0.9 * middle if upper > 0 else 0.0
        parts = self.records * self.learner.users_per_part

        def seen(mass: float) -> float:
            few, many = (-math.expm1(parts * times * math.log1p(-mass)) for times in (1, 4))
            return (1 - more) * few + more * many

        told = seen(wanted - above)
        return told, seen(wanted) - told, depth, upper

    def about(self, point: Point) -> str:
        told, above, depth, upper = self.shares(point)
        return (
            f"{told:.3g} of the parts name a node of depth {depth}, {above:.3g} its ancestor of depth {upper}, the "
            "others the root"
        )

    def failure(self, point: Point, n: int) -> Failure:
        told, above, depth, upper = self.shares(point)
        parts = n // self.learner.users_per_part
        alone = above == 0 or float(self.target.alpha) * OVER * (1 + point[0]) * (1 - 0.9 * point[1]) > float(
            self.target.alpha
        )
        choice, good = self.learner.choice(self.target.tree, parts), (depth if alone else upper, depth)
        if above == 0:
            # What is left out on both sides weighs less than 2e-7, and counts as success.
            first, last = int(binom.ppf(1e-7, parts, told)), int(binom.isf(1e-7, parts, told))
            weights = binom.pmf(np.arange(first, last + 1), parts, told)
            return Failure(
                float(weights @ [missed(choice, good, depth, upper, (k, 0, parts - k)) for k in range(first, last + 1)])
            )
        drawn = fixed_draws(n).multinomial(parts, [told, above, 1 - told - above], size=SETS).tolist()
        return mean_failure(np.array([missed(choice, good, depth, upper, (a, b, c)) for a, b, c in drawn]))


def missed(choice: NodeChoice, good: tuple[int, int], depth: int, upper: int, named: tuple[int, int, int]) -> float:
    """The chance of any node but those from one depth to another above the target, when so many name it, its ancestor
    and the root.

    The law of :class:`~privpac.methods.hierarchy.tree_learner.NodeChoice` in double precision: depths that count alike
    are one block.
    """
    told, above, rest = named
    height = choice.tree.height
    cuts = sorted({0, 1, upper, upper + 1, depth, depth + 1, good[0], height + 1})
    blocks = [(low, high) for low, high in pairwise(cuts) if low <= height]

    def score(z: int) -> int:
        at_least = told * (depth >= z) + above * (upper >= z) + rest * (z == 0)
        beyond = told * (depth > z) + above * (upper > z)
        return min(at_least - choice.hi, choice.K - beyond)

    logs = np.array([math.log(high - low) + score(low) * math.log(choice.r1) for low, high in blocks])
    chances = np.exp(logs - logs.max())
    chances /= chances.sum()
    right = 0.0
    for (low, high), chance in zip(blocks, chances.tolist()):
        if good[0] <= low <= good[1] and chance > 1e-15:
            votes = told + above * (low <= upper)
            right += (
                chance * sum(_named(choice, z, votes) for z in range(low, high)) / (high - low)
                if not choice.tree.is_path
                else chance
            )
    return max(0.0, 1 - right)


@lru_cache(maxsize=1 << 15)
def _node(r2: Fraction, delta: Fraction, votes: int) -> float:
    return float(choosing_law({"v": votes}, r2, delta).prob_float("v"))


def _named(choice: NodeChoice, z: int, votes: int) -> float:
    """The chance of the target's ancestor at this depth, given the depth."""
    width = choice.tree.level_width(z)
    if width == 1:
        return 1.0
    if choice.delta > 0:
        return _node(choice.r2, choice.delta, votes) if votes else 0.0
    return 0.0 if width is None else 1 / (1 + (width - 1) * math.exp(-votes * math.log(choice.r2)))


def tree_claim(target: TreeTarget, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The tree learner with the ranks and the split of this very certificate."""
    assert found.n_users is not None
    tree = target.tree
    if tree.some_node(1) is None:
        return "no node of this tree can be named without data"
    if tree.height > MAX_LEVELS and not tree.is_path:
        return f"the law is written out for trees of height at most {MAX_LEVELS}"
    ranks: dict[str, Any] = {key: value for key, value in found.details if key in _RANKS}
    learner = TreeLearner(tree, target.epsilon, target.delta, target.neighbours, mode="closure", **ranks)
    trial = _Tree(target, learner, records_per_user)
    return Claim(method.name, found.n_users, float(target.beta), TREE_STARTS, trial.failure, trial.about)


def selection_claim(
    target: TreeTarget, method: PlannedMethod, found: Certificate, records_per_user: int
) -> Claim | str:
    """Realizable selection from all rules of the tree."""
    if not target.tree.scored:
        return "by formula only: there are too many rules to go through"
    try:
        nodes = TreeNodes(target.tree)
        rules = RuleGoal(nodes, target.epsilon, target.alpha, target.beta, target.neighbours)
        alike = replace(method, name="realizable selection", key="realizable")
        return rule_claim(rules, alike, found, records_per_user)
    except (ParameterError, TooLargeError) as error:
        return str(error)


# Certificates of rules whose output depends on all users at once: the learner itself, on drawn data sets of the hard
# laws.
#
# * *Selection with an estimate*: the learner's exact law given the data, averaged over data sets.
# * *The search, the agnostic reduction*: runs, each on a data set of its own.
# * *The prediction service*: runs; a law has so few values that a session answers a query at each of them, and what it
#   says there is a rule.
#
# Seeds are fixed.  Either way a refutation needs a lower confidence bound above ``beta``
# (:class:`~privpac.auditing.refute.Failure`).


DRAWN_SETS, RUNS = 40, 60
MOST_RULES, MOST_RECORDS = 1 << 12, 1 << 19

CORNERS: tuple[Point, ...] = ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (0.9, 0.5, 0.0, 0.0, 0.0, 0.0))
"""Fewer laws to start from: each costs many data sets."""


def users_of(law: FewValueLaw, concept: ConceptClass, counts: NDArray[np.int64]) -> UserData:
    """Users with these counts of (value, 0) and (value, 1), as a learner reads them."""
    features = {name or "x": domain for name, domain in concept.declared().items() if domain is not None}
    k, held = law.values, counts.sum(axis=1)
    cells = np.repeat(np.tile(np.arange(2 * k), len(counts)), counts.ravel())
    columns = [np.array(law.places(domain.size))[cells % k] for domain in features.values()]
    return UserData.from_arrays(
        np.stack(columns, axis=1), cells >= k, np.repeat(np.arange(len(counts)), held), features=features
    )


def _codes(law: FewValueLaw, concept: ConceptClass) -> dict[str, NDArray[np.uint64]]:
    """The values of the law as a rule reads them."""
    sizes = {name or "x": domain.size for name, domain in concept.declared().items() if domain is not None}
    return {name: np.array(law.places(size), dtype=np.uint64) for name, size in sizes.items()}


def _error(law: FewValueLaw, says: NDArray[Any]) -> NDArray[np.float64]:
    """Of rules that say so on the values of the law."""
    ones = np.array(law.ones)
    return np.asarray(np.where(says == 1, 1 - ones, ones) @ np.array(law.mass))


@dataclass(frozen=True)
class _Drawn:
    """One row: the learner for ``n`` users, and how it is asked."""

    target: Any
    records: int
    noise: float
    learner: Callable[[int], Any]
    runs: bool
    turned: bool = False
    """Labels the other way round: where nobody votes, the default of a class is then wrong."""

    def law(self, point: Point) -> FewValueLaw:
        law = law_at(point, float(self.target.alpha), self.noise, *shape_of(self.target.concept))
        return replace(law, ones=tuple(1 - share for share in law.ones)) if self.turned else law

    def about(self, point: Point) -> str:
        return str(self.law(point))

    def failure(self, point: Point, n: int) -> Failure:
        law, learner, rng, found = self.law(point), self.learner(n), fixed_draws(n), []
        concept, allowed = self.target.concept, float(law.errors.min()) + float(self.target.alpha)
        codes = _codes(law, concept)
        good = [] if self.runs else np.flatnonzero(self._errors(law, codes) <= allowed).tolist()
        for i in range(RUNS if self.runs else DRAWN_SETS):
            data = users_of(law, concept, rng.multinomial(self.records, law.cells, size=n))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
                if self.runs:
                    rule = learner.draw(learner.bind(data), ModelRng(n, i)).hypothesis
                    found.append(float(_error(law, rule.predict_codes(codes)) > allowed))
                else:
                    drawn = learner.rule_law(data)
                    found.append(max(0.0, 1 - sum(drawn.prob_float(rule) for rule in good)))
        return Failure.counted(round(sum(found)), RUNS) if self.runs else mean_failure(np.array(found))

    def _errors(self, law: FewValueLaw, codes: dict[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        """Of all rules of the class."""
        concept = self.target.concept
        bound = concept.with_columns({name or "x": domain for name, domain in concept.declared().items()})
        return _error(law, np.array([bound.predictions(codes, rule) for rule in range(concept.size)]))

    def claim(self, name: str, n: int) -> Claim | str:
        size, most = self.target.concept.size, 4 * n * self.records
        if size > MOST_RULES and not self.runs:
            return (
                f"needs all users at once, and {size:,} rules are too many to go through on every data set: asked on "
                "smaller classes"
            )
        if most > MOST_RECORDS:
            return (
                f"needs all users at once, and {most:,} records (4 times the certified users) are too many to draw "
                f"{DRAWN_SETS} times"
            )
        return Claim(name, n, float(self.target.beta), CORNERS, self.failure, self.about)


def estimating_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """User agnostic selection where it estimates the least error."""
    assert found.n_users is not None
    trial = Trial(replace(target), method, found.parameters, records_per_user)
    m = min(records_per_user, trial.learner(found.n_users).max_records or records_per_user)
    return _Drawn(target, m, trial.noise, trial.learner, False).claim(method.name, found.n_users)


def search_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The search for a cut, by runs: its law takes seconds even on few values."""
    assert found.n_users is not None
    given: dict[str, Any] = {
        "concept": target.concept,
        "epsilon": target.epsilon,
        "neighbours": target.neighbours,
        **found.parameters,
    }
    learner = ThresholdSearch(**given)
    m = min(records_per_user, learner.max_records or records_per_user)
    return _Drawn(target, m, 0.5, lambda n: learner, True).claim(method.name, found.n_users)


def reduction_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The reduction with selection inside, at the split of the budget that the certificate names."""
    assert found.n_users is not None
    inner = RealizableSelection(target.concept, found["eps_A"], target.neighbours)

    def learner(n: int) -> AgnosticReduction:
        return AgnosticReduction.for_target(
            inner, epsilon=target.epsilon, public_n_users=n, neighbours=target.neighbours
        )

    # One record each is as hard as any number: every user counts alike.
    return _Drawn(target, 1, 0.5, learner, True).claim(method.name, found.n_users)


@dataclass(frozen=True)
class _Answering:
    """A service as the harness asks it: every value of a law is one query, answered once."""

    service: VotePredictor

    def bind(self, data: UserData) -> Any:
        return self.service.relabelling.bind(data)

    def draw(self, bound: Any, rng: Any) -> Any:
        return _Session(self.service, bound.concept, self.service.fit(bound, rng), rng)


@dataclass(frozen=True)
class _Session:
    service: VotePredictor
    concept: ConceptClass
    voters: tuple[int, ...]
    rng: Any

    @property
    def hypothesis(self) -> _Session:
        return self

    def predict_codes(self, codes: dict[str, NDArray[np.uint64]]) -> NDArray[np.int64]:
        ones = np.sum([self.concept.predictions(codes, voter) for voter in self.voters], axis=0)
        laws = [vote_law(int(count), len(self.voters), self.service.gamma) for count in ones]
        return np.array([int(law.as_finite().sample(self.rng)) for law in laws])


def service_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The service with its certified constants; more people find the same ones, where their number is not public."""
    certified = found.n_users
    assert certified is not None
    if target.queries < 4:
        return "laws have up to four values, and there are fewer answers"

    def service(n: int) -> VotePredictor:
        told: dict[str, Any] = {"epsilon": target.epsilon, "delta": target.delta, "queries": target.queries}
        told |= {"alpha": target.alpha, "beta": target.beta, "neighbours": target.neighbours}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivpacWarning)
            return plan_service(target.concept, public_n_users=n, **told).predictor

    fixed = service(certified) if target.neighbours is Neighbours.ADD_REMOVE else None

    def learner(n: int) -> _Answering:
        return _Answering(fixed or service(n))

    # One record each is as hard as any number: every person counts alike.
    return _Drawn(target, 1, 0.5, learner, True, turned=True).claim(method.name, certified)


@dataclass(frozen=True)
class _Redrawn:
    """A selection from a public set that is drawn anew for every run: it may be a bad one."""

    build: Callable[[bytes], Any]

    def bind(self, data: UserData) -> UserData:
        return data

    def draw(self, data: UserData, rng: Any) -> Any:
        learner = self.build(b"".join(rng.word().to_bytes(8, "big") for _ in range(4)))
        return learner.draw(learner.bind(data), rng)


def surrogate_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """Selection from a representation."""
    assert found.n_users is not None
    common = {"epsilon": target.epsilon, "neighbours": target.neighbours, **found.parameters}

    def build(seed: bytes) -> SurrogateSelection:
        return SurrogateSelection(target.concept, public_seed=seed, **common)

    return _Drawn(target, 1, 0.5, lambda n: _Redrawn(build), True).claim(method.name, found.n_users)
