"""Differential privacy put to the test: how large must epsilon be, going by what a mechanism did?

A membership game.  A mechanism runs on two neighbouring datasets; whoever sees the output bets on one event E.  If the
mechanism is ``(epsilon, delta)``-DP then ``Pr[M(x) in E] <= e**epsilon Pr[M(x') in E] + delta`` for every E, so
``epsilon >= ln((p - delta) / q)`` for every p below the one probability and q above the other.

*The bound holds with the stated confidence.*  The pair, its order and the event are chosen on the first half of the
runs and then fixed; fresh runs measure only them.  Given the choice both counts are binomial, Clopper and Pearson's p
and q are each wrong with probability at most ``(1 - confidence) / 2``, so the bound exceeds the true epsilon with
probability at most ``1 - confidence``, however many pairs and events were looked at.  Runs must be independent: a
mechanism that remembers earlier runs is outside this argument.

*What it cannot show.*  A bound below the claim is no proof of the claim: another pair, another event or more runs might
break it. ``detectable`` is the largest bound that so many runs could ever give.

>>> leak = audit_statistical(sum, [((0, 1), (0, 0))], neighbours="replace", epsilon=1, runs=1000)
>>> leak.verdict, leak.epsilon_lower > 4
('violates the claim', True)
"""

from __future__ import annotations

import inspect
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Floats64
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.rng import Rng, secret_rng
from privpac.special import betainccinv, betaincinv

# Events to bet on: outputs as cells of a histogram, and the cells that tell two datasets apart best.
#
# Everything here looks at the first half of a statistical audit's runs only.  Any hashable output is counted; numbers
# that seldom repeat are binned at the quantiles of these runs, so that every number, seen before or not, has a cell.
# Tuples are looked at whole and by coordinate.


Output = Hashable
Bounds = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
"""From the counts of some events on both datasets to lower bounds on epsilon."""

_ATOMS, _BINS, _COORDINATES = 64, 32, 16
_FLATTERED = 0.95
_GROUPS = 10


def read_output(value: object) -> Output:
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


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)


@frozen(slots=False)
class View:
    """One way to look at an output (all of it, or one coordinate), cut into cells by the first half of the runs."""

    name: str
    coordinate: int | None
    atoms: dict[Output, int]
    edges: tuple[Any, ...]

    def part(self, output: Output) -> Output:
        if self.coordinate is None:
            whole: Output = output
            return whole
        return (
            output[self.coordinate]
            if isinstance(output, tuple) and self.coordinate < len(output)
            else ("no such coordinate", output)
        )

    def cell(self, output: Output) -> int:
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


def _short(value: object) -> str:
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


@frozen(slots=False)
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


CONSISTENT, VIOLATES = "consistent with the claim", "violates the claim"
MAX_RUNS = 20_000_000
"""Runs in all at most."""

_OUTWARD = 1e-9  # far above the error of the inverse beta function


