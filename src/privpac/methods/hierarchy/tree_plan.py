"""Users needed to name one node of a public tree, next to selection from all its rules and to what no method can beat.

Certified numbers for records labelled by one rule of the tree.  The tree learner pays for the logarithm of the height
and not for the width; selection from the whole class pays for the logarithm of the number of rules.  So the first is
the only one for open vocabularies, and the second needs fewer users for thresholds and other small classes: the plan
says which, for these numbers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Self

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Floats64
from privpac.data import Integers
from privpac.errors import ParameterError, PrivpacWarning, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.law.blocks import Bottom
from privpac.lower_bounds import lower_realizable
from privpac.methods.hierarchy.tree_learner import TreeLearner
from privpac.methods.hierarchy.tree_sample_size import TreeBudget, lower_tree, plan_tree
from privpac.methods.planned import STANDARD_RECORDS, PlanRow, PlanView, RuleGoal, Target, read_goal, rule_run
from privpac.methods.realizable import plan_realizable
from privpac.methods.registry import METHODS, Choice, PlannedMethod
from privpac.methods.simulation import ModelRng, RuleSimulation, Simulation, big_integers, fixed_draws
from privpac.parameters import DEFAULT_BETA
from privpac.rules.cuts import Thresholds
from privpac.rules.hierarchies.base import MAX_LEVELS, VC1Tree
from privpac.rules.hierarchies.nodes import TreeNodes
from privpac.sample_size import Certificate

# What the tree learner is predicted to do: the exact law of its two draws on drawn people of a stated model.
#
# *Model.*  The target is a node half-way down a longest path, and labels are right.  Half of the records are regions
# that
# hold the target, each of its depths equally likely; the others say nothing of it (points that all rules label alike).
# On a tree with one node per level the values are uniform and the cut-off lies in the middle: then the others lie below
# the target.
#
# *Statistic.*  With right labels every part of users names an ancestor of the target, the deepest one it has seen, so
# all
# votes of a level are for one node.  The depths of the parts decide, and they are drawn directly, for any vocabulary
# and
# number of records: in ``m`` records none is deeper than ``d`` with probability ``(1 - s (D - d)/D)**m``, for a target
# at
# depth ``D`` and a share ``s`` of records on its path.  Whatever names no ancestor of the target counts as wrong on the
# whole path.
#
# The law of the depth is the rank law of the learner, that of the node its choosing law (or selection among all nodes
# of the level); means are sums in double precision.  Only depths found by hidden walks are drawn, with the coins of the
# model.


_MOST_USERS = 1 << 14
_EXACT, _DIGITS, _WORD = 1 << 52, 53, 64
_SHORT = 100
"""Bits of the height up to which depths are never found by hidden walks."""


def tree_simulations(target: TreeTarget) -> list[Simulation]:
    """The tree learner on its model; for cut-offs, whose model is that of their class, also selection from all rules.

    >>> from privpac.rules import PrefixTree
    >>> asked = {"epsilon": 1, "delta": "1e-6", "alpha": "0.1", "beta": "0.05", "neighbours": "add-remove",
    ...     "simple": False}
    >>> (found,) = tree_simulations(tree_target(PrefixTree(8), **asked))
    >>> found.at(4, 200, found.target.epsilon).excess < 0.05
    True
    """
    if target.tree.height == 0:
        return []
    tree = target.tree
    every = [PathSelection(target)] if tree.is_path and tree.height <= 1 << _WORD else []
    return [TreeSimulation(target), *every]


@frozen(slots=False)
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
        concept = Thresholds(Integers(0, tree.height - 1), direction=tree.direction)
        return RuleSimulation("realizable", RuleGoal(concept, asked.epsilon, asked.alpha, asked.beta, asked.neighbours))

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        return self._rules.run(records_per_user, n_users, epsilon)

    def between(self, records_per_user: int) -> tuple[int, int]:
        return self._rules.between(records_per_user)

    def limit(self, records_per_user: int, n_users: int) -> int:
        return self._rules.limit(records_per_user, n_users)


@frozen(slots=False)
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
        return self._runs(learner, records_per_user, n_users) if n_users <= _MOST_USERS else None

    def between(self, records_per_user: int) -> tuple[int, int]:
        try:
            split = self._planned(records_per_user).split
        except (ParameterError, TooLargeError):
            return 1, 0
        return (split.hi + split.K + 1) // 2, _MOST_USERS

    def found(self, records_per_user: int) -> tuple[int | None, float]:
        """With the certificate's ranks, where there is one."""
        planned = evolve(self, ranks=records_per_user)
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
            return evolve(self, ranks=None)._usual(target.epsilon)
        if found.n_users is None:
            return evolve(self, ranks=None)._usual(target.epsilon)
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

    def _depths(self, parts: int, m: int, seed: int) -> Array:
        """What each part names; a larger data set of the same seed holds a smaller one."""
        u = fixed_draws(11, seed).random(parts)
        # The least d with (1 - s (D - d)/D)**m >= u, as a share of D.
        reached = np.clip(1 - (1 - u ** (1 / m)) / float(self.share), 0, 1)
        if self.depth < _EXACT:
            return np.ceil(reached * self.depth).astype(np.int64)
        return big_integers([(self.depth * int(share)) >> _DIGITS for share in (reached * (1 << _DIGITS)).tolist()])

    def _one(self, learner: TreeLearner, depths: Array, followed: Floats64, i: int = 0) -> float:
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

    def _blocks(self, y: Array) -> tuple[Array, Array]:
        """Depths, one by one or in blocks on which votes do not change, on either side of the target."""
        height = self.target.tree.height
        if height <= MAX_LEVELS:
            levels = np.arange(height + 1)
            return levels, levels
        ends = big_integers([0, self.depth + 1]) if height >= _EXACT else np.array([0, self.depth + 1])
        first = np.unique(np.concatenate([ends, y, y + 1]))
        first = first[first <= height]
        return first, np.append(first[1:] - 1, height)

    def _errors(self, first: Array, last: Array, votes: Any, budget: TreeBudget, followed: Floats64) -> Floats64:
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


