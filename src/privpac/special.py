"""Special functions: logarithms near their edges, binomial tails with the thresholds that tell two error rates apart
best, and those of scipy, which is loaded on their first call: it takes longer to load than a small table to learn from,
and most runs need none of them.

A user with ``m`` records counts against a rule when it makes more than ``t`` mistakes there, so a rule of error rate
``p`` loses the vote of a random user with probability ``psi(m, p, t) = Pr[Bin(m, p) > t]``.  :func:`cross` is the ``t``
that separates two known rates best (the gap is then the total variation distance of the two binomials, exactly);
:func:`robust_t` is the ``t`` that separates ``eta`` from ``eta + alpha`` best when ``eta`` is only known to a radius.

Privacy holds for *any* table ``t(m)`` of public or released numbers; only accuracy depends on the choice made here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.bisection import least_between
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import MAX_PRECISION, Rational, as_arb, precision, rational
from privpac.guarantee import positive_int


def log_of(base: Fraction) -> float:
    """``ln(base)``, also for bases close to 1 and beyond the range of doubles."""
    return math.log1p(float(base - 1)) if base < 2 else math.log(base.numerator) - math.log(base.denominator)


def log_expm1(x: float) -> float:
    """``ln(e**x - 1)`` for any ``x >= 0``."""
    return x + math.log1p(-math.exp(-x)) if x > 1 else math.log(math.expm1(x)) if x > 0 else -math.inf


def log1p_exp(x: float) -> float:
    """``ln(1 + e**x)``."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _late(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = None

    def call(*arguments: object, **options: object) -> Any:
        nonlocal found
        if found is None:
            found = getattr(import_module("scipy.special"), name)
        return found(*arguments, **options)

    call.__name__ = call.__qualname__ = name
    return call


bdtr = _late("bdtr")
bdtrc = _late("bdtrc")
betainc = _late("betainc")
betaincc = _late("betaincc")
betainccinv = _late("betainccinv")
betaincinv = _late("betaincinv")
digamma = _late("digamma")
entr = _late("entr")
erfinv = _late("erfinv")
gammaln = _late("gammaln")
log_ndtr = _late("log_ndtr")
logsumexp = _late("logsumexp")
ndtr = _late("ndtr")
ndtri = _late("ndtri")
xlog1py = _late("xlog1py")
xlogy = _late("xlogy")


# Laws of ``scipy.stats``, imported on first use: that module alone takes as long to load as this package.


class _Law:
    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _law(self) -> Any:
        return getattr(import_module("scipy.stats"), self._name)

    def __getattr__(self, method: str) -> Any:
        return getattr(self._law, method)

    def __call__(self, *parameters: object) -> Any:
        return self._law(*parameters)


binom: Any = _Law("binom")
nbinom: Any = _Law("nbinom")


MAX_RECORDS = 1 << 20
"""Records per user up to which thresholds are searched."""

_NEAR = 1e-9
"""Per record, how near to an integer a crossing is decided exactly."""

_TIE = 1e-9
"""Gaps within this relative distance count as equal; the smallest threshold wins."""


# Tails


def psi(m: int, p: Rational, t: int) -> float:
    """``Pr[Bin(m, p) > t]`` in double precision (relative error about 1e-12), by the regularised incomplete beta
    function.

    ``t < 0`` gives 1, ``t >= m`` gives 0.  Use :func:`psi_exact` where a decision hangs on the last bit.

    >>> psi(3, "1/2", 1)
    0.5
    """
    size, rate, threshold = _records(m), rational(p, "p", minimum=0, maximum=1), _index(t, "t")
    if threshold < 0:
        return 1.0
    return 0.0 if threshold >= size else float(betainc(threshold + 1.0, float(size - threshold), float(rate)))


def psi_exact(m: int, p: Rational, t: int) -> Fraction:
    """``Pr[Bin(m, p) > t]`` as a rational; for ``m`` up to 2**14.

    >>> psi_exact(5, "29/40", 4)
    Fraction(20511149, 102400000)
    """
    size = positive_int(m, "m", minimum=0)
    if size > 1 << 14:
        raise TooLargeError(f"psi_exact is meant for at most {1 << 14} records, got {size}; use psi")
    rate, threshold = rational(p, "p", minimum=0, maximum=1), _index(t, "t")
    if threshold < 0:
        return Fraction(1)
    if threshold >= size or rate == 0:
        return Fraction(0)
    if rate == 1:
        return Fraction(1)
    a, b = rate.numerator, rate.denominator
    c = b - a
    # Sum the shorter tail; every quotient below is an exact integer, C(m, k) a**k c**(m - k).
    if 2 * threshold >= size:
        return Fraction(_upper_sum(size, a, c, threshold), b**size)
    return 1 - Fraction(_upper_sum(size, c, a, size - threshold - 1), b**size)


