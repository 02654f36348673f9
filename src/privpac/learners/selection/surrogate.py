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
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from privpac.concepts.represent.representations import ProbabilisticRepresentation
from privpac.concepts.represent.surrogates import ClassHypotheses, Hypotheses, check_score
from privpac.concepts.statistics import Table
from privpac.exact import rational
from privpac.law import Law
from privpac.learners.base import Bound, _size, public_table, shown_table
from privpac.learners.selection.representations import named_representation, said_of
from privpac.learners.sizes import SizedSelection
from privpac.released import Released
from privpac.rng import PublicCoins, Rng

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["RepresentedSelection", "SurrogateSelection"]


@dataclass(frozen=True)
class RepresentedSelection(SizedSelection):
    """A learner that selects from the class, or from a public set that represents it."""

    representation: ProbabilisticRepresentation | str | None = None
    hypotheses: Hypotheses | None = None
    public_seed: bytes | None = None
    score: str = "union"
    representation_alpha: Fraction = field(default=Fraction(1, 20), kw_only=True)
    representation_beta: Fraction = field(default=Fraction(1, 20), kw_only=True)
    named: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score(self.score)
        if isinstance(self.representation, str):
            accuracy = (
                rational(self.representation_alpha, "representation_alpha", above=0, below=1),
                rational(self.representation_beta, "representation_beta", above=0, below=1),
            )
            found = named_representation(self.representation, self.concept, *accuracy)
            object.__setattr__(self, "representation", found)
            object.__setattr__(self, "named", True)
        if self.representation is not None and not isinstance(self.representation, ProbabilisticRepresentation):
            raise TypeError(
                f"representation must be one of privpac.concepts.represent.representations, got "
                f"{type(self.representation).__name__}"
            )
        if self.hypotheses is not None and not isinstance(self.hypotheses, Hypotheses):
            raise TypeError(
                f"hypotheses must be a public set of rules (Hypotheses), got {type(self.hypotheses).__name__}"
            )
        if self.hypotheses is None:
            object.__setattr__(self, "hypotheses", self._drawn())

    def _drawn(self) -> Hypotheses:
        """The public set, fixed when the learner is built."""
        if self.representation is None:
            return ClassHypotheses(self.concept)
        if self.public_seed is None:
            object.__setattr__(self, "public_seed", secrets.token_bytes(32))
        assert self.public_seed is not None
        assert not isinstance(self.representation, str)
        return self.representation.sample(PublicCoins(self.public_seed))

    def with_(self, **changes: Any) -> Any:
        """The same learner with other parameters; another representation or seed means another draw."""
        if {"representation", "public_seed", "concept"} & changes.keys():
            changes = {"hypotheses": None} | changes
        return super().with_(**changes)

    @property
    def proper(self) -> bool:
        """Whether the class stands for itself."""
        return isinstance(self.hypotheses, ClassHypotheses)

    def _rules(self, bound: Bound) -> Hypotheses:
        assert self.hypotheses is not None
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
        if self.named or self.representation is not None:
            shown["representation"] = said_of(self.representation)
        if self.public_seed is not None:
            shown["public_seed"] = self.public_seed.hex()
        if self.max_records is not None:
            shown["max_records"] = self.max_records
        rule = rules.decode(hypothesis, bound.label)
        return Released(rule, self.guarantee, parameters=shown, warnings=self.warnings, learner=method)


@dataclass(frozen=True)
class SurrogateSelection(RepresentedSelection):
    """Exponential law over a representation of the class, or over the class itself.

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

    tolerance: Any = 0
    forgiven: Any = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tolerance", "forgiven"):
            object.__setattr__(self, name, public_table(getattr(self, name), name, minimum=0))

    def law(self, data: Users) -> Law:
        """The law over ids of the public set (private: for the curator and for audits)."""
        return self._law(self.bind(data))

    def _law(self, bound: Bound) -> Law:
        return self.selection(bound, self.epsilon, self.tolerance, self.forgiven)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        return self.released(
            bound, self._law(bound).sample(rng), {"tolerance": shown_table(self.tolerance)}, "surrogate selection"
        )
