"""Randomness: uniform and exact, never shared, never seeded by accident."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import random
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.errors import EntropyError, InsecureRandomnessError, ParameterError
from privpac.rng import PublicCoins, Rng, SystemRng, derive, secret_rng, word_indexed
from privpac.testing import SeededRng, WordRng, insecure_randomness

WORD = st.integers(0, 2**64 - 1)


def in_fork(compute: Callable[[], str]) -> str:
    """What ``compute`` returns in a forked child."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os.write(write, compute().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        out = pipe.read()
    os.waitpid(pid, 0)
    return out


# The system's generator


def test_parent_and_child_never_share_words() -> None:
    rng = SystemRng()
    rng.word()  # a filled buffer is what a child could inherit
    assert len(rng._buffer) - rng._next >= 8
    child = in_fork(lambda: " ".join(str(w) for w in rng.words(8)))
    siblings = in_fork(lambda: " ".join(str(w) for w in rng.words(8)))
    own = [str(w) for w in rng.words(8)]
    assert len({*child.split(), *siblings.split(), *own}) == 24


def test_a_forked_child_starts_with_an_empty_buffer() -> None:
    rng = SystemRng()
    rng.word()
    assert in_fork(lambda: str(len(rng._buffer))) == "0"
    assert len(rng._buffer) > 0


def test_a_fork_that_bypasses_the_hook_is_caught_by_the_process_id() -> None:
    rng = SystemRng()
    rng.word()
    ahead = [int(w) for w in rng._buffer[rng._next :]]
    rng._pid = -1  # as in a child whose hook did not run
    assert rng.word() not in ahead


def test_used_words_are_overwritten() -> None:
    rng = SystemRng()
    rng.words(5)
    assert not rng._buffer[: rng._next].any()
    assert rng._next == 5


def test_threads_never_share_words() -> None:
    rng = SystemRng()
    seen: list[int] = []

    def draw() -> None:
        seen.extend([rng.word() for _ in range(2000)])

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == len(seen) == 8000


def test_long_and_short_requests_have_the_requested_size() -> None:
    rng = SystemRng()
    for size in (0, 1, 7, 8192, 8193, 20000):
        words = rng.words(size)
        assert words.shape == (size,)
        assert words.dtype == np.uint64


def test_failing_entropy_is_an_error_without_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> bytes:
        raise OSError("no device")

    monkeypatch.setattr(os, "urandom", fail)
    with pytest.raises(EntropyError, match="no fallback"):
        SystemRng().word()
    with pytest.raises(EntropyError):
        SystemRng().words(10_000)


@pytest.mark.parametrize(
    "make", [SystemRng, lambda: SeededRng(1), lambda: WordRng([1]), lambda: PublicCoins(bytes(32))]
)
@pytest.mark.parametrize("clone", [pickle.dumps, copy.copy, copy.deepcopy])
def test_generators_cannot_be_copied(make: Callable[[], Any], clone: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="repeat its words"):
        clone(make())


# What rng= accepts


@pytest.mark.parametrize(
    "bad",
    [
        0,
        42,
        "7",
        b"seed",
        1.5,
        True,
        random.Random(1),
        random.SystemRandom(),
        np.random.default_rng(1),
        np.random.RandomState(1),
        SystemRng,
    ],
    ids=lambda value: type(value).__name__,
)
def test_seeds_and_foreign_generators_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="would void the guarantee"):
        secret_rng(bad)


def test_public_coins_are_refused_as_secret() -> None:
    coins = PublicCoins(bytes(range(32)))
    assert not isinstance(coins, Rng)
    with pytest.raises(TypeError, match="PublicCoins"):
        secret_rng(coins)


def test_the_default_is_one_system_generator() -> None:
    assert isinstance(secret_rng(None), SystemRng)
    assert secret_rng() is secret_rng(None)
    mine = SystemRng()
    assert secret_rng(mine) is mine
    assert mine.secure
    assert not SeededRng(1).secure
    assert not WordRng([]).secure


