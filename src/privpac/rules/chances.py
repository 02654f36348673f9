"""Chances of the labels: where a rule has them from, and how they are compared with a threshold.

A *region map* sends a record to one of a few regions by the released rule, public numbers and that record only: the
leaves of a small tree, bands of a scorecard's points, or what any other rule predicts.  From the noisy sums of what
people add to the cells ``labels * region + label`` follow the chances of each region (:func:`chances_of_regions`):
post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.errors import ParameterError
from privpac.exact import Rational, rational

NO_CHANCES = "this rule has no chances; learn with evaluate='1/5', or a small tree with calibrate='1/5'"

BANDS = (2, 4, 8, 16)
"""So many bands of a scorecard's points may be asked for."""
DEFAULT_BANDS = 4

_NOISES = 4
"""So many scales of the noise count as people who were never seen."""
_NUDGE = Fraction(1, 512)
"""How far the label that a region says is above the others, at least."""


class Regions(NamedTuple):
    """What each region of a rule is called, the label that the rule says there, and the regions by rising score where
    that is known before anything is measured; else ``ranked`` is empty.

    ``chances`` are the rule's own chances of 1 in each region, the mean over it; empty where it has none.
    """

    names: tuple[str, ...]
    own: tuple[int, ...]
    ranked: tuple[int, ...] = ()
    chances: tuple[float, ...] = ()


def chances_of_regions(
    sums: Sequence[int], own: Sequence[int], noise: Fraction, labels: int = 2
) -> tuple[tuple[Fraction, ...], ...]:
    """The chance of every label in every region, from noisy sums at this rate of noise.

    Every region is pulled to the shares of all regions together, and these to equal shares, as if four scales of the
    noise had been seen there; the region's own label then stays the likeliest, so that chances say what the rule says.

    >>> chances_of_regions([0, 0, 0, 0], (0, 1), Fraction(1, 720720))[1]
    (Fraction(256, 513), Fraction(257, 513))
    """
    unseen = _NOISES / noise
    rows = [sums[labels * g : labels * (g + 1)] for g in range(len(own))]
    totals = [max(0, sum(column)) for column in zip(*rows)]
    base = [(total + unseen / labels) / (sum(totals) + unseen) for total in totals]
    out = []
    for row, label in zip(rows, own):
        seen = [max(0, value) for value in row]
        chances = [(value + unseen * share) / (sum(seen) + unseen) for value, share in zip(seen, base)]
        others = [chance for y, chance in enumerate(chances) if y != label]
        chances[label] = max(chances[label], max(others) + _NUDGE)
        out.append(tuple(chance / sum(chances) for chance in chances))
    return tuple(out)


@frozen(slots=False)
class RegionSums:
    """Noisy sums of the cells ``labels * region + label``, and the rate of their noise, as a rule stores them."""

    sums: tuple[int, ...]
    noise: Fraction

    def __attrs_post_init__(self) -> None:
        if self.noise <= 0:
            raise ParameterError("the rate of the noise must be above 0")


def chance_threshold(threshold: Rational, labels: int) -> Fraction:
    """A threshold for chances, read as every rational is: a float means its shortest decimal."""
    if labels != 2:
        raise ParameterError("threshold= compares the chance of one of two labels; with more of them leave it out")
    return rational(threshold, "threshold", minimum=0, maximum=1)


def is_above(chances: NDArray[np.float64], threshold: Fraction) -> NDArray[np.int8]:
    """1 where the chance of 1 is above the threshold: compared as exact numbers."""
    nearest = float(threshold)
    ones = chances[:, 1]
    return np.asarray(ones > nearest if nearest <= threshold else ones >= nearest, np.int8)


def log_odds_from(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of the odds of 1, or of each label where there are more than two."""
    with np.errstate(divide="ignore"):
        odds = np.log(chances) - np.log1p(-chances)
    found: NDArray[np.float64] = odds if chances.shape[1] > 2 else odds[:, 1]
    return found
