"""Flat races: every candidate runs with its own public clock.

Candidate ``h`` with public exponential clock ``E_h`` and weight ``P(h)`` arrives at time ``E_h / P(h)``; the first one
wins. Competing exponentials make the winner a draw from ``P``, and two users with weights ``P`` and ``Q`` get the same
winner with probability at least ``(1 - TV)/(1 + TV)``.  For weights ``exp(-gamma s_h / m)`` logarithms turn this into
``argmin log2 E_h + gamma log2(e) s_h / m``; no normaliser is needed.

Normative, on integers: ``cost = (ilog2(t) >> 16) + floor(Gamma * s / m)`` and the winner has the least ``(cost, t,
id)``. ``m`` is the user's own denominator and is not cancelled against ``s``: the floors are part of the definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.races.words import (
    MAX_RATE,
    clock,
    clock_array,
    ilog2,
    ilog2_array,
    integer,
    word_named,
    words_indexed,
)
from privpac.errors import ParameterError, TooLargeError

__all__ = [
    "INFINITE",
    "MAX_DENOMINATOR",
    "MAX_INDEXED",
    "check_race",
    "penalty",
    "race_indexed",
    "race_named",
    "score_array",
]

Ints = NDArray[np.int64]

MAX_DENOMINATOR = (1 << 31) - 1
MAX_INDEXED = 4096
INFINITE = np.int64(1 << 62)
"""The score of what lies outside the support."""

# Below this many candidates plain integers are faster than arrays.
_FEW = 64
_Name = TypeVar("_Name", int, bytes)


def check_race(m: Any, Gamma: Any) -> tuple[int, int]:
    """The denominator and the rate of a race, within the ranges where 64-bit costs are exact."""
    return integer("m", m, 1, MAX_DENOMINATOR), integer("Gamma", Gamma, 0, MAX_RATE - 1)


def penalty(score: int, m: int, Gamma: int) -> int:
    """``floor(Gamma * score / m)``."""
    return Gamma * score // m


def score_array(scores: Sequence[int | None] | NDArray[Any], m: int) -> Ints:
    """Scores as an array; ``None`` (or ``INFINITE``) is outside the support."""
    if isinstance(scores, np.ndarray) and scores.dtype != object:
        if scores.dtype.kind not in "iu":
            raise TypeError(f"scores must be integers, got {scores.dtype}")
        if scores.dtype.kind == "u" and scores.size and int(scores.max()) > INFINITE:
            raise ParameterError(f"scores must be in 0..m = {m}, or None")
        out = scores.astype(np.int64)
    else:
        out = np.array(
            [INFINITE if s is None else integer("a score", s, 0, int(INFINITE)) for s in scores], dtype=np.int64
        )
    if out.ndim != 1:
        raise ParameterError(f"scores must be one list, got {out.ndim} dimensions")
    if np.any((out < 0) | ((out > m) & (out != INFINITE))):
        raise ParameterError(f"scores must be in 0..m = {m}, or None")
    return out


def race_indexed(key: bytes, scores: Sequence[int | None] | NDArray[Any], m: int, Gamma: int) -> int | None:
    """The index that wins the flat race, ``None`` if the support is empty.

    For at most 4096 candidates; a larger class runs the dyadic race, which gives other winners: never mix the two.
    """
    m, Gamma = check_race(m, Gamma)
    array = score_array(scores, m)
    if len(array) > MAX_INDEXED:
        raise TooLargeError(f"a flat race has at most {MAX_INDEXED} candidates, got {len(array)}; use the dyadic race")
    support = np.flatnonzero(array != INFINITE)
    if not len(support):
        return None
    words = words_indexed(key, len(array))[support]
    if len(support) < _FEW:
        return min(
            _entry(word, s, m, Gamma, i)
            for word, s, i in zip(words.tolist(), array[support].tolist(), support.tolist())
        )[2]
    t = clock_array(words)
    whole, rest = divmod(Gamma, m)
    s = array[support]
    # whole * s <= Gamma < 2**62 and rest * s < m * m < 2**62: every product is exact.
    cost = (ilog2_array(t) >> np.uint64(16)).astype(np.int64) + whole * s + (rest * s) // m
    return int(support[np.lexsort((support, t, cost))[0]])


def _entry(word: int, score: int, m: int, Gamma: int, name: _Name) -> tuple[int, int, _Name]:
    """The key by which candidates are compared."""
    t = clock(word)
    return ilog2(t, 40) + penalty(score, m, Gamma), t, name


def race_named(key: bytes, scores: Mapping[bytes, int | None], m: int, Gamma: int) -> bytes | None:
    """The name that wins the flat race among canonical byte strings, ``None`` if the support is empty."""
    m, Gamma = check_race(m, Gamma)
    best: tuple[int, int, bytes] | None = None
    for name, score in scores.items():
        if score is None:
            continue
        entry = _entry(word_named(key, name), integer("a score", score, 0, m), m, Gamma, name)
        if best is None or entry < best:
            best = entry
    return None if best is None else best[2]
