"""From a depth to a point: the last two stages that every reduction of the interior-point problem shares.

Given sorted values of ``bits`` bits and a depth ``z``, choose a ``z``-bit prefix ``L`` held by many values (choosing
mechanism), then one of the points ``L0...0``, ``L10...0``, ``L1...1`` (only ``L`` if ``z = bits``), each cut at
``top``, by the exponential mechanism with score ``u(c) = min(#{x <= c}, #{x >= c})``.

**Guarantee.** For one replaced value: one vote moves, so ``L`` is ``(ln rL**2, delta_L)``; given ``L`` every ``u``
moves by at most 1, so the point is ``(ln rc**2, 0)``.  The candidates depend on the data through ``L`` and ``z`` only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from privpac.law.base import BOTTOM, Bottom, Law
from privpac.law.blocks import BlockLaw
from privpac.mechanisms.choosing import choosing_law, choosing_sample
from privpac.rng import Rng

__all__ = [
    "Outcome",
    "at_depths",
    "candidates",
    "interior_masses",
    "interior_score",
    "mixed",
    "point_law",
    "point_masses",
    "point_sample",
    "prefix_votes",
]

Outcome = int | Bottom
"""A point, or ``BOTTOM`` where the choosing mechanism abstained."""


def prefix_votes(values: Sequence[int], bits: int, z: int) -> dict[int, int]:
    """How many values have each ``z``-bit prefix."""
    return dict(Counter(x >> (bits - z) for x in values))


def candidates(prefix: int, z: int, bits: int, top: int) -> list[int]:
    """Both ends and the start of the right half of the prefix's block, cut at ``top``."""
    rest = bits - z
    if rest == 0:
        return [prefix]
    low = prefix << rest
    return sorted({min(c, top) for c in (low, low | 1 << (rest - 1), low | ((1 << rest) - 1))})


def interior_score(values: Sequence[int], point: int) -> int:
    """``u``: how many of the sorted values lie on the thinner side of the point, itself included."""
    return min(bisect_right(values, point), len(values) - bisect_left(values, point))


def point_law(values: Sequence[int], points: list[int], rc: Fraction) -> BlockLaw:
    """The exponential mechanism on the few points, ``values`` sorted."""
    law = Law.from_blocks(points, points, [-interior_score(values, c) for c in points], base=rc)
    assert isinstance(law, BlockLaw)
    return law


def point_sample(
    values: Sequence[int], bits: int, top: int, z: int, stage: tuple[Fraction, Fraction, Fraction], rng: Rng
) -> Outcome:
    """One exact draw; ``stage`` is ``(rL, delta_L, rc)``."""
    rL, delta_L, rc = stage
    prefix: Outcome = choosing_sample(prefix_votes(values, bits, z), rL, delta_L, rng=rng)
    if isinstance(prefix, Bottom):
        return prefix
    return int(point_law(values, candidates(prefix, z, bits, top), rc).sample(rng))


# Exact laws, for the curator and for audits


def interior_masses(values: Sequence[int], points: Iterable[int], base: Fraction) -> dict[Outcome, Fraction]:
    """``base**u`` over the points, normalised in integers."""
    scores = {c: interior_score(values, c) for c in points}
    low, high = min(scores.values()), max(scores.values())
    weights = {c: base.numerator ** (u - low) * base.denominator ** (high - u) for c, u in scores.items()}
    total = sum(weights.values())
    return {c: Fraction(w, total) for c, w in weights.items()}


def point_masses(
    values: Sequence[int], bits: int, top: int, z: int, stage: tuple[Fraction, Fraction, Fraction]
) -> dict[Outcome, Fraction]:
    """The law that :func:`point_sample` draws from."""
    rL, delta_L, rc = stage
    chosen = choosing_law(prefix_votes(values, bits, z), rL, delta_L)
    parts: list[tuple[Fraction, dict[Outcome, Fraction]]] = [(chosen.prob_exact(BOTTOM), {BOTTOM: Fraction(1)})]
    for block, number in chosen.blocks:
        share = number.exact
        assert share is not None  # rational bases
        parts.append((share, interior_masses(values, candidates(block.start, z, bits, top), rc)))
    return mixed(parts)


def mixed(parts: Iterable[tuple[Fraction, dict[Outcome, Fraction]]]) -> dict[Outcome, Fraction]:
    """``sum of share * law``."""
    out: dict[Outcome, Fraction] = {}
    for share, law in parts:
        for value, p in law.items():
            out[value] = out.get(value, Fraction(0)) + share * p
    return out


def at_depths(masses: dict[Outcome, Fraction]) -> dict[int, Fraction]:
    """Below the top of a recursion an abstention stands for depth 0."""
    out: dict[int, Fraction] = {}
    for z, share in masses.items():
        place = 0 if isinstance(z, Bottom) else z
        out[place] = out.get(place, Fraction(0)) + share
    return out
