"""The record of one method of ``learn``: all that is known of it, as fields.

The methods themselves are in :mod:`privpac.methods.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from privpac import methods as learners
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours, Unit
from privpac.rules.rules import ClassOfRules

__all__ = ["AGREEING", "ANY_LABELS", "MEASURED", "PROMISES", "RIGHT_RULE", "Method", "Need", "scored"]

Need = tuple[str, ...]
"""Parameters one of which has to be declared."""

PROMISES = {
    "pure": "(ε, 0)",
    "either": "(ε, δ), or (ε, 0) with δ = 0",
    "approximate": "(ε, δ), δ > 0",
}
"""What a method guarantees, by whether its learner takes no delta, may take one, or needs one."""

ANY_LABELS = "certified for any labels"
RIGHT_RULE = "certified where some rule is right"
AGREEING = "certified where people agree"
MEASURED = "measured, not certified"


def scored(concept: Any) -> bool:
    """Whether the rules of a class can be scored one by one."""
    return isinstance(concept, ClassOfRules) and concept.scored


@dataclass(frozen=True)
class Method:
    """What is known of one method."""

    key: str
    """What people type."""
    title: str
    """Its name in sentences, and in the rows of a plan."""
    learner: str | type[Any]
    """A class of ``privpac.methods``, or one of one's own."""
    about: str
    """What it does."""
    when: str
    """When to use it, in a sentence."""
    preset: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the learner that make it this method."""
    by_setting: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameters that follow the declared setting, unless they are given."""
    subject: str = "concept"
    """The learner's field for what is learned: ``"concept"``, or ``"tree"``."""
    sized: bool = False
    """Whether its parameters follow the size of the class, which therefore takes its domains from the data first."""
    keeps_trees: bool = False
    """Whether a tree is learned as it is; otherwise as the class of its nodes."""
    learns: Callable[[Any], bool] = scored
    rules: str = "every class whose rules can be scored one by one"
    """Of which classes it learns a rule, as a function and in words."""
    setting: str | None = "agnostic"
    """The labels it is for: ``"agnostic"`` (any), ``"realizable"`` (some rule is right), None: either."""
    promise: str = "pure"
    """A key of :data:`PROMISES`."""
    accuracy: str = ANY_LABELS
    needs: tuple[Need, ...] = ()
    """What has to be declared for every class."""
    relations: Mapping[Neighbours, tuple[Need, ...]] = field(
        default_factory=lambda: {Neighbours.ADD_REMOVE: (), Neighbours.REPLACE: ()}
    )
    """The relations it can promise, each with what has to be declared besides."""
    units: tuple[Unit, ...] = (Unit.USER, Unit.ITEM)
    certificates: tuple[str, ...] = ()
    """The certified rows of a plan for rules or trees that speak of it."""
    simulated: bool = False
    """Whether a plan predicts it on the standard model of a class or tree, in a row of its title."""
    exact_law: bool = True
    """Whether its law over a class of some thousand rules costs less than a few runs."""
    own_parameters: tuple[str, ...] = ()
    """Who gives one of these without naming a method has chosen this one."""

    def __post_init__(self) -> None:
        if not self.key.replace("-", "").isalnum() or self.key == "auto":
            raise ParameterError(f"a method's key is a word other than 'auto', such as 'mean'; got {self.key!r}")
        if self.promise not in PROMISES:
            raise ParameterError(f"promise must be one of {', '.join(PROMISES)}; got {self.promise!r}")

    def load(self) -> type[Any]:
        found: type[Any] = getattr(learners, self.learner) if isinstance(self.learner, str) else self.learner
        return found

    def fits(self, setting: str | None) -> bool:
        """Whether it is for the labels of a setting; None stands for both."""
        return setting is None or self.setting in (None, setting)
