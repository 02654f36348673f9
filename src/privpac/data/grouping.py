"""Rows of one user next to each other, in near-linear time.

The result is CSR: user ``g`` owns rows ``order[offsets[g]:offsets[g+1]]``, in their given order.  Which users there
are, and their order, is a function of the ids in the rows only:

* sorted ids: nothing moves;
* integers in a range whose counts fit the cache, if the table has a quarter as many rows: one counting sort, users
  ascending;
* other integers: one stable pass that parts the rows by the top bits of a mixed key, so that each part fits the cache,
  then a small open-addressing table per part;
* text: the same on a 64-bit hash of the text, then *every* row is compared with its neighbour, so that two ids with one
  hash are never merged (they are told apart by an exact dictionary instead); users by first row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.arrays import Array, Bools, Bytes, Words
from privpac.data.columns import buffers, numbers, text
from privpac.data.loops import jit

Offsets = NDArray[np.int64]
Rows = NDArray[np.uint32]

_BLOCK = 4096
_COUNTED = 1 << 21
"""Keys that are counted: 8 MiB of counts."""
_RANKED = 1 << 22


class Grouping(NamedTuple):
    """CSR offsets and the row order, ``None`` if rows stay where they are."""

    offsets: Offsets
    order: Rows | None

    @property
    def firsts(self) -> Array:
        """The first row of each user."""
        return self.offsets[:-1] if self.order is None else self.order[self.offsets[:-1]]


def group(ids: pl.Series) -> Grouping:
    """Group rows by id; no id is missing."""
    if ids.dtype == pl.String:
        return _group_text(ids)
    return _group_integers(numbers(ids))


def _group_integers(keys: Array) -> Grouping:
    if not len(keys):
        return Grouping(np.zeros(1, np.int64), None)
    least, most, ascending = _survey(keys)
    if ascending:
        return Grouping(_runs(keys), None)
    span = int(most) - int(least) + 1
    if span <= max(min(4 * len(keys), _COUNTED), 1 << 16):
        return Grouping(*_counting(keys.view(np.uint64), np.uint64(int(least) % (1 << 64)), span))
    return Grouping(*_hashed(keys.view(np.uint64), _part_bits(len(keys))))


def _group_text(ids: pl.Series) -> Grouping:
    if not len(ids):
        return Grouping(np.zeros(1, np.int64), None)
    offsets, order = _hashed(_text_keys(ids), _part_bits(len(ids)))
    together = ids.gather(order)
    changes = (together.slice(1) != together.slice(0, len(ids) - 1)).to_numpy()
    if int(changes.sum()) != len(offsets) - 2 or not changes[offsets[1:-1] - 1].all():
        exact = ids.rank("dense").to_numpy().astype(np.uint64)
        return Grouping(*_by_first_row(*_hashed(exact, _part_bits(len(ids)))))
    return Grouping(*_by_first_row(offsets, order))


def dictionary(texts: pl.Series) -> tuple[NDArray[np.int64], pl.Series]:
    """The distinct texts in the order of their first rows, and the place of each row's among them; -1 where it is
    missing."""
    rows = texts.is_not_null().to_numpy().nonzero()[0] if texts.null_count() else None
    present = texts if rows is None else texts.gather(rows)
    found = _group_text(present)
    place = np.empty(len(present), np.int64)
    if found.order is not None:
        _number(found.offsets, found.order, place)
    out = place
    if rows is not None:
        out = np.full(len(texts), -1, np.int64)
        out[rows] = place
    return out, present.gather(found.firsts).alias("")


def ranked(codes: Array) -> tuple[Array, NDArray[np.int64]]:
    """The distinct codes (integers from 0 on) in order, and the rank of every one among them: ``np.unique``, without
    its sort where codes are small."""
    top = int(codes.max(initial=0)) + 1
    if top > min(4 * len(codes), _RANKED):
        distinct, places = np.unique(codes, return_inverse=True)
        return distinct, places.reshape(-1).astype(np.int64, copy=False)
    at, rank = codes.view(np.int64), np.zeros(top, np.int64)
    rank[at] = 1
    found = np.flatnonzero(rank)
    rank[found] = np.arange(len(found))
    return found.astype(codes.dtype), rank[at]


def _text_keys(ids: pl.Series) -> Words:
    return ids.hash(0).to_numpy()


def item_offsets(records: int) -> Offsets:
    """Every record its own user."""
    return np.arange(records + 1, dtype=np.int64)


def _part_bits(rows: int) -> int:
    """About 2**15 rows to a part, whose table then fits the cache; more parts would not fit the page table's."""
    return min(10, max(0, rows.bit_length() - 15))


