"""Privacy of the realizable-to-agnostic transformation: three theorems and their closed-form inverses.

A secret part T of the units is relabelled by a rule that does well on the rest W, and an inner algorithm that is
``(eps_A, delta_A)``-DP on realizable data sees T alone.  Public numbers: ``q`` the share of T, ``a`` and ``b`` the cost
of one disagreement on T and of one unit's mistakes on W (both times the rate of the law), ``G`` the most labellings of
one unit's part of T that extend a labelling of the rest (2 where every unit has one record in T).  See Li, Wang and Ye,
*Realizable-to-Agnostic*, Lemmas 14-17 and 21, for weaker forms.

**Theorem A** (replace, T a uniform subset of fixed size).  With ``K = G**2 * e**(2a + eps_A)`` the composition is ``(2b
+ max(0, ln(1 - q + q K) - ln(1 - q + q e**(2b))), q delta_A)``-DP.  *Proof.*  Let unit 1 differ and ``P = (1-q) beta +
q alpha``, beta: 1 not in T.  (i) ``beta1 <= e**(2b) beta2``: every score and the normaliser move by at most b.  (ii) 1
in T: for a labelling c of the other units of T all extensions have scores in ``[m(c), m(c) + a]`` and there are 1..G of
them, so their total weight lies in ``e**(-m(c)) [e**-a, G]`` on both sides, the law of c moves by at most ``G**2
e**(2a)``, and given c the inner inputs are neighbours: ``alpha1 <= K alpha2 + delta_A``.  (iii) Swapping 1 for a
uniform unit outside T: ``alpha1 <= K e**(2b) beta2 + delta_A``.  Mixing (ii) and
(iii) so that both coefficients are e**eps times those of P2 gives the formula when ``e**(2b) <= K``; otherwise (ii)
      alone gives 2b.

**Theorem B** (add-remove, every unit enters T independently with probability q; a, b, q must not depend on the number
of units; the inner algorithm is add-remove and defined on no data).  With ``K' = G e**(a + eps_A)``: ``(ln((1-q) e**b +
q K'), q delta_A max(1, e**eps_out / K'))``-DP.

**Theorem C** (replace).  A base that is ``(eps, delta)``-DP on m records, run on m uniform draws with replacement from
N records, is ``(m ln(1 + (e**eps - 1)/N), delta (e**eps' - 1)/(e**eps - 1))``-DP, and both are attained.  *Proof.*  The
number of copies of the changed record is Bin(m, 1/N); its law tilted by ``e**(eps k)`` dominates it stochastically, so
group privacy for k copies can be moved down.

Everything is rounded outward: guarantees up, what may be spent down.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from flint import arb

from privpac.errors import Undecided
from privpac.exact import MAX_PRECISION, ExpSum, Rational, as_arb, ball_of, exp_ball, precision, rational, up
from privpac.guarantee import Neighbours, one_of, positive_int

__all__ = [
    "empirical_size",
    "inner_budget",
    "inner_delta",
    "largest_rate",
    "outer",
    "solve_b",
    "theorem_a",
    "theorem_b",
    "theorem_c",
]

_LARGEST = 10**9
_MAX_LABELLINGS = 1 << 200

Spend = tuple[Fraction, Fraction]
"""An (epsilon, delta) pair, rounded up."""


# The theorems


def theorem_a(q: Rational, a: Rational, b: Rational, eps_A: Rational, delta_A: Rational = 0, G: int = 2) -> Spend:
    """``(eps_out, delta_out)`` under replace with a fixed-size split.

    >>> [float(x) for x in theorem_a("1/2", "0.01", 2, "0.1")]
    [4.0, 0.0]
    """
    rate, x, y, spent, leak, g = _read(q, a, b, eps_A, delta_A, G)
    log_k = 2 * x + spent
    # Where e**(2b) >= K the unclipped expression would under-report.
    if _sign_of_log(g * g, log_k - 2 * y) <= 0:
        return 2 * y, rate * leak
    log_g = 2 * _log(g)
    return up(
        lambda: as_arb(2 * y) + _log_mix(rate, log_g() + as_arb(log_k)) - _log_mix(rate, as_arb(2 * y))
    ), rate * leak


def theorem_b(q: Rational, a: Rational, b: Rational, eps_A: Rational, delta_A: Rational = 0, G: int = 2) -> Spend:
    """``(eps_out, delta_out)`` under add-remove with a Poisson split.

    >>> [round(float(x), 6) for x in theorem_b("1/4", "0.1", "0.1", "0.5")]
    [0.553849, 0.0]
    """
    rate, x, y, spent, leak, g = _read(q, a, b, eps_A, delta_A, G)
    log_k = x + spent
    log_g = _log(g)
    if y == 0 and log_k == 0 and g == 1:
        return Fraction(0), rate * leak
    epsilon = up(lambda: as_arb(y) + _log_mix(rate, log_g() + as_arb(log_k - y)))
    # e**eps_out / K' = q + (1-q) e**b / K', above 1 exactly where e**b > K'.
    if leak == 0 or _sign_of_log(g, log_k - y) >= 0:
        return epsilon, rate * leak
    return epsilon, up(lambda: as_arb(rate * leak) * (as_arb(rate) + as_arb(1 - rate) * exp_ball(y - log_k) / g))


def theorem_c(m: int, n: int, epsilon: Rational, delta: Rational = 0) -> Spend:
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
) -> Spend:
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
        if _sign((target, Fraction(1)), (log_k, -rate * g * g), (Fraction(0), rate - 1)) <= 0 or rate == 1:
            return None

        def ratio() -> arb:
            k, e = g * g * exp_ball(log_k), exp_ball(target)
            return as_arb(1 - rate) / (as_arb(1 - rate) + as_arb(rate) * (k - e))

        return _down(lambda: (as_arb(target) + ratio().log()) / 2)
    log_k = x + spent
    if _sign((target, Fraction(1)), (log_k, -rate * g), (Fraction(0), rate - 1)) <= 0 or rate == 1:
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
) -> Spend | None:
    """The most an inner algorithm may spend, ``(eps_A, delta_A)``, for a target ``(epsilon, delta)``; ``None`` where
    that is nothing."""
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
    if (
        one_of(Neighbours, neighbours, "neighbours") is Neighbours.REPLACE
        or target == 0
        or _sign_of_log(g, x + spent - y) >= 0
    ):
        return min(target / rate, Fraction(1))
    low = _down(lambda: as_arb(target / rate) / (as_arb(rate) + as_arb(1 - rate) * exp_ball(y - x - spent) / g))
    return min(low, Fraction(1))


def largest_rate(
    a: Rational, eps_A: Rational, epsilon: Rational, G: int = 2, neighbours: Neighbours | str = Neighbours.REPLACE
) -> Fraction:
    """The supremum ``(E - 1)/(K - 1)``, at most 1, of the shares ``q`` that leave some ``b > 0``; itself not among
    them.  Rounded down."""
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


# Shared


def _read(
    q: Any, a: Any, b: Any, eps_A: Any, delta_A: Any, G: Any
) -> tuple[Fraction, Fraction, Fraction, Fraction, Fraction, int]:
    costs = [rational(v, name, minimum=0, maximum=_LARGEST) for v, name in ((a, "a"), (b, "b"), (eps_A, "eps_A"))]
    rate = rational(q, "q", above=0, maximum=1)
    leak = rational(delta_A, "delta_A", minimum=0, maximum=1)
    return rate, costs[0], costs[1], costs[2], leak, positive_int(G, "G", maximum=_MAX_LABELLINGS)


class _log:
    """``c * ln(G)`` at the working precision."""

    def __init__(self, g: int, times: int = 1) -> None:
        self.g, self.times = g, times

    def __rmul__(self, times: int) -> _log:
        return _log(self.g, self.times * times)

    def __call__(self) -> arb:
        return self.times * arb(self.g).log()


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


def _sign(*terms: tuple[Fraction, Fraction]) -> int:
    """The sign of the sum of ``a e**x`` over pairs ``(x, a)``, exactly."""
    return ExpSum(terms).sign()


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
