"""Accuracy of a prediction service: people with which at most a stated share of its answers is wrong.

A secret part T of the people is relabelled by a rule f' of the class
(:mod:`privpac.methods.prediction.service_sample_size`) and cut into ``r`` parts; a voter agrees with f' on its own
part; an answer is a noisy majority of the voters.

**Theorem.**  Except with probability ``beta`` there is a set of (x, y), fixed before the first query, that has
probability at most ``best error of the class + alpha``, and **every one of the k answers outside it is right**, whoever
asks and however later queries depend on earlier answers.  So of k queries that are records of new people, at most
Binomial(k, best + alpha) many are answered wrongly (:func:`most_wrong_answers`).

*Proof.*  Let f be the rule behind the relabelling.  As for the reduction, ``err(f') <= best + alpha1 + alpha0 +
1/levels + L/(b w) + omega(L/(a t))``.  Three more steps, every one with its own share of ``beta``:

1. *One voter.*  Let ``S`` be the largest probability of ``g != g'`` over pairs of rules that agree on the n' records of
   a part: it bounds the voter's distance to f', whatever labels were drawn.  Draw s more records.  If a pair that
   agrees on the part has ``P(g != g') > x``, then with probability at least 1/2 it differs on at least ``floor(x s)``
   of the new ones, because a binomial median is at least the mean rounded down (Kaas and Buhrman 1980).  Given all
   ``N = n' + s`` records, at most ``Pi(N)**2`` pairs are told apart, and a pair that differs on j of them has all of
   these among the new ones with probability ``prod_{i<j} (s - i)/(N - i) <= (s/N)**j``.  So

       Pr[S > x] <= 2 Pi(N)**2 (s/N)**floor(x s) <= M e**(-c x),     M = 2 Pi(N)**2 N/s,   c = s ln(N/s),

   that is, S is at most ``ln(M)/c`` plus an exponential time of rate c (as laws).
2. *All voters.*  Parts are independent, so the mean over r voters is at most ``ln(M)/c + (1 + sqrt(2 l/r) + l/r)/c``
   except with probability ``e**-l`` (gamma tails), and also at most ``ln(M)/c + (ln r + l)/c`` (all of them at once):
   ``share``.  Where ``j + 1`` or more of r voters are wrong has probability at most ``share r/(j + 1)`` (Markov).
3. *The coins.*  Elsewhere an answer differs from f' with probability at most ``1/(1 + e**(gamma (r - 2j)))``, given all
   that was answered before; j is the largest with which k answers do not, except with their share of ``beta``.

The set is where f' is wrong or more than j voters are.  Under add-remove the sizes of T, W and of every part are
binomial and at least their lower Chernoff bounds.  Every term falls with t, w, a, b and gamma, and the candidates (the
shares of T, the costs, the cost of the transcript, the numbers of voters) are the same for every number of people and
every budget: more people, epsilon, delta, alpha, beta or fewer queries never need more people.  Numbers of people are
looked for on one fixed grid, 1.1 % apart, for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property

import numpy as np
from attrs import evolve, frozen

from privpac.arrays import Floats64, Ints
from privpac.bisection import least, least_between
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.methods.prediction.reduction_privacy import (
    COSTS,
    INNER_EPSILONS,
    ROUNDED,
    SHARES,
    Objective,
    ReductionPlan,
    ReductionTask,
    inner_delta,
)
from privpac.methods.prediction.voters import MAX_QUERIES, gamma_for_transcript
from privpac.sample_size import LIMIT, SLACK, Certificate, log_size_of, open_unit, positive, relation
from privpac.special import bdtrc

# Accuracy of the realizable-to-agnostic transformation, with constants.
#
# Let ``L = ln(labellings of t points / b2)`` and let the inner learner be proper, with at most a share ``alpha_A`` of
# wrong labels on any realizable T except with probability ``b_A``.  Off events of total probability ``b0 + b1 + b2 + b3
# + b_A``,
#
#     error <= best + alpha1 + alpha0 + 1/levels + L/(b w) + omega(alpha_A + L/(a t)),
#     alpha1 = sqrt(2 ln Pi(w) / w) + sqrt(ln(1/b1) / (2 w)),  alpha0 = sqrt(ln(1/b0) / (2 w)),
#     omega(d) = d + xi**2/2 + xi sqrt(d + xi**2/4),  xi**2 = 4 (ln 4 + 2 ln Pi(2t) + ln(1/b3)) / t,
#
# ``Pi`` the growth function, t and w the sizes of T and W, a and b the costs of the relabelling law.  *Proof.*  The law
# gives, except with probability b2, ``a t dis_T(h, f) + b w err_W(f) <= b w err_W(f0) + L`` for the rule f behind the
# labels h and the best rule f0 on W; since f0 is best there, ``dis_T(h, f) <= L/(a t)`` and ``err_W(f) <= err_W(f0) +
# L/(b w)``.  The learnt rule g and f differ on a share ``d = alpha_A + L/(a t)`` of T at most, hence on a share
# ``omega(d)`` of the population: relative deviation, ``Pr[some pair: P - P_T > xi sqrt(P)] <= 4 Pi(2t)**2 exp(-xi**2 t
# / 4)``, solved for P.
#
# *Users with many records.*  ``err_W`` averages over users the share of each one's own mistakes, **rounded down to a
# step of** ``1/levels``: it is at most ``1/levels`` below the true average, and never above it, which costs
# ``1/levels`` once (nothing where a unit has one record).  The true average is the expectation, over one record of each
# user drawn at random, of an average over w records, so its supremum over the class is at most the expectation of
# theirs: ``alpha1`` (symmetrisation, Massart, McDiarmid with steps of ``1/w``) is that of one record per user, whatever
# the numbers of records.  ``alpha0`` is Hoeffding's for the single best rule.
#
# *Prediction* by votes leaves ``alpha_A`` out and adds the envelope of the vote's error.
#
# Under add-remove t and w are binomial: both are at least their lower Chernoff bounds, which costs two more failures.
# T and W are independent samples given the split.  Every term falls with t, w, a and b (growth functions are
# log-concave) and with the failure, so with the candidates of ``methods.prediction.reduction_privacy`` the least
# promised excess never rises with the number of units, epsilon or beta: a certified number holds for every larger one.

LogGrowth = Callable[[int], float]
InnerError = Callable[[int, float, float], float]
"""``(t, eps_A, failure) -> alpha_A``: wrong labels on any realizable T of size t."""

_USERS = "independent users from one law, each counting alike"
_ASSUMES = f"{_USERS}; a proper inner learner"
_MAX_UNITS = 1 << 36


@frozen(slots=False)
class ReductionExcess:
    """How much worse than the best rule the result may be, term by term; ``total`` holds but for the failure."""

    convergence: float
    noise_rest: float
    noise_part: float
    inner: float
    rounding: float = 0.0

    @property
    def total(self) -> float:
        return (self.convergence + self.noise_rest + self.noise_part + self.inner + self.rounding) * (1 + SLACK)


def selection_error(log_size: Rational, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> InnerError:
    """The inner error of an exponential law over a class of this log size, on any realizable data."""
    size, halves = log_size_of(log_size), 1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2
    return lambda t, epsilon, failure: halves * (size - math.log(failure)) / (epsilon * t)


def reduction_excess(
    *,
    t: int,
    w: int,
    a: Rational,
    b: Rational,
    log_growth: LogGrowth,
    beta: Rational,
    inner_error: float = 0.0,
    envelope: float | None = None,
    levels: int | None = None,
) -> ReductionExcess:
    """The bound for sizes ``t`` and ``w``; ``beta`` is split evenly over the events (the inner learner's own failure is
    not among them).

    ``inner_error``: ``alpha_A``.  ``envelope``: for prediction by votes, the bound on a wrong vote; ``inner_error`` is
    then not used. ``levels``: steps of a unit's loss on W; ``None`` where every unit has one record there, and nothing
    is rounded.

    >>> x = reduction_excess(t=20_000, w=80_000, a="0.9", b="0.4", log_growth=lambda n: math.log(n + 1), beta="0.05")
    >>> round(x.total, 3)
    0.035
    """
    part, rest = positive_int(t, "t", maximum=LIMIT), positive_int(w, "w", maximum=LIMIT)
    cost_t, cost_w = positive(a, "a"), positive(b, "b")
    failure = open_unit(beta, "beta") / 4
    error = 0.0 if envelope is not None else float(rational(inner_error, "inner_error", minimum=0, maximum=1 << 60))
    extra = 0.0 if envelope is None else float(rational(envelope, "envelope", minimum=0, maximum=1))
    size, square, convergence = by_size(part, rest, failure, log_growth)
    apart = float(relative(error + size / (cost_t * part), square))
    rounding = 0.0 if levels is None else 1 / positive_int(levels, "levels")
    return ReductionExcess(convergence, size / (cost_w * rest), apart - error, error + extra, rounding)


def by_size(t: int, w: int, failure: float, log_growth: LogGrowth) -> tuple[float, float, float]:
    """``L``, ``xi**2`` and ``alpha1 + alpha0``: what follows from the sizes alone."""
    log_one = -math.log(failure)
    single = math.sqrt(log_one / (2 * w))
    square = 4 * (math.log(4) + 2 * log_growth(2 * t) + log_one) / t
    return log_growth(t) + log_one, square, math.sqrt(2 * log_growth(w) / w) + 2 * single


def relative(d: float | Floats64, square: float | Floats64) -> Floats64:
    """``omega(d)``."""
    return np.asarray(d + square / 2 + np.sqrt(square * (d + square / 4)))


def excess_objective(
    *, beta: float, log_growth: LogGrowth, inner_error: InnerError, neighbours: Neighbours, levels: int | None = None
) -> Callable[[Fraction], Objective]:
    """The promised excess of a matrix of candidates, for ``methods.prediction.reduction_privacy``.

    Half of ``beta`` for the events, a quarter for the inner learner, a quarter for the sizes under add-remove.
    """
    rounding = 0.0 if levels is None else 1 / levels

    def of(eps_a: Fraction) -> Objective:
        def value(t: Ints, w: Ints, a: Floats64, b: Floats64) -> Floats64:
            rows = np.array([_row(int(x), int(y), float(eps_a)) for x, y in zip(t, w)])
            size, square, convergence, error, part, rest = rows.T[:, :, None]
            noise = size / (b * rest) + relative(error + size / (a * part), square)
            return np.asarray((convergence + noise + rounding) * (1 + SLACK))

        return value

    def _row(t: int, w: int, eps_a: float) -> tuple[float, ...]:
        if neighbours is Neighbours.ADD_REMOVE:
            t, w = at_least(t, beta / 8), at_least(w, beta / 8)
        if t < 1 or w < 1:
            return (math.inf, math.inf, math.inf, math.inf, 1.0, 1.0)
        error = inner_error(t, eps_a, beta / 4)
        if not 0 <= error < math.inf:
            raise ParameterError(f"inner_error must be a number that is at least 0, got {error}")
        return (*by_size(t, w, beta / 8, log_growth), error, t, w)

    return of


def certify_reduction(
    *,
    alpha: Rational,
    beta: Rational,
    epsilon: Rational,
    log_growth: LogGrowth,
    inner_error: InnerError,
    delta: Rational = 0,
    inner_delta: Rational = 0,
    inner_epsilons: tuple[Rational, ...] = INNER_EPSILONS,
    labellings: int = 2,
    levels: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    n_users: int | None = None,
    objective: Callable[[Fraction], Objective] | None = None,
) -> Certificate:
    """Users with which the excess error is at most ``alpha`` but for ``beta``, with the constants of least promised
    excess.

    ``objective``: the promised excess of an inner learner that is not proper
    (:mod:`privpac.papers.realizable_to_agnostic.reduction`).

    ``levels``: steps of a unit's loss; ``None`` where every unit has one record outside T.  ``n_users`` asks about one
    number: the certificate then holds it, or ``None``, and ``excess`` says what is reached.
    """
    target, failure, rule = open_unit(alpha, "alpha"), open_unit(beta, "beta"), relation(neighbours)
    steps = None if levels is None else positive_int(levels, "levels")
    task = ReductionTask.read(epsilon, delta, failure / 8, inner_delta, labellings, steps or 1, rule, log_growth)
    promised = objective or excess_objective(
        beta=failure, log_growth=log_growth, inner_error=inner_error, neighbours=rule, levels=steps
    )
    assumes = _ASSUMES if objective is None else f"{_USERS}; any inner learner"
    inner = [rational(e, "inner_epsilons", minimum=0, maximum=1000) for e in inner_epsilons]

    def reached(n: int) -> tuple[float, Fraction, int, float, float]:
        found = [(got[0], eps, *got[1:]) for eps in inner if (got := task.best(n, eps, promised(eps))) is not None]
        return min(found, default=(math.inf, Fraction(0), 0, 0.0, 0.0))

    def certificate(n: int | None, at: int) -> Certificate:
        value, eps, t, a, b = reached(at)
        if value == math.inf:
            return Certificate.upper(None, "agnostic reduction", assumes, excess=value)
        plan = task.settle(at, eps, t, a, b)
        # What is promised was judged at costs that the integers must reach; it is what they reach where they do not.
        if objective is not None or plan.a < a * (1 - ROUNDED) or plan.b < b * (1 - ROUNDED):
            sizes = np.array([plan.split_size]), np.array([at - plan.split_size])
            value = float(promised(plan.eps_A)(*sizes, np.array([float(plan.a)]), np.array([[float(plan.b)]]))[0, 0])
        shape: dict[str, object] = {"users": "one"} if steps is None else {"users": "hybrid", "levels": steps}
        shape |= {"split_size": plan.split_size, "a": float(plan.a), "b": float(plan.b), "eps_A": plan.eps_A}
        return Certificate.upper(n if value <= target else None, "agnostic reduction", assumes, excess=value, **shape)

    if n_users is not None:
        n = positive_int(n_users, "n_users", minimum=2)
        return certificate(n, n)
    enough = least(lambda n: reached(n)[0] <= target, start=16, limit=_MAX_UNITS)
    return certificate(enough, _MAX_UNITS if enough is None else enough)


def at_least(mean: float, failure: float) -> int:
    """A binomial number with this mean is at least ``mean - sqrt(2 mean ln(1/failure))`` but for the failure."""
    return math.floor(mean - math.sqrt(-2 * mean * math.log(failure)) * (1 + SLACK))


_ASSUMES_OF_ANSWERS = "independent people from one law, each counting alike, and queries drawn as their records are"
_INNER: tuple[Rational, ...] = ("1/4", "1/2", 1, "3/2", 2, 3, 4, 6)
_EVERY = 6
"""Of the shares of T one in six is tried: a factor of the square root of 2 apart."""
_VOTERS = tuple(sorted({round(2 ** (i / 2)) for i in range(33)}))
"""Numbers of voters that are tried."""
_GHOSTS = (1, 4, 16)
"""Further records for each record of a part, in the proof."""
_STEPS, _FIRST, _LAST = 64, 4, 36
"""The grid of numbers of people: ``2**(i/64)`` from ``2**4`` to ``2**36``."""


def voters_apart(part: int, voters: int, failure: float, log_growth: LogGrowth) -> float:
    """``share``: how far voters that learn from ``part`` records each are from the rule behind the labels, in the mean
    over voters; but for ``failure``.

    >>> round(voters_apart(1000, 64, 0.01, lambda n: math.log(n + 1)), 4)
    0.0217
    """
    log_one = -math.log(failure)
    tail = min(1 + math.sqrt(2 * log_one / voters) + log_one / voters, math.log(voters) + log_one)
    found = 1.0
    for times in _GHOSTS:
        rate = times * part * math.log1p(1 / times)
        size = math.log(2) + 2 * log_growth((1 + times) * part) + math.log1p(1 / times)
        found = min(found, (size + tail) / rate * (1 + SLACK))
    return found


def most_dissent(gamma: float, voters: int, queries: int, failure: float) -> int:
    """``j``: with so many wrong votes of ``voters`` none of ``queries`` answers is wrong but for ``failure``; -1 where
    the coins alone err too often.

    >>> most_dissent(0.5, 40, 100, 0.01), most_dissent(0.01, 40, 100, 0.01)
    (10, -1)
    """
    lead = math.log(queries / failure) / gamma * (1 + SLACK)
    return math.floor((voters - lead) / 2) if lead <= voters else -1


def most_wrong_answers(queries: int, share: Rational, failure: Rational) -> int:
    """The least number that Binomial(``queries``, ``share``) exceeds with probability at most ``failure``.

    >>> most_wrong_answers(100, "0.15", "0.05")
    21
    """
    k = positive_int(queries, "queries", maximum=1 << 30)
    p, limit = float(rational(share, "share", minimum=0, maximum=1)), open_unit(failure, "failure")
    if p == 0:
        return 0

    def enough(wrong: int) -> bool:
        return bool(wrong >= k or bdtrc(wrong, k, p) <= limit * (1 - SLACK))

    return 0 if enough(0) else least_between(enough, 0, k)


@frozen(slots=False)
class Service:
    """Public constants of a service for ``split.n_users`` people, and the excess that they promise."""

    split: ReductionPlan
    voters: int
    gamma: Fraction
    excess: float


@frozen(slots=False)
class ServiceTask:
    """A budget, a number of answers and a failure; ``best`` chooses the constants for a number of people."""

    epsilon: Fraction
    delta: Fraction
    queries: int
    beta: float
    log_growth: LogGrowth
    levels: int | None
    """Steps that a person's loss is rounded to; None where nobody's is."""
    neighbours: Neighbours
    scale: int | None = None
    """Steps of a person's loss, where that is not what it is rounded to."""

    @classmethod
    def read(
        cls,
        *,
        epsilon: Rational,
        queries: int,
        beta: Rational,
        log_growth: LogGrowth,
        delta: Rational = 0,
        levels: int | None = None,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> ServiceTask:
        return cls(
            rational(epsilon, "epsilon", above=0, maximum=1000),
            rational(delta, "delta", minimum=0, below=1),
            positive_int(queries, "queries", maximum=MAX_QUERIES),
            open_unit(beta, "beta"),
            log_growth,
            None if levels is None else positive_int(levels, "levels", maximum=1 << 20),
            relation(neighbours),
        )

    @cached_property
    def _candidates(self) -> ReductionTask:
        steps = self.scale or self.levels or 1
        return ReductionTask.read(self.epsilon, 0, self.beta / 8, 0, 2, steps, self.neighbours, self.log_growth)

    @property
    def _poisson(self) -> bool:
        return self.neighbours is Neighbours.ADD_REMOVE

    def reached(self, n: int) -> tuple[float, Fraction, int, float, float, int]:
        """``(excess, eps_A, t, a, b, voters)`` of the least promised excess for ``n`` people."""
        found = (math.inf, Fraction(0), 0, 0.0, 0.0, 0)
        apart: dict[int, Floats64] = {}
        for eps_a in (rational(e) for e in _INNER):
            t, b = self._rows(n, eps_a)
            if not bool((b > 0).any()):
                continue
            votes, counts = self._votes(n, t, eps_a, apart)
            rows = np.array([self._sizes(int(x), n - int(x)) for x in t])
            size, square, convergence, part, rest = rows.T[:, :, None]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                noise = size / (b * rest) + relative(size / (COSTS * (1 - ROUNDED) * part), square)
                value = np.where(b > 0, convergence + noise + votes[:, None], math.inf)
            i, j = np.unravel_index(int(np.nanargmin(value)), value.shape)
            total = (float(value[i, j]) + self._rounding) * (1 + SLACK)
            if total < found[0]:
                found = (total, eps_a, int(t[i]), float(COSTS[j]), float(b[i, j]) / (1 - ROUNDED), int(counts[i]))
        return found

    def best(self, n: int) -> Service | None:
        """The constants of least promised excess for ``n`` people, recomputed from exact ones; None where nothing is
        affordable or promised."""
        _, eps_a, t, a, b, r = self.reached(n)
        if r == 0:
            return None
        plan = self._settled(n, eps_a, t, a, b)
        leak = Fraction(0)
        if self.delta > 0:
            split = (plan.split_rate, plan.a, plan.b)
            leak = min(inner_delta(*split, 0, self.delta, plan.labellings, plan.neighbours), Fraction(1, 2))
        gamma = gamma_for_transcript(self.queries, plan.eps_A, r, leak)
        return Service(plan, r, gamma, self.excess(t, n - t, float(plan.a), float(plan.b), r, float(gamma)))

    def excess(self, t: int, w: int, a: float, b: float, voters: int, gamma: float) -> float:
        """What is promised with such constants; infinite where nothing is.  Under add-remove ``t`` and ``w`` are the
        expected sizes of T and W."""
        size, square, convergence, part, rest = self._sizes(t, w)
        wrong = self._wrong_votes(self._apart(t, voters), voters, gamma)
        if not math.isfinite(size + wrong):
            return math.inf
        noise = size / (b * rest) + float(relative(size / (a * part), square))
        return (convergence + noise + wrong + self._rounding) * (1 + SLACK)

    # Parts of the bound

    @property
    def _rounding(self) -> float:
        return 0.0 if self.levels is None else 1 / self.levels

    def _rows(self, n: int, eps_a: Fraction) -> tuple[Ints, Floats64]:
        """Sizes of T to try, and for each the affordable ``b`` of every cost."""
        t, b = self._candidates.rows(n, eps_a)
        tried = np.isin(t, np.floor(SHARES[::_EVERY] * n)) & (t >= 1)
        t, b = t[tried], b[tried] * (1 - ROUNDED)
        if self.delta > 0 and self._poisson:
            # Within K' the transcript's delta is paid times the share of T and no more, whatever the budget.
            b = np.minimum(b, (COSTS + math.log(self._candidates.g)) * (1 - ROUNDED))
        return t, b

    def _settled(self, n: int, eps_a: Fraction, t: int, a: float, b: float) -> ReductionPlan:
        """Integer costs; with a delta under add-remove the rate stays where ``b <= a + ln G``, as it was judged."""
        plan = self._candidates.settle(n, eps_a, t, a, b)
        apart = plan.B * plan.levels - plan.A
        if self.delta > 0 and self._poisson and apart > 0:
            most = Fraction(math.floor(math.log(plan.labellings) / apart * (1 - SLACK) * 2.0**60), 1 << 60)
            if 0 < most < plan.eta:
                plan = evolve(plan, eta=most)
        return plan

    def _sizes(self, t: int, w: int) -> tuple[float, float, float, float, float]:
        """``L``, ``xi**2``, ``alpha1 + alpha0`` and the sizes of T and W that they are for."""
        if self._poisson:
            t, w = at_least(t, self.beta / 24), at_least(w, self.beta / 24)
        if t < 1 or w < 1:
            return (math.inf, math.inf, math.inf, 1.0, 1.0)
        return (*by_size(t, w, self.beta / 8, self.log_growth), float(t), float(w))

    def _apart(self, t: int, voters: int) -> float:
        """``share`` for ``voters`` parts of T."""
        part = at_least(t / voters, self.beta / (24 * voters)) if self._poisson else t // voters
        return math.inf if part < 1 else voters_apart(part, voters, self.beta / 4, self.log_growth)

    def _wrong_votes(self, share: float, voters: int, gamma: float) -> float:
        dissent = most_dissent(gamma, voters, self.queries, self.beta / 8)
        return math.inf if dissent < 0 else share * voters / (dissent + 1)

    def _votes(self, n: int, t: Ints, eps_a: Fraction, apart: dict[int, Floats64]) -> tuple[Floats64, Ints]:
        """For every size of T the least probability of too many wrong votes, and the number of voters for it."""
        values, counts = np.full(len(t), math.inf), np.zeros(len(t), dtype=np.int64)
        for i, size in enumerate(t.tolist()):
            if size not in apart:
                apart[size] = np.array([self._apart(size, r) for r in _VOTERS])
            gamma = self._least_gamma(float(eps_a), float(self.delta) * n / size)
            for r, share in zip(_VOTERS, apart[size].tolist()):
                wrong = self._wrong_votes(share, r, gamma)
                if wrong < values[i]:
                    values[i], counts[i] = wrong, r
        return values, counts

    def _least_gamma(self, eps_a: float, leak: float) -> float:
        """A rate that the transcript can pay, whatever the number of voters: the pure sum with ``eps_v <= 2 gamma``,
        or the simple conversion ``rho + 2 sqrt(rho ln(1/delta))`` of zCDP."""
        pure = eps_a / self.queries / 2
        if leak <= 0:
            return pure * (1 - ROUNDED)
        log_one = -math.log(min(leak, 0.5))
        root = eps_a / (math.sqrt(log_one + eps_a) + math.sqrt(log_one))  # of rho
        return max(pure, root * math.sqrt(2 / self.queries)) * (1 - ROUNDED)


def certify_service(task: ServiceTask, alpha: Rational, n_users: int | None = None) -> Certificate:
    """People with which the theorem holds at ``alpha`` and the task's ``beta``.

    ``n_users`` asks about one number: the certificate then holds it, or None, and ``excess`` says what is reached.

    >>> task = ServiceTask.read(epsilon=1, delta="1e-6", queries=10, beta="0.05", log_growth=lambda n: math.log(n + 1))
    >>> found = certify_service(task, "0.1")
    >>> found.n_users, certify_service(task, "0.1", n_users=2 * found.n_users).certified
    (826268, True)
    """
    target = open_unit(alpha, "alpha")
    if n_users is not None:
        n = positive_int(n_users, "n_users", minimum=2, maximum=1 << _LAST)
        return _certificate(task, n, target)
    grid = [math.ceil(2 ** (i / _STEPS)) for i in range(_FIRST * _STEPS, _LAST * _STEPS + 1)]
    if not task.reached(grid[-1])[0] <= target:
        return Certificate.upper(None, "prediction service", _ASSUMES_OF_ANSWERS)
    place = least_between(lambda i: task.reached(grid[i])[0] <= target, -1, len(grid) - 1)
    return _certificate(task, grid[place], target)


def _certificate(task: ServiceTask, n: int, target: float) -> Certificate:
    service = task.best(n)
    if service is None:
        return Certificate.upper(None, "prediction service", _ASSUMES_OF_ANSWERS, excess=math.inf)
    plan, excess = service.split, service.excess
    constants: dict[str, object] = {"excess": excess, "voters": service.voters, "gamma": float(service.gamma)}
    constants |= {"split_size": plan.split_size, "a": float(plan.a), "b": float(plan.b), "eps_A": plan.eps_A}
    return Certificate.upper(n if excess <= target else None, "prediction service", _ASSUMES_OF_ANSWERS, **constants)
