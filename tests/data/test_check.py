"""The curator's check: it counts what reading does, on every route, and nothing that is released knows of it."""

from __future__ import annotations

import json
import logging
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.api.learn import learner_for
from privpac.data.check import NOTICE, DataCheck
from privpac.errors import ParameterError, SchemaError
from privpac.testing import SeededRng, insecure_randomness

TABLE = pl.DataFrame(
    {
        "who": ["a", "a", "b", None, "c", "c", "c", ""],
        "age": [30.0, None, 200.0, 3.0, 12.5, float("nan"), 44.0, 1.0],
        "ward": ["n", "s", None, "n", "x", None, "s", "n"],
        "ill": ["yes", "no", "no", "no", "yes", "no", None, "no"],
    }
)
COLUMNS = {"age": pp.Integers(0, 99), "ward": pp.Categories(["n", "s"])}
SAID: dict[str, Any] = {"user": "who", "label": "ill", "positive": "yes"}
DROPPING = SAID | {"on_invalid_label": "drop"}


def by_reason(found: DataCheck) -> dict[tuple[str, str], tuple[int, str]]:
    return {(fault.column, fault.reason): (fault.records, fault.what) for fault in found.columns}


def test_every_column_and_reason_is_counted_under_clamp() -> None:
    found = pp.UserData.from_frame(TABLE, **DROPPING, features=COLUMNS, on_invalid="clamp").check(max_records=1)
    met = by_reason(found)
    assert met["who", "user ids that are missing"] == (2, "dropped")
    assert met["age", "missing or NaN"] == (2, "dropped")
    assert met["age", "outside whole numbers 0..99: moved to the nearest end"] == (1, "repaired")
    assert met["age", "not whole numbers: moved to the value below"] == (1, "repaired")
    assert met["ward", "missing or NaN"] == (2, "dropped")
    assert met["ward", "not a listed category"] == (1, "dropped")
    assert met["ill", "missing or NaN"] == (1, "dropped")
    assert (found.records_read, found.records_kept, found.people_read, found.people_kept) == (8, 1, 3, 1)
    assert (found.lost_records, found.lost_people) == (7, 2)
    assert found.records_per_person == {"min": 1, "q1": 1, "median": 1, "q3": 1, "max": 1}
    assert (found.max_records, found.people_over_cap) == (1, 0)


def test_counts_are_those_of_the_data_that_were_built() -> None:
    people = pp.UserData.from_frame(TABLE, **DROPPING, features=COLUMNS, on_invalid="drop")
    found = people.check()
    assert found.records_kept == people.n_records
    assert sum(count.records for count in found.labels) == people.n_records
    assert found.people_kept == int((people.sizes > 0).sum())


def test_a_table_that_would_be_refused_is_checked_with_every_verdict() -> None:
    with pytest.raises(SchemaError):
        pp.UserData.from_frame(TABLE, **SAID, features=COLUMNS)
    found = pp.check(TABLE, **SAID, features=COLUMNS)
    assert {fault.what for fault in found.columns} == {"refused"}
    assert found.records_kept == 1  # the one record without a fault
    assert "this table is refused" in found.warnings[0]
    assert [(count.label, count.records, count.read_as) for count in found.labels] == [
        ("no", 5, "0"),
        ("yes", 2, "1"),
        ("(missing)", 1, "refused"),
    ]


@pytest.mark.parametrize("policy", ["raise", "drop", "clamp"])
def test_types_that_cannot_be_read_are_listed_and_the_rest_is_counted(policy: str, tmp_path: Path) -> None:
    table = TABLE.with_columns(pl.Series("tags", [[1]] * 8))
    table.write_parquet(tmp_path / "t.parquet")
    columns = COLUMNS | {"tags": pp.Integers(0, 9)}
    for source, engine in ((table, "auto"), (tmp_path / "t.parquet", "memory"), (tmp_path / "t.parquet", "stream")):
        found = pp.check(source, **SAID, features=columns, on_invalid=policy, engine=engine)
        assert by_reason(found)["tags", "type List; numbers are needed"] == (8, "refused")
        assert by_reason(found)["ward", "missing or NaN"][0] == 2
        assert found.records_kept == found.people_kept == 0
        assert found.people_read == 3


def test_a_label_of_texts_with_nothing_named_shows_its_values() -> None:
    found = pp.check(TABLE, user="who", label="ill", features=COLUMNS, on_invalid="drop")
    assert [(count.label, count.read_as) for count in found.labels][:2] == [("no", "refused"), ("yes", "refused")]
    assert any("positive=" in fault.reason for fault in found.columns if fault.column == "ill")


