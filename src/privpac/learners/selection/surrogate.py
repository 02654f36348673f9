"""Selection from a set of rules that stands in for a class, drawn from public coins before any data are seen.

Score of a rule: the number of users for whom the best concept it stands for makes more than ``tolerance`` mistakes, or
disagrees with it (``score="union"``, the default), or both counted (``"sum"``, the paper's); see
:mod:`privpac.concepts.represent.surrogates`.  With one record per user this is item-level agnostic learning through a
representation; without a representation the class stands for itself and the score is the plain count (Li, Wang and Ye,
*Improved Bounds*, Theorem 3.4).

**Guarantee.**  ``(epsilon, 0)`` per user for any tolerance, any numbers of records and any public set: one user adds at
most ``step`` to every score, 1 for the plain count and the union, 2 for the sum (range rule, see ``learners.base``).
"""

from __future__ import annotations

import secrets
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.concepts.base import ConceptClass
from privpac.concepts.represent.representations import ProbabilisticRepresentation
from privpac.concepts.represent.surrogates import ClassHypotheses, Hypotheses, check_score
from privpac.concepts.statistics import Table
from privpac.exact import Rational, rational
from privpac.law import Law
from privpac.learners.base import Bound, _size, public_table, shown_table
from privpac.learners.selection.representations import check_named, named_representation, said_of
from privpac.learners.sizes import SizedSelection
from privpac.parameters import DEFAULT_BETA, Composed, named, part
from privpac.released import Released
from privpac.rng import PublicCoins, Rng

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["RepresentedSelection", "SurrogateSelection"]


@frozen(slots=False, init=False)
class PublicSet:
    """A public set of rules that stands for a class, fixed when the learner is built.

    Parameters
    ----------
    representation : ProbabilisticRepresentation or str, optional
        Where the set is drawn from, or its name (:mod:`privpac.learners.selection.representations`); without one the
        class stands for itself.
    hypotheses : Hypotheses, optional
        The set itself, instead of a draw.
    public_seed : bytes, optional
        32 public bytes that fix the draw; from the system when left out.
    representation_alpha, representation_beta : rational
        Accuracy and failure probability of a representation by name.
    """

    representation: ProbabilisticRepresentation | str | None = None
    given: Hypotheses | None = field(default=None, alias="hypotheses")
    public_seed: bytes | None = None
    representation_alpha: Fraction = Fraction(1, 20)
    representation_beta: Fraction = DEFAULT_BETA

    def __init__(
        self,
        representation: ProbabilisticRepresentation | str | None = None,
        hypotheses: Hypotheses | None = None,
        public_seed: bytes | None = None,
        representation_alpha: Rational = Fraction(1, 20),
        representation_beta: Rational = DEFAULT_BETA,
    ) -> None:
        if isinstance(representation, str):
            check_named(representation)
        elif representation is not None and not isinstance(representation, ProbabilisticRepresentation):
            raise TypeError(
                f"representation must be one of privpac.concepts.represent.representations, got "
                f"{type(representation).__name__}"
            )
        if hypotheses is not None and not isinstance(hypotheses, Hypotheses):
            raise TypeError(f"hypotheses must be a public set of rules (Hypotheses), got {type(hypotheses).__name__}")
        if representation is not None and hypotheses is None and public_seed is None:
            public_seed = secrets.token_bytes(32)
        accuracy = {"representation_alpha": representation_alpha, "representation_beta": representation_beta}
        read = [rational(value, name, above=0, below=1) for name, value in accuracy.items()]
        self.__attrs_init__(representation, hypotheses, public_seed, *read)

    def of(self, concept: ConceptClass) -> ProbabilisticRepresentation | None:
        """The representation, looked up for a class where it is a name."""
        if not isinstance(self.representation, str):
            return self.representation
        return named_representation(self.representation, concept, self.representation_alpha, self.representation_beta)

    def drawn(self, concept: ConceptClass) -> Hypotheses | None:
        """The set, or None where the class stands for itself."""
        found = None if self.given is not None else self.of(concept)
        if found is None:
            return self.given
        assert self.public_seed is not None
        return found.sample(PublicCoins(self.public_seed))


