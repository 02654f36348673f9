"""Regions by rising score: the area under their ROC curve, its intervals, and the cheapest threshold.

Regions are numbered ``g = 0, 1, ...`` by rising score, with noisy sums ``T[g]`` of labels 0 and 1; threshold ``g`` says
1 above region ``g``, ``g = -1`` always.

*These people* (:meth:`RankedSums.sample`).  For each inner threshold and label, the sums above and below lie within the
reach of their noise, all ``forms`` of them together except with probability ``beta``: there are ``4 (G - 1)`` if the
order was fixed before, and those of all non-trivial subsets of regions, ``2 (2**G - 2)``, if it came from the sums,
since then every order's upper parts are among the subsets.  So each share above lies in ``[L_g, H_g]``; true shares
fall in ``g``, so ``H`` may take its running minimum and ``L`` its running maximum from the other end.  The area ``1/2
sum (x_g - x_{g+1})(t_g + t_{g+1})`` rises with every ``t`` and falls with every ``x`` as long as both fall in ``g``:
raise ``t`` to ``H``, then lower ``x`` to ``L``.

*New people* (:func:`population_range`).  For two people let ``Y`` be the population's area ``a`` plus the products of
their shares of labels 0 and 1, each weighed by 1, 1/2 or 0 (won, tied, lost) less ``a``: it lies in [0, 1] and has mean
``a``.  Its mean over all pairs is an average over permutations of means of ``floor(n/2)`` independent terms, so
Chernoff's bound holds for it (Hoeffding): ``kl(u | a) <= ln(2/beta') / floor(n/2)``, where ``u = a + 2 p (1 - p) (A -
a)`` with ``A`` the area on these people and ``p`` their share of label 1, moved towards ``a`` by what the diagonal may
add, at most ``1/(2 (n - 1))``.  A smaller factor than ``2 p (1 - p)`` only widens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

from attrs import frozen

from privpac.bisection import half_way, narrow
from privpac.evaluation.intervals import kl_divergence, noise_reach

_HALF = Fraction(1, 2)
_SLACK = 1e-9


@frozen(slots=False)
class RankedSums:
    """Noisy sums of labels 0 and 1 in regions by rising score; ``fixed``: the order was known before the sums."""

    rows: tuple[tuple[int, int], ...]
    noise: Fraction
    fixed: bool = True

    @property
    def regions(self) -> int:
        return len(self.rows)

    @property
    def forms(self) -> int:
        """So many noisy sums hold together."""
        if self.regions == 1:
            return 0
        return 4 * (self.regions - 1) if self.fixed else 2 * (2**self.regions - 2)

    @property
    def thresholds(self) -> int:
        """So many thresholds may be chosen, whatever the order turns out to be."""
        return self.regions + 1 if self.fixed else 2**self.regions

    @cached_property
    def totals(self) -> tuple[int, int]:
        """Of labels 0 and 1."""
        return sum(zero for zero, _ in self.rows), sum(one for _, one in self.rows)

    @cached_property
    def auc(self) -> Fraction:
        """The area, between 0 and 1; 1/2 where a label is not seen.  Sums are not clipped, which keeps the numerator
        free of bias."""
        zeros, ones = self.totals
        if zeros <= 0 or ones <= 0 or self.regions == 1:
            return _HALF
        below = list(accumulate((zero for zero, _ in self.rows), initial=0))
        won = sum(one * (2 * below[g] + zero) for g, (zero, one) in enumerate(self.rows))
        return min(max(Fraction(won, 2 * zeros * ones), Fraction(0)), Fraction(1))

    def sample(self, beta: Fraction) -> tuple[Fraction, Fraction]:
        """Where the area on these people lies, except with probability ``beta``."""
        if self.regions == 1:
            return _HALF, _HALF
        reach = [noise_reach(self.noise, k, beta / self.forms) for k in range(1, self.regions)]
        (low0, high0), (low1, high1) = (self._shares(label, reach) for label in (0, 1))
        return _area(high0, low1), _area(low0, high1)

    def _shares(self, label: int, reach: Sequence[int]) -> tuple[list[Fraction], list[Fraction]]:
        """Ends of the share of a label above every threshold, both falling from 1 to 0."""
        values = [row[label] for row in self.rows]
        low, high = [Fraction(1)], [Fraction(1)]
        for g in range(1, self.regions):
            above, below = sum(values[g:]), sum(values[:g])
            up, down = reach[self.regions - g - 1], reach[g - 1]
            low.append(_share(max(0, above - up), max(0, below + down), Fraction(0)))
            high.append(_share(max(0, above + up), max(0, below - down), Fraction(1)))
        low.append(Fraction(0))
        high.append(Fraction(0))
        return list(accumulate(reversed(low), max))[::-1], list(accumulate(high, min))

    def population(self, beta: Fraction, levels: int) -> tuple[float, float]:
        """Where the area of the people's population lies, except with probability ``beta``."""
        if self.regions == 1:
            return 0.5, 0.5
        lo, hi = self.sample(beta / 2)
        zeros, ones = self.totals
        away = noise_reach(self.noise, self.regions, beta / 8)
        base = (
            _share(max(0, ones - away), max(0, zeros + away), Fraction(0)),
            _share(max(0, ones + away), max(0, zeros - away), Fraction(1)),
        )
        people = (zeros + ones - 2 * away) / levels
        doubt = beta / 4 / (1 if self.fixed else math.factorial(self.regions))
        return population_range(float(lo), float(hi), people, (float(base[0]), float(base[1])), float(doubt))

    def cheapest(self, cost_fp: Fraction, cost_fn: Fraction) -> tuple[int, Fraction]:
        """The threshold of least cost and that cost in units of the sums; ties go to the larger threshold."""
        costs = []
        for above in range(-1, self.regions):
            false_positives = sum(zero for zero, _ in self.rows[above + 1 :])
            false_negatives = sum(one for _, one in self.rows[: above + 1])
            costs.append((cost_fp * false_positives + cost_fn * false_negatives, -above))
        cost, above = min(costs)
        return -above, cost


def _share(a: int, b: int, otherwise: Fraction) -> Fraction:
    return Fraction(a, a + b) if a + b else otherwise


def _area(x: Sequence[Fraction], t: Sequence[Fraction]) -> Fraction:
    """Trapezoids from (1, 1) to (0, 0)."""
    parts = zip(x, x[1:], t, t[1:])
    return sum(((a - b) * (u + v) / 2 for a, b, u, v in parts), Fraction(0))


def population_range(
    low: float, high: float, people: float, base: tuple[float, float], beta: float
) -> tuple[float, float]:
    """The population's areas that no area between ``low`` and ``high`` on at least so many people excludes; ``base``
    are ends of the share of label 1."""
    c = 2 * min(p * (1 - p) for p in base)
    if people < 2 or c <= 0:
        return 0.0, 1.0
    most = math.log(2 / beta) / math.floor(people / 2)
    diagonal = 1 / (2 * (people - 1))

    def end(start: float, wall: float) -> float:
        def excluded(a: float) -> bool:
            away = c * (start - a)
            u = a + math.copysign(max(0.0, abs(away) - diagonal), away)
            return kl_divergence(u, a) > most

        if start == wall or not excluded(wall):
            return wall
        return narrow(excluded, start, wall, middle=half_way, steps=60)[1]

    return max(0.0, end(low, 0.0) - _SLACK), min(1.0, end(high, 1.0) + _SLACK)
