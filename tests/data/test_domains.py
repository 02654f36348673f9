"""Codes are ordered, exact and give the value back."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, Missing, parse_domain
from privpac.errors import ParameterError, SchemaError

quick = settings(deadline=None, max_examples=60)

INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)


def codes(domain: Domain, values: object, on_invalid: str = "raise") -> list[int]:
    found, keep = domain.encode(values, on_invalid)
    assert found.dtype == np.uint64
    kept: list[int] = found[keep].tolist()
    return kept


# Integers


@quick
@given(st.lists(INT64, min_size=1))
def test_int64_codes_are_the_exact_differences(values: list[int]) -> None:
    domain = Integers(min(values), max(values))
    found = codes(domain, np.array(values, np.int64))
    assert found == [v - domain.lo for v in values]
    assert [domain.value(c) for c in found] == values
    assert codes(domain, [str(v) for v in values]) == found
    assert codes(domain, pl.Series(values, dtype=pl.Int128)) == found


@quick
@given(st.lists(UINT64, min_size=1))
def test_uint64_codes_are_the_exact_differences(values: list[int]) -> None:
    domain = Integers(min(values), max(values))
    found = codes(domain, np.array(values, np.uint64))
    assert found == [v - domain.lo for v in values]
    assert codes(domain, [str(v) for v in values]) == found


@pytest.mark.parametrize(
    ("lo", "hi", "dtype"),
    [(0, 2**64 - 1, np.uint64), (-(2**63), 2**63 - 1, np.int64), (-(2**63), 2**63 - 1, np.uint64)],
)
def test_full_64_bit_ranges(lo: int, hi: int, dtype: type) -> None:
    domain = Integers(lo, hi)
    assert domain.size == 2**64
    ends = [max(lo, int(np.iinfo(dtype).min)), min(hi, int(np.iinfo(dtype).max))]
    assert codes(domain, np.array(ends, dtype)) == [e - lo for e in ends]
    assert [domain.value(0), domain.value(2**64 - 1)] == [lo, hi]


@quick
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.integers(-5, 5).map(float)),
    INT64,
    st.integers(0, 2**64 - 1),
)
def test_floats_in_an_integer_domain_agree_with_exact_arithmetic(values: list[float], lo: int, width: int) -> None:
    domain = Integers(lo, min(lo + width, 2**64 - 1))
    expected = [math.floor(v) - lo for v in values if math.isfinite(v) and lo <= v <= domain.hi]
    assert codes(domain, np.array(values, float), "drop") == expected
    clamped = [
        min(max(math.floor(v) if math.isfinite(v) else v, lo), domain.hi) - lo for v in values if not math.isnan(v)
    ]
    assert codes(domain, np.array(values, float), "clamp") == clamped


def test_doubles_above_2_53_are_compared_exactly_with_the_ends() -> None:
    domain = Integers(2**53 + 1, 2**53 + 3)
    assert codes(domain, np.array([2.0**53, 2.0**53 + 2, 2.0**53 + 4]), "drop") == [1]
    assert codes(domain, np.array([2.0**53, 2.0**53 + 2, 2.0**53 + 4]), "clamp") == [0, 1, 2]


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        (1, 2, 3),
        np.array([1, 2, 3], np.int8),
        np.array([1, 2, 3], np.uint16),
        np.array([1, 2, 3], np.float32),
        np.array([1, 2, 3], np.float16),
        np.array([1, 2, 3], object),
        ["1", "2.0", " 3e0 "],
        [1, 2.0, Decimal(3)],
        [Decimal("1.00"), Decimal("2.00"), Decimal("3.00")],
        pa.array([1, 2, 3]),
        pa.chunked_array([[1], [2, 3]]),
        pl.Series(["1", "2", "3"], dtype=pl.Categorical),
        pl.Series([1, 2, 3], dtype=pl.Int128),
    ],
    ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', getattr(v, 'type', type(v[0]).__name__))}",
)
def test_every_kind_of_column_reads_the_same(values: object) -> None:
    assert codes(Integers(0, 9), values) == [1, 2, 3]
    assert codes(Grid(0, 9, "0.5"), values) == [2, 4, 6]
    assert codes(Floats(), values) == codes(Floats(), [1.0, 2.0, 3.0])


def test_booleans_are_zero_and_one() -> None:
    for domain in (Integers(0, 1), Grid(0, 1, 1), Categories([False, True])):
        assert codes(domain, np.array([True, False])) == [1, 0]
    assert codes(Floats(), [True, False]) == codes(Floats(), [1.0, 0.0])


# Grids


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    places = draw(st.integers(0, 20))
    unit = Fraction(1, 10**places)
    start, step = draw(st.integers(-(10**17), 10**17)), draw(st.integers(1, 10**4))
    return Grid(start * unit, (start + step * draw(st.integers(0, 2000))) * unit, step * unit)


@quick
@given(grids(), st.data())
def test_grid_values_round_trip_in_every_form(grid: Grid, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, grid.size - 1), min_size=1))
    values = [grid.value(c) for c in chosen]
    assert codes(grid, values) == chosen
    assert codes(grid, [grid.text(c) for c in chosen]) == chosen
    assert [Fraction(grid.text(c)) for c in chosen] == [grid.lo + c * grid.step for c in chosen]
    assert sorted(values) == [grid.value(c) for c in sorted(chosen)]


@quick
@given(grids(), st.data())
def test_floats_on_a_grid_mean_their_shortest_decimal(grid: Grid, data: st.DataObject) -> None:
    near = st.integers(-2, grid.size + 2).map(lambda c: float(grid.lo + c * grid.step))
    moved = st.tuples(near, st.sampled_from([-math.inf, math.inf])).map(lambda t: math.nextafter(*t))
    values = data.draw(st.lists(near | moved | finite | st.sampled_from([math.inf, -math.inf]), min_size=1))
    exact = [Fraction(repr(v)) if math.isfinite(v) else (grid.hi + 1 if v > 0 else grid.lo - 1) for v in values]
    steps = [(v - grid.lo) / grid.step for v in exact]
    assert codes(grid, np.array(values), "drop") == [math.floor(s) for s in steps if 0 <= s <= grid.size - 1]
    assert codes(grid, np.array(values), "clamp") == [min(max(math.floor(s), 0), grid.size - 1) for s in steps]


@quick
@given(st.lists(st.floats(-12, 12, width=32), min_size=1))
def test_single_precision_means_its_own_shortest_decimal(values: list[float]) -> None:
    for grid in (Grid(-10, 10, "0.1"), Grid(-10, 10, "0.000000000001")):
        points = [np.float32(v) for v in values] + [np.float32(0.1 * k) for k in range(-99, 100)]
        steps = [(Fraction(str(v)) - grid.lo) / grid.step for v in points]
        assert codes(grid, np.array(points, np.float32), "drop") == [
            math.floor(s) for s in steps if 0 <= s <= grid.size - 1
        ]
        assert codes(grid, np.array(points, np.float32), "clamp") == [
            min(max(math.floor(s), 0), grid.size - 1) for s in steps
        ]


@quick
@given(
    st.lists(INT64 | st.integers(-50, 50)),
    st.sampled_from(
        [Grid(-3, 4, "0.5"), Grid(-20, 40, 5), Grid(-(10**18), 10**18, 5 * 10**17), Grid(0, 10**19, 10**18)]
    ),
)
def test_integers_on_a_grid_agree_with_exact_arithmetic(values: list[int], grid: Grid) -> None:
    steps = [(v - grid.lo) / grid.step for v in values]
    array = np.array(values, np.int64)
    assert codes(grid, array, "drop") == [math.floor(s) for s in steps if 0 <= s <= grid.size - 1]
    assert codes(grid, array, "clamp") == [min(max(math.floor(s), 0), grid.size - 1) for s in steps]


def test_grid_is_decimal_exact_where_binary_floats_are_not() -> None:
    grid = Grid(0, 1, 0.1)
    assert grid.size == 11
    with pytest.raises(SchemaError, match="1 off the grid"):
        grid.encode([0.1 * 3])
    assert codes(grid, [0.3]) == [3]
    assert [grid.value(3), grid.text(3), Grid(0, 100, 5).value(2)] == [0.3, "0.3", 10]
    assert isinstance(Grid(0, 1, "1e-18").value(1), Decimal)


# Floats


@quick
@given(st.lists(finite, min_size=1))
def test_float_keys_keep_order_and_give_the_value_back(values: list[float]) -> None:
    found = codes(Floats(), np.array(values))
    for value, key in zip(values, found):
        bits = struct.unpack("<Q", struct.pack("<d", value + 0.0))[0]
        assert key == (bits + 2**63 if bits < 2**63 else 2**64 - 1 - bits)
        assert Floats().value(key) == value
        assert Floats().is_finite(key)
    order = sorted(range(len(values)), key=lambda i: found[i])
    assert [values[i] for i in order] == sorted(values)


def test_extreme_floats() -> None:
    least, most = -1.7976931348623157e308, 1.7976931348623157e308
    values = [least, -5e-324, -0.0, 0.0, 5e-324, 2.2250738585072014e-308, most]
    found = codes(Floats(), values)
    assert found == sorted(found)
    assert found[2] == found[3] == 2**63
    assert [Floats().is_finite(c) for c in (found[0], found[0] - 1, found[-1], found[-1] + 1, 0, 2**64 - 1)] == [
        True,
        False,
        True,
        False,
        False,
        False,
    ]
    assert codes(Floats(), [math.inf, math.nan, -math.inf, 1.0], "clamp") == [
        found[-1],
        found[0],
        codes(Floats(), [1.0])[0],
    ]


@pytest.mark.parametrize(
    "u", [1, 2**52, 2**52 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2**52, 2**64 - 2**52 + 1, 2**64 - 1]
)
def test_a_cut_prints_what_it_does(u: int) -> None:
    values = [-1.7976931348623157e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.7976931348623157e308]
    assert [v > Floats().value(u - 1) for v in values] == [c >= u for c in codes(Floats(), values)]


@quick
@given(st.lists(INT64 | UINT64 | st.integers(2**53 - 5, 2**53 + 5)))
def test_integers_that_floats_cannot_hold_are_never_rounded_silently(values: list[int]) -> None:
    rounded = sum(int(float(v)) != v for v in values)
    below = codes(Floats(), [float(v) if int(float(v)) <= v else math.nextafter(float(v), -math.inf) for v in values])
    columns = [[str(v) for v in values], pl.Series(values, dtype=pl.Int128)]
    columns += [
        np.array(values, t)
        for t in (np.int64, np.uint64)
        if all(np.iinfo(t).min <= v <= np.iinfo(t).max for v in values)
    ]
    for column in columns:
        assert codes(Floats(), column, "drop") == codes(Floats(), column, "clamp") == below
        if rounded:
            with pytest.raises(SchemaError, match=f"{rounded} integers that a 64-bit float cannot hold"):
                Floats().encode(column)


# Dates


@quick
@given(st.dates(), st.data())
def test_dates_round_trip_in_every_form(lo: date, data: st.DataObject) -> None:
    hi = data.draw(st.dates(min_value=lo))
    domain = Dates(lo, hi)
    days = data.draw(st.lists(st.dates(lo, hi), min_size=1))
    expected = [(d - lo).days for d in days]
    assert domain.size == (hi - lo).days + 1
    assert [domain.value(c) for c in expected] == days
    for column in (
        days,
        [d.isoformat() for d in days],
        np.array(days, "M8[D]"),
        [datetime(d.year, d.month, d.day) for d in days],
    ):
        assert codes(domain, column) == expected


def test_times_of_day_are_off_the_grid_and_clamp_to_their_day() -> None:
    domain = Dates("2020-01-01", "2020-12-31")
    moments = [
        datetime(2020, 1, 2, 3),
        datetime(2020, 12, 31, 23, 59),
        datetime(2019, 12, 31, 5),
        datetime(2021, 1, 1),
        None,
    ]
    for column in (moments, [None if m is None else m.isoformat() for m in moments]):
        assert codes(domain, column, "drop") == [1, 365]
        assert codes(domain, column, "clamp") == [1, 365, 0, 365]
        with pytest.raises(SchemaError, match=r"1 missing or NaN, 2 outside .*, 2 not whole days"):
            domain.encode(column)
    aware = pl.Series([datetime(2020, 1, 1)]).dt.replace_time_zone("Europe/Berlin")
    assert codes(domain, aware) == [0]
    assert domain.value(1) - domain.value(0) == timedelta(days=1)


# Categories


def test_categories_match_by_text_in_the_listed_order() -> None:
    domain = Categories(["3", 1, "b"])
    assert codes(domain, ["b", "1", "3"]) == [2, 1, 0]
    assert codes(domain, np.array([1.0, 3.0])) == [1, 0]
    assert codes(domain, pl.Series([1, None, 7, 3])[[0, 3]]) == [1, 0]
    assert codes(domain, pl.Series([Decimal("1.00"), Decimal("1.50")]), "drop") == [1]
    assert codes(domain, pl.Series(["b", "z", None], dtype=pl.Categorical), "clamp") == [2]
    assert [domain.value(c) for c in range(3)] == ["3", 1, "b"]


@quick
@given(st.lists(st.text(), min_size=1, unique=True))
def test_categories_round_trip_for_any_text(names: list[str]) -> None:
    domain = Categories(names)
    assert codes(domain, pl.Series(names[::-1], dtype=pl.String)) == list(range(len(names)))[::-1]


# Declarations

DOMAINS = [
    Integers(-5, 2**63),
    Grid(-1, "2.5", "0.1"),
    Grid(0, "2e-12", "1e-20"),
    Floats(),
    Dates("2000-02-29", "2001-01-01"),
    Categories(["a", 2]),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_stored_domains_come_back_equal(domain: Domain) -> None:
    assert Domain.from_dict(domain.to_dict()) == domain
    assert hash(Domain.from_dict(domain.to_dict())) == hash(domain)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_empty_columns_of_any_type_are_fine(domain: Domain) -> None:
    assert codes(domain, []) == []
    assert codes(domain, pl.Series([], dtype=pl.String)) == []


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("code", [-1, 2**64, 2**70])
def test_codes_outside_are_refused(domain: Domain, code: int) -> None:
    with pytest.raises(ParameterError):
        domain.value(code)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Integers(2, 1),
        lambda: Integers(-(2**63) - 1, 0),
        lambda: Integers(0, 2**64),
        lambda: Integers(-1, 2**64 - 1),
        lambda: Grid(0, 1, 0.3),
        lambda: Grid(0, 1, 0),
        lambda: Grid(0, 1, -1),
        lambda: Grid(1, 0, 1),
        lambda: Grid(0, 1, "1/3"),
        lambda: Grid(0, 2**64, 1),
        lambda: Grid(0, float("nan"), 1),
        lambda: Dates("2020-02-30", "2021-01-01"),
        lambda: Dates("2021-01-01", "2020-01-01"),
        lambda: Categories([]),
        lambda: Categories(["1", 1]),
        lambda: Domain.from_dict({"kind": "shapes"}),
        lambda: Domain.from_dict({"kind": "integers", "lo": 1}),
        lambda: Integers(0, 1).encode([1], "ignore"),
    ],
)
def test_bad_declarations_are_parameter_errors(build: object) -> None:
    with pytest.raises(ParameterError):
        build()  # type: ignore[operator]


@pytest.mark.parametrize(
    "build",
    [
        lambda: Integers(0.0, 1),  # type: ignore[arg-type]
        lambda: Integers(True, 3),
        lambda: Grid(None, 1, 1),  # type: ignore[arg-type]
        lambda: Dates(2020, 2021),  # type: ignore[arg-type]
        lambda: Categories("abc"),
        lambda: Categories([1.5]),  # type: ignore[list-item]
    ],
)
def test_wrong_python_types_are_type_errors(build: object) -> None:
    with pytest.raises(TypeError):
        build()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("domain", "values", "words"),
    [
        (Integers(0, 9), [7777, -3, 5], "2 outside whole numbers 0..9"),
        (Integers(0, 9), [None, 77.5, 5.5], "1 missing or NaN, 1 outside whole numbers 0..9, 1 not whole numbers"),
        (Integers(0, 9), ["77secret", "5"], "1 not a number"),
        (Integers(0, 9), [7 * 10**40, 5], "1 outside whole numbers 0..9"),
        (
            Integers(0, 9),
            ["1e77777777777", "-7e999999", "1e-7777777"],
            "2 outside whole numbers 0..9, 1 not whole numbers",
        ),
        (Grid(0, 1, 0.5), [0.777, 0.5], "1 off the grid"),
        (Floats(), [math.nan, math.inf, 77.0], "1 missing or NaN, 1 outside finite 64-bit floats"),
        (Floats(), [2**53 + 7777], "1 integers that a 64-bit float cannot hold"),
        (Floats(), ["77secret"], "1 not a number"),
        (
            Dates("2020-01-01", "2020-01-31"),
            ["7777-01-01", "secret77", "2020-01-02T07:07"],
            "1 outside dates 2020-01-01..2020-01-31, 1 not whole days, 1 not an ISO date",
        ),
        (Categories(["a", "b"]), ["a", "secret77", None], "1 missing or NaN, 1 not a listed category"),
    ],
)
def test_errors_name_column_rule_and_count_and_quote_no_value(domain: Domain, values: list[object], words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        domain.encode(values, name="glucose")
    message = str(caught.value)
    assert message.startswith(f"column 'glucose': {words} (number of records); allowed: ")
    assert "77" not in message
    assert "secret" not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (Integers(0, 9), pl.Series([[1], [2]])),
        (Integers(0, 9), pl.Series([date(2020, 1, 1)])),
        (Integers(0, 9), pl.Series([{"secret": 77}])),
        (Integers(0, 9), pl.Series([b"secret77"])),
        (Integers(0, 9), np.array([b"secret77"])),
        (Floats(), pl.Series([date(2020, 1, 1)])),
        (Dates("2020-01-01", "2020-01-31"), np.array([1, 2])),
        (Categories(["a"]), pl.Series([["a"]])),
        (Integers(0, 9), np.zeros((2, 2))),
        (Integers(0, 9), np.zeros(2, complex)),
        (Integers(0, 9), np.zeros(2, np.longdouble)),
        (Integers(0, 9), 7),
    ],
)
def test_columns_of_the_wrong_type_are_schema_errors(domain: Domain, values: object) -> None:
    for rule in ("raise", "drop", "clamp"):
        with pytest.raises(SchemaError, match=r"^column 'glucose'") as caught:
            domain.encode(values, rule, name="glucose")
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("domain", "values", "unread"),
    [
        (Integers(0, 9), [[1], [2]], 2),
        (Integers(0, 9), [date(2020, 1, 1)], 1),
        (Integers(0, 9), [{"secret": 77}], 1),
        (Integers(0, 9), [b"secret77"], 1),
        (Floats(), [date(2020, 1, 1)], 1),
        (Dates("2020-01-01", "2020-01-31"), [1, 20200102], 2),
        (Categories(["a"]), [["a"]], 1),
        (Integers(0, 9), [1, "secret77", object()], 2),
    ],
)
def test_objects_of_the_wrong_type_are_unreadable_one_by_one(domain: Domain, values: list[Any], unread: int) -> None:
    with pytest.raises(SchemaError, match=rf"^column 'glucose': {unread} not an? ") as caught:
        domain.encode(values, name="glucose")
    assert "secret" not in str(caught.value)
    for rule in ("drop", "clamp"):
        assert int(domain.encode(values, rule)[1].sum()) == len(values) - unread


# Typical ranges

TYPICAL = [
    (Integers(0, 10**7, typical=(10**4, 200_000)), "0:10000000~10000:200000", [10**4, 200_000], (10**4, 200_000)),
    (Integers(-5, 5, typical=(-1, -1)), "-5:5~-1:-1", [-1, -1], (4, 4)),
    (Grid(-1, "4.1", "0.3", typical=("-0.7", 2)), "-1:4.1:0.3~-0.7:2", ["-0.7", "2"], (1, 10)),
    (
        Dates("2020-01-01", "2029-12-31", typical=(date(2020, 1, 2), "2021-01-01")),
        "2020-01-01:2029-12-31~2020-01-02:2021-01-01",
        ["2020-01-02", "2021-01-01"],
        (1, 366),
    ),
]


@pytest.mark.parametrize(("domain", "written", "stored", "places"), TYPICAL, ids=lambda value: type(value).__name__)
def test_a_typical_range_is_declared_stored_and_read_back(
    domain: Domain, written: str, stored: list[Any], places: tuple[int, int]
) -> None:
    assert domain.typical_codes() == places
    assert domain.to_schema() == written
    assert parse_domain(written) == parse_domain(domain.to_text()) == domain
    assert domain.to_dict()["typical"] == stored
    assert Domain.from_dict(domain.to_dict()) == domain
    assert "typical=" in repr(domain)
    low, high = (domain.value(code) for code in places)
    assert parse_domain(written.partition("~")[0]).with_typical(low, high) == domain
    missing = Missing(domain, "own")
    assert (missing.typical_codes(), missing.anchor()) == (places, domain.anchor())
    assert parse_domain(missing.to_text()) == missing


@pytest.mark.parametrize(("domain", "written", "stored", "places"), TYPICAL, ids=lambda value: type(value).__name__)
def test_a_typical_range_changes_no_code_and_refuses_no_value(
    domain: Domain, written: str, stored: list[Any], places: tuple[int, int]
) -> None:
    plain = parse_domain(written.partition("~")[0])
    assert plain.typical_codes() is None
    assert "typical" not in plain.to_dict()
    assert plain != domain
    inside = [domain.value(code) for code in (0, *places, domain.size - 1)]
    assert codes(domain, inside) == codes(plain, inside) == [0, *places, domain.size - 1]
    assert (domain.size, domain.describe()) == (plain.size, plain.describe())


@pytest.mark.parametrize(
    "written",
    ["0:9~1", "0:9~1:2:3", "0:9~a:b", "0:9~4:3", "0:9~4:30", "0:9~", "0:9:0.5~0.3:4", "2020-01-01:2020-02-01~1:2"],
)
def test_a_typical_range_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(ParameterError, match="typical"):
        parse_domain(written)


def test_typical_is_a_pair_of_a_domain_with_two_ends() -> None:
    with pytest.raises(TypeError, match="typical must be a pair"):
        Integers(0, 9, typical=3)
    with pytest.raises(ParameterError, match="got 3 values"):
        Integers(0, 9, typical=(1, 2, 3))
    with pytest.raises(ParameterError, match="goes with numbers"):
        Floats().with_typical(0, 1)


@pytest.mark.parametrize(
    ("domain", "code", "cut"),
    [
        (Integers(0, 9), 0, 0),
        (Integers(-5, 5), 5, 5),
        (Integers(4, 9), 0, 0),
        (Integers(-9, -4), 5, 6),
        (Grid(-1, "4.1", "0.3"), 4, 4),
        (Dates("2020-01-01", "2020-12-31"), 0, None),
        (Floats(), None, None),
        (Categories(["a", "b"]), None, None),
    ],
)
def test_the_anchor_is_the_value_nearest_to_zero(domain: Domain, code: int | None, cut: int | None) -> None:
    assert (domain.anchor(), domain.anchor_cut()) == (code, cut)
