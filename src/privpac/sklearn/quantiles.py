"""Private quantiles as a scikit-learn transformer: every value becomes its place among new people from the same
population.

The guarantee covers ``fit``; ``transform`` of anything by the released quantiles costs nothing.  In front of another
private estimator both spend: their epsilons add up.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from privpac.arrays import Floats64
from privpac.distributions.cells import is_numeric
from privpac.distributions.quantiles.quantile_learner import ColumnQuantiles
from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.guarantee import positive_int
from privpac.ledger import LedgerLike
from privpac.sklearn.estimator import ColumnLike, Domains, Matrix, PrivateEstimator, Tags

_MAX_QUANTILES = 1000


class PrivateQuantileTransformer(PrivateEstimator, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Map each column to its ranks by quantiles released with ``epsilon``-differential privacy per person.

    Parameters
    ----------
    n_quantiles : int
        So many quantiles of each column, equally spaced: 3 are the quartiles.  All of them share epsilon.
    epsilon : number
        Privacy loss of one ``fit``, shared equally by columns and quantiles.
    weight : {"user", "own", "one", "record"}
        Who counts how much, as for ``privpac.quantile``.
    max_records : int, optional
        So many rows of a person are read; ``weight="record"`` needs it.
    domains : mapping or sequence, optional
        What each column may hold, by name or by position: ``[(0, 99)]`` or ``{"age": "0:99"}``.  None means every
        finite number.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    on_invalid : {"raise", "drop", "clamp"}
        What happens to a row outside its domain.
    ledger : path or BudgetLedger, optional
        A budget ledger to spend from; every ``fit`` spends again.
    unit : {"user", "item"}, optional
        Whom to protect; without it ``groups`` decide.

    Attributes
    ----------
    quantiles_ : array of shape (n_quantiles, n_features)
        The released values.
    references_ : array of shape (n_quantiles,)
        Their ranks.

    Raises
    ------
    ParameterError, SchemaError
        From ``fit``, before anything is spent.

    Examples
    --------
    >>> import numpy as np
    >>> ages = np.arange(4000).reshape(-1, 1) % 100
    >>> model = PrivateQuantileTransformer(epsilon=4, domains=[(0, 99)]).fit(ages, groups=np.arange(4000))
    >>> abs(float(model.transform([[50]])[0, 0]) - 0.5) < 0.1, str(model.guarantee_)
    (True, '(4, 0)-DP per user, add-remove')
    """

    def __init__(
        self,
        n_quantiles: int = 9,
        epsilon: Rational = 1.0,
        weight: str = "user",
        max_records: int | None = None,
        domains: Domains = None,
        neighbours: str = "add-remove",
        on_invalid: str = "raise",
        ledger: LedgerLike | None = None,
        unit: str | None = None,
    ) -> None:
        self.n_quantiles = n_quantiles
        self.epsilon = epsilon
        self.weight = weight
        self.max_records = max_records
        self.domains = domains
        self.neighbours = neighbours
        self.on_invalid = on_invalid
        self.ledger = ledger
        self.unit = unit

    def fit(self, X: Matrix, y: ColumnLike = None, groups: ColumnLike = None) -> Self:
        """Learn the quantiles of every column; ``groups`` names the person of each row.

        Parameters
        ----------
        X : array, frame or list of rows
            The records; frames of pandas, polars and others are read by column name.
        y : None
            Ignored; there for pipelines.
        groups : array, series or list, optional
            The person of each row, by any id.  Without it single rows are protected.

        Returns
        -------
        PrivateQuantileTransformer
            This estimator, fitted.

        Raises
        ------
        ParameterError, SchemaError
            Before anything is spent.
        """
        unit = self._unit(groups)
        columns = self._columns(X, reset=True)
        features = self._domains(list(columns))
        count = positive_int(self.n_quantiles, "n_quantiles", maximum=_MAX_QUANTILES)
        strange = [name for name, domain in features.items() if not is_numeric(domain)]
        if strange:
            raise ParameterError(
                f"column {strange[0]!r} does not hold numbers, so its values have no ranks between them"
            )
        q = [Fraction(i, count + 1) for i in range(1, count + 1)]
        learner = ColumnQuantiles.of(
            features,
            self.epsilon,
            q,
            weight=self.weight,
            max_records=self.max_records,
            neighbours=self.neighbours,
            unit=unit,
        )
        learner.check_domains(features)
        self.released_ = self._release(learner, columns, None, groups, features)
        return self

    @property
    def references_(self) -> Floats64:
        """The ranks of the released values."""
        check_is_fitted(self, "released_")
        return np.array([float(one) for one in self.released_.value.columns[0].q])

    @property
    def quantiles_(self) -> Floats64:
        """The released values, a column for each of ``X``'s."""
        check_is_fitted(self, "released_")
        return np.column_stack([np.array(part.values, dtype=float) for part in self.released_.value.columns])

    def transform(self, X: Matrix) -> Floats64:
        """Ranks by straight lines between the quantiles; beyond the outermost ones those of the ends.

        Parameters
        ----------
        X : array, frame or list of rows
            Columns as in ``fit``.

        Returns
        -------
        array of shape (n_rows, n_features)
            Ranks between 0 and 1; a frame after ``set_output(transform="pandas")`` or ``"polars"``.
        """
        check_is_fitted(self, "released_")
        columns, ranks = self._columns(X, reset=False), self.references_
        out = []
        for values, known in zip(columns.values(), self.quantiles_.T):
            x = np.asarray(values, dtype=float)
            # Where quantiles coincide a value lies anywhere between their ranks: the middle of both readings.
            out.append((np.interp(x, known, ranks) - np.interp(-x, -known[::-1], -ranks[::-1])) / 2)
        return np.column_stack(out)

    def inverse_transform(self, X: Matrix) -> Floats64:
        """Values at given ranks, by the same lines.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Ranks between 0 and 1.

        Returns
        -------
        array of shape (n_rows, n_features)
            Values of the columns.
        """
        check_is_fitted(self, "released_")
        rows = np.atleast_2d(np.asarray(X, dtype=float))
        if rows.shape[1] != self.n_features_in_:
            raise ParameterError(f"{self.n_features_in_} columns were fitted, got {rows.shape[1]}")
        return np.column_stack([np.interp(p, self.references_, known) for p, known in zip(rows.T, self.quantiles_.T)])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.transformer_tags.preserves_dtype = []
        return tags
