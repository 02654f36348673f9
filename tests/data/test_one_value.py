"""One person's value never changes how another person's values are read, and raises nothing under drop and clamp."""

from __future__ import annotations

import datetime as dt
import tempfile
import weakref
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.api.learn import prepare
from privpac.data import Categories, Dates, Floats, Grid, Integers, Missing, Texts, UserData
from privpac.data.columns import column
from privpac.data.domains import Domain
from privpac.data.engines.lazy_plan import Recipe, faults_of
from privpac.data.ids import as_ids
from privpac.data.objects import OBJECTS, _each, objects
from privpac.data.schema import Verdict
from privpac.errors import ParameterError, SchemaError
from privpac.evaluation.evaluator import bind_predictor

quick = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


class Plain(Enum):
    A = 1


class Word(StrEnum):
    A = "a"


class Number(IntEnum):
    TWO = 2


class Hostile:
    """Raises whatever is asked of it."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("do not ask")

    __eq__ = __ne__ = __lt__ = __bool__ = __len__ = __iter__ = __float__ = __int__ = __index__ = _refuse
    __str__ = __repr__ = __hash__ = __getattr__ = _refuse


class Loud(str):
    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("do not ask")

    __str__ = __repr__ = encode = strip = isascii = __len__ = _refuse  # type: ignore[assignment]


class Liar(int):
    def __int__(self) -> int:
        raise RuntimeError("do not ask")

    __index__ = __repr__ = __str__ = __int__  # type: ignore[assignment]


class Nowhere(dt.tzinfo):
    def utcoffset(self, _: Any) -> Any:
        raise RuntimeError("do not ask")

    tzname = dst = utcoffset


ODD: list[Any] = [
    *(None, float("nan"), float("inf"), float("-inf"), -0.0, 0.5, 2, 7, 2**53 + 1, -(2**63), 2**64, 2**127, 10**5000),
    *(-(10**5000), True, False, "", " ", "7", "1.0", "true", "True", "nan", "inf", "2020-01-05", "a", "é", "e\u0301"),
    *("x" * 200_000, "0" * 5000 + "9007199254740993", "\ud800", "a\x00b", "NA", "1e400", "-", "5" * 5000),
    *(
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("inf"),
        Decimal("1.50"),
        Decimal(3),
        Decimal("1e9999"),
        Decimal("1e-9999"),
    ),
    *(Decimal("-0"), Fraction(1, 3), Fraction(-1, 3), Fraction(7), Fraction(1, 10**200), Fraction(3, 4)),
    *(
        b"a",
        bytearray(b"a"),
        [1],
        (1,),
        [],
        {},
        {1},
        {"a": 1},
        object(),
        print,
        int,
        1j,
        range(3),
        Hostile(),
        Loud("a"),
    ),
    *(Liar(5), Plain.A, Word.A, Number.TWO, dt.date(2020, 1, 5), dt.date(9999, 12, 31), dt.date(1, 1, 1)),
    *(dt.datetime(2020, 1, 5), dt.datetime(2020, 1, 5, 6, 7, 8, 9), dt.datetime(2020, 1, 5, tzinfo=dt.UTC)),
    *(dt.datetime(2020, 1, 5, 23, tzinfo=ZoneInfo("Asia/Tokyo")), dt.datetime(1, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))),
    *(dt.datetime(2020, 1, 5, tzinfo=Nowhere()), dt.time(3), dt.timedelta(1), pd.NA, pd.NaT, pd.Timedelta(1)),
    *(pd.Timestamp("2020-01-05"), pd.Timestamp("2020-01-05 00:00:00.000000001"), pd.Period("2020")),
    *(
        pd.Timestamp("2020-01-05 09:00", tz="Asia/Tokyo"),
        pd.Interval(0, 1),
        np.bool_(True),
        np.str_("a"),
        np.bytes_(b"a"),
    ),
    *(kind(3) for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)),
    *(kind(0.1) for kind in (np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128)),
    *(kind("nan") for kind in (np.float16, np.float32, np.float64, np.longdouble)),
    *(np.datetime64("2020-01-05", unit) for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps")),
    *(np.datetime64("NaT"), np.datetime64(2**62, "s"), np.datetime64(-(2**62), "D"), np.timedelta64(1, "D")),
    *(np.array(3), np.array([1]), np.void(b"a")),
]

DOMAINS: list[Domain] = [
    *(Integers(0, 9), Integers(0, 2**64 - 1), Grid(0, 9, "0.5"), Grid(-(10**14), 10**14, "0.0001"), Floats()),
    *(Dates("2020-01-01", "2020-12-31"), Categories(["false", "true"]), Categories([1, 2, 3]), Categories(["a", "b"])),
    *(Texts(), Missing(Integers(0, 9), "own"), Missing(Floats(), "own"), Missing(Categories(["a", 1]), "drop")),
]

BASES: list[list[Any]] = [
    [True, False, True, False, None, True],
    [1, 0, 1, 2, 3, 0],
    [1.0, 2.0, 0.5, 3.0, 1.0, float("nan")],
    ["a", "b", "1", "2.5", "2020-01-05", None],
    [2**53 + 1, 1, 2**60, 3, -5, 0],
    [dt.date(2020, 1, 5), dt.date(2019, 1, 1), None, dt.date(2020, 2, 2), dt.date(2020, 1, 5), dt.date(2021, 1, 1)],
    [1, True, "a", 2.5, Decimal("1.5"), dt.datetime(2020, 3, 3, 4)],
    [Decimal("1.0"), Decimal("2.50"), 1, np.float32(0.1), np.int8(2), Fraction(1, 2)],
]

OBJECT_ROUTES: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda values: values,
    "tuple": tuple,
    "pandas": lambda values: pd.Series(_array(values), dtype=object),
    "numpy": lambda values: _array(values),
    # polars takes a first value that is a member of an Enum for a sign that all are
    "polars": lambda values: pl.Series([object(), *values], dtype=pl.Object).slice(1),
}


def _array(values: list[Any]) -> Any:
    out = np.empty(len(values), object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def told(data: UserData, odd: int) -> dict[int, tuple[Any, ...]]:
    """Everything about the other people's records, by the number of the record."""
    shown = {}
    words = data.vocabulary("x") if "x" in data.codes else None
    for person, (a, b) in enumerate(zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist())):
        for row in range(a, b):
            number = int(data.codes["n"][row])
            if number != odd:
                code = int(data.codes["x"][row]) if "x" in data.codes else None
                shown[number] = (
                    code if words is None or code is None else words[code],
                    None if data.labels is None else int(data.labels[row]),
                    None if data._ids is None else data._ids[person],
                )
    return shown


