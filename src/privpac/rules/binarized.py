"""Conjunctions, disjunctions, decision lists and parities of numbers and names: yes/no questions at public cut points.

A column of numbers is asked whether it is above each of a few public values, a column of names whether it is each of
them; a column of two values is asked as it is.  The answers are yes/no columns, and a class of rules over such columns
does the rest: the profile of the questions *is* the profile of that class on the answers, which are a function of one
record each.  So every proof about the class over yes/no columns holds here, and its VC dimension is an upper bound:
fewer patterns of answers occur than there are.

Cut points come from the declared domain or from the caller, never from the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from attrs import evolve, frozen

from privpac.arrays import Codes
from privpac.data import Domain, Integers, UserData
from privpac.data.domains import own_code
from privpac.errors import ParameterError
from privpac.result import WideInt
from privpac.rules.base import ColumnCodes, ConceptClass, Frozen, Predictions, Rule
from privpac.rules.boxes import Conjunctions, Disjunctions, literal
from privpac.rules.decision_lists import DecisionLists
from privpac.rules.enumerated import Cells, NamedColumns, cells_at, checked_cuts, even_cells, named_domains
from privpac.rules.export.expression import Condition, Expression, codes_in, replaced
from privpac.rules.parities import Parities
from privpac.rules.profile import Profile, Statistic
from privpac.rules.wide_columns import typical_edges

ASKED: dict[str, type[Any]] = {
    "conjunction": Conjunctions,
    "disjunction": Disjunctions,
    "decision-list": DecisionLists,
    "parity": Parities,
}
"""The classes over yes/no columns, by name."""
_MOST = 10
"""Questions in all, where no cuts are given: a few thousand rules, or tens of thousands."""
_BIT = Integers(0, 1)


class Question(NamedTuple):
    """Is the code of a column at least (``above``) or exactly this one?"""

    column: str
    code: WideInt
    above: bool

    def answers(self, codes: ColumnCodes) -> Codes:
        column, code = codes[self.column], np.uint64(self.code)
        return ((column >= code) if self.above else (column == code)).astype(np.uint64)

    def expression(self, domain: Domain) -> Condition:
        """The question about the codes of its column."""
        return codes_in(self.column, self.code, domain.size - 1 if self.above else self.code)

    def text(self, domain: Domain, yes: bool = True) -> str:
        """In the user's units."""
        if domain.size == 2:
            return literal(self.column, domain, int(yes))
        if self.above:
            return f"{self.column} {'>' if yes else '<='} {domain.text(self.code - 1)}"
        return f"{self.column} {'is' if yes else 'is not'} {domain.text(self.code)}"


def _names(questions: Sequence[Question], columns: Mapping[str, Domain]) -> list[str]:
    return [question.text(columns[question.column]) for question in questions]


def _answered(questions: Sequence[Question], columns: Mapping[str, Domain], codes: ColumnCodes) -> dict[str, Any]:
    """The columns of answers, by what they ask."""
    return {name: question.answers(codes) for name, question in zip(_names(questions, columns), questions)}


@frozen(slots=False, repr=False)
class BinarizedRule(Rule):
    """A rule over the answers to some questions."""

    saved_as: ClassVar[str] = "questions"
    columns: Frozen[Domain]
    questions: tuple[Question, ...]
    rule: Rule
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        for question in self.questions:
            domain = self.columns.get(question.column)
            if domain is None or not 0 <= question.code < domain.size or (question.above and question.code == 0):
                raise ParameterError(f"a question must be about a value of one of {list(self.columns)}")
        if not isinstance(self.rule, Rule) or list(self.rule.features) != _names(self.questions, self.columns):
            raise ParameterError("the rule must be about the answers to the questions")

    @property
    def reads(self) -> Sequence[str]:
        used = set(self.rule.reads)
        named = zip(_names(self.questions, self.columns), self.questions)
        return tuple(dict.fromkeys(question.column for name, question in named if name in used))

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        read = [question for question in self.questions if question.column in codes]
        said: Predictions = self.rule.predict_codes(_answered(read, self.columns, codes))
        return said

    def expression(self) -> Expression:
        asked = zip(_names(self.questions, self.columns), self.questions)
        answers = {name: question.expression(self.columns[question.column]) for name, question in asked}
        found: Expression = replaced(self.rule.expression(), answers)
        return found

    def condition(self) -> str:
        text = str(self.rule.condition())
        for question in self.questions:
            domain = self.columns[question.column]
            yes, no = question.text(domain), question.text(domain, yes=False)
            text = text.replace(f"not {yes}", no).replace(f"{yes} = 1", yes).replace(f"{yes} = 0", no)
        return text

    def __str__(self) -> str:
        return self.condition() if self.condition().startswith("if ") else super().__str__()


