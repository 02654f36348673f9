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

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import log, prod
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Floats64
from privpac.data import Domain, Integers, UserData
from privpac.data.schema import OnInvalid
from privpac.errors import ParameterError
from privpac.exact import Rational, positive_int, rational
from privpac.guarantee import Unit
from privpac.law.blocks import BlockLaw
from privpac.rules.base import ConceptClass
from privpac.rules.cuts import Thresholds
from privpac.rules.profile import Mean, Profile

# People whose records are public or made up, and what every rule costs on them.
#
# A comparison needs the truth: the error of a rule over *all* users of a public table, each user weighing the same, or
# over the law of a stated model.  Both are a :class:`Population`: users in memory, a class of rules bound to their
# columns, and a way to draw data sets. Models of one's own come in as a function that draws users
# (:func:`sampled_population`), with a large public sample as the truth.
#
# A public table is its own truth: a data set is a draw of its users without replacement (all of them: the table
# itself). The stated model of cut-offs is the planner's: x uniform on ``values`` codes, the best cut in the middle,
# every label wrong with probability ``noise``; users hold independent records.  Its truth is held exactly, as one user
# for each x whose records have the model's labels.
#
# Nothing here is private: errors and best rules are functions of the records.


STEPS = 1 << 24
"""Steps of one user's error: rounding stays below 1e-7."""

_MOST_PARTS = 200
"""The largest denominator of the label noise of a generated population."""

TRUTH_USERS = 4096
"""Users of the public sample that stands for the truth of a model given as a function."""

DENSE = 1 << 20
"""Classes of at most this many rules have their excess errors listed rule by rule."""

_EXACT = 1 << 61

Draw = Callable[[int, np.random.Generator], UserData]
"""Draws a data set of so many users."""