def same_for_others(build: Callable[[list[Any]], UserData], base: list[Any], odd: Any, place: int) -> None:
    """Replace one value; the type of the column, if it has one, stays."""
    changed = [odd if i == place else value for i, value in enumerate(base)]
    assert told(build(changed), place) == told(build(base), place)


numbered = {"n": Integers(0, 99)}
WHO = [0, 0, 1, 1, 2, 3]
odd_values = st.integers(0, len(ODD) - 1)  # their places: hypothesis shows what it draws, and some cannot be shown
cases = st.tuples(st.sampled_from(range(len(BASES))), odd_values, st.integers(0, 5), st.sampled_from(["drop", "clamp"]))


def read_case(case: tuple[Any, ...]) -> tuple[list[Any], Any, int, str]:
    return BASES[case[0]], ODD[case[1]], case[2], case[3]


@quick
@given(cases, st.sampled_from(sorted(OBJECT_ROUTES)), st.sampled_from(DOMAINS), st.booleans())
def test_features_of_objects(case: tuple[Any, ...], route: str, domain: Domain, late: bool) -> None:
    base, odd, place, policy = read_case(case)

    def build(values: list[Any]) -> UserData:
        frame = {"n": np.arange(6), "x": OBJECT_ROUTES[route](values), "u": WHO}
        if route == "pandas":
            features: Any = numbered | {"x": None if late else domain}
            told: dict[str, Any] = {"user": "u", "features": features, "on_invalid": policy}
            data = UserData.from_frame(pd.DataFrame(frame), **told)
        else:
            columns = pl.DataFrame({"n": frame["n"], "x": column(frame["x"], "x")})
            features = numbered | {"x": None if late else domain}
            data = UserData.from_arrays(columns, users=WHO, features=features, on_invalid=policy)
        return data.bind({"x": domain}) if late else data

    same_for_others(build, base, odd, place)


@quick
@given(cases, st.sampled_from(DOMAINS))
def test_features_of_lists_of_users(case: tuple[Any, ...], domain: Domain) -> None:
    base, odd, place, policy = read_case(case)

    def build(values: list[Any]) -> UserData:
        users = [[(i, value, i % 2)] for i, value in enumerate(values)]
        return UserData.from_users(users, features=numbered | {"x": domain}, on_invalid=policy)

    same_for_others(build, base, odd, place)

    def alone(values: list[Any]) -> UserData:  # records that are one value, or a list of another length
        users = [[(i, value) if i != place else value] for i, value in enumerate(values)]
        told: dict[str, Any] = {"features": numbered | {"x": domain}, "labelled": False, "on_invalid": policy}
        return UserData.from_users(users, **told)

    same_for_others(alone, base, odd, place)


LABELS: list[tuple[list[Any], dict[str, Any]]] = [
    ([True, False, True, False, True, True], {}),
    ([1, 0, 1, 0, 0, 1], {}),
    ([1.0, 0.0, 1.0, 1.0, 0.0, 0.0], {}),
    ([1, False, Decimal(1), 0.0, np.int8(1), Fraction(0)], {}),
    ([True, False, True, False, True, True], {"positive": True}),
    (["a", "b", "a", "c", "b", "a"], {"positive": "a"}),
    ([0.0, 1.0, 2.0, 1.0, 0.0, 2.0], {"classes": [0, 1, 2]}),
    ([True, False, True, False, True, True], {"label_map": {True: 1, False: 0}}),
    (["a", "b", "a", "b", "b", "a"], {"label_map": {"a": 1, "b": 0}}),
]


