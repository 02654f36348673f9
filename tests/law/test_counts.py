"""Exact sums of multiplicities, against Python ints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.law import sampling as counts
from privpac.law.sampling import grouped, locate, nth

COUNT = st.one_of(
    st.just(1), st.integers(1, 9), st.integers(1, 2**64), st.integers(2**64 - 2, 2**64 + 2), st.integers(1, 2**300)
)
KEY = st.one_of(st.integers(0, 5), st.integers(0, 3000), st.integers(0, 2**40), st.integers(0, 2**61))


def spans(values: list[int]) -> tuple[Any, dict[int, int]]:
    big = {i: c for i, c in enumerate(values) if c > 2**64}
    return np.array([0 if i in big else c - 1 for i, c in enumerate(values)], dtype=np.uint64), big


def expected(keys: list[int], values: list[int]) -> dict[int, int]:
    out: dict[int, int] = {}
    for key, count in zip(keys, values):
        out[key] = out.get(key, 0) + count
    return dict(sorted(out.items()))


@given(st.lists(st.tuples(KEY, COUNT), min_size=1, max_size=40))
def test_totals_are_exact_for_any_keys_and_counts(rows: list[tuple[int, int]]) -> None:
    keys, values = [k for k, _ in rows], [c for _, c in rows]
    distinct, totals = grouped(np.array(keys, dtype=np.int64), *spans(values))
    assert dict(zip(distinct.tolist(), totals)) == expected(keys, values)
    assert [totals[j] for j in range(len(totals))] == list(totals)
    assert totals.total() == sum(values)
    for approximate, exact in zip(totals.floats().tolist(), totals):
        if exact < 2**1000:
            assert abs(approximate - exact) <= exact * 2.01 * 2.0**-53


@pytest.mark.parametrize("width", [50, 2**20, 2**40, 2**61])
@pytest.mark.parametrize("most", [1, 5, 2**33, 2**64])
def test_totals_are_exact_on_many_blocks(width: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_CHUNK", 1 << 10)
    rng = np.random.default_rng(width + most)
    keys = rng.integers(0, width, 5000)
    span = rng.integers(0, most, 5000, dtype=np.uint64) if most > 1 else np.zeros(5000, dtype=np.uint64)
    distinct, totals = grouped(keys, span, {})
    assert dict(zip(distinct.tolist(), totals)) == expected(keys.tolist(), [int(s) + 1 for s in span])


@given(st.lists(COUNT, min_size=1, max_size=12), st.data())
def test_locate_finds_the_rth_value(values: list[int], data: st.DataObject) -> None:
    n = len(values)
    members = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1)))
    total = sum(values[i] for i in members)
    r = data.draw(st.integers(0, total - 1))
    block, offset = locate(np.array(members), r, *spans(values))
    assert block in members
    assert 0 <= offset < values[block]
    assert sum(values[i] for i in members if i < block) + offset == r


def test_locate_at_every_border_of_the_two_limbs() -> None:
    values = [2**32, 2**64, 1, 2**32 - 1, 2**63, 2**64, 3]
    span, big = spans(values)
    start = 0
    for i, count in enumerate(values):
        assert locate(np.arange(len(values)), start, span, big) == (i, 0)
        assert locate(np.arange(len(values)), start + count - 1, span, big) == (i, count - 1)
        start += count


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_nth_finds_the_rth_true(flags: list[bool]) -> None:
    mask, places = np.array(flags), [i for i, flag in enumerate(flags) if flag]
    assert [nth(mask, r) for r in range(len(places))] == places
    with pytest.raises(IndexError):
        nth(mask, len(places))


def test_nth_counts_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_CHUNK", 1 << 8)
    mask = np.random.default_rng(1).random(1000) < 0.2
    assert [nth(mask, r) for r in range(int(mask.sum()))] == np.flatnonzero(mask).tolist()
