"""People whose records are public or made up, and what every rule costs on them.

A comparison needs the truth: the error of a rule over *all* users of a public table, each user weighing the same, or
over the law of a stated model.  Both are a :class:`Population`: users in memory, a class of rules bound to their
columns, and a way to draw data sets. Models of one's own come in as a function that draws users
(:func:`sampled_population`), with a large public sample as the truth.

A public table is its own truth: a data set is a draw of its users without replacement (all of them: the table itself).
The stated model of cut-offs is the planner's: x uniform on ``values`` codes, the best cut in the middle, every label
wrong with probability ``noise``; users hold independent records.  Its truth is held exactly, as one user for each x
whose records have the model's labels.

Nothing here is private: errors and best rules are functions of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.concepts.profile import Profile
from privpac.concepts.statistics import Mean
from privpac.concepts.thresholds import Thresholds
from privpac.data import Domain, Integers, UserData
from privpac.data.schema import OnInvalid
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Unit, positive_int
from privpac.law.blocks import BlockLaw

__all__ = [
    "Draw",
    "Floats64",
    "Population",
    "features_of_users",
    "first_users",
    "generated_population",
    "law_blocks",
    "public_population",
    "sampled_population",
    "users_from_codes",
]

Floats64 = NDArray[np.float64]

STEPS = 1 << 24
"""Steps of one user's error: rounding stays below 1e-7."""

MOST_PARTS = 200
"""The largest denominator of the label noise of a generated population."""

TRUTH_USERS = 4096
"""Users of the public sample that stands for the truth of a model given as a function."""

DENSE = 1 << 20
"""Classes of at most this many rules have their excess errors listed rule by rule."""

_EXACT = 1 << 61

Draw = Callable[[int, np.random.Generator], UserData]
"""Draws a data set of so many users."""


@dataclass(frozen=True, eq=False, repr=False)
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
    def _errors(self) -> tuple[NDArray[Any], Floats64]:
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

    def error(self, said: NDArray[Any]) -> Floats64:
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

        The law may be over pairs (voice, rule), the ids of one voice after those of the other.
        """
        size = self.concept.size
        firsts, counts, scores = law_blocks(law, size)
        gaps = float(law.eta or 0) * (scores - scores.min())
        if size <= DENSE:
            weight, rules = np.exp(-gaps), firsts % size
            summed = self._summed[rules + counts.astype(np.int64)] - self._summed[rules]
            return float(
                np.sum(weight * summed) / np.sum(weight * counts)
            )  # no threads of linear algebra for so little
        starts, excess = self._errors
        logs, costs = [], []
        for voice in range(int(firsts[-1]) // size + 1):
            held = firsts // size == voice
            begins, gap = firsts[held] - voice * size, gaps[held]
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


def _ids(values: list[int], size: int) -> NDArray[Any]:
    """Ids as an array that holds them exactly."""
    return np.array(values, dtype=np.int64 if size < _EXACT else object)


def law_blocks(law: BlockLaw, size: int) -> tuple[NDArray[Any], Floats64, Floats64]:
    """First ids (exact), numbers of rules and scores of a law's blocks, as arrays."""
    assert law.lows is not None
    counts = law.span.astype(np.float64) + 1
    for i, count in law.big.items():
        counts[i] = count
    begins = [first for first, _ in law.segments]
    lengths = np.diff([*begins, len(law)])
    if size < _EXACT:
        firsts: NDArray[Any] = law.lows.astype(np.int64) + np.repeat(
            np.array([offset for _, offset in law.segments], np.int64), lengths
        )
    else:
        offsets = [offset for (_, offset), length in zip(law.segments, lengths.tolist()) for _ in range(length)]
        firsts = _ids([offset + low for offset, low in zip(offsets, law.lows.tolist())], size)
    return firsts, counts, law.score.astype(np.float64)


# Users from arrays of codes, without a table's checks


def users_from_codes(
    sizes: NDArray[np.int64],
    codes: Mapping[str, NDArray[Any]],
    labels: NDArray[Any],
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
    return replace(users, offsets=users.offsets[: n_users + 1], codes=columns, labels=users.labels[:records], _ids=None)


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


@dataclass(frozen=True, eq=False, repr=False)
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
    if parts > MOST_PARTS:
        raise ParameterError(
            f"noise must be a fraction with a denominator of at most {MOST_PARTS}, such as 0.15 or 1/3"
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
