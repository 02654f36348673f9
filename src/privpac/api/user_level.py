"""``pp.at_user_level``: somebody else's item-level algorithm, run so that people are protected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl

from privpac.api.learn import release_rule
from privpac.data import UserData
from privpac.errors import ParameterError
from privpac.evaluation.evaluator import column_values
from privpac.exact import Rational
from privpac.guarantee import Guarantee, Neighbours
from privpac.methods.base import Learner
from privpac.methods.user_level import STRATEGIES, ItemAlgorithm
from privpac.papers.few_examples_per_user.deletion import DeletionStability
from privpac.result import Released

if TYPE_CHECKING:
    from privpac.ledger import LedgerLike


def at_user_level(
    algorithm: Callable[[Any], Any],
    data: UserData,
    *,
    epsilon: Rational,
    delta: Rational = 0,
    item: Guarantee | None = None,
    strategy: str = "auto",
    max_records: int | None = None,
    ledger: LedgerLike | None = None,
    **options: Any,
) -> Released:
    """Run an algorithm that protects single records so that whole people are protected.

    Parameters
    ----------
    algorithm : callable
        Gets one table (polars; the data's columns in their own units, the label last) and returns anything.
    data : UserData
        Private.
    epsilon, delta : rational
        What is to be promised per person (public).
    item : Guarantee
        What the algorithm promises about one record, with ``unit="item"``: **your word**, which nothing here can check.
    strategy : {"auto", "sampling", "group", "deletion"}
        ``"sampling"``: one record of everybody, or of a secret sample of the people if the algorithm promises less than
        asked.  ``"group"``: as many records of everybody as the budget allows.  ``"auto"``: whichever lets the
        algorithm see more.  ``"deletion"``: no promise needed, but the algorithm must return a law (a mapping from
        values to weights), ``delta`` must be above 0, and a dozen people is a lot.
    max_records : int, optional
        For ``"group"``: no more records of a person than this.
    ledger : BudgetLedger or path, optional
        Where the spend is written first.
    **options
        Public parameters of the way that is taken.

    Returns
    -------
    Released
        ``value`` is what the algorithm returned; ``parameters`` say which strategy was taken and why.  If the algorithm
        raised, nothing is released (``outcome="none"``).

    Raises
    ------
    ParameterError, SchemaError, InfeasibleError
        Before anything is spent.

    Examples
    --------
    >>> import privpac as pp
    >>> from privpac.mechanisms.laplace import discrete_laplace
    >>> from privpac.rng import SystemRng
    >>> def noisy_count(table):
    ...     return len(table) + discrete_laplace("1/4", SystemRng())
    >>> visits = pp.UserData.from_users([[1, 2, 3], [4]] * 50, features={"x": pp.Integers(0, 9)}, labelled=False)
    >>> promised = pp.Guarantee("1/4", unit="item", neighbours="add-remove")
    >>> count = pp.at_user_level(noisy_count, visits, item=promised, epsilon=1)
    >>> count.parameters["strategy"]
    'group: up to 4 records of everybody, (1, 0)-DP per user, add-remove'
    """
    learner = user_level_learner(
        algorithm, epsilon=epsilon, delta=delta, item=item, strategy=strategy, max_records=max_records, **options
    )
    if isinstance(data, UserData):  # what is not is refused by the learner
        data.check_typed(data.features)
    return release_rule(learner, data, ledger=ledger)


def user_level_learner(
    algorithm: Callable[[Any], Any],
    *,
    epsilon: Rational,
    delta: Rational = 0,
    item: Guarantee | None = None,
    strategy: str = "auto",
    max_records: int | None = None,
    **options: Any,
) -> Learner:
    """The learner that :func:`at_user_level` runs; its ``guarantee`` and ``strategy`` are known before any data."""
    if strategy == "deletion":
        if item is not None or max_records is not None:
            raise ParameterError(
                "strategy 'deletion' needs no promise about records and no cap; leave item and max_records out"
            )

        def law_of(users: UserData) -> Any:
            return algorithm(_table(users))

        return DeletionStability(law_of, epsilon, delta, Neighbours.REPLACE, **options)
    if item is None:
        raise ParameterError(
            "item is missing: what the algorithm promises about one record, such as Guarantee(1, unit='item', "
            "neighbours='add-remove'); without any promise only strategy='deletion' remains, for a handful of people"
        )
    if options:
        raise ParameterError(
            f"unknown option {sorted(options)[0]!r}; strategies are {', '.join((*STRATEGIES, 'deletion'))}"
        )
    return ItemAlgorithm(
        algorithm, item, epsilon, delta, strategy_named=strategy, max_records=max_records, table=_table
    )


def _table(users: UserData) -> pl.DataFrame:
    """Records as the user wrote them, without ids."""
    columns = {name: column_values(users, name) for name in users.features}
    if users.labels is not None:
        columns[users.label_name or "label"] = pl.Series(users.labels)
    return pl.DataFrame(columns)
