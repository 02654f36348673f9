"""Interior points by random pairs: the common prefix lengths of a random matching stand for the values.

``n`` values (``n`` even) of ``b`` bits are put in random order and paired; ``z_j`` is the common prefix length of pair
``j``.  A depth ``z`` with at least ``A`` of the ``z_j`` at or below it in the tree and at least ``B`` at or above is
found privately, at the last level by the score ``min(#{z_j >= z} - A, #{z_j <= z} - B)`` and base ``rz``, before it by
recursion on the sorted ``z_j`` without the ``A - 1`` largest and ``B - 1`` smallest; then a point is named from the
depth (:mod:`privpac.mechanisms.interior_tail`).

**Guarantee.** For one replaced value ``e**epsilon = rz**2 * product of rL**2 rc**2``, ``delta = sum of delta_L``.
*Proof.* Match the orders of two neighbours by keeping common values in place: one ``z_j`` is replaced, hence at most
one element of the window and each count by at most 1; induct, then the two stages; adaptive basic composition and joint
convexity over the order.

Every reduction halves the number of values, so ``k`` of them cost ``2**k``: the hidden walk (``engine="walk"``) needs
fewer values and is the default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

from attrs import field, frozen

from privpac.errors import ParameterError, TooLargeError
from privpac.law.base import Bottom, Law
from privpac.mechanisms.hidden_walk import check_delta_L
from privpac.mechanisms.interior_tail import Outcome, at_depths, mixed, point_masses, point_sample
from privpac.mechanisms.rank import rank_law
from privpac.parameters import bounds, fraction, named, probability, whole
from privpac.rng import Rng, secret_rng

__all__ = ["MAX_MATCHINGS", "PairLevel", "PrefixInteriorPoint", "matchings"]

MAX_MATCHINGS = 1 << 14
"""How many matchings an exact law averages over at most: 12 values."""


@frozen(slots=False, field_transformer=named)
class PairLevel:
    """One reduction: ``A`` and ``B`` bound the depth from both sides, then the bases of the last stages."""

    A: int = field(converter=whole)
    B: int = field(converter=whole)
    rL: Fraction = field(converter=fraction, metadata=bounds(above=1))
    delta_L: Fraction = field(converter=probability, validator=check_delta_L)
    rc: Fraction = field(converter=fraction, metadata=bounds(above=1))

    @property
    def stage(self) -> tuple[Fraction, Fraction, Fraction]:
        return self.rL, self.delta_L, self.rc

    def inner_size(self, n: int, *, last: bool) -> int:
        """How many depths are left of ``n`` values; an even number where they are paired again."""
        left = n // 2 - (self.A - 1) - (self.B - 1)
        return left if last else left - left % 2


def _levels(levels: Sequence[PairLevel]) -> tuple[PairLevel, ...]:
    return tuple(levels)


@frozen(slots=False, field_transformer=named)
class PrefixInteriorPoint:
    """An interior point of an even number ``size`` of values in ``0..top`` by the given levels, outermost first.

    >>> level = PairLevel(1, 1, "41/32", "1/100", "357/256")
    >>> point = PrefixInteriorPoint((level,), "39/32", top=3, size=4)
    >>> point.law([3, 1, 0, 3], given=((0, 1, 2, 3),)).prob_exact(1)
    Fraction(77383182848, 11981218673845)
    """

    levels: tuple[PairLevel, ...] = field(converter=_levels)
    rz: Fraction = field(converter=fraction, metadata=bounds(above=1))
    top: int = field(repr=False, converter=whole)
    size: int = field(converter=whole, metadata=bounds(minimum=2))

    def __attrs_post_init__(self) -> None:
        if not self.levels or not all(isinstance(level, PairLevel) for level in self.levels):
            raise TypeError("levels must be one or more PairLevel objects, outermost first")
        if self.size % 2:
            raise ParameterError(f"size must be even, got {self.size}: values are paired")
        left = self.size
        for i, level in enumerate(self.levels):
            left = level.inner_size(left, last=i == len(self.levels) - 1)
            if left < 1:
                raise ParameterError(f"the levels drop more pairs than there are: {self.size} values are too few")

    # Public numbers

    @property
    def bits(self) -> int:
        return self.top.bit_length()

    @cached_property
    def inner(self) -> PrefixInteriorPoint:
        """The problem left after one of several reductions: depths instead of values."""
        return PrefixInteriorPoint(
            self.levels[1:], self.rz, self.bits, self.levels[0].inner_size(self.size, last=False)
        )

    @property
    def multiplicative(self) -> Fraction:
        """``e**epsilon`` of the guarantee, exactly."""
        return self.rz**2 * prod((level.rL**2 * level.rc**2 for level in self.levels), start=Fraction(1))

    @property
    def delta(self) -> Fraction:
        return sum((level.delta_L for level in self.levels), Fraction(0))

    @property
    def delta_up(self) -> Fraction:
        return self.delta

    # Pairs

    def _depths(self, values: Sequence[int], pairs: Sequence[tuple[int, int]]) -> list[int]:
        """Common prefix lengths, ascending."""
        return sorted(self.bits - (values[i] ^ values[j]).bit_length() for i, j in pairs)

    def _window(self, depths: list[int]) -> list[int]:
        level, kept = self.levels[0], self.inner.size
        return depths[level.B - 1 : level.B - 1 + kept]

    def _choose(self, depths: list[int]) -> Law:
        level = self.levels[0]
        return rank_law(depths, level.A, len(depths) - level.B, self.bits, self.rz)

    # Draws

    def sample(self, values: Sequence[int], rng: Rng | None = None) -> Outcome:
        """A point from ``size`` values in ``0..top``, or ``BOTTOM``."""
        source = secret_rng(rng)
        order = list(range(self.size))
        for i in range(self.size - 1, 0, -1):
            j = source.below(i + 1)
            order[i], order[j] = order[j], order[i]
        depths = self._depths(values, list(zip(order[::2], order[1::2])))
        z = (
            self._choose(depths).sample(source)
            if len(self.levels) == 1
            else self.inner.sample(self._window(depths), source)
        )
        return point_sample(
            sorted(values), self.bits, self.top, 0 if isinstance(z, Bottom) else z, self.levels[0].stage, source
        )

    # Laws, for the curator and for audits

    def law(self, values: Sequence[int], *, given: Sequence[Sequence[int]] | None = None) -> Law:
        """The exact law of :meth:`sample`: averaged over all matchings, or for the orders ``given``, one for each
        level.

        An order lists places of ``values`` (below the first level, places of the sorted window); places 0 and 1 of it
        are paired.
        """
        weights: list[tuple[Any, Fraction]] = list(self.masses(values, given).items())
        return Law.from_weights(weights)

    def masses(self, values: Sequence[int], given: Sequence[Sequence[int]] | None = None) -> dict[Outcome, Fraction]:
        """Probability of every outcome, as rationals."""
        ordered, depths = sorted(values), at_depths(self._depth_masses(values, given))
        return mixed(
            (p, point_masses(ordered, self.bits, self.top, z, self.levels[0].stage)) for z, p in depths.items()
        )

    def _depth_masses(self, values: Sequence[int], given: Sequence[Sequence[int]] | None) -> dict[Outcome, Fraction]:
        drawn = Counter(tuple(self._depths(values, pairs)) for pairs in self._matchings(given))
        total = drawn.total()
        if len(self.levels) == 1:
            return mixed((Fraction(n, total), self._chosen(list(depths))) for depths, n in drawn.items())
        rest = None if given is None else given[1:]
        return mixed(
            (Fraction(n, total), self.inner.masses(self._window(list(depths)), rest)) for depths, n in drawn.items()
        )

    def _chosen(self, depths: list[int]) -> dict[Outcome, Fraction]:
        law = self._choose(depths)
        return {z: law.prob_exact(z) for z in range(self.bits + 1)}

    def _matchings(self, given: Sequence[Sequence[int]] | None) -> Iterator[list[tuple[int, int]]]:
        if given is None:
            if prod(range(1, self.size, 2)) > MAX_MATCHINGS:
                raise TooLargeError(
                    f"{self.size} values have more than {MAX_MATCHINGS} matchings; pass law(values, given=orders), or "
                    "use sample"
                )
            return matchings(list(range(self.size)))
        if len(given) != len(self.levels) or sorted(given[0]) != list(range(self.size)):
            raise ParameterError(
                f"given must hold {len(self.levels)} orders, the first one of the places 0..{self.size - 1}"
            )
        return iter([list(zip(given[0][::2], given[0][1::2]))])


def matchings(places: list[int]) -> Iterator[list[tuple[int, int]]]:
    """All ways to pair up an even number of places."""
    if not places:
        yield []
        return
    first, rest = places[0], places[1:]
    for i, other in enumerate(rest):
        for pairs in matchings(rest[:i] + rest[i + 1 :]):
            yield [(first, other), *pairs]
