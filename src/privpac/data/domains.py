"""The values a feature may take, in order, declared before any data are seen: one class for each type of column.

A :class:`Domain` maps values to codes ``0..size-1``, increasing with the value, both ends included.  It is public: a
rule is printed over the declared domain, never over the range seen in the data.  ``value`` and ``text`` give a code
back in the user's units; for every domain ``value(encode(v)) == v``.

>>> Integers(0, 1440).value(1033), Grid(35, 42, 0.1).text(4), Categories(["low", "high"]).value(1)
(1033, '35.4', 'high')

Everything about a type of column stands in its class: how values are read, written, stored, drawn and declared.  A
subclass with a ``kind`` of its own, wherever it is defined, is known to files, commands and schemas by that kind.  On
the command line and in a schema file (:mod:`privpac.data.schema_file`) a column is declared so:

================  ==============================
text              domain
================  ==============================
``x``             ``Floats()``
``x=0:1440``      ``Integers(0, 1440)``
``x=35:42:0.1``   ``Grid(35, 42, "0.1")``
``x={a,b,c}``     ``Categories(["a", "b", "c"])``
``x={a<b<c}``     ``Categories(["a", "b", "c"], ordered=True)``
``x=D:E``         ``Dates(D, E)``, for ISO dates
``x=["a, b"]``    the same for names that hold commas or braces: a list as in JSON or TOML
``x=number``      ``Floats()``, for a place where nothing would look forgotten
``x=text``        ``Texts()``, an open vocabulary
================  ==============================

After a range, ``~a:b`` names the part of it where most values lie: ``income=0:10000000~10000:200000`` is
``Integers(0, 10000000, typical=(10000, 200000))``.  It is public, and values outside it stay valid.

After categories, ``,ordered=true`` says that the order of the list means something, as ``<`` does between plain names.
After any domain but the last, ``,missing=own`` (or ``drop``, ``raise``) says what missing values are.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeVar, get_args

import numpy as np
import polars as pl
from attrs import evolve, field, frozen

from privpac.arrays import Bools, Bytes, Floats64, Words
from privpac.data.columns import column, days, holds_text, named_texts, text
from privpac.data.encode import Ladder, by_distinct_text, covers, float_keys, on_floats, on_ladder
from privpac.data.grouping import dictionary
from privpac.data.objects import DATED, MOMENTS, NAMED, NUMBERS, OBJECTS, Kind, by_kind
from privpac.data.schema import Encoded, OnInvalid, Verdict, accept, wrong_type
from privpac.errors import ParameterError, SchemaError
from privpac.exact import Rational, rational
from privpac.guarantee import one_of, positive_int
from privpac.parameters import bounds, named, whole

DataType = pl.DataType | type[pl.DataType]
Fields = dict[str, Any]
"""What a file stores by name."""
MissingRule = Literal["own", "drop", "raise"]
StoredBounds = tuple[int | float, int | float]
_End = TypeVar("_End")

_EPOCH = date(1970, 1, 1).toordinal()
_WORDS = bounds(minimum=-(1 << 63), maximum=(1 << 64) - 1)
_MISSING, _ORDERED = ",missing=", ",ordered="


class Domain(ABC):
    """A declared set of values with codes ``0..size-1``: everything about one type of column.

    A subclass says what its values are (``size``, ``describe``, ``value``, ``to_dict``, ``read_typed``) and may say
    more: how it is declared in words (``from_text``, ``to_text``), whether its values are numbers (``numeric``,
    ``line``), and so on.  What it leaves out has the answer given here.
    """

    kind: ClassVar[str]
    """The name under which a stored domain is read back."""
    syntax: ClassVar[str] = ""
    """How it is declared in words, for messages."""
    ordered: bool = True
    """Whether the order of the codes means something: a rule may then ask "is it above this value?", else only "is it
    this value?"."""
    numeric: ClassVar[bool] = False
    """Whether codes stand for real numbers."""
    bounded: ClassVar[bool] = True
    """Whether there are ends between which all values lie evenly enough to cut and draw them."""
    listed: ClassVar[bool] = False
    """Whether values are names, declared one by one."""
    open: ClassVar[bool] = False
    """Whether codes mean something inside one data set only: nothing is declared, and there is no size."""
    _off: ClassVar[str] = "off the domain"
    _unread: ClassVar[str] = "not a number"
    _kinds_read: ClassVar[frozenset[Kind]] = NUMBERS | {Kind.TEXT}
    _kinds: ClassVar[dict[str, type[Domain]]] = {}

    def __init_subclass__(cls, **rest: object) -> None:
        super().__init_subclass__(**rest)
        if "kind" not in cls.__dict__:
            return
        if not isinstance(cls.kind, str) or not cls.kind:
            raise TypeError(f"the kind of a column is a word for its files, got {type(cls.kind).__name__}")
        known = Domain._kinds.get(cls.kind)
        # The same class defined again (a notebook's cell run twice) takes its own place; nobody else's is taken.
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ParameterError(
                f"there is a type of column {cls.kind!r} already ({known.__name__}); choose another kind"
            )
        Domain._kinds[cls.kind] = cls

    @staticmethod
    def kinds() -> list[type[Domain]]:
        """All types of columns that are known, those defined last first."""
        return list(reversed(Domain._kinds.values()))

    # Values and codes

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

    def text(self, code: int) -> str:
        """The value of a code as people write it."""
        return str(self.value(code))

    def word(self, code: int) -> str:
        """The text by which a table's own column is compared with this value."""
        return self.text(code)

    def code(self, value: object) -> int | None:
        """The code of one value, ``None`` outside the domain or for a value of another type."""
        try:
            codes, good = self.encode([value], on_invalid="drop")
        except SchemaError:
            return None
        return int(codes[0]) if bool(good[0]) else None

    def is_finite(self, code: int) -> bool:
        """Whether the code belongs to a value that data can hold."""
        self._check(code)
        return True

    def value_range(self) -> tuple[int, int]:
        """The lowest and the highest code of a value that data can hold."""
        return 0, self.size - 1

    def _check(self, code: int) -> int:
        return positive_int(code, "code", minimum=0, maximum=self.size - 1)

    @property
    def column_type(self) -> DataType:
        """The type of a column of these values, by the domain alone.

        Were it inferred from the values, one person's could change how everybody's are read: with the categories 1 and
        ``"a"``, nobody's 1 is a number any more once somebody's ``"a"`` is in the table.
        """
        return pl.Float64 if self.numeric else pl.String

    # Numbers

    @property
    def line(self) -> tuple[Fraction, Fraction] | None:
        """Value of code 0 and of a step, where values are in equal steps (days count from the first); else ``None``."""
        return None

    @property
    def linear(self) -> bool:
        """Whether values are equally spaced: the middle of two codes is then the middle of their values."""
        return self.line is not None

    @property
    def stepped(self) -> bool:
        """Whether values are numbers in equal steps between two ends."""
        return self.numeric and self.line is not None

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest value of numbers in equal steps."""
        assert self.line is not None
        first, step = self.line
        return first, first + step * (self.size - 1)

    def numbers(self, codes: Words) -> Floats64:
        """The real numbers of codes, each by elementary operations on that code alone."""
        if not self.numeric or self.line is None:
            raise ParameterError(
                f"numbers are needed here; {self.describe()} are not numbers: use Integers, Grid or Floats"
            )
        first, step = self.line
        return codes.astype(np.float64) * float(step) + float(first)

    def count_below(self, x: Fraction | float, *, strict: bool = True) -> int:
        """How many codes stand for a value less than ``x`` (or, not ``strict``, of at most ``x``), exactly."""
        if isinstance(x, float) and math.isinf(x):
            return self.size if x > 0 else 0
        if not self.numeric or self.line is None:
            raise ParameterError(f"edges need numbers; {self.describe()} are not numbers: use Integers, Grid or Floats")
        first, step = self.line
        place = (Fraction(x) - first) / step
        return min(max(math.ceil(place) if strict else math.floor(place) + 1, 0), self.size)

    def typical_codes(self) -> tuple[int, int] | None:
        """The first and the last code of the range where most values are declared to lie, ``None`` without one."""
        return None

    def with_typical(self, low: object, high: object) -> Domain:
        """The same values with another declared typical range."""
        raise ParameterError(f"a typical range goes with numbers lo..hi or dates, got {self.describe()}")

    def anchor(self) -> int | None:
        """The code of the first value at or above zero, or of the value nearest to zero; ``None`` unless values are
        numbers in equal steps or dates, which begin at their first day.

        Public bins of small trees and scorecards are finest around it.
        """
        return min(self.count_below(Fraction(0)), self.size - 1) if self.stepped else None

    def anchor_cut(self) -> int | None:
        """The cut-off at zero, ``0..size``: how many codes stand for negative numbers; ``None`` unless values are
        numbers in equal steps.

        Public weights of cut-offs are largest around it.
        """
        return self.count_below(Fraction(0)) if self.stepped else None

    def octaves(self) -> list[tuple[int, int]] | None:
        """Runs ``(first cut-off, weight)`` where neighbours are not equally far apart: orders of magnitude that codes
        already follow; ``None`` for all other domains."""
        return None

    # Missing values

    @property
    def present(self) -> Domain:
        """The domain of the values that are there."""
        return self

    @property
    def missing_rule(self) -> MissingRule:
        """What missing values are: ``raise`` leaves that to ``on_invalid``."""
        return "raise"

    @property
    def missing_code(self) -> int | None:
        """The code of missing values where they have one of their own."""
        return None

    # Reading

    @abstractmethod
    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        """:meth:`read` of a column that has a type."""

    def read(self, series: pl.Series, name: str) -> Encoded:
        """Clamped codes with a verdict per value, by that value alone; raises only for a column of the wrong type."""
        if series.dtype == OBJECTS:
            return by_kind(series, self._kinds_read, lambda values: self.read_typed(values, name))
        return self.read_typed(series, name)

    def dictionary(self, series: pl.Series, name: str) -> tuple[Encoded, pl.Series | None]:
        """:meth:`read`, and the vocabulary that codes index where the domain is open."""
        return self.read(series, name), None

    def holds(self, series: pl.Series) -> bool:
        """Whether a quick look finds every value good; ``False`` decides nothing."""
        return False

    def certain(self, stored: str) -> StoredBounds | bool:
        """What is certainly good in a column that is stored as "integer", "float" or "text", for engines that look at
        rows where they lie: the values between these bounds, all that are there, or (``False``) who knows."""
        return False

    def encode(
        self, values: object, on_invalid: OnInvalid | str = OnInvalid.RAISE, *, name: str = "values"
    ) -> tuple[Words, Bools]:
        """Codes and the mask of records to keep (all of them unless ``on_invalid`` drops some).

        >>> Integers(1, 6).encode([1, 6, 3])[0].tolist()
        [0, 5, 2]
        """
        rule = one_of(OnInvalid, on_invalid, "on_invalid")
        codes, verdicts = self.read(column(values, name), name)
        keep = self.accept(verdicts, rule, name)
        return codes, np.ones(len(codes), np.bool_) if keep is None else keep

    def encode_few(self, values: list[Any], name: str) -> Words:
        """Codes of a few values, each read alone and clamped; one that is missing or unreadable is refused."""
        if len({type(value) for value in values}) > 1:  # as one column they would be read as a common type
            return np.concatenate([self.encode_few([value], name) for value in values])
        codes, valid = self.encode(values, on_invalid="clamp", name=name)
        if not bool(np.all(valid)):
            raise SchemaError(f"column {name!r} has missing or unreadable values")
        return codes

    def accept(self, verdicts: Bytes | None, rule: OnInvalid, name: str) -> Bools | None:
        """Apply ``on_invalid`` to verdicts; ``None`` keeps everything."""
        return accept(name, verdicts, self.words(), self.describe(), rule)

    def words(self) -> dict[Verdict, str]:
        """What each bad verdict means, for messages."""
        return {
            Verdict.MISSING: "missing or NaN",
            Verdict.OUTSIDE: f"outside {self.describe()}",
            Verdict.OFF: self._off,
            Verdict.UNREAD: self._unread,
        }

    def judged(self, verdicts: Bytes) -> Bytes:
        """Verdicts as they are counted where ``on_invalid`` raises."""
        return verdicts

    # Files, words, schemas, devices

    @abstractmethod
    def to_dict(self) -> Fields:
        """Plain data; the inverse of :meth:`from_dict`."""

    @classmethod
    def of_fields(cls, fields: Fields) -> Domain:
        """A domain of this kind from its stored fields."""
        return cls(**fields)

    @staticmethod
    def from_dict(values: Mapping[str, object]) -> Domain:
        """Rebuild a domain from :meth:`to_dict`."""
        kinds = Domain._kinds
        kind, fields = values.get("kind"), {k: v for k, v in values.items() if k != "kind"}
        try:
            return kinds[kind].of_fields(fields)  # type: ignore[index]
        except (KeyError, TypeError):
            raise ParameterError(
                f"a stored domain needs a kind among {', '.join(kinds)} with its own fields, got kind {kind!r}"
            ) from None

    @classmethod
    def from_text(cls, body: str) -> Domain | None:
        """The domain that a text of the command line declares, ``None`` if it is not of this type."""
        return None

    def to_text(self) -> str:
        """The inverse of :meth:`from_text`."""
        raise ParameterError(f"{type(self).__name__} is not written on the command line; a domain must be {_forms()}")

    @classmethod
    def from_schema(cls, value: object) -> Domain | None:
        """The domain that a list or table of a schema file declares; texts are those of the command line."""
        return None

    def to_schema(self) -> str | list[object] | Fields:
        """The inverse: what a schema file says."""
        return self.to_text() or "number"

    def to_device(self) -> Fields | None:
        """The column as a manifest declares it to devices (:mod:`privpac.device.columns`), ``None`` if it cannot."""
        if not self.stepped or self.line is None:
            return None
        return {name: str(end) for name, end in zip(("lo", "hi", "step"), (*self.ends, self.line[1]))}

    # Suggestions and pictures

    @classmethod
    def suggest(cls, name: str, stored: pl.DataType | None) -> tuple[Domain, str] | None:
        """A domain for a column, and why, by its name and type alone; ``None`` if this type of column has none."""
        return None

    @classmethod
    def spanning(cls, values: pl.Series) -> Domain | None:
        """The domain as wide as values that are public, none missing; ``None`` if it is not of this type."""
        return None

    def places(self, codes: Words) -> Floats64:
        """Where codes stand on an axis: numbers at their value, other values in their order."""
        if not self.numeric:
            return codes.astype(np.float64)
        return np.array([float(self.value(int(code))) for code in codes])

    def drawn(self, inside: Sequence[int], points: int) -> list[int]:
        """Codes for a picture of a large domain, about so many; ``inside`` are those at which a rule changes."""
        low, high = self.value_range()
        return [low + (high - low) * i // (points - 1) for i in range(points)]


class _Range(Domain):
    """Values ``lo..hi`` in equal steps, and perhaps the part of them where most are declared to lie."""

    typical: tuple[Any, Any] | None

    @abstractmethod
    def _place(self, value: Any) -> Fraction | int:
        """The code that a value has, a fraction between two steps."""

    @abstractmethod
    def _shown(self, value: Any) -> str:
        """A value as people write it."""

    def _check_typical(self) -> None:
        if self.typical is None:
            return
        low, high = self.typical
        lo, hi = self.lo, self.hi  # type: ignore[attr-defined]
        if not lo <= low <= high <= hi or any(self._place(end).denominator > 1 for end in self.typical):
            raise ParameterError(
                f"typical must be two of the declared values in order, {self.describe()}, got {self._shown(low)} and "
                f"{self._shown(high)}"
            )

    def typical_codes(self) -> tuple[int, int] | None:
        if self.typical is None:
            return None
        low, high = self.typical
        return int(self._place(low)), int(self._place(high))

    def with_typical(self, low: object, high: object) -> Self:
        return evolve(self, typical=(low, high))  # type: ignore[misc]

    @classmethod
    def from_schema(cls, value: object) -> Domain | None:
        """``{ domain = "0:10000000", typical = [10000, 200000] }``."""
        if not isinstance(value, dict) or set(value) != {"domain", "typical"}:
            return None
        domain, typical = value["domain"], value["typical"]
        if not isinstance(domain, str) or not isinstance(typical, list) or len(typical) != 2:
            raise ParameterError('a typical range is written { domain = "0:10000000", typical = [10000, 200000] }')
        return parse_domain(domain).with_typical(*typical)

    def _with_typical(self, words: Fields) -> Fields:
        """Stored fields, the typical range among them where one is declared."""
        return words if self.typical is None else words | {"typical": [self._stored(end) for end in self.typical]}

    def _stored(self, value: Any) -> int | str:
        return self._shown(value)

    def _typical_text(self) -> str:
        """What follows the ends on the command line."""
        return "" if self.typical is None else "~" + ":".join(map(self._shown, self.typical))


def _split_typical(body: str) -> tuple[str, list[str] | None]:
    """``lo:hi~a:b`` as ``lo:hi`` and ``[a, b]``."""
    ends, tilde, said = body.partition("~")
    typical = [end.strip() for end in said.split(":")]
    if tilde and (len(typical) != 2 or not all(typical)):
        raise ParameterError(
            f"a typical range is written lo:hi~low:high, such as 0:10000000~10000:200000; got {body!r}"
        )
    return ends.strip(), typical if tilde else None


def _pair(value: object, name: str, read: Callable[[Any, str], _End]) -> tuple[_End, _End] | None:
    """Both ends of a typical range, each read as an end of the domain is."""
    if value is None:
        return None
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a pair (low, high), got {type(value).__name__}")
    ends = tuple(value)
    if len(ends) != 2:
        raise ParameterError(f"{name} must be a pair (low, high), got {len(ends)} values")
    return read(ends[0], name), read(ends[1], name)


def _whole_pair(value: object, name: str = "typical") -> tuple[int, int] | None:
    return _pair(value, name, lambda end, word: whole(end, word, minimum=-(1 << 63), maximum=(1 << 64) - 1))


def _written_pair(value: object, name: str = "typical") -> tuple[Fraction, Fraction] | None:
    return _pair(value, name, _written)


def _day_pair(value: object, name: str = "typical") -> tuple[date, date] | None:
    return _pair(value, name, as_day)


@frozen(slots=False, repr=False, field_transformer=named)
class Integers(_Range):
    """Whole numbers ``lo..hi``, both included; 64 bits, signed or not.

    Parameters
    ----------
    lo, hi : int
        The ends, both included.
    typical : pair of int, optional
        The public range where most values lie, if everybody may know one.  Values outside it stay valid; rules look
        more closely inside it.

    Raises
    ------
    ParameterError
        ``hi`` is below ``lo``, ``typical`` is not between them, or the numbers do not fit into 64 bits.

    Examples
    --------
    >>> Integers(50, 250).size, Integers(50, 250).encode([50, 60])[0].tolist()
    (201, [0, 10])
    """

    lo: int = field(converter=whole, metadata=_WORDS)
    hi: int = field(converter=whole, metadata=_WORDS)
    typical: tuple[int, int] | None = field(default=None, kw_only=True, converter=_whole_pair)
    kind: ClassVar[str] = "integers"
    syntax: ClassVar[str] = "lo:hi (whole numbers or dates)"
    numeric: ClassVar[bool] = True
    _off: ClassVar[str] = "not whole numbers"

    def __attrs_post_init__(self) -> None:
        if self.lo > self.hi:
            raise ParameterError(f"Integers needs lo <= hi, got lo = {self.lo}, hi = {self.hi}")
        if self.size > 1 << 64:
            raise ParameterError(f"Integers holds at most 2^64 values, got {self.size}")
        self._check_typical()

    def __repr__(self) -> str:
        typical = "" if self.typical is None else f", typical={self.typical}"
        return f"Integers(lo={self.lo}, hi={self.hi}{typical})"

    def _place(self, value: int) -> int:
        return value - self.lo

    def _shown(self, value: int) -> str:
        return str(value)

    def _stored(self, value: int) -> int:
        return value

    @property
    def size(self) -> int:
        return self.hi - self.lo + 1

    @property
    def line(self) -> tuple[Fraction, Fraction]:
        return Fraction(self.lo), Fraction(1)

    @property
    def column_type(self) -> DataType:
        return _whole_type(self.lo, self.hi)

    def describe(self) -> str:
        return f"whole numbers {self.lo}..{self.hi}"

    def value(self, code: int) -> int:
        return self.lo + self._check(code)

    def code(self, value: object) -> int | None:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return int(value) - self.lo if self.lo <= value <= self.hi else None
        return super().code(value)

    def to_dict(self) -> Fields:
        return self._with_typical({"kind": self.kind, "lo": self.lo, "hi": self.hi})

    @classmethod
    def from_text(cls, body: str) -> Integers | None:
        ends, typical = _ends(body, _WHOLE)
        if ends is None:
            return None
        odd = next((end for end in typical or () if not re.fullmatch(_WHOLE, end)), None)
        if odd is not None:
            raise ParameterError(f"typical must be two whole numbers, as in {body.partition('~')[0]}~0:9; got {odd!r}")
        return Integers(int(ends[0]), int(ends[1]), typical=None if typical is None else map(int, typical))

    def to_text(self) -> str:
        return f"{self.lo}:{self.hi}{self._typical_text()}"

    @classmethod
    def spanning(cls, values: pl.Series) -> Integers | None:
        return Integers(int(values.min()), int(values.max())) if values.dtype.is_integer() else None  # type: ignore[arg-type]

    def holds(self, series: pl.Series) -> bool:
        return covers(series, Ladder(self.lo, 1, 0, self.size))

    def certain(self, stored: str) -> StoredBounds | bool:
        return (self.lo, self.hi) if stored == "integer" else False

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        return on_ladder(series, Ladder(self.lo, 1, 0, self.size), name)


_WHOLE = r"[+-]?\d{1,40}"


def _ends(body: str, form: str) -> tuple[list[str] | None, list[str] | None]:
    """The two ends of ``lo:hi`` or ``lo:hi~a:b``, both of a form, and those of the typical range."""
    ends = [end.strip() for end in body.partition("~")[0].split(":")]
    fits = len(ends) == 2 and all(re.fullmatch(form, end) for end in ends)
    return (ends, _split_typical(body)[1]) if fits else (None, None)


def _whole_type(least: int, most: int) -> DataType:
    if least >= -(1 << 63) and most < 1 << 63:
        return pl.Int64
    if least >= 0 and most < 1 << 64:
        return pl.UInt64
    return pl.Int128 if least >= -(1 << 127) and most < 1 << 127 else pl.Float64


def _written(value: Rational, name: str = "value", **limits: Rational) -> Fraction:
    exact = rational(value, name, **limits)
    if _places(exact) is None:
        raise ParameterError(f"{name} must be a decimal of at most 300 places, got {value}; a grid is decimal-exact")
    return exact


@frozen(slots=False, repr=False, field_transformer=named)
class Grid(_Range):
    """Decimals ``lo, lo + step, ..., hi``, exactly; a float means its shortest decimal.

    ``value`` is an ``int`` on a grid of whole numbers, a ``float`` where 15 digits identify every point, and a
    ``Decimal`` on finer grids.

    Parameters
    ----------
    lo, hi : number
        The ends, both included; a float means its shortest decimal.
    step : number
        The distance of neighbouring points.
    typical : pair of numbers, optional
        The public range where most values lie, if everybody may know one.  Values outside it stay valid; rules look
        more closely inside it.

    Raises
    ------
    ParameterError
        The ends are not a whole number of steps apart, or out of order; ``typical`` is not on the grid.

    Examples
    --------
    >>> Grid(0, 1, 0.1).encode([0.3, 0.7])[0].tolist(), Grid(0, 1, 0.1).size
    ([3, 7], 11)
    """

    lo: Fraction = field(converter=_written)
    hi: Fraction = field(converter=_written)
    step: Fraction = field(converter=_written, metadata=bounds(above=0))
    typical: tuple[Fraction, Fraction] | None = field(default=None, kw_only=True, converter=_written_pair)
    kind: ClassVar[str] = "grid"
    syntax: ClassVar[str] = "lo:hi:step"
    numeric: ClassVar[bool] = True
    _off: ClassVar[str] = "off the grid"

    def __attrs_post_init__(self) -> None:
        lo, hi, step = map(_decimal, (self.lo, self.hi, self.step))
        if self.lo > self.hi:
            raise ParameterError(f"Grid needs lo <= hi, got lo = {lo}, hi = {hi}")
        if (self.hi - self.lo) % self.step:
            raise ParameterError(
                f"Grid needs hi - lo to be a multiple of step, got lo = {lo}, hi = {hi}, step = {step}"
            )
        if self.size > 1 << 64:
            raise ParameterError(f"Grid holds at most 2^64 values, got {self.size}")
        self._check_typical()

    def _place(self, value: Fraction) -> Fraction:
        return (value - self.lo) / self.step

    def _shown(self, value: Fraction) -> str:
        return _decimal(value)

    @property
    def size(self) -> int:
        return int((self.hi - self.lo) / self.step) + 1

    @property
    def line(self) -> tuple[Fraction, Fraction]:
        return self.lo, self.step

    @property
    def ladder(self) -> Ladder:
        places = max(_places(self.lo) or 0, _places(self.step) or 0)
        unit = 10**places
        return Ladder(int(self.lo * unit), int(self.step * unit), places, self.size)

    @property
    def column_type(self) -> DataType:
        ladder, least = self.ladder, self.value(0)
        if ladder.places == 0:
            return _whole_type(ladder.start, ladder.end)
        wide = isinstance(least, Decimal) and ladder.places <= 38 and max(abs(ladder.start), abs(ladder.end)) < 10**38
        return pl.Decimal(38, ladder.places) if wide else pl.Float64

    def __repr__(self) -> str:
        typical = "" if self.typical is None else f", typical=({', '.join(map(_decimal, self.typical))})"
        return f"Grid({_decimal(self.lo)}, {_decimal(self.hi)}, {_decimal(self.step)}{typical})"

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

    def numbers(self, codes: Words) -> Floats64:
        ladder = self.ladder
        if max(abs(ladder.start), abs(ladder.end)) < 1 << 53 and ladder.places <= 22:
            return (codes.astype(np.float64) * float(ladder.stride) + float(ladder.start)) / float(10**ladder.places)
        return super().numbers(codes)

    def to_dict(self) -> Fields:
        words = {"kind": self.kind, "lo": _decimal(self.lo), "hi": _decimal(self.hi), "step": _decimal(self.step)}
        return self._with_typical(words)

    @classmethod
    def from_text(cls, body: str) -> Grid | None:
        ends = [end.strip() for end in body.partition("~")[0].split(":")]
        return Grid(*ends, typical=_split_typical(body)[1]) if len(ends) == 3 and all(ends) else None

    def to_text(self) -> str:
        return f"{self.lo}:{self.hi}:{self.step}{self._typical_text()}"

    def to_schema(self) -> str:
        return ":".join(_decimal(part) for part in (self.lo, self.hi, self.step)) + self._typical_text()

    @classmethod
    def spanning(cls, values: pl.Series) -> Domain | None:
        """The decimals of so many places as the values have, or any number."""
        if not values.dtype.is_float():
            return None
        for places in range(_MOST_PLACES + 1):
            if bool((values.round(places) == values).all()):
                low, high = (f"{float(end):.{places}f}" for end in (values.min(), values.max()))  # type: ignore[arg-type]
                if float(high) - float(low) < 10**12:
                    return Grid(low, high, f"{10**-places:.{places}f}") if places else Integers(int(low), int(high))
        return Floats()

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        return on_ladder(series, self.ladder, name)


_MOST_PLACES, _MOST_NAMES = 6, 64


def _places(x: Fraction) -> int | None:
    """Decimal places of a decimal, ``None`` for anything else."""
    return next((p for p in range(301) if 10**p % x.denominator == 0), None)


def _decimal(x: Fraction) -> str:
    places = _places(x) or 0
    with localcontext() as context:
        context.prec = len(str(abs(x.numerator))) + places + 8
        return f"{Decimal(x.numerator) / Decimal(x.denominator):.{places}f}"


_LEAST, _MOST, _ZERO = 0x0010000000000000, 0xFFEFFFFFFFFFFFFF, 1 << 63
_EXACT = 1 << 53


@frozen(slots=False)
class Floats(Domain):
    """Every finite 64-bit float, by the order of its bits; nothing to declare, 2^64 codes.

    Codes that no finite float has (infinities, NaN patterns, -0.0) exist but stay empty.  ``value(code)`` is the
    largest float whose code is at most ``code`` (-inf below them all, inf above), so that ``x > value(u - 1)`` holds
    exactly when ``code(x) >= u``.

    Raises
    ------
    SchemaError
        From ``encode``, by the rule for invalid values: a value is no finite number.

    Examples
    --------
    >>> codes = Floats().encode([-1.5, 0.0, 2.25])[0].tolist()
    >>> codes == sorted(codes), [Floats().value(code) for code in codes]
    (True, [-1.5, 0.0, 2.25])
    """

    kind: ClassVar[str] = "floats"
    numeric: ClassVar[bool] = True
    bounded: ClassVar[bool] = False
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

    def numbers(self, codes: Words) -> Floats64:
        keys = codes.astype(np.uint64)
        return np.where(keys >= np.uint64(_ZERO), keys - np.uint64(_ZERO), ~keys).view(np.float64)

    def octaves(self) -> list[tuple[int, int]]:
        # Of one exponent are 2**52 codes; e is how many binades it is from 1.
        def weight(run: int) -> int:
            exponent = run - 2048 if run >= 2048 else 2047 - run
            e = min(abs(exponent - 1023), 1023)
            return 1 << (11 - (e + 1).bit_length())

        return [*((run << 52, weight(run)) for run in range(4096)), (1 << 64, 1)]

    def count_below(self, x: Fraction | float, *, strict: bool = True) -> int:
        try:
            nearest = float(x)
        except OverflowError:
            nearest = math.inf if x > 0 else -math.inf
        if math.isinf(nearest):
            return (1 << 64) if x > 0 else 0
        below = math.nextafter(nearest, -math.inf) if Fraction(nearest) > x else nearest
        if math.isinf(below):
            return 0
        bits = int(np.float64(below + 0.0).view(np.uint64))  # + 0.0 turns -0.0 into 0.0, whose code the data use
        code = bits + _ZERO if bits < _ZERO else (1 << 64) - 1 - bits
        return code if strict and Fraction(below) == x else code + 1

    def to_dict(self) -> Fields:
        return {"kind": self.kind}

    @classmethod
    def from_text(cls, body: str) -> Floats | None:
        return Floats() if body in ("", "number") else None

    def to_text(self) -> str:
        return ""

    def to_device(self) -> Fields:
        return {"floats": 64}

    def certain(self, stored: str) -> StoredBounds | bool:
        if stored == "float":
            most = float(np.finfo(np.float64).max)
            return -most, most
        return (-_EXACT, _EXACT) if stored == "integer" else False

    def encode_few(self, values: list[Any], name: str) -> Words:
        if any(isinstance(value, (bool, str)) for value in values):
            return super().encode_few(values, name)
        # What a column of numbers gives, without a table around a single one.
        numbers = [float(value) for value in values]
        if any(map(math.isnan, numbers)):
            raise SchemaError(f"column {name!r} has missing or unreadable values")
        held = np.array(numbers)
        codes, verdicts = np.empty(len(held), np.uint64), np.zeros(len(held), np.uint8)
        float_keys(held, held.view(np.uint64), codes, verdicts)
        return codes

    def drawn(self, inside: Sequence[int], points: int) -> list[int]:
        """All floats do not fit one axis: a window around the rule's own edge, twice as wide as the edge is large."""
        centre = self.value(inside[len(inside) // 2]) if inside else 0.0
        reach = max(abs(centre), 1.0)
        window = np.linspace(centre - reach, centre + reach, points)
        codes: list[int] = self.encode(window, on_invalid="clamp")[0].tolist()
        return codes

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        return on_floats(series, name)


def as_day(value: date | str | np.datetime64, name: str = "value") -> date:
    """A day: a date, an ISO text, or the day of a datetime, a timestamp of pandas or a ``numpy.datetime64``."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ParameterError(f"{name} must be a date such as 2020-12-31, got {value!r}") from None
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[D]").item()  # a date; None for no time, a number beyond the calendar
    if not isinstance(value, date):
        raise TypeError(f"{name} must be a date or text such as '2020-12-31', got {type(value).__name__}")
    if value != value:  # the timestamp of pandas that is none
        raise ParameterError(f"{name} must be a date such as 2020-12-31, got a missing one")
    return value.date() if isinstance(value, datetime) else value


@frozen(slots=False, repr=False, field_transformer=named)
class Dates(_Range):
    """Days ``lo..hi``, both included; a time of day is off the grid and counts as its day.

    Parameters
    ----------
    lo, hi : date or str
        The first and the last day; texts are written 2024-12-31.  Of a datetime, a timestamp or a ``datetime64``
        the day counts.
    typical : pair of dates, optional
        The public range where most values lie, if everybody may know one.  Values outside it stay valid; rules look
        more closely inside it.

    Raises
    ------
    ParameterError
        ``hi`` is before ``lo``, ``typical`` is not between them, or one of them is no day.

    Examples
    --------
    >>> Dates("2024-01-01", "2024-12-31").size
    366
    """

    lo: date = field(converter=as_day)
    hi: date = field(converter=as_day)
    typical: tuple[date, date] | None = field(default=None, kw_only=True, converter=_day_pair)
    kind: ClassVar[str] = "dates"
    _off: ClassVar[str] = "not whole days"
    _unread: ClassVar[str] = "not an ISO date"
    _kinds_read: ClassVar[frozenset[Kind]] = DATED

    def __attrs_post_init__(self) -> None:
        if self.lo > self.hi:
            raise ParameterError(f"Dates needs lo <= hi, got lo = {self.lo}, hi = {self.hi}")
        self._check_typical()

    def __repr__(self) -> str:
        typical = "" if self.typical is None else f", typical={self.typical!r}"
        return f"Dates(lo={self.lo!r}, hi={self.hi!r}{typical})"

    def _place(self, value: date) -> int:
        return value.toordinal() - self.lo.toordinal()

    def _shown(self, value: date) -> str:
        return value.isoformat()

    def anchor(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return self.hi.toordinal() - self.lo.toordinal() + 1

    @property
    def line(self) -> tuple[Fraction, Fraction]:
        return Fraction(0), Fraction(1)

    @property
    def column_type(self) -> DataType:
        return pl.Date

    def describe(self) -> str:
        return f"dates {self.lo}..{self.hi}"

    def value(self, code: int) -> date:
        return date.fromordinal(self.lo.toordinal() + self._check(code))

    def places(self, codes: Words) -> Floats64:
        return codes.astype(np.float64) + float(self.lo.toordinal())

    def to_dict(self) -> Fields:
        return self._with_typical({"kind": self.kind, "lo": self.lo.isoformat(), "hi": self.hi.isoformat()})

    @classmethod
    def from_text(cls, body: str) -> Dates | None:
        ends, typical = _ends(body, r"\d{4}-\d{2}-\d{2}")
        return None if ends is None else Dates(*ends, typical=typical)

    def to_text(self) -> str:
        return f"{self.lo}:{self.hi}{self._typical_text()}"

    def to_device(self) -> Fields:
        return {"from": self.lo.isoformat(), "to": self.hi.isoformat()}

    @classmethod
    def spanning(cls, values: pl.Series) -> Dates | None:
        return Dates(values.min(), values.max()) if values.dtype == pl.Date else None  # type: ignore[arg-type]

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        ladder = Ladder(self.lo.toordinal() - _EPOCH, 1, 0, self.size)

        def read_day(shown: str) -> tuple[int, Verdict]:
            try:
                moment = datetime.fromisoformat(shown.strip())
            except ValueError:
                return 0, Verdict.UNREAD
            code, verdict = ladder.place(Fraction(moment.toordinal() - _EPOCH))
            return code, Verdict.OFF if verdict is Verdict.GOOD and moment.time() != time(0) else verdict

        if series.dtype == pl.String or isinstance(series.dtype, (pl.Categorical, pl.Enum)) or series.dtype == pl.Null:
            return by_distinct_text(series.cast(pl.String), read_day)
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


Category = str | int | bool


def _categories(values: Iterable[Category]) -> tuple[Category, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"Categories needs a list of names, got {type(values).__name__}")
    names = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    if not names:
        raise ParameterError("Categories needs at least one value, got none")
    odd = next((v for v in names if not isinstance(v, (str, int))), None)
    if odd is not None:
        raise TypeError(f"a category must be text, an integer or a boolean, got {type(odd).__name__}")
    twice, times = Counter(map(_name, names)).most_common(1)[0]
    if times > 1:
        raise ParameterError(f"category {twice!r} is listed twice")
    return names


def _name(value: Category) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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

    Parameters
    ----------
    values : iterable of str, int or bool
        The names, in the order of their codes.
    ordered : bool
        Whether the listed order means something.

    Raises
    ------
    ParameterError
        No values, or two with the same text.

    Examples
    --------
    >>> Categories(["low", "high"], ordered=True).encode(["high", "low"])[0].tolist()
    [1, 0]
    """

    values: tuple[Category, ...] = field(converter=_categories)
    ordered: bool = field(default=False, kw_only=True, converter=_truth)
    kind: ClassVar[str] = "categories"
    syntax: ClassVar[str] = "{a,b,c}, {a<b<c} (ordered)"
    listed: ClassVar[bool] = True
    _unread: ClassVar[str] = "not a listed category"
    _kinds_read: ClassVar[frozenset[Kind]] = NAMED

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def column_type(self) -> DataType:
        """Mixed categories are texts."""
        kinds = {type(value) for value in self.values}
        if kinds == {bool}:
            return pl.Boolean
        return _whole_type(int(min(self.values)), int(max(self.values))) if kinds == {int} else pl.String

    def describe(self) -> str:
        kind = "ordered categories" if self.ordered else "categories"
        shown = ", ".join(repr(v) for v in self.values[:5])
        return f"the {kind} {shown}" if self.size <= 5 else f"the {self.size} listed {kind} ({shown}, ...)"

    def value(self, code: int) -> Category:
        return self.values[self._check(code)]

    def word(self, code: int) -> str:
        return _name(self.value(code))

    def to_dict(self) -> Fields:
        return {"kind": self.kind, "values": list(self.values), "ordered": self.ordered}

    @classmethod
    def from_text(cls, body: str) -> Categories | None:
        names, comma, said = body.rpartition(_ORDERED)
        if comma and names.rstrip().endswith(("]", "}")):
            if said.strip() not in ("true", "false"):
                raise ParameterError(f"ordered must be true or false, got {said[:60]!r}")
            plain = cls.from_text(names.strip())
            if plain is None:
                raise ParameterError(f"ordered goes with a list of categories, got {body[:60]!r}")
            return Categories(plain.values, ordered=said.strip() == "true")
        if body.startswith("{") and body.endswith("}"):
            return _in_braces(body[1:-1])
        if not body.startswith("["):
            return None
        try:
            values = json.loads(body)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, list) or not all(isinstance(name, (str, int)) for name in values):
            raise ParameterError(f'a list of categories is written ["a, b", "c"], got {body[:60]!r}')
        return Categories(values)

    def to_text(self) -> str:
        """``{a,b,c}`` or ``{a<b<c}``, or a list where a name would be read as something else.

        >>> Categories(["a", "b"]).to_text(), Categories(["a, b", "c"]).to_text()
        ('{a,b}', '["a, b", "c"]')
        >>> [Categories(names, ordered=True).to_text() for names in (["low", "high"], ["<5", ">=5"])]
        ['{low<high}', '["<5", ">=5"],ordered=true']
        """
        names = [name if isinstance(name, bool) else str(name) for name in self.values]
        # Alone, or in an order, a name with a sign of order would be read as several.
        alone = self.ordered or len(names) == 1
        plain = (len(names) > 1 or not self.ordered) and all(
            isinstance(name, str)
            and name
            and name == name.strip()
            and not set(name) & set(",{}")
            and "<" not in name[0 if alone else 1 :]
            for name in names
        )
        return "{" + ("<" if self.ordered else ",").join(map(str, names)) + "}" if plain else self.list_text()

    def list_text(self) -> str:
        """The names as a list, in one text."""
        return json.dumps(list(self.values), ensure_ascii=False) + (_ORDERED + "true") * self.ordered

    @classmethod
    def from_schema(cls, value: object) -> Categories | None:
        if isinstance(value, list):
            return Categories(value)
        if not isinstance(value, dict) or "values" not in value or not set(value) <= {"values", "ordered"}:
            return None
        if not isinstance(value["values"], list):
            raise ParameterError(f"values is a list of categories, got {toml_kind(value['values'])}")
        return Categories(value["values"], ordered=value.get("ordered", False))

    def to_schema(self) -> str | list[object] | Fields:
        text = self.to_text()
        if text.startswith("{") and all(isinstance(name, str) for name in self.values):
            return text
        return {"values": list(self.values), "ordered": True} if self.ordered else list(self.values)

    def to_device(self) -> Fields:
        return {"ordered" if self.ordered else "values": [str(value) for value in self.values]}

    @classmethod
    def suggest(cls, name: str, stored: pl.DataType | None) -> tuple[Domain, str] | None:
        return (Categories(["false", "true"]), "true or false, by its type") if stored == pl.Boolean else None

    @classmethod
    def spanning(cls, values: pl.Series) -> Categories | None:
        if values.dtype == pl.Boolean:
            return Categories(["false", "true"])
        if not (values.dtype == pl.String or isinstance(values.dtype, (pl.Categorical, pl.Enum))):
            return None
        names = sorted(map(str, values.unique().to_list()))
        return Categories(names) if 0 < len(names) <= _MOST_NAMES else None

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        dtype = series.dtype
        if not (holds_text(dtype) or dtype.is_numeric() or dtype in (pl.Boolean, pl.Date)):
            raise wrong_type(name, dtype, "names, integers or booleans are") from None
        shown, names = text(series), [_name(value) for value in self.values]
        codes = shown.replace_strict(names, list(range(self.size)), default=None, return_dtype=pl.UInt64)
        verdicts: Bytes | None = None
        if codes.null_count():
            verdicts = np.where(shown.is_null().to_numpy(), Verdict.MISSING, Verdict.UNREAD).astype(np.uint8)
            verdicts[codes.is_not_null().to_numpy()] = Verdict.GOOD
        return Encoded(codes.fill_null(0).to_numpy().copy(), verdicts)


def _in_braces(inside: str) -> Categories:
    """``a,b,c``, or ``a<b<c`` where their order means something; a name may begin with ``<``, as in ``<50,>=50``."""
    ordered = "<" in inside and "," not in inside
    names = [name.strip() for name in inside.split("<" if ordered else ",")]
    if not all(names):
        raise ParameterError(
            f"a category in {{{inside[:60]}}} is empty; write {{a,b,c}}, or {{a<b<c}} where the order means something"
        )
    if not ordered and any("<" in name[1:] for name in names):
        raise ParameterError(
            f"{{{inside[:60]}}} has both commas and <; write {{a,b,c}}, or {{a<b<c}} where the order means something, "
            'or a list such as ["a<b", "c"]'
        )
    return Categories(names, ordered=ordered)


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


@frozen(slots=False)
class Texts(Domain):
    """Every text; nothing to declare, no size.

    Raises
    ------
    SchemaError
        From ``encode``, by the rule for invalid values: a value is no text.

    Examples
    --------
    >>> Texts().describe(), Texts() == Texts()
    ('any text', True)
    """

    kind: ClassVar[str] = "texts"
    syntax: ClassVar[str] = "number or text"
    open: ClassVar[bool] = True

    @property
    def size(self) -> int:
        self._refuse("has no size")

    def describe(self) -> str:
        return "any text"

    def value(self, code: int) -> NoReturn:
        self._refuse("keeps its values inside the data set")

    def value_range(self) -> NoReturn:
        self._refuse("has no first and last value")

    def encode(
        self, values: object, on_invalid: OnInvalid | str = OnInvalid.RAISE, *, name: str = "values"
    ) -> tuple[Words, Bools]:
        self._refuse("has codes inside one data set only")

    def _refuse(self, what: str) -> NoReturn:
        raise ParameterError(
            f"an open vocabulary {what}; declare Categories([...]), or use a class of trees such as StarTree"
        )

    def to_dict(self) -> Fields:
        return {"kind": self.kind}

    @classmethod
    def from_text(cls, body: str) -> Texts | None:
        return Texts() if body == "text" else None

    def to_text(self) -> str:
        return "text"

    def certain(self, stored: str) -> StoredBounds | bool:
        return stored == "text"

    def read(self, series: pl.Series, name: str) -> Encoded:
        return self.dictionary(series, name)[0]

    read_typed = read

    def dictionary(self, series: pl.Series, name: str) -> tuple[Encoded, pl.Series | None]:
        shown, verdicts = named_texts(series, name)
        rows, vocabulary = dictionary(shown)
        return Encoded(np.maximum(rows, 0).astype(np.uint64), verdicts), vocabulary


def read_column(domain: Domain, series: pl.Series, name: str) -> tuple[Encoded, pl.Series | None]:
    """Codes with their verdicts, and the vocabulary if the domain is open.

    The one door to the loops that index memory by codes, and the last look at what passes.
    """
    found, vocabulary = domain.dictionary(series, name)
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
# scorecards read it as one more answer, "is missing".  ``"drop"`` leaves such records out whatever ``on_invalid`` says,
# ``"raise"`` is what every domain does without a rule: ``on_invalid`` decides, and its default raises.  Nothing is ever
# filled in: a value made up from other people's would carry their data into everybody's record.


@frozen(slots=False)
class Missing(Domain):
    """A domain with a rule for missing values.

    Parameters
    ----------
    inner : Domain
        What the values that are there look like.
    rule : {"own", "drop", "raise"}
        Missing values are a category of their own, their records are left out, or they are refused.

    Raises
    ------
    ParameterError, TypeError
        The rule is none of the three, or ``inner`` has one already.

    Examples
    --------
    >>> from privpac.data.domains import Integers
    >>> age = Missing(Integers(0, 120), "own")
    >>> age.size, age.encode([3, None])[0].tolist(), age.text(121)
    (122, [3, 121], 'missing')
    """

    inner: Domain
    rule: MissingRule = "own"
    kind: ClassVar[str] = "missing"

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.inner, Domain) or self.inner.open or self.inner.present is not self.inner:
            raise TypeError(
                f"a rule for missing values goes with a domain such as Integers(0, 100), got "
                f"{type(self.inner).__name__}"
            )
        if self.rule not in get_args(MissingRule):
            raise ParameterError(f"missing must be 'own', 'drop' or 'raise', got {self.rule!r}")
        if self.rule == "own" and self.inner.size >= 1 << 64 and self.inner.value_range()[1] == self.inner.size - 1:
            raise ParameterError("a domain of 2^64 values has no code left for missing ones; declare a smaller one")

    @property
    def present(self) -> Domain:
        return self.inner

    @property
    def missing_rule(self) -> MissingRule:
        return self.rule

    @property
    def missing_code(self) -> int | None:
        """None unless missing values have a code of their own; among floats a pattern that no value has."""
        if self.rule != "own":
            return None
        return (1 << 64) - 1 if self.inner.size >= 1 << 64 else self.inner.size

    @property
    def size(self) -> int:
        own = self.missing_code
        return self.inner.size if own is None else max(self.inner.size, own + 1)

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        return self.inner.ordered

    @property
    def linear(self) -> bool:
        return self.missing_code is None and self.inner.linear

    @property
    def column_type(self) -> DataType:
        return self.inner.column_type

    def typical_codes(self) -> tuple[int, int] | None:
        return self.inner.typical_codes()

    def with_typical(self, low: object, high: object) -> Missing:
        return Missing(self.inner.with_typical(low, high), self.rule)

    def anchor(self) -> int | None:
        return self.inner.anchor()

    def anchor_cut(self) -> int | None:
        return self.inner.anchor_cut()

    def octaves(self) -> list[tuple[int, int]] | None:
        return self.inner.octaves()

    def describe(self) -> str:
        what = {"own": "or missing", "drop": "records without a value left out", "raise": ""}
        return ", ".join(part for part in (self.inner.describe(), what[self.rule]) if part)

    def value(self, code: int) -> Any:
        return None if code == self.missing_code else self.inner.value(code)

    def text(self, code: int) -> str:
        return "missing" if code == self.missing_code else self.inner.text(code)

    def is_finite(self, code: int) -> bool:
        return code == self.missing_code or self.inner.is_finite(code)

    def value_range(self) -> tuple[int, int]:
        lowest, highest = self.inner.value_range()
        own = self.missing_code
        return lowest, highest if own is None else own

    def to_dict(self) -> Fields:
        return {"kind": self.kind, "inner": self.inner.to_dict(), "rule": self.rule}

    @classmethod
    def of_fields(cls, fields: Fields) -> Self:
        return cls(Domain.from_dict(fields["inner"]), fields["rule"])

    def to_text(self) -> str:
        return self.inner.to_text() + _MISSING + self.rule

    def to_schema(self) -> str:
        inner = self.inner.to_schema()
        # Names that need a list are written as one inside the text, ordered or not.
        names = getattr(self.inner, "list_text", self.inner.to_text)
        return (inner if isinstance(inner, str) else names()) + _MISSING + self.rule

    def holds(self, series: pl.Series) -> bool:
        return self.inner.holds(series)

    def read(self, series: pl.Series, name: str) -> Encoded:
        codes, verdicts = self.inner.read(series, name)
        own = self.missing_code
        if verdicts is None or own is None:
            return Encoded(codes, verdicts)
        gone = verdicts == Verdict.MISSING
        codes[gone], verdicts[gone] = np.uint64(own), Verdict.GOOD
        return Encoded(codes, verdicts)

    read_typed = read

    def words(self) -> dict[Verdict, str]:
        return self.inner.words()

    def judged(self, verdicts: Bytes) -> Bytes:
        return np.where(verdicts == Verdict.MISSING, Verdict.GOOD, verdicts) if self.rule == "drop" else verdicts

    def accept(self, verdicts: Bytes | None, rule: OnInvalid, name: str) -> Bools | None:
        if self.rule != "drop" or verdicts is None:
            return super().accept(verdicts, rule, name)
        missing = np.where(verdicts == Verdict.MISSING, verdicts, Verdict.GOOD)
        there = super().accept(missing, OnInvalid.DROP, name)
        kept = super().accept(self.judged(verdicts), rule, name)
        return kept if there is None else there if kept is None else kept & there


