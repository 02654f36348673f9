"""Columns of a manifest: the same code as the curator's domain, whatever is written, and nothing for what is
outside."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, Texts
from privpac.device.columns import INVALID, DeviceColumn, encode, exact
from privpac.errors import ManifestError, ParameterError
from privpac.protocols.domains import column_of, declared_domain

DOMAINS: dict[str, Domain] = {
    "integers": Integers(-3, 20),
    "wide": Integers(0, (1 << 64) - 1),
    "grid": Grid("35", "42", "0.1"),
    "dates": Dates("2019-12-28", "2020-03-01"),
    "categories": Categories(["low", "mid", "high"]),
    "numbered": Categories([7, 8]),
    "floats": Floats(),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_codes_are_those_of_the_domain_and_survive_the_manifest(name: str) -> None:
    domain = DOMAINS[name]
    column = DeviceColumn.read(column_of("x", domain).write())
    assert column.size == domain.size
    back = declared_domain(column)
    assert back == domain or name == "numbered"
    low, high = domain.value_range()
    for code in {low, low + 1, (low + high) // 2, high}:
        value = domain.value(code)
        expected = int(domain.encode([value])[0][0])
        assert column.code(value) == column.code(domain.text(code)) == expected
        assert int(back.encode([str(value) if name == "numbered" else value])[0][0]) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_have_the_curators_code(x: float) -> None:
    column, expected = DeviceColumn.floats("x"), int(Floats().encode([x])[0][0])
    assert column.code(x) == column.code(repr(x)) == column.code(np.float64(x)) == expected or len(repr(x)) > 40


@given(
    st.one_of(
        st.integers(), st.floats(), st.text(max_size=8), st.none(), st.decimals(), st.dates(), st.binary(max_size=3)
    )
)
def test_any_value_has_a_code_or_none(value: Any) -> None:
    for domain in DOMAINS.values():
        column = column_of("x", domain)
        assert column.code(value) == INVALID or 0 <= column.code(value) < column.size


@pytest.mark.parametrize(
    "value", ["1e999999999", "9" * 500, "nan", "inf", math.nan, math.inf, None, [], {}, "1/0", b"3", 3.5, "", "21", -4]
)
def test_what_is_outside_has_no_code(value: Any) -> None:
    assert column_of("x", DOMAINS["integers"]).code(value) == INVALID


def test_spellings() -> None:
    column = column_of("x", DOMAINS["integers"])
    for three in (
        3,
        3.0,
        "3",
        " 3 ",
        "3.0",
        "+3",
        "3e0",
        Fraction(3),
        Decimal(3),
        np.int64(3),
        np.float32(3),
        np.float64(3),
    ):
        assert column.code(three) == 6
    days = column_of("x", DOMAINS["dates"])
    first = date(2019, 12, 28)
    for value in (first, "2019-12-28", " 2019-12-28 ", datetime(2019, 12, 28), "2019-12-28T00:00:00"):
        assert days.code(value) == 0
    assert (
        days.code(datetime(2019, 12, 28, 1))
        == days.code(first - timedelta(days=1))
        == days.code("28.12.2019")
        == INVALID
    )
    assert column_of("x", DOMAINS["numbered"]).code(8) == 1


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        {"name": ""},
        {"name": "x"},
        {"name": "x", "lo": 0},
        {"name": "x", "lo": 0, "hi": 5, "more": 1},
        {"name": "x", "lo": 5, "hi": 0},
        {"name": "x", "lo": 0, "hi": 5, "step": 0},
        {"name": "x", "lo": 0, "hi": 5, "step": -1},
        {"name": "x", "lo": 0, "hi": 5, "step": 2},
        {"name": "x", "lo": 0, "hi": "1e999999999"},
        {"name": "x", "lo": "1/0", "hi": 5},
        {"name": "x", "lo": "1/3", "hi": "4/3"},
        {"name": "x", "lo": 0, "hi": 1 << 64},
        {"name": "x", "lo": 0.5, "hi": 1},
        {"name": "x", "lo": True, "hi": 1},
        {"name": "x", "values": []},
        {"name": "x", "values": ["a", "a"]},
        {"name": "x", "values": [1]},
        {"name": "x", "values": "ab"},
        {"name": "x", "from": "2020-02-30", "to": "2020-03-01"},
        {"name": "x", "from": "2020-03-02", "to": "2020-03-01"},
        {"name": "x", "from": 1, "to": 2},
        {"name": "x", "floats": 32},
    ],
)
def test_bad_entries_are_refused(entry: Any) -> None:
    with pytest.raises(ManifestError):
        DeviceColumn.read(entry)


def test_open_vocabularies_have_no_column() -> None:
    with pytest.raises(ParameterError, match="Texts"):
        column_of("x", Texts())


@pytest.mark.parametrize(
    "text", ["", "1e5", "1/2/3", " 1", "1/0", "0x10", "1_000", 0.5, None, True, "9" * 500, 1 << 2000]
)
def test_rationals_of_a_manifest(text: Any) -> None:
    with pytest.raises(ManifestError):
        exact(text)
    assert exact("-3/6") == exact("-0.5") == Fraction(-1, 2)


def test_records_keep_their_places_and_labels_their_spellings() -> None:
    columns = (column_of("x", Integers(0, 9)), column_of("y", Categories(["a", "b"])))
    rows = [
        {"x": 3, "y": "b", "l": "TRUE"},
        {"x": 10, "y": "a", "l": 1},
        {"x": "4", "l": 0.0},
        {"x": 5, "y": "a", "l": "maybe"},
    ]
    x, y = encode(columns, "l", rows)
    assert x == [[3, 1], [INVALID, 0], [4, INVALID], [5, 0]]
    assert y == [1, 1, 0, INVALID]
