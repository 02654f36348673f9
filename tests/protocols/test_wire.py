"""Framing: what was packed is read back, what was not is nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.device.wire import (
    CENTRAL,
    LOCAL,
    SHUFFLE,
    canonical,
    pack_item,
    pack_report,
    pack_shuffled,
    parse,
    run_id,
)
from privpac.errors import ManifestError, ParameterError

RUN = run_id({"v": 1})


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 1))
def test_reports_round_trip(chunk: int, j: int, bit: int) -> None:
    assert parse(RUN, pack_report(RUN, chunk, j, bit), LOCAL) == (chunk, j, bit)


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_items_and_buckets_round_trip(item: bytes, bucket: int) -> None:
    assert parse(RUN, pack_item(RUN, item), CENTRAL) == (item,)
    assert parse(RUN, pack_shuffled(RUN, bucket), SHUFFLE) == (bucket,)


@given(st.binary(max_size=40), st.sampled_from([CENTRAL, LOCAL, SHUFFLE]))
def test_noise_is_nothing_and_never_raises(data: bytes, kind: int) -> None:
    assert parse(RUN, data, kind) is None
    for good in (pack_report(RUN, 1, 2, 1), pack_shuffled(RUN, 3), pack_item(RUN, b"abc")):
        assert parse(RUN, good + data, kind) is None or not data
        parse(RUN, good[: len(data)] + data, kind)


@pytest.mark.parametrize("strange", [None, 7, "PPM1", [1], 2.5])
def test_other_types_are_nothing(strange: object) -> None:
    assert parse(RUN, strange, LOCAL) is None


def test_other_runs_kinds_and_bits_are_nothing() -> None:
    other = run_id({"v": 2})
    assert parse(other, pack_report(RUN, 1, 2, 1), LOCAL) is None
    assert parse(RUN, pack_report(RUN, 1, 2, 1), SHUFFLE) is None
    assert parse(RUN, pack_report(RUN, 1, 2, 1)[:-1] + b"\2", LOCAL) is None


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=3)),
        max_size=5,
    )
)
def test_order_of_keys_does_not_matter(manifest: dict[str, object]) -> None:
    assert run_id(manifest) == run_id(dict(reversed(list(manifest.items()))))


@pytest.mark.parametrize("wrong", [1.5, None, True, {"deep": 0.5}, [float("nan")]])
def test_floats_booleans_and_nulls_are_refused(wrong: object) -> None:
    with pytest.raises(ManifestError):
        canonical({"v": wrong})


def test_limits() -> None:
    with pytest.raises(ParameterError):
        pack_item(RUN, bytes(1 << 16))
    with pytest.raises(ParameterError):
        pack_report(b"short", 0, 0, 0)
