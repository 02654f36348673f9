"""The values a feature may take, in order, declared before any data are seen.

A :class:`Domain` maps values to codes ``0..size-1``, increasing with the value, both ends included.  It is public: a
rule is printed over the declared domain, never over the range seen in the data.  ``value`` and ``text`` give a code
back in the user's units; for every domain ``value(encode(v)) == v``.

>>> Integers(0, 1440).value(1033), Grid(35, 42, 0.1).text(4), Categories(["low", "high"]).value(1)
(1033, '35.4', 'high')
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar, Literal, NoReturn, Self, get_args

import numpy as np
import polars as pl
from attrs import field, frozen

from privpac.data.columns import column, days, holds_text, named_texts, text
from privpac.data.encode import Ladder, by_distinct_text, covers, on_floats, on_ladder
from privpac.data.grouping import dictionary
from privpac.data.objects import DATED, MOMENTS, NAMED, NUMBERS, OBJECTS, Kind, by_kind
from privpac.data.schema import Bools, Encoded, OnInvalid, Verdict, Words, accept, wrong_type
from privpac.errors import ParameterError, SchemaError
from privpac.exact import Rational, rational
from privpac.guarantee import one_of, positive_int
from privpac.parameters import bounds, named, whole

__all__ = [
    "Categories",
    "Dates",
    "Domain",
    "Floats",
    "Grid",
    "Integers",
    "Missing",
    "MissingRule",
    "Texts",
    "in_one_line",
    "invalid_words",
    "own_code",
    "read_column",
    "values_of",
]


_EPOCH = date(1970, 1, 1).toordinal()
_WORDS = bounds(minimum=-(1 << 63), maximum=(1 << 64) - 1)


class Domain(ABC):
    """A declared set of values with codes ``0..size-1``."""

    kind: ClassVar[str]
    ordered: bool = True
    """Whether the order of the codes means something: a rule may then ask "is it above this value?", else only "is it
    this value?"."""
    _off: ClassVar[str] = "off the domain"
    _unread: ClassVar[str] = "not a number"
    _kinds_read: ClassVar[frozenset[Kind]] = NUMBERS | {Kind.TEXT}
    _kinds: ClassVar[dict[str, type[Domain]]] = {}

    def __init_subclass__(cls, **rest: Any) -> None:
        """A domain with a kind of its own can be read back by it."""
        super().__init_subclass__(**rest)
        if "kind" in cls.__dict__:
            Domain._kinds[cls.kind] = cls

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of values, a Python integer."""

    @abstractmethod
    def describe(self) -> str:
        """The declared values in a few words."""

    @abstractmethod
    def value(self, code: int) -> Any:
        """The value of a code, in the user's units."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data; the inverse of :meth:`from_dict`."""

    @abstractmethod
    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        """:meth:`read` of a column that has a type."""

    def read(self, series: pl.Series, name: str) -> Encoded:
        """Clamped codes with a verdict per value, by that value alone; raises only for a column of the wrong type."""
        if series.dtype == OBJECTS:
            return by_kind(series, self._kinds_read, lambda values: self.read_typed(values, name))
        return self.read_typed(series, name)

    def holds(self, series: pl.Series) -> bool:
        """Whether a quick look finds every value good; ``False`` decides nothing."""
        return False

    def text(self, code: int) -> str:
        """The value of a code as people write it."""
        return str(self.value(code))

    def is_finite(self, code: int) -> bool:
        """Whether the code belongs to a value that data can hold."""
        self._check(code)
        return True

    def value_range(self) -> tuple[int, int]:
        """The lowest and the highest code of a value that data can hold."""
        return 0, self.size - 1

    @property
    def linear(self) -> bool:
        """Whether values are equally spaced: the middle of two codes is then the middle of their values."""
        return False

    def encode(
        self, values: Any, on_invalid: OnInvalid | str = OnInvalid.RAISE, *, name: str = "values"
    ) -> tuple[Words, Bools]:
        """Codes and the mask of records to keep (all of them unless ``on_invalid`` drops some).

        >>> Integers(1, 6).encode([1, 6, 3])[0].tolist()
        [0, 5, 2]
        """
        rule = one_of(OnInvalid, on_invalid, "on_invalid")
        codes, verdicts = self.read(column(values, name), name)
        keep = self.accept(verdicts, rule, name)
        return codes, np.ones(len(codes), np.bool_) if keep is None else keep

    def accept(self, verdicts: Any, rule: OnInvalid, name: str) -> Bools | None:
        """Apply ``on_invalid`` to verdicts; ``None`` keeps everything."""
        return accept(name, verdicts, self.words(), self.describe(), rule)

    def words(self) -> dict[Verdict, str]:
        """What each bad verdict means, for messages."""
        outside = f"outside {self.describe()}"
        return {
            Verdict.MISSING: "missing or NaN",
            Verdict.OUTSIDE: outside,
            Verdict.OFF: self._off,
            Verdict.UNREAD: self._unread,
        }

    def judged(self, verdicts: Any) -> Any:
        """Verdicts as they are counted where ``on_invalid`` raises."""
        return verdicts

    def _check(self, code: int) -> int:
        return positive_int(code, "code", minimum=0, maximum=self.size - 1)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Domain:
        """A domain of this kind from its stored fields."""
        return cls(**fields)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Domain:
        """Rebuild a domain from :meth:`to_dict`."""
        kinds = Domain._kinds
        kind, fields = values.get("kind"), {k: v for k, v in values.items() if k != "kind"}
        try:
            return kinds[kind].of_fields(fields)  # type: ignore[index]
        except (KeyError, TypeError):
            raise ParameterError(
                f"a stored domain needs a kind among {', '.join(kinds)} with its own fields, got kind {kind!r}"
            ) from None


