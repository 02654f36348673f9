"""How many people a small tree needs: certificates for any joint law of records, labels and numbers of records.

Users are independent; ``err(t)`` is the mean over users of the share of their records that tree ``t`` gets wrong,
``t*`` the best tree and ``a(t) = err(t) - err(t*)`` the excess.  ``theta`` is the privacy of one vote: epsilon under
add-remove, half of it under replace.

**Users for an excess.**  With ``e* >= err(t*)`` declared (1 where unknown), ``p = min(e*, (1 - alpha)/2)``,
``f(tau) = 1 - (alpha + p)(1 - e**-tau) + p (e**tau - 1)`` and ``Pi_s = sum over trees of prior**s``, the drawn tree has
excess below ``alpha`` with probability at least ``1 - beta`` for every

    n >= min over 0 < s <= 1 with f(s theta) < 1 of (ln Pi_s + s b(t*) + ln(1/beta)) / -ln f(s theta)

*Proof.*  Let ``X`` be a user's votes against ``t`` less those against ``t*``, as a share: in [-1, 1], ``E X >= alpha``
for a bad ``t``.  ``P(t) <= min(1, prior(t)/prior(t*) e**(-theta sum X)) <= (prior(t)/prior(t*))**s e**(-s theta sum
X)``.  On [0, 1] and on [-1, 0] ``e**(-tau x)`` lies below its chord, so ``E e**(-tau X) <= 1 - E X+ (1 - e**-tau) +
E X- (e**tau - 1)`` with ``E X+ = E X + E X-``, ``E X- <= e*``, ``E |X| <= 1``: at most ``f(tau)``.  Independence and
the sum over bad trees give ``Pi_s prior(t*)**-s f**n``.  At ``s = 1`` there is no ``ln |H|``: only the price of the
good tree.  The bound falls with ``n`` and nothing in the law follows ``n``: a certified number stays certified.

**Two terms.**  With probability at least ``1 - beta`` the excess is at most
``(b(t*) + ln(2/beta))/(theta n) + sqrt(2 (b_max + ln(2/beta))/n)``: selection, and sampling of users (Hoeffding).

Votes are ``floor(levels/m)`` for each of ``m`` records: with more records than divide ``levels`` the excess that is
certified grows by ``(m - 1)/levels`` (``rounding``).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from flint import arb

from privpac.errors import InfeasibleError
from privpac.exact import Rational, as_arb, exp_ball, precision, rational, up
from privpac.least import least_between

__all__ = ["certified_users", "rounding", "two_terms_excess", "users_by_two_terms", "users_of_tree"]

GRID = 64
"""The powers ``s`` are tried on ``1/64, ..., 64/64``."""

_BITS = 128


def rounding(levels: int, max_records: int) -> Fraction:
    """What votes of ``floor(levels/m)`` may add to an excess, for up to ``max_records`` records."""
    exact = all(levels % m == 0 for m in range(1, min(max_records, 64) + 1)) and max_records <= 64
    return Fraction(0) if exact else Fraction(max_records - 1, levels)


def users_of_tree(
    power: Callable[[Fraction], arb],
    prior: Fraction,
    *,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    best_error: Rational | None = None,
) -> tuple[int, Fraction]:
    """The least certified number of users, and the power ``s`` that certifies it.

    Parameters
    ----------
    power : ``s`` to a ball of the sum of ``prior**s`` over all trees (``TreeShape.power``).
    prior : that of the good tree; the least of the class where none is named.
    theta : privacy of one vote.
    alpha, beta : excess error, and the probability with which it may be exceeded.
    best_error : an upper bound on the error of the best tree; None where unknown.
    """
    a = rational(alpha, "alpha", above=0, maximum=1)
    b = rational(beta, "beta", above=0, below=1)
    t = rational(theta, "theta", above=0)
    e = Fraction(1) if best_error is None else rational(best_error, "best_error", minimum=0, maximum=1)
    return _users(power, prior, t, a, b, min(e, (1 - a) / 2))


@lru_cache(maxsize=512)
def _users(
    power: Callable[[Fraction], arb], prior: Fraction, theta: Fraction, alpha: Fraction, beta: Fraction, p: Fraction
) -> tuple[int, Fraction]:
    best: tuple[int, Fraction] | None = None
    with precision(_BITS):
        for i in range(1, GRID + 1):
            s = Fraction(i, GRID)
            f = moment(s * theta, alpha, p)
            if not (f < 1 and f > 0):
                continue
            needed = (power(s).log() - as_arb(s) * as_arb(prior).log() - as_arb(beta).log()) / -f.log()
            n = max(1, int(needed.upper().ceil().unique_fmpz()))
            if best is None or n < best[0]:
                best = n, s
    if best is None:
        raise InfeasibleError(
            f"no number of users certifies an excess of {alpha} at this epsilon; ask for a larger excess, or declare "
            "best_error"
        )
    return best


def moment(tau: Fraction, alpha: Fraction, p: Fraction) -> arb:
    """``f(tau)``, which bounds the moment ``E e**(-tau X)`` of a bad tree's votes."""
    return 1 - as_arb(alpha + p) * (1 - exp_ball(-tau)) + as_arb(p) * (exp_ball(tau) - 1)


def two_terms_excess(prior: Fraction, least: Fraction, *, theta: Rational, n_users: int, beta: Rational) -> Fraction:
    """The excess that holds with probability ``1 - beta`` for ``n_users`` users, rounded up.

    ``prior`` is that of the good tree, ``least`` the smallest of the class.
    """
    b, t = rational(beta, "beta", above=0, below=1), rational(theta, "theta", above=0)

    def bound() -> arb:
        tail = (2 / as_arb(b)).log()
        selection = (tail - as_arb(prior).log()) / (as_arb(t) * n_users)
        return selection + (2 * (tail - as_arb(least).log()) / n_users).sqrt()

    return up(bound)


def users_by_two_terms(prior: Fraction, least: Fraction, *, theta: Rational, alpha: Rational, beta: Rational) -> int:
    """The least number of users for which the two terms are at most ``alpha``; also for an excess so small that no
    power on the grid serves."""
    a = rational(alpha, "alpha", above=0, maximum=1)

    def enough(n: int) -> bool:
        return two_terms_excess(prior, least, theta=theta, n_users=n, beta=beta) <= a

    high = 1
    while not enough(high):
        high *= 2
    return least_between(enough, high // 2, high)


def certified_users(
    power: Callable[[Fraction], arb],
    prior: Fraction,
    least: Fraction,
    *,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    best_error: Rational | None = None,
) -> int:
    """The better of both certificates."""
    rest: dict[str, Rational] = {"theta": theta, "alpha": alpha, "beta": beta}
    both = users_by_two_terms(prior, least, **rest)
    try:
        return min(both, users_of_tree(power, prior, best_error=best_error, **rest)[0])
    except InfeasibleError:
        return both
