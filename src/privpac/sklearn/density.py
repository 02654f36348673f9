"""Private distributions as scikit-learn density estimators.

The guarantee covers ``fit`` and nothing else: ``score`` on private data is a release of its own, a scaler fitted on the
same table is outside, and every fit spends again.  ``sample`` and ``score_samples`` of the fitted distribution cost
nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from privpac.api.distributions import distribution_learner, equal_bins
from privpac.data import Domain, Floats
from privpac.data.schema_file import Schema
from privpac.distributions.base import DistributionLearner
from privpac.distributions.cells import is_numeric
from privpac.errors import ParameterError
from privpac.guarantee import Unit, positive_int
from privpac.rng import PublicCoins
from privpac.sklearn.estimator import PrivateEstimator

__all__ = ["PrivateGaussian", "PrivateHistogram"]

Floats64 = NDArray[np.float64]
STANDARD = (-4, 4)
"""The range of bins for a column without declared ends: that of a standardised quantity.  Never the range of the
data."""


class PrivateDensity(PrivateEstimator, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """What the density estimators share; concrete ones say which learner they run."""

    epsilon: Any
    neighbours: str

    @abstractmethod
    def _learner(self, features: dict[str, Domain], unit: Unit) -> DistributionLearner:
        """The learner, from public declarations only."""

    # Fitting

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn the distribution of the rows; ``groups`` names the person of each row, ``y`` is ignored."""
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
        return self.released_.hypothesis

    def score_samples(self, X: Any) -> Floats64:
        """The log density (or log mass) of every row; ``-inf`` where the distribution has none."""
        check_is_fitted(self, "released_")
        return np.asarray(self.distribution_.score_samples(self._columns(X, reset=False)))

    def score(self, X: Any, y: Any = None) -> float:
        """The total log likelihood of rows that are public; on private rows this number is itself a release."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, public_seed: bytes | None = None) -> NDArray[Any]:
        """Synthetic rows; repeatable with a ``public_seed`` of 32 bytes.  Costs no budget."""
        check_is_fitted(self, "released_")
        count = positive_int(n_samples, "n_samples", maximum=1 << 32)
        drawn = self.distribution_.sample(count, None if public_seed is None else PublicCoins(public_seed))
        return np.asarray(drawn).reshape(count, -1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


class PrivateHistogram(PrivateDensity):
    """A histogram of each column with ``epsilon``-differential privacy per person; columns are treated as independent.

    Parameters ---------- bins : a number of equal bins over ``range``, edges, ``{column: edges}``, or None for the mass
    of every declared value.
        Columns of categories and dates always get the mass of every value.
    range : public ends of the bins; None means those of the declared domain, or -4 to 4 (a standardised quantity)
    without one.
        Values outside fall into the end bins.
    epsilon : privacy loss of one ``fit``. max_records : None: every person counts alike, however many rows they have.
    A number: rows are counted, up to so many of a person;
        rows beyond it are left out.
    domains : public domain of each column, by name or by position; None means every finite number.
    schema : a schema or its file, instead of ``domains``.
    stages, neighbours, on_invalid, ledger : as for ``privpac.learn_distribution`` and ``PrivateRuleClassifier``.

    ``fit`` takes ``groups``, the person each row belongs to; without it single rows are protected and an
    ``ItemLevelWarning`` says so.

    >>> import numpy as np
    >>> from privpac.data import Integers
    >>> model = PrivateHistogram(bins=None, domains=[Integers(1, 6)])
    >>> rolls = model.fit(np.array([[1], [6], [6], [2]]), groups=["a", "a", "b", "b"])
    >>> rolls.sample(3).shape, str(rolls.guarantee_)
    ((3, 1), '(1, 0)-DP per user, add-remove')
    """

    def __init__(
        self,
        bins: Any = 32,
        range: tuple[Any, Any] | None = None,
        epsilon: Any = 1.0,
        max_records: int | None = None,
        domains: Mapping[Any, Domain] | Sequence[Domain] | None = None,
        stages: int | str = "auto",
        neighbours: str = "add-remove",
        on_invalid: str | None = None,
        ledger: str | Path | None = None,
        unit: str | None = None,
        schema: Schema | str | Path | None = None,
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
        }
        return distribution_learner("histogram", epsilon=self.epsilon, neighbours=self.neighbours, unit=unit, **options)

    def _equal(self, domain: Domain, count: int) -> Any:
        if self.range is not None and (not isinstance(self.range, (tuple, list)) or len(self.range) != 2):
            raise ParameterError("range must be two numbers, the public ends of the bins")
        return equal_bins(domain, count, STANDARD if self.range is None and isinstance(domain, Floats) else self.range)


class PrivateGaussian(PrivateDensity):
    """A normal law with ``epsilon``-differential privacy per person.

    Parameters ---------- radius : public bound on every coordinate of the mean. variance : the known variance, or the
    smallest possible one if ``max_variance`` is given. max_variance : the largest possible variance; the covariance is
    then learned too and ``records_per_user`` must be at least 4. records_per_user : rows every person is publicly
    promised to have. epsilon, max_records, domains, neighbours, on_invalid, ledger : as for ``PrivateHistogram``;
    ``max_records`` may be None.

    Attributes
    ----------
    mean_, covariance_ : the released numbers.
    """

    def __init__(
        self,
        radius: Any = 10.0,
        variance: Any = 1.0,
        max_variance: Any = None,
        records_per_user: int = 1,
        epsilon: Any = 1.0,
        max_records: int | None = None,
        domains: Mapping[Any, Domain] | Sequence[Domain] | None = None,
        neighbours: str = "add-remove",
        on_invalid: str = "raise",
        ledger: str | Path | None = None,
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
