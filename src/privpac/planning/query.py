"""One question, three ways to ask it: how many users, which accuracy, which epsilon?  For rules, trees, agreement and
distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from privpac.data import Domain, TableSpec
from privpac.data.readers import is_path
from privpac.device.tasks import KINDS, Task
from privpac.errors import ParameterError
from privpac.exact import Rational, positive_int
from privpac.guarantee import Model, Neighbours
from privpac.methods.planned import STANDARD_RECORDS, Target
from privpac.methods.registry import METHODS, class_of_rules, default_rules, resolve
from privpac.parameters import DEFAULT_BETA
from privpac.planning.plans import Plan, invert_plan, plan_target
from privpac.planning.rules import rule_target
from privpac.rules.base import RULES, ConceptClass
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.hierarchies.nodes import TreeNodes
from privpac.rules.small_trees import SmallTrees

if TYPE_CHECKING:
    from privpac.rules.populations import Population

PLANNED_FAMILIES = ("histogram", "discrete", "product", "gaussian", "selection", "vocabulary", "median")
"""Families of distributions, and the median, by name."""
_WORDS = {"bins": "k", "values": "k", "candidates": "k", "columns": "d"}


def plan(
    concept: ConceptClass | VC1Tree | str | Any,
    rule: ConceptClass | str | None = None,
    *,
    epsilon: Rational | None = None,
    alpha: Rational | None = None,
    beta: Rational | None = None,
    n_users: int | None = None,
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str | None = None,
    noise: Rational | None = None,
    setting: str | None = None,
    delta: Rational | None = None,
    model: Model | str | None = None,
    people: str | None = None,
    population: Population | None = None,
    model_noise: Rational | None = None,
    every_method: bool = False,
    queries: int | None = None,
    representation: str | None = None,
    features: Mapping[str, Any] | None = None,
    user: str | None = None,
    label: str | None = None,
    **shape: Any,
) -> Plan:
    """How many users do I need for excess error ``alpha`` (0.05) with probability ``1 - beta`` (0.95), at ``epsilon``?

    * ``epsilon`` alone, or with ``alpha``: certified users for each applicable method and what no method can beat, a
      :class:`Plan`.
    * ``n_users`` and ``epsilon``: the least ``alpha`` that so many users can be promised.
    * ``n_users`` and ``alpha``: the least epsilon that it takes.

    What is planned for:

    * a table, as for :func:`privpac.learn`: users, or a frame or path with ``user``, ``label`` and ``features``.  Only
      what is declared is read, names and domains, and no value.  ``rule`` as for ``learn``; without one the rules that
      ``learn`` takes for these columns.
    * a class of rules, or the name of one over ``features``.  ``noise`` (thresholds): each label is wrong with at most
      this probability at every x.  ``setting`` restricts the plan to ``"realizable"`` or ``"agnostic"`` methods;
      ``every_method=True`` adds the papers' that another one dominates in ordinary use; ``representation``
      ("hashed", "learned", "boosted") selection from a small public set that stands in for the class.
    * a class of rules or a task with ``model="central"``, ``"local"`` or ``"shuffle"``: learning by agreement in that
      trust model.
    * a class of rules with ``queries``: a prediction service that gives so many answers and publishes no rule
      (``delta`` allows far more of them); ``alpha`` is then the excess error of an answer.
    * a tree, for labels without noise, with ``delta`` for open vocabularies; with ``setting="agnostic"`` a tree whose
      nodes can be counted, for noisy labels.
    * a family of distributions by name, with its public ``shape``: ``"histogram"`` (``bins=``), ``"discrete"``
      (``values=``), ``"product"`` (``columns=`` of so many ``values=``), ``"gaussian"`` (``radius=``), ``"selection"``
      (``candidates=``); ``k=`` and ``d=`` will do. ``alpha`` (0.1) is then the distance in total variation.
      ``"median"`` (``domain=``): ``alpha`` is a share of the ranks.

    ``print(plan)`` answers in a sentence (``plan.answer()``), shows at most four rows, what they rest on, and the
    command that runs what is certified; ``every_method=True`` prints all rows.  The plan's ``recommendation``,
    ``cost_per_record`` and ``predicted`` are made when they are looked at.

    Predictions are for the standard model of the class, with label noise ``model_noise`` (the declared ``noise``, or
    0.2) and what is known of the people (``people="alike"``, ``"differ"``, ``"heavy"``), or for a ``population`` of
    your own (``public_population``, ``sampled_population`` in ``privpac.planning``).  **A population must be public or
    made up, never fitted on the private table**: the prediction would be an output of that table that no budget paid
    for.

    Parameters
    ----------
    concept : class of rules, tree, task, str, or a table
        What is planned for; all that follows is public.
    rule : str or class of rules, optional
        What is to be learned of a table.
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
    delta : rational, optional
        The promise may fail with this probability (0), for trees and models that allow it.
    model : {"central", "local", "shuffle"}, optional
        Learning by agreement in this trust model.
    people : {"alike", "differ", "heavy"}, optional
        What is known of the people, for predictions.
    population : Population, optional
        A public or made-up population instead.
    model_noise : rational, optional
        Label noise of the stated model of predictions.
    every_method : bool
        Print all rows; also methods of the papers that another one dominates in ordinary use.
    queries : int, optional
        So many answers of a service, instead of a rule.
    representation : {"auto", "class", "hashed", "learned", "boosted"}, optional
        Also the method ``surrogate`` with such a public set.
    features : mapping, optional
        Columns with their public domains, where the rule is given by its name, or of a table.
    user, label : str, optional
        Columns of a table that no rule reads: whose records they are, and what is predicted.
    **shape
        Of a family of distributions, as above.

    Returns
    -------
    Plan

    Raises
    ------
    ParameterError, InfeasibleError
        Parameters that contradict each other, or a target that no number of people meets.

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
    >>> print(pp.plan("delays.csv", user="plane", label="late", features={"minute": pp.Integers(0, 1440)}, epsilon=1,
    ...     records_per_user=16).answer(predict=False).split(";")[0])
    2,379 people with 16 records each are certain, whatever they are like under the assumption below
    >>> pp.plan(cuts, queries=3, epsilon=8, alpha="0.3").row("prediction service").n_users[0]
    9031
    """
    # None is a parameter left out, in every place: here its default stands in.
    beta, delta = DEFAULT_BETA if beta is None else beta, 0 if delta is None else delta
    shape = {name: value for name, value in shape.items() if value is not None}
    if features is not None and isinstance(concept, str) and concept in PLANNED_FAMILIES:
        raise ParameterError(f"a {concept} is described by numbers such as values or domain: leave out features")
    table = _is_table(concept, user, label)
    if isinstance(features, Mapping) or (table and features is not None):
        features = TableSpec(user=user, features=features, label=label).features
    if table:
        promise: dict[str, Any] = {"epsilon": epsilon, "neighbours": neighbours}
        concept = _rules_of_table(concept, rule, features, agreement=model is not None, **promise)
    elif rule is not None or user is not None or label is not None:
        raise ParameterError("rule, user and label go with a table; give the class of rules alone")
    else:
        concept = _rules_named(concept, features, agreement=model is not None)
    quantity = _quantity(n_users, epsilon, alpha)
    if quantity == "users" and alpha is None:
        alpha = "0.1" if isinstance(concept, str) else "0.05"
    given = (("n_users", n_users), ("epsilon", epsilon), ("alpha", alpha), ("beta", beta))
    numbers = {name: value for name, value in given if value is not None}
    extra: dict[str, Any] = {"noise": noise, "setting": setting, "users": people}
    extra |= {"population": population, "model_noise": model_noise, "representation": representation}
    if queries is not None:
        told = {name: extra.pop(name) for name in ("users", "model_noise")} | _spent(numbers)
        others = {**extra, **shape, "model": model}
        from privpac.methods.prediction.service_plan import service_target

        service = service_target(concept, queries, delta=delta, neighbours=neighbours, others=others, **told)
        return _answer(service, quantity, numbers, records_per_user or 1, None, every_method)
    if isinstance(concept, str) or model is not None:
        strange = [
            "people" if name == "users" else name
            for name, value in extra.items()
            if value is not None and not (name == "setting" and model is not None)
        ]
        if strange:
            raise ParameterError(
                f"{strange[0]} goes with classes of rules, not with families of distributions or agreement; leave it "
                "out"
            )
        target = _named_target(concept, numbers, neighbours, delta, model, _letters(shape))
        return _answer(target, quantity, numbers, records_per_user, setting, every_method)
    if shape:
        raise ParameterError(f"{min(shape)} describes a family of distributions such as 'histogram', not rules")
    relation = Neighbours.ADD_REMOVE if neighbours is None else neighbours
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
        return _tree_plan(concept, quantity, numbers, delta, relation, records_per_user, every_method=every_method)
    if delta != 0:
        raise ParameterError("all methods for rules are pure: leave out delta, or name a model such as model='shuffle'")
    return _rule_plan(
        concept,
        quantity,
        numbers,
        neighbours=relation,
        records_per_user=records_per_user,
        every_method=every_method,
        **extra,
    )


# Rules by their name, and those of a table, of which nothing but the declaration is read


def _rules_named(rule: Any, features: Mapping[str, Domain | None] | None, *, agreement: bool) -> Any:
    """A name of a kind of rule becomes a class over ``features``; all else stays."""
    family = not isinstance(rule, str) or rule in PLANNED_FAMILIES
    if family or (features is None and rule not in (*RULES, *KINDS)):
        if features is not None:
            raise ParameterError("features go with a rule by its name, such as 'stump'; a class brings its own columns")
        return rule
    if not features:
        raise ParameterError(
            f"the rule {rule!r} needs its columns: give features={{'age': Integers(0, 99)}}, or a class such as "
            "Thresholds(Integers(0, 99))"
        )
    if not isinstance(features, Mapping):
        raise TypeError(
            f"features must be columns with their domains, such as {{'age': Integers(0, 99)}}, got "
            f"{type(features).__name__}"
        )
    return class_of_rules(rule, features, "agreement" if agreement else "auto")


def _is_table(what: object, user: str | None, label: str | None) -> bool:
    """Whether this is what ``learn`` takes: users, a frame or stream of Arrow, or the path of files."""
    if isinstance(what, str):
        known = (*RULES, *KINDS, *PLANNED_FAMILIES)
        return what not in known and (user is not None or label is not None or PurePath(what).suffix != "")
    if isinstance(what, ConceptClass | VC1Tree | Task):
        return False
    frame = hasattr(what, "columns") or hasattr(what, "column_names") or hasattr(what, "__arrow_c_stream__")
    return is_path(what) or _is_users(what) or frame


def _is_users(what: object) -> bool:
    """Judged by the type: a frame may have columns of any name as attributes."""
    return hasattr(type(what), "fold") and hasattr(type(what), "bind")


def _rules_of_table(
    table: Any,
    rule: ConceptClass | str | None,
    features: Mapping[str, Domain | None] | None,
    *,
    agreement: bool,
    epsilon: Rational | None,
    neighbours: Neighbours | str | None,
) -> Any:
    """The rules that ``learn`` would learn of a table, from its declaration."""
    declared = table.features if _is_users(table) else None
    if declared is not None and features is not None:
        raise ParameterError("these users have their columns already: leave out features")
    columns = features if declared is None else declared
    if not columns:
        raise ParameterError(
            "a plan reads no value of a table: declare its columns, such as features={'age': Integers(0, 99)}"
        )
    if rule is None:
        classes = () if declared is None else tuple(getattr(table, "classes", ()))
        relation = Neighbours.ADD_REMOVE if neighbours is None else neighbours
        found = default_rules(columns, epsilon=1 if epsilon is None else epsilon, neighbours=relation)
        many = len(classes) > 2 and found.method == "small-tree"
        return SmallTrees(columns, classes=classes) if many else found.concept
    concept = class_of_rules(rule, columns, "agreement" if agreement else "auto")
    known = {name: domain for name, domain in columns.items() if domain is not None}
    return concept.with_columns(known) if isinstance(concept, ConceptClass) and not isinstance(rule, str) else concept


# One kind of target


def plan_users(
    concept: ConceptClass,
    *,
    epsilon: Rational,
    alpha: Rational = "0.05",
    beta: Rational = DEFAULT_BETA,
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    noise: Rational | None = None,
    setting: str | None = None,
    users: str | None = None,
    population: Population | None = None,
    model_noise: Rational | None = None,
    every_method: bool = False,
) -> Plan:
    """How many users are certified to suffice for excess error at most ``alpha`` with probability ``1 - beta``?

    ``noise`` (thresholds): each label is wrong with at most this probability at every x, which certifies far fewer
    users. ``setting`` restricts the plan to ``"realizable"`` or ``"agnostic"`` methods.  ``users``, ``population`` and
    ``model_noise`` set the model of the predictions, as for :func:`privpac.plan`.  Where a method certifies nothing, or
    its bound is out of reach for these numbers, its row says so.

    >>> import privpac as pp
    >>> plan_users(pp.Thresholds(pp.Integers(0, 1440)), epsilon=1,
    ...     records_per_user=16).row("realizable selection").n_users
    (24,)
    """
    return _rule_plan(
        concept,
        "users",
        {"epsilon": epsilon, "alpha": alpha, "beta": beta},
        records_per_user=records_per_user,
        neighbours=neighbours,
        noise=noise,
        setting=setting,
        users=users,
        population=population,
        model_noise=model_noise,
        every_method=every_method,
    )


def least_alpha(concept: ConceptClass, *, n_users: int, epsilon: Rational, **more: Any) -> Plan:
    """The excess error that each method can promise ``n_users`` users.

    >>> import privpac as pp
    >>> cuts = pp.Thresholds(pp.Integers(0, 1440))
    >>> least_alpha(cuts, n_users=500, epsilon=1, records_per_user=16, setting="realizable").rows[0].values
    (Fraction(41, 20000),)
    """
    return _rule_plan(concept, "alpha", {"n_users": n_users, "epsilon": epsilon}, **more)


def least_epsilon(concept: ConceptClass, *, n_users: int, alpha: Rational, **more: Any) -> Plan:
    """The privacy loss at which each method promises ``n_users`` users an excess error of ``alpha``."""
    return _rule_plan(concept, "epsilon", {"n_users": n_users, "alpha": alpha}, **more)


def plan_of_tree(
    tree: VC1Tree,
    *,
    epsilon: Rational,
    delta: Rational = 0,
    alpha: Rational = "0.05",
    beta: Rational = DEFAULT_BETA,
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    simple: bool = True,
) -> Plan:
    """How many users are certified to suffice for error at most ``alpha`` with probability ``1 - beta``, if some node
    is right?

    ``simple=False`` leaves out the row of the closed-form certificate.

    >>> from privpac.rules import PrefixTree
    >>> plan = plan_of_tree(PrefixTree(32), epsilon=1, delta="1e-6", alpha="0.1", records_per_user=10,
    ...     neighbours="replace")
    >>> plan.row("tree learner").n_users[0] <= 171
    True
    """
    numbers = {"epsilon": epsilon, "alpha": alpha, "beta": beta}
    return _tree_plan(tree, "users", numbers, delta, neighbours, records_per_user, simple=simple)


def _rule_plan(
    concept: ConceptClass,
    quantity: str,
    numbers: dict[str, Any],
    *,
    beta: Rational = DEFAULT_BETA,
    records_per_user: int | Iterable[int] | None = None,
    noise: Rational | None = None,
    setting: str | None = None,
    every_method: bool = False,
    **more: Any,
) -> Plan:
    """``more``: the other parameters of :func:`rule_target`."""
    asked = {"beta": beta, **numbers, **({} if noise is None else {"noise": noise})}
    own = METHODS.get(getattr(concept, "own_method", None) or "")
    make: Callable[..., Target] = rule_target if own is None or not own.target else resolve(own.target)
    target = make(concept, **_spent(asked), noise=noise, every_method=every_method, **more)
    return _answer(target, quantity, asked, records_per_user, setting, every_method)


def _tree_plan(
    tree: VC1Tree,
    quantity: str,
    numbers: dict[str, Any],
    delta: Rational,
    neighbours: Neighbours | str,
    records_per_user: int | Iterable[int] | None,
    *,
    simple: bool = True,
    every_method: bool = False,
) -> Plan:
    goal = _spent(numbers)
    make: Callable[..., Target] = resolve(METHODS["tree"].target)
    target = make(tree, **goal, delta=delta, neighbours=neighbours, simple=simple and quantity == "users")
    return _answer(target, quantity, numbers, records_per_user, None, every_method)


def _named_target(
    what: object,
    numbers: dict[str, Any],
    neighbours: Neighbours | str | None,
    delta: Rational,
    model: Model | str | None,
    shape: dict[str, Any],
) -> Target:
    """A family of distributions, or agreement."""
    if not isinstance(what, str):
        goal = _spent(numbers)
        strange = sorted(set(shape) - {"dimension"})
        if strange:
            raise ParameterError(f"{strange[0]} describes a family of distributions, not agreement; leave it out")
        make: Callable[..., Target] = resolve(METHODS["agreement"].target)
        return make(what, model=model or Model.CENTRAL, neighbours=neighbours, delta=delta, **goal, **shape)
    if model is not None:
        raise ParameterError("model goes with rules: families of distributions are learned by a curator; leave it out")
    relation = Neighbours.ADD_REMOVE if neighbours is None else neighbours
    from privpac.distributions.family_plan import family_target

    return family_target(what, neighbours=relation, delta=delta, **_spent(numbers), **shape)


# What is asked for


def _answer(
    target: Target,
    quantity: str,
    numbers: dict[str, Any],
    records_per_user: int | Iterable[int] | None,
    setting: str | None,
    every_method: bool,
) -> Plan:
    sizes, kind = _read_records(records_per_user), _read_setting(setting)
    if quantity == "users":
        return plan_target(target, sizes, target.stated(numbers), kind, every_method=every_method)
    n = positive_int(numbers["n_users"], "n_users")
    stated = target.stated({"users": n, **numbers})
    told: dict[str, Any] = {"quantity": quantity, "n_users": n, "sizes": sizes, "stated": stated}
    return invert_plan(target, **told, setting=kind, every_method=every_method)


def _spent(numbers: dict[str, Any]) -> dict[str, Any]:
    """Epsilon, alpha and beta of the target; where one is asked for, a number that takes its place."""
    return {"epsilon": numbers.get("epsilon", 1), "alpha": numbers.get("alpha", "1/2"), "beta": numbers["beta"]}


def _read_setting(setting: str | None) -> str | None:
    if setting not in (None, "realizable", "agnostic"):
        raise ParameterError(f"setting must be 'realizable' or 'agnostic', got {setting!r}")
    return setting


def _read_records(records: int | Iterable[int] | None) -> tuple[int, ...]:
    if records is None:
        return STANDARD_RECORDS
    given = list(records) if isinstance(records, Iterable) and not isinstance(records, str) else [records]
    if not given:
        raise ParameterError("records_per_user needs at least one number")
    return tuple(positive_int(m, "records_per_user") for m in given)


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
