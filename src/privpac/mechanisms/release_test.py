"""Propose, test, release: answer only where the answer is stable, and decide privately whether it is.

A *distance to instability* ``rho`` in ``0..K+1`` moves by at most 1 between neighbours, and the answer ``M(x)`` is
``(eps_O, delta_O)``-close for neighbours with ``rho, rho' <= K`` that are not both ``K``.  The answer is released with
probability ``b[rho]``, otherwise ``BOTTOM``.  The *pass curve* ``b[0..K+1]`` falls to ``b[K+1] = 0`` with, for ``a =
e**eps_R``,

    b[k] <= a b[k+1] + delta_R      and      1 - b[k+1] <= a (1 - b[k]) + delta_R.

**Guarantee** (Theorem G).  ``(eps_R + eps_O, delta_R + delta_O)``-DP.  *Proof.*  Let ``b, b'`` be the two pass
probabilities, U an event and ``U0`` its part without ``BOTTOM``.  If one distance is ``K+1`` or both are ``K``, both
``b, b' <= delta_R``, which pays for U0 or for ``BOTTOM``, whichever grows.  Otherwise the answers are close: if ``b <=
a b'`` the product of both factors covers U0 and the second condition covers ``BOTTOM``; if ``b > a b'`` the excess ``b
- a b' <= delta_R`` is paid once and ``1 - b < 1 - b'``.

Both conditions only bound ``b[k]`` from above given ``b[k+1]``, so the largest curve is found backwards, ``a`` may be a
rational *below* ``e**eps_R``, and rounding an entry down keeps a curve valid.  All entries are rationals and the coin
is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from attrs import field, frozen

from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import Rational, dyadic_base, rational
from privpac.guarantee import Guarantee, positive_int
from privpac.law.blocks import BOTTOM, Law
from privpac.mechanisms.exponential import Protected
from privpac.mechanisms.truncated_laplace import factor_within, read_loss
from privpac.parameters import (
    bounds,
    fraction_or_none,
    named,
    privacy_or_none,
    probability,
    probability_or_zero,
    whole_or_none,
)
from privpac.rng import Rng, secret_rng

DEFAULT_FAILURE = Fraction(1, 1000)
"""Chance of no answer at distance 0 that a default ladder accepts."""

MAX_LADDER = 1 << 16
"""The longest pass curve."""

_EXACT_STEPS = 64
_BITS = 512


# The curve


def _exact_steps(base: Fraction, delta: Fraction) -> Iterator[Fraction]:
    """``b[K+1], b[K], ...`` without end."""
    b, one = Fraction(0), Fraction(1)
    while True:
        yield b
        b = min(one, base * b + delta, one - (one - b - delta) / base)


def _rounded_steps(base: Fraction, delta: Fraction, *, up: bool = False) -> Iterator[int]:
    """The same as multiples of ``2**-512``, every entry rounded down (or up)."""
    p, q, one = base.numerator, base.denominator, 1 << _BITS
    d = _divide(delta.numerator * one, delta.denominator, up)
    b = 0
    while True:
        yield b
        b = min(one, _divide(p * b, q, up) + d, one - _divide(q * (one - b - d), p, not up))


def _divide(a: int, b: int, up: bool) -> int:
    return -(-a // b) if up else a // b


def pass_curve(base: Rational, delta: Rational, ladder: int) -> tuple[Fraction, ...]:
    """The largest pass curve ``b[0..K+1]`` for ``K = ladder`` and ``e**eps_R >= base``; exact rationals.

    >>> [str(b) for b in pass_curve(3, "1/1000", 2)]
    ['13/1000', '1/250', '1/1000', '0']
    """
    a, d = _read_base(base), probability(delta, "delta")
    k = positive_int(ladder, "ladder", minimum=0, maximum=MAX_LADDER)
    return tuple(_first(_exact_steps(a, d), k + 2))[::-1]


def smallest_K(base: Rational, delta: Rational, failure: Rational = DEFAULT_FAILURE) -> int:
    """The shortest ladder whose curve passes with probability at least ``1 - failure`` at distance 0; decided exactly.

    >>> smallest_K(3, "1/1000", "1/20"), smallest_K(3, "1/1000", 0)
    (8, 12)
    """
    a, d = _read_base(base), probability(delta, "delta")
    goal = 1 - probability_or_zero(failure, "failure")
    sure, open_ = (
        _divide(goal.numerator << _BITS, goal.denominator, True),
        (goal.numerator << _BITS) // goal.denominator,
    )
    steps = zip(range(-1, MAX_LADDER + 1), _rounded_steps(a, d), _rounded_steps(a, d, up=True))
    for k, least, most in steps:
        # The recursion is increasing, so the exact entry lies between the two rounded ones.
        if k >= 0 and (least >= sure or (most >= open_ and pass_curve(a, d, k)[0] >= goal)):
            return k
    raise InfeasibleError(
        f"no ladder of at most {MAX_LADDER} steps passes that often: raise epsilon, delta or the failure accepted"
    )


def _first(values: Iterator[Fraction], count: int) -> Iterator[Fraction]:
    return (value for _, value in zip(range(count), values))


def valid_curve(curve: tuple[Fraction, ...], base: Rational, delta: Rational) -> bool:
    """Whether a curve ends at 0, never rises, and meets both conditions of Theorem G."""
    a, d = _read_base(base), probability(delta, "delta")
    steps = pairwise(curve)
    ends = len(curve) >= 2 and curve[-1] == 0 and curve[0] <= 1
    return ends and all(late <= b <= a * late + d and 1 - late <= a * (1 - b) + d for b, late in steps)


def _read_base(base: object) -> Fraction:
    return rational(base, "base", minimum=1)


def _read_ladder(ladder: int | None) -> int | None:
    k = whole_or_none(ladder, "ladder", minimum=0)
    if k is not None and k > MAX_LADDER:
        raise ParameterError(f"ladder must be at most {MAX_LADDER}, got {k}")
    return k


# The test


@frozen(slots=False, field_transformer=named)
class ReleaseTest(Protected):
    """Pass or ``BOTTOM``; give ``epsilon``, or a rational ``base <= e**epsilon``, or both.

    ``ladder`` left out is the shortest one that fails at most ``failure`` often at distance 0.  Curves of more than 64
    steps are rounded down to 512 bits.

    >>> test = ReleaseTest(1, "1e-6", unit="user", neighbours="replace")
    >>> test.ladder, len(test.curve), float(test.curve[0]) > 0.999
    (19, 21, True)
    """

    _epsilon: Fraction | None = field(converter=privacy_or_none)
    delta: Fraction = field(converter=probability)
    _base: Fraction | None = field(kw_only=True, default=None, converter=fraction_or_none, metadata=bounds(above=1))
    _ladder: int | None = field(kw_only=True, default=None, converter=_read_ladder)
    failure: Fraction = field(kw_only=True, default=DEFAULT_FAILURE, converter=probability_or_zero)

    def __attrs_post_init__(self) -> None:
        # Theorem G's hypotheses, checked on the very numbers that are sampled.
        if not (factor_within(self.base, self.epsilon) and valid_curve(self.curve, self.base, self.delta)):
            raise ParameterError("the pass curve does not keep its conditions; use another base or delta")

    @cached_property
    def epsilon(self) -> Fraction:
        return read_loss(self._epsilon, self._base)[0]

    @cached_property
    def base(self) -> Fraction:
        return dyadic_base(self.epsilon) if self._base is None else self._base

    @cached_property
    def ladder(self) -> int:
        """``K``."""
        return smallest_K(self.base, self.delta, self.failure) if self._ladder is None else self._ladder

    @cached_property
    def curve(self) -> tuple[Fraction, ...]:
        """The chances of passing at the distances ``0..K+1``."""
        exact = self.ladder <= _EXACT_STEPS
        rounded = (Fraction(b, 1 << _BITS) for b in _rounded_steps(self.base, self.delta))
        steps = _exact_steps(self.base, self.delta) if exact else rounded
        return tuple(_first(steps, self.ladder + 2))[::-1]

    @property
    def guarantee(self) -> Guarantee:
        """What the test alone costs; the answer's own closeness is added to it."""
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours)

    def _chance(self, distance: int) -> Fraction:
        # A distance beyond the ladder counts as its end: nothing is raised about private numbers.
        return self.curve[min(max(int(distance), 0), self.ladder + 1)]

    def law(self, distance: int, answer: Law | None) -> Law:
        """The law of the release; ``answer`` may be None where it is never given."""
        b = self._chance(distance)
        if answer is None or b == 0:
            return Law.point(BOTTOM)
        return Law.mixture([(b, answer), (1 - b, Law.point(BOTTOM))])

    def passes(self, distance: int, rng: Rng | None = None) -> bool:
        """One exact coin."""
        b = self._chance(distance)
        return secret_rng(rng).below(b.denominator) < b.numerator
