"""Public partitions: into which of finitely many cells a record falls.

Edges are real numbers, records are codes.  An edge is turned into a position among the codes by exact arithmetic, so a
record's cell is a comparison of integers: a function of the record alone, whatever it is batched with.  Nothing here
is computed from data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import frozen

from privpac.arrays import Codes, Floats64, Ints
from privpac.data import Domain, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational

MAX_CELLS = 1 << 22
_MOST_EDGES = 1 << 16
_ZERO = 1 << 63


# Codes and real numbers


def is_numeric(domain: Domain) -> bool:
    """Whether codes stand for real numbers."""
    return domain.numeric


def values_of(domain: Domain, codes: Codes) -> Floats64:
    """The real numbers of codes, each by elementary operations on that code alone."""
    return domain.numbers(codes)


def codes_below(domain: Domain, x: Fraction | float) -> int:
    """How many codes stand for a value less than ``x``, exactly."""
    return domain.count_below(x)


def codes_upto(domain: Domain, x: Fraction | float) -> int:
    """How many codes stand for a value of at most ``x``, exactly."""
    return domain.count_below(x, strict=False)


def read_edges(edges: object, least: int = 1, name: str = "bins") -> tuple[Fraction, ...]:
    """Increasing finite edges, read exactly."""
    if isinstance(edges, (str, bytes)) or not hasattr(edges, "__iter__"):
        raise TypeError(f"{name} must be a list of increasing edges, got {type(edges).__name__}")
    exact = tuple(rational(edge, f"an edge of {name}") for edge in edges)
    if len(exact) < least or any(a >= b for a, b in pairwise(exact)):
        raise ParameterError(f"{name} must be at least {least} increasing edges, got {len(exact)} edges")
    return exact


def bins_from_text(bins: Any, features: Mapping[str, Domain | None]) -> Any:
    """Bins with every text read: a number of equal bins, edges ``a,b,c`` or ``lo:hi:step``.

    A list of texts is one for all columns, or one with its name in front for each (``age=0:100:10``).

    >>> bins_from_text("0:30:10", {"age": None})
    [Fraction(0, 1), Fraction(10, 1), Fraction(20, 1), Fraction(30, 1)]
    >>> bins_from_text(["age=8", "dose=0,1/2,1"], {"age": None, "dose": None})
    {'age': 8, 'dose': [Fraction(0, 1), Fraction(1, 2), Fraction(1, 1)]}
    """
    if isinstance(bins, Mapping):
        return {name: bins_from_text(each, features) for name, each in bins.items()}
    if isinstance(bins, str):
        return bins if bins == "auto" else _edges_from_text(bins)
    if not isinstance(bins, (list, tuple)) or not any(isinstance(each, str) and "=" in each for each in bins):
        one_text = isinstance(bins, (list, tuple)) and len(bins) == 1 and isinstance(bins[0], str)
        return _edges_from_text(bins[0]) if one_text else bins
    named = {name: body for name, equals, body in (str(each).partition("=") for each in bins) if equals}
    if len(named) < len(bins):
        raise ParameterError("several bins must each name their feature, such as age=0:100:10, and no feature twice")
    unknown = [name for name in named if name not in features]
    if unknown:
        raise ParameterError(f"bins names {unknown[0][:40]!r}, which is not among the features {list(features)}")
    return {name: _edges_from_text(body) for name, body in named.items()}


def _edges_from_text(text: str) -> int | list[Fraction]:
    if text.strip().isdecimal():
        return int(text[:20])
    if text.count(":") == 2:
        low, high, step = (rational(part.strip(), "bins") for part in text.split(":"))
        if step <= 0 or low >= high or (high - low) / step > _MOST_EDGES:
            raise ParameterError(
                f"bins takes lo:hi:step with lo < hi and at most {_MOST_EDGES} steps, got {text[:60]!r}"
            )
        return [low + step * i for i in range(math.floor((high - low) / step) + 1)]
    if "," not in text:
        raise ParameterError(f"bins takes a number of bins, edges a,b,c or lo:hi:step, got {text[:60]!r}")
    return [rational(part.strip(), "bins") for part in text.split(",")]


# Partitions


class Partition(ABC):
    """A partition of the records' space into ``size`` cells."""

    size: int

    @abstractmethod
    def index(self, users: UserData) -> Ints:
        """The cell of every record."""


@frozen(slots=False)
class CodeCells(Partition):
    """Every value of a small domain is a cell."""

    feature: str
    size: int

    def __attrs_post_init__(self) -> None:
        if self.size > MAX_CELLS:
            raise TooLargeError(f"column {self.feature!r} has {self.size} values, more than {MAX_CELLS}; give bins=")

    def index(self, users: UserData) -> Ints:
        return users.codes[self.feature].astype(np.int64)


@frozen(slots=False, eq=False)
class LineCells(Partition):
    """Consecutive runs of codes: the cell of a code is the number of ``cuts`` at or below it."""

    feature: str
    domain: Domain
    cuts: tuple[int, ...]

    @staticmethod
    def at_edges(feature: str, domain: Domain, edges: Sequence[Fraction]) -> LineCells:
        """Cells ``(-inf, e_0), [e_0, e_1), ..., [e_last, inf)``."""
        return LineCells(feature, domain, tuple(codes_below(domain, edge) for edge in edges))

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.cuts) + 1

    @cached_property
    def _lookup(self) -> Ints | None:
        if self.domain.size > 1 << 22:
            return None
        steps = np.bincount(
            np.array([c for c in self.cuts if c < self.domain.size], dtype=np.int64), minlength=self.domain.size
        )
        return np.cumsum(steps[: self.domain.size])

    @cached_property
    def _reached(self) -> Codes:
        return np.array([cut for cut in self.cuts if cut < 1 << 64], dtype=np.uint64)

    def index(self, users: UserData) -> Ints:
        codes = users.codes[self.feature]
        if self._lookup is not None:
            return self._lookup[codes.astype(np.int64)]
        return np.searchsorted(self._reached, codes, side="right").astype(np.int64)


@frozen(slots=False)
class ProductCells(Partition):
    """Tuples of cells, the first column most significant."""

    parts: tuple[Partition, ...]

    def __attrs_post_init__(self) -> None:
        if self.size > MAX_CELLS:
            raise TooLargeError(
                f"{self.size} cells are more than {MAX_CELLS}; use coarser bins, or ClippedHistogram per column"
            )

    @property
    def size(self) -> int:  # type: ignore[override]
        return math.prod(part.size for part in self.parts)

    def index(self, users: UserData) -> Ints:
        out = self.parts[0].index(users)
        for part in self.parts[1:]:
            out = out * part.size + part.index(users)
        return out
