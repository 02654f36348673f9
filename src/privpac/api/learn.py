"""What most people touch: ``learn`` a private rule, ``load`` a saved one.

``learn`` chooses a learner from public quantities only, spends from the ledger if one is given, and returns a
``Released``: the rule, its guarantee, the public parameters used, what is left of the budget, and nothing else that
depends on the data.

Several rules from the same people add up: one ledger per dataset does the sums.  Rules from *disjoint* people do not
add up, as long as all records of a person are in one part and the split looks at nothing but that person's own data;
keep one ledger per part then:

>>> import privpac as pp
>>> from privpac.composition import compose_parallel
>>> north = pp.UserData.from_users([[(3, 0), (8, 1)]], features={"x": pp.Integers(0, 9)})
>>> south = pp.UserData.from_users([[(5, 1)], [(2, 0)]], features={"x": pp.Integers(0, 9)})
>>> rules = [pp.learn(part, pp.Thresholds(), epsilon=1) for part in (north, south)]
>>> compose_parallel([rule.guarantee for rule in rules], split="data").summary
'(1, 0)-DP per user, add-remove'
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from privpac import __version__
from privpac.api.tables import Data, Declared, fields_among, open_people, takes_tables
from privpac.data import Domain, Users
from privpac.data.domains import invalid_words
from privpac.errors import AccuracyWarning, ItemLevelWarning, LedgerError, ParameterError, did_you_mean
from privpac.evaluation.best_error import BestErrorLearner
from privpac.evaluation.results import few_people
from privpac.evaluation.together import EvaluatedLearner, evaluation_share, part_budget
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit, one_of
from privpac.ledger import BudgetLedger, LedgerLike, check_room, release
from privpac.methods.base import ITEM_LEVEL, Learner
from privpac.methods.registry import (
    METHODS,
    PUBLIC_FACTS,
    Choice,
    DefaultRules,
    Method,
    as_tree,
    build_learner,
    check_learns,
    chosen_by_parameters,
    class_of_rules,
    default_method,
    default_rules,
    unused,
)
from privpac.parameters import seconds
from privpac.result import BUDGET_LEFT, Released
from privpac.rules.base import ClassOfRules, ConceptClass, with_domains
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.hierarchies.nodes import TreeNodes

UNCERTIFIED = (
    "the node of fewest mistakes (mode 'erm'): private whatever the labels, but no accuracy is certified; it is if "
    "some node is right for "
    "every record (setting='realizable'), or by selection where the nodes can be counted (a taxonomy, networks, "
    "declared values)"
)


@frozen(slots=False)
class Resolved:
    """The method, what it learns and with which options."""

    choice: Choice
    method: Method
    rules: ConceptClass | VC1Tree
    """What was asked for."""
    concept: ConceptClass | VC1Tree
    """What the learner is given for it."""
    options: Mapping[str, Any]
    explained: bool
    """Whether the released rule says why this method was chosen."""


def resolve_method(
    rule: str | ConceptClass | VC1Tree | None,
    *,
    features: Mapping[str, Domain | None],
    method: str,
    setting: str,
    epsilon: Rational,
    neighbours: Neighbours | str,
    options: Mapping[str, Any],
    default: Callable[[], DefaultRules],
) -> Resolved:
    """Which method learns which rules with which options: the one place that decides it, from public facts only.

    1. No rule: those of ``default()``, and the method that these ask for.  A name: a class over ``features``.
    2. The method named; else the one that alone learns these rules; else the one whose own parameters are given; else
       the default, or what :func:`privpac.planning.choose_method` says where facts about the people are declared.
    3. What follows: a tree as it is or as the class of its nodes, domains from ``features``, and parameters that go
       with the setting.
    """
    if setting not in ("agnostic", "realizable"):
        raise ParameterError(
            f"setting must be 'agnostic' (labels may be wrong) or 'realizable' (some rule is right), got {setting!r}"
            f"{did_you_mean(setting, ('agnostic', 'realizable'))}"
        )
    given = {name: value for name, value in options.items() if value is not None}
    because = ""
    if rule is None:
        rules = default()
        concept: Any = rules.concept
        method, because, given = rules.method, rules.reason, unused(rules, given)
    else:
        concept = class_of_rules(rule, features, method)
    is_tree, asked_for = isinstance(concept, VC1Tree), concept
    # A pair of noise rates is a parameter of a learner and no declaration.
    facts = {name: given[name] for name in PUBLIC_FACTS if name in given and not isinstance(given[name], tuple)}
    own = getattr(concept, "own_method", None)
    if method != "auto":
        choice = Choice(method, "asked for")
    elif own is not None:
        choice = Choice(str(own), "the one method that learns these rules")
    elif (named := chosen_by_parameters(concept, setting, given)) is not None:
        choice = Choice(named, "its own parameters are given")
    elif not facts and not is_tree:
        choice = default_method(setting)
    else:
        from privpac.planning import choose  # simulations, which an ordinary call does without

        facts |= {"delta": given.get("delta", 0)} if is_tree else {}
        choice = choose.choose_method(concept, epsilon=epsilon, neighbours=neighbours, setting=setting, **facts)
    check_learns(choice.method, concept)
    chosen = METHODS[choice.method]
    numbers = "public_n_users" in given and not given.keys().isdisjoint({"records_per_user", "population"})
    explained = method == "auto" and (is_tree or numbers)
    if because:
        choice = evolve(choice, reason=f"{because}; {choice.reason}" if explained else because)
        explained = True
    if chosen.subject == "tree":
        concept = as_tree(concept, features)
    elif is_tree and not chosen.keeps_trees:
        concept = TreeNodes(concept)
        if method == "auto":
            given.pop("delta", None)  # a tree may be declared with one; selection among its nodes is pure
    if chosen.sized and isinstance(concept, ConceptClass):
        concept = with_domains(concept, features)
    return Resolved(choice, chosen, asked_for, concept, {**chosen.by_setting.get(setting, {}), **given}, explained)


@frozen(slots=False)
class Prepared:
    """What ``learn`` runs: the method, chosen once and from public quantities, and its learner."""

    choice: Choice
    learner: Learner
    explained: bool
    """Whether the released rule says why this method was chosen."""


def prepare(
    rule: str | ConceptClass | VC1Tree | None,
    *,
    epsilon: Rational,
    method: str = "auto",
    setting: str = "agnostic",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    unit: Unit | str = Unit.USER,
    max_records: int | None = None,
    features: Mapping[str, Domain | None] | None = None,
    labels: int = 2,
    evaluate: Rational | None = None,
    certify: Rational | None = None,
    ids: str = "private",
    confidence: Rational = "0.95",
    **options: Any,
) -> Prepared:
    """Choose the method and build its learner; data are not needed.  Options that are None count as not given.

    ``features``: public domains of the columns, for rules by their name, for the default ones (``rule`` None, of so
    many ``labels``), and for a class that names none.  ``evaluate``, ``certify``, ``ids`` and ``confidence`` as in
    :func:`learn`: a learner that evaluates its own rule splits the budget first.
    """
    evaluate = None if evaluate is False else evaluate
    if certify is not None and evaluate is None:
        raise ParameterError("certify= compares with an evaluation on other people: give evaluate= as well")
    columns = features or {}
    facts = {name: options.get(name) for name in ("delta", "public_n_users")}
    default = partial(
        default_rules, columns, epsilon=epsilon, method=method, neighbours=neighbours, labels=labels, **facts
    )
    budget, kept, part, relation = None, Fraction(0), epsilon, neighbours
    if evaluate is not None:
        budget = part_budget(epsilon, neighbours, ids)
        kept = kept if certify is None else rational(certify, "certify", above=0, below=1)
        part, relation = budget.epsilon * (1 - kept), budget.neighbours
        if options.get("delta") is not None:
            options = options | {"delta": budget.part_delta(options["delta"])}
    told: dict[str, Any] = {"method": method, "setting": setting, "epsilon": part, "neighbours": relation}
    found = resolve_method(rule, features=columns, options=options, default=default, **told)
    common = {
        found.method.subject: found.concept,
        "epsilon": rational(part, "epsilon", above=0),
        "neighbours": one_of(Neighbours, relation, "neighbours"),
        "unit": one_of(Unit, unit, "unit"),
        "max_records": max_records,
    }
    learner: Learner = build_learner(found.method.key, common, _shared_out(found, kept))
    if budget is not None and evaluate is not None:
        shared: dict[str, Any] = {"neighbours": relation, "unit": unit, "max_records": max_records}
        least = None
        if certify is not None:
            least = BestErrorLearner(found.rules, budget.epsilon * kept, **shared, confidence=confidence)
        declared = options.get("records_per_user")
        learner = EvaluatedLearner(
            learner,
            budget,
            evaluation_share(evaluate, options.get("public_n_users")),
            least,
            confidence=confidence,
            records_per_user=declared if isinstance(declared, int) else 1,
            max_records=max_records,
        )
    return Prepared(found.choice, learner, found.explained)


def _shared_out(found: Resolved, certified: Fraction) -> Mapping[str, Any]:
    """The options of the learner, which shares what ``certify`` leaves: a tree's ``calibrate`` is of all of epsilon."""
    asked = found.options.get("calibrate")
    if asked is None or not certified or found.method.key != "small-tree":
        return found.options
    share = rational(asked, "calibrate", minimum=0, below=1)
    if share + certified >= 1:
        raise ParameterError("calibrate= and certify= together must be below 1: the rest of epsilon is for the tree")
    return {**found.options, "calibrate": share / (1 - certified)}


