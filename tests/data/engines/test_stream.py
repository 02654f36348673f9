"""Streaming Parquet gives what memory gives: profiles, laws, kept records and schema errors; and leaves nothing on
disk."""

from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.api.tables import users_of_files
from privpac.data import Categories, Floats, Grid, Integers, TableSpec, Texts, UserData, Users
from privpac.data.engines import spill
from privpac.data.engines.files import CHANGED
from privpac.data.engines.stream import StreamedUsers, _Ascending, _Parted
from privpac.errors import EngineError, ItemLevelWarning, ParameterError, SchemaError
from privpac.guarantee import Unit
from privpac.methods import RealizableSelection, RegretSelection
from privpac.methods.base import count_users
from privpac.methods.cap import CapSelection
from privpac.papers.pure_agnostic.sizes import size_counts
from privpac.rules.base import ConceptClass
from privpac.rules.profile import Exceeds, Mean, Profile, Regret, Statistic, root_clip

DOMAIN = Integers(0, 9)
CLASSES: dict[str, ConceptClass] = {
    "thresholds": pp.Thresholds(DOMAIN, "x", "both"),
    "stumps": pp.Stumps({"x": DOMAIN, "z": Grid(0, 1, 0.25)}),
    "points": pp.Points(DOMAIN, "x"),
    "intervals": pp.Intervals(DOMAIN, "x"),
}
STATISTICS: dict[str, Statistic] = {"exceeds": Exceeds(1), "mean": Mean(), "regret": Regret(root_clip(1))}
SCHEMA = {"user": "who", "features": {"x": DOMAIN, "z": Grid(0, 1, 0.25)}, "label": "y"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "spill").mkdir()
    return tmp_path


def steps(profile: Profile) -> list[tuple[int, int, int]]:
    """The score of every rule, as maximal runs: what the law is made of."""
    return profile.blocks()


def records(users: Users) -> list[list[tuple[int, ...]]]:
    """The records of every user, sorted: what a dataset is, whatever its order."""

    class Collect:
        def zero(self) -> list[Any]:
            return []

        def chunk(self, part: UserData) -> list[Any]:
            return [sorted(user) for user in part.to_lists()]

        def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
            return a + b

    return sorted(users.fold(Collect()))


def write(folder: Path, frame: pl.DataFrame, cuts: list[int], group: int) -> Path:
    """A table in several files (some empty), of small row groups."""
    edges = [0, *sorted(min(cut, len(frame)) for cut in cuts), len(frame)]
    for i, (a, b) in enumerate(pairwise(edges)):
        pq.write_table(
            frame[a:b].to_arrow(compat_level=pl.CompatLevel.oldest()),
            folder / f"part-{i}.parquet",
            row_group_size=group,
        )
    return folder


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.integers(0, 60))
    ids = draw(st.lists(st.integers(-3, 8), min_size=rows, max_size=rows))
    frame = pl.DataFrame(
        {
            "who": pl.Series(ids, dtype=pl.Int64),
            "x": pl.Series(draw(st.lists(st.integers(0, 9), min_size=rows, max_size=rows)), dtype=pl.Int64),
            "z": pl.Series(
                draw(st.lists(st.sampled_from([0, 0.25, 0.5, 1]), min_size=rows, max_size=rows)), dtype=pl.Float64
            ),
            "y": pl.Series(draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows)), dtype=pl.Int8),
        }
    )
    kind = draw(st.sampled_from(["integer", "text", "float", "dictionary"]))
    if kind == "float":
        frame = frame.with_columns(pl.col("who").cast(pl.Float64))
    elif kind != "integer":
        frame = frame.with_columns(
            pl.format("id {}", "who").cast(pl.String if kind == "text" else pl.Categorical).alias("who")
        )
    return frame.sort("who") if draw(st.booleans()) else frame


