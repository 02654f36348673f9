"""A range of one column: "1 iff lowest <= x <= highest".

A rule is a range of codes ``[l, r)`` with ``0 <= l < r <= N``, or empty: N(N+1)/2 + 1 rules.  Id 0 is the empty range,
then come the ranges by ``l``, then by ``r``.

Kernel.  Let a user hold distinct codes ``p_1 < ... < p_k`` with weights ``w = zeros - ones``.  The mistakes of ``[l,
r)`` are ``ones`` plus the weights inside, so they depend only on the gaps between codes in which ``l`` and ``r`` lie,
and the user's own minimum (and its most mistakes) is a minimum- (maximum-) subarray sum.  As a function of (l, r) the
contribution is constant on rectangles: its mixed differences are non-zero at k(k+1)/2 corners at most.  They are added
up over users in one triangle, and two running sums turn the triangle into scores: O(sum of k**2 + N**2).

No fixed order of ids makes every rectangle of pairs a run of ids, so the scores are kept pair by pair and the domain
must be small: ``MAX_POINTS`` values, a public limit.  Wider domains need a public ``Grid``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import comb, isqrt
from typing import Any, ClassVar

import numpy as np
from attrs import field, frozen

from privpac.arrays import Array, Bytes, Codes, Ints
from privpac.data import Domain, Integers, UserData
from privpac.data.loops import jit, spread, workers
from privpac.errors import TooLargeError
from privpac.guarantee import positive_int
from privpac.law.weights import Weights
from privpac.rules.base import ByAgreement, ColumnCodes, Labellings, OneColumnClass, Predictions, Rule, dense_losses
from privpac.rules.cuts import cut_mistakes, listed_condition, need_order
from privpac.rules.export.expression import Expression, codes_in
from privpac.rules.kernels.cuts import contribution, sort_within_users
from privpac.rules.priors import check_prior, pair_weights, prior_name
from privpac.rules.profile import Profile, Statistic, Step, constant_profile

# Labellings by ranges of one column.
#
# With gaps 0..u between the distinct values of T, the labelling (i, j), i < j, has 1 on the ranks i..j-1, and no 1 at
# all is one more.  Two ranges differ on ``|i - i'| + |j - j'|`` records when they meet and on ``length + length'`` when
# they do not: always on the smaller of the two.  The first is a separable distance transform of ``M`` with nothing
# below the diagonal; the second needs one number for all ranges.


NONE = np.int64(1 << 62)
"""No rule: above every score."""


@jit
def _table_minima(scores: Array, gap: Array, n: int, out: Array) -> Any:
    """From the loss of every range, the least one for every pair of gaps; returns the least one with both ends in one
    gap."""
    same = scores[0]
    at = 1
    for low in range(n):
        for high in range(low + 1, n + 1):
            i, j = gap[low], gap[high]
            if i == j:
                same = min(same, scores[at])
            else:
                out[i, j] = min(out[i, j], scores[at])
            at += 1
    return same


@jit
def _walk(values: Array, weights: Array, held: Array, low: Array, high: Array) -> Any:
    """Least and greatest running sum of ``weights`` over the cuts of every gap; returns the greatest rise inside one
    gap."""
    gap, total, rise, least = 0, 0, 0, 0
    low[0] = high[0] = 0
    for k in range(len(values)):
        while gap < len(held) and held[gap] <= values[k]:
            gap += 1
            # The first cut beyond held[gap - 1] counts every value up to it, this one included where they are equal.
            total_here = total + (weights[k] if held[gap - 1] == values[k] else 0)
            low[gap] = high[gap] = least = total_here
        total += weights[k]
        rise = max(rise, total - least)
        least = min(least, total)
        low[gap], high[gap] = min(low[gap], total), max(high[gap], total)
    while gap < len(held):
        gap += 1
        low[gap] = high[gap] = total
    return rise


@jit
def _transform(costs: Array, place: Array) -> None:
    """``min over (i', j') of |place_i - place_i'| + |place_j - place_j'| + costs[i', j']``, in place, rows and then
    columns."""
    n = len(place)
    for i in range(n):
        for j in range(1, n):
            costs[i, j] = min(
                costs[i, j], costs[i, j - 1] + place[j] - place[j - 1] if costs[i, j - 1] < NONE else NONE
            )
        for j in range(n - 2, -1, -1):
            costs[i, j] = min(
                costs[i, j], costs[i, j + 1] + place[j + 1] - place[j] if costs[i, j + 1] < NONE else NONE
            )
    for i in range(1, n):
        for j in range(n):
            costs[i, j] = min(
                costs[i, j], costs[i - 1, j] + place[i] - place[i - 1] if costs[i - 1, j] < NONE else NONE
            )
    for i in range(n - 2, -1, -1):
        for j in range(n):
            costs[i, j] = min(
                costs[i, j], costs[i + 1, j] + place[i + 1] - place[i] if costs[i + 1, j] < NONE else NONE
            )


def interval_labellings(points: Codes, size: int, profile: Profile, A: int, B: int) -> Labellings:
    """On a domain of ``size`` values."""
    held = np.unique(points)
    gap = np.searchsorted(held, np.arange(size + 1, dtype=np.uint64), side="left")
    least = np.full((len(held) + 1, len(held) + 1), NONE, dtype=np.int64)
    same = _table_minima(dense_losses(profile), gap, size, least)
    return _scored(points, least, int(same), A, B)


def range_labellings(points: Codes, values: Codes, labels: Bytes, A: int, B: int) -> Labellings:
    """The same for single records in W, on a domain of any size: the loss is the positives minus the rise of one
    running sum."""
    held = np.unique(points)
    order = np.argsort(values, kind="stable")
    ordered, weights = values[order], 2 * labels[order].astype(np.int64) - 1
    distinct, first = np.unique(ordered, return_index=True)
    sums = np.add.reduceat(weights, first) if len(distinct) else np.zeros(0, dtype=np.int64)
    low, high = np.zeros(len(held) + 1, dtype=np.int64), np.zeros(len(held) + 1, dtype=np.int64)
    rise = _walk(distinct, sums, held, low, high)
    positives = int(labels.sum())
    least = positives - high[None, :] + low[:, None]
    least[np.tril_indices(len(least))] = NONE
    return _scored(points, least, positives - int(rise), A, B)


def _scored(points: Codes, least: Ints, same: int, A: int, B: int) -> Labellings:
    """``least[i, j]``: the least loss of ranges with 1 on the ranks i..j-1 (``NONE`` unless i < j), ``same`` of those
    with none."""
    held, rank, times = np.unique(points, return_inverse=True, return_counts=True)
    u = len(held)
    place = A * np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(times)])
    rows, columns = np.triu_indices(u + 1, 1)
    costs = np.full((u + 1, u + 1), NONE, dtype=np.int64)
    costs[rows, columns] = B * least[rows, columns]
    lengths = place[columns] - place[rows]
    far = min(B * same, int((lengths + costs[rows, columns]).min()))
    _transform(costs, place)
    scores = np.minimum(costs[rows, columns], lengths + far)

    def labels(i: int) -> Bytes:
        low, high = (rows[i - 1], columns[i - 1]) if i else (0, 0)  # no 1 first, then by the gap of either end
        return ((rank >= low) & (rank < high)).astype(np.uint8)

    return Labellings(np.concatenate([np.array([far], dtype=np.int64), scores]), labels)


MAX_POINTS = 5000
"""The most values a domain may have: 12.5 million rules, 200 MB for their scores."""


@frozen(slots=False, repr=False)
class Interval(Rule):
    """1 iff ``low <= code(x) < high``."""

    saved_as: ClassVar[str] = "interval"
    feature: str
    domain: Domain
    low: int
    high: int
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(self.domain).__name__}")
        positive_int(self.low, "low", minimum=0, maximum=self.domain.size)
        positive_int(self.high, "high", minimum=self.low, maximum=self.domain.size)

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        return range_predictions(codes[self.feature], self.low, self.high)

    def edges(self, column: str) -> tuple[int, int]:
        return self.low, self.high

    def expression(self) -> Expression:
        return codes_in(self.feature, self.low, self.high - 1)

    def condition(self) -> str:
        if self.low == self.high:
            return "never"
        if (self.low, self.high) == (0, self.domain.size):
            return "always"
        if not self.domain.ordered:
            return listed_condition(self.feature, self.domain, self.low, self.high - 1)
        low, high = self.domain.text(self.low), self.domain.text(self.high - 1)
        if self.low + 1 == self.high:
            return f"{self.feature} = {low}"
        if self.low == 0:
            return f"{self.feature} <= {high}"
        return f"{self.feature} >= {low}" if self.high == self.domain.size else f"{low} <= {self.feature} <= {high}"


def range_predictions(codes: Codes, low: int, high: int) -> Predictions:
    return ((codes >= low) & (codes < high)).astype(np.int8)


@jit
def _corners(
    key: Array,
    tag: Array,
    offsets: Array,
    part: int,
    parts: int,
    uses_minimum: bool,
    offset: Array,
    cap: Array,
    levels: int,
    n: int,
    longest: int,
    own: Array,
    triangles: Array,
    empties: Array,
) -> None:
    """Add every user's mixed differences in the rows ``l = part`` modulo ``parts``, one triangle a score, and the empty
    range's scores."""
    place, prefix = np.empty(longest + 1, dtype=np.int64), np.empty(longest + 1, dtype=np.int64)
    values = np.empty(longest + 1, dtype=np.int64)
    for u in range(len(offsets) - 1):
        a, b = offsets[u], offsets[u + 1]
        if a == b:
            continue
        # place[i] is the first l beyond the i-th code, prefix[i] the mistakes of [0, place[i]).
        ones, k = 0, 0
        weight = np.int64(0)
        place[0], prefix[0] = 0, 0
        for i in range(a, b):
            ones += tag[i]
            weight += 1 - 2 * np.int64(tag[i])
            if i + 1 == b or key[i + 1] != key[i]:
                if weight != 0:
                    k += 1
                    place[k], prefix[k] = np.int64(key[i]) + 1, prefix[k - 1] + weight
                weight = np.int64(0)
        least, highest, most, lowest = 0, 0, 0, 0
        for i in range(1, k + 1):
            least, most = min(least, prefix[i] - highest), max(most, prefix[i] - lowest)
            highest, lowest = max(highest, prefix[i]), min(lowest, prefix[i])
        if part == 0:
            own[0, u], own[1, u] = ones + least, ones + most
        minimum = ones + least if uses_minimum else 0
        for v in range(len(cap)):
            triangle = triangles[v]
            for e in range(b - a + 1):
                values[e] = contribution(e, minimum, offset[u], cap[v, u], levels)
            empty = values[ones]
            empties[v] += empty
            for i in range(k + 1):
                left = place[i]
                if left % parts != part:
                    continue
                row = left * (n + 1) - left * (left - 1) // 2 - left
                here = ones - prefix[i]
                if i == 0:
                    for j in range(1, k + 1):
                        triangle[row + place[j]] += values[here + prefix[j]] - values[here + prefix[j - 1]]
                    continue
                # Ranges that start one gap earlier; the pair (i, i) itself is empty.
                before = ones - prefix[i - 1]
                triangle[row + left] += empty - values[before + prefix[i]]
                for j in range(i + 1, k + 1):
                    old = values[before + prefix[j]] - values[before + prefix[j - 1]]
                    triangle[row + place[j]] += values[here + prefix[j]] - values[here + prefix[j - 1]] - old


