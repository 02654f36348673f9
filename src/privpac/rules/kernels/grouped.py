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

from privpac.data.jit import jit
from privpac.data.threads import even, spread
from privpac.rules.kernels.cuts import sort_within_users
from privpac.rules.statistics import Statistic

__all__ = ["Groups", "Terms", "group", "shared", "tally", "terms"]

Ints = NDArray[np.int64]
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

    ``cap`` has one row for every voice.  The kernels write each user's least and most mistakes over the class into
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
def _compress(key: Any, tag: Any, offsets: Any, starts: Any, places: Any, weights: Any, ones: Any, hashes: Any) -> int:
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
    points: Any,
    tag: Any,
    offsets: Any,
    net: Any,
    seen: Any,
    lowest: Any,
    starts: Any,
    places: Any,
    weights: Any,
    ones: Any,
    hashes: Any,
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
def _merge(order: Any, hashes: Any, sizes: Any, starts: Any, places: Any, weights: Any, ones: Any, times: Any) -> None:
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


def group(points: NDArray[np.uint64], labels: NDArray[np.uint8], offsets: Ints, n_points: int = 1 << 63) -> Groups:
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
    return Groups(
        starts[kept],
        starts[kept + 1],
        places[:used],
        weights[:used],
        ones[kept],
        sizes[kept],
        times[kept],
    )


@jit
def tally(
    row: Any, least: Any, m: int, offset: int, cap: Any, levels: int, times: int, values: Any, scores: Any
) -> None:
    """Add ``times`` times one user's contribution to every rule, given the user's mistakes ``row``: one cap and one row
    of scores a voice.

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
    """The scores of ``size`` rules, one row a voice: ``work(first, last, scores)`` adds those of some distinct users,
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
