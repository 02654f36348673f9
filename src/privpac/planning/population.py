"""People whose records are public or made up, and what every rule costs on them.

A comparison needs the truth: the error of a rule over *all* users of a public table, each user weighing the same, or over the law of a
stated model.  Both are a :class:`Population`: users in memory, a class of rules bound to their columns, and a way to draw data sets.

A public table is its own truth: a data set is a draw of its users without replacement (all of them: the table itself).  The stated
model of cut-offs is the planner's: x uniform on ``values`` codes, the best cut in the middle, every label wrong with probability
``noise``; users hold independent records.  Its truth is held exactly, as one user for each x whose records have the model's labels.

Nothing here is private: errors and best rules are functions of the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.concepts.profile import Profile
from privpac.concepts.statistics import Mean
from privpac.concepts.thresholds import Thresholds
from privpac.data import Integers, UserData
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Unit, positive_int
from privpac.law.blocks import BlockLaw

__all__ = ["Floats64", "Population", "features_of_users", "generated_population", "public_population"]

Floats64 = NDArray[np.float64]

STEPS = 1 << 24
"""Steps of one user's error: rounding stays below 1e-7."""

MOST_PARTS = 200
"""The largest denominator of the label noise of a generated population."""

_EXACT = 1 << 62


@dataclass(frozen=True, eq=False, repr=False)
class Population:
    """Users with records, a class of rules over their columns, and a name."""

    name: str
    users: UserData
    concept: ConceptClass
    records_per_user: int | None = None
    """None: data sets are drawn users; a number: data sets are made of this many independent records per user."""

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

    # Excess over the law

    def excess_of(self, hypothesis: int) -> float:
        """The excess error of one rule."""
        starts, excess = self._errors
        return float(excess[int(np.searchsorted(starts, hypothesis, side="right")) - 1])

    def expected_excess(self, law: BlockLaw) -> float:
        """The mean excess error of a rule drawn from a law over the class, block by block in double precision."""
        starts, excess = self._errors
        blocks = [(cell.start, score) for cell, score in law.blocks if isinstance(cell, range)]
        firsts = _ids([first for first, _ in blocks], self.concept.size)
        scores = np.array([score for _, score in blocks], dtype=np.float64)
        # The common refinement of the law's blocks and the error's: on each part both are constant.
        edges = np.union1d(firsts, starts)
        lengths = np.diff(np.append(edges, _ids([self.concept.size], self.concept.size))).astype(np.float64)
        chosen = np.searchsorted(firsts, edges, side="right") - 1
        logs = np.log(lengths) - float(law.eta or 0) * (scores - scores.min())[chosen]
        weight = np.exp(logs - logs.max())
        return float(weight @ excess[np.searchsorted(starts, edges, side="right") - 1] / weight.sum())

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
        ids = np.repeat(np.arange(n_users), m)
        columns = {name: self.users.codes[name][rows] for name in self.columns}
        features = {name: self.users.features[name] for name in self.columns}
        return UserData.from_arrays(np.stack(list(columns.values()), axis=1), self.users.labels[rows], ids, features=features)

    def largest(self) -> int | None:
        """The most users a data set can have; None for a generated population."""
        return self.users.n_users if self.records_per_user is None else None


def _ids(values: list[int], size: int) -> NDArray[Any]:
    """Ids as an array that holds them exactly."""
    return np.array(values, dtype=np.int64 if size < _EXACT else object)


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


def generated_population(noise: Rational = "0.2", *, records_per_user: int = 16, values: int = 1024) -> Population:
    """The standard model of cut-offs: x uniform on ``values`` codes, best cut in the middle, labels wrong with probability ``noise``.

    >>> people = generated_population("0.25", records_per_user=4, values=8)
    >>> people.best, people.best_error, people.constant_error
    (4, 0.25, 0.5)
    """
    wrong = rational(noise, "noise", minimum=0, below="1/2")
    parts = wrong.denominator
    if parts > MOST_PARTS:
        raise ParameterError(f"noise must be a fraction with a denominator of at most {MOST_PARTS}, such as 0.15 or 1/3")
    codes = positive_int(values, "values", minimum=2, maximum=1 << 14)
    m = positive_int(records_per_user, "records_per_user", maximum=1 << 20)
    x = np.repeat(np.arange(codes), parts)
    flipped = np.tile(np.arange(parts) < wrong.numerator, codes)
    domain = Integers(0, codes - 1)
    truth = UserData.from_arrays(x[:, None], ((x >= codes // 2) ^ flipped).astype(np.uint8), x, features={"x": domain})
    bound, held = Thresholds(domain, "x").bind(truth)
    assert isinstance(held, UserData)
    return Population(f"x uniform on {codes} values, label noise {wrong}, {m} records per user", held, bound, m)


def features_of_users(population: Population, codes: Any) -> Floats64:
    """Columns of codes as numbers in -1..1, by the declared domains only: what models over the reals read."""
    columns = []
    for name in population.columns:
        domain = population.users.features[name]
        assert domain is not None
        columns.append(2 * codes[name].astype(np.float64) / max(float(domain.size - 1), 1.0) - 1)
    return np.stack(columns, axis=1)
