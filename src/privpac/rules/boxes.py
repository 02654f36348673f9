"""Products of runs of cells: boxes, conjunctions and disjunctions are one class with one kernel.

Column ``j`` is cut into ``K_j`` public cells and has a public list of *selectors*, each a run ``first..last`` of cells.
A rule picks one selector per column; a point is inside if every column's cell is selected.  Rule 0 has nothing inside,
rule ``1 + r`` has the selectors that are the digits of ``r`` (first column most significant).  With ``outside=True`` a
rule says 1 outside instead (disjunctions, by De Morgan).

Kernel.  The last columns, as few as make lines of ``_LINE`` products of selectors, have a 0/1 table of their cells by
these products: a user's signed counts add lines of it into a table of the first columns' cells.  Then, first columns
one by one, prefix sums along the cells turn an axis of cells into an axis of selectors.  These are in order of length
there: those of one length that begin at neighbouring cells are a *band*, the difference of two stretches of prefix
sums.  The last step writes the sum inside of every rule by one vector subtraction per band, so a user costs O(size)
whatever the number of records, and the user's own minimum is over the whole class.

A score that is linear in mistakes (no offset, no cap below the number of records, and one that divides the levels) is a
sum over users that needs no user by user: ``sum of slope * (e - b)`` is the mistakes, so weighted, of all their records
together, less the sum of ``slope * b``.  Their counts are added first and turned into rules once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Bytes, Ints
from privpac.data import Domain, Integers, UserData
from privpac.data.loops import jit
from privpac.errors import ParameterError
from privpac.parameters import truth
from privpac.result import WideInt
from privpac.rules.base import ByAgreement, ColumnCodes, Frozen, Predictions, Rule
from privpac.rules.cuts import listed_condition, need_order
from privpac.rules.enumerated import (
    Cells,
    EnumeratedClass,
    NamedColumns,
    cells_at,
    checked_cuts,
    domains_of,
    even_cells,
    limited,
    named_domains,
)
from privpac.rules.export.expression import AllOf, AnyOf, Expression, codes_in
from privpac.rules.intervals import interval_mistakes
from privpac.rules.kernels import Bundle
from privpac.rules.kernels.grouped import (
    MOST_RECORDS,
    add_contributions,
    charge,
    extremes,
    group_equal_users,
    holds,
    settle,
    shared,
    terms,
)
from privpac.rules.profile import Profile, Statistic, dense_profile

_LINE, _LARGEST = 64, 1 << 24


class _Shape(NamedTuple):
    """A cell's line among those of the first columns and its row of ``table``, which the last columns have; per first
    column the numbers of cells and of selectors, and where its bands begin; of each band the first cell of its first
    run, the length of its runs and their number."""

    line: Ints
    row: Ints
    table: Bytes
    cells: Ints
    selectors: Ints
    begins: Ints
    bands: Ints


@jit
def _lines(lines: Array, k: int, n: int, width: int) -> Any:
    return lines[k * width : (k + n) * width]


@jit
def _expand(
    source: Array, target: Array, sums: Array, outer: int, cells: int, width: int, base: object, bands: Array
) -> None:
    """``(outer, cells)`` lines summed over the selected cells, plus ``base``: ``(outer, selectors)`` lines."""
    sums[:width] = 0
    done = 0
    for x in range(outer):
        for k in range(cells):
            line, above, here = (
                _lines(source, x * cells + k, 1, width),
                _lines(sums, k, 1, width),
                _lines(sums, k + 1, 1, width),
            )
            for r in range(width):
                here[r] = above[r] + line[r]
        for band in range(len(bands)):
            first, length, n = bands[band, 0], bands[band, 1], bands[band, 2]
            out, top, low = (
                _lines(target, done, n, width),
                _lines(sums, first + length, n, width),
                _lines(sums, first, n, width),
            )
            for r in range(n * width):
                out[r] = top[r] - low[r] + base
            done += n


@jit
def _mistakes(
    row: Array, room: Array, shape: Bundle, places: Array, weights: Array, start: int, end: int, base: object
) -> None:
    """``base`` plus the weights inside of every rule, in the type of ``row``.

    ``room`` has three rows of twice its length: a column has at least as many selectors as cells, so that neither its
    lines nor their prefix sums, one more, need more.
    """
    at, which, table, cells, selectors, begins, bands = shape
    width, columns = table.shape[1], len(cells)
    outer = 1
    for j in range(columns):
        outer *= cells[j]
    source, target, sums = room[0], room[1], room[2]
    source[: outer * width] = 0
    nothing = row.dtype.type(0)
    for k in range(start, end):
        weight = row.dtype.type(weights[k])
        line, out = table[which[places[k]]], _lines(source, at[places[k]], 1, width)
        for r in range(width):
            out[r] += weight if line[r] else nothing
    for j in range(columns - 1, -1, -1):
        outer //= cells[j]
        if j == 0:
            target = row[1:]
        more = base if j == 0 else nothing
        _expand(source, target, sums, outer, cells[j], width, more, bands[begins[j] : begins[j + 1]])
        width *= selectors[j]
        source, target = target, source
    row[0] = base


@jit
def _scores(
    first: int,
    last: int,
    scores: Array,
    groups: Bundle,
    offset: Array,
    cap: Array,
    levels: int,
    uses_minimum: bool,
    own: Array,
    slope: Array,
    shape: Bundle,
) -> None:
    """Add the contributions of the distinct users ``first..last - 1``, but for those that have a slope."""
    starts, ends, places, weights, ones, sizes, times = groups
    size = scores.shape[1]
    bytes_row, bytes_room = np.empty(size, np.uint8), np.empty((3, 2 * size), np.uint8)
    # Counts of users with more records than a byte holds are rare: room for them is made when one comes.
    row, room = np.empty(0, np.int32), np.empty((3, 0), np.int32)
    values, held = np.empty(MOST_RECORDS + 1, dtype=np.int64), holds(len(scores), size)
    for i in range(first, last):
        m, base = sizes[i], ones[i]
        if m <= MOST_RECORDS:
            _mistakes(bytes_row, bytes_room, shape, places, weights, starts[i], ends[i], np.uint8(base))
            own[0, i], own[1, i] = extremes(bytes_row)
            least = own[0, i] if uses_minimum else 0
            charge(bytes_row, least, m, offset[i], cap[:, i], levels, times[i], slope[:, i], values, held, scores)
        else:
            if len(row) < size:
                row, room = np.empty(size, np.int32), np.empty((3, 2 * size), np.int32)
            if len(values) <= m:
                values = np.empty(2 * m + 1, dtype=np.int64)
            _mistakes(row, room, shape, places, weights, starts[i], ends[i], np.int32(base))
            own[0, i], own[1, i] = extremes(row)
            least = own[0, i] if uses_minimum else 0
            add_contributions(row, least, m, offset[i], cap[:, i], levels, times[i], values, scores)
    settle(held, scores)


@jit
def _pool(groups: Bundle, slope: Array, sums: Array) -> None:
    """Signed counts of every cell, each user's times multiplicity and slope; one row a score."""
    starts, ends, places, weights, _, sizes, times = groups
    for i in range(len(sizes)):
        for v in range(len(slope)):
            worth = slope[v, i] * times[i]
            if worth:
                for k in range(starts[i], ends[i]):
                    sums[v, places[k]] += worth * weights[k]


