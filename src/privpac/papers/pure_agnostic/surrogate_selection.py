"""Selection from a set of rules that stands in for a class, drawn from public coins before any data are seen.

Score of a rule: the number of users for whom the best concept it stands for makes more than ``tolerance`` mistakes, or
disagrees with it (``score="union"``, the default), or both counted (``"sum"``, the paper's).  With one record per user
this is item-level agnostic learning through a representation; without a representation the class stands for itself and
the score is the plain count (Li, Wang and Ye, *Improved Bounds*, Theorem 3.4).

**Guarantee.**  ``(epsilon, 0)`` per user for any tolerance, any numbers of records and any public set: one user adds at
most ``step`` to every score, 1 for the plain count and the union, 2 for the sum (range rule, see ``methods.base``).
"""

from __future__ import annotations

import math
import secrets
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.data import Domain
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.law import Law
from privpac.methods.base import Bound, _size, public_table, shown_table
from privpac.methods.realizable import RealizableSelection
from privpac.papers.pure_agnostic.representations import (
    MAX_RULES,
    BoostedRepresentation,
    ClassHypotheses,
    HashedPoints,
    Hypotheses,
    LearnerRepresentation,
    ProbabilisticRepresentation,
    check_score,
)
from privpac.papers.pure_agnostic.sizes import SizedSelection
from privpac.parameters import DEFAULT_BETA, Composed, named, part
from privpac.result import Released
from privpac.rng import PublicCoins, Rng
from privpac.rules.base import ConceptClass
from privpac.rules.profile import Table

if TYPE_CHECKING:
    from privpac.data import Users

# Representations by name: the small public set that stands in for a class, with its size and its certificate.
#
# ===========  =====================================================  =================================================
# name         what is drawn                                          for
# ===========  =====================================================  =================================================
# ``class``    nothing: the class stands for itself                   any class; the price is the logarithm of its size
# ``hashed``   buckets of hash functions                              single values of a column of any size
# ``learned``  draws of a pure learner without data                   classes of a few rules
# ``boosted``  majorities of coarse hashed buckets                    single values; for planning, mostly
# ``auto``     ``class`` up to 2**22 rules, ``hashed`` for values of  never silently the whole of a larger class
#              a larger column; anything else is refused by name
# ===========  =====================================================  =================================================
#
# An ``(alpha, beta)`` representation holds, for every rule of the class and every law of the data, a rule that
# disagrees with it on mass at most ``alpha``, except with probability ``beta`` over the public coins.


REPRESENTATIONS = ("auto", "class", "hashed", "learned", "boosted")
_COARSE = Fraction(1, 4)
_INNER = Fraction(1, 16)
"""Epsilon of the learner whose draws represent a class; a smaller one would hardly save draws."""


def check_named(name: str) -> None:
    """Refuse what is no name of a representation."""
    if name not in REPRESENTATIONS:
        raise ParameterError(f"representation must be one of {', '.join(REPRESENTATIONS)}, got {str(name)[:40]!r}")


def named_representation(
    name: str, concept: ConceptClass, alpha: Fraction, beta: Fraction
) -> ProbabilisticRepresentation | None:
    """The representation with a name; None where the class stands for itself.

    >>> from privpac.rules import Points
    >>> from privpac.data import Integers
    >>> few = named_representation("auto", Points(Integers(0, 2**60)), Fraction(1, 20), Fraction(1, 20))
    >>> said_of(few)
    'hashed: 165 rules; within 0.05 of every rule except with probability 0.05'
    """
    check_named(name)
    values = concept.layout == "values"
    if name == "auto":
        if concept.size <= MAX_RULES:
            return None
        if not values:
            raise TooLargeError(
                f"{type(concept).__name__} has about 2^{concept.size.bit_length() - 1} rules and no small set to stand "
                f"in for them is known: name representation='class' to select among all of them (their number costs "
                f"accuracy), or use method='hybrid'"
            )
        name = "hashed"
    if name == "class":
        return None
    if name == "learned":
        return _learned(concept, alpha, beta)
    if not values:
        raise ParameterError(
            f"representation {name!r} is for single values of one column (Points), not {type(concept).__name__}; use "
            "'class' or 'learned'"
        )
    domain = _domain(concept)
    zero = concept.size > domain.size
    if name == "hashed":
        return HashedPoints(domain, alpha, beta, zero)
    return BoostedRepresentation(HashedPoints(domain, _COARSE, _COARSE, zero), concept, alpha, beta)


def _domain(concept: ConceptClass) -> Domain:
    (domain,) = concept.declared().values()
    if domain is None:
        raise ParameterError("a representation needs the domain of its column: declare it in the class")
    return domain


def _learned(concept: ConceptClass, alpha: Fraction, beta: Fraction) -> LearnerRepresentation:
    """Draws of the exponential law over the class without data.

    Of ``n`` records labelled by a rule of the class, one that is wrong on mass above ``alpha`` has an expected weight
    of at most ``(1 - alpha (1 - e**-epsilon))**n``, and the right one weighs 1: all wrong ones together are drawn with
    probability at most ``|C| exp(-n alpha (1 - e**-epsilon)) <= 1/2``, so some dataset of ``n`` records does as well.
    """
    needed = (concept.log_size + 0.7) / (float(alpha) * -math.expm1(-float(_INNER))) + 1  # ln 2 < 0.7
    learner = RealizableSelection(concept, _INNER)
    return LearnerRepresentation.of(learner, n_records=int(needed), alpha=alpha, beta=beta, beta0=Fraction(1, 2))


def said_of(representation: Any) -> str:
    """Size and certificate in a line, from public numbers."""
    if representation is None:
        return "class: every rule stands for itself"
    kinds: tuple[tuple[type[Any], str], ...] = (
        (HashedPoints, "hashed"),
        (LearnerRepresentation, "learned"),
        (BoostedRepresentation, "boosted"),
    )
    kind = next((name for one, name in kinds if isinstance(representation, one)), type(representation).__name__)
    size = f"{round(math.exp(representation.log_size)):,}" if representation.log_size < 40 else "too many"
    return (
        f"{kind}: {size} rules; within {float(representation.alpha):.3g} of every rule except with probability "
        f"{float(representation.beta):.3g}"
    )


@frozen(slots=False, init=False)
class PublicSet:
    """A public set of rules that stands for a class, fixed when the learner is built.

    Parameters
    ----------
    representation : ProbabilisticRepresentation or str, optional
        Where the set is drawn from, or its name (:mod:`privpac.papers.pure_agnostic.surrogate_selection`); without one
        the class stands for itself.
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
                f"representation must be one of privpac.papers.pure_agnostic.representations, got "
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

    def released(self, bound: Bound, hypothesis: int, parameters: dict[str, object], method: str) -> Released:
        rules = self._rules(bound)
        shown: dict[str, object] = {"class": type(bound.concept).__name__, "size": _size(rules.size)} | parameters
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

    >>> from privpac.rules import Points
    >>> from privpac.papers.pure_agnostic.representations import HashedPoints
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
