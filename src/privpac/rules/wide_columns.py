"""Columns of a wide table in public bins, and the yes-or-no questions about them.

A number has public cuts ``c_1 < ... < c_{B-1}`` and falls into the bin that counts the cuts below it, ``0..B-1``; a
category's bin is its code.  A missing value has the bin after the last, where the column is declared so.  Cuts are
given, or functions of the declared values alone (:func:`equal_edges`, :func:`scale_free_edges`,
:func:`typical_edges`); they are never quantiles of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privpac.arrays import Array
from privpac.data import Domain, Missing, UserData
from privpac.data.columns import column
from privpac.data.domains import own_code
from privpac.data.loops import jit
from privpac.data.schema import Verdict
from privpac.errors import ParameterError, PrivpacError, TooLargeError
from privpac.guarantee import positive_int
from privpac.rules.base import Frozen
from privpac.rules.enumerated import NamedColumns, domains_of
from privpac.rules.export.expression import CodesIn, codes_in
from privpac.rules.profile import Profile, Statistic

if TYPE_CHECKING:
    from privpac.data import Users

Cuts = int | Frozen[int | tuple[Any, ...]]
"""A number of cuts for every column, or a number or list of values for some of them."""

_Bins = NDArray[np.uint16]

_LOOKED_UP = 1 << 16
"""Domains of at most this many codes are binned by a table."""

MOST_BINS = 1 << 15


@frozen(slots=False)
class Test:
    """A question about one column: ``cut`` u holds iff ``u <= bin < B``, ``is`` c iff ``bin == c``."""

    column: int
    kind: Literal["cut", "is"]
    value: int


@frozen(slots=False)
class BinnedColumn:
    """A column, its bins and its tests."""

    name: str
    domain: Domain
    edges: tuple[int, ...]
    """The first code of every bin but the lowest; none for a category."""

    @property
    def is_category(self) -> bool:
        """Whether its values have no order, so that each is a bin and is asked for by name."""
        return not self.domain.ordered

    @property
    def has_missing(self) -> bool:
        return own_code(self.domain) is not None

    @property
    def bins(self) -> int:
        """Bins of values that are there."""
        return self.domain.present.size if self.is_category else len(self.edges) + 1

    @property
    def width(self) -> int:
        """All bins, that of missing values included."""
        return self.bins + self.has_missing

    @cached_property
    def tests(self) -> tuple[tuple[Literal["cut", "is"], int], ...]:
        """Kind and value of every test, in order."""
        if self.is_category:
            return tuple(("is", c) for c in range(1 if self.width == 2 else 0, self.width))
        found: list[tuple[Literal["cut", "is"], int]] = [("cut", u) for u in range(1, self.bins)]
        if self.has_missing:
            found.append(("is", self.bins))
        return tuple(found)

    # Values

    def bin_codes(self, codes: NDArray[np.uint64], out: _Bins) -> None:
        """The bin of every code."""
        table = self._table
        if table is not None:
            _looked_up(codes, table, out)
        else:
            own = own_code(self.domain)
            _searched(codes, self._starts, own is not None, np.uint64(own or 0), np.uint16(self.bins), out)

    @cached_property
    def _starts(self) -> NDArray[np.uint64]:
        return np.array(self.edges, dtype=np.uint64)

    @cached_property
    def _table(self) -> _Bins | None:
        if self.domain.size > _LOOKED_UP:
            return None
        codes = np.arange(self.domain.size, dtype=np.uint64)
        if self.is_category:
            return codes.astype(np.uint16)
        found = np.searchsorted(self._starts, codes, side="right").astype(np.uint16)
        own = own_code(self.domain)
        if own is not None:
            found[own] = self.bins
        return found

    def holds(self, test: tuple[str, int], codes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Where a test of this column holds."""
        found = np.empty(len(codes), dtype=np.uint16)
        self.bin_codes(np.ascontiguousarray(codes), found)
        kind, value = test
        return found == value if kind == "is" else (found >= value) & (found < self.bins)

    def expression(self, first: int, last: int) -> CodesIn:
        """The bin of a code lies between two bins that hold values, or both are the bin of missing values."""
        own = own_code(self.domain)
        if first == self.bins and own is not None:
            return codes_in(self.name, own, own)
        if self.is_category:
            return codes_in(self.name, first, last)
        highest = self.domain.present.value_range()[1]
        return codes_in(
            self.name,
            self.edges[first - 1] if first else 0,
            self.edges[last] - 1 if last < len(self.edges) else highest,
        )

    def of_tests(self, weights: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
        """Weights of bins along an axis as weights of tests: what lies where each test holds."""
        moved = np.moveaxis(weights, axis, 0)
        if self.is_category:
            found = moved[1:] if self.width == 2 else moved
        else:
            above = np.cumsum(moved[self.bins - 1 : 0 : -1], axis=0, dtype=np.int64)[::-1]
            found = np.concatenate([above, moved[self.bins :]])
        return np.moveaxis(found, 0, axis)

    # Words

    def says(self, test: tuple[str, int]) -> str:
        """A test in the user's units."""
        kind, value = test
        values = self.domain.present
        if kind == "cut":
            return f"{self.name} > {values.text(self.edges[value - 1] - 1)}"
        return f"{self.name} is {values.text(value) if value < self.bins else 'missing'}"

    def decides(self, asked: tuple[str, int], answer: bool, other: tuple[str, int]) -> bool | None:
        """What is known of another test of this column once one is answered; None where it is open."""
        at = np.arange(self.width)
        held = _holds(asked, at, self.bins) == answer
        also = _holds(other, at, self.bins)[held]
        return None if not len(also) or also.min() != also.max() else bool(also[0])

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "domain": self.domain.to_dict(), "edges": [str(edge) for edge in self.edges]}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> BinnedColumn:
        column = BinnedColumn(
            str(values["name"]), Domain.from_dict(values["domain"]), tuple(int(edge) for edge in values["edges"])
        )
        inner = column.domain.present
        ends = [0, *column.edges, inner.size]
        if column.width > MOST_BINS or any(a >= b for a, b in pairwise(ends)) or (column.is_category and column.edges):
            raise ParameterError(f"the bins of column {column.name!r} must increase within its domain")
        return column


