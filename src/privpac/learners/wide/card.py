"""Points cards by full-batch gradient descent on clipped integer gradients, with exact discrete Gaussian noise.

*Problem.*  A table of 5 to 30 mixed columns, many of them weakly informative, and hundreds of people or more: one
question or a small tree reads too few columns, a card adds up all of them.

*Theorem.*  Number of users (if bought), noisy centre, noisy norm and all noisy gradient sums together are
``rho``-zCDP per user, hence ``(epsilon, delta)`` by the rigorous conversion.  *Proof.*  (i) Each pass maps a user's own
records and *released* numbers to an integer vector of bounded norm (:mod:`privpac.learners.wide.card_kernels`), so one
user more or less moves the sum by at most that bound, a replaced one by at most twice that; two norms in ``0..B0`` are
at most ``B0`` apart.  (ii) The discrete Gaussian hides such a move at ``rho = moved**2 / (2 sigma2)``
(:mod:`privpac.mechanisms.gaussian`).  (iii) The clip of the steps follows the released norm: a public number, the same
for both neighbours, and the variance follows the clip, so every step costs its share whatever the clip is; shares fixed
in advance add up.  Centre, clip size, weights, points and threshold are functions of these releases: post-processing.

There is no law to list: the card is a function of thousands of noisy integers.  What can be enumerated is tested pass
by pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

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
    points_of,
    shrunk_centre,
    training_time,
    updated,
)
from privpac.learners.wide.card_budget import CardBudget, zcdp_within
from privpac.learners.wide.card_calibration import SAME_PEOPLE, CalibrationPass, bands_from
from privpac.learners.wide.card_kernels import DescentState
from privpac.learners.wide.card_passes import CentrePass, CountPass, NormPass, Pass, StepPass, passes_over
from privpac.mechanisms.gaussian import discrete_gaussian, gaussian_noise
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
        A :class:`PointsCard`: columns, cuts, missing values, steps, top.
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
        """What is spent, as zCDP."""
        return zcdp_within(self.epsilon, self.delta)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, rho=self.rho)

    @property
    def card(self) -> PointsCard:
        assert isinstance(self.concept, PointsCard)
        return self.concept

    def budget(self, columns: int) -> CardBudget:
        """The shares of a card of so many columns."""
        bought = self.public_n_users is None and self.neighbours is Neighbours.ADD_REMOVE
        return CardBudget(self.rho, columns, self.card.steps, self.neighbours, bought, self.calibrate)

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
        budget = self.budget(table.columns)
        users = self._users(run, budget, rng)
        found, clip = _descend(run, table, concept, budget, users, rng)
        card = Card(concept.binned, found.points, found.threshold, concept.top, bound.label)
        if self.calibrate:
            card = replace(card, bands=_calibrated(run, card, budget, rng))
        shown: dict[str, Any] = {"class": "PointsCard", "columns": table.columns, "steps": concept.steps}
        shown |= {"noisy_n_users" if budget.bought else "public_n_users": users, "clip": clip, "rho": budget.rho}
        cap = {} if self.max_records is None else {"max_records": self.max_records}
        warned = (*self.warnings, *((SAME_PEOPLE,) if self.calibrate else ()))
        return Released(card, self.guarantee, parameters=shown | cap, warnings=warned, learner="card")

    def _users(self, run: Run, budget: CardBudget, rng: Rng) -> int:
        """The number of users that sets centre, clip and training time: declared, public, or bought."""
        if self.public_n_users is not None:
            return self.public_n_users
        (count,) = run(CountPass())
        variance = budget.count_variance
        return clamp(count if variance is None else count + discrete_gaussian(variance, rng), 1, MAX_USERS)


def _calibrated(run: Run, card: Card, budget: CardBudget, rng: Rng) -> tuple[Band, ...]:
    variance = budget.calibration_variance
    assert variance is not None
    work = CalibrationPass(card)
    return bands_from(work.edges, _noisy(run(work), variance, rng), variance)


def _noisy(sums: list[int], variance: Fraction, rng: Rng) -> list[int]:
    return [value + more for value, more in zip(sums, gaussian_noise(variance, len(sums), rng))]


def _descend(
    run: Run, table: CodeTable, concept: PointsCard, budget: CardBudget, users: int, rng: Rng
) -> tuple[CardPoints, int]:
    """Centre, norm, steps, points; in this order, each from what was released before."""
    columns, steps = table.columns, budget.steps
    summed = _noisy(run(CentrePass(table, centre_clip(columns))), budget.centre_variance, rng)
    centre = tuple(shrunk_centre(summed, users, budget.centre_variance))
    (norm,) = _noisy(run(NormPass(table, centre, norm_cap(columns))), budget.norm_variance, rng)
    clip = clip_size(norm, users, budget.rest, columns)
    time, variance = training_time(users, budget.rest), budget.step_variance(clip)
    state = DescentState.start(centre)
    total = [0] * (table.coordinates + 1)
    for step in range(1, steps + 1):
        moved = _noisy(run(StepPass(table, state, clip)), variance, rng)
        state = replace(state, weights=tuple(updated(state.weights, moved, time, steps, users)))
        if step > steps // 2:  # the last ceil(T/2)
            total = [a + b for a, b in zip(total, state.weights)]
    return points_of(table, total, centre, concept.top), clip
