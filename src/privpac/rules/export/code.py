"""A rule as a function of Python, JavaScript or R that needs nothing but its language.

The function takes one row by column names and reads each value as prediction reads it.  A value that prediction refuses
is an error that names its column.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from privpac.errors import ParameterError
from privpac.rules.export.writer import EXACT, RuleSource, ValueOfCode, Writer, value_steps

_PYTHON = {
    "missing": """\
def _missing(value):
    named = not isinstance(value, str) and str(value).lower() in ("nan", "-nan", "snan", "-snan", "nat", "<na>")
    return value is None or named
""",
    "number": '''\
def _number(value, exact):
    """A number as it is compared; a text is its decimal, and where ``exact`` is set a float its shortest one."""
    if type(value).__name__ in ("bool", "bool_"):
        return int(value)
    if isinstance(value, float):
        return Decimal(str(float(value))) if exact else float(value)
    if isinstance(value, (int, Decimal)):
        return value
    if isinstance(value, str):
        if not value.isascii() or "_" in value:
            raise ValueError
        return Decimal(value.strip())
    return value.__index__()
''',
    "float": '''\
def _float(value):
    """A number as a 64-bit float; whole numbers stay exact."""
    if isinstance(value, str):
        text = value.strip()
        if not text.isascii() or "_" in text:
            raise ValueError
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    if isinstance(value, Decimal):
        return float(value)
    return float(value) if isinstance(value, float) else value.__index__()
''',
    "date": '''\
def _date(value):
    """The day of a date, a moment or an ISO text."""
    if not isinstance(value, (str, date)):
        raise TypeError
    return datetime.fromisoformat(str(value).strip()).date()
''',
    "name": '''\
def _name(value):
    """The text of a value: whole numbers without decimals, true and false in lower case."""
    if type(value).__name__ in ("bool", "bool_"):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, (str, int, date)) and not isinstance(value, datetime):
        return str(value)
    return str(value.__index__())
''',
    "read": '''\
def _read(row, column, how, own, *more):
    """The value of a column as it is compared; None where it is missing and that is an answer."""
    value = row[column]
    try:
        found = None if _missing(value) else how(value, *more)
        if found is not None and found != found:
            found = None
    except (ArithmeticError, AttributeError, OverflowError, TypeError, ValueError):
        found, own = None, False
    if found is None and not own:
        raise ValueError(f"column {column!r}: the value is missing or cannot be read")
    return found
''',
    "listed": """\
def _listed(value, names):
    text = _name(value)
    if text not in names:
        raise ValueError
    return text
""",
    "code": '''\
def _code(value, first, step, size):
    """How many steps a number lies above the first, rounded down, within the domain."""
    if value in (float("inf"), float("-inf")):
        return size - 1 if value > 0 else 0
    return min(max(int((Fraction(value) - Fraction(first)) // Fraction(step)), 0), size - 1)
''',
}

_JAVASCRIPT = {
    "read": """\
  function read(column, how, own) {
    if (!Object.prototype.hasOwnProperty.call(row, column)) throw new Error("there is no column " + column);
    const value = row[column];
    const gone = value === null || value === undefined || Number.isNaN(value);
    if (gone && own) return null;
    const found = gone ? null : how(value);
    if (found === null) throw new Error("column " + column + ": the value is missing or cannot be read");
    return found;
  }
""",
    "number": """\
  function number(value) {
    if (typeof value === "boolean") return value ? 1 : 0;
    return typeof value === "number" ? value : null;
  }
""",
    "whole": """\
  function whole(value) {
    return typeof value === "bigint" ? value : number(value);
  }
""",
    "date": """\
  function day(value) {
    if (typeof value !== "string" || !/^\\d{4}-\\d{2}-\\d{2}([T ]\\d{2}[:.\\dZ+-]*)?$/.test(value)) return null;
    const found = new Date(value.slice(0, 10) + "T00:00:00Z");
    const same = !Number.isNaN(found.getTime()) && found.toISOString().slice(0, 10) === value.slice(0, 10);
    return same ? value.slice(0, 10) : null;
  }
""",
    "name": """\
  function listed(names) {
    return function (value) {
      const text = ["string", "number", "boolean", "bigint"].includes(typeof value) ? String(value) : null;
      return names.includes(text) ? text : null;
    };
  }
""",
    "code": """\
  function code(value, start, stride, unit, size) {
    const last = (start + stride * (size - 1)) / unit;
    if (!(value >= start / unit)) return 0;
    if (value >= last) return size - 1;
    const x = Number(value);
    let near = Math.round(x * unit);
    if (x < near / unit) near -= 1;
    return Math.floor((near - start) / stride);
  }
  function days(value, first) {
    return Math.round((Date.parse(value + "T00:00:00Z") - Date.parse(first + "T00:00:00Z")) / 86400000);
  }
