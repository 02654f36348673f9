"""Two voices: the default learner for real, noisy labels.

Two voices score every rule: the *clip voice* ``C`` by how much worse than each user's own best rule it does, cut off at
``own_clip(m)``, and the *mean voice* ``M`` by per-user averages (``concepts.voices``).  One exponential law over pairs
(voice, rule) is sampled, and only the rule is released.  The mean voice pays a handicap, so that with few users the
clip voice speaks and with many the unbiased mean:

    P(clip, h) ~ exp(-theta C(h) / levels)          theta = epsilon (add-remove) or epsilon / 2 (replace) P(mean, h) ~
    exp(-theta A(h) / levels)          A = M + min(D, K) + B,   D the users' own luck, summed K = floor(4 bits levels /
    theta)                B = floor(bits levels / theta),   bits = bit length of |H| - 1, at least 1

No number of users is needed, declared or bought.

**Guarantee.**  ``(epsilon, 0)`` per user and ``epsilon**2 / 8``-zCDP, for the pair and hence for the rule.  Add one
user: every clip score grows by an integer in ``0..levels``; every mean score by ``v + w`` with ``v = floor(levels r /
m) <= levels - d`` (the room, see ``concepts.voices``) and ``w = min(D + d, K) - min(D, K)`` in ``0..d``, since ``x ->
min(x, K)`` rises by at most its argument's rise.  So all ``2 |H|`` scores grow within one interval ``[0, levels]``; a
user without records adds 0.  The range rule of ``learners.base`` applies with ``R = levels`` under add-remove and ``2 *
levels`` under replace.  Forgetting the voice is post-processing.

**Accuracy.**  ``C >= M`` for every rule and the handicap is at most ``5 bits / theta`` users' votes, whatever their
number: the error tends to that of the best rule whoever the users are (``bounds.voices``).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from privpac.concepts.base import ConceptClass
from privpac.concepts.profile import Profile, Step
from privpac.concepts.statistics import DEFAULT_LEVELS
from privpac.concepts.voices import Voices
from privpac.law import Law
from privpac.learners.base import Bound, Selection, drawn_id, profile_of
from privpac.parameters import bounds, handicap, named, whole
from privpac.released import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["TwoVoices"]


@frozen(slots=False, field_transformer=named)
class TwoVoices(Selection):
    """The user gives epsilon and a domain and nothing else.

    Parameters
    ----------
    levels : int, optional
        Steps in which a user's contribution is counted (public).

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> learner = TwoVoices(Thresholds(), epsilon=1)
    >>> str(learner.guarantee)
    '(1, 0)-DP per user, add-remove'
    >>> learner.law(people).mode, learner.rule_law(people).mode
    (4, 4)
    """

    levels: int = field(default=DEFAULT_LEVELS, converter=whole, metadata=bounds(maximum=1 << 31))

    @property
    def theta(self) -> Fraction:
        """The per-user privacy of the selection: ``eta * levels``."""
        return self.rate(self.epsilon, 1)

    def handicap(self, bits: int) -> tuple[int, int]:
        """``K``, the most that luck is worth to the mean voice, and ``B``, what it pays in any case; constants of the
        law.

        >>> from privpac.concepts import Thresholds
        >>> TwoVoices(Thresholds(), epsilon="1/2", neighbours="replace").handicap(1)
        (13440, 3360)
        """
        return handicap(self.theta, bits, self.levels)

    # Laws

    def scores(self, bound: Bound) -> Profile:
        """The scores of all pairs: clip voice at ids ``0..|H| - 1``, mean voice at ``|H|..2|H| - 1``."""
        folded = profile_of(bound, Voices(self.levels))
        if self.epsilon == 0:  # nothing is told apart
            return Profile(tuple(Step(s.offset, s.starts, s.end, np.zeros_like(s.scores)) for s in folded.steps))
        _, more = self._added(folded.luck, bound)
        return Profile(
            tuple(
                s if s.offset < bound.concept.size else Step(s.offset, s.starts, s.end, s.scores + more)
                for s in folded.steps
            )
        )

    def _added(self, luck: int, bound: Bound) -> tuple[int, int]:
        """What each voice adds to its scores: nothing, and the handicap."""
        most, always = self.handicap(bound.concept.bits)
        return 0, min(luck, most) + always

    def law(self, data: Users) -> Law:
        """The law over pairs: id ``h`` is (clip, rule h), id ``|H| + h`` is (mean, rule h)."""
        return self._law(self.bind(data))

    def rule_law(self, data: Users) -> Law:
        """The law of what is released, the rule's id alone."""
        bound = self.bind(data)
        size = bound.concept.size

        def rules(ids: Any) -> range:
            return range(ids.start % size, ids.start % size + (ids.stop - ids.start))

        return self._law(bound).map_blocks(rules)

    def outcome_text(self, concept: ConceptClass, pair: int) -> str:
        """A value of the law in words, for audits."""
        voice, rule = divmod(pair, concept.size)
        return f"{concept.decode(rule)} ({('clip', 'mean')[voice]} voice)"

    def shown_as(self, bound: Any, value: Any) -> tuple[str, str] | None:
        return super().shown_as(bound, value % bound.concept.size)  # which voice it was is not shown

    def _law(self, bound: Bound) -> Law:
        return self.scores(bound).law(self.rate(self.epsilon, self.levels))

    def draw(self, bound: Bound, rng: Rng) -> Released:
        return self.release_id(
            bound, self._pair(bound, rng) % bound.concept.size, {"levels": self.levels}, "two voices"
        )

    def _pair(self, bound: Bound, rng: Rng) -> int:
        """One draw from the law of ``law``, without laying it out where two profiles of millions of blocks would be
        copied."""
        if self.epsilon == 0:
            return int(self._law(bound).sample(rng))
        eta = self.rate(self.epsilon, self.levels)
        return drawn_id(bound, Voices(self.levels), eta, rng, lambda luck: self._added(luck, bound))
