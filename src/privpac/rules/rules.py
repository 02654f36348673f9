"""What every class of rules knows of itself: its columns, and facts that others build on.

A class is either a list of numbered rules (:class:`~privpac.rules.base.ConceptClass`) or a public tree whose nodes
are rules (:class:`~privpac.rules.hierarchies.base.VC1Tree`).  Learners, plans, audits and reports ask the class and
never its type: a fact that is not known has a default here ("no", 0, None), and everything works without it, only with
fewer methods, fewer lines in a plan, or more time.  Facts are public: nothing here sees data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from privpac.data import Texts
from privpac.data.domains import own_code
from privpac.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from privpac.data import Domain, UserData, Users
    from privpac.rules.hierarchies.base import VC1Tree
    from privpac.rules.labellings import Labellings

__all__ = ["ByAgreement", "ClassOfRules", "FewValues", "Layout", "binary", "with_domains"]

Layout = Literal["cuts", "values", "listed"]
"""How the ids of a class lie on its columns: *cuts* 0..N of every column, column by column and in each of its
``directions``; the *values* of one column by their codes, perhaps followed by the rule that never says 1; or *listed*,
with no order to be used."""


@dataclass(frozen=True)
class ByAgreement:
    """How agreement learns a class: the kind of its task, parameters that the class fixes, and what is missing."""

    kind: str
    parameters: Mapping[str, int | str] = field(default_factory=dict)
    only_with: str = ""
    """The option with which the class has exactly the rules of this kind; empty where it has."""


@dataclass(frozen=True)
class FewValues:
    """How a class falls into groups of rules that say the same on a few values of x.

    ``cuts``: cut-offs that say 1 from the cut on; ``points``: single values; ``stumps``: cut-offs of several columns in
    both directions, ``cuts`` of them in each.
    """

    shape: Literal["cuts", "points", "stumps"]
    cuts: tuple[int, ...] = ()


C = TypeVar("C", bound="ClassOfRules")


def binary(users: Users, who: str, takes_classes: bool = False) -> None:
    """Refuse data with more than two labels, before any spend, where two are all that is known."""
    declared = getattr(users, "classes", ())
    if len(declared) > 2 and not takes_classes:
        raise ParameterError(
            f"the data have {len(declared)} classes, and {who} knows two: use SmallTrees or PointsCard, or a "
            "label_map to 0 and 1"
        )


class ClassOfRules(ABC):
    """Rules over named public columns, and what is known of them."""

    noun: ClassVar[str] = "class"
    takes_texts: ClassVar[bool] = False
    """Whether a declared ``Texts()`` also means a column with a domain of its own, by the texts of its values."""
    takes_missing: ClassVar[bool] = False
    """Whether a missing value may be an answer of its own."""
    takes_classes: ClassVar[bool] = False
    """Whether its rules may name more than two labels."""
    own_method: ClassVar[str | None] = None
    """The one method that learns its rules, where there is one."""

    inherits: ClassVar[bool] = False
    """Whether a class without columns reads every column of the data."""

    # Columns

    @abstractmethod
    def declared(self) -> Mapping[str | None, Domain | None]:
        """Column name -> domain as declared; the name None means "the only feature", a domain None "take the
        data's"."""

    @abstractmethod
    def with_columns(self, columns: Mapping[str, Domain]) -> Self:
        """The same class on named columns with their domains."""

    def bind(self, users: Users) -> tuple[Self, Users]:
        """Encode the columns this class reads (schema errors here, before any spend).

        Returns the class with its columns and domains filled in, and the users bound to them.
        """
        declared, names = self.declared(), list(users.features)
        if self.inherits and not declared:
            every: dict[str, Any] = dict.fromkeys(names)
            return self.with_columns(every).bind(users)
        if getattr(users, "labels", ()) is None:
            raise ParameterError("the data have no labels: name the label column when they are built")
        binary(users, f"{self.noun} {type(self).__name__}", self.takes_classes)
        if None in declared and (len(declared) != 1 or len(names) != 1):
            raise ParameterError(
                f"name the features of the {self.noun} ({len(declared)}): the data have the columns {names}"
            )
        columns = {names[0] if name is None else name: domain for name, domain in declared.items()}
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise SchemaError(f"columns {unknown} are not among the features {names}")
        own = {name: domain for name, domain in columns.items() if domain is not None}
        if self.takes_texts:
            own = {
                name: domain
                for name, domain in own.items()
                if not (isinstance(domain, Texts) and users.features[name] is not None)
            }
        bound = users.bind(own)
        filled = {name: domain for name in columns if (domain := bound.features[name]) is not None}
        without = [name for name in columns if name not in filled]
        if without:
            raise ParameterError(
                f"columns {without} have no domain: declare one in UserData or in the {self.noun}, such as "
                "Integers(0, 100)"
            )
        owned = [name for name, domain in filled.items() if own_code(domain) is not None]
        if owned and not self.takes_missing:
            raise ParameterError(
                f"columns {owned} keep missing values, of which {self.noun} {type(self).__name__} knows nothing: "
                "declare them with 'drop' or 'raise' (in words 0:100,missing=drop), or learn a small tree or a card"
            )
        return self.with_columns(filled), bound

    # What is known

    @property
    @abstractmethod
    def scored(self) -> bool:
        """Whether its rules can be scored one by one."""

    @abstractmethod
    def growth(self, n: int) -> int:
        """An upper bound on the number of ways ``n`` points can be labelled."""

    @property
    def cut_direction(self) -> str | None:
        """The rules are the cuts of one column: "above", "below" or "both"; None for other rules."""
        return None

    @property
    def by_agreement(self) -> ByAgreement | None:
        """How agreement learns the class; None where it does not."""
        return None

    @property
    def is_tree(self) -> bool:
        """Whether :meth:`as_tree` gives a tree once the class has its domain."""
        return False

    def as_tree(self) -> VC1Tree:
        """The class as a tree of VC dimension 1, if it ``is_tree``."""
        raise ParameterError(f"{type(self).__name__} is no tree of rules")

    # Relabelling

    @abstractmethod
    def check_labellings(self, *, units: int | None = None, split_size: int | None = None, whole: bool = False) -> None:
        """Refuse if labellings would be too much work, from public numbers only, before any data are touched.

        ``units`` and ``split_size`` where they are public (replace); ``whole``: several records per unit in T.
        """

    @abstractmethod
    def part_labellings(
        self, part: UserData, rest: UserData, A: int, B: int, levels: int = 1, whole: bool = False
    ) -> Labellings:
        """All labellings of the points of ``part`` (its labels are not read), scored with the units ``rest``;
        ``whole``: several records per unit in T.  See :mod:`privpac.rules.labellings`."""


def with_domains(concept: C, features: Mapping[str, Domain | None]) -> C:
    """A class whose one column left its domain to the data, with the domain declared there; any other as it is."""
    missing = [name for name, domain in concept.declared().items() if domain is None]
    if len(missing) != 1 or len(concept.declared()) != 1:
        return concept
    known = features if missing[0] is None else {missing[0]: features.get(missing[0])}
    found = {column: domain for column, domain in known.items() if domain is not None}
    return concept.with_columns(found) if len(known) == 1 and found else concept
