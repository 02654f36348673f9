"""Users as short lists of (point, weight), equal users once.

A rule that says 1 on a set of points makes, on a user's records,

    mistakes = ones + sum over points in the set of (zeros at the point - ones at the point),

so all that matters of a user is ``ones`` (records with label 1), the number of records and the signed count of every
distinct point.  Users who agree in all of these contribute the same to every rule: they are kept once, with a
multiplicity.  On item-level data this leaves at most two users per point.  Merging compares the lists themselves; the
hash only brings candidates together, so the result is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpac.arrays import Array, Ints
from privpac.data.loops import even, jit, spread
from privpac.rules.kernels import Bundle
from privpac.rules.kernels.cuts import sort_within_users
from privpac.rules.profile import Statistic

_FEW_POINTS, _SIZES = 1 << 12, (1 << 16) - 1
_BRUIJN = 0x03F79D71B4CB0A89
_LOWEST = np.argsort((np.uint64(_BRUIJN) << np.arange(64, dtype=np.uint64)) >> np.uint64(58))
"""Where a word has its only bit, by the leading six bits of its product with ``_BRUIJN``, which are 0..63 in some
order."""


class Groups(NamedTuple):
    """Distinct users with records: user ``i`` holds ``places[starts[i]:ends[i]]`` with their ``weights``."""

    starts: Ints
    ends: Ints
    places: Ints
    weights: NDArray[np.int32]
    ones: Ints
    sizes: Ints
    times: Ints


class Terms(NamedTuple):
    """What turns mistakes into contributions, one entry per distinct user (see the formula of ``statistics``).

    ``cap`` has one row for every score.  The kernels write each user's least and most mistakes over the class into
    ``own``.
    """

    offset: Ints
    cap: Ints
    levels: int
    uses_minimum: bool
    own: Ints


def terms(groups: Groups, statistic: Statistic) -> Terms:
    """The statistic's public functions of the number of records, read off for every distinct user."""
    offset, cap = statistic.shape(groups.sizes)
    return Terms(
        offset, cap, statistic.bound, statistic.uses_minimum, np.stack([groups.sizes, np.zeros_like(groups.sizes)])
    )


@jit
def _mixed(mix: Any, place: Any, weight: Any) -> Any:
    """A hash that has met one more entry."""
    mix = (mix ^ place) * np.uint64(0x9E3779B97F4A7C15)
    return ((mix >> np.uint64(29)) ^ mix ^ np.uint64(weight)) * np.uint64(0xBF58476D1CE4E5B9)


@jit
def _compress(
    key: Array, tag: Array, offsets: Array, starts: Array, places: Array, weights: Array, ones: Array, hashes: Array
) -> int:
    """Signed counts of each user's distinct points, points of weight 0 left out; returns the entries used."""
    used = 0
    for u in range(len(offsets) - 1):
        starts[u] = used
        mix = np.uint64(offsets[u + 1] - offsets[u])
        positive = 0
        i = offsets[u]
        while i < offsets[u + 1]:
            place, weight = key[i], 0
            while i < offsets[u + 1] and key[i] == place:
                weight += 1 - 2 * tag[i]
                positive += tag[i]
                i += 1
            if weight != 0:
                places[used], weights[used] = np.int64(place), weight
                mix = _mixed(mix, place, weight)
                used += 1
        ones[u] = positive
        hashes[u] = mix ^ np.uint64(positive)
    starts[len(offsets) - 1] = used
    return used


@jit
def _collect(
    points: Array,
    tag: Array,
    offsets: Array,
    net: Array,
    seen: Array,
    lowest: Array,
    starts: Array,
    places: Array,
    weights: Array,
    ones: Array,
    hashes: Array,
) -> int:
    """The same of few points without a sort: ``net`` counts, a bit of ``seen`` for every point that occurs brings them
    back in order (``lowest``: see ``_LOWEST``)."""
    used = 0
    for u in range(len(offsets) - 1):
        starts[u] = used
        mix = np.uint64(offsets[u + 1] - offsets[u])
        positive = 0
        for i in range(offsets[u], offsets[u + 1]):
            net[points[i]] += 1 - 2 * np.int32(tag[i])
            positive += tag[i]
            seen[points[i] >> np.uint64(6)] |= np.uint64(1) << (points[i] & np.uint64(63))
        for w in range(len(seen)):
            bits, seen[w] = seen[w], 0
            while bits != 0:
                bit = bits & (~bits + np.uint64(1))
                bits ^= bit
                place = 64 * w + lowest[np.int64((bit * np.uint64(_BRUIJN)) >> np.uint64(58))]
                weight, net[place] = net[place], 0
                if weight != 0:
                    places[used], weights[used] = place, weight
                    mix = _mixed(mix, np.uint64(place), weight)
                    used += 1
        ones[u] = positive
        hashes[u] = mix ^ np.uint64(positive)
    starts[len(offsets) - 1] = used
    return used


