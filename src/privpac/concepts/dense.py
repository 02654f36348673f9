"""Classes enumerated rule by rule: what they share, and a kernel on a table of predictions.

The kernel adds up rows of a 0/1 table (points by rules) over a user's distinct points, so the cost is one byte
operation per (distinct point of a user, rule), 32 of them at once where mistakes fit a byte
(:mod:`privpac.concepts.kernels.narrow`); nothing of size users times rules is stored.  Rules come in blocks that
bound the table's memory: with several blocks the user's own least and most mistakes over the *whole* class are found in
a first pass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.concepts.cells import SIZE_LIMIT
from privpac.concepts.kernels.grouped import Groups, Terms, group, shared, tally, terms
from privpac.concepts.kernels.narrow import MOST_RECORDS, charge, extremes, holds, settle
from privpac.concepts.labellings.base import MAX_PAIRS, check_tabulated
from privpac.concepts.profile import Profile, constant_profile, dense_profile
from privpac.concepts.statistics import Statistic
from privpac.data import UserData
from privpac.data.group import ranked
from privpac.data.jit import jit
from privpac.errors import ParameterError, TooLargeError

__all__ = ["EnumeratedClass", "dense_fold", "distinct_rows", "key_digits", "limited", "row_keys"]

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
