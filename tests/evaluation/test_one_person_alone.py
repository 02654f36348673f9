"""What one person adds to an evaluation depends on that person alone: refuters of columns read differently because of
somebody else."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest

import privpac as pp
from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, Missing, UserData
from privpac.errors import EngineError, IncompatibleGuarantees, SchemaError
from privpac.evaluation.evaluator import Evaluator, TableKernel, column_values
from privpac.methods.prediction.relabel import Relabelling
from privpac.methods.prediction.voters import VotePredictor

BIG = 2**63 + 1
FINE = Grid(10**16, 10**16 + 1, "0.01")
DOMAINS: list[tuple[Domain, list[Any]]] = [
    (Categories([1, "a"]), ["1", "a"]),
    (Categories([True, 2]), ["true", "2"]),
    (Categories([True, False]), [True, False]),
    (Categories([3, 2**70]), ["3", str(2**70)]),
    (Integers(0, 2**64 - 1), [2**53 + 1, BIG]),
    (Integers(-5, 2**64 - 7), [-1, BIG]),
    (Grid(0, 1, "0.25"), [0.0, 0.25]),
    (FINE, ["10000000000000000.5", "10000000000000000.25"]),
    (Floats(), [1.0, 2.5]),
    (Dates("2020-01-01", "2020-12-31"), [date(2020, 1, 1), date(2020, 5, 1)]),
    (Missing(Integers(0, 3), "own"), [1, None]),
    (Missing(Categories([1, "a"]), "own"), ["1", None]),
]


def people(domain: Domain, values: list[Any]) -> UserData:
    # The column's own type is fixed, as that of a table is: what is tried is how codes become values again.
    kept = [value for value in values if value is not None]
    kind = pl.Int128 if kept and type(kept[0]) is int else None
    table = pl.DataFrame(
        {"who": range(len(values)), "x": pl.Series(values, dtype=kind, strict=False), "y": [1] * len(values)}
    )
    return UserData.from_frame(table, user="who", features={"x": domain}, label="y")


@pytest.mark.parametrize(("domain", "values"), DOMAINS, ids=lambda v: repr(v)[:40])
def test_a_value_is_read_the_same_whoever_else_is_there(domain: Domain, values: list[Any]) -> None:
    together = column_values(people(domain, values), "x")
    for i, value in enumerate(values):
        if value is None:  # a column of nothing has no type of its own
            continue
        alone = column_values(people(domain, [value]), "x")
        assert alone.dtype == together.dtype == domain.column_type
        assert repr(alone.to_list()) == repr(together.to_list()[i : i + 1])
    assert column_values(people(domain, values).take([]), "x").dtype == domain.column_type


def test_numbers_stay_exact() -> None:
    assert column_values(people(FINE, ["10000000000000000.25"]), "x").to_list() == [Decimal("10000000000000000.25")]
    assert column_values(people(Integers(-5, 2**64 - 7), [BIG]), "x").to_list() == [BIG]


def added(predictor: Any, data: UserData, **options: Any) -> np.ndarray[Any, Any]:
    learner = Evaluator(predictor, 1, **options)
    bound = learner.bind(data)
    return np.asarray(bound.users.fold(TableKernel(bound.predictor, "table", "user", learner.steps)))


@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize(
    ("domain", "most", "last", "predictor"),
    [
        (Categories([1, "a"]), "1", "a", lambda table: [value == 1 for value in table["x"]]),
        (Categories([1, "a"]), "1", "a", lambda table: [value == "1" for value in table["x"]]),
        (Missing(Integers(0, 3), "own"), 1, None, lambda table: [str(value) == "1" for value in table["x"]]),
        (Missing(Categories([True]), "own"), True, None, lambda table: [value is True for value in table["x"]]),
    ],
)
def test_one_person_moves_the_table_by_one_person(
    domain: Domain, most: Any, last: Any, predictor: Any, rowwise: bool
) -> None:
    before = added(predictor, people(domain, [most] * 3), rowwise=rowwise)
    after = added(predictor, people(domain, [most] * 3 + [last]), rowwise=rowwise)
    assert np.abs(after - before).sum() <= Evaluator(predictor, 1).steps


def test_columns_a_cap_leaves_out_are_refused_before_the_spend(tmp_path: Any) -> None:
    table = pl.DataFrame({"who": [1, 1, 2], "x": [1, 1, 2], "raw": [1, 2, 3], "y": [1, 0, 1]})
    data = UserData.from_frame(table, user="who", features={"x": Integers(0, 3), "raw": None}, label="y")
    promised = pp.Guarantee(1, unit="user", neighbours="add-remove")
    ledger = pp.BudgetLedger.create(tmp_path / "budget", promised, dataset="people")

    def says_one(given: Any) -> list[int]:
        return [1] * len(given)

    with pytest.raises(SchemaError, match="no domain"):
        pp.evaluate(says_one, data, epsilon=1, max_records=1, ledger=ledger)
    with pytest.raises(SchemaError, match="no domain"):
        pp.select_model({"one": says_one, "two": says_one}, data, epsilon=1, max_records=1, ledger=ledger)
    item = pp.Guarantee(1, unit="item", neighbours="add-remove")
    with pytest.raises(SchemaError, match="no domain"):
        pp.at_user_level(says_one, data, item=item, epsilon=1, ledger=ledger)
    assert not ledger.history()


def test_every_door_refuses_a_part_of_a_split_under_replace() -> None:
    data = UserData.from_users([[(k, k > 4)] for k in range(10)], features={"x": Integers(0, 9)})
    part = data.split({"a": "1/2", "b": "1/2"})["a"]
    with pytest.raises(IncompatibleGuarantees, match="part of a split"):
        pp.release(Evaluator(lambda table: table["x"] > 4, 1, "replace"), part)
    for derived in (part.take([0]), part.max_records(1, "first"), part.bind({"x": Integers(0, 9)})):
        assert derived.part_of_split


def test_a_prediction_session_refuses_a_part_of_a_split_under_replace() -> None:
    data = UserData.from_users([[(k % 10, k % 10 > 4)] for k in range(60)], features={"x": Integers(0, 9)})
    split = {"split_size": 20, "public_n_users": 30, "neighbours": "replace"}
    relabelling = Relabelling(pp.Thresholds(Integers(0, 9)), 4, 1, eta="1/8", **split)
    predictor = VotePredictor(relabelling, 3, "1/2", 8)
    with pytest.raises(IncompatibleGuarantees, match="part of a split"):
        predictor.learn(data.split({"a": "1/2", "b": "1/2"})["a"])


class Quoting(Evaluator):
    """Fails after the spend with words about the data."""

    error: Exception

    def draw(self, bound: Any, rng: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    "error", [pl.exceptions.ComputeError("value 42"), ZeroDivisionError("42"), OverflowError("42"), KeyError("42")]
)
def test_nothing_is_quoted_after_the_spend(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quoting, "error", error, raising=False)
    with pytest.raises(EngineError, match="not told") as caught:
        Quoting(lambda table: table["x"], 1).learn(people(Integers(0, 3), [1, 2]))
    assert "42" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_undeclared_columns_of_lists_are_refused_for_models() -> None:
    """Their type would be that of all values together: one text among numbers makes texts of everybody's."""
    data = UserData.from_users([[(k, k > 4)] for k in range(10)], features=["x"])
    with pytest.raises(SchemaError, match="hold Python objects, which have no type, and have no domain"):
        pp.evaluate(lambda table: [1] * len(table), data, epsilon=1)
