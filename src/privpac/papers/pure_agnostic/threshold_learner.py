"""Agnostic learning of a threshold at user level, over any number of values.

``method="direct"`` selects among all cuts at once
(:class:`~privpac.papers.pure_agnostic.counting.UserAgnosticLearner`), ``"search"`` halves the mass with private medians
(:class:`~privpac.papers.pure_agnostic.search.ThresholdSearch`). ``"auto"`` compares the numbers of users that the two
certify for ``alpha``, ``beta`` and the public number of records, and takes the smaller; that has been ``"direct"`` in
every configuration seen so far.  The search is offered for completeness and comparison: its advantage is asymptotic.

**Guarantee.**  ``(epsilon, 0)`` per user whichever method runs; the choice reads public numbers only.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.guarantee import Guarantee, Neighbours
from privpac.law import Law
from privpac.methods.base import Bound
from privpac.papers.pure_agnostic.agnostic_sample_size import plan_threshold_search, plan_user_agnostic
from privpac.papers.pure_agnostic.counting import NoiseKnowledge, UserAgnosticLearner
from privpac.papers.pure_agnostic.median_cut import PrivateMedian, require_cuts
from privpac.papers.pure_agnostic.search import SearchSteps, ThresholdSearch
from privpac.parameters import DEFAULT_BETA, named, one_word_of, part, probability
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.base import ConceptClass

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["METHODS", "PrivateMedian", "ThresholdLearner", "ThresholdSearch"]

METHODS = ("auto", "direct", "search")
_USUAL = 16
"""Records per user assumed by ``auto`` when nothing is declared."""


@lru_cache(maxsize=256)
def _better(
    points: int,
    m: int,
    alpha: Fraction,
    beta: Fraction,
    epsilon: Fraction,
    neighbours: Neighbours,
    share: Fraction,
    estimator: str,
    noise: tuple[Fraction, Fraction] | None,
    theta: Fraction,
) -> str:
    """The method that certifies fewer users."""
    common: dict[str, Any] = {"records_per_user": m, "alpha": alpha, "beta": beta, "epsilon": epsilon}
    common |= {"neighbours": neighbours, "share": share, "estimator": estimator}
    direct = plan_user_agnostic(log_size=math.log(points + 1), dimension=1, noise=noise, **common).n_users
    search = plan_threshold_search(log_domain=math.log(points), theta=theta, **common).n_users if points > 1 else None
    return "search" if search is not None and (direct is None or search < direct) else "direct"


@frozen(slots=False, init=False, field_transformer=named)
class ThresholdLearner(NoiseKnowledge):
    """Learn one cut; see the module for the methods.

    Parameters
    ----------
    method : {"auto", "direct", "search"}
        ``"auto"`` takes the one that certifies fewer users, from public numbers.
    beta : number
        How often the aim may be missed, for that choice (public); default 1/20.
    steps : SearchSteps
        Given by its own parameters: ``branch``, ``theta``, ``region``, ``rounds``.

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> from privpac.rules import Thresholds
    >>> learner = ThresholdLearner(Thresholds(), epsilon=1, tolerance=0)
    >>> learner.law(people).mode, learner.chosen(people.features["x"].size)
    (4, 'direct')
    """

    method: str = field(default="auto", kw_only=True, validator=one_word_of(METHODS))
    beta: Fraction = field(default=DEFAULT_BETA, kw_only=True, converter=probability)
    steps: SearchSteps = part(SearchSteps)

    def __attrs_post_init__(self) -> None:
        cuts = require_cuts(self.concept)
        super().__attrs_post_init__()
        if self.method == "search" or cuts != "both":
            _ = self.search  # its own limits, before any data

    # The two learners

    def _common(self) -> dict[str, Any]:
        same = ("concept", "epsilon", "neighbours", "unit", "max_records", "sizes", "known")
        return {name: getattr(self, name) for name in same}

    @property
    def direct(self) -> UserAgnosticLearner:
        return UserAgnosticLearner(**self._common())

    @property
    def search(self) -> ThresholdSearch:
        return ThresholdSearch(**self._common(), steps=self.steps)

    def chosen(self, points: int) -> str:
        """The method for a domain of so many values: a function of public numbers."""
        if self.method != "auto":
            return self.method
        if self.concept.cut_direction == "both" or self.epsilon == 0:
            return "direct"
        m = min(self.known.records_per_user or self.largest or _USUAL, 1 << 12)
        return _better(
            points,
            m,
            self.known.alpha,
            self.beta,
            self.epsilon,
            self.neighbours,
            self.known.share,
            self.known.estimator,
            self.known.noise,
            self.steps.theta,
        )

    def learner(self, concept: ConceptClass) -> UserAgnosticLearner | ThresholdSearch:
        """The learner for a class whose domain is known."""
        points = concept.size // len(concept.directions) - 1
        return self.direct if self.chosen(points) == "direct" else self.search

    @property
    def guarantee(self) -> Guarantee:
        direct = self.direct.guarantee
        if self.method == "direct" or self.concept.cut_direction == "both":
            return direct
        search = self.search.guarantee
        if self.method == "search" or (search.rho or 0) > (direct.rho or 0):
            return search
        return direct

    # Running the one that was chosen

    def bind(self, data: Users) -> Bound:
        bound = super().bind(data)
        self._of(bound)
        return bound

    def _of(self, bound: Bound) -> UserAgnosticLearner | ThresholdSearch:
        return self.learner(bound.concept)

    def given_law(self, bound: Bound, estimate: Fraction | None) -> Law:
        return self._of(bound).given_law(bound, estimate)

    def tolerance_of(self, data: Users, estimate: Fraction | None = None) -> Any:
        """The table of tolerances that the chosen method uses (public, given the estimate)."""
        return self._of(self.bind(data)).tolerance_given(estimate)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        chosen = self._of(bound)
        released = chosen.draw(bound, rng)
        shown = dict(released.parameters) | {
            "method": "direct" if isinstance(chosen, UserAgnosticLearner) else "search"
        }
        return Released(
            released.hypothesis, self.guarantee, parameters=shown, warnings=self.warnings, learner=released.learner
        )