def values_of(domain: Domain) -> Domain:
    """The domain of the values that are there."""
    return domain.present


def own_code(domain: Domain | None) -> int | None:
    """The code of missing values where they have one of their own."""
    return None if domain is None else domain.missing_code


_INVALID = {
    OnInvalid.RAISE: "",
    OnInvalid.DROP: "records with values outside their domain are left out",
    OnInvalid.CLAMP: (
        "numbers outside their domain are moved to its nearest end, records with values that are not listed left out"
    ),
}
_MOST_COLUMNS_NAMED = 4


def invalid_words(on_invalid: OnInvalid | str, features: Mapping[str, Domain | None]) -> str:
    """What the declared rules do with values outside their domain and with missing ones, empty if they refuse all.

    >>> invalid_words("drop", {"age": Integers(0, 99)})
    'records with values outside their domain are left out; records with missing values are left out'
    >>> invalid_words("raise", {"age": Missing(Integers(0, 99), "own")})
    'missing values have a category of their own'
    """
    policy = OnInvalid(on_invalid)
    rules = {name: "raise" if domain is None else domain.missing_rule for name, domain in features.items()}
    own = [name for name, rule in rules.items() if rule == "own"]
    dropping = ("drop",) if policy is OnInvalid.RAISE else ("drop", "raise")
    dropped = [name for name, rule in rules.items() if rule in dropping]

    def of(some: Sequence[str]) -> str:
        if len(some) == len(rules):
            return ""
        return f" of {', '.join(some)}" if len(some) <= _MOST_COLUMNS_NAMED else f" of {len(some)} columns"

    words = [_INVALID[policy]]
    if own:
        words.append(f"missing values{of(own)} have a category of their own")
    if dropped or (policy != OnInvalid.RAISE and not rules):
        words.append(f"records with missing values{of(dropped)} are left out")
    return "; ".join(filter(None, words))


