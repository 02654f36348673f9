"""Classes enumerated rule by rule: what they share, and a kernel on a table of predictions.

The kernel adds up rows of a 0/1 table (points by rules) over a user's distinct points, so the cost is one byte
operation per (distinct point of a user, rule), 32 of them at once where mistakes fit a byte
(:mod:`privpac.rules.kernels.tables_u8`); nothing of size users times rules is stored.  Rules come in blocks that
bound the table's memory: with several blocks the user's own least and most mistakes over the *whole* class are found in
a first pass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import Any, Generic, Self, TypeVar

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import Domain, UserData
from privpac.data.grouping import ranked
from privpac.data.jit import jit
from privpac.errors import DimensionLimit, ParameterError, PrivpacError, TooLargeError
from privpac.guarantee import positive_int
from privpac.result import register
from privpac.rules.base import ConceptClass, Rule, sauer
from privpac.rules.dimensions import littlestone_dimension
from privpac.rules.kernels.grouped import Groups, Terms, group, shared, tally, terms
from privpac.rules.kernels.tables_u8 import MOST_RECORDS, charge, extremes, holds, settle
from privpac.rules.labellings import MAX_PAIRS, check_tabulated
from privpac.rules.profile import Profile, constant_profile, dense_profile
from privpac.rules.statistics import Statistic

__all__ = [
    "Cells",
    "EnumeratedClass",
    "FiniteClass",
    "Frozen",
    "MAX_CELLS",
    "SIZE_LIMIT",
    "TableRule",
    "cells_at",
    "columns_from_list",
    "columns_to_list",
    "declared_of",
    "dense_fold",
    "distinct_rows",
    "domains_of",
    "domains_or_none",
    "even_cells",
    "frozen_columns",
    "key_digits",
    "limited",
    "named_domains",
    "row_keys",
    "table_vc_dimension",
]


# Public columns and public cells: the coarse grid on which boxes live.
#
# Cells depend on the declared domain and on public numbers only, never on data.


SIZE_LIMIT = 1 << 20
"""Classes that are enumerated rule by rule hold at most this many rules."""

_FEW = 64
V = TypeVar("V")


@dataclass(frozen=True, repr=False)
class Frozen(Mapping[str, V], Generic[V]):
    """A mapping with an order that counts, hashable and equal only to the same names and values in the same order."""

    pairs: tuple[tuple[str, V], ...]

    def __getitem__(self, name: str) -> V:
        for known, value in self.pairs:
            if known == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return repr(dict(self.pairs))


def domains_or_none(columns: Any, name: str = "domains") -> Frozen[Domain | None] | None:
    """The converter of a field: None takes every feature of the data."""
    return None if columns is None else named_domains(columns, name)


def named_domains(columns: Any, what: str) -> Frozen[Domain | None]:
    """Columns given as a mapping name -> domain, or as names whose domains the data declare; None, for classes that
    then read every column of the data, is none yet."""
    if columns is None:
        return Frozen(())
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"{what} must map names to domains, or list names, got {type(columns).__name__}")
    pairs = list(columns.items()) if isinstance(columns, Mapping) else [(name, None) for name in columns]
    if not pairs:
        raise ParameterError(f"{what} must name at least one column, got none")
    for name, domain in pairs:
        if not isinstance(name, str):
            raise TypeError(f"{what}: a column name must be text, got {type(name).__name__}")
        if domain is not None and not isinstance(domain, Domain):
            raise TypeError(f"{what}[{name!r}] must be a Domain such as Integers(0, 100), got {type(domain).__name__}")
    if len({name for name, _ in pairs}) < len(pairs):
        raise ParameterError(f"{what} names a column twice")
    return Frozen(tuple(pairs))


def declared_of(columns: Any) -> dict[str | None, Domain | None]:
    """Columns as ``ConceptClass.declared`` gives them."""
    return dict(columns)


def domains_of(columns: Mapping[str, Domain | None]) -> dict[str, Domain]:
    """The domains, all of them declared."""
    if not columns:
        raise ParameterError(
            "this class has no columns yet: name them, as in {'age': Integers(0, 120)}, or bind it to data"
        )
    without = [name for name, domain in columns.items() if domain is None]
    if without:
        raise ParameterError(f"columns {without} have no domain yet: declare it in the class or in UserData")
    return {name: domain for name, domain in columns.items() if domain is not None}


def frozen_columns(columns: Any) -> Frozen[Domain]:
    """Columns that are all declared, as a value."""
    return Frozen(tuple(domains_of(named_domains(columns, "columns")).items()))


def columns_to_list(columns: Mapping[str, Domain]) -> list[dict[str, Any]]:
    """Named domains for JSON, in order."""
    return [{"name": name, "domain": domain.to_dict()} for name, domain in columns.items()]


def columns_from_list(values: Sequence[Mapping[str, Any]]) -> Frozen[Domain]:
    """The inverse of :func:`columns_to_list`."""
    return Frozen(tuple((value["name"], Domain.from_dict(value["domain"])) for value in values))


@jit
def _count_edges(codes: Any, edges: Any, out: Any) -> None:
    """The number of edges after the first that are at most the code: without branches faster than a search."""
    for i in range(len(codes)):
        code, cell = codes[i], 0
        for e in range(1, len(edges)):
            cell += edges[e] <= code
        out[i] = cell


@dataclass(frozen=True)
class Cells:
    """A domain cut into runs of codes: cell ``i`` begins at code ``edges[i]``, the first one at 0."""

    domain: Domain
    edges: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.edges)

    @cached_property
    def _starts(self) -> NDArray[np.uint64]:
        return np.array(self.edges, dtype=np.uint64)

    def index(self, codes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The cell of every code."""
        if self.count > _FEW:
            return (np.searchsorted(self._starts, codes, side="right") - 1).astype(np.int64)
        out = np.empty(len(codes), dtype=np.int64)
        _count_edges(np.ascontiguousarray(codes), self._starts, out)
        return out

    def codes(self, first: int, last: int) -> tuple[int, int]:
        """Lowest and highest code of the cells ``first..last``."""
        return self.edges[first], self.edges[last + 1] - 1 if last + 1 < self.count else self.domain.size - 1


