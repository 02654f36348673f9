"""One rule for who is the same person: equal canonical texts, in memory and streamed, whatever the types."""

from __future__ import annotations

import datetime as dt
import tempfile
import unicodedata
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data import Integers, UserData
from privpac.data.ids import as_ids, composed, id_column
from privpac.errors import SchemaError

SCHEMA: dict[str, Any] = {"user": "u", "features": {"x": Integers(0, 999)}}


def people(data: Any) -> list[list[int]]:
    """The users, each by the numbers of its rows."""
    return sorted(sorted(x for (x,) in user) for user in data.to_lists())


def from_arrays(ids: Any, **options: Any) -> UserData:
    return UserData.from_arrays(list(range(len(ids))), users=ids, features={"x": Integers(0, 999)}, **options)


def by(keys: list[Any]) -> list[list[int]]:
    """Rows with equal keys together."""
    return sorted([i for i, key in enumerate(keys) if key == other] for other in dict.fromkeys(keys))


# Floats


@pytest.mark.parametrize(("kind", "limit"), [(np.float16, 1 << 11), (np.float32, 1 << 24), (np.float64, 1 << 53)])
def test_floats_are_ids_as_far_as_their_width_is_exact(kind: Any, limit: int) -> None:
    good = np.array([0, -0.0, limit - 1, 1 - limit, limit - 1], kind)
    assert people(from_arrays(good)) == [[0, 1], [2, 4], [3]]
    bad = np.array([limit, 1, -limit, 0.5, np.inf], kind)
    forms: list[Any] = [
        bad,
        list(bad),
        pd.Series(bad),
        pa.array(bad),
        pl.Series(bad),
        pd.Series(list(bad), dtype=object),
    ]
    for ids in forms:
        if kind is np.float16 and isinstance(ids, pl.Series) and str(ids.dtype) != "Float16":
            continue  # polars without halves forgets what they were
        with pytest.raises(SchemaError, match="column 'users': 4 user ids are fractions or beyond"):
            from_arrays(ids)
        assert people(from_arrays(ids, on_invalid="drop")) == [[1]]


def test_six_people_with_single_precision_ids_do_not_become_three() -> None:
    ids = np.array([(1 << 24) + i for i in range(6)], np.float32)
    assert len(set(ids.tolist())) < 6
    with pytest.raises(SchemaError, match="6 user ids"):
        from_arrays(ids)


# Mixed columns


@pytest.mark.parametrize(
    ("ids", "keys"),
    [
        ([1, 1.0, 1, 1.0], "1111"),
        ([0, -0.0, 0.0, Decimal("-0")], "0000"),
        ([1, Decimal("1.0"), Decimal("1e2"), 100], "1122"),
        ([Decimal("1.50"), Decimal("1.5"), 1, 1.0], "aabb"),
        ([1 << 70, 1.0, 1, 1 << 70], "abba"),
        ([np.int8(1), np.uint64(1), 1.0, np.float32(1)], "1111"),
        ([(1 << 53) + 1, 1.0, 1 << 53, (1 << 53) + 1], "abca"),
    ],
)
def test_numbers_of_several_types_are_the_numbers_that_they_are(ids: list[Any], keys: str) -> None:
    for form in (ids, tuple(ids), np.array(ids, dtype=object), pd.Series(ids, dtype=object)):
        assert people(from_arrays(form)) == by(list(keys))
        if not isinstance(form, tuple):
            frame = pd.DataFrame({"u": pd.Series(list(form), dtype=object), "x": range(len(form))})
            assert people(UserData.from_frame(frame, **SCHEMA)) == by(list(keys))


@pytest.mark.parametrize(
    "ids", [[1, 1.5, 2], [1, float("inf"), 2], [1, np.float32(1 << 24), 2], [1 << 60, 0.5, 2], [1, Decimal("inf"), 2]]
)
def test_numbers_that_are_nobodys_are_refused_or_dropped_in_mixed_columns(ids: list[Any]) -> None:
    with pytest.raises(SchemaError, match="column 'users': 1 user ids are"):
        from_arrays(ids)
    assert people(from_arrays(ids, on_invalid="drop")) == [[0], [2]]


@pytest.mark.parametrize(
    ("ids", "keys"),
    [
        ([True, 1, 0, "true"], "abca"),
        ([1, "1", 2, np.str_("2")], "aabb"),
        ([b"a", "a", "61", "b"], "abac"),
        ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), "2020-01-01", 1], "aaab"),
        ([dt.datetime(2020, 1, 1, 9, tzinfo=dt.timezone(dt.timedelta(hours=9))), dt.datetime(2020, 1, 1)], "aa"),
        ([np.datetime64("2020-01-01T00:00:00.5"), pd.Timestamp("2020-01-01 00:00:00.5"), 1], "aab"),
    ],
)
def test_ids_of_several_types_have_the_texts_that_they_have_alone(ids: list[Any], keys: str) -> None:
    assert people(from_arrays(ids)) == by(list(keys))