@quick
@given(
    st.integers(0, len(LABELS) - 1),
    odd_values,
    st.integers(0, 5),
    st.sampled_from(["raise", "drop", "clamp"]),
    st.sampled_from(sorted(OBJECT_ROUTES)),
)
def test_labels_of_objects(labels: int, chosen: int, place: int, policy: str, route: str) -> None:
    (base, meaning), odd = LABELS[labels], ODD[chosen]

    def build(values: list[Any], rule: str = "drop") -> UserData:
        y = OBJECT_ROUTES[route](values)
        options: dict[str, Any] = {"features": numbered, "on_invalid": policy, "on_invalid_label": rule, **meaning}
        if "positive" not in meaning:
            return UserData.from_arrays(np.arange(6), y, WHO, **options)
        frame = pd.DataFrame({"n": np.arange(6), "y": pd.Series(_array(values), dtype=object), "u": WHO})
        return UserData.from_frame(frame, user="u", label="y", **options)

    same_for_others(build, base, odd, place)
    changed = [odd if i == place else value for i, value in enumerate(base)]
    if len(build(changed).labels) == 6:  # type: ignore[arg-type]
        assert told(build(changed, "raise"), place) == told(build(base, "raise"), place)
    else:
        with pytest.raises(SchemaError, match=r"^column 'y': 1 .*on_invalid_label='drop'"):
            build(changed, "raise")


IDS: list[list[Any]] = [
    [1, 1, 2, 3, 2, 1],
    [1.0, 1.0, 2.0, 3.0, 2.0, 1.0],
    ["a", "b", "a", "1", "é", "e\u0301"],
    [True, False, True, False, True, False],
    [1, "1", 1.0, True, "true", Decimal("1.50")],
    [dt.date(2020, 1, 1), "2020-01-01", dt.datetime(2020, 1, 1), b"a", "61", 7],
]


@quick
@given(st.integers(0, len(IDS) - 1), odd_values, st.integers(0, 5), st.sampled_from(sorted(OBJECT_ROUTES)))
def test_ids_of_objects(column: int, chosen: int, place: int, route: str) -> None:
    base, odd = IDS[column], ODD[chosen]

    def build(values: list[Any]) -> UserData:
        ids = OBJECT_ROUTES[route](values)
        if route == "pandas":
            frame = pd.DataFrame({"n": np.arange(6), "u": ids})
            return UserData.from_frame(frame, user="u", features=numbered, on_invalid="drop")
        return UserData.from_arrays(np.arange(6), users=ids, features=numbered, on_invalid="drop")

    same_for_others(build, base, odd, place)


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_every_odd_value_beside_every_column(domain: Domain) -> None:
    def read(values: list[Any], place: int) -> list[Any]:
        if isinstance(domain, Texts):
            (codes, verdicts), words = domain.dictionary(objects(values), "x")
            shown = [words[code] if len(words) else None for code in codes.tolist()]
        else:
            codes, verdicts = domain.read(objects(values), "x")
            shown = codes.tolist()
        found = [0] * len(values) if verdicts is None else verdicts.tolist()
        unsaid = (Verdict.MISSING, Verdict.UNREAD)
        return [v if v in unsaid else (s, v) for i, (s, v) in enumerate(zip(shown, found)) if i != place]

    for base in BASES:
        for odd in ODD:
            for place in (0, 4):
                changed = [odd if i == place else value for i, value in enumerate(base)]
                assert read(changed, place) == read(base, place)


# Typed tables: the odd value is any that the type can hold

