"""One call on any table: the same words everywhere, and what is missing is answered with the call to write."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privpac as pp
from privpac.data.spec import TableSpec, read_features
from privpac.errors import (
    BudgetExhausted,
    DeclarationError,
    LedgerUnavailable,
    ModelFileError,
    ParameterError,
    SchemaError,
    did_you_mean,
)

SECRET = 7741
FRAME = pl.DataFrame(
    {
        "id": [1, 1, 2, 3] * 30,
        "age": [30, 80, 20, 90] * 30,
        "dose": [0.5, 1.0, 2.5, 3.0] * 30,
        "sex": ["f", "m", "f", "m"] * 30,
        "when": [date(2021, 1, 1), date(2022, 1, 1), date(2023, 1, 1), date(2024, 1, 1)] * 30,
        "y": [0, 1, 0, 1] * 30,
    }
)
FEATURES: dict[str, Any] = {
    "age": (0, 110),
    "dose": (0, 50, 0.5),
    "sex": ["f", "m"],
    "when": ("2020-01-01", "2025-12-31"),
}
AGE: dict[str, Any] = {"user": "id", "label": "y", "features": {"age": (0, 110)}}

FORMS: list[tuple[object, pp.data.Domain]] = [
    ((0, 110), pp.Integers(0, 110)),
    ((np.int64(0), np.int32(110)), pp.Integers(0, 110)),
    (range(111), pp.Integers(0, 110)),
    (range(0, 100, 5), pp.Grid(0, 95, 5)),
    ("0:110", pp.Integers(0, 110)),
    ((0, 50, 0.5), pp.Grid(0, 50, "0.5")),
    ((0, 50, "0.5"), pp.Grid(0, 50, "0.5")),
    (["f", "m"], pp.Categories(["f", "m"])),
    ("{f,m}", pp.Categories(["f", "m"])),
    ("{low<high}", pp.Categories(["low", "high"], ordered=True)),
    ("number", pp.Floats()),
    ("text", pp.Texts()),
    ("0:9,missing=own", pp.Missing(pp.Integers(0, 9), "own")),
    (("2020-01-01", "2020-12-31"), pp.Dates("2020-01-01", "2020-12-31")),
    ((date(2020, 1, 1), "2020-12-31"), pp.Dates("2020-01-01", "2020-12-31")),
    ((datetime(2020, 1, 1, 5), date(2020, 12, 31)), pp.Dates("2020-01-01", "2020-12-31")),
    ((pd.Timestamp("2020-01-01"), np.datetime64("2020-12-31")), pp.Dates("2020-01-01", "2020-12-31")),
    (pp.Integers(0, 3), pp.Integers(0, 3)),
]


@pytest.mark.parametrize(("form", "domain"), FORMS, ids=[str(form) for form, _ in FORMS])
def test_every_form_is_one_domain(form: object, domain: pp.data.Domain) -> None:
    assert read_features({"x": form}) == {"x": domain}
    assert pp.Schema({"x": form}).columns["x"] == domain  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (("f", "m"), "names are a list"),
        ((0, 1.5), "without a step"),
        ((1, 2, 3, 4), "got 4 values"),
        ((date(2020, 1, 1), date(2021, 1, 1), 1), "dates have no step"),
        ({"f", "m"}, "got set"),
        ("", "got str"),
        (3, "got int"),
        ((pd.NaT, "2020-01-01"), "missing one"),
        ((np.datetime64("NaT"), "2020-01-01"), "must be a date"),
    ],
)
def test_other_forms_are_refused_by_the_column(form: object, said: str) -> None:
    with pytest.raises((ParameterError, TypeError), match=said) as caught:
        read_features({"x": form})
    assert "'x'" in str(caught.value)


TABLES: dict[str, Callable[[], Any]] = {
    "polars": lambda: FRAME,
    "lazy": FRAME.lazy,
    "pandas": FRAME.to_pandas,
    "arrow": FRAME.to_arrow,
    "reader": lambda: FRAME.to_arrow().to_reader(),
    "batch": lambda: pa.RecordBatch.from_pandas(FRAME.to_pandas()),
}


@pytest.mark.parametrize("kind", TABLES)
def test_any_table_is_learned_from_in_one_call(kind: str) -> None:
    rule = pp.learn(TABLES[kind](), user="id", label="y", features=FEATURES, epsilon=1)
    assert rule.guarantee is not None
    assert rule.guarantee.summary == "(1, 0)-DP per user, add-remove"
    assert rule.value.features  # a rule over the declared columns


def test_files_and_lists_of_files_are_tables(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    FRAME.write_parquet(tmp_path / "a.parquet")
    FRAME.write_parquet(tmp_path / "b.parquet")
    several = [tmp_path / "a.parquet", str(tmp_path / "b.parquet")]
    for path, rows in ((tmp_path / "a.csv", 120), (f"{tmp_path}/*.parquet", 240), (several, 240)):
        assert pp.learn(path, epsilon=1, **AGE).outcome == "released"
        assert pp.check(path, **AGE).records_read == rows
    (tmp_path / "link.parquet").symlink_to(tmp_path / "a.parquet")
    for engine in ("memory", "stream"):
        names = [tmp_path / "a.parquet", tmp_path / "link.parquet", f"{tmp_path}/../{tmp_path.name}/a.parquet"]
        assert pp.check(names, engine=engine, **AGE).records_read == 120
    FRAME.write_csv(tmp_path / "s.csv", separator=";")
    assert pp.learn(tmp_path / "s.csv", separator=";", epsilon=1, **AGE).outcome == "released"
    with pytest.raises(ParameterError, match="no file matches"):
        pp.learn(tmp_path / "none.csv", epsilon=1)


def test_every_entry_takes_a_table() -> None:
    rule = pp.learn(FRAME, epsilon=4, **AGE)
    said = FRAME.with_columns(p=pl.col("y"))
    roles: dict[str, Any] = {"user": "id", "label": "y", "epsilon": 1}
    assert pp.evaluate(rule, FRAME, **roles).outcome == "released"  # the rule says which columns it reads
    assert pp.evaluate("p", said, **roles).outcome == "released"
    assert pp.select_model({"a": rule, "b": "p"}, said, **roles).value.name in ("a", "b")
    assert pp.best_error(FRAME, "threshold", epsilon=1, **AGE).outcome == "released"
    assert pp.best_error(FRAME, pp.Thresholds(pp.Integers(0, 110), "age"), **roles).outcome == "released"
    ages: dict[str, Any] = {"user": "id", "features": {"age": (0, 110)}, "epsilon": 1}
    assert pp.quantile(FRAME, "age", **ages).outcome == "released"
    assert pp.learn_distribution(FRAME, bins=5, **ages).value.columns == ("age",)


def test_missing_values_have_one_rule_for_all_columns() -> None:
    gaps = FRAME.with_columns(age=pl.when(pl.col("y") == 0).then("age"))
    spec = TableSpec("id", {"age": (0, 110), "sex": "{f,m},missing=raise"}, "y", missing="drop")
    assert spec.features["age"] == pp.Missing(pp.Integers(0, 110), "drop")
    assert pickle.loads(pickle.dumps(spec)) == spec
    rule = pp.learn(gaps, missing="drop", epsilon=1, **AGE)
    assert rule.parameters["invalid values"] == "records with missing values are left out"
    with pytest.raises(SchemaError, match="60 missing"):
        pp.learn(gaps, epsilon=1, **AGE)
    with pytest.raises(ParameterError, match="declare one for 'age'"):
        TableSpec("id", ["age"], missing="own")


def test_what_is_missing_is_answered_with_the_call_to_write() -> None:
    frame = pd.DataFrame({"id": [1], "age": [SECRET], "ward": [f"{SECRET}"], "died": [0]})
    with pytest.raises(DeclarationError) as caught:
        pp.learn(frame, epsilon=1)
    text = str(caught.value)
    assert 'pp.learn(df, user="id", label="died", features={"age": (0, 120), "ward": "?"}, epsilon=1)' in text
    assert str(SECRET) not in text
    with pytest.raises(DeclarationError, match=r"needs label= .*features=\{\"age\": \(0, 110\)\}"):
        pp.learn(FRAME, user="id", features={"age": (0, 110)}, epsilon=1)
    with pytest.raises(DeclarationError, match=r"pp.quantile\(df, user=\"id\""):
        pp.quantile(frame, "age", epsilon=1)


def test_people_are_declared_once() -> None:
    people = pp.UserData.from_frame(FRAME, **AGE)
    for call in (pp.learn, pp.quantile, pp.learn_distribution):
        with pytest.raises(DeclarationError, match=r"declared already .UserData.: leave out user="):
            call(people, user="id", epsilon=1)  # type: ignore[operator]
    with pytest.raises(TypeError, match="unexpected keyword argument 'usr'; did you mean 'user'"):
        pp.quantile(FRAME, usr="id", epsilon=1)  # type: ignore[call-arg]


def test_people_are_copied_and_pickled() -> None:
    people = pp.UserData.from_frame(FRAME, **AGE)
    for twin in (pickle.loads(pickle.dumps(people)), copy.copy(people), copy.deepcopy(people)):
        assert twin.to_lists() == people.to_lists()
        assert twin.features == people.features
        with pytest.raises(TypeError):
            twin.features["age"] = None
        assert not twin.offsets.flags.writeable


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "hybird"}, "did you mean 'hybrid'"),
        ({"rule": "treshold"}, "did you mean 'threshold'"),
        ({"neighbours": "replase"}, "did you mean 'replace'"),
        ({"metod": "hybrid"}, "did you mean 'method'"),
        ({"delta": 1e-5, "rule": "threshold"}, "use it with method='trimmed'"),
        ({"user": "ID"}, "no column 'ID'.*did you mean 'id'"),
    ],
)
def test_a_near_miss_suggests_the_right_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises((ParameterError, SchemaError), match=said):
        pp.learn(FRAME, **AGE | {"epsilon": 1} | change)


def test_what_is_near() -> None:
    assert did_you_mean("max-records", ["max_records"]) == "; did you mean 'max_records'?"
    assert did_you_mean("id", ["id"]) == ""  # it is there: nothing to suggest
    assert did_you_mean("ward", ["id", "age"]) == did_you_mean(3, ["id"]) == ""  # type: ignore[arg-type]


def test_a_report_is_a_page(tmp_path: Path) -> None:
    rule = pp.learn(FRAME, epsilon=1, **AGE)
    with pytest.raises(ParameterError, match=r"\.html or \.htm"):
        rule.report(tmp_path / "r.pdf")
    assert list(tmp_path.iterdir()) == []


# The ledger by its path


def test_a_ledger_is_its_path(tmp_path: Path) -> None:
    path = tmp_path / "budget.ledger"
    for budget in (3, "3", 3.0):
        with pp.BudgetLedger.create(
            tmp_path / f"{type(budget).__name__}.ledger", epsilon=budget, dataset="visits"
        ) as one:
            assert str(one.remaining()) == "(3, 0)"
    with pp.BudgetLedger.create(path, epsilon=3, dataset="visits"):
        pass
    first = pp.learn(FRAME, epsilon="1/2", ledger=path, **AGE)
    second = pp.learn(FRAME, epsilon=0.5, ledger=str(path), **AGE)
    other = pp.learn(FRAME, epsilon=1, ledger=path, **AGE)
    assert first.warnings == other.warnings == ()
    (line,) = second.warnings
    assert line.startswith("this spends again: ")
    assert "once before" in line
    assert f"warning: {line}" in str(second)
    assert other.parameters["budget left"] == "ε = 1 of 3"
    with pp.BudgetLedger(path) as ledger:
        assert str(ledger) == "visits: (1, 0) of (3, 0) left after 3 spends; show() lists them"
        table = ledger.show()
    assert [row["epsilon"] for row in table] == ["1/2", "1/2", "1"]
    assert str(table).splitlines()[0].split() == ["no.", "when", "epsilon", "delta", "what"]
    assert "HybridSelection of Thresholds" in str(table)
    assert table._repr_html_().count("<tr>") == 4


def test_a_ledger_that_is_not_there_says_what_makes_one(tmp_path: Path) -> None:
    for use in (
        lambda: pp.BudgetLedger(tmp_path / "b.ledger"),
        lambda: pp.learn(FRAME, epsilon=1, ledger=tmp_path / "b.ledger", **AGE),
    ):
        with pytest.raises(LedgerUnavailable, match=r"BudgetLedger\.create.*privpac ledger new"):
            use()
    with pytest.raises(TypeError, match="path of its file"):
        pp.learn(FRAME, epsilon=1, ledger=3, **AGE)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


ENTRIES: dict[str, Callable[..., object]] = {
    "learn": lambda table, **options: pp.learn(table, **options),
    "evaluate": lambda table, **options: pp.evaluate(lambda x: x["age"] > 50, table, **options),
    "select_model": lambda table, **options: pp.select_model({"old": lambda x: x["age"] > 50}, table, **options),
    "best_error": lambda table, **options: pp.best_error(table, "stump", **options),
    "quantile": lambda table, label, **options: pp.quantile(table, **options),
    "learn_distribution": lambda table, label, **options: pp.learn_distribution(table, **options),
    "select_distribution": lambda table, label, **options: pp.select_distribution(
        table, ["a=expon:scale=20", "b=expon:scale=40"], candidates_are="public", records_per_user=4, **options
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_ledger_without_room_is_told_before_the_table_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object, **__: object) -> object:
        raise AssertionError("the table was read")

    monkeypatch.setattr(pp.UserData, "from_frame", read)
    with pytest.raises(LedgerUnavailable):
        ENTRIES[name](FRAME, epsilon=1, ledger=tmp_path / "none.ledger", **AGE)
    with pp.BudgetLedger.create(tmp_path / "b.ledger", epsilon=1, dataset="visits") as ledger:
        with pytest.raises(BudgetExhausted):
            ENTRIES[name](FRAME, epsilon=2, ledger=ledger, **AGE)
        assert len(ledger.show()) == 0
        with pytest.raises(AssertionError, match="was read"):
            ENTRIES[name](FRAME, epsilon=1, ledger=ledger, **AGE)


def test_the_time_to_read_the_table_is_hidden_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = [100.0], []
    real = pp.UserData.from_frame

    def read(*arguments: Any) -> pp.UserData:
        clock[0] += 2
        return real(*arguments)

    monkeypatch.setattr(pp.UserData, "from_frame", read)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", slept.append)
    pp.learn(FRAME, epsilon=1, not_before=5, **AGE)
    assert slept == [3.0]


# Tables with odd columns


def test_columns_named_like_parts_of_people_are_columns() -> None:
    table = FRAME.with_columns(fold=pl.lit(1), unit=pl.lit(1)).to_pandas()
    assert list(pp.learn(table, epsilon=1, **AGE).rule.features) == ["age"]
    hours = pp.learn_distribution(table, user="id", features={"fold": (0, 3)}, epsilon=1)
    assert hours.value.columns == ("fold",)
    with pytest.raises(DeclarationError, match="user="):
        pp.learn(table, epsilon=1)


@pytest.mark.parametrize("rule", [None, "threshold", "stump", "point"])
def test_texts_that_nobody_listed_are_refused_before_anything_is_spent(rule: str | None, tmp_path: Path) -> None:
    with pp.BudgetLedger.create(tmp_path / "b.ledger", epsilon=9, dataset="visits") as ledger:
        for columns in ({"sex": "text"}, {"sex": "text", "age": (0, 110)}):
            with pytest.raises(ParameterError):
                pp.learn(FRAME, rule, user="id", label="y", features=columns, epsilon=1, ledger=ledger)
        with pytest.raises(ParameterError, match=r"\['sex'\] hold texts that nobody listed"):
            pp.best_error(FRAME, "stump", user="id", label="y", features={"sex": "text"}, epsilon=1, ledger=ledger)
        assert len(ledger.show()) == 0


def test_a_rule_predicts_on_any_table() -> None:
    rule = pp.learn(FRAME, epsilon=8, **AGE)
    said = rule.predict(FRAME.select("age")).tolist()
    for table in (FRAME, FRAME.lazy(), FRAME.to_arrow(), FRAME.to_arrow().to_batches()[0], FRAME.to_pandas()):
        assert rule.predict(table).tolist() == said
    named = FRAME.with_columns(column_names=pl.lit(1)).to_pandas()
    assert rule.predict(named).tolist() == said


def test_a_class_without_parentheses_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="rule"):
        pp.learn(FRAME, pp.Stumps, epsilon=1, **AGE)  # type: ignore[arg-type]


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "visits.csv")
    with pytest.raises(ModelFileError, match=r"visits\.csv': not a readable privpac result: it is no JSON"):
        pp.load(tmp_path / "visits.csv")


def test_the_estimator_takes_every_form_of_a_domain() -> None:
    from privpac.sklearn import PrivateRuleClassifier

    X, y = FRAME.select("age", "dose").to_numpy(), FRAME["y"].to_numpy()
    for domains in ([(0, 110), "0:50:0.5"], {1: (0, 50, 0.5), 0: range(111)}):
        fitted = PrivateRuleClassifier(domains=domains, classes=[0, 1]).fit(X, y, groups=FRAME["id"].to_numpy())
        assert fitted.predict(X[:2]).shape == (2,)
    with pytest.raises(ParameterError, match="x0"):
        PrivateRuleClassifier(domains=["0-110", "0:50"], classes=[0, 1]).fit(X, y, groups=FRAME["id"].to_numpy())
