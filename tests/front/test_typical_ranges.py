"""A typical range reaches the rules from every place where a column is declared; rule files of before still load."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
from commands import Command

import privpac as pp
from privpac.rules.small_trees import SmallTree

WIDE = pp.Integers(0, 10**7, typical=(10_000, 200_000))
WORDS = ("--user", "who", "--label", "y", "--rule", "small-tree", "--epsilon", "20", "--out", "m.json")


def table() -> pl.DataFrame:
    income = np.random.default_rng(3).integers(10_000, 200_000, 300)
    return pl.DataFrame({"who": np.arange(300), "income": income, "y": (income > 100_000).astype(int)})


def learned() -> SmallTree:
    rule = pp.load("m.json").value
    assert isinstance(rule, SmallTree)
    return rule


def test_the_command_line_and_a_schema_file_declare_it_alike(command: Command) -> None:
    table().write_parquet("t.parquet")
    run = command("learn", "t.parquet", *WORDS, "--feature", "income=0:10000000~10000:200000")
    assert run.code == 0, run.err
    by_option = learned()
    assert by_option.columns[0].domain == WIDE
    assert len(by_option.columns[0].edges) == 15
    assert by_option.columns[0].edges[0] == 10_000
    Path("s.toml").write_text("[columns]\nincome = { domain = '0:10000000', typical = [10000, 200000] }\n")
    assert command("learn", "t.parquet", *WORDS, "--schema", "s.toml").code == 0
    assert learned().columns == by_option.columns
    wrong = np.mean(learned().predict(table().select("income")) != table()["y"].to_numpy())
    assert wrong < 0.15


def test_names_that_lie_far_from_zero_are_suggested_with_it() -> None:
    found = pp.suggest_domains(["patient", "height", "age", "died"])
    assert found.columns == {"height": pp.Integers(0, 260, typical=(140, 200)), "age": pp.Integers(0, 120)}
    assert "0:260~140:200" in found.to_toml()


def test_a_rule_file_keeps_its_own_bins(tmp_path: Path) -> None:
    """Files hold the edges: one written with equal bins loads and predicts as it did."""
    people = pp.UserData.from_frame(table(), user="who", features={"income": pp.Integers(0, 10**7)}, label="y")
    old = pp.learn(people, pp.SmallTrees(spacing="equal"), epsilon=1)
    old.save(tmp_path / "old.json")
    stored = json.loads((tmp_path / "old.json").read_text())
    assert "typical" not in json.dumps(stored)
    again = pp.load(tmp_path / "old.json").value
    assert again == old.value
    assert [len(column.edges) for column in again.columns] == [15]
