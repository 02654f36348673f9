"""What a file says about itself is not believed: a ``PrivpacError`` or the right answer, nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import hostile_files as hostile

import privpac as pp
from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, Texts, UserData
from privpac.data.columns import plain
from privpac.data.domains import read_column
from privpac.errors import EngineError, SchemaError

TESTS = 150
KINDS = {"order", "extremes", "row counts", "value counts", "anything", "pages", "bytes", "cut", "lists"}


def test_hostile_files_are_refused_or_read_right_and_never_end_the_process() -> None:
    """In another process, where a fault of memory is a failed test and not the end of all."""
    run = subprocess.run(
        [sys.executable, hostile.__file__, "0", str(TESTS)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=_environment(),
    )
    judged = [line for line in run.stdout.splitlines() if "|" in line]
    assert run.returncode == 0, f"seed {len(judged)}: exit {run.returncode}, {run.stderr[-300:]}"
    assert len(judged) == TESTS
    assert {line.split(" ", 1)[1].split(" | ")[0] for line in judged} >= KINDS
    assert {line.split(" | ", 1)[1] for line in judged} >= {"answered | answered", "refused | refused"}


def _environment() -> dict[str, str]:
    import os

    return os.environ | {"PYTHONPATH": str(Path(pp.__file__).parent.parent), "RUST_BACKTRACE": "0"}


# Order


def lying(path: Path, x: list[Any], about: str = "x", **columns: Any) -> Path:
    """A file that says that one of its columns ascends."""
    table = pa.table({"u": list(range(len(x))), "x": x, "y": [0] * len(x)} | columns)
    pq.write_table(table, path, sorting_columns=[pq.SortingColumn(table.column_names.index(about))])
    assert about != "x" or pl.read_parquet(path)["x"].flags["SORTED_ASC"]  # polars believes it
    return path


@pytest.mark.parametrize("far", [100, 5000, -1, 1 << 40])
@pytest.mark.parametrize("read", [hostile.in_memory, hostile.streamed])
def test_values_between_the_ends_of_what_is_called_sorted_are_seen(
    tmp_path: Path, far: int, read: Callable[[Path], Any]
) -> None:
    with pytest.raises(SchemaError, match=r"column 'x': 1 outside whole numbers 0..99"):
        read(lying(tmp_path / "a.parquet", [0, far, 50, 99]))


DOMAINS: list[tuple[Domain, list[Any], int]] = [
    (Integers(0, 9), [0, 5, 99, 9], 1),
    (Grid(0, 9, "0.5"), [0.0, 99.0, 0.3, 9.0], 1),
    (Grid(0, 8, 2), [0, 3, 99, 8], 1),
    (Floats(), [0.0, float("inf"), float("nan"), 9.0], 2),
    (Categories(["a", "b", "c"]), ["a", "zz", "b", "c"], 1),
    (Dates("2020-01-01", "2020-01-31"), [18262, -5, 10**6, 18292], 2),
]


@pytest.mark.parametrize(("domain", "values", "bad"), DOMAINS, ids=lambda value: getattr(value, "kind", None))
@pytest.mark.parametrize("descending", [False, True])
def test_every_domain_judges_values_whatever_flag_the_column_carries(
    domain: Domain, values: list[Any], bad: int, descending: bool
) -> None:
    series = pl.Series("x", values)
    series = series.cast(pl.Date) if domain.kind == "dates" else series
    frame = pl.DataFrame({"u": pl.Series([3, 1, 1, 2]).set_sorted(), "x": series.set_sorted(descending=descending)})
    assert any(frame["x"].flags.values())
    kept = UserData.from_frame(frame, user="u", features={"x": domain}, on_invalid="drop")
    honest = UserData.from_frame(
        pl.DataFrame({"u": [3, 1, 1, 2], "x": series}), user="u", features={"x": domain}, on_invalid="drop"
    )
    assert kept.n_records == 4 - bad
    assert sorted(kept.to_lists()) == sorted(honest.to_lists())
    late = UserData.from_frame(frame, user="u", features=["x"]).bind({"x": domain}, "drop")
    assert late.to_lists() == kept.to_lists()


def test_ids_that_are_called_sorted_are_grouped_by_what_they_are(tmp_path: Path) -> None:
    for ids in ([3, 1, 2, 1], ["c", "a", "b", "a"], [3.0, 1.0, 2.0, 1.0]):
        path = lying(tmp_path / "a.parquet", [1, 2, 3, 4], "u", u=ids)
        for read in (hostile.in_memory, hostile.streamed):
            assert read(path) == [[(1, 0)], [(2, 0), (4, 0)], [(3, 0)]]


def test_plain_columns_keep_everything_but_the_claim() -> None:
    for series in (
        pl.Series("a", [3, None, 1]),
        pl.Series("a", ["b", "a"]),
        pl.Series("a", ["b", "a"], dtype=pl.Enum(["a", "b"])),
    ):
        found = plain(series.set_sorted())
        assert not any(found.flags.values())
        assert (found.name, found.dtype, found.to_list()) == (series.name, series.dtype, series.to_list())


# Counts


def test_rows_that_a_reader_leaves_out_are_missed(tmp_path: Path) -> None:
    """A number of rows or values that is too small ends a stream early and without a word."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"u": [1, 2, 3, 4], "x": [1, 2, 3, 4], "y": [0, 0, 1, 1]}), path, row_group_size=2)
    data = path.read_bytes()
    changes: list[Callable[[Any], None]] = [
        lambda tree: hostile.put(tree, 3, 6, 2),
        lambda tree: hostile.put(hostile.groups(tree)[1], 3, 6, 0),
        lambda tree: hostile.put(hostile.chunks(tree)[3], 5, 6, 0),
    ]
    for change in changes:
        tree = hostile.footer(data)
        change(tree)
        path.write_bytes(hostile.with_footer(data, tree))
        for read in (hostile.in_memory, hostile.streamed):
            with pytest.raises((SchemaError, EngineError)):
                read(path)


