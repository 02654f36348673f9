"""Many secret coins at once, exactly.

Every function turns uniform 64-bit words into its law without a rounding error: words that would bias it are drawn
again.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.rng import Rng

__all__ = ["below", "coins", "random_order"]

Ints = NDArray[np.int64]


def random_order(n: int, rng: Rng) -> Ints:
    """A uniform permutation of ``0..n-1``: the order of n distinct words; given that they are distinct, all orders are
    equally likely."""
    if n <= 1:
        return np.arange(n, dtype=np.int64)
    while True:
        words = rng.words(n)
        order = np.argsort(words, kind="stable")
        ordered = words[order]
        if bool((ordered[1:] != ordered[:-1]).all()):
            return order.astype(np.int64)


def below(sizes: Any, rng: Rng) -> Ints:
    """Independent uniform numbers in ``0..sizes[i]-1``; sizes of 1 draw nothing.

    The lowest ``2**64 mod m`` words are drawn again, which leaves a multiple of m.
    """
    limits = np.asarray(sizes, dtype=np.uint64)
    out = np.zeros(len(limits), dtype=np.int64)
    open_ = np.flatnonzero(limits > 1)
    while len(open_):
        m = limits[open_]
        words = rng.words(len(open_))
        good = words >= (np.zeros(1, dtype=np.uint64) - m) % m
        out[open_[good]] = (words[good] % m[good]).astype(np.int64)
        open_ = open_[~good]
    return out


def coins(n: int, probability: Fraction, rng: Rng) -> NDArray[np.bool_]:
    """``n`` independent coins that show True with a rational probability in [0, 1].

    A word below ``floor(2**64 p)`` is True, one above it False; at equality the fractional part decides with a coin of
    its own.
    """
    if probability >= 1:
        return np.ones(n, dtype=np.bool_)
    scaled = probability * (1 << 64)
    whole = scaled.__floor__()
    words = rng.words(n)
    out = words < np.uint64(whole)
    tied = np.flatnonzero(words == np.uint64(whole))
    if len(tied):
        out[tied] = coins(len(tied), scaled - whole, rng)
    return out