def learner_for(concept: ConceptClass | VC1Tree, *, epsilon: Rational, **options: Any) -> Learner:
    """The learner that ``learn`` would run, with the parameters of :func:`prepare`."""
    return prepare(concept, epsilon=epsilon, **options).learner


@takes_tables
def learn(
    data: Data,
    rule: str | ConceptClass | VC1Tree | None = None,
    *,
    epsilon: Rational,
    method: str = "auto",
    setting: str = "agnostic",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    max_records: int | None = None,
    ledger: LedgerLike | None = None,
    not_before: float | None = None,
    evaluate: Rational | None = None,
    certify: Rational | None = None,
    ids: str = "private",
    confidence: Rational = "0.95",
    **options: Any,
) -> Released:
    """Learn one rule with ``epsilon``-differential privacy per user.

    Parameters
    ----------
    data : people or table
        Private.  ``UserData`` or another engine's users; or a pandas, polars, Arrow, DuckDB or Spark table, a stream of
        Arrow, or the path of CSV or Parquet files (also several), declared by the next keywords.
    rule : str, class of rules, tree, or None
        Public.  A name such as "stump" over the columns of the data, a class such as ``pp.Stumps()``, or a tree such as
        ``pp.PrefixTree(8)``, of which one node is learned.  None: one column gives a cut, two to four the best cut on
        any of them, five or more a small tree; the result says which and why.
    user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
        The declaration of a table, as in ``UserData.from_frame``; ``user=None`` makes every record a person of its own.
    epsilon : rational
        Public.  The privacy loss: a float means its shortest decimal, "1/3" is exact.
    method : str
        A key of ``pp.list_methods()``; "auto" chooses from what is declared.
    setting : {"agnostic", "realizable"}
        Labels may be wrong, or some rule is right.  Trees: a realizable setting reduces each user to the deepest
        positive node, an agnostic one selects among all nodes where they can be counted; an open vocabulary takes
        ``delta=``.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart; under add-remove the number of users is private.
    max_records : int, optional
        A public cap on the records read per user.  Privacy needs none.
    ledger : BudgetLedger or path, optional
        Where the spend is written first; the result says what is left.
    not_before : float, optional
        Seconds from the call before which nothing is returned, to hide the run time.
    evaluate : rational or True, optional
        Share of the people, such as "1/3", set aside to measure how good the rule is: ``evaluation`` of the result.
        True: a third of them, or 1,100 people (at least a tenth, at most half) where ``public_n_users`` is declared.
    certify : rational, optional
        With ``evaluate``: share of epsilon, such as "1/4", for how good any rule of the class can be: ``certificate``
        says how far from the best this one is, at most.
    ids : {"private", "public"}
        With ``evaluate`` under replace: whether ids are known to all, and fixed; else epsilon is split.
    confidence : rational
        Of each interval on its own.
    engine, separator, header, names
        How files are read: an engine ("auto", "memory", "stream" or "spark"), and how a CSV file is written.
    **options
        Public facts for the choice of a method (``public_n_users``, ``records_per_user``, ``noise``, ``people``,
        ``population``), ``delta``, and the parameters of the method's learner.

    Returns
    -------
    Released
        The rule, its guarantee, the public parameters used, warnings, and nothing else that depends on the data.

    Raises
    ------
    ParameterError, SchemaError
        Before anything is spent.  Afterwards nothing data-dependent is raised, warned or logged.

    Notes
    -----
    ``(epsilon, 0)``-DP (with a delta ``(epsilon, delta)``) per user for the chosen relation; per record, with an
    ``ItemLevelWarning``, when the data have no user column.  No users, one user, users without records, a user with a
    million records: all ordinary, and each counts as at most one user.

    Examples
    --------
    From a table in one call:

    >>> import polars as pl, privpac as pp
    >>> visits = pl.DataFrame({"id": [1, 1, 2, 3], "age": [30, 80, 20, 90], "ill": [0, 1, 0, 1]})
    >>> pp.learn(visits, user="id", label="ill", features={"age": (0, 110)}, epsilon=1).guarantee.summary
    '(1, 0)-DP per user, add-remove'

    From people that are read once and used often:

    >>> people = pp.UserData.from_users([[(30, 0), (80, 1)], [(20, 0)], [(90, 1), (50, 1)]] * 200,
    ...     features={"age": pp.Integers(0, 99)})
    >>> rule = pp.learn(people, epsilon=1)
    >>> rule.guarantee.summary
    '(1, 0)-DP per user, add-remove'

    A kind of rule by its name, and the answer for new people:

    >>> pp.learn(people, "interval", epsilon="1/2").predict([[85], [10]]).shape
    (2,)

    How good is it?  A third of the people tell, under the same guarantee:

    >>> found = pp.learn(people, "threshold", epsilon=4, evaluate=True)
    >>> 0 <= found.evaluation.error.value <= 1, found.guarantee.summary
    (True, '(4, 0)-DP per user, add-remove')
    """
    fields = fields_among(options)
    people = open_people(data, fields, call="pp.learn({table}, epsilon=1)", columns=own_columns(rule))
    told: dict[str, Any] = {"setting": setting, "neighbours": neighbours, "max_records": max_records}
    told |= {"evaluate": evaluate, "certify": certify, "ids": ids, "confidence": confidence}
    told |= {"features": people.features, "unit": people.unit}
    if rule is None:
        told |= {"labels": len(getattr(people.schema, "classes", ())) or 2}
    prepared = prepare(rule, epsilon=epsilon, method=method, **told, **options)
    return release_prepared(prepared, people, ledger=ledger, not_before=not_before, stacklevel=4)


