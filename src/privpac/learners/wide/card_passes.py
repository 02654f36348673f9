"""Passes over the users of a points card, on every engine.

In memory and streaming the records are binned once and kept in one byte a value; each pass then runs over the packed
users.  On a cluster nothing is collected: each pass is a job that bins the records anew and adds integer vectors.  The
sums are the same integers either way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.cards.codes import CodeTable
from privpac.concepts.small_trees.columns import BinnedColumn
from privpac.data import UserData, Users
from privpac.learners.wide.card_kernels import DescentState, Packed, centre_sum, gradient_sum, norm_sum

__all__ = ["CentrePass", "CountPass", "NormPass", "Pass", "StepPass", "pack", "passes_over"]

Ints = NDArray[np.int64]
_BLOCK = 1 << 15


def pack(columns: tuple[BinnedColumn, ...], users: UserData) -> Packed:
    """Bound users with their values in bins."""
    widest = max(column.width for column in columns)
    codes = np.empty((users.n_records, len(columns)), np.uint8 if widest <= 256 else np.uint16)
    found = np.empty(_BLOCK, np.uint16)
    for start in range(0, users.n_records, _BLOCK):
        stop = min(start + _BLOCK, users.n_records)
        for j, column in enumerate(columns):
            column.bin_codes(np.ascontiguousarray(users.codes[column.name][start:stop]), found[: stop - start])
            codes[start:stop, j] = found[: stop - start]
    assert users.labels is not None
    return Packed(codes, users.labels, users.offsets)


class Pass(Protocol):
    """One sum over users of integer vectors."""

    @property
    def size(self) -> int: ...

    def over(self, packed: Packed) -> Ints: ...


@dataclass(frozen=True)
class CountPass:
    """The number of users, those without records included."""

    size: int = 1

    def over(self, packed: Packed) -> Ints:
        return np.array([packed.users], np.int64)


@dataclass(frozen=True)
class CentrePass:
    """Mean codes, each shortened to ``cap``."""

    table: CodeTable
    cap: int

    @property
    def size(self) -> int:
        return self.table.coordinates

    def over(self, packed: Packed) -> Ints:
        return centre_sum(self.table, packed, self.cap)


@dataclass(frozen=True)
class NormPass:
    """Norms of gradients at zero weights, each at most ``cap``; one sum for each answer."""

    table: CodeTable
    centre: tuple[int, ...]
    cap: int
    answers: tuple[int, ...] = (1,)

    @property
    def size(self) -> int:
        return len(self.answers)

    def over(self, packed: Packed) -> Ints:
        return np.array([norm_sum(self.table, packed, self.centre, self.cap, a) for a in self.answers], np.int64)


@dataclass(frozen=True)
class StepPass:
    """Gradients at public weights, each shortened to a cap; for each answer at weights and with a cap of its own, one
    after the other."""

    table: CodeTable
    states: tuple[DescentState, ...]
    caps: tuple[int, ...]
    answers: tuple[int, ...] = (1,)

    @property
    def size(self) -> int:
        return len(self.answers) * (self.table.coordinates + 1)

    def over(self, packed: Packed) -> Ints:
        each = zip(self.states, self.caps, self.answers)
        return np.concatenate([gradient_sum(self.table, packed, state, cap, answer) for state, cap, answer in each])


@dataclass(frozen=True)
class _Packing:
    """All users, packed: the chunks of a fold side by side."""

    columns: tuple[BinnedColumn, ...]

    def zero(self) -> tuple[Packed, ...]:
        return ()

    def chunk(self, users: UserData) -> tuple[Packed, ...]:
        return (pack(self.columns, users),)

    def merge(self, a: tuple[Packed, ...], b: tuple[Packed, ...]) -> tuple[Packed, ...]:
        return a + b


@dataclass(frozen=True)
class _Job:
    """One pass as a fold."""

    columns: tuple[BinnedColumn, ...]
    work: Pass

    def zero(self) -> Ints:
        return np.zeros(self.work.size, np.int64)

    def chunk(self, users: UserData) -> Ints:
        return self.work.over(pack(self.columns, users))

    def merge(self, a: Ints, b: Ints) -> Ints:
        return a + b


def passes_over(columns: tuple[BinnedColumn, ...], users: Users) -> Callable[[Pass], list[int]]:
    """How a pass is run over these users: its sum as Python integers."""
    if getattr(users, "distributed", False):
        return lambda work: _plain(users.fold(_Job(columns, work)))
    chunks = users.fold(_Packing(columns))

    def run(work: Pass) -> list[int]:
        return _plain(sum((work.over(packed) for packed in chunks), np.zeros(work.size, np.int64)))

    return run


def _plain(sums: Any) -> list[int]:
    return [int(value) for value in sums]