# Loops


@jit
def mix(word: np.uint64) -> np.uint64:
    """A bijection of 64-bit words that spreads every bit (the finaliser of splitmix64)."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@jit
def ascends(keys: Array) -> bool:
    """Whether no key is below the one before; block by block, because a loop that may stop anywhere looks at one key at
    a time."""
    for first in range(1, keys.size, _BLOCK):
        last, below = min(first + _BLOCK, keys.size), False
        block, before = keys[first:last], keys[first - 1 : last - 1]
        for i in range(block.size):
            below |= block[i] < before[i]
        if below:
            return False
    return True


@jit
def _survey(keys: Array) -> tuple[Any, Any, bool]:
    if ascends(keys):
        return keys[0], keys[keys.size - 1], True
    least, most = keys[0], keys[0]
    for i in range(keys.size):
        least, most = min(least, keys[i]), max(most, keys[i])
    return least, most, False


@jit
def _runs(keys: Array) -> Offsets:
    users = 1
    for i in range(1, keys.size):
        users += int(keys[i] != keys[i - 1])
    offsets = np.empty(users + 1, np.int64)
    offsets[0], user = 0, 0
    for i in range(1, keys.size):
        if keys[i] != keys[i - 1]:
            user += 1
            offsets[user] = i
    offsets[users] = keys.size
    return offsets


@jit
def _counting(keys: Words, least: np.uint64, span: int) -> tuple[Offsets, Rows]:
    ends = np.zeros(span + 1, np.uint32)
    for i in range(keys.size):
        ends[np.int64(keys[i] - least) + 1] += np.uint32(1)
    users = 0
    for j in range(span):
        users += int(ends[j + 1] > 0)
        ends[j + 1] += ends[j]
    order = np.empty(keys.size, np.uint32)
    for i in range(keys.size):
        bucket = np.int64(keys[i] - least)
        order[ends[bucket]] = i
        ends[bucket] += np.uint32(1)
    offsets = np.zeros(users + 1, np.int64)
    user = 0
    for j in range(span):  # ends[j] is now the end of bucket j
        if ends[j] != offsets[user]:
            user += 1
            offsets[user] = ends[j]
    return offsets, order


@jit
def _hashed(keys: Words, bits: int) -> tuple[Offsets, Rows]:
    rows, parts = keys.size, 1 << bits
    # Two shifts, because a shift by 64 is undefined.
    shift, one = np.uint64(63 - bits), np.uint64(1)
    starts = np.zeros(parts + 1, np.int64)
    for i in range(rows):
        starts[np.int64((mix(keys[i]) >> shift) >> one) + 1] += 1
    largest = 0
    for p in range(parts):
        largest = max(largest, int(starts[p + 1]))
        starts[p + 1] += starts[p]
    heads = starts[:-1].copy()
    part_keys, part_rows = np.empty(rows, np.uint64), np.empty(rows, np.uint32)
    for i in range(rows):
        part = np.int64((mix(keys[i]) >> shift) >> one)
        part_keys[heads[part]] = keys[i]
        part_rows[heads[part]] = i
        heads[part] += 1
    slots = 16
    while slots < 2 * largest:
        slots *= 2
    table, member = np.zeros(slots, np.uint32), np.empty(largest, np.uint32)
    known, count = np.empty(largest, np.uint64), np.empty(largest + 1, np.int64)
    offsets, users = np.empty(rows + 1, np.int64), 0
    order = np.empty(rows, np.uint32)
    offsets[0] = 0
    for p in range(parts):
        first, last = starts[p], starts[p + 1]
        slots, found = 16, 0
        while slots < 2 * (last - first):
            slots *= 2
        table[:slots] = 0
        mask = np.uint64(slots - 1)
        for i in range(first, last):
            key = part_keys[i]
            slot = mix(key) & mask
            while table[slot] != 0 and known[table[slot] - 1] != key:
                slot = (slot + one) & mask
            if table[slot] == 0:
                known[found], count[found] = key, 0
                found += 1
                table[slot] = found
            member[i - first] = table[slot] - 1
            count[table[slot] - 1] += 1
        position = first
        for g in range(found):
            size = count[g]
            count[g] = position
            position += size
            users += 1
            offsets[users] = position
        for i in range(first, last):
            g = member[i - first]
            order[count[g]] = part_rows[i]
            count[g] += 1
    return offsets[: users + 1].copy(), order


@jit
def _by_first_row(offsets: Offsets, order: Rows) -> tuple[Offsets, Rows]:
    owner = np.zeros(order.size, np.uint32)
    for g in range(offsets.size - 1):
        owner[order[offsets[g]]] = g + 1
    new_offsets, new_order = np.empty_like(offsets), np.empty_like(order)
    new_offsets[0], users = 0, 0
    for i in range(owner.size):
        if owner[i]:
            first, last = offsets[owner[i] - 1], offsets[owner[i]]
            start = new_offsets[users]
            for j in range(first, last):
                new_order[start + j - first] = order[j]
            users += 1
            new_offsets[users] = start + last - first
    return new_offsets, new_order


@jit
def _number(offsets: Offsets, order: Rows, out: NDArray[np.int64]) -> None:
    """Each row's group."""
    for g in range(offsets.size - 1):
        for i in range(offsets[g], offsets[g + 1]):
            out[order[i]] = g


