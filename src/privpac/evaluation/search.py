"""The best of several settings, learned and chosen under one guarantee.

People are dealt into two parts by a keyed hash of who they are.  On one part every setting learns its rule, with an
equal part of that part's budget; on the other part the best of these rules is chosen (:class:`ModelChoice`).  A search
by cross-validation would spend its budget once for every fold and setting, and publish every score.

**Guarantee.**  The rules of the first part compose by addition, the choice is one more release on other people, and the
two parts compose as in :mod:`privpac.evaluation.together`: the whole costs epsilon per user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.composition import compose_basic
from privpac.errors import IncompatibleGuarantees, ParameterError
from privpac.evaluation.candidates import ModelChoice
from privpac.evaluation.together import PartBudget
from privpac.guarantee import Guarantee, Unit
from privpac.learners.base import Learner
from privpac.parameters import named, probability
from privpac.released import Released

if TYPE_CHECKING:
    from privpac.data import UserData
    from privpac.rng import Rng

__all__ = ["SearchLearner"]


@dataclass(frozen=True)
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
    share: Fraction = field(default=Fraction(1, 2), converter=probability)
    max_records: int | None = field(default=None, kw_only=True)

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

    def _choice(self, models: Mapping[str, Any]) -> ModelChoice:
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
        choice = self._choice({name: found.hypothesis if found else _silent for name, found in drawn.items()})
        chosen = choice.draw(choice.bind(bound.choosers), rng).hypothesis.name
        best = drawn[chosen]
        shown = {"chosen": chosen, "among": len(drawn), "chosen by": f"{self.share} of the people"}
        return replace(best, guarantee=self.guarantee, parameters={**best.parameters, **shown})


def _silent(table: Any) -> list[int]:
    """Neither 0 nor 1: wrong about every record."""
    return [2] * len(table)
