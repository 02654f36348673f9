"""The shape of the distribution learners: which columns they read, whom they protect, what may be said about accuracy.

Users' records are read through public partitions and public numbers only.  Under add-remove the number of users is
private, so a statement about accuracy needs a declared lower bound (``public_n_users``).
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import Domain
from privpac.errors import AccuracyWarning, IncompatibleGuarantees, ParameterError, SchemaError, did_you_mean
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.methods.base import Learner, count_users
from privpac.parameters import (
    bounds,
    columns_or_none,
    fraction,
    fraction_or_none,
    named,
    protected_unit,
    relation,
    whole_or_none,
)

if TYPE_CHECKING:
    from privpac.data import UserData, Users

# Families of distributions that can be learned: public declarations, nothing from data.
#
# ``Discrete`` is every mass function on a column's declared values, ``Independent`` every product of such, ``Gaussian``
# normal laws whose means and variances lie in declared ranges.


@frozen(slots=False)
class Discrete:
    """All mass functions on the values of one column."""


@frozen(slots=False)
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


@frozen(slots=False, repr=False)
class BoundUsers:
    """Users bound to the columns a learner reads, and the warnings computed from public numbers."""

    users: Users
    features: Mapping[str, Domain]
    warnings: tuple[str, ...] = ()
    plan: Any = None


@frozen(slots=False)
class Sum:
    """A kernel whose value is an array summed over users."""

    shape: tuple[int, ...]
    compute: Callable[[UserData], NDArray[np.int64]]

    def zero(self) -> NDArray[np.int64]:
        return np.zeros(self.shape, np.int64)

    def chunk(self, users: UserData) -> NDArray[np.int64]:
        return self.compute(users)

    def merge(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        return a + b


class Spending(Learner):
    """A learner that spends an epsilon; each declares it where it belongs among its parameters."""

    epsilon: Fraction


@frozen(slots=False, field_transformer=named)
class DistributionLearner(Spending):
    """What the learners of distributions share.  All parameters are public.

    Parameters
    ----------
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    unit : {"user", "item"}
        Whose data are protected.
    max_records : int, optional
        How many records of a user are read at most.
    features : str or several, optional
        The columns; default: all.
    """

    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, kw_only=True, converter=relation)
    unit: Unit = field(default=Unit.USER, kw_only=True, converter=protected_unit)
    max_records: int | None = field(
        default=None, kw_only=True, converter=whole_or_none, metadata=bounds(maximum=1 << 31)
    )
    features: tuple[str, ...] | None = field(default=None, kw_only=True, converter=columns_or_none)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours)

    @property
    def factor(self) -> int:
        """How many users' contributions a neighbouring dataset changes: 1 under add-remove, 2 under replace."""
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else 2

    @property
    def cap(self) -> int | None:
        """The public bound on a unit's records: one at item level, else the declared cap."""
        return 1 if self.unit is Unit.ITEM else self.max_records

    # Binding

    def bind_users(self, data: Users) -> tuple[Users, dict[str, Domain]]:
        """Schema checks; the users with at most ``max_records`` records each, and the columns with their domains."""
        if data.unit != self.unit:
            raise IncompatibleGuarantees(
                f"the learner promises privacy per {self.unit} but the data are grouped per {data.unit}; "
                "name the user column when building UserData, or set unit='item' on purpose"
            )
        names: Sequence[str] = tuple(data.features) if self.features is None else self.features
        unknown = [name for name in names if name not in data.features]
        if unknown:
            near = did_you_mean(unknown[0], data.features)
            raise SchemaError(f"columns {unknown} are not among the features {list(data.features)}{near}") from None
        domains = {name: data.features[name] for name in names}
        without = [name for name, domain in domains.items() if domain is None]
        if without:
            raise ParameterError(f"columns {without} have no domain: declare one in UserData, such as Integers(0, 100)")
        bound = {name: domain for name, domain in domains.items() if domain is not None}
        self.check_domains(bound)
        return (data if self.max_records is None else data.max_records(self.max_records)), bound

    def bind(self, data: Users) -> BoundUsers:
        return BoundUsers(*self.bind_users(data))

    @abstractmethod
    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        """Refuse columns this learner cannot read; sees declarations only."""

    # Accuracy, from public numbers

    def public_users(self, data: Users, declared: int | None) -> int | None:
        """The number of users accuracy may be judged by: declared, or the public number under replace."""
        if declared is not None:
            return declared
        return count_users(data) if self.neighbours is Neighbours.REPLACE else None


def warn_accuracy(message: str) -> str:
    """Raise an ``AccuracyWarning`` and hand its text on to the result."""
    warnings.warn(message, AccuracyWarning, stacklevel=4)
    return message
