"""The record of one method of ``learn``: all that is known of it, as fields.

What takes code of its own (the learner, the rows of a plan, the simulation, the hard laws that attack its certificates)
is named as ``"module:attribute"`` and loaded on use, so that a record costs nothing; a class or a function will do as
well.  The methods themselves are in :mod:`privpac.methods.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from privpac import methods as learners
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours, Unit
from privpac.rules.base import ClassOfRules
from privpac.sample_size import Certificate

if TYPE_CHECKING:
    from privpac.methods.goal import RuleGoal
    from privpac.methods.planned import Asked, CertifiedRun, Target
    from privpac.methods.simulation import Simulation

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


def resolve(named: Any) -> Any:
    """What a ``"module:attribute"`` names; all else as it is.

    >>> resolve("fractions:Fraction")(1, 2)
    Fraction(1, 2)
    """
    if not isinstance(named, str):
        return named
    module, _, attribute = named.partition(":")
    return getattr(import_module(module), attribute)


def scored(concept: object) -> bool:
    """Whether the rules of a class can be scored one by one."""
    return isinstance(concept, ClassOfRules) and concept.scored


@dataclass(frozen=True)
class PlannedMethod:
    """One line of a plan.

    ``certify(m)`` is the bound on the number of users with ``m`` records each, ``kind`` what sort of number that is
    ("certified" or "lower bound"), and ``assumes`` what must hold beside what the certificate says.  ``run(m,
    certificate, asked)`` is the learner that a certified line speaks of; a line of a method of ``learn`` needs none.
    """

    name: str
    certify: Callable[[int], Certificate]
    assumes: str = ""
    kind: str = "certified"
    run: Callable[[int, Certificate, Asked], CertifiedRun] | None = None
    key: str = ""
    """The method itself, by which recommendations know it: its lines on several assumptions share it."""
    bounded_noise: bool = False
    """Whether it is for labels that are wrong with at most the declared probability."""
    hard_laws: str | Callable[..., Any] = ""
    """``(target, line, certificate, records_per_user)`` to a claim to refute, or to the reason (a text) why it is not
    tried; see :mod:`privpac.auditing.claims`."""


@dataclass(frozen=True)
class Method:
    """What is known of one method."""

    key: str
    """What people type."""
    title: str
    """Its name in sentences, and in the rows of a plan."""
    learner: str | type[Any]
    """A class of ``privpac.methods``, ``"module:attribute"``, or a class of one's own."""
    about: str
    """What it does."""
    when: str
    """When to use it, in a sentence."""
    recommended: bool = True
    """Whether people should choose from it; else a paper's, that another one dominates: reached by its name, and shown
    where all methods are asked for."""
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
    rows: str | Callable[[RuleGoal], Iterable[PlannedMethod]] = ""
    """Its lines in the plan of a class of rules, where something is certified."""
    simulation: str | Callable[[str, RuleGoal], Simulation] = ""
    """``(key, goal)`` to what a plan predicts of it on a model of a class of rules, in a row of its title."""
    target: str | Callable[..., Target] = ""
    """What is planned for, where the method has a plan of its own: of the class that it alone learns, of trees, in a
    trust model."""
    hard_laws: str | Callable[..., Any] = ""
    """Of its lines that name none: see :class:`PlannedMethod`."""
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
        """The class of its learner."""
        named = isinstance(self.learner, str) and ":" not in self.learner
        found: type[Any] = getattr(learners, str(self.learner)) if named else resolve(self.learner)
        return found

    def fits(self, setting: str | None) -> bool:
        """Whether it is for the labels of a setting; None stands for both."""
        return setting is None or self.setting in (None, setting)