NANOSECONDS = pl.Datetime("ns", "Asia/Tokyo")
TYPED: list[tuple[Any, list[Any], list[Any]]] = [
    (pl.Int64, [1, 0, 2, 3, 1, 5], [None, 2**63 - 1, -(2**63), 2**53 + 1, 7]),
    (pl.UInt64, [1, 0, 2, 3, 1, 5], [None, 2**64 - 1, 2**53 + 1]),
    (pl.Int128, [1, 0, 2, 3, 1, 5], [None, 2**127 - 1, -(2**127)]),
    (pl.Float64, [1.0, 0.0, 0.5, 2.0, 3.0, 1.0], [None, float("nan"), float("inf"), float("-inf"), 1e300, -0.0, 0.3]),
    (pl.Float32, [1.0, 0.0, 0.5, 2.0, 3.0, 1.0], [None, float("nan"), float("inf"), 16777217.0, 0.1]),
    (pl.Boolean, [True, False, True, True, False, False], [None, True, False]),
    (pl.String, ["a", "1", "2020-01-05", "true", "2.5", "0"], [v for v in ODD if type(v) is str and v.isprintable()]),
    (pl.Date, [dt.date(2020, 1, d) for d in range(1, 7)], [None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pl.Datetime("us"), [dt.datetime(2020, 1, d) for d in range(1, 7)], [None, dt.datetime(1, 1, 1, 1)]),
    (pl.Decimal(38, 2), [Decimal("1.50"), *map(Decimal, range(5))], [None, Decimal(10**30), Decimal("0.01")]),
    (pl.Categorical, ["a", "b", "1", "a", "b", "2"], [None, "zz", "3"]),
    (pl.Null, [None] * 6, [None]),
]
typed_cases = st.sampled_from(TYPED).flatmap(
    lambda t: st.tuples(st.just(t[0]), st.just(t[1]), st.sampled_from(t[2]), st.integers(0, 5))
)


def typed_build(role: str, dtype: Any, domain: Domain, policy: str, route: str) -> Callable[[list[Any]], UserData]:
    def build(values: list[Any]) -> Any:
        frame = pl.DataFrame({"n": range(6), role: pl.Series(values, dtype=dtype, strict=True)})
        options: dict[str, Any] = {"on_invalid": policy, "on_invalid_label": "drop", "user": None}
        options |= {"features": numbered | ({"x": domain} if role == "x" else {})}
        options |= {"label": "y"} if role == "y" else {"user": "u"} if role == "u" else {}
        if role == "y" and dtype in (pl.String, pl.Categorical, pl.Decimal(38, 2), pl.Date):
            options |= {"positive": {pl.Date: "2020-01-05", pl.Decimal(38, 2): "1.50"}.get(dtype, "a")}
        if route in ("polars", "arrow", "pandas"):
            form = {"polars": lambda: frame, "arrow": frame.to_arrow, "pandas": frame.to_pandas}[route]()
            return UserData.from_frame(form, **options)
        with tempfile.TemporaryDirectory() as place:
            if route == "csv":
                path = Path(place) / "t.csv"
                frame.with_columns(pl.col(role).cast(pl.String)).write_csv(path)
                return UserData.read(path, **options)
            path = Path(place) / "t.parquet"
            frame.write_parquet(path)
            if route == "parquet":
                return UserData.read(path, **options)
            streamed = pp.scan(path, **options, chunk_rows=2, progress=False)
            found = streamed.fold(Everything())
            return found[0] if len(found) == 1 else found

    return build


class Everything:
    """Users as they come, chunk by chunk."""

    def zero(self) -> list[UserData]:
        return []

    def chunk(self, users: UserData) -> list[UserData]:
        return [users]

    def merge(self, a: list[UserData], b: list[UserData]) -> list[UserData]:
        return a + b


def same_for_others_typed(build: Callable[[list[Any]], Any], base: list[Any], odd: Any, place: int) -> None:
    def gathered(values: list[Any]) -> Any:
        found = build(values)
        parts = found if isinstance(found, list) else [found]
        return dict(sorted((n, what) for part in parts for n, what in told(part, place).items()))

    changed = [odd if i == place else value for i, value in enumerate(base)]
    try:
        before = gathered(base)
    except SchemaError:
        for values in (base, changed):  # by its type: the same for all
            with pytest.raises(SchemaError, match="has type"):
                gathered(values)
        return
    assert gathered(changed) == before


@quick
@given(
    typed_cases,
    st.sampled_from(DOMAINS),
    st.sampled_from(["drop", "clamp"]),
    st.sampled_from(["polars", "arrow", "csv", "parquet", "scan"]),
    st.sampled_from(["x", "x", "y", "u"]),
)
def test_typed_columns_and_files(case: tuple[Any, ...], domain: Domain, policy: str, route: str, role: str) -> None:
    dtype, base, odd, place = case
    if route in ("arrow", "parquet", "scan") and dtype == pl.Int128:
        route = "polars"  # Arrow has no such integers
    same_for_others_typed(typed_build(role, dtype, domain, policy, route), base, odd, place)


@quick
@given(typed_cases, st.sampled_from(DOMAINS), st.sampled_from(["drop", "clamp"]))
def test_what_a_worker_of_a_cluster_does_to_its_rows(case: tuple[Any, ...], domain: Domain, policy: str) -> None:
    dtype, base, odd, place = case
    declared = pp.data.schema_file.declared_with(
        None,
        user="n",
        features={"x": domain},
        label=None,
        on_invalid=policy,
        label_map=None,
        positive=None,
        classes=None,
    )

    def codes(values: list[Any]) -> Any:
        frame = pl.DataFrame({"n": range(6), "x": pl.Series(values, dtype=dtype)})
        assert not faults_of({name: frame.get_column(name) for name in frame.columns}, declared).columns
        users = Recipe(declared).build(frame)
        words = users.vocabulary("x")
        lists = users.to_lists()
        found = [[r if words is None else words[r[0]] for r in records] for records in lists]
        return found[:place] + found[place + 1 :]

    changed = [odd if i == place else value for i, value in enumerate(base)]
    try:
        before = codes(base)
    except SchemaError:
        for values in (base, changed):
            with pytest.raises(SchemaError, match="has type"):
                codes(values)
        return
    assert codes(changed) == before


# Objects and typed columns agree value by value

VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pl.Int64, st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)),
    (pl.UInt64, st.integers(0, 2**64 - 1)),
    (pl.Boolean, st.booleans()),
    (pl.Float64, st.floats() | st.integers(-20, 20).map(lambda n: n / 2)),
    (pl.Float32, st.floats(width=32).map(np.float32) | st.integers(-20, 20).map(lambda n: np.float32(n / 10))),
    (pl.String, st.text() | st.sampled_from([v for v in ODD if type(v) is str and v != "\ud800"])),
    (pl.Date, st.dates()),
    (pl.Datetime("us"), st.datetimes()),
    (pl.Datetime("us", "Asia/Tokyo"), st.datetimes(dt.datetime(1900, 1, 1), timezones=st.just(ZoneInfo("Asia/Tokyo")))),
    (pl.Datetime("ns"), st.integers(-(2**62), 2**62).map(lambda n: np.datetime64(n, "ns"))),
    (pl.Decimal(30, 3), st.integers(-(10**9), 10**9).map(lambda n: Decimal(n).scaleb(-3))),
    (pl.Binary, st.binary()),
]


