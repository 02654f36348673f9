"""Public parameters of interior points by random pairs.

For one level of ``n`` values: ``2 rc**-c <= beta_c``, ``B = 2c - 1``, ``q >= c`` least with ``a/(a + w(q)) <= beta_L``
(condition (e) of :mod:`privpac.mechanisms.interior_plan`), ``A = floor(n (q-2)/(2 (n-1)) + sqrt(n ln(1/beta_p))) + 1``;
the last window of ``m`` depths in ``0..D`` needs ``D rz**-ceil(m/2) <= beta_z``.

**Accuracy.** Failure at most ``beta_z + sum of (beta_p + beta_L + beta_c)``.  *Proof.* Below the deepest level at which
some prefix holds ``q`` values, groups have at most ``q - 1``; the number of agreeing pairs has mean at most ``n
(q-2)/(2 (n-1))``.  Exposing pairs one by one, each conditional mean moves in a range of at most 2, so ``A`` of them
agree with probability at most ``beta_p``: a depth that ``A`` pairs reach has a prefix of ``q`` values.  Each of the
``B`` pairs that end at or above it has a value outside the prefix or one in each half, so one of the three points has
``c`` values on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from privpac.least import least_from
from privpac.mechanisms.interior_plan import (
    SLACK,
    InteriorBudget,
    InteriorPlan,
    Real,
    Shares,
    base_of,
    choosing_depth,
    exact_rate,
    relaxed,
    search,
    voters,
)
from privpac.mechanisms.prefix_point import PairLevel

__all__ = ["plan_pairs"]

_STARTS: tuple[Shares, ...] = ((250, 500), (150, 400), (400, 600))
"""In thousandths: epsilon of the innermost choice; of the rest, the prefix."""


def _spent(budget: InteriorBudget, shares: Shares) -> tuple[Real, Real, Real]:
    """Epsilon of the innermost choice, of a prefix and of a point."""
    rest = budget.epsilon * (1000 - shares[0]) / (1_000_000 * budget.reductions)
    return budget.epsilon * shares[0] / 1000, rest * shares[1], rest * (1000 - shares[1])


class _Conditions:
    """What a window must satisfy, for given shares; ``exact`` uses the rounded bases."""

    def __init__(self, budget: InteriorBudget, shares: Shares, *, exact: bool) -> None:
        rate = exact_rate if exact else float
        eps_z, prefix, point = _spent(budget, shares)
        self.k = budget.reductions
        self.beta = float(budget.beta) * (1 - SLACK) / (3 * self.k + 1)
        self.rate = rate(prefix / 2)
        self.delta = min(float(budget.delta) / self.k, -math.expm1(-self.rate))
        self.c = voters(math.log(2 / self.beta), rate(point / 2))
        self.last = 2 * voters(budget.log_top - math.log(self.beta), rate(eps_z / 2)) - 1

    def bound(self, n: int) -> int:
        """``A`` for ``n`` values."""
        q = choosing_depth(lambda _: n, self.c, self.rate, self.delta, self.beta, self.c)
        return math.floor((n * (q - 2) / (2 * (n - 1)) + math.sqrt(-n * math.log(self.beta))) * (1 + SLACK)) + 1

    def windows(self, n: int) -> Iterator[tuple[int, int]]:
        """``(A, what is left)`` level by level."""
        for i in range(self.k):
            A = self.bound(n)
            left = n // 2 - (A - 1) - (2 * self.c - 2)
            n = left if i == self.k - 1 else left - left % 2
            yield A, n
            if n < 2 and i < self.k - 1:
                return

    def hold(self, n: int) -> bool:
        left = [left for _, left in self.windows(n)]
        return len(left) == self.k and left[-1] >= self.last

    def least(self) -> int:
        return 2 * least_from(lambda half: self.hold(2 * half), 1)


@lru_cache(maxsize=256)
def _best_shares(budget: InteriorBudget) -> Shares:
    rough = budget.rough
    return search(
        lambda shares: _Conditions(rough, shares, exact=False).least(),
        _STARTS,
        lambda shares: min(shares) >= 5 and max(shares) <= 995,
    )


def plan_pairs(budget: InteriorBudget, size: int | None = None) -> InteriorPlan[PairLevel]:
    """The least certified plan with at least one reduction, or the plan for an even ``size``."""
    shares = _best_shares(budget)
    needed = _Conditions(budget, shares, exact=True).least()
    if size is not None and size < needed:
        budget = relaxed(budget, size, lambda weaker: _Conditions(weaker, shares, exact=True).least())
    found = _Conditions(budget, shares, exact=True)
    eps_z, prefix, point = _spent(budget, shares)
    n = needed if size is None else size
    rL, rc = base_of(prefix / 2), base_of(point / 2)
    delta_L = min(Fraction(budget.delta) / budget.reductions, 1 - 1 / rL)
    levels = tuple(PairLevel(A, 2 * found.c - 1, rL, delta_L, rc) for A, _ in found.windows(n))
    return InteriorPlan(levels, base_of(eps_z / 2), n, Fraction(budget.beta), needed)
