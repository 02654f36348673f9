"""Users needed to name one node of a public tree, next to selection from all its rules and to what no method can beat.

Certified numbers for records labelled by one rule of the tree.  The tree learner pays for the logarithm of the height
and not for the width; selection from the whole class pays for the logarithm of the number of rules.  So the first is
the only one for open vocabularies, and the second needs fewer users for thresholds and other small classes: the plan
says which, for these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self

from privpac.bounds.certificate import Certificate
from privpac.bounds.selection.realizable import plan_realizable
from privpac.bounds.trees.learner import lower_tree
from privpac.bounds.trees.plan import plan_tree
from privpac.concepts.base import ConceptClass
from privpac.concepts.rules import ClassOfRules
from privpac.concepts.trees.base import VC1Tree
from privpac.concepts.trees.nodes import TreeNodes
from privpac.data import Domain
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational
from privpac.guarantee import Neighbours, positive_int
from privpac.parameters import DEFAULT_BETA
from privpac.planning.choice import Choice
from privpac.planning.models.simulation import Simulation
from privpac.planning.models.tree_models import tree_simulations
from privpac.planning.rows import PlanRow
from privpac.planning.targets.hardness import lower_realizable
from privpac.planning.targets.rule_runs import rule_run
from privpac.planning.targets.target import STANDARD_RECORDS, PlannedMethod, Target, read_goal

if TYPE_CHECKING:
    from privpac.planning.plans import Plan

__all__ = [
    "TreeTarget",
    "as_tree",
    "rules_of",
    "selection_instead",
    "tree_reason",
    "tree_target",
]

_EVERY = "selection from all rules"


def as_tree(concept: Any, features: Mapping[str, Domain | None]) -> VC1Tree:
    """A tree as it is; cut-offs in one direction and single values as the path and the star they are.

    ``features``: the declared columns of the data, for a class that leaves its column or domain to them.

    >>> from privpac.data import Integers
    >>> from privpac.concepts import Thresholds
    >>> as_tree(Thresholds(), {"age": Integers(0, 99)}).height
    100
    """
    if not isinstance(concept, ClassOfRules) or not concept.is_tree:
        raise ParameterError(
            f"the method 'tree' learns trees such as PrefixTree(8), cut-offs in one direction and points, not "
            f"{type(concept).__name__}"
        )
    missing = [name for name, domain in concept.declared().items() if domain is None]
    if missing and isinstance(concept, ConceptClass):
        (name,) = missing
        known = features if name is None else {name: features.get(name)}
        found = {column: domain for column, domain in known.items() if domain is not None}
        if len(known) != 1 or not found:
            raise ParameterError(
                "the method 'tree' needs the domain of the column: declare it, such as Thresholds(Integers(0, 100))"
            )
        concept = concept.with_columns(found)
    tree: VC1Tree = concept.as_tree()
    return tree


def rules_of(tree: VC1Tree) -> int | None:
    """How many rules the tree has, ``None`` for an open vocabulary.

    >>> from privpac.concepts import AddressTree, PathTree, PrefixTree
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


@dataclass(frozen=True)
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
        learned = partial(rule_run, self, "tree")
        lines = [PlannedMethod("tree learner", self.certificate, run=learned, key="tree")]
        if self.simple:
            simple = partial(self.certificate, form="simple")
            lines.append(PlannedMethod("tree learner, simple bound", simple, run=learned, key="tree"))
        if (rules := rules_of(self.tree)) is not None:
            every = partial(self._selection, math.log(rules))
            lines.append(PlannedMethod(_EVERY, every, run=partial(rule_run, self, "realizable"), key="all rules"))
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
        return replace(self, within=n_users)

    @property
    def drawn(self) -> Self:
        return replace(self, simple=False)

    def recommend(self, plan: Plan) -> Choice:
        """Votes, whatever else needs fewer users: the reason says what does."""
        m = plan.records_per_user[plan.place]
        return Choice("tree", tree_reason(self.tree, self.epsilon, self.delta, self.neighbours, m))

    def annotated(self, rows: Sequence[PlanRow], sizes: Sequence[int]) -> tuple[PlanRow, ...]:
        return tuple(
            replace(row, note=_compared(self.tree, rows[0], row, sizes)) if row.method == _EVERY else row
            for row in rows
        )

    def stated(self, typed: Mapping[str, str]) -> dict[str, str]:
        """With delta, be it 0, next to the first of epsilon and alpha."""
        numbers = [pair for pair in super().stated(typed).items() if pair[0] != "delta"]
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