@settings(max_examples=40)
@given(
    frame=tables(),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    group=st.integers(1, 20),
    chunk=st.sampled_from([2, 5, 17, 1000]),
    cap=st.sampled_from([None, 1, 2, 3]),
    concept=st.sampled_from(sorted(CLASSES)),
    statistic=st.sampled_from(sorted(STATISTICS)),
)
def test_profiles_are_equal_to_those_in_memory(
    frame: pl.DataFrame, cuts: list[int], group: int, chunk: int, cap: int | None, concept: str, statistic: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        streamed: Users = pp.scan(write(Path(name), frame, cuts, group), chunk_rows=chunk, spill=name, **SCHEMA)
        memory: Users = UserData.from_frame(frame, **SCHEMA)
        if cap is not None:
            streamed, memory = streamed.max_records(cap), memory.max_records(cap)
        assert steps(CLASSES[concept].profile(streamed, STATISTICS[statistic])) == steps(
            CLASSES[concept].profile(memory, STATISTICS[statistic])
        )
        assert count_users(streamed) == count_users(memory)
        assert size_counts(streamed) == size_counts(memory)
        assert records(streamed) == records(memory)


@settings(max_examples=15)
@given(frame=tables(), cuts=st.lists(st.integers(0, 60), max_size=3), chunk=st.sampled_from([4, 1000]))
def test_laws_are_equal_to_those_in_memory(frame: pl.DataFrame, cuts: list[int], chunk: int) -> None:
    learners = [
        RegretSelection(CLASSES["stumps"], Fraction(1), public_n_users=8),
        RealizableSelection(CLASSES["thresholds"], Fraction(1), max_records=2),
        CapSelection(Fraction(1), grid=(1, 2, 4, 8)),
    ]
    with tempfile.TemporaryDirectory() as name:
        streamed = pp.scan(write(Path(name), frame, cuts, 7), chunk_rows=chunk, spill=name, **SCHEMA)
        memory = UserData.from_frame(frame, **SCHEMA)
        for learner in learners:
            ours, theirs = learner.law(streamed), learner.law(memory)
            assert [ours.prob(v) for v in (1, 2, 4, 8)] == [theirs.prob(v) for v in (1, 2, 4, 8)]


@settings(max_examples=25)
@given(frame=tables(), rule=st.sampled_from(["drop", "clamp", "raise"]), seed=st.integers(0, 99), sort=st.booleans())
def test_invalid_records_are_treated_and_told_as_in_memory(
    frame: pl.DataFrame, rule: str, seed: int, sort: bool
) -> None:
    rng = np.random.default_rng(seed)
    spoilt = [
        pl.when(pl.Series(rng.random(len(frame)) < 0.1)).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
        for name, value in (("x", 99), ("z", 0.3), ("y", 7), ("who", None), ("x", None))
        if rng.random() < 0.4
    ]
    for expression in spoilt:
        frame = frame.with_columns(expression)
    frame = frame.sort("who") if sort else frame
    schema = SCHEMA | {"on_invalid": rule}

    def said(build: Any) -> Any:
        try:
            return records(build())
        except SchemaError as error:
            return str(error), error.__cause__, error.__context__

    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name), frame, [20], 7)
        memory = said(lambda: UserData.from_frame(frame, **schema))
        assert said(lambda: pp.scan(folder, chunk_rows=5, spill=name, **schema)) == memory
        late = {"features": ["x", "z"], "user": "who", "label": "y", "on_invalid": "drop"}

        def bind_late(users: Any) -> Any:
            return users.bind({"x": DOMAIN}).bind({"z": Grid(0, 1, 0.25)}, rule)

        expected = said(lambda: bind_late(UserData.from_frame(frame, **late)))
        assert said(lambda: bind_late(pp.scan(folder, chunk_rows=5, spill=name, **late))) == expected
        assert not list(Path(name).glob(f"{spill.SPILL_PREFIX}*"))


# Shapes


def big_user(place: Path, *, ascending: bool) -> tuple[pl.DataFrame, StreamedUsers]:
    rng = np.random.default_rng(5)
    who = np.concatenate([np.full(10**4, 3), rng.integers(0, 50, 3000)])
    rng.shuffle(who)
    frame = pl.DataFrame({"who": who, "x": rng.integers(0, 10, len(who)), "z": 0.5, "y": rng.integers(0, 2, len(who))})
    frame = frame.sort("who") if ascending else frame
    (place / "data").mkdir()
    return frame, pp.scan(
        write(place / "data", frame, [4000, 9000], 500), chunk_rows=1000, spill=place / "spill", **SCHEMA
    )


