"""Public columns and public cells: the coarse grid on which boxes live.

Cells depend on the declared domain and on public numbers only, never on data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain
from privpac.data.jit import jit
from privpac.errors import ParameterError, PrivpacError
from privpac.guarantee import positive_int

__all__ = [
    "SIZE_LIMIT",
    "Cells",
    "Frozen",
    "cells_at",
    "columns_from_list",
    "columns_to_list",
    "declared_of",
    "domains_of",
    "domains_or_none",
    "frozen_columns",
    "even_cells",
    "named_domains",
]

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
