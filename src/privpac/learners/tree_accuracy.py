"""What a configured tree learner certifies for a public number of users (:mod:`privpac.bounds.trees`)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from privpac.bounds.certificate import least
from privpac.bounds.tree_plan import certified_alpha
from privpac.bounds.trees import TreeBudget, spread_failure, tree_failure
from privpac.errors import ParameterError

__all__ = ["TreeAccuracy"]


@dataclass(frozen=True)
class TreeAccuracy:
    """Budget and ranks, how users form parts, and the target."""

    budget: TreeBudget
    hi: int
    K: int
    parts: int | None
    users_per_part: int
    independent: bool
    records: int
    alpha: Fraction | None
    beta: Fraction

    def part_count(self, n: int) -> int:
        """Parts that ``n`` users form, where every part gets its share of them."""
        return min(n, self.parts) if self.parts is not None else n // self.users_per_part if n >= self.users_per_part else min(n, 1)

    @property
    def target(self) -> Fraction:
        if self.alpha is None:
            raise ParameterError("declare alpha, the error that is tolerated")
        return self.alpha

    @property
    def _ranks(self) -> dict[str, int]:
        return {"hi": self.hi, "K": self.K}

    def failure(self, n: int, alpha: Any = None) -> float:
        """A bound on the probability of error above ``alpha``."""
        error = self.target if alpha is None else alpha
        if self.independent:
            assert self.parts is not None
            return spread_failure(self.budget, n_users=n, parts=self.parts, records_per_user=self.records, alpha=error, **self._ranks)
        return min(tree_failure(self.budget, alpha=error, **self._parts(n), **self._ranks))

    def _parts(self, n: int) -> dict[str, int]:
        t = self.part_count(n)
        return {"parts": t, "records_per_part": n // t * self.records if t else 0}

    @cached_property
    def users_needed(self) -> int | None:
        """The fewest users that certify the target with these parameters."""
        beta, step, budget = float(self.beta), self.users_per_part, self.budget
        opt = (self.K + 1 - self.hi) // 2
        rank = budget.missed_rank(opt) if self.independent else min(budget.missed_rank(opt), budget.missed_deep(self.hi, opt))
        if self.failure(0) > beta and rank + budget.missed(self.hi) >= beta:
            return None  # what is left when all parts are good
        found = least(lambda t: self.failure(t * step) <= beta, start=0)
        return None if found is None else found * step

    def alpha_for(self, n: int) -> float | None:
        """The least error certified at ``beta`` for ``n`` users; ``None`` if none is."""
        if self.independent:
            grid = (k / 1000 for k in range(1, 1000))
            return next((alpha for alpha in grid if self.failure(n, alpha) <= float(self.beta)), None)
        return certified_alpha(self.budget, beta=self.beta, **self._parts(n), **self._ranks)

    def shortfall(self, n: int) -> tuple[str, ...]:
        """What ``n`` users (a public number) cannot promise."""
        if self.alpha is None:
            t = self.part_count(n)
            return (f"{t} parts are fewer than hi = {self.hi}: the result will hardly depend on the data",) if self.hi > t else ()
        failure = self.failure(n)
        if failure <= self.beta:
            return ()
        needed, alpha = self.users_needed, self.alpha_for(n)
        enough = "no number of users certifies" if needed is None else f"{needed} users certify"
        held = "no error below 1" if alpha is None else f"error {alpha:.3g}"
        return (
            f"with {n} users an error above {float(self.alpha):g} is certified only to be less likely than {failure:.3g}, "
            f"not {float(self.beta):g}; {enough} the target, and {n} users certify {held}",
        )
