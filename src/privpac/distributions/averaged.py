"""Averaged histograms: every person adds their own distribution, so no cap on records has to be known.

A person with ``c_j`` of ``m`` records in cell ``j`` adds ``v_j = floor(L C_j / m) - floor(L C_{j-1} / m)`` to cell
``j``, ``C`` the counts up to it: ``L`` times their own shares, rounded to integers.  The sums get discrete Laplace
noise and are cut off at 0 and normalised.

**Guarantee.**  ``(epsilon, 0)`` per user, with noise of rate ``epsilon/(f L)``, ``f = 1`` under add-remove, 2 under
replace.  ``C`` grows, so no ``v_j`` is negative, and they sum to ``floor(L m/m) - 0 = L`` whatever the records are (to
0 without any): a user who comes or leaves moves the sums by ``L`` in L1, one who is replaced by at most ``2 L``.
Columns share the budget equally (basic composition).

**Accuracy.**  What is learned is the mean of the people's own distributions: everybody counts alike, however many
records they hold, where :class:`~privpac.distributions.ClippedHistogram` counts records up to its cap.  If people are
alike, or hold equally many records, both are the same distribution.  Each ``v_j / L`` is within ``1/L`` of the person's
share; privacy costs about ``k / (eps n)`` in total variation (certificate:
:func:`privpac.bounds.counts.certify_averages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import UserData
from privpac.data.jit import jit
from privpac.distributions.base import Sum
from privpac.distributions.cells import Partition
from privpac.distributions.masses import ColumnMasses, published
from privpac.guarantee import Guarantee
from privpac.mechanisms.laplace import discrete_laplace
from privpac.parameters import COUNT_LEVELS, bounds, named, whole

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.rng import Rng

__all__ = ["AveragedHistogram", "ColumnByColumn", "averaged_sums"]

Ints = NDArray[np.int64]
MAX_LEVELS = 1 << 30
"""Times 2**31 records, or 2**32 users, this is below 2**62."""


@jit
def _sums(offsets: Ints, cells: Ints, size: int, levels: int) -> Ints:
    out = np.zeros(size, np.int64)
    for user in range(offsets.size - 1):
        held = np.sort(cells[offsets[user] : offsets[user + 1]])
        told = 0
        for i in range(held.size):
            if i + 1 == held.size or held[i + 1] != held[i]:
                # What is told of a user telescopes to ``levels``: this line is the bound on their influence.
                upto = levels * (i + 1) // held.size
                out[held[i]] += upto - told
                told = upto
    return out


def averaged_sums(users: UserData, cells: Partition, levels: int) -> Ints:
    """The sum over users of ``levels`` times their own shares of every cell."""
    return _sums(users.offsets, np.asarray(cells.index(users), np.int64), cells.size, levels)


@frozen(slots=False, field_transformer=named)
class AveragedHistogram(ColumnMasses):
    """A mass function (or histogram, with ``bins``) for each column, in which every person counts alike.

    ``max_records`` may be left out.  Values outside the outermost ``bins`` edges fall into the end bins.

    Parameters
    ----------
    levels : int
        ``L``, the steps of a person's contribution (public).

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[0] * 999, [1], [1, 1]] * 400, features={"x": Integers(0, 1)}, labelled=False)
    >>> [round(p, 1) for p in map(float, AveragedHistogram(1).learn(people).hypothesis.probabilities)]
    [0.3, 0.7]
    """

    levels: int = field(default=COUNT_LEVELS, kw_only=True, converter=whole, metadata=bounds(maximum=MAX_LEVELS))

    named: ClassVar[str] = "averaged histogram"

    @property
    def guarantee(self) -> Guarantee:
        how = (
            "noisy sums of the users' own shares, which add up to the same for everybody; columns share the budget "
            "equally",
        )
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, derivation=how)

    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        return {"every person counts": "alike", "levels": self.levels} | (
            {} if self.cap is None else {"max_records": self.cap}
        )

    def variance(self, columns: int) -> float:
        """Of the noise of one cell of one of so many columns, in steps: at most ``2/eta**2``."""
        return 2 * float(self.factor * self.levels * columns / self.epsilon) ** 2

    def _weights(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> tuple[int, ...]:
        sums = users.fold(Sum((cells.size,), lambda part: averaged_sums(part, cells, self.levels)))
        eta = epsilon / (self.factor * self.levels)
        return published([max(0, value + discrete_laplace(eta, rng)) for value in sums.tolist()])


@frozen(slots=False, field_transformer=named)
class ColumnByColumn(AveragedHistogram):
    """Independent columns of any number and size: one averaged histogram each, and what that means is said.

    Columns are released one by one with equal parts of epsilon, so it is their product that is learned: what hangs
    together between columns is not.

    Parameters
    ----------
    because : str
        Why this way was taken, for the result.
    """

    because: str = field(default="asked for", kw_only=True)

    named: ClassVar[str] = "averaged histograms, column by column"

    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        return super()._public(sizes) | {"columns": "one by one, as if independent", "chosen because": self.because}
