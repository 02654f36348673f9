"""A public cap on records per user, bought with a little of the budget.

Learners need public numbers (a cap, a clip) and must never read them off the data.  ``private_cap`` releases a number
of records such that about the share ``quantile = a/b`` of the users hold no more: the exponential law over a public
grid with the integer score ``|b * #{users with at most g records} - a * #users|``.

**Guarantee.**  ``(epsilon, 0)`` per user.  One user more moves the inner difference by ``b - a`` or ``-a``, so every
score moves by at most ``max(a, b - a)`` either way; a replaced user moves it by ``b`` at most and the number of users
not at all.  The changes of two scores differ by at most twice that: ``rho = 2 max(a, b - a)`` under add-remove, ``2 b``
under replace.  What is then learned with the cap composes with it: ``epsilon_cap + epsilon_learner``.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from attrs import field, frozen

from privpac.arrays import Ints
from privpac.errors import IncompatibleGuarantees, ParameterError
from privpac.exact import Rational
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law import Law
from privpac.methods.base import Learner
from privpac.parameters import bounds, fraction, named, protected_unit, relation
from privpac.result import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import UserData, Users
    from privpac.ledger import LedgerLike

DEFAULT_GRID = tuple(1 << k for k in range(21))
"""1, 2, 4 … 2**20 records."""

_MAX_DENOMINATOR = 1 << 20
_MAX_CAP = 1 << 40


@frozen(slots=False)
class _AtMost:
    """How many users hold at most so many records, for every cap of the grid; and how many users there are."""

    grid: tuple[int, ...]

    def zero(self) -> Ints:
        return np.zeros(len(self.grid) + 1, dtype=np.int64)

    def chunk(self, users: UserData) -> Ints:
        first = np.searchsorted(np.array(self.grid, dtype=np.int64), users.sizes)
        return np.cumsum(np.bincount(first, minlength=len(self.grid) + 1))

    def merge(self, a: Ints, b: Ints) -> Ints:
        return a + b


def _read_grid(grid: Iterable[int]) -> tuple[int, ...]:
    if isinstance(grid, (str, bytes)) or not isinstance(grid, Iterable):
        raise TypeError(f"grid must list caps such as 1, 2, 4, 8, got {type(grid).__name__}")
    caps = tuple(positive_int(cap, "a cap of the grid", maximum=_MAX_CAP) for cap in grid)
    if not caps or any(a >= b for a, b in pairwise(caps)):
        raise ParameterError("grid must list one or more caps in increasing order")
    return caps


@frozen(slots=False, field_transformer=named)
class CapSelection(Learner):
    """The learner behind :func:`private_cap`.

    Parameters
    ----------
    epsilon : number
        The privacy parameter.
    quantile : number
        The share of users whose records all count (public); default 9/10.
    grid : iterable of int
        The caps to choose from, increasing (public).
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    unit : {"user", "item"}
        Whose data are protected.

    >>> from privpac.data import UserData
    >>> people = UserData.from_users([[(1, 0)] * 3] * 200 + [[(1, 1)] * 50] * 5)
    >>> cap = CapSelection(epsilon=1)
    >>> cap.law(people).mode, cap.range_sensitivity, str(cap.guarantee)
    (4, 18, '(1, 0)-DP per user, add-remove')
    """

    epsilon: Fraction = field(converter=fraction, metadata=bounds(minimum=0))
    quantile: Fraction = field(default=Fraction(9, 10), converter=fraction, metadata=bounds(above=0, maximum=1))
    grid: tuple[int, ...] = field(default=DEFAULT_GRID, converter=_read_grid)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)

    def __attrs_post_init__(self) -> None:
        if self.quantile.denominator > _MAX_DENOMINATOR:
            raise ParameterError(
                f"quantile must be a simple fraction (denominator at most {_MAX_DENOMINATOR}), such as 9/10"
            )

    @property
    def range_sensitivity(self) -> int:
        a, b = self.quantile.as_integer_ratio()
        return 2 * max(a, b - a) if self.neighbours is Neighbours.ADD_REMOVE else 2 * b

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 8)

    def scores(self, data: Users) -> Ints:
        """One integer per cap of the grid, minimised (private)."""
        a, b = self.quantile.as_integer_ratio()
        counts = data.fold(_AtMost(self.grid))
        return np.asarray(np.abs(b * counts[:-1] - a * counts[-1]), dtype=np.int64)

    def law(self, data: Users) -> Law:
        """The law over the caps of the grid (private)."""
        grid = list(self.grid)
        return Law.from_blocks(grid, grid, self.scores(self.bind(data)), self.epsilon / self.range_sensitivity)

    def bind(self, data: Users) -> Users:
        if data.unit != self.unit:
            raise IncompatibleGuarantees(
                f"the cap is for records per {self.unit} but the data are grouped per {data.unit}; name the user "
                "column in UserData"
            )
        return data

    def shown_as(self, bound: Users, value: object) -> tuple[str, str] | None:
        return "released", str(value)

    def draw(self, bound: Users, rng: Rng) -> Released:
        shown: dict[str, object] = {"quantile": self.quantile, "grid": self.grid}
        return Released(int(self.law(bound).sample(rng)), self.guarantee, parameters=shown, learner="private cap")


def private_cap(
    data: Users,
    *,
    epsilon: Rational,
    quantile: Rational = Fraction(9, 10),
    grid: Iterable[int] = DEFAULT_GRID,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    rng: Rng | None = None,
    ledger: LedgerLike | None = None,
) -> Released:
    """A number of records that about the share ``quantile`` of the users do not exceed; ``.value`` is the cap.

    **Guarantees.**  ``(epsilon, 0)``-DP per user; add what is spent on the learner that uses the cap.

    Parameters
    ----------
    data
        The people (private); their unit must be the user.
    epsilon
        What the cap costs (public).
    quantile
        The share of people who should not exceed it (public), a simple fraction.
    grid
        The caps to choose from (public).
    neighbours
        Which datasets must be hard to tell apart: ``"add-remove"`` or ``"replace"``.
    rng
        Where randomness comes from; the system unless given, for tests.
    ledger
        The budget that pays.

    Returns
    -------
    Released
        ``value`` is the cap, one of ``grid``.

    Raises
    ------
    ParameterError, SchemaError
        Before anything is spent.

    Examples
    --------
    >>> from privpac.data import UserData
    >>> people = UserData.from_users([[(1, 0)] * 3] * 200 + [[(1, 1)] * 50] * 5)
    >>> private_cap(people, epsilon=1).value in DEFAULT_GRID
    True
    """
    return CapSelection(epsilon, quantile, grid, neighbours).learn(data, rng=rng, ledger=ledger)
