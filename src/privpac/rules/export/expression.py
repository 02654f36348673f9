"""What a rule says, as a small tree over the codes of its columns.

Every question about a column is one leaf, :class:`CodesIn`: is its code in one of these ranges?  Rules combine leaves;
writers translate codes into values, because only the domain knows these.  Expressions hold no values and no words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, product
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from privpac.arrays import Array, Codes
from privpac.data import Domain

MOST_LISTED = 1 << 12
"""The most points on which a rule without an expression of its own is asked one by one."""


def _parts(values: Iterable[Condition]) -> tuple[Condition, ...]:
    return tuple(values)


def _terms(values: Iterable[Amount]) -> tuple[Amount, ...]:
    return tuple(values)


def _cases(values: Iterable[tuple[Condition, Answer]]) -> tuple[tuple[Condition, Answer], ...]:
    return tuple(values)


def _totals(values: Iterable[Iterable[Amount]]) -> tuple[tuple[Amount, ...], ...]:
    return tuple(map(tuple, values))


@frozen
class CodesIn:
    """The code of a column lies in one of some ranges, both ends included; an empty range holds nothing."""

    column: str
    ranges: tuple[tuple[int, int], ...]


@frozen
class AllOf:
    """All parts hold; of no parts: always."""

    parts: tuple[Condition, ...] = field(converter=_parts)


@frozen
class AnyOf:
    """Some part holds; of no parts: never."""

    parts: tuple[Condition, ...] = field(converter=_parts)


@frozen
class Negated:
    """The part does not hold."""

    part: Condition


@frozen
class OddNumber:
    """An odd number of parts hold."""

    parts: tuple[Condition, ...] = field(converter=_parts)


@frozen
class SumExceeds:
    """The sum of whole numbers is greater than ``limit``."""

    terms: tuple[Amount, ...] = field(converter=_terms)
    limit: int


@frozen
class CodeTimes:
    """The code of a column of equal steps, times a factor."""

    column: str
    factor: int


@frozen
class Cases:
    """The outcome of the first condition that holds, else ``otherwise``."""

    cases: tuple[tuple[Condition, Answer], ...] = field(converter=_cases)
    otherwise: Answer


@frozen
class HighestTotal:
    """The place of the greatest of some sums, the first of them where several are."""

    totals: tuple[tuple[Amount, ...], ...] = field(converter=_totals)


Condition = bool | CodesIn | AllOf | AnyOf | Negated | OddNumber | SumExceeds
Answer = int | Cases
Amount = int | Cases | CodeTimes
Expression = Condition | Cases | HighestTotal
"""A condition says 1 where it holds, else 0; other answers are whole numbers: 0, 1, or the places of several labels."""


def codes_in(column: str, first: int, last: int) -> CodesIn:
    """The code lies between ``first`` and ``last``, both included."""
    return CodesIn(column, ((first, last),))


def replaced(expression: object, answers: Mapping[str, Condition]) -> Any:
    """The expression with questions about yes/no columns replaced by conditions on other columns."""
    match expression:
        case CodesIn(column, ranges):
            yes, no = (any(low <= bit <= high for low, high in ranges) for bit in (1, 0))
            if yes == no:
                return yes
            return answers[column] if yes else Negated(answers[column])
        case AllOf(parts) | AnyOf(parts) | OddNumber(parts):
            return evolve(expression, parts=[replaced(part, answers) for part in parts])
        case Negated(part):
            return Negated(replaced(part, answers))
        case Cases(cases, otherwise):
            pairs = [(replaced(condition, answers), replaced(outcome, answers)) for condition, outcome in cases]
            return Cases(pairs, replaced(otherwise, answers))
        case _:
            return expression


def runs(said: Sequence[int] | Array) -> list[tuple[int, int, int]]:
    """What is said on codes 0, 1, 2, ... as ``(value, first code, last code)``."""
    found, start = [], 0
    for value, run in groupby(int(value) for value in said):
        end = start + len(list(run))
        found.append((value, start, end - 1))
        start = end
    return found


def listed(columns: Mapping[str, Domain], predict_codes: Callable[[Mapping[str, Codes]], Array]) -> Expression | None:
    """The expression of any rule over a few codes: it is asked for all of them; None where they are too many."""
    sizes = [0 if domain.open else domain.size for domain in columns.values()]
    if not sizes or not all(sizes) or np.prod(sizes, dtype=object) > MOST_LISTED:
        return None
    names = list(columns)
    points = np.array(list(product(*map(range, sizes))), dtype=np.uint64)
    said = np.asarray(predict_codes({name: np.ascontiguousarray(points[:, i]) for i, name in enumerate(names)}))
    rows = said.reshape(-1, sizes[-1])
    found: dict[int, list[Condition]] = {}
    for at, row in zip(product(*map(range, sizes[:-1])), rows):
        ranges: dict[int, list[tuple[int, int]]] = {}
        for value, first, last in runs(row):
            ranges.setdefault(value, []).append((first, last))
        fixed = [codes_in(name, code, code) for name, code in zip(names, at)]
        for value, these in ranges.items():
            found.setdefault(value, []).append(AllOf((*fixed, CodesIn(names[-1], tuple(these)))))
    otherwise = max(found, key=lambda value: len(found[value]))
    if set(found) <= {0, 1}:
        return AnyOf(found.get(1, ()))
    return Cases([(AnyOf(parts), value) for value, parts in found.items() if value != otherwise], otherwise)