""",
    "highest": """\
  function highest(totals) {
    return totals.indexOf(Math.max(...totals));
  }
""",
}

_R = {
    "read": """\
  read <- function(column, how, own) {
    at <- match(column, names(row))
    if (is.na(at)) stop("there is no column ", column, call. = FALSE)
    value <- row[[at]]
    if (is.factor(value)) value <- as.character(value)
    one <- is.atomic(value) && length(value) == 1
    gone <- is.null(value) || (one && is.na(value))
    found <- if (one && !gone) how(value)
    if (is.null(found) && !(gone && own)) {
      stop("column ", column, ": the value is missing or cannot be read", call. = FALSE)
    }
    found
  }
""",
    "number": """\
  number <- function(value) {
    if (!is.object(value) && (is.numeric(value) || is.logical(value))) as.numeric(value)
  }
""",
    "date": """\
  day <- function(value) {
    if (inherits(value, "Date")) return(if (is.finite(value)) value)
    time <- "[T ]([01][0-9]|2[0-3])(:[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
    iso <- paste0("^[[:space:]]*(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}(", time, ")?[[:space:]]*$")
    if (!is.character(value) || !grepl(iso, value, perl = TRUE, useBytes = TRUE)) return(NULL)
    found <- as.Date(substr(trimws(value), 1, 10), "%Y-%m-%d")
    if (!is.na(found)) found
  }
""",
    "name": """\
  listed <- function(names) {
    function(value) {
      text <- if (is.object(value)) NULL
      else if (is.character(value)) value
      else if (is.logical(value)) tolower(value)
      else if (!is.numeric(value) || is.infinite(value)) NULL
      else if (value == round(value)) sprintf("%.0f", value + 0)
      else Find(function(text) as.numeric(text) == value, sprintf("%.*g", 15:17, value))
      if (any(text %in% names)) text
    }
  }
""",
    "code": """\
  code <- function(value, start, stride, unit, size) {
    if (value < start / unit) return(0)
    if (value >= (start + stride * (size - 1)) / unit) return(size - 1)
    near <- round(value * unit)
    if (value < near / unit) near <- near - 1
    floor((near - start) / stride)
  }
