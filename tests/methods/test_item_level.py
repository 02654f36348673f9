"""``pp.at_user_level``: the choice of a strategy, what the algorithm sees, and refusals; with a classifier of one's
own."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.api.user_level import user_level_learner
from privpac.data import Integers, UserData
from privpac.errors import IncompatibleGuarantees, InfeasibleError, ParameterError, SchemaError, TooLargeError
from privpac.guarantee import Guarantee
from privpac.methods import ItemAlgorithm


def item(epsilon: Any, delta: Any = 0, relation: str = "add-remove") -> Guarantee:
    return Guarantee(epsilon, delta, unit="item", neighbours=relation)


def people(n: int = 200, m: int = 5) -> UserData:
    rng = np.random.default_rng(4)
    rows = [[(int(x), int(x > 50)) for x in rng.integers(0, 100, m)] for _ in range(n)]
    return UserData.from_users(rows, features={"x": Integers(0, 99)})


class NoisyStump:
    """A scikit-learn-like model that is (1/2, 0)-DP for one record more or less: exponential law over ten cuts."""

    def fit(self, X: Any, y: Any) -> NoisyStump:
        from privpac.law import Law

        cuts = np.arange(0, 100, 10)
        wrong = [int(((X[:, 0] > cut) != y).sum()) for cut in cuts]
        self.cut_ = int(cuts[Law.from_blocks(list(range(10)), list(range(10)), wrong, "1/2").sample()])
        return self

    def predict(self, X: Any) -> Any:
        return (np.asarray(X)[:, 0] > self.cut_).astype(int)


def fitted(table: pl.DataFrame) -> NoisyStump:
    return NoisyStump().fit(table.select("x").to_numpy(), table["label"].to_numpy())


def test_a_model_of_ones_own_protects_people(tmp_path: Path) -> None:
    ledger = pp.BudgetLedger.create(
        tmp_path / "b.db", pp.Guarantee(2, unit="user", neighbours="add-remove"), dataset="made up"
    )
    released = pp.at_user_level(fitted, people(), item=item("1/2"), epsilon=2, ledger=ledger)
    assert released.parameters["strategy"].startswith("group: up to 4 records of everybody")
    assert "sampling" in released.parameters["chosen because"]
    assert released.predict([[99], [0]]).tolist() == [1, 0]
    assert ledger.remaining().epsilon == 0


def test_the_algorithm_sees_what_the_way_says() -> None:
    seen = []

    def look(table: pl.DataFrame) -> int:
        seen.append(table)
        return 0

    pp.at_user_level(look, people(50, 5), item=item("1/2"), epsilon=1)
    pp.at_user_level(look, people(50, 5), item=item(1), epsilon=1)
    pp.at_user_level(look, people(400, 5), item=item(3), epsilon=1)
    assert [table.columns for table in seen] == [["x", "label"]] * 3
    assert (len(seen[0]), len(seen[1])) == (100, 50)
    assert 0 < len(seen[2]) < 120  # 400 people with probability 0.09: 36 expected, above 120 with probability 1e-20


@given(st.fractions("1/50", 5), st.fractions("1/50", 3), st.sampled_from([0, "1e-9", "1e-6"]))
@settings(deadline=None, max_examples=60)
def test_whatever_is_chosen_meets_the_target(spent: Fraction, target: Fraction, delta: Any) -> None:
    for relation in ("add-remove", "replace"):
        try:
            made = ItemAlgorithm(len, item(spent, delta, relation), target, "1e-6" if delta else 0)
        except InfeasibleError:
            assert delta
            continue
        assert made.guarantee.epsilon <= target
        assert made.guarantee.delta <= Fraction(1, 10**6)
        assert made.guarantee.unit == "user"
        assert all(
            made.strategy.records * made.strategy.rate >= other.records * other.rate for other in made.strategies
        )


def test_an_algorithm_that_raises_releases_nothing() -> None:
    def fails(table: pl.DataFrame) -> int:
        raise RuntimeError("a secret")

    released = pp.at_user_level(fails, people(), item=item(1), epsilon=1)
    assert released.outcome == "none"
    assert "secret" not in str(released)


def test_deletion_takes_no_promise_and_few_people() -> None:
    def ones(table: pl.DataFrame) -> dict[int, int]:
        return {1: int(table["label"].sum()) + 1, 0: int((1 - table["label"]).sum()) + 1}

    told: dict[str, Any] = {"epsilon": 9, "delta": "0.2", "strategy": "deletion", "ladder": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so large a delta is warned of
        assert pp.at_user_level(ones, people(5, 1), **told).outcome in ("released", "none")
        with pytest.raises(TooLargeError, match="users"):
            pp.at_user_level(ones, people(4000, 1), **told)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ParameterError, "item is missing"),
        ({"item": Guarantee(1, unit="user", neighbours="replace")}, IncompatibleGuarantees, "one record"),
        ({"item": item(1), "strategy": "magic"}, ParameterError, "strategy must be"),
        ({"item": item(2), "strategy": "group"}, InfeasibleError, "by group"),
        ({"item": item(1), "ladder": 3}, ParameterError, "unknown option"),
        ({"item": item(1), "strategy": "deletion", "delta": "1e-6"}, ParameterError, "leave item"),
        ({"item": 3}, TypeError, "Guarantee"),
    ],
)
def test_bad_parameters_are_refused_before_data(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        user_level_learner(len, epsilon=1, **options)


def test_people_without_records_are_refused_under_replace() -> None:
    data = UserData.from_users([[(1, 0)], []], features={"x": Integers(0, 9)})
    with pytest.raises(SchemaError, match="1 people have no records"):
        pp.at_user_level(len, data, item=item(1, 0, "replace"), epsilon=1)
    assert pp.at_user_level(len, data, item=item(1), epsilon=1).outcome == "released"


def test_nothing_the_algorithm_says_of_the_data_is_heard() -> None:
    def loud(table: Any) -> dict[int, int]:
        warnings.warn(f"{len(table)} rows, the first of them {table.row(0)}", stacklevel=1)
        return {0: 1}

    data = UserData.from_users([[k] for k in range(4)], features={"x": Integers(0, 9)}, labelled=False)
    item = Guarantee(1, unit="item", neighbours="add-remove")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert pp.at_user_level(loud, data, item=item, epsilon=1).value == {0: 1}
        pp.at_user_level(loud, data, strategy="deletion", epsilon=9, delta="0.2", ladder=1)
    assert not [one for one in heard if "rows" in str(one.message)]


@pytest.mark.parametrize("strategy", ["auto", "deletion"])
def test_undeclared_columns_of_lists_are_refused(strategy: str) -> None:
    """One text among numbers would make texts of everybody's: no promise about one record covers that."""
    data = pp.UserData.from_users([[(1, 0)], [(2, 1)]] * 20, features=["x"])
    item = None if strategy == "deletion" else pp.Guarantee("1/4", unit="item", neighbours="add-remove")
    options: dict[str, Any] = {"delta": "1e-3", "deleted": 100} if strategy == "deletion" else {}
    with pytest.raises(SchemaError, match="hold Python objects, which have no type, and have no domain"):
        pp.at_user_level(str, data, item=item, epsilon=1, strategy=strategy, **options)
