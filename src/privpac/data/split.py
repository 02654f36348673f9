"""People dealt out into parts by a keyed hash of who they are, and by nothing else.

The part of a person is decided by the 64-bit BLAKE2b, with a secret or given key, of the canonical text of the id
(:mod:`privpac.data.ids`): the first part takes the hashes below its share of ``2**64``, the next those above, and so
on.  The hash never sees a record, so under add-remove a person's data lie in one part, and releases on different parts
cost the largest of their prices, not the sum.

The compression function is that of RFC 7693, here for whole columns of texts at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.arrays import Bytes, Words
from privpac.data.columns import buffers, text
from privpac.data.loops import jit
from privpac.errors import ParameterError
from privpac.exact import Rational, rational

Shares = Mapping[str, tuple[int, int]]
"""Name of a part -> first and last-but-one hash that fall into it."""

_IV = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    np.uint64,
)
_SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
)


def new_key() -> bytes:
    """A key that nobody knows."""
    return os.urandom(32)


def read_key(key: bytes | None) -> bytes:
    """The key of a split: fresh unless given."""
    if key is None:
        return new_key()
    if not isinstance(key, bytes) or not 16 <= len(key) <= 64:
        raise ParameterError("key must be 16 to 64 bytes; leave it out for a fresh one")
    return key


def private_ids(ids: str) -> bool:
    """Whether ids may change with the person: ``"private"`` (they may) or ``"public"`` (known to all, and fixed)."""
    if ids not in ("private", "public"):
        raise ParameterError(f"ids must be 'private' or 'public' (known to all, and fixed), got {ids!r}")
    return ids == "private"


def read_shares(shares: Mapping[str, Rational]) -> Shares:
    """Ranges of hashes, in the given order; shares that sum to less than 1 leave people out."""
    if not isinstance(shares, Mapping) or not shares:
        raise ParameterError("shares must name the parts: {'learn': '4/5', 'evaluate': '1/5'}")
    read = {str(name): rational(value, f"the share of {name!r}", above=0, maximum=1) for name, value in shares.items()}
    ends = [Fraction(0)]
    for value in read.values():
        ends.append(ends[-1] + value)
    if ends[-1] > 1:
        raise ParameterError(f"the shares sum to {ends[-1]}, more than all people")
    return {name: (int(a * 2**64), int(b * 2**64)) for name, (a, b) in zip(read, pairwise(ends))}


def members(words: Words, part: tuple[int, int]) -> NDArray[np.bool_]:
    """Who is in a part."""
    low, high = part
    inside: NDArray[np.bool_] = words >= np.uint64(min(low, 2**64 - 1))
    return inside if high > 2**64 - 1 else inside & (words < np.uint64(high))


def keyed_words(ids: pl.Series, key: bytes) -> Words:
    """The keyed 64-bit BLAKE2b of each id's canonical text."""
    ends, payload = buffers(text(ids))
    padded = np.zeros(128, np.uint8)
    padded[: len(key)] = np.frombuffer(key, np.uint8)
    return _hash(ends, payload, padded, len(key), _IV, _SIGMA)


def fresh_words(n: int) -> Words:
    """Words for people without ids: coins of their own, drawn once."""
    return np.frombuffer(os.urandom(8 * n), np.uint64) if n else np.empty(0, np.uint64)


@jit
def _mix(v: Any, a: int, b: int, c: int, d: int, first: Any, second: Any) -> None:
    """The function G: four words of the state, two of the message."""
    va, vb, vc, vd = v[a] + v[b] + first, v[b], v[c], v[d]
    vd ^= va
    vd = (vd >> np.uint64(32)) | (vd << np.uint64(32))
    vc += vd
    vb ^= vc
    vb = (vb >> np.uint64(24)) | (vb << np.uint64(40))
    va += vb + second
    vd ^= va
    vd = (vd >> np.uint64(16)) | (vd << np.uint64(48))
    vc += vd
    vb ^= vc
    vb = (vb >> np.uint64(63)) | (vb << np.uint64(1))
    v[a], v[b], v[c], v[d] = va, vb, vc, vd


@jit
def _compress(h: Any, block: Any, length: Any, last: bool, iv: Any, sigma: Any, m: Any, v: Any) -> None:
    for i in range(16):
        word = np.uint64(0)
        for j in range(8):
            word |= np.uint64(block[8 * i + j]) << np.uint64(8 * j)
        m[i] = word
    for i in range(8):
        v[i], v[i + 8] = h[i], iv[i]
    v[12] ^= np.uint64(length)
    if last:
        v[14] = ~v[14]
    for r in range(12):
        s = r % 10
        _mix(v, 0, 4, 8, 12, m[sigma[s, 0]], m[sigma[s, 1]])
        _mix(v, 1, 5, 9, 13, m[sigma[s, 2]], m[sigma[s, 3]])
        _mix(v, 2, 6, 10, 14, m[sigma[s, 4]], m[sigma[s, 5]])
        _mix(v, 3, 7, 11, 15, m[sigma[s, 6]], m[sigma[s, 7]])
        _mix(v, 0, 5, 10, 15, m[sigma[s, 8]], m[sigma[s, 9]])
        _mix(v, 1, 6, 11, 12, m[sigma[s, 10]], m[sigma[s, 11]])
        _mix(v, 2, 7, 8, 13, m[sigma[s, 12]], m[sigma[s, 13]])
        _mix(v, 3, 4, 9, 14, m[sigma[s, 14]], m[sigma[s, 15]])
    for i in range(8):
        h[i] ^= v[i] ^ v[i + 8]


@jit
def _hash(ends: Any, data: Bytes, key: Bytes, key_length: int, iv: Any, sigma: Any) -> Words:
    m, v, block = np.zeros(16, np.uint64), np.zeros(16, np.uint64), np.zeros(128, np.uint8)
    start, h = iv.copy(), iv.copy()
    # parameters: one leaf, the key's length, 8 bytes of digest
    start[0] ^= np.uint64(0x01010000 | (key_length << 8) | 8)
    keyed = start.copy()
    _compress(keyed, key, 128, False, iv, sigma, m, v)
    out = np.empty(ends.size - 1, np.uint64)
    for i in range(out.size):
        first, last = ends[i], ends[i + 1]
        size = last - first
        if size == 0:  # the key's block is the last one
            for j in range(8):
                h[j] = start[j]
            _compress(h, key, 128, True, iv, sigma, m, v)
        else:
            for j in range(8):
                h[j] = keyed[j]
            at = first
            while at < last:
                stop = min(at + 128, last)
                block[:] = 0
                for j in range(at, stop):
                    block[j - at] = data[j]
                _compress(h, block, 128 + stop - first, stop == last, iv, sigma, m, v)
                at = stop
        out[i] = h[0]
    return out
