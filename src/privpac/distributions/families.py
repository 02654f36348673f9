"""Families of distributions that can be learned: public declarations, nothing from data.

``Discrete`` is every mass function on a column's declared values, ``Independent`` every product of such, ``Gaussian``
normal laws whose means and variances lie in declared ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from attrs import field, frozen

from privpac.errors import ParameterError
from privpac.parameters import bounds, fraction, fraction_or_none, named

__all__ = ["Discrete", "Family", "Gaussian", "Independent", "read_family"]


@dataclass(frozen=True)
class Discrete:
    """All mass functions on the values of one column."""


@dataclass(frozen=True)
class Independent:
    """All products of mass functions, one for each column."""


@frozen(slots=False, field_transformer=named)
class Gaussian:
    """Normal laws with mean within ``radius`` of 0 (Euclidean) and the known ``variance`` in every direction.

    With ``max_variance`` the covariance is unknown, its eigenvalues between ``variance`` and ``max_variance``.
    """

    radius: Fraction = field(converter=fraction, metadata=bounds(above=0, maximum=10**12))
    variance: Fraction = field(
        default=Fraction(1), converter=fraction, metadata=bounds(above=Fraction(1, 10**12), maximum=10**12)
    )
    max_variance: Fraction | None = field(default=None, converter=fraction_or_none, metadata=bounds(maximum=10**12))

    def __attrs_post_init__(self) -> None:
        top = self.max_variance
        if top is not None and top <= self.variance:
            raise ParameterError(
                f"max_variance must exceed variance = {self.variance}, got {top}; leave it out for a known variance"
            )

    @property
    def ratio(self) -> Fraction:
        """The largest variance in units of the smallest."""
        return (self.variance if self.max_variance is None else self.max_variance) / self.variance


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
