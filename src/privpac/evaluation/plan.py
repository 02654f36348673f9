"""How many people does an evaluation need?  Half-widths of its intervals, before any data.

Not a promise but a formula: what the intervals of :class:`~privpac.evaluation.Evaluation` are when the noise is 0 and
the error is what is expected; noise moves their middle, hardly their width.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from attrs import evolve

from privpac.bisection import least_from
from privpac.errors import InfeasibleError, ParameterError
from privpac.evaluation.evaluator import Evaluator
from privpac.evaluation.results import Cells, Evaluation, percent, sure
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.parameters import DEFAULT_LEVELS

__all__ = ["EvaluationPlan", "plan_evaluation"]

MOST = 1 << 40


@dataclass(frozen=True)
class EvaluationPlan:
    """Half-widths of the error's two intervals with ``n_users`` people."""

    n_users: int
    epsilon: Fraction
    error: Fraction
    confidence: Fraction
    these: float
    like: float
    cells: Cells
    neighbours: Neighbours

    def __str__(self) -> str:
        return (
            f"{self.n_users:,} people, epsilon {float(self.epsilon):g}, {self.neighbours}: an error of "
            f"{percent(float(self.error))} is known to {100 * self.these:.2g} points for these people, to "
            f"{100 * self.like:.2g} points for people like these ({sure(self.confidence)})"
        )


def plan_evaluation(
    n_users: int | None = None,
    *,
    epsilon: Rational,
    half_width: Rational | None = None,
    error: Rational = "0.1",
    confidence: Rational = "0.95",
    cells: Cells = "table",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    these: bool = False,
) -> EvaluationPlan:
    """The half-widths with so many people, or the least number of people for a half-width.

    Parameters
    ----------
    n_users : int, optional
        How many people will be evaluated (public).  Give this or ``half_width``.
    epsilon : rational
        Budget of the evaluation.
    half_width : rational, optional
        Half-width wanted of the interval for people like these (``these=True``: for these people).
    error : rational
        The error that is expected; a guess, used for the width only.
    these : bool
        Whether ``half_width`` is that of the interval for these people.
    confidence, cells, neighbours
        As in :func:`privpac.evaluate`.

    Examples
    --------
    >>> print(plan_evaluation(2000, epsilon=1))
    2,000 people, epsilon 1, add-remove: an error of 10 % is known to 0.37 points for these people, to 2.5 points for \
people like these (95 % sure)
    >>> plan_evaluation(epsilon=1, half_width="0.02").n_users
    2989
    """
    if (n_users is None) == (half_width is None):
        raise ParameterError("give n_users= (how wide will the interval be?) or half_width= (how many people?)")
    wanted = rational(error, "error", minimum=0, maximum=1)
    relation = one_of(Neighbours, neighbours, "neighbours")
    learner = Evaluator(lambda table: table, epsilon, relation, cells=cells, confidence=confidence)

    def planned(n: int) -> EvaluationPlan:
        rate = _expected(learner, n, wanted).error
        assert rate.like is not None
        here, there = ((interval.hi - interval.lo) / 2 for interval in (rate.these, rate.like))
        return EvaluationPlan(n, rational(epsilon), wanted, rational(confidence), here, there, cells, relation)

    if n_users is not None:
        return planned(positive_int(n_users, "n_users", maximum=MOST))
    target = float(rational(half_width or 0, "half_width", above=0, maximum=1))

    def enough(n: int) -> bool:
        plan = planned(n)
        return n > MOST or (plan.these if these else plan.like) <= target

    least = least_from(enough, 1)
    if least > MOST:
        raise InfeasibleError(f"no number of people up to {MOST:,} gives a half-width of {target:g}")
    return planned(least)


def _expected(learner: Evaluator, n: int, error: Fraction) -> Evaluation:
    """The evaluation of ``n`` people with this error, without noise; labels are balanced."""
    whole = n * DEFAULT_LEVELS
    wrong = int(error * whole)
    found = Evaluation(
        (whole - wrong, wrong) if learner.cells == "error" else (0, 0, 0, 0),
        learner.cells,
        "user",
        DEFAULT_LEVELS,
        learner.noise,
        learner.neighbours,
        learner.confidence,
    )
    if learner.cells == "table":
        right = whole - wrong
        return evolve(found, sums=((right + 1) // 2, wrong // 2, wrong - wrong // 2, right // 2))
    return evolve(found, sums=(wrong,), people=n) if learner.knows_people else found
