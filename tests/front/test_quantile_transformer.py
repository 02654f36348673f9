"""The transformer of private quantiles: one spend for all columns, ranks and back."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import privpac as pp
from privpac.data import Categories, Integers
from privpac.distributions.quantiles.quantile_learner import ColumnQuantiles, QuantileTable
from privpac.errors import BudgetExhausted, ItemLevelWarning, ParameterError
from privpac.sklearn import PrivateQuantileTransformer

RNG = np.random.default_rng(4)
X = np.column_stack([RNG.integers(0, 100, 3000), RNG.integers(0, 1000, 3000)])
WHO = np.repeat(np.arange(1500), 2)
DOMAINS = [Integers(0, 99), Integers(0, 999)]


def test_ranks_are_close_and_back_again() -> None:
    model = PrivateQuantileTransformer(epsilon=8, domains=DOMAINS).fit(X, groups=WHO)
    assert model.quantiles_.shape == (9, 2)
    assert model.references_ == pytest.approx(np.arange(1, 10) / 10)
    ranks = model.transform(X)
    assert np.abs(ranks[:, 0].clip(0.1, 0.9) - (X[:, 0] / 100).clip(0.1, 0.9)).max() < 0.1
    assert np.abs(model.inverse_transform([[0.5, 0.5]]) - [[50, 500]]).max() < 60
    assert (np.diff(model.quantiles_, axis=0) >= 0).all()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X[:5]), model.transform(X[:5]))
    with pytest.raises(NotFittedError):
        clone(model).transform(X)


def test_equal_quantiles_map_to_the_middle_of_their_ranks() -> None:
    same = np.full((900, 1), 7)
    model = PrivateQuantileTransformer(3, epsilon=20, domains=[Integers(0, 9)]).fit(same, groups=np.arange(900))
    assert model.quantiles_.ravel().tolist() == [7, 7, 7]
    assert model.transform([[7], [0], [9]]).ravel().tolist() == [0.5, 0.25, 0.75]


def test_all_columns_are_one_release_of_the_whole_budget(tmp_path: Path) -> None:
    told = pp.Guarantee(1, unit="user", neighbours="add-remove")
    pp.BudgetLedger.create(tmp_path / "b.db", told, dataset="people").close()
    frame = pd.DataFrame({"age": X[:, 0], "pay": X[:, 1]})
    domains = {"age": DOMAINS[0], "pay": DOMAINS[1]}
    model = PrivateQuantileTransformer(2, domains=domains, ledger=tmp_path / "b.db").fit(frame, groups=WHO)
    assert str(model.guarantee_) == "(1, 0)-DP per user, add-remove"
    assert model.get_feature_names_out().tolist() == ["age", "pay"]
    with pytest.raises(BudgetExhausted):
        clone(model).fit(frame, groups=WHO)
    learner = ColumnQuantiles.of(["a", "b", "c"], 1, ["1/4", "3/4"])
    assert learner.guarantee.epsilon == 1
    assert {part.epsilon for part in learner.parts} == {Fraction(1, 3)}
    assert all(part.guarantee.epsilon == Fraction(1, 3) for part in learner.parts)


def test_results_are_saved_and_read(tmp_path: Path) -> None:
    model = PrivateQuantileTransformer(2, domains=DOMAINS).fit(X, groups=WHO)
    model.released_.save(tmp_path / "q.json")
    table = pp.load(tmp_path / "q.json").value
    assert table == model.released_.value
    assert table["x1"].values == tuple(model.quantiles_[:, 1])
    assert "x0: " in str(table)
    with pytest.raises(ParameterError, match="released are x0, x1"):
        table["age"]
    with pytest.raises(ParameterError, match="at least one column"):
        QuantileTable(())


def test_bad_requests_are_refused_before_they_spend(tmp_path: Path) -> None:
    told = pp.Guarantee(1, unit="user", neighbours="add-remove")
    pp.BudgetLedger.create(tmp_path / "b.db", told, dataset="people").close()
    for bad in (
        {"n_quantiles": 0},
        {"n_quantiles": 2.5},
        {"epsilon": 0},
        {"weight": "record"},
        {"weight": "heavy"},
        {"domains": [Integers(0, 99)]},
        {"domains": [Integers(0, 99), Categories(["a"])]},
    ):
        with pytest.raises((ParameterError, TypeError)):
            PrivateQuantileTransformer(**{"domains": DOMAINS, "ledger": tmp_path / "b.db"} | bad).fit(X, groups=WHO)
    with pytest.warns(ItemLevelWarning):
        model = PrivateQuantileTransformer(domains=DOMAINS).fit(X)
    assert "per item" in str(model.guarantee_)
    with pytest.raises(ParameterError, match="2 columns were fitted"):
        model.inverse_transform([[0.5]])
    PrivateQuantileTransformer(domains=DOMAINS, ledger=tmp_path / "b.db").fit(X, groups=WHO)


@pytest.mark.parametrize("kind", ["pandas", "polars", "numpy"])
def test_set_output_gives_frames_with_the_names_of_the_columns(kind: str) -> None:
    frames: dict[str, Any] = {
        "pandas": pd.DataFrame({"age": X[:, 0], "pay": X[:, 1]}, index=np.arange(3000) + 7),
        "polars": pl.DataFrame({"age": X[:, 0], "pay": X[:, 1]}),
        "numpy": X,
    }
    table = frames[kind]
    names = ["x0", "x1"] if kind == "numpy" else ["age", "pay"]
    model = PrivateQuantileTransformer(2, domains=["0:99", (0, 999)]).fit(table, groups=WHO)
    assert model.get_feature_names_out().tolist() == names
    plain = model.transform(table)
    assert isinstance(plain, np.ndarray)
    as_pandas = model.set_output(transform="pandas").transform(table)
    assert isinstance(as_pandas, pd.DataFrame)
    assert list(as_pandas.columns) == names
    np.testing.assert_array_equal(as_pandas.to_numpy(), plain)
    if kind == "pandas":
        assert as_pandas.index.equals(table.index)
    as_polars = model.set_output(transform="polars").transform(table)
    assert isinstance(as_polars, pl.DataFrame)
    assert as_polars.columns == names
    if kind != "numpy":
        with pytest.raises(ValueError, match="feature names"):
            model.transform(table[["pay", "age"]])
