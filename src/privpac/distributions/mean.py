"""Means of columns on declared ranges, every person counting alike: noise for the range, and no delta.

A person's mean of a column becomes one of the steps ``0..L`` of its range; ``2 step - L``, in ``-L..L``, is summed over
the people who have records, and the sum is released with discrete Laplace noise.

**Guarantee.**  ``(epsilon, 0)`` per user.  Somebody who comes or leaves moves every sum by at most ``L`` and the number
of people by 1: three quarters of epsilon, shared by the ``d`` columns, buy the sums (rate ``3 e/(4 d L)``), one quarter
the number (rate ``e/4``). Somebody who is replaced moves a sum by at most ``2 L``; who has no records counts 0, and the
number of people is public: all of epsilon buys the sums (rate ``e/(2 d L)``).

Where people agree among themselves, trimmed and friendly means (:mod:`privpac.methods.means`) need less
noise, a delta, and may answer nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from attrs import field, frozen

from privpac.arrays import Ints
from privpac.data import Domain, UserData
from privpac.distributions.base import BoundUsers, DistributionLearner, Sum
from privpac.errors import ParameterError
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.mechanisms.laplace import discrete_laplace
from privpac.methods.base import ITEM_LEVEL, count_users
from privpac.methods.means import MAX_MEAN_LEVELS, MeanVector, user_steps
from privpac.parameters import bounds, named, privacy, whole
from privpac.result import Released

if TYPE_CHECKING:
    from privpac.rng import Rng

SUM_SHARE = Fraction(3, 4)


@frozen(slots=False, field_transformer=named)
class AveragedMean(DistributionLearner):
    """The mean over people of their own means, for every column.

    Parameters
    ----------
    epsilon : number
        The privacy parameter, for all columns together.
    levels : int
        Steps in which a person's mean is counted (public); default 4096.

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[20, 40], [50]] * 900, features={"age": Integers(0, 99)}, labelled=False)
    >>> 35 < AveragedMean(1).learn(people).value["age"] < 45
    True
    """

    epsilon: Fraction = field(converter=privacy)
    levels: int = field(default=4096, kw_only=True, converter=whole, metadata=bounds(maximum=MAX_MEAN_LEVELS))

    @property
    def guarantee(self) -> Guarantee:
        how = ("noisy sums of the people's own means, and their noisy number; columns share the budget equally",)
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, derivation=how)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        strange = [name for name, domain in domains.items() if not domain.stepped]
        if strange:
            raise ParameterError(f"a mean needs numbers on a declared range (Integers, Grid); {strange[0]!r} has none")

    def rates(self, columns: int) -> tuple[Fraction, Fraction | None]:
        """Rates of the noise on a column's sum and on the number of people (None: it is public)."""
        part = self.epsilon / columns
        if self.neighbours is Neighbours.REPLACE:
            return part / (2 * self.levels), None
        return SUM_SHARE * part / self.levels, (1 - SUM_SHARE) * self.epsilon

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        names = tuple(bound.features)
        sizes = {name: domain.size for name, domain in bound.features.items()}
        rate, counting = self.rates(len(names))

        def sums(users: UserData) -> Ints:
            filled = users.sizes > 0
            steps = np.stack([user_steps(users, name, sizes[name], self.levels) for name in names])
            # In -levels..levels for everybody: this line is the bound on a person's influence.
            return np.append((2 * steps[:, filled] - self.levels).sum(axis=1), np.count_nonzero(filled))

        *totals, filled = bound.users.fold(Sum((len(names) + 1,), sums)).tolist()
        n = count_users(bound.users) if counting is None else filled + discrete_laplace(counting, rng)
        values = []
        for name, total in zip(names, totals):
            middle = Fraction(total + discrete_laplace(rate, rng), max(1, n))
            share = min(max((middle + self.levels) / (2 * self.levels), Fraction(0)), Fraction(1))
            low, high = bound.features[name].ends
            # Numbers with a public bound on their digits, so that nothing can fail after the spend.
            short = Fraction(round(share * (1 << 40)), 1 << 40)
            values.append(low + short * (high - low))
        shown = {"every person counts": "alike", "levels": self.levels}
        warned = (ITEM_LEVEL,) if self.unit is Unit.ITEM else ()
        return Released(
            MeanVector(names, tuple(values)), self.guarantee, shown, warnings=warned, learner="averaged mean"
        )
