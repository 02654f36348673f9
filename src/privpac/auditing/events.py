"""Events to bet on: outputs as cells of a histogram, and the cells that tell two datasets apart best.

Everything here looks at the first half of a statistical audit's runs only.  Any hashable output is counted; numbers
that seldom repeat are binned at the quantiles of these runs, so that every number, seen before or not, has a cell.
Tuples are looked at whole and by coordinate.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.errors import ParameterError

__all__ = ["ChosenEvent", "Output", "View", "choose", "read_output"]

Output = Hashable
Bounds = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
"""From the counts of some events on both datasets to lower bounds on epsilon."""

_ATOMS, _BINS, _COORDINATES = 64, 32, 16
_FLATTERED = 0.95
_GROUPS = 10


def read_output(value: Any) -> Output:
    """A hashable value; arrays and lists as tuples, all not-a-numbers alike."""
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(read_output(part) for part in value)
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, Decimal):
        return Fraction(value) if value.is_finite() else str(value)
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"the audit counts outputs, so they must be numbers, texts or other hashable values, not "
            f"{type(value).__name__}; pass output=, "
            "a function that turns an output into one"
        ) from None
    hashable: Output = value
    return hashable


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)


@dataclass(frozen=True)
class View:
    """One way to look at an output (all of it, or one coordinate), cut into cells by the first half of the runs."""

    name: str
    coordinate: int | None
    atoms: dict[Output, int]
    edges: tuple[Any, ...]

    def part(self, output: Any) -> Output:
        if self.coordinate is None:
            whole: Output = output
            return whole
        return (
            output[self.coordinate]
            if isinstance(output, tuple) and self.coordinate < len(output)
            else ("no such coordinate", output)
        )

    def cell(self, output: Any) -> int:
        value = self.part(output)
        found = self.atoms.get(value)
        if found is not None:
            return found
        # Every number has a bin, seen before or not; whatever else is new falls into the last cell.
        return len(self.atoms) + bisect_right(self.edges, value) if self.edges and _is_number(value) else self.size - 1

    @property
    def size(self) -> int:
        return len(self.atoms) + (len(self.edges) + 1 if self.edges else 0) + 1

    def counts(self, outputs: Counter[Output]) -> NDArray[np.int64]:
        out = np.zeros(self.size, dtype=np.int64)
        for value, count in outputs.items():
            out[self.cell(value)] += count
        return out

    def orders(self, here: NDArray[np.int64], there: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], float]]:
        """Orders of the cells whose beginnings are events worth trying, each with its weight: numbers from either end,
        falling ratios.

        By Neyman and Pearson the best events collect the outcomes of largest ratio; half a count keeps the ratios
        finite.  Sorted by ratios that were estimated, the same runs flatter the result, so it counts for less where
        numbers have an order of their own.
        """
        ordered = self._in_order()
        if len(ordered) > 1:
            yield ordered, 1.0
            yield ordered[::-1], 1.0
        yield np.argsort(-(here + 0.5) / (there + 0.5), kind="stable"), _FLATTERED if len(ordered) > 1 else 1.0

    def _in_order(self) -> NDArray[np.int64]:
        """Cells of numbers, smallest first; an atom stands before the bin that begins with it."""
        first = len(self.atoms)
        keys: list[Any] = [(value, 0, place) for value, place in self.atoms.items() if _is_number(value)]
        keys += [
            (-math.inf if i == 0 else self.edges[i - 1], 1, first + i)
            for i in range(len(self.edges) + 1 if self.edges else 0)
        ]
        return np.array([place for _, _, place in sorted(keys)], dtype=np.int64)

    def groups(self) -> list[frozenset[int]]:
        """Cells to show: every atom, about ten groups of neighbouring bins, and the rest."""
        bins = range(len(self.atoms), self.size - 1)
        step = max(1, -(-len(bins) // _GROUPS))
        grouped = [frozenset(bins[i : i + step]) for i in range(0, len(bins), step)]
        return [*(frozenset([place]) for place in self.atoms.values()), *grouped, frozenset([self.size - 1])]

    def labels(self, cells: frozenset[int]) -> list[str]:
        """The cells in words, bins side by side as one."""
        named: list[Any] = [value for value, place in self.atoms.items() if place in cells]
        out = [_short(value) for value in (sorted(named) if all(map(_is_number, named)) else named)]
        first = len(self.atoms)
        bins = [i for i in range(len(self.edges) + 1 if self.edges else 0) if first + i in cells]
        for i in bins:
            if i - 1 not in bins:
                end = next(k for k in range(i, len(self.edges) + 1) if k + 1 not in bins)
                low = None if i == 0 else _short(self.edges[i - 1])
                high = None if end == len(self.edges) else _short(self.edges[end])
                out.append(_interval(low, high))
        return out + (["anything else"] if self.size - 1 in cells else [])


def _interval(low: str | None, high: str | None) -> str:
    if low is None:
        return "any other number" if high is None else f"below {high}"
    return f"{low} or more" if high is None else f"{low} to {high}"


def _short(value: Any) -> str:
    text = (
        f"{float(value):.6g}"
        if isinstance(value, (float, Fraction))
        else value
        if isinstance(value, str)
        else repr(value)
    )
    return text if len(text) <= 60 else text[:57] + "..."


def _views(pooled: Counter[Output]) -> list[View]:
    """The whole output, and each coordinate of outputs that are short tuples of one length."""
    lengths = {len(value) if isinstance(value, tuple) else 0 for value in pooled}
    width = min(max(lengths, default=0), _COORDINATES)
    views = [_view("the output", None, pooled)]
    for i in range(width) if width > 1 or lengths == {1} else ():
        parts: Counter[Output] = Counter()
        blank = View("", i, {}, ())
        for value, count in pooled.items():
            parts[blank.part(value)] += count
        views.append(_view(f"coordinate {i}", i, parts))
    return views


def _view(name: str, coordinate: int | None, values: Counter[Output]) -> View:
    total = sum(values.values())
    few = len(values) <= _ATOMS
    heavy = [
        value
        for value, count in values.most_common(_ATOMS)
        if few or count * (8 if _is_number(value) else _ATOMS) >= total
    ]
    atoms = {value: i for i, value in enumerate(heavy)}
    rest: list[Any] = sorted(
        value for value, count in values.items() if value not in atoms and _is_number(value) for _ in range(count)
    )
    edges = tuple(sorted({rest[i * len(rest) // _BINS] for i in range(1, _BINS)})) if rest else ()
    return View(name, coordinate, atoms, edges)


# Choosing


@dataclass(frozen=True)
class ChosenEvent:
    """An event (some cells of a view) and the pair, in order, that it tells apart; ``bound`` is what the choosing runs
    would prove."""

    bound: float
    pair: tuple[int, int]
    view: View
    cells: frozenset[int]

    @property
    def words(self) -> str:
        names = self.view.labels(self.cells)
        others = self.view.labels(frozenset(range(self.view.size)) - self.cells)
        if len(names) > 4 and len(others) < len(names):
            return (
                f"{self.view.name} is none of: "
                f"{'; '.join(others[:4])}{f'; {len(others) - 4} more' if len(others) > 4 else ''}"
            )
        return (
            f"{self.view.name} is "
            f"{'; '.join(names[:4])}{f'; or one of {len(names) - 4} more' if len(names) > 4 else ''}"
        )


def choose(seen: Sequence[Counter[Output]], pairs: Sequence[tuple[int, int]], bounds: Bounds) -> ChosenEvent:
    """The pair, order and event with the largest bound; the first one among equals."""
    pooled: Counter[Output] = Counter()
    for outputs in seen:
        pooled.update(outputs)
    best: ChosenEvent | None = None
    for view in _views(pooled):
        counts = [view.counts(outputs) for outputs in seen]
        for i, j in (*pairs, *((j, i) for i, j in pairs)):
            for order, weight in view.orders(counts[i], counts[j]):
                found = weight * bounds(np.cumsum(counts[i][order]), np.cumsum(counts[j][order]))
                top = int(np.argmax(found))
                if best is None or found[top] > best.bound:
                    best = ChosenEvent(float(found[top]), (i, j), view, frozenset(order[: top + 1].tolist()))
    if best is None:
        raise ParameterError("there is no pair of neighbouring datasets, so there is nothing to audit; add datasets")
    return best
