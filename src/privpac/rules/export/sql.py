"""A rule as one expression of SQL: ``CASE WHEN ... THEN 1 ELSE 0 END``, for five dialects.

Where prediction refuses a value the expression is NULL.  Numbers are compared as the database compares them: exact
types exactly, floating point as 64-bit floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from privpac.errors import ParameterError
from privpac.rules.export.writer import RuleSource, ValueOfCode, Writer, value_steps


class Dialect(NamedTuple):
    """What dialects spell differently."""

    text: str
    whole: str
    double: str
    quotient: str
    """Of two whole numbers that are not negative, rounded down."""
    days: str
    """From one date to a later one."""
    nan: str
    """Whether a number is no number."""
    greatest: str = "GREATEST"


_NAN = "CAST({x} AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION)"

DIALECTS: Mapping[str, Dialect] = {
    "ansi": Dialect("VARCHAR(4000)", "BIGINT", "DOUBLE PRECISION", "FLOOR({a} / {b})", "", "{x} <> {x}"),
    "duckdb": Dialect("VARCHAR", "BIGINT", "DOUBLE", "({a} // {b})", "({a} - {b})", "isnan(CAST({x} AS DOUBLE))"),
    "postgres": Dialect("TEXT", "BIGINT", "DOUBLE PRECISION", "({a} / {b})", "({a} - {b})", _NAN),
    "bigquery": Dialect(
        "STRING", "INT64", "FLOAT64", "DIV({a}, {b})", "DATE_DIFF({a}, {b}, DAY)", "IS_NAN(CAST({x} AS FLOAT64))"
    ),
    "sqlite": Dialect(
        "TEXT", "INTEGER", "REAL", "({a} / {b})", "CAST(julianday({a}) - julianday({b}) AS INTEGER)", "", "MAX"
    ),
}


class SqlWriter(Writer):
    """Expressions in a dialect."""

    unequal = "<>"

    def __init__(self, source: RuleSource, dialect: str) -> None:
        if dialect not in DIALECTS:
            raise ParameterError(f"dialect must be one of {', '.join(DIALECTS)}, got {str(dialect)[:40]!r}")
        super().__init__(source)
        self.name, self.dialect = dialect, DIALECTS[dialect]

    # Names, texts and numbers

    def column(self, name: str) -> str:
        """A quoted name."""
        if not name or "\0" in name:
            raise ParameterError("SQL has no columns of this name: it is empty or holds a null character")
        if self.name == "bigquery":
            return "`" + _escaped(name).replace("`", "\\`") + "`"
        return '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str:
        """A quoted text."""
        if "\0" in value:
            raise ParameterError("SQL has no texts that hold a null character")
        if self.name == "bigquery":
            return "'" + _escaped(value).replace("'", "\\'") + "'"
        doubled = value.replace("'", "''")
        # Whether a backslash is a sign or an escape is a setting in Postgres; here it is always written as an escape.
        return (
            "E'" + doubled.replace("\\", "\\\\") + "'" if self.name == "postgres" and "\\" in value else f"'{doubled}'"
        )

    def literal(self, name: str, value: ValueOfCode) -> str:
        """A number, exactly."""
        if self.name == "sqlite":
            small = value.whole and -(1 << 63) < value.exact < 1 << 63
            return str(int(value.exact)) if small and self.reading[name] == "number" else sqlite_real(value.double)
        if self.reading[name] == "float":
            return f"CAST({self.text(repr(value.double))} AS {self.dialect.double})"
        if self.name != "bigquery" or (value.whole and -(1 << 63) < value.exact < 1 << 63):
            return value.text
        whole, _, decimals = value.text.lstrip("-").partition(".")
        kind = "NUMERIC" if len(whole) <= 29 and len(decimals) <= 9 else "BIGNUMERIC"
        return f"{kind} '{value.text}'"

    def day(self, name: str, code: int) -> str:
        day = self.text(self.source.columns[name].present.text(code))
        return day if self.name == "sqlite" else f"DATE {day}"

    # Values as they are compared

    def operand(self, name: str) -> str:
        column = self.column(name)
        match self.reading[name]:
            case "name":
                text = f"CAST({column} AS {self.dialect.text})"
                return f"{text} COLLATE BINARY" if self.name == "sqlite" else text
            case "date":
                return f"substr({column}, 1, 10)" if self.name == "sqlite" else f"CAST({column} AS DATE)"
            case _:
                return column

    def _limit(self, name: str, code: int) -> str:
        return self.day(name, code) if self.reading[name] == "date" else self.literal(name, self.value(name, code))

    def at_least(self, name: str, code: int) -> str:
        return f"{self.operand(name)} >= {self._limit(name, code)}"

    def below(self, name: str, code: int) -> str:
        return f"{self.operand(name)} < {self._limit(name, code)}"

    def one_of(self, name: str, words: Sequence[str], among: bool) -> str:
        listed = ", ".join(map(self.text, self._stored(name, words)))
        return f"{self.operand(name)} {'IN' if among else 'NOT IN'} ({listed})"

    def _stored(self, name: str, words: Sequence[str]) -> list[str]:
        """The texts under which a database has some names: SQLite keeps false and true as 0 and 1."""
        domain = self.source.columns[name].present
        truths = {domain.word(code) for code in range(min(domain.size, 3))} <= {"false", "true"}
        more = [str(int(word == "true")) for word in words] if truths and self.name == "sqlite" else []
        return [*words, *more]

    def is_missing(self, name: str) -> str:
        column = self.column(name)
        nan = self.dialect.nan if self.reading[name] in ("number", "float") else ""
        return f"{column} IS NULL OR {nan.format(x=column)}" if nan else f"{column} IS NULL"

    def refused(self, name: str) -> str:
        """Values that prediction refuses; empty where there are none."""
        domain, column = self.source.columns[name], self.column(name)
        own = domain.missing_code is not None
        parts = [] if own else [self.is_missing(name)]
        if self.reading[name] == "name":
            listed = [domain.present.word(code) for code in range(domain.present.size)]
            parts.append(self.one_of(name, listed, among=False))
        elif self.name == "sqlite" and self.reading[name] == "date":
            day = self.operand(name)
            parts.append(f"date({column}) IS NULL AND {column} IS NOT NULL" if own else f"date({column}) IS NULL")
            parts.append(f"date({day}) <> {day}")
        elif self.name == "sqlite":
            parts.append(f"typeof({column}) IN ('text', 'blob')")
        return " OR ".join(f"({part})" if " AND " in part else part for part in parts)

    # Conditions

    def negated(self, text: str) -> str:
        return f"NOT ({text})"

    def chosen(self, cases: Sequence[tuple[str, str]], otherwise: str) -> str:
        whens = " ".join(f"WHEN {condition} THEN {outcome}" for condition, outcome in cases)
        return f"CASE {whens} ELSE {otherwise} END"

    def highest(self, totals: Sequence[str]) -> str:
        whens = " ".join(f"WHEN {total} THEN {self.answer(place)}" for place, total in enumerate(totals))
        return f"CASE {self.dialect.greatest}({', '.join(totals)}) {whens} END"

    def answer(self, place: int) -> str:
        return self.text(self.source.answers[place]) if self.source.answers else str(place)

    def code_of(self, name: str) -> str:
        domain, x = self.source.columns[name], self.operand(name)
        last = domain.present.size - 1
        if self.reading[name] == "date":
            if not self.dialect.days:
                raise ParameterError("ANSI SQL does not count days between dates; choose another dialect")
            inside = self.dialect.days.format(a=x, b=self.day(name, 0))
        else:
            start, stride, unit, _ = value_steps(name, domain)
            # A whole number next to x * unit; one less where its point is above x, as prediction compares them.
            near = f"CAST(ROUND({x}{f' * {unit}' if unit > 1 else ''}) AS {self.dialect.whole})"
            point = f"CAST({near} AS {self.dialect.double}) / {unit}" if unit > 1 else near
            inside = f"{near} - CASE WHEN {x} < {point} THEN 1 ELSE 0 END - ({start})"
            if stride > 1:
                inside = self.dialect.quotient.format(a=f"({inside})", b=stride)
        if last == 0:
            return "0"
        return (
            f"(CASE WHEN {self.below(name, 1)} THEN 0 WHEN {self.at_least(name, last)} THEN {last} ELSE {inside} END)"
        )

    def written(self) -> str:
        """The whole expression."""
        refused = [f"({text})" for name in self.source.reads if (text := self.refused(name))]
        lines = [f"  WHEN {' OR '.join(refused)} THEN NULL"] if refused else []
        answer = self.answered()
        if answer.startswith("CASE WHEN "):  # one expression, not one inside another
            lines.append("  " + answer.removeprefix("CASE ").removesuffix(" END"))
        else:
            lines.append(f"  ELSE {answer}" if lines else f"  WHEN 1 = 1 THEN {answer}")
        return "\n".join(["CASE", *lines, "END"])


def _escaped(value: str) -> str:
    """As in BigQuery's texts: a backslash and signs that are not printed."""
    return "".join("\\\\" if sign == "\\" else sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in value)


def sqlite_real(x: float) -> str:
    """A float that SQLite reads exactly: it rounds long decimals as it likes, but not whole numbers and powers of two.

    >>> sqlite_real(2.5), sqlite_real(0.30000000000000004)
    ('2.5', '(5404319552844596.0 / 4503599627370496.0 / 4.0)')
    """
    shown = repr(x)
    digits, _, exponent = shown.lstrip("-").partition("e")
    if len(digits.replace(".", "")) <= 15 and not exponent:
        return shown
    mantissa, above = math.frexp(x)
    whole, power = int(mantissa * (1 << 53)), above - 53
    factors = [52] * (abs(power) // 52) + [abs(power) % 52] * (power % 52 != 0)
    sign = "/" if power < 0 else "*"
    return "(" + f" {sign} ".join([f"{whole}.0", *(repr(float(1 << factor)) for factor in factors)]) + ")"


def sql_case(source: RuleSource, dialect: str) -> str:
    """The rule as an expression of SQL."""
    return SqlWriter(source, dialect).written()