def _holds(test: tuple[str, int], bins: Array, count: int) -> NDArray[np.bool_]:
    kind, value = test
    return bins == value if kind == "is" else (bins >= value) & (bins < count)


@jit
def _looked_up(codes: Array, table: Array, out: Array) -> None:
    for r in range(len(codes)):
        out[r] = table[codes[r]]


@jit
def _searched(codes: Array, starts: Array, has_own: bool, own: object, bins: object, out: Array) -> None:
    """The number of starts at or below each code."""
    for r in range(len(codes)):
        code = codes[r]
        low, high = 0, len(starts)
        while low < high:
            middle = (low + high) >> 1
            if starts[middle] <= code:
                low = middle + 1
            else:
                high = middle
        out[r] = bins if has_own and code == own else low


# Reading parameters


def read_cuts(cuts: object) -> Cuts:
    """``cuts`` as a number for all columns, or a number or list of values per column."""
    if not isinstance(cuts, Mapping):
        return positive_int(cuts, "cuts", maximum=MOST_BINS - 2)
    pairs: list[tuple[str, int | tuple[Any, ...]]] = []
    for name, value in cuts.items():
        if not isinstance(name, str):
            raise TypeError(f"cuts: a column name must be text, got {type(name).__name__}")
        listed = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        pairs.append((name, tuple(value) if listed else positive_int(value, f"cuts[{name!r}]", maximum=MOST_BINS - 2)))
    return Frozen(tuple(pairs))


def read_missing(missing: Any) -> str | tuple[str, ...] | None:
    """Which columns have a bin for missing values: ``"own"`` for all, or a list of names; None leaves it to the
    domains."""
    if missing is None or missing == "own":
        return missing  # type: ignore[no-any-return]
    if isinstance(missing, str) or not isinstance(missing, Iterable):
        raise ParameterError(f"missing must be 'own', a list of columns or None, got {missing!r}")
    names = tuple(missing)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("missing must name columns by text")
    return names


DEFAULT_CUTS = 15


# Public edges: the first codes of the bins above the lowest, of ``size`` codes in the order of values
#
# A learner is private for any edges that do not depend on the data.  These are functions of the declaration alone.