_EVERY = "selection from all rules"


def rules_of(tree: VC1Tree) -> int | None:
    """How many rules the tree has, ``None`` for an open vocabulary.

    >>> from privpac.rules import AddressTree, PathTree, PrefixTree
    >>> rules_of(PathTree(2**64)) == 2**64 + 1, rules_of(AddressTree(4, 8)), rules_of(PrefixTree(8))
    (True, 511, None)
    """
    return tree.n_rules


def selection_instead(tree: VC1Tree) -> str:
    """How to select from all rules of the tree, empty where that cannot run."""
    return tree.as_selection


@lru_cache(maxsize=256)
def _certified(**asked: Any) -> Certificate:
    """Kept for the prediction, which runs the learner that the certificate describes."""
    return plan_tree(**asked)


@frozen(slots=False)
class TreeTarget(Target):
    """Error ``alpha`` with probability ``1 - beta`` for one node of a tree, some node being right."""

    tree: VC1Tree
    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    delta: Fraction
    simple: bool = False
    """Whether the closed-form certificate has a row of its own."""
    within: int | None = None
    """Only whether so many users are enough is asked."""

    slow = True
    drawn_records = STANDARD_RECORDS[2:3]

    @property
    def concept(self) -> VC1Tree:
        """What is learned."""
        return self.tree

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        own: dict[str, Any] = {
            "run": partial(rule_run, self, "tree"),
            "key": "tree",
            "hard_laws": METHODS["tree"].hard_laws,
        }
        lines = [PlannedMethod("tree learner", self.certificate, **own)]
        if self.simple:
            lines.append(PlannedMethod("tree learner, simple bound", partial(self.certificate, form="simple"), **own))
        if (rules := rules_of(self.tree)) is not None:
            every = partial(self._selection, math.log(rules))
            laws = "privpac.auditing.rule_laws:selection_claim"
            run = partial(rule_run, self, "realizable")
            lines.append(PlannedMethod(_EVERY, every, run=run, key="all rules", hard_laws=laws))
        lower = self._lower()
        return lines if lower is None else [*lines, PlannedMethod("any private learner", lower, kind="lower bound")]

    def _selection(self, log_size: float, m: int) -> Certificate:
        return plan_realizable(log_size=log_size, records_per_user=m, **self._goal)

    def _lower(self) -> Callable[[int], Certificate] | None:
        if self.tree.agrees_somewhere:
            return lambda m: lower_tree(delta=self.delta, records_per_user=m, **self._goal)
        if self.tree.height == 0 or self.delta > 0:
            return None
        nodes = TreeNodes(self.tree)  # two rules that may differ everywhere: one record tells them apart
        return lambda m: lower_realizable(nodes, records_per_user=m, **self._goal)

    def certificate(self, m: int, form: str = "best") -> Certificate:
        """Users of the tree learner, with its ranks and its split of epsilon."""
        width = self.tree.widest
        told = {"height": self.tree.height, "width": width, "delta": Fraction(0) if width == 1 else self.delta}
        return _certified(records_per_user=m, form=form, within=self.within, **told, **self._goal)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return tree_simulations(self)

    def exactly(self, n_users: int) -> Self:
        return evolve(self, within=n_users)

    def certain_if(self, setting: str | None) -> str:
        return "if some node is always right"

    @property
    def drawn(self) -> Self:
        return evolve(self, simple=False)

    def recommend(self, plan: PlanView) -> Choice:
        """Votes, whatever else needs fewer users: the reason says what does."""
        m = plan.records_per_user[plan.place]
        return Choice("tree", tree_reason(self.tree, self.epsilon, self.delta, self.neighbours, m))

    def annotated(self, rows: Sequence[PlanRow], sizes: Sequence[int]) -> tuple[PlanRow, ...]:
        return tuple(
            evolve(row, note=_compared(self.tree, rows[0], row, sizes)) if row.method == _EVERY else row for row in rows
        )

    def stated(self, given: Mapping[str, object]) -> dict[str, str]:
        """With delta, be it 0, next to the first of epsilon and alpha."""
        numbers = [pair for pair in super().stated(given).items() if pair[0] != "delta"]
        place = 1 + next(i for i, (name, _) in enumerate(numbers) if name in ("epsilon", "alpha"))
        return dict([*numbers[:place], ("delta", f"{float(self.delta):g}"), *numbers[place:]])

    @property
    def shown(self) -> dict[str, str]:
        width = self.tree.widest
        held = (
            "open vocabulary"
            if width is None
            else "one node per level"
            if width == 1
            else f"at most {_count(width)} nodes per level"
        )
        return {"tree": f"{type(self.tree).__name__} of height {_count(self.tree.height)}, {held}"}