@jit
def _scores(triangle: Array, n: int, empty: int) -> None:
    """Two running sums, in place: entry ``id`` becomes the score of that id (ids never run ahead of the entries
    read)."""
    column = np.zeros(n + 1, dtype=np.int64)
    out, at = 1, 0
    for left in range(n + 1):
        running = empty
        for right in range(left, n + 1):
            column[right] += triangle[at]
            running += column[right]
            at += 1
            if right > left:
                triangle[out] = running
                out += 1
    triangle[0] = empty


@frozen(slots=False)
class Intervals(OneColumnClass):
    """All ranges of one column.

    Parameters
    ----------
    domain : Domain, optional
        The column's domain; None takes the one that the data declare.
    feature : str, optional
        The column's name; None takes the only one.
    prior : {"auto", "scale-free", "uniform"}
        What hybrid selection does before it sees data: orders of magnitude around zero weigh alike, or all rules do.
        ``"auto"`` is scale-free for a domain of more than 2,000 values.  A declared typical range always weighs more.

    Raises
    ------
    ParameterError
        The domain has no order, or too many values.

    Examples
    --------
    >>> from privpac.data import Grid
    >>> fever = Intervals(Grid(35, 42, 0.1), feature="temperature")
    >>> print(fever.decode(fever.id_of(35, 51), label="mild"))
    mild when 38.5 <= temperature <= 40
    """

    domain: Domain | None = None
    feature: str | None = None
    prior: str = field(default="auto", repr=False)

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {"interval": {}}
    rule_by_rule: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        self.check_domain()
        check_prior(self.prior)
        need_order(self.feature, self.domain)
        if self.domain is not None and self.domain.size > MAX_POINTS:
            raise TooLargeError(
                f"intervals need a domain of at most {MAX_POINTS} values, got {self.domain.size}; "
                "declare a coarser one, such as Grid(lo, hi, step) with a larger step"
            )

    @property
    def size(self) -> int:
        return self._points * (self._points + 1) // 2 + 1

    @property
    def vc_dimension(self) -> int:
        return min(self._points, 2)

    def growth(self, n: int) -> int:
        distinct = min(n, self._points)
        return distinct * (distinct + 1) // 2 + 1

    # What is known

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement("interval")

    @property
    def prior_name(self) -> str:
        return prior_name([self.known_domain], self.prior)

    @cached_property
    def rule_weights(self) -> Weights | None:
        return pair_weights(self.known_domain, self.prior)

    @property
    def mistake_tree_depth(self) -> int:
        return interval_mistakes(self._points)

    def coarsened(self, points: int) -> Intervals:
        return self if self._points <= points else Intervals(Integers(0, points - 1), self.feature, self.prior)

    # Columns and rules

    def id_of(self, low: int, high: int) -> int:
        """The id of the codes ``[low, high)``."""
        positive_int(low, "low", minimum=0, maximum=self._points)
        positive_int(high, "high", minimum=low, maximum=self._points)
        return 0 if low == high else 1 + low * self._points - low * (low - 1) // 2 + high - low - 1

    def split(self, hypothesis: int) -> tuple[int, int]:
        """The codes ``[low, high)`` of an id; (0, 0) is empty."""
        if self.checked(hypothesis) == 0:
            return 0, 0
        # Counted from the last id, the ranges that start at N-1, N-2, ... number 1, 2, ...
        back = self.size - 1 - hypothesis
        row = (isqrt(8 * back + 1) - 1) // 2
        return self._points - 1 - row, self._points - (back - row * (row + 1) // 2)

    def decode(self, hypothesis: int, label: str = "1") -> Interval:
        return Interval(self.column, self.known_domain, *self.split(hypothesis), label)

    def predictions(self, codes: ColumnCodes, hypothesis: int) -> Predictions:
        return range_predictions(codes[self.column], *self.split(hypothesis))

    # Folding

    def empty_profile(self) -> Profile:
        return constant_profile(self.size)

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        offsets, n = users.offsets, self._points
        key, tag = sort_within_users(users.codes[columns[0]], users.labels, offsets)
        sizes = np.diff(offsets)
        offset, cap = statistic.shape(sizes)
        triangles = np.zeros((statistic.n_scores, (n + 1) * (n + 2) // 2), dtype=np.int64)
        own = np.zeros((2, len(sizes)), dtype=np.int64)
        rest = (statistic.uses_minimum, offset, cap, statistic.bound, n, int(sizes.max(initial=0)), own, triangles)
        parts = workers() if len(key) > 1 << 14 else 1
        # Threads own rows, so that one triangle serves them all; each of them sees the score of the empty range.
        empties = np.zeros((parts, statistic.n_scores), dtype=np.int64)
        spread(
            lambda part, of: _corners(key, tag, offsets, part, of, *rest, empties[part]),
            [(p, parts) for p in range(parts)],
        )
        steps = []
        for v, triangle in enumerate(triangles):
            _scores(triangle, n, int(empties[0, v]))
            scores = triangle[: self.size]
            first = np.concatenate([[True], scores[1:] != scores[:-1]])
            starts = np.flatnonzero(first) if 4 * int(first.sum()) < self.size else np.arange(self.size)
            steps.append(Step(v * self.size, starts.astype(np.uint64), self.size - 1, scores[starts]))
        return Profile(tuple(steps), statistic.optimism(sizes, own))

    # Labellings

    def _labellings(self, codes: ColumnCodes, rest: UserData, A: int, B: int, levels: int) -> Labellings:
        name = self.column
        if int(rest.sizes.max(initial=0)) <= 1:
            assert rest.labels is not None
            return range_labellings(codes[name], rest.codes[name], rest.labels, A, B * levels)
        return interval_labellings(codes[name], self._points, self.losses(rest, levels), A, B)

    def deciding_records(self, codes: ColumnCodes, labels: Bytes) -> tuple[ColumnCodes, Bytes]:
        """An interval that holds the lowest and the highest 1 and not the nearest 0 on either side fits all records, if
        any interval does; without a 1 the empty one, id 0, fits."""
        ((name, points),) = codes.items()
        ones = np.flatnonzero(labels == 1)
        if len(ones) == 0:
            return {name: points[:0]}, labels[:0]
        low, high = ones[np.argmin(points[ones])], ones[np.argmax(points[ones])]
        zeros = np.flatnonzero(labels == 0)
        left, right = zeros[points[zeros] <= points[low]], zeros[points[zeros] >= points[high]]
        inside = zeros[(points[zeros] >= points[low]) & (points[zeros] <= points[high])]
        keep = [low, high, *(left[[np.argmax(points[left])]] if len(left) else ()), *inside[:1]]
        keep += [right[np.argmin(points[right])]] if len(right) else []
        chosen = np.unique(np.array(keep, dtype=np.int64))
        return {name: points[chosen]}, labels[chosen]

    def dichotomies(self, codes: ColumnCodes) -> Iterator[tuple[Predictions, int, int]]:
        points = codes[self.column]
        starts = [0, *(int(code) + 1 for code in np.unique(points).tolist())]
        widths = [b - a for a, b in zip(starts, [*starts[1:], self._points + 1])]
        # Both ends in one gap between points: nothing is inside.
        yield range_predictions(points, 0, 0), 0, 1 + sum(comb(width, 2) for width in widths)
        for i, (low, left) in enumerate(zip(starts, widths)):
            for high, right in zip(starts[i + 1 :], widths[i + 1 :]):
                yield range_predictions(points, low, high), self.id_of(low, high), left * right


def interval_mistakes(points: int) -> int:
    """The same for the intervals that hold one point ``c``: ``c + 1`` left ends and ``points - c`` right ends, one
    after the other."""
    return max(k + cut_mistakes(points - (1 << k)) for k in range(points.bit_length()))
