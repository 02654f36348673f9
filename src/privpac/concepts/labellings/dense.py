"""Labellings by a class that is listed rule by rule.

Rules are grouped by their packed bits on the distinct points of T, ``M`` is the least loss of a group, and the numbers
of differing records between all pairs of labellings come from one product of matrices (exact in floating point: whole
numbers of at most 24 or 53 bits).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.labellings.base import Ints, Labellings, dense_losses
from privpac.concepts.profile import Profile

if TYPE_CHECKING:
    from privpac.concepts.base import ConceptClass

__all__ = ["dense_labellings", "unit_labellings"]

Codes = Mapping[str, NDArray[np.uint64]]
Bits = NDArray[np.uint8]
_CELLS = 1 << 24


def dense_labellings(concept: ConceptClass, codes: Codes, profile: Profile, A: int, B: int) -> Labellings:
    place, times, points = _distinct_points(codes)
    table, least = _grouped(concept, points, profile)
    # Points that no labelling tells apart (one cell of a grid) count together.
    kinds = np.ascontiguousarray(np.packbits(table, axis=0).T)
    _, first_of, kind = np.unique(
        kinds.view(np.dtype((np.void, kinds.shape[1])))[:, 0], return_index=True, return_inverse=True
    )
    records = np.bincount(kind, weights=times)
    # Exact in either type: whole numbers, at most the number of records.
    number = np.float32 if records.sum() < 1 << 22 else np.float64
    bits = table[:, first_of].astype(number)
    weighted = bits * records.astype(number)
    counts, costs = weighted.sum(axis=1), B * least
    scores = np.empty(len(table), dtype=np.int64)
    block = max(1, _CELLS // len(table))
    for first in range(0, len(table), block):
        both = weighted[first : first + block] @ bits.T
        differ = (counts[first : first + block, None] + counts[None, :] - 2 * both).astype(np.int64)
        scores[first : first + block] = (A * differ + costs[None, :]).min(axis=1)
    return Labellings(scores, lambda i: table[i][place])


def unit_labellings(concept: ConceptClass, codes: Codes, offsets: Ints, profile: Profile, A: int, B: int) -> Labellings:
    """Several records per unit: two labellings differ on a unit if they differ on any of its records."""
    table, least = _grouped(concept, codes, profile)
    costs = B * least
    units = offsets[:-1][np.diff(offsets) > 0]  # reduceat knows no empty ranges; a unit without records never differs
    scores = np.empty(len(table), dtype=np.int64)
    for i, row in enumerate(table):
        differ = np.bitwise_or.reduceat(table ^ row, units, axis=1).sum(axis=1, dtype=np.int64)
        scores[i] = (A * differ + costs).min()
    return Labellings(scores, lambda i: table[i])


def _distinct_points(codes: Codes) -> tuple[Ints, NDArray[np.float64], Codes]:
    """For every record its distinct point, how many records each has, and the points."""
    columns = np.stack(list(codes.values()), axis=1)
    distinct, place, times = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    return (
        place.reshape(-1),
        times.astype(np.float64),
        {name: np.ascontiguousarray(distinct[:, i]) for i, name in enumerate(codes)},
    )


def _grouped(concept: ConceptClass, points: Codes, profile: Profile) -> tuple[Bits, Ints]:
    """The distinct labellings of the points, and the least loss of the rules that give each."""
    size = len(next(iter(points.values())))
    keys = np.concatenate([np.packbits(table, axis=0).T for table in _tables(concept, points)])
    rows = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1])))[:, 0]
    _, first, group = np.unique(rows, return_index=True, return_inverse=True)
    least = np.full(len(first), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(least, group, dense_losses(profile))
    return np.unpackbits(keys[first], axis=1, count=size), least


def _tables(concept: ConceptClass, points: Codes) -> Iterator[Bits]:
    """What the rules say on the points (points by rules), some rules at a time."""
    size = len(next(iter(points.values())))
    block = max(1, _CELLS // size)
    for first in range(0, concept.size, block):
        yield concept.table(points, first, min(first + block, concept.size))
