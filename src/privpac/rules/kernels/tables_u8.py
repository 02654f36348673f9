"""Users of at most 255 records: a rule's mistakes are a byte, and 16 or 32 rules are charged at once.

Mistakes lie in 0..255, so that sums and differences of bytes, which are exact up to multiples of 256, are exact.  With
``v = min(max(e - b - offset, 0), cap)``, a byte, a user adds ``floor(levels * v / cap)`` to a rule.  No division and no
table is needed for that:

* where ``cap`` divides ``levels`` it is ``levels / cap`` times ``v``: the ``v`` of many users are added up, in bytes,
  and multiplied once (``settle``);
* elsewhere, with ``levels = p * cap + rest`` and ``factor = ceil(2**16 * rest / cap)``, it is

      p * v + ((v * factor) >> 16).

  Proof.  ``factor * cap = 2**16 * rest + d`` with ``0 <= d < cap``, so ``v * factor / 2**16`` exceeds ``v * rest /
  cap`` by ``v * d / (cap * 2**16)``, which is less than ``1 / cap`` since ``v * d <= 255 * 254 < 2**16``: no integer
  lies between the two, for ``v * rest / cap`` has the denominator ``cap``.  As ``rest <= cap - 1`` and ``cap <= 255``,
  ``factor <= 2**16 - 2**16 / 255 + 1``, which fits 16 bits.

Sums of bytes and of 16 bits are *held* until one more user might overflow them, or charges otherwise.  Whatever fits
neither (large multiplicities, ``levels`` or caps) is tallied by a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privpac.data.jit import jit
from privpac.rules.kernels.grouped import tally

__all__ = ["MOST_RECORDS", "charge", "extremes", "holds", "scaled", "settle"]

MOST_RECORDS = 255
_MOST_CAP, _MOST_BYTE, _MOST_PAIR = 255, 255, 65535
_FEW = 32  # of a larger cap, so few users fit a byte that 16 bits are faster


@jit
def extremes(row: Any) -> Any:
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
def holds(voices: int, size: int) -> Any:
    """Room for sums not yet settled: bytes, 16 bits, and for each of the two by voice what they are worth and the
    most that a rule may have in them."""
    return np.zeros((voices, size), np.uint8), np.zeros((voices, size), np.uint16), np.zeros((voices, 4), np.int64)


@jit
def _settle(sums: Any, unit: int, line: Any) -> None:
    for h in range(len(line)):
        line[h] += unit * np.int64(sums[h])
        sums[h] = 0


@jit
def settle(held: Any, scores: Any) -> None:
    """Add what is held to the scores."""
    few, many, state = held
    for v in range(len(scores)):
        if state[v, 1]:
            _settle(few[v], state[v, 0], scores[v])
        if state[v, 3]:
            _settle(many[v], state[v, 2], scores[v])
        state[v, 1], state[v, 3] = 0, 0


@jit
def _add_bytes(row: Any, base: Any, free: Any, cap: Any, sums: Any) -> None:
    for h in range(len(row)):
        above = np.uint8(row[h] - base)
        sums[h] += min(np.uint8(max(above, free) - free), cap)


@jit
def _add_pairs(row: Any, base: Any, free: Any, cap: Any, p: Any, factor: Any, times: Any, sums: Any) -> None:
    for h in range(len(row)):
        above = np.uint8(row[h] - base)
        v = min(np.uint8(max(above, free) - free), cap)
        sums[h] += np.uint16(times * np.uint16(np.uint16(p * v) + np.uint16((np.uint16(v) * factor) >> 16)))


@jit
def charge(
    row: Any,
    least: Any,
    m: int,
    offset: int,
    cap: Any,
    levels: int,
    times: int,
    elsewhere: Any,
    values: Any,
    held: Any,
    scores: Any,
) -> None:
    """Add ``times`` times one user's contribution to every rule, as ``tally`` does, to what is held or to the scores;
    voices with a number ``elsewhere`` are left out.  ``values`` has room for 256."""
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
            tally(row, least, m, offset, cap[v : v + 1], levels, times, values, scores[v : v + 1])
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
                row,
                np.uint8(least),
                free,
                np.uint8(c),
                np.uint16(p),
                np.uint16(factor),
                np.uint16(times),
                many[v],
            )