def typed_series(dtype: Any, values: list[Any]) -> pl.Series:
    if dtype == pl.Datetime("ns"):
        return pl.Series(np.array(values, "datetime64[ns]"))
    if getattr(dtype, "time_zone", None):
        return pl.Series([v.astimezone(dt.UTC) for v in values], dtype=pl.Datetime("us", "UTC")).dt.convert_time_zone(
            dtype.time_zone
        )
    return pl.Series([float(v) for v in values] if dtype == pl.Float32 else values, dtype=dtype)


@quick
@given(st.data())
def test_objects_are_read_like_typed_columns(data: st.DataObject) -> None:
    dtype, strategy = data.draw(st.sampled_from(VALUES))
    values = data.draw(st.lists(strategy, min_size=1, max_size=8))
    found, typed = objects(values), typed_series(dtype, values)
    assert found.dtype == OBJECTS
    for domain in DOMAINS:
        if isinstance(domain, Texts):
            continue
        codes, verdicts = domain.read(found, "x")
        try:
            wanted, judged = domain.read(typed, "x")
        except SchemaError:
            assert verdicts is not None
            assert set(verdicts.tolist()) <= {Verdict.UNREAD, Verdict.GOOD if isinstance(domain, Missing) else 4, 1}
            continue
        judged = np.zeros(len(values), np.uint8) if judged is None else judged
        verdicts = np.zeros(len(values), np.uint8) if verdicts is None else verdicts
        assert verdicts.tolist() == judged.tolist(), (domain, values)
        good = judged != Verdict.UNREAD
        good &= judged != Verdict.MISSING
        assert codes[good].tolist() == wanted[good].tolist(), (domain, values)
    ids, absent, spoilt = as_ids(found, "x")
    wanted_ids, gone, lossy = as_ids(typed, "x")
    empty = np.zeros(len(values), np.bool_)
    bad = (empty if gone is None else gone) | (empty if lossy is None else lossy)
    assert ((empty if absent is None else absent) | (empty if spoilt is None else spoilt)).tolist() == bad.tolist()
    sure = pl.Series(~bad)
    assert ids.filter(sure).to_list() == wanted_ids.filter(sure).cast(pl.String).to_list()


@quick
@given(
    st.sampled_from([st.text(), st.integers(-(2**64), 2**64), st.floats(), st.booleans()]).flatmap(
        lambda values: st.lists(values | st.none(), max_size=8)
    )
)
def test_columns_of_one_simple_type_are_read_as_the_loop_reads_them(values: list[Any]) -> None:
    fast, slow = objects(values), _each(values)
    for domain in DOMAINS:
        if isinstance(domain, Texts):
            (found, words), (expected, others) = domain.dictionary(fast, "x"), domain.dictionary(slow, "x")
            assert words.to_list() == others.to_list()
        else:
            found, expected = domain.read(fast, "x"), domain.read(slow, "x")
        assert [None if a is None else a.tolist() for a in found] == [
            None if a is None else a.tolist() for a in expected
        ]
    of_fast, of_slow = as_ids(fast, "x"), as_ids(slow, "x")
    assert of_fast[0].to_list() == of_slow[0].to_list()
    assert [None if a is None else a.tolist() for a in of_fast[1:]] == [
        None if a is None else a.tolist() for a in of_slow[1:]
    ]


# The columns that were refuted, by name

TRUTHS, COUNTS = Categories([False, True]), Categories([1, 2, 3])
REFUTED: dict[str, tuple[Domain, list[Any], list[Any], tuple[Any, Any], dict[str, Any]]] = {
    "booleans beside 2": (TRUTHS, [False, True], [0, 1], (2, 1), {"on_invalid": "drop"}),
    "booleans beside 0.5": (TRUTHS, [False, True], [0, 1], (0.5, 1), {"on_invalid": "drop"}),
    "floats beside 2^53 + 1": (COUNTS, [1.0, 2.0], [0, 1], (2**53 + 1, 1), {"on_invalid": "clamp"}),
    "a label 2": (COUNTS, [1, 2], [False, True], (1, 2), {"positive": True}),
}


@pytest.mark.parametrize("what", REFUTED)
def test_the_law_moves_by_no_more_than_epsilon(what: str) -> None:
    """Log ratios of 59, 38.9 and 31 at epsilon 1, before each object was read alone."""
    domain, values, labels, (x, y), options = REFUTED[what]
    learner: Any = prepare(pp.Points(domain), epsilon=1).learner

    def law(xs: list[Any], ys: list[Any]) -> Any:
        frame = frame_of(u=list(range(len(xs))), x=xs, y=ys)
        return learner.law(UserData.from_frame(frame, user="u", features={"x": domain}, label="y", **options))

    assert law(values * 60, labels * 60).satisfies(law([*values * 60, x], [*labels * 60, y]), 1)


