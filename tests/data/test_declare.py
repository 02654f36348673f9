"""Domains on the command line."""

from __future__ import annotations

import pytest

from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, parse_domain, parse_feature
from privpac.errors import ParameterError


@pytest.mark.parametrize(
    ("declared", "name", "domain"),
    [
        ("glucose=40:400", "glucose", Integers(40, 400)),
        ("t=-5:5", "t", Integers(-5, 5)),
        ("temp = 35:42:0.1", "temp", Grid(35, 42, "0.1")),
        ("x", "x", Floats()),
        ("blood={A, B,AB,0}", "blood", Categories(["A", "B", "AB", "0"])),
        ("day=2020-01-01:2020-12-31", "day", Dates("2020-01-01", "2020-12-31")),
        ("k=0:18446744073709551615", "k", Integers(0, 2**64 - 1)),
    ],
)
def test_features_are_read_as_written(declared: str, name: str, domain: Domain) -> None:
    assert parse_feature(declared) == (name, domain)


@pytest.mark.parametrize(
    "declared",
    [
        "",
        "=1:2",
        "x=",
        "x=1",
        "x=1:2:3:4",
        "x=0.5:3",
        "x=a:b",
        "x={}",
        "x={a,,b}",
        "x=1:",
        "x=2:1",
        "x=0:1:0.3",
        "x={a,a}",
    ],
)
def test_anything_else_is_refused(declared: str) -> None:
    with pytest.raises(ParameterError):
        parse_feature(declared)


def test_only_text_is_read() -> None:
    for read in (parse_feature, parse_domain):
        with pytest.raises(TypeError):
            read(5)  # type: ignore[arg-type]
    assert parse_domain(" ") == Floats()