@frozen(slots=False, init=False)
class Binarized(NamedColumns):
    """Rules of a class over yes/no columns, on columns of numbers and names.

    ``over`` is "conjunction", "disjunction", "decision-list" or "parity".  ``cuts`` is the number of cut points of a
    column of numbers, or a mapping to a number or to the values above which is asked; without it about ten questions
    are asked in all, spread evenly over the declared values, or over the typical range of a column that declares one.

    Parameters
    ----------
    over : {"conjunction", "disjunction", "decision-list", "parity"}
        The class over yes/no columns.
    domains : mapping of names to domains, or names, optional
        The columns; None takes every feature of the data.
    cuts : int or mapping, optional
        How many cut points a column of numbers has, or which.

    Raises
    ------
    ParameterError
        The name is none of the four, or a column has no cuts.

    Examples
    --------
    >>> rules = Binarized("conjunction", {"age": Integers(0, 99), "smoker": Integers(0, 1)}, cuts={"age": [40, 60]})
    >>> rules.size, str(rules.decode(1 + 9 + 6 + 1, label="event"))
    (28, 'event when age > 40 and age <= 60 and smoker')
    """

    over: str
    domains: Frozen[Domain | None]
    cuts: Any

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        name: {"over": name} for name in ("conjunction", "disjunction", "parity", "decision-list")
    }

    def __init__(
        self, over: str, domains: Mapping[str, Domain | None] | Sequence[str] | None = None, cuts: object = None
    ) -> None:
        if over not in ASKED:
            raise ParameterError(f"over must be one of {', '.join(ASKED)}, got {over!r}")
        columns = named_domains(domains, "domains")
        self.__attrs_init__(over, columns, checked_cuts(cuts, columns))
        if columns and all(domain is not None for domain in columns.values()):
            assert self.inner.size >= 1  # too large a class is refused here

    def _cells(self, name: str, domain: Domain, usual: int) -> Cells:
        every = usual if self.cuts is None else self.cuts
        cut = every.get(name, usual) if isinstance(every, Mapping) else every
        if not isinstance(cut, int):
            at = cells_at(domain, cut, name)  # "above v" begins at the value after v
            return Cells(domain, (0, *(edge + 1 for edge in at.edges[1:] if edge + 1 < domain.size)))
        if not domain.present.bounded:
            raise ParameterError(
                f"column {name!r} may hold every number, so its cut points must be given: cuts={{{name!r}: [...]}}, or "
                "declare a domain such as Grid(0, 10, 0.1)"
            )
        typical = domain.typical_codes()
        return (
            even_cells(domain, cut + 1)
            if typical is None
            else Cells(domain, (0, *typical_edges(domain.size, typical, cut + 1)))
        )

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """What is asked, in the order of the columns."""
        wide = [name for name, domain in self._columns.items() if domain.size > 2]
        names = [name for name in wide if not self._columns[name].ordered]
        fixed = len(self._columns) - len(wide) + sum(self._columns[name].size for name in names)
        usual = max(1, (_MOST - fixed) // max(1, len(wide) - len(names)))
        found: list[Question] = []
        for name, domain in self._columns.items():
            if own_code(domain) is not None:
                raise ParameterError(
                    f"column {name!r} has missing values of its own, and a question has no third answer; declare "
                    "missing='drop', or learn a small tree"
                )
            if name in names:
                found += [Question(name, code, above=False) for code in range(domain.size)]
            elif domain.size == 1:
                continue
            elif domain.size == 2:
                found.append(Question(name, 1, above=True))
            else:
                found += [Question(name, edge, above=True) for edge in self._cells(name, domain, usual).edges[1:]]
        if not found:
            raise ParameterError("these columns leave nothing to ask: each has one value, or no cut point")
        return tuple(found)

    @cached_property
    def inner(self) -> Any:
        """The class over the answers."""
        return ASKED[self.over](dict.fromkeys(_names(self.questions, self._columns), _BIT))

    @property
    def size(self) -> int:
        return int(self.inner.size)

    @property
    def vc_dimension(self) -> int:
        """At most that of the class over all patterns of answers."""
        return int(self.inner.vc_dimension)

    @classmethod
    def from_features(cls, features: Mapping[str, Domain], **fixed: Any) -> ConceptClass:
        """The class over yes/no columns as it is, or over questions where some column has other values."""
        if all(domain.size == 2 for domain in features.values()):
            plain: ConceptClass = ASKED[fixed["over"]](dict(features))
            return plain
        return cls(fixed["over"], dict(features))

    def decode(self, hypothesis: int, label: str = "1") -> BinarizedRule:
        return BinarizedRule(self._columns, self.questions, self.inner.decode(hypothesis, label), label)

    def predictions(self, codes: ColumnCodes, hypothesis: int) -> Predictions:
        said: Predictions = self.inner.predictions(_answered(self.questions, self._columns, codes), hypothesis)
        return said

    def empty_profile(self) -> Profile:
        empty: Profile = self.inner.empty_profile()
        return empty

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        answers = _answered(self.questions, self._columns, users.codes)
        asked = evolve(users, codes=answers, features=dict.fromkeys(answers, _BIT), raw={}, vocabularies={})
        folded: Profile = self.inner._fold(asked, tuple(answers), statistic)
        return folded
