"""Distributions in one call: select among candidates, or learn one of a family, from users' records.

``select_distribution`` names the candidate closest to the population; ``learn_distribution`` learns a histogram, a mass
function, a product or a normal law.  Both choose their learner from public declarations only, spend from the ledger if
one is given, and return a ``Released`` whose ``value`` is the distribution: ``sample``, ``score_samples``, ``pmf``
or ``pdf`` cost nothing more.

=============  =============================================  ==================================================
family         learner                                        must be declared (public)
=============  =============================================  ==================================================
``histogram``  noisy averages, every person alike; with       ``bins`` where values are many
               ``max_records`` noisy counts of records;
               ``gaussian`` for many columns and a ``delta``
               ``shuffle`` without a trusted curator          ``delta``, ``neighbours="replace"``
               ``stable`` for columns that nobody can list    ``delta``; the column's domain may be ``Texts()``
``discrete``   selection from a cover of all mass functions   ``records_per_user`` (or ``tau``)
``product``    the same, for independent columns              ``records_per_user`` (or ``tau``)
``gaussian``   coarse to fine; ``method="cover"`` selects     ``radius``, ``records_per_user``, maybe ``max_variance``
``mean``       noisy means, every person alike; ``trimmed``   ``Integers`` or ``Grid`` columns; ``delta``, ``width``
               and ``friendly`` where people agree
=============  =============================================  ==================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from privpac.api.candidates import candidates_from
from privpac.api.learn import release_rule, warn_item_level
from privpac.api.tables import Data, Declared, fields_among, open_people, takes_tables
from privpac.data import Domain, Users
from privpac.data.users import is_people
from privpac.distributions.base import DistributionLearner, Gaussian
from privpac.distributions.cells import bins_from_text
from privpac.distributions.gaussian import CoarseToFineGaussian, CoarseToFineMean
from privpac.distributions.histogram import (
    AveragedHistogram,
    ClippedHistogram,
    ColumnByColumn,
    GaussianHistogram,
    edges_of,
)
from privpac.distributions.mean import AveragedMean
from privpac.distributions.selection.selector import HypothesisSelector
from privpac.distributions.vocabulary import VocabularyHistogram
from privpac.errors import ParameterError, TooLargeError, did_you_mean
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit, one_of
from privpac.ledger import LedgerLike
from privpac.methods.means import FriendlyMean, TrimmedMean
from privpac.papers.few_examples_per_user.covers import CoverLearner
from privpac.parameters import declared
from privpac.protocols.histogram import ShuffleHistogram
from privpac.result import Released

CandidateLaws = Mapping[str, Any] | Sequence[Any]
"""Laws of scipy, weights, released distributions, results or functions, by name or in a list."""
Options = dict[str, Any]
"""Public parameters of a learner by name."""
LearnerClass = type[Any]
FAMILIES = ("histogram", "discrete", "product", "gaussian", "mean")
_COVER_ALPHA = Fraction(1, 5)
_HISTOGRAMS: dict[str, LearnerClass] = {
    "average": AveragedHistogram,
    "counts": ClippedHistogram,
    "gaussian": GaussianHistogram,
    "stable": VocabularyHistogram,
    "shuffle": ShuffleHistogram,
}
_MEANS: dict[str, LearnerClass] = {"average": AveragedMean, "trimmed": TrimmedMean, "friendly": FriendlyMean}
_METHODS = {"histogram": tuple(_HISTOGRAMS), "gaussian": ("coarse-to-fine", "cover"), "mean": tuple(_MEANS)}
_OF_CALL = ("method", "neighbours", "ledger", "not_before", "candidates_are")
_COUNTED = ("max_records", "stages", "first_share")
"""Who declares one of these means a histogram of records, not of people."""


# Selection


@takes_tables
def select_distribution(
    data: Data,
    candidates: CandidateLaws,
    *,
    epsilon: Rational,
    candidates_are: str,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ledger: LedgerLike | None = None,
    not_before: float | None = None,
    **options: Any,
) -> Released:
    """Select the candidate closest in total variation to the population, with ``epsilon``-differential privacy per
    user.

    Parameters
    ----------
    data : people or table
        Private.  ``UserData`` or another engine's users; or a pandas, polars, Arrow, DuckDB or Spark table, a stream of
        Arrow, or the path of CSV or Parquet files (also several), declared by the next keywords.
        No labels are needed.
    candidates : list, or mapping of names
        Frozen ``scipy.stats`` laws, weights, released distributions (also whole ``Released`` results) or functions; or
        as text, ``{"short": "expon:scale=20", "long": "saved.json"}`` or ``["short=expon:scale=20"]``.
    user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
        The declaration of a table, as in ``UserData.from_frame``; ``user=None`` makes every record a person of its own.
    epsilon : rational
        Public.  The privacy loss.
    candidates_are : {"public", "dp-released"}
        Where they come from; the budget of released ones is added up from the results unless ``candidates_epsilon``
        states it.  Fitting them on these users without privacy voids the promise.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    ledger : BudgetLedger or path, optional
        Where the spend is written first.
    not_before : float, optional
        Seconds from the call before which nothing is returned, to hide the run time.
    engine, separator, header, names
        How files are read: an engine ("auto", "memory", "stream" or "spark"), and how a CSV file is written.
    **options
        Public declarations of :class:`privpac.distributions.HypothesisSelector`; ``records_per_user`` sets the clip
        unless ``tau`` is given.

    Returns
    -------
    Released
        ``parameters["name"]`` is the chosen name; ``(epsilon, 0)``-DP per user for the chosen relation.

    Raises
    ------
    ParameterError, SchemaError
        Before anything is spent.

    Examples
    --------
    >>> import privpac as pp
    >>> from scipy import stats
    >>> waits = pp.UserData.from_users([[3, 1, 9], [2, 14], [5]], features={"wait": pp.Integers(0, 99)}, labelled=False)
    >>> laws = {"short": stats.expon(scale=6), "long": stats.expon(scale=60)}
    >>> chosen = select_distribution(waits, laws, epsilon=1, candidates_are="public", records_per_user=3)
    >>> chosen.parameters["name"] in laws, chosen.guarantee.summary
    (True, '(1, 0)-DP per user, add-remove')
    """
    people = _people(data, options, 'pp.select_distribution({table}, laws, epsilon=1, candidates_are="public")')
    selector = selector_for(
        candidates,
        epsilon=epsilon,
        candidates_are=candidates_are,
        neighbours=neighbours,
        unit=people.unit,
        domains=dict(people.features),
        **options,
    )
    return release_distribution(selector, people, ledger=ledger, not_before=not_before)


def selector_for(
    candidates: CandidateLaws,
    *,
    epsilon: Rational,
    candidates_are: str,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    unit: Unit | str = Unit.USER,
    domains: Mapping[str, Domain | None] | None = None,
    **options: Any,
) -> HypothesisSelector:
    """The learner that ``select_distribution`` would run; data are not needed.  Options that are None count as not
    given; ``domains`` are needed only for candidates and bins given as text."""
    candidates = candidates_from(candidates, domains or {})
    given = _given(HypothesisSelector, options, "selection")
    if "bins" in given:
        given["bins"] = bins_from_text(given["bins"], domains or {})
    relation, protects = one_of(Neighbours, neighbours, "neighbours"), one_of(Unit, unit, "unit")
    if candidates_are == "dp-released" and "candidates_epsilon" not in given:
        given["candidates_epsilon"] = _price_of(candidates, protects, relation)
    listed = _opened(candidates)
    return HypothesisSelector(
        listed, epsilon, candidates_are=candidates_are, neighbours=relation, unit=protects, **given
    )


def _listed(candidates: CandidateLaws) -> list[object]:
    if isinstance(candidates, Mapping):
        return list(candidates.values())
    return list(candidates) if hasattr(candidates, "__iter__") and not isinstance(candidates, (str, bytes)) else []


def _opened(candidates: CandidateLaws) -> CandidateLaws:
    """Candidates with whole results replaced by the distributions in them."""
    if any(isinstance(value, Released) and not value for value in _listed(candidates)):
        raise ParameterError("a candidate is a result in which nothing was released; leave it out")
    if isinstance(candidates, Mapping):
        return {name: value.value if isinstance(value, Released) else value for name, value in candidates.items()}
    listed = _listed(candidates)
    return [value.value if isinstance(value, Released) else value for value in listed] if listed else candidates


def _price_of(candidates: CandidateLaws, unit: Unit, neighbours: Neighbours) -> Fraction:
    """What the released candidates cost together (basic composition), where their results say so."""
    results = {id(value): value for value in _listed(candidates) if isinstance(value, Released)}
    promises = [value.guarantee for value in results.values()]
    if not results or any(
        g is None or g.delta or g.unit is not unit or g.neighbours is not neighbours for g in promises
    ):
        raise ParameterError(
            "candidates_epsilon must be declared for dp-released candidates, unless they are results with a pure "
            "guarantee "
            f"per {unit} and {neighbours}, whose epsilons are added up"
        )
    return sum((rational(g.epsilon) for g in promises if g is not None), Fraction(0))


# Learning


@takes_tables
def learn_distribution(
    data: Data,
    family: str = "histogram",
    *,
    epsilon: Rational,
    method: str = "auto",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ledger: LedgerLike | None = None,
    not_before: float | None = None,
    **options: Any,
) -> Released:
    """Learn a distribution of ``family`` from users' records with ``epsilon``-differential privacy per user.

    Parameters
    ----------
    data : people or table
        Private.  ``UserData`` or another engine's users; or a pandas, polars, Arrow, DuckDB or Spark table, a stream of
        Arrow, or the path of CSV or Parquet files (also several), declared by the next keywords.
        No labels are needed.
    family : str
        "histogram", "discrete", "product", "gaussian" or another of ``FAMILIES``.
    user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
        The declaration of a table, as in ``UserData.from_frame``; ``user=None`` makes every record a person of its own.
    epsilon : rational
        Public.  The privacy loss.
    method : str
        One of the family's methods; "auto" chooses from what is declared.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    ledger : BudgetLedger or path, optional
        Where the spend is written first.
    not_before : float, optional
        Seconds from the call before which nothing is returned, to hide the run time.
    engine, separator, header, names
        How files are read: an engine ("auto", "memory", "stream" or "spark"), and how a CSV file is written.
    **options
        Public declarations of the family's learner (see the module's table).  With people that were read already,
        ``features`` names the columns to read; ``bins`` is a list of edges or a number of equal bins over a declared
        range, or a mapping of columns to those; as text ``"0:100:10"`` or ``["age=0:100:10", "hour=8"]``.
        ``noise`` of a histogram is a class derived from :class:`privpac.mechanisms.Noise`, discrete Laplace by default.
        A histogram averages people, each of whom counts alike, unless ``max_records`` is declared: then it counts
        records, up to so many of each, and leaves the others out.

    Returns
    -------
    Released
        ``value`` is the distribution; ``(epsilon, 0)``-DP per user, whatever the true one is.

    Raises
    ------
    ParameterError, SchemaError
        Before anything is spent.  No users, or users without records, give noise and no error.

    Examples
    --------
    >>> import privpac as pp
    >>> visits = pp.UserData.from_users([[9, 9, 17], [8], [9, 10]], features={"hour": pp.Integers(0, 23)},
    ...     labelled=False)
    >>> hours = learn_distribution(visits, epsilon=1)
    >>> hours.value.columns, hours.guarantee.summary
    (('hour',), '(1, 0)-DP per user, add-remove')
    """
    people = _people(data, options, "pp.learn_distribution({table}, epsilon=1)")
    shared: Options = {"neighbours": neighbours, "unit": people.unit, "domains": dict(people.features)}
    learner = distribution_learner(family, epsilon=epsilon, method=method, **shared, **options)
    return release_distribution(learner, people, ledger=ledger, not_before=not_before)


def distribution_learner(
    family: str = "histogram",
    *,
    epsilon: Rational,
    method: str = "auto",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    unit: Unit | str = Unit.USER,
    domains: Mapping[str, Domain | None] | None = None,
    **options: Any,
) -> DistributionLearner:
    """The learner that ``learn_distribution`` would run; ``domains`` are needed only for ``bins`` given as numbers."""
    if family not in FAMILIES:
        near = did_you_mean(family, FAMILIES)
        raise ParameterError(f"family must be one of {', '.join(FAMILIES)}, got {str(family)[:40]!r}{near}")
    methods = _METHODS.get(family, ("cover", "columns"))
    if method not in ("auto", *methods):
        raise ParameterError(
            f"method of family {family!r} must be auto, {' or '.join(methods)}, got {str(method)[:40]!r}"
            f"{did_you_mean(method, methods)}"
        )
    chosen = methods[0] if method == "auto" else method
    shared: Options = {
        "neighbours": one_of(Neighbours, neighbours, "neighbours"),
        "unit": one_of(Unit, unit, "unit"),
    }
    if family == "histogram":
        if method == "auto" and (
            shared["unit"] is Unit.ITEM or any(options.get(name) is not None for name in _COUNTED)
        ):
            chosen = "counts"
        if method == "auto" and _open(domains or {}, options.get("features")):
            chosen = "stable"
        if chosen in ("gaussian", "stable", "shuffle") and options.get("delta") is None:
            what = "an open column" if method == "auto" else f"method {chosen!r}"
            instead = "Categories([...]), values that are declared," if chosen == "stable" else "method 'average'"
            raise ParameterError(f"{what} needs delta above 0, such as 1e-6; {instead} needs none")
        kind = _HISTOGRAMS[chosen]
        given = _given(kind, options, f"family {family!r} with method {chosen!r}")
        if "bins" in given:
            columns = domains or {}
            given["bins"] = edges_of(bins_from_text(given["bins"], columns), columns, given.get("features"))
        histogram: DistributionLearner = kind(epsilon, **given, **shared)
        return histogram
    if family == "mean":
        mean: DistributionLearner = _mean(epsilon, chosen, options, shared)
        return mean
    if family != "gaussian":
        if chosen == "columns":
            return ColumnByColumn(epsilon, **_given(ColumnByColumn, options, "method 'columns'"), **shared)
        given = {"alpha": _COVER_ALPHA} | _given(CoverLearner, options, f"family {family!r}")
        cover = CoverLearner(family, epsilon, **given, **shared)
        return cover if method == "cover" else _searchable(cover, domains or {}, given)
    return _normal(epsilon, chosen, {name: value for name, value in options.items() if value is not None}, shared)


def _open(domains: Mapping[str, Domain | None], features: str | Sequence[str] | None) -> bool:
    """Whether a column is read whose values nobody can list."""
    named = domains if features is None else [features] if isinstance(features, str) else features
    return any((domain := domains.get(name)) is not None and domain.open for name in named)


def _searchable(cover: CoverLearner, domains: Mapping[str, Domain | None], given: Options) -> DistributionLearner:
    """The cover, or where it is too large to search what works at any size: columns one by one, which is said."""
    named = {name: domains.get(name) for name in (cover.features or domains)}
    known = {name: domain for name, domain in named.items() if domain is not None}
    if not known or len(known) < len(named):
        return cover
    try:
        cover.check_domains(known)
    except TooLargeError:
        kept = {name: given[name] for name in ("features", "max_records") if name in given}
        why = "the cover of all such laws is too large to search; method='columns' asks for this by name"
        return ColumnByColumn(cover.epsilon, because=why, neighbours=cover.neighbours, unit=cover.unit, **kept)
    return cover


def _mean(epsilon: Rational, method: str, options: Options, shared: Options) -> Any:
    kind = _MEANS[method]
    given = _given(kind, options, f"family 'mean' with method {method!r}")
    if method == "average":
        return kind(epsilon, **given, **shared)
    missing = [name for name in ("delta", "width") if name not in given]
    if missing:
        raise ParameterError(
            f"method {method!r} needs {' and '.join(missing)}: the release may fail with probability delta, and width "
            "declares how far apart the means of two people are expected to be (trimmed: in the column's own units; "
            "friendly: in units of its whole range); method 'average' needs neither"
        )
    if shared["neighbours"] is Neighbours.ADD_REMOVE and "slots" not in given:
        raise ParameterError(
            f"method {method!r} is proved for neighbours='replace' (the number of people is public); under add-remove "
            "declare slots, a public number of places that people fill"
        )
    return kind(epsilon, given.pop("delta"), **given, **shared)


def _normal(epsilon: Rational, method: str, given: Options, shared: Options) -> DistributionLearner:
    if "radius" not in given:
        raise ParameterError("family 'gaussian' needs radius: a public bound on how far the mean is from 0")
    wide = "max_variance" in given
    if method == "cover":
        ranges = {name: given.pop(name) for name in ("radius", "variance", "max_variance") if name in given}
        more = {"alpha": _COVER_ALPHA} | _given(CoverLearner, given, "method 'cover'")
        return CoverLearner(Gaussian(**ranges), epsilon, **more, **shared)
    if shared["unit"] is Unit.ITEM:
        given.setdefault("records_per_user", 1)
    if "records_per_user" not in given:
        raise ParameterError(
            "family 'gaussian' needs records_per_user: how many records every user is publicly promised to have"
        )
    if wide and "variance" in given:
        given["min_variance"] = given.pop("variance")
    kind: LearnerClass = CoarseToFineGaussian if wide else CoarseToFineMean
    learner: DistributionLearner = kind(
        epsilon, **_given(kind, given, "family 'gaussian'" + " with max_variance" * wide), **shared
    )
    return learner


# What both share


def _given(kind: LearnerClass, options: Mapping[str, object], what: str) -> Options:
    """Options that were given; one that the learner does not have is refused by name."""
    own = set(declared(kind)) - {"candidates", "family", "epsilon", "candidates_are", "neighbours", "unit"}
    if options.get("noise") is None and "delta" in own and not declared(kind)["delta"].required:
        own.remove("delta")  # only a noise of one's own may need it
    given = {name: value for name, value in options.items() if value is not None}
    strange = sorted(set(given) - own)
    if strange:
        kinds = next((group for group in (_HISTOGRAMS, _MEANS) if kind in group.values()), {})
        word = strange[0]
        using = [name for name, one in kinds.items() if word in (has := declared(one)) and has[word].required]
        near = did_you_mean(word, (*own, *_OF_CALL))
        other = f"; {word} goes with method={' or '.join(map(repr, using))}" if using else ""
        raise ParameterError(
            f"{what} has no option {', '.join(strange)}; it has {', '.join(sorted(own))}{near or other}"
        )
    return given


def _people(data: object, options: Options, call: str) -> Declared:
    """The people; what is said about their table is taken out of the options."""
    columns = options.pop("features", None) if is_people(data) else None  # of people: those that the learner reads
    people = open_people(data, fields_among(options), call=call, labelled=False)
    if not hasattr(people.schema, "unit"):
        raise TypeError(f"users must be a dataset such as UserData.from_frame(...), got {type(data).__name__}")
    if columns is not None:
        options["features"] = columns
    return people


def release_distribution(
    learner: DistributionLearner,
    users: Users | Declared,
    *,
    ledger: LedgerLike | None = None,
    not_before: float | None = None,
) -> Released:
    """Release; without a user column that is said loudly, and in the result."""
    warn_item_level(users, 4)
    return release_rule(learner, users, ledger=ledger, not_before=not_before)