def _upper_sum(m: int, a: int, c: int, t: int) -> int:
    """Sum over ``k > t`` of ``C(m, k) a**k c**(m - k)``."""
    term: int = a**m
    total = term
    for k in range(m, t + 1, -1):
        term = term * k * c // ((m - k + 1) * a)
        total += term
    return total


# Two known rates


@lru_cache(maxsize=4096)
def _cross(m: int, p: Fraction, q: Fraction) -> int:
    if m == 0 or p == 0:
        return 0
    if q == 1:
        return m - 1
    guess = m * _crossing_share(p, q)
    k = math.floor(guess + 0.5)
    if abs(guess - k) > _NEAR * m:
        return math.floor(guess)
    return k if _at_most_tie(m, k, p, q) else k - 1


@lru_cache(maxsize=256)
def _crossing_share(p: Fraction, q: Fraction) -> float:
    """The share of mistakes at which the two likelihoods are equal, for ``0 < p < q < 1``."""
    up_weight, down_weight = _log_ratio(1 - p, 1 - q), _log_ratio(q, p)
    return up_weight / (up_weight + down_weight)


def _log_ratio(x: Fraction, y: Fraction) -> float:
    """``ln(x / y)`` to full relative accuracy, also where the two are close or tiny."""
    ratio = (x - y) / y
    return (
        math.log1p(float(ratio))
        if ratio < 1
        else math.log(x.numerator * y.denominator) - math.log(x.denominator * y.numerator)
    )


def _at_most_tie(m: int, k: int, p: Fraction, q: Fraction) -> bool:
    """Whether ``q**k (1-q)**(m-k) <= p**k (1-p)**(m-k)``, decided exactly: a ball first, integers on a near tie."""
    bits = 128
    while bits <= min(MAX_PRECISION, 4096):
        with precision(bits):
            difference = as_arb(q / p).log() * k + as_arb((1 - q) / (1 - p)).log() * (m - k)
            if difference < 0:
                return True
            if difference > 0:
                return False
        bits *= 2
    return (q / p) ** k <= ((1 - p) / (1 - q)) ** (m - k)


def cross(m: int, p: Rational, q: Rational) -> int:
    """The largest ``k`` with ``q**k (1-q)**(m-k) <= p**k (1-p)**(m-k)``, for ``0 <= p < q <= 1``; 0 when ``m`` is 0.

    The likelihood ratio grows with ``k``, so ``psi(m, q, t) - psi(m, p, t)`` at this ``t`` is the total variation
    distance of the two binomials: no threshold separates them better.  Exact, ties included.

    >>> cross(40, "3/8", "13/20")
    20
    """
    size, low, high = _records(m), rational(p, "p", minimum=0, maximum=1), rational(q, "q", minimum=0, maximum=1)
    if low >= high:
        raise ParameterError(f"cross needs p < q, got p = {low} and q = {high}")
    return _cross(size, low, high)


def crosses(sizes: NDArray[np.int64], p: Fraction, q: Fraction) -> NDArray[np.int64]:
    """:func:`cross` for many numbers of records at once; the few that come near a tie one by one."""
    if p == 0 or q == 1:
        return np.asarray(np.where(p == 0, 0, np.maximum(sizes - 1, 0)), dtype=np.int64)
    guess = sizes * _crossing_share(p, q)
    found = np.floor(guess).astype(np.int64)
    for i in np.flatnonzero(np.abs(guess - np.round(guess)) <= _NEAR * sizes):
        found[i] = _cross(int(sizes[i]), p, q)
    return np.asarray(found, dtype=np.int64)


def gap(m: int, p: Rational, q: Rational) -> float:
    """The total variation distance of ``Bin(m, p)`` and ``Bin(m, q)``: what ``cross`` achieves."""
    t, low, high = cross(m, p, q), float(rational(p)), float(rational(q))
    return _gap_at(m, t, low, high) if m else 0.0


