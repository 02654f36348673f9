"""A second plan for learners that may answer "nothing", declared beforehand.

A public constant costs nothing: replacing ``BOTTOM`` by it is post-processing.  A second learner is paid for whether or
not it runs: the guarantee is the sum of both, announced before any data, because that it ran is known from the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attrs import frozen

from privpac.composition import compose_basic
from privpac.guarantee import Guarantee
from privpac.learners.base import Learner
from privpac.released import Released, rule_to_dict
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["WithFallback"]


@frozen(slots=False)
class WithFallback(Learner):
    """``inner``, and ``fallback`` where it gives no answer.

    Parameters
    ----------
    inner : Learner
        The learner that may give no answer.
    fallback : rule, value or Learner
        A public constant, which costs nothing, or a second learner, which is paid for whether or not it runs.

    >>> from privpac.learners.transform.deletion import DeletionStability
    >>> shy = DeletionStability(lambda users: {max(users): 1}, 1, "0.01", ladder=1)
    >>> released = WithFallback(shy, 0).learn([1, 2, 3])
    >>> released.outcome in ("default", "released"), str(released.guarantee)
    (True, '(1, 0.01)-DP per user, replace')
    """

    inner: Learner
    fallback: Any

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.inner, Learner):
            raise TypeError(f"inner must be a learner of this library, got {type(self.inner).__name__}")
        if self.fallback is None:
            raise TypeError("fallback must be a public rule or value, or a learner; None was given")
        if isinstance(self.fallback, Learner):
            self.inner.guarantee.require_same_tags(self.fallback.guarantee)
        else:
            rule_to_dict(self.fallback)  # a constant that could not be saved is refused now, not after the spend

    @property
    def guarantee(self) -> Guarantee:
        first = self.inner.guarantee
        return compose_basic([first, self.fallback.guarantee]) if isinstance(self.fallback, Learner) else first

    def bind(self, data: Users) -> Any:
        return self.inner.bind(data), self.fallback.bind(data) if isinstance(self.fallback, Learner) else None

    def draw(self, bound: Any, rng: Rng) -> Released:
        first, second = bound
        found = self.inner.draw(first, rng)
        if found:
            return replace(found, guarantee=self.guarantee)
        if isinstance(self.fallback, Learner):
            return replace(self.fallback.draw(second, rng), guarantee=self.guarantee)
        return replace(found, hypothesis=self.fallback, outcome="default", warnings=found.warnings[:-1])
