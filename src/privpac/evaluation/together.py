"""A rule, how good it is, and how far from the best: one release, one guarantee.

People are dealt into two parts by a keyed hash of who they are (:mod:`privpac.data.split`).  One part learns the rule
and, if asked, measures the least error of the class; the other part evaluates the rule.

**Guarantee.**  *Add-remove*: a person's data lie in one part, so the whole costs the larger of the two parts' prices
(the rule drawn from the first part is a parameter of the second release; parallel composition holds for adaptive ones).
*Replace*: a person may be replaced by somebody with another id, who belongs to the other part.  Then one part loses and
the other gains a person, which no promise for replaced people covers: how many people a part holds would be published
by one that calls their number public.  So both parts run under add-remove with half of epsilon each, and the two steps
of a replacement, in one part or in two, cost the sum: epsilon.  With ``ids="public"`` (known to all, and fixed) the
split does not depend on the data, parts keep their size, and the maximum is right under replace, too.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from privpac.composition import compose_basic, compose_parallel, parallel_replace
from privpac.data.split import private_ids
from privpac.errors import IncompatibleGuarantees, ParameterError
from privpac.evaluation.best_error import BestErrorLearner, EvaluationCertificate
from privpac.evaluation.evaluator import Evaluator, how_many_bands
from privpac.evaluation.results import Evaluation, few_people
from privpac.exact import Rational, as_arb, exp_ball, rational, up
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.methods.base import Learner
from privpac.parameters import named, probability, whole
from privpac.result import Released

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privpac.data import Users
    from privpac.rng import Rng

_ROUNDED = Fraction(1, 1 << 32)
"""More than what is rounded up when the parts are put together again."""

_TWO = "evaluate= is for two labels; leave out classes=, or evaluate"


@frozen(slots=False)
class PartBudget:
    """What either part may spend, and under which relation, so that the whole costs epsilon."""

    epsilon: Fraction
    neighbours: Neighbours
    whole: Neighbours
    ids: str

    def part_delta(self, delta: Rational) -> Fraction:
        """What a part may spend of a delta, so that the whole costs no more: two steps of a replaced person cost ``(1 +
        e**epsilon)`` times a part's."""
        asked = rational(delta, "delta", minimum=0, below=1)
        if self.neighbours is self.whole:
            return asked
        return asked * (1 - _ROUNDED) / up(lambda: exp_ball(self.epsilon) + as_arb(1))

    def compose(self, learned: Guarantee, evaluated: Guarantee) -> Guarantee:
        """The promise of both parts together."""
        if self.neighbours is Neighbours.REPLACE:
            return compose_parallel([learned, evaluated], split="public")
        if self.whole is Neighbours.REPLACE:
            return parallel_replace([learned, evaluated])
        return compose_parallel([learned, evaluated], split="data")


def part_budget(epsilon: Rational, neighbours: Neighbours | str, ids: str = "private") -> PartBudget:
    """The budget of each of two disjoint parts.

    >>> part_budget(1, "add-remove").epsilon, part_budget(1, "replace").epsilon
    (Fraction(1, 1), Fraction(1, 2))
    """
    whole, moving = one_of(Neighbours, neighbours, "neighbours"), private_ids(ids)
    spent = rational(epsilon, "epsilon", above=0)
    if whole is Neighbours.REPLACE and moving:
        return PartBudget(spent / 2, Neighbours.ADD_REMOVE, whole, ids)
    return PartBudget(spent, whole, whole, ids)


_ENOUGH = 1100
"""People who give the gain of a usual rule to five points, at epsilon 1 and 95 %."""


def evaluation_share(asked: Rational, public_n_users: int | None = None) -> Fraction:
    """Which share of the people evaluates; True asks for a third, or for 1,100 people where their number is public.

    >>> evaluation_share("1/4"), evaluation_share(True), evaluation_share(True, 5000), evaluation_share(True, 10**6)
    (Fraction(1, 4), Fraction(1, 3), Fraction(11, 50), Fraction(1, 10))
    """
    if asked is not True:
        return rational(asked, "evaluate", above=0, below=1)
    if public_n_users is None:
        return Fraction(1, 3)
    share = Fraction(_ENOUGH, positive_int(public_n_users, "public_n_users"))
    return min(max(share, Fraction(1, 10)), Fraction(1, 2))


@frozen(slots=False)
class _BoundPair:
    rule: Any
    least: Any
    people: Users


