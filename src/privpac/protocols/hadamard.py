"""Local plurality: one random bit of the item's Hadamard code, told through randomised response.

The client draws ``j`` uniformly, takes the sign ``(-1)**<j, u>`` of its item ``u`` (a fair coin if it has none), tells
it truthfully with probability ``keep`` and sends ``(chunk, j, bit)``.  Items longer than ``width`` bits are cut into
chunks, little end first; the client reports a uniformly chosen one.

**Guarantee.**  ``epsilon = ln(keep/(1 - keep))`` in the local model, for any two items of one user, ``NONE`` included:
chunk and ``j`` are independent of the item, and the probability of a bit is ``keep``, ``1 - keep`` or one half.
Exactly attained.

**Decoding.**  ``c * sum of s_i (-1)**<j_i, u>`` with ``c = 1/(2 keep - 1)`` is unbiased for the count of ``u``, and all
of them are within ``c sqrt(2 n ln(2 U/beta))`` with probability ``1 - beta`` (Hoeffding); one Walsh-Hadamard transform
finds them all.  With chunks only a majority is found: without one the answer may be a mixture of items.  Standard
library and numpy only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privpac.device.scores import walsh_hadamard
from privpac.errors import ParameterError, TooLargeError
from privpac.rng import Rng

__all__ = ["ChunkedHadamard", "HadamardSelection", "Report"]

MAX_WIDTH = 22
_LAW = 1 << 16
Report = tuple[int, int, int]


def _check(keep: Fraction, bits: int, width: int) -> None:
    if not (isinstance(keep, Fraction) and Fraction(1, 2) < keep < 1):
        raise ParameterError("keep must be a rational strictly between 1/2 and 1")
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits < 1 << 19:
        raise ParameterError("an item has between 1 and 2**19 - 1 bits")
    if not 1 <= width <= MAX_WIDTH:
        raise TooLargeError(
            f"one transform takes items of 1 to {MAX_WIDTH} bits, got {width}; use ChunkedHadamard for longer ones"
        )


@dataclass(frozen=True)
class ChunkedHadamard:
    """Items of ``bits`` bits in chunks of ``width``; ``keep`` is the chance of telling the truth."""

    bits: int
    keep: Fraction
    width: int = 8

    def __post_init__(self) -> None:
        _check(self.keep, self.bits, self.width)
        if self.chunks >= 1 << 16:
            raise TooLargeError(f"{self.chunks} chunks are more than 65535; use wider ones")

    @property
    def chunks(self) -> int:
        return -(-self.bits // self.width)

    def width_of(self, chunk: int) -> int:
        """Bits of one chunk: the last may be shorter."""
        return min(self.width, self.bits - chunk * self.width)

    # On the device

    def report(self, item: int | None, rng: Rng) -> Report:
        """``(chunk, j, bit)`` for an item of ``0..2**bits - 1``, or for nothing to say.

        As many words are drawn for ``None`` as for an item.
        """
        if item is not None and not 0 <= item < 1 << self.bits:
            raise ParameterError(f"the item must have at most {self.bits} bits")
        chunk = rng.below(self.chunks)
        width = self.width_of(chunk)
        j = rng.below(1 << width)
        coin, truth = rng.bits(1), rng.below(self.keep.denominator) < self.keep.numerator
        if item is None:
            return chunk, j, coin
        value = (item >> (chunk * self.width)) & ((1 << width) - 1)
        sign = 1 - ((j & value).bit_count() & 1)
        return chunk, j, sign if truth else 1 - sign

    def message_law(self, item: int | None) -> dict[Report, Fraction]:
        """The exact law of :meth:`report`, for short chunks."""
        if item is not None and not 0 <= item < 1 << self.bits:
            raise ParameterError(f"the item must have at most {self.bits} bits")
        if self.chunks << self.width > _LAW:
            raise TooLargeError(f"a law of more than {_LAW} chunks and values is not written out; take a smaller width")
        law: dict[Report, Fraction] = {}
        for chunk in range(self.chunks):
            width = self.width_of(chunk)
            value = 0 if item is None else (item >> (chunk * self.width)) & ((1 << width) - 1)
            for j in range(1 << width):
                sign = 1 - ((j & value).bit_count() & 1)
                for bit in (0, 1):
                    told = Fraction(1, 2) if item is None else self.keep if bit == sign else 1 - self.keep
                    law[chunk, j, bit] = told / (self.chunks << width)
        return law

    def accepts(self, report: Report) -> bool:
        """Whether a report could come from an honest client."""
        chunk, j, bit = report
        return 0 <= chunk < self.chunks and 0 <= j < 1 << self.width_of(chunk) and bit in (0, 1)

    # At the server

    def sums(self, reports: Iterable[Report]) -> list[NDArray[np.int64]]:
        """Signed reports by chunk and ``j``; what is not acceptable is left out."""
        totals = [np.zeros(1 << self.width_of(chunk), dtype=np.int64) for chunk in range(self.chunks)]
        for chunk, j, bit in filter(self.accepts, reports):
            totals[chunk][j] += 2 * bit - 1
        return totals

    def spectra(self, reports: Iterable[Report]) -> list[NDArray[np.int64]]:
        """For each chunk, and each of its values ``v``, the sum of ``s_i (-1)**<j_i, v>``: estimates before scaling."""
        return [walsh_hadamard(total) for total in self.sums(reports)]

    def estimates(self, reports: Iterable[Report]) -> list[list[Fraction]]:
        """For each chunk the unbiased estimates of the counts, over the reports of that chunk."""
        scale = 1 / (2 * self.keep - 1)
        return [[scale * int(v) for v in spectrum] for spectrum in self.spectra(reports)]

    def decode(self, reports: Iterable[Report]) -> int:
        """The item put together from the likeliest value of every chunk; ties go to the smaller value."""
        item = 0
        for chunk, spectrum in enumerate(self.spectra(reports)):
            item |= int(np.argmax(spectrum)) << (chunk * self.width)
        return item


def HadamardSelection(bits: int, keep: Fraction) -> ChunkedHadamard:
    """Items of at most 22 bits in one transform."""
    _check(keep, bits, bits)
    return ChunkedHadamard(bits, keep, bits)
