"""Boxes: "1 iff 40 <= x <= 60 and y <= 7", on public grids.

Every column is cut into a few public cells (runs of codes that depend on the declared domain and on ``cuts`` only); a
rule is a closed box of cells, and the empty box is there once.  Work and memory grow with the number of boxes, the
product of ``K (K + 1) / 2`` over columns of ``K`` cells, which may not exceed ``SIZE_LIMIT``.  For ``Mean`` and
``Regret`` a user's own minimum is taken over the whole class, empty box included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.concepts.base import Rule
from privpac.concepts.cells import (
    Cells,
    Frozen,
    cells_at,
    checked_cuts,
    columns_from_list,
    columns_to_list,
    declared_of,
    domains_of,
    even_cells,
    named_domains,
)
from privpac.concepts.dense import limited
from privpac.concepts.dimensions import interval_mistakes
from privpac.concepts.one_column import listed_condition, need_order
from privpac.concepts.products import ProductClass, box_dimension
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.released import register

__all__ = ["Box", "Rectangles"]

DEFAULT_CUTS = 16
DEFAULT_SIZE = 1 << 16
"""Without ``cuts``: the most cells per column, at most ``DEFAULT_CUTS``, that keep the class within ``DEFAULT_SIZE``
rules."""


@register("box")
@dataclass(frozen=True, repr=False)
class Box(Rule):
    """1 iff every column's code lies between its bounds, both included; ``bounds=None`` is the empty box."""

    columns: Frozen[Domain]
    bounds: tuple[tuple[int, int], ...] | None
    label: str = "1"

    def __post_init__(self) -> None:
        if self.bounds is None:
            return
        if len(self.bounds) != len(self.columns):
            raise ParameterError(f"a box on {len(self.columns)} columns needs as many bounds, got {len(self.bounds)}")
        for domain, (low, high) in zip(self.columns.values(), self.bounds):
            if not 0 <= low <= high < domain.size:
                raise ParameterError(f"bounds must satisfy 0 <= low <= high < {domain.size}, got {low}, {high}")

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.columns

    def _sides(self) -> list[tuple[str, int, int]]:
        """The bounds that exclude something."""
        pairs = zip(self.columns.items(), self.bounds or ())
        return [(name, low, high) for (name, domain), (low, high) in pairs if low > 0 or high < domain.size - 1]

    @property
    def reads(self) -> Sequence[str]:
        return tuple(name for name, _, _ in self._sides()) or tuple(self.columns)[:1]

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        inside = np.full(len(codes[self.reads[0]]), self.bounds is not None)
        for name, low, high in self._sides():
            inside &= (codes[name] >= np.uint64(low)) & (codes[name] <= np.uint64(high))
        return inside.astype(np.int8)

    def edges(self, column: str) -> tuple[int, ...]:
        return () if self.bounds is None else self.bounds[list(self.columns).index(column)]

    def condition(self) -> str:
        if self.bounds is None:
            return "never"
        sides = (_side(name, self.columns[name], low, high) for name, low, high in self._sides())
        return " and ".join(side for side in sides if side) or "always"

    def to_dict(self) -> dict[str, Any]:
        bounds = None if self.bounds is None else [[str(low), str(high)] for low, high in self.bounds]
        return {"columns": columns_to_list(self.columns), "bounds": bounds, "label": self.label}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        bounds = values["bounds"]
        read = None if bounds is None else tuple((int(low), int(high)) for low, high in bounds)
        return cls(columns_from_list(values["columns"]), read, values["label"])


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

    >>> from privpac.data import Integers
    >>> boxes = Rectangles({"age": Integers(0, 99), "dose": Integers(1, 4)}, cuts={"age": [18, 65], "dose": 4})
    >>> boxes.size, str(boxes.decode(1 + 3 * 10 + 6, label="event"))
    (61, 'event when 18 <= age <= 64 and dose >= 2')
    """

    inherits: ClassVar[bool] = True

    domains: Frozen[Domain | None]
    cuts: int | Frozen[int | tuple[Any, ...]] | None

    def __init__(
        self,
        domains: Mapping[str, Domain | None] | Sequence[str] | None = None,
        cuts: int | Mapping[str, int | Sequence[Any]] | None = None,
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

    # Shape

    @cached_property
    def _columns(self) -> Frozen[Domain]:
        assert isinstance(self.domains, Frozen)
        return Frozen(tuple(domains_of(self.domains).items()))

    @cached_property
    def _cells(self) -> dict[str, Cells]:
        wanted: dict[str, Any] = dict(self.cuts) if isinstance(self.cuts, Mapping) else {}
        fixed: dict[str, Cells] = {}
        for name, domain in self._columns.items():
            cut = self.cuts if isinstance(self.cuts, int) else wanted.get(name)
            if cut is not None:
                fixed[name] = even_cells(domain, cut) if isinstance(cut, int) else cells_at(domain, cut, name)
        free = {name: domain for name, domain in self._columns.items() if name not in fixed}
        for count in range(DEFAULT_CUTS, 1, -1):
            cells = fixed | {name: even_cells(domain, count) for name, domain in free.items()}
            if 1 + prod(c.count * (c.count + 1) // 2 for c in cells.values()) <= DEFAULT_SIZE:
                break
        return {name: cells[name] for name in self._columns}

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    @property
    def _counts(self) -> tuple[int, ...]:
        return tuple(cells.count for cells in self._cells.values())

    @cached_property
    def _selectors(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        return tuple(tuple((a, b) for a in range(count) for b in range(a, count)) for count in self._counts)

    def _cell(self, name: str, codes: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self._cells[name].index(codes)

    @property
    def vc_dimension(self) -> int:
        """Exact: twice the columns of three or more cells plus the columns of two (see ``box_dimension``)."""
        return box_dimension(self._counts)

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    @property
    def mistake_tree_depth(self) -> int:
        """Column by column."""
        return sum(interval_mistakes(count) for count in self._counts)

    # Columns and rules

    def declared(self) -> Mapping[str | None, Domain | None]:
        return declared_of(self.domains)

    def with_columns(self, columns: Mapping[str, Domain]) -> Rectangles:
        return Rectangles(columns, self.cuts)

    def decode(self, hypothesis: int, label: str = "1") -> Box:
        digits = self.digits(hypothesis)
        if digits is None:
            return Box(self._columns, None, label)
        runs = zip(self._cells.values(), self._selectors, digits)
        return Box(self._columns, tuple(cells.codes(*selectors[digit]) for cells, selectors, digit in runs), label)
