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
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray
from scipy.stats import binom

from privpac.arrays import Array, Floats64, Ints
from privpac.auditing.refutation import (
    OVER,
    STARTS,
    Claim,
    Failure,
    FewValueLaw,
    SearchPoint,
    law_at,
    shape_of,
    user_types,
)
from privpac.data import UserData
from privpac.errors import ParameterError, PrivpacWarning, TooLargeError
from privpac.guarantee import Neighbours
from privpac.mechanisms.choosing import choosing_law
from privpac.methods.base import Selection
from privpac.methods.hierarchy.tree_learner import NodeChoice, TreeLearner
from privpac.methods.hierarchy.tree_plan import TreeTarget
from privpac.methods.hybrid import HybridSelection
from privpac.methods.planned import RuleGoal
from privpac.methods.prediction.relabel import BoundSplit
from privpac.methods.prediction.service_plan import ServiceTarget, plan_service
from privpac.methods.prediction.session import vote_law
from privpac.methods.prediction.voters import VotePredictor
from privpac.methods.realizable import RealizableSelection
from privpac.methods.registry import METHODS, PlannedMethod, resolve
from privpac.methods.regret import RegretSelection
from privpac.methods.simulation import ModelRng, fixed_draws
from privpac.planning.rules import RuleTarget
from privpac.rng import Rng
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies.base import MAX_LEVELS
from privpac.rules.hierarchies.nodes import TreeNodes
from privpac.rules.profile import ClipRule, Mean, Regret, Statistic, own_clip, own_optimism
from privpac.sample_size import Certificate

_LENGTH, _DRAWN = 1 << 22, 1 << 19


# What a learner reads


@frozen(slots=False)
class Votes:
    """What users add up to, and the law of the output.

    ``cast(mistakes, records)``: integers of every user (rows), from the mistakes of all groups; ``law(totals,
    copies)``: probabilities of the groups, rows by rows.  ``rate``: the weight of group g is its copies times
    ``exp(-rate total_g)`` and nothing else, if not ``None``.
    """

    cast: Callable[[Ints, int], Ints]
    law: Callable[[Ints, Floats64], Floats64]
    rate: float | None = None


