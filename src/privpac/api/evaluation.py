"""``pp.evaluate``, ``pp.select_model`` and ``pp.best_error``: how good is it, which is best, how good can it be?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack

from privpac.api.learn import own_columns, release_rule, warn_item_level
from privpac.api.tables import Data, DataFields, Declared, open_people, takes_tables
from privpac.data import Domain
from privpac.data.spec import read_features
from privpac.errors import ParameterError, did_you_mean
from privpac.evaluation.best_error import BestErrorLearner, plan_best_error
from privpac.evaluation.evaluator import Evaluator
from privpac.evaluation.results import Weight
from privpac.evaluation.select_model import ModelChoice
from privpac.evaluation.together import EvaluatedLearner, part_budget
from privpac.exact import Rational
from privpac.guarantee import Neighbours, Unit
from privpac.methods.registry import class_of_rules
from privpac.papers.pure_agnostic.minimum_error import MinimumError
from privpac.parameters import EVALUATION_LEVELS
from privpac.result import Released
from privpac.rules.base import ConceptClass, Rule
from privpac.rules.chances import DEFAULT_BANDS
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.hierarchies.nodes import TreeNodes

if TYPE_CHECKING:
    from privpac.ledger import LedgerLike


@takes_tables
def evaluate(
    predictor: Any,
    data: Data,
    *,
    epsilon: Rational,
    cells: Literal["regions", "table", "error"] = "regions",
    bands: int = DEFAULT_BANDS,
    weight: Weight = "user",
    max_records: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    confidence: Rational = "0.95",
    labels: tuple[Any, Any] | None = None,
    rowwise: bool = False,
    same_people: bool = False,
    moments: bool = True,
    levels: int = EVALUATION_LEVELS,
    ledger: LedgerLike | None = None,
    **table: Unpack[DataFields],
) -> Released:
    """How often is this predictor right on these people, and on new people from the same population?  With
    ``epsilon``-DP per user.

    Parameters
    ----------
    predictor : Released, rule, callable, fitted classifier, or str
        Public, or chosen without these people.  A callable gets a table of the data's features and returns one label
        per row; a text names a column of predictions in the table, which is private like the label.
    data : people or table
        Private.  ``UserData`` or another engine's users; or a pandas, polars, Arrow, DuckDB or Spark table, a stream of
        Arrow, or the path of CSV or Parquet files (also several), declared by the next keywords.
        Labelled; people who were not used to learn the predictor.
    user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
        The declaration of a table, as in ``UserData.from_frame``; ``user=None`` makes every record a person of its own.
        Left out, ``features`` are the columns that a rule declares.
    epsilon : rational
        Budget (public).
    cells : {"regions", "table", "error"}
        The leaves of a small tree or bands of a scorecard's points, each with both labels, at the price of the 2x2
        table that they add up to; that table alone, as of other predictors; or only right and wrong with less noise.
    bands : {2, 4, 8, 16}
        Into how many bands the points of a scorecard fall; more of them need more people.
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
    ledger : BudgetLedger or path, optional
        Where the spend is written first.
    engine, separator, header, names
        How files are read: an engine ("auto", "memory", "stream" or "spark"), and how a CSV file is written.

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
    people = _people([predictor], data, table, "pp.evaluate(rule, {table}, epsilon=1)")
    warn_item_level(people.schema)
    learner = Evaluator(
        predictor,
        epsilon,
        neighbours,
        people.unit,
        cells=cells,
        weight=weight,
        max_records=max_records,
        moments=moments,
        bands=bands,
        levels=levels,
        confidence=confidence,
        labels=labels,
        rowwise=rowwise,
        same_people=same_people,
    )
    return release_rule(learner, people, ledger=ledger)


def _people(predictors: Iterable[object], data: object, table: DataFields, call: str) -> Declared:
    """The people, with the columns that rules declare and the columns of predictions."""
    columns: dict[str, Domain | None] = {}
    for one in predictors:
        value = one.value if isinstance(one, Released) and one else one
        if isinstance(value, Rule):
            reads = value.reads or tuple(value.features)
            columns |= {name: value.features[name] for name in reads if columns.get(name) is None}
    texts = [one for one in predictors if isinstance(one, str)]
    features = table.get("features")
    if texts and features is not None:
        declared = read_features(features)
        table["features"] = dict.fromkeys(texts) | declared
    elif texts and "schema" not in table:
        columns = dict.fromkeys(texts) | columns
    return open_people(data, table, call=call, columns=columns)