def frame_of(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(_array(v), dtype=object) for name, v in columns.items()})


@pytest.mark.parametrize("odd", [2, 0.5])
def test_booleans_stay_true_and_false_beside_a_number(odd: Any) -> None:
    frame = frame_of(u=list(range(61)), x=[*[True, False] * 30, odd])
    told: dict[str, Any] = {"user": "u", "features": {"x": Categories([False, True])}, "on_invalid": "drop"}
    data = UserData.from_frame(frame, **told)
    assert data.to_lists() == [*[[(1,)], [(0,)]] * 30, []]


def test_float_codes_stay_whole_beside_a_number_that_floats_cannot_hold() -> None:
    told: dict[str, Any] = {"features": {"x": Categories([1, 2, 3])}, "on_invalid": "clamp"}
    data = UserData.from_arrays([1.0, 2.0, 3.0, 2**53 + 1], users=[1, 2, 3, 4], **told)
    assert data.to_lists() == [[(0,)], [(1,)], [(2,)], []]


def test_a_label_2_does_not_make_everybody_negative() -> None:
    frame = frame_of(u=[1, 2, 3], x=[1, 2, 3], y=[True, False, 2])
    data = UserData.from_frame(frame, user="u", features={"x": Integers(0, 9)}, label="y", positive=True)
    assert data.labels is not None
    assert data.labels.tolist() == [1, 0, 0]


def test_classes_of_float_labels_stay_classes_beside_a_large_one() -> None:
    labels = [0.0, 1.0, 2.0, 2**53 + 1]
    told: dict[str, Any] = {"classes": [0, 1, 2], "on_invalid": "drop", "features": {"x": Integers(0, 9)}}
    data = UserData.from_arrays([1, 2, 3, 4], labels, **told, on_invalid_label="drop")
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 2]
    with pytest.raises(SchemaError, match=r"^column 'y': 1 not in classes .*on_invalid_label='drop'"):
        UserData.from_arrays([1, 2, 3, 4], labels, **told)


def test_an_open_vocabulary_shows_the_same_texts_beside_a_seven() -> None:
    for rest in ([], [7]):
        frame = frame_of(u=list(range(2 + len(rest))), x=[True, False, *rest])
        found = UserData.from_frame(frame, user="u", features={"x": Texts()}).vocabulary("x")
        assert found is not None
        assert found.to_list()[:2] == ["true", "false"]


def test_undeclared_objects_are_refused_for_functions_without_a_look() -> None:
    for values in ([1, 2, 3], [1, "a", None], [], [Hostile()]):
        data = UserData.from_frame(
            frame_of(u=list(range(len(values))), x=values, y=[0] * len(values)), user="u", features=["x"], label="y"
        )
        with pytest.raises(SchemaError, match=r"columns \['x'\] hold Python objects.*features=\{'x'"):
            pp.evaluate(lambda table: [0] * len(table), data, epsilon=1)
        with pytest.raises(SchemaError, match=r"columns \['x'\] hold Python objects"):
            pp.evaluate("x", data, epsilon=1, labels=("no", "yes"))
    typed = UserData.from_arrays(np.arange(4), [0, 1, 0, 1], features=["x"])
    assert pp.evaluate(lambda table: [0] * len(table), typed, epsilon=1)


# Labels and fractions


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (pl.Series([0, 1, 1]), "Yes"),
        (pl.Series([0, 1, 1]), True),
        (pl.Series([0, 1, 1], dtype=pl.Int8), 300),
        (pl.Series([0, 1, 1]), "01"),
        (pl.Series([True, False, True]), 2),
        (pl.Series([True, False, True]), "True"),
        (pl.Series([0.0, 1.0, 1.0]), "1.0"),
        (pl.Series([dt.date(2020, 1, 1)] * 3), "yesterday"),
        (pl.Series(["a", "b", "a"], dtype=pl.Enum(["a", "b"])), "c"),
    ],
)
@pytest.mark.parametrize("policy", ["raise", "drop", "clamp"])
def test_a_label_that_the_type_cannot_hold_is_refused(labels: pl.Series, positive: Any, policy: str) -> None:
    options: dict[str, Any] = {"user": None, "features": {"x": Integers(0, 9)}, "label": "y", "positive": positive}
    for frame in (pl.DataFrame({"x": [1, 2, 3], "y": labels}), pl.DataFrame({"x": [1, 2, 3], "y": labels})[:0]):
        with pytest.raises(
            SchemaError, match=r"^column 'y' has type \w+, which cannot hold the label .* \(positive=\)"
        ):
            UserData.from_frame(frame, **options, on_invalid=policy)