def test_the_package_does_not_import_testing() -> None:
    code = "import sys, privpac.ledger, privpac.rng, privpac.result; print('privpac.testing' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


# The shared contract of words


@given(st.lists(WORD, min_size=4, max_size=4), st.integers(0, 256))
def test_bits_are_the_top_bits_with_the_first_word_most_significant(words: list[int], k: int) -> None:
    with insecure_randomness():
        rng = WordRng(words)
        n = -(-k // 64)
        joined = sum(word << (64 * (n - 1 - i)) for i, word in enumerate(words[:n]))
        assert rng.bits(k) == joined >> (64 * n - k)
        assert rng.used == n


@given(st.lists(WORD, max_size=40), st.integers(1, 2**130))
def test_below_is_the_first_accepted_block_of_bits(words: list[int], n: int) -> None:
    k = (n - 1).bit_length()
    size = -(-k // 64)
    blocks = [words[i : i + size] for i in range(0, len(words) - size + 1, size)] if size else []
    values = [sum(w << (64 * (size - 1 - i)) for i, w in enumerate(block)) >> (64 * size - k) for block in blocks]
    accepted = [v for v in values if v < n]
    with insecure_randomness():
        rng = WordRng(words)
        if n == 1:
            assert rng.below(n) == 0
            assert rng.used == 0
        elif accepted:
            assert rng.below(n) == accepted[0]
            assert rng.used == size * (values.index(accepted[0]) + 1)
        else:
            with pytest.raises(EntropyError):
                rng.below(n)


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 8, 100, 128])
def test_below_is_exactly_uniform(n: int) -> None:
    k = (n - 1).bit_length()
    counts: Counter[int] = Counter()
    with insecure_randomness():
        for top in range(2**k):  # every first block of k bits; rejected ones start afresh
            rng = WordRng([top << (64 - k)])
            try:
                counts[rng.below(n)] += 1
            except EntropyError:
                assert top >= n
    assert counts == dict.fromkeys(range(n), 1)


@pytest.mark.parametrize("n", [0, -1, -(2**70)])
def test_below_needs_a_positive_number(n: int) -> None:
    with pytest.raises(ParameterError, match="n >= 1"):
        SystemRng().below(n)


def test_words_are_read_as_integers_or_hexadecimal() -> None:
    with insecure_randomness():
        rng = WordRng([1, "ff", "0x10", "4c5b9b1d564a2541", 2**64 - 1])
        assert [rng.word() for _ in range(5)] == [1, 255, 16, 0x4C5B9B1D564A2541, 2**64 - 1]
        with pytest.raises(EntropyError, match="used up"):
            rng.word()


@pytest.mark.parametrize("bad", [["xyz"], [""], ["1" * 17], [-1], [2**64]])
def test_words_out_of_range_are_refused(bad: list[Any]) -> None:
    with pytest.raises(ParameterError, match="word"):
        WordRng(bad)


@pytest.mark.parametrize("bad", [[1.0], [None], [True], "ff", b"ff"])
def test_words_of_the_wrong_type_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError):
        WordRng(bad)


# Seeded words


@given(st.one_of(st.binary(max_size=40), st.text(max_size=10), st.integers(0, 2**128 - 1)))
@settings(max_examples=30)
def test_seeded_words_are_shake_of_seed_and_counter(seed: int | str | bytes) -> None:
    raw = seed if isinstance(seed, bytes) else seed.encode() if isinstance(seed, str) else seed.to_bytes(16, "little")
    stream = b"".join(hashlib.shake_256(raw + i.to_bytes(8, "little")).digest(4096) for i in range(3))
    expected = [int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i in range(1200)]
    with insecure_randomness():
        assert SeededRng(seed).words(1200).tolist() == expected


