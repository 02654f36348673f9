"""``privpac domains`` writes a schema that every command and the estimator read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import Command

import privpac as pp
from privpac.sklearn import PrivateHistogram, PrivateRuleClassifier

N = 300
BILI = np.arange(N) % 60 / 10
TABLE = pl.DataFrame(
    {
        "patient": [f"p{i // 2}" for i in range(N)],
        "status": np.where(BILI > 3, "dead", "alive"),
        "bili": BILI,
        "ward": ["north, old", "south"] * (N // 2),
    }
)
WARD = 'ward=["north, old", "south"]'


@pytest.fixture
def schema(command: Command) -> Path:
    TABLE.write_csv("t.csv")
    TABLE.write_parquet("t.parquet")
    run = command("domains", "t.csv", "-f", "bili", "-f", WARD, "--positive", "dead", "--out", "s.toml")
    assert run.code == 0, run.err
    assert "check it, then: privpac learn t.csv --schema s.toml --epsilon 1" in run.out
    return Path("s.toml")


def test_a_schema_is_written_with_reasons_and_refused_until_it_is_finished(command: Command) -> None:
    TABLE.write_parquet("t.parquet")
    run = command("domains", "t.parquet")
    assert 'bili = "0:60:0.1"               # mg/dl' in run.out
    assert "north" not in run.out
    run = command("domains", "t.parquet", "--out", "s.toml")
    assert "a person has to declare positive, ward" in run.out
    for words in (["learn", "t.parquet"], ["quantile", "t.parquet"], ["plan", "stump"]):
        run = command(*words, "--schema", "s.toml", "--epsilon", 1)
        assert run.code == 2
        assert "the schema 's.toml'" in run.err
        assert "in place of '?'" in run.err
    run = command("domains", "t.parquet", "--out", "s.toml")
    assert run.code == 2
    assert "may have edited it" in run.err
    assert command("domains", "t.parquet", "--out", "s.toml", "--overwrite").code == 0
    assert json.loads(command("domains", "t.parquet", "--json").out)["columns"] == {"bili": "0:60:0.1", "ward": "?"}
    public = command("domains", "t.parquet", "--ranges-are-public", "--json").out
    assert json.loads(public)["columns"] == {"bili": "0:5.9:0.1", "ward": ["north, old", "south"]}


def test_commands_read_it(command: Command, schema: Path) -> None:
    told = ["--schema", schema, "--epsilon", 80]
    for table in ("t.csv", "t.parquet"):
        run = command("learn", table, *told, "--out", "r.json")
        assert run.out.startswith("dead when bili > 3\n"), run.err
        assert "ε = 80 for each person" in run.out
    run = command("evaluate", "r.json", "t.csv", *told, "--cells", "error")
    assert "wrong for" in run.out, run.err
    assert "for each person" in run.out
    assert command("quantile", "t.csv", *told, "-f", "bili").out.startswith("bili: median")
    assert "north, old" in command("distribution", "t.csv", *told, "-f", "ward").out
    assert "interval" in command("learn", "t.csv", *told, "-f", "bili", "--rule", "interval", "--json").out.lower()
    found = command("best-error", "t.csv", *told, "--feature", "bili")
    assert found.code == 0, found.err
    assert command("select-model", "t.csv", *told, "--model", "a=r.json", "--model", "b=r.json").code == 0
    run = command(
        "plan", "interval", "--schema", schema, "-f", "bili", "-e", 1, "--people", 500, "-m", 4, "--no-predict"
    )
    assert "hybrid selection" in run.out, run.err
    run = command(
        "compare", "t.csv", "--public", *told, "-f", "bili", "--people", 50, "--draws", 1, "--method", "hybrid"
    )
    assert run.code == 0, run.err


def test_options_go_before_the_schema_and_errors_name_them(command: Command, schema: Path) -> None:
    run = command("learn", "t.csv", "--schema", schema, "--epsilon", 80, "-f", "bili=0:5:1", "--positive", "alive")
    assert run.out.startswith("alive when bili <= "), run.err
    for words, said in (
        (["-f", "nose"], "no column 'nose'"),
        (["-f", "bili", "-f", "bili"], "named twice"),
        (["--schema", "other.toml"], "privpac domains"),
    ):
        run = command("learn", "t.csv", "--schema", schema, "--epsilon", 1, *words)
        assert run.code == 2
        assert said in run.err
    assert "--label" in command("learn", "t.csv", "-f", "bili=0:9:0.1", "--epsilon", 1).err
    assert "--schema" in command("learn", "t.csv", "-y", "status", "--epsilon", 1).err
    run = command("learn", "t.csv", "--schema", schema, "--epsilon", 1, "--out", schema)
    assert run.code == 2
    assert "name the same file" in run.err


def test_estimators_read_it(schema: Path) -> None:
    frame, y = TABLE.select("bili", "ward").to_pandas(), TABLE["status"].to_numpy()
    model = PrivateRuleClassifier(epsilon=80, schema=schema).fit(frame, y, groups=TABLE["patient"].to_numpy())
    assert str(model.rule_) == "dead when bili > 3"
    assert model.predict(frame)[:1].tolist() == ["alive"]
    turned = pp.Schema(pp.Schema.read(schema).columns, label="y", positive="alive")
    other = PrivateRuleClassifier(epsilon=80, schema=turned).fit(frame, y, groups=TABLE["patient"].to_numpy())
    assert str(other.rule_) == "alive when bili <= 3"
    drawn = PrivateHistogram(schema=schema, bins=None).fit(frame[["ward"]], groups=TABLE["patient"].to_numpy())
    assert drawn.guarantee_.unit == "user"
    with pytest.raises(ValueError, match="give one of them"):
        PrivateRuleClassifier(schema=schema, domains=[pp.Floats()]).fit(frame, y, groups=y)
    with pytest.raises(ValueError, match="not in the schema"):
        PrivateRuleClassifier(schema=schema).fit(frame.rename(columns={"ward": "w"}), y, groups=y)