def _gap_at(m: int, t: int, low: float, high: float) -> float:
    """``psi(m, high, t) - psi(m, low, t)`` for ``0 <= t < m``, taken between the smaller tails so that nothing
    cancels."""
    a, b = t + 1.0, float(m - t)
    below = float(betainc(a, b, low))
    return float(betaincc(a, b, low) - betaincc(a, b, high)) if below > 0.5 else float(betainc(a, b, high)) - below


# An uncertain rate


@lru_cache(maxsize=1 << 14)
def _robust(m: int, eta_hat: Fraction, alpha_e: Fraction, alpha: Fraction) -> tuple[int, float]:
    """The best threshold and its gap, in O(log m) tails.

    With ``f`` and ``g`` the gaps at the two ends of the interval, as functions of t: each rises up to its ``cross`` and
    falls after it, so their minimum does as well, and ``g/f`` grows with t (binomials have a monotone likelihood
    ratio).  The best t is therefore where g overtakes f, moved into the range between the two peaks; what ties with it
    to the left is found by bisection.
    """
    hi = max(Fraction(0), min(1 - alpha, eta_hat + alpha_e))
    lo = min(max(Fraction(0), eta_hat - alpha_e), hi)
    if m == 0:
        return 0, 0.0
    ends = [(float(eta), float(min(Fraction(1), eta + alpha))) for eta in (lo, hi)]

    def gaps(t: int) -> list[float]:
        return [_gap_at(m, t, low, high) for low, high in ends]

    def met_at(t: int) -> bool:
        f, g = gaps(t)
        return g >= f

    first, last = (min(_cross(m, eta, min(Fraction(1), eta + alpha)), m - 1) for eta in (lo, hi))
    # The least t of the range at which g is at least f, or its end.
    met = least_between(met_at, first - 1, max(first, last))
    top = max(min(gaps(t)) for t in {max(first, met - 1), met})
    step = 1  # ties are rare: look left in doubling steps before bisecting
    while met - step > 0 and min(gaps(met - step)) >= top * (1 - _TIE):
        step *= 2
    choice = least_between(lambda t: min(gaps(t)) >= top * (1 - _TIE), max(0, met - step) - 1, met)
    return choice, min(gaps(choice))


def robust_t(m: int, eta_hat: Rational, alpha_e: Rational, alpha: Rational) -> int:
    """The threshold that separates error ``eta`` from ``eta + alpha`` best, for the worst ``eta`` within ``alpha_e`` of
    ``eta_hat``.

    With ``G_t(eta) = psi(m, min(1, eta + alpha), t) - psi(m, eta, t)`` it maximises ``min(G_t(lo), G_t(hi))`` over
    ``t`` in 0..m-1, where ``[lo, hi]`` is the interval clipped to ``[0, 1 - alpha]``.  ``G_t`` is log-concave in
    ``eta`` (it integrates a log-concave density over a sliding window; Prekopa), so its minimum over an interval is at
    an end point.  Values within relative 1e-9 of the maximum are ties and the smallest ``t`` wins; ``m <= 1`` gives 0.

    >>> robust_t(12, "1/4", "1/4", "1/20")
    2
    """
    return _robust(*_robust_arguments(m, eta_hat, alpha_e, alpha))[0]


def robust_gap(m: int, eta_hat: Rational, alpha_e: Rational, alpha: Rational) -> float:
    """The gap that :func:`robust_t` guarantees on the whole interval; 0 when ``m`` is 0."""
    return _robust(*_robust_arguments(m, eta_hat, alpha_e, alpha))[1]


def _robust_arguments(
    m: int, eta_hat: Rational, alpha_e: Rational, alpha: Rational
) -> tuple[int, Fraction, Fraction, Fraction]:
    return (
        _records(m),
        rational(eta_hat, "eta_hat", minimum=0, maximum=1),
        rational(alpha_e, "alpha_e", minimum=0, maximum=1),
        rational(alpha, "alpha", above=0, maximum=1),
    )


def _records(m: int) -> int:
    size = positive_int(m, "m", minimum=0)
    if size > MAX_RECORDS:
        raise TooLargeError(
            f"thresholds are computed for at most {MAX_RECORDS} records per user, got {size}; declare max_records"
        )
    return size


def _index(t: int, name: str) -> int:
    return positive_int(t, name, minimum=-(1 << 62))