""",
}


class CodeWriter(Writer):
    """What languages of functions share: every column that is read has a variable."""

    text: ClassVar[staticmethod[[str], str]]
    comment: ClassVar[str] = "#"

    def __init__(self, source: RuleSource) -> None:
        super().__init__(source)
        self.variables = {name: f"x{place}" for place, name in enumerate(source.reads, 1)}

    @abstractmethod
    def literal(self, name: str, value: ValueOfCode) -> str:
        """A number, exactly."""

    def _limit(self, name: str, code: int) -> str:
        if self.reading[name] == "date":
            return self.day(self.source.columns[name].present.text(code))
        return self.literal(name, self.value(name, code))

    @abstractmethod
    def day(self, text: str) -> str:
        """A date."""

    @abstractmethod
    def written(self) -> str:
        """The source."""

    def whole(self, name: str) -> bool:
        """Whether a column holds whole numbers, which doubles do not reach beyond 2^53."""
        line = self.source.columns[name].present.line
        return self.reading[name] == "number" and line is not None and line[0].denominator == 1 and line[1] == 1

    def at_least(self, name: str, code: int) -> str:
        return f"{self.variables[name]} >= {self._limit(name, code)}"

    def below(self, name: str, code: int) -> str:
        return f"{self.variables[name]} < {self._limit(name, code)}"

    def names(self, name: str) -> list[str]:
        """The listed names of a column."""
        domain = self.source.columns[name].present
        return [domain.word(code) for code in range(domain.size)]

    def own(self, name: str) -> bool:
        """Whether a missing value is an answer."""
        return self.source.columns[name].missing_code is not None

    def answer(self, place: int) -> str:
        return self.text(self.source.answers[place]) if self.source.answers else str(place)

    def said(self) -> list[str]:
        """The rule in words, as comments of one line each that no text in them can end."""
        return [f"{self.comment} {json.dumps(line)[1:-1]}" for line in self.source.words.split("\n")]


class PythonWriter(CodeWriter):
    """A function of Python 3.11 or later and its standard library."""

    words = ("and", "or")
    text = staticmethod(ascii)

    def exact(self, name: str) -> bool:
        """Whether floats of a column mean their shortest decimal: they do on grids of decimals."""
        line = self.source.columns[name].present.line
        return self.reading[name] == "number" and line is not None and not (line[0].denominator == line[1] == 1)

    def literal(self, name: str, value: ValueOfCode) -> str:
        if self.reading[name] == "float":
            return repr(value.double)
        return f"Decimal({value.text!r})" if self.exact(name) else value.text

    def day(self, text: str) -> str:
        year, month, day = map(int, text.split("-"))
        return f"date({year}, {month}, {day})"

    def one_of(self, name: str, words: Sequence[str], among: bool) -> str:
        listed = ", ".join(map(ascii, words))
        return f"{self.variables[name]} {'in' if among else 'not in'} ({listed},)"

    def is_missing(self, name: str) -> str:
        return f"{self.variables[name]} is None"

    def negated(self, text: str) -> str:
        return f"not ({text})"

    def chosen(self, cases: Sequence[tuple[str, str]], otherwise: str) -> str:
        return "(" + " else ".join([*(f"{outcome} if {condition}" for condition, outcome in cases), otherwise]) + ")"

    def code_of(self, name: str) -> str:
        domain, x = self.source.columns[name].present, self.variables[name]
        if self.reading[name] == "date":
            return f"min(max(({x} - {self.day(domain.text(0))}).days, 0), {domain.size - 1})"
        assert domain.line is not None
        first, step = (f"{str(part)!r}" for part in domain.line)
        return f"_code({x}, {first}, {step}, {domain.size})"

    def highest(self, totals: Sequence[str]) -> str:
        answers = ", ".join(self.answer(place) for place in range(len(totals)))
        return f"max(zip([{', '.join(totals)}], range(0, -{len(totals)}, -1), [{answers}]))[2]"

    def _reader(self, name: str) -> str:
        how, more = self.reading[name], ""
        if how == "number":
            more = f", {self.exact(name)}"
        elif how == "name":
            more = f", {tuple(self.names(name))!a}"
        function = "_listed" if how == "name" else f"_{how}"
        return f"_read(row, {name!a}, {function}, {self.own(name)}{more})"

    def written(self) -> str:
        """The module."""
        answer, used = self.answered(), {*self.reading.values()}
        helpers = ["missing", *(kind for kind in ("number", "float", "date", "name") if kind in used)]
        helpers += [name for name, wanted in (("listed", "name" in used), ("code", "_code(" in answer)) if wanted]
        body = [f"    {variable} = {self._reader(name)}" for name, variable in self.variables.items()]
        says = "the name of a label" if self.source.answers else "1 or 0"
        function = [
            "def predict(row):",
            f'    """{says.capitalize()} for a row, which maps the names of columns to values."""',
            *body,
            f"    return {answer}",
        ]
        imports = "from datetime import date, datetime\nfrom decimal import Decimal\nfrom fractions import Fraction"
        parts = [*(_PYTHON[helper] for helper in [*helpers, "read"]), "\n".join(function) + "\n"]
        return "\n".join(self.said()) + f"\n\n{imports}\n\n\n" + "\n\n".join(parts)


def _script(text: str) -> str:
    """A text of JavaScript that is also safe inside a page."""
    return json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e")


class JavaScriptWriter(CodeWriter):
    """A function of JavaScript (ES2020), for browsers and Node."""

    words = ("&&", "||")
    unequal = "!=="
    text = staticmethod(_script)
    comment = "//"
    most = EXACT

    def said(self) -> list[str]:
        return [line.replace("<", "\\u003c").replace(">", "\\u003e") for line in super().said()]

    def literal(self, name: str, value: ValueOfCode) -> str:
        if value.whole and self.whole(name):
            return value.text if abs(value.exact) <= EXACT else f"{value.text}n"
        return repr(value.double)

    day = text

    def one_of(self, name: str, words: Sequence[str], among: bool) -> str:
        listed = ", ".join(map(_script, words))
        return f"{'' if among else '!'}[{listed}].includes({self.variables[name]})"

    def is_missing(self, name: str) -> str:
        return f"{self.variables[name]} === null"

    def negated(self, text: str) -> str:
        return f"!({text})"

    def chosen(self, cases: Sequence[tuple[str, str]], otherwise: str) -> str:
        return "(" + " : ".join([*(f"{condition} ? {outcome}" for condition, outcome in cases), otherwise]) + ")"

    def code_of(self, name: str) -> str:
        domain, x = self.source.columns[name].present, self.variables[name]
        if self.reading[name] == "date":
            return f"Math.min(Math.max(days({x}, {_script(domain.text(0))}), 0), {domain.size - 1})"
        start, stride, unit, size = value_steps(name, domain)
        return f"code({x}, {start}, {stride}, {unit}, {size})"

    def highest(self, totals: Sequence[str]) -> str:
        answers = ", ".join(self.answer(place) for place in range(len(totals)))
        return f"[{answers}][highest([{', '.join(totals)}])]"

    def _reader(self, name: str) -> str:
        names = ", ".join(map(_script, self.names(name))) if self.reading[name] == "name" else ""
        numbers = "whole" if self.whole(name) else "number"
        how = {"name": f"listed([{names}])", "date": "day"}.get(self.reading[name], numbers)
        return f"read({_script(name)}, {how}, {'true' if self.own(name) else 'false'})"

    def written(self) -> str:
        """The script."""
        answer, used = self.answered(), {*self.reading.values()}
        numbers = bool(used & {"number", "float"})
        wanted = {
            "read": True,
            "number": numbers,
            "whole": any(map(self.whole, self.source.reads)),
            "date": "date" in used,
            "name": "name" in used,
            "code": "code(" in answer or "days(" in answer,
            "highest": "highest(" in answer,
        }
        helpers = "".join(_JAVASCRIPT[name] for name, needed in wanted.items() if needed)
        body = "".join(f"  const {variable} = {self._reader(name)};\n" for name, variable in self.variables.items())
        function = f"function predict(row) {{\n{helpers}{body}  return {answer};\n}}\n"
        return "\n".join(self.said()) + f'\n"use strict";\n{function}' + _MODULE


_MODULE = 'if (typeof module !== "undefined") module.exports = { predict };\n'


def _quoted(text: str) -> str:
    """A text of R in ASCII."""
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise ParameterError("R has no texts that hold a null character or half of a surrogate pair; use Python")
    return '"' + "".join(map(_letter, text)) + '"'


def _letter(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    return f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}"


class RWriter(CodeWriter):
    """A function of base R (4.0), for a named list or a data frame of one row."""

    words = ("&&", "||")
    text = staticmethod(_quoted)
    most = EXACT

    def literal(self, name: str, value: ValueOfCode) -> str:
        if self.whole(name) and abs(value.exact) > EXACT:
            raise ParameterError(
                f"column {name!r} is compared with a number beyond 2^53, where numbers of this language are no longer "
                "exact; use SQL or Python"
            )
        # R may read a decimal as a double beside the nearest one; it reads binary fractions exactly.
        whole = value.double.is_integer() and abs(value.double) <= EXACT
        return str(int(value.double)) if whole else value.double.hex()

    def day(self, text: str) -> str:
        return f"as.Date({_quoted(text)})"

    def one_of(self, name: str, words: Sequence[str], among: bool) -> str:
        found = f"{self.variables[name]} %in% c({', '.join(map(_quoted, words))})"
        return found if among else f"!({found})"

    def is_missing(self, name: str) -> str:
        return f"is.null({self.variables[name]})"

    def negated(self, text: str) -> str:
        return f"!({text})"

    def chosen(self, cases: Sequence[tuple[str, str]], otherwise: str) -> str:
        return "(" + " else ".join([*(f"if ({condition}) {outcome}" for condition, outcome in cases), otherwise]) + ")"

    def code_of(self, name: str) -> str:
        domain, x = self.source.columns[name].present, self.variables[name]
        if self.reading[name] == "date":
            return f"min(max(floor(as.numeric({x} - {self.day(domain.text(0))})), 0), {domain.size - 1})"
        start, stride, unit, size = value_steps(name, domain)
        return f"code({x}, {start}, {stride}, {unit}, {size})"

    def highest(self, totals: Sequence[str]) -> str:
        answers = ", ".join(self.answer(place) for place in range(len(totals)))
        return f"c({answers})[which.max(c({', '.join(totals)}))]"

    def _reader(self, name: str) -> str:
        listed = f"listed(c({', '.join(map(_quoted, self.names(name)))}))" if self.reading[name] == "name" else ""
        how = {"name": listed, "date": "day"}.get(self.reading[name], "number")
        return f"read({_quoted(name)}, {how}, {'TRUE' if self.own(name) else 'FALSE'})"

    def written(self) -> str:
        """The script."""
        answer, used = self.answered(), {*self.reading.values()}
        wanted = {
            "read": True,
            "number": bool(used & {"number", "float"}),
            "date": "date" in used,
            "name": "name" in used,
            "code": "code(" in answer,
        }
        helpers = "".join(_R[name] for name, needed in wanted.items() if needed)
        body = "".join(f"  {variable} <- {self._reader(name)}\n" for name, variable in self.variables.items())
        return "\n".join(self.said()) + f"\npredict_row <- function(row) {{\n{helpers}{body}  {answer}\n}}\n"


LANGUAGES: Mapping[str, type[CodeWriter]] = {"python": PythonWriter, "javascript": JavaScriptWriter, "r": RWriter}


def function(source: RuleSource, language: str) -> str:
    """The rule as a function."""
    if language not in LANGUAGES:
        raise ParameterError(f"language must be one of {', '.join(LANGUAGES)}, got {str(language)[:40]!r}")
    return LANGUAGES[language](source).written()
