"""Schema files: what is written is read again, what is wrong is said, and values are never looked at."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data.domains import domain_text, parse_domain
from privpac.data.schema_file import LARGEST, parse_schema
from privpac.data.suggest import _ENTRIES as ENTRIES
from privpac.data.suggest import chosen, column_types, known_domain
from privpac.errors import ParameterError, SchemaError

PEOPLE = pl.DataFrame(
    {
        "patient": ["a", "a", "b", "c"],
        "status": ["dead", "alive", "alive", "dead"],
        "age": [30, 45, None, 60],
        "ward": ["north", "south", "north", "south"],
    }
)
FINISHED = {"age": pp.Integers(0, 120), "ward": pp.Categories(["north", "south"])}

# What is written is read again

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
days = st.integers(0, 40_000).map(lambda n: date(1950, 1, 1) + timedelta(n))
categories = st.lists(
    st.one_of(texts, st.integers(-(10**9), 10**9), st.booleans()),
    min_size=1,
    max_size=5,
    unique_by=lambda v: str(v).lower(),
)
plain = st.one_of(
    st.tuples(st.integers(-(10**12), 10**12), st.integers(0, 10**9)).map(lambda p: pp.Integers(p[0], p[0] + p[1])),
    st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 10**4), st.sampled_from(["0.1", "0.25", "2", "0.001"])).map(
        lambda p: pp.Grid(p[0], p[0] + p[1] * 2, p[2])
    ),
    st.tuples(days, st.integers(0, 999)).map(lambda p: pp.Dates(p[0], p[0] + timedelta(p[1]))),
    categories.map(pp.Categories),
    st.just(pp.Floats()),
)
rules = st.sampled_from(["own", "drop", "raise"])
domains = st.one_of(plain, st.just(pp.Texts()), st.tuples(plain, rules).map(lambda p: pp.Missing(*p)), st.none())


@st.composite
def schemas(draw: Any) -> pp.Schema:
    columns = draw(st.dictionaries(names, domains, min_size=1, max_size=5))
    user, label = draw(st.lists(names.filter(lambda n: n not in columns), min_size=2, max_size=2, unique=True))
    told: dict[str, Any] = {
        "user": draw(st.sampled_from([user, None, "?"])),
        "label": draw(st.sampled_from([label, None])),
    }
    if told["label"] is not None:
        meaning = draw(st.sampled_from(["positive", "label_map", "classes", "nothing"]))
        if meaning == "positive":
            told["positive"] = draw(
                st.one_of(texts.filter(lambda t: t != "\0other"), st.integers(-9, 9), st.booleans())
            )
        if meaning == "label_map":
            told["label_map"] = dict(zip(draw(st.lists(texts, min_size=2, max_size=3, unique=True)), (1, 0, 0)))
        if meaning == "classes":
            told["classes"] = draw(st.lists(texts, min_size=2, max_size=4, unique=True))
    told["on_invalid"] = draw(st.sampled_from([None, "raise", "drop", "clamp"]))
    told["missing"] = draw(st.sampled_from([None, "own", "drop", "raise"]))
    notes = draw(st.dictionaries(st.sampled_from(["", "user", "positive", *(f"columns.{n}" for n in columns)]), texts))
    return pp.Schema(columns, notes=notes, **told)


@settings(max_examples=150, deadline=None)
@given(schemas())
def test_what_is_written_is_read_again(schema: pp.Schema) -> None:
    again = parse_schema(schema.to_toml())
    assert again == schema
    assert list(again.columns) == list(schema.columns)
    assert again.open == schema.open


@settings(max_examples=100, deadline=None)
@given(plain)
def test_the_command_line_has_the_same_grammar(domain: Any) -> None:
    """Names are compared as texts, so whole numbers may come back as such."""
    said = domain_text(domain).removeprefix("=") or "number"
    assert [str(v) for v in getattr(parse_domain(said), "values", ())] == [
        str(v) for v in getattr(domain, "values", ())
    ]
    assert isinstance(domain, pp.Categories) or parse_domain(said) == domain
    value = domain.to_schema()
    assert (pp.Categories(value) if isinstance(value, list) else parse_domain(value)) == domain


def test_a_typical_range_is_written_in_the_text_or_beside_it() -> None:
    declared = "[columns]\na = '0:60:0.1~1:30,missing=own'\nb = {domain='0:60:0.1,missing=own', typical=[1, 30.0]}"
    schema = parse_schema(declared)
    assert schema.columns["a"] == schema.columns["b"] == pp.Missing(pp.Grid(0, 60, 0.1, typical=(1, 30)), "own")
    assert parse_schema(schema.to_toml()) == schema


# Hostile files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no table of columns"),
        ("[columns]", "no table of columns"),
        ("columns = 3", "no table of columns"),
        ("colums = 3", "'colums' means nothing here; allowed: user, label"),
        ("user = 3\n[columns]\na='0:1'", "user must be text in quotes, got a number"),
        ("user = ['a']\n[columns]\na='0:1'", "user must be text in quotes, got a list"),
        ("missing = 'keep'\n[columns]\na='0:1'", "missing must be 'own', 'drop' or 'raise', got 'keep'"),
        ("on_invalid = 'ignore'\n[columns]\na='0:1'", "on_invalid"),
        ("[columns]\na='0:1'\na='0:2'", "not TOML"),
        ("[columns]\na=0:1", "not TOML"),
        ("[columns]\na=3", "the column 'a' must have a domain such as \"0:120\""),
        ("[columns]\na=2020-01-01", "got a date or time"),
        ("[columns]\na={lo=1}", "got a table"),
        ("[columns]\na=''", "got an empty text"),
        ("[columns]\na='5:1'", "the column 'a': Integers needs lo <= hi"),
        ("[columns]\na='0:1:0.3'", "the column 'a': Grid needs"),
        ("[columns]\na='0:9~5'", "the column 'a': a typical range is written"),
        ("[columns]\na={domain='0:9', typical=[5]}", "the column 'a': a typical range is written"),
        ("[columns]\na={domain='{a,b}', typical=[0, 1]}", "the column 'a': a typical range goes with numbers"),
        ("[columns]\na={domain='0:9', typical=[5, 10]}", "the column 'a': typical must be two of the declared values"),
        ("[columns]\na='{x,x}'", "the column 'a': category 'x' is listed twice"),
        ("[columns]\na=[1.5]", "the column 'a': a category must be text"),
        ("[columns]\na=[]", "the column 'a': Categories needs at least one"),
        ("[columns]\na='0:120,missing=keep'", "the column 'a': missing must be"),
        (f"[columns]\na='0:{'9' * 5000}'", "the column 'a'"),
        (f"[columns]\na='0:1:1e-{'9' * 30}'", "the column 'a'"),
        (f"x = {'9' * 5000}\n[columns]\na='0:1'", "not TOML"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("user='a'\n[columns]\na='0:1'", "column 'a' has two roles"),
        ("positive='a'\n[columns]\na='0:1'", "name the label's column as well"),
        ("label='y'\npositive=1.5\n[columns]\na='0:1'", "positive must be one label value"),
        ("label='y'\nclasses='ab'\n[columns]\na='0:1'", 'classes is written ["a", "b", "c"]'),
        ("label='y'\nlabel_map={a=2}\n[columns]\na='0:1'", "label_map must map every value to 0 or 1"),
        ("label='y'\npositive='a'\nlabel_map={a=1}\n[columns]\na='0:1'", "give one"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(ParameterError) as error:
        pp.Schema.read(path)
    assert said in str(error.value)
    assert "s.toml" in str(error.value)
    assert len(str(error.value)) < 6_000


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match="not UTF-8"):
        pp.Schema.read(path)
    path.write_bytes(b"#" * (LARGEST + 1))
    with pytest.raises(ParameterError, match="larger than 1 MiB"):
        pp.Schema.read(path)
    with pytest.raises(ParameterError, match="privpac domains TABLE"):
        pp.Schema.read(tmp_path / "absent.toml")
    with pytest.raises(ParameterError, match="cannot be read"):
        pp.Schema.read(tmp_path)
    with pytest.raises(TypeError, match="path of a file"):
        pp.UserData.from_frame(PEOPLE, schema=3)  # type: ignore[arg-type]


def test_unicode_names_and_a_byte_order_mark_in_a_name(tmp_path: Path) -> None:
    schema = pp.Schema({"größe \u202e \"'\n\x7f\\": pp.Integers(0, 9)}, user="人")
    schema.save(tmp_path / "s.toml")
    assert pp.Schema.read(tmp_path / "s.toml") == schema
    with pytest.raises(ParameterError, match="lone surrogate"):
        pp.Schema({"\ud800": pp.Integers(0, 1)}).to_toml()


# Suggestions come from names and types


def test_a_suggestion_leaves_open_what_no_name_tells() -> None:
    found = pp.suggest_domains(PEOPLE)
    assert (found.user, found.label, found.positive) == ("patient", "status", "?")
    assert found.columns == {"age": pp.Integers(0, 120), "ward": None}
    assert found.open == ("positive", "ward")
    with pytest.raises(ParameterError, match="positive is not said yet \\(and 1 more\\); write it in place of '\\?'"):
        pp.UserData.from_frame(PEOPLE, schema=found)
    assert "years; nobody is older" in found.to_toml()


def test_values_are_never_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables of one schema give one file, whatever they hold; of a CSV nothing after the first line is read."""
    other = PEOPLE.with_columns(age=pl.Series([1, 2, 3, 4]), ward=pl.lit("secret"))
    assert pp.suggest_domains(PEOPLE).to_toml() == pp.suggest_domains(other).to_toml()
    for frame, name in ((PEOPLE, "a"), (other, "b"), (PEOPLE.clear(), "c")):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    files = [pp.suggest_domains(tmp_path / f"{name}.parquet").to_toml() for name in "abc"]
    assert len(set(files)) == 1
    (tmp_path / "broken.csv").write_bytes(b"patient,age,died\n\xff\xff\xff not a line of this table\n")
    assert pp.suggest_domains(tmp_path / "broken.csv").columns == {"age": pp.Integers(0, 120)}
    spoilt = pd.DataFrame({"patient": ["a"], "kind": pd.Categorical(["x"]), "note": ["y"]})
    assert set(pp.suggest_domains(spoilt).columns.values()) == {None}