@frozen(slots=False, field_transformer=named)
class Integers(Domain):
    """Whole numbers ``lo..hi``, both included; 64 bits, signed or not."""

    lo: int = field(converter=whole, metadata=_WORDS)
    hi: int = field(converter=whole, metadata=_WORDS)
    kind: ClassVar[str] = "integers"
    _off: ClassVar[str] = "not whole numbers"

    def __attrs_post_init__(self) -> None:
        if self.lo > self.hi:
            raise ParameterError(f"Integers needs lo <= hi, got lo = {self.lo}, hi = {self.hi}")
        if self.size > 1 << 64:
            raise ParameterError(f"Integers holds at most 2^64 values, got {self.size}")

    @property
    def size(self) -> int:
        return self.hi - self.lo + 1

    @property
    def linear(self) -> bool:
        return True

    def describe(self) -> str:
        return f"whole numbers {self.lo}..{self.hi}"

    def value(self, code: int) -> int:
        return self.lo + self._check(code)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "lo": self.lo, "hi": self.hi}

    def holds(self, series: pl.Series) -> bool:
        return covers(series, Ladder(self.lo, 1, 0, self.size))

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        return on_ladder(series, Ladder(self.lo, 1, 0, self.size), name)


def _written(value: Rational, name: str = "value", **limits: Rational) -> Fraction:
    exact = rational(value, name, **limits)
    if _places(exact) is None:
        raise ParameterError(f"{name} must be a decimal of at most 300 places, got {value}; a grid is decimal-exact")
    return exact


@frozen(slots=False, repr=False, field_transformer=named)
class Grid(Domain):
    """Decimals ``lo, lo + step, ..., hi``, exactly; a float means its shortest decimal.

    ``value`` is an ``int`` on a grid of whole numbers, a ``float`` where 15 digits identify every point, and a
    ``Decimal`` on finer grids.

    >>> Grid(0, 1, 0.1).encode([0.3, 0.7])[0].tolist(), Grid(0, 1, 0.1).size
    ([3, 7], 11)
    """

    lo: Fraction = field(converter=_written)
    hi: Fraction = field(converter=_written)
    step: Fraction = field(converter=_written, metadata=bounds(above=0))
    kind: ClassVar[str] = "grid"
    _off: ClassVar[str] = "off the grid"

    def __attrs_post_init__(self) -> None:
        if self.lo > self.hi:
            raise ParameterError(f"Grid needs lo <= hi, got lo = {_decimal(self.lo)}, hi = {_decimal(self.hi)}")
        if (self.hi - self.lo) % self.step:
            lo, hi, step = map(_decimal, (self.lo, self.hi, self.step))
            raise ParameterError(
                f"Grid needs hi - lo to be a multiple of step, got lo = {lo}, hi = {hi}, step = {step}"
            )
        if self.size > 1 << 64:
            raise ParameterError(f"Grid holds at most 2^64 values, got {self.size}")

    @property
    def size(self) -> int:
        return int((self.hi - self.lo) / self.step) + 1

    @property
    def ladder(self) -> Ladder:
        places = max(_places(self.lo) or 0, _places(self.step) or 0)
        unit = 10**places
        return Ladder(int(self.lo * unit), int(self.step * unit), places, self.size)

    def __repr__(self) -> str:
        return f"Grid({_decimal(self.lo)}, {_decimal(self.hi)}, {_decimal(self.step)})"

    @property
    def linear(self) -> bool:
        return True

    def describe(self) -> str:
        return f"{_decimal(self.lo)}..{_decimal(self.hi)} in steps of {_decimal(self.step)}"

    def value(self, code: int) -> int | float | Decimal:
        ladder = self.ladder
        numerator = ladder.start + ladder.stride * self._check(code)
        if ladder.places == 0:
            return numerator
        if max(abs(ladder.start), abs(ladder.end)) <= 10**15 and ladder.places <= 22:
            return float(Fraction(numerator, 10**ladder.places))
        return Decimal(self.text(code))

    def text(self, code: int) -> str:
        return _decimal(self.lo + self._check(code) * self.step)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "lo": _decimal(self.lo), "hi": _decimal(self.hi), "step": _decimal(self.step)}

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        return on_ladder(series, self.ladder, name)


