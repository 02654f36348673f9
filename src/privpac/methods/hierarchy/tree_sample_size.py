"""Users that the private tree learner needs for a class of VC dimension 1, and what given parameters certify.

The learner reduces each of ``t`` parts (groups of users) to one node of a public tree, picks a depth by the rank law
with public ranks ``hi <= K + 1`` and base ``r1``, and a node at that depth by votes with base ``r2``.  Labels are those
of one concept, records are i.i.d., each part holds at least ``m0`` records; ``p = (1 - alpha)**m0``, ``d`` is the
height, ``OPT = floor((K + 1 - hi)/2)`` and ``fail(v)`` bounds the chance that ``v`` unanimous votes are not followed.
Then ``Pr[error > alpha]`` is at most

* *simple*: ``Pr[Bin(t, 1-p) <= K] + d r1**-(OPT+1) + fail(hi)``;
* *tight*: ``E[min(1, d r1**(K - G - u(G)))] + max over v < hi of min(1, d r1**(v - hi - OPT)) fail(v) + fail(hi)`` with
  ``G ~ Bin(t, 1-p)``, ``u(G) = min(OPT, G - hi)``, the first term 1 where ``G < hi``; 1 if ``t < OPT + hi``.

*Proof.*  Let ``j`` be the least depth such that at most ``alpha`` of the mass lies deeper on the concept's path.  A
part misses the mass at ``j`` and below with probability at most ``p``; otherwise its node has depth ``>= j``, and every
node of the path from ``j`` on has error at most ``alpha``.  ``G`` counts the parts that do not miss.  Depths ``z < j``
score at most ``K - G``, some depth ``>= j`` scores at least ``u(G)``.  At a depth ``>= j`` all votes fall on the path;
with ``v < hi`` of them it scores at most ``v - hi``, so it is drawn rarely, and missed then with probability
``fail(v)``; else missed with probability at most ``fail(hi)``.  At most ``d`` depths are of either kind.

``fail``: 0 where every level is one node (then ``hi = 1`` and all of epsilon goes to the rank), ``1/(1 + w(v))`` for
the choosing law (``delta > 0``, any width), ``(W-1)/(W-1 + r2**v)`` for the exponential mechanism over a level of at
most ``W`` nodes (``delta = 0``).

Under add-remove ``t`` parts fixed in advance are filled by independent assignment (:func:`spread_failure`): a part is
bad with probability at most ``(1 - g/t)**n``, ``g = 1 - (1-alpha)**m``; the indicators are negatively associated, so
the binomial tail of the simple form is replaced by the Chernoff bound ``exp(-t KL((t-K)/t || p))``.

Utility only: floats, rounded outward.  Privacy never rests on anything here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.bisection import half_way, least, least_between, narrow
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import Rational, dyadic_base, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.sample_size import LIMIT, SLACK, Certificate, open_unit, positive, relation
from privpac.special import betaincc, binom, log1p_exp, log_expm1, log_of

ASSUMES = "labels of one rule of the tree, i.i.d. records, at least the declared number for each user"


def log_base(exponent: Rational) -> float:
    """The logarithm of the base that is really used, a dyadic rational just below ``e**exponent``."""
    return log_of(dyadic_base(exponent))


def odds(x: float) -> float:
    """``1/(1 + e**x)``."""
    return math.exp(-x) / (1 + math.exp(-x)) if x > 0 else 1 / (1 + math.exp(x))


@frozen(slots=False)
class TreeBudget:
    """What one run spends on a public tree: rates of the two laws, and how sure each of them is.

    ``width`` is the number of nodes of the widest level (``None``: open vocabulary); 1 means that naming a depth names
    the node.
    """

    height: int
    width: int | None
    epsilon1: Rational
    epsilon2: Rational = 0
    delta: Rational = 0
    add_remove: bool = False
    """Votes move one way only (add-remove, one user per part), so they are weighed by all of ``epsilon2`` instead of
    half."""
    window: float | None = None
    """For a depth found in the window of ranks ``hi..K+1`` by other means than the rank law: its failure.  Simple form
    only."""

    def __attrs_post_init__(self) -> None:
        positive_int(self.height, "height", minimum=0)
        positive(self.epsilon1, "epsilon1")
        if self.width is not None:
            positive_int(self.width, "width")
        delta = rational(self.delta, "delta", minimum=0, below=1)
        if self.width == 1:
            return
        positive(self.epsilon2, "epsilon2")
        if delta == 0 and self.width is None:
            raise ParameterError(
                "open vocabulary needs delta > 0; give a delta such as 1e-6, or a tree whose levels are finite"
            )
        if delta > 0 and self.log_delta0 > log_expm1(self.rate2):
            raise InfeasibleError(
                "delta too large for epsilon: delta/(1 - delta) must be at most base - 1; use a smaller delta"
            )

    @cached_property
    def rate1(self) -> float:
        return log_base(rational(self.epsilon1) / 2)

    @cached_property
    def rate2(self) -> float:
        return log_base(rational(self.epsilon2) / (1 if self.add_remove else 2))

    @cached_property
    def log_height(self) -> float:
        return math.log(self.height) if self.height else -math.inf

    @cached_property
    def log_delta0(self) -> float:
        delta = float(rational(self.delta))
        return math.log(delta) - math.log1p(-delta)

    def missed(self, votes: int) -> float:
        """``fail(v)``: the chance that ``votes`` votes, all for one node, do not decide."""
        if votes < 0 or (votes == 0 and (self.width == 1 or not self._pure)):
            return 1.0
        if self.width == 1:
            return 0.0
        if not self._pure:
            return odds(self.log_delta0 + log_expm1(self.rate2 * votes) - log_expm1(self.rate2))
        assert self.width is not None
        return odds(self.rate2 * votes - math.log(self.width - 1))

    def votes(self, beta: float) -> int:
        """The least ``hi`` with ``fail(hi) <= beta``."""
        if self.width == 1:
            return 1
        if not self._pure:
            goal = math.log1p(-beta) - math.log(beta) - self.log_delta0 + log_expm1(self.rate2)
            goal = log1p_exp(goal)
        else:
            assert self.width is not None
            goal = math.log(self.width - 1) + math.log1p(-beta) - math.log(beta)
        return max(1, math.ceil(goal / self.rate2 * (1 + SLACK)))

    def missed_rank(self, opt: int) -> float:
        """``d r1**-(opt + 1)``."""
        return self.window if self.window is not None else math.exp(min(0.0, self.log_height - self.rate1 * (opt + 1)))

    def steps(self, beta: float) -> int:
        """The least ``OPT`` with ``d r1**-(OPT+1) <= beta``."""
        return (
            max(0, math.ceil((self.log_height - math.log(beta)) / self.rate1 * (1 + SLACK)) - 1) if self.height else 0
        )

    @cached_property
    def _tables(self) -> dict[int, NDArray[np.float64]]:
        return {}

    @cached_property
    def _pure(self) -> bool:
        return rational(self.delta) == 0

    def _log_missed(self, hi: int) -> NDArray[np.float64]:
        """``ln fail(v)`` for ``v = 0..hi-1``, in logarithms throughout: ``r2**v`` may not fit in a float."""
        if hi not in self._tables:
            self._tables[hi] = self._log_missed_table(hi)
        return self._tables[hi]

    def _log_missed_table(self, hi: int) -> NDArray[np.float64]:
        votes = np.arange(hi, dtype=float)
        if self.width == 1:
            return np.where(votes == 0, 0.0, -np.inf)
        if self._pure:
            assert self.width is not None
            return -np.logaddexp(0.0, self.rate2 * votes - math.log(self.width - 1))
        with np.errstate(divide="ignore"):
            weight = (
                self.log_delta0 + self.rate2 * votes + np.log(-np.expm1(-self.rate2 * votes)) - log_expm1(self.rate2)
            )
        return -np.logaddexp(0.0, weight)

    def missed_deep(self, hi: int, opt: int) -> float:
        """``max over 0 <= v < hi of min(1, d r1**(v - hi - opt)) fail(v)``."""
        drawn = np.minimum(0.0, self.log_height + self.rate1 * (np.arange(hi) - hi - opt))
        return float(np.exp(np.max(drawn + self._log_missed(hi))))

    def deep_steps(self, hi: int, beta: float) -> int:
        """The least ``OPT`` with ``missed_deep(hi, OPT) <= beta``: each ``v`` with ``fail(v) > beta`` must be drawn
        rarely enough."""
        missed, goal = self._log_missed(hi), math.log(beta)
        needed = np.arange(hi) - hi + (self.log_height + missed - goal) / self.rate1 * (1 + SLACK)
        return max(0, math.ceil(float(np.max(needed[missed > goal], initial=0.0))))


# Certificates


def tree_failure(
    budget: TreeBudget, *, parts: int, hi: int, K: int, records_per_part: int, alpha: Rational
) -> tuple[float, float]:
    """The simple and the tight bound on ``Pr[error > alpha]``, each at most 1; either is a certificate.

    >>> budget = TreeBudget(8, 1, "0.6")
    >>> [round(x, 6) for x in tree_failure(budget, parts=38, hi=1, K=22, records_per_part=20, alpha="0.1")]
    [0.218593, 0.230413]
    """
    t, (first, last) = positive_int(parts, "parts", minimum=0), _ranks(hi, K)
    good = good_share(alpha, positive_int(records_per_part, "records_per_part", minimum=0))
    return simple_failure(budget, t, first, last, good), tight_failure(budget, t, first, last, good)


def _ranks(hi: object, K: object) -> tuple[int, int]:
    first = positive_int(hi, "hi")
    return first, positive_int(K, "K", minimum=first - 1)


def good_share(alpha: Rational, records: int) -> float:
    """``1 - (1 - alpha)**records``: how often a part sees the mass that matters."""
    return -math.expm1(records * math.log1p(-open_unit(alpha, "alpha")))


def at_most(k: int, t: int, good: float) -> float:
    """``Pr[Bin(t, good) <= k]``."""
    return 1.0 if k >= t else 0.0 if k < 0 else float(betaincc(k + 1.0, float(t - k), good))


def simple_failure(budget: TreeBudget, t: int, hi: int, K: int, good: float) -> float:
    if budget.height == 0:
        return 0.0
    tail = at_most(K, t, good)
    return min(1.0, (tail + budget.missed_rank((K + 1 - hi) // 2) + budget.missed(hi)) * (1 + SLACK))


def tight_failure(budget: TreeBudget, t: int, hi: int, K: int, good: float) -> float:
    opt = (K + 1 - hi) // 2
    if budget.height == 0:
        return 0.0
    if t < opt + hi or budget.window is not None:
        return 1.0
    return min(1.0, (_shallow(budget, t, hi, K, good) + budget.missed_deep(hi, opt) + budget.missed(hi)) * (1 + SLACK))


def tight_within(
    budget: TreeBudget, t: int, hi: int, K: int, good: float, beta: float, deep: float, missed: float
) -> bool:
    """Whether :func:`tight_failure` is at most ``beta < 1``, dear terms last; ``deep`` and ``missed`` are the budget's
    for this place."""
    opt = (K + 1 - hi) // 2
    if budget.height == 0:
        return True
    if t < opt + hi or budget.window is not None or (deep + missed) * (1 + SLACK) > beta:
        return False
    # All terms are positive, so that the first of them alone may decide.
    least = at_most(_flat(budget, hi, K) - 1, t, good)
    if (least + deep + missed) * (1 + SLACK) > beta:
        return False
    return (_shallow(budget, t, hi, K, good) + deep + missed) * (1 + SLACK) <= beta


def _flat(budget: TreeBudget, hi: int, K: int) -> int:
    """From here on the terms of ``_shallow`` fall below 1."""
    opt = (K + 1 - hi) // 2
    return max(opt + hi, K - opt + math.ceil(budget.log_height / budget.rate1))


def _shallow(budget: TreeBudget, t: int, hi: int, K: int, good: float) -> float:
    """``E[min(1, d r1**(K - G - u(G)))]``.  For ``G < OPT + hi`` the exponent is not negative, so the term is 1."""
    opt, flat = (K + 1 - hi) // 2, _flat(budget, hi, K)
    # From `end` on the terms are below e**-50.
    end = min(t, flat + math.ceil(50 / budget.rate1))
    if flat > t:
        return 1.0
    G = np.arange(flat, end + 1)
    terms = np.exp(np.minimum(0.0, budget.log_height + budget.rate1 * (K - opt - G)))
    rest = float(terms[-1]) if end < t else 0.0
    return at_most(flat - 1, t, good) + float(binom.pmf(G, t, good) @ terms) + rest


def spread_failure(
    budget: TreeBudget, *, n_users: int, parts: int, hi: int, K: int, records_per_user: int, alpha: Rational
) -> float:
    """The certificate for ``parts`` fixed in advance and users assigned to them independently (add-remove)."""
    n, t, (first, last) = positive_int(n_users, "n_users", minimum=0), positive_int(parts, "parts"), _ranks(hi, K)
    bad = (1 - good_share(alpha, positive_int(records_per_user, "records_per_user", minimum=0)) / t) ** n
    if budget.height == 0:
        return 0.0
    share = (t - last) / t
    if share <= bad:
        return 1.0
    tail = math.exp(-t * _kl(share, bad)) if bad > 0 else 0.0
    return min(1.0, (tail + budget.missed_rank((last + 1 - first) // 2) + budget.missed(first)) * (1 + SLACK))


def _kl(a: float, b: float) -> float:
    return a * math.log(a / b) + ((1 - a) * math.log((1 - a) / (1 - b)) if a < 1 else 0.0)


# For comparison


def text_tree(*, height: int, epsilon: Rational, delta: Rational, alpha: Rational, beta: Rational) -> Certificate:
    """Single records by the constants of the published analysis (Yan, *VC Dimension 1*, Theorem 8), with ``epsilon/2``,
    ``delta/2``, ``beta/(t+2)``.

    ``t/6 >= (16/epsilon) ln(4 t/(beta epsilon delta))`` votes, the exponential mechanism standing in for its median
    (which comes without a constant), ``m0 = (48/alpha)(10 ln(48 e/alpha) + ln(5/beta))`` records in each of ``t``
    parts.  For comparison only.

    >>> round(text_tree(height=8, epsilon=1, delta="1e-6", alpha="0.1", beta="0.05").n_users / 1e8, 1)
    2.9
    """
    e, d, b, a = (
        positive(epsilon, "epsilon") / 2,
        open_unit(delta, "delta") / 2,
        open_unit(beta, "beta"),
        open_unit(alpha, "alpha"),
    )
    top = positive_int(height, "height")

    def holds(t: int) -> bool:
        share = math.log(b) - math.log(t + 2)
        choosing = (16 / e) * (math.log(4 * t) - share - math.log(e) - math.log(d))
        return t / 6 >= choosing and t / 6 >= (math.log(top) - share) / e

    t = least(holds, start=6)
    if t is None:
        return Certificate.upper(None, "published constants", ASSUMES)
    m0 = math.ceil((48 / a) * (10 * math.log(48 * math.e / a) + math.log(5 * (t + 2) / b)))
    return Certificate.upper(t * m0, "published constants", ASSUMES, parts=t, records_per_part=m0)


def generic_tree(*, log_size: Rational, epsilon: Rational, alpha: Rational, beta: Rational) -> Certificate:
    """Single records for the exponential mechanism over the whole class: ``|C| (1 - alpha (1 - e**(-epsilon/2)))**N <=
    beta``.

    >>> generic_tree(log_size=64 * math.log(2), epsilon=1, alpha="0.1", beta="0.05").n_users
    1180
    """
    e, a, b = positive(epsilon, "epsilon"), open_unit(alpha, "alpha"), open_unit(beta, "beta")
    size = float(rational(log_size, "log_size", minimum=0))
    n = max(1, math.ceil((size - math.log(b)) / -math.log1p(a * math.expm1(-e / 2)) * (1 + SLACK)))
    return Certificate.upper(n, "exponential mechanism over the class", ASSUMES)


def lower_tree(
    *,
    epsilon: Rational,
    delta: Rational = 0,
    alpha: Rational,
    beta: Rational,
    records_per_user: int = 1,
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Certificate:
    """Users below which no private learner is accurate, for any class with two concepts that agree on one point and
    differ on another.

    ``n`` is impossible if for some ``k``:
    ``Pr[Bin(n, 1-(1-alpha)**m) > k] + e**(epsilon k) beta + delta (e**(epsilon k) - 1)/(e**epsilon - 1) < 1 - beta``.

    *Proof.*  The point where they differ has mass just above ``alpha``, so the two tasks need different answers; but
    for probability ``Pr[... > k]`` the samples differ in at most ``k`` users (group privacy).  An add-remove learner is
    a replace learner with ``2 epsilon`` and ``(1 + e**epsilon) delta``.

    >>> lower_tree(epsilon=1, alpha="0.1", beta="0.05").n_users
    30
    """
    e, b = positive(epsilon, "epsilon"), open_unit(beta, "beta")
    d = float(rational(delta, "delta", minimum=0, below=1))
    if relation(neighbours) is Neighbours.ADD_REMOVE:
        e, d = 2 * e, min(1.0, (1 + math.exp(min(e, 700.0))) * d)
    good = good_share(alpha, positive_int(records_per_user, "records_per_user"))
    if b >= 0.5:
        return Certificate.lower(0, "two concepts", "nothing: a coin decides")
    k = np.arange(math.floor(min(math.log((1 - b) / b) / e, 1e6)) + 1)
    group = np.exp(e * k)
    room = 1 - b - (group * b + d * np.expm1(e * k) / math.expm1(e)) * (1 + SLACK)

    def possible(n: int) -> bool:
        return bool((binom.sf(k, n, good) * (1 + SLACK) >= room).all())

    return Certificate.lower(
        least(possible, start=0), "two concepts", "two rules that agree on one point and differ on another"
    )


# Plans for the private tree learner: the split of epsilon, the ranks and the least number of users that certify a
# target.
#
# Minimises the number of users over ``epsilon1`` in steps of ``epsilon/20``, ``hi``, ``K = 2 OPT + hi - 1`` (a larger
# ``K`` with the same ``OPT`` certifies less) and, under replace, users per part, subject to a certificate of
# :mod:`privpac.methods.hierarchy.tree_sample_size` of at most ``beta``.  The search is coarse first (shares of ``beta``
# for the two laws) and then moves by single steps; every plan it returns is certified, whether or not it is the
# smallest.  All from public numbers.


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


@frozen(slots=False)
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


_Place = tuple[int, int, int]
"""Twentieths of epsilon, ``hi``, ``OPT``."""


class _Search:
    """The fewest parts found so far for one number of users per part."""

    def __init__(self, ask: _TreeQuestion, users_per_part: int, below: int) -> None:
        self.ask, self.good = ask, ask.good(users_per_part)
        self.parts = below
        self.place: _Place | None = None
        self.seen: set[_Place] = set()
        self.budgets = {share: ask.budget(share) for share in range(1, _GRID)}

    def consider(self, place: _Place) -> bool:
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

    def _starts(self, share: int, budget: TreeBudget) -> Iterator[_Place]:
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


def _certificate(ask: _TreeQuestion, users_per_part: int, parts: int, place: _Place) -> Certificate:
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
