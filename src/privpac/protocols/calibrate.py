"""How much negative binomial noise a shuffled count needs, decided with rigorous balls.

A replaced user moves one message from a bucket to another.  With ``Y1, Y2 ~ NB(r, p)`` the two views are ``(Y1 + 1,
Y2)`` and ``(Y1, Y2 + 1)``; all other buckets agree.  ``delta_two`` is their hockey-stick divergence at ``e**epsilon``,
by symmetry the same in both directions.

*Computation.*  The ratio of the views at ``(a, b)`` is ``L(a)/L(b)`` with ``L(k) = f(k-1)/f(k) = k/((k + r - 1) p)``,
increasing in ``k`` for ``r > 1``.  So for each ``b`` the terms with a positive part are those from some ``a*(b)`` on,
``a* = floor(c (r-1)/(1-c)) + 1`` with ``c = e**epsilon b/(b + r - 1)`` (none if ``c >= 1``), and their sum is ``f(b)
Pr[Y >= a* - 1] - e**epsilon f(b-1) Pr[Y >= a*]``.  The mass beyond the last ``b`` is added whole.  ``delta_one`` is the
same for one bucket that a message enters or leaves.
"""

from __future__ import annotations

from fractions import Fraction

from attrs import frozen
from flint import arb

from privpac.bisection import least_between
from privpac.errors import InfeasibleError, ParameterError, TooLargeError, Undecided
from privpac.exact import Ball, Rational, as_arb, ball_of, precision, rational
from privpac.parameters import read_epsilon

_BITS = 192
_MOST = 1 << 15
_GRID = 1 << 16
_STEEP = Fraction(4, 5)


@frozen(slots=False)
class ShuffleNoise:
    """Noise per bucket, summed over all users: ``NB(r, p)`` gives ``(epsilon, delta)``, replace."""

    r: Fraction
    p: Fraction
    delta: Fraction

    @property
    def mean(self) -> Fraction:
        return self.r * self.p / (1 - self.p)


class _BucketNoise:
    """Balls of ``f(0..N)`` and of the upper tails, with ``N`` so large that what lies beyond is below ``2**-bits``."""

    def __init__(self, r: Fraction, p: Fraction, bits: int) -> None:
        x, q = as_arb(r), as_arb(p)
        mass = [((1 - q).log() * x).exp()]
        limit, k = arb(2) ** -bits, 0
        while True:
            ratio = p * (k + r) / (k + 1)
            mass.append(mass[-1] * as_arb(ratio))
            k += 1
            # Ratios fall towards p from here on (they rise towards it if r < 1).
            later = p * (k + max(r, Fraction(1))) / (k + 1)
            if later < 1 and mass[-1] * as_arb(1 / (1 - later)) < limit:
                break
            if k > _MOST:
                raise TooLargeError("the noise spreads over more than 2**15 counts; raise epsilon or delta")
        self.beyond = (mass[-1] * as_arb(later / (1 - later))).union(arb(0))
        self.mass = mass
        tails = [self.beyond]
        for f in reversed(mass):
            tails.append(tails[-1] + f)
        self.tails = tails[::-1]

    def f(self, k: int) -> arb:
        return self.mass[k] if 0 <= k < len(self.mass) else arb(0)

    def tail(self, k: int) -> arb:
        """``Pr[Y >= k]``."""
        return self.tails[max(k, 0)] if k < len(self.tails) else self.beyond


def _read(r: Rational, p: Rational, above: int = 0) -> tuple[Fraction, Fraction]:
    shape, share = rational(r, "r", above=0), rational(p, "p", above=0, below=1)
    if shape <= above:
        raise ParameterError(f"r must be above {above}")
    return shape, share


def noise_mass(r: Rational, p: Rational, last: int) -> list[Ball]:
    """``f(0..last)`` of ``NB(r, p)``."""
    with precision(_BITS):
        noise = _BucketNoise(*_read(r, p), _BITS // 2)
        return [ball_of(noise.f(k), floor=Fraction(0)) for k in range(last + 1)]


def delta_one(r: Rational, p: Rational, epsilon: Rational) -> tuple[Ball, Ball]:
    """Hockey-stick divergences at ``e**epsilon`` of ``Y`` from ``Y + 1`` and of ``Y + 1`` from ``Y``."""
    shape, share = _read(r, p, above=1)
    with precision(_BITS):
        noise, factor = _BucketNoise(shape, share, _BITS // 2), as_arb(rational(epsilon, "epsilon", above=0)).exp()
        away, back = arb(0), arb(0)
        for k in range(len(noise.mass) + 1):
            away += _positive(noise.f(k) - factor * noise.f(k - 1))
            back += _positive(noise.f(k - 1) - factor * noise.f(k))
        away, back = away + noise.beyond, back + noise.beyond
        return ball_of(away, floor=Fraction(0)), ball_of(back, floor=Fraction(0))


def _positive(value: arb) -> arb:
    """Encloses the positive part."""
    if value <= 0:
        return arb(0)
    return value if value > 0 else value.upper().union(arb(0))


def delta_two(r: Rational, p: Rational, epsilon: Rational) -> Ball:
    """The two-bucket divergence that a replaced user can cause."""
    shape, share = _read(r, p, above=1)
    with precision(_BITS):
        noise, factor = _BucketNoise(shape, share, _BITS // 2), as_arb(rational(epsilon, "epsilon", above=0)).exp()
        total = arb(0)
        for b in range(len(noise.mass)):
            c = factor * as_arb(Fraction(b) / (b + shape - 1))
            if c >= 1:
                break
            if not c < 1:
                raise Undecided("a ratio could not be told from 1")
            edge = (c * as_arb(shape - 1) / (1 - c)).floor().unique_fmpz()
            if edge is None:
                raise Undecided("a boundary was not decided")
            first = int(edge) + 1
            total += noise.f(b) * noise.tail(first - 1) - factor * noise.f(b - 1) * noise.tail(first)
        else:
            total += noise.beyond
        return ball_of(total, floor=Fraction(0))


def calibrate(epsilon: Rational, delta: Rational, p: Rational | None = None) -> ShuffleNoise:
    """The least ``r`` on the grid ``2**-16`` that keeps ``delta``, for ``p = e**(-0.8 epsilon)`` (on the same grid)
    unless given.

    >>> noise = calibrate(1, "1e-6")
    >>> round(float(noise.r), 1), round(float(noise.mean), 1)
    (45.1, 36.8)
    """
    eps, target = read_epsilon(epsilon), rational(delta, "delta", above=0, below=1)
    with precision(_BITS):
        steep = (as_arb(-_STEEP * eps).exp() * _GRID).floor().unique_fmpz()
    share = Fraction(min(max(int(steep), 1), _GRID - 1), _GRID) if p is None else rational(p, "p", above=0, below=1)

    def found(grid: int) -> Fraction:
        return delta_two(Fraction(grid, _GRID), share, eps).hi

    low, high = _GRID, 4 * _GRID
    while found(high) > target:
        low, high = high, 2 * high
        if high > _GRID << 20:
            raise InfeasibleError("no amount of noise reaches this delta; raise delta, or epsilon")
    high = least_between(lambda grid: found(grid) <= target, low, high)
    return ShuffleNoise(Fraction(high, _GRID), share, found(high))
