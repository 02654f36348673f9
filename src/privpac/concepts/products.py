"""Products of runs of cells: boxes, conjunctions and disjunctions are one class with one kernel.

Column ``j`` is cut into ``K_j`` public cells and has a public list of *selectors*, each a run ``first..last`` of cells.
A rule picks one selector per column; a point is inside if every column's cell is selected.  Rule 0 has nothing inside,
rule ``1 + r`` has the selectors that are the digits of ``r`` (first column most significant).  With ``outside=True`` a
rule says 1 outside instead (disjunctions, by De Morgan).

Kernel.  A user's signed counts fill a ``K_1 x ... x K_d`` table; column by column, last one first, prefix sums along
its cells turn the axis of cells into an axis of selectors.  The last step writes the sum inside of every rule by one
vector subtraction per selector, so a user costs O(size) whatever the number of records, and the user's own minimum is
over the whole class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.dense import EnumeratedClass
from privpac.concepts.kernels.grouped import group, shared, tally, terms
from privpac.concepts.profile import Profile, dense_profile
from privpac.concepts.statistics import Statistic
from privpac.data import UserData
from privpac.data.jit import jit

__all__ = ["ProductClass", "box_dimension"]

Ints = NDArray[np.int64]


@jit
def _expand(source: Any, target: Any, outer: int, cells: int, inner: int, firsts: Any, lasts: Any) -> None:
    """``(outer, cells, inner)`` summed over the selected cells: ``(outer, selectors, inner)``; ``source`` is
    overwritten."""
    n = len(firsts)
    for x in range(outer):
        block = source[x * cells * inner : (x + 1) * cells * inner]
        for k in range(1, cells):
            above, here = block[(k - 1) * inner : k * inner], block[k * inner : (k + 1) * inner]
            for r in range(inner):
                here[r] += above[r]
        for s in range(n):
            out = target[(x * n + s) * inner : (x * n + s + 1) * inner]
            top = block[lasts[s] * inner : (lasts[s] + 1) * inner]
            if firsts[s] == 0:
                for r in range(inner):
                    out[r] = top[r]
            else:
                low = block[(firsts[s] - 1) * inner : firsts[s] * inner]
                for r in range(inner):
                    out[r] = top[r] - low[r]


@jit
def _scores(
    first: int,
    last: int,
    scores: Any,
    groups: Any,
    offset: Any,
    cap: Any,
    levels: int,
    uses_minimum: bool,
    own: Any,
    outside: bool,
    cells: Any,
    begins: Any,
    firsts: Any,
    lasts: Any,
) -> None:
    """Add the contributions of the distinct users ``first..last - 1``."""
    starts, ends, places, weights, ones, sizes, times = groups
    size, columns = scores.shape[1], len(cells)
    n_cells = 1
    for j in range(columns):
        n_cells *= cells[j]
    row, source, target = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    values = np.empty(0, dtype=np.int64)
    for i in range(first, last):
        source[:n_cells] = 0
        for k in range(starts[i], ends[i]):
            source[places[k]] = weights[k]
        outer, inner = n_cells, 1
        for step in range(columns):
            j = columns - 1 - step
            outer //= cells[j]
            _expand(
                source,
                target,
                outer,
                cells[j],
                inner,
                firsts[begins[j] : begins[j + 1]],
                lasts[begins[j] : begins[j + 1]],
            )
            inner *= begins[j + 1] - begins[j]
            source, target = target, source
        # Inside 1: ones outside are wrong, zeros inside are.  Outside 1: the complement.
        base, sign = np.int32(ones[i]), np.int32(1)
        if outside:
            base, sign = np.int32(sizes[i] - ones[i]), np.int32(-1)
        row[0] = base
        least, most = base, base
        for r in range(size - 1):
            mistakes = np.int32(base + sign * source[r])
            row[1 + r] = mistakes
            least, most = min(least, mistakes), max(most, mistakes)
        own[0, i], own[1, i] = least, most
        if len(values) <= sizes[i]:
            values = np.empty(2 * sizes[i] + 1, dtype=np.int64)
        tally(
            row,
            np.int64(least) if uses_minimum else 0,
            sizes[i],
            offset[i],
            cap[:, i],
            levels,
            times[i],
            values,
            scores,
        )


class ProductClass(EnumeratedClass):
    """A class of products of selectors."""

    outside: ClassVar[bool] = False

    @property
    @abstractmethod
    def _names(self) -> tuple[str, ...]:
        """The columns, in order."""

    @property
    @abstractmethod
    def _counts(self) -> tuple[int, ...]:
        """Cells per column."""

    @property
    @abstractmethod
    def _selectors(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Runs ``(first cell, last cell)`` per column; at least as many as cells."""

    @abstractmethod
    def _cell(self, name: str, codes: NDArray[np.uint64]) -> Ints:
        """The cell of every code of a column."""

    @property
    def size(self) -> int:
        return 1 + prod(len(runs) for runs in self._selectors)

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

    def table(self, codes: Mapping[str, NDArray[np.uint64]], first: int, last: int) -> NDArray[np.uint8]:
        ids = np.arange(first, last, dtype=np.int64)
        rest = np.maximum(ids - 1, 0)
        inside = np.broadcast_to(ids > 0, (len(codes[self._names[0]]), len(ids))).copy()
        for name, (firsts, lasts) in reversed(list(zip(self._names, self._runs))):
            rest, digit = np.divmod(rest, len(firsts))
            cell = self._cell(name, codes[name])[:, None]
            inside &= (firsts[digit] <= cell) & (cell <= lasts[digit])
        return (~inside if self.outside else inside).astype(np.uint8)

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        place = np.zeros(len(users.labels), dtype=np.int64)
        for name, count in zip(self._names, self._counts):
            place = place * count + self._cell(name, users.codes[name])
        groups = group(place.astype(np.uint64), users.labels, users.offsets)
        firsts = np.concatenate([runs[0] for runs in self._runs])
        lasts = np.concatenate([runs[1] for runs in self._runs])
        begins = np.cumsum([0, *(len(runs) for runs in self._selectors)])
        term, packed = terms(groups, statistic), tuple(groups)
        fixed: tuple[Any, ...] = (*term, self.outside, np.array(self._counts, dtype=np.int64), begins, firsts, lasts)
        scores = shared(groups, term, self.size, lambda a, b, out: _scores(a, b, out, packed, *fixed))
        return dense_profile(scores, statistic.luck(groups.sizes, term.own, groups.times))


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