def test_ids_that_cannot_be_read_leave_nobody() -> None:
    table = pl.DataFrame({"who": [[1], [2]], "age": [1, 200]})
    found = pp.check(table, user="who", features={"age": pp.Integers(0, 99)})
    assert (found.records_read, found.people_read, found.people_kept) == (2, 0, 0)
    assert by_reason(found)["age", "outside whole numbers 0..99"] == (1, "refused")


def test_columns_of_lists_that_nobody_can_read_are_listed(tmp_path: Path) -> None:
    found = pp.check(pl.DataFrame({"who": [[1]], "age": [[2]]}), user="who", features={"age": pp.Integers(0, 9)})
    assert found.records_read == 1
    assert {fault.column for fault in found.columns} == {"who", "age"}
    with pytest.raises(SchemaError, match="no column"):
        pp.check(TABLE, user="nobody", features={"nothing": pp.Integers(0, 9)})


def test_a_label_that_the_table_writes_otherwise_is_a_warning() -> None:
    table = pl.DataFrame({"who": range(40), "age": [5] * 40, "ill": ["dead", "alive"] * 20})
    found = pp.check(table, user="who", label="ill", positive="Dead", features={"age": pp.Integers(0, 99)})
    assert any("no record that is kept has the label 1 (Dead)" in line for line in found.warnings)
    assert {(count.label, count.read_as) for count in found.labels} == {("dead", "0"), ("alive", "0")}


@pytest.mark.parametrize(("holes", "warned"), [(5, False), (6, True)])
def test_more_than_five_per_cent_is_a_warning_that_names_the_remedy(holes: int, warned: bool) -> None:
    table = pl.DataFrame({"who": range(100), "ward": [None] * holes + ["n"] * (100 - holes)})
    domain = pp.Categories(["n", "s"])
    lost = pp.UserData.from_frame(table, user="who", features={"ward": domain}, on_invalid="clamp").check()
    assert lost.lost_records == holes
    assert any(f"{holes} of 100 records are lost" in line for line in lost.warnings) is warned
    assert any(f"{holes} of 100 people are lost" in line for line in lost.warnings) is warned
    assert any('Missing(domain, "own")' in line and "missing=own" in line for line in lost.warnings) is warned
    kept = pp.UserData.from_frame(table, user="who", features={"ward": pp.Missing(domain, "own")}).check()
    assert (kept.lost_records, kept.warnings, kept.columns) == (0, (), ())


def test_a_declared_drop_of_missing_values_is_counted_under_raise() -> None:
    table = pl.DataFrame({"who": [1, 2], "age": [None, 5]})
    domain = pp.Missing(pp.Integers(0, 9), "drop")
    people = pp.UserData.from_frame(table, user="who", features={"age": domain})
    assert by_reason(people.check()) == {("age", "missing or NaN"): (1, "dropped")}


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("order", ["sorted", "strewn"])
@pytest.mark.parametrize("policy", ["raise", "drop", "clamp"])
def test_streams_count_as_memory_does(tmp_path: Path, rows: int, order: str, policy: str) -> None:
    table = TABLE.sort("who", nulls_last=True) if order == "sorted" else TABLE
    table.write_parquet(tmp_path / "t.parquet", row_group_size=3)
    memory = pp.check(TABLE, **DROPPING, features=COLUMNS, on_invalid=policy)
    if policy == "raise":
        stream = pp.check(tmp_path / "t.parquet", **DROPPING, features=COLUMNS, engine="stream")
    else:
        scanned = pp.scan(tmp_path / "t.parquet", **DROPPING, features=COLUMNS, on_invalid=policy, chunk_rows=rows)
        stream = scanned.check()
    for name in ("records_read", "records_kept", "people_read", "people_kept", "columns", "records_per_person"):
        assert getattr(stream, name) == getattr(memory, name), name
    assert stream.warnings == memory.warnings


def test_binding_later_is_counted_too() -> None:
    table = TABLE.select("who", "age")
    people = pp.UserData.from_frame(table, user="who", features=["age"], on_invalid="drop")
    assert people.check().unchecked == ("age",)
    bound = people.bind({"age": COLUMNS["age"]})
    once = pp.UserData.from_frame(table, user="who", features={"age": COLUMNS["age"]}, on_invalid="drop")
    assert bound.check().to_dict() == once.check().to_dict()


