"""Cross-validation and pipelines of scikit-learn must not drop people's protection without a word."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import privpac as pp
from privpac.errors import ItemLevelWarning, ParameterError, WeakGuaranteeWarning
from privpac.sklearn import PrivateHistogram, PrivateRuleClassifier

X = np.arange(300.0).reshape(-1, 1) % 100
Y = (X[:, 0] > 50).astype(int)
WHO = np.arange(300) // 5
DOMAINS = [pp.Integers(0, 99)]


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def search(**more: Any) -> GridSearchCV:
    model = PrivateRuleClassifier(domains=DOMAINS, **more)
    return GridSearchCV(model, {"epsilon": [1, 2]}, cv=GroupKFold(3), error_score="raise")


def test_a_search_without_routing_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(ParameterError, match="enable_metadata_routing"):
        search().fit(X, Y, groups=WHO)
    with pytest.raises(ParameterError, match="unit='item'"):
        cross_val_score(PrivateRuleClassifier(domains=DOMAINS), X, Y, error_score="raise")


def test_a_search_with_routing_protects_people(routing: None) -> None:
    found = search().fit(X, Y, groups=WHO)
    assert found.best_estimator_.guarantee_.unit == "user"


def test_rows_that_are_people_may_be_declared() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ItemLevelWarning)
        found = search(unit="item").fit(X, Y, groups=WHO)
    assert found.best_estimator_.guarantee_.unit == "item"


@pytest.mark.parametrize(
    ("unit", "groups", "said"), [("user", None, "needs groups"), ("item", WHO, "no groups"), ("row", None, "unit must")]
)
def test_unit_and_groups_agree(unit: str, groups: Any, said: str) -> None:
    for model, y in ((PrivateRuleClassifier(domains=DOMAINS, unit=unit), Y), (PrivateHistogram(unit=unit), None)):
        with pytest.raises(ParameterError, match=said):
            model.fit(X, y, groups=groups)


def test_without_either_single_rows_are_protected_and_that_is_said() -> None:
    with pytest.warns(ItemLevelWarning, match="unit='item'"):
        assert PrivateRuleClassifier(domains=DOMAINS).fit(X, Y).guarantee_.unit == "item"


def test_a_scaler_in_front_is_warned_of_and_a_public_function_is_not() -> None:
    model = PrivateRuleClassifier(unit="item", classes=np.unique(Y))
    with pytest.warns(WeakGuaranteeWarning, match="StandardScaler in front is fitted on the same table"):
        make_pipeline(StandardScaler(), model).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pipeline(FunctionTransformer(np.sqrt), model).fit(X, Y)
        model.fit(X, Y)


def test_rules_are_named_as_everywhere_or_given_as_classes() -> None:
    two = np.hstack([X, X])
    for rule in (None, "stump", pp.Stumps()):
        fitted = PrivateRuleClassifier(rule=rule, domains=DOMAINS * 2, epsilon=50).fit(two, Y, groups=WHO)
        assert type(fitted.rule_).__name__ == "Stump"
    assert type(PrivateRuleClassifier(domains=DOMAINS).fit(X, Y, groups=WHO).rule_).__name__ == "Threshold"