def equal_edges(size: int, bins: int) -> tuple[int, ...]:
    """Edge ``u`` of ``B - 1`` at ``ceil(u size / B)``, for ``B`` the smaller of ``size`` and ``bins``.

    >>> equal_edges(100, 4), equal_edges(3, 16)
    ((25, 50, 75), (1, 2))
    """
    count = min(size, bins)
    return tuple(-(-u * size // count) for u in range(1, count))


OCTAVES = 20
"""How often the distance from the anchor is halved: edges reach down to a millionth of the range."""


def scale_free_edges(size: int, anchor: int, bins: int, steps: int) -> tuple[int, ...]:
    """The equal edges, and ``steps`` more in every octave of the distance from the code ``anchor``, on both sides.

    A range declared ten times too wide keeps nearly all edges among the values that occur.  Edges for ``steps`` 1, 2, 4
    and 8 are nested.

    >>> scale_free_edges(1000, 0, 2, 1)
    (1, 2, 4, 8, 16, 32, 63, 125, 250, 500)
    """
    found = set(equal_edges(size, bins))
    if size <= bins:
        return tuple(sorted(found))
    for length, up in ((size - anchor, True), (anchor, False)):
        if length < 2:
            continue
        for octave in range(OCTAVES):
            for m in range(steps, 2 * steps):
                distance = -(-length * m // (2 * steps << octave))
                found.add(anchor + distance if up else anchor - distance + 1)
    return tuple(sorted(edge for edge in found if 1 <= edge < size))


def typical_edges(size: int, typical: tuple[int, int], bins: int) -> tuple[int, ...]:
    """``bins - 2`` equal bins of the codes of a typical range, and one bin on each side of it; of two bins the edge is
    in the middle of the range.

    >>> typical_edges(1000, (100, 199), 6), typical_edges(1000, (100, 199), 2)
    ((100, 125, 150, 175, 200), (150,))
    """
    low, high = typical
    width = high - low + 1
    if size <= bins:
        return equal_edges(size, bins)
    count = min(bins - 2, width)
    edges = [low - (-u * width // count) for u in range(count + 1)] if count else [low + width // 2]
    return tuple(edge for edge in edges if 1 <= edge < size) or equal_edges(size, bins)


def binned(
    columns: Mapping[str, Domain],
    cuts: Cuts = DEFAULT_CUTS,
    missing: str | tuple[str, ...] | None = None,
    steps: int = 0,
) -> tuple[BinnedColumn, ...]:
    """Columns with their bins, from public declarations alone; ``steps`` in an octave, 0 for equal bins."""
    for what, names in (("cuts", () if isinstance(cuts, int) else tuple(cuts)), ("missing", missing)):
        unknown = [name for name in (names if isinstance(names, tuple) else ()) if name not in columns]
        if unknown:
            raise ParameterError(f"{what} names the columns {unknown}, which are not among {list(columns)}")
    found: list[BinnedColumn] = []
    for name, domain in columns.items():
        if domain.open:
            raise ParameterError(f"column {name!r} is an open vocabulary; declare Categories([...])")
        own = missing == "own" or (isinstance(missing, tuple) and name in missing)
        declared = Missing(domain.present, "own") if own else domain
        wanted = cuts if isinstance(cuts, int) else cuts.get(name, DEFAULT_CUTS)
        column = BinnedColumn(name, declared, _edges(name, domain.present, wanted, steps))
        if not column.tests:
            raise ParameterError(f"column {name!r} has one value only, so there is nothing to ask about it; drop it")
        if column.width > MOST_BINS:
            raise ParameterError(f"column {name!r} has {column.width} values; at most {MOST_BINS} are taken")
        found.append(column)
    return tuple(found)


def _edges(name: str, domain: Domain, wanted: int | tuple[object, ...], steps: int) -> tuple[int, ...]:
    """The first codes of the bins above the lowest: a list wins, then a typical range."""
    if not domain.ordered:
        if isinstance(wanted, tuple):
            raise ParameterError(
                f"column {name!r} has unordered categories, which are not cut; leave it out of cuts, or write "
                "Categories([...], ordered=True) if their order means something"
            )
        return ()
    if isinstance(wanted, tuple):
        return _listed(name, domain, wanted)
    if not domain.bounded:
        raise ParameterError(
            f"column {name!r} may hold every number, so its cuts must be public: cuts={{{name!r}: [...]}}, or declare "
            "a domain such as Grid(0, 10, 0.1)"
        )
    typical, anchor = domain.typical_codes(), domain.anchor()
    if typical is not None:
        return typical_edges(domain.size, typical, wanted + 1)
    if steps and anchor is not None:
        return scale_free_edges(domain.size, anchor, wanted + 1, steps)
    return equal_edges(domain.size, wanted + 1)


def _listed(name: str, domain: Domain, values: tuple[object, ...]) -> tuple[int, ...]:
    """``x > c`` holds from the code after that of ``c`` on; between two values it is that of the one below."""
    message = f"cuts of column {name!r} must increase and lie within its domain: {domain.describe()}"
    try:
        codes, verdicts = domain.read(column(list(values), name), name)
    except PrivpacError:
        raise ParameterError(message) from None
    _, highest = domain.value_range()
    edges = tuple(code + 1 for code in codes.tolist())
    good = verdicts is None or bool(np.isin(verdicts, (Verdict.GOOD, Verdict.OFF)).all())
    if not good or any(edge > highest for edge in edges) or any(a >= b for a, b in pairwise(edges)):
        raise ParameterError(message)
    if len(edges) > MOST_BINS - 2:
        raise ParameterError(f"column {name!r} has {len(edges)} cuts; at most {MOST_BINS - 2} are taken")
    return edges


# What small trees and scorecards share: columns in public bins, bound to data, and rules that are not scored one by
# one.


_MOST_LABELS = 64


def read_classes(classes: object) -> tuple[str, ...] | None:
    """The labels, where there are more than two; None leaves them to the data."""
    if classes is None:
        return None
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must list the labels, got {type(classes).__name__}")
    names = tuple(str(name) for name in classes)
    if not 2 <= len(names) <= _MOST_LABELS or len(set(names)) < len(names):
        raise ParameterError(f"classes must be 2 to {_MOST_LABELS} different labels, got {len(names)}")
    return names


class WideClass(NamedColumns):
    """A class over binned columns; its subclasses are frozen ``attrs`` classes that declare the four fields below."""

    columns: Frozen[Domain | None] | None
    cuts: Cuts
    missing: str | tuple[str, ...] | None
    classes: tuple[str, ...] | None

    columns_in: ClassVar[str] = "columns"
    takes_missing: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True

    @property
    def scored(self) -> bool:
        """Its rules are never laid out one by one."""
        return False

    # Columns

    @cached_property
    def binned(self) -> tuple[BinnedColumn, ...]:
        """The columns with their bins."""
        return self._binned()

    def _binned(self, steps: int = 0) -> tuple[BinnedColumn, ...]:
        if self.columns is None:
            raise ParameterError(
                f"this class has no columns yet: {type(self).__name__}({{'age': Integers(0, 120)}}), or bind it to data"
            )
        return binned(domains_of(self.columns), self.cuts, self.missing, steps)

    def counted(self, name: str) -> int | None:
        """How many cuts a column may have; None where they are listed."""
        wanted = self.cuts if isinstance(self.cuts, int) else self.cuts.get(name, DEFAULT_CUTS)
        return wanted if isinstance(wanted, int) else None

    def _own(self, name: str) -> bool:
        return self.missing == "own" or (isinstance(self.missing, tuple) and name in self.missing)

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {
            name: Missing(domain.present, "own") if domain is not None and self._own(name) else domain
            for name, domain in (self.columns or {}).items()
        }

    def bind(self, users: Users) -> tuple[Self, Users]:
        if self.columns is None:
            return self.with_columns(dict.fromkeys(users.features)).bind(users)  # type: ignore[arg-type]
        # Data that were bound without missing values have the same codes, only none of the last.
        told = {
            name: None if domain is not None and domain.present == users.features.get(name) else domain
            for name, domain in self.columns.items()
        }
        asked = self.with_columns(told) if told != dict(self.columns) else self  # type: ignore[arg-type]
        return super(WideClass, asked._labelled(users)).bind(users)

    @property
    def labels(self) -> int:
        return 2 if self.classes is None else len(self.classes)

    def _labelled(self, users: Users) -> Self:
        """The class with the labels that the data declare."""
        declared = tuple(getattr(users, "classes", ()))
        if len(declared) <= 2 and self.labels == 2:
            return self
        if self.classes not in (None, declared):
            raise ParameterError(
                "classes are declared twice, in the data and in the rules, and differ; declare them in the data alone"
                if declared
                else "declare the classes in the data too: UserData.from_frame(..., classes=[...])"
            )
        return evolve(self, classes=declared)  # type: ignore[misc]

    # What cannot be done rule by rule

    def _refuse(self) -> NoReturn:
        raise TooLargeError(f"rules of {type(self).__name__} are not scored one by one; use method={self.own_method!r}")

    def empty_profile(self) -> Profile:
        self._refuse()

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        self._refuse()