def test_ranges_are_read_only_if_their_owner_calls_them_public(tmp_path: Path) -> None:
    PEOPLE.write_csv(tmp_path / "t.csv")
    for table in (PEOPLE, tmp_path / "t.csv"):
        found = pp.suggest_domains(table, ranges_are_public=True, positive="dead")
        assert found.columns == {"age": pp.Integers(30, 60), "ward": pp.Categories(["north", "south"])}
        assert found.to_toml().count("its owner calls public") == 2
    floats = pp.suggest_domains(
        pl.DataFrame({"u": [1.25, 3.5, None], "v": [1e300, 0.1, 3.0], "w": [None] * 3}), ranges_are_public=True
    )
    assert floats.columns == {"u": pp.Grid("1.25", "3.50", "0.01"), "v": pp.Floats(), "w": None}
    with pytest.raises(ParameterError, match="give the table or its path"):
        pp.suggest_domains(["age"], ranges_are_public=True)


@pytest.mark.parametrize(
    ("columns", "user", "label"),
    [
        (["patientId", "x", "y"], "patientId", "y"),
        (["student", "rating", "passed"], "student", "passed"),
        (["id", "user", "late"], "user", "late"),
        (["user_id", "patient_id", "x"], "?", None),
        (["x", "z"], "?", None),
        (["id", "event"], "id", "event"),
    ],
)
def test_roles_are_guessed_by_names(columns: list[str], user: str, label: str | None) -> None:
    if set(columns) == {"id", "event"}:
        with pytest.raises(SchemaError, match="no column for rules"):
            pp.suggest_domains(columns)
        return
    found = pp.suggest_domains(columns)
    assert (found.user, found.label) == (user, label)


