"""What discrete Gaussian noise promises, composed: as much as continuous noise of nearly the same variance.

**Theorem.**  Releases ``t = 1, 2, ...`` add to integer vectors discrete Gaussian noise of variance parameter ``sigma2 =
moved2 / (2 rho_t) + 4``, where ``moved2`` bounds the squared distance between neighbours; vectors, ``moved2`` and hence
``sigma2`` may depend on earlier releases, the ``rho_t`` not.  With ``rho`` the sum of the ``rho_t`` and ``mu = sqrt(2
rho)``, all of at most ``2**40`` coordinates together are ``(epsilon + 2 K, e**K delta)``-DP with ``K = 2**-60``, where
``delta = Phi(mu/2 - epsilon/mu) - e**epsilon Phi(-mu/2 - epsilon/mu)`` for any ``epsilon >= 0``.

*Proof.*  (1) *One coordinate.*  Let ``X`` be normal with an integer mean ``m`` and variance ``s2``, and round it at
random: ``y`` in Z with probability ``e**(-(y - X)**2 / (2 t2)) / D(X)``, ``D(x)`` the sum of these weights, ``t2 = 4``.
By Poisson summation ``D(x) = sqrt(2 pi t2) (1 + 2 sum over k >= 1 of e**(-2 pi**2 t2 k**2) cos(2 pi k x))``: within ``1
-+ eta`` of ``sqrt(2 pi t2)``, ``eta = 2 q / (1 - q)``, ``q = e**(-8 pi**2)``.  Normal densities convolve, so the
rounded value is ``y`` with probability ``w(y) = e**(-(y - m)**2 / (2 sigma2)) / sqrt(2 pi sigma2)``, ``sigma2 = s2 +
t2``, up to factors ``1/(1 -+ eta)``.  The discrete Gaussian around ``m`` has ``w(y)`` up to its normaliser, the same
sum for the larger ``sigma2`` at an integer: between 1 and ``1 + eta``.  So the two laws on Z differ by a factor of at
most ``e**k``, ``k = ln((1 + eta)/(1 - eta)) < 2**-111``, whatever the mean.

(2) *All of them.*  Replace every draw by such a rounding of a normal one: whole transcripts change their probability by
a factor of at most ``e**K``.  The replaced procedure post-processes normal noise of variance ``moved2 / (2 rho_t)``,
each release ``sqrt(2 rho_t)``-Gaussian private given the earlier ones; these compose adaptively to ``mu`` (Dong, Roth
and Su, Gaussian differential privacy, Corollary 3.3), which is the trade-off of the formula.

(3) ``P(S) <= e**K P'(S) <= e**K (e**epsilon Q'(S) + delta) <= e**(epsilon + 2 K) Q(S) + e**K delta``.

The same noise is ``rho``-zCDP as well (:mod:`privpac.mechanisms.gaussian`); converting that to (epsilon, delta) needs
15 % more variance at (1, 1e-6).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from flint import arb

from privpac.errors import InfeasibleError
from privpac.exact import as_arb, exp_ball, precision
from privpac.least import last_between

__all__ = ["MOST_COORDINATES", "SMOOTHING", "gaussian_delta", "gaussian_within"]

SMOOTHING = 4
"""What is added to the variance of continuous noise."""

MOST_COORDINATES = 1 << 40
_SLACK = Fraction(1, 1 << 60)
"""``K``: 2**40 times 2**-111 is far below."""
_BITS = 16
_SMALLEST = 4000
_PRECISION = 256


def gaussian_delta(rho: Fraction, epsilon: Fraction) -> arb:
    """``Phi(mu/2 - epsilon/mu) - e**epsilon Phi(-mu/2 - epsilon/mu)`` with ``mu = sqrt(2 rho)``, at the working
    precision."""
    mu, root = as_arb(2 * rho).sqrt(), arb(2).sqrt()
    at, half = as_arb(epsilon) / mu, mu / 2
    return (((at - half) / root).erfc() - exp_ball(epsilon) * ((at + half) / root).erfc()) / 2


@lru_cache(maxsize=64)
def gaussian_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ``rho`` of 16 significant bits for which the theorem gives ``(epsilon, delta)``.

    >>> gaussian_within(Fraction(1), Fraction(1, 10**6))
    Fraction(29375, 1048576)
    """
    inner, allowed = epsilon - 2 * _SLACK, delta * (1 - _SLACK)  # e**-K is at least 1 - K

    def fits(rho: Fraction) -> bool:
        with precision(_PRECISION):
            return bool(gaussian_delta(rho, inner) <= as_arb(allowed))

    def power(k: int) -> bool:
        return fits(Fraction(2) ** k)

    low = 0
    while inner > 0 and not power(low) and low > -_SMALLEST:
        low = min(2 * low, -1)
    if inner <= 0 or not power(low):
        raise InfeasibleError(f"epsilon = {float(epsilon):g} at this delta leaves no budget; use a larger one")
    high = low + 1
    while power(high):
        high += max(1, high - low)
    unit = Fraction(2) ** (last_between(power, low, high) - _BITS + 1)
    return last_between(lambda k: fits(k * unit), 1 << (_BITS - 1), 1 << _BITS) * unit
