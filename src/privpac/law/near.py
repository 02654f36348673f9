"""One exact draw from step functions, without laying out their law.

Scores of millions of blocks are far above the best one; their weight is below what 64 random bits can tell from 0.  So
the blocks near the best score are looked at first, with a bound of the weight of all others: the filter of
``law.levels``, which settles almost every draw.  The few others go on with the same bits and the whole law, so the law
of what is drawn is exactly the stated one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.exact import Rational
from privpac.law.blocks import BlockLaw
from privpac.law.build import read_rate, step_law
from privpac.law.counts import Ints, Uints, grouped, locate
from privpac.law.levels import Filter, draw, representable
from privpac.rng import Rng, secret_rng

__all__ = ["Part", "near_reach", "sample_near", "sample_steps"]

Part = tuple[int, NDArray[np.uint64], int, Ints, int]
"""Offset, starts, end, scores as in ``Law.from_steps``, and what is added to every score."""


def near_reach(eta: Rational, count: int) -> int | None:
    """How far above the best score a draw among ``count`` values looks at first; None: at all of them."""
    bits = count.bit_length()
    return Filter.reach(read_rate(eta, None), bits) if representable(bits) else None


def sample_steps(parts: Sequence[Part], eta: Rational, rng: Rng | None = None) -> int:
    """A value drawn from ``Law.from_steps`` of these steps: weight ``e**(-eta * score)``."""
    source = secret_rng(rng)
    best = min(int(scores.min()) + more for *_, scores, more in parts)
    count = sum(end + 1 - int(starts[0]) for _, starts, end, _, _ in parts)
    reach = near_reach(eta, count)
    if reach is None or reach >= max(int(scores.max()) + more for *_, scores, more in parts) - best:
        return int(_whole(parts, eta).sample(source))
    return sample_near(parts, eta, count, reach, source, lambda: parts)


def sample_near(
    parts: Sequence[Part], eta: Rational, count: int, reach: int, source: Rng, all_parts: Callable[[], Sequence[Part]]
) -> int:
    """The same, where ``parts`` need hold no more than the blocks at most ``reach`` above the best, of ``count`` values
    in all."""
    best, rate = min(int(scores.min()) + more for *_, scores, more in parts), read_rate(eta, None)
    lows, span, gaps, big, owner = _near(parts, best, reach)
    levels, totals = grouped(gaps, span, big)
    table = Filter.of(levels, totals, rate, Filter.tail(rate, reach, count.bit_length()))
    law: list[BlockLaw] = []

    def exact() -> Any:
        law.append(_whole(all_parts(), eta))
        return law[0].levels

    gap, total = draw(source, table, exact)
    r = source.below(total)
    if law and gap > reach:
        i, inside = locate(np.flatnonzero(law[0].score == best + gap), r, law[0].span, law[0].big)
        return law[0].low(i) + inside
    i, inside = locate(np.flatnonzero(gaps == gap), r, span, big)
    return parts[int(owner[i])][0] + int(lows[i]) + inside


def _whole(parts: Sequence[Part], eta: Rational) -> BlockLaw:
    return step_law([(offset, starts, end, scores + more) for offset, starts, end, scores, more in parts], eta, None)


def _near(parts: Sequence[Part], best: int, cut: int) -> tuple[Uints, Uints, Ints, dict[int, int], Ints]:
    """Blocks at most ``cut`` above the best: starts, spans, gaps, the few spans beyond 64 bits, and the part of
    each."""
    lows, spans, gaps, owners, big, n = [], [], [], [], {}, 0
    for p, (_, starts, end, scores, more) in enumerate(parts):
        near = np.flatnonzero(scores <= best + cut - more)
        low = starts[near]
        after = np.minimum(near + 1, len(starts) - 1)
        span = starts[after] - low - np.uint64(1)
        if len(near) and near[-1] == len(starts) - 1:
            last = end - int(starts[-1])
            if last >= 1 << 64:
                big[n + len(near) - 1] = last + 1
            span[-1] = 0 if last >= 1 << 64 else last
        lows.append(low)
        spans.append(span)
        gaps.append(scores[near] + (more - best))
        owners.append(np.full(len(near), p, dtype=np.int64))
        n += len(near)
    return np.concatenate(lows), np.concatenate(spans), np.concatenate(gaps), big, np.concatenate(owners)
