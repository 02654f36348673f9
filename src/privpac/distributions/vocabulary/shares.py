"""What people hold, value by value: a kernel over columns of any domain, open vocabularies included.

A person's shares are those of :mod:`privpac.distributions.averaged`, of the ``values`` values that this person holds
most often (of equals the first in order): non-negative integers that add up to ``levels``, whatever the records are.
Values are told apart by their codes, or by their texts where codes mean something inside one table only; their order
is that of the codes or texts, so every engine and every order of rows gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.data import UserData
from privpac.data.group import ranked
from privpac.data.jit import jit

__all__ = ["Held", "HeldShares"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Held:
    """Values in order, the weight of each, and how many people hold any.  ``texts`` are None where codes are values."""

    codes: NDArray[np.uint64]
    texts: list[str] | None
    weights: Ints
    people: int


@jit
def _sums(offsets: Ints, ranks: Ints, size: int, levels: int, values: int) -> Ints:
    out = np.zeros(size, np.int64)
    for user in range(offsets.size - 1):
        held = np.sort(ranks[offsets[user] : offsets[user + 1]])
        if held.size == 0:
            continue
        distinct = 1
        for i in range(1, held.size):
            if held[i] != held[i - 1]:
                distinct += 1
        value, count = np.empty(distinct, np.int64), np.zeros(distinct, np.int64)
        at = -1
        for i in range(held.size):
            if i == 0 or held[i] != held[i - 1]:
                at += 1
                value[at] = held[i]
            count[at] += 1
        if distinct > values:
            dropped = np.argsort(-count, kind="mergesort")[values:]
            count[dropped] = 0
        total, upto, told = count.sum(), 0, 0
        for i in range(distinct):
            # What is told of a person telescopes to ``levels``, over at most ``values`` values: this is the bound on
            # their influence.
            upto += count[i]
            next_told = levels * upto // total
            out[value[i]] += next_told - told
            told = next_told
    return out


@dataclass(frozen=True)
class HeldShares:
    """The kernel: how much weight of all people lies on each value of a column."""

    column: str
    levels: int
    values: int
    open: bool

    def zero(self) -> Held:
        return Held(np.empty(0, np.uint64), [] if self.open else None, np.empty(0, np.int64), 0)

    def chunk(self, users: UserData) -> Held:
        codes = users.codes[self.column]
        vocabulary = users.vocabulary(self.column)
        people = int(np.count_nonzero(users.sizes))
        if vocabulary is None:
            distinct, ranks = ranked(codes)
            weights = self._weights(users, ranks, distinct.size)
            kept = np.flatnonzero(weights)
            return Held(distinct[kept].astype(np.uint64), None, weights[kept], people)
        order = vocabulary.arg_sort().to_numpy()
        rank = np.empty(len(vocabulary), np.int64)
        rank[order] = np.arange(len(vocabulary))
        weights = self._weights(users, rank[codes.astype(np.int64)], len(vocabulary))
        kept = np.flatnonzero(weights)
        return Held(np.empty(0, np.uint64), vocabulary.gather(order[kept]).to_list(), weights[kept], people)

    def _weights(self, users: UserData, ranks: Any, size: int) -> Ints:
        return _sums(users.offsets, np.asarray(ranks, np.int64), size, self.levels, self.values)

    def merge(self, a: Held, b: Held) -> Held:
        if self.open:
            texts = pl.Series("k", [*(a.texts or []), *(b.texts or [])], dtype=pl.String)
            frame = pl.DataFrame({"k": texts, "w": np.concatenate([a.weights, b.weights])})
            both = frame.group_by("k").agg(pl.col("w").sum()).sort("k")
            return Held(a.codes, both["k"].to_list(), both["w"].to_numpy().astype(np.int64), a.people + b.people)
        distinct, places = np.unique(np.concatenate([a.codes, b.codes]), return_inverse=True)
        sums = np.zeros(distinct.size, np.int64)
        np.add.at(sums, places, np.concatenate([a.weights, b.weights]))
        return Held(distinct.astype(np.uint64), None, sums, a.people + b.people)
