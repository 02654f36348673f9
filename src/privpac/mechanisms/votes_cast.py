"""Votes for candidates of an unknown or huge universe: only candidates with a positive count exist.

A candidate is any hashable value; counts are non-negative integers, given as a mapping or as an array whose indices are
the candidates.  Counts are private, so no error repeats one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from privpac.errors import ParameterError
from privpac.law.base import BOTTOM
from privpac.law.finite import FiniteLaw
from privpac.law.numbers import Number

__all__ = ["by_count", "candidate_law"]


def by_count(votes: Any) -> dict[int, list[Hashable]]:
    """Candidates with positive counts, grouped by count, largest first."""
    groups: dict[int, list[Hashable]] = {}
    for candidate, count in _positive(votes):
        groups.setdefault(count, []).append(candidate)
    return dict(sorted(groups.items(), reverse=True))


def _positive(votes: Any) -> list[tuple[Hashable, int]]:
    if isinstance(votes, Mapping):
        read = [(_candidate(candidate), _count(count)) for candidate, count in votes.items()]
        return [(candidate, count) for candidate, count in read if count]
    array = np.asarray(votes)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"votes must be a mapping from candidate to count or a one-dimensional integer array, got "
            f"{_kind(votes, array)}"
        )
    if array.dtype.kind == "i" and (array < 0).any():
        raise ParameterError("counts must not be negative")
    where = np.flatnonzero(array)
    return list(zip(where.tolist(), (int(c) for c in array[where].tolist())))


def _kind(votes: Any, array: np.ndarray[Any, Any]) -> str:
    return f"{type(votes).__name__} of {array.dtype} and shape {array.shape}"


def _candidate(value: Any) -> Hashable:
    if isinstance(value, np.integer):
        return int(value)
    if value is BOTTOM or isinstance(value, range):
        raise ParameterError("a candidate is a single value: BOTTOM and ranges cannot be voted for")
    return value  # type: ignore[no-any-return]


def _count(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"counts must be integers, got {type(value).__name__}")
    count = int(value.__index__())
    if count < 0:
        raise ParameterError("counts must not be negative")
    return count


def candidate_law(groups: Mapping[int, list[Hashable]], numbers: Mapping[int, Number], abstain: Number) -> FiniteLaw:
    """The law that gives every candidate the number of its count, and ``BOTTOM`` the rest."""
    blocks: list[tuple[range, Number]] = []
    atoms: dict[Hashable, Number] = {}
    for count, candidates in groups.items():
        for candidate in candidates:
            if isinstance(candidate, int):
                blocks.append((range(candidate, candidate + 1), numbers[count]))
            else:
                atoms[candidate] = numbers[count]
    atoms[BOTTOM] = abstain
    return FiniteLaw(sorted(blocks, key=lambda item: item[0].start), atoms)
