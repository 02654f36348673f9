"""Sorting and summing events, sorting within users, sharing work: against numpy, on both paths of each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpac.data import loops as spreading
from privpac.data.loops import even, spread, user_spans
from privpac.rules.kernels.cuts import sort_within_users
from privpac.rules.kernels.events import sum_events

TOP = 2**64 - 1
PLACES = st.one_of(st.integers(0, 5), st.integers(0, TOP), st.just(TOP))


def reference(at: NDArray[np.uint64], change: NDArray[Any], first: int) -> list[tuple[int, int]]:
    sums: dict[int, int] = {}
    for place, moved in zip(at.tolist(), change.tolist()):
        sums[place] = sums.get(place, 0) + moved
    out, total = [], first
    for place in sorted(sums):
        if sums[place]:
            total += sums[place]
            out.append((place, total))
    return out


def check(at: NDArray[np.uint64], change: NDArray[Any], places: int) -> None:
    first = [5, -3][: change.shape[1]]
    got = sum_events(at, change, first, places)
    for c, (place, total) in enumerate(got):
        assert place.dtype == np.uint64
        assert place[0] == 0
        assert (place[1:] > place[:-1]).all()
        moves = np.diff(total, prepend=first[c]) != 0
        assert list(zip(place[moves].tolist(), total[moves].tolist())) == reference(at, change[:, c], first[c])
        assert moves[1:].all() or change.shape[1] == 2


@settings(deadline=None)
@given(st.lists(st.tuples(PLACES, st.integers(-3, 3), st.integers(-3, 3)), max_size=60))
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("columns", [1, 2])
def test_few_events_on_any_place(kind: Any, columns: int, events: list[tuple[int, int, int]]) -> None:
    at = np.array([place for place, _, _ in events], dtype=np.uint64)
    change = np.array([[a, b] for _, a, b in events], dtype=kind).reshape(-1, 2)[:, :columns]
    check(at, change, 1 << 64)


N = 100_000
RNG = np.random.default_rng(11)
SHAPES = {
    "uniform": RNG.integers(0, TOP, N, dtype=np.uint64),
    "all equal": np.full(N, 7, dtype=np.uint64),
    "two values": np.where(RNG.random(N) < 0.5, np.uint64(0), np.uint64(TOP)),
    "few values": RNG.integers(0, 50, N).astype(np.uint64),
    "every scale": (2.0 ** RNG.uniform(0, 63.9, N)).astype(np.uint64),
    "floats in one binade": RNG.random(N).view(np.uint64) + np.uint64(1 << 63),
    "cluster and outliers": np.where(
        np.arange(N) % 1000 == 0, np.uint64(TOP), RNG.integers(2**40, 2**40 + 30_000, N).astype(np.uint64)
    ),
    "sorted": np.arange(N, dtype=np.uint64) << np.uint64(40),
    "reversed": np.arange(N, dtype=np.uint64)[::-1] << np.uint64(40),
    "nested clusters": sum(
        (RNG.integers(0, 3, N).astype(np.uint64) << np.uint64(s) for s in range(0, 62, 2)), np.zeros(N, np.uint64)
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("columns", "kind", "cores"),
    [
        (1, np.int32, 1),
        (2, np.int64, 3),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(1, np.int32, 3), (2, np.int32, 1), (2, np.int32, 3), (2, np.int64, 1)]
        ),
    ],
)
def test_many_events_of_every_shape(
    monkeypatch: pytest.MonkeyPatch, shape: str, cores: int, columns: int, kind: Any
) -> None:
    monkeypatch.setattr(spreading, "workers", lambda: cores)
    change = np.random.default_rng(2).integers(-2, 3, (N, columns)).astype(kind)
    check(SHAPES[shape], change, 1 << 64)


def test_few_places_are_counted_without_sorting() -> None:
    at = SHAPES["few values"]
    change = np.random.default_rng(2).integers(-2, 3, (N, 2)).astype(np.int32)
    check(at, change, 50)
    check(at, change, 1 << 20)


def test_no_events_and_events_that_cancel_leave_one_block() -> None:
    none = np.empty(0, dtype=np.uint64)
    ((starts, scores),) = sum_events(none, np.empty((0, 1), dtype=np.int32), [4], TOP + 1)
    assert (starts.tolist(), scores.tolist()) == ([0], [4])
    at = np.array([9, 9], dtype=np.uint64)
    ((starts, scores),) = sum_events(at, np.array([[1], [-1]], dtype=np.int32), [4], TOP + 1)
    assert (starts.tolist(), scores.tolist()) == ([0], [4])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cores", [1, 3])
def test_records_are_sorted_within_users_of_every_size(monkeypatch: pytest.MonkeyPatch, shape: str, cores: int) -> None:
    monkeypatch.setattr(spreading, "workers", lambda: cores)
    rng = np.random.default_rng(3)
    inner = np.sort(rng.integers(0, N + 1, 300))
    offsets = np.concatenate([[0, 0], inner[inner < N // 2], [N, N]]).astype(np.int64)
    x, y = SHAPES[shape], rng.integers(0, 2, N).astype(np.uint8)
    key, tag = sort_within_users(x, y, offsets)
    user = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((y, x, user))
    assert (key == x[order]).all()
    again = np.lexsort((tag, key, user))
    assert (tag[again] == y[order]).all()


@given(st.integers(0, 10**6), st.integers(1, 10**5), st.integers(1, 64))
def test_even_parts_cover_the_range_once(n: int, least: int, cores: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spreading, "workers", lambda: cores)
        parts = even(n, least)
    assert parts[0][0] == 0
    assert parts[-1][1] == n
    assert all(a[1] == b[0] for a, b in pairwise(parts))
    assert len(parts) == 1 or all(b - a >= least for a, b in parts)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 8))
def test_user_spans_cover_every_user_once(sizes: list[int], cores: int) -> None:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spreading, "workers", lambda: cores)
        spans = user_spans(offsets, least=3)
    assert [u for a, b in spans for u in range(a, b)] == list(range(len(sizes)))


def test_spread_keeps_order_and_passes_errors_on() -> None:
    assert spread(lambda a, b: a * b, [(1, 2), (3, 4), (5, 6)]) == [2, 12, 30]
    with pytest.raises(ZeroDivisionError):
        spread(lambda a, b: a // b, [(1, 0), (1, 1)])