def test_a_label_that_nobody_has_is_refused_where_invalid_values_raise(tmp_path: Path) -> None:
    frame = pl.DataFrame({"u": range(40), "x": [1, 2] * 20, "y": ["yes", "no"] * 20})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_csv(tmp_path / "t.csv")
    options: dict[str, Any] = {"user": "u", "features": {"x": Integers(0, 9)}, "label": "y"}
    ways: list[Callable[..., Any]] = [
        lambda **o: UserData.from_frame(frame, **options, **o),
        lambda **o: UserData.read(tmp_path / "t.parquet", **options, **o),
        lambda **o: UserData.read(tmp_path / "t.csv", **options, **o),
        lambda **o: pp.scan(tmp_path / "t.parquet", **options, **o, chunk_rows=8, progress=False),
        lambda **o: pp.scan(tmp_path / "t.parquet", **options, **o, progress=False),
    ]
    for build in ways:
        with pytest.raises(SchemaError, match=r"^column 'y': no record has the label 'Yes' \(positive=\)") as caught:
            build(positive="Yes")
        assert "'yes'" not in str(caught.value)
        assert "'no'" not in str(caught.value)
        for policy in ("drop", "clamp"):
            build(positive="Yes", on_invalid=policy)
        build(positive="yes")
        build(label_map={"yes": 1, "no": 0})
    assert UserData.from_frame(frame[:0], **options, positive="Yes").n_records == 0


@pytest.mark.parametrize("policy", ["raise", "drop", "clamp"])
def test_a_third_label_is_an_error_under_every_policy_and_route(policy: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"u": [*range(39), None], "x": [1] * 40, "y": [*[0, 1] * 19, 2, 2]})
    if policy == "raise":
        frame = frame.with_columns(u=pl.col("u").fill_null(40), y=pl.when(pl.col("u").is_null()).then(0).otherwise("y"))
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_csv(tmp_path / "t.csv")
    options: dict[str, Any] = {"user": "u", "features": {"x": Integers(0, 9)}, "label": "y", "on_invalid": policy}
    ways: list[Callable[..., Any]] = [
        lambda **o: UserData.from_frame(frame, **options, **o),
        lambda **o: UserData.from_frame(frame.to_pandas().astype(object), **options, **o),
        lambda **o: UserData.read(tmp_path / "t.parquet", **options, **o),
        lambda **o: UserData.read(tmp_path / "t.csv", **options, **o),
        lambda **o: pp.scan(tmp_path / "t.parquet", **options, **o, chunk_rows=8, progress=False),
        lambda **o: pp.scan(tmp_path / "t.parquet", **options, **o, progress=False),
    ]
    for build in ways:
        with pytest.raises(SchemaError, match=r"^column 'y': 1 not 0 or 1 .*on_invalid_label='drop'"):
            build()
        assert build(on_invalid_label="drop") is not None
    for bad in ("clamp", "x"):
        with pytest.raises(ParameterError, match="on_invalid_label must be one of"):
            ways[0](on_invalid_label=bad)


def test_text_labels_need_names_under_every_policy() -> None:
    for policy in ("raise", "drop", "clamp"):
        frame = pl.DataFrame({"x": [1, 2], "y": ["dead", "alive"]})
        options: dict[str, Any] = {"user": None, "features": {"x": Integers(0, 9)}, "label": "y", "on_invalid": policy}
        for rows in (frame, frame[:0]):
            with pytest.raises(SchemaError, match="has type String; labels 0/1 or booleans"):
                UserData.from_frame(rows, **options, on_invalid_label="drop")
        with pytest.raises(SchemaError, match=r"^column 'y': 2 not 0 or 1"):
            UserData.from_frame(frame.to_pandas().astype(object), **options)


def test_ages_with_fractions_are_kept_under_drop_and_clamp() -> None:
    ages = [58.765, 0.0, 110.0, 56.4462696783025, 111.0, -1.0, None]
    for values in (
        pl.Series(ages),
        [None if a is None else str(a) for a in ages],
        [*ages[:3], Decimal("56.44"), *ages[4:]],
    ):
        for policy, kept in (("drop", [58, 0, 110, 56]), ("clamp", [58, 0, 110, 56, 110, 0])):
            data = UserData.from_arrays(
                pl.DataFrame({"age": column(values, "age")}), features={"age": Integers(0, 110)}, on_invalid=policy
            )
            assert data.codes["age"].tolist() == kept
        with pytest.raises(SchemaError, match="2 not whole numbers"):
            Integers(0, 110).encode(values)


def test_schema_files_say_what_happens_to_labels(tmp_path: Path) -> None:
    schema = pp.Schema({"x": Integers(0, 9)}, user="u", label="y", on_invalid="clamp", on_invalid_label="drop")
    schema.save(tmp_path / "s.toml")
    assert 'on_invalid_label = "drop"' in schema.to_toml()
    assert pp.Schema.read(tmp_path / "s.toml") == schema
    frame = pl.DataFrame({"u": [1, 2, 3], "x": [1, 2, 3], "y": [0, 1, 2]})
    assert UserData.from_frame(frame, schema=tmp_path / "s.toml").n_records == 2
    with pytest.raises(SchemaError, match="1 not 0 or 1"):
        UserData.from_frame(frame, schema=tmp_path / "s.toml", on_invalid_label="raise")
    with pytest.raises(ParameterError, match="on_invalid_label"):
        pp.Schema({"x": Integers(0, 9)}, on_invalid_label="clamp")


# Refuted once: typed columns and odd objects