def test_rows_whose_values_all_stand_in_the_path_are_counted_not_believed(tmp_path: Path) -> None:
    folder = tmp_path / "x=7"
    folder.mkdir()
    path = folder / "a.parquet"
    pq.write_table(pa.table({"other": [[1], [2, 3], []]}), path)
    streamed = pp.scan(tmp_path, user=None, features={"x": Integers(0, 9)}, progress=False)
    assert sorted(streamed.fold(hostile.Collect())) == [[(7,)]] * 3
    tree = hostile.footer(path.read_bytes())
    hostile.put(tree, 3, 6, 1 << 62)
    hostile.put(hostile.groups(tree)[0], 3, 6, 1 << 62)
    path.write_bytes(hostile.with_footer(path.read_bytes(), tree))
    with pytest.raises(SchemaError):
        pp.scan(tmp_path, user=None, features={"x": Integers(0, 9)}, progress=False)


# Memory that nobody checked


def test_arrays_with_impossible_indices_or_texts_are_refused() -> None:
    wild = pa.DictionaryArray.from_arrays(pa.array([0, 7, -3], pa.int32()), pa.array(["a", "b"]), safe=False)
    ends = pa.py_buffer(np.array([0, 2, 4], np.int32).tobytes())
    broken = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"\xff\xfe\xff\xfe")])
    for values in (wild, broken):
        table = pa.table({"u": values, "x": list(range(len(values)))})
        for schema in ({"user": "u", "features": {"x": Integers(0, 9)}}, {"user": "x", "features": {"u": Texts()}}):
            with pytest.raises(SchemaError, match="column 'u' cannot be read"):
                UserData.from_frame(table, **schema)  # type: ignore[arg-type]


def test_columns_of_different_lengths_reach_no_loop() -> None:
    from privpac.data.build import assemble
    from privpac.data.spec import TableSpec

    with pytest.raises(SchemaError, match="different lengths"):
        assemble(
            {"u": pl.Series([1, 2, 3]), "x": pl.Series([1, 2])},
            TableSpec("u", {"x": Integers(0, 9)}),
        )


def test_a_domain_that_gives_codes_outside_itself_is_stopped_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a reader gets wrong, no loop indexes memory with it."""
    monkeypatch.setattr("privpac.data.encode.covers", lambda series, ladder: True)
    with pytest.raises(SchemaError, match=r"column 'x' cannot be read as whole numbers 0..9"):
        read_column(Integers(0, 9), pl.Series([1, 1 << 40]), "x")