def _places(x: Fraction) -> int | None:
    """Decimal places of a decimal, ``None`` for anything else."""
    return next((p for p in range(301) if 10**p % x.denominator == 0), None)


def _decimal(x: Fraction) -> str:
    places = _places(x) or 0
    with localcontext() as context:
        context.prec = len(str(abs(x.numerator))) + places + 8
        return f"{Decimal(x.numerator) / Decimal(x.denominator):.{places}f}"


_LEAST, _MOST, _ZERO = 0x0010000000000000, 0xFFEFFFFFFFFFFFFF, 1 << 63


@dataclass(frozen=True)
class Floats(Domain):
    """Every finite 64-bit float, by the order of its bits; nothing to declare, 2^64 codes.

    Codes that no finite float has (infinities, NaN patterns, -0.0) exist but stay empty.  ``value(code)`` is the
    largest float whose code is at most ``code`` (-inf below them all, inf above), so that ``x > value(u - 1)`` holds
    exactly when ``code(x) >= u``.
    """

    kind: ClassVar[str] = "floats"
    _off: ClassVar[str] = "integers that a 64-bit float cannot hold"

    @property
    def size(self) -> int:
        return 1 << 64

    def describe(self) -> str:
        return "finite 64-bit floats"

    def value_range(self) -> tuple[int, int]:
        return _LEAST, _MOST

    def is_finite(self, code: int) -> bool:
        return _LEAST <= self._check(code) <= _MOST

    def value(self, code: int) -> float:
        key = self._check(code)
        if not self.is_finite(key):
            return float("-inf") if key < _LEAST else float("inf")
        if key == _ZERO - 1:  # the code of -0.0, which compares equal to 0.0: step below it
            key -= 1
        bits = key - _ZERO if key >= _ZERO else (1 << 64) - 1 - key
        return float(np.uint64(bits).view(np.float64))

    def text(self, code: int) -> str:
        return repr(self.value(code))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        return on_floats(series, name)


def _day(value: date | str, name: str = "value") -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ParameterError(f"{name} must be a date such as 2020-12-31, got {value!r}") from None
    if isinstance(value, datetime) or not isinstance(value, date):
        raise TypeError(f"{name} must be a date or text such as '2020-12-31', got {type(value).__name__}")
    return value


