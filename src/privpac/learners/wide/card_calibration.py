"""How often the label is 1 at so many points: the calibration of a points card.

The possible points are cut into five bands of equal width.  Everybody spreads 840 votes over the ten cells (band,
label) according to their own records, so one person moves the sums by a vector of non-negative entries and L1 norm at
most 840: its squared norm is at most ``840**2``, and of the difference of two such vectors at most ``2 * 840**2``
(``|u - v|**2 = |u|**2 + |v|**2 - 2 u.v``, and ``u.v >= 0``).  Discrete Gaussian noise of that size is added; rates,
intervals and the order of the bands follow from the noisy sums: post-processing.

A rate is about the people the card was learned from.  They fit it a little better than others do, so chances for other
people are best measured on other people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.cards.card import Band, Card, band_edges, bands_of
from privpac.concepts.kernels.shares import user_tables
from privpac.learners.wide.card_kernels import Packed
from privpac.mechanisms.gaussian import normal_reach
from privpac.parameters import DEFAULT_LEVELS

__all__ = ["SAME_PEOPLE", "CalibrationPass", "bands_from"]

BANDS = 5
FAILURE = Fraction(1, 20)
SAME_PEOPLE = (
    "the chances of the card were measured on the people it was learned from; other people fit it less well: measure "
    "them with privpac evaluate on other people"
)


@dataclass(frozen=True)
class CalibrationPass:
    """The cells (band, another label), (band, ``answer``), band by band."""

    card: Card
    answer: int = 1

    @property
    def edges(self) -> tuple[int, ...]:
        return band_edges(self.card.most, BANDS)

    @property
    def size(self) -> int:
        return 2 * len(self.edges)

    def over(self, packed: Packed) -> NDArray[np.int64]:
        totals = np.zeros(len(packed.labels), np.int64)
        for j, points in enumerate(self.card.points):
            totals += np.array(points, np.int64)[packed.codes[:, j]]
        cells = (2 * bands_of(totals, self.edges) + (packed.labels == self.answer)).astype(np.uint8)
        return user_tables(packed.offsets, cells, self.size, DEFAULT_LEVELS, True, -1)


def bands_from(edges: Sequence[int], noisy: Sequence[int], variance: Fraction) -> tuple[Band, ...]:
    """Rates that rise with the points, each with an interval for the rate on these people (95 % each).

    Rounding moves a person's votes in a cell by less than one, so those of all by less than the number of people, which
    is the 840th part of all votes: in a band that everybody seldom sees this may be all there is.  Two noises and the
    number of people may each fail with a third of 5 %.
    """
    zeros, ones = [max(0, v) for v in noisy[::2]], [max(0, v) for v in noisy[1::2]]
    rates = _rising(ones, [a + b for a, b in zip(ones, zeros)])
    most = sum(noisy) + len(noisy) * normal_reach(variance, FAILURE / (3 * len(noisy)))
    reach = normal_reach(variance, FAILURE / 3) + max(0, -(-most // DEFAULT_LEVELS))
    out = []
    for last, rate, zero, one in zip(edges, rates, noisy[::2], noisy[1::2]):
        low = _share(max(0, one - reach), max(0, zero + reach), Fraction(0))
        high = _share(max(0, one + reach), max(0, zero - reach), Fraction(1))
        out.append(Band(last, rate, min(low, rate), max(high, rate)))
    return tuple(out)


def _share(one: int, zero: int, otherwise: Fraction) -> Fraction:
    return Fraction(one, one + zero) if one + zero else otherwise


def _rising(ones: Sequence[int], sizes: Sequence[int]) -> list[Fraction]:
    """The rates ``ones/sizes`` made to rise: neighbours that fall are pooled; empty bands take the rate before them."""
    pools: list[list[int]] = []
    for one, size in zip(ones, sizes):
        pools.append([one, size, 1])
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] >= pools[-1][0] * pools[-2][1]:
            last = pools.pop()
            pools[-1] = [a + b for a, b in zip(pools[-1], last)]
    return [rate for one, size, bands in pools for rate in [_share(one, size - one, Fraction(1, 2))] * bands]