def test_public_knowledge_is_sound() -> None:
    keys = [key for key, _, _ in ENTRIES]
    assert len(set(keys)) == len(keys)
    for key, domain, reason in ENTRIES:
        assert known_domain(key.replace(" ", "_")) == (domain, reason)
        assert parse_domain(domain).size > 1
        assert reason
    for name in ("age_group", "weight_change", "zip_code_id", "average", "", "\0", "🦊" * 300, "idealage"):
        assert known_domain(name) is None
    assert known_domain("Systolic_BP") is not None
    assert known_domain("MonthOfBirth") == ("1:12", "months of a year")


def test_types_say_what_they_can() -> None:
    kinds = {"is_new": "int64", "flag": pl.Boolean(), "day1": "date", "n": "float64", "t": "str", "o": "object"}
    found = pp.suggest_domains(kinds)
    assert found.columns["is_new"] == pp.Integers(0, 1)
    assert found.columns["flag"] == pp.Categories(["false", "true"])
    assert set(found.open) == {"user", "day1", "n", "t", "o"}
    assert column_types(pd.DataFrame({"a": [1], "b": ["x"]})).keys() == {"a", "b"}
    for bad in (3, ["a", "a"], ["a", 3], []):
        with pytest.raises((SchemaError, TypeError)):
            pp.suggest_domains(bad)
    with pytest.raises(SchemaError, match="no column 'q' for user"):
        pp.suggest_domains(["a"], user="q")