def tree_target(
    tree: VC1Tree,
    *,
    epsilon: Rational,
    delta: Rational,
    alpha: Rational,
    beta: Rational,
    neighbours: Neighbours | str,
    simple: bool,
) -> TreeTarget:
    """The numbers, read and checked."""
    if not isinstance(tree, VC1Tree):
        raise TypeError(f"tree must be a VC1Tree such as PrefixTree(8), got {type(tree).__name__}")
    goal = read_goal(epsilon, alpha, beta, neighbours, delta)
    if tree.widest is None and goal["delta"] == 0:
        raise ParameterError("open vocabulary needs delta > 0; give a delta such as 1e-6")
    return TreeTarget(tree, **goal, simple=simple)


def _count(number: int) -> str:
    return f"{number:,}" if number.bit_length() <= 32 else f"about 2^{(number - 1).bit_length()}"


def _compared(tree: VC1Tree, learner: PlanRow, every: PlanRow, sizes: Sequence[int]) -> str:
    """Where selection from the whole class needs fewer users, said plainly."""
    pairs = [(m, t, g) for m, t, g in zip(sizes, learner.n_users, every.n_users) if t is not None and g is not None]
    fewer = [str(m) for m, t, g in pairs if g < t]
    words = [every.note] if every.note else []
    words.append(
        f"needs FEWER users than the tree learner with {', '.join(fewer)} records per user"
        if fewer
        else "needs no fewer users than the tree learner"
    )
    how = selection_instead(tree)
    return "; ".join(
        [
            *words,
            f"learn {how} with setting='realizable'"
            if how
            else "by formula only: there are too many rules to go through",
        ]
    )


def tree_reason(
    tree: VC1Tree, epsilon: Rational, delta: Rational, neighbours: Neighbours, records_per_user: int | None
) -> str:
    """Why a tree is learned by votes, and whether selection from all its rules may need fewer users.  Public numbers
    only."""
    rules, how = rules_of(tree), selection_instead(tree)
    if rules is None:
        return "the vocabulary is open: the rules cannot be listed, and people vote for what they hold"
    if tree.height == 0:
        return "the tree has one rule"
    if not how:
        return f"there are about 2^{rules.bit_length() - 1} rules, too many to go through one by one"
    hint = f"the class is a tree; with {_count(rules)} rules selection from all of them ({how}) may need fewer users"
    if records_per_user is None:
        return hint
    try:
        target = TreeTarget(tree, **read_goal(epsilon, "0.1", DEFAULT_BETA, neighbours, delta))
        m, _ = positive_int(records_per_user, "records_per_user"), target.methods()
    except (ParameterError, TooLargeError):  # nothing to plan; what is wrong for the learner, the learner says
        return hint
    users, other = (target.certified_users(name, m) for name in ("tree learner", _EVERY))
    return (
        f"the class is a tree; certified users for error 0.1: {users}, by selection from all {_count(rules)} rules "
        f"({how}): {other}"
    )
