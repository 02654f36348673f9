"""CSV files that are not what they seem: refused with what to write, and without showing a cell of the first line."""

from __future__ import annotations

import gzip
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privpac as pp
from privpac.data.readers import CsvFormat, _scan, _scanned, csv_names
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


# One person's record beside the others'

OTHER_PEOPLE = {"a": 1, "b": 2, "c": 3, "d": 4}


def beside(folder: Path, record: str, first: bool = False) -> dict[str, int]:
    """What is read of everybody, with one more record: of a file without names the first, otherwise a middle one."""
    path = folder / "t.csv"
    before, after = "a,1,p\n", 'c,3,r\nb,2,"q"\nd,4,s\n'
    path.write_text(record + before + after if first else "u,x,t\n" + before + record + after, newline="")
    names: dict[str, Any] = {"header": False, "names": ["u", "x", "t"]} if first else {}
    domains: dict[str, Any] = {"x": pp.Integers(0, 9), "t": pp.Texts()}
    people = pp.UserData.read(path, user="u", features=domains, on_invalid="drop", **names)
    return dict(zip(people._ids.to_list(), people.codes["x"].tolist(), strict=True))


@pytest.mark.parametrize("first", [False, True], ids=["in the middle", "first, without names"])
@pytest.mark.parametrize(
    "cell",
    [
        "k",
        "k" * 140_000,
        "k" * 3_000_000,
        '"' + "k" * 2_200_000 + '"',
        '"' + "k\n" * 1_000_000 + '"',
        '"two\nlines, ""quoted"""',
    ],
    ids=["short", "140 kB", "3 MB", "2 MB in quotes", "a million lines", "lines and quotes"],
)
def test_a_well_formed_record_of_any_size_leaves_the_others_alone(tmp_path: Path, cell: str, first: bool) -> None:
    assert beside(tmp_path, f"z,5,{cell}\n", first) == OTHER_PEOPLE | {"z": 5}


@pytest.mark.parametrize("first", [False, True])
def test_a_quote_that_could_end_what_somebody_else_opened_refuses_the_file(tmp_path: Path, first: bool) -> None:
    """``z,5,"k`` before ``b,2,q"`` is, as bytes, one quoted field; so nobody's field may hold a quote alone."""
    for alone in ("z,5,5'11\"\n", 'z,5,q"\n', 'z,5,q"q\n'):
        with pytest.raises(SchemaError, match="quotes"):
            beside(tmp_path, alone, first)


@pytest.mark.parametrize("person", ["%PDF-1", "PK\x03\x04", "PAR1", "2020-02-03"])
def test_the_first_record_of_a_file_without_names_is_a_record(tmp_path: Path, person: str) -> None:
    assert beside(tmp_path, f"{person},1,k\n", first=True) == OTHER_PEOPLE | {person: 1}
    ends_as_parquet = written(tmp_path, "PAR1,7,0,p\n2,42,1,PAR1")
    assert pp.UserData.read(ends_as_parquet, **SAID, header=False, names=["id", "x", "y", "t"]).to_lists() == RECORDS
    assert beside(tmp_path, "\n\r\n", first=True) == OTHER_PEOPLE


@pytest.mark.parametrize("first", [False, True], ids=["in the middle", "first, without names"])
@pytest.mark.parametrize("cell", ['"k', '"k"secret', '"k" ', '"secret""', '"'])
def test_a_broken_quote_refuses_the_file_and_hides_nobody(tmp_path: Path, cell: str, first: bool) -> None:
    with pytest.raises(SchemaError, match=r"not a well-formed CSV table.*closed quotes around whole fields$") as caught:
        beside(tmp_path, f"z,5,{cell}\n", first)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_quote_that_is_open_at_the_end_of_the_file_is_refused(tmp_path: Path, end: str) -> None:
    for content, said in ((f'id,x,y\n1,7,0\n2,42,"1{end}', {}), (f'1,7,0\n2,42,"1{end}', NAMES)):
        with pytest.raises(SchemaError, match="not a well-formed CSV table"):
            pp.UserData.read(written(tmp_path, content), **SAID, **said)


@pytest.mark.parametrize("content", ["1\0,7,0\n2,42,1\n", "1,7,0\n2,42,1\0\n", "1,7,0\n2,42,1\n\0", '"\0",7,0\n2,42,1'])
def test_a_nul_is_refused_wherever_it_stands(tmp_path: Path, content: str) -> None:
    for text, said in (("id,x,y\n" + content, {}), (content, NAMES)):
        with pytest.raises(SchemaError, match=r"^file 't.csv' is not a CSV table in UTF-8, it is no text: it has NUL"):
            pp.UserData.read(written(tmp_path, text), **SAID, **said)


def test_a_record_above_the_limit_is_refused_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privpac.data.readers._LONGEST_RECORD", 7)
    path = written(tmp_path, 'id,x,y\n1,7,"0"\r\n2,42,1')
    assert pp.UserData.read(path, **SAID).to_lists() == RECORDS
    with pytest.raises(SchemaError, match=r"a record of more than 7 bytes; save it as a .parquet file"):
        pp.UserData.read(written(tmp_path, 'id,x,y\n1,007,"0"\r\n2,42,1'), **SAID)


FIELD = rb'(?:"(?:[^"]|"")*"|[^",\r\n]*)'
FILE = re.compile(rb"(?:" + FIELD + rb"(?:[,\r\n]|$))*")


@given(st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"k", b"\0"]), min_size=1, max_size=14), st.integers(0, 14))
def test_the_scan_is_the_grammar(tmp_path_factory: pytest.TempPathFactory, marks: list[bytes], cut: int) -> None:
    content = b"".join(marks)
    scan = _scanned(written(tmp_path_factory.getbasetemp(), content), ",")
    assert scan.misquoted == (FILE.fullmatch(content) is None)
    assert scan.has_nul == (b"\0" in content)
    whole, parts = np.zeros(7, np.int64), np.zeros(7, np.int64)
    data = np.frombuffer(content, np.uint8).copy()
    _scan(data, ord(","), whole)
    for part in (data[:cut], data[cut:]):
        _scan(part, ord(","), parts)
    assert whole.tolist() == parts.tolist()
    if not scan.misquoted:
        records = re.findall(FIELD + rb"(?:," + FIELD + rb")*", content)
        assert scan.longest == max(map(len, records), default=0)