def softmax(logs: Floats64) -> Floats64:
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def selection_votes(statistic: Statistic, rate: float) -> Votes:
    def cast(mistakes: Ints, m: int) -> Ints:
        base = mistakes.min(axis=1, keepdims=True) if statistic.uses_minimum else 0
        cap = statistic.cap_of(m)
        return np.asarray(statistic.bound * np.clip(mistakes - base - statistic.offset_of(m), 0, cap) // cap)

    return Votes(cast, lambda totals, copies: softmax(np.log(copies) - rate * totals), rate)


def _regret(learner: RegretSelection, bits: int, n: int) -> Votes:
    if learner.statistic == "mean":
        statistic: Statistic = Mean(learner.levels)
    else:
        statistic = Regret(learner.tau or ClipRule(learner.theta, n, bits), learner.levels)
    return selection_votes(statistic, float(learner.rate(learner.epsilon_selection, learner.levels)))


def _realizable(learner: RealizableSelection, bits: int, n: int) -> Votes:
    return selection_votes(learner.statistic, float(learner.rate(learner.epsilon, 1)))


def _hybrid(learner: HybridSelection, bits: int, n: int) -> Votes:
    levels, (most, always) = learner.levels, learner.penalty(bits)
    rate = float(learner.rate(learner.epsilon, levels))

    def cast(mistakes: Ints, m: int) -> Ints:
        own = mistakes.min(axis=1)
        regret = mistakes - own[:, None]
        clip = levels * np.minimum(regret, own_clip(m)) // own_clip(m)
        mean = levels * regret // m
        optimism = np.minimum(np.array([own_optimism(m, int(b), levels) for b in own]), levels - mean.max(axis=1))
        return np.concatenate([clip, mean, optimism[:, None]], axis=1)

    def law(totals: Ints, copies: Floats64) -> Floats64:
        groups = len(copies)
        clip, mean, optimism = totals[..., :groups], totals[..., groups : 2 * groups], totals[..., -1:]
        both = np.concatenate([clip, mean + np.minimum(optimism, most) + always], axis=-1)
        pairs = softmax(np.log(np.tile(copies, 2)) - rate * both)
        return np.asarray(pairs[..., :groups] + pairs[..., groups:])

    return Votes(cast, law)


VOTES: dict[type[Any], Callable[[Any, int, int], Votes]] = {
    RegretSelection: _regret,
    RealizableSelection: _realizable,
    HybridSelection: _hybrid,
}
"""For each learner: its votes on a class of so many bits, with ``n`` users; a claim may bring its own."""

# Failure


@frozen(slots=False)
class Trial:
    """One row of a plan for ``records`` records per user."""

    target: RuleGoal
    method: PlannedMethod
    parameters: dict[str, Any]
    records: int
    votes: Callable[[Any, int, int], Votes] | None = None

    @property
    def noise(self) -> float:
        """The largest share of wrong labels that the row's assumption allows."""
        if METHODS[self.method.key].setting == "realizable":
            return 0.0
        return float(self.target.noise or 0) if self.method.bounded_noise else 0.5

    def law(self, point: SearchPoint) -> FewValueLaw:
        return law_at(point, float(self.target.alpha), self.noise, *self.shape)

    @cached_property
    def shape(self) -> tuple[str, tuple[int, ...]]:
        return shape_of(self.target.concept)

    def about(self, point: SearchPoint) -> str:
        return str(self.law(point))

    def learner(self, n: int) -> Selection:
        given = dict(self.parameters)
        if "public_n_users" in given:
            given["public_n_users"] = n  # the clip follows the number of users
        target = self.target
        common: dict[str, Any] = {"concept": target.concept, "epsilon": target.epsilon, "neighbours": target.neighbours}
        learner: Selection = METHODS[self.method.key].load()(**common | given)
        return learner

    def failure(self, point: SearchPoint, n: int) -> Failure:
        law, learner = self.law(point), self.learner(n)
        votes = (self.votes or VOTES[type(learner)])(learner, self.target.concept.bits, n)
        # Of rules that do not weigh alike the lightest may be the good ones.
        copies = law.copies(self.target.concept.effective_size if learner.weighs_rules else self.target.concept.size)
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
    cast: Ints, chances: Floats64, rate: float, copies: Floats64, bad: NDArray[np.bool_], n: int
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


def _drawn_types(
    cast: Ints, chances: Floats64, votes: Votes, copies: Floats64, bad: NDArray[np.bool_], n: int
) -> Failure:
    """Data sets by the numbers of users of each type; types that vote alike count as one."""
    distinct, place = np.unique(cast, axis=0, return_inverse=True)
    merged = np.bincount(place.reshape(-1), weights=chances)
    sets = max(32, min(2000, _DRAWN // len(merged)))
    users = fixed_draws(n).multinomial(n, merged / merged.sum(), size=sets)
    return mean_failure(votes.law(users @ distinct, copies)[:, bad].sum(axis=1))


def _drawn_users(law: FewValueLaw, m: int, votes: Votes, copies: Floats64, bad: NDArray[np.bool_], n: int) -> Failure:
    """Data sets user by user."""
    rng, values = fixed_draws(n), []
    for _ in range(max(16, min(200, _DRAWN // n))):
        cast = votes.cast(law.mistakes(rng.multinomial(m, law.cells, size=n)), m)
        values.append(float(votes.law(cast.sum(axis=0), copies)[bad].sum()))
    return mean_failure(np.array(values))


def mean_failure(values: Floats64) -> Failure:
    # The spread of few values may be 0 by chance: one more failure is allowed for.
    count = len(values)
    return Failure(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(count) + 1 / count**1.5)


# Claims


def rule_claim(
    target: RuleGoal,
    method: PlannedMethod,
    found: Certificate,
    records_per_user: int,
    votes: Callable[[Any, int, int], Votes] | None = None,
) -> Claim:
    """The claim of one row, with the learner that its certificate names; ``votes``: those of the learner."""
    assert found.n_users is not None
    trial = Trial(evolve(target), method, found.parameters, records_per_user, votes)
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
    >>> [claim.name for claim in rule_claims(target, 1, rows=("realizable selection", "hybrid selection"))]
    ['realizable selection', 'hybrid selection']
    """
    shape_of(target.concept)
    claims = []
    for method in target.methods():
        if method.kind != "certified" or (rows is not None and method.name not in rows):
            continue
        found = method.certify(records_per_user)
        made = None if found.n_users is None else resolve(method.hard_laws)(target, method, found, records_per_user)
        if isinstance(made, Claim) and isinstance(getattr(made.failure, "__self__", None), Trial):
            claims.append(made)
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

TREE_STARTS: tuple[SearchPoint, ...] = (
    (0.0, 0.0, 0.0, 0.5),
    (0.0, 0.0, 0.5, 1.0),
    (0.0, 0.5, 0.0, 0.5),
    (0.5, 0.9, 0.0, 1.0),
)
"""Mass beyond alpha, part of it on the ancestor, users with four times the records, depth of the target."""


@frozen(slots=False)
class _Tree:
    """The learner of one certificate."""

    target: TreeTarget
    learner: TreeLearner
    records: int

    def shares(self, point: SearchPoint) -> tuple[float, float, int, int]:
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

    def about(self, point: SearchPoint) -> str:
        told, above, depth, upper = self.shares(point)
        return (
            f"{told:.3g} of the parts name a node of depth {depth}, {above:.3g} its ancestor of depth {upper}, the "
            "others the root"
        )

    def failure(self, point: SearchPoint, n: int) -> Failure:
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
        alike = evolve(method, name="realizable selection", key="realizable")
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

CORNERS: tuple[SearchPoint, ...] = ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (0.9, 0.5, 0.0, 0.0, 0.0, 0.0))
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


def _error(law: FewValueLaw, says: Array) -> NDArray[np.float64]:
    """Of rules that say so on the values of the law."""
    ones = np.array(law.ones)
    return np.asarray(np.where(says == 1, 1 - ones, ones) @ np.array(law.mass))


@frozen(slots=False)
class DrawnTrial:
    """One row: the learner for ``n`` users, and how it is asked."""

    target: RuleGoal | ServiceTarget
    records: int
    noise: float
    learner: Callable[[int], Any]
    runs: bool
    turned: bool = False
    """Labels the other way round: where nobody votes, the default of a class is then wrong."""

    def law(self, point: SearchPoint) -> FewValueLaw:
        law = law_at(point, float(self.target.alpha), self.noise, *shape_of(self.target.concept))
        return evolve(law, ones=tuple(1 - share for share in law.ones)) if self.turned else law

    def about(self, point: SearchPoint) -> str:
        return str(self.law(point))

    def failure(self, point: SearchPoint, n: int) -> Failure:
        law, learner, rng, found = self.law(point), self.learner(n), fixed_draws(n), []
        concept, allowed = self.target.concept, float(law.errors.min()) + float(self.target.alpha)
        codes = _codes(law, concept)
        good = [] if self.runs else np.flatnonzero(self._errors(law, codes) <= allowed).tolist()
        for i in range(RUNS if self.runs else DRAWN_SETS):
            data = users_of(law, concept, rng.multinomial(self.records, law.cells, size=n))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
                if self.runs:
                    rule = learner.draw(learner.bind(data), ModelRng(n, i)).value
                    found.append(float(_error(law, rule.predict_codes(codes)) > allowed))
                else:
                    drawn = learner.rule_law(data)
                    found.append(max(0.0, 1 - sum(drawn.prob_float(rule) for rule in good)))
        return Failure.counted(round(sum(found)), RUNS) if self.runs else mean_failure(np.array(found))

    def _errors(self, law: FewValueLaw, codes: dict[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        """Of all rules of the class."""
        concept = self.target.concept
        columns = {name or "x": domain for name, domain in concept.declared().items() if domain is not None}
        bound = concept.with_columns(columns)
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


@frozen(slots=False)
class _Answering:
    """A service as the harness asks it: every value of a law is one query, answered once."""

    service: VotePredictor

    def bind(self, data: UserData) -> BoundSplit:
        return self.service.relabelling.bind(data)

    def draw(self, bound: Any, rng: Rng) -> _Session:
        return _Session(self.service, bound.concept, self.service.fit(bound, rng), rng)


@frozen(slots=False)
class _Session:
    service: VotePredictor
    concept: ConceptClass
    voters: tuple[int, ...]
    rng: Rng

    @property
    def value(self) -> _Session:
        return self

    def predict_codes(self, codes: dict[str, NDArray[np.uint64]]) -> NDArray[np.int64]:
        ones = np.sum([self.concept.predictions(codes, voter) for voter in self.voters], axis=0)
        laws = [vote_law(int(count), len(self.voters), self.service.gamma) for count in ones]
        return np.array([int(law.as_finite().sample(self.rng)) for law in laws])


def service_claim(
    target: ServiceTarget, method: PlannedMethod, found: Certificate, records_per_user: int
) -> Claim | str:
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
    return DrawnTrial(target, 1, 0.5, learner, True, turned=True).claim(method.name, certified)
