"""Users needed to name one node of a public tree, next to selection from all its rules and to what no method can beat.

Certified numbers for records labelled by one rule of the tree.  The tree learner pays for the logarithm of the height
and not for the width; selection from the whole class pays for the logarithm of the number of rules.  So the first is
the only one for open vocabularies, and the second needs fewer users for thresholds and other small classes: the plan
says which, for these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

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
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of
from privpac.planning.inversion import InversePlan, invert
from privpac.planning.plans import MAX_EPSILON, Plan, PlanRow, plan_target, read_records
from privpac.planning.targets.certified_runs import CertifiedRun
from privpac.planning.targets.hardness import lower_realizable
from privpac.planning.targets.rule_targets import Method

__all__ = [
    "TreeTarget",
    "as_tree",
    "inverse_of_tree",
    "plan_of_tree",
    "rules_of",
    "selection_instead",
    "tree_reason",
    "tree_target",
]


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
class TreeTarget:
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

    @property
    def _goal(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "alpha": self.alpha, "beta": self.beta, "neighbours": self.neighbours}

    def methods(self, setting: str | None = None) -> list[Method]:
        """Name, users for a number of records per user, what else is assumed, and the kind of number."""
        rows: list[Method] = [("tree learner", self.certificate, "", "certified")]
        if self.simple:
            rows.append(("tree learner, simple bound", lambda m: self.certificate(m, "simple"), "", "certified"))
        if (rules := rules_of(self.tree)) is not None:
            log_size = math.log(rules)
            every: Method = (
                "selection from all rules",
                lambda m: plan_realizable(log_size=log_size, records_per_user=m, **self._goal),
                "",
                "certified",
            )
            rows.append(every)
        if self.tree.agrees_somewhere:
            rows.append(
                (
                    "any private learner",
                    lambda m: lower_tree(delta=self.delta, records_per_user=m, **self._goal),
                    "",
                    "lower bound",
                )
            )
        elif (
            self.tree.height > 0 and self.delta == 0
        ):  # two rules that may differ everywhere: one record tells them apart
            nodes = TreeNodes(self.tree)
            rows.append(
                (
                    "any private learner",
                    lambda m: lower_realizable(nodes, records_per_user=m, **self._goal),
                    "",
                    "lower bound",
                )
            )
        return rows

    def run(self, row: str, m: int, certificate: Certificate, asked: Any) -> CertifiedRun:
        """The learner that a certified row speaks of."""
        from privpac.planning.targets.rule_runs import rule_run

        return rule_run(self, row, m, certificate, asked)

    def certificate(self, m: int, form: str = "best") -> Certificate:
        """Users of the tree learner, with its ranks and its split of epsilon."""
        width = self.tree.widest
        told = {"height": self.tree.height, "width": width, "delta": Fraction(0) if width == 1 else self.delta}
        return _certified(records_per_user=m, form=form, within=self.within, **told, **self._goal)

    def simulations(self, setting: str | None = None) -> list[Any]:
        """What is predicted on a stated model."""
        from privpac.planning.models.tree_models import tree_simulations

        return [*tree_simulations(self)]

    def recommend(self, n_users: int | None, records_per_user: int) -> Any:
        """As ``choose_method`` says."""
        from privpac.planning.choose import choose_method

        return choose_method(
            self.tree,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            setting="realizable",
            records_per_user=records_per_user,
        )

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
    relation = one_of(Neighbours, neighbours, "neighbours")
    eps = rational(epsilon, "epsilon", above=0, maximum=MAX_EPSILON)
    given, a, b = (
        rational(delta, "delta", minimum=0, below=1),
        rational(alpha, "alpha", above=0, below=1),
        rational(beta, "beta", above=0, below=1),
    )
    if tree.widest is None and given == 0:
        raise ParameterError("open vocabulary needs delta > 0; give a delta such as 1e-6")
    return TreeTarget(tree, eps, a, b, relation, given, simple)


def plan_of_tree(
    tree: VC1Tree,
    *,
    epsilon: Rational,
    delta: Rational = 0,
    alpha: Rational = "0.05",
    beta: Rational = "0.05",
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    simple: bool = True,
) -> Plan:
    """How many users are certified to suffice for error at most ``alpha`` with probability ``1 - beta``, if some node
    is right?

    ``simple=False`` leaves out the row of the closed-form certificate.

    >>> from privpac.concepts import PrefixTree
    >>> plan = plan_of_tree(PrefixTree(32), epsilon=1, delta="1e-6", alpha="0.1", records_per_user=10,
    ...     neighbours="replace")
    >>> plan.row("tree learner").n_users[0] <= 171
    True
    """
    target = tree_target(
        tree, epsilon=epsilon, delta=delta, alpha=alpha, beta=beta, neighbours=neighbours, simple=simple
    )
    shown = {
        **target.shown,
        "epsilon": str(epsilon),
        "delta": f"{float(target.delta):g}",
        "alpha": str(alpha),
        "beta": str(beta),
    }
    plan = plan_target(target, read_records(records_per_user), shown | {"neighbours": str(target.neighbours)})
    rows = [
        replace(row, note=_compared(tree, plan.rows[0], row, plan.records_per_user))
        if row.method == "selection from all rules"
        else row
        for row in plan.rows
    ]
    return replace(plan, rows=tuple(rows))


def inverse_of_tree(
    tree: VC1Tree,
    *,
    n_users: int,
    epsilon: Rational | None = None,
    alpha: Rational | None = None,
    delta: Rational = 0,
    beta: Rational = "0.05",
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> InversePlan:
    """The least ``alpha`` (given ``epsilon``) or ``epsilon`` (given ``alpha``) that ``n_users`` users can be promised
    on the tree.

    >>> from privpac.concepts import PathTree
    >>> inverse_of_tree(PathTree(16), n_users=304, epsilon=1, records_per_user=1).row("tree learner").values
    (Fraction(997, 10000),)
    """
    quantity = "alpha" if alpha is None else "epsilon"
    spent: dict[str, Any] = {
        "epsilon": 1 if epsilon is None else epsilon,
        "alpha": "1/2" if alpha is None else alpha,
        "beta": beta,
    }
    target = tree_target(tree, delta=delta, neighbours=neighbours, simple=False, **spent)
    fixed = {"epsilon": str(epsilon)} if alpha is None else {"alpha": str(alpha)}
    shown = {**target.shown, "users": str(n_users), **fixed, "delta": f"{float(target.delta):g}", "beta": str(beta)}
    shown |= {"neighbours": str(target.neighbours)}
    return invert(target, quantity=quantity, n_users=n_users, sizes=read_records(records_per_user), shown=shown)


def _count(number: int) -> str:
    return f"{number:,}" if number.bit_length() <= 32 else f"about 2^{(number - 1).bit_length()}"


def _compared(tree: VC1Tree, learner: PlanRow, every: PlanRow, sizes: tuple[int, ...]) -> str:
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
    asked: dict[str, Any] = {
        "delta": delta,
        "alpha": "0.1",
        "records_per_user": records_per_user,
        "neighbours": neighbours,
    }
    try:
        plan = plan_of_tree(tree, epsilon=epsilon, simple=False, **asked)
    except (ParameterError, TooLargeError):  # nothing to plan; what is wrong for the learner, the learner says
        return hint
    users, other = plan.row("tree learner").n_users[0], plan.row("selection from all rules").n_users[0]
    return (
        f"the class is a tree; certified users for error 0.1: {users}, by selection from all {_count(rules)} rules "
        f"({how}): {other}"
    )