@frozen(slots=False, field_transformer=named)
class Dates(Domain):
    """Days ``lo..hi``, both included; a time of day is off the grid and counts as its day."""

    lo: date = field(converter=_day)
    hi: date = field(converter=_day)
    kind: ClassVar[str] = "dates"
    _off: ClassVar[str] = "not whole days"
    _unread: ClassVar[str] = "not an ISO date"
    _kinds_read: ClassVar[frozenset[Kind]] = DATED

    def __attrs_post_init__(self) -> None:
        if self.lo > self.hi:
            raise ParameterError(f"Dates needs lo <= hi, got lo = {self.lo}, hi = {self.hi}")

    @property
    def size(self) -> int:
        return self.hi.toordinal() - self.lo.toordinal() + 1

    @property
    def linear(self) -> bool:
        return True

    def describe(self) -> str:
        return f"dates {self.lo}..{self.hi}"

    def value(self, code: int) -> date:
        return date.fromordinal(self.lo.toordinal() + self._check(code))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "lo": self.lo.isoformat(), "hi": self.hi.isoformat()}

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        ladder = Ladder(self.lo.toordinal() - _EPOCH, 1, 0, self.size)
        if series.dtype == pl.String or isinstance(series.dtype, (pl.Categorical, pl.Enum)) or series.dtype == pl.Null:
            return by_distinct_text(series.cast(pl.String), lambda shown: _read_day(shown, ladder))
        if series.dtype == pl.Date:
            return on_ladder(series.to_physical(), ladder, name)
        if isinstance(series.dtype, pl.Datetime) or series.dtype == MOMENTS:
            numbered, timed = days(series)
            codes, verdicts = on_ladder(numbered, ladder, name)
            if not timed.any():
                return Encoded(codes, verdicts)
            verdicts = np.zeros(len(codes), np.uint8) if verdicts is None else verdicts
            verdicts[timed & (verdicts == Verdict.GOOD)] = Verdict.OFF
            return Encoded(codes, verdicts)
        raise wrong_type(name, series.dtype, "dates are") from None


def _read_day(shown: str, ladder: Ladder) -> tuple[int, Verdict]:
    try:
        moment = datetime.fromisoformat(shown.strip())
    except ValueError:
        return 0, Verdict.UNREAD
    code, verdict = ladder.place(Fraction(moment.toordinal() - _EPOCH))
    return code, Verdict.OFF if verdict is Verdict.GOOD and moment.time() != time(0) else verdict


Category = str | int | bool


def _categories(values: Iterable[Category]) -> tuple[Category, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"Categories needs a list of names, got {type(values).__name__}")
    listed = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    if not listed:
        raise ParameterError("Categories needs at least one value, got none")
    odd = next((v for v in listed if not isinstance(v, (str, int))), None)
    if odd is not None:
        raise TypeError(f"a category must be text, an integer or a boolean, got {type(odd).__name__}")
    if len(set(_texts(listed))) < len(listed):
        twice = Counter(_texts(listed)).most_common(1)[0][0]
        raise ParameterError(f"category {twice!r} is listed twice")
    return listed


def _truth(value: bool) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"ordered must be True or False, got {type(value).__name__}")
    return value


@frozen(slots=False)
class Categories(Domain):
    """Named values, with codes in the listed order; matched by their text, so ``7`` in a column matches ``"7"`` in the
    list.

    Rules ask "is it this one?".  With ``ordered=True`` the listed order means something, and they ask "is it above this
    one?" as they do of numbers.
    """

    values: tuple[Category, ...] = field(converter=_categories)
    ordered: bool = field(default=False, kw_only=True, converter=_truth)
    kind: ClassVar[str] = "categories"
    _unread: ClassVar[str] = "not a listed category"
    _kinds_read: ClassVar[frozenset[Kind]] = NAMED

    @property
    def size(self) -> int:
        return len(self.values)

    def describe(self) -> str:
        kind = "ordered categories" if self.ordered else "categories"
        shown = ", ".join(repr(v) for v in self.values[:5])
        return f"the {kind} {shown}" if self.size <= 5 else f"the {self.size} listed {kind} ({shown}, ...)"

    def value(self, code: int) -> Category:
        return self.values[self._check(code)]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "values": list(self.values), "ordered": self.ordered}

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        dtype = series.dtype
        if not (holds_text(dtype) or dtype.is_numeric() or dtype in (pl.Boolean, pl.Date)):
            raise wrong_type(name, dtype, "names, integers or booleans are") from None
        shown = text(series)
        codes = shown.replace_strict(_texts(self.values), list(range(self.size)), default=None, return_dtype=pl.UInt64)
        verdicts: Any = None
        if codes.null_count():
            verdicts = np.where(shown.is_null().to_numpy(), Verdict.MISSING, Verdict.UNREAD).astype(np.uint8)
            verdicts[codes.is_not_null().to_numpy()] = Verdict.GOOD
        return Encoded(codes.fill_null(0).to_numpy().copy(), verdicts)


def _texts(values: tuple[Category, ...]) -> list[str]:
    return [str(v).lower() if isinstance(v, bool) else str(v) for v in values]


