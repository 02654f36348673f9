"""``privpac learn --people-are``: what is publicly known about the people reaches the choice of a method."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from commands import Command

NUMBERS = ["--people", "60", "--records-per-user", "16"]
WORDS = ["--user", "who", "--label", "ill", "--feature", "age=0:99", "--epsilon", "0.5"]


@pytest.fixture
def learn(command: Command, tmp_path: Path) -> Command:
    pl.DataFrame({"who": ["a", "a", "b"], "age": [30, 80, 20], "ill": [0, 1, 0]}).write_parquet(tmp_path / "t.parquet")
    return partial(command, "learn", tmp_path / "t.parquet", *WORDS)


@pytest.mark.parametrize(("people", "statistic"), [("alike", None), ("differ", "mean")])
def test_the_declaration_decides_the_method_and_the_result_says_why(
    learn: Command, people: str, statistic: str | None
) -> None:
    run = learn(*NUMBERS, "--people-are", people, "--json")
    assert run.code == 0
    parameters = json.loads(run.out)["parameters"]
    assert parameters.get("statistic") == statistic
    assert ("keep one label" in parameters["chosen because"]) == (people == "differ")


@pytest.mark.parametrize(
    "words", [["--people-are", "clock", *NUMBERS], ["--people-are", "differ"]], ids=["unknown", "no numbers"]
)
def test_a_declaration_that_cannot_be_used_is_one_line_and_exit_code_2(learn: Command, words: list[str]) -> None:
    run = learn(*words)
    assert run.code == 2
    assert run.out == ""
    assert run.err.count("\n") == 1
    assert "users" in run.err
