"""The certificates of a plan for trees, as claims to refute.

*Tree learner.*  All mass lies on three points: the target's own node ``v``, perhaps one of its ancestors ``u``, both
labelled 1, and a point below ``v``, labelled 0, with the rest.  A user who saw ``v`` names it, one who saw ``u`` only
names that, everybody else the root. ``v`` and ``u`` together weigh just above ``alpha``, so nodes deeper than ``v`` are
bad, those above ``u`` too, and those from ``u`` on only if ``v`` weighs that much alone.  Some users may hold four
times the declared records, as the assumption allows.  With two points a data set is the number of users who saw ``v``,
and the mean of the exact law over it is a sum; with three, data sets are drawn.

*Selection from all rules* is realizable selection: the laws of cut-offs on a path, and of points at the leaves of any
other tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import binom

from privpac.auditing.few_values import OVER
from privpac.auditing.refutation import Claim, Failure, Point
from privpac.auditing.rule_laws import mean_failure, rule_claim
from privpac.bounds.certificate import Certificate
from privpac.concepts.trees.base import MAX_LEVELS
from privpac.concepts.trees.nodes import TreeNodes
from privpac.errors import ParameterError, TooLargeError
from privpac.learners.tree.law import NodeChoice
from privpac.learners.tree.learner import TreeLearner
from privpac.mechanisms.choosing import choosing_law
from privpac.planning.models.fixed_draws import fixed_draws
from privpac.planning.targets.rule_goal import RuleGoal
from privpac.planning.targets.target import PlannedMethod
from privpac.planning.targets.tree_targets import TreeTarget

__all__ = ["STARTS", "selection_claim", "tree_claim"]

SETS = 40
_RANKS = ("epsilon1", "hi", "K", "users_per_part")

STARTS: tuple[Point, ...] = ((0.0, 0.0, 0.0, 0.5), (0.0, 0.0, 0.5, 1.0), (0.0, 0.5, 0.0, 0.5), (0.5, 0.9, 0.0, 1.0))
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

    The law of :class:`~privpac.learners.tree.law.NodeChoice` in double precision: depths that count alike are one
    block.
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
    return Claim(method.name, found.n_users, float(target.beta), STARTS, trial.failure, trial.about)


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
