"""Classes enumerated rule by rule: what they share, and a kernel on a table of predictions.

The kernel adds up rows of a 0/1 table (points by rules) over a user's distinct points, so the cost is one byte
operation per (distinct point of a user, rule), 32 of them at once where mistakes fit a byte
(:mod:`privpac.rules.kernels.grouped`); nothing of size users times rules is stored.  Rules come in blocks that
bound the table's memory: with several blocks the user's own least and most mistakes over the *whole* class are found in
a first pass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from attrs import evolve, field, frozen

from privpac.arrays import Array, Bytes, Codes, Ints
from privpac.data import Domain, UserData
from privpac.data.grouping import ranked
from privpac.data.loops import jit
from privpac.errors import DimensionLimit, ParameterError, PrivpacError, TooLargeError
from privpac.guarantee import positive_int
from privpac.rules.base import MAX_PAIRS, ColumnCodes, ConceptClass, Frozen, Predictions, Rule, check_tabulated, sauer
from privpac.rules.kernels import Bundle
from privpac.rules.kernels.grouped import (
    MOST_RECORDS,
    Groups,
    Terms,
    add_contributions,
    charge,
    extremes,
    group_equal_users,
    holds,
    settle,
    shared,
    terms,
)
from privpac.rules.profile import Profile, Statistic, constant_profile, dense_profile

# Public columns and public cells: the coarse grid on which boxes live.
#
# Cells depend on the declared domain and on public numbers only, never on data.


SIZE_LIMIT = 1 << 20
"""Classes that are enumerated rule by rule hold at most this many rules."""

_FEW = 64


def domains_or_none(columns: object, name: str = "domains") -> Frozen[Domain | None] | None:
    """The converter of a field: None takes every feature of the data."""
    return None if columns is None else named_domains(columns, name)


def named_domains(columns: object, what: str) -> Frozen[Domain | None]:
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


def frozen_columns(columns: object) -> Frozen[Domain]:
    """Columns that are all declared, as a value."""
    return Frozen(tuple(domains_of(named_domains(columns, "columns")).items()))


@jit
def _count_edges(codes: Array, edges: Array, out: Array) -> None:
    """The number of edges after the first that are at most the code: without branches faster than a search."""
    for i in range(len(codes)):
        code, cell = codes[i], 0
        for e in range(1, len(edges)):
            cell += edges[e] <= code
        out[i] = cell


@frozen(slots=False)
class Cells:
    """A domain cut into runs of codes: cell ``i`` begins at code ``edges[i]``, the first one at 0."""

    domain: Domain
    edges: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.edges)

    @cached_property
    def _starts(self) -> Codes:
        return np.array(self.edges, dtype=np.uint64)

    def index(self, codes: Codes) -> Ints:
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


def cells_at(domain: Domain, values: Sequence[object], name: str) -> Cells:
    """A cell begins at each of the given values; the values below the first of them form a cell of their own."""
    try:
        codes, _ = domain.encode(list(values), on_invalid="raise", name=name)
    except PrivpacError:
        raise ParameterError(f"cuts of column {name!r} must be values of its domain: {domain.describe()}") from None
    listed = [int(code) for code in codes.tolist()]
    if any(a >= b for a, b in pairwise(listed)):
        raise ParameterError(f"cuts of column {name!r} must increase")
    return Cells(domain, (0, *(code for code in listed if code > 0)))


def checked_cuts(cuts: object, columns: Mapping[str, object]) -> int | Frozen[int | tuple[Any, ...]] | None:
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


_TABLE = 1 << 26
_STRIP = 4096
_MINIMUM, _SCORES, _BOTH = 0, 1, 2


def limited(size: int, what: str, advice: str) -> int:
    """The size of an enumerated class, if it is within the public limit."""
    if size > SIZE_LIMIT:
        shown = str(size) if size < 10**15 else f"more than 10^{len(str(size)) - 1}"
        raise TooLargeError(f"{what} has {shown} rules, at most {SIZE_LIMIT} are enumerated; {advice}")
    return size


class NamedColumns(ConceptClass):
    """Rules about named columns; subclasses are frozen ``attrs`` classes with a field for them, ``columns_in``."""

    columns_in: ClassVar[str] = "domains"
    inherits: ClassVar[bool] = True

    def declared(self) -> Mapping[str | None, Domain | None]:
        return dict(getattr(self, self.columns_in) or {})

    def with_columns(self, columns: Mapping[str, Domain]) -> Self:
        return evolve(self, **{self.columns_in: columns})  # type: ignore[misc]

    @cached_property
    def _columns(self) -> Frozen[Domain]:
        """The columns, all of them with domains."""
        return Frozen(tuple(domains_of(getattr(self, self.columns_in) or {}).items()))


class EnumeratedClass(ConceptClass):
    """A class of at most ``SIZE_LIMIT`` rules whose predictions can be tabulated in blocks of ids.

    A class of one's own defines ``size``, ``vc_dimension``, ``declared``, ``with_columns``, ``decode`` and ``table``;
    everything else says more or is faster.
    """

    @abstractmethod
    def table(self, codes: ColumnCodes, first: int, last: int) -> Bytes: ...

    def predictions(self, codes: ColumnCodes, hypothesis: int) -> Predictions:
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

    def _tables(self, codes: ColumnCodes) -> Iterator[tuple[int, Bytes]]:
        n = max((len(column) for column in codes.values()), default=0)
        block = max(1, (_TABLE >> 3) // max(n, 1))
        for first in range(0, self.size, block):
            yield first, self.table(codes, first, min(first + block, self.size))

    def dichotomies(self, codes: ColumnCodes) -> Iterator[tuple[Predictions, int, int]]:
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

    def consistent(self, codes: ColumnCodes, labels: Bytes) -> int | None:
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
def _mistakes(row: Array, table: Array, places: Array, weights: Array, start: int, end: int, ones: int) -> None:
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
    table: Array,
    groups: Bundle,
    offset: Array,
    cap: Array,
    levels: int,
    uses_minimum: bool,
    own: Array,
    mode: int,
    first: int,
    last: int,
    scores: Array,
) -> None:
    """One block of rules: widen ``own`` (0), add contributions given ``own`` (1), or both at once (2)."""
    starts, ends, places, weights, ones, sizes, times = groups
    width, n_scores = table.shape[1], len(cap)
    row, bytes_row = np.empty(width, dtype=np.int32), np.empty(width, dtype=np.uint8)
    values, held = np.empty(MOST_RECORDS + 1, dtype=np.int64), holds(n_scores, width)
    elsewhere = np.zeros(n_scores, dtype=np.int64)
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
                add_contributions(row, minimum, m, offset[i], cap[:, i], levels, times[i], values, scores)
    settle(held, scores)


def _run(table: Bytes, groups: Groups, term: Terms, mode: int) -> Ints:
    lines, packed = np.ascontiguousarray(table), tuple(groups)

    def work(first: int, last: int, scores: Ints) -> None:
        _block(
            lines, packed, term.offset, term.cap, term.levels, term.uses_minimum, term.own, mode, first, last, scores
        )

    return shared(groups, term, table.shape[1], work)


def dense_fold(
    points: Codes,
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
    groups = group_equal_users(points, labels, offsets, n_points)
    if not len(groups.sizes):
        return dense_profile(np.zeros((statistic.n_scores, size), dtype=np.int64))
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
    return dense_profile(scores, statistic.optimism(groups.sizes, term.own, groups.times))


# Any finite list of rules, given by what they say on every value.
#
# ``rules[h, c]`` is what rule ``h`` says on code ``c``; with several columns the codes are numbered with the first
# column most significant.  The table is public.  The kernel adds up table rows over a user's distinct points.


MAX_TABLE_CELLS = 1 << 28
"""The most entries (rules times values) a table may have."""

_SEARCHED, _SEARCH_STATES = 1 << 16, 1 << 14
"""Cells of a table that is searched for a mistake tree at all, and steps of that search: a fraction of a second."""

_SHOWN = 8


def flat_codes(codes: ColumnCodes, columns: Mapping[str, Domain]) -> Codes:
    """One number for the codes of several columns, the first most significant."""
    out: Codes | None = None
    for name, domain in columns.items():
        out = codes[name] if out is None else out * np.uint64(domain.size) + codes[name]
    assert out is not None
    return out


@frozen(slots=False, repr=False)
class TableRule(Rule):
    """What to say on every value, written as a text of 0 and 1."""

    saved_as: ClassVar[str] = "table"
    columns: Frozen[Domain] = field(converter=frozen_columns)
    bits: str
    name: str | None = None
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        columns = self.columns
        if not isinstance(self.bits, str) or set(self.bits) - {"0", "1"}:
            raise ParameterError("bits must be a text of 0 and 1")
        if len(self.bits) != prod(domain.size for domain in columns.values()):
            raise ParameterError(f"bits must have one digit per value of {list(columns)}, got {len(self.bits)}")

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
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
        return super().to_dict() | {"bits": "b" + self.bits}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return super().from_dict({**values, "bits": values["bits"].removeprefix("b")})


def _tabulate(functions: Sequence[Callable[..., object]], domains: Sequence[Domain]) -> Bytes:
    if len(functions) * prod(domain.size for domain in domains) > 1 << 22:
        raise TooLargeError(
            "more than 2^22 evaluations of the given functions are needed; pass their table as a 0/1 array"
        )
    values = product(*([domain.value(code) for code in range(domain.size)] for domain in domains))
    return np.array([[bool(f(*value)) for f in functions] for value in values], dtype=np.uint8).T


def _read_rules(given: object, domains: Sequence[Domain]) -> Bytes:
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
    if array.size > MAX_TABLE_CELLS:
        raise TooLargeError(
            f"the table has {array.size} entries, at most {MAX_TABLE_CELLS} are allowed; use a coarser Grid"
        )
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

    Parameters
    ----------
    rules : 2-d array of 0 and 1, or list of functions
        A row or a function for each rule.
    domain : Domain or mapping of names to domains, optional
        The values that the table's columns stand for.
    feature : str, optional
        The column's name, where there is one domain.
    names : sequence of str, optional
        What the rules are called.

    Raises
    ------
    ParameterError
        The table and the domains do not fit, or hold other values than 0 and 1.

    Examples
    --------
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
        rules: object,
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


def table_vc_dimension(matrix: Bytes, max_states: int = 1 << 20) -> int:
    """The largest k such that some k columns of a 0/1 table show all ``2**k`` rows.

    Shattered sets are grown column by column (a subset of a shattered set is shattered).  Rows and columns that repeat
    add nothing; ``max_states`` bounds the sets looked at.
    """
    positive_int(max_states, "max_states")
    rows = np.unique(matrix, axis=0)
    columns = np.unique(rows, axis=1).T.astype(np.int64)
    most = len(rows).bit_length() - 1
    best, states = 0, 0
    stack: list[tuple[int, int, Ints]] = [(0, 0, np.zeros(len(rows), dtype=np.int64))]
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


# Dimensions of explicit finite classes.
#
# * :func:`vc_dimension`: the most points that show all their labellings.
# * :func:`littlestone_dimension`: the depth of the deepest complete mistake tree, ``L(V) = max over x of 1 + min(L(V0),
#   L(V1))``.
# * :func:`threshold_dimension`: the longest ``c_1, x_1, ..., c_k, x_k`` with ``c_i(x_j) = 1`` iff ``j >= i``.
#
# ``floor(log2 threshold_dimension) <= littlestone_dimension``, and ``vc_dimension <= littlestone_dimension <=
# floor(log2 #concepts)``.  All three are hard in general, so each takes ``max_states``; beyond it
# :class:`~privpac.errors.DimensionLimit` carries bounds that are valid whatever was left out.  (For a class of VC
# dimension 1 the threshold dimension relative to a concept ``f`` is the height of its tree, in linear time:
# ``VC1Tree.from_matrix(M, root=f).height``.)
#
# Classes are public: nothing here sees data.


MAX_STATES = 1 << 20
"""Search states visited at most, unless the caller says otherwise."""


# Reading


def _bitmasks(matrix: object) -> tuple[list[int], list[int]]:
    """Distinct rows, and distinct columns over these rows, as bit masks."""
    table = np.asarray(matrix)
    if table.ndim != 2 or table.shape[0] == 0:
        raise ParameterError(f"a class is a matrix with at least one row (concept), got shape {table.shape}")
    if table.size and (table.dtype.kind not in "biuf" or not bool(np.isin(table, (0, 1)).all())):
        raise ParameterError("a class is a matrix of 0 and 1: rows are concepts, columns are points")
    bits = table.astype(bool)
    rows = list(dict.fromkeys(_mask(row) for row in bits))
    columns = dict.fromkeys(sum(1 << i for i, row in enumerate(rows) if row >> x & 1) for x in range(bits.shape[1]))
    return rows, list(columns)


def _mask(row: Any) -> int:
    return int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little")


def _splitting(rows: list[int], columns: list[int]) -> list[int]:
    """Columns that split the class, one of each complementary pair: which label is called 1 does not matter here."""
    everyone = (1 << len(rows)) - 1
    return list(dict.fromkeys(min(column, everyone ^ column) for column in columns if column not in (0, everyone)))


class _Work:
    """Counts states; the bounds of the error are whatever is known when the limit is reached."""

    def __init__(self, max_states: int, upper: int) -> None:
        self.left, self.lower, self.upper = positive_int(max_states, "max_states"), 0, upper

    def visit(self) -> None:
        if self.left == 0:
            raise DimensionLimit(self.lower, self.upper)
        self.left -= 1


# VC dimension


def vc_dimension(matrix: object, *, max_states: int = MAX_STATES) -> int:
    """The size of the largest set of points whose labels take all patterns.

    >>> vc_dimension([[0, 0], [0, 1], [1, 1]]), vc_dimension([[0, 0], [0, 1], [1, 0], [1, 1]])
    (1, 2)
    """
    rows, columns = _bitmasks(matrix)
    points = _splitting(rows, columns)
    work = _Work(max_states, min(len(points), len(rows).bit_length() - 1))
    _shatter([(1 << len(rows)) - 1], points, 0, work)
    return work.lower


def _shatter(cells: list[int], points: list[int], size: int, work: _Work) -> None:
    """Extend a shattered set whose patterns partition the rows into ``cells``; subsets of shattered sets are
    shattered."""
    work.visit()
    work.lower = max(work.lower, size)
    room = min(cell.bit_count() for cell in cells).bit_length() - 1
    fitting = [x for x in points if all(cell & x and cell & ~x for cell in cells)] if room else []
    for i, x in enumerate(fitting):
        if work.lower == work.upper or size + min(room, len(fitting) - i) <= work.lower:
            return
        _shatter([part for cell in cells for part in (cell & x, cell & ~x)], fitting[i + 1 :], size + 1, work)


# Littlestone dimension


def littlestone_dimension(matrix: object, *, max_states: int = MAX_STATES) -> int:
    """The number of mistakes that every online learner can be forced to make.

    >>> littlestone_dimension([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]])
    2
    """
    rows, columns = _bitmasks(matrix)
    search = _Mistakes(_splitting(rows, columns), _Work(max_states, len(rows).bit_length() - 1))
    everyone, work = (1 << len(rows)) - 1, search.work
    while work.lower < work.upper and search.at_least(everyone, work.lower + 1):
        work.lower += 1
    return work.lower


class _Mistakes:
    """Decides ``L(V) >= d`` with ``lo <= L(V) < hi`` remembered for every set ``V`` of rows met on the way."""

    def __init__(self, points: list[int], work: _Work) -> None:
        self.points, self.work = points, work
        self.lo: dict[int, int] = {}
        self.hi: dict[int, int] = {}

    def at_least(self, rows: int, d: int) -> bool:
        size = rows.bit_count()
        if d <= 1:
            return size > d  # rows are distinct: two of them differ somewhere
        if size < 1 << d or d >= self.hi.get(rows, d + 1):
            return False
        if d <= self.lo.get(rows, 0):
            return True
        self.work.visit()
        for x in self.points:
            ones = rows & x
            few, many = sorted((ones, rows ^ ones), key=int.bit_count)
            if few.bit_count() >= 1 << (d - 1) and self.at_least(few, d - 1) and self.at_least(many, d - 1):
                self.lo[rows] = d
                return True
        self.hi[rows] = d
        return False


# Threshold dimension


def threshold_dimension(matrix: object, *, max_states: int = MAX_STATES) -> int:
    """The longest family of thresholds inside the class: ``c_i(x_j) = 1`` iff ``j >= i``.

    >>> threshold_dimension([[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]])
    3
    """
    rows, columns = _bitmasks(matrix)
    # Over the distinct columns a row has distinct points, and equal columns never both belong to one family.
    across = [sum(1 << x for x, column in enumerate(columns) if column >> i & 1) for i in range(len(rows))]
    search = _Chains(
        across, columns, _Work(max_states, min(len([r for r in rows if r]), len([c for c in columns if c])))
    )
    start, work = ((1 << len(rows)) - 1, (1 << len(columns)) - 1), search.work
    work.lower = search.greedy(*start)
    while work.lower < work.upper and search.at_least(*start, work.lower + 1):
        work.lower += 1
    return work.lower


class _Chains:
    """Decides whether rows ``V`` and points ``U`` hold a family of length ``d``, by a depth-first search without
    recursion.

    After ``(c, x)`` the rest of a family lies in the rows that are 0 on ``x`` and the points where ``c`` is 1.
    """

    def __init__(self, rows: list[int], columns: list[int], work: _Work) -> None:
        self.rows, self.columns, self.work = rows, columns, work
        self.failed: dict[tuple[int, int], int] = {}
        """Least length known to be impossible."""

    def _rest(self, rows: int, points: int, d: int) -> Iterator[tuple[int, int]]:
        held = ((self.rows[i] & points, i) for i in _places(rows))
        for row, _ in sorted(((r, i) for r, i in held if r.bit_count() >= d), key=lambda pair: -pair[0].bit_count()):
            left = {rows & ~self.columns[x] for x in _places(row)}
            for others in sorted((o for o in left if o.bit_count() >= d - 1), key=int.bit_count, reverse=True):
                yield others, row

    def greedy(self, rows: int, points: int) -> int:
        """The length of one family: a start for the search."""
        length = 0
        while (rest := next(self._rest(rows, points, 1), None)) is not None:
            (rows, points), length = rest, length + 1
        return length

    def at_least(self, rows: int, points: int, d: int) -> bool:
        """One success anywhere below makes every state above succeed."""
        stack = [((rows, points), d, self._rest(rows, points, d))]
        while stack:
            state, length, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                self.failed[state] = min(length, self.failed.get(state, length))
                stack.pop()
            elif length == 1:
                return True
            elif self.failed.get(child, length) > length - 1:
                self.work.visit()
                stack.append((child, length - 1, self._rest(*child, length - 1)))
        return False


def _places(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