@frozen(slots=False, field_transformer=named)
class EvaluatedLearner(Learner):
    """Learn on some people, evaluate on the others.

    ``learner`` and ``least`` are built for the learning part's :class:`PartBudget`; ``share`` of the people evaluate.
    ``models``: what the learner's rules stand for where they do not predict by themselves.
    """

    learner: Learner
    budget: PartBudget
    share: Fraction = field(converter=evaluation_share)
    least: BestErrorLearner | None = None
    confidence: Fraction = field(default=Fraction(19, 20), kw_only=True, converter=probability)
    records_per_user: int = field(default=1, kw_only=True, converter=whole)
    models: Mapping[str, object] | None = field(default=None, kw_only=True)
    labels: tuple[object, object] | None = field(default=None, kw_only=True)
    rowwise: bool = field(default=False, kw_only=True)
    max_records: int | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if getattr(self.concept, "classes", None) is not None:
            raise ParameterError(_TWO)
        if self.learner.guarantee.neighbours is not self.budget.neighbours:
            raise IncompatibleGuarantees(
                f"this method promises {self.learner.guarantee.neighbours} only, and the parts of a split need "
                f"{self.budget.neighbours}; choose another method, or ids='public' if ids are known to all and fixed"
            )

    @property
    def concept(self) -> Any:
        """The class of rules."""
        return getattr(self.learner, "concept", getattr(self.learner, "tree", None))

    @property
    def mode(self) -> Any:
        """That of a tree's learner."""
        return getattr(self.learner, "mode", None)

    def _evaluator(self, predictor: object) -> Evaluator:
        unit = self.learner.guarantee.unit
        return Evaluator(
            predictor,
            self.budget.epsilon,
            self.budget.neighbours,
            unit,
            confidence=self.confidence,
            max_records=self.max_records,
            labels=self.labels,
            rowwise=self.rowwise,
            bands=how_many_bands(self._public_users, self.share, self._theta),
        )

    @property
    def _public_users(self) -> int | None:
        """A number of people that the learner was told, of all of them."""
        told = getattr(self.learner, "public_n_users", None)
        return told if isinstance(told, int) else None

    @property
    def _theta(self) -> Fraction:
        spent = self.budget.epsilon
        return spent if self.budget.neighbours is Neighbours.ADD_REMOVE else spent / 2

    @property
    def guarantee(self) -> Guarantee:
        first = [self.learner.guarantee, *([] if self.least is None else [self.least.guarantee])]
        learned = first[0] if len(first) == 1 else compose_basic(first)
        return self.budget.compose(learned, self._evaluator(_no_rule).guarantee)

    def bind(self, data: Users) -> _BoundPair:
        if not hasattr(data, "split"):
            raise TypeError(f"data must be UserData, got {type(data).__name__}")
        if getattr(data, "part_of_split", False) and self.budget.neighbours is Neighbours.REPLACE:
            raise ParameterError("these people are a part of a split already; split once, with ids='public'")
        one_of(Unit, data.unit, "unit")
        # Columns are checked once, for all people, before they are dealt.
        if getattr(data, "labels", ()) is None:
            raise ParameterError("evaluate= needs labels 0 and 1: name the label column when the data are built")
        if len(getattr(data, "classes", ())) > 2:
            raise ParameterError(_TWO)
        users: Any = self.concept.bind(data)[1]
        parts = users.split({"learn": 1 - self.share, "evaluate": self.share}, ids=self.budget.ids)
        return _BoundPair(
            self.learner.bind(parts["learn"]),
            None if self.least is None else self.least.bind(parts["learn"]),
            parts["evaluate"],
        )

    def draw(self, bound: _BoundPair, rng: Rng) -> Released:
        released = evolve(self.learner.draw(bound.rule, rng), guarantee=self.guarantee)
        shown = {"evaluated on": f"{self.share} of the people"}
        if self.budget.whole is Neighbours.REPLACE:
            shown["ids"] = self.budget.ids
        released = evolve(released, parameters={**released.parameters, **shown})
        least = None if self.least is None else self.least.draw(bound.least, rng).value
        if not released:  # there is nothing to evaluate, and that is an answer
            return released if least is None else evolve(released, findings={"best_error": least})
        rule = released.value
        evaluator = self._evaluator(rule if self.models is None else self.models[rule.name])
        found = evaluator.draw(evaluator.bind(bound.people), rng).value
        findings: dict[str, object] = {"evaluation": found}
        if least is not None:
            findings["certificate"] = EvaluationCertificate(found, least, self.records_per_user)
        notes = (*released.warnings, *found.notes(), *self._few(found, released.parameters.get("size")))
        return evolve(released, findings=findings, warnings=notes)

    def _few(self, found: Evaluation, size: object) -> tuple[str, ...]:
        """Whether the people who learned were too few, by the number of those who evaluated."""
        share = float(self.share)
        people = found.n_people.sample.hi * (1 - share) / share
        spent = float(self.learner.guarantee.epsilon)
        return few_people(people, size, spent if self.budget.neighbours is Neighbours.ADD_REMOVE else spent / 2)


def _no_rule(table: object) -> object:
    """Stands in while no rule is known; never asked."""
    return table
