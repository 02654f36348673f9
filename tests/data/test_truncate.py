"""A cap on records keeps the same records whatever the engine or the order of rows."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Integers, UserData
from privpac.data.grouping import hash_ids
from privpac.errors import ParameterError

quick = settings(deadline=None, max_examples=60)

MASK = (1 << 64) - 1
DOMAINS = {"b": Integers(0, 2**64 - 1), "a": Integers(-5, 5)}


def mix(word: int) -> int:
    word = (word + 0x9E3779B97F4A7C15) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def chain(state: int, *words: int) -> int:
    for word in words:
        state = mix(state ^ word)
    return state


def id_hash(identity: object) -> int:
    data = str(identity).encode()
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
    return chain(0, *words, len(data))


def reference(
    identity: object, records: list[tuple[int, int, int]], cap: int, salt: bytes
) -> Counter[tuple[int, int, int]]:
    """The definition, word by word; records are (b, a, label) codes."""
    key = int.from_bytes(hashlib.sha256(b"privpac max_records 1" + salt).digest()[:8], "little")
    seen: Counter[tuple[int, int, int]] = Counter()
    ranked = []
    for record in records:
        b, a, y = record
        ranked.append((chain(key, id_hash(identity), a, b, y, seen[record]), record))
        seen[record] += 1
    return Counter(record for _, record in sorted(ranked)[:cap])


ROWS = st.lists(
    st.tuples(st.integers(-2, 2), st.integers(0, 2) | st.integers(0, 2**64 - 1), st.integers(-1, 1), st.integers(0, 1)),
    max_size=40,
)


def build(rows: list[tuple[int, int, int, int]], text: bool = False) -> UserData:
    frame = pl.DataFrame(
        {
            "u": pl.Series([r[0] for r in rows], dtype=pl.Int64),
            "b": pl.Series([r[1] for r in rows], dtype=pl.UInt64),
            "a": pl.Series([r[2] for r in rows], dtype=pl.Int64),
            "y": pl.Series([r[3] for r in rows], dtype=pl.Int64),
        }
    )
    frame = frame.with_columns(pl.col("u").cast(pl.String)) if text else frame
    return UserData.from_frame(frame, user="u", features=DOMAINS, label="y")


@quick
@given(ROWS, st.integers(1, 6), st.binary(max_size=4))
def test_hash_rule_is_its_written_definition(rows: list[tuple[int, int, int, int]], cap: int, salt: bytes) -> None:
    data = build(rows).max_records(cap, salt=salt)
    users = sorted({r[0] for r in rows})
    for identity, kept in zip(users, data.to_lists(), strict=True):
        own = [(b, a + 5, y) for u, b, a, y in rows if u == identity]
        assert Counter(kept) == reference(identity, own, cap, salt)
        assert len(kept) == min(cap, len(own))


@quick
@given(ROWS, st.integers(1, 6), st.randoms(use_true_random=False))
def test_shuffled_rows_and_text_ids_keep_the_same_records(
    rows: list[tuple[int, int, int, int]], cap: int, random: object
) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    kept = [sorted(user) for user in build(rows).max_records(cap).to_lists()]
    assert [sorted(user) for user in build(shuffled).max_records(cap).to_lists()] == kept
    assert sorted(sorted(user) for user in build(shuffled, text=True).max_records(cap).to_lists()) == sorted(kept)


def test_one_user_does_not_change_what_another_keeps() -> None:
    rng = np.random.default_rng(3)
    rows = [
        (int(u), int(b), 0, int(y))
        for u, b, y in zip(rng.integers(0, 5, 300), rng.integers(0, 9, 300), rng.integers(0, 2, 300))
    ]
    everyone = build(rows).max_records(7).to_lists()
    without = build([r for r in rows if r[0] != 2]).max_records(7).to_lists()
    assert [u for i, u in enumerate(everyone) if i != 2] == without


def test_order_of_declared_features_does_not_matter() -> None:
    frame = pl.DataFrame({"u": [1] * 50, "b": range(50), "a": [i % 3 for i in range(50)]})
    one = UserData.from_frame(frame, user="u", features={"b": Integers(0, 99), "a": Integers(0, 9)}).max_records(5)
    two = UserData.from_frame(frame, user="u", features={"a": Integers(0, 9), "b": Integers(0, 99)}).max_records(5)
    assert one.codes["b"].tolist() == two.codes["b"].tolist()


def test_salt_changes_the_choice() -> None:
    data = build([(1, b, 0, 0) for b in range(100)])
    assert data.max_records(10, salt=b"x").to_lists() != data.max_records(10, salt=b"y").to_lists()


@quick
@given(ROWS, st.integers(1, 6))
def test_first_rule_keeps_the_first_in_the_given_order(rows: list[tuple[int, int, int, int]], cap: int) -> None:
    full = build(rows)
    assert full.max_records(cap, rule="first").to_lists() == [user[:cap] for user in full.to_lists()]


def test_arrays_default_to_first_and_tables_to_hash() -> None:
    x = np.arange(100)
    arrays = UserData.from_arrays(x, x % 2, np.zeros(100, int), features={"x": Integers(0, 99)})
    assert arrays.max_records(3).to_lists() == [[(0, 0), (1, 1), (2, 0)]]
    table = UserData.from_frame(
        pl.DataFrame({"u": np.zeros(100, int), "x": x, "y": x % 2}),
        user="u",
        features={"x": Integers(0, 99)},
        label="y",
    )
    assert table.max_records(3).to_lists() == arrays.max_records(3, rule="hash").to_lists()
    assert table.max_records(3).to_lists() != arrays.max_records(3).to_lists()


def test_hash_leaves_unbound_columns_out() -> None:
    frame = pl.DataFrame({"u": [1, 1, 2], "x": [1, 2, 3], "z": ["p", "q", "r"]})
    data = UserData.from_frame(frame, user="u", features={"x": Integers(0, 9), "z": None})
    assert list(data.max_records(1).features) == ["x"]
    assert list(data.max_records(1, rule="first").features) == ["x", "z"]
    with pytest.raises(ParameterError, match="bind"):
        UserData.from_frame(frame, user="u", features=["x", "z"]).max_records(1)


def test_hash_is_the_same_after_selecting_users() -> None:
    rng = np.random.default_rng(4)
    data = build([(int(u) - 2, int(b), 0, 0) for u, b in zip(rng.integers(0, 5, 200), rng.integers(0, 50, 200))])
    assert (
        data.take([3, 1]).max_records(4, rule="hash").to_lists()
        == data.max_records(4, rule="hash").take([3, 1]).to_lists()
    )


def test_hash_is_refused_without_ids_because_positions_move_when_a_user_leaves() -> None:
    lists = UserData.from_users([[(1, 0), (2, 1)], [(3, 0)]], features={"x": Integers(0, 50)})
    for users in (lists, lists.take([1])):
        with pytest.raises(ParameterError, match="needs user ids"):
            users.max_records(1, rule="hash")


@quick
@given(st.lists(st.text() | st.integers().map(str)))
def test_ids_hash_by_their_bytes(ids: list[str]) -> None:
    assert hash_ids(pl.Series(ids, dtype=pl.String)).tolist() == [id_hash(i) for i in ids]
    assert hash_ids(pl.Series(["skipped", *ids], dtype=pl.String).slice(1)).tolist() == [id_hash(i) for i in ids]


@quick
@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integer_ids_hash_like_their_text(ids: list[int]) -> None:
    assert hash_ids(pl.Series(ids, dtype=pl.Int64)).tolist() == [id_hash(i) for i in ids]


@pytest.mark.parametrize(
    ("cap", "rule", "salt", "error"),
    [
        (0, "hash", b"", ParameterError),
        (-1, "hash", b"", ParameterError),
        (2, "last", b"", ParameterError),
        (2.0, "hash", b"", TypeError),
        (True, "hash", b"", TypeError),
        (2, "hash", "salt", TypeError),
    ],
)
def test_bad_caps_are_refused(cap: object, rule: str, salt: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        build([]).max_records(cap, rule, salt)  # type: ignore[arg-type]
