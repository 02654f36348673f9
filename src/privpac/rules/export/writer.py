"""What all languages share: how expressions over codes become conditions on values.

Prediction reads a value by itself and clamps it (:mod:`privpac.data.schema`): a number outside the domain counts as its
nearest end, one between two points as the point below.  So with ``v_k`` the value of code ``k``

* ``code >= k`` is ``x >= v_k`` for every code above the lowest, and holds always for the lowest;
* ``code <= k`` is ``x < v_{k+1}`` for every code below the highest, and holds always for the highest.

No value is moved: both ends of a domain stay open.  A float column compares with the least double that prediction reads
as ``v_k`` or more (:attr:`ValueOfCode.double`), found by asking the domain.  Where prediction refuses a value (missing,
unreadable, not listed) a writer says that there is no answer, for all columns that the rule reads.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, reduce
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import polars as pl

from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.rules.export.expression import (
    AllOf,
    Amount,
    AnyOf,
    Cases,
    CodesIn,
    CodeTimes,
    Condition,
    Expression,
    HighestTotal,
    Negated,
    OddNumber,
    SumExceeds,
)

EXACT = 1 << 53
"""Whole numbers up to here are doubles."""

ReadColumn = Literal["number", "float", "date", "name"]


class RuleSource(NamedTuple):
    """What is exported: what a rule says, its columns, those that prediction reads, and the names of its answers."""

    expression: Expression
    columns: Mapping[str, Domain]
    reads: Sequence[str]
    answers: Sequence[str]
    """Empty where the answers are 0 and 1."""
    words: str
    """The rule in words."""


class ValueOfCode(NamedTuple):
    """The value at which a code begins."""

    exact: Fraction
    text: str
    """A decimal."""
    double: float
    """The least float that is read as this code or a higher one."""

    @property
    def whole(self) -> bool:
        return self.exact.denominator == 1


class Steps(NamedTuple):
    """Numbers in equal steps as whole ones: code ``k`` is ``(start + stride * k) / unit``."""

    start: int
    stride: int
    unit: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.stride * (self.size - 1)


def reading(name: str, domain: Domain) -> ReadColumn:
    """How the values of a column are compared."""
    there = domain.present
    if there.open:
        raise ParameterError(
            f"column {name!r} holds any text, and which texts occur is private, so the rule cannot be written out; "
            "use predict, or declare Categories([...]) and learn again"
        )
    if there.listed:
        return "name"
    if there.numeric:
        return "number" if there.line is not None else "float"
    if there.column_type == pl.Date:
        return "date"
    raise ParameterError(f"column {name!r} holds {there.describe()}, which no other language reads; use predict")


def value_of(domain: Domain, code: int) -> ValueOfCode:
    """Where a code of numbers begins."""
    there = domain.present
    if there.line is not None:
        first, step = there.line
        exact, text = first + step * code, there.text(code)
    else:
        held = there.code(there.value(code)) == code  # among the codes of floats are patterns that no value has
        number = float(there.value(code if held else code + 1))
        exact, text = Fraction(number), repr(number)
    return ValueOfCode(exact, text, _least_double(there, code, float(exact)))


def _least_double(domain: Domain, code: int, near: float) -> float:
    def reached(x: float) -> bool:
        return int(domain.encode(np.array([x]), on_invalid="clamp")[0][0]) >= code

    while not reached(near):
        near = math.nextafter(near, math.inf)
    while reached(below := math.nextafter(near, -math.inf)):
        near = below
    return near


def value_steps(name: str, domain: Domain) -> Steps:
    """A column of numbers in equal steps whose codes are added up; refused where doubles could not count them."""
    line = domain.present.line
    assert line is not None
    first, step = line
    unit = next((10**p for p in range(23) if 10**p % math.lcm(first.denominator, step.denominator) == 0), 0)
    steps = Steps(int(first * unit), int(step * unit), unit, domain.present.size)
    if not unit or max(abs(steps.start), abs(steps.end)) > 10**15:
        raise ParameterError(
            f"a weighted sum over column {name!r} needs numbers of at most 15 digits where it is exported; use "
            "predict, or declare a coarser domain"
        )
    return steps


class Writer(ABC):
    """Expressions in one language; a subclass says how its words are spelled."""

    words: ClassVar[tuple[str, str]] = ("AND", "OR")
    unequal: ClassVar[str] = "!="
    most: ClassVar[int] = 1 << 63
    """Weighted sums of codes stay within it."""

    def __init__(self, source: RuleSource) -> None:
        self.source = source
        self.reading = {name: reading(name, source.columns[name]) for name in source.reads}
        self.value = cache(lambda name, code: value_of(source.columns[name], code))

    # Spelled by each language

    @abstractmethod
    def at_least(self, name: str, code: int) -> str:
        """A value that is there has this code or a higher one."""

    @abstractmethod
    def below(self, name: str, code: int) -> str:
        """A value that is there has a lower code."""

    @abstractmethod
    def one_of(self, name: str, words: Sequence[str], among: bool) -> str:
        """A listed name is (or is not) among these."""

    @abstractmethod
    def is_missing(self, name: str) -> str:
        """The value of a column whose missing values are an answer is missing."""

    @abstractmethod
    def negated(self, text: str) -> str: ...

    @abstractmethod
    def chosen(self, cases: Sequence[tuple[str, str]], otherwise: str) -> str:
        """The first outcome whose condition holds."""

    @abstractmethod
    def code_of(self, name: str) -> str:
        """The code of a column of equal steps, a whole number."""

    @abstractmethod
    def highest(self, totals: Sequence[str]) -> str:
        """The answer of the greatest sum."""

    @abstractmethod
    def answer(self, place: int) -> str:
        """0 or 1, or the name of a label."""

    # The same in all

    def condition(self, condition: Condition) -> str | bool:
        """A text, or what is always so.  Every text is true or false, never unknown, where there is an answer."""
        match condition:
            case bool():
                return condition
            case CodesIn(column, ranges):
                return self._codes_in(column, ranges)
            case AllOf(parts):
                return self._joined(map(self.condition, parts), every=True)
            case AnyOf(parts):
                return self._joined(map(self.condition, parts), every=False)
            case Negated(part):
                return self._not(self.condition(part))
            case OddNumber(parts):
                texts = [self.condition(part) for part in parts]
                odd = [text for text in texts if isinstance(text, str)]
                flipped = sum(text is True for text in texts) % 2 == 1
                if not odd:
                    return flipped
                whole = reduce(lambda left, right: f"({left}) {self.unequal} ({right})", odd)
                return self._not(whole) if flipped else whole
            case SumExceeds(terms, limit):
                self._check_sum(terms)
                return f"{self.total(terms)} > {limit}"

    def _check_sum(self, terms: Sequence[Amount]) -> None:
        added = [term for term in terms if isinstance(term, CodeTimes)]
        reach = sum(abs(term.factor) * self.source.columns[term.column].present.size for term in added)
        if reach > self.most:
            raise ParameterError(
                "this weighted sum goes beyond 2^53, where numbers of this language are no longer exact; use SQL or "
                "Python"
            )

    def _not(self, text: str | bool) -> str | bool:
        return self.negated(text) if isinstance(text, str) else not text

    def _joined(self, texts: Iterable[str | bool], every: bool) -> str | bool:
        """All of some texts, or any."""
        open_ones = []
        for text in texts:
            if isinstance(text, str):
                open_ones.append(text)
            elif text != every:
                return not every
        if len(open_ones) < 2:
            return open_ones[0] if open_ones else every
        return f" {self.words[0] if every else self.words[1]} ".join(f"({text})" for text in open_ones)

    def _codes_in(self, name: str, ranges: Sequence[tuple[int, int]]) -> str | bool:
        domain = self.source.columns[name]
        own = domain.missing_code
        there = self._there(name, domain.present, ranges)
        if own is None:
            return there
        missing = self.is_missing(name)
        if any(low <= own <= high for low, high in ranges):
            return self._joined([missing, there], every=False)
        return self._joined([self.negated(missing), there], every=True)

    def _there(self, name: str, domain: Domain, ranges: Sequence[tuple[int, int]]) -> str | bool:
        """What is asked of a value that is there."""
        lowest, highest = domain.value_range()
        inside = [(max(low, lowest), min(high, highest)) for low, high in ranges]
        inside = [(low, high) for low, high in inside if low <= high]
        if self.reading[name] == "name":
            codes = {code for low, high in inside for code in range(low, high + 1)}
            few = len(codes) <= domain.size - len(codes)
            if not codes or len(codes) == domain.size:
                return bool(codes)
            chosen = [code for code in range(domain.size) if (code in codes) == few]
            return self.one_of(name, [domain.word(code) for code in chosen], few)

        def between(low: int, high: int) -> str | bool:
            bounds: list[str | bool] = []
            if low > lowest:
                bounds.append(self.at_least(name, low))
            if high < highest:
                bounds.append(self.below(name, high + 1))
            return self._joined(bounds, every=True)

        return self._joined((between(low, high) for low, high in inside), every=False)

    def number(self, number: Amount, spelled: Callable[[int], str] = str) -> str:
        """A whole number, an outcome of cases, or a code times its factor."""
        match number:
            case int():
                return spelled(number)
            case CodeTimes(column, factor):
                code = self.code_of(column)
                return code if factor == 1 else f"{factor} * {code}"
            case Cases(cases, otherwise):
                open_ones: list[tuple[str, str]] = []
                last = otherwise
                for condition, outcome in cases:
                    text = self.condition(condition)
                    if text is True:
                        last = outcome
                        break
                    if isinstance(text, str):
                        open_ones.append((text, self.number(outcome, spelled)))
                end = self.number(last, spelled)
                return self.chosen(open_ones, end) if open_ones else end

    def total(self, terms: Sequence[Amount]) -> str:
        """A sum, in parentheses."""
        fixed = sum(term for term in terms if isinstance(term, int))
        parts = [self.number(term) for term in terms if not isinstance(term, int)]
        if fixed or not parts:
            parts.append(str(fixed) if fixed >= 0 else f"({fixed})")
        return "(" + " + ".join(parts) + ")"

    def answered(self) -> str:
        """The answer of the rule."""
        expression = self.source.expression
        match expression:
            case HighestTotal(totals):
                return self.highest([self.total(terms) for terms in totals])
            case Cases():
                return self.number(expression, self.answer)
            case _:
                return self.number(Cases([(expression, 1)], 0), self.answer)
