"""Truncated discrete Laplace noise: one-sided, bounded, for integer queries of sensitivity 1.

Noise on ``0..2 kappa`` with weight ``e**(-epsilon |v - kappa|)``.  A query shifted by one keeps every ratio within
``e**epsilon`` except at the end that falls out of the support, which has mass ``p0 = e**(-epsilon kappa) / Z``.

**Guarantee.** ``(epsilon, p0)``, and ``p0 <= delta`` by the choice of ``kappa``: the least one, decided exactly (``1 +
ceil(ln(1/delta)/epsilon)`` is always enough, never less).  With ``base=r`` the weights are ``r**(-|v - kappa|)``, all
probabilities are rational and the loss is ``ln r``.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property

import numpy as np
from attrs import field, frozen
from flint import arb

from privpac.bisection import least_from
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Ball, ExpSum, Rational, as_arb, precision, rational, up
from privpac.guarantee import Guarantee, positive_int
from privpac.law.blocks import MAX_VALUES, FiniteLaw, Law
from privpac.law.numbers import Denominator, Quotient
from privpac.law.sampling import Rate
from privpac.mechanisms.exponential import Protected, ceil_log, enclose
from privpac.mechanisms.laplace import read_value
from privpac.parameters import (
    bounds,
    fraction_or_none,
    named,
    privacy_or_none,
    probability,
    read_epsilon,
    whole_or_none,
)
from privpac.rng import Rng


def read_loss(epsilon: Rational | None, base: Rational | None) -> tuple[Fraction, Fraction | None]:
    """The epsilon to claim and the rational base to use, from one of them or a compatible pair."""
    if base is None:
        if epsilon is None:
            raise ParameterError("give epsilon, or base")
        return read_epsilon(epsilon), None
    factor = rational(base, "base", above=1)
    if epsilon is None:
        return read_epsilon(up(lambda: as_arb(factor).log()), "ln(base)"), factor
    claimed = read_epsilon(epsilon)
    if not factor_within(factor, claimed):
        raise ParameterError(
            f"base = {factor} loses more than epsilon = {claimed}; dyadic_base(epsilon) rounds e**epsilon down"
        )
    return claimed, factor


def factor_within(factor: Fraction, epsilon: Fraction) -> bool:
    """``factor <= e**epsilon``, decided exactly."""
    return (ExpSum.of(factor) - ExpSum.exp(epsilon)).sign() <= 0


@frozen(slots=False, field_transformer=named)
class TruncatedLaplace(Protected):
    """Non-negative bounded noise; give ``epsilon``, or a rational ``base``, or both (then ``base <= e**epsilon`` is
    checked).

    >>> noise = TruncatedLaplace(1, "1e-3", unit="user", neighbours="replace")
    >>> noise.kappa, noise.certified_kappa
    (7, 8)
    >>> exact = TruncatedLaplace(None, "1/7", base=2, unit="user", neighbours="replace")
    >>> [str(exact.law().prob_exact(v)) for v in range(2 * exact.kappa + 1)]
    ['1/10', '1/5', '2/5', '1/5', '1/10']
    """

    _epsilon: Fraction | None = field(converter=privacy_or_none)
    delta: Fraction = field(converter=probability)
    base: Fraction | None = field(kw_only=True, default=None, converter=fraction_or_none, metadata=bounds(above=1))
    _kappa: int | None = field(kw_only=True, default=None, converter=whole_or_none)

    def __attrs_post_init__(self) -> None:
        read_loss(self._epsilon, self.base)
        if not self._enough(self.kappa):
            raise ParameterError(
                f"kappa = {self.kappa} leaves more than delta at the end; the least kappa is "
                f"{least_from(self._enough, 1)}"
            )

    @cached_property
    def epsilon(self) -> Fraction:
        return read_loss(self._epsilon, self.base)[0]

    @cached_property
    def kappa(self) -> int:
        """The half width of the noise; the least one unless given."""
        return least_from(self._enough, 1) if self._kappa is None else self._kappa

    @property
    def rate(self) -> Rate:
        return Rate(None, self.base) if self.base is not None else Rate(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours)

    # The mass that falls out

    def _enough(self, kappa: int) -> bool:
        """``p0 <= delta``, with ``Z = (1 + x - 2 x**(kappa+1)) / (1 - x)`` multiplied out: decided exactly."""
        delta, one = self.delta, Fraction(1)
        return _sign(self.rate, [(one, kappa), (-one + 2 * delta, kappa + 1), (-delta, 0), (-delta, 1)]) <= 0

    @property
    def certified_kappa(self) -> int:
        """``1 + ceil(ln(1/delta) / epsilon)``, the closed form that always suffices."""
        delta, rate = self.delta, self.rate
        if rate.eta is not None:
            return 1 + ceil_log(1 / delta, lambda: as_arb(self.epsilon))
        return 1 + least_from(lambda k: _sign(rate, [(Fraction(1), k), (-delta, 0)]) <= 0, 0)

    def edge(self, kappa: int | None = None) -> Ball:
        """Encloses ``p0``, the mass of the outcome 0 (for another ``kappa``, if given)."""
        k = self.kappa if kappa is None else positive_int(kappa, "kappa", minimum=0)
        _require_listable(k)
        z = self.rate.exact_total(list(range(k + 1)), [1] + [2] * k)
        return enclose(Quotient.of(self.rate.exact(k), Denominator(z)))

    # Law and draws

    @cached_property
    def _noise(self) -> Law:
        _require_listable(self.kappa)
        values = np.arange(2 * self.kappa + 1, dtype=np.uint64)
        gaps = np.abs(np.arange(-self.kappa, self.kappa + 1))
        return Law.from_blocks(values, values, gaps, self.rate.eta, base=self.rate.base)

    def law(self) -> FiniteLaw:
        """The law of the noise, on ``0..2 kappa``."""
        return self._noise.as_finite()

    def shift(self, value: int) -> FiniteLaw:
        """The law of ``value`` plus the noise."""
        by = read_value(value)
        return FiniteLaw(
            [(range(cell.start + by, cell.stop + by), n) for cell, n in self.law().cells if isinstance(cell, range)], {}
        )

    def sample(self, value: int = 0, rng: Rng | None = None) -> int:
        """One exact draw of ``value`` plus the noise."""
        return read_value(value) + int(self._noise.sample(rng))


def _require_listable(kappa: int) -> None:
    if 2 * kappa >= MAX_VALUES:
        raise TooLargeError(
            f"kappa = {kappa} needs a law of more than {MAX_VALUES} values; raise epsilon or delta, or use Laplace"
        )


def _sign(rate: Rate, terms: Iterable[tuple[Fraction, int]]) -> int:
    """Sign of ``sum of a * w**g``, where ``w**g`` is the weight at gap ``g``."""
    listed = list(terms)
    if rate.eta is None:
        for bits in (64, 256, 1024):
            with precision(bits):
                value = sum((as_arb(a) * rate.arb(g) for a, g in listed), arb(0))
                if value > 0 or value < 0:
                    return 1 if value > 0 else -1
    return sum((rate.exact(g) * a for a, g in listed), ExpSum()).sign()
