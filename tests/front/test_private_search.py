"""A search among settings costs one budget, and refuses what would cost more."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.linear_model
from sklearn.base import clone

import privpac as pp
from privpac.errors import IncompatibleGuarantees, ItemLevelWarning, ParameterError, SchemaError
from privpac.evaluation import SearchLearner, part_budget
from privpac.sklearn import PrivateRuleClassifier, PrivateSearchCV

X = np.arange(4000).reshape(-1, 1) % 100
Y = np.where((X[:, 0] > 30) & (X[:, 0] < 70), "in", "out")
WHO = np.arange(4000) // 4
BASE = PrivateRuleClassifier(domains=[pp.Integers(0, 99)], classes=["out", "in"])
RULES = {"rule": ["threshold", "interval", "point"]}


def test_the_best_setting_is_chosen_under_one_guarantee() -> None:
    """1,000 people agree on an interval: at epsilon 60 any other choice has probability below 1e-20."""
    search = PrivateSearchCV(BASE, RULES, epsilon=60).fit(X, Y, groups=WHO)
    assert search.best_params_ == {"rule": "interval"}
    assert str(search.guarantee_) == "(60, 0)-DP per user, add-remove"
    assert search.released_.parameters["among"] == 3
    assert set(search.predict([[50], [5]])) == {"in", "out"}
    assert search.score(X, Y) > 0.95
    assert str(search.rule_).startswith("in when")


def test_a_fit_spends_once(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    pp.BudgetLedger.create(path, pp.Guarantee(2, unit="user", neighbours="add-remove"), dataset="d").close()
    PrivateSearchCV(BASE, RULES, epsilon=2, ledger=path).fit(X, Y, groups=WHO)
    with pp.BudgetLedger.open(path) as book:
        assert str(book.remaining()) == "(0, 0)"


def test_replaced_people_are_covered_by_two_steps() -> None:
    model = clone(BASE).set_params(neighbours="replace")
    search = PrivateSearchCV(model, RULES, epsilon=2).fit(X, Y, groups=WHO)
    assert str(search.guarantee_) == "(2, 0)-DP per user, replace"


def test_learners_that_cost_more_than_their_part_are_refused() -> None:
    learner = pp.HybridSelection(pp.Thresholds(pp.Integers(0, 9)), 1)
    assert SearchLearner({"a": learner}, part_budget(1, "add-remove")).guarantee.epsilon == 1
    with pytest.raises(ParameterError, match="more than the 1"):
        SearchLearner({"a": learner, "b": learner}, part_budget(1, "add-remove"))
    with pytest.raises(IncompatibleGuarantees):
        SearchLearner({"a": learner}, part_budget(1, "replace", "public"))
    with pytest.raises(ParameterError, match="at least one"):
        SearchLearner({}, part_budget(1, "add-remove"))


def test_bad_values_are_found_before_anything_is_spent(tmp_path: Path) -> None:
    """Also those of people who would only choose."""
    path = tmp_path / "b.db"
    pp.BudgetLedger.create(path, pp.Guarantee(2, unit="user", neighbours="add-remove"), dataset="d").close()
    wild = X.copy()
    wild[-1] = 10**6
    with pytest.raises(SchemaError):
        PrivateSearchCV(BASE, RULES, ledger=path).fit(wild, Y, groups=WHO)
    with pp.BudgetLedger.open(path) as book:
        assert str(book.remaining()) == "(2, 0)"


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"param_grid": {"epsilon": [1, 2]}}, ParameterError, "belongs to the search"),
        ({"param_grid": {"public_n_users": list(range(1, 300))}}, ParameterError, "1 to 256"),
        ({"estimator": sklearn.linear_model.LogisticRegression()}, TypeError, "PrivateRuleClassifier"),
        ({"share": 1}, ParameterError, "share"),
        ({"epsilon": 0}, ParameterError, "epsilon"),
        ({"unit": "user"}, ParameterError, "needs groups"),
    ],
)
def test_bad_searches_are_refused(change: dict[str, Any], error: type[Exception], said: str) -> None:
    asked = {"estimator": BASE, "param_grid": RULES, **change}
    with pytest.raises(error, match=said):
        PrivateSearchCV(**asked).fit(X, Y, groups=None if "unit" in change else WHO)


def test_without_groups_rows_are_protected_and_that_is_said() -> None:
    with pytest.warns(ItemLevelWarning):
        found = PrivateSearchCV(BASE, RULES).fit(X, Y)
    assert found.guarantee_.unit == "item"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_delta_that_was_asked_for_is_that_of_the_whole(neighbours: str) -> None:
    asked, people = Fraction(1, 10**6), np.arange(100)
    table, said = np.arange(200).reshape(-1, 2) % 10, np.arange(100) % 10 > 4
    domains = [pp.Integers(0, 9)] * 2
    model = PrivateRuleClassifier(domains=domains, rule="scorecard", delta=asked, neighbours=neighbours)
    found = PrivateSearchCV(model, {"public_n_users": [50, 100]}, epsilon=1).fit(table, said, groups=people)
    assert found.guarantee_.epsilon == 1
    assert asked * Fraction(999, 1000) < found.guarantee_.delta <= asked
    data = pp.UserData.from_arrays(table, said, people, features=dict(zip(("x", "y"), domains)))
    learned = pp.learn(data, "scorecard", epsilon=1, delta=asked, evaluate="1/2", neighbours=neighbours)
    assert learned.guarantee is not None
    assert learned.guarantee.epsilon == 1
    assert learned.guarantee.delta <= asked
    with pytest.raises(ParameterError, match="delta belongs to the search"):
        PrivateSearchCV(model, {"delta": ["1e-3", "1e-6"]}, epsilon=1).fit(table, said, groups=people)