@pytest.mark.parametrize("rule", [None, "drop", "own"])
@pytest.mark.parametrize("gap", [float("nan"), None])
def test_a_gap_in_a_float_column_far_from_zero_is_one_records(rule: Any, gap: float | None) -> None:
    domain: Any = pp.Integers(10, 20) if rule is None else pp.Missing(pp.Integers(10, 20), rule)
    for kind in (pl.Float64, pl.Float32):
        table = pl.DataFrame({"u": ["a", "b", "z"], "x": pl.Series([12.0, 13.0, gap], dtype=kind)})
        people = pp.UserData.from_frame(table, user="u", features={"x": domain}, on_invalid="drop")
        assert people.to_lists() == [[(2,)], [(3,)], [(11,)] if rule == "own" else []]


def test_the_scale_of_decimals_changes_nobodys_text() -> None:
    told = []
    for odd in ("1.5", "1.25"):
        values = [Decimal(f"{i}.5") for i in range(10)] + [Decimal(odd)]
        table = pl.DataFrame({"u": ["a"] * 6 + ["b"] * 4 + ["z"], "x": values})
        said: dict[str, Any] = {"user": "u", "on_invalid": "drop"}
        words = pp.UserData.from_frame(table, features={"x": pp.Texts()}, **said).max_records(2)
        named = pp.UserData.from_frame(table, features={"x": pp.Categories([f"{i}.5" for i in range(10)])}, **said)
        labels = pp.UserData.from_frame(
            table.with_columns(y=1), features={"y": pp.Integers(0, 1)}, label="x", positive="1.5", **said
        ).labels
        assert labels is not None
        told.append(
            (
                [words.vocabulary("x")[int(code)] for code in words.codes["x"]][:4],
                named.to_lists()[:2],
                labels[:10].tolist(),
            )
        )
    assert told[0] == told[1]


def test_far_days_in_milliseconds_are_one_records() -> None:
    pa = pytest.importorskip("pyarrow")
    day, domain = 86_400_000, pp.Dates("2000-01-01", "2030-01-01")
    for odd in (2**31 * day, -(2**31) * day):
        x = pa.array([18000 * day, 18001 * day, odd], pa.int64()).view(pa.date64())
        table = pa.table({"u": ["a", "b", "z"], "x": x})
        people = pp.UserData.from_frame(table, user="u", features={"x": domain}, on_invalid="drop")
        assert people.to_lists() == [[(7043,)], [(7044,)], []]


def test_functions_see_texts_not_codes_of_categories() -> None:
    def first(table: Any) -> Any:
        return (table["c"] == "p").astype(int)

    for odd in ("p", "q"):
        kinds = pl.Series([odd, "p", "q"], dtype=pl.Categorical)
        table = pl.DataFrame({"u": ["z", "a", "b"], "c": kinds, "y": [1, 0, 1]})
        people = pp.UserData.from_frame(table, user="u", features=["c"], label="y", on_invalid="drop")
        model, bound = bind_predictor(first, people, rowwise=True)
        assert isinstance(bound, UserData)
        assert model.predictions(bound)[1:].tolist() == [1, 0]


def test_days_beyond_the_calendar_are_no_predictions() -> None:
    labels = (dt.date(1970, 1, 2), dt.date(1970, 1, 3))
    for kind, odd in ((pl.Date, 2**31 - 1), (pl.Datetime("us"), 2**62)):
        step = 1 if kind == pl.Date else 86_400_000_000
        said: Any = labels if kind == pl.Date else tuple(dt.datetime(d.year, d.month, d.day) for d in labels)
        days = pl.Series([odd, step, 2 * step], dtype=kind)
        table = pl.DataFrame({"u": ["z", "a", "b"], "c": days, "y": [1, 0, 1]})
        people = pp.UserData.from_frame(table, user="u", features=["c"], label="y", on_invalid="drop")
        model, bound = bind_predictor("c", people, labels=said)
        assert isinstance(bound, UserData)
        assert model.predictions(bound)[1:].tolist() == [0, 1]


class _Unhashable(type):
    def __eq__(cls, other: object) -> bool:
        return cls is other


class _Odd(metaclass=_Unhashable):
    pass


class _Lying(list[Any]):
    def __len__(self) -> int:
        return 2


def test_objects_that_cannot_be_looked_at_are_one_records() -> None:
    half = pd.Series(pd.Categorical(pd.array(["p", "q", "\ud800"], dtype="string[python]")))
    for values in (pd.Series(["p", "q", _Odd()], dtype=object), half):
        table = pd.DataFrame({"u": list("abz"), "x": values})
        people = pp.UserData.from_frame(table, user="u", features={"x": pp.Categories(["p", "q"])}, on_invalid="drop")
        assert people.to_lists() == [[(0,)], [(1,)], []]
    gone = _Odd()
    dead = weakref.proxy(gone)
    del gone
    said: dict[str, Any] = {"features": {"x": pp.Integers(0, 9)}, "on_invalid": "drop", "on_invalid_label": "drop"}
    for odd in (dead, _Lying([1])):
        assert pp.UserData.from_users([[(1, 0)], [(2, 1)], [odd]], **said).to_lists() == [[(1, 0)], [(2, 1)], []]
    with pytest.raises(SchemaError, match="1 users are no lists"):
        pp.UserData.from_users([[(1, 0)], None], **said)  # type: ignore[list-item]