@pytest.mark.parametrize("ascending", [True, False])
def test_one_user_with_most_records_counts_once(place: Path, ascending: bool) -> None:
    frame, streamed = big_user(place, ascending=ascending)
    memory = UserData.from_frame(frame, **SCHEMA)
    assert isinstance(streamed._source, _Ascending if ascending else _Parted)
    sizes = [len(chunk) for chunk in streamed._source.chunks()]
    assert len(sizes) > 3
    assert sum(size > 1250 for size in sizes) == 1, "only the user with 10^4 records makes a chunk beyond the bound"
    for cap in (None, 7):
        a, b = (streamed, memory) if cap is None else (streamed.max_records(cap), memory.max_records(cap))
        assert steps(CLASSES["stumps"].profile(a, Mean())) == steps(CLASSES["stumps"].profile(b, Mean()))
    assert records(streamed.max_records(40, "first")) == records(memory.max_records(40, "first"))


def test_users_with_one_hash_share_a_part_and_stay_apart(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "hash_ids", lambda ids: np.zeros(len(ids), np.uint64))
    frame = pl.DataFrame({"who": list("cabacb") * 9, "x": list(range(9)) * 6, "z": 0.0, "y": [0, 1] * 27})
    (place / "data").mkdir()
    streamed = pp.scan(write(place / "data", frame, [], 10), chunk_rows=4, spill=place / "spill", **SCHEMA)
    assert len(list(streamed._source.chunks())) == 1
    assert records(streamed) == records(UserData.from_frame(frame, **SCHEMA))


def test_item_level_streams_records(place: Path) -> None:
    frame, _ = big_user(place, ascending=False)
    schema = SCHEMA | {"user": None}
    streamed = pp.scan(place / "data", chunk_rows=999, **schema)
    assert streamed.unit is Unit.ITEM
    assert count_users(streamed) == len(frame)
    memory = UserData.from_frame(frame, **schema)
    assert steps(CLASSES["points"].profile(streamed, Exceeds(0))) == steps(
        CLASSES["points"].profile(memory, Exceeds(0))
    )
    with pytest.warns(ItemLevelWarning):
        pp.learn(streamed, CLASSES["points"], epsilon=1)


def test_domains_of_the_class_label_maps_texts_and_path_columns(place: Path) -> None:
    frame = pl.DataFrame({"who": [2, 1, 2, 3], "x": [1.5, -2.0, 7.25, 0.0], "y": ["yes", "no", "yes", "no"]})
    for year, part in (("2024", frame[:2]), ("2025", frame[2:])):
        (place / "data" / f"year={year}").mkdir(parents=True)
        part.write_parquet(place / "data" / f"year={year}" / "a.parquet")
    (place / "data" / "_SUCCESS.parquet").write_bytes(b"")
    schema: dict[str, Any] = {"user": "who", "label": "y", "label_map": {"yes": 1, "no": 0}}
    streamed = pp.scan(place / "data", chunk_rows=2, features=["x", "year"], **schema)
    memory = UserData.from_frame(
        frame.with_columns(year=pl.Series(["2024", "2024", "2025", "2025"])), features=["x", "year"], **schema
    )
    for concept in (
        pp.Thresholds(Floats(), "x"),
        pp.Points(Integers(2020, 2030), "year"),
        pp.Points(Categories(["2024", "2025"]), "year"),
    ):
        assert steps(concept.profile(streamed, Mean())) == steps(concept.profile(memory, Mean()))
    words = {"year": Texts(), "x": Floats()}
    assert records(streamed.bind({"x": Floats()}).max_records(1)) == records(
        memory.bind({"x": Floats()}).max_records(1)
    )
    assert size_counts(streamed.bind(words).max_records(1)) == size_counts(memory.bind(words).max_records(1))


def test_no_label_is_refused_before_any_fold(place: Path) -> None:
    _, streamed = big_user(place, ascending=True)
    assert streamed.labels is not None
    bare = pp.scan(place / "data", user="who", features={"x": DOMAIN}, spill=place / "spill")
    with pytest.raises(ParameterError, match="no labels"):
        pp.learn(bare, pp.Thresholds(), epsilon=1)


# Bad input


