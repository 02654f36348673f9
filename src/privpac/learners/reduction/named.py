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

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from privpac.concepts.base import ConceptClass
from privpac.concepts.trees.base import VC1Tree
from privpac.data import UserData
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.law import Law
from privpac.learners.base import Learner
from privpac.learners.reduction.learner import AgnosticReduction, EmpiricalLearner
from privpac.learners.selection.realizable import RealizableSelection
from privpac.learners.tree.learner import TreeLearner
from privpac.parameters import read_epsilon
from privpac.released import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["NamedReduction"]

NOT_WITHOUT_REPLACE = (
    "empirical=True draws people with replacement from a public number of them, and add-remove keeps that number "
    "private: use neighbours='replace', or leave empirical out (the inner learner then reads every person of the "
    "hidden part once)"
)


@dataclass(frozen=True)
class NamedReduction(Learner):
    """An inner learner for clean labels, run on a secret relabelled part of the people.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Integers
    >>> learner = NamedReduction(Thresholds(Integers(0, 99)), 1, public_n_users=10_000)
    >>> str(learner.guarantee), learner.reduction.inner.epsilon
    ('(1, 0)-DP per user, add-remove', Fraction(1, 2))
    """

    concept: ConceptClass | VC1Tree
    epsilon: Fraction
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: Unit = Unit.USER
    max_records: int | None = None
    public_n_users: int = field(kw_only=True)
    delta: Fraction = field(default=Fraction(0), kw_only=True)
    inner_epsilon: Fraction | None = field(default=None, kw_only=True)
    empirical: bool = field(default=False, kw_only=True)
    split_size: int | None = field(default=None, kw_only=True)
    draws: int | None = field(default=None, kw_only=True)
    alpha: Fraction | None = field(default=None, kw_only=True)
    beta: Fraction = field(default=Fraction(1, 20), kw_only=True)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not isinstance(self.concept, (ConceptClass, VC1Tree)):
            raise TypeError(
                f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got "
                f"{type(self.concept).__name__}"
            )
        put(self, "epsilon", read_epsilon(self.epsilon))
        put(self, "neighbours", one_of(Neighbours, self.neighbours, "neighbours"))
        put(self, "unit", one_of(Unit, self.unit, "unit"))
        put(self, "public_n_users", positive_int(self.public_n_users, "public_n_users", minimum=2))
        put(self, "delta", rational(self.delta, "delta", minimum=0, below=1))
        half = self.epsilon / 2 if self.inner_epsilon is None else read_epsilon(self.inner_epsilon)
        put(self, "inner_epsilon", half)
        if not isinstance(self.empirical, bool):
            raise TypeError(f"empirical must be True or False, got {type(self.empirical).__name__}")
        if self.empirical and self.neighbours is Neighbours.ADD_REMOVE:
            raise ParameterError(NOT_WITHOUT_REPLACE)
        if self.empirical and self.split_size is None:
            raise ParameterError("empirical=True needs split_size: how many people the hidden part has")
        if self.draws is not None and not self.empirical:
            raise ParameterError("draws goes with empirical=True; leave it out")
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
                beta=self.beta,
                records_per_user=1,
                neighbours=relation,
            )
        else:
            found = RealizableSelection(self.concept, rational(self.inner_epsilon), relation)
        if not self.empirical:
            return found
        size = positive_int(self.split_size, "split_size")
        return EmpiricalLearner(found, draws=self.draws or size, size=size)

    @cached_property
    def reduction(self) -> AgnosticReduction:
        """The transformation with its constants."""
        shape: dict[str, Any] = {"unit": self.unit, "max_records": self.max_records, "concept": self.concept}
        return AgnosticReduction.for_target(
            self.inner,
            epsilon=self.epsilon,
            delta=self.delta,
            public_n_users=self.public_n_users,
            neighbours=self.neighbours,
            split_size=self.split_size,
            alpha=self.alpha,
            beta=self.beta,
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
