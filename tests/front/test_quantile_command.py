"""``privpac quantile``: released, saved, paid for, and refused in one line."""

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
    pl.DataFrame({"id": [k // 2 for k in range(800)], "age": [k % 90 for k in range(800)]}).write_parquet(path)
    return path


def test_quartiles_are_released_saved_and_paid_for(command: Command, table: Path, tmp_path: Path) -> None:
    book, out = tmp_path / "b.db", tmp_path / "q.json"
    assert command("ledger", "new", str(book), "--epsilon", "1", "--dataset", "people").code == 0
    words = ["quantile", str(table), "-u", "id", "-f", "age=0:99", "-e", "1", "-q", "1/4", "-q", "3/4"]
    run = command(*words, "--interval", "--ledger", str(book), "--out", str(out))
    assert run.code == 0, run.err
    assert "25% quantile" in run.out
    assert len(pp.load(out).value.values) == 2
    assert command(*words, "--ledger", str(book)).code == 4


def test_the_result_as_json(command: Command, table: Path) -> None:
    run = command("quantile", str(table), "-u", "id", "-f", "age=0:99", "-e", "2", "--weight", "own", "--json")
    assert run.code == 0, run.err
    body = json.loads(run.out)
    assert body["value"]["kind"] == "quantiles"


@pytest.mark.parametrize(
    "words",
    [
        ["-f", "age=0:99", "-e", "1", "--weight", "record"],
        ["-f", "age=0:99", "-e", "1", "-q", "2"],
        ["-f", "age=0:99", "-f", "id=0:999", "-e", "1"],
        ["-f", "age=0:99", "-e", "1", "--method", "walks", "--delta", "1e-6", "--weight", "own"],
        ["-f", "age=0:9", "-e", "1"],
    ],
)
def test_what_cannot_be_is_refused_in_one_line(command: Command, table: Path, words: list[str]) -> None:
    run = command("quantile", str(table), "-u", "id", *words)
    assert run.code == 2
    assert run.err.count("\n") == 1


def test_the_plan_names_the_command_that_runs(command: Command, table: Path) -> None:
    plan = pp.plan("median", domain=pp.Integers(0, 99), epsilon=1, alpha="0.1")
    words = plan.command("median by its rank", records_per_user=1).split()
    assert words[1] == "quantile"
    given = {"TABLE.parquet": str(table), "USER": "id"}
    run = command(*[given.get(word, word.replace("COLUMN", "age")) for word in words[1:]])
    assert run.code == 0, run.err
