"""``privpac check``, what commands say of files that are not there or not what they seem, and in which order."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import Command, Run

import privpac as pp
from privpac.errors import BudgetExhausted, SchemaError

DECLARED = ["--user", "who", "--label", "ill", "--feature", "age=0:99"]


@pytest.fixture
def table(tmp_path: Path) -> str:
    ages = [k % 90 for k in range(200)]
    wards = ["n" if k % 3 else None for k in range(200)]
    pl.DataFrame(
        {"who": [f"u{k // 2}" for k in range(200)], "age": ages, "ward": wards, "ill": [int(a > 40) for a in ages]}
    ).write_csv(tmp_path / "t.csv")
    return "t.csv"


def said(run: Run, code: int = 2) -> str:
    assert run.code == code, run
    assert run.out == ""
    assert run.err.count("\n") == 1
    return run.err


def test_the_check_is_shown_with_its_remedy_and_spends_nothing(command: Command, table: str, tmp_path: Path) -> None:
    run = command("check", table, *DECLARED, "--feature", "ward={n,s}", "--on-invalid", "clamp")
    assert run.code == 0
    assert run.out.startswith("for the curator only")
    assert "warning: 67 of 200 records are lost (34 %)" in run.out
    assert "missing=own" in run.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]
    kept = command("check", table, *DECLARED, "--feature", "ward={n,s},missing=own")
    assert "warning" not in kept.out
    assert kept.code == 0


def test_json_holds_what_the_studio_reads(command: Command, table: str) -> None:
    found = json.loads(command("check", table, *DECLARED, "--feature", "ward={n,s}", "--json", "--max-records", 1).out)
    assert found["notice"].startswith("for the curator only")
    assert (found["records_read"], found["records_kept"]) == (200, 133)
    assert (found["people_read"], found["people_kept"]) == (100, 100)
    assert found["columns"] == [{"column": "ward", "reason": "missing or NaN", "records": 67, "what": "refused"}]
    assert sum(row["records"] for row in found["labels"]) == 200
    assert set(found["records_per_person"]) == {"min", "q1", "median", "q3", "max"}
    assert found["people_over_cap"] == 33
    assert found["warnings"]


def test_a_schema_and_a_table_without_labels_are_checked(command: Command, table: str) -> None:
    Path("t.toml").write_text('user = "who"\nmissing = "own"\n[columns]\nage = "0:99"\nward = "{n,s}"\n')
    run = command("check", table, "--schema", "t.toml", "--json")
    assert (run.code, json.loads(run.out)["records_kept"]) == (0, 200)
    assert "name at least one feature" in said(command("check", table))


def test_warnings_are_red_on_a_terminal_only(command: Command, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["check", table, *DECLARED, "--feature", "ward={n,s}", "--on-invalid", "drop"]
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in command(*words).out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = command(*words).out
    assert "\x1b[31m\x1b[1mwarning: 67 of 200 records are lost" in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in command(*words).out


def test_nothing_else_runs_a_check(command: Command, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a check was run")

    monkeypatch.setattr("privpac.data.check.result_of", never)
    monkeypatch.setattr("privpac.data.users.result_of", never)
    learned = command("learn", table, *DECLARED, "--epsilon", 1, "--out", "rule.json", "--evaluate", "1/5")
    assert learned.code == 0
    assert "curator" not in learned.out + learned.err + Path("rule.json").read_text()
    measured = ["rule.json", table, "--user", "who", "--label", "ill", "--epsilon", 1]
    assert command("evaluate", *measured).code == 0
    drawn = ["distribution", table, "--user", "who", "--feature", "age=0:99", "--bins", "0:100:10", "--epsilon", 1]
    assert command(*drawn).code == 0


# Files that are not what they seem

AGE = ["--user", "who", "--feature", "age=0:99"]
READING = {
    "learn": ["learn", "TABLE", *DECLARED, "--epsilon", 1],
    "best-error": ["best-error", "TABLE", *DECLARED, "--epsilon", 1],
    "check": ["check", "TABLE", *DECLARED],
    "domains": ["domains", "TABLE"],
    "quantile": ["quantile", "TABLE", *AGE, "--epsilon", 1],
    "distribution": ["distribution", "TABLE", *AGE, "--bins", "0:100:10", "--epsilon", 1],
    "cap": ["cap", "TABLE", *AGE, "--epsilon", 1],
    "predict": ["predict", "rule.json", "TABLE"],
    "evaluate": ["evaluate", "rule.json", "TABLE", "--user", "who", "--label", "ill", "--epsilon", 1],
    "select-model": [
        "select-model",
        "TABLE",
        "--model",
        "a=rule.json",
        "--user",
        "who",
        "--label",
        "ill",
        "--epsilon",
        1,
    ],
    "compare": ["compare", "TABLE", "--public", *DECLARED, "--epsilon", 1, "--draws", "1", "--method", "hybrid"],
    "simulate": ["protocol", "simulate", "TABLE", "--public", *DECLARED, "--seeds", "1"],
}


@pytest.fixture
def rule(tmp_path: Path) -> None:
    people = pp.UserData.from_users([[(30, 0), (80, 1)]] * 50, features={"age": pp.Integers(0, 99)})
    pp.learn(people, "threshold", epsilon=9).save(tmp_path / "rule.json")


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_every_command_reads_files_without_names_and_with_other_separators(
    command: Command, tmp_path: Path, words: list[Any]
) -> None:
    rows = [f"secret{k // 2};{k % 90};{int(k % 90 > 40)}" for k in range(120)]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    here = ["t.csv" if word == "TABLE" else word for word in words]
    told = said(command(*here))
    assert "--separator" in told
    told += said(command(*here, "--separator", ";"))
    assert "--no-header" in told
    assert "--names" in told
    assert "secret" not in told
    run = command(*here, "--separator", ";", "--no-header", "--names", "who,age,ill")
    assert run.code == 0, run


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_a_missing_file_is_told_before_anything_else(command: Command, words: list[Any]) -> None:
    spoilt = ["-1" if word == 1 else "nobody.csv" if word == "TABLE" else word for word in words]
    assert "no file matches 'nobody.csv'" in said(command(*spoilt))


# The ledger is asked before the table is read

PAYING = {name: words for name, words in READING.items() if 1 in words and name not in ("compare", "simulate")}


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("policy", [[], ["--on-invalid", "drop"]], ids=["raise", "drop"])
@pytest.mark.parametrize("words", PAYING.values(), ids=PAYING)
def test_an_exhausted_ledger_refuses_before_the_table_is_read(
    command: Command, tmp_path: Path, words: list[Any], policy: list[str]
) -> None:
    assert command("ledger", "new", "b.db", "--epsilon", "0.5", "--dataset", "d").code == 0
    (tmp_path / "broken.csv").write_text("who,age,ill\n1,2\n")
    broken = ["broken.csv" if word == "TABLE" else word for word in [*words, "--ledger", "b.db", *policy]]
    assert "budget" in said(command(*broken), 4)
    paid = ["0.1" if word == 1 else word for word in broken]
    assert "not a well-formed CSV" in said(command(*paid))
    absent = ["absent.csv" if word == "broken.csv" else word for word in broken]
    assert "no file matches" in said(command(*absent))


def test_python_asks_the_ledger_before_the_data_are_bound(tmp_path: Path) -> None:
    guarantee = pp.Guarantee("1/2", unit="user", neighbours="add-remove")
    ledger = pp.BudgetLedger.create(tmp_path / "b.db", guarantee, dataset="d")
    people = pp.UserData.from_users([[(30, 0), (500, 1)]])
    concept = pp.Thresholds(pp.Integers(0, 99))  # 500 is outside
    with pytest.raises(BudgetExhausted):
        pp.learn(people, concept, epsilon=1, ledger=ledger)
    with pytest.raises(SchemaError):
        pp.learn(people, concept, epsilon="1/4", ledger=ledger)
    assert not ledger.history()


# What a report says of missing values


@pytest.mark.parametrize(
    ("missing", "says", "never"),
    [("own", "missing values have a category of their own", "left out"), ("drop", "are left out", "of their own")],
)
@pytest.mark.parametrize("policy", ["raise", "clamp"])
def test_the_report_says_what_was_declared_of_missing_values(
    tmp_path: Path, missing: Any, says: str, never: str, policy: str
) -> None:
    table = pl.DataFrame({"who": range(60), "age": [None, 20, 70] * 20, "ill": [0, 0, 1] * 20})
    table.write_parquet(tmp_path / "t.parquet")
    declared: dict[str, Any] = {"user": "who", "label": "ill", "on_invalid": policy}
    features = {"age": pp.Missing(pp.Integers(0, 99), missing)}
    for people in (
        pp.UserData.from_frame(table, features=features, **declared),
        pp.scan(tmp_path / "t.parquet", features=features, **declared),
    ):
        released = pp.learn(people, pp.SmallTrees(depth=1), epsilon=1)
        words = released.parameters["invalid values"]
        assert says in words
        assert f"missing values {never}" not in words
        assert ("nearest end" in words) is (policy == "clamp")
        released.report(tmp_path / "r.html")
        assert words in (tmp_path / "r.html").read_text()
    assert says in pp.UserData.from_frame(table, features=features, **declared)._repr_html_()


def test_columns_with_different_rules_are_named() -> None:
    table = pl.DataFrame({"who": range(4), "a": [1] * 4, "b": [None, 1, 1, 1], "ill": [0, 1, 0, 1]})
    features = {"a": pp.Integers(0, 9), "b": pp.Missing(pp.Integers(0, 9), "own")}
    people = pp.UserData.from_frame(table, user="who", label="ill", features=features, on_invalid="drop")
    words = pp.learn(people, pp.SmallTrees(depth=1), epsilon=1).parameters["invalid values"]
    assert "missing values of b have a category of their own" in words
    assert "records with missing values of a are left out" in words