@jit
def take(values: Array, order: Array) -> Array:
    """``values[order]`` without widening the index."""
    out = np.empty(order.size, values.dtype)
    for i in range(order.size):
        out[i] = values[order[i]]
    return out


@jit
def compress(offsets: Offsets, keep: Bools) -> Offsets:
    """Offsets after dropping records; users stay."""
    out = np.zeros_like(offsets)
    for user in range(offsets.size - 1):
        kept = 0
        for i in range(offsets[user], offsets[user + 1]):
            kept += int(keep[i])
        out[user + 1] = out[user] + kept
    return out


# At most ``cap`` records per user, the same ones in every engine and for every row order.
#
# ``rule="first"`` keeps the first records in the given order.  ``rule="hash"`` keeps the ``cap`` records with the
# smallest 64-bit words ``w`` below, so that the choice depends on what a user holds, not on how the rows are stored.
# Both look at one user's own records only: whatever a statistic promises per user, it promises after truncation (R2 of
# the per-user argument: a user contributes a function of its own records).
#
# With ``mix`` the bijection of :mod:`privpac.data.grouping`, ``chain(s, a, b, ...)`` = ``mix(... mix(mix(s ^ a) ^ b)
# ...)``:
#
# * ``key``: the first 8 bytes, little endian, of SHA-256 of ``b"privpac max_records 1" + salt``;
# * ``id``: ``chain(0, words..., length)`` over the bytes of the id's text in words of 8 bytes, little endian, padded
#   with
#   zeros; the text of an integer is its decimal form, so integer and text columns agree;
# * ``record``: ``chain(key, id, code of each bound feature in the order of their names..., label)``, 2 if there is no
#   label;
# * ``w``: ``chain(record, rank)``, rank 0, 1, ... among the user's records with this ``record``.
#
# The salt is public, and the hash is no secret: it spreads, it does not hide.


def hash_ids(ids: pl.Series) -> Words:
    """The 64-bit hash of each id's canonical text."""
    return _hash_texts(*buffers(text(ids)))


def keep_first(offsets: Offsets, cap: int) -> Bools:
    """Mask of each user's first ``cap`` records."""
    return _first(offsets, cap)


def keep_hash(offsets: Offsets, cap: int, ids: Words, columns: Iterable[Array], salt: bytes) -> Bools:
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
def _absorb(words: Words, column: Array) -> None:
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