@frozen(slots=False, eq=False, repr=False)
class Population:
    """Users with records, a class of rules over their columns, and a name."""

    name: str
    users: UserData
    concept: ConceptClass
    records_per_user: int | None = None
    """None: data sets are drawn users; a number: data sets are made of this many independent records per user."""
    law: str = field(default="", kw_only=True)
    """The name without the number of records, where that is part of it."""

    @property
    def for_any_records(self) -> str:
        """The name of these people in a table whose columns say how many records they hold."""
        return f"{self.law}, as many records per user as the column says" if self.law else self.name

    # Truth

    @cached_property
    def _errors(self) -> tuple[Array, Floats64]:
        """First ids of blocks of rules, and the excess error of the rules of a block."""
        profile: Profile = self.concept.profile(self.users, Mean(STEPS))
        blocks = profile.blocks()
        starts = _ids([first for first, _, _ in blocks], self.concept.size)
        scores = np.array([score for _, _, score in blocks], dtype=np.float64)
        return starts, (scores - scores.min()) / (STEPS * self.users.n_users)

    @cached_property
    def _summed(self) -> Floats64:
        """The excess errors of the rules before each id, summed."""
        starts, excess = self._errors
        return np.append(0.0, np.cumsum(np.repeat(excess, np.diff(np.append(starts, self.concept.size)))))

    @cached_property
    def best(self) -> int:
        """The first rule of least error."""
        starts, excess = self._errors
        return int(starts[int(np.argmin(excess))])

    @cached_property
    def best_error(self) -> float:
        """The least error of any rule of the class, over all users: the optimum without privacy."""
        return float(self._weight @ (self.concept.predictions(self.users.codes, self.best) != self.users.labels))

    @cached_property
    def constant_error(self) -> float:
        """The error of the better of "always" and "never"."""
        ones = float(self._weight @ (self.users.labels == 1))
        return min(ones, 1 - ones)

    @cached_property
    def _weight(self) -> Floats64:
        """Each user weighs the same, and so does each record of a user."""
        sizes = self.users.sizes
        return np.repeat(1 / (sizes * float(self.users.n_users)), sizes)

    # Points: distinct rows, so that any predictor's error is one product

    @cached_property
    def _rows(self) -> tuple[dict[str, NDArray[np.uint64]], NDArray[np.int64]]:
        names = list(self.columns)
        table = np.stack([self.users.codes[name] for name in names], axis=1)
        rows, place = np.unique(table, axis=0, return_inverse=True)
        return {name: rows[:, i] for i, name in enumerate(names)}, place.reshape(-1)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.concept.declared() if name is not None)

    @property
    def points(self) -> dict[str, NDArray[np.uint64]]:
        """Distinct rows of codes."""
        return self._rows[0]

    @cached_property
    def costs(self) -> Floats64:
        """What saying 0 and what saying 1 costs at every point."""
        place, says = self._rows[1], self.users.labels
        n = len(next(iter(self.points.values())))
        return np.stack([np.bincount(place, self._weight * (says == label), n) for label in (1, 0)])

    def error(self, said: Array) -> Floats64:
        """The error of predictors, given what they say at the points (last axis)."""
        yes = np.asarray(said, dtype=np.float64)
        return np.asarray(yes @ self.costs[1] + (1 - yes) @ self.costs[0])

    def excess_of_answers(self, said: Floats64) -> float:
        """The excess error of answers that are 1 with these probabilities at the points."""
        return float(self.error(said) - self.error(self.concept.predictions(self.points, self.best)))

    # Excess over the law

    def excess_of(self, hypothesis: int) -> float:
        """The excess error of one rule."""
        starts, excess = self._errors
        return float(excess[int(np.searchsorted(starts, hypothesis, side="right")) - 1])

    def expected_excess(self, law: BlockLaw) -> float:
        """The mean excess error of a rule drawn from a law over the class, block by block in double precision.

        The law may be over pairs (score, rule), the ids of one score after those of the other.
        """
        size = self.concept.size
        firsts, counts, scores = law_blocks(law, size)
        gaps = float(law.eta or 0) * (scores - scores.min())
        if size <= DENSE:
            weight, rules = block_weights(law) * np.exp(-gaps), firsts % size
            summed = self._summed[rules + counts.astype(np.int64)] - self._summed[rules]
            return float(
                np.sum(weight * summed) / np.sum(weight * counts)
            )  # no threads of linear algebra for so little
        starts, excess = self._errors
        logs, costs, shares = [], [], np.log(block_weights(law))
        for which in range(int(firsts[-1]) // size + 1):
            held = firsts // size == which
            begins, gap = firsts[held] - which * size, gaps[held] - shares[held]
            # The common refinement of the law's blocks and the error's: on each part both are constant.
            edges = np.union1d(begins, starts)
            lengths = np.diff(np.append(edges, _ids([size], size))).astype(np.float64)
            logs.append(np.log(lengths) - gap[np.searchsorted(begins, edges, side="right") - 1])
            costs.append(excess[np.searchsorted(starts, edges, side="right") - 1])
        each = np.concatenate(logs)
        weight = np.exp(each - each.max())
        return float(np.sum(weight * np.concatenate(costs)) / weight.sum())

    # Data sets

    def draw(self, n_users: int, rng: np.random.Generator) -> UserData:
        """A data set of this many users."""
        if self.records_per_user is None:
            if n_users == self.users.n_users:
                return self.users
            return self.users.take(np.sort(rng.choice(self.users.n_users, n_users, replace=False)))
        m = self.records_per_user
        # Every user of the truth holds equally many records: a uniform record is a draw from the model.
        rows = rng.integers(0, self.users.n_records, n_users * m)
        assert self.users.labels is not None
        codes = {name: self.users.codes[name][rows] for name in self.columns}
        return users_from_codes(np.full(n_users, m), codes, self.users.labels[rows], self.users.features)

    def growing(self, seed: tuple[int, ...]) -> Callable[[int], UserData]:
        """Nested data sets of one seed: fewer users are the first of the more."""
        most, parts = self.largest(), [self.draw(1, np.random.default_rng([*seed, 0]))]
        if most is not None:
            order = np.random.default_rng([*seed]).permutation(most)
            return lambda n: self.users.take(order[:n])

        def first(n: int) -> UserData:
            while parts[-1].n_users < n:
                held = parts[-1].n_users
                parts.append(_joined(parts[-1], self.draw(held, np.random.default_rng([*seed, held]))))
            return first_users(parts[-1], n)

        return first

    def largest(self) -> int | None:
        """The most users a data set can have; None for a generated population."""
        return self.users.n_users if self.records_per_user is None else None


def _ids(values: list[int], size: int) -> Array:
    """Ids as an array that holds them exactly."""
    return np.array(values, dtype=np.int64 if size < _EXACT else object)


def _block_counts(law: BlockLaw) -> Floats64:
    """How many rules each block of a law has."""
    counts = law.span.astype(np.float64) + 1
    for i, count in law.big.items():
        counts[i] = count
    return counts


def block_weights(law: BlockLaw) -> Floats64:
    """What a rule of each block weighs beside its score, as a share of the most."""
    if law.weights is None or law.which is None:
        return np.ones(len(law))
    most = max(law.weights.values)
    return np.array([value / most for value in law.weights.values])[law.which]


def law_blocks(law: BlockLaw, size: int) -> tuple[Array, Floats64, Floats64]:
    """First ids (exact), numbers of rules and scores of a law's blocks, as arrays."""
    assert law.lows is not None
    counts = _block_counts(law)
    begins = [first for first, _ in law.segments]
    lengths = np.diff([*begins, len(law)])
    if size < _EXACT:
        firsts: Array = law.lows.astype(np.int64) + np.repeat(
            np.array([offset for _, offset in law.segments], np.int64), lengths
        )
    else:
        offsets = [offset for (_, offset), length in zip(law.segments, lengths.tolist()) for _ in range(length)]
        firsts = _ids([offset + low for offset, low in zip(offsets, law.lows.tolist())], size)
    return firsts, counts, law.score.astype(np.float64)


# Users from arrays of codes, without a table's checks


def users_from_codes(
    sizes: NDArray[np.int64],
    codes: Mapping[str, Array],
    labels: Array,
    features: Mapping[str, Domain | None],
) -> UserData:
    """Users with these numbers of records, whose codes and labels follow one another."""
    offsets = np.append(0, np.cumsum(sizes)).astype(np.int64)
    columns = {name: values.astype(np.uint64) for name, values in codes.items()}
    domains = {name: features[name] for name in codes}
    return UserData(offsets, columns, labels.astype(np.uint8), domains, Unit.USER, OnInvalid.RAISE, "first", {}, None)


def first_users(users: UserData, n_users: int) -> UserData:
    """The first users of a data set in memory; no ids are kept."""
    assert users.labels is not None
    records = int(users.offsets[n_users])
    columns = {name: values[:records] for name, values in users.codes.items()}
    return evolve(users, offsets=users.offsets[: n_users + 1], codes=columns, labels=users.labels[:records], ids=None)


def _joined(a: UserData, b: UserData) -> UserData:
    assert a.labels is not None
    assert b.labels is not None
    codes = {name: np.concatenate([values, b.codes[name]]) for name, values in a.codes.items()}
    return users_from_codes(np.concatenate([a.sizes, b.sizes]), codes, np.concatenate([a.labels, b.labels]), a.features)


# Populations


def public_population(users: UserData, concept: ConceptClass, *, name: str = "the table") -> Population:
    """A table declared public; users without records are left out, since they have no error."""
    if not isinstance(users, UserData):
        raise TypeError(f"a population is UserData in memory, got {type(users).__name__}")
    if users.unit is not Unit.USER:
        raise ParameterError("a comparison protects people: name the user column")
    bound, held = concept.bind(users)  # refuses data without labels
    assert isinstance(held, UserData)
    kept = held.take(held.sizes > 0)
    if kept.n_users == 0:
        raise ParameterError("the table has no user with records; a comparison needs some")
    return Population(name, kept, bound)


@frozen(slots=False, eq=False, repr=False)
class _Sampled(Population):
    """Data sets come from a function; ``users`` are one large draw of it."""

    source: Draw | None = None

    def draw(self, n_users: int, rng: np.random.Generator) -> UserData:
        assert self.source is not None
        return _checked_draw(self.source, self.concept, n_users, rng)[1]

    def largest(self) -> int | None:
        return None


def sampled_population(
    draw: Draw,
    concept: ConceptClass,
    *,
    truth_users: int = TRUTH_USERS,
    seed: int = 0,
    name: str = "a model of one's own",
) -> Population:
    """A model of one's own: ``draw(n, rng)`` makes a data set of ``n`` users, and one draw of ``truth_users`` stands
    for the truth.

    The function must come from what is publicly known or assumed.  **It must not be fitted on the private table**: what
    is predicted from it, and the method chosen with it, would be outputs of that table that no budget paid for.

    >>> def draw(n, rng):
    ...     x = rng.integers(0, 100, n * 5)
    ...     return UserData.from_arrays(x, x >= 30, np.repeat(np.arange(n), 5), features={"x": Integers(0, 99)})
    >>> sampled_population(draw, Thresholds(Integers(0, 99), "x"), truth_users=500).best
    30
    """
    if not callable(draw):
        raise TypeError(f"draw must be a function of a number of users and a generator, got {type(draw).__name__}")
    n = positive_int(truth_users, "truth_users", maximum=1 << 20)
    bound, users = _checked_draw(draw, concept, n, np.random.default_rng(positive_int(seed, "seed", minimum=0)))
    kept = users.take(users.sizes > 0)
    if kept.n_users == 0:
        raise ParameterError("draw made no user with records; the truth needs some")
    return _Sampled(name, kept, bound, None, draw)


def _checked_draw(
    draw: Draw, concept: ConceptClass, n_users: int, rng: np.random.Generator
) -> tuple[ConceptClass, UserData]:
    users = draw(n_users, rng)
    if not isinstance(users, UserData) or users.unit is not Unit.USER:
        raise TypeError("draw must return UserData with user ids")
    bound, held = concept.bind(users)
    assert isinstance(held, UserData)
    if held.n_users != n_users:
        raise ParameterError(f"draw was asked for {n_users} users and made {held.n_users}")
    return bound, held


def generated_population(noise: Rational = "0.2", *, records_per_user: int = 16, values: int = 1024) -> Population:
    """The standard model of cut-offs: x uniform on ``values`` codes, best cut in the middle, labels wrong with
    probability ``noise``.

    >>> people = generated_population("0.25", records_per_user=4, values=8)
    >>> people.best, people.best_error, people.constant_error
    (4, 0.25, 0.5)
    """
    wrong = rational(noise, "noise", minimum=0, below="1/2")
    parts = wrong.denominator
    if parts > _MOST_PARTS:
        raise ParameterError(
            f"noise must be a fraction with a denominator of at most {_MOST_PARTS}, such as 0.15 or 1/3"
        )
    codes = positive_int(values, "values", minimum=2, maximum=1 << 14)
    m = positive_int(records_per_user, "records_per_user", maximum=1 << 20)
    x = np.repeat(np.arange(codes), parts)
    flipped = np.tile(np.arange(parts) < wrong.numerator, codes)
    domain = Integers(0, codes - 1)
    truth = UserData.from_arrays(x[:, None], ((x >= codes // 2) ^ flipped).astype(np.uint8), x, features={"x": domain})
    bound, held = Thresholds(domain, "x").bind(truth)
    assert isinstance(held, UserData)
    law = f"x uniform on {codes} values, label noise {wrong}"
    return Population(f"{law}, {m} records per user", held, bound, m, law=law)


def features_of_users(population: Population, codes: Any) -> Floats64:
    """Columns of codes as numbers in -1..1, by the declared domains only: what models over the reals read."""
    columns = []
    for name in population.columns:
        domain = population.users.features[name]
        assert domain is not None
        columns.append(2 * codes[name].astype(np.float64) / max(float(domain.size - 1), 1.0) - 1)
    return np.stack(columns, axis=1)


DEFAULT_NOISE = Fraction(1, 5)
"""Label noise of a stated model where none is declared."""

_MAX_RULES = 1 << 15
_LISTED = 1 << 10
TRIED = 1 << 10
GRID = 128
UNDECLARED = Integers(0, (1 << 20) - 1)
"""The domain of a class that has none yet."""

SHOWN_RECORDS = 1 << 12
"""Records of the public sample on which predictors that are no rules of the class are compared."""

_MAX_RECORDS = 1 << 20


def standard_population(
    concept: ConceptClass, *, records_per_user: int, noise: Rational = "0.2", seed: int = 0
) -> Population | None:
    """The standard model of a class (see the module); None where a profile of the class is not affordable.

    >>> from privpac.rules import Thresholds
    >>> print(standard_population(Thresholds(Integers(0, 2**64 - 1)), records_per_user=16, noise="0.1").name)
    x uniform on 2^64 values, right cut in the middle, label noise 1/10, 16 records per user
    """
    if not isinstance(concept, ConceptClass):
        raise TypeError(
            f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got {type(concept).__name__}"
        )
    m = positive_int(records_per_user, "records_per_user", maximum=_MAX_RECORDS)
    wrong = rational(noise, "noise", minimum=0, below="1/2")
    start = positive_int(seed, "seed", minimum=0)
    bound = concept_with_domains(concept)
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
    return evolve(people, name=f"{people.name}, {m} records per user", law=people.name)


def concept_with_domains(concept: ConceptClass) -> ConceptClass | None:
    """The class on named columns with domains; None if it needs columns and has none."""
    declared = concept.declared()
    if len(declared) == 1:
        ((name, domain),) = declared.items()
        if domain is None and concept.cut_direction is None:
            return None
        return concept.with_columns({name or "x": domain or UNDECLARED})
    domains = {name: domain for name, domain in declared.items() if name is not None and domain is not None}
    return concept.with_columns(domains) if declared and len(domains) == len(declared) else None


def _domains_of(concept: ConceptClass) -> dict[str, Domain]:
    return {name: domain for name, domain in concept.declared().items() if name is not None and domain is not None}


def _uniform(rng: np.random.Generator, size: int, count: int) -> NDArray[np.uint64]:
    """Uniform codes of a domain of up to 2**64 values."""
    return rng.integers(0, size - 1, count, dtype=np.uint64, endpoint=True)


def _flipped(right: Array, noise: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    return (right.astype(bool) ^ (rng.random(len(right)) < noise)).astype(np.uint8)


# Models whose excess error is a formula


@frozen(slots=False, eq=False, repr=False)
class Formula(Population):
    """Data sets of independent records; ``users`` is a public sample, the excess error of rules of the class does not
    come from it."""

    noise: float = 0.2

    def _codes(self, count: int, rng: np.random.Generator) -> dict[str, NDArray[np.uint64]]:
        """The columns of so many records."""
        raise NotImplementedError

    def _right(self, codes: Mapping[str, NDArray[np.uint64]]) -> Array:
        return self.concept.predictions(codes, self.best)

    def draw(self, n_users: int, rng: np.random.Generator) -> UserData:
        assert self.records_per_user is not None
        codes = self._codes(n_users * self.records_per_user, rng)
        labels = _flipped(self._right(codes), self.noise, rng)
        return users_from_codes(np.full(n_users, self.records_per_user), codes, labels, _domains_of(self.concept))

    def _disagreement(self, first: int, lows: Floats64, counts: Floats64) -> Floats64:
        """How often the rules of blocks disagree with the right one, in the mean over a block; ids start at ``first +
        lows``."""
        raise NotImplementedError

    def expected_excess(self, law: BlockLaw) -> float:
        assert law.lows is not None
        counts = _block_counts(law)
        weight = counts * block_weights(law) * np.exp(-float(law.eta or 0) * (law.score - law.best))
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
        people = evolve(self, records_per_user=1).draw(SHOWN_RECORDS, np.random.default_rng(0))
        return evolve(self, users=people)


@frozen(slots=False, eq=False, repr=False)
class UniformCuts(Formula):
    """x uniform; the right rule cuts the first column in the middle."""

    @property
    def best(self) -> int:
        return next(iter(_domains_of(self.concept).values())).size // 2

    def _codes(self, count: int, rng: np.random.Generator) -> dict[str, NDArray[np.uint64]]:
        return {name: _uniform(rng, domain.size, count) for name, domain in _domains_of(self.concept).items()}

    def _disagreement(self, first: int, lows: Floats64, counts: Floats64) -> Floats64:
        domains, directions = list(_domains_of(self.concept).values()), self.concept.directions
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
        return self.best / next(iter(_domains_of(self.concept).values())).size

    def _far(self, low: Floats64, counts: Floats64) -> Floats64:
        """Disagreement of cuts of the first column, in the direction of the right one."""
        return mean_distance(low - self.best, counts) / next(iter(_domains_of(self.concept).values())).size


def mean_distance(first: Floats64, counts: Floats64) -> Floats64:
    """The mean of ``|u|`` over ``first .. first + count - 1``."""
    a, b = -first, first + counts - 1
    across = (a > 0) & (b > 0)
    return np.where(across, (a * (a + 1) + b * (b + 1)) / (2 * counts), np.abs(b - a) / 2)


def sizes_of(concept: ConceptClass) -> str:
    """How many values each column may take; large powers of two as such."""
    sizes = [domain.size for domain in _domains_of(concept).values()]
    return " x ".join(f"2^{n.bit_length() - 1}" if n >= 1 << 20 and not n & (n - 1) else str(n) for n in sizes)


def _cuts(concept: ConceptClass, m: int, noise: float, rest: str) -> Population:
    sizes = sizes_of(concept)
    where = "" if concept.cut_direction is not None else " of the first column"
    name = f"x uniform on {sizes} values, right cut in the middle{where}, {rest}"
    return formula(UniformCuts, name, concept, m, noise)


@frozen(slots=False, eq=False, repr=False)
class OnePointModel(Formula):
    """Half of the records at the right point, the others uniform elsewhere."""

    @property
    def _values(self) -> int:
        return next(iter(_domains_of(self.concept).values())).size

    @property
    def best(self) -> int:
        return self._values // 2

    @property
    def _below(self) -> float:
        return 0.5 if self._values > 1 else 0.0

    def _codes(self, count: int, rng: np.random.Generator) -> dict[str, NDArray[np.uint64]]:
        ((name, domain),) = _domains_of(self.concept).items()
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
    n = next(iter(_domains_of(concept).values())).size
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
        {c: np.zeros(0, np.uint64) for c in _domains_of(concept)},
        np.zeros(0, np.uint8),
        _domains_of(concept),
    )
    return model(name, nobody, concept, m, noise).shown()


# Models whose truth is a table


@frozen(slots=False, eq=False)
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
        return users_from_codes(np.full(count, labels.shape[1]), columns, labels.ravel(), _domains_of(self.concept))


def listed_model(concept: ConceptClass, noise: Fraction, seed: int) -> ListedModel | None:
    """Uniform points for a class with domains; None if it has more than ``MAX_RULES`` rules, or reads texts of any
    kind."""
    on = ""
    if any(domain.open for domain in _domains_of(concept).values()):
        return None
    coarse = concept.coarsened(GRID)
    if coarse != concept:
        on = f" (a grid in {sizes_of(concept)})"
        concept = coarse
    if concept.size > _MAX_RULES:
        return None
    codes, drawn = _points(_domains_of(concept), seed)
    near = noise.limit_denominator(_MOST_PARTS)  # the truth holds the wrong labels, so their share has few parts
    flips = near if near < Fraction(1, 2) else Fraction(_MOST_PARTS // 2 - 1, _MOST_PARTS)
    return ListedModel(
        concept, codes, flips, f"{len(next(iter(codes.values())))} points{on}{', drawn once' if drawn else ''}"
    )


def _points(domains: Mapping[str, Domain], seed: int) -> tuple[dict[str, NDArray[np.uint64]], bool]:
    """All points of the domains, or ``LISTED`` uniform ones."""
    total = prod(domain.size for domain in domains.values())
    if total > _LISTED:
        rng = np.random.default_rng(seed)
        return {name: _uniform(rng, domain.size, _LISTED) for name, domain in domains.items()}, True
    left, out = np.arange(total), {}
    for name, domain in domains.items():
        left, code = np.divmod(left, domain.size)
        out[name] = code.astype(np.uint64)
    return out, False


# What may be declared about people before their data are seen, and the model behind each declaration.
#
# * ``"alike"``: one rule is right for everybody, up to noise in the labels: the standard model of the class.
# * ``"differ"``: who a person is matters more than x.  Three people in four keep one label whatever x is, half of them
#   0
#   and half 1; the others are as in the standard model.  Together the former cost every rule the same, so the best rule
#   stays the best.
# * ``"heavy"``: people with many records follow another rule than the others.  Numbers of records are spread evenly on
#   a
#   log scale from an eighth of the declared number to eight times as many; the third with more than twice the declared
#   number follow the other rule.  Cut-offs: the cuts are a quarter of the range of x apart.  Other classes: the first
#   rule found that disagrees at a quarter of the points or more.
#
# In all of them x is uniform and a label is wrong with probability ``noise``.  Users weigh the same, whatever their
# number of records.
#
# Why it matters: a clipped score amplifies a user with m records up to sqrt(m) times, so that with few users heavy
# people outvote the others; and people who keep one label pull a clipped score to "always" and "never".  The per-user
# mean does neither.


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
    >>> from privpac.rules import Thresholds
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


@frozen(slots=False, eq=False, repr=False)
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
    m = positive_int(records_per_user, "records_per_user", maximum=_MAX_RECORDS)
    wrong = rational(noise, "noise", minimum=0, below="1/2")
    bound = concept_with_domains(concept)
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


@frozen(slots=False, eq=False, repr=False)
class HeavyCuts(UniformCuts):
    """Two cuts on the first column, around its middle; the lower one is right for most."""

    @property
    def _cuts(self) -> tuple[int, int]:
        n = next(iter(_domains_of(self.concept).values())).size
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
        return HEAVY_SHARE * (high - low) / next(iter(_domains_of(self.concept).values())).size

    @property
    def _below(self) -> float:
        low, high = self._cuts
        return ((1 - HEAVY_SHARE) * low + HEAVY_SHARE * high) / next(iter(_domains_of(self.concept).values())).size

    def draw(self, n_users: int, rng: np.random.Generator) -> UserData:
        assert self.records_per_user is not None
        sizes, heavy = _sizes(self.records_per_user, n_users, rng)
        codes = self._codes(int(sizes.sum()), rng)
        cuts = np.where(heavy, np.uint64(self._cuts[1]), np.uint64(self._cuts[0]))
        over = codes[next(iter(codes))] >= np.repeat(cuts, sizes)
        right = over if self.concept.directions[0] == "above" else ~over
        return users_from_codes(sizes, codes, right ^ (rng.random(len(right)) < self.noise), _domains_of(self.concept))

    def _far(self, low: Floats64, counts: Floats64) -> Floats64:
        shares = (1 - HEAVY_SHARE, HEAVY_SHARE)
        total = sum(share * mean_distance(low - cut, counts) for share, cut in zip(shares, self._cuts))
        return np.asarray(total / next(iter(_domains_of(self.concept).values())).size)

    def _disagreement(self, first: int, lows: Floats64, counts: Floats64) -> Floats64:
        return super()._disagreement(first, lows, counts) - self._least


@frozen(slots=False, eq=False, repr=False)
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
        return users_from_codes(sizes, codes, labels, _domains_of(self.concept))

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
