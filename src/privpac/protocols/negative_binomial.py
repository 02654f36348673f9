"""Exact negative binomial noise for a device: standard library and integers only.

``NB(x, p)``: ``f(k) = binom(k + x - 1, k) (1 - p)**x p**k``, mean ``x p/(1 - p)``; a sum of independent ``NB(x_i, p)``
is ``NB(sum x_i, p)``, so noise can be divided among people.  ``x`` and ``p`` are rationals.

*Sampling.*  Inversion: ``f(0) = (1 - p)**x`` is enclosed between two integers over ``2**P`` (logarithm and exponential
by series with counted rounding), ``f(k+1) = f(k) p (k + x)/(k + 1)`` keeps the enclosure, and the bits of the uniform
number are drawn as needed: while the answer is open, both get longer.  No floating point decides anything.

*Many buckets.*  The total over ``M`` buckets of ``NB(s, p)`` noise is ``NB(M s, p)``; given the total, message ``t +
1`` goes to a uniform bucket with probability ``M s/(M s + t)`` and else joins a uniformly chosen earlier message
(Polya's urn).  Cost: the number of messages, not of buckets.
"""

from __future__ import annotations

from fractions import Fraction

from privpac.errors import ParameterError
from privpac.rng import Rng

__all__ = ["Mass", "check_total", "exp_minus", "sample_noise", "sample_total"]

_STEP = 64
_MOST_BITS = 1 << 16
_MOST_MEAN = 1 << 20


# Fixed-point enclosures: a pair (low, high) stands for [low, high] / 2**bits


def _atanh(num: int, den: int, bits: int) -> tuple[int, int]:
    """``2**bits * atanh(num/den)`` for ``0 <= 3 num <= den``."""
    term, total, k = (num << bits) // den, 0, 1
    n2, d2 = num * num, den * den
    terms = 0
    while term:
        total += term // k
        term = term * n2 // d2
        k += 2
        terms += 1
    # Each floor loses less than 1 per division, terms are positive, and the remainder is below a geometric series of
    # ratio 1/9.
    return total, total + 2 * terms + 2


def _log(value: Fraction, bits: int) -> tuple[int, int]:
    """``2**bits * ln(value)`` for ``value >= 1``."""
    shift = max(value.numerator.bit_length() - value.denominator.bit_length(), 0)
    if value >= Fraction(2) ** (shift + 1):
        shift += 1
    rest = value / Fraction(2) ** shift
    if rest < 1:
        shift, rest = shift - 1, rest * 2
    low, high = _atanh(rest.numerator - rest.denominator, rest.numerator + rest.denominator, bits)
    two_low, two_high = _atanh(1, 3, bits)
    return 2 * low + shift * 2 * two_low, 2 * high + shift * 2 * two_high


def exp_minus(low: int, high: int, bits: int) -> tuple[int, int]:
    """``2**bits * e**(-t)`` for ``t`` in ``[low, high]/2**bits``."""
    return _exp_below(high, bits), _exp_below(low, bits, upper=True)


def _exp_below(t: int, bits: int, *, upper: bool = False) -> int:
    """A bound on ``2**bits * e**(-t/2**bits)``: halve until small, sum the series, square back."""
    halvings = max((t >> bits).bit_length() + 8, 0)
    work = bits + 2 * halvings + 16
    small = t << (work - bits) if halvings == 0 else (t << (work - bits)) >> halvings
    if not upper:
        small += 1
    # e**-s = 1 - s + s**2/2 - ...: an alternating series of falling terms, cut at either side.
    one = 1 << work
    total, term, k = one, one, 0
    while term:
        k += 1
        term = (term * small >> work) // k
        total += -term if k % 2 else term
    slack = 2 * k + 2
    value = min(total + slack, one) if upper else max(total - slack, 0)
    for _ in range(halvings):
        value = value * value >> work
        value += 1 if upper else 0
    out = value >> (work - bits)
    return out + 1 if upper else out


class Mass:
    """Enclosures of ``f(0), f(1), ...`` and of their sums, over ``2**bits``."""

    def __init__(self, x: Fraction, p: Fraction, bits: int) -> None:
        self.x, self.p, self.bits = x, p, bits
        guard = 64 + (x.numerator // x.denominator).bit_length()
        low, high = _log(1 / (1 - p), bits + guard)
        scaled = (low * x.numerator // x.denominator, -(-high * x.numerator // x.denominator))
        first = exp_minus(*scaled, bits + guard)
        self.f = first[0] >> guard, -(-first[1] >> guard)
        self.sum = self.f

    def step(self, k: int) -> None:
        """From ``f(k)`` to ``f(k + 1)``."""
        ratio = self.p * (k + self.x) / (k + 1)
        low, high = self.f
        self.f = low * ratio.numerator // ratio.denominator, -(-high * ratio.numerator // ratio.denominator)
        self.sum = self.sum[0] + self.f[0], self.sum[1] + self.f[1]


def _first_bits(x: Fraction, p: Fraction) -> int:
    """``1/(1-p)**x < 2**(x (bits of the denominator))``: enough places to see ``f(0)``."""
    return _STEP + 64 + int(x * (1 / (1 - p)).__ceil__().bit_length())


def check_total(x: Fraction, p: Fraction) -> None:
    """Refuse what :func:`sample_total` could not draw; a curator asks before anything is spent."""
    if not (isinstance(x, Fraction) and isinstance(p, Fraction) and x > 0 and 0 < p < 1):
        raise ParameterError("negative binomial noise needs rational x > 0 and 0 < p < 1")
    if x * p / (1 - p) > _MOST_MEAN:
        raise ParameterError(
            f"the noise would be more than {_MOST_MEAN} messages on average; choose fewer buckets, or a larger n_min"
        )
    if _first_bits(x, p) > _MOST_BITS:
        raise ParameterError("the noise needs more precision than is provided; choose fewer buckets, or a larger n_min")


def sample_total(x: Fraction, p: Fraction, rng: Rng) -> int:
    """One exact draw of ``NB(x, p)``."""
    check_total(x, p)
    known, drawn, bits = 0, 0, _first_bits(x, p)
    while bits <= _MOST_BITS:
        known = (known << (bits - drawn)) | rng.bits(bits - drawn)
        drawn = bits
        found = _invert(x, p, known, bits)
        if found is not None:
            return found
        bits *= 2
    raise ParameterError("the noise needs more precision than is provided; choose fewer buckets, or a larger n_min")


def _invert(x: Fraction, p: Fraction, u: int, bits: int) -> int | None:
    """The ``k`` with ``F(k-1) <= U < F(k)`` for every ``U`` in ``[u, u + 1)/2**bits``, if the enclosures decide it."""
    mass, k = Mass(x, p, bits), 0
    while True:
        if u + 1 <= mass.sum[0]:
            return k
        if u < mass.sum[1]:
            return None
        k += 1
        mass.step(k - 1)
        if mass.f[1] <= 1 and k > x * p / (1 - p):
            return None  # the tail is below the resolution


def sample_noise(buckets: int, s: Fraction, p: Fraction, rng: Rng) -> list[int]:
    """The buckets of the messages when each of ``0..buckets - 1`` gets ``NB(s, p)`` of them, independently."""
    if buckets < 1:
        raise ParameterError(f"there must be at least one bucket, got {buckets}")
    mass = buckets * s
    out: list[int] = []
    for t in range(sample_total(mass, p, rng)):
        coin = rng.below(mass.numerator + t * mass.denominator)
        out.append(rng.below(buckets) if coin < mass.numerator else out[rng.below(t)])
    return out
