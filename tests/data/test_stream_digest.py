"""What a stream reads is what it checked: a file that changed between two readings is refused, whatever its size and
time say."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import privpac as pp
from privpac.data.engines.files import _Digest
from privpac.errors import EngineError
from privpac.methods.hybrid import HybridSelection

ROWS = 400
DECLARED: dict[str, Any] = {"user": "who", "label": "y", "features": {"x": pp.Integers(0, 9)}}


def table(shift: int, rows: int = ROWS) -> pl.DataFrame:
    """Tables that differ in values only: their files are equally long without compression."""
    places = np.arange(rows)
    return pl.DataFrame({"who": places // 4, "x": (places * 7 + shift) % 10, "y": (places + shift) % 2})


def write(frame: pl.DataFrame, path: Path) -> None:
    frame.write_parquet(path, compression="uncompressed", use_pyarrow=True, pyarrow_options={"use_dictionary": False})


def overwritten(path: Path, change: Callable[[Path], None]) -> bool:
    """Change a file in place and give it its time back; whether size, time and inode are what they were."""
    before = os.stat(path)
    change(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    return (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)


def swap(path: Path) -> None:
    other = path.with_suffix(".other")
    write(table(1), other)
    path.write_bytes(other.read_bytes())


def patch(path: Path) -> None:
    """One value of one page."""
    held = bytearray(path.read_bytes())
    wanted = table(0)["x"].to_numpy().astype(np.int64)
    start = held.find(wanted[100:120].tobytes())
    assert start > 0
    held[start : start + 8] = int(9 - wanted[100]).to_bytes(8, "little")
    path.write_bytes(bytes(held))


def cut_short(path: Path) -> None:
    size = path.stat().st_size
    write(table(0, ROWS - 8), path)
    path.write_bytes(path.read_bytes().ljust(size, b"\0"))


@pytest.fixture(params=[True, False], ids=["people", "records"])
def scanned(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    """A stream that reads its file again for every fold, and the file."""
    path = tmp_path / "people.parquet"
    write(table(0), path)
    return pp.scan(path, **DECLARED | {"user": "who" if request.param else None}, chunk_rows=50, progress=False), path


@pytest.mark.filterwarnings("ignore::privpac.errors.ItemLevelWarning")
@pytest.mark.parametrize("change", [swap, patch, cut_short])
def test_a_changed_file_is_refused_although_size_and_time_are_the_same(
    scanned: tuple[Any, Path], change: Callable[[Path], None]
) -> None:
    people, path = scanned
    learner = HybridSelection(pp.Thresholds(feature="x"), epsilon=1, unit=people.unit)
    learner.learn(people)
    assert overwritten(path, change)
    for _ in range(2):
        with pytest.raises(EngineError, match=r"^the files changed while they were in use"):
            learner.learn(people)


@pytest.mark.filterwarnings("ignore::privpac.errors.ItemLevelWarning")
def test_a_spend_before_the_change_was_seen_stays_in_the_ledger(scanned: tuple[Any, Path], tmp_path: Path) -> None:
    """The fold comes after the spend: the person who runs it learns that the files changed, and nothing else is
    released."""
    people, path = scanned
    assert overwritten(path, swap)
    budget = HybridSelection(pp.Thresholds(feature="x"), epsilon=3, unit=people.unit).guarantee
    ledger = pp.BudgetLedger.create(tmp_path / "budget.ledger", budget, dataset="made up")
    with pytest.raises(EngineError) as told:
        HybridSelection(pp.Thresholds(feature="x"), epsilon=1, unit=people.unit).learn(people, ledger=ledger)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__
    assert str(told.value) == ("the files changed while they were in use; start again from files that stay as they are")
    assert ledger.remaining().epsilon == 2


def test_files_swapped_among_each_other_are_refused(tmp_path: Path) -> None:
    names = [tmp_path / f"part-{i}.parquet" for i in range(3)]
    for i, name in enumerate(names):
        write(table(i).with_columns(pl.col("who") + 1000 * i), name)
        os.utime(name, ns=(10**18, 10**18))
    people = pp.scan(tmp_path, **DECLARED | {"user": None}, chunk_rows=50, progress=False)
    learner = HybridSelection(pp.Thresholds(feature="x"), epsilon=1, unit="item")
    learner.learn(people)
    first, second = (name.read_bytes() for name in names[:2])
    assert len(first) == len(second)
    assert overwritten(names[0], lambda path: path.write_bytes(second))
    assert overwritten(names[1], lambda path: path.write_bytes(first))
    with pytest.raises(EngineError, match=r"^the files changed"):
        learner.learn(people)


def test_a_file_that_was_put_back_is_read_again(scanned: tuple[Any, Path]) -> None:
    people, path = scanned
    held = path.read_bytes()
    assert overwritten(path, swap)
    assert overwritten(path, lambda path: path.write_bytes(held))
    assert HybridSelection(pp.Thresholds(feature="x"), epsilon=1, unit=people.unit).law(people).mode >= 0


# The digest itself

N = 60


def everything() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "whole": np.arange(N) % 9,
            "float": [None if k % 7 == 0 else float("nan") if k % 11 == 0 else k % 5 / 4 for k in range(N)],
            "text": [None if k % 13 == 0 else "a" * (k % 4) for k in range(N)],
            "truth": [None if k % 9 == 0 else k % 2 == 0 for k in range(N)],
            "day": [datetime.date(2024, 1, 1 + k % 28) for k in range(N)],
            "decimal": [Decimal(k % 5) / 4 for k in range(N)],
            "bytes": [b"x\xff" * (k % 3) for k in range(N)],
            "list": [[k % 3, None] for k in range(N)],
            "nothing": [None] * N,
        }
    )


def digest(*frames: pl.DataFrame) -> tuple[int, int]:
    made = _Digest()
    for frame in frames:
        made.add(frame)
    return made.value()


def test_the_digest_does_not_depend_on_batches() -> None:
    whole = everything()
    for rows in (1, 7, 31, N):
        assert digest(*whole.iter_slices(rows)) == digest(whole)


@pytest.mark.parametrize("name", everything().columns)
def test_the_digest_sees_every_value(name: str) -> None:
    """Each value put in another's place."""
    whole = everything()
    column = whole[name]
    for i in range(N - 1):
        moved = pl.concat([column[:i], column[i + 1 : i + 2], column[i + 1 :]])
        same = moved.equals(column, null_equal=True) or (name == "float" and str(column[i]) == str(column[i + 1]))
        assert (digest(whole.with_columns(moved.alias(name))) == digest(whole)) == same


def test_the_digest_sees_order_signs_and_what_is_missing() -> None:
    whole = everything()
    assert digest(whole.reverse()) != digest(whole)
    assert digest(whole[:-1]) != digest(whole)
    zeros = pl.DataFrame({"x": [0.0, 1.0]})
    assert digest(zeros) != digest(zeros.with_columns(x=pl.Series([-0.0, 1.0])))
    missing, text = pl.DataFrame({"x": [None, "a"]}), pl.DataFrame({"x": ["", "a"]})
    assert digest(missing) != digest(text)
    assert digest(pl.DataFrame({"x": [None, 1.0]})) != digest(pl.DataFrame({"x": [float("nan"), 1.0]}))