@given(st.lists(st.integers(0, 700), max_size=8))
@settings(max_examples=50)
def test_seeded_words_are_one_stream_however_they_are_drawn(sizes: list[int]) -> None:
    with insecure_randomness():
        whole, parts = SeededRng("s").words(sum(sizes) + len(sizes)), SeededRng("s")
        drawn = [w for size in sizes for w in (parts.word(), *parts.words(size).tolist())]
    assert whole.tolist() == drawn


@pytest.mark.parametrize("bad", [1.5, None, True, [1], np.random.default_rng(1)])
def test_seeds_of_the_wrong_type_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="seed"):
        SeededRng(bad)


@pytest.mark.parametrize("bad", [-1, 2**128, 10**4000])
def test_seeds_out_of_range_are_refused(bad: int) -> None:
    with pytest.raises(ParameterError, match="seed"):
        SeededRng(bad)


# Not usable by accident

DRAWS: list[Callable[[Rng], Any]] = [
    lambda r: r.word(),
    lambda r: r.bits(3),
    lambda r: r.below(10),
    lambda r: r.words(2),
]


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("make", [lambda: SeededRng(3), lambda: WordRng([1, 2, 3])])
def test_insecure_generators_draw_only_inside_the_context(make: Callable[[], Rng], draw: Callable[[Rng], Any]) -> None:
    rng = make()
    with pytest.raises(InsecureRandomnessError, match="insecure_randomness"):
        draw(rng)
    with insecure_randomness():
        draw(rng)
        with insecure_randomness():
            pass
        draw(make())  # leaving the inner context does not close the outer one
    with pytest.raises(InsecureRandomnessError):
        draw(rng)


def test_the_context_closes_after_an_error() -> None:
    def fail() -> None:
        with insecure_randomness():
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with pytest.raises(InsecureRandomnessError):
        SeededRng(1).word()


def test_the_context_does_not_leak_into_threads() -> None:
    outcome: list[str] = []

    def draw() -> None:
        try:
            SeededRng(1).word()
            outcome.append("drawn")
        except InsecureRandomnessError:
            outcome.append("refused")

    with insecure_randomness():
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
    assert outcome == ["refused"]


def test_no_environment_variable_opens_the_context() -> None:
    code = (
        "from privpac.testing import SeededRng\ntry:\n SeededRng(1).word()\nexcept Exception as e: "
        "print(type(e).__name__)"
    )
    env = os.environ | {
        "PRIVPAC_INSECURE": "1",
        "PRIVPAC_INSECURE_RANDOMNESS": "1",
        "PRIVPAC_TESTING": "1",
        "PRIVPAC_SEED": "1",
    }
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert out.stdout.strip() == "InsecureRandomnessError"


# Public coins


@given(st.binary(min_size=32, max_size=32), st.text(min_size=1, max_size=8))
@settings(max_examples=20)
def test_public_coins_are_the_indexed_words_of_their_key(seed: bytes, label: str) -> None:
    coins, key = PublicCoins(seed, label), derive(seed, label)
    assert [coins.word() for _ in range(1030)] == [word_indexed(key, i) for i in range(1030)]


def test_public_coins_are_fixed_by_seed_and_label() -> None:
    seed = bytes(range(32))
    # SHAKE-256 of the derived key and block number 0, computed here from the definition.
    header = (1).to_bytes(8, "little") + b"H" + (0).to_bytes(8, "little")
    key = hashlib.blake2b(header, digest_size=32, key=seed, person=b"privpac.cs.v1\0\0\0").digest()
    first = int.from_bytes(hashlib.shake_256(key + bytes(8)).digest(8), "little")
    assert PublicCoins(seed).word() == first
    assert PublicCoins(seed, "other").word() != first
    assert PublicCoins(bytes(32)).word() != first


@pytest.mark.parametrize("bad", [b"", bytes(31), bytes(33), "0" * 32, 5, None, bytearray(32)])
def test_public_seeds_are_32_bytes(bad: Any) -> None:
    with pytest.raises(ParameterError, match="32 bytes"):
        PublicCoins(bad)
