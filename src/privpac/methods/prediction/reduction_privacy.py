"""Privacy of the realizable-to-agnostic transformation: three theorems and their closed-form inverses.

A secret part T of the units is relabelled by a rule that does well on the rest W, and an inner algorithm that is
``(eps_A, delta_A)``-DP on realizable data sees T alone.  Public numbers: ``q`` the share of T, ``a`` and ``b`` the cost
of one disagreement on T and of one unit's mistakes on W (both times the rate of the law), ``G`` the most labellings of
one unit's part of T that extend a labelling of the rest (2 where every unit has one record in T).  See Li, Wang and Ye,
*Realizable-to-Agnostic*, Lemmas 14-17 and 21, for weaker forms.

**Theorem A** (replace, T a uniform subset of fixed size).  With ``K = G**2 * e**(2a + eps_A)`` the composition is
``(eps_out, q delta_A)``-DP with

    eps_out = 2b + max(0, ln(1 - q + q K) - ln(1 - q + q e**(2b))).

*Proof.*  Let unit 1 differ and ``P = (1-q) beta +
q alpha``, beta: 1 not in T.  (i) ``beta1 <= e**(2b) beta2``: every score and the normaliser move by at most b.  (ii) 1
in T: for a labelling c of the other units of T all extensions have scores in ``[m(c), m(c) + a]`` and there are 1..G of
them, so their total weight lies in ``e**(-m(c)) [e**-a, G]`` on both sides, the law of c moves by at most ``G**2
e**(2a)``, and given c the inner inputs are neighbours: ``alpha1 <= K alpha2 + delta_A``.  (iii) Swapping 1 for a
uniform unit outside T: ``alpha1 <= K e**(2b) beta2 + delta_A``.  Mixing (ii) and (iii) so that both coefficients are
e**eps times those of P2 gives the formula when ``e**(2b) <= K``; otherwise (ii) alone gives 2b.

**Theorem B** (add-remove, every unit enters T independently with probability q; a, b, q must not depend on the number
of units; the inner algorithm is add-remove and defined on no data).  With ``K' = G e**(a + eps_A)``,

    eps_out   = ln((1-q) e**b + q K')
    delta_out = q delta_A max(1, e**eps_out / K').

**Theorem C** (replace).  A base that is ``(eps, delta)``-DP on m records, run on m uniform draws with replacement from
N records, is ``(m ln(1 + (e**eps - 1)/N), delta (e**eps' - 1)/(e**eps - 1))``-DP, and both are attained.  *Proof.*  The
number of copies of the changed record is Bin(m, 1/N); its law tilted by ``e**(eps k)`` dominates it stochastically, so
group privacy for k copies can be moved down.

Everything is rounded outward: guarantees up, what may be spent down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np
from attrs import frozen
from flint import arb

from privpac.arrays import Floats64, Ints
from privpac.bisection import last_between, least_between
from privpac.errors import InfeasibleError, Undecided
from privpac.exact import MAX_PRECISION, ExpSum, Rational, as_arb, ball_of, exp_ball, precision, rational, up
from privpac.guarantee import Neighbours, one_of, positive_int

_LARGEST = 10**9
_MAX_LABELLINGS = 1 << 200

_Spend = tuple[Fraction, Fraction]
"""An (epsilon, delta) pair, rounded up."""


def theorem_a(q: Rational, a: Rational, b: Rational, eps_A: Rational, delta_A: Rational = 0, G: int = 2) -> _Spend:
    """``(eps_out, delta_out)`` under replace with a fixed-size split.

    >>> [float(x) for x in theorem_a("1/2", "0.01", 2, "0.1")]
    [4.0, 0.0]
    """
    rate, x, y, spent, leak, g = _read(q, a, b, eps_A, delta_A, G)
    log_k = 2 * x + spent
    # Where e**(2b) >= K the unclipped expression would under-report.
    if _sign_of_log(g * g, log_k - 2 * y) <= 0:
        return 2 * y, rate * leak
    epsilon = up(
        lambda: as_arb(2 * y) + _log_mix(rate, 2 * arb(g).log() + as_arb(log_k)) - _log_mix(rate, as_arb(2 * y))
    )
    return epsilon, rate * leak


def theorem_b(q: Rational, a: Rational, b: Rational, eps_A: Rational, delta_A: Rational = 0, G: int = 2) -> _Spend:
    """``(eps_out, delta_out)`` under add-remove with a Poisson split.

    >>> [round(float(x), 6) for x in theorem_b("1/4", "0.1", "0.1", "0.5")]
    [0.553849, 0.0]
    """
    rate, x, y, spent, leak, g = _read(q, a, b, eps_A, delta_A, G)
    log_k = x + spent
    if y == 0 and log_k == 0 and g == 1:
        return Fraction(0), rate * leak
    epsilon = up(lambda: as_arb(y) + _log_mix(rate, arb(g).log() + as_arb(log_k - y)))
    # e**eps_out / K' = q + (1-q) e**b / K', above 1 exactly where e**b > K'.
    if leak == 0 or _sign_of_log(g, log_k - y) >= 0:
        return epsilon, rate * leak
    return epsilon, up(lambda: as_arb(rate * leak) * (as_arb(rate) + as_arb(1 - rate) * exp_ball(y - log_k) / g))


def theorem_c(m: int, n: int, epsilon: Rational, delta: Rational = 0) -> _Spend:
    """``(eps', delta')`` of a base run on ``m`` draws with replacement from ``n`` records, under replace.

    >>> [round(float(x), 6) for x in theorem_c(1000, 600, "0.81", "1e-8")]
    [2.077687, 0.0]
    """
    draws, records = positive_int(m, "m", maximum=_LARGEST), positive_int(n, "n", maximum=1 << 62)
    spent = rational(epsilon, "epsilon", minimum=0, maximum=_LARGEST)
    leak = rational(delta, "delta", minimum=0, maximum=1)
    if spent == 0:
        return spent, leak * draws / records
    smaller = up(lambda: draws * (as_arb(spent).expm1() / records).log1p())
    if leak == 0:
        return smaller, leak
    return smaller, up(
        lambda: as_arb(leak) * (draws * (as_arb(spent).expm1() / records).log1p()).expm1() / as_arb(spent).expm1()
    )


def outer(
    neighbours: Neighbours | str,
    q: Rational,
    a: Rational,
    b: Rational,
    eps_A: Rational,
    delta_A: Rational = 0,
    G: int = 2,
) -> _Spend:
    """Theorem A under replace, Theorem B under add-remove."""
    theorem = theorem_a if one_of(Neighbours, neighbours, "neighbours") is Neighbours.REPLACE else theorem_b
    return theorem(q, a, b, eps_A, delta_A, G)


# Closed-form inverses, rounded down


def solve_b(
    q: Rational,
    a: Rational,
    eps_A: Rational,
    epsilon: Rational,
    G: int = 2,
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Fraction | None:
    """The largest ``b`` with ``eps_out <= epsilon``; ``None`` where not even ``b = 0`` is affordable.

    Replace: ``b = eps/2`` if ``K <= e**eps``, else ``ln(E (1-q) / (1 - q + q (K - E))) / 2``.  Add-remove: ``ln((E - q
    K')/(1-q))``.
    """
    rate, x, _, spent, _, g = _read(q, a, 0, eps_A, 0, G)
    target = rational(epsilon, "epsilon", above=0, maximum=_LARGEST)
    if one_of(Neighbours, neighbours, "neighbours") is Neighbours.REPLACE:
        log_k = 2 * x + spent
        if _sign_of_log(g * g, log_k - target) <= 0:
            return target / 2
        # Feasible iff 1 + q (K - 1) < E.
        if ExpSum([(target, Fraction(1)), (log_k, -rate * g * g), (Fraction(0), rate - 1)]).sign() <= 0 or rate == 1:
            return None

        def ratio() -> arb:
            k, e = g * g * exp_ball(log_k), exp_ball(target)
            return as_arb(1 - rate) / (as_arb(1 - rate) + as_arb(rate) * (k - e))

        return _down(lambda: (as_arb(target) + ratio().log()) / 2)
    log_k = x + spent
    if ExpSum([(target, Fraction(1)), (log_k, -rate * g), (Fraction(0), rate - 1)]).sign() <= 0 or rate == 1:
        return None
    return _down(lambda: ((exp_ball(target) - as_arb(rate) * g * exp_ball(log_k)) / as_arb(1 - rate)).log())


def inner_budget(
    q: Rational,
    a: Rational,
    b: Rational,
    epsilon: Rational,
    delta: Rational = 0,
    G: int = 2,
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> _Spend | None:
    """The most an inner algorithm may spend, ``(eps_A, delta_A)``, for a target ``(epsilon, delta)``; None: nothing."""
    rate, x, y, _, _, g = _read(q, a, b, 0, 0, G)
    target = rational(epsilon, "epsilon", above=0, maximum=_LARGEST)
    relation = one_of(Neighbours, neighbours, "neighbours")
    if relation is Neighbours.REPLACE:
        if 2 * y > target:
            return None
        # K_max = (e**(eps-2b) (1 - q + q e**(2b)) - 1 + q) / q
        largest = ExpSum([(target - 2 * y, (1 - rate) / rate), (target, Fraction(1)), (Fraction(0), (rate - 1) / rate)])
        shift, factor = 2 * x, g * g
    else:
        # K'_max = (E - (1-q) e**b) / q
        largest = ExpSum([(target, 1 / rate), (y, (rate - 1) / rate)])
        shift, factor = x, g
    if (largest - ExpSum.exp(shift, factor)).sign() <= 0:
        return None
    spent = _down(lambda: (largest.arb() / factor).log() - as_arb(shift))
    return spent, inner_delta(rate, x, y, spent, delta, g, relation)


def inner_delta(
    q: Rational,
    a: Rational,
    b: Rational,
    eps_A: Rational,
    delta: Rational,
    G: int = 2,
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Fraction:
    """The largest ``delta_A`` with ``delta_out <= delta`` at this ``eps_A``; at most 1."""
    rate, x, y, spent, _, g = _read(q, a, b, eps_A, 0, G)
    target = rational(delta, "delta", minimum=0, maximum=1)
    replaced = one_of(Neighbours, neighbours, "neighbours") is Neighbours.REPLACE
    if replaced or target == 0 or _sign_of_log(g, x + spent - y) >= 0:
        return min(target / rate, Fraction(1))
    low = _down(lambda: as_arb(target / rate) / (as_arb(rate) + as_arb(1 - rate) * exp_ball(y - x - spent) / g))
    return min(low, Fraction(1))


def largest_rate(
    a: Rational, eps_A: Rational, epsilon: Rational, G: int = 2, neighbours: Neighbours | str = Neighbours.REPLACE
) -> Fraction:
    """The supremum ``(E - 1)/(K - 1)`` of the shares ``q`` that leave some ``b > 0``, at most 1; rounded down."""
    _, x, _, spent, _, g = _read(1, a, 0, eps_A, 0, G)
    target = rational(epsilon, "epsilon", above=0, maximum=_LARGEST)
    replace = one_of(Neighbours, neighbours, "neighbours") is Neighbours.REPLACE
    factor, log_k = (g * g, 2 * x + spent) if replace else (g, x + spent)
    if _sign_of_log(factor, log_k - target) <= 0:
        return Fraction(1)
    return _down(lambda: as_arb(target).expm1() / (factor * exp_ball(log_k) - 1))


def empirical_size(m: int, epsilon: Rational, eps_A: Rational) -> int:
    """The least number of records from which ``m`` draws with replacement cost at most ``eps_A``:
    ``ceil((e**eps-1)/(e**(eps_A/m)-1))``.

    >>> empirical_size(1000, "0.1", 1)
    106
    """
    draws = positive_int(m, "m", maximum=_LARGEST)
    spent = rational(epsilon, "epsilon", minimum=0, maximum=_LARGEST)
    target = rational(eps_A, "eps_A", above=0, maximum=_LARGEST)
    if spent == 0 or draws * spent <= target:
        return 1  # one record: m copies of it, group privacy
    bits = 128
    while bits <= MAX_PRECISION:
        with precision(bits):
            ratio = as_arb(spent).expm1() / as_arb(target / draws).expm1()
            size = ratio.ceil().unique_fmpz()
        if size is not None:
            return max(1, int(size))
        bits *= 2
    raise Undecided("the number of records was not decided")


def _read(
    q: Rational, a: Rational, b: Rational, eps_A: Rational, delta_A: Rational, G: int
) -> tuple[Fraction, Fraction, Fraction, Fraction, Fraction, int]:
    costs = [rational(v, name, minimum=0, maximum=_LARGEST) for v, name in ((a, "a"), (b, "b"), (eps_A, "eps_A"))]
    rate = rational(q, "q", above=0, maximum=1)
    leak = rational(delta_A, "delta_A", minimum=0, maximum=1)
    return rate, costs[0], costs[1], costs[2], leak, positive_int(G, "G", maximum=_MAX_LABELLINGS)


def _log_mix(q: Fraction, x: arb) -> arb:
    """``ln(1 - q + q e**x)`` without cancellation for small x and without waste for large x."""
    if x < 1:
        return (as_arb(q) * x.expm1()).log1p()
    return x + (as_arb(q) + as_arb(1 - q) * (-x).exp()).log()


def _sign_of_log(factor: int, x: Fraction) -> int:
    """The sign of ``ln(factor) + x``, exactly."""
    if x >= 0:
        return 1 if x > 0 or factor > 1 else 0
    return (ExpSum.exp(x, factor) - 1).sign()


def _down(compute: Callable[[], arb]) -> Fraction:
    """Round the positive real that ``compute`` encloses down to a rational of 64 significant bits."""
    bits = 128
    while bits <= MAX_PRECISION:
        with precision(bits):
            x = compute()
            if x.is_finite() and x.lower() > 0 and x.rel_accuracy_bits() >= 72:
                low = ball_of(x).lo
                shift = low.numerator.bit_length() - low.denominator.bit_length() - 64
                return (low / Fraction(2) ** shift).__floor__() * Fraction(2) ** shift
        bits *= 2
    raise Undecided("a value could not be enclosed tightly enough to round it down")


# Public constants for the realizable-to-agnostic transformation, from public numbers.
#
# Relabelling adds the noise ``L/(b w) + 2 L/(a t)``, ``L = ln(labellings of t points / failure)``, to the error; what
# is promised about the error has more terms (``methods.prediction.service_sample_size``).  Every share q of T and every
# cost ``a`` of two **fixed** grids is a candidate; ``b`` follows in closed form
# (``methods.prediction.reduction_privacy``) and does not depend on the number of units.  So the candidates of one
# privacy of the inner algorithm are the same for every number of units, those of a larger epsilon have a larger ``b``
# each, and the least value of any objective that falls with t, w, a and b never rises with units or epsilon.
#
# The law needs integers ``A``, ``B`` and a dyadic rate ``eta``: the guarantee that is stored is recomputed from exactly
# these, never the one that was aimed at, and they stay within a share ``ROUNDED`` of the costs that were aimed at.

MAX_COST = 1 << 26
"""``A`` and ``B * levels`` stay at most this, so that scores stay below 2**62 for fewer than 2**36 units."""

ROUNDED = 1e-5
"""Costs are judged this share smaller than aimed at, which integers and a rate reach."""

_ETA_BITS = 53
_MAX_UNITS = 1 << 36
INNER_EPSILONS: tuple[Rational, ...] = ("1/4", "1/2", 1, 2)

LeastSplit = Callable[[Fraction], int]
_LogGrowth = Callable[[int], float]
Objective = Callable[[Ints, Ints, Floats64, Floats64], Floats64]
"""``(t, w, a, b) -> value``: t and w one per row, a one per column, b and the values a matrix; never rises with any of
them."""

SHARES: Floats64 = 2.0 ** (-np.arange(1, 36 * 12 + 1) / 12)
COSTS: Floats64 = 2.0 ** (np.arange(-30 * 8, 10 * 8 + 1) / 8)


@frozen(slots=False)
class ReductionPlan:
    """Constants of a transformation and the promise recomputed from them.

    ``a = eta * A`` is the cost of a disagreement on T, ``b = eta * B * levels`` that of one unit's mistakes on W.
    """

    n_users: int
    split_size: int
    A: int
    B: int
    levels: int
    eta: Fraction
    eps_A: Fraction
    delta_A: Fraction
    labellings: int
    neighbours: Neighbours
    epsilon: Fraction
    delta: Fraction
    noise: float

    @property
    def split_rate(self) -> Fraction:
        return Fraction(self.split_size, self.n_users)

    @property
    def a(self) -> Fraction:
        return self.eta * self.A

    @property
    def b(self) -> Fraction:
        return self.eta * self.B * self.levels


def plan_reduction(
    *,
    n_users: int,
    epsilon: Rational,
    log_growth: _LogGrowth,
    delta: Rational = 0,
    failure: Rational = "1/100",
    inner_epsilons: Sequence[Rational] = INNER_EPSILONS,
    inner_delta: Rational = 0,
    least_split: LeastSplit | int = 1,
    most_split: int | None = None,
    labellings: int = 2,
    levels: int = 1,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    objective: Callable[[Fraction], Objective] | None = None,
) -> ReductionPlan:
    """The constants of least noise, or of the least ``objective(eps_A)``, for ``n_users``.

    The number is public: declared, or that of the units itself under replace.

    ``log_growth(t)``: logarithm of the number of labellings of t points.  ``least_split(eps_A)``: how many units the
    inner algorithm needs; ``most_split``: how many it may get.  ``labellings``: ``G``.  ``levels``: a unit's loss on W
    lies in ``0..levels``. ``InfeasibleError`` says which number of users would do, and which epsilon.

    >>> plan = plan_reduction(n_users=10000, epsilon=1, log_growth=lambda t: math.log(t + 1), inner_epsilons=["1/2"],
    ...     neighbours="replace")
    >>> round(plan.noise, 3), plan.epsilon <= 1
    (0.072, True)
    """
    task = ReductionTask.read(epsilon, delta, failure, inner_delta, labellings, levels, neighbours, log_growth)
    n = positive_int(n_users, "n_users", minimum=2, maximum=_MAX_UNITS)
    most = None if most_split is None else positive_int(most_split, "most_split")
    needs = []
    for eps_a in (rational(e, "inner_epsilons", minimum=0, maximum=1000) for e in inner_epsilons):
        split = least_split(eps_a) if callable(least_split) else least_split
        needs.append((eps_a, positive_int(split, "least_split")))
    best: tuple[float, Fraction, int, float, float] | None = None
    for eps_a, t_min in needs:
        found = task.best(n, eps_a, task.noise if objective is None else objective(eps_a), t_min, most)
        if found is not None and (best is None or found[0] < best[0]):
            best = (found[0], eps_a, *found[1:])
    if best is None:
        raise _infeasible(n, needs, task)
    return task.settle(n, *best[1:])


def integer_costs(
    a: float, b: float, A: int, B: int, levels: int, affordable: Callable[[Fraction, Fraction], bool]
) -> Fraction:
    """The largest dyadic ``eta`` of at most 53 bits with ``affordable(eta A, eta B levels)``."""
    guess = max(a / A, b / (B * levels))
    exponent = math.frexp(guess)[1] + 1 - _ETA_BITS
    unit = Fraction(2) ** exponent
    steps = last_between(lambda k: affordable(k * unit * A, k * unit * B * levels), 0, 1 << _ETA_BITS)
    if steps == 0:
        raise InfeasibleError(
            "no positive rate is affordable with these public numbers; ask for a larger epsilon or declare more users"
        )
    return steps * unit


@frozen(slots=False, eq=False)
class ReductionTask:
    """What is affordable with a target ``(epsilon, delta)``: for every share and every cost ``a`` the largest ``b``."""

    target: Fraction
    leak: Fraction
    failure: float
    inner_leak: Fraction
    g: int
    levels: int
    neighbours: Neighbours
    log_growth: _LogGrowth

    @classmethod
    def read(
        cls,
        epsilon: Rational,
        delta: Rational,
        failure: Rational,
        inner_delta: Rational,
        labellings: int,
        levels: int,
        neighbours: Neighbours | str,
        log_growth: _LogGrowth,
    ) -> ReductionTask:
        return cls(
            rational(epsilon, "epsilon", above=0, maximum=1000),
            rational(delta, "delta", minimum=0, below=1),
            float(rational(failure, "failure", minimum="1e-100", below=1)),
            rational(inner_delta, "inner_delta", minimum=0, below=1),
            positive_int(labellings, "labellings", maximum=1 << 62),
            positive_int(levels, "levels", maximum=MAX_COST),
            one_of(Neighbours, neighbours, "neighbours"),
            log_growth,
        )

    @property
    def replace(self) -> bool:
        return self.neighbours is Neighbours.REPLACE

    def b(self, q: Floats64, eps_a: Fraction) -> Floats64:
        """The closed form of ``solve_b`` in doubles, a row for every share; not positive where nothing is left."""
        e, spent, x = float(self.target), float(eps_a), COSTS
        share = q[:, None]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self.replace:
                log_k = 2 * math.log(self.g) + 2 * x + spent
                # rest = 1 - q + q (K - E), divided by E so that large budgets do not overflow
                rest = share * np.expm1(log_k - e) + (1 - share) * np.exp(-e)
                found = np.where(log_k <= e, e / 2, (np.log1p(-share) - np.log(rest)) / 2)
            else:
                found = e + np.log1p(-share * self.g * np.exp(x + spent - e)) - np.log1p(-share)
                if self.inner_leak:
                    # Within K' the inner delta is paid times the share and no more (Theorem B).
                    found = np.minimum(found, x + spent + math.log(self.g))
        return np.where(np.isfinite(found), found, 0.0) * (1 - 1e-9)

    @cached_property
    def _tables(self) -> dict[Fraction, Floats64]:
        return {}

    def rows(self, n: int, eps_a: Fraction, least: int = 1, most: int | None = None) -> tuple[Ints, Floats64]:
        """Sizes of T to try for ``n`` units, and for each the affordable ``b`` of every cost."""
        if eps_a not in self._tables:
            self._tables[eps_a] = self.b(SHARES, eps_a)
        last = n - 1 if self.inner_leak == 0 else min(n - 1, int(self.leak * n / self.inner_leak))
        last = last if most is None else min(last, most)
        # T of floor(q n) units has a share of at most q; the ends of the range are tried as well.
        sizes = np.floor(SHARES * n).astype(np.int64)
        held = (sizes >= least) & (sizes <= last)
        ends = np.array(sorted({least, last}) if least <= last else [], dtype=np.int64)
        return np.concatenate([sizes[held], ends]), np.concatenate([self._tables[eps_a][held], self.b(ends / n, eps_a)])

    def best(
        self, n: int, eps_a: Fraction, objective: Objective, least: int = 1, most: int | None = None
    ) -> tuple[float, int, float, float] | None:
        """``(value, t, a, b)`` of the least objective; ``None`` where nothing is affordable.  Where so few units are
        promised nothing: infinity, with the constants of the least noise."""
        t, b = self.rows(n, eps_a, least, most)
        b = b * (1 - ROUNDED)
        if not bool((b > 0).any()):
            return None
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            value = np.where(b > 0, objective(t, n - t, COSTS * (1 - ROUNDED), b), math.inf)
            promised = bool(np.isfinite(value).any())
            if not promised:
                value = np.where(b > 0, self.noise(t, n - t, COSTS * (1 - ROUNDED), b), math.inf)
        i, j = np.unravel_index(int(np.nanargmin(value)), value.shape)
        found = float(value[i, j]) if promised else math.inf
        return found, int(t[i]), float(COSTS[j]), float(b[i, j]) / (1 - ROUNDED)

    def noise(self, t: Ints, w: Ints, a: Floats64, b: Floats64) -> Floats64:
        """``L/(b w) + 2 L/(a t)``."""
        size = np.array([self.log_growth(int(k)) for k in t])[:, None] - math.log(self.failure)
        return np.asarray(size / (b * w[:, None]) + 2 * size / (a * t[:, None]))

    def settle(self, n: int, eps_a: Fraction, t: int, a: float, b: float) -> ReductionPlan:
        """The plan with integer costs close to ``a`` and ``b``, and the promise that they keep."""
        # ``A : B levels`` as close to ``a : b`` as integers within the limits come.
        ratio = min(max(a * self.levels / b, 1 / MAX_COST), float(MAX_COST))
        B = max(1, min(MAX_COST // self.levels, math.floor(MAX_COST / ratio)))
        A, share = max(1, min(MAX_COST, round(B * ratio))), Fraction(t, n)

        def spend(x: Fraction, y: Fraction) -> tuple[Fraction, Fraction]:
            return outer(self.neighbours, share, x, y, eps_a, self.inner_leak, self.g)

        # Both parts of the promise grow with the rate, delta only where e**b is above K'.
        eta = integer_costs(
            a, b, A, B, self.levels, lambda x, y: spend(x, y)[0] <= self.target and spend(x, y)[1] <= self.leak
        )
        spent, lost = spend(eta * A, eta * B * self.levels)
        found = self.noise(
            np.array([t]), np.array([n - t]), np.array([float(eta * A)]), np.array([[float(eta * B * self.levels)]])
        )
        shape = (eps_a, self.inner_leak, self.g, self.neighbours)
        return ReductionPlan(n, t, A, B, self.levels, eta, *shape, spent, lost, float(found[0, 0]))

    def least_epsilon(self, q: float, eps_a: float) -> float:
        """The infimum of the epsilons that leave anything for b."""
        return math.log1p(q * (self.g ** (2 if self.replace else 1) * math.exp(eps_a) - 1))


def _infeasible(n: int, needs: list[tuple[Fraction, int]], task: ReductionTask) -> InfeasibleError:
    target, leak, inner_leak = task.target, task.leak, task.inner_leak
    if inner_leak and not leak:
        return InfeasibleError(f"the inner algorithm spends delta = {float(inner_leak):.3g}: allow delta above 0")

    def works(units: int) -> bool:
        delta_fits = [t for _, t in needs if inner_leak == 0 or inner_leak * t <= leak * units]
        return any(
            t < units
            and (inner_leak == 0 or t in delta_fits)
            and task.least_epsilon(t / units, float(e)) < float(target) * (1 - 1e-9)
            for e, t in needs
        )

    low, high = 1, 2
    while not works(high) and high < _MAX_UNITS:
        low, high = high, 2 * high
    high = least_between(works, low, high)
    smallest = min((task.least_epsilon(t / n, float(e)) for e, t in needs if t < n), default=math.inf)
    epsilon = f"; with {n} users epsilon must be above {smallest:.4g}" if smallest < math.inf else ""
    return InfeasibleError(
        f"epsilon = {float(target):.4g} is out of reach with {n} users for this inner algorithm: at least {high} users "
        f"are needed{epsilon}"
    )
