"""Stable histograms: the mass function of a column whose values nobody can list (words, codes, addresses).

Every person adds their own distribution over the ``max_values`` values they hold most often, in ``levels`` steps
(:mod:`privpac.distributions.vocabulary`); the sums go through :class:`~privpac.mechanisms.StableWeights` with
7/8 of epsilon and all of delta, and the number of people who hold any value gets noise with the rest.

**Guarantee.**  ``(epsilon, delta)`` per user, both relations: a person's contribution is what ``StableWeights`` asks
for, whatever the records are, and one person moves the number of people by at most 1 under either relation. A value
that one person alone holds is shown with probability at most ``delta``, all such values of that person together.

**Accuracy.**  What is learned is the mean of the people's own distributions, cut to ``max_values`` values each. A
value appears if about ``threshold/levels`` people hold nothing else: 17.6 of them at (1, 1e-6). Certificate:
:func:`privpac.distributions.vocabulary.certify_vocabulary`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl
from attrs import field, frozen

from privpac.arrays import Codes, Ints
from privpac.bisection import least
from privpac.data import Domain, UserData
from privpac.data.grouping import ranked
from privpac.data.loops import jit
from privpac.distributions.base import BoundUsers
from privpac.distributions.cells import Partition
from privpac.distributions.histogram import Contribution, Histogram, NoiseKind, with_cap
from privpac.distributions.results import VocabularyDistribution
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.law.blocks import Law
from privpac.mechanisms.laplace import Laplace, discrete_laplace
from privpac.mechanisms.noise import Change, Noise
from privpac.mechanisms.stable_weights import MAX_WEIGHT_LEVELS, StableWeights
from privpac.parameters import COUNT_LEVELS, Composed, bounds, named, part, probability, whole
from privpac.sample_size import LIMIT, SLACK, Certificate, open_unit, positive, relation

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.rng import Rng

# Users that a stable histogram over an open vocabulary needs: every value's share at once, listed or not.
#
# People are independent and alike or not, each with at least one record and at most ``max_values`` values; ``w`` is the
# mean of their own distributions.  What is shown of a value is its noisy weight over the noisy number of people, and 0
# if it is not shown.
#
# *Luck.*  ``n`` people's shares of all values are independent vectors in the simplex, so the largest deviation ``D`` of
# a mean share from ``w`` has mean at most ``sqrt(sum of variances) <= 1/sqrt(n)`` and moves by at most ``1/n`` with one
# person (McDiarmid): ``D <= (1 + sqrt(ln(1/b)/2))/sqrt(n)`` but for ``b``, however many values there are.
#
# *Noise.*  At most ``n max_values`` values are held, so all noises of weights are at most ``t = ln(2 n
# max_values/b)/eta`` but for ``b``, and the noise of the number of people is at most ``c = ln(2/b)/(epsilon/8)``.
#
# A value that is shown is off by at most ``D + 1/L + (t/L + c)/(n - c)``; one that is not weighs less than ``threshold
# + t``, so its share is at most ``(threshold + t)/(n L) + D + 1/L``.  Both fall with ``n >= 2``.


MAX_VOCABULARY = 8
"""Values of one person that count, unless declared."""
_COUNT_SHARE = Fraction(1, 8)
"""Of epsilon, for the number of people."""


def certify_vocabulary(
    threshold: int,
    *,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    max_values: int = MAX_VOCABULARY,
    levels: int = COUNT_LEVELS,
) -> Certificate:
    """Users for which all shares are within ``alpha`` with probability ``1 - beta``, those not shown counting as 0.

    ``threshold`` is that of the learner, in steps; it grows with ``1/delta``.

    >>> certify_vocabulary(16 << 20, epsilon=1, alpha="0.05", beta="0.05").n_users
    4287
    """
    steps, values = positive_int(levels, "levels"), positive_int(max_values, "max_values")
    target, failure = open_unit(alpha, "alpha"), float(rational(beta, "beta", minimum="1e-9", below=1))
    eps, least_shown = positive(epsilon, "epsilon"), positive_int(threshold, "threshold") / steps
    moved = 1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2
    eta = (1 - float(_COUNT_SHARE)) * eps / moved  # per person: weights in units of a person
    sampling = 1 + math.sqrt(math.log(2 / failure) / 2)  # half of beta
    count = (math.log(8 / failure) / (float(_COUNT_SHARE) * eps)) + 1  # a quarter

    def enough(n: int) -> bool:
        if n <= count:
            return False
        noise = math.log(8 * n * values / failure) / eta + 1 / steps  # a quarter
        off = max((noise + count) / (n - count), (least_shown + noise) / n)
        return (sampling / math.sqrt(n) + 1 / steps + off) * (1 + SLACK) <= target

    found = least(enough, start=2, limit=LIMIT)
    assumption = (
        f"people drawn independently, alike or not, each with at least one record and at most {values} different "
        "values; the mean of their own distributions is learned"
    )
    return Certificate.upper(found, "stable histogram", assumption).run_with(max_values=values, levels=steps)


# What people hold, value by value: a kernel over columns of any domain, open vocabularies included.
#
# A person's shares are those of :mod:`privpac.distributions.histogram`, of the ``values`` values that this person holds
# most often (of equals the first in order): non-negative integers that add up to ``levels``, whatever the records are.
# Values are told apart by their codes, or by their texts where codes mean something inside one table only; their order
# is that of the codes or texts, so every engine and every order of rows gives the same.


@frozen(slots=False, eq=False)
class Held:
    """Values in order, the weight of each, and how many people hold any.  ``texts`` are None where codes are values."""

    codes: Codes
    texts: list[str] | None
    weights: Ints
    people: int


@jit
def _sums(offsets: Ints, ranks: Ints, size: int, levels: int, values: int) -> Ints:
    out = np.zeros(size, np.int64)
    for user in range(offsets.size - 1):
        held = np.sort(ranks[offsets[user] : offsets[user + 1]])
        if held.size == 0:
            continue
        distinct = 1
        for i in range(1, held.size):
            if held[i] != held[i - 1]:
                distinct += 1
        value, count = np.empty(distinct, np.int64), np.zeros(distinct, np.int64)
        at = -1
        for i in range(held.size):
            if i == 0 or held[i] != held[i - 1]:
                at += 1
                value[at] = held[i]
            count[at] += 1
        if distinct > values:
            dropped = np.argsort(-count, kind="mergesort")[values:]
            count[dropped] = 0
        total, upto, told = count.sum(), 0, 0
        for i in range(distinct):
            # What is told of a person telescopes to ``levels``, over at most ``values`` values: this is the bound on
            # their influence.
            upto += count[i]
            next_told = levels * upto // total
            out[value[i]] += next_told - told
            told = next_told
    return out


@frozen(slots=False)
class HeldShares:
    """The kernel: how much weight of all people lies on each value of a column."""

    column: str
    levels: int
    values: int
    open: bool

    def zero(self) -> Held:
        return Held(np.empty(0, np.uint64), [] if self.open else None, np.empty(0, np.int64), 0)

    def chunk(self, users: UserData) -> Held:
        codes = users.codes[self.column]
        vocabulary = users.vocabulary(self.column)
        people = int(np.count_nonzero(users.sizes))
        if vocabulary is None:
            distinct, ranks = ranked(codes)
            weights = self._weights(users, ranks, distinct.size)
            kept = np.flatnonzero(weights)
            return Held(distinct[kept].astype(np.uint64), None, weights[kept], people)
        order = vocabulary.arg_sort().to_numpy()
        rank = np.empty(len(vocabulary), np.int64)
        rank[order] = np.arange(len(vocabulary))
        weights = self._weights(users, rank[codes.astype(np.int64)], len(vocabulary))
        kept = np.flatnonzero(weights)
        return Held(np.empty(0, np.uint64), vocabulary.gather(order[kept]).to_list(), weights[kept], people)

    def _weights(self, users: UserData, ranks: Ints | Codes, size: int) -> Ints:
        return _sums(users.offsets, np.asarray(ranks, np.int64), size, self.levels, self.values)

    def merge(self, a: Held, b: Held) -> Held:
        if self.open:
            texts = pl.Series("k", [*(a.texts or []), *(b.texts or [])], dtype=pl.String)
            frame = pl.DataFrame({"k": texts, "w": np.concatenate([a.weights, b.weights])})
            both = frame.group_by("k").agg(pl.col("w").sum()).sort("k")
            return Held(a.codes, both["k"].to_list(), both["w"].to_numpy().astype(np.int64), a.people + b.people)
        distinct, places = np.unique(np.concatenate([a.codes, b.codes]), return_inverse=True)
        sums = np.zeros(distinct.size, np.int64)
        np.add.at(sums, places, np.concatenate([a.weights, b.weights]))
        return Held(distinct.astype(np.uint64), None, sums, a.people + b.people)


@frozen(slots=False, field_transformer=named)
class HeldValues(Contribution):
    """A person's own distribution over the values they hold most often, of a column of any domain.

    Parameters
    ----------
    max_values : int
        How many values of one person count at most, those the person holds most often (public).
    levels : int
        The steps of a person's contribution (public).
    """

    max_values: int = field(default=MAX_VOCABULARY, kw_only=True, converter=whole, metadata=bounds(maximum=1 << 16))
    levels: int = field(default=COUNT_LEVELS, kw_only=True, converter=whole, metadata=bounds(maximum=MAX_WEIGHT_LEVELS))

    title: ClassVar[str] = "stable histogram"
    counts_people: ClassVar[Fraction] = _COUNT_SHARE

    def check(self, histogram: Histogram) -> None:
        if histogram.features is not None and len(histogram.features) != 1:
            raise ParameterError(f"a stable histogram is of one column, got {len(histogram.features)}")
        if histogram.bins is not None:
            raise ParameterError("a stable histogram is of values, not of bins")
        self.noise(histogram)  # out of reach is said here

    def noise(self, histogram: Histogram) -> StableWeights:
        stable = histogram.alone
        if not isinstance(stable, StableWeights):
            raise ParameterError("values that nobody can list need StableWeights: noise and a threshold")
        return stable

    def change(self, histogram: Histogram) -> Change:
        values = min(self.max_values, self.levels)
        return Change(self.levels, histogram.factor, values if histogram.cap is None else min(values, histogram.cap))

    def sums(self, users: UserData, cells: Partition) -> Ints:
        raise NotImplementedError("the values are not listed")

    def held(self, histogram: Histogram, bound: BoundUsers) -> Held:
        """All values that anybody holds, with the people's weights (curator only)."""
        ((name, domain),) = bound.features.items()
        kernel = HeldShares(name, self.levels, self.noise(histogram).values, domain.open)
        return bound.users.fold(kernel)

    def sizes(self, histogram: Histogram, domains: Mapping[str, Domain]) -> dict[str, int]:
        if len(domains) != 1:
            raise ParameterError(f"a stable histogram is of one column: name it; there are {', '.join(domains)}")
        return {}

    def column(self, histogram: Histogram, bound: BoundUsers, name: str, rng: Rng) -> VocabularyDistribution:
        held = self.held(histogram, bound)
        places, noisy = self.noise(histogram).sample(held.weights, rng)
        people = held.people + discrete_laplace(self.counts_people * histogram.epsilon, rng)
        values = held.codes[places].tolist() if held.texts is None else [held.texts[at] for at in places.tolist()]
        return VocabularyDistribution(name, bound.features[name], values, noisy, self.levels, max(0, people))

    def how(self, noise: Noise | StableWeights) -> str:
        return (
            "noisy sums of the users' own shares, shown from a threshold on that one user's values pass with "
            "probability at most delta, and a noisy number of users"
        )

    def public(self, histogram: Histogram, sizes: Mapping[str, int]) -> dict[str, object]:
        shown_from = f"{self.noise(histogram).threshold / self.levels:.4g} people on"
        public = {"every person counts": "alike", "max_values": self.max_values, "shown from": shown_from}
        return with_cap(histogram, public | {"levels": self.levels})


