"""What a stable learner is: one user's records and a public seed in, one item out.

**Privacy.**  The item is a deterministic function of one user's records, the public seed and public parameters.  If a
selection among items is (epsilon, delta)-private when one item is replaced (or added or removed), then items followed
by selection are (epsilon, delta)-private at user level in the same relation, for every seed: a neighbouring dataset
changes at most one item. Nothing else is needed: neither stability, nor independent records, nor the accuracy of the
learner.

**Utility.**  Stable means that, for most seeds, fresh users produce the *same* item.  An item is canonical bytes;
``None`` is the item of a user with nothing to say.  The universe numbers all items, for selections that need every
candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import integer
from privpac.device.records import Records

__all__ = ["Hypothesis", "ListLearner", "NumberedItems", "Padded", "StableLearner", "ItemUniverse"]


@runtime_checkable
class Hypothesis(Protocol):
    """A decision rule light enough for a device."""

    def predict(self, x: Any) -> NDArray[np.int8]:
        """0 or 1 for every row of ``x``."""


@runtime_checkable
class ItemUniverse(Protocol):
    """All items a learner can send: ``size`` of them, or every string of ``bits`` bits."""

    @property
    def size(self) -> int: ...

    @property
    def bits(self) -> int: ...

    def number(self, item: bytes) -> int:
        """The number of an item, in ``0..size-1``."""

    def item(self, number: int) -> bytes:
        """The item of a number."""


@runtime_checkable
class StableLearner(Protocol):
    """Turns one user's records into one item."""

    @property
    def universe(self) -> ItemUniverse: ...

    def item(self, x: Any, y: Any, seed: bytes) -> bytes | None:
        """The user's item, ``None`` for a user with nothing to say."""

    def decode(self, item: bytes) -> Hypothesis | None:
        """The rule of an item, ``None`` if the bytes are not a rule (the caller's public default then stands in)."""


@runtime_checkable
class ListLearner(Protocol):
    """Turns records into a short list of items, one of which is the same for most samples."""

    def candidates(self, records: Records) -> frozenset[bytes]: ...

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        """The allowed range of every column."""

    @property
    def universe(self) -> ItemUniverse: ...

    def decode(self, item: bytes) -> Hypothesis | None: ...


@dataclass(frozen=True)
class NumberedItems:
    """The items ``0..size-1``, written little end first in as few bytes as hold the largest.

    >>> NumberedItems(1000).item(258), NumberedItems(1000).number(bytes([2, 1]))
    (b'\\x02\\x01', 258)
    """

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", integer("size", self.size, 1))

    @property
    def bits(self) -> int:
        return max(1, (self.size - 1).bit_length())

    @property
    def width(self) -> int:
        return -(-self.bits // 8)

    def number(self, item: bytes) -> int:
        return integer("the number of an item", int.from_bytes(item, "little"), 0, self.size - 1)

    def item(self, number: int) -> bytes:
        return integer("the number of an item", number, 0, self.size - 1).to_bytes(self.width, "little")


@dataclass(frozen=True)
class Padded:
    """All byte strings of ``width`` bytes; shorter items are filled up with 255, which never ends a shorter item.

    An item of full width may end in anything; ``step`` is the length of what may be missing at the end (0: nothing).
    """

    width: int
    step: int = 0

    @property
    def size(self) -> int:
        return 1 << self.bits

    @property
    def bits(self) -> int:
        return 8 * self.width

    def number(self, item: bytes) -> int:
        integer("the length of an item", len(item), 0 if self.step else self.width, self.width)
        return int.from_bytes(item + b"\xff" * (self.width - len(item)), "little")

    def item(self, number: int) -> bytes:
        text = integer("the number of an item", number, 0, self.size - 1).to_bytes(self.width, "little")
        filler = b"\xff" * self.step
        while self.step and len(text) > self.step and text.endswith(filler):
            text = text[: -self.step]
        return text
