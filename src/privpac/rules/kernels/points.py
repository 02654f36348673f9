"""Kernels for single values of one column: "is v", "is not v", and the rule that asks for a value nobody holds.

A user's mistakes with "is v" are ``ones`` (records with label 1) for every value the user does not hold, and ``ones +
zeros(v) - ones(v)`` for a value v the user holds; "is not v" makes ``m - mistakes``.  So a user adds one number to all
rules of a direction and a correction to at most m of them: O(m) after the sort, on any domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.data.jit import jit
from privpac.data.threads import spread, user_spans
from privpac.rules.kernels.cuts import SIGNS, change_type, contribution, sort_within_users
from privpac.rules.kernels.events import sum_events
from privpac.rules.profile import Step
from privpac.rules.statistics import Statistic

__all__ = ["OneValue", "value_steps", "zero_values"]

Codes = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


@jit
def _ones(tag: Any, a: int, b: int) -> Any:
    ones = np.int64(0)
    for i in range(a, b):
        ones += np.int64(tag[i])
    return ones


@jit
def _value_ends(key: Any, tag: Any, offsets: Any, start: int, stop: int, values: Any, signs: Any, own: Any) -> None:
    """Widen every user's least and most mistakes to those of these directions.

    ``values`` is the number of values a user must hold so that no rule is left with the mistakes of the others.
    """
    for u in range(start, stop):
        a, b = offsets[u], offsets[u + 1]
        if a == b:
            continue
        ones = _ones(tag, a, b)
        least: Any = b - a
        most: Any = np.int64(0)
        mistakes: Any = ones
        held = np.uint64(0)
        for i in range(a, b):
            mistakes += 1 - 2 * np.int64(tag[i])
            if i + 1 == b or key[i + 1] != key[i]:
                least, most = min(least, mistakes), max(most, mistakes)
                mistakes = ones
                held += np.uint64(1)
        if held < values:
            least, most = min(least, ones), max(most, ones)
        for sign in signs:
            if sign > 0:
                own[0, u], own[1, u] = min(own[0, u], least), max(own[1, u], most)
            else:
                own[0, u], own[1, u] = min(own[0, u], b - a - most), max(own[1, u], b - a - least)


@jit
def _value_events(
    key: Any, tag: Any, offsets: Any, start: int, stop: int, signs: Any, shape: Any, change: Any, total: Any
) -> None:
    """Per distinct value of a user (at its last record) what it adds to the base; ``total`` sums the bases.

    Columns are the directions of one voice, then those of the other.
    """
    own, uses_minimum, offset, cap, levels = shape
    for u in range(start, stop):
        a, b = offsets[u], offsets[u + 1]
        if a == b:
            continue
        ones = _ones(tag, a, b)
        minimum: Any = own[0, u] if uses_minimum else np.int64(0)
        for c in range(len(signs) * len(cap)):
            sign, most = signs[c % len(signs)], cap[c // len(signs), u]
            first = ones if sign > 0 else b - a - ones
            base = contribution(first, minimum, offset[u], most, levels)
            total[c] += base
            mistakes: Any = first
            for i in range(a, b):
                mistakes += sign * (1 - 2 * np.int64(tag[i]))
                change[i, c] = 0
                if i + 1 == b or key[i + 1] != key[i]:
                    change[i, c] = contribution(mistakes, minimum, offset[u], most, levels) - base
                    mistakes = first


@jit
def _spikes(places: Any, totals: Any, base: int, last: Any, starts: Any, scores: Any) -> int:
    """From running totals of what is added at each place: that place's own score, and back to ``base`` after it."""
    n = 0
    before: Any = 0
    for i in range(len(places)):
        starts[n], scores[n] = places[i], base + totals[i] - before
        before = totals[i]
        n += 1
        if places[i] != last and (i + 1 == len(places) or places[i + 1] != places[i] + np.uint64(1)):
            starts[n], scores[n] = places[i] + np.uint64(1), base
            n += 1
    return n


def value_steps(at: int, size: int, base: int, places: Codes, totals: Ints, zero: bool) -> list[Step]:
    """``base`` for the rules of ``size`` values from id ``at`` on, and at ``places[i]`` (the first one is 0) what
    ``totals`` grows by there; with ``zero`` one more rule, of the base."""
    last = np.uint64(size - 1)
    apart = int(np.count_nonzero(np.diff(places) != 1)) + int(places[-1] != last)
    starts, scores = np.empty(len(places) + apart, dtype=np.uint64), np.empty(len(places) + apart, dtype=np.int64)
    _spikes(places, totals, base, last, starts, scores)
    steps = [Step(at, starts, size - 1, scores)]
    if zero:
        steps.append(Step(at + size, np.zeros(1, dtype=np.uint64), 0, np.array([base], dtype=np.int64)))
    return steps


def zero_values(at: int, size: int, directions: int, zero: bool) -> list[Step]:
    """The steps of :meth:`OneValue.steps` with all scores zero."""
    nothing = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.int64)
    return [step for i in range(directions) for step in value_steps(at + i * (size + zero), size, 0, *nothing, zero)]


@dataclass(frozen=True)
class OneValue:
    """Users seen through the values of one column, as :class:`~privpac.rules.kernels.cuts.OneColumn` sees them
    through its cuts: "above" is "is v", "below" its opposite.  ``zero``: a last rule asks for a value nobody holds."""

    codes: Codes
    labels: Bytes
    offsets: Ints
    directions: Sequence[str]
    own: Ints
    statistic: Statistic
    shape: tuple[Ints, Ints]
    zero: bool = True

    @property
    def _signs(self) -> Ints:
        return np.array([SIGNS[direction] for direction in self.directions], dtype=np.int64)

    def _find(self, key: Codes, tag: Bytes, size: int) -> None:
        # No user holds 2**64 values, so the last code stands in for that number.
        values, signs = np.uint64(min(size + self.zero, (1 << 64) - 1)), self._signs
        spread(
            lambda a, b: _value_ends(key, tag, self.offsets, a, b, values, signs, self.own), user_spans(self.offsets)
        )

    def find_ends(self, size: int) -> None:
        """Widen ``own`` to each user's least and most mistakes over all rules."""
        self._find(*sort_within_users(self.codes, self.labels, self.offsets), size)

    def steps(self, base: int, size: int, whole: int, *, find: bool = False) -> list[Step]:
        """The steps of every voice and direction, with ids from ``base`` on, a voice ``whole`` ids after the other;
        ``find`` the least and most mistakes first."""
        key, tag = sort_within_users(self.codes, self.labels, self.offsets)
        if find:
            self._find(key, tag, size)
        signs, columns = self._signs, len(self.directions) * self.statistic.voices
        shape = (self.own, self.statistic.uses_minimum, *self.shape, self.statistic.bound)
        change = np.empty((len(key), columns), dtype=change_type(self.statistic.bound))

        def run(a: int, b: int) -> Ints:
            total = np.zeros(columns, dtype=np.int64)
            _value_events(key, tag, self.offsets, a, b, signs, shape, change, total)
            return total

        bases = sum(spread(run, user_spans(self.offsets)), start=np.zeros(columns, dtype=np.int64)).tolist()
        out: list[Step] = []
        for c, sums in enumerate(sum_events(key, change, [0] * columns, size)):
            voice, direction = divmod(c, len(self.directions))
            out += value_steps(base + voice * whole + direction * (size + self.zero), size, bases[c], *sums, self.zero)
        return out
