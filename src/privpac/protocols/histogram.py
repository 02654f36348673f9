"""A histogram without a trusted curator: everybody sends one value and a little noise through a shuffler.

Every person sends the bucket of one of their values (one that nobody else's data decide; the last bucket if they have
none) and, for every bucket, ``NB(r/n, p)`` noise messages (:mod:`privpac.device.randomizers`).  After the shuffle only
counts are left, each with ``NB(r, p)`` noise in all, whose mean is taken off.

**Guarantee.**  ``(epsilon, delta)`` under *replace*, in the shuffle model, with ``n_min`` honest people: a replaced
person moves one message from a bucket to another and all other buckets stay, so the loss is that of two buckets
whatever their number, and ``delta`` is its exact hockey-stick divergence, enclosed by balls
(:func:`privpac.protocols.calibrate.calibrate`).  What more people than ``n_min`` add is post-processing.  Here all
runs in one process, which draws the sum of everybody's noise at once: the law of the counts is the same, a sum of
``NB(s, p)`` being ``NB(n s, p)``.  Nothing is promised under add-remove: who leaves takes noise along.

**Accuracy.**  The noise of a bucket has the variance ``r p/(1-p)**2``, whatever the number of people and of buckets:
a standard deviation of 8.2 people at (1, 1e-6), where a trusted curator's noise has 2.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import field, frozen

from privpac.data import Domain
from privpac.device.randomizers import MAX_BUCKETS, ShuffleSelection, check_total, sample_total
from privpac.distributions.base import BoundUsers, Sum
from privpac.distributions.histogram import ColumnMasses, published
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.guarantee import Guarantee, Model, Neighbours
from privpac.methods.base import count_users
from privpac.parameters import named, probability, whole_or_none
from privpac.protocols.calibrate import ShuffleNoise, calibrate

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.distributions.cells import Partition
    from privpac.rng import Rng


@frozen(slots=False, field_transformer=named)
class ShuffleHistogram(ColumnMasses):
    """A histogram of one column from one message of each person, in the shuffle model.

    Parameters
    ----------
    delta : number
        How often the promise may fail (public).
    n_min : int, optional
        Honest people at least (public); all of them unless declared.

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[0], [1], [1]] * 300, features={"x": Integers(0, 1)}, labelled=False)
    >>> found = ShuffleHistogram(1, delta="1e-6", neighbours="replace").learn(people)
    >>> bool(found.value.probabilities[1] > 0.5), found.guarantee.summary
    (True, '(1, 1e-06)-DP per user, replace, shuffle model')
    """

    delta: Fraction = field(kw_only=True, converter=probability)
    n_min: int | None = field(default=None, kw_only=True, converter=whole_or_none)

    named: ClassVar[str] = "shuffle histogram"

    def __attrs_post_init__(self) -> None:
        if self.neighbours is not Neighbours.REPLACE:
            raise ParameterError(
                "a shuffle histogram is proved for neighbours='replace': under add-remove a person who leaves takes "
                "noise along"
            )
        self.calibrated  # noqa: B018  # out of reach is said here

    @cached_property
    def calibrated(self) -> ShuffleNoise:
        """The noise of a bucket."""
        return calibrate(self.epsilon, self.delta)

    @property
    def guarantee(self) -> Guarantee:
        how = ("one message of every person among shuffled noise; delta is the exact divergence of two buckets",)
        return Guarantee(
            self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, model=Model.SHUFFLE, derivation=how
        )

    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        noise = f"NB({float(self.calibrated.r):.4g}, {float(self.calibrated.p):.4g})"
        return {"every person counts": "one value", "noise per bucket": noise}

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        if len(domains) != 1:
            raise ParameterError(f"a shuffle histogram is of one column: name it; there are {', '.join(domains)}")
        super().check_domains(domains)
        ((name, domain),) = domains.items()
        cells = self.cells_of(name, domain, True).size
        if cells >= MAX_BUCKETS:
            raise TooLargeError(f"column {name!r} has {cells} cells, more than {MAX_BUCKETS - 1}; give bins=[...]")

    def bind(self, data: Users) -> BoundUsers:
        users, domains = self.bind_users(data)
        present = count_users(users)  # public under replace
        least = self.n_min or 0
        if present < least:
            raise InfeasibleError(f"{present} people take part, fewer than the {least} whose noise the promise needs")
        check_total(self._noise_shape(present), self.calibrated.p)  # far more people than n_min make too much noise
        return BoundUsers(users.max_records(1), domains, plan=present)

    def protocol(self, cells: int, people: int) -> ShuffleSelection:
        """What every device runs: ``protocol(k, n).messages(value, rng)``."""
        noise = self.calibrated
        return ShuffleSelection(cells, noise.r, noise.p, self.n_min or people, 1 << 20)

    def _noise_shape(self, people: int) -> Fraction:
        """Of the noise of a bucket to which so many people add their shares; of nobody, what one would add."""
        return self.calibrated.r * max(1, people) / (self.n_min or max(1, people))

    def _weights(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> tuple[int, ...]:
        counts = users.fold(
            Sum((cells.size,), lambda part: np.bincount(cells.index(part), minlength=cells.size).astype(np.int64))
        )
        shape, p = self._noise_shape(count_users(users)), self.calibrated.p
        mean = shape * p / (1 - p)
        noisy = [count + sample_total(shape, p, rng) for count in counts.tolist()]
        return published([max(0, value * mean.denominator - mean.numerator) for value in noisy])
