"""At most ``cap`` records per user, the same ones in every engine and for every row order.

``rule="first"`` keeps the first records in the given order.  ``rule="hash"`` keeps the ``cap`` records with the
smallest 64-bit words ``w`` below, so that the choice depends on what a user holds, not on how the rows are stored.
Both look at one user's own records only: whatever a statistic promises per user, it promises after truncation (R2 of
the per-user argument: a user contributes a function of its own records).

With ``mix`` the bijection of :mod:`privpac.data.group`, ``chain(s, a, b, ...)`` = ``mix(... mix(mix(s ^ a) ^ b) ...)``:

* ``key``: the first 8 bytes, little endian, of SHA-256 of ``b"privpac max_records 1" + salt``;
* ``id``: ``chain(0, words..., length)`` over the bytes of the id's text in words of 8 bytes, little endian, padded with
  zeros; the text of an integer is its decimal form, so integer and text columns agree;
* ``record``: ``chain(key, id, code of each bound feature in the order of their names..., label)``, 2 if there is no
  label;
* ``w``: ``chain(record, rank)``, rank 0, 1, ... among the user's records with this ``record``.

The salt is public, and the hash is no secret: it spreads, it does not hide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.data.columns import buffers, text
from privpac.data.group import Offsets, mix
from privpac.data.jit import jit
from privpac.data.schema import Bools, Bytes, Words

__all__ = ["hash_ids", "keep_first", "keep_hash"]


def hash_ids(ids: pl.Series) -> Words:
    """The 64-bit hash of each id's canonical text."""
    return _hash_texts(*buffers(text(ids)))


def keep_first(offsets: Offsets, cap: int) -> Bools:
    """Mask of each user's first ``cap`` records."""
    return _first(offsets, cap)


def keep_hash(offsets: Offsets, cap: int, ids: Words, columns: Iterable[NDArray[Any]], salt: bytes) -> Bools:
    """Mask of each user's ``cap`` records of smallest word."""
    digest = hashlib.sha256(b"privpac max_records 1" + salt).digest()
    words = _start(offsets, ids, np.uint64(int.from_bytes(digest[:8], "little")))
    for column in columns:
        _absorb(words, column)
    return _smallest(offsets, words, cap)


@jit
def _hash_texts(ends: NDArray[np.int64], data: Bytes) -> Words:
    out = np.empty(ends.size - 1, np.uint64)
    for i in range(out.size):
        first, last = ends[i], ends[i + 1]
        state, word, filled = np.uint64(0), np.uint64(0), np.uint64(0)
        for j in range(first, last):
            word |= np.uint64(data[j]) << filled
            filled += np.uint64(8)
            if filled == np.uint64(64):
                state = mix(state ^ word)
                word, filled = np.uint64(0), np.uint64(0)
        if filled > np.uint64(0):
            state = mix(state ^ word)
        out[i] = mix(state ^ np.uint64(last - first))
    return out


@jit
def _start(offsets: Offsets, ids: Words, key: np.uint64) -> Words:
    words = np.empty(offsets[-1], np.uint64)
    for user in range(offsets.size - 1):
        state = mix(key ^ ids[user])
        for i in range(offsets[user], offsets[user + 1]):
            words[i] = state
    return words


@jit
def _absorb(words: Words, column: NDArray[Any]) -> None:
    for i in range(words.size):
        words[i] = mix(words[i] ^ np.uint64(column[i]))


@jit
def _first(offsets: Offsets, cap: int) -> Bools:
    keep = np.zeros(offsets[-1], np.bool_)
    for user in range(offsets.size - 1):
        for i in range(offsets[user], min(offsets[user] + cap, offsets[user + 1])):
            keep[i] = True
    return keep


@jit
def _ranked(words: Words, size: int, rank: int) -> Any:
    """The word of a rank (0 for the smallest) among the first ``size``, which change places on the way: quickselect.

    Words are keyed hashes, so that the one in the middle is as good a pivot as a drawn one.
    """
    low, high = 0, size - 1
    while low < high:
        pivot, i, j = words[(low + high) // 2], low, high
        while i <= j:
            while words[i] < pivot:
                i += 1
            while words[j] > pivot:
                j -= 1
            if i <= j:
                words[i], words[j] = words[j], words[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return words[rank]


@jit
def _smallest(offsets: Offsets, words: Words, cap: int) -> Bools:
    keep = np.ones(words.size, np.bool_)
    largest = 0
    for user in range(offsets.size - 1):
        largest = max(largest, int(offsets[user + 1] - offsets[user]))
    if largest <= cap:
        return keep
    slots = 16
    while slots < 2 * largest:
        slots *= 2
    seen, times, room = np.empty(slots, np.uint64), np.zeros(slots, np.uint32), np.empty(largest, np.uint64)
    for user in range(offsets.size - 1):
        first, last = offsets[user], offsets[user + 1]
        if last - first <= cap:
            continue
        slots = 16
        while slots < 2 * (last - first):
            slots *= 2
        times[:slots] = 0
        mask, one = np.uint64(slots - 1), np.uint64(1)
        for i in range(first, last):
            word = words[i]
            slot = word & mask
            while times[slot] != 0 and seen[slot] != word:
                slot = (slot + one) & mask
            seen[slot] = word
            words[i] = mix(word ^ np.uint64(times[slot]))  # times so far: the rank among equal records
            times[slot] += np.uint32(1)
        for i in range(first, last):
            room[i - first] = words[i]
        limit = _ranked(room, last - first, cap - 1)
        below = 0
        for i in range(first, last):
            below += int(words[i] < limit)
        ties = cap - below
        for i in range(first, last):
            if words[i] == limit and ties > 0:
                ties -= 1
            else:
                keep[i] = words[i] < limit
    return keep