# Domains in words


def toml_kind(value: object) -> str:
    """What a value of a schema file is."""
    words = {bool: "true or false", int: "a number", float: "a number", dict: "a table", list: "a list", str: "a text"}
    return words.get(type(value), "a date or time")


def _forms() -> str:
    return ", ".join(kind.syntax for kind in Domain._kinds.values() if kind.syntax)


def parse_domain(declared: str) -> Domain:
    """Read ``lo:hi``, ``lo:hi:step``, either with ``~a:b``, ``{a,b,c}``, ``{a<b<c}``, ``text``; an empty text is
    ``Floats()``.

    >>> parse_domain("40:400"), parse_domain("0:1:0.25").size, parse_domain("{no,yes}").value(1)
    (Integers(lo=40, hi=400), 5, 'yes')
    >>> parse_domain("0:10000000~10000:200000").typical_codes()
    (10000, 200000)
    """
    if not isinstance(declared, str):
        raise TypeError(f"a domain is declared as text, got {type(declared).__name__}")
    body = declared.strip()
    inner, comma, missing = body.rpartition(_MISSING)
    if comma and missing.strip().isalpha():
        return Missing(parse_domain(inner), missing.strip())  # type: ignore[arg-type]
    found = next((domain for kind in Domain.kinds() if (domain := kind.from_text(body)) is not None), None)
    if found is None:
        raise ParameterError(f"a domain must be {_forms()}; got {declared!r}")
    return found


