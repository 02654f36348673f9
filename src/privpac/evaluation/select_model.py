"""Which of these models is best?  The best of ``k`` fixed predictors, chosen privately.

Models that were fitted elsewhere (on other people, or in public) form a finite class of ``k`` rules; the default
learner for any labels chooses one of them, and its price grows with ``log k`` only.  How good the winner is, is another
question: it must be asked of other people, or paid for again.

**Guarantee.**  That of :class:`~privpac.methods.HybridSelection`, epsilon per user: what a person says about every
model is a bounded integer that depends on that person's records alone (:mod:`privpac.evaluation.evaluator`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from attrs import evolve, field, frozen
from attrs import field as attrs_field
from numpy.typing import NDArray

from privpac.composition import compose_basic
from privpac.errors import IncompatibleGuarantees, ParameterError
from privpac.evaluation.evaluator import Predictor, bind_predictor, check_reads
from privpac.evaluation.together import PartBudget
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.methods.base import Bound, Learner
from privpac.methods.hybrid import HybridSelection
from privpac.parameters import named, probability
from privpac.result import Released, Saved, register
from privpac.rules.base import Rule, binary
from privpac.rules.enumerated import EnumeratedClass, dense_fold, limited
from privpac.rules.profile import Profile, Statistic

if TYPE_CHECKING:
    from privpac.data import Domain, UserData, Users
    from privpac.exact import Rational
    from privpac.rng import Rng


@register("chosen")
@frozen(slots=False)
class Chosen(Saved):
    """The name of a model, and of those it was chosen from."""

    name: str
    among: tuple[str, ...]

    def __attrs_post_init__(self) -> None:
        if self.name not in self.among:
            raise ParameterError("the name of a chosen model must be among those it was chosen from")

    def __str__(self) -> str:
        return f"{self.name} (chosen from {', '.join(self.among)})"


@frozen(slots=False, eq=False)
class Candidates(EnumeratedClass):
    """Models by name, as a class of rules: model ``h`` makes a mistake where it says anything but the label."""

    models: Mapping[str, object]
    labels: tuple[object, object] | None = None
    rowwise: bool = False
    predictors: tuple[Predictor, ...] = ()

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.models, Mapping) or not self.models:
            raise ParameterError("models must name the predictors: {'tree': tree, 'linear': linear}")
        if not all(isinstance(name, str) and name for name in self.models):
            raise TypeError("models must be named by texts")
        limited(len(self.models), "the list of models", "choose among fewer")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.models)

    @property
    def size(self) -> int:
        return len(self.models)

    @property
    def vc_dimension(self) -> int:
        """At most: ``k`` rules shatter no more than ``log2 k`` points."""
        return self.size.bit_length() - 1

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {}

    def with_columns(self, columns: Mapping[str, Domain]) -> Candidates:
        return self

    def bind(self, users: Users) -> tuple[Candidates, Users]:
        """The models with the columns they read; errors here come before any spend."""
        binary(users, "an evaluation")
        if getattr(users, "labels", ()) is None:
            raise ParameterError("the data have no labels: name the label column when they are built")
        bound: list[Predictor] = []
        for model in self.models.values():
            predictor, users = bind_predictor(model, users, labels=self.labels, rowwise=self.rowwise)
            bound.append(predictor)
        return Candidates(self.models, self.labels, self.rowwise, tuple(bound)), users

    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        raise ParameterError("a model is known by its name; see names")

    def table(self, codes: Mapping[str, NDArray[np.uint64]], first: int, last: int) -> NoReturn:
        raise ParameterError("models are asked about whole users, not about codes")

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        labels: Any = users.labels
        # A record is known by who is right about it: then the label is 1, and model h says 1 iff it is right.
        packed = np.packbits(np.stack([p.predictions(users) == labels for p in self.predictors], axis=1), axis=1)
        rows, place = np.unique(packed, axis=0, return_inverse=True)
        table = np.unpackbits(rows, axis=1, count=self.size)
        return dense_fold(
            place.reshape(-1).astype(np.uint64),
            np.ones(len(labels), np.uint8),
            users.offsets,
            statistic,
            size=self.size,
            n_points=len(rows),
            table=lambda first, last: table[:, first:last],
        )


@frozen(slots=False)
class ModelChoice(Learner):
    """Choose one of some fixed models.

    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0), (80, 1)], [(20, 0)]] * 200, features={"age": pp.Integers(0, 99)})
    >>> models = {"old": lambda table: table["age"] > 50, "young": lambda table: table["age"] < 50}
    >>> ModelChoice(models, 1).learn(people).value.name
    'old'
    """

    models: Mapping[str, object]
    epsilon: Rational
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE
    unit: Unit | str = Unit.USER
    max_records: int | None = None
    labels: tuple[object, object] | None = field(default=None, kw_only=True)
    rowwise: bool = field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        assert self.hybrid is not None  # parameters are checked before any data

    @property
    def concept(self) -> Candidates:
        return Candidates(self.models, self.labels, self.rowwise)

    @property
    def hybrid(self) -> HybridSelection:
        """The learner that chooses."""
        return HybridSelection(self.concept, self.epsilon, self.neighbours, self.unit, self.max_records)

    @property
    def guarantee(self) -> Guarantee:
        return self.hybrid.guarantee

    def bind(self, data: Users) -> Bound:
        bound = self.hybrid.bind(data)
        candidates: Any = bound.concept
        for predictor in candidates.predictors:
            check_reads(predictor, bound.users)
        return bound

    def draw(self, bound: Bound, rng: Rng) -> Released:
        hybrid = self.hybrid
        drawn = hybrid.scores(bound).law(hybrid.rate(hybrid.epsilon, hybrid.levels)).sample(rng)
        names = tuple(self.models)
        chosen = Chosen(names[int(drawn) % len(names)], names)
        return Released(
            chosen,
            self.guarantee,
            parameters={"size": len(names)},
            warnings=hybrid.warnings,
            learner="hybrid selection",
        )


# The best of several settings, learned and chosen under one guarantee.
#
# People are dealt into two parts by a keyed hash of who they are.  On one part every setting learns its rule, with an
# equal part of that part's budget; on the other part the best of these rules is chosen (:class:`ModelChoice`).  A
# search by cross-validation would spend its budget once for every fold and setting, and publish every score.
#
# **Guarantee.**  The rules of the first part compose by addition, the choice is one more release on other people, and
# the two parts compose as in :mod:`privpac.evaluation.together`: the whole costs epsilon per user.


@frozen(slots=False)
class _BoundRules:
    rules: Mapping[str, Any]
    choosers: UserData


@frozen(slots=False, field_transformer=named)
class SearchLearner(Learner):
    """Learn a rule with each of some ``learners`` on some people, choose one of the rules on the others.

    The learners are built for the learning part's :class:`PartBudget`, and share it; ``share`` of the people choose.
    """

    learners: Mapping[str, Learner]
    budget: PartBudget
    share: Fraction = attrs_field(default=Fraction(1, 2), converter=probability)
    max_records: int | None = attrs_field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not self.learners:
            raise ParameterError("a search needs at least one setting")
        for name, learner in self.learners.items():
            if learner.guarantee.neighbours is not self.budget.neighbours:
                raise IncompatibleGuarantees(
                    f"{name} promises {learner.guarantee.neighbours} only, and the parts of a split need "
                    f"{self.budget.neighbours}; leave this setting out"
                )
        if self._learned.epsilon > self.budget.epsilon:
            raise ParameterError(
                f"the settings cost epsilon {self._learned.epsilon} together, more than the {self.budget.epsilon} of "
                "their people; give each an equal part"
            )

    @property
    def _learned(self) -> Guarantee:
        return compose_basic([learner.guarantee for learner in self.learners.values()])

    def _choice(self, models: Mapping[str, object]) -> ModelChoice:
        unit: Unit = next(iter(self.learners.values())).guarantee.unit
        return ModelChoice(models, self.budget.epsilon, self.budget.neighbours, unit, self.max_records, rowwise=True)

    @property
    def guarantee(self) -> Guarantee:
        return self.budget.compose(self._learned, self._choice(dict.fromkeys(self.learners, _silent)).guarantee)

    def bind(self, data: Any) -> _BoundRules:
        if not hasattr(data, "split"):
            raise TypeError(f"data must be UserData, got {type(data).__name__}")
        share, users = self.share, data
        for learner in self.learners.values():  # columns are checked for all people, before they are dealt
            concept = getattr(learner, "concept", getattr(learner, "tree", None))
            users = users if concept is None else concept.bind(users)[1]
        parts = users.split({"learn": 1 - share, "choose": share}, ids=self.budget.ids)
        return _BoundRules(
            {name: learner.bind(parts["learn"]) for name, learner in self.learners.items()}, parts["choose"]
        )

    def draw(self, bound: _BoundRules, rng: Rng) -> Released:
        drawn = {name: learner.draw(bound.rules[name], rng) for name, learner in self.learners.items()}
        # A setting that released nothing is right about nobody.
        choice = self._choice({name: found.value if found else _silent for name, found in drawn.items()})
        chosen = choice.draw(choice.bind(bound.choosers), rng).value.name
        best = drawn[chosen]
        shown = {"chosen": chosen, "among": len(drawn), "chosen by": f"{self.share} of the people"}
        return evolve(best, guarantee=self.guarantee, parameters={**best.parameters, **shown})


def _silent(table: Any) -> list[int]:
    """Neither 0 nor 1: wrong about every record."""
    return [2] * len(table)