@frozen(slots=False, init=False, field_transformer=named)
class VocabularyHistogram(Composed, Histogram):
    """A mass function of one column of any domain, ``Texts()`` included; values that few people hold are not shown.

    Parameters
    ----------
    delta : number
        How often a value that one person alone holds may be shown (public).
    contribution : HeldValues
        Given by its own parameters ``max_values`` and ``levels``.

    >>> from privpac.data import Texts, UserData
    >>> people = UserData.from_users([["tea"], ["tea", "mate"], ["tea"]] * 400, features={"word": Texts()},
    ...     labelled=False)
    >>> drinks = VocabularyHistogram(1, delta="1e-6").learn(people).value
    >>> [round(p, 1) for p in drinks.pmf(["tea", "mate", "milk"]).tolist()]
    [0.8, 0.2, 0.0]
    """

    delta: Fraction = field(kw_only=True, converter=probability)
    noise: NoiseKind = field(default=StableWeights, init=False)
    bins: None = field(default=None, init=False)
    contribution: HeldValues = part(HeldValues)

    @property
    def stable(self) -> StableWeights:
        """The mechanism of the weights."""
        return self.contribution.noise(self)

    @property
    def counting(self) -> Fraction:
        """What the number of people costs."""
        return _COUNT_SHARE * self.epsilon

    def law(self, data: Users, *, most: int, people: tuple[int, int]) -> Law:
        """The exact law of everything released (curator only): the number of people clamped to ``people``, then the
        values shown with weights up to ``most``."""
        held = self.contribution.held(self, self.bind(data))
        keys = held.codes.tolist() if held.texts is None else held.texts
        weights = self.stable.law(dict(zip(keys, held.weights.tolist())), most)
        count = Laplace(self.counting, 1, unit=self.unit, neighbours=self.neighbours).law(held.people, bounds=people)
        return weights.bind(lambda shown: count.map(lambda number: (shown, number)))
