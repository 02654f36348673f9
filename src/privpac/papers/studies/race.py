"""The exponential-noise race: who wins when every candidate runs with its own clock.

Candidate ``h`` gets ``E_h - eta s_h`` with independent standard exponential ``E_h``; the largest wins.  This is the law
of permute-and-flip.  The ``N`` candidates of one score are exchangeable, so a level runs once, with the largest of its
``N`` clocks, ``G = -ln(1 - U**(1/N))`` for uniform ``U``; then one of its candidates is drawn uniformly.

Exactness: ``G`` increases with ``U``, so the cylinder of the bits of ``U`` drawn so far encloses it; bits are added, 64
at a time, to all levels still in the race until the intervals of the leader and of everyone else are disjoint.  An
answer is given only when it is the same for all reals in the cylinders, and the undecided set shrinks to ties, a null
set.
"""

from __future__ import annotations

import numpy as np
from flint import arb
from numpy.typing import NDArray

from privpac.errors import Undecided
from privpac.exact import MAX_PRECISION, as_arb, precision
from privpac.law.blocks import BlockLaw
from privpac.law.numbers import locate
from privpac.law.sampling import Levels, Rate
from privpac.rng import Rng, secret_rng

__all__ = ["race_block", "winner"]


def race_block(blocks: BlockLaw, rng: Rng | None = None) -> tuple[int, int]:
    """One race among the values of ``blocks``, as (block, offset inside it)."""
    source = secret_rng(rng)
    levels = blocks.levels
    level = winner(levels, source)
    members = np.flatnonzero(blocks.score == blocks.best + int(levels.gaps[level]))
    return locate(members, source.below(levels.totals[level]), blocks.span, blocks.big)


def winner(levels: Levels, rng: Rng) -> int:
    """The level that wins the race."""
    if len(levels.totals) == 1:
        return 0
    words = rng.words(len(levels.totals))
    running = {level: int(words[level]) for level in _still_running(levels, words)}
    bits = 64
    while True:
        with precision(bits + 64):
            spans = {level: _position(levels, level, u, bits) for level, u in running.items()}
            leader = max(spans, key=lambda level: spans[level][0])
            front = spans[leader][0]
            # A level whose upper end is at most the leader's lower end cannot win (ties have probability 0).
            running = {
                level: u for level, u in running.items() if level == leader or not _behind(spans[level][1], front)
            }
        if len(running) == 1:
            return leader
        bits += 64
        if bits > MAX_PRECISION:
            raise Undecided("a race was not decided")
        running = {level: (u << 64) | rng.bits(64) for level, u in running.items()}


def _behind(upper: arb | None, front: arb) -> bool:
    return upper is not None and bool(upper <= front)


def _position(levels: Levels, level: int, u: int, bits: int) -> tuple[arb, arb | None]:
    """Lower and upper end of ``G - eta * gap`` for ``U`` in ``[u, u + 1) * 2**-bits``; None is infinity."""
    handicap = _cost(levels.rate, int(levels.gaps[level]))
    count = levels.totals[level]
    low = (_clock(u, bits, count) if u else arb(0)) - handicap
    high = None if u + 1 == 1 << bits else (_clock(u + 1, bits, count) - handicap).upper()
    return low.lower(), high


def _clock(u: int, bits: int, count: int) -> arb:
    """``-ln(1 - U**(1/count))`` at ``U = u * 2**-bits`` in (0, 1), without cancellation near either end."""
    log_u = (arb(u - (1 << bits)) * arb(2) ** -bits).log1p()
    return -(-(log_u / count).expm1()).log()


def _cost(rate: Rate, gap: int) -> arb:
    if rate.eta is not None:
        return as_arb(rate.eta * gap)
    assert rate.base is not None
    return as_arb(rate.base).log() * gap


def _still_running(levels: Levels, words: NDArray[np.uint64]) -> list[int]:
    """Levels that may still win, given 64 bits each; the others certainly lose.

    Let ``b`` be a lower bound on the position of some level.  By Bernoulli's inequality
    ``(1 - e**-x)**N >= 1 - N e**-x``, so ``1 - U >= N e**-(eta d + b)`` forces ``G <= eta d + b``: the level is behind.
    Doubles decide this with a margin of 1e-9, far above the error of the handful of IEEE operations involved.
    """
    n = len(levels.totals)
    if n <= 16 or levels.size.bit_length() >= 900:
        return list(range(n))
    hopes = _weights_above(levels) * np.array(list(levels.totals), dtype=np.float64)
    with precision(128):
        ahead = max(_position(levels, level, int(words[level]), 64)[0] for level in {0, int(np.argmax(hopes))})
        shrink = float((-ahead).exp().upper()) * (1 + 1e-9)
    # 1 - U > (2**64 - 1 - u) * 2**-64 for every U of the cylinder.
    behind = (~words).astype(np.float64) * 2.0**-64 > hopes * shrink * (1 + 1e-9)
    return [int(level) for level in np.flatnonzero(~behind)]


def _weights_above(levels: Levels) -> NDArray[np.float64]:
    """Doubles at most 1e-9 below the weights, relative; all far levels share the bound of the first of them."""
    cut = levels.rate.cut(80 + levels.size.bit_length())
    near = len(levels.gaps) if cut is None else int(np.searchsorted(levels.gaps, cut, side="right"))
    with precision(80):
        out = np.full(len(levels.gaps), 1.0 if cut is None else float(levels.rate.arb(cut + 1)), dtype=np.float64)
        out[:near] = [float(ball) for ball in levels.rate.balls(levels.gaps[:near].tolist())]
    return out