def own_columns(rule: object) -> Mapping[str, Domain | None] | None:
    """The columns that a class of rules declares by name and domain, None where it leaves that to the data."""
    found: Mapping[str | None, Domain | None] = rule.declared() if isinstance(rule, ClassOfRules) else {}
    named = {name: domain for name, domain in found.items() if name is not None and domain is not None}
    return named if named and len(named) == len(found) else None


def release_prepared(
    prepared: Prepared,
    data: Users | Declared,
    *,
    ledger: LedgerLike | None = None,
    not_before: float | None = None,
    stacklevel: int = 3,
) -> Released:
    """Run what was prepared; the data's unit must be the one it was prepared for."""
    warn_item_level(data, stacklevel)
    released = release_rule(prepared.learner, data, ledger=ledger, not_before=not_before, stacklevel=stacklevel)
    released = evolve(released, warnings=(*released.warnings, *_few(released)))
    if prepared.explained:
        released = evolve(released, parameters={**released.parameters, "chosen because": prepared.choice.reason})
    return released


def warn_item_level(data: Users | Declared, stacklevel: int = 3) -> None:
    """Say, before anything is spent, that people are not what is protected."""
    if getattr(data, "unit", Unit.USER) == Unit.ITEM:
        warnings.warn(ITEM_LEVEL, ItemLevelWarning, stacklevel=stacklevel)


