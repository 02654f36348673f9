"""Labellings by cuts and by single values of one column; only order and equality of values matter, so domains of 2**64
cost nothing.

*Cuts.*  With distinct values ``p_1 < ... < p_u`` in T, the labelling "the i smallest are on the low side" is given by
the cuts of gap i, and ``M(i)`` is the least loss over that gap.  Two such labellings differ on the records between
them, so Q is a one-dimensional distance transform.  With both directions a labelling of the other direction differs on
all *other* records: ``t - |x| = min(t - x, t + x)``.

*Single values.*  ``{x}`` and ``{y}`` differ on the records at x and at y; the two smallest ``A * records + B * M``
decide all scores.  No record is labelled 1 iff the class has the zero rule, or a value that T does not hold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.labellings.base import Ints, Labellings, distance_minimum
from privpac.concepts.profile import Profile, Step

__all__ = ["gap_minima", "point_labellings", "threshold_labellings"]

Codes = NDArray[np.uint64]


def refined(step: Step, places: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], Ints]:
    """The step function with the given places among its starts."""
    starts = np.union1d(step.starts, places)
    return starts, step.scores[np.searchsorted(step.starts, starts, side="right") - 1]


def gap_minima(cut0: Step, cuts: Step, held: NDArray[np.uint64]) -> Ints:
    """The least loss over the cuts of every gap: ``0..p_1``, ``p_1 + 1..p_2``, ..., ``p_u + 1..N``.

    ``cuts`` starts at cut 1, so that its local id ``c`` is the cut ``c + 1``, the first one beyond the code ``c``.
    """
    starts, scores = refined(cuts, held)
    where = np.searchsorted(starts, held)
    out = np.empty(len(held) + 1, dtype=np.int64)
    out[1:] = np.minimum.reduceat(scores, where)
    out[0] = min(int(cut0.scores[0]), int(scores[: where[0]].min(initial=np.iinfo(np.int64).max)))
    return out


def threshold_labellings(points: Codes, directions: tuple[str, ...], profile: Profile, A: int, B: int) -> Labellings:
    held, rank, times = np.unique(points, return_inverse=True, return_counts=True)
    place = A * np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(times)])  # A times the records below gap i
    costs = [B * gap_minima(profile.steps[2 * d], profile.steps[2 * d + 1], held) for d in range(len(directions))]
    own = [distance_minimum(cost, place) for cost in costs]
    total = int(place[-1])
    if len(own) == 2:
        for d in (0, 1):
            other = costs[1 - d]
            opposite = np.minimum(
                total - place + int((other + place).min()), total + place + int((other - place).min())
            )
            own[d] = np.minimum(own[d], opposite)
        # Both directions give the two constants: the second direction keeps its inner gaps only.
        own[1] = own[1][1:-1]
    first = len(own[0])
    above = directions[0] == "above"

    def labels(i: int) -> NDArray[np.uint8]:
        gap, up = (i, above) if i < first else (i - first + 1, False)
        return (rank >= gap if up else rank < gap).astype(np.uint8)

    return Labellings(np.concatenate(own), labels)


def point_labellings(points: Codes, rules: int, profile: Profile, A: int, B: int) -> Labellings:
    """By ``rules`` single values, the zero rule among them if there is one."""
    held, rank, times = np.unique(points, return_inverse=True, return_counts=True)
    step = profile.steps[0]
    costs, mistakes = B * step.scores[np.searchsorted(step.starts, held, side="right") - 1], A * times.astype(np.int64)
    if rules > len(held):
        # Values that T does not hold: cut the held ones out of the step function.  A last code has nothing after it.
        after = held[held < np.uint64(step.end)] + np.uint64(1)
        starts, scores = refined(step, np.union1d(held, after))
        outside = scores[~np.isin(starts, held)]
        none = min(
            int(outside.min(initial=np.iinfo(np.int64).max)),
            *(int(s.scores[0]) for s in profile.steps[1:]),
            np.iinfo(np.int64).max,
        )
        costs, mistakes = np.append(costs, B * none), np.append(mistakes, 0)
    far = costs + mistakes
    order = np.argsort(far, kind="stable")[:2]
    least = np.full(len(far), far[order[0]])
    least[order[0]] = far[order[1]] if len(order) > 1 else np.iinfo(np.int64).max // 2
    scores_of = np.minimum(costs, mistakes + least)
    return Labellings(scores_of, lambda i: (rank == i).astype(np.uint8))