@jit
def _expand_pool(sums: Array, bases: Array, shape: Bundle, scores: Array) -> None:
    """Add the mistakes of all pooled records to the scores."""
    places = np.arange(sums.shape[1])
    size = scores.shape[1]
    row, room = np.empty(size, np.int64), np.empty((3, 2 * size), np.int64)
    for v in range(len(sums)):
        _mistakes(row, room, shape, places, sums[v], 0, len(places), bases[v])
        for h in range(len(row)):
            scores[v, h] += row[h]


def _by_length(firsts: Ints, lasts: Ints) -> NDArray[np.intp]:
    """The order of a column's selectors in the kernel."""
    return np.lexsort((firsts, lasts - firsts))


def _bands(firsts: Ints, lasts: Ints) -> Ints:
    order = _by_length(firsts, lasts)
    begin, length = firsts[order], (lasts - firsts)[order] + 1
    new = np.flatnonzero(np.concatenate([[True], (np.diff(length) != 0) | (np.diff(begin) != 1)]))
    return np.stack([begin[new], length[new], np.diff([*new, len(order)])], axis=1)


class ProductClass(NamedColumns, EnumeratedClass):
    """A class of products of selectors: boxes, conjunctions and disjunctions differ in their cells and runs alone."""

    outside: ClassVar[bool] = False

    @property
    @abstractmethod
    def _cells(self) -> Mapping[str, Cells]:
        """The columns in order, cut into cells."""

    @property
    @abstractmethod
    def _selectors(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Runs ``(first cell, last cell)`` per column; at least as many as cells."""

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        return tuple(cells.count for cells in self._cells.values())

    @property
    def size(self) -> int:
        return 1 + prod(len(runs) for runs in self._selectors)

    @property
    def vc_dimension(self) -> int:
        """Exact: see :func:`box_dimension`."""
        return box_dimension(self._counts)

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    @cached_property
    def _runs(self) -> tuple[tuple[Ints, Ints], ...]:
        pairs = [np.array(runs, dtype=np.int64).reshape(-1, 2) for runs in self._selectors]
        return tuple((np.ascontiguousarray(p[:, 0]), np.ascontiguousarray(p[:, 1])) for p in pairs)

    def digits(self, hypothesis: int) -> tuple[int, ...] | None:
        """The selector of every column, None for rule 0."""
        rest = self.checked(hypothesis) - 1
        if rest < 0:
            return None
        out: list[int] = []
        for runs in reversed(self._selectors):
            rest, digit = divmod(rest, len(runs))
            out.append(digit)
        return tuple(reversed(out))

    def table(self, codes: ColumnCodes, first: int, last: int) -> Bytes:
        ids = np.arange(first, last, dtype=np.int64)
        rest = np.maximum(ids - 1, 0)
        inside = np.broadcast_to(ids > 0, (len(codes[next(iter(self._cells))]), len(ids))).copy()
        for (name, cells), (firsts, lasts) in reversed(list(zip(self._cells.items(), self._runs))):
            rest, digit = np.divmod(rest, len(firsts))
            cell = cells.index(codes[name])[:, None]
            inside &= (firsts[digit] <= cell) & (cell <= lasts[digit])
        return (~inside if self.outside else inside).astype(np.uint8)

    @cached_property
    def _shape(self) -> _Shape:
        counts, runs, columns, size = list(self._counts), list(self._runs), len(self._counts), 1
        while columns and size < _LINE:
            columns -= 1
            size *= len(runs[columns][0])
        if prod(counts[columns:]) * size > _LARGEST:  # one column of very many cells
            columns = len(counts)
        table = np.ones((1, 1), dtype=np.uint8)
        for count, (firsts, lasts) in zip(counts[columns:], runs[columns:]):
            cell = np.arange(count)[:, None]
            table = np.kron(table, ((firsts <= cell) & (cell <= lasts)).astype(np.uint8))
        line, row = np.divmod(np.arange(prod(counts)), len(table))
        counts, runs = counts[:columns], runs[:columns]
        if not columns:  # at least one, of one cell
            counts, runs = [1], [(np.zeros(1, np.int64), np.zeros(1, np.int64))]
        bands = [_bands(*run) for run in runs]
        begins = np.cumsum([0, *map(len, bands)])
        selectors = np.array([len(firsts) for firsts, _ in runs])
        return _Shape(line, row, table, np.array(counts), selectors, begins, np.concatenate(bands))

    def _in_order(self, scores: Ints) -> Ints:
        """Scores by id, from those in the order of the kernel."""
        columns = len(self._shape.selectors)
        boxes = scores[:, 1:].reshape(len(scores), *self._shape.selectors, -1)
        for axis, run in enumerate(self._runs[:columns], 1):
            if boxes.shape[axis] > 1:  # not the column that stands for none
                boxes = np.take(boxes, np.argsort(_by_length(*run)), axis=axis)
        return np.concatenate([scores[:, :1], boxes.reshape(len(scores), -1)], axis=1)

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        place = np.zeros(len(users.labels), dtype=np.int64)
        for name, cells in self._cells.items():
            place *= cells.count
            place += cells.index(users.codes[name])
        # A rule that says 1 outside is wrong where its inside is wrong about the opposite labels.
        labels = users.labels ^ np.uint8(self.outside)
        groups = group_equal_users(place.view(np.uint64), labels, users.offsets, prod(self._counts))
        del place
        term, packed, shape = terms(groups, statistic), tuple(groups), tuple(self._shape)
        # What one mistake is worth, one row a score; 0 for users whose contribution is not linear or who are tallied.
        linear = (term.offset == 0) & (groups.sizes <= np.minimum(term.cap, MOST_RECORDS))
        slope: Ints = np.where(linear & (term.levels % term.cap == 0), term.levels // term.cap, 0)
        scores = shared(groups, term, self.size, lambda a, b, out: _scores(a, b, out, packed, *term, slope, shape))
        if slope.any():
            pooled = np.zeros((len(slope), prod(self._counts)), dtype=np.int64)
            _pool(packed, slope, pooled)
            bases = (slope * (groups.times * (groups.ones - term.own[0] * term.uses_minimum))).sum(axis=1)
            _expand_pool(pooled, bases, shape, scores)
        return dense_profile(self._in_order(scores), statistic.optimism(groups.sizes, term.own, groups.times))


def box_dimension(counts: tuple[int, ...]) -> int:
    """VC dimension of all boxes on a grid of ``counts`` cells, the empty box included; exact.

    In a shattered set every point is the only lowest or the only highest one along some column.  A column of two cells
    with both an only lowest and an only highest point leaves room for no third point, so a set of three or more has at
    most ``2a + b`` points, with ``a`` columns of three or more cells and ``b`` of two.  The middle cell moved one step
    either way along the former, and one step along the latter, reach that number; two cells of one column, or one cell
    at all, are always shattered.
    """
    a, b = sum(count > 2 for count in counts), sum(count == 2 for count in counts)
    return max(2, 2 * a + b) if a + b else 1


# Boxes: "1 iff 40 <= x <= 60 and y <= 7", on public grids.
#
# Every column is cut into a few public cells (runs of codes that depend on the declared domain and on ``cuts`` only); a
# rule is a closed box of cells, and the empty box is there once.  Work and memory grow with the number of boxes, the
# product of ``K (K + 1) / 2`` over columns of ``K`` cells, which may not exceed ``SIZE_LIMIT``.  For ``Mean`` and
# ``Regret`` a user's own minimum is taken over the whole class, empty box included.


_DEFAULT_CUTS = 16
DEFAULT_SIZE = 1 << 16
"""Without ``cuts``: the most cells per column, at most ``DEFAULT_CUTS``, that keep the class within ``DEFAULT_SIZE``
rules."""


@frozen(slots=False, repr=False)
class Box(Rule):
    """1 iff every column's code lies between its bounds, both included; ``bounds=None`` is the empty box."""

    saved_as: ClassVar[str] = "box"
    columns: Frozen[Domain]
    bounds: tuple[tuple[WideInt, WideInt], ...] | None
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        if self.bounds is None:
            return
        if len(self.bounds) != len(self.columns):
            raise ParameterError(f"a box on {len(self.columns)} columns needs as many bounds, got {len(self.bounds)}")
        for domain, (low, high) in zip(self.columns.values(), self.bounds):
            if not 0 <= low <= high < domain.size:
                raise ParameterError(f"bounds must satisfy 0 <= low <= high < {domain.size}, got {low}, {high}")

    def _sides(self) -> list[tuple[str, int, int]]:
        """The bounds that exclude something."""
        pairs = zip(self.columns.items(), self.bounds or ())
        return [(name, low, high) for (name, domain), (low, high) in pairs if low > 0 or high < domain.size - 1]

    @property
    def reads(self) -> Sequence[str]:
        return tuple(name for name, _, _ in self._sides()) or tuple(self.columns)[:1]

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        inside = np.full(len(codes[self.reads[0]]), self.bounds is not None)
        for name, low, high in self._sides():
            inside &= (codes[name] >= np.uint64(low)) & (codes[name] <= np.uint64(high))
        return inside.astype(np.int8)

    def edges(self, column: str) -> tuple[int, ...]:
        return () if self.bounds is None else self.bounds[list(self.columns).index(column)]

    def expression(self) -> Expression:
        return self.bounds is not None and AllOf(codes_in(*side) for side in self._sides())

    def condition(self) -> str:
        if self.bounds is None:
            return "never"
        sides = (_side(name, self.columns[name], low, high) for name, low, high in self._sides())
        return " and ".join(side for side in sides if side) or "always"


def _side(name: str, domain: Domain, low: int, high: int) -> str:
    """One column's bounds in the user's units, empty if they exclude nothing."""
    lowest, highest = domain.value_range()
    if low <= lowest and high >= highest:
        return ""
    if not domain.ordered:
        return listed_condition(name, domain, low, high)
    if low == high:
        return f"{name} = {domain.text(low)}"
    if low <= lowest:
        return f"{name} <= {domain.text(high)}"
    return (
        f"{name} >= {domain.text(low)}" if high >= highest else f"{domain.text(low)} <= {name} <= {domain.text(high)}"
    )


@frozen(slots=False, init=False)
class Rectangles(ProductClass):
    """All boxes on a public grid of cells.

    ``domains`` maps columns to domains (or lists names whose domains the data declare).  ``cuts`` is the number of
    cells of every column, or a mapping to a number or to the increasing values at which a new cell begins; a column
    with fewer values than cells has one cell per value.  Id 0 is the empty box; then the first column's run of cells
    varies slowest, and runs ``first..last`` come in lexicographic order.

    Parameters
    ----------
    domains : mapping of names to domains, or names, optional
        The columns; None takes every feature of the data.
    cuts : int or mapping, optional
        Cells of every column, as above.

    Raises
    ------
    ParameterError
        A column has no order, or there are too many boxes to count.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> boxes = Rectangles({"age": Integers(0, 99), "dose": Integers(1, 4)}, cuts={"age": [18, 65], "dose": 4})
    >>> boxes.size, str(boxes.decode(1 + 3 * 10 + 6, label="event"))
    (61, 'event when 18 <= age <= 64 and dose >= 2')
    """

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {"rectangle": {}}

    domains: Frozen[Domain | None]
    cuts: int | Frozen[int | tuple[Any, ...]] | None

    def __init__(
        self,
        domains: Mapping[str, Domain | None] | Sequence[str] | None = None,
        cuts: int | Mapping[str, int | Sequence[object]] | None = None,
    ) -> None:
        columns = named_domains(domains, "domains")
        for name, domain in columns.items():
            need_order(name, domain)
        self.__attrs_init__(columns, checked_cuts(cuts, columns))
        if columns and all(domain is not None for domain in columns.values()):
            counts = [cells.count for cells in self._cells.values()]
            boxes = 1 + prod(count * (count + 1) // 2 for count in counts)
            limited(
                boxes,
                f"Rectangles on {counts} cells",
                "choose fewer cuts, a coarser Grid(lo, hi, step), or fewer columns",
            )

    @cached_property
    def _cells(self) -> dict[str, Cells]:
        wanted: dict[str, Any] = dict(self.cuts) if isinstance(self.cuts, Mapping) else {}
        fixed: dict[str, Cells] = {}
        for name, domain in self._columns.items():
            cut = self.cuts if isinstance(self.cuts, int) else wanted.get(name)
            if cut is not None:
                fixed[name] = even_cells(domain, cut) if isinstance(cut, int) else cells_at(domain, cut, name)
        free = {name: domain for name, domain in self._columns.items() if name not in fixed}
        for count in range(_DEFAULT_CUTS, 1, -1):
            cells = fixed | {name: even_cells(domain, count) for name, domain in free.items()}
            if 1 + prod(c.count * (c.count + 1) // 2 for c in cells.values()) <= DEFAULT_SIZE:
                break
        return {name: cells[name] for name in self._columns}

    @cached_property
    def _selectors(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        return tuple(tuple((a, b) for a in range(count) for b in range(a, count)) for count in self._counts)

    @property
    def mistake_tree_depth(self) -> int:
        """Column by column."""
        return sum(interval_mistakes(count) for count in self._counts)

    def decode(self, hypothesis: int, label: str = "1") -> Box:
        digits = self.digits(hypothesis)
        if digits is None:
            return Box(self._columns, None, label)
        runs = zip(self._cells.values(), self._selectors, digits)
        return Box(self._columns, tuple(cells.codes(*selectors[digit]) for cells, selectors, digit in runs), label)


# Conjunctions and disjunctions of yes/no columns: "1 iff a and not b", "1 iff a or not b".
#
# A column has two values; its second one (code 1) is "yes".  Each column is absent, required or negated
# (``negations=False``: absent or required), so contradictions do not arise, and no two of these rules predict alike.
# The constant that this leaves out, "never" for conjunctions and "always" for disjunctions, is there once, as id 0:
# ``3**d + 1`` or ``2**d + 1`` rules.  A disjunction is the complement of the conjunction of the opposite literals, so
# both run on the kernel of ``products``; a user's own minimum is over the whole class.


_PLAIN = {("0", "1"), ("false", "true"), ("no", "yes"), ("n", "y")}


def literal(name: str, domain: Domain, value: int) -> str:
    """``a`` / ``not a`` where the two values read as no and yes, else ``a = value``."""
    if (domain.text(0).lower(), domain.text(1).lower()) in _PLAIN:
        return name if value else f"not {name}"
    return f"{name} = {domain.text(value)}"


def yes_no_columns(features: object) -> Frozen[Domain | None]:
    """Columns whose declared domains have two values."""
    columns = named_domains(features, "features")
    for name, domain in columns.items():
        if domain is not None and domain.size != 2:
            raise ParameterError(
                f"features[{name!r}] must have two values, such as Integers(0, 1) or Categories(['no', 'yes']); it has "
                f"{domain.size}"
            )
    return columns


@frozen(slots=False, repr=False)
class _Literals(Rule):
    """Required codes per column (None: absent): all of them together, or any (``some``); ``values=None`` is the
    constant that no literals give."""

    columns: Frozen[Domain]
    values: tuple[int | None, ...] | None
    label: str = "1"

    some: ClassVar[bool]

    def __attrs_post_init__(self) -> None:
        if self.values is None:
            return
        if len(self.values) != len(self.columns) or any(value not in (None, 0, 1) for value in self.values):
            raise ParameterError("a rule on yes/no columns needs 0, 1 or None for each of them")
        if any(domain.size != 2 for domain in self.columns.values()):
            raise ParameterError("a rule on yes/no columns needs domains of two values")

    def _literals(self) -> list[tuple[str, int]]:
        return [(name, value) for name, value in zip(self.columns, self.values or ()) if value is not None]

    @property
    def reads(self) -> Sequence[str]:
        return tuple(name for name, _ in self._literals()) or tuple(self.columns)[:1]

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        out = np.full(len(codes[self.reads[0]]), (self.values is None) == self.some)
        for name, value in self._literals():
            held = codes[name] == value
            out = out | held if self.some else out & held
        return out.astype(np.int8)

    def expression(self) -> Expression:
        if self.values is None:
            return self.some
        held = [codes_in(name, value, value) for name, value in self._literals()]
        return AnyOf(held) if self.some else AllOf(held)

    def condition(self) -> str:
        if self.values is None:
            return "always" if self.some else "never"
        texts = [literal(name, self.columns[name], value) for name, value in self._literals()]
        return (" or " if self.some else " and ").join(texts) or ("never" if self.some else "always")


class Conjunction(_Literals):
    """1 iff every listed column has its value; ``values=None`` says 1 never."""

    saved_as: ClassVar[str] = "conjunction"
    some: ClassVar[bool] = False


class Disjunction(_Literals):
    """1 iff some listed column has its value; ``values=None`` says 1 always."""

    saved_as: ClassVar[str] = "disjunction"
    some: ClassVar[bool] = True


_YES_NO = Cells(Integers(0, 1), (0, 1))


@frozen(slots=False)
class _YesNoClass(ProductClass):
    columns_in: ClassVar[str] = "features"
    rule: ClassVar[type[_Literals]]

    features: Frozen[Domain | None] = field(default=None, converter=yes_no_columns)
    negations: bool = field(default=True, validator=truth)

    def __attrs_post_init__(self) -> None:
        limited(
            (3 if self.negations else 2) ** len(self.features) + 1,
            f"{type(self).__name__} of {len(self.features)} columns",
            "name fewer columns" + ", or negations=False" * self.negations,
        )

    @property
    def _values(self) -> tuple[int | None, ...]:
        """What a digit asks of its column."""
        return (None, 1, 0) if self.negations else (None, 1)

    @cached_property
    def _cells(self) -> Mapping[str, Cells]:
        if not self.features:
            domains_of({})
        return dict.fromkeys(self.features, _YES_NO)

    @cached_property
    def _selectors(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        # Outside rules fail where every literal does, hence the opposite value.
        wanted = [None if value is None else value ^ self.outside for value in self._values]
        runs = tuple((0, 1) if value is None else (value, value) for value in wanted)
        return (runs,) * len(self._cells)

    @property
    def vc_dimension(self) -> int:
        """Exact: the number of columns, or 2 for one column with negation (all four rules of a bit)."""
        return super().vc_dimension if self.negations else len(self._cells)

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement(self.rule.saved_as)

    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        digits = self.digits(hypothesis)
        return self.rule(self._columns, None if digits is None else tuple(self._values[d] for d in digits), label)


class Conjunctions(_YesNoClass):
    """All conjunctions of literals of yes/no columns, and "never" (id 0).

    After id 0 the first column varies slowest; each is absent, required, negated.

    Parameters
    ----------
    features : mapping of names to domains, or names, optional
        The yes/no columns; None takes every feature of the data.
    negations : bool
        Whether a column may also be required to be 0.

    Raises
    ------
    ParameterError
        A column has more than two values, or there are too many rules to count.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> rules = Conjunctions({"smoker": Integers(0, 1), "over_60": Integers(0, 1)})
    >>> rules.size, str(rules.decode(1 + 3 + 2, label="event"))
    (10, 'event when smoker and not over_60')
    """

    rule: ClassVar[type[_Literals]] = Conjunction


class Disjunctions(_YesNoClass):
    """All disjunctions of literals of yes/no columns, and "always" (id 0); ids as in :class:`Conjunctions`.

    Parameters
    ----------
    features : mapping of names to domains, or names, optional
        The yes/no columns; None takes every feature of the data.
    negations : bool
        Whether a column may also be required to be 0.

    Raises
    ------
    ParameterError
        A column has more than two values, or there are too many rules to count.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> str(Disjunctions({"smoker": Integers(0, 1), "over_60": Integers(0, 1)}).decode(6))
    '1 when smoker or not over_60'
    """

    outside: ClassVar[bool] = True
    rule: ClassVar[type[_Literals]] = Disjunction