def even_cells(domain: Domain, count: int) -> Cells:
    """At most ``count`` cells of as equal numbers of values as possible."""
    lowest, highest = domain.value_range()
    values = highest - lowest + 1
    count = min(count, values)
    return Cells(domain, (0, *(lowest + i * values // count for i in range(1, count))))


def cells_at(domain: Domain, values: Sequence[Any], name: str) -> Cells:
    """A cell begins at each of the given values; the values below the first of them form a cell of their own."""
    try:
        codes, _ = domain.encode(list(values), on_invalid="raise", name=name)
    except PrivpacError:
        raise ParameterError(f"cuts of column {name!r} must be values of its domain: {domain.describe()}") from None
    listed = [int(code) for code in codes.tolist()]
    if any(a >= b for a, b in pairwise(listed)):
        raise ParameterError(f"cuts of column {name!r} must increase")
    return Cells(domain, (0, *(code for code in listed if code > 0)))


def checked_cuts(cuts: Any, columns: Mapping[str, Any]) -> int | Frozen[int | tuple[Any, ...]] | None:
    """``cuts`` as None, a number for every column, or a number or list of values per column."""
    if cuts is None:
        return None
    if not isinstance(cuts, Mapping):
        return positive_int(cuts, "cuts")
    unknown = [name for name in cuts if columns and name not in columns]  # unnamed ones come with the data
    if unknown:
        raise ParameterError(f"cuts name the columns {unknown}, which are not among {list(columns)}")
    pairs: list[tuple[str, int | tuple[Any, ...]]] = []
    for name, value in cuts.items():
        listed = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        pairs.append((name, tuple(value) if listed else positive_int(value, f"cuts[{name!r}]")))
    return Frozen(tuple(pairs))


Bytes = NDArray[np.uint8]
Codes = NDArray[np.uint64]
Ints = NDArray[np.int64]
_TABLE = 1 << 26
_STRIP = 4096
_MINIMUM, _SCORES, _BOTH = 0, 1, 2


def limited(size: int, what: str, advice: str) -> int:
    """The size of an enumerated class, if it is within the public limit."""
    if size > SIZE_LIMIT:
        shown = str(size) if size < 10**15 else f"more than 10^{len(str(size)) - 1}"
        raise TooLargeError(f"{what} has {shown} rules, at most {SIZE_LIMIT} are enumerated; {advice}")
    return size


class EnumeratedClass(ConceptClass):
    """A class of at most ``SIZE_LIMIT`` rules whose predictions can be tabulated in blocks of ids.

    A class of one's own defines ``size``, ``vc_dimension``, ``declared``, ``with_columns``, ``decode`` and ``table``;
    everything else says more or is faster.
    """

    @abstractmethod
    def table(self, codes: Mapping[str, NDArray[np.uint64]], first: int, last: int) -> Bytes: ...

    def checked(self, hypothesis: int) -> int:
        if not 0 <= hypothesis < self.size:
            raise ParameterError(f"ids go from 0 to {self.size - 1}, got {hypothesis}")
        return hypothesis

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        return self.table(codes, self.checked(hypothesis), hypothesis + 1)[:, 0].astype(np.int8)

    def empty_profile(self) -> Profile:
        return constant_profile(self.size)

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        sizes = [domain.size for domain in self.declared().values() if domain is not None]
        points, place = distinct_rows([users.codes[name] for name in columns], sizes)
        codes = {name: np.ascontiguousarray(points[:, j]) for j, name in enumerate(columns)}
        return dense_fold(
            place,
            users.labels,
            users.offsets,
            statistic,
            size=self.size,
            n_points=len(points),
            table=lambda first, last: self.table(codes, first, last),
        )

    def check_labellings(self, *, units: int | None = None, split_size: int | None = None, whole: bool = False) -> None:
        if whole:
            super().check_labellings(whole=True)
        else:
            many = split_size is None or self.size**2 <= MAX_PAIRS  # growth may take a search: only where it decides
            check_tabulated(self.size, units, self.size if many else min(self.size, self.growth(split_size or 0)))

    # Labellings

    def _tables(self, codes: Mapping[str, NDArray[np.uint64]]) -> Iterator[tuple[int, Bytes]]:
        n = max((len(column) for column in codes.values()), default=0)
        block = max(1, (_TABLE >> 3) // max(n, 1))
        for first in range(0, self.size, block):
            yield first, self.table(codes, first, min(first + block, self.size))

    def dichotomies(self, codes: Mapping[str, NDArray[np.uint64]]) -> Iterator[tuple[NDArray[np.int8], int, int]]:
        seen: dict[bytes, list[Any]] = {}
        for base, table in self._tables(codes):
            # One column of bits per rule; the leading 1 keeps the key of no points at all non-empty.
            marked = np.concatenate([np.ones((1, table.shape[1]), np.uint8), table])
            keys = np.ascontiguousarray(np.packbits(marked, axis=0).T)
            flat = keys.view(np.dtype((np.void, keys.shape[1])))[:, 0]
            distinct, firsts, counts = np.unique(flat, return_index=True, return_counts=True)
            for i in np.argsort(firsts).tolist():
                first = int(firsts[i])
                entry = seen.setdefault(distinct[i].tobytes(), [table[:, first].astype(np.int8), base + first, 0])
                entry[2] += int(counts[i])
        for labels, first, count in seen.values():
            yield labels, first, count

    def consistent(self, codes: Mapping[str, NDArray[np.uint64]], labels: NDArray[np.uint8]) -> int | None:
        for base, table in self._tables(codes):
            right = (table == np.asarray(labels, dtype=np.uint8)[:, None]).all(axis=0)
            if bool(right.any()):
                return base + int(np.argmax(right))
        return None


def row_keys(columns: list[Codes], sizes: list[int]) -> Codes:
    """Rows of codes as numbers below the product of the sizes, the first column most significant."""
    key = columns[0].copy()
    for column, size in zip(columns[1:], sizes[1:]):
        key = key * np.uint64(size) + column
    return key


def key_digits(keys: Codes, sizes: list[int]) -> Codes:
    """The inverse of :func:`row_keys`."""
    out = np.empty((len(keys), len(sizes)), dtype=np.uint64)
    for j in range(len(sizes) - 1, 0, -1):
        keys, out[:, j] = np.divmod(keys, np.uint64(sizes[j]))
    out[:, 0] = keys
    return out


def distinct_rows(columns: list[Codes], sizes: list[int]) -> tuple[Codes, Codes]:
    """Distinct records as rows of codes, and the row of every record; ``sizes``: how many codes a column has."""
    if prod(sizes) <= 1 << 64:
        distinct, place = ranked(row_keys(columns, sizes))
        return key_digits(distinct, sizes), place.astype(np.uint64)
    points, place = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return np.ascontiguousarray(points), place.reshape(-1).astype(np.uint64)


@jit
def _mistakes(row: Any, table: Any, places: Any, weights: Any, start: int, end: int, ones: int) -> None:
    """A user's mistakes by every rule of the table, in the type of ``row``, a strip of it at a time."""
    nothing = row.dtype.type(0)
    for a in range(0, len(row), _STRIP):
        b = min(a + _STRIP, len(row))
        strip = row[a:b]
        strip[:] = row.dtype.type(ones)
        for k in range(start, end):
            weight, line = row.dtype.type(weights[k]), table[places[k], a:b]
            for h in range(b - a):
                strip[h] += weight if line[h] else nothing


@jit
def _block(
    table: Any,
    groups: Any,
    offset: Any,
    cap: Any,
    levels: int,
    uses_minimum: bool,
    own: Any,
    mode: int,
    first: int,
    last: int,
    scores: Any,
) -> None:
    """One block of rules: widen ``own`` (0), add contributions given ``own`` (1), or both at once (2)."""
    starts, ends, places, weights, ones, sizes, times = groups
    width, voices = table.shape[1], len(cap)
    row, bytes_row = np.empty(width, dtype=np.int32), np.empty(width, dtype=np.uint8)
    values, held = np.empty(MOST_RECORDS + 1, dtype=np.int64), holds(voices, width)
    elsewhere = np.zeros(voices, dtype=np.int64)
    for i in range(first, last):
        m, narrow = sizes[i], sizes[i] <= MOST_RECORDS
        if narrow:
            _mistakes(bytes_row, table, places, weights, starts[i], ends[i], ones[i])
        else:
            _mistakes(row, table, places, weights, starts[i], ends[i], ones[i])
        if mode != _SCORES:
            least, most = extremes(bytes_row) if narrow else extremes(row)
            own[0, i], own[1, i] = min(own[0, i], least), max(own[1, i], most)
        if mode != _MINIMUM:
            minimum = own[0, i] if uses_minimum else np.int64(0)
            if narrow:
                charge(bytes_row, minimum, m, offset[i], cap[:, i], levels, times[i], elsewhere, values, held, scores)
            else:
                if len(values) <= m:
                    values = np.empty(2 * m + 1, dtype=np.int64)
                tally(row, minimum, m, offset[i], cap[:, i], levels, times[i], values, scores)
    settle(held, scores)


def _run(table: Bytes, groups: Groups, term: Terms, mode: int) -> Ints:
    lines, packed = np.ascontiguousarray(table), tuple(groups)

    def work(first: int, last: int, scores: Ints) -> None:
        _block(
            lines, packed, term.offset, term.cap, term.levels, term.uses_minimum, term.own, mode, first, last, scores
        )

    return shared(groups, term, table.shape[1], work)


def dense_fold(
    points: NDArray[np.uint64],
    labels: Bytes,
    offsets: Ints,
    statistic: Statistic,
    *,
    size: int,
    n_points: int,
    table: Callable[[int, int], Bytes],
) -> Profile:
    """The sum over users of the statistic, for each of ``size`` rules.

    ``points[r]`` in 0..n_points-1 is the table row of record ``r``; ``table(first, last)`` gives the 0/1 predictions
    (all points, rules ``first..last - 1``).
    """
    groups = group(points, labels, offsets, n_points)
    if not len(groups.sizes):
        return dense_profile(np.zeros((statistic.voices, size), dtype=np.int64))
    term = terms(groups, statistic)
    block = max(1, _TABLE // max(n_points, 1))
    edges = [(first, min(first + block, size)) for first in range(0, size, block)]
    if len(edges) == 1:
        scores = _run(table(0, size), groups, term, _BOTH if term.uses_minimum else _SCORES)
    else:
        if term.uses_minimum:
            for first, last in edges:
                _run(table(first, last), groups, term, _MINIMUM)
        scores = np.concatenate([_run(table(first, last), groups, term, _SCORES) for first, last in edges], axis=1)
    return dense_profile(scores, statistic.luck(groups.sizes, term.own, groups.times))


# Any finite list of rules, given by what they say on every value.
#
# ``rules[h, c]`` is what rule ``h`` says on code ``c``; with several columns the codes are numbered with the first
# column most significant.  The table is public.  The kernel adds up table rows over a user's distinct points.


MAX_CELLS = 1 << 28
"""The most entries (rules times values) a table may have."""

_SEARCHED, _SEARCH_STATES = 1 << 16, 1 << 14
"""Cells of a table that is searched for a mistake tree at all, and steps of that search: a fraction of a second."""

ColumnCodes = Mapping[str, NDArray[np.uint64]]
_SHOWN = 8


def flat_codes(codes: ColumnCodes, columns: Mapping[str, Domain]) -> NDArray[np.uint64]:
    """One number for the codes of several columns, the first most significant."""
    out: NDArray[np.uint64] | None = None
    for name, domain in columns.items():
        out = codes[name] if out is None else out * np.uint64(domain.size) + codes[name]
    assert out is not None
    return out


@register("table")
@frozen(slots=False, repr=False)
class TableRule(Rule):
    """What to say on every value, written as a text of 0 and 1."""

    columns: Mapping[str, Domain] = field(converter=frozen_columns)
    bits: str
    name: str | None = None
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        columns = self.columns
        if not isinstance(self.bits, str) or set(self.bits) - {"0", "1"}:
            raise ParameterError("bits must be a text of 0 and 1")
        if len(self.bits) != prod(domain.size for domain in columns.values()):
            raise ParameterError(f"bits must have one digit per value of {list(columns)}, got {len(self.bits)}")

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.columns

    def predict_codes(self, codes: ColumnCodes) -> NDArray[np.int8]:
        table = np.frombuffer(self.bits.encode(), dtype=np.int8) - np.int8(ord("0"))
        return table[flat_codes(codes, self.columns)]

    def condition(self) -> str:
        if "0" not in self.bits or "1" not in self.bits:
            return "always" if "1" in self.bits else "never"
        if self.name is not None:
            return self.name
        names, domains = list(self.columns), list(self.columns.values())
        where = [i for i, bit in enumerate(self.bits) if bit == "1"]
        shown = [self._value(i, domains) for i in where[:_SHOWN]] + (
            [f"… ({len(where)} values)"] if len(where) > _SHOWN else []
        )
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} in {{{', '.join(shown)}}}"

    @staticmethod
    def _value(flat: int, domains: Sequence[Domain]) -> str:
        parts = []
        for domain in reversed(domains):
            flat, code = divmod(flat, domain.size)
            parts.append(domain.text(code))
        return parts[0] if len(parts) == 1 else "(" + ", ".join(reversed(parts)) + ")"

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": columns_to_list(self.columns),
            "bits": "b" + self.bits,
            "name": self.name,
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            columns_from_list(values["columns"]), values["bits"].removeprefix("b"), values["name"], values["label"]
        )


def _tabulate(functions: Sequence[Callable[..., Any]], domains: Sequence[Domain]) -> Bytes:
    if len(functions) * prod(domain.size for domain in domains) > 1 << 22:
        raise TooLargeError(
            "more than 2^22 evaluations of the given functions are needed; pass their table as a 0/1 array"
        )
    values = product(*([domain.value(code) for code in range(domain.size)] for domain in domains))
    return np.array([[bool(f(*value)) for f in functions] for value in values], dtype=np.uint8).T


def _read_rules(given: Any, domains: Sequence[Domain]) -> Bytes:
    if isinstance(given, (list, tuple)) and given and all(callable(item) for item in given):
        if not domains:
            raise ParameterError("functions need a domain to be tabulated on: FiniteClass(functions, Integers(0, 6))")
        limited(len(given), "the class", "use a smaller class")
        given = _tabulate(given, domains)
    array = np.asarray(given)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise ParameterError(
            f"a class is a 0/1 array (rules by values) or a list of functions, got {array.dtype}, shape {array.shape}"
        )
    if not bool(((array == 0) | (array == 1)).all()):
        raise ParameterError("a class is a table of 0 and 1; other entries were found")
    limited(array.shape[0], "the class", "use a smaller class")
    if array.size > MAX_CELLS:
        raise TooLargeError(f"the table has {array.size} entries, at most {MAX_CELLS} are allowed; use a coarser Grid")
    if domains and prod(domain.size for domain in domains) != array.shape[1]:
        raise ParameterError(
            f"the table has {array.shape[1]} columns, the domain {prod(domain.size for domain in domains)} values"
        )
    table = np.array(array, dtype=np.uint8, order="C")
    table.setflags(write=False)
    return table


@frozen(slots=False, init=False, eq=False)
class FiniteClass(EnumeratedClass):
    """``rules`` is a 0/1 table (rules by values), or a list of functions of a value (one argument per column).

    ``domain`` is one domain for one column (``feature`` names it), or a mapping from names to domains.

    >>> from privpac.data import Integers
    >>> c = FiniteClass([lambda d: d % 2, lambda d: d > 4], Integers(0, 6), feature="day", names=["odd", "weekend"])
    >>> c.size, str(c.decode(1, label="late")), c.predictions({"day": np.array([0, 5], dtype=np.uint64)}, 1).tolist()
    (2, 'late when weekend', [0, 1])
    """

    rules: Bytes
    domain: Domain | Frozen[Domain] | None
    feature: str | None
    names: tuple[str, ...] | None

    def __init__(
        self,
        rules: Any,
        domain: Domain | Mapping[str, Domain] | None = None,
        feature: str | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        columns: Domain | Frozen[Domain] | None
        if isinstance(domain, Mapping):
            if feature is not None:
                raise ParameterError(
                    "feature names the only column; several columns are named by the mapping of domains"
                )
            columns = Frozen(tuple(domains_of(named_domains(domain, "domain")).items()))
        elif domain is not None and not isinstance(domain, Domain):
            raise TypeError(
                f"domain must be a Domain such as Integers(0, 100), or map names to domains, got "
                f"{type(domain).__name__}"
            )
        else:
            columns = domain
        listed = list(columns.values()) if isinstance(columns, Frozen) else [] if columns is None else [columns]
        table = _read_rules(rules, listed)
        texts = None if names is None else tuple(names)
        if texts is not None:
            if not all(isinstance(name, str) for name in texts) or isinstance(names, str):
                raise TypeError("names must be a list of texts, one for each rule")
            if len(texts) != len(table):
                raise ParameterError(f"there are {len(table)} rules and {len(texts)} names")
        self.__attrs_init__(table, columns, feature, texts)

    @cached_property
    def _points(self) -> Bytes:
        """Values by rules: the kernel reads what all rules say on one value in a row."""
        return np.ascontiguousarray(self.rules.T)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FiniteClass):
            return NotImplemented
        mine, theirs = (self.domain, self.feature, self.names), (other.domain, other.feature, other.names)
        return mine == theirs and np.array_equal(self.rules, other.rules)

    def __hash__(self) -> int:
        return hash((self.domain, self.feature, self.names, self.rules.shape))

    @property
    def size(self) -> int:
        return len(self.rules)

    @cached_property
    def vc_dimension(self) -> int:
        """By search; ``DimensionLimit`` if that is too much work."""
        return table_vc_dimension(self.rules)

    @property
    def shattered_points(self) -> int:
        try:
            return self.vc_dimension
        except DimensionLimit as limit:
            return limit.lower

    @cached_property
    def mistake_tree_depth(self) -> int:
        if self.rules.size > _SEARCHED:
            return 0
        try:
            return littlestone_dimension(self.rules, max_states=_SEARCH_STATES)
        except DimensionLimit as limit:
            return limit.lower

    def growth(self, n: int) -> int:
        try:
            dimension = self.vc_dimension
        except DimensionLimit as limit:
            dimension = self.size.bit_length() if limit.upper is None else limit.upper
        return min(self.size, sauer(dimension, min(n, self.rules.shape[1])))

    # Columns and rules

    def declared(self) -> Mapping[str | None, Domain | None]:
        return declared_of(self.domain) if isinstance(self.domain, Mapping) else {self.feature: self.domain}

    @cached_property
    def _columns(self) -> dict[str, Domain]:
        return domains_of({name or "x": domain for name, domain in self.declared().items()})

    def with_columns(self, columns: Mapping[str, Domain]) -> FiniteClass:
        if isinstance(self.domain, Mapping):
            return FiniteClass(self.rules, columns, None, self.names)
        ((feature, domain),) = columns.items()
        return FiniteClass(self.rules, domain, feature, self.names)

    def decode(self, hypothesis: int, label: str = "1") -> TableRule:
        said = self.rules[self.checked(hypothesis)]
        name = None if self.names is None else self.names[hypothesis]
        return TableRule(self._columns, (said + np.uint8(ord("0"))).tobytes().decode(), name, label)

    def table(self, codes: ColumnCodes, first: int, last: int) -> Bytes:
        return self._points[flat_codes(codes, self._columns), first:last]

    # Folding

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        points = flat_codes(users.codes, self._columns)
        table = self._points
        return dense_fold(
            points,
            users.labels,
            users.offsets,
            statistic,
            size=self.size,
            n_points=len(table),
            table=lambda a, b: table[:, a:b],
        )

    def empty_profile(self) -> Profile:
        return dense_profile(np.zeros(self.size, dtype=np.int64))


def table_vc_dimension(matrix: NDArray[np.uint8], max_states: int = 1 << 20) -> int:
    """The largest k such that some k columns of a 0/1 table show all ``2**k`` rows.

    Shattered sets are grown column by column (a subset of a shattered set is shattered).  Rows and columns that repeat
    add nothing; ``max_states`` bounds the sets looked at.
    """
    positive_int(max_states, "max_states")
    rows = np.unique(matrix, axis=0)
    columns = np.unique(rows, axis=1).T.astype(np.int64)
    most = len(rows).bit_length() - 1
    best, states = 0, 0
    stack: list[tuple[int, int, NDArray[np.int64]]] = [(0, 0, np.zeros(len(rows), dtype=np.int64))]
    while stack:
        start, k, pattern = stack.pop()
        best = max(best, k)
        if best == most:
            return best
        for c in range(start, len(columns)):
            if k + len(columns) - c <= best:
                break
            states += 1
            if states > max_states:
                raise DimensionLimit(best, most)
            wider = 2 * pattern + columns[c]
            if np.count_nonzero(np.bincount(wider, minlength=2 << k)) == 2 << k:
                stack.append((c + 1, k + 1, wider))
    return best
