"""The common refinement of two block laws: how many values have score ``a`` in one and ``b`` in the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpac.errors import LawError
from privpac.law.blocks import BlockLaw
from privpac.law.counts import Ints, Totals, Uints, grouped

__all__ = ["Pairs", "Refinement", "grouped_pairs", "paired", "refined"]

_DOMAINS = "the two laws live on different domains"


@dataclass(frozen=True)
class Pairs:
    """Groups of values by (gap in P minus gap in Q, gap in P), in increasing order, with their exact number."""

    difference: Ints
    gap: Ints
    totals: Totals


class Refinement(NamedTuple):
    """Every block of the common refinement: its gap in P and in Q, and how many values it has (one more than ``span``,
    or what ``big`` says)."""

    p: Ints
    q: Ints
    span: Uints
    big: dict[int, int]


def refined(p: BlockLaw, q: BlockLaw) -> Refinement:
    """The common refinement; different domains are a ``LawError``."""
    if p.lows is None or q.lows is None:
        order = _same_labels(p, q)
        return Refinement(p.gaps, q.gaps[order], p.span, p.big)
    if p.same_layout(q):
        return Refinement(p.gaps, q.gaps, p.span, p.big)
    found = None
    if (
        p.lows.dtype == np.uint64
        and q.lows.dtype == np.uint64
        and [o for _, o in p.segments] == [o for _, o in q.segments]
    ):
        found = _refine_segments(p, q)
    first, second, span, big = found or _refine_any(p, q)
    return Refinement(p.gaps[first], q.gaps[second], span, big)


def paired(p: BlockLaw, q: BlockLaw) -> Pairs:
    """Groups over the common refinement; different domains are a ``LawError``."""
    return grouped_pairs(refined(p, q))


def _same_labels(p: BlockLaw, q: BlockLaw) -> NDArray[np.intp]:
    """Where the blocks of ``p`` stand in ``q``."""
    order = np.arange(len(p))
    same = p.lows is q.lows and len(p) == len(q)
    if same and p.labels != q.labels:
        places = [q.place(p.label(i)) for i in range(len(p))]
        same = None not in places
        order = np.array(places if same else [], dtype=np.intp)
    if same and not (p.big or q.big):
        same = bool((p.span == q.span[order]).all())
    elif same:
        same = all(p.count(i) == q.count(j) for i, j in enumerate(order.tolist()))
    if not same:
        raise LawError("the two laws live on different labelled blocks")
    return order


def grouped_pairs(common: Refinement) -> Pairs:
    """Blocks of the same two gaps together."""
    a, b, span, big = common
    difference = a - b
    low, width = int(difference.min()), int(a.max()) + 1
    if (int(difference.max()) - low + 1) * width < 1 << 62:
        keys, totals = grouped((difference - low) * width + a, span, big)
        return Pairs(keys // width + low, keys % width, totals)
    # Gaps too wide to pack: number them first.
    gaps, place = np.unique(a, return_inverse=True)
    differences, which = np.unique(difference, return_inverse=True)
    keys, totals = grouped(which.astype(np.int64) * len(gaps) + place, span, big)
    return Pairs(differences[keys // len(gaps)], gaps[keys % len(gaps)], totals)


Refined = tuple[NDArray[np.intp], NDArray[np.intp], Uints, dict[int, int]]


def _bounds(law: BlockLaw, segment: int) -> tuple[int, int]:
    first = law.segments[segment][0]
    return first, law.segments[segment + 1][0] if segment + 1 < len(law.segments) else len(law)


def _refine_segments(p: BlockLaw, q: BlockLaw) -> Refined | None:
    """Segment by segment on uint64 starts; None when the segments have holes or do not match one by one."""
    assert p.lows is not None
    assert q.lows is not None
    first: list[NDArray[np.intp]] = []
    second: list[NDArray[np.intp]] = []
    spans: list[Uints] = []
    big: dict[int, int] = {}
    n = 0
    for s in range(len(p.segments)):
        (pa, pb), (qa, qb) = _bounds(p, s), _bounds(q, s)
        if not (_contiguous(p, pa, pb) and _contiguous(q, qa, qb)):
            return None
        p_low, q_low = p.lows[pa:pb], q.lows[qa:qb]
        end = int(p_low[-1]) + p.count(pb - 1)
        if int(p_low[0]) != int(q_low[0]) or end != int(q_low[-1]) + q.count(qb - 1):
            return None
        # Two sorted runs: a stable sort merges them in one pass.
        starts = np.concatenate([p_low, q_low])
        order = np.argsort(starts, kind="stable")
        starts, mine = starts[order], order < len(p_low)
        last = np.append(starts[1:] != starts[:-1], True)
        starts, p_at = starts[last], np.cumsum(mine)[last]
        first.append(pa + p_at - 1)
        second.append(qa + np.flatnonzero(last) - p_at)
        tail = end - 1 - int(starts[-1])
        if tail >= 1 << 64:
            big[n + len(starts) - 1] = tail + 1
            tail = 0
        spans.append(np.append(starts[1:] - starts[:-1] - np.uint64(1), np.uint64(tail)))
        n += len(starts)
    return np.concatenate(first), np.concatenate(second), np.concatenate(spans), big


def _contiguous(law: BlockLaw, a: int, b: int) -> bool:
    assert law.lows is not None
    low = law.lows[a:b]
    if any(a <= i < b - 1 for i in law.big):
        return False
    return bool((low[1:] - low[:-1] == law.span[a : b - 1] + np.uint64(1)).all())


def _refine_any(p: BlockLaw, q: BlockLaw) -> Refined:
    """Python ints of any size, any layout."""
    mine, theirs = _intervals(p), _intervals(q)
    i = j = 0
    first, second, counts = [], [], []
    while i < len(mine) and j < len(theirs):
        (a, b, x), (c, d, y) = mine[i], theirs[j]
        if a != c:
            raise LawError(_DOMAINS)
        stop = min(b, d)
        first.append(x)
        second.append(y)
        counts.append(stop - a)
        mine[i], theirs[j] = (stop, b, x), (stop, d, y)
        i += stop == b
        j += stop == d
    if i < len(mine) or j < len(theirs):
        raise LawError(_DOMAINS)
    big = {k: c for k, c in enumerate(counts) if c > 1 << 64}
    span = np.array([0 if k in big else c - 1 for k, c in enumerate(counts)], dtype=np.uint64)
    return np.array(first, dtype=np.intp), np.array(second, dtype=np.intp), span, big


def _intervals(law: BlockLaw) -> list[tuple[int, int, int]]:
    return sorted((law.low(i), law.low(i) + law.count(i), i) for i in range(len(law)))