@frozen(slots=False, init=False, field_transformer=named)
class RepresentedSelection(Composed, SizedSelection):
    """A learner that selects from the class, or from a public set that represents it.

    Parameters
    ----------
    public_set : PublicSet
        Given by its own parameters: ``representation``, ``hypotheses``, ``public_seed``.
    score : str
        What a user says of a rule of the set (public).
    """

    public_set: PublicSet = part(PublicSet)
    score: str = field(default="union", kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_score(self.score)
        _ = self.hypotheses

    @cached_property
    def hypotheses(self) -> Hypotheses:
        """The public set in use."""
        drawn = self.public_set.drawn(self.concept)
        return ClassHypotheses(self.concept) if drawn is None else drawn

    @property
    def proper(self) -> bool:
        """Whether the class stands for itself."""
        return isinstance(self.hypotheses, ClassHypotheses)

    def _rules(self, bound: Bound) -> Hypotheses:
        return self.hypotheses.on(bound.concept)

    def bind(self, data: Users) -> Bound:
        bound = super().bind(data)
        self._rules(bound).require(self.score, getattr(self, "forgiven", 0))
        return bound

    def selection(self, bound: Bound, epsilon: Fraction, tolerance: Table, forgiven: Table = 0) -> Law:
        """The exponential law over the set, for bound users."""
        rules = self._rules(bound)
        return rules.profile(bound.users, self.score, tolerance, forgiven).law(
            self.rate(epsilon, rules.step(self.score))
        )

    def released(self, bound: Bound, hypothesis: int, parameters: dict[str, Any], method: str) -> Released:
        rules = self._rules(bound)
        shown: dict[str, Any] = {"class": type(bound.concept).__name__, "size": _size(rules.size)} | parameters
        if not self.proper:
            shown["score"] = self.score
        if self.public_set.representation is not None:
            shown["representation"] = said_of(self.public_set.of(self.concept))
        if self.public_set.public_seed is not None and not self.proper:
            shown["public_seed"] = self.public_set.public_seed.hex()
        if self.max_records is not None:
            shown["max_records"] = self.max_records
        rule = rules.decode(hypothesis, bound.label)
        return Released(rule, self.guarantee, parameters=shown, warnings=self.warnings, learner=method)

    def shown_as(self, bound: Any, value: Any) -> tuple[str, str] | None:
        known = isinstance(value, int)  # and not with an estimate beside it
        return ("released", str(self._rules(bound).decode(value, bound.label))) if known else None


@frozen(slots=False, init=False, field_transformer=named)
class SurrogateSelection(RepresentedSelection):
    """Exponential law over a representation of the class, or over the class itself.

    Parameters
    ----------
    tolerance, forgiven : int, table or function, optional
        Mistakes, and disagreements of a rule with its concept, forgiven to a user (public, default 0).

    >>> from privpac.concepts import Points
    >>> from privpac.concepts.represent.representations import HashedPoints
    >>> from privpac.data import Integers, UserData
    >>> codes = Integers(0, 2**64 - 1)
    >>> people = UserData.from_users([[(7, 1)], [(7, 1)], [(12, 0)]], features={"x": codes})
    >>> few = HashedPoints(codes, alpha="0.1", beta="0.05")
    >>> learner = SurrogateSelection(Points(), epsilon=4, representation=few, public_seed=bytes(32))
    >>> rule = learner._rules(learner.bind(people)).decode(learner.law(people).mode)
    >>> rule.predict([7, 12]).tolist()
    [1, 0]
    """

    tolerance: Any = field(default=0, kw_only=True, converter=public_table)
    forgiven: Any = field(default=0, kw_only=True, converter=public_table)

    def law(self, data: Users) -> Law:
        """The law over ids of the public set (private: for the curator and for audits)."""
        return self._law(self.bind(data))

    def _law(self, bound: Bound) -> Law:
        return self.selection(bound, self.epsilon, self.tolerance, self.forgiven)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        return self.released(
            bound, self._law(bound).sample(rng), {"tolerance": shown_table(self.tolerance)}, "surrogate selection"
        )
