"""A private search among settings: one budget, whatever the number of settings.

``GridSearchCV`` fits every setting on every fold and publishes the scores: k settings and f folds cost k·f times the
budget, and the scores are released without any.  Here every setting learns once, on one part of the people, and the
other part chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from privpac.arrays import Array
from privpac.errors import ParameterError
from privpac.evaluation.select_model import SearchLearner
from privpac.evaluation.together import part_budget
from privpac.exact import Rational
from privpac.ledger import LedgerLike
from privpac.sklearn.classifier import PrivateRuleClassifier
from privpac.sklearn.estimator import ColumnLike, Matrix, PrivateModel, Tags

FIXED = (
    "epsilon",
    "delta",
    "ledger",
    "neighbours",
    "domains",
    "schema",
    "classes",
    "on_invalid",
    "on_invalid_label",
    "unit",
    "evaluate",
    "certify",
)
"""What belongs to the search and its people, not to a setting."""
MAX_SETTINGS = 256


class PrivateSearchCV(PrivateModel, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The best setting of a private classifier, with ``epsilon``-differential privacy per person for all of it.

    Parameters
    ----------
    estimator : PrivateRuleClassifier
        With the domains of the columns; its epsilon is not used, its delta is that of the whole search.
    param_grid : mapping of lists, or list of such mappings
        The settings, as for scikit-learn's ``GridSearchCV``: ``{"rule": ["stump", "interval"]}``.
    epsilon : rational
        Privacy loss of the whole search.
    share : rational
        Part of the people who choose; the others learn, each setting with an equal part of epsilon.
    ledger : path or BudgetLedger, optional
        A budget ledger; a fit spends once.
    unit : {"user", "item"}, optional
        As for :class:`PrivateRuleClassifier`.

    Attributes
    ----------
    best_params_ : dict
        The setting that was chosen.
    best_estimator_ : PrivateRuleClassifier
        The classifier with its rule.
    released_ : Released
        The result of the whole search; ``print(search)`` prints it.
    guarantee_ : Guarantee
        The promise of the whole search.
    rule_ : Rule
        The chosen rule.
    classes_, n_features_in_, feature_names_in_
        As scikit-learn defines them.

    Raises
    ------
    ParameterError, SchemaError
        From ``fit``, before anything is spent.

    Examples
    --------
    >>> import numpy as np
    >>> X, people = np.arange(1000).reshape(-1, 1) % 100, np.arange(1000) // 2
    >>> model = PrivateRuleClassifier(domains=[(0, 99)], classes=[False, True])
    >>> search = PrivateSearchCV(model, {"rule": ["threshold", "interval"]}, epsilon=4)
    >>> str(search.fit(X, X[:, 0] > 60, groups=people).guarantee_)
    '(4, 0)-DP per user, add-remove'
    """

    def __init__(
        self,
        estimator: PrivateRuleClassifier,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        epsilon: Rational = 1.0,
        share: Rational = "1/2",
        ledger: LedgerLike | None = None,
        unit: str | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.share = share
        self.ledger = ledger
        self.unit = unit

    def _settings(self) -> dict[str, dict[str, Any]]:
        if not isinstance(self.estimator, PrivateRuleClassifier):
            raise TypeError(f"estimator must be a PrivateRuleClassifier, got {type(self.estimator).__name__}")
        settings = list(ParameterGrid(self.param_grid))
        if not 1 <= len(settings) <= MAX_SETTINGS:
            raise ParameterError(f"a search takes 1 to {MAX_SETTINGS} settings, got {len(settings)}")
        strange = sorted({name for setting in settings for name in setting if name in FIXED})
        if strange:
            raise ParameterError(f"{strange[0]} belongs to the search or its people, not to the grid; leave it out")
        return {", ".join(f"{name}={value!r}" for name, value in one.items()) or "as given": one for one in settings}

    def fit(self, X: Matrix, y: ColumnLike, groups: ColumnLike = None) -> PrivateSearchCV:
        """Learn every setting on some people, choose among them on the others; ``groups`` names everybody's rows.

        Parameters
        ----------
        X : array, frame or list of rows
            The records; frames of pandas, polars and others are read by column name.
        y : array, series or list
            The label of each row.
        groups : array, series or list, optional
            The person of each row, by any id.  Without it single rows are protected.

        Returns
        -------
        PrivateSearchCV
            This estimator, fitted.

        Raises
        ------
        ParameterError, SchemaError
            Before anything is spent.
        """
        settings = self._settings()
        best = clone(self.estimator).set_params(ledger=self.ledger, unit=self.unit)
        unit, columns, target, features = best._read(X, y, groups)
        if len(best.classes_) > 2:
            raise ParameterError(f"a search chooses among rules of two labels, got {len(best.classes_)} classes")
        budget = part_budget(self.epsilon, best.neighbours)
        told = {"epsilon": budget.epsilon / len(settings), "neighbours": budget.neighbours}
        if best.delta != 0:
            told["delta"] = budget.part_delta(best.delta) / len(settings)
        learners = {
            name: clone(best).set_params(**setting, **told)._learner(features, unit)
            for name, setting in settings.items()
        }
        search = SearchLearner(learners, budget, self.share, max_records=best.max_records)
        released = best._release(search, columns, target, groups, features, best._meaning())
        best.released_ = best._labelled(released, y)
        self.best_params_ = settings[released.parameters["chosen"]]
        self.best_estimator_ = best.set_params(**self.best_params_)
        self.released_, self.classes_ = best.released_, best.classes_
        self.n_features_in_ = best.n_features_in_
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_
        return self

    @property
    def rule_(self) -> Any:
        """The chosen rule."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.rule_

    def predict(self, X: Matrix) -> Array:
        """What the chosen rule says, for each row.

        Parameters
        ----------
        X : array, frame or list of rows
            Columns as in ``fit``.

        Returns
        -------
        array of shape (n_rows,)
            Values of ``classes_``.
        """
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = True
        return tags
