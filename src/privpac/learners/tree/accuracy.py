"""What a configured tree learner certifies for a public number of users (:mod:`privpac.bounds.trees.learner`)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from attrs import evolve, field, frozen

from privpac.bounds.trees.learner import TreeBudget, spread_failure, tree_failure
from privpac.bounds.trees.plan import certified_alpha
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.guarantee import positive_int
from privpac.least import least
from privpac.parameters import DEFAULT_BETA, named, probability, probability_or_none, whole, whole_or_none

__all__ = ["TreeAccuracy", "TreeAim", "TreePromises"]


@frozen(slots=False, field_transformer=named)
class TreeAim:
    """What accuracy statements are about.  All public.

    Parameters
    ----------
    alpha : number, optional
        The error that is tolerated; with it the ranks are planned for the fewest users.
    beta : number
        How often it may be missed; default 1/20.
    records_per_user : int
        Records that every user holds; default 1.
    public_n_users : int, optional
        A lower bound on the number of users (under replace the number itself is used).
    strict : bool
        Whether a missed target is an ``InfeasibleError`` before data are touched, instead of a warning.
    """

    alpha: Fraction | None = field(default=None, converter=probability_or_none)
    beta: Fraction = field(default=DEFAULT_BETA, converter=probability)
    records_per_user: int = field(default=1, converter=whole)
    public_n_users: int | None = field(default=None, converter=whole_or_none)
    strict: bool = False


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
    certified: bool = True
    """Whether anything is: ranks that follow the number of users are for noisy labels, for which nothing is proved."""

    def part_count(self, n: int) -> int:
        """Parts that ``n`` users form, where every part gets its share of them."""
        return (
            min(n, self.parts)
            if self.parts is not None
            else n // self.users_per_part
            if n >= self.users_per_part
            else min(n, 1)
        )

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
        if not self.certified:
            return 1.0
        if self.independent:
            assert self.parts is not None
            return spread_failure(
                self.budget, n_users=n, parts=self.parts, records_per_user=self.records, alpha=error, **self._ranks
            )
        return min(tree_failure(self.budget, alpha=error, **self._parts(n), **self._ranks))

    def _parts(self, n: int) -> dict[str, int]:
        t = self.part_count(n)
        return {"parts": t, "records_per_part": n // t * self.records if t else 0}

    @cached_property
    def users_needed(self) -> int | None:
        """The fewest users that certify the target with these parameters."""
        if not self.certified:
            return None
        beta, step, budget = float(self.beta), self.users_per_part, self.budget
        opt = (self.K + 1 - self.hi) // 2
        rank = (
            budget.missed_rank(opt)
            if self.independent
            else min(budget.missed_rank(opt), budget.missed_deep(self.hi, opt))
        )
        if self.failure(0) > beta and rank + budget.missed(self.hi) >= beta:
            return None  # what is left when all parts are good
        found = least(lambda t: self.failure(t * step) <= beta, start=0)
        return None if found is None else found * step

    def alpha_for(self, n: int) -> float | None:
        """The least error certified at ``beta`` for ``n`` users; ``None`` if none is."""
        if not self.certified:
            return None
        if self.independent:
            grid = (k / 1000 for k in range(1, 1000))
            return next((alpha for alpha in grid if self.failure(n, alpha) <= float(self.beta)), None)
        return certified_alpha(self.budget, beta=self.beta, **self._parts(n), **self._ranks)

    def shortfall(self, n: int) -> tuple[str, ...]:
        """What ``n`` users (a public number) cannot promise."""
        if not self.certified:
            return ()
        if self.alpha is None:
            t = self.part_count(n)
            return (
                (f"{t} parts are fewer than hi = {self.hi}: the result will hardly depend on the data",)
                if self.hi > t
                else ()
            )
        failure = self.failure(n)
        if failure <= self.beta:
            return ()
        needed, alpha = self.users_needed, self.alpha_for(n)
        enough = "no number of users certifies" if needed is None else f"{needed} users certify"
        held = "no error below 1" if alpha is None else f"error {alpha:.3g}"
        return (
            f"with {n} users an error above {float(self.alpha):g} is certified only to be less likely than "
            f"{failure:.3g}, "
            f"not {float(self.beta):g}; {enough} the target, and {n} users certify {held}",
        )


class TreePromises:
    """What a learner with an ``accuracy`` says of it."""

    @cached_property
    def accuracy(self) -> TreeAccuracy:
        raise NotImplementedError

    def failure(self, n_users: int, alpha: Any = None) -> float:
        """A certified bound on the probability of error above ``alpha`` for this many users (records of one concept,
        i.i.d.)."""
        error = None if alpha is None else rational(alpha, "alpha", above=0, below=1)
        return self.accuracy.failure(positive_int(n_users, "n_users", minimum=0), error)

    @property
    def users_needed(self) -> int | None:
        """The fewest users for which this learner certifies ``alpha`` and ``beta``; ``None`` where nothing is
        certified."""
        return self.accuracy.users_needed

    def alpha_for(self, n_users: int) -> float | None:
        """The least error certified at ``beta`` for this many users; ``None`` if none is."""
        return self.accuracy.alpha_for(positive_int(n_users, "n_users", minimum=0))

    def with_(self, **changes: Any) -> Self:
        """The same learner with other parameters."""
        return evolve(self, **changes)  # type: ignore[misc]
