"""Kernels for rules on a line: a cut on one column.

With a user's records sorted by code, the mistakes of "1 iff code >= u" are a step function of the cut ``u``: all records
with label 0 are wrong at ``u = 0``, and passing a record's code adds 1 for label 1 and takes 1 away for label 0.  The
opposite direction makes ``m - mistakes``.  One pass finds the user's own minimum, a second one writes an event wherever
the user's contribution changes: O(m) per user after the sort, on any domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.events import ROOM, sort_span, sum_events
from privpac.concepts.profile import Step, step_of
from privpac.concepts.spread import spread, user_spans
from privpac.data.jit import jit

__all__ = ["change_type", "contribution", "line_minimum", "line_steps", "sort_within_users"]

Codes = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


@jit
def contribution(mistakes: int, minimum: int, offset: int, cap: int, levels: int) -> int:
    """One user's contribution to one rule."""
    # The value lies in 0..levels: this bound is the sensitivity.
    excess = mistakes - minimum - offset
    if excess <= 0:
        return 0
    if excess >= cap:
        return levels
    return levels * excess // cap


def change_type(levels: int) -> type[np.int32] | type[np.int64]:
    """A type that holds every difference of two contributions."""
    return np.int32 if levels < 1 << 31 else np.int64


# Sorting


@jit
def _sort_users(key: Any, tag: Any, offsets: Any, first: int, last: int, key_room: Any, tag_room: Any, stack: Any) -> None:
    for u in range(first, last):
        sort_span(key, tag, offsets[u], offsets[u + 1], key_room, tag_room, stack)


def sort_within_users(codes: Codes, labels: Bytes, offsets: Ints) -> tuple[Codes, Bytes]:
    """Copies of a column and the labels, each user's records in increasing order of code."""
    key, tag = codes.copy(), labels.copy()

    def sort(first: int, last: int) -> None:
        longest = int(np.diff(offsets[first : last + 1]).max())
        rooms = np.empty(longest, dtype=np.uint64), np.empty(longest, dtype=np.uint8)
        _sort_users(key, tag, offsets, first, last, *rooms, np.empty(ROOM, dtype=np.int64))

    spread(sort, user_spans(offsets))
    return key, tag


# The user's own best cut


@jit
def _minimum(key: Any, tag: Any, offsets: Any, first: int, last: int, above: bool, below: bool, minimum: Any) -> None:
    for u in range(first, last):
        a, b = offsets[u], offsets[u + 1]
        if a == b:
            continue
        mistakes = 0
        for i in range(a, b):
            mistakes += 1 - tag[i]
        least, most = mistakes, mistakes
        for i in range(a, b):
            mistakes += 2 * tag[i] - 1
            if i + 1 == b or key[i + 1] != key[i]:
                least = min(least, mistakes)
                most = max(most, mistakes)
        if above:
            minimum[u] = min(minimum[u], least)
        if below:
            minimum[u] = min(minimum[u], b - a - most)


def line_minimum(key: Codes, tag: Bytes, offsets: Ints, directions: Sequence[str], minimum: Ints) -> None:
    """Lower ``minimum[u]`` to the user's least mistakes over all cuts of the given directions."""
    above, below = "above" in directions, "below" in directions
    spread(lambda a, b: _minimum(key, tag, offsets, a, b, above, below, minimum), user_spans(offsets))


# Events


@jit
def _events(
    key: Any, tag: Any, offsets: Any, start: int, stop: int, above: bool, minimum: Any, offset: Any, cap: Any, levels: int, change: Any
) -> int:
    """Per record the change of the user's contribution when the cut passes it (0 if none); returns the sum at cut 0."""
    total = 0
    for u in range(start, stop):
        a, b = offsets[u], offsets[u + 1]
        if a == b:
            continue
        m = b - a
        mistakes = 0
        for i in range(a, b):
            mistakes += 1 - tag[i]
        value = contribution(mistakes if above else m - mistakes, minimum[u], offset[u], cap[u], levels)
        total += value
        for i in range(a, b):
            mistakes += 2 * tag[i] - 1
            change[i] = 0
            if i + 1 == b or key[i + 1] != key[i]:
                now = contribution(mistakes if above else m - mistakes, minimum[u], offset[u], cap[u], levels)
                change[i] = now - value
                value = now
    return total


def line_steps(
    key: Codes,
    tag: Bytes,
    offsets: Ints,
    *,
    directions: Sequence[str],
    minimum: Ints,
    offset: Ints,
    cap: Ints,
    levels: int,
    base: int,
    size: int,
) -> list[Step]:
    """Two steps (cut 0; cuts 1..size) for every direction, with ids starting at ``base``.

    Cut ``c + 1`` is where the code ``c`` is passed; keeping ``c`` itself as the start, in a step whose offset is one
    higher, lets 2**64 codes and their 2**64 + 1 cuts fit in 64 bits.
    """
    change = np.empty((len(key), len(directions)), dtype=change_type(levels))
    spans = user_spans(offsets)

    def at_cut_0(above: bool, moved: NDArray[Any]) -> int:
        return sum(spread(lambda a, b: _events(key, tag, offsets, a, b, above, minimum, offset, cap, levels, moved), spans))

    first = [at_cut_0(direction == "above", change[:, c]) for c, direction in enumerate(directions)]
    steps: list[Step] = []
    for c, (places, totals) in enumerate(sum_events(key, change, first, size)):
        cut0 = base + c * (size + 1)
        steps += [
            Step(cut0, np.zeros(1, dtype=np.uint64), 0, np.array([first[c]], dtype=np.int64)),
            step_of(cut0 + 1, size - 1, first[c], places, totals),
        ]
    return steps
