"""Stated models of people, on which a prediction runs when no public table is at hand.

The standard model of any class of rules: x uniform on the declared domains, one rule of the class is right, and every
label is wrong with probability ``noise``, independently.  What varies is the rule and how the truth is known:

* **Cut-offs** (``layout`` "cuts"): the middle of the (first) column.  The excess error of a cut is a piecewise
  linear function of its id, so that the domain may have 2**64 codes.
* **Points** (``layout`` "values"): on a uniform x every point but one says 0 almost everywhere and all rules are good,
  so half of the records are at the right point and the others uniform elsewhere.
* **Any other class** of at most ``MAX_RULES`` rules: the rule nearest to saying 1 on half of the points, among
  ``TRIED`` of them.  The domain is listed where it has at most ``LISTED`` points; else x is uniform on as many points
  drawn once with a public seed, and the model's name says so.  Classes that can be ``coarsened`` (intervals) stand on a
  grid of ``GRID`` values.

Nothing here reads data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.data import Domain, Integers, Texts, UserData
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.law.blocks import BlockLaw
from privpac.planning.comparison.population import MOST_PARTS, Floats64, Population, users_from_codes

__all__ = [
    "DEFAULT_NOISE",
    "Formula",
    "ListedModel",
    "UniformCuts",
    "domains_of",
    "formula",
    "listed_model",
    "mean_distance",
    "sizes_of",
    "standard_population",
    "with_domains",
]

DEFAULT_NOISE = Fraction(1, 5)
"""Label noise of a stated model where none is declared."""

MAX_RULES = 1 << 15
LISTED = 1 << 10
TRIED = 1 << 10
GRID = 128
UNDECLARED = Integers(0, (1 << 20) - 1)
"""The domain of a class that has none yet."""

SHOWN_RECORDS = 1 << 12
"""Records of the public sample on which predictors that are no rules of the class are compared."""

MAX_RECORDS = 1 << 20


def standard_population(
    concept: ConceptClass, *, records_per_user: int, noise: Rational = "0.2", seed: int = 0
) -> Population | None:
    """The standard model of a class (see the module); None where a profile of the class is not affordable.

    >>> from privpac.concepts import Thresholds
    >>> print(standard_population(Thresholds(Integers(0, 2**64 - 1)), records_per_user=16, noise="0.1").name)
    x uniform on 2^64 values, right cut in the middle, label noise 1/10, 16 records per user
    """
    if not isinstance(concept, ConceptClass):
        raise TypeError(
            f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got {type(concept).__name__}"
        )
    m = positive_int(records_per_user, "records_per_user", maximum=MAX_RECORDS)
    wrong = rational(noise, "noise", minimum=0, below="1/2")
    start = positive_int(seed, "seed", minimum=0)
    bound = with_domains(concept)
    if bound is None:
        return None
    rest = f"label noise {wrong}"
    if bound.layout == "cuts":
        return _holding(m, _cuts(bound, m, float(wrong), rest))
    if bound.layout == "values":
        return _holding(m, _point(bound, m, float(wrong), rest))
    model = listed_model(bound, wrong, start)
    if model is None:
        return None
    law = f"x uniform on {model.what}, one rule right, label noise {model.noise}"
    return _holding(m, Population(law, model.users([(model.right, 1)]), model.concept, m))


def _holding(m: int, people: Population) -> Population:
    """People of a law with ``m`` records each."""
    return replace(people, name=f"{people.name}, {m} records per user", law=people.name)


def with_domains(concept: ConceptClass) -> ConceptClass | None:
    """The class on named columns with domains; None if it needs columns and has none."""
    declared = concept.declared()
    if len(declared) == 1:
        ((name, domain),) = declared.items()
        if domain is None and concept.cut_direction is None:
            return None
        return concept.with_columns({name or "x": domain or UNDECLARED})
    domains = {name: domain for name, domain in declared.items() if name is not None and domain is not None}
    return concept.with_columns(domains) if declared and len(domains) == len(declared) else None


def domains_of(concept: ConceptClass) -> dict[str, Domain]:
    return {name: domain for name, domain in concept.declared().items() if name is not None and domain is not None}


def _uniform(rng: np.random.Generator, size: int, count: int) -> NDArray[np.uint64]:
    """Uniform codes of a domain of up to 2**64 values."""
    return rng.integers(0, size - 1, count, dtype=np.uint64, endpoint=True)


def _flipped(right: NDArray[Any], noise: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    return (right.astype(bool) ^ (rng.random(len(right)) < noise)).astype(np.uint8)


# Models whose excess error is a formula


@dataclass(frozen=True, eq=False, repr=False)
class Formula(Population):
    """Data sets of independent records; ``users`` is a public sample, the excess error of rules of the class does not
    come from it."""

    noise: float = 0.2

    def _codes(self, count: int, rng: np.random.Generator) -> dict[str, NDArray[np.uint64]]:
        """The columns of so many records."""
        raise NotImplementedError

    def _right(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[Any]:
        return self.concept.predictions(codes, self.best)

    def draw(self, n_users: int, rng: np.random.Generator) -> UserData:
        assert self.records_per_user is not None
        codes = self._codes(n_users * self.records_per_user, rng)
        labels = _flipped(self._right(codes), self.noise, rng)
        return users_from_codes(np.full(n_users, self.records_per_user), codes, labels, domains_of(self.concept))

    def _disagreement(self, first: int, lows: Floats64, counts: Floats64) -> Floats64:
        """How often the rules of blocks disagree with the right one, in the mean over a block; ids start at ``first +
        lows``."""
        raise NotImplementedError

    def expected_excess(self, law: BlockLaw) -> float:
        assert law.lows is not None
        counts = law.span.astype(np.float64) + 1
        for i, count in law.big.items():
            counts[i] = count
        weight = counts * np.exp(-float(law.eta or 0) * (law.score - law.best))
        ends = [first for first, _ in law.segments[1:]] + [len(law)]
        parts = [
            self._disagreement(offset % self.concept.size, law.lows[first:end].astype(np.float64), counts[first:end])
            for (first, offset), end in zip(law.segments, ends)
        ]
        return float(np.sum(weight * np.concatenate(parts)) / weight.sum()) * (1 - 2 * self.noise)

    def excess_of(self, hypothesis: int) -> float:
        return float(self._disagreement(hypothesis, np.zeros(1), np.ones(1))[0]) * (1 - 2 * self.noise)

    def excess_of_answers(self, said: Floats64) -> float:
        """Over the points of the sample, whose labels do not matter."""
        apart = np.abs(said - self._right(self.points))
        return float(apart @ self.costs.sum(axis=0)) * (1 - 2 * self.noise)

    @property
    def best_error(self) -> float:
        return self.noise

    @property
    def _below(self) -> float:
        """The share of one of the two labels, without noise."""
        raise NotImplementedError

    @property
    def constant_error(self) -> float:
        return self.noise + (1 - 2 * self.noise) * min(self._below, 1 - self._below)

    def shown(self) -> Population:
        """The same model with a public sample as its users."""
        people = replace(self, records_per_user=1).draw(SHOWN_RECORDS, np.random.default_rng(0))
        return replace(self, users=people)


@dataclass(frozen=True, eq=False, repr=False)
class UniformCuts(Formula):
    """x uniform; the right rule cuts the first column in the middle."""

    @property
    def best(self) -> int:
        return next(iter(domains_of(self.concept).values())).size // 2

    def _codes(self, count: int, rng: np.random.Generator) -> dict[str, NDArray[np.uint64]]:
        return {name: _uniform(rng, domain.size, count) for name, domain in domains_of(self.concept).items()}

    def _disagreement(self, first: int, lows: Floats64, counts: Floats64) -> Floats64:
        domains, directions = list(domains_of(self.concept).values()), self.concept.directions
        column = 0
        while first >= len(directions) * (domains[column].size + 1):
            first -= len(directions) * (domains[column].size + 1)
            column += 1
        n = domains[column].size
        direction, cut = divmod(first, n + 1)
        low = lows + float(cut)
        if column == 0:
            far = self._far(low, counts)
            return far if direction == 0 else 1 - far
        # Independent columns: 1 on a share of the points, the right rule on another.
        below = (low + (counts - 1) / 2) / n
        ones = 1 - below if directions[direction] == "above" else below
        right = 1 - self._below if directions[0] == "above" else self._below
        return ones * (1 - right) + (1 - ones) * right

    @property
    def _below(self) -> float:
        """The part of x below the right cut."""
        return self.best / next(iter(domains_of(self.concept).values())).size

    def _far(self, low: Floats64, counts: Floats64) -> Floats64:
        """Disagreement of cuts of the first column, in the direction of the right one."""
        return mean_distance(low - self.best, counts) / next(iter(domains_of(self.concept).values())).size


def mean_distance(first: Floats64, counts: Floats64) -> Floats64:
    """The mean of ``|u|`` over ``first .. first + count - 1``."""
    a, b = -first, first + counts - 1
    across = (a > 0) & (b > 0)
    return np.where(across, (a * (a + 1) + b * (b + 1)) / (2 * counts), np.abs(b - a) / 2)


def sizes_of(concept: ConceptClass) -> str:
    """How many values each column may take; large powers of two as such."""
    sizes = [domain.size for domain in domains_of(concept).values()]
    return " x ".join(f"2^{n.bit_length() - 1}" if n >= 1 << 20 and not n & (n - 1) else str(n) for n in sizes)


def _cuts(concept: ConceptClass, m: int, noise: float, rest: str) -> Population:
    sizes = sizes_of(concept)
    where = "" if concept.cut_direction is not None else " of the first column"
    name = f"x uniform on {sizes} values, right cut in the middle{where}, {rest}"
    return formula(UniformCuts, name, concept, m, noise)


@dataclass(frozen=True, eq=False, repr=False)
class OnePointModel(Formula):
    """Half of the records at the right point, the others uniform elsewhere."""

    @property
    def _values(self) -> int:
        return next(iter(domains_of(self.concept).values())).size

    @property
    def best(self) -> int:
        return self._values // 2

    @property
    def _below(self) -> float:
        return 0.5 if self._values > 1 else 0.0

    def _codes(self, count: int, rng: np.random.Generator) -> dict[str, NDArray[np.uint64]]:
        ((name, domain),) = domains_of(self.concept).items()
        here = np.full(count, self.best, dtype=np.uint64)
        if domain.size == 1:
            return {name: here}
        elsewhere = _uniform(rng, domain.size - 1, count)
        elsewhere += elsewhere >= np.uint64(self.best)
        return {name: np.where(rng.random(count) < 0.5, here, elsewhere)}

    def _disagreement(self, first: int, lows: Floats64, counts: Floats64) -> Floats64:
        n = self._values
        if first >= n:
            return np.full(len(lows), 0.5 if n > 1 else 1.0)
        if n == 1:
            return np.zeros(len(lows))
        wrong = 0.5 + 0.5 / (n - 1)
        low = lows + float(first)
        inside = (low <= self.best) & (self.best < low + counts)
        return wrong * (1 - inside / counts)


def _point(concept: ConceptClass, m: int, noise: float, rest: str) -> Population:
    n = next(iter(domains_of(concept).values())).size
    return formula(
        OnePointModel,
        f"half of the records at the right one of {n} values, the others uniform, {rest}",
        concept,
        m,
        noise,
    )


def formula(model: type[Formula], name: str, concept: ConceptClass, m: int, noise: float) -> Population:
    nobody = users_from_codes(
        np.zeros(0, np.int64),
        {c: np.zeros(0, np.uint64) for c in domains_of(concept)},
        np.zeros(0, np.uint8),
        domains_of(concept),
    )
    return model(name, nobody, concept, m, noise).shown()


# Models whose truth is a table


@dataclass(frozen=True, eq=False)
class ListedModel:
    """Points that are equally likely, and what the right rule says there."""

    concept: ConceptClass
    codes: Mapping[str, NDArray[np.uint64]]
    noise: Fraction
    what: str

    @property
    def tried(self) -> list[int]:
        """Evenly spaced rules."""
        ids: list[int] = np.unique(
            np.linspace(0, self.concept.size - 1, min(TRIED, self.concept.size)).astype(np.int64)
        ).tolist()
        return ids

    def says(self, hypothesis: int) -> NDArray[np.bool_]:
        return self.concept.predictions(self.codes, hypothesis).astype(bool)

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """The first of the tried rules whose share of ones is nearest to a half."""
        return self.says(min(self.tried, key=lambda h: (abs(float(self.says(h).mean()) - 0.5), h)))

    def users(self, rules: Sequence[tuple[NDArray[np.bool_], int]]) -> UserData:
        """The truth: one user for each point, with the labels of some rules, each so many times, and a part of them
        wrong."""
        parts, count = self.noise.denominator, len(self.right)
        turned = np.arange(parts) < self.noise.numerator
        labels = np.concatenate(
            [(right[:, None] ^ turned)[:, np.tile(np.arange(parts), times)] for right, times in rules], axis=1
        )
        columns = {name: np.repeat(values, labels.shape[1]) for name, values in self.codes.items()}
        return users_from_codes(np.full(count, labels.shape[1]), columns, labels.ravel(), domains_of(self.concept))


def listed_model(concept: ConceptClass, noise: Fraction, seed: int) -> ListedModel | None:
    """Uniform points for a class with domains; None if it has more than ``MAX_RULES`` rules, or reads texts of any
    kind."""
    on = ""
    if any(isinstance(domain, Texts) for domain in domains_of(concept).values()):
        return None
    coarse = concept.coarsened(GRID)
    if coarse != concept:
        on = f" (a grid in {sizes_of(concept)})"
        concept = coarse
    if concept.size > MAX_RULES:
        return None
    codes, drawn = _points(domains_of(concept), seed)
    near = noise.limit_denominator(MOST_PARTS)  # the truth holds the wrong labels, so their share has few parts
    flips = near if near < Fraction(1, 2) else Fraction(MOST_PARTS // 2 - 1, MOST_PARTS)
    return ListedModel(
        concept, codes, flips, f"{len(next(iter(codes.values())))} points{on}{', drawn once' if drawn else ''}"
    )


def _points(domains: Mapping[str, Domain], seed: int) -> tuple[dict[str, NDArray[np.uint64]], bool]:
    """All points of the domains, or ``LISTED`` uniform ones."""
    total = prod(domain.size for domain in domains.values())
    if total > LISTED:
        rng = np.random.default_rng(seed)
        return {name: _uniform(rng, domain.size, LISTED) for name, domain in domains.items()}, True
    left, out = np.arange(total), {}
    for name, domain in domains.items():
        left, code = np.divmod(left, domain.size)
        out[name] = code.astype(np.uint64)
    return out, False
