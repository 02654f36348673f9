"""``((a x + b) mod P) mod B`` for whole columns, exact for 64-bit codes and primes up to ``2**127 - 1``.

``x`` is the code plus 1.  Any prime below ``2**31`` is done in one word; the Mersenne primes ``2**61 - 1``, ``2**89 -
1`` and ``2**127 - 1`` in limbs of 32 bits, where reducing means adding the high part to the low part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.data.jit import jit
from privpac.errors import ParameterError
from privpac.guarantee import positive_int

__all__ = ["MERSENNE", "bucket_of", "check_hash", "prime_for"]

MERSENNE = {(1 << p) - 1: p for p in (61, 89, 127)}
_LIMB = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def prime_for(size: int) -> int:
    """The least of the three Mersenne primes that exceeds the number of values."""
    return next(prime for prime in MERSENNE if prime >= size + 1)


def check_hash(a: int, b: int, prime: int, buckets: int, size: int) -> None:
    """A hash function of the family for a domain of ``size`` values."""
    if prime not in MERSENNE and not (positive_int(prime, "prime", minimum=2) < 1 << 31 and _is_prime(prime)):
        raise ParameterError("prime must be a prime below 2**31, or 2**61 - 1, 2**89 - 1 or 2**127 - 1")
    if prime < size + 1:
        raise ParameterError(f"prime must exceed the {size} values of the domain, got {prime}")
    positive_int(a, "a", maximum=prime - 1)
    positive_int(b, "b", minimum=0, maximum=prime - 1)
    positive_int(buckets, "buckets", maximum=(1 << 31) - 1)


def _is_prime(n: int) -> bool:
    return all(n % d for d in range(2, int(n**0.5) + 1))


@jit
def _small(codes: Any, a: Any, b: Any, prime: Any, buckets: Any, out: Any) -> None:
    for i in range(len(codes)):
        x = (codes[i] % prime + np.uint64(1)) % prime
        out[i] = ((a * x + b) % prime) % buckets


@jit
def _large(codes: Any, a: Any, b: Any, exponent: int, buckets: Any, out: Any) -> None:
    word, bit = exponent // 32, np.uint64(exponent % 32)
    low_mask = (np.uint64(1) << bit) - np.uint64(1)
    acc, high = np.zeros(9, np.uint64), np.zeros(9, np.uint64)
    x = np.zeros(3, np.uint64)
    for i in range(len(codes)):
        # x = code + 1 may need 65 bits.
        x[0] = (codes[i] & _LIMB) + np.uint64(1)
        x[1] = (codes[i] >> _HALF) + (x[0] >> _HALF)
        x[2] = x[1] >> _HALF
        x[0] &= _LIMB
        x[1] &= _LIMB
        acc[:] = 0
        for s in range(4):
            acc[s] += b[s]
            for t in range(3):
                product = a[s] * x[t]
                acc[s + t] += product & _LIMB
                acc[s + t + 1] += product >> _HALF
        _carry(acc)
        while True:
            # value = low + 2**p * high, and 2**p = 1 modulo the prime.
            more = False
            for s in range(9):
                high[s] = 0
                if s + word < 9:
                    high[s] = acc[s + word] >> bit
                    if s + word + 1 < 9:
                        high[s] |= (acc[s + word + 1] << (_HALF - bit)) & _LIMB
                more = more or high[s] != 0
            if not more:
                break
            acc[word] &= low_mask
            for s in range(word + 1, 9):
                acc[s] = 0
            for s in range(9):
                acc[s] += high[s]
            _carry(acc)
        full = acc[word] == low_mask
        for s in range(word):
            full = full and acc[s] == _LIMB
        rest = np.uint64(0)
        if not full:
            for s in range(word, -1, -1):
                rest = ((rest << _HALF) | acc[s]) % buckets
        out[i] = rest


@jit
def _carry(acc: Any) -> None:
    for s in range(8):
        acc[s + 1] += acc[s] >> _HALF
        acc[s] &= _LIMB


def _limbs(value: int) -> NDArray[np.uint64]:
    return np.array([(value >> (32 * s)) & 0xFFFFFFFF for s in range(4)], dtype=np.uint64)


def bucket_of(codes: NDArray[np.uint64], a: int, b: int, prime: int, buckets: int) -> NDArray[np.int64]:
    """The bucket of every code.

    >>> bucket_of(np.array([0, 4], dtype=np.uint64), 3, 3, 11, 3).tolist()
    [0, 1]
    """
    out = np.empty(len(codes), dtype=np.int64)
    values = np.ascontiguousarray(codes, dtype=np.uint64)
    if prime in MERSENNE:
        _large(values, _limbs(a), _limbs(b), MERSENNE[prime], np.uint64(buckets), out)
    else:
        _small(values, np.uint64(a), np.uint64(b), np.uint64(prime), np.uint64(buckets), out)
    return out
