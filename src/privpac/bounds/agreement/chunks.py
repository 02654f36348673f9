"""Users for a plurality of items that are told in chunks: every user reports one chunk of the item, uniformly chosen.

With ``B`` chunks ``n_k ~ Bin(n, 1/B)`` users report chunk ``k``; given that number each of them names the right value
with probability ``share``, independently, so a chunk fails as a plurality of ``n_k`` users over ``2**width`` values
does, and ``B E[failure(n_k)]`` bounds the failure of all.  One chunk is the case of
:mod:`privpac.bounds.agreement.plurality`.

*Who names something else.*  With ``c`` right votes the other ``n_k - c`` do most harm on one value: noise differences
``Y - Y'`` are symmetric and most likely near 0, so ``Pr[Y - Y' >= c - v]`` grows ever faster with the votes ``v`` of a
rival up to ``v = c``.  Beyond that (``3 c <= n_k``: two rivals as strong as the right value) the bound is 1 anyway.
Having nothing to say is one more rival, which must beat all chunks together and so at least one of them, or two chunks
are lost to a majority and the bound is 1 again.

*No agreement.*  With ``clear`` a value is told only if it is beyond what half of the people could name
(:func:`local_edge`, :func:`shuffle_edge`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.agreement.plurality import _difference_tail, local_edge, shuffle_edge
from privpac.bounds.certificate import SLACK, Certificate, open_unit, positive
from privpac.bounds.laws import binom, nbinom
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.least import least

__all__ = ["users_local_chunks", "users_shuffle_chunks"]

_SHARE = Fraction(9, 10)
_MOST = 1 << 24
Array = NDArray[np.float64]


def users_local_chunks(
    keep: Rational, bits: int, width: int, *, beta: Rational, share: Rational = _SHARE, clear: Rational | None = None
) -> Certificate:
    """:class:`ChunkedHadamard`, keep probability ``keep``: every chunk's estimates within ``c sqrt(2 n_k ln(12 B
    2**w/beta))`` and a clear majority.

    Estimates and votes fail with probability ``beta/6`` each, over all chunks.  With ``clear`` the sum of the right
    value's signs must be beyond the edge, too: a sign is +1 with probability ``share keep + (1 - share)/2``
    (who names another value, or none, has a fair one), so a sum of ``n_k`` of them has an exact binomial tail, which is
    added to that of the votes.

    >>> users_local_chunks("0.7310585784725845", 64, 16, beta="0.1").n_users
    4658
    """
    # Exactly, then rounded: keep may be close to one half.
    scale = 1 / float(2 * rational(keep, "keep", above=Fraction(1, 2), below=1) - 1)
    b, q = open_unit(beta, "beta"), _read_share(share)
    chunks = -(-positive_int(bits, "bits") // positive_int(width, "width", maximum=64))
    log = math.log(12 / b) + math.log(chunks) + width * math.log(2)
    places, plus = chunks << width, q * float(rational(keep, "keep")) + (1 - q) / 2

    def fails(n: NDArray[np.int64]) -> Array:
        # A majority of more than 2 sqrt(2 n log)/(2 keep - 1) over all others.
        needed = (n + 2 * scale * np.sqrt(2 * n * log)) / 2
        least_votes = np.floor(needed * (1 + SLACK)) + 1
        few = np.asarray(binom.cdf(least_votes - 1, n, q))
        if clear is None:
            return few
        # A sum 2 X - n of X plus signs is not beyond the edge iff X <= (n + edge)/2.
        edge = (n + local_edge(keep, n, places, chunks, clear)) / 2
        hidden = np.asarray(binom.cdf(np.floor(edge * (1 + SLACK)), n, plus * (1 - SLACK)))
        return np.asarray(np.minimum(few + hidden, 1))

    n = _least(fails, chunks, b / 6)
    return Certificate.upper(
        n, "local plurality in chunks", f"a share of {q:g} names one item", chunks=chunks, width=width
    )


def users_shuffle_chunks(
    r: Rational,
    p: Rational,
    bits: int,
    width: int,
    *,
    beta: Rational,
    share: Rational = _SHARE,
    clear: Rational | None = None,
) -> Certificate:
    """:class:`ShuffleSelection` with chunks, noise ``NB(r, p)`` in each of ``B 2**width`` buckets and the one of no
    answer: ``B E min(1, Pr[Y - Y' >= 2 c - n_k] + (2**w + 1) Pr[Y - Y' >= c]) <= beta/3``; with ``clear`` the chance of
    ``c + Y <= edge`` is added, in every chunk."""
    b, q = open_unit(beta, "beta"), _read_share(share)
    chunks = -(-positive_int(bits, "bits") // positive_int(width, "width", maximum=16))
    shape, odds = positive(r, "r"), open_unit(p, "p")
    tail = _difference_tail(shape, odds)
    last, others = len(tail) // 2, (1 << width) + 1

    def at_least(k: NDArray[np.int64]) -> Array:
        return tail[np.clip(k, -last, last) + last]

    def fails(ns: NDArray[np.int64]) -> Array:
        out = []
        for n in ns.tolist():
            # Numbers of right votes 12 deviations away count as failures.
            spread = 12 * math.sqrt(n * q * (1 - q)) + 60
            low, high = max(0, math.floor(n * q - spread)), min(n, math.ceil(n * q + spread))
            c = np.arange(low, high + 1)
            lost = float(binom.cdf(low - 1, n, q) + binom.sf(high, n, q))
            out.append(float(binom.pmf(c, n, q) @ np.minimum(1, at_least(2 * c - n) + others * at_least(c))) + lost)
        return np.array(out)

    def hidden(n: int) -> float:
        if clear is None:
            return 0.0
        edge = shuffle_edge(shape, odds, (chunks << width) + 1, open_unit(clear, "clear"), speak=n, chunks=chunks)
        k = np.arange(min(n, edge) + 1)
        return float(binom.pmf(k, n, q / chunks) @ nbinom.cdf(edge - k, shape, 1 - odds))

    # Tails are known down to their last entry only: a smaller failure is never reached.
    if chunks * others * float(tail[-1]) > b / 3:
        return Certificate.upper(
            None, "shuffled plurality in chunks", f"a share of {q:g} names one item", chunks=chunks, width=width
        )
    n = _least(fails, chunks, b / 3, hidden)
    return Certificate.upper(
        n, "shuffled plurality in chunks", f"a share of {q:g} names one item", chunks=chunks, width=width
    )


def _read_share(share: Rational) -> float:
    return float(rational(share, "share", above=Fraction(1, 2), maximum=1))


def _least(
    fails: Callable[[NDArray[np.int64]], Array],
    chunks: int,
    limit: float,
    hidden: Callable[[int], float] = lambda n: 0.0,
) -> int | None:
    """The least ``n`` (by bisection) with ``chunks (E[fails(n_k)] + hidden(n)) <= limit``; users per chunk far from the
    mean fail.

    Whole edges and parity make steps: it must also hold for the 16 numbers after it.
    """
    known: dict[int, float] = {0: 1.0}

    def holds(n: int) -> bool:
        mean, spread = n / chunks, 12 * math.sqrt(n / chunks) + 60
        low, high = (n, n) if chunks == 1 else (max(0, math.floor(mean - spread)), min(n, math.ceil(mean + spread)))
        k = np.arange(low, high + 1, dtype=np.int64)
        new = np.array([value for value in k.tolist() if value not in known], dtype=np.int64)
        if len(new):
            known.update(zip(new.tolist(), fails(new).tolist()))
        weights = np.ones(1) if chunks == 1 else binom.pmf(k, n, 1 / chunks)
        expected = float(weights @ np.array([known[value] for value in k.tolist()]))
        if chunks > 1:
            expected += float(binom.cdf(low - 1, n, 1 / chunks) + binom.sf(high, n, 1 / chunks))
        return chunks * (expected + hidden(n)) * (1 + SLACK) <= limit

    found = least(holds, limit=_MOST)
    while found is not None:
        lapse = next((n for n in range(found + 16, found, -1) if not holds(n)), None)
        if lapse is None:
            break
        found = lapse + 1 if lapse + 1 < _MOST else None
    return found
