"""Families of distributions that can be learned: public declarations, nothing from data.

``Discrete`` is every mass function on a column's declared values, ``Independent`` every product of such, ``Gaussian``
normal laws whose means and variances lie in declared ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privpac.errors import ParameterError
from privpac.exact import Rational, rational

__all__ = ["Discrete", "Family", "Gaussian", "Independent", "read_family"]


@dataclass(frozen=True)
class Discrete:
    """All mass functions on the values of one column."""


@dataclass(frozen=True)
class Independent:
    """All products of mass functions, one for each column."""


@dataclass(frozen=True)
class Gaussian:
    """Normal laws with mean within ``radius`` of 0 (Euclidean) and the known ``variance`` in every direction.

    With ``max_variance`` the covariance is unknown, its eigenvalues between ``variance`` and ``max_variance``.
    """

    radius: Rational
    variance: Rational = Fraction(1)
    max_variance: Rational | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "radius", rational(self.radius, "radius", above=0, maximum=10**12))
        put(self, "variance", rational(self.variance, "variance", above=Fraction(1, 10**12), maximum=10**12))
        if self.max_variance is not None:
            top = rational(self.max_variance, "max_variance", maximum=10**12)
            if top <= self.variance:  # type: ignore[operator]
                raise ParameterError(
                    f"max_variance must exceed variance = {self.variance}, got {top}; leave it out for a known variance"
                )
            put(self, "max_variance", top)

    @property
    def ratio(self) -> Fraction:
        """The largest variance in units of the smallest."""
        return rational(self.variance if self.max_variance is None else self.max_variance) / rational(self.variance)


Family = Discrete | Independent | Gaussian


def read_family(family: object) -> Family:
    """A family, or the name of one that needs no further declaration."""
    if isinstance(family, (Discrete, Independent, Gaussian)):
        return family
    if not isinstance(family, str):
        raise TypeError(f"family must be 'discrete', 'product' or a Gaussian(...), got {type(family).__name__}")
    if family == "gaussian":
        raise ParameterError(
            "family 'gaussian' needs public ranges: pass Gaussian(radius=...) or Gaussian(radius=..., max_variance=...)"
        )
    if family not in ("discrete", "product"):
        raise ParameterError(f"family must be 'discrete', 'product' or a Gaussian(...), got {family[:40]!r}")
    return Discrete() if family == "discrete" else Independent()