@pytest.mark.parametrize("odd", [[1], {}, object(), Fraction(1, 10**101 + 1), 1j, "\ud800", np.longdouble(1)])
def test_an_object_that_is_nobody_spoils_its_own_record_alone(odd: Any) -> None:
    ids = [1, odd, "a", dt.date(2020, 1, 1)]
    with pytest.raises(SchemaError, match=r"column 'users': 1 user ids are .* objects of other types"):
        from_arrays(ids)
    assert people(from_arrays(ids, on_invalid="drop")) == [[0], [2], [3]]


def test_gaps_in_mixed_columns_are_nobody() -> None:
    ids = [1, None, 1.0, float("nan"), pd.NA]
    assert people(from_arrays(ids, on_invalid="drop")) == [[0, 2]]
    with pytest.raises(SchemaError, match="3 user ids are missing"):
        from_arrays(ids)


def test_integers_beside_fractions_keep_their_digits_as_features_too() -> None:
    for values in ([1.5, (1 << 60) + 1], [(1 << 60) + 1, 1.5]):
        kept = UserData.from_arrays(values, features={"x": Integers(0, 1 << 61)}, on_invalid="drop")
        assert kept.to_lists()[values.index((1 << 60) + 1)] == [((1 << 60) + 1,)]


# Texts


def test_texts_that_look_alike_are_one_person() -> None:
    ids = ["Zoë", "Zoe\u0308", "K\u00fcche", "\u212a\u00fcche", "zoë", " Zoë"]
    assert unicodedata.normalize("NFC", ids[1]) == ids[0]
    assert people(from_arrays(ids)) == by(["a", "a", "b", "b", "c", "d"])


@given(st.lists(st.text(max_size=4), max_size=12))
def test_composed_texts_are_the_normal_form_and_ascii_is_not_touched(texts: list[str]) -> None:
    series = pl.Series(texts, dtype=pl.String)
    found = composed(series)
    assert composed(found).to_list() == found.to_list()
    # Python's tables are of another year than polars'; they agree on characters that both know.
    known = [text for text in texts if all(unicodedata.category(c) != "Cn" for c in text)]
    assert composed(pl.Series(known, dtype=pl.String)).to_list() == [
        unicodedata.normalize("NFC", text) for text in known
    ]
    if all(text.isascii() for text in texts):
        assert found is series


def test_texts_are_otherwise_as_they_are() -> None:
    assert people(from_arrays(["1", "01", "1.0", "+1", "1 ", "1"])) == [[0, 5], [1], [2], [3], [4]]


# Dates and times


def test_dates_and_times_by_their_moment() -> None:
    noon = dt.datetime(2020, 6, 1, 12)
    stamps = pl.Series([noon, noon, noon + dt.timedelta(milliseconds=500)])
    for unit in ("ms", "us", "ns"):
        ids, absent, spoilt = as_ids(stamps.cast(pl.Datetime(unit)), "u")
        assert ids.to_list() == ["2020-06-01 12:00:00", "2020-06-01 12:00:00", "2020-06-01 12:00:00.5"]
        assert absent is None
        assert spoilt is not None
        assert not spoilt.any()
    zoned = stamps.dt.replace_time_zone("UTC")
    assert as_ids(zoned.dt.convert_time_zone("Asia/Tokyo"), "u")[0].to_list() == as_ids(zoned, "u")[0].to_list()
    midnight = pl.Series([dt.datetime(2020, 6, 10)])
    assert as_ids(midnight, "u")[0].to_list() == ["2020-06-10"]
    assert as_ids(midnight.cast(pl.Date), "u")[0].to_list() == ["2020-06-10"]


FAR: list[pl.Series] = [
    pl.Series([0, (1 << 31) - 1, -(1 << 31), 3_000_000], dtype=pl.Int32).cast(pl.Date),
    pl.Series([0, (1 << 63) - 1, -(1 << 63), 10**18]).cast(pl.Datetime("ms")),
    pl.Series([0, (1 << 63) - 1, -(1 << 63), 10**18]).cast(pl.Datetime("us")),
    pl.Series([0, (1 << 63) - 1, -(1 << 63), 10**18]).cast(pl.Datetime("us", "Asia/Tokyo")),
]


