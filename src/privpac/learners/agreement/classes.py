"""Rules that are learned by agreement only: far too many to be scored one by one, so they are named, not numbered.

``AgreedRules("decision-list", {...})`` or ``AgreedRules("naive-bayes", {...})`` can be bound to columns and given to
``AgreementLearner`` (or to ``learn`` with ``method="agreement"``); other methods refuse it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.agreement.tasks import KINDS, ORDERED, Task
from privpac.concepts.base import ConceptClass, Rule
from privpac.concepts.cells import Frozen, declared_of, domains_of, named_domains
from privpac.concepts.one_column import need_order
from privpac.concepts.profile import Profile
from privpac.concepts.rules import ByAgreement, ClassOfRules
from privpac.concepts.statistics import Statistic
from privpac.data import Domain, UserData
from privpac.errors import ParameterError, TooLargeError

__all__ = ["KINDS", "AgreedRules", "by_agreement", "kind_of", "need_ordered_columns", "own_parameters"]


def by_agreement(concept: Any) -> bool:
    """Whether agreement learns rules of this class."""
    return isinstance(concept, ClassOfRules) and concept.by_agreement is not None


def kind_of(concept: ConceptClass) -> str:
    """The kind of task that learns rules of this class."""
    found = concept.by_agreement
    if found is None:
        raise ParameterError(
            f"{type(concept).__name__} cannot be learned by agreement; use Thresholds in one direction, Conjunctions, "
            "DecisionLists, Disjunctions, Halfspaces, Intervals, Parities, Points, Stumps, or AgreedRules of one of "
            f"{', '.join(KINDS)}"
        )
    if found.only_with:
        raise ParameterError(f"{type(concept).__name__} can be learned by agreement with {found.only_with} only")
    return found.kind


def own_parameters(concept: ConceptClass) -> dict[str, int | str]:
    """Parameters of the task that the class itself fixes: a list has at most as many tests as the class allows."""
    found = concept.by_agreement
    return {} if found is None else dict(found.parameters)


def need_ordered_columns(kind: str, features: Mapping[str, Domain | None]) -> None:
    """Refuse columns without an order for a kind of rule that needs one; stumps and weighted sums of two values do
    not."""
    free = 2 if kind in ("stump", "halfspace") else 0
    for name, domain in features.items() if kind in ORDERED else ():
        if domain is None or domain.size <= free:
            continue
        need_order(name, domain, "learn the rule 'point' of one column, or 'naive-bayes' of several")


def _named(features: Mapping[str, Domain | None] | Iterable[str]) -> Mapping[str, Domain | None]:
    return named_domains(features, "features")


@frozen(slots=False)
class AgreedRules(ConceptClass):
    """A kind of rule over named columns.

    >>> from privpac.data import Integers
    >>> AgreedRules("naive-bayes", {"age": Integers(0, 9), "sex": Integers(0, 1)}).vc_dimension
    11
    """

    kind: str
    features: Mapping[str, Domain | None] = field(converter=_named)

    @property
    def scored(self) -> bool:
        return False

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement(self.kind)

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"the kind of rule must be one of {', '.join(KINDS)}; got {str(self.kind)[:40]!r}")
        need_ordered_columns(self.kind, self.features)

    @property
    def _columns(self) -> Frozen[Domain | None]:
        assert isinstance(self.features, Frozen)
        return self.features

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(domain.size for domain in domains_of(self._columns).values())

    @property
    def size(self) -> int:
        return Task(self.kind, self.sizes).learner.universe.size

    @property
    def vc_dimension(self) -> int:
        """An upper bound; for naive Bayes one weight for every value but the first of a column, and a constant."""
        if self.kind == "naive-bayes":
            return 1 + sum(size - 1 for size in self.sizes)
        return min(self.size.bit_length() - 1, 1 << 20)

    def declared(self) -> Mapping[str | None, Domain | None]:
        return declared_of(self._columns)

    def with_columns(self, columns: Mapping[str, Domain]) -> AgreedRules:
        return AgreedRules(self.kind, dict(columns))

    # What cannot be done rule by rule

    def _refuse(self) -> NoReturn:
        raise TooLargeError(f"{self.kind} rules named this way are not scored one by one; use method='agreement'")

    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        self._refuse()

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        self._refuse()

    def empty_profile(self) -> Profile:
        self._refuse()

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        self._refuse()

    def dichotomies(self, codes: Mapping[str, NDArray[np.uint64]]) -> Any:
        self._refuse()