def test_bad_input_is_refused(place: Path) -> None:
    _, streamed = big_user(place, ascending=False)
    data = place / "data"
    for bad in ({"chunk_rows": 0}, {"chunk_rows": -5}, {"spill": place / "nowhere"}, {"features": {}}, {"user": "x"}):
        with pytest.raises(ParameterError):
            pp.scan(data, **(SCHEMA | bad))
    for wrong in ({"chunk_rows": 1.5}, {"chunk_rows": float("nan")}, {"user": 3}):
        with pytest.raises((TypeError, ParameterError)):
            pp.scan(data, **(SCHEMA | wrong))
    with pytest.raises(SchemaError, match="no column 'nobody'"):
        pp.scan(data, **(SCHEMA | {"user": "nobody"}))
    with pytest.raises(ParameterError, match="no file matches"):
        pp.scan(place / "missing.parquet", **SCHEMA)
    with pytest.raises(ParameterError, match="is a folder without"):
        pp.scan(place / "spill", **SCHEMA)
    (place / "a.csv").write_text("who,x,z,y\n")
    with pytest.raises(ParameterError, match=r"UserData\.read"):
        pp.scan(place / "a.csv", **SCHEMA)
    (place / "broken.parquet").write_bytes(b"PAR1 no table PAR1")
    with pytest.raises(SchemaError, match="not a readable Parquet file"):
        pp.scan(place / "broken.parquet", **SCHEMA)
    with pytest.raises(ParameterError, match="declared twice"):
        streamed.bind({"x": Integers(0, 10)})
    with pytest.raises(ParameterError, match="engine must be"):
        users_of_files(data, TableSpec(**SCHEMA), engine="abacus")


def test_files_must_agree_on_types_and_stay_as_they_are(place: Path) -> None:
    frame, streamed = big_user(place, ascending=True)
    (place / "data" / "part-0.parquet").touch()
    with pytest.raises(EngineError, match="files changed") as told:
        count_users(streamed)
    assert told.value.__context__ is None
    frame.with_columns(pl.col("x").cast(pl.String)).write_parquet(place / "data" / "part-9.parquet")
    with pytest.raises(SchemaError, match="disagree"):
        pp.scan(place / "data", **SCHEMA)


