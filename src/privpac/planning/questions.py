"""One question, three ways to ask it: how many users, which accuracy, which epsilon?  For rules, trees, agreement and
distributions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from privpac.concepts.base import ConceptClass
from privpac.concepts.trees.base import VC1Tree
from privpac.concepts.trees.nodes import TreeNodes
from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.guarantee import Model, Neighbours, positive_int
from privpac.planning.inversion import invert, least_alpha, least_epsilon
from privpac.planning.plans import plan_target, plan_users, read_records, read_setting
from privpac.planning.targets.tree_targets import inverse_of_tree, plan_of_tree

if TYPE_CHECKING:
    from privpac.planning.comparison.population import Population

__all__ = ["FAMILIES", "plan"]

FAMILIES = ("histogram", "discrete", "product", "gaussian", "selection", "median")
"""Families of distributions, and the median, by name."""
_WORDS = {"bins": "k", "values": "k", "candidates": "k", "columns": "d"}


def plan(
    concept: ConceptClass | VC1Tree | str | Any,
    *,
    epsilon: Rational | None = None,
    alpha: Rational | None = None,
    beta: Rational = "0.05",
    n_users: int | None = None,
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str | None = None,
    noise: Rational | None = None,
    setting: str | None = None,
    delta: Rational = 0,
    model: Model | str | None = None,
    people: str | None = None,
    population: Population | None = None,
    model_noise: Rational | None = None,
    every_method: bool = False,
    **shape: Any,
) -> Any:
    """How many users do I need for excess error ``alpha`` (0.05) with probability ``1 - beta``, at ``epsilon``?

    * ``epsilon`` alone, or with ``alpha``: certified users for each applicable method and what no method can beat, a
      :class:`Plan`.
    * ``n_users`` and ``epsilon``: the least ``alpha`` that so many users can be promised, an :class:`InversePlan`.
    * ``n_users`` and ``alpha``: the least epsilon that it takes.

    What is planned for:

    * a class of rules.  ``noise`` (thresholds): each label is wrong with at most this probability at every x.
      ``setting`` restricts the plan to ``"realizable"`` or ``"agnostic"`` methods; ``every_method=True`` adds some that
      have never needed fewer users than selection.
    * a class of rules or a task with ``model="central"``, ``"local"`` or ``"shuffle"``: learning by agreement in that
      trust model.
    * a tree, for labels without noise, with ``delta`` for open vocabularies; with ``setting="agnostic"`` a tree whose
      nodes can be counted, for noisy labels.
    * a family of distributions by name, with its public ``shape``: ``"histogram"`` (``bins=``), ``"discrete"``
      (``values=``), ``"product"`` (``columns=`` of so many ``values=``), ``"gaussian"`` (``radius=``), ``"selection"``
      (``candidates=``); ``k=`` and ``d=`` will do. ``alpha`` (0.1) is then the distance in total variation.
      ``"median"`` (``domain=``): ``alpha`` is a share of the ranks.

    The plan's ``recommendation``, ``cost_per_record`` and ``predicted`` are made when they are looked at.  Predictions
    are for the standard model of the class, with label noise ``model_noise`` (the declared ``noise``, or 0.2) and what
    is known of the people (``people="alike"``, ``"differ"``, ``"heavy"``), or for a ``population`` of your own
    (``public_population``, ``sampled_population`` in ``privpac.planning.comparison``).  **A population must be public
    or made up, never fitted on the private table**: the prediction would be an output of that table that no budget paid
    for.

    Parameters
    ----------
    concept : class of rules, tree, task or str
        What is planned for; all that follows is public.
    epsilon, alpha, beta : rational, optional
        Privacy loss, excess error (or distance) wanted, failure probability allowed.
    n_users : int, optional
        So many people take part; then one of ``epsilon`` and ``alpha`` is the answer.
    records_per_user : int or several, optional
        Records each person holds; 1, 4, 16, 64 and 256 if left out.
    neighbours : {"add-remove", "replace"}, optional
        Which datasets must be hard to tell apart.
    noise : rational, optional
        Each label is wrong with at most this probability (thresholds).
    setting : {"agnostic", "realizable"}, optional
        Only methods for such labels.
    delta : rational
        The promise may fail with this probability, for trees and models that allow it.
    model : {"central", "local", "shuffle"}, optional
        Learning by agreement in this trust model.
    people : {"alike", "differ", "heavy"}, optional
        What is known of the people, for predictions.
    population : Population, optional
        A public or made-up population instead.
    model_noise : rational, optional
        Label noise of the stated model of predictions.
    every_method : bool
        Also methods that have never needed fewer users than selection.
    **shape
        Of a family of distributions, as above.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import privpac as pp
    >>> cuts = pp.Thresholds(pp.Integers(0, 1440))
    >>> pp.plan(cuts, epsilon=1, records_per_user=16).row("realizable selection").n_users
    (24,)
    >>> pp.plan(cuts, n_users=500, epsilon=1, records_per_user=16, setting="realizable").rows[0].values
    (Fraction(41, 20000),)
    >>> pp.plan("histogram", bins=100, epsilon=1, records_per_user=1).row("any private learner").kind
    'lower bound'
    """
    asked: dict[str, Any] = {"beta": beta, "records_per_user": records_per_user}
    quantity = _quantity(n_users, epsilon, alpha)
    numbers: dict[str, Any] = {
        name: value
        for name, value in (("n_users", n_users), ("epsilon", epsilon), ("alpha", alpha))
        if value is not None
    }
    extra = {"noise": noise, "setting": setting, "users": people, "population": population, "model_noise": model_noise}
    if isinstance(concept, str) or model is not None:
        strange = [
            name for name, value in extra.items() if value is not None and not (name == "setting" and model is not None)
        ]
        if strange:
            raise ParameterError(
                f"{strange[0]} goes with classes of rules, not with families of distributions or agreement; leave it "
                "out"
            )
        return _target_plan(
            concept, quantity, numbers, beta, records_per_user, neighbours, delta, model, setting, _letters(shape)
        )
    if shape:
        raise ParameterError(
            f"{', '.join(sorted(shape))} describe a family of distributions such as 'histogram'; leave them out for "
            "rules"
        )
    asked["neighbours"] = Neighbours.ADD_REMOVE if neighbours is None else neighbours
    if isinstance(concept, VC1Tree) and setting == "agnostic":
        if concept.n_nodes is None:
            raise ParameterError(
                "nothing is certified for noisy labels on an open vocabulary: leave out setting='agnostic'"
            )
        concept = TreeNodes(concept)
    if isinstance(concept, VC1Tree):
        if any(value is not None for name, value in extra.items() if name != "setting"):
            raise ParameterError(
                "a tree is planned for labels without noise: leave out noise and the model of people, or set 'agnostic'"
            )
        return (plan_of_tree if quantity == "users" else inverse_of_tree)(concept, delta=delta, **numbers, **asked)
    if delta != 0:
        raise ParameterError("all methods for rules are pure: leave out delta, or name a model such as model='shuffle'")
    extra["every_method"] = every_method
    find: Any = {"users": plan_users, "alpha": least_alpha, "epsilon": least_epsilon}[quantity]
    return find(concept, **numbers, **asked, **extra)


def _letters(shape: dict[str, Any]) -> dict[str, Any]:
    """The shape by the letters of the formulas."""
    found: dict[str, Any] = {}
    for name, value in shape.items():
        letter = name if name == "candidates" and not isinstance(value, int) else _WORDS.get(name, name)
        if letter in found:
            raise ParameterError(
                f"{name} is given twice, under two names; give one of {letter}, "
                f"{', '.join(w for w in _WORDS if _WORDS[w] == letter)}"
            )
        found[letter] = value
    return found


def _quantity(n_users: int | None, epsilon: Rational | None, alpha: Rational | None) -> str:
    """What is asked for."""
    if n_users is None:
        if epsilon is None:
            raise ParameterError("give epsilon; or n_users and alpha, to ask which epsilon it takes")
        return "users"
    if (epsilon is None) == (alpha is None):
        raise ParameterError(
            "with n_users give epsilon (which alpha can be promised?) or alpha (which epsilon does it take?), not both"
        )
    return "alpha" if alpha is None else "epsilon"


def _target_plan(
    what: Any,
    quantity: str,
    numbers: dict[str, Any],
    beta: Rational,
    records: int | Iterable[int] | None,
    neighbours: Neighbours | str | None,
    delta: Rational,
    model: Model | str | None,
    setting: str | None,
    shape: dict[str, Any],
) -> Any:
    """A family of distributions, or agreement."""
    usual = "0.1" if isinstance(what, str) else "0.05"
    spent = {
        "epsilon": numbers.get("epsilon", 1),
        "alpha": numbers.get("alpha", usual if quantity == "users" else "1/2"),
        "beta": beta,
    }
    if isinstance(what, str):
        if model is not None:
            raise ParameterError(
                "model goes with rules: families of distributions are learned by a curator; leave it out"
            )
        from privpac.planning.targets.family_targets import family_target

        relation = Neighbours.ADD_REMOVE if neighbours is None else neighbours
        target: Any = family_target(what, neighbours=relation, delta=delta, **spent, **shape)
    else:
        from privpac.planning.targets.agreement_targets import agreement_target

        target = agreement_target(
            what, model=model or Model.CENTRAL, neighbours=neighbours, delta=delta, **spent, **shape
        )
    shown = {**target.shown, **({"users": str(numbers["n_users"])} if "n_users" in numbers else {})}
    shown |= {
        name: str(spent[name])
        for name in ("epsilon", "alpha")
        if name in numbers or (name == "alpha" and quantity == "users")
    }
    shown |= ({"delta": f"{float(target.delta):g}"} if target.delta > 0 else {}) | {
        "beta": str(beta),
        "neighbours": str(target.neighbours),
    }
    sizes = read_records(records)
    if quantity == "users":
        return plan_target(target, sizes, shown, read_setting(setting))
    n = positive_int(numbers["n_users"], "n_users")
    return invert(target, quantity=quantity, n_users=n, sizes=sizes, shown=shown, setting=read_setting(setting))