@frozen(slots=False)
class StatisticalAudit:
    """What the measuring half of the runs showed.

    With probability at least ``confidence`` the mechanism needs an epsilon of at least ``epsilon_lower`` at ``delta``.
    ``worst`` is the pair measured, in this order; ``hits`` of ``trials`` runs on each of its datasets fell into
    ``event``; ``cells`` are the measured counts of all outcomes.  ``epsilon`` is the claim, None if there was none.
    """

    epsilon_lower: float
    confidence: Fraction
    epsilon: Fraction | None
    delta: Fraction
    neighbours: Neighbours
    pairs: int
    runs: int
    worst: tuple[object, object]
    event: str
    hits: tuple[int, int]
    trials: int
    detectable: float
    cells: tuple[tuple[str, int, int], ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the claim; no proof of it."""
        return self.epsilon is None or Fraction(self.epsilon_lower) <= self.epsilon

    def __bool__(self) -> bool:
        return self.holds

    @property
    def verdict(self) -> str:
        return CONSISTENT if self.holds else VIOLATES

    def explain(self) -> str:
        """A few lines for people."""
        x, y = self.worst
        said = "is consistent with" if self.holds else "violates"
        claim = "" if self.epsilon is None else f" This {said} the claim of epsilon {float(self.epsilon):g}."
        return (
            f"Epsilon is at least {self.epsilon_lower:.4g} at delta {float(self.delta):g} under "
            f"{self.neighbours.value}, with confidence "
            f"{float(self.confidence):.9g}.{claim}\n"
            f"Measured: {self.event}; {self.hits[0]} of {self.trials} runs on {x!r}, {self.hits[1]} of {self.trials} "
            f"on {y!r}.\n"
            f"Chosen on other runs among {self.pairs} pairs in both orders; so many runs cannot show more than "
            f"{self.detectable:.4g}."
        )


# Exact binomial bounds


def clopper_pearson(hits: Array | list[int], trials: int, tail: float) -> tuple[Floats64, Floats64]:
    """Lower and upper bounds on a probability, each wrong with probability at most ``tail``.

    >>> low, high = clopper_pearson([0, 5, 10], 10, 0.025)
    >>> [round(float(x), 4) for x in (*low, *high)]
    [0.0, 0.1871, 0.6915, 0.3085, 0.8129, 1.0]
    """
    k = np.asarray(hits, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, tail) * (1 - _OUTWARD), 0.0)
        high = np.where(k < trials, betainccinv(k + 1, np.maximum(trials - k, 1), tail), 1.0)
    return low, np.minimum(1.0, high * (1 + _OUTWARD))


def _bounds(hits: Array | list[int], others: Array | list[int], trials: int, tail: float, delta: float) -> Floats64:
    """Lower bounds on epsilon for events with these counts."""
    low, _ = clopper_pearson(hits, trials, tail)
    _, high = clopper_pearson(others, trials, tail)
    over = np.maximum(low - delta * (1 + _OUTWARD), 0.0)
    with np.errstate(divide="ignore"):
        return np.maximum(np.where(over > 0, np.log(over / high) - _OUTWARD, 0.0), 0.0)


def detectable(trials: int, confidence: Rational, delta: Rational = 0) -> float:
    """The largest bound that ``trials`` measured runs on each dataset can give: one always answers yes, the other
    never.

    >>> round(detectable(5000, "0.999"), 2)
    6.49
    """
    tail = _tail(rational(confidence, "confidence", above=0, below=1))
    n = positive_int(trials, "trials")
    return float(_bounds([n], [0], n, tail, float(rational(delta, "delta", minimum=0, below=1)))[0])


def _tail(confidence: Fraction) -> float:
    tail = float((1 - confidence) / 2)
    if tail < 1e-200:
        raise ParameterError("confidence must leave a failure probability of at least 1e-199; use 0.999 or 0.999999")
    return tail * (1 - _OUTWARD)


# Running


def _runner(mechanism: object, output: Callable[[Any], Any] | None, rng: Rng | None) -> Callable[[object], Output]:
    """One run; an exception is an output too, known by its class."""
    if not callable(mechanism):
        raise TypeError(f"the mechanism must be a function of a dataset, not {type(mechanism).__name__}")
    coins = secret_rng(rng)
    wants_rng = takes_rng(mechanism)

    def run(data: object) -> Output:
        try:
            made = mechanism(data, rng=coins) if wants_rng else mechanism(data)
        except Exception as error:
            return _Raised(type(error).__name__, str(error)[:200])
        return read_output(made if output is None else output(made))

    return run


class _Raised(str):
    """An exception as an outcome; its message is kept for the case that nothing else ever happens."""

    message: str

    def __new__(cls, name: str, message: str) -> _Raised:
        made = super().__new__(cls, f"raised {name}")
        made.message = message
        return made


def takes_rng(mechanism: Any) -> bool:
    """Whether a function has a parameter ``rng``."""
    try:
        return "rng" in inspect.signature(mechanism).parameters
    except (TypeError, ValueError):
        return False


def _number(pairs: Iterable[tuple[object, object]]) -> tuple[list[object], list[tuple[int, int]]]:
    """Each dataset once, pairs by their places; datasets that cannot be hashed are told apart by identity."""
    places: dict[Hashable, int] = {}
    listed: list[object] = []
    numbered: list[tuple[int, int]] = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError("pairs must be pairs of neighbouring datasets: [(x, y), ...]")
        both = []
        for data in pair:
            try:
                key: Hashable = (True, data)
                hash(key)
            except TypeError:
                key = (False, id(data))
            if key not in places:
                places[key] = len(listed)
                listed.append(data)
            both.append(places[key])
        numbered.append((both[0], both[1]))
    return listed, numbered


def audit_statistical(
    mechanism: Callable[..., object],
    pairs: Iterable[tuple[object, object]],
    *,
    neighbours: Neighbours | str,
    epsilon: Rational | None = None,
    delta: Rational = 0,
    runs: int = 10_000,
    confidence: Rational = "0.999",
    output: Callable[[Any], Any] | None = None,
    rng: Rng | None = None,
) -> StatisticalAudit:
    """A lower bound on the epsilon of any function of a dataset, from running it.

    ``mechanism(dataset)``, or ``mechanism(dataset, rng=...)`` if it has a parameter of that name, returns a number, a
    text or another hashable value (``output`` turns anything else into one).  ``pairs`` are neighbouring datasets, made
    up or public: they are run and shown.  Half of the ``runs`` on each dataset choose, as many fresh ones measure the
    chosen pair.

    **Guarantees.** The bound exceeds the true epsilon with probability at most ``1 - confidence``, so "violates the
    claim" is a false alarm with at most that probability.  Nothing follows from "consistent with the claim".
    """
    relation = one_of(Neighbours, neighbours, "neighbours")
    claim = None if epsilon is None else rational(epsilon, "epsilon", minimum=0)
    d = rational(delta, "delta", minimum=0, below=1)
    sure = rational(confidence, "confidence", above=0, below=1)
    tail, half = _tail(sure), positive_int(runs, "runs", minimum=20, maximum=MAX_RUNS) // 2
    listed, numbered = _number(pairs)
    if half * (len(listed) + 2) > MAX_RUNS:
        raise TooLargeError(
            f"{len(listed)} datasets with {half} runs each are more than {MAX_RUNS:,} runs; give fewer datasets, such "
            "as the one pair "
            "that you suspect, or fewer runs"
        )
    run = _runner(mechanism, output, rng)
    seen = [Counter(_repeat(run, data, half)) for data in listed]
    _refuse_failures(seen)
    chosen = choose(seen, numbered, lambda here, there: _bounds(here, there, half, tail, float(d)))
    x, y = (listed[i] for i in chosen.pair)
    here, there = (chosen.view.counts(Counter(_repeat(run, data, half))) for data in (x, y))
    members = sorted(chosen.cells)
    hits = int(here[members].sum()), int(there[members].sum())
    found = float(_bounds([hits[0]], [hits[1]], half, tail, float(d))[0])
    shown = [(chosen.view.labels(group)[0], sorted(group)) for group in chosen.view.groups()]
    cells = tuple(
        (name, int(here[group].sum()), int(there[group].sum())) for name, group in shown if (here + there)[group].any()
    )
    return StatisticalAudit(
        found,
        sure,
        claim,
        d,
        relation,
        len(numbered),
        runs,
        (x, y),
        chosen.words,
        hits,
        half,
        detectable(half, sure, d),
        cells,
    )


def _repeat(run: Callable[[object], Output], data: object, times: int) -> Iterator[Output]:
    return (run(data) for _ in range(times))


def _refuse_failures(seen: Sequence[Counter[Output]]) -> None:
    first = next((value for outputs in seen for value in outputs), None)
    if isinstance(first, _Raised) and all(isinstance(value, _Raised) for outputs in seen for value in outputs):
        raise ParameterError(
            f"the mechanism failed in every run ({first}: {first.message}); see that it runs on one of the datasets "
            "first"
        )