@pytest.mark.parametrize("column", ["who", "x"])
def test_values_that_change_behind_the_scan_are_not_told(
    place: Path, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, streamed = big_user(place, ascending=True)
    write(place / "data", frame.with_columns(pl.Series(column, np.arange(len(frame))[::-1])), [4000, 9000], 500)
    monkeypatch.setattr("privpac.data.engines.files._check_stamp", lambda file: None)
    with pytest.raises(EngineError) as told:
        count_users(streamed)
    assert str(told.value) == CHANGED
    assert told.value.__context__ is None


def test_damage_in_a_column_that_needs_no_check_is_found_before_any_fold(place: Path) -> None:
    big_user(place, ascending=True)
    path = place / "data" / "part-1.parquet"
    chunk = pq.read_metadata(path).row_group(3).column(1)
    assert chunk.path_in_schema == "x"
    bytes_of = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    bytes_of[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(bytes_of)
    with pytest.raises(SchemaError, match="not a readable Parquet file") as told:
        pp.scan(place / "data", spill=place / "spill", **(SCHEMA | {"on_invalid": "drop"}))
    assert told.value.__context__ is None


def test_an_order_that_breaks_later_is_found_and_never_counted_twice(place: Path) -> None:
    frame = pl.DataFrame({"who": [*range(100), 5], "x": 1, "z": 0.0, "y": 1})
    (place / "data").mkdir()
    streamed = pp.scan(write(place / "data", frame, [], 10), chunk_rows=8, spill=place / "spill", **SCHEMA)
    assert isinstance(streamed._source, _Parted)
    assert count_users(streamed) == 100


def test_engines_are_chosen_by_name_and_size(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, _ = big_user(place, ascending=True)
    frame.write_parquet(place / "one.parquet")
    assert isinstance(users_of_files(place / "one.parquet", TableSpec(**SCHEMA)), UserData)
    assert isinstance(users_of_files(place / "one.parquet", TableSpec(**SCHEMA), engine="stream"), StreamedUsers)
    assert isinstance(users_of_files(place / "data", TableSpec(**SCHEMA)), StreamedUsers)
    monkeypatch.setattr("privpac.api.tables.LARGE", 1)
    assert isinstance(users_of_files(place / "one.parquet", TableSpec(**SCHEMA)), StreamedUsers)


# Spill


def leftovers(place: Path) -> list[Path]:
    return sorted((place / "spill").iterdir())


def test_spill_is_private_and_goes_with_its_users(place: Path) -> None:
    _, streamed = big_user(place, ascending=False)
    (folder,) = leftovers(place)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    bound = streamed.max_records(3)
    del streamed
    assert leftovers(place), "the bound users still read it"
    assert count_users(bound) == 50
    del bound
    assert not leftovers(place)


def test_rows_that_vanish_from_the_spill_are_told_in_fixed_words(place: Path) -> None:
    _, streamed = big_user(place, ascending=False)
    (folder,) = leftovers(place)
    max(folder.iterdir(), key=lambda path: path.stat().st_size).unlink()
    with pytest.raises(EngineError) as told:
        count_users(streamed)
    assert str(told.value) == CHANGED
    assert told.value.__context__ is None


def test_errors_leave_no_spill(place: Path) -> None:
    frame, streamed = big_user(place, ascending=False)
    del streamed
    with pytest.raises(SchemaError, match=f"{int((frame['x'] > 4).sum())} outside"):
        pp.scan(
            place / "data", chunk_rows=1000, spill=place / "spill", **(SCHEMA | {"features": {"x": Integers(0, 4)}})
        )
    assert not leftovers(place)


def test_an_interrupted_pass_leaves_no_spill(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, streamed = big_user(place, ascending=False)
    del streamed

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(spill, "_arrange", stop)
    with pytest.raises(KeyboardInterrupt):
        pp.scan(place / "data", chunk_rows=1000, spill=place / "spill", **SCHEMA)
    assert not leftovers(place)


CRASH = """
import sys, time
from privpac.data.engines.spill import SpillFolder
folder = SpillFolder(sys.argv[1])
folder.file().write_bytes(b"rows")
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def other(place: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", CRASH, str(place / "spill")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_crash_is_cleaned_up_at_the_next_start_and_a_living_process_is_left_alone(
    place: Path, other: subprocess.Popen[str]
) -> None:
    (theirs,) = leftovers(place)
    mine = spill.SpillFolder(place / "spill")
    assert theirs.exists(), "its owner lives"
    assert set(leftovers(place)) == {theirs, mine.path}
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    again = spill.SpillFolder(place / "spill")
    assert set(leftovers(place)) == {mine.path, again.path}
    mine.remove()
    again.remove()
    assert not leftovers(place)


def test_folders_of_others_are_never_swept(place: Path) -> None:
    (place / "spill" / "privpac").mkdir()
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "lock").touch()
    (place / "spill" / f"{spill.SPILL_PREFIX}link").symlink_to(place / "elsewhere")
    young, old = place / "spill" / f"{spill.SPILL_PREFIX}young", place / "spill" / f"{spill.SPILL_PREFIX}old"
    open_to_all = place / "spill" / f"{spill.SPILL_PREFIX}open"
    linked = place / "spill" / f"{spill.SPILL_PREFIX}linked"
    for folder, mode in ((young, 0o700), (old, 0o700), (open_to_all, 0o755), (linked, 0o700)):
        folder.mkdir()
        folder.chmod(mode)
        os.utime(folder, (time.time() - 3600,) * 2 if folder is not young else None)
    (open_to_all / "lock").touch()  # others may write there: what lies in it may be theirs
    (linked / "lock").symlink_to(place / "elsewhere" / "lock")
    spill.SpillFolder(place / "spill").remove()
    left = {path.name.removeprefix(spill.SPILL_PREFIX) for path in leftovers(place)}
    assert left == {"privpac", "link", "young", "open", "linked"}
    assert (place / "elsewhere" / "lock").exists()


def test_a_full_disk_is_told_in_fixed_words(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, streamed = big_user(place, ascending=False)
    del streamed

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spill, "_open", full)
    with pytest.raises(ParameterError, match="is full") as told:
        pp.scan(place / "data", chunk_rows=1000, spill=place / "spill", **SCHEMA)
    assert told.value.__context__ is None
    assert not leftovers(place)


FILLING = """
import resource, signal, sys
import privpac as pp
from privpac.errors import ParameterError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in (0, 100, 700, 5000, 20000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        pp.scan(sys.argv[1], user="who", features={"x": pp.Integers(0, 9)}, label="y",
                chunk_rows=1000, spill=sys.argv[2], progress=False)
    except ParameterError as error:
        print(error)
"""


def test_a_disk_that_fills_at_any_byte_is_told_in_fixed_words(place: Path) -> None:
    """Files may grow to a few bytes only: some writes fail at once, some when the file is closed."""
    _, streamed = big_user(place, ascending=False)
    del streamed
    command = [sys.executable, "-c", FILLING, str(place / "data"), str(place / "spill")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == [spill.FULL] * 5
    assert not leftovers(place)


def test_a_folder_that_vanishes_is_told_and_not_waited_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "isdir", lambda path, seen=[]: not seen and not seen.append(1))  # type: ignore[misc]
    with pytest.raises(ParameterError, match="cannot be written to"):
        spill.SpillFolder(place / "nowhere")


def test_wide_types_survive_the_spill(place: Path) -> None:
    table = pa.table(
        {
            "who": pa.array(["b", "a", "b", None]).dictionary_encode(),
            "x": pa.array([1, 2, 3, 4], pa.uint8()),
            "z": pa.array([0, 0.25, 1, 1], pa.float32()),
            "y": pa.array([True, False, True, True]),
        }
    )
    (place / "data").mkdir()
    pq.write_table(table, place / "data" / "a.parquet", row_group_size=1)
    schema = SCHEMA | {"on_invalid": "drop"}
    streamed = pp.scan(place / "data", chunk_rows=1, spill=place / "spill", **schema)
    assert records(streamed) == records(UserData.from_frame(table, **schema)) == [[(1, 0, 1), (3, 4, 1)], [(2, 1, 0)]]


# Command and terminal


@pytest.mark.parametrize("engine", ["auto", "memory", "stream"])
def test_the_command_learns_by_every_engine(
    place: Path, engine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from privpac.cli import app

    big_user(place, ascending=True)
    table = place / "data" if engine == "auto" else place / "data" / "*.parquet"

    def run(*words: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["privpac", "learn", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            app.main()
        return int(stop.value.code or 0), *capsys.readouterr()

    common = ("--user", "who", "--label", "y", "--epsilon", 1, "--engine", engine)
    code, out, err = run(table, *common, "--feature", "x=0:9")
    assert (code, err) == (0, "")
    assert "ε = 1 for each person" in out
    code, out, err = run(table, *common, "--feature", "x=0:5")
    assert (code, out) == (2, "")
    assert "outside whole numbers 0..5" in err
    code, out, err = run(table, *common, "--feature", "x", "--tree", "thresholds:0:9")
    assert (code, err) == (0, "")
    assert "ε = 1 for each person" in out
    assert run(table, *common[:-1], "abacus", "--feature", "x=0:9")[0] == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rows_read_are_shown_on_a_terminal_only(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, streamed = big_user(place, ascending=True)
    assert capsys.readouterr() == ("", "")
    for show in (True, False):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("COLUMNS", "200")
        pp.scan(place / "data", progress=show, **SCHEMA)
        monkeypatch.undo()
        assert (f"/{len(frame)}" in terminal.getvalue()) is show
        assert bool(terminal.getvalue()) is show
    assert count_users(streamed) == 50


def test_spilled_rows_go_before_the_lock_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the next start knows what a kill in the middle left."""
    folder = spill.SpillFolder(tmp_path)
    folder.file().write_bytes(b"rows")
    seen: list[list[str]] = []
    unlink = os.unlink

    def watched(path: Any, **more: Any) -> None:
        seen.append(sorted(os.listdir(folder.path)))
        unlink(path, **more)

    monkeypatch.setattr(os, "unlink", watched)
    folder.remove()
    assert seen == [["1", "lock"], ["lock"]]
    assert os.listdir(tmp_path) == []


def test_a_cache_of_compiled_loops_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    code = (
        "import resource\nfrom privpac.data.engines.spill import _mixed\nimport numpy as np\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nassert len(_mixed(np.zeros(3, np.uint64))) == 3"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
