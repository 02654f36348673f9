"""Constants of the list learner for Littlestone classes: all public, all exact.

``q(v, rho)`` is the depth to which irreducibility forces accuracy, ``k_0 = 0, k_{i+1} = k_i + max(k_i + 1, q)`` are the
depths of the trees, ``e_j = rho alpha ((d+1-j)/d)^2`` the error levels (equally spaced square roots), and the cut-offs
``t_i`` separate sample errors of the level ``e_{i+1}`` from those of level ``e_i`` as well as binomial tails allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from itertools import accumulate, islice, pairwise
from math import comb
from typing import Any, NamedTuple

from privpac.agreement.littlestone.reduction import growth
from privpac.agreement.races.words import integer, rational
from privpac.errors import ParameterError, TooLargeError

__all__ = ["ListReductionPlan", "accuracy_order", "cutoffs", "depths", "error_levels", "list_bound", "plan_reduction"]

_CONTEXT = Context(prec=60, Emin=-(10**15), Emax=10**15)
_NEGLIGIBLE = Decimal(10) ** -70
_MOST_FRESH = 120
_MOST_RECORDS = 10**6


@cache
def accuracy_order(v: int, rho: Fraction = Fraction(1, 4)) -> int:
    """The least ``q`` with ``growth(q+u, v) binom(q+t, q) < binom(q+u, q) Pr[Bin(u, rho) <= t]`` for some ``q <= u <
    120`` and ``t``.

    Fewer fresh points than ``q`` are not tried: they would save a step at most, and only for large ``rho``.

    >>> [accuracy_order(v) for v in (1, 2, 3)]
    [3, 5, 7]
    """
    v, share = integer("v", v, 0), rational("rho", rho)
    if not 0 < share < 1:
        raise ParameterError(f"rho must be between 0 and 1, got {rho}")
    a, b = share.numerator, share.denominator
    tails: list[list[int]] = []
    for u in range(_MOST_FRESH):
        row, total = [], 0
        for t in range(u + 1):
            total += comb(u, t) * a**t * (b - a) ** (u - t)
            row.append(total)
        tails.append(row)
    for q in range(1, _MOST_FRESH):
        for u in range(q, _MOST_FRESH):
            left, right, scale = growth(q + u, v), comb(q + u, q), b**u
            # t < u: with t = u the inequality reads growth < 1.
            if any(left * comb(q + t, q) * scale < right * tails[u][t] for t in range(u)):
                return q
    raise TooLargeError(f"no order was found for VC dimension {v}; lower v or rho")


def depths(d: int, q: int, levels: int | None = None) -> tuple[int, ...]:
    """Depths ``k_0..k_d`` (or as many as asked for).

    >>> depths(3, 7)
    (0, 7, 15, 31)
    """
    out = [0]
    while len(out) < (integer("d", d, 0) + 1 if levels is None else levels):
        out.append(out[-1] + max(out[-1] + 1, integer("q", q, 1)))
    return tuple(out)


def list_bound(d: int, q: int, size: int | None = None) -> int:
    """The largest length of a list: ``sum_i min(growth(k_i, d), |C|)``."""
    bounds = [growth(k, d) for k in depths(d, q)]
    return sum(bounds if size is None else [min(bound, size) for bound in bounds])


def error_levels(d: int, alpha: Any, rho: Any = Fraction(1, 4)) -> tuple[Fraction, ...]:
    """``e_0..e_{d+1}``."""
    d = integer("d", d, 1)
    top = rational("alpha", alpha) * rational("rho", rho)
    return tuple(top * Fraction(d + 1 - j, d) ** 2 for j in range(d + 2))


def cutoffs(levels: Sequence[Fraction], m: int) -> tuple[tuple[int, ...], Fraction]:
    """The cut-offs ``t_0..t_d`` for ``m`` records, and the sum over levels of the larger tail (times |C| it bounds the
    failure)."""
    m = integer("m", m, 1)
    if len(levels) < 2 or any(not 0 <= b < a <= 1 for a, b in pairwise(levels)):
        raise ParameterError("levels must fall strictly within 1..0")
    pairs = list(pairwise(levels))
    found = [_cut(high, low, m) for high, low in pairs[:-1]]
    last = _rounded_up(next(_probabilities(pairs[-1][0], m)))
    return (*(t for t, _ in found), 0), sum((tail for _, tail in found), last)


def _cut(high: Fraction, low: Fraction, m: int) -> tuple[int, Fraction]:
    """The ``t`` that minimises the larger of ``Pr[Bin(m, low) > t]`` (falling) and ``Pr[Bin(m, high) <= t]`` (rising),
    and that tail.

    Sums of positive terms in 60-digit decimals, rounded up at the end; the crossing is at or before the median of the
    larger law.
    """
    last = min(m, -(-m * high.numerator // high.denominator))
    rising = list(accumulate(islice(_probabilities(high, m), last + 1), _CONTEXT.add))
    falling = [Decimal(0)]
    probabilities = _probabilities(low, m)
    below = list(islice(probabilities, last + 1))
    for term in probabilities:
        # Beyond the mean the terms fall faster than a geometric series: what is left out is covered by the rounding up.
        if term <= _NEGLIGIBLE * falling[0]:
            break
        falling[0] = _CONTEXT.add(falling[0], term)
    for term in reversed(below[1:]):
        falling.append(_CONTEXT.add(falling[-1], term))
    tail, t = min((max(up, down), t) for t, (up, down) in enumerate(zip(rising, reversed(falling))))
    return t, _rounded_up(tail)


def _rounded_up(value: Decimal) -> Fraction:
    """Well above the error of some millions of roundings at 60 digits."""
    return Fraction(value) * (1 + Fraction(1, 10**40))


def _probabilities(p: Fraction, m: int) -> Iterator[Decimal]:
    """``Pr[Bin(m, p) = k]`` for k = 0..m; 0 < p <= 1."""
    if p == 1:
        yield from (Decimal(0) for _ in range(m))
        yield Decimal(1)
        return
    odds = _CONTEXT.divide(Decimal(p.numerator), Decimal(p.denominator - p.numerator))
    term = _CONTEXT.power(_CONTEXT.divide(Decimal(p.denominator - p.numerator), Decimal(p.denominator)), m)
    for k in range(m + 1):
        yield term
        term = _CONTEXT.divide(_CONTEXT.multiply(_CONTEXT.multiply(term, odds), Decimal(m - k)), Decimal(k + 1))


class ListReductionPlan(NamedTuple):
    """Everything public that the list learner needs, and what it promises."""

    dimension: int
    depths: tuple[int, ...]
    cutoffs: tuple[int, ...]
    records: int
    list_bound: int
    failure: Fraction


def plan_reduction(
    size: int, d: int, alpha: Any, zeta: Any = "1/20", *, rho: Any = "1/4", v: int | None = None
) -> ListReductionPlan:
    """The least number of records with ``|C| * tail sum <= zeta`` (found by doubling and halving), and the cut-offs for
    it."""
    size, d = integer("size", size, 1), integer("d", d, 0)
    failure, share, excess = rational("zeta", zeta), rational("rho", rho), rational("alpha", alpha)
    if not (0 < failure < 1 and 0 < share < 1 and 0 < excess <= 1):
        raise ParameterError(f"zeta and rho must be between 0 and 1 and alpha in (0, 1], got {zeta}, {rho} and {alpha}")
    if d == 0:
        return ListReductionPlan(0, (0,), (0,), 1, 1, Fraction(0))
    q = accuracy_order(d if v is None else integer("v", v, 1, d), share)
    levels = error_levels(d, excess, share)
    if levels[0] > 1:
        raise ParameterError(f"alpha * rho * ((d+1)/d)**2 must be at most 1, got {levels[0]}; lower rho")
    high = 1
    while size * cutoffs(levels, high)[1] > failure:
        high *= 2
        if high > _MOST_RECORDS:
            raise TooLargeError(f"more than {_MOST_RECORDS} records per list would be needed; raise alpha or zeta")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if size * cutoffs(levels, middle)[1] <= failure else (middle, high)
    cuts, tail = cutoffs(levels, high)
    return ListReductionPlan(d, depths(d, q), cuts, high, list_bound(d, q, size), size * tail)