@pytest.mark.parametrize("far", FAR, ids=lambda series: str(series.dtype))
def test_dates_beyond_the_calendar_are_refused_and_never_a_panic(far: pl.Series) -> None:
    with pytest.raises(SchemaError, match=r"column 'users': 3 user ids are .* or dates outside the years 1 to 9999"):
        from_arrays(far)
    assert people(from_arrays(far, on_invalid="drop")) == [[0]]
    for domain, words in (
        (pp.Dates("1970-01-01", "1970-12-31"), "3 outside"),
        (pp.Categories(["1970-01-01"]), None),
        (pp.Texts(), None),
    ):
        frame = pl.DataFrame({"x": far})
        if words is not None or far.dtype == pl.Date:
            with pytest.raises(SchemaError, match=words or "3 missing"):
                UserData.from_frame(frame, user=None, features={"x": domain})
    clamped = UserData.from_frame(
        pl.DataFrame({"x": far}), user=None, features={"x": pp.Dates("1970-01-01", "1970-12-31")}, on_invalid="clamp"
    )
    assert clamped.codes["x"].tolist() == [0, 364, 0, 364]


def test_days_are_counted_on_the_column_s_own_clock() -> None:
    late = pl.Series([dt.datetime(1969, 12, 31, 20), dt.datetime(1970, 1, 1, 15)]).dt.replace_time_zone("UTC")
    tokyo = late.dt.convert_time_zone("Asia/Tokyo")  # 05:00 on the 1st, 00:00 on the 2nd
    kept = UserData.from_frame(
        pl.DataFrame({"x": tokyo}), user=None, features={"x": pp.Dates("1970-01-01", "1970-01-03")}, on_invalid="clamp"
    )
    assert kept.codes["x"].tolist() == [0, 1]


# All engines


class _Collect:
    def zero(self) -> list[list[int]]:
        return []

    def chunk(self, users: UserData) -> list[list[int]]:
        return people(users)

    def merge(self, a: list[list[int]], b: list[list[int]]) -> list[list[int]]:
        return sorted(a + b)


NAMES = st.sampled_from(["a", "é", "e\u0301", "1", "01", "Å", "\u212b", "A\u030a", "\ud55c", "\u1112\u1161\u11ab"])
COLUMNS = st.one_of(
    st.lists(NAMES, min_size=1, max_size=30),
    st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0]), min_size=1, max_size=30),
    st.lists(st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2)), min_size=1, max_size=30),
    st.lists(st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 4)), min_size=1, max_size=30),
    st.lists(st.booleans(), min_size=1, max_size=30),
)


def canonical(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    return value + 0 if isinstance(value, (float, Decimal)) else value


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(COLUMNS, st.integers(1, 8), st.integers(1, 3))
def test_every_engine_sees_the_same_people_and_keeps_the_same_records(ids: list[Any], chunk: int, cap: int) -> None:
    frame = pl.DataFrame({"u": pl.Series(ids), "x": range(len(ids))})
    expected = by([canonical(value) for value in ids])
    kept = None
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a.parquet"
        frame.write_parquet(path, row_group_size=5)
        forms: list[Any] = [frame, frame.to_pandas(), frame.to_arrow(), duckdb.connect().from_arrow(frame.to_arrow())]
        found = [UserData.from_frame(form, **SCHEMA) for form in forms] + [UserData.read(path, **SCHEMA)]
        for data in found:
            assert people(data) == expected
            records = people(data.max_records(cap))
            assert kept is None or records == kept
            kept = records
        streamed = pp.scan(path, **SCHEMA, chunk_rows=chunk, spill=place, progress=False)
        assert streamed.fold(_Collect()) == expected
        assert streamed.max_records(cap, "hash").fold(_Collect()) == kept


@given(st.lists(st.integers(-(1 << 53) + 1, (1 << 53) - 1), min_size=1, max_size=20), st.integers(1, 3))
def test_integers_floats_decimals_and_texts_of_integers_are_the_same_people(numbers: list[int], cap: int) -> None:
    forms: list[list[Any]] = [
        numbers,
        [float(n) for n in numbers],
        [Decimal(n) for n in numbers],
        [str(n) for n in numbers],
    ]
    forms.append([float(n) if i % 2 else n for i, n in enumerate(numbers)])
    kept = [people(from_arrays(ids).max_records(cap, "hash")) for ids in forms]
    assert all(people(from_arrays(ids)) == by(numbers) for ids in forms)
    assert all(records == kept[0] for records in kept)


def test_typed_columns_are_not_copied() -> None:
    series = pl.Series(np.arange(5))
    assert id_column(series, "u") is series or id_column(series, "u").to_list() == series.to_list()
