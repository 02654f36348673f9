"""The reduction by name: a class, a budget and a declared number of people are enough (``method="reduction"``).

The inner learner is built from the class: selection among its rules for labels that one of them explains, or votes for
the node of a tree; it gets ``inner_epsilon`` (half of epsilon unless given), and the constants of least promised excess
are those of :meth:`~privpac.learners.reduction.learner.AgnosticReduction.for_target`.

**Guarantee.**  That of the transformation with exactly these constants, at most the ``(epsilon, delta)`` asked for:
Theorem B of the reduction under add-remove, Theorem A under replace.  With ``empirical=True`` the inner learner runs on
``draws`` people of T drawn with replacement (Theorem C), which makes a learner for independent samples one for a fixed
table.  That is proved under replace alone: a person is drawn a number of times that depends on how many people there
are, and add-remove keeps that number private, so it is refused there.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.concepts.base import ConceptClass
from privpac.concepts.trees.base import VC1Tree
from privpac.data import UserData
from privpac.errors import ParameterError
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law import Law
from privpac.learners.base import Learner
from privpac.learners.reduction.learner import AgnosticReduction, EmpiricalLearner
from privpac.learners.selection.realizable import RealizableSelection
from privpac.learners.tree.learner import TreeLearner
from privpac.parameters import (
    DEFAULT_BETA,
    Composed,
    bounds,
    named,
    part,
    privacy,
    privacy_or_none,
    probability,
    probability_or_none,
    probability_or_zero,
    protected_unit,
    relation,
    truth,
    whole,
    whole_or_none,
)
from privpac.released import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.exact import Rational

__all__ = ["NamedReduction"]

NOT_WITHOUT_REPLACE = (
    "empirical=True draws people with replacement from a public number of them, and add-remove keeps that number "
    "private: use neighbours='replace', or leave empirical out (the inner learner then reads every person of the "
    "hidden part once)"
)


@frozen(slots=False, field_transformer=named)
class InnerShape:
    """How the learner for clean labels is run.  All public.

    Parameters
    ----------
    inner_epsilon : number, optional
        What it spends; default half of epsilon.
    empirical : bool
        Whether it reads people drawn with replacement from the hidden part; needs replace, and ``split_size``.
    draws : int, optional
        How many are drawn; default as many as the part has.
    """

    inner_epsilon: Fraction | None = field(default=None, kw_only=True, converter=privacy_or_none)
    empirical: bool = field(default=False, kw_only=True, validator=truth)
    draws: int | None = field(default=None, kw_only=True, converter=whole_or_none)

    def __attrs_post_init__(self) -> None:
        if self.draws is not None and not self.empirical:
            raise ParameterError("draws goes with empirical=True; leave it out")


@frozen(slots=False, field_transformer=named)
class ReductionAim:
    """What the constants are planned for.  All public.

    Parameters
    ----------
    public_n_users : int
        The number of people: declared under add-remove, the number itself under replace.
    split_size : int, optional
        The (expected) size of the hidden part; planned when left out.
    alpha, beta : number, optional
        Excess error whose certificate is judged, and how often it may be missed (default 1/20).
    """

    public_n_users: int = field(kw_only=True, converter=whole, metadata=bounds(minimum=2))
    split_size: int | None = field(default=None, kw_only=True, converter=whole_or_none)
    alpha: Fraction | None = field(default=None, kw_only=True, converter=probability_or_none)
    beta: Fraction = field(default=DEFAULT_BETA, kw_only=True, converter=probability)


@frozen(slots=False, init=False, field_transformer=named)
class NamedReduction(Composed, Learner):
    """An inner learner for clean labels, run on a secret relabelled part of the people.  All parameters are public.

    Parameters
    ----------
    concept : ConceptClass or VC1Tree
        The class of rules, or the tree.
    epsilon, delta : number
        The privacy parameters; ``delta`` is 0 unless given.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    unit : {"user", "item"}
        Whose data are protected.
    max_records : int, optional
        How many records of a user are read at most.
    inside : InnerShape
        Given by its own parameters: ``inner_epsilon``, ``empirical``, ``draws``.
    aim : ReductionAim
        Given by its own parameters: ``public_n_users``, ``split_size``, ``alpha``, ``beta``.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Integers
    >>> learner = NamedReduction(Thresholds(Integers(0, 99)), 1, public_n_users=10_000)
    >>> str(learner.guarantee), learner.reduction.inner.epsilon
    ('(1, 0)-DP per user, add-remove', Fraction(1, 2))
    """

    concept: ConceptClass | VC1Tree
    epsilon: Fraction = field(converter=privacy)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    max_records: int | None = field(default=None, converter=whole_or_none)
    delta: Fraction = field(default=Fraction(0), kw_only=True, converter=probability_or_zero)
    inside: InnerShape = part(InnerShape)
    aim: ReductionAim = part(ReductionAim)

    if TYPE_CHECKING:

        def __init__(
            self,
            concept: ConceptClass | VC1Tree,
            epsilon: Rational,
            neighbours: Neighbours | str = ...,
            unit: Unit | str = ...,
            max_records: int | None = ...,
            *,
            delta: Rational = ...,
            inner_epsilon: Rational | None = ...,
            empirical: bool = ...,
            draws: int | None = ...,
            public_n_users: int,
            split_size: int | None = ...,
            alpha: Rational | None = ...,
            beta: Rational = ...,
        ) -> None: ...

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.concept, (ConceptClass, VC1Tree)):
            raise TypeError(
                f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got "
                f"{type(self.concept).__name__}"
            )
        if self.inside.empirical and self.neighbours is Neighbours.ADD_REMOVE:
            raise ParameterError(NOT_WITHOUT_REPLACE)
        if self.inside.empirical and self.aim.split_size is None:
            raise ParameterError("empirical=True needs split_size: how many people the hidden part has")
        if isinstance(self.concept, VC1Tree) and not self.delta and not self.concept.scored:
            raise ParameterError("an open vocabulary needs delta above 0, such as delta='1e-6'")
        if isinstance(self.concept, ConceptClass):
            try:
                self.concept.size  # noqa: B018
            except ParameterError:
                raise ParameterError(
                    "the reduction is planned from the size of the class: declare its domains in the class itself, "
                    "such as Thresholds(Integers(0, 100))"
                ) from None
        self.reduction.guarantee  # noqa: B018  # what is out of reach is refused here, before any data

    @property
    def inner_epsilon(self) -> Fraction:
        """What the inner learner spends."""
        return self.epsilon / 2 if self.inside.inner_epsilon is None else self.inside.inner_epsilon

    @cached_property
    def inner(self) -> Any:
        """The learner for clean labels."""
        relation = self.neighbours
        if isinstance(self.concept, VC1Tree):
            # At most half of delta for the inner learner; T is a part of the people, so less of it arrives.
            found: Any = TreeLearner.plan(
                self.concept,
                epsilon=self.inner_epsilon,
                delta=self.delta / 2,
                alpha="1/10",
                beta=self.aim.beta,
                records_per_user=1,
                neighbours=relation,
            )
        else:
            found = RealizableSelection(self.concept, self.inner_epsilon, relation)
        if not self.inside.empirical:
            return found
        size = positive_int(self.aim.split_size, "split_size")
        return EmpiricalLearner(found, draws=self.inside.draws or size, size=size)

    @cached_property
    def reduction(self) -> AgnosticReduction:
        """The transformation with its constants."""
        shape: dict[str, Any] = {"unit": self.unit, "max_records": self.max_records, "concept": self.concept}
        return AgnosticReduction.for_target(
            self.inner,
            epsilon=self.epsilon,
            delta=self.delta,
            public_n_users=self.aim.public_n_users,
            neighbours=self.neighbours,
            split_size=self.aim.split_size,
            alpha=self.aim.alpha,
            beta=self.aim.beta,
            **shape,
        )

    @property
    def guarantee(self) -> Guarantee:
        return self.reduction.guarantee

    def bind(self, data: Users) -> Any:
        if hasattr(data, "fold") and not isinstance(data, UserData):
            raise ParameterError(
                "the reduction draws a secret part of the people, which needs the table in memory (UserData.read, "
                "--engine memory); methods such as 'voices' run on every engine"
            )
        return self.reduction.bind(data)

    def draw(self, bound: Any, rng: Rng) -> Released:
        return self.reduction.draw(bound, rng)

    def law(self, data: Users) -> Law:
        """The law of the released rule, averaged over all splits (small tables only)."""
        return self.reduction.law(data)