@jit
def _merge(
    order: Array, hashes: Array, sizes: Array, starts: Array, places: Array, weights: Array, ones: Array, times: Array
) -> None:
    """Walk the users by hash; a user equal to the last one kept is counted there, in ``times``."""
    v = -1
    for i in range(len(order)):
        u = order[i]
        if sizes[u] == 0:
            continue
        same = v >= 0 and hashes[u] == hashes[v]
        if same:  # the rest lies anywhere in memory: only where it must be looked at
            length = starts[u + 1] - starts[u]
            same = sizes[u] == sizes[v] and ones[u] == ones[v] and length == starts[v + 1] - starts[v]
            for k in range(length):
                if not same:
                    break
                a, b = starts[u] + k, starts[v] + k
                same = places[a] == places[b] and weights[a] == weights[b]
        if not same:
            v = u
        times[v] += 1


def group_equal_users(
    points: NDArray[np.uint64], labels: NDArray[np.uint8], offsets: Ints, n_points: int = 1 << 63
) -> Groups:
    """Distinct users in order of size, from the index of every record's point (below ``n_points``); users without
    records are left out."""
    n_users = len(offsets) - 1
    starts, ones = np.empty(n_users + 1, np.int64), np.empty(n_users, np.int64)
    places, weights = np.empty(len(points), np.int64), np.empty(len(points), np.int32)
    hashes = np.empty(n_users, np.uint64)
    if n_points <= _FEW_POINTS:
        net, seen = np.zeros(n_points, np.int32), np.zeros(n_points // 64 + 1, np.uint64)
        used = _collect(points, labels, offsets, net, seen, _LOWEST, starts, places, weights, ones, hashes)
    else:
        key, tag = sort_within_users(points, labels, offsets)
        used = _compress(key, tag, offsets, starts, places, weights, ones, hashes)
    sizes, times = np.diff(offsets), np.zeros(n_users, np.int64)
    _merge(np.argsort(hashes), hashes, sizes, starts, places, weights, ones, times)
    kept = np.flatnonzero(times)
    # By size, for what a kernel knows of a size serves many; users of one size as they lie in memory.
    kept = kept[np.argsort(np.minimum(sizes[kept], _SIZES).astype(np.uint16), kind="stable")]
    return Groups(starts[kept], starts[kept + 1], places[:used], weights[:used], ones[kept], sizes[kept], times[kept])


@jit
def add_contributions(
    row: Array, least: Any, m: int, offset: int, cap: Array, levels: int, times: int, values: Array, scores: Array
) -> None:
    """Add ``times`` times one user's contribution to every rule, given the user's mistakes ``row``: one cap and one row
    of scores a score.

    The contribution lies in 0..levels: this bound is the sensitivity.  It is tabulated over 0..m, so that the loop over
    rules only looks it up.
    """
    for v in range(len(cap)):
        for e in range(m + 1):
            excess = min(max(e - least - offset, 0), cap[v])
            values[e] = times * (levels if excess == cap[v] else levels * excess // cap[v])
        line = scores[v]
        for h in range(len(row)):
            line[h] += values[row[h]]


def shared(groups: Groups, term: Terms, size: int, work: Callable[[int, int, Ints], None]) -> Ints:
    """The scores of ``size`` rules, one row a score: ``work(first, last, scores)`` adds those of some distinct users,
    in all threads.

    Every thread has scores of its own, so threads are few where classes are large.
    """
    n = len(groups.sizes)
    least = max((1 << 20) // size, -(-n * size >> 27))

    def part(first: int, last: int) -> Ints:
        scores = np.zeros((len(term.cap), size), dtype=np.int64)
        work(first, last, scores)
        return scores

    first, *more = spread(part, even(n, least))
    for scores in more:
        first += scores
    return first


# Users of at most 255 records: a rule's mistakes are a byte, and 16 or 32 rules are charged at once.
#
# Mistakes lie in 0..255, so that sums and differences of bytes, which are exact up to multiples of 256, are exact.
# With ``v = min(max(e - b - offset, 0), cap)``, a byte, a user adds ``floor(levels * v / cap)`` to a rule.  No
# division and no table is needed for that:
#
# * where ``cap`` divides ``levels`` it is ``levels / cap`` times ``v``: the ``v`` of many users are added up, in bytes,
#   and multiplied once (``settle``);
# * elsewhere, with ``levels = p * cap + rest`` and ``factor = ceil(2**16 * rest / cap)``, it is
#
#       p * v + ((v * factor) >> 16).
#
#   Proof.  ``factor * cap = 2**16 * rest + d`` with ``0 <= d < cap``, so ``v * factor / 2**16`` exceeds ``v * rest /
#   cap`` by ``v * d / (cap * 2**16)``, which is less than ``1 / cap`` since ``v * d <= 255 * 254 < 2**16``: no integer
#   lies between the two, for ``v * rest / cap`` has the denominator ``cap``.  As ``rest <= cap - 1`` and ``cap <=
#   255``, ``factor <= 2**16 - 2**16 / 255 + 1``, which fits 16 bits.
#
# Sums of bytes and of 16 bits are *held* until one more user might overflow them, or charges otherwise.  Whatever fits
# neither (large multiplicities, ``levels`` or caps) is tallied by a table.


MOST_RECORDS = 255
_MOST_CAP, _MOST_BYTE, _MOST_PAIR = 255, 255, 65535
_FEW = 32  # of a larger cap, so few users fit a byte that 16 bits are faster


@jit
def extremes(row: Array) -> Any:
    """The least and the most mistakes."""
    least, most = row[0], row[0]
    for h in range(len(row)):
        least, most = min(least, row[h]), max(most, row[h])
    return np.int64(least), np.int64(most)


@jit
def scaled(levels: int, cap: int) -> Any:
    """``p`` and ``factor`` of the formula above, for ``cap`` and ``levels`` that fit it."""
    rest = levels % cap
    return levels // cap, (rest * 65536 + cap - 1) // cap


@jit
def holds(n_scores: int, size: int) -> Any:
    """Room for sums not yet settled: bytes, 16 bits, and for each of the two by score what they are worth and the
    most that a rule may have in them."""
    return (
        np.zeros((n_scores, size), np.uint8),
        np.zeros((n_scores, size), np.uint16),
        np.zeros((n_scores, 4), np.int64),
    )


@jit
def _settle(sums: Array, unit: int, line: Array) -> None:
    for h in range(len(line)):
        line[h] += unit * np.int64(sums[h])
        sums[h] = 0


@jit
def settle(held: Bundle, scores: Array) -> None:
    """Add what is held to the scores."""
    few, many, state = held
    for v in range(len(scores)):
        if state[v, 1]:
            _settle(few[v], state[v, 0], scores[v])
        if state[v, 3]:
            _settle(many[v], state[v, 2], scores[v])
        state[v, 1], state[v, 3] = 0, 0


@jit
def _add_bytes(row: Array, base: Any, free: Any, cap: Any, sums: Array) -> None:
    for h in range(len(row)):
        above = np.uint8(row[h] - base)
        sums[h] += min(np.uint8(max(above, free) - free), cap)


@jit
def _add_pairs(row: Array, base: Any, free: Any, cap: Any, p: Any, factor: Any, times: Any, sums: Array) -> None:
    for h in range(len(row)):
        above = np.uint8(row[h] - base)
        v = min(np.uint8(max(above, free) - free), cap)
        sums[h] += np.uint16(times * np.uint16(np.uint16(p * v) + np.uint16((np.uint16(v) * factor) >> 16)))


@jit
def charge(
    row: Array,
    least: Any,
    m: int,
    offset: int,
    cap: Array,
    levels: int,
    times: int,
    elsewhere: Array,
    values: Array,
    held: Bundle,
    scores: Array,
) -> None:
    """Add ``times`` times one user's contribution to every rule, as ``add_contributions`` does, to what is held or to
    the scores; scores with a number ``elsewhere`` are left out.  ``values`` has room for 256."""
    few, many, state = held
    free = np.uint8(min(offset, MOST_RECORDS))  # as good as any larger one
    for v in range(len(cap)):
        c = cap[v]
        if elsewhere[v]:
            continue
        # What the sums are worth, and the most that this user adds to one of them.
        whole = levels % c == 0
        unit = levels // c if whole else 1
        most = c if whole else levels
        if c > _MOST_CAP or times * most > _MOST_PAIR:
            add_contributions(row, least, m, offset, cap[v : v + 1], levels, times, values, scores[v : v + 1])
        elif whole and times == 1 and c <= _FEW:
            if state[v, 0] != unit or state[v, 1] + c > _MOST_BYTE:
                _settle(few[v], state[v, 0], scores[v])
                state[v, 0], state[v, 1] = unit, 0
            state[v, 1] += c
            _add_bytes(row, np.uint8(least), free, np.uint8(c), few[v])
        else:
            if state[v, 2] != unit or state[v, 3] + times * most > _MOST_PAIR:
                _settle(many[v], state[v, 2], scores[v])
                state[v, 2], state[v, 3] = unit, 0
            state[v, 3] += times * most
            p, factor = (1, 0) if whole else scaled(levels, c)
            _add_pairs(
                row, np.uint8(least), free, np.uint8(c), np.uint16(p), np.uint16(factor), np.uint16(times), many[v]
            )
