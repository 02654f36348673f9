"""``pp.evaluate``, ``pp.select_model`` and ``pp.best_error``: how good is it, which is best, how good can it be?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privpac.api.learn import release_rule, warn_item_level
from privpac.errors import ParameterError
from privpac.evaluation.best_error import BestErrorLearner, plan_best_error
from privpac.evaluation.evaluator import Evaluator
from privpac.evaluation.results import CellKind, Weight
from privpac.evaluation.select_model import ModelChoice
from privpac.evaluation.together import EvaluatedLearner, part_budget
from privpac.exact import Rational
from privpac.guarantee import Neighbours, Unit
from privpac.methods.registry import class_of_rules
from privpac.papers.pure_agnostic.minimum_error import MinimumError
from privpac.parameters import EVALUATION_LEVELS
from privpac.result import Released
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.hierarchies.nodes import TreeNodes

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.ledger import BudgetLedger


def evaluate(
    predictor: Any,
    data: Users,
    *,
    epsilon: Rational,
    cells: CellKind = "table",
    weight: Weight = "user",
    max_records: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    confidence: Rational = "0.95",
    labels: tuple[Any, Any] | None = None,
    rowwise: bool = False,
    same_people: bool = False,
    moments: bool = True,
    levels: int = EVALUATION_LEVELS,
    ledger: BudgetLedger | None = None,
) -> Released:
    """How often is this predictor right on these people, and on new people from the same population?  With
    ``epsilon``-DP per user.

    Parameters
    ----------
    predictor : Released, rule, callable, fitted classifier, or str
        Public, or chosen without these people.  A callable gets a table of the data's features and returns one label
        per row; a text names a column of predictions in the table, which is private like the label.
    data : UserData or another engine's users
        Private.  Labelled; people who were not used to learn the predictor.
    epsilon : rational
        Budget (public).
    cells : {"table", "error"}
        The 2x2 table, or only right and wrong with less noise.
    weight : {"user", "record"}
        Every person counts the same, or every record of at most ``max_records`` per person.
    max_records : int, optional
        A public cap on the records read per person; needed where records count.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    confidence : rational
        Of every interval on its own.
    labels : pair, optional
        What the predictor says for 0 and for 1, where that is not 0 and 1.
    rowwise : bool
        Declares that a function answers about each row by itself, so that it may be asked about all at once.
    same_people : bool
        Declares that the predictor was learned from these people: nothing is said about others.
    moments : bool
        Release products of cells as well: intervals for new people are much narrower where people have several records
        that agree, and a little wider where they do not.  Without effect where nobody has two records.
    levels : int
        Steps of one person's contribution.
    ledger : BudgetLedger, optional
        Where the spend is written first.

    Returns
    -------
    Released
        ``value`` is an :class:`~privpac.evaluation.Evaluation`: ``error``, ``lift``, ``sensitivity``, ... with two
        intervals each.

    Raises
    ------
    ParameterError, SchemaError
        Before anything is spent.  Afterwards nothing is raised: a record on which the predictor fails counts as wrong.

    Examples
    --------
    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0), (80, 1)], [(20, 0)]] * 500, features={"age": pp.Integers(0, 99)})
    >>> found = pp.evaluate(lambda table: table["age"] > 50, people, epsilon=1).value
    >>> found.error.population.hi < 0.05
    True
    """
    unit = getattr(data, "unit", Unit.USER)
    warn_item_level(data)
    learner = Evaluator(
        predictor,
        epsilon,
        neighbours,
        unit,
        cells=cells,
        weight=weight,
        max_records=max_records,
        moments=moments,
        levels=levels,
        confidence=confidence,
        labels=labels,
        rowwise=rowwise,
        same_people=same_people,
    )
    return release_rule(learner, data, ledger=ledger)


def select_model(
    models: Mapping[str, Any],
    data: Users,
    *,
    epsilon: Rational,
    evaluate: Rational | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    max_records: int | None = None,
    ids: str = "private",
    confidence: Rational = "0.95",
    labels: tuple[Any, Any] | None = None,
    rowwise: bool = False,
    ledger: BudgetLedger | None = None,
) -> Released:
    """Which of these models is best on these people?  The best of ``k``, with ``epsilon``-DP per user.

    Parameters
    ----------
    models : mapping from names to predictors
        Public, or fitted on other people; each anything that :func:`evaluate` takes.  The price grows with ``log k``.
    data : UserData or another engine's users
        Private.
    epsilon : rational
        Budget (public).
    evaluate : rational or True, optional
        A share of the people, such as "1/3" (True), set aside to measure how good the chosen model is.
    ids : {"private", "public"}
        Under replace: whether ids are known to all and fixed, so that ``evaluate`` does not halve epsilon.
    neighbours, max_records, confidence, labels, rowwise, ledger
        As in :func:`evaluate`; ``labels`` hold for all models.

    Returns
    -------
    Released
        ``value.name`` is the chosen one; ``evaluation`` how good it is, if that was asked for.

    Raises
    ------
    ParameterError, SchemaError
        Before anything is spent.

    Examples
    --------
    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0), (80, 1)], [(20, 0)]] * 200, features={"age": pp.Integers(0, 99)})
    >>> models = {"old": lambda table: table["age"] > 50, "young": lambda table: table["age"] < 50}
    >>> pp.select_model(models, people, epsilon=1).value.name
    'old'
    """
    warn_item_level(data)
    asked: dict[str, Any] = {"labels": labels, "rowwise": rowwise, "ids": ids, "confidence": confidence}
    asked |= {"evaluate": evaluate, "neighbours": neighbours, "max_records": max_records}
    learner = selection_learner(models, epsilon=epsilon, unit=getattr(data, "unit", Unit.USER), **asked)
    return release_rule(learner, data, ledger=ledger)


def selection_learner(
    models: Mapping[str, Any],
    *,
    epsilon: Rational,
    unit: Unit,
    evaluate: Rational | None,
    neighbours: Neighbours | str,
    max_records: int | None,
    ids: str,
    confidence: Rational,
    **asked: Any,
) -> Any:
    """What :func:`select_model` runs; data are not needed."""
    if evaluate is None:
        return ModelChoice(models, epsilon, neighbours, unit, max_records, **asked)
    budget = part_budget(epsilon, neighbours, ids)
    chooser = ModelChoice(models, budget.epsilon, budget.neighbours, unit, max_records, **asked)
    return EvaluatedLearner(
        chooser, budget, evaluate, models=models, confidence=confidence, max_records=max_records, **asked
    )


def best_error(
    data: Users,
    rule: str | ConceptClass | VC1Tree,
    *,
    epsilon: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    max_records: int | None = None,
    confidence: Rational = "0.95",
    method: str = "sum",
    radius: Rational = "1/8",
    records_per_user: int | None = None,
    ledger: BudgetLedger | None = None,
) -> Released:
    """How well can any rule of this kind do?  A private lower bound on the least error, for new people from the same
    population.

    Parameters
    ----------
    data : UserData or another engine's users
        Private.
    rule : str or class of rules
        Public, as in :func:`privpac.learn`.  The size of the class does not matter.
    epsilon, neighbours, max_records, confidence, ledger
        As in :func:`privpac.evaluate`.
    method : {"sum", "oneshot", "bisect", "auto"}
        ``"sum"``: the least sum of errors with noise, and a bound that holds.  ``"oneshot"`` and ``"bisect"``: how many
        people find the best rule wrong more often than a level, in one selection or by comparisons (Li, Wang and Ye,
        *Improved Bounds*): a number within ``radius`` of the least error if people are enough, without a bound.
        ``"auto"``: the one for which :func:`privpac.plan_best_error` certifies the fewest people.
    radius : rational
        For all but ``"sum"``.
    records_per_user : int, optional
        For ``"auto"``: records each person is publicly promised to hold.

    Returns
    -------
    Released
        ``value.value`` is the estimate, ``value.lower()`` the bound.

    Raises
    ------
    ParameterError, SchemaError
        Before anything is spent.

    Examples
    --------
    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0)], [(30, 1)]] * 900, features={"age": pp.Integers(0, 99)})
    >>> 0.4 < pp.best_error(people, pp.Thresholds(), epsilon=1).value.lower() < 0.5
    True
    """
    warn_item_level(data)
    concept = class_of_rules(rule, getattr(data, "features", {}))
    asked: dict[str, Any] = {"neighbours": neighbours, "max_records": max_records, "confidence": confidence}
    asked |= {"method": method, "radius": radius, "records_per_user": records_per_user}
    learner = best_error_learner(concept, epsilon=epsilon, unit=getattr(data, "unit", Unit.USER), **asked)
    return release_rule(learner, data, ledger=ledger)


def best_error_learner(
    concept: ConceptClass | VC1Tree,
    *,
    epsilon: Rational,
    unit: Unit,
    neighbours: Neighbours | str,
    max_records: int | None,
    confidence: Rational,
    method: str,
    radius: Rational,
    records_per_user: int | None,
) -> Any:
    """What :func:`best_error` runs; data are not needed."""
    if method == "auto":
        if records_per_user is None:
            raise ParameterError("method 'auto' needs records_per_user: how many records each person holds, declared")
        planned = plan_best_error(
            concept, epsilon=epsilon, radius=radius, records_per_user=records_per_user, neighbours=neighbours
        )
        method = planned.best
        if method != "sum":
            max_records = min(planned[method].parameters["max_records"], max_records or records_per_user)
    if method in ("oneshot", "bisect"):
        told: dict[str, Any] = {"neighbours": neighbours, "unit": unit, "max_records": max_records}
        rules: Any = TreeNodes(concept) if isinstance(concept, VC1Tree) else concept
        return MinimumError(rules, epsilon, radius=radius, estimator=method, **told)
    if method != "sum":
        raise ParameterError(f"method must be sum, oneshot, bisect or auto, got {str(method)[:40]!r}")
    return BestErrorLearner(concept, epsilon, neighbours, unit, max_records=max_records, confidence=confidence)
