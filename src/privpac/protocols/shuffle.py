"""Shuffled plurality: one real message among noise messages, counted after a shuffle.

Every client sends the bucket of its item (the last bucket, ``NULL``, if it has none) and, for every bucket,
``NB(r/n_min, p)`` noise messages.  After the shuffle only counts per bucket are left: ``c_u`` plus ``NB(r', p)``, ``r'
>= r`` when ``n_min`` or more clients added their share.  Items of a large universe are cut into chunks of ``width``
bits, little end first; a client reports one, uniformly chosen.

**Guarantee.**  ``(epsilon, delta)`` under *replace*, with at least ``n_min`` honest clients: a replaced client moves
one message from one bucket to another, and ``delta`` is the exact two-bucket divergence
(:mod:`privpac.protocols.calibrate`).  More clients add more noise, which is post-processing.  Nothing is promised under
add-remove: who leaves takes noise along.  A client sends at most ``cap`` messages; if each exceeds that with
probability at most ``tau``, the counts differ from the ideal ones with probability at most ``n_max tau`` in either of
two neighbouring worlds, which costs ``(1 + e**epsilon) n_max tau`` of delta.

``direction="under"`` sends one message for every bucket *but* the item's, and counts what is missing: never an
overestimate, for at most 64 buckets.  Standard library and numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from privpac.errors import ParameterError, TooLargeError
from privpac.protocols.negative_binomial import sample_noise
from privpac.rng import Rng

__all__ = ["ShuffleSelection", "mixed"]

MAX_BUCKETS = 1 << 16
_FEW = 64


Message = TypeVar("Message")


def mixed(messages: list[Message], rng: Rng) -> list[Message]:
    """The list itself in uniformly random order."""
    for i in range(len(messages) - 1, 0, -1):
        j = rng.below(i + 1)
        messages[i], messages[j] = messages[j], messages[i]
    return messages


@dataclass(frozen=True)
class ShuffleSelection:
    """``size`` items, in chunks of ``width`` bits (0: no chunks); noise ``NB(r, p)`` per bucket once ``n_min`` clients
    took part."""

    size: int
    r: Fraction
    p: Fraction
    n_min: int
    cap: int
    width: int = 0
    direction: str = "over"

    def __post_init__(self) -> None:
        if self.size < 1 or self.n_min < 1 or self.cap < 1 or not 0 <= self.width <= 16:
            raise ParameterError("size, n_min and cap must be at least 1, and a chunk has at most 16 bits")
        if not (self.r > 1 and 0 < self.p < 1):
            raise ParameterError("the noise needs r > 1 and 0 < p < 1")
        if self.direction not in ("over", "under"):
            raise ParameterError(f"direction must be 'over' or 'under', got {self.direction!r}")
        if self.buckets > MAX_BUCKETS:
            raise TooLargeError(
                f"{self.buckets} buckets are more than {MAX_BUCKETS}; cut items into chunks of 8 bits (width=8)"
            )
        if self.direction == "under" and self.buckets > _FEW:
            raise TooLargeError(
                f"direction='under' sends a message per bucket: at most {_FEW} buckets, got {self.buckets}"
            )

    @property
    def chunks(self) -> int:
        return 1 if self.width == 0 else -(-max((self.size - 1).bit_length(), 1) // self.width)

    @property
    def null(self) -> int:
        """The bucket of those with nothing to say."""
        return self.size if self.width == 0 else self.chunks << self.width

    @property
    def buckets(self) -> int:
        return self.null + 1

    @property
    def share(self) -> Fraction:
        """``s``: the noise of one client per bucket is ``NB(s, p)``."""
        return self.r / self.n_min

    @property
    def expected_messages(self) -> Fraction:
        """What a client sends on average."""
        real = 1 if self.direction == "over" else self.buckets - 1
        return real + self.buckets * self.share * self.p / (1 - self.p)

    # On the device

    def bucket(self, number: int | None, rng: Rng) -> int:
        """The bucket of an item's number, or of nothing."""
        chunk = rng.below(self.chunks)
        if number is None:
            return self.null
        if not 0 <= number < self.size:
            raise ParameterError("the item is not in the universe")
        return self.places(number)[chunk]

    def places(self, number: int) -> list[int]:
        """The buckets that stand for an item, one for each chunk."""
        if self.width == 0:
            return [number]
        part = (1 << self.width) - 1
        return [(chunk << self.width) | ((number >> (chunk * self.width)) & part) for chunk in range(self.chunks)]

    def messages(self, number: int | None, rng: Rng) -> list[int]:
        """The buckets of all messages of one client, in random order."""
        mine = self.bucket(number, rng)
        real = [mine] if self.direction == "over" else [b for b in range(self.buckets) if b != mine]
        out = (real + sample_noise(self.buckets, self.share, self.p, rng))[: self.cap]
        return mixed(out, rng)

    # At the analyzer

    def counts(self, buckets: Sequence[int], clients: int) -> list[int]:
        """Messages by bucket; with ``direction="under"`` the messages missing."""
        out = [0] * self.buckets
        for bucket in buckets:
            if 0 <= bucket < self.buckets:
                out[bucket] += 1
        return out if self.direction == "over" else [clients - count for count in out]

    def decode(self, counts: Sequence[int]) -> int | None:
        """The number with the largest count, chunk by chunk; ties go to the smaller.  ``None`` if that is no number of
        the universe."""
        if self.width == 0:
            return max(range(self.size), key=lambda u: (counts[u], -u))
        number = 0
        for chunk in range(self.chunks):
            here = counts[chunk << self.width : (chunk + 1) << self.width]
            number |= max(range(len(here)), key=lambda v: (here[v], -v)) << (chunk * self.width)
        return number if number < self.size else None
