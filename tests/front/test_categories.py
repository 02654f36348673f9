"""Unordered categories at every door: the command, the estimator, the studio, the service's rules."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import Command, Run

import privpac as pp
from privpac.data.schema_file import Schema
from privpac.sklearn import PrivateRuleClassifier
from privpac.studio.plans import planned, shown_rule_name

SITES = ["west", "north", "south"]
UNORDERED, ORDERED = "site={west,north,south}", "site={west<north<south}"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The site in the middle of the list is where people fall ill: no cut says so."""
    site = np.random.default_rng(3).choice(SITES, 1200)
    frame = pl.DataFrame({"who": np.arange(1200) // 4, "site": site, "ill": (site == "north").astype(int)})
    frame.write_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_the_command_learns_saves_and_applies_a_category(command: Command, table: Path) -> None:
    def learn(feature: str, *more: str) -> Run:
        return command("learn", table, "-u", "who", "-y", "ill", "--feature", feature, "-e", "20", *more)

    assert learn(UNORDERED, "-o", "rule.json").out.startswith("ill when site is north\n")
    stored = json.loads((table.parent / "rule.json").read_text())["value"]
    assert (stored["kind"], stored["direction"], stored["cut"]) == ("stump", "is", "1")
    assert command("predict", "rule.json", table).code == 0
    refused = learn(UNORDERED, "-r", "threshold")
    assert refused.code == 2
    assert "'site' has unordered categories" in refused.err
    assert "ordered=True" in refused.err
    assert "{a<b<c}" in refused.err
    assert " is " not in learn(ORDERED, "-r", "threshold").out.splitlines()[0]


def test_quantiles_and_plans_at_the_command(command: Command, table: Path) -> None:
    refused = command("quantile", table, "-u", "who", "--feature", UNORDERED, "-e", "1")
    assert refused.code == 2
    assert "has no median" in refused.err
    assert "ordered=True" in refused.err
    assert command("quantile", table, "-u", "who", "--feature", ORDERED, "-e", "1").code == 0
    planned = command("plan", "stump", "--feature", UNORDERED, "-e", "1", "--records-per-user", "4")
    assert planned.code == 0
    assert "{west,north,south}" in planned.out


def test_the_estimator_asks_for_a_category(table: Path) -> None:
    frame = pl.read_parquet(table)
    model = PrivateRuleClassifier(epsilon=20, domains={"site": pp.Categories(SITES)}, classes=[0, 1])
    model.fit(frame.select("site"), frame["ill"].to_numpy(), groups=frame["who"].to_numpy())
    assert str(model.rule_).endswith("when site is north")
    assert (model.predict(frame.select("site")) == frame["ill"].to_numpy()).all()


def test_the_studio_plans_what_would_be_learned() -> None:
    columns: dict[str, pp.Domain] = {"site": pp.Categories(SITES)}
    assert shown_rule_name(None, columns) == "stump"
    assert shown_rule_name(None, {"site": pp.Categories(SITES, ordered=True)}) == "threshold"
    assert shown_rule_name(None, dict.fromkeys("abcde", pp.Integers(0, 9))) == "small-tree"
    schema = Schema(columns=columns, user="who", label="ill")  # type: ignore[arg-type]
    found = planned(schema, "t.toml", rule=None, epsilon="1", alpha="0.1", people=None, records=4)
    assert found["rule"] == "stump"
    assert found["rows"]
