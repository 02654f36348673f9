"""``pp.quantile``: a private median, any other quantile, or several, over a domain of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from privpac.api.learn import release_rule, warn_item_level
from privpac.api.tables import Data, DataFields, open_people, takes_tables
from privpac.distributions.quantiles import QuantileLearner, WalkQuantile
from privpac.errors import ParameterError, did_you_mean
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit
from privpac.result import Released

if TYPE_CHECKING:
    from privpac.ledger import LedgerLike

_METHODS = ("auto", "ranks", "walks")


@takes_tables
def quantile(
    data: Data,
    column: str | None = None,
    *,
    q: Rational | Sequence[Rational] = "1/2",
    epsilon: Rational,
    weight: str = "user",
    interval: bool = False,
    confidence: Rational = "0.95",
    max_records: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    method: str = "auto",
    delta: Rational = 0,
    public_n_users: int | None = None,
    ledger: LedgerLike | None = None,
    not_before: float | None = None,
    **table: Unpack[DataFields],
) -> Released:
    """The median, or other quantiles, of a column, with ``epsilon``-differential privacy per user.

    Parameters
    ----------
    data : people or table
        Private.  ``UserData`` or another engine's users; or a pandas, polars, Arrow, DuckDB or Spark table, a stream of
        Arrow, or the path of CSV or Parquet files (also several), declared by the next keywords.
    column : str, optional
        A column with a declared, ordered domain; the only one if left out.
    user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
        The declaration of a table, as in ``UserData.from_frame``; ``user=None`` makes every record a person of its own.
    q : rational or several
        Which quantiles, strictly between 0 and 1; ``"1/2"`` is the median.
    epsilon : rational
        Budget (public), shared equally by all numbers that are released.
    weight : {"user", "own", "one", "record"}
        Everybody counts the same and their records share it; or votes for their own quantile (the middle of both, where
        their records have two); or with one record; or every record counts, up to ``max_records`` of a person.
    interval : bool
        Release an interval around every quantile as well: three numbers instead of one.
    confidence : rational
        How sure all statements about ranks and intervals are at once.
    max_records : int, optional
        Read at most so many records of a person.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    method : {"auto", "ranks", "walks"}
        ``"ranks"``: one law over all values, and what ``"auto"`` means.  ``"walks"``: an interior point by hidden walks
        (``delta`` above 0, ``public_n_users``, one vote of each person), which needs more people for columns of at most
        2**64 values and fewer for far larger domains.
    delta : rational
        Only for ``"walks"``; ``"ranks"`` never spends it.
    public_n_users : int, optional
        Only for ``"walks"``: the declared number of people.
    ledger : BudgetLedger or path, optional
        Where the spend is written first.
    not_before : float, optional
        Seconds from the call before which nothing is returned, to hide the run time.
    engine, separator, header, names
        How files are read: an engine ("auto", "memory", "stream" or "spark"), and how a CSV file is written.

    Returns
    -------
    Released
        ``value`` is a :class:`~privpac.distributions.quantiles.Quantiles`: ``value`` (or ``values``),
        ``interval``, ``rank_error``.

    Raises
    ------
    ParameterError, SchemaError
        Before anything is spent; afterwards nothing is raised.  Nobody in the table is no error: the answer is noise.

    Examples
    --------
    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[k] for k in range(0, 1000, 2)], features={"age": pp.Integers(0, 999)},
    ...     labelled=False)
    >>> middle = pp.quantile(people, "age", epsilon=1).value
    >>> 400 < middle.value < 600, middle.rank_error < 10
    (True, True)

    From a table in one call:

    >>> import polars as pl
    >>> visits = pl.DataFrame({"id": [1, 1, 2, 3], "age": [30, 80, 20, 90]})
    >>> pp.quantile(visits, "age", user="id", features={"age": (0, 110)}, epsilon=1).guarantee.summary
    '(1, 0)-DP per user, add-remove'
    """
    people = open_people(data, table, call="pp.quantile({table}, epsilon=1)", labelled=False)
    learner = quantile_learner(
        column,
        q=q,
        epsilon=epsilon,
        unit=people.unit,
        weight=weight,
        interval=interval,
        confidence=confidence,
        max_records=max_records,
        neighbours=neighbours,
        method=method,
        delta=delta,
        public_n_users=public_n_users,
    )
    warn_item_level(people.schema)
    return release_rule(learner, people, ledger=ledger, not_before=not_before)


def quantile_learner(
    column: str | None = None,
    *,
    q: Rational | Sequence[Rational] = "1/2",
    epsilon: Rational,
    unit: Unit | str = Unit.USER,
    max_records: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    method: str = "auto",
    delta: Rational = 0,
    public_n_users: int | None = None,
    **options: Any,
) -> QuantileLearner:
    """The learner that :func:`quantile` runs."""
    asked = list(q) if isinstance(q, Sequence) and not isinstance(q, str) else q
    told: dict[str, Any] = {"neighbours": neighbours, "unit": unit, "max_records": max_records, "features": column}
    if method not in _METHODS:
        raise ParameterError(
            f"method must be one of {', '.join(_METHODS)}, got {str(method)[:40]!r}{did_you_mean(method, _METHODS)}"
        )
    if method != "walks":
        rational(delta, "delta", minimum=0, below=1)
        return QuantileLearner(epsilon, asked, **told, **options)
    if public_n_users is None:
        raise ParameterError("method 'walks' needs public_n_users: how many people there are, declared")
    return WalkQuantile(epsilon, asked, **told, delta=delta, public_n_users=public_n_users, **options)
