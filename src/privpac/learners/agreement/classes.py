"""Rules that are learned by agreement only: far too many to be scored one by one, so they are named, not numbered.

``AgreedRules("decision-list", {...})`` or ``AgreedRules("naive-bayes", {...})`` can be bound to columns and given to
``AgreementLearner`` (or to ``learn`` with ``method="agreement"``); other methods refuse it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.tasks import KINDS, Task
from privpac.concepts.base import ConceptClass, Rule
from privpac.concepts.boolean import Conjunctions, Disjunctions
from privpac.concepts.cells import Frozen, declared_of, domains_of, named_domains
from privpac.concepts.halfspaces import Halfspaces
from privpac.concepts.lists import DecisionLists
from privpac.concepts.parities import Parities
from privpac.concepts.points import Points
from privpac.concepts.profile import Profile
from privpac.concepts.statistics import Statistic
from privpac.concepts.stumps import Stumps
from privpac.concepts.thresholds import Thresholds
from privpac.data import Domain, UserData
from privpac.errors import ParameterError, TooLargeError

__all__ = ["KINDS", "AgreedRules", "by_agreement", "kind_of", "own_parameters"]

_KINDS: dict[type[ConceptClass], str] = {
    Conjunctions: "conjunction",
    DecisionLists: "decision-list",
    Disjunctions: "disjunction",
    Halfspaces: "halfspace",
    Parities: "parity",
    Points: "point",
    Stumps: "stump",
}
_NEEDED: dict[type[ConceptClass], tuple[str, Any]] = {
    DecisionLists: ("negations", True),
    Points: ("zero", False),
    Stumps: ("direction", "both"),
}
"""The option with which a class has exactly the rules of its kind."""


def by_agreement(concept: Any) -> bool:
    """Whether agreement learns rules of this class."""
    cuts = isinstance(concept, Thresholds) and concept.direction != "both"
    return cuts or isinstance(concept, AgreedRules) or type(concept) in _KINDS


def kind_of(concept: ConceptClass) -> str:
    """The kind of task that learns rules of this class."""
    if isinstance(concept, AgreedRules):
        return concept.kind
    if isinstance(concept, Thresholds) and concept.direction != "both":
        return "threshold" if concept.direction == "above" else "threshold-below"
    found = _KINDS.get(type(concept))
    if found is None:
        raise ParameterError(
            f"{type(concept).__name__} cannot be learned by agreement; use Thresholds in one direction, "
            f"{', '.join(c.__name__ for c in _KINDS)}, or AgreedRules of one of {', '.join(KINDS)}"
        )
    option, value = _NEEDED.get(type(concept), ("", None))
    if option and getattr(concept, option) != value:
        raise ParameterError(f"{type(concept).__name__} can be learned by agreement with {option}={value!r} only")
    return found


def own_parameters(concept: ConceptClass) -> dict[str, int | str]:
    """Parameters of the task that the class itself fixes: a list has at most as many tests as the class allows."""
    return {"stages": concept.length} if isinstance(concept, DecisionLists) else {}


@dataclass(frozen=True)
class AgreedRules(ConceptClass):
    """A kind of rule over named columns.

    >>> from privpac.data import Integers
    >>> AgreedRules("naive-bayes", {"age": Integers(0, 9), "sex": Integers(0, 1)}).vc_dimension
    11
    """

    kind: str
    features: Mapping[str, Domain | None] | Iterable[str]
    scored: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"the kind of rule must be one of {', '.join(KINDS)}; got {str(self.kind)[:40]!r}")
        object.__setattr__(self, "features", named_domains(self.features, "features"))

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
