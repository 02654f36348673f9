"""What may be declared about people before their data are seen, and the model behind each declaration.

* ``"alike"``: one rule is right for everybody, up to noise in the labels: the standard model of the class.
* ``"differ"``: who a person is matters more than x.  Three people in four keep one label whatever x is, half of them 0
  and half 1; the others are as in the standard model.  Together the former cost every rule the same, so the best rule
  stays the best.
* ``"heavy"``: people with many records follow another rule than the others.  Numbers of records are spread evenly on a
  log scale from an eighth of the declared number to eight times as many; the third with more than twice the declared
  number follow the other rule.  Cut-offs: the cuts are a quarter of the range of x apart.  Other classes: the first
  rule found that disagrees at a quarter of the points or more.

In all of them x is uniform and a label is wrong with probability ``noise``.  Users weigh the same, whatever their
number of records.

Why it matters: a clipped score amplifies a user with m records up to sqrt(m) times, so that with few users heavy people
outvote the others; and people who keep one label pull a clipped score to "always" and "never".  The per-user mean does
neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.data import UserData
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.law.blocks import BlockLaw
from privpac.planning.comparison.population import Floats64, Population, users_from_codes
from privpac.planning.models.standard_models import (
    DEFAULT_NOISE,
    MAX_RECORDS,
    ListedModel,
    UniformCuts,
    domains_of,
    formula,
    listed_model,
    mean_distance,
    sizes_of,
    standard_population,
    with_domains,
)

__all__ = ["ABOUT_USERS", "declared_population", "read_users"]

ABOUT_USERS = {
    "alike": "one rule is right for everybody, up to noise in the labels",
    "differ": "who a person is matters more than x: most keep one label",
    "heavy": "people with many records follow another rule than the others",
}

STEADY = Fraction(3, 4)
"""Part of the people who keep one label, if people differ."""

SIZE_SPREAD, HEAVY_FROM = 8, 2
HEAVY_SHARE = (1 - log(HEAVY_FROM) / log(SIZE_SPREAD)) / 2
APART = 0.25
"""How far the two rules are apart: part of the range of x, or of the points."""


def read_users(users: object) -> str:
    """A declaration by its name."""
    if not isinstance(users, str) or users not in ABOUT_USERS:
        known = "; ".join(f"{name!r} ({about})" for name, about in ABOUT_USERS.items())
        raise ParameterError(f"people must be one of {known}; got {users!r}")
    return users


def declared_population(
    users: str, concept: ConceptClass, *, records_per_user: int, noise: Rational = DEFAULT_NOISE
) -> Population | None:
    """The model behind a declaration; None where there is none for this class.

    >>> from privpac.data import Integers
    >>> from privpac.concepts import Thresholds
    >>> declared_population("heavy", Thresholds(Integers(0, 99)), records_per_user=8, noise="0.1").name.split("; ")[0]
    'people with 1 to 64 records, those above 16 with a cut a quarter of the range higher'
    """
    known = read_users(users)
    if known == "heavy":
        return _heavy(concept, records_per_user, noise)
    people = standard_population(concept, records_per_user=records_per_user, noise=noise)
    if known == "alike" or people is None:
        return people
    wrong = float(rational(noise, "noise", minimum=0, below="1/2"))
    name, law = (f"{STEADY} of the people keep one label, the others: {text}" for text in (people.name, people.law))
    return DifferingPeople(name, people.users, people.concept, people.records_per_user, people, wrong, law=law)


# Who a person is matters more than x


@dataclass(frozen=True, eq=False, repr=False)
class DifferingPeople(Population):
    """Some people of another model keep one label instead.

    Where a rule says 1 it is right for those who keep 1 and wrong for those who keep 0: together they cost every rule a
    half.
    """

    others: Population | None = None
    noise: float = 0.2

    @property
    def _others(self) -> Population:
        assert self.others is not None
        return self.others

    def draw(self, n_users: int, rng: np.random.Generator) -> UserData:
        data = self._others.draw(n_users, rng)
        assert data.labels is not None
        steady, says = rng.random(n_users) < float(STEADY), rng.random(n_users) < 0.5
        kept = np.repeat(says, data.sizes) ^ (rng.random(data.n_records) < self.noise)
        labels = np.where(np.repeat(steady, data.sizes), kept, data.labels)
        return users_from_codes(data.sizes, data.codes, labels, data.features)

    def expected_excess(self, law: BlockLaw) -> float:
        return float(1 - STEADY) * self._others.expected_excess(law)

    def excess_of(self, hypothesis: int) -> float:
        return float(1 - STEADY) * self._others.excess_of(hypothesis)

    @property
    def best(self) -> int:
        return self._others.best

    @property
    def best_error(self) -> float:
        return float(STEADY) / 2 + float(1 - STEADY) * self._others.best_error

    @property
    def constant_error(self) -> float:
        return float(STEADY) / 2 + float(1 - STEADY) * self._others.constant_error


# People with many records follow another rule


def _heavy(concept: ConceptClass, records_per_user: int, noise: Rational) -> Population | None:
    m = positive_int(records_per_user, "records_per_user", maximum=MAX_RECORDS)
    wrong = rational(noise, "noise", minimum=0, below="1/2")
    bound = with_domains(concept)
    if bound is None or bound.layout == "values":
        return None
    text = f"people with {max(1, m // SIZE_SPREAD)} to {SIZE_SPREAD * m} records, those above {HEAVY_FROM * m} with"
    if bound.layout == "cuts":
        name = f"{text} a cut a quarter of the range higher; x uniform on {sizes_of(bound)} values, label noise {wrong}"
        return formula(HeavyCuts, name, bound, m, float(wrong))
    model = listed_model(bound, wrong, seed=0)
    return (
        None
        if model is None
        else _heavy_listed(model, f"{text} another rule; x uniform on {model.what}, label noise {model.noise}", m)
    )


def _sizes(m: int, n_users: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Numbers of records, and who is heavy."""
    place = rng.random(n_users)
    sizes = np.maximum(1, np.rint(m * np.exp(log(SIZE_SPREAD) * (2 * place - 1)))).astype(np.int64)
    return sizes, place > 1 - HEAVY_SHARE


