"""What a device checks before it sends anything: does the mechanism in the manifest keep the guarantee it claims?

Decided with integers (enclosures of ``e**-epsilon`` and of negative binomial masses), independently of the code that
chose the parameters.  Standard library only.
"""

from __future__ import annotations

from fractions import Fraction

from privpac.errors import ManifestError
from privpac.protocols.negative_binomial import Mass, exp_minus
from privpac.protocols.shuffle import ShuffleSelection

__all__ = ["MAX_CAP", "TAIL", "cap_price", "keeps_local", "least_cap", "shuffle_delta"]

TAIL = Fraction(1, 1 << 40)
"""The chance that one client would send more than the cap."""

MAX_CAP = 1 << 18
"""No client sends more messages than this."""

_BITS = 256
_MOST = 1 << 15
_WHOLE = 1 << 64


def _decay(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals around ``e**-epsilon``."""
    scaled = epsilon.numerator << _BITS
    low, high = exp_minus(scaled // epsilon.denominator, -(-scaled // epsilon.denominator), _BITS)
    return Fraction(low, 1 << _BITS), Fraction(high, 1 << _BITS)


def keeps_local(keep: Fraction, epsilon: Fraction) -> bool:
    """``keep/(1 - keep) <= e**epsilon``."""
    return (1 - keep) / keep >= _decay(epsilon)[1]


def shuffle_delta(select: ShuffleSelection, n_max: int, epsilon: Fraction) -> Fraction:
    """An upper bound on the delta of a shuffled count at ``epsilon``, the cap on messages included.

    The bound is that of :mod:`privpac.protocols.calibrate`; every quantity is rounded against the claim.
    """
    check_noise(select.r, select.p)
    decay_low, decay_high = _decay(epsilon)
    noise = _Tails(select.r, select.p)
    total, r = Fraction(0), select.r
    for b in range(noise.last + 1):
        share = Fraction(b) / (b + r - 1)
        if share >= decay_high:
            break  # c >= 1: no term is positive from here on
        if share >= decay_low:
            raise ManifestError("a ratio could not be decided; choose other parameters")
        first = _boundary(share, decay_low, decay_high, r)
        f, before = noise.f(b), noise.f(b - 1)
        total += max(Fraction(0), f[1] * noise.tail(first - 1)[1] - before[0] * noise.tail(first)[0] / decay_high)
    else:
        total += noise.beyond
    if select.cap < least_cap(select):
        raise ManifestError("the cap on messages is too small for the noise")
    return total + cap_price(epsilon, n_max)


def check_noise(r: Fraction, p: Fraction) -> None:
    """Refuse, before a table is built, noise that no table of a device holds: long numbers, or a mean beyond it."""
    if any(part >= _WHOLE for value in (r, p) for part in (value.numerator, value.denominator)):
        raise ManifestError("r and p of the noise have numerators and denominators below 2**64")
    if r * p / (1 - p) > _MOST:
        raise ManifestError("the noise spreads over too many counts")


def cap_price(epsilon: Fraction, n_max: int) -> Fraction:
    """What the cap costs of delta: ``(1 + e**epsilon) n_max TAIL``, rounded up; 1 (all of it) where ``e**-epsilon`` is
    below the precision."""
    decay, _ = _decay(epsilon)
    return (1 + 1 / decay) * n_max * TAIL if decay else Fraction(1)


def _boundary(share: Fraction, low: Fraction, high: Fraction, r: Fraction) -> int:
    """``a*``: with ``c = share/e**-eps``, one more than ``floor(c (r-1)/(1-c)) = floor(share (r-1)/(e**-eps -
    share))``."""
    least, most = share * (r - 1) / (high - share), share * (r - 1) / (low - share)
    if least // 1 != most // 1:
        raise ManifestError("a boundary could not be decided; choose other parameters")
    return int(least // 1) + 1


class _Tails:
    """Enclosures of ``f(k)`` and ``Pr[Y >= k]``, as rationals."""

    def __init__(self, r: Fraction, p: Fraction) -> None:
        mass, k = Mass(r, p, 2 * _BITS), 0
        if mass.f[0] == 0:  # no lower end would ever rise above 0, while the upper ones grow beyond all bounds
            raise ManifestError("the noise spreads over too many counts")
        listed = [mass.f]
        limit = 1 << _BITS
        while True:
            mass.step(k)
            k += 1
            listed.append(mass.f)
            later = p * (k + r) / (k + 1)
            if later < 1 and mass.f[1] < limit:
                break
            if k > _MOST:
                raise ManifestError("the noise spreads over too many counts")
        scale = 1 << (2 * _BITS)
        self.last, self._f = k, [(Fraction(low, scale), Fraction(high, scale)) for low, high in listed]
        self.beyond = self._f[-1][1] * later / (1 - later)
        tails = [(Fraction(0), self.beyond)]
        for low, high in reversed(self._f):
            tails.append((tails[-1][0] + low, tails[-1][1] + high))
        self._tails = tails[::-1]

    def f(self, k: int) -> tuple[Fraction, Fraction]:
        return self._f[k] if 0 <= k <= self.last else (Fraction(0), Fraction(0))

    def tail(self, k: int) -> tuple[Fraction, Fraction]:
        return self._tails[max(k, 0)] if k < len(self._tails) else (Fraction(0), self.beyond)


def least_cap(select: ShuffleSelection) -> int:
    """The least cap that one client's messages exceed with probability at most ``TAIL``; whatever cap ``select``
    has."""
    x, real = select.buckets * select.share, 1 if select.direction == "over" else select.buckets - 1
    if select.expected_messages > MAX_CAP:
        raise ManifestError(f"a client would send more than {MAX_CAP} messages; choose fewer buckets, or more clients")
    # (1 - p)**-x < 2**(x places): enough bits to see f(0).
    places = (1 / (1 - select.p)).__ceil__().bit_length()
    bits, most = 2 * _BITS + places * (int(x) + 1), 0
    if bits > _MOST:
        raise ManifestError("the noise needs more precision than a device has; choose fewer buckets, or more clients")
    mass = Mass(x, select.p, bits)
    enough = (1 << mass.bits) - ((TAIL.numerator << mass.bits) // TAIL.denominator)
    while mass.sum[0] < enough:
        mass.step(most)
        most += 1
        if most + real > MAX_CAP:
            raise ManifestError(
                f"a client might send more than {MAX_CAP} messages; choose fewer buckets, or more clients"
            )
    return real + most
