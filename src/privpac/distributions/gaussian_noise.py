"""Averaged histograms with Gaussian noise: for many columns at once, where a delta pays.

The sums are those of :mod:`privpac.distributions.averaged`: a person's shares of the cells of a column, non-negative
integers that add up to ``L``.

**Guarantee.** ``(epsilon, delta)`` per user. A column's vector moves by at most ``L**2`` in squared Euclidean norm for
a person who comes or leaves (non-negative numbers with sum ``L``), and by ``2 L**2`` for one who is replaced (two such
vectors, whose product is not negative). Discrete Gaussian noise of ``sigma2 = d s/(2 rho)`` on each of ``d`` columns is
``rho/d``-zCDP, together ``rho``; ``rho`` is the largest multiple of ``2**-30`` whose optimal conversion stays within
``(epsilon, delta)``.

**When it pays.**  The noise of a cell grows with the square root of the number of columns instead of the number itself:
at ``(1, 1e-6)`` from about ten columns on.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from privpac.composition import zcdp_epsilon
from privpac.distributions.averaged import AveragedHistogram, averaged_sums
from privpac.distributions.base import Sum
from privpac.distributions.masses import published
from privpac.errors import InfeasibleError
from privpac.guarantee import Guarantee
from privpac.least import last_between
from privpac.mechanisms.gaussian import DiscreteGaussian
from privpac.parameters import named, probability

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.distributions.cells import Partition
    from privpac.rng import Rng

__all__ = ["GaussianHistogram"]

_STEP = 1 << 30


@frozen(slots=False, field_transformer=named)
class GaussianHistogram(AveragedHistogram):
    """An averaged histogram for each of many columns, with discrete Gaussian noise.

    Parameters
    ----------
    delta : number
        How often the promise may fail (public).

    >>> many = GaussianHistogram(1, delta="1e-6")
    >>> many.guarantee.summary, many.variance(20) < AveragedHistogram(1).variance(20)
    ('(1, 1e-06)-DP per user, add-remove', True)
    """

    delta: Fraction = field(kw_only=True, converter=probability)

    named: ClassVar[str] = "averaged histogram, DiscreteGaussian noise"

    def __attrs_post_init__(self) -> None:
        self.rho  # noqa: B018  # a delta too small for any noise is refused here

    @cached_property
    def rho(self) -> Fraction:
        """The zCDP parameter of everything released."""

        def fits(steps: int) -> bool:
            return zcdp_epsilon(Fraction(steps, _STEP), self.delta, "optimal") <= self.epsilon

        low, high = 0, _STEP
        while fits(high):
            low, high = high, 2 * high
        steps = last_between(fits, low, high)
        if steps == 0:
            raise InfeasibleError("no DiscreteGaussian noise reaches so small an epsilon and delta; use a larger one")
        return Fraction(steps, _STEP)

    @property
    def guarantee(self) -> Guarantee:
        how = ("discrete Gaussian noise on the users' own shares; columns share rho equally",)
        return Guarantee(
            self.epsilon,
            self.delta,
            unit=self.unit,
            neighbours=self.neighbours,
            rho=self.rho,
            derivation=how,
        )

    def noise(self, columns: int) -> DiscreteGaussian:
        """The noise of one of so many columns."""
        return DiscreteGaussian(
            self.rho / columns,
            self.factor * self.levels**2,
            delta=self.delta,
            unit=self.unit,
            neighbours=self.neighbours,
        )

    def variance(self, columns: int) -> float:
        """Of the noise of one cell, in steps."""
        return float(self.noise(columns).sigma2)

    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        return super()._public(sizes) | {"noise": "discrete Gaussian", "rho": self.rho}

    def _weights(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> tuple[int, ...]:
        sums = users.fold(Sum((cells.size,), lambda part: averaged_sums(part, cells, self.levels)))
        noise = self.noise(int(self.epsilon / epsilon))
        return published([max(0, value) for value in noise.sample_vector(sums.tolist(), rng)])
