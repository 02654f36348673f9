"""``privpac cap``, ``privpac protocol simulate`` and the doors of a service's certificate on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from commands import Command

import privpac as pp


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    ages = [(7 * k) % 20 for k in range(3000)]
    rows = {"id": [k // 3 for k in range(3000)], "age": ages, "ill": [int(age > 9) for age in ages]}
    pl.DataFrame(rows).write_parquet(path)
    return path


# A cap


def test_a_cap_is_bought_saved_and_paid_for(command: Command, table: Path, tmp_path: Path) -> None:
    book, out = tmp_path / "b.db", tmp_path / "cap.json"
    assert command("ledger", "new", str(book), "--epsilon", "1", "--dataset", "people").code == 0
    words = ["cap", str(table), "-u", "id", "-f", "age=0:19", "-e", "1", "--ledger", str(book)]
    run = command(*words, "--out", str(out))
    assert run.code == 0, run.err
    assert "records, (1, 0)-DP per user" in run.out
    assert pp.load(out).value >= 4  # everybody holds three
    assert command(*words).code == 4


def test_a_cap_among_declared_ones(command: Command, table: Path) -> None:
    words = ["cap", str(table), "-u", "id", "-f", "age=0:19", "-e", "2", "--choice", "2", "--choice", "9", "--json"]
    run = command(*words)
    assert run.code == 0, run.err
    assert json.loads(run.out)["value"] == 9


@pytest.mark.parametrize("wrong", [["--share", "2"], ["--choice", "9", "--choice", "2"], ["-e", "-1"]], ids=str)
def test_a_wrong_cap_is_refused_in_one_line(command: Command, table: Path, wrong: list[str]) -> None:
    given = ["cap", str(table), "-u", "id", "-f", "age=0:19", *([] if "-e" in wrong else ["-e", "1"]), *wrong]
    run = command(*given)
    assert run.code == 2
    assert len(run.err.strip().splitlines()) == 1


# Agreement before a run


def test_made_up_people_and_a_public_table_say_how_far_they_agree(command: Command, table: Path) -> None:
    words = ["protocol", "simulate", "-f", "age=0:19", "--people", "12", "-m", "60", "--seeds", "2", "--gamma", "20"]
    run = command(*words)
    assert run.code == 0, run.err
    assert "of 12 people name one rule" in run.out
    named = command("protocol", "simulate", str(table), "--public", "-u", "id", "-y", "ill", *words[2:4], "--json")
    assert named.code == 0, named.err
    assert json.loads(named.out)["people"] == 1000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["TABLE", "-u", "id", "-y", "ill"], "--public"),
        (["TABLE", "--public", "-y", "ill"], "--user"),
        (["--public"], "describe a table"),
        (["--rule", "naive-bayes"], "no model of people"),
        (["--people", "100000", "-m", "1000"], "at most"),
    ],
)
def test_private_people_are_never_asked(command: Command, table: Path, words: list[str], says: str) -> None:
    run = command("protocol", "simulate", "-f", "age=0:19", *(str(table) if w == "TABLE" else w for w in words))
    assert run.code == 2
    assert says in run.err


# A service


def test_a_plan_of_answers_and_of_representations(command: Command) -> None:
    run = command("plan", "threshold", "--domain", "64", "--queries", "4", "-e", "8", "--alpha", "0.3", "--json")
    assert run.code == 0, run.err
    rows = {row["method"]: row["n_users"] for row in json.loads(run.out)["rows"]}
    assert rows["prediction service"][0] > rows["any private service"][0]
    named = [
        "plan",
        "point",
        "--domain",
        "2^60",
        "--representation",
        "hashed",
        "-e",
        "1",
        "-m",
        "1",
        "--no-predict",
        "--all",
    ]
    assert "surrogate selection" in command(*named).out
    assert "--queries plans a service" in command("plan", "histogram", "--bins", "3", "-e", "1", "--queries", "3").err


def test_fit_chooses_certified_constants_and_says_what_is_certified(
    command: Command, table: Path, tmp_path: Path
) -> None:
    pytest.importorskip("cryptography")
    book = tmp_path / "b.db"
    assert command("ledger", "new", str(book), "--epsilon", "8", "--dataset", "people").code == 0
    words = ["serve", "fit", str(table), "-u", "id", "-y", "ill", "-f", "age=0:19", "-e", "8", "-k", "3"]
    words += ["--people", "30000", "--alpha", "0.3", "--ledger", str(book), "--key-file", str(tmp_path / "k")]
    run = command(*words, "--out", str(tmp_path / "s.ppm"))
    assert run.code == 0, run.err
    assert "certified: at most 0." in run.out
