"""Points cards by full-batch gradient descent on clipped integer gradients, with exact discrete Gaussian noise.

*Problem.*  A table of 5 to 30 mixed columns, many of them weakly informative, and hundreds of people or more: one
question or a small tree reads too few columns, a card adds up all of them.

*Theorem.*  Number of users (if bought), noisy centre, noisy norms and all noisy gradient sums together are ``(epsilon,
delta)`` per user, and ``rho``-zCDP.  *Proof.*  (i) Each pass maps a user's own records and *released* numbers to an
integer vector of bounded norm (:mod:`privpac.learners.wide.card_kernels`), so one user more or less moves the sum by at
most that bound, a replaced one by at most twice that; two norms in ``0..B0`` are at most ``B0`` apart.  (ii) Discrete
Gaussian noise of ``sigma2 = moved**2 / (2 share) + 4`` hides such a move at its share of ``rho``, and shares compose to
``(epsilon, delta)`` as those of continuous noise do (:mod:`privpac.mechanisms.gaussian_privacy`).  (iii) The clip of
the steps follows the released norm: a public number, the same for both neighbours, and the variance follows the clip,
so every step costs its share whatever the clip is; shares fixed in advance add up.  Centre, clip size, weights, points
and threshold are functions of these releases: post-processing.

*More than two labels.*  One card against the rest for each label: a label is an answer, right or wrong, to each card's
question, so every card's passes are those above.  They are noised apart, each with its own share.

There is no law to list: the card is a function of thousands of noisy integers.  What can be enumerated is tested pass
by pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from privpac.concepts.base import Rule
from privpac.concepts.cards.against import Cards
from privpac.concepts.cards.card import Band, Card
from privpac.concepts.cards.codes import CodeTable
from privpac.concepts.cards.family import PointsCard
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Guarantee, Neighbours
from privpac.learners.base import Bound, Selection
from privpac.learners.wide.card_arithmetic import (
    MAX_USERS,
    CardPoints,
    centre_clip,
    clamp,
    clip_size,
    norm_cap,
    points_against,
    points_of,
    shrunk_centre,
    training_time,
    updated,
)
from privpac.learners.wide.card_budget import CardBudget
from privpac.learners.wide.card_calibration import SAME_PEOPLE, CalibrationPass, bands_from
from privpac.learners.wide.card_kernels import DescentState
from privpac.learners.wide.card_passes import CentrePass, CountPass, NormPass, Pass, StepPass, passes_over
from privpac.mechanisms.gaussian import discrete_gaussian, gaussian_noise
from privpac.mechanisms.gaussian_privacy import SMOOTHING, gaussian_within
from privpac.parameters import bounds, named, probability_or_zero, whole_or_none
from privpac.released import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.law import Law

__all__ = ["CardLearner"]

Run = Callable[[Pass], list[int]]


@frozen(slots=False, field_transformer=named)
class CardLearner(Selection):
    """Release one points card.

    Parameters
    ----------
    concept
        A :class:`PointsCard`: columns, cuts, missing values, steps, top, classes.
    delta
        The promise may fail with this probability; needed.
    public_n_users
        A rough, public number of people; without it a noisy count is bought for 1/16 of the budget under add-remove.
        A wrong one harms accuracy only.
    calibrate
        A share of the budget, such as ``"1/10"``, for how often the label is 1 in each of five bands of points.

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(x, 9 - x, int(x > 4)) for x in range(10)]] * 300,
    ...     features={"x": Integers(0, 9), "y": Integers(0, 9)})
    >>> learner = CardLearner(PointsCard(), epsilon=1, delta="1e-6", public_n_users=300)
    >>> str(learner.guarantee), learner.learn(people).hypothesis.predict([[0, 9], [9, 0]]).tolist()
    ('(1, 1e-06)-DP per user, add-remove', [0, 1])
    """

    delta: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    public_n_users: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=MAX_USERS))
    calibrate: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    scores_rules: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not isinstance(self.concept, PointsCard):
            raise ParameterError(
                f"the method 'card' learns a PointsCard over named columns, not {type(self.concept).__name__}"
            )
        if self.delta == 0:
            raise ParameterError("a points card needs delta > 0, such as delta='1e-6'; a small tree needs none")
        if self.epsilon == 0:
            raise ParameterError("a points card needs epsilon > 0")
        _ = self.rho

    @property
    def rho(self) -> Fraction:
        """What is spent in all: half the square of the distance of two normal laws as far apart; as zCDP the same."""
        return gaussian_within(self.epsilon, self.delta)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, rho=self.rho)

    @property
    def card(self) -> PointsCard:
        assert isinstance(self.concept, PointsCard)
        return self.concept

    def budget(self, columns: int, cards: int = 1) -> CardBudget:
        """The shares of so many cards of so many columns."""
        bought = self.public_n_users is None and self.neighbours is Neighbours.ADD_REMOVE
        steps = self.card.steps
        return CardBudget(self.rho, columns, steps, self.neighbours, bought, self.calibrate, cards, SMOOTHING)

    def bind(self, data: Users) -> Bound:
        bound = super().bind(data)
        assert isinstance(bound.concept, PointsCard)
        _ = bound.concept.codes  # too wide or without cuts: said now, before anything is spent
        return bound

    def law(self, data: Users) -> Law:
        """Not offered."""
        raise TooLargeError(
            "a points card is a function of thousands of noisy integers, so its law cannot be listed; its promise is "
            "the sum of the passes' (see privpac.learners.wide.card), and small trees have an exact law"
        )

    def draw(self, bound: Bound, rng: Rng) -> Released:
        concept = bound.concept
        assert isinstance(concept, PointsCard)
        run, table = passes_over(concept.binned, bound.users), concept.codes
        # One card about the label 1, or one about each of several labels.
        names = (bound.label,) if concept.labels == 2 else concept.classes or ()
        answers = (1,) if concept.labels == 2 else tuple(range(concept.labels))
        budget = self.budget(table.columns, len(answers))
        users = self._users(run, budget, rng)
        found, clips = _descend(run, table, concept.top, budget, users, answers, rng)
        cards = tuple(
            Card(concept.binned, one.points, one.threshold, concept.top, name) for one, name in zip(found, names)
        )
        if self.calibrate:
            cards = tuple(
                replace(card, bands=_calibrated(run, card, budget, answer, rng)) for card, answer in zip(cards, answers)
            )
        rule: Rule = cards[0] if len(cards) == 1 else Cards(cards, bound.label)
        shown: dict[str, Any] = {"class": "PointsCard", "columns": table.columns, "steps": concept.steps}
        shown |= {"noisy_n_users" if budget.bought else "public_n_users": users}
        shown |= {"clip": clips[0] if len(clips) == 1 else clips, "rho": budget.rho}
        cap = {} if self.max_records is None else {"max_records": self.max_records}
        warned = (*self.warnings, *((SAME_PEOPLE,) if self.calibrate else ()))
        return Released(rule, self.guarantee, parameters=shown | cap, warnings=warned, learner="card")

    def _users(self, run: Run, budget: CardBudget, rng: Rng) -> int:
        """The number of users that sets centre, clip and training time: declared, public, or bought."""
        if self.public_n_users is not None:
            return self.public_n_users
        (count,) = run(CountPass())
        variance = budget.count_variance
        return clamp(count if variance is None else count + discrete_gaussian(variance, rng), 1, MAX_USERS)


def _calibrated(run: Run, card: Card, budget: CardBudget, answer: int, rng: Rng) -> tuple[Band, ...]:
    variance = budget.calibration_variance
    assert variance is not None
    work = CalibrationPass(card, answer)
    return bands_from(work.edges, _noisy(run(work), variance, rng), variance)


def _noisy(sums: list[int], variance: Fraction, rng: Rng) -> list[int]:
    return [value + more for value, more in zip(sums, gaussian_noise(variance, len(sums), rng))]


def _descend(
    run: Run, table: CodeTable, top: int, budget: CardBudget, users: int, answers: tuple[int, ...], rng: Rng
) -> tuple[list[CardPoints], tuple[int, ...]]:
    """Centre, norms, steps, points; in this order, each from what was released before.  The cards of several answers
    walk side by side, each noised by itself."""
    columns, steps, size = table.columns, budget.steps, table.coordinates + 1
    summed = _noisy(run(CentrePass(table, centre_clip(columns))), budget.centre_variance, rng)
    centre = tuple(shrunk_centre(summed, users, budget.centre_variance))
    norms = _noisy(run(NormPass(table, centre, norm_cap(columns), answers)), budget.norm_variance, rng)
    clips = tuple(clip_size(norm, users, budget.own, columns) for norm in norms)
    time, states = training_time(users, budget.own), [DescentState.start(centre) for _ in answers]
    totals = [[0] * size for _ in answers]
    for step in range(1, steps + 1):
        sums = run(StepPass(table, tuple(states), clips, answers))
        for k, (state, clip) in enumerate(zip(states, clips)):
            moved = _noisy(sums[k * size : (k + 1) * size], budget.step_variance(clip), rng)
            states[k] = replace(state, weights=tuple(updated(state.weights, moved, time, steps, users)))
            if step > steps // 2:  # the last ceil(T/2)
                totals[k] = [a + b for a, b in zip(totals[k], states[k].weights)]
    if len(answers) == 1:
        return [points_of(table, totals[0], centre, top)], clips
    return points_against(table, totals, centre, top), clips
