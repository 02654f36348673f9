"""Every type of Arrow, as feature, id and label: a table in memory, its file and a stream of it say the same."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privpac as pp
from privpac.errors import SchemaError
from privpac.methods.hybrid import HybridSelection

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DAYS = [datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)] * 2
MOMENTS = [datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 1)] * 2
DOMAINS = {
    "none": None,
    "integers": pp.Integers(0, 1),
    "grid": pp.Grid(0, 1, "0.5"),
    "floats": pp.Floats(),
    "categories": pp.Categories(["0", "1"], ordered=True),
    "dates": pp.Dates("2024-01-01", "2024-01-02"),
}


def arrays() -> dict[str, Callable[[], Any]]:
    def of(values: Any, kind: Any) -> Callable[[], Any]:
        return lambda: pa.array(values, kind)

    units = ("s", "ms", "us", "ns")
    found = {str(kind): of([1, 0, 1, 0], kind) for kind in map(pa.type_for_alias, _NUMBERS)}
    found |= {"halffloat": lambda: pa.array(np.array([1, 0, 1, 0], np.float16))}
    found |= {"bool": of([True, False] * 2, pa.bool_())}
    texts = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
    found |= {str(kind): of(["1", "0"] * 2, kind) for kind in texts}
    found |= {"fixed binary": of([b"1", b"0"] * 2, pa.binary(1)), "null": lambda: pa.nulls(4)}
    found |= {str(kind): of(DAYS, kind) for kind in (pa.date32(), pa.date64())}
    found |= {f"timestamp {u} {z}": of(MOMENTS, pa.timestamp(u, z)) for u in units for z in (None, "UTC")}
    found |= {f"duration {unit}": of([1, 0, 1, 0], pa.duration(unit)) for unit in units}
    times = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    found |= {str(kind): of([datetime.time(1), datetime.time(0)] * 2, kind) for kind in times}
    lists = (pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 1))
    found |= {str(kind): of([[1], [0]] * 2, kind) for kind in lists}
    found |= {"struct": of([{"a": 1}, {"a": 0}] * 2, None)}
    found |= {"map": of([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64()))}
    found |= {"dictionary": lambda: pa.array(["1", "0"] * 2).dictionary_encode()}
    for digits, scale in ((5, 0), (5, 2), (38, 10), (60, 0), (76, 10)):
        for kind in ("decimal128", "decimal256"):
            if kind == "decimal256" or digits <= 38:
                found[f"{kind} {digits} {scale}"] = of([Decimal(1), Decimal(0)] * 2, getattr(pa, kind)(digits, scale))
    found["list of wide decimals"] = of([[Decimal(1)], [Decimal(0)]] * 2, pa.list_(pa.decimal256(60, 0)))
    if hasattr(pa, "json_"):
        found["json"] = of(["1", "0"] * 2, pa.json_())
    if hasattr(pa, "bool8"):
        found["bool8"] = lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, 1, 0], pa.int8()))
    return found


_NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
ARRAYS = arrays()


def said(make: Callable[[], Any], learner: HybridSelection | None) -> str:
    """The law over some rules, or the schema error; anything else is raised."""
    try:
        people = make()
        if learner is None:
            return "read"
        law = learner.law(people)
    except SchemaError as error:
        return str(error)
    return repr([float(law.prob(rule)) for rule in range(4)])


@pytest.mark.parametrize("kind", ARRAYS)
def test_memory_file_and_stream_agree(kind: str, tmp_path: Path) -> None:
    values, path = ARRAYS[kind](), tmp_path / "people.parquet"
    base = {"who": pa.array([1, 2, 3, 4]), "x": pa.array([1, 0, 2, 3]), "y": pa.array([1, 0, 1, 0])}
    cases = [("x", {"x": domain}) for domain in DOMAINS.values()]
    cases += [(role, {"x": pp.Integers(0, 3)}) for role in ("who", "y")]
    for role, features in cases:
        table = pa.table(base | {role: values})
        pq.write_table(table, path)
        given: dict[str, Any] = {"user": "who", "label": "y", "features": features}
        routes: dict[str, Callable[..., Any]] = {
            "frame": partial(pp.UserData.from_frame, table),
            "file": partial(pp.UserData.read, path),
            "stream": partial(pp.scan, path, chunk_rows=1, progress=False),
            "held": partial(pp.scan, path, progress=False),
        }
        learner = None if features["x"] is None else HybridSelection(pp.Thresholds(feature="x"), epsilon=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = {name: said(partial(route, **given), learner) for name, route in routes.items()}
        assert len(set(answers.values())) == 1, (role, answers)
        if kind in ("decimal256 60 0", "list of wide decimals"):
            assert "has decimals of 60 digits; at most 38 are read" in answers["stream"]
        if kind == "decimal256 38 10" and features["x"] == DOMAINS["integers"]:
            assert answers["stream"].startswith("[")