def test_chosen_columns_keep_their_reasons_only_where_the_domain_is_suggested() -> None:
    found = chosen(pp.suggest_domains(["patient", "age", "bmi", "died"]), {"age": None, "bmi": pp.Integers(0, 9)})
    assert found.columns == {"age": pp.Integers(0, 120), "bmi": pp.Integers(0, 9)}
    assert "nobody is older" in found.to_toml()
    assert "square metre" not in found.to_toml()
    with pytest.raises(SchemaError, match="'nose'"):
        chosen(found, {"nose": None})


# Used


@pytest.fixture
def path(tmp_path: Path) -> Path:
    told: dict[str, Any] = {"user": "patient", "label": "status", "positive": "dead", "on_invalid": "clamp"}
    pp.Schema(FINISHED, missing="drop", **told).save(tmp_path / "s.toml")
    return tmp_path / "s.toml"


def test_every_reader_takes_a_schema(path: Path, tmp_path: Path) -> None:
    PEOPLE.write_csv(tmp_path / "t.csv")
    PEOPLE.write_parquet(tmp_path / "t.parquet")
    by_hand = pp.UserData.from_frame(
        PEOPLE,
        user="patient",
        features=FINISHED,  # clamping leaves missing values out anyway
        label="status",
        positive="dead",
        on_invalid="clamp",
    )
    for data in (
        pp.UserData.from_frame(PEOPLE, schema=path),
        pp.UserData.read(tmp_path / "t.csv", schema=str(path)),
        pp.UserData.read(tmp_path / "t.parquet", schema=pp.Schema.read(path)),
    ):
        assert data.features == by_hand.features
        assert data.to_lists() == by_hand.to_lists()
        assert data.label_name == "dead"
    streamed = pp.scan(tmp_path / "t.parquet", schema=path, progress=False)
    assert streamed.features == by_hand.features
    assert streamed.label_name == "dead"


def test_what_is_said_beside_a_schema_goes_first(path: Path) -> None:
    one = pp.UserData.from_frame(PEOPLE, schema=path, features=["age"])
    assert list(one.features) == ["age"]
    wide = pp.UserData.from_frame(PEOPLE, schema=path, features={"age": pp.Integers(0, 200), "ward": None})
    assert wide.features["age"] == pp.Integers(0, 200)
    strict = pp.UserData.from_frame(PEOPLE, schema=path, on_invalid="raise")  # and missing values are still left out
    assert strict.features["age"] == pp.Missing(pp.Integers(0, 120), "drop")
    items = pp.UserData.from_frame(PEOPLE, schema=path, user=None)
    assert items.unit == "item"
    opposite = pp.UserData.from_frame(PEOPLE, schema=path, positive="alive")
    assert opposite.label_name == "alive"
    swapped = pp.UserData.from_frame(PEOPLE, schema=path, label="ward", positive="north")  # no longer a feature
    assert list(swapped.features) == ["age"]
    for wrong, said in ((["nose"], "no column 'nose'; it has 'age', 'ward'"), (["age", "age"], "named twice")):
        with pytest.raises(ParameterError, match=said):
            pp.UserData.from_frame(PEOPLE, schema=path, features=wrong)


def test_without_a_schema_user_and_features_must_be_said() -> None:
    with pytest.raises(TypeError, match="user= is missing"):
        pp.UserData.from_frame(PEOPLE, features=FINISHED)
    with pytest.raises(TypeError, match="features= is missing"):
        pp.UserData.from_frame(PEOPLE, user="patient")


@pytest.mark.parametrize("policy", ["raise", "drop"])
def test_streams_know_positive_labels(policy: str, tmp_path: Path) -> None:
    holes = pl.concat([PEOPLE, PEOPLE.with_columns(status=pl.lit(None, pl.String))])
    told: dict[str, Any] = {"user": "patient", "features": {"ward": FINISHED["ward"]}, "label": "status"}
    told |= {"positive": "dead", "on_invalid": policy}
    for name, frame in (("whole", PEOPLE), ("holes", holes)):
        frame.write_parquet(tmp_path / f"{name}.parquet")
        said = []
        for read in (pp.UserData.read, lambda *a, **k: pp.scan(*a, progress=False, **k)):
            try:
                released = pp.learn(read(tmp_path / f"{name}.parquet", **told), pp.Points(), epsilon=50)
                said.append(released.value.label)
            except SchemaError as error:
                said.append(str(error))
        assert said[0] == said[1]
        assert said[0] == "dead" or (
            name == "holes" and "missing or NaN (number of records); allowed: texts" in said[0]
        )
