"""Where randomness comes from.

``SystemRng`` is the only production source: the operating system's generator, buffered, safe across fork and
threads, without seeds and without fallback.  ``PublicCoins`` is another type on purpose: coins that everyone may
know (drawn representations, races) and that must never be passed where secrecy is needed.

All sources share one contract for turning 64-bit words into numbers, so that a list of words fixes a draw:
``bits(k)`` takes ``ceil(k/64)`` words, the first one most significant, and keeps the top ``k`` bits; ``below(n)``
repeats ``bits((n-1).bit_length())`` until the value is below ``n`` (exactly uniform, fewer than two trials on
average).  Standard library and numpy only, so that a device can import it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from contextvars import ContextVar
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from privpac.errors import EntropyError, ParameterError

# Set only by privpac.testing.insecure_randomness(); a ContextVar, so it does not leak into other threads.
_insecure: ContextVar[bool] = ContextVar("privpac_insecure_randomness", default=False)


class _Words(ABC):
    """Numbers from a stream of uniform 64-bit words."""

    @abstractmethod
    def word(self) -> int:
        """The next uniform 64-bit word."""

    def bits(self, k: int) -> int:
        """A uniform integer of ``k`` bits."""
        n_words = -(-k // 64)
        value = 0
        for _ in range(n_words):
            value = (value << 64) | self.word()
        return value >> (64 * n_words - k)

    def below(self, n: int) -> int:
        """A uniform integer in ``0..n-1``; ``n = 1`` draws nothing."""
        if n < 1:
            raise ParameterError(f"below(n) needs n >= 1, got {n}")
        k = (n - 1).bit_length()
        if k == 0:
            return 0
        while True:
            value = self.bits(k)
            if value < n:
                return value

    def words(self, size: int) -> NDArray[np.uint64]:
        """``size`` uniform 64-bit words as an array."""
        return np.array([self.word() for _ in range(size)], dtype=np.uint64)

    # A copied generator would repeat its words.
    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied: a copy would repeat its words")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


class Rng(_Words):
    """A source of *secret* randomness; ``rng=`` arguments accept nothing else."""

    secure: bool = False


class SystemRng(Rng):
    """The operating system's generator.

    Buffer of at most 64 KiB, used words overwritten, a lock for threads; the buffer is dropped in a forked child
    and before any draw by another process id, so parent and child never share words.
    """

    secure = True
    _BUFFER_WORDS = 8192

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()
        os.register_at_fork(after_in_child=_ForkGuard(self))

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._buffer: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._next = 0
        self._grow = 16

    def _entropy(self, n_bytes: int) -> bytes:
        try:
            return os.urandom(n_bytes)
        except (OSError, NotImplementedError) as error:
            raise EntropyError(
                f"the operating system gave no randomness ({type(error).__name__}); no fallback"
            ) from None

    def word(self) -> int:
        return int(self.words(1)[0])

    def words(self, size: int) -> NDArray[np.uint64]:
        if size < 0:
            raise ParameterError(f"words(size) needs size >= 0, got {size}")
        if self._pid != os.getpid():
            self._clear()
        if size > self._BUFFER_WORDS:
            return np.frombuffer(self._entropy(8 * size), dtype=np.uint64).copy()
        with self._lock:
            if self._next + size > len(self._buffer):
                # Small first reads keep one-shot releases cheap; steady use grows to the full buffer.
                self._grow = min(self._BUFFER_WORDS, max(size, 2 * self._grow))
                self._buffer = np.frombuffer(self._entropy(8 * self._grow), dtype=np.uint64).copy()
                self._next = 0
            out = self._buffer[self._next : self._next + size].copy()
            self._buffer[self._next : self._next + size] = 0
            self._next += size
            return out


class _ForkGuard:
    """Drops a generator's buffer in a forked child without keeping the generator alive."""

    def __init__(self, rng: SystemRng) -> None:
        import weakref

        self._ref = weakref.ref(rng)

    def __call__(self) -> None:
        rng = self._ref()
        if rng is not None:
            rng._clear()


_system: SystemRng | None = None


def secret_rng(rng: object = None) -> Rng:
    """The generator to draw secret coins from: the system's unless a ``Rng`` is passed.

    Seeds, numpy generators and ``random.Random`` are refused: a guessable generator voids the guarantee.
    """
    global _system
    if rng is None:
        if _system is None:
            _system = SystemRng()
        return _system
    if not isinstance(rng, Rng):
        raise TypeError(
            f"rng must be a privpac Rng, not {type(rng).__name__}: seeds and other generators would void the "
            "guarantee; leave rng out, or use privpac.testing.SeededRng inside insecure_randomness() in tests"
        )
    return rng


# Public coins


_PERSON = b"privpac.cs.v1\0\0\0"
_BLOCK_WORDS = 512


def derive(seed: bytes, label: str, index: int = 0) -> bytes:
    """A 32-byte key for one purpose, from a 32-byte seed (bit-exact definition shared by all clients)."""
    name = label.encode()
    data = len(name).to_bytes(8, "little") + name + index.to_bytes(8, "little")
    return hashlib.blake2b(data, digest_size=32, key=seed, person=_PERSON).digest()


def _word_block(key: bytes, block: int) -> bytes:
    return hashlib.shake_256(key + block.to_bytes(8, "little")).digest(8 * _BLOCK_WORDS)


def word_indexed(key: bytes, i: int) -> int:
    """The ``i``-th 64-bit word of the public stream of ``key``."""
    block = _word_block(key, i // _BLOCK_WORDS)
    return int.from_bytes(block[8 * (i % _BLOCK_WORDS) :][:8], "little")


class PublicCoins(_Words):
    """Coins that may be known to everyone, fixed by a public 32-byte seed.

    Not an ``Rng``: passing them as ``rng=`` is a ``TypeError``.
    """

    def __init__(self, public_seed: bytes, label: str = "H") -> None:
        if not isinstance(public_seed, bytes) or len(public_seed) != 32:
            raise ParameterError("public_seed must be 32 bytes; secrets.token_bytes(32) makes one")
        self._key = derive(public_seed, label)
        self._i = 0
        self._block = b""

    def word(self) -> int:
        place = self._i % _BLOCK_WORDS
        if place == 0:
            self._block = _word_block(self._key, self._i // _BLOCK_WORDS)
        self._i += 1
        return int.from_bytes(self._block[8 * place :][:8], "little")
