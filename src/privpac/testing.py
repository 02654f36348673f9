"""Seeded randomness for tests; never imported by the rest of the package.

Whoever knows the seed knows every coin, so nothing drawn here is private.  Three locks keep these generators out of
production: they raise ``InsecureRandomnessError`` at every draw outside ``insecure_randomness()``, results made
inside carry ``guarantee=None`` and say so when printed or saved, and a budget ledger refuses to pay for them.  No
option and no environment variable opens these locks.

>>> with insecure_randomness():
...     first, second = SeededRng(7), SeededRng(7)
...     [first.below(6) for _ in range(9)] == [second.below(6) for _ in range(9)]
True
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from privpac.errors import EntropyError, InsecureRandomnessError, ParameterError
from privpac.rng import Rng, _insecure


@contextmanager
def insecure_randomness() -> Iterator[None]:
    """Allow seeded generators in this context (not in other threads); nothing released inside has a guarantee."""
    token = _insecure.set(True)
    try:
        yield
    finally:
        _insecure.reset(token)


class _InsecureRng(Rng):
    """A generator whose words can be known; usable only where the caller said so."""

    secure = False

    def _allow(self) -> None:
        if not _insecure.get():
            raise InsecureRandomnessError(
                f"{type(self).__name__} is for tests: its words can be known; leave rng out, or draw inside "
                "'with privpac.testing.insecure_randomness():' (the result then has no guarantee)"
            )


class SeededRng(_InsecureRng):
    """Words of SHAKE-256(seed || counter), 512 per block; ``word`` and ``words`` read one stream.

    The seed is bytes, text (UTF-8) or an integer in ``0..2**128-1`` (16 bytes, little-endian).
    """

    _BLOCK_WORDS = 512

    def __init__(self, seed: int | str | bytes) -> None:
        self._seed = _seed_bytes(seed)
        self._counter = 0
        self._left: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)

    def _block(self) -> NDArray[np.uint64]:
        data = hashlib.shake_256(self._seed + self._counter.to_bytes(8, "little")).digest(8 * self._BLOCK_WORDS)
        self._counter += 1
        return np.frombuffer(data, dtype="<u8").astype(np.uint64)

    def word(self) -> int:
        return int(self.words(1)[0])

    def words(self, size: int) -> NDArray[np.uint64]:
        self._allow()
        missing = size - len(self._left)
        if missing > 0:
            blocks = [self._block() for _ in range(-(-missing // self._BLOCK_WORDS))]
            self._left = np.concatenate([self._left, *blocks])
        out, self._left = self._left[:size], self._left[size:]
        return out.copy()


class WordRng(_InsecureRng):
    """The given 64-bit words (integers or hexadecimal text), then ``EntropyError``; ``used`` counts the words drawn."""

    def __init__(self, words: Iterable[int | str]) -> None:
        if isinstance(words, (str, bytes)):
            raise TypeError("WordRng takes a list of words, not one text; write ['00ff', ...] or [255, ...]")
        self._words = [_read_word(word) for word in words]
        self.used = 0

    def word(self) -> int:
        self._allow()
        if self.used == len(self._words):
            raise EntropyError(f"all {len(self._words)} given words are used up; give more words")
        self.used += 1
        return self._words[self.used - 1]


def _seed_bytes(seed: int | str | bytes) -> bytes:
    if isinstance(seed, bytes):
        return seed
    if isinstance(seed, str):
        return seed.encode()
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an integer, text or bytes, got {type(seed).__name__}")
    if not 0 <= seed < 1 << 128:
        raise ParameterError(
            f"an integer seed must be in 0..2**128-1, got one of {seed.bit_length()} bits; use bytes for more"
        )
    return seed.to_bytes(16, "little")


def _read_word(word: int | str) -> int:
    if isinstance(word, str):
        if not re.fullmatch(r"(0x)?[0-9a-fA-F]{1,16}", word):
            raise ParameterError(f"a word as text must be 1 to 16 hexadecimal digits, got {word[:24]!r}")
        return int(word, 16)
    if isinstance(word, bool) or not hasattr(word, "__index__"):
        raise TypeError(f"a word must be an integer or hexadecimal text, got {type(word).__name__}")
    value = int(word.__index__())
    if not 0 <= value < 1 << 64:
        raise ParameterError(f"a word must be in 0..2**64-1, got one of {value.bit_length()} bits")
    return value