def _few(released: Released) -> tuple[str, ...]:
    """Whether a number of people that is known anyway (released, or declared) is too small for the class."""
    if not released or released.evaluation is not None or released.guarantee is None:
        return ()
    replaced = released.guarantee.neighbours is Neighbours.REPLACE
    shown = released.parameters
    known = shown.get("noisy_n_users", shown.get("public_n_users"))
    if known is None:
        return ()
    epsilon = float(released.guarantee.epsilon)
    return few_people(float(known), shown.get("size"), epsilon / 2 if replaced else epsilon)


def release_rule(
    learner: Learner,
    data: Users | Declared,
    *,
    ledger: LedgerLike | None = None,
    not_before: float | None = None,
    stacklevel: int = 3,
) -> Released:
    """Release, and say what is left of the ledger's budget: a function of its earlier, public spends.

    A table that is declared only is read once the ledger has room.
    """
    ledger = None if ledger is None else BudgetLedger.of(ledger)
    if isinstance(data, Declared):
        start, not_before = time.monotonic(), None if not_before is None else seconds(not_before, "not_before")
        if ledger is not None:
            check_room(learner, ledger)
        data = data.read()
        if not_before is not None:  # reading takes longer the more people there are: it is a part of the call
            not_before = max(0.0, not_before - (time.monotonic() - start))
    concept = getattr(learner, "concept", getattr(learner, "tree", None))
    label = type(getattr(learner, "learner", learner)).__name__ + (
        "" if concept is None else f" of {type(concept).__name__}"
    )
    noted = (UNCERTIFIED,) if isinstance(concept, VC1Tree) and getattr(learner, "mode", None) == "erm" else ()
    for line in noted:
        warnings.warn(line, AccuracyWarning, stacklevel=stacklevel)
    released = release(learner, data, ledger=ledger, label=label, not_before=not_before)
    promise = released.guarantee
    if promise is not None and promise.unit is Unit.ITEM and ITEM_LEVEL not in released.warnings:
        noted = (ITEM_LEVEL, *noted)
    released = evolve(released, warnings=(*released.warnings, *noted))
    declared = dict(getattr(data, "features", {}))  # columns without a domain have that of the class
    read = getattr(released.value, "features", {})
    if isinstance(read, Mapping):  # a vector of means has names only
        declared |= {name: domain for name, domain in read.items() if declared.get(name) is None}
    policy = invalid_words(getattr(data, "on_invalid", "raise"), declared)
    if policy:  # what was declared, never how many records it met
        released = evolve(released, parameters={**released.parameters, "invalid values": policy})
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    about = {"released": now, "version": __version__, "user": getattr(data, "user_name", None)}
    released = evolve(released, about={**released.about, **{name: text for name, text in about.items() if text}})
    if ledger is not None:
        with suppress(LedgerError):  # the rule is paid for; a busy ledger must not take it away
            left = ledger.remaining().out_of(ledger.budget)
            released = evolve(released, parameters={**released.parameters, BUDGET_LEFT: left})
    return released