# An open vocabulary: any text, nothing declared.
#
# A column bound to :class:`Texts` is dictionary-encoded.  Its codes index a *vocabulary*, the distinct texts of the
# data set, which the data set keeps to itself: which texts occur is as private as the records.  So the codes mean
# nothing outside their data set, the domain has no size and no order, and ``value`` and ``text`` refuse.  Classes that
# count their rules need a declared domain (``Categories``); trees of VC dimension 1 do not, and are what this domain is
# for.
#
# Values are compared as texts: ``7`` is ``"7"``, whole floats are integers, booleans are ``true`` and ``false``.  The
# empty text is a text; a missing value is missing.


@dataclass(frozen=True)
class Texts(Domain):
    """Every text; nothing to declare, no size.

    >>> Texts().describe(), Texts() == Texts()
    ('any text', True)
    """

    kind: ClassVar[str] = "texts"

    @property
    def size(self) -> int:
        self._open("has no size")

    def describe(self) -> str:
        return "any text"

    def value(self, code: int) -> NoReturn:
        self._open("keeps its values inside the data set")

    def value_range(self) -> NoReturn:
        self._open("has no first and last value")

    def encode(
        self, values: Any, on_invalid: OnInvalid | str = OnInvalid.RAISE, *, name: str = "values"
    ) -> tuple[Words, Bools]:
        self._open("has codes inside one data set only")

    def _open(self, what: str) -> NoReturn:
        raise ParameterError(
            f"an open vocabulary {what}; declare Categories([...]), or use a class of trees such as StarTree"
        )

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def read(self, series: pl.Series, name: str) -> Encoded:
        return self.dictionary(series, name)[0]

    read_typed = read

    def dictionary(self, series: pl.Series, name: str) -> tuple[Encoded, pl.Series]:
        """Codes with their verdicts, and the vocabulary they index."""
        shown, verdicts = named_texts(series, name)
        rows, vocabulary = dictionary(shown)
        return Encoded(np.maximum(rows, 0).astype(np.uint64), verdicts), vocabulary


def read_column(domain: Domain, series: pl.Series, name: str) -> tuple[Encoded, pl.Series | None]:
    """Codes with their verdicts, and the vocabulary if the domain is open.

    The one door to the loops that index memory by codes, and the last look at what passes.
    """
    found, vocabulary = (
        domain.dictionary(series, name) if isinstance(domain, Texts) else (domain.read(series, name), None)
    )
    size = domain.size if vocabulary is None else max(1, len(vocabulary))
    if len(found.codes) != len(series) or (size < 1 << 64 and len(series) and int(found.codes.max()) >= size):
        raise SchemaError(f"column {name!r} cannot be read as {domain.describe()}") from None
    return found, vocabulary


def in_one_line(text: str) -> str:
    """A text of the data as a result shows it: people wrote it, so it may command a terminal or forge a line.

    >>> in_one_line("green tea"), in_one_line("tea\\nbudget left: 100")
    ('green tea', '"tea\\\\nbudget left: 100"')
    """
    return text if text and text.isprintable() else json.dumps(text)


# What a column does with missing values, declared with its domain.
#
# ``Missing(Integers(0, 120), "own")`` gives missing values a code of their own after all others: small trees and points
# cards read it as one more answer, "is missing".  ``"drop"`` leaves such records out whatever ``on_invalid`` says,
# ``"raise"`` is what every domain does without a rule: ``on_invalid`` decides, and its default raises.  Nothing is ever
# filled in: a value made up from other people's would carry their data into everybody's record.


MissingRule = Literal["own", "drop", "raise"]
_MOST_NAMED = 4


