"""Stable histograms: the mass function of a column whose values nobody can list (words, codes, addresses).

Every person adds their own distribution over the ``max_values`` values they hold most often, in ``levels`` steps
(:mod:`privpac.distributions.vocabulary.shares`); the sums go through :class:`~privpac.mechanisms.StableWeights` with
7/8 of epsilon and all of delta, and the number of people who hold any value gets noise with the rest.

**Guarantee.**  ``(epsilon, delta)`` per user, both relations: a person's contribution is what ``StableWeights`` asks
for, whatever the records are, and one person moves the number of people by at most 1 under either relation. A value
that one person alone holds is shown with probability at most ``delta``, all such values of that person together.

**Accuracy.**  What is learned is the mean of the people's own distributions, cut to ``max_values`` values each. A
value appears if about ``threshold/levels`` people hold nothing else: 17.6 of them at (1, 1e-6). Certificate:
:func:`privpac.bounds.vocabulary.certify_vocabulary`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from attrs import field, frozen

from privpac.bounds.vocabulary import COUNT_SHARE, MAX_VALUES
from privpac.data import Domain, Texts
from privpac.distributions.base import BoundUsers, DistributionLearner
from privpac.distributions.vocabulary.result import VocabularyDistribution
from privpac.distributions.vocabulary.shares import HeldShares
from privpac.errors import ParameterError
from privpac.guarantee import Guarantee
from privpac.law.base import Law
from privpac.mechanisms.laplace import Laplace, discrete_laplace
from privpac.mechanisms.stable_weights import MAX_LEVELS, StableWeights
from privpac.parameters import COUNT_LEVELS, bounds, named, privacy, probability, whole
from privpac.released import Released

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.distributions.vocabulary.shares import Held
    from privpac.rng import Rng

__all__ = ["VocabularyHistogram"]


@frozen(slots=False, field_transformer=named)
class VocabularyHistogram(DistributionLearner):
    """A mass function of one column of any domain, ``Texts()`` included; values that few people hold are not shown.

    Parameters
    ----------
    epsilon : number
        The privacy parameter.
    delta : number
        How often a value that one person alone holds may be shown (public).
    max_values : int
        How many values of one person count at most, those the person holds most often (public).
    levels : int
        The steps of a person's contribution (public).

    >>> from privpac.data import Texts, UserData
    >>> people = UserData.from_users([["tea"], ["tea", "mate"], ["tea"]] * 400, features={"word": Texts()},
    ...     labelled=False)
    >>> drinks = VocabularyHistogram(1, delta="1e-6").learn(people).hypothesis
    >>> [round(p, 1) for p in drinks.pmf(["tea", "mate", "milk"]).tolist()]
    [0.8, 0.2, 0.0]
    """

    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(kw_only=True, converter=probability)
    max_values: int = field(default=MAX_VALUES, kw_only=True, converter=whole, metadata=bounds(maximum=1 << 16))
    levels: int = field(default=COUNT_LEVELS, kw_only=True, converter=whole, metadata=bounds(maximum=MAX_LEVELS))

    named: ClassVar[str] = "stable histogram"

    def __attrs_post_init__(self) -> None:
        if self.features is not None and len(self.features) != 1:
            raise ParameterError(f"a stable histogram is of one column, got {len(self.features)}")
        self.stable  # noqa: B018  # out of reach is said here

    @cached_property
    def stable(self) -> StableWeights:
        """The mechanism of the weights."""
        return StableWeights(
            (1 - COUNT_SHARE) * self.epsilon,
            self.delta,
            levels=self.levels,
            values=min(self.max_values, self.levels)
            if self.cap is None
            else min(self.max_values, self.levels, self.cap),
            unit=self.unit,
            neighbours=self.neighbours,
        )

    @property
    def counting(self) -> Fraction:
        """What the number of people costs."""
        return COUNT_SHARE * self.epsilon

    @property
    def guarantee(self) -> Guarantee:
        how = (
            "noisy sums of the users' own shares, shown from a threshold on that one user's values pass with "
            "probability at most delta, and a noisy number of users",
        )
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, derivation=how)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        if len(domains) != 1:
            raise ParameterError(f"a stable histogram is of one column: name it; there are {', '.join(domains)}")

    def bind(self, data: Users) -> BoundUsers:
        return BoundUsers(*self.bind_users(data))

    def _held(self, bound: BoundUsers) -> Held:
        ((name, domain),) = bound.features.items()
        kernel = HeldShares(name, self.levels, self.stable.values, isinstance(domain, Texts))
        return bound.users.fold(kernel)

    def law(self, data: Users, *, most: int, people: tuple[int, int]) -> Law:
        """The exact law of everything released (curator only): the number of people clamped to ``people``, then the
        values shown with weights up to ``most``."""
        held = self._held(self.bind(data))
        keys = held.codes.tolist() if held.texts is None else held.texts
        weights = self.stable.law(dict(zip(keys, held.weights.tolist())), most)
        count = Laplace(self.counting, 1, unit=self.unit, neighbours=self.neighbours).law(held.people, bounds=people)
        return weights.bind(lambda shown: count.map(lambda number: (shown, number)))

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        ((name, domain),) = bound.features.items()
        held = self._held(bound)
        places, noisy = self.stable.sample(held.weights, rng)
        people = held.people + discrete_laplace(self.counting, rng)
        values = held.codes[places].tolist() if held.texts is None else [held.texts[at] for at in places.tolist()]
        found = VocabularyDistribution(name, domain, values, noisy, self.levels, max(0, people))
        shown = {
            "every person counts": "alike",
            "max_values": self.max_values,
            "shown from": f"{self.stable.threshold / self.levels:.4g} people on",
            "levels": self.levels,
        } | ({} if self.cap is None else {"max_records": self.cap})
        return Released(found, self.guarantee, shown, learner=self.named)
