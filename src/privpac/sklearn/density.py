"""Private distributions as scikit-learn density estimators.

The guarantee covers ``fit`` and nothing else: ``score`` on private data is a release of its own, a scaler fitted on the
same table is outside, and every fit spends again.  ``sample`` and ``score_samples`` of the fitted distribution cost
nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from privpac.api.distributions import distribution_learner
from privpac.arrays import Array, Floats64
from privpac.data import Domain
from privpac.data.schema_file import Schema
from privpac.distributions.base import DistributionLearner
from privpac.distributions.cells import is_numeric
from privpac.distributions.histogram import equal_bins
from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.guarantee import Unit, positive_int
from privpac.ledger import LedgerLike
from privpac.rng import PublicCoins
from privpac.sklearn.estimator import ColumnLike, Domains, Matrix, PrivateEstimator, Tags

_STANDARD = (-4, 4)
"""The range of bins for a column without declared ends: that of a standardised quantity.  Never the range of the
data."""


class PrivateDensity(PrivateEstimator, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """What the density estimators share; concrete ones say which learner they run."""

    epsilon: Rational
    neighbours: str

    @abstractmethod
    def _learner(self, features: dict[str, Domain], unit: Unit) -> DistributionLearner:
        """The learner, from public declarations only."""

    # Fitting

    def fit(self, X: Matrix, y: ColumnLike = None, groups: ColumnLike = None) -> Self:
        """Learn the distribution of the rows; ``groups`` names the person of each row.

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
        PrivateDensity
            This estimator, fitted.

        Raises
        ------
        ParameterError, SchemaError
            Before anything is spent.
        """
        unit = self._unit(groups)
        columns = self._columns(X, reset=True)
        features = self._domains(list(columns))
        learner = self._learner(features, unit)
        learner.check_domains(features)
        self.released_ = self._release(learner, columns, None, groups, features)
        return self

    # Using

    @property
    def distribution_(self) -> Any:
        """The released distribution."""
        check_is_fitted(self, "released_")
        return self.released_.value

    def score_samples(self, X: Matrix) -> Floats64:
        """The log density (or log mass) of every row; ``-inf`` where the distribution has none."""
        check_is_fitted(self, "released_")
        return np.asarray(self.distribution_.score_samples(self._columns(X, reset=False)))

    def score(self, X: Matrix, y: ColumnLike = None) -> float:
        """The total log likelihood of rows that are public; on private rows this number is itself a release."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, public_seed: bytes | None = None) -> Array:
        """Synthetic rows; repeatable with a ``public_seed`` of 32 bytes.  Costs no budget."""
        check_is_fitted(self, "released_")
        count = positive_int(n_samples, "n_samples", maximum=1 << 32)
        drawn = self.distribution_.sample(count, None if public_seed is None else PublicCoins(public_seed))
        return np.asarray(drawn).reshape(count, -1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


class PrivateHistogram(PrivateDensity):
    """A histogram of each column with ``epsilon``-differential privacy per person; columns are treated as independent.

    Parameters
    ----------
    bins : int, edges, mapping or None
        A number of equal bins over ``range``, edges, ``{column: edges}``, or None for the mass of every declared value.
        Columns of categories and dates always get the mass of every value.
    range : pair of numbers, optional
        Public ends of the bins; None means those of the declared domain, or -4 to 4 (a standardised quantity) without
        one.  Values outside fall into the end bins.
    epsilon : number
        Privacy loss of one ``fit``.
    max_records : int, optional
        None: every person counts alike, however many rows they have.  A number: rows are counted, up to so many of a
        person; rows beyond it are left out.
    domains : mapping or sequence, optional
        What each column may hold, by name or by position: ``[(0, 99)]`` or ``{"age": "0:99"}``.  None means every
        finite number.
    stages : int or "auto"
        As for :func:`privpac.learn_distribution`.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    on_invalid : {"raise", "drop", "clamp"}, optional
        What happens to a row with a value outside its domain; "raise" if neither this nor a schema says it.
    ledger : path or BudgetLedger, optional
        A budget ledger to spend from; every ``fit`` spends again.
    unit : {"user", "item"}, optional
        Whom to protect; without it ``groups`` decide.
    schema : Schema or path, optional
        A schema or its file, instead of ``domains``.
    noise : class of noise, optional
        What is added to the sums, a class derived from ``privpac.mechanisms.Noise``; None means discrete Laplace.
    delta : number, optional
        How often the promise may fail, where ``noise`` needs that.

    Raises
    ------
    ParameterError, SchemaError
        From ``fit``, before anything is spent.

    Notes
    -----
    ``fit`` takes ``groups``, the person each row belongs to; without it single rows are protected and an
    ``ItemLevelWarning`` says so.

    Examples
    --------
    >>> import numpy as np
    >>> model = PrivateHistogram(bins=None, domains=[(1, 6)])
    >>> rolls = model.fit(np.array([[1], [6], [6], [2]]), groups=["a", "a", "b", "b"])
    >>> rolls.sample(3).shape, str(rolls.guarantee_)
    ((3, 1), '(1, 0)-DP per user, add-remove')
    """

    def __init__(
        self,
        bins: Any = 32,
        range: tuple[Rational, Rational] | None = None,
        epsilon: Rational = 1.0,
        max_records: int | None = None,
        domains: Domains = None,
        stages: int | str = "auto",
        neighbours: str = "add-remove",
        on_invalid: str | None = None,
        ledger: LedgerLike | None = None,
        unit: str | None = None,
        schema: Schema | str | Path | None = None,
        noise: Any = None,
        delta: Any = None,
    ) -> None:
        self.bins = bins
        self.range = range
        self.epsilon = epsilon
        self.max_records = max_records
        self.domains = domains
        self.stages = stages
        self.neighbours = neighbours
        self.on_invalid = on_invalid
        self.ledger = ledger
        self.unit = unit
        self.schema = schema
        self.noise = noise
        self.delta = delta

    def _learner(self, features: dict[str, Domain], unit: Unit) -> DistributionLearner:
        bins = self.bins
        if isinstance(bins, int) and not isinstance(bins, bool):
            bins = {name: self._equal(domain, bins) for name, domain in features.items() if is_numeric(domain)} or None
        elif isinstance(bins, Mapping) and not set(bins) <= set(features):
            raise ParameterError(f"bins name columns that X does not have; it has {list(features)}")
        options = {
            "max_records": self.max_records,
            "bins": bins,
            "stages": None if self.stages == "auto" else self.stages,
            "noise": self.noise,
            "delta": self.delta,
        }
        return distribution_learner("histogram", epsilon=self.epsilon, neighbours=self.neighbours, unit=unit, **options)

    def _equal(self, domain: Domain, count: int) -> Any:
        if self.range is not None and (not isinstance(self.range, (tuple, list)) or len(self.range) != 2):
            raise ParameterError("range must be two numbers, the public ends of the bins")
        return equal_bins(domain, count, _STANDARD if self.range is None and not domain.bounded else self.range)


class PrivateGaussian(PrivateDensity):
    """A normal law with ``epsilon``-differential privacy per person.

    Parameters
    ----------
    radius : number
        Public bound on every coordinate of the mean.
    variance : number
        The known variance, or the smallest possible one if ``max_variance`` is given.
    max_variance : number, optional
        The largest possible variance; the covariance is then learned too and ``records_per_user`` must be at least 4.
    records_per_user : int
        Rows every person is publicly promised to have.
    epsilon : number
        Privacy loss of one ``fit``.
    max_records : int, optional
        So many rows of a person are read.
    domains : mapping or sequence, optional
        What each column may hold, by name or by position; None means every finite number.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    on_invalid : {"raise", "drop", "clamp"}
        What happens to a row with a value outside its domain.
    ledger : path or BudgetLedger, optional
        A budget ledger to spend from; every ``fit`` spends again.
    unit : {"user", "item"}, optional
        Whom to protect; without it ``groups`` decide.

    Attributes
    ----------
    mean_, covariance_ : array
        The released numbers.

    Raises
    ------
    ParameterError, SchemaError
        From ``fit``, before anything is spent.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.arange(4000).reshape(-1, 1) % 3 - 1.0
    >>> model = PrivateGaussian(radius=5, epsilon=4).fit(rows, groups=np.arange(4000))
    >>> abs(float(model.mean_[0])) < 1, str(model.guarantee_)
    (True, '(4, 0)-DP per user, add-remove')
    """

    def __init__(
        self,
        radius: Rational = 10.0,
        variance: Rational = 1.0,
        max_variance: Rational | None = None,
        records_per_user: int = 1,
        epsilon: Rational = 1.0,
        max_records: int | None = None,
        domains: Domains = None,
        neighbours: str = "add-remove",
        on_invalid: str = "raise",
        ledger: LedgerLike | None = None,
        unit: str | None = None,
    ) -> None:
        self.radius = radius
        self.variance = variance
        self.max_variance = max_variance
        self.records_per_user = records_per_user
        self.epsilon = epsilon
        self.max_records = max_records
        self.domains = domains
        self.neighbours = neighbours
        self.on_invalid = on_invalid
        self.ledger = ledger
        self.unit = unit

    def _learner(self, features: dict[str, Domain], unit: Unit) -> DistributionLearner:
        names = ("radius", "variance", "max_variance", "records_per_user", "max_records")
        options = {name: getattr(self, name) for name in names}
        return distribution_learner("gaussian", epsilon=self.epsilon, neighbours=self.neighbours, unit=unit, **options)

    @property
    def mean_(self) -> Floats64:
        """The released mean of every column."""
        return np.array(self.distribution_.mean)

    @property
    def covariance_(self) -> Floats64:
        """The released (or declared) covariance."""
        return np.array(self.distribution_.covariance)
