"""Grouping agrees with a dictionary, for every kind of id and every path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data import grouping as grouping
from privpac.data.grouping import Grouping, ascends, group, ranked
from privpac.rules.profile import Mean

quick = settings(deadline=None, max_examples=60)


def check(ids: Sequence[object], groups: Grouping) -> None:
    rows = np.arange(len(ids)) if groups.order is None else groups.order
    expected: dict[object, list[int]] = {}
    for row, identity in enumerate(ids):
        expected.setdefault(identity, []).append(row)
    found = {ids[rows[a]]: rows[a:b].tolist() for a, b in zip(groups.offsets[:-1], groups.offsets[1:])}
    assert found == expected
    assert len(groups.offsets) == len(expected) + 1
    assert [ids[r] for r in groups.firsts] == list(found)
    assert sorted(rows.tolist()) == list(range(len(ids)))


@quick
@given(st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)))
def test_signed_ids(ids: list[int]) -> None:
    check(ids, group(pl.Series(ids, dtype=pl.Int64)))


@quick
@given(st.lists(st.integers(2**64 - 3, 2**64 - 1) | st.integers(0, 2**64 - 1)))
def test_unsigned_ids(ids: list[int]) -> None:
    check(ids, group(pl.Series(ids, dtype=pl.UInt64)))


@quick
@given(st.lists(st.integers(0, 9)))
def test_small_ranges_are_counted_in_ascending_order(ids: list[int]) -> None:
    groups = group(pl.Series(ids, dtype=pl.Int64))
    check(ids, groups)
    assert [ids[r] for r in groups.firsts] == sorted(set(ids))


@quick
@given(st.lists(st.text(max_size=3) | st.text(alphabet="ab", min_size=13, max_size=20)))
def test_text_ids_come_by_first_row(ids: list[str]) -> None:
    groups = group(pl.Series(ids, dtype=pl.String))
    check(ids, groups)
    assert groups.firsts.tolist() == sorted(groups.firsts.tolist())


@quick
@given(st.lists(st.text(alphabet="abc", max_size=2), min_size=1), st.integers(1, 3))
def test_two_ids_with_one_hash_are_never_merged(ids: list[str], keys: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "_text_keys", lambda series: np.array([len(s) % keys for s in series], np.uint64))
        groups = group(pl.Series(ids, dtype=pl.String))
    check(ids, groups)
    assert groups.firsts.tolist() == sorted(groups.firsts.tolist())


@pytest.mark.parametrize("bits", [0, 1, 5, 10])
def test_any_number_of_parts_gives_the_same_groups(bits: int) -> None:
    ids = np.random.default_rng(1).integers(0, 500, 3000).astype(np.uint64) * np.uint64(0x123456789ABCDEF)
    check(ids.tolist(), Grouping(*grouping._hashed(ids, bits)))


def test_many_rows_of_wide_ids() -> None:
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 2**62, 5000)[rng.integers(0, 5000, 200_000)]
    check(ids.tolist(), group(pl.Series(ids)))


def test_sorted_ids_do_not_move() -> None:
    assert group(pl.Series([1, 1, 5, 5, 9])).order is None


@quick
@given(st.lists(st.integers(0, 9) | st.integers(0, 100) | st.integers(2**63 - 2, 2**64 - 1)))
def test_ranks_are_those_of_a_sort(codes: list[int]) -> None:
    array = np.array(codes, dtype=np.uint64)
    distinct, places = ranked(array)
    assert distinct.tolist() == sorted(set(codes))
    assert distinct.dtype == np.uint64
    assert distinct[places].tolist() == codes


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize("rows", [0, 1, 2, 4095, 4096, 4097, 4098, 12_289])
def test_one_descent_anywhere_is_seen(kind: type, rows: int) -> None:
    keys = (np.arange(rows) // 3 + 7).astype(kind)
    assert ascends(keys)
    for place in {1, 2, rows // 2, 4095, 4096, 4097, 8192, rows - 2, rows - 1} & set(range(1, rows)):
        spoilt = keys.copy()
        spoilt[place] = keys[place - 1] - 1
        assert not ascends(spoilt)


def test_streams_of_unsigned_ids_are_cut_between_users(tmp_path: Path) -> None:
    """Ids beyond the signed range, in more rows than a chunk: the loop that checks their order is compiled for them."""
    ids = pl.Series("who", np.repeat(np.arange(2**63 - 20, 2**63 + 20, dtype=np.uint64), 3))
    frame = pl.DataFrame({"who": ids, "x": np.arange(120) % 7, "y": np.arange(120) % 2})
    frame.write_parquet(tmp_path / "t.parquet")
    declared = {"user": "who", "features": {"x": pp.Integers(0, 6)}, "label": "y"}
    streamed = pp.scan(tmp_path / "t.parquet", chunk_rows=20, **declared)
    expected = pp.Thresholds().profile(pp.UserData.from_frame(frame, **declared), Mean())
    assert pp.Thresholds().profile(streamed, Mean()).blocks() == expected.blocks()
