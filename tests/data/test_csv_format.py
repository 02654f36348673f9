"""CSV files that are not what they seem: refused with what to write, and without showing a cell of the first line."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privpac as pp
from privpac.data.readers import CsvFormat, csv_names
from privpac.data.suggest import column_types
from privpac.errors import ParameterError, SchemaError

SAID: dict[str, Any] = {"user": "id", "label": "y", "features": {"x": pp.Integers(0, 99)}}
NAMES = {"header": False, "names": ["id", "x", "y"]}
RECORDS = [[(7, 0)], [(42, 1)]]


def written(folder: Path, content: bytes | str) -> Path:
    path = folder / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(path: Path, pattern: str, **said: Any) -> None:
    """By reading and by looking at the names alone, in one message that shows no cell."""
    messages = []
    for action in (
        lambda: pp.UserData.read(path, **SAID, **said),
        lambda: pp.suggest_domains(path, **said),
        lambda: pp.check(path, **SAID, **said),
    ):
        with pytest.raises(SchemaError, match=pattern) as caught:
            action()
        messages.append(str(caught.value))
        assert caught.value.__context__ is None
    assert len(set(messages)) == 1
    assert "secret" not in messages[0]
    assert "9271" not in messages[0]


RECORD_LIKE = {
    "numbers": "9271,7,secret\n8,42,1\n",
    "a number": "secret-1,secret,9271\n",
    "decimal comma": '"9271,5",secret,b\n',
    "per cent": "92.71 %,secret,b\n",
    "a date": "2020-02-03,secret,b\n",
    "a day and a time": "2020-02-03T10:11:12Z,secret,b\n",
    "another date": "03.02.2020,secret,b\n",
    "a time": "10:15,secret,b\n",
    "quoted": "\"9271\",'9271',secret\n",
    "empty cells": "secret,,\n",
    "there twice": "secret,secret,b\n",
    "first cell empty, then numbers": ",9271,secret\n",
    "with a mark": "\ufeff9271,7,secret\n",
    "with windows line ends": "9271,7,secret\r\n8,42,1\r\n",
    "no line end": "9271,7,secret",
}


@pytest.mark.parametrize("content", RECORD_LIKE.values(), ids=RECORD_LIKE)
def test_a_first_line_that_looks_like_a_record_is_refused(tmp_path: Path, content: str) -> None:
    refused(written(tmp_path, content), "^file 't.csv': its first line looks like a record.*header=False.*names=")


SEPARATED = {"a semicolon": ";", "a tab": "\t", "a vertical bar": "|"}


@pytest.mark.parametrize(("name", "mark"), SEPARATED.items(), ids=SEPARATED)
def test_another_separator_is_named_and_then_read(tmp_path: Path, name: str, mark: str) -> None:
    path = written(tmp_path, "id,x,y\n1,7,0\n2,42,1\n".replace(",", mark))
    refused(path, f"^file 't.csv': {name} seems to separate .* separator=")
    assert pp.UserData.read(path, **SAID, separator=mark).to_lists() == RECORDS
    assert list(column_types(path, CsvFormat(mark))) == ["id", "x", "y"]


def test_quoted_names_with_another_separator_are_told_from_no_text(tmp_path: Path) -> None:
    path = written(tmp_path, '"id";"x";"y"\n"1";"7";"0"\n"2";"42";"1"\n')
    refused(path, "a semicolon seems to separate")
    assert pp.UserData.read(path, **SAID, separator=";").to_lists() == RECORDS


@pytest.mark.parametrize("content", ['id,"secret,y\n1,7,0\n', '"id"secret,x,y\n1,7,0\n', '"'])
def test_quotes_that_do_not_end_are_told(tmp_path: Path, content: str) -> None:
    refused(written(tmp_path, content), "the quotes in its first line are not closed, or have text beside them")


def test_a_comma_in_a_name_does_not_hide_the_semicolons(tmp_path: Path) -> None:
    refused(written(tmp_path, "id;height, cm;y\n1;7;0\n"), "a semicolon seems to separate")


OTHERS = {
    "text in UTF-16": "id,x,y\n1,7,0\n".encode("utf-16"),
    "compressed by gzip": gzip.compress(b"id,x,y\n1,7,0\n"),
    "a zip archive or an Excel file": b"PK\x03\x04secret",
    "a PDF document": b"%PDF-1.4\nsecret",
    "an SQLite database": b"SQLite format 3\0secret",
    "begins with what is no text": b"\x00\x01\x02secret\n",
    "no text ": "id,x,y\n1,7,0\n".encode("utf-16-le"),
    "no text": "id,gr\u00f6\u00dfe\n".encode("latin-1"),
    " no text": b"x" * (1 << 24) + b"\n",
}


@pytest.mark.parametrize(("kind", "content"), OTHERS.items(), ids=OTHERS)
def test_files_of_another_kind_are_refused(tmp_path: Path, kind: str, content: bytes) -> None:
    refused(written(tmp_path, content), f"^file 't.csv' is not a CSV table in UTF-8, it .*{kind.strip()}.*save it")


def test_parquet_under_the_name_of_csv_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pl.DataFrame({"id": [1], "x": [7], "y": [0]}).write_parquet(path)
    refused(path, "it is a Parquet file")


GOOD = {
    "plain": "id,x,y\n1,7,0\n2,42,1\n",
    "mark": "\ufeffid,x,y\n1,7,0\n2,42,1\n",
    "windows": "id,x,y\r\n1,7,0\r\n2,42,1\r\n",
    "quoted": '"id","x","y"\n"1","7","0"\n2,42,1\n',
    "row names": ",id,x,y\n1,1,7,0\n2,2,42,1\n",
    "years beside": "id,2019,2020,x,y\n1,0,0,7,0\n2,0,0,42,1\n",
    "short names": "id,x,y,T,Z,e,NA,nan\n1,7,0,1,1,1,1,1\n2,42,1,1,1,1,1,1\n",
}


@pytest.mark.parametrize("content", GOOD.values(), ids=GOOD)
def test_ordinary_files_are_read_as_before(tmp_path: Path, content: str) -> None:
    assert pp.UserData.read(written(tmp_path, content), **SAID).to_lists() == RECORDS


def test_a_column_of_row_names_is_not_suggested(tmp_path: Path) -> None:
    assert list(column_types(written(tmp_path, GOOD["row names"]))) == ["id", "x", "y"]
    short = [name for name in column_types(written(tmp_path, GOOD["short names"])) if name not in ("id", "x", "y")]
    assert short == ["T", "Z", "e", "NA", "nan"]


@pytest.mark.parametrize("content", ["1,7,0\n2,42,1\n", "\ufeff1,7,0\r\n2,42,1\r\n", '"1","7","0"\n2,42,1'])
def test_a_file_without_names_is_read_by_the_names_that_are_given(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, content)
    assert pp.UserData.read(path, **SAID, **NAMES).to_lists() == RECORDS
    assert pp.check(path, **SAID, **NAMES).records_kept == 2
    assert list(column_types(path, CsvFormat(**NAMES))) == ["id", "x", "y"]
    semicolons = written(tmp_path, content.replace(",", ";"))
    assert pp.UserData.read(semicolons, **SAID, **NAMES, separator=";").to_lists() == RECORDS
    refused(semicolons, "has 1 fields and names= has 3.*if a semicolon separates", **NAMES)


def test_names_that_look_like_values_can_be_declared(tmp_path: Path) -> None:
    path = written(tmp_path, "id,2019,y\n1,7,0\n2,42,1\n")
    with pytest.raises(SchemaError, match="1 of its 3 cells"):
        pp.suggest_domains(path)
    assert list(column_types(path, CsvFormat(header=True))) == ["id", "2019", "y"]
    assert list(column_types(written(tmp_path, "a;b\n1\n"), CsvFormat(","))) == ["a;b"]


def test_a_wrong_number_of_names_is_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "9271,secret\n")
    refused(path, "its first line has 2 fields and names= has 3; name all columns, in order$", **NAMES)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"separator": ""}, ParameterError),
        ({"separator": ";;"}, ParameterError),
        ({"separator": '"'}, ParameterError),
        ({"separator": "\n"}, ParameterError),
        ({"separator": "\u00a6"}, ParameterError),
        ({"separator": "a"}, ParameterError),
        ({"separator": 3}, TypeError),
        ({"header": "no"}, TypeError),
        ({"header": False}, ParameterError),
        ({"names": ["a"]}, ParameterError),
        ({"header": True, "names": ["a"]}, ParameterError),
        ({"header": False, "names": []}, ParameterError),
        ({"header": False, "names": ["a", ""]}, ParameterError),
        ({"header": False, "names": ["a", "a"]}, ParameterError),
        ({"header": False, "names": "ab"}, TypeError),
        ({"header": False, "names": [1]}, TypeError),
    ],
)
def test_what_is_no_format_is_refused_before_any_file(said: dict[str, Any], kind: type[Exception]) -> None:
    for action in (pp.UserData.read, pp.check, pp.scan):
        with pytest.raises(kind):
            action("absent.csv", **SAID, **said)  # type: ignore[operator]


def test_parquet_and_streams_take_no_format(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"id": [1], "x": [7], "y": [0]}).write_parquet(path)
    for action in (pp.UserData.read, pp.check, pp.scan, pp.suggest_domains):
        declared = {} if action is pp.suggest_domains else SAID
        with pytest.raises(ParameterError, match=r"describe .csv files"):
            action(path, **declared, separator=";")  # type: ignore[operator]


@given(st.binary(min_size=1, max_size=200))
def test_any_bytes_give_names_or_a_schema_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = written(tmp_path_factory.getbasetemp(), content)
    with suppress(SchemaError):
        names = csv_names(path)
        assert names
        assert not any("\0" in name for name in names)
        assert [name.encode() for name in names]
