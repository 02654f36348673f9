"""Noise on sums of integers: what a histogram asks of it, whoever defines it.

People add non-negative integers to the coordinates of a vector; a noise is scaled to what one of them can change
(:class:`Change`) and to a budget, and says four things about itself: its exact **law**, a **sampler** of that law, the
**privacy** it buys and its **tail**.  :class:`~privpac.mechanisms.laplace.Laplace` and
:class:`~privpac.mechanisms.gaussian.DiscreteGaussian` are such noises; a class outside the package that derives from
:class:`Noise` is used like them: ``AveragedHistogram(1, noise=Mine)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Self

from attrs import frozen

from privpac.bisection import least_from
from privpac.exact import Ball, Rational, rational
from privpac.guarantee import Guarantee
from privpac.law.blocks import FiniteLaw
from privpac.rng import Rng, secret_rng


@frozen(slots=False)
class Change:
    """How far neighbours are apart: ``people`` come or leave (2 where one replaces another), each of whom adds
    non-negative integers with a sum of at most ``steps`` to at most ``cells`` coordinates (None: to any number).

    >>> change = Change(steps=4, people=2)
    >>> change.total, change.squares
    (8, 32)
    """

    steps: int
    people: int
    cells: int | None = None

    @property
    def total(self) -> int:
        """The largest sum of absolute changes."""
        return self.people * self.steps

    @property
    def squares(self) -> int:
        """The largest sum of squared changes.

        Non-negative numbers with sum ``L`` have squares of sum at most ``L**2``; of two such vectors the product is not
        negative, so that the squares of their difference sum to at most ``2 L**2``.
        """
        return self.people * self.steps**2


class Noise(ABC):
    """Integer noise on every coordinate of a vector, scaled by :meth:`within`."""

    title: ClassVar[str]
    """The name that results show."""
    divides: ClassVar[str] = "the budget"
    """What vectors released together share equally."""

    # Privacy

    @classmethod
    @abstractmethod
    def within(cls, budget: Guarantee, change: Change, parts: int) -> Self:
        """The noise of each of ``parts`` vectors that together keep the budget, each moved by ``change``.

        Raises
        ------
        ParameterError, InfeasibleError
            If no noise of this kind keeps it.
        """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What one vector costs."""

    # Law and draws

    @abstractmethod
    def law(self, value: int, *, bounds: tuple[int, int]) -> FiniteLaw:
        """The law of one noisy coordinate, clamped to the public ``bounds`` (clamping is post-processing)."""

    @abstractmethod
    def sample(self, value: int, rng: Rng | None = None) -> int:
        """One exact draw of the noisy value."""

    def sample_vector(self, values: Sequence[int], rng: Rng | None = None) -> list[int]:
        """One exact draw of a noisy vector, first coordinate first."""
        source = secret_rng(rng)
        return [self.sample(value, source) for value in values]

    # Accuracy

    @abstractmethod
    def tail(self, t: int) -> Ball:
        """An enclosure of ``Pr[|noise| >= t]``."""

    def reach(self, beta: Rational) -> int:
        """The noise exceeds this in size with probability at most ``beta``."""
        failure = rational(beta, "beta", above=0, maximum=1)
        return least_from(lambda t: self.tail(t + 1).hi <= failure, 0)

    def reach_of_sum(self, cells: int, beta: float) -> int:
        """The sizes of so many independent noises sum to more than this with probability at most ``beta``.

        If their sum exceeds ``k t``, one of ``k`` sizes exceeds ``t``.
        """
        return cells * self.reach(Fraction(math.nextafter(beta, 0.0)) / cells)
