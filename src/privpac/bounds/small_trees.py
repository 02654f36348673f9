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

**More budget never asks for more users.**  Take for ``t*`` a tree of the least prior.  At a fixed ``tau = s theta`` the
power ``s = tau/theta`` falls with ``theta``, and with it ``Pi_s prior(t*)**-s``, the sum of ``(prior(t)/prior(t*))**s``
over terms of at least 1; ``f(tau)`` stays.  So the *minimum* over ``s`` falls with ``theta``.  A grid of powers breaks
this: the best ``tau`` is about ``alpha`` whatever ``theta`` is, and below the first step ``theta/64`` once ``theta`` is
large.  The minimum is one search: ``ln(Pi_s prior(t*)**-s / beta) + n ln f(s theta)`` is convex in ``s`` (sums of
exponentials are log-convex; ``f`` is the moment of a law on -1, 0, 1), so the powers at which ``n`` users are certified
are an interval for every ``n``: the number of users falls and then rises with ``s``.

**Two terms.**  With probability at least ``1 - beta`` the excess is at most
``(b(t*) + ln(2/beta))/(theta n) + sqrt(2 (b_max + ln(2/beta))/n)``: selection, and sampling of users (Hoeffding).
Never better than the above: with ``y`` the root, ``s = min(1, y/theta)`` certifies it, as ``f(tau) <= exp(tau**2/2 -
alpha tau)`` and ``Pi_s <= exp((1 - s) b_max)``.

Votes are ``floor(levels/m)`` for each of ``m`` records: with more records than divide ``levels`` the excess that is
certified grows by ``(m - 1)/levels``, so no more of them are planned to be read (``exact_records``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from flint import arb

from privpac.errors import InfeasibleError
from privpac.exact import Rational, as_arb, exp_ball, precision, rational, up
from privpac.least import half_way, least_between, narrow

__all__ = ["certified_users", "exact_records", "two_terms_excess", "users_by_two_terms", "users_of_tree"]

GRID = 64
"""The powers ``s`` of :func:`users_of_tree` are ``1/64, ..., 64/64``."""

_BITS = 128
_STEP, _SPAN, _HALVINGS = 1e-10, 15.0, 40
"""The search over ``ln tau``: a step that tells falling from rising (second order: 1e-20 of the users), how far below,
and how often the range is halved."""


def exact_records(levels: int, max_records: int) -> int:
    """The most records, at most ``max_records``, up to which every number of them divides the levels: votes of
    ``floor(levels/m)`` then round nothing off.

    >>> exact_records(720_720, 64), exact_records(720_720, 10)
    (16, 10)
    """
    return next((m - 1 for m in range(1, max_records + 1) if levels % m), max_records)


def users_of_tree(
    power: Callable[[Fraction], arb],
    prior: Fraction,
    *,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    best_error: Rational | None = None,
) -> tuple[int, Fraction]:
    """The least number of users that a power of the grid certifies, and that power; see :func:`certified_users`.

    Parameters
    ----------
    power : ``s`` to a ball of the sum of ``prior**s`` over all trees (``TreeShape.power``).
    prior : that of the good tree; the least of the class where none is named.
    theta : privacy of one vote.
    alpha, beta : excess error, and the probability with which it may be exceeded.
    best_error : an upper bound on the error of the best tree; None where unknown.
    """
    return _users(power, prior, *_read(theta, alpha, beta, best_error))


def _read(
    theta: Rational, alpha: Rational, beta: Rational, best_error: Rational | None
) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """theta, alpha, beta and ``p``."""
    a = rational(alpha, "alpha", above=0, maximum=1)
    e = Fraction(1) if best_error is None else rational(best_error, "best_error", minimum=0, maximum=1)
    rate, failure = rational(theta, "theta", above=0), rational(beta, "beta", above=0, below=1)
    return rate, a, failure, min(e, (1 - a) / 2)


@lru_cache(maxsize=512)
def _users(
    power: Callable[[Fraction], arb], prior: Fraction, theta: Fraction, alpha: Fraction, beta: Fraction, p: Fraction
) -> tuple[int, Fraction]:
    with precision(_BITS):
        powers = [Fraction(i, GRID) for i in range(1, GRID + 1)]
        tried = {s: _needed(power, prior, theta, alpha, beta, p, s) for s in powers}
    known = [(_whole(needed), s) for s, needed in tried.items() if needed is not None]
    if not known:
        raise InfeasibleError(
            f"no power on the grid certifies an excess of {alpha} at this epsilon; ask for a larger excess, declare "
            "best_error, or use certified_users, which tries every power"
        )
    return min(known, key=lambda pair: pair[0])


def _needed(
    power: Callable[[Fraction], arb],
    prior: Fraction,
    theta: Fraction,
    alpha: Fraction,
    beta: Fraction,
    p: Fraction,
    s: Fraction,
) -> arb | None:
    """The number of users that the power ``s`` certifies, before it is rounded up; None if none is."""
    f = moment(s * theta, alpha, p)
    if not (f < 1 and f > 0):
        return None
    return (power(s).log() - as_arb(s) * as_arb(prior).log() - as_arb(beta).log()) / -f.log()


def _whole(needed: arb) -> int:
    return max(1, int(needed.upper().ceil().unique_fmpz()))


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
    least: Fraction,
    *,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    best_error: Rational | None = None,
) -> int:
    """The least number of users that any power certifies, whichever tree is the best one (``least``: the smallest
    prior): it never rises with ``theta``, ``alpha`` or ``beta``."""
    return _fewest(power, least, *_read(theta, alpha, beta, best_error))


@lru_cache(maxsize=512)
def _fewest(
    power: Callable[[Fraction], arb], least: Fraction, theta: Fraction, alpha: Fraction, beta: Fraction, p: Fraction
) -> int:
    def needed(log_tau: float) -> arb:
        s = min(Fraction(1), Fraction(math.exp(log_tau)) / theta)
        found = _needed(power, least, theta, alpha, beta, p, s)
        return arb("inf") if found is None else found

    def rises(log_tau: float) -> bool:
        # Powers beyond all that certify something: to the left.
        return not needed(log_tau + _STEP) < needed(log_tau)

    with precision(_BITS):
        # -ln f is concave, its slope at 0 is alpha, and it has its maximum beyond alpha: the best tau is less than
        # min(theta, alpha) only by about the ratio of the numerators at s = 1 and at s = 0.
        end = math.log(theta)
        low, high = narrow(rises, min(end, math.log(alpha)) - _SPAN, end, middle=half_way, steps=_HALVINGS)
        return min(_whole(found) for found in map(needed, (low, high, end)) if found.is_finite())