@dataclass(frozen=True)
class Missing(Domain):
    """A domain with a rule for missing values.

    >>> from privpac.data.domains import Integers
    >>> age = Missing(Integers(0, 120), "own")
    >>> age.size, age.encode([3, None])[0].tolist(), age.text(121)
    (122, [3, 121], 'missing')
    """

    inner: Domain
    rule: MissingRule = "own"
    kind: ClassVar[str] = "missing"

    def __post_init__(self) -> None:
        if isinstance(self.inner, (Missing, Texts)) or not isinstance(self.inner, Domain):
            raise TypeError(
                f"a rule for missing values goes with a domain such as Integers(0, 100), got "
                f"{type(self.inner).__name__}"
            )
        if self.rule not in get_args(MissingRule):
            raise ParameterError(f"missing must be 'own', 'drop' or 'raise', got {self.rule!r}")
        if self.rule == "own" and self.inner.size >= 1 << 64 and not isinstance(self.inner, Floats):
            raise ParameterError("a domain of 2^64 values has no code left for missing ones; declare a smaller one")

    @property
    def size(self) -> int:
        return self.inner.size if self.code is None else max(self.inner.size, self.code + 1)

    @property
    def code(self) -> int | None:
        """The code of a missing value, None unless it has its own; among floats a pattern that no value has."""
        if self.rule != "own":
            return None
        return (1 << 64) - 1 if isinstance(self.inner, Floats) else self.inner.size

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        return self.inner.ordered

    def describe(self) -> str:
        what = {"own": "or missing", "drop": "records without a value left out", "raise": ""}
        return ", ".join(part for part in (self.inner.describe(), what[self.rule]) if part)

    def value(self, code: int) -> Any:
        return None if code == self.code else self.inner.value(code)

    def text(self, code: int) -> str:
        return "missing" if code == self.code else self.inner.text(code)

    def is_finite(self, code: int) -> bool:
        return code == self.code or self.inner.is_finite(code)

    def value_range(self) -> tuple[int, int]:
        lowest, highest = self.inner.value_range()
        return lowest, highest if self.code is None else self.code

    @property
    def linear(self) -> bool:
        return self.code is None and self.inner.linear

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "inner": self.inner.to_dict(), "rule": self.rule}

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        return cls(Domain.from_dict(fields["inner"]), fields["rule"])

    def holds(self, series: pl.Series) -> bool:
        return self.inner.holds(series)

    def read(self, series: pl.Series, name: str) -> Encoded:
        codes, verdicts = self.inner.read(series, name)
        if verdicts is None or self.code is None:
            return Encoded(codes, verdicts)
        gone = verdicts == Verdict.MISSING
        codes[gone], verdicts[gone] = np.uint64(self.code), Verdict.GOOD
        return Encoded(codes, verdicts)

    read_typed = read

    def words(self) -> dict[Verdict, str]:
        return self.inner.words()

    def judged(self, verdicts: Any) -> Any:
        return np.where(verdicts == Verdict.MISSING, Verdict.GOOD, verdicts) if self.rule == "drop" else verdicts

    def accept(self, verdicts: Any, rule: OnInvalid, name: str) -> Bools | None:
        if self.rule != "drop" or verdicts is None:
            return super().accept(verdicts, rule, name)
        missing = np.where(verdicts == Verdict.MISSING, verdicts, Verdict.GOOD)
        there = super().accept(missing, OnInvalid.DROP, name)
        kept = super().accept(self.judged(verdicts), rule, name)
        return kept if there is None else there if kept is None else kept & there


_INVALID = {
    OnInvalid.RAISE: "",
    OnInvalid.DROP: "records with values outside their domain are left out",
    OnInvalid.CLAMP: (
        "numbers outside their domain are moved to its nearest end, records with values that are not listed left out"
    ),
}


def invalid_words(on_invalid: OnInvalid | str, features: Mapping[str, Domain | None]) -> str:
    """What the declared rules do with values outside their domain and with missing ones, empty if they refuse all.

    >>> from privpac.data.domains import Integers
    >>> invalid_words("drop", {"age": Integers(0, 99)})
    'records with values outside their domain are left out; records with missing values are left out'
    >>> invalid_words("raise", {"age": Missing(Integers(0, 99), "own")})
    'missing values have a category of their own'
    """
    policy = OnInvalid(on_invalid)
    rules = {name: domain.rule if isinstance(domain, Missing) else "raise" for name, domain in features.items()}
    own = [name for name, rule in rules.items() if rule == "own"]
    dropping = ("drop",) if policy is OnInvalid.RAISE else ("drop", "raise")
    dropped = [name for name, rule in rules.items() if rule in dropping]
    words = [_INVALID[policy]]
    if own:
        words.append(f"missing values{_of(own, rules)} have a category of their own")
    if dropped or (policy != OnInvalid.RAISE and not rules):
        words.append(f"records with missing values{_of(dropped, rules)} are left out")
    return "; ".join(filter(None, words))


def _of(some: Sequence[str], every: Mapping[str, str]) -> str:
    if len(some) == len(every):
        return ""
    return f" of {', '.join(some)}" if len(some) <= _MOST_NAMED else f" of {len(some)} columns"


def values_of(domain: Domain) -> Domain:
    """The domain of the values that are there."""
    return domain.inner if isinstance(domain, Missing) else domain


def own_code(domain: Domain | None) -> int | None:
    """The code of missing values where they have one of their own."""
    return domain.code if isinstance(domain, Missing) else None
