"""Parities of yes/no columns: "1 iff an odd number of the chosen columns say yes".

The id is the set of chosen columns as a bit mask, the first column being bit 0; id 0 never says 1.  With the signed
counts ``w(x) = zeros - ones`` of a user's points, the mistakes of the set S are ``ones + (W(0) - W(S)) / 2``, where W
is the Walsh-Hadamard transform of w: O(d 2**d) for all sets at once, whatever the number of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from attrs import field, frozen

from privpac.arrays import Array, Bytes, Codes
from privpac.data import Domain, Integers, UserData
from privpac.data.loops import even, jit, spread
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import positive_int
from privpac.rules.base import (
    ByAgreement,
    ColumnCodes,
    ConceptClass,
    Frozen,
    Predictions,
    Rule,
)
from privpac.rules.enumerated import EnumeratedClass, NamedColumns, domains_of, domains_or_none, frozen_columns
from privpac.rules.export.expression import Expression, OddNumber, codes_in
from privpac.rules.kernels import Bundle
from privpac.rules.kernels.grouped import add_contributions, group_equal_users, terms
from privpac.rules.profile import Profile, Statistic, dense_profile

if TYPE_CHECKING:
    from privpac.data import Users

MAX_COLUMNS = 20
"""The most columns: a million rules."""

_BLOCK = 12


def _two_valued(columns: Mapping[str, Domain | None]) -> None:
    wide = [name for name, domain in columns.items() if domain is not None and domain.size != 2]
    if wide:
        raise ParameterError(
            f"columns {wide} must have two values, such as Integers(0, 1) or Categories(['no', 'yes'])"
        )


def masks(codes: ColumnCodes, names: Iterable[str]) -> Codes:
    """The codes of yes/no columns as one bit mask per record."""
    out: Codes | None = None
    for i, name in enumerate(names):
        out = codes[name].copy() if out is None else out | (codes[name] << np.uint64(i))
    assert out is not None
    return out


@frozen(slots=False, repr=False)
class Parity(Rule):
    """1 iff an odd number of the columns in the mask have code 1."""

    saved_as: ClassVar[str] = "parity"
    columns: Frozen[Domain] = field(converter=frozen_columns)
    mask: int
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        _two_valued(self.columns)
        positive_int(self.mask, "mask", minimum=0, maximum=(1 << len(self.columns)) - 1)

    @property
    def reads(self) -> tuple[str, ...]:
        chosen = tuple(name for i, name in enumerate(self.columns) if self.mask >> i & 1)
        # Some column must be read to know the number of rows.
        return chosen or tuple(self.columns)[:1]

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        read = self.reads if self.mask else ()
        first = codes[self.reads[0]]
        return (sum((codes[name] for name in read), np.zeros(len(first), dtype=np.uint64)) & np.uint64(1)).astype(
            np.int8
        )

    def expression(self) -> Expression:
        return bool(self.mask) and OddNumber(codes_in(name, 1, 1) for name in self.reads)

    def condition(self) -> str:
        parts = [f"{name} = {self.columns[name].text(1)}" for name in self.reads]
        if not self.mask:
            return "never"
        return parts[0] if len(parts) == 1 else f"an odd number of {', '.join(parts)}"


@jit
def _levels(row: Array, a: int, b: int, first: int) -> None:
    """The butterflies of widths ``first, 2 first, ...`` inside ``row[a:b]``."""
    width = first
    while width < b - a:
        for start in range(a, b, 2 * width):
            left, right = row[start : start + width], row[start + width : start + 2 * width]
            for i in range(width):
                x, y = left[i], right[i]
                left[i], right[i] = x + y, x - y
        width *= 2


@jit
def _walsh(row: Array) -> None:
    """In place; blocks that fit the cache first, and none of those that hold only zeros."""
    block = min(len(row), 1 << _BLOCK)
    for a in range(0, len(row), block):
        some = False
        for i in range(a, a + block):
            some = some or row[i] != 0
        if some:
            _levels(row, a, a + block, 1)
    _levels(row, 0, len(row), block)


@jit
def _add_users(
    groups: Bundle,
    offset: Array,
    cap: Array,
    levels: int,
    uses_minimum: bool,
    own: Array,
    first: int,
    last: int,
    scores: Array,
) -> None:
    starts, ends, places, weights, ones, sizes, times = groups
    row = np.empty(scores.shape[1], dtype=np.int32)
    values = np.empty(0, dtype=np.int64)
    for i in range(first, last):
        row[:] = 0
        for k in range(starts[i], ends[i]):
            row[places[k]] = weights[k]
        _walsh(row)
        whole, positive = row[0], np.int32(ones[i])
        least, most = sizes[i], np.int64(0)
        for s in range(len(row)):
            row[s] = positive + (whole - row[s]) // 2
            least, most = min(least, np.int64(row[s])), max(most, np.int64(row[s]))
        own[0, i], own[1, i] = least, most
        if len(values) <= sizes[i]:
            values = np.empty(2 * sizes[i] + 1, dtype=np.int64)
        add_contributions(
            row, least if uses_minimum else 0, sizes[i], offset[i], cap[:, i], levels, times[i], values, scores
        )


@frozen(slots=False)
class Parities(NamedColumns, EnumeratedClass):
    """All 2**d parities of d yes/no columns (names, or names with domains of two values).

    Parameters
    ----------
    domains : mapping of names to domains, or names, optional
        The columns; None takes every feature of the data.

    Raises
    ------
    ParameterError
        A column has more than two values.

    Examples
    --------
    >>> print(Parities(["smoker", "drinks"]).with_columns({"smoker": Integers(0, 1), "drinks": Integers(0,
    ...     1)}).decode(3))
    1 when an odd number of smoker = 1, drinks = 1
    """

    inherits: ClassVar[bool] = False  # see bind

    domains: Frozen[Domain | None] | None = field(default=None, converter=domains_or_none)

    def __attrs_post_init__(self) -> None:
        columns = self.domains
        if columns is None:
            return
        if len(columns) > MAX_COLUMNS:
            raise TooLargeError(
                f"parities of {len(columns)} columns are 2^{len(columns)} rules; at most {MAX_COLUMNS} columns are "
                "allowed"
            )
        _two_valued(columns)

    @cached_property
    def columns(self) -> Frozen[Domain | None]:
        """The columns in order."""
        if self.domains is None:
            raise ParameterError("this class has no columns yet: Parities(['smoker', 'drinks']), or bind it to data")
        return self.domains

    @property
    def size(self) -> int:
        return 1 << len(self.columns)

    @property
    def vc_dimension(self) -> int:
        return len(self.columns)

    @property
    def littlestone_dimension(self) -> int:
        return len(self.columns)

    def growth(self, n: int) -> int:
        return 1 << min(n, len(self.columns))

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement("parity")

    # Columns and rules

    def bind(self, users: Users) -> tuple[Parities, Users]:
        declared = dict.fromkeys(users.features) if self.domains is None else self.columns
        # A yes/no column that nobody declared is read as 0 and 1.
        known = {name: users.features.get(name) if domain is None else domain for name, domain in declared.items()}
        return ConceptClass.bind(
            Parities({name: Integers(0, 1) if domain is None else domain for name, domain in known.items()}), users
        )

    def decode(self, hypothesis: int, label: str = "1") -> Parity:
        return Parity(domains_of(self.columns), self.checked(hypothesis), label)

    def table(self, codes: ColumnCodes, first: int, last: int) -> Bytes:
        chosen = masks(codes, self.columns)[:, None] & np.arange(first, last, dtype=np.uint64)
        return np.asarray(np.bitwise_count(chosen) & np.uint8(1), dtype=np.uint8)

    # Folding

    def empty_profile(self) -> Profile:
        return dense_profile(np.zeros(self.size, dtype=np.int64))

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        groups = group_equal_users(masks(users.codes, columns), users.labels, users.offsets)
        term = terms(groups, statistic)
        spans = even(len(groups.sizes), 1 + (1 << 16) // self.size)
        scores = np.zeros((len(spans), statistic.n_scores, self.size), dtype=np.int64)
        rest = (tuple(groups), *term)
        spread(lambda i, a, b: _add_users(*rest, a, b, scores[i]), [(i, a, b) for i, (a, b) in enumerate(spans)])
        return dense_profile(scores.sum(axis=0), statistic.optimism(groups.sizes, term.own, groups.times))

    # Labellings: linear algebra over two elements

    def dichotomies(self, codes: ColumnCodes) -> Iterator[tuple[Predictions, int, int]]:
        pivots = sorted(_reduced((int(x), 0) for x in np.unique(masks(codes, self.columns)).tolist()) or {})
        alike = 1 << len(self.columns) - len(pivots)
        for chosen in range(1 << len(pivots)):
            mask = sum(1 << bit for i, bit in enumerate(pivots) if chosen >> i & 1)
            yield self.predictions(codes, mask), mask, alike

    def consistent(self, codes: ColumnCodes, labels: Bytes) -> int | None:
        pairs = np.unique(2 * masks(codes, self.columns) + labels).tolist()
        pivots = _reduced((int(pair) >> 1, int(pair) & 1) for pair in pairs)
        return None if pivots is None else sum(label << bit for bit, (_, label) in pivots.items())


def _reduced(equations: Iterable[tuple[int, int]]) -> dict[int, tuple[int, int]] | None:
    """Equations ``parity(x & mask) = y`` solved for the lowest bit of each: bit -> (x, y); None if they contradict.

    No equation holds another's bit, so the masks with given labels are fixed by their other (free) bits.  Each free bit
    appears only in equations solved for lower bits, so changing it changes nothing above it: the least mask has none.
    """
    pivots: dict[int, tuple[int, int]] = {}
    for x, y in equations:
        for bit, (px, py) in pivots.items():
            if x >> bit & 1:
                x, y = x ^ px, y ^ py
        if x == 0:
            if y:
                return None
            continue
        lowest = (x & -x).bit_length() - 1
        for bit, (px, py) in pivots.items():
            if px >> lowest & 1:
                pivots[bit] = (px ^ x, py ^ y)
        pivots[lowest] = (x, y)
    return pivots