@takes_tables
def select_model(
    models: Mapping[str, Any],
    data: Data,
    *,
    epsilon: Rational,
    evaluate: Rational | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    max_records: int | None = None,
    ids: str = "private",
    confidence: Rational = "0.95",
    labels: tuple[Any, Any] | None = None,
    rowwise: bool = False,
    ledger: LedgerLike | None = None,
    **table: Unpack[DataFields],
) -> Released:
    """Which of these models is best on these people?  The best of ``k``, with ``epsilon``-DP per user.

    Parameters
    ----------
    models : mapping from names to predictors
        Public, or fitted on other people; each anything that :func:`evaluate` takes.  The price grows with ``log k``.
    data : people or table
        Private.  ``UserData`` or another engine's users; or a pandas, polars, Arrow, DuckDB or Spark table, a stream of
        Arrow, or the path of CSV or Parquet files (also several), declared by the next keywords.
    user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
        The declaration of a table, as in ``UserData.from_frame``; ``user=None`` makes every record a person of its own.
    epsilon : rational
        Budget (public).
    evaluate : rational or True, optional
        A share of the people, such as "1/3" (True), set aside to measure how good the chosen model is.
    ids : {"private", "public"}
        Under replace: whether ids are known to all and fixed, so that ``evaluate`` does not halve epsilon.
    neighbours, max_records, confidence, labels, rowwise, ledger
        As in :func:`evaluate`; ``labels`` hold for all models.
    engine, separator, header, names
        How files are read: an engine ("auto", "memory", "stream" or "spark"), and how a CSV file is written.

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
    listed = models.values() if isinstance(models, Mapping) else ()
    people = _people(listed, data, table, "pp.select_model(models, {table}, epsilon=1)")
    warn_item_level(people.schema)
    asked: dict[str, Any] = {"labels": labels, "rowwise": rowwise, "ids": ids, "confidence": confidence}
    asked |= {"evaluate": evaluate, "neighbours": neighbours, "max_records": max_records}
    learner = selection_learner(models, epsilon=epsilon, unit=people.unit, **asked)
    return release_rule(learner, people, ledger=ledger)


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


@takes_tables
def best_error(
    data: Data,
    rule: str | ConceptClass | VC1Tree,
    *,
    epsilon: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    max_records: int | None = None,
    confidence: Rational = "0.95",
    method: str = "sum",
    radius: Rational = "1/8",
    records_per_user: int | None = None,
    ledger: LedgerLike | None = None,
    **table: Unpack[DataFields],
) -> Released:
    """How well can any rule of this kind do?  A private lower bound on the least error, for new people from the same
    population.

    Parameters
    ----------
    data : people or table
        Private.  ``UserData`` or another engine's users; or a pandas, polars, Arrow, DuckDB or Spark table, a stream of
        Arrow, or the path of CSV or Parquet files (also several), declared by the next keywords.
    rule : str or class of rules
        Public, as in :func:`privpac.learn`.  The size of the class does not matter.
    user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
        The declaration of a table, as in ``UserData.from_frame``; ``user=None`` makes every record a person of its own.
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
    engine, separator, header, names
        How files are read: an engine ("auto", "memory", "stream" or "spark"), and how a CSV file is written.

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
    people = open_people(data, table, call='pp.best_error({table}, "stump", epsilon=1)', columns=own_columns(rule))
    warn_item_level(people.schema)
    concept = class_of_rules(rule, people.features)
    asked: dict[str, Any] = {"neighbours": neighbours, "max_records": max_records, "confidence": confidence}
    asked |= {"method": method, "radius": radius, "records_per_user": records_per_user}
    learner = best_error_learner(concept, epsilon=epsilon, unit=people.unit, **asked)
    return release_rule(learner, people, ledger=ledger)


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
        near = did_you_mean(method, ("sum", "oneshot", "bisect", "auto"))
        raise ParameterError(f"method must be sum, oneshot, bisect or auto, got {str(method)[:40]!r}{near}")
    return BestErrorLearner(concept, epsilon, neighbours, unit, max_records=max_records, confidence=confidence)
