"""Reading scores, intervals and multiplicities into block laws; what is ill-formed is a ``LawError``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.errors import LawError, TooLargeError
from privpac.exact import Rational, rational
from privpac.law.blocks import BlockLaw, Lows
from privpac.law.numbers import MAX_BLOCKS, Ints, Uints, grouped, locate
from privpac.law.sampling import Filter, Rate, draw, representable
from privpac.rng import Rng, secret_rng

__all__ = [
    "Part",
    "candidate_law",
    "labelled_law",
    "near_reach",
    "read_rate",
    "read_scores",
    "sample_near",
    "sample_steps",
    "step_law",
    "value_law",
]


_CHUNK = 1 << 15


def read_rate(eta: Rational | None, base: Rational | None) -> Rate:
    if (eta is None) == (base is None):
        raise LawError("give exactly one of eta (weights e**(-eta * score)) and base (weights base**(-score))")
    if eta is not None:
        return Rate(rational(eta, "eta", minimum=0))
    return Rate(None, rational(base, "base", minimum=1))


def read_scores(score: Any, *, copy: bool = True) -> Ints:
    """Scores as int64; without ``copy`` the array may be the caller's own."""
    array = np.asarray(score)
    if array.ndim != 1 or array.size == 0:
        raise LawError(f"scores must be a non-empty one-dimensional array, got shape {array.shape}")
    if array.dtype.kind not in "iu" and not (array.dtype == object and all(_is_int(s) for s in array)):
        raise LawError(
            f"scores must be integers (scale rational scores, and the sensitivity with them), got {array.dtype}"
        )
    _check_blocks(array.size, int(array.min()), int(array.max()))
    return array.astype(np.int64, copy=copy)


def _check_blocks(n: int, low: int, high: int) -> None:
    """The number of blocks and the range of their scores."""
    if n > MAX_BLOCKS:
        raise TooLargeError(f"{n} blocks are more than {MAX_BLOCKS}; merge blocks of equal score")
    if high - low >= 1 << 62 or high >= 1 << 63 or low < -(1 << 63):
        raise LawError("scores must be 64-bit integers that span less than 2**62")


def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _read_spans(counts: Any, n: int) -> tuple[Uints, dict[int, int]]:
    if not isinstance(counts, (np.ndarray, Sequence)) or isinstance(counts, str):
        raise LawError(f"counts must be an array or a list of integers, got {type(counts).__name__}")
    array = counts if isinstance(counts, np.ndarray) else np.array(list(counts), dtype=object)
    if array.ndim != 1 or len(array) != n:
        raise LawError(f"{n} scores but multiplicities of shape {array.shape}")
    if array.dtype.kind in "iu":
        if int(array.min()) < 1:
            raise LawError("every multiplicity must be at least 1")
        spans = array.astype(np.uint64)
        spans -= np.uint64(1)
        return spans, {}
    values = [int(c) if _is_int(c) else 0 for c in array]
    if min(values) < 1:
        raise LawError("every multiplicity must be an integer of at least 1")
    return _as_spans([c - 1 for c in values])


def _as_spans(spans: list[int]) -> tuple[Uints, dict[int, int]]:
    big = {i: s + 1 for i, s in enumerate(spans) if s >= 1 << 64}
    return np.array([0 if i in big else s for i, s in enumerate(spans)] if big else spans, dtype=np.uint64), big


def candidate_law(score: Any, eta: Rational | None, base: Rational | None) -> BlockLaw:
    scores = read_scores(score)
    # All spans are the same zero, so one word of memory holds them.
    span = np.broadcast_to(np.zeros(1, dtype=np.uint64), len(scores))
    return BlockLaw(np.arange(len(scores), dtype=np.uint64), span, {}, scores, read_rate(eta, base))


def labelled_law(
    counts: Any, score: Any, eta: Rational | None, base: Rational | None, labels: Sequence[Hashable] | None
) -> BlockLaw:
    scores = read_scores(score)
    span, big = _read_spans(counts, len(scores))
    names = None if labels is None else tuple(labels)
    if names is not None and (len(names) != len(scores) or len(set(names)) != len(scores)):
        raise LawError("labels must be distinct, one for each block")
    return BlockLaw(None, span, big, scores, read_rate(eta, base), labels=names)


def value_law(
    lo: Any, hi: Any, score: Any, eta: Rational | None, base: Rational | None, domain: tuple[int, int] | None
) -> BlockLaw:
    rate, scores = read_rate(eta, base), read_scores(score, copy=False)
    lows, highs = _read_ints(lo, len(scores), "lo"), _read_ints(hi, len(scores), "hi")
    if lows.dtype != highs.dtype:
        lows, highs = lows.astype(object), highs.astype(object)
    if lo is not hi and (highs < lows).any():
        raise LawError("a block needs lo <= hi")
    if not (lows[1:] > highs[:-1]).all():
        order = np.argsort(lows, kind="stable")
        lows, highs, scores = lows[order], highs[order], scores[order]
        if not (lows[1:] > highs[:-1]).all():
            raise LawError("blocks overlap")
    touching = _touching(lows, highs)
    if domain is not None and not (touching.all() and (int(lows[0]), int(highs[-1])) == _read_domain(domain)):
        raise LawError("blocks must cover the domain without a gap")
    apart = ~touching
    apart |= scores[1:] != scores[:-1]
    # Boolean indexing copies, so the law owns its arrays.
    first = np.append(True, apart)
    lows, highs, scores = lows[first], highs[np.append(apart, True)], scores[first]
    if lows.dtype == object:
        span, big = _as_spans([int(b) - int(a) for a, b in zip(lows, highs)])
        return BlockLaw(lows, span, big, scores, rate)
    highs -= lows
    return BlockLaw(lows, highs.view(np.uint64), {}, scores, rate)


