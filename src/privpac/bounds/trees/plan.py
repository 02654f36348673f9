"""Plans for the private tree learner: the split of epsilon, the ranks and the least number of users that certify a
target.

Minimises the number of users over ``epsilon1`` in steps of ``epsilon/20``, ``hi``, ``K = 2 OPT + hi - 1`` (a larger
``K`` with the same ``OPT`` certifies less) and, under replace, users per part, subject to a certificate of
:mod:`privpac.bounds.trees.learner` of at most ``beta``.  The search is coarse first (shares of ``beta`` for the two
laws) and then moves by single steps; every plan it returns is certified, whether or not it is the smallest.  All from
public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from privpac.bounds.certificate import LIMIT, Certificate, open_unit, relation
from privpac.bounds.trees.learner import (
    ASSUMES,
    TreeBudget,
    good_share,
    simple_failure,
    text_tree,
    tight_failure,
    tight_within,
)
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.least import half_way, least, least_between, narrow

__all__ = ["FORMS", "certified_alpha", "plan_tree"]

FORMS = ("best", "simple", "tight")
_GRID = 20
_SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_MAX_USERS_PER_PART = 64


def plan_tree(
    *,
    height: int,
    width: int | None,
    epsilon: Rational,
    delta: Rational = 0,
    alpha: Rational,
    beta: Rational,
    records_per_user: int = 1,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    form: str = "best",
    same_law: bool = True,
    source: str = "privpac",
    within: int | None = None,
) -> Certificate:
    """Users that suffice on a tree of this height whose levels hold at most ``width`` nodes (``None``: open
    vocabulary).

    ``same_law=False``: users draw from laws of their own (the error is that of their average), so one record of each is
    counted. ``source="text"`` gives the published constants instead, for comparison.  ``within``: only whether so many
    users are enough is of interest, which is found out sooner; the number is then one that is, if not the least, and
    ``None`` where more are needed.

    >>> plan = plan_tree(height=1, width=None, epsilon=1, delta="1e-6", alpha="0.1", beta="0.05", neighbours="replace")
    >>> plan.n_users <= 838, plan["users_per_part"], plan["failure"] <= 0.05
    (True, 1, True)
    """
    if source == "text":
        return text_tree(height=height, epsilon=epsilon, delta=delta, alpha=alpha, beta=beta)
    if source != "privpac":
        raise ParameterError(f"source must be 'privpac' or 'text', got {source!r}")
    if form not in FORMS:
        raise ParameterError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    m = positive_int(records_per_user, "records_per_user")
    open_unit(alpha, "alpha")
    target = open_unit(beta, "beta")
    top = positive_int(height, "height", minimum=0)
    if top == 0:
        return Certificate.upper(
            0, "tree learner", "a class with one rule", epsilon1=Fraction(0), epsilon2=Fraction(0), hi=1, K=0
        )
    asked = (rational(epsilon, "epsilon", above=0), rational(delta, "delta", minimum=0, below=1))
    ask = _TreeQuestion(top, width, *asked, rational(alpha), target, m if same_law else 1, relation(neighbours), form)
    return _planned(ask) if within is None else _planned_within(ask, positive_int(within, "within"))


@dataclass(frozen=True)
class _TreeQuestion:
    """A planning question."""

    height: int
    width: int | None
    epsilon: Fraction
    delta: Fraction
    alpha: Fraction
    beta: float
    records: int
    neighbours: Neighbours
    form: str

    def budget(self, share: int) -> TreeBudget | None:
        """``share`` twentieths of epsilon for the depth; ``None`` where delta is too large for what is left."""
        epsilon1 = self.epsilon if self.width == 1 else self.epsilon * share / _GRID
        spent = (epsilon1, self.epsilon - epsilon1, self.delta)
        try:
            return _budget(self.height, self.width, *spent, self.neighbours is Neighbours.ADD_REMOVE)
        except InfeasibleError:
            return None

    def good(self, users_per_part: int) -> float:
        return good_share(self.alpha, self.records * users_per_part)

    def failure(self, budget: TreeBudget, t: int, hi: int, opt: int, good: float) -> float:
        K = 2 * opt + hi - 1
        simple = simple_failure(budget, t, hi, K, good) if self.form != "tight" else 1.0
        return simple if self.form == "simple" else min(simple, tight_failure(budget, t, hi, K, good))


@lru_cache(maxsize=512)
def _budget(
    height: int, width: int | None, epsilon1: Fraction, epsilon2: Fraction, delta: Fraction, add_remove: bool
) -> TreeBudget:
    return TreeBudget(height, width, epsilon1, epsilon2, delta, add_remove)


Place = tuple[int, int, int]
"""Twentieths of epsilon, ``hi``, ``OPT``."""


class _Search:
    """The fewest parts found so far for one number of users per part."""

    def __init__(self, ask: _TreeQuestion, users_per_part: int, below: int) -> None:
        self.ask, self.good = ask, ask.good(users_per_part)
        self.parts = below
        self.place: Place | None = None
        self.seen: set[Place] = set()
        self.budgets = {share: ask.budget(share) for share in range(1, _GRID)}

    def consider(self, place: Place) -> bool:
        """Whether this place needs fewer parts than the best so far."""
        share, hi, opt = place
        budget = self.budgets.get(share, self.budgets[1] if self.ask.width == 1 else None)
        if place in self.seen or budget is None or hi < 1 or opt < 0:
            return False
        self.seen.add(place)

        start, missed, form, beta = hi + opt, budget.missed(hi), self.ask.form, self.ask.beta
        # Below this many parts more than half of the time at most hi + opt - 1 of them are good.
        if start >= self.parts * max(self.good, 1e-300) + 1 or missed >= beta:
            return False
        K = 2 * opt + hi - 1
        deep = 1.0 if form == "simple" else budget.missed_deep(hi, opt)

        def holds(t: int) -> bool:
            """Whether ``self.ask.failure`` is at most ``beta``, the cheaper bound first."""
            if form != "tight" and simple_failure(budget, t, hi, K, self.good) <= beta:
                return True
            return form != "simple" and tight_within(budget, t, hi, K, self.good, beta, deep, missed)

        if self.parts == LIMIT:
            found = least(holds, start=start)
        else:
            found = least_between(holds, start - 1, self.parts - 1) if holds(self.parts - 1) else None
        if found is None:
            return False
        self.parts, self.place = found, place
        return True

    def coarse(self, enough: int = 0) -> None:
        """Every start, until so few parts are found."""
        for share in [10] if self.ask.width == 1 else range(1, _GRID):
            budget = self.budgets[share]
            for place in () if budget is None else self._starts(share, budget):
                if self.consider(place) and self.parts <= enough:
                    return

    def _starts(self, share: int, budget: TreeBudget) -> Iterator[Place]:
        beta = self.ask.beta
        for a in [0.0] if self.ask.width == 1 else _SHARES:
            hi = budget.votes(beta * a) if a else 1
            left = beta - budget.missed(hi)
            for b in _SHARES:
                if left > 0:
                    yield share, hi, budget.steps(left * b)
                    if self.ask.form != "simple" and self.ask.width != 1:
                        yield share, hi, budget.deep_steps(hi, left * b)

    def climb(self) -> None:
        """Single steps until none helps."""
        moved = self.place is not None
        while moved and self.place is not None:
            share, hi, opt = self.place
            near = [
                (s, h, o)
                for s in (share, share - 1, share + 1)
                for h in range(hi - 2, hi + 3)
                for o in range(opt - 2, opt + 3)
            ]
            moved = sum(self.consider(place) for place in near) > 0


@lru_cache(maxsize=256)
def _planned(ask: _TreeQuestion) -> Certificate:
    if all(ask.budget(share) is None for share in range(1, _GRID)):
        raise InfeasibleError("delta too large for epsilon: no split leaves room for it; use a smaller delta")
    search = _Search(ask, 1, LIMIT)
    search.coarse()
    search.climb()
    if search.place is None:
        return Certificate.upper(None, "tree learner", ASSUMES)
    best, parts, place = 1, search.parts, search.place
    # Larger parts are known to pay at most by rounding; under add-remove they need another assignment altogether.
    for u in range(2, _MAX_USERS_PER_PART if ask.neighbours is Neighbours.REPLACE else 2):
        other = _Search(ask, u, -(-best * parts // u))
        if not other.consider(place):
            other.consider((place[0], place[1], place[2] + 1))
        other.climb()
        if other.place is None or other.parts * u >= best * parts:
            break
        best, parts, place = u, other.parts, other.place
    return _certificate(ask, best, parts, place)


def _planned_within(ask: _TreeQuestion, n_users: int) -> Certificate:
    """A plan of at most ``n_users`` users, one in each part, if the search finds one."""
    # Starts that are almost enough count: single steps may lead from them to one that is.
    search = _Search(ask, 1, n_users + n_users // 16 + 2)
    search.coarse(n_users)
    if search.parts > n_users:
        search.climb()
    if search.place is None or search.parts > n_users:
        return Certificate.upper(None, "tree learner", ASSUMES)
    return _certificate(ask, 1, search.parts, search.place)


def _certificate(ask: _TreeQuestion, users_per_part: int, parts: int, place: Place) -> Certificate:
    budget = ask.budget(place[0])
    assert budget is not None
    _, hi, opt = place
    failure = ask.failure(budget, parts, hi, opt, ask.good(users_per_part))
    spent = {"epsilon1": rational(budget.epsilon1), "epsilon2": rational(budget.epsilon2)}
    chosen = {"hi": hi, "K": 2 * opt + hi - 1, "parts": parts, "users_per_part": users_per_part, "failure": failure}
    return Certificate.upper(parts * users_per_part, "tree learner", ASSUMES, **spent, **chosen)


def certified_alpha(
    budget: TreeBudget, *, parts: int, hi: int, K: int, records_per_part: int, beta: Rational
) -> float | None:
    """The least ``alpha`` that these parameters certify at ``beta`` (to a relative 1e-6, rounded up), or ``None`` for
    none below 1."""
    target, records = open_unit(beta, "beta"), positive_int(records_per_part, "records_per_part", minimum=0)

    def holds(alpha: float) -> bool:
        good = -math.expm1(records * math.log1p(-alpha))
        return min(simple_failure(budget, parts, hi, K, good), tight_failure(budget, parts, hi, K, good)) <= target

    most = 1 - 1e-12
    if not holds(most):
        return None
    return narrow(
        holds,
        0.0,
        most,
        middle=lambda low, high: half_way(low, high) if low else high / 16,
        wide=lambda low, high: high - low > 1e-6 * high and high > 1e-15,
    )[1]
