"""A private rule as a scikit-learn classifier.

The guarantee covers ``fit`` of this estimator and nothing else.  A scaler fitted on the same table in a ``Pipeline``,
``score`` and ``cross_val_score`` on private data are outside it: every fold of a cross-validation spends again, and a
measured score is itself a release.  Use data-free steps before it, and score on public data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve
from narwhals.dependencies import is_into_series
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d

from privpac.api.learn import prepare
from privpac.arrays import Array
from privpac.data import Domain
from privpac.data.columns import column, text
from privpac.data.schema import OnInvalidLabel
from privpac.data.schema_file import Schema
from privpac.errors import ParameterError, SchemaError
from privpac.evaluation import Evaluation, EvaluationCertificate
from privpac.exact import Rational
from privpac.guarantee import Unit, one_of
from privpac.ledger import LedgerLike
from privpac.methods.base import Learner
from privpac.methods.registry import METHODS, class_of_rules, takes
from privpac.result import Released
from privpac.rules.base import ConceptClass, relabelled
from privpac.rules.hierarchies import VC1Tree, parse_tree
from privpac.rules.scorecards import Scorecards
from privpac.rules.small_trees import SmallTrees
from privpac.sklearn.estimator import ColumnLike, Domains, Matrix, PrivateEstimator, Tags, is_listed

LABELS_OF_Y = (
    "without classes= the labels are read from y, outside the guarantee: one person can add a label, which classes_ "
    "and a saved file then show; declare them, the one that the rule is about last: classes=['no', 'yes']"
)


def _has_chances(model: Any) -> bool:
    check_is_fitted(model, "released_")
    return bool(model.released_.has_chances)


class PrivateRuleClassifier(PrivateEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn one readable rule with ``epsilon``-differential privacy per person.

    Parameters
    ----------
    rule : str, class of rules, or None
        A name such as "stump", "interval" or "conjunction" ("tree" with ``tree=``), or a class such as
        ``pp.Stumps()``; None is a cut (or category) for one column, the best one of two to four, a small
        tree of more.
    epsilon : int, float, str or Fraction
        Privacy loss of one ``fit``.
    domains : mapping or sequence, optional
        What each column may hold, by name or by position, in any form that ``features=`` of :func:`privpac.learn`
        takes: ``{"age": (0, 99), "sex": ["f", "m"], "bp": "50:250"}``.  None means every finite number.
    method : str
        A name that :func:`privpac.list_methods` lists, or "auto".
    setting : {"agnostic", "realizable"}
        "realizable" where some rule makes no mistake at all.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    max_records : int, optional
        So many rows of a person are read; None reads all.
    public_n_users : int, optional
        The number of people, where that is public.
    classes : sequence, optional
        The two label values, the one that the rule is about last, or more of them for small trees and scorecards.  None
        reads them off ``y``, outside the guarantee: one person can add a label.  A ``WeakGuaranteeWarning`` says so,
        and a saved result carries it.
    on_invalid : {"raise", "drop", "clamp"}, optional
        What happens to values outside their domain; "raise" if neither this nor a schema says it.
    ledger : path or BudgetLedger, optional
        A budget ledger to spend from; every ``fit`` spends again.
    tree : tree or str, optional
        For ``rule="tree"``: a tree such as ``PrefixTree(8)``, or its text such as "path:/"; columns may then hold
        texts.
    delta : int, float, str or Fraction
        For ``rule="tree"`` and ``rule="scorecard"``: the probability with which the promise may fail; an open
        vocabulary and a scorecard need one above 0.
    records_per_user : int, optional
        The number of rows of each person, where that is public.
    people : str, optional
        As for :func:`privpac.learn`.
    unit : {"user", "item"}, optional
        "user" insists on groups, "item" declares that every row is a person of its own.  None takes what ``fit``
        gets, warns without groups, and refuses inside a cross-validation or search to which no groups came.
    evaluate : str, Fraction or True, optional
        Share of the people, such as "1/3" (True), set aside to measure how good the rule is; one guarantee covers both.
    certify : str or Fraction, optional
        With ``evaluate``: share of epsilon, such as "1/4", for how far from the best rule of its kind it can be.
    calibrate : str or Fraction, optional
        For ``rule="small-tree"``: share of epsilon, such as "1/5", for ``predict_proba`` from the people it was learned
        from.  For ``rule="scorecard"``: share of the budget, such as "1/10", for rates that check its chances.
    schema : Schema or path, optional
        A schema (``privpac domains`` writes one) with the domains of the columns of X, what happens to invalid and
        missing values, and which label is predicted; instead of ``domains``.
    on_invalid_label : {"raise", "drop"}, optional
        What happens to rows whose label is missing or none of the declared ``classes``; "raise" if neither this nor a
        schema says it.

    Attributes
    ----------
    released_ : Released
        The result, as :func:`privpac.learn` returns it; ``print(estimator)`` prints it.
    rule_ : Rule
        The rule.
    guarantee_ : Guarantee
        The promise.
    evaluation_ : Evaluation
        What ``evaluate`` measured.
    certificate_ : EvaluationCertificate
        What ``certify`` measured.
    classes_, n_features_in_, feature_names_in_
        As scikit-learn defines them.

    Raises
    ------
    ParameterError, SchemaError
        From ``fit``, before anything is spent.

    Notes
    -----
    ``fit`` takes ``groups``, the person each row belongs to, and asks scikit-learn's metadata routing for them.

    Examples
    --------
    >>> import numpy as np
    >>> people = np.repeat(np.arange(400), 5)  # five rows each
    >>> X = np.arange(2000).reshape(-1, 1) % 100
    >>> y = np.where(X[:, 0] > 60, "ill", "well")
    >>> model = PrivateRuleClassifier(epsilon=20, domains=[(0, 99)], classes=["well", "ill"])
    >>> print(model.fit(X, y, groups=people).rule_)
    ill when x0 > 60
    >>> model.predict([[70], [50]]).tolist(), str(model.guarantee_)
    (['ill', 'well'], '(20, 0)-DP per user, add-remove')
    """

    def __init__(
        self,
        rule: str | ConceptClass | None = None,
        epsilon: Rational = 1.0,
        domains: Domains = None,
        method: str = "auto",
        setting: str = "agnostic",
        neighbours: str = "add-remove",
        max_records: int | None = None,
        public_n_users: int | None = None,
        classes: Sequence[Any] | None = None,
        on_invalid: str | None = None,
        ledger: LedgerLike | None = None,
        tree: VC1Tree | str | None = None,
        delta: Rational = 0,
        records_per_user: int | None = None,
        people: str | None = None,
        unit: str | None = None,
        evaluate: Rational | None = None,
        certify: Rational | None = None,
        calibrate: Rational | None = None,
        schema: Schema | str | Path | None = None,
        on_invalid_label: str | None = None,
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
        self.people = people
        self.unit = unit
        self.evaluate = evaluate
        self.certify = certify
        self.calibrate = calibrate
        self.schema = schema
        self.on_invalid_label = on_invalid_label

    # Fitting

    def fit(self, X: Matrix, y: ColumnLike, groups: ColumnLike = None) -> PrivateRuleClassifier:
        """Learn the rule; ``groups`` names the person of each row.

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
        PrivateRuleClassifier
            This estimator, fitted.

        Raises
        ------
        ParameterError, SchemaError
            Before anything is spent.
        """
        unit, columns, target, features = self._read(X, y, groups)
        learner = self._learner(features, unit)
        released = self._release(learner, columns, target, groups, features, self._meaning())
        self.released_ = self._labelled(released, y)
        return self

    def _read(
        self, X: Matrix, y: ColumnLike, groups: ColumnLike
    ) -> tuple[Unit, dict[str, ColumnLike], ColumnLike, dict[str, Domain]]:
        """Who is protected, the columns, the labels, and the domains."""
        unit = self._unit(groups)
        self._check_tree()
        self._check_classes()
        columns = self._columns(X, reset=True)
        target = self._labels(y, len(next(iter(columns.values()))))
        return unit, columns, target, self._features(list(columns))

    def _learner(self, features: dict[str, Domain], unit: Unit) -> Learner:
        """What ``fit`` runs, from public declarations only."""
        told: dict[str, Any] = {
            "epsilon": self.epsilon,
            "method": self.method,
            "setting": self.setting,
            "neighbours": self.neighbours,
            "unit": unit,
            "max_records": self.max_records,
            "public_n_users": self.public_n_users,
            "records_per_user": self.records_per_user,
            "people": self.people,
            "evaluate": self.evaluate,
            "certify": self.certify,
            "calibrate": self.calibrate,
            # None where the method has no use for one and none was meant; a delta that was meant is refused with the
            # others.
            "delta": self.delta if takes(self.method, "delta") or self.delta != 0 else None,
        }
        if self.rule is None:
            return prepare(None, features=features, **told).learner
        return prepare(self._concept(features), **told).learner

    def _labelled(self, released: Released, y: ColumnLike) -> Released:
        """The result with the name of what the rule predicts; "nothing" is a covered output, and predict says so."""
        if not released:
            return released
        return evolve(released, value=relabelled(released.value, self._label_name(y)))

    def _check_tree(self) -> None:
        """The rule "tree" and a tree come together; a delta goes with a tree, a scorecard, or a method that takes
        one."""
        wanted = self.rule in ("tree", "branch")
        if wanted and self.tree is None:
            raise ParameterError("rule='tree' needs tree=, such as PrefixTree(8) or 'path:/'")
        if self.tree is not None and not wanted:
            raise ParameterError(f"tree= goes with rule='tree', got rule={self.rule!r}")
        if not wanted and self.delta != 0 and not self._takes_delta():
            approximate = ", ".join(name for name in METHODS if takes(name, "delta"))
            raise ParameterError(
                f"delta= goes with rule='tree', rule='scorecard' or method= one of {approximate}; here none is needed, "
                "leave it out"
            )

    def _takes_delta(self) -> bool:
        """Whether what is learned may have a use for a delta; without a rule a wide table may."""
        own = self.rule if isinstance(self.rule, str) else getattr(self.rule, "own_method", None)
        return self.rule is None or takes(own if self.method == "auto" and own in METHODS else self.method, "delta")

    def _features(self, names: list[str]) -> dict[str, Domain]:
        """The columns of X with their domains, those of the tree where it has some."""
        if self.tree is None or super()._declares():
            return self._domains(names)
        own = list(self._tree().declared().values())
        if len(own) != len(names):
            raise ParameterError(f"this tree reads {len(own)} columns, X has {len(names)}")
        features = {name: domain for name, domain in zip(names, own) if domain is not None}
        if len(features) < len(names):
            raise ParameterError("this tree has no domain yet: declare domains=, or one in the tree")
        return features

    def _tree(self) -> VC1Tree:
        tree = parse_tree(self.tree) if isinstance(self.tree, str) else self.tree
        if not isinstance(tree, VC1Tree):
            raise TypeError(f"tree must be a VC1Tree such as PrefixTree(8), or its text, got {type(tree).__name__}")
        return tree

    def _concept(self, features: dict[str, Domain]) -> ConceptClass | VC1Tree:
        """The class of rules on these columns."""
        assert self.rule is not None
        if self.tree is None:
            return class_of_rules(self.rule, features, self.method)
        tree = self._tree()
        if len(tree.declared()) != len(features):
            raise ParameterError(f"this tree reads {len(tree.declared())} columns, X has {len(features)}")
        return tree.named(list(features), features)

    def _declares(self) -> bool:
        """A tree declares its columns as well."""
        return super()._declares() or self.tree is not None

    def _width(self) -> int | None:
        return len(self._tree().declared()) if self.tree is not None else super()._width()

    @property
    def evaluation_(self) -> Evaluation:
        """How good the rule is on people it was not learned from; needs ``evaluate=``."""
        found: Evaluation = self._found("evaluation", "evaluate='1/5'")
        return found

    @property
    def certificate_(self) -> EvaluationCertificate:
        """How far from the best rule of its kind it is, at most; needs ``certify=``."""
        found: EvaluationCertificate = self._found("certificate", "evaluate='1/5' and certify='1/4'")
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
        return self.released_.value

    @property
    def _many(self) -> bool:
        """Whether the rules may name more than two labels."""
        kind = (
            {"small-tree": SmallTrees, "scorecard": Scorecards}.get(self.rule)
            if isinstance(self.rule, str)
            else self.rule
        )
        return bool(getattr(kind, "takes_classes", False))

    def _labels(self, y: ColumnLike, n_rows: int) -> ColumnLike:
        """The labels as :meth:`_meaning` reads them; sets ``classes_``."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        declared = self._declared_classes()
        labels: Any
        if declared is not None and (is_listed(y) or is_into_series(y)):
            labels = list(y) if is_listed(y) else y
        else:
            labels = column_or_1d(y, warn=True)
        if declared is None:
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
        if len(labels) != n_rows:
            raise ValueError(f"X has {n_rows} rows but y has {len(labels)}")
        self.classes_ = self._found_classes(labels) if declared is None else np.asarray(declared)
        if len(self.classes_) > 2 and not self._many:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass: {len(self.classes_)} "
                "classes"
            )
        if declared is not None or len(self.classes_) > 2:
            return labels
        # As scikit-learn compares labels: any value that equals the last one.
        return (labels == self.classes_[-1]).astype(np.uint8) if len(self.classes_) == 2 else np.zeros(n_rows, np.uint8)

    def _meaning(self) -> dict[str, Any]:
        """How the library reads the labels: every one alone, by its text."""
        names, policy = self._class_names(), self._label_policy()
        if self._declared_classes() is None and len(names) <= 2:
            return {}
        for twins in (("0", "1"), ("false", "true")):
            if set(names) == set(twins):  # a boolean is the number that it is in Python, and the other way round
                last = twins.index(names[-1])
                known = {"0": 1 - last, "1": last, "false": 1 - last, "true": last}
                return {"label_map": known, "on_invalid_label": policy}
        return {"classes": names, "on_invalid_label": policy}

    def _class_names(self) -> list[str]:
        """The texts of the classes, in order."""
        declared = self._declared_classes()
        names: list[str] = text(column(self.classes_.tolist() if declared is None else list(declared), "y")).to_list()
        return names

    def _label_policy(self) -> str:
        said = self.on_invalid_label
        if said is None and self.schema is not None:
            said = self._schema().on_invalid_label
        return str(one_of(OnInvalidLabel, said or OnInvalidLabel.RAISE, "on_invalid_label"))

    def _check_classes(self) -> None:
        """What was declared about labels, before any is looked at."""
        policy, declared = self._label_policy(), self._declared_classes()
        if declared is None:
            if policy == OnInvalidLabel.DROP and self.on_invalid_label is not None:
                raise ParameterError(
                    "on_invalid_label='drop' needs classes=: without them every value of y is a label, and none invalid"
                )
            return
        names = self._class_names()
        listed = None not in names and len(set(names)) == len(names) >= 2 and np.ndim(np.asarray(declared)) == 1
        if not listed or (self.classes is not None and len(names) > 2 and not self._many):
            raise ParameterError(
                "classes must be two different label values, the one that the rule is about last, such as ['no', "
                "'yes']; more of them with rule='small-tree' or rule='scorecard'"
            )

    def _declared_classes(self) -> Sequence[Any] | None:
        """The label values as declared here or in the schema, None where ``y`` must tell them."""
        return self.classes if self.classes is not None or self.schema is None else self._schema().classes

    def _outside(self) -> list[str]:
        return [*super()._outside(), *([] if self._declared_classes() is not None else [LABELS_OF_Y])]

    def _found_classes(self, labels: Array) -> Array:
        """The label values as they are, the one that the rule is about last."""
        found = np.unique(labels)
        positive = None if self.schema is None else self._schema().positive
        if positive is None or len(found) != 2:
            return found
        last = found.astype(str) == str(positive)
        if not last.any():
            raise SchemaError("y does not hold the label that the schema calls positive")
        return np.concatenate([found[~last], found[last]])

    def _label_name(self, y: ColumnLike) -> str:
        """What a prediction of the last class is called: that class, or the column's name for labels 0 and 1."""
        if len(self.classes_) != 2:
            return str(getattr(y, "name", None) or "1")
        last = str(self.classes_[-1])
        return str(getattr(y, "name", None) or "1") if last in ("1", "1.0", "True") else last

    # Using

    def predict(self, X: Matrix) -> Array:
        """The class the rule says, for each row; values outside the domain are clamped.

        Parameters
        ----------
        X : array, frame or list of rows
            Columns as in ``fit``.

        Returns
        -------
        array of shape (n_rows,)
            Values of ``classes_``.
        """
        check_is_fitted(self, "released_")
        said = self.released_.predict(self._columns(X, reset=False))
        if len(self.classes_) > 2:
            place = {name: i for i, name in enumerate(self._class_names())}
            said = np.array([place[name] for name in said.tolist()], dtype=np.int64)
        answer: Array = self.classes_[np.minimum(said, len(self.classes_) - 1)]
        return answer

    @available_if(_has_chances)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Matrix) -> NDArray[np.float64]:
        """The chances of the classes, in the order of ``classes_``: of a scorecard, of a small tree with ``calibrate``,
        of any rule with ``evaluate``.

        Parameters
        ----------
        X : array, frame or list of rows
            Columns as in ``fit``.

        Returns
        -------
        array of shape (n_rows, n_classes)
            A column for each of ``classes_``.
        """
        chances: NDArray[np.float64] = self.released_.predict_proba(self._columns(X, reset=False))
        return self._ordered(chances)

    @available_if(_has_chances)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Matrix) -> NDArray[np.float64]:
        """The log odds of the last class, above 0 exactly where :meth:`predict` says it; of every class where there
        are more than two.

        Parameters
        ----------
        X : array, frame or list of rows
            Columns as in ``fit``.

        Returns
        -------
        array of shape (n_rows,) or (n_rows, n_classes)
        """
        odds: NDArray[np.float64] = self.released_.decision_function(self._columns(X, reset=False))
        return self._ordered(odds) if odds.ndim == 2 else odds

    def _ordered(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns of the rule's labels in the order of ``classes_``; one class alone takes everything."""
        if len(self.classes_) == 1:
            return np.ones((len(columns), 1))
        names = list(self.released_.value.names)
        return columns if len(names) < 2 else columns[:, [names.index(name) for name in self._class_names()]]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._many
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = True
        return tags