REGISTERING = tuple(
    f"privpac.{module}"
    for module in (
        "distributions.quantiles.quantile_learner",
        "distributions.quantiles.result",
        "distributions.results",
        "evaluation.best_error",
        "evaluation.results",
        "evaluation.select_model",
        "methods.agreement.agreement_learner",
        "methods.means",
        "papers.pure_agnostic.representations",
        "rules.binarized",
        "rules.boxes",
        "rules.cuts",
        "rules.decision_lists",
        "rules.enumerated",
        "rules.halfspaces",
        "rules.hierarchies.base",
        "rules.intervals",
        "rules.parities",
        "rules.points",
        "rules.scorecards",
        "rules.small_trees",
        "rules.stumps",
    )
)
"""Modules whose import makes a kind of saved value known."""


def load(path: str | Path) -> Released:
    """Read a saved result.

    Parameters
    ----------
    path : path
        A file that ``released.save(path)`` or ``privpac learn --out`` wrote.

    Returns
    -------
    Released

    Raises
    ------
    ModelFileError
        The file is not one, or is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0), (80, 1)], [(20, 0)]] * 50, features={"age": pp.Integers(0, 99)})
    >>> rule = pp.learn(people, "threshold", epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rule.save(f"{folder}/rule.json")
    ...     pp.load(f"{folder}/rule.json").value == rule.value
    True
    """
    for module in REGISTERING:
        import_module(module)
    return Released.load(path)