def test_parts_are_not_checked() -> None:
    people = pp.UserData.from_frame(TABLE, **DROPPING, features=COLUMNS, on_invalid="drop")
    halves = people.split({"a": "1/2", "b": "1/2"})
    for part in (people.max_records(1), people.take([0]), halves["a"]):
        with pytest.raises(ParameterError, match="only a whole table"):
            part.check()


def test_a_check_says_whose_it_is_and_cannot_be_kept() -> None:
    found = pp.check(TABLE, **SAID, features=COLUMNS)
    assert str(found).startswith(NOTICE)
    assert "for the curator only" in NOTICE
    assert not any(letter.isdigit() for letter in repr(found))
    with pytest.raises(TypeError, match="not stored"):
        pickle.dumps(found)
    assert not hasattr(found, "save")
    assert set(json.loads(json.dumps(found.to_dict()))) >= {
        "records_read",
        "people_kept",
        "columns",
        "labels",
        "notice",
    }
    assert found.to_frame()["records"].to_list() == [fault.records for fault in found.columns]
    assert "class='warn'" in found._repr_html_()
    assert NOTICE in found._repr_html_()


def test_hostile_label_texts_stay_in_one_line() -> None:
    table = pl.DataFrame({"who": [1, 2], "x": [1, 2], "y": ["\x1b[2Jno", "yes\nwarning: none" + "x" * 500]})
    shown = str(pp.check(table, user="who", label="y", positive="yes", features={"x": pp.Integers(0, 9)}))
    assert "\x1b" not in shown
    assert "\nwarning: none" not in shown
    assert "x" * 100 not in shown


def test_many_labels_are_summed_up() -> None:
    table = pl.DataFrame({"who": range(50), "x": [1] * 50, "y": range(50)})
    labels = pp.check(table, user="who", label="y", features={"x": pp.Integers(0, 9)}).labels
    assert len(labels) == 21
    assert labels[-1].label == "(30 other values)"
    assert sum(count.records for count in labels) == 50


@settings(max_examples=40, deadline=None)
@given(
    ages=st.lists(st.one_of(st.none(), st.integers(-5, 15), st.sampled_from([2.5, float("inf")])), min_size=1),
    policy=st.sampled_from(["drop", "clamp"]),
)
def test_no_policy_keeps_or_loses_what_the_check_does_not_say(ages: list[Any], policy: str) -> None:
    table = pl.DataFrame({"age": pl.Series(ages, dtype=pl.Float64, strict=False)})
    people = pp.UserData.from_frame(table, user=None, features={"age": pp.Integers(0, 9)}, on_invalid=policy)
    found = people.check()
    dropped = sum(fault.records for fault in found.columns if fault.what == "dropped")
    assert (found.records_read, found.records_kept) == (len(ages), people.n_records)
    assert found.lost_records == dropped  # one column: a record is dropped once
    strict = pp.check(table, user=None, features={"age": pp.Integers(0, 9)})
    assert sum(fault.records for fault in strict.columns) == sum(fault.records for fault in found.columns)


# Nothing else knows


def leaving(people: pp.UserData, folder: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Everything that leaves: text, JSON, a saved file, a report, what a notebook shows, the log."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG), insecure_randomness():
        released = learner_for(pp.Thresholds(), epsilon=Fraction(1)).learn(people, rng=SeededRng(7))
    released.save(folder / "rule.json")
    released.report(folder / "rule.html")
    files = [(folder / name).read_text() for name in ("rule.json", "rule.html")]
    return [str(released), released.to_json(), *files, repr(people), people._repr_html_(), caplog.text]


def test_no_release_report_log_or_file_changes_with_the_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The same records, read from a table with faults and from one without: what leaves is the same."""
    ages = [k % 90 for k in range(60)]
    clean = pl.DataFrame({"who": range(60), "age": ages, "ill": [age > 30 for age in ages]})
    faults = pl.DataFrame({"who": [None] * 7, "age": [5] * 7, "ill": [True] * 7}, schema=clean.schema)
    said: dict[str, Any] = {"user": "who", "label": "ill", "features": {"age": COLUMNS["age"]}, "on_invalid": "drop"}
    first = pp.UserData.from_frame(clean, **said)
    second = pp.UserData.from_frame(pl.concat([clean, faults]), **said)
    assert first.check().to_dict() != second.check().to_dict()
    before = leaving(second, tmp_path, caplog)
    second.check()
    assert leaving(first, tmp_path, caplog) == before == leaving(second, tmp_path, caplog)
