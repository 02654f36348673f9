"""A private rule as a scikit-learn classifier.

The guarantee covers ``fit`` of this estimator and nothing else.  A scaler fitted on the same table in a ``Pipeline``,
``score`` and ``cross_val_score`` on private data are outside it: every fold of a cross-validation spends again, and a
measured score is itself a release.  Use data-free steps before it, and score on public data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d, validate_data

from privpac.api import learner_for
from privpac.concepts.base import ConceptClass
from privpac.concepts.trees import VC1Tree, parse_tree
from privpac.data import Domain
from privpac.errors import ParameterError, SchemaError
from privpac.evaluation import Certificate, Evaluation
from privpac.guarantee import Unit
from privpac.learners.registry import METHODS, named_class, takes
from privpac.sklearn.estimator import PrivateEstimator

__all__ = ["PrivateRuleClassifier"]


def _has_chances(model: Any) -> bool:
    return bool(getattr(model.rule_, "bands", ()))


class PrivateRuleClassifier(PrivateEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn one readable rule with ``epsilon``-differential privacy per person.

    Parameters ---------- rule : name of the class of rules: "stump" (default), "threshold", "interval", "rectangle",
    "conjunction", ..., "tree". epsilon : privacy loss of one ``fit``. domains : public domain of each column, by name
    or by position; None means every finite number. method, setting, neighbours, max_records, public_n_users : as for
    ``privpac.learn``. classes : the two label values, if public; None reads them off ``y`` and treats them as public
    schema. on_invalid : "raise", "drop" or "clamp" values outside their domain. ledger : path of a budget ledger to
    spend from; every ``fit`` spends again. tree : for ``rule="tree"``: a tree such as ``PrefixTree(8)``, or its text
    such as "path:/"; columns may then hold texts. delta : for ``rule="tree"`` and ``rule="card"``: the probability with
    which the promise may fail; an open vocabulary and a points card need one above 0. evaluate : share of the people,
    such as "1/5", set aside to measure how good the rule is; one guarantee covers both. certify : with ``evaluate``:
    share of epsilon, such as "1/4", for how far from the best rule of its kind it can be. calibrate : for
    ``rule="card"``: a share of the budget, such as "1/10", for ``predict_proba``.

    ``fit`` takes ``groups``, the person each row belongs to.  Without it single rows are protected, not people: an
    ``ItemLevelWarning`` says so, and ``guarantee_`` is "per item".

    Attributes ---------- guarantee_, rule_, released_ : the promise, the rule, and both with the public parameters, as
    ``privpac.learn`` returns them. evaluation_, certificate_ : what ``evaluate`` and ``certify`` measured.
    classes_, n_features_in_, feature_names_in_ : as scikit-learn defines them.

    >>> import numpy as np
    >>> X = np.array([[1.0], [2.0], [8.0], [9.0]])
    >>> model = PrivateRuleClassifier(epsilon=1).fit(X, [0, 0, 1, 1], groups=["a", "b", "c", "d"])
    >>> str(model.guarantee_)
    '(1, 0)-DP per user, add-remove'
    """

    def __init__(
        self,
        rule: str = "stump",
        epsilon: Any = 1.0,
        domains: Mapping[Any, Domain] | Sequence[Domain] | None = None,
        method: str = "auto",
        setting: str = "agnostic",
        neighbours: str = "add-remove",
        max_records: int | None = None,
        public_n_users: int | None = None,
        classes: Sequence[Any] | None = None,
        on_invalid: str = "raise",
        ledger: str | Path | None = None,
        tree: VC1Tree | str | None = None,
        delta: Any = 0,
        records_per_user: int | None = None,
        evaluate: Any = None,
        certify: Any = None,
        calibrate: Any = None,
    ) -> None:
        self.rule = rule
        self.epsilon = epsilon
        self.domains = domains
        self.method = method
        self.setting = setting
        self.neighbours = neighbours
        self.max_records = max_records
        self.public_n_users = public_n_users
        self.classes = classes
        self.on_invalid = on_invalid
        self.ledger = ledger
        self.tree = tree
        self.delta = delta
        self.records_per_user = records_per_user
        self.evaluate = evaluate
        self.certify = certify
        self.calibrate = calibrate

    # Fitting

    def fit(self, X: Any, y: Any, groups: Any = None) -> PrivateRuleClassifier:
        """Learn the rule; ``groups`` names the person of each row."""
        self._check_tree()
        columns = self._columns(X, reset=True)
        target = self._labels(y, len(next(iter(columns.values()))))
        concept, features = self._concept(list(columns))
        learner = learner_for(
            concept,
            epsilon=self.epsilon,
            method=self.method,
            setting=self.setting,
            neighbours=self.neighbours,
            unit=Unit.ITEM if groups is None else Unit.USER,
            max_records=self.max_records,
            public_n_users=self.public_n_users,
            records_per_user=self.records_per_user,
            evaluate=self.evaluate,
            certify=self.certify,
            calibrate=self.calibrate,
            # None where the method has no use for one and none was meant; a delta that was meant is refused with the
            # others.
            delta=self.delta if takes(self.method, "delta") or self.delta != 0 else None,
        )
        released = self._release(learner, columns, target, groups, features)
        # "Nothing" is a covered output: the fit stands, and predict says that there is no rule.
        self.released_ = (
            replace(released, hypothesis=replace(released.hypothesis, label=self._label_name(y)))
            if released
            else released
        )
        return self

    def _check_tree(self) -> None:
        """The rule "tree" and a tree come together; a delta goes with a tree, a card, or a method that takes one."""
        wanted = self.rule in ("tree", "branch")
        if wanted and self.tree is None:
            raise ParameterError("rule='tree' needs tree=, such as PrefixTree(8) or 'path:/'")
        if self.tree is not None and not wanted:
            raise ParameterError(f"tree= goes with rule='tree', got rule={self.rule!r}")
        method = self.rule if self.method == "auto" and self.rule in METHODS else self.method
        if not wanted and self.delta != 0 and not takes(method, "delta"):
            approximate = ", ".join(name for name in METHODS if takes(name, "delta"))
            raise ParameterError(
                f"delta= goes with rule='tree', rule='card' or method= one of {approximate}; here none is needed, "
                "leave it out"
            )

    def _concept(self, names: list[str]) -> tuple[ConceptClass | VC1Tree, dict[str, Domain]]:
        """The class of rules on the columns of X, with their domains."""
        if self.tree is None:
            features = self._domains(names)
            return named_class(self.rule, features, self.method), features
        tree = parse_tree(self.tree) if isinstance(self.tree, str) else self.tree
        if not isinstance(tree, VC1Tree):
            raise TypeError(f"tree must be a VC1Tree such as PrefixTree(8), or its text, got {type(tree).__name__}")
        own = list(tree.declared().values())
        if len(own) != len(names):
            raise ParameterError(f"this tree reads {len(own)} columns, X has {len(names)}")
        if self.domains is None:
            features = {name: domain for name, domain in zip(names, own) if domain is not None}
        else:
            features = self._domains(names)
        if len(features) < len(names):
            raise ParameterError("this tree has no domain yet: declare domains=, or one in the tree")
        return tree.named(names, features), features

    def _columns(self, X: Any, *, reset: bool) -> dict[str, Any]:
        """Columns by name; those of a tree are taken as they are, for they may be texts."""
        if self.tree is None:
            return super()._columns(X, reset=reset)
        if hasattr(X, "columns"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if reset and X.shape[0] < 1:
                raise ValueError(
                    f"Found array with 0 sample(s) while a minimum of 1 is required by {type(self).__name__}."
                )
            return {str(name): X[name] for name in X.columns}
        array = validate_data(self, X, reset=reset, dtype=None, ensure_min_samples=1)
        return {f"x{i}": np.ascontiguousarray(array[:, i]) for i in range(array.shape[1])}

    @property
    def evaluation_(self) -> Evaluation:
        """How good the rule is on people it was not learned from; needs ``evaluate=``."""
        found: Evaluation = self._found("evaluation", "evaluate='1/5'")
        return found

    @property
    def certificate_(self) -> Certificate:
        """How far from the best rule of its kind it is, at most; needs ``certify=``."""
        found: Certificate = self._found("certificate", "evaluate='1/5' and certify='1/4'")
        return found

    def _found(self, name: str, wanted: str) -> Any:
        check_is_fitted(self, "released_")
        if name not in self.released_.findings:
            raise AttributeError(f"no {name} was asked for, or nothing was released: fit with {wanted}")
        return self.released_.findings[name]

    @property
    def rule_(self) -> Any:
        """The released rule; ``str(rule_)`` reads it in the table's units."""
        check_is_fitted(self, "released_")
        return self.released_.hypothesis

    def _labels(self, y: Any, n_rows: int) -> NDArray[np.uint8]:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        if len(labels) != n_rows:
            raise ValueError(f"X has {n_rows} rows but y has {len(labels)}")
        self.classes_ = np.unique(labels) if self.classes is None else np.asarray(self.classes)
        if self.classes is not None and (self.classes_.shape != (2,) or self.classes_[0] == self.classes_[1]):
            raise ParameterError(
                "classes must be two different label values, the one that the rule is about last, such as ['no', 'yes']"
            )
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass: {len(self.classes_)} "
                "classes"
            )
        if not bool(np.isin(labels, self.classes_).all()):
            raise SchemaError("y holds labels that are not among the declared classes")
        return (
            (labels == self.classes_[-1]).astype(np.uint8)
            if len(self.classes_) == 2
            else np.zeros(n_rows, dtype=np.uint8)
        )

    def _label_name(self, y: Any) -> str:
        """What a prediction of the last class is called: that class, or the column's name for labels 0 and 1."""
        if len(self.classes_) < 2:
            return "1"
        last = str(self.classes_[-1])
        return str(getattr(y, "name", None) or "1") if last in ("1", "1.0", "True") else last

    # Using

    def predict(self, X: Any) -> NDArray[Any]:
        """The class the rule says, for each row; values outside the domain are clamped."""
        check_is_fitted(self, "released_")
        said = self.released_.predict(self._columns(X, reset=False))
        answer: NDArray[Any] = self.classes_[np.minimum(said, len(self.classes_) - 1)]
        return answer

    @available_if(_has_chances)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The chances of both classes, where the rule carries them: a points card learned with ``calibrate``."""
        chances: NDArray[np.float64] = self.released_.hypothesis.predict_proba(self._columns(X, reset=False))
        return chances

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = True
        return tags
