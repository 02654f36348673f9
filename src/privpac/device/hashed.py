"""Single values among very many, through a small set of rules drawn with public coins.

"x = value" over ``N`` values is ``N`` rules, and a local vote among them pays for ``log N``.  A representation does
without: ``functions`` public hash functions put every value into one of ``buckets`` buckets, and the rules are "x is in
bucket b of hash j", and "never".  Two values collide with probability ``1/buckets``, so except with probability
``(1/(buckets alpha))**functions`` over the coins some rule holds a given value and others of mass at most ``alpha``,
whatever ``N`` is.  The race over these rules is the stable learner from a representation
(:mod:`privpac.device.representation`).

    hash_j(x) = (word_named(derive(coins, "hash", j), LE64(x)) * buckets) >> 64
    rule j * buckets + b: hash_j(x) = b;  the last rule: never
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import Component, derive, integer, le64, leaf_component, word_named
from privpac.device.records import Records
from privpac.device.rules import Labels
from privpac.errors import ParameterError, TooLargeError

__all__ = ["HashedPoint", "HashedPointScores", "read_coins"]

MAX_RULES = 1 << 20


def read_coins(text: str) -> bytes:
    """Public coins: 64 small hexadecimal digits."""
    try:
        coins = bytes.fromhex(text)
    except ValueError:
        coins = b""
    if len(coins) != 32 or coins.hex() != text:
        raise ParameterError("coins must be 64 small hexadecimal digits")
    return coins


def _bucket(key: bytes, value: int, buckets: int) -> int:
    return (word_named(key, le64(value)) * buckets) >> 64


@dataclass(frozen=True)
class HashedPoint:
    """1 iff a value is in ``bucket`` of a public hash; never if there is none."""

    coins: bytes
    function: int
    buckets: int
    bucket: int | None

    def predict(self, x: Any) -> Labels:
        rows = np.asarray(x)
        column = (rows[:, None] if rows.ndim == 1 else rows)[:, 0]
        if self.bucket is None:
            return np.zeros(len(column), dtype=np.int8)
        key = derive(self.coins, "hash", self.function)
        return np.array([_bucket(key, int(v), self.buckets) == self.bucket for v in column.tolist()], dtype=np.int8)


@dataclass(frozen=True)
class HashedPointScores:
    """The errors of all buckets of some public hash functions over ``size`` values."""

    size: int
    functions: int
    buckets: int
    coins: bytes

    def __post_init__(self) -> None:
        integer("a domain size", self.size, 1, 1 << 64)
        integer("functions", self.functions, 1, 64)
        integer("buckets", self.buckets, 2, 1 << 20)
        if self.functions * self.buckets >= MAX_RULES:
            raise TooLargeError(f"{self.functions * self.buckets} rules are more than {MAX_RULES}; take fewer buckets")

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, self.size - 1),)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.functions * self.buckets + 1,)

    @cached_property
    def _keys(self) -> tuple[bytes, ...]:
        return tuple(derive(self.coins, "hash", j) for j in range(self.functions))

    def components(self, records: Records) -> list[Component]:
        values, place = np.unique(records.x[:, 0].astype(np.uint64), return_inverse=True)
        # Naming a bucket repairs its positive records and spoils its negative ones.
        gain = np.zeros(len(values), dtype=np.int64)
        np.add.at(gain, place.reshape(-1), 1 - 2 * records.y)
        positive = int(records.y.sum())
        scores = np.full(self.sizes[0], positive, dtype=np.int64)
        for j, key in enumerate(self._keys):
            held: NDArray[np.int64] = np.array([_bucket(key, v, self.buckets) for v in values.tolist()], dtype=np.int64)
            np.add.at(scores, j * self.buckets + held, gain)
        return [leaf_component(scores, len(records))]

    def rule(self, number: int) -> HashedPoint:
        j, b = divmod(integer("number", number, 0, self.sizes[0] - 1), self.buckets)
        never = j == self.functions
        return HashedPoint(self.coins, 0 if never else j, self.buckets, None if never else b)
