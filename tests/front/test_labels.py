"""Labels, ids and missing values as people have them: texts, chosen columns, declared policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from commands import Command

import privpac as pp
from privpac.errors import ParameterError, SchemaError

BILI = {"bili": pp.Grid(0, 30, "0.1")}
PATIENTS = pd.DataFrame(
    {
        "id": [f"p{i}" for i in range(400)],
        "bili": [(i % 60) / 10 for i in range(400)],
        "status": ["dead" if i % 60 > 30 else ("alive", "censored")[i % 2] for i in range(400)],
    }
)


def read(frame: Any = PATIENTS, **more: Any) -> pp.UserData:
    return pp.UserData.from_frame(frame, user="id", features=BILI, label="status", **more)


@pytest.mark.parametrize("how", [{"positive": "dead"}, {"label_map": {"dead": 1, "alive": 0, "censored": 0}}])
def test_text_labels_are_taken_as_they_are_and_named_in_the_rule(how: dict[str, Any]) -> None:
    """400 people agree on the cut 3: at epsilon 80 any other rule has probability below 1e-20."""
    rule = pp.learn(read(**how), "threshold", epsilon=80)
    assert str(rule.value) == "dead when bili > 3"
    assert repr(rule.value) == "<Threshold: dead when bili > 3>", "a repr shows values, not codes"


@pytest.mark.parametrize(
    ("labels", "how", "said"),
    [
        ([True, False], {}, "event"),
        (["yes", "no"], {"positive": "yes"}, "event"),
        (["dead", "alive"], {"label_map": {"dead": 1, "transplant": 1, "alive": 0}}, "dead or transplant"),
        ([2, 1], {"positive": 2}, "2"),
    ],
)
def test_what_is_predicted_is_named_by_the_value_where_it_says_more(labels: Any, how: Any, said: str) -> None:
    frame = pl.DataFrame({"id": [1, 2], "bili": [1.0, 2.0], "event": labels})
    data = pp.UserData.from_frame(frame, user="id", features=BILI, label="event", **how)
    assert data.label_name == said
    assert data.labels is not None
    assert data.labels.tolist() == [1, 0]


def test_positive_refuses_what_makes_no_sense_and_counts_missing_labels() -> None:
    with pytest.raises(ParameterError, match="give one"):
        read(positive="dead", label_map={"dead": 1})
    with pytest.raises(ParameterError, match="label="):
        pp.UserData.from_frame(PATIENTS, user="id", features=BILI, positive="dead")
    missing = PATIENTS.assign(status=["dead", None, *PATIENTS["status"][2:]])
    with pytest.raises(SchemaError, match="1 missing"):
        read(missing, positive="dead")
    for policy in ("drop", "clamp"):
        with pytest.raises(SchemaError, match=r"1 missing .*on_invalid_label='drop'"):
            read(missing, positive="dead", on_invalid=policy)
        assert read(missing, positive="dead", on_invalid=policy, on_invalid_label="drop").n_records == 399


@pytest.mark.parametrize("policy", ["drop", "clamp"])
def test_a_result_says_what_was_declared_for_missing_values_and_no_count(policy: str) -> None:
    holes = PATIENTS.assign(bili=[None, *PATIENTS["bili"][1:]])
    said = [pp.learn(read(t, positive="dead", on_invalid=policy), epsilon=1) for t in (holes, PATIENTS)]
    assert "left out" in said[0].parameters["invalid values"]
    assert said[0].parameters["invalid values"] == said[1].parameters["invalid values"]
    assert "invalid values" not in pp.learn(read(positive="dead"), epsilon=1).parameters


def test_commands_read_text_labels_and_predictions_keep_ids(command: Command) -> None:
    PATIENTS.to_csv("t.csv", index=False)
    words = ["t.csv", "--user", "id", "--label", "status", "--feature", "bili=0:30:0.1", "--epsilon", 80, "--out", "m"]
    run = command("learn", *words, "--positive", "dead", "--rule", "threshold")
    assert run.out.startswith("dead when bili > 3\n"), run.err
    run = command("predict", "m", "t.csv", "--keep", "id")
    assert run.out.splitlines()[:2] == ["id,prediction", "p0,0"]
    assert command("predict", "m", "t.csv").out.splitlines()[:2] == ["prediction", "0"]
    rows = json.loads(command("predict", "m", "t.csv", "--keep", "id", "--keep", "bili", "--json").out)
    assert list(rows[0]) == ["id", "bili", "prediction"]
    assert command("predict", "m", "t.csv", "--keep", "id", "--out", "said.parquet").code == 0
    assert pl.read_parquet("said.parquet").columns == ["id", "prediction"]
    assert "no column" in command("predict", "m", "t.csv", "--keep", "name").err
    assert "rename" in command("predict", "m", "t.csv", "--keep", "prediction").err
    Path("folder").mkdir()
    pl.read_csv("t.csv").write_parquet("folder/t.parquet")
    run = command("learn", "folder", *words[1:-2], "--positive", "dead")
    assert run.out.startswith("dead when bili > 3\n"), run.err  # a folder is streamed