def parse_feature(declared: str) -> tuple[str, Domain]:
    """Read ``name`` or ``name=domain``.

    >>> parse_feature("glucose=40:400")
    ('glucose', Integers(lo=40, hi=400))
    >>> parse_feature("age=0:120,missing=own")[1].text(121)
    'missing'
    """
    if not isinstance(declared, str):
        raise TypeError(f"a feature is declared as text, got {type(declared).__name__}")
    name, equals, domain = declared.partition("=")
    if not name.strip() or (equals and not domain.strip()):
        raise ParameterError(f"a feature must be name or name=domain with domain {_forms()}; got {declared!r}")
    return name.strip(), parse_domain(domain)


def domain_text(domain: Domain | None) -> str:
    """What follows a feature's name: the inverse of :func:`parse_feature`.

    >>> [domain_text(parse_feature(text)[1]) for text in ("x", "x=0:9", "x=0:1:0.25", "x={a,b}",
    ...     "x=2024-01-01:2024-12-31", "x=text")]
    ['', '=0:9', '=0:1:1/4', '={a,b}', '=2024-01-01:2024-12-31', '=text']
    """
    if domain is None:
        raise ParameterError(f"a column without a domain is not written on the command line; it must be {_forms()}")
    text = domain.to_text()
    return f"={text}" if text else ""
