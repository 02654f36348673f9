"""One question, three ways to ask it: how many users, which accuracy, which epsilon?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from privpac.concepts.base import ConceptClass
from privpac.concepts.trees.base import VC1Tree
from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.guarantee import Neighbours
from privpac.planning.inverse import InversePlan, least_alpha, least_epsilon
from privpac.planning.plan import Plan, plan_users
from privpac.planning.trees import plan_of_tree

__all__ = ["plan"]


def plan(
    concept: ConceptClass | VC1Tree,
    *,
    epsilon: Rational | None = None,
    alpha: Rational | None = None,
    beta: Rational = "0.05",
    n_users: int | None = None,
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    noise: Rational | None = None,
    setting: str | None = None,
    delta: Rational = 0,
) -> Any:
    """How many users do I need for excess error ``alpha`` (0.05) with probability ``1 - beta``, at ``epsilon``?

    * ``epsilon`` alone, or with ``alpha``: certified users for each applicable method and what no method can beat, a :class:`Plan`.
    * ``n_users`` and ``epsilon``: the least ``alpha`` that so many users can be promised, an :class:`InversePlan`.
    * ``n_users`` and ``alpha``: the least epsilon that it takes.

    ``noise`` (thresholds): each label is wrong with at most this probability at every x.  ``setting`` restricts the plan to
    ``"realizable"`` or ``"agnostic"`` methods.  A tree is planned for labels without noise, with ``delta`` for open vocabularies.

    >>> import privpac as pp
    >>> cuts = pp.Thresholds(pp.Integers(0, 1440))
    >>> pp.plan(cuts, epsilon=1, records_per_user=16).row("realizable selection").n_users
    (24,)
    >>> pp.plan(cuts, n_users=500, epsilon=1, records_per_user=16, setting="realizable").rows[0].values
    (Fraction(41, 20000),)
    """
    if isinstance(concept, VC1Tree):
        if n_users is not None or noise is not None or setting == "agnostic":
            raise ParameterError("a tree is planned for labels without noise, from epsilon and alpha; leave out n_users, noise and setting")
        return _tree(concept, epsilon, alpha, beta, records_per_user, neighbours, delta)
    common: dict[str, Any] = {"beta": beta, "records_per_user": records_per_user, "neighbours": neighbours, "noise": noise}
    common["setting"] = setting
    if n_users is None:
        return _users(concept, epsilon, alpha, common)
    if (epsilon is None) == (alpha is None):
        raise ParameterError("with n_users give epsilon (which alpha can be promised?) or alpha (which epsilon does it take?), not both")
    if epsilon is not None:
        return least_alpha(concept, n_users=n_users, epsilon=epsilon, **common)
    assert alpha is not None
    return least_epsilon(concept, n_users=n_users, alpha=alpha, **common)


def _users(concept: Any, epsilon: Rational | None, alpha: Rational | None, common: dict[str, Any]) -> Plan | InversePlan:
    if epsilon is None:
        raise ParameterError("give epsilon; or n_users and alpha, to ask which epsilon it takes")
    return plan_users(concept, epsilon=epsilon, alpha="0.05" if alpha is None else alpha, **common)


def _tree(
    tree: VC1Tree, epsilon: Rational | None, alpha: Rational | None, beta: Rational, records: Any, relation: Any, delta: Rational
) -> Plan:
    if epsilon is None:
        raise ParameterError("give epsilon")
    wanted: Rational = "0.05" if alpha is None else alpha
    return plan_of_tree(tree, epsilon=epsilon, delta=delta, alpha=wanted, beta=beta, records_per_user=records, neighbours=relation)
