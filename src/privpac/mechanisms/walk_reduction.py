"""Interior points by hidden walks: ``k`` reductions of the domain, then the exponential mechanism.

Each reduction replaces the ``n`` values by the depths of a hidden walk (:mod:`privpac.mechanisms.hidden_walk`), finds a
depth between two of those recursively, and names a point from the depth (:mod:`privpac.mechanisms.interior_tail`).
Without reductions left, ``Pr[c]`` over ``0..top`` is proportional to ``rz**u(c)``, ``u(c) = min(#{x <= c}, #{x >=
c})``.

**Guarantee.** For every multiset of ``size`` values and one of them replaced: ``e**epsilon = rz**2 * product over
levels of r**(J+1) rL**2 rc**2`` and ``delta = sum over levels of (J + r) delta1(r, kappa) + delta_L`` (the terms of
``J`` vanish where ``J = 0``).  *Proof.* Induction on the levels.  None: ``|u - u'| <= 1``.  One more: compare the joint
laws of (common prefix of the walk, depth, prefix, point): Lemma 2, then Lemma 3 with the induction hypothesis (mixing
over the walk's further coins), then the two stages; adaptive basic composition.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from attrs import field, frozen

from privpac.errors import ParameterError, TooLargeError
from privpac.law.base import Bottom, Law
from privpac.mechanisms import hidden_walk
from privpac.mechanisms.hidden_walk import Level
from privpac.mechanisms.interior_tail import Outcome, at_depths, interior_masses, mixed, point_masses, point_sample
from privpac.mechanisms.rank import rank_law
from privpac.parameters import bounds, fraction, named, whole
from privpac.rng import Rng, secret_rng

__all__ = ["MAX_LAW_WORK", "WalkReduction"]

MAX_LAW_WORK = 1 << 20
"""Largest ``size * depths`` for which an exact law is written out; judged from public numbers."""


def _levels(levels: Sequence[Level]) -> tuple[Level, ...]:
    return tuple(levels)


@frozen(slots=False, field_transformer=named)
class WalkReduction:
    """An interior point of ``size`` values in ``0..top`` by the given levels, outermost first.

    >>> point = WalkReduction((Level(3, 2, 3, 1, "5/4", "1/100", "9/8"),), "9/8", top=7, size=6)
    >>> point.multiplicative, point.delta
    (Fraction(164025, 8192), Fraction(207, 700))
    >>> sum(point.masses([0, 1, 4, 4, 6, 7]).values())
    Fraction(1, 1)
    """

    levels: tuple[Level, ...] = field(converter=_levels)
    rz: Fraction = field(converter=fraction, metadata=bounds(above=1))
    top: int = field(repr=False, converter=whole)
    size: int = field(converter=whole)

    def __attrs_post_init__(self) -> None:
        if not all(isinstance(level, Level) for level in self.levels):
            raise TypeError("levels must be Level objects, outermost first")
        left = self.size
        for level in self.levels:
            left = level.inner_size(left)
        if left < 1:
            needed = self.size + 1 - left
            raise ParameterError(
                f"the levels drop more values than there are: size must be at least {needed}, got {self.size}"
            )

    # Public numbers

    @property
    def bits(self) -> int:
        return self.top.bit_length()

    @cached_property
    def inner(self) -> WalkReduction:
        """The problem left after one reduction: depths instead of values."""
        return WalkReduction(self.levels[1:], self.rz, self.bits, self.levels[0].inner_size(self.size))

    @property
    def multiplicative(self) -> Fraction:
        """``e**epsilon`` of the guarantee, exactly."""
        return self.levels[0].factor(self.size) * self.inner.multiplicative if self.levels else self.rz**2

    @property
    def delta(self) -> Fraction:
        """``delta`` of the guarantee, exactly."""
        return self.levels[0].delta(self.size) + self.inner.delta if self.levels else Fraction(0)

    @property
    def delta_up(self) -> Fraction:
        """``delta``, rounded up: cheap also where ``r**kappa`` has millions of bits."""
        return self.levels[0].delta_up(self.size) + self.inner.delta_up if self.levels else Fraction(0)

    # Draws

    def sample(self, values: Sequence[int], rng: Rng | None = None) -> Outcome:
        """A point from ``size`` sorted values in ``0..top``, or ``BOTTOM``."""
        source = secret_rng(rng)
        if not self.levels:
            return int(self._exponential(values).sample(source))
        level = self.levels[0]
        kept = hidden_walk.walk(values, self.bits, level.T, hidden_walk.coin(level, source))[: self.size - level.T]
        z = self.inner.sample(kept[level.B - 1 :], source)
        return point_sample(values, self.bits, self.top, 0 if isinstance(z, Bottom) else z, level.stage, source)

    def _exponential(self, values: Sequence[int]) -> Law:
        # u up to the constant 1, which no law sees.
        return rank_law(values, 1, self.size - 1, self.top, self.rz)

    # Laws, for the curator and for audits

    def law(self, values: Sequence[int]) -> Law:
        """The exact law of :meth:`sample`."""
        if not self.levels:
            return self._exponential(values)
        if (self.bits + 1) * self.size > MAX_LAW_WORK:
            raise TooLargeError(
                f"{self.size} values of {self.bits} bits: an exact law is written out only while their product is at "
                f"most {MAX_LAW_WORK}; "
                "use sample, or levels=0"
            )
        weights: list[tuple[Any, Fraction]] = list(self.masses(values).items())
        return Law.from_weights(weights)

    def masses(self, values: Sequence[int]) -> dict[Outcome, Fraction]:
        """Probability of every outcome, as rationals; without levels every point of ``0..top`` is listed."""
        if not self.levels:
            if self.top >= MAX_LAW_WORK:
                raise TooLargeError(
                    f"a domain of {self.bits} bits is too large to list point by point; use law, which keeps blocks"
                )
            return interior_masses(values, range(self.top + 1), self.rz)
        level = self.levels[0]
        windows = hidden_walk.kept_law(values, self.bits, level)
        depths = mixed((share, self.inner.masses(kept[level.B - 1 :])) for kept, share in windows.items())
        return mixed(
            (share, point_masses(values, self.bits, self.top, z, level.stage)) for z, share in at_depths(depths).items()
        )
