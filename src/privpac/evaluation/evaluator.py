"""A private table of how often a fixed predictor is right.

**Guarantee.**  Pure epsilon per user.  ``T[c] = sum over users + noise``, the noises independent discrete Laplaces of
rate ``epsilon/R``; one user more or less moves the sums by at most ``levels`` in L1
(:mod:`privpac.evaluation.results`), a replaced one by at most ``2 levels``, and the ratio of the laws at L1 distance
``d`` is at most ``e**(epsilon d/R)``: ``R = levels`` under add-remove, ``2 levels`` under replace.  With
``cells="error"`` under replace the number of people is public, so only ``wrong`` is released, which a replaced user
moves by at most ``levels``: ``R = levels``.  There somebody without records counts as wrong, since leaving them out
would make the number of the others a secret again. "Fixed": the predictor was chosen without these people, or privately
from them and paid for.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.errors import ParameterError
from privpac.evaluation.predictors import Predictor, bind_predictor, check_reads
from privpac.evaluation.results import CELLS, LEAST_NOISE, Cells, Evaluation, TableKernel, Weight
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.mechanisms.laplace import discrete_laplace
from privpac.methods.base import Learner, check_users, count_users
from privpac.parameters import (
    DEFAULT_LEVELS,
    bounds,
    either,
    named,
    privacy,
    probability,
    protected_unit,
    relation,
    truth,
    whole,
    whole_or_none,
)
from privpac.result import Released
from privpac.rules.rules import binary

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.rng import Rng

__all__ = ["Evaluator"]

MAX_LEVELS = 1 << 26


@dataclass(frozen=True)
class _BoundPredictor:
    predictor: Predictor
    users: Users


@frozen(slots=False, field_transformer=named)
class Evaluator(Learner):
    """Evaluate one predictor.

    ``cells="table"`` releases the 2x2 table, ``"error"`` only right and wrong, with less noise.  ``weight="user"``:
    every person counts the same; ``"record"``: every record, of at most ``max_records`` per person.  ``same_people``
    declares that the predictor was learned from these people: then nothing is said about others.

    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0), (80, 1)], [(20, 0)]] * 400, features={"age": pp.Integers(0, 99)})
    >>> found = Evaluator(lambda table: table["age"] > 50, 1).learn(people).hypothesis
    >>> found.error.value < 0.05, found.better_than_constant
    (True, True)
    """

    predictor: Any
    epsilon: Fraction = field(converter=privacy)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    cells: Cells = field(default="table", kw_only=True, validator=either("table", "error"))
    weight: Weight = field(default="user", kw_only=True, validator=either("user", "record"))
    max_records: int | None = field(
        default=None, kw_only=True, converter=whole_or_none, metadata=bounds(maximum=MAX_LEVELS)
    )
    levels: int = field(default=DEFAULT_LEVELS, kw_only=True, converter=whole, metadata=bounds(maximum=MAX_LEVELS))
    confidence: Fraction = field(default=Fraction(19, 20), kw_only=True, converter=probability)
    labels: tuple[Any, Any] | None = field(default=None, kw_only=True)
    rowwise: bool = field(default=False, kw_only=True, validator=truth)
    same_people: bool = field(default=False, kw_only=True, validator=truth)

    def __attrs_post_init__(self) -> None:
        if self.weight == "record" and self.unit is Unit.USER and self.max_records is None:
            raise ParameterError("weight='record' needs max_records=: how many records of one person may count")
        if self.noise < LEAST_NOISE:
            raise ParameterError(f"epsilon must be at least {float(2 * self.steps * LEAST_NOISE):.1g} to say anything")

    @property
    def steps(self) -> int:
        """What one person adds at most: ``levels``, or with weight ``"record"`` the records that count."""
        return (self.max_records or 1) if self.weight == "record" else self.levels

    @property
    def knows_people(self) -> bool:
        return self.cells == "error" and self.weight == "user" and self.neighbours is Neighbours.REPLACE

    @property
    def noise(self) -> Fraction:
        """The rate of the noise on every sum."""
        twice = self.neighbours is Neighbours.REPLACE and not self.knows_people
        return self.epsilon / (2 * self.steps if twice else self.steps)

    @property
    def guarantee(self) -> Guarantee:
        epsilon = self.epsilon
        how = ("noisy sums of the people's own tables, which have the same size for everybody",)
        return Guarantee(epsilon, unit=self.unit, neighbours=self.neighbours, rho=epsilon**2 / 2, derivation=how)

    def bind(self, data: Users) -> _BoundPredictor:
        check_users(data, self.unit)
        binary(data, "an evaluation")
        if getattr(data, "labels", ()) is None:
            raise ParameterError("the data have no labels: name the label column when they are built")
        predictor, users = bind_predictor(self.predictor, data, labels=self.labels, rowwise=self.rowwise)
        if self.max_records is not None:
            users = users.max_records(self.max_records)
            check_reads(predictor, users)
        return _BoundPredictor(predictor, users)

    def draw(self, bound: _BoundPredictor, rng: Rng) -> Released:
        empty = CELLS["error"].index("wrong") if self.knows_people else -1
        sums = bound.users.fold(TableKernel(bound.predictor, self.cells, self.weight, self.steps, empty)).tolist()
        people = count_users(bound.users) if self.knows_people else None
        exact = sums[1:] if self.knows_people else sums
        found = Evaluation(
            tuple(value + discrete_laplace(self.noise, rng) for value in exact),
            self.cells,
            self.weight,
            self.steps,
            self.noise,
            self.neighbours,
            self.confidence,
            people,
            self.same_people,
            self.unit,
        )
        return Released(found, self.guarantee, warnings=found.notes(), learner="evaluation")