@dataclass(frozen=True, eq=False, repr=False)
class HeavyCuts(UniformCuts):
    """Two cuts on the first column, around its middle; the lower one is right for most."""

    @property
    def _cuts(self) -> tuple[int, int]:
        n = next(iter(domains_of(self.concept).values())).size
        return n // 2 - int(n * APART / 2), n // 2 + int(n * APART / 2)

    @property
    def best(self) -> int:
        return self._cuts[0]

    @property
    def best_error(self) -> float:
        return self.noise + (1 - 2 * self.noise) * self._least

    @property
    def _least(self) -> float:
        """How often the best cut is not one's own."""
        low, high = self._cuts
        return HEAVY_SHARE * (high - low) / next(iter(domains_of(self.concept).values())).size

    @property
    def _below(self) -> float:
        low, high = self._cuts
        return ((1 - HEAVY_SHARE) * low + HEAVY_SHARE * high) / next(iter(domains_of(self.concept).values())).size

    def draw(self, n_users: int, rng: np.random.Generator) -> UserData:
        assert self.records_per_user is not None
        sizes, heavy = _sizes(self.records_per_user, n_users, rng)
        codes = self._codes(int(sizes.sum()), rng)
        cuts = np.where(heavy, np.uint64(self._cuts[1]), np.uint64(self._cuts[0]))
        over = codes[next(iter(codes))] >= np.repeat(cuts, sizes)
        right = over if self.concept.directions[0] == "above" else ~over
        return users_from_codes(sizes, codes, right ^ (rng.random(len(right)) < self.noise), domains_of(self.concept))

    def _far(self, low: Floats64, counts: Floats64) -> Floats64:
        shares = (1 - HEAVY_SHARE, HEAVY_SHARE)
        total = sum(share * mean_distance(low - cut, counts) for share, cut in zip(shares, self._cuts))
        return np.asarray(total / next(iter(domains_of(self.concept).values())).size)

    def _disagreement(self, first: int, lows: Floats64, counts: Floats64) -> Floats64:
        return super()._disagreement(first, lows, counts) - self._least


@dataclass(frozen=True, eq=False, repr=False)
class HeavyListed(Population):
    """Two rules on listed points; ``users`` hold every point with the labels of both in their shares."""

    model: ListedModel | None = None
    other: NDArray[np.bool_] | None = None

    def draw(self, n_users: int, rng: np.random.Generator) -> UserData:
        assert self.model is not None
        assert self.other is not None
        assert self.records_per_user is not None
        sizes, heavy = _sizes(self.records_per_user, n_users, rng)
        rows = rng.integers(0, len(self.other), int(sizes.sum()))
        right = np.where(np.repeat(heavy, sizes), self.other[rows], self.model.right[rows])
        labels = right ^ (rng.random(len(rows)) < float(self.model.noise))
        codes = {name: values[rows] for name, values in self.model.codes.items()}
        return users_from_codes(sizes, codes, labels, domains_of(self.concept))

    def largest(self) -> int | None:
        return None


def _heavy_listed(model: ListedModel, name: str, m: int) -> Population | None:
    ids = (h for h in model.tried if float(np.mean(model.says(h) != model.right)) >= APART)
    second = next(ids, None)
    if second is None:
        return None
    other = model.says(second)
    shares = Fraction(HEAVY_SHARE).limit_denominator(SIZE_SPREAD)
    copies = [(model.right, shares.denominator - shares.numerator), (other, shares.numerator)]
    return HeavyListed(name, model.users(copies), model.concept, m, model, other)
