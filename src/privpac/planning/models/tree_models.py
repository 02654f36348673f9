"""What the tree learner is predicted to do: the exact law of its two draws on drawn people of a stated model.

*Model.*  The target is a node half-way down a longest path, and labels are right.  Half of the records are regions that
hold the target, each of its depths equally likely; the others say nothing of it (points that all rules label alike).
On a tree with one node per level the values are uniform and the cut-off lies in the middle: then the others lie below
the target.

*Statistic.*  With right labels every part of users names an ancestor of the target, the deepest one it has seen, so all
votes of a level are for one node.  The depths of the parts decide, and they are drawn directly, for any vocabulary and
number of records: in ``m`` records none is deeper than ``d`` with probability ``(1 - s (D - d)/D)**m``, for a target at
depth ``D`` and a share ``s`` of records on its path.  Whatever names no ancestor of the target counts as wrong on the
whole path.

The law of the depth is the rank law of the learner, that of the node its choosing law (or selection among all nodes of
the level); means are sums in double precision.  Only depths found by hidden walks are drawn, with the coins of the
model.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.trees.learner import TreeBudget
from privpac.concepts.thresholds import Thresholds
from privpac.concepts.trees.base import MAX_LEVELS, VC1Tree
from privpac.concepts.trees.implicit import PathTree
from privpac.data import Integers
from privpac.errors import ParameterError, PrivpacWarning, TooLargeError
from privpac.exact import rational
from privpac.law.base import Bottom
from privpac.learners.tree.learner import TreeLearner
from privpac.planning.models.rule_models import RuleSimulation
from privpac.planning.models.simulation import ModelRng, Simulation, big_integers
from privpac.planning.targets.rule_goal import RuleGoal

if TYPE_CHECKING:
    from privpac.planning.targets.tree_targets import TreeTarget

__all__ = ["PathSelection", "TreeSimulation", "tree_simulations"]

Floats64 = NDArray[np.float64]

MOST_USERS = 1 << 14
_EXACT, _DIGITS, _WORD = 1 << 52, 53, 64
_SHORT = 100
"""Bits of the height up to which depths are never found by hidden walks."""


def tree_simulations(target: TreeTarget) -> list[Simulation]:
    """The tree learner on its model; for cut-offs, whose model is that of their class, also selection from all rules.

    >>> from privpac.concepts import PrefixTree
    >>> from privpac.planning.targets.tree_targets import tree_target
    >>> asked = {"epsilon": 1, "delta": "1e-6", "alpha": "0.1", "beta": "0.05", "neighbours": "add-remove",
    ...     "simple": False}
    >>> (found,) = tree_simulations(tree_target(PrefixTree(8), **asked))
    >>> found.at(4, 200, found.target.epsilon).excess < 0.05
    True
    """
    if target.tree.height == 0:
        return []
    tree = target.tree
    every = [PathSelection(target)] if isinstance(tree, PathTree) and tree.size <= 1 << _WORD else []
    return [TreeSimulation(target), *every]


@dataclass(frozen=True)
class PathSelection(Simulation):
    """Selection from all cut-offs, as it is predicted for their class."""

    target: TreeTarget

    @property
    def method(self) -> str:
        return "selection from all rules"

    @property
    def model(self) -> str:
        return self._rules.model

    @cached_property
    def _rules(self) -> RuleSimulation:
        asked, tree = self.target, self.target.tree
        assert isinstance(tree, PathTree)
        concept = Thresholds(Integers(0, tree.size - 1), direction=tree.direction)
        return RuleSimulation("realizable", RuleGoal(concept, asked.epsilon, asked.alpha, asked.beta, asked.neighbours))

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        return self._rules.run(records_per_user, n_users, epsilon)

    def between(self, records_per_user: int) -> tuple[int, int]:
        return self._rules.between(records_per_user)

    def limit(self, records_per_user: int, n_users: int) -> int:
        return self._rules.limit(records_per_user, n_users)


@dataclass(frozen=True)
class TreeSimulation(Simulation):
    """The tree learner, with its usual ranks or, with ``ranks``, those of the certificate for so many records."""

    target: TreeTarget
    ranks: int | None = None

    first: ClassVar[int] = 8
    fine: ClassVar[int] = 32

    @property
    def method(self) -> str:
        return "tree learner"

    @property
    def depth(self) -> int:
        """Of the target."""
        return (self.target.tree.height + 1) // 2

    @property
    def path(self) -> bool:
        return self.target.tree.is_path

    @property
    def share(self) -> Fraction:
        """Of the records that are positive."""
        return Fraction(self.depth, self.target.tree.height) if self.path else Fraction(1, 2)

    @property
    def model(self) -> str:
        if self.path:
            law = "values uniform, the cut-off in the middle"
        else:
            shown = f"{self.depth:,}" if self.depth.bit_length() <= _WORD else f"about 2^{self.depth.bit_length() - 1}"
            law = (
                f"a target at depth {shown}, half of the records regions that hold it, all their depths equally likely"
            )
        return f"{law}, labels right, as many records per user as the column says"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """With the learner's usual ranks; None where the learner refuses these numbers."""
        try:
            learner = self._usual(epsilon)
        except (ParameterError, TooLargeError):
            return None
        return self._runs(learner, records_per_user, n_users) if n_users <= MOST_USERS else None

    def between(self, records_per_user: int) -> tuple[int, int]:
        try:
            split = self._planned(records_per_user).split
        except (ParameterError, TooLargeError):
            return 1, 0
        return (split.hi + split.K + 1) // 2, MOST_USERS

    def found(self, records_per_user: int) -> tuple[int | None, float]:
        """With the certificate's ranks, where there is one."""
        planned = replace(self, ranks=records_per_user)
        return super(TreeSimulation, planned).found(records_per_user)

    def limit(self, records_per_user: int, n_users: int) -> int:
        """Fewer runs where depths are found by hidden walks, which have no affordable law."""
        return self.most_runs if self.target.tree.height.bit_length() <= _SHORT else 12

    # The learner

    def _usual(self, epsilon: Fraction) -> TreeLearner:
        target = self.target
        if self.ranks is not None:
            return self._planned(self.ranks)
        return TreeLearner(target.tree, epsilon, target.delta, target.neighbours, beta=target.beta)

    def _planned(self, m: int) -> TreeLearner:
        target = self.target
        try:
            found = target.certificate(m)
        except (ParameterError, TooLargeError):
            return replace(self, ranks=None)._usual(target.epsilon)
        if found.n_users is None:
            return replace(self, ranks=None)._usual(target.epsilon)
        ranks = {name: found[name] for name in ("epsilon1", "hi", "K")}
        grouped = found["users_per_part"]
        return TreeLearner(
            target.tree,
            target.epsilon,
            target.delta,
            target.neighbours,
            beta=target.beta,
            users_per_part=grouped,
            **ranks,
        )

    # Its mean error

    def _runs(self, learner: TreeLearner, m: int, n: int) -> Callable[[int], float]:
        parts = learner.accuracy.part_count(n)
        records = m * (n // parts) if parts else m
        followed = _followed(learner.accuracy.budget, 1 << (parts - 1).bit_length()) if parts else np.zeros(1)
        return lambda i: self._one(learner, self._depths(parts, records, i), followed, i)

    def _depths(self, parts: int, m: int, seed: int) -> NDArray[Any]:
        """What each part names; a larger data set of the same seed holds a smaller one."""
        u = np.random.default_rng([11, seed]).random(parts)
        # The least d with (1 - s (D - d)/D)**m >= u, as a share of D.
        reached = np.clip(1 - (1 - u ** (1 / m)) / float(self.share), 0, 1)
        if self.depth < _EXACT:
            return np.ceil(reached * self.depth).astype(np.int64)
        return big_integers([(self.depth * int(share)) >> _DIGITS for share in (reached * (1 << _DIGITS)).tolist()])

    def _one(self, learner: TreeLearner, depths: NDArray[Any], followed: Floats64, i: int = 0) -> float:
        """The mean error over the law of what is released from parts of these depths."""
        y, split, budget = np.sort(depths), learner.split, learner.accuracy.budget
        if split.point is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
                drawn = split.point.sample(depths.tolist(), ModelRng(23, i))
            if isinstance(drawn, Bottom):
                return float(self.share)
            z = big_integers([drawn]) if self.target.tree.height >= _EXACT else np.array([drawn])
            return float(self._errors(z, z, len(y) - np.searchsorted(y, z), budget, followed)[0])
        first, last = self._blocks(y)
        at_least, above = len(y) - np.searchsorted(y, first), len(y) - np.searchsorted(y, first, side="right")
        score = np.minimum(at_least - split.hi, split.K - above)
        logs = np.log((last - first + 1).astype(np.float64)) + budget.rate1 * score
        weight = np.exp(logs - logs.max())
        return float(np.sum(weight * self._errors(first, last, at_least, budget, followed)) / np.sum(weight))

    def _blocks(self, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Depths, one by one or in blocks on which votes do not change, on either side of the target."""
        height = self.target.tree.height
        if height <= MAX_LEVELS:
            levels = np.arange(height + 1)
            return levels, levels
        ends = big_integers([0, self.depth + 1]) if height >= _EXACT else np.array([0, self.depth + 1])
        first = np.unique(np.concatenate([ends, y, y + 1]))
        first = first[first <= height]
        return first, np.append(first[1:] - 1, height)

    def _errors(
        self, first: NDArray[Any], last: NDArray[Any], votes: Any, budget: TreeBudget, followed: Floats64
    ) -> Floats64:
        """Mean errors of depths between ``first`` and ``last``: linear in the depth above the target, and on a path
        below it."""
        D, share, height = self.depth, float(self.share), self.target.tree.height
        short = np.asarray(1 - (first + last) / (2 * D), dtype=np.float64)
        if self.path:
            below = np.asarray(((first + last) / 2 - D) / max(1, height - D), dtype=np.float64)
            return np.where(first <= D, share * short, (1 - share) * below)
        single, others = _widths(self.target.tree, budget.width)
        at = first if height <= MAX_LEVELS else np.zeros(len(first), np.int64)
        if rational(budget.delta) > 0:
            named = np.where(single[at], 1.0, followed[votes])
        else:
            named = 1 / (1 + others[at] * np.exp(-budget.rate2 * votes))
        # Below the target only the node of a level that has no other is right.
        return share * np.where(first <= D, 1 - named + named * short, np.where(single[at], 0.0, 1.0))


@lru_cache(maxsize=64)
def _followed(budget: TreeBudget, most: int) -> Floats64:
    """The chance that so many votes, all for one node, name it."""
    return np.array([1 - budget.missed(votes) for votes in range(most + 1)])


@lru_cache(maxsize=64)
def _widths(tree: VC1Tree, widest: int | None) -> tuple[NDArray[np.bool_], Floats64]:
    """By depth: whether a level has one node, and how many others it has; of a very high tree, for the widest level."""
    found = [tree.level_width(z) for z in range(tree.height + 1)] if tree.height <= MAX_LEVELS else [widest]
    return np.array([width == 1 for width in found]), np.array(
        [math.inf if width is None else float(width - 1) for width in found]
    )