def _touching(lows: Lows, highs: Lows) -> NDArray[np.bool_]:
    """Whether each block begins right after the one before; chunk by chunk, so that temporaries stay in the cache."""
    out = np.empty(len(lows) - 1, dtype=bool)
    one = 1 if lows.dtype == object else np.uint64(1)
    for at in range(0, len(out), _CHUNK):
        stop = min(at + _CHUNK, len(out))
        # Disjoint and sorted, so a later block is above an earlier one and the difference cannot wrap.
        out[at:stop] = lows[at + 1 : stop + 1] - highs[at:stop] == one
    return out


def _read_domain(domain: Any) -> tuple[int, int]:
    if not (isinstance(domain, tuple) and len(domain) == 2 and all(_is_int(end) for end in domain)):
        raise LawError("domain must be a pair (first value, last value) of integers")
    return int(domain[0]), int(domain[1])


def _read_ints(values: Any, n: int, name: str) -> Lows:
    """Integers as uint64 (perhaps the caller's own array) or as Python ints."""
    if not isinstance(values, (np.ndarray, Sequence)) or isinstance(values, str):
        raise LawError(f"{name} must be an array or a list of integers, got {type(values).__name__}")
    array = values if isinstance(values, np.ndarray) else np.array(list(values), dtype=object)
    if array.ndim != 1 or len(array) != n:
        raise LawError(f"{name} must be one-dimensional with one entry for each of the {n} scores")
    if array.dtype.kind == "u" or (array.dtype.kind == "i" and int(array.min()) >= 0):
        return array.astype(np.uint64, copy=False)
    if array.dtype.kind != "i" and not (array.dtype == object and all(_is_int(v) for v in array)):
        raise LawError(f"{name} must hold integers")
    ints = [int(v) for v in array]
    if min(ints) >= 0 and max(ints) < 1 << 64:
        return np.array(ints, dtype=np.uint64)
    out: NDArray[np.object_] = np.empty(n, dtype=object)
    out[:] = ints
    return out


def step_law(steps: Iterable[tuple[int, Any, int, Any]], eta: Rational | None, base: Rational | None) -> BlockLaw:
    rate = read_rate(eta, base)
    parts = [(int(offset), int(end), *_read_step(offset, starts, end, values)) for offset, starts, end, values in steps]
    if not parts:
        raise LawError("a law needs at least one block")
    sizes = [len(score) if first is None else int(np.count_nonzero(first)) for *_, score, first in parts]
    _check_blocks(
        sum(sizes), min(int(score.min()) for *_, score, _ in parts), max(int(score.max()) for *_, score, _ in parts)
    )
    # Written once into arrays of the final size: with millions of blocks every further copy would show.
    lows, span, scores = (
        np.empty(sum(sizes), np.uint64),
        np.empty(sum(sizes), np.uint64),
        np.empty(sum(sizes), np.int64),
    )
    big: dict[int, int] = {}
    segments: list[tuple[int, int]] = []
    n, after = 0, None
    for (offset, end, low, score, first), size in zip(parts, sizes):
        if after is not None and offset + int(low[0]) <= after:
            raise LawError("step functions must follow one another without overlap")
        after = offset + end
        here = slice(n, n + size)
        if first is None:
            lows[here], scores[here] = low, score
        else:
            np.compress(first, low, out=lows[here])
            np.compress(first, score, out=scores[here])
        part, gaps = lows[here], span[here]
        np.subtract(part[1:], part[:-1], out=gaps[:-1])
        gaps[:-1] -= np.uint64(1)
        # The last block may hold more than 2**64 values; all others end before the next start.
        last = end - int(part[-1])
        if last >= 1 << 64:
            big[n + size - 1] = last + 1
        gaps[-1] = 0 if last >= 1 << 64 else last
        segments.append((n, offset))
        n += size
    return BlockLaw(lows, span, big, scores, rate, tuple(segments))


def _read_step(offset: Any, starts: Any, end: Any, values: Any) -> tuple[Uints, Ints, NDArray[np.bool_] | None]:
    """Starts and scores of one step function, and where a block begins if neighbours of equal score are to be
    merged."""
    score = read_scores(values, copy=False)
    read = _read_ints(starts, len(score), "starts")
    if read.dtype != np.uint64:
        raise LawError("starts must lie in 0..2**64-1; larger values go into the offset")
    low: Uints = read.view(np.uint64)
    if not (_is_int(offset) and _is_int(end)):
        raise LawError(f"offset and end must be integers, got {type(offset).__name__} and {type(end).__name__}")
    if not (low[1:] > low[:-1]).all() or end < int(low[-1]):
        raise LawError("a step function needs increasing starts, one score each, and end >= the last start")
    first = np.append(True, score[1:] != score[:-1])
    return low, score, None if first.all() else first


# One exact draw from step functions, without laying out their law.
#
# Scores of millions of blocks are far above the best one; their weight is below what 64 random bits can tell from 0.
# So the blocks near the best score are looked at first, with a bound of the weight of all others: the filter of
# ``law.levels``, which settles almost every draw.  The few others go on with the same bits and the whole law, so the
# law of what is drawn is exactly the stated one.


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
