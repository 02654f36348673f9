"""One question about any one of several columns: "1 iff x_j > value" or "1 iff x_j <= value", and of categories without
an order "1 iff x_j is value" or "1 iff x_j is not value".

Ids run over features in declared order, then directions (above, below), then cuts 0..N_j.  Where the values have no
order, the directions are "is" and "is not", and ids 0..N_j are the codes and one that nobody has: the rule that never
(always) says 1.  Rules that predict alike, such as the constants of every feature, stay and count in ``size``.  A
user's own best rule is the best over *all* features and directions; after that the profile is one step function per
feature and direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from math import comb
from typing import Any, ClassVar

import numpy as np
from attrs import field, frozen

from privpac.arrays import Array, Bools, Bytes, Codes, Ints
from privpac.data import Domain, Integers, UserData
from privpac.data.loops import jit
from privpac.errors import ParameterError
from privpac.law.weights import Weights
from privpac.result import WideInt
from privpac.rules.base import (
    ByAgreement,
    ColumnCodes,
    FewValues,
    Frozen,
    Labellings,
    Layout,
    Poll,
    Predictions,
    Rule,
)
from privpac.rules.cuts import (
    DIRECTIONS,
    VALUE_DIRECTIONS,
    Labelling,
    LineClass,
    check_cut,
    check_directions,
    cut_condition,
    cut_expression,
    cut_labellings,
    cut_mistakes,
    cut_poll,
    cut_predictions,
    gap_minima,
    merged,
    value_labellings,
)
from privpac.rules.enumerated import NamedColumns, domains_of, domains_or_none, frozen_columns
from privpac.rules.export.expression import Expression
from privpac.rules.kernels.cuts import Line
from privpac.rules.priors import check_prior, column_weights, prior_name
from privpac.rules.profile import Profile, Step

# Labellings by cuts of one of several columns, or by single values where a column has no order.
#
# For the cut i of column k and the cut j of column g let ``X(i, j)`` be the records of T that "above i" and "above j"
# label differently. Moving i past a record flips one label of h: X grows by 1 for the cuts j up to that record's rank
# in g and shrinks by 1 beyond.  A tree over j of (sum, least prefix sum) of differences takes that as one point change
# and has the minimum of ``+-A X + B M`` at its root, so a sweep costs O(t log t) for each pair of columns and
# directions.
#
# A column without an order has one labelling for every value held in T and one for all others, each with its
# complement. How many records hold a value and lie below the cuts, or hold the values, of another column says in how
# many labels any two of them differ: all pairs with such a column are compared, value by value.
#
# Labellings of different columns may coincide (the two constants always do).  Each must be listed once: equal
# labellings have equal sums of per-record words, and those with equal sums are compared bit by bit.


_FAR = np.int64(1 << 61)


@jit
def _update(sums: Array, least: Array, leaf: int, change: object) -> None:
    sums[leaf] += change
    least[leaf] += change
    node = leaf >> 1
    while node >= 1:
        left = 2 * node
        sums[node] = sums[left] + sums[left + 1]
        least[node] = min(least[left], sums[left] + least[left + 1])
        node >>= 1


@jit
def _sweep(order: Array, ends: Array, rank: Array, values: Array, cost: Any, out: Array) -> None:
    """``out[i] = min(out[i], min over j)`` while the cut of h passes the records ``order``, ``ends[i]`` of them before
    cut i.

    ``values[j]`` belong to cut 0; passing a record adds ``cost`` for the cuts j up to its ``rank`` and subtracts it
    beyond.
    """
    width = 1
    while width < len(values):
        width *= 2
    sums, least = np.zeros(2 * width, dtype=np.int64), np.full(2 * width, _FAR, dtype=np.int64)
    for j in range(len(values)):
        sums[width + j] = least[width + j] = values[j] - (values[j - 1] if j else 0)
    for node in range(width - 1, 0, -1):
        left = 2 * node
        sums[node] = sums[left] + sums[left + 1]
        least[node] = min(least[left], sums[left] + least[left + 1])
    base, done = np.int64(0), 0
    for i in range(len(out)):
        while done < ends[i]:
            base += cost
            _update(sums, least, width + rank[order[done]] + 1, -2 * cost)
            done += 1
        out[i] = min(out[i], base + least[1])


@frozen(slots=False)
class _Column:
    """One column of T: every record's rank among the held values, and per direction what each labelling costs.

    ``below[i]``: records below the cut i.  Without an order ``times[i]`` records have the value i, and nobody has the
    last one, which stands for all values that are not held.
    """

    rank: Ints
    times: Ints
    costs: list[Ints]
    ordered: bool

    @cached_property
    def below(self) -> Ints:
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.times)])

    @property
    def places(self) -> int:
        return len(self.costs[0])

    def says(self, i: int) -> Bools:
        """The labels of a place in the first direction."""
        return self.rank >= i if self.ordered else self.rank == i

    def sums(self, weights: Array) -> Array:
        """The sum of the weights of the records that each place labels 1 in the first direction."""
        by_rank = np.zeros(self.places, dtype=weights.dtype)
        np.add.at(by_rank, self.rank, weights)
        if not self.ordered:
            return by_rank
        return np.cumsum(by_rank[::-1], dtype=weights.dtype)[::-1]


def _read(codes: Codes, steps: Sequence[Step], directions: int, B: int, ordered: bool) -> _Column:
    """``steps``: two for each direction."""
    held, rank, times = np.unique(codes, return_inverse=True, return_counts=True)
    pairs = [(steps[2 * d], steps[2 * d + 1]) for d in range(directions)]
    found = [gap_minima(*pair, held) if ordered else _value_minima(*pair, held) for pair in pairs]
    # Without an order the value that nobody has comes last.
    counts = times.astype(np.int64) if ordered else np.append(times, 0).astype(np.int64)
    return _Column(rank.astype(np.int64), counts, [B * cost for cost in found], ordered)


def _value_minima(values: Step, nobody: Step, held: Codes) -> Ints:
    """The loss of every held value, and the least one of all others."""
    every = values.scores[np.searchsorted(values.starts, np.arange(values.end + 1, dtype=np.uint64), side="right") - 1]
    others = np.append(np.delete(every, held.astype(np.int64)), nobody.scores)
    return np.append(every[held.astype(np.int64)], others.min())


def stump_labellings(
    columns: Sequence[tuple[Codes, bool]], directions: tuple[str, ...], profile: Profile, A: int, B: int
) -> Labellings:
    """``columns``: the codes of each, and whether it is ordered."""
    size, ways = len(columns[0][0]), len(directions)
    read = [_read(codes, profile.steps[2 * ways * k :], ways, B, ordered) for k, (codes, ordered) in enumerate(columns)]
    scores = [[np.full(column.places, _FAR, dtype=np.int64) for _ in directions] for column in read]
    for k, column in enumerate(read):
        if not column.ordered:
            _by_value(read, scores, k, A, size)
            continue
        order = np.argsort(column.rank, kind="stable")
        for other in read:
            if not other.ordered:
                continue
            for h in range(ways):
                for f in range(ways):
                    # Opposite directions agree exactly where equal ones differ: A (t - X) instead of A X; X(0, j) =
                    # records below j.
                    cost = A if h == f else -A
                    start = cost * other.below + (0 if h == f else A * size) + other.costs[f]
                    _sweep(order, column.below, other.rank, start, np.int64(cost), scores[k][h])
    where = [(k, d, i) for k, column in enumerate(read) for d in range(ways) for i in range(column.places)]

    def bits(place: tuple[int, int, int]) -> Bytes:
        k, d, i = place
        said = read[k].says(i)
        return (said if directions[d] == "above" else ~said).astype(np.uint8)

    keep = _distinct(where, read, directions, size, bits)
    listed = np.concatenate([part for column in scores for part in column])[keep]
    kept = [where[i] for i in keep.tolist()]
    return Labellings(listed, lambda i: bits(kept[i]))


def _by_value(read: list[_Column], scores: list[list[Ints]], k: int, A: int, size: int) -> None:
    """Compare every value of the column k with all labellings of all columns, both ways."""
    column = read[k]
    ways = range(len(column.costs))
    ones = [other.sums(np.ones(size, dtype=np.int64)) for other in read]
    for i in range(column.places):
        mine = column.says(i).astype(np.int64)
        for g, other in enumerate(read):
            # Records that one of the two labels 1: all of both, less twice those of both together.
            differ = int(mine.sum()) + ones[g] - 2 * other.sums(mine)
            for h in ways:
                for f in ways:
                    distance = A * (differ if h == f else size - differ)
                    scores[k][h][i] = min(int(scores[k][h][i]), int((distance + other.costs[f]).min()))
                    np.minimum(scores[g][f], distance + column.costs[h][i], out=scores[g][f])


def _distinct(where: list[tuple[int, int, int]], read: list[_Column], directions: Any, size: int, bits: Any) -> Ints:
    """The first place of every labelling."""
    words = _mixed(np.arange(1, size + 1, dtype=np.uint64))
    total = words.sum(dtype=np.uint64)
    keys: list[Codes] = []
    for column in read:
        sums = column.sums(words)
        keys += [sums if direction == "above" else total - sums for direction in directions]
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    group = np.cumsum(
        np.concatenate([np.zeros(1, dtype=np.int64), (np.diff(key[order].view(np.int64)) != 0).astype(np.int64)])
    )
    keep = np.ones(len(key), dtype=bool)
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    for a, b in zip(starts.tolist(), [*starts[1:].tolist(), len(key)]):
        if b - a == 1:
            continue
        seen: list[Bytes] = []
        for i in order[a:b].tolist():  # a stable sort: in order of places
            labels = bits(where[i])
            if any(np.array_equal(labels, other) for other in seen):
                keep[i] = False
            else:
                seen.append(labels)
    return np.flatnonzero(keep)


def _mixed(x: Codes) -> Codes:
    """Words that differ in about half their bits; only to find candidates for an exact comparison."""
    x = x * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@frozen(slots=False, repr=False)
class Stump(Rule):
    """A cut on one of several columns, or one value of it; arrays have all the columns, frames need only the one read.

    ``cut`` is the first code above the cut; with the direction "is" or "is not" it is the code asked for, and the
    number of codes where none is.
    """

    saved_as: ClassVar[str] = "stump"
    columns: Frozen[Domain] = field(converter=frozen_columns)
    feature: str
    cut: WideInt
    direction: str = "above"
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        if self.feature not in self.columns:
            raise ParameterError(f"feature must be one of {list(self.columns)}, got {self.feature!r}")
        check_cut(self.columns[self.feature], self.cut, self.direction, (*DIRECTIONS, *VALUE_DIRECTIONS))

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.feature,)

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        return cut_predictions(codes[self.feature], self.cut, self.direction)

    def edges(self, column: str) -> tuple[int, ...]:
        return (self.cut,)

    def condition(self) -> str:
        return cut_condition(self.feature, self.columns[self.feature], self.cut, self.direction)

    def expression(self) -> Expression:
        return cut_expression(self.feature, self.columns[self.feature], self.cut, self.direction)


@frozen(slots=False)
class Stumps(NamedColumns, LineClass):
    """All cuts of all the given columns, of unordered categories all values; ``domains=None`` takes every feature of
    the data.

    Parameters
    ----------
    domains : mapping of names to domains, or names, optional
        The columns; None takes every feature of the data.
    direction : {"both", "above", "below"}
        On which sides of a cut a rule may say 1.
    prior : {"auto", "scale-free", "uniform"}
        What hybrid selection does before it sees data: orders of magnitude around zero weigh alike, or all rules do.
        ``"auto"`` is scale-free if any column has more than 2,000 values.  A declared typical range always weighs more.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> stumps = Stumps({"age": Integers(0, 120), "dose": Integers(0, 9)})
    >>> stumps.size, str(stumps.decode(2 * 122 + 5, label="cured"))
    (266, 'cured when dose > 4')
    >>> from privpac.data import Categories
    >>> stumps = Stumps({"carrier": Categories(["9E", "AA", "B6"])})
    >>> [str(stumps.decode(id, label="late")) for id in (0, 3, 4, 7)]
    ['late when carrier is 9E', 'late never', 'late when carrier is not 9E', 'late always']
    """

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {"stump": {}}

    domains: Frozen[Domain | None] | None = field(default=None, converter=domains_or_none)
    direction: str = "both"
    prior: str = field(default="auto", repr=False)

    def __attrs_post_init__(self) -> None:
        check_directions(self.direction)
        check_prior(self.prior)

    @property
    def directions(self) -> tuple[str, ...]:
        return DIRECTIONS if self.direction == "both" else (self.direction,)

    @property
    def columns(self) -> Frozen[Domain | None] | None:
        """The columns in order, None before the class is bound to data."""
        return self.domains

    @cached_property
    def _domains(self) -> dict[str, Domain]:
        if self.columns is None:
            raise ParameterError("this class has no columns yet: Stumps({'age': Integers(0, 120)}), or bind it to data")
        return domains_of(self.columns)

    @cached_property
    def _bases(self) -> list[int]:
        """The first id of every feature, and the number of ids."""
        return list(
            accumulate((len(self.directions) * (domain.size + 1) for domain in self._domains.values()), initial=0)
        )

    @property
    def size(self) -> int:
        return self._bases[-1]

    @property
    def vc_dimension(self) -> int:
        """The largest n that passes both tests; never too small, and exact for one column in both directions.

        A column in one direction labels n points by a chain of sets, so among the sets of floor(n/2) points it gives at
        most one, and shattering needs C(n, floor(n/2)) chains (Sperner).  A column without an order labels them by the
        parts of a partition and their complements: two of these have floor(n/2) points, of three points each part may
        be one.  And shattering needs 2**n - 2 sets that are not constant.
        """

        def chains(n: int) -> int:
            ways = (
                len(self.directions) if domain.ordered else min(domain.size, 3 if n == 3 else 2)
                for domain in self._domains.values()
            )
            return sum(ways)

        n = 1
        while comb(n + 1, (n + 1) // 2) <= chains(n + 1) and self._bound(n + 1) >= 1 << (n + 1):
            n += 1
        return n

    def _bound(self, n: int) -> int:
        """Both constants, and what every column can add: ``min(n, N) - 1`` cuts in each direction, or each of the
        ``min(n, N)`` values and, where there are more than two, its complement."""

        def adds(domain: Domain) -> int:
            held = min(max(n, 1), domain.size)
            if domain.ordered:
                return len(self.directions) * (held - 1)
            return held * (len(self.directions) if held > 2 else 1) if held > 1 else 0

        return 2 + sum(map(adds, self._domains.values()))

    def growth(self, n: int) -> int:
        return min(1 << n, self._bound(n)) if n < 64 else self._bound(n)

    # What is known

    @property
    def lines(self) -> Mapping[str, Line]:
        columns = zip(self._domains.items(), self._bases)
        return {name: Line(domain.size, base, domain.ordered) for (name, domain), base in columns}

    @property
    def prior_name(self) -> str:
        return prior_name(list(self._domains.values()), self.prior)

    @cached_property
    def rule_weights(self) -> Weights | None:
        return column_weights(list(self._domains.values()), len(self.directions), self.prior)

    @property
    def _ordered(self) -> bool:
        """Whether every rule is a cut."""
        return all(domain is None or domain.ordered for domain in (self.columns or {}).values())

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        return "cuts" if self._ordered else "listed"

    @property
    def shattered_points(self) -> int:
        """The subsets of n points split into C(n, n/2) chains (Dilworth), and a column of n values or more orders the
        points along one chain; both directions of one column shatter two points, or three values without an order."""
        cut = [domain.size for domain in self._domains.values() if domain.ordered]
        n = max((n for n in range(1, 17) if comb(n, n // 2) <= sum(size >= n for size in cut)), default=1)
        if len(self.directions) < 2:
            return n
        return max(n, *(min(domain.size, 2 if domain.ordered else 3) for domain in self._domains.values()))

    @property
    def mistake_tree_depth(self) -> int:
        return max((cut_mistakes(domain.size) for domain in self._domains.values() if domain.ordered), default=0)

    @property
    def few_values(self) -> FewValues | None:
        if self.columns is None or self.direction != "both" or not self._ordered:
            return None
        return FewValues("stumps", tuple(domain.size + 1 for domain in self.columns.values() if domain is not None))

    @property
    def by_agreement(self) -> ByAgreement:
        # Two values have the same rules with an order and without.
        if any(
            domain is not None and not domain.ordered and domain.size > 2 for domain in (self.columns or {}).values()
        ):
            return ByAgreement("stump", only_with="ordered columns (for one column of categories use Points)")
        return ByAgreement("stump", only_with="" if self.direction == "both" else "direction='both'")

    def coarsened(self, points: int) -> Stumps:
        if self._ordered:
            return self
        coarse = {
            name: Integers(0, points - 1) if domain.ordered and domain.size > points else domain
            for name, domain in self._domains.items()
        }
        return self.with_columns(coarse)

    # Columns and rules

    def split(self, hypothesis: int) -> tuple[str, int, str]:
        """Feature, cut and direction of an id; for values without an order their code, and "is" or "is not"."""
        self.checked(hypothesis)
        which = next(i for i, base in enumerate(self._bases[1:]) if hypothesis < base)
        feature = list(self._domains)[which]
        domain = self._domains[feature]
        which_way, cut = divmod(hypothesis - self._bases[which], domain.size + 1)
        direction = self.directions[which_way]
        return feature, cut, direction if domain.ordered else VALUE_DIRECTIONS[DIRECTIONS.index(direction)]

    def decode(self, hypothesis: int, label: str = "1") -> Stump:
        feature, cut, direction = self.split(hypothesis)
        return Stump(self._domains, feature, cut, direction, label)

    def predictions(self, codes: ColumnCodes, hypothesis: int) -> Predictions:
        feature, cut, direction = self.split(hypothesis)
        return cut_predictions(codes[feature], cut, direction)

    def poll(self, hypotheses: Sequence[int]) -> Poll:
        return cut_poll([self.split(hypothesis) for hypothesis in hypotheses], list(self._domains))

    # Labellings

    def _labellings(self, codes: ColumnCodes, rest: UserData, A: int, B: int, levels: int) -> Labellings:
        columns = [(codes[name], domain.ordered) for name, domain in self._domains.items()]
        return stump_labellings(columns, self.directions, self.losses(rest, levels), A, B)

    def dichotomies(self, codes: ColumnCodes) -> Iterator[Labelling]:
        return merged(
            labelling
            for name, line in self.lines.items()
            for labelling in (cut_labellings if line.cuts else value_labellings)(
                codes[name], line.size, self.directions, line.base
            )
        )
